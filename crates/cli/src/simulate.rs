//! `packhorse sim`: arguments, progress, reports.

use std::cell::RefCell;
use std::collections::hash_map::RandomState;
use std::fs::{self, File};
use std::hash::{BuildHasher, Hasher};
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::PathBuf;
use std::rc::Rc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Args as ClapArgs;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use packhorse_sim::over::Over;
use packhorse_sim::run::{
    Conduct, Failed, Parts, Plan, play, play_over, play_portals, play_streams, quiet_panics,
    run_batch, run_seed,
};
use packhorse_sim::scenario::Scenario;
use packhorse_sim::shrink::shrink;
use packhorse_sim::stats::Totals;
use packhorse_sim::trace::Tracer;
use packhorse_sim::{draw, story};

const EXAMPLES: &str = "\
Examples:
  packhorse sim                          one lossy transfer, told as a story
  packhorse sim --runs 100000            fresh scenarios on all cores
  packhorse sim --runs 10000 --from 1 --hash   did a change of the code change what it does?
  packhorse sim --seed 42                replay one scenario with its trace
  packhorse sim --seed 42 --pcapng f.pcapng   and open its frames in Wireshark
  packhorse sim --runs 100000 --only portals   fresh scenarios of Portals
  packhorse sim --seeds tests/seeds.txt  every seed that ever failed
  packhorse sim --over udp --runs 20     the same traffic over real sockets, in real time

Exit status: 0 all invariants held, 1 a violation was found, 2 the command could not be carried out.";

/// Lines of trace shown with a failure, of its beginning and of its end.
const TRACE_LINE_COUNT: usize = 100;

/// Prove the protocol in simulation.
///
/// Whole endpoints in virtual time, on a network that loses, delays, doubles, reorders, corrupts and partitions. Every run
/// is a function of its seed.
#[derive(ClapArgs)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Replay the scenario of this seed and show its trace.
    #[arg(long, value_name = "N", conflicts_with_all = ["runs", "seeds"])]
    seed: Option<u64>,
    /// Run so many fresh scenarios on all cores.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), conflicts_with = "seeds")]
    runs: Option<u64>,
    /// First seed of --runs; drawn at random without it.
    #[arg(long, value_name = "SEED", requires = "runs")]
    from: Option<u64>,
    /// Run the seeds in this file, one a line, `#` begins a comment.
    #[arg(long, value_name = "FILE")]
    seeds: Option<PathBuf>,
    /// Write all frames of the replayed scenario to this file, for Wireshark.
    #[arg(long, value_name = "FILE", requires = "seed")]
    pcapng: Option<PathBuf>,
    /// Threads for --runs; all cores without it.
    #[arg(long, value_name = "N", requires = "runs", value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,
    /// Stop --runs after so many failures, shrink only the first.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    failures: u16,
    /// Report a failure as it is, without making it smaller.
    #[arg(long)]
    no_shrink: bool,
    /// Over real links that lose, double, reorder and damage 1 % of the frames each, in real time: what the applications do
    /// in each scenario, without the fates of nodes and network.
    #[arg(long, value_name = "LINK", conflicts_with_all = ["pcapng", "threads"])]
    over: Option<Over>,
    /// Helpers do only half of the work and keep the rest for their application, which looks in every few milliseconds: the offload
    /// switches `receive` and `send`.
    #[arg(long, conflicts_with = "over")]
    halves: bool,
    /// Play only this of each seed, and of every seed: messages (with one-sided operations), adversaries (those with a peer among them that
    /// is valid but unhelpful), streams, or portals. Without it every second seed has an adversary, every fourth streams beside its messages,
    /// and every fourth Portals.
    #[arg(long, value_name = "PART", conflicts_with = "over")]
    only: Option<Parts>,
    /// End --runs with one number for every frame that was sent and every event: the same seeds give the same number as long as
    /// nothing behaves differently.
    #[arg(long, requires = "from", conflicts_with = "over")]
    hash: bool,
    /// Let every endpoint make this mistake, to see the simulator fail.
    #[cfg(feature = "sabotage")]
    #[arg(long, value_name = "NAME")]
    sabotage: Option<String>,
}

impl Args {
    #[cfg(feature = "sabotage")]
    fn conduct(&self) -> Result<Conduct> {
        use packhorse_sim::run::Sabotage;
        let plain = self.plain();
        let Some(name) = &self.sabotage else { return Ok(plain) };
        let known = |fault: &&Sabotage| format!("{fault:?}").eq_ignore_ascii_case(name);
        match Sabotage::ALL.iter().find(known) {
            Some(&fault) => Ok(Conduct { sabotage: Some(fault), ..plain }),
            None => anyhow::bail!("no sabotage {name:?}; there are {:?}", Sabotage::ALL),
        }
    }

    #[cfg(not(feature = "sabotage"))]
    #[allow(clippy::unnecessary_wraps)]
    fn conduct(&self) -> Result<Conduct> {
        Ok(self.plain())
    }

