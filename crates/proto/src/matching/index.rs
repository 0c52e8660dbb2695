//! An index: queues found by key, in one step however many there are.
//!
//! Items live in somebody's slab and have two words each. An index looks at the words through a mask, its *shape*:
//! items that agree under the shape have the same key and stand in one queue, oldest first.
//!
//! ```text
//! table  [ · | 4 | · | · | 7 | · | 2 | · ]        slab slots of queue heads, or nothing
//!              │           │
//! links        4 → 9 → 5   7                      next; back: 4 ← 9 ← 5, and the head's goes to the tail
//! ```
//!
//! There are no nodes for keys: the head of a queue stands for its key, and the head's backward link is the tail.
//! So an index costs four bytes for each slot of its table and a pair of links for each item, and a queue whose last
//! item leaves takes its key with it. The table is probed linearly and closed up on removal, so it does not age;
//! it grows and never shrinks.

use alloc::vec;
use alloc::vec::Vec;
#[cfg(test)]
use core::cell::Cell;

use crate::types::{Criteria, PeerId, Space, Tag};

/// No slot.
pub(super) const NONE: u32 = u32::MAX;

/// Where a table begins: ten entries, the usual number, then probe no more than ten thousand.
const TABLE_LEN_MIN: usize = 64;

/// 2⁶⁴ by the golden ratio, as Knuth multiplies.
const SCATTER: u64 = 0x9E37_79B9_7F4A_7C15;

/// An envelope or criteria in two words, or a mask over them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Words {
    /// The tag.
    pub(super) bits: u64,
    /// The source below, the space above.
    pub(super) from: u64,
}

const SOURCE_BITS: u64 = 0xFFFF_FFFF;
const SPACE_BITS: u64 = 0xFF << 32;

impl Words {
    /// An envelope.
    pub(super) fn envelope(space: Space, tag: Tag, source: PeerId) -> Self {
        Self { bits: tag.0, from: u64::from(space.0) << 32 | u64::from(source.0) }
    }

    /// What is wanted. Any source is no source here: the shape does not look at it.
    pub(super) fn wanted(criteria: &Criteria) -> Self {
        Self::envelope(criteria.space, criteria.tag, criteria.source.unwrap_or(PeerId(0)))
    }

    /// The shape: ones where an envelope is compared with what is wanted.
    pub(super) fn shape(criteria: &Criteria) -> Self {
        let source_bits = if criteria.source.is_some() { SOURCE_BITS } else { 0 };
        Self { bits: !criteria.ignore, from: SPACE_BITS | source_bits }
    }

    /// The criteria that `wanted` and `shape` were made from.
    pub(super) fn criteria(self, shape: Self) -> Criteria {
        let source = (shape.from & SOURCE_BITS != 0).then(|| self.source());
        Criteria {
            space: Space((self.from >> 32) as u8),
            tag: Tag(self.bits),
            ignore: !shape.bits,
            source,
        }
    }

    /// The source of an envelope.
    pub(super) fn source(self) -> PeerId {
        PeerId(self.from as u32)
    }

    /// Whether the two are the same where the shape has ones.
    pub(super) fn agrees(self, other: Self, shape: Self) -> bool {
        ((self.bits ^ other.bits) & shape.bits) | ((self.from ^ other.from) & shape.from) == 0
    }
}

/// Something with words to be indexed by.
pub(super) trait Keyed {
    /// Its words.
    fn words(&self) -> Words;
}

/// An item's neighbours in a queue. `next` of the tail is `NONE`; `prev` of the head is the tail.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    pub(super) next: u32,
    pub(super) prev: u32,
}

impl Link {
    /// In no queue.
    pub(super) const LOOSE: Self = Self { next: NONE, prev: NONE };
}

/// Appends `item` to the queue that begins at `head`, `NONE` if it is empty; returns its head.
pub(super) fn append(links: &mut [Link], head: u32, item: u32) -> u32 {
    if head == NONE {
        links[item as usize] = Link { next: NONE, prev: item };
        return item;
    }
    let tail = links[head as usize].prev;
    links[item as usize] = Link { next: NONE, prev: tail };
    links[tail as usize].next = item;
    links[head as usize].prev = item;
    head
}

/// Takes `item` out of the queue that begins at `head`; returns its head, `NONE` if it is empty now.
pub(super) fn take(links: &mut [Link], head: u32, item: u32) -> u32 {
    let Link { next, prev } = links[item as usize];
    if item == head {
        if next != NONE {
            links[next as usize].prev = prev;
        }
        return next;
    }
    links[prev as usize].next = next;
    let follower = if next == NONE { head } else { next };
    links[follower as usize].prev = prev;
    head
}

/// Queues of items, by key under one shape. The items and links are the caller's, the same at every call.
#[derive(Debug)]
pub(super) struct Index {
    shape: Words,
    secret: Words,
    /// Heads. Empty until first used, then a power of two, at most three eighths full.
    table: Vec<u32>,
    key_count: usize,
    /// With more the table grows.
    key_count_max: usize,
    /// Nodes looked at, for the tests that count work.
    #[cfg(test)]
    pub(super) visits: Cell<u64>,
}

