//! `myriexpress.h` and `mx_extensions.h`: what programs of MX call.
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

/// `mx_finalize`.
#[unsafe(no_mangle)]
pub extern "C" fn mx_finalize() -> u32 {
    call(c"mx_finalize").end(open::finalize())
}

/// `mx_set_error_handler`: also before `mx_init`. The one before.
#[unsafe(no_mangle)]
pub extern "C" fn mx_set_error_handler(handler: Option<ErrorHandler>) -> ErrorHandler {
    calls::set_of_process(handler)
}

/// `mx_open_endpoint`.
///
/// # Safety
/// As said above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mx_open_endpoint(
    board: u32,
    index: u32,
    key: u32,
    params: *mut Param,
    count: u32,
    out: *mut u64,
) -> u32 {
    // SAFETY: as this function demands.
    unsafe {
        ops::open_endpoint(call(c"mx_open_endpoint"), (board, index, key), (params, count), out)
    }
}

/// `mx_close_endpoint`.
#[unsafe(no_mangle)]
pub extern "C" fn mx_close_endpoint(endpoint: u64) -> u32 {
    ops::close_endpoint(call(c"mx_close_endpoint"), endpoint)
}

/// `mx_wakeup`.
#[unsafe(no_mangle)]
pub extern "C" fn mx_wakeup(endpoint: u64) -> u32 {
    call(c"mx_wakeup").at(endpoint, |port| {
        port.wake_up();
        Ok(())
    })
}

/// `mx_disable_progression`.
#[unsafe(no_mangle)]
pub extern "C" fn mx_disable_progression(endpoint: u64) -> u32 {
    call(c"mx_disable_progression").at(endpoint, |port| port.disable_progression())
}

/// `mx_reenable_progression`.
#[unsafe(no_mangle)]
pub extern "C" fn mx_reenable_progression(endpoint: u64) -> u32 {
    call(c"mx_reenable_progression").at(endpoint, |port| {
        port.reenable_progression();
        Ok(())
    })
}

/// `mx_progress`.
#[unsafe(no_mangle)]
pub extern "C" fn mx_progress(endpoint: u64) -> u32 {
    call(c"mx_progress").at(endpoint, |port| {
        port.progress();
        Ok(())
    })
}

/// `mx_isend`.
///
/// # Safety
/// As said above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mx_isend(
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
        ops::send(call(c"mx_isend"), endpoint, room, (to, info, context), (false, out))
    }
}

/// `mx_issend`.
///
/// # Safety
/// As said above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mx_issend(
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
        ops::send(call(c"mx_issend"), endpoint, room, (to, info, context), (true, out))
    }
}

/// `mx_irecv`.
///
/// # Safety
/// As said above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mx_irecv(
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
        ops::recv(call(c"mx_irecv"), endpoint, room, (info, mask, context), out)
    }
}

/// `mx_cancel`.
///
/// # Safety
/// As said above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mx_cancel(endpoint: u64, request: *mut u64, result: *mut u32) -> u32 {
    // SAFETY: as this function demands.
    unsafe { ops::cancel(call(c"mx_cancel"), endpoint, (request, result), false) }
}

/// `mx_test`.
///
/// # Safety
/// As said above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mx_test(
    endpoint: u64,
    request: *mut u64,
    status: *mut Status,
    result: *mut u32,
) -> u32 {
    // SAFETY: as this function demands.
    unsafe { ops::complete(call(c"mx_test"), endpoint, (request, status, result), None) }
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

/// `mx_test_any`.
///
/// # Safety
/// As said above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mx_test_any(
    endpoint: u64,
    info: u64,
    mask: u64,
    status: *mut Status,
    result: *mut u32,
) -> u32 {
    // SAFETY: as this function demands.
    unsafe {
        ops::complete_any(call(c"mx_test_any"), endpoint, (info, mask), (status, result), None)
    }
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

/// `mx_ipeek`.
///
/// # Safety
/// As said above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mx_ipeek(endpoint: u64, request: *mut u64, result: *mut u32) -> u32 {
    // SAFETY: as this function demands.
    unsafe { ops::peek(call(c"mx_ipeek"), endpoint, (request, result), None) }
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

/// `mx_iprobe`.
///
/// # Safety
/// As said above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mx_iprobe(
    endpoint: u64,
    info: u64,
    mask: u64,
    status: *mut Status,
    result: *mut u32,
) -> u32 {
    // SAFETY: as this function demands.
    unsafe { ops::probe(call(c"mx_iprobe"), endpoint, (info, mask), (status, result), None) }
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

/// `mx_ibuffered`.
///
/// # Safety
/// As said above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mx_ibuffered(endpoint: u64, request: *mut u64, result: *mut u32) -> u32 {
    // SAFETY: as this function demands.
    unsafe { ops::buffered(call(c"mx_ibuffered"), endpoint, (request, result), None) }
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

/// `mx_context`.
///
/// # Safety
/// As said above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mx_context(request: *mut u64, out: *mut *mut c_void) -> u32 {
    // SAFETY: as this function demands.
    unsafe { ops::context(call(c"mx_context"), request, out) }
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

/// `mx_hostname_to_nic_id`.
///
/// # Safety
/// As said above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mx_hostname_to_nic_id(name: *mut c_char, nic_id: *mut u64) -> u32 {
    // SAFETY: as this function demands.
    unsafe { ops::name_to_nic_id(call(c"mx_hostname_to_nic_id"), name, nic_id) }
}

