//! The endpoint: bound to queues, counters and an address vector, then enabled; from then on a `port::Port` does the work.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use crate::abi::{
    Alias, CmOps, EpFid, EpOps, Fid, Info, Obj, Ops, Out, RxAttr, TxAttr, absent, class, code,
    command, flag, kind,
};
use crate::av::Av;
use crate::cntr::Cntr;
use crate::cq::Cq;
use crate::domain::Domain;
use crate::form::{Form, Name};
use crate::log::{Level, Subsystem, say};
use crate::object::{self, Head, Object};
use crate::place::Place;
use crate::port::{Binding, Bindings, Port, lock};
use crate::stx::Stx;
use crate::{atomic, common, errors, flags, msg, offer, rma, setting, tagged};

/// An endpoint.
#[repr(C)]
pub(crate) struct Ep {
    head: Head<EpFid>,
    caps: u64,
    /// Default flags of messages, of operations on a peer's memory, and of receives.
    pub(crate) send_flags: u64,
    pub(crate) tx_flags: u64,
    pub(crate) rx_flags: u64,
    /// A buffer for many messages is given back when less than this is free.
    pub(crate) free_len_min: AtomicUsize,
    /// `None` once it was closed, but what it had sent was not accepted: the application may close it once more.
    uses: Mutex<Option<Uses>>,
    /// Where it is to be found.
    place: Option<Place>,
    /// How its name looks.
    form: Form,
    port: OnceLock<Arc<Port>>,
    /// Shared with its aliases, for as long as they are open.
    aliases: Arc<()>,
}

/// What an endpoint belongs to, and what was bound so far.
struct Uses {
    domain: Arc<Domain>,
    bindings: Bindings,
    av: Option<Arc<Av>>,
    /// The shared context it sends by, which is but a name (`stx`).
    stx: Option<Arc<Stx>>,
}

// SAFETY: `repr(C)`, and the head, which begins with a `Fid`, is first.
unsafe impl Object for Ep {}

static OPS: Ops = Ops { close, bind, control, ..common::OPS };
static EP_OPS: EpOps = EpOps {
    size: size_of::<EpOps>(),
    cancel,
    getopt,
    setopt,
    tx_ctx,
    rx_ctx,
    rx_size_left,
    tx_size_left,
};
/// Of a context that several endpoints share: everything is asked of these.
pub(crate) static NO_EP_OPS: EpOps = EpOps {
    size: size_of::<EpOps>(),
    cancel: no_cancel,
    getopt: no_getopt,
    setopt: no_setopt,
    tx_ctx,
    rx_ctx,
    rx_size_left: no_size_left,
    tx_size_left: no_size_left,
};
static CM_OPS: CmOps = CmOps {
    size: size_of::<CmOps>(),
    setname,
    getname,
    getpeer,
    connect,
    listen,
    accept,
    reject,
    shutdown,
    join,
};

absent! {
    no_cancel(Obj, *mut c_void) -> isize;
    no_getopt(Obj, c_int, c_int, *mut c_void, *mut usize) -> c_int;
    no_setopt(Obj, c_int, c_int, *const c_void, usize) -> c_int;
    no_size_left(Obj) -> isize;
    tx_ctx(Obj, c_int, *mut TxAttr, Out, *mut c_void) -> c_int;
    rx_ctx(Obj, c_int, *mut RxAttr, Out, *mut c_void) -> c_int;
    setname(Obj, *mut c_void, usize) -> c_int;
    getpeer(Obj, *mut c_void, *mut usize) -> c_int;
    connect(Obj, *const c_void, *const c_void, usize) -> c_int;
    listen(Obj) -> c_int;
    accept(Obj, *const c_void, usize) -> c_int;
    reject(Obj, Obj, *const c_void, usize) -> c_int;
    shutdown(Obj, u64) -> c_int;
    join(Obj, *const c_void, u64, Out, *mut c_void) -> c_int;
}

