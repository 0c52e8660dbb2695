//! `cargo xtask test`: everything the code must withstand, one step after the other.

use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Result;

use crate::steps::{
    Steps, build_once, build_quickly, cargo, command, root, run as run_command, spare_the_disk,
    spare_the_time,
};
use crate::tools::{
    NAMESPACES, NEXTEST, OPEN_MPI, TSHARK, TWO_HOSTS_MPI, Tool, VALGRIND, install_packages,
};
use crate::{check, install, mpi, sanitize};

/// How thorough.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Install by name what is missing, and leave out only sanitizers no compiler can be had for
    #[arg(long)]
    complete: bool,
    /// Fresh simulated scenarios
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    runs: u32,
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
    build_quickly();
    let mut steps = Steps::begin();
    if args.complete {
        build_once();
        let packages = [
            (&VALGRIND, "valgrind"),
            (&TSHARK, "tshark"),
            (&OPEN_MPI, "openmpi-bin libopenmpi-dev python3-venv"),
        ];
        install_missing(&mut steps, &packages);
    }
    check::add_to(&mut steps);
    steps.take("unit, property, corpus and doc tests", run_tests);
    steps.take("fresh simulated scenarios", || simulate(args));
    steps.take("scenarios that failed once", || {
        run_command(cargo(
            "run --release --quiet --package packhorse-cli -- sim --seeds tests/seeds.txt",
        ))
    });
    steps.take("deliberate faults are found", || {
        run_command(cargo(
            "test --release --quiet --package packhorse-tests --features sabotage --test sabotage",
        ))
    });
    steps.take("figures of simulated networks", || {
        run_command(cargo("bench --quiet --package packhorse-tests --bench figures"))
    });
    steps.take("real processes, every byte verified", soak);
    steps.take("the scenarios over sockets and shared memory", || {
        for link in ["udp", "shm"] {
            run_command(cargo(&format!(
                "run --release --quiet --package packhorse-cli -- sim --over {link} --runs 60"
            )))?;
        }
        Ok(())
    });
    take_if_here(&mut steps, args, "the scenarios over raw Ethernet", &NAMESPACES, || {
        ["packet", "xdp"].into_iter().try_for_each(simulate_on_segment)
    });
    take_if_here(&mut steps, args, "UDP between two network namespaces", &NAMESPACES, || {
        run_command(cargo("test --quiet --package packhorse-link --test netns -- --ignored"))
    });
    take_if_here(&mut steps, args, "raw Ethernet between two namespaces", &NAMESPACES, || {
        run_command(cargo("test --quiet --package packhorse-link --test packet -- --ignored"))
    });
    take_if_here(&mut steps, args, "XDP between two namespaces", &NAMESPACES, || {
        run_command(cargo("test --quiet --package packhorse-link --test xdp -- --ignored"))
    });
    take_if_here(&mut steps, args, "rails between two network namespaces", &NAMESPACES, || {
        run_command(cargo(
            "test --quiet --package packhorse --test rails -- --ignored --test-threads 1",
        ))
    });
    take_if_here(&mut steps, args, "kill -9 over raw Ethernet", &NAMESPACES, || {
        run_command(cargo("test --quiet --package packhorse --test deaths -- --ignored"))
    });
    steps.take("ring, baton and commands in every order of two threads", || {
        for (package, tests) in [("packhorse-link", "ring"), ("packhorse-engine", "all_orders")] {
            let mut tests =
                cargo(&format!("test --quiet --release --package {package} --lib {tests}"));
            // Another configuration of everything: in a folder of its own, so that nothing else is built anew.
            tests.env("RUSTFLAGS", "--cfg loom");
            tests.env("CARGO_TARGET_DIR", root().join("target/loom"));
            run_command(tests)?;
        }
        Ok(())
    });
    steps.take("installed under a prefix, and removed", install::try_out);
    take_if_here(
        &mut steps,
        args,
        "Open MPI, unmodified, over Packhorse",
        &OPEN_MPI,
        mpi::one_host,
    );
    take_if_here(&mut steps, args, "Open MPI on two hosts", &TWO_HOSTS_MPI, mpi::two_hosts);
    take_if_here(&mut steps, args, "MPI programs in everyday life", &OPEN_MPI, || {
        mpi::life::run_all()?;
        mpi::passive::on_the_system()
    });
    take_wheels(&mut steps, args);
    take_if_here(&mut steps, args, "Open MPI in the patterns of offload", &OPEN_MPI, || {
        run_command(cargo("test --quiet --package packhorse-cli --test offload -- --ignored"))
    });
    take_if_here(&mut steps, args, "captures are read by tshark", &TSHARK, || {
        run_command(cargo("test --quiet --package packhorse-link --test dissector -- --ignored"))
    });
    take_if_here(&mut steps, args, "instruction counts", &VALGRIND, || {
        run_command(cargo("bench --quiet --package packhorse-tests --bench costs"))
    });
    sanitize::add_to(&mut steps, args.complete);
    Ok(steps.end())
}

