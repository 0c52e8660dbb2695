//! The engine as a face sees it: posts with a queue, early messages, memory for peers, Portals. Placement, links, streams, waiting and closing are the
//! endpoint's.
//!
//! Each call is the engine's of the same name and nothing more, so that what faces rely on stands in one list.

use std::sync::Arc;
use std::time::Duration;

use packhorse_engine::{Completion, QueueId, Refused, RequestId, Unexposed};
use packhorse_proto::Identity;
use packhorse_proto::portals::Portals;

use super::{
    Atomic, BufId, Claim, Completions, Criteria, Envelope, Exposure, Memory, Notify, PeerId,
    PostError, Put, Recv, RegionId, Remote, Send,
};

/// The engine of an endpoint.
#[derive(Clone, Copy)]
pub struct Engine<'a>(pub(super) &'a Arc<packhorse_engine::Engine>);

/// Messages whose ends are told in a queue.
impl Engine<'_> {
    /// A queue of so many entries. It ends with the engine, or when it is dropped.
    pub fn completions(self, entry_count: usize) -> Completions {
        Completions::new(self.0, entry_count)
    }

    /// Posts a send of lent memory.
    #[inline]
    pub fn send_queued(self, notify: Notify, send: Send, memory: Memory) -> Result<(), Refused> {
        self.0.send_queued(notify, send, memory)
    }

    /// Sends a copy of these bytes; nothing to wait for. Refused if the resend pool is full or they are too long for it.
    #[inline]
    pub fn send_copied(self, send: Send, bytes: &[u8]) -> Result<(), PostError> {
        self.0.send_copied(send, bytes)
    }

    /// Sends a copy of these bytes if it can be given to the peer at once, through memory that both share. False: nothing was done.
    #[inline]
    pub fn give(self, send: Send, bytes: &[u8]) -> bool {
        self.0.give(send, bytes)
    }

    /// Whether this peer would fetch a message of this length from where it is, if it is lent and not copied.
    #[inline]
    pub fn is_fetched(self, peer: PeerId, len: u64) -> bool {
        self.0.is_fetched(peer, len)
    }

    /// Posts a receive into lent memory. An entry used many times tells of each message, and last of its own end.
    #[inline]
    pub fn recv_queued(self, notify: Notify, recv: Recv, memory: Memory) -> Result<(), Refused> {
        self.0.recv_queued(notify, recv, memory)
    }

    /// Receives a claimed message.
    #[inline]
    pub fn recv_claimed_queued(
        self,
        notify: Notify,
        claim: Claim,
        memory: Memory,
    ) -> Result<(), Refused> {
        self.0.recv_claimed_queued(notify, claim, memory)
    }

    /// Cancels the requests that were posted to a queue with this context; how many. Each ends at once, with an entry,
    /// whatever the peer does; a send that was matched already goes on. Looks through all that is pending.
    #[inline]
    pub fn cancel_queued(self, queue: QueueId, context: u64) -> usize {
        self.0.cancel_queued(queue, context)
    }

    /// Takes back a receive that was posted to a queue with this context and that no message was bound to: whether there was one. Its end
    /// is told, as cancelled. One into which a message arrives goes on.
    #[inline]
    pub fn cancel_unbound_queued(self, queue: QueueId, context: u64) -> bool {
        self.0.cancel_unbound_queued(queue, context)
    }

    /// Takes entries used many times that were posted to a queue with this context out of matching; how many. Each tells of what is
    /// arriving into it, then of its own end, as one that is full. For readers with a list of their own that peers fill.
    #[inline]
    pub fn unlink_queued(self, queue: QueueId, context: u64) -> usize {
        self.0.unlink_queued(queue, context)
    }

    /// From now on a queue is told of copied sends that fail. (Their success is known from the post.)
    #[inline]
    pub fn tell_lost(self, notify: Notify) {
        self.0.tell_lost(notify);
    }

    /// Whether peers' writes that are told of are refused until further notice: the reader of a queue took more of them than its own
    /// reader did. They come again; nothing is lost.
    #[inline]
    pub fn hold_notices(self, are_held: bool) {
        self.0.hold_notices(are_held);
    }

    /// Puts an entry without a request into a queue: its reader wakes and finds the context.
    #[inline]
    pub fn ring(self, notify: Notify) {
        self.0.ring(notify);
    }

    /// The memory of an ended request whose entry says that there is some.
    #[inline]
    pub fn take_memory(self, request: RequestId) -> Option<Memory> {
        self.0.take_memory(request)
    }
}

/// Messages that came before their receive, and peers.
impl Engine<'_> {
    /// Asks for a message no receive took yet; the links are asked before it says that there is none.
    #[inline]
    pub fn probe(self, criteria: &Criteria) -> Option<Envelope> {
        self.0.probe(criteria)
    }

    /// Takes such a message out of matching: only who holds the claim gets it.
    #[inline]
    pub fn claim(self, criteria: &Criteria) -> Option<(Claim, Envelope)> {
        self.0.claim(criteria)
    }

    /// Whether all of a claimed message is here, so that receiving it ends at once.
    #[inline]
    pub fn is_whole(self, claim: Claim) -> bool {
        self.0.is_whole(claim)
    }

    /// Throws a claimed message away.
    #[inline]
    pub fn discard(self, claim: Claim) -> Result<(), PostError> {
        self.0.discard(claim)
    }

    /// Receives a claimed message.
    #[inline]
    pub fn recv_claimed(self, claim: Claim, memory: Memory) -> Result<RequestId, Refused> {
        self.0.recv_claimed(claim, memory)
    }

    /// Waits for the end of a request; `None` if the time is over first.
    #[inline]
    pub fn wait(self, id: RequestId, longest: Option<Duration>) -> Option<Completion> {
        self.0.wait(id, longest)
    }

    /// Who a peer is.
    #[inline]
    pub fn identity_of(self, peer: PeerId) -> Option<Identity> {
        self.0.identity_of(peer)
    }

    /// One turn, for applications that want to give time to the engine. Returns how much was done.
    #[inline]
    pub fn turn(self) -> usize {
        self.0.turn()
    }
}

