//! Streams that we opened: all that we send leaves by them.
//!
//! ```text
//!   Connecting ── frames wait as copies, a few ──▶ Connected ── straight from where they are ──▶ kernel
//!        │ refused                                     │ what the kernel does not take waits as copies
//!        └───────── Broken: not tried again for a while ◀┘ broken
//! ```
//!
//! Every frame is taken at once, so that one slow peer holds up nobody else: sent, copied to wait, or lost.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use super::key::Key;
use super::{Counters, FRAME_LEN_MAX, greeting};
use crate::Locator;
use crate::burst::{Burst, Frame, Piece};
use crate::mem::Table;
use crate::sys::interfaces::index_of;
use crate::sys::poll::{self, Poll};
use crate::sys::socket::Socket;
use crate::sys::stream_out::{RECORD_COUNT_MAX, StreamOut, WORD_LEN, send_records};
use crate::udp::reach::Reach;

/// Bytes that wait for a stream whose peer reads too slowly. What this is must be taken at any time, whatever the kernel's own buffers
/// hold, so it is the backlog that the link promises.
pub(super) const WAITING_LEN_MAX: usize = 4 << 20;
/// Bytes that wait while a stream is being opened: first contacts. Bulk data follows an answer, which comes when it is open.
const CONNECTING_LEN_MAX: usize = 16 << 10;
/// Room that is kept for bytes to wait in.
const KEPT_LEN_MAX: usize = 64 << 10;
/// A place that could not be reached is tried again after so long ...
const RETRY_AFTER_MIN: Duration = Duration::from_millis(50);
/// ... and after twice the time each time, up to so long. A stream that lived longer begins anew.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(5);
/// Places that could not be reached and are remembered.
const FAILURE_COUNT_MAX: usize = 64;
/// A stream breaks if nothing is acknowledged for so long: the kernel would wait for a quarter of an hour, and when the way is back
/// not try for two minutes. It also breaks if the peer takes nothing for so long, for it computes: so not sooner.
const PATIENCE_MS: u16 = 60_000;

/// A stream.
#[derive(Debug)]
struct Stream {
    socket: Socket,
    to: Locator,
    serial: u32,
    is_connecting: bool,
    /// What a call said of it last, if that ended it.
    errno: Option<i32>,
    /// Bytes that wait, from `waiting_at` on.
    waiting: Vec<u8>,
    waiting_at: usize,
    /// The system is asked to tell when it takes more.
    is_watched: bool,
    /// When it was used last, in calls of `send` and `send_now`.
    used_at: u64,
    /// When bytes that wait were last tried, in calls of `send`.
    tried_at: u64,
    opened_at: Instant,
}

/// A place that could not be reached.
#[derive(Clone, Copy, Debug)]
struct Failure {
    to: Locator,
    after: Duration,
    until: Instant,
}

/// All of them.
#[derive(Debug)]
pub(super) struct Outgoing {
    streams: Vec<Option<Stream>>,
    /// Where the one used last is.
    last: usize,
    serial: u32,
    failures: Vec<Failure>,
    out: StreamOut,
    /// Calls of `send` and `send_now`.
    now: u64,
    /// Streams with bytes that wait.
    waiting_count: usize,
    /// The port at which others reach us.
    port: u16,
    /// Streams that could not be opened, since this was last asked, and whether the host there said so.
    refused: Vec<(Locator, bool)>,
    /// Streams that broke while they were in use, since this was last asked.
    broken: Vec<Locator>,
}

impl Outgoing {
    pub(super) fn new(count_max: usize, port: u16) -> Self {
        Self {
            streams: (0..count_max.max(1)).map(|_| None).collect(),
            last: 0,
            serial: 0,
            failures: Vec::new(),
            out: StreamOut::new(),
            now: 0,
            waiting_count: 0,
            port,
            refused: Vec::new(),
            broken: Vec::new(),
        }
    }

