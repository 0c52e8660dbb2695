//! Objects by number, for interfaces whose handles are numbers.
//!
//! A key names a slot and how often that slot was used, so that a key that is stale, or made up, is nobody's. How both are packed into a handle, and
//! what else a handle says, is the face's own.

/// Names an object of a [`Slots`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// Which slot, from 0.
    pub index: u32,
    /// How often the slot was used before, in as many bits as the handle has for it.
    pub uses: u32,
}

#[derive(Clone, Debug)]
struct Slot<T> {
    uses: u32,
    value: Option<T>,
}

/// Objects, each under a key that is void once the object was taken out.
#[derive(Clone, Debug)]
pub struct Slots<T> {
    slots: Vec<Slot<T>>,
    vacant: Vec<u32>,
    first_use: u32,
    use_mask: u32,
}

impl<T> Slots<T> {
    /// None yet. A key has `use_bits` bits (at most 32) for how often its slot was used, and these begin at `first_use`: tables that follow one another
    /// at one place begin elsewhere each, so that keys of the one before are not valid for long.
    pub const fn new(use_bits: u32, first_use: u32) -> Self {
        assert!(use_bits <= 32);
        let use_mask = ((1_u64 << use_bits) - 1) as u32;
        Self { slots: Vec::new(), vacant: Vec::new(), first_use: first_use & use_mask, use_mask }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.slots.len() - self.vacant.len()
    }

    /// Puts an object in. The slot that was left last is used first: on all processes that do the same, keys are the same.
    pub fn insert(&mut self, value: T) -> Key {
        let index = self.vacant.pop().unwrap_or_else(|| {
            self.slots.push(Slot { uses: self.first_use, value: None });
            self.slots.len() as u32 - 1
        });
        let slot = &mut self.slots[index as usize];
        slot.value = Some(value);
        Key { index, uses: slot.uses }
    }

    /// The object with this key.
    #[inline]
    pub fn get(&self, key: Key) -> Option<&T> {
        self.slots.get(key.index as usize).filter(|slot| slot.uses == key.uses)?.value.as_ref()
    }

    /// See [`Self::get`].
    #[inline]
    pub fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        self.slots.get_mut(key.index as usize).filter(|slot| slot.uses == key.uses)?.value.as_mut()
    }

    /// The object in a slot, whatever its key.
    #[inline]
    pub fn at(&self, index: u32) -> Option<&T> {
        self.slots.get(index as usize)?.value.as_ref()
    }

    /// See [`Self::at`].
    #[inline]
    pub fn at_mut(&mut self, index: u32) -> Option<&mut T> {
        self.slots.get_mut(index as usize)?.value.as_mut()
    }

    /// The key of the object in a slot.
    #[inline]
    pub fn key_at(&self, index: u32) -> Option<Key> {
        let slot = self.slots.get(index as usize)?;
        slot.value.is_some().then_some(Key { index, uses: slot.uses })
    }

    /// Takes an object out; its key is void.
    pub fn remove(&mut self, key: Key) -> Option<T> {
        let slot = self.slots.get_mut(key.index as usize).filter(|slot| slot.uses == key.uses)?;
        let value = slot.value.take()?;
        slot.uses = slot.uses.wrapping_add(1) & self.use_mask;
        self.vacant.push(key.index);
        Some(value)
    }

    /// All objects with their keys, by slot.
    pub fn iter(&self) -> impl Iterator<Item = (Key, &T)> {
        self.slots.iter().zip(0..).filter_map(|(slot, index)| {
            slot.value.as_ref().map(|value| (Key { index, uses: slot.uses }, value))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_void_once_its_object_was_taken_out_and_a_made_up_one_is_nobodys() {
        let mut slots = Slots::new(8, 7);
        let (first, second) = (slots.insert("one"), slots.insert("two"));
        assert_eq!((slots.get(first), slots.get(second)), (Some(&"one"), Some(&"two")));
        assert_eq!(slots.remove(first), Some("one"));
        assert_eq!((slots.remove(first), slots.get(first), slots.count()), (None, None, 1));
        let third = slots.insert("three");
        assert_eq!((third.index, slots.get(first)), (first.index, None), "its slot, not its key");
        assert_eq!(slots.get_mut(Key { index: 9, uses: 7 }), None);
        assert_eq!(slots.get(Key { index: second.index, uses: second.uses + 1 }), None);
        assert_eq!(slots.key_at(second.index), Some(second));
        assert_eq!(slots.iter().map(|(_, it)| *it).collect::<Vec<_>>(), ["three", "two"]);
    }

    #[test]
    fn uses_keep_to_their_bits() {
        let mut slots = Slots::new(2, 0x17);
        for expected in [3, 0, 1, 2, 3] {
            let key = slots.insert(());
            assert_eq!(key, Key { index: 0, uses: expected });
            assert_eq!(slots.remove(key), Some(()));
        }
    }
}
