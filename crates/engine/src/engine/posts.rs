//! What an application posts: sends, receives and claims, and what takes them back. What can leave leaves with its post.

use std::sync::MutexGuard;
use std::sync::atomic::Ordering;

use packhorse_link::mem::Memory;
use packhorse_proto::{Claim, GIVEN_LEN_MAX, Instant, Payload, PeerId, PostError};

use super::Engine;
use crate::baton::Errand;
use crate::inner::Inner;
use crate::names::{Notify, RequestId};
use crate::post::{Post, Recv, Refused, Send};
use crate::requests::{HUGE_LEN, UNASKED_LEN};
use crate::translate::buf_of;

/// Sends that follow each other so closely are a burst.
const BURST_NS: u64 = 10_000;
/// With so many it is a long one.
const LONG_BURST: u32 = 8;

impl Engine {
    /// After a post: what can leave leaves now, unless it may wait.
    pub(crate) fn after_post(
        &self,
        mut inner: MutexGuard<'_, Inner>,
        now: Instant,
        may_wait: bool,
    ) {
        if !may_wait && inner.core.has_output() {
            inner.core.transmit(now);
        }
        inner.settle(now);
        // What could not leave now is due now, for whoever sleeps.
        let is_left = !may_wait && inner.core.has_work();
        let is_asleep = self.doze.is_asleep() || self.helper_doze.is_asleep();
        let due = match is_asleep {
            true if is_left => Instant(0),
            true => inner.core.next_timeout_for_sleep(now),
            false => Instant::NEVER,
        };
        // Whoever sleeps in a loop of its own and has nobody to drive for it does not know of new timers.
        inner.has_news |= inner.is_bell_armed && !self.helper.baton.is_present();
        let errand = self.errand_of_post(&mut inner, now);
        self.release(inner);
        self.looks.on_post();
        self.doze.wake_before(due);
        self.helper_doze.wake_before(due);
        self.run_errand(errand);
    }

    /// After a post of which nothing came, or a frame that has left: no event, nothing to send. Mostly there is nobody to be told of it.
    pub(crate) fn after_plain_post(&self, inner: MutexGuard<'_, Inner>, now: Instant) {
        let is_somebody_there = inner.posted_len > UNASKED_LEN
            || inner.is_bell_armed
            || inner.core.has_work()
            || self.doze.is_asleep()
            || self.helper_doze.is_asleep()
            || self.helper.baton.is_driving()
            || self.is_watched.load(Ordering::Relaxed);
        if is_somebody_there {
            return self.after_post(inner, now, false);
        }
        drop(inner);
        self.looks.on_post();
    }

    /// What a post means for the helper. What has left, and needs no grant, waits in the peer's socket until its application comes for it, and
    /// the answer here: nobody need be woken for that, and a helper that drives had better not be woken by it.
    fn errand_of_post(&self, inner: &mut Inner, now: Instant) -> Errand {
        let len = std::mem::take(&mut inner.posted_len);
        let is_long = len > UNASKED_LEN;
        let baton = &self.helper.baton;
        // What is to be fetched and is not long waits for the application, as in a socket it would.
        if is_long && len < HUGE_LEN && self.lets_helper_stay_afar(inner, now) {
            baton.on_post_afar()
        } else if is_long || inner.core.has_output() || self.is_watched.load(Ordering::Relaxed) {
            baton.on_post(is_long)
        } else if baton.is_driving() && !self.needs_driver(inner) {
            baton.on_turn(now.max(self.now()), false)
        } else {
            Errand::None
        }
    }

    /// The time for a send, and whether it may wait for company: something is on its way to the same peer, and whoever drives
    /// comes by soon. Then the time of the last turn will do: reading the clock costs as much as the post.
    pub(crate) fn send_time(&self, inner: &mut Inner, peer: PeerId) -> (Instant, bool) {
        let is_busy = inner.core.rules().is_busy(peer);
        if is_busy && self.is_driven_soon(inner) {
            return (inner.core.turned_at(), true);
        }
        let now = self.now();
        let sent_at = std::mem::replace(&mut inner.sent_at, now);
        if !is_busy || now - sent_at >= BURST_NS {
            inner.burst_count = 0;
            return (now, false);
        }
        inner.burst_count += 1;
        (now, self.is_call_heard(now, inner.burst_count))
    }

    /// A burst goes on while the helper sleeps on the links, or is away. Called near it looks around every fraction of a millisecond, and what
    /// is posted meanwhile leaves together. Costs as much as a send or two, once for a burst: one that sleeps on the links would be woken by the
    /// first answer anyway; one that is away is left there for a few messages.
    #[cold]
    fn is_call_heard(&self, now: Instant, burst_count: u32) -> bool {
        let is_driving = self.helper.baton.is_driving();
        if is_driving || burst_count == LONG_BURST {
            self.run_errand(self.helper.baton.on_call(now));
        }
        is_driving
    }

    /// Posts a send of lent memory. It does not wait for whoever is in a turn; if it is he who finds it to be wrong, it ends so
    /// ([`Outcome::Refused`](crate::Outcome::Refused)).
    pub fn send(&self, send: Send, memory: Memory) -> Result<RequestId, Refused> {
        if self.commands.is_turning() {
            return self.post_beside(Post::Send(send, memory));
        }
        self.post_send(send, memory, None)
    }

    pub(crate) fn post_send(
        &self,
        send: Send,
        memory: Memory,
        notify: Option<Notify>,
    ) -> Result<RequestId, Refused> {
        let mut inner = self.lock_in_order();
        let (now, may_wait) = self.send_time(&mut inner, send.peer);
        let request = inner.put_send(now, may_wait, send, memory, notify)?;
        self.after_post(inner, now, may_wait);
        Ok(request)
    }

