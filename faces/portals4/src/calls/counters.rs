//! Counters.

use std::ffi::{c_int, c_uint};

use packhorse_common::pointed::put;

use super::{done, list, longest, told};
use crate::abi::{CtEvent, Handle};
use crate::codes;
use crate::counters;

/// `PtlCTAlloc`.
///
/// # Safety
/// As said above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PtlCTAlloc(ni: Handle, out: *mut Handle) -> c_int {
    // SAFETY: as this function demands.
    unsafe { told(out, || counters::alloc(ni)) }
}

/// `PtlCTFree`.
#[unsafe(no_mangle)]
pub extern "C" fn PtlCTFree(ct: Handle) -> c_int {
    done(|| counters::free(ct))
}

/// `PtlCTCancelTriggered`.
#[unsafe(no_mangle)]
pub extern "C" fn PtlCTCancelTriggered(ct: Handle) -> c_int {
    done(|| counters::cancel_triggered(ct))
}

/// `PtlCTGet`.
///
/// # Safety
/// As said above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PtlCTGet(ct: Handle, event: *mut CtEvent) -> c_int {
    // SAFETY: as this function demands.
    unsafe { told(event, || counters::get(ct)) }
}

/// `PtlCTWait`.
///
/// # Safety
/// As said above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PtlCTWait(ct: Handle, test: u64, event: *mut CtEvent) -> c_int {
    let reached = || counters::wait(&[(ct, test)], None).map(|(event, _)| event);
    // SAFETY: as this function demands.
    unsafe { told(event, reached) }
}

/// `PtlCTPoll`.
///
/// # Safety
/// As said above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PtlCTPoll(
    cts: *const Handle,
    tests: *const u64,
    count: c_uint,
    timeout: u32,
    event: *mut CtEvent,
    which: *mut c_uint,
) -> c_int {
    let reached = || {
        if count == 0 || which.is_null() {
            return Err(codes::ARG_INVALID);
        }
        // SAFETY: as this function demands.
        let (cts, tests) = unsafe { (list(cts, count as usize)?, list(tests, count as usize)?) };
        let wanted: Vec<(Handle, u64)> = cts.iter().copied().zip(tests.iter().copied()).collect();
        let (event, index) = counters::wait(&wanted, longest(timeout))?;
        // SAFETY: as this function demands.
        unsafe { put(which, index as c_uint) };
        Ok(event)
    };
    // SAFETY: as this function demands.
    unsafe { told(event, reached) }
}

/// `PtlCTSet`.
#[unsafe(no_mangle)]
pub extern "C" fn PtlCTSet(ct: Handle, to: CtEvent) -> c_int {
    done(|| counters::set(ct, to, None))
}

/// `PtlCTInc`.
#[unsafe(no_mangle)]
pub extern "C" fn PtlCTInc(ct: Handle, more: CtEvent) -> c_int {
    done(|| counters::add(ct, more, None))
}
