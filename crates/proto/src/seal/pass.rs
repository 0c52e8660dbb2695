//! The pass: a word instead of a check, where only the two ends of a link can write to it.
//!
//! PROTOCOL §14.6. What comes by such a link is not damaged and not from strangers. The pass shows that its writer once had the address.

use crate::base::secret::Secret;
use crate::base::siphash::siphash13_fixed_then;
use crate::seal::Seal;

/// A receiver's pass: the same mark for any frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pass(pub u64);

/// A secret's pass: whoever knows the one can tell the other, but not the other way round.
pub fn pass_of(secret: &Secret) -> Pass {
    Pass(siphash13_fixed_then(secret, &[*b"the pass"], 0).max(1)) // 0 is none
}

impl Seal for Pass {
    #[inline(always)]
    fn mark<const N: usize>(&self, _: &[[u8; 8]; N], _: u64) -> u64 {
        self.0
    }

    #[inline(always)]
    fn mark_of(&self, _: [u64; 2], _: &[[u8; 8]], _: u64) -> u64 {
        self.0
    }

    fn marks<const N: usize>(&self, _: &[u64; N], _: u64, _: u64, marks: &mut [u64]) {
        marks.fill(self.0);
    }

    fn may_land_first(&self) -> bool {
        true
    }
}
