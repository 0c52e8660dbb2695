//! A message and its receive have found each other: bytes go where they belong, and an end is told.
//!
//! PROTOCOL §8.1, §8.6, §8.7, §9. What is here already is placed, what is missing is awaited (eager) or granted (large). Every
//! byte counts once, whatever record brings it.

use crate::base::api::{Envelope, Event, Failure, List, RecvSpec, Use, Verdict};
use crate::base::gaps::GapSet;
use crate::base::sabotage::Sabotage;
use crate::base::slab::NONE;
use crate::base::types::{Instant, Memory, Place, ReqId};
use crate::bulk::arrival::{Arrival, Fit, GAP_COUNT_MAX, Progress, Stage, number_key};
use crate::delivery::ack::expand;
use crate::endpoint::Endpoint;
use crate::matching::EntryId;
use crate::wire::{DONE_MATCHED, DONE_OK, Lane, MessageHead};

impl Endpoint {
    /// An entry matched: reserves the place of one message in it and unlinks it when it is used up.
    #[inline]
    pub(crate) fn take_entry(&mut self, entry: EntryId, token: u32, total: u64) -> Fit {
        let receive = &mut self.receives[token];
        let offset = receive.offset;
        let cap = if receive.header_only { 0 } else { total.min(receive.len - offset) };
        receive.in_use_count += 1;
        let list = receive.list;
        if let Use::Many { .. } = receive.uses {
            receive.offset += cap;
        }
        if receive.is_full() {
            receive.entry = None;
            self.unpost(token, entry);
        }
        Fit { receive: token, offset, cap, list }
    }

    /// Takes bytes of a message under way. Bytes that are there already, or not wanted, are ignored.
    pub(crate) fn absorb(
        &mut self,
        now: Instant,
        slot: u32,
        offset: u64,
        body: &[u8],
        memory: &mut impl Memory,
    ) -> Verdict {
        let arrival = &self.arrivals[slot];
        let (hold, index) = (arrival.hold, arrival.progress);
        let progress = &mut self.progress[index];
        if progress.gaps.gap_count() >= GAP_COUNT_MAX
            && progress.gaps.first_gap().is_none_or(|gap| gap.0 != offset)
        {
            return Verdict::Refused; // no honest sender is here; an honest one would send it again
        }
        let limit = if progress.receive == NONE && hold != NONE {
            self.held.bytes(hold).len() as u64
        } else {
            progress.cap
        };
        let end = (offset + body.len() as u64).min(limit);
        let target = (progress.receive != NONE)
            .then(|| (self.receives[progress.receive].buf, progress.offset));
        if target.is_none() && hold == NONE {
            return Verdict::Accepted; // announced without room for first bytes: they will be granted
        }
        let held = &mut self.held;
        let (granted_to, mut granted_len) = (progress.granted_to, 0);
        let mut new = |from: u64, to: u64| {
            granted_len += to.min(granted_to).saturating_sub(from);
            let bytes = &body[(from - offset) as usize..(to - offset) as usize];
            match target {
                Some((buf, base)) => memory.place(Place { buf, offset: base + from }, bytes),
                None => held.bytes_mut(hold)[from as usize..to as usize].copy_from_slice(bytes),
            }
        };
        let new_len = if offset < end { progress.gaps.fill(offset, end, &mut new) } else { 0 };
        if new_len > 0 {
            progress.progressed_at = now;
            if target.is_some() {
                self.counters.bytes_placed += new_len; // held bytes are placed later
            }
            self.grants.on_arrived(slot, granted_len);
        }
        if self.progress[index].gaps.is_empty() {
            self.on_whole(now, slot);
        }
        Verdict::Accepted
    }