    fn plain(&self) -> Conduct {
        let parts = self.only.unwrap_or_default();
        Conduct::default().with_halves(self.halves).with_parts(parts)
    }
}

/// Whether all invariants held.
pub(crate) fn run(args: &Args) -> Result<bool> {
    let conduct = args.conduct()?;
    if let Some(over) = &args.over {
        return run_over(args, over);
    }
    if let Some(seed) = args.seed {
        return replay(args, seed, conduct);
    }
    if let Some(path) = &args.seeds {
        let text = fs::read_to_string(path)
            .with_context(|| format!("cannot read the seeds in {}", path.display()))?;
        return run_seeds(args, &parse_seeds(&text)?, conduct);
    }
    match args.runs {
        Some(count) => run_fresh(args, count, conduct),
        None => {
            story::tell(1, Box::new(BufWriter::new(io::stdout())))?;
            Ok(true)
        }
    }
}

fn parse_seeds(text: &str) -> Result<Vec<u64>> {
    let mut seeds = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let word = line.split('#').next().unwrap_or("").trim();
        if !word.is_empty() {
            let line = index + 1;
            seeds.push(word.parse().with_context(|| {
                format!("line {line}: {word:?} is no seed (a number up to 2^64)")
            })?);
        }
    }
    Ok(seeds)
}

fn replay(args: &Args, seed: u64, conduct: Conduct) -> Result<bool> {
    quiet_panics();
    let parts = args.only.unwrap_or_default();
    let scenario = parts.scenario_of(seed);
    let mut tracer = Tracer::new(Some(Box::new(BufWriter::new(io::stdout()))), 0);
    if let Some(path) = &args.pcapng {
        let file =
            File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
        tracer.capture_to(file).with_context(|| format!("cannot write {}", path.display()))?;
    }
    println!("{}", summary(&scenario));
    let tracer = Rc::new(RefCell::new(tracer));
    let mut outcome = play(&scenario, conduct, Some(Rc::clone(&tracer)));
    if args.only.is_none() {
        outcome.violations.extend(play_streams(seed, conduct).0);
        outcome.violations.extend(play_portals(seed, conduct).0);
    }
    tracer.borrow_mut().finish().context("cannot write the trace")?;
    let stats = &outcome.stats;
    println!(
        "\n{} messages moved, {} sends failed, {} moments",
        stats.moved_count, stats.failed_count, stats.turn_count
    );
    let met: Vec<_> = stats.met().filter(|(_, is_met)| *is_met).map(|(name, _)| name).collect();
    println!("met: {}", met.join(", "));
    for violation in &outcome.violations {
        println!("VIOLATION: {violation}");
    }
    Ok(outcome.violations.is_empty())
}

fn summary(scenario: &Scenario) -> String {
    let mut text = format!(
        "seed {}: {} nodes, {} messages",
        scenario.seed,
        scenario.nodes.len(),
        scenario.send_count()
    );
    if let Some(adversary) = &scenario.adversary {
        text += &format!("\n{adversary:?}");
    }
    text += &format!("\nweather {:?}\nline {:?}", scenario.weather, scenario.line);
    for (index, node) in scenario.nodes.iter().enumerate() {
        text += &format!(
            "\nnode {index} is {}: {} ports, {:?}\n  {:?}",
            node.letter(),
            node.ports,
            node.limits,
            node.settings
        );
    }
    text
}

fn run_seeds(args: &Args, seeds: &[u64], conduct: Conduct) -> Result<bool> {
    quiet_panics();
    let bar = progress_bar(seeds.len() as u64);
    let mut totals = Totals::default();
    let mut failed = Vec::new();
    for &seed in seeds {
        let outcome = run_seed(seed, conduct.with_parts(args.only.unwrap_or(Parts::All)));
        totals.add(&outcome.stats);
        bar.inc(1);
        if !outcome.violations.is_empty() {
            failed.push(Failed { seed, violations: outcome.violations });
        }
    }
    bar.finish_and_clear();
    println!("{} seeds, {} failed", seeds.len(), failed.len());
    report(args, &failed, conduct)?;
    Ok(failed.is_empty())
}

fn run_fresh(args: &Args, count: u64, conduct: Conduct) -> Result<bool> {
    quiet_panics();
    let threads = match args.threads {
        Some(threads) => usize::from(threads),
        None => thread::available_parallelism().map_or(1, usize::from),
    };
    let first_seed = args.from.unwrap_or_else(fresh_seed);
    println!("{count} runs from seed {first_seed} on {threads} threads");
    let bar = progress_bar(count);
    let plan = Plan { first_seed, count, threads, failed_count_max: args.failures.into() };
    let start = Instant::now();
    let batch = run_batch(plan, conduct, || bar.inc(1));
    let seconds = start.elapsed().as_secs_f64();
    bar.finish_and_clear();
    let runs = batch.totals.run_count();
    println!(
        "{runs} runs in {seconds:.1} s, {:.0} a second; {} violated",
        runs as f64 / seconds,
        batch.failed.len()
    );
    print!("{}", batch.totals.table());
    if args.hash {
        match count - runs as u64 {
            0 => println!("hash of all frames and events: {}", batch.digest),
            missing => println!("no hash of all frames and events: {missing} runs are missing"),
        }
    }
    report(args, &batch.failed, conduct)?;
    Ok(batch.failed.is_empty())
}

