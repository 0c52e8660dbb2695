//! Triggered operations: the same when a counter reaches a threshold.
//!
//! The arguments are those of the interface, in its order; so many are many.

#![allow(clippy::too_many_arguments)]

use std::ffi::{c_int, c_void};

use super::done;
use super::entries::append_me;
use super::moves::operand_of;
use crate::abi::{CtEvent, Handle, Me, Process};
use crate::counters::{self, When};
use crate::entries;
use crate::handles::Kind;
use crate::moves::{self, Atomic, Place, Tail, What};

/// `PtlTriggeredPut`.
#[unsafe(no_mangle)]
pub extern "C" fn PtlTriggeredPut(
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
    counter: Handle,
    threshold: u64,
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
    let when = When { counter, threshold };
    done(|| moves::start(what, tail, Some(when)))
}

/// `PtlTriggeredGet`.
#[unsafe(no_mangle)]
pub extern "C" fn PtlTriggeredGet(
    md: Handle,
    offset: u64,
    length: u64,
    target: Process,
    portal: u32,
    match_bits: u64,
    remote_offset: u64,
    user_ptr: *mut c_void,
    counter: Handle,
    threshold: u64,
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
    let when = When { counter, threshold };
    done(|| moves::start(what, tail, Some(when)))
}

/// `PtlTriggeredAtomic`.
#[unsafe(no_mangle)]
pub extern "C" fn PtlTriggeredAtomic(
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
    counter: Handle,
    threshold: u64,
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
    let when = When { counter, threshold };
    done(|| moves::start(what, tail, Some(when)))
}

/// `PtlTriggeredFetchAtomic`.
#[unsafe(no_mangle)]
pub extern "C" fn PtlTriggeredFetchAtomic(
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
    counter: Handle,
    threshold: u64,
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
    let when = When { counter, threshold };
    done(|| moves::start(what, tail, Some(when)))
}

/// `PtlTriggeredSwap`.
///
/// # Safety
/// As said above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PtlTriggeredSwap(
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
    counter: Handle,
    threshold: u64,
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
    let when = When { counter, threshold };
    done(|| moves::start(what, tail, Some(when)))
}

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
