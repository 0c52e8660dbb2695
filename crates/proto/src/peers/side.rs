//! One-sided operations with one peer: what its record keeps of them (`onesided` has the rules).

use alloc::collections::{BTreeMap, VecDeque};

use crate::delivery::ack::expand;
use crate::wire::RequestHead;

/// Some of a put did not come: no part of it goes on there.
const PART_MISSING: u64 = u64::MAX;

/// Numbers of one-sided operations, of which a row knows also while it rests.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Requests {
    /// Of the next request of ours, and of the next one of the peer that is carried out (PROTOCOL §11.1).
    next_out: u64,
    next_in: u64,
    /// Up to where the parts of the peer's put have come (PROTOCOL §11.4). Between two of them the row may rest.
    part_end: u64,
}

impl Requests {
    /// A request of ours is made: its number.
    pub(crate) fn post(&mut self) -> u64 {
        let number = self.next_out;
        self.next_out += 1;
        number
    }

    /// Of the peer's request whose turn it is.
    pub(crate) fn next_in(&self) -> u64 {
        self.next_in
    }

    /// The number of a request of the peer of which the wire shows this half.
    pub(crate) fn whole(&self, number: u32) -> u64 {
        expand(number, self.next_in)
    }

    /// A request of the peer is carried out, or was before: the next is expected.
    pub(crate) fn pass_turn(&mut self, number: u64) {
        self.next_in = self.next_in.max(number + 1);
    }

    /// A part of a put has its turn, and all parts of a put follow each other: up to where they have come without a gap.
    pub(crate) fn note_part(&mut self, offset: u64, len: u64) -> u64 {
        let is_next = offset == 0 || offset == self.part_end;
        self.part_end = if is_next { offset + len } else { PART_MISSING };
        self.part_end
    }

    /// A request that was cancelled or denied may have been a part: of that put nobody is told.
    pub(crate) fn miss_part(&mut self) {
        self.part_end = PART_MISSING;
    }
}

/// One-sided operations with one peer, both ways.
#[derive(Debug, Default)]
pub(crate) struct Side {
    /// Operations of ours that requests are still to be made of: slot and serial.
    waiting: VecDeque<(u32, u32)>,
    /// Requests of ours that were lost: slot and serial.
    lost: VecDeque<(u32, u32)>,
    /// Requests of ours that are not answered.
    request_count: u32,
    /// Operations of ours that are not over.
    operation_count: u32,
    /// `Notice::Requests` is among the notices.
    is_queued: bool,
    /// Requests of the peer before their turn, by number.
    early: BTreeMap<u64, Early>,
    /// Requests of the peer that are held, under way, or whose answers are not acknowledged.
    served_count: u32,
}

impl Side {
    /// Nothing is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.operation_count == 0 && self.served_count == 0 && self.early.is_empty()
    }

    /// Something is to be finished before we leave.
    pub(super) fn is_busy(&self) -> bool {
        self.operation_count > 0 || self.served_count > 0
    }

    /// Answers of the peer are waited for.
    pub(super) fn is_operating(&self) -> bool {
        self.operation_count > 0
    }
}

/// At the side that asks.
impl Side {
    /// An operation begins: requests are to be made of it.
    pub(crate) fn on_operation(&mut self, slot: u32, serial: u32) {
        self.operation_count += 1;
        self.waiting.push_back((slot, serial));
    }

    /// An operation is over.
    pub(crate) fn on_operation_over(&mut self) {
        self.operation_count -= 1;
    }

    /// The operation of which the next request is to be made.
    pub(crate) fn first_waiting(&self) -> Option<(u32, u32)> {
        self.waiting.front().copied()
    }

    /// That operation needs no more requests.
    pub(crate) fn on_cut(&mut self) {
        self.waiting.pop_front();
    }

    /// Requests are to be made of some operation.
    pub(crate) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// The association is over: what requests were to be made of.
    pub(crate) fn take_waiting(&mut self) -> VecDeque<(u32, u32)> {
        core::mem::take(&mut self.waiting)
    }