/// `fi_endpoint`.
///
/// # Safety
/// `info` must be whole, with what hangs on it, and `out` valid for a write.
pub(crate) unsafe fn open(
    domain: Arc<Domain>,
    info: &Info,
    out: Out,
    context: *mut c_void,
) -> c_int {
    // SAFETY: null or valid, says the caller.
    let (ep, tx, rx) =
        unsafe { (info.ep_attr.as_ref(), info.tx_attr.as_ref(), info.rx_attr.as_ref()) };
    if ep.is_some_and(|ep| ep.kind != 0 && ep.kind != kind::EP_RDM) {
        return -libc::ENOSYS;
    }
    let completes_with_post = match (setting::COMPLETE.is_other(), setting::RMA.is_other()) {
        (Ok(completes), Ok(_)) => completes,
        (Err(wrong), _) | (_, Err(wrong)) => {
            say(Level::Warn, Subsystem::Endpoint, || wrong);
            return -libc::EINVAL;
        }
    };
    let form = domain.form;
    // SAFETY: so many bytes are there, says the caller.
    let source = unsafe { object::name_at(form, info.src_addr, Some(info.src_addrlen)) };
    let place = source.and_then(|name| name.place());
    let fid = Fid { fclass: class::EP, context, ops: &raw const OPS };
    let tx_flags = tx.map_or(0, |tx| tx.op_flags);
    let head = EpFid {
        fid,
        ops: &raw const EP_OPS,
        cm: &raw const CM_OPS,
        msg: &raw const msg::OPS,
        rma: &raw const rma::OPS,
        tagged: &raw const tagged::OPS,
        atomic: &raw const atomic::OPS,
        collective: std::ptr::null(),
    };
    let ep = Ep {
        head: Head::new(head),
        caps: offer::caps_for(info.caps) | info.caps,
        send_flags: level_of_messages(tx_flags, completes_with_post),
        tx_flags,
        rx_flags: rx.map_or(0, |rx| rx.op_flags),
        free_len_min: AtomicUsize::new(1),
        uses: Mutex::new(Some(Uses { domain, bindings: Bindings::default(), av: None, stx: None })),
        place,
        form,
        port: OnceLock::new(),
        aliases: Arc::default(),
    };
    // SAFETY: says the caller.
    unsafe { object::hand_out(Arc::new(ep), out) }
}

/// Completion levels an application can ask for.
const LEVELS: u64 = flag::INJECT_COMPLETE
    | flag::TRANSMIT_COMPLETE
    | flag::DELIVERY_COMPLETE
    | flag::MATCH_COMPLETE;

/// The default flags of messages, with the level that counts where a call names none. libfabric's is that the peer has accepted
/// the message; `FI_PACKHORSE_COMPLETE=post` lowers it, and what the application made its default, to what `fi_inject` promises.
/// For MPIs that send short messages without that call and wait for each, or that made delivery the default of all operations
/// because their windows need it.
fn level_of_messages(flags: u64, completes_with_post: bool) -> u64 {
    if completes_with_post { flags & !LEVELS | flag::INJECT_COMPLETE } else { flags }
}

impl Ep {
    /// The enabled endpoint, for the functions that move data.
    ///
    /// # Safety
    /// `obj` must be an open endpoint of ours.
    pub(crate) unsafe fn of<'a>(obj: Obj) -> (&'a Self, Option<&'a Arc<Port>>) {
        // SAFETY: says the caller.
        let ep = unsafe { object::object::<Self>(obj) };
        (ep, ep.port.get())
    }

    fn enable(&self) -> c_int {
        if self.port.get().is_some() {
            return 0;
        }
        let uses = lock(&self.uses);
        let Some(uses) = &*uses else { return -code::EOPBADSTATE };
        let Some(av) = &uses.av else { return -code::ENOAV };
        let (works, bindings) = (&uses.domain.works, uses.bindings.clone());
        match Port::open(self.caps, works, bindings, (self.place.as_ref(), self.form)) {
            Ok(port) => {
                av.attach(&port);
                uses.domain.registry.attach(&port);
                let _ = self.port.set(port);
                0
            }
            Err(error) => {
                say(Level::Warn, Subsystem::Endpoint, || format!("fi_enable: {error}"));
                -errors::code_of(&error)
            }
        }
    }
}

/// Flags that an alias may have for its own.
const OF_ALIASES: u64 = offer::TX_FLAGS | offer::RX_FLAGS | flag::TRIGGER;

