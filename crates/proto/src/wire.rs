//! Frames and records as bytes: the only file that knows byte offsets (PROTOCOL §1, §2).
//!
//! ```text
//!  header, 24 bytes                              heads of records           bodies, in the order of their heads
//! ┌──────────┬────┬────────┬──────┬──────┬──────┬────────┬────────┬────┬────────┬────────┬────┐
//! │ check u64│ to │ packet │ heads│ path │ form │ head 0 │ head 1 │ …  │ body 0 │ body 1 │ …  │
//! └──────────┴────┴────────┴──────┴──────┴──────┴────────┴────────┴────┴────────┴────────┴────┘
//!             └───────────── checked, with the frame's length ─────────┘
//! ```
//!
//! Heads are whole 8-byte words, and the first word of every head has one shape: kind u8, `a` u8, `b` u16, `c` u32.
//! So a head is read and written as words, never field by field, and a lone small message is two loads and a compare.
//! Where there is a body, its length is `b`.
//!
//! Reading goes in steps, each believing a little more. `FrameView::open` believes the keyed check and nothing else.
//! `FrameView::validate` cuts the frame into records by the shapes of their kinds and asks whether each makes sense.
//! `FrameView::records` cuts in the same way and decodes. Nothing is allocated and nothing panics, whatever the bytes are.

use alloc::vec::Vec;
use core::iter;

use crate::siphash::{mask, siphash13_fixed_then, siphash13_words_then};
use crate::types::{ADDRESS_LEN, Address, AddressError, Locator, Secret, Space, Tag};

/// Bytes of the header.
pub const HEADER_LEN: usize = 24;
/// The version spoken here: the low nibble of `Header::form`.
pub const VERSION: u8 = 1;
/// Form bit: keyed with the all-zero secret (PROTOCOL §3.9).
pub const FORM_STRANGER: u8 = 0x10;
/// Form bit: reserved for the encrypted mode.
pub const FORM_SEALED: u8 = 0x20;

/// Done: all bytes are placed.
pub const DONE_OK: u8 = 0;
/// Done: a receive took the message (PROTOCOL §7.3).
pub const DONE_MATCHED: u8 = 1;
/// Done: the receive was cancelled.
pub const DONE_CANCELLED: u8 = 2;

/// Hello and Welcome: a helper drives this endpoint (PROTOCOL §4.1).
pub const FLAG_HELPER: u8 = 0x01;
/// Welcome: the address of the endpoint follows the locators (PROTOCOL §3.9).
pub const FLAG_ADDRESS: u8 = 0x02;

/// Found: no message matches.
pub const FOUND_NONE: u8 = 0x01;
/// Found: the message has an immediate.
pub const FOUND_IMMEDIATE: u8 = 0x02;

/// Most locators in a Hello or Welcome.
pub const LOCATOR_COUNT_MAX: usize = 8;
/// Most pairs behind an Ack's first range.
pub const ACK_RANGE_COUNT_MAX: usize = 32;

/// The kinds of records (PROTOCOL §2), each the first byte of its head.
pub(crate) mod kind {
    pub(crate) const CHECK: u8 = 0x01;
    pub(crate) const ACK: u8 = 0x02;
    pub(crate) const PING: u8 = 0x03;
    pub(crate) const PAD: u8 = 0x04;
    pub(crate) const EAGER: u8 = 0x10;
    pub(crate) const FRAGMENT: u8 = 0x14;
    pub(crate) const RTS: u8 = 0x18;
    pub(crate) const GRANT: u8 = 0x20;
    pub(crate) const DATA: u8 = 0x21;
    pub(crate) const DONE: u8 = 0x22;
    pub(crate) const CANCEL: u8 = 0x23;
    pub(crate) const REFUSE: u8 = 0x24;
    pub(crate) const RECALL: u8 = 0x25;
    pub(crate) const QUERY: u8 = 0x26;
    pub(crate) const FOUND: u8 = 0x27;
    pub(crate) const HELLO: u8 = 0x30;
    pub(crate) const CHALLENGE: u8 = 0x31;
    pub(crate) const ECHO: u8 = 0x32;
    pub(crate) const WELCOME: u8 = 0x33;
    pub(crate) const RESET: u8 = 0x34;
    pub(crate) const GOODBYE: u8 = 0x35;
    pub(crate) const VERSIONS: u8 = 0x36;
    pub(crate) const PATH_CHALLENGE: u8 = 0x37;
    pub(crate) const PATH_RESPONSE: u8 = 0x38;

    /// Message kinds, bit 0: an immediate follows.
    pub(crate) const WITH_IMMEDIATE: u8 = 0x01;
    /// Message kinds, bit 1: the sender wants to hear of the match.
    pub(crate) const WANTS_MATCH: u8 = 0x02;
}

