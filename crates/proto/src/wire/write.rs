//! Writing and sealing frames.

use alloc::vec::Vec;

use super::contact::{HelloRepr, Introduction, WelcomeRepr};
use super::layout::{
    ACK_RANGE_COUNT_MAX, ACKED_EAGER_LEN, FLAG_ADDRESS, FOUND_IMMEDIATE, FOUND_NONE, First,
    HEADER_LEN, Header, LOCATOR_COUNT_MAX, LONE_EAGER_LEN, LONE_HEAD_LEN_MAX, Lane, WORD_LEN,
    ack_head_len, base_of, check_tail, eager_head_len, kind, number, pair, unpair,
};
use super::record::{AckRepr, Class, EagerRepr, FoundRepr, MessageHead, Record, TOTAL_MAX};
use crate::base::secret::Secret;
use crate::base::siphash::mask;
use crate::base::types::{Locator, Space, Tag};
use crate::seal::Seal;

/// Room made in a buffer at a time: most frames need no more for their heads.
const ROOM_LEN: usize = 256;

/// Writes header and heads of a frame, one after the other; `seal` finishes them when all is known. The order of the
/// records is the caller's (PROTOCOL §10.1), as are their bodies.
#[derive(Debug)]
pub struct Writer<'a> {
    out: &'a mut Vec<u8>,
}

/// Writes and seals a frame with one Eager without immediate: the same as `Writer::begin`, `Writer::eager` and `seal`,
/// in one piece.
#[inline(always)]
pub fn write_lone_eager(out: &mut Vec<u8>, header: Header, eager: EagerRepr, seal: &impl Seal) {
    put_all(out, lone_words(header, eager));
    seal_all::<4>(out, LONE_EAGER_LEN + usize::from(eager.len), header.packet, seal);
}

#[inline(always)]
fn lone_words(header: Header, eager: EagerRepr) -> [u64; LONE_EAGER_LEN / WORD_LEN] {
    let [_, to, last] = header.words();
    let last = last | (eager_head_len(false) as u64) << 32;
    let [first, tag] = eager.words();
    [0, to, last, first, tag]
}

/// Writes and seals a frame with an Ack without holes and one Eager without immediate.
#[inline(always)]
pub fn write_acked_eager(
    out: &mut Vec<u8>,
    header: Header,
    ack: &AckRepr,
    eager: EagerRepr,
    seal: &impl Seal,
) {
    put_all(out, acked_words(header, ack, eager));
    seal_all::<7>(out, ACKED_EAGER_LEN + usize::from(eager.len), header.packet, seal);
}

#[inline(always)]
fn acked_words(
    header: Header,
    ack: &AckRepr,
    eager: EagerRepr,
) -> [u64; ACKED_EAGER_LEN / WORD_LEN] {
    let [_, to, last] = header.words();
    let last = last | ((ACKED_EAGER_LEN - HEADER_LEN) as u64) << 32;
    let ([one, two, three], [first, tag]) = (ack.words(), eager.words());
    [0, to, last, one, two, three, first, tag]
}

/// Writes and seals a frame with one Eager into bytes of its own, with an Ack and an immediate or without; how long it is.
#[inline(always)]
pub fn write_lone_at(
    out: &mut [u8; LONE_HEAD_LEN_MAX],
    header: Header,
    ack: Option<&AckRepr>,
    (eager, immediate): (EagerRepr, Option<u64>),
    seal: &impl Seal,
) -> usize {
    let heads_len = |ack_len| ack_len + eager_head_len(immediate.is_some());
    let [_, to, last] = header.words();
    let [first, tag] = eager.words();
    let len = usize::from(eager.len);
    let with_immediate = first | u64::from(kind::WITH_IMMEDIATE);
    let Some(ack) = ack else {
        let last = last | (heads_len(0) as u64) << 32;
        return match immediate {
            None => {
                store_all(out, [0, to, last, first, tag]);
                seal_all::<4>(out, LONE_EAGER_LEN + len, header.packet, seal)
            }
            Some(immediate) => {
                store_all(out, [0, to, last, with_immediate, tag, immediate]);
                seal_all::<5>(out, LONE_EAGER_LEN + WORD_LEN + len, header.packet, seal)
            }
        };
    };
    let last = last | (heads_len(ack_head_len(0)) as u64) << 32;
    let [one, two, three] = ack.words();
    match immediate {
        None => {
            store_all(out, [0, to, last, one, two, three, first, tag]);
            seal_all::<7>(out, ACKED_EAGER_LEN + len, header.packet, seal)
        }
        Some(immediate) => {
            store_all(out, [0, to, last, one, two, three, with_immediate, tag, immediate]);
            seal_all::<8>(out, LONE_HEAD_LEN_MAX + len, header.packet, seal)
        }
    }
}

