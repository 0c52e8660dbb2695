//! A queue of small values: what is in flight on a path, events for the application.

use alloc::vec;
use alloc::vec::Vec;

/// A queue in which everything keeps its position, counted over the queue's life and wrapping. `VecDeque` counts from
/// its front, which moves; and here dropping any number of values at the front is one assignment to `start`.
#[derive(Clone, Debug)]
pub(crate) struct Ring<T> {
    /// A power of two of them, or none yet. Doubled when full, never shrunk: a peer at rest has no flight at all.
    pub(crate) slots: Vec<T>,
    pub(crate) start: u32,
    pub(crate) end: u32,
}

impl<T: Copy> Ring<T> {
    pub(crate) fn new() -> Self {
        Self { slots: Vec::new(), start: 0, end: 0 }
    }

    /// The slot behind the end, where the next value is put before `end` moves over it. `filler` is for slots that never
    /// had one.
    #[inline(always)]
    pub(crate) fn behind_end(&mut self, filler: &T) -> &mut T {
        if self.len() == self.slots.len() {
            self.grow(*filler);
        }
        self.get_mut(self.end)
    }

    /// Given the filler and not a place where it is, so that a value to be pushed need not be in one.
    #[cold]
    #[inline(never)]
    fn grow(&mut self, filler: T) {
        let mut slots = vec![filler; (2 * self.slots.len()).max(8)];
        let mask = slots.len() - 1;
        let mut at = self.start;
        while at != self.end {
            slots[at as usize & mask] = *self.get(at);
            at = at.wrapping_add(1);
        }
        self.slots = slots;
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.end.wrapping_sub(self.start) as usize
    }

    #[inline]
    pub(crate) fn front(&self) -> Option<&T> {
        (self.start != self.end).then(|| self.get(self.start))
    }

    #[inline]
    pub(crate) fn back(&self) -> Option<&T> {
        (self.start != self.end).then(|| self.get(self.end.wrapping_sub(1)))
    }

    /// What stands at a position from `start` to before `end`.
    #[inline]
    pub(crate) fn get(&self, at: u32) -> &T {
        &self.slots[at as usize & (self.slots.len() - 1)]
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, at: u32) -> &mut T {
        let mask = self.slots.len() - 1;
        &mut self.slots[at as usize & mask]
    }

    /// Puts a value at the end. It is made where it will stand, which `VecDeque::push_back` does not achieve.
    #[inline(always)]
    pub(crate) fn push_back(&mut self, value: T) {
        *self.behind_end(&value) = value;
        self.end = self.end.wrapping_add(1);
    }

    /// Puts a value at a position; those from there on move one further. For rare events.
    pub(crate) fn insert(&mut self, at: u32, value: T) {
        self.push_back(value);
        let mut to = self.end.wrapping_sub(1);
        while to != at {
            *self.get_mut(to) = *self.get(to.wrapping_sub(1));
            to = to.wrapping_sub(1);
        }
        *self.get_mut(at) = value;
    }

    #[inline]
    pub(crate) fn pop_front(&mut self) -> Option<T> {
        let front = *self.front()?;
        self.start = self.start.wrapping_add(1);
        Some(front)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_out_in_order_while_it_grows() {
        let mut ring = Ring::new();
        let mut next = 0;
        for value in 0..100u32 {
            ring.push_back(value);
            if value % 3 == 0 {
                assert_eq!(ring.pop_front(), Some(next));
                next += 1;
            }
        }
        while let Some(value) = ring.pop_front() {
            assert_eq!(value, next);
            next += 1;
        }
        assert_eq!((next, ring.front()), (100, None));
    }
}
