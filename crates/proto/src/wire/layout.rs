//! What stands where: the header, the first word that all heads share, and how long the head of each kind is.

use super::matched::{OUTCOME_HEAD_LEN, matched_head_len};
use crate::base::types::ADDRESS_LEN;

/// Bytes of the header.
pub const HEADER_LEN: usize = 24;
/// The version spoken here: the low nibble of `Header::form`.
pub const VERSION: u8 = 1;
/// Form bit: keyed with the all-zero secret (PROTOCOL §3.9).
pub const FORM_STRANGER: u8 = 0x10;
/// Form bits that mean nothing yet: 0x20 is reserved for frames that are encrypted (PROTOCOL §1.1).
pub const FORM_UNKNOWN: u8 = !(0x0f | FORM_STRANGER);

/// Done: all bytes are placed.
pub const DONE_OK: u8 = 0;
/// Done: a receive took the message (PROTOCOL §7.3).
pub const DONE_MATCHED: u8 = 1;
/// Done: the receive was cancelled.
pub const DONE_CANCELLED: u8 = 2;

/// Reply: done.
pub const REPLY_OK: u8 = 0;
/// Reply: no region has this key, or none for this peer (PROTOCOL §11.3).
pub const REPLY_NO_KEY: u8 = 1;
/// Reply: the range is not inside the region.
pub const REPLY_RANGE: u8 = 2;
/// Reply: the region is not exposed for this.
pub const REPLY_ACCESS: u8 = 3;
/// Reply: there is no such operation on elements of this type, or its operands are not whole elements.
pub const REPLY_OPERATION: u8 = 4;
/// Reply: the region was withdrawn while the operation was under way.
pub const REPLY_WITHDRAWN: u8 = 5;

/// Whose number a Grant or a Data names (PROTOCOL §11.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Lane {
    /// A message of whoever sends the data.
    Message = 0,
    /// A put of whoever sends the data.
    Put = 1,
    /// A get of whoever receives the data.
    Get = 2,
}

impl Lane {
    /// `None` if there is no such lane.
    #[inline(always)]
    pub(super) const fn read(byte: u8) -> Option<Self> {
        match byte {
            0 => Some(Self::Message),
            1 => Some(Self::Put),
            2 => Some(Self::Get),
            _ => None,
        }
    }
}

/// Hello and Welcome: a helper drives this endpoint (PROTOCOL §4.1).
pub const FLAG_HELPER: u8 = 0x01;
/// Welcome: the address of the endpoint follows the locators (PROTOCOL §3.9).
pub const FLAG_ADDRESS: u8 = 0x02;
/// Hello and Welcome: frames by a link that only the two of us can write to may carry the pass (PROTOCOL §14.6).
pub const FLAG_PASS: u8 = 0x04;

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
    pub(crate) const TOLD: u8 = 0x1C;
    pub(crate) const GRANT: u8 = 0x20;
    pub(crate) const DATA: u8 = 0x21;
    pub(crate) const DONE: u8 = 0x22;
    pub(crate) const CANCEL: u8 = 0x23;
    pub(crate) const REFUSE: u8 = 0x24;
    pub(crate) const RECALL: u8 = 0x25;
    pub(crate) const QUERY: u8 = 0x26;
    pub(crate) const FOUND: u8 = 0x27;
    pub(crate) const STREAM_CREDIT: u8 = 0x28;
    pub(crate) const HELLO: u8 = 0x30;
    pub(crate) const CHALLENGE: u8 = 0x31;
    pub(crate) const ECHO: u8 = 0x32;
    pub(crate) const WELCOME: u8 = 0x33;
    pub(crate) const RESET: u8 = 0x34;
    pub(crate) const GOODBYE: u8 = 0x35;
    pub(crate) const VERSIONS: u8 = 0x36;
    pub(crate) const PATH_CHALLENGE: u8 = 0x37;
    pub(crate) const PATH_RESPONSE: u8 = 0x38;
    /// Of look-ups, which have no shape here: to an endpoint they are malformed.
    pub(crate) const FIND: u8 = 0x39;
    pub(crate) const NAMED: u8 = 0x3A;
    pub(crate) const PUT: u8 = 0x40;
    pub(crate) const PUT_PART: u8 = 0x42;
    pub(crate) const PUT_ASK: u8 = 0x44;
    pub(crate) const GET: u8 = 0x46;
    pub(crate) const ATOMIC: u8 = 0x47;
    pub(crate) const REPLY: u8 = 0x48;
    pub(crate) const REPLIED: u8 = 0x49;
    pub(crate) const END: u8 = 0x4A;
    pub(crate) const MATCHED: u8 = 0x4B;
    pub(crate) const MATCHED_SWAP: u8 = 0x4C;
    pub(crate) const OUTCOME: u8 = 0x4D;

    /// Message kinds and puts, bit 0: an immediate follows.
    pub(crate) const WITH_IMMEDIATE: u8 = 0x01;
    /// Message kinds, bit 1: the sender wants to hear of the match.
    pub(crate) const WANTS_MATCH: u8 = 0x02;
}

