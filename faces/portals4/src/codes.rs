//! Return codes.

use std::ffi::c_int;

use packhorse::raw::portals::PortalsError;

/// A number of `enum ptl_retvals`.
pub(crate) type Code = c_int;

pub(crate) const OK: Code = 0;
pub(crate) const ARG_INVALID: Code = 1;
pub(crate) const CT_NONE_REACHED: Code = 2;
pub(crate) const EQ_DROPPED: Code = 3;
pub(crate) const EQ_EMPTY: Code = 4;
pub(crate) const FAIL: Code = 5;
pub(crate) const IGNORED: Code = 6;
pub(crate) const IN_USE: Code = 7;
pub(crate) const NO_INIT: Code = 9;
pub(crate) const NO_SPACE: Code = 10;
pub(crate) const PID_IN_USE: Code = 11;
pub(crate) const PT_FULL: Code = 12;
pub(crate) const PT_EQ_NEEDED: Code = 13;
pub(crate) const PT_IN_USE: Code = 14;
pub(crate) const ABORTED: Code = 15;

/// What a call returns.
pub(crate) fn of(result: Result<(), Code>) -> Code {
    result.err().unwrap_or(OK)
}

/// What the core says of something that it does not do.
pub(crate) fn of_core(error: PortalsError) -> Code {
    match error {
        PortalsError::Invalid => ARG_INVALID,
        PortalsError::NoSpace => NO_SPACE,
        PortalsError::InUse => IN_USE,
        PortalsError::PortalInUse => PT_IN_USE,
        PortalsError::PortalsFull => PT_FULL,
        PortalsError::QueueNeeded => PT_EQ_NEEDED,
    }
}
