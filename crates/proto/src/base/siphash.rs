//! SipHash-1-3, the one keyed function of the protocol (PROTOCOL §1.2, §3.1, §3.5).
//!
//! It checks every frame, so it is written for short messages of whole words: one pass over eight bytes at a time and
//! no buffering state. Frames are checked over their heads and then their length, hence the `suffix`: it is hashed as
//! if it stood behind the bytes, without anybody copying them together. It has seven bytes, because that is what
//! SipHash's last word has room for beside its own length: eight would cost a word more, hence a round.

use crate::base::secret::Secret;

/// The four words of the hash (v0 to v3 of the SipHash paper).
#[derive(Clone, Copy, Debug)]
pub(crate) struct State([u64; 4]);

impl State {
    #[inline(always)]
    pub(crate) fn new(key: Secret) -> Self {
        let Secret([k0, k1]) = key;
        // "somepseudorandomlygeneratedbytes", as the paper has it.
        Self([
            k0 ^ 0x736f_6d65_7073_6575,
            k1 ^ 0x646f_7261_6e64_6f6d,
            k0 ^ 0x6c79_6765_6e65_7261,
            k1 ^ 0x7465_6462_7974_6573,
        ])
    }

    #[inline(always)]
    fn round(&mut self) {
        let [mut v0, mut v1, mut v2, mut v3] = self.0;
        v0 = v0.wrapping_add(v1);
        v2 = v2.wrapping_add(v3);
        v1 = v1.rotate_left(13) ^ v0;
        v3 = v3.rotate_left(16) ^ v2;
        v0 = v0.rotate_left(32).wrapping_add(v3);
        v2 = v2.wrapping_add(v1);
        v1 = v1.rotate_left(17) ^ v2;
        v3 = v3.rotate_left(21) ^ v0;
        v2 = v2.rotate_left(32);
        self.0 = [v0, v1, v2, v3];
    }

    /// One word of the message: one round, the 1 of 1-3.
    #[inline(always)]
    pub(crate) fn absorb(&mut self, word: u64) {
        self.0[3] ^= word;
        self.round();
        self.0[0] ^= word;
    }

    /// The last word, which holds up to seven bytes and the length of the whole, and the three closing rounds.
    #[inline(always)]
    pub(crate) fn finish(mut self, tail: u64, len: usize) -> u64 {
        self.absorb(tail | (len as u64) << 56);
        self.0[2] ^= 0xFF;
        self.round();
        self.round();
        self.round();
        self.0[0] ^ self.0[1] ^ self.0[2] ^ self.0[3]
    }
}

/// SipHash-1-3 of `first`, `words` and then `suffix` as seven little-endian bytes.
#[inline(always)]
pub(crate) fn siphash13_words_then(
    key: Secret,
    first: [u64; 2],
    words: &[[u8; 8]],
    suffix: u64,
) -> u64 {
    debug_assert!(suffix >> 56 == 0, "seven bytes");
    // A frame with one small message or a piece of a large one: no loop.
    if let [third, fourth] = *words {
        let [to, last] = first.map(u64::to_le_bytes);
        return siphash13_fixed_then(&key, &[to, last, third, fourth], suffix);
    }
    siphash13_words_then_any(key, first, words, suffix)
}

/// SipHash-1-3 of `words`, a number of them known when this is compiled, and then `suffix`: no loop. A call, because the
/// hash needs all registers for itself: its caller would have to put aside what it holds, and reads it again from where it
/// stands anyway.
#[inline(never)]
pub(crate) fn siphash13_fixed_then<const N: usize>(
    key: &Secret,
    words: &[[u8; 8]; N],
    suffix: u64,
) -> u64 {
    let mut state = State::new(*key);
    for word in words {
        state.absorb(u64::from_le_bytes(*word));
    }
    state.finish(suffix, 8 * N + 7)
}

/// SipHash-1-3 of any number of words, and then `suffix`.
#[inline(never)]
fn siphash13_words_then_any(key: Secret, first: [u64; 2], words: &[[u8; 8]], suffix: u64) -> u64 {
    let mut state = State::new(key);
    state.absorb(first[0]);
    state.absorb(first[1]);
    // Two at a time, as most heads have two.
    let (pairs, odd) = words.as_chunks::<2>();
    for [one, two] in pairs {
        state.absorb(u64::from_le_bytes(*one));
        state.absorb(u64::from_le_bytes(*two));
    }
    if let [word] = odd {
        state.absorb(u64::from_le_bytes(*word));
    }
    state.finish(suffix, 8 * (2 + words.len()) + 7)
}

