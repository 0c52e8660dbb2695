//! What becomes of messages when their association ends, or the endpoint closes.
//!
//! PROTOCOL §4.4, §9.4. What was accepted whole stays deliverable.

use crate::base::sabotage::Sabotage;
use crate::bulk::arrival::Stage;
use crate::bulk::receives::Receive;
use crate::messages::Messages;
use crate::wire::DONE_CANCELLED;
use crate::{Failure, GoneReason, Instant, Memory, ReqId, Space};
use alloc::vec::Vec;

impl Messages {
    /// A closing endpoint holds nothing for nobody: refused peers may send, to hear the end.
    fn drop_held(&mut self, now: Instant) {
        let held = self.bulk.arrivals_like(|arrival| {
            matches!(arrival.stage, Stage::Unexpected | Stage::Claimed) && arrival.is_here()
        });
        for slot in held {
            self.end_arrival(now, slot);
        }
        self.recall_rows(now);
    }

    /// An association ends, and with it what was to be sent.
    pub(crate) fn end_sends(&mut self, row: u32, failure: Failure) {
        if let Some(at) = self.refused.iter().position(|&refused| refused == row) {
            self.refused.remove(at);
        }
        self.bulk.end_sends(row, failure);
    }

    /// Incomplete messages vanish, complete ones stay; those before their turn have it now: what is missing before them
    /// failed at its sender.
    pub(crate) fn end_arrivals(
        &mut self,
        now: Instant,
        row: u32,
        reason: Option<GoneReason>,
        failure: Failure,
    ) {
        let numbers = self.bulk.peers.rows[row].numbers;
        let of_row = self.bulk.arrivals_of(row);
        let mut under_way: Vec<(u64, u32)> =
            of_row.map(|(slot, arrival)| (numbers.whole(arrival.message), slot)).collect();
        under_way.sort_unstable();
        for (_, slot) in under_way {
            self.bulk.unmap(slot);
            let arrival = self.bulk.arrival(slot);
            let whole = arrival.is_here() || (arrival.in_overflow && self.bulk.is_whole(slot));
            match arrival.stage {
                Stage::Unexpected if self.bulk.peers.saboteur.makes(Sabotage::BeginningsKept) => {}
                Stage::Early if whole => self.orphans.push_back(self.bulk.arrival_key(slot)),
                Stage::Unexpected | Stage::Claimed | Stage::Streamed if whole => {}
                Stage::Claimed => {
                    self.bulk.stop_grants(slot);
                    self.bulk.orphan(slot, reason.unwrap_or(GoneReason::Reset));
                }
                Stage::Lapsed => {
                    self.bulk.remove_arrival(slot);
                    continue;
                }
                Stage::Orphaned(_) => {}
                Stage::Early | Stage::Unexpected | Stage::Arriving | Stage::Streamed => {
                    self.fail_arrival(now, slot, failure);
                    continue;
                }
            }
            self.bulk.part_from_sender(slot);
        }
        if let Some(reason) = reason {
            self.fail_directed(now, row, Failure::Gone(reason));
        }
    }

    /// Whether whole messages wait whose association ended before their turn.
    #[inline]
    pub(crate) fn has_orphans(&self) -> bool {
        !self.orphans.is_empty()
    }

    /// Whole messages that were before their turn when their association ended: now it is their turn.
    pub(crate) fn deliver_orphans(&mut self, now: Instant, memory: &mut impl Memory) {
        while let Some(key) = self.orphans.pop_front() {
            // The row may have ended again before they were delivered: each is delivered once.
            let waiting = |&slot: &u32| self.bulk.arrival(slot).stage == Stage::Early;
            if let Some(slot) = self.bulk.find_arrival(key).filter(waiting) {
                // A chunk behind a gap has no place: its stream broke where the gap is.
                if self.bulk.peers.is_closing() || self.bulk.arrival(slot).space == Space::STREAMS {
                    self.end_arrival(now, slot);
                } else {
                    self.on_turn(now, slot, memory);
                }
            }
        }
    }

    fn fail_directed(&mut self, now: Instant, row: u32, failure: Failure) {
        if !self.bulk.peers.rows[row].ties.has_directed() {
            return;
        }
        let peer = self.bulk.peers.rows[row].peer();
        let is_directed = |receive: &Receive| receive.is_posted() && receive.source == Some(peer);
        let posted = self.bulk.receives.all().filter(|&(_, receive)| is_directed(receive));
        let directed: Vec<ReqId> = posted.map(|(req, _)| req).collect();
        self.cancel_receives(now, &directed, failure);
    }

