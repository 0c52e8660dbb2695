//! Operations that a counter sets off, as the application describes them.

use std::ffi::c_void;

use super::{Ioc, Msg, MsgAtomic, MsgRma, MsgTagged, Obj};

/// `fi_triggered_context`, in place of an operation's context, with the one event that counters have.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct TriggeredContext {
    pub event_type: u32,
    pub cntr: Obj,
    pub threshold: usize,
    pub reserved: *mut c_void,
}

/// `fi_deferred_work`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DeferredWork {
    pub context: [*mut c_void; 8],
    pub threshold: u64,
    pub triggering_cntr: Obj,
    pub completion_cntr: Obj,
    pub op_type: u32,
    /// What it points to goes with the type.
    pub op: *mut c_void,
}

/// `fi_op_msg`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct OpMsg {
    pub ep: Obj,
    pub msg: Msg,
    pub flags: u64,
}

/// `fi_op_tagged`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct OpTagged {
    pub ep: Obj,
    pub msg: MsgTagged,
    pub flags: u64,
}

/// `fi_op_rma`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct OpRma {
    pub ep: Obj,
    pub msg: MsgRma,
    pub flags: u64,
}

/// `fi_msg_fetch`, `fi_msg_compare`: elements here beside those of the operation.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct MsgElements {
    pub msg_iov: *const Ioc,
    pub desc: *mut *mut c_void,
    pub iov_count: usize,
}

/// `fi_op_atomic`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct OpAtomic {
    pub ep: Obj,
    pub msg: MsgAtomic,
    pub flags: u64,
}

/// `fi_op_fetch_atomic`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct OpFetchAtomic {
    pub ep: Obj,
    pub msg: MsgAtomic,
    pub fetch: MsgElements,
    pub flags: u64,
}

/// `fi_op_compare_atomic`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct OpCompareAtomic {
    pub ep: Obj,
    pub msg: MsgAtomic,
    pub fetch: MsgElements,
    pub compare: MsgElements,
    pub flags: u64,
}

/// `fi_op_cntr`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct OpCntr {
    pub cntr: Obj,
    pub value: u64,
}

/// `fi_alias`: another name of an object, with flags of its own.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Alias {
    pub fid: *mut Obj,
    pub flags: u64,
}

const _: () = {
    use std::mem::offset_of;
    assert!(size_of::<TriggeredContext>() == 32 && offset_of!(TriggeredContext, threshold) == 16);
    assert!(size_of::<DeferredWork>() == 104 && offset_of!(DeferredWork, op) == 96);
    assert!(size_of::<OpMsg>() == 64 && size_of::<OpTagged>() == 80 && size_of::<OpRma>() == 80);
    assert!(size_of::<OpAtomic>() == 88 && size_of::<OpFetchAtomic>() == 112);
    assert!(size_of::<OpCompareAtomic>() == 136 && offset_of!(OpCompareAtomic, compare) == 104);
};
