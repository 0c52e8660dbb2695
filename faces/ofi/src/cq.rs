//! Completion queues.
//!
//! Endpoints put what ended here (`deliver`), in the order in which it ended; readers take it out in the format they chose. An error
//! is an entry like others, but `read` stops before it: the reader has to fetch it with `readerr`. The queue grows with what the
//! application has posted and never loses an entry, however short it was asked to be. Entries that peers make, by writes with data and
//! by messages to a buffer for many, push back on them when nobody reads (`Port::mind_crowd`).
//!
//! What ends while its reader gives time to the endpoints does not go through the queue: it is written where the reader wants
//! it ([`Reader`]), and an empty queue costs a look, not a lock.

use std::collections::VecDeque;
use std::ffi::{c_char, c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use packhorse::raw::ticks;

use crate::abi::{
    ADDR_NOTAVAIL, CqAttr, CqEntry, CqErrEntry, CqOps, Fid, Obj, Ops, Out, PlainFid, class, code,
    kind, version,
};
use crate::common;
use crate::domain::Domain;
use crate::errors;
use crate::fresh::Fresh;
use crate::object::{self, Head, Object};
use crate::ports::Ports;

/// Entries a queue has room for without allocating, if nobody says.
const QUEUE_LEN: usize = 256;
/// With so many entries of peers' making in a queue peers wait.
const UNASKED_COUNT_MAX: usize = 1 << 16;

/// An operation that ended. Addresses of the application as numbers: they are only handed back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Done {
    pub(crate) context: usize,
    pub(crate) flags: u64,
    pub(crate) len: usize,
    pub(crate) buf: usize,
    pub(crate) data: u64,
    pub(crate) tag: u64,
    /// The peer's number in the address vector.
    pub(crate) source: Option<u64>,
    /// Why it failed, if it did.
    pub(crate) trouble: Option<Trouble>,
    /// A peer's doing: no operation of the application ends with it.
    pub(crate) is_unasked: bool,
}

/// Why an operation failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Trouble {
    /// libfabric's code.
    pub(crate) code: c_int,
    /// Our own, which `strerror` explains.
    pub(crate) reason: c_int,
    /// Bytes that found no room.
    pub(crate) excess_len: usize,
}

impl Done {
    fn entry(&self) -> CqEntry {
        CqEntry {
            op_context: self.context as *mut c_void,
            flags: self.flags,
            len: self.len,
            buf: self.buf as *mut c_void,
            data: self.data,
            tag: self.tag,
        }
    }
}

/// So long after a read that found something, in ticks of which a nanosecond has two to five, another is of the same call of the MPI: Open MPI 4.1 comes
/// back after 10 to 100 ns. With other MPIs it is the first read of the next call (400 ns and more), and that one must find what came before
/// what was read: `MPI_Win_test` behind a barrier said that nothing had come.
const BEHIND_READ_TICKS: u64 = 256;
/// The same behind a peek: MPIs come back after 50 to 400 ns, to read that it found nothing and then once more.
const BEHIND_PEEK_TICKS: u64 = 1024;

/// A completion queue.
#[repr(C)]
pub(crate) struct Cq {
    head: Head<PlainFid<CqOps>>,
    domain: Arc<Domain>,
    /// Bytes per entry: the format.
    entry_len: usize,
    can_wait: bool,
    done: Mutex<VecDeque<Done>>,
    /// Entries in `done`; written with its lock, read without.
    done_count: AtomicUsize,
    /// Of these, those that peers made.
    unasked_count: AtomicUsize,
    /// Somebody called `fi_cq_signal`: the next that waits, or waits now, does not.
    is_signalled: AtomicBool,
    /// The links were asked a moment ago.
    fresh: Fresh,
    /// Endpoints that tell it of their ends: reading it gives them time.
    pub(crate) ports: Ports,
}

// SAFETY: `repr(C)`, and the head, which begins with a `Fid`, is first.
unsafe impl Object for Cq {}

static OPS: Ops = Ops { close, control, ..common::OPS };
static CQ_OPS: CqOps =
    CqOps { size: size_of::<CqOps>(), read, readfrom, readerr, sread, sreadfrom, signal, strerror };

