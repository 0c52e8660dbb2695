//! MPI programs in everyday life: interrupted, killed, stopped for a while, with children, waiting, started again and again.
//!
//! Open MPI under `packhorse run`, as a user has it; the program is `faces/ofi/tests/mpi/life.c`. What counts is the end:
//! in bounded time, with the bytes right, and with no process left. `cargo xtask test` has the short form (`run_all`), `cargo xtask
//! conformance` the long one (`run_long`).

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

use super::{installed_program, text};
use crate::install::target;
use crate::steps::{command, output, run};

/// An end that has not come by then does not come.
const PATIENCE: Duration = Duration::from_secs(60);
/// In the short form and in the long one.
const CYCLE_COUNTS: [usize; 2] = [20, 100];
const STOPS: [Duration; 2] = [Duration::from_secs(2), Duration::from_secs(30)];
/// What starting and ending may take longer than over libfabric's own TCP, and how often that is tried: what the transport waits for it
/// waits for each time, what else a machine has to do passes.
const ADDED_MS_MAX: u64 = 1000;
const TRIES: usize = 3;

/// All of it.
pub(crate) fn run_all() -> Result<()> {
    super::build()?;
    let stage = Stage::compile()?;
    stage.children().context("children of a rank")?;
    stage.interrupted().context("mpirun interrupted")?;
    stage.killed().context("a rank killed")?;
    println!("      {}", stage.stopped(STOPS[0]).context("a rank stopped for a while")?);
    println!("      {}", stage.cycles(CYCLE_COUNTS[0]).context("started again and again")?);
    Ok(())
}

/// What takes minutes; a line that says how it went.
pub(super) fn run_long() -> Result<String> {
    let stage = Stage::compile()?;
    let stopped = stage.stopped(STOPS[1]).context("a rank stopped for long")?;
    let cycles = stage.cycles(CYCLE_COUNTS[1]).context("started again and again")?;
    Ok(format!("{stopped}; {cycles}"))
}

struct Stage {
    program: PathBuf,
}

impl Stage {
    fn compile() -> Result<Self> {
        let folder = target().join("mpi");
        std::fs::create_dir_all(&folder)?;
        let program = folder.join("life");
        run(command(
            "mpicc",
            ["-O2", "-Wall", "-o", text(&program)?, "faces/ofi/tests/mpi/life.c"],
        ))?;
        Ok(Self { program })
    }

    /// Two ranks over Packhorse.
    fn over_packhorse(&self, words: &str) -> Result<Command> {
        let mut launch = command(text(&installed_program())?, ["run", "mpirun"]);
        self.add_ranks(&mut launch, words);
        Ok(launch)
    }

    fn over_fabric_tcp(&self, words: &str) -> Command {
        let choice = "--mca pml cm --mca mtl ofi --mca mtl_ofi_provider_include tcp";
        let mut launch = command("mpirun", choice.split_whitespace());
        launch.env("FI_PROVIDER", "tcp");
        self.add_ranks(&mut launch, words);
        launch
    }

    fn add_ranks(&self, launch: &mut Command, words: &str) {
        launch
            .args(["--host", "localhost:2", "-n", "2"])
            .arg(&self.program)
            .args(words.split_whitespace());
        launch.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    }

    /// Begins work that would go on for long, and learns who the ranks are.
    fn begin(&self, words: &str) -> Result<Work> {
        let mut launch = self.over_packhorse(words)?;
        launch.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut launcher = launch.spawn().context("packhorse could not be started")?;
        let mut said = BufReader::new(launcher.stdout.take().context("no pipe")?);
        let mut ranks = [0; 2];
        while ranks.contains(&0) {
            let mut line = String::new();
            ensure!(said.read_line(&mut line)? > 0, "the ranks did not begin");
            let words: Vec<&str> = line.split_whitespace().collect();
            if let ["rank", rank, "is", id] = words[..] {
                let rank: usize = rank.parse().context("a rank")?;
                *ranks.get_mut(rank).context("a rank too many")? =
                    id.parse().context("a process id")?;
            }
        }
        Ok(Work { launcher, said, ranks })
    }

    fn children(&self) -> Result<()> {
        let said = output(self.over_packhorse("fork 9")?)?;
        ensure!(said.matches("ends well").count() == 2, "not every rank came to its end:\n{said}");
        println!("      fork, system and popen during transfers: bytes right");
        Ok(())
    }

    fn interrupted(&self) -> Result<()> {
        let mut work = self.begin("work 1000")?;
        signal("INT", work.launcher.id())?; // the launcher has taken the place of `packhorse`
        let (status, took) = work.end()?;
        ensure!(!status.success(), "an interrupted run ended with {status}");
        work.must_be_gone()?;
        println!("      interrupted: all gone after {} ms", took.as_millis());
        Ok(())
    }

