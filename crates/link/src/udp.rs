//! Frames as UDP datagrams: anywhere, without rights.
//!
//! ```text
//!   Burst ─▶ outbox ─ sendmmsg, trains by UDP_SEGMENT ─▶ … ─▶ recvmmsg, trains by UDP_GRO ─▶ inbox ─▶ Arrived
//!                                                             └ payload scattered to its place (landing.rs)
//! ```
//!
//! One socket. What stands next to each other in a burst, goes to the same place and has the same length leaves as a
//! train, which costs one pass through the kernel; the kernel at the other end may hand it over as it was sent, or put
//! together again what arrived apart. Neither is assumed: both are probed, and what a path does not take is noticed.
//! Nothing is fragmented: what is too long for its way comes back as a [`Notice`].
//!
//! The memory that frames arrive in is the link's; it is as large as the longest datagram for each that one call can
//! receive, and exists once it is touched.

mod config;
mod kind;
mod landing;
pub(crate) mod locate;
pub(crate) mod opening;
pub(crate) mod reach;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

pub use config::{UdpConfig, UdpError, Use};
pub use kind::KIND;
pub use locate::{from_locator, to_locator};

use crate::mem::{MemoryId, Table};
use crate::sys::inbox::{Inbox, SLOT_COUNT_MAX};
use crate::sys::outbox::{Outbox, Refused, Rules};
use crate::sys::socket::Socket;
use crate::{
    About, Arrived, Burst, Cause, Landing, Link, Locator, Notice, Reliability, Telling, show,
};
use landing::Arrival;
use opening::{Opened, TRAIN_LEN_MAX};
use reach::{Reach, cause_of, is_unreachable};

/// Notices not fetched yet; a peer that is not there must not fill memory.
const NOTICE_COUNT_MAX: usize = 64;
/// Remarks in its life: what goes on going wrong has been said by then.
const REMARK_COUNT_MAX: usize = 32;
/// Ways whose longest frame is remembered.
const WAY_COUNT_MAX: usize = 64;
/// Bytes that one call receives at most, roughly: more would leave the cache before they are read.
const CALL_LEN_MAX: usize = 1 << 18;
/// Single datagrams shorter than this say nothing about how bulk data arrives: acknowledgements come so too.
const BULK_LEN_MIN: usize = 1024;
/// Asking for more than one datagram costs a second look at an empty queue. Where that found nothing, so many calls do without; and one call
/// for a single datagram that finds it says nothing of more to come: an answer, or a train, mostly comes alone.
const LONE_COUNT: usize = 8;
/// Behind bytes that landed so many calls ask for one datagram at a time: what follows an announcement lands only if the announcement was
/// read before.
const LANDED_COUNT: usize = 64;
/// So many in a row say that bulk data does not come in trains: a train of one frame comes as a single datagram too, and so do
/// announcements, of which many may come at once.
const SINGLE_COUNT_MIN: usize = 64;
/// Errors of earlier datagrams are reported by later calls; so often a call is repeated for them.
const RETRY_COUNT_MAX: usize = 8;
/// The longest UDP datagram.
const DATAGRAM_LEN_MAX: usize = 65_535;

/// What it did so far.
#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    calls_out: u64,
    frames_out: u64,
    trains_out: u64,
    send_blocked: u64,
    send_failed: u64,
    void_frames: u64,
    gso_off: u64,
    calls_in: u64,
    datagrams_in: u64,
    trains_in: u64,
    bytes_in: u64,
    landed_bytes: u64,
    lifted_bytes: u64,
    overflow_drops: u64,
    troubles: u64,
}

/// What arrived lately: what is expected next.
#[derive(Clone, Copy, Debug, Default)]
struct Recent {
    /// Datagrams of the last call, and of the one before.
    count: usize,
    count_before: usize,
    /// The longest of the last call.
    len_max: usize,
    /// Calls that shall ask for one datagram only, for another was not there...
    lone_left: usize,
    /// ... and those that shall for bytes landed before.
    landed_left: usize,
    /// Bulk data comes in trains.
    is_train: bool,
    /// Frames of bulk data that came alone since the last train.
    single_count: usize,
}

