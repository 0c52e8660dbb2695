//! Event queues. Endpoints without connections have no events; address vectors that were asked to tell of insertions have (`av`), and
//! applications may write events of their own.

use std::collections::VecDeque;
use std::ffi::{c_int, c_void};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, eventfd};

use crate::abi::{EqAttr, EqErrEntry, EqOps, Fid, Obj, Ops, Out, PlainFid, class, code, kind};
use crate::common::{self, or_return};
use crate::cq::strerror;
use crate::fabric::Fabric;
use crate::object::{self, Head, Object};
use crate::{flags, memory};

/// What an event queue tells. Addresses of the application as numbers: they are only handed back.
#[derive(Clone)]
enum Event {
    /// An event's number, and what goes with it.
    Told(u32, Vec<u8>),
    Failed(Failed),
}

/// Something that failed, of which no call tells.
#[derive(Clone, Copy)]
pub(crate) struct Failed {
    pub(crate) fid: usize,
    pub(crate) context: usize,
    pub(crate) data: u64,
    /// libfabric's code.
    pub(crate) code: c_int,
}

/// An event queue.
#[repr(C)]
pub(crate) struct Eq {
    head: Head<PlainFid<EqOps>>,
    _fabric: Arc<Fabric>,
    /// Readable while there are events, if it was asked for.
    bell: Option<OwnedFd>,
    events: Mutex<VecDeque<Event>>,
    changed: Condvar,
}

// SAFETY: `repr(C)`, and the head, which begins with a `Fid`, is first.
unsafe impl Object for Eq {}

static OPS: Ops = Ops { close, control, ..common::OPS };
static EQ_OPS: EqOps = EqOps { size: size_of::<EqOps>(), read, readerr, write, sread, strerror };

/// `fi_eq_open`.
///
/// # Safety
/// `out` must be valid for a write.
pub(crate) unsafe fn open(
    fabric: Arc<Fabric>,
    attr: Option<&EqAttr>,
    out: Out,
    context: *mut c_void,
) -> c_int {
    let wait = attr.map_or(kind::WAIT_NONE, |attr| attr.wait_obj);
    let bell = match wait {
        kind::WAIT_NONE | kind::WAIT_YIELD => None,
        kind::WAIT_UNSPEC | kind::WAIT_FD => {
            match eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC) {
                Ok(bell) => Some(bell),
                Err(error) => return -error.raw_os_error(),
            }
        }
        _ => return -libc::ENOSYS,
    };
    let fid = Fid { fclass: class::EQ, context, ops: &raw const OPS };
    let eq = Eq {
        head: Head::new(PlainFid { fid, ops: &raw const EQ_OPS }),
        _fabric: fabric,
        bell,
        events: Mutex::default(),
        changed: Condvar::new(),
    };
    // SAFETY: says the caller.
    unsafe { object::hand_out(Arc::new(eq), out) }
}

impl Eq {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Event>> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nothing to be read.
    pub(crate) fn may_sleep(&self) -> bool {
        self.lock().is_empty()
    }

