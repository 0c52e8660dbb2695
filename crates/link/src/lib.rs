//! Moving frames.
//!
//! ```text
//!   engine ── Burst ──▶ Link::send ──▶ …network… ──▶ Link::receive ── Arrived ──▶ engine
//!                │ heads as bytes,                        │ frames as bytes, or heads as bytes and
//!                └ payload by name in `mem`               └ payload already in its place (`Landing`)
//! ```
//!
//! A frame is bytes here; what they mean is the business of `packhorse-proto`, which this crate does not know. A [`Link`]
//! sends and receives bursts of frames and says what it can do. There is [`udp`], which needs no rights; [`tcp`], for
//! bulk; [`shm`], between processes of one host; [`packet`], raw Ethernet; [`xdp`], which has an Ethernet interface to itself;
//! [`sim`], which lives in virtual time and misbehaves on demand; and links around a link ([`around`]): [`faults`] and [`capture`].
//!
//! [`kinds`] is the table of those that can be chosen: how each is opened, and how its locators are read.
//!
//! Reading order: [`Link`] below, [`burst`] (frames on their way out), [`mem`] (the application's memory, lent by name), [`udp`] as
//! the plainest real link, then any other. Most have `config` (what is asked of the link), `opening` and `locate` (its
//! locators) beside their own files; [`ether`] has those of the two raw ones. `sys` has what the system must do for links, and
//! begins with a list of its files. [`ring`] is the one ring type, for shared memory and for completion queues; [`loan`] lends bytes to
//! a future for the length of one poll. [`door`] is no link: it is the socket by which an endpoint is found.

// Unsafe code lives in `mem`, `ring`, `umem`, `loan` and `sys`; xtask's purity check holds it there.

pub mod around;
pub mod burst;
pub mod capture;
pub mod door;
pub mod ether;
pub mod faults;
pub mod kinds;
pub mod loan;
pub mod mem;
mod own_file;
pub mod packet;
pub mod pcapng;
pub mod ring;
#[cfg(test)]
mod script;
pub mod shm;
pub mod sim;
mod sys;
pub mod tcp;
pub mod udp;
mod umem;
#[cfg(test)]
mod witness;
pub mod xdp;

use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;

pub use around::Around;
pub use burst::Burst;
pub use kinds::{Kind, LinkError, are_alike, at_address, place_of, port_of, show};
pub use own_file::create_own;
pub use sys::copier::Copier;
pub use sys::interfaces::{Interface, interfaces};
pub use sys::signals::with_signals_blocked;
pub use sys::ticks::ticks;
pub use sys::{fork, handover, wide};

/// Where frames can be sent. Only the link that made it knows what the bytes mean; zeros name nothing.
pub type Locator = [u8; 24];

/// What may become of frames between a link and the one that they are sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reliability {
    /// Each may be lost, doubled, overtaken or damaged.
    Lossy,
    /// They arrive once, whole and in order.
    Ordered {
        /// They go as one stream, which must be opened first, and a break of which loses all that is in it.
        may_break: bool,
    },
}

impl Reliability {
    /// No frame is ever lost, while both ends live.
    #[inline]
    pub fn never_loses(self) -> bool {
        self == Self::Ordered { may_break: false }
    }

    /// They go as one stream, which may break.
    #[inline]
    pub fn is_stream(self) -> bool {
        self == Self::Ordered { may_break: true }
    }
}

/// What a link is and can do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    /// Its kind: `udp`, `sim`, …
    pub kind: &'static str,
    /// The longest frame it takes.
    pub frame_len_max: usize,
    /// The longest train of equal frames it sends in one go, in bytes; 0 if it sends none.
    pub train_len_max: usize,
    /// The longest train it sends in one go, in frames.
    pub train_count_max: usize,
    /// What may become of frames.
    pub reliability: Reliability,
    /// Damaged frames are dropped by the link's own check.
    pub is_checked: bool,
    /// Nobody but its two ends can write to it, and [`Arrived::from`] is truly the end that wrote.
    pub is_private: bool,
    /// Payload can land in its place before its frame is read.
    pub can_land: bool,
    /// Bytes of full-size frames that wait in the link until they are received, before it loses any.
    pub backlog_len_max: u64,
}

/// Memory in which payload is expected to arrive next (docs/design.md §7, "Trains"). It names only bytes that are granted
/// and not yet received: whatever lands there by mistake is moved out before anything else is done with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Landing {
    /// Which memory.
    pub id: mem::MemoryId,
    /// From where.
    pub offset: u64,
    /// How many bytes.
    pub len: u64,
    /// Bytes of each frame before its payload.
    pub head_len: usize,
    /// Payload of each frame but the last.
    pub payload_len: usize,
}

/// Where bytes are that were not sent, as the link of their owner says it. Only a link of the same kind understands it; zeros say nothing.
pub type Whereabouts = [u8; 64];

