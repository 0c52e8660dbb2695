//! Reading by the general rules: a frame is opened, then cut into records by the shapes of their kinds.

use super::contact::{HelloView, WelcomeView};
use super::layout::{
    FOUND_IMMEDIATE, FOUND_NONE, FRAME_LEN_SEALED_MAX, First, HEADER_LEN, Header, Lane, SHAPE_BODY,
    SHAPE_COUNTED, SHAPE_WORDS, SHAPES, WHEREABOUTS_LEN, WORD_LEN, Word, check_tail, counted_words,
    kind, number, unpair,
};
use super::record::{AckView, Class, FoundRepr, MessageHead, Record, TOTAL_MAX};
use super::{matched, request};
use crate::base::secret::Secret;
use crate::base::types::{Space, Tag};
use crate::seal::Seal;

/// Why a frame is dropped. All are counted and none is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameError {
    /// Shorter than a header and the heads it claims, or these are no whole words: cut off, damaged or not ours.
    Short,
    /// The keyed check does not fit: damaged, or from somebody who does not know our address.
    Check,
    /// Rightly keyed, but no sense in it: an unknown kind, a head or body that does not fit (PROTOCOL §1.4).
    Malformed,
}

/// A frame whose keyed check was right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameView<'a> {
    /// What the header says.
    pub header: Header,
    pub(super) heads: &'a [Word],
    /// All bodies, one behind the other.
    pub body: &'a [u8],
}

impl<'a> FrameView<'a> {
    /// The form byte of a frame, not verified: it tells which key to open it with. `None` if shorter than a header.
    #[inline]
    pub fn form(bytes: &[u8]) -> Option<u8> {
        bytes.first_chunk::<HEADER_LEN>().map(|header| header[23])
    }

    /// Verifies length and keyed check (PROTOCOL §1.2) of a frame whose packet number has no high half. The records are not
    /// looked at.
    #[inline]
    pub fn open(secret: Secret, bytes: &'a [u8]) -> Result<Self, FrameError> {
        Self::open_high(&secret, 0, bytes)
    }

    /// Verifies length and keyed check of any frame: `base` is the number its packet must have, with the low half zero.
    #[inline(always)] // once per frame: as a call it would write the view to memory to be read back
    pub fn open_high(seal: &impl Seal, base: u64, bytes: &'a [u8]) -> Result<Self, FrameError> {
        let Some((header, rest)) = bytes.split_first_chunk::<HEADER_LEN>() else {
            return Err(FrameError::Short);
        };
        let (header, _) = header.as_chunks::<WORD_LEN>();
        let [check, to, last] = [0, 1, 2].map(|at| number(&header[at]));
        let heads_len = usize::from((last >> 32) as u16);
        let Some((heads, body)) = rest.split_at_checked(heads_len) else {
            return Err(FrameError::Short);
        };
        let (heads, []) = heads.as_chunks() else {
            return Err(FrameError::Short);
        };
        let len = bytes.len() as u64;
        if len > FRAME_LEN_SEALED_MAX {
            return Err(FrameError::Short); // cut from something longer than frames are
        }
        if seal.mark_of([to, last], heads, check_tail(len, base)) != check {
            return Err(FrameError::Check);
        }
        Ok(Self { header: Header::read(to, last, base), heads, body })
    }

    /// Bytes of the whole frame.
    pub fn frame_len(&self) -> usize {
        HEADER_LEN + self.heads.len() * WORD_LEN + self.body.len()
    }

    /// Whether all records make sense and fill the frame exactly; how many there are.
    #[inline(always)]
    pub fn validate(&self) -> Result<usize, FrameError> {
        if self.lone_eager().is_some() { Ok(1) } else { validate_each(self.records()) }
    }

    /// The message of a frame that is one small message without immediate and nothing else, with its body. Such a frame
    /// is valid, and as it is the commonest one its reader may ask for it before all else.
    #[inline(always)]
    pub fn lone_eager(&self) -> Option<(MessageHead, &'a [u8])> {
        self.records().lone_eager()
    }

    /// The records with their bodies, in order. Of a frame that does not validate, those before the first whose kind is
    /// unknown or that does not fit.
    #[inline]
    pub fn records(&self) -> Records<'a> {
        Records { heads: self.heads, bodies: self.body }
    }

    /// The CRC32C that the bodies must have, if the frame states one.
    #[inline]
    pub fn crc(&self) -> Option<u32> {
        let first = First::read(*self.heads.first()?);
        (first.kind() == kind::CHECK).then_some(first.c())
    }
}

