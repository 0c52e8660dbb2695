//! `cargo xtask flaky`: which tests fail by chance, and how often.
//!
//! ```text
//! build once ──▶ each program, those that wait or measure first ──┐
//!                      ▲                                          │  a failure: its output is kept, the first of each test
//!                      └──────────── N times ─────────────────────┘
//! ```
//!
//! Every program runs as `cargo test` runs it, all its tests in one process, since tests of one process disturb each other
//! too. With `--busy` every core has a process beside them that only computes: a test that passes on an idle machine because
//! everything is quick there fails then. Nothing is tried twice to make it pass, and nothing that failed is left out.

mod load;
mod record;

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, ExitCode};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use crate::install::target;
use crate::programs::{Built, GUARDED, Program};
use crate::steps::shown;

pub(crate) use load::compute_until_orphaned;
use record::{Record, Said};

/// Which programs, how often, beside what.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Run each test program so often
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    times: u32,
    /// Beside one process a core that only computes
    #[arg(long)]
    busy: bool,
    /// Only programs whose tests wait or measure
    #[arg(long)]
    waiting: bool,
    /// Only programs (`package/target`) or tests with this in their names
    #[arg(long, value_name = "FILTER")]
    only: Option<String>,
}

/// A program that runs for longer hangs.
const LONGEST: Duration = Duration::from_secs(900);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Runs them, and prints what failed how often.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let (programs, missing) = find_all()?;
    let mut chosen = choose(programs, args)?;
    ensure!(!chosen.is_empty(), "no test program, and no test, has {:?} in its name", args.only);
    chosen.sort_by_key(|program| !program.is_waiting()); // stable: else in cargo's order
    let folder = target().join("flaky");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let load = args.busy.then(load::Load::start).transpose()?;
    let beside = load.as_ref().map_or("nothing else".into(), |load| load.to_string());
    println!("{} programs, {} times, beside {beside}", chosen.len(), args.times);
    let (mut record, began) = (Record::default(), Instant::now());
    for (number, program) in chosen.iter().enumerate() {
        for time in 1..=args.times {
            let at = format!("[{}/{} {time}/{}]", number + 1, chosen.len(), args.times);
            run_once(program, &folder, &at, &mut record)?;
        }
    }
    drop(load);
    println!("\n{:-<100}", "");
    missing.iter().for_each(|missing| println!("left out: {missing}"));
    record.print();
    println!("in {:.0} s, beside {beside}", began.elapsed().as_secs_f64());
    println!("{} passed, {} failed", record.passed, record.failed());
    Ok(if record.failed() == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// All programs; of those with tests behind `#[ignore]` there are two entries, the second for these tests. Where what these need is
/// not here they are left out, which is said at the end.
fn find_all() -> Result<(Vec<Program>, Vec<String>)> {
    let built = Built::by_cargo()?;
    let (present, absent): (Vec<_>, Vec<_>) =
        GUARDED.iter().partition(|guarded| guarded.needs.is_here());
    let guarded: Result<Vec<_>> = present.into_iter().map(|it| built.guarded(it)).collect();
    let missing = absent.into_iter().map(|it| format!("{}: {}", it.title, it.needs.absence()));
    Ok((built.programs.into_iter().chain(guarded?).collect(), missing.collect()))
}

fn choose(programs: Vec<Program>, args: &Args) -> Result<Vec<Program>> {
    let wanted = programs.into_iter().filter(|program| !args.waiting || program.is_waiting());
    let Some(word) = &args.only else { return Ok(wanted.collect()) };
    wanted.filter_map(|program| program.only(word).transpose()).collect()
}

/// Runs a program once and notes what became of its tests.
fn run_once(program: &Program, folder: &Path, at: &str, record: &mut Record) -> Result<()> {
    let path = folder.join(format!("{}.txt", file_name(&program.name)));
    let output = File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
    let mut command = program.command();
    command.stdout(output.try_clone()?).stderr(output);
    let began = Instant::now();
    let child = command.spawn().with_context(|| format!("{} does not start", shown(&command)))?;
    let ended = end_of(child)?;
    let text = String::from_utf8_lossy(&fs::read(&path)?).into_owned();
    let said = Said::of(&text, &ended);
    let took = began.elapsed().as_secs_f64();
    let failed = if said.failed.is_empty() { "ok".into() } else { said.failed.join(", ") };
    println!("{at} {:<40} {took:>6.1} s  {:>4} passed  {failed}", program.name, said.passed);
    for test in record.add(&program.name, said) {
        let kept =
            folder.join(format!("{}.{}.failed.txt", file_name(&program.name), file_name(&test)));
        let head = format!("$ {}\n{ended} after {took:.1} s\n\n", shown(&command));
        fs::write(&kept, head + &text)?;
        record.keep(&program.name, &test, kept);
    }
    fs::remove_file(&path)?;
    Ok(())
}

/// How it ended; it is killed if it does not.
fn end_of(mut child: Child) -> Result<String> {
    let began = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status.to_string());
        }
        if began.elapsed() > LONGEST {
            child.kill()?;
            child.wait()?;
            return Ok(format!("killed: no end in {} s", LONGEST.as_secs()));
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

fn file_name(name: &str) -> String {
    name.replace(|char: char| !char.is_ascii_alphanumeric() && char != '_' && char != '-', "_")
}
