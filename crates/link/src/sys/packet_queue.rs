//! Frames too long for a slot of the ring: taken off the socket's queue, each into room of its own or with its payload
//! scattered to where it is expected.
//!
//! ```text
//!   room of a frame:  [ Ethernet frame                 ]     plain
//!                     [ header and head ][ … payload ]       landing: the payload is in the application's memory, and can be
//!                                                            put behind its head later
//! ```
//!
//! The ring has told how long each is and how it begins, so a place is made only for what has the right length, and a frame
//! that is not the one the ring told of is found out.

use std::io;
use std::mem;
use std::ops::Range;
use std::os::fd::AsRawFd as _;
use std::ptr;

use super::answer;
use super::packet::PacketSocket;
use super::region::Region;
use crate::mem::{Memory, MemoryId, Table};

/// Frames of one call.
pub(crate) const QUEUED_COUNT_MAX: usize = 32;
/// The longest frame with its headers, rounded up.
const FRAME_LEN_MAX: usize = (1 << 16) + 64;
/// Not a multiple of a page, else the beginnings of all would share a few lines of the cache.
const ROOM_LEN: usize = FRAME_LEN_MAX + 4096 + 192;
/// Parts of one message: UIO_MAXIOV, less those for head and rest.
const PART_COUNT_MAX: usize = 1022;

/// Where the payload of a frame shall go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Destination {
    /// Which memory, and from where.
    pub(crate) id: MemoryId,
    pub(crate) offset: u64,
    pub(crate) len: usize,
    /// Bytes before it, headers included.
    pub(crate) before_len: usize,
}

/// Room for the long frames of one call.
pub(crate) struct PacketQueue {
    room: Region,
    parts: Vec<libc::iovec>,
    /// Where the parts of each message begin; they end where those of the next begin.
    part_starts: Vec<usize>,
    messages: Vec<libc::mmsghdr>,
}

impl std::fmt::Debug for PacketQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PacketQueue").finish_non_exhaustive()
    }
}

// SAFETY: the pointers that make it not `Send` by itself are used in the call that wrote them only.
unsafe impl Send for PacketQueue {}

impl PacketQueue {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            room: Region::new(QUEUED_COUNT_MAX * ROOM_LEN)?,
            parts: Vec::with_capacity(3 * QUEUED_COUNT_MAX),
            part_starts: Vec::with_capacity(QUEUED_COUNT_MAX),
            messages: Vec::with_capacity(QUEUED_COUNT_MAX),
        })
    }

    /// Receives as many frames as there are entries in `places`, in one system call, without waiting; each with its payload
    /// in its place, if it has one. Where that is not there, or in too many pieces, the entry is cleared and all of the
    /// frame goes to the room.
    pub(crate) fn receive(
        &mut self,
        socket: &PacketSocket,
        places: &mut [Option<Destination>],
        memory: &mut Table,
    ) -> io::Result<usize> {
        assert!(places.len() <= QUEUED_COUNT_MAX);
        self.parts.clear();
        self.part_starts.clear();
        for (number, place) in places.iter_mut().enumerate() {
            self.expect(number, place, memory);
        }
        self.call(socket)
    }

    fn expect(&mut self, number: usize, place: &mut Option<Destination>, memory: &Table) {
        let part_start = self.parts.len();
        self.part_starts.push(part_start);
        let found = place.and_then(|place| {
            let memory = memory.get(place.id).filter(|memory| memory.is_writable())?;
            Some((place, memory))
        });
        if let Some((place, memory)) = found
            && self.expect_in(number, &place, memory)
        {
            return;
        }
        *place = None;
        self.parts.truncate(part_start);
        let iov_base = self.room.ptr_at(number * ROOM_LEN, FRAME_LEN_MAX);
        self.parts.push(libc::iovec { iov_base, iov_len: FRAME_LEN_MAX });
    }

    fn expect_in(&mut self, number: usize, place: &Destination, memory: &Memory) -> bool {
        if place.before_len + place.len > FRAME_LEN_MAX {
            return false;
        }
        let part_start = self.parts.len();
        let iov_base = self.room.ptr_at(number * ROOM_LEN, place.before_len);
        self.parts.push(libc::iovec { iov_base, iov_len: place.before_len });
        let parts = &mut self.parts;
        let is_inside = memory.for_each(place.offset, place.len as u64, |part| {
            parts.push(libc::iovec { iov_base: part.ptr().cast(), iov_len: part.len() });
        });
        is_inside && self.parts.len() - part_start <= PART_COUNT_MAX
    }

    /// To be called by `receive` alone, which made the parts from what it still borrows.
    fn call(&mut self, socket: &PacketSocket) -> io::Result<usize> {
        self.messages.clear();
        for (number, &start) in self.part_starts.iter().enumerate() {
            let end = self.part_starts.get(number + 1).copied().unwrap_or(self.parts.len());
            // SAFETY: `msghdr` is plain data; all zeros are a valid value.
            let mut message: libc::msghdr = unsafe { mem::zeroed() };
            message.msg_iov = self.parts[start..end].as_mut_ptr();
            message.msg_iovlen = (end - start) as _;
            self.messages.push(libc::mmsghdr { msg_hdr: message, msg_len: 0 });
        }
        let (at, count) = (self.messages.as_mut_ptr(), self.messages.len() as libc::c_uint);
        // MSG_TRUNC: a frame longer than its parts tells its true length.
        let flags = libc::MSG_DONTWAIT | libc::MSG_TRUNC;
        let (fd, no_limit) = (socket.as_raw_fd(), ptr::null_mut());
        // SAFETY: each message names room of ours that stays where it is, and places in memory of the table, which `receive`
        // borrows and which lets us write there; no room is in two of them.
        answer(unsafe { libc::recvmmsg(fd, at, count, flags as _, no_limit) })
    }

    /// The length of a frame of the last call.
    pub(crate) fn frame_len(&self, number: usize) -> usize {
        self.messages[number].msg_len as usize
    }

    /// Bytes in the room of a frame.
    pub(crate) fn room(&self, number: usize, range: Range<usize>) -> &[u8] {
        self.room.bytes(within(number, range))
    }

    /// Bytes in the room of a frame, to write.
    pub(crate) fn room_mut(&mut self, number: usize, range: Range<usize>) -> &mut [u8] {
        self.room.bytes_mut(within(number, range))
    }
}

fn within(number: usize, range: Range<usize>) -> Range<usize> {
    assert!(range.end <= FRAME_LEN_MAX);
    number * ROOM_LEN + range.start..number * ROOM_LEN + range.end
}
