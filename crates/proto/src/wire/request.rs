//! Records of one-sided operations: requests, and what answers them (PROTOCOL §2, §11).

use super::layout::{
    END_HEAD_LEN, First, REPLY_HEAD_LEN, Word, atomic_head_len, get_head_len, kind, number, pair,
    put_ask_head_len, put_head_len, put_part_head_len, unpair,
};
use super::matched::{Matched, matched_head_len};
use super::record::Record;
use super::write::Writer;

/// A request to operate on memory its receiver has exposed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestHead {
    /// Low half of its number.
    pub number: u32,
    /// Which region.
    pub key: u64,
    /// Where in it the operation begins.
    pub target: u64,
    /// What is to be done there.
    pub action: Action,
}

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Put the body there: all of it.
    Put {
        /// 64 bits for whoever owns the region.
        immediate: Option<u64>,
        /// Bytes of the body.
        len: u16,
    },
    /// Put the body there, a part of what is put.
    Part {
        /// Where the body belongs in what is put.
        offset: u32,
        /// Length of all that is put.
        total: u32,
        /// With the last part: 64 bits for whoever owns the region.
        immediate: Option<u64>,
        /// Bytes of the body.
        len: u16,
    },
    /// So many bytes are to be put there: grant them.
    Ask {
        /// How many.
        total: u64,
        /// 64 bits for whoever owns the region.
        immediate: Option<u64>,
    },
    /// Send what is there.
    Get {
        /// How many bytes.
        total: u64,
    },
    /// Compute with what is there.
    Atomic {
        /// The operation, as [`AtomicOp`](crate::AtomicOp) numbers it.
        op: u8,
        /// What the elements are, as [`Datatype`](crate::Datatype) numbers it.
        datatype: u8,
        /// Whether what was there is wanted.
        fetch: bool,
        /// Bytes of the elements.
        total: u32,
        /// Bytes of the body: operands, if the operation has any, then what to compare with, if it compares.
        len: u16,
    },
    /// One of these where an entry of Portals matches (PROTOCOL §17): `key` are its match bits.
    Matched(Matched),
}

impl RequestHead {
    /// Bytes of this head.
    pub const fn head_len(&self) -> usize {
        match self.action {
            Action::Put { immediate, .. } => put_head_len(immediate.is_some()),
            Action::Part { immediate, .. } => put_part_head_len(immediate.is_some()),
            Action::Ask { immediate, .. } => put_ask_head_len(immediate.is_some()),
            Action::Get { .. } => get_head_len(),
            Action::Atomic { .. } => atomic_head_len(),
            Action::Matched(matched) => matched_head_len(matched.operand.is_some()),
        }
    }
}

/// Atomic: what was there is wanted. Stands behind the datatype.
const FETCH: u64 = 1;

/// The record of a one-sided operation from its words. `None` only if there are too few, which the shapes exclude.
pub(super) fn decode(first: First, rest: &[Word]) -> Option<Record<'static>> {
    let (a, len, wire_number) = (first.a(), first.b(), first.c());
    match first.kind() {
        kind::REPLY => return Some(Record::Reply { number: wire_number, status: a }),
        kind::REPLIED => return Some(Record::Replied { first: wire_number, count: len }),
        kind::END => return Some(Record::End { number: wire_number }),
        _ => {}
    }
    let [key, target, rest @ ..] = rest else { return None };
    let third = rest.first().map(number);
    let immediate = |at: usize| rest.get(at).map(number);
    let action = match first.kind() & !kind::WITH_IMMEDIATE {
        _ if first.kind() == kind::ATOMIC => {
            let third = third?;
            let (datatype, fetch) = (third as u8, third >> 8 & FETCH != 0);
            let (_, total) = unpair(third);
            Action::Atomic { op: a, datatype, fetch, total, len }
        }
        kind::PUT => Action::Put { immediate: immediate(0), len },
        kind::PUT_PART => {
            let (offset, total) = unpair(third?);
            Action::Part { offset, total, immediate: immediate(1), len }
        }
        kind::PUT_ASK => Action::Ask { total: third?, immediate: immediate(1) },
        kind::GET => Action::Get { total: third? },
        _ => return None,
    };
    let (key, target) = (number(key), number(target));
    Some(Record::Request(RequestHead { number: wire_number, key, target, action }))
}

/// Whether a record of a one-sided operation, cut off whole, makes sense. Ranges that no region has are no nonsense: they
/// are answered.
pub(super) fn makes_sense(first: First, rest: &[Word]) -> bool {
    match (first.kind() & !kind::WITH_IMMEDIATE, rest) {
        (kind::PUT_PART, [_, _, range, ..]) => {
            let (offset, total) = unpair(number(range));
            total > 0 && u64::from(offset) + u64::from(first.b()) <= u64::from(total)
        }
        _ if first.kind() == kind::REPLIED => first.b() > 0,
        _ => true,
    }
}

impl Writer<'_> {
    /// A request; the caller adds its body.
    pub fn request(&mut self, head: &RequestHead) {
        let RequestHead { number, key, target, action } = *head;
        let with = |kind: u8, immediate: Option<u64>| {
            kind | (u8::from(immediate.is_some()) * kind::WITH_IMMEDIATE)
        };
        match action {
            Action::Put { immediate, len } => {
                let kind = with(kind::PUT, immediate);
                self.put([First::word(kind, 0, len, number), key, target]);
                self.put_immediate(immediate);
            }
            Action::Part { offset, total, immediate, len } => {
                let kind = with(kind::PUT_PART, immediate);
                let range = pair(offset, total);
                self.put([First::word(kind, 0, len, number), key, target, range]);
                self.put_immediate(immediate);
            }
            Action::Ask { total, immediate } => {
                let kind = with(kind::PUT_ASK, immediate);
                self.put([First::word(kind, 0, 0, number), key, target, total]);
                self.put_immediate(immediate);
            }
            Action::Get { total } => {
                self.put([First::word(kind::GET, 0, 0, number), key, target, total]);
            }
            Action::Atomic { op, datatype, fetch, total, len } => {
                let third = pair(u32::from(datatype) | u32::from(fetch) << 8, total);
                self.put([First::word(kind::ATOMIC, op, len, number), key, target, third]);
            }
            Action::Matched(matched) => self.matched(number, key, target, &matched),
        }
    }

    fn put_immediate(&mut self, immediate: Option<u64>) {
        if let Some(immediate) = immediate {
            self.put([immediate]);
        }
    }

    /// Reply, with one of `REPLY_*`; the caller adds a body of `len` bytes.
    pub fn reply(&mut self, number: u32, status: u8, len: u16) {
        const { assert!(REPLY_HEAD_LEN == 8) };
        self.put([First::word(kind::REPLY, status, len, number)]);
    }

    /// Replied: so many requests from `first` on were carried out.
    pub fn replied(&mut self, first: u32, count: u16) {
        debug_assert!(count > 0, "nothing to tell");
        self.put([First::word(kind::REPLIED, 0, count, first)]);
    }

    /// End: of a request nothing more is wanted.
    pub fn end(&mut self, number: u32) {
        const { assert!(END_HEAD_LEN == 8) };
        self.put([First::word(kind::END, 0, 0, number)]);
    }
}