impl Index {
    /// An empty index. The secret keeps who knows the tags from knowing the collisions.
    pub(super) fn new(shape: Words, secret: Words) -> Self {
        Self {
            shape,
            secret,
            table: Vec::new(),
            key_count: 0,
            key_count_max: 0,
            #[cfg(test)]
            visits: Cell::new(0),
        }
    }

    /// What of an item is its key.
    pub(super) fn shape(&self) -> Words {
        self.shape
    }

    /// Slots of the table: what `clear` has to write.
    pub(super) fn table_len(&self) -> usize {
        self.table.len()
    }

    /// Gives an empty index another shape; it keeps its memory.
    pub(super) fn reshape(&mut self, shape: Words) {
        assert_eq!(self.key_count, 0, "the items of an index are placed by its shape");
        self.shape = shape;
    }

    /// Forgets all items, whose links mean nothing from here on.
    pub(super) fn clear(&mut self) {
        if self.key_count > 0 {
            self.table.fill(NONE);
            self.key_count = 0;
        }
    }

    /// The oldest item with the key of `words`.
    pub(super) fn first(&self, items: &[impl Keyed], words: Words) -> Option<u32> {
        let mask = self.table.len().checked_sub(1)?;
        let mut at = self.home(words) & mask;
        loop {
            self.visit();
            let head = self.table[at];
            if head == NONE {
                return None;
            }
            if items[head as usize].words().agrees(words, self.shape) {
                return Some(head);
            }
            at = (at + 1) & mask;
        }
    }

    /// Appends `item` to the queue of its key.
    pub(super) fn append(&mut self, items: &[impl Keyed], links: &mut [Link], item: u32) {
        if self.key_count >= self.key_count_max {
            self.grow(items);
        }
        let at = self.place(items, items[item as usize].words());
        let head = self.table[at];
        self.key_count += usize::from(head == NONE);
        self.table[at] = append(links, head, item);
    }

    /// Takes `item` out of the queue of its key, from wherever in it.
    pub(super) fn remove(&mut self, items: &[impl Keyed], links: &mut [Link], item: u32) {
        let Link { next, prev } = links[item as usize];
        if next != NONE && links[prev as usize].next != NONE {
            // Neither tail nor head: no need to look for the queue. Usual with wildcards, whose queues are long.
            links[prev as usize].next = next;
            links[next as usize].prev = prev;
            return;
        }
        let at = self.place(items, items[item as usize].words());
        let head = take(links, self.table[at], item);
        self.table[at] = head;
        if head == NONE {
            self.key_count -= 1;
            self.close_up(items, at);
        }
    }

    /// Where the head with the key of `words` is, or would be put. There is a free slot always.
    fn place(&self, items: &[impl Keyed], words: Words) -> usize {
        let mask = self.table.len() - 1;
        let mut at = self.home(words) & mask;
        loop {
            self.visit();
            let head = self.table[at];
            if head == NONE || items[head as usize].words().agrees(words, self.shape) {
                return at;
            }
            at = (at + 1) & mask;
        }
    }

    /// Moves what was pushed aside by the head that left `hole`, so that no probe stops short of it.
    fn close_up(&mut self, items: &[impl Keyed], mut hole: usize) {
        let mask = self.table.len() - 1;
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            self.visit();
            let head = self.table[at];
            if head == NONE {
                return;
            }
            let home = self.home(items[head as usize].words()) & mask;
            // Its way from home leads over the hole: it belongs there.
            if at.wrapping_sub(home) & mask >= at.wrapping_sub(hole) & mask {
                self.table[hole] = head;
                self.table[at] = NONE;
                hole = at;
            }
        }
    }

    #[cold]
    fn grow(&mut self, items: &[impl Keyed]) {
        let len = (self.table.len() * 2).max(TABLE_LEN_MIN);
        let heads = core::mem::replace(&mut self.table, vec![NONE; len]);
        self.key_count_max = len * 3 / 8;
        for head in heads.into_iter().filter(|&head| head != NONE) {
            let at = self.place(items, items[head as usize].words());
            self.table[at] = head;
        }
    }

    /// The place of a key in a table without end: both words multiplied, the product folded, and the fold scattered,
    /// as runs of tags under one source would otherwise lie in steps and, with some secrets, in heaps.
    fn home(&self, words: Words) -> usize {
        let bits = (words.bits & self.shape.bits) ^ self.secret.bits;
        let from = (words.from & self.shape.from) ^ self.secret.from;
        let product = u128::from(bits) * u128::from(from);
        let fold = product as u64 ^ (product >> 64) as u64;
        (fold.wrapping_mul(SCATTER) >> 32) as usize
    }

    fn visit(&self) {
        #[cfg(test)]
        self.visits.set(self.visits.get() + 1);
    }
}
