//! Numbers of libfabric's interface: capability and flag bits, enumerations, error codes.
//!
//! Named as the manual pages name them, without the prefix `FI_`. Several bits mean different things in different calls.

/// Capabilities, operation flags and completion flags share one set of bits.
pub mod flag {
    pub const MSG: u64 = 1 << 1;
    pub const RMA: u64 = 1 << 2;
    pub const TAGGED: u64 = 1 << 3;
    pub const ATOMIC: u64 = 1 << 4;
    pub const READ: u64 = 1 << 8;
    pub const WRITE: u64 = 1 << 9;
    pub const RECV: u64 = 1 << 10;
    pub const SEND: u64 = 1 << 11;
    pub const REMOTE_READ: u64 = 1 << 12;
    pub const REMOTE_WRITE: u64 = 1 << 13;
    pub const MULTI_RECV: u64 = 1 << 16;
    pub const REMOTE_CQ_DATA: u64 = 1 << 17;
    pub const MORE: u64 = 1 << 18;
    pub const PEEK: u64 = 1 << 19;
    pub const TRIGGER: u64 = 1 << 20;
    pub const FENCE: u64 = 1 << 21;
    pub const COMPLETION: u64 = 1 << 24;
    pub const INJECT: u64 = 1 << 25;
    pub const INJECT_COMPLETE: u64 = 1 << 26;
    pub const TRANSMIT_COMPLETE: u64 = 1 << 27;
    pub const DELIVERY_COMPLETE: u64 = 1 << 28;
    pub const MATCH_COMPLETE: u64 = 1 << 31;
    pub const LOCAL_COMM: u64 = 1 << 51;
    pub const REMOTE_COMM: u64 = 1 << 52;
    pub const RMA_EVENT: u64 = 1 << 56;
    pub const SOURCE: u64 = 1 << 57;
    pub const DIRECTED_RECV: u64 = 1 << 59;
    /// When an address vector is opened: an event queue tells of insertions.
    pub const EVENT: u64 = COMPLETION;
    /// In receive calls.
    pub const CLAIM: u64 = 1 << 59;
    /// In receive calls.
    pub const DISCARD: u64 = 1 << 58;
    /// When a completion queue is bound.
    pub const SELECTIVE_COMPLETION: u64 = 1 << 59;
    /// When addresses are inserted: the context is a list of codes.
    pub const SYNC_ERR: u64 = 1 << 58;
    /// In `query_atomic`.
    pub const FETCH_ATOMIC: u64 = 1 << 58;
    /// In `query_atomic`.
    pub const COMPARE_ATOMIC: u64 = 1 << 59;
}

/// What an operation may rely on having happened before it.
pub mod order {
    pub const SAS: u64 = 1 << 8;
    pub const RMA_RAR: u64 = 1 << 32;
    pub const RMA_RAW: u64 = 1 << 33;
    pub const RMA_WAR: u64 = 1 << 34;
    pub const RMA_WAW: u64 = 1 << 35;
    pub const ATOMIC_RAR: u64 = 1 << 36;
    pub const ATOMIC_RAW: u64 = 1 << 37;
    pub const ATOMIC_WAR: u64 = 1 << 38;
    pub const ATOMIC_WAW: u64 = 1 << 39;
}

/// Memory registration modes.
pub mod mr_mode {
    pub const BASIC: i32 = 1 << 0;
    pub const SCALABLE: i32 = 1 << 1;
    pub const VIRT_ADDR: i32 = 1 << 4;
    pub const ALLOCATED: i32 = 1 << 5;
    pub const PROV_KEY: i32 = 1 << 6;
}

/// Classes of objects.
pub mod class {
    pub const FABRIC: usize = 1;
    pub const DOMAIN: usize = 2;
    pub const EP: usize = 3;
    pub const STX_CTX: usize = 8;
    pub const AV: usize = 11;
    pub const MR: usize = 12;
    pub const EQ: usize = 13;
    pub const CQ: usize = 14;
    pub const CNTR: usize = 15;
}

