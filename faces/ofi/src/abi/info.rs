//! What providers and applications tell each other before anything is opened: `fi_info` and what hangs on it.
//!
//! Applications free these with libc's `free`, and newer libraries copy more of them than older ones know: `made` allocates with room behind.

use std::ffi::{c_char, c_void};

/// `fi_info`: what is offered, or asked for.
#[repr(C)]
pub struct Info {
    pub next: *mut Self,
    pub caps: u64,
    pub mode: u64,
    pub addr_format: u32,
    pub src_addrlen: usize,
    pub dest_addrlen: usize,
    pub src_addr: *mut c_void,
    pub dest_addr: *mut c_void,
    pub handle: *mut c_void,
    pub tx_attr: *mut TxAttr,
    pub rx_attr: *mut RxAttr,
    pub ep_attr: *mut EpAttr,
    pub domain_attr: *mut DomainAttr,
    pub fabric_attr: *mut FabricAttr,
    pub nic: *mut c_void,
}

/// `fi_tx_attr`: sending.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct TxAttr {
    pub caps: u64,
    pub mode: u64,
    pub op_flags: u64,
    pub msg_order: u64,
    pub comp_order: u64,
    pub inject_size: usize,
    pub size: usize,
    pub iov_limit: usize,
    pub rma_iov_limit: usize,
    pub tclass: u32,
}

/// `fi_rx_attr`: receiving.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RxAttr {
    pub caps: u64,
    pub mode: u64,
    pub op_flags: u64,
    pub msg_order: u64,
    pub comp_order: u64,
    pub total_buffered_recv: usize,
    pub size: usize,
    pub iov_limit: usize,
}

/// `fi_ep_attr`: an endpoint.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct EpAttr {
    pub kind: u32,
    pub protocol: u32,
    pub protocol_version: u32,
    pub max_msg_size: usize,
    pub msg_prefix_size: usize,
    pub max_order_raw_size: usize,
    pub max_order_war_size: usize,
    pub max_order_waw_size: usize,
    pub mem_tag_format: u64,
    pub tx_ctx_cnt: usize,
    pub rx_ctx_cnt: usize,
    pub auth_key_size: usize,
    pub auth_key: *mut u8,
}

/// `fi_domain_attr`, with the fields that later versions added at its end.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DomainAttr {
    pub domain: *mut c_void,
    pub name: *mut c_char,
    pub threading: u32,
    pub control_progress: u32,
    pub data_progress: u32,
    pub resource_mgmt: u32,
    pub av_type: u32,
    pub mr_mode: i32,
    pub mr_key_size: usize,
    pub cq_data_size: usize,
    pub cq_cnt: usize,
    pub ep_cnt: usize,
    pub tx_ctx_cnt: usize,
    pub rx_ctx_cnt: usize,
    pub max_ep_tx_ctx: usize,
    pub max_ep_rx_ctx: usize,
    pub max_ep_stx_ctx: usize,
    pub max_ep_srx_ctx: usize,
    pub cntr_cnt: usize,
    pub mr_iov_limit: usize,
    pub caps: u64,
    pub mode: u64,
    pub auth_key: *mut u8,
    pub auth_key_size: usize,
    pub max_err_data: usize,
    pub mr_cnt: usize,
    pub tclass: u32,
    /// Since 1.20.
    pub max_ep_auth_key: usize,
    /// Since 2.0.
    pub max_group_id: u32,
    /// Since 2.5.
    pub max_cntr_value: u64,
    /// Since 2.5.
    pub max_err_cntr_value: u64,
}

/// `fi_fabric_attr`: the network as a whole. The library fills in the provider's name and versions.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct FabricAttr {
    pub fabric: *mut c_void,
    pub name: *mut c_char,
    pub prov_name: *mut c_char,
    pub prov_version: u32,
    pub api_version: u32,
}

/// Bytes of zeros behind every structure: libraries of later versions copy as much as *they* think it has.
const SLACK_LEN: usize = 512;

/// A zeroed structure with room behind, to be freed with libc's `free`. All of these are valid when zero.
pub fn made<T: Zeroable>() -> Option<std::ptr::NonNull<T>> {
    // SAFETY: no precondition; null is looked at below.
    let memory = unsafe { libc::calloc(1, size_of::<T>() + SLACK_LEN) };
    std::ptr::NonNull::new(memory.cast())
}

/// Structures of integers and raw pointers, for which all bits zero is a value.
///
/// # Safety
/// All-zero bytes must be a valid value of the type.
pub unsafe trait Zeroable {}
// SAFETY: integers and raw pointers only.
unsafe impl Zeroable for Info {}
// SAFETY: integers only.
unsafe impl Zeroable for TxAttr {}
// SAFETY: integers only.
unsafe impl Zeroable for RxAttr {}
// SAFETY: integers and raw pointers only.
unsafe impl Zeroable for EpAttr {}
// SAFETY: integers and raw pointers only.
unsafe impl Zeroable for DomainAttr {}
// SAFETY: integers and raw pointers only.
unsafe impl Zeroable for FabricAttr {}

const _: () = {
    use std::mem::offset_of;
    assert!(size_of::<Info>() == 120 && offset_of!(Info, addr_format) == 24);
    assert!(offset_of!(Info, src_addrlen) == 32 && offset_of!(Info, src_addr) == 48);
    assert!(offset_of!(Info, handle) == 64 && offset_of!(Info, tx_attr) == 72);
    assert!(offset_of!(Info, domain_attr) == 96 && offset_of!(Info, nic) == 112);
    assert!(size_of::<TxAttr>() == 80 && offset_of!(TxAttr, inject_size) == 40);
    assert!(offset_of!(TxAttr, tclass) == 72);
    assert!(size_of::<RxAttr>() == 64 && offset_of!(RxAttr, iov_limit) == 56);
    assert!(size_of::<EpAttr>() == 96 && offset_of!(EpAttr, max_msg_size) == 16);
    assert!(offset_of!(EpAttr, mem_tag_format) == 56 && offset_of!(EpAttr, auth_key) == 88);
    assert!(offset_of!(DomainAttr, threading) == 16 && offset_of!(DomainAttr, mr_mode) == 36);
    assert!(offset_of!(DomainAttr, mr_key_size) == 40 && offset_of!(DomainAttr, cq_cnt) == 56);
    assert!(offset_of!(DomainAttr, max_ep_tx_ctx) == 88 && offset_of!(DomainAttr, caps) == 136);
    assert!(offset_of!(DomainAttr, mr_cnt) == 176 && offset_of!(DomainAttr, tclass) == 184);
    // Tails: 1.20, 2.0, 2.5.
    assert!(offset_of!(DomainAttr, max_ep_auth_key) == 192);
    assert!(offset_of!(DomainAttr, max_group_id) == 200);
    assert!(offset_of!(DomainAttr, max_cntr_value) == 208 && size_of::<DomainAttr>() == 224);
    assert!(size_of::<FabricAttr>() == 32 && offset_of!(FabricAttr, api_version) == 28);
};