/// Makes these words all that `out` holds. Frames of a stream have the same length: then they are just stored.
#[inline(always)]
fn put_all<const N: usize>(out: &mut Vec<u8>, words: [u64; N]) {
    if out.len() != N * WORD_LEN {
        set_len(out, N * WORD_LEN);
    }
    store_all(out, words);
}

#[inline(always)]
fn store_all<const N: usize>(out: &mut [u8], words: [u64; N]) {
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

/// Puts in the check of a frame whose header and heads are these `N` words behind it; how long all of them are.
#[inline(always)]
fn seal_all<const N: usize>(
    out: &mut [u8],
    frame_len: usize,
    packet: u64,
    seal: &impl Seal,
) -> usize {
    let (places, _) = out.as_chunks_mut::<WORD_LEN>();
    if let Some((check, rest)) = places.split_first_mut()
        && let Some(words) = rest.first_chunk::<N>()
    {
        let tail = check_tail(frame_len as u64, base_of(packet));
        *check = seal.mark(words, tail).to_le_bytes();
    }
    (N + 1) * WORD_LEN
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
    pub(super) fn put<const N: usize>(&mut self, words: [u64; N]) {
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

    /// Eager, Fragment, Rts or Told; the caller adds a body of `head.len` bytes.
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
            Class::Rts | Class::Told => {
                Some(head.total | u64::from(head.ahead) << TOTAL_MAX.count_ones())
            }
        };
        debug_assert!(head.total <= TOTAL_MAX);
        debug_assert!(head.class != Class::Fragment || head.total <= u64::from(u32::MAX));
        match (third, head.immediate) {
            (None, None) => self.put([first, head.tag.0]),
            (None, Some(last)) | (Some(last), None) => self.put([first, head.tag.0, last]),
            (Some(third), Some(last)) => self.put([first, head.tag.0, third, last]),
        }
    }

    /// Grant.
    pub fn grant(&mut self, lane: Lane, message: u32, offset: u64, len: u64) {
        self.put([First::word(kind::GRANT, lane as u8, 0, message), offset, len]);
    }

    /// Data; the caller adds a body of `len` bytes.
    #[inline]
    pub fn data(&mut self, lane: Lane, message: u32, len: u16, offset: u64) {
        self.put([First::word(kind::DATA, lane as u8, len, message), offset]);
    }

    /// Done, with one of `DONE_*` and the bytes that the receive took.
    pub fn done(&mut self, message: u32, status: u8, placed_len: u64) {
        self.put([First::word(kind::DONE, status, 0, message), placed_len]);
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

    /// StreamCredit.
    pub fn stream_credit(&mut self, limit: u64) {
        self.put([First::word(kind::STREAM_CREDIT, 0, 0, 0), limit]);
    }

    /// Hello to the endpoint with this secret (all-zero for a stranger's).
    pub fn hello(&mut self, hello: &HelloRepr<'_>, secret: Secret) {
        let Introduction { flags, incarnation, id, nonce, .. } = hello.who;
        let first = contact_first(kind::HELLO, flags, &hello.who, hello.locators);
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
        let Introduction { flags, incarnation, id, nonce, .. } = welcome.who;
        let told = if welcome.address.is_some() { FLAG_ADDRESS } else { 0 };
        let flags = flags & !FLAG_ADDRESS | told;
        let first = contact_first(kind::WELCOME, flags, &welcome.who, welcome.locators);
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

/// What was read, written again.
impl Writer<'_> {
    /// A record as it was read; the caller adds a body of `body_len` bytes if it has one. False, and nothing written, for
    /// Hello and Welcome: they hold what only their receiver can read.
    pub fn record(&mut self, record: &Record<'_>, body_len: u16) -> bool {
        match *record {
            Record::Check { .. } => self.check(),
            Record::Ack(ack) => {
                let mut pairs = [(0, 0); ACK_RANGE_COUNT_MAX];
                for (pair, word) in pairs.iter_mut().zip(ack.pairs) {
                    *pair = unpair(number(word));
                }
                self.ack(&ack.repr, &pairs[..ack.pairs.len()]);
            }
            Record::Ping => self.ping(),
            Record::Pad => self.pad(body_len),
            Record::Message(head) => self.message(&head),
            Record::Grant { lane, message, offset, len } => self.grant(lane, message, offset, len),
            Record::Data { lane, message, offset } => self.data(lane, message, body_len, offset),
            Record::Request(head) => self.request(&head),
            Record::Reply { number, status } => self.reply(number, status, body_len),
            Record::Replied { first, count } => self.replied(first, count),
            Record::Outcome { number, answer } => self.outcome(number, &answer, body_len),
            Record::End { number } => self.end(number),
            Record::Done { message, status, placed_len } => self.done(message, status, placed_len),
            Record::Cancel { message } => self.cancel(message),
            Record::StreamCredit { limit } => self.stream_credit(limit),
            Record::Refuse { message, order } => self.refuse(message, order),
            Record::Recall { message, order } => self.recall(message, order),
            Record::Query { query, space, tag, ignore } => self.query(query, space, tag, ignore),
            Record::Found(found) => self.found(&found),
            Record::Challenge { flags, versions, nonce, cookie, incarnation } => {
                self.challenge(flags, versions, nonce, cookie, incarnation);
            }
            Record::Echo { cookie } => self.echo(cookie),
            Record::Reset { id } => self.reset(id),
            Record::Goodbye { message } => self.goodbye(message),
            Record::Versions { min, max, nonce } => self.versions(min, max, nonce),
            Record::PathChallenge { path, nonce } => self.path_challenge(path, nonce),
            Record::PathResponse { path, nonce } => self.path_response(path, nonce),
            Record::Hello(_) | Record::Welcome(_) => return false,
        }
        true
    }
}

/// First word of Hello and Welcome.
fn contact_first(kind: u8, flags: u8, who: &Introduction, locators: &[Locator]) -> u64 {
    let count = locators.len();
    assert!(count <= LOCATOR_COUNT_MAX, "{count} locators are too many for a Hello or Welcome");
    let counts = u16::from(who.versions) | (count as u16) << 8;
    First::word(kind, flags, counts, u32::from(who.frame_len_max))
}

/// Whether the frame begun in `head` has a Check record, whose sum `seal` wants.
#[inline]
pub fn wants_crc(head: &[u8]) -> bool {
    head.get(HEADER_LEN) == Some(&kind::CHECK)
}

/// Finishes header and heads: the length of the heads, the CRC32C of the bodies if the frame has a Check record for it,
/// and the keyed check (PROTOCOL §1.2) of a packet whose number has no high half. Nothing in `head` may change afterwards.
#[inline]
pub fn seal(head: &mut [u8], body_len: usize, secret: Secret, crc: Option<u32>) {
    seal_high(head, body_len, 0, &secret, crc);
}

/// Finishes header and heads of any packet: `base` is its number with the low half zero.
#[inline]
pub fn seal_high(head: &mut [u8], body_len: usize, base: u64, seal: &impl Seal, crc: Option<u32>) {
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
    let tail = check_tail(frame_len, base);
    *check = seal.mark_of([number(to), last_word], heads, tail).to_le_bytes();
}