const WORD_LEN: usize = 8;
/// Room made in a buffer at a time: most frames need no more for their heads.
const ROOM_LEN: usize = 256;
const LOCATOR_LEN: usize = 24;
/// What a Hello or a Welcome masks is at most this long.
const MASKED_LEN_MAX: usize = ADDRESS_LEN + LOCATOR_COUNT_MAX * LOCATOR_LEN;

/// Head of Check.
pub const CHECK_HEAD_LEN: usize = 8;
/// Head of Ping.
pub const PING_HEAD_LEN: usize = 8;
/// Head of Pad.
pub const PAD_HEAD_LEN: usize = 8;
/// Head of Grant.
pub const GRANT_HEAD_LEN: usize = 24;
/// Head of Data.
pub const DATA_HEAD_LEN: usize = 16;
/// Head of Done.
pub const DONE_HEAD_LEN: usize = 8;
/// Head of Cancel.
pub const CANCEL_HEAD_LEN: usize = 8;
/// Head of Refuse and of Recall.
pub const TURN_HEAD_LEN: usize = 8;
/// Head of Query.
pub const QUERY_HEAD_LEN: usize = 24;
/// Head of Found.
pub const FOUND_HEAD_LEN: usize = 40;
/// Head of Challenge.
pub const CHALLENGE_HEAD_LEN: usize = 32;
/// Head of Echo.
pub const ECHO_HEAD_LEN: usize = 16;
/// Head of Reset.
pub const RESET_HEAD_LEN: usize = 16;
/// Head of Goodbye.
pub const GOODBYE_HEAD_LEN: usize = 8;
/// Head of Versions.
pub const VERSIONS_HEAD_LEN: usize = 16;
/// Head of PathChallenge and of PathResponse.
pub const PATH_HEAD_LEN: usize = 16;

/// Head of Ack with so many pairs behind the first range.
pub const fn ack_head_len(range_count: usize) -> usize {
    24 + 8 * range_count
}

/// Head of Eager.
pub const fn eager_head_len(immediate: bool) -> usize {
    16 + 8 * immediate as usize
}

/// Head of Fragment.
pub const fn fragment_head_len(immediate: bool) -> usize {
    24 + 8 * immediate as usize
}

/// Head of Rts.
pub const fn rts_head_len(immediate: bool) -> usize {
    24 + 8 * immediate as usize
}

/// Head of Hello.
pub const fn hello_head_len(locator_count: usize) -> usize {
    32 + ADDRESS_LEN + LOCATOR_LEN * locator_count
}

/// Head of Welcome.
pub const fn welcome_head_len(locator_count: usize, address: bool) -> usize {
    32 + LOCATOR_LEN * locator_count + ADDRESS_LEN * address as usize
}

/// What a kind fixes of its records: head length in words (0: no such kind), whether a body follows, whether the head
/// is longer by what its first word counts. One cache line, as every record is cut off by it.
static SHAPES: [u8; 0x40] = shapes();
const SHAPE_WORDS: u8 = 0x0F;
const SHAPE_COUNTED: u8 = 0x40;
const SHAPE_BODY: u8 = 0x80;

const fn shapes() -> [u8; 0x40] {
    const fn words(head_len: usize) -> u8 {
        assert!(head_len.is_multiple_of(WORD_LEN) && head_len / WORD_LEN <= SHAPE_WORDS as usize);
        (head_len / WORD_LEN) as u8
    }
    let mut shapes = [0; 0x40];
    shapes[kind::CHECK as usize] = words(CHECK_HEAD_LEN);
    shapes[kind::ACK as usize] = words(ack_head_len(0)) | SHAPE_COUNTED;
    shapes[kind::PING as usize] = words(PING_HEAD_LEN);
    shapes[kind::PAD as usize] = words(PAD_HEAD_LEN) | SHAPE_BODY;
    let mut bits = 0;
    while bits < 4 {
        let immediate = bits & kind::WITH_IMMEDIATE != 0;
        shapes[(kind::EAGER | bits) as usize] = words(eager_head_len(immediate)) | SHAPE_BODY;
        shapes[(kind::FRAGMENT | bits) as usize] = words(fragment_head_len(immediate)) | SHAPE_BODY;
        shapes[(kind::RTS | bits) as usize] = words(rts_head_len(immediate)) | SHAPE_BODY;
        bits += 1;
    }
    shapes[kind::GRANT as usize] = words(GRANT_HEAD_LEN);
    shapes[kind::DATA as usize] = words(DATA_HEAD_LEN) | SHAPE_BODY;
    shapes[kind::DONE as usize] = words(DONE_HEAD_LEN);
    shapes[kind::CANCEL as usize] = words(CANCEL_HEAD_LEN);
    shapes[kind::REFUSE as usize] = words(TURN_HEAD_LEN);
    shapes[kind::RECALL as usize] = words(TURN_HEAD_LEN);
    shapes[kind::QUERY as usize] = words(QUERY_HEAD_LEN);
    shapes[kind::FOUND as usize] = words(FOUND_HEAD_LEN);
    shapes[kind::HELLO as usize] = words(hello_head_len(0)) | SHAPE_COUNTED;
    shapes[kind::CHALLENGE as usize] = words(CHALLENGE_HEAD_LEN);
    shapes[kind::ECHO as usize] = words(ECHO_HEAD_LEN);
    shapes[kind::WELCOME as usize] = words(welcome_head_len(0, false)) | SHAPE_COUNTED;
    shapes[kind::RESET as usize] = words(RESET_HEAD_LEN);
    shapes[kind::GOODBYE as usize] = words(GOODBYE_HEAD_LEN);
    shapes[kind::VERSIONS as usize] = words(VERSIONS_HEAD_LEN);
    shapes[kind::PATH_CHALLENGE as usize] = words(PATH_HEAD_LEN);
    shapes[kind::PATH_RESPONSE as usize] = words(PATH_HEAD_LEN);
    shapes
}

