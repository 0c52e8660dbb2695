//! The usual frames, read in a straight line: an Ack without holes, small messages, or both.
//!
//! Nearly everything that arrives has one of these shapes. What has none of them is read by the general rules of `read`,
//! which would read these frames just the same.

use super::layout::{
    ACKED_EAGER_LEN, FORM_STRANGER, FORM_UNKNOWN, First, HEADER_LEN, Header, LONE_EAGER_LEN,
    WORD_LEN, Word, ack_head_len, check_tail, kind, number, unpair,
};
use super::read::{FrameView, eager};
use super::record::{AckRepr, AckView, MessageHead};
use crate::base::types::{Space, Tag};
use crate::seal::{Pass, Seal};

impl<'a> FrameView<'a> {
    /// The frame, if it is plain. It is valid then, if the sum is right; if not it may be valid all the same.
    #[inline(always)]
    pub fn plain(&self) -> Option<PlainView<'a>> {
        let crc = self.crc();
        let mut heads = &self.heads[usize::from(crc.is_some())..];
        let mut ack = None;
        if let [first, lens, credit, rest @ ..] = heads
            && First::read(*first).kind() == kind::ACK
        {
            let view = AckView::without_pairs(First::read(*first), number(lens), number(credit));
            if First::read(*first).b() as u8 != 0 || view.repr.first_len == 0 {
                return None;
            }
            ack = Some(view);
            heads = rest;
        }
        let (messages, mut body_len) = (heads, 0);
        while let [first, _, rest @ ..] = heads {
            let first = First::read(*first);
            heads = match first.kind() & !kind::WANTS_MATCH {
                kind::EAGER => rest,
                EAGER_WITH_IMMEDIATE => rest.get(1..)?,
                _ => return None,
            };
            body_len += usize::from(first.b());
        }
        let is_plain = heads.is_empty()
            && body_len == self.body.len()
            && (ack.is_some() || !messages.is_empty());
        is_plain.then_some(PlainView { header: self.header, crc, ack, messages, body: self.body })
    }
}

const EAGER_WITH_IMMEDIATE: u8 = kind::EAGER | kind::WITH_IMMEDIATE;

/// The head of a whole message, in the words it came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EagerWords {
    first: First,
    tag: u64,
    /// The immediate, if `first` says that there is one.
    third: u64,
}

impl EagerWords {
    #[inline(always)]
    fn read(first: &Word, tag: &Word) -> Self {
        Self { first: First::read(*first), tag: number(tag), third: 0 }
    }

    /// Matching space.
    #[inline(always)]
    pub fn space(self) -> Space {
        Space(self.first.a())
    }

    /// Match bits.
    #[inline(always)]
    pub fn tag(self) -> Tag {
        Tag(self.tag)
    }

    /// Low half of the message number.
    #[inline(always)]
    pub fn message(self) -> u32 {
        self.first.c()
    }

    /// Whether the sender wants to hear of the match.
    #[inline(always)]
    pub fn wants_match(self) -> bool {
        self.first.kind() & kind::WANTS_MATCH != 0
    }

    /// The immediate.
    #[inline(always)]
    pub fn immediate(self) -> Option<u64> {
        (self.first.kind() & kind::WITH_IMMEDIATE != 0).then_some(self.third)
    }

    /// Bytes of a frame before the body, if this message is alone in it.
    #[inline(always)]
    pub fn len_before_body(self) -> usize {
        WORD_LEN * if self.immediate().is_some() { LONE_IMMEDIATE } else { LONE }
    }

    /// The head among others.
    pub fn head(self) -> MessageHead {
        eager(self.first, Tag(self.tag), self.immediate())
    }
}

/// A frame's only message, whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoneMessage<'a> {
    /// What the frame's header says.
    pub header: Header,
    /// The message's head.
    pub head: EagerWords,
    /// The payload.
    pub body: &'a [u8],
}

/// A frame that is a Check or none, an Ack without holes or none, and whole small messages: nearly every frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlainView<'a> {
    /// What the frame's header says.
    pub header: Header,
    /// The CRC32C that the bodies must have, if the frame states one.
    pub crc: Option<u32>,
    /// The Ack.
    pub ack: Option<AckView<'a>>,
    messages: &'a [Word],
    /// All bodies, one behind the other.
    pub body: &'a [u8],
}