/// Events.
pub mod event {
    pub const AV_COMPLETE: u32 = 5;
}

/// Commands of `control`.
pub mod command {
    pub const GETOPSFLAG: i32 = 2;
    pub const ALIAS: i32 = 4;
    pub const GETWAIT: i32 = 5;
    pub const ENABLE: i32 = 6;
    pub const QUEUE_WORK: i32 = 11;
    pub const CANCEL_WORK: i32 = 12;
    pub const FLUSH_WORK: i32 = 13;
    pub const GETWAITOBJ: i32 = 16;
}

/// What deferred work does: `enum fi_op_type`.
pub mod work {
    pub const RECV: u32 = 0;
    pub const SEND: u32 = 1;
    pub const TRECV: u32 = 2;
    pub const TSEND: u32 = 3;
    pub const READ: u32 = 4;
    pub const WRITE: u32 = 5;
    pub const ATOMIC: u32 = 6;
    pub const FETCH_ATOMIC: u32 = 7;
    pub const COMPARE_ATOMIC: u32 = 8;
    pub const CNTR_SET: u32 = 9;
    pub const CNTR_ADD: u32 = 10;
}

/// Enumerations: types of endpoints, threading, progress and so on.
pub mod kind {
    pub const EP_RDM: u32 = 3;
    pub const THREAD_SAFE: u32 = 1;
    pub const THREAD_COMPLETION: u32 = 4;
    pub const THREAD_DOMAIN: u32 = 3;
    pub const PROGRESS_AUTO: u32 = 1;
    pub const PROGRESS_MANUAL: u32 = 2;
    pub const PROGRESS_CONTROL_UNIFIED: u32 = 3;
    pub const RM_ENABLED: u32 = 2;
    pub const AV_MAP: u32 = 1;
    pub const AV_TABLE: u32 = 2;
    pub const CQ_FORMAT_CONTEXT: u32 = 1;
    pub const CQ_FORMAT_MSG: u32 = 2;
    pub const CQ_FORMAT_DATA: u32 = 3;
    pub const CQ_FORMAT_TAGGED: u32 = 4;
    pub const WAIT_NONE: u32 = 0;
    pub const WAIT_UNSPEC: u32 = 1;
    pub const WAIT_FD: u32 = 3;
    pub const WAIT_YIELD: u32 = 5;
    pub const OPT_ENDPOINT: i32 = 0;
    pub const OPT_MIN_MULTI_RECV: i32 = 0;
}

/// In place of a number of contexts: those of others are shared.
pub const SHARED_CONTEXT: usize = usize::MAX;

/// Set in numbers that only this provider understands.
pub const PROV_SPECIFIC: u32 = 1 << 31;

/// `FI_SOCKADDR` and its kin: forms of addresses.
pub mod format {
    pub const SOCKADDR: u32 = 1;
    pub const SOCKADDR_IN: u32 = 2;
    pub const SOCKADDR_IN6: u32 = 3;
    pub const STR: u32 = 9;
}
/// No address, or any.
pub const ADDR_UNSPEC: u64 = u64::MAX;
/// No address could be made of it.
pub const ADDR_NOTAVAIL: u64 = u64::MAX;

/// Error codes beyond those of the system; functions return them negated.
pub mod code {
    pub const ETOOSMALL: i32 = 257;
    pub const EOPBADSTATE: i32 = 258;
    pub const EAVAIL: i32 = 259;
    pub const EBADFLAGS: i32 = 260;
    pub const ENOEQ: i32 = 261;
    pub const ENOCQ: i32 = 263;
    pub const ETRUNC: i32 = 265;
    pub const ENOKEY: i32 = 266;
    pub const ENOAV: i32 = 267;
    pub const EOVERRUN: i32 = 268;
    pub const ENOMSG: i32 = libc::ENOMSG;
}

/// A version of the interface.
pub const fn version(major: u32, minor: u32) -> u32 {
    major << 16 | minor
}
