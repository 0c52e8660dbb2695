//! The address vector: peers by small numbers.
//!
//! It keeps addresses; each endpoint bound to it keeps the engine's name for each number (`port::Port`). Maps and tables are
//! the same here: the lowest free number.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ffi::{c_char, c_int, c_void};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use packhorse::Address;
use packhorse_common::pointed::text;

use crate::abi::{
    ADDR_NOTAVAIL, AvAttr, AvOps, Fid, Obj, Ops, Out, PlainFid, absent, class, code, event, flag,
    kind,
};
use crate::common;
use crate::domain::Domain;
use crate::eq::{Eq, Failed};
use crate::flags;
use crate::form::{Form, Name};
use crate::log::{Level, Subsystem, say};
use crate::object::{self, Head, Object};
use crate::place::{self, Place};
use crate::port::Port;

/// An address vector.
#[repr(C)]
pub(crate) struct Av {
    head: Head<PlainFid<AvOps>>,
    domain: Arc<Domain>,
    /// Insertions are told of by an event queue, which is bound later.
    tells: bool,
    eq: OnceLock<Arc<Eq>>,
    state: Mutex<State>,
}

/// A peer as it was entered.
#[derive(Clone)]
enum Whom {
    Known(Address),
    /// Found by each endpoint for itself (`later`).
    At(Place),
}

impl Whom {
    fn tell(&self, port: &Port, number: u64) -> Result<(), packhorse::Error> {
        match self {
            Self::Known(address) => port.add_peer(number, address),
            Self::At(place) => {
                port.add_place(number, place.clone());
                Ok(())
            }
        }
    }
}

/// What each number stands for. A new one gets the lowest that is free.
struct Table<T> {
    slots: Vec<Option<T>>,
    free: BinaryHeap<Reverse<usize>>,
}

impl<T> Table<T> {
    fn new(count: usize) -> Self {
        Self { slots: Vec::with_capacity(count), free: BinaryHeap::new() }
    }

    /// The number that the next one will have.
    fn next(&self) -> usize {
        self.free.peek().map_or(self.slots.len(), |&Reverse(number)| number)
    }

    fn insert(&mut self, it: T) {
        match self.free.pop() {
            Some(Reverse(number)) => self.slots[number] = Some(it),
            None => self.slots.push(Some(it)),
        }
    }

    fn get(&self, number: u64) -> Option<&T> {
        self.slots.get(usize::try_from(number).ok()?)?.as_ref()
    }

    fn remove(&mut self, number: u64) -> Option<T> {
        let number = usize::try_from(number).ok()?;
        let removed = self.slots.get_mut(number)?.take()?;
        self.free.push(Reverse(number));
        Some(removed)
    }

    fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        (0..).zip(&self.slots).filter_map(|(number, slot)| Some((number, slot.as_ref()?)))
    }
}

struct State {
    /// Peers, and what the application calls them.
    peers: Table<(Whom, Name)>,
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
    let (mut count, mut tells) = (0, false);
    if let Some(attr) = attr {
        tells = attr.flags & flag::EVENT != 0;
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
    let state = State { peers: Table::new(count), ports: Vec::new() };
    // SAFETY: says the caller.
    unsafe {
        object::hand_out(
            Arc::new(Av { head, domain, tells, eq: OnceLock::new(), state: state.into() }),
            out,
        )
    }
}

impl Av {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An endpoint that uses it opened: it hears of all peers there are, and will of all that come.
    pub(crate) fn attach(&self, port: &Arc<Port>) {
        let mut state = self.lock();
        for (number, (whom, _)) in state.peers.iter() {
            report(whom.tell(port, number));
        }
        state.ports.push(Arc::downgrade(port));
    }

    /// An endpoint closes.
    pub(crate) fn detach(&self, port: &Arc<Port>) {
        self.lock().ports.retain(|it| it.as_ptr() != Arc::as_ptr(port));
    }

    fn insert(&self, name: Name) -> Result<u64, c_int> {
        let whom = whom(&name)?;
        let mut state = self.lock();
        let number = state.peers.next() as u64;
        for port in state.ports.iter().filter_map(Weak::upgrade) {
            whom.tell(&port, number).map_err(|error| {
                say(Level::Warn, Subsystem::Addresses, || format!("fi_av_insert: {error}"));
                crate::errors::code_of(&error)
            })?;
        }
        state.peers.insert((whom, name));
        Ok(number)
    }

    fn remove(&self, number: u64) -> bool {
        let mut state = self.lock();
        if state.peers.remove(number).is_none() {
            return false;
        }
        for port in state.ports.iter().filter_map(Weak::upgrade) {
            port.remove_peer(number);
        }
        true
    }

