//! What arrived on a path, and how an Ack says it (PROTOCOL §5.1, §5.3).
//!
//! ```text
//!  1 ......... floor | hole | older | hole | older | hole | first ... largest
//!  received and forgotten    ------- at most 31 -------     the newest range
//! ```
//!
//! On a path without losses only the newest range exists and a packet moves one number; the queue of older ranges is
//! never allocated. What a hole misses will not come under its number again (a lost packet's content travels in a new
//! packet), so forgetting old holes costs at worst a late packet, whose content is then sent once more.

use alloc::collections::VecDeque;
#[cfg(test)]
use core::iter;

use crate::base::types::Instant;

/// Ranges of received packets a path remembers.
pub(crate) const RANGE_COUNT_MAX: usize = 32;

/// Skip/take pairs that say all a path remembers: the newest range needs none.
pub(crate) const PAIR_COUNT_MAX: usize = RANGE_COUNT_MAX - 1;

/// The number with these low 32 bits that is nearest to `expected`. For packets (§5.1) and messages (§7.1) alike.
pub(crate) fn expand(low: u32, expected: u64) -> u64 {
    let distance = low.wrapping_sub(expected as u32);
    // Nearest is at most 2^31 away: a signed distance. At the ends of u64 the only candidate is on the other side.
    match expected.checked_add_signed(i64::from(distance as i32)) {
        Some(number) => number,
        None if (distance as i32) < 0 => expected + u64::from(distance),
        None => expected - u64::from(distance.wrapping_neg()),
    }
}

/// The ranges (first, last) an Ack speaks of, newest first. It came from the wire: empty ranges are left out, and what
/// would reach below packet 1 ends it.
#[cfg(test)]
pub(crate) fn ranges(
    largest: u64,
    first_len: u32,
    pairs: impl IntoIterator<Item = (u32, u32)>,
) -> impl Iterator<Item = (u64, u64)> {
    let mut next = largest;
    iter::once((0, first_len))
        .chain(pairs)
        .map_while(move |(skip, take)| {
            let last = next.checked_sub(u64::from(skip))?;
            next = last.checked_sub(u64::from(take))?;
            Some((next + 1, last))
        })
        .filter(|(first, last)| first <= last)
}

/// The fixed fields of an Ack; its pairs are in the caller's array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AckHead {
    /// The largest packet received.
    pub(crate) largest: u64,
    /// Packets received without a hole, ending at `largest`.
    pub(crate) first_len: u32,
    /// Since `largest` arrived.
    pub(crate) delay_ns: u32,
    /// Pairs that were filled.
    pub(crate) pair_count: usize,
}

/// The packet numbers received on one path.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    /// Everything up to here is received or given up, and forgotten.
    floor: u64,
    /// First of the newest range; `largest + 1` if there is nothing above the floor.
    first: u64,
    largest: u64,
    largest_at: Instant,
    /// Ranges (first, last) between floor and newest range, ascending, with holes between all of them.
    older: VecDeque<(u64, u64)>,
    /// The first packet that arrived but waits to be worked on (`aside`): no Ack speaks of it or of what is beyond it. `u64::MAX`:
    /// none.
    held_from: u64,
    held_at: Instant,
}

impl Received {
    /// Everything up to `floor` counts as received and forgotten; 0: nothing yet.
    pub(crate) fn new(floor: u64) -> Self {
        Self {
            floor,
            first: floor + 1,
            largest: floor,
            largest_at: Instant::default(),
            older: VecDeque::new(),
            held_from: u64::MAX,
            held_at: Instant::default(),
        }
    }

    /// Up to here everything counts as received.
    pub(crate) fn floor(&self) -> u64 {
        self.floor
    }

    /// The largest packet number received, or the floor.
    pub(crate) fn largest(&self) -> u64 {
        self.largest
    }

    /// The packet number of which the wire showed the low half (PROTOCOL §5.1). Never 0, which no packet has.
    pub(crate) fn expand(&self, low: u32) -> u64 {
        match expand(low, self.largest + 1) {
            0 => 1 << 32,
            packet => packet,
        }
    }

    /// Whether the packet was not received and is not below what is remembered.
    pub(crate) fn is_new(&self, packet: u64) -> bool {
        if packet > self.largest {
            return true;
        }
        if packet >= self.first || packet <= self.floor {
            return false;
        }
        let at = self.older.partition_point(|&(_, last)| last < packet);
        self.older.get(at).is_none_or(|&(first, _)| packet < first)
    }

