//! Long pieces leave from where they lie.
//!
//! A piece is its owner's again when `send` returns, so it is copied, unless it is long. A peer that can read it where it is (on one host) is told of it, and
//! `send` waits until its reader has taken it apart, in pieces of *his* choice: nothing is copied but by him. To others `send` lends its front to the engine,
//! chunk by chunk, copies only the rest, and waits for the front to be accepted: by then the rest is under way, and the link does
//! not fall silent in between.

use packhorse_engine::{Engine, RequestId};
use packhorse_link::mem::Memory;
use packhorse_proto::{OutStreamId, PeerId, StreamError, StreamId};

/// From this length on a piece is lent: a shorter one is gone before its front is accepted, and the wait costs more than the copy (over
/// shared memory 2.8 against 4.1 GB/s at 256 KB, 5.1 against 4.4 at 1 MB).
pub(super) const LENT_LEN_MIN: usize = 512 << 10;
/// So much of its end is copied: what is under way while the front is accepted.
const COPIED_LEN: usize = 64 << 10;
/// So much is lent at a time.
const LENT_LEN_MAX: usize = 4 << 20;

/// Chunks that are lent. All of them are back when this is gone, by return or by panic.
struct Lent<'a> {
    engine: &'a Engine,
    requests: Vec<RequestId>,
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        self.engine.end_lent(&mut self.requests);
    }
}

/// Sends a piece; most of it straight from where it lies.
pub(super) fn send_long(
    engine: &Engine,
    peer: PeerId,
    id: OutStreamId,
    piece: &[u8],
) -> Result<(), StreamError> {
    let read_len = tell(engine, peer, id, piece)?;
    match &piece[read_len..] {
        rest if rest.len() >= LENT_LEN_MIN => lend(engine, peer, id, rest),
        rest => engine.write_stream_all(peer, id, rest),
    }
}

/// Tells of a piece, if the peer can read it where it is, and waits until it was: how many bytes it read. The others are to be sent: it is another kind of peer, or
/// nobody extracts there just now.
fn tell(
    engine: &Engine,
    peer: PeerId,
    id: OutStreamId,
    piece: &[u8],
) -> Result<usize, StreamError> {
    /// What is told of is back when this is gone, by return or by panic.
    struct Told<'a>(&'a Engine, Vec<RequestId>);
    impl Drop for Told<'_> {
        fn drop(&mut self) {
            self.0.end_told(&mut self.1);
        }
    }

    let mut told = Told(engine, Vec::new());
    // SAFETY: `piece` is borrowed, shared, for the whole of this function, and `told`, which this function keeps to itself, does not go before the request was
    // taken, when the table has given the memory back; if there is no request, the table gave it back before the call returned. It is not written to.
    let memory = unsafe { Memory::borrowed(&[(piece.as_ptr().cast_mut(), piece.len())], false) };
    if !engine.tell_stream(peer, id, memory, &mut told.1) {
        return Ok(0);
    }
    let read_len = engine.end_told(&mut told.1).ok_or(StreamError::Gone)?;
    Ok(piece.len().min(read_len as usize))
}

/// Reads what was told of straight into this buffer, as far as the extraction may: how many bytes.
pub(super) fn read_told(engine: &Engine, id: StreamId, buffer: &mut [u8]) -> usize {
    // SAFETY: `buffer` is borrowed, exclusively, for the whole of the call, which gives the memory back before it returns. If it panics it does so with the engine
    // locked, and nobody uses what a broken engine still names.
    let memory = unsafe { Memory::borrowed(&[(buffer.as_mut_ptr(), buffer.len())], true) };
    engine.read_told(id, memory)
}

/// Sends a piece of which most is lent.
fn lend(engine: &Engine, peer: PeerId, id: OutStreamId, piece: &[u8]) -> Result<(), StreamError> {
    let (front, rest) = piece.split_at(piece.len().saturating_sub(COPIED_LEN));
    let mut before: Option<Lent<'_>> = None;
    for part in front.chunks(LENT_LEN_MAX) {
        let mut lent = Lent { engine, requests: Vec::new() };
        let mut left = part;
        let next = |chunk_len: usize| {
            let (chunk, behind) = left.split_at(chunk_len.min(left.len()));
            left = behind;
            // SAFETY: `chunk` is borrowed, shared, for the whole of this function, and `lent`, which this function keeps to itself,
            // does not go before every request was taken, when the table has given the memory back. It is not written to.
            let memory =
                || unsafe { Memory::borrowed(&[(chunk.as_ptr().cast_mut(), chunk.len())], false) };
            (!chunk.is_empty()).then(memory)
        };
        engine.write_stream_lent(id, next, &mut lent.requests)?;
        // The part before must be back before the one behind this is lent.
        settle(before.replace(lent))?;
    }
    engine.write_stream_all(peer, id, rest)?;
    settle(before)
}

/// Waits until a part is back, and says whether it arrived.
fn settle(lent: Option<Lent<'_>>) -> Result<(), StreamError> {
    let Some(mut lent) = lent else { return Ok(()) };
    if lent.engine.end_lent(&mut lent.requests) { Ok(()) } else { Err(StreamError::Gone) }
}
