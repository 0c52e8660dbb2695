//! A small message that leaves as it is posted.
//!
//! Most messages are posted when nothing waits before them, and their frame could leave at once. Then there is no need to
//! put them in line, have the row take its turn, and describe the frame for a driver to gather: post and frame are one
//! step here, the frame's head is written where the driver wants it, and the driver puts the payload behind it.
//!
//! What this does is `post_send` and `write_lone` or `write_answer` (`quick`) in one; a message that cannot go this way
//! is refused with nothing changed, and posted in the usual way. PROTOCOL §7, §10.

use crate::base::api::{Payload, SendSpec};
use crate::base::sabotage::Sabotage;
use crate::base::slab::NONE;
use crate::base::types::{Instant, Locator, ReqId, Space};
use crate::bulk::outgoing::{Bytes, Outgoing, SEND_BIT, SendStage};
use crate::delivery::content::Content;
use crate::delivery::path::Path;
use crate::endpoint::Endpoint;
use crate::endpoint::quick_out::{note_ack_sent, plain_ack};
use crate::messages::turns::eager_cost;
use crate::peers::rows::{Active, Phase};
use crate::wire::{
    self, ACKED_EAGER_LEN, AckRepr, EagerRepr, Header, LONE_EAGER_LEN, LONE_HEAD_LEN_MAX,
};

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

impl Endpoint {
    /// Posts a send and writes the head of its frame, which is sealed: the driver puts the payload behind it and sends it
    /// now. `None`, and nothing changed: `post_send` it.
    #[inline]
    pub fn post_lone(
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
        let this = &mut self.rows[row];
        let message = this.message_out;
        this.message_out += 1;
        let path = &self.actives[leave.active].paths[usize::from(leave.index)];
        let packet = path.flight.next_packet();
        let header = Header { to: this.remote_id, packet, path: leave.index, form: this.version };
        let eager = EagerRepr {
            space: spec.space,
            message: message as u32,
            tag: spec.tag,
            wants_match: false,
            len: len as u16,
        };
        let words = (eager, spec.immediate);
        let written_len =
            wire::write_lone_at(head, header, leave.ack.as_ref(), words, this.proof(path));
        debug_assert_eq!(written_len, leave.head_len);
        let key = self.enter_lone(leave.active, message, spec, (bytes, len));
        let (link, to) = self.note_lone(now, row, leave, key, len as u32);
        Lone { req: ReqId(key | SEND_BIT), link, to, head_len: leave.head_len }
    }

    /// Whether a message may leave as it is posted, and how.
    #[inline(always)]
    pub(crate) fn may_leave(&self, now: Instant, spec: &SendSpec<'_>, len: u64) -> Option<Leave> {
        if len > u64::from(self.settings.eager_len_max)
            || spec.until_matched
            || !self.may_be_quick()
        {
            return None;
        }
        let this = self.rows.known(spec.peer)?;
        if this.phase != Phase::Joined || this.message_out >= this.held_from || this.active == NONE
        {
            return None;
        }
        let active = &*self.actives[this.active];
        let is_sure = len <= u64::from(self.settings.eager_sure_len_max);
        if !is_sure && (this.ahead.is_pausing() || active.must_ask(len)) {
            return None;
        }
        let index = active.clear_path(now, len)?;
        let path = &active.paths[usize::from(index)];
        let cost = eager_cost(len as u32);
        if path.payload_check || !active.credit.allows(cost) {
            return None;
        }
        let ack = match active.ack_to_ride(index)? {
            None => None,
            Some(_) if self.saboteur.makes(Sabotage::AckOneTooHigh) => return None,
            Some(of) => {
                let acked = &active.paths[usize::from(of)];
                Some(plain_ack(now, of, acked, self.credit_for_peers())?)
            }
        };
        let head_len = if ack.is_some() { ACKED_EAGER_LEN } else { LONE_EAGER_LEN };
        let head_len = head_len + 8 * usize::from(spec.immediate.is_some());
        let is_fitting = head_len + len as usize <= usize::from(path.frame_len);
        is_fitting.then_some(Leave { active: this.active, index, ack, head_len, cost })
    }

