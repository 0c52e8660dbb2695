//! Random numbers that replay.
//!
//! SplitMix64 (Steele, Lea, Flood 2014), written out because a seed printed by a failing test must
//! mean the same run in every later version. The one unusual part is [`Rng::fork`]: a child depends
//! on the parent's *seed*, not on how many numbers were drawn from it, so that one draw more in one
//! place changes nothing in another. That is what lets a failing scenario be made smaller.

use std::ops::RangeInclusive;

/// Odd, about 2^64 divided by the golden ratio: the step of SplitMix64.
const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// A million: what probabilities are parts of.
pub const PPM: u32 = 1_000_000;

/// A small generator, fully determined by its seed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rng {
    seed: u64,
    state: u64,
}

impl Rng {
    /// A generator from a seed; every seed is as good as any other.
    pub const fn new(seed: u64) -> Self {
        Self { seed, state: seed }
    }

    /// The next 64 random bits.
    pub const fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GAMMA);
        mix(self.state)
    }

    /// A number in `0..count`. Its bias, at most `count` in 2^64, is far below what a test can see.
    ///
    /// # Panics
    /// If `count` is 0.
    pub const fn below(&mut self, count: u64) -> u64 {
        assert!(count > 0, "no number is below 0");
        ((self.next_u64() as u128 * count as u128) >> 64) as u64
    }

    /// A number in the range, both ends included.
    ///
    /// # Panics
    /// If the range is empty.
    pub fn range(&mut self, range: RangeInclusive<u64>) -> u64 {
        let (low, high) = range.into_inner();
        assert!(low <= high, "empty range {low}..={high}");
        match (high - low).checked_add(1) {
            Some(count) => low + self.below(count),
            None => self.next_u64(),
        }
    }

    /// True with a probability in parts per million; always draws one number.
    pub const fn chance(&mut self, ppm: u32) -> bool {
        self.below(PPM as u64) < ppm as u64
    }

    /// One of the things.
    ///
    /// # Panics
    /// If there is none.
    pub const fn pick<'a, T>(&mut self, things: &'a [T]) -> &'a T {
        &things[self.below(things.len() as u64) as usize]
    }

    /// An independent generator for one concern, named.
    pub const fn fork(&self, label: &str) -> Self {
        let bytes = label.as_bytes();
        let (mut hash, mut at) = (0xcbf2_9ce4_8422_2325_u64, 0); // FNV-1a
        while at < bytes.len() {
            hash = (hash ^ bytes[at] as u64).wrapping_mul(0x0000_0100_0000_01b3);
            at += 1;
        }
        self.fork_n(hash)
    }

    /// An independent generator for one of many: a node, a pair, the n-th frame.
    pub const fn fork_n(&self, n: u64) -> Self {
        // Both sides are mixed, else `fork_n(a).fork_n(b)` and `fork_n(b).fork_n(a)` would meet.
        Self::new(
            mix(self.seed.wrapping_add(GAMMA))
                ^ mix(n.wrapping_mul(GAMMA) ^ self.seed.rotate_left(32)),
        )
    }
}

/// SplitMix64's finisher: a bijection in which every input bit moves half of the output bits.
const fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_the_published_sequence() {
        let mut rng = Rng::new(1_234_567);
        let published = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
            4_593_380_528_125_082_431,
            16_408_922_859_458_223_821,
        ];
        assert_eq!(published.map(|_| rng.next_u64()), published);
    }

    #[test]
    fn forks_do_not_notice_draws_and_differ_from_each_other() {
        let mut parent = Rng::new(7);
        let before = parent.fork("loss");
        parent.next_u64();
        assert_eq!(parent.fork("loss"), before);
        let mut seen: Vec<u64> = (0..1000).map(|n| parent.fork_n(n).next_u64()).collect();
        seen.extend((0..1000).map(|n| parent.fork("loss").fork_n(n).next_u64()));
        seen.push(parent.fork_n(1).fork_n(2).next_u64());
        seen.push(parent.fork_n(2).fork_n(1).next_u64());
        let count = seen.len();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), count);
    }

    #[test]
    fn first_draws_of_forks_are_evenly_spread() {
        // The network draws each frame's fate from a fork of its own: those must be uniform too.
        let parent = Rng::new(3).fork("loss");
        let mut buckets = [0_u32; 16];
        for n in 0..160_000 {
            buckets[parent.fork_n(n).below(16) as usize] += 1;
        }
        assert!(buckets.iter().all(|count| (9_500..10_500).contains(count)), "{buckets:?}");
    }

    #[test]
    fn ranges_keep_their_ends() {
        let mut rng = Rng::new(1);
        let mut seen = [false; 3];
        for _ in 0..100 {
            seen[(rng.range(5..=7) - 5) as usize] = true;
        }
        assert_eq!(seen, [true; 3]);
        assert_eq!(rng.range(9..=9), 9);
        rng.range(0..=u64::MAX);
        assert!(rng.chance(PPM) && !rng.chance(0));
        assert_eq!(*rng.pick(&[4]), 4);
    }
}
