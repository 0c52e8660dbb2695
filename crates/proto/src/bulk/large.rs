//! Large messages: announce, grant, finish.
//!
//! PROTOCOL §8. Above `eager_len_max` the sender announces (Rts), the receiver grants ranges of the user's own memory
//! (Grant) and reports the end (Done). The receiver sets the pace, so a large message never needs memory of ours.
//! Every notice is content and is repeated until acknowledged; beside that, a granted range that does not come for
//! long is granted again, so that no single lost thought can stop a transfer.

use crate::base::limits::GrantPolicy;
use crate::base::sabotage::Sabotage;
use crate::base::slab::NONE;
use crate::base::types::{Instant, Memory};
use crate::bulk::Bulk;
use crate::bulk::arrival::Cursor;
use crate::bulk::arrival::{lane_key, number_key};
use crate::bulk::filling::Absorbed;
use crate::bulk::outgoing::{Parts, SendStage};
use crate::delivery::content::Content;
use crate::peers::rows::Notice;
use crate::wire::{CHECK_HEAD_LEN, DATA_HEAD_LEN, HEADER_LEN, Lane};

/// A granted range that did not come for this many probe times is granted again (PROTOCOL §8.5).
const REGRANT_PROBES: u64 = 4;
/// Pieces a granted message may be in before further grants are ignored (they will be repeated): only a peer that means
/// harm grants byte by byte.
pub(crate) const GRANT_PIECE_COUNT_MAX: usize = 4096;
/// Ranges granted again at once.
const REGRANT_COUNT_MAX: usize = 8;

impl Bulk {
    /// A large message was matched: it takes part in the grants, or waits for an earlier one of its peer (PROTOCOL §8.4).
    /// Its sender sends it up to `ahead_to` without having been asked.
    pub(super) fn start_grants(&mut self, now: Instant, slot: u32, ahead_to: u64) {
        if self.start_fetch(slot) {
            return;
        }
        let (row, progress) =
            (self.arrivals[slot].row, &self.progress[self.arrivals[slot].progress]);
        let wanted = progress.cap - progress.first_wanted();
        let before = match self.peers.rows[row].large.granting() {
            NONE => 0,
            earlier => self.grants.remaining_of(earlier),
        };
        let takes_turns = self.peers.settings.grant_policy == GrantPolicy::SmallestFirst;
        if takes_turns && before > 0 && wanted >= before / 2 {
            self.wait_behind(row, slot);
            return;
        }
        if before == 0 {
            self.peers.rows[row].large.begin(slot);
        }
        self.begin_grants(slot, now + self.peers.settings.initial_rtt_ns);
        self.grant_ahead(now, slot, ahead_to);
        self.pump_grants(now);
    }

    fn begin_grants(&mut self, slot: u32, look_at: Instant) {
        let progress = &mut self.progress[self.arrivals[slot].progress];
        // What is present beyond the first gap (a pulled message whose records came after all) is granted too:
        // simpler than granting around it, and its bytes are ignored when they come again.
        progress.granted_to = progress.first_wanted();
        let remaining = progress.cap - progress.granted_to;
        let active = self.peers.awake(self.arrivals[slot].row);
        let is_free = active.is_some_and(|active| active.grants_soon());
        self.grants.start(slot, remaining, is_free);
        self.granting.push(slot);
        self.regrant_at = self.regrant_at.min(look_at);
    }

    /// Puts a message behind those of its peer that wait.
    fn wait_behind(&mut self, row: u32, slot: u32) {
        let last = self.peers.rows[row].large.wait(slot);
        self.progress[self.arrivals[slot].progress].waiting = Some((last, NONE));
        if last != NONE {
            self.set_neighbours(last, |(before, _)| (before, slot));
        }
    }

    fn set_neighbours(&mut self, slot: u32, change: impl FnOnce((u32, u32)) -> (u32, u32)) {
        let progress = &mut self.progress[self.arrivals[slot].progress];
        progress.waiting = progress.waiting.map(change);
    }

    /// Takes a message out of the queue of its peer; false if it did not wait.
    fn wait_no_more(&mut self, slot: u32) -> bool {
        let (row, index) = (self.arrivals[slot].row, self.arrivals[slot].progress);
        let Some(progress) = self.progress.get_mut(index) else { return false };
        let Some((before, behind)) = progress.waiting.take() else { return false };
        self.peers.rows[row].large.wait_no_more(before, behind);
        if before != NONE {
            self.set_neighbours(before, |(first, _)| (first, behind));
        }
        if behind != NONE {
            self.set_neighbours(behind, |(_, last)| (before, last));
        }
        true
    }