    /// Takes the next event out, or looks at it; `None` if there is none before the time is over.
    fn next(
        &self,
        longest: Option<Duration>,
        room: usize,
        flags: u64,
    ) -> Result<(u32, Vec<u8>), c_int> {
        let until = longest.map(|longest| Instant::now() + longest);
        let mut events = self.lock();
        loop {
            match events.front() {
                Some(Event::Failed(_)) => return Err(code::EAVAIL),
                Some(Event::Told(_, bytes)) if bytes.len() > room => return Err(code::ETOOSMALL),
                Some(Event::Told(number, bytes)) if flags & flags::EVENT != 0 => {
                    return Ok((*number, bytes.clone()));
                }
                _ => {}
            }
            if let Some(Event::Told(number, bytes)) = self.pop(&mut events) {
                return Ok((number, bytes));
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Err(libc::EAGAIN);
            }
            let left = left.unwrap_or(Duration::from_secs(1));
            let woken = self.changed.wait_timeout(events, left);
            events = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn pop(&self, events: &mut VecDeque<Event>) -> Option<Event> {
        let event = events.pop_front()?;
        if let Some(bell) = self.bell.as_ref().filter(|_| events.is_empty()) {
            let _ = rustix::io::read(bell, &mut [0_u8; 8]); // silent until the next
        }
        Some(event)
    }

    fn push(&self, event: Event) {
        let mut events = self.lock();
        events.push_back(event);
        if let Some(bell) = &self.bell {
            // The only failure is a counter at its limit, and then it is readable.
            let _ = rustix::io::write(bell, &1_u64.to_ne_bytes());
        }
        self.changed.notify_one();
    }

    /// Tells of an event in the form most have: of which object, with which context, and a number.
    pub(crate) fn tell(&self, number: u32, (fid, context): (usize, usize), data: u64) {
        let words = [fid as u64, context as u64, data];
        self.push(Event::Told(number, words.iter().flat_map(|it| it.to_ne_bytes()).collect()));
    }

    /// Tells of something that failed.
    pub(crate) fn tell_failed(&self, failed: Failed) {
        self.push(Event::Failed(failed));
    }

    /// Gives an event to the application.
    ///
    /// # Safety
    /// Each null, or `number` valid for a write and `out` for `room` bytes.
    unsafe fn read(
        &self,
        number: *mut u32,
        (out, room): (*mut c_void, usize),
        longest: Option<Duration>,
        flags: u64,
    ) -> isize {
        if let Err(code) = flags::check(flags, flags::EVENT) {
            return -(code as isize);
        }
        if number.is_null() {
            return -(libc::EINVAL as isize);
        }
        let room = if out.is_null() { 0 } else { room };
        match self.next(longest, room, flags) {
            Ok((event, bytes)) => {
                // SAFETY: the bytes fit, says `next`; both places are the caller's.
                unsafe {
                    number.write(event);
                    std::ptr::copy_nonoverlapping(bytes.as_ptr(), out.cast(), bytes.len());
                }
                bytes.len() as isize
            }
            Err(code) => -(code as isize),
        }
    }
}

unsafe extern "C" fn close(eq: Obj) -> c_int {
    // SAFETY: the table is that of event queues.
    unsafe { object::close::<Eq>(eq) }
}

unsafe extern "C" fn control(eq: Obj, what: c_int, argument: *mut c_void) -> c_int {
    // SAFETY: an event queue of ours, and an argument that goes with the command.
    unsafe { common::control_wait(object::object::<Eq>(eq).bell.as_ref(), what, argument) }
}

unsafe extern "C" fn read(
    eq: Obj,
    number: *mut u32,
    out: *mut c_void,
    room: usize,
    flags: u64,
) -> isize {
    // SAFETY: an event queue of ours, and the application's places.
    unsafe { object::object::<Eq>(eq).read(number, (out, room), Some(Duration::ZERO), flags) }
}

unsafe extern "C" fn sread(
    eq: Obj,
    number: *mut u32,
    out: *mut c_void,
    room: usize,
    timeout_ms: c_int,
    flags: u64,
) -> isize {
    let longest = u64::try_from(timeout_ms).ok().map(Duration::from_millis);
    // SAFETY: as for `read`. Who waits has a count of the queue's, which cannot be closed meanwhile.
    unsafe { object::shared::<Eq>(eq).read(number, (out, room), longest, flags) }
}

unsafe extern "C" fn readerr(eq: Obj, out: *mut EqErrEntry, flags: u64) -> isize {
    or_return!(flags::check(flags, flags::EVENT));
    if out.is_null() {
        return -(libc::EINVAL as isize);
    }
    // SAFETY: an event queue of ours.
    let eq = unsafe { object::object::<Eq>(eq) };
    let mut events = eq.lock();
    let Some(&Event::Failed(failed)) = events.front() else { return -(libc::EAGAIN as isize) };
    if flags & flags::EVENT == 0 {
        eq.pop(&mut events);
    }
    // SAFETY: the application's entry; what it says of room for more words stays as it is, but that there are none.
    unsafe {
        (&raw mut (*out).fid).write(failed.fid as Obj);
        (&raw mut (*out).context).write(failed.context as *mut c_void);
        (&raw mut (*out).data).write(failed.data);
        (&raw mut (*out).err).write(failed.code);
        (&raw mut (*out).prov_errno).write(0);
        (&raw mut (*out).err_data_size).write(0);
    }
    size_of::<EqErrEntry>() as isize
}

unsafe extern "C" fn write(
    eq: Obj,
    number: u32,
    bytes: *const c_void,
    len: usize,
    flags: u64,
) -> isize {
    or_return!(flags::check(flags, 0));
    // SAFETY: an event queue of ours, and `len` bytes of the application, for the time of the call.
    let (eq, bytes) = unsafe { (object::object::<Eq>(eq), memory::bytes(bytes, len)) };
    let bytes = or_return!(bytes);
    eq.push(Event::Told(number, bytes.to_vec()));
    len as isize
}
