//! How much a path carries (PROTOCOL §10.2): bytes acknowledged per time while it was busy.
//!
//! The clock runs from one acknowledgement to another, a round trip later at least, as long as something is in flight. A
//! path is given what its rate earns it, so a rate measured while little was sent must not be taken for all there is:
//! more than was known always counts, less only when packets waited in a queue on the way.

use crate::base::types::Instant;
use crate::delivery::rtt::Rtt;
use crate::{MS, SECOND};

/// Shorter spans measure the driver's turns, not the path.
const SPAN_NS_MIN: u64 = 50_000;
/// Packets wait: the latest round trip took this much longer than a quarter more than the shortest.
const QUEUE_NS_MIN: u64 = 20_000;

/// What a path was seen to carry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rate {
    /// Begin of the span; `NEVER`: the path was idle.
    since: Instant,
    len: u64,
    /// Bytes per second; 0: not known.
    measured: u64,
}

impl Rate {
    /// As it was known before, or 0.
    pub(crate) fn new(measured: u64) -> Self {
        Self { since: Instant::NEVER, len: 0, measured }
    }

    /// Bytes per second; 0: not known.
    pub(crate) fn measured(&self) -> u64 {
        self.measured
    }

    /// `len` bytes were acknowledged; `is_busy`: others are still in flight.
    pub(crate) fn on_acked(&mut self, now: Instant, len: u64, is_busy: bool, rtt: &Rtt) {
        if self.since == Instant::NEVER {
            // When these left the path is not known; what follows counts.
            (self.since, self.len) = (now, 0);
        } else {
            self.len += len;
            let span_ns = now.since_ns(self.since);
            if span_ns >= rtt.min_ns().max(SPAN_NS_MIN) {
                self.on_sample(self.len.saturating_mul(1_000_000_000) / span_ns, rtt);
                (self.since, self.len) = (now, 0);
            }
        }
        if !is_busy {
            self.since = Instant::NEVER;
        }
    }

    fn on_sample(&mut self, sample: u64, rtt: &Rtt) {
        let is_full = rtt.latest_ns() > rtt.min_ns() / 4 * 5 + QUEUE_NS_MIN;
        self.measured = match self.measured {
            0 => sample,
            // Acknowledgements bunch up: not the whole leap at once.
            known if sample > known => known + (sample - known) / 2,
            known if is_full => known - (known - sample) / 4,
            known => known,
        };
    }
}

/// At its beginning the window grows; that is not counted.
pub(crate) const WARM_UP_NS: u64 = 2 * MS;

/// What a path carries while data goes by its link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stint {
    /// The last acknowledgement, if data was on its way behind it.
    busy_from: Instant,
    pub(crate) warm_up_ns: u64,
    pub(crate) len: u64,
    pub(crate) ns: u64,
    /// Bytes per second, as its stints showed; 0: it had none.
    pub(crate) found: u64,
}

impl Stint {
    /// As it was found before, or 0.
    pub(crate) fn new(found: u64) -> Self {
        Self { busy_from: Instant::NEVER, warm_up_ns: WARM_UP_NS, len: 0, ns: 0, found }
    }

    /// Bytes per second; 0: not known.
    pub(crate) fn found(&self) -> u64 {
        self.found
    }

    /// `len` bytes were acknowledged; `is_busy`: much more is on its way.
    pub(crate) fn on_acked(&mut self, now: Instant, len: u64, is_busy: bool) {
        if self.busy_from != Instant::NEVER {
            let ns = now.since_ns(self.busy_from);
            if self.warm_up_ns > 0 {
                self.warm_up_ns = self.warm_up_ns.saturating_sub(ns);
            } else {
                (self.len, self.ns) = (self.len + len, self.ns + ns);
            }
        }
        self.busy_from = if is_busy { now } else { Instant::NEVER };
    }

    /// The stint is over: what did it show?
    pub(crate) fn close(&mut self) {
        let rate = self.len.saturating_mul(SECOND) / self.ns.max(1);
        self.found = match self.found {
            0 => rate,
            found => found - found / 4 + rate / 4,
        }
        .max(1);
        (self.len, self.ns) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: u64 = 1_000;

    fn rtt(latest_ns: u64) -> Rtt {
        let mut rtt = Rtt::new(100 * US);
        rtt.on_sample(Instant(0), 100 * US, 0);
        rtt.on_sample(Instant(1), latest_ns, 0);
        rtt
    }

    /// Acknowledges 1000 bytes every `step_ns`, `count` times.
    fn run(rate: &mut Rate, from_ns: u64, step_ns: u64, count: u64, rtt: &Rtt) {
        for n in 0..count {
            rate.on_acked(Instant(from_ns + n * step_ns), 1_000, true, rtt);
        }
    }

    #[test]
    fn a_busy_path_is_measured() {
        let mut rate = Rate::new(0);
        run(&mut rate, 0, 10 * US, 11, &rtt(100 * US));
        assert_eq!(rate.measured(), 100_000_000, "1000 bytes in 10 µs");
    }

    #[test]
    fn an_idle_pause_does_not_count() {
        let mut rate = Rate::new(0);
        rate.on_acked(Instant(0), 1_000, false, &rtt(100 * US));
        run(&mut rate, 1_000_000 * US, 10 * US, 11, &rtt(100 * US));
        assert_eq!(rate.measured(), 100_000_000);
    }

    #[test]
    fn less_counts_only_when_packets_waited() {
        let mut rate = Rate::new(0);
        run(&mut rate, 0, 10 * US, 11, &rtt(100 * US));
        run(&mut rate, 100 * US, 100 * US, 50, &rtt(100 * US));
        assert_eq!(rate.measured(), 100_000_000, "little was sent, that is all");
        run(&mut rate, 10_000 * US, 100 * US, 50, &rtt(500 * US));
        assert!(rate.measured() < 11_000_000, "{rate:?}");
        run(&mut rate, 20_000 * US, 10 * US, 200, &rtt(100 * US));
        assert!(rate.measured() > 99_000_000, "{rate:?}");
    }
}
