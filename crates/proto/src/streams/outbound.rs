//! Streams at their sender: pieces fill chunks, chunks leave as they are full.
//!
//! PROTOCOL §12.2, §12.3. A piece is copied once, into the resend pool, behind the piece before it. A full chunk, and one that has a
//! packet's length already, leaves when something follows it and the peer has credit to give; the last one leaves with the end, which never has to wait: it is
//! posted by itself when credit comes.

use alloc::vec::Vec;

use crate::base::api::{Payload, SendSpec};
use crate::base::limits::FRAME_LEN_FLOOR;
use crate::base::sabotage::Sabotage;
use crate::base::slab::NONE;
use crate::base::types::{BufId, Instant, OutStreamId, PeerId, ReqId, Space};
use crate::bulk::lone::Lone;
use crate::bulk::outgoing::Bytes;
use crate::delivery::credit::Credit;
use crate::delivery::path::kind::cuts_into_trains;
use crate::messages::Messages;
use crate::peers::rows::Row;
use crate::streams::records::{Ending, Outbound};
use crate::streams::{ChunkTag, PACKET_LEN, Streams, chunk_cost};
use crate::wire::{self, LONE_HEAD_LEN_MAX};

/// The longest chunk by a link that sends trains: it fills one. Several fit the credit, but for what may be sent at first.
const TRAIN_CHUNK_LEN: usize = 60 << 10;
/// Room an introduction may take of a frame until the peer has joined.
const INTRODUCTION_LEN: usize = 320;

/// Why a stream cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamError {
    /// The endpoint is closing.
    Closing,
    /// No such peer.
    UnknownPeer,
    /// The association it was begun in is over: the peer is gone, or lives anew.
    Gone,
    /// The stream was ended before.
    Ended,
}

/// The path that messages take, as far as it matters here.
struct MessagesWay {
    frame_len: u16,
    sends_trains: bool,
    credit: Credit,
}

impl Streams {
    pub(crate) fn begin_stream(
        &mut self,
        messages: &mut Messages,
        peer: PeerId,
        handler: u16,
    ) -> Result<OutStreamId, StreamError> {
        if messages.bulk.peers.is_closing() {
            return Err(StreamError::Closing);
        }
        let row = peer.row();
        if messages.bulk.peers.rows.known(peer).is_none() {
            return Err(StreamError::UnknownPeer);
        }
        let streams = self.peer(row);
        let number = streams.next_number;
        streams.next_number = number.wrapping_add(1);
        let (slot, key) = self.outbound.insert_keyed(Outbound {
            row,
            number,
            handler,
            ending: Ending::Open,
            is_begun: false,
            association: 0,
            pool: NONE,
            filled_len: 0,
            room_len: 0,
        });
        let unbegun = &mut self.peer(row).unbegun;
        match messages.bulk.peers.saboteur.makes(Sabotage::StreamsOutOfOrder) {
            true => unbegun.push_front(slot),
            false => unbegun.push_back(slot),
        }
        Ok(OutStreamId(key))
    }

    pub(crate) fn send_short_stream(
        &mut self,
        messages: &mut Messages,
        now: Instant,
        peer: PeerId,
        handler: u16,
        pieces: &[&[u8]],
    ) -> bool {
        let Some((tag, len)) = self.short_stream(messages, peer, handler, pieces) else {
            return false;
        };
        let Some(pool) = messages.bulk.copy_pieces(len, pieces) else { return false };
        self.peer(peer.row()).next_number = tag.number.wrapping_add(1);
        self.post_one(messages, now, peer.row(), tag, pool, len as u32);
        true
    }

    /// Posts a short stream in one step with its frame, as `Bulk::post_lone` does a message. The payload is the link's to gather.
    pub(crate) fn send_lone_stream(
        &mut self,
        messages: &mut Messages,
        now: Instant,
        (peer, handler): (PeerId, u16),
        pieces: &[&[u8]],
        head: &mut [u8; LONE_HEAD_LEN_MAX],
    ) -> Option<Lone> {
        let row = peer.row();
        let (tag, len) = self.short_stream(messages, peer, handler, pieces)?;
        let spec = chunk_spec(peer, tag);
        let leave = messages.bulk.may_leave(now, &spec, len as u64)?;
        let pool = messages.bulk.copy_pieces(len, pieces)?;
        self.peer(row).next_number = tag.number.wrapping_add(1);
        let lone = messages.bulk.leave(now, &spec, &leave, (Bytes::Pool(pool), len as u64), head);
        self.on_chunk_posted(messages, now, row, len as u32);
        Some(lone)
    }

