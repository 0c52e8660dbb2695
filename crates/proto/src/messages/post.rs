//! What the application asks for: sends, receives, probes, cancels.
//!
//! PROTOCOL §7, §9.3. A send becomes an `Outgoing`, in the order of its number in its peer's list, until the peer
//! accepted it (or matched it, or both sides gave up). Posts grow tables by the caller's own doing and never fail for
//! lack of a slot.

use crate::base::api::{
    Claim, Envelope, Event, Failure, Payload, PostError, RecvSpec, SendSpec, Use,
};
use crate::base::types::{BufId, Criteria, Instant, Memory, PeerId, ReqId, Space};
use crate::bulk::arrival::{Receive, Stage, number_key};
use crate::bulk::outgoing::OPERATION_BIT;
use crate::bulk::outgoing::{Bytes, Outgoing, SEND_BIT, SendStage, check_len};
use crate::bulk::train::TxTrain;
use crate::delivery::content::Content;
use crate::matching::EntryId;
use crate::messages::Messages;
use crate::messages::fragments::FRAGMENTED_LEN_MIN;
use crate::peers::choice::STREAMED_LEN_MIN;
use crate::peers::rows::Notice;
use crate::wire::{self, Lane};

impl Messages {
    #[inline(always)]
    pub(crate) fn post_send(
        &mut self,
        now: Instant,
        spec: SendSpec<'_>,
    ) -> Result<ReqId, PostError> {
        let (req, room) = self.put_in_line(now, &spec)?;
        if let (Some(slot), Payload::Copied(bytes)) = (room, spec.payload) {
            self.bulk.copied.bytes_mut(slot).copy_from_slice(bytes);
        }
        Ok(req)
    }

    pub(crate) fn post_copied(
        &mut self,
        now: Instant,
        spec: SendSpec<'_>,
        (count_max, len_max): (usize, usize),
        train: &mut TxTrain,
    ) -> Result<(ReqId, bool), PostError> {
        let (req, room) = self.put_in_line(now, &spec)?;
        let (Some(pool), Payload::Copied(bytes)) = (room, spec.payload) else {
            return Ok((req, false));
        };
        let row = spec.peer.row();
        let is_next = self.bulk.peers.rows.first_ready() == row
            && !self.bulk.peers.has_replies()
            && self.bulk.peers.active_of(row).unsent == req.0 as u32;
        // Of a message that has just been posted all fragments are written, or none.
        let is_written =
            is_next && self.write_fragments(now, row, count_max as u64, len_max as u64, train);
        debug_assert!(!is_written || train.len() == bytes.len());
        if !is_written || !self.bulk.keep_frames(req.0 as u32, pool, bytes, train) {
            self.bulk.copied.bytes_mut(pool).copy_from_slice(bytes);
        }
        Ok((req, is_written))
    }

    /// A send gets its number and its place, and room for its bytes if they are to be copied.
    #[inline(always)]
    fn put_in_line(
        &mut self,
        now: Instant,
        spec: &SendSpec<'_>,
    ) -> Result<(ReqId, Option<u32>), PostError> {
        if self.bulk.peers.is_closing() {
            return Err(PostError::Closing);
        }
        if spec.space == Space::STREAMS {
            return Err(PostError::ReservedSpace);
        }
        let row = spec.peer.row();
        let Some(this) = self.bulk.peers.rows.known(spec.peer) else {
            return Err(PostError::UnknownPeer);
        };
        let is_awake = this.is_awake();
        let (total, len_max) = match spec.payload {
            Payload::InPlace { len, .. } => (len, wire::TOTAL_MAX),
            Payload::Copied(bytes) => {
                (bytes.len() as u64, self.bulk.peers.settings.eager_len_max.into())
            }
        };
        check_len(total, len_max)?;
        if !is_awake {
            self.bulk.peers.wake(now, row);
        }
        let is_copied = matches!(spec.payload, Payload::Copied(_));
        let must_ask = self.must_ask(row, total, is_copied);
        let (bytes, room) = match spec.payload {
            Payload::InPlace { buf, .. } => (Bytes::User(buf), None),
            Payload::Copied(_) if must_ask => return Err(PostError::PoolFull), // from where it is
            Payload::Copied(bytes) => {
                let slot = self.bulk.copied.try_reserve(bytes.len()).ok_or(PostError::PoolFull)?;
                (Bytes::Pool(slot), Some(slot))
            }
        };
        if total >= FRAGMENTED_LEN_MIN {
            self.expect_frames(row, total);
        }
        Ok((self.enqueue(spec, bytes, total, must_ask), room))
    }

    /// A message may leave in several frames: a driver asks for trains again, and the next one as long may take a stream.
    #[inline(never)]
    fn expect_frames(&mut self, row: u32, total: u64) {
        self.bulk.may_train = true;
        if total >= STREAMED_LEN_MIN {
            self.bulk.peers.active_of_mut(row).wake_streams();
        }
    }

