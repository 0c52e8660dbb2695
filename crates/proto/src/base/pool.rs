//! Bytes of held messages and of copied sends, within a budget.
//!
//! What no receive has taken yet is held (PROTOCOL §7.4), what was copied on its way out waits for acceptance (§7.3);
//! both in a pool like this one. A piece costs its length rounded up to a power of two from 64 bytes to 1 MiB, and
//! the sum of these costs never exceeds `len_max`. If there is budget there is room: a piece is never refused because
//! free memory is in the wrong place.
//!
//! ```text
//! slot 7 -> chunk 2, item 3         chunk 2, class 4 KiB   |used|free|used|used|free|…|   64 KiB or one item
//! slot 8 -> chunk 0, item 0         class 4 KiB: chunks with a free item 2 -> 5
//! ```
//!
//! Memory comes in chunks, each of one class, and stays with its class, so steady traffic allocates nothing. When
//! another class needs a chunk and the sum of all would exceed `len_max` plus `SLACK_LEN`, a chunk is *squeezed* out
//! of a class that has a chunk's worth of free items: what it still holds moves to the free items of the other chunks
//! of that class. Pieces are named by slots, so nobody sees them move.
//!
//! That a squeeze always finds its class: let no class have a whole chunk's worth of free items, and class *c*, which
//! has none, need a chunk. Then less is free than a chunk of each class but *c*: `free ≤ SLACK_LEN - chunk(c)`. The
//! budget admitted the piece: `used + item(c) ≤ len_max`. So `used + free + chunk(c) ≤ len_max + SLACK_LEN`: no
//! squeeze was needed. Hence the bound: bytes of chunks never exceed `len_max + SLACK_LEN` (with 4 bytes of book
//! keeping per item on top).
//!
//! All is O(1) but for a squeeze, which looks at the chunks of a class and moves less than 64 KiB. A piece needs at
//! most as many as chunks of 64 KiB make one of its own: 16 for 1 MiB.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::mem;

/// The smallest class is 64 bytes, the largest 1 MiB.
const SHIFT_MIN: u32 = 6;
const SHIFT_MAX: u32 = 20;
const CLASS_COUNT: usize = (SHIFT_MAX - SHIFT_MIN + 1) as usize;

/// A chunk is this long, or one item if that is longer.
const CHUNK_LEN: usize = 64 << 10;

/// How far the memory of a pool may exceed its budget: one chunk of each class.
pub(crate) const SLACK_LEN: u64 = slack_len();

/// No slot, chunk or item; as the chunk of a slot: it is empty and needs none.
const NONE: u32 = u32::MAX;
/// As the chunk of a slot: the slot is free.
const FREE: u32 = u32::MAX - 1;
/// Set in the entry of a free item.
const FREE_BIT: u32 = 1 << 31;

const fn item_len(class: usize) -> usize {
    1 << (SHIFT_MIN as usize + class)
}

const fn chunk_len(class: usize) -> usize {
    if item_len(class) > CHUNK_LEN { item_len(class) } else { CHUNK_LEN }
}

const fn items_per_chunk(class: usize) -> usize {
    chunk_len(class) / item_len(class)
}

const fn slack_len() -> u64 {
    let (mut sum, mut class) = (0, 0);
    while class < CLASS_COUNT {
        sum += chunk_len(class) as u64;
        class += 1;
    }
    sum
}

/// The class for pieces of this length, which is not 0. Nothing for what is longer than the longest.
#[inline(always)]
fn class_of(len: usize) -> Option<usize> {
    // The least power of two that is not below it; of 64 bytes and less, the smallest class.
    let above = (len - 1) >> SHIFT_MIN;
    let class = (usize::BITS - above.leading_zeros()) as usize;
    (class < CLASS_COUNT).then_some(class)
}

/// Where a piece is, or the next free slot.
#[derive(Clone, Copy, Debug)]
struct Slot {
    len: u32,
    /// Its chunk, or `NONE`, or `FREE`.
    chunk: u32,
    /// Its item in that chunk; of a free slot, the next free slot.
    item: u32,
}

/// Memory of one class, cut into items.
#[derive(Debug)]
struct Chunk {
    bytes: Box<[u8]>,
    /// Per item: its slot; of a free one, `FREE_BIT` and the next free item (or all ones).
    items: Box<[u32]>,
    free_item: u32,
    used_count: u32,
    class: usize,
    /// Neighbours among the chunks of the class that have a free item.
    prev: u32,
    next: u32,
}

