//! Whoever waits, drives.
//!
//! A thread that waits for a request turns the core itself, so that no other thread stands between the wire and its
//! answer. It spins for a while, then sleeps on the links. Of several that wait one drives, the others sleep until there
//! are news or the driver leaves. The lock is kept from turn to turn, unless somebody wants it.

use std::sync::MutexGuard;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use packhorse_link::loan;
use packhorse_proto::Instant;
use rustix::time::{ClockId, clock_gettime};

use crate::asking::{ASKS_OFTEN_NS, Advice, Asking, Call, Clocks, DOZE_NS, LOOKS_PER_TIME, Stir};
use crate::core::Answer;
use crate::crowd::Crowd;
use crate::duties::Offload;
use crate::engine::{Engine, Inner, Placement, broken};
use crate::looks::Look;
use crate::requests::{Arrival, Completion, RequestId};

/// Nobody sleeps longer than this without a look: it bounds what a missed timer could cost.
const SLEEP_NS_MAX: u64 = 100_000_000;
/// A sleeper behind a driver looks this often.
const BEHIND_NS_MAX: u64 = 10_000_000;
/// Beside a wait of this length it costs little to wake the helper.
const LONG_STAY_NS: u64 = 500_000;
/// Frames a link did not take are offered again after this.
const BLOCKED_NS: u64 = 20_000;

/// How a thread that waits has fared since something happened.
struct Spin {
    idle_since: Option<Instant>,
    /// Looks since the clock was read, or since something happened.
    look_count: u32,
    /// When it last gave its core to others.
    stepped_at: Instant,
    /// It sleeps after this.
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

impl Clocks for Engine {
    #[inline]
    fn now(&self) -> Instant {
        Self::now(self) // its own, not this one
    }

    fn own_ns(&self) -> u64 {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
    }
}

/// Who asks in a loop of its own: what `asking` advises is done here.
impl Engine {
    /// A look found nothing: steps aside or dozes, if that is right. `call`: where the look comes from. `is_ready`: there is something after
    /// all. Returns how much was done.
    #[inline]
    pub(crate) fn after_vain_look(
        &self,
        asking: &mut Asking,
        now: Instant,
        call: fn() -> Call,
        is_ready: impl Fn() -> bool,
    ) -> usize {
        match asking.on_nothing(now, self) {
            Advice::GoOn => 0,
            Advice::StepAside => {
                self.step_aside(asking);
                0
            }
            Advice::Doze => self.doze_unless(asking, call(), is_ready),
        }
    }

    #[cold]
    fn step_aside(&self, asking: &mut Asking) {
        let from = self.now();
        std::thread::yield_now();
        let back_at = self.now();
        asking.on_back(from, back_at);
        self.looks.on_back();
        self.crowd.on_back(back_at - from); // for those that wait and could sleep
    }

    /// Looks, and sleeps on the links for a moment unless there is something to do or `is_ready`. If nothing came meanwhile it does not
    /// look again: it will be asked again. Returns how much was done.
    #[cold]
    fn doze_unless(&self, asking: &mut Asking, call: Call, is_ready: impl Fn() -> bool) -> usize {
        let mut inner = self.lock();
        if !asking.may_doze(stir_of(&inner), call) {
            self.release(inner);
            return 0;
        }
        self.helper.baton.be_patient(true);
        let now = self.now();
        self.run_errand(self.helper.baton.on_enter(now));
        let until = now + DOZE_NS;
        let mut work = 0;
        if inner.is_dozing {
            inner = self.sleep_behind(inner, now, until);
        } else {
            work = inner.turn(now);
            if work == 0 && !is_ready() {
                inner = self.sleep_on_links(inner, now, until);
                let now = self.now();
                work = if now < until { inner.turn(now) } else { 0 }; // it was woken, or was not
            }
        }
        self.stop_waiting(inner, now, false); // and comes back: nobody need wake the helper
        self.helper.baton.be_patient(false);
        asking.on_woken(self);
        work
    }
}

/// Differs when something was posted or has ended, here or at a peer that reaches into our memory. Signs of life change nothing.
fn stir_of(inner: &Inner) -> Stir {
    let counters = inner.core.rules().counters();
    let messages = counters.messages_out + counters.messages_in + counters.stream_chunks_out;
    let operations = counters.operations_out + counters.requests_in;
    [
        inner.requests.next_id().0,
        inner.requests.pending_count() as u64,
        messages + operations,
        counters.bytes_placed + counters.bytes_landed,
    ]
}

impl Engine {
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
        if matches!(answer, Answer::Nothing) {
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
        let is_pending = self.needs_driver(&inner);
        self.release(inner);
        self.run_errand(self.helper.baton.on_turn(now, is_pending));
    }

