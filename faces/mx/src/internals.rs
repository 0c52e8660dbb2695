//! `mx_io.h`, `mx_raw.h` and `mx_internals`: what programs ask for though it is not of the interface proper.
//!
//! The raw functions would be a raw socket in a user's hands: they are there, and say that they are not permitted. Open MPI needs
//! `mx__regcache_clean`, and learns from board and mapper state whether two hosts are on one network: they are, as far as this library
//! knows, so all hosts say the same.

use std::ffi::{c_char, c_int, c_void};

use packhorse_common::pointed::put;

use crate::abi::{MapperState, Param};
use crate::calls::Api;
use crate::codes;
use crate::ops::Call;

/// `mx__regcache_clean`: nothing is registered here, so there is nothing to forget.
#[unsafe(no_mangle)]
pub extern "C" fn mx__regcache_clean(_start: *mut c_void, _len: usize) -> c_int {
    0
}

/// `mx_open_board`: the handle is the board's number.
///
/// # Safety
/// `out` points to a handle, or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mx_open_board(board: c_int, out: *mut c_int) -> u32 {
    // SAFETY: as this function demands.
    unsafe { put(out, board) };
    codes::SUCCESS
}

/// `mx__get_mapper_state`: the same mapper on all hosts, the one with nothing but zeros.
///
/// # Safety
/// `state` points to one, or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mx__get_mapper_state(board: c_int, state: *mut MapperState) -> u32 {
    let told = MapperState {
        board_number: board.max(0).cast_unsigned(),
        mapper_mac: [0; 6],
        iport: 0,
        map_version: 1,
        num_hosts: 0,
        network_configured: 1,
        routes_valid: 1,
        level: 0,
        flags: 0,
    };
    // SAFETY: as this function demands.
    unsafe { put(state, told) };
    codes::SUCCESS
}

fn refuse(name: &'static std::ffi::CStr) -> u32 {
    Call { api: Api::Mx, name }.end(Err(codes::NO_PERM))
}

macro_rules! refused {
    ($($name:ident($($arg:ty),*), $text:literal;)*) => {$(
        /// Not permitted.
        #[unsafe(no_mangle)]
        pub extern "C" fn $name($(_: $arg),*) -> u32 {
            refuse($text)
        }
    )*};
}

type Pointer = *mut c_void;

refused! {
    mx_raw_open_endpoint(u32, *mut Param, u32, *mut Pointer), c"mx_raw_open_endpoint";
    mx_raw_close_endpoint(Pointer), c"mx_raw_close_endpoint";
    mx_raw_send(Pointer, u32, Pointer, u32, Pointer, u32, Pointer), c"mx_raw_send";
    mx_raw_next_event(Pointer, *mut u32, *mut Pointer, Pointer, *mut u32, u32, *mut c_int), c"mx_raw_next_event";
    mx_raw_set_route_begin(Pointer), c"mx_raw_set_route_begin";
    mx_raw_set_route_end(Pointer), c"mx_raw_set_route_end";
    mx_raw_clear_routes(Pointer, u64, u32), c"mx_raw_clear_routes";
    mx_raw_set_nic_reply_info(Pointer, Pointer, u32), c"mx_raw_set_nic_reply_info";
    mx_raw_set_route(Pointer, u64, Pointer, u32, u32, u32, u32), c"mx_raw_set_route";
    mx_raw_set_route_mag(Pointer, u64, Pointer, u32, u32, u32, u32, u32), c"mx_raw_set_route_mag";
    mx_raw_set_peer_name(Pointer, u64, *mut c_char), c"mx_raw_set_peer_name";
    mx_raw_set_hostname(Pointer, *mut c_char), c"mx_raw_set_hostname";
    mx_raw_set_map_version(Pointer, u32, u64, u32, u32, u32), c"mx_raw_set_map_version";
    mx_raw_num_ports(Pointer, *mut u32), c"mx_raw_num_ports";
    mx_raw_line_speed(Pointer, *mut u32), c"mx_raw_line_speed";
    mx_raw_remove_peer(Pointer, u64), c"mx_raw_remove_peer";
}

/// `mx_raw_handle`: there is none.
#[unsafe(no_mangle)]
pub extern "C" fn mx_raw_handle(_endpoint: *mut c_void) -> c_int {
    -1
}
