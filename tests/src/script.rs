//! Bytes read as decisions: a fuzzer's input, or a seed stretched to any length.
//!
//! A script never fails: when it has run out, every further decision is zero and `is_over` says so.

/// A run of bytes, read from its front.
#[derive(Clone, Debug)]
pub struct Script<'a> {
    rest: &'a [u8],
}

impl<'a> Script<'a> {
    /// Reads these bytes.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Whether everything was read.
    pub fn is_over(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next byte.
    pub fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.rest.split_first() else { return 0 };
        self.rest = rest;
        first
    }

    /// The next bit of a byte of its own.
    pub fn flag(&mut self) -> bool {
        self.byte() & 1 == 1
    }

    /// A number below `end`, which is at most 256.
    pub fn below(&mut self, end: usize) -> usize {
        debug_assert!((1..=256).contains(&end));
        usize::from(self.byte()) % end
    }

    /// One of several.
    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    /// The next two bytes as a number.
    pub fn half(&mut self) -> u16 {
        u16::from_le_bytes([self.byte(), self.byte()])
    }

    /// A 64-bit number: near zero, near a power of two, near the end, or anything.
    pub fn wide(&mut self) -> u64 {
        let (shape, near) = (self.byte(), u64::from(self.byte()));
        match shape {
            0..128 => near,
            128..192 => (1_u64 << (shape & 63)).wrapping_add(near).wrapping_sub(128),
            192..224 => u64::MAX - near,
            _ => u64::from_le_bytes(std::array::from_fn(|_| self.byte())),
        }
    }

    /// Up to `len` bytes as they are.
    pub fn bytes(&mut self, len: usize) -> &'a [u8] {
        let (taken, rest) = self.rest.split_at(len.min(self.rest.len()));
        self.rest = rest;
        taken
    }
}

/// Pseudo-random bytes of a seed (SplitMix64): scripts for tests that run without a fuzzer.
pub fn stretched(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed;
    let words = std::iter::repeat_with(|| {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (state ^ state >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ mixed >> 31).to_le_bytes()
    });
    words.flatten().take(len).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_that_is_over_decides_zero() {
        let mut script = Script::new(&[7]);
        assert_eq!((script.byte(), script.is_over()), (7, true));
        assert_eq!((script.byte(), script.wide(), script.bytes(4).len()), (0, 0, 0));
    }

    #[test]
    fn wide_numbers_come_near_the_edges() {
        assert_eq!(Script::new(&[0, 9]).wide(), 9);
        assert_eq!(Script::new(&[128 + 40, 128]).wide(), 1 << 40);
        assert_eq!(Script::new(&[200, 2]).wide(), u64::MAX - 2);
    }
}
