//! Chunks whose bytes stay with their sender until their reader comes to them.
//!
//! PROTOCOL §12.7. Where a receiver can read its sender's memory, a long piece is announced like a large message (§8.10) and keeps its place in its stream.
//! Whoever reads the stream reads it from where it is, as much at a time as he asks for, straight to where he wants it.
//!
//! ```text
//!   Told ──▶ place in the stream ──▶ StreamFront::Told ──▶ the driver's link reads ──▶ consume_stream … ──▶ Done: all of it
//!                     └─ cannot be read, or nobody extracts just now ──▶ Done: so many, and the sender sends the rest as other chunks
//! ```
//!
//! A sender has one such chunk of a stream under way and sends nothing of the stream behind it before it hears Done. So what it sends then
//! comes to the right place, and nobody has to hold bytes that were told of.

use crate::base::sabotage::Sabotage;
use crate::base::slab::{NONE, Slab};
use crate::base::types::Instant;
use crate::delivery::path::Path;
use crate::messages::Messages;
use crate::streams::records::{ToldChunk, ToldEnd, ToldFront};
use crate::streams::{Chunk, ChunkTag, Streams, chunk_cost};
use crate::wire::{DONE_CANCELLED, DONE_OK, Whereabouts};

impl Streams {
    /// An announcement whose turn it is. Whoever announces what is not the middle of a stream breaks the rules, and is told that nobody takes it.
    pub(crate) fn on_told_chunk(
        &mut self,
        messages: &mut Messages,
        row: u32,
        (tag, message, total): (ChunkTag, u32, u64),
        whereabouts: Option<&Whereabouts>,
    ) {
        if tag.is_begin || tag.is_end || tag.is_broken {
            messages.bulk.peers.notify_done(row, message, DONE_CANCELLED, 0);
            return;
        }
        let wanted = self.find(row, tag.number).filter(|&slot| !self.inbound[slot].is_closed);
        let Some(slot) = wanted else {
            self.give_credit(messages, row, chunk_cost(0));
            return self.end_told(messages, row, message, total); // nobody wants it, so nothing is left to send
        };
        let Some(whereabouts) = whereabouts.filter(|_| messages.bulk.try_hold_envelope()) else {
            self.give_credit(messages, row, chunk_cost(0));
            return self.end_told(messages, row, message, 0);
        };
        messages.bulk.peers.counters.stream_chunks_told += 1;
        let whereabouts = *whereabouts;
        let told = ToldChunk { chunk: NONE, row, message, total, from: 0, whereabouts };
        let told = self.told.insert(told);
        let cost = chunk_cost(0) as u32;
        let chunk =
            Chunk { hold: NONE, arrival: NONE, arrival_serial: 0, told, from: 0, cost, next: NONE };
        self.push(slot, chunk);
        self.told[told].chunk = self.inbound[slot].last;
    }

    /// What is next in a stream, if that was told of. `None`: it cannot be read any more, and comes in another way.
    pub(super) fn told_front(&mut self, messages: &mut Messages, told: u32) -> Option<ToldFront> {
        let this = &self.told[told];
        let peers = &messages.bulk.peers;
        let active = peers.awake(this.row);
        let way = active.and_then(|active| active.paths.iter().find(|path| path.can_fetch()));
        let front = |path: &Path| ToldFront {
            link: path.link(),
            from: *path.locator(),
            whereabouts: this.whereabouts,
            offset: this.from,
            len: this.total - this.from,
        };
        let front = way.map(front);
        if front.is_none() {
            self.decline(messages, told);
        }
        front
    }

    /// So many bytes were read. True: that was all.
    pub(super) fn consume_told(&mut self, messages: &mut Messages, told: u32, len: u64) -> bool {
        let this = &mut self.told[told];
        let len = len.min(this.total - this.from);
        this.from += len;
        messages.bulk.peers.counters.stream_bytes_read += len;
        this.from == this.total
    }

    /// The first chunk of this stream cannot be read where it is.
    pub(crate) fn decline_front(&mut self, messages: &mut Messages, slot: u32) {
        let front = self.chunks.get(self.inbound[slot].first).map_or(NONE, |chunk| chunk.told);
        if front != NONE {
            self.decline(messages, front);
        }
    }

    /// Nobody extracts: what was told of comes as other chunks do, and is held as far as its sender has credit.
    pub(crate) fn decline_all(&mut self, messages: &mut Messages) {
        let next = |all: &Slab<ToldChunk>| all.iter().next().map(|(told, _)| told);
        while let Some(told) = next(&self.told) {
            self.decline(messages, told);
        }
    }

    /// The sender is to send the rest. The place in the stream stays, and is empty.
    fn decline(&mut self, messages: &mut Messages, told: u32) {
        let ToldChunk { chunk, row, message, from, total, .. } = self.told.remove(told);
        self.chunks[chunk].told = NONE;
        let placed_len = match messages.bulk.peers.saboteur.makes(Sabotage::RestNotAskedFor) {
            true => total,
            false => from,
        };
        messages.bulk.peers.counters.stream_chunks_declined += 1;
        self.end_told(messages, row, message, placed_len);
    }

    /// The chunk has left its stream: all of it was read, or nobody wants the rest. `is_same`: the association that it came with lives.
    pub(super) fn drop_told(&mut self, messages: &mut Messages, told: u32, is_same: bool) {
        let ToldChunk { row, message, total, .. } = self.told.remove(told);
        if is_same {
            self.end_told(messages, row, message, total);
        }
    }

    /// Its sender is to be told. Its row stands in line with that: a driver that asks whether there is something to send need not ask for this apart.
    fn end_told(&mut self, messages: &mut Messages, row: u32, message: u32, placed_len: u64) {
        let this = &messages.bulk.peers.rows[row];
        let (peer, association) = (this.peer(), this.association());
        self.told_ends.push_back(ToldEnd { peer, association, message, placed_len });
        messages.bulk.peers.rows.make_ready(row);
    }

    #[inline]
    pub(crate) fn has_told_ends(&self) -> bool {
        !self.told_ends.is_empty()
    }

    /// The next end to be told, of an association that lives.
    pub(crate) fn front_told_end(&mut self, messages: &Messages) -> Option<ToldEnd> {
        while let Some(&end) = self.told_ends.front() {
            let row = messages.bulk.peers.rows.get(end.peer.row());
            if row.is_some_and(|row| row.lives_as(end.association) && row.peer() == end.peer) {
                return Some(end);
            }
            self.told_ends.pop_front();
        }
        None
    }

    /// What no link was given goes as any other word.
    pub(crate) fn keep_told_ends(&mut self, messages: &mut Messages) {
        while let Some(end) = self.front_told_end(messages) {
            let row = end.peer.row();
            messages.bulk.peers.notify_done(row, end.message, DONE_OK, end.placed_len);
            self.told_ends.pop_front();
        }
    }

    /// The association with a peer is over: what was told of is not there any more, nor what came behind it.
    pub(super) fn cut_at_told(&mut self, messages: &mut Messages, now: Instant, slot: u32) {
        let (mut before, mut at) = (NONE, self.inbound[slot].first);
        while let Some(chunk) = self.chunks.get(at).filter(|chunk| chunk.told == NONE) {
            (before, at) = (at, chunk.next);
        }
        if at == NONE {
            return;
        }
        let (first, last) = (self.inbound[slot].first, before);
        (self.inbound[slot].first, self.inbound[slot].is_cut) = (at, true);
        self.drop_chunks(messages, now, slot);
        if before != NONE {
            self.chunks[before].next = NONE;
            (self.inbound[slot].first, self.inbound[slot].last) = (first, last);
        }
    }
}