impl<'a> PlainView<'a> {
    /// Whether there are no messages.
    #[inline]
    pub fn is_ack_only(&self) -> bool {
        self.messages.is_empty()
    }

    /// The messages with their payload, in order.
    #[inline(always)]
    pub fn messages(&self) -> impl Iterator<Item = (EagerWords, &'a [u8])> + use<'a> {
        let (mut heads, mut bodies) = (self.messages, self.body);
        core::iter::from_fn(move || {
            let [first, tag, rest @ ..] = heads else { return None };
            let mut head = EagerWords::read(first, tag);
            heads = rest;
            if head.first.kind() & kind::WITH_IMMEDIATE != 0 {
                let (third, rest) = rest.split_first()?;
                (head.third, heads) = (number(third), rest);
            }
            let (body, rest) = bodies.split_at_checked(usize::from(head.first.b()))?;
            bodies = rest;
            Some((head, body))
        })
    }
}

/// A frame that has the shape of the commonest ones, for those who know us: one small message, perhaps with an immediate,
/// perhaps behind an Ack without holes, and nothing else. `N` is how many words its header and heads have, and tells
/// which of the four it is. Its check is yet to be verified. Read in a straight line, because it is most of what arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoneView<'a, const N: usize> {
    words: &'a [Word; N],
    body: &'a [u8],
}

/// Words of a frame with one message; with an immediate; and both behind an Ack.
pub const LONE: usize = LONE_EAGER_LEN / WORD_LEN;
/// With an immediate.
pub const LONE_IMMEDIATE: usize = LONE + 1;
/// Behind an Ack.
pub const ACKED: usize = ACKED_EAGER_LEN / WORD_LEN;
/// Both.
pub const ACKED_IMMEDIATE: usize = ACKED + 1;

impl<'a, const N: usize> LoneView<'a, N> {
    const HAS_ACK: bool = N >= ACKED;
    const HAS_IMMEDIATE: bool = N == LONE_IMMEDIATE || N == ACKED_IMMEDIATE;
    /// Where the message's head begins.
    const AT: usize = if Self::HAS_ACK { 6 } else { 3 };

    /// The frame, if it has that shape. If not it may be valid all the same.
    #[inline(always)]
    pub fn read(bytes: &'a [u8]) -> Option<Self> {
        Self::read_begun(bytes, bytes.len())
    }

    /// The frame whose first bytes these are, and which is so long. Its body is what is here of it.
    #[inline(always)]
    pub fn read_begun(bytes: &'a [u8], len: usize) -> Option<Self> {
        let (words, body) = split_words::<N>(bytes)?;
        let (last, first) = (number(&words[2]), First::read(words[Self::AT]));
        let has_shape = is_known_with(last, N * WORD_LEN - HEADER_LEN)
            && is_eager(first, Self::HAS_IMMEDIATE, len - N * WORD_LEN);
        if Self::HAS_ACK {
            let (ack, lens) = (First::read(words[3]), number(&words[4]));
            if ack.kind() != kind::ACK || ack.b() as u8 != 0 || unpair(lens).0 == 0 {
                return None;
            }
        }
        has_shape.then_some(Self { words, body })
    }

    /// Verifies the check (PROTOCOL §1.2, §14.6) of a packet whose number is `base` but for its low half.
    #[inline(always)]
    pub fn is_proven(&self, seal: &impl Seal, base: u64) -> bool {
        // By its shape the body is no longer than 16 bits say.
        let tail = check_tail((N * WORD_LEN + self.body.len()) as u64, base);
        let words = &self.words[1..];
        // Spelled out, for `N - 1` cannot be said of an array's length.
        let check = match N {
            LONE => words.first_chunk::<{ LONE - 1 }>().map(|words| seal.mark(words, tail)),
            LONE_IMMEDIATE => words.first_chunk::<LONE>().map(|words| seal.mark(words, tail)),
            ACKED => words.first_chunk::<{ ACKED - 1 }>().map(|words| seal.mark(words, tail)),
            _ => words.first_chunk::<ACKED>().map(|words| seal.mark(words, tail)),
        };
        check == Some(number(&self.words[0]))
    }

