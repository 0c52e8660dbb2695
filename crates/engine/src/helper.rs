//! Placement `thread`: a helper that drives when nobody else does. When it does, the `baton` says.
//!
//! It holds the engine only while it looks or drives, so that an engine nobody owns ends. It takes no signals: they
//! belong to the application. It may run on any core its group has, whatever the thread that opened the engine was
//! bound to, and keeps off the one where the application was when it woke the helper: where ranks are bound to a core each, a
//! helper beside its rank would take the time it is to save.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::thread::{self, JoinHandle, Thread};
use std::time::Duration;

use packhorse_link::with_signals_blocked;
use rustix::thread::{CpuSet, sched_getcpu, sched_setaffinity};

use crate::baton::{Baton, Errand, Look, Notes};
use crate::engine::{Engine, Inner, broken};
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
    /// For the calling thread, all but one of them if there are others. What the system does not allow is left as it was: a
    /// helper on other cores is better than none.
    pub(crate) fn apply(&self, avoided: Option<usize>) {
        let mut cpus = CpuSet::new();
        match self {
            Self::Inherit => return,
            Self::All => (0..CpuSet::MAX_CPU).for_each(|cpu| cpus.set(cpu)),
            Self::Only(list) => {
                list.iter().filter(|&&cpu| cpu < CpuSet::MAX_CPU).for_each(|&cpu| cpus.set(cpu));
            }
        }
        if let Some(cpu) = avoided.filter(|&cpu| cpu < CpuSet::MAX_CPU) {
            cpus.unset(cpu);
        }
        let _ = sched_setaffinity(None, &cpus);
    }
}

/// The helper's thread, if it was ever started.
#[derive(Debug, Default)]
pub(crate) struct Helper {
    pub(crate) baton: Baton,
    is_over: AtomicBool,
    thread: OnceLock<Thread>,
    handle: Mutex<Option<JoinHandle<()>>>,
    /// The core of the thread that woke it last.
    woken_from: AtomicUsize,
    /// How often it looked around, each time for some microseconds of a core.
    look_count: AtomicU64,
}

impl Helper {
    pub(crate) fn look_count(&self) -> u64 {
        self.look_count.load(Ordering::Relaxed)
    }

    fn unpark(&self) {
        if let Some(thread) = self.thread.get() {
            self.woken_from.store(sched_getcpu(), Ordering::Relaxed);
            thread.unpark();
        }
    }

    /// Starts the thread, or lets it go on.
    pub(crate) fn start(engine: &Arc<Engine>) -> io::Result<()> {
        let helper = &engine.helper;
        let mut handle = helper.handle.lock().unwrap_or_else(PoisonError::into_inner);
        if handle.is_none() {
            let (weak, cpus) = (Arc::downgrade(engine), engine.helper_cpus.clone());
            let builder = thread::Builder::new().name("packhorse".into());
            // Blocked before it begins: it inherits that.
            let new = with_signals_blocked(|| builder.spawn(move || run(&weak, &cpus)))?;
            let _ = helper.thread.set(new.thread().clone());
            *handle = Some(new);
        }
        drop(handle);
        engine.run_errand(helper.baton.resume());
        Ok(())
    }

    /// The engine goes: so does the helper.
    pub(crate) fn end(&self, engine: &Engine) {
        self.is_over.store(true, Ordering::SeqCst);
        engine.helper_doze.knock();
        self.unpark();
        let handle = self.handle.lock().unwrap_or_else(PoisonError::into_inner).take();
        // A waker may drop the last endpoint, and wakers are called by the helper, too: it cannot wait for itself.
        if let Some(handle) = handle.filter(|handle| handle.thread().id() != thread::current().id())
        {
            let _ = handle.join(); // one that panicked has ended the process
        }
    }
}

/// If the helper panics the process ends, with the panic's own message before this one: else the application would wait for what
/// nobody does any more, and peers would take it for one that computes.
pub(crate) struct EndsProcess;

impl Drop for EndsProcess {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!(
                "packhorse: the thread that drives an endpoint panicked (see above); nothing could go on there, so the process ends"
            );
            std::process::abort();
        }
    }
}

fn run(engine: &Weak<Engine>, cpus: &HelperCpus) {
    let _ends_process = EndsProcess;
    cpus.apply(None);
    // Ticks are meant as they are written: the default slack would double them.
    let _ = rustix::thread::set_current_timer_slack(Some(1_000.try_into().expect("not zero")));
    let (mut notes, mut core) = (Notes::default(), Core { cpus, avoided: None });
    while let Some(engine) = engine.upgrade() {
        if engine.helper.is_over.load(Ordering::SeqCst) {
            return;
        }
        // An application's thread panicked inside: others may sleep where only news would wake them.
        if engine.inner.is_poisoned() {
            broken();
        }
        engine.helper.look_count.fetch_add(1, Ordering::Relaxed);
        let has_work = || engine.has_work();
        let pause = match engine.helper.baton.look(engine.now(), &mut notes, has_work) {
            Look::Aside(pause) => pause,
            Look::Pause => PAUSE,
            Look::Drive(away_since) => {
                core.keep_off(engine.helper.woken_from.load(Ordering::Relaxed));
                if engine.helper.baton.begin_driving(away_since) {
                    engine.drive_as_helper();
                }
                Duration::ZERO
            }
            Look::GoOn => {
                if engine.helper.baton.go_on() {
                    engine.drive_as_helper();
                }
                Duration::ZERO
            }
        };
        drop(engine);
        if !pause.is_zero() {
            thread::park_timeout(pause);
        }
    }
}

