//! The application's memory, lent to the engine.
//!
//! What all functions here rely on is libfabric's contract: the bytes of an operation belong to the provider from its post to its
//! completion, and the lists that name them until the call returns.

use std::ffi::c_void;

use packhorse::raw::Memory;

use crate::abi::iovec;
use crate::offer::PIECE_COUNT_MAX;

/// One piece to be sent; `None` if there is nothing where it is said to be. (Open MPI 4.1 does that, with types that have absolute
/// addresses.)
///
/// # Safety
/// `len` bytes at `buf`, the provider's until the operation has completed.
pub(crate) unsafe fn readable(buf: *const c_void, len: usize) -> Option<Memory> {
    if buf.is_null() && len > 0 {
        return None;
    }
    // SAFETY: says the caller. Nobody writes to what is being sent; we only read it.
    Some(unsafe { Memory::borrowed(&[(buf.cast_mut().cast(), len)], false) })
}

/// One piece to be received into, and its address. Nowhere is no place: what comes is cut to nothing.
///
/// # Safety
/// `len` bytes at `buf`, the provider's until the operation has completed.
pub(crate) unsafe fn writable(buf: *mut c_void, len: usize) -> (Memory, usize) {
    // SAFETY: says the caller.
    (unsafe { Memory::borrowed(&[(buf.cast(), len)], true) }, buf as usize)
}

/// Several pieces; `None` if they are too many. The address is that of the first.
///
/// # Safety
/// `count` pieces in `pieces`; their bytes as for the functions above.
pub(crate) unsafe fn pieces(
    pieces: *const iovec,
    count: usize,
    is_writable: bool,
) -> Option<(Memory, usize)> {
    if count > PIECE_COUNT_MAX {
        return None;
    }
    let mut list = [(std::ptr::null_mut(), 0); PIECE_COUNT_MAX];
    for (index, place) in list.iter_mut().enumerate().take(count) {
        // SAFETY: `index` is below `count`.
        let piece = unsafe { pieces.add(index).read() };
        *place = (piece.iov_base.cast(), piece.iov_len);
    }
    let first = list[0].0 as usize;
    // SAFETY: says the caller.
    Some((unsafe { Memory::borrowed(&list[..count], is_writable) }, first))
}

/// A copy of several pieces, for `FI_INJECT`: the bytes are the application's again on return.
///
/// # Safety
/// As for `pieces`, until the call returns.
pub(crate) unsafe fn copied(pieces: *const iovec, count: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for index in 0..count {
        // SAFETY: `index` is below `count`, and each piece is as long as it says.
        unsafe {
            let piece = pieces.add(index).read();
            if piece.iov_len > 0 {
                let piece = std::slice::from_raw_parts(piece.iov_base.cast::<u8>(), piece.iov_len);
                bytes.extend_from_slice(piece);
            }
        }
    }
    bytes
}

/// The bytes of a short message.
///
/// # Safety
/// `len` bytes at `buf`, until the call returns.
pub(crate) unsafe fn bytes<'a>(buf: *const c_void, len: usize) -> &'a [u8] {
    if len == 0 {
        return &[]; // the pointer may be null then
    }
    // SAFETY: says the caller.
    unsafe { std::slice::from_raw_parts(buf.cast(), len) }
}
