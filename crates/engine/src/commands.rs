//! Posts that do not wait for whoever drives.
//!
//! ```text
//!   post ── lock free? ──▶ posted at once
//!     │ somebody is in a turn
//!     └──▶ left in the list ──▶ posted at the end of that turn, by whoever makes it
//! ```
//!
//! A turn may take tens of microseconds, moving somebody's large message; a thread that posts should not stand and wait for it.
//! It leaves a descriptor, with the memory it names, and goes on; a post that turns out to be wrong then becomes an entry of
//! its queue, or the end of its request. Whoever posts, cancels or closes first posts what was left, so that the calls of one
//! thread keep their order.
//!
//! **Names.** A post to no queue is asked for by name, and names are given under the lock. So whoever runs what was left lays in
//! some (`Requests::reserve`); who finds none waits for the lock after all.
//!
//! **Nothing is forgotten.** Who leaves a descriptor counts it and then looks whether the turn still goes on; who turns says
//! that it does not and then looks at the count. Both in the one order of `SeqCst`: one of them sees the other
//! (`tests::all_orders`). If the turn is over the poster takes the lock, which nobody holds for long then. Turns say nothing
//! before somebody stood at the lock once: an endpoint of one thread pays for none of this.
//!
//! Descriptors move from thread to thread by value, with what they own. In memory shared with another process they would be
//! plain words in a ring, like completions, and name memory by region and offset; pointers mean nothing there.

use std::collections::VecDeque;

#[cfg(all(loom, test))]
use loom::sync::{
    Mutex,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};
use std::sync::PoisonError;
#[cfg(not(all(loom, test)))]
use std::sync::{
    Mutex,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use packhorse_link::mem::Memory;
use packhorse_proto::{Instant, Payload, RecvSpec, ReqId, Use};

use crate::engine::{Engine, Inner, Recv, Refused, Send};
use crate::entry::{Kind, Trouble};
use crate::queue::{Notify, blank};
use crate::requests::{Outcome, RequestId, Requests, UNASKED_LEN};
use crate::translate::buf_of;

/// A post.
#[derive(Debug)]
pub(crate) enum Post {
    Send(Send, Memory),
    Recv(Recv, Memory),
}

/// Who learns what came of it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Told {
    /// A queue.
    Queue(Notify),
    /// Whoever asks by this name, which was reserved.
    Asker(RequestId),
}

/// A post that was left.
#[derive(Debug)]
pub(crate) struct Command {
    told: Told,
    post: Post,
}

/// Names laid in at most: so many posts of one turn need not wait.
const NAME_COUNT: usize = 64;

/// What was left, and whether somebody will come to it by himself.
#[derive(Debug)]
pub(crate) struct Commands {
    /// Somebody stood at the lock once, or posts to a queue.
    are_wanted: AtomicBool,
    is_turning: AtomicBool,
    count: AtomicUsize,
    list: Mutex<VecDeque<Command>>,
    names: Mutex<Vec<RequestId>>,
}

impl Default for Commands {
    fn default() -> Self {
        Self {
            are_wanted: AtomicBool::new(false),
            is_turning: AtomicBool::new(false),
            count: AtomicUsize::new(0),
            list: Mutex::new(VecDeque::new()),
            names: Mutex::new(Vec::new()),
        }
    }
}

impl Commands {
    /// From now on turns say that they are made.
    #[cold]
    pub(crate) fn want(&self) {
        self.are_wanted.store(true, Ordering::Relaxed);
    }

    /// Whether anybody ever left something, or would have.
    #[inline]
    pub(crate) fn are_wanted(&self) -> bool {
        self.are_wanted.load(Ordering::Relaxed)
    }

    /// A turn begins. Relaxed: who does not see it yet takes the lock instead, and waits.
    pub(crate) fn on_turn(&self) {
        self.is_turning.store(true, Ordering::Relaxed);
    }

    /// A turn is over. True: something was left.
    pub(crate) fn on_turned(&self) -> bool {
        self.is_turning.store(false, Ordering::SeqCst);
        between();
        self.count.load(Ordering::SeqCst) > 0
    }

    /// Whether somebody is in a turn, as far as one can tell without the lock.
    #[inline]
    pub(crate) fn is_turning(&self) -> bool {
        self.is_turning.load(Ordering::Relaxed)
    }

    /// Whether something may be there to be posted first.
    #[inline]
    pub(crate) fn may_have(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    fn pop(&self) -> Option<Command> {
        let command = self.list.lock().unwrap_or_else(PoisonError::into_inner).pop_front()?;
        self.count.fetch_sub(1, Ordering::Relaxed);
        Some(command)
    }

    /// Leaves a descriptor. True: whoever turns will come to it.
    fn leave(&self, command: Command) -> bool {
        self.list.lock().unwrap_or_else(PoisonError::into_inner).push_back(command);
        self.count.fetch_add(1, Ordering::SeqCst);
        between();
        self.is_turning.load(Ordering::SeqCst)
    }

    fn name(&self) -> Option<RequestId> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    /// Names for those who will leave something.
    #[cold]
    fn lay_in(&self, requests: &mut Requests) {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let missing = NAME_COUNT - names.len();
        names.extend((0..missing).map(|_| requests.reserve()));
    }
}

/// Between one's own word and the other's. The accesses around it are ordered by themselves; loom must be told.
#[inline]
fn between() {
    #[cfg(all(loom, test))]
    loom::sync::atomic::fence(Ordering::SeqCst);
}

impl Engine {
    /// Posts for a queue, or leaves it to whoever is in a turn.
    pub(crate) fn post_queued(&self, notify: Notify, post: Post) -> Result<(), Refused> {
        if self.is_free_to_post() {
            return self.post(post, Some(notify)).map(|_| ());
        }
        self.leave_behind(Command { told: Told::Queue(notify), post });
        Ok(())
    }

