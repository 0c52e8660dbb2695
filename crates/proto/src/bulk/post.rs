//! What the application sends.
//!
//! PROTOCOL §7. A send becomes an `Outgoing`, in the order of its number in its peer's list, until the peer accepted it (or matched it, or both sides
//! gave up). Posts grow tables by the caller's own doing and never fail for lack of a slot.

use crate::base::api::{Failure, Payload, PostError, SendSpec};
use crate::base::types::{BufId, Instant, ReqId, Space};
use crate::bulk::Bulk;
use crate::bulk::arrival::number_key;
use crate::bulk::fragments::FRAGMENTED_LEN_MIN;
use crate::bulk::outgoing::{Bytes, Outgoing, SEND_BIT, SendStage, check_len};
use crate::bulk::train::TxTrain;
use crate::peers::choice::STREAMED_LEN_MIN;
use crate::wire::{self, Lane};

impl Bulk {
    #[inline(always)]
    pub(crate) fn post_send(
        &mut self,
        now: Instant,
        spec: SendSpec<'_>,
    ) -> Result<ReqId, PostError> {
        let (req, room) = self.put_in_line(now, &spec)?;
        if let (Some(slot), Payload::Copied(bytes)) = (room, spec.payload) {
            self.copied.bytes_mut(slot).copy_from_slice(bytes);
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
        let is_next = self.peers.rows.first_ready() == row
            && !self.peers.has_replies()
            && self.peers.active_of(row).line.unsent() == req.0 as u32;
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
        if self.peers.is_closing() {
            return Err(PostError::Closing);
        }
        if spec.space == Space::STREAMS {
            return Err(PostError::ReservedSpace);
        }
        let row = spec.peer.row();
        let Some(this) = self.peers.rows.known(spec.peer) else {
            return Err(PostError::UnknownPeer);
        };
        let is_awake = this.is_awake();
        let (total, len_max) = match spec.payload {
            Payload::InPlace { len, .. } => (len, wire::TOTAL_MAX),
            Payload::Copied(bytes) => {
                (bytes.len() as u64, self.peers.settings.eager_len_max.into())
            }
        };
        check_len(total, len_max)?;
        if !is_awake {
            self.peers.wake(now, row);
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
            self.peers.active_of_mut(row).wake_streams();
        }
    }

    /// Whether a message of this length to a row that is awake is announced, and not just sent (PROTOCOL §7.9).
    #[inline(always)]
    fn must_ask(&mut self, row: u32, total: u64, is_copied: bool) -> bool {
        total > u64::from(self.peers.settings.eager_len_max)
            || total > self.surely_unasked_len && self.must_ask_now(row, total, is_copied)
    }

    /// Whether a message is announced whose length alone does not decide it.
    #[inline(never)]
    fn must_ask_now(&mut self, row: u32, total: u64, is_copied: bool) -> bool {
        let may_be_fetched = total >= u64::from(self.peers.settings.fetch_len_min) && !is_copied;
        if may_be_fetched && self.is_fetched_by(row) {
            return true;
        }
        if total <= u64::from(self.peers.settings.eager_sure_len_max) {
            return false;
        }
        let this = &mut self.peers.rows[row];
        let active = self.peers.actives.of(this);
        active.is_some_and(|active| active.must_ask(total, is_copied)) || this.ahead.asks_first()
    }

    /// Posts bytes that lie in the resend pool already, to a peer that is there: chunks of streams are filled in place.
    pub(crate) fn post_pooled(&mut self, now: Instant, spec: &SendSpec<'_>, slot: u32, len: u32) {
        if !self.peers.rows[spec.peer.row()].is_awake() {
            self.peers.wake(now, spec.peer.row());
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
        if !self.peers.rows[spec.peer.row()].is_awake() {
            self.peers.wake(now, spec.peer.row());
        }
        self.enqueue(spec, Bytes::User(buf), u64::from(len), false)
    }

    /// A send gets its number and its place behind the others to its peer, which is awake. A large one is announced.
    #[inline(always)]
    fn enqueue(&mut self, spec: &SendSpec<'_>, bytes: Bytes, total: u64, is_large: bool) -> ReqId {
        let row = spec.peer.row();
        let this = &mut self.peers.rows[row];
        let (active, is_ready) = (this.active(), this.is_ready());
        let message = this.numbers.post();
        let key = self.enter((active, message), spec, (bytes, total), is_large, SendStage::Waiting);
        if !is_ready {
            self.peers.rows.make_ready(row);
        }
        ReqId(key | SEND_BIT)
    }

    /// A message that leaves with its post, or waits for its turn, is the last of its peer's from now on. Its key.
    #[inline(always)]
    pub(crate) fn enter(
        &mut self,
        (active, message): (u32, u64),
        spec: &SendSpec<'_>,
        (bytes, total): (Bytes, u64),
        is_large: bool,
        stage: SendStage,
    ) -> u64 {
        let slot = self.outgoing.next_slot();
        let active = self.peers.actives.get_mut(active).expect("awake");
        let previous = active.line.append(slot, stage == SendStage::Waiting, &mut self.outgoing);
        let send = Outgoing::new(spec, (bytes, total), (message, previous), is_large);
        let is_simple =
            send.is_simple && total <= u64::from(self.peers.settings.eager_sure_len_max);
        let key = self.outgoing.put(slot, Outgoing { stage, is_simple, ..send });
        if is_large || spec.until_matched {
            self.sends_by_number.insert(number_key(spec.peer.row(), message as u32), slot);
        }
        self.peers.counters.messages_out += 1;
        key
    }

    /// A message whose announcement a link in memory has taken is posted (PROTOCOL §7.10). Nothing of it goes ahead.
    #[inline]
    pub(crate) fn post_announced(
        &mut self,
        spec: &SendSpec<'_>,
        (buf, len): (BufId, u64),
    ) -> ReqId {
        let row = spec.peer.row();
        let this = &mut self.peers.rows[row];
        let name = (this.active(), this.numbers.post());
        let key = self.enter(name, spec, (Bytes::User(buf), len), true, SendStage::Sent);
        let send = &mut self.outgoing[key as u32];
        self.peers.rows[row].ahead.announce_given(&mut send.announced);
        ReqId(key | SEND_BIT)
    }

    /// The number of a cancelled message is filled by a Cancel record (PROTOCOL §7.8), so that the peer's turn goes on.
    pub(crate) fn cancel_send(&mut self, req: ReqId) -> bool {
        let Some(slot) = self.outgoing.lookup(req.0 & !SEND_BIT) else { return false };
        let send = &self.outgoing[slot];
        let is_supply = self.parts.get(send.parts).is_some_and(|parts| parts.lane != Lane::Message);
        if send.bytes.pool().is_some() || is_supply || send.space == Space::STREAMS {
            return false; // complete since its post, or part of something else
        }
        let (row, message) = (self.outgoing[slot].row, self.outgoing[slot].message as u32);
        self.end_send(slot, Err(Failure::Cancelled));
        self.peers.notify_cancelled(row, message);
        true
    }
}