/// The scenarios of some seeds, one after the other, over real links.
fn run_over(args: &Args, over: &Over) -> Result<bool> {
    quiet_panics();
    let seeds = match (args.seed, &args.seeds) {
        (Some(seed), _) => vec![seed],
        (None, Some(path)) => {
            let text = fs::read_to_string(path)
                .with_context(|| format!("cannot read the seeds in {}", path.display()))?;
            parse_seeds(&text)?
        }
        (None, None) => {
            let first = args.from.unwrap_or_else(fresh_seed);
            (0..args.runs.unwrap_or(1)).map(|number| first.wrapping_add(number)).collect()
        }
    };
    println!("{} runs from seed {} over {over}", seeds.len(), seeds.first().unwrap_or(&0));
    let bar = progress_bar(seeds.len() as u64);
    let (mut moved_count, mut failed) = (0, Vec::new());
    let start = Instant::now();
    for &seed in &seeds {
        let scenario = draw(seed).of_applications();
        let outcome = play_over(&scenario, |node| over.open(seed, node))
            .with_context(|| format!("cannot open {over}"))?;
        moved_count += outcome.stats.moved_count;
        bar.inc(1);
        if !outcome.violations.is_empty() {
            failed.push(Failed { seed, violations: outcome.violations });
            if failed.len() >= args.failures.into() {
                break;
            }
        }
    }
    bar.finish_and_clear();
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "{moved_count} messages moved and verified in {seconds:.1} s; {} violated",
        failed.len()
    );
    for failure in &failed {
        println!("\nseed {} violates:", failure.seed);
        failure.violations.iter().for_each(|violation| println!("  {violation}"));
    }
    Ok(failed.is_empty())
}

/// A seed nobody chose, short enough to be typed.
fn fresh_seed() -> u64 {
    RandomState::new().build_hasher().finish() >> 16
}

fn progress_bar(count: u64) -> ProgressBar {
    let style = "{bar:40} {pos}/{len} runs, {per_sec}, {eta} left";
    let bar = ProgressBar::new(count)
        .with_style(ProgressStyle::with_template(style).expect("a sound template"));
    if io::stderr().is_terminal() {
        bar.enable_steady_tick(Duration::from_millis(200));
    } else {
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
    bar
}

fn report(args: &Args, failed: &[Failed], conduct: Conduct) -> Result<()> {
    for failure in failed {
        println!("\nseed {} violates:", failure.seed);
        failure.violations.iter().for_each(|violation| println!("  {violation}"));
    }
    let smallest = failed.iter().find(|failure| failure.is_of_scenario());
    let Some(first) = smallest.filter(|_| !args.no_shrink) else { return Ok(()) };
    println!("\nmaking seed {} smaller …", first.seed);
    io::stdout().flush()?;
    let parts = if first.is_beset() { Parts::Adversaries } else { Parts::Messages };
    let (scenario, violations) = shrink(&parts.scenario_of(first.seed), conduct);
    println!("{}", summary(&scenario));
    println!(
        "tags are numbered: {}, heals at {} ns",
        scenario.is_named_by_tag, scenario.heal_at_ns
    );
    scenario
        .steps
        .iter()
        .for_each(|step| println!("  {} ns, node {}: {:?}", step.at_ns, step.node, step.action));
    violations.iter().for_each(|violation| println!("violates: {violation}"));
    let tracer = Rc::new(RefCell::new(Tracer::new(None, usize::MAX)));
    play(&scenario, conduct, Some(Rc::clone(&tracer)));
    tracer.borrow_mut().close_line();
    print_ends(&tracer.borrow().last().collect::<Vec<_>>());
    let part = if first.is_beset() { "adversaries" } else { "messages" };
    println!("replay the whole: packhorse sim --seed {} --only {part}", first.seed);
    Ok(())
}

fn print_ends(lines: &[&str]) {
    let (head, rest) = lines.split_at(lines.len().min(TRACE_LINE_COUNT));
    let (left_out, tail) = rest.split_at(rest.len().saturating_sub(TRACE_LINE_COUNT));
    head.iter().for_each(|line| println!("{line}"));
    if !left_out.is_empty() {
        println!("… {} lines left out …", left_out.len());
    }
    tail.iter().for_each(|line| println!("{line}"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seed_files_may_have_comments() {
        assert_eq!(parse_seeds("1 # lost Done\n\n# none\n 22\n").unwrap(), [1, 22]);
        let error = format!("{:#}", parse_seeds("1\nx2\n").unwrap_err());
        assert!(error.contains("line 2") && error.contains("x2"), "{error}");
    }
}
