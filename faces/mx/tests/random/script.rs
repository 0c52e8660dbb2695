//! What is drawn: chance with a seed, and what every process knows of every message without being told.

/// Processes.
pub(crate) const RANK_COUNT: usize = 4;
/// Longest message that is complete with its post.
pub(crate) const EAGER_LEN_MAX: usize = 32_768;
/// Length of the longest message.
pub(crate) const LEN_MAX: usize = 300_000;
/// Longest message of class `FORGOTTEN`.
pub(crate) const FORGOTTEN_LEN_MAX: usize = 4096;

/// Classes of messages, in the first byte of the match bits: four that receives name or leave open ...
pub(crate) const PLAIN_COUNT: u64 = 4;
/// ... one that only receives without a handle take ...
pub(crate) const FORGOTTEN: u64 = 4;
/// ... and one that the handler of unexpected messages, where there is one, ends.
pub(crate) const HANDLED: u64 = 5;

pub(crate) const CLASS_SHIFT: u32 = 56;
pub(crate) const SOURCE_SHIFT: u32 = 48;
pub(crate) const LIFE_SHIFT: u32 = 40;
pub(crate) const CLASS_MASK: u64 = 0xff << CLASS_SHIFT;
pub(crate) const SOURCE_MASK: u64 = 0xff << SOURCE_SHIFT;
/// All plain classes.
pub(crate) const PLAIN_MASK: u64 = 0xfc << CLASS_SHIFT;

/// Mixes well; two words that differ in a bit differ in half of them.
pub(crate) fn mix(mut word: u64) -> u64 {
    word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}

/// Chance.
#[derive(Debug)]
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0) % bound
    }

    pub(crate) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }
}

/// A message: who sent it in which life, to whom, as the how manieth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Message {
    pub(crate) source: u8,
    pub(crate) life: u8,
    pub(crate) number: u32,
    pub(crate) to: u8,
}

impl Message {
    /// What the match bits of a message to `to` say.
    pub(crate) fn of_info(info: u64, to: u8) -> Self {
        let (source, life) = ((info >> SOURCE_SHIFT) as u8, (info >> LIFE_SHIFT) as u8);
        Self { source, life, number: info as u32, to }
    }

    fn hash(self, seed: u64) -> u64 {
        let Self { source, life, number, to } = self;
        let word = u64::from(number) | u64::from(source) << 32 | u64::from(to) << 40;
        mix(mix(word | u64::from(life) << 48).wrapping_add(seed))
    }

    pub(crate) fn class(self, seed: u64) -> u64 {
        match self.hash(seed) % 16 {
            0 => FORGOTTEN,
            1 => HANDLED,
            other => other % PLAIN_COUNT,
        }
    }

    pub(crate) fn info(self, seed: u64) -> u64 {
        self.class(seed) << CLASS_SHIFT
            | u64::from(self.source) << SOURCE_SHIFT
            | u64::from(self.life) << LIFE_SHIFT
            | u64::from(self.number)
    }

    pub(crate) fn len(self, seed: u64) -> usize {
        let mut dice = Dice(self.hash(seed) ^ 1);
        if self.class(seed) == FORGOTTEN {
            return 8 + dice.below(FORGOTTEN_LEN_MAX as u64 - 7) as usize;
        }
        let bounds = [1, 64, 64, 1024, 1500, 5000, EAGER_LEN_MAX, 65_536, LEN_MAX];
        let bound = dice.pick(&bounds);
        dice.below(bound as u64 + 1) as usize
    }

    pub(crate) fn is_synchronous(self, seed: u64) -> bool {
        mix(self.hash(seed) ^ 2).is_multiple_of(6)
    }

    /// Whether its sender asks for it: if not, it is forgotten at once.
    pub(crate) fn is_told(self, seed: u64) -> bool {
        !mix(self.hash(seed) ^ 3).is_multiple_of(8)
    }

    /// Whether its send ends only when it was received.
    pub(crate) fn is_announced(self, seed: u64) -> bool {
        self.is_synchronous(seed) || self.len(seed) > EAGER_LEN_MAX
    }

    /// Its bytes: the first eight are its match bits, with which memory of a forgotten receive says what it took.
    pub(crate) fn byte_at(self, seed: u64) -> impl Fn(usize) -> u8 {
        let (info, word) = (self.info(seed).to_le_bytes(), self.hash(seed));
        move |at| match at {
            0..8 => info[at],
            _ => (word >> (at % 8 * 8)) as u8 ^ at as u8 ^ (at >> 8) as u8,
        }
    }
}