    /// Enters it as the last of its peer's messages, and as sent; its key.
    #[inline(always)]
    fn enter_lone(
        &mut self,
        active: u32,
        message: u64,
        spec: &SendSpec<'_>,
        (bytes, len): (Bytes, u64),
    ) -> u64 {
        let slot = self.outgoing.next_slot();
        let stage = SendStage::Sent;
        let previous = self.actives[active].line().append(slot, stage, &mut self.outgoing);
        let send = Outgoing::new(spec, (bytes, len), (message, previous), false);
        let is_simple = send.is_simple && len <= u64::from(self.settings.eager_sure_len_max);
        self.outgoing.put(slot, Outgoing { stage, is_simple, ..send })
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
        let active = &mut *self.actives[leave.active];
        active.credit.on_sent(leave.cost);
        let path = &mut active.paths[usize::from(leave.index)];
        let way = (path.link, path.locator);
        let (slot, serial) = (key as u32, (key >> 32) as u32);
        let content = Content::Message { slot, serial, offset: 0, len };
        let frame_len = (leave.head_len + len as usize) as u16;
        let look_at = path.on_sent_one(now, content, frame_len, &self.settings);
        if let Some(ack) = &leave.ack {
            let acked = &mut active.paths[usize::from(ack.path)];
            note_ack_sent(acked, row, &mut self.ack_timers, &mut self.counters);
        }
        self.counters.messages_out += 1;
        let timer_at = self.rows[row].timer_at;
        let is_spent = self.rows.first_ready() == row; // it had an acknowledgement to send, and nothing else
        self.after_packet((row, timer_at), look_at, is_spent);
        way
    }
}

impl Active {
    /// Which path's acknowledgement a message by this path takes with it: one that is due, else that of its own path, else any that is
    /// pending; the others wait for their time. `None`: two are due, and only one can ride (PROTOCOL §10.5).
    #[inline(always)]
    pub(crate) fn ack_to_ride(&self, index: u8) -> Option<Option<u8>> {
        let is_owing = self.paths[usize::from(index)].ack_pending_count > 0;
        if self.paths.len() == 1 {
            Some(is_owing.then_some(index))
        } else {
            self.ack_of_many(index)
        }
    }

    /// The same where there are several paths.
    #[inline(never)]
    pub(crate) fn ack_of_many(&self, index: u8) -> Option<Option<u8>> {
        let owing = || (0_u8..).zip(&self.paths).filter(|(_, path)| path.ack_pending_count > 0);
        let mut due = owing().filter(|(_, path)| path.ack_at_once).map(|it| it.0);
        let (first, second) = (due.next(), due.next());
        let own = || owing().find(|&(of, _)| of == index).or_else(|| owing().next()).map(|it| it.0);
        second.is_none().then(|| first.or_else(own))
    }

    /// The main path, or for a message that is longer than its frames that of the longest.
    fn clear_path_of_many(&self, now: Instant, len: u64) -> Option<u8> {
        if !self.are_paths_calm_but_for_acks(now) {
            return None;
        }
        let main = self.main;
        let room = usize::from(self.paths[usize::from(main)].frame_len) - LONE_HEAD_LEN_MAX;
        if len as usize <= room { Some(main) } else { self.path_of_longest() }
    }

    /// The path for a small message, if nothing at all waits before it.
    #[inline(always)]
    pub(crate) fn clear_path(&self, now: Instant, len: u64) -> Option<u8> {
        let index = if self.paths.len() == 1 { 0 } else { self.clear_path_of_many(now, len)? };
        let path: &Path = &self.paths[usize::from(index)];
        let is_clear = self.unsent == NONE
            && self.granted.is_empty()
            && self.is_only_messages()
            && !path.wants_ping()
            && path.has_window();
        is_clear.then_some(index)
    }
}
