//! A frame arrives.
//!
//! PROTOCOL §1, §5. In phases: is it keyed and sane; whose is it; is it new; what is in it; may it be acknowledged.
//! Nothing a frame says is believed before its keyed check, and nothing is counted as received before its records
//! were accepted.

use crate::GoneReason;
use crate::base::api::Verdict;
use crate::base::types::{Criteria, Instant, Locator, Memory};
use crate::delivery::path::Origin;
use crate::endpoint::Endpoint;
use crate::messages::arrive::Taken;
use crate::peers::acks::Urgency;
use crate::peers::contact::{Answered, Greeting};
use crate::peers::rows::row_of_id;
use crate::wire::{
    ACKED, ACKED_IMMEDIATE, FORM_STRANGER, FORM_UNKNOWN, FrameView, LONE, LONE_IMMEDIATE, Lane,
    LoneView, MessageHead, NoteView, Record, is_ack_alone,
};

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
        if self.peers().is_closed() {
            return;
        }
        if self.messages.has_orphans() {
            self.messages.deliver_orphans(now, memory);
        }
        let Some(lone) = LoneView::<LONE>::read(bytes) else {
            if let Some(acked) = LoneView::<ACKED>::read(bytes) {
                return self.on_answer(now, Origin { link, from }, &acked, bytes, memory);
            }
            if is_ack_alone(bytes) {
                return self.on_other_frame(now, Origin { link, from }, bytes, memory);
            }
            return self.on_less_usual_frame(now, Origin { link, from }, bytes, memory);
        };
        let Some(base) = self.proven_base(&lone, link, bytes) else {
            return self.on_unkeyed(now, Origin { link, from }, bytes, memory);
        };
        if !self.peers().may_be_quick()
            || !self.on_quick(now, link, &from, lone.message(base), memory)
        {
            self.on_not_next::<LONE>(now, Origin { link, from }, bytes, base, memory);
        }
    }

    /// The high half of the number of a frame of the commonest shape, if it is from one who has our address: by our pass, where only the two ends
    /// of a link can write to it, or by its check.
    #[inline(always)]
    fn proven_base<const N: usize>(
        &mut self,
        lone: &LoneView<'_, N>,
        link: u8,
        bytes: &[u8],
    ) -> Option<u64> {
        let base = self.peers().base_of(bytes);
        if !self.peers().links.is_private(link) || !lone.is_proven(self.peers().own_pass(), base) {
            let is_keyed = lone.is_proven(&self.peers().own_seal(), base);
            return is_keyed.then_some(base);
        }
        // A pass fits any packet number, so it will not show that the low half began anew: that is expected from here on.
        self.peers_mut().expect_high(lone.is_in_upper_half());
        // Nor does it show which multiple of 2^32 a zero stands for. It stands for none: such a frame was given (PROTOCOL §7.10, §14.6).
        Some(if base != 0 && lone.is_low_zero() { 0 } else { base })
    }

    /// A message with an immediate, or one that is not alone in its frame.
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
        let (link, from) = (origin.link, &origin.from);
        let Some(base) = self.proven_base(&lone, link, bytes) else {
            return self.on_unkeyed(now, origin, bytes, memory);
        };
        if !self.peers().may_be_quick()
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
        let Some(base) = self.proven_base(acked, origin.link, bytes) else {
            return self.on_unkeyed(now, origin, bytes, memory);
        };
        if !self.peers().may_be_quick()
            || !self.on_quick_answer(now, &origin, (acked, base), memory)
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
            return self.on_note(now, origin, bytes, memory);
        };
        let plain = view.plain().filter(|_| self.peers().may_be_quick());
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
        self.peers_mut().counters.frames_in += 1;
        let version = view.header.version();
        if version < self.peers().settings.versions.0 || version > self.peers().settings.versions.1
        {
            if let Some((row, reason)) = self.peers_mut().on_other_version(now, origin, &view) {
                self.end_association(now, row, Some(reason));
            }
            return;
        }
        let Some(row) = self.row_of_frame(now, origin, &view) else { return };
        if self.messages.has_orphans() {
            // First contact may have ended an association: its messages come before those of the new one.
            self.messages.deliver_orphans(now, memory);
        }
        self.on_row_frame(now, origin, row, &view, memory);
        if self.peers().is_closing() {
            self.tend_closing_row(now, row);
        }
    }

    /// Whether the records make sense and the bodies are whole; if not, that is counted.
    fn is_sane(&mut self, view: &FrameView<'_>, memory: &impl Memory) -> bool {
        if view.validate().is_err() {
            self.peers_mut().counters.frames_malformed += 1;
            return false;
        }
        if let Some(crc) = view.crc()
            && memory.crc32c(0, view.body) != crc
        {
            self.peers_mut().counters.frames_damaged += 1;
            return false;
        }
        true
    }

    /// A frame without payload that was given to its link, if it bears our pass and only its two ends can write to that link. Mostly a driver has
    /// such a one taken before (`take_given`).
    #[inline(never)]
    fn on_note(&mut self, now: Instant, origin: Origin, bytes: &[u8], memory: &mut impl Memory) {
        let note = NoteView::read(bytes).filter(|_| self.peers().links.is_private(origin.link));
        match note.filter(|note| note.is_passed(*self.peers().own_pass())) {
            Some(note) => self.on_any_frame(now, origin, note.view(), memory),
            None => self.on_unkeyed(now, origin, bytes, memory),
        }
    }

    /// Verifies the keyed check: under our secret, or under the public one if we are open to strangers.
    #[inline]
    fn open_frame<'a>(&self, bytes: &'a [u8]) -> Option<FrameView<'a>> {
        let public = FrameView::form(bytes).is_some_and(|form| form & FORM_STRANGER != 0);
        let base = self.peers().base_of(bytes);
        let seal = self.peers().seal_of_form(public);
        let view = FrameView::open_high(&seal, base, bytes).ok()?;
        // A public key opens first contact and nothing else; what later versions mean by other bits is not known here.
        let is_ours = (!public || view.header.to == 0) && view.header.form & FORM_UNKNOWN == 0;
        is_ours.then_some(view)
    }

    /// The check of a frame is wrong: damaged, not meant for us, or from before 2^32 packets. Or it is the first to come with a
    /// number that has a high half, which is looked up only from then on.
    #[cold]
    #[inline(never)]
    fn on_unkeyed(&mut self, now: Instant, origin: Origin, bytes: &[u8], memory: &mut impl Memory) {
        if self.peers_mut().find_first_high(bytes) {
            return self.on_frame(now, origin.link, origin.from, bytes, memory);
        }
        self.peers_mut().counters.frames_unkeyed += 1;
    }

    /// The row whose living association a frame belongs to; first contact is handled on the way.
    #[inline]
    fn row_of_frame(&mut self, now: Instant, origin: Origin, view: &FrameView<'_>) -> Option<u32> {
        let to = view.header.to;
        if to == 0 {
            return self.on_first_contact(now, origin, view);
        }
        let row = row_of_id(to);
        match self.peers().rows.get(row) {
            Some(this) if this.is_joined_as(to) => Some(row),
            Some(this) if this.lives_as(to) => {
                match self.peers_mut().on_contact_answer(now, origin, row, view) {
                    Answered::Joined => Some(row),
                    Answered::Asked => None,
                    Answered::Ended(reason) => {
                        self.end_association(now, row, Some(reason));
                        None
                    }
                }
            }
            _ => {
                self.peers_mut().on_stale(now, origin, row, view);
                None
            }
        }
    }

    /// A frame to id 0. Returns the row if what follows in the frame may be processed.
    fn on_first_contact(
        &mut self,
        now: Instant,
        origin: Origin,
        view: &FrameView<'_>,
    ) -> Option<u32> {
        let (address, hello, reset) = match self.peers_mut().on_hello(now, origin, view) {
            Greeting::Answered => return None,
            Greeting::Known(row) => return Some(row),
            Greeting::Echoed { address, hello, reset } => (address, hello, reset),
        };
        if let Some(row) = reset {
            self.end_association(now, row, Some(GoneReason::Reset));
        }
        let (row, ended) = self.messages.bulk.peers.seat(&address, &hello, &mut self.streams)?;
        if ended.is_some() {
            self.end_association(now, row, ended);
        }
        self.peers_mut().admit(now, origin, row, &hello, view.header);
        Some(row)
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
        let active = self.peers_mut().activate(row);
        let header = view.header;
        self.peers_mut().rows[row].on_frame(now, view.frame_len());
        if header.packet == 0 {
            if self.on_given_frame(now, origin.link, row, view, memory) {
                return;
            }
            if let Some(ended) = self.peers_mut().on_unnumbered(now, origin, row, view) {
                if ended.is_some() {
                    self.end_association(now, row, ended);
                }
                return;
            }
        }
        if header.to != 0 {
            // The peer has joined. (A lone answer to our Hello uses our id too, and proves nothing.)
            self.peers_mut().note_checked(row, view.crc().is_some());
        }
        let path_index = usize::from(header.path);
        let has_place = path_index < self.peers().actives[active].paths.len();
        if !has_place && !self.peers_mut().make_place(row, path_index) {
            return;
        }
        let path = &mut self.messages.bulk.peers.actives[active].paths[path_index];
        if header.to != 0 {
            path.note_check(view.crc().is_some());
        }
        let packet = path.received().expand(header.packet as u32);
        if packet != header.packet {
            self.peers_mut().counters.frames_unkeyed += 1; // of a number long past, 2^32 packets ago or more
            return;
        }
        if !path.received().is_new(packet) {
            self.messages.bulk.peers.counters.packets_duplicate += 1;
            path.owe_urgent_ack();
            self.peers_mut().make_ready(row);
            return;
        }
        if !path.can_answer(origin.link, &origin.from) {
            self.peers_mut().on_new_source(now, row, path_index, origin);
        }
        let local_id = self.peers().rows[row].association();
        let (verdict, answer, message_count) =
            self.on_records(now, (row, origin.link), view, false, memory);
        // The association may have ended or been renewed by what the frame said.
        if verdict == Verdict::Accepted && self.peers().rows[row].is_joined_as(local_id) {
            self.peers_mut().note_received(now, row, path_index, packet, message_count, answer);
        }
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
    ) -> (Verdict, Urgency, u64) {
        let mut all = Verdict::Accepted;
        let (mut answer, mut message_count) = (Urgency::None, 0);
        for (record, body) in view.records() {
            let verdict = match record {
                Record::Message(head) => {
                    message_count += 1;
                    answer = answer.max(Urgency::Soon);
                    self.on_message(now, row, &head, body, memory)
                }
                Record::Ack(_) if are_acks_read => Verdict::Accepted,
                Record::Ack(ack) => {
                    self.on_ack(now, row, &ack);
                    Verdict::Accepted
                }
                Record::Data { lane, message, offset } => {
                    answer = answer.max(Urgency::Soon);
                    self.on_data(now, (row, link), (lane, message), offset, body, memory)
                }
                Record::Check { .. } | Record::Pad | Record::Welcome(_) | Record::Hello(_) => {
                    Verdict::Accepted
                }
                Record::Ping => {
                    answer = Urgency::AtOnce; // its sender is waiting for nothing else
                    Verdict::Accepted
                }
                Record::Echo { .. } | Record::Reset { .. } => Verdict::Accepted,
                other => {
                    answer = answer.max(Urgency::Soon);
                    self.on_notice(now, row, other, body, memory)
                }
            };
            if verdict == Verdict::Refused {
                all = Verdict::Refused;
            }
            if !self.peers().rows[row].is_joined() {
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
                self.bulk_mut().on_grant(row, message, offset, len);
            }
            Record::Grant { lane, message, offset, len } => {
                return self.onesided.on_supply_grant(
                    &mut self.messages.bulk,
                    row,
                    lane,
                    message,
                    (offset, len),
                );
            }
            Record::Request(head) => {
                return self.onesided.on_request(
                    &mut self.messages.bulk,
                    now,
                    row,
                    &head,
                    body,
                    memory,
                );
            }
            Record::Reply { number, status } => {
                self.onesided.on_reply(&mut self.messages.bulk, row, number, status, body, memory)
            }
            Record::Outcome { number, answer } => {
                let bulk = &mut self.messages.bulk;
                self.onesided.on_outcome(bulk, now, (row, number), &answer, body, memory);
            }
            Record::Replied { first, count } => {
                self.onesided.on_replied(&mut self.messages.bulk, row, first, count)
            }
            Record::End { number } => {
                return self.onesided.on_end(&mut self.messages.bulk, now, row, number, memory);
            }
            Record::Done { message, status, placed_len } => {
                self.bulk_mut().on_done(row, message, status, placed_len)
            }
            Record::Cancel { message } => {
                let verdict = self.messages.on_cancel(now, row, message);
                if verdict == Verdict::Accepted {
                    self.follow_turns(now, row, memory);
                }
                return verdict;
            }
            Record::Refuse { message, order } => {
                self.bulk_mut().on_turn_notice(row, message, order, true)
            }
            Record::Recall { message, order } => {
                self.bulk_mut().on_turn_notice(row, message, order, false)
            }
            Record::Query { query, space, tag, ignore } => {
                // The peer asks for its own receive: to it we are the source, so the source is always right.
                let criteria = Criteria { space, tag, ignore, source: None };
                self.bulk_mut().on_query(row, query, &criteria);
            }
            Record::Found(found) if self.messages.on_found(now, row, &found, memory) => {
                self.follow_turns(now, row, memory);
            }
            Record::StreamCredit { limit } => {
                self.streams.on_stream_credit(&mut self.messages, now, row, limit)
            }
            Record::Goodbye { message } => self.on_goodbye(now, row, message),
            // Handled before, or out of place in a numbered frame: harmless.
            _ => {}
        }
        Verdict::Accepted
    }
}