    /// The same behind a look that found nothing and changed nothing: nobody is to be told of anything.
    #[inline]
    pub(crate) fn leave_unchanged(&self, inner: MutexGuard<'_, Inner>, now: Instant) {
        drop(inner);
        self.run_errand(self.helper.baton.on_look(now));
    }

    /// Waits for the end of a request; `None` if the time is over first.
    pub fn wait(&self, id: RequestId, longest: Option<Duration>) -> Option<Completion> {
        self.drive_until(longest, |inner| inner.requests.take(id))
    }

    /// Waits until one of these requests has ended; its place in the list.
    pub fn wait_any(&self, ids: &[RequestId], longest: Option<Duration>) -> Option<usize> {
        self.drive_until(longest, |inner| ids.iter().position(|&id| inner.requests.is_done(id)))
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

    /// Whether somebody will turn the core within a fraction of a millisecond. Without a helper nobody promises that: the
    /// application may go and wait for something else, for what its own message is to bring about.
    pub(crate) fn is_driven_soon(&self, inner: &Inner) -> bool {
        !inner.is_dozing && self.helper.baton.is_near()
    }

    /// Turns the core until `ready`, or until the time is over, or the engine has ended.
    pub(crate) fn drive_until<R>(
        &self,
        longest: Option<Duration>,
        ready: impl FnMut(&mut Inner) -> Option<R>,
    ) -> Option<R> {
        self.drive(longest, if self.crowd.may_spin() { self.spin_ns } else { 0 }, ready)
    }

    /// The same, spinning so long before it sleeps.
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
        let is_pending = self.needs_driver(&inner);
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
        let longest = sleep_ns(&mut inner, now).min(until - now);
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

/// How long nothing needs to be done unless something arrives.
pub(crate) fn sleep_ns(inner: &mut Inner, now: Instant) -> u64 {
    let longest = if inner.core.is_blocked() { BLOCKED_NS } else { SLEEP_NS_MAX };
    (inner.core.next_timeout_for_sleep(now) - now).min(longest)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use packhorse_proto::{Criteria, List, Space, Tag, Use};

    use super::*;
    use crate::engine::{Config, Recv};
    use crate::queue::Completions;
    use crate::slow::{Gate, Slow};

    fn open(placement: Placement, gate: &Arc<Gate>) -> Arc<Engine> {
        Engine::open(Config { placement, ..Config::default() }, vec![Slow::new(gate)]).unwrap()
    }

    fn recv(engine: &Engine) -> RequestId {
        let recv = Recv {
            criteria: Criteria { space: Space(0), tag: Tag(1), ignore: 0, source: None },
            list: List::Priority,
            uses: Use::Once,
            header_only: false,
        };
        engine.recv(recv, vec![0; 8].into()).unwrap()
    }

    #[test]
    fn who_asks_does_not_stand_behind_a_helper_in_a_long_turn() {
        let gate = Arc::new(Gate::default());
        let engine = open(Placement::Thread, &gate);
        let id = recv(&engine);
        while !engine.helper.baton.is_driving() {
            std::thread::sleep(Duration::from_micros(100));
        }
        gate.shut(); // with the lock
        assert!(engine.inner.try_lock().is_err());
        std::thread::sleep(Duration::from_millis(1)); // it asks now and then, not in a loop
        assert!(engine.test(id).is_none(), "and nobody had to let it in");
        gate.open();
        assert!(engine.cancel(id) && engine.ended.may_have(id));
        assert!(engine.test(id).is_some());
        engine.stop();
    }

    #[test]
    fn a_sleeper_does_not_knock_at_its_own_door() {
        let engine = open(Placement::Inline, &Arc::new(Gate::default()));
        engine.lock().has_news = true; // of a request that nobody waits for
        assert!(engine.drive(Some(Duration::from_millis(20)), 0, |_| None::<()>).is_none());
        assert_eq!(engine.lock().core.counters().sleeps, 1, "it slept through");
    }

    #[test]
    fn after_a_panic_inside_nobody_waits_for_what_nobody_does() {
        use std::panic::{AssertUnwindSafe, catch_unwind};
        let gate = Arc::new(Gate::default());
        let engine = open(Placement::Inline, &gate);
        let id = recv(&engine);
        let mut queue = Completions::new(&engine, 8);
        gate.panic();
        let said = |panic: Box<dyn std::any::Any + Send>| {
            panic.downcast_ref::<&str>().map(|text| (*text).to_owned()).unwrap_or_default()
        };
        let panics = |call: &mut dyn FnMut()| {
            said(catch_unwind(AssertUnwindSafe(call)).expect_err("it went on"))
        };
        assert!(panics(&mut || _ = engine.turn()).contains("for a test"));
        for text in [
            panics(&mut || drop(engine.wait(id, None))),
            panics(&mut || drop(engine.test(id))),
            panics(&mut || _ = queue.poll_and_drive()),
            panics(&mut || _ = queue.wait(None)),
        ] {
            assert!(text.contains("another thread panicked inside this endpoint"), "{text}");
        }
        std::mem::forget((queue, engine)); // they would say so once more
    }

    #[test]
    fn who_waits_for_a_queue_learns_that_the_engine_ended() {
        for placement in [Placement::Inline, Placement::Thread] {
            let engine = open(placement, &Arc::new(Gate::default()));
            let mut queue = Completions::new(&engine, 8);
            std::thread::scope(|threads| {
                let waiting = threads.spawn(|| queue.wait(None));
                while !engine.doze.is_asleep() {
                    std::thread::yield_now();
                }
                engine.stop();
                assert!(!waiting.join().unwrap(), "and it was told nothing");
            });
            assert!(!queue.wait(None), "nor does it wait once more");
        }
    }

    #[test]
    fn the_links_know_of_a_sleeper_though_another_turns() {
        let gate = Arc::new(Gate::default());
        let engine = open(Placement::Inline, &gate);
        let id = recv(&engine);
        let is_known = std::thread::scope(|threads| {
            threads.spawn(|| engine.wait(id, None));
            let mut inner = engine.lock();
            while !inner.is_dozing {
                drop(inner);
                std::thread::yield_now();
                inner = engine.lock();
            }
            inner.turn(engine.now()); // and the links are told that somebody looks
            engine.release(inner);
            // Who woke by himself meanwhile is going to look.
            let inner = engine.lock();
            let is_known = gate.is_armed() || !inner.is_dozing;
            drop(inner);
            assert!(engine.cancel(id));
            is_known
        });
        assert!(is_known, "a frame would wake nobody");
        engine.stop();
    }

    /// Turns that so many looks make, with work of this length before each.
    fn turns_of(engine: &Engine, count: u64, work: Duration, mut look: impl FnMut()) -> u64 {
        let before = engine.lock().core.counters().turns;
        for _ in 0..count {
            let begin = std::time::Instant::now();
            while begin.elapsed() < work {}
            look();
        }
        engine.lock().core.counters().turns - before
    }

    /// Counts turns until they are as many as they should be: programs are told apart by nanoseconds, which a machine with other things to do
    /// takes from either; but not each time, for a minute.
    fn count_until(name: &str, is_right: impl Fn(u64) -> bool, mut count: impl FnMut() -> u64) {
        let began = std::time::Instant::now();
        loop {
            let turns = count();
            if is_right(turns) {
                return;
            }
            assert!(began.elapsed() < Duration::from_secs(60), "{name}: {turns} looks turned");
        }
    }

    #[test]
    fn looks_of_a_program_that_works_seldom_turn_and_those_of_one_that_waits_do() {
        const COUNT: u64 = 4000;
        let gate = Arc::new(Gate::default());
        let engine = open(Placement::Inline, &gate);
        gate.take(Duration::from_micros(2)); // about what a system call takes where it is dear
        let id = recv(&engine);
        let criteria = Criteria { space: Space(0), tag: Tag(2), ignore: 0, source: None };
        let (mut queue, mut other) = (Completions::new(&engine, 8), Completions::new(&engine, 8));
        let mut context = Context::from_waker(std::task::Waker::noop());
        let looks: [(&str, &mut dyn FnMut()); 6] = [
            ("test", &mut || assert!(engine.test(id).is_none())),
            ("probe", &mut || assert!(engine.probe(&criteria).is_none())),
            ("claim", &mut || assert!(engine.claim(&criteria).is_none())),
            ("poll", &mut || assert!(engine.poll(id, &mut context).is_pending())),
            ("poll_and_drive", &mut || assert!(queue.poll_and_drive().is_none())),
            ("drive_or_doze", &mut || assert!(!other.drive_or_doze())),
        ];
        for (name, look) in looks {
            let work = Duration::from_nanos(1500);
            let (few, most) = (COUNT / 2, COUNT * 9 / 10);
            count_until(
                &format!("{name}, work"),
                |turns| turns < few,
                || turns_of(&engine, COUNT, work, &mut *look),
            );
            count_until(
                &format!("{name}, no work"),
                |turns| turns > most,
                || turns_of(&engine, COUNT, Duration::ZERO, &mut *look),
            );
        }
        engine.stop();
    }

    #[test]
    fn who_has_asked_in_vain_for_long_sleeps_on_the_links() {
        let engine = open(Placement::Inline, &Arc::new(Gate::default()));
        let mut completions = Completions::new(&engine, 8);
        let began = std::time::Instant::now();
        while engine.lock().core.counters().sleeps == 0 {
            for _ in 0..1000 {
                completions.asking.be_calm(); // as after half a second: other programs may disturb the calm
                assert!(completions.poll_or_doze().is_none());
            }
            assert!(began.elapsed() < Duration::from_secs(60), "no sleep in 60 s");
        }
    }
}
