//! `packhorse bench`: one pattern, all systems, side by side. Also what it shares with `packhorse compare`.

use std::fs::{self, File, OpenOptions};
use std::io::{Seek, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand, value_parser};
use packhorse::quantity::{self, Unit};
use packhorse::{Address, Endpoint};

use crate::cpu::busy_share;
use crate::layers::LayersArgs;
use crate::offload::command::{
    Asked, AvailabilityArgs, DoubleBufArgs, IdleArgs, OverlapArgs, PostsArgs, WaitingArgs,
};
use crate::offload::copies::CopiesArgs;
use crate::pair::Stage;
use crate::plan::{Case, Contender, Plan};
use crate::portals::Portals;
use crate::puts::Puts;
use crate::report;
use crate::row::{Findings, OURS};
use crate::runner::Runner;
use crate::sizes::Sizes;
use crate::system::{Pattern, System};
use crate::{SYSTEMS, remote, system, table};

const EXAMPLES: &str = "\
Examples:
  packhorse bench pingpong                        latency of 8 bytes over loopback
  packhorse bench stream --two-hosts --mtu 9000   bandwidth between two namespaces
  packhorse bench rate --bytes 8,1K --json r.json
  packhorse bench pingpong --bytes 8,1K,64K,1M --html report.html
  packhorse bench pingpong --link shm --face mx   what the calls of MX cost beside the native ones
  packhorse bench stream --bytes 1M --face portals   puts of Portals beside native ones
  packhorse bench stream --peer ph1:…             against `packhorse serve` on another machine";

const OFFLOAD_EXAMPLES: &str = "\
Examples:
  packhorse bench availability --two-hosts --bytes 1M --slices 1000,100000,3000000
  packhorse bench doublebuf --two-hosts --bound consumer --rate 500
  packhorse bench overlap --two-hosts --bytes 256K,1M,16M --html overlap.html
  packhorse bench posts --placement thread --loads 0,50,90
  packhorse bench waiting --cores one --systems packhorse,tcp
  packhorse bench idle --seconds 10";

const LAYERS_EXAMPLES: &str = "\
Examples:
  packhorse bench layers --link shm --pin
  packhorse bench layers --two-hosts --bytes 16,1K,64K,1M --json layers.json
  packhorse bench stream --systems packhorse,packhorse-streams,tcp";

/// What Packhorse is measured over where nothing is asked for: what the bare socket uses, too.
const LINK: &str = "udp";
/// Idleness is watched for so long where no time is given.
const REST_SECONDS: f64 = 10.0;
/// Above this share of the cores, what others do shows in the figures.
const BUSY_ABOVE: f64 = 0.15;

/// Measure latency, bandwidth or message rate, of Packhorse beside its rivals.
///
/// Every system is measured in turn, interleaved and repeated, between two processes: both here, or one on another machine.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct BenchArgs {
    #[command(subcommand)]
    pattern: BenchPattern,
}

