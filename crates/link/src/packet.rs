//! Frames as raw Ethernet: between hosts of one segment, with the right to it (CAP_NET_RAW).
//!
//! ```text
//!   Burst ─ sendmmsg behind a header (`ether`) ─▶ … ─▶ filter in the kernel ─▶ ring, shared with us ─▶ Arrived
//!                                                      (filter.rs)          └▶ queue: long frames, scattered to their place
//! ```
//!
//! One packet socket, bound to one interface and our EtherType. The kernel puts arriving frames into memory it shares with
//! us, so that looking for one costs no system call. With usual Ethernet all arrive there; of jumbo frames only the short
//! ones do, of the others the beginning, and they themselves wait in the socket's queue: then their length is known before
//! they are received, and payload goes straight to its place.
//!
//! There are no trains: the kernel cuts up only what it knows. An interface that is down loses what is sent; it is said, and
//! when it is up again all goes on. Endpoints on one interface do not hear each other, for the kernel does not turn around
//! what leaves by it.

mod config;
mod filter;
mod kind;
mod on_demand;
mod opening;
pub mod seek;

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

pub use config::{PacketConfig, PacketError};
pub use kind::KIND;
pub use on_demand::OnDemand;

use crate::ether::{self, EVERYBODY, HEADER_LEN, Parsed, Station, from_locator, to_locator};
use crate::mem::Table;
use crate::sys::packet::PacketSocket;
use crate::sys::packet_out::PacketOut;
use crate::sys::packet_queue::{self, PacketQueue, QUEUED_COUNT_MAX};
use crate::sys::packet_ring::{Filled, Ring};
use crate::{
    About, Arrived, Burst, Cause, Landed, Landing, Link, Locator, Notice, Reliability, Telling,
    show,
};
use opening::Opened;

/// Notices not fetched yet; a peer that is not there must not fill memory.
const NOTICE_COUNT_MAX: usize = 64;
/// Remarks in its life: what goes on going wrong has been said by then.
const REMARK_COUNT_MAX: usize = 32;
/// Frames of one receive.
const RECEIVE_COUNT_MAX: usize = 64;
/// Bytes of long frames in one receive, roughly: more would leave the cache before they are read.
const LONG_LEN_MAX: usize = 1 << 18;
/// A lone frame up to this is copied behind its header: a second part for the system call costs more.
const COPY_LEN_MAX: usize = 1024;
/// What an error left behind is told by a later call; so often a call is repeated for it.
const RETRY_COUNT_MAX: usize = 2;

/// What it did so far.
#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    calls_out: u64,
    frames_out: u64,
    send_blocked: u64,
    send_failed: u64,
    void_frames: u64,
    calls_in: u64,
    frames_in: u64,
    long_in: u64,
    bytes_in: u64,
    landed_bytes: u64,
    lifted_bytes: u64,
    overflow_drops: u64,
    bad_frames: u64,
    downs: u64,
}

/// Where a frame is that arrived.
#[derive(Clone, Copy, Debug)]
enum At {
    /// In a slot of the ring, from there on.
    Ring { slot: usize, at: usize },
    /// In the room of a long frame.
    Room { number: usize },
    /// Its head is in that room, its payload in its place.
    Place { number: usize, head_len: usize, offset: u64 },
    /// The frame should have been in the queue and was not.
    Nowhere,
}

#[derive(Clone, Copy, Debug)]
struct Arrival {
    from: Locator,
    len: usize,
    at: At,
}

/// A long frame that the ring told of.
#[derive(Clone, Copy, Debug)]
struct Long {
    filled: Filled,
    /// Which arrival it will be; none if it is not for us.
    arrival: Option<usize>,
}

