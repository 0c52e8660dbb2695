//! A frame leaves.
//!
//! PROTOCOL §10. Lone answers go first; then rows that have something to say take turns. A frame of a row is filled in
//! one pass: first contact, acknowledgements, notices, messages in order; or, when none of these is waiting, one piece
//! of granted data, so that data frames are alike and can leave as a train. What goes in is recorded in the path's
//! flight as content; what the record's body is made of goes out as pieces to gather.

use crate::base::api::{Source, TxFrame};
use crate::base::limits::{FRAME_LEN_FLOOR, MS};
use crate::base::sabotage::Sabotage;
use crate::base::slab::NONE;
use crate::base::types::Instant;
use crate::bulk::outgoing::{RESULT_BIT, SendStage};
use crate::delivery::ack::PAIR_COUNT_MAX;
use crate::delivery::content::Content;
use crate::delivery::credit::Share;
use crate::delivery::credit::eager_cost;
use crate::delivery::frame::{Frame, start};
use crate::delivery::path::Standing;
use crate::endpoint::Endpoint;
use crate::peers::contact::{Reply, ReplyRecord};
use crate::peers::rows::{NO_MESSAGE, Notice, Phase};
use crate::wire::{self, AckRepr, FORM_STRANGER, Header, Writer};

/// A path that may not be asked for want of an allowance is looked at again after this.
const UNPAID_PAUSE_NS: u64 = 100 * MS;

impl Endpoint {
    /// Whether `poll_new_locators`, `poll_new_path`, `poll_train` or `poll_transmit` may have something. What a driver that spins asks first.
    #[inline]
    pub fn has_output(&self) -> bool {
        self.rows.first_ready() != NONE || !self.replies.is_empty() || self.has_news
    }

    /// The next frame to send, if there is one. The driver gathers `tx.body`, calls `tx.seal`, and sends.
    #[inline] // a driver asks until there is nothing: that answer is two comparisons
    pub fn poll_transmit(&mut self, now: Instant, tx: &mut TxFrame) -> bool {
        let is_silent = self.rows.first_ready() == NONE && self.replies.is_empty();
        !is_silent && self.write_next(now, tx)
    }

    #[inline(never)]
    fn write_next(&mut self, now: Instant, tx: &mut TxFrame) -> bool {
        if self.closed {
            return false;
        }
        if !self.replies.is_empty() {
            self.write_next_reply(now, tx);
            return true;
        }
        loop {
            let row = self.rows.first_ready();
            if row == NONE {
                return false;
            }
            let is_quick = self.may_be_quick()
                && (self.write_quick(now, row, tx) || self.write_quick_ack(now, row, tx));
            if is_quick || self.write_any(now, row, tx) {
                return true;
            }
        }
    }

    /// A lone answer.
    #[cold]
    #[inline(never)]
    fn write_next_reply(&mut self, now: Instant, tx: &mut TxFrame) {
        let Some(reply) = self.replies.pop_front() else { return };
        self.write_reply(&reply, tx);
        if let Some(closing) = &mut self.closing
            && self.replies.is_empty()
        {
            closing.look_at = now; // perhaps this was the last word
        }
    }

    /// Whatever the row whose turn it is has to send; if that is nothing, the turn passes.
    #[inline(never)]
    fn write_any(&mut self, now: Instant, row: u32, tx: &mut TxFrame) -> bool {
        let wrote = self.rows[row].active != NONE && self.write_row(now, row, tx);
        self.counters.frames_out += u64::from(wrote);
        if !wrote || self.is_spent(row) {
            self.rows.leave_ready();
        }
        wrote
    }

    /// Certainly nothing more to send. (If in doubt the row stays, and the next poll finds out.)
    #[inline]
    pub(crate) fn is_spent(&self, row: u32) -> bool {
        let this = &self.rows[row];
        let active = &self.actives[this.active];
        let [path] = &active.paths[..] else { return false };
        this.phase == Phase::Joined
            && active.unsent == NONE
            && active.control.is_empty()
            && active.resend.is_empty()
            && active.granted.is_empty()
            && !(active.ping || path.probe_now || path.ack_at_once)
    }

