//! Frames between processes of one host, through memory that they share.
//!
//! ```text
//!              offer: the ring's memory, once for each pair and direction
//!   A  ────────────────────────── socket ──────────────────────────▶  B          knock: when B sleeps
//!   Burst ─▶ ring A▶B: [frame][frame][train: heads, where the payload is] ─▶ Arrived
//!                                                        └ B reads A's memory: payload in its place in one copy
//! ```
//!
//! Each endpoint has one abstract Unix datagram socket. Who first sends to another makes a ring (`ring.rs`) in memory that has
//! no name, sends its descriptor there and closes it: when both processes are gone, nothing is left. While a receiver
//! spins neither side makes a system call; one that sleeps says so in its rings and is woken by a letter.
//!
//! Large payload goes by telling where it is: the receiver reads the sender's memory (`process_vm_readv`), where the sender is the
//! same user's process (`trust.rs`) and the system lets it. Whether it does is tried when a ring is taken, and the answer left in the ring; otherwise
//! payload goes through the ring. Nobody writes another process's memory.
//!
//! **Nothing is lost** of what was taken, but with its peer, and but for payload that cannot be read where it was told to be: its
//! owner took that memory back, or the system has forbidden since what it had allowed. The latter happens once: then payload
//! goes through the ring, and what was missed is granted again (PROTOCOL §8.5).
//!
//! **Distrust** (PROTOCOL §14). No foreign user's memory is read, for a read can be held up by whoever owns the page. Memory is taken only sealed and of the length agreed on; every number in it is checked. A peer that
//! writes what cannot be is cut off, and nobody else notices: each pair has memory of its own, and of a peer that takes
//! nothing out of its ring so many frames are kept, then lost.

mod config;
mod inputs;
mod intake;
mod kind;
mod letters;
mod locate;
mod outputs;
mod telling;
#[cfg(test)]
mod tests;
mod trust;
mod watch;

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::atomic::{Ordering, fence};

pub use crate::sys::shm::forbid_reading;
pub use config::{ShmConfig, ShmError, Use};
pub use kind::KIND;

use crate::mem::{MemoryId, Table};
use crate::ring::Broken;
use crate::sys::region::Region;
use crate::sys::shm::{Post, random};
use crate::{
    About, Arrived, Burst, Cause, Front, InMemory, Landing, Link, Locator, Notice, Reliability,
    SHORT_LEN_MAX, Telling, show,
};
use inputs::Input;
use intake::Intake;
use letters::{TRAIN_COUNT_MAX, TRAIN_LEN_MAX, TRAIN_RECORD_LEN_MAX};
use outputs::Output;
use trust::Allowance;
use watch::Watch;

/// Peers in each direction.
const PEER_COUNT_MAX: usize = 512;
/// Of these, such as belong to other users: who may send here, but not keep others from it.
const FOREIGN_COUNT_MAX: usize = 64;
/// Peers remembered for having written what cannot be.
const BANNED_COUNT_MAX: usize = 64;
/// Notices not fetched yet.
const NOTICE_COUNT_MAX: usize = 64;
/// Remarks in its life: what goes on going wrong has been said by then.
const REMARK_COUNT_MAX: usize = 32;
/// Nothing is lost for being too much; this only bounds what a receiver grants at once.
const BACKLOG_LEN: u64 = 64 << 20;

/// What it did so far.
#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    frames_out: u64,
    trains_out: u64,
    send_blocked: u64,
    send_failed: u64,
    send_spilled: u64,
    void_frames: u64,
    frames_in: u64,
    trains_in: u64,
    trains_lost: u64,
    messages_told: u64,
    fetches: u64,
    fetches_failed: u64,
    fetched_bytes: u64,
    bytes_in: u64,
    offers_out: u64,
    offers_in: u64,
    offers_refused: u64,
    knocks_out: u64,
    letters_in: u64,
    peers_dead: u64,
    peers_broken: u64,
}

/// A link through shared memory.
#[derive(Debug)]
pub struct Shm {
    post: Post,
    about: About,
    locator: Locator,
    host: u64,
    config: ShmConfig,
    outputs: Vec<Output>,
    /// The one used last.
    output_last: usize,
    /// Outputs with frames that their ring had no room for.
    spilling_count: usize,
    inputs: Vec<Input>,
    /// The one looked at last of those that nothing came through lately.
    input_cold: usize,
    /// Calls of `receive`.
    turn: u64,
    /// The input whose next frame was looked at and is still there, and how long it is.
    seen: (usize, usize),
    intake: Intake,
    /// Records that are looked into.
    scratch: Vec<u8>,
    watch: Watch,
    banned: VecDeque<u64>,
    /// Offers of other users that are still looked at.
    foreign_offers: Allowance,
    notices: VecDeque<Notice>,
    remarks: VecDeque<String>,
    remark_count: usize,
    counters: Counters,
}

