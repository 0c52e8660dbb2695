//! Streams as their reader sees them: news, what is next, what was read, and that he wants no more.

use super::*;

impl Endpoint {
    /// A stream with news: it is new, or more of it is here, or it ended. Each is shown once, until there are more news.
    pub fn poll_ready_stream(&mut self) -> Option<(StreamId, StreamInfo)> {
        while let Some(key) = self.streams.ready.pop_front() {
            if let Some(slot) = self.streams.inbound.lookup(key) {
                let this = &mut self.streams.inbound[slot];
                this.is_ready = false;
                if !this.is_closed {
                    let info = StreamInfo { source: this.source, handler: this.handler };
                    return Some((StreamId(key), info));
                }
            }
        }
        None
    }

    /// Whether `poll_ready_stream` may have something to show.
    #[inline]
    pub fn has_ready_stream(&self) -> bool {
        self.streams.ready.front().is_some()
    }

    /// Shows a stream again at the next `poll_ready_stream`: its reader stopped before he had all.
    pub fn defer_stream(&mut self, id: StreamId) {
        if let Some(slot) = self.streams.inbound.lookup(id.0) {
            self.streams.make_ready(slot);
        }
    }

    /// What is next in a stream.
    pub fn stream_front(&mut self, now: Instant, id: StreamId) -> StreamFront<'_> {
        let Some(slot) = self.streams.inbound.lookup(id.0) else { return StreamFront::Void };
        self.adopt_front(now, slot);
        let this = &self.streams.inbound[slot];
        if let Some(chunk) = self.streams.chunks.get(this.first) {
            if chunk.arrival != NONE {
                return StreamFront::Empty; // fragments of it are missing
            }
            let (from, bytes) = (chunk.from as usize, self.held.bytes(chunk.hold));
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
    pub(super) fn adopt_front(&mut self, now: Instant, slot: u32) {
        while let Some(chunk) = self.streams.chunks.get(self.streams.inbound[slot].first) {
            let (arrival, serial) = (chunk.arrival, chunk.arrival_serial);
            if arrival == NONE {
                return;
            }
            if !self.arrivals.holds(arrival, serial) {
                // It vanished with its association, and what came behind it has no place.
                self.drop_chunks(now, slot);
                let this = &mut self.streams.inbound[slot];
                if !matches!(this.finish, Finish::Broken(_)) {
                    this.finish = Finish::Broken(StreamBreak::Gone(None));
                }
                return;
            }
            if self.arrivals[arrival].progress != NONE || !self.adopt(now, slot, arrival) {
                return;
            }
        }
    }

    /// The first chunk takes the bytes of its arrival. True: there were none, it is gone.
    pub(super) fn adopt(&mut self, now: Instant, slot: u32, arrival: u32) -> bool {
        let hold = core::mem::replace(&mut self.arrivals[arrival].hold, NONE);
        self.remove_arrival(arrival);
        self.charge_chunk();
        let index = self.streams.inbound[slot].first;
        let chunk = &mut self.streams.chunks[index];
        (chunk.hold, chunk.arrival) = (hold, NONE);
        let len = if hold == NONE { 0 } else { self.held.bytes(hold).len() };
        self.counters.stream_bytes_held += len as u64;
        if len == 0 {
            self.drop_front(now, slot);
        }
        len == 0
    }

    /// So many of the bytes `stream_front` showed were read.
    pub fn consume_stream(&mut self, now: Instant, id: StreamId, len: usize) {
        let Some(slot) = self.streams.inbound.lookup(id.0) else { return };
        let index = self.streams.inbound[slot].first;
        let Some(chunk) = self.streams.chunks.get_mut(index) else { return };
        if chunk.arrival != NONE {
            return;
        }
        chunk.from += len as u32;
        if chunk.hold == NONE || chunk.from as usize >= self.held.bytes(chunk.hold).len() {
            self.drop_front(now, slot);
        }
    }

    pub(super) fn drop_front(&mut self, now: Instant, slot: u32) {
        let this = &mut self.streams.inbound[slot];
        let (row, association) = (this.row, this.association);
        let chunk = self.streams.chunks.remove(this.first);
        this.first = chunk.next;
        if chunk.next == NONE {
            this.last = NONE;
        }
        if chunk.arrival == NONE {
            self.envelope_count -= 1;
            if chunk.hold != NONE {
                self.held.release(chunk.hold);
            }
        } else if self.arrivals.holds(chunk.arrival, chunk.arrival_serial) {
            self.end_arrival(now, chunk.arrival);
        }
        // Not for what is left of an association that is over: the next one counts anew.
        let is_same = |row: &Row| row.local_id == association && row.phase != Phase::Idle;
        if self.rows.get(row).is_some_and(is_same) {
            self.give_credit(row, u64::from(chunk.cost));
        }
        self.recall_rows(now);
    }

    pub(super) fn drop_chunks(&mut self, now: Instant, slot: u32) {
        while self.streams.inbound[slot].first != NONE {
            self.drop_front(now, slot);
        }
    }

    /// Whoever reads this stream waits for more: what comes next is lent (`Memory::lend`), if somebody can be lent to.
    pub fn await_stream(&mut self, id: StreamId) {
        if let Some(slot) = self.streams.inbound.lookup(id.0) {
            self.streams.inbound[slot].is_waiting = true;
        }
    }

    /// Nobody wants the rest of this stream. What is held and what still comes is dropped, and its sender may go on.
    pub fn close_stream(&mut self, now: Instant, id: StreamId) {
        let Some(slot) = self.streams.inbound.lookup(id.0) else { return };
        self.drop_chunks(now, slot);
        let this = &mut self.streams.inbound[slot];
        if this.finish == Finish::Open {
            this.is_closed = true;
            this.is_waiting = false;
        } else {
            self.streams.inbound.remove(slot);
        }
    }
}
