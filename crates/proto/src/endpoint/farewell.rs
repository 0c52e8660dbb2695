//! Associations end: by goodbye, by evidence, by silence; and endpoints close.
//!
//! PROTOCOL §4.3, §4.4, §9.4. Whatever ends an association ends everything bound to it, once, with a reason; what was
//! accepted whole stays deliverable. Closing lingers until what we sent is accepted, then says goodbye to everybody.

use alloc::vec::Vec;

use crate::base::api::{Event, Failure, GoneReason, Unaccepted};
use crate::base::sabotage::Sabotage;
use crate::base::slab::NONE;
use crate::base::types::{Instant, Memory, PeerId, Space};
use crate::bulk::arrival::Stage;
use crate::bulk::outgoing::SendStage;
use crate::delivery::ack::expand;
use crate::delivery::content::Content;
use crate::delivery::credit::CreditRest;
use crate::endpoint::Endpoint;
use crate::peers::contact::{Reply, ReplyRecord, failure_of};
use crate::peers::farewell::{Closing, FORGOTTEN_COUNT_MAX, Forgotten};
use crate::peers::rows::{Farewell, NO_MESSAGE, Phase, Row};
use crate::peers::strangers::Idle;
use crate::wire::DONE_CANCELLED;

impl Endpoint {
    /// Begins to close: no new posts; receives end now; sends linger until accepted; then goodbye, and `Closed`.
    pub fn close(&mut self, now: Instant) {
        if self.closing.is_some() {
            return;
        }
        let until = now + self.settings.linger_ns;
        self.closing = Some(Closing { until, look_at: until, given_up: Vec::new() });
        let posted: Vec<u64> = self
            .receives
            .iter()
            .filter(|(_, receive)| !receive.is_transfer)
            .map(|(slot, _)| self.receives.key(slot))
            .collect();
        self.cancel_receives(now, &posted, Failure::Closing);
        // Announced and not matched: nobody will.
        let announced: Vec<u32> = self
            .arrivals
            .iter()
            .filter(|(_, arrival)| {
                arrival.is_large
                    && matches!(arrival.stage, Stage::Unexpected | Stage::Claimed | Stage::Early)
            })
            .map(|(slot, _)| slot)
            .collect();
        for slot in announced {
            let (row, message) = (self.arrivals[slot].row, self.arrivals[slot].message);
            self.end_arrival(now, slot);
            self.notify_done(row, message, DONE_CANCELLED, 0);
        }
        self.drop_held(now);
        self.tend_closing(now);
    }

    /// A closing endpoint holds nothing for nobody: refused peers may send, to hear the end.
    fn drop_held(&mut self, now: Instant) {
        let held: Vec<u32> = self
            .arrivals
            .iter()
            .filter(|(_, arrival)| {
                matches!(arrival.stage, Stage::Unexpected | Stage::Claimed)
                    && arrival.progress == NONE
            })
            .map(|(slot, _)| slot)
            .collect();
        for slot in held {
            self.end_arrival(now, slot);
        }
        self.recall_rows(now);
    }

    /// Closing is complete, in whatever way.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Says goodbye to whom nothing is owed any more; ends when everybody has heard it, or time is up.
    pub(crate) fn tend_closing(&mut self, now: Instant) {
        let Some(closing) = self.closing.as_mut().filter(|_| !self.closed) else { return };
        closing.look_at = closing.until;
        let rows: Vec<u32> =
            self.rows.ids().filter(|&row| self.rows[row].phase != Phase::Idle).collect();
        for row in rows {
            self.tend_leaving(now, row);
        }
        self.finish_if_alone(now);
    }

    /// The clock was looked at while closing.
    pub(crate) fn on_closing_time(&mut self, now: Instant) {
        match &self.closing {
            Some(closing) if now >= closing.look_at => self.tend_closing(now),
            Some(_) if !self.closed => self.finish_if_alone(now),
            _ => {}
        }
    }