impl Recent {
    /// Whether one datagram at most is expected.
    #[inline]
    fn is_lone(&self) -> bool {
        self.count == 0
            || self.lone_left > 0
            || (self.count == 1 && self.count_before == 0)
            || (self.is_train && self.landed_left > 0)
    }

    /// A call for so many datagrams got so many.
    #[inline]
    fn on_call(&mut self, slot_count: usize, count: usize) {
        self.lone_left = match (slot_count, count) {
            (2.., 1) => LONE_COUNT,
            _ => self.lone_left.saturating_sub(1),
        };
        self.landed_left = self.landed_left.saturating_sub(count.min(1));
        self.count_before = std::mem::replace(&mut self.count, count);
    }
}

/// A link over one UDP socket.
#[derive(Debug)]
pub struct Udp {
    socket: Socket,
    about: About,
    locator: Locator,
    reach: Reach,
    /// Segments the system takes in a train; 0 once a path refused them.
    train_count_max: usize,
    /// Trains out are wanted.
    wants_trains: bool,
    buffer_lens: (usize, usize),
    backlog: Backlog,
    outbox: Outbox,
    inbox: Inbox,
    arrivals: Vec<Arrival>,
    landing: Option<Landing>,
    /// Memory that was not there when something was to land in it: datagrams are lost by that, whosever they are.
    shunned: Option<MemoryId>,
    recent: Recent,
    ways: Vec<(Locator, usize)>,
    way_next: usize,
    notices: VecDeque<Notice>,
    remarks: VecDeque<String>,
    remark_count: usize,
    counters: Counters,
    dropped_last: u32,
}

/// Bytes of frames that can wait in the socket, by how they arrive.
///
/// The kernel charges a datagram with the memory it occupies, not with its length: 2304 for 1472, 16640 for 8972, where
/// the sender's side allocated it. A train shares its overhead. It gives room back only when a quarter of the buffer
/// was read or nothing waits any more (`udp_rmem_release`), so three quarters count here.
#[derive(Clone, Copy, Debug)]
struct Backlog {
    single: u64,
    train: u64,
}

impl Backlog {
    /// The worst of usual frames and the longest, as measured (`opening::charge_of`).
    fn measure(opened: &Opened) -> Self {
        let room = (opened.receive_buffer_len / 4 * 3) as u64;
        let holds = |len: usize, count: usize| -> u64 {
            let charged = opening::charge_of(len, count).unwrap_or(2 * len * count + 1024);
            (room * (len * count) as u64) / charged.max(len * count) as u64
        };
        let len_max = opened.frame_len_max;
        let usual_len = len_max.min(1472);
        let lens = [usual_len, len_max.min(8972), len_max];
        let single = lens.into_iter().map(|len| holds(len, 1)).min().unwrap_or(0);
        let count = (TRAIN_LEN_MAX / usual_len).clamp(1, 44);
        let train = if opened.is_gro { holds(usual_len, count) } else { single };
        Self { single, train: train.max(single) }
    }
}

impl Udp {
    /// Opens a socket of its own.
    ///
    /// # Errors
    /// [`UdpError`] names address and port, and what to do.
    pub fn open(config: &UdpConfig) -> Result<Self, UdpError> {
        Self::new(opening::open(config)?)
    }

    /// Takes a bound UDP socket that somebody else opened. Of the config, address and ports are not used.
    ///
    /// # Errors
    /// As for [`Udp::open`].
    pub fn from_fd(fd: OwnedFd, config: &UdpConfig) -> Result<Self, UdpError> {
        Self::new(opening::open_fd(fd, config)?)
    }

    fn new(opened: Opened) -> Result<Self, UdpError> {
        let inbox = Inbox::new()
            .map_err(|error| UdpError::System { doing: "getting memory for frames", error })?;
        let backlog = Backlog::measure(&opened);
        let about = About {
            kind: KIND.name,
            frame_len_max: opened.frame_len_max,
            train_len_max: 0,
            train_count_max: 0,
            reliability: Reliability::Lossy,
            is_checked: true,
            is_private: false,
            can_land: true,
            backlog_len_max: backlog.single,
        };
        let mut udp = Self {
            locator: to_locator(opening::usable_addr(opened.bound)),
            reach: Reach::new(from_locator, &opened.socket, opened.bound, opened.interface),
            socket: opened.socket,
            about,
            train_count_max: opened.train_count_max,
            wants_trains: true,
            buffer_lens: (opened.receive_buffer_len, opened.send_buffer_len),
            backlog,
            outbox: Outbox::new(),
            inbox,
            arrivals: Vec::with_capacity(2 * SLOT_COUNT_MAX),
            landing: None,
            shunned: None,
            recent: Recent { is_train: opened.is_gro, ..Recent::default() },
            ways: Vec::new(),
            way_next: 0,
            notices: VecDeque::new(),
            remarks: VecDeque::new(),
            remark_count: 0,
            counters: Counters::default(),
            dropped_last: 0,
        };
        udp.set_trains(true);
        Ok(udp)
    }