    /// The same for whoever asks by name. Somebody was in a turn a moment ago.
    #[cold]
    pub(crate) fn post_beside(&self, post: Post) -> Result<RequestId, Refused> {
        if self.is_free_to_post() {
            return self.post(post, None);
        }
        let Some(name) = self.commands.name() else {
            let posted = self.post(post, None);
            self.commands.lay_in(&mut self.lock().requests);
            return posted;
        };
        self.leave_behind(Command { told: Told::Asker(name), post });
        Ok(name)
    }

    fn is_free_to_post(&self) -> bool {
        !self.commands.is_turning() || self.try_lock().is_some()
    }

    fn post(&self, post: Post, notify: Option<Notify>) -> Result<RequestId, Refused> {
        match post {
            Post::Send(send, memory) => self.post_send(send, memory, notify),
            Post::Recv(recv, memory) => self.post_recv(recv, memory, notify),
        }
    }

    fn leave_behind(&self, command: Command) {
        if self.commands.leave(command) {
            self.looks.on_post();
        } else {
            let inner = self.lock_in_order(); // posts what was left
            self.after_post(inner, self.now(), false);
        }
    }
}

impl Inner {
    /// Posts what was left.
    #[cold]
    pub(crate) fn run_commands(&mut self, now: Instant) {
        let commands = std::sync::Arc::clone(&self.commands);
        while let Some(Command { told, post }) = commands.pop() {
            self.core.counters_mut().posts_left += 1;
            let notify = match told {
                Told::Queue(notify) => Some(notify),
                Told::Asker(name) => {
                    self.requests.bring_forward(name);
                    None
                }
            };
            let posted = match post {
                // For company: all that was left leaves together, below.
                Post::Send(send, memory) => self.put_send(now, true, send, memory, notify),
                Post::Recv(recv, memory) => self.put_recv(now, recv, memory, notify),
            };
            match (posted, notify) {
                (Ok(_), _) => {}
                (Err(refused), Some(notify)) => self.tell_refused(now, &notify, refused),
                (Err(refused), None) => self.end_refused(now, refused),
            }
        }
        commands.lay_in(&mut self.requests);
        if self.core.has_output() {
            self.core.transmit(now);
        }
        self.settle(now);
    }

    /// A send. `may_wait`: for company, until somebody turns.
    #[inline]
    pub(crate) fn put_send(
        &mut self,
        now: Instant,
        may_wait: bool,
        send: Send,
        memory: Memory,
        notify: Option<Notify>,
    ) -> Result<RequestId, Refused> {
        let len = memory.len();
        self.has_posted_long |= len > UNASKED_LEN;
        let id = self.core.memory().insert(memory);
        let request = self.requests.next_id();
        let spec = send.spec(Payload::InPlace { buf: buf_of(id), len }, request);
        let posted = match may_wait {
            true => self.core.endpoint().post_send(now, spec),
            false => self.core.post_send(now, spec),
        };
        match posted {
            Ok(req) => {
                self.requests.put(req, Some(id), len).notify = notify;
                Ok(request)
            }
            Err(error) => Err(Refused { error, memory: self.core.memory().remove(id) }),
        }
    }

    /// A receive.
    #[inline]
    pub(crate) fn put_recv(
        &mut self,
        now: Instant,
        recv: Recv,
        memory: Memory,
        notify: Option<Notify>,
    ) -> Result<RequestId, Refused> {
        let len = memory.len();
        let is_many = matches!(recv.uses, Use::Many { .. });
        self.has_posted_long |= len > UNASKED_LEN && !is_many;
        let id = self.core.memory().insert(memory);
        let request = self.requests.next_id();
        let spec = RecvSpec {
            criteria: recv.criteria,
            buf: buf_of(id),
            len,
            list: recv.list,
            uses: recv.uses,
            header_only: recv.header_only,
            user: request.0,
        };
        let posted = self.core.with(|endpoint, memory| endpoint.post_recv(now, spec, memory));
        match posted {
            Ok(req) => {
                // What comes to an entry used many times is told as it comes, and mostly short.
                let slot = self.requests.put(req, Some(id), if is_many { 0 } else { len });
                (slot.notify, slot.is_receive, slot.is_many) = (notify, true, is_many);
                if is_many && notify.is_none() {
                    slot.arrivals = Some(Box::default());
                }
                Ok(request)
            }
            Err(error) => Err(Refused { error, memory: self.core.memory().remove(id) }),
        }
    }

    /// Nobody stands there to be told: the queue is.
    fn tell_refused(&mut self, now: Instant, notify: &Notify, refused: Refused) {
        let id = self.requests.next_id();
        self.requests.put(ReqId(u64::MAX), None, 0).notify = Some(*notify);
        let kept = refused.memory.filter(Memory::is_owned);
        let result = Err(Trouble::Refused(refused.error));
        let mut entry = blank(notify, id, result, now);
        (entry.kind, entry.has_memory) = (Kind::Unlinked, kept.is_some());
        self.requests.end_queued(id, kept);
        self.tell(notify, &entry);
    }

    /// The same for who asks by name: the one that was brought forward is still the next.
    fn end_refused(&mut self, now: Instant, refused: Refused) {
        let Refused { error, memory } = refused;
        let id = self.requests.next_id();
        let memory_id = memory.map(|memory| self.core.memory().insert(memory));
        self.requests.put(ReqId(u64::MAX), memory_id, 0);
        self.end(id.0, Outcome::Refused { error }, now);
    }
}

#[cfg(test)]
mod tests;
