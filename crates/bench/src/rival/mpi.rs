//! Open MPI: on one host over its own shared memory, and over TCP or over Packhorse also between two namespaces of one machine.
//!
//! A small C program (`mpi.c`; for the patterns of offload `mpi_offload.c`) is compiled with `mpicc` for each measurement and
//! run under `mpirun`. The active side does that; the passive one only hears what came of it. Between namespaces the second
//! rank is started in the passive side's (`nsenter`), and all that mpirun says to its ranks goes over the wire too.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::hosts;
use crate::offload;
use crate::system::{Control, Job, Latency, Outcome, Pattern, Role, System};
use crate::variant::{Bound, Computing};

const FLOW_SOURCE: &str = include_str!("mpi.c");
const OFFLOAD_SOURCE: &str = include_str!("mpi_offload.c");

/// Messages of a stream on their way at once: as Packhorse's own (`ours`).
const STREAM_LEN_IN_FLIGHT: usize = 1 << 20;

/// Open MPI over one of its transports.
pub struct OpenMpi {
    /// As in the rows.
    pub name: &'static str,
    /// For `--mca btl`; none where `packhorse run` says what it uses.
    transport: Option<&'static str>,
}

impl OpenMpi {
    /// Over shared memory.
    pub const SHM: Self = Self { name: "openmpi-shm", transport: Some("vader,self") };
    /// Over TCP.
    pub const TCP: Self = Self { name: "openmpi-tcp", transport: Some("tcp,self") };
    /// Over Packhorse, as `packhorse run` has it.
    pub const PACKHORSE: Self = Self { name: "openmpi-packhorse", transport: None };

    /// Whether it reaches another host.
    fn reaches(&self) -> bool {
        self.name != Self::SHM.name
    }

    fn measure(&self, job: &Job) -> Result<String> {
        let is_offload = job.pattern.is_by_courier();
        let program = Program::compile(if is_offload { OFFLOAD_SOURCE } else { FLOW_SOURCE })?;
        let mut words = vec![program.path().display().to_string(), job.pattern.name().into()];
        words.extend([job.bytes.to_string(), job.seconds.to_string()]);
        words.extend(if is_offload { offload_words(job)? } else { vec![window(job).to_string()] });
        // Its files for the session go where ours are: those of another user may be in the usual place.
        let output = self.command(job, &words)?.env("TMPDIR", &program.folder).output();
        let output = output.context("cannot run mpirun; install openmpi-bin")?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!("mpirun failed ({}): {}", output.status, said.trim());
        }
        let text = String::from_utf8_lossy(&output.stdout);
        let is_figures =
            |line: &&str| ["pingpong", "flow", "{"].iter().any(|start| line.starts_with(start));
        Ok(text.lines().find(is_figures).context("the MPI program said nothing")?.to_owned())
    }

    /// mpirun with both ranks, each of which runs these words.
    fn command(&self, job: &Job, words: &[String]) -> Result<Command> {
        // This process may be pinned to one core; MPI's two are to have one each.
        let mut command = Command::new("taskset");
        command.args(["-c", "0-1023"]);
        if self.transport.is_none() {
            let here = std::env::current_exe().context("cannot tell where this program lies")?;
            command.arg(here).arg("run").env("PACKHORSE_LINK", &job.link);
        }
        command.args(["mpirun", "--allow-run-as-root"]);
        if let Some(transport) = self.transport {
            command.args(["--mca", "pml", "ob1", "--mca", "btl", transport]);
        }
        command.args(["--bind-to", "core", "--oversubscribe"]);
        let Some(other) = job.manner.other else {
            command.args(["-n", "2"]).args(words);
            return Ok(command);
        };
        command
            .env("PMIX_MCA_ptl_tcp_if_include", hosts::INTERFACE)
            .args(["--mca", "oob_tcp_if_include", hosts::INTERFACE])
            .args(["--mca", "btl_tcp_if_include", hosts::INTERFACE])
            .args(["-n", "1"])
            .args(words)
            .args([":", "-n", "1", "nsenter", &format!("--net=/proc/{other}/ns/net")])
            .args(words);
        Ok(command)
    }
}

/// Messages on their way at once.
fn window(job: &Job) -> usize {
    match job.pattern {
        Pattern::Rate => job.window.max(1),
        _ => (STREAM_LEN_IN_FLIGHT / job.bytes.max(1)).clamp(2, 64),
    }
}

/// What `mpi_offload.c` is told beyond length and time.
fn offload_words(job: &Job) -> Result<Vec<String>> {
    let variant = &job.variant;
    Ok(match job.pattern {
        Pattern::Availability => {
            let slice = variant.slice.context("availability needs the length of a slice")?;
            vec![slice.to_string(), offload::depth(job).to_string()]
        }
        Pattern::DoubleBuf => {
            let is_consumer_bound = variant.bound == Some(Bound::Consumer);
            let rate = job.manner.slow_rate.unwrap_or(offload::doublebuf::SLOW_RATE);
            let flags = [is_consumer_bound, job.manner.clear_to_send]
                .map(|flag| u8::from(flag).to_string());
            let [is_consumer_bound, has_cts] = flags;
            vec![is_consumer_bound, rate.to_string(), has_cts]
        }
        Pattern::Overlap => {
            let computing = variant.computing.context("overlap needs to know who computes")?;
            let who = match computing {
                Computing::Sender => "0",
                Computing::Receiver => "1",
                Computing::All => "2",
            };
            vec![who.into(), offload::overlap::thread_count(job, computing).to_string()]
        }
        Pattern::Posts => vec![variant.load.unwrap_or(0).to_string()],
        pattern => bail!("Open MPI does not play {}", pattern.name()),
    })
}

/// A folder with the program; removed with it.
struct Program {
    folder: PathBuf,
}

impl Program {
    fn compile(text: &str) -> Result<Self> {
        let folder = std::env::temp_dir().join(format!("packhorse-mpi-{}", std::process::id()));
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let program = Self { folder };
        let source = program.folder.join("bench.c");
        fs::write(&source, text).with_context(|| format!("cannot write {}", source.display()))?;
        let output = Command::new("mpicc")
            .args(["-O2", "-pthread", "-o"])
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
    if line.starts_with('{') {
        return serde_json::from_str(line).with_context(|| format!("odd figures: {line}"));
    }
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
        // Over Packhorse it is measured where it is asked for: `compare --mpi` has more of it.
        let is_own = self.transport.is_some();
        is_own && !is_two_hosts && is_installed("mpicc") && is_installed("mpirun")
    }

    fn is_usual_in(&self, pattern: Pattern, is_two_hosts: bool) -> bool {
        // Its start takes a second each time; with the plain patterns between namespaces it waits to be asked for.
        let is_wanted = pattern.is_by_courier() || self.is_usual(is_two_hosts);
        is_wanted && self.can_play(pattern, is_two_hosts) && self.is_usual(false)
    }

    fn can_play(&self, pattern: Pattern, is_two_hosts: bool) -> bool {
        if pattern.is_by_courier() {
            return self.reaches() && pattern != Pattern::Idle;
        }
        Pattern::FLOWS.contains(&pattern) && (self.reaches() || !is_two_hosts)
    }

    fn can_be_apart(&self) -> bool {
        false
    }

    fn can_be_in_namespaces(&self) -> bool {
        self.reaches()
    }

    fn run(&self, job: &Job, control: &mut dyn Control) -> Result<Outcome> {
        let measures_here = job.pattern.is_measured_by_passive() == (job.role == Role::Passive);
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
