//! A send that is not over: where its payload lies, how far it has come, and its place in the line of its peer's.

use crate::PostError;
use crate::base::api::{Event, Failure, SendSpec, Source};
use crate::base::gaps::GapSet;
use crate::base::pool::BytePool;
use crate::base::slab::NONE;
use crate::base::types::{BufId, PeerId, ReqId, Space, Tag};
use crate::peers::ahead::Announced;
use crate::peers::events::Events;
use crate::peers::line::InLine;
use crate::wire::{self, EagerRepr, Lane};

/// Tells a send's `ReqId` from a receive's. The bit below it tells one-sided operations (`OPERATION_BIT`); serials use the other 30 bits
/// of the upper half (`slab`).
pub(crate) const SEND_BIT: u64 = 1 << 63;

/// Where the payload of a send lies.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bytes {
    User(BufId),
    Pool(u32),
    /// In the pool too, but as frames: bytes of each head but the last, and what follows each (`framed`).
    Frames {
        pool: u32,
        head_len: u16,
        payload_len: u16,
    },
}

/// How far a send has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SendStage {
    /// Some of it was never sent, or was lost.
    Waiting,
    /// All of it (of a large message: its announcement) is on its way.
    Sent,
    /// The peer asked for it out of turn (PROTOCOL §7.6): from now on it is a large message without announcement.
    Pulled,
}

/// A message of ours the peer has not accepted yet.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pub(super) tag: Tag,
    pub(super) immediate: Option<u64>,
    pub(super) total: u64,
    pub(super) message: u64,
    pub(super) user: u64,
    pub(super) bytes: Bytes,
    pub(super) peer: PeerId,
    /// The row of that peer.
    pub(super) row: u32,
    /// Its neighbours in its peer's list. That of the first before it is not kept up: most sends end at the front.
    pub(super) previous: u32,
    pub(super) next: u32,
    /// Slot of `Parts` when it does not go in one piece.
    pub(super) parts: u32,
    pub(super) space: Space,
    pub(super) stage: SendStage,
    pub(super) is_large: bool,
    pub(super) until_matched: bool,
    /// Among those that were granted (`Line`).
    pub(super) is_queued: bool,
    /// Announced: how it counts against what may be sent ahead (`ahead`).
    pub(super) announced: Announced,
    /// Eager, over when it is accepted, with an event, and nobody learns from its fate: what most sends are.
    pub(super) is_simple: bool,
}

/// The bytes of an outgoing message that goes in several frames.
#[derive(Debug)]
pub(crate) struct Parts {
    /// Whose number it has.
    pub(super) lane: Lane,
    /// Where in its memory it begins.
    pub(super) base: u64,
    /// To be sent: of an eager message what was never sent or lost; of a large one what was granted.
    pub(super) unsent: GapSet,
    /// Not yet acknowledged (eager only).
    pub(super) unacked: GapSet,
}

impl Default for Parts {
    fn default() -> Self {
        let (unsent, unacked) = (GapSet::default(), GapSet::default());
        Self { lane: Lane::Message, base: 0, unsent, unacked }
    }
}

impl Bytes {
    /// What is there from `offset` on.
    #[inline(always)]
    pub(crate) fn source(self, offset: u64) -> Source {
        match self {
            Self::User(buf) => Source::User { buf, offset },
            Self::Pool(slot) => Source::Pool { slot, offset: offset as u32 },
            Self::Frames { .. } => self.framed_source(offset),
        }
    }

    /// What is there from `offset` on, of bytes kept as frames: a piece of one frame. Whoever sends a message again has unframed it before.
    #[cold]
    #[inline(never)]
    fn framed_source(self, offset: u64) -> Source {
        debug_assert!(false, "what is sent again is unframed before");
        let Self::Frames { pool, head_len, payload_len } = self else { return Source::Zero };
        let head_count = offset / u64::from(payload_len.max(1)) + 1;
        let offset = offset + head_count * u64::from(head_len);
        Source::Pool { slot: pool, offset: offset as u32 }
    }

    /// The bytes were copied: where the copy is.
    #[inline(always)]
    pub(crate) fn pool(self) -> Option<u32> {
        match self {
            Self::User(_) => None,
            Self::Pool(pool) | Self::Frames { pool, .. } => Some(pool),
        }
    }
}