    /// Whether trains are sent, where the system knows them: a path may lose them without saying so.
    pub fn set_trains(&mut self, is_on: bool) {
        self.wants_trains = is_on;
        let is_on = is_on && self.train_count_max > 1;
        self.about.train_count_max = if is_on { self.train_count_max } else { 0 };
        self.about.train_len_max = if is_on { TRAIN_LEN_MAX } else { 0 };
    }

    /// Receive and send buffer, in bytes as the kernel keeps account of them: about twice what was asked for, less where
    /// the system's limit (`net.core.rmem_max`, `wmem_max`) is lower.
    pub fn buffer_lens(&self) -> (usize, usize) {
        self.buffer_lens
    }

    /// Bytes of full-size frames that the socket holds if each comes alone, and if they come in trains.
    /// `about().backlog_len_max` is the one that fits what came lately; at first, the smaller.
    pub fn backlog_lens(&self) -> (u64, u64) {
        (self.backlog.single, self.backlog.train)
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

    /// Reads the error queue. Errors of this host itself were told to the call that caused them.
    fn read_troubles(&mut self) {
        for _ in 0..NOTICE_COUNT_MAX {
            let Some(trouble) = self.socket.next_trouble() else { return };
            self.counters.troubles += 1;
            let Some(addr) = trouble.to.filter(|_| !trouble.is_local) else { continue };
            let to = to_locator(addr);
            match trouble.errno {
                libc::EMSGSIZE => {
                    let len = opening::frame_len_of(trouble.info, addr.is_ipv6());
                    self.learn_way(to, len);
                    self.notice(Notice::TooLong { to, frame_len_max: len });
                }
                errno if is_unreachable(errno) => {
                    let cause = cause_of(errno, trouble.is_of_place, trouble.quote);
                    self.notice(Notice::Unreachable { to, cause });
                }
                _ => {}
            }
        }
    }

    fn learn_way(&mut self, to: Locator, len: usize) {
        let len = len.min(self.about.frame_len_max);
        if let Some(way) = self.ways.iter_mut().find(|way| way.0 == to) {
            way.1 = len;
        } else if self.ways.len() < WAY_COUNT_MAX {
            self.ways.push((to, len));
        } else {
            self.ways[self.way_next] = (to, len);
            self.way_next = (self.way_next + 1) % WAY_COUNT_MAX;
        }
    }
}

/// What to do about a message that did not go.
enum Verdict {
    /// Send it again.
    Again,
    /// Send it again without a train, to learn whether the train was the reason.
    Apart,
    /// These frames are lost.
    Lost(usize),
    /// Not now.
    Later,
}

/// Sending.
impl Udp {
    fn send_all(&mut self, burst: &Burst, first: usize, memory: &Table) -> io::Result<usize> {
        let count = burst.len();
        let span = self.reach.span;
        let (mut at, mut retry_count, mut apart) = (first, 0, None);
        while at < count {
            let count_max = if apart.is_some() { 1 } else { self.about.train_count_max };
            let rules = Rules { count_max, len_max: self.about.train_len_max };
            let place = |locator: &Locator| span.place_of(locator);
            let sent = self.outbox.send(&self.socket, burst, at, memory, rules, place);
            self.counters.calls_out += u64::from(sent.is_called);
            self.counters.frames_out += sent.frame_count as u64;
            self.counters.trains_out += sent.train_count as u64;
            self.counters.void_frames += sent.void_count as u64;
            at += sent.frame_count;
            let Some(refused) = sent.refused else {
                // Memory that is not there is one frame's fault, and no train's.
                if apart.is_some_and(|errno| errno != libc::EFAULT) && self.train_count_max > 0 {
                    self.give_up_trains(burst, at);
                }
                (retry_count, apart) = (0, None);
                continue;
            };
            retry_count += 1;
            match self.judge(burst, at, &refused, retry_count)? {
                Verdict::Again => {}
                Verdict::Apart => apart = Some(refused.errno),
                Verdict::Lost(count) => {
                    self.counters.send_failed += count as u64;
                    (at, retry_count, apart) = (at + count, 0, None);
                }
                Verdict::Later => {
                    self.counters.send_blocked += 1;
                    break;
                }
            }
        }
        Ok(at - first)
    }

