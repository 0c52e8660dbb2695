//! Frames on plain Ethernet by AF_XDP: an interface of our own, used only where it was named.
//!
//! ```text
//!                        program (program.rs): ours? ── no ──▶ the system, as if we were not there
//!   card or veth ──▶ queue n ──┘   └ yes ──▶ socket n ──▶ umem frames ──▶ Arrived
//!                    queue n ◀── transmit ring ◀── umem frames ◀── copied once ── Burst
//! ```
//!
//! A small program in the driver tells our packets from all others and hands them over in memory that we share with the
//! kernel; nothing of the system's own traffic is touched. One link has the interface: a second one, or one that finds a
//! foreign program there, is refused and told whose it is. The program hangs on a descriptor, so it goes when its owner
//! does. Sockets, one for each queue; rings; frames with one owner each (`umem`).
//!
//! Native and zero-copy are tried first, then what is left; [`Xdp::state`] says what was got and why not more.

mod binding;
mod config;
mod handing;
mod kind;
mod opening;
mod owner;
mod program;
mod queue;

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

pub use config::{BusyPoll, Mode, Require, XdpConfig, XdpError, XdpState};
pub use kind::KIND;
pub use opening::XdpParts;
pub use owner::{Owner, missing_capabilities};

use crate::burst::Frame;
use crate::ether::{self, HEADER_LEN, OVERHEAD_LEN, Station};
use crate::mem::Table;
use crate::sys::xdp::{Xsk, any_of};
use crate::umem::{RX_LEN_MAX, Umem};
use crate::{About, Arrived, Burst, Landing, Link, Locator, Notice, Reliability, Telling};
use binding::{Terms, WHOLE_LEN_MAX};
use opening::Plan;
use queue::{Arrival, Arrivals, Lies, Packet, Put, Queue, Stop};

/// Packets that one call receives: as many as a driver takes in one go.
const ARRIVAL_COUNT_MAX: usize = 64;
/// Notices not fetched yet.
const NOTICE_COUNT_MAX: usize = 64;
/// Remarks in its life: what goes on going wrong has been said by then.
const REMARK_COUNT_MAX: usize = 8;

/// What it did so far.
#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    frames_out: u64,
    send_blocked: u64,
    send_failed: u64,
    void_frames: u64,
    frames_in: u64,
    bytes_in: u64,
}

/// A link that has an Ethernet interface.
#[derive(Debug)]
pub struct Xdp {
    about: About,
    state: XdpState,
    station: Station,
    /// Number of the interface.
    index: u32,
    queues: Vec<Queue>,
    /// Of these, so many send.
    tx_queue_count: usize,
    /// Where the next receive begins, so that no queue waits for the others.
    queue_next: usize,
    arrivals: Arrivals,
    /// All sockets, where there are several.
    any: Option<OwnedFd>,
    /// The interface does not send.
    is_down: bool,
    notices: VecDeque<Notice>,
    remarks: VecDeque<String>,
    remark_count: usize,
    counters: Counters,
    /// Keeps the program attached. Last: it goes after the sockets.
    _attachment: OwnedFd,
}

/// Opening.
impl Xdp {
    /// Takes the interface.
    ///
    /// # Errors
    /// [`XdpError`] says who has it, what right is missing, or what else to do.
    pub fn open(config: &XdpConfig) -> Result<Self, XdpError> {
        Self::from_parts(XdpParts::open(config)?)
    }