#[derive(Debug, Subcommand)]
enum BenchPattern {
    /// Latency: one message there and back, half of the round trip, in percentiles.
    #[command(name = "pingpong", after_help = EXAMPLES)]
    PingPong(Setup),
    /// Bandwidth: messages one way as fast as they go, bytes a second that arrived.
    #[command(after_help = EXAMPLES)]
    Stream(Setup),
    /// Message rate: small messages one way, a bounded number on their way, messages a second that arrived.
    #[command(after_help = EXAMPLES)]
    Rate(Setup),
    /// What is left of the processor while messages are moved: work in slices, a poll after each.
    ///
    /// Several sends and receives are under way; the application works in slices of so many units and polls in between. Bandwidth
    /// (what arrives), availability (time of the work alone ÷ time here) and their product, for each placement.
    #[command(after_help = OFFLOAD_EXAMPLES)]
    Availability(AvailabilityArgs),
    /// A producer and a consumer with two buffers each: what is achieved beside the limit of the slowest part.
    ///
    /// The limit is the least of producer alone, consumer alone and bare link. Rates of both sides are measured during the run, too.
    #[command(name = "doublebuf", after_help = OFFLOAD_EXAMPLES)]
    DoubleBuf(DoubleBufArgs),
    /// How much of a transfer is hidden behind a computation: post, compute without any call, wait.
    ///
    /// Overlap is (T_comm + T_comp − T_total) ÷ T_comm with T_comp = 3 × T_comm.
    #[command(after_help = OFFLOAD_EXAMPLES)]
    Overlap(OverlapArgs),
    /// What a call costs: post of a send, post of a receive, wait, in batches of five; throughput over the share of the processor in use.
    #[command(after_help = OFFLOAD_EXAMPLES)]
    Posts(PostsArgs),
    /// The ping-pong in each way of waiting: spinning and asleep, each process on its own core and both on one.
    #[command(after_help = OFFLOAD_EXAMPLES)]
    Waiting(WaitingArgs),
    /// Processor use of an endpoint that does nothing, and of one that waits in a blocking receive.
    #[command(after_help = OFFLOAD_EXAMPLES)]
    Idle(IdleArgs),
    /// A stream with and without a second thread that copies what arrives in whole frames (`--link 'packet:*'`).
    #[command(after_help = OFFLOAD_EXAMPLES)]
    Copies(CopiesArgs),
    /// What layers on Fast Messages leave of its bandwidth: message passing on streams and on whole messages, 16 B to 1 MB.
    ///
    /// Bare streams, both shims of `examples/`, tagged messages beside; efficiency in percent, the length of half bandwidth (N½), and
    /// the half round trip of 8 bytes. Copies of the shims are counted, another number than expected is an error.
    #[command(after_help = LAYERS_EXAMPLES)]
    Layers(LayersArgs),
}

/// What every measurement can be told.
#[derive(Clone, Debug, Args)]
pub struct Setup {
    /// Lengths of messages: 8, 64K, 1M, or a list such as 8,1K,64K.
    #[arg(long, value_name = "LIST")]
    pub bytes: Option<Sizes>,
    /// Time of each measurement in seconds, or with its unit (50ms), a tenth of it to get warm; 1 for bench, 0.3 for compare without it.
    #[arg(long, value_name = "S", value_parser = parse_seconds)]
    pub seconds: Option<f64>,
    /// Repetitions of each measurement; 5 without it (3 with --quick).
    #[arg(long, value_name = "N", value_parser = value_parser!(u16).range(1..=1000))]
    pub reps: Option<u16>,
    /// Messages that may be on their way at once, in `rate`.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = value_parser!(u16).range(1..))]
    pub window: u16,
    /// Against `packhorse serve` on another machine: the address that it printed, or HOST:NUMBER if it has a --name.
    #[arg(long, value_name = "PEER", conflicts_with = "two_hosts", value_parser = parse_address)]
    pub peer: Option<Address>,
    /// Between two network namespaces joined by a wire (veth), instead of over loopback.
    #[arg(long)]
    pub two_hosts: bool,
    /// Largest packet of the wire between the two hosts; 1500 without it.
    #[arg(long, value_name = "BYTES", requires = "two_hosts", value_parser = value_parser!(u16).range(576..))]
    pub mtu: Option<u16>,
    /// Switch segmentation (gso, tso) and merging (gro) off on both ends of the wire.
    #[arg(long, requires = "two_hosts")]
    pub no_offload: bool,
    /// Live with the socket buffers that a user without rights gets on an untuned system (212992 bytes).
    #[arg(long)]
    pub unprivileged_buffers: bool,
    /// Keep each of the two processes on a core of its own.
    #[arg(long)]
    pub pin: bool,
    /// Links that Packhorse uses: udp, tcp, shm, packet, xdp, auto, on interfaces if wanted (packet:eth*), several with commas; udp without it,
    /// like the bare socket beside it (auto with compare --quick).
    #[arg(long, value_parser = link_choice)]
    pub link: Option<String>,
    /// Who moves Packhorse's messages: only the threads that wait for them (inline), or a helper too (thread, the default).
    /// The patterns of offload take several with commas, and measure both without it.
    #[arg(long, value_name = "WHO", value_delimiter = ',', value_parser = ["inline", "thread"])]
    pub placement: Vec<String>,
    /// Systems to measure, by name; without it, all that can be had here.
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = system_names())]
    pub systems: Vec<String>,
    /// Measure a face: mx beside the native interface and nothing else (pingpong, stream and rate through the calls of MX); portals beside native
    /// puts and nothing else (pingpong and stream of puts), or beside all others (doublebuf: the paper's program, always with clear to send). Portals needs cc.
    #[arg(long, value_name = "FACE", value_parser = ["mx", "portals"], conflicts_with_all = ["systems", "peer"])]
    pub face: Option<String>,
    /// Write the machine and every single measurement to this file.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write a page with plots to this file; it needs no other file.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

