//! The C boundary: the 55 functions of `portals4.h`, in its order.
//!
//! # Safety
//! Each function takes what its header says: pointers to one value each, or null where that is said to be possible; lists of so many. A null
//! pointer where a value is needed is `PTL_ARG_INVALID`. A handle may be anything: one that is stale or made up is told as such. Memory of
//! descriptors and entries is the library's until they are released, or unlinked and their events were read.

pub mod counters;
pub mod entries;
pub mod interfaces;
pub mod moves;
pub mod queues;
pub mod triggered;

use crate::abi::TIME_FOREVER;
use crate::codes::{self, Code};
use crate::interfaces::check_init;
use packhorse_common::pointed::put;

/// Does it once the library is there, and puts what comes of it where the application wants it.
///
/// # Safety
/// `out` is null, or valid for a write.
unsafe fn told<T>(out: *mut T, what: impl FnOnce() -> Result<T, Code>) -> Code {
    done(|| {
        if out.is_null() {
            return Err(codes::ARG_INVALID);
        }
        // SAFETY: says the caller.
        what().map(|value| unsafe { put(out, value) })
    })
}

/// Does it once the library is there.
fn done(what: impl FnOnce() -> Result<(), Code>) -> Code {
    codes::of(check_init().and_then(|()| what()))
}

/// What there is at a pointer.
///
/// # Safety
/// Null, or valid for a read.
unsafe fn read<T: Copy>(at: *const T) -> Result<T, Code> {
    // SAFETY: says the caller; null is looked after.
    unsafe { at.as_ref() }.copied().ok_or(codes::ARG_INVALID)
}

/// A list.
///
/// # Safety
/// Null, or valid for so many for the time of the call.
unsafe fn list<'a, T>(at: *const T, count: usize) -> Result<&'a [T], Code> {
    match (at.is_null(), count) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(codes::ARG_INVALID),
        // Nobody has room for so many.
        _ if count > isize::MAX as usize / size_of::<T>() => Err(codes::ARG_INVALID),
        // SAFETY: says the caller; neither null nor too long, say the lines above.
        _ => Ok(unsafe { std::slice::from_raw_parts(at, count) }),
    }
}

fn longest(timeout: u32) -> Option<u32> {
    (timeout != TIME_FOREVER).then_some(timeout)
}