/// Words by which a head of a counted kind is longer. `None` if it counts more than is allowed.
fn counted_words(first: First) -> Option<usize> {
    let locators = |count| (count <= LOCATOR_COUNT_MAX).then_some(count * LOCATOR_LEN / WORD_LEN);
    match first.kind() {
        kind::ACK => {
            let count = usize::from(first.b() as u8);
            (count <= ACK_RANGE_COUNT_MAX).then_some(count)
        }
        kind::WELCOME if first.a() & FLAG_ADDRESS != 0 => {
            Some(locators(locator_count(first))? + ADDRESS_LEN / WORD_LEN)
        }
        _ => locators(locator_count(first)),
    }
}

/// A word as it stands in a frame.
type Word = [u8; WORD_LEN];

/// The first word of a head, in the one shape all heads share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct First(u64);

impl First {
    #[inline(always)]
    const fn word(kind: u8, a: u8, b: u16, c: u32) -> u64 {
        kind as u64 | (a as u64) << 8 | (b as u64) << 16 | (c as u64) << 32
    }

    #[inline(always)]
    const fn read(word: Word) -> Self {
        Self(u64::from_le_bytes(word))
    }

    #[inline(always)]
    const fn kind(self) -> u8 {
        self.0 as u8
    }

    #[inline(always)]
    const fn a(self) -> u8 {
        (self.0 >> 8) as u8
    }

    #[inline(always)]
    const fn b(self) -> u16 {
        (self.0 >> 16) as u16
    }

    #[inline(always)]
    const fn c(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// Two u32 of one word, in wire order.
const fn pair(first: u32, second: u32) -> u64 {
    first as u64 | (second as u64) << 32
}

/// What `pair` made.
const fn unpair(word: u64) -> (u32, u32) {
    (word as u32, (word >> 32) as u32)
}

/// What a header says, the check and the lengths apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The association at its receiver; 0 at first contact.
    pub to: u64,
    /// Low half of the packet number.
    pub packet: u32,
    /// The sender's path number.
    pub path: u8,
    /// Version and form bits.
    pub form: u8,
}

impl Header {
    #[inline(always)]
    fn read(to: u64, last: u64) -> Self {
        Self { to, packet: last as u32, path: (last >> 48) as u8, form: (last >> 56) as u8 }
    }

    /// The three words of a header before `seal`.
    #[inline(always)]
    fn words(self) -> [u64; 3] {
        let Self { to, packet, path, form } = self;
        [0, to, u64::from(packet) | u64::from(path) << 48 | u64::from(form) << 56]
    }

    /// The version the frame is written in. Header and check are the same in all (PROTOCOL §1.2), the records of
    /// another version than ours may not be.
    pub const fn version(&self) -> u8 {
        self.form & 0x0F
    }
}

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
    heads: &'a [Word],
    /// All bodies, one behind the other.
    pub body: &'a [u8],
}

impl<'a> FrameView<'a> {
    /// The form byte of a frame, not verified: it tells which key to open it with. `None` if shorter than a header.
    #[inline]
    pub fn form(bytes: &[u8]) -> Option<u8> {
        bytes.first_chunk::<HEADER_LEN>().map(|header| header[23])
    }

