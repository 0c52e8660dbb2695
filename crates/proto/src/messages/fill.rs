//! A message and its receive have found each other: bytes go where they belong, and an end is told.
//!
//! PROTOCOL §8.1, §8.6, §8.7, §9. What is here already is placed, what is missing is awaited (eager) or granted (large). Every
//! byte counts once, whatever record brings it.

use crate::base::api::{Envelope, Event, Failure, List, RecvSpec};
use crate::base::sabotage::Sabotage;
use crate::base::types::{Instant, Memory, Place, ReqId};
use crate::bulk::arrival::Stage;
use crate::bulk::bound::Bound;
use crate::bulk::filling::Absorbed;
use crate::bulk::receives::{Fit, Receive, Unbound};
use crate::messages::Messages;
use crate::wire::{Class, DONE_MATCHED, DONE_OK, MessageHead};

impl Messages {
    /// An entry matched: reserves the place of one message in it and unlinks it when it is used up.
    #[inline]
    pub(crate) fn take_entry(&mut self, token: u32, total: u64) -> Fit {
        let (fit, full) = self.bulk.receives.bind(token, total);
        if let Some(entry) = full {
            self.unpost(token, entry);
        }
        fit
    }

    /// No byte of a message is missing any more. True: it is a chunk of a stream that had its turn.
    pub(crate) fn on_whole_arrival(&mut self, now: Instant, slot: u32) -> bool {
        let arrival = self.bulk.arrival(slot);
        match arrival.stage {
            Stage::Arriving => self.finish_arrival(now, slot),
            Stage::Unexpected if arrival.in_overflow => self.on_overflow_whole(now, slot),
            Stage::Early | Stage::Unexpected | Stage::Claimed | Stage::Streamed => {
                return self.bulk.on_held_whole(slot);
            }
            Stage::Lapsed | Stage::Orphaned(_) => {}
        }
        false
    }

    /// A receive that is not posted takes an arrival: from the unexpected list, or claimed.
    pub(crate) fn match_arrival(
        &mut self,
        now: Instant,
        slot: u32,
        receive: u32,
        memory: &mut impl Memory,
    ) {
        if let Stage::Orphaned(reason) = self.bulk.arrival(slot).stage {
            let envelope = self.bulk.arrival(slot).envelope();
            self.bulk.receives.keep(receive);
            self.bulk.remove_arrival(slot);
            self.report_received(receive, None, envelope, 0, 0, Err(Failure::Gone(reason)));
            return;
        }
        if self.bulk.arrival(slot).in_overflow {
            self.match_overflow(now, slot, receive);
            return;
        }
        let total = self.bulk.arrival(slot).total;
        let (fit, _) = self.bulk.receives.bind(receive, total); // it is in no list
        self.fill_receive(now, slot, fit, memory);
    }

    /// A plain arrival that just left the unexpected list goes to a receive that is being posted for one message: what
    /// `match_arrival` would lead to, in one go.
    #[inline(always)]
    pub(crate) fn take_whole(
        &mut self,
        now: Instant,
        slot: u32,
        spec: &RecvSpec,
        memory: &mut impl Memory,
    ) -> ReqId {
        let req = self.bulk.receives.pass();
        let (arrival, placed_len) = self.bulk.place_plain(slot, (spec.buf, spec.len), memory);
        self.recall_rows(now);
        self.bulk.peers.events.tell(Event::Received {
            req,
            user: spec.user,
            envelope: arrival.envelope(),
            offset: 0,
            placed_len,
            result: Ok(()),
        });
        if arrival.wants_match {
            self.bulk.peers.notify_done(arrival.row, arrival.message, DONE_MATCHED, placed_len);
        }
        req
    }

    /// An arrival got its receive: what is here goes there, the rest will be placed or granted.
    pub(crate) fn fill_receive(
        &mut self,
        now: Instant,
        slot: u32,
        fit: Fit,
        memory: &mut impl Memory,
    ) {
        if self.bulk.bind(now, slot, &fit, memory) {
            self.on_whole_arrival(now, slot); // matched, so it is no chunk
        } else if !self.bulk.arrival(slot).is_large
            && let Some((row, number)) = self.number_of(slot)
        {
            self.ends.await_end(row, number);
        }
        self.recall_rows(now);
    }

    /// A message of several frames found its receive with its first record.
    pub(crate) fn start_arrival(
        &mut self,
        now: Instant,
        row: u32,
        head: &MessageHead,
        body: &[u8],
        fit: Fit,
        memory: &mut impl Memory,
    ) {
        let slot = self.bulk.begin_bound(now, row, head, &fit);
        if fit.list == List::Overflow {
            self.list_unexpected(slot);
        }
        if self.bulk.is_whole(slot) {
            self.on_whole_arrival(now, slot); // matched, so it is no chunk
            return;
        }
        if head.class != Class::Rts && fit.list == List::Priority {
            self.ends.await_end(row, self.bulk.peers.rows[row].numbers.whole(head.message));
        }
        let key = self.bulk.arrival_key(slot);
        if self.bulk.absorb(now, slot, u64::from(head.offset), body, memory) == Absorbed::Wholly {
            self.on_whole_arrival(now, slot);
        }
        self.bulk.go_on_with_bound(now, key, row, head);
    }

