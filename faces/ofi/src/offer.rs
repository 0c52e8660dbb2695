//! What this provider offers, in numbers, and whether that meets what an application asks for.
//!
//! The rules are those of libfabric's own providers: what is asked for and cannot be had is a refusal; what is given beyond it is not.
//! Some things are *echoed*: MPICH gives up if it asked for less than it got. The answer is made in `info`.

use crate::abi::{
    DomainAttr, EpAttr, RxAttr, SHARED_CONTEXT, TxAttr, flag, kind, mr_mode, order, version,
};
use crate::form::Form;

/// Capabilities an application gets only if it asks for them.
pub(crate) const PRIMARY: u64 = flag::MSG
    | flag::TAGGED
    | flag::SEND
    | flag::RECV
    | flag::DIRECTED_RECV
    | ONE_SIDED
    | ONE_SIDED_WAYS;
/// Of these, what works on a peer's memory,
pub(crate) const ONE_SIDED: u64 = flag::RMA | flag::ATOMIC;
/// and in which directions.
const ONE_SIDED_WAYS: u64 = flag::READ | flag::WRITE | flag::REMOTE_READ | flag::REMOTE_WRITE;
/// Capabilities an application gets whether it asks or not.
pub(crate) const SECONDARY: u64 = flag::MULTI_RECV | flag::LOCAL_COMM | flag::REMOTE_COMM;
/// Capabilities that cost something: only if asked for, though they are secondary.
pub(crate) const ON_REQUEST: u64 = flag::SOURCE | flag::RMA_EVENT | flag::TRIGGER;
const SUPPORTED: u64 = PRIMARY | SECONDARY | ON_REQUEST;
/// Of these, those that say something about sending, and about receiving.
pub(crate) const SENDING: u64 =
    flag::MSG | flag::TAGGED | flag::SEND | ONE_SIDED | flag::READ | flag::WRITE | flag::TRIGGER;
pub(crate) const RECEIVING: u64 = flag::MSG
    | flag::TAGGED
    | flag::RECV
    | flag::MULTI_RECV
    | flag::DIRECTED_RECV
    | ON_REQUEST
    | ONE_SIDED
    | flag::REMOTE_READ
    | flag::REMOTE_WRITE;
const DOMAIN_CAPS: u64 = flag::LOCAL_COMM | flag::REMOTE_COMM;

/// Flags that may be an endpoint's default.
pub(crate) const TX_FLAGS: u64 = flag::COMPLETION
    | flag::INJECT
    | flag::INJECT_COMPLETE
    | flag::TRANSMIT_COMPLETE
    | flag::DELIVERY_COMPLETE
    | flag::MATCH_COMPLETE;
pub(crate) const RX_FLAGS: u64 = flag::COMPLETION | flag::MULTI_RECV;

/// The orders that hold: messages to one peer are matched as they were sent; short operations on its memory, up to `ORDERED_LEN_MAX`, are carried
/// out as they were posted (PROTOCOL §11.7). Between the two there is none.
pub(crate) const ORDER: u64 = order::SAS
    | order::RMA_RAR
    | order::RMA_RAW
    | order::RMA_WAR
    | order::RMA_WAW
    | order::ATOMIC_RAR
    | order::ATOMIC_RAW
    | order::ATOMIC_WAR
    | order::ATOMIC_WAW;
/// So long is an operation on a peer's memory that keeps its order.
pub(crate) const ORDERED_LEN_MAX: usize =
    packhorse::raw::atomic_len_max(packhorse::raw::AtomicOp::Sum);
