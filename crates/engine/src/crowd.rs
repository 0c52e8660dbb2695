//! Are there more runnable threads than cores?
//!
//! Spinning pays only where nobody else could use the core: the very thread whose answer is awaited may be waiting for it. One
//! cannot ask the system that, but one can step aside for a moment (`sched_yield`): alone on its core a thread is back at
//! once, otherwise somebody else has run meanwhile. Then waiting threads sleep at once, as they would on a socket, and try
//! again only now and then.

use std::sync::atomic::{AtomicU32, Ordering};

/// Idle for so long, a spinning thread steps aside once; and again after as much.
const STEP_ASIDE_EVERY_NS: u64 = 10_000;
/// Who is back within this was alone.
const BACK_WITHIN_NS: u64 = 5_000;
/// Waits that sleep at once before one spins again.
const TRY_AGAIN_AFTER: u32 = 64;

/// Words without order: a wrong guess costs a little time.
#[derive(Debug, Default)]
pub(crate) struct Crowd {
    /// Waits that sleep at once from now on; 0 if there is no crowd.
    sleep_count: AtomicU32,
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

    /// It stepped aside and was back after so long. True: it was alone.
    pub(crate) fn on_back(&self, away_ns: u64) -> bool {
        let was_alone = away_ns < BACK_WITHIN_NS;
        if !was_alone {
            self.sleep_count.store(TRY_AGAIN_AFTER, Ordering::Relaxed);
        }
        was_alone
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_a_crowd_most_waits_do_not_spin() {
        let crowd = Crowd::default();
        assert!(crowd.may_spin());
        assert!(crowd.on_back(BACK_WITHIN_NS - 1) && crowd.may_spin());
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