fn doing(doing: &'static str) -> impl Fn(io::Error) -> ShmError {
    move |error| ShmError::System { doing, error }
}

impl Shm {
    /// Opens a socket of its own.
    ///
    /// # Errors
    /// [`ShmError`] says what to do.
    pub fn open(config: &ShmConfig) -> Result<Self, ShmError> {
        let after = config.named_after.as_ref().and_then(locate::name_after);
        // A name that is taken already serves nobody; then any will do.
        let named =
            after.and_then(|name| Some((Post::open(locate::socket_name(name)).ok()?, name)));
        if let Some((post, name)) = named {
            return Self::new(post, name, config);
        }
        let name = u64::from_le_bytes(random().map_err(doing("asking for random numbers"))?).max(1);
        let post = Post::open(locate::socket_name(name))
            .map_err(doing("opening a Unix datagram socket"))?;
        Self::new(post, name, config)
    }

    /// Takes a socket that somebody else opened: a Unix datagram socket with an abstract name of ours.
    ///
    /// # Errors
    /// As for [`Shm::open`].
    pub fn from_fd(fd: OwnedFd, config: &ShmConfig) -> Result<Self, ShmError> {
        let post = Post::from_fd(fd).map_err(|error| match error.kind() {
            io::ErrorKind::InvalidInput => ShmError::NotOurs,
            _ => ShmError::System { doing: "taking the socket handed in", error },
        })?;
        let name = locate::name_of(post.name()).ok_or(ShmError::NotOurs)?;
        Self::new(post, name, config)
    }

    fn new(post: Post, name: u64, config: &ShmConfig) -> Result<Self, ShmError> {
        config.check()?;
        let host = locate::host().map_err(doing("asking which host this is (/proc)"))?;
        let room = Region::new(intake::ROOM_LEN).map_err(doing("getting memory for frames"))?;
        let about = About {
            kind: KIND.name,
            frame_len_max: config.frame_len_max(),
            train_len_max: TRAIN_LEN_MAX,
            train_count_max: TRAIN_COUNT_MAX,
            reliability: Reliability::Ordered { may_break: false },
            is_checked: true,
            is_private: true,
            can_land: true,
            backlog_len_max: BACKLOG_LEN,
        };
        Ok(Self {
            post,
            about,
            locator: locate::to_locator(host, name),
            host,
            config: config.clone(),
            outputs: Vec::new(),
            output_last: 0,
            spilling_count: 0,
            inputs: Vec::new(),
            input_cold: PEER_COUNT_MAX,
            turn: 0,
            seen: (0, 0),
            intake: Intake::new(room),
            scratch: vec![0; TRAIN_RECORD_LEN_MAX],
            watch: Watch::default(),
            banned: VecDeque::new(),
            foreign_offers: Allowance::default(),
            notices: VecDeque::new(),
            remarks: VecDeque::new(),
            remark_count: 0,
            counters: Counters::default(),
        })
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

    /// The name in a locator, if it is on this host; or the one that whoever has this locator of raw Ethernet would have here.
    fn name_here(&self, to: &Locator) -> Option<u64> {
        let here = locate::from_locator(to).filter(|&(host, _)| host == self.host);
        here.map(|(_, name)| name).or_else(|| locate::name_after(to))
    }

    /// A peer wrote what cannot be: it is cut off, in both directions and for good.
    #[cold]
    fn ban(&mut self, name: u64) {
        self.counters.peers_broken += 1;
        self.forget_output(name);
        self.inputs.retain(|input| input.name != name);
        if self.banned.len() == BANNED_COUNT_MAX {
            self.banned.pop_front();
        }
        self.banned.push_back(name);
        let to = locate::to_locator(self.host, name);
        self.notice(Notice::Unreachable { to, cause: Cause::Void });
        self.say(|| format!("{} wrote nonsense to shared memory and is cut off", show(&to)));
    }
}

impl Link<Table> for Shm {
    fn about(&self) -> &About {
        &self.about
    }

    fn locator(&self) -> Locator {
        self.locator
    }

    fn may_reach(&mut self, to: &Locator) -> bool {
        let Some(name) = self.name_here(to) else { return false };
        !self.banned.contains(&name) && self.post.ask(&locate::socket_name(name)).is_ok()
    }

    fn frame_len_to(&mut self, _: &Locator) -> usize {
        self.about.frame_len_max
    }

    /// Memory is no card.
    fn card_to(&mut self, _: &Locator) -> u32 {
        0
    }

    #[inline]
    fn send(&mut self, burst: &Burst, first: usize, memory: &mut Table) -> io::Result<usize> {
        // The lone frame is the one somebody waits for.
        if let Some((to, bytes)) = burst.lone(first)
            && self.send_one(to, bytes)
        {
            return Ok(1);
        }
        Ok(self.send_all(burst, first, memory))
    }

