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

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use packhorse_link::mem::Memory;
use packhorse_link::ring::{self, Consumer, Producer, Share};
use packhorse_proto::{Claim, Failure, Instant, OperationKind, PeerId, Space, Tag};

use crate::asking::{Asking, Call};
use crate::commands::Post;
use crate::core::Answer;
use crate::engine::{Engine, Inner, Recv, Refused, Send};
use crate::entry::{Entry, Kind, Trouble};
use crate::onesided::Written;
use crate::requests::{Arrival, Outcome, RequestId};

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
/// Lines an entry may take, for sizing: most take one.
const LINES_PER_ENTRY: usize = 2;

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
        self.tell(&notify, &Entry { kind, peer, space, tag, len, placed_len: len, ..blank });
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
            Outcome::Sent { peer, result } => (Kind::Sent, Some(peer), 0, result),
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
            (entry.len, entry.placed_len) = (len, len);
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
        memory_id: Option<u64>,
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

/// The reader's end of a completion queue. One thread at a time reads; any may post.
pub struct Completions {
    engine: Arc<Engine>,
    id: QueueId,
    ring: Consumer<Share>,
    /// What ended in a turn of the reader's own, and how much of it was read.
    handed: Vec<Entry>,
    handed_read: usize,
    pub(crate) asking: Asking,
    /// Where a look comes from.
    call: fn() -> Call,
}

impl std::fmt::Debug for Completions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Completions").field(&self.id.0).finish()
    }
}

/// What is done at once when data is under way; a timer or a sign of life, which comes to who waits for long now and then, is less.
const MUCH_WORK: usize = 4;

impl Completions {
    /// A queue whose ring holds about so many entries; more spill, and cost more.
    pub fn new(engine: &Arc<Engine>, entry_count: usize) -> Self {
        // A ring is called full a quarter early.
        let (producer, ring) = ring::channel((entry_count * LINES_PER_ENTRY).div_ceil(3) * 4);
        let mut inner = engine.lock();
        let number =
            u32::try_from(inner.queues.writers.len()).expect("four thousand million queues");
        inner.queues.writers.push(Some(Box::new(Writer::new(producer))));
        inner.commands.want();
        drop(inner);
        let asking = Asking::new(engine.spin_ns, engine.origin_ns);
        let (engine, id) = (Arc::clone(engine), QueueId(number));
        Self {
            engine,
            id,
            ring,
            handed: Vec::new(),
            handed_read: 0,
            asking,
            call: || Call::Unknown,
        }
    }

    /// Before a look sleeps, or is passed over, `call` is asked where it comes from. Without this nobody can say, and only the time between
    /// looks tells.
    pub fn tell_calls(&mut self, call: fn() -> Call) {
        self.call = call;
    }

    /// Its name, to post to.
    pub fn id(&self) -> QueueId {
        self.id
    }

    /// The engine it belongs to.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// Whether there is nothing to read: two loads. Drives nothing: who asks so counts on the helper.
    #[inline]
    pub fn is_empty(&self) -> bool {
        let is_empty = self.has_nothing();
        if is_empty {
            self.engine.on_watched();
        }
        is_empty
    }

    #[inline]
    fn has_nothing(&self) -> bool {
        self.handed.is_empty() && self.ring.is_empty()
    }

    /// The next entry, if there is one. Drives nothing and takes no lock (but to fetch what spilled): who asks so counts on the helper.
    #[inline]
    pub fn poll(&mut self) -> Option<Entry> {
        let entry = self.take_next();
        if entry.is_none() {
            self.engine.on_watched();
        }
        entry
    }

    #[inline]
    fn take_next(&mut self) -> Option<Entry> {
        // Before the ring: it was read when they were handed over, so what is in it came later.
        if let Some(&entry) = self.handed.get(self.handed_read) {
            self.handed_read += 1;
            if self.handed_read == self.handed.len() {
                self.handed.clear();
                self.handed_read = 0;
            }
            return Some(entry);
        }
        let record = self.ring.peek().expect(OUR_OWN)?;
        let entry = Entry::decode(record.len(), |out| record.copy(0, out)).expect(OUR_OWN);
        if record.take() {
            self.fetch_spilled();
        }
        Some(entry)
    }

    /// Shows all there are to read, oldest first, and takes them.
    pub fn drain(&mut self, mut show: impl FnMut(&Entry)) {
        self.handed[self.handed_read..].iter().for_each(&mut show);
        self.handed.clear();
        self.handed_read = 0;
        while let Some(entry) = self.take_next() {
            show(&entry);
        }
    }

