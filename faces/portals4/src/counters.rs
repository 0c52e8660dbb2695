//! Counters.

use crate::abi::{CtEvent, Handle};
use crate::codes::{Code, missing};

/// When a triggered operation goes: as soon as that counter reaches that threshold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct When {
    pub(crate) counter: Handle,
    pub(crate) threshold: u64,
}

pub(crate) fn alloc(_ni: Handle) -> Result<Handle, Code> {
    missing("PtlCTAlloc")
}

pub(crate) fn free(_ct: Handle) -> Result<(), Code> {
    missing("PtlCTFree")
}

pub(crate) fn cancel_triggered(_ct: Handle) -> Result<(), Code> {
    missing("PtlCTCancelTriggered")
}

pub(crate) fn get(_ct: Handle) -> Result<CtEvent, Code> {
    missing("PtlCTGet")
}

/// Waits for the first of these, each with what it is to reach; `None` waits for ever. What it has, and which it is.
pub(crate) fn wait(
    _counters: &[(Handle, u64)],
    _longest_ms: Option<u32>,
) -> Result<(CtEvent, usize), Code> {
    missing("PtlCTPoll")
}

pub(crate) fn set(_ct: Handle, _to: CtEvent, _when: Option<When>) -> Result<(), Code> {
    missing("PtlCTSet")
}

pub(crate) fn add(_ct: Handle, _more: CtEvent, _when: Option<When>) -> Result<(), Code> {
    missing("PtlCTInc")
}