    /// Makes a link of what this process, or another with more rights, has opened. Needs no rights itself.
    ///
    /// # Errors
    /// [`XdpError::Required`] where zero-copy was required, and whatever the system says.
    pub fn from_parts(parts: XdpParts) -> Result<Self, XdpError> {
        let XdpParts { mut plan, attachment, memory, sockets } = parts;
        let mut queues = Vec::new();
        let mut way = Terms { is_zerocopy: plan.is_native, is_scattered: plan.is_scattered() };
        if !plan.is_native {
            plan.downgrades.push("no zero-copy: generic mode always copies".to_string());
        }
        for (number, fd) in (0_u32..).zip(sockets) {
            let socket = Xsk::from_fd(fd).map_err(|_| XdpError::BadParts {
                reason: format!("descriptor of queue {number} is no AF_XDP socket"),
            })?;
            let rings = socket.map_rings(plan.ring_sizes()).map_err(doing("mapping the rings"))?;
            let offset = u64::from(number) * plan.memory_len();
            let (umem, free) = Umem::new(memory.as_fd(), offset, plan.frame_count(), rings)
                .map_err(doing("mapping memory for frames"))?;
            // The kernel has frames to receive into before packets can come.
            let queue = Queue::new(socket, umem, free, plan.rx_frame_count);
            way = binding::bind(&mut plan, queue.socket(), number, way)?;
            queues.push(queue);
        }
        let any = match queues.len() {
            1 => None,
            _ => Some(any_of(queues.iter().map(|queue| queue.socket().as_fd())))
                .transpose()
                .map_err(doing("joining the sockets"))?,
        };
        // What the sockets say counts, where an early queue had what a later one was refused.
        let is_zerocopy = queues.iter().all(|queue| queue.socket().is_zerocopy().unwrap_or(false));
        Ok(Self {
            about: about(&plan, way),
            state: XdpState {
                interface: plan.interface,
                driver: plan.driver,
                is_native: plan.is_native,
                is_zerocopy,
                is_busy_polled: plan.is_busy_polled,
                queue_count: queues.len(),
                downgrades: plan.downgrades,
            },
            station: plan.station,
            index: plan.index,
            tx_queue_count: (plan.tx_queue_count as usize).clamp(1, queues.len()),
            queues,
            queue_next: 0,
            arrivals: Arrivals::default(),
            any,
            is_down: false,
            notices: VecDeque::new(),
            remarks: VecDeque::new(),
            remark_count: 0,
            counters: Counters::default(),
            _attachment: attachment,
        })
    }

    /// What was got.
    pub fn state(&self) -> &XdpState {
        &self.state
    }
}

fn doing(doing: &'static str) -> impl Fn(io::Error) -> XdpError {
    move |error| XdpError::System { doing, error }
}

fn about(plan: &Plan, way: Terms) -> About {
    let is_whole = plan.is_scattered() && !way.is_scattered;
    let len_max = if is_whole { WHOLE_LEN_MAX } else { usize::from(u16::MAX) };
    let frame_len_max = plan.mtu.saturating_sub(OVERHEAD_LEN).min(len_max);
    // The worst is that all arrives in one queue, one packet to a frame or to several.
    let piece_count = (frame_len_max + HEADER_LEN).div_ceil(RX_LEN_MAX);
    let waiting_count = plan.rx_frame_count as usize / piece_count;
    About {
        kind: KIND.name,
        frame_len_max,
        train_len_max: 0,
        train_count_max: 0,
        reliability: Reliability::Lossy,
        is_checked: true, // by Ethernet
        is_private: false,
        can_land: false,
        backlog_len_max: (waiting_count * frame_len_max) as u64,
    }
}

/// Sending.
impl Xdp {
    /// Puts a frame into the ring of the queue for its peer.
    #[inline]
    fn put(&mut self, burst: &Burst, frame: &Frame, memory: &Table) -> (usize, Put) {
        let Some(to) = ether::one_at(&frame.to) else { return (0, Put::Void) };
        let queue = self.queue_to(&to);
        let len = frame.len as usize;
        if len > self.about.frame_len_max {
            let notice = Notice::TooLong { to: frame.to, frame_len_max: self.about.frame_len_max };
            self.notice(notice);
            return (queue, Put::Void);
        }
        let header = &ether::header(&to, &self.station, len);
        let packet = Packet { header, burst, frame };
        (queue, self.queues[queue].put(packet, memory))
    }

