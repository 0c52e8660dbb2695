//! The application's memory, as descriptors and entries name it.

use std::ffi::c_void;

use packhorse::raw::Memory;
use packhorse_common::pointed;

use crate::abi::{IoVec, SIZE_MAX};
use crate::codes::{self, Code};

/// The option by which memory comes in pieces.
const IOVEC: u32 = 1;

/// Memory that an application named. Nothing of it was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Named {
    /// So many bytes from there. A range that begins at 0 is a window on the address space: whether there is memory is seen when it is used.
    Range { start: usize, len: u64 },
    /// Bytes in several pieces: start and length of each.
    Pieces(Vec<(usize, u64)>),
}

impl Named {
    /// Reads the list of pieces, if there is one.
    ///
    /// # Safety
    /// With `PTL_IOVEC` among the options `start` points to `length` pieces, or is null.
    pub(crate) unsafe fn read(
        start: *mut c_void,
        length: u64,
        options: u32,
        piece_count_max: u64,
    ) -> Result<Self, Code> {
        if options & IOVEC == 0 {
            return Self::range(start as usize, length);
        }
        if length > piece_count_max || (start.is_null() && length > 0) {
            return Err(codes::ARG_INVALID);
        }
        let len = length as usize * size_of::<IoVec>();
        // SAFETY: so many pieces are there, says the caller.
        let bytes = unsafe { pointed::bytes(start, len) };
        let pieces = bytes.chunks_exact(size_of::<IoVec>()).map(|piece| {
            let word = |at| u64::from_ne_bytes(std::array::from_fn(|index| piece[at + index]));
            (word(0) as usize, word(8))
        });
        let pieces: Vec<(usize, u64)> = pieces.collect();
        let mut all: u64 = 0;
        for &(start, len) in &pieces {
            Self::range(start, len)?;
            all = all.checked_add(len).ok_or(codes::ARG_INVALID)?;
        }
        Ok(Self::Pieces(pieces))
    }

    /// Bytes in all.
    pub(crate) fn len(&self) -> u64 {
        match self {
            Self::Range { len, .. } => *len,
            Self::Pieces(pieces) => pieces.iter().map(|&(_, len)| len).sum(),
        }
    }

    /// Where it begins; in pieces, where the first does.
    pub(crate) fn start(&self) -> usize {
        match self {
            Self::Range { start, .. } => *start,
            Self::Pieces(pieces) => pieces.first().map_or(0, |&(start, _)| start),
        }
    }

    /// Whether it is a window on the address space.
    pub(crate) fn is_window(&self) -> bool {
        matches!(self, Self::Range { start: 0, len } if *len > 0)
    }

    /// Lends it to the engine.
    pub(crate) fn lend(&self) -> Memory {
        let place = |start: usize| std::ptr::with_exposed_provenance_mut::<u8>(start);
        let pieces: Vec<(*mut u8, usize)> = match self {
            // SAFETY: what the application names it has, says the contract of `calls`; what others name is asked for first (PROTOCOL §17.9).
            _ if self.is_window() => return unsafe { Memory::whole() },
            Self::Range { start, len } => vec![(place(*start), *len as usize)],
            Self::Pieces(pieces) => {
                pieces.iter().map(|&(start, len)| (place(start), len as usize)).collect()
            }
        };
        // SAFETY: it is ours until the descriptor is released or the entry unlinked, says the contract of `calls`. Who binds what cannot be
        // written only sends from it: what may be written is said by the operation, as in the reference.
        unsafe { Memory::borrowed(&pieces, true) }
    }

    fn range(start: usize, len: u64) -> Result<Self, Code> {
        let is_inside = len == SIZE_MAX && start == 0 || (start as u64).checked_add(len).is_some();
        is_inside.then_some(Self::Range { start, len }).ok_or(codes::ARG_INVALID)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr::null_mut;

    #[test]
    fn ranges_and_pieces_are_read_and_nonsense_is_refused() {
        let mut byte = 7_u8;
        let at = (&raw mut byte).cast::<c_void>();
        let pieces = [IoVec { base: at, len: 1 }, IoVec { base: null_mut(), len: 0 }];
        let list = pieces.as_ptr().cast_mut().cast::<c_void>();
        let start = at as usize;
        // SAFETY: our own list, of two.
        unsafe {
            assert_eq!(Named::read(at, 1, 0, 9), Ok(Named::Range { start, len: 1 }));
            assert!(Named::read(null_mut(), 0, 0, 9).is_ok());
            assert!(Named::read(null_mut(), SIZE_MAX, 0, 9).is_ok());
            assert_eq!(Named::read(at, SIZE_MAX, 0, 9), Err(codes::ARG_INVALID));
            let read = Named::read(list, 2, IOVEC, 2);
            assert_eq!(read, Ok(Named::Pieces(vec![(start, 1), (0, 0)])));
            assert_eq!(Named::read(list, 2, IOVEC, 1), Err(codes::ARG_INVALID));
            assert_eq!(Named::read(null_mut(), 2, IOVEC, 9), Err(codes::ARG_INVALID));
        }
    }
}
