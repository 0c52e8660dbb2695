//! Triggered operations but for moves, which stand with those that begin at once: the same when a counter reaches a threshold.
//!
//! The arguments are those of the interface, in its order; so many are many.

#![allow(clippy::too_many_arguments)]

use std::ffi::{c_int, c_void};

use super::done;
use super::entries::append_me;
use crate::abi::{CtEvent, Handle, Me};
use crate::counters::{self, When};
use crate::entries;
use crate::handles::Kind;

/// `PtlTriggeredCTInc`.
#[unsafe(no_mangle)]
pub extern "C" fn PtlTriggeredCTInc(
    ct: Handle,
    event: CtEvent,
    counter: Handle,
    threshold: u64,
) -> c_int {
    done(|| counters::add(ct, event, Some(When { counter, threshold })))
}

/// `PtlTriggeredCTSet`.
#[unsafe(no_mangle)]
pub extern "C" fn PtlTriggeredCTSet(
    ct: Handle,
    event: CtEvent,
    counter: Handle,
    threshold: u64,
) -> c_int {
    done(|| counters::set(ct, event, Some(When { counter, threshold })))
}

/// `PtlTriggeredMEAppend`.
///
/// # Safety
/// As said above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PtlTriggeredMEAppend(
    ni: Handle,
    portal: u32,
    me: *mut Me,
    list: u8,
    user_ptr: *mut c_void,
    out: *mut Handle,
    counter: Handle,
    threshold: u64,
) -> c_int {
    let when = When { counter, threshold };
    // SAFETY: as this function demands.
    unsafe { append_me((ni, portal), (me, list), user_ptr, out, Some(when)) }
}

/// `PtlTriggeredMEUnlink`.
#[unsafe(no_mangle)]
pub extern "C" fn PtlTriggeredMEUnlink(entry: Handle, counter: Handle, threshold: u64) -> c_int {
    let when = When { counter, threshold };
    done(|| entries::unlink(Kind::MatchEntry, entry, Some(when)))
}
