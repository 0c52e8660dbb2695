//! A frame leaves.
//!
//! PROTOCOL §10. Lone answers go first; then rows that have something to say take turns. A frame of a row is filled in
//! one pass: first contact, acknowledgements, notices, messages in order; or, when none of these is waiting, one piece
//! of granted data, so that data frames are alike and can leave as a train. What goes in is recorded in the path's
//! flight as content; what the record's body is made of goes out as pieces to gather.

use crate::TxTrain;
use crate::base::api::TxFrame;
use crate::base::limits::FRAME_LEN_FLOOR;
use crate::base::slab::NONE;
use crate::base::types::Instant;
use crate::delivery::content::Content;
use crate::delivery::frame::{Frame, start};
use crate::endpoint::Endpoint;
use crate::peers::rows::{Notice, Phase};
use crate::wire::{self, Writer};

impl Endpoint {
    /// Whether `poll_new_locators`, `poll_new_path`, `poll_train` or `poll_transmit` may have something. What a driver that spins asks first.
    #[inline]
    pub fn has_output(&self) -> bool {
        self.peers().rows.first_ready() != NONE
            || self.peers().has_replies()
            || self.peers().has_news()
    }

    /// The next frame to send, if there is one. The driver gathers `tx.body`, calls `tx.seal`, and sends.
    #[inline] // a driver asks until there is nothing: that answer is two comparisons
    pub fn poll_transmit(&mut self, now: Instant, tx: &mut TxFrame) -> bool {
        let is_silent = self.peers().rows.first_ready() == NONE && !self.peers().has_replies();
        !is_silent && self.write_next(now, tx)
    }

    #[inline(never)]
    fn write_next(&mut self, now: Instant, tx: &mut TxFrame) -> bool {
        if self.peers().is_closed() {
            return false;
        }
        if self.streams.has_told_ends() {
            self.streams.keep_told_ends(&mut self.messages);
        }
        if self.peers().has_replies() {
            self.write_next_reply(now, tx);
            return true;
        }
        loop {
            let row = self.peers().rows.first_ready();
            if row == NONE {
                return false;
            }
            let bulk = self.bulk_mut();
            let is_quick = bulk.peers.may_be_quick()
                && (bulk.write_quick(now, row, tx) || bulk.write_quick_ack(now, row, tx));
            if is_quick || self.write_any(now, row, tx) {
                return true;
            }
        }
    }

    /// A lone answer.
    #[cold]
    #[inline(never)]
    fn write_next_reply(&mut self, now: Instant, tx: &mut TxFrame) {
        self.peers_mut().write_next_reply(tx);
        self.peers_mut().look_at_closing(now);
    }

    /// Whatever the row whose turn it is has to send. If that is nothing, or enough for one turn, the turn passes.
    #[inline(never)]
    fn write_any(&mut self, now: Instant, row: u32, tx: &mut TxFrame) -> bool {
        let wrote = self.peers().rows[row].active() != NONE && self.write_row(now, row, tx);
        self.peers_mut().counters.frames_out += u64::from(wrote);
        if !wrote || self.peers().is_spent(row) {
            self.peers_mut().rows.leave_ready();
        } else {
            self.peers_mut().rows.on_frame_of_turn();
        }
        wrote
    }

    /// One frame of a row; false if it has nothing to send now.
    fn write_row(&mut self, now: Instant, row: u32, tx: &mut TxFrame) -> bool {
        match self.peers().rows[row].phase() {
            Phase::Idle => false,
            Phase::Hello => self.peers_mut().write_hello(now, row, tx),
            Phase::Echo | Phase::Joined => {
                self.peers_mut().write_challenge_of_path(now, row, tx)
                    || self.write_packet(now, row, tx)
            }
        }
    }

    /// A numbered frame: whatever is waiting and fits.
    fn write_packet(&mut self, now: Instant, row: u32, tx: &mut TxFrame) -> bool {
        let active = self.peers().rows[row].active();
        let (unsent_len, next) = self.bulk().unsent_len(row);
        let Some(index) = self.peers().actives[active].choose_path(now, unsent_len, next) else {
            return false;
        };
        let path = &self.peers().actives[active].paths[index];
        let this = &self.peers().rows[row];
        let joined = this.is_joined();
        let packet = path.flight().next_packet();
        start(tx, path.link(), path.locator(), this.secret(), packet);
        let header = match joined {
            true => this.header(packet, index as u8),
            false => this.contact_header(packet, index as u8),
        };
        // Of a peer that has not answered nothing is known, not even whether long frames reach it: one that does not would
        // be repeated for ever.
        let frame_len =
            if joined { path.frame_len() } else { path.frame_len().min(FRAME_LEN_FLOOR) };
        let frame_len = usize::from(frame_len);
        let mut writer = Writer::begin(&mut tx.head, header);
        if path.payload_check() {
            writer.check();
        }
        let bare_len = writer.len();
        let mut frame = Frame { writer, body: &mut tx.body, body_len: 0, frame_len, bare_len };
        self.peers_mut().write_introduction(row, &mut frame);
        let introduced_len = frame.writer.len();
        let mut acked = None;
        if joined {
            // Asked once for all of it: most frames of data have nothing to acknowledge.
            let is_owing = self.peers().actives[active].owes_ack();
            if is_owing && !self.bulk_mut().lets_message_go_first(row, index, &frame) {
                let is_blind = self.peers().acks_blindly(row, index);
                let share = self.bulk().credit_for_peers();
                acked = self.peers_mut().write_acks(now, row, share, &mut frame);
                if is_blind && frame.writer.len() > introduced_len {
                    self.peers_mut().ask_blindly(now, active, index);
                }
            }
            self.write_notices(now, row, index, &mut frame);
        } else {
            self.onesided.write_requests(&mut self.messages.bulk, now, row, index, &mut frame);
        }
        self.peers_mut().write_ping(now, row, index, &mut frame);
        self.bulk_mut().write_messages(row, index, &mut frame);
        if joined && frame.writer.len() == introduced_len && introduced_len == bare_len {
            self.bulk_mut().write_data(row, index, &mut frame);
        }
        // An introduction alone says nothing new; it travels with something or not at all.
        let is_empty = frame.writer.len() == introduced_len
            && self.peers().actives[active].paths[index].flight().building_count() == 0;
        let (head_len, body_len) = (frame.writer.len(), frame.body_len);
        if is_empty {
            return false;
        }
        tx.body_len = body_len;
        let path = &mut self.messages.bulk.peers.actives[active].paths[index];
        if let Some(acked) = acked
            && path.flight().building_count() > 0
        {
            path.add(acked); // by itself an acknowledgement is not acknowledged
        }
        let look_at =
            path.on_sent(now, (head_len + body_len) as u16, &self.messages.bulk.peers.settings);
        if look_at != Instant::NEVER {
            self.peers_mut().arm(look_at, row);
        }
        true
    }