    /// Verifies a frame's length and keyed check (PROTOCOL §1.2). The records are not looked at.
    #[inline(always)] // once per frame: as a call it would write the view to memory to be read back
    pub fn open(secret: Secret, bytes: &'a [u8]) -> Result<Self, FrameError> {
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
        if siphash13_words_then(secret, [to, last], heads, bytes.len() as u64) != check {
            return Err(FrameError::Check);
        }
        Ok(Self { header: Header::read(to, last), heads, body })
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
    /// The receiver is ready for a range of a large message.
    Grant {
        /// The message.
        message: u32,
        /// First byte.
        offset: u64,
        /// Bytes; the range does not pass the end of u64.
        len: u64,
    },
    /// Granted bytes, as many as the body has.
    Data {
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
}

/// Head of Eager, Fragment and Rts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageHead {
    /// Which of the three.
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
}

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
            Class::Rts => rts_head_len(self.immediate.is_some()),
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
    repr: AckRepr,
    pairs: &'a [Word],
}

impl From<AckRepr> for AckView<'_> {
    fn from(repr: AckRepr) -> Self {
        Self { repr, pairs: &[] }
    }
}

impl<'a> AckView<'a> {
    /// An Ack of these three words.
    #[inline(always)]
    fn without_pairs(first: First, lens: u64, credit: u64) -> Self {
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

/// A sender's introduction (PROTOCOL §3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HelloRepr<'a> {
    /// `FLAG_HELPER`.
    pub flags: u8,
    /// Versions spoken: min nibble << 4 | max nibble.
    pub versions: u8,
    /// Longest frame it takes.
    pub frame_len_max: u16,
    /// Its life.
    pub incarnation: u64,
    /// The id to answer to.
    pub id: u64,
    /// Never the same twice under one receiver's secret: it masks what follows.
    pub nonce: u64,
    /// Its address.
    pub address: Address,
    /// Where it can be reached; at most `LOCATOR_COUNT_MAX`.
    pub locators: &'a [Locator],
}

/// A Hello as received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HelloView<'a> {
    first: First,
    words: &'a [Word; 3],
    /// The address, then the locators.
    masked: &'a [Word],
}

impl HelloView<'_> {
    /// Flags.
    pub fn flags(&self) -> u8 {
        self.first.a()
    }

    /// Versions spoken: min nibble << 4 | max nibble.
    pub fn versions(&self) -> u8 {
        self.first.b() as u8
    }

    /// Longest frame it takes.
    pub fn frame_len_max(&self) -> u16 {
        self.first.c() as u16
    }

    /// Its life.
    pub fn incarnation(&self) -> u64 {
        number(&self.words[0])
    }

    /// The id to answer to.
    pub fn id(&self) -> u64 {
        number(&self.words[1])
    }

    /// The nonce.
    pub fn nonce(&self) -> u64 {
        number(&self.words[2])
    }

    /// The sender's address; `secret` is the one the frame was keyed with.
    pub fn address(&self, secret: Secret) -> Result<Address, AddressError> {
        decode_address(&unmask(secret, self.nonce(), self.masked), 0)
    }

    /// Where the sender can be reached; `secret` is the one the frame was keyed with.
    pub fn locators(&self, secret: Secret) -> impl Iterator<Item = Locator> + use<> {
        let count = locator_count(self.first);
        decode_locators(unmask(secret, self.nonce(), self.masked), ADDRESS_LEN, count)
    }
}

/// The receiver's answer to Hello and Echo (PROTOCOL §3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WelcomeRepr<'a> {
    /// `FLAG_HELPER`; `FLAG_ADDRESS` follows from `address`.
    pub flags: u8,
    /// Versions spoken: min nibble << 4 | max nibble.
    pub versions: u8,
    /// Longest frame it takes.
    pub frame_len_max: u16,
    /// The id to answer to.
    pub id: u64,
    /// Never the same twice under one receiver's secret: it masks what follows.
    pub nonce: u64,
    /// Its life.
    pub incarnation: u64,
    /// Where it can be reached; at most `LOCATOR_COUNT_MAX`.
    pub locators: &'a [Locator],
    /// Its address, for a stranger.
    pub address: Option<Address>,
}

/// A Welcome as received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WelcomeView<'a> {
    first: First,
    words: &'a [Word; 3],
    /// The locators, then the address if there is one.
    masked: &'a [Word],
}

impl WelcomeView<'_> {
    /// Flags.
    pub fn flags(&self) -> u8 {
        self.first.a()
    }

    /// Versions spoken: min nibble << 4 | max nibble.
    pub fn versions(&self) -> u8 {
        self.first.b() as u8
    }

    /// Longest frame it takes.
    pub fn frame_len_max(&self) -> u16 {
        self.first.c() as u16
    }

    /// The id to answer to.
    pub fn id(&self) -> u64 {
        number(&self.words[0])
    }

    /// The nonce.
    pub fn nonce(&self) -> u64 {
        number(&self.words[1])
    }

    /// Its life.
    pub fn incarnation(&self) -> u64 {
        number(&self.words[2])
    }

    /// Where it can be reached; `secret` is our own, whatever the frame was keyed with.
    pub fn locators(&self, secret: Secret) -> impl Iterator<Item = Locator> + use<> {
        let count = locator_count(self.first);
        decode_locators(unmask(secret, self.nonce(), self.masked), 0, count)
    }

    /// Its address, if it was opened to strangers and tells; `secret` is our own.
    pub fn address(&self, secret: Secret) -> Result<Option<Address>, AddressError> {
        if self.flags() & FLAG_ADDRESS == 0 {
            return Ok(None);
        }
        let start = LOCATOR_LEN * locator_count(self.first);
        decode_address(&unmask(secret, self.nonce(), self.masked), start).map(Some)
    }
}

