//! Matching: which posted entry takes a message, which held message a receive takes (PROTOCOL §9).
//!
//! Cost does not grow with the lists. Wildcards are the difficulty, and MPI libraries always use some: Open MPI ignores
//! bit 32 of every tag, MPICH its two protocol bits, both more for MPI_ANY_TAG, and the source is given or not. But a
//! program uses a handful of such *shapes* (ignore mask, source given or not), and under one shape matching is
//! equality, which an index finds in one step.
//!
//! - **Posted** entries are grouped by list and shape, each group with its index. A message asks every group that has
//!   entries, and the lowest posting number among the answers wins. But most messages come in the order of their
//!   receives: the entry that was posted before all others is looked at first, and if it takes the message no list and
//!   no shape can have a better one. So an entry is put into its group only when a message passed it over and there
//!   are more of them than are quickly looked at; one that never was costs neither a hash nor a table.
//! - **Held** (unexpected) messages are indexed once for each shape that was searched for. There are few of them most
//!   of the time, so a search walks the first few in order of arrival and only then makes an index; one that is not
//!   used for long is dropped.
//!
//! What belongs to an entry or a message is the caller's: the matcher knows it by a token. Nothing is allocated but
//! to grow beyond an earlier peak.

use alloc::vec::Vec;

use crate::base::api::List;
use crate::base::types::{Criteria, PeerId, Space, Tag};

mod held;
mod index;
mod portals;
#[cfg(test)]
mod tests;

