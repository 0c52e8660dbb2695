//! `cargo xtask test`: everything the code must withstand, one step after the other.
//!
//! ```text
//! cargo xtask test               one build of all test programs, in which program and provider are too; these run: every
//!                                room and every face, alone, between namespaces, under Open MPI; few fresh scenarios
//! cargo xtask test --complete    that, but for what passed on this very tree; then what needs builds of its own: lints, docs,
//!                                optimised programs and many scenarios, loom, other MPIs, instruction counts, sanitizers
//! ```
//!
//! What a step costs in time of processors is printed with it: whoever moves a step from one list to the other looks there.

use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, bail};

use crate::beside::Beside;
use crate::passed::Passed;
use crate::programs::{Built, GUARDED, Program};
use crate::steps::{Steps, build_once, build_quickly, cargo, command, root, run as run_command};
use crate::tools::{
    INTERFACE_TOOLS, NAMESPACES, OPEN_MPI, PYTHON_MPI, TSHARK, TWO_HOSTS_MPI, Tool, VALGRIND,
    install_packages,
};
use crate::{check, install, mpi, sanitize};

/// How thorough.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Also what takes longer; of what passed on this very tree nothing is repeated
    #[arg(long)]
    complete: bool,
    /// Repeat also what passed on this very tree
    #[arg(long, requires = "complete")]
    anew: bool,
    /// Also by the thread sanitizer, for which the standard library is built: four minutes that CI has not
    #[arg(long, requires = "complete")]
    threads: bool,
    /// Fresh simulated scenarios; without it 500, or 10000 where all is asked for
    #[arg(long, value_name = "N")]
    runs: Option<u32>,
    /// First seed of the fresh scenarios; without it, from the clock
    #[arg(long, value_name = "SEED")]
    seed: Option<u64>,
}

impl Args {
    /// Whether a step that cannot run is a failure: where all was asked for, and where nobody reads what was left out.
    fn is_strict(&self) -> bool {
        self.complete || std::env::var("CI").is_ok_and(|ci| ci == "true" || ci == "1")
    }
}

/// Takes all steps.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    build_once();
    build_quickly();
    let is_repeated = !args.complete || args.anew;
    let passed = if is_repeated { Passed::nothing() } else { Passed::earlier() };
    let mut steps = Steps::begin_after(passed);
    install_missing(&mut steps, args);
    check::add_quick_to(&mut steps);
    let mut built = Err(anyhow::anyhow!("the test programs were not built"));
    steps.take_always("all test programs are built", || {
        built = Built::by_cargo();
        built.as_ref().map(|_| ()).map_err(|error| anyhow::anyhow!("{error:#}"))
    });
    if let Ok(built) = &built {
        add_basic(&mut steps, args, built);
    }
    if args.complete {
        let computing = built.iter().flat_map(|built| &built.programs);
        let computing: Vec<_> = computing.filter(|it| it.is_computing()).cloned().collect();
        add_rest(&mut steps, args, &computing);
    }
    Ok(steps.end())
}

/// What needs nothing but the one build.
fn add_basic(steps: &mut Steps, args: &Args, built: &Built) {
    let (long, usual): (Vec<_>, Vec<_>) =
        built.programs.iter().cloned().partition(Program::is_long);
    steps.take("unit, property and corpus tests", || run_all(&usual));
    if args.complete {
        let long: Vec<_> = long.into_iter().filter(|program| !program.is_computing()).collect();
        steps.take("tests that take long", || run_all(&long));
    }
    steps.take("doc tests", || run_command(cargo("test --quiet --workspace --doc")));
    for guarded in GUARDED.iter().filter(|guarded| args.complete || !guarded.is_long) {
        take_if_here(steps, args, guarded.title, guarded.needs, || built.guarded(guarded)?.run());
    }
    let lay_out = || mpi::lay_out(&built.packhorse, &built.provider);
    take_if_here(steps, args, "Open MPI, unmodified, over Packhorse", &OPEN_MPI, || {
        lay_out()?;
        mpi::one_host()
    });
    take_if_here(steps, args, "Open MPI on two hosts", &TWO_HOSTS_MPI, || {
        lay_out()?;
        mpi::two_hosts()
    });
    if args.complete {
        return; // the same with more messages and scenarios comes with optimised programs
    }
    let packhorse = &built.packhorse;
    steps.take("some fresh simulated scenarios", || simulate(packhorse, args, 500));
    steps.take("some messages between real processes, every byte verified", || {
        soak(packhorse, 20_000)
    });
    steps.take("some scenarios over sockets and shared memory", || {
        ["udp", "tcp", "shm"].into_iter().try_for_each(|link| simulate_over(packhorse, link, 10))
    });
    take_if_here(steps, args, "some scenarios over raw Ethernet", &NAMESPACES, || {
        ["packet", "xdp"].into_iter().try_for_each(|link| simulate_on_segment(packhorse, link, 5))
    });
}

