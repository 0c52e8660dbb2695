//! Round trips of one path (PROTOCOL §6.1): mean, variation, minimum, and the times derived from them.
//!
//! The mean and the variation are RFC 9002's. The minimum ages: a path that moved to a longer route, or a peer that
//! moved to a slower host, must not look congested for ever. Two buckets of `MIN_BUCKET_NS` do that, so a minimum
//! counts for one to two of them. Everything is kept in 32 bits: above four seconds all round trips are alike.

use crate::base::types::Instant;

/// Shorter times are not told apart: a turn of a busy driver takes about as long, and timers finer than that would
/// take waiting in a receive ring for a loss.
const GRANULARITY_NS: u64 = 10_000;

/// A probe waits at least this much longer than a round trip: that long a receiver may be busy with a train or two.
const PROBE_SLACK_NS: u64 = 100_000;
/// By a stream a probe waits at least this much longer: nothing is lost there but by a break, which is rare, so a peer that does not answer is busy (PROTOCOL §16.6).
const STREAM_PROBE_SLACK_NS: u64 = 20_000_000;

/// How much more than twice the minimum a round trip may take before its path counts as filling up. Without it,
/// round trips of a few microseconds would double at every train of frames, burst of interrupts or change of process. At
/// 10 Gbit/s this is a queue of 300 KB.
const RISING_MARGIN_NS: u64 = 250_000;

/// A minimum counts for at least this time, at most twice.
const MIN_BUCKET_NS: u64 = 5_000_000_000;

/// What is known of a path's round trips.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rtt {
    /// When the newer bucket of the minimum was begun.
    bucket_at: Instant,
    bucket_min_ns: u32,
    bucket_before_min_ns: u32,
    smoothed_ns: u32,
    variation_ns: u32,
    latest_ns: u32,
    /// What a trip takes when nothing unusual happens: falls at once, rises by a sixteenth per sample at most.
    usual_ns: u32,
    /// A probe waits at least this much longer than a round trip.
    probe_slack_ns: u32,
    has_sample: bool,
}

const _: () = assert!(size_of::<Rtt>() <= 48, "every path has one");

impl Rtt {
    /// Before the first sample the round trip is taken to be `initial_ns`.
    pub(crate) fn new(initial_ns: u64) -> Self {
        let initial_ns = short(initial_ns);
        Self {
            bucket_at: Instant::default(),
            bucket_min_ns: initial_ns,
            bucket_before_min_ns: initial_ns,
            smoothed_ns: initial_ns,
            variation_ns: initial_ns / 2,
            latest_ns: initial_ns,
            usual_ns: initial_ns,
            probe_slack_ns: PROBE_SLACK_NS as u32,
            has_sample: false,
        }
    }

    /// Whether the path is a stream.
    pub(crate) fn set_stream(&mut self, is_stream: bool) {
        let slack_ns = if is_stream { STREAM_PROBE_SLACK_NS } else { PROBE_SLACK_NS };
        self.probe_slack_ns = slack_ns as u32;
    }

    /// The largest packet newly acknowledged took `rtt_ns`, of which the peer says it waited `ack_delay_ns`.
    pub(crate) fn on_sample(&mut self, now: Instant, rtt_ns: u64, ack_delay_ns: u64) {
        self.latest_ns = short(rtt_ns);
        if !self.has_sample {
            let probe_slack_ns = self.probe_slack_ns;
            *self = Self { has_sample: true, bucket_at: now, probe_slack_ns, ..Self::new(rtt_ns) };
            return;
        }
        self.age_min(now);
        // A delay that would make this the fastest trip ever is overstated: then it is not believed.
        let adjusted_ns = match rtt_ns.checked_sub(ack_delay_ns) {
            Some(less_ns) if less_ns >= self.min_ns() => short(less_ns),
            _ => self.latest_ns,
        };
        let deviation_ns = self.smoothed_ns.abs_diff(adjusted_ns);
        self.variation_ns = mean(self.variation_ns, deviation_ns, 4);
        self.smoothed_ns = mean(self.smoothed_ns, adjusted_ns, 8);
        self.usual_ns = adjusted_ns.min(self.usual_ns.saturating_add(self.usual_ns / 16 + 1));
    }

