//! Which flags each call knows. One that is not known changes what is asked for in a way that nobody here would see to, so it is
//! refused (`FI_EBADFLAGS`).

use std::ffi::c_int;

use crate::abi::{code, flag};
use crate::offer::{RX_FLAGS, TX_FLAGS};

/// Whether all of `flags` are among those a call knows.
#[inline]
pub(crate) fn check(flags: u64, known: u64) -> Result<(), c_int> {
    if flags & !known == 0 { Ok(()) } else { Err(code::EBADFLAGS) }
}

/// Operations that send nothing beside their bytes: reads, atomic operations.
pub(crate) const OPERATION: u64 = TX_FLAGS | flag::MORE | flag::TRIGGER;
/// Messages and writes, which may carry 64 bits for the other side.
pub(crate) const SEND: u64 = OPERATION | flag::REMOTE_CQ_DATA;
/// Receives of tagged messages.
pub(crate) const TAGGED_RECV: u64 =
    TAGGED_RECV_ONLY | flag::PEEK | flag::CLAIM | flag::DISCARD | flag::TRIGGER;
/// Receives of tagged messages in work that waits for a counter, which cannot be a peek or a claim.
pub(crate) const TAGGED_RECV_ONLY: u64 = flag::COMPLETION | flag::MORE;
/// Receives of others, whose buffers may be for many.
pub(crate) const RECV: u64 = TAGGED_RECV | RX_FLAGS;
/// Receives of other messages in work that waits for a counter, which cannot be a peek or a claim.
pub(crate) const RECV_ONLY: u64 = TAGGED_RECV_ONLY | RX_FLAGS;
/// `fi_ep_bind` of a completion queue.
pub(crate) const BIND_QUEUE: u64 = flag::SEND | flag::RECV | flag::SELECTIVE_COMPLETION;
/// `fi_ep_bind` of a counter.
pub(crate) const BIND_COUNTER: u64 =
    flag::SEND | flag::RECV | flag::READ | flag::WRITE | flag::REMOTE_READ | flag::REMOTE_WRITE;
/// `fi_av_insert`.
pub(crate) const INSERT: u64 = flag::MORE | flag::SYNC_ERR;
/// `fi_mr_reg`: what the memory is for.
pub(crate) const ACCESS: u64 = BIND_COUNTER;
/// `fi_eq_read`.
pub(crate) const EVENT: u64 = flag::PEEK;

/// A message is thrown away if it was found by a look, or was set aside; a receive of the next one is no way to do it. Looks are made at once.
pub(crate) fn check_recv(flags: u64, known: u64) -> Result<(), c_int> {
    let is_found = flags & (flag::PEEK | flag::CLAIM) != 0;
    check(flags, known & !if is_found { flag::TRIGGER } else { flag::DISCARD })
}
