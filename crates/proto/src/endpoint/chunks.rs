//! Chunks of streams that are given to their link, and those that it is only told of.
//!
//! PROTOCOL §12.6, §12.7. A chunk is a message (§12.1), so what §7.10 says of copied messages holds for it: where a link in memory takes its frame, that is
//! the copy there is. And a long piece is announced as a large message is (`told`).
//!
//! ```text
//!   prepare_short_stream, prepare_chunk ──▶ the driver's link takes head and bytes ──▶ on_chunk_given
//!   prepare_told_chunk ─────────▶ … takes head and whereabouts ─▶ on_told_chunk_given ─▶ Sent, with how many bytes were read
//!                                                     └─ it does not: nothing was changed, the chunk is posted as any other
//! ```

use crate::base::api::{Payload, SendSpec};
use crate::base::sabotage::Sabotage;
use crate::base::types::{BufId, Instant, Memory, OutStreamId, PeerId, ReqId};
use crate::endpoint::Endpoint;
use crate::endpoint::given::Given;
use crate::endpoint::told::{GivenNote, Taken};
use crate::streams::ChunkTag;
use crate::streams::outbound::chunk_spec;
use crate::streams::records::Ending;
use crate::wire::{EagerWords, LONE_HEAD_LEN_MAX, NOTE_HEAD_LEN_MAX, NoteRepr, Whereabouts};
use crate::{PACKET_LEN, StreamId};

/// Longer chunks are not given: a ring has room for some of them, so that both ends of it have something to do.
pub const GIVEN_CHUNK_LEN_MAX: usize = 2 * PACKET_LEN;

/// A chunk whose frame's head is written.
#[derive(Clone, Copy, Debug)]
pub struct GivenChunk {
    /// The frame.
    pub given: Given,
    row: u32,
    len: u32,
    of: Of,
}

/// Of which stream it is.
#[derive(Clone, Copy, Debug)]
enum Of {
    /// One that is no longer than that; its number.
    Short(u32),
    /// One that was begun before, and how it goes on. What it has filled is what leaves.
    Begun { slot: u32, ending: Ending, is_filled: bool },
}

/// A chunk whose announcement is written.
#[derive(Clone, Copy, Debug)]
pub struct GivenTold {
    /// The frame.
    pub note: GivenNote,
    row: u32,
    spec: SendSpec<'static>,
}

/// As a sender.
impl Endpoint {
    /// Writes the head of the frame of a whole stream, so many bytes long, if it may be given to its link. As `prepare_given` for a message.
    #[inline]
    pub fn prepare_short_stream(
        &mut self,
        now: Instant,
        (peer, handler): (PeerId, u16),
        len: usize,
        head: &mut [u8; LONE_HEAD_LEN_MAX],
    ) -> Option<GivenChunk> {
        if len > GIVEN_CHUNK_LEN_MAX {
            return None;
        }
        let tag = self.streams.next_short(&self.messages, peer, handler)?;
        let given = self.prepare_given_of(now, &chunk_spec(peer, tag), len as u64, head)?;
        let of = Of::Short(tag.number);
        Some(GivenChunk { given, row: peer.row(), len: len as u32, of })
    }

    /// Writes the head of the frame of the next chunk of a stream: of what it has filled, or of so many bytes if it has filled nothing.
    /// `ends`: it is the last, well or not.
    pub fn prepare_chunk(
        &mut self,
        now: Instant,
        id: OutStreamId,
        piece_len: Option<usize>,
        ends: Option<bool>,
        head: &mut [u8; LONE_HEAD_LEN_MAX],
    ) -> Option<GivenChunk> {
        let slot = self.streams.may_show(&self.messages, id)?;
        let (row, filled_len, _) = self.streams.state_of(slot);
        let len = match piece_len {
            None => filled_len,
            Some(len) if filled_len == 0 => len as u32,
            Some(_) => return None,
        };
        let ending = match ends {
            None => Ending::Open,
            Some(true) => Ending::Good,
            Some(false) => Ending::GivenUp,
        };
        let spec = chunk_spec(self.peers().rows[row].peer(), self.streams.next_tag(slot, ending));
        let given = self.prepare_given_of(now, &spec, len.into(), head)?;
        let of = Of::Begun { slot, ending, is_filled: piece_len.is_none() };
        Some(GivenChunk { given, row, len, of })
    }

    /// What a stream has filled.
    pub fn filled(&self, id: OutStreamId) -> &[u8] {
        self.streams.filled_of(&self.messages, id)
    }

    /// The link has taken the frame.
    pub fn on_chunk_given(&mut self, now: Instant, chunk: &GivenChunk) {
        let &GivenChunk { given, row, len, of } = chunk;
        self.on_given(&given);
        self.streams.on_chunk_posted(&mut self.messages, now, row, len);
        match of {
            Of::Short(number) => self.streams.peer(row).next_number = number.wrapping_add(1),
            Of::Begun { slot, ending, is_filled } => {
                if is_filled {
                    self.streams.empty(&mut self.messages, slot);
                }
                self.streams.on_begun(&mut self.messages, slot);
                if ending != Ending::Open {
                    self.streams.remove_outbound(slot);
                }
            }
        }
    }

