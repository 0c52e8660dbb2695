//! The baton: who drives, the application's threads or the helper. Only words that both sides read and write; the threads
//! that act on them are in `helper`.
//!
//! ```text
//!            something is left that needs a driver                     nobody has driven for a moment
//!   Away ────────────────────────────────────────────────▶ Near ────────────────────────────────────▶ Driving
//!    ▲  looks every 4 to 8 ms                               │ ▲ looks when the fuse has burnt          │
//!    │                                                      │ │ or every 125 to 500 µs                 │
//!    └──────────── quiet for a while ───────────────────────┘ └──── a thread waits (knock), or posts ──┘
//!                                                                  what needs no driver
//!
//!   Absent: no helper, or one that was told to pause; comes and goes with the placement
//! ```
//!
//! While application threads come and go the helper must not sit on the links: every frame would wake it, beside the thread
//! that waits for that frame. So it stands aside; only if nobody waits, and nobody drove for a moment, does it take over, and
//! then it sleeps on the links like anybody who waits.
//!
//! **What needs a driver** is decided by the engine (`Engine::needs_driver`, `Engine::errand_of_post`): a message that stands still until it is
//! granted, frames that have not left, memory that peers use, threads that wait without driving. For all else the sockets are the
//! helper: a short message lies there until the application comes for it, and only if nobody drives for some milliseconds does the
//! helper acknowledge it, lest it be sent again. On a machine whose cores are all taken by ranks each look takes six microseconds from one of them:
//! a helper that looked and drove for everything made application kernels slower by a tenth.
//!
//! **The fuse.** A program that computes between its calls wants to be relieved at once. Beside one that does (`computes`),
//! whoever may be leaving, by a post or with requests pending, wakes the helper, which waits for the length of a fuse
//! ([`FUSE`]) and takes over if there was no call meanwhile. Whether that was right shows later: somebody who is back within
//! moments, or was there all the while, had not gone to compute, and after a few of those no fuse is lit for this program any
//! more, for each costs a core some ten microseconds. Who stays away for longer is one who computes. Of long messages and
//! of short ones that is learned apart: a program that leaves long ones behind often has many short ones between, which it
//! waits for, and a short one has little to be relieved of.
//!
//! **Ticks** are for programs that come back within microseconds, until one day they do not. Where the helper shares a core
//! with the thread that drives, a look costs that thread some microseconds: one every 50 µs took a third of a stream's
//! bandwidth, and one every 250 µs 2 % of a core. So ticks are long, and grow while each finds somebody at work, until one finds that nobody is. They are longest beside a thread that has asked in
//! vain for long and dozes between its questions.
//!
//! **On one host.** What comes through memory lies there until the application comes for it: nobody sends it again, and to copy it costs the same
//! whoever does it. So beside a program all of whose messages come by memory the helper stays *afar*: no fuses, no short ticks. It looks within
//! some milliseconds of a long message's post, and less and less where none was posted.
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

const AWAY: u8 = 0;
const NEAR: u8 = 1;
const DRIVING: u8 = 2;
const ABSENT: u8 = 3;

/// No fuse; one for what is known of short messages, or of long ones.
const OUT: u8 = 0;
const SHORT: u8 = 1;
const LONG: u8 = 2;

