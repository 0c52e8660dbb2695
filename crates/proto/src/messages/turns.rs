//! Refusal, recall, query: how bounded memory does not deadlock a correct program.
//!
//! PROTOCOL §7.5, §7.6. A receiver without room refuses a peer's messages from number k on and calls again when there is
//! room; the sender keeps them meanwhile. That alone could deadlock a legal MPI program: all room taken by messages nobody
//! wants yet, the one that is wanted held back. So a receiver that refuses asks the refused about each receive it cannot
//! satisfy, and takes what they find out of turn, by grants, straight into the receive's memory.

use crate::base::limits::MS;
use crate::base::sabotage::Sabotage;
use crate::base::slab::NONE;
use crate::base::types::{Criteria, Instant, Memory, Space, Tag};
use crate::bulk::arrival::{Stage, number_key};
use crate::bulk::outgoing::{Parts, SendStage};
use crate::delivery::ack::expand;
use crate::delivery::content::Content;
use crate::delivery::credit::eager_cost;
use crate::matching::EntryId;
use crate::messages::Messages;
use crate::messages::queries::{QUERY_NS, Query};
use crate::peers::rows::{NO_MESSAGE, Notice};
use crate::wire::{Class, DONE_CANCELLED, FoundRepr, MessageHead};

/// Receives asked about at a time.
const QUERY_COUNT_MAX: usize = 16;
/// Notices waiting for one peer before its queries go unanswered.
const NOTICE_COUNT_MAX: usize = 1024;

const QUERY_NS_MAX: u64 = 64 * MS;

/// As a receiver.
impl Messages {
    /// No room for message `number`: it and all after it are refused until a recall.
    pub(crate) fn refuse(&mut self, now: Instant, row: u32, number: u64, need: u64) {
        self.bulk.peers.counters.refusals += 1;
        if self.bulk.peers.saboteur.makes(Sabotage::RefusedMessageForgotten)
            && number == self.bulk.peers.rows[row].numbers.next_in
        {
            self.bulk.peers.rows[row].numbers.next_in += 1;
        }
        let this = &mut self.bulk.peers.rows[row];
        let again = this.numbers.refused_from != NO_MESSAGE; // from an earlier number on than before
        this.numbers.refused_from = number;
        this.turn_sent = this.turn_sent.wrapping_add(1);
        let order = this.turn_sent;
        let active = self.bulk.peers.activate(row);
        self.bulk.peers.actives[active].refused_need = need;
        if !again {
            self.refused.push_back(row);
        }
        self.bulk.peers.notify(row, Content::Turn { order });
        self.kick_queries(now);
    }

    /// Calls refused peers again if there is room (PROTOCOL §7.5).
    #[inline]
    pub(crate) fn recall_rows(&mut self, now: Instant) {
        if !self.refused.is_empty() {
            self.recall_refused(now);
        }
    }

    fn recall_refused(&mut self, now: Instant) {
        let is_roomy = self.bulk.held.is_roomy();
        for _ in 0..self.refused.len() {
            let row = self.refused.pop_front().expect("counted");
            let this = &self.bulk.peers.rows[row];
            let passed = this.numbers.next_in > this.numbers.refused_from;
            let active = self.bulk.peers.activate(row);
            let need = self.bulk.peers.actives[active].refused_need;
            if passed || is_roomy && self.bulk.held.would_fit(need) {
                self.recall(row);
            } else {
                self.refused.push_back(row);
            }
        }
        if self.refused.is_empty() {
            self.queries.at = Instant::NEVER;
            self.queries.open.clear();
        } else if self.queries.at == Instant::NEVER {
            self.kick_queries(now);
        }
    }

    fn recall(&mut self, row: u32) {
        self.bulk.peers.counters.recalls += 1;
        let this = &mut self.bulk.peers.rows[row];
        this.numbers.refused_from = NO_MESSAGE;
        this.turn_sent = this.turn_sent.wrapping_add(1);
        let order = this.turn_sent;
        self.bulk.peers.notify(row, Content::Turn { order });
    }

    /// Something changed that a query might answer: ask soon.
    pub(crate) fn kick_queries(&mut self, now: Instant) {
        self.queries.pause_ns = QUERY_NS;
        self.queries.at = self.queries.at.min(now);
    }

