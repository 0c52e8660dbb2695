//! A frame arrives.
//!
//! PROTOCOL §1, §5. In phases: is it keyed and sane; whose is it; is it new; what is in it; may it be acknowledged.
//! Nothing a frame says is believed before its keyed check, and nothing is counted as received before its records
//! were accepted.

use crate::base::api::Verdict;
use crate::base::gaps::GapSet;
use crate::base::sabotage::Sabotage;
use crate::base::slab::NONE;
use crate::base::types::{Criteria, Instant, Locator, Memory};
use crate::bulk::outgoing::{Parts, SendStage};
use crate::delivery::content::Content;
use crate::delivery::credit::eager_cost;
use crate::delivery::path::{FIRST_PACKETS, NO_PATH, Origin, Path};
use crate::delivery::sent::{Acked, Flight};
use crate::delivery::window::Shrink;
use crate::endpoint::Endpoint;
use crate::peers::acks::Answer;
use crate::peers::pairs::PATH_COUNT_MAX;
use crate::peers::rows::{Phase, row_of_id};
use crate::wire::{
    ACKED, ACKED_IMMEDIATE, FORM_STRANGER, FORM_UNKNOWN, FrameView, LONE, LONE_IMMEDIATE, Lane,
    LoneView, Proof, Record, base_of, numbered_header,
};

/// Packets below an acknowledged acknowledgement that may still arrive out of order.
const REORDER_SLACK: u64 = 64;

impl Endpoint {
    /// A frame arrived on `link` from `from`.
    pub fn on_frame(
        &mut self,
        now: Instant,
        link: u8,
        from: Locator,
        bytes: &[u8],
        memory: &mut impl Memory,
    ) {
        if self.closed {
            return;
        }
        if !self.orphans.is_empty() {
            self.deliver_orphans(now, memory);
        }
        let Some(lone) = LoneView::<LONE>::read(bytes) else {
            if let Some(acked) = LoneView::<ACKED>::read(bytes) {
                return self.on_answer(now, Origin { link, from }, &acked, bytes, memory);
            }
            return self.on_less_usual_frame(now, Origin { link, from }, bytes, memory);
        };
        let base = self.base_of(bytes);
        if !self.is_proven(&lone, link, base) {
            self.on_unkeyed(now, Origin { link, from }, bytes, memory);
        } else if !self.may_be_quick()
            || !self.on_quick(now, link, &from, lone.message(base), memory)
        {
            self.on_not_next::<LONE>(now, Origin { link, from }, bytes, base, memory);
        }
    }

    /// Only the two ends of this link can write to it.
    #[inline(always)]
    pub(crate) fn is_private(&self, link: u8) -> bool {
        self.private_links >> (link & 63) & 1 != 0
    }

    /// Whether a frame of the commonest shape is from one who has our address: by our pass, where only the two ends of a
    /// link can write to it, or by its check.
    #[inline(always)]
    fn is_proven<const N: usize>(&mut self, lone: &LoneView<'_, N>, link: u8, base: u64) -> bool {
        if !self.is_private(link) || !lone.is_proven(Proof::Pass(self.pass), base) {
            return lone.is_proven(Proof::Keyed(&self.secret), base);
        }
        // A pass fits any packet number, so it will not show that the low half began anew: that is expected from here on.
        self.has_high |= lone.is_in_upper_half();
        true
    }

    /// The same with an immediate; or another.
    #[inline(never)]
    fn on_less_usual_frame(
        &mut self,
        now: Instant,
        origin: Origin,
        bytes: &[u8],
        memory: &mut impl Memory,
    ) {
        if let Some(acked) = LoneView::<ACKED_IMMEDIATE>::read(bytes) {
            return self.on_answer(now, origin, &acked, bytes, memory);
        }
        let Some(lone) = LoneView::<LONE_IMMEDIATE>::read(bytes) else {
            return self.on_other_frame(now, origin, bytes, memory);
        };
        let (link, from, base) = (origin.link, &origin.from, self.base_of(bytes));
        if !self.is_proven(&lone, link, base) {
            self.on_unkeyed(now, origin, bytes, memory);
        } else if !self.may_be_quick()
            || !self.on_quick(now, link, from, lone.message(base), memory)
        {
            self.on_not_next::<LONE_IMMEDIATE>(now, origin, bytes, base, memory);
        }
    }