/// What the header of a numbered frame says, with the low half of its packet number; nothing is verified. `None` of a frame that
/// is cut short, or unnumbered (PROTOCOL §1.7).
pub fn numbered_header(bytes: &[u8]) -> Option<Header> {
    let (header, rest) = bytes.split_first_chunk::<HEADER_LEN>()?;
    let (words, _) = header.as_chunks::<WORD_LEN>();
    let header = Header::read(number(&words[1]), number(&words[2]), 0);
    if header.packet != 0 {
        return Some(header);
    }
    let (heads, _) = rest.as_chunks::<WORD_LEN>();
    let is_check = |word: &&Word| First::read(**word).kind() == kind::CHECK;
    let first = First::read(*heads.iter().find(|word| !is_check(word))?);
    let is_unnumbered = matches!(
        first.kind(),
        kind::HELLO
            | kind::CHALLENGE
            | kind::VERSIONS
            | kind::RESET
            | kind::PATH_CHALLENGE
            | kind::PATH_RESPONSE
    );
    (!is_unnumbered).then_some(header)
}

/// The side of its receiver that a frame concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// The frame has messages or data, for whoever receives.
    Receiver,
    /// The frame has answers to what was sent, and no messages: it is for whoever sends.
    Sender,
    /// Neither, or nothing can be told: acknowledgements alone, contact, paths, probes, nonsense.
    Both,
}

/// Whose business a frame is. Nothing is verified: this is for a driver that puts frames aside, not for the rules.
pub fn audience(bytes: &[u8]) -> Audience {
    let Some((header, rest)) = bytes.split_first_chunk::<HEADER_LEN>() else {
        return Audience::Both;
    };
    let (header, _) = header.as_chunks::<WORD_LEN>();
    let heads_len = usize::from((number(&header[2]) >> 32) as u16);
    let Some((heads, bodies)) = rest.split_at_checked(heads_len) else { return Audience::Both };
    let (heads, []) = heads.as_chunks() else { return Audience::Both };
    let mut records = Records { heads, bodies };
    let mut audience = Audience::Both;
    while let Some((first, _, _)) = records.cut() {
        match first.kind() {
            0x10..=0x1F
            | kind::DATA
            | kind::PUT..=kind::ATOMIC
            | kind::MATCHED
            | kind::MATCHED_SWAP => return Audience::Receiver,
            kind::GRANT
            | kind::DONE
            | kind::REFUSE
            | kind::RECALL
            | kind::QUERY
            | kind::REPLY
            | kind::OUTCOME
            | kind::END => audience = Audience::Sender,
            _ => {}
        }
    }
    audience
}

/// `FrameView::validate` for all but a lone small message. Given the records themselves and not a place where they are,
/// so that the usual frame need not be written to one.
#[inline(never)]
fn validate_each(mut records: Records<'_>) -> Result<usize, FrameError> {
    let mut count = 0;
    while !records.heads.is_empty() {
        match records.cut() {
            Some((first, rest, _)) if makes_sense(first, rest, count == 0) => count += 1,
            _ => return Err(FrameError::Malformed),
        }
    }
    // Bytes behind the last body belong to nobody, and a frame has at least one record.
    if records.bodies.is_empty() && count > 0 { Ok(count) } else { Err(FrameError::Malformed) }
}

/// The records of a frame with their bodies. Ends early at one that is malformed.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    heads: &'a [Word],
    bodies: &'a [u8],
}

impl<'a> Records<'a> {
    /// Of heads whose bodies are not at hand: those before the first that has one.
    pub(super) fn of_heads(heads: &'a [Word]) -> Self {
        Self { heads, bodies: &[] }
    }

    /// What is left, if that is one small message without immediate and nothing else: read in a straight line.
    #[inline(always)]
    fn lone_eager(&self) -> Option<(MessageHead, &'a [u8])> {
        let [first, tag] = self.heads else { return None };
        let first = First::read(*first);
        let is_eager = first.kind() & !kind::WANTS_MATCH == kind::EAGER;
        (is_eager && usize::from(first.b()) == self.bodies.len())
            .then(|| (eager(first, Tag(number(tag)), None), self.bodies))
    }

    /// Cuts the next record off: the first word of its head, the other words, the body. `None`, and nothing cut, at the
    /// end and if the kind is unknown or the lengths do not fit.
    #[inline(always)]
    fn cut(&mut self) -> Option<(First, &'a [Word], &'a [u8])> {
        let first = First::read(*self.heads.first()?);
        let (word_count, body_len) = lens_of(first)?;
        let (head, heads) = self.heads.split_at_checked(word_count)?;
        let (body, bodies) = self.bodies.split_at_checked(body_len)?;
        let (_, rest) = head.split_first()?; // none if there is no such kind: its shape has no words
        *self = Self { heads, bodies };
        Some((first, rest, body))
    }
}

