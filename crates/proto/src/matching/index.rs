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
//! There are no records for keys: the head of a queue stands for its key, and the head's backward link is the tail.
//! Where a key belongs in the table is its *home*; items may keep it, so that they leave without being hashed.
//! So an index costs four bytes for each slot of its table and a pair of links for each item, and a queue whose last
//! item leaves takes its key with it. The table is probed linearly and closed up on removal, so it does not age;
//! it grows and never shrinks.

use alloc::vec;
use alloc::vec::Vec;
#[cfg(test)]
use core::cell::Cell;
use core::mem;

use crate::base::api::List;
use crate::base::types::{Criteria, PeerId, Space, Tag};

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

const SOURCE_BITS: u64 = (1 << PeerId::BITS) - 1;
const SPACE_SHIFT: u32 = PeerId::BITS;
const SPACE_BITS: u64 = 0xFF << SPACE_SHIFT;
/// In `from` of what is wanted: a source is named. Envelopes do not have it and shapes do not look at it.
pub(super) const NAMED_BIT: u64 = 1 << 62;
/// In `from` of what is wanted: of Portals, whose source has two parts (`portals`); and its second part is named.
pub(super) const PORTAL_BIT: u64 = 1 << 61;
pub(super) const PROCESS_NAMED_BIT: u64 = 1 << 60;
const PORTAL_NODE_BITS: u64 = 0xFFFF_FFFF;
pub(super) const PORTAL_PROCESS_BITS: u64 = 0xF_FFFF << 32;
/// What of `from` is compared, by these three bits.
const COMPARED: [u64; 8] = [
    OVERFLOW_BIT | SPACE_BITS,
    OVERFLOW_BIT | SPACE_BITS,
    OVERFLOW_BIT,
    OVERFLOW_BIT | PORTAL_PROCESS_BITS,
    OVERFLOW_BIT | SPACE_BITS | SOURCE_BITS,
    OVERFLOW_BIT | SPACE_BITS | SOURCE_BITS,
    OVERFLOW_BIT | PORTAL_NODE_BITS,
    OVERFLOW_BIT | PORTAL_NODE_BITS | PORTAL_PROCESS_BITS,
];
/// In `from`: of the overflow list. A shape looks at it, so that entries of the two lists never have a key in common.
const OVERFLOW_BIT: u64 = 1 << 63;

impl Words {
    /// An envelope.
    #[inline(always)]
    pub(super) fn envelope(space: Space, tag: Tag, source: PeerId) -> Self {
        Self { bits: tag.0, from: u64::from(space.0) << SPACE_SHIFT | source.0 }
    }

    /// What is wanted. Any source is no source here: the shape does not look at it.
    #[inline(always)]
    pub(super) fn wanted(criteria: &Criteria) -> Self {
        let source = criteria.source.map_or(0, |source| NAMED_BIT | (source.0 & SOURCE_BITS));
        Self { bits: criteria.tag.0, from: u64::from(criteria.space.0) << SPACE_SHIFT | source }
    }

    /// These words, as an entry or an envelope of one list has them.
    #[inline(always)]
    pub(super) fn in_list(self, list: List) -> Self {
        Self { from: self.from | ((list as u64) * OVERFLOW_BIT), ..self }
    }

    /// The list.
    pub(super) fn list(self) -> List {
        if self.from & OVERFLOW_BIT == 0 { List::Priority } else { List::Overflow }
    }

    /// The shape: ones where an envelope is compared with what is wanted.
    pub(super) fn shape(criteria: &Criteria) -> Self {
        Self::wanted(criteria).shape_ignoring(criteria.ignore)
    }

    /// The shape of what is wanted but for these bits of the tag.
    #[inline(always)]
    pub(super) fn shape_ignoring(self, ignore: u64) -> Self {
        Self { bits: !ignore, from: COMPARED[(self.from >> 60) as usize & 7] }
    }

    /// The criteria that `wanted` was made from.
    pub(super) fn criteria(self, ignore: u64) -> Criteria {
        let source = (self.from & NAMED_BIT != 0).then(|| self.source());
        Criteria {
            space: Space((self.from >> SPACE_SHIFT) as u8),
            tag: Tag(self.bits),
            ignore,
            source,
        }
    }

    /// The source of an envelope.
    pub(super) fn source(self) -> PeerId {
        PeerId(self.from & SOURCE_BITS)
    }

    /// Whether the two are the same where the shape has ones.
    #[inline(always)]
    pub(super) fn agrees(self, other: Self, shape: Self) -> bool {
        ((self.bits ^ other.bits) & shape.bits) | ((self.from ^ other.from) & shape.from) == 0
    }
}

/// Something with words to be indexed by.
pub(super) trait Keyed {
    /// Its words.
    fn words(&self) -> Words;

    /// `Index::home` of its words; an item that kept it knows better than to hash.
    fn home(&self, index: &Index) -> u32 {
        index.home(self.words())
    }
}

/// Items and the links they have in one index.
pub(super) trait Queues {
    /// An item.
    type Item: Keyed;

    /// All items, by slot.
    fn items(&self) -> &[Self::Item];

    /// The link of one.
    fn link(&mut self, item: u32) -> &mut Neighbours;
}

/// An item's neighbours in a queue. `next` of the tail is `NONE`; `prev` of the head is the tail.
#[derive(Clone, Copy, Debug)]
pub(super) struct Neighbours {
    pub(super) next: u32,
    pub(super) prev: u32,
}

impl Neighbours {
    /// In no queue.
    pub(super) const LOOSE: Self = Self { next: NONE, prev: NONE };
}