/// Messages up to this are copied when they are posted. MPI libraries send all they can that way: beyond it the copy would cost
/// more than waiting for the acknowledgement, and a receiver on this host reads the message from where it is.
pub(crate) const INJECT_LEN_MAX: usize = 12 << 10;
/// A send that is complete when there is a copy is copied up to this length; what an endpoint sends unasked.
pub(crate) const COPY_LEN_MAX: usize = 64 << 10;
/// Shorter ones are copied, whoever their receiver is and whatever `PACKHORSE_FETCH` says.
pub(crate) const FETCHED_LEN_MIN: usize = 4 << 10;
/// Operations an application is told it may have open; and how many it may ask for. Ours grow with what is posted.
pub(crate) const QUEUE_LEN: usize = 1024;
const QUEUE_LEN_MAX: usize = 1 << 16;
/// Pieces of memory per operation.
pub(crate) const PIECE_COUNT_MAX: usize = 16;
/// Bytes of a message, and of a read or write of a peer's memory: what the protocol can state.
pub(crate) const MESSAGE_LEN_MAX: usize = packhorse::raw::MESSAGE_LEN_MAX as usize;
/// Immediate data: eight bytes.
pub(crate) const CQ_DATA_LEN: usize = 8;
/// Keys of registered memory: eight bytes.
pub(crate) const KEY_LEN: usize = 8;
/// All 64 bits of a tag, in the alternating pattern that means one field each.
pub(crate) const TAG_FORMAT: u64 = 0xAAAA_AAAA_AAAA_AAAA;
/// Our protocol among libfabric's.
pub(crate) const PROTOCOL: u32 = crate::abi::PROV_SPECIFIC | 0x5048;
/// The form of our addresses: 64 bytes that only we understand.
pub(crate) const ADDRESS_FORMAT: u32 = crate::abi::PROV_SPECIFIC | 0x5048;
/// Objects of each kind; a number has to be told, nothing runs out there.
pub(crate) const OBJECT_COUNT: usize = 1 << 16;
/// Fabric and domain are one each: an endpoint uses all links of its host by itself.
pub(crate) const NAME: &std::ffi::CStr = c"packhorse";

/// What an application asks for; a part that it left out, or null, is `None` or zero.
#[derive(Clone, Default)]
pub(crate) struct Wishes {
    pub(crate) caps: u64,
    pub(crate) address_format: u32,
    pub(crate) ep: Option<EpAttr>,
    pub(crate) domain: Option<DomainAttr>,
    pub(crate) domain_name: Option<String>,
    pub(crate) fabric_name: Option<String>,
    pub(crate) tx: Option<TxAttr>,
    pub(crate) rx: Option<RxAttr>,
}

/// The first wish that cannot be met.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// In words.
    pub(crate) text: String,
    /// Whether a setting or a word of the user's is in the way: then asking for less does not help.
    pub(crate) is_users: bool,
}

impl Refusal {
    pub(crate) fn by_user(text: String) -> Self {
        Self { text, is_users: true }
    }
}

impl From<String> for Refusal {
    fn from(text: String) -> Self {
        Self { text, is_users: false }
    }
}

/// Whether all wishes can be met.
pub(crate) fn check(wishes: &Wishes, is_driven: bool) -> Result<(), Refusal> {
    within("caps", wishes.caps, SUPPORTED)?;
    if Form::of(wishes.address_format).is_none() {
        let why = "addresses are of a form of their own, or FI_SOCKADDR_IN, FI_SOCKADDR_IN6 or FI_ADDR_STR";
        return refuse("addr_format", wishes.address_format, why);
    }
    named("domain_attr->name", wishes.domain_name.as_deref())?;
    named("fabric_attr->name", wishes.fabric_name.as_deref())?;
    wishes.ep.as_ref().map_or(Ok(()), check_ep)?;
    wishes.domain.as_ref().map_or(Ok(()), |domain| check_domain(domain, is_driven))?;
    wishes.tx.as_ref().map_or(Ok(()), check_tx)?;
    wishes.rx.as_ref().map_or(Ok(()), check_rx)?;
    check_one_sided(wishes)
}

/// What matters only to who works on a peer's memory.
fn check_one_sided(wishes: &Wishes) -> Result<(), Refusal> {
    if wishes.caps & ONE_SIDED == 0 {
        return Ok(());
    }
    if let Some(ep) = &wishes.ep {
        at_most("ep_attr->max_order_raw_size", ep.max_order_raw_size, ORDERED_LEN_MAX)?;
        at_most("ep_attr->max_order_war_size", ep.max_order_war_size, ORDERED_LEN_MAX)?;
        at_most("ep_attr->max_order_waw_size", ep.max_order_waw_size, ORDERED_LEN_MAX)?;
    }
    match &wishes.domain {
        Some(domain) if domain.mr_mode == mr_mode::BASIC => {
            refuse("domain_attr->mr_mode", 1, "peers name registered memory by key and offset only")
        }
        _ => Ok(()),
    }
}

fn check_ep(ep: &EpAttr) -> Result<(), Refusal> {
    if ep.kind != 0 && ep.kind != kind::EP_RDM {
        return refuse("ep_attr->type", ep.kind, "only FI_EP_RDM is offered");
    }
    if ep.protocol != 0 && ep.protocol != PROTOCOL {
        return refuse("ep_attr->protocol", ep.protocol, "it is another one");
    }
    at_most("ep_attr->protocol_version", ep.protocol_version as usize, 1)?;
    at_most("ep_attr->max_msg_size", ep.max_msg_size, MESSAGE_LEN_MAX)?;
    if ep.tx_ctx_cnt != SHARED_CONTEXT {
        at_most("ep_attr->tx_ctx_cnt", ep.tx_ctx_cnt, 1)?;
    }
    at_most("ep_attr->rx_ctx_cnt", ep.rx_ctx_cnt, 1)?;
    at_most("ep_attr->auth_key_size", ep.auth_key_size, 0)
}