    /// A stream of one chunk that may be posted now: its tag and length.
    fn short_stream(
        &mut self,
        messages: &mut Messages,
        peer: PeerId,
        handler: u16,
        pieces: &[&[u8]],
    ) -> Option<(ChunkTag, usize)> {
        let tag = self.next_short(messages, peer, handler)?;
        let len = pieces.iter().map(|piece| piece.len()).sum::<usize>();
        (len <= self.chunk_len(messages, peer.row())).then_some((tag, len))
    }

    /// The tag of a stream of one chunk that is the next to begin, if it may be posted now.
    #[inline]
    pub(crate) fn next_short(
        &mut self,
        messages: &Messages,
        peer: PeerId,
        handler: u16,
    ) -> Option<ChunkTag> {
        if messages.bulk.peers.is_closing() || messages.bulk.peers.rows.known(peer).is_none() {
            return None;
        }
        let streams = self.peer(peer.row());
        let is_next = streams.unbegun.is_empty() && streams.waiting.front().is_none();
        if !is_next || streams.sent_cost >= streams.limit {
            return None;
        }
        let number = streams.next_number;
        Some(ChunkTag { number, handler, is_begin: true, is_end: true, is_broken: false })
    }

    /// A stream whose next chunk may be posted now: there is credit, and none goes before it.
    pub(crate) fn may_show(&self, messages: &Messages, id: OutStreamId) -> Option<u32> {
        let slot = self.open_outbound(messages, id).ok()?;
        let this = &self.outbound[slot];
        let peer = self.peers.get(this.row as usize)?;
        let may_show = peer.waiting.front().is_none()
            && peer.sent_cost < peer.limit
            && (this.is_begun || peer.unbegun.front() == Some(&slot));
        may_show.then_some(slot)
    }

    /// Whose a stream is, how much it has filled, and whether its peer knows of it.
    pub(crate) fn state_of(&self, slot: u32) -> (u32, u32, bool) {
        let Outbound { row, filled_len, is_begun, .. } = self.outbound[slot];
        (row, filled_len, is_begun)
    }

