//! The engine: a core behind a lock, requests that can be waited for, and who drives.
//!
//! One lock, held by whoever drives for as long as nobody else wants it. A thread that wants it says so (`wanted`), and the
//! driver lets it in after the turn it is in: the lock itself is not fair, a spinning driver would win it every time.
//!
//! What the application posts is in `posts`, beside somebody's turn in `beside`, for queues in `queued`; what can be asked of peers and links in
//! `peers`, how an endpoint ends in `closing`. How it is opened is in `opening`, who waits in `waiting`, who drives when nobody waits in `helping`.

mod attending;
mod beside;
mod closing;
mod peers;
mod posts;
mod queued;

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, TryLockError};
use std::task::Waker;

use packhorse_link::fork::Mark;
use packhorse_link::loan;
use packhorse_proto::{Address, Identity, Instant, Limits, Settings};

use crate::attend::Attendance;
use crate::baton::Errand;
use crate::bell::Bell;
use crate::commands::Commands;
use crate::copies::CopyOffload;
use crate::crowd::Crowd;
use crate::doze::Doze;
use crate::duties::Offload;
use crate::helper::{Helper, HelperCpus};
use crate::inner::Inner;
use crate::looks::Looks;
use crate::requests::Ended;
use crate::time::monotonic_ns;

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
    pub(crate) mark: Mark,
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
    pub(crate) address: Address,
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

    /// The lock is given up while somebody sleeps in a loop of its own, or is about to: it is rung for news. A turn made meanwhile
    /// has told the links that nobody sleeps; somebody does.
    #[cold]
    pub(crate) fn keep_bell(&self, inner: &mut Inner, has_news: bool) {
        let must_ring = has_news || (!self.helper.baton.is_present() && !inner.core.arm());
        if must_ring {
            inner.is_bell_armed = false;
            self.bell.ring();
        }
    }

    /// What the baton asks for.
    #[inline]
    pub(crate) fn run_errand(&self, errand: Errand) {
        match errand {
            Errand::None => {}
            Errand::Unpark => self.helper.unpark(),
            Errand::Knock => self.helper_doze.knock(),
        }
    }

    /// Whether somebody waits for what only a driver brings about: a message is to be granted, or is more than a socket holds; a peer may use
    /// memory that is exposed here; a thread waits without driving; somebody is to be called. What else is pending waits in a socket until the application comes for it.
    pub(crate) fn needs_driver(&self, inner: &Inner) -> bool {
        inner.requests.are_heavy() || self.is_reached_for(inner)
    }

    /// Whether peers may use memory of ours, or somebody waits who does not drive.
    fn is_reached_for(&self, inner: &Inner) -> bool {
        let is_watched = self.is_watched.load(Ordering::Relaxed);
        inner.has_regions()
            || inner.core.endpoint_seen().portals_seen().is_open()
            || (is_watched && inner.requests.pending_count() > 0)
            || self.attendance.is_called()
    }

    /// Whether somebody is to be woken.
    pub(crate) fn is_awaited(&self, inner: &Inner) -> bool {
        inner.is_bell_armed || inner.streams.are_there()
    }

    /// Whether nothing is late but long messages of this host if the helper looks from afar (`baton`).
    pub(crate) fn lets_helper_stay_afar(&self, inner: &Inner, now: Instant) -> bool {
        inner.core.has_peers_here_alone(now)
            && !self.is_reached_for(inner)
            && !self.is_awaited(inner)
            && !inner.core.has_output()
    }

    /// Whether who leaves leaves something behind for which the helper should be near.
    pub(crate) fn wants_helper_near(&self, inner: &Inner, now: Instant) -> bool {
        self.needs_driver(inner) && !self.lets_helper_stay_afar(inner, now)
    }

    /// Somebody looked at the ring of a queue in vain, and drove nothing.
    #[inline]
    pub(crate) fn on_watched(&self) {
        if !self.is_watched.load(Ordering::Relaxed) {
            self.is_watched.store(true, Ordering::Relaxed);
            self.run_errand(self.helper.baton.on_pending(true));
        }
    }

    /// Whether somebody will turn the core within a fraction of a millisecond. Without a helper nobody promises that: the
    /// application may go and wait for something else, for what its own message is to bring about.
    pub(crate) fn is_driven_soon(&self, inner: &Inner) -> bool {
        !inner.is_dozing && self.helper.baton.is_near()
    }
}