/// What a size class has.
#[derive(Clone, Copy, Debug)]
struct Class {
    /// The first chunk with a free item.
    open_chunk: u32,
    /// Free items in all its chunks.
    free_count: usize,
}

/// Pieces of memory within a budget.
#[derive(Debug)]
pub(crate) struct BytePool {
    len_max: u64,
    /// What of that is lent beyond the budget (`overdraw`).
    overdrawn_len: u64,
    used_len: u64,
    peak_len: u64,
    allocated_len: u64,
    slots: Vec<Slot>,
    free_slot: u32,
    chunks: Vec<Chunk>,
    /// Entries of `chunks` that a squeeze left without memory.
    hollow_chunks: Vec<u32>,
    classes: [Class; CLASS_COUNT],
}

impl BytePool {
    /// An empty pool. Nothing is allocated before it is needed.
    pub(crate) fn new(len_max: u64) -> Self {
        Self {
            len_max,
            overdrawn_len: 0,
            used_len: 0,
            peak_len: 0,
            allocated_len: 0,
            slots: Vec::new(),
            free_slot: NONE,
            chunks: Vec::new(),
            hollow_chunks: Vec::new(),
            classes: [Class { open_chunk: NONE, free_count: 0 }; CLASS_COUNT],
        }
    }

    /// What a piece of this length costs of the budget. Nothing if it is longer than the pool can ever hold: 1 MiB.
    pub(crate) fn cost_of(len: usize) -> Option<u64> {
        if len == 0 { Some(0) } else { class_of(len).map(|class| item_len(class) as u64) }
    }

    /// A piece of exactly `len` bytes, whatever they were before; or nothing, if that would exceed the budget.
    /// A piece of length 0 costs nothing.
    #[inline]
    pub(crate) fn try_reserve(&mut self, len: usize) -> Option<u32> {
        if len == 0 {
            let slot = self.take_slot();
            self.slots[slot as usize] = Slot { len: 0, chunk: NONE, item: 0 };
            return Some(slot);
        }
        let class = class_of(len)?;
        let cost = item_len(class) as u64;
        if cost > self.free_len() {
            return None;
        }
        if self.classes[class].free_count == 0 {
            self.grow(class);
        }
        let slot = self.take_slot();
        let (chunk, item) = self.take_item(class, slot);
        self.slots[slot as usize] = Slot { len: len as u32, chunk, item };
        self.used_len += cost;
        self.peak_len = self.peak_len.max(self.used_len);
        Some(slot)
    }

    /// Reserves beyond the budget, which is larger by what is missing until as much was given back. Nothing for what no pool can hold.
    #[cold]
    pub(crate) fn overdraw(&mut self, len: usize) -> Option<u32> {
        let more = Self::cost_of(len)?.saturating_sub(self.free_len());
        self.len_max += more;
        self.overdrawn_len += more;
        self.try_reserve(len)
    }

    /// Whether there is more in it than its budget allows.
    #[inline]
    pub(crate) fn is_overdrawn(&self) -> bool {
        self.overdrawn_len > 0
    }

    /// What was given back makes up for what was lent beyond the budget.
    #[cold]
    fn make_up(&mut self) {
        let back = self.overdrawn_len.min(self.free_len());
        self.len_max -= back;
        self.overdrawn_len -= back;
    }

    /// The bytes of a piece.
    #[inline]
    pub(crate) fn bytes(&self, slot: u32) -> &[u8] {
        let Slot { len, chunk, item } = self.slots[slot as usize];
        if chunk == NONE {
            return &[];
        }
        let chunk = &self.chunks[chunk as usize];
        let start = item as usize * item_len(chunk.class);
        &chunk.bytes[start..start + len as usize]
    }

    /// The bytes of a piece, to be written.
    #[inline]
    pub(crate) fn bytes_mut(&mut self, slot: u32) -> &mut [u8] {
        let Slot { len, chunk, item } = self.slots[slot as usize];
        if chunk == NONE {
            return &mut [];
        }
        let chunk = &mut self.chunks[chunk as usize];
        let start = item as usize * item_len(chunk.class);
        &mut chunk.bytes[start..start + len as usize]
    }

