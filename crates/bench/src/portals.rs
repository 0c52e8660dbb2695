//! Portals 4 over Packhorse, as its programs see it: the paper's double buffering, and puts there and back or one way, in C against `libportals`.
//!
//! Each side compiles a program of `faces/portals4/examples` and starts its own half; the line by which the two come to know each other is the
//! process's nid and pid. Puts stand beside Packhorse's own (`puts`). Other patterns are not written for Portals.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::hosts;
use crate::offload::doublebuf::{FAST_FACTOR, SLOW_RATE};
use crate::ours;
use crate::system::{Control, Job, Outcome, Pattern, Role, System};
use crate::variant::Bound;

const DOUBLEBUF: &str = include_str!("../../../faces/portals4/examples/doublebuf.c");
const PUTS: &str = include_str!("../../../faces/portals4/examples/puts.c");
const HEADER: &str = include_str!("../../../faces/portals4/include/portals4.h");

/// Folders to look for the library in, seen from the program's own: where `cargo xtask install` puts it, and `cargo xtask portals`.
const PLACES: [&str; 3] = ["../lib", "../portals", "."];

/// Portals 4 over Packhorse.
pub struct Portals;

/// A folder with the program; removed with it.
struct Program {
    folder: PathBuf,
    library: PathBuf,
}

impl Program {
    fn compile(text: &str) -> Result<Self> {
        let library = library()?;
        let folder = std::env::temp_dir().join(format!("packhorse-portals-{}", std::process::id()));
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let program = Self { folder, library };
        fs::write(program.folder.join("portals4.h"), HEADER)?;
        let source = program.folder.join("half.c");
        fs::write(&source, text)?;
        let mut cc = Command::new("cc");
        cc.args(["-std=gnu11", "-O2", "-o"]).args([&program.path(), &source]);
        cc.arg("-I").arg(&program.folder).arg("-L").arg(&program.library).arg("-lportals");
        let output = cc.output().context("cannot run cc; install gcc")?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "cc failed: {}", said.trim());
        Ok(program)
    }

    fn path(&self) -> PathBuf {
        self.folder.join("half")
    }

    fn start(&self, job: &Job) -> Result<Child> {
        let mut command = Command::new(self.path());
        command.args(words(job));
        command.env("LD_LIBRARY_PATH", &self.library);
        if job.bind.is_loopback() {
            command.env("PTL_IFACE_NAME", "lo");
        } else if job.manner.other.is_some() {
            command.env("PTL_IFACE_NAME", hosts::INTERFACE);
        }
        if !job.link.is_empty() {
            command.env("PACKHORSE_LINK", &job.link);
        }
        if !job.placement.is_empty() {
            command.env("PACKHORSE_PLACEMENT", &job.placement);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command.spawn().context("cannot start the program")
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// What a half is told: its role, length and time, then rates or how many puts are on their way.
fn words(job: &Job) -> Vec<String> {
    let role = match (job.pattern, job.role) {
        (Pattern::PingPong, Role::Active) => "ping",
        (Pattern::PingPong, Role::Passive) => "pong",
        (Pattern::Stream, Role::Active) => "pour",
        (Pattern::Stream, Role::Passive) => "count",
        (_, Role::Active) => "produce",
        (_, Role::Passive) => "consume",
    };
    let mut words = vec![role.to_owned(), job.bytes.to_string(), job.seconds.to_string()];
    match job.pattern {
        Pattern::PingPong => words.push("1".to_owned()),
        Pattern::Stream => words.push(ours::depth(job).to_string()),
        _ => {
            let slow = job.manner.slow_rate.unwrap_or(SLOW_RATE).max(1);
            let fast = slow.saturating_mul(FAST_FACTOR);
            let is_consumer_bound = job.variant.bound == Some(Bound::Consumer);
            let rates = if is_consumer_bound { [fast, slow] } else { [slow, fast] };
            words.extend(rates.map(|rate| rate.to_string()));
        }
    }
    words
}

/// The folder with the library.
fn library() -> Result<PathBuf> {
    let program = std::env::current_exe().context("cannot tell where this program lies")?;
    let here = program.parent().unwrap_or(Path::new("/"));
    let folders = PLACES.map(|place| here.join(place));
    let found = folders.iter().find(|folder| folder.join("libportals.so").exists());
    found.cloned().with_context(|| {
        let looked = folders.map(|folder| folder.display().to_string()).join(", ");
        format!("libportals.so is not there; looked in {looked}. Install everything (cargo xtask install --prefix ~/.local)")
    })
}

impl System for Portals {
    fn name(&self) -> &'static str {
        "portals"
    }

    fn is_usual(&self, _is_two_hosts: bool) -> bool {
        false // only where it is asked for: it needs a compiler
    }

    fn can_play(&self, pattern: Pattern, _is_two_hosts: bool) -> bool {
        matches!(pattern, Pattern::DoubleBuf | Pattern::PingPong | Pattern::Stream)
    }

    fn can_be_apart(&self) -> bool {
        false // it is not known which interface leads to another machine
    }

    fn can_be_in_namespaces(&self) -> bool {
        true
    }

    fn run(&self, job: &Job, control: &mut dyn Control) -> Result<Outcome> {
        let program = Program::compile(match job.pattern {
            Pattern::DoubleBuf => DOUBLEBUF,
            Pattern::PingPong | Pattern::Stream => PUTS,
            other => bail!("Portals does not play {}", other.name()),
        })?;
        let mut child = program.start(job)?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let mut input = input.context("a pipe was asked for")?;
        let mut lines = BufReader::new(output.context("a pipe was asked for")?).lines();
        let mut line = || lines.next().context("the program ended early")?.context("its words");
        let played = (|| {
            let other = control.exchange(&line()?)?;
            writeln!(input, "{other}").context("the program does not listen")?;
            let figures = line()?;
            serde_json::from_str::<Outcome>(&figures)
                .with_context(|| format!("odd figures: {figures}"))
        })();
        if played.is_err() {
            let _ = child.kill();
        }
        let status = child.wait()?;
        let outcome = played?;
        ensure!(status.success(), "the program failed ({status})");
        Ok(outcome)
    }
}