    /// A packet was accepted. True if it came in order; if not, an Ack is due at once (PROTOCOL §5.4). A duplicate
    /// changes nothing.
    pub(crate) fn record(&mut self, packet: u64, now: Instant) -> bool {
        if packet == self.largest + 1 {
            self.record_next(now);
            return true;
        }
        self.record_late(packet, now);
        false
    }

    /// `count` packets that follow each other were accepted, the first of them above the largest. True if they came in order.
    pub(crate) fn record_run(&mut self, packet: u64, count: u64, now: Instant) -> bool {
        debug_assert!(packet > self.largest && count > 0);
        let in_order = self.record(packet, now);
        self.largest += count - 1;
        in_order
    }

    /// Records the packet after the largest.
    #[inline]
    pub(crate) fn record_next(&mut self, now: Instant) {
        self.largest += 1;
        self.largest_at = now;
    }

    /// A packet that is not the next one. Apart, so that the usual one stays a comparison and two stores.
    #[cold]
    fn record_late(&mut self, packet: u64, now: Instant) {
        if packet > self.largest {
            if self.first <= self.largest {
                self.older.push_back((self.first, self.largest));
                self.limit();
            }
            self.first = packet;
            self.largest = packet;
            self.largest_at = now;
        } else if packet < self.first && packet > self.floor {
            self.fill(packet);
        }
    }

    /// A packet below the newest range: it fills a hole, shortens or splits it, or is a duplicate.
    fn fill(&mut self, packet: u64) {
        let above = self.older.partition_point(|&(_, last)| last < packet);
        if self.older.get(above).is_some_and(|&(first, _)| first <= packet) {
            return;
        }
        let joins_below = above > 0 && self.older[above - 1].1 + 1 == packet;
        let joins_above = *self.first_of(above) == packet + 1;
        match (joins_below, joins_above) {
            (true, true) => {
                let (first, _) = self.older.remove(above - 1).expect("the range below");
                *self.first_of(above - 1) = first;
            }
            (true, false) => self.older[above - 1].1 = packet,
            (false, true) => *self.first_of(above) = packet,
            (false, false) => {
                self.older.insert(above, (packet, packet));
                self.limit();
            }
        }
    }

    /// The first packet of an older range; behind the last of them stands the newest range.
    fn first_of(&mut self, at: usize) -> &mut u64 {
        match self.older.get_mut(at) {
            Some((first, _)) => first,
            None => &mut self.first,
        }
    }

    /// One range too many: the oldest and the hole under it go below the floor.
    fn limit(&mut self) {
        if self.older.len() > PAIR_COUNT_MAX
            && let Some((_, last)) = self.older.pop_front()
        {
            self.floor = last;
        }
    }

    /// A packet that is recorded waits to be worked on: until `release` nobody hears of it.
    pub(crate) fn hold(&mut self, packet: u64, now: Instant) {
        if self.held_from == u64::MAX {
            self.held_at = now;
        }
        self.held_from = self.held_from.min(packet);
    }

    /// All that was held was worked on.
    pub(crate) fn release(&mut self) {
        self.held_from = u64::MAX;
    }

    /// Of a packet that was held something was refused: it is as if it had not come.
    pub(crate) fn reject(&mut self, packet: u64) {
        if packet <= self.floor || self.is_new(packet) {
            return;
        }
        if packet < self.first {
            let at = self.older.partition_point(|&(_, last)| last < packet);
            let (first, last) = self.older.remove(at).expect("it is in this range");
            if packet < last {
                self.older.insert(at, (packet + 1, last));
            }
            if first < packet {
                self.older.insert(at, (first, packet - 1));
            }
        } else if packet < self.largest {
            if self.first < packet {
                self.older.push_back((self.first, packet - 1));
            }
            self.first = packet + 1;
        } else {
            self.largest -= 1;
            if self.first > self.largest
                && let Some((first, last)) = self.older.pop_back()
            {
                (self.first, self.largest) = (first, last);
            }
        }
        self.limit();
    }

    /// Whether something is missing among what may be told. If not there is nothing worth forgetting either.
    #[inline]
    pub(crate) fn has_holes(&self) -> bool {
        !self.older.is_empty() || self.held_from <= self.largest
    }

    /// What to acknowledge if nothing is missing, as far as is remembered: the usual case.
    #[inline]
    pub(crate) fn ack_without_holes(&self, now: Instant) -> Option<AckHead> {
        if self.has_holes() { None } else { self.ack(now, &mut []) }
    }

