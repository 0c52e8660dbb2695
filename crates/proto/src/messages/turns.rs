//! Refusal, recall, query: how bounded memory does not deadlock a correct program.
//!
//! PROTOCOL §7.5, §7.6. A receiver without room refuses a peer's messages from number k on and calls again when there is
//! room; the sender keeps them meanwhile. That alone could deadlock a legal MPI program: all room taken by messages nobody
//! wants yet, the one that is wanted held back. So a receiver that refuses asks the refused about each receive it cannot
//! satisfy, and takes what they find out of turn, by grants, straight into the receive's memory.

use crate::base::limits::MS;
use crate::base::sabotage::Sabotage;
use crate::base::types::{Instant, Memory, Space, Tag};
use crate::delivery::content::Content;
use crate::delivery::frame::Frame;
use crate::matching::EntryId;
use crate::messages::Messages;
use crate::messages::queries::{QUERY_NS, Query};
use crate::peers::rows::Notice;
use crate::wire::{Class, FoundRepr, MessageHead};

/// Receives asked about at a time.
const QUERY_COUNT_MAX: usize = 16;

const QUERY_NS_MAX: u64 = 64 * MS;

/// As a receiver.
impl Messages {
    /// No room for message `number`: it and all after it are refused until a recall.
    pub(crate) fn refuse(&mut self, now: Instant, row: u32, number: u64, need: u64) {
        self.bulk.peers.counters.refusals += 1;
        if self.bulk.peers.saboteur.makes(Sabotage::RefusedMessageForgotten)
            && number == self.bulk.peers.rows[row].numbers.next_in()
        {
            self.bulk.peers.rows[row].numbers.pass_turn();
        }
        let this = &mut self.bulk.peers.rows[row];
        let again = this.numbers.refuse(number); // from an earlier number on than before
        let order = this.order_turn();
        self.bulk.peers.note_need(row, need);
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
            let passed = this.numbers.is_past_refusal();
            let need = self.bulk.peers.need_of(row);
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
        this.numbers.recall();
        let order = this.order_turn();
        self.bulk.peers.notify(row, Content::Turn { order });
    }

    /// Something changed that a query might answer: ask soon.
    pub(crate) fn kick_queries(&mut self, now: Instant) {
        self.queries.pause_ns = QUERY_NS;
        self.queries.at = self.queries.at.min(now);
    }

    /// When to ask the refused peers again.
    pub(crate) fn asks_at(&self) -> Instant {
        self.queries.at
    }

    pub(crate) fn ask_if_due(&mut self, now: Instant) {
        if self.queries.at <= now {
            self.ask_queries(now);
        }
    }

    pub(crate) fn write_query(&self, number: u32, frame: &mut Frame<'_>) -> Option<Content> {
        let Query { criteria, .. } = self.queries.find(number)?;
        frame.writer.query(number, criteria.space, criteria.tag, criteria.ignore);
        Some(Content::Query { query: number })
    }

    /// Asks the refused peers about posted receives, some at a time, in turn.
    fn ask_queries(&mut self, now: Instant) {
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
                    self.bulk.peers.counters.queries += 1;
                    self.bulk.peers.say(row, Notice::Query(number));
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
        let numbers = self.bulk.peers.rows[row].numbers;
        if numbers.refused_from().is_none() {
            return false;
        }
        let theirs = (!found.none).then(|| numbers.whole(found.message));
        if theirs.is_some_and(|number| !numbers.refuses(number)) {
            return false; // on its way in its turn
        }
        // A message held here before its turn may come before what the peer found; the peer has just told that
        // nothing before that one fits.
        let early = self.bulk.first_early(row, &query.criteria);
        match (early, theirs) {
            (Some((number, slot)), theirs) if theirs.is_none_or(|theirs| number <= theirs) => {
                let early = self.bulk.arrival(slot);
                let (space, tag) = (early.space, early.tag);
                if self.would_take(query.entry, space, tag, row) {
                    self.bulk.peers.counters.queries_found += 1;
                    self.match_early(now, slot, receive, memory);
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
        if self.bulk.arrival_of(row, found.message).is_some()
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
        self.start_pulled(now, row, &head, receive);
        self.kick_queries(now);
    }

    /// A found message goes only to the receive that would take it in its turn: the first posted that admits it. If that is
    /// another one than was asked about, its own query will tell, perhaps of an earlier message still.
    fn would_take(&mut self, entry: EntryId, space: Space, tag: Tag, row: u32) -> bool {
        self.matcher
            .find(space, tag, self.bulk.peers.rows[row].peer())
            .is_some_and(|(first, _)| first == entry)
    }
}
