//! What others tell a path: what came by it, what leaves by it, and what it is found to be good for.

use super::*;
use crate::delivery::ack::AckHead;
use crate::delivery::sent::{Forged, Hear, Lost, Run};
use crate::delivery::window::Shrink;

/// What comes, and the acknowledgement that is owed for it.
impl Path {
    /// A frame of the peer's path of this number stated a sum of its body, or did not.
    #[inline(always)]
    pub(crate) fn note_check(&mut self, is_checked: bool) {
        self.is_checked_in = Some(is_checked);
    }

    /// Data that was not part of a train had so much payload.
    #[inline]
    pub(crate) fn note_data_len(&mut self, len: u16) {
        if len >= self.data_len_in || len == self.lone_data_len_in {
            self.data_len_in = len;
        }
        self.lone_data_len_in = len;
    }

    /// Data landed as a train, each of whose full frames had so much payload.
    #[inline(always)]
    pub(crate) fn note_train_len(&mut self, len: u16) {
        self.data_len_in = len;
    }

    /// A packet came. False if packets before it are missing.
    #[inline(always)]
    pub(crate) fn record(&mut self, packet: u64, now: Instant) -> bool {
        self.received.record(packet, now)
    }

    /// So many packets in a row came. False if packets before them are missing.
    #[inline(always)]
    pub(crate) fn record_run(&mut self, packet: u64, count: u64, now: Instant) -> bool {
        self.received.record_run(packet, count, now)
    }

    /// The packet that was expected next came, and nobody waits for its acknowledgement.
    #[inline(always)]
    pub(crate) fn record_unasked(&mut self, now: Instant) {
        self.received.record_next(now);
    }

    /// A packet came and is kept for the application: it is not to be acknowledged yet.
    pub(crate) fn put_aside(&mut self, packet: u64, now: Instant) {
        self.received.record(packet, now);
        self.received.hold(packet, now);
    }

    /// A packet that was put aside is not accepted.
    pub(crate) fn reject_aside(&mut self, packet: u64) {
        self.received.reject(packet);
    }

    /// All that was put aside was worked on, and is acknowledged with the next frame.
    pub(crate) fn end_aside(&mut self) {
        self.received.release();
        self.owe_urgent_ack();
    }

    /// A packet came again: perhaps our acknowledgement was lost, so another leaves at once.
    pub(crate) fn owe_urgent_ack(&mut self) {
        self.ack_pending_count += 1;
        self.ack_at_once = true;
    }

    /// If the acknowledgement that is owed has waited long enough it leaves with the next frame. False: none is owed, or its time has not come.
    pub(crate) fn urge_ack(&mut self, now: Instant) -> bool {
        let is_overdue = self.ack_due <= now && self.owes_ack();
        self.ack_at_once |= is_overdue;
        is_overdue
    }

    /// A message leaves before the acknowledgement that is owed, which leaves with the next frame.
    pub(crate) fn let_ack_wait(&mut self) {
        self.ack_waited = true;
        self.ack_at_once = true;
    }

    /// An acknowledgement of all that came, with its holes in `pairs` as far as there is room.
    #[inline]
    pub(crate) fn write_ack(&mut self, now: Instant, pairs: &mut [(u32, u32)]) -> Option<AckHead> {
        self.received.ack(now, pairs)
    }

    /// The peer knows that packets up to this one came: holes below need not be told of again.
    pub(crate) fn forget_received_below(&mut self, packet: u64) {
        self.received.forget_below(packet);
    }

    /// Where frames of the peer's path of this number come from is known, and one of our paths leads there.
    #[inline(always)]
    pub(crate) fn can_answer(&self, link: u8, from: &Locator) -> bool {
        self.comes_from(link, from) && self.back != NO_PATH
    }
}

/// What leaves, and what becomes of it.
impl Path {
    /// The packet that is being built carries this.
    #[inline(always)]
    pub(crate) fn add(&mut self, content: Content) {
        self.flight.add(content);
    }