/// Where the helper may run.
struct Core<'a> {
    cpus: &'a HelperCpus,
    avoided: Option<usize>,
}

impl Core<'_> {
    /// The helper takes over, and the application's thread was there last: on that core it would take the time it is to save,
    /// and where threads are bound the system leaves it there for as long as no core is idle. (MPI ranks on a core each, one
    /// of them waiting: one in four transfers was not hidden at all.) Asked once for each core the application turns up on.
    fn keep_off(&mut self, cpu: usize) {
        if cpu == sched_getcpu() && self.avoided != Some(cpu) {
            self.avoided = Some(cpu);
            self.cpus.apply(self.avoided);
        }
    }
}

/// With as many frames in hand as it may keep for the application the helper waits for it so long at a time.
const FULL_PAUSE: Duration = Duration::from_millis(1);
/// A paused helper looks this often whether its engine still lives.
const PAUSE: Duration = Duration::from_secs(1);

impl Engine {
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
        let is_watched = self.is_watched.load(Ordering::Relaxed);
        inner.requests.are_heavy()
            || inner.has_regions()
            || inner.core.endpoint_seen().portals_seen().is_open()
            || (is_watched && inner.requests.pending_count() > 0)
            || self.attendance.is_called()
    }

    /// Somebody looked at the ring of a queue in vain, and drove nothing.
    #[inline]
    pub(crate) fn on_watched(&self) {
        if !self.is_watched.load(Ordering::Relaxed) {
            self.is_watched.store(true, Ordering::Relaxed);
            self.run_errand(self.helper.baton.on_pending(true));
        }
    }

    /// Whether anybody counts on being driven for, soon. Not while somebody is inside, who drives.
    fn has_work(&self) -> bool {
        self.try_lock().is_some_and(|inner| {
            let is_awaited = inner.is_bell_armed || inner.streams.are_there();
            is_awaited || self.needs_driver(&inner) || inner.core.has_work()
        })
    }

    /// Drives until an application thread does, then returns; or for as long as there is work, then sleeps once.
    fn drive_as_helper(&self) {
        let mut inner = self.lock();
        if inner.is_dozing {
            self.helper.baton.stop_driving();
            return;
        }
        if inner.core.is_kept_full() {
            // Only the application can make room, and the links would not let it sleep.
            drop(inner);
            thread::park_timeout(FULL_PAUSE);
            return;
        }
        let now = self.now();
        let work = inner.turn_with(now, self.offload);
        inner.core.counters_mut().turns_of_helper += 1;
        let pause_ns = if work > 0 || !inner.core.arm() { 0 } else { sleep_ns(&mut inner, now) };
        self.helper_doze.announce(now, pause_ns);
        self.release(inner);
        if self.attendance.attend() {
            return; // what the attendant posted may be due
        }
        if pause_ns > 0 {
            self.helper_doze.sleep(pause_ns);
            return;
        }
        // The lock is not fair: who stands there would not get it from one who takes it again at once.
        while self.wanted.load(Ordering::Relaxed) > 0 {
            thread::yield_now();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::sync::Arc;

    use super::*;
    use crate::engine::{Config, Placement};
    use crate::slow::{Gate, Slow};

    /// Set in the process that is to end.
    const VICTIM: &str = "PACKHORSE_TEST_VICTIM";

    #[test]
    fn a_helper_that_panics_ends_the_process_and_says_why() {
        let gate = Arc::new(Gate::default());
        if std::env::var_os(VICTIM).is_some() {
            let config = Config { placement: Placement::Thread, ..Config::default() };
            let _engine = Engine::open(config, vec![Slow::new(&gate)]).unwrap();
            gate.panic();
            loop {
                thread::park(); // for something that only the helper would bring about
            }
        }
        let name = "helper::tests::a_helper_that_panics_ends_the_process_and_says_why";
        let mut victim = Command::new(std::env::current_exe().unwrap());
        victim.args(["--exact", name, "--nocapture"]).env(VICTIM, "");
        victim.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::piped());
        let mut victim = victim.spawn().unwrap();
        let until = std::time::Instant::now() + Duration::from_secs(60);
        while victim.try_wait().unwrap().is_none() {
            if std::time::Instant::now() > until {
                victim.kill().unwrap();
                panic!("it lives on after its helper panicked");
            }
            thread::sleep(Duration::from_millis(1));
        }
        let output = victim.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{said}");
        assert!(said.contains("for a test") && said.contains("so the process ends"), "{said}");
    }
}