/// `fi_cq_open`.
///
/// # Safety
/// `out` must be valid for a write.
pub(crate) unsafe fn open(
    domain: Arc<Domain>,
    attr: Option<&mut CqAttr>,
    out: Out,
    context: *mut c_void,
) -> c_int {
    let (mut format, mut wait, mut size) = (kind::CQ_FORMAT_CONTEXT, kind::WAIT_NONE, 0);
    if let Some(attr) = attr {
        if attr.format == 0 {
            attr.format = kind::CQ_FORMAT_CONTEXT; // the application may leave the choice, and learns it
        }
        (format, wait, size) = (attr.format, attr.wait_obj, attr.size);
    }
    let entry_len = match format {
        kind::CQ_FORMAT_CONTEXT => 8,
        kind::CQ_FORMAT_MSG => 24,
        kind::CQ_FORMAT_DATA => 40,
        kind::CQ_FORMAT_TAGGED => 48,
        _ => return -libc::ENOSYS,
    };
    let ports = match Ports::to_wait_by(wait) {
        Ok(ports) => ports,
        Err(code) => return code,
    };
    let fid = Fid { fclass: class::CQ, context, ops: &raw const OPS };
    let cq = Cq {
        head: Head::new(PlainFid { fid, ops: &raw const CQ_OPS }),
        domain,
        entry_len,
        can_wait: wait != kind::WAIT_NONE,
        done: Mutex::new(VecDeque::with_capacity(size.clamp(QUEUE_LEN, 1 << 16))),
        done_count: AtomicUsize::new(0),
        unasked_count: AtomicUsize::new(0),
        is_signalled: AtomicBool::new(false),
        fresh: Fresh::default(),
        ports,
    };
    // SAFETY: says the caller.
    unsafe { object::hand_out(Arc::new(cq), out) }
}

/// Where a reader wants what ended, and how much of it is there already.
pub(crate) struct Reader<'a> {
    /// Of which queue; nobody reads if there is none.
    cq: Option<&'a Cq>,
    out: *mut c_void,
    /// How many entries there is room for.
    count_max: usize,
    sources: *mut u64,
    taken: usize,
}

impl<'a> Reader<'a> {
    /// For who gives time to endpoints and reads nothing.
    pub(crate) fn nobody() -> Self {
        let (out, sources) = (std::ptr::null_mut(), std::ptr::null_mut());
        Self { cq: None, out, count_max: 0, sources, taken: 0 }
    }

    /// # Safety
    /// `out` must have room for `count_max` entries of the queue's format, `sources` for as many numbers, or be null.
    unsafe fn new(cq: &'a Cq, out: *mut c_void, count_max: usize, sources: *mut u64) -> Self {
        Self { cq: Some(cq), out, count_max, sources, taken: 0 }
    }

    /// Who gives time to an endpoint asks this when he has the right to: what another put into the queue meanwhile comes first.
    pub(crate) fn mind_order(&mut self) {
        if self.cq.is_some_and(|cq| !cq.is_empty()) {
            self.stop();
        }
    }

    /// All that comes now goes into the queue.
    fn stop(&mut self) {
        self.count_max = self.taken;
    }

    /// Takes it, if it is for this reader, who has room and is not to be told of trouble first. False: into its queue with it.
    #[inline]
    pub(crate) fn take(&mut self, cq: &Cq, done: &Done) -> bool {
        if !self.cq.is_some_and(|own| std::ptr::eq(own, cq)) {
            return false;
        }
        if self.taken == self.count_max || done.trouble.is_some() {
            self.stop();
            return false;
        }
        self.put(cq.entry_len, done);
        true
    }

    #[inline]
    fn put(&mut self, entry_len: usize, done: &Done) {
        debug_assert!(self.taken < self.count_max);
        let entry = done.entry();
        // SAFETY: there is room for `count_max` entries, of which this is one; a shorter format is a beginning of the longest.
        unsafe {
            let to = self.out.cast::<u8>().add(self.taken * entry_len);
            if entry_len == size_of::<CqEntry>() {
                to.cast::<CqEntry>().write_unaligned(entry); // what MPI libraries ask for, in a few plain moves
            } else {
                std::ptr::copy_nonoverlapping((&raw const entry).cast(), to, entry_len);
            }
            if !self.sources.is_null() {
                self.sources.add(self.taken).write(done.source.unwrap_or(ADDR_NOTAVAIL));
            }
        }
        self.taken += 1;
    }
}