    /// Cancels receives by name: the end of one may be the end of another (an overflow entry and who waits for it).
    fn cancel_receives(&mut self, now: Instant, reqs: &[ReqId], failure: Failure) {
        for &req in reqs {
            if let Some(slot) = self.bulk.receives.find(req) {
                self.cancel_receive(now, slot, failure);
            }
        }
    }
}

impl Messages {
    /// The endpoint closes: receives end, and what was announced goes back.
    pub(crate) fn end_receiving(&mut self, now: Instant) {
        let posted: Vec<ReqId> = self.bulk.receives.all().map(|(req, _)| req).collect();
        self.cancel_receives(now, &posted, Failure::Closing);
        // Announced and not matched: nobody will.
        let announced = self.bulk.arrivals_like(|arrival| {
            arrival.is_large
                && matches!(arrival.stage, Stage::Unexpected | Stage::Claimed | Stage::Early)
        });
        for slot in announced {
            let (row, message) = (self.bulk.arrival(slot).row, self.bulk.arrival(slot).message);
            self.end_arrival(now, slot);
            self.bulk.peers.notify_done(row, message, DONE_CANCELLED, 0);
        }
        self.drop_held(now);
    }
}

impl Messages {
    /// A peer is forgotten: receives that wait for it end, and what is held of it is dropped.
    pub(crate) fn forget_messages(&mut self, now: Instant, row: u32) {
        self.fail_directed(now, row, Failure::Gone(GoneReason::Forgotten));
        let held: Vec<u32> = self.bulk.arrivals_of(row).map(|(slot, _)| slot).collect();
        for slot in held {
            self.take_held(slot);
            self.bulk.remove_arrival(slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::api::Opening;
    use crate::bulk::Bulk;
    use crate::peers::Peers;
    use crate::wire::{Class, MessageHead};
    use crate::{Address, Identity, Limits, Locator, Secret, Settings, Tag};
    use alloc::vec;

    const NOW: Instant = Instant(1);

    fn messages_of(row_count: u64) -> Messages {
        let (secret, limits) = (Secret([7, 7]), Limits::default());
        let identity = |n| Identity { host: n, endpoint: n };
        let locators = vec![Locator::default()];
        let opening = Opening { secret, identity: identity(0), entropy: [7; 4], locators };
        let mut peers = Peers::new(opening, &limits, Settings::default());
        for n in 1..=row_count {
            let (identity, locator) = (identity(n), Locator::default());
            peers.insert_row(&Address { secret, identity, locator, has_helper: true });
        }
        Messages::new(Bulk::new(peers, &limits, 7), 7)
    }

    fn hold(messages: &mut Messages, row: u32, message: u32, stage: Stage) -> u32 {
        let head = MessageHead {
            class: Class::Eager,
            space: Space(1),
            message,
            tag: Tag(1),
            offset: 0,
            total: 4,
            immediate: None,
            wants_match: false,
            len: 4,
            ahead: 0,
        };
        messages.bulk.hold(NOW, row, &head, b"held", stage).expect("room")
    }

    fn left_of(messages: &Messages, row: u32) -> Vec<u32> {
        messages.bulk.arrivals_of(row).map(|(_, arrival)| arrival.message).collect()
    }

    /// What a peer costs that comes and goes does not grow with what others let lie.
    #[test]
    fn the_end_of_an_association_looks_at_what_that_peer_sent() {
        let mut messages = messages_of(3);
        for message in 0..30 {
            hold(&mut messages, message % 3, message / 3, Stage::Early);
        }
        for row in 0..2 {
            messages.end_arrivals(NOW, row, None, Failure::Closing);
            messages.bulk.drop_transfers(row);
            messages.bulk.accepted_below(row);
            messages.forget_messages(NOW, row);
        }
        assert_eq!(messages.bulk.searched_count(), 0, "none is searched for among all");
        assert_eq!((left_of(&messages, 0), left_of(&messages, 1)), (vec![], vec![]));
        assert_eq!(left_of(&messages, 2), (0..10).rev().collect::<Vec<_>>());
    }

    #[test]
    fn what_is_here_of_a_peer_is_known_in_whatever_order_it_goes() {
        for gone in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let mut messages = messages_of(2);
            let slots: Vec<u32> = (0..3)
                .map(|message| {
                    hold(&mut messages, 1, message, Stage::Unexpected);
                    hold(&mut messages, 0, message, Stage::Unexpected)
                })
                .collect();
            let mut left = vec![2, 1, 0];
            for message in gone {
                messages.bulk.remove_arrival(slots[message as usize]);
                left.retain(|&other| other != message);
                assert_eq!(left_of(&messages, 0), left);
            }
            assert_eq!(left_of(&messages, 1), [2, 1, 0]);
        }
    }
}