    /// Gives a piece back; its slot will name another one.
    #[inline]
    pub(crate) fn release(&mut self, slot: u32) {
        let Slot { chunk, item, .. } = self.slots[slot as usize];
        assert!(chunk != FREE, "slot {slot} released twice");
        if chunk != NONE {
            self.used_len -= item_len(self.chunks[chunk as usize].class) as u64;
            self.give_item(chunk, item);
        }
        self.slots[slot as usize] = Slot { len: 0, chunk: FREE, item: self.free_slot };
        self.free_slot = slot;
        if self.overdrawn_len > 0 {
            self.make_up();
        }
    }

    /// Makes a piece as long as this, whatever bytes it has then; false if that would exceed the budget.
    pub(crate) fn try_resize(&mut self, slot: u32, len: usize) -> bool {
        let Slot { len: old_len, chunk, .. } = self.slots[slot as usize];
        if chunk < FREE && len <= item_len(self.chunks[chunk as usize].class) {
            self.slots[slot as usize].len = len as u32;
            return true;
        }
        // A slot given back is the next to be taken.
        self.release(slot);
        let longer = self.try_reserve(len);
        let is_done = longer.is_some();
        let got = longer.or_else(|| self.try_reserve(old_len as usize));
        assert_eq!(got, Some(slot), "what was given back can be had again");
        is_done
    }

    /// Makes a piece shorter. It costs what it did.
    pub(crate) fn truncate(&mut self, slot: u32, len: usize) {
        let slot = &mut self.slots[slot as usize];
        debug_assert!(slot.chunk != FREE && len <= slot.len as usize, "a piece does not grow");
        slot.len = len as u32;
    }

    /// The cost of all pieces.
    pub(crate) fn used_len(&self) -> u64 {
        self.used_len
    }

    /// The budget.
    pub(crate) fn len_max(&self) -> u64 {
        self.len_max
    }

    /// What is left of the budget.
    pub(crate) fn free_len(&self) -> u64 {
        self.len_max - self.used_len
    }

    /// The most that was ever used at once.
    pub(crate) fn peak_len(&self) -> u64 {
        self.peak_len
    }

    /// Bytes of memory taken from the allocator: at most `len_max` and `SLACK_LEN`.
    #[cfg(test)]
    pub(crate) fn allocated_len(&self) -> u64 {
        self.allocated_len
    }

    #[inline]
    fn take_slot(&mut self) -> u32 {
        if self.free_slot == NONE {
            let slot = self.slots.len() as u32;
            assert!(slot < FREE_BIT, "two thousand million slots");
            self.slots.push(Slot { len: 0, chunk: FREE, item: NONE });
            return slot;
        }
        let slot = self.free_slot;
        self.free_slot = self.slots[slot as usize].item;
        slot
    }

    /// Takes a free item of a class that has one.
    #[inline]
    fn take_item(&mut self, class: usize, slot: u32) -> (u32, u32) {
        let index = self.classes[class].open_chunk;
        let chunk = &mut self.chunks[index as usize];
        let item = chunk.free_item;
        let next = mem::replace(&mut chunk.items[item as usize], slot);
        chunk.free_item = if next == NONE { NONE } else { next & !FREE_BIT };
        chunk.used_count += 1;
        let full = next == NONE;
        self.classes[class].free_count -= 1;
        if full {
            self.unlink(index);
        }
        (index, item)
    }

    #[inline]
    fn give_item(&mut self, index: u32, item: u32) {
        let chunk = &mut self.chunks[index as usize];
        let was_full = chunk.free_item == NONE;
        chunk.items[item as usize] = chunk.free_item | FREE_BIT; // NONE keeps all its ones
        chunk.free_item = item;
        chunk.used_count -= 1;
        let class = chunk.class;
        self.classes[class].free_count += 1;
        if was_full {
            self.link(index);
        }
    }

    /// Puts a chunk in front of those of its class that have a free item.
    fn link(&mut self, index: u32) {
        let class = self.chunks[index as usize].class;
        let next = mem::replace(&mut self.classes[class].open_chunk, index);
        let chunk = &mut self.chunks[index as usize];
        (chunk.prev, chunk.next) = (NONE, next);
        if next != NONE {
            self.chunks[next as usize].prev = index;
        }
    }

    fn unlink(&mut self, index: u32) {
        let Chunk { prev, next, class, .. } = self.chunks[index as usize];
        match prev {
            NONE => self.classes[class].open_chunk = next,
            prev => self.chunks[prev as usize].next = next,
        }
        if next != NONE {
            self.chunks[next as usize].prev = prev;
        }
    }

