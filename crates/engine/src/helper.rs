//! Placement `thread`: a helper that drives when nobody else does. When it does, the `baton` says.
//!
//! It holds the engine only while it looks or drives, so that an engine nobody owns ends. It takes no signals: they
//! belong to the application. It may run on any core its group has, whatever the thread that opened the engine was
//! bound to: where ranks are bound to a core each, a helper beside its rank would take the time it is to save.

use std::io;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use packhorse_link::{ask_for_slices, with_signals_blocked};
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::baton::{Baton, Errand, Look, Notes};
use crate::ear::Ear;
use crate::engine::{Engine, Inner};
use crate::waiting::sleep_ns;

/// Which cores the helper may use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum HelperCpus {
    /// All that the process's group has, whatever the opening thread is bound to.
    #[default]
    All,
    /// Those of the thread that opens the engine.
    Inherit,
    /// These.
    Only(Vec<usize>),
}

impl HelperCpus {
    /// For the calling thread. What the system does not allow is left as it was: a helper on other cores is better than none.
    fn apply(&self) {
        let mut cpus = CpuSet::new();
        match self {
            Self::Inherit => return,
            Self::All => (0..CpuSet::MAX_CPU).for_each(|cpu| cpus.set(cpu)),
            Self::Only(list) => {
                list.iter().filter(|&&cpu| cpu < CpuSet::MAX_CPU).for_each(|&cpu| cpus.set(cpu));
            }
        }
        let _ = sched_setaffinity(None, &cpus);
    }
}

/// The helper's thread, if it was ever started.
#[derive(Debug, Default)]
pub(crate) struct Helper {
    pub(crate) baton: Baton,
    is_over: AtomicBool,
    handle: Mutex<Option<JoinHandle<()>>>,
}

impl Helper {
    /// Starts the thread, or lets it go on.
    pub(crate) fn start(engine: &Arc<Engine>) -> io::Result<()> {
        let helper = &engine.helper;
        let mut handle = helper.handle.lock().unwrap_or_else(PoisonError::into_inner);
        if handle.is_none() {
            let (weak, cpus) = (Arc::downgrade(engine), engine.helper_cpus.clone());
            let ear = Arc::clone(&engine.ear);
            let builder = thread::Builder::new().name("packhorse".into());
            // Blocked before it begins: it inherits that.
            let new = with_signals_blocked(|| builder.spawn(move || run(&weak, &ear, &cpus)))?;
            *handle = Some(new);
        }
        drop(handle);
        engine.run_errand(helper.baton.resume());
        Ok(())
    }

    /// The engine goes: so does the helper.
    pub(crate) fn end(&self, engine: &Engine) {
        self.is_over.store(true, Ordering::SeqCst);
        engine.ear.knock();
        let handle = self.handle.lock().unwrap_or_else(PoisonError::into_inner).take();
        // A waker may drop the last endpoint, and wakers are called by the helper, too: it cannot wait for itself.
        if let Some(handle) = handle.filter(|handle| handle.thread().id() != thread::current().id())
        {
            let _ = handle.join(); // a helper that panicked has ended as well
        }
    }
}

fn run(weak: &Weak<Engine>, ear: &Ear, cpus: &HelperCpus) {
    cpus.apply();
    // Ticks are meant as they are written: the default slack would double them.
    let _ = rustix::thread::set_current_timer_slack(Some(1_000.try_into().expect("not zero")));
    ask_for_slices(SLICE_NS);
    let mut notes = Notes::default();
    while let Some(engine) = weak.upgrade() {
        if engine.helper.is_over.load(Ordering::SeqCst) {
            return;
        }
        let (now, baton) = (engine.now(), &engine.helper.baton);
        ear.announce(now, Duration::MAX); // whoever sets a timer before the length of the sleep is known ends it
        let pause = match baton.look(now, &mut notes) {
            Look::Aside(pause) => pause,
            Look::Pause => PAUSE,
            Look::Drive => engine.drive_as_helper(),
        };
        if pause.is_zero() {
            continue;
        }
        ear.announce(now, pause);
        drop(engine);
        if ear.sleep(pause)
            && let Some(engine) = weak.upgrade()
        {
            engine.helper.baton.on_called(&mut notes);
        }
    }
}

/// With frames of the application's in hand the helper looks this often even if none arrives.
const KEEPS_NS: u64 = 1_000_000;
/// Where all cores compute, frames may wait for a whole stretch of another thread until it is the helper's turn.
const SLICE_NS: u64 = 100_000;
/// A paused helper looks this often whether its engine still lives.
const PAUSE: Duration = Duration::from_secs(1);

impl Engine {
    /// What the baton asks for.
    #[inline]
    pub(crate) fn run_errand(&self, errand: Errand) {
        match errand {
            Errand::None => {}
            Errand::Knock => self.ear.knock(),
        }
    }

    /// A thread of the application made a call and did not have to drive.
    #[inline]
    pub(crate) fn on_call(&self, inner: &mut Inner) {
        inner.call_count = inner.call_count.wrapping_add(1);
        if self.helper.baton.is_driving() {
            self.on_call_beside(inner);
        }
    }

    /// While the helper drives, all that is waited for may be there already, so that nobody ever has to drive: who calls again
    /// and again does not compute, and would be better off alone.
    fn on_call_beside(&self, inner: &mut Inner) {
        let now = self.now();
        let since_ns = now - mem::replace(&mut inner.called_at, now);
        self.helper.baton.on_call(now, since_ns);
    }

    /// The application leaves the engine to itself. The helper listens at the links, if the application is one that computes; else
    /// it looks around by itself. What is returned is to be run when the lock is free.
    #[inline]
    pub(crate) fn hand_over(&self, inner: &mut Inner, is_pending: bool) -> Errand {
        let baton = &self.helper.baton;
        if !is_pending || !baton.wants_to_listen() {
            return baton.on_pending(is_pending);
        }
        if inner.core.is_armed && baton.listens() {
            return Errand::None;
        }
        if !inner.core.arm() {
            return baton.call();
        }
        self.have_helper_listen();
        Errand::None
    }

    fn have_helper_listen(&self) {
        if self.helper.baton.listen() {
            self.doze.with_links(|links| self.ear.arm(links));
        }
    }

    /// Drives, unless an application thread does: one turn, and how long to sleep on the links then.
    fn drive_as_helper(&self) -> Duration {
        self.ear.wake();
        if !self.helper.baton.begin_driving() {
            return Duration::ZERO;
        }
        let mut inner = self.lock();
        if inner.is_dozing {
            self.helper.baton.stop_driving();
            return Duration::ZERO;
        }
        let now = self.now();
        let work = inner.turn_with(now, self.offload);
        inner.core.counters_mut().turns_of_helper += 1;
        let pause_ns = if work > 0 || !inner.core.arm() {
            0
        } else if inner.core.keeps_frames() {
            KEEPS_NS // timers that are due wait with them
        } else {
            sleep_ns(&inner, now)
        };
        let pause = Duration::from_nanos(pause_ns);
        if pause_ns > 0 {
            self.have_helper_listen();
            self.ear.announce(now, pause);
        }
        self.release(inner);
        // The lock is not fair: who stands there would not get it from somebody who takes it again at once.
        while self.wanted.load(Ordering::Relaxed) > 0 {
            thread::yield_now();
        }
        pause
    }
}
