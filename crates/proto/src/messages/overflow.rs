//! Overflow entries: messages lie in their memory until a priority receive matches them (Portals' overflow list).
//!
//! PROTOCOL §9.2. To the matcher such a message is unexpected; its bytes need no memory of ours and are never copied: the
//! receive that matches it is told where they lie.

use crate::base::api::Event;
use crate::base::slab::NONE;
use crate::base::types::Instant;
use crate::bulk::bound::Bound;
use crate::bulk::receives::Unbound;
use crate::messages::Messages;
use crate::wire::{DONE_MATCHED, DONE_OK};

impl Messages {
    /// A priority receive matched a message in an overflow entry.
    pub(crate) fn match_overflow(&mut self, now: Instant, slot: u32, receive: u32) {
        self.bulk.receives.keep(receive);
        if self.bulk.claim_overflow(slot, receive) {
            self.finish_overflow(now, slot);
        }
    }

    pub(crate) fn on_overflow_whole(&mut self, now: Instant, slot: u32) {
        let arrival = self.bulk.arrival(slot);
        let (row, message, is_large) = (arrival.row, arrival.message, arrival.is_large);
        let Bound { claimant, cap: placed_len, .. } = self.bulk.bound_of(slot);
        if is_large {
            self.bulk.end_large_overflow(slot);
            self.bulk.peers.notify_done(row, message, DONE_OK, placed_len);
        }
        if claimant != NONE {
            self.finish_overflow(now, slot);
        }
    }

    pub(crate) fn finish_overflow(&mut self, now: Instant, slot: u32) {
        let arrival = self.bulk.arrival(slot);
        let (row, message, envelope, wants_match) =
            (arrival.row, arrival.message, arrival.envelope(), arrival.wants_match);
        let Bound { receive: overflow, claimant, offset, cap: placed_len } =
            self.bulk.bound_of(slot);
        self.end_arrival(now, slot);
        if wants_match {
            self.bulk.peers.notify_done(row, message, DONE_MATCHED, placed_len);
        }
        let overflow_user = self.bulk.receives[overflow].user;
        let Unbound { req, user, is_over, .. } = self.bulk.receives.unbind(claimant);
        self.bulk.peers.events.tell(Event::Overflowed {
            req,
            user,
            envelope,
            overflow_user,
            offset,
            placed_len,
        });
        if !is_over {
            self.end_if_done(claimant);
        }
        self.leave_overflow(overflow);
    }

    /// A message has left an overflow entry's memory.
    pub(crate) fn leave_overflow(&mut self, overflow: u32) {
        let Unbound { req, user, source, is_over } = self.bulk.receives.unbind(overflow);
        if is_over {
            self.bulk.peers.events.tell(Event::Unlinked { req, user, source, failure: None });
        } else {
            self.end_if_done(overflow);
        }
    }
}
