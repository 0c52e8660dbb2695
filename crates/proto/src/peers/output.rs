//! What peers say for themselves: first contact, challenges, acknowledgements, pings.

use crate::delivery::ack::PAIR_COUNT_MAX;
use crate::delivery::content::Content;
use crate::delivery::credit::Share;
use crate::delivery::frame::{Frame, start};
use crate::delivery::path::Standing;
use crate::peers::Peers;
use crate::peers::kept::{Reply, ReplyRecord};
use crate::peers::rows::Phase;
use crate::wire::{AckRepr, Header, Writer};
use crate::{Instant, MS, Sabotage, Source, TxFrame, wire};

impl Peers {
    /// Answers wait that belong to no association.
    #[inline(always)]
    pub(crate) fn has_replies(&self) -> bool {
        !self.replies.is_empty()
    }

    /// The answer that has waited longest.
    pub(crate) fn write_next_reply(&mut self, tx: &mut TxFrame) {
        if let Some(reply) = self.replies.pop_front() {
            self.write_reply(&reply, tx);
        }
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

    /// The first Hello, and its repeats.
    pub(crate) fn write_hello(&mut self, now: Instant, row: u32, tx: &mut TxFrame) -> bool {
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
        start(tx, path.link(), path.locator(), this.secret, 0);
        let header = Header { to: 0, ..this.contact_header(0, 0) };
        let hello = self.hello_repr(this.local_id, nonce);
        Writer::begin(&mut tx.head, header).hello(&hello, this.secret);
        self.counters.hellos += 1;
        self.arm(now + pause_ns, row);
        true
    }

    /// A path that must prove itself is asked, with back-off (PROTOCOL §3.11, §6.5).
    pub(crate) fn write_challenge_of_path(
        &mut self,
        now: Instant,
        row: u32,
        tx: &mut TxFrame,
    ) -> bool {
        let active = self.rows[row].active;
        if self.rows[row].phase != Phase::Joined || self.actives[active].paths.len() == 1 {
            return false;
        }
        let Some(index) = self.next_challenge(now, row) else { return false };
        let nonce = self.draw();
        let path = &mut self.actives[active].paths[index];
        let pause_ns = path.challenge_pause_ns(2 * self.settings.initial_rtt_ns);
        let was_given_up = path.is_hopeless();
        path.on_challenge_sent(now, nonce, pause_ns);
        let is_given_up = path.is_hopeless() && !was_given_up;
        let path = &self.actives[active].paths[index];
        let this = &self.rows[row];
        start(tx, path.link(), path.locator(), this.secret, 0);
        let header = this.header(0, index as u8);
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
            let len = match path.is_stream() {
                true => OPENING_LEN,
                false => wire::HEADER_LEN + wire::PATH_HEAD_LEN,
            };
            let is_owed = path.standing() == Standing::Left
                || self.saboteur.makes(Sabotage::NamedPlacesAskedFreely)
                || this.allowance.take(this.heard_at, len);
            if is_owed {
                return Some(index);
            }
            // As if it had been asked in vain: where nobody answers nobody is kept awake for.
            let pause_ns = path.challenge_pause_ns(pause_ns).max(UNPAID_PAUSE_NS);
            let was_given_up = path.is_hopeless();
            path.on_challenge_spared(now, pause_ns);
            if path.is_hopeless() && !was_given_up {
                self.news.add_of_paths(this.peer);
            }
        }
        None
    }

