//! Messages that no handler saw, by why: counted for the program (`FM_dropped`), the first few told on standard error.

use std::sync::atomic::{AtomicU64, Ordering};

/// Why a message was dropped. The numbers are those of `<packhorse/fm.h>`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Why {
    /// Its sender went before its end: `FM_DROPPED_BROKEN`.
    Broken = 0,
    /// There was no room to put it together: `FM_DROPPED_LONG`.
    Long = 1,
    /// Its sender is no node of the job: `FM_DROPPED_OUTSIDE`.
    Outside = 2,
}

/// Lines for each reason; the rest is only counted.
const LINE_COUNT_MAX: u64 = 8;

static COUNTS: [AtomicU64; 3] = [const { AtomicU64::new(0) }; 3];

/// Counts a message, and says so.
pub(crate) fn count(why: Why, what: impl FnOnce() -> String) {
    let before = COUNTS[why as usize].fetch_add(1, Ordering::Relaxed);
    if before < LINE_COUNT_MAX {
        eprintln!("packhorse-fm: {}", what());
    }
}

/// How many were dropped for this reason; 0 for a number that is none.
pub(crate) fn count_of(why: usize) -> u64 {
    COUNTS.get(why).map_or(0, |count| count.load(Ordering::Relaxed))
}