impl Cq {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Done>> {
        self.done.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nothing waits to be read. A look without the lock: what another puts there just now may be missed, by a reader that asks
    /// again.
    #[inline]
    fn is_empty(&self) -> bool {
        self.done_count.load(Ordering::Acquire) == 0
    }

    /// An operation ended.
    pub(crate) fn deliver(&self, done: Done) {
        let mut all = self.lock();
        all.push_back(done);
        self.done_count.store(all.len(), Ordering::Release);
        if done.is_unasked {
            self.unasked_count.fetch_add(1, Ordering::Relaxed);
        }
        drop(all);
        self.ports.ring();
    }

    /// Peers have filled it, and nobody reads: they are to wait.
    pub(crate) fn is_crowded(&self) -> bool {
        self.unasked_count.load(Ordering::Relaxed) >= UNASKED_COUNT_MAX
    }

    /// The next one, if it is of the wanted kind.
    fn pop_if(
        &self,
        all: &mut VecDeque<Done>,
        is_wanted: impl FnOnce(&Done) -> bool,
    ) -> Option<Done> {
        let next = if is_wanted(all.front()?) { all.pop_front() } else { None };
        self.done_count.store(all.len(), Ordering::Release);
        if next.is_some_and(|next| next.is_unasked) {
            self.unasked_count.fetch_sub(1, Ordering::Relaxed);
        }
        next
    }

    /// Nothing to be read, even after a look; the descriptor tells of what comes from now on.
    pub(crate) fn may_sleep(&self) -> bool {
        self.ports.progress(&mut Reader::nobody());
        self.is_empty() && self.ports.arm() && self.lock().is_empty()
    }

    /// Takes what waits, without a look at the network.
    fn take(&self, reader: &mut Reader<'_>) -> isize {
        if self.is_empty() {
            return -(libc::EAGAIN as isize);
        }
        let mut done = self.lock();
        if done.front().is_some_and(|first| first.trouble.is_some()) {
            return -(code::EAVAIL as isize);
        }
        while reader.taken < reader.count_max {
            let next = self.pop_if(&mut done, |next| next.trouble.is_none());
            let Some(next) = next else { break };
            reader.put(self.entry_len, &next);
        }
        if reader.taken > 0 { reader.taken as isize } else { -(libc::EAGAIN as isize) }
    }

    /// The links were asked by a peek.
    pub(crate) fn on_peeked(&self) {
        self.fresh.begin(ticks(), BEHIND_PEEK_TICKS);
    }

    /// Takes what there is, after a look if that is nothing.
    ///
    /// # Safety
    /// `out` must have room for `count` entries of the queue's format, `sources` for as many numbers, or be null.
    unsafe fn read(&self, out: *mut c_void, count: usize, sources: *mut u64) -> isize {
        // Without a place it may be read for none: that gives time to the endpoints.
        if out.is_null() && count > 0 {
            return -(libc::EINVAL as isize);
        }
        // SAFETY: handed on.
        let mut reader = unsafe { Reader::new(self, out, count, sources) };
        let taken = self.take(&mut reader);
        if taken != -(libc::EAGAIN as isize) || self.fresh.is_fresh(ticks) {
            return taken;
        }
        self.ports.progress(&mut reader);
        let taken = match reader.taken {
            0 => {
                reader.count_max = count; // it was stopped by what is in the queue now
                self.take(&mut reader)
            }
            some => some as isize,
        };
        if taken > 0 {
            self.fresh.begin(ticks(), BEHIND_READ_TICKS);
        }
        taken
    }

