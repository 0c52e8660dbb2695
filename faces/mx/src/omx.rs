//! `open-mx.h`: what programs of Open-MX call. Time-outs come last, and none is all ones; codes and statuses are one list.
//!
//! # Safety
//! Each function takes what its header says: pointers to one value each, or null where that is said; lists of so many; memory that is the
//! library's until its request ended. A handle may be anything: one that is stale or made up is told as such.

use std::ffi::{CStr, c_char, c_int, c_void};

use crate::abi::{Addr, ErrorHandler, Param, Segment, Status, UnexpHandler};
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

/// `omx_finalize`.
#[unsafe(no_mangle)]
pub extern "C" fn omx_finalize() -> u32 {
    call(c"omx_finalize").end(open::finalize())
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

/// `omx_open_endpoint`.
///
/// # Safety
/// As said above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omx_open_endpoint(
    board: u32,
    index: u32,
    key: u32,
    params: *mut Param,
    count: u32,
    out: *mut u64,
) -> u32 {
    // SAFETY: as this function demands.
    unsafe {
        ops::open_endpoint(call(c"omx_open_endpoint"), (board, index, key), (params, count), out)
    }
}

/// `omx_close_endpoint`.
#[unsafe(no_mangle)]
pub extern "C" fn omx_close_endpoint(endpoint: u64) -> u32 {
    ops::close_endpoint(call(c"omx_close_endpoint"), endpoint)
}

/// `omx_wakeup`.
#[unsafe(no_mangle)]
pub extern "C" fn omx_wakeup(endpoint: u64) -> u32 {
    call(c"omx_wakeup").at(endpoint, |port| {
        port.wake_up();
        Ok(())
    })
}

/// `omx_disable_progression`.
#[unsafe(no_mangle)]
pub extern "C" fn omx_disable_progression(endpoint: u64) -> u32 {
    call(c"omx_disable_progression").at(endpoint, |port| port.disable_progression())
}

/// `omx_reenable_progression`.
#[unsafe(no_mangle)]
pub extern "C" fn omx_reenable_progression(endpoint: u64) -> u32 {
    call(c"omx_reenable_progression").at(endpoint, |port| {
        port.reenable_progression();
        Ok(())
    })
}

/// `omx_progress`.
#[unsafe(no_mangle)]
pub extern "C" fn omx_progress(endpoint: u64) -> u32 {
    call(c"omx_progress").at(endpoint, |port| {
        port.progress();
        Ok(())
    })
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

/// `omx_isendv`.
///
/// # Safety
/// As said above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omx_isendv(
    endpoint: u64,
    list: *mut Segment,
    count: u32,
    to: Addr,
    info: u64,
    context: *mut c_void,
    out: *mut u64,
) -> u32 {
    // SAFETY: as this function demands.
    unsafe {
        let room = Room::of_segments(list, count);
        ops::send(call(c"omx_isendv"), endpoint, room, (to, info, context), (false, out))
    }
}

/// `omx_issendv`.
///
/// # Safety
/// As said above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omx_issendv(
    endpoint: u64,
    list: *mut Segment,
    count: u32,
    to: Addr,
    info: u64,
    context: *mut c_void,
    out: *mut u64,
) -> u32 {
    // SAFETY: as this function demands.
    unsafe {
        let room = Room::of_segments(list, count);
        ops::send(call(c"omx_issendv"), endpoint, room, (to, info, context), (true, out))
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

/// `omx_irecvv`.
///
/// # Safety
/// As said above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omx_irecvv(
    endpoint: u64,
    list: *mut Segment,
    count: u32,
    info: u64,
    mask: u64,
    context: *mut c_void,
    out: *mut u64,
) -> u32 {
    // SAFETY: as this function demands.
    unsafe {
        let room = Room::of_segments(list, count);
        ops::recv(call(c"omx_irecvv"), endpoint, room, (info, mask, context), out)
    }
}

/// `omx_cancel`.
///
/// # Safety
/// As said above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omx_cancel(endpoint: u64, request: *mut u64, result: *mut u32) -> u32 {
    // SAFETY: as this function demands.
    unsafe { ops::cancel(call(c"omx_cancel"), endpoint, (request, result), false) }
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

/// `omx_test`.
///
/// # Safety
/// As said above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omx_test(
    endpoint: u64,
    request: *mut u64,
    status: *mut Status,
    result: *mut u32,
) -> u32 {
    // SAFETY: as this function demands.
    unsafe { ops::complete(call(c"omx_test"), endpoint, (request, status, result), None) }
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

/// `omx_test_any`.
///
/// # Safety
/// As said above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omx_test_any(
    endpoint: u64,
    info: u64,
    mask: u64,
    status: *mut Status,
    result: *mut u32,
) -> u32 {
    // SAFETY: as this function demands.
    unsafe {
        ops::complete_any(call(c"omx_test_any"), endpoint, (info, mask), (status, result), None)
    }
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

/// `omx_ipeek`.
///
/// # Safety
/// As said above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omx_ipeek(endpoint: u64, request: *mut u64, result: *mut u32) -> u32 {
    // SAFETY: as this function demands.
    unsafe { ops::peek(call(c"omx_ipeek"), endpoint, (request, result), None) }
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

/// `omx_iprobe`.
///
/// # Safety
/// As said above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omx_iprobe(
    endpoint: u64,
    info: u64,
    mask: u64,
    status: *mut Status,
    result: *mut u32,
) -> u32 {
    // SAFETY: as this function demands.
    unsafe { ops::probe(call(c"omx_iprobe"), endpoint, (info, mask), (status, result), None) }
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

/// `omx_ibuffered`.
///
/// # Safety
/// As said above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omx_ibuffered(endpoint: u64, request: *mut u64, result: *mut u32) -> u32 {
    // SAFETY: as this function demands.
    unsafe { ops::buffered(call(c"omx_ibuffered"), endpoint, (request, result), None) }
}

