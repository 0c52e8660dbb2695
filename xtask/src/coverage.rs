//! `cargo xtask coverage`: which lines of `proto` do its own tests and the simulator reach?

use std::process::ExitCode;

use anyhow::Result;

use crate::steps::{Steps, cargo, run as run_command};
use crate::tools::{TARPAULIN, require};

/// What counts as enough, and what to write.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Fail below this percentage of lines
    #[arg(long, value_name = "PERCENT", default_value_t = 95)]
    at_least: u32,
    /// Also write an HTML report to target/coverage
    #[arg(long)]
    html: bool,
    /// Simulated runs that drive the protocol, beside its own tests
    #[arg(long, value_name = "N", default_value_t = 1500)]
    runs: u32,
}

/// Measures.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    require(&[&TARPAULIN])?;
    let mut steps = Steps::begin();
    steps.take("line coverage of packhorse-proto", || {
        let report = if args.html { "--out Stdout --out Html --out Lcov" } else { "--out Stdout --out Lcov" };
        let mut tarpaulin = cargo(&format!(
            "tarpaulin --engine llvm --packages packhorse-proto --packages packhorse-tests --lib --test protocol --test sim --test corpus \
             --include-files crates/proto/src/* --fail-under {} --timeout 1800 --skip-clean \
             --output-dir target/coverage --target-dir target/coverage/build {report}",
            args.at_least
        ));
        tarpaulin.env("PACKHORSE_TEST_RUNS", args.runs.to_string());
        std::fs::create_dir_all(crate::steps::root().join("target/coverage"))?;
        run_command(tarpaulin)
    });
    Ok(steps.end())
}
