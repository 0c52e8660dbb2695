//! Elements of memory that others may look at while they are changed.

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use super::Part;

/// Elements of 1, 2, 4 or 8 bytes, each where it can be read and written in one piece: who looks at one of them meanwhile
/// sees what was there before or what is there after.
#[derive(Clone, Copy, Debug)]
pub(super) struct Elements {
    part: Part,
    width: usize,
}

impl Elements {
    /// `None` if they are of another size, or not aligned to it.
    pub(super) fn new(part: Part, width: usize) -> Option<Self> {
        let is_whole = matches!(width, 1 | 2 | 4 | 8) && part.len().is_multiple_of(width);
        (is_whole && part.ptr().addr().is_multiple_of(width)).then_some(Self { part, width })
    }

    fn each(self) -> impl Iterator<Item = *mut u8> {
        (0..self.part.len()).step_by(self.width).map(move |at| self.part.cut(at, self.width).ptr())
    }

    pub(super) fn load(self, out: &mut [u8]) {
        for (from, out) in self.each().zip(out.chunks_exact_mut(self.width)) {
            // Whoever else uses these bytes meanwhile does so by the contract of `Memory::borrowed`.
            // SAFETY: `from` points to `width` bytes of memory the table holds (`cut` has checked that), aligned to `width` (`new`).
            unsafe {
                match self.width {
                    1 => out[0] = AtomicU8::from_ptr(from).load(Ordering::Acquire),
                    2 => out.copy_from_slice(
                        &AtomicU16::from_ptr(from.cast()).load(Ordering::Acquire).to_ne_bytes(),
                    ),
                    4 => out.copy_from_slice(
                        &AtomicU32::from_ptr(from.cast()).load(Ordering::Acquire).to_ne_bytes(),
                    ),
                    _ => out.copy_from_slice(
                        &AtomicU64::from_ptr(from.cast()).load(Ordering::Acquire).to_ne_bytes(),
                    ),
                }
            }
        }
    }

    pub(super) fn store(self, bytes: &[u8]) {
        for (to, bytes) in self.each().zip(bytes.chunks_exact(self.width)) {
            // SAFETY: as in `load`; and the memory may be written, which the caller has asked.
            unsafe {
                match *bytes {
                    [byte] => AtomicU8::from_ptr(to).store(byte, Ordering::Release),
                    [a, b] => AtomicU16::from_ptr(to.cast())
                        .store(u16::from_ne_bytes([a, b]), Ordering::Release),
                    [a, b, c, d] => AtomicU32::from_ptr(to.cast())
                        .store(u32::from_ne_bytes([a, b, c, d]), Ordering::Release),
                    [a, b, c, d, e, f, g, h] => AtomicU64::from_ptr(to.cast())
                        .store(u64::from_ne_bytes([a, b, c, d, e, f, g, h]), Ordering::Release),
                    _ => unreachable!("elements have 1, 2, 4 or 8 bytes"),
                }
            }
        }
    }
}
