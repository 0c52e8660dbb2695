//! Whoever waits, drives.
//!
//! A thread that waits for a request turns the core itself, so that no other thread stands between the wire and its
//! answer. It spins for a while, then sleeps on the links. Of several that wait one drives, the others sleep until there
//! are news or the driver leaves. The lock is kept from turn to turn, unless somebody wants it.
//!
//! Calls that do not wait are in `asked`; those who make them in loops of their own step aside and doze in `vain`.

mod asked;
#[cfg(test)]
mod tests;
mod vain;

use std::sync::MutexGuard;
use std::sync::atomic::Ordering;
use std::time::Duration;

use packhorse_proto::Instant;

use crate::asking::LOOKS_PER_TIME;
use crate::crowd::Crowd;
use crate::engine::{Engine, broken};
use crate::inner::Inner;
use crate::names::RequestId;
use crate::requests::{Arrival, Completion};

/// A sleeper behind a driver looks this often.
const BEHIND_NS_MAX: u64 = 10_000_000;
/// Beside a wait of this length it costs little to wake the helper.
const LONG_STAY_NS: u64 = 500_000;
/// How a thread that waits has fared since something happened.
struct Spin {
    idle_since: Option<Instant>,
    /// Looks since the clock was read, or since something happened.
    look_count: u32,
    /// When it last gave its core to others.
    stepped_at: Instant,
    /// The thread sleeps after so much spinning.
    longest_ns: u64,
}

impl Spin {
    /// One that has just read the clock.
    fn new(now: Instant, longest_ns: u64) -> Self {
        Self { idle_since: None, look_count: 1, stepped_at: now, longest_ns }
    }

    fn begin_anew(&mut self) {
        (self.idle_since, self.look_count) = (None, 0);
    }
}

impl Engine {
    /// Waits for the end of a request; `None` if the time is over first.
    pub fn wait(&self, id: RequestId, longest: Option<Duration>) -> Option<Completion> {
        self.drive_until(longest, |inner| inner.requests.take(id))
    }

    /// Waits for the next message of an entry used many times; `None` when it ended, or the time is over.
    pub fn wait_arrival(&self, id: RequestId, longest: Option<Duration>) -> Option<Arrival> {
        self.drive_until(longest, |inner| {
            let arrival = inner.requests.take_arrival(id);
            if arrival.is_none() && inner.requests.is_done(id) {
                Some(None)
            } else {
                arrival.map(Some)
            }
        })?
    }

    /// Drives until closing is complete, or until the time is over. True: all messages were accepted.
    pub fn wait_closed(&self, longest: Duration) -> Option<bool> {
        self.drive_until(Some(longest), |inner| inner.closed)
    }

    /// Turns the core until `ready`, or until the time is over, or the engine has ended.
    pub(crate) fn drive_until<R>(
        &self,
        longest: Option<Duration>,
        ready: impl FnMut(&mut Inner) -> Option<R>,
    ) -> Option<R> {
        self.drive(longest, if self.crowd.may_spin() { self.spin_ns } else { 0 }, ready)
    }

    /// Turns the core as `drive_until` does, spinning so long before it sleeps.
    fn drive<R>(
        &self,
        longest: Option<Duration>,
        spin_ns: u64,
        mut ready: impl FnMut(&mut Inner) -> Option<R>,
    ) -> Option<R> {
        let mut inner = self.lock();
        if let Some(result) = ready(&mut inner) {
            return Some(result);
        }
        let mut now = self.now();
        self.run_errand(self.helper.baton.on_enter(now));
        let entered_at = now;
        let until = longest
            .map_or(Instant::NEVER, |longest| now + longest.as_nanos().min(u64::MAX.into()) as u64);
        let mut spin = Spin::new(now, spin_ns);
        // Who sleeps at once need not look before: sleeping tells whether there is something.
        let mut must_look = spin_ns > 0;
        let result = loop {
            // Reading the clock takes as long as a look at a link in memory: while nothing happens every few looks will do.
            if spin.look_count.is_multiple_of(LOOKS_PER_TIME) {
                now = self.now();
            }
            spin.look_count = spin.look_count.wrapping_add(1);
            if inner.is_dozing {
                inner = self.sleep_behind(inner, now, until);
                spin.look_count = 0;
            } else if (must_look || inner.core.is_due(now)) && inner.look(now) > 0 {
                spin.begin_anew();
            } else {
                inner = self.idle(inner, now, until, &mut spin);
            }
            must_look = true;
            if let Some(result) = ready(&mut inner) {
                break Some(result);
            }
            if now >= until || inner.is_stopped {
                break None;
            }
            let has_been_alone;
            (inner, has_been_alone) = self.let_others_in(inner);
            if !has_been_alone {
                spin.look_count = 0; // who was let in may have told the rules a later time
            }
        };
        self.stop_waiting(inner, now, now - entered_at > LONG_STAY_NS);
        result
    }