/// A link over one packet socket.
#[derive(Debug)]
pub struct Packet {
    socket: PacketSocket,
    about: About,
    name: String,
    /// Number of the interface.
    index: u32,
    own: Station,
    hears_all: bool,
    /// The name it answers seekers with.
    known_as: Option<String>,
    /// Answers to seekers, to be sent.
    answers: Vec<(Station, Vec<u8>)>,
    locator: Locator,
    is_down: bool,
    buffer_lens: (usize, usize),
    out: PacketOut,
    /// A lone frame behind its header.
    lone: Box<[u8; HEADER_LEN + COPY_LEN_MAX]>,
    ring: Ring,
    queue: PacketQueue,
    longs: Vec<Long>,
    places: Vec<Option<packet_queue::Destination>>,
    arrivals: Vec<Arrival>,
    landing: Option<Landing>,
    notices: VecDeque<Notice>,
    remarks: VecDeque<String>,
    remark_count: usize,
    counters: Counters,
}

/// A socket for somebody without the right to open one: bound, with its filter locked, to be handed over (SCM_RIGHTS) and
/// taken by [`Packet::from_fd`]. Whoever has it receives the frames of one endpoint and nothing else; what he sends cannot
/// be restricted so.
///
/// # Errors
/// As for [`Packet::open`].
pub fn open_fd(config: &PacketConfig) -> Result<OwnedFd, PacketError> {
    opening::open_for_others(config)
}

/// What a link on such an interface is and can do.
fn about(frame_len_max: usize, can_land: bool, backlog_len_max: u64) -> About {
    About {
        kind: KIND.name,
        frame_len_max,
        train_len_max: 0,
        train_count_max: 0,
        reliability: Reliability::Lossy,
        is_checked: true,
        is_private: false,
        can_land,
        backlog_len_max,
    }
}

impl Packet {
    /// Opens a socket of its own. Needs CAP_NET_RAW.
    ///
    /// # Errors
    /// [`PacketError`] names the interface, or the right that is missing, and says what to do.
    pub fn open(config: &PacketConfig) -> Result<Self, PacketError> {
        Self::new(opening::open(config)?)
    }

    /// Takes a packet socket that somebody else opened and bound; needs no rights. Of the config, the interface is not used; the
    /// endpoint's number is that of the filter it came with, if it is one of ours. Frames that waited in it are lost. Who keeps a
    /// copy of the descriptor can spoil what arrives, so he must be trusted.
    ///
    /// # Errors
    /// As for [`Packet::open`].
    pub fn from_fd(fd: OwnedFd, config: &PacketConfig) -> Result<Self, PacketError> {
        Self::new(opening::open_fd(fd, config)?)
    }

    fn new(opened: Opened) -> Result<Self, PacketError> {
        let queue = PacketQueue::new()
            .map_err(|error| PacketError::System { doing: "getting memory for frames", error })?;
        let (slot_count, receive_len) = (opened.ring.slot_count(), opened.receive_buffer_len);
        let about = about(
            opening::frame_len_of(opened.facts.mtu),
            !opened.is_all_in_ring,
            opening::backlog_len_of(&opened.facts, slot_count, receive_len),
        );
        let mut packet = Self {
            socket: opened.socket,
            about,
            locator: to_locator(&opened.own),
            name: opened.name,
            index: opened.facts.index as u32,
            own: opened.own,
            hears_all: opened.hears_all,
            known_as: opened.known_as,
            answers: Vec::new(),
            is_down: false,
            buffer_lens: (opened.receive_buffer_len, opened.send_buffer_len),
            out: PacketOut::new(),
            lone: Box::new([0; HEADER_LEN + COPY_LEN_MAX]),
            ring: opened.ring,
            queue,
            longs: Vec::with_capacity(QUEUED_COUNT_MAX),
            places: Vec::with_capacity(QUEUED_COUNT_MAX),
            arrivals: Vec::with_capacity(RECEIVE_COUNT_MAX),
            landing: None,
            notices: VecDeque::new(),
            remarks: VecDeque::new(),
            remark_count: 0,
            counters: Counters::default(),
        };
        if !opened.facts.is_up {
            packet.on_down();
        }
        Ok(packet)
    }

    /// Name of the interface.
    pub fn interface(&self) -> &str {
        &self.name
    }

    /// Receive and send buffer, in bytes as the kernel keeps account of them: about twice what was asked for, less where
    /// the system's limit (`net.core.rmem_max`, `wmem_max`) is lower.
    pub fn buffer_lens(&self) -> (usize, usize) {
        self.buffer_lens
    }

