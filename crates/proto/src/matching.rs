//! Matching: which posted entry takes a message, which held message a receive takes (PROTOCOL §9).
//!
//! Cost does not grow with the lists. Wildcards are the difficulty, and MPI libraries always use some: Open MPI ignores
//! bit 32 of every tag, MPICH its two protocol bits, both more for MPI_ANY_TAG, and the source is given or not. But a
//! program uses a handful of such *shapes* (ignore mask, source given or not), and under one shape matching is
//! equality, which an index finds in one step.
//!
//! - **Posted** entries are grouped by list and shape, each group with its index. A message asks every group that has
//!   entries, and the lowest posting number among the answers wins.
//! - **Held** (unexpected) messages are indexed once for each shape that was searched for. There are few of them most
//!   of the time, so a search walks the first few in order of arrival and only then makes an index; one that is not
//!   used for long is dropped.
//!
//! What belongs to an entry or a message is the caller's: the matcher knows it by a token. Nothing is allocated but
//! to grow beyond an earlier peak.

use alloc::vec::Vec;

use crate::api::List;
use crate::types::{Criteria, PeerId, Space, Tag};

mod index;
#[cfg(test)]
mod tests;

use index::{Index, Keyed, Link, NONE, Words};

/// A posted entry. Names nothing once the entry was unlinked, even when its slot is used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EntryId(SlotId);

/// A held message. Names nothing once the message was released, even when its slot is used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HeldId(SlotId);

/// A posted entry, as the slow paths see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Posted {
    /// Its name.
    pub entry: EntryId,
    /// Where it was posted.
    pub list: List,
    /// What it takes.
    pub criteria: Criteria,
    /// The caller's.
    pub token: u32,
}

/// The matcher of an endpoint.
#[derive(Debug)]
pub struct Matcher {
    posted: PostedLists,
    held: HeldList,
}

impl Matcher {
    /// An empty matcher. `seed` is random, so that nobody can choose tags that collide.
    pub fn new(seed: u64) -> Self {
        let secret = Words { bits: mixed(seed, 1), from: mixed(seed, 2) };
        Self { posted: PostedLists::new(secret), held: HeldList::new(secret) }
    }

    /// Appends an entry to a list.
    pub fn post(&mut self, list: List, criteria: &Criteria, token: u32) -> EntryId {
        EntryId(self.posted.post(list, criteria, token))
    }

    /// Takes an entry out of its list and returns its token; `None` if it is not posted any more.
    pub fn unlink(&mut self, entry: EntryId) -> Option<u32> {
        self.posted.unlink(entry.0)
    }

    /// The entry that takes a message: the first posted of the priority list, else of the overflow list.
    /// It stays posted.
    pub fn find(&self, space: Space, tag: Tag, source: PeerId) -> Option<(EntryId, u32)> {
        self.find_in(List::Priority, space, tag, source)
            .or_else(|| self.find_in(List::Overflow, space, tag, source))
    }

    /// The entry of this list that takes a message. It stays posted.
    pub fn find_in(
        &self,
        list: List,
        space: Space,
        tag: Tag,
        source: PeerId,
    ) -> Option<(EntryId, u32)> {
        let (id, token) = self.posted.find(list, Words::envelope(space, tag, source))?;
        Some((EntryId(id), token))
    }

    /// The list an entry is in; `None` if it is not posted any more.
    pub fn entry_list(&self, entry: EntryId) -> Option<List> {
        self.posted.slab.slot(entry.0).map(|slot| self.posted.seen(slot).list)
    }

    /// The token of an entry; `None` if it is not posted any more.
    pub fn entry_token(&self, entry: EntryId) -> Option<u32> {
        self.posted.slab.slot(entry.0).map(|slot| self.posted.slab.nodes[slot as usize].token)
    }

    /// Entries in both lists.
    pub fn posted_count(&self) -> usize {
        self.posted.slab.count
    }

    /// The entry posted after this one, in either list, or the first. `None` at the end, and after an entry that is
    /// not posted any more: who unlinks on the way asks for the next first.
    pub fn posted_after(&self, after: Option<EntryId>) -> Option<Posted> {
        let slot = self.posted.slab.after(after.map(|entry| entry.0))?;
        Some(self.posted.seen(slot))
    }

    /// Each posted entry in turn, round and round in posting order, whatever is posted and unlinked between the
    /// calls. `None` only if nothing is posted.
    pub fn posted_in_turn(&mut self) -> Option<Posted> {
        self.posted.next_in_turn()
    }

