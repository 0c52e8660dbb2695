//! The numbers of Portals 4, as its reference has them: options, kinds of events, ways to fail.
//!
//! These numbers stand in the core because they travel (what became of a request) and because they decide (options); the C header repeats them.

/// Options of entries, lists and match alike.
pub mod entry {
    /// Memory in several pieces.
    pub const IOVEC: u32 = 0x1;
    /// Puts and atomic operations may use it.
    pub const OP_PUT: u32 = 0x2;
    /// Gets may use it; with `OP_PUT`, atomic operations that fetch.
    pub const OP_GET: u32 = 0x4;
    /// For one message.
    pub const USE_ONCE: u32 = 0x8;
    /// Of the overflow list: no header is kept.
    pub const UNEXPECTED_HDR_DISABLE: u32 = 0x10;
    /// A promise that all of it is mapped. Not needed.
    pub const IS_ACCESSIBLE: u32 = 0x20;
    /// No `LINK`.
    pub const EVENT_LINK_DISABLE: u32 = 0x40;
    /// No event of communication.
    pub const EVENT_COMM_DISABLE: u32 = 0x80;
    /// No `PT_DISABLED` on its account.
    pub const EVENT_FLOWCTRL_DISABLE: u32 = 0x100;
    /// No event of success.
    pub const EVENT_SUCCESS_DISABLE: u32 = 0x200;
    /// No event of a message found unexpected.
    pub const EVENT_OVER_DISABLE: u32 = 0x400;
    /// Neither `AUTO_UNLINK` nor `AUTO_FREE`.
    pub const EVENT_UNLINK_DISABLE: u32 = 0x800;
    /// Communication is counted.
    pub const EVENT_CT_COMM: u32 = 0x1000;
    /// Messages found unexpected are counted.
    pub const EVENT_CT_OVERFLOW: u32 = 0x2000;
    /// Bytes are counted, not operations.
    pub const EVENT_CT_BYTES: u32 = 0x4000;
    /// Messages are laid one behind another.
    pub const MANAGE_LOCAL: u32 = 0x8000;
    /// What is too long does not match.
    pub const NO_TRUNCATE: u32 = 0x1_0000;
    /// Placement may be rounded up. It is not.
    pub const MAY_ALIGN: u32 = 0x2_0000;
    /// Messages found unexpected use up the entry.
    pub const LOCAL_INC_UH_RLENGTH: u32 = 0x4_0000;
    /// All that list entries may have.
    pub const LIST_MASK: u32 = 0x7fff;
    /// All that match entries may have.
    pub const MATCH_MASK: u32 = 0x7_ffff;
}

/// Options of memory descriptors.
pub mod md {
    /// Memory in several pieces.
    pub const IOVEC: u32 = 0x1;
    /// `SEND` is counted.
    pub const EVENT_CT_SEND: u32 = 0x2;
    /// `REPLY` is counted.
    pub const EVENT_CT_REPLY: u32 = 0x4;
    /// `ACK` is counted.
    pub const EVENT_CT_ACK: u32 = 0x8;
    /// Order is not asked for.
    pub const UNORDERED: u32 = 0x10;
    /// No event of success.
    pub const EVENT_SUCCESS_DISABLE: u32 = 0x20;
    /// The buffer may change as soon as the call returns.
    pub const VOLATILE: u32 = 0x40;
    /// No `SEND`.
    pub const EVENT_SEND_DISABLE: u32 = 0x80;
    /// Loss is allowed.
    pub const UNRELIABLE: u32 = 0x100;
    /// Bytes are counted, not operations.
    pub const EVENT_CT_BYTES: u32 = 0x4000;
    /// All there are.
    pub const MASK: u32 = 0x41ff;
}

/// Options of an entry of the portal table.
pub mod portal {
    /// When it cannot take a message it is disabled.
    pub const FLOWCTRL: u32 = 0x2;
    /// It begins disabled.
    pub const ALLOC_DISABLED: u32 = 0x10;
    /// All there are.
    pub const MASK: u32 = 0x1f;
}

/// Which of an interface's four.
pub mod interface {
    /// With match entries.
    pub const MATCHING: u8 = 1;
    /// Processes are ranks.
    pub const LOGICAL: u8 = 2;
    /// So many there are.
    pub const COUNT: usize = 4;
}

/// What became of an operation.
pub mod fail {
    /// It was done.
    pub const OK: u8 = 0;
    /// It did not get there.
    pub const UNDELIVERABLE: u8 = 1;
    /// Nobody takes it there.
    pub const DROPPED: u8 = 2;
    /// The portal is disabled.
    pub const PT_DISABLED: u8 = 3;
    /// Not for this user.
    pub const PERM_VIOLATION: u8 = 4;
    /// Not for this operation.
    pub const OP_VIOLATION: u8 = 5;
    /// A search found nothing.
    pub const NO_MATCH: u8 = 6;
    /// There is no such memory.
    pub const SEGV: u8 = 7;
}

/// Kinds of events.
pub mod event {
    /// Communication, at the target; each is followed by the same found unexpected.
    pub const GET: u8 = 0;
    /// A put.
    pub const PUT: u8 = 2;
    /// An atomic operation.
    pub const ATOMIC: u8 = 4;
    /// One that fetches.
    pub const FETCH_ATOMIC: u8 = 6;
    /// What was fetched is here.
    pub const REPLY: u8 = 8;
    /// The buffer may be used again.
    pub const SEND: u8 = 9;
    /// The target has answered.
    pub const ACK: u8 = 10;
    /// A portal was disabled.
    pub const PT_DISABLED: u8 = 11;
    /// An entry is in its list.
    pub const LINK: u8 = 12;
    /// An entry was used up.
    pub const AUTO_UNLINK: u8 = 13;
    /// Nothing refers to its memory any more.
    pub const AUTO_FREE: u8 = 14;
    /// A search has ended, or found something.
    pub const SEARCH: u8 = 15;
    /// Added to communication: found unexpected.
    pub const OVERFLOW: u8 = 1;
}

/// Kinds of acknowledgement.
pub mod ack {
    /// None.
    pub const NONE: u8 = 0;
    /// An event, and counted.
    pub const FULL: u8 = 1;
    /// Counted.
    pub const COUNTED: u8 = 2;
    /// Counted as over, whatever became of it.
    pub const OVER: u8 = 3;
}
