//! `cargo xtask conformance`: every MPI there is over Packhorse, part by part, into the result file.
//!
//! All parts take hours; a part takes minutes, and what it came to is written when it ends, so the work can be done in pieces, side by
//! side: `--only` chooses parts by their names, `--missing` those that are not settled. What fails is tried over libfabric's own TCP at
//! once. If every test that failed fails there, too, it is the MPI's: the part is settled, as `as TCP`, with the names of those tests.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::process::ExitCode;

use anyhow::{Result, bail};

use super::hosts::Hosts;
use super::launch::{ENDED_IN, Launch, Way};
use super::library::{self, Library, SYSTEM};
use super::suite::{Extent, Modules, Tally};
use super::{life, passive, smoke, suite};
use crate::steps::root;
use crate::tools::{PYTHON_MPI, require};

/// Where the results are kept.
const RESULTS: &str = "faces/ofi/tests/mpi/results.txt";
const HEAD: &str = "\
# Unmodified MPIs over Packhorse, by `cargo xtask conformance`: mpi4py's whole test suite, and our own program (smoke.c), which verifies every byte.
# What is left out of the suite: exclusions.txt. \"as TCP\": the tests named failed, and each of them on the same MPI over libfabric's own TCP, too.
";

/// So often a module that did not come to its end here is tried over TCP.
const HANG_ATTEMPT_COUNT: usize = 4;

/// What is tried.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only parts whose names contain all of these words, such as: mpich-5 suite 4 (or the one that is called so)
    #[arg(long, value_name = "WORD", num_args = 1..)]
    only: Vec<String>,
    /// Only parts that have neither passed nor failed as over TCP
    #[arg(long)]
    missing: bool,
    /// Only say which parts there are
    #[arg(long)]
    list: bool,
}

#[derive(Clone, Copy)]
enum Program {
    Suite,
    Spawn,
    Windows,
    Smoke,
    Passive,
    Life,
}

/// One start of a program on one MPI.
struct Part {
    library: &'static Library,
    program: Program,
    rank_count: usize,
    links: &'static str,
    is_two_hosts: bool,
    faults: Option<&'static str>,
}

impl Part {
    /// By this it is chosen and found in the result file.
    fn name(&self) -> String {
        let program = match self.program {
            Program::Suite => "suite",
            Program::Spawn => "spawn",
            Program::Windows => "windows",
            Program::Smoke => "smoke",
            Program::Passive => "passive",
            Program::Life => "life",
        };
        let hosts = if self.is_two_hosts { "two hosts" } else { "one host" };
        let faults = if self.faults.is_some() { ", 1 % lost, 2 % overtaken" } else { "" };
        let (library, count, links) = (self.library.name, self.rank_count, self.links);
        format!("{library} {program}, {count} ranks, {hosts}, {links}{faults}")
    }

    fn way(&self) -> Way {
        let kind = match (self.links, self.is_two_hosts) {
            ("auto", false) => "shm",
            ("auto", true) => "", // some by memory, some over the wire
            (links, _) => links,
        };
        Way::Packhorse { links: self.links, kind, faults: self.faults }
    }

    fn launch<'a>(&self, hosts: &'a Hosts, way: Way) -> Launch<'a> {
        let hosts = self.is_two_hosts.then_some(hosts);
        Launch { library: self.library, rank_count: self.rank_count, hosts, way }
    }

    fn run(&self, hosts: &Hosts) -> Outcome {
        let launch = self.launch(hosts, self.way());
        match self.program {
            Program::Suite => run_whole(&launch),
            Program::Life => Outcome::of(life::run_long()),
            _ => Outcome::of(self.run_simply(&launch)),
        }
    }

    /// What is one start of one program.
    fn run_simply(&self, launch: &Launch) -> Result<String> {
        match self.program {
            Program::Spawn => Ok(suite::run(launch, Extent::Spawn)?.to_string()),
            Program::Windows => Ok(suite::run(launch, Extent::Windows)?.to_string()),
            Program::Smoke => smoke::run(launch),
            Program::Passive => passive::run(launch),
            Program::Suite => bail!("it has no name for what failed"),
            Program::Life => bail!("it measures Packhorse beside TCP already"),
        }
    }

    /// What a failure comes to. Some tests of the suite want an answer within ten questions, or completions in order, however many
    /// frames are lost and however busy the machine is: those that pass by themselves count as passed, and are named.
    fn settle(&self, hosts: &Hosts, here: &Outcome) -> String {
        let is_whole = here.stopped_in.is_none() && !here.failed.is_empty();
        if matches!(self.program, Program::Suite | Program::Spawn) && is_whole {
            let again = run_named(&self.launch(hosts, self.way()), &here.failed);
            if again.is_passed {
                let names = listed(&here.failed);
                return format!("{PASSED}  at a second attempt: {names}; {}", again.said);
            }
            if again.stopped_in.is_none() && !again.failed.is_empty() {
                let mended: Vec<_> = here.failed.difference(&again.failed).collect();
                let line = self.beside_tcp(hosts, &again);
                return if mended.is_empty() {
                    line
                } else {
                    format!("{line}; passed at a second attempt: {}", listed(mended))
                };
            }
        }
        self.beside_tcp(hosts, here)
    }

    /// What failed once more, over TCP: of the suite only that; and if it does not fail by itself, the modules it is in. How it compares.
    fn beside_tcp(&self, hosts: &Hosts, here: &Outcome) -> String {
        let launch = self.launch(hosts, Way::FabricTcp);
        if !matches!(self.program, Program::Suite) || here.failed.is_empty() {
            return beside_tcp(here, &Outcome::of(self.run_simply(&launch)));
        }
        let alone = run_named(&launch, &here.failed);
        let line = beside_tcp(here, &alone);
        if is_settled(&line) {
            return line;
        }
        // What hangs by chance is given as many chances there.
        let attempt_count = if here.stopped_in.is_some() { HANG_ATTEMPT_COUNT } else { 1 };
        let mut line = line;
        for _ in 0..attempt_count {
            let around = suite::run(&launch, Extent::Around(&here.failed));
            line = beside_tcp(here, &Outcome::of(around.map(|tally| tally.to_string())));
            if is_settled(&line) {
                break;
            }
        }
        line
    }
}

