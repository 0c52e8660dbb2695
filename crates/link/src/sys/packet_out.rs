//! Frames of a burst behind Ethernet headers, given to the kernel in one call and without a copy.
//!
//! ```text
//!   burst:     head payload │ head │ head payload …
//!   messages:  [header][head][payload] │ [header][head] │ …      one sendmmsg, each on the interface that is bound
//! ```

use std::mem;
use std::os::fd::AsRawFd as _;

use super::any_socket::SEND_FLAGS;
use super::packet::PacketSocket;
use super::{answer, answer_len};
use crate::Locator;
use crate::burst::{Burst, Frame, Piece};
use crate::ether::{HEADER_LEN, Header};
use crate::mem::{Memory, Table};

/// Messages in one call.
const MESSAGE_COUNT_MAX: usize = 64;
/// Parts of one message: UIO_MAXIOV, less one for the header.
const PART_COUNT_MAX: usize = 1023;

/// How one call went.
#[derive(Debug, Default)]
pub(crate) struct Sent {
    /// Frames that went, or had no bytes to go: their memory was given back.
    pub(crate) frame_count: usize,
    /// The latter.
    pub(crate) void_count: usize,
    /// Whether there was a system call.
    pub(crate) is_called: bool,
    /// Why the next one did not go.
    pub(crate) errno: Option<i32>,
}

/// One message being made.
#[derive(Clone, Copy, Debug)]
struct Planned {
    part_start: usize,
    part_end: usize,
}

/// Room for what one call gives to the kernel. Pointers in it are good only inside `send`.
pub(crate) struct PacketOut {
    headers: Vec<Header>,
    parts: Vec<libc::iovec>,
    planned: Vec<Planned>,
    messages: Vec<libc::mmsghdr>,
    /// A frame of more parts than the kernel takes, in one.
    bounce: Vec<u8>,
}

impl std::fmt::Debug for PacketOut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PacketOut").finish_non_exhaustive()
    }
}

// SAFETY: the pointers that make it not `Send` by itself are used in the call that wrote them only.
unsafe impl Send for PacketOut {}

impl PacketOut {
    pub(crate) fn new() -> Self {
        Self {
            // Never grown: parts point into it.
            headers: Vec::with_capacity(MESSAGE_COUNT_MAX),
            parts: Vec::with_capacity(4 * MESSAGE_COUNT_MAX),
            planned: Vec::with_capacity(MESSAGE_COUNT_MAX),
            messages: Vec::with_capacity(MESSAGE_COUNT_MAX),
            bounce: Vec::new(),
        }
    }

    /// Sends frames from number `first` on, as far as one system call goes. `header` makes what stands before a frame of
    /// a length; a frame for which it knows none is refused with EDESTADDRREQ.
    pub(crate) fn send(
        &mut self,
        socket: &PacketSocket,
        burst: &Burst,
        first: usize,
        memory: &Table,
        header: impl Fn(&Locator, usize) -> Option<Header>,
    ) -> Sent {
        self.headers.clear();
        self.parts.clear();
        self.planned.clear();
        self.messages.clear();
        self.bounce.clear();
        let (mut last, mut sent) = (None, Sent::default());
        for frame in burst.frames(first) {
            if self.planned.len() == MESSAGE_COUNT_MAX || !self.bounce.is_empty() {
                break; // the one bounced frame must stay where it is
            }
            let Some(header) = header(&frame.to, frame.len as usize) else {
                sent.errno = self.planned.is_empty().then_some(libc::EDESTADDRREQ);
                break;
            };
            if !self.plan(burst, &frame, header, memory, &mut last) {
                if !self.planned.is_empty() {
                    break; // what stands before it goes now
                }
                (sent.frame_count, sent.void_count) = (1, 1);
                return sent;
            }
        }
        match self.planned.len() {
            0 => sent,
            1 => self.send_one(socket),
            _ => self.send_many(socket),
        }
    }