    fn write_reply(&mut self, reply: &Reply, tx: &mut TxFrame) {
        let header = Header { to: reply.to, packet: 0, path: reply.path, form: reply.version };
        start(tx, reply.link, &reply.locator, reply.secret, 0);
        let mut writer = Writer::begin(&mut tx.head, header);
        let versions = self.versions_byte();
        match reply.record {
            ReplyRecord::Challenge { nonce, cookie } => {
                writer.challenge(0, versions, nonce, cookie, self.incarnation);
            }
            ReplyRecord::Versions { nonce } => {
                writer.versions(self.settings.versions.0, self.settings.versions.1, nonce);
            }
            ReplyRecord::Reset { id } => writer.reset(id),
            ReplyRecord::PathChallenge { nonce } => writer.path_challenge(reply.path, nonce),
            ReplyRecord::PathResponse { nonce } => writer.path_response(reply.path, nonce),
        }
        self.counters.frames_out += 1;
    }

    /// One frame of a row; false if it has nothing to send now.
    fn write_row(&mut self, now: Instant, row: u32, tx: &mut TxFrame) -> bool {
        match self.rows[row].phase {
            Phase::Idle => false,
            Phase::Hello => self.write_hello(now, row, tx),
            Phase::Echo | Phase::Joined => {
                self.write_challenge_of_path(now, row, tx) || self.write_packet(now, row, tx)
            }
        }
    }

    /// The first Hello, and its repeats.
    fn write_hello(&mut self, now: Instant, row: u32, tx: &mut TxFrame) -> bool {
        let active = self.rows[row].active;
        let contact = &mut self.actives[active].contact;
        if now < contact.hello_at {
            return false;
        }
        let (nonce, count, ways) = (contact.nonce, contact.hello_count, contact.way_count());
        contact.hello_count += 1;
        // All ways within the time that one would have: none waits longer because there are others.
        let pause_ns = self.hello_pause_ns(count / ways) / u64::from(ways);
        self.actives[active].contact.hello_at = now + pause_ns;
        self.turn_contact(row);
        let this = &self.rows[row];
        let path = &self.actives[active].paths[0];
        start(tx, path.link, &path.locator, this.secret, 0);
        let form = this.version | if this.by_public_key { FORM_STRANGER } else { 0 };
        let hello = self.hello_repr(this.local_id, nonce);
        Writer::begin(&mut tx.head, Header { to: 0, packet: 0, path: 0, form })
            .hello(&hello, this.secret);
        self.counters.hellos += 1;
        self.arm(now + pause_ns, row);
        true
    }

    /// A path that must prove itself is asked, with back-off (PROTOCOL §3.11, §6.5).
    fn write_challenge_of_path(&mut self, now: Instant, row: u32, tx: &mut TxFrame) -> bool {
        let active = self.rows[row].active;
        if self.rows[row].phase != Phase::Joined || self.actives[active].paths.len() == 1 {
            return false;
        }
        let Some(index) = self.next_challenge(now, row) else { return false };
        let nonce = self.draw();
        let path = &mut self.actives[active].paths[index];
        let pause_ns = path.challenge_pause_ns(2 * self.settings.initial_rtt_ns);
        path.challenge_nonce = nonce;
        path.challenge_sent_at = now;
        path.challenge_count += 1;
        path.challenge_at = now + pause_ns;
        let is_given_up = path.is_hopeless();
        let path = &self.actives[active].paths[index];
        let this = &self.rows[row];
        start(tx, path.link, &path.locator, this.secret, 0);
        let header =
            Header { to: this.remote_id, packet: 0, path: index as u8, form: this.version };
        Writer::begin(&mut tx.head, header).path_challenge(index as u8, nonce);
        if is_given_up {
            self.tell_path_news(row);
        }
        self.arm(now + pause_ns, row);
        true
    }

    /// The path to ask now. Where nobody ever answered is asked only as much as the peer has sent itself (PROTOCOL §3.12).
    fn next_challenge(&mut self, now: Instant, row: u32) -> Option<usize> {
        let this = &mut self.rows[row];
        let pause_ns = 2 * self.settings.initial_rtt_ns;
        for (index, path) in self.actives[this.active].paths.iter_mut().enumerate() {
            if !path.wants_challenge(now) {
                continue;
            }
            let is_owed = path.standing == Standing::Left
                || this.allowance.take(this.heard_at, wire::HEADER_LEN + wire::PATH_HEAD_LEN);
            if is_owed {
                return Some(index);
            }
            // As if it had been asked in vain: where nobody answers nobody is kept awake for.
            path.challenge_at = now + path.challenge_pause_ns(pause_ns).max(UNPAID_PAUSE_NS);
            path.challenge_count += 1;
        }
        None
    }