    /// Whether bytes wait anywhere.
    pub(super) fn is_waiting(&self) -> bool {
        self.waiting_count > 0
    }

    /// Bytes of memory that hold what waits.
    #[cfg(test)]
    pub(super) fn waiting_room_len(&self) -> usize {
        self.streams.iter().flatten().map(|stream| stream.waiting.capacity()).sum()
    }

    /// A place that was found to be out of reach, and whether its host said so: each time once.
    pub(super) fn poll_refused(&mut self) -> Option<(Locator, bool)> {
        self.refused.pop()
    }

    /// A place to which a stream broke that was in use: each time once.
    pub(super) fn poll_broken(&mut self) -> Option<Locator> {
        self.broken.pop()
    }

    /// Whether a stream leads there.
    pub(super) fn leads_to(&self, to: &Locator) -> bool {
        self.find(to).is_some()
    }

    /// Where the stream to a place is.
    fn find(&self, to: &Locator) -> Option<usize> {
        let is_it = |slot: &Option<Stream>| slot.as_ref().is_some_and(|stream| stream.to == *to);
        if is_it(&self.streams[self.last]) {
            return Some(self.last);
        }
        self.streams.iter().position(is_it)
    }

    /// Takes all frames of a burst from number `first` on.
    pub(super) fn send(
        &mut self,
        burst: &Burst,
        first: usize,
        memory: &Table,
        reach: &Reach,
        poll: &Poll,
        counters: &mut Counters,
    ) {
        self.now += 1;
        let mut at = first;
        while at < burst.len() {
            let to = burst.frame(at).to;
            let slot = self.find(&to).or_else(|| self.open(&to, reach, poll, counters));
            let Some(slot) = slot else {
                counters.lost_frames += 1;
                at += 1;
                continue;
            };
            self.last = slot;
            at += self.send_run(slot, burst, at, memory, poll, counters);
        }
    }

    /// Sends frames from number `at` on by a stream to where the first of them goes; how many were taken, at least one.
    fn send_run(
        &mut self,
        slot: usize,
        burst: &Burst,
        at: usize,
        memory: &Table,
        poll: &Poll,
        counters: &mut Counters,
    ) -> usize {
        let now = self.now;
        let Some(stream) = &mut self.streams[slot] else { return 1 };
        stream.used_at = now;
        if stream.has_waiting() && stream.tried_at != now {
            stream.tried_at = now;
            self.flush(slot, poll, counters);
        }
        let Some(stream) = &mut self.streams[slot] else {
            counters.lost_frames += 1;
            return 1;
        };
        if stream.has_waiting() {
            let is_taken = stream.wait(burst, &burst.frame(at), memory);
            counters.frames_out += u64::from(is_taken);
            counters.lost_frames += u64::from(!is_taken);
            return 1;
        }
        let sent = self.out.send(&stream.socket, burst, at, memory, FRAME_LEN_MAX);
        counters.calls_out += u64::from(sent.is_called);
        counters.frames_out += (sent.frame_count - sent.void_count) as u64;
        counters.bytes_out += sent.len as u64;
        counters.lost_frames += sent.void_count as u64;
        let Some(cut) = sent.cut else { return sent.frame_count };
        let frame = burst.frame(at + sent.frame_count);
        let is_taken = sent.errno.is_none() && stream.wait_from(burst, &frame, memory, cut);
        counters.frames_out += u64::from(is_taken);
        counters.lost_frames += u64::from(!is_taken);
        stream.tried_at = now;
        stream.errno = sent.errno;
        // A record that was begun and cannot be finished would be finished by bytes of the next.
        match sent.errno.is_some() || (cut > 0 && !is_taken) {
            true => self.on_broken(slot, counters),
            // It has just said that it takes no more.
            false if sent.is_called => self.watch(slot, poll),
            // Too many pieces for one call: now they are one.
            false => self.flush(slot, poll, counters),
        }
        sent.frame_count + 1
    }