/// Messages, and what follows them.
impl Endpoint {
    /// A record of a message.
    #[inline]
    pub(crate) fn on_message(
        &mut self,
        now: Instant,
        row: u32,
        head: &MessageHead,
        body: &[u8],
        memory: &mut impl Memory,
    ) -> Verdict {
        let taken = self.messages.take_message(now, row, head, body, memory);
        self.after_message(now, row, taken, (head, body), memory)
    }

    /// What is to be done behind a record of a message.
    #[inline(always)]
    pub(crate) fn after_message(
        &mut self,
        now: Instant,
        row: u32,
        taken: Taken,
        message: (&MessageHead, &[u8]),
        memory: &mut impl Memory,
    ) -> Verdict {
        match taken {
            Taken::InTurn => {
                self.follow_turn(now, row, memory);
                Verdict::Accepted
            }
            Taken::Accepted => Verdict::Accepted,
            Taken::Refused => Verdict::Refused,
            Taken::Chunk | Taken::WholeChunk(_) => {
                self.after_record_of_chunk(now, row, taken, message, memory)
            }
        }
    }

    /// What is to be done behind a record that belongs to a stream. A function of its own, for messages need not carry what it needs.
    #[inline(never)]
    fn after_record_of_chunk(
        &mut self,
        now: Instant,
        row: u32,
        taken: Taken,
        (head, body): (&MessageHead, &[u8]),
        memory: &mut impl Memory,
    ) -> Verdict {
        let Taken::WholeChunk(slot) = taken else {
            let is_taken = self.streams.on_chunk(&mut self.messages, now, row, head, body, memory);
            if !is_taken {
                return Verdict::Refused;
            }
            self.after_chunk(now, row, memory);
            return Verdict::Accepted;
        };
        self.streams.on_chunk_whole(&mut self.messages, slot);
        Verdict::Accepted
    }

    /// A chunk of a stream was taken in its turn.
    pub(crate) fn after_chunk(&mut self, now: Instant, row: u32, memory: &mut impl Memory) {
        self.messages.count_turn(row);
        self.follow_turn(now, row, memory);
        // One that was refused before its turn may have it now. What was lent has freed no room, so nobody else would notice.
        self.messages.recall_rows(now);
    }

    /// Messages that waited for the turn to come to them, if there are any.
    #[inline]
    pub(crate) fn follow_turn(&mut self, now: Instant, row: u32, memory: &mut impl Memory) {
        if self.peers().rows[row].ties.has_numbered() {
            self.follow_turns(now, row, memory);
        }
    }

    #[inline(never)]
    fn follow_turns(&mut self, now: Instant, row: u32, memory: &mut impl Memory) {
        while let Some(slot) = self.messages.follow_turn(now, row, memory) {
            self.streams.on_chunk_turn(&mut self.messages, now, slot);
        }
    }
}
