//! Datagrams, each into room of its own, or scattered to where its payload is expected.
//!
//! ```text
//!   slot:  plain    [ 64 KiB of spill ]
//!          landing  [head][ place ][head][ place ] … [ 64 KiB of spill ]
//!                   └ our memory   └ the application's
//!
//!   room of a slot:  [ 64 KiB to gather into ][ 64 KiB of spill ]
//!                     what did not land where it belongs is moved here, so that it ends where the spill begins
//! ```
//!
//! A datagram of 65535 bytes fits whatever was expected, so nothing is ever cut off.

use std::io;
use std::mem;
use std::ops::Range;
use std::os::fd::AsRawFd as _;
use std::ptr;

use super::last_errno;
use super::name::Name;
use super::region::Region;
use super::socket::{Socket, each_control};
use crate::Landing;
use crate::mem::{Memory, Stamp, Table};

/// Datagrams of one call.
pub(crate) const SLOT_COUNT_MAX: usize = 64;
/// The longest datagram, rounded up.
const DATAGRAM_LEN_MAX: usize = 1 << 16;
/// Not a multiple of a page, else the beginnings of all slots would share a few lines of the cache.
const SLOT_LEN: usize = 2 * DATAGRAM_LEN_MAX + 4096 + 192;
/// Heads of what is expected in all slots of a call.
const HEADS_LEN: usize = 1 << 18;
/// Parts of one message: UIO_MAXIOV, less one for the spill.
const PART_COUNT_MAX: usize = 1023;
/// A segment length and a count of drops.
const CONTROL_WORD_COUNT: usize = 8;

/// What one slot was made for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Expected {
    /// Frames with a place for their payload.
    pub(crate) count: usize,
    /// Where their heads are.
    pub(crate) heads_at: usize,
    /// Where in the memory the first one's place is.
    pub(crate) offset: u64,
    /// Length of the last one's place.
    pub(crate) last_len: usize,
    part_start: usize,
    part_end: usize,
}

/// What is left of the memory that payload is expected in.
struct Rest<'a> {
    memory: &'a Memory,
    offset: u64,
    len: u64,
}

/// A datagram, or a train that the kernel put together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Datagram {
    pub(crate) from: Name,
    pub(crate) len: usize,
    /// Length of each segment but the last; `None` if it came alone.
    pub(crate) segment_len: Option<usize>,
    /// How many datagrams this socket has dropped so far, if the kernel said so.
    pub(crate) dropped: Option<u32>,
}

/// Room for what one call receives.
pub(crate) struct Inbox {
    /// Room of each slot.
    room: Region,
    heads: Region,
    head_end: usize,
    parts: Vec<libc::iovec>,
    messages: Vec<libc::mmsghdr>,
    names: Vec<Name>,
    controls: Vec<[u64; CONTROL_WORD_COUNT]>,
    expected: Vec<Expected>,
    made_for: Option<Made>,
}

/// What the parts were made for. As long as nothing of it changes they are good for another call: the stamp says that
/// all memory they point to is still the table's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Made {
    slot_count: usize,
    landing: Option<(Landing, usize, Stamp)>,
}

impl std::fmt::Debug for Inbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inbox").finish_non_exhaustive()
    }
}

// SAFETY: the pointers that make it not `Send` by itself are used by the kernel only, in a call that borrows what they point
// to: its own vectors and regions, which do not move with it, and memory of a table, while that is in its place (`Made`).
unsafe impl Send for Inbox {}

impl Inbox {
    pub(crate) fn new() -> io::Result<Self> {
        let nothing = libc::mmsghdr {
            // SAFETY: `msghdr` is plain data; all zeros are a valid value.
            msg_hdr: unsafe { mem::zeroed() },
            msg_len: 0,
        };
        Ok(Self {
            room: Region::new(SLOT_COUNT_MAX * SLOT_LEN)?,
            heads: Region::new(HEADS_LEN)?,
            head_end: 0,
            parts: Vec::with_capacity(2 * SLOT_COUNT_MAX),
            messages: vec![nothing; SLOT_COUNT_MAX],
            names: vec![Name::ROOM; SLOT_COUNT_MAX],
            controls: vec![[0; CONTROL_WORD_COUNT]; SLOT_COUNT_MAX],
            expected: Vec::with_capacity(SLOT_COUNT_MAX),
            made_for: None,
        })
    }

    /// Receives up to `slot_count` datagrams, in one system call, without waiting. Where something is expected, each slot
    /// has places for `per_slot` frames of it, one slot's behind the other's. The error is the system's number for it: who waits asks again
    /// and again, and is told that there is nothing.
    #[inline]
    pub(crate) fn receive(
        &mut self,
        socket: &Socket,
        slot_count: usize,
        landing: Option<(&Landing, usize)>,
        memory: &mut Table,
    ) -> Result<usize, i32> {
        if slot_count == 1 && self.is_made(1, landing, memory) {
            self.renew_message(0);
            return self.receive_one(socket);
        }
        self.receive_into_new(socket, slot_count, landing, memory)
    }

