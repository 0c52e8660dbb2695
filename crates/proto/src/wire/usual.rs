//! The usual frames, read in a straight line: an Ack without holes, small messages without immediates, or both.
//!
//! Nearly everything that arrives has one of these shapes. What has none of them is read by the general rules of `read`,
//! which would read these frames just the same.

use super::layout::{
    ACKED_EAGER_LEN, FORM_STRANGER, First, HEADER_LEN, Header, LONE_EAGER_LEN, WORD_LEN, Word,
    eager_head_len, kind, number, unpair,
};
use super::read::{FrameView, eager};
use super::record::{AckRepr, AckView, MessageHead};
use crate::siphash::siphash13_fixed_then;
use crate::types::{Secret, Space, Tag};

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
        let (messages, []) = heads.as_chunks() else { return None };
        let mut body_len = 0;
        for [first, _] in messages {
            let first = First::read(*first);
            if first.kind() & !kind::WANTS_MATCH != kind::EAGER {
                return None;
            }
            body_len += usize::from(first.b());
        }
        let is_plain = body_len == self.body.len() && (ack.is_some() || !messages.is_empty());
        is_plain.then_some(PlainView { header: self.header, crc, ack, messages, body: self.body })
    }
}

/// The head of a whole message without immediate, in the words it came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EagerWords {
    first: First,
    tag: u64,
}

impl EagerWords {
    #[inline(always)]
    fn read(first: &Word, tag: &Word) -> Self {
        Self { first: First::read(*first), tag: number(tag) }
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

    /// The head among others.
    pub fn head(self) -> MessageHead {
        eager(self.first, Tag(self.tag), None)
    }
}

/// A frame's only message, whole and without immediate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoneMessage<'a> {
    /// What the frame's header says.
    pub header: Header,
    /// The message's head.
    pub head: EagerWords,
    /// The payload.
    pub body: &'a [u8],
}

/// A frame that is a Check or none, an Ack without holes or none, and whole small messages without immediates: nearly
/// every frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlainView<'a> {
    /// What the frame's header says.
    pub header: Header,
    /// The CRC32C that the bodies must have, if the frame states one.
    pub crc: Option<u32>,
    /// The Ack.
    pub ack: Option<AckView<'a>>,
    messages: &'a [[Word; 2]],
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
        let mut bodies = self.body;
        self.messages.iter().map_while(move |[first, tag]| {
            let head = EagerWords::read(first, tag);
            let (body, rest) = bodies.split_at_checked(usize::from(head.first.b()))?;
            bodies = rest;
            Some((head, body))
        })
    }
}

/// A frame that has the shape of the commonest one: one small message without immediate and nothing else, for those who
/// know us. Its check is yet to be verified. Read in a straight line, because it is most of what arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoneView<'a> {
    words: &'a [Word; LONE_EAGER_LEN / WORD_LEN],
    body: &'a [u8],
}

impl<'a> LoneView<'a> {
    /// The frame, if it has that shape. If not it may be valid all the same.
    #[inline(always)]
    pub fn read(bytes: &'a [u8]) -> Option<Self> {
        let (words, body) = split_words(bytes)?;
        let (last, first) = (number(&words[2]), First::read(words[3]));
        let has_shape = is_known_with(last, eager_head_len(false)) && is_eager(first, body);
        has_shape.then_some(Self { words, body })
    }

    /// Verifies the keyed check (PROTOCOL §1.2).
    #[inline(always)]
    pub fn is_keyed(&self, secret: &Secret) -> bool {
        let [check, words @ ..] = self.words;
        let frame_len = LONE_EAGER_LEN + self.body.len();
        siphash13_fixed_then(secret, words, frame_len as u64) == number(check)
    }

    /// The message. To be used after `is_keyed` only.
    #[inline(always)]
    pub fn message(&self) -> LoneMessage<'a> {
        let [_, to, last, first, tag] = self.words;
        let head = EagerWords::read(first, tag);
        LoneMessage { header: Header::read(number(to), number(last)), head, body: self.body }
    }

    /// The frame among others. To be used after `is_keyed` only.
    #[inline(always)]
    pub fn view(&self) -> FrameView<'a> {
        let [_, to, last, heads @ ..] = self.words;
        FrameView { header: Header::read(number(to), number(last)), heads, body: self.body }
    }
}

/// A frame that has the shape of an answer: an Ack without holes, then as `LoneView`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AckedView<'a> {
    words: &'a [Word; ACKED_EAGER_LEN / WORD_LEN],
    body: &'a [u8],
}

impl<'a> AckedView<'a> {
    /// The frame, if it has that shape. If not it may be valid all the same.
    #[inline(always)]
    pub fn read(bytes: &'a [u8]) -> Option<Self> {
        let (words, body) = split_words(bytes)?;
        let (last, first) = (number(&words[2]), First::read(words[6]));
        let (ack, lens) = (First::read(words[3]), number(&words[4]));
        let has_shape = is_known_with(last, ACKED_EAGER_LEN - HEADER_LEN)
            && ack.kind() == kind::ACK
            && ack.b() as u8 == 0
            && unpair(lens).0 > 0
            && is_eager(first, body);
        has_shape.then_some(Self { words, body })
    }

    /// Verifies the keyed check (PROTOCOL §1.2).
    #[inline(always)]
    pub fn is_keyed(&self, secret: &Secret) -> bool {
        let [check, words @ ..] = self.words;
        let frame_len = ACKED_EAGER_LEN + self.body.len();
        siphash13_fixed_then(secret, words, frame_len as u64) == number(check)
    }

    /// The Ack. To be used after `is_keyed` only.
    #[inline(always)]
    pub fn ack(&self) -> AckRepr {
        let [_, _, _, ack, lens, credit, _, _] = self.words;
        AckView::without_pairs(First::read(*ack), number(lens), number(credit)).repr
    }

    /// The message. To be used after `is_keyed` only.
    #[inline(always)]
    pub fn message(&self) -> LoneMessage<'a> {
        let [_, to, last, _, _, _, first, tag] = self.words;
        let head = EagerWords::read(first, tag);
        LoneMessage { header: Header::read(number(to), number(last)), head, body: self.body }
    }

    /// The frame among others. To be used after `is_keyed` only.
    #[inline(always)]
    pub fn view(&self) -> FrameView<'a> {
        let [_, to, last, heads @ ..] = self.words;
        FrameView { header: Header::read(number(to), number(last)), heads, body: self.body }
    }
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
fn is_known_with(last: u64, heads_len: usize) -> bool {
    const LOOKED_AT: u64 = (FORM_STRANGER as u64) << 56 | 0xFFFF << 32;
    last & LOOKED_AT == (heads_len as u64) << 32
}

/// Whether this begins the head of an Eager without immediate that has all of `body`.
#[inline(always)]
fn is_eager(first: First, body: &[u8]) -> bool {
    first.kind() & !kind::WANTS_MATCH == kind::EAGER && usize::from(first.b()) == body.len()
}
