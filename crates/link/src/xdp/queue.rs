//! One queue of the interface: a socket, its memory, and the way of packets through it.

use std::io;

use crate::Burst;
use crate::burst::{Frame, Piece};
use crate::ether::{self, HEADER_LEN, Header, Parsed, Station};
use crate::mem::Table;
use crate::sys::xdp::Xsk;
use crate::umem::{FRAME_LEN, FreeFrame, RxFrame, Umem};

/// Calls in a row to have the kernel send what is in the ring: each sends a part of it.
const CALL_COUNT_MAX: usize = 64;
/// Lone packets that may be done before their frames are taken back: few, so that the same ones stay in the cache.
const LONE_COUNT: usize = 4;
/// What Ethernet sends at least, without its checksum. Not every driver adds what is missing.
const PACKET_LEN_MIN: usize = 60;
/// Frames of one packet, more than Linux ever makes.
const SCATTER_COUNT_MAX: usize = 32;

/// A packet to send, not yet in one piece.
#[derive(Clone, Copy)]
pub(super) struct Packet<'a> {
    pub(super) header: &'a Header,
    pub(super) burst: &'a Burst,
    pub(super) frame: &'a Frame,
}

/// What became of a packet to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Put {
    /// In the ring.
    Done,
    /// There is no room.
    Full,
    /// Its payload is no longer there.
    Void,
}

/// Why the kernel does not send.
#[derive(Debug)]
pub(super) enum Stop {
    /// Too much is on its way.
    Busy,
    /// The interface is down: what is in the ring stays there.
    Down,
    /// The socket is of no use any more.
    Dead(io::Error),
}

/// A frame that arrived.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    pub(super) from: Station,
    pub(super) place: Lies,
    pub(super) len: u32,
}

/// Where a frame lies.
#[derive(Clone, Copy, Debug)]
pub(super) enum Lies {
    /// In memory shared with the kernel: number of the queue, and of what it holds.
    Held { queue: u32, index: u32 },
    /// From here on in [`Arrivals::joined`].
    Joined { start: u32 },
}

/// What arrived in one call.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    pub(super) list: Vec<Arrival>,
    /// Frames that came in several pieces.
    pub(super) joined: Vec<u8>,
    /// Packets that are not for us, or nonsense, ever.
    pub(super) void_count: u64,
}

#[derive(Debug)]
pub(super) struct Queue {
    socket: Xsk,
    umem: Umem,
    /// For packets out.
    free: Vec<FreeFrame>,
    /// How many there are when none is on its way.
    tx_count: usize,
    /// What arrived since the last `recycle`.
    held: Vec<RxFrame>,
    /// The start of a packet whose rest is not there yet.
    partial: Vec<RxFrame>,
    /// Frames to receive into that the kernel had no room for.
    spare: Vec<FreeFrame>,
    /// Something is in the transmit ring for which the kernel was not called, or with which it was not done.
    is_owed: bool,
    calls_out: u64,
    joined_count: u64,
}

impl Queue {
    /// Gives the kernel `rx_count` of the frames; the others are for packets out.
    pub(super) fn new(socket: Xsk, umem: Umem, mut free: Vec<FreeFrame>, rx_count: u32) -> Self {
        let tx_count = free.len().saturating_sub(rx_count as usize);
        let spare = free.split_off(tx_count);
        let (held, partial) = (Vec::new(), Vec::new());
        let mut queue = Self {
            socket,
            umem,
            free,
            tx_count,
            held,
            partial,
            spare,
            is_owed: false,
            calls_out: 0,
            joined_count: 0,
        };
        queue.refill();
        queue
    }

    pub(super) fn socket(&self) -> &Xsk {
        &self.socket
    }

    pub(super) fn calls_out(&self) -> u64 {
        self.calls_out
    }

    /// Frames that came in several pieces.
    pub(super) fn joined_count(&self) -> u64 {
        self.joined_count
    }

    /// Descriptors of the kernel that made no sense.
    pub(super) fn bad_count(&self) -> u64 {
        self.umem.bad_count()
    }
}

/// Sending.
impl Queue {
    /// Takes frames back that were sent.
    #[inline]
    pub(super) fn reap(&mut self) {
        self.umem.complete(&mut self.free);
    }

    /// Puts a packet of one piece into the ring, if it fits a frame and there is one.
    #[inline]
    pub(super) fn put_lone(&mut self, header: &Header, bytes: &[u8]) -> bool {
        let len = HEADER_LEN + bytes.len();
        if len > FRAME_LEN {
            return false;
        }
        if self.free.len() + LONE_COUNT <= self.tx_count {
            self.reap();
        }
        let Some(mut frame) = self.free.pop() else { return false };
        let room = self.umem.bytes_mut(&mut frame);
        room[..HEADER_LEN].copy_from_slice(header);
        room[HEADER_LEN..len].copy_from_slice(bytes);
        self.put_frame(frame, len) == Put::Done
    }

