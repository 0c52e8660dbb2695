//! `cargo xtask check`: what can be said of the code without running it.

use std::process::ExitCode;

use anyhow::Result;

use crate::purity;
use crate::steps::{Steps, cargo, run as run_command};

/// Takes the steps of `check` alone.
pub(crate) fn run() -> Result<ExitCode> {
    let mut steps = Steps::begin();
    add_to(&mut steps);
    Ok(steps.end())
}

/// Takes the steps of `check` as part of a longer task.
pub(crate) fn add_to(steps: &mut Steps) {
    steps.take("formatting", || run_command(cargo("fmt --all -- --check")));
    steps.take("formatting of the fuzz targets", || {
        run_command(cargo("fmt --manifest-path fuzz/Cargo.toml -- --check"))
    });
    steps.take("lints", || {
        run_command(cargo("clippy --quiet --workspace --all-targets -- -D warnings"))
    });
    steps.take("lints with the deliberate faults compiled in", || {
        let faults = "packhorse-proto/sabotage,packhorse-tests/sabotage";
        run_command(cargo(&format!(
            "clippy --quiet --workspace --all-targets --features {faults} -- -D warnings"
        )))
    });
    steps.take("lints of the fuzz targets", || {
        run_command(cargo(
            "clippy --quiet --manifest-path fuzz/Cargo.toml --target-dir target/fuzz -- -D warnings",
        ))
    });
    steps.take("docs", || {
        let mut doc = cargo("doc --quiet --workspace --no-deps --document-private-items");
        doc.env("RUSTDOCFLAGS", "-D warnings");
        run_command(doc)
    });
    steps.take("the protocol is pure", purity::check_protocol);
    steps.take("`unsafe` keeps to its homes", purity::check_unsafe_homes);
}
