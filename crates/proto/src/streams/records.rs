//! A stream that is sent, and a piece of one that was told of, as they are remembered.

use crate::base::types::{Locator, PeerId};
use crate::wire::Whereabouts;

/// How an outbound stream is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Open,
    Good,
    GivenUp,
}

/// A stream that is sent.
#[derive(Debug)]
pub(crate) struct Outbound {
    pub(crate) row: u32,
    pub(crate) number: u32,
    pub(crate) handler: u16,
    pub(crate) ending: Ending,
    /// A chunk of it was posted, in this association.
    pub(crate) is_begun: bool,
    pub(crate) association: u64,
    /// The chunk that is filled: where in the resend pool, so far, at most.
    pub(crate) pool: u32,
    pub(crate) filled_len: u32,
    pub(crate) room_len: u32,
}

/// A chunk that was told of.
#[derive(Debug)]
pub(crate) struct ToldChunk {
    /// Which of `Streams::chunks`.
    pub(super) chunk: u32,
    pub(super) row: u32,
    pub(super) message: u32,
    pub(super) total: u64,
    /// So many bytes were read.
    pub(super) from: u64,
    pub(super) whereabouts: Whereabouts,
}

/// Bytes that are next in a stream, and lie where their sender told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToldFront {
    /// By which local link,
    pub link: u8,
    /// and from whom.
    pub from: Locator,
    /// What the sender said.
    pub whereabouts: Whereabouts,
    /// The first byte that was not read yet.
    pub offset: u64,
    /// How many there are from there on.
    pub len: u64,
}

/// The end of such a chunk, which its sender is still to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ToldEnd {
    pub(crate) peer: PeerId,
    /// The association it came with.
    pub(super) association: u64,
    pub(crate) message: u32,
    pub(crate) placed_len: u64,
}
