//! How many bytes may be in flight on a path (PROTOCOL §6.3).
//!
//! Loss alone says little on links that lose by themselves, so it costs little; loss together with delay, or much of
//! it, is a full queue somewhere and halves. A round trip shrinks the window once: what was sent before the shrink was
//! sent into the old window. Its losses come to light one Ack after another, so they are added up, and when they turn
//! out to be many after all the gentle shrink becomes a halving.
//!
//! A window that grows no further because of delay does not make a queue overflow. If it does overflow, somebody else
//! fills it, who minds loss only: beside such a one who waits for the delay to go ends with nothing, so for a while this
//! one, too, minds loss only.

use crate::base::limits::MS;
use crate::base::types::Instant;
use crate::delivery::rtt::Rtt;

/// Frames in flight at the start: enough for a round trip of small messages, little enough for any queue.
const START_FRAME_COUNT: u32 = 32;

/// Frames that may always be in flight: one under way, one being answered.
const MIN_FRAME_COUNT: u32 = 2;

/// More than any path holds: 100 Gbit/s for 5 ms.
const LEN_MAX: u32 = 64 << 20;

/// Where frames are not lost one by one there is no queue to overrun: memory has none, and a stream minds those of its way itself, so that a second
/// who does would only hold it up. The window only bounds what the link may have to keep for a peer that takes nothing.
const FIXED_LEN: u32 = 4 << 20;

/// For so long a rival is taken to be there after a loss that was not this window's doing.
const RIVAL_NS: u64 = 2_000 * MS;

/// What a loss did to the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shrink {
    /// Nothing: this round trip has paid already.
    None,
    /// × 0.85.
    Gentle,
    /// × 0.5, or × 0.7 beside a rival.
    Halved,
}

/// The window of one path, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    /// The last shrink, or `NEVER`: its round holds the packets sent until then, and ends a round trip later.
    shrunk_at: Instant,
    /// Until then somebody else is taken to fill the queue.
    rival_until: Instant,
    len: u32,
    len_max: u32,
    /// Before the last shrink.
    len_before: u32,
    /// Packets of the round that shrank last, and how many of them are lost as far as known.
    round_count: u32,
    round_lost_count: u32,
    frame_len: u16,
    /// No sign of a full path yet: double per round trip.
    is_doubling: bool,
    /// The last shrink was, or has become, a halving.
    is_halved: bool,
    /// The window stands still, so that the delay does not grow.
    is_held: bool,
    /// The window stays as it is, whatever happens to frames.
    is_fixed: bool,
}

const _: () = assert!(size_of::<Window>() <= 48, "every path has one");

impl Window {
    /// A window for frames of up to `frame_len` bytes.
    pub(crate) fn new(frame_len: u16) -> Self {
        Self {
            shrunk_at: Instant::NEVER,
            rival_until: Instant(0),
            len: START_FRAME_COUNT * u32::from(frame_len),
            len_max: LEN_MAX,
            len_before: 0,
            round_count: 0,
            round_lost_count: 0,
            frame_len,
            is_doubling: true,
            is_halved: false,
            is_held: false,
            is_fixed: false,
        }
    }

    /// A window for a link that loses frames one by one, or for one that does not.
    pub(crate) fn of_link(frame_len: u16, is_ordered: bool) -> Self {
        let window = Self::new(frame_len);
        match is_ordered {
            true => Self { len: FIXED_LEN, len_max: FIXED_LEN, is_fixed: true, ..window },
            false => window,
        }
    }

    /// Bytes that may be in flight.
    pub(crate) fn len(&self) -> u64 {
        u64::from(self.len)
    }

    /// The path's frames have another length from now on (PROTOCOL §6.6).
    pub(crate) fn on_frame_len(&mut self, frame_len: u16) {
        self.frame_len = frame_len;
        self.len = self.len.max(self.len_min());
    }

