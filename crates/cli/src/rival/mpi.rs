//! Open MPI on one host: over its own shared memory, and over TCP.
//!
//! A small C program (`mpi.c`) is compiled with `mpicc` for each measurement and run under `mpirun`. The active side does
//! that; the passive one only hears what came of it.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::bench::system::{Control, Job, Latency, Outcome, Pattern, Role, System};

const SOURCE: &str = include_str!("mpi.c");

/// Messages of a stream on their way at once: as Packhorse's own (`ours`).
const STREAM_LEN_IN_FLIGHT: usize = 1 << 20;

/// Open MPI over one of its transports.
pub struct OpenMpi {
    name: &'static str,
    /// For `--mca btl`.
    transport: &'static str,
}

impl OpenMpi {
    /// Over shared memory.
    pub const SHM: Self = Self { name: "openmpi-shm", transport: "vader,self" };
    /// Over TCP.
    pub const TCP: Self = Self { name: "openmpi-tcp", transport: "tcp,self" };

    fn measure(&self, job: &Job) -> Result<String> {
        let program = Program::compile()?;
        let window = match job.pattern {
            Pattern::Rate => job.window.max(1),
            _ => (STREAM_LEN_IN_FLIGHT / job.bytes.max(1)).clamp(2, 64),
        };
        // This process may be pinned to one core; MPI's two are to have one each.
        let output = Command::new("taskset")
            .args(["-c", "0-1023", "mpirun", "-n", "2", "--allow-run-as-root"])
            .args(["--mca", "pml", "ob1", "--mca", "btl", self.transport])
            .args(["--bind-to", "core", "--oversubscribe"])
            .arg(program.path())
            .args([job.pattern.name(), &job.bytes.to_string(), &job.seconds.to_string()])
            .arg(window.to_string())
            .output()
            .context("cannot run mpirun; install openmpi-bin")?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!("mpirun failed ({}): {}", output.status, said.trim());
        }
        let text = String::from_utf8_lossy(&output.stdout);
        let line =
            text.lines().find(|line| line.starts_with("pingpong") || line.starts_with("flow"));
        Ok(line.context("the MPI program said nothing")?.to_owned())
    }
}

/// A folder with the program; removed with it.
struct Program {
    folder: PathBuf,
}

impl Program {
    fn compile() -> Result<Self> {
        let folder = std::env::temp_dir().join(format!("packhorse-mpi-{}", std::process::id()));
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let program = Self { folder };
        let source = program.folder.join("bench.c");
        fs::write(&source, SOURCE).with_context(|| format!("cannot write {}", source.display()))?;
        let output = Command::new("mpicc")
            .args(["-O2", "-o"])
            .args([&program.path(), &source])
            .output()
            .context("cannot run mpicc; install libopenmpi-dev and openmpi-bin, or choose other --systems")?;
        if !output.status.success() {
            bail!("mpicc failed: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(program)
    }

    fn path(&self) -> PathBuf {
        self.folder.join("bench")
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Whether a program of this name is in the path.
fn is_installed(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(name).is_file())
}

fn parse(job: &Job, line: &str) -> Result<Outcome> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let number = |index: usize| -> Result<u64> {
        words
            .get(index)
            .and_then(|word| word.parse().ok())
            .with_context(|| format!("odd figures: {line}"))
    };
    let bytes = job.bytes as u64;
    Ok(match words.first() {
        Some(&"pingpong") => {
            let half_rtt_ns = Some(Latency { p50: number(1)?, p99: number(2)?, mean: number(3)? });
            let messages = number(4)?;
            Outcome { half_rtt_ns, messages, bytes: messages * bytes, ..Outcome::default() }
        }
        _ => {
            let (messages, elapsed_ns) = (number(1)?, number(2)?);
            Outcome { messages, bytes: messages * bytes, elapsed_ns, ..Outcome::default() }
        }
    })
}

impl System for OpenMpi {
    fn name(&self) -> &'static str {
        self.name
    }

    fn is_usual(&self, is_two_hosts: bool) -> bool {
        !is_two_hosts && is_installed("mpicc") && is_installed("mpirun")
    }

    fn can_be_apart(&self) -> bool {
        false
    }

    fn run(&self, job: &Job, control: &mut dyn Control) -> Result<Outcome> {
        let measures_here = (job.pattern == Pattern::PingPong) == (job.role == Role::Active);
        // The line the two exchange is the figures: the passive side hears them when they are there.
        let line = match job.role {
            Role::Active => {
                let line = self.measure(job)?;
                control.exchange(&line)?;
                line
            }
            Role::Passive => control.exchange("waits")?,
        };
        if measures_here { parse(job, &line) } else { Ok(Outcome::default()) }
    }
}