    fn say(&mut self, remark: impl FnOnce() -> String) {
        if self.remark_count < REMARK_COUNT_MAX {
            self.remark_count += 1;
            self.remarks.push_back(remark());
        }
    }

    fn notice(&mut self, notice: Notice) {
        if self.notices.len() < NOTICE_COUNT_MAX && self.notices.back() != Some(&notice) {
            self.notices.push_back(notice);
        }
    }

    /// What the interface takes now.
    fn refresh_mtu(&mut self) {
        if let Ok(mtu) = self.socket.mtu(&self.name) {
            self.about.frame_len_max = opening::frame_len_of(mtu);
        }
    }

    #[cold]
    fn on_down(&mut self) {
        if !self.is_down {
            self.is_down = true;
            self.counters.downs += 1;
            let name = self.name.clone();
            self.say(|| format!("{name} is down: what is sent over it is lost until it is up"));
        }
    }

    #[cold]
    fn on_up(&mut self) {
        self.is_down = false;
        self.refresh_mtu();
        let name = self.name.clone();
        self.say(|| format!("{name} is up again"));
    }

    /// An interface that was removed and made again has another number, and perhaps another address. Whether it is back.
    #[cold]
    fn find_again(&mut self) -> bool {
        let is_gone = self.socket.bound().is_ok_and(|bound| bound.index <= 0);
        if !is_gone {
            return false;
        }
        let Ok(facts) = self.socket.facts(&self.name) else { return false };
        if opening::bind(&self.socket, &facts).is_err() {
            return false;
        }
        self.index = facts.index as u32;
        self.own.mac = facts.mac;
        self.locator = to_locator(&self.own);
        facts.is_up
    }
}

/// What to do about a frame that did not go.
enum Verdict {
    /// Send it again.
    Again,
    /// The frame is lost.
    Lost,
    /// Not now.
    Later,
}

fn is_down_error(errno: i32) -> bool {
    matches!(errno, libc::ENETDOWN | libc::ENXIO | libc::ENODEV)
}

/// Sending.
impl Packet {
    /// The lone frame is the one somebody waits for: nothing is set up for it.
    #[inline]
    fn send_one(&mut self, to: &Locator, bytes: &[u8]) -> bool {
        let Some(to) = from_locator(to).filter(|_| bytes.len() <= COPY_LEN_MAX) else {
            return false;
        };
        let (len, whole) = (HEADER_LEN + bytes.len(), &mut self.lone);
        whole[..HEADER_LEN].copy_from_slice(&ether::header(&to, &self.own, bytes.len()));
        whole[HEADER_LEN..len].copy_from_slice(bytes);
        self.counters.calls_out += 1;
        let is_sent = self.socket.send(&whole[..len]).is_ok();
        self.counters.frames_out += u64::from(is_sent);
        is_sent
    }

    fn send_all(&mut self, burst: &Burst, first: usize, memory: &Table) -> io::Result<usize> {
        let own = self.own;
        let header = |to: &Locator, len: usize| {
            let to = from_locator(to).filter(|_| len <= usize::from(u16::MAX))?;
            Some(ether::header(&to, &own, len))
        };
        let (mut at, mut retry_count) = (first, 0);
        while at < burst.len() {
            let sent = self.out.send(&self.socket, burst, at, memory, header);
            self.counters.calls_out += u64::from(sent.is_called);
            self.counters.frames_out += (sent.frame_count - sent.void_count) as u64;
            self.counters.void_frames += sent.void_count as u64;
            at += sent.frame_count;
            let Some(errno) = sent.errno else {
                if self.is_down && sent.is_called {
                    self.on_up();
                }
                retry_count = 0;
                continue;
            };
            retry_count += 1;
            match self.judge(burst, at, errno, retry_count)? {
                Verdict::Again => {}
                Verdict::Lost => {
                    self.counters.send_failed += 1;
                    (at, retry_count) = (at + 1, 0);
                }
                Verdict::Later => {
                    self.counters.send_blocked += 1;
                    break;
                }
            }
        }
        Ok(at - first)
    }

