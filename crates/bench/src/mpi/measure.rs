//! `packhorse compare --mpi`: one MPI program (`measure.c`) over Packhorse and over all else that its MPI has.
//!
//! In every repetition each contender is started once and runs all patterns, one contender after the other: whatever else
//! the machine did meanwhile, it did to all of them. What claims to have gone over Packhorse is verified in its counters. A start that
//! fails, or takes too long, is told at the end and costs only the patterns it did not come to.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use clap::Args;

use super::Family;
use super::Launcher;
use super::applications;
use super::check::{Folder, LinkUse, compile, left_in, links_of, shown};
use super::contender::{Contender, Way};
use super::polling;
use super::row::MpiRow;
use super::two_hosts::TwoHosts;
use crate::command::Setup;
use crate::hosts::{self, End};

const SOURCE: &str = concat!(include_str!("common.c"), include_str!("measure.c"));

/// A start hangs after so many seconds, and some more for each pattern: ten times what it is to take, and this.
const START_PATIENCE_S: f64 = 20.0;
const CASE_PATIENCE_S: f64 = 5.0;
/// What `timeout` ends with when it had to end its command.
const TIME_IS_UP: i32 = 124;
const SECONDS: f64 = 0.2;
const REPS: u16 = 3;
const MTU: usize = 1500;

const LATENCY_SIZES: &[usize] = &[8, 1 << 10, 64 << 10, 1 << 20, 4 << 20];
const STREAM_SIZES: &[usize] = &[64 << 10, 1 << 20, 4 << 20];
const OVERLAP_SIZES: &[usize] = &[1 << 20, 16 << 20];
const COLLECTIVE_SIZES: &[usize] = &[16, 4 << 10, 64 << 10, 4 << 20];
const COLLECTIVES: [&str; 9] = [
    "sendrecv",
    "exchange",
    "bcast",
    "reduce",
    "allreduce",
    "allgather",
    "alltoall",
    "gather",
    "scatter",
];

/// What `--mpi` can be told.
#[derive(Clone, Debug, Args)]
pub struct MpiArgs {
    /// MPI over Packhorse instead, beside what the same MPI uses otherwise.
    #[arg(long)]
    pub mpi: bool,
    /// Launchers of the MPIs to compare, with commas between; mpirun without it.
    #[arg(long, value_name = "PROGRAM,…", value_delimiter = ',', requires = "mpi")]
    pub launcher: Vec<PathBuf>,
    /// Links for Packhorse under MPI, each for itself: auto (the default; with --applications auto and udp), udp, packet, …
    #[arg(long, value_name = "LINK,…", value_delimiter = ',', requires = "mpi")]
    pub mpi_link: Vec<String>,
    /// Only programs that look for messages between two pieces of work: MPI_Test and MPI_Iprobe.
    #[arg(long, requires = "mpi", conflicts_with = "applications")]
    pub polling: bool,
    /// Only inner loops of whole programs (a sparse matrix, multigrid, a Fourier transform, a sort) and RMPP's loop of work.
    #[arg(long, requires = "mpi")]
    pub applications: bool,
    /// Ranks for each core of the programs of --polling and --applications; 1 without it.
    #[arg(long, value_name = "N", requires = "mpi", value_parser = clap::value_parser!(u16).range(1..=8))]
    pub ranks_per_core: Option<u16>,
    /// Ranks for collective operations; 4 without it, 0 leaves them out. With --applications, ranks for those.
    #[arg(long, value_name = "N", requires = "mpi", value_parser = clap::value_parser!(u16).range(0..=64))]
    pub ranks: Option<u16>,
    /// Folder of the libfabric provider; without it, where it was installed or built.
    #[arg(long, value_name = "PATH", requires = "mpi")]
    pub provider: Option<PathBuf>,
}

/// A start of every contender: so many ranks, these patterns.
pub(super) struct Part {
    pub(super) rank_count: usize,
    pub(super) cases: Vec<String>,
}

impl Part {
    /// Seconds after which it hangs.
    fn patience_s(&self, seconds: f64) -> f64 {
        START_PATIENCE_S + self.cases.len() as f64 * (10.0 * seconds + CASE_PATIENCE_S)
    }
}