    /// A request is made.
    pub(crate) fn on_request(&mut self) {
        self.request_count += 1;
    }

    /// A request was answered, or nobody waits for its answer any more.
    pub(crate) fn on_request_over(&mut self) {
        self.request_count -= 1;
    }

    /// So many requests are not answered.
    pub(crate) fn request_count(&self) -> u32 {
        self.request_count
    }

    /// A request was lost on its way.
    pub(crate) fn on_lost(&mut self, slot: u32, serial: u32) {
        self.lost.push_back((slot, serial));
    }

    /// The request that was lost first.
    pub(crate) fn first_lost(&self) -> Option<(u32, u32)> {
        self.lost.front().copied()
    }

    /// That request was written again, or need not be.
    pub(crate) fn on_resent(&mut self) {
        self.lost.pop_front();
    }

    /// Requests wait to be written. False: that is known already.
    pub(super) fn queue(&mut self) -> bool {
        !core::mem::replace(&mut self.is_queued, true)
    }

    /// No request waits to be written.
    pub(super) fn leave_queue(&mut self) {
        self.is_queued = false;
    }
}

/// At the side that is asked.
impl Side {
    /// A request is carried out or held: its peer is answered one day.
    pub(crate) fn on_served(&mut self) {
        self.served_count += 1;
    }

    /// So many requests are over.
    pub(crate) fn on_served_over(&mut self, count: u32) {
        self.served_count -= count;
    }

    /// So many requests are held, under way, or answered without the peer's acknowledgement.
    pub(crate) fn served_count(&self) -> u32 {
        self.served_count
    }

    /// A request before its turn is held, or is to be skipped. Returns what was held instead of it.
    pub(crate) fn hold(&mut self, number: u64, early: Early) -> Option<Early> {
        self.early.insert(number, early)
    }

    /// Whether this request is held, or to be skipped.
    pub(crate) fn holds(&self, number: u64) -> bool {
        self.early.contains_key(&number)
    }

    /// The turn has come to a request: if it is here, it is held no more.
    pub(crate) fn take_held(&mut self, number: u64) -> Option<Early> {
        self.early.remove(&number)
    }

    /// The association is over: what was held before its turn, and how many requests were served in all.
    pub(crate) fn take_served(&mut self) -> (BTreeMap<u64, Early>, u32) {
        (core::mem::take(&mut self.early), core::mem::take(&mut self.served_count))
    }
}

/// A request before its turn.
#[derive(Debug)]
pub(crate) struct Early {
    /// `None`: it was cancelled, only its number counts.
    pub(crate) head: Option<RequestHead>,
    /// Its body, in `Endpoint::held`, or NONE.
    pub(crate) hold: u32,
    /// Where its result will be, in `Onesided::results`, or NONE.
    pub(crate) result: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_put_follow_each_other_or_it_is_not_told() {
        let mut requests = Requests::default();
        assert_eq!(requests.note_part(0, 100), 100);
        assert_eq!(requests.note_part(100, 50), 150);
        assert_eq!(requests.note_part(200, 50), PART_MISSING, "a part was denied");
        assert_eq!(requests.note_part(250, 50), PART_MISSING);
        assert_eq!(requests.note_part(0, 10), 10, "another put");
        requests.miss_part();
        assert_eq!(requests.note_part(10, 10), PART_MISSING);
    }

    #[test]
    fn a_turn_that_passed_does_not_come_again() {
        let mut requests = Requests::default();
        assert_eq!((requests.post(), requests.post()), (0, 1));
        requests.pass_turn(0);
        requests.pass_turn(1);
        requests.pass_turn(0);
        assert_eq!(requests.next_in(), 2);
        assert_eq!(requests.whole(2), 2);
    }

    #[test]
    fn requests_are_queued_once() {
        let mut side = Side::default();
        assert!(side.queue() && !side.queue());
        side.leave_queue();
        assert!(side.queue());
    }
}
