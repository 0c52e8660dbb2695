//! One way to a peer: a local link and a remote locator, with its own packet numbers, clock and window.
//!
//! PROTOCOL §5.1, §6. A path is *proven* by an answered first contact or path challenge; it is *left* when its
//! probes go unanswered while another path works, and taken back when it answers (§6.5). What a path remembers
//! while its peer is idle is `PathRest`; the rest is made anew when traffic starts again.
//!
//! Path numbers are their sender's, so number n of ours and number n of the peer's are strangers that share a place:
//!
//! ```text
//!   Path n   ours:   link, locator ──▶ flight, rtt, window        what we send on our path n
//!            theirs: source ──▶ received, acks owed, `back`       what comes on their path n; `back`: ours that leads there
//! ```

use crate::base::api::{LinkTraits, Reliability, Way};
use crate::base::limits::{FRAME_LEN_FLOOR, MS, SECOND, Settings};
use crate::base::types::{Instant, Locator};
use crate::delivery::ack::Received;
use crate::delivery::content::Content;
use crate::delivery::rate::Rate;
use crate::delivery::rate::Stint;
use crate::delivery::rtt::Rtt;
use crate::delivery::sent::{Acked, Flight};
use crate::delivery::window::Window;

/// Packets of trains that are acknowledged together at the latest (PROTOCOL §5.4).
const TRAIN_ACK_EVERY: u32 = 256;
/// So much longer than `ack_delay` the Ack of a train waits, for a grant or Done to ride on. Less than what a probe waits beyond a round
/// trip and `ack_delay` (`rtt`): the sender does not ask.
const TRAIN_ACK_STRETCH_NS: u64 = 75_000;
/// So much longer waits the Ack of data of a large message by a stream. Nothing of that data can be missing: only the window waits for the Ack, and a
/// stream's window is long.
const STREAM_ACK_STRETCH_NS: u64 = MS;
/// Longest pause between two probes (PROTOCOL §6.4).
const PROBE_NS_MAX: u64 = SECOND;
/// Full-size losses in a row that mean a black hole (PROTOCOL §6.6).
const BLACK_HOLE_COUNT: u8 = 3;
/// First pause before a longer frame is tried again.
const FRAME_PROBE_NS: u64 = 500 * MS;
const FRAME_PROBE_NS_MAX: u64 = 60 * SECOND;

/// Whether a path may carry content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// We have no path of this number; the peer has, or had.
    Absent,
    /// Never answered yet; challenged with back-off.
    Unproven,
    /// In use.
    Proven,
    /// Answered once, silent now; challenged with back-off.
    Left,
}

/// When an acknowledgement must leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AckDue {
    Now,
    /// Then, and somebody must see to it.
    At(Instant),
    /// At a time told before.
    Known,
}

/// A locator that frames of this path came from, not yet echoed (PROTOCOL §3.11).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    pub(crate) link: u8,
    pub(crate) locator: Locator,
    pub(crate) nonce: u64,
    pub(crate) asked_at: Instant,
}

/// A path while its peer is idle.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PathRest {
    pub(crate) locator: Locator,
    next_packet: u64,
    received_floor: u64,
    /// Of one that was asked and never answered: how often.
    rtt_ns: u32,
    /// In units of 2^10 bytes per second; 0: not known.
    rate: u32,
    frame_len: u16,
    frame_len_max: u16,
    card: u16,
    pub(crate) link: u8,
    pub(crate) standing: Standing,
}

