//! Records of operations that find their memory by matching at the target (PROTOCOL §17): the request, and what became of it.

use super::layout::{First, Word, kind, number, pair, unpair};
use super::record::Record;
use super::request::{Action, RequestHead};
use super::write::Writer;

/// Words of the operand of a conditional or masked swap.
pub const OPERAND_WORDS: usize = 4;

/// Head of a request that is matched at the target.
pub const fn matched_head_len(operand: bool) -> usize {
    64 + 8 * OPERAND_WORDS * operand as usize
}

/// Head of its answer.
pub const OUTCOME_HEAD_LEN: usize = 32;

/// Such a request asks for this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum MatchedKind {
    /// Put the body there.
    Put = 0,
    /// So many bytes are to be put there: grant them.
    Ask = 1,
    /// Send what is there.
    Get = 2,
    /// Compute with what is there.
    Atomic = 3,
    /// Compute with what is there, and send what was there.
    Fetch = 4,
}

impl MatchedKind {
    const ALL: [Self; 5] = [Self::Put, Self::Ask, Self::Get, Self::Atomic, Self::Fetch];

    /// Whether bytes go back.
    pub fn fetches(self) -> bool {
        matches!(self, Self::Get | Self::Fetch)
    }
}

/// What a request that is matched at the target says beyond its match bits (`RequestHead::key`) and its offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Matched {
    /// What is asked for.
    pub kind: MatchedKind,
    /// To which of the target's interfaces.
    pub ni: u8,
    /// What acknowledgement is wanted; 0: none.
    pub ack: u8,
    /// The atomic operation and its elements, as Portals numbers them.
    pub op: u8,
    /// Its elements.
    pub datatype: u8,
    /// Bytes of the body.
    pub len: u16,
    /// Which portal.
    pub portal: u32,
    /// For whom the initiator says that it comes.
    pub uid: u32,
    /// Bytes of the operation.
    pub total: u64,
    /// 64 bits beside them.
    pub header: u64,
    /// Who the initiator says that it is there.
    pub initiator: u64,
    /// What a conditional or masked swap compares with.
    pub operand: Option<[u64; OPERAND_WORDS]>,
}

/// What became of a request that was matched at the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutcomeRepr {
    /// How it ended, as Portals numbers it; 0: well.
    pub fail: u8,
    /// In which list it was matched: priority 0, overflow 1.
    pub list: u8,
    /// Bytes that were moved, or will be.
    pub moved_len: u64,
    /// Where in the entry.
    pub offset: u64,
    /// Its bytes follow as they are granted.
    pub follows: bool,
}

const FOLLOWS: u64 = 1 << 8;

/// One of the two from its words. `None` only if there are too few, which the shapes exclude.
pub(super) fn decode(first: First, rest: &[Word]) -> Option<Record<'static>> {
    if first.kind() == kind::OUTCOME {
        let [moved_len, offset, last] = rest else { return None };
        let last = number(last);
        let answer = OutcomeRepr {
            fail: first.a(),
            list: last as u8,
            moved_len: number(moved_len),
            offset: number(offset),
            follows: last & FOLLOWS != 0,
        };
        return Some(Record::Outcome { number: first.c(), answer });
    }
    let [bits, offset, total, header, initiator, who, what, operand @ ..] = rest else {
        return None;
    };
    let (portal, uid) = unpair(number(who));
    let [ni, ack, op, datatype, ..] = *what;
    let operand: Option<&[Word; OPERAND_WORDS]> = operand.first_chunk();
    let matched = Matched {
        kind: *MatchedKind::ALL.get(usize::from(first.a()))?,
        ni,
        ack,
        op,
        datatype,
        len: first.b(),
        portal,
        uid,
        total: number(total),
        header: number(header),
        initiator: number(initiator),
        operand: operand.map(|words| words.each_ref().map(number)),
    };
    let (key, target, action) = (number(bits), number(offset), Action::Matched(matched));
    Some(Record::Request(RequestHead { number: first.c(), key, target, action }))
}

/// Whether such a record, cut off whole, makes sense: there is such a request, on one of four interfaces, and its body is what it should be.
pub(super) fn makes_sense(first: First, rest: &[Word]) -> bool {
    if first.kind() == kind::OUTCOME {
        return true;
    }
    let [_, _, total, _, _, _, what, ..] = rest else { return false };
    let len = u64::from(first.b());
    let body_is_right = match MatchedKind::ALL.get(usize::from(first.a())) {
        Some(MatchedKind::Put | MatchedKind::Atomic | MatchedKind::Fetch) => len == number(total),
        Some(MatchedKind::Ask | MatchedKind::Get) => len == 0,
        None => false,
    };
    body_is_right && what[0] < 4
}

impl Writer<'_> {
    /// A request that is matched at the target; the caller adds its body.
    pub(super) fn matched(&mut self, number: u32, bits: u64, offset: u64, matched: &Matched) {
        let Matched { kind: action, ni, ack, op, datatype, len, portal, uid, .. } = *matched;
        let kind = if matched.operand.is_some() { kind::MATCHED_SWAP } else { kind::MATCHED };
        let what = u64::from_le_bytes([ni, ack, op, datatype, 0, 0, 0, 0]);
        let Matched { total, header, initiator, operand, .. } = *matched;
        let who = pair(portal, uid);
        let first = First::word(kind, action as u8, len, number);
        self.put([first, bits, offset, total, header, initiator, who, what]);
        if let Some(operand) = operand {
            self.put(operand);
        }
    }

    /// What became of one; the caller adds a body of `len` bytes.
    pub fn outcome(&mut self, number: u32, answer: &OutcomeRepr, len: u16) {
        let OutcomeRepr { fail, list, moved_len, offset, follows } = *answer;
        let last = u64::from(list) | if follows { FOLLOWS } else { 0 };
        self.put([First::word(kind::OUTCOME, fail, len, number), moved_len, offset, last]);
    }
}
