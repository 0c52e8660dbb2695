//! Rows that may have something to send take turns (PROTOCOL §10.3), in a list through themselves.

use super::Rows;
use crate::base::slab::NONE;

/// Frames of one row after which others that wait have their turn (PROTOCOL §10.3).
const TURN_FRAME_COUNT: u32 = 16;

impl Rows {
    /// The row may have something to send.
    #[inline]
    pub(crate) fn make_ready(&mut self, at: u32) {
        let this = &mut self[at];
        if this.is_ready {
            return;
        }
        this.is_ready = true;
        this.next_ready = NONE;
        match core::mem::replace(&mut self.last_ready, at) {
            NONE => self.first_ready = at,
            last => self[last].next_ready = at,
        }
    }

    /// The row whose turn it is to send, or NONE.
    #[inline]
    pub(crate) fn first_ready(&self) -> u32 {
        self.first_ready
    }

    /// Whether this row, whose turn it is, is alone.
    #[inline]
    pub(crate) fn is_last_ready(&self, at: u32) -> bool {
        self.last_ready == at
    }

    /// That row has nothing more to send.
    #[inline]
    pub(crate) fn leave_ready(&mut self) {
        let first = self.first_ready;
        let this = &mut self[first];
        this.is_ready = false;
        self.first_ready = this.next_ready;
        if self.first_ready == NONE {
            self.last_ready = NONE;
        }
    }

    /// That row has sent a frame and has more to send. After some frames others that wait go first; not after each, for a link may hand equal
    /// frames to one place to the system as one.
    #[inline]
    pub(crate) fn on_frame_of_turn(&mut self) {
        self.turn_frame_count += 1;
        if self.turn_frame_count >= TURN_FRAME_COUNT {
            self.step_back();
        }
    }

    /// That row has more to send, but others that wait go first.
    #[inline]
    pub(crate) fn step_back(&mut self) {
        self.turn_frame_count = 0;
        let first = self.first_ready;
        if first != self.last_ready {
            self.leave_ready();
            self.make_ready(first);
        }
    }

    /// Takes a row out of the middle of the list: for one that is forgotten.
    pub(super) fn forget_ready(&mut self, at: u32) {
        let mut waiting = core::mem::replace(&mut self.first_ready, NONE);
        self.last_ready = NONE;
        while waiting != NONE {
            let this = &mut self[waiting];
            this.is_ready = false;
            let next = this.next_ready;
            if waiting != at {
                self.make_ready(waiting);
            }
            waiting = next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::secret::Secret;
    use crate::base::types::{Identity, Locator};

    #[test]
    fn ready_rows_take_turns_and_a_forgotten_one_is_passed_over() {
        let mut rows = Rows::new(7);
        for host in 0..4 {
            rows.insert(Identity { host, endpoint: 1 }, Secret::PUBLIC, Locator::default());
        }
        for at in [2, 0, 2, 3, 1] {
            rows.make_ready(at);
        }
        rows.remove(0);
        rows.remove(1);
        rows.step_back();
        for turn in [3, 2, NONE] {
            assert_eq!(rows.first_ready(), turn);
            if turn != NONE {
                rows.leave_ready();
            }
        }
        rows.make_ready(3);
        rows.step_back();
        assert_eq!(rows.first_ready(), 3, "it is alone");
    }
}