    /// A message was refused. Frame number `at` of the burst is its first.
    fn judge(
        &mut self,
        burst: &Burst,
        at: usize,
        refused: &Refused,
        retry_count: usize,
    ) -> io::Result<Verdict> {
        let (frame, lost) = (burst.frame(at), Verdict::Lost(refused.frame_count));
        let is_train = refused.frame_count > 1;
        Ok(match refused.errno {
            libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM => Verdict::Later,
            libc::EINTR => Verdict::Again,
            libc::EIO | libc::EINVAL | libc::EFAULT if is_train => Verdict::Apart,
            libc::EMSGSIZE => {
                self.on_too_long(frame.to, frame.len as usize);
                lost
            }
            libc::EDESTADDRREQ => {
                self.notice(Notice::Unreachable { to: frame.to, cause: Cause::Void });
                self.say(|| format!("{} is no place this socket can send to", show(&frame.to)));
                lost
            }
            // May be the answer to an earlier datagram, elsewhere: then this one was not even tried.
            errno if is_unreachable(errno) && retry_count <= RETRY_COUNT_MAX => {
                let before = self.counters.troubles;
                self.read_troubles();
                if retry_count > 1 && self.counters.troubles == before {
                    self.notice(Notice::Unreachable { to: frame.to, cause: Cause::Here });
                    return Ok(lost);
                }
                Verdict::Again
            }
            libc::EBADF | libc::ENOTSOCK => {
                return Err(io::Error::from_raw_os_error(refused.errno));
            }
            errno => {
                let error = io::Error::from_raw_os_error(errno);
                self.say(|| format!("a frame to {} was not sent: {error}", show(&frame.to)));
                lost
            }
        })
    }

    /// What the system knows of the way there now.
    fn frame_len_known(&self, to: &Locator) -> Option<usize> {
        self.reach.frame_len_to(self.reach.span.place_of(to)?)
    }

    fn on_too_long(&mut self, to: Locator, len: usize) {
        self.read_troubles(); // the same is told there, and would keep the socket readable
        let known = self.frame_len_known(&to);
        let frame_len_max = known.unwrap_or(len).min(len.saturating_sub(1));
        self.learn_way(to, frame_len_max);
        self.notice(Notice::TooLong { to, frame_len_max });
    }

    /// A train was refused and its first frame alone was not. Frame number `at` is the one behind it.
    fn give_up_trains(&mut self, burst: &Burst, at: usize) {
        let to = burst.frame(at - 1).to;
        self.train_count_max = 0;
        self.set_trains(self.wants_trains);
        self.counters.gso_off += 1;
        self.say(|| format!("trains are off: the way to {} does not take them", show(&to)));
    }
}

/// Receiving.
impl Udp {
    /// How many slots to use, and how many frames are expected in each.
    fn plan(&self, landing: Option<&Landing>) -> (usize, usize) {
        let Recent { count, len_max, is_train, .. } = self.recent;
        let more = if self.recent.is_lone() { 1 } else { (count * 4).min(SLOT_COUNT_MAX) };
        let slots_of = |len: usize| more.min((CALL_LEN_MAX / len.max(1)).max(1));
        let Some(landing) = landing else { return (slots_of(len_max), 0) };
        let frame_len = landing.head_len + landing.payload_len;
        if is_train {
            // Where the next train ends is not known, so nothing expected in a second slot would be right.
            (1, DATAGRAM_LEN_MAX / frame_len)
        } else {
            (slots_of(frame_len), 1)
        }
    }

