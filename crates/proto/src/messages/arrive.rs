//! A message arrives: is it its turn, is there a receive, is there room?
//!
//! PROTOCOL §7.1-§7.4, §7.7, §9. Messages of a peer are matched in the order of their numbers. The common case, a whole
//! message in turn whose receive is posted, touches nothing but the matcher and the receive: no `Arrival` is made.
//! Everything else becomes an `Arrival` and is held, refused, or filled into its receive (`fill`).

use crate::base::api::{Envelope, List, Verdict};
use crate::base::gaps::GapSet;
use crate::base::sabotage::Sabotage;
use crate::base::slab::NONE;
use crate::base::types::{Instant, Memory, Space};
use crate::bulk::arrival::{Arrival, Progress, Stage, held_len, lane_key, number_key};
use crate::delivery::ack::expand;
use crate::delivery::content::Content;
use crate::endpoint::Endpoint;
use crate::peers::rows::{Notice, Phase};
use crate::wire::{Class, DONE_CANCELLED, DONE_MATCHED, MessageHead};

impl Endpoint {
    /// A record of a message.
    #[inline]
    pub(crate) fn on_message(
        &mut self,
        now: Instant,
        row: u32,
        head: &MessageHead,
        body: &[u8],
        memory: &mut impl Memory,
    ) -> Verdict {
        if head.class == Class::Told {
            return self.on_told(now, row, head, body, memory);
        }
        let this = &self.rows[row];
        let number = expand(head.message, this.message_in);
        if number >= this.refused_from && !self.takes_all {
            return Verdict::Refused; // the refusal is content of its own and is repeated by itself
        }
        if this.arrival_count > 0
            && let Some(&slot) = self.by_number.get(&number_key(row, head.message))
        {
            return self.on_known(now, slot, head, body, memory);
        }
        if number < self.rows[row].message_in && !self.takes_again(row) {
            self.counters.messages_duplicate += 1;
            return Verdict::Accepted;
        }
        if number > self.rows[row].message_in && !self.saboteur.makes(Sabotage::MatcherIgnoresOrder)
        {
            return self.on_early(now, row, number, head, body);
        }
        self.on_in_turn(now, row, number, head, body, memory)
    }

    /// Whether a fault is in force by which what came before is taken for new.
    #[inline(always)]
    fn takes_again(&self, row: u32) -> bool {
        let has_stream = || {
            let active = self.actives.get(self.rows[row].active);
            active.is_some_and(|active| active.paths.iter().any(|path| path.is_stream))
        };
        self.saboteur.makes(Sabotage::DuplicateAccepted)
            || self.saboteur.makes(Sabotage::AcceptedAgainAfterBreak) && has_stream()
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
    ) -> Verdict {
        let Some((entry, token)) = self.matcher.find(head.space, head.tag, self.rows[row].peer)
        else {
            return self.on_unexpected(now, row, number, head, body, memory);
        };
        if self.receives[token].list == List::Overflow && !self.has_envelope() {
            self.refuse(now, row, number, 0);
            return Verdict::Refused;
        }
        let fit = self.take_entry(entry, token, head.total);
        self.count_turn(row);
        if head.class == Class::Eager && fit.list == List::Priority {
            let placed = &body[..fit.cap as usize];
            self.place(memory, fit.receive, fit.offset, placed);
            let envelope = Envelope {
                source: self.rows[row].peer,
                space: head.space,
                tag: head.tag,
                immediate: head.immediate,
                len: head.total,
            };
            self.report_received(fit.receive, envelope, fit.offset, fit.cap, Ok(()));
            if head.wants_match {
                self.notify_done(row, head.message, DONE_MATCHED, fit.cap);
            }
        } else {
            self.start_arrival(now, row, head, body, fit, memory);
        }
        if self.rows[row].arrival_count > 0 {
            self.follow_turn(now, row, memory);
        }
        Verdict::Accepted
    }

    /// A message has its turn. Counted before it is looked at, so that it is not taken for one ahead of its turn.
    #[inline]
    pub(crate) fn count_turn(&mut self, row: u32) {
        self.counters.messages_in += 1;
        self.rows[row].message_in += 1;
    }

