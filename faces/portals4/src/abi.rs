//! What things look like to C: layouts and special values of `include/portals4.h`, asserted here and in `tests/c/layouts.c`.
//!
//! Options, kinds of events and ways to fail are the core's numbers, for they travel and decide there; the tests compare them with the header.

use std::ffi::{c_int, c_uint, c_void};
use std::mem::offset_of;

/// `ptl_handle_any_t` and all others.
pub type Handle = u32;

/// No event queue.
pub const EQ_NONE: Handle = 0x3fff_ffff;
/// No counter.
pub const CT_NONE: Handle = 0x5fff_ffff;
/// No handle at all.
pub const INVALID_HANDLE: Handle = 0xffff_ffff;
/// Whichever interface there is.
pub const IFACE_DEFAULT: u32 = 0xffff_ffff;
/// Any number of a process at its host.
pub const PID_ANY: u32 = 0xffff_ffff;
/// Any host.
pub const NID_ANY: u32 = 0xffff_ffff;
/// Any rank.
pub const RANK_ANY: u32 = 0xffff_ffff;
/// Any user.
pub const UID_ANY: u32 = 0xffff_ffff;
/// Any index of the portal table.
pub const PT_ANY: u32 = 0xffff_ffff;
/// No number of a process is as high.
pub const PID_MAX: u32 = 1024;
/// Without end.
pub const TIME_FOREVER: u32 = 0xffff_ffff;
/// With a `start` of null: all memory.
pub const SIZE_MAX: u64 = u64::MAX;

/// Options of `PtlNIInit`.
pub mod ni {
    /// With match entries.
    pub const MATCHING: u32 = 1;
    /// With list entries.
    pub const NO_MATCHING: u32 = 2;
    /// Processes are ranks.
    pub const LOGICAL: u32 = 4;
    /// Processes are hosts with numbers.
    pub const PHYSICAL: u32 = 8;
    /// All there are.
    pub const MASK: u32 = 0xf;
}

/// Bits of [`Limits::features`].
pub mod feature {
    /// Entries may name memory that is not there.
    pub const TARGET_BIND_INACCESSIBLE: u32 = 1;
    /// Data is ordered whatever its length.
    pub const TOTAL_DATA_ORDERING: u32 = 2;
    /// Loads and stores of the application see atomic operations.
    pub const COHERENT_ATOMICS: u32 = 4;
    /// All there are.
    pub const MASK: u32 = 7;
}

/// Atomic operations.
pub mod op {
    /// The last that `PtlAtomic` and `PtlFetchAtomic` take.
    pub const BXOR: u8 = 9;
    /// Unconditional; the first that `PtlSwap` takes.
    pub const SWAP: u8 = 10;
    /// One beyond the last.
    pub const LAST: u8 = 18;
}

/// `ptl_process_t`: a union in C, of one number and two, which passes as this does.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Process {
    /// The rank on a logical interface, the IPv4 address on a physical one.
    pub rank_or_nid: u32,
    /// The number at that address; nothing on a logical interface.
    pub pid: u32,
}

/// `ptl_iovec_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct IoVec {
    /// Where it begins.
    pub base: *mut c_void,
    /// Its length in bytes.
    pub len: u64,
}

/// `ptl_md_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Md {
    /// Where it begins, or a list of [`IoVec`].
    pub start: *mut c_void,
    /// Bytes, or pieces.
    pub length: u64,
    /// `PTL_MD_…`.
    pub options: c_uint,
    /// Where events go.
    pub eq_handle: Handle,
    /// Where they are counted.
    pub ct_handle: Handle,
}

/// `ptl_le_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Le {
    /// Where it begins, or a list of [`IoVec`].
    pub start: *mut c_void,
    /// Bytes, or pieces.
    pub length: u64,
    /// Where operations are counted.
    pub ct_handle: Handle,
    /// Who may use it.
    pub uid: u32,
    /// `PTL_LE_…`.
    pub options: c_uint,
}

/// `ptl_me_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Me {
    /// Where it begins, or a list of [`IoVec`].
    pub start: *mut c_void,
    /// Bytes, or pieces.
    pub length: u64,
    /// Where operations are counted.
    pub ct_handle: Handle,
    /// Who may use it.
    pub uid: u32,
    /// `PTL_ME_…`.
    pub options: c_uint,
    /// Whose messages.
    pub match_id: Process,
    /// Which messages.
    pub match_bits: u64,
    /// But for these bits.
    pub ignore_bits: u64,
    /// Unlinked when less than this is left.
    pub min_free: u64,
}

impl From<Le> for Me {
    /// The match entry that takes whatever a list entry takes.
    fn from(le: Le) -> Self {
        Self {
            start: le.start,
            length: le.length,
            ct_handle: le.ct_handle,
            uid: le.uid,
            options: le.options,
            match_id: Process { rank_or_nid: RANK_ANY, pid: PID_ANY },
            match_bits: 0,
            ignore_bits: u64::MAX,
            min_free: 0,
        }
    }
}

