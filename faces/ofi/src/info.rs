//! `fi_getinfo`: hints in, one answer out, or none and the reason in the log.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::offset_of;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ptr::NonNull;

use packhorse::{Address, Placement};
use packhorse_common::pointed::text;

use crate::abi::{
    DomainAttr, EpAttr, FabricAttr, Info, RxAttr, TxAttr, Zeroable, flag, kind, made,
};
use crate::form::{Form, Name};
use crate::object;
use crate::offer::{self, Wishes};
use crate::place::Place;
use crate::refusals;

/// Bytes of `fi_domain_attr` that every version of the interface has.
const DOMAIN_ATTR_LEN_MIN: usize = offset_of!(DomainAttr, max_ep_auth_key);

/// The provider's `getinfo`.
pub(crate) unsafe extern "C" fn getinfo(
    version: u32,
    node: *const c_char,
    service: *const c_char,
    flags: u64,
    hints: *const Info,
    out: *mut *mut Info,
) -> c_int {
    if out.is_null() {
        return -libc::EINVAL;
    }
    // SAFETY: the library hands on what the application gave: null, or hints that stay as they are for the call.
    let (wishes, ends, is_named) = unsafe { read(hints) };
    // SAFETY: null or strings, as the library's contract says.
    let (node, service) = unsafe { (text(node), text(service)) };
    let is_source = flags & flag::SOURCE != 0;
    let answer = offer::check(&wishes, is_driven())
        .and_then(|()| form_of(&wishes, is_named))
        .and_then(|form| ends_of(form, (node, service), is_source, is_named))
        .map(|named| {
            let form = Form::of(wishes.address_format).unwrap_or_default();
            // Programs that ask for any provider do not look at it.
            let nowhere = if is_named { Ends::of_nowhere(form) } else { Ends::default() };
            named.or(ends).or(nowhere)
        });
    match answer {
        Ok(ends) => {
            let Some(info) = answer_to(&wishes, version, &ends) else { return -libc::ENOMEM };
            // SAFETY: `out` is the library's, for our list.
            unsafe { out.write(info.as_ptr()) };
            refusals::on_answered();
            0
        }
        Err(refusal) => {
            refusals::on_refused(refusal, is_named);
            -libc::ENODATA
        }
    }
}

/// Whether progress is made while the application is elsewhere.
fn is_driven() -> bool {
    packhorse::Builder::new().placement_chosen() == Placement::Thread
}

/// Where an endpoint is to be found, and whom it wants to reach: addresses or places.
#[derive(Clone, Copy, Default)]
struct Ends {
    source: Option<Name>,
    destination: Option<Name>,
}

impl Ends {
    /// Where nobody asked for a source: one that says so.
    fn of_nowhere(form: Form) -> Self {
        let source = match form {
            Form::Own => Some(Name::new(form, &Place::nowhere())),
            Form::V4 => Some(Name::of_socket(form, (Ipv4Addr::UNSPECIFIED, 0).into())),
            Form::V6 => Some(Name::of_socket(form, (Ipv6Addr::UNSPECIFIED, 0).into())),
            Form::Text => None,
        };
        Self { source, destination: None }
    }

    fn or(self, other: Self) -> Self {
        let source = self.source.or(other.source);
        Self { source, destination: self.destination.or(other.destination) }
    }
}

/// What hints say; which ends they name; and whether they ask for us by name.
///
/// # Safety
/// Null, or a `fi_info` of the application, whole, with what hangs on it.
unsafe fn read(hints: *const Info) -> (Wishes, Ends, bool) {
    // SAFETY: null or valid, says the caller; so are the pointers in it, which is all `read` is used for below.
    unsafe {
        let Some(hints) = hints.as_ref() else {
            return (Wishes::default(), Ends::default(), by_environment());
        };
        let fabric = hints.fabric_attr.as_ref();
        let domain_name = hints.domain_attr.as_ref().and_then(|domain| text(domain.name));
        let provider = fabric.and_then(|fabric| text(fabric.prov_name));
        let is_named = provider.is_some_and(|name| name.eq_ignore_ascii_case("packhorse"));
        let form = Form::of(hints.addr_format).unwrap_or_default();
        let name = |at: *mut c_void, len: usize| object::name_at(form, at, Some(len));
        // Of sources only places mean something: an address is drawn when an endpoint opens.
        let source = name(hints.src_addr, hints.src_addrlen).filter(|name| name.place().is_some());
        let ends = Ends { source, destination: name(hints.dest_addr, hints.dest_addrlen) };
        let wishes = Wishes {
            caps: hints.caps,
            address_format: hints.addr_format,
            ep: hints.ep_attr.as_ref().copied(),
            domain: domain_of(hints.domain_attr),
            domain_name: domain_name.map(str::to_owned),
            fabric_name: fabric.and_then(|fabric| text(fabric.name)).map(str::to_owned),
            tx: hints.tx_attr.as_ref().copied(),
            rx: hints.rx_attr.as_ref().copied(),
        };
        (wishes, ends, is_named || by_environment())
    }
}