    /// Puts the latest sample into the minimum and lets old ones go.
    fn age_min(&mut self, now: Instant) {
        let age_ns = now - self.bucket_at;
        if age_ns < MIN_BUCKET_NS {
            self.bucket_min_ns = self.bucket_min_ns.min(self.latest_ns);
            return;
        }
        // After a long silence both buckets are stale.
        let is_recent = age_ns < 2 * MIN_BUCKET_NS;
        self.bucket_before_min_ns = if is_recent { self.bucket_min_ns } else { self.latest_ns };
        self.bucket_min_ns = self.latest_ns;
        self.bucket_at = now;
    }

    /// The mean.
    pub(crate) fn smoothed_ns(&self) -> u64 {
        u64::from(self.smoothed_ns)
    }

    /// To compare paths by: one trip that took very long, for a process that did not run, say, hardly moves it, while a queue
    /// that stays does. The mean of a path that carries nothing would remember such a trip for many probes.
    pub(crate) fn usual_ns(&self) -> u64 {
        u64::from(self.usual_ns)
    }

    /// The mean deviation from the mean.
    pub(crate) fn variation_ns(&self) -> u64 {
        u64::from(self.variation_ns)
    }

    /// The shortest of the last five to ten seconds, the peer's delay included.
    pub(crate) fn min_ns(&self) -> u64 {
        u64::from(self.bucket_min_ns.min(self.bucket_before_min_ns))
    }

    /// The newest sample, the peer's delay included.
    pub(crate) fn latest_ns(&self) -> u64 {
        u64::from(self.latest_ns)
    }

    /// Whether anything was measured yet.
    pub(crate) fn has_sample(&self) -> bool {
        self.has_sample
    }

    /// After this time without an acknowledgement the path is probed (PROTOCOL §6.4), before any doubling.
    pub(crate) fn probe_ns(&self, peer_ack_delay_ns: u64) -> u64 {
        let slack_ns = (4 * self.variation_ns()).max(self.probe_slack_ns.into());
        (self.smoothed_ns() + slack_ns).saturating_add(peer_ack_delay_ns)
    }

    /// A packet older than this, with a later one acknowledged, is lost (PROTOCOL §6.2).
    pub(crate) fn loss_delay_ns(&self) -> u64 {
        (self.smoothed_ns().max(self.latest_ns()) * 9 / 8).max(GRANULARITY_NS)
    }

    /// Whether packets wait in queues: the mean is above twice the minimum and a margin (PROTOCOL §6.3). The mean is
    /// short-term enough: every Ack moves it, and a busy path has many in a round trip.
    pub(crate) fn delay_is_rising(&self) -> bool {
        self.has_sample && self.smoothed_ns() > 2 * self.min_ns() + RISING_MARGIN_NS
    }
}

fn short(ns: u64) -> u32 {
    u32::try_from(ns).unwrap_or(u32::MAX)
}