    /// Appends a message to the held ones.
    pub fn hold(&mut self, space: Space, tag: Tag, source: PeerId, token: u32) -> HeldId {
        HeldId(self.held.hold(Words::envelope(space, tag, source), token))
    }

    /// The first held message that satisfies the criteria. It stays held. Changes nothing one can see: a shape not
    /// met before may get an index.
    pub fn search(&mut self, criteria: &Criteria) -> Option<(HeldId, u32)> {
        let (id, token) = self.held.search(Words::wanted(criteria), Words::shape(criteria))?;
        Some((HeldId(id), token))
    }

    /// Takes a message out of the held ones and returns its token; `None` if it is not held any more.
    pub fn release(&mut self, held: HeldId) -> Option<u32> {
        self.held.release(held.0)
    }

    /// The token of a held message; `None` if it is not held any more.
    pub fn held_token(&self, held: HeldId) -> Option<u32> {
        self.held.slab.slot(held.0).map(|slot| self.held.slab.nodes[slot as usize].token)
    }

    /// Messages held.
    pub fn held_count(&self) -> usize {
        self.held.slab.count
    }

    /// The message of `source` held after this one, or the first; for when a peer is gone, as it looks at the messages
    /// of others too. `None` at the end, and after a message that is not held any more.
    pub fn held_of(&self, source: PeerId, after: Option<HeldId>) -> Option<(HeldId, u32)> {
        let slab = &self.held.slab;
        let mut slot = slab.after(after.map(|held| held.0))?;
        while slab.nodes[slot as usize].words.source() != source {
            slot = slab.next(slot)?;
        }
        let (id, token) = slab.name(slot);
        Some((HeldId(id), token))
    }
}

