//! The common frames, out and in: whole small messages between peers who know each other, and their acknowledgements, with
//! nothing else waiting.
//!
//! These functions do what `output` and `input` would do, without asking for all that could be but is not: what must not
//! be so is asked first, in one place, and whoever says no has changed nothing. A row, its active record and its path
//! are looked up once, and everything is done on the borrowed parts. That is why they are apart: one can hold them
//! against the general rules, which stand in the module named at each step.

use crate::api::{Envelope, Event, Piece, TxFrame};
use crate::content::Content;
use crate::endpoint::Endpoint;
use crate::input::{FIRST_PACKETS, Origin};
use crate::output::start;
use crate::path::AckDue;
use crate::peer::{Active, Phase, Row, row_of_id};
use crate::post::{Outgoing, SEND_BIT, SendStage};
use crate::sabotage::Sabotage;
use crate::slab::NONE;
use crate::turns::eager_cost;
use crate::types::{Instant, Locator, Memory, PeerId, Place, ReqId};
use crate::wire::{
    self, AckRepr, AckView, Header, LONE_EAGER_LEN, LoneMessage, Writer, eager_head_len,
};

impl Endpoint {
    /// A frame of whole messages to a joined peer over its only path (`Endpoint::write_packet`).
    #[inline(always)]
    pub(crate) fn write_quick(&mut self, now: Instant, row: u32, tx: &mut TxFrame) -> bool {
        let this = &mut self.rows[row];
        let Some(active) = self.actives.get_mut(this.active) else { return false };
        let active = &mut **active;
        if this.phase != Phase::Joined || !active.is_plain() {
            return false;
        }
        let (slot, path) = (active.unsent, &mut active.paths[0]);
        let (serial, send) = self.outgoing.get_with_serial(slot);
        if send.next != NONE || send.immediate.is_some() || self.settings.payload_check {
            return self.write_batch(now, row, tx);
        }
        let Some(cost) = may_go(send, this, active.eager_in_flight, active.credit_len) else {
            return false;
        };
        let len = send.total as u32;
        let frame_len = LONE_EAGER_LEN + len as usize;
        if frame_len > usize::from(path.frame_len) {
            return false;
        }
        start(tx, path.link, &path.locator, this.secret);
        let packet = path.flight.next_packet() as u32;
        let header = Header { to: this.remote_id, packet, path: 0, form: this.version };
        wire::write_lone_eager(&mut tx.head, header, send.eager(), this.secret);
        tx.is_sealed = true;
        if len > 0 {
            tx.body.push(Piece { source: send.source(0), len });
        }
        tx.body_len = len as usize;
        send.stage = SendStage::Sent;
        active.eager_in_flight += cost;
        active.unsent = NONE;
        let content = Content::Message { slot, serial, offset: 0, len };
        let was_empty = path.flight.is_empty();
        path.flight.on_sent_one(now, content, frame_len as u16);
        self.counters.frames_out += 1;
        if active.granted.is_empty() {
            self.rows.leave_ready(); // plain, and nothing left: it need not be asked again
        }
        if was_empty {
            self.arm_flight(row, 0);
        }
        true
    }

    /// A frame that is nothing but an acknowledgement without holes (`Endpoint::write_acks`).
    #[inline(never)]
    pub(crate) fn write_quick_ack(&mut self, now: Instant, row: u32, tx: &mut TxFrame) -> bool {
        let credit_len = self.credit_for_peers();
        let this = &mut self.rows[row];
        let Some(active) = self.actives.get_mut(this.active) else { return false };
        let active = &mut **active;
        let is_alone = active.unsent == NONE && active.is_only_messages();
        let [path] = &mut active.paths[..] else { return false };
        if this.phase != Phase::Joined
            || !is_alone
            || !path.ack_at_once
            || self.saboteur.makes(Sabotage::AckOneTooHigh)
        {
            return false;
        }
        let Some(ack) = path.received.ack_without_holes(now) else { return false };
        start(tx, path.link, &path.locator, this.secret);
        let packet = path.flight.next_packet() as u32;
        let header = Header { to: this.remote_id, packet, path: 0, form: this.version };
        let mut writer = Writer::begin(&mut tx.head, header);
        if self.settings.payload_check {
            writer.check();
        }
        let (largest, first_len, delay_ns) = (ack.largest as u32, ack.first_len, ack.delay_ns);
        writer.ack(&AckRepr { path: 0, largest, first_len, delay_ns, credit_len }, &[]);
        path.flight.on_sent(now, tx.head.len() as u16);
        path.on_ack_sent();
        self.counters.acks_out += 1;
        self.counters.frames_out += 1;
        if active.granted.is_empty() {
            self.rows.leave_ready();
        }
        true
    }

