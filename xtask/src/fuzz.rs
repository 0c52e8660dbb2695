//! `cargo xtask fuzz`: hostile bytes for the parser, for whole endpoints and for look-ups.
//!
//! The bodies of the targets are functions of `packhorse-tests`, so that the corpus is also replayed by an ordinary
//! test on stable. Only the search for new inputs needs nightly and cargo-fuzz.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Result, bail};

use crate::steps::{Steps, command, root, run as run_command};
use crate::tools::{CARGO_FUZZ, NIGHTLY, require};

/// What to fuzz and for how long.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Seconds for each target
    #[arg(long, value_name = "N", default_value_t = 60)]
    seconds: u64,
    /// One target only; without it all, one after the other
    #[arg(long, value_name = "NAME")]
    target: Option<String>,
    /// Processes that search at once
    #[arg(long, value_name = "N", default_value_t = 1)]
    jobs: u32,
    /// Afterwards put what was learnt into the corpus under version control, reduced to what matters
    #[arg(long)]
    keep: bool,
}

/// Longest input tried: the longest frame, or a script that is still read by a person.
const INPUT_LEN_MAX: u32 = 4096;

/// Longest input kept under version control.
const KEPT_LEN_MAX: u32 = 500;

/// Fuzzes.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    require(&[&NIGHTLY, &CARGO_FUZZ])?;
    let targets = chosen(args, &all_targets()?)?;
    let mut steps = Steps::begin();
    for target in &targets {
        steps.take(&format!("fuzz {target} for {} s", args.seconds), || search(args, target));
        if args.keep {
            steps.take(&format!("reduce the corpus of {target}"), || keep(target));
        }
    }
    Ok(steps.end())
}

/// The targets are the files of `fuzz/fuzz_targets`.
fn all_targets() -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(root().join("fuzz/fuzz_targets"))? {
        let path = entry?.path();
        names.extend(path.file_stem().map(|stem| stem.to_string_lossy().into_owned()));
    }
    names.sort();
    Ok(names)
}

fn chosen(args: &Args, all: &[String]) -> Result<Vec<String>> {
    match &args.target {
        None => Ok(all.to_vec()),
        Some(name) if all.contains(name) => Ok(vec![name.clone()]),
        Some(name) => bail!("no fuzz target is called {name}; there are: {}", all.join(", ")),
    }
}

fn search(args: &Args, target: &str) -> Result<()> {
    let [kept, scratch, _] = folders(target)?;
    let mut search = fuzz_command(target);
    search.arg(format!("--jobs={}", args.jobs)).args([scratch, kept]);
    // Scripts are worth little while they are short, so the length is not grown step by step.
    search.args(["--", "-len_control=0", "-print_final_stats=1", "-timeout=20"]);
    search.arg(format!("-max_len={INPUT_LEN_MAX}"));
    search.arg(format!("-max_total_time={}", args.seconds));
    run_command(search).map_err(|error| {
        error.context(format!("the input that failed lies in fuzz/artifacts/{target}"))
    })
}

/// The corpus under version control, the one of this machine that grows as it likes, and room for a reduced one.
fn folders(target: &str) -> Result<[PathBuf; 3]> {
    let fuzz = root().join("fuzz");
    let kept = fuzz.join("corpus").join(target);
    let [scratch, reduced] =
        ["corpus", "reduced"].map(|name| fuzz.join("target").join(name).join(target));
    for folder in [&kept, &scratch] {
        fs::create_dir_all(folder)?;
    }
    Ok([kept, scratch, reduced])
}

/// Replaces the corpus under version control by few and short inputs that reach all that is reached.
fn keep(target: &str) -> Result<()> {
    let [kept, scratch, reduced] = folders(target)?;
    if reduced.exists() {
        fs::remove_dir_all(&reduced)?;
    }
    fs::create_dir_all(&reduced)?;
    let mut reduce = fuzz_command(target);
    reduce.args([&reduced, &kept, &scratch]);
    reduce.args(["--", "-set_cover_merge=1", "-use_counters=0"]);
    reduce.arg(format!("-max_len={KEPT_LEN_MAX}"));
    run_command(reduce)?;
    fs::remove_dir_all(&kept)?;
    fs::rename(&reduced, &kept)?;
    Ok(())
}

/// cargo-fuzz on nightly. No sanitizer: there is no `unsafe` in what is fuzzed, and without one it is several times
/// quicker.
fn fuzz_command(target: &str) -> Command {
    let mut fuzz = command("cargo", ["+nightly", "fuzz", "run", "--sanitizer=none", target]);
    // Cargo tells its children which toolchain they run under; this one is another.
    fuzz.env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO");
    fuzz
}