    /// A frame that has the shape of an answer.
    #[inline(never)]
    fn on_answer<const N: usize>(
        &mut self,
        now: Instant,
        origin: Origin,
        acked: &LoneView<'_, N>,
        bytes: &[u8],
        memory: &mut impl Memory,
    ) {
        let base = self.base_of(bytes);
        if !self.is_proven(acked, origin.link, base) {
            self.on_unkeyed(now, origin, bytes, memory);
        } else if !self.may_be_quick() || !self.on_quick_answer(now, &origin, (acked, base), memory)
        {
            self.on_any_frame(now, origin, acked.view(base), memory);
        }
    }

    /// A frame that has not the shape of the commonest ones. Apart, as are its kin: the commonest needs all registers.
    #[inline(never)]
    fn on_other_frame(
        &mut self,
        now: Instant,
        origin: Origin,
        bytes: &[u8],
        memory: &mut impl Memory,
    ) {
        let Some(view) = self.open_frame(bytes) else {
            return self.on_unkeyed(now, origin, bytes, memory);
        };
        let plain = view.plain().filter(|_| self.may_be_quick());
        if !plain.is_some_and(|plain| self.on_plain(now, &origin, &plain, memory)) {
            self.on_any_frame(now, origin, view, memory);
        }
    }

    /// Any frame that is rightly keyed. Given the view itself and not a place where it is, so that `on_quick` finds it in
    /// registers.
    #[inline(never)]
    pub(crate) fn on_any_frame(
        &mut self,
        now: Instant,
        origin: Origin,
        view: FrameView<'_>,
        memory: &mut impl Memory,
    ) {
        if !self.is_sane(&view, memory) {
            return;
        }
        self.counters.frames_in += 1;
        let version = view.header.version();
        if version < self.settings.versions.0 || version > self.settings.versions.1 {
            self.on_other_version(now, origin, &view);
            return;
        }
        let Some(row) = self.row_of_frame(now, origin, &view) else { return };
        if !self.orphans.is_empty() {
            // First contact may have ended an association: its messages come before those of the new one.
            self.deliver_orphans(now, memory);
        }
        self.on_row_frame(now, origin, row, &view, memory);
        if self.closing.is_some() {
            self.tend_closing_row(now, row);
        }
    }

    /// Whether the records make sense and the bodies are whole; if not, that is counted.
    fn is_sane(&mut self, view: &FrameView<'_>, memory: &impl Memory) -> bool {
        if view.validate().is_err() {
            self.counters.frames_malformed += 1;
            return false;
        }
        if let Some(crc) = view.crc()
            && memory.crc32c(0, view.body) != crc
        {
            self.counters.frames_damaged += 1;
            return false;
        }
        true
    }

