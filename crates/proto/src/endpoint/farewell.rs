//! Associations end: by goodbye, by evidence, by silence; and endpoints close.
//!
//! PROTOCOL §4.3, §4.4, §9.4. Whatever ends an association ends everything bound to it, once, with a reason; what was
//! accepted whole stays deliverable. Closing lingers until what we sent is accepted, then says goodbye to everybody.

use alloc::vec::Vec;

use crate::base::api::{Failure, GoneReason, Unaccepted};
use crate::base::sabotage::Sabotage;
use crate::base::types::{Instant, PeerId};
use crate::endpoint::Endpoint;
use crate::peers::contact::failure_of;
use crate::peers::rows::Phase;

impl Endpoint {
    /// Begins to close: no new posts; receives end now; sends linger until accepted; then goodbye, and `Closed`.
    pub fn close(&mut self, now: Instant) {
        if !self.peers_mut().begin_closing(now) {
            return;
        }
        self.messages.end_receiving(now);
        self.tend_closing(now);
    }

    /// Closing is complete, in whatever way.
    pub fn is_closed(&self) -> bool {
        self.peers().is_closed()
    }

    /// Says goodbye to whom nothing is owed any more; ends when everybody has heard it, or time is up.
    pub(crate) fn tend_closing(&mut self, now: Instant) {
        if !self.peers_mut().linger() {
            return;
        }
        for row in self.peers().rows_in_contact() {
            self.tend_leaving(now, row);
        }
        self.finish_if_alone(now);
    }

    /// The clock was looked at while closing.
    pub(crate) fn on_closing_time(&mut self, now: Instant) {
        match self.peers().closing_look_at() {
            Some(look_at) if now >= look_at => self.tend_closing(now),
            Some(_) if !self.peers().is_closed() => self.finish_if_alone(now),
            _ => {}
        }
    }

    /// A frame of `row` was handled while closing.
    pub(crate) fn tend_closing_row(&mut self, now: Instant, row: u32) {
        if !self.peers().is_closed() {
            self.tend_leaving(now, row);
            self.finish_if_alone(now);
        }
    }

    fn tend_leaving(&mut self, now: Instant, row: u32) {
        let this = &self.peers().rows[row];
        let (phase, is_self) = (this.phase(), this.is_self());
        if phase == Phase::Idle {
            return;
        }
        let active = self.peers_mut().activate(row);
        let is_busy = self.peers().actives[active].is_operating();
        let waiting = (self.bulk().is_sending_to(row) || is_busy)
            && !self.peers().saboteur.makes(Sabotage::GoodbyeBeforeAcceptance);
        if waiting {
            return;
        }
        if is_self || phase == Phase::Hello {
            // Nobody to say goodbye to: it is us, or nothing was said yet.
            self.end_association(now, row, None);
        } else if phase == Phase::Joined {
            self.peers_mut().say_goodbye(row);
        }
    }

    fn finish_if_alone(&mut self, now: Instant) {
        if self.peers().may_end(now) {
            // What was accepted was accepted, even if a goodbye went unheard.
            let all_accepted =
                self.bulk().send_count() == 0 && self.onesided.operation_count() == 0;
            self.finish_closing(now, all_accepted);
        }
    }

    /// What peers have not accepted yet; of an endpoint that closed, what they had not when it gave them up. Looks through all
    /// that is pending: for the end of an endpoint, not for its life.
    pub fn unaccepted(&self) -> Vec<Unaccepted> {
        if let Some(given_up) = self.peers().given_up() {
            return given_up.to_vec();
        }
        let sends = self.bulk().unaccepted();
        let mut all: Vec<(PeerId, u64)> = sends.chain(self.onesided.unaccepted()).collect();
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
        for row in self.peers().rows_in_contact() {
            self.end_with(now, row, None, Failure::Closing);
        }
        self.set_off(now);
        self.peers_mut().end_closing(given_up, clean);
    }

    /// The peer leaves; it accepted our messages below `message`.
    pub(crate) fn on_goodbye(&mut self, now: Instant, row: u32, message: u32) {
        self.peers_mut().answer_goodbye(row);
        self.bulk_mut().end_accepted(row, message);
        self.end_association(now, row, None);
    }

    /// Ends a row's association, whatever its phase; then what that sets off begins.
    pub(crate) fn end_association(&mut self, now: Instant, row: u32, reason: Option<GoneReason>) {
        self.part_with(now, row, reason);
        self.set_off(now);
    }

    fn part_with(&mut self, now: Instant, row: u32, reason: Option<GoneReason>) {
        let said_goodbye = self.peers().has_said_goodbye(row);
        let reason = reason.filter(|_| !said_goodbye); // it left as it was asked to
        self.end_with(now, row, reason, failure_of(reason));
    }

    /// Forgets a peer: its association ends, its row is free for another. Held messages of it are dropped.
    pub fn forget_peer(&mut self, now: Instant, peer: PeerId) {
        let row = peer.row();
        if self.peers().rows.known(peer).is_none() {
            return;
        }
        if self.peers().rows[row].is_in_contact() {
            self.part_with(now, row, Some(GoneReason::Forgotten));
        }
        self.messages.forget_messages(now, row);
        self.onesided.permit_no_more(peer);
        self.streams.forget_streams(&mut self.messages, row);
        self.peers_mut().forget_row(row);
        // Not before: to a peer that is still known an operation would begin an association, which the row would take with it.
        self.set_off(now);
    }

    /// What the end of an association sets off begins (PROTOCOL §17.7).
    fn set_off(&mut self, now: Instant) {
        if self.onesided.portals.is_open() {
            self.onesided.run_portals(&mut self.messages.bulk, now);
        }
    }

    fn end_with(&mut self, now: Instant, row: u32, reason: Option<GoneReason>, failure: Failure) {
        let this = &self.peers().rows[row];
        if this.is_named() {
            let peer = this.peer();
            self.onesided.portals.part_with(peer);
        }
        self.messages.end_sends(row, failure);
        self.onesided.end_operations(&mut self.messages.bulk, row, failure);
        self.messages.end_arrivals(now, row, reason, failure);
        self.streams.end_streams(&mut self.messages, now, row, reason);
        self.peers_mut().end_row(now, row, reason);
        self.messages.recall_rows(now);
    }
}
