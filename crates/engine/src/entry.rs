//! What a completion queue says of one ended operation, and how that lies in the queue's ring.
//!
//! ```text
//!   context │ request │ peer kind flags trouble space │ tag │ immediate │ len │ at ┃ placed len │ offset │ overflow
//!   ───────────────────────── one line of the ring, with its header ──────────────┃── only where they say something ──
//! ```
//!
//! Plain words without pointers, so that a queue could lie in memory shared with another process. Seven words and the
//! ring's header fill one cache line: nearly every completion crosses from core to core as one.

use packhorse_proto::wire::TOTAL_MAX;
use packhorse_proto::{Denial, Failure, GoneReason, Instant, PeerId, PostError, Space, Tag};

use crate::names::RequestId;

/// Which operation an entry tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A send ended.
    Sent,
    /// A receive took a message.
    Received,
    /// A receive matched a message that lies in an overflow entry's memory, where it stays.
    Overflowed,
    /// A receive ended without a message; or an entry used many times was unlinked.
    Unlinked,
    /// A write to a peer's memory ended.
    Put,
    /// A read of a peer's memory ended.
    Got,
    /// An atomic operation on a peer's memory ended.
    Atomic,
    /// A peer wrote to memory of ours, and asked for this entry.
    Written,
}

/// In the order of their numbers in the ring.
const KINDS: [Kind; 8] = [
    Kind::Sent,
    Kind::Received,
    Kind::Overflowed,
    Kind::Unlinked,
    Kind::Put,
    Kind::Got,
    Kind::Atomic,
    Kind::Written,
];

/// Why an operation that was posted to a queue did not succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The engine took the operation, and it failed.
    Failed(Failure),
    /// The operation was never begun: another thread drove when it was posted, and found it wrong when it came to it.
    Refused(PostError),
}

/// One entry of a completion queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The caller's word, as posted.
    pub context: u64,
    /// The request, for `Engine::take_memory`.
    pub request: RequestId,
    /// What ended.
    pub kind: Kind,
    /// The peer that it was exchanged with; `None` for a receive that took no message.
    pub peer: Option<PeerId>,
    /// Matching space of the message.
    pub space: Space,
    /// Match bits of the message; 0 for sends and one-sided operations.
    pub tag: Tag,
    /// 64 bits beside the payload.
    pub immediate: Option<u64>,
    /// The message's length; for a send that of its memory.
    pub len: u64,
    /// Bytes placed: less than `len` if it was truncated. Of a send that failed none.
    pub placed_len: u64,
    /// Where in the posted memory they start; for `Overflowed` in that of the overflow entry.
    pub offset: u64,
    /// `Overflowed`: the overflow entry's context.
    pub overflow_context: u64,
    /// How it ended.
    pub result: Result<(), Trouble>,
    /// The request ended with this entry. Not so for messages taken by an entry that is used many times.
    pub is_last: bool,
    /// The engine keeps memory for the caller: see `Engine::take_memory`.
    pub has_memory: bool,
    /// When, on the engine's clock: the turn in which it ended.
    pub at: Instant,
}

const WORD_LEN: usize = 8;
/// What fits one line of the ring.
const SHORT_LEN: usize = 7 * WORD_LEN;
const LONG_LEN: usize = 10 * WORD_LEN;
const _: () =
    assert!(SHORT_LEN + packhorse_link::ring::HEADER_LEN == packhorse_link::ring::LINE_LEN);

// The third word: the peer, then what is left beside it.
const PEER_BITS: u64 = (1 << PeerId::BITS) - 1;
const KIND_SHIFT: u32 = PeerId::BITS;
const KIND_BITS: u64 = 7;
const HAS_PEER: u64 = 1 << 47;
const HAS_IMMEDIATE: u64 = 1 << 48;
const HAS_MEMORY: u64 = 1 << 49;
const IS_LAST: u64 = 1 << 50;
const TROUBLE_SHIFT: u32 = 51;
const TROUBLE_BITS: u64 = 31;
const SPACE_SHIFT: u32 = 56;
const _: () = assert!(
    KIND_SHIFT <= 44
        && KINDS.len() as u64 - 1 <= KIND_BITS
        && TROUBLES.len() as u64 <= TROUBLE_BITS
);

