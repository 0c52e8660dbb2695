//! `packhorse run`: a launcher, told what it needs, in the place of this process.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};
use clap::Args;

use super::{Launcher, Locally, Settings, env, find_provider};

const EXAMPLES: &str = "\
Examples:
  packhorse run mpirun -n 4 ./program                       whichever MPI this mpirun belongs to
  PACKHORSE_LINK=udp:eth1 packhorse run mpirun -n 4 ./program   over one interface
  packhorse run --show mpirun -n 4 ./program                what would be started
  packhorse run srun -n 4 ./program                         Slurm: the variables of every MPI are set. Those that not every MPI
      may have are not: `FI_PACKHORSE_RMA=any packhorse run srun …` for Open MPI 5, `FI_PACKHORSE_COMPLETE=post` for all others";

/// Run an MPI program over Packhorse, with the MPI as it is.
///
/// Finds out which MPI the launcher belongs to (Open MPI 4 or 5, MPICH with libfabric, Intel MPI), sets what that one needs to
/// load Packhorse's libfabric provider, carries the variables to the other hosts, and starts it. All messages go over
/// Packhorse or the run fails; nothing is printed when it works.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct RunArgs {
    /// Folder of the provider, or the provider itself; without it, where it was installed or built.
    #[arg(long, value_name = "PATH")]
    provider: Option<PathBuf>,
    /// Let MPICH and Intel MPI use their own shared memory between ranks of one host. (Open MPI has none beside libfabric.)
    #[arg(long)]
    own_shm: bool,
    /// Print the variables and the command instead of running it.
    #[arg(long)]
    show: bool,
    /// The launcher and everything it is to be given.
    #[arg(
        value_name = "COMMAND",
        trailing_var_arg = true,
        allow_hyphen_values = true,
        required = true
    )]
    command: Vec<OsString>,
}

/// Becomes the launcher; comes back only with an error, or after showing.
pub fn run(args: &RunArgs) -> Result<()> {
    let (program, words) = args.command.split_first().context("no command")?;
    let launcher = Launcher::named(Path::new(program))?;
    let provider = find_provider(args.provider.as_deref())?;
    let locally = if args.own_shm { Locally::Own } else { Locally::Packhorse };
    let settings = Settings::new(launcher.family, provider.folder(), locally);
    let mut command = command(&launcher, &settings);
    command.args(words);
    if args.show {
        print!("{}", env::exports(&settings));
        println!("{}", shown(&command));
        return Ok(());
    }
    let error = command.exec();
    Err(error).with_context(|| format!("cannot start {}", launcher.program.display()))
}

/// The launcher with its variables and the words that carry them.
pub(super) fn command(launcher: &Launcher, settings: &Settings) -> Command {
    let mut command = Command::new(&launcher.program);
    command.envs(settings.variables().iter().map(|(name, value)| (name, value)));
    command.args(settings.carrying());
    command
}

fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| env::quoted(&word.to_string_lossy())).collect::<Vec<_>>().join(" ")
}