    /// No byte is missing any more.
    pub(crate) fn on_whole(&mut self, now: Instant, slot: u32) {
        let arrival = &self.arrivals[slot];
        match arrival.stage {
            Stage::Arriving => self.finish_arrival(now, slot),
            Stage::Unexpected if arrival.in_overflow => self.on_overflow_whole(now, slot),
            Stage::Early | Stage::Unexpected | Stage::Claimed | Stage::Streamed => {
                if !arrival.is_large {
                    let index = core::mem::replace(&mut self.arrivals[slot].progress, NONE);
                    self.progress.remove(index);
                    if self.arrivals[slot].stage != Stage::Early {
                        self.unmap(slot);
                    }
                    if self.arrivals[slot].stage == Stage::Streamed {
                        self.on_chunk_whole(slot);
                    }
                }
            }
            Stage::Lapsed | Stage::Orphaned(_) => {}
        }
    }

    /// A receive that is not posted takes an arrival: from the unexpected list, or claimed.
    pub(crate) fn match_arrival(
        &mut self,
        now: Instant,
        slot: u32,
        receive: u32,
        memory: &mut impl Memory,
    ) {
        if let Stage::Orphaned(reason) = self.arrivals[slot].stage {
            let envelope = self.arrivals[slot].envelope();
            self.receives[receive].in_use_count += 1;
            self.remove_arrival(slot);
            self.report_received(receive, envelope, 0, 0, Err(Failure::Gone(reason)));
            return;
        }
        if self.arrivals[slot].in_overflow {
            self.match_overflow(now, slot, receive);
            return;
        }
        let this = &mut self.receives[receive];
        let offset = this.offset;
        let cap =
            if this.header_only { 0 } else { self.arrivals[slot].total.min(this.len - offset) };
        this.in_use_count += 1;
        if let Use::Many { .. } = this.uses {
            this.offset += cap;
        }
        let list = this.list;
        self.fill_receive(now, slot, Fit { receive, offset, cap, list }, memory);
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
        let req = ReqId(self.receives.pass_key());
        self.uncharge(slot);
        let arrival = self.extract_arrival(slot);
        let placed_len = arrival.total.min(spec.len);
        if arrival.hold != NONE {
            if placed_len > 0 {
                let bytes = &self.held.bytes(arrival.hold)[..placed_len as usize];
                memory.place(Place { buf: spec.buf, offset: 0 }, bytes);
                self.counters.bytes_placed += placed_len;
            }
            self.held.release(arrival.hold);
        }
        self.recall_rows(now);
        self.events.push_back(Event::Received {
            req,
            user: spec.user,
            envelope: arrival.envelope(),
            offset: 0,
            placed_len,
            result: Ok(()),
        });
        if arrival.wants_match {
            self.notify_done(arrival.row, arrival.message, DONE_MATCHED, placed_len);
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
        let arrival = &mut self.arrivals[slot];
        arrival.stage = Stage::Arriving;
        let (hold, index) = (core::mem::replace(&mut arrival.hold, NONE), arrival.progress);
        let buf = self.receives[fit.receive].buf;
        if hold != NONE {
            let bytes = self.held.bytes(hold);
            let end = (bytes.len() as u64).min(fit.cap);
            let mut from = 0;
            let gaps = (index != NONE).then(|| &self.progress[index].gaps);
            let past_the_end = core::iter::once((end, end));
            for (gap_start, gap_end) in gaps.iter().flat_map(|gaps| gaps.iter()).chain(past_the_end)
            {
                let to = gap_start.min(end);
                if from < to {
                    memory.place(
                        Place { buf, offset: fit.offset + from },
                        &bytes[from as usize..to as usize],
                    );
                    self.counters.bytes_placed += to - from;
                }
                from = from.max(gap_end);
            }
            self.held.release(hold);
        }
        self.uncharge(slot);
        if index == NONE {
            let progress = Progress::held(GapSet::default(), 0, now);
            self.arrivals[slot].progress = self.progress.insert(progress);
        }
        self.aim(now, slot, &fit);
        self.recall_rows(now);
    }

    /// Directs an arrival's missing bytes to its receive.
    pub(crate) fn aim(&mut self, now: Instant, slot: u32, fit: &Fit) {
        let total = self.arrivals[slot].total;
        let progress = &mut self.progress[self.arrivals[slot].progress];
        progress.receive = fit.receive;
        progress.offset = fit.offset;
        progress.cap = fit.cap;
        progress.progressed_at = now;
        progress.gaps.fill(fit.cap, total, &mut |_, _| ());
        if progress.gaps.is_empty() {
            self.on_whole(now, slot);
        } else if self.arrivals[slot].is_large {
            let ahead_to = progress.ahead_to;
            self.start_grants(now, slot, ahead_to);
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
        let mut arrival = Arrival::new(self.rows[row].peer, head, Stage::Arriving);
        if arrival.is_large {
            self.counters.rendezvous_in += 1;
        }
        let in_overflow = fit.list == List::Overflow;
        if in_overflow {
            arrival.stage = Stage::Unexpected;
            arrival.in_overflow = true;
            arrival.charged = true;
            self.envelope_count += 1;
        }
        let progress = Progress {
            receive: fit.receive,
            offset: fit.offset,
            cap: fit.cap,
            told: self.told.take(),
            ..Progress::held(GapSet::whole(fit.cap), fit.cap, now)
        };
        arrival.progress = self.progress.insert(progress);
        let slot = self.insert_arrival(arrival);
        self.map(slot);
        if in_overflow {
            self.list_unexpected(slot);
        }
        if self.progress[self.arrivals[slot].progress].gaps.is_empty() {
            self.on_whole(now, slot);
            return;
        }
        let serial = self.arrivals.serial(slot);
        self.absorb(now, slot, u64::from(head.offset), body, memory);
        if self.arrivals.holds(slot, serial) {
            let arrival = &self.arrivals[slot];
            if arrival.is_large && !self.progress[arrival.progress].gaps.is_empty() {
                self.start_grants(now, slot, self.taken_ahead(row, head));
            }
        }
    }

    /// Binds a message the peer holds back to a receive, out of turn (PROTOCOL §7.6). It will come by grants.
    pub(crate) fn start_pulled(
        &mut self,
        now: Instant,
        row: u32,
        head: &MessageHead,
        entry: EntryId,
        receive: u32,
    ) {
        let fit = self.take_entry(entry, receive, head.total);
        let progress = Progress {
            receive: fit.receive,
            offset: fit.offset,
            cap: fit.cap,
            ..Progress::held(GapSet::whole(fit.cap), fit.cap, now)
        };
        let mut arrival = Arrival::new(self.rows[row].peer, head, Stage::Arriving);
        arrival.is_large = true;
        arrival.progress = self.progress.insert(progress);
        let slot = self.insert_arrival(arrival);
        self.map(slot);
        if fit.cap == 0 {
            self.on_whole(now, slot);
        } else {
            self.start_grants(now, slot, 0);
        }
    }

    /// Binds an early message to a receive, out of turn (PROTOCOL §7.6).
    pub(crate) fn match_early(
        &mut self,
        now: Instant,
        slot: u32,
        entry: EntryId,
        receive: u32,
        memory: &mut impl Memory,
    ) {
        let fit = self.take_entry(entry, receive, self.arrivals[slot].total);
        self.fill_receive(now, slot, fit, memory);
    }

    /// Every wanted byte is in the receive's memory.
    pub(crate) fn finish_arrival(&mut self, now: Instant, slot: u32) {
        let arrival = &self.arrivals[slot];
        if arrival.lane != Lane::Message {
            return self.finish_transfer(slot);
        }
        let (row, message, envelope) = (arrival.row, arrival.message, arrival.envelope());
        let status = match (arrival.is_large, arrival.wants_match) {
            (true, _) => Some(DONE_OK),
            (false, true) => Some(DONE_MATCHED),
            (false, false) => None,
        };
        let progress = &self.progress[arrival.progress];
        let (receive, offset, cap) = (progress.receive, progress.offset, progress.cap);
        self.end_arrival(now, slot);
        self.report_received(receive, envelope, offset, cap, Ok(()));
        if let Some(status) = status {
            let is_silent = self.saboteur.makes(Sabotage::CutNotTold);
            let placed_len = if is_silent { envelope.len } else { cap };
            self.notify_done(row, message, status, placed_len);
        }
    }

    /// The arrival is over: removed, or remembered by number while its turn has not come.
    pub(crate) fn end_arrival(&mut self, now: Instant, slot: u32) {
        self.stop_grants(slot);
        self.take_held(slot);
        let arrival = &mut self.arrivals[slot];
        let (hold, progress) = (arrival.hold, arrival.progress);
        (arrival.hold, arrival.progress) = (NONE, NONE);
        if hold != NONE {
            self.held.release(hold);
        }
        if progress != NONE {
            self.progress.remove(progress);
        }
        self.uncharge(slot);
        let (row, message) = (self.arrivals[slot].row, self.arrivals[slot].message);
        let message_in = self.rows[row].message_in;
        if expand(message, message_in) >= message_in
            && self.by_number.get(&number_key(row, message)) == Some(&slot)
        {
            // Ahead of its turn: its number must not be taken for new when the turn comes.
            self.arrivals[slot].stage = Stage::Lapsed;
        } else {
            self.remove_arrival(slot);
        }
        self.recall_rows(now);
    }

    pub(crate) fn uncharge(&mut self, slot: u32) {
        if self.arrivals[slot].charged && !self.saboteur.makes(Sabotage::CreditNeverReturned) {
            self.arrivals[slot].charged = false;
            self.envelope_count -= 1;
        }
    }

    /// Every arrival comes by this way and goes by the next: as long as there are any its row stays known.
    #[inline(always)]
    pub(crate) fn insert_arrival(&mut self, arrival: Arrival) -> u32 {
        self.rows[arrival.row].kept_count += 1;
        self.arrivals.insert(arrival)
    }

    #[inline(always)]
    pub(crate) fn extract_arrival(&mut self, slot: u32) -> Arrival {
        let arrival = self.arrivals.remove(slot);
        self.rows[arrival.row].kept_count -= 1;
        arrival
    }

    pub(crate) fn remove_arrival(&mut self, slot: u32) {
        self.unmap(slot);
        self.uncharge(slot);
        let arrival = self.extract_arrival(slot);
        if arrival.hold != NONE {
            self.held.release(arrival.hold);
        }
        if arrival.progress != NONE {
            self.progress.remove(arrival.progress);
        }
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
        let req = ReqId(self.receives.key(slot));
        let receive = &mut self.receives[slot];
        receive.in_use_count -= 1;
        let user = receive.user;
        self.events.push_back(Event::Received { req, user, envelope, offset, placed_len, result });
        if receive.uses == Use::Once {
            self.receives.remove(slot);
        } else {
            self.end_if_done(slot);
        }
    }

    /// An entry used many times ends when it is full and nothing arrives into it any more.
    pub(crate) fn end_if_done(&mut self, slot: u32) {
        let receive = &self.receives[slot];
        if receive.entry.is_none() && receive.in_use_count == 0 && receive.is_full() {
            let req = ReqId(self.receives.key(slot));
            let receive = self.receives.remove(slot);
            let (user, source) = (receive.user, receive.source);
            self.events.push_back(Event::Unlinked { req, user, source, failure: None });
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
        let buf = self.receives[receive].buf;
        let len = bytes.len()
            - usize::from(self.saboteur.makes(Sabotage::TruncatedCopy) && !bytes.is_empty());
        self.counters.bytes_placed += len as u64;
        memory.place(Place { buf, offset }, &bytes[..len]);
    }
}