/// `omx_context`.
///
/// # Safety
/// As said above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omx_context(request: *mut u64, out: *mut *mut c_void) -> u32 {
    // SAFETY: as this function demands.
    unsafe { ops::context(call(c"omx_context"), request, out) }
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

/// `omx_hostname_to_nic_id`.
///
/// # Safety
/// As said above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omx_hostname_to_nic_id(name: *mut c_char, nic_id: *mut u64) -> u32 {
    // SAFETY: as this function demands.
    unsafe { ops::name_to_nic_id(call(c"omx_hostname_to_nic_id"), name, nic_id) }
}

/// `omx_nic_id_to_hostname`.
///
/// # Safety
/// As said above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omx_nic_id_to_hostname(nic_id: u64, name: *mut c_char) -> u32 {
    // SAFETY: as this function demands.
    unsafe { ops::nic_id_to_name(call(c"omx_nic_id_to_hostname"), nic_id, name) }
}

/// `omx_board_number_to_nic_id`.
///
/// # Safety
/// As said above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omx_board_number_to_nic_id(board: u32, nic_id: *mut u64) -> u32 {
    // SAFETY: as this function demands.
    unsafe { ops::board_to_nic_id(call(c"omx_board_number_to_nic_id"), board, nic_id) }
}

/// `omx_nic_id_to_board_number`.
///
/// # Safety
/// As said above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omx_nic_id_to_board_number(nic_id: u64, board: *mut u32) -> u32 {
    // SAFETY: as this function demands.
    unsafe { ops::nic_id_to_board(call(c"omx_nic_id_to_board_number"), nic_id, board) }
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

/// `omx_iconnect`.
///
/// # Safety
/// As said above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omx_iconnect(
    endpoint: u64,
    nic_id: u64,
    index: u32,
    key: u32,
    info: u64,
    context: *mut c_void,
    out: *mut u64,
) -> u32 {
    let target = Target { nic_id, index, key };
    // SAFETY: as this function demands.
    unsafe { ops::begin_connect(call(c"omx_iconnect"), endpoint, target, (info, context), out) }
}

/// `omx_disconnect`.
#[unsafe(no_mangle)]
pub extern "C" fn omx_disconnect(endpoint: u64, address: Addr) -> u32 {
    call(c"omx_disconnect").at(endpoint, |port| port.disconnect(address))
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

/// `omx_get_endpoint_addr`.
///
/// # Safety
/// As said above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omx_get_endpoint_addr(endpoint: u64, out: *mut Addr) -> u32 {
    // SAFETY: as this function demands.
    unsafe { ops::own_address(call(c"omx_get_endpoint_addr"), endpoint, out) }
}

/// `omx_set_endpoint_addr_context`.
#[unsafe(no_mangle)]
pub extern "C" fn omx_set_endpoint_addr_context(address: Addr, context: *mut c_void) -> u32 {
    ops::set_peer_context(call(c"omx_set_endpoint_addr_context"), address, context)
}

/// `omx_get_endpoint_addr_context`.
///
/// # Safety
/// As said above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omx_get_endpoint_addr_context(
    address: Addr,
    out: *mut *mut c_void,
) -> u32 {
    // SAFETY: as this function demands.
    unsafe { ops::peer_context(call(c"omx_get_endpoint_addr_context"), address, out) }
}

/// `omx_register_unexp_handler`.
#[unsafe(no_mangle)]
pub extern "C" fn omx_register_unexp_handler(
    endpoint: u64,
    handler: Option<UnexpHandler>,
    context: *mut c_void,
) -> u32 {
    ops::register_handler(call(c"omx_register_unexp_handler"), endpoint, handler, context)
}

/// `omx_forget`.
///
/// # Safety
/// As said above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omx_forget(endpoint: u64, request: *mut u64) -> u32 {
    // SAFETY: as this function demands.
    unsafe { ops::forget(call(c"omx_forget"), endpoint, request) }
}

/// `omx_set_request_timeout`: accepted; see `mx_set_request_timeout`.
#[unsafe(no_mangle)]
pub extern "C" fn omx_set_request_timeout(endpoint: u64, _request: u64, _milliseconds: u32) -> u32 {
    call(c"omx_set_request_timeout").at(endpoint, |_| Ok(()))
}