    /// A thread that waited goes.
    fn stop_waiting(&self, mut inner: MutexGuard<'_, Inner>, now: Instant, was_long: bool) {
        let is_pending = self.wants_helper_near(&inner, now);
        // Somebody must go on driving for those who sleep behind.
        inner.has_news |= inner.sleeper_count > 0;
        self.release(inner);
        self.run_errand(self.helper.baton.on_exit(now, is_pending, was_long));
    }

    /// A turn found nothing: spins on, steps aside, or sleeps.
    fn idle<'a>(
        &'a self,
        inner: MutexGuard<'a, Inner>,
        now: Instant,
        until: Instant,
        spin: &mut Spin,
    ) -> MutexGuard<'a, Inner> {
        let idle_ns = now - *spin.idle_since.get_or_insert(now);
        // What was sent may take its receiver a while to copy: its answer is worth spinning for, where that hurts nobody.
        let is_awaited = spin.longest_ns > 0 && now <= inner.core.answer_by();
        // At once if it may not spin at all: the time it has been idle is known only every few looks.
        if idle_ns >= spin.longest_ns && !is_awaited && now < until {
            spin.begin_anew();
            return self.sleep_on_links(inner, now, until);
        }
        if !Crowd::is_due(idle_ns, now - spin.stepped_at) {
            std::hint::spin_loop();
            return inner;
        }
        // The core is for whoever waits for it; if somebody did, this wait spins no longer.
        self.release(inner);
        std::thread::yield_now();
        (spin.stepped_at, spin.look_count) = (now, 0);
        if !self.crowd.on_back(self.now() - now) {
            spin.longest_ns = 0;
        }
        self.lock()
    }

    /// If somebody stands at the lock or must be woken, the lock is free for a moment. False: it was.
    fn let_others_in<'a>(&'a self, inner: MutexGuard<'a, Inner>) -> (MutexGuard<'a, Inner>, bool) {
        let is_wanted = self.wanted.load(Ordering::Relaxed) > 0;
        if !is_wanted && inner.wakers.is_empty() && !(inner.has_news && inner.sleeper_count > 0) {
            return (inner, true);
        }
        self.release(inner);
        while self.wanted.load(Ordering::Relaxed) > 0 {
            std::thread::yield_now();
        }
        (self.lock(), false)
    }

    fn sleep_on_links<'a>(
        &'a self,
        mut inner: MutexGuard<'a, Inner>,
        now: Instant,
        until: Instant,
    ) -> MutexGuard<'a, Inner> {
        if inner.has_news && (inner.sleeper_count > 0 || inner.is_bell_armed) {
            self.release(inner);
            return self.lock();
        }
        // Nobody to be told but the attendant: else `release` would knock for whoever dozes, at his own door.
        if std::mem::take(&mut inner.has_news) {
            self.attendance.on_news();
        }
        if !inner.core.arm() {
            return inner;
        }
        inner.is_dozing = true;
        inner.core.counters_mut().sleeps += 1;
        let longest = inner.sleep_ns(now).min(until - now);
        self.doze.announce(now, longest);
        self.release(inner);
        self.doze.sleep(longest);
        let mut inner = self.lock();
        inner.is_dozing = false;
        inner
    }

    fn sleep_behind<'a>(
        &'a self,
        mut inner: MutexGuard<'a, Inner>,
        now: Instant,
        until: Instant,
    ) -> MutexGuard<'a, Inner> {
        inner.sleeper_count += 1;
        let longest = Duration::from_nanos(BEHIND_NS_MAX.min(until - now));
        let woken = self.changed.wait_timeout(inner, longest);
        let (mut inner, _) = woken.unwrap_or_else(|_| broken());
        inner.sleeper_count -= 1;
        inner
    }
}