    /// Asks the refused peers about posted receives, some at a time, in turn.
    pub(crate) fn ask_queries(&mut self, now: Instant) {
        if self.refused.is_empty() || self.matcher.posted_count() == 0 {
            self.queries.at = Instant::NEVER;
            return;
        }
        self.queries.at = now + self.queries.pause_ns;
        self.queries.pause_ns = (2 * self.queries.pause_ns).min(QUERY_NS_MAX);
        let count = self.matcher.posted_count().min(QUERY_COUNT_MAX);
        for _ in 0..count {
            let Some(posted) = self.matcher.posted_in_turn() else { break };
            if posted.list == crate::base::api::List::Overflow {
                continue;
            }
            if self.queries.open.len() >= QUERY_COUNT_MAX {
                self.queries.open.pop_front();
            }
            let number = self.queries.next_number;
            self.queries.next_number = number.wrapping_add(1);
            self.queries.open.push_back(Query {
                number,
                criteria: posted.criteria,
                entry: posted.entry,
            });
            for at in 0..self.refused.len() {
                let row = self.refused[at];
                if posted.criteria.source.is_none_or(|source| source.row() == row) {
                    let active = self.bulk.peers.activate(row);
                    self.bulk.peers.actives[active].control.push_back(Notice::Query(number));
                    self.bulk.peers.counters.queries += 1;
                    self.bulk.peers.make_ready(row);
                }
            }
        }
    }

    /// A refused peer answers: this is the first of its messages that fits, or there is none. True: others may have their turn.
    pub(crate) fn on_found(
        &mut self,
        now: Instant,
        row: u32,
        found: &FoundRepr,
        memory: &mut impl Memory,
    ) -> bool {
        let Some(query) = self.queries.find(found.query) else { return false };
        let Some(receive) = self.matcher.entry_token(query.entry) else { return false };
        let (message_in, refused_from) = (
            self.bulk.peers.rows[row].numbers.next_in,
            self.bulk.peers.rows[row].numbers.refused_from,
        );
        if refused_from == NO_MESSAGE {
            return false;
        }
        let theirs = (!found.none).then(|| expand(found.message, message_in));
        if theirs.is_some_and(|number| number < refused_from) {
            return false; // on its way in its turn
        }
        // A message held here before its turn may come before what the peer found; the peer has just told that
        // nothing before that one fits.
        let early = self.first_early(row, &query.criteria);
        match (early, theirs) {
            (Some((number, slot)), theirs) if theirs.is_none_or(|theirs| number <= theirs) => {
                let (space, tag) = (self.bulk.arrivals[slot].space, self.bulk.arrivals[slot].tag);
                if self.would_take(query.entry, space, tag, row) {
                    self.bulk.peers.counters.queries_found += 1;
                    self.match_early(now, slot, query.entry, receive, memory);
                    self.kick_queries(now);
                }
            }
            (_, Some(_)) => self.on_found_theirs(now, row, found, &query, receive),
            _ => {}
        }
        true
    }

    fn on_found_theirs(
        &mut self,
        now: Instant,
        row: u32,
        found: &FoundRepr,
        query: &Query,
        receive: u32,
    ) {
        if self.bulk.by_number.contains_key(&number_key(row, found.message))
            || !self.would_take(query.entry, found.space, found.tag, row)
        {
            return;
        }
        let head = MessageHead {
            class: Class::Rts,
            space: found.space,
            message: found.message,
            tag: found.tag,
            offset: 0,
            total: found.total,
            immediate: found.immediate,
            wants_match: false,
            len: 0,
            ahead: 0,
        };
        self.bulk.peers.counters.queries_found += 1;
        self.start_pulled(now, row, &head, query.entry, receive);
        self.kick_queries(now);
    }

    /// A found message goes only to the receive that would take it in its turn: the first posted that admits it. If that is
    /// another one than was asked about, its own query will tell, perhaps of an earlier message still.
    fn would_take(&mut self, entry: EntryId, space: Space, tag: Tag, row: u32) -> bool {
        self.matcher
            .find(space, tag, self.bulk.peers.rows[row].peer)
            .is_some_and(|(first, _)| first == entry)
    }

    /// The first message of a peer that waits for its turn and fits.
    fn first_early(&self, row: u32, criteria: &Criteria) -> Option<(u64, u32)> {
        if self.bulk.peers.rows[row].arrival_count == 0 {
            return None;
        }
        let message_in = self.bulk.peers.rows[row].numbers.next_in;
        let fits = self.bulk.arrivals.iter().filter(|(_, arrival)| {
            arrival.row == row
                && arrival.stage == Stage::Early
                && self.bulk.by_number.contains_key(&number_key(row, arrival.message))
                && criteria.admits(arrival.space, arrival.tag, arrival.source)
        });
        fits.map(|(slot, arrival)| (expand(arrival.message, message_in), slot)).min()
    }
}