    /// A frame of `row` was handled while closing.
    pub(crate) fn tend_closing_row(&mut self, now: Instant, row: u32) {
        if !self.closed {
            self.tend_leaving(now, row);
            self.finish_if_alone(now);
        }
    }

    fn tend_leaving(&mut self, now: Instant, row: u32) {
        let this = &self.rows[row];
        let (phase, is_self) = (this.phase, this.remote_id == this.local_id);
        if phase == Phase::Idle {
            return;
        }
        let active = self.activate(row);
        let is_busy = self.actives[active].side.as_ref().is_some_and(|side| side.is_busy());
        let waiting = (self.actives[active].first != NONE || is_busy)
            && !self.saboteur.makes(Sabotage::GoodbyeBeforeAcceptance);
        if waiting {
            return;
        }
        if is_self || phase == Phase::Hello {
            // Nobody to say goodbye to: it is us, or nothing was said yet.
            self.end_association(now, row, None);
        } else if phase == Phase::Joined && self.actives[active].goodbye == Farewell::Unsaid {
            self.actives[active].goodbye = Farewell::Said;
            self.notify(row, Content::Goodbye);
        }
    }

    fn finish_if_alone(&mut self, now: Instant) {
        let late = self.closing.as_ref().is_some_and(|closing| now >= closing.until);
        let alone = self.association_count == 0;
        // Answers that wait to be sent (to another's goodbye) are our last words.
        if late || (alone && self.replies.is_empty()) {
            // What was accepted was accepted, even if a goodbye went unheard.
            let all_accepted = self.outgoing.len() == 0 && self.operations.len() == 0;
            self.finish_closing(now, all_accepted);
        }
    }

    /// What peers have not accepted yet; of an endpoint that closed, what they had not when it gave them up. Looks through all
    /// that is pending: for the end of an endpoint, not for its life.
    pub fn unaccepted(&self) -> Vec<Unaccepted> {
        if let Some(closing) = self.closing.as_ref().filter(|_| self.closed) {
            return closing.given_up.clone();
        }
        let sends = self.outgoing.iter().map(|(_, send)| (send.peer, send.total));
        let operations = self.operations.iter();
        let operations = operations.map(|(_, operation)| (operation.to.peer, operation.total));
        let mut all: Vec<(PeerId, u64)> = sends.chain(operations).collect();
        all.sort_unstable();
        let of_each = all.chunk_by(|(one, _), (other, _)| one == other);
        let sum = |all: &[(PeerId, u64)]| Unaccepted {
            peer: all[0].0,
            count: all.len() as u64,
            len: all.iter().fold(0, |sum, &(_, len)| sum.saturating_add(len)),
        };
        of_each.map(sum).collect()
    }

    fn finish_closing(&mut self, now: Instant, clean: bool) {
        let given_up = self.unaccepted();
        if let Some(closing) = &mut self.closing {
            closing.given_up = given_up;
        }
        let rows: Vec<u32> =
            self.rows.ids().filter(|&row| self.rows[row].phase != Phase::Idle).collect();
        for row in rows {
            self.end_with(now, row, None, Failure::Closing);
        }
        self.closed = true;
        self.events.push_back(Event::Closed { clean });
    }

    /// What Goodbye tells: messages of the peer below this number were accepted (PROTOCOL §4.4).
    pub(crate) fn accepted_below(&self, row: u32) -> u64 {
        let message_in = self.rows[row].message_in;
        let incomplete = self.arrivals.iter().filter(|(_, arrival)| {
            arrival.row == row
                && !arrival.is_large
                && arrival.progress != NONE
                && !arrival.in_overflow
        });
        incomplete
            .map(|(_, arrival)| expand(arrival.message, message_in))
            .min()
            .map_or(message_in, |first| first.min(message_in))
    }