fn system_names() -> clap::builder::PossibleValuesParser {
    SYSTEMS.iter().map(|system| system.name()).collect::<Vec<_>>().into()
}

/// A measurement of less shows nothing, and one of more is a mistake.
const TIME_MIN: Duration = Duration::from_millis(10);
const TIME_MAX: Duration = Duration::from_secs(3600);

fn parse_seconds(text: &str) -> Result<f64, String> {
    let time = quantity::time(text, Unit::Seconds)?;
    if !(TIME_MIN..=TIME_MAX).contains(&time) {
        return Err(format!("a measurement takes {TIME_MIN:?} to {TIME_MAX:?}"));
    }
    Ok(time.as_secs_f64())
}

fn parse_address(text: &str) -> Result<Address, String> {
    let address = packhorse::address_of(text).map_err(|error| error.to_string())?;
    remote::port_of(&address).map_err(|error| error.to_string())?;
    Ok(address)
}

/// The text as it is, if it makes sense.
fn link_choice(text: &str) -> Result<String, String> {
    text.parse::<packhorse::LinkChoice>().map(|_| text.to_owned())
}

/// Settings in the environment that make no sense shall be known before the wait.
fn check_environment(plan: &Plan) -> Result<()> {
    let has_settings =
        std::env::vars_os().any(|(name, _)| name.to_string_lossy().starts_with("PACKHORSE_"));
    if has_settings && plan.contenders.iter().any(|contender| contender.system == OURS) {
        Endpoint::local().context("the environment's settings for Packhorse")?;
    }
    Ok(())
}

impl Setup {
    /// Refuses a face that this pattern is not measured through.
    pub(crate) fn check_face(&self, pattern: &str, known: &[&str]) -> Result<()> {
        match &self.face {
            Some(face) if !known.contains(&face.as_str()) => {
                bail!("{pattern} is not measured through the calls of {face}; leave --face away")
            }
            _ => Ok(()),
        }
    }

    /// The plan for these cases; time and repetitions where none were asked for.
    pub fn plan(&self, cases: Vec<Case>, seconds: f64, reps: usize) -> Plan {
        let is_near = self.peer.is_none();
        let usual = || {
            let suits = |system: &&&dyn System| is_near || system.can_be_apart();
            SYSTEMS.iter().filter(|system| system.is_usual(self.two_hosts)).filter(suits)
        };
        let all = || usual().map(|system| system.name().to_owned()).collect();
        let systems: Vec<_> = match &self.face {
            Some(face) if face == "portals" => vec![Puts.name().into(), Portals.name().into()],
            Some(face) => vec![OURS.to_owned(), format!("{OURS}-{face}")],
            None if self.systems.is_empty() => all(),
            None => self.systems.clone(),
        };
        let placement = self.placement.first().map_or("thread", String::as_str);
        Plan {
            cases,
            contenders: systems.iter().map(|system| Contender::new(system, placement)).collect(),
            seconds: self.seconds.unwrap_or(seconds),
            rest_seconds: self.seconds.unwrap_or(REST_SECONDS),
            reps: self.reps.map_or(reps, usize::from),
            window: self.window.into(),
            link: self.link.clone().unwrap_or_else(|| LINK.to_owned()),
            unprivileged_buffers: self.unprivileged_buffers,
            stage: Stage {
                peer: self.peer,
                two_hosts: self.two_hosts,
                mtu: self.mtu.map(usize::from),
                no_offload: self.no_offload,
                pin: self.pin,
            },
        }
    }

