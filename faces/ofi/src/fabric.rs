//! The fabric: the network as a whole. It opens domains and event queues.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use crate::abi::{
    EqAttr, FabricAttr, FabricFid, FabricOps, Fid, Info, Obj, Ops, Out, absent, class,
};
use crate::common;
use crate::cq::Cq;
use crate::domain::Domain;
use crate::eq;
use crate::object::{self, Head, Object};
use crate::refusals;

/// A fabric.
#[repr(C)]
pub(crate) struct Fabric {
    head: Head<FabricFid>,
}

// SAFETY: `repr(C)`, and the head, which begins with a `Fid`, is first.
unsafe impl Object for Fabric {}

impl Fabric {
    /// The version of the interface the application was written for; the library writes it after opening.
    pub(crate) fn api_version(&self) -> u32 {
        // SAFETY: the library writes it before it gives the fabric to the application, and never again.
        unsafe { (*self.head.get()).api_version }
    }
}

static OPS: Ops = Ops { close, ..common::OPS };
static FABRIC_OPS: FabricOps = FabricOps {
    size: size_of::<FabricOps>(),
    domain,
    passive_ep,
    eq_open,
    wait_open,
    trywait,
    domain2,
};

absent! {
    passive_ep(Obj, *mut Info, Out, *mut c_void) -> c_int;
    wait_open(Obj, *mut c_void, Out) -> c_int;
}

/// The provider's `fabric`.
pub(crate) unsafe extern "C" fn open(
    attr: *mut FabricAttr,
    out: Out,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the library hands on the application's attributes; null is looked at.
    let Some(attr) = (unsafe { attr.as_ref() }) else { return -libc::EINVAL };
    refusals::on_opened();
    let fid = Fid { fclass: class::FABRIC, context, ops: &raw const OPS };
    let head = FabricFid { fid, ops: &raw const FABRIC_OPS, api_version: attr.api_version };
    // SAFETY: `out` is the library's, for the object.
    unsafe { object::hand_out(Arc::new(Fabric { head: Head::new(head) }), out) }
}

unsafe extern "C" fn close(fabric: Obj) -> c_int {
    // SAFETY: the table is that of fabrics, and closing is the last the application does with it.
    unsafe { object::close::<Fabric>(fabric) }
}

unsafe extern "C" fn domain(fabric: Obj, info: *mut Info, out: Out, context: *mut c_void) -> c_int {
    // SAFETY: a fabric of ours, and the application's info, which is looked at during the call only.
    unsafe {
        let Some(info) = info.as_ref() else { return -libc::EINVAL };
        object::hand_out(Domain::open(object::shared(fabric), info, context), out)
    }
}

unsafe extern "C" fn domain2(
    fabric: Obj,
    info: *mut Info,
    out: Out,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    if flags != 0 {
        return -crate::abi::code::EBADFLAGS;
    }
    // SAFETY: as for `domain`.
    unsafe { domain(fabric, info, out, context) }
}

unsafe extern "C" fn eq_open(
    fabric: Obj,
    attr: *mut EqAttr,
    out: Out,
    context: *mut c_void,
) -> c_int {
    // SAFETY: a fabric of ours; attributes null or valid; `out` for the object.
    unsafe { eq::open(object::shared(fabric), attr.as_ref(), out, context) }
}

/// Whether one may sleep on the descriptors of these objects: not while there is something to be read.
unsafe extern "C" fn trywait(_fabric: Obj, fids: *mut Obj, count: c_int) -> c_int {
    let Ok(count) = usize::try_from(count) else { return -libc::EINVAL };
    if fids.is_null() && count > 0 {
        return -libc::EINVAL;
    }
    for index in 0..count {
        // SAFETY: the application gives as many objects as it says, all of this provider.
        let is_quiet = unsafe {
            let fid = *fids.add(index);
            match common::class_of(fid) {
                Some(class::CQ) => object::object::<Cq>(fid).may_sleep(),
                Some(class::CNTR) => object::object::<crate::cntr::Cntr>(fid).may_sleep(),
                Some(class::EQ) => object::object::<eq::Eq>(fid).may_sleep(),
                _ => return -libc::EINVAL,
            }
        };
        if !is_quiet {
            return -libc::EAGAIN;
        }
    }
    0
}
