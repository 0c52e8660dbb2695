//! Granted data leaves as a train, and so do the fragments of a message that needs no grant (`fragments`).
//!
//! PROTOCOL §10.1, §10.3. When nothing else of a row waits, granted bytes of one message leave as many frames at once: one
//! choice of path, one look at the window, one record in the flight, and heads that differ in two numbers. What is here
//! does for a train what `output` does for a frame; whoever says no has changed nothing, and `output` sees to it.

use alloc::vec::Vec;

use crate::base::api::Source;
use crate::base::slab::NONE;
use crate::base::types::{BufId, Instant, Locator};
use crate::bulk::Bulk;
use crate::bulk::outgoing::{Bytes, Parts};
use crate::delivery::content::Content;
use crate::delivery::path::Path;
use crate::wire::{self, DATA_FRAME_HEAD_LEN, Lane, TrainRepr};

/// Frames to send, one behind the other: heads as bytes, sealed, and payload to gather between them. Made once by the
/// driver and used again.
///
/// Frame `n` is `heads[n * head_len..][..head_len]`, then `payload_len` bytes (the last frame: `last_len`) from
/// `n * payload_len` behind `source`. The head of the last frame may be longer: it is all that is left of the heads.
#[derive(Clone, Debug)]
pub struct TxTrain {
    /// Which local link.
    pub link: u8,
    /// Where to.
    pub to: Locator,
    /// Header and head of each frame.
    pub heads: Vec<u8>,
    /// Bytes of one frame's header and head, but for the last.
    pub head_len: usize,
    /// Frames.
    pub count: usize,
    /// Where the first frame's payload starts.
    pub source: Source,
    /// Payload of each frame but the last.
    pub payload_len: u32,
    /// Payload of the last.
    pub last_len: u32,
    /// Nobody asked for it: it is short, and may be copied on its way. Granted data leaves from where it lies.
    pub is_unasked: bool,
}

impl TxTrain {
    /// Payload in all.
    pub fn len(&self) -> usize {
        self.count.saturating_sub(1) * self.payload_len as usize + self.last_len as usize
    }

    /// The frames: of each its head, and which bytes behind `source` are its payload.
    pub fn frames(&self) -> impl Iterator<Item = (&[u8], core::ops::Range<usize>)> {
        let (len, payload_len) = (self.len(), self.payload_len as usize);
        (0..self.count).map(move |number| {
            let (start, from) = (number * self.head_len, number * payload_len);
            match number + 1 == self.count {
                true => (&self.heads[start..], from..len),
                false => (&self.heads[start..start + self.head_len], from..from + payload_len),
            }
        })
    }

    /// Whether it has no payload: it was not written yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Default for TxTrain {
    fn default() -> Self {
        Self {
            link: 0,
            to: Locator::default(),
            heads: Vec::new(),
            head_len: DATA_FRAME_HEAD_LEN,
            count: 0,
            source: Source::Zero,
            payload_len: 0,
            last_len: 0,
            is_unasked: false,
        }
    }
}

/// Packets the flight notes as one run.
pub(crate) const RUN_COUNT_MAX: u64 = u16::MAX as u64;

/// A train that may leave now.
pub(crate) struct Plan {
    slot: u32,
    serial: u32,
    path: usize,
    buf: BufId,
    /// Where in it the message begins.
    base: u64,
    lane: Lane,
    message: u32,
    start: u64,
    /// Payload in all.
    len: u64,
    payload_len: u16,
    count: u64,
}

impl Bulk {
    /// Whether a train may leave; if not, nobody need look for one.
    #[inline]
    pub(crate) fn may_train(&self) -> bool {
        self.may_train
    }

    /// Packets of a path were acknowledged: which others are lost? What those carried may leave as a train.
    pub(crate) fn detect_lost(&mut self, now: Instant, row: u32, path_index: usize) {
        self.may_train |= self.peers.detect_lost(now, row, path_index);
    }

    /// Time has passed for the packets of a path. False: nothing is to be done for it.
    pub(crate) fn tend_flight(&mut self, now: Instant, row: u32, path_index: usize) -> bool {
        let tended = self.peers.tend_flight(now, row, path_index);
        self.may_train |= tended == Some(true);
        tended.is_some()
    }

    /// What waited for window or credit of a peer may leave.
    #[inline]
    pub(crate) fn go_on_sending(&mut self, row: u32, has_more: bool) {
        let active = self.peers.active_of(row);
        self.may_train |= active.line.has_more();
        if has_more || active.has_content() || active.line.has_granted() {
            self.peers.make_ready(row);
        }
    }