/// Queues of items, by key under one shape. The items and links are the caller's, the same at every call.
#[derive(Debug)]
pub(super) struct Index {
    shape: Words,
    secret: Words,
    /// Heads. Empty until first used, then a power of two, of which so many eighths may be taken.
    table: Vec<u32>,
    fill_eighths: usize,
    key_count: usize,
    /// With more the table grows.
    key_count_max: usize,
    /// Nodes looked at, for the tests that count work.
    #[cfg(test)]
    pub(super) visits: Cell<u64>,
}

impl Index {
    /// An empty index. The secret keeps who knows the tags from knowing the collisions.
    pub(super) fn new(shape: Words, secret: Words, fill_eighths: usize) -> Self {
        Self {
            shape,
            secret,
            table: Vec::new(),
            fill_eighths,
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

    /// Whether there are no items.
    pub(super) fn is_empty(&self) -> bool {
        self.key_count == 0
    }

    /// The oldest item with the key of `words`.
    #[inline(always)] // once per message and shape
    pub(super) fn first<'a, K: Keyed>(&self, items: &'a [K], words: Words) -> Option<(u32, &'a K)> {
        if self.is_empty() {
            return None; // before the first item there is no table either
        }
        let mask = self.table.len() - 1;
        let mut at = self.home(words) as usize & mask;
        loop {
            self.visit();
            let head = self.table[at];
            // A slot that is no item is `NONE`: one question instead of two.
            let item = items.get(head as usize)?;
            if item.words().agrees(words, self.shape) {
                return Some((head, item));
            }
            at = (at + 1) & mask;
        }
    }

    /// Appends `item` to the queue of its key. `words` and `home` are its own.
    #[inline(always)]
    pub(super) fn append(
        &mut self,
        queues: &mut (impl Queues + ?Sized),
        item: u32,
        words: Words,
        home: u32,
    ) {
        if self.key_count >= self.key_count_max {
            self.grow(queues.items());
        }
        let at = self.place(queues.items(), words, home);
        let head = self.table[at];
        if head == NONE {
            self.key_count += 1;
            self.table[at] = item;
            *queues.link(item) = Neighbours { next: NONE, prev: item };
            return;
        }
        let tail = mem::replace(&mut queues.link(head).prev, item);
        queues.link(tail).next = item;
        *queues.link(item) = Neighbours { next: NONE, prev: tail };
    }

    /// Takes `item` out of the queue of its key, from wherever in it.
    #[inline(always)]
    pub(super) fn remove(&mut self, queues: &mut (impl Queues + ?Sized), item: u32) {
        let Neighbours { next, prev } = *queues.link(item);
        let before = &mut queues.link(prev).next;
        if *before == NONE {
            // What is before it is the tail: it is the head.
            self.remove_head(queues, item, Neighbours { next, prev });
        } else if next == NONE {
            *before = NONE;
            let tail = &queues.items()[item as usize];
            let at = self.place(queues.items(), tail.words(), tail.home(self));
            queues.link(self.table[at]).prev = prev;
        } else {
            // Neither: no need to look for the queue. Usual with wildcards, whose queues are long.
            *before = next;
            queues.link(next).prev = prev;
        }
    }

    /// Takes the head of a queue out: its successor stands for the key, or nobody does.
    #[inline(always)]
    fn remove_head(&mut self, queues: &mut (impl Queues + ?Sized), item: u32, link: Neighbours) {
        let mask = self.table.len() - 1;
        let mut at = queues.items()[item as usize].home(self) as usize & mask;
        loop {
            self.visit();
            // A head is known by its slot, so no keys are compared.
            if self.table[at] == item {
                break;
            }
            at = (at + 1) & mask;
        }
        self.table[at] = link.next;
        if link.next != NONE {
            queues.link(link.next).prev = link.prev;
            return;
        }
        self.key_count -= 1;
        self.visit();
        if self.table[(at + 1) & mask] != NONE {
            self.close_up(queues.items(), at);
        }
    }

    /// Where the head with this key is, or would be put. There is a free slot always.
    #[inline(always)]
    fn place(&self, items: &[impl Keyed], words: Words, home: u32) -> usize {
        let mask = self.table.len() - 1;
        let mut at = home as usize & mask;
        loop {
            self.visit();
            match items.get(self.table[at] as usize) {
                Some(head) if !head.words().agrees(words, self.shape) => at = (at + 1) & mask,
                _ => return at,
            }
        }
    }

    /// Moves what was pushed aside by the head that left `hole`, so that no probe stops short of it.
    #[inline(never)]
    fn close_up(&mut self, items: &[impl Keyed], mut hole: usize) {
        let mask = self.table.len() - 1;
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let head = self.table[at];
            if head == NONE {
                return;
            }
            self.visit();
            let home = items[head as usize].home(self) as usize & mask;
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
        let heads = mem::replace(&mut self.table, vec![NONE; len]);
        self.key_count_max = len / 8 * self.fill_eighths;
        for head in heads.into_iter().filter(|&head| head != NONE) {
            let item = &items[head as usize];
            let at = self.place(items, item.words(), item.home(self));
            self.table[at] = head;
        }
    }

    /// The place of a key in a table without end: both words multiplied, the product folded, and the fold scattered,
    /// as runs of tags under one source would otherwise lie in steps and, with some secrets, in heaps.
    #[inline(always)]
    pub(super) fn home(&self, words: Words) -> u32 {
        let bits = (words.bits & self.shape.bits) ^ self.secret.bits;
        let from = (words.from & self.shape.from) ^ self.secret.from;
        let product = u128::from(bits) * u128::from(from);
        let fold = product as u64 ^ (product >> 64) as u64;
        (fold.wrapping_mul(SCATTER) >> 32) as u32
    }

    #[inline(always)]
    fn visit(&self) {
        #[cfg(test)]
        self.visits.set(self.visits.get() + 1);
    }
}
