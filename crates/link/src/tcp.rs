//! Frames as records of TCP streams: for bulk.
//!
//! ```text
//!   Burst ─▶ outgoing ─ sendmsg: length, head, payload from its place ─▶ … ─▶ recvmsg ─▶ incoming ─▶ Arrived
//!            one stream to each place             └ payload scattered to its place (reading.rs)
//!
//!   stream:  greeting (32 bytes: what this is, who opened it) │ length (u32, little-endian) frame │ length frame │ …
//! ```
//!
//! A frame may be sixty thousand bytes long, so a megabyte has 17 heads where UDP needs 720; the kernel and its interface cut it into
//! packets, and nothing of it is lost while the stream lives. When a stream breaks, what was in it is lost frames, which the
//! protocol sends again: by a new stream.
//!
//! Each stream is used in one direction. Frames to a place leave only by a stream that we connected to that place ourselves; from streams
//! that others opened we only read. So nobody can make us send to him what is for another, by claiming to be that other. And as who opened
//! a stream is believed about his port only, not about his address, nobody's frames seem to come from another host. That the
//! frames themselves are genuine is the protocol's business.
//!
//! Nothing here waits. What there is for streams is told by one epoll descriptor; asking it costs a system call, and so does
//! reading: so the stream that brought something last is read without asking, as long as it goes on doing so.

mod config;
mod greeting;
mod incoming;
mod key;
mod kind;
mod locate;
mod opening;
mod outgoing;
mod reading;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};

pub use config::{TcpConfig, TcpError};
pub use kind::KIND;
pub use locate::{from_locator, to_locator};

use crate::mem::Table;
use crate::sys::poll::{Event, Poll};
use crate::udp::opening::{doing, usable_addr};
use crate::udp::reach::Reach;
use crate::{
    About, Arrived, Burst, Cause, Landing, Link, Locator, Notice, Reliability, Telling, show,
};
use incoming::Incoming;
use key::Key;
use outgoing::{Outgoing, WAITING_LEN_MAX};
use reading::{Intake, Outcome};

/// The longest frame: the protocol counts the bytes of one in 16 bits.
pub const FRAME_LEN_MAX: usize = 63_000;
/// Frames that are worth being sent together: those of one call (`sys/stream_out`). Between two trains the engine can look at what came.
const TRAIN_COUNT_MAX: usize = 2;
/// Notices not fetched yet; a peer that is not there must not fill memory.
const NOTICE_COUNT_MAX: usize = 64;
/// Descriptors of which something is told in one call. Those left out are told first next time, so all have their turn.
const EVENT_COUNT_MAX: usize = 4;
/// While one stream is read without asking, what else there is is asked for every so many calls.
const ASK_EVERY: u64 = 4;
/// While there is no stream to read from, it is asked every so many calls whether somebody opens one: beside a link that carries
/// everything a question would cost more than it could bring.
const LISTEN_EVERY: u64 = 64;
/// A stream that brought nothing in so many calls is not read without asking.
const SILENT_COUNT_MAX: u64 = 64;
/// A read of more bytes than this is bulk data: what lands next is expected on the same stream.
const BULK_LEN_MIN: usize = 1024;

/// Remarks in its life: a network that breaks streams again and again has been described by then.
const REMARK_COUNT_MAX: usize = 32;

const _: () = assert!(FRAME_LEN_MAX <= u16::MAX as usize);

/// What it did so far.
#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    calls_out: u64,
    frames_out: u64,
    bytes_out: u64,
    lost_frames: u64,
    lost_bytes: u64,
    calls_in: u64,
    frames_in: u64,
    bytes_in: u64,
    landed_bytes: u64,
    lifted_bytes: u64,
    streams_opened: u64,
    streams_accepted: u64,
    streams_broken: u64,
    streams_closed: u64,
    strangers: u64,
}

/// A link over TCP streams.
#[derive(Debug)]
pub struct Tcp {
    about: About,
    locator: Locator,
    is_beside: bool,
    reach: Reach,
    poll: Poll,
    outgoing: Outgoing,
    incoming: Incoming,
    intake: Intake,
    /// The stream that brought something last.
    hot: Option<usize>,
    /// Calls since in which it brought nothing.
    silent_count: u64,
    /// The stream that brought bulk data last.
    bulk: Option<usize>,
    /// Calls of `receive`.
    now: u64,
    notices: VecDeque<Notice>,
    remarks: VecDeque<String>,
    /// In its life.
    remark_count: usize,
    counters: Counters,
}

