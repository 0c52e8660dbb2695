//! Posts whose ends a queue is told of, and what else is said of a queue.

use packhorse_link::mem::Memory;
use packhorse_proto::Claim;

use super::Engine;
use crate::names::{Notify, QueueId, RequestId};
use crate::post::{Post, Recv, Refused, Send};
use crate::queue::blank;

/// Posts whose ends a queue is told of. They do not wait for whoever is in a turn; if it is he who finds one to be wrong, the
/// queue is told ([`Trouble::Refused`](crate::Trouble::Refused)).
impl Engine {
    /// Posts a send of lent memory.
    pub fn send_queued(&self, notify: Notify, send: Send, memory: Memory) -> Result<(), Refused> {
        self.post_queued(notify, Post::Send(send, memory))
    }

    /// Posts a receive into lent memory. An entry used many times tells of each message, and last of its own end.
    pub fn recv_queued(&self, notify: Notify, recv: Recv, memory: Memory) -> Result<(), Refused> {
        debug_assert!(memory.is_writable());
        if !self.commands.is_turning() {
            return self.post_recv(recv, memory, Some(notify)).map(|_| ());
        }
        self.post_queued(notify, Post::Recv(recv, memory))
    }

    /// Receives a claimed message.
    pub fn recv_claimed_queued(
        &self,
        notify: Notify,
        claim: Claim,
        memory: Memory,
    ) -> Result<(), Refused> {
        self.post_claimed(claim, memory, Some(notify)).map(|_| ())
    }

    /// Cancels the requests that were posted to a queue with this context; how many. Each ends at once, with an entry,
    /// whatever the peer does; a send that was matched already goes on. Looks through all that is pending.
    pub fn cancel_queued(&self, queue: QueueId, context: u64) -> usize {
        let mut inner = self.lock_in_order();
        let now = self.now();
        let all = inner.requests.of_queue(queue.0).filter(|(_, notify)| notify.context == context);
        let all: Vec<_> = all.map(|(id, _)| id).collect();
        let mut count = 0;
        for id in all {
            if let Some(req) = inner.requests.pending(id).map(|pending| pending.req) {
                count += usize::from(inner.core.endpoint().cancel(now, req));
            }
        }
        self.after_post(inner, now, false);
        count
    }

    /// Takes back a receive that was posted to a queue with this context and that no message was bound to: whether there was one. Its end
    /// is told, as cancelled. One into which a message arrives goes on.
    pub fn cancel_unbound_queued(&self, queue: QueueId, context: u64) -> bool {
        let mut inner = self.lock_in_order();
        let now = self.now();
        let mut all = inner.requests.of_queue(queue.0);
        let id = all.find(|(_, notify)| notify.context == context).map(|(id, _)| id);
        drop(all);
        let req = id.and_then(|id| inner.requests.pending(id).map(|pending| pending.req));
        let is_withdrawn = req.is_some_and(|req| inner.core.endpoint().cancel_unbound(now, req));
        self.after_post(inner, now, false);
        is_withdrawn
    }

    /// Puts an entry without a request into a queue: its reader wakes and finds the context.
    pub fn ring(&self, notify: Notify) {
        let mut inner = self.lock();
        let entry = blank(&notify, RequestId(u64::MAX), Ok(()), self.now());
        inner.tell(&notify, &entry);
        inner.queues.publish();
        self.release(inner);
    }

    /// Takes entries used many times that were posted to a queue with this context out of matching; how many. Each tells of what is
    /// arriving into it, then of its own end, as one that is full. For readers with a list of their own that peers fill.
    pub fn unlink_queued(&self, queue: QueueId, context: u64) -> usize {
        let mut inner = self.lock_in_order();
        let now = self.now();
        let all = inner.requests.of_queue(queue.0).filter(|(_, notify)| notify.context == context);
        let all: Vec<_> = all.map(|(id, _)| id).collect();
        let mut count = 0;
        for id in all {
            if let Some(req) = inner.requests.pending(id).map(|pending| pending.req) {
                count += usize::from(inner.core.endpoint().unlink(req));
            }
        }
        self.after_post(inner, now, false);
        count
    }

    /// Whether peers' writes that are told of are refused until further notice: the reader of a queue took more of them than its own
    /// reader did. They come again; nothing is lost.
    pub fn hold_notices(&self, are_held: bool) {
        let mut inner = self.lock();
        inner.is_reader_full = are_held;
        match are_held {
            true => inner.set_notices_held(true),
            false => inner.look_for_room(),
        }
        self.release(inner);
    }

    /// From now on a queue is told of copied sends that fail. (Their success is known from the post.)
    pub fn tell_lost(&self, notify: Notify) {
        self.lock().lost_notify = Some(notify);
    }

    /// The memory of an ended request whose entry says that there is some.
    pub fn take_memory(&self, request: RequestId) -> Option<Memory> {
        self.lock().requests.take(request)?.memory
    }
}