    /// Whether the low half of the packet number is 0: there is none, or its high half says all of it.
    #[inline(always)]
    pub fn is_low_zero(&self) -> bool {
        number(&self.words[2]) as u32 == 0
    }

    /// Whether the low half of the packet number, which is what the wire has of it, will begin anew before long.
    #[inline(always)]
    pub fn is_in_upper_half(&self) -> bool {
        number(&self.words[2]) & 1 << 31 != 0
    }

    /// The Ack, where there is one. To be used after `is_proven` only.
    #[inline(always)]
    pub fn ack(&self) -> Option<AckRepr> {
        let [ack, lens, credit] = Self::HAS_ACK.then(|| [3, 4, 5].map(|at| &self.words[at]))?;
        let view = AckView::without_pairs(First::read(*ack), number(lens), number(credit));
        Some(view.repr)
    }

    /// The message, if `is_proven` with this base.
    #[inline(always)]
    pub fn message(&self, base: u64) -> LoneMessage<'a> {
        let mut head = EagerWords::read(&self.words[Self::AT], &self.words[Self::AT + 1]);
        if Self::HAS_IMMEDIATE {
            head.third = number(&self.words[Self::AT + 2]);
        }
        LoneMessage { header: self.header(base), head, body: self.body }
    }

    #[inline(always)]
    fn header(&self, base: u64) -> Header {
        Header::read(number(&self.words[1]), number(&self.words[2]), base)
    }

    /// The frame among others, if `is_proven` with this base.
    #[inline(always)]
    pub fn view(&self, base: u64) -> FrameView<'a> {
        FrameView { header: self.header(base), heads: &self.words[3..], body: self.body }
    }
}

impl<'a> FrameView<'a> {
    /// A frame of one of the commonest shapes that carries this pass (PROTOCOL §14.6).
    pub fn open_passed(pass: Pass, base: u64, bytes: &'a [u8]) -> Option<Self> {
        fn by<const N: usize>(pass: Pass, base: u64, bytes: &[u8]) -> Option<FrameView<'_>> {
            let lone = LoneView::<N>::read(bytes)?;
            lone.is_proven(&pass, base).then(|| lone.view(base))
        }
        by::<LONE>(pass, base, bytes)
            .or_else(|| by::<ACKED>(pass, base, bytes))
            .or_else(|| by::<LONE_IMMEDIATE>(pass, base, bytes))
            .or_else(|| by::<ACKED_IMMEDIATE>(pass, base, bytes))
    }
}

/// Whether a frame is nothing but an Ack without holes, by its length and its first record's kind: to be read by the general rules, and none of the
/// shapes above.
#[inline(always)]
pub fn is_ack_alone(bytes: &[u8]) -> bool {
    bytes.len() == HEADER_LEN + ack_head_len(0) && bytes[HEADER_LEN] == kind::ACK
}

/// The first words of a frame and what follows them.
#[inline(always)]
fn split_words<const N: usize>(bytes: &[u8]) -> Option<(&[Word; N], &[u8])> {
    let (head, body) = bytes.split_at_checked(N * WORD_LEN)?;
    let (words, _) = head.as_chunks::<WORD_LEN>();
    Some((words.first_chunk()?, body))
}

/// Whether a header's last word is of a frame for those who know us, with heads of this length.
#[inline(always)]
pub(super) fn is_known_with(last: u64, heads_len: usize) -> bool {
    const LOOKED_AT: u64 = ((FORM_STRANGER | FORM_UNKNOWN) as u64) << 56 | 0xFFFF << 32;
    last & LOOKED_AT == (heads_len as u64) << 32
}

/// Whether this begins the head of an Eager, with or without immediate, that has a whole body of this length.
#[inline(always)]
fn is_eager(first: First, has_immediate: bool, body_len: usize) -> bool {
    let kind = if has_immediate { EAGER_WITH_IMMEDIATE } else { kind::EAGER };
    first.kind() & !kind::WANTS_MATCH == kind && usize::from(first.b()) == body_len
}
