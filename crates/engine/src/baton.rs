//! The baton: who drives, the application's threads or the helper. Only words that both sides read and write; the threads
//! that act on them are in `helper`.
//!
//! ```text
//!          a post, or a thread leaves with requests pending         nobody has driven for a moment
//!   Away ─────────────────────────────────────────────────▶ Near ───────────────────────────────────▶ Driving
//!    ▲ │ looks every 1 to 20 ms                               │ looks every 125 to 250 µs             ▲   │
//!    │ └───────────────────── listens, and a link has something (as from Near) ─────────────────────────┘   │
//!    └─────────────────────── quiet for a while, or a thread drives ◀───────────────────────────────────────┘
//!
//!   Absent: no helper, or one that was told to pause; comes and goes with the placement
//! ```
//!
//! While application threads come and go the helper must not sit on the links: every frame would wake it, beside the thread
//! that waits for that frame. So it stands aside and looks from time to time; only if nobody waits, and nobody drove for a
//! moment ([`GRACE_NS`]), does it take over, and then it sleeps on the links like anybody who waits.
//!
//! **Listening.** A program that computes between its calls (`habit`) wants to be relieved at once. When one of its threads
//! leaves with requests pending it has the helper listen: the links are armed to wake it, whatever its mode, and the first frame
//! that comes makes it drive. That takes a system call for each link, if they were not armed before, and wakes nobody. A
//! thread that comes back leaves the links as they are: at most one frame wakes the helper in vain, and it stands aside.
//!
//! **Ticks** are for programs that come back within microseconds, until one day they do not. Where the helper shares a core
//! with the thread that drives, a look costs that thread some microseconds: one every 50 µs took a third of a stream's
//! bandwidth. So ticks grow while each finds somebody at work, and are short again when one found nobody.
//!
//! **Orderings.** All are `SeqCst` where each side writes its own word and then reads the other's: with less both could miss
//! what the other just wrote, and nobody would drive. `tests::all_orders` tries them all (loom, which knows no total order
//! of such accesses but of fences: there one stands between the two, see `between`).

#[cfg(all(loom, test))]
use loom::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
#[cfg(not(all(loom, test)))]
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};

use std::time::Duration;

use packhorse_proto::Instant;

use crate::habit::Habit;

const AWAY: u8 = 0;
const NEAR: u8 = 1;
const DRIVING: u8 = 2;
const ABSENT: u8 = 3;

/// Away it looks less and less often: with nothing pending there is nothing to be late for but a peer's probe.
const AWAY_TICK_MIN: Duration = Duration::from_millis(1);
const AWAY_TICK_MAX: Duration = Duration::from_millis(20);
/// Who drove so short ago will come again. With 15 µs, and looks every 40, the helper took most frames from a program that only
/// posts for a moment between two waits: 64-byte messages at window 64 fell to half, each process on a core of its own.
const GRACE_NS: u64 = 200_000;
/// The same when a link woke the helper: the program was said to compute.
const SHORT_GRACE_NS: u64 = 10_000;
/// Where the helper shares a core with the thread that drives, each look costs that thread a few microseconds.
const NEAR_TICK_MIN: Duration = Duration::from_micros(125);
const NEAR_TICK_MAX: Duration = Duration::from_micros(250);
/// So many ticks in a row that found somebody at work are short.
const SHORT_TICK_COUNT: u32 = 4;
/// Near without a reason for so long, it goes away.
const NEAR_FOR: Duration = Duration::from_millis(5);

/// What the helper and the application's threads know of each other.
#[derive(Debug)]
pub(crate) struct Baton {
    mode: AtomicU8,
    /// Application threads that wait, and so drive.
    driver_count: AtomicU32,
    /// When one of them drove last, on the engine's clock.
    driven_at_ns: AtomicU64,
    /// Requests were posted, or left pending, since the helper looked.
    is_armed: AtomicBool,
    /// The application has left the links to the helper, and not driven since.
    is_listening: AtomicBool,
    /// The links were armed since one woke the helper.
    are_links_armed: AtomicBool,
    /// Something lies there already: as if a link had woken it.
    is_called: AtomicBool,
    habit: Habit,
}

/// What the caller has to do for the helper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Errand {
    /// Nothing.
    None,
    /// It sleeps and does not know: knock.
    Knock,
}

impl Default for Baton {
    fn default() -> Self {
        Self {
            mode: AtomicU8::new(ABSENT),
            driver_count: AtomicU32::new(0),
            driven_at_ns: AtomicU64::new(0),
            is_armed: AtomicBool::new(false),
            is_listening: AtomicBool::new(false),
            are_links_armed: AtomicBool::new(false),
            is_called: AtomicBool::new(false),
            habit: Habit::default(),
        }
    }
}