/// A path in use.
#[derive(Debug)]
pub(crate) struct Path {
    link: u8,
    standing: Standing,
    locator: Locator,
    flight: Flight,
    received: Received,
    rtt: Rtt,
    window: Window,
    /// Ack-eliciting packets not yet acknowledged by us.
    ack_pending_count: u32,
    /// The pending acknowledgement must go now.
    ack_at_once: bool,
    /// A message went before it: it must not happen twice in a row.
    ack_waited: bool,
    /// The acknowledgement waits longer than usual, for trains are on their way.
    ack_is_stretched: bool,
    ack_due: Instant,
    /// Probes since the last sign of life on this path.
    probe_count: u32,
    /// When other paths were asked whether the peer answers by them, for it does not by this one.
    others_asked_at: Instant,
    /// The last acknowledgement of something new, or the last probe.
    progress_at: Instant,
    /// A probe is due.
    probe_now: bool,
    /// When the next challenge of an unproven or left path is due.
    challenge_at: Instant,
    challenge_count: u32,
    challenge_nonce: u64,
    challenge_sent_at: Instant,
    /// When a hint may have it asked again (PROTOCOL §4.5).
    hint_at: Instant,
    candidate: Option<Candidate>,
    /// Where frames of the peer's path of this number come from: our link, its locator.
    source_link: u8,
    source: Locator,
    /// Our path that leads there, or `NO_PATH`.
    back: u8,
    /// Whether those frames state sums of their bodies, if any came.
    is_checked_in: Option<bool>,
    /// Payload of their full Data frames; 0: not known.
    data_len_in: u16,
    /// That of the last one which was not part of a train.
    lone_data_len_in: u16,
    /// Sum bodies of what we send here.
    payload_check: bool,
    /// What may become of frames there. What that means to others is in `kind`.
    reliability: Reliability,
    /// Only its two ends can write to its link.
    is_private: bool,
    /// What is announced there says where it is (PROTOCOL §8.10).
    can_fetch: bool,
    /// What the peer takes there instead of a check (PROTOCOL §14.6); 0: nothing, as by all links that are not private.
    pass: u64,
    /// Its link sends many frames in one go.
    sends_trains: bool,
    /// The path is a stream beside a path that is none: only announced messages take it (PROTOCOL §16.6).
    is_for_bulk: bool,
    /// Both its ends have another path (PROTOCOL §10.2).
    is_spare: bool,
    /// The card it leaves by, as the driver counts them; 0: not known.
    card: u16,
    /// Another link over the same card carries data (PROTOCOL §10.4).
    yields_data: bool,
    stint: Stint,
    /// The probe that is due only asks for the round trip: nobody is silent.
    is_refresh: bool,
    rate: Rate,
    /// The round trip it woke with was measured once.
    has_old_rtt: bool,
    frame_len: u16,
    frame_len_max: u16,
    full_lost_count: u8,
    /// The shortest of the long frames lost since one as long arrived.
    lost_len_min: u16,
    frame_probe_at: Instant,
    frame_probe_ns: u64,
    frame_probe_len: u16,
}

/// No path of ours.
pub(crate) const NO_PATH: u8 = u8::MAX;
/// Challenges without an answer after which a path is no reason to keep its peer's record awake: one that never answered, and
/// one that did, for which that is about a minute.
const UNPROVEN_HOPE_COUNT: u32 = 10;
const LEFT_HOPE_COUNT: u32 = 64;
/// Announced messages wait for the first answer of a path that never loses until it was asked so often: with the pauses between, an
/// eighth of a second.
const NEWLY_ASKED_COUNT: u32 = 7;

/// So many messages in a frame count as one more frame to be acknowledged.
const MESSAGES_PER_FRAME: u32 = 4;

/// When a path is asked first to prove itself. To ask by a stream is to open it: that waits until there is something for it.
fn first_challenge_at(traits: &LinkTraits) -> Instant {
    if traits.reliability.is_stream() { Instant::NEVER } else { Instant(0) }
}

impl PathRest {
    /// The packet number of which the wire showed the low half (PROTOCOL §5.1).
    pub(crate) fn expand(&self, low: u32) -> u64 {
        Received::new(self.received_floor).expand(low)
    }

    pub(crate) fn frame_len(&self) -> u16 {
        self.frame_len
    }

