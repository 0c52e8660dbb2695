//! Operations that wait for a counter: what `FI_TRIGGER` and deferred work of a domain have in common.
//!
//! ```text
//!   fi_writemsg(FI_TRIGGER) ──┐                          counter + 1 ──▶ reached? marked
//!   FI_QUEUE_WORK ────────────┴──▶ Work, by threshold ─────────────────────┴──▶ run: by whoever looks, or by the helper ──▶ posted
//! ```
//!
//! Counters count in places where nothing can be posted: with the engine in hand, in the middle of a post. So a counter that reaches a threshold
//! only leaves a mark. Who gives time to an endpoint (`Port::progress`), changes a counter or queues work runs what is due when its hands are
//! free; while the application computes the helper does (`Port::attend`). One thread at a time runs, so works are set off in the order of their
//! thresholds.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use crate::cntr::Cntr;
use crate::errors;
use crate::op::{How, Op};
use crate::port::{COUNTED, Port, lock};
use crate::ports::Ports;

/// An operation that waits.
pub(crate) struct Work {
    /// Where its description is, by which it is cancelled; 0: nobody cancels it so.
    pub(crate) id: usize,
    /// The endpoint it is for, as a number; 0: it is for none.
    pub(crate) port: usize,
    pub(crate) context: usize,
    /// What kind of operation it is, as completions tell it.
    pub(crate) kind: u64,
    pub(crate) trigger: Arc<Cntr>,
    pub(crate) threshold: u64,
    pub(crate) run: Box<dyn FnOnce() + Send>,
}

/// All works of a domain.
#[derive(Default)]
pub(crate) struct Works {
    /// By threshold, and within one as they were queued.
    waiting: Mutex<Vec<Work>>,
    /// Held by whoever runs what is due.
    running: Mutex<()>,
    /// A counter reached what somebody waits for.
    is_due: AtomicBool,
    /// Endpoints that works may be for: who waits for a counter that no endpoint is bound to gives time to these.
    pub(crate) ports: Ports,
}

impl Works {
    /// Queues a work; `run` finds out whether it is due already.
    pub(crate) fn add(&self, work: Work) {
        let mut waiting = lock(&self.waiting);
        let at = waiting.partition_point(|other| other.threshold <= work.threshold);
        if work.trigger.await_threshold(work.threshold) {
            self.mark();
        }
        waiting.insert(at, work);
    }

    /// A counter reached a threshold, or was found to have. Can be said anywhere.
    pub(crate) fn mark(&self) {
        self.is_due.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_due(&self) -> bool {
        self.is_due.load(Ordering::Acquire)
    }

    /// Runs what is due; with no lock in hand that a post may want. One load if nothing is.
    #[inline]
    pub(crate) fn run(&self) {
        if self.is_due() {
            self.run_all();
        }
    }

    #[cold]
    fn run_all(&self) {
        // Asked again after the lock was given back: who marked meanwhile, and found it taken, left.
        while self.is_due.load(Ordering::SeqCst) {
            let Ok(_running) = self.running.try_lock() else { return };
            while self.is_due.swap(false, Ordering::SeqCst) {
                let due = self.take(|work| work.trigger.has_reached(work.threshold));
                due.into_iter().for_each(|work| (work.run)());
            }
        }
    }

    /// Takes works out of the list. Their counters wait for what is left.
    fn take(&self, is_wanted: impl FnMut(&mut Work) -> bool) -> Vec<Work> {
        let mut waiting = lock(&self.waiting);
        let taken: Vec<Work> = waiting.extract_if(.., is_wanted).collect();
        for work in &taken {
            work.trigger.await_nothing();
        }
        for work in waiting.iter() {
            if work.trigger.await_threshold(work.threshold) {
                self.mark();
            }
        }
        taken
    }

    /// Cancels a work by its description. False: it is not there any more.
    pub(crate) fn cancel(&self, id: usize) -> bool {
        !self.take(|work| work.id == id && id != 0).is_empty()
    }

    /// Cancels all.
    pub(crate) fn flush(&self) {
        drop(self.take(|_| true));
    }

    /// Takes one operation of an endpoint that was posted with this context; its kind.
    pub(crate) fn cancel_operation(&self, port: usize, context: usize) -> Option<u64> {
        let mut is_found = false;
        let taken = self.take(|work| {
            let is_it = !is_found && (work.id, work.port, work.context) == (0, port, context);
            is_found |= is_it;
            is_it
        });
        taken.first().map(|work| work.kind)
    }

    /// An endpoint closes: what waits for it is cancelled, and nobody is posting for it any more.
    pub(crate) fn forget(&self, port: usize) {
        let _running = lock(&self.running);
        drop(self.take(|work| work.port == port));
    }
}

impl Port {
    /// The helper tells of what ended, and sets off what waits for that, while the application is elsewhere.
    pub(crate) fn have_attended(&self) {
        // By the desk, as answers come: nobody has the endpoint when it is closed.
        let desk = Arc::clone(&self.search.desk);
        self.engine().attend(move || desk.with(Self::attend));
    }

    /// Posts an operation when its counter has come so far: now, if it has.
    #[cold]
    pub(crate) fn defer(
        self: &Arc<Self>,
        mut how: How,
        kind: u64,
        post: impl FnOnce(&Arc<Self>, How) -> isize + Send + 'static,
    ) -> isize {
        let Some(when) = how.when.take() else { return post(self, how) };
        if !self.may_defer() {
            return -(libc::EINVAL as isize);
        }
        let (context, port) = (how.context, Arc::downgrade(self));
        let run = Box::new(move || {
            // An endpoint that closes takes its works with it first.
            let Some(port) = port.upgrade() else { return };
            let op = Op { context, flags: kind, told: how.told.clone(), ..Op::default() };
            let status = post(&port, how);
            if status != 0 {
                port.fail(&op, -status as i32, errors::REFUSED);
            }
        });
        let (id, trigger, threshold) = (when.id, when.counter, when.threshold);
        self.works.add(Work { id, port: self.number(), context, kind, trigger, threshold, run });
        self.works.run();
        0
    }

    /// What tells it from others of the domain.
    pub(crate) fn number(self: &Arc<Self>) -> usize {
        Arc::as_ptr(self) as usize
    }

    /// Cancels one operation that waits for a counter and was posted with this context; false if there is none.
    pub(crate) fn cancel_deferred(self: &Arc<Self>, context: usize) -> bool {
        let kind = self.works.cancel_operation(self.number(), context);
        if let Some(flags) = kind {
            let op = Op { context, flags, ..Op::default() };
            self.fail(&op, libc::ECANCELED, errors::CANCELLED);
        }
        kind.is_some()
    }

    /// An operation ended: with the endpoint's counters, or with those of the work that it was.
    pub(crate) fn count_operation(&self, op: &Op, is_success: bool) {
        if op.told.as_ref().is_none_or(|told| told.at_endpoint) {
            self.count(op.flags & COUNTED, is_success);
        }
        let counter = op.told.as_ref().and_then(|told| told.counter.as_ref());
        if let Some(counter) = counter {
            counter.count(is_success);
            self.mind_works();
        }
    }

    /// A counter was changed in the middle of something: if that sets something off, the helper is to see to it.
    pub(crate) fn mind_works(&self) {
        if self.works.is_due() {
            self.engine().call_attendant();
        }
    }
}