/// Words of a record's head, and bytes of its body.
#[inline(always)]
pub(super) fn lens_of(first: First) -> Option<(usize, usize)> {
    let shape = *SHAPES.get(usize::from(first.kind()))?;
    let mut word_count = usize::from(shape & SHAPE_WORDS);
    if shape & SHAPE_COUNTED != 0 {
        word_count += counted_words(first)?;
    }
    let body_len = if shape & SHAPE_BODY != 0 { usize::from(first.b()) } else { 0 };
    Some((word_count, body_len))
}

impl<'a> Iterator for Records<'a> {
    type Item = (Record<'a>, &'a [u8]);

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        if let Some((head, body)) = self.lone_eager() {
            *self = Self { heads: &[], bodies: &[] };
            return Some((Record::Message(head), body));
        }
        self.next_of_many()
    }
}

impl<'a> Records<'a> {
    /// `next` for all but a lone small message.
    #[inline]
    fn next_of_many(&mut self) -> Option<(Record<'a>, &'a [u8])> {
        let (first, rest, body) = self.cut()?;
        // What nearly every frame holds is decoded in place; everything else is a call away.
        let record = match first.kind() {
            kind::DATA => decode_data(first, rest)?,
            kind => match kind & 0xF0 {
                0x10 => Record::Message(decode_message(first, rest)?),
                0x00 => decode_packet(first, rest)?,
                _ => decode_other(first, rest)?,
            },
        };
        Some((record, body))
    }
}

/// Whether a record, cut off whole, keeps the rules that its lengths do not show. Readers of a validated frame rely on
/// them.
#[inline(always)]
fn makes_sense(first: First, rest: &[Word], is_first: bool) -> bool {
    let len = u64::from(first.b());
    match (first.kind(), rest) {
        // The sum is needed before any body is believed, so it may not come late (PROTOCOL §1.3).
        (kind::CHECK, _) => is_first,
        (kind::ACK, [lens, _, pairs @ ..]) => {
            let is_empty = |pair: &Word| {
                let (skip, take) = unpair(number(pair));
                skip == 0 || take == 0
            };
            unpair(number(lens)).0 > 0 && !pairs.iter().any(is_empty)
        }
        (kind::FRAGMENT..kind::RTS, [_, range, ..]) => {
            let (offset, total) = unpair(number(range));
            // An empty message is never cut: no fragment of it would ever be missing.
            total > 0 && u64::from(offset) + len <= u64::from(total)
        }
        (kind::RTS..kind::TOLD, [_, total, ..]) => len <= number(total) & TOTAL_MAX,
        (kind::TOLD..0x20, _) => len == WHEREABOUTS_LEN as u64,
        (kind::GRANT, [offset, len]) => {
            Lane::read(first.a()).is_some() && number(offset).checked_add(number(len)).is_some()
        }
        (kind::DATA, [offset]) => {
            Lane::read(first.a()).is_some() && number(offset).checked_add(len).is_some()
        }
        (kind::MATCHED.., _) => matched::makes_sense(first, rest),
        (kind::PUT.., _) => request::makes_sense(first, rest),
        _ => true,
    }
}

/// Head of an Eager from its words.
#[inline(always)]
pub(super) fn eager(first: First, tag: Tag, immediate: Option<u64>) -> MessageHead {
    MessageHead {
        class: Class::Eager,
        space: Space(first.a()),
        message: first.c(),
        tag,
        offset: 0,
        total: u64::from(first.b()),
        immediate,
        wants_match: first.kind() & kind::WANTS_MATCH != 0,
        len: first.b(),
        ahead: 0,
    }
}

/// Eager, Fragment or Rts. `None` only if there are too few words, which `Records::cut` excludes.
#[inline(always)]
fn decode_message(first: First, rest: &[Word]) -> Option<MessageHead> {
    let (tag, rest) = rest.split_first()?;
    let tag = Tag(number(tag));
    // By its shape a head has the word of an immediate only with the bit set.
    if first.kind() < kind::FRAGMENT {
        return Some(eager(first, tag, rest.first().map(number)));
    }
    let (third, rest) = rest.split_first()?;
    let (third, immediate) = (number(third), rest.first().map(number));
    let (class, offset, total, ahead) = if first.kind() < kind::RTS {
        let (offset, total) = unpair(third);
        (Class::Fragment, offset, u64::from(total), 0)
    } else {
        let class = if first.kind() < kind::TOLD { Class::Rts } else { Class::Told };
        (class, 0, third & TOTAL_MAX, (third >> TOTAL_MAX.count_ones()) as u16)
    };
    Some(MessageHead { class, offset, total, ahead, ..eager(first, tag, immediate) })
}