/// Hello and Welcome: the number of locators stands beside the versions.
fn locator_count(first: First) -> usize {
    usize::from(first.b() >> 8)
}

/// A clear copy of what a Hello or Welcome masks; zeros behind it. Never longer than `MASKED_LEN_MAX` as `locator_count`
/// is checked when the record is read.
fn unmask(secret: Secret, nonce: u64, masked: &[Word]) -> [u8; MASKED_LEN_MAX] {
    let mut clear = [0; MASKED_LEN_MAX];
    let masked = masked.as_flattened();
    clear[..masked.len()].copy_from_slice(masked);
    mask(secret, nonce, &mut clear[..masked.len()]);
    clear
}

fn decode_address(clear: &[u8; MASKED_LEN_MAX], start: usize) -> Result<Address, AddressError> {
    let bytes = clear[start..].first_chunk().ok_or(AddressError::Encoding)?;
    Address::decode(bytes)
}

fn decode_locators(
    clear: [u8; MASKED_LEN_MAX],
    start: usize,
    count: usize,
) -> impl Iterator<Item = Locator> {
    (0..count).map(move |index| {
        let mut locator = Locator::default();
        let from = start + LOCATOR_LEN * index;
        locator.0.copy_from_slice(&clear[from..from + LOCATOR_LEN]);
        locator
    })
}

/// The records of a frame with their bodies. Ends early at one that is malformed.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    heads: &'a [Word],
    bodies: &'a [u8],
}

impl<'a> Records<'a> {
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
        let shape = *SHAPES.get(usize::from(first.kind()))?;
        let mut word_count = usize::from(shape & SHAPE_WORDS);
        if shape & SHAPE_COUNTED != 0 {
            word_count += counted_words(first)?;
        }
        let body_len = if shape & SHAPE_BODY != 0 { usize::from(first.b()) } else { 0 };
        let (head, heads) = self.heads.split_at_checked(word_count)?;
        let (body, bodies) = self.bodies.split_at_checked(body_len)?;
        let (_, rest) = head.split_first()?; // none if there is no such kind: its shape has no words
        *self = Self { heads, bodies };
        Some((first, rest, body))
    }
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
        let record = match first.kind() & 0xF0 {
            0x10 => Record::Message(decode_message(first, rest)?),
            0x00 => decode_packet(first, rest)?,
            _ => decode_other(first, rest)?,
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
        (kind::RTS..0x1C, [_, total, ..]) => len <= number(total),
        (kind::GRANT, [offset, len]) => number(offset).checked_add(number(len)).is_some(),
        (kind::DATA, [offset]) => number(offset).checked_add(len).is_some(),
        _ => true,
    }
}

#[inline(always)]
fn number(word: &Word) -> u64 {
    u64::from_le_bytes(*word)
}

