//! Are there more runnable threads than cores?
//!
//! Spinning pays only where nobody else could use the core: the very thread whose answer is awaited may be waiting for it. One
//! cannot ask the system that, but one can step aside for a moment (`sched_yield`): alone on its core a thread is back at
//! once, otherwise somebody else has run meanwhile. Where that happens twice in a row (once may be an interrupt, or a
//! helper that took a look) waiting threads sleep at once, as they would on a socket, and try again only now and then.

use std::sync::atomic::{AtomicU32, Ordering};

/// Idle for so long, a spinning thread steps aside once; and again after as much.
const STEP_ASIDE_EVERY_NS: u64 = 10_000;
/// A thread that is back within this time was alone on its core: a helper's look takes less.
const BACK_WITHIN_NS: u64 = 8_000;
/// Back late so often in a row, there is a crowd.
const LATE_COUNT: u32 = 2;
/// Waits that sleep at once before one spins again.
const TRY_AGAIN_AFTER: u32 = 64;

/// Words without order: a wrong guess costs a little time.
#[derive(Debug, Default)]
pub(crate) struct Crowd {
    /// Waits that sleep at once from now on; 0 if there is no crowd.
    sleep_count: AtomicU32,
    /// Times in a row that a thread was back late.
    late_count: AtomicU32,
}

impl Crowd {
    /// A thread begins to wait: whether it may spin.
    pub(crate) fn may_spin(&self) -> bool {
        let left = self.sleep_count.load(Ordering::Relaxed);
        if left > 0 {
            self.sleep_count.store(left - 1, Ordering::Relaxed);
        }
        left == 0
    }

    /// Whether it is time to step aside, idle for so long with the last time so long ago.
    pub(crate) fn is_due(idle_ns: u64, stepped_ago_ns: u64) -> bool {
        idle_ns >= STEP_ASIDE_EVERY_NS && stepped_ago_ns >= STEP_ASIDE_EVERY_NS
    }

    /// A thread stepped aside and was back after so long. False: it must not spin on.
    pub(crate) fn on_back(&self, away_ns: u64) -> bool {
        let late_count = match away_ns {
            0..BACK_WITHIN_NS => 0,
            _ => self.late_count.load(Ordering::Relaxed) + 1,
        };
        let is_crowded = late_count >= LATE_COUNT;
        self.late_count.store(if is_crowded { 0 } else { late_count }, Ordering::Relaxed);
        if is_crowded {
            self.sleep_count.store(TRY_AGAIN_AFTER, Ordering::Relaxed);
        }
        !is_crowded
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_a_crowd_most_waits_do_not_spin() {
        let crowd = Crowd::default();
        assert!(crowd.may_spin());
        // Late once, now and then, is no crowd.
        for away_ns in [BACK_WITHIN_NS, 0, BACK_WITHIN_NS, BACK_WITHIN_NS - 1, BACK_WITHIN_NS] {
            assert!(crowd.on_back(away_ns) && crowd.may_spin());
        }
        assert!(!crowd.on_back(BACK_WITHIN_NS));
        assert_eq!((0..1000).filter(|_| !crowd.may_spin()).count(), TRY_AGAIN_AFTER as usize);
    }

    #[test]
    fn short_waits_never_step_aside() {
        assert!(!Crowd::is_due(STEP_ASIDE_EVERY_NS - 1, u64::MAX));
        assert!(Crowd::is_due(STEP_ASIDE_EVERY_NS, u64::MAX));
        assert!(!Crowd::is_due(u64::MAX, STEP_ASIDE_EVERY_NS - 1));
    }
}
