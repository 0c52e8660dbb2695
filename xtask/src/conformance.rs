//! `cargo xtask conformance`: every MPI there is over Packhorse, and the result file made anew.

use std::fmt::Write as _;
use std::fs;
use std::process::ExitCode;

use anyhow::Result;

use crate::mpi::{self, Stage};
use crate::mpi4py;
use crate::steps::root;
use crate::tools::{PYTHON_MPI, require};

/// Where the results are kept.
const RESULTS: &str = "faces/ofi/tests/mpi/results.txt";

/// What is tried.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Ranks of each run
    #[arg(long, value_name = "N", default_value_t = 2)]
    ranks: usize,
}

/// Tries all, and writes what came of each, failures too.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    require(&[&PYTHON_MPI])?;
    let stage = Stage::build()?;
    let source = mpi4py::source(&stage)?;
    let mut results = String::from(
        "# mpi4py's test suite over Packhorse, by `cargo xtask conformance`. What is left out: exclusions.txt.\n",
    );
    let mut failed = 0;
    for library in &mpi4py::ALL {
        println!("{}", library.name);
        let version =
            mpi4py::version_of(&stage, library).unwrap_or_else(|error| format!("{error:#}"));
        let line = match mpi4py::run_suite(&stage, &source, library, args.ranks) {
            Ok(line) => format!("passed  {line}"),
            Err(error) => {
                failed += 1;
                println!("{error:#}");
                let first = format!("{error:#}").lines().next().unwrap_or_default().to_owned();
                format!("FAILED  {}: {first}", library.name)
            }
        };
        println!("{line}");
        writeln!(results, "{line} ({version})")?;
    }
    if let Err(error) = mpi::smoke_with(&stage) {
        failed += 1;
        writeln!(results, "FAILED  smoke: {error:#}")?;
    }
    fs::write(root().join(RESULTS), results)?;
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