impl Outgoing {
    /// A message that is posted: its bytes and their number, its own number and the message before it.
    #[inline(always)]
    pub(crate) fn new(
        spec: &SendSpec<'_>,
        (bytes, total): (Bytes, u64),
        (message, previous): (u64, u32),
        is_large: bool,
    ) -> Self {
        Self {
            tag: spec.tag,
            immediate: spec.immediate,
            total,
            message,
            user: spec.user,
            bytes,
            peer: spec.peer,
            row: spec.peer.row(),
            previous,
            next: NONE,
            parts: NONE,
            space: spec.space,
            stage: SendStage::Waiting,
            is_large,
            until_matched: spec.until_matched,
            is_queued: false,
            announced: Announced::No,
            is_simple: !(is_large || spec.until_matched),
        }
    }

    /// The peer has granted some of it: it knows the message, and cannot refuse it any more.
    pub(super) fn is_granted(&self) -> bool {
        self.stage == SendStage::Pulled || self.announced.is_known()
    }

    /// Whether it can go as one Eager record into this much room.
    #[inline]
    pub(super) fn fits_whole(&self, room: usize) -> bool {
        let head_len = wire::eager_head_len(self.immediate.is_some());
        !self.is_large && self.parts == NONE && self.total as usize + head_len <= room
    }

    /// Whether it is over when the peer has accepted so many bytes, in one piece: what most sends are.
    #[inline(always)]
    pub(super) fn ends_when_accepted(&self, len: u32) -> bool {
        self.is_simple
            && self.parts == NONE
            && self.stage != SendStage::Pulled
            && self.total == u64::from(len)
    }

    /// The application is told how it ended, and copied bytes are given back: of those only a failure is told, and of a stream that
    /// breaks its writer is told elsewhere.
    #[inline(always)]
    pub(super) fn tell_end(
        &self,
        req: ReqId,
        result: Result<u64, Failure>,
        copied: &mut BytePool,
        events: &mut Events,
    ) {
        let &Self { peer, space, tag, user, total: len, .. } = self;
        match self.bytes.pool() {
            Some(pool) => {
                copied.release(pool);
                if let (Err(failure), false) = (result, space == Space::STREAMS) {
                    events.tell(Event::Lost { peer, space, tag, len, failure });
                }
            }
            None => {
                let placed_len = result.unwrap_or(0);
                let result = result.map(|_| ());
                events.tell(Event::Sent { req, user, peer, placed_len, result });
            }
        }
    }

    /// Its Eager record, but for the immediate.
    #[inline(always)]
    pub(crate) fn eager(&self) -> EagerRepr {
        EagerRepr {
            space: self.space,
            message: self.message as u32,
            tag: self.tag,
            wants_match: self.until_matched,
            len: self.total as u16,
        }
    }

    #[inline(always)]
    pub(crate) fn source(&self, offset: u64) -> Source {
        self.bytes.source(offset)
    }
}

impl InLine for Outgoing {
    #[inline(always)]
    fn neighbours(&self) -> (u32, u32) {
        (self.previous, self.next)
    }

    #[inline(always)]
    fn set_previous(&mut self, slot: u32) {
        self.previous = slot;
    }

    #[inline(always)]
    fn set_next(&mut self, slot: u32) {
        self.next = slot;
    }
}

/// The request of a send, by its slot and serial.
#[inline(always)]
pub(super) fn send_req(slot: u32, serial: u32) -> ReqId {
    ReqId(u64::from(serial) << 32 | u64::from(slot) | SEND_BIT)
}

/// Tells an operation's `ReqId` from those of sends and receives.
pub(crate) const OPERATION_BIT: u64 = 1 << 62;

/// Whether a message, a put or a get may be so long.
pub(crate) fn check_len(total: u64, len_max: u64) -> Result<(), PostError> {
    if total > len_max { Err(PostError::TooLong { len_max }) } else { Ok(()) }
}

/// Tells a slot of `Onesided::results` from one of `Bulk::copied` where a frame names its pieces.
pub(crate) const RESULT_BIT: u32 = 1 << 31;