    /// Hello and Echo, or Welcome, in front of each frame as long as the peer may not know us (PROTOCOL §3.3).
    pub(crate) fn write_introduction(&mut self, row: u32, frame: &mut Frame<'_>) {
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
    pub(crate) fn ask_blindly(&mut self, now: Instant, active: u32, index: usize) {
        let active = &mut self.actives[active];
        if now >= active.blind_ping_at {
            active.ask();
            active.blind_ping_at = now + active.paths[index].probe_ns(self.settings.ack_delay_ns);
        }
    }

    /// Acknowledgements that are due, and with them those that are merely pending.
    pub(crate) fn write_acks(
        &mut self,
        now: Instant,
        row: u32,
        share: Share,
        frame: &mut Frame<'_>,
    ) -> Option<Content> {
        let sabotaged = self.saboteur.makes(Sabotage::AckOneTooHigh);
        let active = &mut self.actives[self.rows[row].active];
        let has_more = active.has_content();
        let mut acked = None;
        for (index, path) in active.paths.iter_mut().enumerate() {
            if !path.owes_ack() || !(path.is_ack_urgent() || has_more) {
                continue;
            }
            let room = frame.room().saturating_sub(wire::ack_head_len(0)) / 8;
            let mut pairs = [(0, 0); PAIR_COUNT_MAX];
            let pair_count_max = room.min(PAIR_COUNT_MAX);
            let Some(ack) = path.write_ack(now, &mut pairs[..pair_count_max]) else { continue };
            let repr = AckRepr {
                path: index as u8,
                largest: (ack.largest as u32).wrapping_add(u32::from(sabotaged)),
                first_len: ack.first_len + u32::from(sabotaged),
                delay_ns: ack.delay_ns,
                credit_len: path.credit_of(share),
            };
            frame.writer.ack(&repr, &pairs[..ack.pair_count]);
            self.counters.acks_out += 1;
            if path.received().has_holes() {
                acked = Some(Content::AckUpTo { path: index as u8, largest: ack.largest });
            }
            path.on_ack_sent();
        }
        acked
    }

    /// An acknowledgement that is pending cannot go back the way its packet came, and nothing in flight would tell that this
    /// other way is dead: then it must ask.
    pub(crate) fn acks_blindly(&self, row: u32, index: usize) -> bool {
        let active = self.active_of(row);
        active.paths.len() > 1
            && active.paths[index].flight().is_empty()
            && active.paths.iter().any(|path| {
                let back = active.paths.get(usize::from(path.back()));
                path.owes_ack() && back.is_none_or(|back| !back.is_usable())
            })
    }

    /// Ping where one is due: to confirm an echo, after silence, or padded to try a longer frame.
    pub(crate) fn write_ping(
        &mut self,
        now: Instant,
        row: u32,
        index: usize,
        frame: &mut Frame<'_>,
    ) {
        if frame.room() < wire::PING_HEAD_LEN {
            return; // in the next frame
        }
        let this = &self.rows[row];
        let (id, secret, joined) = (this.local_id, this.secret, this.phase == Phase::Joined);
        let active = &mut self.actives[this.active];
        let path = &mut active.paths[index];
        if path.is_probe_due() {
            let is_silent = path.take_probe();
            active.ping = false;
            let locators = self.locators.len();
            if is_silent
                && joined
                && frame.room() >= wire::hello_head_len(locators) + wire::PING_HEAD_LEN
            {
                // Who has forgotten us will answer this Hello with a Challenge (PROTOCOL §3.8).
                let nonce = self.draw();
                self.active_of_mut(row).contact.nonce = nonce;
                let hello = self.hello_repr(id, nonce);
                frame.writer.hello(&hello, secret);
            }
            frame.writer.ping();
            self.active_of_mut(row).paths[index].add(Content::Ping);
        } else if active.ping {
            active.ping = false;
            frame.writer.ping();
            path.add(Content::Ping);
        } else if joined && let Some(frame_len) = path.frame_probe_due(now) {
            let pad = usize::from(frame_len)
                .checked_sub(frame.len() + wire::PING_HEAD_LEN + wire::PAD_HEAD_LEN);
            let Some(pad) = pad else { return };
            frame.writer.ping();
            frame.writer.pad(pad as u16);
            frame.push_body(Source::Zero, pad);
            path.add(Content::Probe { frame_len });
            path.on_frame_probe_sent(now, frame_len);
            frame.frame_len = 0; // nothing else fits
        }
    }

    /// Certainly nothing more to send. (If in doubt the row stays, and the next poll finds out.)
    #[inline]
    pub(crate) fn is_spent(&self, row: u32) -> bool {
        let this = &self.rows[row];
        let active = &self.actives[this.active];
        let [path] = &active.paths[..] else { return false };
        this.phase == Phase::Joined
            && !active.line.has_unsent()
            && active.control.is_empty()
            && !active.line.has_lost()
            && !active.line.has_granted()
            && !(active.ping || path.is_probe_due() || path.is_ack_urgent())
    }
}

impl Peers {
    /// A packet of this row has left: it is counted, the row is looked at in time for it, and passes its turn on if it has nothing
    /// more to send. `timer_at` is the row's, which the caller has at hand.
    #[inline(always)]
    pub(crate) fn after_packet(
        &mut self,
        (row, timer_at): (u32, Instant),
        look_at: Instant,
        is_spent: bool,
    ) {
        self.counters.frames_out += 1;
        if look_at < timer_at {
            self.arm(look_at, row);
        }
        if is_spent {
            self.rows.leave_ready();
        }
    }
}

/// What a question by a stream costs: TCP asks six times within a minute, in packets of sixty bytes, whether it may begin.
const OPENING_LEN: usize = 6 * 60;

/// A path that may not be asked for want of an allowance is looked at again after this.
pub(crate) const UNPAID_PAUSE_NS: u64 = 100 * MS;