    fn receive_into_new(
        &mut self,
        socket: &Socket,
        slot_count: usize,
        landing: Option<(&Landing, usize)>,
        memory: &mut Table,
    ) -> Result<usize, i32> {
        let slot_count = slot_count.clamp(1, SLOT_COUNT_MAX);
        if self.is_made(slot_count, landing, memory) {
            (0..slot_count).for_each(|slot| self.renew_message(slot));
        } else {
            self.expect(slot_count, landing, memory);
            (0..slot_count).for_each(|slot| self.set_message(slot));
            let stamped = landing.map(|(landing, per_slot)| (*landing, per_slot, memory.stamp()));
            self.made_for = Some(Made { slot_count, landing: stamped });
        }
        if slot_count == 1 {
            return self.receive_one(socket);
        }
        let (at, count) = (self.messages.as_mut_ptr(), slot_count as libc::c_uint);
        let (flags, no_limit) = (libc::MSG_DONTWAIT as _, ptr::null_mut());
        // SAFETY: as in `receive_one`, for each of `count` messages; no slot, head or place is in two of them.
        let result = unsafe { libc::recvmmsg(socket.as_raw_fd(), at, count, flags, no_limit) };
        usize::try_from(result).map_err(|_| last_errno())
    }

    /// The first message is made. Called past the C library's own function, which in a process of several threads says before and after
    /// the call that the thread may be cancelled meanwhile: nobody may cancel a thread that is here.
    #[inline]
    fn receive_one(&mut self, socket: &Socket) -> Result<usize, i32> {
        let (fd, message) = (socket.as_raw_fd(), &raw mut self.messages[0].msg_hdr);
        // SAFETY: the message names room of ours (slot, heads, name, control) that stays where it is, and places in
        // memory of the table, which the caller borrows and which lets us write.
        let len = unsafe { libc::syscall(libc::SYS_recvmsg, fd, message, libc::MSG_DONTWAIT) };
        let Ok(len) = libc::c_uint::try_from(len) else { return Err(last_errno()) };
        self.messages[0].msg_len = len;
        Ok(1)
    }

    /// Whether messages and parts of the last call are good for this one.
    #[inline]
    fn is_made(
        &self,
        slot_count: usize,
        landing: Option<(&Landing, usize)>,
        memory: &Table,
    ) -> bool {
        let Some(made) = &self.made_for else { return false };
        let is_same_landing = match (&made.landing, landing) {
            (None, None) => true,
            (Some((before, per_slot_before, stamp)), Some((now, per_slot))) => {
                before == now && *per_slot_before == per_slot && *stamp == memory.stamp()
            }
            _ => false,
        };
        made.slot_count == slot_count && is_same_landing
    }

    /// Makes parts for each slot. No pointer into `parts` is made before all of them are there.
    fn expect(&mut self, slot_count: usize, landing: Option<(&Landing, usize)>, memory: &Table) {
        self.parts.clear();
        self.expected.clear();
        self.head_end = 0;
        let place = landing.and_then(|(landing, per_slot)| {
            let memory = memory.get(landing.id).filter(|memory| memory.is_writable())?;
            let rest = Rest { memory, offset: landing.offset, len: landing.len };
            Some((landing, per_slot, rest))
        });
        match place {
            Some((landing, per_slot, mut rest)) => {
                for slot in 0..slot_count {
                    self.expect_in(slot, landing, per_slot, &mut rest);
                }
            }
            None => (0..slot_count).for_each(|slot| self.expect_plain(slot)),
        }
    }

    fn expect_plain(&mut self, slot: usize) {
        let part_start = self.parts.len();
        self.add_spill(slot);
        let part_end = self.parts.len();
        self.expected.push(Expected { part_start, part_end, ..Expected::default() });
    }

    /// As many places as a slot shall have, as long as there are any; what has no place goes to the spill.
    fn expect_in(&mut self, slot: usize, landing: &Landing, per_slot: usize, rest: &mut Rest<'_>) {
        let part_start = self.parts.len();
        let (heads_at, offset) = (self.head_end, rest.offset);
        let (mut count, mut last_len) = self.add_places(landing, per_slot, rest);
        while count < per_slot && rest.len > 0 {
            let len = rest.len.min(landing.payload_len as u64);
            if !self.add_place(landing.head_len, len, part_start, rest) {
                rest.len = 0;
                break;
            }
            (count, last_len) = (count + 1, len as usize);
        }
        self.add_spill(slot);
        let part_end = self.parts.len();
        self.expected.push(Expected { count, heads_at, offset, last_len, part_start, part_end });
    }