    /// Puts a frame with a whole packet into the ring, made as long as Ethernet wants it.
    #[inline]
    fn put_frame(&mut self, mut frame: FreeFrame, len: usize) -> Put {
        let whole_len = len.max(PACKET_LEN_MIN);
        if len < whole_len {
            self.umem.bytes_mut(&mut frame)[len..whole_len].fill(0);
        }
        match self.umem.send(frame.into_tx(whole_len, false)) {
            Ok(()) => {
                self.is_owed = true;
                Put::Done
            }
            Err(frame) => {
                self.free.push(frame);
                Put::Full
            }
        }
    }

    /// Copies a packet into frames and puts them into the ring.
    #[inline]
    pub(super) fn put(&mut self, packet: Packet<'_>, memory: &Table) -> Put {
        let len = HEADER_LEN + packet.frame.len as usize;
        if len > FRAME_LEN {
            return self.put_scattered(packet, len, memory);
        }
        let Some(mut frame) = self.free.pop() else { return Put::Full };
        let bytes = self.umem.bytes_mut(&mut frame);
        if !packet.copy_range(0, &mut bytes[..len], memory) {
            self.free.push(frame);
            return Put::Void;
        }
        self.put_frame(frame, len)
    }

    fn put_scattered(&mut self, packet: Packet<'_>, len: usize, memory: &Table) -> Put {
        let count = len.div_ceil(FRAME_LEN);
        if self.free.len() < count {
            return Put::Full;
        }
        for number in 0..count {
            let start = number * FRAME_LEN;
            let piece_len = FRAME_LEN.min(len - start);
            // Frames leave from the end of the list, so the packet's first is the last there.
            let at = self.free.len() - 1 - number;
            let bytes = self.umem.bytes_mut(&mut self.free[at]);
            if !packet.copy_range(start, &mut bytes[..piece_len], memory) {
                return Put::Void;
            }
        }
        for number in 0..count {
            let is_continued = number + 1 < count;
            let piece_len = FRAME_LEN.min(len - number * FRAME_LEN);
            let frame = self.free.pop().expect("so many were counted");
            let sent = self.umem.send(frame.into_tx(piece_len, is_continued));
            assert!(sent.is_ok(), "the ring has room for all frames that there are");
        }
        self.is_owed = true;
        Put::Done
    }

    /// Whether the kernel must be called.
    #[inline]
    pub(super) fn is_owed(&self) -> bool {
        self.is_owed
    }

    /// Has the kernel send what is in the ring. Whether there was something.
    #[inline]
    pub(super) fn flush(&mut self) -> Result<bool, Stop> {
        if !std::mem::take(&mut self.is_owed) {
            return Ok(false);
        }
        self.umem.publish_tx();
        if !self.umem.tx_wants_call() {
            return Ok(true);
        }
        self.calls_out += 1;
        match self.socket.call_to_send() {
            Ok(()) => Ok(true),
            Err(error) => self.flush_rest(error),
        }
    }

    /// The kernel was called and is not done.
    #[cold]
    fn flush_rest(&mut self, mut error: io::Error) -> Result<bool, Stop> {
        for _ in 0..CALL_COUNT_MAX {
            let waiting = self.umem.tx_waiting();
            self.is_owed = waiting > 0;
            match error.raw_os_error() {
                // It sends only so many in one call. What was sent must be taken back for more to be sent.
                Some(libc::EAGAIN | libc::EINTR) => self.reap(),
                Some(libc::EBUSY | libc::ENOBUFS | libc::ENOMEM) => return Err(Stop::Busy),
                Some(libc::ENETDOWN) => return Err(Stop::Down),
                _ => return Err(Stop::Dead(error)),
            }
            self.calls_out += 1;
            match self.socket.call_to_send() {
                Ok(()) => {
                    self.is_owed = false;
                    return Ok(true);
                }
                Err(_) if self.umem.tx_waiting() == waiting => return Err(Stop::Busy),
                Err(next) => error = next,
            }
        }
        Err(Stop::Busy)
    }
}

