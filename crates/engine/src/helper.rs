//! Placement `thread`: a helper that drives when nobody else does.
//!
//! ```text
//!            application leaves with requests pending                nobody drove for a whole tick
//!   Away ────────────────────────────────────────────▶ Near ────────────────────────────────────▶ Driving
//!    ▲  looks every 1 to 20 ms                          │ ▲ looks every 250 µs                     │
//!    └──────────── quiet for a while ───────────────────┘ └──── application drives (knock) ──────────┘
//! ```
//!
//! While application threads come and go the helper must not sit on the links: every frame would wake it, beside the
//! thread that waits for that frame. So it stands aside and looks from time to time; only if a whole interval passed
//! without anybody driving does it take over, and then it sleeps on the links like anybody who waits. Entering and leaving
//! cost the application two atomic operations; a system call only on a change of mode.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::thread::{self, JoinHandle, Thread};
use std::time::Duration;

use crate::doze::Doze;
use crate::engine::Engine;
use crate::waiting::sleep_ns;

const AWAY: u8 = 0;
const NEAR: u8 = 1;
const DRIVING: u8 = 2;
/// There is no helper.
const ABSENT: u8 = 3;

/// Away it looks less and less often: with nothing pending there is nothing to be late for but a peer's probe.
const AWAY_TICK_MIN: Duration = Duration::from_millis(1);
const AWAY_TICK_MAX: Duration = Duration::from_millis(20);
/// Where the helper shares a core with the thread that drives, each look costs that thread a few microseconds: every 50 µs
/// took a third of a stream's bandwidth.
const NEAR_TICK: Duration = Duration::from_micros(250);
/// Looks without a reason to stay near before it goes away.
const NEAR_TICK_COUNT: u32 = 20;

/// What the helper and the application's threads know of each other.
#[derive(Debug)]
pub(crate) struct Helper {
    mode: AtomicU8,
    /// Application threads that wait, and so drive.
    driver_count: AtomicU32,
    /// Grows whenever one of them leaves.
    epoch: AtomicU32,
    /// One left with requests pending.
    is_armed: AtomicBool,
    is_over: AtomicBool,
    thread: OnceLock<Thread>,
    handle: Mutex<Option<JoinHandle<()>>>,
}

impl Default for Helper {
    fn default() -> Self {
        Self {
            mode: AtomicU8::new(ABSENT),
            driver_count: AtomicU32::new(0),
            epoch: AtomicU32::new(0),
            is_armed: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            thread: OnceLock::new(),
            handle: Mutex::new(None),
        }
    }
}

/// What the application's threads call. All orderings are `SeqCst` where each side writes its own word and then reads the
/// other's: with less both could miss what the other just wrote, and nobody would drive.
impl Helper {
    /// A thread begins to wait.
    pub(crate) fn on_enter(&self, doze: &Doze) {
        self.driver_count.fetch_add(1, Ordering::SeqCst);
        self.stop_driving(doze);
    }

    /// It has what it waited for.
    pub(crate) fn on_exit(&self, is_pending: bool) {
        self.driver_count.fetch_sub(1, Ordering::SeqCst);
        self.on_leave(is_pending);
    }

    /// A thread made a turn.
    pub(crate) fn on_drive(&self, doze: &Doze) {
        self.epoch.fetch_add(1, Ordering::SeqCst);
        self.stop_driving(doze);
    }

    /// A thread leaves the engine to itself.
    pub(crate) fn on_leave(&self, is_pending: bool) {
        self.epoch.fetch_add(1, Ordering::SeqCst);
        if is_pending && !self.is_armed.load(Ordering::Relaxed) {
            self.is_armed.store(true, Ordering::SeqCst);
            if self.mode.load(Ordering::SeqCst) == AWAY {
                self.unpark();
            }
        }
    }

    /// Whether it looks every few tens of microseconds.
    pub(crate) fn is_near(&self) -> bool {
        self.mode.load(Ordering::Relaxed) == NEAR
    }

    /// It sleeps on the links: it must not be woken by what others wait for.
    fn stop_driving(&self, doze: &Doze) {
        if self.mode.load(Ordering::SeqCst) == DRIVING {
            self.mode.store(NEAR, Ordering::SeqCst);
            doze.knock();
        }
    }

