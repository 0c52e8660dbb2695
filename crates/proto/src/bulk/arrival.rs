//! What is remembered of messages under way: the nouns of `holding`, `bound` and `filling`.
//!
//! ```text
//!            before its turn            in turn, no receive
//!                 Early ───────turn──────▶ Unexpected ──claim──▶ Claimed
//!                   │                          │                   │
//!                   └──────────▶ Arriving ◀────┴───────────────────┘      (matched, bytes still missing)
//!                                   │
//!                            finished: removed, or Lapsed while its number is still before its turn
//! ```

use crate::base::api::{Envelope, GoneReason};
use crate::base::gaps::GapSet;
use crate::base::limits::SECOND;
use crate::base::slab::NONE;
use crate::base::types::{Instant, PeerId, Space, Tag};
use crate::bulk::receives::Fit;
use crate::matching::HeldId;
use crate::wire::Whereabouts;
use crate::wire::{Class, Lane, MessageHead};

/// Where an arrival stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Ahead of its turn.
    Early,
    /// In the unexpected list.
    Unexpected,
    /// Taken out of it by the application.
    Claimed,
    /// Claimed, but its sender went before it was whole.
    Orphaned(GoneReason),
    /// A chunk of a stream that had its turn (`streams`).
    Streamed,
    /// Matched; bytes are missing.
    Arriving,
    /// Over before its turn came; only the number is remembered.
    Lapsed,
}

/// A message that is not simply over.
#[derive(Debug)]
pub(crate) struct Arrival {
    pub(crate) tag: Tag,
    pub(crate) immediate: u64,
    pub(crate) total: u64,
    pub(crate) source: PeerId,
    /// The row of that peer.
    pub(crate) row: u32,
    /// The arrivals of that peer which came before and after it, as long as they are there; or NONE.
    pub(super) older: u32,
    pub(super) newer: u32,
    /// Low half of its number.
    pub(crate) message: u32,
    /// Slot of the held payload, or NONE.
    pub(super) hold: u32,
    /// Slot of `Progress` while bytes are missing (or an overflow entry holds it).
    pub(super) progress: u32,
    pub(super) held_id: Option<HeldId>,
    pub(crate) space: Space,
    /// Whose number it has: it is a message, or what comes of a put or a get.
    pub(crate) lane: Lane,
    pub(crate) stage: Stage,
    pub(crate) has_immediate: bool,
    pub(crate) wants_match: bool,
    pub(crate) is_large: bool,
    /// The association that it came in is over, and with it its number.
    pub(crate) is_parted: bool,
    /// Counts against the envelope budget.
    pub(super) charged: bool,
    /// Its bytes lie in an overflow entry.
    pub(crate) in_overflow: bool,
}

/// An arrival with missing bytes.
#[derive(Debug)]
pub(crate) struct Progress {
    /// What is missing of the bytes that are wanted.
    pub(super) gaps: GapSet,
    /// The receive it goes to, or NONE while held.
    pub(super) receive: u32,
    /// Where in the receive's memory it starts.
    pub(super) offset: u64,
    /// How many bytes are wanted.
    pub(super) cap: u64,
    /// Grants were given up to here.
    pub(super) granted_to: u64,
    /// Its sender sends it up to here without a grant, and nothing of that was dropped so far.
    pub(super) ahead_to: u64,
    /// Where its sender says that it is, as long as it is fetched and not granted.
    pub(super) told: Option<Whereabouts>,
    pub(super) progressed_at: Instant,
    /// When what was granted and did not come was last granted again.
    pub(super) regranted_at: Instant,
    /// Grants queued or in flight: while there are any, none is repeated beside them.
    pub(super) grant_count: u32,
    /// A priority receive that matched it while it lies in an overflow entry, or NONE.
    pub(super) claimant: u32,
    /// While it waits for its peer's earlier messages to be granted: its neighbours, or NONE.
    pub(super) waiting: Option<(u32, u32)>,
}

/// What does not come is granted again at least this often: whoever acknowledges grants and sends nothing may do so for ever.
const REGRANT_PAUSE_NS_MAX: u64 = SECOND;