    /// A packet leaves that elicits no acknowledgement, so nobody looks for it.
    #[inline(always)]
    pub(crate) fn on_sent_unasked(&mut self, now: Instant, frame_len: u16) {
        self.flight.on_sent(now, frame_len);
    }

    /// An Ack of one range from the front (`Flight::on_ack_of_front`).
    #[inline(always)]
    pub(crate) fn on_ack_of_front(&mut self, first: u64, last: u64) -> Option<(Acked, Run)> {
        self.flight.on_ack_of_front(first, last)
    }

    /// Any Ack (`Flight::on_ack`).
    #[inline]
    pub(crate) fn on_ack(
        &mut self,
        ranges: impl Iterator<Item = (u64, u64)>,
        acked: &mut impl Hear,
    ) -> Result<Acked, Forged> {
        self.flight.on_ack(ranges, acked)
    }

    /// The only packet in flight was acknowledged (`Flight::take_only`).
    #[inline(always)]
    pub(crate) fn take_only(&mut self, last: u64) -> Acked {
        self.flight.take_only(last)
    }

    /// Contents that match are given up (`Flight::void`).
    pub(crate) fn void(&mut self, matches: &mut impl FnMut(&Content) -> bool) {
        self.flight.void(matches);
    }

    /// Packets that must be lost by now leave the flight, and `lost` hears what they carried.
    #[inline]
    pub(crate) fn detect_lost(&mut self, now: Instant, lost: &mut impl Hear) -> Lost {
        self.flight.detect_lost(now, self.rtt.loss_delay_ns(), lost)
    }

    /// These packets were lost: how the window shrank for it, and whether frames become shorter, too.
    #[inline]
    pub(crate) fn on_lost(&mut self, now: Instant, lost: &Lost) -> (Shrink, bool) {
        let Lost { count, round_count, newest_sent_at, frame_len_max, .. } = *lost;
        let shrink = self.window.on_lost(now, count, round_count, newest_sent_at, &self.rtt);
        let is_shorter = self.on_frames_lost(frame_len_max, now);
        if is_shorter {
            self.window.on_frame_len(self.frame_len);
        }
        (shrink, is_shorter)
    }

    /// So many bytes were acknowledged: how much it carries.
    #[inline]
    pub(crate) fn measure_rate(&mut self, now: Instant, len: u64) {
        self.rate.on_acked(now, len, !self.flight.is_empty(), &self.rtt);
    }
}

/// Questions: does the peer live, does the path lead there, how long is a round trip.
impl Path {
    /// Nobody answered for the time of a probe: another is due.
    pub(crate) fn on_probe_time(&mut self, now: Instant) {
        self.probe_count += 1;
        self.progress_at = now;
        self.ask_for_life();
    }

    /// A deliberate fault: it counts as asked so often without having been.
    pub(crate) fn pretend_probed(&mut self, count: u32) {
        self.probe_count = count;
    }

    /// Several probes went unanswered for long: what was in flight says nothing about how much it carries.
    pub(crate) fn collapse_window(&mut self) {
        self.window.on_probe_timeout_repeated();
    }

    /// The next frame asks for a sign of life.
    pub(crate) fn ask_for_life(&mut self) {
        (self.probe_now, self.is_refresh) = (true, false);
    }

    /// The next frame asks for a round trip; nobody is thought to be silent.
    pub(crate) fn ask_for_round_trip(&mut self) {
        (self.probe_now, self.is_refresh) = (true, true);
    }

    /// The question that was due leaves. True if it is for a sign of life.
    pub(crate) fn take_probe(&mut self) -> bool {
        self.probe_now = false;
        !core::mem::take(&mut self.is_refresh)
    }

    /// Something may be wrong with it. False if that was said a moment ago: it is not asked again so soon.
    pub(crate) fn ask_for_hint(&mut self, now: Instant, pause_ns: u64) -> bool {
        if now < self.hint_at {
            return false;
        }
        self.hint_at = now + pause_ns;
        self.ask_for_life();
        true
    }

