//! Whether the links were asked so short a time ago that the look which follows may be left out.
//!
//! MPI libraries read a queue until there is nothing, and return then to who waits for what they have read: that last read would cost a system call
//! for each link that is no memory. It is a hint, hence without ordering.

use std::sync::atomic::{AtomicU64, Ordering};

/// When that ends, in ticks; 0 if there was nothing, or it has been used.
#[derive(Debug, Default)]
pub(crate) struct Fresh(AtomicU64);

impl Fresh {
    /// The links have been asked.
    #[inline]
    pub(crate) fn begin(&self, now: u64, ticks: u64) {
        self.0.store(now.saturating_add(ticks), Ordering::Relaxed);
    }

    /// The next look asks, however soon.
    #[inline]
    pub(crate) fn end(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// Whether a look may be left out, once for each that was made. The time is asked for only if it matters.
    #[inline]
    pub(crate) fn is_fresh(&self, now: impl FnOnce() -> u64) -> bool {
        let until = self.0.load(Ordering::Relaxed);
        if until == 0 {
            return false;
        }
        self.end();
        now() < until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_is_left_out_once_and_only_right_behind_another() {
        let fresh = Fresh::default();
        assert!(!fresh.is_fresh(|| 0));
        for (later, expected) in [(0, true), (9, true), (10, false), (1_000_000, false)] {
            fresh.begin(100, 10);
            assert_eq!(fresh.is_fresh(|| 100 + later), expected, "{later} ticks later");
            assert!(!fresh.is_fresh(|| 100), "a second time");
        }
        fresh.begin(100, 10);
        fresh.end();
        assert!(!fresh.is_fresh(|| 100));
    }
}