/// Away it looks less and less often: with nothing pending there is nothing to be late for but a peer's probe. Where ranks fill the cores each look takes
/// a core from one of them, and the system may leave that one waiting for longer than the look takes: with a look every 2 ms inner loops of programs were slower by
/// 6 to 20 %, over a network as through memory.
const AWAY_TICK_MIN: Duration = Duration::from_millis(4);
const AWAY_TICK_MAX: Duration = Duration::from_millis(8);
/// Where ways to a peer are being asked for.
const SETTLING_TICK: Duration = Duration::from_millis(1);
/// Beside a program all of whose messages come by memory, and that has posted no long one since.
const AFAR_TICK_MAX: Duration = Duration::from_millis(32);
/// From the call that may have been the last to the take-over: with the two wake-ups beside it below 40 µs. Calls that come
/// while it burns light it again, so often.
const FUSE: Duration = Duration::from_micros(10);
const FUSE_COUNT_MAX: u32 = 4;
/// An application that is back sooner than this after a take-over had not gone to compute.
const ABSENCE_NS_MIN: u64 = 60_000;
/// So many fuses in a row were lit in vain: no more are.
const VAIN_COUNT_MAX: u32 = 4;
/// An application that drove so short a time ago will come again, and no fuse is lit. With 15 µs, and looks every 40, the helper took most frames from a program that only
/// posts for a moment between two waits: 64-byte messages at window 64 fell to half, each process on a core of its own.
const GRACE_NS: u64 = 200_000;
/// An application that drove so short a time ago will come again, if nothing is pending: what comes unasked may lie for as long, and a program that computes between its messages, not
/// behind them, need not send the helper away each time.
const IDLE_GRACE_NS: u64 = 3_000_000;
/// Where the helper shares a core with the thread that drives, each look costs that thread a few microseconds.
const NEAR_TICK_MIN: Duration = Duration::from_micros(125);
const NEAR_TICK_MAX: Duration = Duration::from_micros(500);
/// So many ticks in a row that found somebody at work are short.
const SHORT_TICK_COUNT: u32 = 4;
/// Near without a reason for so long, it goes away.
const NEAR_FOR: Duration = Duration::from_millis(1);

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
    /// What was learned of those who leave behind short messages, and of those who leave long ones.
    habits: [Habit; 2],
    /// A long message is among what was left.
    left_long: AtomicBool,
    /// Somebody may have left: a fuse is lit, or the helper has taken over.
    fuse: AtomicU8,
    /// When the helper took over last; or since when nobody had driven, if that was not for a fuse.
    away_since_ns: AtomicU64,
    /// The thread that drives has asked in vain for long: the helper's ticks may be long.
    is_patient: AtomicBool,
    /// The helper looks away for longer than `AWAY_TICK_MAX`.
    is_afar: AtomicBool,
}

/// Whether the program computes between its calls. Nothing here has an order: a mistake costs a little time.
#[derive(Debug)]
struct Habit {
    /// The program was seen to compute, or nothing is known that speaks against it.
    computes: AtomicBool,
    /// Fuses lit in vain, in a row.
    vain_count: AtomicU32,
}

impl Default for Habit {
    fn default() -> Self {
        Self { computes: AtomicBool::new(true), vain_count: AtomicU32::new(0) }
    }
}

impl Habit {
    fn learn(&self, computed: bool) {
        let vain_count = match computed {
            true => 0,
            false => self.vain_count.load(Ordering::Relaxed).saturating_add(1),
        };
        self.vain_count.store(vain_count, Ordering::Relaxed);
        let computes = vain_count < VAIN_COUNT_MAX;
        if self.computes.load(Ordering::Relaxed) != computes {
            self.computes.store(computes, Ordering::Relaxed);
        }
    }
}

/// What the caller has to do for the helper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Errand {
    /// Nothing.
    None,
    /// The helper looks away: unpark it.
    Unpark,
    /// The helper sleeps on the links: knock.
    Knock,
}

impl Default for Baton {
    fn default() -> Self {
        Self {
            mode: AtomicU8::new(ABSENT),
            driver_count: AtomicU32::new(0),
            driven_at_ns: AtomicU64::new(0),
            is_armed: AtomicBool::new(false),
            habits: Default::default(),
            left_long: AtomicBool::new(false),
            fuse: AtomicU8::new(OUT),
            away_since_ns: AtomicU64::new(0),
            is_patient: AtomicBool::new(false),
            is_afar: AtomicBool::new(false),
        }
    }
}

/// What the application's threads say.
impl Baton {
    /// A thread begins to wait.
    pub(crate) fn on_enter(&self, now: Instant) -> Errand {
        self.driver_count.fetch_add(1, Ordering::SeqCst);
        between();
        self.take_over(now)
    }

    /// The application has what it waited for. `was_long`: its wait was so long that waking the helper costs little beside it.
    pub(crate) fn on_exit(&self, now: Instant, is_pending: bool, was_long: bool) -> Errand {
        // Relaxed: of the moment it is not much that counts.
        self.driven_at_ns.store(now.0, Ordering::Relaxed);
        self.driver_count.fetch_sub(1, Ordering::SeqCst);
        match is_pending {
            true if was_long => self.light(self.left_long.load(Ordering::Relaxed)),
            true => self.on_post(true),
            false => Errand::None,
        }
    }