    /// Nobody answers by it, and other paths are asked whether the peer does by them.
    pub(crate) fn on_others_asked(&mut self, now: Instant) {
        self.others_asked_at = now;
    }

    /// It is asked to prove itself, and will be again after a pause.
    pub(crate) fn on_challenge_sent(&mut self, now: Instant, nonce: u64, pause_ns: u64) {
        (self.challenge_nonce, self.challenge_sent_at) = (nonce, now);
        self.on_challenge_spared(now, pause_ns);
    }

    /// Before the first frame something must be opened.
    pub(crate) fn is_stream(&self) -> bool {
        self.reliability.is_stream()
    }

    /// A stream that was never needed.
    pub(crate) fn is_dormant(&self) -> bool {
        self.standing == Standing::Unproven && self.challenge_at == Instant::NEVER
    }

    /// Never answered, however often it was asked. A stream that was not asked yet may lead there.
    pub(crate) fn is_hopeless(&self) -> bool {
        self.standing == Standing::Unproven && !self.is_hopeful() && !self.is_dormant()
    }

    /// Whether it was ever asked, rather than spared.
    pub(super) fn was_asked(&self) -> bool {
        self.challenge_sent_at > Instant(0)
    }

    /// It was to be asked and was not: this counts as if it had been asked in vain.
    pub(crate) fn on_challenge_spared(&mut self, now: Instant, pause_ns: u64) {
        self.challenge_count += 1;
        self.challenge_at = now + pause_ns;
    }

    /// If it must prove itself it is asked by then at the latest.
    pub(crate) fn challenge_by(&mut self, at: Instant) {
        self.challenge_at = self.challenge_at.min(at);
    }

    /// Its frames came from elsewhere, and whoever is there is asked whether it is the peer.
    pub(crate) fn ask_candidate(&mut self, candidate: Candidate) {
        self.candidate = Some(candidate);
    }

    /// The peer has moved to where it was asked.
    pub(crate) fn take_candidate(&mut self) {
        self.candidate = None;
        self.probe_count = 0;
    }

    /// Its number is wanted for another: there is no path of this number any more.
    pub(crate) fn give_up_number(&mut self) {
        self.standing = Standing::Absent;
    }
}

/// What it is found to be good for, beside the other paths to its peer.
impl Path {
    /// What the peer takes there instead of a check (PROTOCOL §14.6); 0: nothing.
    pub(crate) fn set_pass(&mut self, pass: u64) {
        self.pass = pass;
    }

    /// Both its ends have another path, or there is a better kind of path (PROTOCOL §10.2).
    pub(crate) fn set_spare(&mut self, is_spare: bool) {
        self.is_spare = is_spare;
    }

    /// There is a path that is open to all beside it, or there is none.
    pub(crate) fn set_beside_open(&mut self, has_other: bool) {
        self.is_for_bulk = has_other && self.suits_only_bulk();
    }

    /// Another link over the same card carries data, or none does (PROTOCOL §10.4).
    pub(crate) fn set_yielding(&mut self, yields_data: bool) {
        self.yields_data = yields_data;
    }

    /// From now on data over its card goes by its link, or by another.
    pub(crate) fn begin_stint(&mut self, is_chosen: bool) {
        self.yields_data = !is_chosen;
        self.stint = Stint::new(self.stint.found);
    }

    /// So many bytes were acknowledged: what its link carries in this stint.
    pub(crate) fn measure_stint(&mut self, now: Instant, len: u64) {
        let is_busy = self.flight.bytes_in_flight() >= 2 * u64::from(self.frame_len);
        self.stint.on_acked(now, len, is_busy);
    }

    /// The stint is over: what it showed is kept.
    pub(crate) fn end_stint(&mut self) {
        self.stint.close();
    }
}
