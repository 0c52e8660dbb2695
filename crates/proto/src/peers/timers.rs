//! When somebody must be looked at: rows, acknowledgements, strangers who are idle.
//!
//! ```text
//!   rows       a heap; a row that is armed anew leaves its old entry behind, which is told by the row's own `timer_at`
//!   acks       a queue: all of them wait equally long
//!   strangers  one moment for all
//! ```
//!
//! PROTOCOL §5.4, §6.4. What is to be done then stands in `clock` and `strangers`.

use alloc::collections::BinaryHeap;
use core::cmp::Reverse;

use crate::base::ring::Ring;
use crate::base::types::Instant;

/// So many old timers are swept out by themselves.
const OLD_TIMER_COUNT_MAX: usize = 8;
/// With more timers than this it is not worth asking which of them have time.
const PATIENT_COUNT_MAX: usize = 2 * OLD_TIMER_COUNT_MAX;

/// All timers of an endpoint's peers.
#[derive(Debug)]
pub(crate) struct Timers {
    rows: BinaryHeap<Reverse<(Instant, u32)>>,
    acks: Ring<(Instant, u32)>,
    /// When strangers who are idle must be looked at. May be earlier.
    strangers_at: Instant,
    /// Not later than the first of all. May be earlier: it is looked up again when time is up.
    wake_at: Instant,
}

impl Timers {
    pub(super) fn new() -> Self {
        Self {
            rows: BinaryHeap::new(),
            acks: Ring::new(),
            strangers_at: Instant::NEVER,
            wake_at: Instant::NEVER,
        }
    }

    /// Not later than the first of all.
    #[inline]
    pub(crate) fn wake_at(&self) -> Instant {
        debug_assert!(self.wake_at <= self.first(), "a timer would be missed");
        self.wake_at
    }

    /// When the first of all is due.
    fn first(&self) -> Instant {
        self.row_at().min(self.ack_at()).min(self.strangers_at)
    }

    /// Looks up when the first of all is due.
    pub(crate) fn wake_for_first(&mut self) {
        self.wake_at = self.first();
    }

    /// When the first row is to be looked at.
    pub(crate) fn row_at(&self) -> Instant {
        self.rows.peek().map_or(Instant::NEVER, |&Reverse((at, _))| at)
    }

    /// When the first acknowledgement must leave.
    pub(crate) fn ack_at(&self) -> Instant {
        self.acks.front().map_or(Instant::NEVER, |&(at, _)| at)
    }

    /// When strangers who are idle are to be looked at.
    pub(crate) fn strangers_at(&self) -> Instant {
        self.strangers_at
    }

    /// The timers of rows, unless they are so many that it is not worth asking which of them have time.
    pub(crate) fn rows_if_few(&self) -> Option<impl Iterator<Item = (Instant, u32)>> {
        let is_few = self.rows.len() <= PATIENT_COUNT_MAX;
        is_few.then(|| self.rows.iter().map(|&Reverse(timer)| timer))
    }

    /// A row is to be looked at then.
    #[inline]
    pub(super) fn arm_row(&mut self, at: Instant, row: u32) {
        self.wake_at = self.wake_at.min(at);
        self.rows.push(Reverse((at, row)));
    }

    /// An acknowledgement must leave then; later than all that were told before.
    #[inline]
    pub(super) fn arm_ack(&mut self, at: Instant, row: u32) {
        self.acks.push_back((at, row));
        self.wake_at = self.wake_at.min(at);
    }

    /// Strangers who are idle are to be looked at then, or before.
    pub(super) fn arm_strangers(&mut self, at: Instant) {
        self.strangers_at = self.strangers_at.min(at);
        self.wake_at = self.wake_at.min(at);
    }

    /// Strangers were looked at, and are to be then and not before.
    pub(super) fn set_strangers(&mut self, at: Instant) {
        self.strangers_at = at;
    }

    /// An acknowledgement left before its time. Its timer need not go off, if nobody's came after it.
    #[inline(always)]
    pub(super) fn disarm_ack(&mut self, at: Instant, row: u32) {
        if self.acks.back() == Some(&(at, row)) {
            self.acks.end = self.acks.end.wrapping_sub(1);
        }
    }

    /// A row whose acknowledgement must leave by now.
    pub(crate) fn next_ack(&mut self, now: Instant) -> Option<u32> {
        let &(at, row) = self.acks.front()?;
        if at > now {
            return None;
        }
        self.acks.pop_front();
        Some(row)
    }

    /// A row that was to be looked at by now, and since when. It may have been armed anew meanwhile.
    pub(super) fn next_row(&mut self, now: Instant) -> Option<(Instant, u32)> {
        let &Reverse((at, row)) = self.rows.peek()?;
        if at > now {
            return None;
        }
        self.rows.pop();
        Some((at, row))
    }

    /// Sweeps out the timers of rows that are not live any more, when they are more than those of all `row_count` rows may be.
    pub(super) fn forget_old(&mut self, row_count: usize, is_live: impl Fn(Instant, u32) -> bool) {
        if self.rows.len() > OLD_TIMER_COUNT_MAX + 2 * row_count {
            self.rows.retain(|&Reverse((at, row))| is_live(at, row));
        }
    }
}