    /// Notices, oldest first. They need no window (PROTOCOL §10.1).
    fn write_notices(&mut self, now: Instant, row: u32, index: usize, frame: &mut Frame<'_>) {
        let active = self.peers().rows[row].active();
        let mut has_asked = false;
        while let Some(notice) = self.peers().actives[active].first_notice() {
            if frame.room() < self.notice_len(&notice) {
                return;
            }
            self.peers_mut().actives[active].take_notice();
            let content = match notice {
                Notice::Requests if has_asked => {
                    self.peers_mut().actives[active].put_off(notice);
                    return;
                }
                Notice::Requests => {
                    has_asked = true;
                    if self.onesided.write_requests(&mut self.messages.bulk, now, row, index, frame)
                    {
                        self.peers_mut().actives[active].on_requests_written();
                    } else {
                        self.peers_mut().actives[active].put_off(notice); // behind what needs no window
                    }
                    None
                }
                Notice::Found(found) => {
                    frame.writer.found(&found);
                    Some(Content::Found)
                }
                Notice::Query(number) => self.messages.write_query(number, frame),
                Notice::Content(content) => self.write_content(row, content, frame),
            };
            if let Some(content) = content {
                self.peers_mut().actives[active].paths[index].add(content);
            }
        }
    }

    /// Room a notice needs at most.
    fn notice_len(&self, notice: &Notice) -> usize {
        match *notice {
            Notice::Content(Content::Reply { slot, serial }) => {
                self.onesided.answer_len(slot, serial).unwrap_or(wire::FOUND_HEAD_LEN)
            }
            _ => wire::FOUND_HEAD_LEN,
        }
    }

    /// Writes a notice that must arrive; `None` if it has become pointless.
    fn write_content(
        &mut self,
        row: u32,
        content: Content,
        frame: &mut Frame<'_>,
    ) -> Option<Content> {
        match content {
            Content::Grant { slot, serial, offset, len } => {
                let (lane, message) = self.bulk().granted(slot, serial)?;
                frame.writer.grant(lane, message, offset, u64::from(len));
            }
            Content::Done { message, status, placed_len } => {
                frame.writer.done(message, status, placed_len);
            }
            Content::Cancel { message } => frame.writer.cancel(message),
            Content::Reply { slot, serial } => {
                self.onesided.write_answer(slot, serial, frame)?;
            }
            Content::Replied { first, count } => frame.writer.replied(first, count),
            Content::End { number } => frame.writer.end(number),
            Content::Turn { .. } => {
                // Always the newest word on the matter.
                let this = &self.peers().rows[row];
                let order = this.turn_order();
                match this.numbers.refused_from() {
                    None => frame.writer.recall(this.numbers.next_in() as u32, order),
                    Some(from) => frame.writer.refuse(from as u32, order),
                }
                return Some(Content::Turn { order });
            }
            Content::StreamCredit => {
                frame.writer.stream_credit(self.streams.tell_stream_limit(row)?)
            }
            Content::Goodbye => frame.writer.goodbye(self.bulk().accepted_below(row) as u32),
            _ => return None,
        }
        Some(content)
    }
}

impl Endpoint {
    /// The next frames to send, if these are granted data or fragments of one message: at most `count_max` of them, heads and payload
    /// at most `len_max` bytes in all, or what their link takes in one go if that is more ([`LinkTraits`](crate::LinkTraits)). False whenever something else goes first, or nothing does: `poll_transmit` tells
    /// which.
    #[inline]
    pub fn poll_train(
        &mut self,
        now: Instant,
        count_max: usize,
        len_max: usize,
        train: &mut TxTrain,
    ) -> bool {
        self.bulk().may_train() && self.write_train(now, count_max, len_max, train)
    }

    #[inline(never)]
    fn write_train(
        &mut self,
        now: Instant,
        count_max: usize,
        len_max: usize,
        train: &mut TxTrain,
    ) -> bool {
        let row = self.peers().rows.first_ready();
        if row == NONE || self.peers().has_replies() || self.peers().is_closed() {
            return false;
        }
        let (count_max, len_max) = (count_max as u64, len_max as u64);
        if self.bulk_mut().write_fragments(now, row, count_max, len_max, train) {
            return true;
        }
        let Some(plan) = self.bulk_mut().plan_train(now, row, count_max, len_max) else {
            return false;
        };
        self.bulk_mut().start_train(now, row, &plan, train);
        true
    }
}