impl Tcp {
    /// Opens a socket that others can connect to.
    ///
    /// # Errors
    /// [`TcpError`] names address and port, and what to do.
    pub fn open(config: &TcpConfig) -> Result<Self, TcpError> {
        let (listener, bound) = opening::open(config)?;
        let reach = Reach::new(from_locator, &listener, bound, config.interface);
        let poll = Poll::new().map_err(doing("getting a descriptor to wait on"))?;
        let incoming = Incoming::new(listener, config.incoming_count_max, &poll)
            .map_err(doing("waiting for streams"))?;
        let about = About {
            kind: KIND.name,
            frame_len_max: FRAME_LEN_MAX,
            train_len_max: TRAIN_COUNT_MAX * FRAME_LEN_MAX,
            train_count_max: TRAIN_COUNT_MAX,
            reliability: Reliability::Ordered { may_break: true },
            is_checked: true,
            is_private: false,
            can_land: true,
            backlog_len_max: WAITING_LEN_MAX as u64,
        };
        Ok(Self {
            about,
            locator: to_locator(usable_addr(bound)),
            is_beside: config.is_beside,
            reach,
            poll,
            outgoing: Outgoing::new(config.outgoing_count_max, bound.port()),
            incoming,
            intake: Intake::new().map_err(doing("getting memory for frames"))?,
            hot: None,
            silent_count: 0,
            bulk: None,
            now: 0,
            notices: VecDeque::new(),
            remarks: VecDeque::new(),
            remark_count: 0,
            counters: Counters::default(),
        })
    }

    fn notice_failures(&mut self) {
        while let Some((to, is_by_host)) = self.outgoing.poll_refused() {
            if self.notices.len() < NOTICE_COUNT_MAX {
                let cause = if is_by_host { Cause::Closed } else { Cause::Way(Vec::new()) };
                self.notices.push_back(Notice::Unreachable { to, cause });
            }
        }
        while let Some(to) = self.outgoing.poll_broken() {
            if self.remark_count < REMARK_COUNT_MAX {
                self.remark_count += 1;
                self.remarks.push_back(format!(
                    "the stream to {} broke: what was in it is sent again",
                    show(&to)
                ));
            }
        }
    }

    fn receive_some(&mut self, landing: Option<&Landing>, memory: &mut Table) -> io::Result<usize> {
        self.now += 1;
        self.intake.begin(landing);
        let has_streams = self.incoming.count() > 0 || self.outgoing.is_waiting();
        if !has_streams && !self.now.is_multiple_of(LISTEN_EVERY) {
            return Ok(0);
        }
        let hot = self.hot.filter(|_| self.silent_count < SILENT_COUNT_MAX);
        let outcome = hot.map(|slot| self.read(slot, memory));
        let is_due = self.now.is_multiple_of(ASK_EVERY) || self.outgoing.is_waiting();
        let is_asked = match outcome {
            Some(Outcome::Nothing) => {
                self.silent_count += 1;
                is_due
            }
            // Others may wait for their turn.
            Some(Outcome::Some(_)) => is_due || self.incoming.greeted_count() > 1,
            Some(Outcome::Over) | None => true,
        };
        if is_asked {
            self.ask(hot.filter(|_| outcome != Some(Outcome::Over)), memory)?;
        }
        Ok(self.intake.len())
    }