/// Head of an Eager from its words.
#[inline(always)]
fn eager(first: First, tag: Tag, immediate: Option<u64>) -> MessageHead {
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
    let (class, offset, total) = if first.kind() < kind::RTS {
        let (offset, total) = unpair(third);
        (Class::Fragment, offset, u64::from(total))
    } else {
        (Class::Rts, 0, third)
    };
    Some(MessageHead { class, offset, total, ..eager(first, tag, immediate) })
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

/// Records that steer messages, and the bytes of large ones; or those of `decode_contact`. `None` as above.
#[inline(never)]
fn decode_other<'a>(first: First, rest: &'a [Word]) -> Option<Record<'a>> {
    let (a, b, message) = (first.a(), first.b(), first.c());
    Some(match (first.kind(), rest) {
        (kind::GRANT, [offset, len]) => {
            Record::Grant { message, offset: number(offset), len: number(len) }
        }
        (kind::DATA, [offset]) => Record::Data { message, offset: number(offset) },
        (kind::DONE, _) => Record::Done { message, status: a },
        (kind::CANCEL, _) => Record::Cancel { message },
        (kind::REFUSE, _) => Record::Refuse { message, order: b },
        (kind::RECALL, _) => Record::Recall { message, order: b },
        (kind::QUERY, [tag, ignore]) => {
            let (query, space, tag) = (first.c(), Space(a), Tag(number(tag)));
            Record::Query { query, space, tag, ignore: number(ignore) }
        }
        (kind::FOUND, words) => Record::Found(decode_found(first, words.first_chunk()?)),
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

/// Writes header and heads of a frame, one after the other; `seal` finishes them when all is known. The order of the
/// records is the caller's (PROTOCOL §10.1), as are their bodies.
#[derive(Debug)]
pub struct Writer<'a> {
    out: &'a mut Vec<u8>,
}

/// Bytes of header and head of a frame with one Eager without immediate.
pub const LONE_EAGER_LEN: usize = HEADER_LEN + eager_head_len(false);

/// Writes and seals a frame with one Eager without immediate: the same as `Writer::begin`, `Writer::eager` and `seal`,
/// in one piece.
#[inline(always)]
pub fn write_lone_eager(out: &mut Vec<u8>, header: Header, eager: EagerRepr, secret: &Secret) {
    let [_, to, last] = header.words();
    let last = last | (eager_head_len(false) as u64) << 32;
    let [first, tag] = eager.words();
    put_all(out, [0, to, last, first, tag]);
    seal_all::<4>(out, LONE_EAGER_LEN + usize::from(eager.len), secret);
}

/// Bytes of header and heads of a frame with an Ack without holes and one Eager without immediate.
pub const ACKED_EAGER_LEN: usize = LONE_EAGER_LEN + ack_head_len(0);

/// The same for a frame with an Ack without holes before it.
#[inline(always)]
pub fn write_acked_eager(
    out: &mut Vec<u8>,
    header: Header,
    ack: &AckRepr,
    eager: EagerRepr,
    secret: &Secret,
) {
    let [_, to, last] = header.words();
    let last = last | ((ACKED_EAGER_LEN - HEADER_LEN) as u64) << 32;
    let ([one, two, three], [first, tag]) = (ack.words(), eager.words());
    put_all(out, [0, to, last, one, two, three, first, tag]);
    seal_all::<7>(out, ACKED_EAGER_LEN + usize::from(eager.len), secret);
}

/// Makes these words all that `out` holds. Frames of a stream have the same length: then they are just stored.
#[inline(always)]
fn put_all<const N: usize>(out: &mut Vec<u8>, words: [u64; N]) {
    if out.len() != N * WORD_LEN {
        set_len(out, N * WORD_LEN);
    }
    let (places, _) = out.as_chunks_mut::<WORD_LEN>();
    for (place, word) in places.iter_mut().zip(words) {
        *place = word.to_le_bytes();
    }
}

#[inline(never)]
fn set_len(out: &mut Vec<u8>, len: usize) {
    out.reserve(ROOM_LEN);
    out.resize(len, 0);
}

/// Puts in the check of a frame whose header and heads are these `N` words behind it.
#[inline(always)]
fn seal_all<const N: usize>(out: &mut [u8], frame_len: usize, secret: &Secret) {
    let (places, _) = out.as_chunks_mut::<WORD_LEN>();
    if let Some((check, rest)) = places.split_first_mut()
        && let Some(words) = rest.first_chunk::<N>()
    {
        *check = siphash13_fixed_then(secret, words, frame_len as u64).to_le_bytes();
    }
}

impl<'a> Writer<'a> {
    /// Starts a frame in `out`; what was in there is forgotten, its memory used again.
    #[inline]
    pub fn begin(out: &'a mut Vec<u8>, header: Header) -> Self {
        out.clear();
        let mut writer = Writer { out };
        writer.put(header.words());
        writer
    }

    /// Bytes so far, the header's among them.
    #[inline]
    pub fn len(&self) -> usize {
        self.out.len()
    }

    /// Whether there is no record yet.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.out.len() == HEADER_LEN
    }

    #[inline(always)]
    fn put<const N: usize>(&mut self, words: [u64; N]) {
        // Asked here and not by `extend_from_slice`, which then need not ask again. What grows is a function apart, given
        // the words and not a place where they are, so that they stay in registers for the usual case.
        if self.out.capacity() - self.out.len() < N * WORD_LEN {
            return self.put_growing(words.map(|word| word));
        }
        self.out.extend_from_slice(words.map(u64::to_le_bytes).as_flattened());
    }

    #[cold]
    #[inline(never)]
    fn put_growing<const N: usize>(&mut self, words: [u64; N]) {
        self.out.reserve(ROOM_LEN);
        self.out.extend_from_slice(words.map(u64::to_le_bytes).as_flattened());
    }

    /// Check, to be filled by `seal`. Must be the first record.
    #[inline]
    pub fn check(&mut self) {
        debug_assert!(self.is_empty(), "Check is the first record");
        self.put([First::word(kind::CHECK, 0, 0, 0)]);
    }

    /// Ack. `pairs` are (skip, take): so many packets missing, then so many received, downwards; none is 0.
    pub fn ack(&mut self, ack: &AckRepr, pairs: &[(u32, u32)]) {
        let count = pairs.len();
        assert!(count <= ACK_RANGE_COUNT_MAX, "{count} ranges are too many for an Ack");
        let [first, lens, credit] = ack.words();
        self.put([first | (count as u64) << 16, lens, credit]);
        for &(skip, take) in pairs {
            self.put([pair(skip, take)]);
        }
    }

    /// Ping.
    pub fn ping(&mut self) {
        self.put([First::word(kind::PING, 0, 0, 0)]);
    }

    /// Pad; the caller adds a body of `len` zeros.
    pub fn pad(&mut self, len: u16) {
        self.put([First::word(kind::PAD, 0, len, 0)]);
    }

    /// Eager, Fragment or Rts; the caller adds a body of `head.len` bytes.
    #[inline]
    pub fn message(&mut self, head: &MessageHead) {
        let wants_match = u8::from(head.wants_match) * kind::WANTS_MATCH;
        let with_immediate = u8::from(head.immediate.is_some()) * kind::WITH_IMMEDIATE;
        let kind = head.class as u8 | wants_match | with_immediate;
        let first = First::word(kind, head.space.0, head.len, head.message);
        if kind & !kind::WANTS_MATCH == kind::EAGER {
            return self.put([first, head.tag.0]); // the commonest, first and by one question
        }
        self.long_message(head, first);
    }

    /// Eager; the caller adds a body of `eager.len` bytes.
    #[inline]
    pub fn eager(&mut self, eager: EagerRepr, immediate: Option<u64>) {
        let [first, tag] = eager.words();
        match immediate {
            None => self.put([first, tag]),
            Some(immediate) => {
                self.put([first | u64::from(kind::WITH_IMMEDIATE), tag, immediate]);
            }
        }
    }

    /// A message head of more than two words.
    #[inline(never)]
    fn long_message(&mut self, head: &MessageHead, first: u64) {
        let third = match head.class {
            Class::Eager => None,
            Class::Fragment => Some(pair(head.offset, head.total as u32)),
            Class::Rts => Some(head.total),
        };
        debug_assert!(head.class != Class::Fragment || head.total <= u64::from(u32::MAX));
        match (third, head.immediate) {
            (None, None) => self.put([first, head.tag.0]),
            (None, Some(last)) | (Some(last), None) => self.put([first, head.tag.0, last]),
            (Some(third), Some(last)) => self.put([first, head.tag.0, third, last]),
        }
    }

    /// Grant.
    pub fn grant(&mut self, message: u32, offset: u64, len: u64) {
        self.put([First::word(kind::GRANT, 0, 0, message), offset, len]);
    }

    /// Data; the caller adds a body of `len` bytes.
    #[inline]
    pub fn data(&mut self, message: u32, len: u16, offset: u64) {
        self.put([First::word(kind::DATA, 0, len, message), offset]);
    }

    /// Done, with one of `DONE_*`.
    pub fn done(&mut self, message: u32, status: u8) {
        self.put([First::word(kind::DONE, status, 0, message)]);
    }

    /// Cancel.
    pub fn cancel(&mut self, message: u32) {
        self.put([First::word(kind::CANCEL, 0, 0, message)]);
    }

    /// Refuse.
    pub fn refuse(&mut self, message: u32, order: u16) {
        self.put([First::word(kind::REFUSE, 0, order, message)]);
    }

    /// Recall.
    pub fn recall(&mut self, message: u32, order: u16) {
        self.put([First::word(kind::RECALL, 0, order, message)]);
    }

    /// Query.
    pub fn query(&mut self, query: u32, space: Space, tag: Tag, ignore: u64) {
        self.put([First::word(kind::QUERY, space.0, 0, query), tag.0, ignore]);
    }

    /// Found.
    pub fn found(&mut self, found: &FoundRepr) {
        let FoundRepr { query, space, tag, message, total, immediate, none } = *found;
        let mut flags = if none { FOUND_NONE } else { 0 };
        if immediate.is_some() {
            flags |= FOUND_IMMEDIATE;
        }
        let first = First::word(kind::FOUND, space.0, u16::from(flags), query);
        self.put([first, pair(message, 0), tag.0, total, immediate.unwrap_or(0)]);
    }

    /// Hello to the endpoint with this secret (all-zero for a stranger's).
    pub fn hello(&mut self, hello: &HelloRepr<'_>, secret: Secret) {
        let HelloRepr { flags, versions, frame_len_max, incarnation, id, nonce, .. } = *hello;
        let first = contact_first(kind::HELLO, flags, versions, hello.locators, frame_len_max);
        self.put([first, incarnation, id, nonce]);
        let start = self.out.len();
        self.out.extend_from_slice(&hello.address.encode());
        self.out.extend(hello.locators.iter().flat_map(|locator| locator.0));
        mask(secret, nonce, &mut self.out[start..]);
    }

    /// Challenge.
    pub fn challenge(
        &mut self,
        flags: u8,
        versions: u8,
        nonce: u64,
        cookie: u64,
        incarnation: u64,
    ) {
        let first = First::word(kind::CHALLENGE, flags, u16::from(versions), 0);
        self.put([first, nonce, cookie, incarnation]);
    }

    /// Echo.
    pub fn echo(&mut self, cookie: u64) {
        self.put([First::word(kind::ECHO, 0, 0, 0), cookie]);
    }

    /// Welcome to the endpoint with this secret.
    pub fn welcome(&mut self, welcome: &WelcomeRepr<'_>, secret: Secret) {
        let WelcomeRepr { mut flags, versions, frame_len_max, id, nonce, incarnation, .. } =
            *welcome;
        flags &= !FLAG_ADDRESS;
        if welcome.address.is_some() {
            flags |= FLAG_ADDRESS;
        }
        let first = contact_first(kind::WELCOME, flags, versions, welcome.locators, frame_len_max);
        self.put([first, id, nonce, incarnation]);
        let start = self.out.len();
        self.out.extend(welcome.locators.iter().flat_map(|locator| locator.0));
        if let Some(address) = welcome.address {
            self.out.extend_from_slice(&address.encode());
        }
        mask(secret, nonce, &mut self.out[start..]);
    }

    /// Reset.
    pub fn reset(&mut self, id: u64) {
        self.put([First::word(kind::RESET, 0, 0, 0), id]);
    }

    /// Goodbye.
    pub fn goodbye(&mut self, message: u32) {
        self.put([First::word(kind::GOODBYE, 0, 0, message)]);
    }

    /// Versions.
    pub fn versions(&mut self, min: u8, max: u8, nonce: u64) {
        self.put([First::word(kind::VERSIONS, min, u16::from(max), 0), nonce]);
    }

    /// PathChallenge.
    pub fn path_challenge(&mut self, path: u8, nonce: u64) {
        self.put([First::word(kind::PATH_CHALLENGE, path, 0, 0), nonce]);
    }

    /// PathResponse.
    pub fn path_response(&mut self, path: u8, nonce: u64) {
        self.put([First::word(kind::PATH_RESPONSE, path, 0, 0), nonce]);
    }
}

