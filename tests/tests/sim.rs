//! The simulator's regressions: every seed that ever failed, and some that never did.
//!
//! `PACKHORSE_TEST_RUNS` says how many of the latter; coverage and mutation testing ask for more.

#![forbid(unsafe_code)]

use packhorse_sim::run::{Conduct, Parts, Plan, run_batch, run_seed};

/// Always the same, so that a mutant meets the same scenarios as the code it was made from.
const FIRST_SEED: u64 = 7_000_000;

/// The seeds of the list, with their reasons.
fn seeds(text: &str) -> impl Iterator<Item = (u64, &str)> {
    let lines = text.lines().map(|line| line.split_once('#').unwrap_or((line, "")));
    lines.filter(|(seed, _)| !seed.trim().is_empty()).map(|(seed, reason)| {
        let number = seed.trim().parse().unwrap_or_else(|_| panic!("no seed: {seed:?}"));
        (number, reason.trim())
    })
}

#[test]
fn seeds_that_failed_once_hold() {
    for (seed, reason) in seeds(include_str!("../seeds.txt")) {
        let outcome = run_seed(seed, Conduct::default().with_parts(Parts::All));
        assert!(outcome.violations.is_empty(), "seed {seed} ({reason}): {:?}", outcome.violations);
    }
}

#[test]
fn other_seeds_hold() {
    let asked = std::env::var("PACKHORSE_TEST_RUNS").ok().and_then(|count| count.parse().ok());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let plan =
        Plan { first_seed: FIRST_SEED, count: asked.unwrap_or(200), threads, failed_count_max: 1 };
    let batch = run_batch(plan, Conduct::default(), || ());
    assert!(batch.failed.is_empty(), "{:?}", batch.failed);
}

#[test]
fn the_list_of_seeds_is_read_with_its_reasons() {
    let text = "# a comment\n\n17 # lost its way\n18\n";
    assert!(seeds(text).eq([(17, "lost its way"), (18, "")]));
}