    fn name(&self, number: u64) -> Option<Name> {
        self.lock().peers.get(number).map(|&(_, name)| name)
    }
}

/// Whom an address names, or who is at a place.
fn whom(name: &Name) -> Result<Whom, c_int> {
    let known = || name.to_address().map(Whom::Known);
    name.place().map(Whom::At).map_or_else(known, Ok).map_err(|error| {
        say(Level::Warn, Subsystem::Addresses, || format!("fi_av_insert: {error}"));
        libc::EINVAL
    })
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

/// An event queue, once. It hears of insertions if the vector was opened so.
unsafe extern "C" fn bind(av: Obj, other: Obj, _flags: u64) -> c_int {
    // SAFETY: an address vector of ours, and an object of this provider.
    unsafe {
        if common::class_of(other) != Some(class::EQ) {
            return -libc::EINVAL;
        }
        match object::object::<Av>(av).eq.set(object::shared(other)) {
            Ok(()) => 0,
            Err(_) => -libc::EINVAL,
        }
    }
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
    let fid = av as usize;
    // SAFETY: an address vector of ours; the application's addresses lie one behind the other, each as long as `getname` said.
    let av = unsafe { object::object::<Av>(av) };
    let form = av.domain.form;
    let eq = if av.tells { av.eq.get() } else { None };
    if av.tells && eq.is_none() {
        return -code::ENOEQ;
    }
    let codes = if wants_codes { context.cast::<c_int>() } else { std::ptr::null_mut() };
    let mut inserted_count = 0;
    for index in 0..count {
        // SAFETY: `index` is below `count`, for which the application made room in all three lists it gave. Text is not in the list: the
        // list says where it is.
        unsafe {
            let at = match form.len() {
                Some(len) => addresses.cast::<u8>().add(index * len).cast(),
                None => addresses.cast::<*const c_void>().add(index).read_unaligned(),
            };
            let name = object::name_at(form, at, None).ok_or(libc::EINVAL);
            let inserted = name.and_then(|name| av.insert(name));
            if !numbers.is_null() {
                numbers.add(index).write(inserted.unwrap_or(ADDR_NOTAVAIL));
            }
            if !codes.is_null() {
                codes.add(index).write(inserted.err().unwrap_or(0));
            }
            inserted_count += c_int::from(inserted.is_ok());
            if let (Some(eq), Err(code), false) = (eq, inserted, wants_codes) {
                eq.tell_failed(Failed { fid, context: context as usize, data: index as u64, code });
            }
        }
    }
    match eq {
        Some(eq) => {
            eq.tell(event::AV_COMPLETE, (fid, context as usize), inserted_count as u64);
            0
        }
        None => inserted_count,
    }
}

/// One peer, by host and number, or by an address as text instead of both.
unsafe extern "C" fn insertsvc(
    av: Obj,
    node: *const c_char,
    service: *const c_char,
    number: *mut u64,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    // SAFETY: an address vector of ours; a string, as the manual page says; the application's place for one number is a list of one.
    unsafe {
        if service.is_null() && !node.is_null() {
            let form = object::object::<Av>(av).domain.form;
            return insert_text(av, form, node, number, flags, context);
        }
    }
    // SAFETY: as `insertsym` wants it.
    unsafe { insertsym(av, node, 1, service, 1, number, flags, context) }
}

/// One peer, by an address as text, whatever the form of the other addresses.
///
/// # Safety
/// As for `insert`, with a string.
unsafe fn insert_text(
    av: Obj,
    form: Form,
    node: *const c_char,
    number: *mut u64,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    // SAFETY: says the caller.
    let Some(text) = (unsafe { object::name_at(Form::Text, node.cast(), None) }) else {
        return -libc::EINVAL;
    };
    let name = match (text.place(), text.to_address()) {
        (Some(place), _) => Name::of_place(form, &place).ok(),
        (None, Ok(address)) if matches!(form, Form::Own | Form::Text) => {
            Some(Name::of_address(form, &address))
        }
        _ => None,
    };
    let Some(name) = name else {
        say(Level::Warn, Subsystem::Addresses, || {
            "fi_av_insertsvc: without a service the node is an address as text, such as packhorse://host:number".into()
        });
        return -libc::EINVAL;
    };
    let bytes = name.as_slice().as_ptr();
    // SAFETY: one address, in the form that the vector has; where it is, if it is text.
    unsafe {
        match form.len() {
            Some(_) => insert(av, bytes.cast(), 1, number, flags, context),
            None => insert(av, (&raw const bytes).cast(), 1, number, flags, context),
        }
    }
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
            let texts: Vec<_> = names.iter().map(|name| name.as_slice().as_ptr()).collect();
            let list =
                if form.len().is_some() { bytes.as_ptr().cast() } else { texts.as_ptr().cast() };
            // SAFETY: as many addresses as are said, and the application's lists, which are as long.
            unsafe { insert(av, list, names.len(), numbers, flags, context) }
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
    let name = unsafe { object::name_at(object::object::<Av>(av).domain.form, address, None) };
    let Some(name) = name else { return std::ptr::null() };
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_gets_the_lowest_number_that_is_free() {
        let mut table = Table::new(0);
        (0..5).for_each(|it| table.insert(it));
        for number in [3, 1] {
            assert_eq!(table.remove(number), Some(number));
            assert_eq!(table.remove(number), None);
        }
        assert_eq!((table.next(), table.get(1), table.get(9)), (1, None, None));
        [10, 11, 12].into_iter().for_each(|it| table.insert(it));
        let all: Vec<_> = table.iter().map(|(number, &it)| (number, it)).collect();
        assert_eq!(all, [(0, 0), (1, 10), (2, 2), (3, 11), (4, 4), (5, 12)]);
    }

    /// To look at all for each takes 10^12 steps.
    #[test]
    fn a_million_are_entered_and_removed_in_no_time() {
        let mut table = Table::new(0);
        for _ in 0..2 {
            (0..1_000_000_u64).for_each(|it| table.insert(it));
            assert!((0..1_000_000).rev().all(|number| table.remove(number).is_some()));
        }
    }
}
