//! A message arrives: is it its turn, is there a receive, is there room?
//!
//! PROTOCOL §7.1-§7.4, §7.7, §9. Messages of a peer are matched in the order of their numbers. The common case, a whole
//! message in turn whose receive is posted, touches nothing but the matcher and the receive: no `Arrival` is made.
//! Everything else becomes an `Arrival` and is held, refused, or filled into its receive (`fill`).

use crate::base::api::{Envelope, List, Verdict};
use crate::base::sabotage::Sabotage;
use crate::base::types::{Instant, Memory, Space};
use crate::bulk::arrival::{Stage, held_len};
use crate::bulk::filling::Absorbed;
use crate::delivery::path::Path;
use crate::messages::Messages;
use crate::wire::{Class, DONE_CANCELLED, DONE_MATCHED, MessageHead};

/// What became of a record of a message, and what is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// The message must come again.
    Refused,
    /// That is all.
    Accepted,
    /// The message had its turn: those that waited for theirs may follow.
    InTurn,
    /// The message is a chunk of a stream whose turn it is; nothing was done.
    Chunk,
    /// The chunk of a stream that lies here is whole by it.
    WholeChunk(u32),
}

impl Messages {
    /// A record of a message.
    #[inline]
    pub(crate) fn take_message(
        &mut self,
        now: Instant,
        row: u32,
        head: &MessageHead,
        body: &[u8],
        memory: &mut impl Memory,
    ) -> Taken {
        if head.class == Class::Told {
            return self.on_told(now, row, head, body, memory);
        }
        let this = &self.bulk.peers.rows[row];
        let number = this.numbers.whole(head.message);
        if this.numbers.refuses(number) && !self.bulk.held.takes_all() {
            return Taken::Refused; // the refusal is content of its own and is repeated by itself
        }
        if let Some(slot) = self.bulk.arrival_of(row, head.message) {
            return self.on_known(now, slot, head, body, memory);
        }
        if self.bulk.peers.rows[row].numbers.is_past(number) && !self.takes_again(row) {
            self.bulk.peers.counters.messages_duplicate += 1;
            return Taken::Accepted;
        }
        if number > self.bulk.peers.rows[row].numbers.next_in()
            && !self.bulk.peers.saboteur.makes(Sabotage::MatcherIgnoresOrder)
        {
            return match self.on_early(now, row, number, head, body) {
                Verdict::Refused => Taken::Refused,
                Verdict::Accepted => Taken::Accepted,
            };
        }
        self.on_in_turn(now, row, number, head, body, memory)
    }

    /// Whether a fault is in force by which what came before is taken for new.
    #[inline(always)]
    fn takes_again(&self, row: u32) -> bool {
        let peers = &self.bulk.peers;
        let forgets = |path: &Path| path.forgets_received(&peers.saboteur);
        let active = || peers.awake(row);
        peers.saboteur.makes(Sabotage::DuplicateAccepted)
            || active().is_some_and(|active| active.paths.iter().any(forgets))
    }

    #[inline]
    pub(crate) fn on_in_turn(
        &mut self,
        now: Instant,
        row: u32,
        number: u64,
        head: &MessageHead,
        body: &[u8],
        memory: &mut impl Memory,
    ) -> Taken {
        let Some((_, token)) =
            self.matcher.find(head.space, head.tag, self.bulk.peers.rows[row].peer())
        else {
            return self.on_unexpected(now, row, number, head, body);
        };
        if self.bulk.receives[token].list == List::Overflow && !self.bulk.held.has_envelope() {
            self.refuse(now, row, number, 0);
            return Taken::Refused;
        }
        let fit = self.take_entry(token, head.total);
        self.count_turn(row);
        if head.class == Class::Eager && fit.list == List::Priority {
            let placed = &body[..fit.cap as usize];
            self.place(memory, fit.receive, fit.offset, placed);
            let envelope = Envelope {
                source: self.bulk.peers.rows[row].peer(),
                space: head.space,
                tag: head.tag,
                immediate: head.immediate,
                len: head.total,
            };
            let of = Some((row, number));
            self.report_received(fit.receive, of, envelope, fit.offset, fit.cap, Ok(()));
            if head.wants_match {
                self.bulk.peers.notify_done(row, head.message, DONE_MATCHED, fit.cap);
            }
        } else {
            self.start_arrival(now, row, head, body, fit, memory);
        }
        Taken::InTurn
    }

    /// A message has its turn. Counted before it is looked at, so that it is not taken for one before its turn.
    #[inline]
    pub(crate) fn count_turn(&mut self, row: u32) {
        self.bulk.peers.counters.messages_in += 1;
        self.bulk.peers.rows[row].numbers.pass_turn();
    }

