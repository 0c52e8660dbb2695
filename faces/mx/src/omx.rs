//! `open-mx.h`: what programs of Open-MX call. Time-outs come last, and none is all ones; codes and statuses are one list.
//!
//! # Safety
//! Each function takes what its header says: pointers to one value each, or null where that is said; lists of so many; memory that is the
//! library's until its request ended. A handle may be anything: one that is stale or made up is told as such.

use std::ffi::{CStr, c_char, c_int, c_void};

use crate::abi::{Addr, ErrorHandler, Status};
use crate::calls::{self, Api};
use crate::codes;
use crate::connect::Target;
use crate::memory::Room;
use crate::ops::{self, Call};
use crate::waiting::Patience;
use crate::{info, open, ports};

fn call(name: &'static CStr) -> Call {
    Call { api: Api::Omx, name }
}

/// `omx__init_api`.
#[unsafe(no_mangle)]
pub extern "C" fn omx__init_api(api: c_int) -> u32 {
    match open::initialize(api) {
        // Told, and no reason to end a program that asks twice.
        Err(codes::ALREADY_INITIALIZED) => codes::ALREADY_INITIALIZED,
        result => call(c"omx_init").end(result),
    }
}

/// `omx_strerror`.
#[unsafe(no_mangle)]
pub extern "C" fn omx_strerror(code: u32) -> *const c_char {
    codes::text(code).as_ptr()
}

/// `omx_set_error_handler`.
#[unsafe(no_mangle)]
pub extern "C" fn omx_set_error_handler(
    endpoint: u64,
    handler: Option<ErrorHandler>,
) -> Option<ErrorHandler> {
    match ports::get(endpoint) {
        Ok(port) => port.set_error_handler(handler),
        // Null is the process; so is an endpoint that is none, for there is no code to say so by.
        Err(_) => Some(calls::set_of_process(handler)),
    }
}

/// `omx_isend`.
///
/// # Safety
/// As said above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omx_isend(
    endpoint: u64,
    start: *mut c_void,
    len: usize,
    to: Addr,
    info: u64,
    context: *mut c_void,
    out: *mut u64,
) -> u32 {
    // SAFETY: as this function demands.
    unsafe {
        let room = Room::new(start, len);
        ops::send(call(c"omx_isend"), endpoint, room, (to, info, context), (false, out))
    }
}

/// `omx_issend`.
///
/// # Safety
/// As said above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omx_issend(
    endpoint: u64,
    start: *mut c_void,
    len: usize,
    to: Addr,
    info: u64,
    context: *mut c_void,
    out: *mut u64,
) -> u32 {
    // SAFETY: as this function demands.
    unsafe {
        let room = Room::new(start, len);
        ops::send(call(c"omx_issend"), endpoint, room, (to, info, context), (true, out))
    }
}

/// `omx_irecv`.
///
/// # Safety
/// As said above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omx_irecv(
    endpoint: u64,
    start: *mut c_void,
    len: usize,
    info: u64,
    mask: u64,
    context: *mut c_void,
    out: *mut u64,
) -> u32 {
    // SAFETY: as this function demands.
    unsafe {
        let room = Room::new(start, len);
        ops::recv(call(c"omx_irecv"), endpoint, room, (info, mask, context), out)
    }
}

/// `omx_cancel_notest`.
///
/// # Safety
/// As said above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omx_cancel_notest(
    endpoint: u64,
    request: *mut u64,
    result: *mut u32,
) -> u32 {
    // SAFETY: as this function demands.
    unsafe { ops::cancel(call(c"omx_cancel_notest"), endpoint, (request, result), true) }
}

/// `omx_wait`.
///
/// # Safety
/// As said above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omx_wait(
    endpoint: u64,
    request: *mut u64,
    status: *mut Status,
    result: *mut u32,
    timeout: u32,
) -> u32 {
    let patience = Some(Patience::of_omx(timeout));
    // SAFETY: as this function demands.
    unsafe { ops::complete(call(c"omx_wait"), endpoint, (request, status, result), patience) }
}

/// `omx_wait_any`.
///
/// # Safety
/// As said above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omx_wait_any(
    endpoint: u64,
    info: u64,
    mask: u64,
    status: *mut Status,
    result: *mut u32,
    timeout: u32,
) -> u32 {
    let patience = Some(Patience::of_omx(timeout));
    // SAFETY: as this function demands.
    unsafe {
        ops::complete_any(call(c"omx_wait_any"), endpoint, (info, mask), (status, result), patience)
    }
}

/// `omx_peek`.
///
/// # Safety
/// As said above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omx_peek(
    endpoint: u64,
    request: *mut u64,
    result: *mut u32,
    timeout: u32,
) -> u32 {
    let patience = Some(Patience::of_omx(timeout));
    // SAFETY: as this function demands.
    unsafe { ops::peek(call(c"omx_peek"), endpoint, (request, result), patience) }
}

/// `omx_probe`.
///
/// # Safety
/// As said above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omx_probe(
    endpoint: u64,
    info: u64,
    mask: u64,
    status: *mut Status,
    result: *mut u32,
    timeout: u32,
) -> u32 {
    let patience = Some(Patience::of_omx(timeout));
    // SAFETY: as this function demands.
    unsafe { ops::probe(call(c"omx_probe"), endpoint, (info, mask), (status, result), patience) }
}

/// `omx_get_info`.
///
/// # Safety
/// As said above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omx_get_info(
    endpoint: u64,
    key: u32,
    input: *const c_void,
    input_len: u32,
    out: *mut c_void,
    out_len: u32,
) -> u32 {
    // SAFETY: as this function demands.
    unsafe {
        ops::get_info(
            call(c"omx_get_info"),
            endpoint,
            info::of_omx,
            (key, input, input_len),
            (out, out_len),
        )
    }
}

/// `omx_connect`.
///
/// # Safety
/// As said above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omx_connect(
    endpoint: u64,
    nic_id: u64,
    index: u32,
    key: u32,
    timeout: u32,
    out: *mut Addr,
) -> u32 {
    let (target, patience) = (Target { nic_id, index, key }, Patience::of_omx(timeout));
    // SAFETY: as this function demands.
    unsafe { ops::connect(call(c"omx_connect"), endpoint, target, patience, out) }
}

/// `omx_decompose_endpoint_addr`.
///
/// # Safety
/// As said above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omx_decompose_endpoint_addr(
    address: Addr,
    nic_id: *mut u64,
    index: *mut u32,
) -> u32 {
    // SAFETY: as this function demands.
    unsafe { ops::decompose(address, nic_id, index, std::ptr::null_mut()) }
}

/// `omx_decompose_endpoint_addr_with_session`.
///
/// # Safety
/// As said above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omx_decompose_endpoint_addr_with_session(
    address: Addr,
    nic_id: *mut u64,
    index: *mut u32,
    session: *mut u32,
) -> u32 {
    // SAFETY: as this function demands.
    unsafe { ops::decompose(address, nic_id, index, session) }
}