pub(super) const WORD_LEN: usize = 8;
pub(super) const LOCATOR_LEN: usize = 24;

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
pub const DONE_HEAD_LEN: usize = 16;
/// Head of Cancel.
pub const CANCEL_HEAD_LEN: usize = 8;
/// Head of Refuse and of Recall.
pub const TURN_HEAD_LEN: usize = 8;
/// Head of Query.
pub const QUERY_HEAD_LEN: usize = 24;
/// Head of Found.
pub const FOUND_HEAD_LEN: usize = 40;
/// Head of StreamCredit.
pub const STREAM_CREDIT_HEAD_LEN: usize = 16;
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

/// Head of Reply and of Replied.
pub const REPLY_HEAD_LEN: usize = 8;
/// Head of End.
pub const END_HEAD_LEN: usize = 8;

/// Head of Put.
pub const fn put_head_len(immediate: bool) -> usize {
    24 + 8 * immediate as usize
}

/// Head of a part of a Put.
pub const fn put_part_head_len(immediate: bool) -> usize {
    32 + 8 * immediate as usize
}

/// Head of the announcement of a large Put.
pub const fn put_ask_head_len(immediate: bool) -> usize {
    32 + 8 * immediate as usize
}

/// Head of Get.
pub const fn get_head_len() -> usize {
    32
}

/// Head of Atomic.
pub const fn atomic_head_len() -> usize {
    32
}

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

/// Head of Rts, and of Told.
pub const fn rts_head_len(immediate: bool) -> usize {
    24 + 8 * immediate as usize
}

/// Body of Told.
pub const WHEREABOUTS_LEN: usize = 64;

/// Head of Hello.
pub const fn hello_head_len(locator_count: usize) -> usize {
    32 + ADDRESS_LEN + LOCATOR_LEN * locator_count
}

/// Head of Welcome.
pub const fn welcome_head_len(locator_count: usize, address: bool) -> usize {
    32 + LOCATOR_LEN * locator_count + ADDRESS_LEN * address as usize
}

/// Bytes of header and head of a frame with one Eager without immediate.
pub const LONE_EAGER_LEN: usize = HEADER_LEN + eager_head_len(false);
/// Bytes of header and heads of a frame with an Ack without holes and one Eager without immediate.
pub const ACKED_EAGER_LEN: usize = LONE_EAGER_LEN + ack_head_len(0);

/// Bytes of header and heads of a frame with an Ack without holes and one Eager with an immediate.
pub const LONE_HEAD_LEN_MAX: usize = ACKED_EAGER_LEN + WORD_LEN;

/// What a kind fixes of its records: head length in words (0: no such kind), whether a body follows, whether the head
/// is longer by what its first word counts. Every record is cut off by it.
pub(super) static SHAPES: [u8; 0x50] = shapes();
pub(super) const SHAPE_WORDS: u8 = 0x0F;
pub(super) const SHAPE_COUNTED: u8 = 0x40;
pub(super) const SHAPE_BODY: u8 = 0x80;

const fn shapes() -> [u8; 0x50] {
    const fn words(head_len: usize) -> u8 {
        assert!(head_len.is_multiple_of(WORD_LEN) && head_len / WORD_LEN <= SHAPE_WORDS as usize);
        (head_len / WORD_LEN) as u8
    }
    let mut shapes = [0; 0x50];
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
        shapes[(kind::TOLD | bits) as usize] = words(rts_head_len(immediate)) | SHAPE_BODY;
        bits += 1;
    }
    shapes[kind::GRANT as usize] = words(GRANT_HEAD_LEN);
    shapes[kind::DATA as usize] = words(DATA_HEAD_LEN) | SHAPE_BODY;
    shapes[kind::DONE as usize] = words(DONE_HEAD_LEN);
    shapes[kind::CANCEL as usize] = words(CANCEL_HEAD_LEN);
    shapes[kind::STREAM_CREDIT as usize] = words(STREAM_CREDIT_HEAD_LEN);
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
    let mut bit = 0;
    while bit <= kind::WITH_IMMEDIATE {
        let immediate = bit != 0;
        shapes[(kind::PUT | bit) as usize] = words(put_head_len(immediate)) | SHAPE_BODY;
        shapes[(kind::PUT_PART | bit) as usize] = words(put_part_head_len(immediate)) | SHAPE_BODY;
        shapes[(kind::PUT_ASK | bit) as usize] = words(put_ask_head_len(immediate));
        bit += 1;
    }
    shapes[kind::GET as usize] = words(get_head_len());
    shapes[kind::ATOMIC as usize] = words(atomic_head_len()) | SHAPE_BODY;
    shapes[kind::REPLY as usize] = words(REPLY_HEAD_LEN) | SHAPE_BODY;
    shapes[kind::REPLIED as usize] = words(REPLY_HEAD_LEN);
    shapes[kind::END as usize] = words(END_HEAD_LEN);
    shapes[kind::MATCHED as usize] = words(matched_head_len(false)) | SHAPE_BODY;
    shapes[kind::MATCHED_SWAP as usize] = words(matched_head_len(true)) | SHAPE_BODY;
    shapes[kind::OUTCOME as usize] = words(OUTCOME_HEAD_LEN) | SHAPE_BODY;
    shapes
}

