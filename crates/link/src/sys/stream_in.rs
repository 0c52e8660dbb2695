//! Bytes of a stream, into our room, or scattered to where the payload of its records is expected.
//!
//! ```text
//!   plain     [ rest of a record begun ][ spill ]
//!   landing   [word, head][ place ][word, head][ place ] … [ spill ]      what came before is there already
//!             └ our memory └ the application's
//!
//!   room of a read:  [ as much as all places hold, to gather into ][ spill ]
//!                     what did not land where it belongs is moved here, so that it ends where the spill begins
//! ```

use std::io;
use std::mem;
use std::ops::Range;
use std::os::fd::AsRawFd as _;

use super::last_errno;
use super::region::Region;
use super::socket::Socket;
use super::stream_out::WORD_LEN;
use crate::Landing;
use crate::mem::Table;

/// Frames with places in one read.
pub(crate) const PLACE_COUNT_MAX: usize = 16;
/// Streams read before the arrivals are forgotten.
pub(crate) const READ_COUNT_MAX: usize = 5;
/// Bytes read beyond what has a place: more would leave the cache before they are looked at.
pub(crate) const SPILL_LEN: usize = 1 << 18;
/// Parts of one read: UIO_MAXIOV, less one for the spill.
const PART_COUNT_MAX: usize = 1023;

/// Places for the payload of the next records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Places {
    /// How many.
    pub(crate) count: usize,
    /// Bytes of the last.
    pub(crate) last_len: usize,
}

impl Places {
    /// Bytes of payload that have a place with the frame of this number.
    pub(crate) fn payload_len(&self, number: usize, landing: &Landing) -> usize {
        if number + 1 == self.count { self.last_len } else { landing.payload_len }
    }

    /// Bytes of stream that have a place: words, heads and payload.
    pub(crate) fn stream_len(&self, landing: &Landing) -> usize {
        let payload_len = (self.count.max(1) - 1) * landing.payload_len + self.last_len;
        self.count * (WORD_LEN + landing.head_len) + payload_len
    }
}

/// Room for what one call of a link receives.
pub(crate) struct StreamIn {
    room: Region,
    heads: Region,
    parts: Vec<libc::iovec>,
    /// Bytes to gather into, before the spill of each read.
    gather_len: usize,
    frame_len_max: usize,
}

impl std::fmt::Debug for StreamIn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StreamIn").finish_non_exhaustive()
    }
}

// SAFETY: the pointers that make it not `Send` by itself are used in the call that wrote them only.
unsafe impl Send for StreamIn {}

impl StreamIn {
    pub(crate) fn new(frame_len_max: usize) -> io::Result<Self> {
        // A page more than needed, so that no two spills share their lines of the cache.
        let gather_len = PLACE_COUNT_MAX * (WORD_LEN + frame_len_max) + 4096;
        Ok(Self {
            room: Region::new(READ_COUNT_MAX * (gather_len + SPILL_LEN))?,
            heads: Region::new(PLACE_COUNT_MAX * (WORD_LEN + frame_len_max))?,
            parts: Vec::with_capacity(2 * PLACE_COUNT_MAX + 1),
            gather_len,
            frame_len_max,
        })
    }

    /// Where in the room the spill of a read begins.
    pub(crate) fn spill_at(&self, read: usize) -> usize {
        assert!(read < READ_COUNT_MAX);
        read * (self.gather_len + SPILL_LEN) + self.gather_len
    }

    /// Reads what is there: first up to `rest_len` bytes behind those in `record`, then up to `spill_len` into the spill. Returns how many
    /// bytes; 0 at the end of the stream. The error is the system's number for it.
    pub(crate) fn read(
        &mut self,
        socket: &Socket,
        record: &mut Vec<u8>,
        (rest_len, spill_len): (usize, usize),
        read: usize,
    ) -> Result<usize, i32> {
        self.parts.clear();
        if rest_len > 0 {
            record.reserve(rest_len);
            let iov_base = record.spare_capacity_mut().as_mut_ptr().cast();
            self.parts.push(libc::iovec { iov_base, iov_len: rest_len });
        }
        self.add_spill(read);
        if let Some(spill) = self.parts.last_mut() {
            spill.iov_len = spill.iov_len.min(spill_len);
        }
        let len = self.call(socket)?;
        // SAFETY: `rest_len` bytes behind the last were reserved, and the kernel wrote the first `len` of them.
        unsafe { record.set_len(record.len() + len.min(rest_len)) };
        Ok(len)
    }

