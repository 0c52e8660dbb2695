//! Portals 4 behind the lock: its memory, and who waits for its queues and counters.
//!
//! What happens there happens in the turn of whoever drives. Here it is asked for and waited for; an endpoint with an open interface always
//! has a driver, as one with exposed memory has.

use std::time::Duration;

use packhorse_link::mem::{Memory, UserMemory as _};
use packhorse_proto::portals::Portals;
use packhorse_proto::{BufId, Instant};

use crate::engine::Engine;
use crate::inner::Inner;
use crate::requests::UNASKED_LEN;
use crate::translate::{buf_of, memory_of};

/// A request to oneself and its answer, and acknowledgements of both.
const HOME_TURN_COUNT: usize = 4;

/// Portals of an endpoint.
impl Engine {
    /// Does something there that begins nothing and tells nobody: looks, mostly.
    pub fn look_at_portals<R>(&self, look: impl FnOnce(&mut Portals) -> R) -> R {
        let mut inner = self.lock();
        let result = look(inner.core.portals());
        self.release(inner);
        result
    }

    /// Does something there. What it makes due begins before this returns.
    pub fn with_portals<R>(&self, work: impl FnOnce(&mut Portals) -> R) -> R {
        self.with_portals_and(None, |portals, _| work(portals))
    }

    /// Does something with Portals that needs memory; whoever does not keep the memory's name gives it back (`Portals::take_freed` does that for what was used).
    pub fn with_portals_and<R>(
        &self,
        memory: Option<Memory>,
        work: impl FnOnce(&mut Portals, Option<BufId>) -> R,
    ) -> R {
        let mut inner = self.lock_in_order();
        let now = self.now();
        let buf = memory.map(|memory| buf_of(inner.core.memory().insert(memory)));
        let result = work(inner.core.endpoint().portals(), buf);
        inner.core.endpoint().run_portals(now);
        self.after_portals(inner, now);
        result
    }

    /// Does something with Portals that needs memory and may fail: then the memory is given back.
    pub fn try_portals_with<T, E>(
        &self,
        memory: Memory,
        work: impl FnOnce(&mut Portals, BufId) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut inner = self.lock_in_order();
        let now = self.now();
        let id = inner.core.memory().insert(memory);
        let result = work(inner.core.endpoint().portals(), buf_of(id));
        if result.is_err() {
            drop(inner.core.memory().remove(id));
        }
        inner.core.endpoint().run_portals(now);
        self.after_portals(inner, now);
        result
    }

    /// A copy of bytes of memory that is lent; `None` if they are not there.
    pub fn copy_lent(&self, buf: BufId, offset: u64, len: usize) -> Option<Vec<u8>> {
        let mut inner = self.lock();
        let (memory, id) = (inner.core.memory(), memory_of(buf));
        let mut bytes = Vec::new();
        let is_there = memory.reaches(id, offset, len as u64, false);
        (is_there && memory.copy_out(id, offset, len, &mut bytes)).then_some(bytes)
    }

    /// Closes one of the four interfaces, with all that is under way there.
    pub fn close_portals(&self, ni: u8) {
        let mut inner = self.lock_in_order();
        let now = self.now();
        inner.core.endpoint().close_portals(now, ni);
        self.after_portals(inner, now);
    }

    fn after_portals(&self, mut inner: std::sync::MutexGuard<'_, Inner>, now: Instant) {
        if inner.core.has_output() {
            inner.core.transmit(now);
        }
        // What goes to this process itself needs nobody else, and is over before the call returns.
        for _ in 0..HOME_TURN_COUNT {
            if !inner.core.has_home() {
                break;
            }
            inner.turn(now);
        }
        // Left behind as a long message is, for a helper beside a program that computes. To wake that after each call took some microseconds of
        // every put from a program that only waits.
        if inner.core.portals().take_work_left() {
            inner.posted_len = inner.posted_len.max(UNASKED_LEN + 1);
        }
        self.after_post(inner, now, false);
    }

    /// Looks once, after a turn if need be. As `look_at_portals` begins nothing, so does this: it may take events.
    pub fn poll_portals<R>(&self, mut ready: impl FnMut(&mut Portals) -> Option<R>) -> Option<R> {
        self.poll_once(|inner| ready(inner.core.portals()))
    }

    /// Waits until something is ready there; `None` if the time is over first, or the endpoint has ended.
    pub fn wait_portals<R>(
        &self,
        longest: Option<Duration>,
        mut ready: impl FnMut(&mut Portals) -> Option<R>,
    ) -> Option<R> {
        self.drive_until(longest, |inner| ready(inner.core.portals()))
    }

    /// Whoever waits looks again.
    pub fn wake_portals(&self) {
        let mut inner = self.lock();
        inner.has_news = true;
        self.release(inner);
    }
}
