//! The library, its interfaces, and who is who.

use crate::abi::{Handle, Limits, Process};
use crate::codes::{self, Code, missing};

/// `PTL_NO_INIT` before `PtlInit`.
pub(crate) fn check_init() -> Result<(), Code> {
    Err(codes::NO_INIT)
}

pub(crate) fn init() -> Result<(), Code> {
    missing("PtlInit")
}

pub(crate) fn fini() {}

pub(crate) fn abort() {}

/// `pid` may be `PID_ANY`; options are checked here.
pub(crate) fn open(
    _interface: u32,
    _options: u32,
    _pid: u32,
    _desired: Option<Limits>,
) -> Result<(Handle, Limits), Code> {
    missing("PtlNIInit")
}

pub(crate) fn close(_ni: Handle) -> Result<(), Code> {
    missing("PtlNIFini")
}

/// How many pieces memory may have on this interface.
pub(crate) fn piece_count_max(_ni: Handle) -> Result<u64, Code> {
    missing("PtlMDBind")
}

pub(crate) fn register(_ni: Handle, _register: u32) -> Result<i32, Code> {
    missing("PtlNIStatus")
}

/// The interface of anything.
pub(crate) fn of(_any: Handle) -> Result<Handle, Code> {
    missing("PtlNIHandle")
}

pub(crate) fn set_map(_ni: Handle, _map: &[Process]) -> Result<(), Code> {
    missing("PtlSetMap")
}

pub(crate) fn map(_ni: Handle) -> Result<Vec<Process>, Code> {
    missing("PtlGetMap")
}

pub(crate) fn uid(_ni: Handle) -> Result<u32, Code> {
    missing("PtlGetUid")
}

pub(crate) fn id(_ni: Handle) -> Result<Process, Code> {
    missing("PtlGetId")
}

pub(crate) fn physical_id(_ni: Handle) -> Result<Process, Code> {
    missing("PtlGetPhysId")
}

pub(crate) fn start_bundle(_ni: Handle) -> Result<(), Code> {
    missing("PtlStartBundle")
}

pub(crate) fn end_bundle(_ni: Handle) -> Result<(), Code> {
    missing("PtlEndBundle")
}