    /// `bytes` were acknowledged when `in_flight_before` bytes were under way.
    pub(crate) fn on_acked(&mut self, now: Instant, bytes: u64, in_flight_before: u64, rtt: &Rtt) {
        // A window that was not used was not tried either: the application sets the pace.
        if self.is_fixed || in_flight_before < self.len() / 2 {
            return;
        }
        let is_rising = rtt.delay_is_rising();
        self.is_held = is_rising && now >= self.rival_until;
        if is_rising {
            self.is_doubling = false;
        }
        if self.is_held {
            return;
        }
        // The Acks of the round that shrank belong to the old window and would undo the shrink.
        if self.shrunk_at != Instant::NEVER && now < self.shrunk_at + rtt.smoothed_ns() {
            return;
        }
        let frame_len = u64::from(self.frame_len);
        let grown_len = if self.is_doubling {
            bytes
        } else if self.len() / 8 >= frame_len && !is_rising {
            bytes / 8
        } else {
            bytes * frame_len * (1 + u64::from(is_rising)) / self.len()
        };
        self.len = (self.len() + grown_len).min(u64::from(self.len_max)) as u32;
    }

    /// `lost_count` packets were lost, the newest of them sent at `newest_lost_sent_at`, of `round_count` packets in
    /// about a round trip (`sent::Lost` has all three).
    pub(crate) fn on_lost(
        &mut self,
        now: Instant,
        lost_count: u32,
        round_count: u32,
        newest_lost_sent_at: Instant,
        rtt: &Rtt,
    ) -> Shrink {
        if self.is_fixed || lost_count == 0 {
            return Shrink::None;
        }
        if self.shrunk_at != Instant::NEVER && newest_lost_sent_at <= self.shrunk_at {
            return self.on_lost_more(now, lost_count);
        }
        self.shrunk_at = now;
        self.len_before = self.len;
        self.round_count = round_count;
        self.round_lost_count = lost_count;
        self.is_doubling = false;
        self.is_halved = rtt.delay_is_rising() || self.is_round_bad();
        if self.is_held && rtt.delay_is_rising() {
            self.rival_until = now + RIVAL_NS;
        }
        self.shrink_to(match self.is_halved {
            true => self.halved_len(now, self.len),
            false => self.len - self.len / 20 * 3,
        });
        if self.is_halved { Shrink::Halved } else { Shrink::Gentle }
    }

    /// More losses of the round that shrank last.
    fn on_lost_more(&mut self, now: Instant, lost_count: u32) -> Shrink {
        self.round_lost_count = self.round_lost_count.saturating_add(lost_count);
        if self.is_halved || !self.is_round_bad() {
            return Shrink::None;
        }
        self.is_halved = true;
        self.shrink_to(self.len.min(self.halved_len(now, self.len_before)));
        Shrink::Halved
    }

    /// What a full queue leaves of a window: half; beside a rival what that one would take, too.
    fn halved_len(&self, now: Instant, len: u32) -> u32 {
        if now < self.rival_until { len / 10 * 7 } else { len / 2 }
    }

    /// More than one packet in eight was lost.
    fn is_round_bad(&self) -> bool {
        u64::from(self.round_lost_count) * 8 > u64::from(self.round_count)
    }

    /// Probe after probe went unanswered: what was known of the path is void. It starts over, from the least window.
    pub(crate) fn on_probe_timeout_repeated(&mut self) {
        if self.is_fixed {
            return;
        }
        *self = Self { len: self.len_min(), ..Self::new(self.frame_len) };
    }

    fn len_min(&self) -> u32 {
        MIN_FRAME_COUNT * u32::from(self.frame_len)
    }