/// What `--complete` installs from PyPI below the target folder: MPIs, and mpi4py with its tests.
fn take_wheels(steps: &mut Steps, args: &Args) {
    const WHEELS: &str = "MPIs of PyPI, unmodified, over Packhorse";
    const SUITE: &str = "mpi4py's tests on one host and two";
    if args.complete && !mpi::library::are_here() {
        steps.take("install MPIs from PyPI", mpi::library::install);
    }
    if mpi::library::are_here() {
        steps.take(WHEELS, mpi::wheels);
        return take_if_here(steps, args, SUITE, &TWO_HOSTS_MPI, mpi::suite::on_the_system);
    }
    for name in [WHEELS, SUITE] {
        if args.is_strict() {
            steps.take(name, || anyhow::bail!("{}", mpi::library::ABSENCE));
        } else {
            steps.leave_out(name, mpi::library::ABSENCE);
        }
    }
}

/// Says what is missing, then installs it.
fn install_missing(steps: &mut Steps, packages: &[(&Tool, &str)]) {
    let missing: Vec<&str> =
        packages.iter().filter(|(tool, _)| !tool.is_here()).map(|&(_, package)| package).collect();
    if missing.is_empty() {
        println!(
            "nothing to install; here already: {}",
            packages.iter().map(|p| p.1).collect::<Vec<_>>().join(", ")
        );
        return;
    }
    steps.take(&format!("install {}", missing.join(", ")), || install_packages(&missing));
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
        steps.take(name, || anyhow::bail!("{}", tool.absence()));
    } else {
        steps.leave_out(name, &tool.absence());
    }
}

/// The tests of all crates; doc tests too, which nextest does not run.
fn run_tests() -> Result<()> {
    if NEXTEST.is_here() {
        run_command(cargo("nextest run --workspace --no-fail-fast"))?;
        return run_command(cargo("test --quiet --workspace --doc"));
    }
    run_command(cargo("test --quiet --workspace --no-fail-fast"))
}

/// Four processes over loopback: once as it is, once through loss, duplication, reordering and damage.
fn soak() -> Result<()> {
    let faults = "--loss 10000 --duplicate 10000 --reorder 20000 --corrupt 5000";
    for how in ["--messages 200000", &format!("--messages 40000 {faults}")] {
        run_command(cargo(&format!(
            "run --release --quiet --package packhorse-cli -- soak {how}"
        )))?;
    }
    Ok(())
}

/// Scenarios nobody has seen before. The first seed is printed, so that the whole step can be had again.
fn simulate(args: &Args) -> Result<()> {
    let seed = args.seed.unwrap_or_else(seed_of_the_day);
    println!("      seeds {seed} to {}", seed + u64::from(args.runs) - 1);
    run_command(cargo(&format!(
        "run --release --quiet --package packhorse-cli -- sim --runs {} --from {seed}",
        args.runs
    )))
}

/// Scenarios on a segment of as many interfaces as any scenario has nodes.
fn simulate_on_segment(link: &str) -> Result<()> {
    const INTERFACE_COUNT: usize = 24;
    let names: Vec<String> = (0..INTERFACE_COUNT).map(|number| format!("v{number}")).collect();
    let sim = format!(
        "run --offline --release --quiet --package packhorse-cli -- sim --over {link}:{} --runs 40",
        names.join(",")
    );
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let count = INTERFACE_COUNT.to_string();
    let words = ["--net", "sh", "tools/segment.sh", &count, &cargo];
    let mut simulation = command("unshare", words.into_iter().chain(sim.split_whitespace()));
    spare_the_disk(&mut simulation);
    spare_the_time(&mut simulation);
    run_command(simulation)
}

/// Seconds since 1970, a million seeds apart: two runs share none.
fn seed_of_the_day() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_secs() * 1_000_000
}