    /// Sends frames that stand behind each other, as `Link::send_now` says, if they can go at once.
    #[inline]
    pub(super) fn send_now(
        &mut self,
        to: &Locator,
        frames: &[u8],
        stride: usize,
        poll: &Poll,
        counters: &mut Counters,
    ) -> bool {
        let frame_len_max = stride.min(frames.len());
        if !(1..=FRAME_LEN_MAX).contains(&frame_len_max) || frames.len() > RECORD_COUNT_MAX * stride
        {
            return false;
        }
        let Some(slot) = self.find(to) else { return false };
        let Some(stream) = self.streams[slot].as_mut().filter(|stream| !stream.has_waiting())
        else {
            return false;
        };
        self.last = slot;
        counters.calls_out += 1;
        let Ok(len) = send_records(&stream.socket, frames, stride) else { return false };
        self.now += 1;
        stream.used_at = self.now;
        let frame_count = frames.len().div_ceil(stride);
        counters.frames_out += frame_count as u64;
        counters.bytes_out += len as u64;
        if len < frame_count * WORD_LEN + frames.len() {
            stream.wait_behind(frames, stride, len);
            self.watch(slot, poll);
        }
        true
    }

    /// The system told something of a stream.
    pub(super) fn on_event(
        &mut self,
        slot: usize,
        serial: u32,
        what: u32,
        poll: &Poll,
        counters: &mut Counters,
    ) {
        let stream = self.streams.get(slot).and_then(Option::as_ref);
        if stream.is_none_or(|stream| stream.serial != serial) {
            return;
        }
        // Who opened the stream is the only one who writes to it: when the other side ends it, nobody reads any more.
        if what & (poll::BROKEN | poll::ENDED) != 0 {
            // Whoever leaves ends its streams, and that is no news to a person; frames that wait are.
            let is_idle = stream.is_some_and(|stream| !stream.has_waiting());
            match what & poll::BROKEN == 0 && is_idle {
                true => self.end(slot, counters),
                false => self.on_broken(slot, counters),
            }
        } else if what & poll::WRITABLE != 0 {
            self.flush(slot, poll, counters);
        }
    }

    /// Bytes wait since now, or still: the system is to tell when it takes more.
    fn watch(&mut self, slot: usize, poll: &Poll) {
        let Some(stream) = &mut self.streams[slot] else { return };
        let is_watched = stream.has_waiting();
        if stream.is_watched == is_watched {
            return;
        }
        let what = if is_watched { poll::ENDED | poll::WRITABLE } else { poll::ENDED };
        let key = Key::Outgoing(slot, stream.serial).number();
        // It cannot fail for a descriptor that was added; if it did, the next `send` would try.
        let _ = poll.change(&stream.socket, key, what);
        stream.is_watched = is_watched;
        if is_watched {
            self.waiting_count += 1;
        } else {
            self.waiting_count -= 1;
        }
    }

    /// Sends what waits. The greeting is the first that does, so the first bytes that go say that the stream is open.
    fn flush(&mut self, slot: usize, poll: &Poll, counters: &mut Counters) {
        let Some(stream) = &mut self.streams[slot] else { return };
        while stream.has_waiting() {
            counters.calls_out += 1;
            match stream.socket.send(&stream.waiting[stream.waiting_at..]) {
                Ok(0) => break,
                Ok(len) => {
                    counters.bytes_out += len as u64;
                    stream.is_connecting = false;
                    stream.waiting_at += len;
                }
                Err(error) if is_later(&error) => break,
                Err(error) => {
                    stream.errno = error.raw_os_error();
                    return self.on_broken(slot, counters);
                }
            }
        }
        if !stream.has_waiting() {
            (stream.waiting_at, _) = (0, stream.waiting.clear());
            stream.waiting.shrink_to(KEPT_LEN_MAX);
        }
        self.watch(slot, poll);
    }
}

fn is_later(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EINTR | libc::ENOBUFS))
}

