//! Words that show others whether memory is lent still.
//!
//! Whoever is told where memory is reads it when he comes to it, and by then it may have been given back: its request was cancelled, or its
//! endpoint closed. So he reads a word as well, in the same call and behind the bytes. As long as the memory is lent the word is its name; before
//! it is given back the word is void. If he finds the name, all that he read before it was read in time.
//!
//! Names in words are masked by a number that each table draws, so that nobody finds one by chance in another process: the word shows as well that it was
//! the right process that was read (PROTOCOL §14.7).

use std::sync::atomic::{AtomicU64, Ordering};

use super::MemoryId;
use crate::sys::shm::random;

/// Words in a page of them. Pages stay where they are, so a word has one address for good.
const PAGE_COUNT: usize = 256;
/// Not lent, or nobody was told. Nothing that is masked has the highest bit.
const VOID: u64 = u64::MAX;
const MASKED: u64 = VOID >> 1;

/// The words of a table, by slot; made when somebody is told of a slot.
#[derive(Debug, Default)]
pub(super) struct Notes {
    pages: Vec<Box<[AtomicU64]>>,
    /// Drawn when somebody is told for the first time.
    mask: Option<u64>,
    /// How many are not void.
    told_count: usize,
}

impl Notes {
    /// Somebody is told of this memory: the address of its word, and what that is from now on. `None`: the system draws no numbers.
    pub(super) fn tell(&mut self, id: MemoryId) -> Option<(usize, u64)> {
        let mask = match self.mask {
            Some(mask) => mask,
            None => *self.mask.insert(u64::from_ne_bytes(random().ok()?)),
        };
        let name = (id.0 ^ mask) & MASKED;
        let (page, at) = (id.index() / PAGE_COUNT, id.index() % PAGE_COUNT);
        while self.pages.len() <= page {
            self.pages.push((0..PAGE_COUNT).map(|_| AtomicU64::new(VOID)).collect());
        }
        let word = &self.pages[page][at];
        if word.swap(name, Ordering::Relaxed) == VOID {
            self.told_count += 1;
        }
        Some((std::ptr::from_ref(word).expose_provenance(), name))
    }

    /// This memory is about to be given back.
    #[inline]
    pub(super) fn withdraw(&mut self, id: MemoryId) {
        if self.told_count > 0 {
            self.void(id);
        }
    }

    #[inline(never)]
    fn void(&mut self, id: MemoryId) {
        let page = self.pages.get(id.index() / PAGE_COUNT);
        // A full barrier: what its owner writes to the memory from now on comes behind it.
        if page
            .is_some_and(|page| page[id.index() % PAGE_COUNT].swap(VOID, Ordering::SeqCst) != VOID)
        {
            self.told_count -= 1;
        }
    }
}

/// The table ends, and with it all that is lent.
impl Drop for Notes {
    fn drop(&mut self) {
        self.pages.iter().flat_map(|page| page.iter()).for_each(|word| {
            word.store(VOID, Ordering::SeqCst);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::Table;
    use super::*;

    #[test]
    fn a_word_is_the_name_of_its_memory_until_that_is_given_back() {
        let mut table = Table::default();
        let ids = [0; 600].map(|_| table.insert(vec![0; 8].into()));
        let words = ids.map(|id| table.note_told(id).unwrap());
        let read = |table: &Table, slot: usize| {
            table.notes.pages[slot / PAGE_COUNT][slot % PAGE_COUNT].load(Ordering::Relaxed)
        };
        let mut other = Table::default();
        let elsewhere = other.insert(vec![0; 8].into());
        assert_ne!(other.note_told(elsewhere).unwrap().1, words[0].1, "another table's");
        assert!((0..600).all(|slot| words[slot].1 != VOID));
        assert!((0..600).all(|slot| read(&table, slot) == words[slot].1));
        table.remove(ids[300]);
        assert_ne!(read(&table, 300), words[300].1, "given back");
        assert_eq!(read(&table, 301), words[301].1, "its neighbour is lent still");
        assert_eq!(table.note_told(ids[300]), None);
        let new = table.insert(vec![0; 8].into());
        assert_ne!(read(&table, 300), words[300].1, "the slot is used again");
        assert_eq!(table.note_told(new).unwrap().0, words[300].0, "its word stays where it is");
        assert_ne!(read(&table, 300), words[300].1, "and is another name");
        assert_eq!(table.notes.told_count, 600);
        ids.iter().for_each(|&id| drop(table.remove(id)));
        table.remove(new);
        assert_eq!(table.notes.told_count, 0);
    }
}
