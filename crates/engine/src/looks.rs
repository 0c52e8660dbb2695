//! Which looks ask the links.
//!
//! A look that does not wait (`fi_cq_read`, `test`, `probe`) takes half a microsecond if it asks the links: a lock, the clock, a system call. Most
//! looks find nothing. A program that waits in a loop of its own wants each of them to ask, for what it waits for may have come
//! since the last. A program that tests between two pieces of work wants to work, and each look takes time from that. No call says from
//! which of the two it comes, but the time between two looks does:
//!
//! ```text
//!   look │ gap │ look │ gap │ look …
//!
//!   gaps are short: on average a third of the time that asking   ──▶ the program waits: the look asks
//!   takes, or less
//!   a post since the last look                                   ──▶ it asks, for an answer may be near
//!   gaps are long                                                ──▶ the program works: it asks if the last look that did began long enough
//!                                                                    ago, that is a sixteenth of the time that nothing has come, or twenty
//!                                                                    times what asking takes, or 2^15 ticks, whichever is least
//! ```
//!
//! So what arrives is found later by a sixteenth of the time that nothing had come before, by some ten microseconds at most; a program that
//! works gives a twentieth of its time for looks that ask; and one that waits is never kept waiting. A wrong guess costs no more than that.
//! The average is of a few gaps, for a call may make two looks in a row (`MPI_Iprobe`), and a wait may do something else now and then.
//!
//! Time is counted in ticks (`link::ticks`): the clock costs as much as the rest of a look that does not ask. All that counts here are
//! ratios, so nobody needs to know how long a tick is, but roughly. Words without order: threads that look at the same time mislead each
//! other only as to how soon the links are asked.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use packhorse_link::ticks;

/// A gap of so many ticks is short whatever asking takes: some 80 to 200 ns, what an MPI library's loop does around its look.
const SHORT_GAP: u64 = 400;
/// A gap is short that is one in so many of what asking takes.
const COST_TO_GAP: u64 = 3;
/// The average moves by one in so many of what a gap differs from it, and none counts for more than so many short ones.
const AVERAGE_OF: u64 = 4;
const GAP_TO_SHORT: u64 = 2;
/// In a program that works the links are asked after so much of the quiet time, ...
const QUIET_SHARE: u64 = 16;
/// ... or after so many times what asking takes, ...
const COST_SHARE: u64 = 20;
/// ... or after so many ticks: some 7 to 16 µs.
const UNASKED_MAX: u64 = 1 << 15;

/// What is known of the looks at one engine.
#[derive(Debug, Default)]
pub(crate) struct Looks {
    /// Something was posted: the next look asks.
    has_posted: AtomicBool,
    /// The average gap.
    gap: AtomicU64,
    /// When the last look ended.
    left_at: AtomicU64,
    /// When the last look that asked began, and what one takes that finds nothing.
    asked_at: AtomicU64,
    cost: AtomicU64,
    /// When something was last found, or looked for because something was posted.
    quiet_since: AtomicU64,
}

/// A look that asks the links, from [`Looks::begin`] to [`Looks::end`].
#[derive(Debug)]
#[must_use]
pub(crate) struct Look {
    began_at: u64,
}

impl Looks {
    /// A look begins. `None`: it need not ask the links, and is over.
    #[inline]
    pub(crate) fn begin(&self) -> Option<Look> {
        let look = self.begin_at(ticks());
        if look.is_none() {
            self.left_at.store(ticks(), Ordering::Relaxed);
        }
        look
    }

    /// A look that asked is over. `has_found`: something came of it.
    #[inline]
    pub(crate) fn end(&self, look: Look, has_found: bool) {
        // Who found something is not kept to read the counter: the next gap looks longer, and one says little.
        let now = if has_found { look.began_at } else { ticks() };
        self.end_at(&look, now, has_found);
    }

    /// Something was posted.
    #[inline]
    pub(crate) fn on_post(&self) {
        self.has_posted.store(true, Ordering::Relaxed);
    }

    /// A look that is over was followed by a step aside inside the same call: the gap begins now.
    pub(crate) fn on_back(&self) {
        self.left_at.store(ticks(), Ordering::Relaxed);
    }

    fn begin_at(&self, now: u64) -> Option<Look> {
        let works = self.works(now.wrapping_sub(self.left_at.load(Ordering::Relaxed)));
        if self.has_posted.load(Ordering::Relaxed) {
            self.has_posted.store(false, Ordering::Relaxed);
            self.quiet_since.store(now, Ordering::Relaxed);
        } else if works && !self.is_time(now) {
            return None;
        }
        Some(Look { began_at: now })
    }

    fn end_at(&self, look: &Look, now: u64, has_found: bool) {
        if has_found {
            self.quiet_since.store(now, Ordering::Relaxed);
        } else {
            self.cost.store(now.wrapping_sub(look.began_at), Ordering::Relaxed);
        }
        self.asked_at.store(look.began_at, Ordering::Relaxed);
        self.left_at.store(now, Ordering::Relaxed);
    }

    /// One more gap: whether the program works.
    fn works(&self, gap: u64) -> bool {
        let short = (self.cost.load(Ordering::Relaxed) / COST_TO_GAP).max(SHORT_GAP);
        let average = self.gap.load(Ordering::Relaxed);
        let gap = gap.min(GAP_TO_SHORT * short);
        let average = average - average / AVERAGE_OF + gap / AVERAGE_OF;
        self.gap.store(average, Ordering::Relaxed);
        average > short
    }

    /// In a program that works: whether the links have not been asked for long enough.
    fn is_time(&self, now: u64) -> bool {
        let quiet = now.wrapping_sub(self.quiet_since.load(Ordering::Relaxed));
        let cost = self.cost.load(Ordering::Relaxed);
        let unasked_max =
            (quiet / QUIET_SHARE).min(cost.saturating_mul(COST_SHARE)).min(UNASKED_MAX);
        now.wrapping_sub(self.asked_at.load(Ordering::Relaxed)) >= unasked_max
    }
}

#[cfg(test)]
mod tests;
