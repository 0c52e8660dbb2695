//! A small message that leaves as it is posted.
//!
//! Most messages are posted when nothing waits before them, and their frame could leave at once. Then there is no need to
//! put them in line, have the row take its turn, and describe the frame for a driver to gather: post and frame are one
//! step here, the frame's head is written where the driver wants it, and the driver puts the payload behind it.
//!
//! What this does is `post_send` and `write_lone` or `write_answer` (`quick_out`) in one; a message that cannot go this way
//! is refused with nothing changed, and posted in the usual way. PROTOCOL §7, §10.

use crate::base::api::{Payload, SendSpec};
use crate::base::sabotage::Sabotage;
use crate::base::types::{Instant, Locator, ReqId, Space};
use crate::bulk::Bulk;
use crate::bulk::outgoing::{Bytes, SEND_BIT, SendStage};
use crate::delivery::content::Content;
use crate::peers::acks::{note_ack_sent, plain_ack};
use crate::peers::rows::{Active, Row};
use crate::wire::{self, ACKED_EAGER_LEN, AckRepr, EagerRepr, LONE_EAGER_LEN, LONE_HEAD_LEN_MAX};

/// A frame whose head is written: the payload of its message follows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lone {
    /// The request.
    pub req: ReqId,
    /// Which local link.
    pub link: u8,
    /// Where to.
    pub to: Locator,
    /// Bytes of the head.
    pub head_len: usize,
}

/// How a message may leave.
pub(crate) struct Leave {
    active: u32,
    /// Which path.
    index: u8,
    /// The acknowledgement that goes with it.
    ack: Option<AckRepr>,
    head_len: usize,
    /// What it costs of the peer's credit.
    cost: u64,
}

impl Bulk {
    /// Posts a send and writes the head of its frame, which is sealed: the driver puts the payload behind it and sends it
    /// now. `None`, and nothing changed: `post_send` it.
    #[inline]
    pub(crate) fn post_lone(
        &mut self,
        now: Instant,
        spec: &SendSpec<'_>,
        head: &mut [u8; LONE_HEAD_LEN_MAX],
    ) -> Option<Lone> {
        if spec.space == Space::STREAMS {
            return None; // refused by `post_send`
        }
        let len = match spec.payload {
            Payload::InPlace { len, .. } => len,
            Payload::Copied(bytes) => bytes.len() as u64,
        };
        let leave = self.may_leave(now, spec, len)?;
        let bytes = match spec.payload {
            Payload::InPlace { buf, .. } => Bytes::User(buf),
            Payload::Copied(bytes) => self.copy_framed(bytes)?,
        };
        let lone = self.leave(now, spec, &leave, (bytes, len), head);
        if let Bytes::Frames { pool, .. } = bytes {
            let frame = &mut self.copied.bytes_mut(pool)[LONE_HEAD_LEN_MAX - lone.head_len..];
            frame[..lone.head_len].copy_from_slice(&head[..lone.head_len]);
        }
        Some(lone)
    }

    /// Posts what may leave, and writes the head of its frame.
    #[inline(always)]
    pub(crate) fn leave(
        &mut self,
        now: Instant,
        spec: &SendSpec<'_>,
        leave: &Leave,
        (bytes, len): (Bytes, u64),
        head: &mut [u8; LONE_HEAD_LEN_MAX],
    ) -> Lone {
        let row = spec.peer.row();
        let this = &mut self.peers.rows[row];
        let message = this.numbers.post();
        let path = &self.peers.actives[leave.active].paths[usize::from(leave.index)];
        let packet = path.flight().next_packet();
        let header = this.header(packet, leave.index);
        let eager = EagerRepr {
            space: spec.space,
            message: message as u32,
            tag: spec.tag,
            wants_match: false,
            len: len as u16,
        };
        let words = (eager, spec.immediate);
        let written_len =
            wire::write_lone_at(head, header, leave.ack.as_ref(), words, &this.seal(path));
        debug_assert_eq!(written_len, leave.head_len);
        let name = (leave.active, message);
        let key = self.enter(name, spec, (bytes, len), false, SendStage::Sent);
        let (link, to) = self.note_lone(now, row, leave, key, len as u32);
        Lone { req: ReqId(key | SEND_BIT), link, to, head_len: leave.head_len }
    }

