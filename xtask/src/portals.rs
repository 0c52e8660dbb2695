//! `cargo xtask portals`: the tests of Portals' reference implementation over our library, from a source tree that the caller provides.
//!
//! They are compiled as they are, against our header, and started by a launcher of our own that speaks PMI-1 (`server`). Which programs there are,
//! and with which words each is compiled, is read from their makefiles. Nothing of theirs is kept but a table of results. Open MPI 4.1 with mpi4py's suite is in `open_mpi`.

mod chain;
mod open_mpi;
#[path = "../../faces/pmi/tests/launcher/mod.rs"]
mod server;
mod suite;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use crate::install::{link_portals, target};
use crate::mpi::portals::PLACES;
use crate::sanitize;
use crate::steps::{cargo, root, run as run_command};
use suite::{Outcome, Program};

/// Where from, and which.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// A source tree of Portals' reference implementation, with its `test`; or a folder with one called `portals4`, or Open MPI 4.1's called `openmpi`, or both
    #[arg(long, value_name = "DIR", required_unless_present_any = ["chain", "sanitized"])]
    sources: Option<PathBuf>,
    /// Our own rules of Portals and PMI in C, by the address sanitizer
    #[arg(long)]
    sanitized: bool,
    /// The time of a hop in a chain of triggered puts around four processes that call nothing
    #[arg(long)]
    chain: bool,
    /// Only those with this in their name
    #[arg(long, value_name = "WORD")]
    only: Option<String>,
    /// So many ranks, once for each; of scripts it is known how many they need
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "1,2,4")]
    ranks: Vec<u32>,
    /// The scripted ones instead (needs libxml2)
    #[arg(long)]
    scripts: bool,
    /// With the build that tests use, which is there sooner
    #[arg(long)]
    debug: bool,
    /// Write the table of results there
    #[arg(long, value_name = "FILE")]
    table: Option<PathBuf>,
}

/// A program that ran with so many ranks.
struct Row {
    name: String,
    ranks: u32,
    outcome: Outcome,
}

/// Builds and runs what was asked for; fails if one of them does.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    if args.sanitized {
        run_command(sanitize::rules_of_portals()?)?;
        if !args.chain && args.sources.is_none() {
            return Ok(ExitCode::SUCCESS);
        }
    }
    let (profile, built) = if args.debug { ("dev", "debug") } else { ("release", "release") };
    let packages = "--package packhorse-portals4 --package packhorse-pmi";
    run_command(cargo(&format!("build --profile {profile} --quiet {packages}")))?;
    let folder = target().join("portals");
    std::fs::create_dir_all(&folder)?;
    link_portals(&target().join(built), &folder)?;
    if args.chain {
        chain::measure(&folder)?;
    }
    match &args.sources {
        Some(sources) => try_sources(sources, &folder, args),
        None => Ok(ExitCode::SUCCESS),
    }
}

