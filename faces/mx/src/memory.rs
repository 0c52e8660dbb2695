//! The application's memory: what a request's segments name.

use std::borrow::Cow;
use std::ffi::c_void;

use packhorse::raw::Memory;

use crate::abi::{SEGMENT_COUNT_MAX, Segment};
use crate::codes::{self, Code};

/// Pieces of the application's memory, which belong to the library until their request ended: that is what MX asks of programs, and
/// what whoever makes a `Room` promises.
#[derive(Debug)]
pub(crate) struct Room {
    /// Where each begins, and its length; none are empty.
    pieces: Pieces,
    len: u64,
}

#[derive(Debug)]
enum Pieces {
    One((usize, usize)),
    Many(Vec<(usize, usize)>),
}

impl Room {
    /// # Safety
    /// `len` bytes at `start`, the library's until the request ended.
    pub(crate) unsafe fn new(start: *mut c_void, len: usize) -> Result<Self, Code> {
        if start.is_null() && len > 0 {
            return Err(codes::BAD_SEG_MEM);
        }
        // Lengths have 32 bits in MX.
        let len = u32::try_from(len).map_err(|_| codes::BAD_SEG_LIST)?;
        Ok(Self { pieces: Pieces::One((start as usize, len as usize)), len: len.into() })
    }

    /// # Safety
    /// `count` segments at `list`, or null; each as above.
    pub(crate) unsafe fn of_segments(list: *const Segment, count: u32) -> Result<Self, Code> {
        if count > SEGMENT_COUNT_MAX {
            return Err(codes::BAD_SEG_CNT);
        }
        if list.is_null() && count > 0 {
            return Err(codes::BAD_SEG_LIST);
        }
        if count == 1 {
            // SAFETY: there is one.
            let segment = unsafe { list.read() };
            // SAFETY: says the caller.
            return unsafe { Self::new(segment.ptr, segment.len as usize) };
        }
        let mut pieces = Vec::with_capacity(count as usize);
        let mut len = 0_u64;
        for index in 0..count as usize {
            // SAFETY: there are `count`.
            let segment = unsafe { list.add(index).read() };
            if segment.ptr.is_null() && segment.len > 0 {
                return Err(codes::BAD_SEG_MEM);
            }
            if segment.len > 0 {
                pieces.push((segment.ptr as usize, segment.len as usize));
                len += u64::from(segment.len);
            }
        }
        if len > u32::MAX.into() {
            return Err(codes::BAD_SEG_LIST);
        }
        Ok(Self { pieces: Pieces::Many(pieces), len })
    }

    pub(crate) fn len(&self) -> u32 {
        self.len as u32
    }

    fn pieces(&self) -> &[(usize, usize)] {
        match &self.pieces {
            Pieces::One(piece) => std::slice::from_ref(piece),
            Pieces::Many(pieces) => pieces,
        }
    }

    /// Lends it to the engine.
    pub(crate) fn memory(&self, is_writable: bool) -> Memory {
        let lend = |&(start, len): &(usize, usize)| (start as *mut u8, len);
        match &self.pieces {
            // SAFETY: whoever made this promised the bytes to the library until the request ended, when the engine gives them back.
            Pieces::One(piece) => unsafe { Memory::borrowed(&[lend(piece)], is_writable) },
            Pieces::Many(pieces) => {
                let pieces: Vec<_> = pieces.iter().map(lend).collect();
                // SAFETY: as above.
                unsafe { Memory::borrowed(&pieces, is_writable) }
            }
        }
    }

    /// Its bytes, in one piece.
    pub(crate) fn bytes(&self) -> Cow<'_, [u8]> {
        match self.pieces() {
            [] | [(_, 0)] => Cow::Borrowed(&[]),
            &[(start, len)] => {
                // SAFETY: as for `memory`; not empty, so not null.
                Cow::Borrowed(unsafe { std::slice::from_raw_parts(start as *const u8, len) })
            }
            pieces => {
                let mut all = Vec::with_capacity(self.len as usize);
                for &(start, len) in pieces {
                    // SAFETY: as above.
                    all.extend_from_slice(unsafe {
                        std::slice::from_raw_parts(start as *const u8, len)
                    });
                }
                Cow::Owned(all)
            }
        }
    }

    /// Copies as much as fits; how much.
    pub(crate) fn fill(&self, bytes: &[u8]) -> u32 {
        let mut left = bytes;
        for &(start, len) in self.pieces() {
            let (now, later) = left.split_at(len.min(left.len()));
            // SAFETY: as for `memory`, and `now` is no longer than the piece. What is ours does not overlap it.
            unsafe { std::ptr::copy_nonoverlapping(now.as_ptr(), start as *mut u8, now.len()) };
            left = later;
        }
        (bytes.len() - left.len()) as u32
    }
}