    fn shrink_to(&mut self, len: u32) {
        self.len = len.max(self.len_min());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FRAME: u16 = 1_000;
    const RTT_NS: u64 = 100_000;

    fn calm() -> Rtt {
        let mut rtt = Rtt::new(RTT_NS);
        rtt.on_sample(Instant(0), RTT_NS, 0);
        rtt
    }

    fn rising() -> Rtt {
        let mut rtt = calm();
        for _ in 0..100 {
            rtt.on_sample(Instant(0), 10 * RTT_NS, 0);
        }
        rtt
    }

    /// A window that grows no longer by doubling, with no shrink in memory.
    fn avoiding(len: u32) -> Window {
        Window { len, is_doubling: false, ..Window::new(FRAME) }
    }

    /// A whole window is sent and acknowledged, frame by frame.
    fn round(window: &mut Window, now: Instant, rtt: &Rtt) {
        let len = window.len();
        for _ in 0..len / u64::from(FRAME) {
            window.on_acked(now, u64::from(FRAME), len.max(window.len()), rtt);
        }
    }

    #[test]
    fn that_of_an_ordered_link_is_what_it_is() {
        let mut window = Window::of_link(FRAME, true);
        let len = window.len();
        assert!(len > Window::of_link(FRAME, false).len());
        window.on_acked(Instant(1), len, len, &rising());
        window.on_acked(Instant(2), len, len, &calm());
        assert_eq!(window.on_lost(Instant(3), 8, 8, Instant(2), &rising()), Shrink::None);
        window.on_probe_timeout_repeated();
        assert_eq!(window.len(), len, "its stream minds the way itself");
    }

    #[test]
    fn starts_at_32_frames_and_doubles() {
        let mut window = Window::new(FRAME);
        assert_eq!(window.len(), 32_000);
        round(&mut window, Instant(1), &calm());
        assert_eq!(window.len(), 64_000);
        for _ in 0..20 {
            round(&mut window, Instant(1), &calm());
        }
        assert_eq!(window.len(), u64::from(LEN_MAX));
    }

    #[test]
    fn unused_window_does_not_grow() {
        let mut window = Window::new(FRAME);
        window.on_acked(Instant(1), 1_000, 15_999, &calm());
        assert_eq!(window.len(), 32_000);
        window.on_acked(Instant(1), 1_000, 16_000, &calm());
        assert_eq!(window.len(), 33_000);
    }

    #[test]
    fn rising_delay_ends_the_doubling_and_stops_growth() {
        let mut window = Window::new(FRAME);
        round(&mut window, Instant(1), &rising());
        assert_eq!(window.len(), 32_000);
        window.on_acked(Instant(1), 8_000, 32_000, &calm());
        assert_eq!(window.len(), 33_000, "an eighth of what was acknowledged");
    }

    #[test]
    fn beside_somebody_who_fills_the_queue_it_grows_on() {
        let mut window = avoiding(100_000);
        round(&mut window, Instant(1), &rising());
        assert_eq!(window.len(), 100_000, "held");
        assert_eq!(window.on_lost(Instant(2), 1, 80, Instant(1), &rising()), Shrink::Halved);
        assert_eq!(window.len(), 70_000, "the overflow was another's doing");
        let later = Instant(2) + 20 * RTT_NS;
        round(&mut window, later, &rising());
        assert!((71_900..=72_000).contains(&window.len()), "two frames a round trip: {window:?}");
        window.on_lost(later + 1, 1, 80, later, &rising());
        assert!((50_000..51_000).contains(&window.len()), "{window:?}");
        let len = window.len();
        round(&mut window, Instant(2) + RIVAL_NS, &rising());
        assert_eq!(window.len(), len, "held again: was it the last?");
    }

    #[test]
    fn its_own_overflow_is_no_rival() {
        let mut window = avoiding(100_000);
        round(&mut window, Instant(1), &calm());
        let len = window.len();
        window.on_lost(Instant(2), 1, 80, Instant(1), &rising());
        assert_eq!(window.len(), len / 2);
        let later = Instant(2) + 20 * RTT_NS;
        round(&mut window, later, &rising());
        assert_eq!(window.len(), len / 2);
    }

    #[test]
    fn later_growth_is_an_eighth_and_at_least_a_frame() {
        for (len, grown) in [(80_000, 90_000), (8_000, 9_000), (2_000, 3_000)] {
            let mut window = avoiding(len);
            window.on_acked(Instant(1), u64::from(len), u64::from(len), &calm());
            assert_eq!(window.len(), grown);
            let mut window = avoiding(len);
            round(&mut window, Instant(1), &calm());
            assert!(
                window.len().abs_diff(grown) <= u64::from(len) / 16,
                "frame by frame: {window:?}"
            );
        }
    }

    #[test]
    fn loss_costs_what_the_signs_say() {
        for (lost_count, round_count, rtt, shrink, len) in [
            (0, 80, rising(), Shrink::None, 100_000),
            (1, 80, calm(), Shrink::Gentle, 85_000),
            (10, 80, calm(), Shrink::Gentle, 85_000),
            (11, 80, calm(), Shrink::Halved, 50_000),
            (1, 80, rising(), Shrink::Halved, 50_000),
        ] {
            let mut window = avoiding(100_000);
            let sent_at = Instant(0); // a clock may start there
            assert_eq!(window.on_lost(Instant(9), lost_count, round_count, sent_at, &rtt), shrink);
            assert_eq!(window.len(), len, "{lost_count} of {round_count}");
        }
    }

    #[test]
    fn round_trip_pays_once() {
        let mut window = avoiding(100_000);
        assert_eq!(window.on_lost(Instant(50), 1, 80, Instant(10), &calm()), Shrink::Gentle);
        assert_eq!(window.on_lost(Instant(60), 1, 80, Instant(50), &calm()), Shrink::None);
        assert_eq!(window.len(), 85_000);
        assert_eq!(window.on_lost(Instant(90), 1, 80, Instant(51), &calm()), Shrink::Gentle);
        assert_eq!(window.len(), 72_250);
    }

    #[test]
    fn losses_told_one_by_one_become_a_halving_once() {
        let mut window = avoiding(100_000);
        let mut lose = || window.on_lost(Instant(50), 4, 80, Instant(10), &calm());
        assert_eq!(
            [lose(), lose(), lose(), lose()],
            [Shrink::Gentle, Shrink::None, Shrink::Halved, Shrink::None]
        );
        assert_eq!(window.len(), 50_000);
    }

    #[test]
    fn acks_of_the_round_that_shrank_do_not_undo_it() {
        let mut window = avoiding(100_000);
        window.on_lost(Instant(50), 1, 80, Instant(10), &calm());
        round(&mut window, Instant(50 + RTT_NS - 1), &calm());
        assert_eq!(window.len(), 85_000);
        round(&mut window, Instant(50 + RTT_NS), &calm());
        assert!(window.len() > 94_000);
    }

    #[test]
    fn silence_starts_over_from_two_frames() {
        let mut window = avoiding(100_000);
        window.on_lost(Instant(50), 1, 80, Instant(10), &calm());
        window.on_probe_timeout_repeated();
        assert_eq!(window.len(), 2_000);
        round(&mut window, Instant(51), &calm());
        assert_eq!(window.len(), 4_000, "doubling again");
    }

    #[test]
    fn longer_frames_keep_room_for_two() {
        let mut window = Window::new(FRAME);
        window.on_probe_timeout_repeated();
        window.on_frame_len(9_000);
        assert_eq!(window.len(), 18_000);
        window.on_frame_len(1_200);
        assert_eq!(window.len(), 18_000);
    }

    proptest! {
        #[test]
        fn any_history_stays_between_two_frames_and_the_cap(
            steps in prop::collection::vec((0..4u8, 0..200_000u64, 0..100u32, any::<bool>()), 1..200),
        ) {
            let mut window = Window::new(FRAME);
            let mut now = Instant(0);
            for (kind, amount, count, is_rising) in steps {
                now = now + amount;
                let rtt = if is_rising { rising() } else { calm() };
                let before = window;
                match kind {
                    0 => window.on_acked(now, amount << 9, amount << 10, &rtt),
                    1 | 2 => {
                        let sent_at = Instant(now.0.saturating_sub(u64::from(count) * 2_000));
                        let shrink = window.on_lost(now, count / 8, count, sent_at, &rtt);
                        assert!(shrink != Shrink::None || window.len() == before.len());
                    }
                    _ => window.on_probe_timeout_repeated(),
                }
                if kind == 0 {
                    assert!(window.len() >= before.len());
                } else {
                    assert!(window.len() <= before.len());
                }
                assert!((2 * u64::from(FRAME)..=u64::from(LEN_MAX)).contains(&window.len()));
            }
        }
    }
}
