//! Registered memory. Until peers can read and write it there is nothing to remember but its key.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use crate::abi::{Fid, MrAttr, MrFid, MrOps, Obj, Ops, Out, class, iovec};
use crate::common;
use crate::domain::Domain;
use crate::log::{Level, Subsystem, say};
use crate::object::{self, Head, Object};

/// A registration.
#[repr(C)]
struct Mr {
    head: Head<MrFid>,
    _domain: Arc<Domain>,
}

// SAFETY: `repr(C)`, and the head, which begins with a `Fid`, is first.
unsafe impl Object for Mr {}

static OPS: Ops = Ops { close, bind, control, ..common::OPS };
pub(crate) static MR_OPS: MrOps = MrOps { size: size_of::<MrOps>(), reg, regv, regattr };

/// # Safety
/// `domain` must be a domain of ours, `out` valid for a write.
unsafe fn open(domain: Obj, key: u64, out: Out, context: *mut c_void) -> c_int {
    let fid = Fid { fclass: class::MR, context, ops: &raw const OPS };
    let head = Head::new(MrFid { fid, mem_desc: std::ptr::null_mut(), key });
    // SAFETY: says the caller.
    unsafe { object::hand_out(Arc::new(Mr { head, _domain: object::shared(domain) }), out) }
}

unsafe extern "C" fn reg(
    domain: Obj,
    _buf: *const c_void,
    _len: usize,
    _access: u64,
    _offset: u64,
    key: u64,
    _flags: u64,
    out: Out,
    context: *mut c_void,
) -> c_int {
    // SAFETY: a domain of ours, and a place for the object.
    unsafe { open(domain, key, out, context) }
}

unsafe extern "C" fn regv(
    domain: Obj,
    _pieces: *const iovec,
    _count: usize,
    _access: u64,
    _offset: u64,
    key: u64,
    _flags: u64,
    out: Out,
    context: *mut c_void,
) -> c_int {
    // SAFETY: as for `reg`.
    unsafe { open(domain, key, out, context) }
}

unsafe extern "C" fn regattr(domain: Obj, attr: *const MrAttr, _flags: u64, out: Out) -> c_int {
    // SAFETY: a domain of ours; the application's attributes; a place for the object.
    unsafe {
        let attr = &*attr;
        if attr.iface != 0 {
            say(Level::Warn, Subsystem::Domain, || {
                "memory of a device cannot be registered: copy it to memory of the host first"
                    .into()
            });
            return -libc::ENOSYS;
        }
        open(domain, attr.requested_key, out, attr.context)
    }
}

unsafe extern "C" fn close(mr: Obj) -> c_int {
    // SAFETY: the table is that of registrations.
    unsafe { object::close::<Mr>(mr) }
}

/// Registrations are of the whole domain: binding one to an endpoint or counter changes nothing.
unsafe extern "C" fn bind(_mr: Obj, _other: Obj, _flags: u64) -> c_int {
    0
}

unsafe extern "C" fn control(_mr: Obj, what: c_int, _argument: *mut c_void) -> c_int {
    if what == crate::abi::command::ENABLE { 0 } else { -libc::ENOSYS }
}
