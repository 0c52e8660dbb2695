//! The table from our errors to the codes of `<packhorse/fm.h>`, and what each code means.

use std::ffi::{CStr, c_int};

use packhorse::Error;

pub(crate) const NOT_READY: c_int = -1;
pub(crate) const ARGUMENT: c_int = -2;
pub(crate) const IN_HANDLER: c_int = -3;
pub(crate) const GONE: c_int = -4;
pub(crate) const LAUNCH: c_int = -5;

/// The code of what a call on a stream came to. Exhaustive: a new way to fail must get a code.
pub(crate) fn code_of(result: Result<(), Error>) -> c_int {
    let Err(error) = result else { return 0 };
    match error {
        Error::InHandler => IN_HANDLER,
        Error::Closed => NOT_READY,
        Error::UnknownPeer => ARGUMENT,
        Error::BrokenOff { .. }
        | Error::Gone { .. }
        | Error::PeerClosed { .. }
        | Error::Cancelled
        | Error::CancelledByPeer { .. } => GONE,
        // No call on a stream ends in these; if one did, its message would not get there either.
        Error::Link(_)
        | Error::NoLink
        | Error::Capture { .. }
        | Error::Setting(_)
        | Error::OutOfRange(_)
        | Error::System { .. }
        | Error::Number { .. }
        | Error::NumberInUse { .. }
        | Error::NotFound { .. }
        | Error::TooManyPeers { .. }
        | Error::Inherited
        | Error::Denied { .. }
        | Error::BadAtomic
        | Error::ReservedSpace
        | Error::KeyInUse
        | Error::NoSuchRange
        | Error::Truncated { .. }
        | Error::TooManySegments { .. }
        | Error::TooLongToCopy { .. }
        | Error::PoolFull
        | Error::ReadOnly
        | Error::TimedOut { .. } => GONE,
    }
}

/// What a code means.
pub(crate) fn text_of(code: c_int) -> &'static CStr {
    match code {
        0.. => c"no error",
        NOT_READY => c"FM_initialize was not called, or failed",
        ARGUMENT => c"no such node, handler or stream",
        IN_HANDLER => {
            c"FM_extract or FM_initialize was called inside a handler; return, or receive"
        }
        GONE => c"the node at the other end is gone",
        LAUNCH => c"the nodes could not find each other",
        _ => c"unknown error",
    }
}
