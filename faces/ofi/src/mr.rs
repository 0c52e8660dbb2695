//! Registered memory: what peers may read and write, by key and offset.
//!
//! A registration belongs to the domain and holds for every endpoint of it, those that are enabled later included. Only peers in the endpoint's
//! address vector may use it.

use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::sync::{Arc, Mutex, Weak};

use packhorse::raw::{Access, Memory};

use crate::abi::{Fid, MrAttr, MrFid, MrOps, Obj, Ops, Out, class, code, flag, iovec};
use crate::cntr::Cntr;
use crate::common;
use crate::domain::Domain;
use crate::flags;
use crate::log::{Level, Subsystem, say};
use crate::object::{self, Head, Object};
use crate::offer::PIECE_COUNT_MAX;
use crate::port::{Port, lock};

/// A registration.
#[repr(C)]
struct Mr {
    head: Head<MrFid>,
    domain: Arc<Domain>,
    key: u64,
}

// SAFETY: `repr(C)`, and the head, which begins with a `Fid`, is first.
unsafe impl Object for Mr {}

/// What is registered in a domain, and for whom.
#[derive(Default)]
pub(crate) struct Registry(Mutex<State>);

#[derive(Default)]
struct State {
    ranges: HashMap<u64, Range>,
    /// Enabled endpoints of the domain.
    ports: Vec<Weak<Port>>,
}

/// Registered pieces, as numbers: they are only turned into memory to be lent.
struct Range {
    pieces: Vec<(usize, usize)>,
    access: Access,
    counters: Counters,
}

/// The counters a registration is bound to, with the flags that say what each counts: what peers do with this memory.
pub(crate) type Counters = Arc<Mutex<Vec<(u64, Arc<Cntr>)>>>;

impl Range {
    fn expose(&self, port: &Arc<Port>, key: u64) -> Result<(), c_int> {
        port.expose(key, self.access, self.memory(), &self.counters)?;
        lock(&self.counters).iter().for_each(|(_, counter)| counter.ports.add(port));
        Ok(())
    }

    /// The memory, for one more endpoint.
    fn memory(&self) -> Memory {
        let pieces: Vec<_> = self.pieces.iter().map(|&(at, len)| (at as *mut u8, len)).collect();
        // SAFETY: the application registered it, which is a promise that it stays until the registration is closed; and
        // `Registry::remove` withdraws it then.
        unsafe { Memory::borrowed(&pieces, self.access.write) }
    }
}

impl Registry {
    /// An endpoint was enabled: what is registered holds for it, too.
    pub(crate) fn attach(&self, port: &Arc<Port>) {
        let mut state = lock(&self.0);
        for (&key, range) in &state.ranges {
            if let Err(code) = range.expose(port, key) {
                say(Level::Warn, Subsystem::Domain, || format!("key {key:#x}: error {code}"));
            }
        }
        state.ports.push(Arc::downgrade(port));
    }

    /// An endpoint closes: its exposures end with it.
    pub(crate) fn detach(&self, port: &Arc<Port>) {
        let mut state = lock(&self.0);
        for range in state.ranges.values() {
            lock(&range.counters).iter().for_each(|(_, counter)| port.leave(counter));
        }
        state.ports.retain(|it| it.as_ptr() != Arc::as_ptr(port));
    }

    fn insert(&self, key: u64, range: Range) -> Result<(), c_int> {
        let mut state = lock(&self.0);
        if state.ranges.contains_key(&key) {
            return Err(code::ENOKEY);
        }
        let ports: Vec<_> = state.ports.iter().filter_map(Weak::upgrade).collect();
        for port in &ports {
            if let Err(code) = range.expose(port, key) {
                ports.iter().for_each(|port| port.withdraw(key));
                return Err(code);
            }
        }
        state.ranges.insert(key, range);
        Ok(())
    }

    fn remove(&self, key: u64) {
        let mut state = lock(&self.0);
        let range = state.ranges.remove(&key);
        for port in state.ports.iter().filter_map(Weak::upgrade) {
            port.withdraw(key);
            let counters = range.iter().flat_map(|range| lock(&range.counters).clone());
            counters.for_each(|(_, counter)| port.leave(&counter));
        }
    }

    /// What peers do with this memory is counted, by every endpoint of the domain that was opened for that (`FI_RMA_EVENT`).
    fn bind(&self, key: u64, flags: u64, counter: Arc<Cntr>) -> Result<(), c_int> {
        flags::check(flags, flag::REMOTE_READ | flag::REMOTE_WRITE)?;
        let state = lock(&self.0);
        let range = state.ranges.get(&key).ok_or(libc::EINVAL)?;
        state.ports.iter().filter_map(Weak::upgrade).for_each(|port| counter.ports.add(&port));
        lock(&range.counters).push((flags, counter));
        Ok(())
    }
}

/// Peers lose it before the application gets it back.
impl Drop for Mr {
    fn drop(&mut self) {
        self.domain.registry.remove(self.key);
    }
}

static OPS: Ops = Ops { close, bind, control, ..common::OPS };
pub(crate) static MR_OPS: MrOps = MrOps { size: size_of::<MrOps>(), reg, regv, regattr };

