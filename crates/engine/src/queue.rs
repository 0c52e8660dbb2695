//! Completion queues: many requests, one place to learn of their ends.
//!
//! ```text
//!   post(context) ──▶ engine owns the descriptor and its memory ── end ──▶ Writer ═══ ring ═══▶ Completions ──▶ poll, wait
//!                                                                            │ full: spill          │
//!                                                                            └──── refill ◀─ room ──┘
//! ```
//!
//! As in EMP a post hands a descriptor over and its completion hands it back. A request posted to a queue is not asked for:
//! its end becomes an [`Entry`] in a ring (`link::ring`, one writer, one reader). The writer is whoever holds the engine's
//! lock, the reader whoever holds the [`Completions`], so that an empty queue costs its reader one load and no lock.
//!
//! **Nothing is lost.** A ring has an end, so behind a full one entries spill into a list behind the engine's lock, in order, and
//! the ring's own signal (`want_room`) brings the reader to fetch them. The list grows only with what the application posted.
//! What peers could fill it with for ever ends when too much spilled ([`SPILL_COUNT_MAX`]): an entry used many times, which takes
//! messages of no bytes without end, is unlinked, and what comes then is held, or refused, by the rules of the protocol; puts that
//! are told of are refused until the reader made room (`hold_notices`). A reader that keeps entries in a list of its own has the
//! same two ways: [`Engine::unlink_queued`] and [`Engine::hold_notices`].
//!
//! **Who drives and reads** needs no ring: what a turn of the reader's own ends is handed to it as it is (`Queues::lend`), if nothing
//! waits in the ring before it. MPI libraries read so, and half of what an entry cost was its way through the ring.
//!
//! **Shared with another process** it could be: entries are plain words, the ring distrusts its other side and lives in any
//! memory. What would be added is the knock (`Producer::must_wake`) instead of the engine's lock.

mod completions;

use std::collections::VecDeque;

use packhorse_link::mem::{Memory, MemoryId};
use packhorse_link::ring::{Producer, Share};
use packhorse_proto::{Claim, Failure, Instant, OperationKind, PeerId, Space, Tag};

use crate::commands::Post;
use crate::engine::{Engine, Inner, Recv, Refused, Send};
use crate::entry::{Entry, Kind, Trouble};
use crate::onesided::Written;
use crate::requests::{Arrival, Outcome, RequestId};
pub use completions::Completions;

/// A queue of an engine, to post to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct QueueId(pub(crate) u32);

/// Where the end of a request is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notify {
    /// In which queue.
    pub queue: QueueId,
    /// The caller's word, returned in the entry.
    pub context: u64,
    /// Say nothing of success (selective completion).
    pub only_errors: bool,
}

/// A copied send that failed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lost {
    pub(crate) peer: PeerId,
    pub(crate) space: Space,
    pub(crate) tag: Tag,
    pub(crate) len: u64,
    pub(crate) failure: Failure,
}

/// More than this in the spill of a queue unlinks the entries used many times that go on filling it, and refuses peers' writes that do.
pub(crate) const SPILL_COUNT_MAX: usize = 1 << 16;

/// The engine's end of a queue.
#[derive(Debug)]
pub(crate) struct Writer {
    ring: Producer<Share>,
    /// What the ring had no room for, oldest first.
    spill: VecDeque<Entry>,
    /// Entries were written and not published.
    is_dirty: bool,
}

impl Writer {
    fn new(ring: Producer<Share>) -> Self {
        Self { ring, spill: VecDeque::new(), is_dirty: false }
    }

    /// Adds an entry. False: it spilled, and so did many before it.
    fn push(&mut self, entry: &Entry) -> bool {
        if self.spill.is_empty() && put(&mut self.ring, entry) {
            self.is_dirty = true;
            return true;
        }
        self.spill.push_back(*entry);
        if self.spill.len() == 1 {
            self.refill(); // asks for room, and takes what has come up since
        }
        self.spill.len() < SPILL_COUNT_MAX
    }

    /// Moves what spilled into the ring, as far as there is room, and asks to be called again for the rest.
    pub(crate) fn refill(&mut self) {
        loop {
            while let Some(entry) = self.spill.front()
                && put(&mut self.ring, entry)
            {
                self.spill.pop_front();
            }
            // Published first: the reader makes room only by what it can see.
            self.publish();
            let must_wait = self.spill.is_empty() || self.ring.want_room().expect(OUR_OWN);
            if must_wait {
                return;
            }
        }
    }

    pub(crate) fn publish(&mut self) {
        self.is_dirty = false;
        self.ring.publish();
    }
}