    /// The lone frame is the one somebody waits for: nothing is set up for it. False if it must go the long way.
    #[inline]
    fn send_one(&mut self, to: &Locator, bytes: &[u8]) -> bool {
        let Some(to) = ether::one_at(to) else { return false };
        if bytes.len() > self.about.frame_len_max {
            return false;
        }
        let queue = self.queue_to(&to);
        let header = ether::header(&to, &self.station, bytes.len());
        let is_put = self.queues[queue].put_lone(&header, bytes);
        if is_put {
            self.counters.frames_out += 1;
            self.flush(queue);
        }
        is_put
    }

    /// One queue for each peer, so that frames to it keep their order.
    #[inline]
    fn queue_to(&self, to: &Station) -> usize {
        match self.tx_queue_count {
            1 => 0,
            count => to.endpoint as usize % count,
        }
    }

    fn send_all(&mut self, burst: &Burst, first: usize, memory: &Table) -> usize {
        let mut taken = 0;
        for queue in &mut self.queues[..self.tx_queue_count] {
            queue.reap();
        }
        for frame in burst.frames(first) {
            let (queue, mut put) = self.put(burst, &frame, memory);
            if put == Put::Full {
                self.flush(queue);
                self.queues[queue].reap();
                put = self.put(burst, &frame, memory).1;
            }
            match put {
                Put::Done => self.counters.frames_out += 1,
                Put::Void => self.counters.void_frames += 1,
                // An interface that is down may be so for long: what is for it is lost, and others are not held up.
                Put::Full if self.is_down => self.counters.send_failed += 1,
                Put::Full => {
                    self.counters.send_blocked += 1;
                    break;
                }
            }
            taken += 1;
        }
        self.flush_all();
        taken
    }

    fn flush_all(&mut self) {
        for queue in 0..self.tx_queue_count {
            self.flush(queue);
        }
    }

    /// Has the kernel send.
    #[inline]
    fn flush(&mut self, queue: usize) {
        match self.queues[queue].flush() {
            Ok(false) => {}
            Ok(true) => self.is_down = false,
            Err(stop) => self.on_stop(&stop),
        }
    }

    #[cold]
    fn on_stop(&mut self, stop: &Stop) {
        let was_down = std::mem::replace(&mut self.is_down, !matches!(stop, Stop::Busy));
        let interface = self.state.interface.clone();
        match stop {
            Stop::Down if !was_down => {
                self.say(|| format!("{interface} is down: frames to it are lost until it is up"));
            }
            Stop::Dead(error) if !was_down => {
                self.say(|| format!("{interface} sends no more: {error}"));
            }
            _ => {}
        }
    }

    fn notice(&mut self, notice: Notice) {
        if self.notices.len() < NOTICE_COUNT_MAX && self.notices.back() != Some(&notice) {
            self.notices.push_back(notice);
        }
    }

    fn say(&mut self, remark: impl FnOnce() -> String) {
        if self.remark_count < REMARK_COUNT_MAX {
            self.remark_count += 1;
            self.remarks.push_back(remark());
        }
    }
}

/// Receiving.
impl Xdp {
    /// Takes what is in the queues, as far as there is room for it.
    #[inline]
    fn take(&mut self) {
        let (to, out) = (self.station.endpoint, &mut self.arrivals);
        if let [queue] = &mut self.queues[..] {
            return queue.receive(to, 0, ARRIVAL_COUNT_MAX, out);
        }
        for number in (self.queue_next..self.queues.len()).chain(0..self.queue_next) {
            self.queues[number].receive(to, number as u32, ARRIVAL_COUNT_MAX, out);
        }
    }

    /// Nothing arrived: has the kernel look, if it must be asked.
    #[inline]
    fn look(&mut self) {
        let is_busy_polled = self.state.is_busy_polled;
        for queue in &mut self.queues {
            queue.look(is_busy_polled);
        }
        if is_busy_polled {
            self.take();
        }
    }

    #[inline]
    fn count_arrivals(&mut self) -> usize {
        let list = &self.arrivals.list;
        self.counters.frames_in += list.len() as u64;
        self.counters.bytes_in += list.iter().map(|arrival| u64::from(arrival.len)).sum::<u64>();
        list.len()
    }
}

