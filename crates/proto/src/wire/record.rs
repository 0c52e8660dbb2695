//! What records say, messages and acknowledgements first; introductions are in `contact`.

use core::iter;

use super::contact::{HelloView, WelcomeView};
use super::layout::{
    First, Lane, Word, eager_head_len, fragment_head_len, kind, number, pair, rts_head_len, unpair,
};
use super::matched::OutcomeRepr;
use super::request::RequestHead;
use crate::base::types::{Space, Tag};

/// A record, without its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// CRC32C over all bodies; only ever the first record.
    Check {
        /// The sum.
        crc: u32,
    },
    /// What arrived.
    Ack(AckView<'a>),
    /// Asks for an acknowledgement, nothing else.
    Ping,
    /// Makes the frame longer; the body is zeros.
    Pad,
    /// A message, a part of one, or the announcement of one.
    Message(MessageHead),
    /// The receiver is ready for a range of a large message, put or get.
    Grant {
        /// Whose number it is.
        lane: Lane,
        /// The message.
        message: u32,
        /// First byte.
        offset: u64,
        /// Bytes; the range does not pass the end of u64.
        len: u64,
    },
    /// Granted bytes, as many as the body has.
    Data {
        /// Whose number it is.
        lane: Lane,
        /// The message.
        message: u32,
        /// First byte; with the body it does not pass the end of u64.
        offset: u64,
    },
    /// The end of a message at its receiver.
    Done {
        /// The message.
        message: u32,
        /// One of `DONE_*`; a newer peer may have others.
        status: u8,
        /// Bytes that the receive took; a peer may say more than the message had.
        placed_len: u64,
    },
    /// The sender withdrew a message.
    Cancel {
        /// The message.
        message: u32,
    },
    /// No room for messages from this one on.
    Refuse {
        /// The message.
        message: u32,
        /// Counts refusals and recalls.
        order: u16,
    },
    /// Room again from this message on.
    Recall {
        /// The message.
        message: u32,
        /// Counts refusals and recalls.
        order: u16,
    },
    /// Is there a message for this receive among those refused?
    Query {
        /// Number of the query, for the answer.
        query: u32,
        /// The space searched.
        space: Space,
        /// The bits wanted.
        tag: Tag,
        /// Bits not compared.
        ignore: u64,
    },
    /// Answer to a query.
    Found(FoundRepr),
    /// An operation on memory that the receiver exposed.
    Request(RequestHead),
    /// What came of a request; what was asked for is the body.
    Reply {
        /// Low half of the request's number.
        number: u32,
        /// One of `REPLY_*`; a newer peer may have others.
        status: u8,
    },
    /// Requests that were carried out, and asked for nothing.
    Replied {
        /// Low half of the first one's number.
        first: u32,
        /// How many, one behind the other; at least 1.
        count: u16,
    },
    /// What became of a request that was matched (PROTOCOL §17); what was asked for is the body.
    Outcome {
        /// Low half of the request's number.
        number: u32,
        /// What.
        answer: OutcomeRepr,
    },
    /// Nothing more is wanted of a request: it is complete, or was cancelled.
    End {
        /// Low half of its number.
        number: u32,
    },
    /// The sender of chunks may go on (PROTOCOL §12.3).
    StreamCredit {
        /// Up to this sum of costs since the association began.
        limit: u64,
    },
    /// A sender introduces itself.
    Hello(HelloView<'a>),
    /// Answer to a Hello: show that you can hear me.
    Challenge {
        /// As in Hello.
        flags: u8,
        /// Versions spoken.
        versions: u8,
        /// The Hello's.
        nonce: u64,
        /// To be echoed.
        cookie: u64,
        /// The answerer's.
        incarnation: u64,
    },
    /// The cookie of a Challenge, beside a Hello.
    Echo {
        /// As given.
        cookie: u64,
    },
    /// The Hello is believed.
    Welcome(WelcomeView<'a>),
    /// No association has this id.
    Reset {
        /// The id.
        id: u64,
    },
    /// The peer leaves.
    Goodbye {
        /// It accepted messages below this one.
        message: u32,
    },
    /// A Hello came in a version that is not spoken.
    Versions {
        /// Lowest spoken.
        min: u8,
        /// Highest spoken.
        max: u8,
        /// The Hello's.
        nonce: u64,
    },
    /// Show that you can hear me at this locator.
    PathChallenge {
        /// The path in question.
        path: u8,
        /// To be returned.
        nonce: u64,
    },
    /// Answer to a PathChallenge.
    PathResponse {
        /// The path in question.
        path: u8,
        /// As given.
        nonce: u64,
    },
}

/// What a message record holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)] // the kinds themselves: a head is written without asking which
pub enum Class {
    /// A whole message.
    Eager = kind::EAGER,
    /// A part of a message that is sent without being asked for.
    Fragment = kind::FRAGMENT,
    /// The announcement of a large message, and its first bytes.
    Rts = kind::RTS,
    /// The announcement of a large message, and where it is.
    Told = kind::TOLD,
}

/// Head of Eager, Fragment, Rts and Told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageHead {
    /// Which of the four.
    pub class: Class,
    /// Matching space.
    pub space: Space,
    /// Low half of the message number.
    pub message: u32,
    /// Match bits.
    pub tag: Tag,
    /// Where the body belongs; 0 but for Fragment.
    pub offset: u32,
    /// Length of the whole message; `len` for Eager, at most u32 for Fragment.
    pub total: u64,
    /// 64 bits beside the payload.
    pub immediate: Option<u64>,
    /// The sender wants to hear of the match.
    pub wants_match: bool,
    /// Bytes of the body.
    pub len: u16,
    /// Rts: the message is sent up to here, about, without a grant (PROTOCOL §8.9); in units of [`AHEAD_UNIT`].
    pub ahead: u16,
}

/// What a head states of bytes sent ahead it counts in these.
pub const AHEAD_UNIT: u64 = 1024;

/// Bytes of a message, at most: what a head has room for.
pub const TOTAL_MAX: u64 = (1 << 48) - 1;

/// What an Eager says, but for an immediate: a whole message in one record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EagerRepr {
    /// The matching space.
    pub space: Space,
    /// Low half of the message's number.
    pub message: u32,
    /// The match bits.
    pub tag: Tag,
    /// Whether the sender wants to hear of the match.
    pub wants_match: bool,
    /// Bytes of body.
    pub len: u16,
}