    /// A numbered frame: whatever is waiting and fits.
    fn write_packet(&mut self, now: Instant, row: u32, tx: &mut TxFrame) -> bool {
        let active = self.rows[row].active;
        let (unsent_len, next) = self.unsent_len(row);
        let Some(index) = self.actives[active].choose_path(now, unsent_len, next) else {
            return false;
        };
        let path = &self.actives[active].paths[index];
        let this = &self.rows[row];
        let joined = this.phase == Phase::Joined;
        let packet = path.flight.next_packet();
        start(tx, path.link, &path.locator, this.secret, packet);
        let header = Header {
            to: this.remote_id,
            packet,
            path: index as u8,
            form: this.version | if this.by_public_key && !joined { FORM_STRANGER } else { 0 },
        };
        // Of a peer that has not answered nothing is known, not even whether long frames reach it: one that does not would
        // be repeated for ever.
        let frame_len = if joined { path.frame_len } else { path.frame_len.min(FRAME_LEN_FLOOR) };
        let frame_len = usize::from(frame_len);
        let mut writer = Writer::begin(&mut tx.head, header);
        if path.payload_check {
            writer.check();
        }
        let bare_len = writer.len();
        let mut frame = Frame { writer, body: &mut tx.body, body_len: 0, frame_len, bare_len };
        self.write_introduction(row, &mut frame);
        let introduced_len = frame.writer.len();
        let mut acked = None;
        if joined {
            if !self.lets_message_go_first(row, index, &frame) {
                let is_blind = self.acks_blindly(row, index);
                acked = self.write_acks(now, row, &mut frame);
                if is_blind && frame.writer.len() > introduced_len {
                    self.ask_blindly(now, active, index);
                }
            }
            self.write_notices(now, row, index, &mut frame);
        } else {
            self.write_requests(now, row, index, &mut frame);
        }
        self.write_ping(now, row, index, &mut frame);
        self.write_messages(row, index, &mut frame);
        if joined && frame.writer.len() == introduced_len && introduced_len == bare_len {
            self.write_data(row, index, &mut frame);
        }
        // An introduction alone says nothing new; it travels with something or not at all.
        let is_empty = frame.writer.len() == introduced_len
            && self.actives[active].paths[index].flight.building_count() == 0;
        let (head_len, body_len) = (frame.writer.len(), frame.body_len);
        if is_empty {
            return false;
        }
        tx.body_len = body_len;
        let path = &mut self.actives[active].paths[index];
        if let Some(acked) = acked
            && path.flight.building_count() > 0
        {
            path.flight.add(acked); // by itself an acknowledgement is not acknowledged
        }
        let look_at = path.on_sent(now, (head_len + body_len) as u16, &self.settings);
        if look_at != Instant::NEVER {
            self.arm(look_at, row);
        }
        true
    }

    /// Hello and Echo, or Welcome, in front of each frame as long as the peer may not know us (PROTOCOL §3.3).
    fn write_introduction(&mut self, row: u32, frame: &mut Frame<'_>) {
        let this = &self.rows[row];
        let active = &self.actives[this.active];
        if this.phase == Phase::Echo {
            let (nonce, cookie, secret, id) =
                (active.contact.nonce, active.contact.cookie, this.secret, this.local_id);
            let ended_id = this.ended_id;
            let hello = self.hello_repr(id, nonce);
            frame.writer.hello(&hello, secret);
            frame.writer.echo(cookie);
            if ended_id != 0 {
                frame.writer.reset(ended_id);
            }
        } else if active.welcome {
            let nonce = active.peer_nonce;
            let welcome = self.welcome_repr(row, nonce);
            frame.writer.welcome(&welcome, self.rows[row].secret);
        }
    }

    /// Whether the way of an acknowledgement lives is asked once in a while: two who answer each other's questions blindly
    /// would do so without end.
    fn ask_blindly(&mut self, now: Instant, active: u32, index: usize) {
        let active = &mut self.actives[active];
        if now >= active.blind_ping_at {
            active.ping = true;
            active.blind_ping_at = now + active.paths[index].probe_ns(self.settings.ack_delay_ns);
        }
    }