    /// Reads what is there to where a landing expects it, behind the bytes that came before: those of the first record in `prefix`, which
    /// are put where they belong (`is_placed`: its payload is there already). `None`, with nothing read, if there is no place, or the
    /// record begun is not of the length expected.
    pub(crate) fn read_landing(
        &mut self,
        socket: &Socket,
        landing: &Landing,
        (prefix, is_placed): (&[u8], bool),
        memory: &mut Table,
        read: usize,
    ) -> Option<(Places, Result<usize, i32>)> {
        let head_len = WORD_LEN + landing.head_len;
        let first_len = landing.len.min(landing.payload_len as u64) as usize;
        let is_known = prefix.first_chunk().map(|word| u32::from_le_bytes(*word) as usize);
        if landing.head_len + landing.payload_len > self.frame_len_max
            || is_known.is_some_and(|len| len != landing.head_len + first_len)
        {
            return None;
        }
        let (head, payload) = prefix.split_at(prefix.len().min(head_len));
        if !payload.is_empty() && !is_placed && !memory.copy_in(landing.id, landing.offset, payload)
        {
            return None;
        }
        self.heads.bytes_mut(0..head.len()).copy_from_slice(head);
        let places = self.add_places(landing, prefix.len(), memory);
        if places.count == 0 {
            return None;
        }
        self.add_spill(read);
        let result = self.call(socket);
        if result.is_ok() {
            memory.note_written();
        }
        Some((places, result))
    }

    /// Makes parts for words, heads and payload of the next frames, as far as the landing names memory that is there, but for
    /// the first `prefix_len` bytes.
    fn add_places(&mut self, landing: &Landing, prefix_len: usize, memory: &Table) -> Places {
        self.parts.clear();
        let mut places = Places { count: 0, last_len: 0 };
        let head_len = WORD_LEN + landing.head_len;
        let Some(lent) = memory.get(landing.id).filter(|lent| lent.is_writable()) else {
            return places;
        };
        let (mut offset, mut rest, mut skip) = (landing.offset, landing.len, prefix_len);
        while places.count < PLACE_COUNT_MAX && rest > 0 {
            let len = rest.min(landing.payload_len as u64);
            let part_before = self.parts.len();
            let head = self.heads.ptr_at(places.count * head_len, head_len);
            skip = self.add_part(head.cast(), head_len, skip);
            let is_inside = lent.for_each(offset, len, |part| {
                skip = self.add_part(part.ptr(), part.len(), skip);
            });
            if !is_inside || self.parts.len() > PART_COUNT_MAX {
                self.parts.truncate(part_before);
                break;
            }
            places = Places { count: places.count + 1, last_len: len as usize };
            (offset, rest) = (offset + len, rest - len);
        }
        places
    }

    /// Adds a part but for its first `skip` bytes; how many are to be skipped behind it.
    fn add_part(&mut self, at: *mut u8, len: usize, skip: usize) -> usize {
        let skipped = skip.min(len);
        if skipped < len {
            let iov_base = at.wrapping_add(skipped).cast();
            self.parts.push(libc::iovec { iov_base, iov_len: len - skipped });
        }
        skip - skipped
    }

    fn add_spill(&mut self, read: usize) {
        let iov_base = self.room.ptr_at(self.spill_at(read), SPILL_LEN);
        self.parts.push(libc::iovec { iov_base, iov_len: SPILL_LEN });
    }

    /// To be called only with parts of what the caller borrows.
    fn call(&mut self, socket: &Socket) -> Result<usize, i32> {
        // SAFETY: `msghdr` is plain data; all zeros are a valid value.
        let mut message: libc::msghdr = unsafe { mem::zeroed() };
        message.msg_iov = self.parts.as_mut_ptr();
        message.msg_iovlen = self.parts.len() as _;
        let (fd, message) = (socket.as_raw_fd(), &raw mut message);
        // Past the C library's own function, as in `Inbox::receive_one`.
        // SAFETY: the message names room of ours (spill, heads, the record's own), and places in memory of the table that lets us
        // write there; no byte is in two parts. Who calls this has all of it borrowed.
        let len = unsafe { libc::syscall(libc::SYS_recvmsg, fd, message, libc::MSG_DONTWAIT) };
        usize::try_from(len).map_err(|_| last_errno())
    }

    /// Bytes in the room.
    pub(crate) fn room(&self, range: Range<usize>) -> &[u8] {
        self.room.bytes(range)
    }

    /// Heads: each behind its word, as they were read, unless somebody moved them.
    pub(crate) fn heads(&self, range: Range<usize>) -> &[u8] {
        self.heads.bytes(range)
    }

    /// Heads, to write.
    pub(crate) fn heads_mut(&mut self, range: Range<usize>) -> &mut [u8] {
        self.heads.bytes_mut(range)
    }

    /// The room, to write, and the heads, to read.
    pub(crate) fn room_and_heads(
        &mut self,
        room: Range<usize>,
        heads: Range<usize>,
    ) -> (&mut [u8], &[u8]) {
        (self.room.bytes_mut(room), self.heads.bytes(heads))
    }
}