    pub(crate) fn new(link: u8, locator: Locator, standing: Standing, frame_len: u16) -> Self {
        Self {
            link,
            locator,
            standing,
            next_packet: 1,
            received_floor: 0,
            rtt_ns: 0,
            rate: 0,
            frame_len,
            frame_len_max: frame_len,
            card: 0,
        }
    }
}

/// Only where nothing is lost, damaged or forged is it enough to say where bytes are.
fn can_fetch(traits: &LinkTraits) -> bool {
    traits.can_fetch && traits.is_private && traits.reliability.never_loses()
}

impl Path {
    pub(crate) fn new(
        link: u8,
        locator: Locator,
        standing: Standing,
        traits: &LinkTraits,
        rtt_ns: u64,
    ) -> Self {
        Self::from_rest(
            &PathRest::new(link, locator, standing, traits.frame_len_max),
            traits,
            rtt_ns,
        )
    }

    /// A place for what comes on the peer's path of this number.
    pub(crate) fn absent(traits: &LinkTraits, rtt_ns: u64) -> Self {
        Self::new(u8::MAX, Locator::default(), Standing::Absent, traits, rtt_ns)
    }

    pub(crate) fn from_rest(rest: &PathRest, traits: &LinkTraits, initial_rtt_ns: u64) -> Self {
        // Who is given up stays so: else its row's rest would have all its hopeless ways asked anew.
        let (known_ns, challenge_count) = match rest.standing {
            Standing::Unproven => (0, rest.rtt_ns),
            _ => (rest.rtt_ns, 0),
        };
        let rtt_ns = if known_ns == 0 { initial_rtt_ns } else { u64::from(known_ns) };
        let frame_len_max = rest.frame_len_max;
        let short = rest.frame_len < frame_len_max;
        let mut rtt = Rtt::new(rtt_ns);
        rtt.set_stream(traits.reliability.is_stream());
        Self {
            link: rest.link,
            standing: rest.standing,
            locator: rest.locator,
            flight: Flight::new(rest.next_packet),
            received: Received::new(rest.received_floor),
            rtt,
            window: Window::of_link(rest.frame_len, traits.reliability.is_ordered()),
            ack_pending_count: 0,
            ack_at_once: false,
            ack_waited: false,
            ack_is_stretched: false,
            ack_due: Instant::NEVER,
            probe_count: 0,
            others_asked_at: Instant(0),
            progress_at: Instant(0),
            probe_now: false,
            challenge_at: first_challenge_at(traits),
            challenge_count,
            challenge_nonce: 0,
            challenge_sent_at: Instant(challenge_count.into()),
            hint_at: Instant(0),
            candidate: None,
            source_link: u8::MAX,
            source: Locator::default(),
            back: NO_PATH,
            is_checked_in: None,
            data_len_in: 0,
            lone_data_len_in: 0,
            payload_check: traits.payload_check,
            reliability: traits.reliability,
            is_private: traits.is_private,
            can_fetch: can_fetch(traits),
            pass: 0,
            sends_trains: traits.train_len_max > 0,
            is_for_bulk: false,
            is_spare: false,
            card: rest.card,
            yields_data: true,
            stint: Stint::new(u64::from(rest.rate) << 10),
            is_refresh: false,
            rate: Rate::new(u64::from(rest.rate) << 10),
            has_old_rtt: known_ns != 0,
            frame_len: rest.frame_len,
            frame_len_max,
            full_lost_count: 0,
            lost_len_min: u16::MAX,
            frame_probe_at: if short { Instant(0) } else { Instant::NEVER },
            frame_probe_ns: FRAME_PROBE_NS,
            frame_probe_len: 0,
        }
    }