    /// The peer leaves; it accepted our messages below `message`.
    pub(crate) fn on_goodbye(&mut self, now: Instant, row: u32, message: u32) {
        self.answer_goodbye(row);
        let active = self.rows[row].active;
        let mut slot = self.actives[active].first;
        while slot != NONE {
            let (next, number) = (self.outgoing[slot].next, self.outgoing[slot].message);
            let send = &self.outgoing[slot];
            let accepted = number < expand(message, number);
            if accepted && !send.is_large && !send.until_matched && send.stage != SendStage::Pulled
            {
                let len = send.total;
                self.end_send(slot, Ok(len));
            }
            slot = next;
        }
        self.end_association(now, row, None);
    }

    /// A goodbye is answered with a reset of what it ends: the leaver need not wait for an acknowledgement of a row
    /// that is no more, and a repeated goodbye gets the same answer (PROTOCOL §3.8).
    fn answer_goodbye(&mut self, row: u32) {
        let this = &self.rows[row];
        let active = &self.actives[this.active];
        let path = &active.paths[usize::from(active.main)];
        self.reply(Reply {
            link: path.link,
            locator: path.locator,
            secret: this.secret,
            to: this.remote_id,
            version: this.version,
            path: 0,
            record: ReplyRecord::Reset { id: this.local_id },
        });
    }

    /// Ends a row's association, whatever its phase.
    pub(crate) fn end_association(&mut self, now: Instant, row: u32, reason: Option<GoneReason>) {
        let active = self.rows[row].active;
        let said_goodbye = active != NONE && self.actives[active].goodbye == Farewell::Said;
        let reason = reason.filter(|_| !said_goodbye); // it left as it was asked to
        self.end_with(now, row, reason, failure_of(reason));
    }

    fn end_with(&mut self, now: Instant, row: u32, reason: Option<GoneReason>, failure: Failure) {
        let was_joined = self.rows[row].phase == Phase::Joined;
        if let Some(at) = self.refused.iter().position(|&refused| refused == row) {
            self.refused.remove(at);
        }
        self.end_sends(row, failure);
        self.end_operations(row, failure);
        self.end_arrivals(now, row, reason, failure);
        if let Some(reason) = reason {
            self.fail_directed(now, row, Failure::Gone(reason));
        }
        self.end_streams(row, reason);
        self.association_count -= 1;
        let this = &mut self.rows[row];
        this.phase = Phase::Idle;
        if this.remote_id != 0 {
            this.ended_id = this.remote_id;
        }
        this.refused_from = NO_MESSAGE;
        this.held_from = NO_MESSAGE;
        this.credit = CreditRest::INITIAL;
        this.rest = None;
        this.more_rest = None;
        let active = core::mem::replace(&mut this.active, NONE);
        if active != NONE {
            let mut active = self.actives.remove(active);
            active.clear();
            self.keep_spare(active);
        }
        // Who said goodbye knows that it is over; others may not.
        self.note_idle(now, row, if reason.is_none() { Idle::Departed } else { Idle::Gone });
        if was_joined {
            self.counters.left += 1;
        }
        if was_joined || reason.is_some() {
            self.events.push_back(Event::Left { peer: self.rows[row].peer, reason });
        }
        self.recall_rows(now);
    }

    fn end_sends(&mut self, row: u32, failure: Failure) {
        let active = self.rows[row].active;
        while active != NONE && self.actives[active].first != NONE {
            let first = self.actives[active].first;
            self.end_send(first, Err(failure));
        }
    }

