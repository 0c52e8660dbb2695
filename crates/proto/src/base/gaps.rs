//! Which bytes of a message are missing.
//!
//! A large message arrives as ranges: some twice, some in another order, some cut differently the second time
//! (PROTOCOL §6.2). A range counts once (§8.5), so the receiver keeps what is missing, and only what was missing
//! until now is placed and counted. A sender keeps the same kind of set for what is granted and not yet sent, and
//! takes from its front.
//!
//! ```text
//! message   |................................|
//! present   ##########....#######.............
//! gaps                [10,14)    [21,34)
//!                      first      rest
//! ```
//!
//! Nearly every message arrives in order, so nearly every set is one gap that shrinks from its front. That gap is
//! kept inline and its fill comes first: such a set never allocates. The others, in order, are in `rest`. A fill in
//! the middle costs a binary search and the moving of the shorter side.
//!
//! The number of gaps is the network's doing, but bounded: each gap but the last holds bytes that were granted and
//! did not arrive, and these have a budget (§8.3).

use alloc::collections::VecDeque;

/// Nothing: no gap starts and ends at the same byte.
const EMPTY: (u64, u64) = (0, 0);

/// A set of bytes, as ranges `[start, end)` that neither overlap nor touch. Empty ranges are allowed as arguments
/// and change nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GapSet {
    /// The lowest gap; `EMPTY` only if there is none at all.
    first: (u64, u64),
    /// The gaps above it, ascending.
    rest: VecDeque<(u64, u64)>,
    /// Bytes in all gaps.
    missing_len: u64,
}

impl GapSet {
    /// All of a message of this length is missing.
    pub fn whole(len: u64) -> Self {
        Self { first: (0, len), rest: VecDeque::new(), missing_len: len }
    }

    /// Bytes missing.
    pub fn missing_len(&self) -> u64 {
        self.missing_len
    }

    /// Whether nothing is missing.
    pub fn is_empty(&self) -> bool {
        self.missing_len == 0
    }

    /// How many ranges are missing.
    pub fn gap_count(&self) -> usize {
        usize::from(!self.is_empty()) + self.rest.len()
    }

    /// How many bytes of `start..end` are missing.
    pub fn missing_within(&self, start: u64, end: u64) -> u64 {
        self.iter().map(|(from, to)| to.min(end).saturating_sub(from.max(start))).sum()
    }

    /// The lowest missing range.
    pub fn first_gap(&self) -> Option<(u64, u64)> {
        (!self.is_empty()).then_some(self.first)
    }

    /// What is missing from `offset` to the end of the gap it lies in; if it lies in none, the lowest missing range.
    pub fn missing_from(&self, offset: u64) -> Option<(u64, u64)> {
        let first = self.first_gap()?;
        if offset < first.0 || self.rest.is_empty() && offset >= first.1 {
            return Some(first);
        }
        if offset < first.1 {
            return Some((offset, first.1));
        }
        let at = self.rest.partition_point(|gap| gap.1 <= offset);
        let gap = self.rest.get(at).filter(|gap| gap.0 <= offset);
        Some(gap.map_or(first, |gap| (offset, gap.1)))
    }

