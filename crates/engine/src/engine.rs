//! The engine: a core behind a lock, requests that can be waited for, and who drives.
//!
//! One lock, held by whoever drives for as long as nobody else wants it. A thread that wants it says so (`wanted`), and the
//! driver lets it in after the turn it is in: the lock itself is not fair, a spinning driver would win it every time.
//!
//! How an endpoint is opened is in `opening`, what the application posts in `posts`, what a turn ends in `turns`, what can be asked of
//! peers and links in `peers`, how an endpoint ends in `closing`.

mod closing;
mod opening;
mod peers;
mod posts;
mod turns;

pub(crate) use opening::draw;
pub use opening::host_identity;

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, TryLockError};
use std::task::Waker;

use packhorse_link::fork::Mark;
use packhorse_link::mem::{Memory, Table};
use packhorse_link::{Link, loan};
use packhorse_proto::{
    Address, Criteria, Event, Identity, Instant, Limits, List, PeerId, PostError, Settings, Space,
    Tag, Use,
};

use crate::attend::Attendance;
use crate::bell::Bell;
use crate::commands::Commands;
use crate::copies::CopyOffload;
use crate::core::Core;
use crate::crowd::Crowd;
use crate::doze::Doze;
use crate::duties::Offload;
use crate::helper::{Helper, HelperCpus};
use crate::looks::Looks;
use crate::onesided::Regions;
use crate::queue::{Notify, Queues};
use crate::requests::{Ended, Requests};

/// Who turns the engine when no application thread waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// Nobody: progress is made inside the application's calls.
    Inline,
    /// A helper thread.
    #[default]
    Thread,
}

/// How an engine is opened.
#[derive(Clone, Debug)]
pub struct Config {
    /// The protocol's knobs. `has_helper` follows the placement, frame length and payload check the links.
    pub settings: Settings,
    /// What the network can make it hold.
    pub limits: Limits,
    /// Who turns it.
    pub placement: Placement,
    /// What the helper may do.
    pub offload: Offload,
    /// On which cores the helper may run.
    pub helper_cpus: HelperCpus,
    /// Whether a second thread copies payload of large messages.
    pub copy_offload: CopyOffload,
    /// A thread that waits spins so long before it sleeps.
    pub spin_ns: u64,
    /// Who this endpoint is; drawn if not given.
    pub identity: Option<Identity>,
    /// With `settings.payload_check`: sum bodies on every link, not only on those without a check of their own.
    pub check_all: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            settings: Settings::default(),
            limits: Limits::default(),
            placement: Placement::default(),
            offload: Offload::default(),
            helper_cpus: HelperCpus::default(),
            copy_offload: CopyOffload::default(),
            spin_ns: 50_000,
            identity: None,
            check_all: true,
        }
    }
}

/// A send to post.
#[derive(Clone, Copy, Debug)]
pub struct Send {
    /// To whom.
    pub peer: PeerId,
    /// Matching space.
    pub space: Space,
    /// Match bits.
    pub tag: Tag,
    /// 64 bits beside the payload.
    pub immediate: Option<u64>,
    /// Complete only when a receive took it.
    pub until_matched: bool,
}

/// A receive to post.
#[derive(Clone, Copy, Debug)]
pub struct Recv {
    /// What it takes.
    pub criteria: Criteria,
    /// Priority or overflow.
    pub list: List,
    /// Once or many times.
    pub uses: Use,
    /// Take the envelope only.
    pub header_only: bool,
}

/// A post that was refused, with the memory it came with.
#[derive(Debug)]
pub struct Refused {
    /// Why.
    pub error: PostError,
    /// Given back.
    pub memory: Option<Memory>,
}

pub(crate) type DynCore = Core<Box<dyn Link>, Table>;

/// What the lock protects.
pub(crate) struct Inner {
    pub(crate) core: DynCore,
    pub(crate) requests: Requests,
    pub(crate) queues: Queues,
    pub(crate) commands: Arc<Commands>,
    /// Memory exposed to peers.
    pub(crate) regions: Regions,
    /// To be woken when the lock is free.
    pub(crate) wakers: Vec<Waker>,
    /// An application thread drives, and dozes at the moment.
    pub(crate) is_dozing: bool,
    /// Somebody sleeps, or is about to, in a loop of its own.
    pub(crate) is_bell_armed: bool,
    /// Threads that wait for another's driving.
    pub(crate) sleeper_count: u32,
    /// When a send was posted that did not wait for company.
    pub(crate) sent_at: Instant,
    /// Among what was posted since the helper was told is a message that needs to be granted.
    pub(crate) has_posted_long: bool,
    /// Sends in a row that were posted at once behind each other, to a peer to which something is on its way.
    pub(crate) burst_count: u32,
    /// Requests ended since the sleepers were told.
    pub(crate) has_news: bool,
    /// What `Closed` said.
    pub(crate) closed: Option<bool>,
    /// Nothing will happen any more: whoever waits goes.
    pub(crate) is_stopped: bool,
    /// Which queue is told of copied sends that fail.
    pub(crate) lost_notify: Option<Notify>,
    /// Notices of peers' writes that a reader took out of its queue are not taken from there (`Engine::hold_notices`).
    pub(crate) is_reader_full: bool,
    /// Peers' writes that would be told are refused.
    pub(crate) are_notices_held: bool,
    /// Events that belong to no request, for `poll_peer_event`.
    pub(crate) peer_events: std::collections::VecDeque<Event>,
    /// Who extracts streams, and who waits to send them.
    pub(crate) streams: crate::streams::Waiters,
}

