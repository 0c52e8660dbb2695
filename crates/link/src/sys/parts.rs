//! What messages are made of, for the kernel: parts that point to bytes of a burst and of the application.
//!
//! ```text
//!   frame:  head │ user memory, in one piece or several │ head …
//!   parts:  one for each piece; heads that stand behind each other are one
//! ```
//!
//! A part is good only inside the call that made it: it points to what that call borrows.

use std::mem;
use std::ops::Range;

use crate::burst::{Burst, Frame, Piece};
use crate::mem::{Memory, MemoryId, Table};

/// Parts of one message: UIO_MAXIOV.
pub(super) const PART_COUNT_MAX: usize = 1024;

/// Parts of all messages of a call, in the order in which they were added.
pub(super) struct Parts {
    list: Vec<libc::iovec>,
    /// A frame of more parts than the kernel takes, in one.
    bounce: Vec<u8>,
}

impl std::fmt::Debug for Parts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Parts").field("count", &self.list.len()).finish_non_exhaustive()
    }
}

// SAFETY: the pointers that make it not `Send` by itself are used in the call that wrote them only.
unsafe impl Send for Parts {}

/// How far the parts had come, to go back to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    count: usize,
    /// Of the last part: heads may be added to it.
    last_len: usize,
}

/// The memory of the frame before, under its name: mostly that of the next one, too.
pub(super) type Last<'a> = Option<(MemoryId, &'a Memory)>;

impl Parts {
    pub(super) fn with_capacity(count: usize) -> Self {
        Self { list: Vec::with_capacity(count), bounce: Vec::new() }
    }

    pub(super) fn clear(&mut self) {
        self.list.clear();
        self.bounce.clear();
    }

    pub(super) fn count(&self) -> usize {
        self.list.len()
    }

    pub(super) fn reserve(&mut self, count: usize) {
        self.list.reserve(count);
    }

    pub(super) fn mark(&self) -> Mark {
        let last_len = self.list.last().map_or(0, |part| part.iov_len);
        Mark { count: self.list.len(), last_len }
    }

    /// Takes away all that was added since.
    pub(super) fn back_to(&mut self, mark: Mark) {
        self.list.truncate(mark.count);
        if let Some(part) = self.list.last_mut() {
            part.iov_len = mark.last_len;
        }
    }

    /// A part of its own for these bytes.
    #[inline]
    pub(super) fn add(&mut self, bytes: &[u8]) {
        self.add_at(bytes.as_ptr(), bytes.len());
    }

    /// A part of its own for the bytes at this address, which whoever makes the call vouches for.
    #[inline]
    pub(super) fn add_at(&mut self, at: *const u8, len: usize) {
        self.list.push(libc::iovec { iov_base: at as *mut _, iov_len: len });
    }

    /// Adds a frame. False if some of its memory is not there; then only some of its parts were added. Heads are joined to parts
    /// from number `start` on, where the frame's message begins, and to none before.
    #[inline]
    pub(super) fn add_frame<'a>(
        &mut self,
        burst: &Burst,
        frame: &Frame,
        memory: &'a Table,
        start: usize,
        last: &mut Last<'a>,
    ) -> bool {
        for piece in burst.pieces(frame) {
            match *piece {
                Piece::Head { .. } => {
                    let bytes = burst.head_bytes(piece);
                    let at: *mut libc::c_void = bytes.as_ptr() as *mut _;
                    // Frames of a gathered train stand behind each other: to the kernel they are one piece.
                    match self.list[start..].last_mut() {
                        Some(part) if part.iov_base.wrapping_byte_add(part.iov_len) == at => {
                            part.iov_len += bytes.len();
                        }
                        _ => self.add(bytes),
                    }
                }
                Piece::User { id, offset, len } => {
                    let known = last.filter(|known| known.0 == id).map(|known| known.1);
                    let Some(found) = known.or_else(|| memory.get(id)) else { return false };
                    *last = Some((id, found));
                    let add = |part: crate::mem::Part| self.add_at(part.ptr(), part.len());
                    if !found.for_each(offset, u64::from(len), add) {
                        return false;
                    }
                }
            }
        }
        true
    }

    /// Adds a frame as one part, copied. There may be one such frame in a call, the last: it must stay where it is.
    pub(super) fn add_copied(&mut self, burst: &Burst, frame: &Frame, memory: &Table) {
        debug_assert!(self.bounce.is_empty());
        for piece in burst.pieces(frame) {
            match *piece {
                Piece::Head { .. } => self.bounce.extend_from_slice(burst.head_bytes(piece)),
                Piece::User { id, offset, len } => {
                    memory.copy_out(id, offset, len as usize, &mut self.bounce);
                }
            }
        }
        let (at, len) = (self.bounce.as_ptr(), self.bounce.len());
        self.add_at(at, len);
    }

    /// Whether a frame was added that was copied.
    pub(super) fn has_copied(&self) -> bool {
        !self.bounce.is_empty()
    }

    /// A message of these parts, to nobody in particular. They must not move any more.
    pub(super) fn message(&mut self, range: Range<usize>) -> libc::msghdr {
        // SAFETY: `msghdr` is plain data; all zeros are a valid value.
        let mut message: libc::msghdr = unsafe { mem::zeroed() };
        message.msg_iovlen = range.len() as _;
        message.msg_iov = self.list[range].as_mut_ptr();
        message
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lens(parts: &Parts) -> Vec<usize> {
        parts.list.iter().map(|part| part.iov_len).collect()
    }

    #[test]
    fn heads_behind_each_other_are_one_part_of_their_message() {
        let mut burst = Burst::default();
        for _ in 0..2 {
            burst.begin([1; 24]);
            burst.head(&[7; 10]);
            burst.head(&[8; 5]);
        }
        let (memory, mut last) = (Table::default(), None);
        let mut parts = Parts::with_capacity(8);
        assert!(parts.add_frame(&burst, &burst.frame(0), &memory, 0, &mut last));
        let mark = parts.mark();
        assert!(parts.add_frame(&burst, &burst.frame(1), &memory, 0, &mut last));
        assert_eq!(lens(&parts), [30]);
        parts.back_to(mark);
        assert_eq!(lens(&parts), [15], "what was joined is taken away, too");
        assert!(parts.add_frame(&burst, &burst.frame(1), &memory, 1, &mut last));
        assert_eq!(lens(&parts), [15, 15], "another message begins");
    }

    #[test]
    fn memory_that_is_not_there_is_noticed() {
        let mut memory = Table::default();
        let id = memory.insert(vec![3; 100].into());
        let mut burst = Burst::default();
        for (offset, len) in [(10, 20), (90, 20)] {
            burst.begin([1; 24]);
            burst.head(&[7; 10]);
            burst.user(id, offset, len);
        }
        let (mut parts, mut last) = (Parts::with_capacity(8), None);
        assert!(parts.add_frame(&burst, &burst.frame(0), &memory, 0, &mut last));
        assert_eq!(lens(&parts), [10, 20]);
        assert!(!parts.add_frame(&burst, &burst.frame(1), &memory, 2, &mut last));
        parts.clear();
        parts.add_copied(&burst, &burst.frame(0), &memory);
        assert!(parts.has_copied());
        assert_eq!(lens(&parts), [30]);
    }
}
