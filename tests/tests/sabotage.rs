//! A simulator that cannot fail proves nothing: each deliberate fault must be found, and soon.

#![forbid(unsafe_code)]

use packhorse_proto::Sabotage;
use packhorse_sim::run::{Conduct, Parts, Plan, quiet_panics, run_batch};

/// Runs within which every fault must show.
const RUN_COUNT_MAX: u64 = 10_000;
/// Always the same: found once, found always.
const FIRST_SEED: u64 = 9_000_000;

#[test]
fn every_deliberate_fault_is_found() {
    assert!(Sabotage::ALL.len() >= 10, "ten faults at least");
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let plan = Plan { first_seed: FIRST_SEED, count: RUN_COUNT_MAX, threads, failed_count_max: 1 };
    let mut missed = Vec::new();
    // A sabotaged endpoint may well trip over its own assertions: that is a way of being found.
    quiet_panics();
    for &fault in Sabotage::ALL {
        let conduct =
            Conduct { sabotage: Some(fault), parts: parts_for(fault), ..Conduct::default() };
        let batch = run_batch(plan, conduct, || ());
        match batch.failed.first() {
            Some(found) => {
                let (after, what) = (found.seed - FIRST_SEED + 1, &found.violations[0]);
                println!("{fault:?}: found in run {after}: {what}");
            }
            None => missed.push(fault),
        }
    }
    let _ = std::panic::take_hook();
    assert!(missed.is_empty(), "not found within {RUN_COUNT_MAX} runs: {missed:?}");
}

/// What of a seed a fault shows in: those of Portals in nothing else.
fn parts_for(fault: Sabotage) -> Parts {
    match fault {
        Sabotage::OverflowListFirst
        | Sabotage::HeaderForgotten
        | Sabotage::LocalOffsetStays
        | Sabotage::MinFreeIgnored
        | Sabotage::PortalNotStopped
        | Sabotage::DisabledPortalTakes
        | Sabotage::EntryUsedTwice
        | Sabotage::FreeNotTold
        | Sabotage::CutAllTheSame
        | Sabotage::TriggerFiresAgain => Parts::Portals,
        _ => Parts::Usual,
    }
}