/// Whether the user wants us and nobody else.
fn by_environment() -> bool {
    std::env::var("FI_PROVIDER").is_ok_and(|name| name.eq_ignore_ascii_case("packhorse"))
}

/// The domain's attributes, of which old applications have fewer than we know.
///
/// # Safety
/// Null, or valid for as many bytes as the oldest version has.
unsafe fn domain_of(attr: *const DomainAttr) -> Option<DomainAttr> {
    if attr.is_null() {
        return None;
    }
    let mut domain = std::mem::MaybeUninit::<DomainAttr>::zeroed();
    // SAFETY: so many bytes are there, says the caller; the rest stays zero, which is a value of every field.
    unsafe {
        std::ptr::copy_nonoverlapping(
            attr.cast::<u8>(),
            domain.as_mut_ptr().cast::<u8>(),
            DOMAIN_ATTR_LEN_MIN,
        );
        Some(domain.assume_init())
    }
}

/// The form of addresses that is asked for. Socket addresses are for applications that ask for us: one that wants them of any
/// provider wants another one.
fn form_of(wishes: &Wishes, is_named: bool) -> Result<Form, offer::Refusal> {
    match Form::of(wishes.address_format).unwrap_or_default() {
        Form::V4 | Form::V6 | Form::Text if !is_named => {
            let wish = wishes.address_format;
            Err(format!("addr_format: {wish} is asked for; socket addresses and text are offered where this provider is asked for by its name").into())
        }
        form => Ok(form),
    }
}

/// The ends that node and service name: the endpoint's own place (`FI_SOURCE`), or a peer's place or address.
fn ends_of(
    form: Form,
    (node, service): (Option<&str>, Option<&str>),
    is_source: bool,
    is_named: bool,
) -> Result<Ends, offer::Refusal> {
    // A number is for applications that ask for us: one that asks any provider for a port of TCP does not mean a number.
    let service = service.filter(|_| is_named);
    let place = |service| {
        let place = Place::new(node, service);
        let name = place.and_then(|place| {
            place.resolve()?;
            Name::of_place(form, &place)
        });
        name.map(Some).map_err(offer::Refusal::by_user)
    };
    // An address as text stands for node and service.
    let whole = node.filter(|_| form == Form::Text && service.is_none());
    let whole = whole.map(|node| Name::new(form, node.as_bytes()));
    if let Some(name) = whole.filter(|name| name.place().is_some() || name.to_address().is_ok()) {
        let place = name.place().map(|_| name);
        return Ok(match is_source {
            true => Ends { source: place, destination: None },
            false => Ends { source: None, destination: Some(name) },
        });
    }
    match (node.map(str::parse::<Address>), service) {
        (_, Some(service)) if is_source => Ok(Ends { source: place(service)?, destination: None }),
        (None, _) => Ok(Ends::default()),
        (Some(_), _) if is_source => Ok(Ends::default()),
        (Some(Ok(address)), _) if matches!(form, Form::Own | Form::Text) => {
            Ok(Ends { source: None, destination: Some(Name::of_address(form, &address)) })
        }
        (Some(Err(_)), Some(service)) => Ok(Ends { source: None, destination: place(service)? }),
        // A host and no number: other providers answer with an address that leads nowhere, and programs ask so that do not look at it.
        (Some(Err(_)), None) if is_named => {
            place("0")?;
            Ok(Ends { source: None, destination: Ends::of_nowhere(form).source })
        }
        (Some(_), _) => Err(offer::Refusal::by_user(format!(
            "node `{}`: a peer is reached by its address, which fi_getname says, or by its host and a number as the service, if this provider is asked for by its name",
            node.unwrap_or_default()
        ))),
    }
}

/// The answer, allocated as the library will free it.
fn answer_to(wishes: &Wishes, version: u32, ends: &Ends) -> Option<NonNull<Info>> {
    let caps = offer::caps_for(wishes.caps);
    let info = made::<Info>()?;
    let parts = (
        allocated(tx_for(wishes, caps))?,
        allocated(rx_for(wishes, caps))?,
        allocated(ep_for(wishes))?,
        allocated(domain_for(wishes, version)?)?,
        allocated(fabric_for()?)?,
    );
    // SAFETY: zeroed memory of this type, ours alone until it is returned.
    let answer = unsafe { &mut *info.as_ptr() };
    let form = Form::of(wishes.address_format).unwrap_or_default();
    (answer.caps, answer.addr_format) = (caps, form.format());
    (answer.tx_attr, answer.rx_attr, answer.ep_attr, answer.domain_attr, answer.fabric_attr) =
        parts;
    if let Some(name) = ends.destination.as_ref().map(Name::as_slice) {
        (answer.dest_addr, answer.dest_addrlen) = (duplicate(name)?, name.len());
    }
    if let Some(name) = ends.source.as_ref().map(Name::as_slice) {
        (answer.src_addr, answer.src_addrlen) = (duplicate(name)?, name.len());
    }
    Some(info)
}