impl Ep {
    /// `fi_ep_alias`: the same endpoint with other default flags, for sends (`FI_TRANSMIT`), receives (`FI_RECV`), or both. It must be
    /// enabled: an alias has no settings of its own.
    ///
    /// # Safety
    /// `argument` must be null or whole, and say where the alias goes.
    unsafe fn alias(&self, argument: *const Alias) -> c_int {
        // SAFETY: says the caller.
        let Some(argument) = (unsafe { argument.as_ref() }) else { return -libc::EINVAL };
        let Some(port) = self.port.get() else { return -code::EOPBADSTATE };
        let sides = argument.flags & (flag::SEND | flag::RECV);
        let own = argument.flags & !sides;
        if sides == 0 || own & !OF_ALIASES != 0 {
            return -code::EBADFLAGS;
        }
        let of = |side: u64, flags: u64| if sides & side == 0 { flags } else { own };
        // SAFETY: the head is ours, and nobody writes to it: integers and pointers to static tables.
        let head = Head::new(unsafe { self.head.get().read() });
        let alias = Self {
            head,
            caps: self.caps,
            send_flags: of(flag::SEND, self.send_flags),
            tx_flags: of(flag::SEND, self.tx_flags),
            rx_flags: of(flag::RECV, self.rx_flags),
            free_len_min: AtomicUsize::new(self.free_len_min.load(Ordering::Relaxed)),
            uses: Mutex::new(None),
            place: None,
            form: self.form,
            port: OnceLock::from(Arc::clone(port)),
            aliases: Arc::clone(&self.aliases),
        };
        // SAFETY: says the caller.
        unsafe { object::hand_out(Arc::new(alias), argument.fid) }
    }
}

impl Uses {
    fn bind_counter(&mut self, counter: Arc<Cntr>, flags: u64) -> Result<(), c_int> {
        flags::check(flags, flags::BIND_COUNTER)?;
        self.bindings.counters.push((flags, counter));
        Ok(())
    }

    fn bind_cq(&mut self, cq: Arc<Cq>, flags: u64) -> Result<(), c_int> {
        flags::check(flags, flags::BIND_QUEUE)?;
        if flags & (flag::SEND | flag::RECV) == 0 {
            return Err(code::EBADFLAGS);
        }
        let is_selective = flags & flag::SELECTIVE_COMPLETION != 0;
        let binding = Binding { cq, is_selective };
        if flags & flag::SEND != 0 {
            self.bindings.tx = Some(binding.clone());
        }
        if flags & flag::RECV != 0 {
            self.bindings.rx = Some(binding);
        }
        Ok(())
    }
}

impl Ep {
    /// What was sent is waited for, the application's memory is let go, and all that it used is free again.
    fn shut(&mut self) -> Result<(), c_int> {
        let is_alias = self.port.get().is_some() && lock(&self.uses).is_none();
        if is_alias {
            return Ok(()); // the port is that of the endpoint
        }
        if Arc::strong_count(&self.aliases) > 1 {
            return Err(libc::EBUSY);
        }
        let uses = lock(&self.uses).take();
        let (Some(port), Some(uses)) = (self.port.take(), uses) else { return Ok(()) };
        port.works.forget(port.number());
        let closed = port.close();
        // Only now: peers use registered memory until the endpoint is closed, and who closes a registration meanwhile must find it here.
        uses.domain.registry.detach(&port);
        if let Some(av) = &uses.av {
            av.detach(&port);
        }
        // No other thread finds it any more: it goes on return, in this one.
        closed
    }
}

/// If peers did not accept all in time, that is an error, though the endpoint is closed and keeps nothing busy. Then its object stays, so
/// that an application that takes an error to mean "still open" may close it once more.
unsafe extern "C" fn close(ep: Obj) -> c_int {
    // SAFETY: the table is that of endpoints; nobody else uses what is being closed.
    unsafe { object::close_by(ep, |ep: &mut Ep| ep.shut()) }
}

