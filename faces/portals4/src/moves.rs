//! Moving data: put, get, atomic operations; now, or when a counter says so.

use packhorse::raw::portals::{MoveKind, MoveSpec, codes::md};
use packhorse::raw::{BufId, Memory, PeerId};

use crate::abi::{Handle, Limits, Process};
use crate::codes::{self, Code, of_core};
use crate::counters::When;
use crate::handles::{Kind, number};
use crate::interfaces::{hold, node, opened_kind};

/// A place in the initiator's memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MdOffset {
    pub(crate) md: Handle,
    pub(crate) offset: u64,
}

/// An operation and a datatype, as given.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Atomic {
    pub(crate) operation: u8,
    pub(crate) datatype: u8,
}

/// What is to be done.
#[derive(Clone, Copy, Debug)]
pub(crate) enum What {
    Put {
        from: MdOffset,
        ack: u8,
    },
    Get {
        to: MdOffset,
    },
    Atomic {
        from: MdOffset,
        ack: u8,
        atomic: Atomic,
    },
    FetchAtomic {
        to: MdOffset,
        from: MdOffset,
        atomic: Atomic,
    },
    /// The operand is one item of the datatype, at the beginning; `None` if there is none where one is needed.
    Swap {
        to: MdOffset,
        from: MdOffset,
        atomic: Atomic,
        operand: Option<[u8; 32]>,
    },
}

/// The target, and what it is told.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tail {
    pub(crate) length: u64,
    pub(crate) target: Process,
    pub(crate) portal: u32,
    pub(crate) match_bits: u64,
    pub(crate) remote_offset: u64,
    pub(crate) user_ptr: usize,
    pub(crate) hdr_data: u64,
}

/// What the kinds of operations have in common: kind, where from, where to, acknowledgement, atomic operation, operand.
type Parts = (MoveKind, Option<MdOffset>, Option<MdOffset>, u8, Option<Atomic>, [u64; 4]);

fn parts(what: What) -> Result<Parts, Code> {
    Ok(match what {
        What::Put { from, ack } => (MoveKind::Put, Some(from), None, ack, None, [0; 4]),
        What::Get { to } => (MoveKind::Get, None, Some(to), 0, None, [0; 4]),
        What::Atomic { from, ack, atomic } => {
            (MoveKind::Atomic, Some(from), None, ack, Some(atomic), [0; 4])
        }
        What::FetchAtomic { to, from, atomic } => {
            (MoveKind::FetchAtomic, Some(from), Some(to), 0, Some(atomic), [0; 4])
        }
        What::Swap { to, from, atomic, operand } => {
            let operand = operand.ok_or(codes::ARG_INVALID)?;
            let (words, _) = operand.as_chunks::<8>();
            let words = std::array::from_fn(|at| u64::from_le_bytes(words[at]));
            (MoveKind::Swap, Some(from), Some(to), 0, Some(atomic), words)
        }
    })
}

fn check_len(limits: &Limits, kind: MoveKind, len: u64) -> Result<(), Code> {
    let len_max = match kind {
        MoveKind::Put | MoveKind::Get => limits.max_msg_size,
        // Also of those that fetch: the reference and its tests know one bound for all.
        MoveKind::Atomic | MoveKind::FetchAtomic | MoveKind::Swap => limits.max_atomic_size,
    };
    if len <= len_max { Ok(()) } else { Err(codes::ARG_INVALID) }
}

/// An operation whose descriptors and trigger were found to be numbers of the core.
struct Start {
    parts: Parts,
    put: Option<(u32, u64)>,
    get: Option<(u32, u64)>,
    tail: Tail,
    trigger: Option<(u32, u64)>,
}

impl Start {
    /// The descriptor that says which interface is meant.
    fn first(&self) -> Result<u32, Code> {
        self.put.or(self.get).map(|(md, _)| md).ok_or(codes::ARG_INVALID)
    }

    fn spec(&self, ni: u8, peer: PeerId, copy: Option<BufId>) -> MoveSpec {
        let (kind, _, _, ack, atomic, operand) = self.parts;
        let Tail { length, portal, match_bits, remote_offset, user_ptr, hdr_data, .. } = self.tail;
        MoveSpec {
            ni,
            kind,
            peer,
            portal,
            bits: match_bits,
            offset: remote_offset,
            len: length,
            header: hdr_data,
            user: user_ptr as u64,
            ack,
            put: self.put,
            get: self.get,
            op: atomic.map_or(0, |atomic| atomic.operation),
            datatype: atomic.map_or(0, |atomic| atomic.datatype),
            operand,
            copy,
        }
    }

    /// The usual case, in which the engine is locked once: the target is known and was not parted with, and what is sent need not be copied first.
    /// False if it is another.
    fn try_at_once(&self) -> Result<bool, Code> {
        let first = self.first()?;
        hold(|held| {
            held.node.engine().with_portals(|portals| {
                let known = portals.descriptor_interface(first).zip(portals.descriptor(first));
                let (ni, (_, options)) = known.ok_or(codes::ARG_INVALID)?;
                if portals.has_parted() {
                    return Ok(false);
                }
                check_len(held.limits(ni)?, self.parts.0, self.tail.length)?;
                if self.put.is_some() && options & md::VOLATILE != 0 {
                    return Ok(false);
                }
                let Some(peer) = held.target(ni, self.tail.target)? else { return Ok(false) };
                portals.begin(self.spec(ni, peer, None), self.trigger).map_err(of_core)?;
                Ok(true)
            })
        })
    }

    fn run(&self) -> Result<(), Code> {
        let (node, first, tail) = (node()?, self.first()?, self.tail);
        let known = node.engine().look_at_portals(|portals| {
            portals.descriptor_interface(first).zip(portals.descriptor(first))
        });
        let (ni, (buf, options)) = known.ok_or(codes::ARG_INVALID)?;
        let this = opened_kind(ni)?;
        check_len(&this.limits, self.parts.0, tail.length)?;
        let peer = this.target(tail.target)?;
        // What fires later has what is there then; what begins now may be changed as soon as this returns, if the descriptor says so.
        let is_volatile = self.put.is_some() && options & md::VOLATILE != 0;
        if is_volatile && tail.length > this.limits.max_volatile_size {
            return Err(codes::ARG_INVALID);
        }
        let is_copied = is_volatile && self.trigger.is_none() && tail.length > 0;
        let copy = self.put.filter(|_| is_copied).and_then(|(_, offset)| {
            node.engine().copy_lent(buf, offset, tail.length as usize).map(Memory::from)
        });
        let begun = node.engine().with_portals_and(copy, |portals, copy| {
            portals.begin(self.spec(ni, peer, copy), self.trigger)
        });
        begun.map_err(of_core)
    }
}

pub(crate) fn start(what: What, tail: Tail, when: Option<When>) -> Result<(), Code> {
    let parts = parts(what)?;
    let named = |place: Option<MdOffset>| {
        place.map(|it| number(Kind::Descriptor, it.md).map(|md| (md, it.offset))).transpose()
    };
    let (put, get) = (named(parts.1)?, named(parts.2)?);
    let trigger = when.map(When::of_core).transpose()?;
    let start = Start { parts, put, get, tail, trigger };
    if start.try_at_once()? { Ok(()) } else { start.run() }
}

/// Atomic operations are done by whoever drives, one after the other: what is left is the order of loads and stores.
pub(crate) fn sync() {
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
}