    fn receive_some(&mut self, landing: Option<&Landing>, memory: &mut Table) -> io::Result<usize> {
        self.arrivals.clear();
        let landing = landing.filter(|landing| {
            landing.head_len > 0
                && landing.payload_len > 0
                && landing.head_len + landing.payload_len <= DATAGRAM_LEN_MAX
                && self.shunned != Some(landing.id)
        });
        self.landing = landing.copied();
        let (slot_count, per_slot) = self.plan(landing);
        let expected = landing.map(|landing| (landing, per_slot));
        self.counters.calls_in += 1;
        let count = match self.inbox.receive(&self.socket, slot_count, expected, memory) {
            Ok(count) => count,
            Err(libc::EAGAIN) => {
                self.recent.on_call(slot_count, 0);
                return Ok(0);
            }
            Err(errno) => self.receive_again(errno, slot_count, expected, memory)?,
        };
        self.recent.on_call(slot_count, count);
        self.recent.len_max = 0;
        if landing.is_some() {
            memory.note_written();
        }
        for slot in 0..count {
            self.take(slot, memory);
        }
        Ok(self.arrivals.len())
    }

    /// A call was refused: that may be the answer to a datagram sent before, and says nothing of what has come.
    #[cold]
    fn receive_again(
        &mut self,
        mut errno: i32,
        slot_count: usize,
        mut expected: Option<(&Landing, usize)>,
        memory: &mut Table,
    ) -> io::Result<usize> {
        for _ in 0..RETRY_COUNT_MAX {
            match errno {
                libc::EAGAIN => return Ok(0),
                libc::EINTR | libc::EMSGSIZE | libc::EPROTO => {}
                libc::EFAULT if expected.is_some() => {
                    self.shunned = expected.map(|(landing, _)| landing.id);
                    (self.landing, expected) = (None, None);
                }
                errno if is_unreachable(errno) => {}
                errno => return Err(io::Error::from_raw_os_error(errno)),
            }
            self.read_troubles();
            self.counters.calls_in += 1;
            errno = match self.inbox.receive(&self.socket, slot_count, expected, memory) {
                Ok(count) => return Ok(count),
                Err(errno) => errno,
            };
        }
        Ok(0)
    }

    fn take(&mut self, slot: usize, memory: &Table) {
        let datagram = self.inbox.datagram(slot);
        self.counters.datagrams_in += 1;
        self.counters.bytes_in += datagram.len as u64;
        if let Some(dropped) = datagram.dropped {
            let more = dropped.wrapping_sub(self.dropped_last);
            self.counters.overflow_drops += u64::from(more);
            self.dropped_last = dropped;
        }
        self.remember(datagram.len, datagram.segment_len);
        let Some(addr) = datagram.from.to_addr().filter(|_| datagram.len > 0) else { return };
        let from = to_locator(addr);
        let expected_count = self.inbox.expected(slot).count;
        let Some(landing) = self.landing.filter(|_| expected_count > 0) else {
            let at = Inbox::spill_of(slot).start;
            let stride = datagram.segment_len.unwrap_or(datagram.len);
            self.arrivals.push(Arrival::plain(from, slot, at..at + datagram.len, stride));
            return;
        };
        let (inbox, arrivals) = (&mut self.inbox, &mut self.arrivals);
        let sorted = landing::sort_out(slot, &datagram, from, &landing, inbox, memory, arrivals);
        if sorted.landed_len > 0 {
            self.recent.landed_left = LANDED_COUNT;
        }
        self.counters.landed_bytes += sorted.landed_len as u64;
        self.counters.lifted_bytes += sorted.lifted_len as u64;
    }

    /// Learns from a datagram how the next ones may look.
    fn remember(&mut self, len: usize, segment_len: Option<usize>) {
        self.recent.len_max = self.recent.len_max.max(len);
        match segment_len {
            Some(_) => {
                self.counters.trains_in += 1;
                self.recent.is_train = true;
                self.recent.single_count = 0;
                self.about.backlog_len_max = self.backlog.train;
            }
            None if len >= BULK_LEN_MIN => {
                self.recent.single_count += 1;
                if self.recent.single_count >= SINGLE_COUNT_MIN {
                    self.recent.is_train = false;
                    self.about.backlog_len_max = self.backlog.single;
                }
            }
            None => {}
        }
    }
}

impl Link<Table> for Udp {
    fn about(&self) -> &About {
        &self.about
    }