    /// Adds heads and places in memory that is one piece: how many, and the length of the last. None where it is not.
    fn add_places(
        &mut self,
        landing: &Landing,
        per_slot: usize,
        rest: &mut Rest<'_>,
    ) -> (usize, usize) {
        let (head_len, payload_len) = (landing.head_len, landing.payload_len);
        let count = per_slot
            .min(rest.len.div_ceil(payload_len as u64) as usize)
            .min(PART_COUNT_MAX / 2)
            .min((self.heads.len() - self.head_end) / head_len);
        let len = rest.len.min((count * payload_len) as u64);
        let Some(place) = rest.memory.one_part(rest.offset, len as usize) else { return (0, 0) };
        let heads = self.heads.ptr_at(self.head_end, count * head_len).cast::<u8>();
        self.parts.reserve(2 * count);
        let (mut at, mut last_len) = (0, 0);
        for number in 0..count {
            last_len = payload_len.min(place.len() - at);
            let iov_base = heads.wrapping_add(number * head_len).cast();
            self.parts.push(libc::iovec { iov_base, iov_len: head_len });
            let iov_base = place.ptr().wrapping_add(at).cast();
            self.parts.push(libc::iovec { iov_base, iov_len: last_len });
            at += last_len;
        }
        self.head_end += count * head_len;
        (rest.offset, rest.len) = (rest.offset + len, rest.len - len);
        (count, last_len)
    }

    fn add_spill(&mut self, slot: usize) {
        let iov_base = self.room.ptr_at(Self::spill_of(slot).start, DATAGRAM_LEN_MAX);
        self.parts.push(libc::iovec { iov_base, iov_len: DATAGRAM_LEN_MAX });
    }

    /// Adds a head and the place of its payload. False, with nothing added, if there is no room for it or it has none.
    #[inline]
    fn add_place(
        &mut self,
        head_len: usize,
        len: u64,
        part_start: usize,
        rest: &mut Rest<'_>,
    ) -> bool {
        if self.head_end + head_len > self.heads.len() {
            return false;
        }
        let part_before = self.parts.len();
        let iov_base = self.heads.ptr_at(self.head_end, head_len);
        self.parts.push(libc::iovec { iov_base, iov_len: head_len });
        let parts = &mut self.parts;
        let is_inside = rest.memory.for_each(rest.offset, len, |part| {
            parts.push(libc::iovec { iov_base: part.ptr().cast(), iov_len: part.len() });
        });
        if !is_inside || self.parts.len() - part_start > PART_COUNT_MAX {
            self.parts.truncate(part_before);
            return false;
        }
        self.head_end += head_len;
        (rest.offset, rest.len) = (rest.offset + len, rest.len - len);
        true
    }

    /// Everything the kernel reads.
    fn set_message(&mut self, slot: usize) {
        let expected = &self.expected[slot];
        let message = &mut self.messages[slot].msg_hdr;
        message.msg_name = self.names[slot].ptr_mut().cast();
        message.msg_iov = self.parts[expected.part_start..expected.part_end].as_mut_ptr();
        message.msg_iovlen = (expected.part_end - expected.part_start) as _;
        message.msg_control = self.controls[slot].as_mut_ptr().cast();
        self.renew_message(slot);
    }

    /// Everything the kernel changes.
    #[inline]
    fn renew_message(&mut self, slot: usize) {
        let message = &mut self.messages[slot].msg_hdr;
        message.msg_namelen = Name::ROOM.len();
        message.msg_controllen = size_of::<[u64; CONTROL_WORD_COUNT]>() as _;
        message.msg_flags = 0;
    }

    /// What came into a slot of the last call.
    pub(crate) fn datagram(&self, slot: usize) -> Datagram {
        let message = &self.messages[slot];
        let mut from = self.names[slot];
        from.set_len(message.msg_hdr.msg_namelen);
        let len = (message.msg_len as usize).min(DATAGRAM_LEN_MAX);
        let mut datagram = Datagram { from, len, segment_len: None, dropped: None };
        if message.msg_hdr.msg_controllen == 0 {
            return datagram;
        }
        each_control(&message.msg_hdr, |level, kind, value| {
            let number = value.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes));
            match (level, kind) {
                (libc::SOL_UDP, libc::UDP_GRO) => {
                    datagram.segment_len = number.map(|len| len as usize).filter(|&len| len > 0);
                }
                (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) => datagram.dropped = number,
                _ => {}
            }
        });
        datagram
    }

    /// What a slot of the last call was made for.
    pub(crate) fn expected(&self, slot: usize) -> Expected {
        self.expected[slot]
    }

    /// Where in the room of all slots the spill of one is. As much as a datagram before it is there to gather into.
    pub(crate) fn spill_of(slot: usize) -> Range<usize> {
        let at = slot * SLOT_LEN + DATAGRAM_LEN_MAX;
        at..at + DATAGRAM_LEN_MAX
    }

    /// Bytes in the room of the slots.
    pub(crate) fn room(&self, range: Range<usize>) -> &[u8] {
        self.room.bytes(range)
    }

    /// Bytes in the room of the slots, to write, and the heads, to read.
    pub(crate) fn room_and_heads(
        &mut self,
        room: Range<usize>,
        heads: Range<usize>,
    ) -> (&mut [u8], &[u8]) {
        (self.room.bytes_mut(room), self.heads.bytes(heads))
    }

    /// Heads of what was expected.
    pub(crate) fn heads(&self, range: Range<usize>) -> &[u8] {
        self.heads.bytes(range)
    }
}