    /// Messages that waited for the turn to come to them. A slot: this one is a chunk of a stream, and others may follow it.
    pub(crate) fn follow_turn(
        &mut self,
        now: Instant,
        row: u32,
        memory: &mut impl Memory,
    ) -> Option<u32> {
        loop {
            let message_in = self.bulk.peers.rows[row].numbers.next_in();
            let Some(slot) = self.bulk.arrival_of(row, message_in as u32) else {
                break;
            };
            self.count_turn(row);
            match self.bulk.arrival(slot).stage {
                Stage::Early if self.bulk.arrival(slot).space == Space::STREAMS => {
                    return Some(slot);
                }
                Stage::Early => self.on_turn(now, slot, memory),
                Stage::Lapsed => self.bulk.remove_arrival(slot),
                // Taken out of turn and still arriving.
                Stage::Arriving
                | Stage::Unexpected
                | Stage::Claimed
                | Stage::Streamed
                | Stage::Orphaned(_) => {}
            }
        }
        if self.bulk.peers.rows[row].numbers.is_past_refusal() {
            self.recall_rows(now);
        }
        None
    }

    /// A message that came early: its turn is now.
    pub(crate) fn on_turn(&mut self, now: Instant, slot: u32, memory: &mut impl Memory) {
        let arrival = self.bulk.arrival(slot);
        match self.matcher.find_in(List::Priority, arrival.space, arrival.tag, arrival.source) {
            Some((_, token)) => {
                let fit = self.take_entry(token, self.bulk.arrival(slot).total);
                self.fill_receive(now, slot, fit, memory);
            }
            None => {
                self.list_unexpected(slot);
                self.bulk.await_receive(slot);
            }
        }
    }

    #[inline(always)]
    pub(crate) fn on_unexpected(
        &mut self,
        now: Instant,
        row: u32,
        number: u64,
        head: &MessageHead,
        body: &[u8],
    ) -> Taken {
        if self.bulk.peers.is_closing() {
            return self.drop_in_turn(now, row, head);
        }
        if head.space == Space::STREAMS {
            return Taken::Chunk;
        }
        let Some(slot) = self.bulk.hold(now, row, head, body, Stage::Unexpected) else {
            self.refuse(now, row, number, held_len(head));
            return Taken::Refused;
        };
        self.bulk.peers.counters.messages_unexpected += 1;
        self.list_unexpected(slot);
        self.count_turn(row);
        Taken::InTurn
    }

    /// Nobody will receive anything any more: a message whose turn it is.
    #[cold]
    fn drop_in_turn(&mut self, now: Instant, row: u32, head: &MessageHead) -> Taken {
        // Nobody will receive it any more: eager messages are accepted and dropped, large ones sent back.
        if head.class == Class::Rts {
            self.bulk.peers.notify_done(row, head.message, DONE_CANCELLED, 0);
        }
        self.count_turn(row);
        let this = &self.bulk.peers.rows[row];
        if !this.ties.has_numbered() && this.numbers.is_past_refusal() {
            self.recall_rows(now);
        }
        Taken::InTurn
    }

    pub(crate) fn on_early(
        &mut self,
        now: Instant,
        row: u32,
        number: u64,
        head: &MessageHead,
        body: &[u8],
    ) -> Verdict {
        // Nobody can ask for a chunk out of its turn: those ahead of it leave it room.
        let may_hold =
            head.space != Space::STREAMS || self.bulk.held.has_room_ahead(held_len(head) as usize);
        if !may_hold || self.bulk.hold(now, row, head, body, Stage::Early).is_none() {
            self.refuse(now, row, number, held_len(head));
            return Verdict::Refused;
        }
        self.bulk.peers.counters.messages_early += 1;
        Verdict::Accepted
    }

    /// A further record of a message under way, or a copy of one.
    pub(crate) fn on_known(
        &mut self,
        now: Instant,
        slot: u32,
        head: &MessageHead,
        body: &[u8],
        memory: &mut impl Memory,
    ) -> Taken {
        if !self.bulk.arrival(slot).is_awaited() {
            self.bulk.peers.counters.messages_duplicate += 1;
            return Taken::Accepted;
        }
        match self.bulk.absorb(now, slot, u64::from(head.offset), body, memory) {
            Absorbed::Refused => Taken::Refused,
            Absorbed::Wholly if self.on_whole_arrival(now, slot) => Taken::WholeChunk(slot),
            Absorbed::Wholly | Absorbed::Partly => Taken::Accepted,
        }
    }

    #[inline(always)]
    pub(crate) fn list_unexpected(&mut self, slot: u32) {
        let arrival = self.bulk.arrival(slot);
        let held_id = self.matcher.hold(arrival.space, arrival.tag, arrival.source, slot);
        self.bulk.on_listed(slot, held_id);
    }

    /// Takes an arrival out of the unexpected list.
    pub(crate) fn take_held(&mut self, slot: u32) {
        if let Some(held_id) = self.bulk.unlist(slot) {
            self.matcher.release(held_id);
        }
    }
}

impl Messages {
    /// An announcement that says where the bytes are.
    #[inline(never)]
    pub(crate) fn on_told(
        &mut self,
        now: Instant,
        row: u32,
        head: &MessageHead,
        whereabouts: &[u8],
        memory: &mut impl Memory,
    ) -> Taken {
        self.bulk.hear_whereabouts(whereabouts);
        let head = MessageHead { class: Class::Rts, len: 0, ..*head };
        let verdict = self.take_message(now, row, &head, &[], memory);
        self.bulk.forget_whereabouts();
        verdict
    }
}
