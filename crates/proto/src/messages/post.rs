//! What the application asks for to receive: receives, probes, claims, cancels.
//!
//! PROTOCOL §7, §9.3. Posts grow tables by the caller's own doing and never fail for lack of a slot. What it sends is posted in `bulk/post`.

use crate::base::api::{Claim, Envelope, Event, Failure, PostError, RecvSpec, Use};
use crate::base::types::{BufId, Criteria, Instant, Memory, PeerId, ReqId, Space};
use crate::bulk::outgoing::{OPERATION_BIT, SEND_BIT};
use crate::matching::EntryId;
use crate::messages::Messages;

impl Messages {
    pub(crate) fn post_recv(
        &mut self,
        now: Instant,
        spec: RecvSpec,
        memory: &mut impl Memory,
    ) -> Result<ReqId, PostError> {
        if self.bulk.peers.is_closing() {
            return Err(PostError::Closing);
        }
        if spec.criteria.space == Space::STREAMS {
            return Err(PostError::ReservedSpace);
        }
        if self.matcher.held_count() > 0 && spec.list == crate::base::api::List::Priority {
            return self.post_recv_beside_held(now, &spec, memory);
        }
        self.note_directed(now, spec.criteria.source)?;
        let enter = |slot| self.matcher.post(spec.list, &spec.criteria, slot);
        let req = self.bulk.receives.post(&spec, enter);
        if !self.refused.is_empty() {
            self.kick_queries(now);
        }
        Ok(req)
    }

    #[inline]
    pub(crate) fn may_have_for_receive(&self) -> bool {
        self.matcher.held_count() > 0 || !self.refused.is_empty()
    }

    /// A receive that names its source is posted.
    #[inline(always)]
    fn note_directed(&mut self, now: Instant, source: Option<PeerId>) -> Result<(), PostError> {
        let Some(source) = source else { return Ok(()) };
        if self.bulk.peers.on_directed(now, source) { Ok(()) } else { Err(PostError::UnknownPeer) }
    }

    /// Posts a receive of the priority list when messages are held which it may take.
    #[inline(never)]
    fn post_recv_beside_held(
        &mut self,
        now: Instant,
        spec: &RecvSpec,
        memory: &mut impl Memory,
    ) -> Result<ReqId, PostError> {
        if spec.criteria.source.is_some_and(|source| self.bulk.peers.rows.known(source).is_none()) {
            return Err(PostError::UnknownPeer);
        }
        let found = match spec.uses {
            Use::Once => self.matcher.search(&spec.criteria),
            Use::Many { .. } => None,
        };
        if let Some((held_id, arrival)) = found
            && !spec.header_only
            && self.bulk.peers.may_be_quick()
            && self.ends.is_idle()
            && self.bulk.arrival(arrival).is_plain()
        {
            self.matcher.release(held_id);
            return Ok(self.take_whole(now, arrival, spec, memory));
        }
        let (slot, req) = self.bulk.receives.open(spec);
        if spec.uses == Use::Once {
            if let Some((_, arrival)) = found {
                self.take_held(arrival);
                self.match_arrival(now, arrival, slot, memory);
                return Ok(req);
            }
        } else {
            self.fill_from_held(now, slot, &spec.criteria, memory);
            let left = self.bulk.receives.find(req);
            if left.is_none_or(|slot| self.bulk.receives[slot].is_full()) {
                return Ok(req);
            }
        }
        let entry = self.matcher.post(spec.list, &spec.criteria, slot);
        self.bulk.receives.on_listed(slot, entry);
        let is_known = self.note_directed(now, spec.criteria.source);
        debug_assert!(is_known.is_ok(), "nobody is forgotten in a post");
        if !self.refused.is_empty() {
            self.kick_queries(now);
        }
        Ok(req)
    }

