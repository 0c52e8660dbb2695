//! Lines that need time to send a bit, and the queues before them.
//!
//! ```text
//! send ─> [egress queue]=line=> ─┬────────────────────────────> flight ─> [ingress queue]=line=> port
//!                                └> [trunk queue]=line=> ───────┘
//! ```
//!
//! The egress line is the sender's own, the ingress line is the switch port towards the receiver:
//! where many send to one, frames pile up and get lost there. A trunk is a line that several pairs
//! share. A frame stays in a queue until its last bit has left.

use std::collections::VecDeque;

const NS_PER_S: u64 = 1_000_000_000;

/// Added to each frame where bits are counted: Ethernet header and check (14 + 4), preamble and gap
/// between frames (20), IPv4 (20) and UDP (8).
pub const WIRE_OVERHEAD_LEN: u32 = 66;

/// A line's speed and the room before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// Bits per second; 0 sends everything at once.
    pub rate_bps: u64,
    /// Bytes, as the wire counts them, that wait or are being sent. A frame that finds less room than
    /// it needs is dropped; an idle line takes any frame.
    pub queue_len_max: u64,
}

impl Line {
    /// A line that adds no time and drops nothing.
    pub const INFINITE: Self = Self { rate_bps: 0, queue_len_max: u64::MAX };

    /// A line of so many gigabits per second.
    pub const fn gbps(rate_gbps: u64, queue_len_max: u64) -> Self {
        Self { rate_bps: rate_gbps * NS_PER_S, queue_len_max }
    }
}

/// A line shared by several pairs of ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TrunkId(pub(super) u32);

/// What a queue saw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueStats {
    /// Bytes in the queue at its fullest.
    pub len_max: u64,
    /// Frames dropped for lack of room.
    pub dropped_count: u64,
}

/// A line with its queue.
#[derive(Debug)]
pub(super) struct Queue {
    line: Line,
    /// Frames not yet gone: when their last bit leaves, and their length.
    waiting: VecDeque<(u64, u64)>,
    waiting_len: u64,
    free_at_ns: u64,
    /// The part of a nanosecond beyond `free_at_ns`, in `rate_bps`-ths: at 10 Gb/s a byte takes 0.8 ns, and
    /// rounding each frame would bend the rate.
    free_at_part: u64,
    pub(super) stats: QueueStats,
}

impl Queue {
    pub(super) fn new(line: Line) -> Self {
        let (waiting, stats) = (VecDeque::new(), QueueStats::default());
        Self { line, waiting, waiting_len: 0, free_at_ns: 0, free_at_part: 0, stats }
    }

    /// Other speed or room from now on; what waits keeps its times.
    pub(super) fn set_line(&mut self, line: Line) {
        self.line = line;
        self.free_at_part = 0;
    }

    /// Whether a frame may pass without looking at the clock.
    pub(super) fn is_open(&self, now_ns: u64) -> bool {
        self.line.rate_bps == 0 && self.free_at_ns <= now_ns
    }

    /// A frame comes, not earlier than the one before: when does its last bit leave? `None`: dropped.
    pub(super) fn offer(&mut self, now_ns: u64, wire_len: u64) -> Option<u64> {
        if self.is_open(now_ns) {
            return Some(now_ns);
        }
        while let Some(&(gone_at_ns, len)) = self.waiting.front()
            && gone_at_ns <= now_ns
        {
            self.waiting_len -= len;
            self.waiting.pop_front();
        }
        let room = self.line.queue_len_max.saturating_sub(self.waiting_len);
        if wire_len > room && !self.waiting.is_empty() {
            self.stats.dropped_count += 1;
            return None;
        }
        let gone_at_ns = self.send(now_ns, wire_len);
        self.waiting_len += wire_len;
        self.waiting.push_back((gone_at_ns, wire_len));
        self.stats.len_max = self.stats.len_max.max(self.waiting_len);
        Some(gone_at_ns)
    }

    fn send(&mut self, now_ns: u64, wire_len: u64) -> u64 {
        if self.free_at_ns < now_ns {
            (self.free_at_ns, self.free_at_part) = (now_ns, 0);
        }
        let (parts, rate) = (wire_len * 8 * NS_PER_S + self.free_at_part, self.line.rate_bps);
        if let Some(whole_ns) = parts.checked_div(rate) {
            self.free_at_ns += whole_ns;
            self.free_at_part = parts % rate;
        } // else the line is infinite and takes no time
        self.free_at_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_gigabit_line_keeps_its_rate_over_many_odd_frames() {
        let mut queue = Queue::new(Line::gbps(10, u64::MAX));
        let last = (0..1_000_000).map(|_| queue.offer(0, 1501).unwrap()).last().unwrap();
        assert_eq!(last, 1_000_000 * 1501 * 8 / 10, "1200.8 ns each, without rounding error");
    }

    #[test]
    fn idle_line_starts_anew() {
        let mut queue = Queue::new(Line::gbps(1, 10_000));
        assert_eq!(queue.offer(0, 125), Some(1_000));
        assert_eq!(queue.offer(500, 125), Some(2_000), "waits for the first");
        assert_eq!(queue.offer(5_000, 125), Some(6_000), "waits for nobody");
        let mut queue = Queue::new(Line::gbps(10, 10_000));
        let times = [0, 10_000, 20_000].map(|now_ns| queue.offer(now_ns, 1_501).unwrap());
        assert_eq!(times, [1_200, 11_200, 21_200], "nor for a former frame's part of a nanosecond");
    }

    #[test]
    fn drops_exactly_what_does_not_fit() {
        let mut queue = Queue::new(Line::gbps(1, 1_000));
        let left: Vec<_> = (0..12).map(|_| queue.offer(0, 100).is_some()).collect();
        assert_eq!(left, [vec![true; 10], vec![false; 2]].concat());
        assert_eq!(queue.stats, QueueStats { len_max: 1_000, dropped_count: 2 });
        // 100 bytes take 800 ns: until then the first frame still holds its room.
        assert_eq!(queue.offer(799, 100), None);
        assert_eq!(queue.offer(800, 100), Some(8_800));
        assert_eq!(queue.offer(800, 1), None);
    }

    #[test]
    fn idle_line_takes_a_frame_longer_than_its_queue() {
        let mut queue = Queue::new(Line::gbps(1, 50));
        assert_eq!(queue.offer(0, 100), Some(800));
        assert_eq!(queue.offer(1, 1), None);
        assert_eq!(queue.offer(800, 100), Some(1_600));
    }

    #[test]
    fn line_made_infinite_does_not_let_frames_overtake() {
        let mut queue = Queue::new(Line::gbps(1, u64::MAX));
        assert_eq!(queue.offer(0, 1_250), Some(10_000));
        queue.set_line(Line::INFINITE);
        assert_eq!(queue.offer(1, 10), Some(10_000));
        assert_eq!(queue.offer(10_001, 10), Some(10_001));
    }
}