    /// Asks what there is, and sees to it. `hot` was read in this call.
    fn ask(&mut self, hot: Option<usize>, memory: &mut Table) -> io::Result<()> {
        let mut events = [Event::default(); EVENT_COUNT_MAX];
        self.counters.calls_in += 1;
        let count = match self.poll.ask(&mut events) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
            result => result?,
        };
        for event in &events[..count] {
            match Key::of(event.key) {
                Key::Listener => self.incoming.accept(self.now, &self.poll, &mut self.counters),
                Key::Outgoing(slot, serial) => {
                    let (poll, counters) = (&self.poll, &mut self.counters);
                    self.outgoing.on_event(slot, serial, event.what, poll, counters);
                }
                Key::Incoming(slot, serial) if self.incoming.is_there(slot, serial) => {
                    if hot != Some(slot) && self.intake.has_room() {
                        self.read(slot, memory);
                    }
                }
                Key::Incoming(..) => {} // closed meanwhile
            }
        }
        self.incoming.on_time(&self.poll, &mut self.counters);
        self.notice_failures();
        Ok(())
    }

    /// Reads from a stream what is there.
    fn read(&mut self, slot: usize, memory: &mut Table) -> Outcome {
        let is_only = self.incoming.greeted_count() == 1;
        let Some(stream) = self.incoming.get_mut(slot) else {
            self.hot = None; // it was closed to make room
            return Outcome::Over;
        };
        if stream.from.is_none() {
            self.incoming.read_greeting(slot, self.now, &self.outgoing, &mut self.counters);
            return Outcome::Nothing;
        }
        let may_land = is_only || self.bulk == Some(slot);
        let outcome = self.intake.read(stream, may_land, memory, &mut self.counters);
        match outcome {
            Outcome::Nothing => {}
            Outcome::Some(len) => {
                self.incoming.on_used(slot, self.now);
                (self.hot, self.silent_count) = (Some(slot), 0);
                if len >= BULK_LEN_MIN {
                    self.bulk = Some(slot);
                }
            }
            Outcome::Over => {
                self.incoming.close(slot);
                self.hot = self.hot.filter(|&hot| hot != slot);
            }
        }
        outcome
    }
}

impl Link<Table> for Tcp {
    fn about(&self) -> &About {
        &self.about
    }

    fn locator(&self) -> Locator {
        self.locator
    }

    fn may_reach(&mut self, to: &Locator) -> bool {
        self.reach.may_reach(to)
    }

    fn frame_len_to(&mut self, _: &Locator) -> usize {
        FRAME_LEN_MAX // the kernel cuts it as the way needs it
    }

    fn card_to(&mut self, to: &Locator) -> u32 {
        if self.is_beside { 0 } else { self.reach.card_to(to) }
    }

    fn send(&mut self, burst: &Burst, first: usize, memory: &mut Table) -> io::Result<usize> {
        if let Some((to, frame)) = burst.lone(first)
            && self.send_now(to, frame, frame.len())
        {
            return Ok(1);
        }
        let (poll, counters) = (&self.poll, &mut self.counters);
        self.outgoing.send(burst, first, memory, &self.reach, poll, counters);
        self.notice_failures();
        Ok(burst.len().saturating_sub(first))
    }

    fn send_now(&mut self, to: &Locator, frames: &[u8], stride: usize) -> bool {
        self.outgoing.send_now(to, frames, stride, &self.poll, &mut self.counters)
    }

    fn receive(&mut self, landing: Option<&Landing>, memory: &mut Table) -> io::Result<usize> {
        self.receive_some(landing, memory)
    }

    fn arrived(&self, index: usize) -> Arrived<'_> {
        self.intake.arrived(index)
    }

    fn is_costly_to_ask(&self) -> bool {
        true
    }

    fn lift(&mut self, index: usize, first: usize, memory: &mut Table) {
        self.counters.lifted_bytes += self.intake.lift(index, first, memory) as u64;
    }

    fn telling(&mut self) -> Option<&mut dyn Telling<Table>> {
        None
    }

    /// Trains are no more here than frames that are sent together.
    fn set_trains(&mut self, _: bool) {}

    fn poll_notice(&mut self) -> Option<Notice> {
        self.notices.pop_front()
    }

    fn poll_remark(&mut self) -> Option<String> {
        self.remarks.pop_front()
    }

    /// An epoll descriptor always tells.
    fn arm(&mut self) -> bool {
        true
    }

    fn disarm(&mut self) {}

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.poll.as_fd())
    }

    fn each_counter(&self, show: &mut dyn FnMut(&'static str, u64)) {
        let c = &self.counters;
        show("calls_out", c.calls_out);
        show("frames_out", c.frames_out);
        show("bytes_out", c.bytes_out);
        show("lost_frames", c.lost_frames);
        show("lost_bytes", c.lost_bytes);
        show("calls_in", c.calls_in);
        show("frames_in", c.frames_in);
        show("bytes_in", c.bytes_in);
        show("landed_bytes", c.landed_bytes);
        show("lifted_bytes", c.lifted_bytes);
        show("streams_opened", c.streams_opened);
        show("streams_accepted", c.streams_accepted);
        show("streams_broken", c.streams_broken);
        show("streams_closed", c.streams_closed);
        show("strangers", c.strangers);
    }
}