    /// Sends a copy of these bytes; nothing to wait for. Refused if the resend pool is full or they are too long for it.
    pub fn send_copied(&self, send: Send, bytes: &[u8]) -> Result<(), PostError> {
        let mut inner = self.lock_in_order();
        let (now, may_wait) = self.send_time(&mut inner, send.peer);
        let spec = send.spec(Payload::Copied(bytes), RequestId(u64::MAX));
        if may_wait {
            inner.core.endpoint().post_send(now, spec)?;
            self.after_post(inner, now, may_wait);
        } else {
            inner.core.post_send(now, spec)?;
            self.after_plain_post(inner, now); // mostly it has left, and nobody is told of that
        }
        Ok(())
    }

    /// Sends a copy of these bytes if it can be given to the peer at once, through memory that both share, and nobody keeps another. False: nothing was
    /// done. For messages that would rather be lent than copied by any other way.
    pub fn give(&self, send: Send, bytes: &[u8]) -> bool {
        if bytes.len() as u64 > GIVEN_LEN_MAX {
            return false;
        }
        let mut inner = self.lock_in_order();
        let (now, may_wait) = self.send_time(&mut inner, send.peer);
        let spec = send.spec(Payload::Copied(bytes), RequestId(u64::MAX));
        if may_wait || !inner.core.give_or_leave(now, &spec) {
            return false;
        }
        self.after_plain_post(inner, now);
        true
    }

    /// Posts a receive into lent memory, as `send` does.
    pub fn recv(&self, recv: Recv, memory: Memory) -> Result<RequestId, Refused> {
        if self.commands.is_turning() {
            return self.post_beside(Post::Recv(recv, memory));
        }
        self.post_recv(recv, memory, None)
    }

    pub(crate) fn post_recv(
        &self,
        recv: Recv,
        memory: Memory,
        notify: Option<Notify>,
    ) -> Result<RequestId, Refused> {
        debug_assert!(memory.is_writable());
        let mut inner = self.lock_in_order();
        // Reading the clock costs as much as a plain receive, and one that finds nothing starts nothing.
        let is_plain = !inner.core.rules().may_have_for_receive();
        let now = if is_plain { inner.core.turned_at() } else { self.now() };
        let request = inner.put_recv(now, recv, memory, notify)?;
        if is_plain && !inner.core.has_work() {
            self.after_plain_post(inner, now); // no event, no timer, no frame
        } else {
            self.after_post(inner, now, false);
        }
        Ok(request)
    }

    /// Receives a claimed message.
    pub fn recv_claimed(&self, claim: Claim, memory: Memory) -> Result<RequestId, Refused> {
        self.post_claimed(claim, memory, None)
    }

    pub(crate) fn post_claimed(
        &self,
        claim: Claim,
        memory: Memory,
        notify: Option<Notify>,
    ) -> Result<RequestId, Refused> {
        let mut inner = self.lock_in_order();
        let now = self.now();
        let len = memory.len();
        inner.posted_len = inner.posted_len.max(len);
        let id = inner.core.memory().insert(memory);
        let request = inner.requests.next_id();
        let posted = inner.core.with(|endpoint, memory| {
            endpoint.recv_claimed(now, claim, buf_of(id), len, request.0, memory)
        });
        match posted {
            Ok(req) => {
                let slot = inner.requests.put(req, Some(id), len);
                (slot.notify, slot.is_receive) = (notify, true);
                self.after_post(inner, now, false);
                Ok(request)
            }
            Err(error) => Err(Refused { error, memory: inner.core.memory().remove(id) }),
        }
    }

    /// Throws a claimed message away.
    pub fn discard(&self, claim: Claim) -> Result<(), PostError> {
        if !self.is_here() {
            return Err(PostError::Closing);
        }
        let mut inner = self.lock();
        let now = self.now();
        inner.core.endpoint().discard(now, claim)?;
        self.after_post(inner, now, false);
        Ok(())
    }

    /// Cancels a request; it ends at once, whatever the peer does. False: it had ended before.
    pub fn cancel(&self, id: RequestId) -> bool {
        let mut inner = self.lock_in_order();
        let now = self.now();
        let Some(req) = inner.requests.pending(id).map(|pending| pending.req) else { return false };
        let is_cancelled = inner.core.endpoint().cancel(now, req);
        self.after_post(inner, now, false);
        is_cancelled
    }

    /// Nobody will ask for this request any more; a receive is cancelled, a send goes on.
    pub fn abandon(&self, id: RequestId, is_receive: bool) {
        if !self.is_here() {
            return; // the parent goes on with it
        }
        let mut inner = self.lock_in_order();
        let req = inner.requests.pending(id).map(|pending| pending.req);
        inner.requests.detach(id);
        if let Some(req) = req.filter(|_| is_receive) {
            let now = self.now();
            inner.core.endpoint().cancel(now, req);
            self.after_post(inner, now, false);
        }
    }

    /// Calls `read` with each piece of `len` bytes at `offset` of an open request's memory.
    pub fn read(&self, id: RequestId, offset: u64, len: usize, out: &mut Vec<u8>) -> bool {
        let mut inner = self.lock();
        let Some(memory) = inner.requests.pending(id).and_then(|slot| slot.memory_id) else {
            return false;
        };
        inner.core.memory().copy_out(memory, offset, len, out)
    }

    /// Whether the request has ended, or its name is void.
    pub fn is_over(&self, id: RequestId) -> bool {
        self.lock().requests.is_done(id)
    }
}