/// Records that speak of packets. `None` as above.
#[inline(always)]
fn decode_packet<'a>(first: First, rest: &'a [Word]) -> Option<Record<'a>> {
    Some(match (first.kind(), rest) {
        (kind::CHECK, _) => Record::Check { crc: first.c() },
        (kind::ACK, [lens, credit, pairs @ ..]) => {
            let view = AckView::without_pairs(first, number(lens), number(credit));
            Record::Ack(AckView { pairs, ..view })
        }
        (kind::PING, _) => Record::Ping,
        (kind::PAD, _) => Record::Pad,
        _ => return None,
    })
}

/// Bytes of a large message. `None` as above.
#[inline(always)]
fn decode_data(first: First, rest: &[Word]) -> Option<Record<'static>> {
    let [offset] = rest else { return None };
    Some(Record::Data { lane: Lane::read(first.a())?, message: first.c(), offset: number(offset) })
}

/// Records that steer messages, or those of `decode_contact`. `None` as above.
#[inline(never)]
fn decode_other<'a>(first: First, rest: &'a [Word]) -> Option<Record<'a>> {
    let (a, b, message) = (first.a(), first.b(), first.c());
    Some(match (first.kind(), rest) {
        (kind::GRANT, [offset, len]) => Record::Grant {
            lane: Lane::read(a)?,
            message,
            offset: number(offset),
            len: number(len),
        },
        (kind::DONE, [len]) => Record::Done { message, status: a, placed_len: number(len) },
        (kind::CANCEL, _) => Record::Cancel { message },
        (kind::REFUSE, _) => Record::Refuse { message, order: b },
        (kind::RECALL, _) => Record::Recall { message, order: b },
        (kind::QUERY, [tag, ignore]) => {
            let (query, space, tag) = (first.c(), Space(a), Tag(number(tag)));
            Record::Query { query, space, tag, ignore: number(ignore) }
        }
        (kind::STREAM_CREDIT, [limit]) => Record::StreamCredit { limit: number(limit) },
        (kind::FOUND, words) => Record::Found(decode_found(first, words.first_chunk()?)),
        (kind::MATCHED.., _) => return matched::decode(first, rest),
        (kind::PUT.., _) => return request::decode(first, rest),
        _ => return decode_contact(first, rest),
    })
}

fn decode_found(first: First, words: &[Word; 4]) -> FoundRepr {
    let flags = first.b() as u8;
    let [message, tag, total, immediate] = words.map(u64::from_le_bytes);
    FoundRepr {
        query: first.c(),
        space: Space(first.a()),
        tag: Tag(tag),
        message: message as u32,
        total,
        immediate: (flags & FOUND_IMMEDIATE != 0).then_some(immediate),
        none: flags & FOUND_NONE != 0,
    }
}

/// Records of first contact, paths and parting.
fn decode_contact<'a>(first: First, rest: &'a [Word]) -> Option<Record<'a>> {
    let (a, b) = (first.a(), first.b() as u8);
    Some(match (first.kind(), rest) {
        (kind::HELLO, _) => {
            let (words, masked) = rest.split_first_chunk()?;
            Record::Hello(HelloView { first, words, masked })
        }
        (kind::CHALLENGE, [nonce, cookie, incarnation]) => Record::Challenge {
            flags: a,
            versions: b,
            nonce: number(nonce),
            cookie: number(cookie),
            incarnation: number(incarnation),
        },
        (kind::ECHO, [cookie]) => Record::Echo { cookie: number(cookie) },
        (kind::WELCOME, _) => {
            let (words, masked) = rest.split_first_chunk()?;
            Record::Welcome(WelcomeView { first, words, masked })
        }
        (kind::RESET, [id]) => Record::Reset { id: number(id) },
        (kind::GOODBYE, _) => Record::Goodbye { message: first.c() },
        (kind::VERSIONS, [nonce]) => Record::Versions { min: a, max: b, nonce: number(nonce) },
        (kind::PATH_CHALLENGE, [nonce]) => Record::PathChallenge { path: a, nonce: number(nonce) },
        (kind::PATH_RESPONSE, [nonce]) => Record::PathResponse { path: a, nonce: number(nonce) },
        _ => return None,
    })
}
