//! Moving data: put, get, atomic operations; now, or when a counter says so.

use crate::abi::{Handle, Process};
use crate::codes::{Code, missing};
use crate::counters::When;

/// A place in the initiator's memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
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
        from: Place,
        ack: u8,
    },
    Get {
        to: Place,
    },
    Atomic {
        from: Place,
        ack: u8,
        atomic: Atomic,
    },
    FetchAtomic {
        to: Place,
        from: Place,
        atomic: Atomic,
    },
    /// The operand is one item of the datatype, at the beginning; `None` if there is none where one is needed.
    Swap {
        to: Place,
        from: Place,
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

pub(crate) fn start(what: What, _tail: Tail, when: Option<When>) -> Result<(), Code> {
    missing(match (what, when) {
        (What::Put { .. }, None) => "PtlPut",
        (What::Get { .. }, None) => "PtlGet",
        (What::Atomic { .. }, None) => "PtlAtomic",
        (What::FetchAtomic { .. }, None) => "PtlFetchAtomic",
        (What::Swap { .. }, None) => "PtlSwap",
        (_, Some(_)) => "PtlTriggered…",
    })
}

/// Atomic operations are coherent with the application's own: nothing to do.
pub(crate) fn sync() {}