    /// The peer's message that was granted needs no more, or is gone: the next begins.
    pub(super) fn pass_turn(&mut self, row: u32, look_at: Instant) {
        let next = self.peers.rows[row].large.begin_next();
        if next != NONE {
            self.wait_no_more(next);
            self.begin_grants(next, look_at);
        }
    }

    pub(crate) fn stop_grants(&mut self, slot: u32) {
        if !self.arrivals[slot].is_large || self.wait_no_more(slot) {
            return;
        }
        self.grants.stop(slot);
        if let Some(at) = self.granting.iter().position(|&granting| granting == slot) {
            self.granting.remove(at); // in the order of their beginnings: that is how data is expected
        }
        let row = self.arrivals[slot].row;
        if self.peers.rows[row].large.is_granting(slot) {
            self.pass_turn(row, Instant(0)); // granted by the look that is due now
        }
    }

    /// Bytes of Data a frame from this peer holds.
    pub(super) fn data_len(&self, row: u32) -> u64 {
        let check_len = if self.peers.is_checked(row) { CHECK_HEAD_LEN } else { 0 };
        let head_len = (HEADER_LEN + check_len + DATA_HEAD_LEN) as u64;
        u64::from(self.peers.frame_len_of(row)) - head_len
    }

    /// Grants as long as somebody may be granted.
    pub(super) fn pump_grants(&mut self, now: Instant) {
        while let Some(slot) = self.grants.next() {
            let (row, index) = (self.arrivals[slot].row, self.arrivals[slot].progress);
            let data_len = self.data_len(row);
            let (usual, rest) = (self.grant_len(slot, data_len), self.grants.remaining_of(slot));
            // A rest that is little more than a grant is not worth one of its own.
            let wanted = if self.has_free_grants(slot) && rest < usual + usual / 2 {
                rest
            } else {
                usual.min(rest)
            };
            let room = self.grants.room(slot);
            if room < wanted.min(data_len) {
                break; // less than a frame: wait until more has arrived
            }
            // Whole frames, unless it is the last of the message.
            let len = if room >= wanted { wanted } else { room - room % data_len };
            let serial = self.arrivals.serial(slot);
            let offset = self.progress[index].granted_to;
            self.progress[index].granted_to += len;
            self.progress[index].grant_count += 1;
            self.progress[index].progressed_at = now; // the wait for these bytes begins now
            self.grants.on_granted(slot, len);
            // Bytes that came before they were granted (a repeated announcement may hold more) are not waited for.
            let missing = self.progress[index].gaps.missing_within(offset, offset + len);
            self.grants.on_arrived(slot, len - missing);
            self.peers.counters.grants += 1;
            self.peers.notify(row, Content::Grant { slot, serial, offset, len: len as u32 });
            self.judge_readiness(slot);
            if self.peers.rows[row].large.is_granting(slot) && self.grants.remaining_of(slot) == 0 {
                self.pass_turn(row, now + self.peers.settings.initial_rtt_ns);
            }
        }
    }

    /// Whether the message's own rule allows another grant now (PROTOCOL §8.2).
    pub(super) fn judge_readiness(&mut self, slot: u32) {
        let data_len = self.data_len(self.arrivals[slot].row);
        let open = self.grants.open_of(slot);
        // By products, not quotients: this is asked for every frame.
        let settings = &self.peers.settings;
        let (grant_len, ahead_len) = match settings.grant_len {
            _ if self.has_free_grants(slot) => {
                let len = u64::from(settings.grant_free_len);
                (len, len)
            }
            0 => (
                u64::from(settings.grant_packets) * data_len,
                u64::from(settings.grant_ahead) * data_len,
            ),
            len => (u64::from(len), u64::from(settings.grant_ahead_len)),
        };
        let open_max = ahead_len.min(u64::from(settings.grants_in_flight - 1) * grant_len);
        self.grants.set_ready(slot, open <= open_max);
    }

    /// What is granted to its sender waits there: grants may be long (PROTOCOL §8.2).
    #[inline]
    fn has_free_grants(&self, slot: u32) -> bool {
        self.peers.settings.grant_free_len > 0 && self.grants.is_free(slot)
    }

    /// Bytes of a grant for frames with this much payload: whole frames, and whole trains of them.
    fn grant_len(&self, slot: u32, data_len: u64) -> u64 {
        let settings = &self.peers.settings;
        if self.has_free_grants(slot) {
            return (u64::from(settings.grant_free_len) / data_len).max(1) * data_len;
        }
        if settings.grant_len == 0 {
            return u64::from(settings.grant_packets) * data_len;
        }
        let frame_count = (u64::from(settings.grant_len) / data_len).max(1);
        let train_count = (u64::from(settings.grant_train_len) / data_len).max(1);
        let whole_count = frame_count / train_count * train_count;
        data_len * if whole_count > 0 { whole_count } else { frame_count }
    }