    pub(crate) fn rest(&self) -> PathRest {
        PathRest {
            locator: self.locator,
            next_packet: self.flight.next_packet(),
            received_floor: self.received.largest().max(self.received.floor()),
            rtt_ns: match self.standing {
                Standing::Unproven => self.challenge_count * u32::from(self.was_asked()),
                _ => self.known_rtt_ns().unwrap_or(0).min(u64::from(u32::MAX)) as u32,
            },
            rate: (self.best_rate() >> 10).min(u64::from(u32::MAX)) as u32,
            frame_len: self.frame_len,
            frame_len_max: self.frame_len_max,
            card: self.card,
            link: self.link,
            standing: self.standing,
        }
    }

    /// Whether the peer's frames of this number come on this link, from there.
    #[inline(always)]
    pub(crate) fn comes_from(&self, link: u8, from: &Locator) -> bool {
        self.source == *from && self.source_link == link
    }

    /// Whether another one is known to leave by the same card.
    pub(crate) fn shares_card(&self, other: &Self) -> bool {
        self.card != 0 && self.card == other.card
    }

    /// Which card it leaves by, and what it carried there for others.
    pub(crate) fn set_card(&mut self, way: &Way) {
        self.card = way.card;
        if self.stint.found() == 0 {
            self.stint = Stint::new(way.rate);
        }
    }

    /// What it carries, as its turns showed or else as it was measured; 0: not known.
    pub(crate) fn best_rate(&self) -> u64 {
        match self.stint.found() {
            0 => self.rate.measured(),
            found => found,
        }
    }

    /// A place that had only the peer's path gets one of ours, still to be proven.
    pub(crate) fn become_path(&mut self, link: u8, locator: Locator, traits: &LinkTraits) {
        debug_assert!(!self.is_usable() && self.flight.is_empty());
        self.challenge_at = first_challenge_at(traits);
        (self.challenge_count, self.candidate) = (0, None);
        (self.link, self.locator, self.standing) = (link, locator, Standing::Unproven);
        (self.frame_len, self.frame_len_max) = (traits.frame_len_max, traits.frame_len_max);
        self.take_traits(traits);
        self.window = Window::of_link(self.frame_len, self.reliability.is_ordered());
        (self.card, self.yields_data, self.stint) = (0, true, Stint::new(0));
    }

    /// First contact is tried by this link.
    pub(crate) fn set_link(&mut self, link: u8, traits: &LinkTraits) {
        self.link = link;
        self.source_link = link;
        self.take_traits(traits);
        (self.frame_len, self.frame_len_max) = (traits.frame_len_max, traits.frame_len_max);
        self.window = Window::of_link(self.frame_len, self.reliability.is_ordered());
    }

    /// The path turns out to leave by another link.
    pub(crate) fn set_traits(&mut self, traits: &LinkTraits) {
        if self.reliability.is_ordered() != traits.reliability.is_ordered() {
            self.window = Window::of_link(self.frame_len, traits.reliability.is_ordered());
        }
        self.take_traits(traits);
        self.limit_frame_len(traits.frame_len_max);
    }

    fn take_traits(&mut self, traits: &LinkTraits) {
        (self.payload_check, self.reliability) = (traits.payload_check, traits.reliability);
        (self.is_private, self.can_fetch) = (traits.is_private, can_fetch(traits));
        self.pass = if self.is_private { self.pass } else { 0 };
        self.sends_trains = traits.train_len_max > 0;
        self.rtt.set_stream(traits.reliability.is_stream());
    }

    /// The peer answered the latest challenge.
    pub(crate) fn on_proven(&mut self, now: Instant) {
        if self.standing == Standing::Unproven {
            self.challenge_count = 0; // one that was left shall show first that it is of use
        }
        self.standing = Standing::Proven;
        self.probe_count = 0;
        self.rtt.on_sample(now, now.since_ns(self.challenge_sent_at), 0);
        if self.frame_len > FRAME_LEN_FLOOR && !self.reliability.is_ordered() {
            // Short frames pass; whether long ones do is asked next, now that it is known who is there.
            self.frame_len = FRAME_LEN_FLOOR;
            self.window.on_frame_len(self.frame_len);
            (self.frame_probe_at, self.frame_probe_len) = (now, 0);
        }
    }

