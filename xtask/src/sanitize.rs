//! The tests of everything with `unsafe` in it, and of what hands memory across threads, under a sanitizer.
//!
//! The address sanitizer works with the standard library as it is installed. The thread sanitizer does not: it sees
//! nothing of a mutex's or a channel's inside that was not built for it, and reports what they guard as races by the
//! thousand, those of the test harness first. A library built for it takes the library's sources (`rust-src`) beside the
//! compiler. Where they are missing, the step is left out and says so.

use std::path::PathBuf;
use std::process::Command;

use crate::steps::{Steps, command, root, run as run_command, spare_the_disk};
use crate::tools::{NIGHTLY, NIGHTLY_SOURCES, Tool, install_by_rustup};

/// Ask for a target, and build scripts and macros, which run in the compiler, are spared the instruments.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Test programs that use all of the API, with helpers and threads of their own.
const API: &str = "messages offload onesided queue streams";
/// Of these, those in which several threads of ours meet. The others add minutes, and what they do under the engine's lock is the same.
const THREADED: &str = "offload queue";

/// Tests that tell programs apart by the nanoseconds between their calls, of which a sanitizer makes microseconds.
const OF_NANOSECONDS: [&str; 2] = [
    "looks_of_a_program_that_works_seldom_turn_and_those_of_one_that_waits_do",
    "who_has_asked_in_vain_for_long_sleeps_on_the_links",
];

/// Tests that judge by the memory of the whole process, of which the address sanitizer keeps what was freed, whichever test freed it.
const OF_MEMORY: [&str; 1] = ["ten_thousand_live_handlers"];

/// One test leaks on purpose.
const ASAN_OPTIONS: &str = "detect_leaks=0:detect_stack_use_after_return=1";

/// Takes the steps that can be taken. What cannot be installed is left out, even where nothing else may be: there are
/// machines without a way to another compiler.
pub(crate) fn add_to(steps: &mut Steps, with_threads: bool) {
    let name = "memory, by the address sanitizer";
    if has(&[&NIGHTLY], steps, name) {
        steps.take(name, || {
            // Where `unsafe` stands, and what hands it memory: links, their rings and tables; the engine; a face that C calls.
            let packages = "packhorse-link packhorse-engine packhorse packhorse-fi";
            let programs = format!("{API} faults fork one_host scribbler stranger provider");
            let mut tests = nightly("test --quiet", "address", packages, &programs);
            tests.env("ASAN_OPTIONS", ASAN_OPTIONS);
            let left_out = OF_NANOSECONDS.into_iter().chain(OF_MEMORY);
            tests.arg("--").args(left_out.flat_map(|test| ["--skip", test]));
            run_command(tests)
        });
    }
    let name = "threads, by the thread sanitizer";
    if with_threads && has(&[&NIGHTLY, &NIGHTLY_SOURCES], steps, name) {
        steps.take(name, || {
            // Not those in which a forked child goes on (`fork`): this sanitizer cannot follow a fork of several threads. And not the
            // one whose posts must follow each other within microseconds to be a burst, which here they do not.
            let packages = "packhorse-engine packhorse";
            let mut tests = nightly("test -Zbuild-std --quiet", "thread", packages, THREADED);
            tests.args(["--", "--skip", "a_burst_leaves_together"]);
            tests.args(OF_NANOSECONDS.into_iter().flat_map(|test| ["--skip", test]));
            run_command(tests)
        });
    }
}

/// The sanitizer itself, as it comes with the nightly compiler.
fn runtime(name: &str) -> anyhow::Result<PathBuf> {
    let mut rustc = command("rustc", ["+nightly", "--print", "target-libdir"]);
    rustc.env_remove("RUSTUP_TOOLCHAIN");
    let said = rustc.output()?;
    let folder = PathBuf::from(String::from_utf8_lossy(&said.stdout).trim());
    let found = folder.join(format!("librustc-nightly_rt.{name}.a"));
    anyhow::ensure!(found.is_file(), "there is no {}", found.display());
    Ok(found)
}

/// What is looked for.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum Sanitizer {
    /// Memory that is not, or no longer, there
    Address,
    /// Memory that two threads use at once; takes the standard library's sources
    Thread,
}

/// So many random operations of MX, by a sanitizer.
pub(crate) fn random_of_mx(count: u64, sanitizer: Sanitizer) -> Command {
    let mut tests = match sanitizer {
        Sanitizer::Address => nightly("test", "address", "packhorse-mx", "random"),
        Sanitizer::Thread => nightly("test -Zbuild-std", "thread", "packhorse-mx", "random"),
    };
    tests.env("PACKHORSE_MX_OPERATIONS", count.to_string());
    tests.env("ASAN_OPTIONS", ASAN_OPTIONS);
    let looks = root().join("faces/mx/tests/random/races.txt");
    tests.env("TSAN_OPTIONS", format!("suppressions={}", looks.display()));
    tests.args(["--", "--nocapture"]);
    tests
}

/// Portals' rules and those of its launcher, in C, by the address sanitizer.
pub(crate) fn rules_of_portals() -> anyhow::Result<Command> {
    let packages = "packhorse-portals4 packhorse-pmi";
    let mut tests = nightly("test --quiet", "address", packages, "rules programs");
    // C programs over our libraries: the sanitizer stands in the program. Not a name that begins as our settings do.
    tests.env("SANITIZER_RUNTIME", runtime("asan")?).env("ASAN_OPTIONS", ASAN_OPTIONS);
    Ok(tests)
}

/// Whether all of this is here, if need be after it was installed; if not, the step is noted as left out.
fn has(tools: &[&Tool], steps: &mut Steps, name: &str) -> bool {
    for tool in tools {
        if tool.is_here() {
            continue;
        }
        if install_by_rustup(tool).is_err() || !tool.is_here() {
            steps.leave_out(name, &tool.absence());
            return false;
        }
    }
    true
}

/// Cargo of the nightly toolchain for the libraries of these packages and these test programs, and for no other: each is built with
/// all it uses. A target folder of its own, since other flags would build everything anew.
fn nightly(words: &str, sanitizer: &str, packages: &str, programs: &str) -> Command {
    let mut cargo = command("cargo", ["+nightly"].into_iter().chain(words.split_whitespace()));
    cargo.args(["--target", TARGET, "--lib"]);
    cargo.args(["--config", "profile.dev.package.'*'.opt-level=0"]); // what others wrote: no test spends its time there
    cargo.args(packages.split_whitespace().flat_map(|package| ["--package", package]));
    cargo.args(programs.split_whitespace().flat_map(|program| ["--test", program]));
    // Cargo tells its children which toolchain they run under; this one is another.
    cargo.env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO");
    // A library that a test loads while it runs finds the sanitizer in the test program, if that shows what it has.
    let flags = format!("-Zsanitizer={sanitizer} -Clink-arg=-Wl,--export-dynamic");
    cargo.env("RUSTFLAGS", flags);
    cargo.env("CARGO_TARGET_DIR", root().join("target").join(sanitizer));
    spare_the_disk(&mut cargo);
    cargo
}