/// Measures all; says which contender is at work.
pub fn run(args: &MpiArgs, setup: &Setup, is_quick: bool) -> Result<Vec<MpiRow>> {
    ensure!(setup.peer.is_none(), "--mpi has its own way to other machines: leave --peer out");
    if args.polling {
        return polling::run(args, setup);
    }
    if args.applications {
        return applications::run(args, setup, is_quick);
    }
    let bench = Bench::new(args, setup, SOURCE, &["auto"], Contender::all_of)?;
    let parts = parts(setup, is_quick, args.ranks.unwrap_or(4).into());
    let reps = setup.reps.unwrap_or(if is_quick { 1 } else { REPS });
    let mut rows = bench.measure_all(&parts, reps, setup.seconds.unwrap_or(SECONDS))?;
    // Who asks for lengths wants to know of those.
    if !is_quick && setup.bytes.is_none() {
        rows.append(&mut polling::run(args, setup)?);
        rows.append(&mut applications::run(args, setup, is_quick)?);
    }
    Ok(rows)
}

/// Cores that this process may use.
pub(super) fn core_count() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Whether all links are raw Ethernet, whose frames do not come back to the interface they leave by.
fn is_raw(way: &Way) -> bool {
    let Way::Packhorse(links) = way else { return false };
    links.split(',').all(|link| link.starts_with("packet") || link.starts_with("xdp"))
}

/// What came of it so far.
#[derive(Default)]
struct Made {
    start_count: usize,
    rows: Vec<MpiRow>,
    complaints: Vec<String>,
}

fn parts(setup: &Setup, is_quick: bool, rank_count: usize) -> Vec<Part> {
    let wished = setup.bytes.as_ref().map(|sizes| sizes.0.as_slice());
    let each = |name: &str, usual: &[usize], quick: &[usize]| -> Vec<String> {
        let sizes = wished.unwrap_or(if is_quick { quick } else { usual });
        sizes.iter().map(|bytes| format!("{name}:{bytes}")).collect()
    };
    let mut pair = each("pingpong", LATENCY_SIZES, &[8, 1 << 20]);
    pair.push("rate:8".into());
    pair.extend(each("stream", STREAM_SIZES, &[1 << 20]));
    pair.extend(each("overlap", OVERLAP_SIZES, &[1 << 20]));
    let mut parts = vec![Part { rank_count: 2, cases: pair }];
    if rank_count >= 2 {
        let mut cases = vec!["barrier:0".to_owned()];
        let names: &[&str] = if is_quick { &["allreduce", "alltoall"] } else { &COLLECTIVES };
        cases.extend(names.iter().flat_map(|name| each(name, COLLECTIVE_SIZES, &[16, 64 << 10])));
        parts.push(Part { rank_count, cases });
    }
    parts
}

/// A contender with the program made by its MPI's compiler.
struct Entry {
    contender: Contender,
    program: PathBuf,
}

/// All that is compared, and where.
pub(super) struct Bench {
    entries: Vec<Entry>,
    provider: Option<PathBuf>,
    two_hosts: Option<TwoHosts>,
    /// Each rank keeps to one core, those that talk to different ones.
    is_pinned: bool,
    folder: Folder,
}

impl Bench {
    /// A program, made by the compiler of each MPI, with the contenders that an MPI has by the links that were asked for, or by
    /// the usual ones.
    pub(super) fn new(
        args: &MpiArgs,
        setup: &Setup,
        source: &str,
        usual_links: &[&str],
        contenders: impl Fn(&Launcher, &[String], bool) -> Vec<Contender>,
    ) -> Result<Self> {
        let folder = Folder::new()?;
        let usual = || usual_links.iter().map(|&link| link.to_owned()).collect();
        let links = if args.mpi_link.is_empty() { usual() } else { args.mpi_link.clone() };
        let names =
            if args.launcher.is_empty() { vec!["mpirun".into()] } else { args.launcher.clone() };
        let mut entries = Vec::new();
        for (index, name) in names.iter().enumerate() {
            let launcher = Launcher::named(name)?;
            let shown = name.display();
            ensure!(
                launcher.family.is_some(),
                "{shown} is not the launcher of one MPI (mpirun, mpiexec)"
            );
            let program = folder.path().join(format!("measure-{index}"));
            compile(&launcher, source, &program)?;
            for contender in contenders(&launcher, &links, setup.two_hosts) {
                entries.push(Entry { contender, program: program.clone() });
            }
        }
        let mtu = setup.mtu.map_or(MTU, usize::from);
        let two_hosts = setup.two_hosts.then(|| TwoHosts::new(folder.path(), mtu)).transpose()?;
        let (provider, is_pinned) = (args.provider.clone(), setup.pin);
        Ok(Self { entries, provider, two_hosts, is_pinned, folder })
    }