impl Progress {
    /// When what does not come is granted again: after so long, and if it does not come then, each time after twice as long (PROTOCOL §8.5).
    pub(super) fn regrant_due(&self, patience_ns: u64) -> Instant {
        let in_vain_ns = self.regranted_at.since_ns(self.progressed_at).min(REGRANT_PAUSE_NS_MAX);
        self.progressed_at.max(self.regranted_at) + patience_ns.max(in_vain_ns)
    }
}

impl Arrival {
    #[inline(always)] // so that it is made where it will lie
    pub(super) fn new(source: PeerId, head: &MessageHead, stage: Stage) -> Self {
        Self {
            tag: head.tag,
            immediate: head.immediate.unwrap_or(0),
            total: head.total,
            source,
            row: source.row(),
            older: NONE,
            newer: NONE,
            message: head.message,
            hold: NONE,
            progress: NONE,
            held_id: None,
            space: head.space,
            lane: Lane::Message,
            stage,
            has_immediate: head.immediate.is_some(),
            wants_match: head.wants_match,
            is_parted: false,
            is_large: head.class == Class::Rts,
            charged: false,
            in_overflow: false,
        }
    }

    /// In the unexpected list and whole, its bytes in the pool: its number is not remembered any more.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.stage == Stage::Unexpected
            && self.progress == NONE
            && !(self.in_overflow || self.is_large)
    }

    /// All of it is here, in memory of ours.
    #[inline]
    pub(crate) fn is_here(&self) -> bool {
        self.progress == NONE
    }

    /// Bytes of it may be missing.
    #[inline]
    pub(crate) fn is_awaited(&self) -> bool {
        self.progress != NONE && self.stage != Stage::Lapsed
    }

    pub(crate) fn envelope(&self) -> Envelope {
        Envelope {
            source: self.source,
            space: self.space,
            tag: self.tag,
            immediate: self.has_immediate.then_some(self.immediate),
            len: self.total,
        }
    }
}

/// The key of a message in `Bulk::by_number`.
pub(crate) fn number_key(row: u32, message: u32) -> u64 {
    u64::from(row) << 32 | u64::from(message)
}

/// The key of a transfer of any lane: a message's, a put's or a get's. Rows have 24 bits, so the lane has room.
pub(super) fn lane_key(lane: Lane, row: u32, message: u32) -> u64 {
    (lane as u64) << LANE_SHIFT | number_key(row, message)
}

/// The lane of such a key, as on the wire.
pub(super) fn lane_of(key: u64) -> u8 {
    (key >> LANE_SHIFT) as u8
}

const LANE_SHIFT: u32 = 60;

/// Payload bytes that must be held for a message without a receive: none for a large one.
pub(crate) fn held_len(head: &MessageHead) -> u64 {
    if head.class == Class::Rts { 0 } else { head.total }
}

impl Progress {
    /// Where the first byte is missing that is wanted; the end of what is wanted if none is.
    pub(super) fn first_wanted(&self) -> u64 {
        self.gaps.first_gap().map_or(self.cap, |gap| gap.0)
    }

    /// Of a message whose first record comes after its receive was found.
    pub(crate) fn bound(fit: &Fit, now: Instant) -> Self {
        let &Fit { receive, offset, cap, .. } = fit;
        Self { receive, offset, cap, ..Self::held(GapSet::whole(cap), cap, now) }
    }

    pub(crate) fn held(gaps: GapSet, cap: u64, now: Instant) -> Self {
        Self {
            gaps,
            receive: NONE,
            offset: 0,
            cap,
            granted_to: 0,
            ahead_to: 0,
            told: None,
            progressed_at: now,
            regranted_at: now,
            grant_count: 0,
            claimant: NONE,
            waiting: None,
        }
    }
}

/// Holes a fragmented message may have; a sender that sends in order makes one per lost frame.
pub(crate) const GAP_COUNT_MAX: usize = 512;

/// Where data came last on a link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor {
    pub(super) slot: u32,
    pub(super) serial: u32,
    /// Where in the message the data ended.
    pub(super) offset: u64,
}

impl Cursor {
    pub(crate) const NOWHERE: Self = Self { slot: NONE, serial: 0, offset: 0 };
}