/// As a sender.
impl Messages {
    /// The peer refuses our messages from `message` on, or recalls them.
    pub(crate) fn on_turn_notice(&mut self, row: u32, message: u32, order: u16, refused: bool) {
        let this = &mut self.bulk.peers.rows[row];
        let newer = order.wrapping_sub(this.turn_heard) as i16 > 0;
        if !newer {
            return;
        }
        this.turn_heard = order;
        if !refused {
            this.numbers.held_from = NO_MESSAGE;
            self.bulk.peers.make_ready(row);
            return;
        }
        let active = self.bulk.peers.activate(row);
        let first = self.bulk.peers.actives[active].first;
        let base = if first == NONE {
            self.bulk.peers.rows[row].numbers.next_out
        } else {
            self.bulk.outgoing[first].message
        };
        let from = expand(message, base);
        self.bulk.peers.rows[row].numbers.held_from = from;
        self.hold_back(row, from);
    }

    /// Forgets what was sent of messages from `from` on, and keeps them.
    fn hold_back(&mut self, row: u32, from: u64) {
        let active_slot = self.bulk.peers.rows[row].active;
        let outgoing = &self.bulk.outgoing;
        let active = &mut self.bulk.peers.actives[active_slot];
        let mut freed = 0;
        for path in &mut active.paths {
            path.void(&mut |content| match *content {
                Content::Message { slot, serial, len, .. } if outgoing.holds(slot, serial) => {
                    let held = outgoing[slot].message >= from && !outgoing[slot].is_granted();
                    freed += if held { eager_cost(len) } else { 0 };
                    held
                }
                _ => false,
            });
        }
        active.credit.on_settled(freed);
        // Where sending goes on, unless it has not even come that far.
        let reached = active.unsent == NONE || self.bulk.outgoing[active.unsent].message >= from;
        let mut slot = active.last;
        while slot != NONE && self.bulk.outgoing[slot].message >= from {
            self.bulk.unframe(slot);
            let send = &mut self.bulk.outgoing[slot];
            if !send.is_granted() {
                send.stage = SendStage::Waiting;
                self.bulk.peers.rows[row].ahead.on_refused(send, &mut self.bulk.ahead_sum);
                if reached {
                    self.bulk.peers.actives[active_slot].unsent = slot;
                }
                if send.parts != NONE {
                    let parts = self.bulk.parts.remove(core::mem::replace(&mut send.parts, NONE));
                    drop::<Parts>(parts);
                }
            }
            if slot == self.bulk.peers.actives[active_slot].first {
                break;
            }
            slot = self.bulk.outgoing[slot].previous;
        }
    }

    /// The peer asks which of our messages, in order, a receive of its would take.
    pub(crate) fn on_query(&mut self, row: u32, query: u32, criteria: &Criteria) {
        let active = self.bulk.peers.activate(row);
        if self.bulk.peers.actives[active].control.len() >= NOTICE_COUNT_MAX {
            return; // it asks faster than we can answer
        }
        if self.bulk.peers.actives[active].cancel_count > 0 {
            return; // a cancelled message may yet arrive in its turn: no answer can be sure; the query will come again
        }
        let mut slot = self.bulk.peers.actives[active].first;
        while slot != NONE {
            let send = &self.bulk.outgoing[slot];
            if send.stage != SendStage::Pulled && criteria.admits(send.space, send.tag, send.peer) {
                break;
            }
            slot = send.next;
        }
        let mut found = FoundRepr {
            query,
            space: criteria.space,
            tag: criteria.tag,
            message: 0,
            total: 0,
            immediate: None,
            none: true,
        };
        if slot != NONE {
            let send = &self.bulk.outgoing[slot];
            found = FoundRepr {
                query,
                space: send.space,
                tag: send.tag,
                message: send.message as u32,
                total: send.total,
                immediate: send.immediate,
                none: false,
            };
        }
        self.bulk.peers.actives[active].control.push_back(Notice::Found(found));
        self.bulk.peers.make_ready(row);
    }
}

impl Messages {
    /// The peer is through with our message, and took so many bytes of it (PROTOCOL §8.6).
    pub(crate) fn on_done(&mut self, row: u32, message: u32, status: u8, placed_len: u64) {
        let Some(slot) = self.bulk.find_outgoing(row, message) else { return };
        let result = if status == DONE_CANCELLED {
            Err(crate::base::api::Failure::CancelledByPeer)
        } else {
            Ok(placed_len.min(self.bulk.outgoing[slot].total))
        };
        self.bulk.end_send(slot, result);
        self.bulk.peers.make_ready(row);
    }
}
