//! `cargo xtask`: everything that is done to the code rather than by it.
//!
//! ```text
//! check     formatting, lints, docs, pure `proto`, arrows         check.rs, purity.rs, arrows.rs
//! test      all of it, one step after the other                   test.rs, sanitize.rs, mpi/
//! flaky     which tests fail by chance, and how often             flaky.rs, programs.rs
//! conformance  every MPI there is, over Packhorse                 mpi/conformance.rs
//! fuzz      hostile bytes, on nightly                             fuzz.rs
//! coverage  which lines of `proto` the tests reach                coverage.rs
//! mutants   which changes to `proto` the tests notice             mutants.rs
//! install   program, provider, manual, completions             install.rs
//! figures   the tables under version control, made anew           figures.rs
//! ```
//!
//! A task is a list of named steps (`steps.rs`); what a step needs from the machine is asked of `tools.rs`, which
//! says what is missing and how to get it.

#![forbid(unsafe_code)]

mod arrows;
mod beside;
mod check;
mod claims;
mod coverage;
mod fabtests;
mod figures;
mod flaky;
mod fuzz;
mod install;
mod mpi;
mod mutants;
mod mx;
mod order;
mod passed;
mod portals;
mod programs;
mod purity;
mod rooms;
mod sanitize;
mod sizes;
mod steps;
mod test;
mod tools;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Tasks of the Packhorse workspace.
#[derive(Parser)]
#[command(name = "cargo xtask", version, disable_help_subcommand = true)]
struct Args {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Formatting, lints and docs with warnings as errors; purity of the protocol crate; arrows between rooms; homes of `unsafe`
    Check,
    /// Run the tests of every room and every face, in ten minutes; with --complete all there are
    Test(test::Args),
    /// Run the test programs many times, on request beside a load on all cores, and list what failed how often
    Flaky(flaky::Args),
    /// One of the processes of `flaky --busy`
    #[command(hide = true)]
    ComputeUntilOrphaned,
    /// Run mpi4py's test suite and a program of ours on every MPI over Packhorse, and write the result file
    Conformance(mpi::conformance::Args),
    /// Feed hostile bytes to the parser and to whole endpoints (needs nightly and cargo-fuzz)
    Fuzz(fuzz::Args),
    /// Line coverage of the protocol crate (needs cargo-tarpaulin)
    Coverage(coverage::Args),
    /// Mutation testing of the protocol crate (needs cargo-mutants)
    Mutants(mutants::Args),
    /// Build Open-MX's own tests against our headers and run them, from a source tree of it
    Mx(mx::Args),
    /// Run libfabric's fabtests by their own script over our provider, from a source tree of libfabric
    Fabtests(fabtests::Args),
    /// Build the tests of Portals' reference implementation against our header and run them, from a source tree of it
    Portals(portals::Args),
    /// Build everything and install it under a prefix
    Install(install::Args),
    /// Make the tables of figures and of instruction counts anew
    Figures(figures::Args),
}

fn main() -> ExitCode {
    let done = match Args::parse().task {
        Task::Check => check::run(),
        Task::Test(args) => test::run(&args),
        Task::Flaky(args) => flaky::run(&args),
        Task::ComputeUntilOrphaned => flaky::compute_until_orphaned(),
        Task::Conformance(args) => mpi::conformance::run(&args),
        Task::Fuzz(args) => fuzz::run(&args),
        Task::Coverage(args) => coverage::run(&args),
        Task::Mutants(args) => mutants::run(&args),
        Task::Mx(args) => mx::run(&args),
        Task::Fabtests(args) => fabtests::run(&args),
        Task::Portals(args) => portals::run(&args),
        Task::Install(args) => install::run(&args),
        Task::Figures(args) => figures::run(&args),
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
