//! Large messages, their first bytes ahead of the grant.
//!
//! PROTOCOL §8.9. A grant costs a round trip, and where the receive is posted already it tells nothing new. So the first bytes
//! of a large message follow its announcement at once, which says how many: matched before they are looked at, they count as granted.
//! Otherwise they are dropped, and granted like all others when their time comes. How much goes ahead the sender learns of each peer
//! (`peers/ahead`).

use crate::base::api::Verdict;
use crate::base::slab::NONE;
use crate::base::types::Instant;
use crate::bulk::Bulk;
use crate::bulk::arrival::lane_key;
use crate::bulk::outgoing::Parts;
use crate::peers::ahead::share_len;
use crate::wire::{AHEAD_UNIT, Lane, MessageHead};

/// As a sender.
impl Bulk {
    /// An announcement leaves: the first bytes follow it.
    pub(super) fn send_ahead(&mut self, slot: u32) {
        let send = &mut self.outgoing[slot];
        let ahead_to = send.announced.ahead_to();
        if ahead_to == 0 {
            return;
        }
        if send.parts == NONE {
            send.parts = self.parts.insert(Parts::default());
        }
        self.parts[send.parts].unsent.add(0, ahead_to);
        self.queue_granted(slot);
    }
}

/// As a receiver.
impl Bulk {
    /// A message was matched, and nothing of what comes ahead of its grant was dropped: it counts as granted, if the budget has room for it.
    pub(super) fn grant_ahead(&mut self, now: Instant, slot: u32, ahead_to: u64) {
        let (row, index) = (self.arrivals[slot].row, self.arrivals[slot].progress);
        let progress = &mut self.progress[index];
        let start = progress.granted_to;
        let end = ahead_to.min(share_len(self.peers.settings.ahead_len)).min(progress.cap);
        let len = end.saturating_sub(start);
        if len == 0 || len > self.grants.room(slot) {
            return;
        }
        (progress.granted_to, progress.ahead_to) = (end, end);
        progress.progressed_at = now;
        let missing = progress.gaps.missing_within(start, end);
        self.peers.counters.granted_ahead += 1;
        self.grants.on_granted(slot, len);
        self.grants.on_arrived(slot, len - missing);
        self.judge_readiness(slot);
        if self.peers.rows[row].large.is_granting(slot) && self.grants.remaining_of(slot) == 0 {
            self.pass_turn(row, now + self.peers.settings.initial_rtt_ns);
        }
    }

    /// How far an announced message may be taken ahead: not at all if some of it came before its announcement, and is gone.
    pub(super) fn taken_ahead(&self, row: u32, head: &MessageHead) -> u64 {
        let numbers = &self.peers.rows[row].numbers;
        match numbers.has_missed_data(numbers.whole(head.message)) {
            true => 0,
            false => u64::from(head.ahead) * AHEAD_UNIT,
        }
    }

    /// Data of a message that is not arriving: it has ended, or waits for a receive, or its announcement is late. It is dropped, so the
    /// message must be granted from its beginning.
    pub(crate) fn on_data_of_none(&mut self, row: u32, lane: Lane, message: u32) -> Verdict {
        if lane != Lane::Message {
            return Verdict::Accepted;
        }
        match self.by_number.get(&lane_key(lane, row, message)) {
            Some(&slot) => {
                if let Some(progress) = self.progress.get_mut(self.arrivals[slot].progress) {
                    progress.ahead_to = 0;
                }
            }
            None => {
                let numbers = &mut self.peers.rows[row].numbers;
                numbers.on_data_dropped(numbers.whole(message));
            }
        }
        Verdict::Accepted
    }
}