    /// The peer of a message that may leave as it is posted, for all that this depends on the message and on who the peer is.
    #[inline(always)]
    pub(crate) fn peer_of_post(&self, spec: &SendSpec<'_>, len: u64) -> Option<(&Row, &Active)> {
        if len > u64::from(self.peers.settings.eager_len_max) || spec.until_matched {
            return None;
        }
        self.joined_of_post(spec)
    }

    /// The peer of a message that may leave as it is posted, for all that this depends on who the peer is.
    #[inline(always)]
    pub(crate) fn joined_of_post(&self, spec: &SendSpec<'_>) -> Option<(&Row, &Active)> {
        let peers = &self.peers;
        if !peers.may_be_quick() {
            return None;
        }
        let this = peers.rows.known(spec.peer).filter(|this| this.is_joined())?;
        Some((this, peers.actives.of(this)?))
    }

    /// Whether a message may leave as it is posted, and how.
    #[inline(always)]
    pub(crate) fn may_leave(&self, now: Instant, spec: &SendSpec<'_>, len: u64) -> Option<Leave> {
        let (this, active) = self.peer_of_post(spec, len)?;
        let is_sure = len <= u64::from(self.peers.settings.eager_sure_len_max);
        let is_copied = matches!(spec.payload, Payload::Copied(_));
        if !is_sure && (this.ahead.is_pausing() || active.must_ask(len, is_copied)) {
            return None;
        }
        let index = active.clear_path(now, len)?;
        let path = &active.paths[usize::from(index)];
        let cost = this.cost_of(this.numbers.next_out(), len as u32, active.credit)?;
        if path.payload_check() {
            return None;
        }
        let ack = self.riding_ack(now, active, index)?;
        let head_len = if ack.is_some() { ACKED_EAGER_LEN } else { LONE_EAGER_LEN };
        let head_len = head_len + 8 * usize::from(spec.immediate.is_some());
        let is_fitting = head_len + len as usize <= usize::from(path.frame_len());
        is_fitting.then_some(Leave { active: this.active(), index, ack, head_len, cost })
    }

    /// The acknowledgement that a message by this path takes with it, if one waits. `None`: it cannot go with one message alone.
    #[inline(always)]
    pub(crate) fn riding_ack(
        &self,
        now: Instant,
        active: &Active,
        index: u8,
    ) -> Option<Option<AckRepr>> {
        let Some(of) = active.ack_to_ride(index)? else { return Some(None) };
        if self.peers.saboteur.makes(Sabotage::AckOneTooHigh) {
            return None;
        }
        let acked = &active.paths[usize::from(of)];
        plain_ack(now, of, acked, self.credit_for_peers()).map(Some)
    }

    /// Its packet is in flight, and what went with it is said; the link and the place it goes to.
    #[inline(always)]
    fn note_lone(
        &mut self,
        now: Instant,
        row: u32,
        leave: &Leave,
        key: u64,
        len: u32,
    ) -> (u8, Locator) {
        let active = &mut self.peers.actives[leave.active];
        active.credit.on_sent(leave.cost);
        let path = &mut active.paths[usize::from(leave.index)];
        let way = (path.link(), *path.locator());
        let (slot, serial) = (key as u32, (key >> 32) as u32);
        let content = Content::Message { slot, serial, offset: 0, len };
        let frame_len = (leave.head_len + len as usize) as u16;
        let look_at = path.on_sent_one(now, content, frame_len, &self.peers.settings);
        if let Some(ack) = &leave.ack {
            let acked = &mut active.paths[usize::from(ack.path)];
            note_ack_sent(acked, row, &mut self.peers.timers, &mut self.peers.counters);
        }
        let timer_at = self.peers.rows[row].timer_at();
        let is_spent = self.peers.rows.first_ready() == row; // it had an acknowledgement to send, and nothing else
        self.peers.after_packet((row, timer_at), look_at, is_spent);
        way
    }
}