/// What the application's threads say.
impl Baton {
    /// A thread begins to wait. There were so many calls since one drove last.
    pub(crate) fn on_enter(&self, now: Instant, call_count: u32) {
        if self.driver_count.fetch_add(1, Ordering::SeqCst) == 0 {
            self.on_back(now, call_count);
        }
        between();
        self.take_over();
    }

    /// It has what it waited for. Said before it has the helper listen.
    pub(crate) fn on_exit(&self, now: Instant) {
        // Relaxed: of the moment it is not much that counts.
        self.driven_at_ns.store(now.0, Ordering::Relaxed);
        self.driver_count.fetch_sub(1, Ordering::SeqCst);
        between();
    }

    /// A thread made a turn, one of many it makes.
    pub(crate) fn on_turn(&self, now: Instant, call_count: u32) {
        self.on_back(now, call_count);
        self.driven_at_ns.store(now.0, Ordering::Relaxed);
        self.take_over();
    }

    /// A thread made a call while the helper drives, so long after the last.
    pub(crate) fn on_call(&self, now: Instant, since_ns: u64) {
        self.habit.on_back(since_ns, 0);
        if !self.habit.computes() {
            self.driven_at_ns.store(now.0, Ordering::Relaxed);
            self.take_over();
        }
    }

    fn on_back(&self, now: Instant, call_count: u32) {
        let absent_ns = now - Instant(self.driven_at_ns.load(Ordering::Relaxed));
        self.habit.on_back(absent_ns, call_count);
        if self.is_listening.load(Ordering::Relaxed) {
            self.is_listening.store(false, Ordering::Relaxed);
        }
    }

    /// A thread leaves, after a post or a turn; or a future waits. Costs a load, if it was said since the last look.
    #[inline]
    pub(crate) fn on_pending(&self, is_pending: bool) -> Errand {
        // A stale `true` is one the helper's swap is about to find: it looks around after that.
        if !is_pending || self.is_armed.load(Ordering::Relaxed) || self.listens() {
            return Errand::None;
        }
        // A swap, as the helper's is: of those one finds what the other left.
        self.is_armed.swap(true, Ordering::SeqCst);
        between();
        if self.mode.load(Ordering::SeqCst) == AWAY { Errand::Knock } else { Errand::None }
    }

    /// The helper, if it drives, is to look around in ticks instead: much will be left to it.
    pub(crate) fn call_near(&self, now: Instant) -> Errand {
        self.driven_at_ns.store(now.0, Ordering::Relaxed);
        let is_ours =
            self.mode.compare_exchange(DRIVING, NEAR, Ordering::SeqCst, Ordering::SeqCst).is_ok();
        if is_ours { Errand::Knock } else { Errand::None }
    }

    /// The helper must not take what others wait for. It sleeps on, and is away: whoever leaves something behind knocks, or has
    /// it listen.
    fn take_over(&self) {
        if self.mode.load(Ordering::SeqCst) != DRIVING {
            return;
        }
        // Only from `DRIVING`: a helper that was told to pause meanwhile stays so.
        let is_ours =
            self.mode.compare_exchange(DRIVING, AWAY, Ordering::SeqCst, Ordering::SeqCst).is_ok();
        if is_ours {
            // What was said while it drove it has not heard.
            self.is_armed.store(false, Ordering::SeqCst);
        }
    }

    /// Whether the application computes between its calls.
    #[inline]
    pub(crate) fn computes(&self) -> bool {
        self.habit.computes()
    }

    /// Whether the helper is to listen when a thread leaves with requests pending.
    #[inline]
    pub(crate) fn wants_to_listen(&self) -> bool {
        self.habit.computes() && matches!(self.mode.load(Ordering::Relaxed), AWAY | NEAR)
    }

    /// The helper is to be woken by the links. True: they must be armed.
    pub(crate) fn listen(&self) -> bool {
        self.is_listening.store(true, Ordering::Relaxed);
        between();
        !self.are_links_armed.swap(true, Ordering::SeqCst)
    }

    /// Something has come before the helper could listen.
    #[cold]
    pub(crate) fn call(&self) -> Errand {
        self.is_called.store(true, Ordering::SeqCst);
        Errand::Knock
    }

    /// Whether the links wake the helper, and nobody has driven since.
    #[inline]
    pub(crate) fn listens(&self) -> bool {
        self.is_listening.load(Ordering::Relaxed)
    }

    /// Whether the helper looks every fraction of a millisecond, beside a program that comes back soon.
    #[inline]
    pub(crate) fn is_near(&self) -> bool {
        self.mode.load(Ordering::Relaxed) == NEAR && !self.habit.computes()
    }

    /// Whether the helper drives.
    #[inline]
    pub(crate) fn is_driving(&self) -> bool {
        self.mode.load(Ordering::Relaxed) == DRIVING
    }

    /// Whether the helper drives, or will when something comes.
    #[inline]
    pub(crate) fn is_in_charge(&self) -> bool {
        self.is_driving() || (self.listens() && self.is_present())
    }

