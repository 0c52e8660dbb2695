//! `packhorse report`: one page of everything, measured now or taken from files.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::Args;

use super::page;
use crate::command::{Output, Setup};
use crate::compare;
use crate::mpi::row::MpiRow;
use crate::row::{Findings, Row};

const EXAMPLES: &str = "\
Examples:
  packhorse report --two-hosts                     measures everything, some ten minutes, and writes report.html
  packhorse report --two-hosts --quick             the same in little more than a minute
  packhorse report rows.json more.json             one page of what `--json` wrote before; nothing is measured";

/// Write one page with everything: plots, tables, the machine. It needs no other file.
///
/// Measures all patterns of bench, or takes files that `--json` wrote.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ReportArgs {
    /// Files written by `--json`; nothing is measured then.
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Fewer sizes, one repetition.
    #[arg(long, conflicts_with = "files")]
    quick: bool,
    #[command(flatten)]
    setup: Setup,
}

/// `packhorse report`.
pub fn run(args: &ReportArgs) -> Result<()> {
    let path = args.setup.html.clone().unwrap_or_else(|| "report.html".into());
    if args.files.is_empty() {
        let setup = Setup { html: Some(path.clone()), ..args.setup.clone() };
        setup.measure(compare::everything_at_all(&setup, args.quick))?;
    } else {
        let output = Output::open(&path)?;
        output.finish(page(&joined(&args.files)?)?.as_bytes())?;
    }
    println!("{}", path.display());
    Ok(())
}

/// All files as one; the machine is the first one's.
fn joined(files: &[PathBuf]) -> Result<Findings> {
    let mut all: Option<Findings> = None;
    for file in files {
        let findings = read(file)?;
        match &mut all {
            None => all = Some(findings),
            Some(all) => {
                ensure!(
                    all.machine.is_like(&findings.machine),
                    "{} was measured on another machine than {}; make a page of each",
                    file.display(),
                    files[0].display()
                );
                let commands = [all.machine.command.take(), findings.machine.command];
                all.machine.command =
                    Some(commands.into_iter().flatten().collect::<Vec<_>>().join("; "));
                // Ratios are taken within a repetition, and these were others.
                let first_mpi = all.mpi.iter().map(|row| row.rep + 1).max().unwrap_or(0);
                let first = all.rows.iter().map(|row| row.rep + 1).max().unwrap_or(0);
                all.mpi.extend(
                    findings.mpi.into_iter().map(|row| MpiRow { rep: row.rep + first_mpi, ..row }),
                );
                all.rows.extend(
                    findings.rows.into_iter().map(|row| Row { rep: row.rep + first, ..row }),
                );
            }
        }
    }
    Ok(all.unwrap_or_default())
}

fn read(file: &Path) -> Result<Findings> {
    let text =
        fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let why = || format!("{} is not what `packhorse bench --json` writes", file.display());
    serde_json::from_str(&text).with_context(why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;
    use crate::row::tests::example_row;
    use crate::system::Pattern;

    #[test]
    fn files_are_joined_and_other_machines_refused() {
        let folder = std::env::temp_dir().join(format!("packhorse-report-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let write = |name: &str, kernel: &str, command: &str| {
            let rows = vec![example_row(Pattern::PingPong, "tcp", 0, 1000.0)];
            let command = Some(command.to_owned());
            let machine = Machine { kernel: kernel.into(), command, ..Machine::here() };
            let path = folder.join(name);
            fs::write(
                &path,
                serde_json::to_string(&Findings { machine, rows, ..Findings::default() }).unwrap(),
            )
            .unwrap();
            path
        };
        let (a, b, c) =
            (write("a", "6.1", "one"), write("b", "6.1", "two"), write("c", "5.4", "x"));
        let both = joined(&[a.clone(), b]).unwrap();
        assert_eq!(both.machine.command.as_deref(), Some("one; two"));
        assert_eq!(both.rows.iter().map(|row| row.rep).collect::<Vec<_>>(), [0, 1]);
        assert!(joined(&[a, c]).unwrap_err().to_string().contains("another machine"));
        assert!(joined(&[folder.join("none")]).is_err());
        fs::remove_dir_all(&folder).unwrap();
    }
}