    /// The same for several messages, or one that is not quite as simple. The row is plain.
    #[inline(never)]
    fn write_batch(&mut self, now: Instant, row: u32, tx: &mut TxFrame) -> bool {
        let this = &mut self.rows[row];
        let active = &mut *self.actives[this.active];
        let path = &mut active.paths[0];
        start(tx, path.link, &path.locator, this.secret);
        let packet = path.flight.next_packet() as u32;
        let header = Header { to: this.remote_id, packet, path: 0, form: this.version };
        let mut writer = Writer::begin(&mut tx.head, header);
        if self.settings.payload_check {
            writer.check();
        }
        let frame_len = usize::from(path.frame_len);
        let (mut body_len, was_empty) = (0, path.flight.is_empty());
        while active.unsent != NONE {
            let slot = active.unsent;
            let (serial, send) = self.outgoing.get_with_serial(slot);
            let room = frame_len.saturating_sub(writer.len() + body_len);
            let Some(cost) = may_go(send, this, active.eager_in_flight, active.credit_len) else {
                break;
            };
            let len = send.total as u32;
            if eager_head_len(send.immediate.is_some()) + len as usize > room {
                break;
            }
            writer.eager(send.eager(), send.immediate);
            if len > 0 {
                tx.body.push(Piece { source: send.source(0), len });
            }
            send.stage = SendStage::Sent;
            path.flight.add(Content::Message { slot, serial, offset: 0, len });
            body_len += len as usize;
            active.eager_in_flight += cost;
            active.unsent = send.next;
        }
        if path.flight.building_count() == 0 {
            return false;
        }
        tx.body_len = body_len;
        path.flight.on_sent(now, (tx.head.len() + body_len) as u16);
        self.counters.frames_out += 1;
        if active.unsent == NONE && active.granted.is_empty() {
            self.rows.leave_ready();
        }
        if was_empty {
            self.arm_flight(row, 0);
        }
        true
    }
}

/// What a message costs of the peer's credit, if it goes in one piece and may go now (`Endpoint::write_message`).
#[inline(always)]
fn may_go(send: &Outgoing, this: &Row, in_flight: u64, credit_len: u64) -> Option<u64> {
    let cost = eager_cost(send.total as u32);
    let is_whole = !send.is_large && send.parts == NONE && send.stage == SendStage::Waiting;
    let has_credit = in_flight == 0 || in_flight + cost <= credit_len;
    (is_whole && has_credit && send.message < this.held_from).then_some(cost)
}

impl Endpoint {
    /// A frame that is one whole small message, next in every respect, for a receive that is posted and waits for
    /// just one (`Endpoint::on_row_frame`, `on_message`, `take_entry`). False if it is not that.
    #[inline(always)]
    pub(crate) fn on_quick(
        &mut self,
        now: Instant,
        link: u8,
        from: &Locator,
        lone: LoneMessage<'_>,
        memory: &mut impl Memory,
    ) -> bool {
        let LoneMessage { header, head, body, crc } = lone;
        let row = row_of_id(header.to);
        let Some(this) = self.rows.get_any_mut(row) else { return false };
        // A row keeps no version that we do not speak.
        if this.local_id != header.to
            || this.phase != Phase::Joined
            || this.version != header.form
            || this.message_in as u32 != head.message
            || this.message_in >= this.refused_from
            || this.arrival_count != 0
            || head.wants_match
            || self.saboteur.makes(Sabotage::TruncatedCopy)
        {
            return false;
        }
        let Some(active) = self.actives.get_mut(this.active) else { return false };
        let active = &mut **active;
        let Some(path) = active.paths.get_mut(usize::from(header.path)) else { return false };
        let packet = path.received.largest() + 1;
        // A low half of 0 is an unnumbered frame's.
        if header.packet != packet as u32
            || header.packet == 0
            || path.locator != *from
            || path.link != link
        {
            return false;
        }
        let found = self.matcher.find(head.space, head.tag, PeerId(row));
        let Some((entry, token)) = found else { return false };
        if !self.receives[token].is_simple {
            return false;
        }
        if crc.is_some_and(|crc| memory.crc32c(0, body) != crc) {
            return false; // damaged
        }

        self.matcher.unlink_found(entry);
        let req = ReqId(self.receives.key(token));
        let receive = self.receives.remove(token);
        let placed_len = receive.len.min(body.len() as u64);
        memory.place(Place { buf: receive.buf, offset: 0 }, &body[..placed_len as usize]);
        let envelope = Envelope {
            source: PeerId(row),
            space: head.space,
            tag: head.tag,
            immediate: None,
            len: body.len() as u64,
        };
        let (user, result) = (receive.user, Ok(()));
        self.events.push_back(Event::Received {
            req,
            user,
            envelope,
            offset: 0,
            placed_len,
            result,
        });

        this.message_in += 1;
        this.heard_at = now;
        active.welcome = false; // the peer has joined
        if receive.criteria.source.is_some() {
            this.directed_count -= 1;
        }
        self.counters.frames_in += 1;
        self.counters.messages_in += 1;
        self.counters.bytes_placed += placed_len;
        path.received.record_next(now);
        match path.owe_ack(now, packet <= FIRST_PACKETS, &self.settings) {
            AckDue::Now => self.rows.make_ready(row),
            AckDue::At(at) => self.ack_timers.push_back((at, row)),
            AckDue::Known => {}
        }
        true
    }
}