pub(super) fn run_named(launch: &Launch, tests: &BTreeSet<String>) -> Outcome {
    Outcome::of(suite::run(launch, Extent::Named(tests)).map(|tally| tally.to_string()))
}

/// The whole suite, group by group. What a group that did not come to its end left untried is tried without the module it stopped in,
/// and that module by itself.
pub(super) fn run_whole(launch: &Launch) -> Outcome {
    let mut groups = match suite::groups() {
        Ok(groups) => groups,
        Err(error) => return Outcome::of(Err(error)),
    };
    groups.reverse();
    let mut tally = Tally::default();
    let mut whole = Outcome::of(Ok(String::new()));
    let mut stops = BTreeSet::new();
    while let Some(group) = groups.pop() {
        let ended = suite::run(launch, Extent::Modules(&group));
        if let Ok(passed) = &ended {
            tally.add(passed);
        }
        let outcome = Outcome::of(ended.map(|tally| tally.to_string()));
        println!(
            "      {} modules: {}; {} groups to go",
            group.len(),
            outcome.in_short(),
            groups.len()
        );
        match outcome.stopped_in.as_deref().map(module_of) {
            Some(module) if group.len() > 1 => {
                let (alone, rest): (Modules, Modules) =
                    group.into_iter().partition(|other| other == module);
                groups.extend([rest, alone]);
                stops.extend(outcome.stopped_in);
            }
            _ => whole.add(outcome),
        }
    }
    // Those that stopped again are told as failures.
    stops.retain(|stop| !whole.failed.iter().any(|test| module_of(test) == module_of(stop)));
    if !stops.is_empty() {
        whole.remark =
            format!("; ended once in {}, and passed when it was run again", listed(&stops));
    }
    if whole.is_passed {
        whole.said = tally.to_string();
    }
    whole
}

fn parts() -> Vec<Part> {
    let mut parts = Vec::new();
    for library in library::all() {
        let mut add = |program, rank_count, links, is_two_hosts, faults| {
            parts.push(Part { library, program, rank_count, links, is_two_hosts, faults });
        };
        for rank_count in [2, 4] {
            add(Program::Smoke, rank_count, "auto", false, None);
        }
        add(Program::Smoke, 2, "udp", false, Some(smoke::FAULTS));
        for links in ["udp", "tcp", "packet", "xdp"] {
            add(Program::Smoke, 2, links, true, None);
        }
        for rank_count in [2, 4] {
            add(Program::Suite, rank_count, "auto", false, None);
        }
        add(Program::Suite, 2, "udp", true, None);
        add(Program::Suite, 2, "packet", true, None);
        add(Program::Suite, 2, "tcp", true, None);
        add(Program::Suite, 4, "auto", true, None);
        add(Program::Suite, 2, "udp", true, Some(smoke::FAULTS));
        add(Program::Spawn, 2, "auto", false, None);
        add(Program::Passive, 2, "auto", false, None);
        for links in ["udp", "packet"] {
            add(Program::Passive, 2, links, true, None);
        }
        if library.name == SYSTEM.name {
            add(Program::Windows, 2, "udp", true, None);
            add(Program::Windows, 2, "packet", true, None);
            add(Program::Life, 2, "auto", false, None);
        }
    }
    parts
}

