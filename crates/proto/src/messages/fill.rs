//! A message and its receive have found each other: bytes go where they belong, and an end is told.
//!
//! PROTOCOL §8.1, §8.6, §8.7, §9. What is here already is placed, what is missing is awaited (eager) or granted (large). Every
//! byte counts once, whatever record brings it.

use crate::base::api::{Envelope, Event, Failure, List, RecvSpec};
use crate::base::gaps::GapSet;
use crate::base::sabotage::Sabotage;
use crate::base::slab::NONE;
use crate::base::types::{Instant, Memory, Place, ReqId};
use crate::bulk::arrival::{Arrival, Progress, Stage, number_key};
use crate::bulk::filling::Absorbed;
use crate::bulk::receives::{Fit, Receive, Unbound};
use crate::delivery::ack::expand;
use crate::messages::Messages;
use crate::wire::{DONE_MATCHED, DONE_OK, MessageHead};

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
        let arrival = &self.bulk.arrivals[slot];
        match arrival.stage {
            Stage::Arriving => self.finish_arrival(now, slot),
            Stage::Unexpected if arrival.in_overflow => self.on_overflow_whole(now, slot),
            Stage::Early | Stage::Unexpected | Stage::Claimed | Stage::Streamed => {
                if !arrival.is_large {
                    let index = core::mem::replace(&mut self.bulk.arrivals[slot].progress, NONE);
                    self.bulk.progress.remove(index);
                    if self.bulk.arrivals[slot].stage != Stage::Early {
                        self.bulk.unmap(slot);
                    }
                    return self.bulk.arrivals[slot].stage == Stage::Streamed;
                }
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
        if let Stage::Orphaned(reason) = self.bulk.arrivals[slot].stage {
            let envelope = self.bulk.arrivals[slot].envelope();
            self.bulk.receives.keep(receive);
            self.bulk.remove_arrival(slot);
            self.report_received(receive, envelope, 0, 0, Err(Failure::Gone(reason)));
            return;
        }
        if self.bulk.arrivals[slot].in_overflow {
            self.match_overflow(now, slot, receive);
            return;
        }
        let total = self.bulk.arrivals[slot].total;
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
        self.bulk.uncharge(slot);
        let arrival = self.bulk.extract_arrival(slot);
        let placed_len = arrival.total.min(spec.len);
        if arrival.hold != NONE {
            if placed_len > 0 {
                let bytes = &self.bulk.held.bytes(arrival.hold)[..placed_len as usize];
                memory.place(Place { buf: spec.buf, offset: 0 }, bytes);
                self.bulk.peers.counters.bytes_placed += placed_len;
            }
            self.bulk.held.release(arrival.hold);
        }
        self.recall_rows(now);
        self.bulk.peers.events.push_back(Event::Received {
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
        let arrival = &mut self.bulk.arrivals[slot];
        arrival.stage = Stage::Arriving;
        let (hold, index) = (core::mem::replace(&mut arrival.hold, NONE), arrival.progress);
        let buf = self.bulk.receives[fit.receive].buf;
        if hold != NONE {
            let bytes = self.bulk.held.bytes(hold);
            let end = (bytes.len() as u64).min(fit.cap);
            let mut from = 0;
            let gaps = (index != NONE).then(|| &self.bulk.progress[index].gaps);
            let past_the_end = core::iter::once((end, end));
            for (gap_start, gap_end) in gaps.iter().flat_map(|gaps| gaps.iter()).chain(past_the_end)
            {
                let to = gap_start.min(end);
                if from < to {
                    memory.place(
                        Place { buf, offset: fit.offset + from },
                        &bytes[from as usize..to as usize],
                    );
                    self.bulk.peers.counters.bytes_placed += to - from;
                }
                from = from.max(gap_end);
            }
            self.bulk.held.release(hold);
        }
        self.bulk.uncharge(slot);
        if index == NONE {
            let progress = Progress::held(GapSet::default(), 0, now);
            self.bulk.arrivals[slot].progress = self.bulk.progress.insert(progress);
        }
        self.aim(now, slot, &fit);
        self.recall_rows(now);
    }

    /// Directs an arrival's missing bytes to its receive.
    pub(crate) fn aim(&mut self, now: Instant, slot: u32, fit: &Fit) {
        let total = self.bulk.arrivals[slot].total;
        let progress = &mut self.bulk.progress[self.bulk.arrivals[slot].progress];
        progress.receive = fit.receive;
        progress.offset = fit.offset;
        progress.cap = fit.cap;
        progress.progressed_at = now;
        progress.gaps.fill(fit.cap, total, &mut |_, _| ());
        if progress.gaps.is_empty() {
            self.on_whole_arrival(now, slot); // matched, so it is no chunk
        } else if self.bulk.arrivals[slot].is_large {
            let ahead_to = progress.ahead_to;
            self.bulk.start_grants(now, slot, ahead_to);
        }
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
        let mut arrival = Arrival::new(self.bulk.peers.rows[row].peer, head, Stage::Arriving);
        if arrival.is_large {
            self.bulk.peers.counters.rendezvous_in += 1;
        }
        let in_overflow = fit.list == List::Overflow;
        if in_overflow {
            arrival.stage = Stage::Unexpected;
            arrival.in_overflow = true;
            arrival.charged = true;
            self.bulk.held.charge(&mut self.bulk.peers.counters);
        }
        let progress = Progress {
            receive: fit.receive,
            offset: fit.offset,
            cap: fit.cap,
            told: self.bulk.told.take(),
            ..Progress::held(GapSet::whole(fit.cap), fit.cap, now)
        };
        arrival.progress = self.bulk.progress.insert(progress);
        let slot = self.bulk.insert_arrival(arrival);
        self.bulk.map(slot);
        if in_overflow {
            self.list_unexpected(slot);
        }
        if self.bulk.progress[self.bulk.arrivals[slot].progress].gaps.is_empty() {
            self.on_whole_arrival(now, slot); // matched, so it is no chunk
            return;
        }
        let serial = self.bulk.arrivals.serial(slot);
        if self.bulk.absorb(now, slot, u64::from(head.offset), body, memory) == Absorbed::Wholly {
            self.on_whole_arrival(now, slot);
        }
        if self.bulk.arrivals.holds(slot, serial) {
            let arrival = &self.bulk.arrivals[slot];
            if arrival.is_large && !self.bulk.progress[arrival.progress].gaps.is_empty() {
                self.bulk.start_grants(now, slot, self.bulk.taken_ahead(row, head));
            }
        }
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
        let progress = Progress {
            receive: fit.receive,
            offset: fit.offset,
            cap: fit.cap,
            ..Progress::held(GapSet::whole(fit.cap), fit.cap, now)
        };
        let mut arrival = Arrival::new(self.bulk.peers.rows[row].peer, head, Stage::Arriving);
        arrival.is_large = true;
        arrival.progress = self.bulk.progress.insert(progress);
        let slot = self.bulk.insert_arrival(arrival);
        self.bulk.map(slot);
        if fit.cap == 0 {
            self.on_whole_arrival(now, slot); // matched, so it is no chunk
        } else {
            self.bulk.start_grants(now, slot, 0);
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
        let fit = self.take_entry(receive, self.bulk.arrivals[slot].total);
        self.fill_receive(now, slot, fit, memory);
    }

    /// Every wanted byte is in the receive's memory.
    pub(crate) fn finish_arrival(&mut self, now: Instant, slot: u32) {
        let arrival = &self.bulk.arrivals[slot];
        let (row, message, envelope) = (arrival.row, arrival.message, arrival.envelope());
        let status = match (arrival.is_large, arrival.wants_match) {
            (true, _) => Some(DONE_OK),
            (false, true) => Some(DONE_MATCHED),
            (false, false) => None,
        };
        let progress = &self.bulk.progress[arrival.progress];
        let (receive, offset, cap) = (progress.receive, progress.offset, progress.cap);
        self.end_arrival(now, slot);
        self.report_received(receive, envelope, offset, cap, Ok(()));
        if let Some(status) = status {
            let is_silent = self.bulk.peers.saboteur.makes(Sabotage::CutNotTold);
            let placed_len = if is_silent { envelope.len } else { cap };
            self.bulk.peers.notify_done(row, message, status, placed_len);
        }
    }

    /// The arrival is over: removed, or remembered by number while its turn has not come.
    pub(crate) fn end_arrival(&mut self, now: Instant, slot: u32) {
        self.bulk.stop_grants(slot);
        self.take_held(slot);
        let arrival = &mut self.bulk.arrivals[slot];
        let (hold, progress) = (arrival.hold, arrival.progress);
        (arrival.hold, arrival.progress) = (NONE, NONE);
        if hold != NONE {
            self.bulk.held.release(hold);
        }
        if progress != NONE {
            self.bulk.progress.remove(progress);
        }
        self.bulk.uncharge(slot);
        let (row, message) = (self.bulk.arrivals[slot].row, self.bulk.arrivals[slot].message);
        let message_in = self.bulk.peers.rows[row].numbers.next_in;
        if expand(message, message_in) >= message_in
            && self.bulk.by_number.get(&number_key(row, message)) == Some(&slot)
        {
            // Ahead of its turn: its number must not be taken for new when the turn comes.
            self.bulk.arrivals[slot].stage = Stage::Lapsed;
        } else {
            self.bulk.remove_arrival(slot);
        }
        self.recall_rows(now);
    }

    /// Tells the application that a receive took a message.
    #[inline]
    pub(crate) fn report_received(
        &mut self,
        slot: u32,
        envelope: Envelope,
        offset: u64,
        placed_len: u64,
        result: Result<(), Failure>,
    ) {
        let Unbound { req, user, is_over, .. } = self.bulk.receives.unbind(slot);
        self.bulk.peers.events.push_back(Event::Received {
            req,
            user,
            envelope,
            offset,
            placed_len,
            result,
        });
        if !is_over {
            self.end_if_done(slot);
        }
    }

    /// An entry used many times ends when it is full and nothing arrives into it any more.
    pub(crate) fn end_if_done(&mut self, slot: u32) {
        if let Some((req, Receive { user, source, .. })) = self.bulk.receives.take_if_done(slot) {
            self.bulk.peers.events.push_back(Event::Unlinked { req, user, source, failure: None });
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
