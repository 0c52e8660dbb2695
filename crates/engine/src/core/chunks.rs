//! Chunks of streams through memory that both ends share: given to the ring, told of, read from where they are (PROTOCOL §12.6, §12.7).
//!
//! A chunk that the ring takes is copied once into it, from where its sender has it; what it does not take now is posted as any other and leaves with a turn.

use packhorse_link::Link;
use packhorse_link::mem::UserMemory;
use packhorse_proto::{
    BufId, GIVEN_CHUNK_LEN_MAX, GivenChunk, Instant, OutStreamId, PACKET_LEN, PeerId, Place, ReqId,
    StreamError, StreamId, ToldFront, wire,
};

use super::Core;
use super::fetch::PIECE_LEN_MAX;
use super::send::is_taken_now;

impl<L: Link<M>, M: UserMemory> Core<L, M> {
    /// Gives a whole stream of these pieces to its link, or does nothing.
    #[inline]
    pub(super) fn give_short_stream(
        &mut self,
        now: Instant,
        to: (PeerId, u16),
        pieces: &[&[u8]],
        len: usize,
    ) -> bool {
        let mut head = [0; wire::LONE_HEAD_LEN_MAX];
        let Some(chunk) = self.endpoint.prepare_short_stream(now, to, len, &mut head) else {
            return false;
        };
        let bytes = match *pieces {
            [] => &[],
            [piece] => piece,
            _ => {
                self.scratch.clear();
                pieces.iter().for_each(|piece| self.scratch.extend_from_slice(piece));
                &self.scratch[..]
            }
        };
        let (way, head) = ((chunk.given.link, &chunk.given.to.0), &head[..chunk.given.head_len]);
        let is_taken = is_taken_now(&self.home, &mut self.links, way, head, bytes);
        if is_taken {
            self.on_chunk_left(now, &chunk, len);
        }
        is_taken
    }

    /// The link has taken a chunk.
    fn on_chunk_left(&mut self, now: Instant, chunk: &GivenChunk, len: usize) {
        self.endpoint.on_chunk_given(now, chunk);
        self.counters.bytes_copied_out += len as u64;
    }

    /// Gives the next chunk of a stream to its link: this piece, or what the stream has filled. False: nothing was done.
    fn give_chunk(
        &mut self,
        now: Instant,
        id: OutStreamId,
        piece: Option<&[u8]>,
        ends: Option<bool>,
    ) -> bool {
        self.end_quiet();
        if self.is_blocked() {
            return false;
        }
        let mut head = [0; wire::LONE_HEAD_LEN_MAX];
        let piece_len = piece.map(<[u8]>::len);
        let Some(chunk) = self.endpoint.prepare_chunk(now, id, piece_len, ends, &mut head) else {
            return false;
        };
        let bytes = piece.unwrap_or_else(|| self.endpoint.filled(id));
        let (way, len) = ((chunk.given.link, &chunk.given.to.0), bytes.len());
        let head = &head[..chunk.given.head_len];
        let is_taken = is_taken_now(&self.home, &mut self.links, way, head, bytes);
        if is_taken {
            self.on_chunk_left(now, &chunk, len);
        }
        is_taken
    }

    /// Sends a piece: how many bytes were taken. What is long enough for its reader goes straight from where it is, as far as the link keeps it.
    pub fn write_stream(
        &mut self,
        now: Instant,
        id: OutStreamId,
        piece: &[u8],
    ) -> Result<usize, StreamError> {
        let mut taken_len = 0;
        while piece.len() - taken_len >= PACKET_LEN {
            let left = &piece[taken_len..];
            let part = &left[..left.len().min(GIVEN_CHUNK_LEN_MAX)];
            let is_given = self.give_chunk(now, id, Some(part), None)
                || (!self.endpoint.filled(id).is_empty()
                    && self.give_chunk(now, id, None, None)
                    && self.give_chunk(now, id, Some(part), None));
            if !is_given {
                break;
            }
            taken_len += part.len();
        }
        match self.endpoint().write_stream(now, id, &piece[taken_len..]) {
            Err(_) if taken_len > 0 => Ok(taken_len), // the next call says so
            written => written.map(|len| taken_len + len),
        }
    }

    /// Lets leave what was given to a stream so far. False: not now.
    pub fn flush_stream(&mut self, now: Instant, id: OutStreamId) -> Result<bool, StreamError> {
        let is_given = !self.endpoint.filled(id).is_empty() && self.give_chunk(now, id, None, None);
        if is_given { Ok(true) } else { self.endpoint().flush_stream(now, id) }
    }

    /// Ends a stream, well or not.
    pub fn end_stream(
        &mut self,
        now: Instant,
        id: OutStreamId,
        is_good: bool,
    ) -> Result<(), StreamError> {
        if self.give_chunk(now, id, None, Some(is_good)) {
            return Ok(());
        }
        let endpoint = self.endpoint();
        if is_good { endpoint.end_stream(now, id) } else { endpoint.give_up_stream(now, id) }
    }

    /// Tells the peer where the next piece of a stream is, if it can read it there. What the stream has filled leaves first. `None`: the piece must be sent.
    pub fn tell_chunk(
        &mut self,
        now: Instant,
        peer: PeerId,
        id: OutStreamId,
        (buf, len): (BufId, u64),
        user: u64,
    ) -> Option<ReqId> {
        self.end_quiet();
        if self.is_blocked() || !self.endpoint.is_fetched(peer, len) {
            return None;
        }
        let mut head = [0; wire::NOTE_HEAD_LEN_MAX];
        let piece = (buf, len);
        let told = match self.endpoint.prepare_told_chunk(now, id, piece, user, &mut head) {
            Some(told) => told,
            None if self.give_chunk(now, id, None, None) => {
                self.endpoint.prepare_told_chunk(now, id, piece, user, &mut head)?
            }
            None => return None,
        };
        let note = &told.note;
        let whereabouts = self.whereabouts_for((note.link, &note.to.0), buf, len)?;
        let ring = self.links[usize::from(note.link)].in_memory()?;
        if !ring.put(&note.to.0, &head[..note.head_len], &whereabouts) {
            return None;
        }
        self.expect_answer(now, len);
        Some(self.endpoint.on_told_chunk_given(now, &told))
    }

    /// Reads what is next in a stream from where its sender told that it is, so many bytes at most, to the beginning of this memory: how many. 0: it cannot be
    /// read, and its sender is asked to send it.
    pub fn read_told_chunk(
        &mut self,
        now: Instant,
        id: StreamId,
        front: &ToldFront,
        (buf, len): (BufId, u64),
    ) -> u64 {
        self.end_quiet();
        let len = len.min(front.len).min(PIECE_LEN_MAX);
        let (link, to) = (usize::from(front.link), Place { buf, offset: 0 });
        if !self.read_told(link, &front.from, &front.whereabouts, (front.offset, to, len)) {
            self.endpoint.decline_stream_front(id);
            return 0;
        }
        self.endpoint.consume_stream(now, id, len as usize);
        len
    }

    /// Gives the word that chunks were read, or are to be sent, to the links. What they do not take goes as any other word.
    #[inline(never)]
    pub(super) fn give_told_ends(&mut self, now: Instant) {
        let mut head = [0; wire::NOTE_HEAD_LEN_MAX];
        while !self.is_blocked()
            && let Some(note) = self.endpoint.prepare_told_end(now, &mut head)
            && is_taken_now(
                &self.home,
                &mut self.links,
                (note.link, &note.to.0),
                &head[..note.head_len],
                &[],
            )
        {
            self.endpoint.on_told_end_given(&note);
        }
    }
}
