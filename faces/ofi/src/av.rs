//! The address vector: peers by small numbers.
//!
//! It keeps addresses; each endpoint bound to it keeps the engine's name for each number (`port::Port`). Maps and tables are
//! the same here: the lowest free number.

use std::ffi::{c_char, c_int, c_void};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use packhorse::Address;

use crate::abi::{
    ADDR_NOTAVAIL, AvAttr, AvOps, Fid, Obj, Ops, Out, PlainFid, absent, class, code, flag, kind,
};
use crate::common;
use crate::domain::Domain;
use crate::flags;
use crate::form::{Form, Name};
use crate::log::{Level, Subsystem, say};
use crate::object::{self, Head, Object, text};
use crate::place;
use crate::port::Port;

/// An address vector.
#[repr(C)]
pub(crate) struct Av {
    head: Head<PlainFid<AvOps>>,
    domain: Arc<Domain>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Each with what the application calls it.
    addresses: Vec<Option<(Address, Name)>>,
    /// Endpoints that use it. They hold the vector, not the other way round.
    ports: Vec<Weak<Port>>,
}

// SAFETY: `repr(C)`, and the head, which begins with a `Fid`, is first.
unsafe impl Object for Av {}

static OPS: Ops = Ops { close, bind, ..common::OPS };
static AV_OPS: AvOps = AvOps {
    size: size_of::<AvOps>(),
    insert,
    insertsvc,
    insertsym,
    remove,
    lookup,
    straddr,
    av_set,
    insert_auth_key,
    lookup_auth_key,
    set_user_id,
};

absent! {
    av_set(Obj, *mut c_void, Out, *mut c_void) -> c_int;
    insert_auth_key(Obj, *const c_void, usize, *mut u64, u64) -> c_int;
    lookup_auth_key(Obj, u64, *mut c_void, *mut usize) -> c_int;
    set_user_id(Obj, u64, u64, u64) -> c_int;
}

/// `fi_av_open`.
///
/// # Safety
/// `out` must be valid for a write.
pub(crate) unsafe fn open(
    domain: Arc<Domain>,
    attr: Option<&mut AvAttr>,
    out: Out,
    context: *mut c_void,
) -> c_int {
    let mut count = 0;
    if let Some(attr) = attr {
        if !attr.name.is_null() || attr.rx_ctx_bits != 0 {
            return -libc::ENOSYS; // neither shared vectors nor scalable endpoints
        }
        if attr.kind == 0 {
            attr.kind = kind::AV_TABLE; // the application may leave the choice, and learns it
        }
        count = attr.count.min(1 << 16);
    }
    let fid = Fid { fclass: class::AV, context, ops: &raw const OPS };
    let head = Head::new(PlainFid { fid, ops: &raw const AV_OPS });
    let state = State { addresses: Vec::with_capacity(count), ports: Vec::new() };
    // SAFETY: says the caller.
    unsafe { object::hand_out(Arc::new(Av { head, domain, state: state.into() }), out) }
}

impl Av {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An endpoint that uses it opened: it hears of all peers there are, and will of all that come.
    pub(crate) fn attach(&self, port: &Arc<Port>) {
        let mut state = self.lock();
        for (number, address) in state.addresses.iter().enumerate() {
            if let Some((address, _)) = address {
                report(port.add_peer(number as u64, address));
            }
        }
        state.ports.push(Arc::downgrade(port));
    }

    /// An endpoint closes.
    pub(crate) fn detach(&self, port: &Arc<Port>) {
        self.lock().ports.retain(|it| it.as_ptr() != Arc::as_ptr(port));
    }

    fn insert(&self, name: Name) -> Result<u64, c_int> {
        let address = address_of(&name)?;
        let mut state = self.lock();
        let free = state.addresses.iter().position(Option::is_none);
        let number = free.unwrap_or(state.addresses.len());
        if number == state.addresses.len() {
            state.addresses.push(None);
        }
        for port in state.ports.iter().filter_map(Weak::upgrade) {
            port.add_peer(number as u64, &address).map_err(|error| {
                say(Level::Warn, Subsystem::Addresses, || format!("fi_av_insert: {error}"));
                crate::errors::code_of(&error)
            })?;
        }
        state.addresses[number] = Some((address, name));
        Ok(number as u64)
    }

    fn remove(&self, number: u64) -> bool {
        let mut state = self.lock();
        let slot = usize::try_from(number).ok().and_then(|it| state.addresses.get_mut(it));
        if slot.and_then(Option::take).is_none() {
            return false;
        }
        for port in state.ports.iter().filter_map(Weak::upgrade) {
            port.remove_peer(number);
        }
        true
    }

    fn name(&self, number: u64) -> Option<Name> {
        let state = self.lock();
        let known = usize::try_from(number).ok().and_then(|it| *state.addresses.get(it)?);
        // A place of our own form is remembered as what was found there.
        known.map(|(address, name)| match self.domain.form {
            Form::Own => Name::of_address(&address),
            Form::V4 | Form::V6 => name,
        })
    }
}

/// An address of ours, or what is found at a place. Whoever waits for that holds nothing up but itself.
fn address_of(name: &Name) -> Result<Address, c_int> {
    let warn = |text: String| {
        say(Level::Warn, Subsystem::Addresses, || format!("fi_av_insert: {text}"));
    };
    match name.place() {
        Some(place) => place.look_up().map_err(|error| {
            warn(error.to_string());
            crate::errors::code_of(&error)
        }),
        None => name.to_address().map_err(|error| {
            warn(error.to_string());
            libc::EINVAL
        }),
    }
}

/// A peer that could not be made known is in the vector nevertheless: what is sent to it says so.
fn report(added: Result<(), packhorse::Error>) {
    if let Err(error) = added {
        say(Level::Warn, Subsystem::Addresses, || format!("fi_enable: {error}"));
    }
}