    /// Every part by every contender, in each repetition one after the other.
    pub(super) fn measure_all(
        &self,
        parts: &[Part],
        reps: u16,
        seconds: f64,
    ) -> Result<Vec<MpiRow>> {
        let mut made = Made::default();
        let start_count = usize::from(reps) * parts.len() * self.entries.len();
        for rep in 0..usize::from(reps) {
            for part in parts {
                for turn in 0..self.entries.len() {
                    // Another one begins each time, so that nobody always follows the same one.
                    let entry = &self.entries[(rep + turn) % self.entries.len()];
                    made.start_count += 1;
                    eprint!("{} of {start_count}: ", made.start_count);
                    if part.rank_count > 2 && is_raw(&entry.contender.way) {
                        eprintln!(
                            "{} left out: by raw Ethernet ranks of one host do not reach each other",
                            entry.contender.name
                        );
                        continue;
                    }
                    self.measure_into(&mut made, entry, part, rep, seconds);
                }
            }
        }
        for complaint in &made.complaints {
            eprintln!("not measured: {complaint}");
        }
        ensure!(!made.rows.is_empty(), "nothing could be measured");
        Ok(made.rows)
    }

    /// One start of one contender, with a word before and after it.
    fn measure_into(&self, made: &mut Made, entry: &Entry, part: &Part, rep: usize, seconds: f64) {
        let what =
            format!("{}, {} ranks, repetition {}", entry.contender.name, part.rank_count, rep + 1);
        eprint!("{what} (at most {:.0} s) … ", part.patience_s(seconds));
        let (began, before) = (Instant::now(), made.rows.len());
        let done = self.measure(&mut made.rows, entry, part, rep, seconds);
        eprintln!(
            "{} patterns in {:.1} s",
            made.rows.len() - before,
            began.elapsed().as_secs_f64()
        );
        if let Err(error) = done {
            eprintln!("  {error:#}");
            let first = format!("{error:#}").lines().next().unwrap_or_default().to_owned();
            made.complaints.push(format!("{what}: {first}"));
        }
    }

    /// Enters the rows of one start, those before a failure, too.
    fn measure(
        &self,
        rows: &mut Vec<MpiRow>,
        entry: &Entry,
        part: &Part,
        rep: usize,
        seconds: f64,
    ) -> Result<()> {
        let counters = self.folder.path().join("counters");
        left_in(self.folder.path())?; // of a run before
        let mut command = self.command(entry, part, seconds)?;
        command.arg(&entry.program).arg(seconds.to_string());
        command.arg(if self.is_pinned { "pin" } else { "free" }).args(&part.cases);
        command.env("PACKHORSE_COUNTERS", &counters).stdin(Stdio::null());
        let output = command.output().context("cannot start it")?;
        let said = String::from_utf8_lossy(&output.stdout);
        let mut made = rows_in(&said, &entry.contender.name, part.rank_count, rep);
        let next = part.cases.get(made.len()).map(String::as_str);
        let is_late = output.status.code() == Some(TIME_IS_UP);
        let complaint = String::from_utf8_lossy(&output.stderr);
        if !is_late && output.status.success() && matches!(entry.contender.way, Way::Packhorse(_)) {
            let link = verified(&left_in(self.folder.path())?, part.rank_count)?;
            made.iter_mut().for_each(|row| row.link = Some(link.clone()));
        }
        rows.append(&mut made);
        ensure!(!is_late, "time was up, at {}:\n{}", next.unwrap_or("its end"), complaint.trim());
        ensure!(
            output.status.success(),
            "it ended with {}, at {}:\n{}",
            output.status,
            next.unwrap_or("its end"),
            complaint.trim()
        );
        ensure!(next.is_none(), "it ended before {}", next.unwrap_or_default());
        Ok(())
    }

    /// The launcher with everything but the program.
    fn command(&self, entry: &Entry, part: &Part, seconds: f64) -> Result<Command> {
        let rank_count = part.rank_count;
        let launcher = &entry.contender.launcher;
        let variables =
            entry.contender.variables(self.provider.as_deref(), self.two_hosts.is_some())?;
        let mut command = match &self.two_hosts {
            Some(hosts) => hosts.command(),
            None => Command::new("env"),
        };
        let patience_s = part.patience_s(seconds).to_string();
        command.args(["timeout", "-k", "5", &patience_s]).arg(&launcher.program);
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        let agent = self.two_hosts.as_ref().map(TwoHosts::agent);
        if launcher.family.is_some_and(Family::is_open_mpi) {
            place_open_mpi(&mut command, &variables, rank_count, agent);
        } else {
            place_hydra(&mut command, rank_count, agent);
        }
        Ok(command)
    }
}