    /// A message that fills a frame leaves no room for the acknowledgement that waits to ride on it. The message is what the
    /// peer waits for: it goes first, and the acknowledgement right behind it (PROTOCOL §10.1).
    fn lets_message_go_first(&mut self, row: u32, index: usize, frame: &Frame<'_>) -> bool {
        let this = &self.rows[row];
        let active = &mut self.actives[this.active];
        let is_owing = active.paths.iter().any(|path| path.ack_pending_count > 0);
        let slot = active.unsent;
        let has_waited = active.paths.iter().any(|path| path.ack_waited || path.probe_now);
        let has_other = !active.control.is_empty() || !active.resend.is_empty() || active.ping;
        if !is_owing || has_waited || has_other || slot == NONE {
            return false;
        }
        let (send, room) = (&self.outgoing[slot], frame.room());
        let is_between =
            send.fits_whole(room) && !send.fits_whole(room.saturating_sub(wire::ack_head_len(0)));
        let cost = eager_cost(send.total as u32);
        let may_go = send.stage == SendStage::Waiting
            && send.message < this.held_from
            && active.paths[index].has_window()
            && active.credit.allows(cost);
        if !is_between || !may_go {
            return false;
        }
        for path in active.paths.iter_mut().filter(|path| path.ack_pending_count > 0) {
            path.ack_waited = true;
            path.ack_at_once = true;
        }
        true
    }

    /// Acknowledgements that are due, and with them those that are merely pending.
    fn write_acks(&mut self, now: Instant, row: u32, frame: &mut Frame<'_>) -> Option<Content> {
        let share = self.credit_for_peers();
        let sabotaged = self.saboteur.makes(Sabotage::AckOneTooHigh);
        let active = &mut self.actives[self.rows[row].active];
        let has_more = active.has_content();
        let mut acked = None;
        for (index, path) in active.paths.iter_mut().enumerate() {
            if path.ack_pending_count == 0 || !(path.ack_at_once || has_more) {
                continue;
            }
            let room = frame.room().saturating_sub(wire::ack_head_len(0)) / 8;
            let mut pairs = [(0, 0); PAIR_COUNT_MAX];
            let pair_count_max = room.min(PAIR_COUNT_MAX);
            let Some(ack) = path.received.ack(now, &mut pairs[..pair_count_max]) else { continue };
            let repr = AckRepr {
                path: index as u8,
                largest: (ack.largest as u32).wrapping_add(u32::from(sabotaged)),
                first_len: ack.first_len + u32::from(sabotaged),
                delay_ns: ack.delay_ns,
                credit_len: share.by(path.is_reliable),
            };
            frame.writer.ack(&repr, &pairs[..ack.pair_count]);
            self.counters.acks_out += 1;
            if path.received.has_holes() {
                acked = Some(Content::AckUpTo { path: index as u8, largest: ack.largest });
            }
            path.on_ack_sent();
        }
        acked
    }

    /// An acknowledgement that is pending cannot go back the way its packet came, and nothing in flight would tell that this
    /// other way is dead: then it must ask.
    fn acks_blindly(&self, row: u32, index: usize) -> bool {
        let active = &self.actives[self.rows[row].active];
        active.paths.len() > 1
            && active.paths[index].flight.is_empty()
            && active.paths.iter().any(|path| {
                let back = active.paths.get(usize::from(path.back));
                path.ack_pending_count > 0 && back.is_none_or(|back| !back.is_usable())
            })
    }

    /// What we would hold for one more active peer (PROTOCOL §5.5).
    #[inline]
    pub(crate) fn credit_for_peers(&self) -> Share {
        let envelopes = self.limits.envelope_count_max.saturating_sub(self.envelope_count);
        Share {
            held_len: self.held.free_len().min(u64::from(envelopes) * 64),
            unasked_len: self.limits.unasked_len_max,
            peer_count: self.actives.len(),
        }
    }

    /// Notices, oldest first. They need no window (PROTOCOL §10.1).
    fn write_notices(&mut self, now: Instant, row: u32, index: usize, frame: &mut Frame<'_>) {
        let active = self.rows[row].active;
        let mut has_asked = false;
        while let Some(&notice) = self.actives[active].control.front() {
            if frame.room() < self.notice_len(&notice) {
                return;
            }
            self.actives[active].control.pop_front();
            let content = match notice {
                Notice::Requests if has_asked => {
                    self.actives[active].control.push_back(notice);
                    return;
                }
                Notice::Requests => {
                    has_asked = true;
                    if self.write_requests(now, row, index, frame) {
                        self.actives[active].side_mut().is_queued = false;
                    } else {
                        self.actives[active].control.push_back(notice); // behind what needs no window
                    }
                    None
                }
                Notice::Found(found) => {
                    frame.writer.found(&found);
                    Some(Content::Found)
                }
                Notice::Query(number) => self.write_query(number, frame),
                Notice::Content(content) => self.write_content(row, content, frame),
            };
            if let Some(content) = content {
                self.actives[active].paths[index].flight.add(content);
            }
        }
    }