    /// Writes the head of the frame that tells of the next piece of a stream, which has been begun and has filled nothing. As `prepare_told` for a message.
    pub fn prepare_told_chunk(
        &mut self,
        now: Instant,
        id: OutStreamId,
        (buf, len): (BufId, u64),
        user: u64,
        head: &mut [u8; NOTE_HEAD_LEN_MAX],
    ) -> Option<GivenTold> {
        let slot = self.streams.may_show(&self.messages, id)?;
        let (row, filled_len, is_begun) = self.streams.state_of(slot);
        if !is_begun || filled_len > 0 {
            return None;
        }
        let tag = self.streams.next_tag(slot, Ending::Open);
        let payload = Payload::InPlace { buf, len };
        let spec = SendSpec { payload, user, ..chunk_spec(self.peers().rows[row].peer(), tag) };
        let note = self.prepare_told_in(now, &spec, head)?;
        Some(GivenTold { note, row, spec })
    }

    /// The link has taken the announcement. The bytes are the endpoint's until the `Sent` event, which says how many were read: the others are still to be sent.
    pub fn on_told_chunk_given(&mut self, now: Instant, told: &GivenTold) -> ReqId {
        let req = self.on_told_given(&told.spec, &told.note);
        self.streams.on_chunk_posted(&mut self.messages, now, told.row, 0);
        req
    }
}

/// As a receiver.
impl Endpoint {
    /// A chunk that a link in memory brought, if its turn is now and it goes straight to whoever extracts. False, and nothing is changed, if not.
    #[inline(never)]
    pub(crate) fn hand_over_given(
        &mut self,
        now: Instant,
        row: u32,
        head: EagerWords,
        body: &[u8],
        memory: &mut impl Memory,
    ) -> bool {
        let peers = &self.messages.bulk.peers;
        let this = &peers.rows[row];
        let is_next = this.is_next(head.message());
        if !is_next || peers.is_closing() || peers.saboteur.makes(Sabotage::TakenBeforeAcceptance) {
            return false;
        }
        let tag = ChunkTag::decode(head.tag());
        if !self.streams.hand_over(&mut self.messages, now, row, tag, body, memory) {
            return false;
        }
        self.messages.bulk.peers.counters.frames_in += 1;
        self.messages.count_turn(row);
        self.messages.recall_rows(now);
        true
    }

    /// An announcement in the space of streams, as a link in memory brought it.
    pub(crate) fn take_told_chunk(
        &mut self,
        now: Instant,
        row: u32,
        note: NoteRepr,
        whereabouts: &Whereabouts,
    ) -> Taken {
        let NoteRepr::Told { message, tag, total, .. } = note else { return Taken::No };
        let bulk = &mut self.messages.bulk;
        let this = &bulk.peers.rows[row];
        let is_next = this.is_next(message);
        if !is_next || bulk.peers.is_closing() {
            return Taken::No;
        }
        bulk.peers.counters.frames_in += 1;
        let chunk = (ChunkTag::decode(tag), message, total);
        self.streams.on_told_chunk(&mut self.messages, row, chunk, Some(whereabouts));
        self.messages.count_turn(row);
        self.messages.recall_rows(now);
        Taken::Chunk
    }

    /// Whether there are chunks that were told of and not read.
    #[inline]
    pub fn has_told_chunks(&self) -> bool {
        self.streams.has_told()
    }

    /// Nobody extracts: their senders are to send them.
    pub fn decline_told_chunks(&mut self) {
        self.streams.decline_all(&mut self.messages);
    }

    /// What is next in this stream was told of and cannot be read: its sender is to send it.
    pub fn decline_stream_front(&mut self, id: StreamId) {
        self.streams.decline_front_of(&mut self.messages, id);
    }

    /// Whether `prepare_told_end` may have something.
    #[inline]
    pub fn has_told_ends(&self) -> bool {
        self.streams.has_told_ends()
    }

    /// Writes the head of the frame by which the sender of such a chunk hears of its end, if there is one to tell and it may be given to its link now. If the link
    /// takes it the driver says so by `on_told_end_given`. Those that are left when frames are polled go as any other word.
    pub fn prepare_told_end(
        &mut self,
        now: Instant,
        head: &mut [u8; NOTE_HEAD_LEN_MAX],
    ) -> Option<GivenNote> {
        let end = self.streams.front_told_end(&self.messages)?;
        let peers = self.peers();
        let this = &peers.rows[end.peer.row()];
        let active = peers.actives.of(this)?;
        let index = active.clear_path(now, 0)?;
        let note = NoteRepr::Done { message: end.message, placed_len: end.placed_len };
        self.write_note(now, (this, active), index, note, head)
    }

    /// The link has taken it.
    pub fn on_told_end_given(&mut self, note: &GivenNote) {
        self.on_note_given(note);
        self.streams.told_ends.pop_front();
    }
}