    /// Appends up to `count_max` entries; how many.
    pub fn poll_many(&mut self, out: &mut Vec<Entry>, count_max: usize) -> usize {
        let before = out.len();
        out.extend(std::iter::from_fn(|| self.poll()).take(count_max));
        out.len() - before
    }

    /// The next entry; if there is none the engine is turned once, unless somebody else is doing that just now or did a moment ago (`looks`).
    pub fn poll_and_drive(&mut self) -> Option<Entry> {
        if self.has_nothing()
            && let Some(look) = self.engine.looks.begin()
        {
            let work = self.turn_if_free(self.engine.now(), false);
            self.engine.looks.end(look, work > 0);
        }
        self.take_next()
    }

    /// One turn, unless somebody else is making one. Returns how much was done. `is_late`: the time is that of an earlier look.
    fn turn_if_free(&mut self, now: Instant, is_late: bool) -> usize {
        if self.engine.is_in_good_hands(now) {
            return 0;
        }
        let Some(mut inner) = self.engine.try_lock() else { return 0 };
        let answer = inner.core.ask(now);
        if matches!(answer, Answer::Nothing) {
            self.engine.leave_unchanged(inner, now);
            return 0;
        }
        // Asked with the lock: nobody writes meanwhile.
        if self.handed.is_empty() && self.ring.is_empty() {
            inner.queues.lend(self.id, &mut self.handed);
        }
        let work = inner.turn_after(&answer, now, is_late);
        inner.queues.give_back(&mut self.handed);
        self.engine.leave(inner, now);
        work
    }

    /// The same for who asks in a loop of its own, as MPI libraries do: a look that found nothing steps aside for others that want the core,
    /// and sleeps on the links for a moment if all says that the caller does nothing but wait (`asking`).
    pub fn poll_or_doze(&mut self) -> Option<Entry> {
        if self.drive_or_doze() { self.take_next() } else { None }
    }

    /// The same for who reads then: whether there is something.
    pub fn drive_or_doze(&mut self) -> bool {
        if !self.has_nothing() {
            self.asking.on_something();
            return true;
        }
        let look = match self.engine.looks.begin() {
            Some(look) => look,
            // Whatever it does between its looks, it does that to wait: mpich steps aside each time.
            None if (self.call)() == Call::Waits => self.engine.looks.begin_in_wait(),
            None => {
                self.asking.on_unasked();
                return false;
            }
        };
        let (now, is_late) = self.asking.begin(&*self.engine);
        let mut work = self.turn_if_free(now, is_late);
        self.engine.looks.end(look, work > 0);
        if self.has_nothing() && work == 0 {
            let ring = &self.ring;
            let (asking, call) = (&mut self.asking, self.call);
            work = self.engine.after_vain_look(asking, now, call, || !ring.is_empty());
            if work == 0 && self.has_nothing() {
                return false;
            }
        }
        if self.has_nothing() && work < MUCH_WORK {
            self.asking.on_work();
            return false;
        }
        self.asking.on_something();
        !self.has_nothing()
    }

    /// Waits until there is something to read, driving the engine meanwhile: spins, then sleeps. False: the time is over.
    pub fn wait(&mut self, longest: Option<Duration>) -> bool {
        if !self.has_nothing() {
            return true;
        }
        let ring = &self.ring;
        self.engine.drive_until(longest, |_| (!ring.is_empty()).then_some(())).is_some()
    }

    /// Before sleeping on [`Engine::wake_fd`]: as [`Engine::arm`], and false also if there is something to read.
    pub fn arm(&mut self) -> bool {
        let ring = &self.ring;
        self.handed.is_empty() && self.engine.arm_if(|_| ring.is_empty())
    }

    #[cold]
    fn fetch_spilled(&mut self) {
        let mut inner = self.engine.lock();
        if let Some(writer) = inner.queues.writer(self.id) {
            writer.refill();
        }
        inner.look_for_room();
        self.engine.release(inner);
    }
}

/// What is still pending goes on without being told of; receives are cancelled.
impl Drop for Completions {
    fn drop(&mut self) {
        if !self.engine.is_here() {
            return;
        }
        let mut inner = self.engine.lock();
        let now = self.engine.now();
        if let Some(writer) = inner.queues.writers.get_mut(self.id.0 as usize) {
            *writer = None;
        }
        inner.look_for_room();
        let pending: Vec<_> = inner.requests.of_queue(self.id.0).map(|(id, _)| id).collect();
        for id in pending {
            let Some(slot) = inner.requests.pending(id) else { continue };
            let (req, is_receive) = (slot.req, slot.is_receive);
            slot.notify = None; // from now on like any other that nobody will ask for
            inner.requests.detach(id);
            if is_receive {
                inner.core.endpoint().cancel(now, req);
            }
        }
        self.engine.after_post(inner, now, false);
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
