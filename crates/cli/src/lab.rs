//! `packhorse lab`: the papers' machines in virtual time.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Mutex;
use std::thread;

use anyhow::{Context, Result, bail, ensure};
use clap::Args as ClapArgs;

use packhorse_lab::{
    Bench, Experiment, Finding, Machine, Today, all, committed, costs_text, explore, find, known,
    page, print,
};

const EXAMPLES: &str = "\
Examples:
  packhorse lab                              the experiments, and the machines
  packhorse lab rmpp-fig8                    one of them: paper, ours, difference, and a plot
  packhorse lab rmpp-fig7 --set host.interrupt=5us   what if an interrupt cost half?
  packhorse lab all --html lab.html          everything, as one page
  packhorse lab all --table                  only the numbers, as tests/lab.txt has them
  packhorse lab costs --machine rmpp         a machine's costs, and where they come from
  packhorse lab all --html lab.html --today rows.json   paper, model, and what bench measured here
  packhorse lab explore --machine my.machine would offload pay on a machine of my own?";

/// Run the protocol on the papers' machines, in virtual time.
///
/// Each step is charged to a host's processor, a bus, a card or a wire, with the papers' own costs. What comes out stands beside what they
/// printed.
#[derive(ClapArgs)]
#[command(after_help = EXAMPLES)]
pub(crate) struct LabArgs {
    /// An experiment, `all`, `explore` or `costs`; none lists them.
    what: Option<String>,
    /// Write the results of experiments as a page to this file.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Change a cost of every machine, host.interrupt=5us for instance.
    #[arg(long = "set", value_name = "COST=VALUE")]
    sets: Vec<String>,
    /// For `explore` and `costs`: a machine's file, or the name of one that is known.
    #[arg(long, value_name = "FILE")]
    machine: Option<String>,
    /// What was measured on real links, to stand beside the model's: what `packhorse bench --json` wrote, or curves (docs/lab.md).
    #[arg(long, value_name = "FILE")]
    today: Vec<PathBuf>,
    /// Only the numbers of experiments, and no page.
    #[arg(long, conflicts_with_all = ["html", "today"])]
    table: bool,
}

/// Runs the command.
pub(crate) fn run(args: &LabArgs, out: &mut impl Write) -> Result<()> {
    refuse_what_would_be_ignored(args)?;
    let mut today = Today::default();
    for path in &args.today {
        today.add(crate::today::parse(&read(path)?).with_context(|| path.display().to_string())?);
    }
    let chosen: Vec<&Experiment> = match args.what.as_deref() {
        None => return list(out),
        Some("explore") => return write(out, &explore(&machine(args)?)?.text()),
        Some("costs") => return write(out, &costs_text(&machine(args)?)),
        Some("all") => all().iter().collect(),
        Some(name) => vec![
            find(name)
                .with_context(|| format!("no experiment {name:?}; `packhorse lab` lists them"))?,
        ],
    };
    let bench = Bench::new(&args.sets)?;
    let findings = run_all(&chosen, &bench)?;
    if let Some(path) = &args.html {
        fs::write(path, page(&findings, &bench, &today)?)
            .with_context(|| format!("{} could not be written", path.display()))?;
        writeln!(out, "{} experiments in {}", findings.len(), path.display())?;
        return Ok(());
    }
    for found in &findings {
        let text = if args.table { committed(found) } else { print(found, &today) };
        writeln!(out, "{text}")?;
    }
    Ok(())
}

/// Pages, tables and measurements belong to experiments, and a machine to what is asked of one: elsewhere nobody would look at them.
fn refuse_what_would_be_ignored(args: &LabArgs) -> Result<()> {
    let what = args.what.as_deref();
    let is_of_a_machine = matches!(what, Some("explore" | "costs"));
    let is_of_experiments = what.is_some() && !is_of_a_machine;
    let command = what.map_or_else(|| "the list".to_owned(), |what| format!("`lab {what}`"));
    let given = [
        ("--html", args.html.is_some(), is_of_experiments, "experiments"),
        ("--today", !args.today.is_empty(), is_of_experiments, "experiments"),
        ("--table", args.table, is_of_experiments, "experiments"),
        ("--machine", args.machine.is_some(), is_of_a_machine, "`explore` and `costs`"),
        ("--set", !args.sets.is_empty(), what.is_some(), "experiments, `explore` and `costs`"),
    ];
    for (option, is_given, is_used, by) in given {
        ensure!(!is_given || is_used, "{option} is for {by}; {command} has no use for it");
    }
    Ok(())
}

