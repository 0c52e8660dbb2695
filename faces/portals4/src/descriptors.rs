//! Memory descriptors.

use crate::abi::{Handle, Md};
use crate::codes::{Code, missing};
use crate::memory::Named;

pub(crate) fn bind(_ni: Handle, _md: &Md, _memory: Named) -> Result<Handle, Code> {
    missing("PtlMDBind")
}

pub(crate) fn release(_md: Handle) -> Result<(), Code> {
    missing("PtlMDRelease")
}
