//! `fi_getinfo`: hints in, one answer out, or none and the reason in the log.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::offset_of;
use std::ptr::NonNull;

use packhorse::{Address, Placement};

use crate::abi::{
    DomainAttr, EpAttr, FabricAttr, Info, RxAttr, TxAttr, Zeroable, flag, kind, made,
};
use crate::object::text;
use crate::offer::{self, Wishes};
use crate::refusals;

/// Bytes of `fi_domain_attr` that every version of the interface has.
const DOMAIN_ATTR_LEN_MIN: usize = offset_of!(DomainAttr, max_ep_auth_key);

/// The provider's `getinfo`.
pub(crate) unsafe extern "C" fn getinfo(
    version: u32,
    node: *const c_char,
    _service: *const c_char,
    flags: u64,
    hints: *const Info,
    out: *mut *mut Info,
) -> c_int {
    if out.is_null() {
        return -libc::EINVAL;
    }
    // SAFETY: the library hands on what the application gave: null, or hints that stay as they are for the call.
    let (wishes, destination, is_named) = unsafe { read(hints) };
    // SAFETY: null or a string, as the library's contract says.
    let node = unsafe { text(node) }.filter(|_| flags & flag::SOURCE == 0);
    let answer = offer::check(&wishes, is_driven())
        .and_then(|()| destination_of(node).map(|named| named.or(destination)));
    match answer {
        Ok(destination) => {
            let Some(info) = answer_to(&wishes, version, destination) else { return -libc::ENOMEM };
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

/// What hints say; the address they want to reach; and whether they ask for us by name.
///
/// # Safety
/// Null, or a `fi_info` of the application, whole, with what hangs on it.
unsafe fn read(hints: *const Info) -> (Wishes, Option<[u8; 64]>, bool) {
    // SAFETY: null or valid, says the caller; so are the pointers in it, which is all `read` is used for below.
    unsafe {
        let Some(hints) = hints.as_ref() else {
            return (Wishes::default(), None, by_environment());
        };
        let fabric = hints.fabric_attr.as_ref();
        let domain_name = hints.domain_attr.as_ref().and_then(|domain| text(domain.name));
        let provider = fabric.and_then(|fabric| text(fabric.prov_name));
        let is_named = provider.is_some_and(|name| name.eq_ignore_ascii_case("packhorse"));
        let destination = (!hints.dest_addr.is_null() && hints.dest_addrlen == 64)
            .then(|| hints.dest_addr.cast::<[u8; 64]>().read_unaligned());
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
        (wishes, destination, is_named || by_environment())
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

/// A peer's address given as text, in place of a host's name.
fn destination_of(node: Option<&str>) -> Result<Option<[u8; 64]>, offer::Refusal> {
    let Some(node) = node else { return Ok(None) };
    match node.parse::<Address>() {
        Ok(address) => Ok(Some(address.encode())),
        Err(error) => Err(offer::Refusal::by_user(format!(
            "node `{node}`: a peer is reached by its address, not by its host's name; exchange what fi_getname says ({error})"
        ))),
    }
}

/// The answer, allocated as the library will free it.
fn answer_to(
    wishes: &Wishes,
    version: u32,
    destination: Option<[u8; 64]>,
) -> Option<NonNull<Info>> {
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
    (answer.caps, answer.addr_format) = (caps, offer::ADDRESS_FORMAT);
    (answer.tx_attr, answer.rx_attr, answer.ep_attr, answer.domain_attr, answer.fabric_attr) =
        parts;
    if let Some(address) = destination {
        answer.dest_addr = duplicate(&address)?;
        answer.dest_addrlen = address.len();
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