/// Moves a value where the application can free it.
fn allocated<T: Zeroable>(value: T) -> Option<*mut T> {
    let place = made::<T>()?;
    // SAFETY: just allocated, of this type.
    unsafe { place.as_ptr().write(value) };
    Some(place.as_ptr())
}

fn zeroed<T: Zeroable>() -> T {
    // SAFETY: `Zeroable` says that this is a value.
    unsafe { std::mem::zeroed() }
}

/// A wish, or what there is.
fn or(wish: Option<usize>, own: usize) -> usize {
    wish.filter(|&wish| wish != 0).unwrap_or(own)
}

fn tx_for(wishes: &Wishes, caps: u64) -> TxAttr {
    let wish = wishes.tx.as_ref();
    TxAttr {
        caps: caps & offer::SENDING,
        op_flags: wish.map_or(0, |tx| tx.op_flags),
        msg_order: offer::ORDER,
        inject_size: or(wish.map(|tx| tx.inject_size), offer::INJECT_LEN_MAX),
        size: or(wish.map(|tx| tx.size), offer::QUEUE_LEN),
        iov_limit: or(wish.map(|tx| tx.iov_limit), offer::PIECE_COUNT_MAX),
        rma_iov_limit: or(wish.map(|tx| tx.rma_iov_limit), 1),
        ..zeroed()
    }
}

fn rx_for(wishes: &Wishes, caps: u64) -> RxAttr {
    let wish = wishes.rx.as_ref();
    RxAttr {
        caps: caps & offer::RECEIVING,
        op_flags: wish.map_or(0, |rx| rx.op_flags),
        msg_order: offer::ORDER,
        size: or(wish.map(|rx| rx.size), offer::QUEUE_LEN),
        iov_limit: or(wish.map(|rx| rx.iov_limit), offer::PIECE_COUNT_MAX),
        ..zeroed()
    }
}

fn ep_for(wishes: &Wishes) -> EpAttr {
    let wish = wishes.ep.as_ref();
    EpAttr {
        kind: kind::EP_RDM,
        protocol: offer::PROTOCOL,
        protocol_version: 1,
        max_msg_size: offer::MESSAGE_LEN_MAX,
        max_order_raw_size: offer::ORDERED_LEN_MAX,
        max_order_war_size: offer::ORDERED_LEN_MAX,
        max_order_waw_size: offer::ORDERED_LEN_MAX,
        mem_tag_format: offer::TAG_FORMAT,
        tx_ctx_cnt: or(wish.map(|ep| ep.tx_ctx_cnt), 1),
        rx_ctx_cnt: or(wish.map(|ep| ep.rx_ctx_cnt), 1),
        ..zeroed()
    }
}

fn domain_for(wishes: &Wishes, version: u32) -> Option<DomainAttr> {
    let wish = wishes.domain.unwrap_or(zeroed());
    let echo = |wish: u32, own: u32| if wish == 0 { own } else { wish };
    let progress = if is_driven() { kind::PROGRESS_AUTO } else { kind::PROGRESS_MANUAL };
    Some(DomainAttr {
        name: duplicate_text(offer::NAME)?,
        // MPICH gives up unless it gets exactly what it asked for here, though we give more.
        threading: echo(wish.threading, kind::THREAD_SAFE),
        control_progress: echo(wish.control_progress, progress),
        data_progress: echo(wish.data_progress, progress),
        resource_mgmt: kind::RM_ENABLED,
        av_type: wish.av_type,
        mr_mode: offer::mr_mode_for(wish.mr_mode, version),
        mr_key_size: offer::KEY_LEN,
        cq_data_size: offer::CQ_DATA_LEN,
        cq_cnt: offer::OBJECT_COUNT,
        ep_cnt: offer::OBJECT_COUNT,
        tx_ctx_cnt: offer::OBJECT_COUNT,
        rx_ctx_cnt: offer::OBJECT_COUNT,
        max_ep_tx_ctx: 1,
        max_ep_rx_ctx: 1,
        max_ep_stx_ctx: offer::OBJECT_COUNT,
        cntr_cnt: offer::OBJECT_COUNT,
        mr_iov_limit: offer::PIECE_COUNT_MAX,
        mr_cnt: offer::OBJECT_COUNT,
        caps: flag::LOCAL_COMM | flag::REMOTE_COMM,
        max_cntr_value: u64::MAX,
        max_err_cntr_value: u64::MAX,
        ..zeroed()
    })
}

fn fabric_for() -> Option<FabricAttr> {
    Some(FabricAttr { name: duplicate_text(offer::NAME)?, ..zeroed() })
}

fn duplicate_text(text: &CStr) -> Option<*mut c_char> {
    // SAFETY: a string that ends.
    let copy = unsafe { libc::strdup(text.as_ptr()) };
    (!copy.is_null()).then_some(copy)
}

fn duplicate(bytes: &[u8]) -> Option<*mut c_void> {
    // SAFETY: so many bytes are allocated before they are written; the two do not overlap.
    unsafe {
        let copy = NonNull::new(libc::malloc(bytes.len()))?;
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), copy.as_ptr().cast(), bytes.len());
        Some(copy.as_ptr())
    }
}
