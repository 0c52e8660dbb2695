//! Messages that wait for a receive, found by whatever a receive may ask for.

use super::*;

/// Held messages by key under one shape.
#[derive(Debug)]
pub(super) struct HeldIndex {
    pub(super) index: Index,
    /// For each slot, its neighbours in the queue of its key.
    pub(super) links: Vec<Neighbours>,
    /// `HeldList::clock` at the last search.
    used_at: u64,
}

impl Keyed for Item<()> {
    fn words(&self) -> Words {
        self.words
    }
}

/// Held messages and their links in one index.
struct HeldQueues<'a> {
    items: &'a [Item<()>],
    links: &'a mut [Neighbours],
}

impl Queues for HeldQueues<'_> {
    type Item = Item<()>;

    fn items(&self) -> &[Self::Item] {
        self.items
    }

    fn link(&mut self, item: u32) -> &mut Neighbours {
        &mut self.links[item as usize]
    }
}

/// Shapes indexed at a time. An MPI library uses four or five (with and without MPI_ANY_TAG and MPI_ANY_SOURCE,
/// acknowledgements of synchronous sends); one more replaces the least recently used.
pub(super) const INDEX_COUNT_MAX: usize = 6;

/// A search for a shape without index looks at so many messages before it makes one. That costs about what an index
/// does, and programs whose list stays short never pay for one at each arrival.
pub(super) const WALK_COUNT_MAX: usize = 4;

/// An index is dropped when so many operations passed since its last use, and one more for each slot of its table and
/// each message held: to clear it and to make it again then costs little beside them.
pub(super) const IDLE_AFTER: u64 = 4096;

/// How often indices are looked at for that, in operations.
const SWEEP_AFTER: u64 = 1024;

// 128 bytes for a held message, of which the owner uses 48. Tables come on top: an index without wildcards, where
// every message may have a key of its own, needs 11 to 22 bytes of table for each; with wildcards keys are few.
const _: () = assert!(size_of::<Item<()>>() + size_of::<Neighbours>() * INDEX_COUNT_MAX <= 80);

/// Eighths of an index's table that may be taken: what is held the network makes us hold.
const HELD_FILL: usize = 3;

/// Messages that no entry took.
#[derive(Debug)]
pub(super) struct HeldList {
    pub(super) slab: Ordered<()>,
    /// The first `live_count` are in use, the rest is empty and kept for its memory.
    pub(super) indices: Vec<HeldIndex>,
    pub(super) live_count: usize,
    /// Messages ever held and searched for.
    clock: u64,
    sweep_at: u64,
    secret: Words,
    #[cfg(test)]
    pub(super) visits: u64,
}

impl HeldList {
    pub(super) fn new(secret: Words) -> Self {
        Self {
            slab: Ordered::new(),
            indices: Vec::new(),
            live_count: 0,
            clock: 0,
            sweep_at: SWEEP_AFTER,
            secret,
            #[cfg(test)]
            visits: 0,
        }
    }

    #[inline]
    pub(super) fn hold(&mut self, envelope: Words, token: u32) -> SlotId {
        self.clock += 1;
        if self.clock >= self.sweep_at {
            self.sweep();
        }
        let id = self.slab.insert(envelope, token, ());
        for held in &mut self.indices[..self.live_count] {
            held.append(&self.slab.items, id.slot);
        }
        id
    }

    #[inline]
    pub(super) fn release(&mut self, id: SlotId) -> Option<u32> {
        let slot = self.slab.slot(id)?;
        for held in &mut self.indices[..self.live_count] {
            held.remove(&self.slab.items, slot);
        }
        Some(self.slab.remove(slot))
    }

    #[inline]
    pub(super) fn search(&mut self, wanted: Words, shape: Words) -> Option<(SlotId, u32)> {
        if self.slab.count == 0 {
            return None;
        }
        let known = |held: &HeldIndex| held.index.shape() == shape;
        let at = match self.indices[..self.live_count].iter().position(known) {
            Some(at) => at,
            None => match self.walk(wanted, shape) {
                Walk::Found(slot) => return Some(self.slab.name(slot)),
                Walk::Ended => return None,
                Walk::GaveUp => self.new_index(shape),
            },
        };
        let held = &mut self.indices[at];
        self.clock += 1;
        held.used_at = self.clock;
        let (slot, item) = held.index.first(&self.slab.items, wanted)?;
        Some((SlotId { slot, serial: item.serial }, item.token))
    }

    /// Looks at the first messages without an index.
    fn walk(&mut self, wanted: Words, shape: Words) -> Walk {
        let mut slot = self.slab.first;
        for _ in 0..WALK_COUNT_MAX {
            if slot == NONE {
                return Walk::Ended;
            }
            #[cfg(test)]
            (self.visits += 1);
            if self.slab.items[slot as usize].words.agrees(wanted, shape) {
                return Walk::Found(slot);
            }
            slot = self.slab.items[slot as usize].order.next;
        }
        if slot == NONE { Walk::Ended } else { Walk::GaveUp }
    }

    /// Makes an index of all messages for a shape, in the place of a dropped one, a new one, or the least recently
    /// used.
    #[cold]
    fn new_index(&mut self, shape: Words) -> usize {
        let at = if self.live_count < INDEX_COUNT_MAX {
            if self.live_count == self.indices.len() {
                let index = Index::new(shape, self.secret, HELD_FILL);
                self.indices.push(HeldIndex { index, links: Vec::new(), used_at: 0 });
            }
            self.live_count += 1;
            self.live_count - 1
        } else {
            let live = self.indices.iter().enumerate();
            live.min_by_key(|(_, held)| held.used_at).expect("all are in use").0
        };
        let held = &mut self.indices[at];
        held.index.clear();
        held.index.reshape(shape);
        let mut slot = self.slab.first;
        while slot != NONE {
            held.append(&self.slab.items, slot);
            slot = self.slab.items[slot as usize].order.next;
        }
        at
    }

    /// Drops indices that cost more than they are used.
    #[cold]
    fn sweep(&mut self) {
        self.sweep_at = self.clock + SWEEP_AFTER;
        for at in (0..self.live_count).rev() {
            let held = &mut self.indices[at];
            let patience = IDLE_AFTER + (held.index.table_len() + self.slab.count) as u64;
            if self.clock - held.used_at > patience {
                held.index.clear();
                self.live_count -= 1;
                self.indices.swap(at, self.live_count);
            }
        }
    }
}

/// How a walk ended.
enum Walk {
    Found(u32),
    /// There are no more messages.
    Ended,
    /// There are.
    GaveUp,
}

impl HeldIndex {
    fn append(&mut self, items: &[Item<()>], slot: u32) {
        if self.links.len() < items.len() {
            self.links.resize(items.len(), Neighbours::LOOSE);
        }
        let words = items[slot as usize].words;
        let home = self.index.home(words);
        self.index.append(&mut HeldQueues { items, links: &mut self.links }, slot, words, home);
    }

    fn remove(&mut self, items: &[Item<()>], slot: u32) {
        self.index.remove(&mut HeldQueues { items, links: &mut self.links }, slot);
    }
}