use held::HeldList;
use index::{
    Index, Keyed, NAMED_BIT, NONE, Neighbours, PORTAL_BIT, PORTAL_PROCESS_BITS, PROCESS_NAMED_BIT,
    Queues, Words,
};
pub(crate) use portals::{PortalSource, PortalWanted};

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
    #[inline]
    pub fn post(&mut self, list: List, criteria: &Criteria, token: u32) -> EntryId {
        EntryId(self.posted.post(list, criteria, token))
    }

    /// Takes an entry out of its list and returns its token; `None` if it is not posted any more.
    #[inline]
    pub fn unlink(&mut self, entry: EntryId) -> Option<u32> {
        self.posted.unlink(entry.0)
    }

    /// The entry that takes a message: the first posted of the priority list, else of the overflow list.
    /// The entry stays posted. Nothing changes that one can see: entries may be put into an index.
    #[inline(always)]
    pub fn find(&mut self, space: Space, tag: Tag, source: PeerId) -> Option<(EntryId, u32)> {
        let slot = self.posted.find(Words::envelope(space, tag, source));
        self.posted.found(slot)
    }

    /// The token of the first of all entries, if it takes this message and is in no index: most messages come in the order of
    /// their receives.
    #[inline(always)]
    pub(crate) fn first_for(&mut self, space: Space, tag: Tag, source: PeerId) -> Option<u32> {
        self.posted.first_for(Words::envelope(space, tag, source))
    }

    /// Takes out the entry that `first_for` told of just now.
    #[inline(always)]
    pub(crate) fn unlink_first(&mut self) {
        self.posted.unlink_first();
    }

    /// Takes an entry that was found just now out of its list.
    #[inline(always)]
    pub(crate) fn unlink_found(&mut self, entry: EntryId) {
        debug_assert!(self.entry_token(entry).is_some(), "found just now");
        self.posted.unlink_slot(entry.0.slot);
    }

    /// The entry of this list that takes a message. It stays posted.
    pub fn find_in(
        &mut self,
        list: List,
        space: Space,
        tag: Tag,
        source: PeerId,
    ) -> Option<(EntryId, u32)> {
        let slot = self.posted.find_in(list, Words::envelope(space, tag, source).in_list(list));
        self.posted.found(slot)
    }

    /// The list an entry is in; `None` if it is not posted any more.
    pub fn entry_list(&self, entry: EntryId) -> Option<List> {
        self.posted
            .slab
            .slot(entry.0)
            .map(|slot| self.posted.slab.items[slot as usize].words.list())
    }

    /// The token of an entry; `None` if it is not posted any more.
    pub fn entry_token(&self, entry: EntryId) -> Option<u32> {
        self.posted.slab.slot(entry.0).map(|slot| self.posted.slab.items[slot as usize].token)
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
    #[inline]
    pub fn hold(&mut self, space: Space, tag: Tag, source: PeerId, token: u32) -> HeldId {
        HeldId(self.held.hold(Words::envelope(space, tag, source), token))
    }

    /// The first held message that satisfies the criteria. It stays held. Changes nothing one can see: a shape not
    /// met before may get an index.
    #[inline]
    pub fn search(&mut self, criteria: &Criteria) -> Option<(HeldId, u32)> {
        let (id, token) = self.held.search(Words::wanted(criteria), Words::shape(criteria))?;
        Some((HeldId(id), token))
    }

    /// Takes a message out of the held ones and returns its token; `None` if it is not held any more.
    #[inline]
    pub fn release(&mut self, held: HeldId) -> Option<u32> {
        self.held.release(held.0)
    }

    /// The token of a held message; `None` if it is not held any more.
    pub fn held_token(&self, held: HeldId) -> Option<u32> {
        self.held.slab.slot(held.0).map(|slot| self.held.slab.items[slot as usize].token)
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
        while slab.items[slot as usize].words.source() != source {
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
struct Item<T> {
    words: Words,
    /// Neighbours in the order of coming, `NONE` at its ends; of a free slot, the next free one.
    order: Neighbours,
    token: u32,
    /// How often the slot was vacated.
    serial: u32,
    more: T,
}

/// Items in slots that are used again, and the order in which they came. Leaner than `crate::base::slab`, as held messages
/// are counted in bytes: whether a slot is taken is not written down, as only names and links lead to slots.
#[derive(Debug)]
struct Ordered<T> {
    items: Vec<Item<T>>,
    /// The oldest item.
    first: u32,
    /// The newest.
    last: u32,
    free: u32,
    count: usize,
}

impl<T> Ordered<T> {
    fn new() -> Self {
        Self { items: Vec::new(), first: NONE, last: NONE, free: NONE, count: 0 }
    }

    /// Puts an item into a free slot and at the end of the order.
    #[inline(always)]
    fn insert(&mut self, words: Words, token: u32, more: T) -> SlotId {
        let slot = self.free;
        // `NONE` is beyond every slot: whether there is a free one and whether the slot exists is one question.
        let Some(item) = self.items.get_mut(slot as usize) else {
            self.check_count();
            let slot = self.items.len() as u32;
            let order = Neighbours { next: NONE, prev: self.last };
            self.items.push(Item { words, order, token, serial: 0, more });
            self.enqueue(slot);
            return SlotId { slot, serial: 0 };
        };
        self.free = item.order.next;
        let serial = item.serial;
        let order = Neighbours { next: NONE, prev: self.last };
        *item = Item { words, order, token, serial, more };
        self.enqueue(slot);
        SlotId { slot, serial }
    }

    #[cold]
    fn check_count(&self) {
        assert!(self.items.len() < NONE as usize, "slots are numbered in 32 bits");
    }

    /// An item that has its place in the order is told to the others.
    #[inline(always)]
    fn enqueue(&mut self, slot: u32) {
        match self.items.get_mut(self.last as usize) {
            Some(before) => before.order.next = slot,
            None => self.first = slot,
        }
        self.last = slot;
        self.count += 1;
    }

    /// Vacates a slot; names of its item are void.
    #[inline(always)]
    fn remove(&mut self, slot: u32) -> u32 {
        let item = &mut self.items[slot as usize];
        item.serial = item.serial.wrapping_add(1);
        let token = item.token;
        let Neighbours { next, prev } = item.order;
        item.order.next = self.free;
        self.free = slot;
        self.count -= 1;
        match self.items.get_mut(prev as usize) {
            Some(before) => before.order.next = next,
            None => self.first = next,
        }
        match self.items.get_mut(next as usize) {
            Some(after) => after.order.prev = prev,
            None => self.last = prev,
        }
        token
    }

    /// The slot this names, if it still does.
    fn slot(&self, id: SlotId) -> Option<u32> {
        (self.items.get(id.slot as usize)?.serial == id.serial).then_some(id.slot)
    }

    /// The name and token of the item in a slot.
    fn name(&self, slot: u32) -> (SlotId, u32) {
        let item = &self.items[slot as usize];
        (SlotId { slot, serial: item.serial }, item.token)
    }

    fn next(&self, slot: u32) -> Option<u32> {
        Some(self.items[slot as usize].order.next).filter(|&next| next != NONE)
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
    /// Bits of the tag that are not compared.
    ignore: u64,
    /// Its place in the order of all posts.
    number: u64,
    /// Its neighbours in the queue of its key. An entry is in one group, so one link does.
    queue: Neighbours,
    /// `NONE` while it is fresh: in no group yet.
    group: u32,
    /// Where its key belongs in the group's index.
    home: u32,
}

// One line of the cache, and found by a shift.
const _: () = assert!(size_of::<Item<Posting>>() == 64);

impl Item<Posting> {
    /// Whether it takes a message with this envelope, of the same list.
    #[inline(always)]
    fn admits(&self, envelope: Words) -> bool {
        self.words.agrees(envelope, self.words.shape_ignoring(self.more.ignore))
    }
}

impl Keyed for Item<Posting> {
    #[inline(always)]
    fn words(&self) -> Words {
        self.words
    }

    #[inline(always)]
    fn home(&self, _index: &Index) -> u32 {
        self.more.home
    }
}

impl Queues for [Item<Posting>] {
    type Item = Item<Posting>;

    #[inline(always)]
    fn items(&self) -> &[Self::Item] {
        self
    }

    #[inline(always)]
    fn link(&mut self, item: u32) -> &mut Neighbours {
        &mut self[item as usize].more.queue
    }
}

/// Entries of one list and shape.
#[derive(Debug)]
struct Group {
    list: List,
    /// Whether it is in `PostedLists::asked`: always while it has entries.
    is_asked: bool,
    index: Index,
    /// The last post to it.
    used_at: u64,
}

/// Groups without entries are kept for the next entry of their shape, up to this many; then they are used for others.
const IDLE_GROUP_COUNT_MAX: usize = 8;

/// Groups of a list may be asked after they lost their entries, as they often have some again at once; those without
/// are put aside when a group joins so many.
const ASKED_COUNT: usize = 4;

/// A message that is not for the first entry looks at so many fresh ones; if there are more they are put into groups.
/// That is about what one group costs to ask.
const FRESH_COUNT_MAX: u32 = 4;

/// Eighths of a group's table that may be taken: few, because a message asks every group and most of them in vain, which
/// costs least where nothing stands; and what is posted is the application's own doing.
const POSTED_FILL: usize = 1;

/// Both lists of posted entries.
#[derive(Debug)]
struct PostedLists {
    slab: Ordered<Posting>,
    groups: Vec<Group>,
    /// Groups that messages ask, of the priority and of the overflow list.
    asked: [Vec<u32>; 2],
    /// The first entry in no group, or `NONE`. None of those behind it is in one.
    fresh: u32,
    fresh_count: u32,
    post_count: u64,
    /// The entry last given in turn, or `NONE` before the first.
    turn: u32,
    secret: Words,
    /// Entries looked at without an index, for the tests that count work.
    #[cfg(test)]
    visits: u64,
}

impl PostedLists {
    fn new(secret: Words) -> Self {
        Self {
            slab: Ordered::new(),
            groups: Vec::new(),
            asked: [Vec::new(), Vec::new()],
            fresh: NONE,
            fresh_count: 0,
            post_count: 0,
            turn: NONE,
            secret,
            #[cfg(test)]
            visits: 0,
        }
    }

    #[inline(always)]
    fn post(&mut self, list: List, criteria: &Criteria, token: u32) -> SlotId {
        self.post_words(Words::wanted(criteria).in_list(list), criteria.ignore, token)
    }

    #[inline(always)]
    fn post_words(&mut self, words: Words, ignore: u64, token: u32) -> SlotId {
        self.post_count += 1;
        let number = self.post_count;
        let posting = Posting { ignore, number, queue: Neighbours::LOOSE, group: NONE, home: 0 };
        let id = self.slab.insert(words, token, posting);
        if self.fresh_count == 0 {
            self.fresh = id.slot;
        }
        self.fresh_count += 1;
        id
    }

    #[inline(always)]
    fn unlink(&mut self, id: SlotId) -> Option<u32> {
        let slot = self.slab.slot(id)?;
        Some(self.unlink_slot(slot))
    }

    /// Takes the entry in this slot out of its list and returns its token.
    #[inline(always)]
    fn unlink_slot(&mut self, slot: u32) -> u32 {
        let item = &self.slab.items[slot as usize];
        if self.turn == slot {
            self.turn = item.order.prev;
        }
        let group = item.more.group;
        if group == NONE {
            self.fresh_count -= 1;
            if self.fresh == slot {
                self.fresh = item.order.next;
            }
        } else {
            self.groups[group as usize].index.remove(&mut self.slab.items[..], slot);
        }
        self.slab.remove(slot)
    }

    #[inline(always)]
    fn first_for(&mut self, envelope: Words) -> Option<u32> {
        #[cfg(test)]
        (self.visits += 1);
        let slot = self.slab.first;
        let item = self.slab.items.get(slot as usize)?;
        let is_fresh = self.fresh == slot && self.turn != slot;
        (is_fresh && item.admits(envelope)).then_some(item.token)
    }

    /// `unlink_slot` of the first of all entries when it is fresh, and not the last given in turn.
    #[inline(always)]
    fn unlink_first(&mut self) {
        let (slot, slab) = (self.slab.first, &mut self.slab);
        let item = &mut slab.items[slot as usize];
        item.serial = item.serial.wrapping_add(1);
        let next = core::mem::replace(&mut item.order.next, slab.free);
        slab.free = slot;
        slab.count -= 1;
        slab.first = next;
        match slab.items.get_mut(next as usize) {
            Some(after) => after.order.prev = NONE,
            None => slab.last = NONE,
        }
        self.fresh = next; // all behind it are fresh too
        self.fresh_count -= 1;
    }

    /// The slot of the first posted entry that takes this envelope, of the priority list if any of that does; or `NONE`.
    #[inline(always)]
    fn find(&mut self, envelope: Words) -> u32 {
        // All that the usual message needs; the rest is a call at the end, for which nothing has to be saved.
        if self.is_for_first(envelope) { self.slab.first } else { self.find_in_both(envelope) }
    }

    #[inline(never)]
    fn find_in_both(&mut self, envelope: Words) -> u32 {
        if self.slab.count == 0 {
            return NONE;
        }
        match self.find_behind(List::Priority, envelope) {
            NONE => self.find_in(List::Overflow, envelope.in_list(List::Overflow)),
            slot => slot,
        }
    }

    /// The slot of the first entry of one list that takes this envelope, which is marked as of that list; or `NONE`.
    fn find_in(&mut self, list: List, envelope: Words) -> u32 {
        if self.is_for_first(envelope) { self.slab.first } else { self.find_behind(list, envelope) }
    }

    /// Whether the first of all entries takes this.
    #[inline(always)]
    fn is_for_first(&mut self, envelope: Words) -> bool {
        #[cfg(test)]
        (self.visits += 1);
        let first = self.slab.items.get(self.slab.first as usize);
        first.is_some_and(|item| item.admits(envelope))
    }

    /// What the finder of a slot is told.
    #[inline(always)]
    fn found(&self, slot: u32) -> Option<(EntryId, u32)> {
        let item = self.slab.items.get(slot as usize)?;
        Some((EntryId(SlotId { slot, serial: item.serial }), item.token))
    }

    /// The slot of the first entry of one list that takes this envelope, where that is not the first of all entries; or `NONE`.
    fn find_behind(&mut self, list: List, envelope: Words) -> u32 {
        if self.fresh_count > FRESH_COUNT_MAX {
            self.index_fresh();
        }
        let mut first = (u64::MAX, NONE);
        for &at in &self.asked[list as usize] {
            let index = &self.groups[at as usize].index;
            if let Some((slot, item)) = index.first(&self.slab.items, envelope)
                && item.more.number < first.0
            {
                first = (item.more.number, slot);
            }
        }
        // Fresh entries were posted after all that are in groups.
        if first.1 == NONE { self.find_fresh(envelope) } else { first.1 }
    }

    /// The first fresh entry that takes this envelope, or `NONE`.
    #[inline(always)]
    fn find_fresh(&mut self, envelope: Words) -> u32 {
        let mut slot = self.fresh;
        while let Some(item) = self.slab.items.get(slot as usize)
            && !item.admits(envelope)
        {
            #[cfg(test)]
            (self.visits += 1);
            slot = item.order.next;
        }
        slot
    }

    /// Puts all fresh entries into their groups. An entry is fresh once, so this is paid with its post.
    #[inline(never)]
    fn index_fresh(&mut self) {
        while let Some(item) = self.slab.items.get(self.fresh as usize) {
            let (slot, words, next) = (self.fresh, item.words, item.order.next);
            let at = self.group_for(words.list(), words.shape_ignoring(item.more.ignore));
            let group = &mut self.groups[at];
            group.used_at = self.post_count;
            let home = group.index.home(words);
            let posting = &mut self.slab.items[slot as usize].more;
            (posting.group, posting.home) = (at as u32, home);
            group.index.append(&mut self.slab.items[..], slot, words, home);
            if !group.is_asked {
                self.ask(at);
            }
            self.fresh = next;
        }
        self.fresh_count = 0;
    }

    /// From here on messages ask this group.
    #[cold]
    #[inline(never)]
    fn ask(&mut self, at: usize) {
        let list = self.groups[at].list;
        if self.asked[list as usize].len() >= ASKED_COUNT {
            self.put_idle_aside(list);
        }
        self.groups[at].is_asked = true;
        self.asked[list as usize].push(at as u32);
    }

    /// Groups of a list without entries are asked no longer.
    fn put_idle_aside(&mut self, list: List) {
        self.asked[list as usize].retain(|&at| {
            let group = &mut self.groups[at as usize];
            group.is_asked = !group.index.is_empty();
            group.is_asked
        });
    }

    /// The group of this list and shape; if there is none, an idle one made into it, or a new one.
    #[inline(always)]
    fn group_for(&mut self, list: List, shape: Words) -> usize {
        let known = |group: &Group| group.index.shape() == shape && group.list == list;
        match self.groups.iter().position(known) {
            Some(at) => at,
            None => self.new_group(list, shape),
        }
    }

    #[cold]
    fn new_group(&mut self, list: List, shape: Words) -> usize {
        let idle = self.groups.iter().enumerate().filter(|(_, group)| group.index.is_empty());
        if idle.clone().count() < IDLE_GROUP_COUNT_MAX {
            let index = Index::new(shape, self.secret, POSTED_FILL);
            self.groups.push(Group { list, is_asked: false, index, used_at: 0 });
            return self.groups.len() - 1;
        }
        let (at, _) = idle.min_by_key(|(_, group)| group.used_at).expect("counted above");
        self.put_idle_aside(self.groups[at].list);
        self.groups[at].index.reshape(shape);
        self.groups[at].list = list;
        at
    }

    fn next_in_turn(&mut self) -> Option<Posted> {
        let next =
            if self.turn == NONE { NONE } else { self.slab.items[self.turn as usize].order.next };
        self.turn = if next == NONE { self.slab.first } else { next };
        (self.turn != NONE).then(|| self.seen(self.turn))
    }

    fn seen(&self, slot: u32) -> Posted {
        let item = &self.slab.items[slot as usize];
        let (id, token) = self.slab.name(slot);
        let (list, criteria) = (item.words.list(), item.words.criteria(item.more.ignore));
        Posted { entry: EntryId(id), list, criteria, token }
    }
}