/// `mx_nic_id_to_hostname`.
///
/// # Safety
/// As said above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mx_nic_id_to_hostname(nic_id: u64, name: *mut c_char) -> u32 {
    // SAFETY: as this function demands.
    unsafe { ops::nic_id_to_name(call(c"mx_nic_id_to_hostname"), nic_id, name) }
}

/// `mx_board_number_to_nic_id`.
///
/// # Safety
/// As said above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mx_board_number_to_nic_id(board: u32, nic_id: *mut u64) -> u32 {
    // SAFETY: as this function demands.
    unsafe { ops::board_to_nic_id(call(c"mx_board_number_to_nic_id"), board, nic_id) }
}

/// `mx_nic_id_to_board_number`.
///
/// # Safety
/// As said above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mx_nic_id_to_board_number(nic_id: u64, board: *mut u32) -> u32 {
    // SAFETY: as this function demands.
    unsafe { ops::nic_id_to_board(call(c"mx_nic_id_to_board_number"), nic_id, board) }
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

/// `mx_get_endpoint_addr`.
///
/// # Safety
/// As said above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mx_get_endpoint_addr(endpoint: u64, out: *mut Addr) -> u32 {
    // SAFETY: as this function demands.
    unsafe { ops::own_address(call(c"mx_get_endpoint_addr"), endpoint, out) }
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

/// `mx_iconnect`.
///
/// # Safety
/// As said above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mx_iconnect(
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
    unsafe { ops::begin_connect(call(c"mx_iconnect"), endpoint, target, (info, context), out) }
}

/// `mx_disconnect`.
#[unsafe(no_mangle)]
pub extern "C" fn mx_disconnect(endpoint: u64, address: Addr) -> u32 {
    call(c"mx_disconnect").at(endpoint, |port| port.disconnect(address))
}

/// `mx_register_unexp_handler`.
#[unsafe(no_mangle)]
pub extern "C" fn mx_register_unexp_handler(
    endpoint: u64,
    handler: Option<UnexpHandler>,
    context: *mut c_void,
) -> u32 {
    ops::register_handler(call(c"mx_register_unexp_handler"), endpoint, handler, context)
}

/// `mx_forget`.
///
/// # Safety
/// As said above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mx_forget(endpoint: u64, request: *mut u64) -> u32 {
    // SAFETY: as this function demands.
    unsafe { ops::forget(call(c"mx_forget"), endpoint, request) }
}

/// `mx_set_endpoint_addr_context`.
#[unsafe(no_mangle)]
pub extern "C" fn mx_set_endpoint_addr_context(address: Addr, context: *mut c_void) -> u32 {
    ops::set_peer_context(call(c"mx_set_endpoint_addr_context"), address, context)
}

/// `mx_get_endpoint_addr_context`.
///
/// # Safety
/// As said above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mx_get_endpoint_addr_context(address: Addr, out: *mut *mut c_void) -> u32 {
    // SAFETY: as this function demands.
    unsafe { ops::peer_context(call(c"mx_get_endpoint_addr_context"), address, out) }
}

/// `mx_set_request_timeout`: accepted. When a peer is gone is the protocol's to say (PROTOCOL §4), not a number of repetitions.
#[unsafe(no_mangle)]
pub extern "C" fn mx_set_request_timeout(endpoint: u64, _request: u64, _milliseconds: u32) -> u32 {
    call(c"mx_set_request_timeout").at(endpoint, |_| Ok(()))
}