    /// Verifies the keyed check: under our secret, or under the public one if we are open to strangers.
    #[inline]
    fn open_frame<'a>(&self, bytes: &'a [u8]) -> Option<FrameView<'a>> {
        let public = FrameView::form(bytes).is_some_and(|form| form & FORM_STRANGER != 0);
        let key = if public && self.settings.open_to_strangers {
            crate::base::secret::Secret::PUBLIC
        } else {
            self.secret
        };
        let view = FrameView::open_high(key, self.base_of(bytes), bytes).ok()?;
        // A public key opens first contact and nothing else; what later versions mean by other bits is not known here.
        let is_ours = (!public || view.header.to == 0) && view.header.form & FORM_UNKNOWN == 0;
        is_ours.then_some(view)
    }

    /// The check of a frame is wrong: damaged, not meant for us, or from before 2^32 packets. Or it is the first to come with a
    /// number that has a high half, which is looked up only from then on.
    #[cold]
    #[inline(never)]
    fn on_unkeyed(&mut self, now: Instant, origin: Origin, bytes: &[u8], memory: &mut impl Memory) {
        if !self.has_high && self.find_base(bytes) != 0 {
            self.has_high = true;
            return self.on_frame(now, origin.link, origin.from, bytes, memory);
        }
        self.counters.frames_unkeyed += 1;
    }

    /// The number of a frame's packet, if it is one, but for its low half, which is what the wire shows (PROTOCOL §5.1). Nothing
    /// is verified yet: with the wrong one the check fails.
    #[inline(always)]
    pub(crate) fn base_of(&self, bytes: &[u8]) -> u64 {
        if self.has_high { self.find_base(bytes) } else { 0 }
    }

    #[inline(never)]
    fn find_base(&self, bytes: &[u8]) -> u64 {
        let Some(header) = numbered_header(bytes).filter(|header| header.to != 0) else { return 0 };
        let low = header.packet as u32;
        let this = self.rows.get(row_of_id(header.to)).filter(|row| row.local_id == header.to);
        let Some(this) = this else { return 0 };
        let path = usize::from(header.path);
        let packet = match self.actives.get(this.active) {
            Some(active) => active.paths.get(path).map(|path| path.received.expand(low)),
            None => this.resting_path(path).map(|rest| rest.expand(low)),
        };
        packet.map_or(0, base_of)
    }

    /// The row whose living association a frame belongs to; first contact is handled on the way.
    #[inline]
    fn row_of_frame(&mut self, now: Instant, origin: Origin, view: &FrameView<'_>) -> Option<u32> {
        let to = view.header.to;
        if to == 0 {
            return self.on_first_contact(now, origin, view);
        }
        let row = row_of_id(to);
        match self.rows.get(row) {
            Some(this) if this.local_id == to && this.phase == Phase::Joined => Some(row),
            Some(this) if this.local_id == to && this.phase != Phase::Idle => {
                self.on_contact_answer(now, origin, row, view)
            }
            _ => {
                self.on_stale(now, origin, row, view);
                None
            }
        }
    }

    /// A frame of a living association.
    fn on_row_frame(
        &mut self,
        now: Instant,
        origin: Origin,
        row: u32,
        view: &FrameView<'_>,
        memory: &mut impl Memory,
    ) {
        let active = self.activate(row);
        let header = view.header;
        let this = &mut self.rows[row];
        this.heard_at = now;
        this.allowance.on_frame(now, view.frame_len());
        if header.packet == 0
            && (self.on_given_frame(now, origin.link, row, view, memory)
                || self.on_unnumbered(now, origin, row, view))
        {
            return;
        }
        if header.to != 0 {
            // The peer has joined. (A lone answer to our Hello uses our id too, and proves nothing.)
            self.actives[active].welcome = false;
            self.actives[active].is_checked = Some(view.crc().is_some());
        }
        let path_index = usize::from(header.path);
        if path_index >= self.actives[active].paths.len() && !self.make_place(row, path_index) {
            return;
        }
        let path = &mut self.actives[active].paths[path_index];
        if header.to != 0 {
            path.is_checked_in = Some(view.crc().is_some());
        }
        let packet = path.received.expand(header.packet as u32);
        if packet != header.packet {
            self.counters.frames_unkeyed += 1; // of a number long past, 2^32 packets ago or more
            return;
        }
        if !path.received.is_new(packet) {
            self.counters.packets_duplicate += 1;
            path.ack_at_once = true; // perhaps our acknowledgement was lost
            path.ack_pending_count += 1;
            self.make_ready(row);
            return;
        }
        let is_known = path.source == origin.from && path.source_link == origin.link;
        if !is_known || path.back == NO_PATH {
            self.on_new_source(now, row, path_index, origin);
        }
        let local_id = self.rows[row].local_id;
        let (verdict, answer, message_count) =
            self.on_records(now, (row, origin.link), view, false, memory);
        // The association may have ended or been renewed by what the frame said.
        if verdict == Verdict::Accepted
            && self.rows[row].local_id == local_id
            && self.rows[row].phase == Phase::Joined
        {
            self.note_received(now, row, path_index, packet, message_count, answer);
        }
    }

    /// Counts a packet as received; an acknowledgement is due now, or in a while (PROTOCOL §5.4).
    #[inline]
    pub(crate) fn note_received(
        &mut self,
        now: Instant,
        row: u32,
        path_index: usize,
        packet: u64,
        message_count: u64,
        answer: Answer,
    ) {
        let active = self.activate(row);
        let path = &mut self.actives[active].paths[path_index];
        let in_order = path.received.record(packet, now);
        if answer == Answer::None {
            return;
        }
        let at_once = answer == Answer::AtOnce || !in_order || packet <= FIRST_PACKETS;
        let due = path.owe_ack(now, message_count, at_once, &self.settings);
        self.see_to_ack(row, due);
    }

    /// All records of a frame. A refused one leaves the frame unacknowledged, but what was accepted stays accepted:
    /// it will come again and be taken for a duplicate. `are_acks_read`: those were read when it was put aside.
    #[inline]
    pub(crate) fn on_records(
        &mut self,
        now: Instant,
        (row, link): (u32, u8),
        view: &FrameView<'_>,
        are_acks_read: bool,
        memory: &mut impl Memory,
    ) -> (Verdict, Answer, u64) {
        let mut all = Verdict::Accepted;
        let (mut answer, mut message_count) = (Answer::None, 0);
        for (record, body) in view.records() {
            let verdict = match record {
                Record::Message(head) => {
                    message_count += 1;
                    answer = answer.max(Answer::Soon);
                    self.on_message(now, row, &head, body, memory)
                }
                Record::Ack(_) if are_acks_read => Verdict::Accepted,
                Record::Ack(ack) => {
                    self.on_ack(now, row, &ack);
                    Verdict::Accepted
                }
                Record::Data { lane, message, offset } => {
                    answer = answer.max(Answer::Soon);
                    self.on_data(now, (row, link), (lane, message), offset, body, memory)
                }
                Record::Check { .. } | Record::Pad | Record::Welcome(_) | Record::Hello(_) => {
                    Verdict::Accepted
                }
                Record::Ping => {
                    answer = Answer::AtOnce; // its sender is waiting for nothing else
                    Verdict::Accepted
                }
                Record::Echo { .. } | Record::Reset { .. } => Verdict::Accepted,
                other => {
                    answer = answer.max(Answer::Soon);
                    self.on_notice(now, row, other, body, memory)
                }
            };
            if verdict == Verdict::Refused {
                all = Verdict::Refused;
            }
            if self.rows[row].phase != Phase::Joined {
                break; // it ended: what follows speaks of nothing
            }
        }
        (all, answer, message_count)
    }

    fn on_notice(
        &mut self,
        now: Instant,
        row: u32,
        record: Record<'_>,
        body: &[u8],
        memory: &mut impl Memory,
    ) -> Verdict {
        match record {
            Record::Grant { lane: Lane::Message, message, offset, len } => {
                self.on_grant(row, message, offset, len);
            }
            Record::Grant { lane, message, offset, len } => {
                return self.on_supply_grant(row, lane, message, (offset, len));
            }
            Record::Request(head) => return self.on_request(now, row, &head, body, memory),
            Record::Reply { number, status } => self.on_reply(row, number, status, body, memory),
            Record::Replied { first, count } => self.on_replied(row, first, count),
            Record::End { number } => return self.on_end(now, row, number, memory),
            Record::Done { message, status, placed_len } => {
                self.on_done(row, message, status, placed_len)
            }
            Record::Cancel { message } => return self.on_cancel(now, row, message, memory),
            Record::Refuse { message, order } => self.on_turn_notice(row, message, order, true),
            Record::Recall { message, order } => self.on_turn_notice(row, message, order, false),
            Record::Query { query, space, tag, ignore } => {
                // The peer asks for its own receive: to it we are the source, so the source is always right.
                let criteria = Criteria { space, tag, ignore, source: None };
                self.on_query(row, query, &criteria);
            }
            Record::Found(found) => self.on_found(now, row, &found, memory),
            Record::StreamCredit { limit } => self.on_stream_credit(now, row, limit),
            Record::Goodbye { message } => self.on_goodbye(now, row, message),
            // Handled before, or out of place in a numbered frame: harmless.
            _ => {}
        }
        Verdict::Accepted
    }

    /// An Ack told of packets not known to have arrived before: what that teaches, and what may follow.
    #[inline]
    pub(crate) fn after_ack(
        &mut self,
        now: Instant,
        row: u32,
        path_index: usize,
        acked: &Acked,
        delay_ns: u32,
        in_flight_before: u64,
    ) {
        let active = &mut **self.actives.get_mut(self.rows[row].active).expect("heard of");
        let path = &mut active.paths[path_index];
        path.on_acked(now, acked, delay_ns, in_flight_before);
        let is_done = path.flight.is_empty();
        let is_one_of_several = active.paths.len() > 1;
        let has_more = is_one_of_several && active.learn_rate(now, path_index, acked.bytes);
        if is_one_of_several && core::mem::take(&mut active.contest.has_news) {
            self.tell_path_news(row);
        }
        if !is_done {
            if self.rows[row].phase == Phase::Joined
                && !self.saboteur.makes(Sabotage::LossNeverDetected)
            {
                self.detect_lost(now, row, path_index);
            }
            if !self.actives[self.rows[row].active].paths[path_index].flight.is_empty() {
                self.arm_flight(row, path_index);
            }
        }
        let active = &self.actives[self.rows[row].active];
        self.may_train |= !active.granted.is_empty() || active.unsent != NONE;
        if has_more || active.has_content() || !active.granted.is_empty() {
            self.make_ready(row); // what waited for window or credit
        }
    }

    /// What is left in `accepted` by `on_ack`.
    #[inline(never)]
    pub(crate) fn on_contents_acked(&mut self, now: Instant, row: u32, path_index: usize) {
        let mut accepted = core::mem::take(&mut self.accepted);
        for content in accepted.drain(..) {
            self.on_content_acked(now, row, path_index, content);
        }
        self.accepted = accepted; // its memory is used again
    }

    /// Looks for packets that must be lost by now, and hands their contents back.
    #[inline]
    pub(crate) fn detect_lost(&mut self, now: Instant, row: u32, path_index: usize) {
        let active_slot = self.rows[row].active;
        let path = &mut self.actives[active_slot].paths[path_index];
        if path.flight.is_empty() {
            return;
        }
        let mut flight = core::mem::replace(&mut path.flight, Flight::new(1));
        let loss_delay_ns = path.rtt.loss_delay_ns();
        let is_forgotten = path.is_stream && self.saboteur.makes(Sabotage::RangeLostAtBreak);
        let lost = flight.detect_lost(now, loss_delay_ns, &mut |content| {
            if !is_forgotten {
                self.on_content_lost(row, content);
            }
        });
        let path = &mut self.actives[active_slot].paths[path_index];
        path.flight = flight;
        if lost.count == 0 {
            return;
        }
        self.may_train = true;
        self.counters.packets_lost += u64::from(lost.count);
        match path.window.on_lost(now, lost.count, lost.round_count, lost.newest_sent_at, &path.rtt)
        {
            Shrink::None => {}
            Shrink::Gentle => self.counters.windows_shrunk += 1,
            Shrink::Halved => self.counters.windows_halved += 1,
        }
        if path.on_frames_lost(lost.frame_len_max, now) {
            path.window.on_frame_len(path.frame_len);
            self.counters.frame_len_drops += 1;
        }
        self.make_ready(row);
    }

    /// Something we sent arrived and was accepted.
    fn on_content_acked(&mut self, now: Instant, row: u32, path_index: usize, content: Content) {
        match content {
            Content::Message { slot, serial, offset, len } => {
                self.credit_back(row, len);
                if self.outgoing.holds(slot, serial) {
                    self.on_message_acked(slot, offset, len);
                }
            }
            Content::Probe { frame_len } => {
                let path = &mut self.actives[self.rows[row].active].paths[path_index];
                path.on_frame_probe_acked(now, frame_len);
                path.window.on_frame_len(path.frame_len);
                self.refit(row); // what carries long frames may be the one for data
            }
            Content::Grant { slot, serial, .. } => self.on_grant_settled(slot, serial),
            Content::Cancel { .. } => self.actives[self.rows[row].active].cancel_count -= 1,
            Content::Reply { slot, serial } => self.on_reply_acked(slot, serial),
            Content::Replied { count, .. } => self.on_replied_acked(row, count),
            Content::AckUpTo { path, largest } => {
                let path = &mut self.actives[self.rows[row].active].paths[usize::from(path)];
                path.received.forget_below(largest.saturating_sub(REORDER_SLACK));
            }
            _ => {}
        }
    }

    fn credit_back(&mut self, row: u32, len: u32) {
        let active = &mut self.actives[self.rows[row].active];
        active.credit.on_settled(eager_cost(len));
    }

    fn on_message_acked(&mut self, slot: u32, offset: u32, len: u32) {
        let send = &self.outgoing[slot];
        if send.is_large || send.stage == SendStage::Pulled {
            return; // ends with Done
        }
        self.keep_parts(slot, len);
        let send = &self.outgoing[slot];
        if send.parts != NONE {
            let unacked = &mut self.parts[send.parts].unacked;
            unacked.fill(u64::from(offset), u64::from(offset) + u64::from(len), &mut |_, _| ());
            if !unacked.is_empty() {
                return;
            }
        }
        if send.until_matched && send.bytes.pool().is_none() {
            return; // accepted; the match is still to come
        }
        let len = send.total;
        self.end_send(slot, Ok(len));
    }

    /// So many bytes of a message are settled by themselves. If it left in one train, which of them are is kept from now on.
    fn keep_parts(&mut self, slot: u32, len: u32) {
        let send = &mut self.outgoing[slot];
        if send.parts == NONE && !send.is_large && u64::from(len) < send.total {
            let unacked = GapSet::whole(send.total);
            send.parts = self.parts.insert(Parts { unacked, ..Parts::default() });
        }
    }

    /// Something we sent was lost: back to its owner.
    pub(crate) fn on_content_lost(&mut self, row: u32, content: Content) {
        self.counters.contents_resent += 1;
        match content {
            Content::Message { slot, serial, offset, len } => {
                self.credit_back(row, len);
                if self.outgoing.holds(slot, serial) {
                    self.on_message_lost(slot, serial, offset, len);
                }
            }
            Content::Data { slot, serial, offset, len } => {
                if self.outgoing.holds(slot, serial) && self.outgoing[slot].parts != NONE {
                    self.parts[self.outgoing[slot].parts]
                        .unsent
                        .add(offset, offset + u64::from(len));
                    self.queue_granted(slot);
                }
            }
            Content::Grant { slot, serial, offset, len } => {
                self.on_grant_lost(slot, serial, offset, len)
            }
            Content::Turn { order } => {
                if self.rows[row].turn_sent == order {
                    self.notify(row, content);
                }
            }
            Content::Request { slot, serial } => self.on_request_lost(row, slot, serial),
            Content::Done { .. }
            | Content::Cancel { .. }
            | Content::Reply { .. }
            | Content::Replied { .. }
            | Content::End { .. }
            | Content::StreamCredit
            | Content::Goodbye => self.notify(row, content),
            Content::Void
            | Content::Query { .. }
            | Content::Found
            | Content::AckUpTo { .. }
            | Content::Ping
            | Content::Probe { .. } => {}
        }
    }

    fn on_message_lost(&mut self, slot: u32, serial: u32, offset: u32, len: u32) {
        if self.outgoing[slot].stage == SendStage::Pulled {
            return;
        }
        self.unframe(slot);
        self.keep_parts(slot, len);
        let send = &mut self.outgoing[slot];
        if !send.is_large && send.total > u64::from(self.settings.eager_sure_len_max) {
            self.rows[send.row].ahead.on_lost();
        }
        if send.parts != NONE && !send.is_large {
            let parts = &mut self.parts[send.parts];
            let (start, end) = (u64::from(offset), u64::from(offset) + u64::from(len));
            // Only what is still unacknowledged: a copy of it may have arrived in another packet.
            for (gap_start, gap_end) in parts.unacked.iter() {
                let (from, to) = (gap_start.max(start), gap_end.min(end));
                if from < to {
                    parts.unsent.add(from, to);
                }
            }
            if parts.unsent.is_empty() {
                return;
            }
        }
        if send.is_large && send.is_granted() {
            return; // granted already: the announcement arrived
        }
        let was_waiting = send.stage == SendStage::Waiting;
        send.stage = SendStage::Waiting;
        let row = send.row;
        let active = &mut self.actives[self.rows[row].active];
        if !was_waiting || active.unsent != slot {
            active.resend.push_back((slot, serial));
        }
        self.make_ready(row);
    }

    /// The peer has more paths than we; false if it has more than it may.
    #[cold]
    fn make_place(&mut self, row: u32, index: usize) -> bool {
        if index >= PATH_COUNT_MAX {
            return false;
        }
        let (traits, rtt_ns) = (self.links[0], self.settings.initial_rtt_ns);
        let paths = &mut self.actives[self.rows[row].active].paths;
        while paths.len() <= index {
            paths.push(Path::absent(&traits, rtt_ns));
        }
        true
    }
}
