//! SipHash, keyed with the receiver's secret, over header, heads and length (PROTOCOL §1.2).
//!
//! Marks of a train are computed together: its frames differ in two words, and loops without branches let a compiler use wide registers.

use crate::base::secret::Secret;
use crate::base::siphash::{State, siphash13_fixed_then, siphash13_words_then};
use crate::seal::{Seal, place_in_train};

/// A secret, and how the machine at hand computes the marks of trains.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keyed<'a> {
    pub(crate) secret: &'a Secret,
    pub(crate) checks: TrainChecks,
}

impl Seal for Keyed<'_> {
    #[inline(always)]
    fn mark<const N: usize>(&self, words: &[[u8; 8]; N], tail: u64) -> u64 {
        self.secret.mark(words, tail)
    }

    #[inline(always)]
    fn mark_of(&self, header: [u64; 2], heads: &[[u8; 8]], tail: u64) -> u64 {
        self.secret.mark_of(header, heads, tail)
    }

    #[inline(always)]
    fn marks<const N: usize>(&self, first: &[u64; N], step: u64, tail: u64, marks: &mut [u64]) {
        (self.checks)(&TrainSeed::new(*self.secret, first, step, tail), marks);
    }

    #[inline(always)]
    fn may_land_first(&self) -> bool {
        self.secret.may_land_first()
    }
}

impl Seal for Secret {
    #[inline(always)]
    fn mark<const N: usize>(&self, words: &[[u8; 8]; N], tail: u64) -> u64 {
        siphash13_fixed_then(self, words, tail)
    }

    #[inline(always)]
    fn mark_of(&self, header: [u64; 2], heads: &[[u8; 8]], tail: u64) -> u64 {
        siphash13_words_then(*self, header, heads, tail)
    }

    fn marks<const N: usize>(&self, first: &[u64; N], step: u64, tail: u64, marks: &mut [u64]) {
        Keyed { secret: self, checks: train_checks }.marks(first, step, tail, marks);
    }

    /// Heads are checked, payload is not: what lands is what `on_frame` would have put there.
    #[inline(always)]
    fn may_land_first(&self) -> bool {
        true
    }
}

/// Words of a frame's head but for mark and `to`, at most.
const REST_COUNT_MAX: usize = 5;

/// Where the marks of a train's frames come from: what these have in common, and how they differ.
#[derive(Clone, Copy, Debug)]
pub struct TrainSeed {
    /// With `to` absorbed.
    state: State,
    /// The words behind `to` of the first frame.
    rest: [u64; REST_COUNT_MAX],
    rest_count: usize,
    step: u64,
    tail: u64,
}

impl TrainSeed {
    #[inline(always)]
    fn new<const N: usize>(secret: Secret, first: &[u64; N], step: u64, tail: u64) -> Self {
        let mut state = State::new(secret);
        state.absorb(first[0]);
        let mut rest = [0; REST_COUNT_MAX];
        rest[..N - 1].copy_from_slice(&first[1..]);
        Self { state, rest, rest_count: N - 1, step, tail }
    }
}

/// Fills in the marks of frames that follow each other.
pub type TrainChecks = fn(&TrainSeed, &mut [u64]);

/// Fills in the marks of frames that follow each other.
///
/// Loops without branches, so that a compiler that may use wide registers computes several frames at once: inlined into
/// a function with the features of the machine at hand (`Endpoint::set_train_checks`) it is three times as quick.
#[inline(always)]
pub fn train_checks(seed: &TrainSeed, marks: &mut [u64]) {
    match seed.rest_count {
        3 => marks_of::<3, { place_in_train(4) - 1 }>(seed, marks), // Data
        4 => marks_of::<4, { place_in_train(5) - 1 }>(seed, marks), // Fragment
        _ => marks_of::<5, { place_in_train(6) - 1 }>(seed, marks), // and with an immediate
    }
}

/// The marks of frames whose heads have `N` words behind `to`, of which that at `PLACE` grows.
#[inline(always)]
fn marks_of<const N: usize, const PLACE: usize>(seed: &TrainSeed, marks: &mut [u64]) {
    let TrainSeed { state, ref rest, step, tail, .. } = *seed;
    let (packet, above) = (rest[0] as u32, rest[0] & !u64::from(u32::MAX));
    for (at, mark) in marks.iter_mut().enumerate() {
        let mut state = state;
        state.absorb(above | u64::from(packet.wrapping_add(at as u32)));
        for (n, &word) in rest[..N].iter().enumerate().skip(1) {
            let grown = if n == PLACE { step.wrapping_mul(at as u64) } else { 0 };
            state.absorb(word.wrapping_add(grown));
        }
        *mark = state.finish(tail, 8 * (N + 1) + 7);
    }
}
