//! Posts that do not wait for whoever drives.
//!
//! ```text
//!   post ── lock free? ──▶ posted at once
//!     │ somebody is in a turn
//!     └──▶ left in the list ──▶ posted at the end of that turn, by whoever makes it
//! ```
//!
//! A turn may take tens of microseconds, moving somebody's large message; a thread that posts to a queue should not stand
//! and wait for it. It leaves a descriptor, with the memory it names, and goes on; a post that turns out to be wrong then
//! becomes an entry of the queue. Whoever posts, cancels or closes first posts what was left, so that the calls of one
//! thread keep their order.
//!
//! **Nothing is forgotten.** Who leaves a descriptor counts it and then looks whether the turn still goes on; who turns says
//! that it does not and then looks at the count. Both in the one order of `SeqCst`: one of them sees the other. If the turn
//! is over the poster takes the lock, which nobody holds for long then.
//!
//! Descriptors move from thread to thread by value, with what they own. In memory shared with another process they would be
//! plain words in a ring, like completions, and name memory by region and offset; pointers mean nothing there.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use packhorse_link::mem::Memory;
use packhorse_proto::{BufId, Instant, Payload, RecvSpec, Use};

use crate::engine::{Engine, Inner, Recv, Refused, Send};
use crate::entry::{Kind, Trouble};
use crate::queue::{Notify, blank};
use crate::requests::RequestId;

/// A post that was left.
#[derive(Debug)]
pub(crate) enum Command {
    Send(Notify, Send, Memory),
    Recv(Notify, Recv, Memory),
}

/// What was left, and whether somebody will come to it by himself.
#[derive(Debug, Default)]
pub(crate) struct Commands {
    is_turning: AtomicBool,
    count: AtomicUsize,
    list: Mutex<VecDeque<Command>>,
}

impl Commands {
    /// A turn begins. Relaxed: who does not see it yet takes the lock instead, and waits.
    pub(crate) fn on_turn(&self) {
        self.is_turning.store(true, Ordering::Relaxed);
    }

    /// A turn is over. True: something was left.
    pub(crate) fn on_turned(&self) -> bool {
        self.is_turning.store(false, Ordering::SeqCst);
        self.count.load(Ordering::SeqCst) > 0
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
        self.is_turning.load(Ordering::SeqCst)
    }
}

impl Engine {
    /// Posts, or leaves it to whoever is in a turn.
    pub(crate) fn post_or_leave(&self, command: Command) -> Result<(), Refused> {
        let is_turning = self.commands.is_turning.load(Ordering::Relaxed);
        if !is_turning || self.inner.try_lock().is_ok() {
            return match command {
                Command::Send(notify, send, memory) => {
                    self.post_send(send, memory, Some(notify)).map(|_| ())
                }
                Command::Recv(notify, recv, memory) => {
                    self.post_recv(recv, memory, Some(notify)).map(|_| ())
                }
            };
        }
        if !self.commands.leave(command) {
            let inner = self.lock_in_order(); // posts what was left
            self.after_post(inner, self.now(), false);
        }
        Ok(())
    }
}

impl Inner {
    /// Posts what was left.
    #[cold]
    pub(crate) fn run_commands(&mut self, now: Instant) {
        while let Some(command) = self.commands.pop() {
            self.core.counters_mut().posts_left += 1;
            let (notify, refused) = match command {
                Command::Send(notify, send, memory) => {
                    (notify, self.put_send(now, false, send, memory, Some(notify)).err())
                }
                Command::Recv(notify, recv, memory) => {
                    (notify, self.put_recv(now, recv, memory, Some(notify)).err())
                }
            };
            if let Some(refused) = refused {
                self.tell_refused(now, &notify, refused);
            }
        }
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
        let id = self.core.memory().insert(memory);
        let request = self.requests.next_id();
        let spec = send.spec(Payload::InPlace { buf: BufId(id), len }, request);
        let posted = match may_wait {
            true => self.core.endpoint().post_send(now, spec),
            false => self.core.post_send(now, spec),
        };
        match posted {
            Ok(req) => {
                self.requests.put(req, Some(id)).notify = notify;
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
        let id = self.core.memory().insert(memory);
        let request = self.requests.next_id();
        let spec = RecvSpec {
            criteria: recv.criteria,
            buf: BufId(id),
            len,
            list: recv.list,
            uses: recv.uses,
            header_only: recv.header_only,
            user: request.0,
        };
        let posted = self.core.with(|endpoint, memory| endpoint.post_recv(now, spec, memory));
        match posted {
            Ok(req) => {
                let is_many = matches!(recv.uses, Use::Many { .. });
                let slot = self.requests.put(req, Some(id));
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
        self.requests.put(packhorse_proto::ReqId(u64::MAX), None).notify = Some(*notify);
        let kept = refused.memory.filter(Memory::is_owned);
        let result = Err(Trouble::Refused(refused.error));
        let mut entry = blank(notify, id, result, now);
        (entry.kind, entry.has_memory) = (Kind::Unlinked, kept.is_some());
        self.requests.end_queued(id, kept);
        self.tell(notify, &entry);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use packhorse_proto::{PeerId, Space, Tag};

    fn command() -> Command {
        let notify = Notify { queue: crate::queue::QueueId(0), context: 0, only_errors: false };
        let (peer, space, tag) = (PeerId(0), Space(0), Tag(0));
        let send = Send { peer, space, tag, immediate: None, until_matched: false };
        Command::Send(notify, send, vec![1].into())
    }

    #[test]
    fn what_is_left_during_a_turn_is_found_at_its_end() {
        let commands = Commands::default();
        commands.on_turn();
        assert!(commands.leave(command()), "he will come to it");
        assert!(commands.on_turned() && commands.may_have());
        assert!(!commands.leave(command()), "the turn is over: the poster must see to it himself");
        assert!(commands.pop().is_some() && commands.pop().is_some() && commands.pop().is_none());
        assert!(!commands.may_have() && !commands.on_turned());
    }
}
