//! `packhorse compare`: everything at once, and what it means.

mod advice;
mod offload;
mod verdict;

use anyhow::Result;
use clap::Args;
use packhorse::LinkChoice;

use crate::command::{Output, Setup};
use crate::machine::Machine;
use crate::mpi::measure::{self, MpiArgs};
use crate::mpi::{applications, polling, row};
use crate::offload::command::{Part, REPS, SECONDS, everything};
use crate::plan::{Case, Contender, Plan};
use crate::report;
use crate::rival::OpenMpi;
use crate::row::{Findings, OURS};
use crate::runner::Runner;
use crate::system::{Pattern, System};
use crate::table;
pub use verdict::{COLUMNS as SUMMARY_COLUMNS, Summary, headline, remarks};

const EXAMPLES: &str = "\
Examples:
  packhorse compare --quick                        a first impression: no rights needed, under 20 seconds
  packhorse compare --two-hosts --mtu 9000         all patterns between two namespaces
  packhorse compare --two-hosts --html report.html --json rows.json
  packhorse compare --two-hosts --no-offload --bytes 8,64K,1M
  packhorse compare --two-hosts --offload          what is left of the processor: all patterns of offload, a quarter of an hour or so
  packhorse compare --two-hosts --offload --only overlap,idle --json some.json
  packhorse compare --mpi --two-hosts              an MPI over Packhorse, beside its own TCP and libfabric's
  packhorse compare --mpi --launcher mpirun,$HOME/venv/bin/mpirun --mpi-link auto,udp
  packhorse compare --mpi --polling --two-hosts    programs that test for messages between two pieces of work, 4 minutes
  packhorse compare --mpi --polling --ranks-per-core 2
  packhorse compare --mpi --applications --two-hosts   inner loops of whole programs: does yours get quicker or slower? 2 minutes
  packhorse compare --mpi --applications --two-hosts --quick --mpi-link auto   the same in half a minute
  packhorse compare --quick --peer ph1:…           against `packhorse serve` on another machine";

const LATENCY_SIZES: &[usize] =
    &[8, 64, 512, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20];
const STREAM_SIZES: &[usize] = &[4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20];
const RATE_SIZES: &[usize] = &[8, 1 << 10];
/// One frame that is mostly head, a few frames, many.
const QUICK_LATENCY_SIZES: &[usize] = &[8, 4 << 10, 64 << 10];
/// Above this a rate of messages is a bandwidth.
const RATE_BYTES_MAX: usize = 1 << 10;

/// Compare Packhorse with kernel TCP and with the bare UDP socket: latency, bandwidth, message rate.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct CompareArgs {
    /// Five measurements of what a user has who sets nothing (link auto), repeated for less than 20 seconds in all: what is better than
    /// TCP, what is worse, and what to do about it.
    #[arg(long)]
    quick: bool,
    /// The patterns of offload instead: availability, doublebuf, overlap, posts, waiting, idle; and what was promised of them.
    #[arg(long)]
    offload: bool,
    /// Of the patterns of offload only these.
    #[arg(long, value_name = "LIST", value_delimiter = ',', requires = "offload", value_parser = Pattern::OFFLOAD.map(Pattern::name))]
    only: Vec<String>,
    #[command(flatten)]
    mpi: MpiArgs,
    #[command(flatten)]
    setup: Setup,
}

/// `packhorse compare`.
pub fn run(args: &CompareArgs) -> Result<()> {
    let setup = &args.setup;
    if args.mpi.mpi {
        return run_mpi(args);
    }
    if args.offload {
        return offload::run(setup, args.quick, &args.only);
    }
    let sizes = setup.bytes.as_ref().map(|sizes| sizes.0.as_slice());
    let cases = if args.quick { quick_cases(sizes) } else { all_cases(sizes) };
    let (seconds, reps) = if args.quick { (0.2, 3) } else { (0.3, 5) };
    let mut plan = setup.plan(cases, seconds, reps);
    if args.quick && setup.link.is_none() {
        plan.link = LinkChoice::default().to_string(); // what a user has who sets nothing
    }
    if args.quick && setup.systems.is_empty() {
        // What its last lines speak of; whatever else is installed would only take time.
        plan.contenders.retain(|one| ["bare", OURS, "tcp"].contains(&one.system.as_str()));
    }
    let own_memory = memory_plan(setup, &plan).filter(|_| args.quick);
    let findings = setup.measure_and(plan, |findings| {
        let Some(plan) = own_memory else { return };
        match Runner::new(plan).and_then(Runner::run) {
            Ok(more) => findings.rows.extend(more.rows),
            Err(error) => println!("note: the memory of Open MPI was not measured: {error:#}"),
        }
    })?;
    if !args.quick {
        print!("{}", table::tables(&findings.rows));
    }
    println!();
    headline(&findings, args.quick).iter().for_each(|line| println!("{line}"));
    Ok(())
}