/// A handler of streams is polled with a frame in hand and the engine locked: it would wait for itself.
const CALLED_UNDER_LOAN: &str = "an endpoint was called inside the `poll` of a future that shares a stream handler with a \
     waiting `receive`; call it between awaits, or await it";

/// A thread panicked in the middle of the endpoint's rules: what it left may be anything. Nobody may go on with it, nor wait for what
/// nobody will do.
#[cold]
pub(crate) fn broken() -> ! {
    panic!(
        "another thread panicked inside this endpoint (its message comes before): the endpoint cannot go on"
    );
}

/// An endpoint that many threads may use. Always behind an `Arc`.
pub struct Engine {
    /// Of the process that opened it.
    mark: Mark,
    pub(crate) inner: Mutex<Inner>,
    pub(crate) wanted: AtomicU32,
    pub(crate) commands: Arc<Commands>,
    pub(crate) ended: Arc<Ended>,
    pub(crate) changed: Condvar,
    /// Where application threads sleep, and where the helper does.
    pub(crate) doze: Doze,
    pub(crate) helper_doze: Doze,
    pub(crate) bell: Bell,
    pub(crate) helper: Helper,
    pub(crate) helper_cpus: HelperCpus,
    pub(crate) offload: Offload,
    pub(crate) crowd: Crowd,
    pub(crate) looks: Looks,
    /// Somebody waits without driving, by futures or by looks at the ring of a queue, and counts on the helper.
    pub(crate) is_watched: AtomicBool,
    /// Who is called when something ended.
    pub(crate) attendance: Attendance,
    pub(crate) spin_ns: u64,
    /// When an application thread last asked without waiting.
    pub(crate) asked_at_ns: AtomicU64,
    /// What the system's clock said when the engine's was 0.
    pub(crate) origin_ns: u64,
    address: Address,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("placement", &self.placement()).finish_non_exhaustive()
    }
}

impl Engine {
    /// The engine's clock.
    #[inline]
    pub fn now(&self) -> Instant {
        Instant(monotonic_ns() - self.origin_ns)
    }

    /// The capability to send to this endpoint.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Who turns it.
    pub fn placement(&self) -> Placement {
        if self.helper.baton.is_present() { Placement::Thread } else { Placement::Inline }
    }

    /// Changes who turns it: starts or resumes the helper, or lets it pause. What peers were told at first contact stays: they
    /// give one that was opened with a helper less time to answer, so a long pause is better opened without.
    pub fn set_placement(self: &Arc<Self>, placement: Placement) -> io::Result<()> {
        match placement {
            Placement::Thread if self.offload == Offload::None => Ok(()),
            Placement::Thread => Helper::start(self),
            Placement::Inline => {
                self.run_errand(self.helper.baton.pause());
                Ok(())
            }
        }
    }

    /// Whether this is the process that opened it. In one that was forked from that, nothing of it may be used: its threads are
    /// not there, its lock may be held by one of them, and its links are the parent's.
    #[inline]
    pub fn is_here(&self) -> bool {
        self.mark.is_here()
    }

    /// # Panics
    /// In a process that was forked from the one that opened it.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Inner> {
        assert!(
            self.is_here(),
            "this endpoint belongs to the process that this one was forked from; open another here"
        );
        if let Some(inner) = self.try_lock() {
            return inner;
        }
        assert!(!loan::is_lent(), "{CALLED_UNDER_LOAN}");
        if !self.commands.are_wanted() {
            self.commands.want();
        }
        self.wanted.fetch_add(1, Ordering::Relaxed);
        let inner = self.inner.lock();
        self.wanted.fetch_sub(1, Ordering::Relaxed);
        inner.unwrap_or_else(|_| broken())
    }

    /// The lock, if nobody has it.
    ///
    /// # Panics
    /// If a thread panicked with it.
    #[inline]
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, Inner>> {
        match self.inner.try_lock() {
            Ok(inner) => Some(inner),
            Err(TryLockError::WouldBlock) => None,
            Err(TryLockError::Poisoned(_)) => broken(),
        }
    }

    /// For posts and what must not overtake one: those that were left come first. Whoever calls this calls `release`.
    pub(crate) fn lock_in_order(&self) -> MutexGuard<'_, Inner> {
        let mut inner = self.lock();
        if self.commands.may_have() {
            inner.run_commands(self.now());
        }
        inner
    }

    /// Unlocks and wakes whom the work woke. Wakers are foreign code: never called under the lock.
    pub(crate) fn release(&self, mut inner: MutexGuard<'_, Inner>) {
        let has_news = std::mem::take(&mut inner.has_news);
        if has_news {
            self.attendance.on_news();
        }
        let sleeper_count = inner.sleeper_count;
        // A turn told the links that nobody sleeps; if somebody does, a link in memory would not wake him.
        let must_knock = inner.is_dozing && (has_news || !inner.core.keep_armed());
        if inner.is_bell_armed {
            self.keep_bell(&mut inner, has_news);
        }
        if inner.wakers.is_empty() {
            drop(inner);
        } else {
            let wakers = std::mem::take(&mut inner.wakers);
            drop(inner);
            wakers.into_iter().for_each(Waker::wake);
        }
        if has_news && sleeper_count > 0 {
            self.changed.notify_all();
        }
        if must_knock {
            self.doze.knock();
        }
    }
}

/// The system's monotonic clock. Read at every turn: plainer than `std::time::Instant`, which checks each subtraction.
#[inline]
pub(crate) fn monotonic_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
