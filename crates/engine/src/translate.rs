//! Where the words of `proto` become those of `link`, and back.
//!
//! The two crates do not know each other, so what they speak of alike has a type in each. Locators are the same 24 bytes in both:
//! `proto` wraps them, `link` does not.

use packhorse_link::burst::Train;
use packhorse_link::mem::MemoryId;
use packhorse_link::{About, Cause};
use packhorse_proto::{BufId, LinkTraits, Obstacle, Reliability, TxTrain};

/// The protocol's name of lent memory.
#[inline]
pub(crate) fn buf_of(memory: MemoryId) -> BufId {
    BufId(memory.0)
}

/// The name of lent memory that the protocol was given.
#[inline]
pub(crate) fn memory_of(buf: BufId) -> MemoryId {
    MemoryId(buf.0)
}

/// Where payload is expected, for a link.
#[inline]
pub(crate) fn landing_of(expected: &packhorse_proto::Landing) -> packhorse_link::Landing {
    packhorse_link::Landing {
        id: memory_of(expected.buf),
        offset: expected.offset,
        len: expected.len,
        head_len: expected.head_len,
        payload_len: expected.payload_len as usize,
    }
}

/// A train whose payload lies in one piece at `offset` of `buf`, for a link.
#[inline]
pub(crate) fn train_of(train: &TxTrain, buf: BufId, offset: u64) -> Train {
    Train {
        count: train.count as u32,
        head_len: train.head_len as u32,
        payload_len: train.payload_len,
        last_len: train.last_len,
        id: memory_of(buf),
        offset,
    }
}

/// What the protocol must know of a link. `payload_check`: bodies of what leaves by it are summed. `can_fetch`: it tells where bytes are.
pub(crate) fn traits_of(about: &About, payload_check: bool, can_fetch: bool) -> LinkTraits {
    LinkTraits {
        frame_len_max: about.frame_len_max.min(usize::from(u16::MAX)) as u16,
        payload_check,
        reliability: match about.reliability {
            packhorse_link::Reliability::Lossy => Reliability::Lossy,
            packhorse_link::Reliability::Ordered { may_break } => {
                Reliability::Ordered { may_break }
            }
        },
        is_private: about.is_private,
        can_fetch,
        train_len_max: u32::try_from(about.train_len_max).unwrap_or(u32::MAX),
    }
}

pub(crate) fn obstacle_of(cause: &Cause) -> Obstacle<'_> {
    match cause {
        Cause::Void => Obstacle::Void,
        Cause::Here => Obstacle::Here,
        Cause::Way(quote) => Obstacle::Way(quote),
        Cause::Refused(quote) => Obstacle::Refused(quote),
        Cause::Closed => Obstacle::Closed,
    }
}