impl Endpoint {
    /// A frame that is one Ack, next in order (`Endpoint::on_row_frame`). False if it is not that.
    #[inline]
    pub(crate) fn on_quick_ack(
        &mut self,
        now: Instant,
        origin: &Origin,
        header: Header,
        ack: &AckView<'_>,
    ) -> bool {
        let row = row_of_id(header.to);
        let Some(this) = self.rows.get_any_mut(row) else { return false };
        let Some(active) = self.actives.get_mut(this.active) else { return false };
        let active = &mut **active;
        let Some(path) = active.paths.get_mut(usize::from(header.path)) else { return false };
        let packet = path.received.largest() + 1;
        if this.local_id != header.to
            || this.phase != Phase::Joined
            || this.version != header.form
            || header.packet != packet as u32
            || header.packet == 0
            || path.locator != origin.from
            || path.link != origin.link
        {
            return false;
        }
        this.heard_at = now;
        active.welcome = false;
        path.received.record_next(now); // nobody waits for its acknowledgement
        self.counters.frames_in += 1;
        self.on_ack(now, row, ack);
        true
    }
}

impl Endpoint {
    /// A message that went in one piece and is over when it is accepted was accepted (`Endpoint::end_send`).
    #[inline(always)]
    pub(crate) fn end_quick(&mut self, active: u32, slot: u32, serial: u32, len: u32) -> bool {
        let Some(send) = self.outgoing.get_held(slot, serial) else { return false };
        if !send.is_simple || send.parts != NONE || send.stage == SendStage::Pulled {
            return false;
        }
        let Outgoing { row, user, previous, next, .. } = *send;
        let req = ReqId(u64::from(serial) << 32 | u64::from(slot) | SEND_BIT);
        self.outgoing.remove(slot);
        let active = &mut **self.actives.get_mut(active).expect("it has something in flight");
        active.eager_in_flight = active.eager_in_flight.saturating_sub(eager_cost(len));
        if active.unsent == slot {
            active.unsent = next;
        }
        match previous {
            NONE => active.first = next,
            previous => self.outgoing[previous].next = next,
        }
        match next {
            NONE => active.last = previous,
            next => self.outgoing[next].previous = previous,
        }
        self.events.push_back(Event::Sent { req, user, peer: PeerId(row), result: Ok(()) });
        true
    }
}

impl Active {
    /// One path, open, and nothing waiting but messages.
    #[inline]
    fn is_plain(&self) -> bool {
        let [path] = &self.paths[..] else { return false };
        self.unsent != NONE
            && self.is_only_messages()
            && path.ack_pending_count == 0
            && path.has_window()
    }

    /// One path, and nothing waiting but messages and acknowledgements.
    #[inline]
    fn is_only_messages(&self) -> bool {
        let [path] = &self.paths[..] else { return false };
        self.control.is_empty()
            && self.resend.is_empty()
            && !(self.welcome || self.ping || path.probe_now)
            && path.frame_probe_at() == Instant::NEVER
    }
}