impl Packet<'_> {
    /// Copies its bytes from `start` on, as many as `out` takes. False if some are no longer there.
    #[inline]
    fn copy_range(self, start: usize, out: &mut [u8], memory: &Table) -> bool {
        let end = start + out.len();
        let mut at = 0;
        // What of the next `len` bytes of the packet is wanted: from where in them, and where it goes.
        let mut next = |len: usize| {
            let (from, to) = (at.max(start), (at + len).min(end));
            let skipped = from - at.min(from);
            at += len;
            (from < to).then(|| (skipped..skipped + (to - from), from - start..to - start))
        };
        if let Some((part, place)) = next(HEADER_LEN) {
            out[place].copy_from_slice(&self.header[part]);
        }
        for piece in self.burst.pieces(self.frame) {
            match *piece {
                Piece::Head { len, .. } => {
                    if let Some((part, place)) = next(len as usize) {
                        out[place].copy_from_slice(&self.burst.head_bytes(piece)[part]);
                    }
                }
                Piece::User { id, offset, len } => {
                    if let Some((part, place)) = next(len as usize)
                        && !memory.copy_to(id, offset + part.start as u64, &mut out[place])
                    {
                        return false;
                    }
                }
            }
        }
        at >= end
    }
}

/// Receiving.
impl Queue {
    /// Gives the kernel back what arrived before.
    #[inline]
    pub(super) fn recycle(&mut self) {
        if self.held.is_empty() {
            return;
        }
        while let Some(frame) = self.held.pop() {
            // It has room for all frames that are received into; should it say otherwise, they wait.
            if let Err(frame) = self.umem.fill(frame.free().into_fill()) {
                self.spare.push(frame);
            }
        }
        self.umem.publish_fill();
        if !self.spare.is_empty() {
            self.refill();
        }
    }

    /// Gives the kernel spare frames, as many as it has room for.
    #[cold]
    fn refill(&mut self) {
        while let Some(frame) = self.spare.pop() {
            if let Err(frame) = self.umem.fill(frame.into_fill()) {
                self.spare.push(frame);
                break;
            }
        }
        self.umem.publish_fill();
    }

    /// Has the kernel look for packets, if it must be asked.
    #[inline]
    pub(super) fn look(&mut self, is_busy_polled: bool) {
        if is_busy_polled || self.umem.fill_wants_call() {
            // That it has nothing, or that the interface is down, is no news to who receives.
            let _ = self.socket.call_to_receive();
        }
    }

    /// Takes what arrived, until there are `count_max` arrivals. `to` is our number, `number` that of this queue.
    #[inline]
    pub(super) fn receive(&mut self, to: u32, number: u32, count_max: usize, out: &mut Arrivals) {
        while out.list.len() < count_max {
            let Some(frame) = self.umem.receive() else { break };
            if frame.is_continued() || !self.partial.is_empty() {
                self.receive_piece(frame, to, out);
                continue;
            }
            let bytes = self.umem.bytes(&frame);
            match read(bytes, bytes.len(), to) {
                Some(Parsed { from, len, .. }) => {
                    let place = Lies::Held { queue: number, index: self.held.len() as u32 };
                    out.list.push(Arrival { from, place, len: len as u32 });
                }
                None => out.void_count += 1,
            }
            self.held.push(frame);
        }
        self.umem.release_rx();
    }

    /// A piece of a packet, which is complete if it was the last.
    fn receive_piece(&mut self, frame: RxFrame, to: u32, out: &mut Arrivals) {
        let is_last = !frame.is_continued();
        self.partial.push(frame);
        if !is_last && self.partial.len() < SCATTER_COUNT_MAX {
            return;
        }
        let packet_len = self.partial.iter().map(RxFrame::len).sum();
        let first = self.umem.bytes(&self.partial[0]);
        match read(first, packet_len, to).filter(|_| is_last) {
            Some(Parsed { from, len, .. }) => {
                let start = (out.joined.len() + HEADER_LEN) as u32;
                out.list.push(Arrival { from, place: Lies::Joined { start }, len: len as u32 });
                self.joined_count += 1;
                for frame in &self.partial {
                    out.joined.extend_from_slice(self.umem.bytes(frame));
                }
            }
            None => out.void_count += 1,
        }
        self.held.append(&mut self.partial);
    }

    /// Our frame in a packet that came whole.
    #[inline]
    pub(super) fn bytes(&self, index: u32, len: usize) -> &[u8] {
        &self.umem.bytes(&self.held[index as usize])[HEADER_LEN..HEADER_LEN + len]
    }
}

/// What the header of a packet says, if it is for the endpoint `to`. What stands behind the frame is not looked at, whatever
/// the driver left there.
#[inline]
fn read(start: &[u8], packet_len: usize, to: u32) -> Option<Parsed> {
    ether::parse(start, packet_len).filter(|parsed| parsed.to == to)
}