    /// Puts a frame behind its header into parts; false, with nothing added, if some of its memory is not there.
    fn plan<'a>(
        &mut self,
        burst: &Burst,
        frame: &Frame,
        header: Header,
        memory: &'a Table,
        last: &mut Option<(u64, &'a Memory)>,
    ) -> bool {
        let part_start = self.parts.len();
        debug_assert!(self.headers.len() < self.headers.capacity());
        self.headers.push(header);
        let at = self.headers.last().map_or(std::ptr::null(), |header| header.as_ptr());
        self.parts.push(libc::iovec { iov_base: at as *mut _, iov_len: HEADER_LEN });
        if !self.add_parts(burst, frame, memory, last) {
            self.headers.pop();
            self.parts.truncate(part_start);
            return false;
        }
        if self.parts.len() - part_start > PART_COUNT_MAX {
            self.parts.truncate(part_start + 1);
            self.bounce_frame(burst, frame, memory);
        }
        self.planned.push(Planned { part_start, part_end: self.parts.len() });
        true
    }

    /// False if some of the frame's memory is not there. `last` is the memory of the frame before: mostly the same.
    #[inline]
    fn add_parts<'a>(
        &mut self,
        burst: &Burst,
        frame: &Frame,
        memory: &'a Table,
        last: &mut Option<(u64, &'a Memory)>,
    ) -> bool {
        for piece in burst.pieces(frame) {
            match *piece {
                Piece::Head { .. } => {
                    let bytes = burst.head_bytes(piece);
                    let iov_base = bytes.as_ptr() as *mut _;
                    self.parts.push(libc::iovec { iov_base, iov_len: bytes.len() });
                }
                Piece::User { id, offset, len } => {
                    let known = last.filter(|known| known.0 == id).map(|known| known.1);
                    let Some(found) = known.or_else(|| memory.get(id)) else { return false };
                    *last = Some((id, found));
                    let parts = &mut self.parts;
                    let is_whole = found.for_each(offset, u64::from(len), |part| {
                        let (iov_base, iov_len) = (part.ptr().cast(), part.len());
                        parts.push(libc::iovec { iov_base, iov_len });
                    });
                    if !is_whole {
                        return false;
                    }
                }
            }
        }
        true
    }

    fn bounce_frame(&mut self, burst: &Burst, frame: &Frame, memory: &Table) {
        for piece in burst.pieces(frame) {
            match *piece {
                Piece::Head { .. } => self.bounce.extend_from_slice(burst.head_bytes(piece)),
                Piece::User { id, offset, len } => {
                    memory.copy_out(id, offset, len as usize, &mut self.bounce);
                }
            }
        }
        let (iov_base, iov_len) = (self.bounce.as_ptr() as *mut _, self.bounce.len());
        self.parts.push(libc::iovec { iov_base, iov_len });
    }

    /// A message with pointers to its parts, which must not move any more.
    fn message(&mut self, index: usize) -> libc::msghdr {
        let Planned { part_start, part_end } = self.planned[index];
        // SAFETY: `msghdr` is plain data; all zeros are a valid value.
        let mut message: libc::msghdr = unsafe { mem::zeroed() };
        message.msg_iov = self.parts[part_start..part_end].as_mut_ptr();
        message.msg_iovlen = (part_end - part_start) as _;
        message
    }

    fn send_one(&mut self, socket: &PacketSocket) -> Sent {
        let (fd, message) = (socket.as_raw_fd(), self.message(0));
        // SAFETY: `message` names parts: a header of ours, heads of the burst, memory of the table or `bounce`, all borrowed
        // by the caller of `send` until this call is over, and only read.
        match answer_len(unsafe { libc::sendmsg(fd, &raw const message, SEND_FLAGS) }) {
            Ok(_) => Sent { frame_count: 1, is_called: true, ..Sent::default() },
            Err(error) => refused(&error),
        }
    }

    fn send_many(&mut self, socket: &PacketSocket) -> Sent {
        for index in 0..self.planned.len() {
            let message = self.message(index);
            self.messages.push(libc::mmsghdr { msg_hdr: message, msg_len: 0 });
        }
        let (at, count) = (self.messages.as_mut_ptr(), self.messages.len() as libc::c_uint);
        // SAFETY: as for one message, for each of `count`; they are in a vector that does not move any more.
        let result = unsafe { libc::sendmmsg(socket.as_raw_fd(), at, count, SEND_FLAGS as _) };
        match answer(result) {
            Ok(count) => Sent { frame_count: count, is_called: true, ..Sent::default() },
            Err(error) => refused(&error),
        }
    }
}

fn refused(error: &std::io::Error) -> Sent {
    let errno = error.raw_os_error().unwrap_or(libc::EIO);
    Sent { is_called: true, errno: Some(errno), ..Sent::default() }
}
