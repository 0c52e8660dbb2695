//! Slots that are used again: tables without allocation in steady state.
//!
//! A slot keeps a serial that moves when it is emptied, so that a name handed out (`key`) or kept in a packet
//! (`Content`) can tell the thing that was meant from the one that lives there now.

use alloc::vec::Vec;
use core::ops::{Index, IndexMut};

/// No slot.
pub(crate) const NONE: u32 = u32::MAX;

/// Serials have 30 bits: the two highest bits of a key are free for whoever hands keys out, to tell sends and one-sided operations
/// from receives (`outgoing::SEND_BIT`, `operate::OPERATION_BIT`).
const SERIAL_MASK: u32 = u32::MAX >> 2;

#[derive(Debug)]
struct Slot<T> {
    serial: u32,
    next_free: u32,
    item: Option<T>,
}

/// A table of slots.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    slots: Vec<Slot<T>>,
    free: u32,
    count: u32,
    /// Slots that were looked at to find some, so that a test can tell who searches among all.
    #[cfg(test)]
    searched: core::cell::Cell<usize>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self {
            slots: Vec::new(),
            free: NONE,
            count: 0,
            #[cfg(test)]
            searched: core::cell::Cell::default(),
        }
    }
}

impl<T> Slab<T> {
    #[inline(always)] // so that the item is made where it will lie
    pub(crate) fn insert(&mut self, item: T) -> u32 {
        self.insert_keyed(item).0
    }

    /// Puts an item into a slot: the slot, and the item's key.
    #[inline(always)]
    pub(crate) fn insert_keyed(&mut self, item: T) -> (u32, u64) {
        let at = self.next_slot();
        (at, self.put(at, item))
    }

    /// Puts an item where `next_slot` said just now; its key.
    #[inline(always)]
    pub(crate) fn put(&mut self, at: u32, item: T) -> u64 {
        debug_assert!(at == self.free, "the next slot");
        let slot = &mut self.slots[at as usize];
        self.free = slot.next_free;
        slot.item = Some(item);
        self.count += 1;
        u64::from(slot.serial) << 32 | u64::from(at)
    }

    /// Where the next item will be put.
    #[inline(always)]
    pub(crate) fn next_slot(&mut self) -> u32 {
        if self.free == NONE {
            self.grow();
        }
        self.free
    }

    /// A key for an item that is over before it is put in: no other item will have it.
    #[inline]
    pub(crate) fn pass_key(&mut self) -> u64 {
        let at = self.next_slot();
        let slot = &mut self.slots[at as usize];
        let key = u64::from(slot.serial) << 32 | u64::from(at);
        slot.serial = slot.serial.wrapping_add(1) & SERIAL_MASK;
        key
    }

    /// Makes a free slot. Apart from the item, which therefore need not be in memory before its slot is known.
    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        assert!(self.slots.len() < NONE as usize, "slots are numbered in 32 bits");
        self.free = self.slots.len() as u32;
        self.slots.push(Slot { serial: 0, next_free: NONE, item: None });
    }

    /// Empties a slot that is in use.
    #[inline(always)] // so that a caller who wants a few fields does not get the whole item copied
    pub(crate) fn remove(&mut self, at: u32) -> T {
        self.remove_keyed(at).1
    }

    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.count
    }

    /// The serial of a slot, for `holds`.
    #[inline(always)]
    pub(crate) fn serial(&self, at: u32) -> u32 {
        self.slots[at as usize].serial
    }

    /// Takes out what the slot held when `serial` was read, if it still does and it is like that.
    #[inline(always)]
    pub(crate) fn remove_if(
        &mut self,
        at: u32,
        serial: u32,
        is_like: impl FnOnce(&T) -> bool,
    ) -> Option<T> {
        let slot = self.slots.get_mut(at as usize).filter(|slot| slot.serial == serial)?;
        if !slot.item.as_ref().is_some_and(is_like) {
            return None;
        }
        slot.serial = slot.serial.wrapping_add(1) & SERIAL_MASK;
        slot.next_free = self.free;
        self.free = at;
        self.count -= 1;
        slot.item.take()
    }

    /// An item and its key, taken out of a slot that is in use.
    #[inline(always)]
    pub(crate) fn remove_keyed(&mut self, at: u32) -> (u64, T) {
        let slot = &mut self.slots[at as usize];
        let item = slot.item.take().expect("slot in use");
        let key = u64::from(slot.serial) << 32 | u64::from(at);
        slot.serial = slot.serial.wrapping_add(1) & SERIAL_MASK;
        slot.next_free = self.free;
        self.free = at;
        self.count -= 1;
        (key, item)
    }

    /// Whether the slot still holds what it held when `serial` was read.
    #[inline]
    pub(crate) fn holds(&self, at: u32, serial: u32) -> bool {
        self.slots.get(at as usize).is_some_and(|slot| slot.serial == serial && slot.item.is_some())
    }

    /// A name for the item that outlives it.
    #[inline(always)]
    pub(crate) fn key(&self, at: u32) -> u64 {
        u64::from(self.serial(at)) << 32 | u64::from(at)
    }

    /// The slot a key names, if its item is still there.
    #[inline]
    pub(crate) fn lookup(&self, key: u64) -> Option<u32> {
        let at = key as u32;
        self.holds(at, (key >> 32) as u32).then_some(at)
    }

    /// An item with the serial of its slot.
    #[inline(always)]
    pub(crate) fn get_with_serial(&mut self, at: u32) -> (u32, &mut T) {
        let slot = &mut self.slots[at as usize];
        (slot.serial, slot.item.as_mut().expect("slot in use"))
    }

    /// The item of a slot in use.
    #[inline]
    pub(crate) fn get(&self, at: u32) -> Option<&T> {
        self.slots.get(at as usize)?.item.as_ref()
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, at: u32) -> Option<&mut T> {
        self.slots.get_mut(at as usize)?.item.as_mut()
    }

    /// All items.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.slots.iter_mut().filter_map(|slot| slot.item.as_mut())
    }

    /// Slots in use.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        #[cfg(test)]
        self.searched.update(|count| count + self.slots.len());
        self.slots
            .iter()
            .enumerate()
            .filter_map(|(at, slot)| Some((at as u32, slot.item.as_ref()?)))
    }

    #[cfg(test)]
    pub(crate) fn searched_count(&self) -> usize {
        self.searched.get()
    }
}

impl<T> Index<u32> for Slab<T> {
    type Output = T;
    #[inline(always)]
    fn index(&self, at: u32) -> &T {
        self.slots[at as usize].item.as_ref().expect("slot in use")
    }
}

impl<T> IndexMut<u32> for Slab<T> {
    #[inline(always)]
    fn index_mut(&mut self, at: u32) -> &mut T {
        self.slots[at as usize].item.as_mut().expect("slot in use")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_does_not_name_the_next_tenant() {
        let mut slab = Slab::default();
        let first = slab.insert('a');
        let key = slab.key(first);
        assert_eq!(slab.lookup(key), Some(first));
        assert_eq!(slab.remove(first), 'a');
        assert_eq!(slab.lookup(key), None);
        let second = slab.insert('b');
        assert_eq!(second, first, "slots are used again");
        assert_eq!(slab.lookup(key), None);
        assert_eq!(slab[second], 'b');
        assert_eq!((slab.len(), slab.iter().count()), (1, 1));
        assert_eq!(slab.lookup(u64::from(NONE)), None);
    }
}