/// Bytes to be fetched.
#[derive(Clone, Debug)]
pub struct Fetch<'a> {
    /// Where their owner is, who told of them.
    pub from: &'a Locator,
    /// What the owner said.
    pub whereabouts: &'a Whereabouts,
    /// The first byte that is wanted.
    pub offset: u64,
    /// Where they go: into which memory.
    pub id: mem::MemoryId,
    /// The range there, which also says how many are wanted.
    pub range: Range<u64>,
}

/// What a link can do whose receivers fetch bytes from where their owner says that they are.
pub trait Telling<M: ?Sized = mem::Table> {
    /// Says for the one at `to` where the first `len` bytes of memory `id` are: from now until that memory is taken out of `memory`. `None`:
    /// that cannot be said.
    fn tell(
        &mut self,
        to: &Locator,
        id: mem::MemoryId,
        len: u64,
        memory: &mut M,
    ) -> Option<Whereabouts>;

    /// Copies bytes to their place, of which their owner told. An error: they cannot be had, or not all of them, or they are not what was told of
    /// any more; what was copied means nothing then, and they must be asked for in another way.
    fn fetch(&mut self, fetch: &Fetch<'_>, memory: &mut M) -> io::Result<()>;
}

/// Payload that landed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Landed {
    /// Where in the memory of the `Landing` the first frame's payload lies; the others follow.
    pub offset: u64,
    /// Frames.
    pub count: usize,
    /// Payload of the last frame.
    pub last_len: usize,
}

/// One or more frames that arrived together from one place.
#[derive(Clone, Copy, Debug)]
pub struct Arrived<'a> {
    /// From where.
    pub from: Locator,
    /// Whole frames, one after another; where payload landed, their heads only, and behind them what was lifted.
    pub bytes: &'a [u8],
    /// Length of each frame (or head) in `bytes` but the last, which may be shorter. Never 0.
    pub stride: usize,
    /// Where the payload is, if not in `bytes`.
    pub landed: Option<Landed>,
}

impl<'a> Arrived<'a> {
    /// Heads of frames whose payload landed.
    pub fn heads(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        self.bytes[..self.heads_len()].chunks_exact(self.stride)
    }

    /// Frames that are whole in `bytes`: all if nothing landed, else those that were lifted. `payload_len` is that of
    /// the landing.
    pub fn whole(&self, payload_len: usize) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let (frames, stride) = self.joined(payload_len);
        frames.chunks(stride)
    }

    /// Frames that are whole in `bytes`, as they stand behind each other, and the length of each but perhaps the last.
    #[inline]
    pub fn joined(&self, payload_len: usize) -> (&'a [u8], usize) {
        let payload_len = if self.landed.is_some() { payload_len } else { 0 };
        (&self.bytes[self.heads_len()..], self.stride + payload_len)
    }

    fn heads_len(&self) -> usize {
        self.landed.map_or(0, |landed| landed.count * self.stride)
    }
}

/// Why a frame did not reach its place. What the network says, anybody may have said who can send to us: so it comes with the
/// beginning of the frame that it claims to speak of, if it quoted any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The link will never get there: no place that it knows, or nobody is there, as it found out itself.
    Void,
    /// This host cannot send there now.
    Here,
    /// The network: somewhere there is no way on.
    Way(Vec<u8>),
    /// The host there: nobody has that port.
    Refused(Vec<u8>),
    /// The host there refused a stream. No quote is needed: our system believes it only if it has the number of our question.
    Closed,
}

/// What a link noticed beside frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// Nobody is reached there.
    Unreachable {
        /// Where.
        to: Locator,
        /// Why, and who says so.
        cause: Cause,
    },
    /// Frames of this length do not pass on the way to there.
    TooLong {
        /// Where.
        to: Locator,
        /// The longest that passes, as far as it is known.
        frame_len_max: usize,
    },
    /// The process there has ended: it will not answer any more, whatever else leads to it.
    Dead {
        /// Where.
        to: Locator,
    },
}

/// The longest frame that [`InMemory::look`] takes.
pub const SHORT_LEN_MAX: usize = 256;

/// A frame that was looked at by itself ([`InMemory::look`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Front {
    /// The end that sent the frame.
    pub from: Locator,
    /// Its length. Up to [`SHORT_LEN_MAX`] it was taken; a longer one is still there.
    pub len: usize,
    /// It was taken, and another waits, behind it or from somebody else.
    pub has_more: bool,
    /// All of it is there. What is still written grows before one's eyes ([`InMemory::follow`]).
    pub is_whole: bool,
}

/// One frame at a time through memory that both ends share, copied once into it and once out of it.
pub trait InMemory<M: ?Sized = mem::Table> {
    /// Sends a frame now whose head and payload lie apart, if it can without further ado. False: nothing has left.
    fn put(&mut self, to: &Locator, head: &[u8], payload: &[u8]) -> bool;