    /// Whether those that were asked for can be measured where they are to be.
    fn check_systems(&self, plan: &Plan) -> Result<()> {
        for contender in &plan.contenders {
            let name = &contender.system;
            let Some(system) = system(name) else { continue };
            if self.peer.is_some() && !system.can_be_apart() {
                bail!(
                    "{name} is measured on one machine only: leave out --peer, or choose other --systems"
                );
            }
            if self.two_hosts && !system.can_be_in_namespaces() {
                bail!(
                    "{name} is measured on one host only: leave out --two-hosts, or choose other --systems"
                );
            }
            let is_out = |case: &&Case| {
                contender.plays(case.pattern) && !system.can_play(case.pattern, self.two_hosts)
            };
            if let Some(case) = plan.cases.iter().find(is_out) {
                bail!("{name} does not play {}; choose other --systems", case.pattern.name());
            }
        }
        Ok(())
    }

    /// Sets up, says on what, measures, and writes the files that were asked for.
    pub fn measure(&self, plan: Plan) -> Result<Findings> {
        self.measure_and(plan, |_| ())
    }

    /// The same; `more` adds to the findings before the files are written.
    pub(crate) fn measure_and(
        &self,
        plan: Plan,
        more: impl FnOnce(&mut Findings),
    ) -> Result<Findings> {
        let json = self.json.as_deref().map(Output::open).transpose()?;
        let html = self.html.as_deref().map(Output::open).transpose()?;
        self.check(&plan)?;
        let runner = Runner::new(plan)?;
        self.introduce(&runner);
        let mut findings = runner.run()?;
        more(&mut findings);
        if let Some(json) = json {
            json.finish(serde_json::to_string_pretty(&findings)?.as_bytes())?;
        }
        if let Some(html) = html {
            html.finish(report::page(&findings)?.as_bytes())?;
        }
        Ok(findings)
    }

    /// Whether this can be measured at all, as far as that can be told before.
    pub(crate) fn check(&self, plan: &Plan) -> Result<()> {
        check_environment(plan)?;
        self.check_systems(plan)
    }

    /// Says on what is measured, and how.
    pub(crate) fn introduce(&self, runner: &Runner) {
        runner.machine().lines().iter().for_each(|line| println!("{line}"));
        let plan = runner.plan();
        let stage = match (&self.peer, self.two_hosts) {
            (Some(_), _) => "two machines (processor time is the receiver's)",
            (None, true) => "two namespaces",
            (None, false) => "loopback",
        };
        println!("{stage}, {} repetitions of {} s, interleaved", plan.reps, plan.seconds);
        let busy = busy_share();
        if busy > BUSY_ABOVE {
            let percent = busy * 100.0;
            println!(
                "note: {percent:.0} % of the cores are busy with other work; expect a wide spread"
            );
        }
    }
}

/// A file that will be written at the end, opened at the beginning: who cannot write it shall know before the wait.
pub(crate) struct Output {
    path: PathBuf,
    file: File,
    is_new: bool,
    is_finished: bool,
}

