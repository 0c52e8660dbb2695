//! Moving data: now, or when a counter reaches a threshold.
//!
//! The arguments are those of the interface, in its order; so many are many.
//!
//! # Safety
//! The operand of a swap is valid for one item of its datatype, where the operation has one.

#![allow(clippy::too_many_arguments)]

use std::ffi::{c_int, c_void};

use super::done;
use crate::abi::{Handle, Process, datatype_len, op};
use crate::counters::When;
use crate::moves::{self, Atomic, MdOffset, Tail, What};

/// A function under its two names; the second has a counter and a threshold behind the same arguments. What it says is what is moved, and how.
macro_rules! now_and_later {
    (fn $now:ident, $later:ident($($argument:ident: $type:ty),* $(,)?) $body:block) => {
        now_and_later!(@ {} [] $now, $later, [$($argument: $type),*] $body);
    };
    (unsafe fn $now:ident, $later:ident($($argument:ident: $type:ty),* $(,)?) $body:block) => {
        now_and_later!(@ {#[doc = "# Safety\nAs said above."]} [unsafe] $now, $later, [$($argument: $type),*] $body);
    };
    (@ {$(#[$safety:meta])?} [$($unsafe:tt)?] $now:ident, $later:ident, [$($argument:ident: $type:ty),*] $body:block) => {
        #[doc = concat!("`", stringify!($now), "`.")]
        ///
        $(#[$safety])?
        #[unsafe(no_mangle)]
        pub $($unsafe)? extern "C" fn $now($($argument: $type),*) -> c_int {
            let (what, tail) = $body;
            done(|| moves::start(what, tail, None))
        }

        #[doc = concat!("`", stringify!($later), "`.")]
        ///
        $(#[$safety])?
        #[unsafe(no_mangle)]
        pub $($unsafe)? extern "C" fn $later($($argument: $type,)* counter: Handle, threshold: u64) -> c_int {
            let (what, tail) = $body;
            done(|| moves::start(what, tail, Some(When { counter, threshold })))
        }
    };
}

/// What all of them end with.
fn tail(
    length: u64,
    (target, portal): (Process, u32),
    (match_bits, remote_offset): (u64, u64),
    user_ptr: *mut c_void,
    hdr_data: u64,
) -> Tail {
    let user_ptr = user_ptr as usize;
    Tail { length, target, portal, match_bits, remote_offset, user_ptr, hdr_data }
}

/// The operand of a swap: one item of its datatype, at the beginning. `None` if there is none, or no such datatype.
///
/// # Safety
/// Null, or valid for one item of the datatype.
unsafe fn operand_of(atomic: Atomic, operand: *const c_void) -> Option<[u8; 32]> {
    let mut item = [0; 32];
    if atomic.operation == op::SWAP {
        return Some(item); // unconditional: whatever stands there is not looked at
    }
    let len = datatype_len(atomic.datatype).filter(|_| !operand.is_null())?;
    // SAFETY: one item is there, says the caller.
    item[..len].copy_from_slice(unsafe { packhorse_common::pointed::bytes(operand, len) });
    Some(item)
}

now_and_later! {
    fn PtlPut, PtlTriggeredPut(
        md: Handle,
        offset: u64,
        length: u64,
        ack: u8,
        target: Process,
        portal: u32,
        match_bits: u64,
        remote_offset: u64,
        user_ptr: *mut c_void,
        hdr_data: u64,
    ) {
        let what = What::Put { from: MdOffset { md, offset }, ack };
        (what, tail(length, (target, portal), (match_bits, remote_offset), user_ptr, hdr_data))
    }
}

now_and_later! {
    fn PtlGet, PtlTriggeredGet(
        md: Handle,
        offset: u64,
        length: u64,
        target: Process,
        portal: u32,
        match_bits: u64,
        remote_offset: u64,
        user_ptr: *mut c_void,
    ) {
        let what = What::Get { to: MdOffset { md, offset } };
        (what, tail(length, (target, portal), (match_bits, remote_offset), user_ptr, 0))
    }
}

now_and_later! {
    fn PtlAtomic, PtlTriggeredAtomic(
        md: Handle,
        offset: u64,
        length: u64,
        ack: u8,
        target: Process,
        portal: u32,
        match_bits: u64,
        remote_offset: u64,
        user_ptr: *mut c_void,
        hdr_data: u64,
        operation: u8,
        datatype: u8,
    ) {
        let atomic = Atomic { operation, datatype };
        let what = What::Atomic { from: MdOffset { md, offset }, ack, atomic };
        (what, tail(length, (target, portal), (match_bits, remote_offset), user_ptr, hdr_data))
    }
}

now_and_later! {
    fn PtlFetchAtomic, PtlTriggeredFetchAtomic(
        get_md: Handle,
        get_offset: u64,
        put_md: Handle,
        put_offset: u64,
        length: u64,
        target: Process,
        portal: u32,
        match_bits: u64,
        remote_offset: u64,
        user_ptr: *mut c_void,
        hdr_data: u64,
        operation: u8,
        datatype: u8,
    ) {
        let what = What::FetchAtomic {
            to: MdOffset { md: get_md, offset: get_offset },
            from: MdOffset { md: put_md, offset: put_offset },
            atomic: Atomic { operation, datatype },
        };
        (what, tail(length, (target, portal), (match_bits, remote_offset), user_ptr, hdr_data))
    }
}

now_and_later! {
    unsafe fn PtlSwap, PtlTriggeredSwap(
        get_md: Handle,
        get_offset: u64,
        put_md: Handle,
        put_offset: u64,
        length: u64,
        target: Process,
        portal: u32,
        match_bits: u64,
        remote_offset: u64,
        user_ptr: *mut c_void,
        hdr_data: u64,
        operand: *const c_void,
        operation: u8,
        datatype: u8,
    ) {
        let atomic = Atomic { operation, datatype };
        // SAFETY: as this function demands.
        let operand = unsafe { operand_of(atomic, operand) };
        let what = What::Swap {
            to: MdOffset { md: get_md, offset: get_offset },
            from: MdOffset { md: put_md, offset: put_offset },
            atomic,
            operand,
        };
        (what, tail(length, (target, portal), (match_bits, remote_offset), user_ptr, hdr_data))
    }
}

/// `PtlAtomicSync`.
#[unsafe(no_mangle)]
pub extern "C" fn PtlAtomicSync() -> c_int {
    done(|| {
        moves::sync();
        Ok(())
    })
}