    pub(crate) fn large_arrival(&self, row: u32, lane: Lane, message: u32) -> Option<u32> {
        let slot = *self.by_number.get(&lane_key(lane, row, message))?;
        self.arrivals[slot].takes_data().then_some(slot)
    }

    /// What a grant is for, if that is still under way.
    pub(crate) fn granted(&self, slot: u32, serial: u32) -> Option<(Lane, u32)> {
        let is_awaited = self.arrivals.holds(slot, serial) && self.arrivals[slot].progress != NONE;
        is_awaited.then(|| (self.arrivals[slot].lane, self.arrivals[slot].message))
    }

    /// A grant was lost: what is still missing of it is granted again.
    pub(crate) fn on_grant_lost(&mut self, slot: u32, serial: u32, offset: u64, len: u32) {
        if !self.arrivals.holds(slot, serial)
            || self.peers.saboteur.makes(Sabotage::GrantLostForGood)
        {
            return;
        }
        let arrival = &self.arrivals[slot];
        if arrival.progress == NONE
            || !self.progress[arrival.progress].gaps.is_missing(offset, offset + u64::from(len))
        {
            // Bytes of it came: the grant itself must have arrived, or another did.
            self.on_grant_settled(slot, serial);
            return;
        }
        let row = arrival.row;
        self.peers.counters.grants_repeated += 1;
        self.peers.notify(row, Content::Grant { slot, serial, offset, len });
    }

    /// A grant arrived, or need not.
    pub(crate) fn on_grant_settled(&mut self, slot: u32, serial: u32) {
        if self.arrivals.holds(slot, serial) && self.arrivals[slot].progress != NONE {
            let progress = &mut self.progress[self.arrivals[slot].progress];
            progress.grant_count = progress.grant_count.saturating_sub(1);
        }
    }

    /// When to look whether what was granted came.
    pub(crate) fn regrants_at(&self) -> Instant {
        self.regrant_at
    }

    pub(crate) fn regrant_if_due(&mut self, now: Instant) {
        if self.regrant_at <= now {
            self.regrant(now);
        }
    }

    /// Grants again what was granted long ago and did not come.
    fn regrant(&mut self, now: Instant) {
        self.regrant_at = Instant::NEVER;
        for at in 0..self.granting.len() {
            let slot = self.granting[at];
            let row = self.arrivals[slot].row;
            let active = self.peers.activate(row);
            let usable = self.peers.actives[active].paths.iter().filter(|path| path.is_usable());
            let probe_ns = usable.map(|path| path.probe_ns(self.peers.settings.ack_delay_ns)).max();
            let patience = REGRANT_PROBES * probe_ns.unwrap_or(self.peers.settings.initial_rtt_ns);
            let progress = &mut self.progress[self.arrivals[slot].progress];
            let due = progress.regrant_due(patience);
            if now < due {
                self.regrant_at = self.regrant_at.min(due);
                continue;
            }
            progress.regranted_at = now;
            self.regrant_at = self.regrant_at.min(progress.regrant_due(patience));
            if !self.peers.saboteur.makes(Sabotage::OverdueGrantsCount) {
                self.grants.on_overdue(slot);
            }
            // A grant that is still on its way will be repeated by itself; a second one beside it would be too.
            if progress.grant_count == 0 && !self.peers.saboteur.makes(Sabotage::GrantLostForGood) {
                self.regrant_one(slot);
            }
            // All that was granted may have come by another way than as data: with a repeated announcement, whose frame was
            // longer than that of the first.
            if self.grants.is_waiting(slot) {
                self.judge_readiness(slot);
            }
        }
        self.pump_grants(now);
    }

    fn regrant_one(&mut self, slot: u32) {
        let arrival = &self.arrivals[slot];
        let serial = self.arrivals.serial(slot);
        let progress = &self.progress[arrival.progress];
        let granted_to = progress.granted_to;
        let missing =
            progress.gaps.iter().take_while(|gap| gap.0 < granted_to).take(REGRANT_COUNT_MAX);
        let mut repeated = 0;
        for (start, end) in missing {
            let len = u32::try_from(end.min(granted_to) - start).unwrap_or(u32::MAX);
            let again = Content::Grant { slot, serial, offset: start, len };
            self.peers.counters.grants_repeated += 1;
            repeated += 1;
            self.peers.say(arrival.row, Notice::Content(again));
        }
        let (row, index) = (arrival.row, arrival.progress);
        self.progress[index].grant_count += repeated;
        self.peers.make_ready(row);
    }

