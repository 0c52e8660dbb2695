//! What operations are given and what completions look like.

use std::ffi::c_void;

pub use libc::iovec;

/// `fi_msg`: a message without a tag.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Msg {
    pub msg_iov: *const iovec,
    pub desc: *mut *mut c_void,
    pub iov_count: usize,
    pub addr: u64,
    pub context: *mut c_void,
    pub data: u64,
}

/// `fi_msg_tagged`: a message with a tag.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct MsgTagged {
    pub msg_iov: *const iovec,
    pub desc: *mut *mut c_void,
    pub iov_count: usize,
    pub addr: u64,
    pub tag: u64,
    pub ignore: u64,
    pub context: *mut c_void,
    pub data: u64,
}

/// `fi_rma_iov`: a range of a peer's memory.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RmaIov {
    pub addr: u64,
    pub len: usize,
    pub key: u64,
}

/// `fi_msg_rma`: a read or write of a peer's memory.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct MsgRma {
    pub msg_iov: *const iovec,
    pub desc: *mut *mut c_void,
    pub iov_count: usize,
    pub addr: u64,
    pub rma_iov: *const RmaIov,
    pub rma_iov_count: usize,
    pub context: *mut c_void,
    pub data: u64,
}

/// `fi_ioc`: so many elements, here.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Ioc {
    pub addr: *mut c_void,
    pub count: usize,
}

/// `fi_rma_ioc`: so many elements, at a peer.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RmaIoc {
    pub addr: u64,
    pub count: usize,
    pub key: u64,
}

/// `fi_msg_atomic`: an atomic operation on a peer's memory.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct MsgAtomic {
    pub msg_iov: *const Ioc,
    pub desc: *mut *mut c_void,
    pub iov_count: usize,
    pub addr: u64,
    pub rma_iov: *const RmaIoc,
    pub rma_iov_count: usize,
    pub datatype: u32,
    pub op: u32,
    pub context: *mut c_void,
    pub data: u64,
}

/// `fi_atomic_attr`: how many elements of which size.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct AtomicAttr {
    pub count: usize,
    pub size: usize,
}

/// `fi_cq_tagged_entry`: a completion. The other formats are its beginnings.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CqEntry {
    pub op_context: *mut c_void,
    pub flags: u64,
    pub len: usize,
    pub buf: *mut c_void,
    pub data: u64,
    pub tag: u64,
}

/// `fi_cq_err_entry`, with the field that 1.20 added.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CqErrEntry {
    pub entry: CqEntry,
    pub olen: usize,
    pub err: i32,
    pub prov_errno: i32,
    pub err_data: *mut c_void,
    pub err_data_size: usize,
    /// Since 1.20.
    pub src_addr: u64,
}

/// `fi_cq_attr`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CqAttr {
    pub size: usize,
    pub flags: u64,
    pub format: u32,
    pub wait_obj: u32,
    pub signaling_vector: i32,
    pub wait_cond: u32,
    pub wait_set: *mut c_void,
}

/// `fi_cntr_attr`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CntrAttr {
    pub events: u32,
    pub wait_obj: u32,
    pub wait_set: *mut c_void,
    pub flags: u64,
}

/// `fi_eq_attr`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct EqAttr {
    pub size: usize,
    pub flags: u64,
    pub wait_obj: u32,
    pub signaling_vector: i32,
    pub wait_set: *mut c_void,
}

/// `fi_eq_err_entry`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct EqErrEntry {
    pub fid: *mut super::Fid,
    pub context: *mut c_void,
    pub data: u64,
    pub err: i32,
    pub prov_errno: i32,
    pub err_data: *mut c_void,
    pub err_data_size: usize,
}

/// `fi_av_attr`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct AvAttr {
    pub kind: u32,
    pub rx_ctx_bits: i32,
    pub count: usize,
    pub ep_per_node: usize,
    pub name: *const std::ffi::c_char,
    pub map_addr: *mut c_void,
    pub flags: u64,
}

/// `fi_mr_attr`, as far as all versions have it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct MrAttr {
    pub mr_iov: *const iovec,
    pub iov_count: usize,
    pub access: u64,
    pub offset: u64,
    pub requested_key: u64,
    pub context: *mut c_void,
    pub auth_key_size: usize,
    pub auth_key: *mut u8,
    pub iface: u32,
    pub device: u64,
}

const _: () = {
    use std::mem::offset_of;
    assert!(size_of::<Msg>() == 48 && offset_of!(Msg, data) == 40);
    assert!(size_of::<MsgTagged>() == 64 && offset_of!(MsgTagged, context) == 48);
    assert!(size_of::<MsgRma>() == 64 && offset_of!(MsgRma, rma_iov) == 32);
    assert!(size_of::<RmaIov>() == 24 && size_of::<RmaIoc>() == 24 && size_of::<Ioc>() == 16);
    assert!(size_of::<MsgAtomic>() == 72 && offset_of!(MsgAtomic, context) == 56);
    assert!(size_of::<AtomicAttr>() == 16);
    assert!(size_of::<CqEntry>() == 48 && offset_of!(CqEntry, tag) == 40);
    assert!(offset_of!(CqErrEntry, olen) == 48 && offset_of!(CqErrEntry, err) == 56);
    assert!(offset_of!(CqErrEntry, src_addr) == 80 && size_of::<CqErrEntry>() == 88);
    assert!(size_of::<CqAttr>() == 40 && size_of::<CntrAttr>() == 24 && size_of::<EqAttr>() == 32);
    assert!(size_of::<AvAttr>() == 48 && size_of::<EqErrEntry>() == 48);
    assert!(size_of::<MrAttr>() == 80 && offset_of!(MrAttr, iface) == 64);
};
