//! The memory of an AF_XDP socket, cut into frames, each of which has exactly one owner.
//!
//! ```text
//!             ┌───────────── complete ◀── kernel sends ◀── send ── TxFrame ◀── FreeFrame::into_tx ──┐
//!             ▼                                                                                     │
//!         FreeFrame ── into_fill ──▶ FillFrame ── fill ──▶ kernel receives ──▶ receive ──▶ RxFrame ──┴─▶ free ──▶ FreeFrame
//! ```
//!
//! The types move and cannot be copied: who has given a frame to the kernel has no means left to touch it. What comes
//! back from the kernel's rings is a number until it was compared with what the kernel was given: a frame that it does not
//! have, or bytes outside of it, make no frame; they are counted.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::sys::xdp::{CONTINUED, Descriptor, Mapping, Rings};

/// Length of a frame: a page, the most the kernel takes on every system.
pub(crate) const FRAME_LEN: usize = 4096;
/// What the kernel leaves free at the start of a frame it receives into (XDP_PACKET_HEADROOM).
pub(crate) const RX_HEADROOM_LEN: usize = 256;
/// The longest piece of a packet that arrives in one frame.
pub(crate) const RX_LEN_MAX: usize = FRAME_LEN - RX_HEADROOM_LEN;

/// A frame of ours, to do with as we like.
#[derive(Debug)]
pub(crate) struct FreeFrame {
    number: u32,
    /// Which `Umem` it is of.
    home: u32,
}

/// A frame with bytes to send.
#[derive(Debug)]
pub(crate) struct TxFrame {
    frame: FreeFrame,
    len: u32,
    is_continued: bool,
}

/// A frame for the kernel to receive into.
#[derive(Debug)]
pub(crate) struct FillFrame(FreeFrame);

/// A frame with bytes that arrived.
#[derive(Debug)]
pub(crate) struct RxFrame {
    frame: FreeFrame,
    start: u32,
    len: u32,
    is_continued: bool,
}

impl FreeFrame {
    /// With so many bytes, of a packet that goes on in the next frame or does not.
    ///
    /// # Panics
    /// If they are more than a frame holds.
    pub(crate) fn into_tx(self, len: usize, is_continued: bool) -> TxFrame {
        assert!(len <= FRAME_LEN, "{len} bytes in a frame");
        TxFrame { frame: self, len: len as u32, is_continued }
    }

    pub(crate) fn into_fill(self) -> FillFrame {
        FillFrame(self)
    }
}

impl RxFrame {
    /// Whether the packet goes on in the next frame.
    pub(crate) fn is_continued(&self) -> bool {
        self.is_continued
    }

    pub(crate) fn len(&self) -> usize {
        self.len as usize
    }

    /// Its bytes have been read.
    pub(crate) fn free(self) -> FreeFrame {
        self.frame
    }
}

/// The side that may write to a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holder {
    Us,
    KernelToSend,
    KernelToFill,
}

/// The memory and the rings through which its frames go to the kernel and come back.
#[derive(Debug)]
pub(crate) struct Umem {
    memory: Mapping,
    rings: Rings,
    holders: Vec<Holder>,
    home: u32,
    bad_count: u64,
}

impl Umem {
    /// Maps `frame_count` frames from `offset` of the memory on, which must be what was registered with the socket that
    /// the rings are of. All frames are free.
    pub(crate) fn new(
        memory: BorrowedFd<'_>,
        offset: u64,
        frame_count: u32,
        rings: Rings,
    ) -> io::Result<(Self, Vec<FreeFrame>)> {
        static HOME_COUNT: AtomicU32 = AtomicU32::new(0);
        // Relaxed: numbers need only differ.
        let home = HOME_COUNT.fetch_add(1, Ordering::Relaxed);
        let memory = Mapping::new(memory, offset, frame_count as usize * FRAME_LEN)?;
        let holders = vec![Holder::Us; frame_count as usize];
        // From the last to the first, so that the first is taken first.
        let frames = (0..frame_count).rev().map(|number| FreeFrame { number, home }).collect();
        Ok((Self { memory, rings, holders, home, bad_count: 0 }, frames))
    }

