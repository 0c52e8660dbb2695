//! Frames in memory that the kernel shares with us: they arrive without a system call.
//!
//! ```text
//!   block  [ slot ][ slot ][ slot ] │ block  [ slot ] …        TPACKET_V2 of Linux
//!   slot   [ status  lengths  … ][ gap ][ Ethernet frame, as much as fits ]
//!            │ KERNEL: the kernel's to fill        ▲ given back, with Release, once nobody reads it any more
//!            └ USER: ours; set last by the kernel, so all it wrote is seen by whoever loads that with Acquire
//! ```
//!
//! Slots are filled and given back in order. The kernel is trusted to keep off a slot that is ours, but not with numbers: what
//! it says of a frame is compared with the slot before a byte is read.

use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd as _;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};

use super::fork::Unforked;
use super::packet::{Layout, PacketSocket};

const HEADER_LEN: usize = size_of::<libc::tpacket2_hdr>();

/// A frame in a slot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Filled {
    pub(crate) slot: usize,
    /// Where in the slot it begins.
    pub(crate) at: usize,
    /// How much of it is in the slot.
    pub(crate) here_len: usize,
    /// How long it is.
    pub(crate) len: usize,
    /// The whole of it is in the socket's queue, too.
    pub(crate) is_queued: bool,
    /// Frames have been lost since the count of them was asked for last.
    pub(crate) is_losing: bool,
}

/// The ring of a packet socket.
#[derive(Debug)]
pub(crate) struct Ring {
    base: NonNull<u8>,
    layout: Layout,
    slot_count: usize,
    per_block: usize,
    /// The slot that is filled next.
    next: usize,
    /// Slots before it that are still ours.
    held_count: usize,
    _pages: Unforked,
}

// SAFETY: a `Ring` owns its mapping, which belongs to no thread.
unsafe impl Send for Ring {}

impl Ring {
    /// Maps the ring that `make_ring` made with this layout.
    pub(crate) fn map(socket: &PacketSocket, layout: Layout) -> io::Result<Self> {
        let (fd, len) = (socket.as_raw_fd(), layout.len());
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
        let base = unsafe { libc::mmap(ptr::null_mut(), len, protection, libc::MAP_SHARED, fd, 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a new mapping, nobody else's.
        let pages = unsafe { Unforked::new(base, len) }?;
        let base = pages.base();
        let (slot_count, per_block) = (layout.slot_count(), layout.slots_per_block());
        assert!((1..=u32::MAX as usize).contains(&slot_count));
        assert!(layout.slot_len >= HEADER_LEN && layout.slot_len.is_multiple_of(16));
        Ok(Self { base, layout, slot_count, per_block, next: 0, held_count: 0, _pages: pages })
    }

    pub(crate) fn slot_count(&self) -> usize {
        self.slot_count
    }

    #[inline]
    fn slot_ptr(&self, slot: usize) -> *mut u8 {
        assert!(slot < self.slot_count);
        // In 32 bits, which are quicker to divide: there are not that many.
        let (block, number) =
            (slot as u32 / self.per_block as u32, slot as u32 % self.per_block as u32);
        let at = block as usize * self.layout.block_len + number as usize * self.layout.slot_len;
        // SAFETY: the slot is one of the ring (asserted above), so its beginning is inside the mapping.
        unsafe { self.base.as_ptr().add(at) }
    }

    #[inline]
    fn status(&self, slot: usize) -> &AtomicU32 {
        // SAFETY: a slot is aligned to 16 bytes and begins with its status, which both sides change as a whole.
        unsafe { &*self.slot_ptr(slot).cast::<AtomicU32>() }
    }

    /// Whether the next slot is filled.
    #[inline]
    pub(crate) fn is_filled(&self) -> bool {
        self.held_count < self.slot_count
            && self.status(self.next).load(Ordering::Relaxed) & libc::TP_STATUS_USER != 0
    }

    /// The next frame, if there is one; its slot stays as it is until `take` and `release`.
    #[inline]
    pub(crate) fn peek(&self) -> Option<Filled> {
        if self.held_count == self.slot_count {
            return None; // all are ours already
        }
        let slot = self.next;
        // Acquire: the kernel wrote the frame and what it says of it before it set this.
        let status = self.status(slot).load(Ordering::Acquire);
        if status & libc::TP_STATUS_USER == 0 {
            return None;
        }
        // SAFETY: the slot is ours (its status says so) and begins with such a header; any bytes make this plain struct.
        let header = unsafe { self.slot_ptr(slot).cast::<libc::tpacket2_hdr>().read() };
        let at = usize::from(header.tp_mac).min(self.layout.slot_len);
        let room = self.layout.slot_len - at;
        Some(Filled {
            slot,
            at,
            here_len: (header.tp_snaplen as usize).min(room),
            len: header.tp_len as usize,
            is_queued: status & libc::TP_STATUS_COPY != 0,
            is_losing: status & libc::TP_STATUS_LOSING != 0,
        })
    }

    /// The slot that `peek` showed is ours from now on, and the one behind it is the next.
    #[inline]
    pub(crate) fn take(&mut self) {
        self.held_count += 1;
        self.next = if self.next + 1 == self.slot_count { 0 } else { self.next + 1 };
    }

    /// Bytes of a slot that is ours.
    ///
    /// # Panics
    /// If they are not all inside, or the slot was given back.
    #[inline]
    pub(crate) fn bytes(&self, slot: usize, range: Range<usize>) -> &[u8] {
        assert!(range.start <= range.end && range.end <= self.layout.slot_len);
        let behind =
            if slot < self.next { self.next - slot } else { self.next + self.slot_count - slot };
        assert!(behind <= self.held_count, "slot {slot} was given back");
        // SAFETY: the range is inside the slot (asserted above), which is ours: the kernel writes to it only after
        // `release`, which takes `&mut self`.
        unsafe { std::slice::from_raw_parts(self.slot_ptr(slot).add(range.start), range.len()) }
    }

    /// Gives all slots that were taken back to the kernel.
    #[inline]
    pub(crate) fn release(&mut self) {
        let (next, held) = (self.next, self.held_count);
        let mut slot = if held <= next { next - held } else { next + self.slot_count - held };
        for _ in 0..held {
            // Release: whatever was read of the slot was read before.
            self.status(slot).store(libc::TP_STATUS_KERNEL, Ordering::Release);
            slot = if slot + 1 == self.slot_count { 0 } else { slot + 1 };
        }
        self.held_count = 0;
    }
}