/// Both ends of the ring are in this process, in safe hands.
const OUR_OWN: &str = "a completion ring holds what this process wrote";

fn put(ring: &mut Producer<Share>, entry: &Entry) -> bool {
    let (bytes, len) = entry.encode();
    match ring.reserve(0, len).expect(OUR_OWN) {
        Some(mut slot) => {
            slot.put(&bytes[..len]);
            slot.commit();
            true
        }
        None => false,
    }
}

/// All queues of an engine.
#[derive(Debug, Default)]
pub(crate) struct Queues {
    /// By number; numbers are not used again.
    writers: Vec<Option<Box<Writer>>>,
    has_dirty: bool,
    /// The queue whose reader makes the turn there is, and what ended for it since.
    turning: Option<QueueId>,
    handed: Vec<Entry>,
}

impl Queues {
    fn writer(&mut self, queue: QueueId) -> Option<&mut Writer> {
        self.writers.get_mut(queue.0 as usize)?.as_deref_mut()
    }

    /// The reader of a queue is about to turn, and has read all: what ends for it comes to `handed`, which is empty.
    #[inline]
    fn lend(&mut self, queue: QueueId, handed: &mut Vec<Entry>) {
        let has_spilled = self.writer(queue).is_some_and(|writer| !writer.spill.is_empty());
        if !has_spilled {
            self.turning = Some(queue);
            std::mem::swap(&mut self.handed, handed);
        }
    }

    /// The turn is over.
    #[inline]
    fn give_back(&mut self, handed: &mut Vec<Entry>) {
        if self.turning.take().is_some() {
            std::mem::swap(&mut self.handed, handed);
        }
    }

    /// Whether more than this has spilled somewhere.
    fn is_any_fuller_than(&self, count: usize) -> bool {
        self.writers.iter().flatten().any(|writer| writer.spill.len() > count)
    }

    /// Shows readers what was written.
    #[inline]
    pub(crate) fn publish(&mut self) {
        if self.has_dirty {
            self.has_dirty = false;
            self.writers.iter_mut().flatten().filter(|it| it.is_dirty).for_each(|it| it.publish());
        }
    }
}

impl Inner {
    /// Tells a queue. False: it holds more than it should.
    pub(crate) fn tell(&mut self, notify: &Notify, entry: &Entry) -> bool {
        if notify.only_errors && entry.result.is_ok() && entry.is_last {
            return true;
        }
        self.has_news = true;
        if self.queues.turning == Some(notify.queue) {
            self.queues.handed.push(*entry);
            return true;
        }
        self.queues.has_dirty = true;
        self.queues.writer(notify.queue).is_none_or(|writer| writer.push(entry))
    }

    /// A peer wrote to a region, and a queue is told of that.
    pub(crate) fn tell_written(&mut self, notify: &Notify, written: &Written, at: Instant) {
        let &Written { peer, offset, len, immediate } = written;
        let entry = Entry {
            kind: Kind::Written,
            peer: Some(peer),
            immediate: Some(immediate),
            len,
            placed_len: len,
            offset,
            is_last: false,
            ..blank(notify, RequestId(u64::MAX), Ok(()), at)
        };
        if !self.tell(notify, &entry) {
            self.set_notices_held(true);
        }
    }

    /// A copied send failed, of which its poster knows only that it was taken.
    #[cold]
    pub(crate) fn on_lost(&mut self, lost: Lost, at: Instant) {
        let Lost { peer, space, tag, len, failure } = lost;
        self.core.counters_mut().copies_lost += 1;
        let Some(notify) = self.lost_notify else {
            return self.core.remark_once(format!(
                "a copied message to peer number {} was not accepted: {failure:?}",
                peer.0
            ));
        };
        let blank = blank(&notify, RequestId(u64::MAX), Err(Trouble::Failed(failure)), at);
        let (kind, peer) = (Kind::Sent, Some(peer));
        self.tell(&notify, &Entry { kind, peer, space, tag, len, ..blank });
    }

    /// Peers' writes that would be told are refused, or not.
    pub(crate) fn set_notices_held(&mut self, are_held: bool) {
        if self.are_notices_held != are_held {
            self.are_notices_held = are_held;
            self.core.endpoint().hold_notices(are_held);
            self.core.counters_mut().notices_held += u64::from(are_held);
        }
    }

    /// Somebody made room: if there is enough everywhere, peers' writes are told again.
    pub(crate) fn look_for_room(&mut self) {
        if self.are_notices_held
            && !self.is_reader_full
            && !self.queues.is_any_fuller_than(SPILL_COUNT_MAX / 2)
            && !self.regions.is_any_fuller_than(SPILL_COUNT_MAX / 2)
        {
            self.set_notices_held(false);
        }
    }