/// Tries what was chosen, and writes what came of each, failures too.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let results = Results::read();
    let mut chosen = parts();
    // Some names begin with the whole of another.
    let is_one = chosen.iter().any(|part| args.only == [part.name()]);
    chosen.retain(|part| {
        let name = part.name();
        let is_meant = args.only.iter().all(|word| name.contains(word.as_str()));
        let is_meant = if is_one { args.only == [name.as_str()] } else { is_meant };
        is_meant && !(args.missing && results.is_settled(&name))
    });
    if args.list {
        chosen.iter().for_each(|part| println!("{}", part.name()));
        return Ok(ExitCode::SUCCESS);
    }
    require(&[&PYTHON_MPI])?;
    library::install()?;
    super::build()?;
    let hosts = Hosts::new()?;
    let mut failed_count = 0;
    for part in &chosen {
        println!("{}", part.name());
        hosts.let_udp_pass(part.links != "tcp")?;
        let here = part.run(&hosts);
        let line = if here.is_passed { here.in_short() } else { part.settle(&hosts, &here) };
        let line = line + &here.remark;
        failed_count += usize::from(!is_settled(&line));
        println!("{line}");
        let version = part.library.version().unwrap_or_else(|error| format!("{error:#}"));
        // Read again: another part may have ended meanwhile.
        Results::read().enter(&part.name(), &format!("{line} ({version})"))?;
    }
    Ok(if failed_count == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

const PASSED: &str = "passed";
const AS_TCP: &str = "as TCP";

fn is_settled(line: &str) -> bool {
    line.starts_with(PASSED) || line.starts_with(AS_TCP)
}

/// How a part went.
pub(super) struct Outcome {
    /// In a line, for people.
    pub(super) said: String,
    pub(super) is_passed: bool,
    /// The tests that failed, by the suite's names for them, and the one that never came to an end.
    pub(super) failed: BTreeSet<String>,
    /// Which one that is.
    pub(super) stopped_in: Option<String>,
    /// What else is to be known, for the end of its line.
    remark: String,
}

impl Outcome {
    fn of(result: Result<String>) -> Self {
        match result {
            Ok(said) => Self {
                said,
                is_passed: true,
                failed: BTreeSet::new(),
                stopped_in: None,
                remark: String::new(),
            },
            Err(error) => {
                let text = format!("{error:#}");
                println!("{text}");
                let said = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
                Self {
                    said: said.to_owned(),
                    is_passed: false,
                    failed: failed_tests(&text),
                    stopped_in: stopped_in(&text),
                    remark: String::new(),
                }
            }
        }
    }

    /// Another part of the same whole.
    fn add(&mut self, other: Self) {
        if !other.is_passed {
            (self.is_passed, self.said) = (false, other.said);
        }
        self.failed.extend(other.failed);
        self.stopped_in = self.stopped_in.take().or(other.stopped_in);
    }

    /// Whether a test fails here, too. One that hangs need not hang at the same place each time: in the same module is enough.
    pub(super) fn has(&self, test: &String, is_stop: bool) -> bool {
        let is_stopped = |here: &String| is_stop && module_of(here) == module_of(test);
        self.failed.contains(test) || self.stopped_in.as_ref().is_some_and(is_stopped)
    }

    fn in_short(&self) -> String {
        match (self.is_passed, self.failed.is_empty()) {
            (true, _) => format!("{PASSED}  {}", self.said),
            (false, true) => self.said.clone(),
            (false, false) => listed(&self.failed),
        }
    }
}

pub(super) fn listed<'a>(names: impl IntoIterator<Item = &'a String>) -> String {
    names.into_iter().map(String::as_str).collect::<Vec<_>>().join(", ")
}

/// The line for a part that failed, from how it went here and over TCP.
fn beside_tcp(here: &Outcome, over_tcp: &Outcome) -> String {
    let is_here_only =
        |test: &&String| !over_tcp.has(test, here.stopped_in.as_ref() == Some(*test));
    let only_here: Vec<_> = here.failed.iter().filter(is_here_only).collect();
    if here.failed.is_empty() || !only_here.is_empty() {
        let what = if only_here.is_empty() { here.in_short() } else { listed(only_here) };
        return format!("FAILED  {what}; over TCP: {}", over_tcp.in_short());
    }
    let mut line = format!("{AS_TCP}  what fails here fails there, too: {}", listed(&here.failed));
    let more = over_tcp.failed.difference(&here.failed).count();
    if more > 0 {
        let _ = write!(line, "; there {more} more");
    }
    if let Some(test) = &here.stopped_in {
        let _ = write!(line, "; neither comes to its end (here: {test})");
    }
    line
}

