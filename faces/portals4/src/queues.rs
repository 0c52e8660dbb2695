//! Event queues.

use crate::abi::{Event, Handle};
use crate::codes::{Code, missing};

/// An event, and whether some before it are lost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Told {
    pub(crate) event: Event,
    pub(crate) which: usize,
    pub(crate) are_some_lost: bool,
}

pub(crate) fn alloc(_ni: Handle, _count: u64) -> Result<Handle, Code> {
    missing("PtlEQAlloc")
}

pub(crate) fn free(_eq: Handle) -> Result<(), Code> {
    missing("PtlEQFree")
}

/// Does not wait: `PTL_EQ_EMPTY` if there is none.
pub(crate) fn get(_eq: Handle) -> Result<Told, Code> {
    missing("PtlEQGet")
}

/// Waits for an event of any of these; `None` waits for ever.
pub(crate) fn wait(_queues: &[Handle], _longest_ms: Option<u32>) -> Result<Told, Code> {
    missing("PtlEQPoll")
}