/// What is built in another form than the test programs, or takes long.
fn add_rest(steps: &mut Steps, args: &Args, computing: &[Program]) {
    steps.take("installed under a prefix, and removed", install::try_out);
    let packhorse = &install::target().join("release/packhorse"); // which that step has built
    steps.take("fresh simulated scenarios", || simulate(packhorse, args, 10_000));
    steps.take("scenarios that failed once", || {
        run_command(start(packhorse, "sim --seeds tests/seeds.txt"))
    });
    steps.take("real processes, every byte verified", || soak(packhorse, 200_000));
    let mut beside = that_wait(steps, args, packhorse);
    beside.push(Beside::new("tests that compute for long", || run_all(computing)));
    steps.take_beside(beside, |steps| {
        check::add_slow_to(steps);
        add_optimised(steps);
    });
    take_if_here(steps, args, "MPI programs in everyday life", &OPEN_MPI, || {
        mpi::life::run_all()?;
        mpi::passive::on_the_system()
    });
    take_wheels(steps, args);
    take_if_here(steps, args, "instruction counts", &VALGRIND, count_instructions);
    sanitize::add_to(steps, args.threads);
}

/// What is built optimised, and runs by itself whatever else the machine does.
fn add_optimised(steps: &mut Steps) {
    steps.take("deliberate faults are found", || {
        run_command(cargo(
            "test --release --quiet --package packhorse-tests --features sabotage --test sabotage",
        ))
    });
    steps.take("a million clients come and go", || {
        run_command(cargo(
            "test --release --quiet --package packhorse-tests --test allocations -- --ignored",
        ))
    });
    // In virtual time: it matters to nobody how well it is optimised, so it is of what is built already.
    steps.take("figures of simulated networks", || {
        run_command(cargo(
            "bench --profile release --quiet --package packhorse-tests --bench figures",
        ))
    });
    steps.take("ring, baton and commands in every order of two threads", in_every_order);
}

/// What hardly uses the processors: it sleeps until timers fire, or waits for the network.
fn that_wait<'a>(steps: &mut Steps, args: &Args, packhorse: &'a Path) -> Vec<Beside<'a>> {
    const SEGMENT: &str = "the scenarios over raw Ethernet";
    let mut beside = vec![Beside::new("the scenarios over sockets and shared memory", || {
        ["udp", "tcp", "shm"].into_iter().try_for_each(|link| simulate_over(packhorse, link, 60))
    })];
    if NAMESPACES.is_here() {
        beside.push(Beside::new(SEGMENT, || {
            let over = |link| simulate_on_segment(packhorse, link, 15);
            ["packet", "xdp"].into_iter().try_for_each(over)
        }));
    } else {
        take_if_here(steps, args, SEGMENT, &NAMESPACES, || Ok(())); // it says what is missing
    }
    beside.push(Beside::new(check::FUZZ_LINTS, check::lint_fuzz_targets));
    if !mpi::library::are_here() {
        beside.push(Beside::new("install MPIs from PyPI", mpi::library::install));
    }
    beside
}

/// Instructions are counted in programs that are optimised as users have them. What the counted ones do not use, but belongs to the same package,
/// is built soon instead.
fn count_instructions() -> Result<()> {
    const UNUSED: &str = "packhorse-sim packhorse packhorse-engine packhorse-link";
    let mut bench = cargo("bench --quiet --package packhorse-tests --bench costs");
    for package in UNUSED.split_whitespace() {
        for setting in ["opt-level=0", "codegen-units=16", "debug=0"] {
            bench.args(["--config", &format!("profile.release.package.{package}.{setting}")]);
        }
    }
    run_command(bench)
}

/// Its tests wait for processes that measure, one at a time, for a third of the time of all programs together; and they assert no times.
const BESIDE_OTHERS: &str = "packhorse-cli/offload";

