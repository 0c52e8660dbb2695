//! `packhorse env`: the variables alone, for the shell.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;

use super::{Launcher, Locally, Settings, find_provider};

const EXAMPLES: &str = "\
Examples:
  eval \"$(packhorse env mpirun)\"   what this mpirun's MPI needs; then mpirun or srun as always
  eval \"$(packhorse env)\"          what every MPI needs, but for what not all may have:
      export FI_PACKHORSE_RMA=any         Open MPI 5, or its windows between hosts end with FI_ENOKEY
      export FI_PACKHORSE_COMPLETE=post   all others: their collectives are slower without

Ranks on other hosts need the variables, too: MPICH, Intel MPI and Slurm carry all there are; Open MPI carries its own and
wants the others named: mpirun -x FI_PROVIDER_PATH -x FI_PROVIDER … (`packhorse run` does that by itself).";

/// Print the variables that make MPI libraries use Packhorse, for eval.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct EnvArgs {
    /// Folder of the provider, or the provider itself; without it, where it was installed or built.
    #[arg(long, value_name = "PATH")]
    provider: Option<PathBuf>,
    /// Let MPICH and Intel MPI use their own shared memory between ranks of one host.
    #[arg(long)]
    own_shm: bool,
    /// A launcher, for the variables of its MPI only.
    #[arg(value_name = "LAUNCHER")]
    launcher: Option<PathBuf>,
}

/// Prints them.
pub fn run(args: &EnvArgs, out: &mut impl Write) -> Result<()> {
    let family = match &args.launcher {
        Some(program) => Launcher::named(Path::new(program))?.family,
        None => None,
    };
    let provider = find_provider(args.provider.as_deref())?;
    let locally = if args.own_shm { Locally::Own } else { Locally::Packhorse };
    write!(out, "{}", exports(&Settings::new(family, provider.folder(), locally)))?;
    Ok(())
}

/// One `export` a line, and then what is left to the user. (Comments are last, for an `eval` without quotes makes one line of all.)
pub(super) fn exports(settings: &Settings) -> String {
    let line = |(name, value): &(&str, std::ffi::OsString)| {
        format!("export {name}={}\n", quoted(&value.to_string_lossy()))
    };
    let lines: String = settings.variables().iter().map(line).collect();
    lines + settings.left_to_user()
}

/// A word that any shell reads as one.
pub(super) fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:,=+@^".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_survive_the_shell() {
        assert_eq!(quoted("/opt/a-b_c:1"), "/opt/a-b_c:1");
        assert_eq!(quoted("it's here"), r"'it'\''s here'");
        assert_eq!(quoted(""), "''");
        assert_eq!(quoted("$(boom)"), "'$(boom)'");
    }

    #[test]
    fn exports_name_the_provider() {
        let text = exports(&Settings::new(None, Path::new("/opt/it is"), Locally::Packhorse));
        assert!(text.starts_with("export FI_PROVIDER_PATH='/opt/it is"), "{text}");
        let remarks = text.lines().skip_while(|line| line.starts_with("export "));
        assert!(remarks.clone().count() > 0, "{text}");
        assert!(remarks.into_iter().all(|line| line.starts_with('#')), "{text}");
    }
}