    /// Takes what there is, and waits for it if that is nothing.
    ///
    /// # Safety
    /// As for `read`.
    unsafe fn read_waiting(
        &self,
        out: *mut c_void,
        count: usize,
        sources: *mut u64,
        timeout_ms: c_int,
    ) -> isize {
        if !self.can_wait {
            return -(libc::ENOSYS as isize);
        }
        let longest = u64::try_from(timeout_ms).ok().map(Duration::from_millis);
        let until = longest.map(|longest| Instant::now() + longest);
        self.fresh.end();
        loop {
            // SAFETY: handed on.
            let taken = unsafe { self.read(out, count, sources) };
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            let is_over = left.is_some_and(|left| left.is_zero());
            let is_signalled = self.is_signalled.swap(false, Ordering::AcqRel);
            if taken != -(libc::EAGAIN as isize) || is_over || is_signalled {
                return taken;
            }
            self.ports.wait(left, || !self.is_empty());
        }
    }
}

unsafe extern "C" fn close(cq: Obj) -> c_int {
    // SAFETY: the table is that of completion queues.
    unsafe { object::close::<Cq>(cq) }
}

unsafe extern "C" fn control(cq: Obj, what: c_int, argument: *mut c_void) -> c_int {
    // SAFETY: a completion queue of ours, and an argument that goes with the command.
    unsafe { object::object::<Cq>(cq).ports.control(what, argument) }
}

unsafe extern "C" fn read(cq: Obj, out: *mut c_void, count: usize) -> isize {
    // SAFETY: a completion queue of ours, and room for `count` entries, here and in the functions below.
    unsafe { object::object::<Cq>(cq).read(out, count, std::ptr::null_mut()) }
}

unsafe extern "C" fn readfrom(cq: Obj, out: *mut c_void, count: usize, sources: *mut u64) -> isize {
    // SAFETY: as for `read`.
    unsafe { object::object::<Cq>(cq).read(out, count, sources) }
}

unsafe extern "C" fn sread(
    cq: Obj,
    out: *mut c_void,
    count: usize,
    _condition: *const c_void,
    timeout_ms: c_int,
) -> isize {
    // SAFETY: as for `read`. Who waits has a count of the queue's, which cannot be closed meanwhile.
    unsafe { object::shared::<Cq>(cq).read_waiting(out, count, std::ptr::null_mut(), timeout_ms) }
}

unsafe extern "C" fn sreadfrom(
    cq: Obj,
    out: *mut c_void,
    count: usize,
    sources: *mut u64,
    _condition: *const c_void,
    timeout_ms: c_int,
) -> isize {
    // SAFETY: as for `sread`.
    unsafe { object::shared::<Cq>(cq).read_waiting(out, count, sources, timeout_ms) }
}

unsafe extern "C" fn readerr(cq: Obj, out: *mut CqErrEntry, _flags: u64) -> isize {
    if out.is_null() {
        return -(libc::EINVAL as isize);
    }
    // SAFETY: a completion queue of ours.
    let cq = unsafe { object::object::<Cq>(cq) };
    let Some(failed) = cq.pop_if(&mut cq.lock(), |next| next.trouble.is_some()) else {
        return -(libc::EAGAIN as isize);
    };
    let Some(trouble) = failed.trouble else { return -(libc::EAGAIN as isize) };
    let api = cq.domain.api_version();
    // SAFETY: the application's entry. It is as long as its version of the interface says: what came later is written only
    // for those that know of it.
    unsafe {
        (&raw mut (*out).entry).write(failed.entry());
        (&raw mut (*out).olen).write(trouble.excess_len);
        (&raw mut (*out).err).write(trouble.code);
        (&raw mut (*out).prov_errno).write(trouble.reason);
        if api >= version(1, 5) {
            (&raw mut (*out).err_data_size).write(0);
        }
        if api >= version(1, 20) {
            (&raw mut (*out).src_addr).write(failed.source.unwrap_or(ADDR_NOTAVAIL));
        }
    }
    1
}

unsafe extern "C" fn signal(cq: Obj) -> c_int {
    // SAFETY: a completion queue of ours.
    unsafe { object::object::<Cq>(cq) }.is_signalled.store(true, Ordering::Release);
    0
}

pub(crate) unsafe extern "C" fn strerror(
    _cq: Obj,
    reason: c_int,
    _data: *const c_void,
    out: *mut c_char,
    len: usize,
) -> *const c_char {
    let text = errors::explanation(reason);
    if !out.is_null() && len > 0 {
        let count = text.to_bytes().len().min(len - 1);
        // SAFETY: the application's buffer has `len` bytes, of which `count` and the end are written.
        unsafe {
            std::ptr::copy_nonoverlapping(text.as_ptr(), out, count);
            out.add(count).write(0);
        }
    }
    text.as_ptr()
}