    fn killed(&self) -> Result<()> {
        let mut work = self.begin("work 1000")?;
        signal("KILL", work.ranks[1])?;
        let (status, took) = work.end()?;
        ensure!(!status.success(), "a run whose rank was killed ended with {status}");
        work.must_be_gone()?;
        let mut complaint = String::new();
        if let Some(mut pipe) = work.launcher.stderr.take() {
            std::io::Read::read_to_string(&mut pipe, &mut complaint)?;
        }
        ensure!(complaint.contains("rank 1"), "nobody says which rank it was:\n{complaint}");
        println!(
            "      a rank killed: the others gone after {} ms, the error names it",
            took.as_millis()
        );
        Ok(())
    }

    fn stopped(&self, span: Duration) -> Result<String> {
        let mut work = self.begin(&format!("work {}", span.as_secs() + 1))?;
        signal("STOP", work.ranks[1])?;
        thread::sleep(span);
        signal("CONT", work.ranks[1])?;
        let (status, _) = work.end()?;
        let span_s = span.as_secs();
        ensure!(status.success(), "after a stop of {span_s} s the run ended with {status}");
        Ok(format!("a rank stopped for {span_s} s: the run ends well"))
    }

    /// Starts and ends in time, in one of a few tries; a run that fails is not tried again.
    fn cycles(&self, count: usize) -> Result<String> {
        let mut late = Vec::new();
        for _ in 0..TRIES {
            let times = self.times(count)?;
            let said = times.iter().map(|(what, [ours, own])| {
                format!("{what}, median of {count}: {ours} ms, with libfabric's TCP {own} ms")
            });
            let said = said.collect::<Vec<_>>().join("; ");
            if times.iter().all(|(_, [ours, own])| *ours < own + ADDED_MS_MAX) {
                return Ok(said);
            }
            late.push(said);
        }
        bail!("it takes too long, each time: {}", late.join("; again: "))
    }

    /// Of what begins and ends a program: medians of runs taken in turn, since a machine that tests has other things to do now and then.
    /// Ours, and with libfabric's own TCP: what libfabric takes to look for cards of all kinds is not ours.
    fn times(&self, count: usize) -> Result<[(&'static str, [u64; 2]); 2]> {
        const OURS_PER_OWN: usize = 4;
        let (mut ours, mut own) = (Vec::new(), Vec::new());
        for cycle in 0..count {
            ours.push(brief(self.over_packhorse("brief")?)?);
            if cycle % OURS_PER_OWN == 0 {
                own.push(brief(self.over_fabric_tcp("brief"))?);
            }
        }
        let medians =
            |at: usize| [&ours, &own].map(|all| median(all.iter().map(|times| times[at])));
        Ok([("MPI_Init", medians(0)), ("MPI_Finalize", medians(1))])
    }
}

/// A run under way.
struct Work {
    launcher: Child,
    said: BufReader<ChildStdout>,
    ranks: [u32; 2],
}

impl Work {
    /// Waits for the end, not for ever.
    fn end(&mut self) -> Result<(ExitStatus, Duration)> {
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            if let Some(status) = self.launcher.try_wait()? {
                return Ok((status, began.elapsed()));
            }
            thread::sleep(Duration::from_millis(10));
        }
        bail!("the run has not ended after {} s", PATIENCE.as_secs())
    }

    fn must_be_gone(&self) -> Result<()> {
        let began = Instant::now();
        let is_there = |id: &u32| Path::new(&format!("/proc/{id}")).exists();
        while let Some(rank) = self.ranks.iter().position(is_there) {
            let id = self.ranks[rank];
            ensure!(began.elapsed() < PATIENCE, "rank {rank} (process {id}) was left behind");
            thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }
}

impl Drop for Work {
    /// Whatever went wrong, nothing of ours stays.
    fn drop(&mut self) {
        let _ = self.launcher.kill();
        let _ = self.launcher.wait();
        for &id in &self.ranks {
            let is_ours = std::fs::read(format!("/proc/{id}/cmdline"))
                .is_ok_and(|line| String::from_utf8_lossy(&line).contains("mpi/life"));
            if is_ours {
                let _ = signal("KILL", id);
            }
        }
        let _ = &self.said; // kept open until here: ranks that write into nothing would end of that
    }
}

fn signal(name: &str, id: u32) -> Result<()> {
    let sent = Command::new("kill").arg(format!("-{name}")).arg(id.to_string()).status()?;
    ensure!(sent.success(), "process {id} cannot be sent {name}");
    Ok(())
}

/// How long MPI_Init and MPI_Finalize took, in ms.
fn brief(launch: Command) -> Result<[u64; 2]> {
    let said = output(launch)?;
    let line = said.lines().find_map(|line| line.strip_prefix("brief "));
    let line = line.with_context(|| format!("no times: {said}"))?;
    let mut words = line.split_whitespace().map(str::parse);
    match (words.next(), words.next()) {
        (Some(Ok(begin)), Some(Ok(end))) => Ok([begin, end]),
        _ => bail!("odd times: {line}"),
    }
}

fn median(values: impl Iterator<Item = u64>) -> u64 {
    let mut values: Vec<u64> = values.collect();
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or(0)
}