    /// What the stream of this name has filled.
    pub(crate) fn filled_of<'a>(&self, messages: &'a Messages, id: OutStreamId) -> &'a [u8] {
        let slot = self.outbound.lookup(id.0);
        slot.map_or(&[], |slot| self.filled(messages, slot))
    }

    /// A stream has ended.
    pub(crate) fn remove_outbound(&mut self, slot: u32) {
        self.outbound.remove(slot);
    }

    /// What a stream has filled.
    pub(crate) fn filled<'a>(&self, messages: &'a Messages, slot: u32) -> &'a [u8] {
        let Outbound { pool, filled_len, .. } = self.outbound[slot];
        match pool {
            NONE => &[],
            pool => &messages.bulk.copied_bytes(pool)[..filled_len as usize],
        }
    }

    /// What a stream has filled has left.
    pub(crate) fn empty(&mut self, messages: &mut Messages, slot: u32) {
        let this = &mut self.outbound[slot];
        let pool = core::mem::replace(&mut this.pool, NONE);
        this.filled_len = 0;
        if pool != NONE {
            messages.bulk.drop_copy(pool);
        }
    }

    pub(crate) fn write_stream(
        &mut self,
        messages: &mut Messages,
        now: Instant,
        id: OutStreamId,
        piece: &[u8],
    ) -> Result<usize, StreamError> {
        let slot = self.open_outbound(messages, id)?;
        let row = self.outbound[slot].row;
        if self.peer(row).waiting.front().is_some() {
            return Ok(0); // those that have ended and wait for credit go first: they must not become ever more
        }
        // What is long enough for its reader does not wait until a train is full.
        let is_packet = self.outbound[slot].filled_len as usize >= PACKET_LEN;
        if is_packet && !piece.is_empty() && !self.post_chunk(messages, now, slot, Ending::Open) {
            return Ok(0);
        }
        let mut taken_len = 0;
        while taken_len < piece.len() {
            let this = &self.outbound[slot];
            if this.pool != NONE && this.filled_len == this.room_len {
                if !self.post_chunk(messages, now, slot, Ending::Open) {
                    break;
                }
                continue;
            }
            if this.pool == NONE && !self.start_chunk(messages, slot) {
                break;
            }
            let this = &mut self.outbound[slot];
            let start = this.filled_len as usize;
            let len = (piece.len() - taken_len).min(this.room_len as usize - start);
            messages.bulk.fill_copy(this.pool, start, &piece[taken_len..taken_len + len]);
            this.filled_len += len as u32;
            taken_len += len;
        }
        Ok(taken_len)
    }

    pub(crate) fn stream_chunk_len(
        &self,
        messages: &Messages,
        id: OutStreamId,
    ) -> Result<usize, StreamError> {
        let slot = self.open_outbound(messages, id)?;
        Ok(self.chunk_len(messages, self.outbound[slot].row))
    }

    pub(crate) fn write_stream_in_place(
        &mut self,
        messages: &mut Messages,
        now: Instant,
        id: OutStreamId,
        (buf, len): (BufId, u32),
        user: u64,
    ) -> Result<Option<ReqId>, StreamError> {
        let slot = self.open_outbound(messages, id)?;
        let row = self.outbound[slot].row;
        let is_behind = self.peer(row).waiting.front().is_some();
        let has_filled = self.outbound[slot].filled_len > 0;
        if is_behind
            || !self.begin_earlier(messages, now, slot)
            || (has_filled && !self.post_filled(messages, now, slot, Ending::Open))
        {
            return Ok(None);
        }
        let peer = self.peer(row);
        if peer.sent_cost >= peer.limit {
            return Ok(None);
        }
        let tag = self.next_tag(slot, Ending::Open);
        let payload = Payload::InPlace { buf, len: u64::from(len) };
        let spec =
            SendSpec { payload, user, ..chunk_spec(messages.bulk.peers.rows[row].peer(), tag) };
        let req = messages.bulk.post_in_place(now, &spec, buf, len);
        self.on_chunk_posted(messages, now, row, len);
        self.on_begun(messages, slot);
        Ok(Some(req))
    }

    pub(crate) fn flush_stream(
        &mut self,
        messages: &mut Messages,
        now: Instant,
        id: OutStreamId,
    ) -> Result<bool, StreamError> {
        let slot = self.open_outbound(messages, id)?;
        let this = &self.outbound[slot];
        if this.is_begun && this.filled_len == 0 {
            return Ok(true);
        }
        Ok(self.post_chunk(messages, now, slot, Ending::Open))
    }

    pub(crate) fn end_stream(
        &mut self,
        messages: &mut Messages,
        now: Instant,
        id: OutStreamId,
    ) -> Result<(), StreamError> {
        self.finish_stream(messages, now, id, Ending::Good)
    }

    pub(crate) fn give_up_stream(
        &mut self,
        messages: &mut Messages,
        now: Instant,
        id: OutStreamId,
    ) -> Result<(), StreamError> {
        self.finish_stream(messages, now, id, Ending::GivenUp)
    }

    fn finish_stream(
        &mut self,
        messages: &mut Messages,
        now: Instant,
        id: OutStreamId,
        ending: Ending,
    ) -> Result<(), StreamError> {
        let slot = match self.open_outbound(messages, id) {
            Err(StreamError::Gone) => {
                self.outbound.remove(id.0 as u32);
                return Err(StreamError::Gone);
            }
            open => open?,
        };
        let row = self.outbound[slot].row;
        self.outbound[slot].ending = ending;
        if self.peer(row).waiting.front().is_some() || !self.finish_outbound(messages, now, slot) {
            self.peer(row).waiting.push_back(slot);
        }
        Ok(())
    }

    pub(crate) fn waiting_stream_count(&self) -> usize {
        let is_ending = |out: &Outbound| out.ending == Ending::Good;
        self.outbound.iter().filter(|(_, out)| is_ending(out)).count()
    }

    pub(crate) fn take_credit_news(&mut self) -> bool {
        core::mem::take(&mut self.has_credit_news)
    }

    /// The peer says how far its streams may go.
    pub(crate) fn on_stream_credit(
        &mut self,
        messages: &mut Messages,
        now: Instant,
        row: u32,
        limit: u64,
    ) {
        let peer = self.peer(row);
        if limit <= peer.limit {
            return; // an older word
        }
        peer.limit = limit;
        while let Some(&slot) = self.peer(row).waiting.front() {
            if !self.finish_outbound(messages, now, slot) {
                break;
            }
            self.peer(row).waiting.pop_front();
        }
        self.has_credit_news = true;
    }

    fn open_outbound(&self, messages: &Messages, id: OutStreamId) -> Result<u32, StreamError> {
        if messages.bulk.peers.is_closing() {
            return Err(StreamError::Closing);
        }
        let slot = self.outbound.lookup(id.0).ok_or(StreamError::Ended)?;
        let this = &self.outbound[slot];
        if this.ending != Ending::Open {
            return Err(StreamError::Ended);
        }
        let row = &messages.bulk.peers.rows[this.row];
        let is_same = row.lives_as(this.association);
        if this.is_begun && !is_same { Err(StreamError::Gone) } else { Ok(slot) }
    }

    /// Room for a chunk in the resend pool.
    fn start_chunk(&mut self, messages: &mut Messages, slot: u32) -> bool {
        let row = self.outbound[slot].row;
        let room_len = self.chunk_len(messages, row);
        let Some(pool) = messages.bulk.begin_copy(room_len) else { return false };
        let this = &mut self.outbound[slot];
        (this.pool, this.filled_len, this.room_len) = (pool, 0, room_len as u32);
        true
    }

    /// What fills a frame to this peer, or a train of them: as long as the peer's sockets hold it.
    fn chunk_len(&self, messages: &Messages, row: u32) -> usize {
        let this = &messages.bulk.peers.rows[row];
        let heads_len = wire::LONE_EAGER_LEN + wire::CHECK_HEAD_LEN;
        let len = match self.messages_way(messages, this) {
            None => usize::from(FRAME_LEN_FLOOR) - INTRODUCTION_LEN - heads_len,
            Some(way) => {
                let one_frame = (usize::from(way.frame_len) - heads_len).min(PACKET_LEN);
                let train = TRAIN_CHUNK_LEN.min(way.credit.len() as usize);
                if way.sends_trains { one_frame.max(train) } else { one_frame }
            }
        };
        len.clamp(1, messages.bulk.peers.settings.eager_len_max.max(1) as usize)
    }

    /// How messages go to a peer that has joined, be it at rest.
    fn messages_way(&self, messages: &Messages, this: &Row) -> Option<MessagesWay> {
        if !this.is_joined() {
            return None;
        }
        let Some(active) = messages.bulk.peers.actives.of(this) else {
            let rest = this.resting_path(0)?;
            let link = messages.bulk.peers.links.get(rest.link)?;
            let sends_trains = cuts_into_trains(link);
            let credit = this.resting_credit();
            return Some(MessagesWay { frame_len: rest.frame_len(), sends_trains, credit });
        };
        let path = active.main_path();
        let sends_trains = active.has_trains_for_messages();
        Some(MessagesWay { frame_len: path.frame_len(), sends_trains, credit: active.credit })
    }

    /// The last chunk of a stream leaves, and the stream is forgotten. False: not now.
    fn finish_outbound(&mut self, messages: &mut Messages, now: Instant, slot: u32) -> bool {
        let ending = self.outbound[slot].ending;
        let is_posted = self.post_chunk(messages, now, slot, ending);
        if is_posted {
            self.outbound.remove(slot);
        }
        is_posted
    }

    /// Posts what a stream has filled. Streams that were begun before it show themselves first.
    fn post_chunk(
        &mut self,
        messages: &mut Messages,
        now: Instant,
        slot: u32,
        ending: Ending,
    ) -> bool {
        self.begin_earlier(messages, now, slot) && self.post_filled(messages, now, slot, ending)
    }

    /// Streams that were begun before this one show themselves, if it did not. False: they cannot now.
    fn begin_earlier(&mut self, messages: &mut Messages, now: Instant, slot: u32) -> bool {
        let row = self.outbound[slot].row;
        while !self.outbound[slot].is_begun {
            let first = *self.peer(row).unbegun.front().expect("it is in it itself");
            if first == slot {
                break;
            }
            if !self.post_filled(messages, now, first, Ending::Open) {
                return false;
            }
        }
        true
    }

    fn post_filled(
        &mut self,
        messages: &mut Messages,
        now: Instant,
        slot: u32,
        ending: Ending,
    ) -> bool {
        let Outbound { row, pool, filled_len, .. } = self.outbound[slot];
        let peer = self.peer(row);
        if peer.sent_cost >= peer.limit {
            return false;
        }
        let pool = match pool {
            NONE => match messages.bulk.begin_copy(0) {
                Some(pool) => pool,
                None => return false,
            },
            pool => pool,
        };
        messages.bulk.end_copy(pool, filled_len as usize);
        let tag = self.next_tag(slot, ending);
        let this = &mut self.outbound[slot];
        (this.pool, this.filled_len) = (NONE, 0);
        self.post_one(messages, now, row, tag, pool, filled_len);
        self.on_begun(messages, slot);
        true
    }

    pub(crate) fn next_tag(&self, slot: u32, ending: Ending) -> ChunkTag {
        let Outbound { number, handler, is_begun, .. } = self.outbound[slot];
        ChunkTag {
            number,
            handler,
            is_begin: !is_begun,
            is_end: ending != Ending::Open,
            is_broken: ending == Ending::GivenUp,
        }
    }

    /// A chunk of the stream was posted, in the association that is now.
    pub(crate) fn on_begun(&mut self, messages: &mut Messages, slot: u32) {
        let this = &mut self.outbound[slot];
        let row = this.row;
        this.association = messages.bulk.peers.rows[row].association();
        if !core::mem::replace(&mut this.is_begun, true) {
            self.peer(row).unbegun.pop_front();
        }
    }

    /// Posts a chunk whose bytes lie in the resend pool.
    fn post_one(
        &mut self,
        messages: &mut Messages,
        now: Instant,
        row: u32,
        tag: ChunkTag,
        pool: u32,
        len: u32,
    ) {
        messages.bulk.post_pooled(
            now,
            &chunk_spec(messages.bulk.peers.rows[row].peer(), tag),
            pool,
            len,
        );
        self.on_chunk_posted(messages, now, row, len);
    }

    pub(crate) fn on_chunk_posted(
        &mut self,
        messages: &mut Messages,
        now: Instant,
        row: u32,
        len: u32,
    ) {
        messages.bulk.peers.counters.stream_chunks_out += 1;
        let peer = self.peer(row);
        peer.sent_cost += chunk_cost(u64::from(len));
        if peer.sent_cost >= peer.limit {
            messages.bulk.peers.look_after(now, row); // whoever waits for credit must hear of its receiver's death
        }
    }

    /// The association ended: what was begun in it cannot go on, what had ended is lost with it.
    pub(crate) fn end_outbound(&mut self, messages: &mut Messages, row: u32) {
        let all = self.outbound.iter();
        let over: Vec<u32> = all
            .filter(|(_, out)| out.row == row && (out.is_begun || out.ending != Ending::Open))
            .map(|(slot, _)| slot)
            .collect();
        for slot in over {
            let this = &mut self.outbound[slot];
            let pool = core::mem::replace(&mut this.pool, NONE);
            this.filled_len = 0;
            let (is_over, is_begun) = (this.ending != Ending::Open, this.is_begun);
            if pool != NONE {
                messages.bulk.drop_copy(pool);
            }
            if is_over {
                self.outbound.remove(slot);
                if !is_begun {
                    self.peer(row).unbegun.retain(|&other| other != slot);
                }
            }
        }
    }

    /// The peer is forgotten: whatever was to be sent to it.
    pub(crate) fn drop_outbound(&mut self, messages: &mut Messages, row: u32) {
        let of_row = |(slot, out): (u32, &Outbound)| (out.row == row).then_some(slot);
        let all: Vec<u32> = self.outbound.iter().filter_map(of_row).collect();
        for slot in all {
            let out = self.outbound.remove(slot);
            if out.pool != NONE {
                messages.bulk.drop_copy(out.pool);
            }
        }
    }
}

/// A chunk as a message. Its bytes lie in the resend pool already.
pub(crate) fn chunk_spec(peer: PeerId, tag: ChunkTag) -> SendSpec<'static> {
    SendSpec {
        peer,
        space: Space::STREAMS,
        tag: tag.encode(),
        immediate: None,
        payload: Payload::Copied(&[]),
        until_matched: false,
        user: u64::MAX,
    }
}