    fn unpark(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }

    /// The engine goes: so does the helper.
    pub(crate) fn end(&self, doze: &Doze) {
        self.is_over.store(true, Ordering::SeqCst);
        doze.knock();
        self.unpark();
        let handle = self.handle.lock().unwrap_or_else(PoisonError::into_inner).take();
        // A waker may drop the last endpoint, and wakers are called by the helper, too: it cannot wait for itself.
        if let Some(handle) = handle.filter(|handle| handle.thread().id() != thread::current().id())
        {
            let _ = handle.join(); // a helper that panicked has ended as well
        }
    }

    /// Starts the thread. It holds the engine only while it looks or drives, so that an engine nobody owns ends.
    pub(crate) fn start(engine: &Arc<Engine>) -> io::Result<()> {
        engine.helper.mode.store(AWAY, Ordering::SeqCst);
        let weak = Arc::downgrade(engine);
        let handle = thread::Builder::new().name("packhorse".into()).spawn(move || run(&weak))?;
        let _ = engine.helper.thread.set(handle.thread().clone());
        *engine.helper.handle.lock().unwrap_or_else(PoisonError::into_inner) = Some(handle);
        Ok(())
    }
}

/// What the helper remembers from look to look.
#[derive(Default)]
struct Memory {
    epoch: u32,
    quiet_count: u32,
    away_tick: Duration,
}

fn run(engine: &Weak<Engine>) {
    // Ticks are meant as they are written: the default slack would double them.
    let _ = rustix::thread::set_current_timer_slack(Some(1_000.try_into().expect("not zero")));
    let mut memory = Memory::default();
    while let Some(engine) = engine.upgrade() {
        if engine.helper.is_over.load(Ordering::SeqCst) {
            return;
        }
        let pause = if engine.helper.is_somebody_driving(&mut memory) {
            engine.helper.stand_aside(&mut memory)
        } else {
            engine.drive_as_helper();
            Duration::ZERO
        };
        drop(engine);
        if !pause.is_zero() {
            thread::park_timeout(pause);
        }
    }
}

impl Helper {
    fn is_somebody_driving(&self, memory: &mut Memory) -> bool {
        let epoch = self.epoch.load(Ordering::SeqCst);
        let has_changed = std::mem::replace(&mut memory.epoch, epoch) != epoch;
        has_changed || self.driver_count.load(Ordering::SeqCst) > 0
    }

    /// How long to look away.
    fn stand_aside(&self, memory: &mut Memory) -> Duration {
        if self.is_armed.swap(false, Ordering::SeqCst) {
            memory.quiet_count = 0;
        } else {
            memory.quiet_count = memory.quiet_count.saturating_add(1);
        }
        if memory.quiet_count < NEAR_TICK_COUNT {
            self.mode.store(NEAR, Ordering::SeqCst);
            memory.away_tick = AWAY_TICK_MIN;
            return NEAR_TICK;
        }
        let pause = memory.away_tick.max(AWAY_TICK_MIN);
        memory.away_tick = (pause * 2).min(AWAY_TICK_MAX);
        self.mode.store(AWAY, Ordering::SeqCst);
        // Armed between the swap above and this store: whoever did saw no reason to wake us.
        if self.is_armed.load(Ordering::SeqCst) { Duration::ZERO } else { pause }
    }
}

impl Engine {
    /// Drives until an application thread does, then returns; or for as long as there is work, then sleeps once.
    fn drive_as_helper(&self) {
        self.helper.mode.store(DRIVING, Ordering::SeqCst);
        let mut inner = self.lock();
        // Whoever entered before the store above could not knock; whoever enters after it will.
        if self.helper.driver_count.load(Ordering::SeqCst) > 0 || inner.is_dozing {
            self.helper.mode.store(NEAR, Ordering::SeqCst);
            return;
        }
        let now = self.now();
        let work = inner.turn(now);
        inner.core.counters_mut().turns_of_helper += 1;
        let pause_ns = if work > 0 || !inner.core.arm() { 0 } else { sleep_ns(&inner, now) };
        self.doze.announce(now, pause_ns);
        self.release(inner);
        if pause_ns > 0 {
            self.doze.sleep(pause_ns);
        }
    }
}