    /// An entry used many times takes what is already here before it is posted.
    fn fill_from_held(
        &mut self,
        now: Instant,
        slot: u32,
        criteria: &Criteria,
        memory: &mut impl Memory,
    ) {
        // While it fills it must not end: it counts as posted until the caller decides.
        self.bulk.receives.keep(slot);
        while !self.bulk.receives[slot].is_full() {
            let Some((_, arrival)) = self.matcher.search(criteria) else { break };
            self.take_held(arrival);
            self.match_arrival(now, arrival, slot, memory);
        }
        self.bulk.receives.unbind(slot);
        self.end_if_done(slot);
    }

    pub(crate) fn probe(&mut self, criteria: &Criteria) -> Option<Envelope> {
        let (_, arrival) = self.matcher.search(criteria)?;
        Some(self.bulk.arrival(arrival).envelope())
    }

    pub(crate) fn claim(
        &mut self,
        _now: Instant,
        criteria: &Criteria,
    ) -> Option<(Claim, Envelope)> {
        let (_, arrival) = self.matcher.search(criteria)?;
        if self.bulk.arrival(arrival).in_overflow {
            return None;
        }
        self.take_held(arrival);
        Some((self.bulk.claim(arrival), self.bulk.arrival(arrival).envelope()))
    }

    pub(crate) fn recv_claimed(
        &mut self,
        now: Instant,
        claim: Claim,
        buf: BufId,
        len: u64,
        user: u64,
        memory: &mut impl Memory,
    ) -> Result<ReqId, PostError> {
        let arrival = self.claimed(claim)?;
        let source = self.bulk.arrival(arrival).source;
        let (slot, req) = self.bulk.receives.open_for_claim(source, buf, len, user);
        self.match_arrival(now, arrival, slot, memory);
        Ok(req)
    }

    pub(crate) fn discard(&mut self, now: Instant, claim: Claim) -> Result<(), PostError> {
        let arrival = self.claimed(claim)?;
        self.forget_claimed(now, arrival);
        Ok(())
    }

    fn claimed(&self, claim: Claim) -> Result<u32, PostError> {
        self.bulk.claimed(claim).ok_or(PostError::UnknownHandle)
    }

    pub(crate) fn cancel_unbound(&mut self, now: Instant, req: ReqId) -> bool {
        if req.0 & (SEND_BIT | OPERATION_BIT) != 0 {
            return false;
        }
        let is_waiting = |&slot: &u32| {
            self.bulk.receives[slot].is_once() && self.bulk.receives[slot].is_posted()
        };
        let Some(slot) = self.bulk.receives.find(req).filter(is_waiting) else { return false };
        self.cancel_receive(now, slot, Failure::Cancelled);
        true
    }

    pub(crate) fn unlink(&mut self, req: ReqId) -> bool {
        if req.0 & (SEND_BIT | OPERATION_BIT) != 0 {
            return false;
        }
        let is_many = |&slot: &u32| !self.bulk.receives[slot].is_once();
        let Some(slot) = self.bulk.receives.find(req).filter(is_many) else { return false };
        if let Some(entry) = self.bulk.receives.fill_up(slot) {
            self.unpost(slot, entry);
        }
        self.end_if_done(slot);
        true
    }

    /// Ends a receive before its message is whole.
    pub(crate) fn cancel_receive(&mut self, now: Instant, slot: u32, failure: Failure) {
        if let Some(entry) = self.bulk.receives.leave(slot) {
            self.unpost(slot, entry);
        }
        let swallowed = self.abandon_arrivals_of(now, slot);
        let (req, receive) = self.bulk.receives.take(slot);
        let user = receive.user;
        self.bulk.peers.events.tell(match swallowed {
            // Bound already: the message is spent, and the application may want to know which.
            Some(envelope) if receive.is_once() => Event::Received {
                req,
                user,
                envelope,
                offset: 0,
                placed_len: 0,
                result: Err(failure),
            },
            _ => Event::Unlinked { req, user, source: receive.source, failure: Some(failure) },
        });
    }

    /// Takes a receive out of the posted lists.
    pub(crate) fn unpost(&mut self, slot: u32, entry: EntryId) {
        self.matcher.unlink(entry);
        if let Some(source) = self.bulk.receives[slot].source {
            self.bulk.peers.rows[source.row()].ties.on_directed_over();
        }
    }
}