/// Splitmix64: unrelated numbers from one seed.
fn mixed(seed: u64, step: u64) -> u64 {
    let mut z = seed.wrapping_add(step.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// A slot, and which of its tenants is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct SlotId {
    slot: u32,
    serial: u32,
}

/// An entry or a message.
#[derive(Debug)]
struct Node<T> {
    words: Words,
    token: u32,
    /// How often the slot was vacated.
    serial: u32,
    more: T,
}

impl<T> Keyed for Node<T> {
    fn words(&self) -> Words {
        self.words
    }
}

/// Nodes in slots that are used again, and the order in which they came. Leaner than `crate::slab`, as held messages
/// are counted in bytes: whether a slot is taken is not written down, as only names and links lead to slots.
#[derive(Debug)]
struct Ordered<T> {
    nodes: Vec<Node<T>>,
    /// For each slot: its neighbours in the order, or the next free one.
    order: Vec<Link>,
    /// The oldest node.
    first: u32,
    free: u32,
    count: usize,
}

impl<T> Ordered<T> {
    fn new() -> Self {
        Self { nodes: Vec::new(), order: Vec::new(), first: NONE, free: NONE, count: 0 }
    }

    /// Puts a node into a free slot and at the end of the order.
    fn insert(&mut self, words: Words, token: u32, more: T) -> u32 {
        let slot = self.free;
        if slot == NONE {
            return self.insert_growing(words, token, more);
        }
        self.free = self.order[slot as usize].next;
        let node = &mut self.nodes[slot as usize];
        *node = Node { words, token, serial: node.serial, more };
        self.enqueue(slot)
    }

    #[cold]
    fn insert_growing(&mut self, words: Words, token: u32, more: T) -> u32 {
        assert!(self.nodes.len() < NONE as usize, "slots are numbered in 32 bits");
        let slot = self.nodes.len() as u32;
        self.nodes.push(Node { words, token, serial: 0, more });
        self.order.push(Link::LOOSE);
        self.enqueue(slot)
    }

    fn enqueue(&mut self, slot: u32) -> u32 {
        self.first = index::append(&mut self.order, self.first, slot);
        self.count += 1;
        slot
    }

    /// Vacates a slot; names of its node are void.
    fn remove(&mut self, slot: u32) -> u32 {
        self.first = index::take(&mut self.order, self.first, slot);
        self.order[slot as usize].next = self.free;
        self.free = slot;
        self.count -= 1;
        let node = &mut self.nodes[slot as usize];
        node.serial = node.serial.wrapping_add(1);
        node.token
    }

    /// The slot this names, if it still does.
    fn slot(&self, id: SlotId) -> Option<u32> {
        (self.nodes.get(id.slot as usize)?.serial == id.serial).then_some(id.slot)
    }

    /// The name and token of the node in a slot.
    fn name(&self, slot: u32) -> (SlotId, u32) {
        let node = &self.nodes[slot as usize];
        (SlotId { slot, serial: node.serial }, node.token)
    }

    fn next(&self, slot: u32) -> Option<u32> {
        Some(self.order[slot as usize].next).filter(|&next| next != NONE)
    }

    /// The slot after this one in the order, or the first.
    fn after(&self, id: Option<SlotId>) -> Option<u32> {
        match id {
            Some(id) => self.next(self.slot(id)?),
            None => Some(self.first).filter(|&first| first != NONE),
        }
    }
}

/// What an entry has beyond its words.
#[derive(Debug)]
struct Posting {
    /// Its place in the order of all posts.
    number: u64,
    group: u32,
}

/// Entries of one list and shape.
#[derive(Debug)]
struct Group {
    list: List,
    index: Index,
    count: usize,
    /// Where in `PostedLists::live`, while it has entries.
    place: usize,
    /// The last post to it.
    used_at: u64,
}

/// Groups without entries are kept for the next post of their shape, up to this many; then they are used for others.
const IDLE_GROUP_COUNT_MAX: usize = 8;

/// Both lists of posted entries.
#[derive(Debug)]
struct PostedLists {
    slab: Ordered<Posting>,
    /// For each slot, its neighbours in the queue of its key. An entry is in one group, so one array does.
    links: Vec<Link>,
    groups: Vec<Group>,
    /// Groups with entries, of the priority and of the overflow list.
    live: [Vec<u32>; 2],
    post_count: u64,
    /// The entry last given in turn, or `NONE` before the first.
    turn: u32,
    secret: Words,
}

impl PostedLists {
    fn new(secret: Words) -> Self {
        Self {
            slab: Ordered::new(),
            links: Vec::new(),
            groups: Vec::new(),
            live: [Vec::new(), Vec::new()],
            post_count: 0,
            turn: NONE,
            secret,
        }
    }

    fn post(&mut self, list: List, criteria: &Criteria, token: u32) -> SlotId {
        let at = self.group_for(list, Words::shape(criteria));
        self.post_count += 1;
        let posting = Posting { number: self.post_count, group: at as u32 };
        let slot = self.slab.insert(Words::wanted(criteria), token, posting);
        if self.links.len() < self.slab.nodes.len() {
            self.links.push(Link::LOOSE);
        }
        let group = &mut self.groups[at];
        group.index.append(&self.slab.nodes, &mut self.links, slot);
        group.used_at = self.post_count;
        group.count += 1;
        if group.count == 1 {
            let live = &mut self.live[list as usize];
            group.place = live.len();
            live.push(at as u32);
        }
        self.slab.name(slot).0
    }

    fn unlink(&mut self, id: SlotId) -> Option<u32> {
        let slot = self.slab.slot(id)?;
        if self.turn == slot {
            self.turn =
                if slot == self.slab.first { NONE } else { self.slab.order[slot as usize].prev };
        }
        let at = self.slab.nodes[slot as usize].more.group;
        let group = &mut self.groups[at as usize];
        group.index.remove(&self.slab.nodes, &mut self.links, slot);
        group.count -= 1;
        if group.count == 0 {
            let (live, place) = (&mut self.live[group.list as usize], group.place);
            live.swap_remove(place);
            if let Some(&moved) = live.get(place) {
                self.groups[moved as usize].place = place;
            }
        }
        Some(self.slab.remove(slot))
    }

    /// The first posted entry of a list that takes this envelope.
    fn find(&self, list: List, envelope: Words) -> Option<(SlotId, u32)> {
        let mut first = (u64::MAX, NONE);
        for &at in &self.live[list as usize] {
            if let Some(slot) = self.groups[at as usize].index.first(&self.slab.nodes, envelope) {
                let number = self.slab.nodes[slot as usize].more.number;
                if number < first.0 {
                    first = (number, slot);
                }
            }
        }
        (first.1 != NONE).then(|| self.slab.name(first.1))
    }

    /// The group of this list and shape; if there is none, an idle one made into it, or a new one.
    fn group_for(&mut self, list: List, shape: Words) -> usize {
        let known = |group: &Group| group.index.shape() == shape && group.list == list;
        match self.groups.iter().position(known) {
            Some(at) => at,
            None => self.new_group(list, shape),
        }
    }

    #[cold]
    fn new_group(&mut self, list: List, shape: Words) -> usize {
        let idle_count = self.groups.len() - self.live[0].len() - self.live[1].len();
        if idle_count >= IDLE_GROUP_COUNT_MAX {
            let idle = self.groups.iter_mut().enumerate().filter(|(_, group)| group.count == 0);
            let (at, group) = idle.min_by_key(|(_, group)| group.used_at).expect("counted above");
            group.index.reshape(shape);
            group.list = list;
            return at;
        }
        let index = Index::new(shape, self.secret);
        self.groups.push(Group { list, index, count: 0, place: 0, used_at: 0 });
        self.groups.len() - 1
    }

    fn next_in_turn(&mut self) -> Option<Posted> {
        let next = if self.turn == NONE { NONE } else { self.slab.order[self.turn as usize].next };
        self.turn = if next == NONE { self.slab.first } else { next };
        (self.turn != NONE).then(|| self.seen(self.turn))
    }

    fn seen(&self, slot: u32) -> Posted {
        let node = &self.slab.nodes[slot as usize];
        let group = &self.groups[node.more.group as usize];
        let (id, token) = self.slab.name(slot);
        let criteria = node.words.criteria(group.index.shape());
        Posted { entry: EntryId(id), list: group.list, criteria, token }
    }
}

/// Held messages by key under one shape.
#[derive(Debug)]
struct HeldIndex {
    index: Index,
    /// For each slot, its neighbours in the queue of its key.
    links: Vec<Link>,
    /// `HeldList::clock` at the last search.
    used_at: u64,
}

/// Shapes indexed at a time. An MPI library uses four or five (with and without MPI_ANY_TAG and MPI_ANY_SOURCE,
/// acknowledgements of synchronous sends); one more replaces the least recently used.
const INDEX_COUNT_MAX: usize = 6;

/// A search for a shape without index looks at so many messages before it makes one. That costs about what an index
/// does, and programs whose list stays short never pay for one at each arrival.
const WALK_COUNT_MAX: usize = 4;

/// An index is dropped when so many operations passed since its last use, and one more for each slot of its table and
/// each message held: to clear it and to make it again then costs little beside them.
const IDLE_AFTER: u64 = 4096;

/// How often indices are looked at for that, in operations.
const SWEEP_AFTER: u64 = 1024;

// 128 bytes for a held message, of which the owner uses 48. Tables come on top: an index without wildcards, where
// every message may have a key of its own, needs 11 to 22 bytes of table for each; with wildcards keys are few.
const _: () = assert!(size_of::<Node<()>>() + size_of::<Link>() * (1 + INDEX_COUNT_MAX) <= 80);

/// Messages that no entry took.
#[derive(Debug)]
struct HeldList {
    slab: Ordered<()>,
    /// The first `live_count` are in use, the rest is empty and kept for its memory.
    indices: Vec<HeldIndex>,
    live_count: usize,
    /// Messages ever held and searched for.
    clock: u64,
    sweep_at: u64,
    secret: Words,
    #[cfg(test)]
    visits: u64,
}

impl HeldList {
    fn new(secret: Words) -> Self {
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

    fn hold(&mut self, envelope: Words, token: u32) -> SlotId {
        self.clock += 1;
        if self.clock >= self.sweep_at {
            self.sweep();
        }
        let slot = self.slab.insert(envelope, token, ());
        for held in &mut self.indices[..self.live_count] {
            held.append(&self.slab.nodes, slot);
        }
        self.slab.name(slot).0
    }

    fn release(&mut self, id: SlotId) -> Option<u32> {
        let slot = self.slab.slot(id)?;
        for held in &mut self.indices[..self.live_count] {
            held.index.remove(&self.slab.nodes, &mut held.links, slot);
        }
        Some(self.slab.remove(slot))
    }

    fn search(&mut self, wanted: Words, shape: Words) -> Option<(SlotId, u32)> {
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
        held.index.first(&self.slab.nodes, wanted).map(|slot| self.slab.name(slot))
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
            if self.slab.nodes[slot as usize].words.agrees(wanted, shape) {
                return Walk::Found(slot);
            }
            slot = self.slab.order[slot as usize].next;
        }
        if slot == NONE { Walk::Ended } else { Walk::GaveUp }
    }

    /// Makes an index of all messages for a shape, in the place of a dropped one, a new one, or the least recently
    /// used.
    #[cold]
    fn new_index(&mut self, shape: Words) -> usize {
        let at = if self.live_count < INDEX_COUNT_MAX {
            if self.live_count == self.indices.len() {
                let index = Index::new(shape, self.secret);
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
            held.append(&self.slab.nodes, slot);
            slot = self.slab.order[slot as usize].next;
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
    fn append(&mut self, nodes: &[Node<()>], slot: u32) {
        if self.links.len() < nodes.len() {
            self.links.resize(nodes.len(), Link::LOOSE);
        }
        self.index.append(nodes, &mut self.links, slot);
    }
}
