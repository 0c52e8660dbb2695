//! The common frame, out and in: whole small messages between peers who know each other, with nothing else waiting.
//!
//! Both functions do what `output` and `input` would do, without asking for all that could be but is not: what must not
//! be so is asked first, in one place, and whoever says no has changed nothing. A row, its active record and its path
//! are looked up once, and everything is done on the borrowed parts. That is why they are apart: one can hold them
//! against the general rules, which stand in the module named at each step.

use alloc::vec::Vec;

use crate::api::{Envelope, Event, Piece, TxFrame};
use crate::content::Content;
use crate::endpoint::Endpoint;
use crate::input::FIRST_PACKETS;
use crate::output::start;
use crate::path::AckDue;
use crate::peer::{Active, Phase, row_of_id};
use crate::post::{Outgoing, SendStage};
use crate::sabotage::Sabotage;
use crate::slab::NONE;
use crate::turns::eager_cost;
use crate::types::{Instant, Locator, Memory, PeerId, Place, ReqId};
use crate::wire::{Class, Header, MessageHead, Writer};

impl Endpoint {
    /// A frame of whole messages to a joined peer over its only path (`Endpoint::write_packet`).
    #[inline]
    pub(crate) fn write_quick(&mut self, now: Instant, row: u32, tx: &mut TxFrame) -> bool {
        let this = &mut self.rows[row];
        let Some(active) = self.actives.get_mut(this.active) else { return false };
        if this.phase != Phase::Joined || !active.is_plain() {
            return false;
        }
        let path = &mut active.paths[0];
        start(tx, path.link, &path.locator, this.secret);
        let packet = path.flight.next_packet() as u32;
        let header = Header { to: this.remote_id, packet, path: 0, form: this.version };
        let mut writer = Writer::begin(&mut tx.head, header);
        if self.settings.payload_check {
            writer.check();
        }
        let (bare_len, frame_len) = (writer.len(), usize::from(path.frame_len));
        let mut body_len = 0;
        while active.unsent != NONE {
            let slot = active.unsent;
            let (serial, send) = self.outgoing.get_with_serial(slot);
            let room = frame_len.saturating_sub(writer.len() + body_len);
            let cost = eager_cost(send.total as u32);
            let in_flight = active.eager_in_flight;
            if !send.fits_whole(room)
                || send.stage != SendStage::Waiting
                || (in_flight != 0 && in_flight + cost > active.credit_len)
                || send.message >= this.held_from
            {
                break;
            }
            write_whole(send, &mut writer, &mut tx.body);
            let len = send.total as u32;
            path.flight.add(Content::Message { slot, serial, offset: 0, len });
            body_len += len as usize;
            active.eager_in_flight = in_flight + cost;
            active.unsent = send.next;
        }
        let head_len = writer.len();
        if head_len == bare_len {
            return false;
        }
        tx.body_len = body_len;
        let was_empty = path.flight.is_empty();
        path.flight.on_sent(now, (head_len + body_len) as u16);
        self.counters.frames_out += 1;
        // Plain and nothing left: it need not be asked again.
        if active.unsent == NONE && active.granted.is_empty() {
            self.rows.leave_ready();
        }
        if was_empty {
            self.arm_flight(row, 0);
        }
        true
    }
}

impl Endpoint {
    /// A frame that is one whole small message, next in every respect, for a receive that is posted and waits for
    /// just one (`Endpoint::on_row_frame`, `on_message`, `take_entry`). False if it is not that.
    #[inline]
    #[expect(clippy::too_many_arguments, reason = "inlined: all of them stay where they are")]
    pub(crate) fn on_quick(
        &mut self,
        now: Instant,
        link: u8,
        from: &Locator,
        header: Header,
        head: &MessageHead,
        body: &[u8],
        memory: &mut impl Memory,
    ) -> bool {
        let row = row_of_id(header.to);
        let Some(this) = self.rows.get_mut(row) else { return false };
        let Some(active) = self.actives.get_mut(this.active) else { return false };
        let Some(path) = active.paths.get_mut(usize::from(header.path)) else { return false };
        let packet = path.received.largest() + 1;
        // A low half of 0 is an unnumbered frame's; a row keeps no version that we do not speak.
        let is_expected = this.local_id == header.to
            && this.phase == Phase::Joined
            && this.version == header.form
            && header.packet == packet as u32
            && header.packet != 0
            && path.locator == *from
            && path.link == link;
        let is_its_turn = head.message == this.message_in as u32
            && this.message_in < this.refused_from
            && this.arrival_count == 0
            && !head.wants_match;
        if !is_expected || !is_its_turn || self.saboteur.makes(Sabotage::TruncatedCopy) {
            return false;
        }
        let found = self.matcher.find(head.space, head.tag, PeerId(row));
        let Some((entry, token)) = found else { return false };
        if !self.receives[token].is_simple {
            return false;
        }

        let req = ReqId(self.receives.key(token));
        let receive = self.receives.remove(token);
        self.matcher.unlink(entry);
        let placed = body.get(..receive.len as usize).unwrap_or(body);
        memory.place(Place { buf: receive.buf, offset: 0 }, placed);
        let envelope = Envelope {
            source: PeerId(row),
            space: head.space,
            tag: head.tag,
            immediate: None,
            len: body.len() as u64,
        };
        let (user, placed_len, result) = (receive.user, placed.len() as u64, Ok(()));
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

impl Active {
    /// One path, open, and nothing waiting but messages.
    #[inline]
    fn is_plain(&self) -> bool {
        let [path] = &self.paths[..] else { return false };
        self.unsent != NONE
            && self.control.is_empty()
            && self.resend.is_empty()
            && !(self.welcome || self.ping || path.probe_now)
            && path.ack_pending_count == 0
            && path.frame_probe_at() == Instant::NEVER
            && path.has_window()
    }
}

/// Writes a message that goes in one piece.
#[inline]
fn write_whole(send: &mut Outgoing, writer: &mut Writer<'_>, body: &mut Vec<Piece>) {
    let len = send.total as u32;
    writer.message(&MessageHead {
        class: Class::Eager,
        space: send.space,
        message: send.message as u32,
        tag: send.tag,
        offset: 0,
        total: send.total,
        immediate: send.immediate,
        wants_match: send.until_matched,
        len: len as u16,
    });
    if len > 0 {
        body.push(Piece { source: send.source(0), len });
    }
    send.stage = SendStage::Sent;
}