    /// Whether there is a helper that does its work.
    pub(crate) fn is_present(&self) -> bool {
        self.mode.load(Ordering::SeqCst) != ABSENT
    }

    /// The helper is to begin, or to go on.
    pub(crate) fn resume(&self) -> Errand {
        self.is_armed.store(true, Ordering::SeqCst);
        match self.mode.compare_exchange(ABSENT, NEAR, Ordering::SeqCst, Ordering::SeqCst) {
            Ok(_) => Errand::Knock,
            Err(_) => Errand::None,
        }
    }

    /// The helper is to do nothing until it is resumed.
    pub(crate) fn pause(&self) -> Errand {
        match self.mode.swap(ABSENT, Ordering::SeqCst) {
            DRIVING => Errand::Knock,
            _ => Errand::None,
        }
    }
}

/// What the helper remembers from look to look.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    /// Near without a reason since so long.
    quiet: Duration,
    /// Ticks in a row that found somebody at work.
    busy_count: u32,
    away_tick: Duration,
    /// A link woke it, and it has not driven since.
    is_called: bool,
}

/// What a look of the helper leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// Nobody drives: it does.
    Drive,
    /// Look again after this.
    Aside(Duration),
    /// There is nothing to do until somebody resumes it.
    Pause,
}

/// What the helper does.
impl Baton {
    /// A link woke the helper; it looks next.
    pub(crate) fn on_called(&self, notes: &mut Notes) {
        notes.is_called = true;
        self.are_links_armed.store(false, Ordering::SeqCst);
        between();
    }

    pub(crate) fn look(&self, now: Instant, notes: &mut Notes) -> Look {
        if !self.is_present() {
            return Look::Pause;
        }
        let mut is_called = std::mem::take(&mut notes.is_called);
        if self.is_called.load(Ordering::Relaxed) {
            is_called |= self.is_called.swap(false, Ordering::SeqCst);
        }
        is_called &= self.computes(); // else the links were armed before it was known that it does not
        if self.driver_count.load(Ordering::SeqCst) > 0 {
            return self.stand_aside(notes);
        }
        let driven_ago_ns = now - Instant(self.driven_at_ns.load(Ordering::Relaxed));
        let grace_ns = if is_called { SHORT_GRACE_NS } else { GRACE_NS };
        if self.is_driving() || driven_ago_ns >= grace_ns {
            notes.busy_count = 0;
            return Look::Drive;
        }
        if is_called {
            notes.is_called = true;
            return Look::Aside(Duration::from_nanos(grace_ns - driven_ago_ns));
        }
        self.stand_aside(notes)
    }

    /// Somebody else drives. How long to look away.
    fn stand_aside(&self, notes: &mut Notes) -> Look {
        let tick = near_tick(notes.busy_count);
        notes.busy_count = notes.busy_count.saturating_add(1);
        if self.is_armed.swap(false, Ordering::SeqCst) {
            notes.quiet = Duration::ZERO;
        } else {
            notes.quiet = notes.quiet.saturating_add(tick);
        }
        if notes.quiet < NEAR_FOR {
            notes.away_tick = AWAY_TICK_MIN;
            self.go(NEAR);
            return Look::Aside(tick);
        }
        let pause = notes.away_tick.max(AWAY_TICK_MIN);
        notes.away_tick = (pause * 2).min(AWAY_TICK_MAX);
        notes.busy_count = 0;
        self.go(AWAY);
        between();
        // Armed between the swap above and this store: whoever did saw no reason to wake us.
        let is_armed = self.is_armed.load(Ordering::SeqCst);
        Look::Aside(if is_armed { Duration::ZERO } else { pause })
    }

    /// The helper means to drive: true if nobody else has come. Whoever enters before the mode is set cannot change it, and is
    /// seen here; whoever enters after it does.
    pub(crate) fn begin_driving(&self) -> bool {
        self.go(DRIVING);
        between();
        if self.driver_count.load(Ordering::SeqCst) == 0 {
            return self.is_driving();
        }
        self.stop_driving();
        false
    }

    pub(crate) fn stop_driving(&self) {
        self.go(NEAR);
    }

    /// The helper changes its mode, unless it was told to pause.
    fn go(&self, to: u8) {
        let mut from = self.mode.load(Ordering::SeqCst);
        while from != ABSENT && from != to {
            match self.mode.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => return,
                Err(now) => from = now,
            }
        }
    }
}

/// Between one's own word and the other's. The accesses around it are ordered by themselves; loom must be told.
#[inline]
fn between() {
    #[cfg(all(loom, test))]
    loom::sync::atomic::fence(Ordering::SeqCst);
}

fn near_tick(busy_count: u32) -> Duration {
    let doublings = busy_count.saturating_sub(SHORT_TICK_COUNT - 1).min(8);
    (NEAR_TICK_MIN * (1 << doublings)).min(NEAR_TICK_MAX)
}

#[cfg(test)]
mod tests;