/// `ptl_ct_event_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CtEvent {
    /// What went well.
    pub success: u64,
    /// What did not.
    pub failure: u64,
}

/// `ptl_event_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// Where the data lies.
    pub start: *mut c_void,
    /// As given with the entry, or with the operation.
    pub user_ptr: *mut c_void,
    /// As sent.
    pub hdr_data: u64,
    /// As sent.
    pub match_bits: u64,
    /// Bytes asked for.
    pub rlength: u64,
    /// Bytes moved.
    pub mlength: u64,
    /// At the target what was asked for, at the initiator what was used.
    pub remote_offset: u64,
    /// Who sent it.
    pub initiator: Process,
    /// On whose behalf, as he claims.
    pub uid: u32,
    /// Which portal.
    pub pt_index: u32,
    /// What happened.
    pub kind: u8,
    /// Where it matched.
    pub list: u8,
    /// What became of it.
    pub ni_fail_type: u8,
    /// Which operation.
    pub atomic_operation: u8,
    /// On what.
    pub atomic_type: u8,
}

/// `ptl_ni_limits_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Entries in all lists.
    pub max_entries: c_int,
    /// Unexpected headers of a portal.
    pub max_unexpected_headers: c_int,
    /// Memory descriptors.
    pub max_mds: c_int,
    /// Counters.
    pub max_cts: c_int,
    /// Event queues.
    pub max_eqs: c_int,
    /// The last index of the portal table.
    pub max_pt_index: c_int,
    /// Pieces of memory.
    pub max_iovecs: c_int,
    /// Entries of a list.
    pub max_list_size: c_int,
    /// Triggered operations.
    pub max_triggered_ops: c_int,
    /// Bytes of a message.
    pub max_msg_size: u64,
    /// Bytes of an atomic operation.
    pub max_atomic_size: u64,
    /// Bytes of one that fetches.
    pub max_fetch_atomic_size: u64,
    /// Bytes up to which writes after writes are in order.
    pub max_waw_ordered_size: u64,
    /// Bytes up to which writes after reads are in order.
    pub max_war_ordered_size: u64,
    /// Bytes that are copied with the call.
    pub max_volatile_size: u64,
    /// Of [`feature`].
    pub features: c_uint,
}

/// Bytes of one item of a datatype; `None` if there is no such type.
pub const fn datatype_len(datatype: u8) -> Option<usize> {
    Some(match datatype {
        0 | 1 => 1,
        2 | 3 => 2,
        4..=6 => 4,
        7..=10 => 8,
        11 | 12 => 16,
        13 => 32,
        _ => return None,
    })
}

#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(size_of::<Process>() == 8 && align_of::<Process>() == 4);
    assert!(size_of::<IoVec>() == 16 && offset_of!(IoVec, len) == 8);
    assert!(size_of::<Md>() == 32 && offset_of!(Md, length) == 8 && offset_of!(Md, options) == 16);
    assert!(offset_of!(Md, eq_handle) == 20 && offset_of!(Md, ct_handle) == 24);
    assert!(
        size_of::<Le>() == 32 && offset_of!(Le, length) == 8 && offset_of!(Le, ct_handle) == 16
    );
    assert!(offset_of!(Le, uid) == 20 && offset_of!(Le, options) == 24);
    assert!(size_of::<Me>() == 64 && offset_of!(Me, options) == 24);
    assert!(offset_of!(Me, match_id) == 28 && offset_of!(Me, match_bits) == 40);
    assert!(offset_of!(Me, ignore_bits) == 48 && offset_of!(Me, min_free) == 56);
    assert!(size_of::<CtEvent>() == 16 && offset_of!(CtEvent, failure) == 8);
    assert!(size_of::<Event>() == 80 && offset_of!(Event, user_ptr) == 8);
    assert!(offset_of!(Event, hdr_data) == 16 && offset_of!(Event, match_bits) == 24);
    assert!(offset_of!(Event, rlength) == 32 && offset_of!(Event, mlength) == 40);
    assert!(offset_of!(Event, remote_offset) == 48 && offset_of!(Event, initiator) == 56);
    assert!(offset_of!(Event, uid) == 64 && offset_of!(Event, pt_index) == 68);
    assert!(offset_of!(Event, kind) == 72 && offset_of!(Event, list) == 73);
    assert!(offset_of!(Event, ni_fail_type) == 74 && offset_of!(Event, atomic_operation) == 75);
    assert!(offset_of!(Event, atomic_type) == 76);
    assert!(size_of::<Limits>() == 96 && offset_of!(Limits, max_triggered_ops) == 32);
    assert!(offset_of!(Limits, max_msg_size) == 40 && offset_of!(Limits, max_volatile_size) == 80);
    assert!(offset_of!(Limits, features) == 88);
};