    /// Room a notice needs at most.
    fn notice_len(&self, notice: &Notice) -> usize {
        match *notice {
            Notice::Content(Content::Reply { slot, serial })
                if self.answers.holds(slot, serial) =>
            {
                wire::REPLY_HEAD_LEN + usize::from(self.answers[slot].len)
            }
            _ => wire::FOUND_HEAD_LEN,
        }
    }

    fn write_query(&mut self, number: u32, frame: &mut Frame<'_>) -> Option<Content> {
        let query = self.queries.find(number)?;
        frame.writer.query(number, query.criteria.space, query.criteria.tag, query.criteria.ignore);
        Some(Content::Query { query: number })
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
                if !self.arrivals.holds(slot, serial) || self.arrivals[slot].progress == NONE {
                    return None;
                }
                let arrival = &self.arrivals[slot];
                frame.writer.grant(arrival.lane, arrival.message, offset, u64::from(len));
            }
            Content::Done { message, status, placed_len } => {
                frame.writer.done(message, status, placed_len);
            }
            Content::Cancel { message } => frame.writer.cancel(message),
            Content::Reply { slot, serial } => {
                let answer = self.answers.get(slot).filter(|_| self.answers.holds(slot, serial))?;
                frame.writer.reply(answer.number, answer.status, answer.len);
                if answer.len > 0 {
                    let slot = answer.result | RESULT_BIT;
                    frame.push_body(Source::Pool { slot, offset: 0 }, answer.len.into());
                }
            }
            Content::Replied { first, count } => frame.writer.replied(first, count),
            Content::End { number } => frame.writer.end(number),
            Content::Turn { .. } => {
                // Always the newest word on the matter.
                let this = &self.rows[row];
                let order = this.turn_sent;
                if this.refused_from == NO_MESSAGE {
                    frame.writer.recall(this.message_in as u32, order);
                } else {
                    frame.writer.refuse(this.refused_from as u32, order);
                }
                return Some(Content::Turn { order });
            }
            Content::StreamCredit => frame.writer.stream_credit(self.tell_stream_limit(row)?),
            Content::Goodbye => frame.writer.goodbye(self.accepted_below(row) as u32),
            _ => return None,
        }
        Some(content)
    }

    /// Ping where one is due: to confirm an echo, after silence, or padded to try a longer frame.
    fn write_ping(&mut self, now: Instant, row: u32, index: usize, frame: &mut Frame<'_>) {
        if frame.room() < wire::PING_HEAD_LEN {
            return; // in the next frame
        }
        let this = &self.rows[row];
        let (id, secret, joined) = (this.local_id, this.secret, this.phase == Phase::Joined);
        let active = &mut self.actives[this.active];
        let path = &mut active.paths[index];
        if path.probe_now {
            path.probe_now = false;
            let is_silent = !core::mem::take(&mut path.is_refresh);
            active.ping = false;
            let locators = self.locators.len();
            if is_silent
                && joined
                && frame.room() >= wire::hello_head_len(locators) + wire::PING_HEAD_LEN
            {
                // Who has forgotten us will answer this Hello with a Challenge (PROTOCOL §3.8).
                let nonce = self.draw();
                self.actives[self.rows[row].active].contact.nonce = nonce;
                let hello = self.hello_repr(id, nonce);
                frame.writer.hello(&hello, secret);
            }
            frame.writer.ping();
            self.actives[self.rows[row].active].paths[index].flight.add(Content::Ping);
        } else if active.ping {
            active.ping = false;
            frame.writer.ping();
            path.flight.add(Content::Ping);
        } else if joined && let Some(frame_len) = path.frame_probe_due(now) {
            let pad = usize::from(frame_len)
                .checked_sub(frame.len() + wire::PING_HEAD_LEN + wire::PAD_HEAD_LEN);
            let Some(pad) = pad else { return };
            frame.writer.ping();
            frame.writer.pad(pad as u16);
            frame.push_body(Source::Zero, pad);
            path.flight.add(Content::Probe { frame_len });
            path.on_frame_probe_sent(now, frame_len);
            frame.frame_len = 0; // nothing else fits
        }
    }
}