unsafe extern "C" fn close(av: Obj) -> c_int {
    // SAFETY: the table is that of address vectors.
    unsafe { object::close::<Av>(av) }
}

unsafe extern "C" fn bind(_av: Obj, other: Obj, _flags: u64) -> c_int {
    // SAFETY: an object of this provider. Insertion is done on return, so an event queue hears nothing.
    if unsafe { common::class_of(other) } == Some(class::EQ) { 0 } else { -libc::EINVAL }
}

unsafe extern "C" fn insert(
    av: Obj,
    addresses: *const c_void,
    count: usize,
    numbers: *mut u64,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    if let Err(code) = flags::check(flags, flags::INSERT) {
        return -code;
    }
    let wants_codes = flags & flag::SYNC_ERR != 0;
    let is_missing = (addresses.is_null() && count > 0) || (context.is_null() && wants_codes);
    if is_missing || c_int::try_from(count).is_err() {
        return -libc::EINVAL;
    }
    // SAFETY: an address vector of ours; the application's addresses lie one behind the other, each as long as `getname` said.
    let av = unsafe { object::object::<Av>(av) };
    let form = av.domain.form;
    let codes = if wants_codes { context.cast::<c_int>() } else { std::ptr::null_mut() };
    let mut inserted_count = 0;
    for index in 0..count {
        // SAFETY: `index` is below `count`, for which the application made room in all three lists it gave.
        unsafe {
            let at = addresses.cast::<u8>().add(index * form.len());
            let name = Name::new(form, std::slice::from_raw_parts(at, form.len()));
            let inserted = av.insert(name);
            if !numbers.is_null() {
                numbers.add(index).write(inserted.unwrap_or(ADDR_NOTAVAIL));
            }
            if !codes.is_null() {
                codes.add(index).write(inserted.err().unwrap_or(0));
            }
            inserted_count += c_int::from(inserted.is_ok());
        }
    }
    inserted_count
}

/// One peer, by host and number: looked up before this returns.
unsafe extern "C" fn insertsvc(
    av: Obj,
    node: *const c_char,
    service: *const c_char,
    number: *mut u64,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    // SAFETY: as `insertsym` wants it; the application's place for one number is a list of one.
    unsafe { insertsym(av, node, 1, service, 1, number, flags, context) }
}

/// Peers of hosts and numbers that follow each other, all numbers of the first host first.
unsafe extern "C" fn insertsym(
    av: Obj,
    node: *const c_char,
    node_count: usize,
    service: *const c_char,
    service_count: usize,
    numbers: *mut u64,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    // SAFETY: null or strings, as the manual page says.
    let (node, service) = unsafe { (text(node), text(service)) };
    let (Some(node), Some(service)) = (node, service) else { return -libc::EINVAL };
    // SAFETY: an address vector of ours.
    let form = unsafe { object::object::<Av>(av) }.domain.form;
    let names = place::row(node, node_count, service, service_count)
        .and_then(|places| places.iter().map(|place| Name::of_place(form, place)).collect());
    match names {
        Ok(names) => {
            let names: Vec<Name> = names;
            let bytes: Vec<u8> = names.iter().flat_map(|name| name.as_slice()).copied().collect();
            // SAFETY: as many addresses as are said, and the application's lists, which are as long.
            unsafe { insert(av, bytes.as_ptr().cast(), names.len(), numbers, flags, context) }
        }
        Err(wrong) => {
            say(Level::Warn, Subsystem::Addresses, || {
                format!("fi_av_insertsvc, fi_av_insertsym: {wrong}")
            });
            -libc::EINVAL
        }
    }
}

unsafe extern "C" fn remove(av: Obj, numbers: *mut u64, count: usize, flags: u64) -> c_int {
    if let Err(code) = flags::check(flags, 0) {
        return -code;
    }
    if numbers.is_null() && count > 0 {
        return -libc::EINVAL;
    }
    // SAFETY: an address vector of ours.
    let av = unsafe { object::object::<Av>(av) };
    let mut are_all_known = true;
    for index in 0..count {
        // SAFETY: the application gives as many numbers as it says.
        are_all_known &= av.remove(unsafe { numbers.add(index).read() });
    }
    if are_all_known { 0 } else { -libc::EINVAL }
}

unsafe extern "C" fn lookup(av: Obj, number: u64, out: *mut c_void, len: *mut usize) -> c_int {
    // SAFETY: an address vector of ours.
    let Some(name) = (unsafe { object::object::<Av>(av) }).name(number) else {
        return -libc::EINVAL;
    };
    // SAFETY: the application's buffer, and how long it is. A short one gets the beginning, which is no error here.
    match unsafe { object::copy_out(name.as_slice(), out, len) } {
        status if status == -code::ETOOSMALL => 0,
        status => status,
    }
}

/// An address as text for people: where it is, not its secret.
unsafe extern "C" fn straddr(
    av: Obj,
    address: *const c_void,
    out: *mut c_char,
    len: *mut usize,
) -> *const c_char {
    if address.is_null() || len.is_null() {
        return std::ptr::null();
    }
    // SAFETY: an address vector of ours, and an address as long as `getname` said.
    let name = unsafe {
        let form = object::object::<Av>(av).domain.form;
        Name::new(form, std::slice::from_raw_parts(address.cast::<u8>(), form.len()))
    };
    let mut text = name.text();
    text.push('\0');
    // SAFETY: the application's buffer, and how long it is; cut short, the text still has to end.
    unsafe {
        let room = if out.is_null() { 0 } else { *len };
        object::copy_out(text.as_bytes(), out.cast(), len);
        if room > 0 && room < text.len() {
            out.add(room - 1).write(0);
        }
    }
    out
}
