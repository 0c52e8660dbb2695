//! What MX and Open-MX have alike: one function under two names.
//!
//! The names differ, and the words in which a failure is told (`Api`); arguments and meaning do not. What differs in more than that, as the place of a
//! time-out, is in `mx` and `omx`.
//!
//! # Safety
//! Each function takes what its header says: pointers to one value each, or null where that is said; lists of so many; memory that is the
//! library's until its request ended. A handle may be anything: one that is stale or made up is told as such.

use std::ffi::{CStr, c_char, c_void};

use crate::abi::{Addr, Param, Segment, Status, UnexpHandler};
use crate::calls::Api;
use crate::connect::Target;
use crate::memory::Room;
use crate::open;
use crate::ops::{self, Call};

/// The name of a function, as C has it.
const fn named(name: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(name.as_bytes()) {
        Ok(name) => name,
        Err(_) => panic!("a name that ends with its only zero"),
    }
}

/// A function under its two names; `call` says by which of them it was called.
macro_rules! both {
    (fn $mx:ident, $omx:ident($call:ident $(, $argument:ident: $type:ty)* $(,)?) $body:block) => {
        both!(@ {} [] $mx Mx, [$call $(, $argument: $type)*] $body);
        both!(@ {} [] $omx Omx, [$call $(, $argument: $type)*] $body);
    };
    (unsafe fn $mx:ident, $omx:ident($call:ident $(, $argument:ident: $type:ty)* $(,)?) $body:block) => {
        both!(@ {#[doc = "# Safety\nAs said above."]} [unsafe] $mx Mx, [$call $(, $argument: $type)*] $body);
        both!(@ {#[doc = "# Safety\nAs said above."]} [unsafe] $omx Omx, [$call $(, $argument: $type)*] $body);
    };
    (@ {$(#[$safety:meta])?} [$($unsafe:tt)?] $name:ident $api:ident,
     [$call:ident $(, $argument:ident: $type:ty)*] $body:block) => {
        #[doc = concat!("`", stringify!($name), "`.")]
        ///
        $(#[$safety])?
        #[unsafe(no_mangle)]
        pub $($unsafe)? extern "C" fn $name($($argument: $type),*) -> u32 {
            const NAME: &CStr = named(concat!(stringify!($name), "\0"));
            let $call = Call { api: Api::$api, name: NAME };
            $body
        }
    };
}

both! {
    fn mx_finalize, omx_finalize(call) {
        call.end(open::finalize())
    }
}

both! {
    unsafe fn mx_open_endpoint, omx_open_endpoint(
        call,
        board: u32,
        index: u32,
        key: u32,
        params: *mut Param,
        count: u32,
        out: *mut u64,
    ) {
        // SAFETY: as this function demands.
        unsafe {
            ops::open_endpoint(call, (board, index, key), (params, count), out)
        }
    }
}

both! {
    fn mx_close_endpoint, omx_close_endpoint(call, endpoint: u64) {
        ops::close_endpoint(call, endpoint)
    }
}

both! {
    fn mx_wakeup, omx_wakeup(call, endpoint: u64) {
        call.at(endpoint, |port| {
            port.wake_up();
            Ok(())
        })
    }
}

both! {
    fn mx_disable_progression, omx_disable_progression(call, endpoint: u64) {
        call.at(endpoint, |port| port.disable_progression())
    }
}

both! {
    fn mx_reenable_progression, omx_reenable_progression(call, endpoint: u64) {
        call.at(endpoint, |port| {
            port.reenable_progression();
            Ok(())
        })
    }
}

both! {
    fn mx_progress, omx_progress(call, endpoint: u64) {
        call.at(endpoint, |port| {
            port.progress();
            Ok(())
        })
    }
}

both! {
    unsafe fn mx_isend, omx_isendv(
        call,
        endpoint: u64,
        list: *mut Segment,
        count: u32,
        to: Addr,
        info: u64,
        context: *mut c_void,
        out: *mut u64,
    ) {
        // SAFETY: as this function demands.
        unsafe {
            let room = Room::of_segments(list, count);
            ops::send(call, endpoint, room, (to, info, context), (false, out))
        }
    }
}

both! {
    unsafe fn mx_issend, omx_issendv(
        call,
        endpoint: u64,
        list: *mut Segment,
        count: u32,
        to: Addr,
        info: u64,
        context: *mut c_void,
        out: *mut u64,
    ) {
        // SAFETY: as this function demands.
        unsafe {
            let room = Room::of_segments(list, count);
            ops::send(call, endpoint, room, (to, info, context), (true, out))
        }
    }
}

both! {
    unsafe fn mx_irecv, omx_irecvv(
        call,
        endpoint: u64,
        list: *mut Segment,
        count: u32,
        info: u64,
        mask: u64,
        context: *mut c_void,
        out: *mut u64,
    ) {
        // SAFETY: as this function demands.
        unsafe {
            let room = Room::of_segments(list, count);
            ops::recv(call, endpoint, room, (info, mask, context), out)
        }
    }
}

both! {
    unsafe fn mx_cancel, omx_cancel(call, endpoint: u64, request: *mut u64, result: *mut u32) {
        // SAFETY: as this function demands.
        unsafe { ops::cancel(call, endpoint, (request, result), false) }
    }
}

both! {
    unsafe fn mx_test, omx_test(
        call,
        endpoint: u64,
        request: *mut u64,
        status: *mut Status,
        result: *mut u32,
    ) {
        // SAFETY: as this function demands.
        unsafe { ops::complete(call, endpoint, (request, status, result), None) }
    }
}

both! {
    unsafe fn mx_test_any, omx_test_any(
        call,
        endpoint: u64,
        info: u64,
        mask: u64,
        status: *mut Status,
        result: *mut u32,
    ) {
        // SAFETY: as this function demands.
        unsafe {
            ops::complete_any(call, endpoint, (info, mask), (status, result), None)
        }
    }
}

both! {
    unsafe fn mx_ipeek, omx_ipeek(call, endpoint: u64, request: *mut u64, result: *mut u32) {
        // SAFETY: as this function demands.
        unsafe { ops::peek(call, endpoint, (request, result), None) }
    }
}

both! {
    unsafe fn mx_iprobe, omx_iprobe(
        call,
        endpoint: u64,
        info: u64,
        mask: u64,
        status: *mut Status,
        result: *mut u32,
    ) {
        // SAFETY: as this function demands.
        unsafe { ops::probe(call, endpoint, (info, mask), (status, result), None) }
    }
}

both! {
    unsafe fn mx_ibuffered, omx_ibuffered(
        call,
        endpoint: u64,
        request: *mut u64,
        result: *mut u32,
    ) {
        // SAFETY: as this function demands.
        unsafe { ops::buffered(call, endpoint, (request, result), None) }
    }
}

both! {
    unsafe fn mx_context, omx_context(call, request: *mut u64, out: *mut *mut c_void) {
        // SAFETY: as this function demands.
        unsafe { ops::context(call, request, out) }
    }
}

both! {
    unsafe fn mx_hostname_to_nic_id, omx_hostname_to_nic_id(
        call,
        name: *mut c_char,
        nic_id: *mut u64,
    ) {
        // SAFETY: as this function demands.
        unsafe { ops::name_to_nic_id(call, name, nic_id) }
    }
}

both! {
    unsafe fn mx_nic_id_to_hostname, omx_nic_id_to_hostname(call, nic_id: u64, name: *mut c_char) {
        // SAFETY: as this function demands.
        unsafe { ops::nic_id_to_name(call, nic_id, name) }
    }
}

both! {
    unsafe fn mx_board_number_to_nic_id, omx_board_number_to_nic_id(
        call,
        board: u32,
        nic_id: *mut u64,
    ) {
        // SAFETY: as this function demands.
        unsafe { ops::board_to_nic_id(call, board, nic_id) }
    }
}

both! {
    unsafe fn mx_nic_id_to_board_number, omx_nic_id_to_board_number(
        call,
        nic_id: u64,
        board: *mut u32,
    ) {
        // SAFETY: as this function demands.
        unsafe { ops::nic_id_to_board(call, nic_id, board) }
    }
}

both! {
    unsafe fn mx_get_endpoint_addr, omx_get_endpoint_addr(call, endpoint: u64, out: *mut Addr) {
        // SAFETY: as this function demands.
        unsafe { ops::own_address(call, endpoint, out) }
    }
}

both! {
    unsafe fn mx_iconnect, omx_iconnect(
        call,
        endpoint: u64,
        nic_id: u64,
        index: u32,
        key: u32,
        info: u64,
        context: *mut c_void,
        out: *mut u64,
    ) {
        let target = Target { nic_id, index, key };
        // SAFETY: as this function demands.
        unsafe { ops::begin_connect(call, endpoint, target, (info, context), out) }
    }
}

both! {
    fn mx_disconnect, omx_disconnect(call, endpoint: u64, address: Addr) {
        call.at(endpoint, |port| port.disconnect(address))
    }
}

both! {
    fn mx_register_unexp_handler, omx_register_unexp_handler(
        call,
        endpoint: u64,
        handler: Option<UnexpHandler>,
        context: *mut c_void,
    ) {
        ops::register_handler(call, endpoint, handler, context)
    }
}

both! {
    unsafe fn mx_forget, omx_forget(call, endpoint: u64, request: *mut u64) {
        // SAFETY: as this function demands.
        unsafe { ops::forget(call, endpoint, request) }
    }
}

both! {
    fn mx_set_endpoint_addr_context, omx_set_endpoint_addr_context(
        call,
        address: Addr,
        context: *mut c_void,
    ) {
        ops::set_peer_context(call, address, context)
    }
}

both! {
    unsafe fn mx_get_endpoint_addr_context, omx_get_endpoint_addr_context(
        call,
        address: Addr,
        out: *mut *mut c_void,
    ) {
        // SAFETY: as this function demands.
        unsafe { ops::peer_context(call, address, out) }
    }
}

both! {
    fn mx_set_request_timeout, omx_set_request_timeout(
        call,
        endpoint: u64,
        request: u64,
        _milliseconds: u32,
    ) {
        // Accepted of every request there is, and of null, which is all of them. When a peer is gone is the protocol's to say
        // (PROTOCOL §4), not a number of repetitions.
        call.at(endpoint, |port| {
            if request == 0 { Ok(()) } else { port.context_of(request).map(drop) }
        })
    }
}
