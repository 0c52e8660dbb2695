//! What the application asks for: sends, receives, probes, cancels.
//!
//! PROTOCOL §7, §9.3. A send becomes an `Outgoing`, in the order of its number in its peer's list, until the peer
//! accepted it (or matched it, or both sides gave up). Posts grow tables by the caller's own doing and never fail for
//! lack of a slot.

use crate::base::api::{
    Claim, Envelope, Event, Failure, Payload, PostError, RecvSpec, SendSpec, Use,
};
use crate::base::slab::NONE;
use crate::base::types::{BufId, Criteria, Instant, Memory, PeerId, ReqId, Space};
use crate::bulk::arrival::{Receive, Stage, number_key};
use crate::bulk::outgoing::OPERATION_BIT;
use crate::bulk::outgoing::{Bytes, Outgoing, SEND_BIT, SendStage, check_len};
use crate::bulk::train::TxTrain;
use crate::delivery::content::Content;
use crate::endpoint::Endpoint;
use crate::matching::EntryId;
use crate::messages::fragments::FRAGMENTED_LEN_MIN;
use crate::peers::choice::STREAMED_LEN_MIN;
use crate::peers::rows::{Notice, Phase};
use crate::wire::{self, Lane};

impl Endpoint {
    /// Posts a send. In-place payload belongs to the endpoint until the `Sent` event; copied payload is the
    /// caller's again on return, and has no event but that of a failure (`Event::Lost`).
    pub fn post_send(&mut self, now: Instant, spec: SendSpec<'_>) -> Result<ReqId, PostError> {
        let (req, room) = self.put_in_line(now, &spec)?;
        if let (Some(slot), Payload::Copied(bytes)) = (room, spec.payload) {
            self.copied.bytes_mut(slot).copy_from_slice(bytes);
        }
        Ok(req)
    }

