//! What the network makes us hold for messages without a receive: envelopes and bytes, and the bounds of both.
//!
//! PROTOCOL §5.5, §7.4. Every rule about these two budgets stands here: what there is room for, what a peer is told of it, what is roomy enough to
//! recall a peer that was refused. Who is refused and recalled stands in `messages/turns`.

use crate::base::counters::Counters;
use crate::base::limits::Limits;
use crate::base::pool::BytePool;
use crate::base::slab::NONE;
use crate::delivery::credit::Share;

/// Messages that wait for a receive, and their bytes.
#[derive(Debug)]
pub(crate) struct Held {
    pool: BytePool,
    envelope_count: u32,
    envelope_count_max: u32,
    unasked_len_max: u64,
    /// What is at hand cannot be refused: it is taken beyond the budgets.
    takes_all: bool,
}

impl Held {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            pool: BytePool::new(limits.held_len_max),
            envelope_count: 0,
            envelope_count_max: limits.envelope_count_max,
            unasked_len_max: limits.unasked_len_max,
            takes_all: false,
        }
    }

    /// What is held now: bytes, envelopes.
    pub(crate) fn counts(&self) -> (u64, u32) {
        (self.pool.used_len(), self.envelope_count)
    }

    /// So many envelopes may be held.
    pub(super) fn envelope_count_max(&self) -> u32 {
        self.envelope_count_max
    }

    /// The bytes of a held message.
    #[inline(always)]
    pub(crate) fn bytes(&self, hold: u32) -> &[u8] {
        self.pool.bytes(hold)
    }

    #[inline(always)]
    pub(super) fn bytes_mut(&mut self, hold: u32) -> &mut [u8] {
        self.pool.bytes_mut(hold)
    }

    /// Nobody needs these bytes any more.
    #[inline(always)]
    pub(crate) fn release(&mut self, hold: u32) {
        self.pool.release(hold);
    }

    /// A message is held no more: its envelope, and its bytes if it had any.
    pub(crate) fn forget(&mut self, hold: u32) {
        self.uncharge();
        if hold != NONE {
            self.release(hold);
        }
    }

    /// Room for the bytes of a message that may be refused.
    #[inline(always)]
    pub(super) fn try_reserve(&mut self, len: usize) -> Option<u32> {
        self.pool.try_reserve(len)
    }

    /// Holds bytes that came before their turn, without an envelope. `None`: there is no room.
    pub(crate) fn keep(&mut self, bytes: &[u8], counters: &mut Counters) -> Option<u32> {
        let hold = self.pool.try_reserve(bytes.len())?;
        self.pool.bytes_mut(hold).copy_from_slice(bytes);
        counters.held_len_peak = self.pool.peak_len();
        Some(hold)
    }

    /// What is taken from now on cannot be refused, or can be again.
    pub(crate) fn set_takes_all(&mut self, takes_all: bool) {
        self.takes_all = takes_all;
    }

    /// Nothing may be refused just now.
    #[inline(always)]
    pub(crate) fn takes_all(&self) -> bool {
        self.takes_all
    }

    /// Room for the bytes of a message, if there is any, or if it must be found.
    #[inline(always)]
    pub(super) fn reserve(&mut self, len: usize) -> Option<u32> {
        match self.pool.try_reserve(len) {
            None if self.takes_all => self.pool.overdraw(len),
            hold => hold,
        }
    }

    /// One envelope more is held.
    #[inline(always)]
    pub(super) fn charge(&mut self, counters: &mut Counters) {
        self.envelope_count += 1;
        let peak = counters.envelope_count_peak.max(u64::from(self.envelope_count));
        counters.envelope_count_peak = peak;
        counters.held_len_peak = self.pool.peak_len();
    }

    /// One envelope less is held.
    #[inline(always)]
    pub(super) fn uncharge(&mut self) {
        self.envelope_count -= 1;
    }

    #[inline(always)]
    pub(crate) fn has_envelope(&self) -> bool {
        self.envelope_count < self.envelope_count_max || self.takes_all
    }

    /// Whether one more message of this length may be held, or must be.
    pub(crate) fn has_room_for(&self, len: usize) -> bool {
        let is_free = |cost| cost <= self.pool.free_len();
        self.takes_all || (self.has_envelope() && BytePool::cost_of(len).is_some_and(is_free))
    }

    /// Whether a chunk before its turn may be held: half of all room is for those that have it, or none ever might.
    pub(crate) fn has_room_ahead(&self, len: usize) -> bool {
        let cost = BytePool::cost_of(len).unwrap_or(u64::MAX);
        let is_roomy = self.envelope_count < self.envelope_count_max / 2
            && self.pool.free_len().saturating_sub(cost) >= self.pool.len_max() / 2;
        is_roomy || self.takes_all
    }

    /// More is held than may be.
    pub(crate) fn is_beyond(&self) -> bool {
        self.pool.is_overdrawn() || self.envelope_count > self.envelope_count_max
    }

    /// There is room for more than a message or two: whoever was refused may be recalled.
    pub(crate) fn is_roomy(&self) -> bool {
        let free_count = self.envelope_count_max.saturating_sub(self.envelope_count);
        free_count >= (self.envelope_count_max / 4).max(1)
            && self.pool.free_len() >= self.pool.len_max() / 4
    }

    /// Whether so many bytes that were refused fit now. Twice of them: the pool rounds up to size classes.
    pub(crate) fn would_fit(&self, refused_len: u64) -> bool {
        let free_len = self.pool.free_len();
        free_len >= 2 * refused_len || free_len == self.pool.len_max()
    }

    /// What we would hold for each of so many peers, of what is free (PROTOCOL §5.5).
    #[inline(always)]
    pub(super) fn share_of(&self, peer_count: u32) -> Share {
        let envelopes = self.envelope_count_max.saturating_sub(self.envelope_count);
        let held_len = self.pool.free_len().min(u64::from(envelopes) * 64);
        Share { held_len, unasked_len: self.unasked_len_max, peer_count }
    }
}