    /// Its probes went unanswered while others work: it is asked again, at once if it was of use until now.
    pub(crate) fn leave(&mut self, now: Instant, first_pause_ns: u64) -> Flight {
        if self.flight.has_acked() {
            self.challenge_count = 0;
        }
        let pause_ns = match self.challenge_count {
            0 => 0,
            _ => self.challenge_pause_ns(first_pause_ns),
        };
        self.standing = Standing::Left;
        self.probe_now = false;
        self.challenge_at = now + pause_ns;
        let next_packet = self.flight.next_packet();
        core::mem::replace(&mut self.flight, Flight::new(next_packet))
    }

    /// Whether it is this way.
    pub(crate) fn leads_to(&self, link: u8, locator: &Locator) -> bool {
        self.standing != Standing::Absent && self.link == link && self.locator == *locator
    }

    /// The peer is somewhere else now, or answers by another link, which may take shorter frames only.
    pub(crate) fn move_to(&mut self, link: u8, locator: Locator, traits: &LinkTraits) {
        (self.link, self.locator) = (link, locator);
        self.set_traits(traits);
    }

    /// Both directions of path number `index` are this way.
    pub(crate) fn set_way(&mut self, index: u8, way: Origin) {
        (self.link, self.locator) = (way.link, way.from);
        self.set_source(index, way);
    }

    /// The peer's path of this number comes from there.
    pub(crate) fn set_source(&mut self, back: u8, way: Origin) {
        (self.source_link, self.source, self.back) = (way.link, way.from, back);
    }

    /// Must prove itself, and may be asked now.
    pub(crate) fn wants_challenge(&self, now: Instant) -> bool {
        self.challenge_deadline() <= now
    }

    /// When it is to be challenged next.
    pub(crate) fn challenge_deadline(&self) -> Instant {
        match self.standing {
            Standing::Unproven | Standing::Left => self.challenge_at,
            Standing::Absent | Standing::Proven => Instant::NEVER,
        }
    }

    /// Waits for an answer that may well come.
    pub(crate) fn is_hopeful(&self) -> bool {
        match self.standing {
            Standing::Unproven => self.challenge_count < UNPROVEN_HOPE_COUNT && !self.is_dormant(),
            Standing::Left => self.challenge_count < LEFT_HOPE_COUNT,
            Standing::Absent | Standing::Proven => false,
        }
    }

    /// Waits for its first answer, and was asked a few times only.
    pub(crate) fn is_newly_asked(&self) -> bool {
        self.standing == Standing::Unproven && self.challenge_count < NEWLY_ASKED_COUNT
    }

    /// The pause after a challenge. One that never answered is asked ever more seldom; one that did may come back.
    pub(crate) fn challenge_pause_ns(&self, first_ns: u64) -> u64 {
        let count = self.challenge_count;
        let is_asked_for_form = count >= UNPROVEN_HOPE_COUNT && self.standing == Standing::Unproven;
        let most_ns = if is_asked_for_form { 30 * SECOND } else { SECOND };
        (first_ns << count.min(16)).min(most_ns)
    }

    /// The mean round trip, if it was ever measured.
    pub(crate) fn known_rtt_ns(&self) -> Option<u64> {
        (self.rtt.has_sample() || self.has_old_rtt).then(|| self.rtt.smoothed_ns())
    }

    /// Bytes per second it carries: as measured, or as its window would allow.
    pub(crate) fn rate(&self) -> u64 {
        match self.rate.measured() {
            0 => self.window.len() * 1_000_000_000 / self.rtt.smoothed_ns().max(1),
            measured => measured,
        }
        .max(1)
    }