fn check_domain(domain: &DomainAttr, is_driven: bool) -> Result<(), Refusal> {
    for (name, wish) in [
        ("domain_attr->control_progress", domain.control_progress),
        ("domain_attr->data_progress", domain.data_progress),
    ] {
        if wish == kind::PROGRESS_AUTO && !is_driven {
            return Err(Refusal::by_user(format!(
                "{name}: {wish} is asked for; PACKHORSE_PLACEMENT=inline leaves nobody to make progress"
            )));
        }
    }
    within("domain_attr->caps", domain.caps, DOMAIN_CAPS)?;
    at_most("domain_attr->cq_data_size", domain.cq_data_size, CQ_DATA_LEN)?;
    at_most("domain_attr->mr_key_size", domain.mr_key_size, KEY_LEN)?;
    at_most("domain_attr->cntr_cnt", domain.cntr_cnt, OBJECT_COUNT)?;
    at_most("domain_attr->cq_cnt", domain.cq_cnt, OBJECT_COUNT)?;
    at_most("domain_attr->ep_cnt", domain.ep_cnt, OBJECT_COUNT)?;
    at_most("domain_attr->mr_iov_limit", domain.mr_iov_limit, PIECE_COUNT_MAX)?;
    at_most("domain_attr->max_err_data", domain.max_err_data, 0)?;
    at_most("domain_attr->auth_key_size", domain.auth_key_size, 0)
}

fn check_tx(tx: &TxAttr) -> Result<(), Refusal> {
    within("tx_attr->caps", tx.caps, SUPPORTED)?;
    within("tx_attr->op_flags", tx.op_flags, TX_FLAGS)?;
    within("tx_attr->msg_order", tx.msg_order, ORDER)?;
    within("tx_attr->comp_order", tx.comp_order, 0)?;
    at_most("tx_attr->inject_size", tx.inject_size, INJECT_LEN_MAX)?;
    at_most("tx_attr->size", tx.size, QUEUE_LEN_MAX)?;
    at_most("tx_attr->iov_limit", tx.iov_limit, PIECE_COUNT_MAX)?;
    at_most("tx_attr->rma_iov_limit", tx.rma_iov_limit, 1)
}

fn check_rx(rx: &RxAttr) -> Result<(), Refusal> {
    within("rx_attr->caps", rx.caps, SUPPORTED)?;
    within("rx_attr->op_flags", rx.op_flags, RX_FLAGS)?;
    within("rx_attr->msg_order", rx.msg_order, ORDER)?;
    within("rx_attr->comp_order", rx.comp_order, 0)?;
    at_most("rx_attr->size", rx.size, QUEUE_LEN_MAX)?;
    at_most("rx_attr->iov_limit", rx.iov_limit, PIECE_COUNT_MAX)
}

fn within(name: &str, wish: u64, offered: u64) -> Result<(), Refusal> {
    let beyond = wish & !offered;
    if beyond == 0 {
        return Ok(());
    }
    Err(format!("{name}: {wish:#x} is asked for, of which {beyond:#x} is not offered").into())
}

fn at_most(name: &str, wish: usize, most: usize) -> Result<(), Refusal> {
    if wish <= most {
        return Ok(());
    }
    Err(format!("{name}: {wish} is asked for, {most} is the most").into())
}

fn named(name: &str, wish: Option<&str>) -> Result<(), Refusal> {
    let ours = NAME.to_str().unwrap_or_default();
    match wish.filter(|wish| !wish.eq_ignore_ascii_case(ours)) {
        Some(wish) => Err(format!("{name}: `{wish}` is asked for, there is only `{ours}`").into()),
        None => Ok(()),
    }
}

fn refuse(name: &str, wish: u32, why: &str) -> Result<(), Refusal> {
    Err(format!("{name}: {wish} is asked for; {why}").into())
}

/// The capabilities an application gets.
pub(crate) fn caps_for(wish: u64) -> u64 {
    if wish == 0 {
        return PRIMARY | SECONDARY;
    }
    let mut caps = wish & (PRIMARY | ON_REQUEST) | SECONDARY;
    let either = flag::SEND | flag::RECV;
    if caps & (flag::MSG | flag::TAGGED) != 0 && caps & either == 0 {
        caps |= either;
    }
    if caps & ONE_SIDED != 0 && caps & ONE_SIDED_WAYS == 0 {
        caps |= ONE_SIDED_WAYS;
    }
    caps
}