/// SipHash-1-3 of `bytes` followed by `suffix` as seven little-endian bytes.
pub(crate) fn siphash13(key: Secret, bytes: &[u8], suffix: u64) -> u64 {
    debug_assert!(suffix >> 56 == 0, "seven bytes");
    let (words, rest) = bytes.as_chunks::<8>();
    let mut state = State::new(key);
    for word in words {
        state.absorb(u64::from_le_bytes(*word));
    }
    let len = bytes.len() + 7;
    if rest.is_empty() {
        return state.finish(suffix, len);
    }
    // The suffix straddles two words. `rest` has one to seven bytes, so neither shift is by a whole word.
    let shift = 8 * rest.len();
    let part = rest.iter().rev().fold(0, |part, &byte| part << 8 | u64::from(byte));
    state.absorb(part | suffix << shift);
    state.finish(suffix >> (64 - shift), len)
}

/// SipHash-1-3 of `words` as little-endian bytes.
#[inline]
pub(crate) fn siphash13_words(key: Secret, words: &[u64]) -> u64 {
    let mut state = State::new(key);
    for &word in words {
        state.absorb(word);
    }
    state.finish(0, 8 * words.len())
}

/// XORs `bytes` with a keystream whose block `i` is the hash of (`nonce`, `i`). Twice is as good as never
/// (PROTOCOL §3.1). A nonce serves for one byte string only: two under the same nonce would show their difference.
pub(crate) fn mask(key: Secret, nonce: u64, bytes: &mut [u8]) {
    for (block, chunk) in (0..).zip(bytes.chunks_mut(8)) {
        let stream = siphash13_words(key, &[nonce, block]).to_le_bytes();
        for (byte, pad) in chunk.iter_mut().zip(stream) {
            *byte ^= pad;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use core::hash::Hasher as _;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use siphasher::sip::SipHasher13;

    fn oracle(key: Secret, bytes: &[u8]) -> u64 {
        let mut hasher = SipHasher13::new_with_keys(key.0[0], key.0[1]);
        hasher.write(bytes);
        hasher.finish()
    }

    #[test]
    fn every_short_length_agrees_with_siphasher() {
        let bytes: Vec<u8> = (0..=255).cycle().skip(3).take(600).collect();
        let key = Secret([0x0706_0504_0302_0100, 0x0F0E_0D0C_0B0A_0908]);
        for len in 0..bytes.len() - 7 {
            let mut suffix = [0; 8];
            suffix[..7].copy_from_slice(&bytes[len..len + 7]);
            let suffix = u64::from_le_bytes(suffix);
            let expected = oracle(key, &bytes[..len + 7]);
            assert_eq!(siphash13(key, &bytes[..len], suffix), expected, "{len} bytes");
            if let ([first, second, words @ ..], []) = bytes[..len].as_chunks() {
                let first = [*first, *second].map(u64::from_le_bytes);
                let ours = siphash13_words_then(key, first, words, suffix);
                assert_eq!(ours, expected, "{len} bytes in words");
            }
        }
    }

    proptest! {
        #[test]
        fn agrees_with_siphasher(
            key: [u64; 2], mut bytes in vec(any::<u8>(), 0..300), suffix in 0..1_u64 << 56,
            words in vec(any::<u64>(), 0..40)
        ) {
            let key = Secret(key);
            let ours = siphash13(key, &bytes, suffix);
            bytes.extend(&suffix.to_le_bytes()[..7]);
            prop_assert_eq!(ours, oracle(key, &bytes));
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            prop_assert_eq!(siphash13_words(key, &words), oracle(key, &bytes));
        }

        #[test]
        fn masking_twice_restores(key: [u64; 2], nonce: u64, bytes in vec(any::<u8>(), 0..100)) {
            let key = Secret(key);
            let mut masked = bytes.clone();
            mask(key, nonce, &mut masked);
            for (block, (clear, hidden)) in bytes.chunks(8).zip(masked.chunks(8)).enumerate() {
                let stream = siphash13_words(key, &[nonce, block as u64]).to_le_bytes();
                let agree = clear.iter().zip(hidden).zip(stream).all(|((clear, hidden), pad)| clear ^ hidden == pad);
                prop_assert!(agree, "block {}", block);
            }
            mask(key, nonce, &mut masked);
            prop_assert_eq!(masked, bytes);
        }
    }
}