impl Entry {
    /// Its bytes, and how many of them count.
    #[inline]
    pub(crate) fn encode(&self) -> ([u8; LONG_LEN], usize) {
        let flag = |is_set: bool, flag: u64| if is_set { flag } else { 0 };
        let bits = self.peer.map_or(0, |peer| peer.0 & PEER_BITS)
            | (self.kind as u64) << KIND_SHIFT
            | flag(self.peer.is_some(), HAS_PEER)
            | flag(self.immediate.is_some(), HAS_IMMEDIATE)
            | flag(self.has_memory, HAS_MEMORY)
            | flag(self.is_last, IS_LAST)
            | u64::from(trouble_code(self.result)) << TROUBLE_SHIFT
            | u64::from(self.space.0) << SPACE_SHIFT;
        let words = [
            self.context,
            self.request.0,
            bits,
            self.tag.0,
            self.immediate.unwrap_or(0),
            self.len,
            self.at.0,
            self.placed_len,
            self.offset,
            self.overflow_context,
        ];
        let mut bytes = [0; LONG_LEN];
        for (to, word) in bytes.chunks_exact_mut(WORD_LEN).zip(words) {
            to.copy_from_slice(&word.to_ne_bytes());
        }
        let is_plain =
            self.placed_len == self.len && self.offset == 0 && self.overflow_context == 0;
        (bytes, if is_plain { SHORT_LEN } else { LONG_LEN })
    }

    /// The entry in a record of `len` bytes, which `copy` puts where it is told; `None` if it is none.
    #[inline]
    pub(crate) fn decode(len: usize, copy: impl FnOnce(&mut [u8])) -> Option<Self> {
        if len != SHORT_LEN && len != LONG_LEN {
            return None;
        }
        let mut bytes = [0; LONG_LEN];
        copy(&mut bytes[..len]);
        let word = |index: usize| {
            let mut word = [0; WORD_LEN];
            word.copy_from_slice(&bytes[index * WORD_LEN..(index + 1) * WORD_LEN]);
            u64::from_ne_bytes(word)
        };
        let bits = word(2);
        Some(Self {
            context: word(0),
            request: RequestId(word(1)),
            kind: KINDS[(bits >> KIND_SHIFT & KIND_BITS) as usize],
            peer: (bits & HAS_PEER != 0).then_some(PeerId(bits & PEER_BITS)),
            space: Space((bits >> SPACE_SHIFT) as u8),
            tag: Tag(word(3)),
            immediate: (bits & HAS_IMMEDIATE != 0).then_some(word(4)),
            len: word(5),
            placed_len: word(if len == SHORT_LEN { 5 } else { 7 }),
            offset: word(8),
            overflow_context: word(9),
            result: trouble_of((bits >> TROUBLE_SHIFT & TROUBLE_BITS) as u8)?,
            is_last: bits & IS_LAST != 0,
            has_memory: bits & HAS_MEMORY != 0,
            at: Instant(word(6)),
        })
    }
}

/// All that can go wrong, in the order of their codes from 1 on. Of what is posted to a queue only what no message may exceed is too
/// long.
const TROUBLES: [Trouble; 25] = [
    Trouble::Failed(Failure::Cancelled),
    Trouble::Failed(Failure::CancelledByPeer),
    Trouble::Failed(Failure::Closed),
    Trouble::Failed(Failure::Closing),
    Trouble::Failed(Failure::Gone(GoneReason::Unreachable)),
    Trouble::Failed(Failure::Gone(GoneReason::Reset)),
    Trouble::Failed(Failure::Gone(GoneReason::Restarted)),
    Trouble::Failed(Failure::Gone(GoneReason::Died)),
    Trouble::Failed(Failure::Gone(GoneReason::Silent)),
    Trouble::Failed(Failure::Gone(GoneReason::Version)),
    Trouble::Refused(PostError::Closing),
    Trouble::Refused(PostError::UnknownPeer),
    Trouble::Refused(PostError::PoolFull),
    Trouble::Refused(PostError::UnknownHandle),
    Trouble::Refused(PostError::BadAtomic),
    Trouble::Failed(Failure::Denied(Denial::NoKey)),
    Trouble::Failed(Failure::Denied(Denial::Range)),
    Trouble::Failed(Failure::Denied(Denial::Access)),
    Trouble::Failed(Failure::Denied(Denial::Operation)),
    Trouble::Failed(Failure::Denied(Denial::Withdrawn)),
    Trouble::Failed(Failure::Gone(GoneReason::Unanswered)),
    Trouble::Refused(PostError::ReservedSpace),
    Trouble::Refused(PostError::TooLong { len_max: TOTAL_MAX }),
    Trouble::Failed(Failure::Gone(GoneReason::Refused)),
    Trouble::Failed(Failure::Gone(GoneReason::Forgotten)),
];