    /// What an Ack sent now says. Its pairs (skip, take) go into `pairs`, as many as there is room for, newest first:
    /// a short slice makes a short Ack. None if there is nothing above the floor.
    pub(crate) fn ack(&self, now: Instant, pairs: &mut [(u32, u32)]) -> Option<AckHead> {
        if self.held_from <= self.largest {
            return self.below_held().ack(now, pairs);
        }
        if self.first > self.largest {
            return None;
        }
        let delay_ns = now.since_ns(self.largest_at).min(u64::from(u32::MAX)) as u32;
        let mut head = AckHead { largest: self.largest, first_len: 0, delay_ns, pair_count: 0 };
        let first_len = self.largest - self.first + 1;
        let Ok(first_len) = u32::try_from(first_len) else {
            // Four thousand million packets without a hole: the part that fits is told, and it is the newest.
            return Some(AckHead { first_len: u32::MAX, ..head });
        };
        head.first_len = first_len;
        let mut above = self.first;
        for (pair, &(first, last)) in pairs.iter_mut().zip(self.older.iter().rev()) {
            let (Ok(skip), Ok(take)) =
                (u32::try_from(above - last - 1), u32::try_from(last - first + 1))
            else {
                break; // as above
            };
            *pair = (skip, take);
            head.pair_count += 1;
            above = first;
        }
        Some(head)
    }

    /// What had arrived before the first packet that is held, as if nothing had come since.
    #[cold]
    fn below_held(&self) -> Self {
        let mut told = Self::new(self.floor);
        let ranges = self.older.iter().copied().chain([(self.first, self.largest)]);
        for (first, last) in ranges.filter(|&(first, _)| first < self.held_from) {
            if told.first <= told.largest {
                told.older.push_back((told.first, told.largest));
            }
            (told.first, told.largest) = (first, last.min(self.held_from - 1));
        }
        told.largest_at = self.held_at;
        told
    }

