//! Frames of a burst as records of a stream, given to the kernel in one call and without a copy.
//!
//! ```text
//!   burst:   frame frame frame                 all to one place
//!   parts:   length│head│payload│length│head│payload│ …      one sendmsg; the kernel takes all, or the first so many bytes
//! ```

use std::mem;
use std::os::fd::AsRawFd as _;
use std::ptr;

use super::any_socket::SEND_FLAGS;
use super::last_errno;
use super::parts::{PART_COUNT_MAX, Parts};
use super::socket::Socket;
use crate::burst::{Burst, Frame};
use crate::mem::Table;

/// Frames of one call: each has at least two parts.
const FRAME_COUNT_MAX: usize = PART_COUNT_MAX / 2;
/// A call that has more bytes than this gets no further frame: two long ones. While a call copies, the system keeps back what the receiver acknowledges,
/// and with it what is to follow; so in long calls the two ends copy by turns, in short ones at one time (docs/measured/links.md).
const CALL_LEN_MAX: usize = 100_000;

/// The length of a record, before its frame.
pub(crate) const WORD_LEN: usize = 4;
/// Frames that `send_records` takes: those of a message that nobody asked for.
pub(crate) const RECORD_COUNT_MAX: usize = 2;

/// How one call went.
#[derive(Debug, Default)]
pub(crate) struct Sent {
    /// Frames that are done with: those that went and those that cannot.
    pub(crate) frame_count: usize,
    /// How many of these cannot go: their memory is not there, or they are too long, or empty.
    pub(crate) void_count: usize,
    /// Bytes that the kernel took.
    pub(crate) len: usize,
    /// The next frame did not go, or not all of it: so many bytes of its record went.
    pub(crate) cut: Option<usize>,
    /// Whether there was a system call.
    pub(crate) is_called: bool,
    /// What the system said, if nothing went and more than that it would have to wait.
    pub(crate) errno: Option<i32>,
}

/// Room for what one call gives to the kernel. Pointers in it are good only inside `send`.
#[derive(Debug)]
pub(crate) struct StreamOut {
    parts: Parts,
    /// Lengths of records. Never more than there is room for from the beginning: parts point to them.
    words: Vec<[u8; WORD_LEN]>,
    /// Where each frame of the call ends; as the one before if it is void.
    ends: Vec<usize>,
}

impl StreamOut {
    pub(crate) fn new() -> Self {
        Self {
            parts: Parts::with_capacity(PART_COUNT_MAX),
            words: Vec::with_capacity(FRAME_COUNT_MAX),
            ends: Vec::with_capacity(FRAME_COUNT_MAX),
        }
    }

    /// Sends frames from number `first` on that go to the same place, as far as one system call goes. There must be one.
    pub(crate) fn send(
        &mut self,
        socket: &Socket,
        burst: &Burst,
        first: usize,
        memory: &Table,
        frame_len_max: usize,
    ) -> Sent {
        self.parts.clear();
        self.words.clear();
        self.ends.clear();
        let to = burst.frame(first).to;
        let (mut end, mut void_count) = (0, 0);
        for frame in burst.frames(first) {
            if frame.to != to || self.ends.len() == FRAME_COUNT_MAX || end > CALL_LEN_MAX {
                break;
            }
            let before = self.parts.mark();
            let len = frame.len as usize;
            let may_go = (1..=frame_len_max).contains(&len);
            let is_whole = may_go && self.add_parts(burst, &frame, memory);
            let is_too_split = self.parts.count() > PART_COUNT_MAX;
            if !is_whole || is_too_split {
                self.parts.back_to(before);
            }
            if is_whole && is_too_split {
                // Too many pieces beside those before it, or by itself: then its owner copies it.
                let rest = Sent { cut: Some(0), ..Sent::default() };
                return if end == 0 { self.done(rest, void_count) } else { self.call(socket) };
            }
            void_count += usize::from(!is_whole);
            end += if is_whole { WORD_LEN + len } else { 0 };
            self.ends.push(end);
        }
        if end == 0 { self.done(Sent::default(), void_count) } else { self.call(socket) }
    }

    /// Nothing but void frames.
    fn done(&self, sent: Sent, void_count: usize) -> Sent {
        Sent { frame_count: self.ends.len(), void_count, ..sent }
    }

    /// False if some of the frame's memory is not there.
    fn add_parts(&mut self, burst: &Burst, frame: &Frame, memory: &Table) -> bool {
        self.words.push(frame.len.to_le_bytes());
        self.parts.add(&self.words[self.words.len() - 1]);
        self.parts.add_frame(burst, frame, memory, self.parts.count(), &mut None)
    }

    /// To be called by `send` alone, with parts of what it borrows.
    fn call(&mut self, socket: &Socket) -> Sent {
        let message = self.parts.message(0..self.parts.count());
        // SAFETY: `message` names words of ours, which do not move any more, heads of the burst and memory of the table, both
        // borrowed by the caller of `send` until this call is over; all of it is only read.
        let len = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const message, SEND_FLAGS) };
        let Ok(len) = usize::try_from(len) else {
            let errno = last_errno();
            let is_later = matches!(errno, libc::EAGAIN | libc::EINTR | libc::ENOBUFS);
            let errno = if is_later { None } else { Some(errno) };
            return Sent { errno, ..self.taken(0) };
        };
        self.taken(len)
    }

    /// The kernel took so many bytes.
    fn taken(&self, len: usize) -> Sent {
        let frame_count = self.ends.partition_point(|&end| end <= len);
        let start = frame_count.checked_sub(1).map_or(0, |last| self.ends[last]);
        let cut = (frame_count < self.ends.len()).then(|| len - start);
        let is_void = |number: &usize| {
            self.ends[*number] == number.checked_sub(1).map_or(0, |before| self.ends[before])
        };
        let void_count = (0..frame_count).filter(is_void).count();
        Sent { frame_count, void_count, len, cut, is_called: true, errno: None }
    }
}

/// Sends frames that stand behind each other, each `stride` bytes long but the last, as records; how many of their bytes went. There are no more than
/// [`RECORD_COUNT_MAX`]. The error is the system's number for it.
#[inline]
pub(crate) fn send_records(socket: &Socket, frames: &[u8], stride: usize) -> Result<usize, i32> {
    let mut words = [[0; WORD_LEN]; RECORD_COUNT_MAX];
    let none = libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 };
    let mut parts = [none; 2 * RECORD_COUNT_MAX];
    let mut count = 0;
    for ((frame, word), parts) in
        frames.chunks(stride).zip(&mut words).zip(parts.as_chunks_mut::<2>().0)
    {
        *word = (frame.len() as u32).to_le_bytes();
        *parts = [
            libc::iovec { iov_base: word.as_ptr() as *mut _, iov_len: word.len() },
            libc::iovec { iov_base: frame.as_ptr() as *mut _, iov_len: frame.len() },
        ];
        count += parts.len();
    }
    // SAFETY: `msghdr` is plain data; all zeros are a valid value.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_iov = parts.as_mut_ptr();
    message.msg_iovlen = count as _;
    // Past the C library's own function, as in `Inbox::receive_one`.
    // SAFETY: `message` names `words` and `frames`, which outlive the call and are only read.
    let len = unsafe {
        libc::syscall(libc::SYS_sendmsg, socket.as_raw_fd(), &raw const message, SEND_FLAGS)
    };
    usize::try_from(len).map_err(|_| last_errno())
}