    /// What may leave now of a row, if that is a train.
    pub(crate) fn plan_train(
        &mut self,
        now: Instant,
        row: u32,
        count_max: u64,
        len_max: u64,
    ) -> Option<Plan> {
        let this = &self.peers.rows[row];
        let active = self.peers.actives.of_mut(this).filter(|_| this.is_joined())?;
        let (slot, serial) = loop {
            let Some((slot, serial)) = active.line.first_granted() else {
                // Rows behind this one may have granted data; if there is none, nobody has.
                self.may_train = !self.peers.rows.is_last_ready(row);
                return None;
            };
            if self.outgoing.holds(slot, serial) {
                break (slot, serial);
            }
            active.line.take_granted(); // ended meanwhile
        };
        let next = active.line.unsent();
        let is_last = next == NONE || this.numbers.holds_back(self.outgoing[next].message);
        if !is_last || !active.is_only_messages() {
            return None;
        }
        let unsent_len = self.parts.get(self.outgoing[slot].parts)?.unsent.missing_len();
        let (path_index, share) = active.path_of_train(now, unsent_len)?;
        let path = &active.paths[path_index];
        if path.payload_check() {
            return None;
        }
        let send = &mut self.outgoing[slot];
        let Bytes::User(buf) = send.bytes else { return None };
        let &Parts { lane, base, ref unsent, .. } = &self.parts[send.parts];
        let Some((start, end)) = unsent.first_gap() else {
            send.is_queued = false;
            active.line.take_granted();
            return None; // the next poll finds the next one
        };
        let len_max = len_max.max(self.peers.links.of(path.link()).train_len_max.into());
        let frame_len = u64::from(path.frame_len());
        let payload_len = frame_len - DATA_FRAME_HEAD_LEN as u64;
        let count = (end - start)
            .div_ceil(payload_len)
            .min(count_max)
            .min(len_max / frame_len)
            .min(RUN_COUNT_MAX)
            .min(TrainRepr::count_to_wrap(path.flight().next_packet()))
            .min(share.div_ceil(frame_len))
            .min(path.free_window().div_ceil(frame_len));
        if count == 0 {
            return None;
        }
        Some(Plan {
            slot,
            serial,
            path: path_index,
            buf,
            base,
            lane,
            message: send.message as u32,
            start,
            len: (end - start).min(count * payload_len),
            payload_len: payload_len as u16,
            count,
        })
    }

    /// Writes a train and takes note of it.
    pub(crate) fn start_train(&mut self, now: Instant, row: u32, plan: &Plan, train: &mut TxTrain) {
        let &Plan { slot, serial, len, count, payload_len, .. } = plan;
        let this = &self.peers.rows[row];
        let path = &self.peers.actives[this.active()].paths[plan.path];
        let packet = path.flight().next_packet();
        let last_len = (len - (count - 1) * u64::from(payload_len)) as u16;
        let repr = TrainRepr {
            header: this.header(packet, plan.path as u8),
            lane: plan.lane,
            message: plan.message,
            offset: plan.start,
            payload_len,
            last_len,
            count: count as usize,
        };
        wire::write_train(&mut train.heads, &repr, &self.peers.train_seal(this));
        (train.link, train.to) = (path.link(), *path.locator());
        (train.head_len, train.count) = (DATA_FRAME_HEAD_LEN, repr.count);
        train.source = Source::User { buf: plan.buf, offset: plan.base + plan.start };
        (train.payload_len, train.last_len) = (payload_len.into(), last_len.into());
        train.is_unasked = false;

        self.take_granted(row, plan);
        let content = Content::Data { slot, serial, offset: plan.start, len: len as u32 };
        let head_len = DATA_FRAME_HEAD_LEN as u16;
        let frame_len = head_len + if count == 1 { last_len } else { payload_len };
        self.on_train_sent(now, row, plan.path, content, (head_len, frame_len), count);
        if let Some(active) = self.peers.actives.of_mut(&self.peers.rows[row]) {
            active.paths.iter_mut().for_each(Path::stretch_ack);
        }
    }

    /// A train is written: it is noted in the flight, and others have their turn.
    pub(super) fn on_train_sent(
        &mut self,
        now: Instant,
        row: u32,
        path_index: usize,
        content: Content,
        (head_len, frame_len): (u16, u16),
        count: u64,
    ) {
        let active = self.peers.actives.of_mut(&self.peers.rows[row]).expect("planned");
        let path = &mut active.paths[path_index];
        let has_more = active.line.has_more();
        let look_at = path.on_sent_run(
            now,
            content,
            (head_len, frame_len),
            count as u16,
            &self.peers.settings,
        );
        // The peer acknowledges trains when it suits it, but here the rest waits for that: it is asked to do it now.
        if has_more && !path.has_window() {
            active.ask();
        }
        self.peers.counters.frames_out += count;
        // No path wanted anything else when the train was planned, but perhaps to acknowledge.
        let is_spent = !has_more && active.is_only_messages() && !active.must_acknowledge();
        // A train is a turn: other rows are served before the next.
        if is_spent {
            self.peers.rows.leave_ready();
        } else {
            self.peers.rows.step_back();
        }
        if look_at != Instant::NEVER {
            self.peers.arm(look_at, row);
        }
    }

    /// What is planned leaves. Who has less to go goes next, as with the grants; equals do not take turns, for the peer
    /// expects data where the last ended (PROTOCOL §8.8).
    fn take_granted(&mut self, row: u32, plan: &Plan) {
        let active = self.peers.actives.of_mut(&self.peers.rows[row]).expect("planned");
        active.line.take_granted();
        let send = &mut self.outgoing[plan.slot];
        let unsent = &mut self.parts[send.parts].unsent;
        unsent.take_front(plan.len);
        if unsent.is_empty() {
            send.is_queued = false;
            return;
        }
        let left = send.total - (plan.start + plan.len);
        let next_left =
            active.line.first_granted().filter(|next| self.outgoing.holds(next.0, next.1));
        let next_left = next_left.and_then(|(slot, _)| {
            let next = &self.outgoing[slot];
            let parts = self.parts.get(next.parts)?; // none if it was refused since
            parts.unsent.first_gap().map(|gap| next.total - gap.0)
        });
        match next_left.is_some_and(|next_left| next_left < left) {
            true => active.line.queue_granted(plan.slot, plan.serial),
            false => active.line.keep_turn(plan.slot, plan.serial),
        }
    }
}