    /// Forgets the packets below `packet`, and the holes among them: for use when the peer saw an Ack that told of them
    /// and what is still missing there is no longer expected.
    pub(crate) fn forget_below(&mut self, packet: u64) {
        let floor = packet.saturating_sub(1).min(self.largest);
        if floor <= self.floor {
            return;
        }
        self.floor = floor;
        while self.older.front().is_some_and(|&(_, last)| last <= floor) {
            self.older.pop_front();
        }
        let oldest = self.first_of(0);
        *oldest = (*oldest).max(floor + 1);
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    const NOW: Instant = Instant(1_000);

    fn received(packets: impl IntoIterator<Item = u64>) -> Received {
        let mut received = Received::new(0);
        for packet in packets {
            received.record(packet, NOW);
        }
        received
    }

    /// What an Ack says to its reader.
    fn told(received: &Received, room: usize) -> Vec<(u64, u64)> {
        let mut pairs = [(0, 0); RANGE_COUNT_MAX];
        match received.ack(NOW, &mut pairs[..room]) {
            Some(head) => {
                let pairs = pairs[..head.pair_count].iter().copied();
                ranges(head.largest, head.first_len, pairs).collect()
            }
            None => Vec::new(),
        }
    }

    #[test]
    fn low_halves_expand_to_the_nearest_number() {
        const WRAP: u64 = 1 << 32;
        for (low, expected, number) in [
            (1, 1, 1),
            (0, 0, 0),
            (0, 1, 0),
            (5, 1, 5),
            (u32::MAX, 1, WRAP - 1), // nothing is below 0, so the far one is the nearest
            (0, WRAP - 1, WRAP),
            (u32::MAX, WRAP, WRAP - 1),
            (u32::MAX, WRAP + 1, WRAP - 1),
            (0x8000_0000, WRAP, WRAP - WRAP / 2), // as far up as down: the lower
            (0x7FFF_FFFF, WRAP, WRAP + WRAP / 2 - 1),
            (0, u64::MAX, u64::MAX - (WRAP - 1)), // nothing is above u64::MAX
            (u32::MAX, u64::MAX, u64::MAX),
        ] {
            assert_eq!(expand(low, expected), number, "{low:#x} near {expected:#x}");
        }
    }

    #[test]
    fn packet_zero_is_never_expected() {
        assert_eq!(Received::new(0).expand(0), 1 << 32);
        assert_eq!(Received::new(0).expand(1), 1);
        assert_eq!(Received::new((1 << 32) - 1).expand(0), 1 << 32);
        assert_eq!(Received::new(1 << 32).expand(u32::MAX), (1 << 32) - 1);
        assert!(!Received::new(0).is_new(0));
    }

    #[test]
    fn nothing_is_told_from_the_first_held_packet_on() {
        let mut received = received([1, 2, 3, 5, 6, 7, 9, 10]);
        received.hold(9, Instant(1_500));
        received.hold(6, Instant(2_000));
        assert_eq!(told(&received, RANGE_COUNT_MAX), [(5, 5), (1, 3)]);
        assert!(received.ack_without_holes(NOW).is_none(), "no quick way around it");
        let head = received.ack(Instant(4_000), &mut []).unwrap();
        assert_eq!(head.delay_ns, 2_500, "since the first was held");
        received.release();
        assert_eq!(told(&received, RANGE_COUNT_MAX), [(9, 10), (5, 7), (1, 3)]);
        received.hold(1, NOW);
        assert_eq!(told(&received, RANGE_COUNT_MAX), []);
    }

    #[test]
    fn rejected_packet_is_as_one_that_did_not_come() {
        const COUNT: u64 = 9;
        // All sets of packets, and each of them rejected.
        for set in 0_u64..1 << COUNT {
            let packets = || (1..=COUNT).filter(|packet| set >> (packet - 1) & 1 == 1);
            for rejected in packets() {
                let mut received = received(packets());
                received.reject(rejected);
                let mut rest: BTreeSet<u64> = packets().filter(|&it| it != rejected).collect();
                let told = |received: &Received| -> BTreeSet<u64> {
                    let ranges = told(received, RANGE_COUNT_MAX);
                    ranges.into_iter().flat_map(|(first, last)| first..=last).collect()
                };
                assert_eq!(told(&received), rest, "{set:b} without {rejected}");
                assert!((1..=COUNT + 1).all(|it| received.is_new(it) != rest.contains(&it)));
                received.record(rejected, NOW);
                rest.insert(rejected);
                assert_eq!(told(&received), rest, "{set:b}, {rejected} again");
            }
        }
    }

    #[test]
    fn only_the_next_packet_is_in_order() {
        let mut received = Received::new(0);
        for (packet, in_order) in
            [(1, true), (2, true), (2, false), (4, false), (3, false), (5, true), (1, false)]
        {
            assert_eq!(received.record(packet, NOW), in_order, "packet {packet}");
        }
        assert_eq!(told(&received, RANGE_COUNT_MAX), [(1, 5)]);
    }

    #[test]
    fn path_without_losses_never_allocates() {
        let received = received(1..1_000);
        assert_eq!(received.older.capacity(), 0);
        assert_eq!(told(&received, 0), [(1, 999)]);
    }

    #[test]
    fn ack_is_silent_about_what_is_forgotten() {
        assert_eq!(Received::new(7).ack(NOW, &mut []), None);
        let mut received = received([1, 2, 3, 5, 6, 9]);
        received.forget_below(6);
        assert_eq!(told(&received, RANGE_COUNT_MAX), [(9, 9), (6, 6)]);
        assert!(!received.is_new(4) && received.is_new(7));
        received.forget_below(100);
        assert_eq!(
            (received.floor(), received.largest()),
            (9, 9),
            "what may still come is not forgotten"
        );
        assert_eq!(told(&received, RANGE_COUNT_MAX), []);
        assert!(received.record(10, NOW));
        assert_eq!(told(&received, RANGE_COUNT_MAX), [(10, 10)]);
    }

    #[test]
    fn delay_counts_from_the_largest_and_saturates() {
        let mut received = received([3]);
        received.record(2, NOW + 500);
        let delay_ns = |now| received.ack(now, &mut []).map(|head| head.delay_ns);
        assert_eq!(delay_ns(NOW + 700), Some(700));
        assert_eq!(delay_ns(Instant(0)), Some(0));
        assert_eq!(delay_ns(Instant::NEVER), Some(u32::MAX));
    }

    #[test]
    fn oldest_holes_become_duplicates_when_there_are_too_many() {
        let mut received = received((1..=RANGE_COUNT_MAX as u64).map(|n| 2 * n));
        assert_eq!(received.floor(), 0);
        assert!(received.is_new(1));
        received.record(2 * RANGE_COUNT_MAX as u64 + 2, NOW);
        assert_eq!(received.floor(), 2);
        assert!(!received.is_new(1) && received.is_new(3));
        assert_eq!(told(&received, RANGE_COUNT_MAX).len(), RANGE_COUNT_MAX);
    }

    #[test]
    fn short_ack_tells_the_newest() {
        let received = received([1, 3, 5, 7]);
        assert_eq!(told(&received, 0), [(7, 7)]);
        assert_eq!(told(&received, 2), [(7, 7), (5, 5), (3, 3)]);
    }

    #[test]
    fn runs_beyond_the_wire_are_cut_not_wrapped() {
        let mut received = Received::new(0);
        received.largest = 1 << 40;
        assert_eq!(told(&received, 0), [((1 << 40) - u64::from(u32::MAX) + 1, 1 << 40)]);
        received.record(1 << 41, NOW);
        assert_eq!(told(&received, RANGE_COUNT_MAX), [(1 << 41, 1 << 41)]);
    }

    #[test]
    fn senseless_acks_are_read_as_far_as_they_make_sense() {
        let read = |largest, first_len, pairs: &[(u32, u32)]| {
            ranges(largest, first_len, pairs.iter().copied()).collect::<Vec<_>>()
        };
        assert_eq!(read(5, 0, &[]), []);
        assert_eq!(read(0, 1, &[]), []);
        assert_eq!(read(5, 5, &[]), [(1, 5)]);
        assert_eq!(read(5, 6, &[(1, 1)]), []);
        assert_eq!(read(9, 2, &[(1, 0), (0, 2), (1, 1), (9, 1), (0, 1)]), [(8, 9), (5, 6), (3, 3)]);
        assert_eq!(read(u64::MAX, 1, &[(u32::MAX, u32::MAX)]).len(), 2);
    }

    /// The packets that arrived, kept as a set: the model for `Received`, with no limit but the one of ranges.
    #[derive(Default)]
    struct Model {
        floor: u64,
        packets: BTreeSet<u64>,
    }

    impl Model {
        fn ranges(&self) -> Vec<(u64, u64)> {
            let mut ranges: Vec<(u64, u64)> = Vec::new();
            for &packet in self.packets.iter().rev() {
                match ranges.last_mut() {
                    Some((first, _)) if *first == packet + 1 => *first = packet,
                    _ => ranges.push((packet, packet)),
                }
            }
            ranges
        }

        fn forget_to(&mut self, floor: u64) {
            self.floor = self.floor.max(floor);
            self.packets.retain(|&packet| packet > floor);
        }

        fn record(&mut self, packet: u64) {
            if packet > self.floor {
                self.packets.insert(packet);
            }
            if let Some(&(_, last)) = self.ranges().get(RANGE_COUNT_MAX) {
                self.forget_to(last);
            }
        }
    }

    proptest! {
        #[test]
        fn numbers_near_the_expected_survive_the_wire(
            expected in prop_oneof![0..1u64 << 33, any::<u64>()],
            distance in -(1i64 << 30)..=1 << 30,
        ) {
            if let Some(number) = expected.checked_add_signed(distance) {
                assert_eq!(expand(number as u32, expected), number);
            }
        }

        #[test]
        fn expanded_numbers_keep_their_low_half(low: u32, expected: u64) {
            let number = expand(low, expected);
            assert_eq!(number as u32, low);
            assert!(number.abs_diff(expected) < 1 << 32);
        }

        #[test]
        fn received_agrees_with_a_set(
            // Mostly near the front, as on a wire; (packet, is_forget).
            steps in prop::collection::vec((0u64..300, prop::bool::weighted(0.02)), 1..400),
            is_near: bool,
        ) {
            let mut received = Received::new(0);
            let mut model = Model::default();
            for (number, is_forget) in steps {
                let largest = received.largest();
                let packet = if is_near { (largest + number / 30).saturating_sub(4) } else { number };
                if is_forget {
                    received.forget_below(packet);
                    model.forget_to(packet.saturating_sub(1).min(largest));
                } else {
                    let is_new = packet > model.floor && !model.packets.contains(&packet);
                    assert_eq!(received.is_new(packet), is_new);
                    assert_eq!(received.record(packet, NOW), packet == largest + 1);
                    model.record(packet);
                }
                assert_eq!(received.floor(), model.floor);
                assert_eq!(received.largest(), model.packets.last().copied().unwrap_or(model.floor));
                assert_eq!(told(&received, RANGE_COUNT_MAX), model.ranges());
            }
        }
    }
}
