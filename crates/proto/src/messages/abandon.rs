//! Ends that are not the good one: receives and messages given up by either side.
//!
//! PROTOCOL §7.8, §8.6, §9.3. Memory goes back at once, whatever the peer does; whoever waits for word gets it.

use crate::base::api::{Envelope, Failure, GoneReason, Verdict};
use crate::base::slab::NONE;
use crate::base::types::{Instant, ReqId, Space, Tag};
use crate::bulk::arrival::Stage;
use crate::bulk::bound::Bound;
use crate::messages::Messages;
use crate::wire::{Class, DONE_CANCELLED, DONE_MATCHED, DONE_OK, MessageHead};

impl Messages {
    /// The receive is cancelled: whatever arrives into it, or lies in it, has no place any more.
    /// Tells the last one.
    pub(crate) fn abandon_arrivals_of(&mut self, now: Instant, receive: u32) -> Option<Envelope> {
        let mut swallowed = None;
        if !self.bulk.receives[receive].is_in_use() {
            return swallowed;
        }
        while let Some(slot) = self.bulk.first_bound_to(receive) {
            swallowed = Some(self.bulk.arrival(slot).envelope());
            let Bound { receive: overflow, claimant, .. } = self.bulk.bound_of(slot);
            if claimant == receive {
                // Bound, though its bytes go to an overflow entry: spent all the same. (Back in the list it would
                // stand behind younger ones.)
                self.bulk.unclaim_overflow(slot);
                self.abandon_arrival(now, slot, DONE_CANCELLED);
                self.leave_overflow(overflow);
            } else {
                self.abandon_arrival(now, slot, DONE_CANCELLED);
            }
        }
        swallowed
    }

    /// The receive is cancelled whose message came, though its end was not told yet.
    pub(crate) fn cancel_kept_end(&mut self, req: ReqId) -> bool {
        !self.ends.is_idle() && self.ends.cancel(req, &mut self.bulk.peers.events)
    }

    /// Gives a message up, with none of its bytes taken, and tells its sender, if that one waits to hear.
    pub(crate) fn abandon_arrival(&mut self, now: Instant, slot: u32, status: u8) {
        let arrival = self.bulk.arrival(slot);
        let (row, message) = (arrival.row, arrival.message);
        let tell = arrival.is_large || arrival.wants_match;
        let claimant = self.bulk.bound_of(slot).claimant;
        let envelope = arrival.envelope();
        let of = self.number_of(slot);
        self.end_arrival(now, slot);
        if claimant != NONE {
            self.report_received(claimant, of, envelope, 0, 0, Err(Failure::Cancelled));
        }
        self.on_over(of);
        if tell {
            self.bulk.peers.notify_done(row, message, status, 0);
        }
    }

    /// The application discards a claimed message. For the sender it counts as received, with no byte taken.
    pub(crate) fn forget_claimed(&mut self, now: Instant, slot: u32) {
        if let Stage::Orphaned(_) = self.bulk.arrival(slot).stage {
            self.bulk.remove_arrival(slot);
            return;
        }
        let status = if self.bulk.arrival(slot).is_large { DONE_OK } else { DONE_MATCHED };
        self.abandon_arrival(now, slot, status);
    }

    /// The sender cancelled message `message` (PROTOCOL §7.8). If that is accepted, others may have their turn.
    pub(crate) fn on_cancel(&mut self, now: Instant, row: u32, message: u32) -> Verdict {
        let number = self.bulk.peers.rows[row].numbers.whole(message);
        match self.bulk.arrival_of(row, message) {
            Some(slot) => self.cancel_arrival(now, slot, Failure::CancelledByPeer),
            None if self.bulk.peers.rows[row].numbers.is_past(number) => {}
            // Numbers alone are held beside the budgets, so that a cancel is never the one thing everybody waits for;
            // but not without end.
            None if !self.bulk.has_room_for_number() => {
                return Verdict::Refused;
            }
            None => {
                // Its number must still be counted when its turn comes.
                let head = MessageHead {
                    class: Class::Eager,
                    space: Space(0),
                    message,
                    tag: Tag(0),
                    offset: 0,
                    total: 0,
                    immediate: None,
                    wants_match: false,
                    len: 0,
                    ahead: 0,
                };
                self.bulk.keep_number(row, &head);
            }
        }
        Verdict::Accepted
    }

    pub(crate) fn cancel_arrival(&mut self, now: Instant, slot: u32, failure: Failure) {
        let arrival = self.bulk.arrival(slot);
        match arrival.stage {
            Stage::Lapsed | Stage::Orphaned(_) => {}
            // Whole and held: it was accepted before the cancel, and stays.
            Stage::Early | Stage::Unexpected | Stage::Claimed | Stage::Streamed
                if arrival.is_here() => {}
            Stage::Unexpected if arrival.in_overflow && self.bulk.is_whole(slot) => {}
            Stage::Claimed => self.bulk.orphan(slot, GoneReason::Reset),
            Stage::Early | Stage::Unexpected | Stage::Arriving | Stage::Streamed => {
                self.fail_arrival(now, slot, failure)
            }
        }
    }

    /// Ends an incomplete arrival; a receive it was bound to ends with `failure`.
    pub(crate) fn fail_arrival(&mut self, now: Instant, slot: u32, failure: Failure) {
        let arrival = self.bulk.arrival(slot);
        let envelope = arrival.envelope();
        let in_overflow = arrival.in_overflow;
        let Bound { receive, claimant, offset, .. } = self.bulk.bound_of(slot);
        let of = self.number_of(slot);
        self.end_arrival(now, slot);
        if claimant != NONE {
            self.report_received(claimant, of, envelope, 0, 0, Err(failure));
        }
        if receive != NONE {
            if in_overflow {
                self.leave_overflow(receive);
            } else {
                self.report_received(receive, of, envelope, offset, 0, Err(failure));
            }
        }
        self.on_over(of);
    }
}
