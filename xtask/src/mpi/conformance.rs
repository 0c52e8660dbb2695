//! `cargo xtask conformance`: every MPI there is over Packhorse, part by part, into the result file.
//!
//! All parts take an hour; a part takes minutes at most, and what it came to is written when it ends, so the work can be done in pieces:
//! `--only` chooses parts by their names, `--missing` those that have not passed. What fails is tried over libfabric's own TCP at
//! once, and the result file says how that went.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::process::ExitCode;

use anyhow::{Result, bail};

use super::hosts::Hosts;
use super::launch::{Launch, Way};
use super::library::{self, Library, SYSTEM};
use super::suite::Extent;
use super::{life, passive, smoke, suite};
use crate::steps::root;
use crate::tools::{PYTHON_MPI, require};

/// Where the results are kept.
const RESULTS: &str = "faces/ofi/tests/mpi/results.txt";
const HEAD: &str = "\
# Unmodified MPIs over Packhorse, by `cargo xtask conformance`: mpi4py's whole test suite, and our own program (smoke.c), which verifies every byte.
# What is left out of the suite: exclusions.txt. Of what fails, which tests, and how the same went over libfabric's own TCP.
";

/// What is tried.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only parts whose names contain all of these words, such as: mpich-5 suite 4
    #[arg(long, value_name = "WORD", num_args = 1..)]
    only: Vec<String>,
    /// Only parts that have not passed yet
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

    fn run(&self, hosts: &Hosts, way: Way) -> Result<String> {
        let launch = Launch {
            library: self.library,
            rank_count: self.rank_count,
            hosts: self.is_two_hosts.then_some(hosts),
            way,
        };
        match self.program {
            Program::Suite => suite::run(&launch, Extent::Whole),
            Program::Spawn => suite::run(&launch, Extent::Spawn),
            Program::Smoke => smoke::run(&launch),
            Program::Passive => passive::run(&launch),
            Program::Life => match way {
                Way::Packhorse { .. } => life::run_long(),
                Way::FabricTcp => bail!("not tried"),
            },
        }
    }
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
        for links in ["udp", "packet", "xdp"] {
            add(Program::Smoke, 2, links, true, None);
        }
        for rank_count in [2, 4] {
            add(Program::Suite, rank_count, "auto", false, None);
        }
        add(Program::Suite, 2, "udp", true, None);
        add(Program::Suite, 2, "packet", true, None);
        add(Program::Suite, 4, "auto", true, None);
        add(Program::Suite, 2, "udp", true, Some(smoke::FAULTS));
        add(Program::Spawn, 2, "auto", false, None);
        add(Program::Passive, 2, "auto", false, None);
        if library.name == SYSTEM.name {
            add(Program::Life, 2, "auto", false, None);
        }
    }
    parts
}

/// Tries what was chosen, and writes what came of each, failures too.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let mut results = Results::read();
    let mut chosen = parts();
    chosen.retain(|part| {
        let name = part.name();
        args.only.iter().all(|word| name.contains(word.as_str()))
            && !(args.missing && results.has_passed(&name))
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
        let line = match part.run(&hosts, part.way()) {
            Ok(line) => format!("passed  {line}"),
            Err(error) => {
                failed_count += 1;
                println!("{error:#}");
                let over_tcp = part.run(&hosts, Way::FabricTcp);
                let over_tcp = over_tcp.map_err(|error| format!("{error:#}"));
                format!(
                    "FAILED  {}; over TCP: {}",
                    in_short(&format!("{error:#}")),
                    over_tcp.unwrap_or_else(|text| format!("FAILED  {}", in_short(&text)))
                )
            }
        };
        println!("{line}");
        let version = part.library.version().unwrap_or_else(|error| format!("{error:#}"));
        results.enter(&part.name(), &format!("{line} ({version})"))?;
    }
    Ok(if failed_count == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What failed, in a line: the tests that the suite names, or the first that was said.
fn in_short(text: &str) -> String {
    const NAME_COUNT_MAX: usize = 8;
    let mut names: Vec<&str> = Vec::new();
    for line in text.lines() {
        // Ranks write at once: a name may stand anywhere in a line, and each rank says it.
        let start = line.find("FAIL: test").or_else(|| line.find("ERROR: test"));
        let name = start.map(|start| line[start..].trim());
        names.extend(name.filter(|name| !names.contains(name)));
    }
    if names.is_empty() {
        return text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().to_owned();
    }
    let more = names.len().saturating_sub(NAME_COUNT_MAX);
    names.truncate(NAME_COUNT_MAX);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    names.join(", ") + &more
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

    fn has_passed(&self, name: &str) -> bool {
        self.0.get(name).is_some_and(|line| line.starts_with("passed"))
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
    use super::*;

    #[test]
    fn each_failed_test_is_named_once_and_not_too_many_are() {
        let text = "it ended\nERROR: testA (t.A)\nnoiseFAIL: testB (t.B)\nERROR: testA (t.A)\nERROR in all";
        assert_eq!(in_short(text), "ERROR: testA (t.A), FAIL: testB (t.B)");
        let many: String = (0..10).map(|number| format!("FAIL: test{number}\n")).collect();
        assert!(in_short(&many).ends_with("FAIL: test7 and 2 more"));
        assert_eq!(in_short("\nno name\nat all"), "no name");
    }
}
