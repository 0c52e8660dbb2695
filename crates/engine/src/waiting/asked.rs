//! Calls that do not wait: the end of a request if there is one, after a turn unless one was made a moment ago (`looks`); and futures.

use std::sync::MutexGuard;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use packhorse_link::loan;
use packhorse_proto::{Claim, Criteria, Envelope, Instant};

use crate::asking::ASKS_OFTEN_NS;
use crate::core::Looked;
use crate::duties::Offload;
use crate::engine::{Engine, Placement};
use crate::inner::Inner;
use crate::looks::Look;
use crate::names::RequestId;
use crate::requests::{Arrival, Completion};

impl Engine {
    /// Asks for a message no receive took yet; the links are asked before it says that there is none (`looks`).
    pub fn probe(&self, criteria: &Criteria) -> Option<Envelope> {
        self.poll_once(|inner| inner.core.probe(criteria))
    }

    /// Takes such a message out of matching: only who holds the claim gets it.
    pub fn claim(&self, criteria: &Criteria) -> Option<(Claim, Envelope)> {
        self.poll_once(|inner| {
            inner.core.probe(criteria)?;
            inner.core.endpoint().claim(self.now(), criteria)
        })
    }

    /// Whether all of a claimed message is here, so that receiving it ends at once.
    pub fn is_whole(&self, claim: Claim) -> bool {
        self.lock().core.rules().is_whole(claim)
    }

    /// What came of the request, if it ended; if it did not, a turn is made first, unless one was made a moment ago (`looks`).
    pub fn test(&self, id: RequestId) -> Option<Completion> {
        if self.ended.may_have(id) {
            let ended = self.lock().requests.take(id);
            if ended.is_some() {
                return ended;
            }
        }
        let look = self.looks.begin()?;
        let now = self.now();
        // The helper may be in a long turn, with the lock: who computes should not stand there to learn nothing.
        if self.is_in_good_hands(now) {
            self.looks.end(look, false);
            return None;
        }
        self.turn_for(self.lock(), look, now, |inner| inner.requests.take(id))
    }

    /// The next message of an entry used many times, if there is one.
    pub fn test_arrival(&self, id: RequestId) -> Option<Arrival> {
        self.poll_once(|inner| inner.requests.take_arrival(id))
    }

    /// One turn, for applications that want to give time to the engine. Returns how much was done.
    pub fn turn(&self) -> usize {
        let now = self.now();
        if self.is_in_good_hands(now) {
            return 0;
        }
        let mut inner = self.lock();
        let work = inner.turn(now);
        self.leave(inner, now);
        work
    }

    /// What `ready` finds; if that is nothing, after a turn, unless one was made a moment ago (`looks`).
    pub(crate) fn poll_once<R>(&self, mut ready: impl FnMut(&mut Inner) -> Option<R>) -> Option<R> {
        let mut inner = self.lock();
        let result = ready(&mut inner);
        if result.is_some() {
            return result;
        }
        let look = self.looks.begin()?;
        let now = self.now();
        if self.is_in_good_hands(now) {
            self.looks.end(look, false);
            return None;
        }
        self.turn_for(inner, look, now, ready)
    }

    /// The turn of a look that asks, and what `ready` finds behind it.
    fn turn_for<R>(
        &self,
        mut inner: MutexGuard<'_, Inner>,
        look: Look,
        now: Instant,
        mut ready: impl FnMut(&mut Inner) -> Option<R>,
    ) -> Option<R> {
        let answer = inner.core.ask(now);
        if matches!(answer, Looked::Nothing) {
            self.leave_unchanged(inner, now);
            self.looks.end(look, false);
            return None;
        }
        let work = inner.turn_after(&answer, now, false);
        let result = ready(&mut inner);
        self.leave(inner, now);
        self.looks.end(look, work > 0);
        result
    }

    /// The helper drives, and the application, which asks now and then, need not turn: if it did, the helper would be sent
    /// away, and be back a moment later. One that asks again and again waits in its own way, and drives.
    pub(crate) fn is_in_good_hands(&self, now: Instant) -> bool {
        if !self.helper.baton.is_driving() || self.offload != Offload::Both {
            return false;
        }
        let asked_at = self.asked_at_ns.swap(now.0, Ordering::Relaxed);
        now - Instant(asked_at) > ASKS_OFTEN_NS
    }

    /// A thread that made a turn leaves the engine to itself.
    pub(crate) fn leave(&self, inner: MutexGuard<'_, Inner>, now: Instant) {
        let is_pending = self.wants_helper_near(&inner, now);
        self.release(inner);
        self.run_errand(self.helper.baton.on_turn(now, is_pending));
    }

    /// A thread whose look found nothing and changed nothing leaves the engine to itself: nobody is to be told of anything.
    #[inline]
    pub(crate) fn leave_unchanged(&self, inner: MutexGuard<'_, Inner>, now: Instant) {
        drop(inner);
        self.run_errand(self.helper.baton.on_look(now));
    }

    /// For futures: the end of the request, or a waker left behind.
    pub fn poll(&self, id: RequestId, context: &mut Context<'_>) -> Poll<Completion> {
        self.poll_with(id, context, |inner| inner.requests.take(id))
    }

    /// For futures: the next message of an entry used many times; `None` when it ended.
    pub fn poll_arrival(&self, id: RequestId, context: &mut Context<'_>) -> Poll<Option<Arrival>> {
        self.poll_with(id, context, |inner| {
            let arrival = inner.requests.take_arrival(id);
            if arrival.is_none() && inner.requests.is_done(id) {
                Some(None)
            } else {
                arrival.map(Some)
            }
        })
    }

    fn poll_with<R>(
        &self,
        id: RequestId,
        context: &mut Context<'_>,
        mut ready: impl FnMut(&mut Inner) -> Option<R>,
    ) -> Poll<R> {
        // Polled by somebody who holds the lock, to lend bytes to a future beside this one.
        if loan::must_wait() {
            return Poll::Pending;
        }
        let mut inner = self.lock();
        if let Some(result) = ready(&mut inner) {
            return Poll::Ready(result);
        }
        if self.placement() == Placement::Inline {
            // Nobody else will: this future drives when it is polled (`looks`), and asks to be polled again.
            let look = self.looks.begin();
            let work = look.as_ref().map_or(0, |_| inner.turn(self.now()));
            let result = ready(&mut inner);
            self.release(inner);
            if let Some(look) = look {
                self.looks.end(look, work > 0);
            }
            return match result {
                Some(result) => Poll::Ready(result),
                None => {
                    context.waker().wake_by_ref();
                    Poll::Pending
                }
            };
        }
        self.is_watched.store(true, Ordering::Relaxed);
        if let Some(pending) = inner.requests.pending(id) {
            match &mut pending.waker {
                Some(waker) => waker.clone_from(context.waker()),
                empty => *empty = Some(context.waker().clone()),
            }
        }
        drop(inner);
        self.run_errand(self.helper.baton.on_pending(true));
        Poll::Pending
    }
}