    /// All bytes of a frame, to write.
    #[inline]
    pub(crate) fn bytes_mut(&mut self, frame: &mut FreeFrame) -> &mut [u8] {
        let start = self.place_of(frame);
        // SAFETY: a frame number is less than the count of frames, so all its bytes are inside the mapping, which lives as
        // long as `self`. A `FreeFrame` exists once, and only while the kernel does not have the frame: `send` and
        // `fill` consume it, and `complete` and `receive` make one only of what the kernel had. With `&mut self` the
        // borrow is the only one here. An opener in another process has given the memory away for good.
        unsafe { std::slice::from_raw_parts_mut(self.memory.base().as_ptr().add(start), FRAME_LEN) }
    }

    /// The bytes that arrived in a frame.
    #[inline]
    pub(crate) fn bytes(&self, frame: &RxFrame) -> &[u8] {
        let start = self.place_of(&frame.frame) + frame.start as usize;
        // SAFETY: start and length stay inside the frame (checked in `receive`), which is inside the mapping; the kernel gave
        // it up with the count that `Consumer::pop` loaded with Acquire and gets it back only by `fill`, which wants the
        // `RxFrame` back first: while that is borrowed, nobody writes these bytes (`bytes_mut` wants a `FreeFrame`).
        unsafe { std::slice::from_raw_parts(self.memory.base().as_ptr().add(start), frame.len()) }
    }

    /// Where a frame starts.
    #[inline]
    fn place_of(&self, frame: &FreeFrame) -> usize {
        assert_eq!(frame.home, self.home, "a frame of another memory");
        frame.number as usize * FRAME_LEN
    }

    /// Puts a frame into the transmit ring; `publish_tx` shows it to the kernel. Gives it back if there is no room.
    #[inline]
    pub(crate) fn send(&mut self, tx: TxFrame) -> Result<(), FreeFrame> {
        let addr = self.place_of(&tx.frame) as u64;
        let options = if tx.is_continued { CONTINUED } else { 0 };
        if !self.rings.tx.push(Descriptor { addr, len: tx.len, options }) {
            return Err(tx.frame);
        }
        self.holders[tx.frame.number as usize] = Holder::KernelToSend;
        Ok(())
    }

    #[inline]
    pub(crate) fn publish_tx(&mut self) {
        self.rings.tx.publish();
    }

    /// Packets' frames in the transmit ring that the kernel has not taken.
    #[inline]
    pub(crate) fn tx_waiting(&mut self) -> u32 {
        self.rings.tx.waiting()
    }

    /// Whether the kernel must be called to send.
    #[inline]
    pub(crate) fn tx_wants_call(&self) -> bool {
        self.rings.tx.wants_call()
    }

    /// Takes the frames back that were sent.
    #[inline]
    pub(crate) fn complete(&mut self, free: &mut Vec<FreeFrame>) {
        while let Some(addr) = self.rings.completion.pop() {
            match self.take_back(addr, Holder::KernelToSend) {
                Some((frame, 0)) => free.push(frame),
                _ => self.bad_count += 1,
            }
        }
        self.rings.completion.release();
    }

    /// Gives the kernel a frame to receive into; `publish_fill` shows it. Gives it back if there is no room.
    #[inline]
    pub(crate) fn fill(&mut self, fill: FillFrame) -> Result<(), FreeFrame> {
        let addr = self.place_of(&fill.0) as u64;
        if !self.rings.fill.push(addr) {
            return Err(fill.0);
        }
        self.holders[fill.0.number as usize] = Holder::KernelToFill;
        Ok(())
    }

    #[inline]
    pub(crate) fn publish_fill(&mut self) {
        self.rings.fill.publish();
    }

    /// Whether the kernel ran out of frames and must be called to look for more.
    #[inline]
    pub(crate) fn fill_wants_call(&self) -> bool {
        self.rings.fill.wants_call()
    }

    /// The next frame that arrived; `release_rx` gives the room of its descriptor back.
    #[inline]
    pub(crate) fn receive(&mut self) -> Option<RxFrame> {
        while let Some(descriptor) = self.rings.rx.pop() {
            if let Some(frame) = self.take_received(descriptor) {
                return Some(frame);
            }
            self.bad_count += 1;
        }
        None
    }

    #[inline]
    pub(crate) fn release_rx(&mut self) {
        self.rings.rx.release();
    }

    #[inline]
    fn take_received(&mut self, descriptor: Descriptor) -> Option<RxFrame> {
        let (start, len) = ((descriptor.addr as usize) % FRAME_LEN, descriptor.len as usize);
        if len > FRAME_LEN - start {
            return None;
        }
        let (frame, start) = self.take_back(descriptor.addr, Holder::KernelToFill)?;
        let is_continued = descriptor.options & CONTINUED != 0;
        Some(RxFrame { frame, start, len: descriptor.len, is_continued })
    }