    fn locator(&self) -> Locator {
        self.locator
    }

    fn is_costly_to_ask(&self) -> bool {
        true
    }

    fn may_reach(&mut self, to: &Locator) -> bool {
        self.reach.may_reach(to)
    }

    fn frame_len_to(&mut self, to: &Locator) -> usize {
        if let Some(way) = self.ways.iter().find(|way| way.0 == *to) {
            return way.1;
        }
        let known = self.frame_len_known(to);
        let len = known.unwrap_or(self.about.frame_len_max).min(self.about.frame_len_max);
        self.learn_way(*to, len);
        len
    }

    fn card_to(&mut self, to: &Locator) -> u32 {
        self.reach.card_to(to)
    }

    fn send(&mut self, burst: &Burst, first: usize, memory: &mut Table) -> io::Result<usize> {
        // The lone frame is the one somebody waits for.
        if let Some((to, bytes)) = burst.lone(first)
            && self.send_now(to, bytes, bytes.len())
        {
            return Ok(1);
        }
        // If it did not go, the long way finds out why.
        self.send_all(burst, first, memory)
    }

    fn send_now(&mut self, to: &Locator, frames: &[u8], stride: usize) -> bool {
        let Some(addr) = self.reach.span.place_of(to) else { return false };
        let is_lone = frames.len() <= stride;
        let count = if is_lone { 1 } else { frames.len().div_ceil(stride) };
        if count > self.about.train_count_max.max(1)
            || !is_lone && frames.len() > self.about.train_len_max
        {
            return false;
        }
        self.counters.calls_out += 1;
        let sent = match is_lone {
            true => self.socket.send_to(frames, addr),
            false => self.socket.send_train_to(frames, stride as u16, addr),
        };
        match sent {
            Ok(_) => {
                self.counters.frames_out += count as u64;
                self.counters.trains_out += u64::from(!is_lone);
                return true;
            }
            // Told once, perhaps of an earlier frame: what more there is to it stands in the error queue.
            Err(error) if error.raw_os_error().is_some_and(is_unreachable) => self.read_troubles(),
            Err(_) => {}
        }
        false
    }

    fn receive(&mut self, landing: Option<&Landing>, memory: &mut Table) -> io::Result<usize> {
        self.receive_some(landing, memory)
    }

    fn arrived(&self, index: usize) -> Arrived<'_> {
        self.arrivals[index].show(&self.inbox)
    }

    fn lift(&mut self, index: usize, first: usize, memory: &mut Table) {
        let Some(landing) = self.landing else { return };
        let arrival = &mut self.arrivals[index];
        let lifted = landing::lift(arrival, first, &landing, &mut self.inbox, memory);
        self.counters.lifted_bytes += lifted as u64;
    }

    fn telling(&mut self) -> Option<&mut dyn Telling<Table>> {
        None
    }

    fn set_trains(&mut self, is_on: bool) {
        Self::set_trains(self, is_on);
    }

    fn poll_notice(&mut self) -> Option<Notice> {
        self.notices.pop_front()
    }

    fn poll_remark(&mut self) -> Option<String> {
        self.remarks.pop_front()
    }

    /// A socket always tells.
    fn arm(&mut self) -> bool {
        true
    }

    fn disarm(&mut self) {}

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }

    fn each_counter(&self, show: &mut dyn FnMut(&'static str, u64)) {
        let c = &self.counters;
        show("calls_out", c.calls_out);
        show("frames_out", c.frames_out);
        show("trains_out", c.trains_out);
        show("send_blocked", c.send_blocked);
        show("send_failed", c.send_failed);
        show("void_frames", c.void_frames);
        show("gso_off", c.gso_off);
        show("calls_in", c.calls_in);
        show("datagrams_in", c.datagrams_in);
        show("trains_in", c.trains_in);
        show("bytes_in", c.bytes_in);
        show("landed_bytes", c.landed_bytes);
        show("lifted_bytes", c.lifted_bytes);
        show("overflow_drops", c.overflow_drops);
        show("troubles", c.troubles);
    }
}