fn place_open_mpi(
    command: &mut Command,
    variables: &[(String, std::ffi::OsString)],
    rank_count: usize,
    agent: Option<&Path>,
) {
    let [near, far] = [End::Near, End::Far].map(hosts::address);
    let list = match agent {
        Some(agent) => {
            // One name for its own runtime before version 5, another since.
            command.env("OMPI_MCA_plm_rsh_agent", agent).env("PRTE_MCA_plm_ssh_agent", agent);
            // It would bind the first rank of each host to the first core: here that is the same one.
            command.args(["--bind-to", "none"]);
            let (half, rest) = (rank_count.div_ceil(2), rank_count / 2);
            format!("{near}:{half},{far}:{rest}")
        }
        None => format!("localhost:{rank_count}"),
    };
    for (name, _) in variables.iter().filter(|(name, _)| !name.starts_with("OMPI_")) {
        command.args(["-x", name]);
    }
    command.args(["-x", "PACKHORSE_COUNTERS", "--host", &list, "-n", &rank_count.to_string()]);
}

/// Hydra, which MPICH and Intel MPI share, carries every variable there is.
fn place_hydra(command: &mut Command, rank_count: usize, agent: Option<&Path>) {
    let [near, far] = [End::Near, End::Far].map(hosts::address);
    if let Some(agent) = agent {
        command.args(["-launcher", "ssh", "-launcher-exec"]).arg(agent);
        command.args(["-iface", hosts::INTERFACE, "-hosts", &format!("{near},{far}")]);
        command.args(["-ppn", &rank_count.div_ceil(2).to_string()]).env("I_MPI_PIN", "0");
    }
    command.args(["-n", &rank_count.to_string()]);
}

/// What rank 0 printed, among whatever else there is.
fn rows_in(said: &str, system: &str, ranks: usize, rep: usize) -> Vec<MpiRow> {
    let row = |line: &str| -> Option<MpiRow> {
        let mut words = line.strip_prefix("row ")?.split_whitespace();
        Some(MpiRow {
            bench: words.next()?.to_owned(),
            bytes: words.next()?.parse().ok()?,
            value: words.next()?.parse().ok()?,
            system: system.to_owned(),
            ranks,
            rep,
            link: None,
        })
    };
    said.lines().filter_map(row).collect()
}

/// Every rank must have received over Packhorse; the links it did so by.
fn verified(counters: &[String], rank_count: usize) -> Result<String> {
    let all: Vec<Vec<LinkUse>> = counters.iter().map(|text| links_of(text)).collect();
    let used = all.iter().filter(|links| !links.is_empty()).count();
    ensure!(
        used == rank_count,
        "{used} of {rank_count} ranks used Packhorse; the others went elsewhere"
    );
    let mut sums: Vec<LinkUse> = Vec::new();
    for link in all.into_iter().flatten() {
        match sums.iter_mut().find(|sum| sum.kind == link.kind) {
            Some(sum) => sum.in_len += link.in_len,
            None => sums.push(link),
        }
    }
    sums.sort_by_key(|link| std::cmp::Reverse(link.in_len));
    Ok(shown(&sums))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_found_among_other_words() {
        let said = "hello\nrow pingpong 8 407.5\nrow odd\n[host] warning\nrow barrier 0 12.0\n";
        let rows = rows_in(said, "openmpi4-tcp", 2, 1);
        assert_eq!(rows.len(), 2);
        assert_eq!((rows[0].bytes, rows[0].value, rows[0].rep), (8, 407.5, 1));
        assert_eq!(rows[1].bench, "barrier");
    }

    #[test]
    fn raw_links_are_measured_between_hosts_only() {
        for (links, is_it) in
            [("packet", true), ("xdp:v0,packet", true), ("udp", false), ("auto", false)]
        {
            assert_eq!(is_raw(&Way::Packhorse(links.into())), is_it, "{links}");
        }
        assert!(!is_raw(&Way::OwnTcp));
    }

    #[test]
    fn patience_grows_with_the_work() {
        let part = |count| Part { rank_count: 2, cases: vec![String::new(); count] };
        assert!(part(10).patience_s(0.2) < part(40).patience_s(0.2));
        assert!(part(10).patience_s(0.2) > 10.0 * 0.2 * 5.0);
    }

    #[test]
    fn a_rank_that_went_elsewhere_is_found_out() {
        let one = "{\"udp0_bytes_in\":1000,\"shm1_bytes_in\":9000}".to_owned();
        assert_eq!(verified(&[one.clone(), one.clone()], 2).unwrap(), "shm (90 %), udp (10 %)");
        let none = "{\"udp0_bytes_in\":0}".to_owned();
        for counters in [vec![one.clone()], vec![one, none]] {
            let text = verified(&counters, 2).unwrap_err().to_string();
            assert!(text.contains("1 of 2 ranks used Packhorse"), "{text}");
        }
    }
}