    /// Messages that waited for the turn to come to them.
    pub(crate) fn follow_turn(&mut self, now: Instant, row: u32, memory: &mut impl Memory) {
        loop {
            let message_in = self.rows[row].message_in;
            let Some(&slot) = self.by_number.get(&number_key(row, message_in as u32)) else {
                break;
            };
            self.count_turn(row);
            match self.arrivals[slot].stage {
                Stage::Early => self.on_turn(now, slot, memory),
                Stage::Lapsed => self.remove_arrival(slot),
                // Taken out of turn and still arriving.
                Stage::Arriving
                | Stage::Unexpected
                | Stage::Claimed
                | Stage::Streamed
                | Stage::Orphaned(_) => {}
            }
        }
        if self.rows[row].message_in > self.rows[row].refused_from {
            self.recall_rows(now);
        }
    }

    /// A message that came early: its turn is now.
    pub(crate) fn on_turn(&mut self, now: Instant, slot: u32, memory: &mut impl Memory) {
        let arrival = &self.arrivals[slot];
        if arrival.space == Space::STREAMS {
            return self.on_chunk_turn(now, slot);
        }
        match self.matcher.find_in(List::Priority, arrival.space, arrival.tag, arrival.source) {
            Some((entry, token)) => {
                let fit = self.take_entry(entry, token, self.arrivals[slot].total);
                self.fill_receive(now, slot, fit, memory);
            }
            None => {
                self.arrivals[slot].stage = Stage::Unexpected;
                self.list_unexpected(slot);
                if self.arrivals[slot].progress == NONE {
                    self.unmap(slot);
                }
            }
        }
    }

    pub(crate) fn on_unexpected(
        &mut self,
        now: Instant,
        row: u32,
        number: u64,
        head: &MessageHead,
        body: &[u8],
        memory: &mut impl Memory,
    ) -> Verdict {
        if self.closing.is_some() {
            // Nobody will receive it any more: eager messages are accepted and dropped, large ones sent back.
            if head.class == Class::Rts {
                self.notify_done(row, head.message, DONE_CANCELLED, 0);
            }
            self.count_turn(row);
            self.follow_turn(now, row, memory);
            return Verdict::Accepted;
        }
        if head.space == Space::STREAMS {
            return self.on_chunk(now, row, number, head, body, memory);
        }
        let Some(slot) = self.hold(now, row, head, body, Stage::Unexpected) else {
            self.refuse(now, row, number, held_len(head));
            return Verdict::Refused;
        };
        self.counters.messages_unexpected += 1;
        self.list_unexpected(slot);
        if self.arrivals[slot].progress != NONE {
            self.map(slot);
        }
        self.count_turn(row);
        if self.rows[row].arrival_count > 0 {
            self.follow_turn(now, row, memory);
        }
        Verdict::Accepted
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
        let may_hold = head.space != Space::STREAMS || self.has_room_ahead(head.total as usize);
        let held = if may_hold { self.hold(now, row, head, body, Stage::Early) } else { None };
        let Some(slot) = held else {
            self.refuse(now, row, number, held_len(head));
            return Verdict::Refused;
        };
        self.counters.messages_early += 1;
        self.map(slot);
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
    ) -> Verdict {
        if self.arrivals[slot].progress == NONE || self.arrivals[slot].stage == Stage::Lapsed {
            self.counters.messages_duplicate += 1;
            return Verdict::Accepted;
        }
        self.absorb(now, slot, u64::from(head.offset), body, memory)
    }

    /// Makes an arrival for a message without a receive, within the budgets; `None` if there is no room.
    #[inline(always)]
    pub(crate) fn hold(
        &mut self,
        now: Instant,
        row: u32,
        head: &MessageHead,
        body: &[u8],
        stage: Stage,
    ) -> Option<u32> {
        if !self.has_envelope() {
            None
        } else if head.class == Class::Eager {
            self.hold_whole(row, head, core::iter::once(body), stage)
        } else {
            self.hold_part(now, row, head, body, stage)
        }
    }

