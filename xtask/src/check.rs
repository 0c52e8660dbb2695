//! `cargo xtask check`: what can be said of the code without running it.

use std::process::ExitCode;

use anyhow::Result;

use crate::steps::{Steps, cargo, run as run_command};
use crate::{arrows, claims, order, purity, rooms, sizes};

/// Takes the steps of `check` alone.
pub(crate) fn run() -> Result<ExitCode> {
    let mut steps = Steps::begin();
    add_quick_to(&mut steps);
    add_slow_to(&mut steps);
    steps.take(FUZZ_LINTS, lint_fuzz_targets);
    Ok(steps.end())
}

/// Takes the steps for which nothing is compiled.
pub(crate) fn add_quick_to(steps: &mut Steps) {
    steps.take("formatting", || run_command(cargo("fmt --all -- --check")));
    steps.take("formatting of the fuzz targets", || {
        run_command(cargo("fmt --manifest-path fuzz/Cargo.toml -- --check"))
    });
    steps.take("the protocol is pure", purity::check_protocol);
    steps.take("arrows between rooms are those that are drawn", arrows::check);
    steps.take("arrows between the rooms of the protocol point downward", rooms::check);
    steps.take("modules of the engine name those before them", order::check);
    steps.take("no file above 700 lines, no function above 80", sizes::check);
    steps.take("`unsafe` keeps to its homes", purity::check_unsafe_homes);
    steps.take("the claims of SECURITY.md have tests", claims::check);
}

/// Takes the steps for which the compiler reads everything once more.
pub(crate) fn add_slow_to(steps: &mut Steps) {
    steps.take("lints", || {
        run_command(cargo("clippy --quiet --workspace --all-targets -- -D warnings"))
    });
    steps.take("lints with the deliberate faults compiled in", || {
        // Faults stand in the protocol, what looks for them in simulator and tests: nothing else is different with them.
        let packages =
            "--package packhorse-proto --package packhorse-sim --package packhorse-tests";
        let faults = "packhorse-proto/sabotage,packhorse-sim/sabotage,packhorse-tests/sabotage";
        run_command(cargo(&format!(
            "clippy --quiet {packages} --all-targets --features {faults} -- -D warnings"
        )))
    });
    steps.take("docs", || {
        let mut doc = cargo("doc --quiet --workspace --no-deps --document-private-items");
        doc.env("RUSTDOCFLAGS", "-D warnings");
        run_command(doc)
    });
}

/// The fuzz targets are a workspace of their own, and are built in a folder of their own.
pub(crate) const FUZZ_LINTS: &str = "lints of the fuzz targets";

pub(crate) fn lint_fuzz_targets() -> Result<()> {
    let words = "clippy --quiet --manifest-path fuzz/Cargo.toml --target-dir target/fuzz";
    run_command(cargo(&format!("{words} -- -D warnings")))
}