    #[inline]
    fn send_now(&mut self, to: &Locator, frames: &[u8], stride: usize) -> bool {
        frames.len() <= stride && self.send_one(to, frames)
    }

    #[inline]
    fn receive(&mut self, landing: Option<&Landing>, memory: &mut Table) -> io::Result<usize> {
        self.receive_some(landing, memory)
    }

    #[inline]
    fn in_memory(&mut self) -> Option<&mut dyn InMemory> {
        Some(self)
    }

    #[inline]
    fn arrived(&self, index: usize) -> Arrived<'_> {
        self.intake.arrived(index)
    }

    fn is_costly_to_ask(&self) -> bool {
        false
    }

    fn lift(&mut self, index: usize, first: usize, memory: &mut Table) {
        self.intake.lift(index, first, memory);
    }

    fn telling(&mut self) -> Option<&mut dyn Telling<Table>> {
        (self.config.cma == Use::Auto).then_some(self)
    }

    fn set_trains(&mut self, is_on: bool) {
        self.about.train_count_max = if is_on { TRAIN_COUNT_MAX } else { 0 };
        self.about.train_len_max = if is_on { TRAIN_LEN_MAX } else { 0 };
    }

    fn poll_notice(&mut self) -> Option<Notice> {
        self.notices.pop_front()
    }

    fn poll_remark(&mut self) -> Option<String> {
        self.remarks.pop_front()
    }

    fn arm(&mut self) -> bool {
        self.inputs.iter().for_each(|input| input.ring.set_sleeping(true));
        // One fence for all rings: the flags before the last look. Each writer has one between its header and its
        // look at our flag (`Producer::must_wake`).
        fence(Ordering::SeqCst);
        let is_still = |input: &Input| input.ring.is_empty() && input.ending.is_none();
        // Who sleeps on a death that is not told yet sleeps until a timer, and then silence may be told first.
        let mut is_quiet = self.notices.is_empty() && self.inputs.iter().all(is_still);
        // Frames that wait for room: the reader knocks when there is some. From the end, for one that is cut off leaves its place to the last.
        for index in (0..self.outputs.len()).rev() {
            let output = &mut self.outputs[index];
            if !output.waits_for_room() {
                continue;
            }
            match output.ask_for_room() {
                Ok(is_asked) => is_quiet &= is_asked,
                // Whoever would sleep could not, again and again, as long as this peer were kept.
                Err(Broken) => {
                    let name = output.name;
                    self.ban(name);
                    is_quiet = false;
                }
            }
        }
        is_quiet
    }

    fn disarm(&mut self) {
        self.inputs.iter().for_each(|input| input.ring.set_sleeping(false));
        self.watch.hurry();
    }

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.post.as_fd())
    }

    fn each_counter(&self, show: &mut dyn FnMut(&'static str, u64)) {
        let c = &self.counters;
        show("frames_out", c.frames_out);
        show("trains_out", c.trains_out);
        show("send_blocked", c.send_blocked);
        show("send_failed", c.send_failed);
        show("send_spilled", c.send_spilled);
        show("void_frames", c.void_frames);
        show("frames_in", c.frames_in);
        show("trains_in", c.trains_in);
        show("trains_lost", c.trains_lost);
        show("messages_told", c.messages_told);
        show("fetches", c.fetches);
        show("fetches_failed", c.fetches_failed);
        show("fetched_bytes", c.fetched_bytes);
        show("bytes_in", c.bytes_in);
        show("landed_bytes", self.intake.landed_bytes);
        show("lifted_bytes", self.intake.lifted_bytes);
        show("offers_out", c.offers_out);
        show("offers_in", c.offers_in);
        show("offers_refused", c.offers_refused);
        show("knocks_out", c.knocks_out);
        show("letters_in", c.letters_in);
        show("peers_dead", c.peers_dead);
        show("peers_broken", c.peers_broken);
    }
}

impl InMemory for Shm {
    #[inline]
    fn put(&mut self, to: &Locator, head: &[u8], payload: &[u8]) -> bool {
        self.send_in_two(to, head, payload)
    }

    #[inline]
    fn look(&mut self, out: &mut [u8; SHORT_LEN_MAX]) -> Option<Front> {
        self.look_at_one(out)
    }

    fn follow(&mut self, skip: usize, to: MemoryId, len: usize, memory: &mut Table) -> bool {
        self.follow_seen(skip, to, len, memory)
    }

    #[inline]
    fn take(&mut self, skip: usize, to: MemoryId, len: usize, memory: &mut Table) -> bool {
        self.take_seen(skip, to, len, memory)
    }
}