/// The tests that a suite says have failed, by their full names, with the one in which it stopped.
fn failed_tests(text: &str) -> BTreeSet<String> {
    // Only the list at the end is to be trusted: before it, each rank says how a test went behind whatever another one has written.
    let is_cut = text.contains(ENDED_IN);
    let mut failed = BTreeSet::new();
    for line in text.lines() {
        let after_mark = ["FAIL: test", "ERROR: test", ENDED_IN]
            .into_iter()
            .find_map(|mark| line.rsplit_once(mark).map(|(_, rest)| rest));
        let before_mark = ["... FAIL", "... ERROR"]
            .into_iter()
            .filter(|_| is_cut)
            .find_map(|mark| line.rsplit_once(mark))
            .and_then(|(rest, _)| rest.rfind('(').map(|at| &rest[at..]));
        let named = after_mark.or(before_mark).and_then(|rest| rest.split_once('('));
        let name = named.and_then(|(_, rest)| rest.split_once(')')).map(|(name, _)| name);
        failed.extend(name.map(str::to_owned));
    }
    failed
}

/// Where a suite stopped that did not come to its end.
fn stopped_in(text: &str) -> Option<String> {
    let (_, rest) = text.rsplit_once(ENDED_IN)?;
    let name = rest.trim().trim_start_matches('(').split(')').next()?;
    Some(name.to_owned())
}

/// The module of a test.
fn module_of(test: &str) -> &str {
    test.split('.').next().unwrap_or(test)
}

/// The result file: a line for each part, by name.
struct Results(BTreeMap<String, String>);

impl Results {
    fn read() -> Self {
        let text = fs::read_to_string(root().join(RESULTS)).unwrap_or_default();
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let pairs = lines.filter_map(|line| line.split_once(": "));
        Self(pairs.map(|(name, line)| (name.to_owned(), line.to_owned())).collect())
    }

    fn is_settled(&self, name: &str) -> bool {
        self.0.get(name).is_some_and(|line| is_settled(line))
    }

    fn enter(&mut self, name: &str, line: &str) -> Result<()> {
        self.0.insert(name.to_owned(), line.to_owned());
        let mut text = HEAD.to_owned();
        for part in parts() {
            let name = part.name();
            let line = self.0.get(&name).map_or("not tried", String::as_str);
            writeln!(text, "{name}: {line}")?;
        }
        fs::write(root().join(RESULTS), text)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    fn failed(text: &str) -> Outcome {
        Outcome::of(Err(anyhow!("{text}")))
    }

    #[test]
    fn failed_tests_are_found_wherever_ranks_write_them() {
        let ended = "it ended\nERROR: testA (t.A.testA)\nnoiseFAIL: testB (t.B.testB)\nERROR: testA (t.A.testA)\n\
                     testC (t.C.testC) ... testD (t.D.testD) ... ERROR\nRan 3 tests";
        assert_eq!(listed(&failed_tests(ended)), "t.A.testA, t.B.testB");
        let cut = format!(
            "testC (t.C.testC) ... testC (t.C.testC) ... ERROR\ntestD (t.D.testD) ... ok\n{ENDED_IN} (t.E.testE)"
        );
        assert_eq!(listed(&failed_tests(&cut)), "t.C.testC, t.E.testE");
        assert_eq!(stopped_in(&cut).as_deref(), Some("t.E.testE"));
        assert!(failed_tests("no name\nat all").is_empty());
    }

    #[test]
    fn a_part_is_settled_only_if_all_that_failed_fails_over_tcp_too() {
        let (a, b) = (failed("FAIL: testA (t.A)"), failed("FAIL: testA (t.A)\nFAIL: testB (t.B)"));
        assert_eq!(
            beside_tcp(&a, &b),
            "as TCP  what fails here fails there, too: t.A; there 1 more"
        );
        assert!(is_settled(&beside_tcp(&b, &b)));
        assert_eq!(beside_tcp(&b, &a), "FAILED  t.B; over TCP: t.A");
        let (crash, fine) = (failed("a crash"), Outcome::of(Ok("all of it".to_owned())));
        assert_eq!(beside_tcp(&crash, &crash), "FAILED  a crash; over TCP: a crash");
        assert_eq!(beside_tcp(&a, &fine), "FAILED  t.A; over TCP: passed  all of it");
    }

    #[test]
    fn hanging_is_the_same_in_the_same_module_only() {
        let stopped = |test: &str| failed(&format!("time was up\n{ENDED_IN} ({test})"));
        let (here, same, other) = (stopped("t.A.a"), stopped("t.B.b"), stopped("u.A.a"));
        assert!(beside_tcp(&here, &same).ends_with("neither comes to its end (here: t.A.a)"));
        assert!(!is_settled(&beside_tcp(&here, &other)));
        assert!(!is_settled(&beside_tcp(&failed("FAIL: testA (t.A.a)"), &same)));
    }
}