impl Output {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let is_new = !path.exists();
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(path);
        let file = file.with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Self { path: path.to_owned(), file, is_new, is_finished: false })
    }

    pub(crate) fn finish(mut self, content: &[u8]) -> Result<()> {
        self.write(content)
    }

    /// What there is so far; it is written over by the next. A pipe, which cannot be, gets only what is finished.
    pub(crate) fn keep(&mut self, content: &[u8]) -> Result<()> {
        if self.is_plain() { self.write(content) } else { Ok(()) }
    }

    /// A pipe or a terminal (/dev/stdout) has no length to cut.
    fn is_plain(&self) -> bool {
        self.file.metadata().is_ok_and(|facts| facts.is_file())
    }

    fn write(&mut self, content: &[u8]) -> Result<()> {
        self.is_finished = true;
        let written = if self.is_plain() {
            // Cut behind it, not before: who is interrupted between the two has all there is.
            let rewritten = self.file.rewind().and_then(|()| self.file.write_all(content));
            rewritten.and_then(|()| self.file.set_len(content.len() as u64))
        } else {
            self.file.write_all(content)
        };
        written.with_context(|| format!("cannot write {}", self.path.display()))
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if self.is_new && !self.is_finished {
            fs::remove_file(&self.path).ok(); // ours, empty, and not worth an error
        }
    }
}

/// `packhorse bench`.
pub fn run(args: &BenchArgs) -> Result<()> {
    let (pattern, setup, sizes): (_, _, &[usize]) = match &args.pattern {
        BenchPattern::PingPong(setup) => (Pattern::PingPong, setup, &[8]),
        BenchPattern::Stream(setup) => (Pattern::Stream, setup, &[64 << 10, 1 << 20, 4 << 20]),
        BenchPattern::Rate(setup) => (Pattern::Rate, setup, &[8, 1 << 10]),
        BenchPattern::Availability(args) => return Asked::Availability(args).run(),
        BenchPattern::DoubleBuf(args) => return Asked::DoubleBuf(args).run(),
        BenchPattern::Overlap(args) => return Asked::Overlap(args).run(),
        BenchPattern::Posts(args) => return Asked::Posts(args).run(),
        BenchPattern::Waiting(args) => return Asked::Waiting(args).run(),
        BenchPattern::Idle(args) => return Asked::Idle(args).run(),
        BenchPattern::Copies(args) => return args.run(),
        BenchPattern::Layers(args) => return args.run(),
    };
    if setup.placement.len() > 1 {
        bail!("{} is measured with one --placement at a time", pattern.name());
    }
    let faces: &[&str] = if pattern == Pattern::Rate { &["mx"] } else { &["mx", "portals"] };
    setup.check_face(pattern.name(), faces)?;
    let sizes = setup.bytes.as_ref().map_or(sizes, |sizes| &sizes.0);
    let findings = setup.measure(setup.plan(Case::each(pattern, sizes), 1.0, 5))?;
    print!("{}", table::tables(&findings.rows));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_that_cannot_be_written_is_an_error_at_once() {
        let error = Output::open(Path::new("/nosuch/folder/x.json")).err().unwrap();
        assert!(format!("{error:#}").contains("/nosuch/folder/x.json"));
    }

    #[test]
    fn unfinished_file_is_not_left_behind() {
        let path = std::env::temp_dir().join(format!("packhorse-output-{}", std::process::id()));
        drop(Output::open(&path).unwrap());
        assert!(!path.exists());
        fs::write(&path, "an earlier, longer run").unwrap();
        drop(Output::open(&path).unwrap());
        assert!(path.exists(), "what was there before is kept");
        let mut output = Output::open(&path).unwrap();
        output.keep(b"a part").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"a part");
        output.finish(b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn times_must_make_sense() {
        assert_eq!(parse_seconds("0.5"), Ok(0.5));
        assert_eq!(parse_seconds("500ms"), Ok(0.5));
        for text in ["0", "-1", "x", "inf", "NaN", "1e9"] {
            assert!(parse_seconds(text).is_err(), "{text}");
        }
    }
}