    /// A thread made a turn, one of many it makes.
    pub(crate) fn on_turn(&self, now: Instant, is_pending: bool) -> Errand {
        match self.on_look(now) {
            Errand::None => self.on_left(is_pending),
            knock => knock, // the helper looks around on its own then
        }
    }

    /// A thread wants the helper near: not on the links, and looking around.
    pub(crate) fn on_call(&self, now: Instant) -> Errand {
        match self.on_look(now) {
            Errand::None => self.on_pending(true),
            knock => knock,
        }
    }

    /// A thread looked in vain, once of many times; of what is left behind it speaks when something happened, or a while later.
    #[inline]
    pub(crate) fn on_look(&self, now: Instant) -> Errand {
        self.driven_at_ns.store(now.0, Ordering::Relaxed);
        self.take_over(now)
    }

    /// A thread leaves after a post, and may be gone for long. Costs two loads if one did so a moment ago.
    #[inline]
    pub(crate) fn on_post(&self, is_long: bool) -> Errand {
        if is_long && !self.left_long.load(Ordering::Relaxed) {
            self.left_long.store(true, Ordering::Relaxed);
        }
        if !self.habits[usize::from(is_long)].computes.load(Ordering::Relaxed) {
            return self.on_left(true);
        }
        let fuse = self.fuse.load(Ordering::Relaxed);
        if fuse == OUT || (is_long && fuse == SHORT) {
            return self.light(is_long);
        }
        if !self.is_armed.load(Ordering::Relaxed) {
            self.is_armed.store(true, Ordering::Relaxed); // the fuse burns anew
        }
        Errand::None
    }

    /// A thread leaves after the post of a long message, and beside it the helper may stay afar.
    pub(crate) fn on_post_afar(&self) -> Errand {
        if self.is_armed.load(Ordering::Relaxed) {
            return Errand::None; // as in `on_pending`
        }
        self.is_armed.swap(true, Ordering::SeqCst);
        between();
        if self.is_afar.load(Ordering::SeqCst) { Errand::Unpark } else { Errand::None }
    }

    /// Lights the fuse. One that burns for a short message becomes one for the long message that follows, and burns anew: what
    /// its end would show is of the call before.
    fn light(&self, is_long: bool) -> Errand {
        self.is_armed.store(true, Ordering::SeqCst);
        let before = self.fuse.swap(if is_long { LONG } else { SHORT }, Ordering::SeqCst);
        between();
        if before != OUT {
            return Errand::None; // whoever lit it woke the helper, which will look, and sees which it is
        }
        match self.mode.load(Ordering::SeqCst) {
            AWAY | NEAR => Errand::Unpark,
            _ => Errand::None,
        }
    }

    /// A thread leaves after a turn or a post. A program that was back at once each time will be so again: the helper is not called near,
    /// where each look costs a core some microseconds, and finds out at its next look from afar if it is not.
    #[inline]
    fn on_left(&self, is_pending: bool) -> Errand {
        match self.habits[1].computes.load(Ordering::Relaxed) {
            true => self.on_pending(is_pending),
            false => Errand::None,
        }
    }

    /// Somebody waits who does not drive. Costs a load, if it was said since the last look.
    #[inline]
    pub(crate) fn on_pending(&self, is_pending: bool) -> Errand {
        // A stale `true` is one the helper's swap is about to find: it looks around after that.
        if !is_pending || self.is_armed.load(Ordering::Relaxed) {
            return Errand::None;
        }
        // A swap, as the helper's is: of those one finds what the other left.
        self.is_armed.swap(true, Ordering::SeqCst);
        between();
        if self.mode.load(Ordering::SeqCst) == AWAY { Errand::Unpark } else { Errand::None }
    }

    /// Whether a thread that asks in a loop of its own has done so in vain for long. Relaxed: all that hangs on it is how soon the
    /// helper looks again.
    #[inline]
    pub(crate) fn be_patient(&self, is_patient: bool) {
        if self.is_patient.load(Ordering::Relaxed) != is_patient {
            self.is_patient.store(is_patient, Ordering::Relaxed);
        }
    }

    /// The helper must not be woken by what others wait for.
    #[inline]
    fn take_over(&self, now: Instant) -> Errand {
        if self.mode.load(Ordering::SeqCst) != DRIVING {
            return Errand::None;
        }
        self.take_from_helper(now)
    }