fn write(out: &mut impl Write, text: &str) -> Result<()> {
    Ok(out.write_all(text.as_bytes())?)
}

fn read(path: &std::path::Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("{} could not be read", path.display()))
}

fn list(out: &mut impl Write) -> Result<()> {
    writeln!(out, "Experiments (packhorse lab NAME, or all):")?;
    for experiment in all() {
        writeln!(out, "  {:<16} {}", experiment.name, experiment.about)?;
    }
    let names: Vec<_> = known().collect();
    writeln!(out, "Machines (packhorse lab costs --machine NAME): {}", names.join(", "))?;
    Ok(())
}

/// The machine that the command line names, by a file or a known name.
fn machine(args: &LabArgs) -> Result<Machine> {
    let Some(name) = &args.machine else {
        bail!(
            "say which with --machine: a file, or one of {}",
            known().collect::<Vec<_>>().join(", ")
        );
    };
    if known().any(|known| known == name) {
        return Bench::new(&args.sets)?.machine(name);
    }
    let path = PathBuf::from(name);
    let stem =
        path.file_stem().map_or_else(|| name.clone(), |stem| stem.to_string_lossy().into_owned());
    let mut machine = Machine::parse(&stem, &read(&path)?)?;
    for set in &args.sets {
        machine.set(set)?;
    }
    Ok(machine)
}

/// Runs experiments on all cores; what they find does not depend on that.
fn run_all(chosen: &[&Experiment], bench: &Bench) -> Result<Vec<Finding>> {
    let next = Mutex::new(0);
    let found: Vec<Mutex<Option<Result<Finding>>>> =
        chosen.iter().map(|_| Mutex::new(None)).collect();
    let threads = thread::available_parallelism().map_or(1, usize::from).min(chosen.len());
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let at = {
                        let mut next = next.lock().expect("no panic holds it");
                        *next += 1;
                        *next - 1
                    };
                    let Some(experiment) = chosen.get(at) else { return };
                    let result = experiment.run(bench);
                    *found[at].lock().expect("no panic holds it") = Some(result);
                }
            });
        }
    });
    let taken = found.into_iter().map(|one| one.into_inner().expect("no panic held it"));
    taken
        .zip(chosen)
        .map(|(one, experiment)| {
            one.expect("each was run").with_context(|| experiment.name.to_owned())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Alone {
        #[command(flatten)]
        args: LabArgs,
    }

    fn refused(words: &[&str]) -> String {
        let words = std::iter::once(&"lab").chain(words);
        let args = match Alone::try_parse_from(words) {
            Ok(alone) => alone.args,
            Err(error) => return error.to_string(),
        };
        run(&args, &mut Vec::new()).expect_err("it has no use for this option").to_string()
    }

    #[test]
    fn an_option_that_would_be_ignored_is_refused() {
        let explore = ["explore", "--machine", "rmpp"];
        for (option, value) in
            [("--html", Some("a.html")), ("--today", Some("a.json")), ("--table", None)]
        {
            let words = [&explore[..], &[option], value.as_slice()].concat();
            assert!(refused(&words).contains(option), "{option} of explore");
        }
        assert!(refused(&["costs", "--machine", "rmpp", "--table"]).contains("--table"));
        assert!(refused(&["--html", "a.html"]).contains("--html"), "a list is no page");
        assert!(refused(&["rmpp-fig8", "--machine", "rmpp"]).contains("--machine"));
        assert!(refused(&["rmpp-fig8", "--table", "--html", "a.html"]).contains("--table"));
        assert!(refused(&["rmpp-fig8", "--table", "--today", "a.json"]).contains("--table"));
        assert!(!PathBuf::from("a.html").exists());
    }
}