    /// The missing ranges, ascending.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.first_gap().into_iter().chain(self.rest.iter().copied())
    }

    /// Whether every byte of `[start, end)` is missing.
    pub fn is_missing(&self, start: u64, end: u64) -> bool {
        if start >= end || (self.first.0 <= start && end <= self.first.1) {
            return true;
        }
        let at = self.rest.partition_point(|gap| gap.1 <= start);
        self.rest.get(at).is_some_and(|gap| gap.0 <= start && end <= gap.1)
    }

    /// Marks `[start, end)` as present. Calls `new` for each part that was missing until now, ascending, and returns
    /// how many bytes these are.
    pub fn fill(&mut self, start: u64, end: u64, new: &mut impl FnMut(u64, u64)) -> u64 {
        let (gap_start, gap_end) = self.first;
        if start <= gap_start && gap_start < end && end < gap_end {
            self.first.0 = end;
            self.missing_len -= end - gap_start;
            new(gap_start, end);
            return end - gap_start;
        }
        if start >= end {
            return 0;
        }
        let len = self.fill_first(start, end, new) + self.fill_rest(start, end, new);
        if self.first.0 == self.first.1 {
            self.first = self.rest.pop_front().unwrap_or(EMPTY);
        }
        self.missing_len -= len;
        len
    }

    /// What a fill does to the first gap. It may leave it empty.
    fn fill_first(&mut self, start: u64, end: u64, new: &mut impl FnMut(u64, u64)) -> u64 {
        let (gap_start, gap_end) = self.first;
        let (from, to) = (start.max(gap_start), end.min(gap_end));
        if from >= to {
            return 0;
        }
        new(from, to);
        match (gap_start < from, to < gap_end) {
            (false, _) => self.first.0 = to,
            (true, false) => self.first.1 = from,
            (true, true) => {
                self.first.1 = from;
                self.rest.push_front((to, gap_end));
            }
        }
        to - from
    }

    /// What a fill does to the other gaps.
    fn fill_rest(&mut self, start: u64, end: u64, new: &mut impl FnMut(u64, u64)) -> u64 {
        let mut low = self.rest.partition_point(|gap| gap.1 <= start);
        let mut high = self.rest.partition_point(|gap| gap.0 < end);
        if low >= high {
            return 0;
        }
        let mut len = 0;
        for &(gap_start, gap_end) in self.rest.range(low..high) {
            let (from, to) = (start.max(gap_start), end.min(gap_end));
            new(from, to);
            len += to - from;
        }
        // Only the outermost two can stick out, and what sticks out stays.
        let (left, right) = (self.rest[low].0, self.rest[high - 1].1);
        if end < right {
            high -= 1;
            if left < start && low == high {
                self.rest.insert(high, (left, start));
                self.rest[high + 1].0 = end;
                return len;
            }
            self.rest[high].0 = end;
        }
        if left < start {
            self.rest[low].1 = start;
            low += 1;
        }
        self.rest.drain(low..high);
        len
    }

    /// Marks `[start, end)` as missing, whatever of it was missing already.
    pub fn add(&mut self, start: u64, end: u64) {
        if start >= end {
        } else if self.is_empty() {
            (self.first, self.missing_len) = ((start, end), end - start);
        } else if end < self.first.0 {
            self.rest.push_front(self.first);
            self.first = (start, end);
            self.missing_len += end - start;
        } else if start <= self.first.1 {
            self.add_to_first(start, end);
        } else {
            self.add_to_rest(start, end);
        }
    }

    /// Adds a range that overlaps or touches the first gap.
    fn add_to_first(&mut self, start: u64, end: u64) {
        let mut known_len = self.first.1 - self.first.0;
        let mut grown = (start.min(self.first.0), end.max(self.first.1));
        while let Some(gap) = self.rest.front().copied().filter(|gap| gap.0 <= grown.1) {
            known_len += gap.1 - gap.0;
            grown.1 = grown.1.max(gap.1);
            self.rest.pop_front();
        }
        self.first = grown;
        self.missing_len += grown.1 - grown.0 - known_len;
    }

    /// Adds a range that starts above the first gap.
    fn add_to_rest(&mut self, start: u64, end: u64) {
        let low = self.rest.partition_point(|gap| gap.1 < start);
        let high = self.rest.partition_point(|gap| gap.0 <= end);
        if low == high {
            self.rest.insert(low, (start, end));
            self.missing_len += end - start;
            return;
        }
        let known_len: u64 = self.rest.range(low..high).map(|gap| gap.1 - gap.0).sum();
        let merged = (start.min(self.rest[low].0), end.max(self.rest[high - 1].1));
        self.rest[low] = merged;
        self.rest.drain(low + 1..high);
        self.missing_len += merged.1 - merged.0 - known_len;
    }

    /// Takes the lowest range out of the set, at most `len_max` bytes of it.
    pub fn take_front(&mut self, len_max: u64) -> Option<(u64, u64)> {
        let (start, gap_end) = self.first;
        let len = len_max.min(gap_end - start);
        if len == 0 {
            return None;
        }
        self.missing_len -= len;
        if start + len < gap_end {
            self.first.0 = start + len;
        } else {
            self.first = self.rest.pop_front().unwrap_or(EMPTY);
        }
        Some((start, start + len))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    fn gaps(set: &GapSet) -> Vec<(u64, u64)> {
        set.iter().collect()
    }

    fn fill(set: &mut GapSet, start: u64, end: u64) -> Vec<(u64, u64)> {
        let mut new = Vec::new();
        let len = set.fill(start, end, &mut |from, to| new.push((from, to)));
        assert_eq!(len, new.iter().map(|(from, to)| to - from).sum::<u64>());
        new
    }

    #[test]
    fn in_order_arrival_never_allocates() {
        let mut set = GapSet::whole(10_000);
        for start in (0..10_000).step_by(1_000) {
            assert_eq!(fill(&mut set, start, start + 1_000), [(start, start + 1_000)]);
            assert_eq!(set.gap_count(), usize::from(start < 9_000));
        }
        assert!(set.is_empty());
        assert_eq!(set.rest.capacity(), 0);
    }

    #[test]
    fn one_gap_cut_at_its_end_never_allocates() {
        let mut set = GapSet::whole(100);
        assert_eq!(fill(&mut set, 60, 200), [(60, 100)]);
        assert_eq!(gaps(&set), [(0, 60)]);
        set.add(60, 90);
        assert_eq!(gaps(&set), [(0, 90)]);
        assert_eq!(set.rest.capacity(), 0);
    }

    #[test]
    fn a_byte_counts_once() {
        let mut set = GapSet::whole(100);
        assert_eq!(fill(&mut set, 20, 40), [(20, 40)]);
        assert_eq!(fill(&mut set, 20, 40), []);
        assert_eq!(fill(&mut set, 10, 50), [(10, 20), (40, 50)]);
        assert_eq!(fill(&mut set, 70, 80), [(70, 80)]);
        assert_eq!(gaps(&set), [(0, 10), (50, 70), (80, 100)]);
        assert_eq!(fill(&mut set, 5, 90), [(5, 10), (50, 70), (80, 90)]);
        assert_eq!((gaps(&set), set.missing_len()), (vec![(0, 5), (90, 100)], 15));
    }

    #[test]
    fn empty_messages_and_ranges_are_nothing() {
        let mut set = GapSet::whole(0);
        assert_eq!(set, GapSet::default());
        assert_eq!((set.gap_count(), set.first_gap(), set.take_front(9)), (0, None, None));
        set.add(7, 7);
        set.add(7, 3);
        assert!(set.is_empty());
        set.add(u64::MAX - 1, u64::MAX);
        assert_eq!(fill(&mut set, 5, 5), []);
        assert_eq!(fill(&mut set, u64::MAX, 0), []);
        assert_eq!(set.take_front(0), None);
        assert_eq!(set.take_front(u64::MAX), Some((u64::MAX - 1, u64::MAX)));
    }

    #[test]
    fn granted_ranges_join_and_leave_from_the_front() {
        let mut set = GapSet::default();
        set.add(100, 200);
        set.add(200, 250);
        assert_eq!(set.gap_count(), 1);
        set.add(0, 50);
        assert_eq!(set.take_front(30), Some((0, 30)));
        assert_eq!(set.take_front(30), Some((30, 50)), "a piece never spans two ranges");
        assert_eq!(set.take_front(1000), Some((100, 250)));
        assert_eq!(set.take_front(1), None);
    }

    /// Length of the message in the model test.
    const LEN: u64 = 64;

    #[derive(Clone, Debug)]
    enum Op {
        Fill(u64, u64),
        Add(u64, u64),
        Take(u64),
    }

    fn op() -> impl Strategy<Value = Op> {
        let range = || (0..LEN, 0..=LEN / 4).prop_map(|(start, len)| (start, LEN.min(start + len)));
        prop_oneof![
            4 => range().prop_map(|(start, end)| Op::Fill(start, end)),
            3 => range().prop_map(|(start, end)| Op::Add(start, end)),
            1 => (0..LEN / 4).prop_map(Op::Take),
        ]
    }

    /// The ranges of `true` in a bitmap.
    fn runs(bits: &[bool]) -> Vec<(u64, u64)> {
        let mut runs = Vec::<(u64, u64)>::new();
        for (at, _) in bits.iter().enumerate().filter(|(_, bit)| **bit) {
            match runs.last_mut() {
                Some(run) if run.1 == at as u64 => run.1 += 1,
                _ => runs.push((at as u64, at as u64 + 1)),
            }
        }
        runs
    }

    /// Sets a range of the bitmap and tells which bits this changed.
    fn set_bits(bits: &mut [bool], start: u64, end: u64, to: bool) -> Vec<bool> {
        let mut changed = vec![false; bits.len()];
        for at in start as usize..end as usize {
            changed[at] = bits[at] != to;
            bits[at] = to;
        }
        changed
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn set_agrees_with_a_bitmap(
            whole in any::<bool>(),
            ops in prop::collection::vec(op(), 1..60),
            asked in (0..LEN, 0..LEN),
        ) {
            let mut set = if whole { GapSet::whole(LEN) } else { GapSet::default() };
            let mut bits = [whole; LEN as usize];
            for op in ops {
                match op {
                    Op::Fill(start, end) => {
                        let changed = set_bits(&mut bits, start, end, false);
                        prop_assert_eq!(fill(&mut set, start, end), runs(&changed));
                    }
                    Op::Add(start, end) => {
                        set.add(start, end);
                        set_bits(&mut bits, start, end, true);
                    }
                    Op::Take(len_max) => {
                        let expected = runs(&bits).first().copied().filter(|_| len_max > 0);
                        let expected = expected.map(|(start, end)| (start, end.min(start + len_max)));
                        prop_assert_eq!(set.take_front(len_max), expected);
                        if let Some((start, end)) = expected {
                            set_bits(&mut bits, start, end, false);
                        }
                    }
                }
                let expected = runs(&bits);
                prop_assert_eq!(set.first_gap(), expected.first().copied());
                prop_assert_eq!(set.gap_count(), expected.len());
                prop_assert_eq!(set.missing_len(), bits.iter().filter(|bit| **bit).count() as u64);
                prop_assert_eq!(set.is_empty(), expected.is_empty());
                prop_assert_eq!(gaps(&set), expected);
                let (start, end) = asked;
                let missing = start >= end || bits[start as usize..end as usize].iter().all(|bit| *bit);
                prop_assert_eq!(set.is_missing(start, end), missing);
            }
        }
    }
}
