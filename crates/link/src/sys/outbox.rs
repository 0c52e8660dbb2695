//! Frames of a burst, given to the kernel in one call and without a copy.
//!
//! ```text
//!   burst:     frame frame frame frame │ frame │ frame frame …
//!   messages:  one train, UDP_SEGMENT  │ lone  │ another train      one sendmmsg
//!              └ to one place, equal lengths, the last may be shorter
//! ```

use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::os::fd::AsRawFd as _;

use super::any_socket::SEND_FLAGS;
use super::name::Name;
use super::parts::{PART_COUNT_MAX, Parts};
use super::socket::Socket;
use super::{answer, answer_len};
use crate::burst::{Burst, Train};
use crate::mem::Table;

/// Messages in one call.
const MESSAGE_COUNT_MAX: usize = 64;

/// Room for one UDP_SEGMENT control message, aligned as its header must be.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(8))]
pub(super) struct Control([u8; CONTROL_LEN]);

const CONTROL_LEN: usize = {
    // SAFETY: computes, touches nothing.
    (unsafe { libc::CMSG_SPACE(2) }) as usize
};

impl Control {
    /// Cut into segments of this length.
    pub(super) fn segment(len: u16) -> Self {
        let mut control = Self([0; CONTROL_LEN]);
        let header = control.0.as_mut_ptr().cast::<libc::cmsghdr>();
        // SAFETY: `control` is aligned and has room for a header and two bytes, all of which stays inside it.
        unsafe {
            (*header).cmsg_level = libc::SOL_UDP;
            (*header).cmsg_type = libc::UDP_SEGMENT;
            (*header).cmsg_len = libc::CMSG_LEN(2) as _;
            libc::CMSG_DATA(header).cast::<u16>().write_unaligned(len);
        }
        control
    }

    pub(super) fn attach(&mut self, message: &mut libc::msghdr) {
        message.msg_control = self.0.as_mut_ptr().cast();
        message.msg_controllen = CONTROL_LEN as _;
    }
}

/// What may be sent as a train.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    /// Segments of one train; below 2 there are none.
    pub(crate) count_max: usize,
    /// Bytes of one.
    pub(crate) len_max: usize,
}

/// How one call went.
#[derive(Debug, Default)]
pub(crate) struct Sent {
    /// Frames that went, or had no bytes to go: their memory was given back.
    pub(crate) frame_count: usize,
    /// Trains among what went.
    pub(crate) train_count: usize,
    /// Frames whose memory is not there.
    pub(crate) void_count: usize,
    /// Whether there was a system call.
    pub(crate) is_called: bool,
    /// Why the next one did not go: how many frames it holds, where it was going, the error.
    pub(crate) refused: Option<Refused>,
}

/// A message that did not go.
#[derive(Debug)]
pub(crate) struct Refused {
    /// Frames in it.
    pub(crate) frame_count: usize,
    /// Why.
    pub(crate) errno: i32,
}

/// One message being made.
#[derive(Clone, Debug)]
struct Planned {
    parts: Range<usize>,
    /// Frames of the burst it takes, with those that have no bytes.
    frame_count: usize,
    void_count: usize,
    /// 0 if it is no train.
    segment_len: u16,
}

/// Room for what one call gives to the kernel. Pointers in it are good only inside `send`.
pub(crate) struct Outbox {
    parts: Parts,
    messages: Vec<libc::mmsghdr>,
    planned: Vec<Planned>,
    names: Vec<Name>,
    controls: Vec<Control>,
}

impl std::fmt::Debug for Outbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outbox").finish_non_exhaustive()
    }
}

// SAFETY: the pointers that make it not `Send` by itself are used in the call that wrote them only.
unsafe impl Send for Outbox {}

impl Outbox {
    pub(crate) fn new() -> Self {
        Self {
            parts: Parts::with_capacity(PART_COUNT_MAX),
            messages: Vec::with_capacity(MESSAGE_COUNT_MAX),
            planned: Vec::with_capacity(MESSAGE_COUNT_MAX),
            names: Vec::with_capacity(MESSAGE_COUNT_MAX),
            controls: Vec::with_capacity(MESSAGE_COUNT_MAX),
        }
    }

    /// Sends frames from number `first` on, as far as one system call goes. `place` tells what a locator means; a
    /// frame for which it knows nothing is refused with EDESTADDRREQ.
    pub(crate) fn send(
        &mut self,
        socket: &Socket,
        burst: &Burst,
        first: usize,
        memory: &Table,
        rules: Rules,
        place: impl Fn(&crate::Locator) -> Option<SocketAddr>,
    ) -> Sent {
        self.clear();
        let mut at = first;
        while at < burst.len() && self.planned.len() < MESSAGE_COUNT_MAX {
            let train = burst.train_at(at);
            let to = train.map_or_else(|| burst.frame(at).to, |(to, ..)| *to);
            let Some(addr) = place(&to) else { break };
            let planned = train
                .and_then(|(_, heads, train)| self.plan_train(heads, &train, memory, rules))
                .unwrap_or_else(|| self.plan(burst, at, memory, rules));
            at += planned.frame_count;
            self.names.push(Name::new(addr, socket.is_v6()));
            self.controls.push(Control::segment(planned.segment_len));
            self.planned.push(planned);
            if self.parts.has_copied() {
                break; // the one copied frame must stay where it is
            }
        }
        match self.planned.len() {
            0 if first >= burst.len() => Sent::default(),
            0 => Sent {
                refused: Some(Refused { frame_count: 1, errno: libc::EDESTADDRREQ }),
                ..Sent::default()
            },
            1 => self.send_one(socket),
            _ => self.send_many(socket),
        }
    }

    fn clear(&mut self) {
        self.parts.clear();
        self.messages.clear();
        self.planned.clear();
        self.names.clear();
        self.controls.clear();
    }

