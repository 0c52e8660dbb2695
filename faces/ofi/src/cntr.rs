//! Counters: how many operations of some kinds succeeded, how many failed.

use std::ffi::{c_int, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::abi::{CntrAttr, CntrOps, Fid, Obj, Ops, Out, PlainFid, class, code, kind};
use crate::common;
use crate::cq::Reader;
use crate::domain::Domain;
use crate::object::{self, Head, Object};
use crate::ports::Ports;

/// A counter.
#[repr(C)]
pub(crate) struct Cntr {
    head: Head<PlainFid<CntrOps>>,
    domain: Arc<Domain>,
    value: AtomicU64,
    errors: AtomicU64,
    /// Both, as they were read last: who sleeps on the descriptor knows of so many.
    read: [AtomicU64; 2],
    /// The lowest number that something waits for to be set off.
    threshold: AtomicU64,
    /// Endpoints that count with it: reading it gives them time.
    pub(crate) ports: Ports,
}

// SAFETY: `repr(C)`, and the head, which begins with a `Fid`, is first.
unsafe impl Object for Cntr {}

static OPS: Ops = Ops { close, control, ..common::OPS };
static CNTR_OPS: CntrOps =
    CntrOps { size: size_of::<CntrOps>(), read, readerr, add, set, wait, adderr, seterr };

/// `fi_cntr_open`.
///
/// # Safety
/// `out` must be valid for a write.
pub(crate) unsafe fn open(
    domain: Arc<Domain>,
    attr: Option<&CntrAttr>,
    out: Out,
    context: *mut c_void,
) -> c_int {
    let wait = attr.map_or(kind::WAIT_NONE, |attr| attr.wait_obj);
    let ports = match Ports::to_wait_by(wait) {
        Ok(ports) => ports,
        Err(code) => return code,
    };
    let fid = Fid { fclass: class::CNTR, context, ops: &raw const OPS };
    let head = Head::new(PlainFid { fid, ops: &raw const CNTR_OPS });
    let (value, errors, read) = Default::default();
    let threshold = AtomicU64::new(u64::MAX);
    let cntr = Cntr { head, domain, value, errors, read, threshold, ports };
    // SAFETY: says the caller.
    unsafe { object::hand_out(Arc::new(cntr), out) }
}

impl Cntr {
    /// An operation ended. Who sees the count sees what the operation did; who sleeps on the descriptor has seen it, or is woken
    /// (`SeqCst`: the count before the look at who sleeps).
    pub(crate) fn count(&self, is_success: bool) {
        let number = if is_success { &self.value } else { &self.errors };
        number.fetch_add(1, Ordering::SeqCst);
        self.on_change();
    }

    pub(crate) fn add(&self, value: u64) {
        self.value.fetch_add(value, Ordering::SeqCst);
        self.on_change();
    }

    pub(crate) fn set(&self, value: u64) {
        self.value.store(value, Ordering::SeqCst);
        self.on_change();
    }

    fn on_change(&self) {
        if self.has_reached(self.threshold.load(Ordering::SeqCst)) {
            self.domain.works.mark();
        }
        self.ports.ring();
    }

    /// Whether it has come to a threshold: successes and failures together, as libfabric says.
    pub(crate) fn has_reached(&self, threshold: u64) -> bool {
        let failed = self.errors.load(Ordering::SeqCst);
        self.value.load(Ordering::SeqCst).saturating_add(failed) >= threshold
    }

    /// Something waits for it to come to a threshold. True: it has. (`SeqCst`: the threshold before the look at the numbers, as who counts
    /// looks at the threshold behind them: one of both sees the other.)
    pub(crate) fn await_threshold(&self, threshold: u64) -> bool {
        self.threshold.fetch_min(threshold, Ordering::SeqCst);
        self.has_reached(threshold)
    }

    /// What waited for it does no more; who waits on says so after this.
    pub(crate) fn await_nothing(&self) {
        self.threshold.store(u64::MAX, Ordering::SeqCst);
    }

    /// The numbers are those that were read last, even after a look; the descriptor tells of what comes from now on.
    pub(crate) fn may_sleep(&self) -> bool {
        self.look();
        let is_known = |(now, read): (&AtomicU64, &AtomicU64)| {
            now.load(Ordering::SeqCst) == read.load(Ordering::Acquire)
        };
        let are_known = || [&self.value, &self.errors].into_iter().zip(&self.read).all(is_known);
        are_known() && self.ports.arm() && are_known()
    }

    /// Gives time to the endpoints that count with it. To one that no endpoint is bound to deferred work counts, of any endpoint.
    fn look(&self) {
        let ports = if self.ports.are_there() { &self.ports } else { &self.domain.works.ports };
        ports.progress(&mut Reader::nobody());
        self.domain.works.run();
    }

    /// Reads one of the numbers, after a look.
    fn read(&self, number: &AtomicU64, read: &AtomicU64) -> u64 {
        self.look();
        let now = number.load(Ordering::Acquire);
        read.store(now, Ordering::Release);
        now
    }

    fn wait(&self, threshold: u64, longest: Option<Duration>) -> c_int {
        let until = longest.map(|longest| Instant::now() + longest);
        let errors = self.errors.load(Ordering::Acquire);
        let is_reached = || self.value.load(Ordering::Acquire) >= threshold;
        let has_failed = || self.errors.load(Ordering::Acquire) != errors;
        loop {
            self.look();
            if is_reached() {
                return 0;
            }
            if has_failed() {
                return -code::EAVAIL;
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return -libc::ETIMEDOUT;
            }
            let mut all = self.ports.completions();
            if all.is_empty() {
                all = self.domain.works.ports.completions();
            }
            Ports::wait_for(&all, left, || is_reached() || has_failed());
        }
    }
}

unsafe extern "C" fn close(cntr: Obj) -> c_int {
    // SAFETY: the table is that of counters.
    unsafe { object::close::<Cntr>(cntr) }
}

unsafe extern "C" fn control(cntr: Obj, what: c_int, argument: *mut c_void) -> c_int {
    // SAFETY: a counter of ours, and an argument that goes with the command.
    unsafe { object::object::<Cntr>(cntr).ports.control(what, argument) }
}

unsafe extern "C" fn read(cntr: Obj) -> u64 {
    // SAFETY: a counter of ours, here and in all functions below.
    let cntr = unsafe { object::object::<Cntr>(cntr) };
    cntr.read(&cntr.value, &cntr.read[0])
}

unsafe extern "C" fn readerr(cntr: Obj) -> u64 {
    // SAFETY: as for `read`.
    let cntr = unsafe { object::object::<Cntr>(cntr) };
    cntr.read(&cntr.errors, &cntr.read[1])
}

unsafe extern "C" fn add(cntr: Obj, value: u64) -> c_int {
    // SAFETY: as for `read`.
    let cntr = unsafe { object::object::<Cntr>(cntr) };
    cntr.add(value);
    cntr.domain.works.run();
    0
}

unsafe extern "C" fn set(cntr: Obj, value: u64) -> c_int {
    // SAFETY: as for `read`.
    let cntr = unsafe { object::object::<Cntr>(cntr) };
    cntr.set(value);
    cntr.domain.works.run();
    0
}

unsafe extern "C" fn adderr(cntr: Obj, value: u64) -> c_int {
    // SAFETY: as for `read`.
    let cntr = unsafe { object::object::<Cntr>(cntr) };
    cntr.errors.fetch_add(value, Ordering::SeqCst);
    cntr.on_change();
    cntr.domain.works.run();
    0
}

unsafe extern "C" fn seterr(cntr: Obj, value: u64) -> c_int {
    // SAFETY: as for `read`.
    let cntr = unsafe { object::object::<Cntr>(cntr) };
    cntr.errors.store(value, Ordering::SeqCst);
    cntr.on_change();
    cntr.domain.works.run();
    0
}

unsafe extern "C" fn wait(cntr: Obj, threshold: u64, timeout_ms: c_int) -> c_int {
    // SAFETY: as for `read`. Who waits has a count of the counter's, which cannot be closed meanwhile.
    let cntr = unsafe { object::shared::<Cntr>(cntr) };
    cntr.wait(threshold, u64::try_from(timeout_ms).ok().map(Duration::from_millis))
}
