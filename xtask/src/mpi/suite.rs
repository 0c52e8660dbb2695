//! mpi4py's own test suite, over Packhorse: strangers' tests judge the core.
//!
//! The suite comes with mpi4py's source distribution, the module itself as a wheel that finds whatever MPI it runs under. Both
//! are fetched from PyPI by version and checked. What is left out stands in `faces/ofi/tests/mpi/exclusions.txt`, each with its failure over TCP.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result};

use super::hosts::Hosts;
use super::launch::{Launch, Way, over_memory};
use super::library::{Library, SYSTEM};
use super::{folder, text};
use crate::steps::{command, root, run as run_command};

/// For pip.
pub(super) const WANTED: &str = "mpi4py==4.1.2";
const NAME: &str = "mpi4py-4.1.2";
/// SHA-256 of the source distribution.
const CHECKSUM: &str = "56860286dc45f20e8821e93cb06669e30462348bf866f685553fa4b712d58d02";
const EXCLUSIONS: &str = "faces/ofi/tests/mpi/exclusions.txt";
/// Seconds after which a run is ended, whatever it says, for each rank: ranks that are more than cores take turns.
const PATIENCE_PER_RANK_S: usize = 450;
/// The whole suite is run in so many groups of modules: one that does not come to its end leaves the others.
const GROUP_COUNT: usize = 6;

/// Names of modules.
pub(super) type Modules = BTreeSet<String>;

/// How a run went that passed.
#[derive(Clone, Copy, Default)]
pub(super) struct Tally {
    test_count: usize,
    seconds: f64,
    /// By the link that was asked for, and by all.
    bytes: (u64, u64),
}

impl Tally {
    pub(super) fn add(&mut self, other: &Self) {
        self.test_count += other.test_count;
        self.seconds += other.seconds;
        self.bytes.0 += other.bytes.0;
        self.bytes.1 += other.bytes.1;
    }

    /// From the suite's last words, "Ran 7 tests in 1.2s"; others may have written behind them.
    fn of(said: &str, bytes: (u64, u64)) -> Result<Self> {
        let ran = said.lines().rev().find_map(|line| line.split_once("Ran ").map(|(_, rest)| rest));
        let mut words = ran.context("the suite ended without a word")?.split_whitespace();
        let test_count = words.next().and_then(|word| word.parse().ok());
        let seconds = words.nth(2).and_then(|word| word.split('s').next()?.parse().ok());
        let (test_count, seconds) = test_count.zip(seconds).context("odd words at its end")?;
        Ok(Self { test_count, seconds, bytes })
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { test_count, seconds, bytes: (by_kind, by_all) } = self;
        write!(f, "{test_count} tests in {seconds:.0} s, ")?;
        write!(f, "{by_kind} bytes by the link, {by_all} by all")
    }
}

