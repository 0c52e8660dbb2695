//! The reader's end of a completion queue: looks, turns and waits of whoever reads.

use std::sync::Arc;
use std::time::Duration;

use packhorse_link::ring::{self, Consumer, Share};
use packhorse_proto::{Criteria, Instant};

use crate::asking::Asking;
use crate::core::{Looked, QuickLook};
use crate::engine::Engine;
use crate::entry::Entry;
use crate::inner::Inner;
use crate::names::QueueId;
use crate::queue::OUR_OWN;

/// Lines an entry may take, for sizing: most take one.
const LINES_PER_ENTRY: usize = 2;

/// The reader's end of a completion queue. One thread at a time reads; any may post.
pub struct Completions {
    engine: Arc<Engine>,
    id: QueueId,
    ring: Consumer<Share>,
    /// What ended in a turn of the reader's own, and how much of it was read.
    handed: Vec<Entry>,
    handed_read: usize,
    pub(crate) asking: Asking,
}

impl std::fmt::Debug for Completions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Completions").field(&self.id.0).finish()
    }
}

/// What is done at once when data is under way; a timer or a sign of life, which comes to who waits for long now and then, is less.
const MUCH_WORK: usize = 4;

/// A look after which there is nothing to send, and nobody else is concerned.
#[inline]
fn is_simple(look: &QuickLook) -> bool {
    matches!(look, QuickLook::Received(_) | QuickLook::Ended(_))
}

/// Takes what a look found, and what waits behind it in memory: who only tests looks once, and is to find what came before. How much was done, and whether
/// nobody else is concerned.
#[inline]
fn take_what_waits(inner: &mut Inner, mut found: QuickLook, now: Instant) -> (usize, bool) {
    let mut work = inner.take_quick(&found, now);
    while is_simple(&found) && inner.core.has_quick_next() {
        found = inner.core.look_quickly(now);
        work += inner.take_quick(&found, now);
    }
    if !inner.core.has_more_in_memory() {
        return (work, is_simple(&found));
    }
    // It cannot be had by looks, or so many were had that a turn is due: the next look would begin with that.
    (work + inner.turn(now), false)
}

impl Completions {
    /// A queue whose ring holds about so many entries; more spill, and cost more.
    pub fn new(engine: &Arc<Engine>, entry_count: usize) -> Self {
        // A ring is called full a quarter early.
        let (producer, ring) = ring::channel((entry_count * LINES_PER_ENTRY).div_ceil(3) * 4);
        let mut inner = engine.lock();
        let id = inner.queues.open(producer);
        inner.commands.want();
        drop(inner);
        let asking = Asking::new(engine.spin_ns, engine.origin_ns);
        let engine = Arc::clone(engine);
        Self { engine, id, ring, handed: Vec::new(), handed_read: 0, asking }
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
        let quick = inner.core.look_quickly(now);
        let answer = match quick {
            QuickLook::Nothing => inner.core.ask_behind_quick(now),
            _ => Looked::Nothing,
        };
        if matches!((&quick, &answer), (QuickLook::Nothing, Looked::Nothing)) {
            self.engine.leave_unchanged(inner, now);
            return 0;
        }
        // Asked with the lock: nobody writes meanwhile.
        if self.handed.is_empty() && self.ring.is_empty() {
            inner.queues.lend(self.id, &mut self.handed);
        }
        let (work, is_simple) = match quick {
            QuickLook::Nothing => (inner.turn_after(&answer, now, is_late), false),
            quick => take_what_waits(&mut inner, quick, now),
        };
        inner.queues.give_back(&mut self.handed);
        if !self.handed.is_empty() {
            self.engine.attendance.on_news(); // the reader may leave it to the attendant
        }
        if is_simple && inner.core.may_look_quickly() && !inner.concerns_others() {
            self.engine.leave_unchanged(inner, now);
        } else {
            self.engine.leave(inner, now);
        }
        work
    }

    /// Reads a completion, for a caller with a loop of its own, as MPI libraries have: a look that found nothing steps aside for others that want the core,
    /// and sleeps on the links for a moment if all says that the caller does nothing but wait (`asking`).
    pub fn poll_or_doze(&mut self) -> Option<Entry> {
        if self.drive_or_doze() { self.take_next() } else { None }
    }

    /// Whether there is something to read, for a caller with a loop of its own that reads then (`poll_or_doze`).
    pub fn drive_or_doze(&mut self) -> bool {
        if !self.has_nothing() {
            self.asking.on_something();
            return true;
        }
        let Some(look) = self.engine.looks.begin() else {
            self.asking.on_unasked();
            return false;
        };
        let (now, is_late) = self.asking.begin(&*self.engine);
        let mut work = self.turn_if_free(now, is_late);
        self.engine.looks.end(look, work > 0);
        if self.has_nothing() && work == 0 {
            let ring = &self.ring;
            work = self.engine.after_vain_look(&mut self.asking, now, || !ring.is_empty());
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

    /// Waits until there is something to read, or somebody was told who watches memory that peers use, driving the engine meanwhile: spins,
    /// then sleeps. False: the time is over.
    pub fn wait(&mut self, longest: Option<Duration>) -> bool {
        if !self.has_nothing() {
            return true;
        }
        let (ring, mut used_count) = (&self.ring, None);
        let is_ready = |inner: &mut Inner| {
            let now = inner.regions.used_count;
            let is_used = *used_count.get_or_insert(now) != now;
            (is_used || !ring.is_empty()).then_some(())
        };
        self.engine.drive_until(longest, is_ready).is_some()
    }

    /// Waits until there is something to read, or a message of this kind that no receive took. False: the time is over.
    pub fn wait_or_find(&mut self, criteria: &Criteria, longest: Option<Duration>) -> bool {
        if !self.has_nothing() {
            return true;
        }
        let ring = &self.ring;
        let is_there = |inner: &mut Inner| !ring.is_empty() || inner.core.probe(criteria).is_some();
        self.engine.drive_until(longest, |inner| is_there(inner).then_some(())).is_some()
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
        inner.queues.close(self.id);
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