/// On one host kernel TCP is not what a program would use otherwise: its MPI passes messages through memory. That is measured once, since
/// each start of an MPI takes a second, and where one is installed.
fn memory_plan(setup: &Setup, plan: &Plan) -> Option<Plan> {
    let is_one_host = setup.peer.is_none() && !setup.two_hosts && setup.systems.is_empty();
    let rival: &dyn System = &OpenMpi::SHM;
    let contenders = vec![Contender::new(rival.name(), "inline")];
    (is_one_host && rival.is_usual(false)).then(|| Plan { contenders, reps: 1, ..plan.clone() })
}

/// `packhorse compare --mpi`.
fn run_mpi(args: &CompareArgs) -> Result<()> {
    let setup = &args.setup;
    let json = setup.json.as_deref().map(Output::open).transpose()?;
    let html = setup.html.as_deref().map(Output::open).transpose()?;
    let machine = Machine::here();
    machine.lines().iter().for_each(|line| println!("{line}"));
    let mpi = measure::run(&args.mpi, setup, args.quick)?;
    let (polled, others): (Vec<_>, Vec<_>) = mpi.iter().cloned().partition(polling::is_polling);
    let (applied, others): (Vec<_>, Vec<_>) =
        others.into_iter().partition(applications::is_application);
    let parts: [(_, fn(&[_]) -> _); 3] =
        [(others, row::tables), (polled, polling::tables), (applied, applications::tables)];
    for (rows, tables) in parts.iter().filter(|(rows, _)| !rows.is_empty()) {
        print!("{}", tables(rows));
    }
    let findings = Findings { machine, mpi, ..Findings::default() };
    if let Some(json) = json {
        json.finish(serde_json::to_string_pretty(&findings)?.as_bytes())?;
    }
    if let Some(html) = html {
        html.finish(report::page(&findings)?.as_bytes())?;
    }
    Ok(())
}

/// One plan of several parts.
fn joined(setup: &Setup, parts: Vec<Part>, reps: usize) -> Plan {
    let (mut cases, mut contenders) = (Vec::new(), Vec::new());
    for part in parts {
        cases.extend(part.cases);
        contenders.extend(part.contenders);
    }
    Plan { contenders, ..setup.plan(cases, SECONDS, reps) }
}

/// Everything there is to measure: what `packhorse compare` does with and without `--offload`.
pub fn everything_at_all(setup: &Setup, is_quick: bool) -> Plan {
    let sizes = setup.bytes.as_ref().map(|sizes| sizes.0.as_slice());
    let cases = if is_quick { quick_cases(sizes) } else { all_cases(sizes) };
    let mut contenders = setup.plan(Vec::new(), SECONDS, REPS).contenders;
    for one in &mut contenders {
        one.only = Pattern::FLOWS.to_vec();
    }
    let mut parts = vec![Part { cases, contenders }];
    parts.extend(everything(setup, is_quick));
    joined(setup, parts, if is_quick { 1 } else { REPS })
}

fn quick_cases(sizes: Option<&[usize]>) -> Vec<Case> {
    if sizes.is_some() {
        return all_cases(sizes);
    }
    let mut cases = Case::each(Pattern::PingPong, QUICK_LATENCY_SIZES);
    cases.extend([Case::plain(Pattern::Rate, 8), Case::plain(Pattern::Stream, 1 << 20)]);
    cases
}

fn all_cases(sizes: Option<&[usize]>) -> Vec<Case> {
    let small: Option<Vec<usize>> =
        sizes.map(|sizes| sizes.iter().copied().filter(|&bytes| bytes <= RATE_BYTES_MAX).collect());
    let mut cases = Case::each(Pattern::PingPong, sizes.unwrap_or(LATENCY_SIZES));
    cases.extend(Case::each(Pattern::Stream, sizes.unwrap_or(STREAM_SIZES)));
    cases.extend(Case::each(Pattern::Rate, small.as_deref().unwrap_or(RATE_SIZES)));
    cases
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_is_only_for_small_messages() {
        let cases = all_cases(Some(&[8, 1 << 20]));
        let of = |pattern| cases.iter().filter(|case| case.pattern == pattern).count();
        assert_eq!((of(Pattern::PingPong), of(Pattern::Stream), of(Pattern::Rate)), (2, 2, 1));
    }
}
