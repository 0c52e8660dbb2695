//! Posts under the lock: those that were left, and what each post does.

use packhorse_link::mem::Memory;
use packhorse_proto::{Instant, Payload, RecvSpec, ReqId, Use};

use super::Inner;
use crate::commands::{Command, Told};
use crate::entry::{Kind, Trouble};
use crate::names::{Notify, RequestId};
use crate::post::{Post, Recv, Refused, Send};
use crate::queue::blank;
use crate::requests::Outcome;
use crate::translate::buf_of;

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
        self.posted_len = self.posted_len.max(len);
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
        if !is_many {
            self.posted_len = self.posted_len.max(len);
        }
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

    /// A request that is asked for by name ends as refused: the one that was brought forward is still the next.
    fn end_refused(&mut self, now: Instant, refused: Refused) {
        let Refused { error, memory } = refused;
        let id = self.requests.next_id();
        let memory_id = memory.map(|memory| self.core.memory().insert(memory));
        self.requests.put(ReqId(u64::MAX), memory_id, 0);
        self.end(id.0, Outcome::Refused { error }, now);
    }
}
