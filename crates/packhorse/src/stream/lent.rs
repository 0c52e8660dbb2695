//! Long pieces leave from where they lie.
//!
//! A piece is its owner's again when `send` returns, so it is copied, unless it is long. Then `send` lends its front to the engine,
//! chunk by chunk, copies only the rest, and waits for the front to be accepted: by then the rest is under way, and the link does
//! not fall silent in between.

use packhorse_engine::{Engine, RequestId};
use packhorse_link::mem::Memory;
use packhorse_proto::{OutStreamId, PeerId, StreamError};

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