    /// Posts a send of bytes that are to be copied. If all of it may leave now its frames are written, which is told: the driver sends them,
    /// as they are kept (`copied_frames`) if they are, else with the bytes it has.
    pub fn post_copied(
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
        let is_next = self.rows.first_ready() == row
            && self.replies.is_empty()
            && self.actives[self.rows[row].active].unsent == req.0 as u32;
        // Of a message that has just been posted all fragments are written, or none.
        let is_written =
            is_next && self.write_fragments(now, row, count_max as u64, len_max as u64, train);
        debug_assert!(!is_written || train.len() == bytes.len());
        if !is_written || !self.keep_frames(req.0 as u32, pool, bytes, train) {
            self.copied.bytes_mut(pool).copy_from_slice(bytes);
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
        if self.closing.is_some() {
            return Err(PostError::Closing);
        }
        if spec.space == Space::STREAMS {
            return Err(PostError::ReservedSpace);
        }
        let row = spec.peer.row();
        let Some(this) = self.rows.known(spec.peer) else {
            return Err(PostError::UnknownPeer);
        };
        let is_awake = this.is_awake();
        let (total, len_max) = match spec.payload {
            Payload::InPlace { len, .. } => (len, wire::TOTAL_MAX),
            Payload::Copied(bytes) => (bytes.len() as u64, self.settings.eager_len_max.into()),
        };
        check_len(total, len_max)?;
        if !is_awake {
            self.wake(now, row);
        }
        let is_copied = matches!(spec.payload, Payload::Copied(_));
        let must_ask = self.must_ask(row, total, is_copied);
        let (bytes, room) = match spec.payload {
            Payload::InPlace { buf, .. } => (Bytes::User(buf), None),
            Payload::Copied(_) if must_ask => return Err(PostError::PoolFull), // from where it is
            Payload::Copied(bytes) => {
                let slot = self.copied.try_reserve(bytes.len()).ok_or(PostError::PoolFull)?;
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
        self.may_train = true;
        if total >= STREAMED_LEN_MIN {
            self.actives[self.rows[row].active].wake_streams();
        }
    }

    /// Whether a message of this length to a row that is awake is announced, and not just sent (PROTOCOL §7.9).
    #[inline(always)]
    fn must_ask(&mut self, row: u32, total: u64, is_copied: bool) -> bool {
        total > u64::from(self.settings.eager_len_max)
            || total > self.surely_unasked_len && self.must_ask_now(row, total, is_copied)
    }

    /// The same for what may go unasked, but not whatever happens.
    #[inline(never)]
    fn must_ask_now(&mut self, row: u32, total: u64, is_copied: bool) -> bool {
        let may_be_fetched = total >= u64::from(self.settings.fetch_len_min) && !is_copied;
        if may_be_fetched && self.is_fetched_by(row) {
            return true;
        }
        if total <= u64::from(self.settings.eager_sure_len_max) {
            return false;
        }
        let this = &mut self.rows[row];
        let active = self.actives.get(this.active);
        active.is_some_and(|active| active.must_ask(total)) || this.ahead.asks_first()
    }

    /// Posts bytes that lie in the resend pool already, to a peer that is there: chunks of streams are filled in place.
    pub(crate) fn post_pooled(&mut self, now: Instant, spec: &SendSpec<'_>, slot: u32, len: u32) {
        if !self.rows[spec.peer.row()].is_awake() {
            self.wake(now, spec.peer.row());
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
        if !self.rows[spec.peer.row()].is_awake() {
            self.wake(now, spec.peer.row());
        }
        self.enqueue(spec, Bytes::User(buf), u64::from(len), false)
    }

    /// A send gets its number and its place behind the others to its peer, which is awake. A large one is announced.
    #[inline(always)]
    fn enqueue(&mut self, spec: &SendSpec<'_>, bytes: Bytes, total: u64, is_large: bool) -> ReqId {
        let row = spec.peer.row();
        let slot = self.outgoing.next_slot();
        let this = &mut self.rows[row];
        let active = &mut **self.actives.get_mut(this.active).expect("awake");
        let message = this.message_out;
        this.message_out += 1;
        let is_ready = this.is_ready;
        let previous = active.line().append(slot, SendStage::Waiting, &mut self.outgoing);
        let mut send = Outgoing::new(spec, (bytes, total), (message, previous), is_large);
        send.is_simple &= total <= u64::from(self.settings.eager_sure_len_max);
        let key = self.outgoing.put(slot, send);
        if is_large || spec.until_matched {
            self.sends_by_number.insert(number_key(row, message as u32), slot);
        }
        self.counters.messages_out += 1;
        if !is_ready {
            self.rows.make_ready(row);
        }
        ReqId(key | SEND_BIT)
    }

    /// A row without an association gets one; a row at rest its active record.
    #[cold]
    #[inline(never)]
    pub(crate) fn wake(&mut self, now: Instant, row: u32) {
        if self.rows[row].phase == Phase::Idle {
            self.begin_contact(now, row);
        }
        self.activate(row);
    }

    #[inline(never)]
    pub(crate) fn copy_payload(&mut self, bytes: &[u8]) -> Result<Bytes, PostError> {
        let slot = self.copied.try_reserve(bytes.len()).ok_or(PostError::PoolFull)?;
        self.copied.bytes_mut(slot).copy_from_slice(bytes);
        Ok(Bytes::Pool(slot))
    }

    /// Takes a send out of its peer's list and tells the application, unless its payload was copied. A good end says how many bytes
    /// were taken.
    pub(crate) fn end_send(&mut self, slot: u32, result: Result<u64, Failure>) {
        let req = ReqId(self.outgoing.key(slot) | SEND_BIT);
        let send = self.outgoing.remove(slot);
        let active = &mut *self.actives[self.rows[send.row].active];
        active.line().unlink(slot, &send, &mut self.outgoing);
        if send.parts != NONE {
            self.parts.remove(send.parts);
        }
        let was_sure = send.total <= u64::from(self.settings.eager_sure_len_max);
        self.rows[send.row].ahead.on_ended(&send, was_sure, &mut self.ahead_sum);
        if send.is_large || send.until_matched || send.stage == SendStage::Pulled {
            self.sends_by_number.remove(&number_key(send.row, send.message as u32));
        }
        send.tell_end(req, result, &mut self.copied, &mut self.events);
    }

    /// Posts a receive. Its memory belongs to the endpoint until the request's last event.
    pub fn post_recv(
        &mut self,
        now: Instant,
        spec: RecvSpec,
        memory: &mut impl Memory,
    ) -> Result<ReqId, PostError> {
        if self.closing.is_some() {
            return Err(PostError::Closing);
        }
        if spec.criteria.space == Space::STREAMS {
            return Err(PostError::ReservedSpace);
        }
        if self.matcher.held_count() > 0 && spec.list == crate::base::api::List::Priority {
            return self.post_recv_beside_held(now, &spec, memory);
        }
        self.note_directed(now, spec.criteria.source)?;
        let slot = self.receives.next_slot();
        let entry = self.matcher.post(spec.list, &spec.criteria, slot);
        let key = self.receives.put(slot, Receive::new(&spec, Some(entry)));
        if !self.refused.is_empty() {
            self.kick_queries(now);
        }
        Ok(ReqId(key))
    }

    /// Whether a receive posted now may find a message, here or at a peer that was refused. If not, its time matters little.
    #[inline]
    pub fn may_have_for_receive(&self) -> bool {
        self.matcher.held_count() > 0 || !self.refused.is_empty()
    }

    /// Something of a peer's is waited for: it is asked now and then whether it lives (PROTOCOL §4.2).
    #[inline(always)]
    pub(crate) fn look_after(&mut self, now: Instant, row: u32) {
        let at = self.look_by(now);
        if at < self.rows[row].timer_at {
            self.arm(at, row);
        }
    }

    /// When a peer of whom something is waited for is asked at the latest.
    #[inline(always)]
    fn look_by(&self, now: Instant) -> Instant {
        now + self.settings.gone_after_ns / 4
    }

    /// A receive that names its source is posted: the source is looked after, for it may be gone. One look-up of the row does for the
    /// check and the count.
    #[inline(always)]
    fn note_directed(&mut self, now: Instant, source: Option<PeerId>) -> Result<(), PostError> {
        let Some(source) = source else { return Ok(()) };
        let at = self.look_by(now);
        let Some(this) = self.rows.known_mut(source) else { return Err(PostError::UnknownPeer) };
        this.directed_count += 1;
        if at < this.timer_at {
            self.arm(at, source.row());
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
        if spec.criteria.source.is_some_and(|source| self.rows.known(source).is_none()) {
            return Err(PostError::UnknownPeer);
        }
        let found = match spec.uses {
            Use::Once => self.matcher.search(&spec.criteria),
            Use::Many { .. } => None,
        };
        if let Some((held_id, arrival)) = found
            && !spec.header_only
            && self.may_be_quick()
            && self.arrivals[arrival].is_plain()
        {
            self.matcher.release(held_id);
            return Ok(self.take_whole(now, arrival, spec, memory));
        }
        let (slot, key) = self.receives.insert_keyed(Receive::new(spec, None));
        if spec.uses == Use::Once {
            if let Some((_, arrival)) = found {
                self.take_held(arrival);
                self.match_arrival(now, arrival, slot, memory);
                return Ok(ReqId(key));
            }
        } else {
            self.fill_from_held(now, slot, &spec.criteria, memory);
            if self.receives.lookup(key).is_none_or(|slot| self.receives[slot].is_full()) {
                return Ok(ReqId(key));
            }
        }
        self.receives[slot].entry = Some(self.matcher.post(spec.list, &spec.criteria, slot));
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
        self.receives[slot].in_use_count += 1;
        while !self.receives[slot].is_full() {
            let Some((_, arrival)) = self.matcher.search(criteria) else { break };
            self.take_held(arrival);
            self.match_arrival(now, arrival, slot, memory);
        }
        self.receives[slot].in_use_count -= 1;
        self.end_if_done(slot);
    }

    /// The first unexpected message a receive with these criteria would take.
    pub fn probe(&mut self, criteria: &Criteria) -> Option<Envelope> {
        let (_, arrival) = self.matcher.search(criteria)?;
        Some(self.arrivals[arrival].envelope())
    }

    /// Takes the first unexpected message out of the list, for `recv_claimed` or `discard`. Messages that lie in an
    /// overflow entry's memory cannot be claimed: they are found by posting.
    pub fn claim(&mut self, _now: Instant, criteria: &Criteria) -> Option<(Claim, Envelope)> {
        let (_, arrival) = self.matcher.search(criteria)?;
        if self.arrivals[arrival].in_overflow {
            return None;
        }
        self.take_held(arrival);
        self.arrivals[arrival].stage = Stage::Claimed;
        Some((Claim(self.arrivals.key(arrival)), self.arrivals[arrival].envelope()))
    }

    /// Receives a claimed message.
    pub fn recv_claimed(
        &mut self,
        now: Instant,
        claim: Claim,
        buf: BufId,
        len: u64,
        user: u64,
        memory: &mut impl Memory,
    ) -> Result<ReqId, PostError> {
        let arrival = self.claimed(claim)?;
        let slot =
            self.receives.insert(Receive::for_claim(&self.arrivals[arrival], buf, len, user));
        let req = ReqId(self.receives.key(slot));
        self.match_arrival(now, arrival, slot, memory);
        Ok(req)
    }

    /// Forgets a claimed message; for its sender it counts as received.
    pub fn discard(&mut self, now: Instant, claim: Claim) -> Result<(), PostError> {
        let arrival = self.claimed(claim)?;
        self.forget_claimed(now, arrival);
        Ok(())
    }

    fn claimed(&self, claim: Claim) -> Result<u32, PostError> {
        let arrival = self.arrivals.lookup(claim.0).ok_or(PostError::UnknownHandle)?;
        match self.arrivals[arrival].stage {
            Stage::Claimed | Stage::Orphaned(_) => Ok(arrival),
            _ => Err(PostError::UnknownHandle),
        }
    }

    /// Cancels a request. Its memory is the caller's again on return; its event says `Cancelled`. False if it has
    /// ended already.
    pub fn cancel(&mut self, now: Instant, req: ReqId) -> bool {
        if req.0 & SEND_BIT != 0 {
            return self.cancel_send(req);
        }
        if req.0 & OPERATION_BIT != 0 {
            return self.cancel_operation(req);
        }
        // Places of transfers are in the same list and nobody's request, whatever number an application comes up with.
        let is_posted = |&slot: &u32| !self.receives[slot].is_transfer;
        let Some(slot) = self.receives.lookup(req.0).filter(is_posted) else { return false };
        self.cancel_receive(now, slot, Failure::Cancelled);
        true
    }

    /// Takes back a receive that no message was bound to; it ends as cancelled. False: a message is arriving into it or has, or it is no
    /// receive. For interfaces whose cancel must not cost a message.
    pub fn cancel_unbound(&mut self, now: Instant, req: ReqId) -> bool {
        if req.0 & (SEND_BIT | OPERATION_BIT) != 0 {
            return false;
        }
        let is_waiting =
            |&slot: &u32| self.receives[slot].is_once() && self.receives[slot].entry.is_some();
        let Some(slot) = self.receives.lookup(req.0).filter(is_waiting) else { return false };
        self.cancel_receive(now, slot, Failure::Cancelled);
        true
    }

    /// Takes an entry used many times out of matching. It ends as one that is full does, when what is arriving into it has arrived: no
    /// message is lost by it. False if it has ended already, or is none.
    pub fn unlink(&mut self, req: ReqId) -> bool {
        if req.0 & (SEND_BIT | OPERATION_BIT) != 0 {
            return false;
        }
        let is_many = |&slot: &u32| !self.receives[slot].is_once();
        let Some(slot) = self.receives.lookup(req.0).filter(is_many) else { return false };
        self.receives[slot].uses = Use::Many { free_len_min: u64::MAX };
        if let Some(entry) = self.receives[slot].entry.take() {
            self.unpost(slot, entry);
        }
        self.end_if_done(slot);
        true
    }

    /// The number of a cancelled message is filled by a Cancel record (PROTOCOL §7.8), so that the peer's turn goes on.
    fn cancel_send(&mut self, req: ReqId) -> bool {
        let Some(slot) = self.outgoing.lookup(req.0 & !SEND_BIT) else { return false };
        let send = &self.outgoing[slot];
        let is_supply = self.parts.get(send.parts).is_some_and(|parts| parts.lane != Lane::Message);
        if send.bytes.pool().is_some() || is_supply || send.space == Space::STREAMS {
            return false; // complete since its post, or part of something else
        }
        let (row, message) = (self.outgoing[slot].row, self.outgoing[slot].message as u32);
        self.end_send(slot, Err(Failure::Cancelled));
        let active = &mut self.actives[self.rows[row].active];
        active.cancel_count += 1;
        active.control.push_back(Notice::Content(Content::Cancel { message }));
        self.make_ready(row);
        true
    }

    /// Ends a receive before its message is whole.
    pub(crate) fn cancel_receive(&mut self, now: Instant, slot: u32, failure: Failure) {
        if let Some(entry) = self.receives[slot].entry.take() {
            self.unpost(slot, entry);
        }
        let swallowed = self.abandon_arrivals_of(now, slot);
        let req = ReqId(self.receives.key(slot));
        let receive = self.receives.remove(slot);
        let user = receive.user;
        self.events.push_back(match swallowed {
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
        if let Some(source) = self.receives[slot].source {
            self.rows[source.row()].directed_count -= 1;
        }
    }
}