    /// Incomplete messages vanish, complete ones stay; those ahead of their turn have it now: what is missing before them
    /// failed at its sender.
    fn end_arrivals(
        &mut self,
        now: Instant,
        row: u32,
        reason: Option<GoneReason>,
        failure: Failure,
    ) {
        let message_in = self.rows[row].message_in;
        let mut under_way: Vec<(u64, u32)> = self
            .arrivals
            .iter()
            .filter(|(_, arrival)| arrival.row == row)
            .map(|(slot, arrival)| (expand(arrival.message, message_in), slot))
            .collect();
        under_way.sort_unstable();
        for (_, slot) in under_way {
            self.unmap(slot);
            let arrival = &self.arrivals[slot];
            let whole = arrival.progress == NONE
                || (arrival.in_overflow && self.progress[arrival.progress].gaps.is_empty());
            match arrival.stage {
                Stage::Early if whole => self.orphans.push_back(self.arrivals.key(slot)),
                Stage::Unexpected | Stage::Claimed | Stage::Streamed if whole => {}
                Stage::Claimed => {
                    self.stop_grants(slot);
                    self.arrivals[slot].stage =
                        Stage::Orphaned(reason.unwrap_or(GoneReason::Reset));
                }
                Stage::Lapsed => {
                    self.remove_arrival(slot);
                    continue;
                }
                Stage::Orphaned(_) => {}
                Stage::Early | Stage::Unexpected | Stage::Arriving | Stage::Streamed => {
                    self.fail_arrival(now, slot, failure);
                    continue;
                }
            }
            if let Some(arrival) = self.arrivals.get_mut(slot) {
                // Nobody is left to hear of it, and the next association counts anew.
                (arrival.is_large, arrival.wants_match) = (false, false);
            }
        }
    }

    /// Whole messages that were ahead of their turn when their association ended: now it is their turn.
    pub(crate) fn deliver_orphans(&mut self, now: Instant, memory: &mut impl Memory) {
        while let Some(key) = self.orphans.pop_front() {
            // The row may have ended again before they were delivered: each is delivered once.
            let waiting = |&slot: &u32| self.arrivals[slot].stage == Stage::Early;
            if let Some(slot) = self.arrivals.lookup(key).filter(waiting) {
                // A chunk behind a gap has no place: its stream broke where the gap is.
                if self.closing.is_some() || self.arrivals[slot].space == Space::STREAMS {
                    self.end_arrival(now, slot);
                } else {
                    self.on_turn(now, slot, memory);
                }
            }
        }
    }

    fn fail_directed(&mut self, now: Instant, row: u32, failure: Failure) {
        if self.rows[row].directed_count == 0 {
            return;
        }
        let directed: Vec<u64> = self
            .receives
            .iter()
            .filter(|(_, receive)| {
                receive.entry.is_some() && receive.source == Some(self.rows[row].peer)
            })
            .map(|(slot, _)| self.receives.key(slot))
            .collect();
        self.cancel_receives(now, &directed, failure);
    }

    /// Cancels receives by key: the end of one may be the end of another (an overflow entry and who waits for it).
    fn cancel_receives(&mut self, now: Instant, keys: &[u64], failure: Failure) {
        for &key in keys {
            if let Some(slot) = self.receives.lookup(key) {
                self.cancel_receive(now, slot, failure);
            }
        }
    }

    /// Forgets a peer: its association ends, its row is free for another. Held messages of it are dropped.
    pub fn forget_peer(&mut self, now: Instant, peer: PeerId) {
        let row = peer.row();
        if self.rows.known(peer).is_none() {
            return;
        }
        if self.rows[row].phase != Phase::Idle {
            self.end_association(now, row, Some(GoneReason::Died));
        }
        self.fail_directed(now, row, Failure::Gone(GoneReason::Died));
        let held: Vec<u32> = self
            .arrivals
            .iter()
            .filter(|(_, arrival)| arrival.row == row)
            .map(|(slot, _)| slot)
            .collect();
        for slot in held {
            self.take_held(slot);
            self.remove_arrival(slot);
        }
        self.permit_no_more(peer);
        self.forget_streams(row);
        let &Row { identity, secret, ended_id: id, is_named, .. } = &self.rows[row];
        self.count_forgotten(identity);
        self.remember_forgotten(Forgotten { identity, secret, id });
        self.named_count -= u32::from(is_named);
        self.rows.remove(row);
    }

    /// The peer may not have heard that its association is over.
    pub(crate) fn remember_forgotten(&mut self, forgotten: Forgotten) {
        if self.forgotten.len() >= FORGOTTEN_COUNT_MAX {
            self.forgotten.pop_front();
        }
        self.forgotten.push_back(forgotten);
    }
}