/// What a list names, as numbers. Together no more than a process can have: their lengths are summed where they are lent.
///
/// # Safety
/// `count` pieces in `pieces`, or null.
unsafe fn listed(pieces: *const iovec, count: usize) -> Result<Vec<(usize, usize)>, c_int> {
    if count > PIECE_COUNT_MAX || (pieces.is_null() && count > 0) {
        return Err(libc::EINVAL);
    }
    // SAFETY: so many pieces, says the caller; not null, says the line above.
    let pieces = (0..count).map(|index| unsafe { pieces.add(index).read() });
    let pieces: Vec<_> = pieces.map(|it| (it.iov_base as usize, it.iov_len)).collect();
    let is_there = |&(at, len): &(usize, usize)| {
        at.checked_add(len).is_some_and(|end| end <= ADDRESS_MAX) && (at > 0 || len == 0)
    };
    let sum = pieces.iter().try_fold(0_usize, |sum, &(_, len)| sum.checked_add(len));
    if pieces.iter().all(is_there) && sum.is_some_and(|sum| sum <= ADDRESS_MAX) {
        return Ok(pieces);
    }
    say(Level::Info, Subsystem::Domain, || {
        "only memory that a process can have is registered, not its whole address space".into()
    });
    Err(libc::EINVAL)
}

/// # Safety
/// `domain` must be a domain of ours, `out` valid for a write; the pieces must stay until the registration is closed.
unsafe fn open(
    domain: Obj,
    (pieces, count): (*const iovec, usize),
    (access, key, flags): (u64, u64, u64),
    out: Out,
    context: *mut c_void,
) -> c_int {
    let checked = flags::check(flags, 0).and_then(|()| flags::check(access, flags::ACCESS));
    // SAFETY: says the caller.
    let pieces = match checked.and_then(|()| unsafe { listed(pieces, count) }) {
        Ok(pieces) => pieces,
        Err(code) => return -code,
    };
    let access =
        Access { read: access & flag::REMOTE_READ != 0, write: access & flag::REMOTE_WRITE != 0 };
    if out.is_null() {
        return -libc::EINVAL; // before peers could use it
    }
    // SAFETY: says the caller.
    let domain: Arc<Domain> = unsafe { object::shared(domain) };
    let range = Range { pieces, access, counters: Counters::default() };
    if let Err(code) = domain.registry.insert(key, range) {
        return -code;
    }
    let fid = Fid { fclass: class::MR, context, ops: &raw const OPS };
    let head = Head::new(MrFid { fid, mem_desc: std::ptr::null_mut(), key });
    // SAFETY: says the caller.
    unsafe { object::hand_out(Arc::new(Mr { head, domain, key }), out) }
}

/// Beyond it nothing can be of a process: its allocations are no longer than this.
const ADDRESS_MAX: usize = isize::MAX as usize;

unsafe extern "C" fn reg(
    domain: Obj,
    buf: *const c_void,
    len: usize,
    access: u64,
    _offset: u64,
    key: u64,
    flags: u64,
    out: Out,
    context: *mut c_void,
) -> c_int {
    let piece = iovec { iov_base: buf.cast_mut(), iov_len: len };
    // SAFETY: a domain of ours, a place for the object, and memory that the application keeps until it closes it.
    unsafe { open(domain, (&raw const piece, 1), (access, key, flags), out, context) }
}

unsafe extern "C" fn regv(
    domain: Obj,
    pieces: *const iovec,
    count: usize,
    access: u64,
    _offset: u64,
    key: u64,
    flags: u64,
    out: Out,
    context: *mut c_void,
) -> c_int {
    // SAFETY: as for `reg`.
    unsafe { open(domain, (pieces, count), (access, key, flags), out, context) }
}

unsafe extern "C" fn regattr(domain: Obj, attr: *const MrAttr, flags: u64, out: Out) -> c_int {
    // SAFETY: a domain of ours; the application's attributes; a place for the object.
    unsafe {
        let Some(attr) = attr.as_ref() else { return -libc::EINVAL };
        if attr.iface != 0 {
            say(Level::Warn, Subsystem::Domain, || {
                "memory of a device cannot be registered: copy it to memory of the host first"
                    .into()
            });
            return -libc::ENOSYS;
        }
        let what = (attr.access, attr.requested_key, flags);
        open(domain, (attr.mr_iov, attr.iov_count), what, out, attr.context)
    }
}

unsafe extern "C" fn close(mr: Obj) -> c_int {
    // SAFETY: the table is that of registrations.
    unsafe { object::close::<Mr>(mr) }
}

/// Registrations are of the whole domain: binding one to an endpoint changes nothing. A counter counts what peers do with this one.
unsafe extern "C" fn bind(mr: Obj, other: Obj, flags: u64) -> c_int {
    // SAFETY: a registration of ours, and an object of this provider that says what it is.
    unsafe {
        match common::class_of(other) {
            Some(class::EP) => 0,
            Some(class::CNTR) => {
                let mr = object::object::<Mr>(mr);
                let bound = mr.domain.registry.bind(mr.key, flags, object::shared(other));
                bound.map_or_else(|code| -code, |()| 0)
            }
            _ => -libc::EINVAL,
        }
    }
}

unsafe extern "C" fn control(_mr: Obj, what: c_int, _argument: *mut c_void) -> c_int {
    if what == crate::abi::command::ENABLE { 0 } else { -libc::ENOSYS }
}
