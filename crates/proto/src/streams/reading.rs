//! Streams as their reader sees them: news, what is next, what was read, and that he wants no more.

use super::*;
use crate::messages::Messages;
use crate::streams::Streams;

impl Streams {
    pub(crate) fn poll_ready_stream(&mut self) -> Option<(StreamId, StreamInfo)> {
        while let Some(key) = self.ready.pop_front() {
            if let Some(slot) = self.inbound.lookup(key) {
                let this = &mut self.inbound[slot];
                this.is_ready = false;
                if !this.is_closed {
                    let info = StreamInfo { source: this.source, handler: this.handler };
                    return Some((StreamId(key), info));
                }
            }
        }
        None
    }

    #[inline]
    pub(crate) fn has_ready_stream(&self) -> bool {
        self.ready.front().is_some()
    }

    pub(crate) fn defer_stream(&mut self, id: StreamId) {
        if let Some(slot) = self.inbound.lookup(id.0) {
            self.make_ready(slot);
        }
    }

    pub(crate) fn stream_front<'a>(
        &mut self,
        messages: &'a mut Messages,
        now: Instant,
        id: StreamId,
    ) -> StreamFront<'a> {
        let Some(slot) = self.inbound.lookup(id.0) else { return StreamFront::Void };
        self.adopt_front(messages, now, slot);
        let first = self.chunks.get(self.inbound[slot].first);
        let first = first.filter(|_| self.inbound[slot].handed_cost == 0);
        if let Some(told) = first.map(|chunk| chunk.told).filter(|&told| told != NONE) {
            match self.told_front(messages, told) {
                Some(front) => return StreamFront::Told(front),
                None => self.adopt_front(messages, now, slot),
            }
        }
        let this = &self.inbound[slot];
        if this.handed_cost > 0 {
            return StreamFront::Empty; // somebody has what is next, and it is not said yet how much of it he reads
        }
        if let Some(chunk) = self.chunks.get(this.first) {
            if chunk.arrival != NONE {
                return StreamFront::Empty; // fragments of it are missing
            }
            let (from, bytes) = (chunk.from as usize, messages.bulk.held.bytes(chunk.hold));
            let packet_end = (from / PACKET_LEN + 1) * PACKET_LEN;
            let bytes = &bytes[from..packet_end.min(bytes.len())];
            return StreamFront::Bytes { bytes, is_fresh: from.is_multiple_of(PACKET_LEN) };
        }
        match this.finish {
            Finish::Open => StreamFront::Empty,
            Finish::Ended => StreamFront::End,
            Finish::Broken(why) => StreamFront::Broken(why),
        }
    }

    /// The first chunk, if it was an arrival and is whole now, becomes an ordinary one; empty ones are passed over.
    pub(super) fn adopt_front(&mut self, messages: &mut Messages, now: Instant, slot: u32) {
        while let Some(chunk) = self.chunks.get(self.inbound[slot].first) {
            let (arrival, serial) = (chunk.arrival, chunk.arrival_serial);
            if arrival == NONE {
                if chunk.hold != NONE || chunk.told != NONE {
                    return;
                }
                self.drop_front(messages, now, slot); // it was told of, and is sent anew
                continue;
            }
            if !messages.bulk.still_holds(arrival, serial) {
                // It vanished with its association, and what came behind it has no place.
                self.drop_chunks(messages, now, slot);
                let this = &mut self.inbound[slot];
                if !matches!(this.finish, Finish::Broken(_)) {
                    this.finish = Finish::Broken(StreamBreak::Gone(None));
                }
                return;
            }
            if !messages.bulk.arrival(arrival).is_here()
                || !self.adopt(messages, now, slot, arrival)
            {
                return;
            }
        }
    }

    /// The first chunk takes the bytes of its arrival. True: there were none, it is gone.
    pub(super) fn adopt(
        &mut self,
        messages: &mut Messages,
        now: Instant,
        slot: u32,
        arrival: u32,
    ) -> bool {
        let hold = messages.bulk.adopt_chunk(arrival);
        let index = self.inbound[slot].first;
        let chunk = &mut self.chunks[index];
        (chunk.hold, chunk.arrival) = (hold, NONE);
        let len = if hold == NONE { 0 } else { messages.bulk.held.bytes(hold).len() };
        messages.bulk.peers.counters.stream_bytes_held += len as u64;
        if len == 0 {
            self.drop_front(messages, now, slot);
        }
        len == 0
    }

    pub(crate) fn consume_stream(
        &mut self,
        messages: &mut Messages,
        now: Instant,
        id: StreamId,
        len: usize,
    ) {
        let Some(slot) = self.inbound.lookup(id.0) else { return };
        if self.inbound[slot].handed_cost > 0 {
            return;
        }
        let index = self.inbound[slot].first;
        let Some(chunk) = self.chunks.get_mut(index) else { return };
        if chunk.arrival != NONE {
            return;
        }
        if chunk.told != NONE {
            let told = chunk.told;
            if self.consume_told(messages, told, len as u64) {
                self.drop_front(messages, now, slot);
            }
            return;
        }
        chunk.from += len as u32;
        if chunk.hold == NONE || chunk.from as usize >= messages.bulk.held.bytes(chunk.hold).len() {
            self.drop_front(messages, now, slot);
        }
    }

    pub(super) fn drop_front(&mut self, messages: &mut Messages, now: Instant, slot: u32) {
        let this = &mut self.inbound[slot];
        let (row, association) = (this.row, this.association);
        let chunk = self.chunks.remove(this.first);
        this.first = chunk.next;
        if chunk.next == NONE {
            this.last = NONE;
        }
        if chunk.arrival == NONE {
            messages.bulk.held.forget(chunk.hold);
        } else if messages.bulk.still_holds(chunk.arrival, chunk.arrival_serial) {
            messages.end_arrival(now, chunk.arrival);
        }
        // Not for what is left of an association that is over: the next one counts anew.
        let is_same = is_same(messages, row, association);
        if chunk.told != NONE {
            self.drop_told(messages, chunk.told, is_same);
        }
        if is_same {
            self.give_credit(messages, row, u64::from(chunk.cost));
        }
        messages.recall_rows(now);
    }

    pub(super) fn drop_chunks(&mut self, messages: &mut Messages, now: Instant, slot: u32) {
        while self.inbound[slot].first != NONE {
            self.drop_front(messages, now, slot);
        }
    }

    /// Whoever was handed the first chunk of a stream has read all of it but this rest, which is held as if it had not been handed over.
    pub(crate) fn keep_handed(&mut self, messages: &mut Messages, id: StreamId, rest: &[u8]) {
        let Some(slot) = self.inbound.lookup(id.0) else { return };
        let this = &mut self.inbound[slot];
        let (row, association) = (this.row, this.association);
        let cost = core::mem::take(&mut this.handed_cost);
        if cost > 0 && !rest.is_empty() && !this.is_closed {
            // There was room for it, and if others have taken that since, nobody sends it again.
            messages.bulk.held.set_takes_all(true);
            let hold = messages.bulk.hold_rest(rest.len(), 0, core::iter::once(rest));
            messages.bulk.held.set_takes_all(false);
            messages.bulk.peers.counters.stream_bytes_lent -= rest.len() as u64;
            if is_same(messages, row, association) {
                self.peer(row).consumed_cost -= u64::from(cost);
            }
            self.push_front(slot, hold.expect("it was made"), cost);
        }
        let this = &self.inbound[slot];
        if this.is_waiting && (this.first != NONE || this.finish != Finish::Open) {
            self.make_ready(slot);
        }
    }

    fn push_front(&mut self, slot: u32, hold: u32, cost: u32) {
        let (arrival, arrival_serial, told, from) = (NONE, 0, NONE, 0);
        let next = self.inbound[slot].first;
        let chunk = Chunk { hold, arrival, arrival_serial, told, from, cost, next };
        let index = self.chunks.insert(chunk);
        let this = &mut self.inbound[slot];
        this.first = index;
        if next == NONE {
            this.last = index;
        }
    }

    pub(crate) fn await_stream(&mut self, id: StreamId) {
        if let Some(slot) = self.inbound.lookup(id.0) {
            self.inbound[slot].is_waiting = true;
        }
    }

    #[inline]
    pub(crate) fn has_told(&self) -> bool {
        self.told.len() > 0
    }

    pub(crate) fn decline_front_of(&mut self, messages: &mut Messages, id: StreamId) {
        if let Some(slot) = self.inbound.lookup(id.0) {
            self.decline_front(messages, slot);
        }
    }

    pub(crate) fn close_stream(&mut self, messages: &mut Messages, now: Instant, id: StreamId) {
        let Some(slot) = self.inbound.lookup(id.0) else { return };
        self.drop_chunks(messages, now, slot);
        let this = &mut self.inbound[slot];
        if this.finish == Finish::Open {
            this.is_closed = true;
            this.is_waiting = false;
        } else {
            self.inbound.remove(slot);
        }
    }
}

/// Whether this association with a peer lives.
fn is_same(messages: &Messages, row: u32, association: u64) -> bool {
    let is_same = |row: &Row| row.lives_as(association);
    messages.bulk.peers.rows.get(row).is_some_and(is_same)
}