/// Other people's programs.
fn try_sources(sources: &Path, folder: &Path, args: &Args) -> Result<ExitCode> {
    let has_tests = |folder: &PathBuf| folder.join("test/basic/Makefile.am").exists();
    let reference = [sources.to_path_buf(), sources.join("portals4")].into_iter().find(has_tests);
    let open_mpi = Some(sources.join("openmpi")).filter(|folder| folder.exists());
    ensure!(
        reference.is_some() || open_mpi.is_some(),
        "{} has neither test/basic/Makefile.am, as a source tree of Portals' reference implementation, nor folders portals4 or openmpi",
        sources.display()
    );
    let is_wanted = |name: &str| args.only.as_ref().is_none_or(|word| name.contains(word));
    let open_mpi = open_mpi.filter(|_| !args.scripts && PLACES.into_iter().any(is_wanted));
    let (mut table, mut failed) = (String::new(), 0);
    if let Some(reference) = reference {
        let rows = try_reference(&reference.join("test"), folder, args, is_wanted)?;
        let is_some = !rows.is_empty() || open_mpi.is_some();
        ensure!(is_some, "no test has `{}` in its name", args.only.as_deref().unwrap_or(""));
        println!("{}", summary(&rows));
        table.push_str(&table_of(&rows));
        failed += rows.iter().filter(|row| matches!(row.outcome, Outcome::Failed(_))).count();
    }
    if let Some(sources) = open_mpi {
        let (text, count) = open_mpi::try_suite(&sources, folder, is_wanted)?;
        println!("{text}");
        table.push_str(&text);
        failed += count;
    }
    if let Some(path) = &args.table {
        std::fs::write(path, &table).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The reference's own tests, scripted or not.
fn try_reference(
    tests: &Path,
    folder: &Path,
    args: &Args,
    is_wanted: impl Fn(&str) -> bool,
) -> Result<Vec<Row>> {
    if args.scripts {
        try_scripts(tests, folder, is_wanted)
    } else {
        try_basic(tests, folder, &args.ranks, is_wanted)
    }
}

/// Each basic program, once for each number of ranks.
fn try_basic(
    tests: &Path,
    folder: &Path,
    ranks: &[u32],
    is_wanted: impl Fn(&str) -> bool,
) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for program in suite::basic(tests)?.iter().filter(|program| is_wanted(&program.name)) {
        let built = build(tests, program, folder)?;
        for &ranks in ranks {
            let outcome = match &built {
                Ok(path) => try_program(path, &[], ranks, folder)?,
                Err(why) => Outcome::Failed(why.clone()),
            };
            rows.push(told(Row { name: program.name.clone(), ranks, outcome }));
        }
    }
    Ok(rows)
}

/// Each script, with the ranks that it needs.
fn try_scripts(tests: &Path, folder: &Path, is_wanted: impl Fn(&str) -> bool) -> Result<Vec<Row>> {
    let interpreter = build_interpreter(tests, folder)?;
    let mut rows = Vec::new();
    for (script, ranks) in suite::scripts(tests)? {
        let name = script.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if is_wanted(&name) {
            let words = ["-b", "", "-f", script.to_str().context("a path that is not text")?];
            let outcome = try_program(&interpreter, &words, ranks, folder)?;
            rows.push(told(Row { name, ranks, outcome }));
        }
    }
    Ok(rows)
}

fn told(row: Row) -> Row {
    let (word, why) = match &row.outcome {
        Outcome::Passed => ("passed ", ""),
        Outcome::Skipped => ("skipped", ""),
        Outcome::Failed(why) => ("FAILED ", why.as_str()),
    };
    println!("{word} {} with {}: {why}", row.name, row.ranks);
    row
}

/// What a compiler that is given our header and libraries first needs.
fn compiler(folder: &Path) -> Command {
    let mut cc = Command::new("cc");
    cc.args(["-w", "-g", "-O1", "-D_GNU_SOURCE", "-I"]).arg(folder.join("include"));
    cc.arg("-I").arg(root().join("faces/portals4/include"));
    cc.arg("-I").arg(root().join("faces/pmi/include"));
    cc
}

/// The same for their tests.
fn compiler_of_tests(tests: &Path, folder: &Path) -> Command {
    let mut cc = compiler(folder);
    cc.arg("-I").arg(tests).arg("-I").arg(tests.join("basic"));
    cc
}

/// Their sources ask for a `config.h`, and one for `portals4/pmi.h`.
fn headers(folder: &Path) -> Result<()> {
    let include = folder.join("include");
    std::fs::create_dir_all(include.join("portals4"))?;
    std::fs::write(include.join("config.h"), "")?;
    std::fs::copy(root().join("faces/pmi/include/pmi.h"), include.join("portals4/pmi.h"))?;
    Ok(())
}

/// Where a program is, or what the compiler said.
fn build(tests: &Path, program: &Program, folder: &Path) -> Result<Result<PathBuf, String>> {
    headers(folder)?;
    let path = folder.join(&program.name);
    let mut cc = compiler_of_tests(tests, folder);
    cc.args(&program.words).arg("-o").arg(&path);
    cc.arg(tests.join("basic").join(&program.source));
    cc.arg(tests.join("support.c")).arg(tests.join("pmi.c"));
    cc.arg("-L").arg(folder).args(["-lportals", "-lpmi", "-lm", "-lpthread"]);
    let output = cc.output().context("cc is needed")?;
    let said = String::from_utf8_lossy(&output.stderr);
    let first = said.lines().find(|line| line.contains("error")).unwrap_or("cc failed");
    Ok(if output.status.success() { Ok(path) } else { Err(first.to_owned()) })
}

fn build_interpreter(tests: &Path, folder: &Path) -> Result<PathBuf> {
    headers(folder)?;
    let path = folder.join("ptl_test");
    let mut cc = compiler_of_tests(tests, folder);
    cc.args(["-I", "/usr/include/libxml2", "-o"]).arg(&path);
    for source in ["main", "run", "api", "data", "cio", "dict", "enum", "mask", "rt"] {
        cc.arg(tests.join(format!("sfw/{source}.c")));
    }
    cc.arg(tests.join("support.c")).arg(tests.join("pmi.c")).arg("-L").arg(folder);
    cc.args(["-lportals", "-lpmi", "-lxml2", "-lm", "-lpthread"]);
    run_command(cc).context("their interpreter of scripts needs libxml2 (libxml2-dev)")?;
    Ok(path)
}

/// Runs a program with so many ranks, for a minute at most.
fn try_program(program: &Path, words: &[&str], ranks: u32, folder: &Path) -> Result<Outcome> {
    let server = server::Server::start(ranks)?;
    let mut children = Vec::new();
    for rank in 0..ranks {
        let mut command = Command::new("timeout");
        command.args(["--signal=KILL", "60"]).arg(program).args(words);
        command.env("LD_LIBRARY_PATH", folder).env("PTL_IFACE_NAME", "lo");
        command.env("PMI_PORT", server.at()).env("PMI_ID", rank.to_string());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        children.push(command.spawn().context("timeout is part of coreutils")?);
    }
    let readers: Vec<_> = children
        .into_iter()
        .map(|child| std::thread::spawn(move || child.wait_with_output()))
        .collect();
    let end = Instant::now() + Duration::from_secs(70);
    let mut outcome = Outcome::Passed;
    for reader in readers {
        while !reader.is_finished() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
        }
        let output = reader.join().map_err(|_| anyhow::anyhow!("a reader died"))??;
        outcome = outcome.and(Outcome::of(&output));
    }
    Ok(outcome)
}

fn summary(rows: &[Row]) -> String {
    let count = |is: fn(&Outcome) -> bool| rows.iter().filter(|row| is(&row.outcome)).count();
    let passed = count(|outcome| matches!(outcome, Outcome::Passed));
    let skipped = count(|outcome| matches!(outcome, Outcome::Skipped));
    let ran = rows.len() - skipped;
    format!("{passed} of {ran} passed, {skipped} said that they cannot run with so few ranks")
}

/// For people: what failed, and how; then all of it.
fn table_of(rows: &[Row]) -> String {
    let mut text = String::from("# The reference implementation's tests, over Packhorse\n\n");
    let _ = writeln!(text, "Written by `cargo xtask portals --sources DIR --table FILE`.\n");
    let _ = writeln!(text, "{}.\n\n| test | ranks | result |\n| --- | --- | --- |", summary(rows));
    for row in rows {
        let result = match &row.outcome {
            Outcome::Passed => "passed".to_owned(),
            Outcome::Skipped => "not for so few ranks".to_owned(),
            Outcome::Failed(why) => format!("**failed**: {}", why.replace('|', "\\|")),
        };
        let _ = writeln!(text, "| {} | {} | {result} |", row.name, row.ranks);
    }
    text
}
