//! What a fork must not take along.
//!
//! ```text
//!   page of this process   mark ──fork──▶ 0 in the child (MADV_WIPEONFORK), until it makes a mark of its own
//!   rings, rooms           mapped ──fork──▶ nothing there (MADV_DONTFORK)
//! ```
//!
//! A child that has a copy of an endpoint shares its sockets with the parent, and would share its rings: two would read what is
//! meant for one. So rings are not there in a child, and whoever holds a mark can tell that this is not its process any more.
//! That is asked before every use, so it is one load, and no system call.

use std::io;
use std::ptr::{self, NonNull};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use super::answer;

/// A page is what can be wiped.
const PAGE_LEN: usize = 4096;

/// The word that says which process this is.
struct Page(NonNull<AtomicU64>);

// SAFETY: the page is never unmapped, and what it holds is atomic.
unsafe impl Send for Page {}
// SAFETY: as above.
unsafe impl Sync for Page {}

impl Page {
    fn new() -> io::Result<Self> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new private mapping at an address of the kernel's choice touches nothing that exists.
        let base = unsafe { libc::mmap(ptr::null_mut(), PAGE_LEN, protection, flags, -1, 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: changes only what a child finds in this page, which is ours.
        answer(unsafe { libc::madvise(base, PAGE_LEN, libc::MADV_WIPEONFORK) })?;
        Ok(Self(NonNull::new(base.cast()).expect("a mapping is not at address 0")))
    }

    fn word(&self) -> &AtomicU64 {
        // SAFETY: a page that is mapped as long as the process lives, zeroed and aligned; only ever used as this atomic.
        unsafe { self.0.as_ref() }
    }
}

static PAGE: OnceLock<Page> = OnceLock::new();
/// Marks given so far, here and in the processes that this one was forked from.
static MARK_COUNT: AtomicU64 = AtomicU64::new(0);

/// Of what belongs to the process that made it, and to no child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark(u64);

impl Mark {
    /// This process's.
    ///
    /// # Errors
    /// What the system says when it gives no memory, or knows none that is wiped by a fork (before Linux 4.14).
    pub fn new() -> io::Result<Self> {
        let page = match PAGE.get() {
            Some(page) => page,
            None => {
                let page = Page::new()?;
                PAGE.get_or_init(|| page)
            }
        };
        let fresh = MARK_COUNT.fetch_add(1, Ordering::Relaxed) + 1;
        // Relaxed: the word alone is of interest. Of several threads that are first, one decides.
        let before = page.word().compare_exchange(0, fresh, Ordering::Relaxed, Ordering::Relaxed);
        Ok(Self(before.map_or_else(|mark| mark, |_| fresh)))
    }

    /// Whether this is still the process that made it, and not a child.
    #[inline]
    pub fn is_here(self) -> bool {
        PAGE.get().is_some_and(|page| page.word().load(Ordering::Relaxed) == self.0)
    }
}

/// Pages that a fork leaves behind.
#[derive(Debug)]
pub(super) struct Unforked {
    base: NonNull<u8>,
    len: usize,
    mark: Mark,
}

impl Unforked {
    /// Takes a new mapping into its care: not there in children, and unmapped when dropped.
    ///
    /// # Safety
    /// `base` and `len` are what `mmap` made, all of it, and nobody else unmaps it.
    pub(super) unsafe fn new(base: *mut libc::c_void, len: usize) -> io::Result<Self> {
        let base = NonNull::new(base.cast::<u8>()).expect("a mapping is not at address 0");
        let mark = Mark::new()?;
        // SAFETY: changes only what a child finds there.
        answer(unsafe { libc::madvise(base.as_ptr().cast(), len, libc::MADV_DONTFORK) })?;
        Ok(Self { base, len, mark })
    }

    pub(super) fn base(&self) -> NonNull<u8> {
        self.base
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }
}

impl Drop for Unforked {
    fn drop(&mut self) {
        // In a child something else may be there by now.
        if self.mark.is_here() {
            // SAFETY: base and length are those of a mapping (`new`); with `self` the last reference to it goes.
            unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
        }
    }
}
