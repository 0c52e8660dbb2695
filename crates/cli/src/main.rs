//! The `packhorse` program: the command line, and what its commands print.
//!
//! Each command is a file or a folder here, or in `packhorse-bench`, where the arguments of a measurement stand beside it.

#![forbid(unsafe_code)]

use std::io;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use packhorse_bench::{command as bench, compare, mpi, peer, report, serve};

mod find;
mod info;
mod lab;
mod manual;
mod mx;
mod paths;
mod peers;
mod simulate;
mod soak;
mod today;

const EXAMPLES: &str = "\
Examples:
  packhorse compare --quick                a first impression: under 20 seconds, no rights needed
  packhorse report --two-hosts             everything there is to measure, as one page
  packhorse serve                          let another machine measure against this one
  packhorse bench pingpong --peer ph1:…    and measure against it, with the address that it printed
  packhorse run mpirun -n 4 ./program      your MPI program, with your MPI, over Packhorse
  packhorse info                           what there is to measure with, and all settings
  packhorse sim                            the story of one transfer over a lossy network
  packhorse lab                            the papers' machines, and what they printed

Exit status: 0 all well, 1 a fault was found (sim, soak), 2 the command could not be carried out.";

/// Message passing over ordinary Ethernet.
#[derive(Parser)]
#[command(name = "packhorse", version, about = "Message passing over ordinary Ethernet", after_help = EXAMPLES)]
#[command(arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Run(mpi::run::RunArgs),
    Check(mpi::check::CheckArgs),
    Env(mpi::env::EnvArgs),
    Compare(compare::CompareArgs),
    Bench(bench::BenchArgs),
    Report(report::command::ReportArgs),
    Serve(serve::ServeArgs),
    /// Show what this machine has to measure with, and the settings.
    ///
    /// Kernel, cores, interfaces and what their drivers can do, socket buffers; Packhorse's links, defaults and the
    /// variables of the environment that change them.
    #[command(
        after_help = "Examples:\n  packhorse info\n  PACKHORSE_PORTS=7000-7009 packhorse info   with a setting"
    )]
    Info,
    Paths(paths::PathsArgs),
    Peers(peers::PeersArgs),
    Find(find::FindArgs),
    Mx(mx::MxArgs),
    Sim(simulate::Args),
    Lab(lab::LabArgs),
    Soak(soak::SoakArgs),
    /// Write the manual page to standard output.
    #[command(hide = true)]
    Man,
    /// Write completions for a shell to standard output.
    #[command(hide = true)]
    Completions {
        /// bash, zsh, fish, elvish or powershell.
        shell: clap_complete::Shell,
    },
    #[command(hide = true)]
    Peer(peer::PeerArgs),
    #[command(hide = true)]
    SoakMember(soak::MemberArgs),
}

/// 0: all well; 1: a violation was found; 2: the command could not be carried out.
fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Run(args) => mpi::run::run(&args).map(|()| true),
        Command::Check(args) => mpi::check::run(&args).map(|()| true),
        Command::Env(args) => mpi::env::run(&args, &mut io::stdout().lock()).map(|()| true),
        Command::Sim(args) => simulate::run(&args),
        Command::Lab(args) => lab::run(&args, &mut io::stdout().lock()).map(|()| true),
        Command::Bench(args) => bench::run(&args).map(|()| true),
        Command::Compare(args) => compare::run(&args).map(|()| true),
        Command::Report(args) => report::command::run(&args).map(|()| true),
        Command::Serve(args) => serve::run(&args).map(|()| true),
        Command::Info => info::run(&mut io::stdout().lock()).map(|()| true),
        Command::Paths(args) => paths::run(&args, &mut io::stdout().lock()).map(|()| true),
        Command::Find(args) => find::run(&args, &mut io::stdout().lock()).map(|()| true),
        Command::Mx(args) => mx::run(&args, &mut io::stdout().lock()).map(|()| true),
        Command::Peers(args) => {
            peers::run(&args, &mut io::stdout().lock(), &mut io::stderr().lock()).map(|()| true)
        }
        Command::Man => manual::write(Cli::command(), &mut io::stdout().lock()).map(|()| true),
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut Cli::command(), "packhorse", &mut io::stdout());
            Ok(true)
        }
        Command::Soak(args) => soak::run(&args),
        Command::SoakMember(args) => soak::run_member(&args).map(|()| true),
        Command::Peer(args) => peer::run(&args).map(|()| true),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        // Who pipes into `head` has seen enough.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("packhorse: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let causes = error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>());
    causes.into_iter().any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}
