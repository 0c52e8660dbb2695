//! Event queues.

use std::ffi::{c_int, c_uint};

use packhorse_common::pointed::put;

use super::{done, list, longest, told};
use crate::abi::{Event, Handle};
use crate::codes::{self, Code};
use crate::queues::{self, Told};

/// Puts an event where the application wants it; the code says whether some before it are lost.
///
/// # Safety
/// Each null, or valid for a write.
unsafe fn tell(
    event: *mut Event,
    which: *mut c_uint,
    wait: impl FnOnce() -> Result<Told, Code>,
) -> Code {
    done(|| {
        if event.is_null() {
            return Err(codes::ARG_INVALID);
        }
        let told = wait()?;
        // SAFETY: says the caller.
        unsafe { put(event, told.event) };
        // SAFETY: says the caller.
        unsafe { put(which, told.which as c_uint) };
        if told.are_some_lost { Err(codes::EQ_DROPPED) } else { Ok(()) }
    })
}

/// `PtlEQAlloc`.
///
/// # Safety
/// As said above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PtlEQAlloc(ni: Handle, count: u64, out: *mut Handle) -> c_int {
    // SAFETY: as this function demands.
    unsafe { told(out, || queues::alloc(ni, count)) }
}

/// `PtlEQFree`.
#[unsafe(no_mangle)]
pub extern "C" fn PtlEQFree(eq: Handle) -> c_int {
    done(|| queues::free(eq))
}

/// `PtlEQGet`.
///
/// # Safety
/// As said above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PtlEQGet(eq: Handle, event: *mut Event) -> c_int {
    // SAFETY: as this function demands.
    unsafe { tell(event, std::ptr::null_mut(), || queues::get(eq)) }
}

/// `PtlEQWait`.
///
/// # Safety
/// As said above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PtlEQWait(eq: Handle, event: *mut Event) -> c_int {
    // SAFETY: as this function demands.
    unsafe { tell(event, std::ptr::null_mut(), || queues::wait(&[eq], None)) }
}

/// `PtlEQPoll`.
///
/// # Safety
/// As said above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PtlEQPoll(
    eqs: *const Handle,
    count: c_uint,
    timeout: u32,
    event: *mut Event,
    which: *mut c_uint,
) -> c_int {
    let polled = || {
        if count == 0 || which.is_null() {
            return Err(codes::ARG_INVALID);
        }
        // SAFETY: as this function demands.
        let eqs = unsafe { list(eqs, count as usize) }?;
        queues::wait(eqs, longest(timeout))
    };
    // SAFETY: as this function demands.
    unsafe { tell(event, which, polled) }
}
