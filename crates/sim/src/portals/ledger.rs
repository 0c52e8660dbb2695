//! All operations of a run, wherever they are: what was asked, whether it came, once and in its turn, and what became of it.

use std::collections::HashMap;

use packhorse_proto::BufId;
use packhorse_proto::portals::codes::fail;
use packhorse_proto::portals::{Asked, Incoming, MoveKind};

use crate::pattern;

/// Somebody in one of their lives.
pub(super) type Who = (u8, u32);

/// A memory descriptor of an operation: what is told and counted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Told {
    pub(super) options: u32,
    /// By number in the model of whoever began it.
    pub(super) queue: Option<usize>,
    pub(super) counter: Option<usize>,
}

/// How far an operation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Waits for a counter, or is due.
    Waits,
    /// On its way.
    Began,
    /// Over, or it never will be.
    Over,
}

/// What the target makes of one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) fail: u8,
    pub(super) len: u64,
    pub(super) offset: u64,
    pub(super) list: u8,
}

/// An operation.
#[derive(Clone, Debug)]
pub(super) struct Op {
    pub(super) from: Who,
    pub(super) to: u8,
    pub(super) ni: u8,
    pub(super) kind: MoveKind,
    pub(super) portal: u32,
    pub(super) bits: u64,
    pub(super) offset: u64,
    pub(super) len: u64,
    pub(super) ack: u8,
    pub(super) op: u8,
    pub(super) datatype: u8,
    pub(super) operand: [u64; 4],
    /// Its bytes: this message from there on.
    pub(super) source: (u32, u64),
    pub(super) put: Option<Told>,
    pub(super) get: Option<Told>,
    /// Where bytes go that come back.
    pub(super) fetched: Option<(BufId, u64, u64)>,
    pub(super) stage: Stage,
    /// The how-manieth its initiator began.
    pub(super) turn: u64,
    pub(super) outcome: Option<Outcome>,
    /// What comes back, as far as it is known.
    pub(super) result: Vec<Option<u8>>,
    /// Somebody wrote there meanwhile.
    pub(super) is_stained: bool,
    /// Its target has all of it.
    pub(super) is_delivered: bool,
    /// It waited for a counter.
    pub(super) waited: bool,
    /// It got no answer.
    pub(super) was_lost: bool,
}

impl Op {
    /// What it brings, `len` bytes of it.
    pub(super) fn bytes(&self, len: u64) -> Vec<u8> {
        let mut bytes = vec![0; len as usize];
        pattern::fill(self.source.0, self.source.1, &mut bytes);
        bytes
    }

    pub(super) fn fetches(&self) -> bool {
        matches!(self.kind, MoveKind::Get | MoveKind::FetchAtomic | MoveKind::Swap)
    }

    fn asked(&self) -> Asked {
        match self.kind {
            MoveKind::Put => Asked::Put,
            MoveKind::Get => Asked::Get,
            MoveKind::Atomic => Asked::Atomic,
            MoveKind::FetchAtomic | MoveKind::Swap => Asked::FetchAtomic,
        }
    }
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    pub(super) ops: Vec<Op>,
    /// Nothing can make anybody lose a peer.
    pub(super) nobody_may_go: bool,
    turn_count: u64,
    /// The last turn of each initiator that came to each target.
    last_turns: HashMap<(Who, Who), u64>,
}

impl Ledger {
    /// The operation goes to its target.
    pub(super) fn began(&mut self, id: u64) {
        let op = &mut self.ops[id as usize];
        (op.stage, op.turn) = (Stage::Began, self.turn_count);
        self.turn_count += 1;
    }

    /// A request came in: it must be one that was begun, for this process, in its turn, for the first time, and say what it was told.
    pub(super) fn arrived(
        &mut self,
        at: Who,
        incoming: &Incoming,
        (own, uid): (u64, u32),
    ) -> Result<usize, String> {
        let id = incoming.header as usize;
        let Some(op) = self.ops.get(id) else {
            return Err(format!("request {id} came, and nobody sent it"));
        };
        let says = (incoming.ni, incoming.portal, incoming.asked, incoming.bits, incoming.len);
        let is_same = says == (op.ni, op.portal, op.asked(), op.bits, op.len)
            && (incoming.offset, incoming.initiator, incoming.uid) == (op.offset, own, uid)
            && (incoming.op, incoming.datatype) == (op.op, op.datatype);
        if !is_same || op.to != at.0 {
            return Err(format!("operation {id} came as {incoming:?}"));
        }
        if op.outcome.is_some() {
            return Err(format!("operation {id} came twice"));
        }
        let is_early = op.stage == Stage::Waits;
        // One that was given up may still be on its way.
        if is_early || op.stage == Stage::Over && self.nobody_may_go {
            return Err(format!("operation {id} came while it was {:?}", op.stage));
        }
        let last = self.last_turns.entry((op.from, at)).or_insert(0);
        if *last > op.turn + 1 {
            return Err(format!("operation {id} came behind one that was begun after it"));
        }
        *last = op.turn + 1;
        Ok(id)
    }

    /// Whether an operation may end like this.
    pub(super) fn may_end(&self, id: u64, failed: Option<u8>) -> Result<(), String> {
        let op = &self.ops[id as usize];
        if op.stage != Stage::Began {
            return Err(format!("operation {id} ended while it was {:?}", op.stage));
        }
        match failed {
            Some(fail::UNDELIVERABLE) if self.nobody_may_go => {
                Err(format!("operation {id} was undeliverable, and nobody was lost"))
            }
            Some(_) => Ok(()),
            None if op.outcome.is_none() => Err(format!("operation {id} ended and never came")),
            None if !op.is_delivered && op.kind != MoveKind::Get => {
                Err(format!("operation {id} ended before its bytes were there"))
            }
            None => Ok(()),
        }
    }
}