    /// Whether a message of this length to a row that is awake is announced, and not just sent (PROTOCOL §7.9).
    #[inline(always)]
    fn must_ask(&mut self, row: u32, total: u64, is_copied: bool) -> bool {
        total > u64::from(self.bulk.peers.settings.eager_len_max)
            || total > self.bulk.surely_unasked_len && self.must_ask_now(row, total, is_copied)
    }

    /// Whether a message is announced whose length alone does not decide it.
    #[inline(never)]
    fn must_ask_now(&mut self, row: u32, total: u64, is_copied: bool) -> bool {
        let may_be_fetched =
            total >= u64::from(self.bulk.peers.settings.fetch_len_min) && !is_copied;
        if may_be_fetched && self.bulk.is_fetched_by(row) {
            return true;
        }
        if total <= u64::from(self.bulk.peers.settings.eager_sure_len_max) {
            return false;
        }
        let this = &mut self.bulk.peers.rows[row];
        let active = self.bulk.peers.actives.get(this.active);
        active.is_some_and(|active| active.must_ask(total)) || this.ahead.asks_first()
    }

    /// Posts bytes that lie in the resend pool already, to a peer that is there: chunks of streams are filled in place.
    pub(crate) fn post_pooled(&mut self, now: Instant, spec: &SendSpec<'_>, slot: u32, len: u32) {
        if !self.bulk.peers.rows[spec.peer.row()].is_awake() {
            self.bulk.peers.wake(now, spec.peer.row());
        }
        self.enqueue(spec, Bytes::Pool(slot), u64::from(len), false);
    }

    /// Posts a send whose payload stays where it is.
    pub(crate) fn post_in_place(
        &mut self,
        now: Instant,
        spec: &SendSpec<'_>,
        buf: BufId,
        len: u32,
    ) -> ReqId {
        if !self.bulk.peers.rows[spec.peer.row()].is_awake() {
            self.bulk.peers.wake(now, spec.peer.row());
        }
        self.enqueue(spec, Bytes::User(buf), u64::from(len), false)
    }

