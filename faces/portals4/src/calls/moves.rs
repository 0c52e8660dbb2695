//! Moving data now.
//!
//! The arguments are those of the interface, in its order; so many are many.

#![allow(clippy::too_many_arguments)]

use std::ffi::{c_int, c_void};

use super::done;
use crate::abi::{Handle, Process, datatype_len, op};
use crate::moves::{self, Atomic, Place, Tail, What};

/// The operand of a swap: one item of its datatype, at the beginning. `None` if there is none, or no such datatype.
///
/// # Safety
/// Null, or valid for one item of the datatype.
pub(super) unsafe fn operand_of(atomic: Atomic, operand: *const c_void) -> Option<[u8; 32]> {
    let mut item = [0; 32];
    if atomic.operation == op::SWAP {
        return Some(item); // unconditional: whatever stands there is not looked at
    }
    let len = datatype_len(atomic.datatype).filter(|_| !operand.is_null())?;
    // SAFETY: one item is there, says the caller.
    item[..len].copy_from_slice(unsafe { packhorse_common::pointed::bytes(operand, len) });
    Some(item)
}

/// `PtlPut`.
#[unsafe(no_mangle)]
pub extern "C" fn PtlPut(
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
) -> c_int {
    let what = What::Put { from: Place { md, offset }, ack };
    let tail = Tail {
        length,
        target,
        portal,
        match_bits,
        remote_offset,
        user_ptr: user_ptr as usize,
        hdr_data,
    };
    done(|| moves::start(what, tail, None))
}

/// `PtlGet`.
#[unsafe(no_mangle)]
pub extern "C" fn PtlGet(
    md: Handle,
    offset: u64,
    length: u64,
    target: Process,
    portal: u32,
    match_bits: u64,
    remote_offset: u64,
    user_ptr: *mut c_void,
) -> c_int {
    let hdr_data = 0;
    let what = What::Get { to: Place { md, offset } };
    let tail = Tail {
        length,
        target,
        portal,
        match_bits,
        remote_offset,
        user_ptr: user_ptr as usize,
        hdr_data,
    };
    done(|| moves::start(what, tail, None))
}

/// `PtlAtomic`.
#[unsafe(no_mangle)]
pub extern "C" fn PtlAtomic(
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
) -> c_int {
    let what =
        What::Atomic { from: Place { md, offset }, ack, atomic: Atomic { operation, datatype } };
    let tail = Tail {
        length,
        target,
        portal,
        match_bits,
        remote_offset,
        user_ptr: user_ptr as usize,
        hdr_data,
    };
    done(|| moves::start(what, tail, None))
}

/// `PtlFetchAtomic`.
#[unsafe(no_mangle)]
pub extern "C" fn PtlFetchAtomic(
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
) -> c_int {
    let what = What::FetchAtomic {
        to: Place { md: get_md, offset: get_offset },
        from: Place { md: put_md, offset: put_offset },
        atomic: Atomic { operation, datatype },
    };
    let tail = Tail {
        length,
        target,
        portal,
        match_bits,
        remote_offset,
        user_ptr: user_ptr as usize,
        hdr_data,
    };
    done(|| moves::start(what, tail, None))
}

/// `PtlSwap`.
///
/// # Safety
/// As said above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PtlSwap(
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
) -> c_int {
    let atomic = Atomic { operation, datatype };
    // SAFETY: as this function demands.
    let operand = unsafe { operand_of(atomic, operand) };
    let what = What::Swap {
        to: Place { md: get_md, offset: get_offset },
        from: Place { md: put_md, offset: put_offset },
        atomic,
        operand,
    };
    let tail = Tail {
        length,
        target,
        portal,
        match_bits,
        remote_offset,
        user_ptr: user_ptr as usize,
        hdr_data,
    };
    done(|| moves::start(what, tail, None))
}

/// `PtlAtomicSync`.
#[unsafe(no_mangle)]
pub extern "C" fn PtlAtomicSync() -> c_int {
    done(|| {
        moves::sync();
        Ok(())
    })
}