/// How much of it.
#[derive(Clone, Copy)]
pub(super) enum Extent<'a> {
    /// The modules in which ranks speak to each other.
    Talk,
    /// Those of them without windows, which are tried on one host.
    Messages,
    /// These modules.
    Modules(&'a Modules),
    /// Starting further processes, which takes longer than all else.
    Spawn,
    /// Windows, in ranks that promise not to call from two threads at once.
    Windows,
    /// Tests by name.
    Named(&'a BTreeSet<String>),
    /// The modules of tests with these names.
    Around(&'a BTreeSet<String>),
}

const TALK: [&str; 9] =
    ["p2p", "cco", "rma", "msgspec", "comm", "request", "status", "win", "util_pool"];

const MESSAGES: [&str; 5] = ["p2p", "cco", "comm", "request", "status"];

const WINDOWS: [&str; 2] = ["rma", "win"];

/// The suite's folder.
fn source() -> Result<PathBuf> {
    let source = folder().join(NAME);
    if !source.join("test/main.py").is_file() {
        let folder = folder();
        let pip = SYSTEM.python();
        run_command(command(
            text(&pip)?,
            ["-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", "mpi4py", "--dest"]
                .into_iter()
                .chain([text(&folder)?, WANTED]),
        ))?;
        let unpack = format!(
            "import hashlib, tarfile; name = '{0}/{NAME}.tar.gz'; \
             assert hashlib.sha256(open(name, 'rb').read()).hexdigest() == '{CHECKSUM}', 'not the mpi4py that was asked for'; \
             tarfile.open(name).extractall('{0}')",
            folder.display()
        );
        run_command(command("python3", ["-c", &unpack]))?;
    }
    Ok(source)
}

/// All modules but `Spawn`, in groups that have something of everything: each must show that its bytes went by us.
pub(super) fn groups() -> Result<Vec<Modules>> {
    let files = fs::read_dir(source()?.join("test"))?;
    let names: Result<BTreeSet<String>> =
        files.map(|file| Ok(file?.file_name().to_string_lossy().into_owned())).collect();
    let is_wanted = |name: &&str| name.starts_with("test_") && *name != "test_spawn";
    let mut groups = vec![Modules::new(); GROUP_COUNT];
    let names = names?;
    let modules = names.iter().filter_map(|name| name.strip_suffix(".py")).filter(is_wanted);
    for (number, module) in modules.enumerate() {
        groups[number % GROUP_COUNT].insert(module.to_owned());
    }
    Ok(groups)
}

/// Runs it.
pub(super) fn run(launch: &Launch, extent: Extent<'_>) -> Result<Tally> {
    let (source, exclusions) = (source()?, exclusions(launch.library)?);
    let ended = launch.run(launch.rank_count * PATIENCE_PER_RANK_S, |run| {
        run.arg(launch.library.python()).args(["test/main.py", "-v"]).current_dir(source);
        match extent {
            Extent::Talk => run.args(TALK.iter().flat_map(|module| ["-i", module])),
            Extent::Messages => run.args(MESSAGES.iter().flat_map(|module| ["-i", module])),
            Extent::Modules(modules) => run.args(chosen(modules.iter().map(String::as_str))),
            Extent::Spawn => run.args(["-i", "spawn"]),
            // The only windows that Open MPI 4 has between hosts (osc/pt2pt) are not for MPI_THREAD_MULTIPLE, which mpi4py asks for otherwise.
            Extent::Windows => {
                run.env("MPI4PY_RC_THREAD_LEVEL", "serialized");
                run.args(WINDOWS.iter().flat_map(|module| ["-i", module]))
            }
            Extent::Named(tests) => run
                .args(modules_of(tests))
                .args(tests.iter().flat_map(|test| ["-k", test.as_str()])),
            Extent::Around(tests) => run.args(modules_of(tests)),
        };
        run.args(exclusions.iter().flat_map(|pattern| ["-x", pattern]));
    })?;
    Tally::of(&ended.said, ended.bytes)
}

/// For the suite: only the modules of these tests, which are named as module, class and test.
fn modules_of(tests: &BTreeSet<String>) -> impl Iterator<Item = String> {
    let modules: BTreeSet<&str> = tests.iter().filter_map(|test| test.split('.').next()).collect();
    chosen(modules)
}

/// For the suite: only these modules.
fn chosen<'a>(modules: impl IntoIterator<Item = &'a str>) -> impl Iterator<Item = String> {
    modules.into_iter().flat_map(|module| ["-i".to_owned(), format!("^{module}\\.py$")])
}

/// Patterns of the tests that are left out for an MPI.
fn exclusions(library: &Library) -> Result<Vec<String>> {
    let text = fs::read_to_string(root().join(EXCLUSIONS))?;
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let patterns = lines.filter_map(|line| {
        let mut words = line.split_whitespace();
        let is_meant = words.next()? == library.name;
        words.next().filter(|_| is_meant).map(str::to_owned)
    });
    Ok(patterns.collect())
}

/// What talks of it, under the system's Open MPI, on one host and on two.
pub(crate) fn on_the_system() -> Result<()> {
    super::build()?;
    println!("      one host: {}", in_two_attempts(&over_memory(&SYSTEM, 2), Extent::Talk)?);
    let hosts = Hosts::new()?;
    let way = Way::Packhorse { links: "packet", kind: "packet", faults: None };
    let launch = Launch { way, hosts: Some(&hosts), ..over_memory(&SYSTEM, 2) };
    println!("      two hosts: {}", in_two_attempts(&launch, Extent::Messages)?);
    Ok(())
}

/// Some of its tests want an answer within ten questions, however busy the machine is.
fn in_two_attempts(launch: &Launch, extent: Extent<'_>) -> Result<Tally> {
    run(launch, extent).or_else(|error| {
        println!("      once more, after: {error:#}");
        run(launch, extent)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_passed_is_read_from_the_last_words_and_added() {
        let said = "testA (t.A.testA) ... ok\nnoiseRan 12 tests in 3.5s\n\nOK (skipped=2)\n";
        let mut tally = Tally::of(said, (10, 11)).unwrap();
        tally.add(&Tally::of("Ran 1 test in 0.250s", (1, 2)).unwrap());
        assert_eq!(tally.to_string(), "13 tests in 4 s, 11 bytes by the link, 13 by all");
        assert!(Tally::of("it fell over", (0, 0)).is_err());
    }
}