    /// A frame by an address in it, if the kernel had it, and where in it the address is.
    #[inline]
    fn take_back(&mut self, addr: u64, from: Holder) -> Option<(FreeFrame, u32)> {
        let number = usize::try_from(addr / FRAME_LEN as u64).ok()?;
        let holder = self.holders.get_mut(number).filter(|holder| **holder == from)?;
        *holder = Holder::Us;
        let frame = FreeFrame { number: number as u32, home: self.home };
        Some((frame, (addr % FRAME_LEN as u64) as u32))
    }

    /// Descriptors of the kernel that named nothing it had.
    pub(crate) fn bad_count(&self) -> u64 {
        self.bad_count
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;

    use super::*;
    use crate::sys::xdp::pretended::{self, Kernel};
    use crate::sys::xdp::{RingSizes, shared_memory};

    const COUNT: u32 = 8;

    fn umem() -> (Umem, Vec<FreeFrame>, Kernel) {
        let (rings, kernel) = pretended::rings(RingSizes { rx: 4, tx: 4 });
        let memory = shared_memory(u64::from(COUNT) * FRAME_LEN as u64).unwrap();
        let (umem, free) = Umem::new(memory.as_fd(), 0, COUNT, rings).unwrap();
        (umem, free, kernel)
    }

    fn arrives(kernel: &mut Kernel, addr: u64, len: u32) {
        assert!(kernel.rx.push(Descriptor { addr, len, options: 0 }));
        kernel.rx.publish();
    }

    #[test]
    fn frames_go_round() {
        let (mut umem, mut free, mut kernel) = umem();
        for round in 0..50_u8 {
            let mut out = free.pop().unwrap();
            umem.bytes_mut(&mut out)[..2].copy_from_slice(&[round, 7]);
            umem.send(out.into_tx(2, false)).unwrap();
            umem.fill(free.pop().unwrap().into_fill()).unwrap();
            umem.publish_tx();
            umem.publish_fill();
            assert_eq!(free.len(), 6);
            let sent = kernel.tx.pop().unwrap();
            kernel.tx.release();
            assert_eq!((sent.len, sent.options), (2, 0));
            umem.complete(&mut free);
            assert_eq!(free.len(), 6, "not done yet");
            assert!(kernel.completion.push(sent.addr));
            kernel.completion.publish();
            let addr = kernel.fill.pop().unwrap();
            kernel.fill.release();
            arrives(&mut kernel, addr + 256, 100);
            umem.complete(&mut free);
            assert_eq!(free.len(), 7);
            let arrived = umem.receive().unwrap();
            umem.release_rx();
            assert_eq!((umem.bytes(&arrived).len(), arrived.is_continued()), (100, false));
            free.push(arrived.free());
        }
        assert_eq!((free.len(), umem.bad_count()), (8, 0));
    }

    #[test]
    fn what_the_kernel_does_not_have_it_cannot_give() {
        let (mut umem, mut free, mut kernel) = umem();
        umem.fill(free.pop().unwrap().into_fill()).unwrap(); // number 0
        let end = u64::from(COUNT) * FRAME_LEN as u64;
        let hostile = [
            (end, 10),              // behind the memory
            (u64::MAX, 10),         // far behind it
            (256, 4096),            // beyond the end of the frame
            (4095, u32::MAX),       // far beyond
            (FRAME_LEN as u64, 10), // a frame of ours
        ];
        for (addr, len) in hostile {
            arrives(&mut kernel, addr, len);
            assert!(umem.receive().is_none(), "{addr} {len}");
            umem.release_rx();
        }
        arrives(&mut kernel, 256, 3840);
        let arrived = umem.receive().unwrap();
        arrives(&mut kernel, 256, 10);
        assert!(umem.receive().is_none(), "given twice");
        assert!(kernel.completion.push(0), "received, never sent");
        kernel.completion.publish();
        umem.complete(&mut free);
        assert_eq!(umem.bad_count(), 7);
        free.push(arrived.free());
        assert_eq!(free.len(), 8);
    }

    #[test]
    #[should_panic(expected = "a frame of another memory")]
    fn frames_stay_at_home() {
        let (mut here, ..) = umem();
        let (_there, mut free, _) = umem();
        let _ = here.send(free.pop().unwrap().into_tx(1, false));
    }
}
