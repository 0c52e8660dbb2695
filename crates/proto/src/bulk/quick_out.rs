//! The common frames, out: whole small messages, with the acknowledgement that waits, and acknowledgements alone.
//!
//! As in `endpoint/quick`, these do what `output` would do, without asking for all that could be but is not.

use crate::base::api::{Piece, TxFrame};
use crate::base::sabotage::Sabotage;
use crate::base::slab::{NONE, Slab};
use crate::base::types::Instant;
use crate::bulk::Bulk;
use crate::bulk::outgoing::{Outgoing, SendStage};
use crate::delivery::content::Content;
use crate::delivery::credit::Credit;
use crate::delivery::frame::{start, start_sealed};
use crate::peers::acks::{note_ack_sent, plain_ack};
use crate::peers::rows::{Active, Row};
use crate::wire::{
    self, ACKED_EAGER_LEN, CHECK_HEAD_LEN, HEADER_LEN, LONE_EAGER_LEN, Writer, ack_head_len,
    eager_head_len,
};
use alloc::vec::Vec;

impl Bulk {
    /// A frame of whole messages to a joined peer over its only path, or the main one while no other wants anything
    /// (`endpoint/output`).
    #[inline(always)]
    pub(crate) fn write_quick(&mut self, now: Instant, row: u32, tx: &mut TxFrame) -> bool {
        self.write_lone(now, row, None, tx)
    }

    /// A frame of whole messages to a peer with several paths. A function of its own, so that the only path of other peers is a constant.
    #[inline(never)]
    fn write_quick_main(&mut self, now: Instant, row: u32, tx: &mut TxFrame) -> bool {
        let active = self.peers.active_of(row);
        active.are_paths_calm_but_for_acks(now) && {
            let main = active.main();
            self.write_lone(now, row, Some(main), tx)
        }
    }

    /// On this path, or if there is only one on that.
    #[inline(always)]
    fn write_lone(&mut self, now: Instant, row: u32, main: Option<u8>, tx: &mut TxFrame) -> bool {
        let this = &mut self.peers.rows[row];
        let Some(active) = self.peers.actives.of_mut(this) else {
            return false;
        };
        let index = match main {
            Some(main) => main,
            None if active.paths.len() == 1 => 0,
            None => return self.write_quick_main(now, row, tx),
        };
        if !this.is_joined() || !active.is_plain(usize::from(index)) {
            return false;
        }
        let riding = match main {
            None => Some((active.paths[0].owes_ack()).then_some(0)),
            Some(_) => active.ack_of_many(index),
        };
        let (slot, path) = (active.line.unsent(), &mut active.paths[usize::from(index)]);
        let (serial, send) = self.outgoing.get_with_serial(slot);
        if send.next != NONE || send.immediate.is_some() || path.payload_check() {
            return self.write_plain(now, row, index, tx);
        }
        match riding {
            None => return false,
            Some(Some(of)) => return self.write_answer(now, row, (index, of), tx),
            Some(None) => {}
        }
        let Some(cost) = may_go(send, this, active.credit) else { return false };
        let len = send.total as u32;
        let frame_len = LONE_EAGER_LEN + len as usize;
        if frame_len > usize::from(path.frame_len()) {
            return false;
        }
        start_sealed(tx, path.link(), path.locator());
        let packet = path.flight().next_packet();
        let header = this.header(packet, index);
        wire::write_lone_eager(&mut tx.head, header, send.eager(), &this.seal(path));
        tx.body_len = len as usize;
        put_whole(&mut tx.body, send, len);
        active.credit.on_sent(cost);
        active.line.on_sent_up_to(NONE);
        let is_spent = !active.line.has_granted(); // plain, and nothing left: it need not be asked again
        let content = Content::Message { slot, serial, offset: 0, len };
        let look_at = path.on_sent_one(now, content, frame_len as u16, &self.peers.settings);
        let timer_at = this.timer_at();
        self.peers.after_packet((row, timer_at), look_at, is_spent);
        true
    }

