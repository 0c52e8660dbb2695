//! Frames of a burst behind Ethernet headers, given to the kernel in one call and without a copy.
//!
//! ```text
//!   burst:     head payload │ head │ head payload …
//!   messages:  [header][head][payload] │ [header][head] │ …      one sendmmsg, each on the interface that is bound
//! ```

use std::ops::Range;
use std::os::fd::AsRawFd as _;

use super::any_socket::SEND_FLAGS;
use super::packet::PacketSocket;
use super::parts::{Last, PART_COUNT_MAX, Parts};
use super::{answer, answer_len};
use crate::Locator;
use crate::burst::{Burst, Frame};
use crate::ether::Header;
use crate::mem::Table;

/// Messages in one call.
const MESSAGE_COUNT_MAX: usize = 64;

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

/// Room for what one call gives to the kernel. Pointers in it are good only inside `send`.
pub(crate) struct PacketOut {
    headers: Vec<Header>,
    parts: Parts,
    /// The parts of each message.
    planned: Vec<Range<usize>>,
    messages: Vec<libc::mmsghdr>,
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
            parts: Parts::with_capacity(4 * MESSAGE_COUNT_MAX),
            planned: Vec::with_capacity(MESSAGE_COUNT_MAX),
            messages: Vec::with_capacity(MESSAGE_COUNT_MAX),
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
        let (mut last, mut sent) = (None, Sent::default());
        for frame in burst.frames(first) {
            if self.planned.len() == MESSAGE_COUNT_MAX || self.parts.has_copied() {
                break; // the one copied frame must stay where it is
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
        last: &mut Last<'a>,
    ) -> bool {
        let before = self.parts.mark();
        let part_start = self.parts.count();
        debug_assert!(self.headers.len() < self.headers.capacity());
        self.headers.push(header);
        self.parts.add(&self.headers[self.headers.len() - 1]);
        let behind_header = self.parts.mark();
        if !self.parts.add_frame(burst, frame, memory, part_start + 1, last) {
            self.headers.pop();
            self.parts.back_to(before);
            return false;
        }
        if self.parts.count() - part_start > PART_COUNT_MAX {
            self.parts.back_to(behind_header);
            self.parts.add_copied(burst, frame, memory);
        }
        self.planned.push(part_start..self.parts.count());
        true
    }

    fn send_one(&mut self, socket: &PacketSocket) -> Sent {
        let (fd, message) = (socket.as_raw_fd(), self.parts.message(self.planned[0].clone()));
        // SAFETY: `message` names parts: a header of ours, heads of the burst, memory of the table or a copy, all kept by the caller
        // of `send` or here until this call is over, and only read.
        match answer_len(unsafe { libc::sendmsg(fd, &raw const message, SEND_FLAGS) }) {
            Ok(_) => Sent { frame_count: 1, is_called: true, ..Sent::default() },
            Err(error) => refused(&error),
        }
    }

    fn send_many(&mut self, socket: &PacketSocket) -> Sent {
        for parts in &self.planned {
            let message = self.parts.message(parts.clone());
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