/// One-sided operations.
impl Engine<'_> {
    /// Puts lent memory into a peer's.
    #[inline]
    pub fn put(
        self,
        put: Put,
        memory: Memory,
        notify: Option<Notify>,
    ) -> Result<RequestId, Refused> {
        self.0.put(put, memory, notify)
    }

    /// Puts a copy of these bytes into a peer's memory. Refused if the resend pool is full or they are too long for it.
    #[inline]
    pub fn put_copied(
        self,
        put: Put,
        bytes: &[u8],
        notify: Option<Notify>,
    ) -> Result<RequestId, PostError> {
        self.0.put_copied(put, bytes, notify)
    }

    /// Gets bytes out of a peer's memory, as many as the lent memory has.
    #[inline]
    pub fn get(
        self,
        from: Remote,
        memory: Memory,
        notify: Option<Notify>,
    ) -> Result<RequestId, Refused> {
        self.0.get(from, memory, notify)
    }

    /// Computes with elements in a peer's memory. What was there before goes to `result`, which has their length.
    #[inline]
    pub fn atomic(
        self,
        atomic: Atomic<'_>,
        result: Option<Memory>,
        notify: Option<Notify>,
    ) -> Result<RequestId, Refused> {
        self.0.atomic(atomic, result, notify)
    }

    /// Exposes memory to peers, until it is withdrawn.
    #[inline]
    pub fn expose(self, exposure: Exposure, memory: Memory) -> Result<RegionId, Unexposed> {
        self.0.expose(exposure, memory)
    }

    /// Withdraws a region: its memory is the caller's again, whatever peers were doing with it. `None` if it was withdrawn
    /// before, or the engine ended.
    #[inline]
    pub fn withdraw(self, region: RegionId) -> Option<Memory> {
        self.0.withdraw(region)
    }
}

/// Somebody who is called when something ended.
impl Engine<'_> {
    /// From now on the helper calls `attendant` when something ended that a queue is told of, or a peer used memory that is watched. It is
    /// called with nothing in hand, and may do what an application may, but wait. The helper drives for all that is pending then, not only
    /// for what the sockets cannot do. Only the first of several counts.
    #[inline]
    pub fn attend(self, attendant: impl Fn() + std::marker::Send + Sync + 'static) {
        self.0.attend(attendant);
    }

    /// The attendant has something to do that did not come by the engine.
    #[inline]
    pub fn call_attendant(self) {
        self.0.call_attendant();
    }
}

/// Portals.
impl Engine<'_> {
    /// Does something there. What it makes due begins before this returns.
    #[inline]
    pub fn with_portals<R>(self, work: impl FnOnce(&mut Portals) -> R) -> R {
        self.0.with_portals(work)
    }

    /// Does something with Portals that needs memory; whoever does not keep the memory's name gives it back (`Portals::take_freed` does that for what was used).
    #[inline]
    pub fn with_portals_and<R>(
        self,
        memory: Option<Memory>,
        work: impl FnOnce(&mut Portals, Option<BufId>) -> R,
    ) -> R {
        self.0.with_portals_and(memory, work)
    }

    /// Does something with Portals that needs memory and may fail: then the memory is given back.
    #[inline]
    pub fn try_portals_with<T, E>(
        self,
        memory: Memory,
        work: impl FnOnce(&mut Portals, BufId) -> Result<T, E>,
    ) -> Result<T, E> {
        self.0.try_portals_with(memory, work)
    }

    /// Does something there that begins nothing and tells nobody: looks, mostly.
    #[inline]
    pub fn look_at_portals<R>(self, look: impl FnOnce(&mut Portals) -> R) -> R {
        self.0.look_at_portals(look)
    }

    /// Looks once, after a turn if need be.
    #[inline]
    pub fn poll_portals<R>(self, ready: impl FnMut(&mut Portals) -> Option<R>) -> Option<R> {
        self.0.poll_portals(ready)
    }

    /// Waits until something is ready there; `None` if the time is over first, or the endpoint has ended.
    #[inline]
    pub fn wait_portals<R>(
        self,
        longest: Option<Duration>,
        ready: impl FnMut(&mut Portals) -> Option<R>,
    ) -> Option<R> {
        self.0.wait_portals(longest, ready)
    }

    /// Whoever waits looks again.
    #[inline]
    pub fn wake_portals(self) {
        self.0.wake_portals();
    }

    /// Closes one of the four interfaces, with all that is under way there.
    #[inline]
    pub fn close_portals(self, ni: u8) {
        self.0.close_portals(ni);
    }

    /// A copy of bytes of memory that is lent; `None` if they are not there.
    #[inline]
    pub fn copy_lent(self, buf: BufId, offset: u64, len: usize) -> Option<Vec<u8>> {
        self.0.copy_lent(buf, offset, len)
    }
}
