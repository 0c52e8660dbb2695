//! Memory that costs nothing until it is touched: pages straight from the system.

use std::io;
use std::ops::Range;
use std::ptr::{self, NonNull};

use super::fork::Unforked;

/// Zeroed pages of our own. The kernel may write to them while a system call has them by `ptr_at`.
#[derive(Debug)]
pub(crate) struct Region {
    base: NonNull<u8>,
    len: usize,
    _pages: Unforked,
}

// SAFETY: a `Region` owns its mapping, which belongs to no thread.
unsafe impl Send for Region {}

impl Region {
    /// At least `len` bytes, all zero.
    pub(crate) fn new(len: usize) -> io::Result<Self> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new private mapping at an address of the kernel's choice touches nothing that exists.
        let base = unsafe { libc::mmap(ptr::null_mut(), len, protection, flags, -1, 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a new mapping, nobody else's.
        let pages = unsafe { Unforked::new(base, len) }?;
        Ok(Self { base: pages.base(), len, _pages: pages })
    }

    /// Bytes to read.
    ///
    /// # Panics
    /// If they are not all inside.
    #[inline]
    pub(crate) fn bytes(&self, range: Range<usize>) -> &[u8] {
        self.check(&range);
        // SAFETY: the range is inside the mapping (checked above), which is initialised and lives as long as `self`;
        // the kernel and `bytes_mut` write to it only through `&mut self`.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr().add(range.start), range.len()) }
    }

    /// Bytes to write.
    ///
    /// # Panics
    /// If they are not all inside.
    #[inline]
    pub(crate) fn bytes_mut(&mut self, range: Range<usize>) -> &mut [u8] {
        self.check(&range);
        // SAFETY: as for `bytes`, and `&mut self` makes the borrow the only one.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr().add(range.start), range.len()) }
    }

    /// For the kernel, to write `len` bytes during a system call.
    ///
    /// # Panics
    /// If they are not all inside.
    pub(super) fn ptr_at(&mut self, at: usize, len: usize) -> *mut libc::c_void {
        self.check(&(at..at + len));
        // SAFETY: `at` is inside the mapping or one past its end (checked above).
        unsafe { self.base.as_ptr().add(at).cast() }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    fn check(&self, range: &Range<usize>) {
        if range.start > range.end || range.end > self.len {
            outside(range.start, range.end, self.len);
        }
    }
}

/// Apart, so that who checks need not keep its words ready.
#[cold]
fn outside(start: usize, end: usize, len: usize) -> ! {
    panic!("{start}..{end} of {len}");
}