impl Link<Table> for Xdp {
    fn about(&self) -> &About {
        &self.about
    }

    fn locator(&self) -> Locator {
        ether::to_locator(&self.station)
    }

    /// Not ourselves: a card does not receive what it sends.
    fn may_reach(&mut self, to: &Locator) -> bool {
        ether::one_at(to).is_some_and(|to| to.mac != self.station.mac)
    }

    fn frame_len_to(&mut self, _: &Locator) -> usize {
        self.about.frame_len_max
    }

    fn card_to(&mut self, _: &Locator) -> u32 {
        self.index
    }

    fn send(&mut self, burst: &Burst, first: usize, memory: &mut Table) -> io::Result<usize> {
        if let Some((to, bytes)) = burst.lone(first)
            && self.send_one(to, bytes)
        {
            return Ok(1);
        }
        Ok(self.send_all(burst, first, memory))
    }

    fn send_now(&mut self, to: &Locator, frames: &[u8], stride: usize) -> bool {
        frames.len() <= stride && self.send_one(to, frames)
    }

    fn receive(&mut self, _: Option<&Landing>, _: &mut Table) -> io::Result<usize> {
        self.arrivals.list.clear();
        self.arrivals.joined.clear();
        let mut is_owed = false;
        for queue in &mut self.queues {
            queue.recycle();
            is_owed |= queue.is_owed();
        }
        if is_owed {
            self.flush_all(); // what the kernel was not done with
        }
        self.take();
        if self.arrivals.list.is_empty() {
            self.look();
        }
        if self.queues.len() > 1 {
            self.queue_next = (self.queue_next + 1) % self.queues.len();
        }
        Ok(self.count_arrivals())
    }

    #[inline]
    fn arrived(&self, index: usize) -> Arrived<'_> {
        let Arrival { from, place, len } = self.arrivals.list[index];
        let len = len as usize;
        let bytes = match place {
            Lies::Held { queue, index } => self.queues[queue as usize].bytes(index, len),
            Lies::Joined { start } => &self.arrivals.joined[start as usize..][..len],
        };
        Arrived { from: ether::to_locator(&from), bytes, stride: len, landed: None }
    }

    /// Its rings are in memory.
    fn is_costly_to_ask(&self) -> bool {
        false
    }

    /// Nothing lands.
    fn lift(&mut self, _: usize, _: usize, _: &mut Table) {}

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

    /// A socket always tells.
    fn arm(&mut self) -> bool {
        true
    }

    fn disarm(&mut self) {}

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        match &self.any {
            Some(any) => Some(any.as_fd()),
            None => self.queues.first().map(|queue| queue.socket().as_fd()),
        }
    }

    fn each_counter(&self, show: &mut dyn FnMut(&'static str, u64)) {
        let c = &self.counters;
        show("calls_out", self.queues.iter().map(Queue::calls_out).sum());
        show("frames_out", c.frames_out);
        show("send_blocked", c.send_blocked);
        show("send_failed", c.send_failed);
        show("void_frames", c.void_frames);
        show("frames_in", c.frames_in);
        show("bytes_in", c.bytes_in);
        show("joined_in", self.queues.iter().map(Queue::joined_count).sum());
        show("void_in", self.arrivals.void_count);
        show("bad_descriptors", self.queues.iter().map(Queue::bad_count).sum());
        let kernel = self.queues.iter().filter_map(|queue| queue.socket().statistics().ok());
        let kernel: Vec<_> = kernel.collect();
        show("kernel_rx_dropped", kernel.iter().map(|k| k.rx_dropped).sum());
        show("kernel_rx_ring_full", kernel.iter().map(|k| k.rx_ring_full).sum());
        show("kernel_fill_empty", kernel.iter().map(|k| k.fill_empty).sum());
        show("kernel_invalid", kernel.iter().map(|k| k.rx_invalid + k.tx_invalid).sum());
    }
}