    #[cold]
    fn take_from_helper(&self, now: Instant) -> Errand {
        // Only from `DRIVING`: a helper that was told to pause meanwhile stays so.
        let is_ours =
            self.mode.compare_exchange(DRIVING, NEAR, Ordering::SeqCst, Ordering::SeqCst).is_ok();
        if !is_ours {
            return Errand::None;
        }
        let absent_ns = now - Instant(self.away_since_ns.load(Ordering::Relaxed));
        self.fuse.store(OUT, Ordering::SeqCst);
        let left_long = self.left_long.swap(false, Ordering::Relaxed);
        self.habits[usize::from(left_long)].learn(absent_ns >= ABSENCE_NS_MIN);
        Errand::Knock
    }

    /// Whether the helper looks every fraction of a millisecond.
    #[inline]
    pub(crate) fn is_near(&self) -> bool {
        self.mode.load(Ordering::Relaxed) == NEAR
    }

    /// Whether the helper drives.
    #[inline]
    pub(crate) fn is_driving(&self) -> bool {
        self.mode.load(Ordering::Relaxed) == DRIVING
    }

    /// Whether there is a helper that does its work.
    pub(crate) fn is_present(&self) -> bool {
        self.mode.load(Ordering::SeqCst) != ABSENT
    }

    /// The helper is to begin, or to go on.
    pub(crate) fn resume(&self) -> Errand {
        self.is_armed.store(true, Ordering::SeqCst);
        match self.mode.compare_exchange(ABSENT, NEAR, Ordering::SeqCst, Ordering::SeqCst) {
            Ok(_) => Errand::Unpark,
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

/// How late the helper's looks may be beside an application that drives by itself now and then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Patience {
    /// A peer was met just now, and ways to it are being asked for: each question and each answer waits for a look, if both ends compute. Until the best way is
    /// known, messages go by others.
    Short,
    /// Nothing is known that would be late.
    #[default]
    Usual,
    /// All messages come by memory, and nobody else waits for what the helper may do.
    Long,
}

/// What a look asks of the engine, if it must know.
pub(crate) trait Around {
    /// Whether the application has something to be relieved of.
    fn is_pending(&self) -> bool;

    /// How late its looks may be. `None`: somebody is inside, who cannot be disturbed.
    fn patience(&self) -> Option<Patience>;
}

/// What the helper remembers from look to look.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    /// As far as is known.
    patience: Patience,
    /// Near without a reason since so long.
    quiet: Duration,
    /// Ticks that found somebody at work since one found something to do.
    busy_count: u32,
    away_tick: Duration,
    /// Which fuse burns, if one does, seen first when, and how often it was lit anew.
    lit: Option<(u8, Instant)>,
    fuse_count: u32,
}

/// What a look of the helper leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// Nobody drives, so the helper does. The application has been away since then.
    Drive(Instant),
    /// The helper drives already, and goes on.
    GoOn,
    /// Look again after this.
    Aside(Duration),
    /// There is nothing to do until somebody resumes it.
    Pause,
}

/// What the helper does.
impl Baton {
    /// Whether something is pending is asked only if nobody seems to drive.
    pub(crate) fn look(&self, now: Instant, notes: &mut Notes, around: &impl Around) -> Look {
        if !self.is_present() {
            return Look::Pause;
        }
        let fuse = self.fuse.load(Ordering::SeqCst);
        if self.driver_count.load(Ordering::SeqCst) > 0 {
            return self.put_out(fuse, notes, around);
        }
        let driven_at = Instant(self.driven_at_ns.load(Ordering::Relaxed));
        if self.is_driving() {
            return Look::GoOn;
        }
        if fuse != OUT {
            return self.look_at_fuse(fuse, (now, driven_at), notes, around);
        }
        let driven_ago_ns = now - driven_at;
        if driven_ago_ns < GRACE_NS {
            return self.stand_aside(notes, around);
        }
        if around.is_pending() {
            notes.busy_count = 0;
        } else if driven_ago_ns < IDLE_GRACE_NS {
            return self.stand_aside(notes, around);
        } else {
            self.left_long.store(false, Ordering::Relaxed); // it was waited for
        }
        Look::Drive(driven_at)
    }