    /// The same for a part of a message or an announcement, when there is an envelope for it.
    #[inline(never)]
    fn hold_part(
        &mut self,
        now: Instant,
        row: u32,
        head: &MessageHead,
        body: &[u8],
        stage: Stage,
    ) -> Option<u32> {
        let mut arrival = Arrival::new(self.rows[row].peer, head, stage);
        // A large message is announced even if its first bytes find no room (PROTOCOL §8.1).
        let hold_len =
            if arrival.is_large { body.len() } else { usize::try_from(head.total).ok()? };
        match self.held.try_reserve(hold_len) {
            Some(hold) => {
                let at = head.offset as usize;
                self.held.bytes_mut(hold)[at..at + body.len()].copy_from_slice(body);
                arrival.hold = hold;
            }
            None if arrival.is_large => {}
            None => return None,
        }
        let mut gaps = GapSet::whole(head.total);
        if arrival.hold != NONE {
            let start = u64::from(head.offset);
            gaps.fill(start, start + body.len() as u64, &mut |_, _| ());
        }
        if !gaps.is_empty() || arrival.is_large {
            let ahead_to = self.taken_ahead(row, head);
            let told = self.told.take();
            let progress = Progress { ahead_to, told, ..Progress::held(gaps, head.total, now) };
            arrival.progress = self.progress.insert(progress);
        }
        self.charge(&mut arrival);
        if arrival.is_large {
            self.counters.rendezvous_in += 1;
        }
        Some(self.insert_arrival(arrival))
    }

    /// The same for a message that came whole, in one piece or some, when there is an envelope for it.
    #[inline(always)]
    pub(crate) fn hold_whole<'a>(
        &mut self,
        row: u32,
        head: &MessageHead,
        bodies: impl Iterator<Item = &'a [u8]>,
        stage: Stage,
    ) -> Option<u32> {
        let len = head.total as usize;
        let hold = match self.held.try_reserve(len) {
            None if self.takes_all => self.held.overdraw(len)?,
            hold => hold?,
        };
        let mut rest = self.held.bytes_mut(hold);
        for body in bodies {
            let (to, behind) = rest.split_at_mut(body.len());
            to.copy_from_slice(body);
            rest = behind;
        }
        let mut arrival = Arrival { hold, ..Arrival::new(self.rows[row].peer, head, stage) };
        self.charge(&mut arrival);
        Some(self.insert_arrival(arrival))
    }

    #[inline(always)]
    fn charge(&mut self, arrival: &mut Arrival) {
        arrival.charged = true;
        self.envelope_count += 1;
        self.counters.envelope_count_peak =
            self.counters.envelope_count_peak.max(u64::from(self.envelope_count));
        self.counters.held_len_peak = self.held.peak_len();
    }

    pub(crate) fn has_envelope(&self) -> bool {
        self.envelope_count < self.limits.envelope_count_max || self.takes_all
    }

    #[inline(always)]
    pub(crate) fn list_unexpected(&mut self, slot: u32) {
        let arrival = &self.arrivals[slot];
        let held_id = self.matcher.hold(arrival.space, arrival.tag, arrival.source, slot);
        self.arrivals[slot].held_id = Some(held_id);
    }

    /// Takes an arrival out of the unexpected list.
    pub(crate) fn take_held(&mut self, slot: u32) {
        if let Some(held_id) = self.arrivals[slot].held_id.take() {
            self.matcher.release(held_id);
        }
    }

    pub(crate) fn map(&mut self, slot: u32) {
        let arrival = &self.arrivals[slot];
        self.rows[arrival.row].arrival_count += 1;
        self.by_number.insert(lane_key(arrival.lane, arrival.row, arrival.message), slot);
    }

    pub(crate) fn unmap(&mut self, slot: u32) {
        let arrival = &self.arrivals[slot];
        let key = lane_key(arrival.lane, arrival.row, arrival.message);
        if self.by_number.get(&key) == Some(&slot) {
            self.by_number.remove(&key);
            self.rows[arrival.row].arrival_count -= 1;
        }
    }

    /// Tells the sender of a message that it ended here, and how many of its bytes were taken (PROTOCOL §8.6).
    pub(crate) fn notify_done(&mut self, row: u32, message: u32, status: u8, placed_len: u64) {
        self.notify(row, Content::Done { message, status, placed_len });
    }

    /// Queues a notice to a peer that has an association.
    pub(crate) fn notify(&mut self, row: u32, content: Content) {
        if self.rows[row].phase == Phase::Idle {
            return; // nobody is there to hear it
        }
        let active = self.activate(row);
        self.actives[active].control.push_back(Notice::Content(content));
        self.make_ready(row);
    }
}