    /// Looks at the next frame: its first bytes, or all of them, are the first of `out`. A short one is taken by that. `None`: ask by
    /// [`Link::receive`], which also does whatever else a link has to do now and then.
    fn look(&mut self, out: &mut [u8; SHORT_LEN_MAX]) -> Option<Front>;

    /// Copies `len` bytes of the frame that the last call, `look`, has shown, from number `skip` on, to the beginning of that memory, in the time in which
    /// it is still written. True: it is whole, and they are there. False: its writer has come to a halt; it is to be looked at anew.
    fn follow(&mut self, skip: usize, to: mem::MemoryId, len: usize, memory: &mut M) -> bool;

    /// Takes the longer frame that `look` has shown, and is whole: `len` of its bytes, from number `skip` on, go to the beginning of that memory.
    /// True: another waits, behind it or from somebody else.
    fn take(&mut self, skip: usize, to: mem::MemoryId, len: usize, memory: &mut M) -> bool;
}

/// A way to move frames. `M` is the memory that payload comes from and goes to.
///
/// No method but `in_memory` has a default: a link says of each what it does, and a link around a link hands each on by the one
/// implementation in [`around`]. So a method that is added here is lost by no link; the compiler asks for it.
pub trait Link<M: ?Sized = mem::Table>: Send {
    /// What it is and can do.
    fn about(&self) -> &About;

    /// Where frames to it can be sent.
    fn locator(&self) -> Locator;

    /// Whether frames can be sent there at all: a locator of a kind that it knows, on a network that it is on. Only a
    /// hint: what it says may lead there is probed, what it says does not is never tried.
    fn may_reach(&mut self, to: &Locator) -> bool;

    /// The longest frame that can be sent there now, as far as the system knows.
    fn frame_len_to(&mut self, to: &Locator) -> usize;

    /// The number of the interface by which frames to there leave this host; 0: none, or not known. Links with the same one share
    /// a wire.
    fn card_to(&mut self, to: &Locator) -> u32;

    /// Sends the frames of the burst from number `first` on. Returns how many were taken; fewer than all means: not now.
    /// A frame that cannot be sent at all is taken and counted: to the protocol it is a lost one.
    fn send(&mut self, burst: &Burst, first: usize, memory: &mut M) -> io::Result<usize>;

    /// Sends a whole frame now, or several that stand behind each other, each `stride` bytes long but the last, which may be shorter; if it
    /// can without further ado and in one go: nothing is set up for it. False: none has left, `send` them.
    fn send_now(&mut self, to: &Locator, frames: &[u8], stride: usize) -> bool;

    /// Receives what is there, without waiting, and tells how many arrivals `arrived` can be asked for. Those of the call
    /// before are gone.
    fn receive(&mut self, landing: Option<&Landing>, memory: &mut M) -> io::Result<usize>;

    /// What a link in memory can do beside; `None`: it is none, or every frame must be seen here.
    fn in_memory(&mut self) -> Option<&mut dyn InMemory<M>> {
        None
    }

    /// Arrival number `index` of the last `receive`.
    fn arrived(&self, index: usize) -> Arrived<'_>;

    /// Whether `receive` is a system call even if there is nothing: then it is asked less often where others are not.
    fn is_costly_to_ask(&self) -> bool;

    /// Moves the payload of an arrival that landed, from frame `first` on, out of the application's memory:
    /// `arrived(index)` then shows these frames whole, behind the heads of those before `first` ([`Arrived::heads`],
    /// [`Arrived::whole`]); with `first` 0 it is as if nothing had landed. To be done for all wrong landings before any
    /// frame is read.
    fn lift(&mut self, index: usize, first: usize, memory: &mut M);

    /// How its receivers fetch bytes from where their owner says that they are; `None`: they cannot.
    fn telling(&mut self) -> Option<&mut dyn Telling<M>>;

    /// Whether it may send trains; it still does so only where it can. For paths on which trains are lost.
    fn set_trains(&mut self, is_on: bool);

    /// Something it noticed.
    fn poll_notice(&mut self) -> Option<Notice>;

    /// Something it has to say to a person, each thing once.
    fn poll_remark(&mut self) -> Option<String>;

    /// Somebody is about to sleep on `wake_fd`: it must become readable when something arrives from now on. False: there is
    /// something already. Links whose descriptor always tells need do nothing; those in memory ask their peers for a knock.
    fn arm(&mut self) -> bool;

    /// Nobody sleeps any more.
    fn disarm(&mut self);

    /// Readable when there is something to receive; `None` for links that must be polled.
    fn wake_fd(&self) -> Option<BorrowedFd<'_>>;

    /// Names and values of its counters.
    fn each_counter(&self, show: &mut dyn FnMut(&'static str, u64));
}
