//! Our messages to one peer that are not over: their order, and what of them waits to leave.
//!
//! PROTOCOL §7, §10. The messages themselves stand in a table of the room above (`bulk/outgoing`), which is handed in where their neighbours change.
//!
//! ```text
//!   first                     unsent               last
//!     ▼                         ▼                    ▼
//!    [7]──[8]──[9]──[10]──…───[31]──[32]──…─────────[40]      what has ended leaves, mostly at the front
//!          ╰── lost, and to be sent again: in `resend`        what is posted comes to the end
//! ```

use alloc::collections::VecDeque;

use crate::base::slab::{NONE, Slab};

/// A message in a line: it knows its neighbours.
pub(crate) trait InLine {
    /// The message before it, which is not kept up for the first of all, and the one behind it; slots, or NONE.
    fn neighbours(&self) -> (u32, u32);
    /// Another message stands before it now.
    fn set_previous(&mut self, slot: u32);
    /// Another message stands behind it now.
    fn set_next(&mut self, slot: u32);
}

/// The messages to one peer, as slots of their table; in queues with serials, for what waits there may have ended.
#[derive(Debug)]
pub(crate) struct Line {
    /// In the order of their numbers: first, last, and the first never sent; or NONE.
    first: u32,
    last: u32,
    unsent: u32,
    /// Messages with lost content.
    resend: VecDeque<(u32, u32)>,
    /// Large messages with granted, unsent bytes, taking turns.
    granted: VecDeque<(u32, u32)>,
}

impl Default for Line {
    fn default() -> Self {
        let (resend, granted) = (VecDeque::new(), VecDeque::new());
        Self { first: NONE, last: NONE, unsent: NONE, resend, granted }
    }
}

/// The order of the messages.
impl Line {
    /// No message is under way.
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.first == NONE
    }

    /// The message with the lowest number, or NONE.
    #[inline(always)]
    pub(crate) fn first(&self) -> u32 {
        self.first
    }

    /// The message with the highest number, or NONE.
    pub(crate) fn last(&self) -> u32 {
        self.last
    }

    /// There is one message at most.
    #[inline(always)]
    pub(crate) fn has_one_at_most(&self) -> bool {
        self.first == self.last
    }

    /// A new message becomes the last; `is_waiting` to be sent, or sent already. Returns the one before it, or NONE.
    #[inline(always)]
    pub(crate) fn append<T: InLine>(
        &mut self,
        slot: u32,
        is_waiting: bool,
        table: &mut Slab<T>,
    ) -> u32 {
        let previous = core::mem::replace(&mut self.last, slot);
        if is_waiting && self.unsent == NONE {
            self.unsent = slot;
        }
        match previous {
            NONE => self.first = slot,
            previous => table[previous].set_next(slot),
        }
        previous
    }

    /// A message that has ended leaves; it was taken out of its table.
    #[inline(always)]
    pub(crate) fn unlink<T: InLine>(&mut self, slot: u32, ended: &T, table: &mut Slab<T>) {
        let (previous, next) = ended.neighbours();
        if self.unsent == slot {
            self.unsent = next;
        }
        if self.first == slot {
            self.first = next;
            if next == NONE {
                self.last = NONE;
            }
        } else {
            table[previous].set_next(next);
            match next {
                NONE => self.last = previous,
                next => table[next].set_previous(previous),
            }
        }
    }

    /// The only message, which was sent, has ended; it was taken out of its table.
    #[inline(always)]
    pub(crate) fn on_only_ended(&mut self) {
        debug_assert!(self.has_one_at_most() && self.unsent == NONE, "there was another");
        (self.first, self.last) = (NONE, NONE);
    }
}

/// What was never sent.
impl Line {
    /// The first message that was never sent, or NONE.
    #[inline(always)]
    pub(crate) fn unsent(&self) -> u32 {
        self.unsent
    }

    /// There is a message that was never sent.
    #[inline(always)]
    pub(crate) fn has_unsent(&self) -> bool {
        self.unsent != NONE
    }

    /// Messages that were never sent, or granted data.
    #[inline(always)]
    pub(crate) fn has_more(&self) -> bool {
        self.unsent != NONE || !self.granted.is_empty()
    }

    /// All before this message is sent, or all there is (NONE).
    #[inline(always)]
    pub(crate) fn on_sent_up_to(&mut self, next: u32) {
        self.unsent = next;
    }

    /// The peer asks for this message by itself: it is not sent in its turn any more, but the one behind it.
    pub(crate) fn on_pulled(&mut self, slot: u32, next: u32) {
        if self.unsent == slot {
            self.unsent = next;
        }
    }

    /// The peer refuses messages from this one on: sending will go on here.
    pub(crate) fn go_back_to(&mut self, slot: u32) {
        self.unsent = slot;
    }
}

/// What was lost.
impl Line {
    /// A message has lost content to send again.
    #[inline(always)]
    pub(crate) fn has_lost(&self) -> bool {
        !self.resend.is_empty()
    }

    /// Content of a message was lost, which must be sent again. If it `was_waiting` to leave in its turn anyway, nothing changes.
    pub(crate) fn on_lost(&mut self, slot: u32, serial: u32, was_waiting: bool) {
        if !was_waiting || self.unsent != slot {
            self.resend.push_back((slot, serial));
        }
    }