    /// The peer takes no longer frames than this.
    pub(crate) fn limit_frame_len(&mut self, frame_len_max: u16) {
        self.frame_len_max = self.frame_len_max.min(frame_len_max);
        self.frame_len = self.frame_len.min(frame_len_max);
        self.window.on_frame_len(self.frame_len);
    }

    pub(crate) fn is_usable(&self) -> bool {
        self.standing == Standing::Proven
    }

    /// One more packet waits for its acknowledgement, which is due at once or in a while (PROTOCOL §5.4). With many messages
    /// in it, it counts for several: their sender is one who waits for many.
    #[inline]
    pub(crate) fn owe_ack(
        &mut self,
        now: Instant,
        message_count: u64,
        at_once: bool,
        settings: &Settings,
    ) -> AckDue {
        self.ack_pending_count += 1 + message_count as u32 / MESSAGES_PER_FRAME;
        let at_once = at_once || self.ack_pending_count >= settings.ack_every;
        self.ack_is_due(now, at_once, settings.ack_delay_ns)
    }

    /// The packet that was expected next has come, with so many messages.
    #[inline(always)]
    pub(crate) fn on_next(
        &mut self,
        now: Instant,
        message_count: u64,
        settings: &Settings,
    ) -> AckDue {
        self.received.record_next(now);
        self.owe_ack(now, message_count, self.received.largest() <= FIRST_PACKETS, settings)
    }

    /// The packets of a train wait for their acknowledgement. It will ride on the next grant, or on Done.
    pub(crate) fn owe_train_ack(
        &mut self,
        now: Instant,
        count: u32,
        at_once: bool,
        settings: &Settings,
    ) -> AckDue {
        self.ack_pending_count += count;
        let at_once = at_once || self.ack_pending_count >= settings.ack_every.max(TRAIN_ACK_EVERY);
        if at_once || self.ack_is_stretched {
            return self.ack_is_due(now, at_once, settings.ack_delay_ns);
        }
        self.ack_is_stretched = true;
        self.ack_due = match self.reliability.is_stream() {
            // What waited before may be of a message whose sender waits for nothing else.
            true => self.ack_due.min(now + settings.ack_delay_ns + STREAM_ACK_STRETCH_NS),
            false => now + settings.ack_delay_ns + TRAIN_ACK_STRETCH_NS,
        };
        AckDue::At(self.ack_due)
    }

    /// Our own train leaves: an acknowledgement that is pending may wait longer. What ends the transfer says it all.
    pub(crate) fn stretch_ack(&mut self) {
        if self.ack_due != Instant::NEVER && !self.ack_at_once && !self.ack_is_stretched {
            self.ack_is_stretched = true;
            self.ack_due = self.ack_due + TRAIN_ACK_STRETCH_NS;
        }
    }

    #[inline(always)]
    fn ack_is_due(&mut self, now: Instant, at_once: bool, delay_ns: u64) -> AckDue {
        if at_once {
            self.ack_at_once = true;
            AckDue::Now
        } else if self.ack_due == Instant::NEVER {
            self.ack_due = now + delay_ns;
            AckDue::At(self.ack_due)
        } else {
            AckDue::Known
        }
    }

    /// All that was received is acknowledged.
    #[inline]
    pub(crate) fn on_ack_sent(&mut self) {
        self.ack_pending_count = 0;
        self.ack_at_once = false;
        self.ack_waited = false;
        self.ack_is_stretched = false;
        self.ack_due = Instant::NEVER;
    }

    /// The packet being built leaves. When the row must be looked at for it.
    #[inline(always)]
    pub(crate) fn on_sent(&mut self, now: Instant, frame_len: u16, settings: &Settings) -> Instant {
        let is_first = self.flight.is_empty() && self.flight.building_count() > 0;
        self.flight.on_sent(now, frame_len);
        self.look_at(now, is_first, settings)
    }

