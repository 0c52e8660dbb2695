//! A cheap seeded hash.

use crate::{Identity, Secret};
use core::hash::{BuildHasher, Hasher};

/// A cheap seeded hash for keys that are numbers: one wide multiplication per word.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seeded(pub(crate) u64);

impl Seeded {
    /// Of what a row is found by.
    pub(crate) fn name(
        self,
        Identity { host, endpoint }: Identity,
        Secret([first, second]): Secret,
    ) -> u64 {
        let mut hasher = self.build_hasher();
        [host, endpoint, first, second].into_iter().for_each(|word| hasher.write_u64(word));
        hasher.finish()
    }
}

#[derive(Debug)]
pub(crate) struct SeededHasher(u64);

impl BuildHasher for Seeded {
    type Hasher = SeededHasher;
    fn build_hasher(&self) -> SeededHasher {
        SeededHasher(self.0)
    }
}

impl Hasher for SeededHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }
    fn write_u32(&mut self, word: u32) {
        self.write_u64(u64::from(word));
    }
    fn write_u64(&mut self, word: u64) {
        let mixed = u128::from(self.0 ^ word) * u128::from(0x9E37_79B9_7F4A_7C15_u64);
        self.0 = (mixed >> 64) as u64 ^ mixed as u64;
    }
}
