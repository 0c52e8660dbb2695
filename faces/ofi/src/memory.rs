//! The application's memory, lent to the engine.
//!
//! What all functions here rely on is libfabric's contract: the bytes of an operation belong to the provider from its post to its
//! completion, and the lists that name them until the call returns. What can be told to be wrong without looking there is told:
//! no memory where some is named is `EFAULT`, more than an operation can carry `EMSGSIZE`, more pieces than were offered `EINVAL`.

use std::ffi::{c_int, c_void};

use packhorse::raw::Memory;

use crate::abi::{flag, iovec};
use crate::offer::{INJECT_LEN_MAX, MESSAGE_LEN_MAX, PIECE_COUNT_MAX};

/// Whether there may be so many bytes at an address. (Open MPI 4.1 names some at 0, with types that have absolute addresses.)
#[inline]
fn check(buf: *const c_void, len: usize) -> Result<(), c_int> {
    if len > MESSAGE_LEN_MAX {
        return Err(libc::EMSGSIZE);
    }
    if buf.is_null() && len > 0 { Err(libc::EFAULT) } else { Ok(()) }
}

/// One piece to be sent.
///
/// # Safety
/// `len` bytes at `buf`, the provider's until the operation has completed.
#[inline]
pub(crate) unsafe fn readable(buf: *const c_void, len: usize) -> Result<Memory, c_int> {
    check(buf, len)?;
    // SAFETY: says the caller. Nobody writes to what is being sent; we only read it.
    Ok(unsafe { Memory::borrowed(&[(buf.cast_mut().cast(), len)], false) })
}

/// One piece to be received into, and its address.
///
/// # Safety
/// `len` bytes at `buf`, the provider's until the operation has completed.
#[inline]
pub(crate) unsafe fn writable(buf: *mut c_void, len: usize) -> Result<(Memory, usize), c_int> {
    check(buf, len)?;
    // SAFETY: says the caller.
    Ok((unsafe { Memory::borrowed(&[(buf.cast(), len)], true) }, buf as usize))
}

/// Addresses and lengths of pieces.
type List = [(*mut u8, usize); PIECE_COUNT_MAX];

/// The pieces of a list, each and their sum checked, and how many bytes they have.
///
/// # Safety
/// `count` pieces in `pieces`, or null.
unsafe fn listed(pieces: *const iovec, count: usize) -> Result<(List, usize), c_int> {
    if count > PIECE_COUNT_MAX {
        return Err(libc::EINVAL);
    }
    if pieces.is_null() && count > 0 {
        return Err(libc::EFAULT);
    }
    let mut list = [(std::ptr::null_mut(), 0); PIECE_COUNT_MAX];
    let mut total = 0;
    for (index, place) in list.iter_mut().enumerate().take(count) {
        // SAFETY: `index` is below `count`, and the list is there.
        let piece = unsafe { pieces.add(index).read() };
        check(piece.iov_base, piece.iov_len)?;
        total += piece.iov_len; // no overflow: few pieces, and none longer than a message
        *place = (piece.iov_base.cast(), piece.iov_len);
    }
    if total > MESSAGE_LEN_MAX { Err(libc::EMSGSIZE) } else { Ok((list, total)) }
}

/// Few pieces, none longer than a message: their sum is a number.
const _: () = assert!(MESSAGE_LEN_MAX < usize::MAX / PIECE_COUNT_MAX);

/// Several pieces, and the address of the first.
///
/// # Safety
/// `count` pieces in `pieces`, or null; their bytes as for the functions above.
pub(crate) unsafe fn pieces(
    pieces: *const iovec,
    count: usize,
    is_writable: bool,
) -> Result<(Memory, usize), c_int> {
    // SAFETY: says the caller.
    let (list, _) = unsafe { listed(pieces, count) }?;
    // SAFETY: says the caller.
    Ok((unsafe { Memory::borrowed(&list[..count], is_writable) }, list[0].0 as usize))
}

/// A copy of several pieces, for `FI_INJECT`: the bytes are the application's again on return.
///
/// # Safety
/// As for `pieces`, until the call returns.
pub(crate) unsafe fn copied(pieces: *const iovec, count: usize) -> Result<Vec<u8>, c_int> {
    // SAFETY: says the caller.
    let (list, total) = unsafe { listed(pieces, count) }?;
    if total > INJECT_LEN_MAX {
        return Err(libc::EMSGSIZE);
    }
    let mut copy = Vec::with_capacity(total);
    for &(at, len) in list.iter().filter(|&&(_, len)| len > 0) {
        // SAFETY: each piece is as long as it says, and was found not to be null.
        copy.extend_from_slice(unsafe { std::slice::from_raw_parts(at, len) });
    }
    Ok(copy)
}

/// The bytes of a send or write that came as a description: lent, or copied if its flags say so.
///
/// # Safety
/// As for `pieces`.
pub(crate) unsafe fn described(
    list: *const iovec,
    count: usize,
    flags: u64,
) -> Result<Memory, c_int> {
    // SAFETY: says the caller.
    unsafe {
        match flags & flag::INJECT {
            0 => pieces(list, count, false).map(|(memory, _)| memory),
            _ => copied(list, count).map(Memory::from),
        }
    }
}

/// The bytes of a short message.
///
/// # Safety
/// `len` bytes at `buf`, until the call returns.
#[inline]
pub(crate) unsafe fn bytes<'a>(buf: *const c_void, len: usize) -> Result<&'a [u8], c_int> {
    // SAFETY: says the caller.
    unsafe { bytes_up_to(buf, len, INJECT_LEN_MAX) }
}

/// The bytes of a message that is no longer than `len_max`.
///
/// # Safety
/// As for `bytes`.
#[inline]
pub(crate) unsafe fn bytes_up_to<'a>(
    buf: *const c_void,
    len: usize,
    len_max: usize,
) -> Result<&'a [u8], c_int> {
    if len == 0 {
        return Ok(&[]); // the pointer may be null then
    }
    if len > len_max {
        return Err(libc::EMSGSIZE);
    }
    check(buf, len)?;
    // SAFETY: says the caller; not null, and not too long, say the lines above.
    Ok(unsafe { std::slice::from_raw_parts(buf.cast(), len) })
}
