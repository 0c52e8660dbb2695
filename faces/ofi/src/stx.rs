//! Shared transmit contexts: a name that several endpoints are bound to. Each endpoint has an engine of its own, which sends for it, so
//! nothing is shared but the name; what libfabric promises of them holds all the same.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use crate::abi::{EpOps, Fid, Obj, Ops, Out, PlainFid, class};
use crate::common;
use crate::domain::Domain;
use crate::object::{self, Head, Object};

/// A shared transmit context.
#[repr(C)]
pub(crate) struct Stx {
    head: Head<PlainFid<EpOps>>,
    _domain: Arc<Domain>,
}

// SAFETY: `repr(C)`, and the head, which begins with a `Fid`, is first.
unsafe impl Object for Stx {}

static OPS: Ops = Ops { close, ..common::OPS };

/// `fi_stx_context`.
///
/// # Safety
/// `out` must be valid for a write.
pub(crate) unsafe fn open(domain: Arc<Domain>, out: Out, context: *mut c_void) -> c_int {
    let fid = Fid { fclass: class::STX_CTX, context, ops: &raw const OPS };
    let head = Head::new(PlainFid { fid, ops: &raw const crate::ep::NO_EP_OPS });
    // SAFETY: says the caller.
    unsafe { object::hand_out(Arc::new(Stx { head, _domain: domain }), out) }
}

/// Busy while an endpoint is bound to it.
unsafe extern "C" fn close(stx: Obj) -> c_int {
    // SAFETY: the table is that of shared contexts.
    unsafe { object::close::<Stx>(stx) }
}