    /// The message whose content was lost first.
    #[inline]
    pub(crate) fn first_lost(&self) -> Option<(u32, u32)> {
        self.resend.front().copied()
    }

    /// That message was sent again, or need not be.
    pub(crate) fn on_resent(&mut self) {
        self.resend.pop_front();
    }
}

/// What was granted.
impl Line {
    /// Something is granted and not sent.
    #[inline(always)]
    pub(crate) fn has_granted(&self) -> bool {
        !self.granted.is_empty()
    }

    /// The granted message whose turn it is.
    #[inline]
    pub(crate) fn first_granted(&self) -> Option<(u32, u32)> {
        self.granted.front().copied()
    }

    /// The granted message whose turn it is gives its turn up. It comes again when it has more to send (`queue_granted`).
    #[inline]
    pub(crate) fn take_granted(&mut self) -> Option<(u32, u32)> {
        self.granted.pop_front()
    }

    /// A message with granted bytes goes behind the others.
    #[inline]
    pub(crate) fn queue_granted(&mut self, slot: u32, serial: u32) {
        self.granted.push_back((slot, serial));
    }

    /// A message whose turn it was keeps it.
    #[inline]
    pub(crate) fn keep_turn(&mut self, slot: u32, serial: u32) {
        self.granted.push_front((slot, serial));
    }

    /// As new, but for the memory of its queues.
    pub(super) fn clear(&mut self) {
        self.resend.clear();
        self.granted.clear();
        (self.first, self.last, self.unsent) = (NONE, NONE, NONE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[derive(Debug)]
    struct Message {
        previous: u32,
        next: u32,
    }

    impl InLine for Message {
        fn neighbours(&self) -> (u32, u32) {
            (self.previous, self.next)
        }

        fn set_previous(&mut self, slot: u32) {
            self.previous = slot;
        }

        fn set_next(&mut self, slot: u32) {
            self.next = slot;
        }
    }

    fn post(line: &mut Line, table: &mut Slab<Message>, is_waiting: bool) -> u32 {
        let slot = table.next_slot();
        let previous = line.append(slot, is_waiting, table);
        table.put(slot, Message { previous, next: NONE });
        slot
    }

    fn end(line: &mut Line, table: &mut Slab<Message>, slot: u32) {
        let ended = table.remove(slot);
        line.unlink(slot, &ended, table);
    }

    /// All messages, and those that were never sent.
    fn read(line: &Line, table: &Slab<Message>) -> (Vec<u32>, Vec<u32>) {
        let from = |first: u32| {
            let next = |&slot: &u32| Some(table[slot].next).filter(|&next| next != NONE);
            core::iter::successors(Some(first).filter(|&first| first != NONE), next).collect()
        };
        (from(line.first()), from(line.unsent()))
    }

    /// Four messages of which so many are sent end in every order, and each time a line as it was without them is left, both ways.
    #[test]
    fn whoever_ends_leaves_the_others_in_order() {
        for sent in 0..=4_usize {
            for code in 0..24_usize {
                let (mut line, mut table) = (Line::default(), Slab::default());
                let mut left: Vec<u32> =
                    (0..4).map(|at| post(&mut line, &mut table, at >= sent)).collect();
                let mut unsent: Vec<u32> = left[sent..].to_vec();
                assert_eq!(read(&line, &table), (left.clone(), unsent.clone()));
                for pick in [code % 4, code / 4 % 3, code / 12, 0] {
                    let slot = left.remove(pick);
                    unsent.retain(|&other| other != slot);
                    end(&mut line, &mut table, slot);
                    assert_eq!(read(&line, &table), (left.clone(), unsent.clone()));
                    assert_eq!(line.last(), left.last().copied().unwrap_or(NONE));
                    for pair in left.windows(2) {
                        assert_eq!(table[pair[1]].previous, pair[0], "as hold_back walks");
                    }
                }
                assert!(line.is_empty() && !line.has_unsent() && line.has_one_at_most());
            }
        }
    }

    #[test]
    fn what_was_lost_waits_once() {
        let (mut line, mut table) = (Line::default(), Slab::default());
        let [first, second] = [(); 2].map(|()| post(&mut line, &mut table, true));
        line.on_lost(first, 7, true);
        assert!(!line.has_lost(), "its turn is to come, and all of it leaves then");
        line.on_sent_up_to(second);
        line.on_lost(first, 7, false);
        assert_eq!(line.first_lost(), Some((first, 7)));
        line.on_lost(second, 8, true);
        line.on_resent();
        assert_eq!(line.first_lost(), None);
        line.on_pulled(first, second);
        assert_eq!(line.unsent(), second, "another is asked for");
        line.on_pulled(second, NONE);
        assert!(!line.has_more());
        line.go_back_to(first);
        assert_eq!(line.unsent(), first);
    }

    #[test]
    fn granted_messages_take_turns_or_keep_theirs() {
        let mut line = Line::default();
        for slot in 0..3 {
            line.queue_granted(slot, 9);
        }
        assert_eq!(line.take_granted(), Some((0, 9)));
        line.keep_turn(0, 9);
        assert_eq!(line.take_granted(), Some((0, 9)));
        line.queue_granted(0, 9);
        assert_eq!(line.first_granted(), Some((1, 9)));
        line.clear();
        assert!(!line.has_more() && line.is_empty());
    }
}
