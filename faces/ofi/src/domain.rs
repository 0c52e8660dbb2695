//! The domain: what endpoints, queues, address vectors and registered memory belong to.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use crate::abi::{
    AvAttr, CntrAttr, CqAttr, DomainFid, DomainOps, Fid, Info, Obj, Ops, Out, RxAttr, TxAttr,
    absent, class, code,
};
use crate::fabric::Fabric;
use crate::form::Form;
use crate::object::{self, Head, Object};
use crate::works::Works;
use crate::{atomic, av, cntr, common, cq, ep, mr, stx, trigger};

/// A domain.
#[repr(C)]
pub(crate) struct Domain {
    head: Head<DomainFid>,
    fabric: Arc<Fabric>,
    /// Memory that peers may use.
    pub(crate) registry: mr::Registry,
    /// What waits for counters.
    pub(crate) works: Arc<Works>,
    /// How its addresses look.
    pub(crate) form: Form,
}

// SAFETY: `repr(C)`, and the head, which begins with a `Fid`, is first.
unsafe impl Object for Domain {}

static OPS: Ops = Ops { close, bind, control, ..common::OPS };
static DOMAIN_OPS: DomainOps = DomainOps {
    size: size_of::<DomainOps>(),
    av_open,
    cq_open,
    endpoint,
    scalable_ep,
    cntr_open,
    poll_open,
    stx_ctx,
    srx_ctx,
    query_atomic: atomic::query,
    query_collective,
    endpoint2,
};

absent! {
    scalable_ep(Obj, *mut Info, Out, *mut c_void) -> c_int;
    poll_open(Obj, *mut c_void, Out) -> c_int;
    srx_ctx(Obj, *mut RxAttr, Out, *mut c_void) -> c_int;
    query_collective(Obj, c_int, *mut c_void, u64) -> c_int;
}

impl Domain {
    pub(crate) fn open(fabric: Arc<Fabric>, info: &Info, context: *mut c_void) -> Arc<Self> {
        let fid = Fid { fclass: class::DOMAIN, context, ops: &raw const OPS };
        let head = DomainFid { fid, ops: &raw const DOMAIN_OPS, mr: &raw const mr::MR_OPS };
        let form = Form::of(info.addr_format).unwrap_or_default();
        let (registry, works) = Default::default();
        Arc::new(Self { head: Head::new(head), fabric, registry, works, form })
    }

    /// The version of the interface the application was written for.
    pub(crate) fn api_version(&self) -> u32 {
        self.fabric.api_version()
    }
}

unsafe extern "C" fn close(domain: Obj) -> c_int {
    // SAFETY: the table is that of domains.
    unsafe { object::close::<Domain>(domain) }
}

unsafe extern "C" fn control(domain: Obj, what: c_int, argument: *mut c_void) -> c_int {
    // SAFETY: a domain of ours, and an argument that goes with the command.
    unsafe { trigger::control(object::object(domain), what, argument) }
}

/// An event queue may be bound; there are no events of domains.
unsafe extern "C" fn bind(_domain: Obj, other: Obj, _flags: u64) -> c_int {
    // SAFETY: an object of this provider.
    if unsafe { common::class_of(other) } == Some(class::EQ) { 0 } else { -libc::EINVAL }
}

unsafe extern "C" fn av_open(
    domain: Obj,
    attr: *mut AvAttr,
    out: Out,
    context: *mut c_void,
) -> c_int {
    // SAFETY: a domain of ours; attributes null or valid; `out` for the object.
    unsafe { av::open(object::shared(domain), attr.as_mut(), out, context) }
}

unsafe extern "C" fn cq_open(
    domain: Obj,
    attr: *mut CqAttr,
    out: Out,
    context: *mut c_void,
) -> c_int {
    // SAFETY: as for `av_open`.
    unsafe { cq::open(object::shared(domain), attr.as_mut(), out, context) }
}

unsafe extern "C" fn cntr_open(
    domain: Obj,
    attr: *mut CntrAttr,
    out: Out,
    context: *mut c_void,
) -> c_int {
    // SAFETY: as for `av_open`.
    unsafe { cntr::open(object::shared(domain), attr.as_ref(), out, context) }
}

unsafe extern "C" fn stx_ctx(
    domain: Obj,
    _attr: *mut TxAttr,
    out: Out,
    context: *mut c_void,
) -> c_int {
    // SAFETY: as for `av_open`.
    unsafe { stx::open(object::shared(domain), out, context) }
}

unsafe extern "C" fn endpoint(
    domain: Obj,
    info: *mut Info,
    out: Out,
    context: *mut c_void,
) -> c_int {
    // SAFETY: as for `av_open`; the info is looked at during the call only.
    unsafe {
        let Some(info) = info.as_ref() else { return -libc::EINVAL };
        ep::open(object::shared(domain), info, out, context)
    }
}

unsafe extern "C" fn endpoint2(
    domain: Obj,
    info: *mut Info,
    out: Out,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    if flags != 0 {
        return -code::EBADFLAGS;
    }
    // SAFETY: as for `endpoint`.
    unsafe { endpoint(domain, info, out, context) }
}