/// The mean with one part in `parts` of a new value.
fn mean(old: u32, new: u32, parts: u64) -> u32 {
    ((u64::from(old) * (parts - 1) + u64::from(new)) / parts) as u32
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: u64 = 1_000_000;

    fn steady(rtt_ns: u64, count: u64) -> Rtt {
        let mut rtt = Rtt::new(100 * MS);
        for n in 0..count {
            rtt.on_sample(Instant(n * rtt_ns), rtt_ns, 0);
        }
        rtt
    }

    #[test]
    fn first_sample_replaces_the_guess() {
        let mut rtt = Rtt::new(100 * MS);
        assert!(!rtt.has_sample());
        assert_eq!((rtt.smoothed_ns(), rtt.probe_ns(MS)), (100 * MS, 301 * MS));
        rtt.on_sample(Instant(0), 8_000, 3_000);
        assert!(rtt.has_sample());
        assert_eq!((rtt.smoothed_ns(), rtt.variation_ns(), rtt.min_ns()), (8_000, 4_000, 8_000));
    }

    #[test]
    fn mean_takes_an_eighth_and_variation_a_quarter() {
        let mut rtt = steady(8_000, 1);
        rtt.on_sample(Instant(1), 16_000, 0);
        assert_eq!((rtt.smoothed_ns(), rtt.variation_ns()), (9_000, (3 * 4_000 + 8_000) / 4));
        assert_eq!((rtt.latest_ns(), rtt.min_ns()), (16_000, 8_000));
    }

    #[test]
    fn stated_delay_counts_unless_it_beats_the_minimum() {
        for (delay_ns, smoothed_ns) in
            [(0, 9_000), (8_000, 8_000), (8_001, 9_000), (u64::MAX, 9_000)]
        {
            let mut rtt = steady(8_000, 1);
            rtt.on_sample(Instant(1), 16_000, delay_ns);
            assert_eq!(rtt.smoothed_ns(), smoothed_ns, "delay {delay_ns}");
        }
    }

    #[test]
    fn derived_times_have_a_least_grain() {
        let rtt = steady(2_000, 200);
        assert!(rtt.variation_ns() < 10, "settled");
        assert_eq!(rtt.probe_ns(5_000), rtt.smoothed_ns() + PROBE_SLACK_NS + 5_000);
        let mut stream = Rtt::new(MS);
        stream.set_stream(true);
        stream.on_sample(Instant(0), 1_000, 0);
        assert_eq!(stream.probe_ns(0), 1_000 + STREAM_PROBE_SLACK_NS);
        assert_eq!(rtt.loss_delay_ns(), GRANULARITY_NS);
        let mut rtt = steady(80 * MS, 1);
        assert_eq!(rtt.loss_delay_ns(), 90 * MS);
        rtt.on_sample(Instant(1), 160 * MS, 0);
        assert_eq!(rtt.loss_delay_ns(), 180 * MS, "the latest counts when it is longer");
    }

    #[test]
    fn rising_delay_is_told_from_jitter() {
        assert!(!Rtt::new(MS).delay_is_rising());
        let mut rtt = steady(5_000, 10);
        for n in 0..100 {
            rtt.on_sample(Instant(n), 2 * 5_000 + RISING_MARGIN_NS - 2_000, 0);
        }
        assert!(!rtt.delay_is_rising(), "fifty times the minimum, but within the margin");
        for n in 0..100 {
            rtt.on_sample(Instant(n), 2 * 5_000 + RISING_MARGIN_NS + 2_000, 0);
        }
        assert!(rtt.delay_is_rising());
    }

    #[test]
    fn the_usual_trip_forgets_a_rare_one_and_follows_a_queue() {
        let mut rtt = steady(5_000, 10);
        rtt.on_sample(Instant(1), 1_000_000, 0);
        assert_eq!(rtt.usual_ns(), 5_000 + 5_000 / 16 + 1);
        rtt.on_sample(Instant(2), 5_100, 0);
        assert_eq!(rtt.usual_ns(), 5_100);
        assert!(rtt.smoothed_ns() > 50_000, "the mean remembers");
        for n in 0..40 {
            rtt.on_sample(Instant(n), 50_000, 0);
        }
        assert_eq!(rtt.usual_ns(), 50_000);
    }

    #[test]
    fn minimum_ages_in_two_buckets() {
        const BUCKET: u64 = MIN_BUCKET_NS;
        for (at, min_ns) in [
            (BUCKET - 1, 10),     // same bucket
            (BUCKET, 10),         // the bucket before
            (2 * BUCKET - 1, 10), // still
            (2 * BUCKET, 50),     // nothing was heard for two buckets
        ] {
            let mut rtt = Rtt::new(MS);
            rtt.on_sample(Instant(0), 10, 0);
            rtt.on_sample(Instant(at), 50, 0);
            assert_eq!(rtt.min_ns(), min_ns, "at {at}");
        }
        let mut rtt = Rtt::new(MS);
        rtt.on_sample(Instant(0), 10, 0);
        for n in 1..=20 {
            rtt.on_sample(Instant(n * BUCKET / 10), 50, 0);
        }
        assert_eq!(rtt.min_ns(), 50, "two buckets later the old minimum is gone");
        rtt.on_sample(Instant(2 * BUCKET + 1), 20, 0);
        assert_eq!(rtt.min_ns(), 20, "a shorter one counts at once");
    }

    proptest! {
        #[test]
        fn any_samples_keep_the_times_in_order(
            samples in prop::collection::vec((any::<u64>(), any::<u64>(), any::<u64>()), 1..50),
        ) {
            let mut rtt = Rtt::new(MS);
            for (now, rtt_ns, delay_ns) in samples {
                // Any size, small ones as likely as large ones.
                rtt.on_sample(Instant(now), rtt_ns >> (now % 64), delay_ns >> (rtt_ns % 64));
                assert!(rtt.min_ns() <= rtt.latest_ns());
                assert!(rtt.latest_ns() <= u64::from(u32::MAX));
                assert!(rtt.loss_delay_ns() >= GRANULARITY_NS.max(rtt.latest_ns()));
                assert!(rtt.probe_ns(0) >= rtt.smoothed_ns() + PROBE_SLACK_NS);
                assert_eq!(rtt.probe_ns(u64::MAX), u64::MAX);
            }
        }
    }
}