    /// Binds a message the peer holds back to a receive, out of turn (PROTOCOL §7.6). It will come by grants.
    pub(crate) fn start_pulled(
        &mut self,
        now: Instant,
        row: u32,
        head: &MessageHead,
        receive: u32,
    ) {
        let fit = self.take_entry(receive, head.total);
        let (slot, has_bytes) = self.bulk.begin_pulled(now, row, head, &fit);
        if has_bytes {
            // Its sender may have posted it as one that leaves unasked.
            self.ends.await_end(row, self.bulk.peers.rows[row].numbers.whole(head.message));
        } else {
            self.on_whole_arrival(now, slot); // matched, so it is no chunk
        }
    }

    /// Binds an early message to a receive, out of turn (PROTOCOL §7.6).
    pub(crate) fn match_early(
        &mut self,
        now: Instant,
        slot: u32,
        receive: u32,
        memory: &mut impl Memory,
    ) {
        let fit = self.take_entry(receive, self.bulk.arrival(slot).total);
        self.fill_receive(now, slot, fit, memory);
    }

    /// Every wanted byte is in the receive's memory.
    pub(crate) fn finish_arrival(&mut self, now: Instant, slot: u32) {
        let arrival = self.bulk.arrival(slot);
        let (row, message, envelope) = (arrival.row, arrival.message, arrival.envelope());
        let status = match (arrival.is_large, arrival.wants_match) {
            (true, _) => Some(DONE_OK),
            (false, true) => Some(DONE_MATCHED),
            (false, false) => None,
        };
        let Bound { receive, offset, cap, .. } = self.bulk.bound_of(slot);
        let of = self.number_of(slot);
        self.end_arrival(now, slot);
        self.report_received(receive, of, envelope, offset, cap, Ok(()));
        self.on_over(of);
        if let Some(status) = status {
            let is_silent = self.bulk.peers.saboteur.makes(Sabotage::CutNotTold);
            let placed_len = if is_silent { envelope.len } else { cap };
            self.bulk.peers.notify_done(row, message, status, placed_len);
        }
    }

    /// The arrival is over: removed, or remembered by number while its turn has not come.
    pub(crate) fn end_arrival(&mut self, now: Instant, slot: u32) {
        if let Some(held_id) = self.bulk.end_arrival(slot) {
            self.matcher.release(held_id);
        }
        self.recall_rows(now);
    }

    /// The row of an arrival, and its number there; `None` if that association is over, for the next one counts anew.
    pub(crate) fn number_of(&self, slot: u32) -> Option<(u32, u64)> {
        let arrival = self.bulk.arrival(slot);
        let number = || self.bulk.peers.rows[arrival.row].numbers.whole(arrival.message);
        (!arrival.is_parted).then(|| (arrival.row, number()))
    }

    /// A message is over that had this row and number, if its association lives.
    pub(crate) fn on_over(&mut self, of: Option<(u32, u64)>) {
        if let Some((row, number)) = of {
            self.ends.on_over(row, number, &mut self.bulk.peers.events);
        }
    }

    /// Tells the application that a receive took a message: that of this row and number, if its association lives.
    #[inline]
    pub(crate) fn report_received(
        &mut self,
        slot: u32,
        of: Option<(u32, u64)>,
        envelope: Envelope,
        offset: u64,
        placed_len: u64,
        result: Result<(), Failure>,
    ) {
        let Unbound { req, user, is_over, .. } = self.bulk.receives.unbind(slot);
        let event = Event::Received { req, user, envelope, offset, placed_len, result };
        let events = &mut self.bulk.peers.events;
        match of {
            Some((row, number))
                if is_over && !self.bulk.peers.saboteur.makes(Sabotage::EndsOutOfOrder) =>
            {
                self.ends.on_end(row, number, event, events);
            }
            _ => events.tell(event),
        }
        if !is_over {
            self.end_if_done(slot);
        }
    }

    /// An entry used many times ends when it is full and nothing arrives into it any more.
    pub(crate) fn end_if_done(&mut self, slot: u32) {
        if let Some((req, Receive { user, source, .. })) = self.bulk.receives.take_if_done(slot) {
            self.bulk.peers.events.tell(Event::Unlinked { req, user, source, failure: None });
        }
    }

    #[inline]
    pub(crate) fn place(
        &mut self,
        memory: &mut impl Memory,
        receive: u32,
        offset: u64,
        bytes: &[u8],
    ) {
        let buf = self.bulk.receives[receive].buf;
        let len = bytes.len()
            - usize::from(
                self.bulk.peers.saboteur.makes(Sabotage::TruncatedCopy) && !bytes.is_empty(),
            );
        self.bulk.peers.counters.bytes_placed += len as u64;
        memory.place(Place { buf, offset }, &bytes[..len]);
    }
}