    /// Gives a class one more chunk: the one slow path.
    #[cold]
    #[inline(never)]
    fn grow(&mut self, class: usize) {
        let len = chunk_len(class);
        let mut bytes = None;
        while self.allocated_len + len as u64 > self.len_max.saturating_add(SLACK_LEN) {
            let freed = self.squeeze();
            self.allocated_len -= freed.len() as u64;
            bytes = Some(freed).filter(|freed| freed.len() == len);
        }
        let bytes = bytes.unwrap_or_else(|| vec![0; len].into_boxed_slice());
        self.allocated_len += len as u64;
        let count = items_per_chunk(class);
        let items = (1..=count as u32)
            .map(|next| if next == count as u32 { NONE } else { next | FREE_BIT })
            .collect();
        let chunk =
            Chunk { bytes, items, free_item: 0, used_count: 0, class, prev: NONE, next: NONE };
        let index = match self.hollow_chunks.pop() {
            Some(index) => {
                self.chunks[index as usize] = chunk;
                index
            }
            None => {
                self.chunks.push(chunk);
                self.chunks.len() as u32 - 1
            }
        };
        self.classes[class].free_count += count;
        self.link(index);
    }

    /// Takes a chunk from a class that can do without. What it holds moves to other chunks of its class.
    fn squeeze(&mut self) -> Box<[u8]> {
        let class = (0..CLASS_COUNT)
            .find(|&class| self.classes[class].free_count >= items_per_chunk(class))
            .expect("some class has a chunk's worth of free items: see the top of this file");
        let index = self.least_used(class);
        self.unlink(index);
        let chunk = &mut self.chunks[index as usize];
        let (bytes, items) = (mem::take(&mut chunk.bytes), mem::take(&mut chunk.items));
        self.classes[class].free_count -= items.len() - chunk.used_count as usize;
        for (piece, &slot) in bytes.chunks_exact(item_len(class)).zip(&items) {
            if slot & FREE_BIT != 0 {
                continue;
            }
            let (to, item) = self.take_item(class, slot);
            let start = item as usize * item_len(class);
            self.chunks[to as usize].bytes[start..start + piece.len()].copy_from_slice(piece);
            (self.slots[slot as usize].chunk, self.slots[slot as usize].item) = (to, item);
        }
        self.hollow_chunks.push(index);
        bytes
    }

