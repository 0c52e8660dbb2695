//! `cargo xtask figures`: the tables under version control, made anew, so that a regression is a diff.

use std::process::ExitCode;

use anyhow::Result;

use crate::steps::{Steps, cargo, run as run_command};
use crate::tools::VALGRIND;

/// Which tables.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only the instruction counts
    #[arg(long)]
    costs: bool,
}

/// Writes the tables.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let mut steps = Steps::begin();
    if !args.costs {
        steps.take("figures of simulated networks", || {
            run_command(cargo("bench --quiet --package packhorse-tests --bench figures -- --write"))
        });
    }
    if VALGRIND.is_here() {
        steps.take("instruction counts", || {
            run_command(cargo("bench --quiet --package packhorse-tests --bench costs -- --write"))
        });
    } else {
        steps.leave_out("instruction counts", &VALGRIND.absence());
    }
    Ok(steps.end())
}
