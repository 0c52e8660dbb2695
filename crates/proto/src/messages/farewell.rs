//! What becomes of messages when their association ends, or the endpoint closes.
//!
//! PROTOCOL §4.4, §9.4. What was accepted whole stays deliverable.

use crate::bulk::arrival::Stage;
use crate::bulk::receives::Receive;
use crate::messages::Messages;
use crate::wire::DONE_CANCELLED;
use crate::{Failure, GoneReason, Instant, Memory, ReqId, Space};
use alloc::vec::Vec;

impl Messages {
    /// A closing endpoint holds nothing for nobody: refused peers may send, to hear the end.
    fn drop_held(&mut self, now: Instant) {
        let held = self.bulk.arrivals_like(|arrival| {
            matches!(arrival.stage, Stage::Unexpected | Stage::Claimed) && arrival.is_here()
        });
        for slot in held {
            self.end_arrival(now, slot);
        }
        self.recall_rows(now);
    }

    /// An association ends, and with it what was to be sent.
    pub(crate) fn end_sends(&mut self, row: u32, failure: Failure) {
        if let Some(at) = self.refused.iter().position(|&refused| refused == row) {
            self.refused.remove(at);
        }
        self.bulk.end_sends(row, failure);
    }

    /// Incomplete messages vanish, complete ones stay; those before their turn have it now: what is missing before them
    /// failed at its sender.
    pub(crate) fn end_arrivals(
        &mut self,
        now: Instant,
        row: u32,
        reason: Option<GoneReason>,
        failure: Failure,
    ) {
        let numbers = self.bulk.peers.rows[row].numbers;
        let of_row = self.bulk.arrivals_like(|arrival| arrival.row == row);
        let number_of = |slot: u32| numbers.whole(self.bulk.arrival(slot).message);
        let mut under_way: Vec<(u64, u32)> =
            of_row.into_iter().map(|slot| (number_of(slot), slot)).collect();
        under_way.sort_unstable();
        for (_, slot) in under_way {
            self.bulk.unmap(slot);
            let arrival = self.bulk.arrival(slot);
            let whole = arrival.is_here() || (arrival.in_overflow && self.bulk.is_whole(slot));
            match arrival.stage {
                Stage::Early if whole => self.orphans.push_back(self.bulk.arrival_key(slot)),
                Stage::Unexpected | Stage::Claimed | Stage::Streamed if whole => {}
                Stage::Claimed => {
                    self.bulk.stop_grants(slot);
                    self.bulk.orphan(slot, reason.unwrap_or(GoneReason::Reset));
                }
                Stage::Lapsed => {
                    self.bulk.remove_arrival(slot);
                    continue;
                }
                Stage::Orphaned(_) => {}
                Stage::Early | Stage::Unexpected | Stage::Arriving | Stage::Streamed => {
                    self.fail_arrival(now, slot, failure);
                    continue;
                }
            }
            self.bulk.part_from_sender(slot);
        }
        if let Some(reason) = reason {
            self.fail_directed(now, row, Failure::Gone(reason));
        }
    }

    /// Whether whole messages wait whose association ended before their turn.
    #[inline]
    pub(crate) fn has_orphans(&self) -> bool {
        !self.orphans.is_empty()
    }

    /// Whole messages that were before their turn when their association ended: now it is their turn.
    pub(crate) fn deliver_orphans(&mut self, now: Instant, memory: &mut impl Memory) {
        while let Some(key) = self.orphans.pop_front() {
            // The row may have ended again before they were delivered: each is delivered once.
            let waiting = |&slot: &u32| self.bulk.arrival(slot).stage == Stage::Early;
            if let Some(slot) = self.bulk.find_arrival(key).filter(waiting) {
                // A chunk behind a gap has no place: its stream broke where the gap is.
                if self.bulk.peers.is_closing() || self.bulk.arrival(slot).space == Space::STREAMS {
                    self.end_arrival(now, slot);
                } else {
                    self.on_turn(now, slot, memory);
                }
            }
        }
    }

    fn fail_directed(&mut self, now: Instant, row: u32, failure: Failure) {
        if !self.bulk.peers.rows[row].ties.has_directed() {
            return;
        }
        let peer = self.bulk.peers.rows[row].peer();
        let is_directed = |receive: &Receive| receive.is_posted() && receive.source == Some(peer);
        let posted = self.bulk.receives.all().filter(|&(_, receive)| is_directed(receive));
        let directed: Vec<ReqId> = posted.map(|(req, _)| req).collect();
        self.cancel_receives(now, &directed, failure);
    }

    /// Cancels receives by name: the end of one may be the end of another (an overflow entry and who waits for it).
    fn cancel_receives(&mut self, now: Instant, reqs: &[ReqId], failure: Failure) {
        for &req in reqs {
            if let Some(slot) = self.bulk.receives.find(req) {
                self.cancel_receive(now, slot, failure);
            }
        }
    }
}

impl Messages {
    /// The endpoint closes: receives end, and what was announced goes back.
    pub(crate) fn end_receiving(&mut self, now: Instant) {
        let posted: Vec<ReqId> = self.bulk.receives.all().map(|(req, _)| req).collect();
        self.cancel_receives(now, &posted, Failure::Closing);
        // Announced and not matched: nobody will.
        let announced = self.bulk.arrivals_like(|arrival| {
            arrival.is_large
                && matches!(arrival.stage, Stage::Unexpected | Stage::Claimed | Stage::Early)
        });
        for slot in announced {
            let (row, message) = (self.bulk.arrival(slot).row, self.bulk.arrival(slot).message);
            self.end_arrival(now, slot);
            self.bulk.peers.notify_done(row, message, DONE_CANCELLED, 0);
        }
        self.drop_held(now);
    }
}

impl Messages {
    /// A peer is forgotten: receives that wait for it end, and what is held of it is dropped.
    pub(crate) fn forget_messages(&mut self, now: Instant, row: u32) {
        self.fail_directed(now, row, Failure::Gone(GoneReason::Forgotten));
        let held = self.bulk.arrivals_like(|arrival| arrival.row == row);
        for slot in held {
            self.take_held(slot);
            self.bulk.remove_arrival(slot);
        }
    }
}
