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
//! lock, the reader whoever holds the [`Completions`](crate::Completions), so that an empty queue costs its reader one load and no lock.
//!
//! **Nothing is lost.** A ring has an end, so behind a full one entries spill into a list behind the engine's lock, in order, and
//! the ring's own signal (`want_room`) brings the reader to fetch them. The list grows only with what the application posted.
//! What peers could fill it with for ever ends when too much spilled ([`SPILL_COUNT_MAX`]): an entry used many times, which takes
//! messages of no bytes without end, is unlinked, and what comes then is held, or refused, by the rules of the protocol; puts that
//! are told of are refused until the reader made room (`hold_notices`). A reader that keeps entries in a list of its own has the
//! same two ways: [`unlink_queued`](crate::Engine::unlink_queued) and [`hold_notices`](crate::Engine::hold_notices).
//!
//! **Who drives and reads** needs no ring: what a turn of the reader's own ends is handed to it as it is (`Queues::lend`), if nothing
//! waits in the ring before it. MPI libraries read so, and half of what an entry cost was its way through the ring.
//!
//! **Shared with another process** it could be: entries are plain words, the ring distrusts its other side and lives in any
//! memory. What would be added is the knock (`Producer::must_wake`) instead of the engine's lock.

use std::collections::VecDeque;

use packhorse_link::ring::{Producer, Share};
use packhorse_proto::{Failure, Instant, PeerId, Space, Tag};

use crate::entry::{Entry, Kind, Trouble};
use crate::names::{Notify, QueueId, RequestId};

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
pub(crate) const OUR_OWN: &str = "a completion ring holds what this process wrote";

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
    /// A new one, whose entries go here.
    pub(crate) fn open(&mut self, ring: Producer<Share>) -> QueueId {
        let number = u32::try_from(self.writers.len()).expect("four thousand million queues");
        self.writers.push(Some(Box::new(Writer::new(ring))));
        QueueId(number)
    }

    /// Nobody reads it any more.
    pub(crate) fn close(&mut self, queue: QueueId) {
        if let Some(writer) = self.writers.get_mut(queue.0 as usize) {
            *writer = None;
        }
    }

    /// Hands an entry to the reader of its queue, if it is he who turns. False: it must be told.
    #[inline]
    pub(crate) fn hand(&mut self, queue: QueueId, entry: &Entry) -> bool {
        let is_reader = self.turning == Some(queue);
        if is_reader {
            self.handed.push(*entry);
        }
        is_reader
    }

    /// Tells a queue. False: it holds more than it should.
    pub(crate) fn tell(&mut self, queue: QueueId, entry: &Entry) -> bool {
        self.has_dirty = true;
        self.writer(queue).is_none_or(|writer| writer.push(entry))
    }

    pub(crate) fn writer(&mut self, queue: QueueId) -> Option<&mut Writer> {
        self.writers.get_mut(queue.0 as usize)?.as_deref_mut()
    }

    /// The reader of a queue is about to turn, and has read all: what ends for it comes to `handed`, which is empty.
    #[inline]
    pub(crate) fn lend(&mut self, queue: QueueId, handed: &mut Vec<Entry>) {
        let has_spilled = self.writer(queue).is_some_and(|writer| !writer.spill.is_empty());
        if !has_spilled {
            self.turning = Some(queue);
            std::mem::swap(&mut self.handed, handed);
        }
    }

    /// The turn is over.
    #[inline]
    pub(crate) fn give_back(&mut self, handed: &mut Vec<Entry>) {
        if self.turning.take().is_some() {
            std::mem::swap(&mut self.handed, handed);
        }
    }

    /// Whether more than this has spilled somewhere.
    pub(crate) fn is_any_fuller_than(&self, count: usize) -> bool {
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