    /// A send gets its number and its place behind the others to its peer, which is awake. A large one is announced.
    #[inline(always)]
    fn enqueue(&mut self, spec: &SendSpec<'_>, bytes: Bytes, total: u64, is_large: bool) -> ReqId {
        let row = spec.peer.row();
        let slot = self.bulk.outgoing.next_slot();
        let this = &mut self.bulk.peers.rows[row];
        let active = &mut **self.bulk.peers.actives.get_mut(this.active).expect("awake");
        let message = this.numbers.next_out;
        this.numbers.next_out += 1;
        let is_ready = this.is_ready;
        let previous = active.line().append(slot, SendStage::Waiting, &mut self.bulk.outgoing);
        let mut send = Outgoing::new(spec, (bytes, total), (message, previous), is_large);
        send.is_simple &= total <= u64::from(self.bulk.peers.settings.eager_sure_len_max);
        let key = self.bulk.outgoing.put(slot, send);
        if is_large || spec.until_matched {
            self.bulk.sends_by_number.insert(number_key(row, message as u32), slot);
        }
        self.bulk.peers.counters.messages_out += 1;
        if !is_ready {
            self.bulk.peers.rows.make_ready(row);
        }
        ReqId(key | SEND_BIT)
    }

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
        let slot = self.bulk.receives.next_slot();
        let entry = self.matcher.post(spec.list, &spec.criteria, slot);
        let key = self.bulk.receives.put(slot, Receive::new(&spec, Some(entry)));
        if !self.refused.is_empty() {
            self.kick_queries(now);
        }
        Ok(ReqId(key))
    }

    #[inline]
    pub(crate) fn may_have_for_receive(&self) -> bool {
        self.matcher.held_count() > 0 || !self.refused.is_empty()
    }

    /// A receive that names its source is posted: the source is looked after, for it may be gone. One look-up of the row does for the
    /// check and the count.
    #[inline(always)]
    fn note_directed(&mut self, now: Instant, source: Option<PeerId>) -> Result<(), PostError> {
        let Some(source) = source else { return Ok(()) };
        let at = self.bulk.peers.look_by(now);
        let Some(this) = self.bulk.peers.rows.known_mut(source) else {
            return Err(PostError::UnknownPeer);
        };
        this.directed_count += 1;
        if at < this.timer_at {
            self.bulk.peers.arm(at, source.row());
        }
        Ok(())
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
            && self.bulk.arrivals[arrival].is_plain()
        {
            self.matcher.release(held_id);
            return Ok(self.take_whole(now, arrival, spec, memory));
        }
        let (slot, key) = self.bulk.receives.insert_keyed(Receive::new(spec, None));
        if spec.uses == Use::Once {
            if let Some((_, arrival)) = found {
                self.take_held(arrival);
                self.match_arrival(now, arrival, slot, memory);
                return Ok(ReqId(key));
            }
        } else {
            self.fill_from_held(now, slot, &spec.criteria, memory);
            if self.bulk.receives.lookup(key).is_none_or(|slot| self.bulk.receives[slot].is_full())
            {
                return Ok(ReqId(key));
            }
        }
        self.bulk.receives[slot].entry = Some(self.matcher.post(spec.list, &spec.criteria, slot));
        let is_known = self.note_directed(now, spec.criteria.source);
        debug_assert!(is_known.is_ok(), "nobody is forgotten in a post");
        if !self.refused.is_empty() {
            self.kick_queries(now);
        }
        Ok(ReqId(key))
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
        self.bulk.receives[slot].in_use_count += 1;
        while !self.bulk.receives[slot].is_full() {
            let Some((_, arrival)) = self.matcher.search(criteria) else { break };
            self.take_held(arrival);
            self.match_arrival(now, arrival, slot, memory);
        }
        self.bulk.receives[slot].in_use_count -= 1;
        self.end_if_done(slot);
    }

    pub(crate) fn probe(&mut self, criteria: &Criteria) -> Option<Envelope> {
        let (_, arrival) = self.matcher.search(criteria)?;
        Some(self.bulk.arrivals[arrival].envelope())
    }

    pub(crate) fn claim(
        &mut self,
        _now: Instant,
        criteria: &Criteria,
    ) -> Option<(Claim, Envelope)> {
        let (_, arrival) = self.matcher.search(criteria)?;
        if self.bulk.arrivals[arrival].in_overflow {
            return None;
        }
        self.take_held(arrival);
        self.bulk.arrivals[arrival].stage = Stage::Claimed;
        Some((Claim(self.bulk.arrivals.key(arrival)), self.bulk.arrivals[arrival].envelope()))
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
        let slot = self.bulk.receives.insert(Receive::for_claim(
            &self.bulk.arrivals[arrival],
            buf,
            len,
            user,
        ));
        let req = ReqId(self.bulk.receives.key(slot));
        self.match_arrival(now, arrival, slot, memory);
        Ok(req)
    }

    pub(crate) fn discard(&mut self, now: Instant, claim: Claim) -> Result<(), PostError> {
        let arrival = self.claimed(claim)?;
        self.forget_claimed(now, arrival);
        Ok(())
    }

    fn claimed(&self, claim: Claim) -> Result<u32, PostError> {
        let arrival = self.bulk.arrivals.lookup(claim.0).ok_or(PostError::UnknownHandle)?;
        match self.bulk.arrivals[arrival].stage {
            Stage::Claimed | Stage::Orphaned(_) => Ok(arrival),
            _ => Err(PostError::UnknownHandle),
        }
    }

    pub(crate) fn cancel_unbound(&mut self, now: Instant, req: ReqId) -> bool {
        if req.0 & (SEND_BIT | OPERATION_BIT) != 0 {
            return false;
        }
        let is_waiting = |&slot: &u32| {
            self.bulk.receives[slot].is_once() && self.bulk.receives[slot].entry.is_some()
        };
        let Some(slot) = self.bulk.receives.lookup(req.0).filter(is_waiting) else { return false };
        self.cancel_receive(now, slot, Failure::Cancelled);
        true
    }

    pub(crate) fn unlink(&mut self, req: ReqId) -> bool {
        if req.0 & (SEND_BIT | OPERATION_BIT) != 0 {
            return false;
        }
        let is_many = |&slot: &u32| !self.bulk.receives[slot].is_once();
        let Some(slot) = self.bulk.receives.lookup(req.0).filter(is_many) else { return false };
        self.bulk.receives[slot].uses = Use::Many { free_len_min: u64::MAX };
        if let Some(entry) = self.bulk.receives[slot].entry.take() {
            self.unpost(slot, entry);
        }
        self.end_if_done(slot);
        true
    }

    /// The number of a cancelled message is filled by a Cancel record (PROTOCOL §7.8), so that the peer's turn goes on.
    pub(crate) fn cancel_send(&mut self, req: ReqId) -> bool {
        let Some(slot) = self.bulk.outgoing.lookup(req.0 & !SEND_BIT) else { return false };
        let send = &self.bulk.outgoing[slot];
        let is_supply =
            self.bulk.parts.get(send.parts).is_some_and(|parts| parts.lane != Lane::Message);
        if send.bytes.pool().is_some() || is_supply || send.space == Space::STREAMS {
            return false; // complete since its post, or part of something else
        }
        let (row, message) =
            (self.bulk.outgoing[slot].row, self.bulk.outgoing[slot].message as u32);
        self.bulk.end_send(slot, Err(Failure::Cancelled));
        let active = self.bulk.peers.active_of_mut(row);
        active.cancel_count += 1;
        active.control.push_back(Notice::Content(Content::Cancel { message }));
        self.bulk.peers.make_ready(row);
        true
    }

    /// Ends a receive before its message is whole.
    pub(crate) fn cancel_receive(&mut self, now: Instant, slot: u32, failure: Failure) {
        if let Some(entry) = self.bulk.receives[slot].entry.take() {
            self.unpost(slot, entry);
        }
        let swallowed = self.abandon_arrivals_of(now, slot);
        let req = ReqId(self.bulk.receives.key(slot));
        let receive = self.bulk.receives.remove(slot);
        let user = receive.user;
        self.bulk.peers.events.push_back(match swallowed {
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
            self.bulk.peers.rows[source.row()].directed_count -= 1;
        }
    }
}