    /// The peer is ready for a range of our message (PROTOCOL §8.2, and §7.6 for messages it holds back).
    pub(crate) fn on_grant(&mut self, row: u32, message: u32, offset: u64, len: u64) {
        let Some(slot) = self.find_outgoing(row, message) else { return };
        let send = &mut self.outgoing[slot];
        let end = offset.saturating_add(len).min(send.total);
        if offset >= end {
            return;
        }
        if !send.is_large && send.stage != SendStage::Pulled {
            self.pull(slot);
        }
        let send = &mut self.outgoing[slot];
        if send.is_large && send.stage == SendStage::Waiting {
            // Granted before our announcement was (known to be) sent: it was found by a query.
            self.pull(slot);
        }
        let send = &mut self.outgoing[slot];
        self.peers.rows[row].ahead.on_granted((&mut send.announced, send.total), offset, end);
        if send.parts == NONE {
            send.parts = self.parts.insert(Parts::default());
        }
        let unsent = &mut self.parts[send.parts].unsent;
        if unsent.gap_count() < GRANT_PIECE_COUNT_MAX {
            unsent.add(offset, end);
        }
        self.queue_granted(slot);
    }

    /// The peer asks for a message it holds back: from now on it comes by grants.
    fn pull(&mut self, slot: u32) {
        self.unframe(slot);
        let send = &mut self.outgoing[slot];
        send.stage = SendStage::Pulled;
        if send.parts != NONE {
            self.parts[send.parts] = Parts::default();
        }
        let (row, next) = (send.row, send.next);
        self.sends_by_number.insert(number_key(row, send.message as u32), slot);
        self.peers.active_of_mut(row).line.on_pulled(slot, next);
    }

    pub(super) fn queue_granted(&mut self, slot: u32) {
        let serial = self.outgoing.serial(slot);
        let send = &mut self.outgoing[slot];
        if !send.is_queued {
            send.is_queued = true;
            let row = send.row;
            let active = self.peers.active_of_mut(row);
            active.line.queue_granted(slot, serial);
            active.wake_streams();
            self.may_train = true;
            self.peers.make_ready(row);
        }
    }

    /// A message of ours by its number. Those that expect grants or a Done are indexed; a peer that asks for a
    /// message it holds back is rare, and a walk will do.
    pub(super) fn find_outgoing(&self, row: u32, message: u32) -> Option<u32> {
        if let Some(&slot) = self.sends_by_number.get(&number_key(row, message)) {
            return Some(slot);
        }
        let active = self.peers.rows[row].active();
        if active == NONE || !self.peers.rows[row].numbers.holds_any_back() {
            return None;
        }
        let mut slot = self.peers.actives[active].line.first();
        while slot != NONE {
            let send = &self.outgoing[slot];
            if send.message as u32 == message {
                return Some(slot);
            }
            slot = send.next;
        }
        None
    }
}

impl Bulk {
    /// Granted bytes of an arrival. `None`: there is nothing in them for it.
    #[inline(always)]
    pub(crate) fn take_data(
        &mut self,
        now: Instant,
        (row, link): (u32, u8),
        slot: u32,
        offset: u64,
        body: &[u8],
        memory: &mut impl Memory,
    ) -> Option<Absorbed> {
        let progress = &self.progress[self.arrivals[slot].progress];
        // What was never granted is not ours to place. Of what is sent ahead a frame may go beyond the receive's end.
        let granted_len = progress.granted_to.saturating_sub(offset);
        let body = if granted_len < body.len() as u64 {
            self.peers.counters.data_unasked += 1;
            &body[..granted_len as usize]
        } else {
            body
        };
        if body.is_empty() {
            return None;
        }
        let serial = self.arrivals.serial(slot);
        let end = offset + body.len() as u64;
        let is_inner = end < progress.granted_to;
        self.note_data(row, link, Cursor { slot, serial, offset: end }, body.len(), is_inner);
        if self.peers.saboteur.makes(Sabotage::DoneTooEarly) {
            let gaps = &mut self.progress[self.arrivals[slot].progress].gaps;
            if gaps.missing_len() < 2 * body.len() as u64 {
                let (start, end) = gaps.first_gap().expect("missing bytes");
                gaps.fill(start, end, &mut |_, _| ());
            }
        }
        Some(self.absorb(now, slot, offset, body, memory))
    }

    /// Bytes have arrived, and perhaps a message is over: others may be granted. Arrivals only ever make a message ready; its end has put
    /// it out of the grants.
    #[inline(always)]
    pub(crate) fn go_on_granting(&mut self, now: Instant, slot: u32) {
        if self.grants.is_waiting(slot) {
            self.judge_readiness(slot);
        }
        self.pump_grants(now);
    }
}