/// First word of Hello and Welcome.
fn contact_first(
    kind: u8,
    flags: u8,
    versions: u8,
    locators: &[Locator],
    frame_len_max: u16,
) -> u64 {
    let count = locators.len();
    assert!(count <= LOCATOR_COUNT_MAX, "{count} locators are too many for a Hello or Welcome");
    let counts = u16::from(versions) | (count as u16) << 8;
    First::word(kind, flags, counts, u32::from(frame_len_max))
}

/// Whether the frame begun in `head` has a Check record, whose sum `seal` wants.
#[inline]
pub fn wants_crc(head: &[u8]) -> bool {
    head.get(HEADER_LEN) == Some(&kind::CHECK)
}

/// Finishes header and heads: the length of the heads, the CRC32C of the bodies if the frame has a Check record for it,
/// and the keyed check (PROTOCOL §1.2). Nothing in `head` may change afterwards.
#[inline]
pub fn seal(head: &mut [u8], body_len: usize, secret: Secret, crc: Option<u32>) {
    let frame_len = (head.len() + body_len) as u64;
    let (words, _) = head.as_chunks_mut::<WORD_LEN>();
    let Some(([check, to, last], heads)) = words.split_first_chunk_mut() else {
        panic!("no header was begun");
    };
    let heads_len = heads.len() * WORD_LEN;
    debug_assert!(heads_len <= usize::from(u16::MAX));
    // Nothing but the length stands in these bits, and `begin` left them zero; sealed twice they are set twice.
    let last_word = number(last) & !(0xFFFF << 32) | (heads_len as u64) << 32;
    *last = last_word.to_le_bytes();
    if let Some(crc) = crc
        && let [first, ..] = heads
        && First::read(*first).kind() == kind::CHECK
    {
        *first = First::word(kind::CHECK, 0, 0, crc).to_le_bytes();
    }
    *check = siphash13_words_then(secret, [number(to), last_word], heads, frame_len).to_le_bytes();
}

#[cfg(test)]
mod tests;
mod train;

pub(crate) use train::train_checks_anywhere;
pub use train::{
    DATA_FRAME_HEAD_LEN, TrainChecks, TrainRepr, TrainSeed, agreeing_count, first_header,
    train_checks, write_train,
};
