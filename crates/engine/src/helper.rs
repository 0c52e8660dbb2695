//! The helper's thread: where it may run, how it is woken and how it ends. What it does is in `helping`.
//!
//! It takes no signals: they belong to the application. It may run on any core its group has, whatever the thread that opened the engine was
//! bound to, and keeps off the one where the application was when it woke the helper: where ranks are bound to a core each, a
//! helper on its rank's core would take the very time that it exists to save.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread::{self, JoinHandle, Thread};

use packhorse_link::with_signals_blocked;
use rustix::thread::{CpuSet, sched_getcpu, sched_setaffinity};

use crate::baton::Baton;
use crate::doze::Doze;

/// Which cores the helper may use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum HelperCpus {
    /// All that the process's group has, whatever the opening thread is bound to.
    #[default]
    All,
    /// The cores of the thread that opens the engine.
    Inherit,
    /// These cores.
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

    pub(crate) fn unpark(&self) {
        if let Some(thread) = self.thread.get() {
            self.woken_from.store(sched_getcpu(), Ordering::Relaxed);
            thread.unpark();
        }
    }

    /// Starts the thread, if there is none.
    pub(crate) fn start(&self, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let mut handle = self.handle.lock().unwrap_or_else(PoisonError::into_inner);
        if handle.is_none() {
            let builder = thread::Builder::new().name("packhorse".into());
            // Blocked before it begins: it inherits that.
            let new = with_signals_blocked(|| builder.spawn(run))?;
            let _ = self.thread.set(new.thread().clone());
            *handle = Some(new);
        }
        Ok(())
    }

    /// The helper looks around. False: its time is over.
    pub(crate) fn on_look(&self) -> bool {
        self.look_count.fetch_add(1, Ordering::Relaxed);
        !self.is_over.load(Ordering::SeqCst)
    }

    /// The core of the thread that woke it last.
    pub(crate) fn woken_from(&self) -> usize {
        self.woken_from.load(Ordering::Relaxed)
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
