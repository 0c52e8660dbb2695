//! Progress: in whose calls it is made, who waits for whom, and who is woken.
//!
//! Of several threads in calls of one endpoint one has the completions and drives; the others sleep until something ended or the driver
//! has left. `completions` is locked before `state`, never the other way round.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use packhorse::raw::{self, Criteria};

use crate::codes::{self, Code};
use crate::port::{Port, lock};
use crate::unexpected;

/// A thread that sleeps behind a driver looks this often: a driver that left between its look and its sleep is missed so long at most.
const BEHIND_MAX: Duration = Duration::from_millis(10);

/// How long a call may take. Its time begins when the call begins to wait: most find what they ask for at once, and need no clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    longest: Option<Duration>,
    began: Option<Instant>,
}

impl Patience {
    /// `MX_INFINITE` is 0: there is no waiting for no time.
    pub(crate) fn of_mx(milliseconds: u32) -> Self {
        Self::of(milliseconds, 0)
    }

    pub(crate) fn of_omx(milliseconds: u32) -> Self {
        Self::of(milliseconds, u32::MAX)
    }

    fn of(milliseconds: u32, infinite: u32) -> Self {
        let is_finite = milliseconds != infinite;
        let longest = is_finite.then(|| Duration::from_millis(milliseconds.into()));
        Self { longest, began: None }
    }

    /// This patience with its time running from now on.
    fn begun(self) -> Self {
        Self { began: self.longest.map(|_| Instant::now()), ..self }
    }

    /// Whether a call that may take so long looks once before it waits. Such a look takes its caller for one with a loop of its own: it steps
    /// aside for others that want the core, and beside a busy program that costs a slice of time. A wait knows better, and steps aside only
    /// when it has waited in vain for a while. What is not to wait at all has nothing but its look, and a handler is asked before.
    fn looks_first(self, has_handler: bool) -> bool {
        has_handler || self.longest == Some(Duration::ZERO)
    }

    /// What is left; `None` without an end.
    fn rest(self) -> Option<Duration> {
        let passed = self.began.map_or(Duration::ZERO, |began| began.elapsed());
        self.longest.map(|longest| longest.saturating_sub(passed))
    }
}

/// A thread in a blocking call.
struct Waiter<'a>(&'a Port);

impl<'a> Waiter<'a> {
    fn new(port: &'a Port) -> Self {
        port.waiter_count.fetch_add(1, Ordering::Relaxed);
        Self(port)
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.0.waiter_count.fetch_sub(1, Ordering::Relaxed);
        self.0.tell_sleepers(); // somebody else may have to drive now
    }
}

impl Port {
    fn may_progress(&self) -> bool {
        !self.is_frozen.load(Ordering::Relaxed) && !self.is_closing.load(Ordering::Relaxed)
    }

    /// One round of progress, unless another thread makes some or nobody shall.
    pub(crate) fn progress(&self) {
        if !self.may_progress() {
            return;
        }
        let Ok(mut completions) = self.completions.try_lock() else { return };
        let (has_news, has_handler) =
            (completions.drive_or_doze(), self.has_handler.load(Ordering::Relaxed));
        if has_news {
            self.take_entries(&mut completions);
            self.tell_sleepers();
        }
        if has_handler {
            self.ask_handler(&mut completions);
        }
        drop(completions);
        if has_news || has_handler {
            self.tell_failed();
        }
    }

    /// Asks `ready`, and if it has nothing, once more after a round of progress. Where there is a handler each call makes progress: what the
    /// handler has to be asked waits for calls.
    pub(crate) fn test<R>(&self, mut ready: impl FnMut(&Self) -> Option<R>) -> Option<R> {
        if self.has_handler.load(Ordering::Relaxed) {
            self.progress();
        }
        ready(self).or_else(|| {
            self.progress();
            ready(self)
        })
    }

    /// Waits until `ready` has something. `None`: the time is over, `mx_wakeup` was called, or the endpoint is closed. `wanted`: messages
    /// that nobody took that `ready` asks for. Refused inside of the handler, if it would be for ever: until the handler returns nothing
    /// ends.
    pub(crate) fn wait<R>(
        &self,
        patience: Patience,
        wanted: Option<&Criteria>,
        mut ready: impl FnMut(&Self) -> Option<R>,
    ) -> Result<Option<R>, Code> {
        let has_handler = self.has_handler.load(Ordering::Relaxed);
        let looks_first = patience.looks_first(has_handler);
        let found = if looks_first { self.test(&mut ready) } else { ready(self) };
        if found.is_some() {
            return Ok(found);
        }
        let is_endless = patience.longest.is_none() && has_handler;
        if is_endless && self.is_in_handler() {
            return Err(codes::IN_HANDLER);
        }
        Ok(self.wait_for_others(patience, wanted, ready))
    }