    /// A message for a request that a queue is told of.
    pub(crate) fn on_received_queued(
        &mut self,
        id: RequestId,
        notify: Notify,
        kind: Kind,
        arrival: Arrival,
        overflow: Option<RequestId>,
        at: Instant,
    ) {
        let Arrival { envelope, offset, placed_len, result } = arrival;
        let overflow_context = overflow.and_then(|id| self.requests.notify_of(id));
        let Some(slot) = self.requests.pending(id) else { return };
        let (req, is_many, memory_id) = (slot.req, slot.is_many, slot.memory_id);
        let mut entry = Entry {
            context: notify.context,
            request: id,
            kind,
            peer: Some(envelope.source),
            space: envelope.space,
            tag: envelope.tag,
            immediate: envelope.immediate,
            len: envelope.len,
            placed_len,
            offset,
            overflow_context: overflow_context.map_or(0, |notify| notify.context),
            result: result.map_err(Trouble::Failed),
            is_last: !is_many,
            has_memory: false,
            at,
        };
        if !is_many {
            entry.has_memory = self.give_back_queued(id, &notify, memory_id, result.is_ok()).0;
            self.tell(&notify, &entry);
        } else if !self.tell(&notify, &entry) {
            self.core.endpoint().unlink(req);
        }
    }

    /// The end of such a request without a message.
    pub(crate) fn end_queued(
        &mut self,
        id: RequestId,
        notify: Notify,
        outcome: Outcome,
        at: Instant,
    ) {
        let (kind, peer, len, result) = match outcome {
            Outcome::Sent { peer, placed_len, result } => {
                (Kind::Sent, Some(peer), placed_len, result)
            }
            Outcome::Received { envelope, result, .. } => {
                (Kind::Received, Some(envelope.source), 0, result)
            }
            Outcome::Operated { peer, kind, len, result } => {
                let kind = match kind {
                    OperationKind::Put => Kind::Put,
                    OperationKind::Get => Kind::Got,
                    OperationKind::Atomic => Kind::Atomic,
                };
                (kind, Some(peer), len, result)
            }
            Outcome::Unlinked { source, failure } => {
                (Kind::Unlinked, source, 0, failure.map_or(Ok(()), Err))
            }
            Outcome::Refused { error } => {
                unreachable!(
                    "a queue is told by an entry of its own that a post was refused: {error:?}"
                )
            }
        };
        let blank = blank(&notify, id, result.map_err(Trouble::Failed), at);
        self.finish_queued(id, &notify, Entry { kind, peer, len, placed_len: len, ..blank });
    }

    fn finish_queued(&mut self, id: RequestId, notify: &Notify, mut entry: Entry) {
        let Some(memory_id) = self.requests.pending(id).map(|slot| slot.memory_id) else { return };
        let (is_kept, len) = self.give_back_queued(id, notify, memory_id, entry.result.is_ok());
        if entry.kind == Kind::Sent {
            entry.len = len;
        }
        entry.has_memory = is_kept;
        self.tell(notify, &entry);
    }

    /// Gives the descriptor back: its memory is the caller's again before the entry can be seen. Whether it is kept for him, and
    /// its length.
    #[inline]
    fn give_back_queued(
        &mut self,
        id: RequestId,
        notify: &Notify,
        memory_id: Option<MemoryId>,
        is_success: bool,
    ) -> (bool, u64) {
        let memory = memory_id.and_then(|memory| self.core.memory().remove(memory));
        let len = memory.as_ref().map_or(0, Memory::len);
        let is_silent = notify.only_errors && is_success;
        // What merely borrows needs no taking back.
        let kept = memory.filter(|memory| memory.is_owned() && !is_silent);
        let is_kept = kept.is_some();
        self.requests.end_queued(id, kept);
        (is_kept, len)
    }
}

pub(crate) fn blank(
    notify: &Notify,
    id: RequestId,
    result: Result<(), Trouble>,
    at: Instant,
) -> Entry {
    Entry {
        context: notify.context,
        request: id,
        kind: Kind::Unlinked,
        peer: None,
        space: Space(0),
        tag: Tag(0),
        immediate: None,
        len: 0,
        placed_len: 0,
        offset: 0,
        overflow_context: 0,
        result,
        is_last: true,
        has_memory: false,
        at,
    }
}

/// Posts whose ends a queue is told of. They do not wait for whoever is in a turn; if it is he who finds one to be wrong, the
/// queue is told ([`Trouble::Refused`]).
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