    /// A frame of one simple message and the acknowledgement that is pending, `of` this path. The row is plain.
    #[inline(never)]
    fn write_answer(
        &mut self,
        now: Instant,
        row: u32,
        (index, of): (u8, u8),
        tx: &mut TxFrame,
    ) -> bool {
        let share = self.credit_for_peers();
        let this = &mut self.peers.rows[row];
        let active = self.peers.actives.of_mut(this).expect("plain");
        let Some(ack) = plain_ack(now, of, &active.paths[usize::from(of)], share) else {
            return false;
        };
        let path = &mut active.paths[usize::from(index)];
        let slot = active.line.unsent();
        let (serial, send) = self.outgoing.get_with_serial(slot);
        let Some(cost) = may_go(send, this, active.credit) else { return false };
        let len = send.total as u32;
        let frame_len = ACKED_EAGER_LEN + len as usize;
        if frame_len > usize::from(path.frame_len())
            || self.peers.saboteur.makes(Sabotage::AckOneTooHigh)
        {
            return false;
        }
        start_sealed(tx, path.link(), path.locator());
        let packet = path.flight().next_packet();
        let header = this.header(packet, index);
        wire::write_acked_eager(&mut tx.head, header, &ack, send.eager(), &this.seal(path));
        tx.body_len = len as usize;
        put_whole(&mut tx.body, send, len);
        active.credit.on_sent(cost);
        active.line.on_sent_up_to(NONE);
        let is_spent = !active.line.has_granted();
        let content = Content::Message { slot, serial, offset: 0, len };
        let look_at = path.on_sent_one(now, content, frame_len as u16, &self.peers.settings);
        let acked = &mut active.paths[usize::from(of)];
        note_ack_sent(acked, row, &mut self.peers.timers, &mut self.peers.counters);
        let timer_at = this.timer_at();
        self.peers.after_packet((row, timer_at), look_at, is_spent);
        true
    }

    /// A frame of several messages, or of one that is not quite as simple, with or without an acknowledgement. The row is
    /// plain.
    #[inline(never)]
    fn write_plain(&mut self, now: Instant, row: u32, index: u8, tx: &mut TxFrame) -> bool {
        let share = self.credit_for_peers();
        let this = &mut self.peers.rows[row];
        let active = self.peers.actives.of_mut(this).expect("plain");
        let Some(riding) = active.ack_to_ride(index) else { return false };
        let ack = riding.and_then(|of| plain_ack(now, of, &active.paths[usize::from(of)], share));
        let has_ack = ack.is_some();
        if has_ack != riding.is_some()
            || has_ack && self.peers.saboteur.makes(Sabotage::AckOneTooHigh)
        {
            return false;
        }
        let path = &mut active.paths[usize::from(index)];
        let is_checked = path.payload_check();
        // Whether anything can go is asked before anything is changed.
        let send = &self.outgoing[active.line.unsent()];
        if may_go(send, this, active.credit).is_none() {
            return false;
        }
        // Only now: a large message may be longer than can be added to.
        let len = HEADER_LEN
            + usize::from(is_checked) * CHECK_HEAD_LEN
            + usize::from(has_ack) * ack_head_len(0)
            + eager_head_len(send.immediate.is_some())
            + send.total as usize;
        if len > usize::from(path.frame_len()) {
            return false;
        }
        let packet = path.flight().next_packet();
        start(tx, path.link(), path.locator(), this.secret(), packet);
        let header = this.header(packet, index);
        let mut writer = Writer::begin(&mut tx.head, header);
        if is_checked {
            writer.check();
        }
        if let Some(ack) = &ack {
            writer.ack(ack, &[]);
        }
        tx.body_len =
            write_run(&mut writer, &mut tx.body, this, (active, index), &mut self.outgoing);
        let is_spent = !active.line.has_more();
        let path = &mut active.paths[usize::from(index)];
        let look_at = path.on_sent(now, (tx.head.len() + tx.body_len) as u16, &self.peers.settings);
        if let Some(of) = riding {
            let acked = &mut active.paths[usize::from(of)];
            note_ack_sent(acked, row, &mut self.peers.timers, &mut self.peers.counters);
        }
        let timer_at = this.timer_at();
        self.peers.after_packet((row, timer_at), look_at, is_spent);
        true
    }