    /// A packet with nothing but this content leaves. When the row must be looked at for it.
    #[inline(always)]
    pub(crate) fn on_sent_one(
        &mut self,
        now: Instant,
        content: Content,
        frame_len: u16,
        settings: &Settings,
    ) -> Instant {
        let is_first = self.flight.is_empty();
        self.flight.on_sent_one(now, content, frame_len);
        self.look_at(now, is_first, settings)
    }

    /// A train leaves, of so many frames: the length of each frame's head, and of each frame but the last. When the row must be looked at for it.
    #[inline]
    pub(crate) fn on_sent_run(
        &mut self,
        now: Instant,
        content: Content,
        lens: (u16, u16),
        count: u16,
        settings: &Settings,
    ) -> Instant {
        let is_first = self.flight.is_empty();
        self.flight.on_sent_run(now, content, lens, count);
        self.look_at(now, is_first, settings)
    }

    /// When the row must be looked at for a packet that left now: not for its sake if it is not the first in flight; else it cannot be
    /// lost yet, so only its probe counts (`flight_deadline`).
    #[inline(always)]
    fn look_at(&self, now: Instant, is_first: bool, settings: &Settings) -> Instant {
        match is_first {
            true => now + self.probe_ns(settings.ack_delay_ns),
            false => Instant::NEVER,
        }
    }

    /// Whether another frame of content may leave.
    pub(crate) fn has_window(&self) -> bool {
        self.flight.bytes_in_flight() < self.window.len()
    }

    /// Bytes that may leave beyond those in flight. Less than a frame still lets a frame go.
    pub(crate) fn free_window(&self) -> u64 {
        self.window.len().saturating_sub(self.flight.bytes_in_flight())
    }

    /// How long the next probe waits after the newest packet (PROTOCOL §6.4).
    pub(crate) fn probe_ns(&self, ack_delay_ns: u64) -> u64 {
        (self.rtt.probe_ns(ack_delay_ns) << self.probe_count.min(16))
            .min(PROBE_NS_MAX.max(2 * self.rtt.smoothed_ns()))
    }

    /// When this path needs attention for its packets in flight.
    pub(crate) fn flight_deadline(&self, ack_delay_ns: u64) -> Instant {
        if self.flight.is_empty() {
            return Instant::NEVER;
        }
        let lost_at = self.flight.loss_deadline(self.rtt.loss_delay_ns());
        lost_at.min(self.probe_deadline(ack_delay_ns))
    }

    /// When a probe is due: a probe time after the oldest packet in flight, the last progress or the last probe,
    /// whichever is latest. Not after the newest packet: who keeps sending would never notice that nobody listens.
    pub(crate) fn probe_deadline(&self, ack_delay_ns: u64) -> Instant {
        if self.flight.is_empty() {
            return Instant::NEVER;
        }
        self.flight.oldest_sent_at().max(self.progress_at) + self.probe_ns(ack_delay_ns)
    }

    /// Packets were acknowledged, by an Ack that waited so long at the peer: what that tells of the path.
    #[inline]
    pub(crate) fn on_acked(
        &mut self,
        now: Instant,
        acked: &Acked,
        delay_ns: u32,
        in_flight_before: u64,
    ) {
        self.probe_count = 0;
        self.progress_at = now;
        if let Some((_, sent_at)) = acked.largest_newly {
            self.rtt.on_sample(now, now.since_ns(sent_at), u64::from(delay_ns));
        }
        self.window.on_acked(now, acked.bytes, in_flight_before, &self.rtt);
        self.on_frames_acked(acked.frame_len_max);
    }
}

mod frame_len;
pub(crate) mod kind;
mod shown;
mod told;

/// The first packets are acknowledged at once: the peer wants a round trip measured.
pub(crate) const FIRST_PACKETS: u64 = 2;

/// Where a frame came from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin {
    pub(crate) link: u8,
    pub(crate) from: Locator,
}

#[cfg(test)]
mod tests;