    /// Frame number `at` of the burst was refused.
    #[cold]
    fn judge(
        &mut self,
        burst: &Burst,
        at: usize,
        errno: i32,
        retry_count: usize,
    ) -> io::Result<Verdict> {
        let frame = burst.frame(at);
        let (to, len) = (frame.to, frame.len as usize);
        Ok(match errno {
            libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM => Verdict::Later,
            libc::EINTR if retry_count <= RETRY_COUNT_MAX => Verdict::Again,
            libc::EMSGSIZE => {
                self.on_too_long(to, len);
                Verdict::Lost
            }
            libc::EDESTADDRREQ if from_locator(&to).is_some() => {
                self.on_too_long(to, len);
                Verdict::Lost
            }
            libc::EDESTADDRREQ => {
                self.notice(Notice::Unreachable { to, cause: Cause::Void });
                self.say(|| format!("{} is no place on Ethernet", show(&to)));
                Verdict::Lost
            }
            // May be told of a time that is over.
            errno if is_down_error(errno) && retry_count < RETRY_COUNT_MAX => Verdict::Again,
            errno if is_down_error(errno) => {
                self.on_down();
                if self.find_again() {
                    return Ok(Verdict::Lost); // this one; those behind it go the new way
                }
                self.notice(Notice::Unreachable { to, cause: Cause::Here });
                Verdict::Lost
            }
            libc::EBADF | libc::ENOTSOCK => {
                return Err(io::Error::from_raw_os_error(errno));
            }
            errno => {
                let error = io::Error::from_raw_os_error(errno);
                self.say(|| format!("a frame to {} was not sent: {error}", show(&to)));
                Verdict::Lost
            }
        })
    }

    fn on_too_long(&mut self, to: Locator, len: usize) {
        self.refresh_mtu();
        let frame_len_max = self.about.frame_len_max.min(len.saturating_sub(1));
        self.notice(Notice::TooLong { to, frame_len_max });
    }
}

/// Receiving.
impl Packet {
    fn receive_some(&mut self, landing: Option<&Landing>, memory: &mut Table) -> usize {
        self.ring.release();
        self.arrivals.clear();
        self.longs.clear();
        self.places.clear();
        self.landing = landing.copied();
        let (mut landing_used, mut long_len) = (0, 0);
        for _ in 0..RECEIVE_COUNT_MAX {
            let Some(filled) = self.ring.peek() else { break };
            long_len += if filled.is_queued { filled.len } else { 0 };
            let is_too_much = self.longs.len() == QUEUED_COUNT_MAX || long_len > LONG_LEN_MAX;
            if filled.is_queued && is_too_much && !self.longs.is_empty() {
                break;
            }
            self.ring.take();
            if filled.is_losing {
                self.count_drops();
            }
            self.take(filled, &mut landing_used);
        }
        if !self.longs.is_empty() {
            self.receive_long(memory);
        }
        if !self.answers.is_empty() {
            self.send_answers();
        }
        self.arrivals.len()
    }

    #[cold]
    fn count_drops(&mut self) {
        self.counters.overflow_drops += self.socket.take_drops();
    }

    /// A frame in a slot that was taken.
    #[inline]
    fn take(&mut self, filled: Filled, landing_used: &mut u64) {
        let here = self.ring.bytes(filled.slot, filled.at..filled.at + filled.here_len);
        let parsed = ether::parse(here, filled.len).filter(|parsed| {
            let is_for_us =
                parsed.to == self.own.endpoint || self.hears_all && parsed.to == EVERYBODY;
            is_for_us && parsed.is_all_of(filled.len)
        });
        self.counters.bad_frames += u64::from(parsed.is_none());
        if filled.is_queued {
            let place = parsed.and_then(|parsed| self.place_of(&parsed, landing_used));
            self.places.push(place);
            let arrival = parsed.is_some().then_some(self.arrivals.len());
            self.longs.push(Long { filled, arrival });
        } else if filled.here_len < filled.len {
            self.counters.overflow_drops += 1; // too long for its slot, and the queue was full
            return;
        }
        let Some(Parsed { from, len, to }) = parsed else { return };
        if to == EVERYBODY && !filled.is_queued && self.answers_seeker(&filled, &from, len) {
            return;
        }
        self.counters.frames_in += 1;
        self.counters.bytes_in += len as u64;
        let at = match filled.is_queued {
            true => At::Nowhere, // until it is received
            false => At::Ring { slot: filled.slot, at: filled.at + HEADER_LEN },
        };
        self.arrivals.push(Arrival { from: to_locator(&from), len, at });
    }

