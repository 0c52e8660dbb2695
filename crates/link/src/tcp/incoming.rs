//! Streams that others opened: all that we receive comes by them.
//!
//! A stream is a stranger's until its first bytes said whose it is. Strangers are few and have little time, so that whoever only
//! connects takes no place from those who send.
//!
//! A greeting costs nothing either: that frames are genuine only the protocol knows. But it answers nobody else, so who was sent
//! something is a peer, and keeps its place while others who greeted make room among themselves.

use std::io;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use super::Counters;
use super::greeting::{self, GREETING_LEN};
use super::key::Key;
use super::outgoing::Outgoing;
use crate::Locator;
use crate::mem::{MemoryId, Written};
use crate::sys::poll::{self, Poll};
use crate::sys::socket::Socket;

/// Strangers at most; the oldest goes first.
const STRANGER_COUNT_MAX: usize = 16;
/// A stranger has so long to say who he is.
const STRANGER_TIME_MAX: Duration = Duration::from_secs(2);
/// Streams accepted in one call.
const ACCEPT_COUNT_MAX: usize = 16;
/// When no stream can be accepted, for this process has too many descriptors, it is tried again after so long. Until then the listener
/// tells nothing, else nobody could sleep.
const ACCEPT_AGAIN_AFTER: Duration = Duration::from_millis(100);

/// Where the payload of a record begun lies beside the copy in the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Placed {
    pub(super) id: MemoryId,
    pub(super) offset: u64,
    /// The payload lies there as long as nobody has written to that memory since.
    pub(super) written: Written,
}

/// A stream.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) socket: Socket,
    ip: IpAddr,
    serial: u32,
    accepted_at: Instant,
    greeting: [u8; GREETING_LEN],
    greeting_len: usize,
    /// The locator of the peer that it comes from; `None` for a stranger.
    pub(super) from: Option<Locator>,
    /// The record begun: what there is of it, with its length first.
    pub(super) record: Vec<u8>,
    pub(super) placed: Option<Placed>,
    /// So many reads without a landing bring little at a time, for payload landed of late.
    pub(super) short_left: u32,
    /// Something was sent to where it comes from. It stays so, also when the stream to there has gone.
    is_answered: bool,
    /// When it brought something last, in calls of `receive`.
    used_at: u64,
}

/// All of them.
#[derive(Debug)]
pub(super) struct Incoming {
    listener: Socket,
    streams: Vec<Option<Stream>>,
    count_max: usize,
    stranger_count: usize,
    greeted_count: usize,
    serial: u32,
    /// Until when nothing is accepted.
    muted_until: Option<Instant>,
}

impl Incoming {
    pub(super) fn new(listener: Socket, count_max: usize, poll: &Poll) -> io::Result<Self> {
        poll.add(&listener, Key::Listener.number(), poll::READABLE)?;
        let count_max = count_max.max(1);
        Ok(Self {
            listener,
            streams: (0..count_max + STRANGER_COUNT_MAX).map(|_| None).collect(),
            count_max,
            stranger_count: 0,
            greeted_count: 0,
            serial: 0,
            muted_until: None,
        })
    }

    /// Streams whose owner is known.
    pub(super) fn greeted_count(&self) -> usize {
        self.greeted_count
    }

    pub(super) fn get_mut(&mut self, slot: usize) -> Option<&mut Stream> {
        self.streams.get_mut(slot)?.as_mut()
    }

    /// The stream of that serial in this place.
    pub(super) fn is_there(&self, slot: usize, serial: u32) -> bool {
        let stream = self.streams.get(slot).and_then(Option::as_ref);
        stream.is_some_and(|stream| stream.serial == serial)
    }

    /// A stream brought something.
    pub(super) fn on_used(&mut self, slot: usize, now: u64) {
        if let Some(stream) = self.get_mut(slot) {
            stream.used_at = now;
        }
    }

    pub(super) fn close(&mut self, slot: usize) {
        match self.streams[slot].take().map(|stream| stream.from) {
            Some(Some(_)) => self.greeted_count -= 1,
            Some(None) => self.stranger_count -= 1,
            None => {}
        }
    }