    /// The chunk of a class that a squeeze moves least from.
    fn least_used(&self, class: usize) -> u32 {
        let mut best = self.classes[class].open_chunk;
        let mut index = best;
        while index != NONE && self.chunks[best as usize].used_count > 0 {
            let chunk = &self.chunks[index as usize];
            if chunk.used_count < self.chunks[best as usize].used_count {
                best = index;
            }
            index = chunk.next;
        }
        best
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use proptest::prelude::*;

    const MIB: usize = 1 << 20;

    /// Reserves and writes something nobody else writes.
    fn reserve(pool: &mut BytePool, len: usize, seed: u32) -> Option<u32> {
        let slot = pool.try_reserve(len)?;
        pool.bytes_mut(slot).copy_from_slice(&pattern(len, seed));
        Some(slot)
    }

    fn pattern(len: usize, seed: u32) -> Vec<u8> {
        let word = seed.wrapping_mul(0x9E37_79B1).to_le_bytes();
        (0..len).map(|at| word[at % 4] ^ (at >> 8) as u8).collect()
    }

    #[test]
    fn a_piece_becomes_longer_under_its_name_or_stays_as_it_is() {
        let mut pool = BytePool::new(1024);
        let (piece, other) = (pool.try_reserve(100).unwrap(), reserve(&mut pool, 200, 1).unwrap());
        assert!(pool.try_resize(piece, 128), "its class has room");
        assert_eq!((pool.bytes(piece).len(), pool.used_len()), (128, 128 + 256));
        assert!(pool.try_resize(piece, 60), "it stays where it is, though less would do");
        assert_eq!((pool.bytes(piece).len(), pool.used_len()), (60, 128 + 256));
        assert!(pool.try_resize(piece, 129));
        assert_eq!((pool.bytes(piece).len(), pool.used_len()), (129, 256 + 256));
        assert!(!pool.try_resize(piece, 600), "beyond the budget");
        assert_eq!((pool.bytes(piece).len(), pool.used_len()), (129, 256 + 256));
        assert_eq!(pool.bytes(other), pattern(200, 1), "nobody else noticed");
    }

    #[test]
    fn a_squeeze_takes_the_chunk_with_least_in_it() {
        let (len, class) = (4 << 10, class_of(4 << 10).unwrap());
        let per_chunk = items_per_chunk(class);
        for taken_counts in [[3, 1, 2], [1, 3, 2], [1, 2, 3], [per_chunk, 1, 2]] {
            let mut pool = BytePool::new(1 << 20);
            let slots: Vec<u32> =
                (0..3 * per_chunk).map(|_| pool.try_reserve(len).unwrap()).collect();
            let mut chunks = [0; 3];
            for (index, (slots, count)) in slots.chunks(per_chunk).zip(taken_counts).enumerate() {
                chunks[index] = pool.slots[slots[0] as usize].chunk;
                slots[..count].iter().for_each(|&slot| pool.release(slot));
            }
            let emptiest = (0..3).max_by_key(|&index| taken_counts[index]).unwrap();
            assert_eq!(pool.least_used(class), chunks[emptiest], "{taken_counts:?}");
        }
    }

    #[test]
    fn classes_are_powers_of_two() {
        for (len, cost) in [(0, 0), (1, 64), (64, 64), (65, 128), (MIB - 1, MIB), (MIB, MIB)] {
            assert_eq!(BytePool::cost_of(len), Some(cost as u64), "length {len}");
        }
        assert_eq!(BytePool::cost_of(MIB + 1), None);
        assert_eq!(BytePool::cost_of(usize::MAX), None);
        assert_eq!(BytePool::new(u64::MAX).try_reserve(MIB + 1), None);
    }

    #[test]
    fn the_budget_is_exact() {
        let mut pool = BytePool::new(256);
        let first = pool.try_reserve(100).unwrap();
        let second = pool.try_reserve(128).unwrap();
        assert_eq!((pool.used_len(), pool.free_len(), pool.try_reserve(1)), (256, 0, None));
        assert_eq!((pool.bytes(first).len(), pool.bytes(second).len()), (100, 128));
        pool.release(first);
        assert!(pool.try_reserve(129).is_none());
        assert!(pool.try_reserve(128).is_some());
        assert_eq!((pool.peak_len(), pool.len_max()), (256, 256));
    }

    #[test]
    fn what_is_lent_beyond_the_budget_is_made_up_for_by_what_comes_back() {
        let mut pool = BytePool::new(256);
        let all = pool.try_reserve(200).unwrap();
        let beyond = pool.overdraw(100).unwrap();
        assert_eq!((pool.used_len(), pool.len_max(), pool.is_overdrawn()), (384, 384, true));
        assert_eq!(pool.try_reserve(1), None, "that makes no room for others");
        pool.release(all);
        assert_eq!((pool.used_len(), pool.len_max(), pool.is_overdrawn()), (128, 256, false));
        pool.release(beyond);
        assert_eq!((pool.free_len(), pool.overdraw(MIB + 1)), (256, None));
        assert!(pool.overdraw(64).is_some() && !pool.is_overdrawn(), "there is room for it");
    }

    #[test]
    fn empty_pieces_have_slots_but_no_memory() {
        let mut pool = BytePool::new(0);
        let (one, two) = (pool.try_reserve(0).unwrap(), pool.try_reserve(0).unwrap());
        assert_ne!(one, two);
        assert!(pool.bytes(one).is_empty() && pool.bytes_mut(two).is_empty());
        pool.release(one);
        assert_eq!((pool.try_reserve(0), pool.allocated_len()), (Some(one), 0));
    }

    #[test]
    #[should_panic(expected = "released twice")]
    fn a_second_release_is_caught() {
        let mut pool = BytePool::new(1000);
        let slot = pool.try_reserve(10).unwrap();
        pool.release(slot);
        pool.release(slot);
    }

    #[test]
    fn steady_traffic_allocates_nothing() {
        let mut pool = BytePool::new(8 * MIB as u64);
        let mut held = alloc::collections::VecDeque::new();
        let mut warm = (0, 0);
        for turn in 0..20_000 {
            held.push_back(pool.try_reserve(1 << (turn * 7 % 16)).unwrap());
            if held.len() > 100 {
                pool.release(held.pop_front().unwrap());
            }
            if turn == 1000 {
                warm = (pool.allocated_len(), pool.slots.capacity());
            }
        }
        assert_eq!((pool.allocated_len(), pool.slots.capacity()), warm);
    }

    #[test]
    fn free_memory_in_the_wrong_place_refuses_nobody() {
        let len_max = 16 * MIB;
        let mut pool = BytePool::new(len_max as u64);
        let count = (len_max / 64) as u32;
        let slots: Vec<_> = (0..count).map(|seed| reserve(&mut pool, 64, seed).unwrap()).collect();
        assert_eq!(pool.free_len(), 0);
        // One piece of each chunk stays: no chunk is free, but nearly all of the budget.
        let per_chunk = items_per_chunk(0) as u32;
        for seed in (0..count).filter(|seed| seed % per_chunk != 0) {
            pool.release(slots[seed as usize]);
        }
        let mut large = Vec::new();
        while let Some(slot) = reserve(&mut pool, MIB, large.len() as u32) {
            large.push(slot);
        }
        assert_eq!(large.len(), 15, "all that the budget admits");
        assert!(pool.allocated_len() <= len_max as u64 + SLACK_LEN);
        for seed in (0..count).step_by(per_chunk as usize) {
            assert_eq!(pool.bytes(slots[seed as usize]), pattern(64, seed));
        }
        for (seed, &slot) in large.iter().enumerate() {
            assert_eq!(pool.bytes(slot), pattern(MIB, seed as u32));
        }
    }

    /// Reserve many of one length, or release those of the held that a hash of the salt picks.
    #[derive(Clone, Debug)]
    enum Op {
        Reserve { len: usize, count: u32 },
        Release { salt: u32, one_in: u32 },
    }

    fn op() -> impl Strategy<Value = Op> {
        let len = (0..=21_u32, any::<usize>()).prop_map(|(bits, any)| any & ((1 << bits) - 1));
        prop_oneof![
            2 => (len, 1..300_u32).prop_map(|(len, count)| Op::Reserve { len, count }),
            1 => (any::<u32>(), 1..5_u32).prop_map(|(salt, one_in)| Op::Release { salt, one_in }),
        ]
    }

    /// The first bytes and the last tell pieces apart; whole megabytes would be slow.
    fn ends(bytes: &[u8]) -> (&[u8], &[u8]) {
        (&bytes[..bytes.len().min(8)], &bytes[bytes.len().saturating_sub(8)..])
    }

    fn mark(bytes: &mut [u8], seed: u32) {
        let marks = pattern(bytes.len().min(8), seed);
        let at = bytes.len() - marks.len();
        bytes[at..].copy_from_slice(&marks);
        bytes[..marks.len()].copy_from_slice(&marks);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn pool_agrees_with_a_map(
            len_max in 0..6 * MIB as u64,
            ops in prop::collection::vec(op(), 1..40),
        ) {
            let mut pool = BytePool::new(len_max);
            let mut held = BTreeMap::<u32, (usize, u32)>::new();
            let (mut used, mut peak, mut seed) = (0, 0, 0);
            for op in ops {
                match op {
                    Op::Reserve { len, count } => for _ in 0..count {
                        let cost = BytePool::cost_of(len).filter(|cost| used + cost <= len_max);
                        let slot = pool.try_reserve(len);
                        prop_assert_eq!(slot.is_some(), cost.is_some());
                        let (Some(slot), Some(cost)) = (slot, cost) else { break };
                        seed += 1;
                        mark(pool.bytes_mut(slot), seed);
                        prop_assert!(held.insert(slot, (len, seed)).is_none());
                        used += cost;
                        peak = peak.max(used);
                    },
                    Op::Release { salt, one_in } => held.retain(|&slot, &mut (len, seed)| {
                        let keep = (seed ^ salt).wrapping_mul(0x9E37_79B1) >> 16 >= 65536 / one_in;
                        if !keep {
                            pool.release(slot);
                            used -= BytePool::cost_of(len).unwrap();
                        }
                        keep
                    }),
                }
                prop_assert_eq!((pool.used_len(), pool.peak_len()), (used, peak));
                prop_assert!(pool.allocated_len() <= len_max + SLACK_LEN);
                for (&slot, &(len, seed)) in &held {
                    let mut expected = pool.bytes(slot).to_vec();
                    prop_assert_eq!(expected.len(), len);
                    mark(&mut expected, seed);
                    prop_assert_eq!(ends(pool.bytes(slot)), ends(&expected));
                }
            }
        }
    }
}