    /// Whether a frame that everybody got asks who is here; then an answer is prepared.
    #[cold]
    fn answers_seeker(&mut self, filled: &Filled, from: &Station, len: usize) -> bool {
        let start = filled.at + HEADER_LEN;
        let asked = self.ring.bytes(filled.slot, start..start + len);
        let Some(name) = &self.known_as else { return false };
        let Some(answer) = seek::answer(asked, name) else { return false };
        if self.answers.len() < seek::ANSWER_COUNT_MAX {
            self.answers.push((*from, answer));
        }
        true
    }

    /// What cannot be sent is not: who asked will ask again.
    #[cold]
    fn send_answers(&mut self) {
        for (to, answer) in std::mem::take(&mut self.answers) {
            let mut whole = ether::header(&to, &self.own, answer.len()).to_vec();
            whole.extend_from_slice(&answer);
            self.counters.calls_out += 1;
            self.counters.frames_out += u64::from(self.socket.send(&whole).is_ok());
        }
    }

    /// Where the payload of this frame shall go: the next place, if the frame is as long as one for it.
    fn place_of(
        &self,
        parsed: &Parsed,
        landing_used: &mut u64,
    ) -> Option<packet_queue::Destination> {
        let landing = self.landing?;
        let rest = landing.len.saturating_sub(*landing_used).min(landing.payload_len as u64);
        let payload_len = parsed.len.checked_sub(landing.head_len)?;
        if landing.head_len == 0 || payload_len == 0 || payload_len as u64 != rest {
            return None;
        }
        let offset = landing.offset + *landing_used;
        *landing_used += rest;
        let before_len = HEADER_LEN + landing.head_len;
        Some(packet_queue::Destination { id: landing.id, offset, len: payload_len, before_len })
    }

    /// Takes the frames off the queue that the ring told of.
    fn receive_long(&mut self, memory: &mut Table) {
        let mut count = Ok(0);
        for _ in 0..RETRY_COUNT_MAX {
            self.counters.calls_in += 1;
            count = self.queue.receive(&self.socket, &mut self.places, memory);
            if count.is_ok() {
                break; // else what went wrong is told once, before what is there
            }
        }
        memory.note_written();
        let count = count.unwrap_or(0);
        self.counters.long_in += count as u64;
        let mut is_astray = count < self.longs.len();
        for (number, long) in self.longs.iter().enumerate().take(count) {
            let at = long.filled.at;
            let told = self.ring.bytes(long.filled.slot, at..at + long.filled.here_len);
            let told = &told[..told.len().min(HEADER_LEN)];
            if self.queue.frame_len(number) != long.filled.len
                || self.queue.room(number, 0..told.len()) != told
            {
                is_astray = true;
                break;
            }
            let Some(arrival) = long.arrival.and_then(|at| self.arrivals.get_mut(at)) else {
                continue;
            };
            arrival.at = match self.places[number] {
                Some(place) => {
                    self.counters.landed_bytes += place.len as u64;
                    let head_len = place.before_len - HEADER_LEN;
                    At::Place { number, head_len, offset: place.offset }
                }
                None => At::Room { number },
            };
        }
        if is_astray {
            self.find_back();
        }
    }

    /// Ring and queue do not speak of the same frames: somebody else reads the socket, too. What is queued is given up; what the
    /// ring tells of it will be missing.
    #[cold]
    fn find_back(&mut self) {
        while self.socket.discard() {
            self.counters.bad_frames += 1;
        }
        self.arrivals.retain(|arrival| !matches!(arrival.at, At::Nowhere));
    }
}

impl Link<Table> for Packet {
    fn about(&self) -> &About {
        &self.about
    }

    fn locator(&self) -> Locator {
        self.locator
    }

