//! mpi4py's whole suite over Open MPI's `mtl/portals4`, beside the same Open MPI over its own TCP.
//!
//! Nothing is left out but the starting of further processes, which `conformance` has as a part of its own. A test counts against Portals if it fails there, fails there
//! again when it is run by itself, and does not fail over TCP.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use anyhow::Result;

use super::conformance::{Outcome, listed, run_named, run_whole};
use super::hosts::Hosts;
use super::launch::{Launch, Way};
use super::library::{Library, install_python};

/// One place where the suite ran over both.
struct Row {
    place: &'static str,
    over_portals: Outcome,
    over_tcp: Outcome,
    only_here: BTreeSet<String>,
}

/// Where it is run, by name.
pub(crate) const PLACES: [&str; 2] = ["mpi4py on one host", "mpi4py on two hosts"];

/// Runs it where `is_wanted` says so; the table of what failed, and how many tests failed over Portals alone.
pub(crate) fn suite(
    library: &Library,
    rank_count: usize,
    is_wanted: impl Fn(&str) -> bool,
) -> Result<(String, usize)> {
    install_python()?;
    let hosts = Hosts::new()?;
    // Between hosts large messages take another link than small ones.
    let places = [(PLACES[0], "shm", None), (PLACES[1], "", Some(&hosts))];
    let mut rows = Vec::new();
    for (place, kind, hosts) in places.into_iter().filter(|(place, ..)| is_wanted(place)) {
        println!("{place}, {rank_count} ranks");
        let launch = |way| Launch { library, rank_count, hosts, way };
        let here = launch(Way::Portals { kind });
        let over_portals = run_whole(&here);
        let over_tcp = run_whole(&launch(Way::OwnTcp));
        let only_here = only_here(&here, &over_portals, &over_tcp);
        rows.push(Row { place, over_portals, over_tcp, only_here });
    }
    // A run without a name of a test that failed counts, too.
    let is_odd = |row: &&Row| !row.over_portals.is_passed && row.over_portals.failed.is_empty();
    let failed = rows.iter().map(|row| row.only_here.len()).sum::<usize>();
    Ok((table(&rows)?, failed + rows.iter().filter(is_odd).count()))
}

/// Tests that fail over Portals, also by themselves, and not over TCP.
fn only_here(launch: &Launch, here: &Outcome, there: &Outcome) -> BTreeSet<String> {
    let is_stop = |test: &String| here.stopped_in.as_ref() == Some(test);
    let is_suspect = |test: &&String| !there.has(test, is_stop(test));
    let suspects: BTreeSet<String> = here.failed.iter().filter(is_suspect).cloned().collect();
    if suspects.is_empty() {
        return suspects;
    }
    let again = run_named(launch, &suspects);
    match (again.is_passed, again.failed.is_empty()) {
        (true, _) => BTreeSet::new(),
        (false, true) => suspects, // it ended without naming one
        (false, false) => again.failed,
    }
}

fn table(rows: &[Row]) -> Result<String> {
    let mut text = String::from("# mpi4py's suite over Open MPI's mtl/portals4\n\n");
    writeln!(text, "| place | over Portals | over TCP | over Portals alone |")?;
    writeln!(text, "| --- | --- | --- | --- |")?;
    for row in rows {
        let of = |outcome: &Outcome| match (outcome.is_passed, outcome.failed.len()) {
            (true, _) | (false, 0) => outcome.said.clone(),
            (false, count) => format!("{count} failed: {}", listed(&outcome.failed)),
        };
        let (here, there) = (of(&row.over_portals), of(&row.over_tcp));
        let alone = match row.only_here.len() {
            0 => "none".to_owned(),
            count => format!("{count}: {}", listed(&row.only_here)),
        };
        writeln!(text, "| {} | {here} | {there} | {alone} |", row.place)?;
    }
    Ok(text)
}