/// Words by which a head of a counted kind is longer. `None` if it counts more than is allowed.
pub(super) fn counted_words(first: First) -> Option<usize> {
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
pub(super) type Word = [u8; WORD_LEN];

/// The first word of a head, in the one shape all heads share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct First(u64);

impl First {
    #[inline(always)]
    pub(super) const fn word(kind: u8, a: u8, b: u16, c: u32) -> u64 {
        kind as u64 | (a as u64) << 8 | (b as u64) << 16 | (c as u64) << 32
    }

    #[inline(always)]
    pub(super) const fn read(word: Word) -> Self {
        Self(u64::from_le_bytes(word))
    }

    #[inline(always)]
    pub(super) const fn kind(self) -> u8 {
        self.0 as u8
    }

    #[inline(always)]
    pub(super) const fn a(self) -> u8 {
        (self.0 >> 8) as u8
    }

    #[inline(always)]
    pub(super) const fn b(self) -> u16 {
        (self.0 >> 16) as u16
    }

    #[inline(always)]
    pub(super) const fn c(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

#[inline(always)]
pub(super) fn number(word: &Word) -> u64 {
    u64::from_le_bytes(*word)
}

/// Two u32 of one word, in wire order.
pub(super) const fn pair(first: u32, second: u32) -> u64 {
    first as u64 | (second as u64) << 32
}

/// What `pair` made.
pub(super) const fn unpair(word: u64) -> (u32, u32) {
    (word as u32, (word >> 32) as u32)
}

/// Hello and Welcome: the number of locators stands beside the versions.
pub(super) fn locator_count(first: First) -> usize {
    usize::from(first.b() >> 8)
}

/// What a header says, the check and the lengths apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The association at its receiver; 0 at first contact.
    pub to: u64,
    /// The packet number. The wire has its low half, the check covers all of it (PROTOCOL §1.2).
    pub packet: u64,
    /// The sender's path number.
    pub path: u8,
    /// Version and form bits.
    pub form: u8,
}

impl Header {
    /// What the words of a header say, if the packet number's high half is that of `base` (its low half is zero).
    #[inline(always)]
    pub(super) fn read(to: u64, last: u64, base: u64) -> Self {
        let packet = base | last & u64::from(u32::MAX);
        Self { to, packet, path: (last >> 48) as u8, form: (last >> 56) as u8 }
    }

    /// The three words of a header before `seal`.
    #[inline(always)]
    pub(super) fn words(self) -> [u64; 3] {
        let Self { to, packet, path, form } = self;
        let low = packet & u64::from(u32::MAX);
        [0, to, low | u64::from(path) << 48 | u64::from(form) << 56]
    }

    /// The version the frame is written in. Header and check are the same in all (PROTOCOL §1.2), the records of
    /// another version than ours may not be.
    pub const fn version(&self) -> u8 {
        self.form & 0x0F
    }
}

/// The high half of a packet number, where it stands; the low half is zero.
#[inline(always)]
pub const fn base_of(packet: u64) -> u64 {
    packet & !(u32::MAX as u64)
}

/// Longer frames have no check: their length has no room in it. Links' frames are far shorter.
pub(super) const FRAME_LEN_SEALED_MAX: u64 = (1 << 24) - 1;

/// What a frame's check ends with, as seven bytes (PROTOCOL §1.2): three of the frame's length, four of the high half of its
/// packet number. The wire shows only the low half, so without the other a frame recorded 2^32 packets ago would pass for new.
#[inline(always)]
pub(super) const fn check_tail(frame_len: u64, base: u64) -> u64 {
    debug_assert!(frame_len <= FRAME_LEN_SEALED_MAX && base as u32 == 0);
    frame_len | base >> 8
}