    fn may_reach(&mut self, to: &Locator) -> bool {
        from_locator(to).is_some_and(|place| place.mac != self.own.mac)
    }

    fn frame_len_to(&mut self, to: &Locator) -> usize {
        let _ = to;
        self.refresh_mtu();
        self.about.frame_len_max
    }

    fn card_to(&mut self, _: &Locator) -> u32 {
        self.index
    }

    fn send(&mut self, burst: &Burst, first: usize, memory: &mut Table) -> io::Result<usize> {
        if let Some((to, bytes)) = burst.lone(first)
            && Link::<Table>::send_now(self, to, bytes, bytes.len())
        {
            return Ok(1);
        }
        // If it did not go, the long way finds out why.
        self.send_all(burst, first, memory)
    }

    fn send_now(&mut self, to: &Locator, frames: &[u8], stride: usize) -> bool {
        frames.len() <= stride && !self.is_down && self.send_one(to, frames)
    }

    fn receive(&mut self, landing: Option<&Landing>, memory: &mut Table) -> io::Result<usize> {
        Ok(self.receive_some(landing, memory))
    }

    fn arrived(&self, index: usize) -> Arrived<'_> {
        let Arrival { from, len, at } = self.arrivals[index];
        let whole = |bytes| Arrived { from, bytes, stride: len, landed: None };
        match at {
            At::Ring { slot, at } => whole(self.ring.bytes(slot, at..at + len)),
            At::Room { number } => whole(self.queue.room(number, HEADER_LEN..HEADER_LEN + len)),
            At::Place { number, head_len, offset } => Arrived {
                from,
                bytes: self.queue.room(number, HEADER_LEN..HEADER_LEN + head_len),
                stride: head_len,
                landed: Some(Landed { offset, count: 1, last_len: len - head_len }),
            },
            At::Nowhere => unreachable!("what is nowhere is not shown"),
        }
    }

    /// Its ring is in memory.
    fn is_costly_to_ask(&self) -> bool {
        false
    }

    fn lift(&mut self, index: usize, first: usize, memory: &mut Table) {
        let Some(landing) = self.landing.filter(|_| first == 0) else { return };
        let arrival = &mut self.arrivals[index];
        let At::Place { number, head_len, offset } = arrival.at else { return };
        let room = self.queue.room_mut(number, HEADER_LEN + head_len..HEADER_LEN + arrival.len);
        self.counters.lifted_bytes += room.len() as u64;
        if !memory.copy_to(landing.id, offset, room) {
            room.fill(0); // given back meanwhile: the check of the frame, or nobody, will miss it
        }
        arrival.at = At::Room { number };
    }

    fn telling(&mut self) -> Option<&mut dyn Telling<Table>> {
        None
    }

    /// This link sends no trains.
    fn set_trains(&mut self, _: bool) {}

    fn poll_notice(&mut self) -> Option<Notice> {
        self.notices.pop_front()
    }

    fn poll_remark(&mut self) -> Option<String> {
        self.remarks.pop_front()
    }

    /// Slots that are not given back would look like something that arrived, and an error that nobody asks for wakes again and
    /// again.
    fn arm(&mut self) -> bool {
        self.arrivals.clear();
        self.ring.release();
        if self.socket.take_error().is_some_and(is_down_error) {
            self.on_down();
        }
        !self.ring.is_filled()
    }

    fn disarm(&mut self) {}

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }

    fn each_counter(&self, show: &mut dyn FnMut(&'static str, u64)) {
        let c = &self.counters;
        show("calls_out", c.calls_out);
        show("frames_out", c.frames_out);
        show("send_blocked", c.send_blocked);
        show("send_failed", c.send_failed);
        show("void_frames", c.void_frames);
        show("calls_in", c.calls_in);
        show("frames_in", c.frames_in);
        show("long_in", c.long_in);
        show("bytes_in", c.bytes_in);
        show("landed_bytes", c.landed_bytes);
        show("lifted_bytes", c.lifted_bytes);
        show("overflow_drops", c.overflow_drops);
        show("bad_frames", c.bad_frames);
        show("downs", c.downs);
    }
}
