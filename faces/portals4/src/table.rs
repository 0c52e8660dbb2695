//! The portal table.

use crate::abi::Handle;
use crate::codes::{Code, missing};

/// `wanted` may be `PT_ANY`. The index.
pub(crate) fn alloc(_ni: Handle, _options: u32, _eq: Handle, _wanted: u32) -> Result<u32, Code> {
    missing("PtlPTAlloc")
}

pub(crate) fn free(_ni: Handle, _index: u32) -> Result<(), Code> {
    missing("PtlPTFree")
}

pub(crate) fn disable(_ni: Handle, _index: u32) -> Result<(), Code> {
    missing("PtlPTDisable")
}

pub(crate) fn enable(_ni: Handle, _index: u32) -> Result<(), Code> {
    missing("PtlPTEnable")
}
