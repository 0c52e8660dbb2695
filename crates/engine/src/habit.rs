//! Does the application compute between its calls?
//!
//! Two kinds of programs leave requests pending. One comes back within microseconds, again and again, and wants nobody to take
//! its frames; the other computes, and wants its frames taken at once. The length of the last absences tells them apart (between
//! two calls: who posts a hundred messages before it waits does not compute); of the next one nobody knows. A program counts as one that computes until it has shown otherwise, so that already its first
//! absence is made use of; a single long one (its core was taken away) does not change that it is not.

#[cfg(all(loom, test))]
use loom::sync::atomic::{AtomicU32, Ordering};
#[cfg(not(all(loom, test)))]
use std::sync::atomic::{AtomicU32, Ordering};

/// So long between two calls it computes.
const LONG_NS: u64 = 20_000;
/// What a long absence counts; a short one takes back 1.
const LONG_COUNTS: u32 = 32;
const COUNT_MAX: u32 = 2 * LONG_COUNTS;

/// Words without order: a wrong guess costs a little time.
#[derive(Debug)]
pub(crate) struct Habit {
    count: AtomicU32,
}

impl Default for Habit {
    fn default() -> Self {
        Self { count: AtomicU32::new(COUNT_MAX) }
    }
}

impl Habit {
    /// The application is back after so long, with so many calls in between.
    #[inline]
    pub(crate) fn on_back(&self, absent_ns: u64, call_count: u32) {
        let count = self.count.load(Ordering::Relaxed);
        let new = match absent_ns / (u64::from(call_count) + 1) {
            0..LONG_NS => count.saturating_sub(1),
            _ => (count + LONG_COUNTS).min(COUNT_MAX),
        };
        if new != count {
            self.count.store(new, Ordering::Relaxed);
        }
    }

    /// Whether it will probably compute when it leaves.
    #[inline]
    pub(crate) fn computes(&self) -> bool {
        self.count.load(Ordering::Relaxed) > LONG_COUNTS
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn short_absences_tell_and_a_single_long_one_does_not() {
        let habit = Habit::default();
        for _ in 0..LONG_COUNTS {
            assert!(habit.computes());
            habit.on_back(4 * LONG_NS - 1, 3);
        }
        assert!(!habit.computes());
        (0..1000).for_each(|_| habit.on_back(1, 0));
        habit.on_back(LONG_NS, 0);
        assert!(!habit.computes());
        habit.on_back(1, 0);
        habit.on_back(LONG_NS, 0);
        assert!(habit.computes());
    }

    #[test]
    fn several_calls_between_two_computations_are_forgiven() {
        let habit = Habit::default();
        for _ in 0..100 {
            habit.on_back(LONG_NS, 0);
            (1..LONG_COUNTS).for_each(|_| habit.on_back(1, 0));
            assert!(habit.computes());
        }
    }
}
