//! `cargo xtask mutants`: which changes to `proto` do the tests notice?
//!
//! A mutant costs a build and a test run, and there are thousands: a shard or a time limit makes it bearable.
//! `--shard 0/10` takes every tenth mutant, so its percentage stands for the whole. What was found is kept in
//! `mutants.out`; `--iterate` goes on where the last run stopped.

use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use crate::steps::{Steps, cargo, root, run as run_command, shown};
use crate::tools::{MUTANTS, NEXTEST, require};

/// How much to try.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only the K-th of N parts, e.g. 0/10
    #[arg(long, value_name = "K/N")]
    shard: Option<String>,
    /// Only mutants of files that match, e.g. `crates/proto/src/delivery/ack.rs` (may be repeated)
    #[arg(long, value_name = "GLOB")]
    file: Vec<String>,
    /// Stop after this long and judge what was tried
    #[arg(long, value_name = "N")]
    minutes: Option<u64>,
    /// Mutants tried at once
    #[arg(long, value_name = "N", default_value_t = 1)]
    jobs: u32,
    /// Leave out mutants that an earlier run has caught
    #[arg(long)]
    iterate: bool,
    /// Simulated runs against each mutant, beside the crate's own tests
    #[arg(long, value_name = "N", default_value_t = 300)]
    runs: u32,
    /// Fail below this percentage of viable mutants caught
    #[arg(long, value_name = "PERCENT", default_value_t = 85)]
    at_least: u64,
    /// Only count and name the mutants
    #[arg(long)]
    list: bool,
}

/// Tries mutants and judges the outcome.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    require(&[&MUTANTS])?;
    let mut steps = Steps::begin();
    let mut patience = Duration::from_secs(60);
    if !args.list {
        let mut passed = false;
        steps.take("the tests on the code as it is", || {
            patience = patience.max(4 * args.jobs * baseline(args)?);
            passed = true;
            Ok(())
        });
        if !passed {
            return Ok(steps.end());
        }
    }
    steps.take("mutants of packhorse-proto", || {
        let ended = search(args, patience)?;
        if args.list {
            return Ok(());
        }
        if !ended {
            println!("      stopped by the time limit; judging what was tried");
        }
        judge(&root().join("mutants.out"), args.at_least)
    });
    Ok(steps.end())
}

/// The tests a mutant must get past. Unit tests first: they are the quickest to notice. Then whole endpoints.
const TESTS: &str = "--lib --test protocol --test sim";

/// The tests on the code as it is: they must pass, and their time says how long a mutant may take.
fn baseline(args: &Args) -> Result<Duration> {
    let packages = "--package packhorse-proto --package packhorse-tests";
    let tool = if NEXTEST.is_here() { "nextest run --cargo-quiet" } else { "test --quiet" };
    run_command(quiet(args, &format!("test --no-run --quiet {packages} {TESTS}")))?;
    let began = Instant::now();
    run_command(quiet(args, &format!("{tool} {packages} {TESTS}")))?;
    Ok(began.elapsed())
}

/// Cargo for many builds that nobody debugs.
fn quiet(args: &Args, words: &str) -> Command {
    let mut command = cargo(words);
    command.env("PACKHORSE_TEST_RUNS", args.runs.to_string());
    command.env("CARGO_PROFILE_TEST_DEBUG", "0").env("CARGO_PROFILE_DEV_DEBUG", "0");
    command
}

/// The command line of cargo-mutants. Its own baseline tests only the mutated package, so it is left out.
fn search_command(args: &Args, patience: Duration) -> Command {
    let mut line = format!(
        "mutants --package packhorse-proto --test-package packhorse-proto --test-package packhorse-tests \
         --baseline skip --jobs {} --timeout {} --build-timeout 600 --cap-lints true --no-shuffle",
        args.jobs,
        patience.as_secs()
    );
    for glob in &args.file {
        line.push_str(&format!(" --file {glob}"));
    }
    if let Some(shard) = &args.shard {
        line.push_str(&format!(" --shard {shard} --sharding round-robin"));
    }
    for (wanted, flag) in [(args.iterate, " --iterate"), (args.list, " --list")] {
        line.push_str(if wanted { flag } else { "" });
    }
    if !args.list {
        // Nextest stops at the first failure of any test program, and runs them side by side.
        line.push_str(if NEXTEST.is_here() { " --test-tool nextest" } else { "" });
        line.push_str(&format!(" -- {TESTS}"));
    }
    quiet(args, &line)
}

/// Runs the search; `false` if the time limit ended it. Survivors are no error here: `judge` counts them.
fn search(args: &Args, patience: Duration) -> Result<bool> {
    let mut mutants = search_command(args, patience);
    println!("      $ {}", shown(&mutants));
    let mut child = mutants.spawn().context("cargo mutants could not be started")?;
    let deadline = args.minutes.map(|minutes| Instant::now() + Duration::from_secs(60 * minutes));
    loop {
        if let Some(status) = child.try_wait()? {
            // 2: some mutants survived; 3: some tests hung. Both are results.
            return match status.code() {
                Some(0 | 2 | 3) => Ok(true),
                _ => bail!("cargo mutants ended with {status}; its log is mutants.out/log"),
            };
        }
        if deadline.is_some_and(|deadline| Instant::now() > deadline) {
            // As from the keyboard: it ends its own children and takes its copy of the tree away.
            let _ = Command::new("kill").args(["-INT", &child.id().to_string()]).status()?;
            child.wait()?;
            return Ok(false);
        }
        std::thread::sleep(Duration::from_millis(500));
    }
}

/// Counts what cargo-mutants wrote and compares it with what is asked.
fn judge(out: &Path, at_least: u64) -> Result<()> {
    let lines = |name: &str| -> Vec<String> {
        let text = fs::read_to_string(out.join(name)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    };
    let (caught, missed, hung) = (lines("caught.txt"), lines("missed.txt"), lines("timeout.txt"));
    let unviable = lines("unviable.txt").len();
    let noticed = (caught.len() + hung.len()) as u64;
    let viable = noticed + missed.len() as u64;
    if viable == 0 {
        bail!("no viable mutant was tried");
    }
    println!("\n      survivors:");
    for mutant in &missed {
        println!("        {mutant}");
    }
    let percent = noticed as f64 * 100.0 / viable as f64;
    println!(
        "      {} caught, {} hung (caught by time-out), {} missed, {unviable} unviable: {percent:.1} % of {viable} viable caught",
        caught.len(),
        hung.len(),
        missed.len()
    );
    if noticed * 100 < viable * at_least {
        bail!("{percent:.1} % caught, {at_least} % asked");
    }
    Ok(())
}