    /// Puts as much of a train as may leave at once into parts. `None` if its memory is not one piece, or not there.
    fn plan_train(
        &mut self,
        heads: &[u8],
        train: &Train,
        memory: &Table,
        rules: Rules,
    ) -> Option<Planned> {
        let count_max = rules.count_max.min(rules.len_max / train.frame_len());
        let count = count_max.min(train.count as usize).clamp(1, PART_COUNT_MAX / 2);
        let (payload_len, all_len) = (train.payload_len as usize, train.payload_of(count) as usize);
        let part_start = self.parts.count();
        let segment_len = if count > 1 { train.frame_len() as u16 } else { 0 };
        let head_len = train.head_len as usize;
        let heads = &heads[..count * head_len];
        let payload = memory.get(train.id)?.one_part(train.offset, all_len)?;
        let heads = heads.chunks_exact(head_len);
        self.parts.reserve(2 * count);
        let mut at = 0;
        for head in heads {
            let len = payload_len.min(all_len - at);
            self.parts.add(head);
            self.parts.add_at(payload.ptr().wrapping_add(at), len);
            at += len;
        }
        let parts = part_start..self.parts.count();
        Some(Planned { parts, frame_count: count, void_count: 0, segment_len })
    }

    /// Puts frame `number`, and those behind it that fit in a train with it, into parts.
    fn plan(&mut self, burst: &Burst, number: usize, memory: &Table, rules: Rules) -> Planned {
        let part_start = self.parts.count();
        let first = &burst.frame(number);
        let (mut frame_count, mut void_count, mut sent_len, mut last) = (0, 0, 0, None);
        for frame in burst.frames(number) {
            let frame = &frame;
            let len = frame.len as usize;
            let fits = frame_count == 0
                || frame_count < rules.count_max
                    && frame.to == first.to
                    && len > 0
                    && len <= first.len as usize
                    && sent_len + len <= rules.len_max;
            if !fits {
                break;
            }
            let before = self.parts.mark();
            let is_whole = self.parts.add_frame(burst, frame, memory, part_start, &mut last);
            let is_too_split = self.parts.count() - part_start > PART_COUNT_MAX;
            if is_too_split || !is_whole {
                self.parts.back_to(before);
            }
            if is_too_split && frame_count > 0 {
                break;
            }
            frame_count += 1;
            match (is_whole, is_too_split) {
                (false, _) => void_count += 1,
                (true, true) => {
                    self.parts.add_copied(burst, frame, memory);
                    break;
                }
                (true, false) => sent_len += len,
            }
            if len < first.len as usize {
                break;
            }
        }
        let is_train = frame_count - void_count > 1;
        let segment_len = if is_train { first.len as u16 } else { 0 };
        let parts = part_start..self.parts.count();
        Planned { parts, frame_count, void_count, segment_len }
    }

    fn send_one(&mut self, socket: &Socket) -> Sent {
        let Planned { frame_count, void_count, .. } = self.planned[0];
        if frame_count == void_count {
            return self.gone(1, false);
        }
        let (fd, message) = (socket.as_raw_fd(), self.message(0));
        // SAFETY: `message` names parts, a name and a control message: parts are heads of the burst, memory of the table or
        // a copy, all kept by the caller of `send` or here until this call is over, and only read; the others stay where they are.
        match answer_len(unsafe { libc::sendmsg(fd, &raw const message, SEND_FLAGS) }) {
            Ok(_) => self.gone(1, true),
            Err(error) => refused(frame_count, &error),
        }
    }

    fn send_many(&mut self, socket: &Socket) -> Sent {
        for index in 0..self.planned.len() {
            let planned = &self.planned[index];
            if planned.frame_count == planned.void_count {
                // An empty message would be an empty datagram. What stands before it goes now.
                return if index == 0 { self.gone(1, false) } else { self.call_many(socket) };
            }
            let message = self.message(index);
            self.messages.push(libc::mmsghdr { msg_hdr: message, msg_len: 0 });
        }
        self.call_many(socket)
    }

    fn call_many(&mut self, socket: &Socket) -> Sent {
        let (at, count) = (self.messages.as_mut_ptr(), self.messages.len() as libc::c_uint);
        // SAFETY: each message names parts, a name and a control message: parts are heads of the burst, memory of the
        // table or a copy, all kept by the caller of `send` or here until this call is over, and only read; the others
        // are in vectors that do not move any more.
        let result = unsafe { libc::sendmmsg(socket.as_raw_fd(), at, count, SEND_FLAGS as _) };
        match answer(result) {
            Ok(count) => self.gone(count, true),
            Err(error) => refused(self.planned[0].frame_count, &error),
        }
    }

    /// A message with pointers to its parts, which must not move any more.
    fn message(&mut self, index: usize) -> libc::msghdr {
        let planned = &self.planned[index];
        let mut message = self.parts.message(planned.parts.clone());
        let name = &mut self.names[index];
        message.msg_namelen = name.len();
        message.msg_name = name.ptr_mut().cast();
        if planned.segment_len > 0 {
            self.controls[index].attach(&mut message);
        }
        message
    }

    fn gone(&self, message_count: usize, is_called: bool) -> Sent {
        let mut sent = Sent { is_called, ..Sent::default() };
        for planned in &self.planned[..message_count] {
            sent.frame_count += planned.frame_count;
            sent.void_count += planned.void_count;
            sent.train_count += usize::from(planned.segment_len > 0);
        }
        sent
    }
}

fn refused(frame_count: usize, error: &io::Error) -> Sent {
    let errno = error.raw_os_error().unwrap_or(libc::EIO);
    Sent { is_called: true, refused: Some(Refused { frame_count, errno }), ..Sent::default() }
}