/// Runs test programs one after the other, and one beside them; one that fails does not keep the others from running.
fn run_all(programs: &[Program]) -> Result<()> {
    let (beside, others): (Vec<_>, Vec<_>) =
        programs.iter().partition(|program| program.name == BESIDE_OTHERS);
    let beside = beside.into_iter().map(|it| Beside::new(&it.name, || it.run()));
    let beside: Vec<_> = beside.collect();
    let (mut failed, ended) = std::thread::scope(|threads| {
        let run_beside = || beside.into_iter().map(Beside::take).collect::<Vec<_>>();
        let beside = threads.spawn(run_beside);
        let failed: Vec<_> = others.iter().filter_map(|program| program.run().err()).collect();
        (failed, beside.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    });
    for ended in ended {
        print!("{}", ended.text);
        failed.extend(ended.result.err());
    }
    let failed: Vec<String> = failed.iter().map(|error| format!("{error:#}")).collect();
    if failed.is_empty() { Ok(()) } else { bail!("{}", failed.join("; ")) }
}

/// Loom tries them all.
fn in_every_order() -> Result<()> {
    for (package, tests) in [("packhorse-link", "ring"), ("packhorse-engine", "all_orders")] {
        let mut tests = cargo(&format!("test --quiet --release --package {package} --lib {tests}"));
        // Another configuration of everything: in a folder of its own, so that nothing else is built anew.
        tests.env("RUSTFLAGS", "--cfg loom");
        tests.env("CARGO_TARGET_DIR", root().join("target/loom"));
        run_command(tests)?;
    }
    Ok(())
}

/// What `--complete` has installed from PyPI below the target folder: MPIs, and mpi4py with its tests.
fn take_wheels(steps: &mut Steps, args: &Args) {
    const WHEELS: &str = "MPIs of PyPI, unmodified, over Packhorse";
    const SUITE: &str = "mpi4py's tests on one host and two";
    if mpi::library::are_here() {
        steps.take(WHEELS, mpi::wheels);
        return take_if_here(steps, args, SUITE, &TWO_HOSTS_MPI, mpi::suite::on_the_system);
    }
    for name in [WHEELS, SUITE] {
        steps.take(name, || bail!("{}", mpi::library::ABSENCE));
    }
}

/// Says what is missing of the system's packages, then installs it.
fn install_missing(steps: &mut Steps, args: &Args) {
    let basic: &[(&Tool, &str)] =
        &[(&INTERFACE_TOOLS, "iproute2 ethtool"), (&OPEN_MPI, "openmpi-bin libopenmpi-dev")];
    let rest: &[(&Tool, &str)] =
        &[(&TSHARK, "tshark"), (&VALGRIND, "valgrind"), (&PYTHON_MPI, "python3-venv")];
    let wanted = basic.iter().chain(if args.complete { rest } else { &[] });
    let (here, missing): (Vec<_>, Vec<_>) = wanted.partition(|(tool, _)| tool.is_here());
    let names = |all: &[&(&Tool, &'static str)]| all.iter().map(|it| it.1).collect::<Vec<_>>();
    if missing.is_empty() {
        println!("nothing to install; here already: {}", names(&here).join(", "));
        return;
    }
    let missing = names(&missing);
    steps.take_always(&format!("install {}", missing.join(", ")), || install_packages(&missing));
}

/// Takes a step that needs a tool; without it, the step is left out or, where that may not be, fails.
fn take_if_here(
    steps: &mut Steps,
    args: &Args,
    name: &str,
    tool: &Tool,
    step: impl FnOnce() -> Result<()>,
) {
    if tool.is_here() {
        steps.take(name, step);
    } else if args.is_strict() {
        steps.take(name, || bail!("{}", tool.absence()));
    } else {
        steps.leave_out(name, &tool.absence());
    }
}

/// The program, with these words.
fn start(packhorse: &Path, words: &str) -> Command {
    let mut start = Command::new(packhorse);
    start.args(words.split_whitespace()).current_dir(root());
    start
}

/// Four processes over loopback: once as it is, once through loss, duplication, reordering and damage.
fn soak(packhorse: &Path, message_count: u32) -> Result<()> {
    let faults = "--loss 10000 --duplicate 10000 --reorder 20000 --corrupt 5000";
    run_command(start(packhorse, &format!("soak --messages {message_count}")))?;
    let message_count = message_count / 5;
    run_command(start(packhorse, &format!("soak --messages {message_count} {faults}")))
}

/// Scenarios nobody has seen before. The first seed is printed, so that the whole step can be had again.
fn simulate(packhorse: &Path, args: &Args, default_count: u32) -> Result<()> {
    let (seed, count) =
        (args.seed.unwrap_or_else(seed_of_the_day), args.runs.unwrap_or(default_count));
    println!("      seeds {seed} to {}", seed + u64::from(count) - 1);
    run_command(start(packhorse, &format!("sim --runs {count} --from {seed}")))
}

/// Scenarios over a real link.
fn simulate_over(packhorse: &Path, link: &str, count: u32) -> Result<()> {
    run_command(start(packhorse, &format!("sim --over {link} --runs {count}")))
}

/// Scenarios on a segment of as many interfaces as any scenario has nodes.
fn simulate_on_segment(packhorse: &Path, link: &str, count: u32) -> Result<()> {
    const INTERFACE_COUNT: usize = 24;
    let names: Vec<String> = (0..INTERFACE_COUNT).map(|number| format!("v{number}")).collect();
    let interface_count = INTERFACE_COUNT.to_string();
    let packhorse = packhorse.to_str().context("a path that is not text")?;
    let over = format!("{link}:{}", names.join(","));
    let segment = ["--net", "sh", "tools/segment.sh", &interface_count];
    let simulation = [packhorse, "sim", "--over", &over, "--runs", &count.to_string()];
    run_command(command("unshare", segment.into_iter().chain(simulation)))
}

/// Seconds since 1970, a million seeds apart: two runs share none.
fn seed_of_the_day() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_secs() * 1_000_000
}