impl Stream {
    fn has_waiting(&self) -> bool {
        self.waiting.len() > self.waiting_at
    }

    /// Copies a frame behind what waits; false if that is too much, or its memory is not there.
    fn wait(&mut self, burst: &Burst, frame: &Frame, memory: &Table) -> bool {
        let len_max = if self.is_connecting { CONNECTING_LEN_MAX } else { WAITING_LEN_MAX };
        let len = WORD_LEN + frame.len as usize + self.waiting.len() - self.waiting_at;
        let fits = (1..=FRAME_LEN_MAX).contains(&(frame.len as usize)) && len <= len_max;
        fits && self.wait_from(burst, frame, memory, 0)
    }

    /// Copies what is left of records of which the first `cut` bytes went.
    fn wait_behind(&mut self, frames: &[u8], stride: usize, mut cut: usize) {
        for frame in frames.chunks(stride) {
            let word = (frame.len() as u32).to_le_bytes();
            for part in [&word[..], frame] {
                let gone_len = cut.min(part.len());
                self.waiting.extend_from_slice(&part[gone_len..]);
                cut -= gone_len;
            }
        }
    }

    /// Copies the rest of a frame of whose record `cut` bytes went: those must be followed by the others.
    fn wait_from(&mut self, burst: &Burst, frame: &Frame, memory: &Table, cut: usize) -> bool {
        if self.waiting_at >= self.waiting.len() / 2 {
            self.waiting.drain(..self.waiting_at);
            self.waiting_at = 0;
        }
        let start = self.waiting.len();
        self.waiting.extend_from_slice(&frame.len.to_le_bytes());
        for piece in burst.pieces(frame) {
            match *piece {
                Piece::Head { .. } => self.waiting.extend_from_slice(burst.head_bytes(piece)),
                Piece::User { id, offset, len } => {
                    if !memory.copy_out(id, offset, len as usize, &mut self.waiting) {
                        self.waiting.truncate(start);
                        return false;
                    }
                }
            }
        }
        self.waiting.drain(start..start + cut);
        true
    }
}

/// Opening and breaking.
impl Outgoing {
    /// Begins to open a stream; `None` if that cannot be done, or not yet again.
    fn open(
        &mut self,
        to: &Locator,
        reach: &Reach,
        poll: &Poll,
        counters: &mut Counters,
    ) -> Option<usize> {
        let addr = reach.span.place_of(to)?;
        let now = Instant::now();
        if self.failures.iter().any(|failure| failure.to == *to && now < failure.until) {
            return None;
        }
        let slot = self.vacate(counters)?;
        self.serial = self.serial.wrapping_add(1);
        let key = Key::Outgoing(slot, self.serial).number();
        let begun = connect(addr, reach).and_then(|(socket, is_connecting, own)| {
            poll.add(&socket, key, poll::ENDED | poll::WRITABLE)?;
            Ok((socket, is_connecting, own))
        });
        let (socket, is_connecting, own_ip) = match begun {
            Ok(begun) => begun,
            Err(error) => {
                self.on_failure(*to, now, now);
                self.refuse(*to, error.raw_os_error());
                return None;
            }
        };
        counters.streams_opened += 1;
        self.streams[slot] = Some(Stream {
            socket,
            to: *to,
            serial: self.serial,
            is_connecting,
            waiting: greeting::write(SocketAddr::new(own_ip, self.port)).to_vec(),
            waiting_at: 0,
            is_watched: true,
            used_at: self.now,
            tried_at: 0,
            opened_at: now,
            errno: None,
        });
        self.waiting_count += 1;
        Some(slot)
    }

    /// A place for another stream: if none is empty, that of the one not used for longest, if nothing waits for it.
    fn vacate(&mut self, counters: &mut Counters) -> Option<usize> {
        if let Some(slot) = self.streams.iter().position(Option::is_none) {
            return Some(slot);
        }
        let idle = self.streams.iter().enumerate().filter_map(|(slot, stream)| {
            let stream = stream.as_ref().filter(|stream| !stream.has_waiting())?;
            Some((stream.used_at, slot))
        });
        let (_, slot) = idle.min()?;
        self.streams[slot] = None;
        counters.streams_closed += 1;
        Some(slot)
    }