unsafe extern "C" fn bind(ep: Obj, other: Obj, flags: u64) -> c_int {
    // SAFETY: an endpoint of ours, and an object of this provider that says what it is.
    unsafe {
        let ep = object::object::<Ep>(ep);
        if ep.port.get().is_some() {
            return -code::EOPBADSTATE;
        }
        let mut uses = lock(&ep.uses);
        let Some(uses) = &mut *uses else { return -code::EOPBADSTATE };
        let bound = match common::class_of(other) {
            Some(class::CQ) => uses.bind_cq(object::shared(other), flags),
            Some(class::AV) => {
                uses.av = Some(object::shared(other));
                Ok(())
            }
            Some(class::STX_CTX) => {
                uses.stx = Some(object::shared(other));
                Ok(())
            }
            Some(class::CNTR) => uses.bind_counter(object::shared(other), flags),
            Some(class::EQ) => Ok(()), // there are no events of endpoints without connections
            _ => Err(libc::EINVAL),
        };
        bound.map_or_else(|code| -code, |()| 0)
    }
}

unsafe extern "C" fn control(ep: Obj, what: c_int, argument: *mut c_void) -> c_int {
    // SAFETY: an endpoint of ours.
    let ep = unsafe { object::object::<Ep>(ep) };
    match what {
        command::ENABLE => ep.enable(),
        // SAFETY: the command's argument is a place of flags, or null.
        command::GETOPSFLAG => unsafe { common::control_flags(argument, ep.tx_flags, ep.rx_flags) },
        // SAFETY: the command's argument says where to put the alias, or is null.
        command::ALIAS => unsafe { ep.alias(argument.cast()) },
        _ => -libc::ENOSYS,
    }
}

unsafe extern "C" fn cancel(ep: Obj, context: *mut c_void) -> isize {
    // SAFETY: an endpoint of ours.
    let (_, port) = unsafe { Ep::of(ep) };
    let Some(port) = port else { return -(code::EOPBADSTATE as isize) };
    port.cancel(context as usize);
    0
}

unsafe extern "C" fn getopt(
    ep: Obj,
    level: c_int,
    name: c_int,
    out: *mut c_void,
    len: *mut usize,
) -> c_int {
    if (level, name) != (kind::OPT_ENDPOINT, kind::OPT_MIN_MULTI_RECV) {
        return -libc::ENOPROTOOPT;
    }
    // SAFETY: an endpoint of ours; the application's place, and how long it is.
    unsafe {
        let value = object::object::<Ep>(ep).free_len_min.load(Ordering::Relaxed);
        object::copy_out(&value.to_ne_bytes(), out, len)
    }
}

unsafe extern "C" fn setopt(
    ep: Obj,
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: usize,
) -> c_int {
    if (level, name) != (kind::OPT_ENDPOINT, kind::OPT_MIN_MULTI_RECV) {
        return -libc::ENOPROTOOPT;
    }
    if value.is_null() || len != size_of::<usize>() {
        return -libc::EINVAL;
    }
    // SAFETY: an endpoint of ours; so many bytes of the application.
    unsafe {
        let value = value.cast::<usize>().read_unaligned();
        object::object::<Ep>(ep).free_len_min.store(value, Ordering::Relaxed);
    }
    0
}

/// What is posted is bounded by the application alone.
unsafe extern "C" fn rx_size_left(_ep: Obj) -> isize {
    offer::QUEUE_LEN as isize
}

/// What is posted is bounded by the application alone.
unsafe extern "C" fn tx_size_left(_ep: Obj) -> isize {
    offer::QUEUE_LEN as isize
}

unsafe extern "C" fn getname(ep: Obj, out: *mut c_void, len: *mut usize) -> c_int {
    // SAFETY: an endpoint of ours.
    let (ep, port) = unsafe { Ep::of(ep) };
    let name = match (port, &ep.place) {
        (Some(port), _) => port.name(ep.form),
        // Where it will be found is known before it has an address.
        (None, Some(place)) => Name::of_place(ep.form, place).ok(),
        (None, None) => return -code::EOPBADSTATE,
    };
    let Some(name) = name else { return -libc::ENODATA };
    // SAFETY: the application's buffer, and how long it is.
    unsafe { object::copy_out(name.as_slice(), out, len) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_level_of_messages_is_lowered_where_the_environment_says_so() {
        let lowered = flag::COMPLETION | flag::INJECT_COMPLETE;
        for level in [0, flag::TRANSMIT_COMPLETE, flag::DELIVERY_COMPLETE, flag::MATCH_COMPLETE] {
            let flags = flag::COMPLETION | level;
            assert_eq!(level_of_messages(flags, false), flags);
            assert_eq!(level_of_messages(flags, true), lowered);
        }
    }
}