    /// Waits as `wait` does, but also inside of the handler: what `ready` asks for ends without this endpoint's progress.
    pub(crate) fn wait_for_others<R>(
        &self,
        patience: Patience,
        wanted: Option<&Criteria>,
        mut ready: impl FnMut(&Self) -> Option<R>,
    ) -> Option<R> {
        let (wakes, patience) = (self.wakes.load(Ordering::Relaxed), patience.begun());
        let mut rest = patience.longest;
        let _waiter = Waiter::new(self);
        if let Some(found) = ready(self) {
            return Some(found); // ended by who did not see a waiter yet
        }
        loop {
            let is_over = rest == Some(Duration::ZERO);
            let is_woken = self.wakes.load(Ordering::Relaxed) != wakes;
            if is_over || is_woken || self.is_closing.load(Ordering::Relaxed) {
                return None;
            }
            if let Some(found) = self.drive_or_sleep(rest, wanted, &mut ready) {
                return Some(found);
            }
            // What was waited for is mostly there now, and then the time does not matter.
            if let Some(found) = ready(self) {
                return Some(found);
            }
            rest = patience.rest();
        }
    }

    /// Drives until something happened, or sleeps while another thread does.
    fn drive_or_sleep<R>(
        &self,
        rest: Option<Duration>,
        wanted: Option<&Criteria>,
        ready: &mut impl FnMut(&Self) -> Option<R>,
    ) -> Option<R> {
        let driving = if self.may_progress() { self.completions.try_lock().ok() } else { None };
        let Some(mut completions) = driving else {
            let state = lock(&self.state);
            self.sleeper_count.fetch_add(1, Ordering::SeqCst);
            let longest = rest.map_or(BEHIND_MAX, |rest| rest.min(BEHIND_MAX));
            drop(self.changed.wait_timeout(state, longest).unwrap_or_else(PoisonError::into_inner));
            self.sleeper_count.fetch_sub(1, Ordering::Relaxed);
            return None;
        };
        // What the driver before took may be what this thread waits for.
        if let Some(found) = ready(self) {
            return Some(found);
        }
        let has_handler = self.has_handler.load(Ordering::Relaxed);
        let may_ask = has_handler && !lock(&self.state).is_full();
        let wanted = if may_ask { Some(&unexpected::ANY) } else { wanted };
        match wanted {
            Some(wanted) => completions.wait_or_find(wanted, rest),
            None => completions.wait(rest),
        };
        self.take_entries(&mut completions);
        if has_handler {
            self.ask_handler(&mut completions);
        }
        drop(completions);
        self.tell_sleepers();
        self.tell_failed();
        None
    }

    /// Something changed that a thread behind a driver may wait for. Mostly nobody sleeps there, and then the system need not be called.
    pub(crate) fn tell_sleepers(&self) {
        if self.sleeper_count.load(Ordering::SeqCst) > 0 {
            self.changed.notify_all();
        }
    }

    /// Wakes all that are in blocking calls: they look at what they wait for.
    pub(crate) fn wake_all(&self) {
        self.engine().ring(self.notify(0));
        self.tell_sleepers();
    }

    /// Ends all blocking calls there are now.
    pub(crate) fn wake_up(&self) {
        self.wakes.fetch_add(1, Ordering::Relaxed);
        self.wake_all();
    }

    fn is_in_handler(&self) -> bool {
        lock(&self.state).in_handler == Some(std::thread::current().id())
    }

    /// Nobody makes progress from now on; on return nobody does.
    pub(crate) fn disable_progression(&self) -> Result<(), Code> {
        if self.is_in_handler() {
            return Err(codes::IN_HANDLER);
        }
        self.is_frozen.store(true, Ordering::Relaxed);
        self.wake_all();
        drop(lock(&self.completions)); // whoever drove, or was in the handler, has left
        Ok(())
    }

    pub(crate) fn reenable_progression(&self) {
        self.is_frozen.store(false, Ordering::Relaxed);
        self.progress();
        self.tell_sleepers();
    }

    /// Whether the endpoint may be closed by this thread.
    pub(crate) fn check_close(&self) -> Result<(), Code> {
        if self.is_in_handler() { Err(codes::IN_HANDLER) } else { Ok(()) }
    }

    /// Closes: ends all blocking calls, waits for what was sent to be accepted, lets go of all memory.
    pub(crate) fn close(&self) {
        self.is_closing.store(true, Ordering::Relaxed);
        self.wake_all();
        drop(lock(&self.completions));
        raw::close(&self.endpoint);
        self.tell_sleepers();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_wait_does_not_look_before_unless_a_handler_is_to_be_asked() {
        let (soon, at_once) = (Patience::of_mx(10), Patience::of_omx(0));
        for endless in [Patience::of_mx(0), Patience::of_omx(u32::MAX)] {
            assert!(!endless.looks_first(false) && endless.looks_first(true));
        }
        assert!(!soon.looks_first(false) && soon.looks_first(true));
        assert!(at_once.looks_first(false), "it has nothing but its look");
    }
}