/// The registration mode an application gets. We need none of the bits it may offer; the two words of the old days are
/// echoed, and without a word old applications get the one that means what zero means today.
pub(crate) fn mr_mode_for(wish: i32, api: u32) -> i32 {
    if wish == mr_mode::BASIC || wish == mr_mode::SCALABLE {
        wish
    } else if api < version(1, 5) {
        mr_mode::SCALABLE
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zeroed<T: crate::abi::Zeroable + Copy>() -> T {
        let made = crate::abi::made::<T>().unwrap();
        // SAFETY: just allocated by `made`, zeroed, of this type; freed once.
        unsafe {
            let value = made.as_ptr().read();
            libc::free(made.as_ptr().cast());
            value
        }
    }

    fn with_tx(change: impl FnOnce(&mut TxAttr)) -> Wishes {
        let mut tx = zeroed();
        change(&mut tx);
        Wishes { tx: Some(tx), ..Wishes::default() }
    }

    #[test]
    fn what_open_mpi_asks_for_is_offered() {
        let (mut ep, mut domain): (EpAttr, DomainAttr) = (zeroed(), zeroed());
        ep.kind = kind::EP_RDM;
        domain.threading = kind::THREAD_DOMAIN;
        domain.resource_mgmt = kind::RM_ENABLED;
        domain.cq_data_size = 4;
        let mut wishes = with_tx(|tx| (tx.msg_order, tx.op_flags) = (order::SAS, flag::COMPLETION));
        wishes.caps = flag::TAGGED | flag::LOCAL_COMM | flag::REMOTE_COMM | flag::DIRECTED_RECV;
        (wishes.ep, wishes.domain) = (Some(ep), Some(domain));
        assert_eq!(check(&wishes, true), Ok(()));
    }

    #[test]
    fn refusals_name_the_hint() {
        let wishes = Wishes { caps: 1 << 6, ..Wishes::default() };
        let refusal = check(&wishes, true).unwrap_err();
        assert!(refusal.text.starts_with("caps: 0x40") && !refusal.is_users, "{refusal:?}");
        let long = with_tx(|tx| tx.inject_size = INJECT_LEN_MAX + 1);
        assert!(check(&long, true).unwrap_err().text.contains("tx_attr->inject_size"));
        let undefined = with_tx(|tx| tx.msg_order = 1 << 63);
        assert!(check(&undefined, true).unwrap_err().text.contains("msg_order"));
        let mut ep: EpAttr = zeroed();
        ep.kind = 1; // FI_EP_MSG, which ofi_rxm asks everybody for
        let wishes = Wishes { ep: Some(ep), ..Wishes::default() };
        assert!(check(&wishes, true).unwrap_err().text.contains("FI_EP_RDM"));
        let wishes = Wishes { domain_name: Some("eth0".into()), ..Wishes::default() };
        assert!(check(&wishes, true).unwrap_err().text.contains("`packhorse`"));
    }

    #[test]
    fn automatic_progress_needs_somebody_to_make_it() {
        let mut domain: DomainAttr = zeroed();
        domain.data_progress = kind::PROGRESS_AUTO;
        let wishes = Wishes { domain: Some(domain), ..Wishes::default() };
        assert_eq!(check(&wishes, true), Ok(()));
        let refusal = check(&wishes, false).unwrap_err();
        assert!(refusal.text.contains("PACKHORSE_PLACEMENT") && refusal.is_users, "{refusal:?}");
    }

    #[test]
    fn primary_capabilities_come_on_request_only() {
        assert_eq!(caps_for(0) & flag::SOURCE, 0);
        let tagged = caps_for(flag::TAGGED);
        assert_eq!(tagged & (flag::MSG | flag::DIRECTED_RECV), 0);
        assert_ne!(tagged & flag::SEND, 0);
        assert_ne!(tagged & flag::MULTI_RECV, 0);
        assert_eq!(caps_for(flag::MSG | flag::RECV) & flag::SEND, 0);
    }

    #[test]
    fn the_words_of_the_old_days_are_echoed() {
        assert_eq!(mr_mode_for(0, version(1, 17)), 0);
        assert_eq!(mr_mode_for(mr_mode::VIRT_ADDR | mr_mode::PROV_KEY, version(1, 5)), 0);
        assert_eq!(mr_mode_for(mr_mode::BASIC, version(1, 17)), mr_mode::BASIC);
        assert_eq!(mr_mode_for(0, 0), mr_mode::SCALABLE);
    }
}
