//! `myriexpress.h` and `mx_extensions.h`: what programs of MX call.
//!
//! # Safety
//! Each function takes what its header says: pointers to one value each, or null where that is said; lists of so many; memory that is the
//! library's until its request ended. A handle may be anything: one that is stale or made up is told as such.

use std::ffi::{CStr, c_char, c_int, c_void};

/// Those that Open-MX has, too, so that all of MX is found here.
pub use crate::both::*;

use crate::abi::{Addr, ErrorHandler, Status};
use crate::calls::{self, Api};
use crate::codes;
use crate::connect::Target;
use crate::ops::{self, Call};
use crate::waiting::Patience;
use crate::{info, open};

fn call(name: &'static CStr) -> Call {
    Call { api: Api::Mx, name }
}

/// `mx__init_api`.
#[unsafe(no_mangle)]
pub extern "C" fn mx__init_api(api: c_int) -> u32 {
    match open::initialize(api) {
        // Told, and no reason to end a program that asks twice.
        Err(codes::ALREADY_INITIALIZED) => codes::ALREADY_INITIALIZED,
        result => call(c"mx_init").end(result),
    }
}

/// `mx_set_error_handler`: also before `mx_init`. The one before.
#[unsafe(no_mangle)]
pub extern "C" fn mx_set_error_handler(handler: Option<ErrorHandler>) -> ErrorHandler {
    calls::set_of_process(handler)
}

/// `mx_wait`.
///
/// # Safety
/// As said above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mx_wait(
    endpoint: u64,
    request: *mut u64,
    timeout: u32,
    status: *mut Status,
    result: *mut u32,
) -> u32 {
    let patience = Some(Patience::of_mx(timeout));
    // SAFETY: as this function demands.
    unsafe { ops::complete(call(c"mx_wait"), endpoint, (request, status, result), patience) }
}

/// `mx_wait_any`.
///
/// # Safety
/// As said above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mx_wait_any(
    endpoint: u64,
    timeout: u32,
    info: u64,
    mask: u64,
    status: *mut Status,
    result: *mut u32,
) -> u32 {
    let patience = Some(Patience::of_mx(timeout));
    // SAFETY: as this function demands.
    unsafe {
        ops::complete_any(call(c"mx_wait_any"), endpoint, (info, mask), (status, result), patience)
    }
}

/// `mx_peek`.
///
/// # Safety
/// As said above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mx_peek(
    endpoint: u64,
    timeout: u32,
    request: *mut u64,
    result: *mut u32,
) -> u32 {
    let patience = Some(Patience::of_mx(timeout));
    // SAFETY: as this function demands.
    unsafe { ops::peek(call(c"mx_peek"), endpoint, (request, result), patience) }
}

/// `mx_probe`.
///
/// # Safety
/// As said above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mx_probe(
    endpoint: u64,
    timeout: u32,
    info: u64,
    mask: u64,
    status: *mut Status,
    result: *mut u32,
) -> u32 {
    let patience = Some(Patience::of_mx(timeout));
    // SAFETY: as this function demands.
    unsafe { ops::probe(call(c"mx_probe"), endpoint, (info, mask), (status, result), patience) }
}

/// `mx_buffered`, which neither MX nor Open-MX had but by name: waits until the bytes are free.
///
/// # Safety
/// As said above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mx_buffered(
    endpoint: u64,
    request: *mut u64,
    timeout: u32,
    result: *mut u32,
) -> u32 {
    let patience = Some(Patience::of_mx(timeout));
    // SAFETY: as this function demands.
    unsafe { ops::buffered(call(c"mx_buffered"), endpoint, (request, result), patience) }
}

/// `mx_get_info`.
///
/// # Safety
/// As said above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mx_get_info(
    endpoint: u64,
    key: u32,
    input: *mut c_void,
    input_len: u32,
    out: *mut c_void,
    out_len: u32,
) -> u32 {
    // SAFETY: as this function demands.
    unsafe {
        ops::get_info(
            call(c"mx_get_info"),
            endpoint,
            info::of_mx,
            (key, input, input_len),
            (out, out_len),
        )
    }
}

/// `mx_connect`.
///
/// # Safety
/// As said above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mx_connect(
    endpoint: u64,
    nic_id: u64,
    index: u32,
    key: u32,
    timeout: u32,
    out: *mut Addr,
) -> u32 {
    let (target, patience) = (Target { nic_id, index, key }, Patience::of_mx(timeout));
    // SAFETY: as this function demands.
    unsafe { ops::connect(call(c"mx_connect"), endpoint, target, patience, out) }
}

/// `mx_decompose_endpoint_addr`.
///
/// # Safety
/// As said above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mx_decompose_endpoint_addr(
    address: Addr,
    nic_id: *mut u64,
    index: *mut u32,
) -> u32 {
    // SAFETY: as this function demands.
    unsafe { ops::decompose(address, nic_id, index, std::ptr::null_mut()) }
}

/// `mx_decompose_endpoint_addr2`.
///
/// # Safety
/// As said above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mx_decompose_endpoint_addr2(
    address: Addr,
    nic_id: *mut u64,
    index: *mut u32,
    session: *mut u32,
) -> u32 {
    // SAFETY: as this function demands.
    unsafe { ops::decompose(address, nic_id, index, session) }
}

/// `mx_strerror`.
#[unsafe(no_mangle)]
pub extern "C" fn mx_strerror(code: u32) -> *const c_char {
    codes::text(code).as_ptr()
}

/// `mx_strstatus`.
#[unsafe(no_mangle)]
pub extern "C" fn mx_strstatus(code: u32) -> *const c_char {
    codes::status_text(code).as_ptr()
}

/// `mx_register_unexp_callback`: out of use before Open-MX was written, and an error here.
#[unsafe(no_mangle)]
pub extern "C" fn mx_register_unexp_callback(
    endpoint: u64,
    _callback: *mut c_void,
    _context: *mut c_void,
) -> u32 {
    call(c"mx_register_unexp_callback").at(endpoint, |_| Err(codes::NOT_IMPLEMENTED))
}

/// `mx_iput`: declared by MX, done by nobody, an error here.
#[unsafe(no_mangle)]
pub extern "C" fn mx_iput(
    endpoint: u64,
    _local: *mut c_void,
    _len: u32,
    _peer: Addr,
    _remote: u64,
    _context: *mut c_void,
    _out: *mut u64,
) -> u32 {
    call(c"mx_iput").at(endpoint, |_| Err(codes::NOT_IMPLEMENTED))
}

/// `mx_iget`: declared by MX, done by nobody, an error here.
#[unsafe(no_mangle)]
pub extern "C" fn mx_iget(
    endpoint: u64,
    _local: *mut c_void,
    _len: u32,
    _peer: Addr,
    _remote: u64,
    _context: *mut c_void,
    _out: *mut u64,
) -> u32 {
    call(c"mx_iget").at(endpoint, |_| Err(codes::NOT_IMPLEMENTED))
}