    /// A frame that is nothing but an acknowledgement without holes (`Peers::write_acks`).
    #[inline(never)]
    pub(crate) fn write_quick_ack(&mut self, now: Instant, row: u32, tx: &mut TxFrame) -> bool {
        let peer_count = self.peers.actives.count();
        let this = &mut self.peers.rows[row];
        let Some(active) = self.peers.actives.of_mut(this) else {
            return false;
        };
        let is_alone = !active.line.has_unsent() && active.is_only_messages();
        let Some(index) = active.quick_path(now).filter(|_| is_alone) else { return false };
        let path = &mut active.paths[usize::from(index)];
        if !this.is_joined()
            || !path.is_ack_urgent()
            || path.back() != index
            || self.peers.saboteur.makes(Sabotage::AckOneTooHigh)
        {
            return false;
        }
        // Of single fields, for the path is borrowed; and only now, for most rows have no such frame.
        let share = self.held.share_of(peer_count);
        let Some(ack) = plain_ack(now, index, path, share) else {
            return false;
        };
        let packet = path.flight().next_packet();
        start(tx, path.link(), path.locator(), this.secret(), packet);
        let header = this.header(packet, index);
        let mut writer = Writer::begin(&mut tx.head, header);
        if path.payload_check() {
            writer.check();
        }
        writer.ack(&ack, &[]);
        path.on_sent_unasked(now, tx.head.len() as u16);
        note_ack_sent(path, row, &mut self.peers.timers, &mut self.peers.counters);
        let (timer_at, is_spent) = (this.timer_at(), !active.line.has_granted());
        self.peers.after_packet((row, timer_at), Instant::NEVER, is_spent);
        true
    }
}

/// As many whole messages as may go and fit, of which there is one at least; the length of their payload.
#[inline(always)]
fn write_run(
    writer: &mut Writer<'_>,
    body: &mut Vec<Piece>,
    this: &Row,
    (active, index): (&mut Active, u8),
    outgoing: &mut Slab<Outgoing>,
) -> usize {
    let path = &mut active.paths[usize::from(index)];
    let frame_len = usize::from(path.frame_len());
    let mut body_len = 0;
    let (mut slot, credit) = (active.line.unsent(), &mut active.credit);
    while slot != NONE {
        let (serial, send) = outgoing.get_with_serial(slot);
        let Some(cost) = may_go(send, this, *credit) else { break };
        let len = send.total as u32;
        let head_len = eager_head_len(send.immediate.is_some());
        if writer.len() + body_len + head_len + len as usize > frame_len {
            break;
        }
        writer.eager(send.eager(), send.immediate);
        put_whole(body, send, len);
        path.add(Content::Message { slot, serial, offset: 0, len });
        body_len += len as usize;
        credit.on_sent(cost);
        slot = send.next;
    }
    active.line.on_sent_up_to(slot);
    body_len
}

/// The payload of a whole message, so long, goes behind its head, and the message counts as sent.
#[inline(always)]
fn put_whole(body: &mut Vec<Piece>, send: &mut Outgoing, len: u32) {
    if len > 0 {
        body.push(Piece { source: send.source(0), len });
    }
    send.stage = SendStage::Sent;
}

/// What a message costs of the peer's credit, if it goes in one piece and may go now (`write_message`).
#[inline(always)]
fn may_go(send: &Outgoing, this: &Row, credit: Credit) -> Option<u64> {
    let is_whole = !send.is_large && send.parts == NONE && send.stage == SendStage::Waiting;
    if !is_whole {
        return None;
    }
    this.cost_of(send.message, send.total as u32, credit)
}