    /// A stream broke in use: what waits for it is lost, and a person is told.
    fn on_broken(&mut self, slot: usize, counters: &mut Counters) {
        if let Some(stream) = self.streams[slot].as_ref().filter(|stream| !stream.is_connecting)
            && self.broken.len() < FAILURE_COUNT_MAX
        {
            self.broken.push(stream.to);
        }
        self.end(slot, counters);
    }

    /// A stream does not take bytes any more: what waits for it is lost.
    fn end(&mut self, slot: usize, counters: &mut Counters) {
        let Some(stream) = self.streams[slot].take() else { return };
        counters.streams_broken += 1;
        counters.lost_bytes += (stream.waiting.len() - stream.waiting_at) as u64;
        self.waiting_count -= usize::from(stream.is_watched);
        self.on_failure(stream.to, stream.opened_at, Instant::now());
        if stream.is_connecting {
            self.refuse(stream.to, stream.errno.or_else(|| stream.socket.take_error()));
        }
    }

    fn refuse(&mut self, to: Locator, errno: Option<i32>) {
        let is_known = self.refused.iter().any(|(known, _)| *known == to);
        if self.refused.len() < FAILURE_COUNT_MAX && !is_known {
            self.refused.push((to, errno == Some(libc::ECONNREFUSED)));
        }
    }

    /// A stream to there that was opened at that time has failed.
    fn on_failure(&mut self, to: Locator, opened_at: Instant, now: Instant) {
        let lived = now.duration_since(opened_at);
        let known = self.failures.iter().position(|failure| failure.to == to);
        let after = match known {
            Some(at) if lived < RETRY_AFTER_MAX => {
                (self.failures[at].after * 2).min(RETRY_AFTER_MAX)
            }
            _ => RETRY_AFTER_MIN,
        };
        let failure = Failure { to, after, until: now + after };
        match known {
            Some(at) => self.failures[at] = failure,
            None if self.failures.len() < FAILURE_COUNT_MAX => self.failures.push(failure),
            None => {
                let failures = self.failures.iter_mut();
                if let Some(oldest) = failures.min_by_key(|failure| failure.until) {
                    *oldest = failure;
                }
            }
        }
    }
}

/// A socket on its way there, whether it is not there yet, and the address of ours that it comes from.
fn connect(addr: SocketAddr, reach: &Reach) -> io::Result<(Socket, bool, IpAddr)> {
    let socket = Socket::open_stream(addr.is_ipv6())?;
    socket.set_no_delay()?;
    socket.set_patience(PATIENCE_MS)?;
    let local_ip = reach.local_ip;
    let needs_scope = matches!(local_ip, IpAddr::V6(ip) if ip.is_unicast_link_local());
    // From a wildcard, the route chooses. Else the address that the greeting claims must be the one the stream comes from.
    if !local_ip.is_unspecified() && !needs_scope && local_ip.is_ipv6() == addr.is_ipv6() {
        socket.bind(SocketAddr::new(local_ip, 0))?;
    }
    // What stays on this host leaves by no interface.
    if let Some(interface) = reach.interface.filter(|_| index_of(addr.ip()).is_none()) {
        socket.keep_to(interface)?;
    }
    let is_connecting = match socket.connect(addr) {
        Ok(()) => false,
        Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => true,
        Err(error) => return Err(error),
    };
    let own = socket.local_addr()?;
    // Where nobody listens on a port that the system may choose for us, it can choose that very port, and a socket meets itself.
    if own == addr {
        return Err(io::Error::from_raw_os_error(libc::ECONNREFUSED));
    }
    Ok((socket, is_connecting, own.ip()))
}