    /// Somebody may have left.
    fn look_at_fuse(
        &self,
        fuse: u8,
        (now, driven_at): (Instant, Instant),
        notes: &mut Notes,
        around: &impl Around,
    ) -> Look {
        let fuse_ns = FUSE.as_nanos() as u64;
        let Some((_, lit_at)) = notes.lit.filter(|&(seen, _)| seen == fuse) else {
            (notes.lit, notes.fuse_count) = (Some((fuse, now)), 0);
            self.is_armed.store(false, Ordering::SeqCst);
            self.go(NEAR);
            return Look::Aside(FUSE);
        };
        if driven_at > lit_at {
            return self.put_out(fuse, notes, around);
        }
        if now - lit_at < fuse_ns {
            return Look::Aside(Duration::from_nanos(fuse_ns - (now - lit_at)));
        }
        if notes.fuse_count < FUSE_COUNT_MAX && self.is_armed.swap(false, Ordering::SeqCst) {
            (notes.lit, notes.fuse_count) = (Some((fuse, now)), notes.fuse_count + 1);
            return Look::Aside(FUSE);
        }
        // What was posted has ended meanwhile, or its poster is inside: whether it leaves or not, there is nothing to relieve it of.
        if !around.is_pending() {
            return self.put_out(fuse, notes, around);
        }
        (notes.lit, notes.busy_count) = (None, 0);
        Look::Drive(now)
    }

    /// Somebody else drives: the fuse, if one was lit, was so in vain.
    fn put_out(&self, fuse: u8, notes: &mut Notes, around: &impl Around) -> Look {
        if fuse == OUT {
            return self.stand_aside(notes, around);
        }
        if self.fuse.compare_exchange(fuse, OUT, Ordering::SeqCst, Ordering::SeqCst).is_err() {
            return Look::Aside(Duration::ZERO); // another has been lit meanwhile, by somebody who counts on this look
        }
        if fuse == LONG {
            self.left_long.store(false, Ordering::Relaxed);
        }
        self.habits[usize::from(fuse == LONG)].learn(false);
        self.stand_aside(notes, around)
    }

    /// Somebody else drives. How long to look away.
    fn stand_aside(&self, notes: &mut Notes, around: &impl Around) -> Look {
        notes.lit = None;
        notes.patience = around.patience().unwrap_or(notes.patience);
        let stays_afar = notes.patience == Patience::Long;
        let (shortest, longest) = match notes.patience {
            Patience::Short => (SETTLING_TICK, SETTLING_TICK),
            Patience::Usual => (AWAY_TICK_MIN, AWAY_TICK_MAX),
            Patience::Long => (AWAY_TICK_MIN, AFAR_TICK_MAX),
        };
        // Beside who waits for something that does not come it is late for nothing, too, but if he turned to something else.
        let may_be_late = self.is_patient.load(Ordering::Relaxed) || stays_afar;
        let tick = if may_be_late { shortest } else { near_tick(notes.busy_count) };
        notes.busy_count = notes.busy_count.saturating_add(1);
        if self.is_armed.swap(false, Ordering::SeqCst) {
            (notes.quiet, notes.away_tick) = (Duration::ZERO, Duration::ZERO);
        } else {
            notes.quiet = notes.quiet.saturating_add(tick);
        }
        if notes.quiet < NEAR_FOR && !stays_afar {
            notes.away_tick = Duration::ZERO;
            self.go(NEAR);
            return Look::Aside(tick);
        }
        let pause = notes.away_tick.clamp(shortest, longest);
        notes.away_tick = (pause * 2).min(longest);
        self.is_afar.store(pause > AWAY_TICK_MAX, Ordering::SeqCst);
        self.go(AWAY);
        between();
        // Armed between the swap above and this store: whoever did saw no reason to wake us.
        let is_armed = self.is_armed.load(Ordering::SeqCst);
        Look::Aside(if is_armed { Duration::ZERO } else { pause })
    }

    /// The helper means to drive: true if nobody else has come. Whoever enters before the mode is set cannot knock, and is
    /// seen here; whoever enters after it will. Who took over meanwhile and is gone again (a post, a turn) is seen by `go_on`.
    pub(crate) fn begin_driving(&self, away_since: Instant) -> bool {
        self.away_since_ns.store(away_since.0, Ordering::Relaxed);
        self.go(DRIVING);
        self.go_on()
    }

    /// A helper that drives already means to go on: true if nobody else has come.
    pub(crate) fn go_on(&self) -> bool {
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