    /// Takes streams that wait.
    pub(super) fn accept(&mut self, now: u64, poll: &Poll, counters: &mut Counters) {
        for _ in 0..ACCEPT_COUNT_MAX {
            match self.listener.accept() {
                Ok((socket, addr)) => {
                    counters.streams_accepted += 1;
                    if let Some(addr) = addr {
                        self.add_stranger(socket, addr.ip(), now, poll, counters);
                    }
                }
                Err(error) => match error.raw_os_error() {
                    Some(libc::EAGAIN) => return,
                    Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM) => {
                        return self.mute(poll);
                    }
                    _ => {} // that one broke while it waited
                },
            }
        }
    }

    fn mute(&mut self, poll: &Poll) {
        if poll.change(&self.listener, Key::Listener.number(), 0).is_ok() {
            self.muted_until = Some(Instant::now() + ACCEPT_AGAIN_AFTER);
        }
    }

    fn add_stranger(
        &mut self,
        socket: Socket,
        ip: IpAddr,
        now: u64,
        poll: &Poll,
        counters: &mut Counters,
    ) {
        if self.stranger_count >= STRANGER_COUNT_MAX {
            let strangers = self.each().filter(|(_, stream)| stream.from.is_none());
            let oldest = strangers.min_by_key(|(_, stream)| stream.accepted_at);
            if let Some(slot) = oldest.map(|(slot, _)| slot) {
                self.close(slot);
                counters.strangers += 1;
            }
        }
        let Some(slot) = self.streams.iter().position(Option::is_none) else { return };
        self.serial = self.serial.wrapping_add(1);
        let key = Key::Incoming(slot, self.serial).number();
        if poll.add(&socket, key, poll::READABLE).is_err() {
            return; // it would never be read: closed
        }
        self.stranger_count += 1;
        self.streams[slot] = Some(Stream {
            socket,
            ip,
            serial: self.serial,
            accepted_at: Instant::now(),
            greeting: [0; GREETING_LEN],
            greeting_len: 0,
            from: None,
            record: Vec::new(),
            placed: None,
            short_left: 0,
            is_answered: false,
            used_at: now,
        });
    }

    fn each(&self) -> impl Iterator<Item = (usize, &Stream)> {
        let streams = self.streams.iter().enumerate();
        streams.filter_map(|(slot, stream)| Some((slot, stream.as_ref()?)))
    }

    /// Reads the greeting of a stranger, and no byte more.
    pub(super) fn read_greeting(
        &mut self,
        slot: usize,
        now: u64,
        outgoing: &Outgoing,
        counters: &mut Counters,
    ) {
        let Some(stream) = self.get_mut(slot) else { return };
        counters.calls_in += 1;
        match stream.socket.receive(&mut stream.greeting[stream.greeting_len..]) {
            Ok(len) if len > 0 => stream.greeting_len += len,
            Err(error) if is_later(&error) => return,
            _ => {
                counters.strangers += 1;
                return self.close(slot);
            }
        }
        if stream.greeting_len < GREETING_LEN {
            return;
        }
        let Some(from) = greeting::read(&stream.greeting, stream.ip) else {
            counters.strangers += 1;
            return self.close(slot);
        };
        stream.from = Some(from);
        stream.used_at = now;
        self.stranger_count -= 1;
        self.greeted_count += 1;
        if self.greeted_count > self.count_max {
            self.make_room(slot, outgoing, counters);
        }
    }

    /// Closes the stream that brought nothing for longest, but for the one just greeted: one of those that were never answered, as long
    /// as these have more than a quarter of all, else of the others. If one host has more than half of all, then of that host's: who opens
    /// many streams takes no place from others.
    fn make_room(&mut self, newest: usize, outgoing: &Outgoing, counters: &mut Counters) {
        for stream in self.streams.iter_mut().flatten() {
            stream.is_answered |= stream.from.is_some_and(|from| outgoing.leads_to(&from));
        }
        let greeted = || self.each().filter(|(_, stream)| stream.from.is_some());
        let count_of = |ip: IpAddr| greeted().filter(|(_, stream)| stream.ip == ip).count();
        let is_crowd = |stream: &Stream| count_of(stream.ip) > self.count_max.div_ceil(2);
        let new_count = greeted().filter(|(_, stream)| !stream.is_answered).count();
        let keeps_answered = new_count > self.count_max.div_ceil(4);
        let others = greeted().filter(|&(slot, _)| slot != newest);
        let idle = others.min_by_key(|(_, stream)| {
            (stream.is_answered == keeps_answered, !is_crowd(stream), stream.used_at)
        });
        if let Some(slot) = idle.map(|(slot, _)| slot) {
            self.close(slot);
            counters.streams_closed += 1;
        }
    }

    /// What time brings: strangers who said nothing for too long go, and streams are accepted again.
    pub(super) fn on_time(&mut self, poll: &Poll, counters: &mut Counters) {
        if self.stranger_count == 0 && self.muted_until.is_none() {
            return;
        }
        let now = Instant::now();
        let is_late = |stream: &Stream| {
            stream.from.is_none() && now.duration_since(stream.accepted_at) > STRANGER_TIME_MAX
        };
        for slot in 0..self.streams.len() {
            if self.streams[slot].as_ref().is_some_and(is_late) {
                self.close(slot);
                counters.strangers += 1;
            }
        }
        if self.muted_until.is_some_and(|until| now >= until)
            && poll.change(&self.listener, Key::Listener.number(), poll::READABLE).is_ok()
        {
            self.muted_until = None;
        }
    }

    /// Streams there are, strangers with them.
    pub(super) fn count(&self) -> usize {
        self.stranger_count + self.greeted_count
    }
}

fn is_later(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EINTR))
}