/// Exhaustive on purpose: a new failure must get a code.
fn trouble_code(result: Result<(), Trouble>) -> u8 {
    match result {
        Ok(()) => 0,
        Err(Trouble::Failed(Failure::Cancelled)) => 1,
        Err(Trouble::Failed(Failure::CancelledByPeer)) => 2,
        Err(Trouble::Failed(Failure::Closed)) => 3,
        Err(Trouble::Failed(Failure::Closing)) => 4,
        Err(Trouble::Failed(Failure::Gone(reason))) => match reason {
            GoneReason::Unreachable => 5,
            GoneReason::Reset => 6,
            GoneReason::Restarted => 7,
            GoneReason::Died => 8,
            GoneReason::Silent => 9,
            GoneReason::Version => 10,
            GoneReason::Unanswered => 21,
            GoneReason::Refused => 24,
            GoneReason::Forgotten => 25,
        },
        Err(Trouble::Failed(Failure::Denied(denial))) => match denial {
            Denial::NoKey => 16,
            Denial::Range => 17,
            Denial::Access => 18,
            Denial::Operation => 19,
            Denial::Withdrawn => 20,
        },
        Err(Trouble::Refused(error)) => match error {
            PostError::Closing => 11,
            PostError::UnknownPeer => 12,
            PostError::PoolFull => 13,
            PostError::UnknownHandle => 14,
            PostError::BadAtomic => 15,
            PostError::ReservedSpace => 22,
            PostError::TooLong { .. } => 23,
        },
    }
}

fn trouble_of(code: u8) -> Option<Result<(), Trouble>> {
    match usize::from(code).checked_sub(1) {
        None => Some(Ok(())),
        Some(index) => TROUBLES.get(index).map(|&trouble| Err(trouble)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain() -> Entry {
        Entry {
            context: u64::MAX,
            request: RequestId(7),
            kind: Kind::Received,
            peer: Some(PeerId(PEER_BITS)),
            space: Space(255),
            tag: Tag(1 << 63),
            immediate: Some(0),
            len: 5,
            placed_len: 5,
            offset: 0,
            overflow_context: 0,
            result: Ok(()),
            is_last: true,
            has_memory: false,
            at: Instant(9),
        }
    }

    fn through(entry: Entry) -> (Option<Entry>, usize) {
        let (bytes, len) = entry.encode();
        (Entry::decode(len, |out| out.copy_from_slice(&bytes[..len])), len)
    }

    #[test]
    fn entries_survive_the_ring_short_or_long() {
        assert_eq!(through(plain()), (Some(plain()), SHORT_LEN));
        let odd = [
            Entry { placed_len: 3, ..plain() },
            Entry { offset: 1 << 40, has_memory: true, is_last: false, ..plain() },
            Entry { overflow_context: 1, peer: None, immediate: None, ..plain() },
        ];
        for entry in odd {
            assert_eq!(through(entry), (Some(entry), LONG_LEN));
        }
    }

    #[test]
    fn every_kind_and_trouble_has_its_number() {
        for kind in KINDS {
            assert_eq!(through(Entry { kind, ..plain() }).0.unwrap().kind, kind);
        }
        for trouble in TROUBLES {
            let entry = Entry { result: Err(trouble), ..plain() };
            assert_eq!(through(entry).0, Some(entry));
        }
    }

    #[test]
    fn what_is_no_entry_is_not_taken_for_one() {
        assert_eq!(Entry::decode(SHORT_LEN - 1, |_| {}), None);
        let unknown = (TROUBLES.len() as u64 + 1) << TROUBLE_SHIFT;
        let trouble_unknown = |out: &mut [u8]| out[16..24].copy_from_slice(&unknown.to_ne_bytes());
        assert_eq!(Entry::decode(SHORT_LEN, trouble_unknown), None);
    }
}