impl EagerRepr {
    /// The two words of a head without immediate.
    #[inline(always)]
    pub(crate) fn words(self) -> [u64; 2] {
        let wants_match = u8::from(self.wants_match) * kind::WANTS_MATCH;
        let kind = kind::EAGER | wants_match;
        [First::word(kind, self.space.0, self.len, self.message), self.tag.0]
    }
}

impl MessageHead {
    /// Bytes of this head.
    pub const fn head_len(&self) -> usize {
        match self.class {
            Class::Eager => eager_head_len(self.immediate.is_some()),
            Class::Fragment => fragment_head_len(self.immediate.is_some()),
            Class::Rts | Class::Told => rts_head_len(self.immediate.is_some()),
        }
    }
}

/// The fixed part of an Ack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AckRepr {
    /// The sender's path it speaks of.
    pub path: u8,
    /// Low half of the largest packet number received.
    pub largest: u32,
    /// Packets received without a gap up to and with `largest`; at least 1.
    pub first_len: u32,
    /// Time since `largest` arrived.
    pub delay_ns: u32,
    /// Eager payload the receiver would hold (PROTOCOL §5.5).
    pub credit_len: u32,
}

impl AckRepr {
    /// The packets it speaks of, first and last, if nothing is below them; `last` is the completed number. `None` where the
    /// peer's arithmetic would lead below packet 1.
    #[inline(always)]
    pub(crate) fn range(&self, last: u64) -> Option<(u64, u64)> {
        let below = last.checked_sub(u64::from(self.first_len))?;
        Some((below + 1, last))
    }

    /// The three words of a head without pairs.
    #[inline(always)]
    pub(crate) fn words(&self) -> [u64; 3] {
        let Self { path, largest, first_len, delay_ns, credit_len } = *self;
        [First::word(kind::ACK, path, 0, largest), pair(first_len, delay_ns), pair(credit_len, 0)]
    }
}

/// An Ack as received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AckView<'a> {
    pub(super) repr: AckRepr,
    pub(super) pairs: &'a [Word],
}

impl From<AckRepr> for AckView<'_> {
    fn from(repr: AckRepr) -> Self {
        Self { repr, pairs: &[] }
    }
}

impl<'a> AckView<'a> {
    /// An Ack of these three words.
    #[inline(always)]
    pub(super) fn without_pairs(first: First, lens: u64, credit: u64) -> Self {
        let (path, largest) = (first.a(), first.c());
        let (first_len, delay_ns) = unpair(lens);
        let (credit_len, _) = unpair(credit);
        Self { repr: AckRepr { path, largest, first_len, delay_ns, credit_len }, pairs: &[] }
    }

    /// The fixed part.
    pub fn repr(&self) -> AckRepr {
        self.repr
    }

    /// The path it speaks of.
    pub fn path(&self) -> u8 {
        self.repr.path
    }

    /// Low half of the largest packet number received.
    pub fn largest(&self) -> u32 {
        self.repr.largest
    }

    /// Whether it speaks of one range only.
    pub fn has_no_holes(&self) -> bool {
        self.pairs.is_empty()
    }

    /// Packets received without a gap up to and with `largest`.
    pub fn first_len(&self) -> u32 {
        self.repr.first_len
    }

    /// Time since `largest` arrived.
    pub fn delay_ns(&self) -> u32 {
        self.repr.delay_ns
    }

    /// Eager payload the receiver would hold.
    pub fn credit_len(&self) -> u32 {
        self.repr.credit_len
    }

    /// The packets received, as inclusive ranges (low, high), highest first. `largest` is the completed number. Ends
    /// early where the peer's arithmetic would lead below packet 1, the first there is.
    #[inline]
    pub fn ranges(&self, largest: u64) -> impl Iterator<Item = (u64, u64)> + use<'a> {
        let mut top = largest; // nothing above it is left to speak of
        let mut pairs = self.pairs.iter();
        let mut step = Some((0, self.repr.first_len));
        iter::from_fn(move || {
            let (skip, take) = step.take()?; // taken: once ended it stays ended
            let high = top.checked_sub(u64::from(skip))?;
            let below = high.checked_sub(u64::from(take))?;
            if take == 0 {
                return None;
            }
            step = pairs.next().map(|pair| unpair(number(pair)));
            top = below;
            Some((below + 1, high))
        })
    }
}

/// Answer to a query (PROTOCOL §7.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundRepr {
    /// Number of the query.
    pub query: u32,
    /// The message's space.
    pub space: Space,
    /// The message's bits.
    pub tag: Tag,
    /// Its number.
    pub message: u32,
    /// Its length.
    pub total: u64,
    /// Its immediate.
    pub immediate: Option<u64>,
    /// Nothing was found; but for `query` nothing else has a meaning.
    pub none: bool,
}
