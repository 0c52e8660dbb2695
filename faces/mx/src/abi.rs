//! What things look like to C: layouts and constants of `include/myriexpress.h` and `include/open-mx.h`, asserted here and there.

use std::ffi::{c_char, c_int, c_void};
use std::mem::offset_of;

/// `MX_API`: the version of the interface.
pub(crate) const API: c_int = 0x301;
pub(crate) const ANY: u32 = 0xffff_ffff;
pub(crate) const SEGMENT_COUNT_MAX: u32 = 256;
/// Names of hosts, with their final zero.
pub(crate) const HOSTNAME_LEN: usize = 80;
/// Strings of information, with their final zero.
pub(crate) const STRING_LEN: usize = 128;
pub(crate) const CONTEXT_ID_BITS_MAX: u8 = 16;

/// `mx_endpoint_addr_t`: passed by value.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Addr {
    /// Ours to fill, the application's to copy.
    pub stuff: [u64; 2],
}

/// `mx_segment_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    /// Where it begins.
    pub ptr: *mut c_void,
    /// Its length in bytes.
    pub len: u32,
}

/// `mx_status_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Status {
    /// How it ended.
    pub code: u32,
    /// The other side.
    pub source: Addr,
    /// Match bits of the message.
    pub match_info: u64,
    /// What was sent.
    pub msg_length: u32,
    /// What was stored.
    pub xfer_length: u32,
    /// As posted.
    pub context: *mut c_void,
}

/// `mx_error_handler_t`.
pub type ErrorHandler = unsafe extern "C" fn(*mut c_char, u32) -> u32;

/// `mx_unexp_handler_t`.
pub type UnexpHandler = unsafe extern "C" fn(*mut c_void, Addr, u64, u32, *mut c_void) -> u32;

/// `mx_param_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Param {
    /// Which.
    pub key: u32,
    /// Its value.
    pub val: ParamValue,
}

/// The union in `mx_param_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub union ParamValue {
    /// Key 0.
    pub error_handler: Option<ErrorHandler>,
    /// Key 1.
    pub unexp_queue_max: u32,
    /// Key 2: bits, shift.
    pub context_id: [u8; 2],
}

/// `mx_mapper_state_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MapperState {
    pub(crate) board_number: u32,
    pub(crate) mapper_mac: [u8; 6],
    pub(crate) iport: u16,
    pub(crate) map_version: u32,
    pub(crate) num_hosts: u32,
    pub(crate) network_configured: u32,
    pub(crate) routes_valid: u32,
    pub(crate) level: u32,
    pub(crate) flags: u32,
}

#[cfg(not(target_pointer_width = "64"))]
compile_error!("handles of MX are pointers, and 64 bits here: there is no MX for 32-bit programs");

const _: () = {
    assert!(size_of::<Addr>() == 16 && align_of::<Addr>() == 8);
    assert!(size_of::<Segment>() == 16 && offset_of!(Segment, ptr) == 0);
    assert!(offset_of!(Segment, len) == 8);
    assert!(size_of::<Status>() == 48 && offset_of!(Status, code) == 0);
    assert!(offset_of!(Status, source) == 8 && offset_of!(Status, match_info) == 24);
    assert!(offset_of!(Status, msg_length) == 32 && offset_of!(Status, xfer_length) == 36);
    assert!(offset_of!(Status, context) == 40);
    assert!(size_of::<Param>() == 16 && offset_of!(Param, key) == 0 && offset_of!(Param, val) == 8);
    assert!(size_of::<ParamValue>() == 8 && size_of::<Option<ErrorHandler>>() == 8);
    assert!(size_of::<MapperState>() == 36 && align_of::<MapperState>() == 4);
    assert!(offset_of!(MapperState, board_number) == 0 && offset_of!(MapperState, mapper_mac) == 4);
    assert!(offset_of!(MapperState, iport) == 10 && offset_of!(MapperState, map_version) == 12);
    assert!(offset_of!(MapperState, num_hosts) == 16 && offset_of!(MapperState, level) == 28);
    assert!(offset_of!(MapperState, network_configured) == 20);
    assert!(offset_of!(MapperState, routes_valid) == 24 && offset_of!(MapperState, flags) == 32);
};
