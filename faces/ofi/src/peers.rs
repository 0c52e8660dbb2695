//! Peers: by their number in the address vector, and back.
//!
//! Both are asked for every message, and change only when the application enters or removes an address. So they are tables of
//! words that are read without a lock; they grow by whole pieces, each twice as long as the one before it, which stay where they are.

use std::array;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use packhorse::raw::PeerId;

/// Length of the first piece.
const FIRST_LEN: u64 = 64;
/// With so many pieces there is a place for every number of 32 bits, hence for the row of every peer.
const PIECE_COUNT: usize = 27;

/// Numbers by number; 0 for none.
struct Words {
    pieces: [OnceLock<Box<[AtomicU64]>>; PIECE_COUNT],
}

impl Default for Words {
    fn default() -> Self {
        Self { pieces: array::from_fn(|_| OnceLock::new()) }
    }
}

/// In which piece a word is, and where in it.
#[inline]
fn place_of(index: u64) -> (usize, usize) {
    let piece = (index / FIRST_LEN + 1).ilog2();
    (piece as usize, (index - FIRST_LEN * ((1 << piece) - 1)) as usize)
}

impl Words {
    /// Acquire: who reads the name of a peer finds it in the engine, too.
    #[inline]
    fn get(&self, index: u64) -> u64 {
        let (piece, place) = place_of(index);
        let piece = self.pieces.get(piece).and_then(OnceLock::get);
        piece.map_or(0, |words| words[place].load(Ordering::Acquire))
    }

    /// # Panics
    /// If there is no place for so high a number.
    fn set(&self, index: u64, word: u64) {
        let (piece, place) = place_of(index);
        let new = || (0..FIRST_LEN << piece).map(|_| AtomicU64::new(0)).collect();
        self.pieces[piece].get_or_init(new)[place].store(word, Ordering::Release);
    }
}

/// Peers of an endpoint.
#[derive(Default)]
pub(crate) struct Peers {
    /// The peer's name and one, by its number.
    ids: Words,
    /// The number and one, by the peer's row. Another peer may have that row by the time that a message of one is read: `ids`
    /// tells.
    numbers: Words,
}

impl Peers {
    pub(crate) fn insert(&self, number: u64, id: PeerId) {
        self.ids.set(number, id.0 + 1);
        self.numbers.set(id.row().into(), number + 1);
    }

    pub(crate) fn remove(&self, number: u64) {
        if let Some(id) = self.id(number) {
            self.ids.set(number, 0);
            self.numbers.set(id.row().into(), 0);
        }
    }

    #[inline]
    pub(crate) fn id(&self, number: u64) -> Option<PeerId> {
        self.ids.get(number).checked_sub(1).map(PeerId)
    }

    #[inline]
    pub(crate) fn number(&self, id: PeerId) -> Option<u64> {
        let number = self.numbers.get(id.row().into()).checked_sub(1)?;
        (self.id(number) == Some(id)).then_some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_follow_each_other_without_a_gap() {
        let mut next = (0, 0);
        for index in 0..10_000 {
            let (piece, place) = place_of(index);
            assert!((piece, place) == next || (piece, place) == (next.0 + 1, 0), "{index}");
            assert!((place as u64) < FIRST_LEN << piece);
            next = (piece, place + 1);
        }
        assert!(place_of(u32::MAX.into()).0 < PIECE_COUNT);
    }

    #[test]
    fn what_was_entered_is_found_both_ways_until_it_is_removed() {
        let peers = Peers::default();
        let all = (0..300_u64).map(|index| (index, PeerId(index * 7 % 300)));
        all.clone().for_each(|(number, id)| peers.insert(number, id));
        for (number, id) in all {
            assert_eq!((peers.id(number), peers.number(id)), (Some(id), Some(number)));
        }
        peers.remove(63);
        peers.remove(64);
        peers.remove(u64::MAX);
        assert_eq!((peers.id(63), peers.number(PeerId(63 * 7 % 300))), (None, None));
        assert_eq!((peers.id(62), peers.id(65)), (Some(PeerId(134)), Some(PeerId(155))));
        assert_eq!(
            (peers.id(300), peers.id(u64::MAX), peers.number(PeerId(u64::MAX))),
            (None, None, None)
        );
        // Whoever had the row before is not who has it now.
        assert_eq!(peers.number(PeerId(1 << (PeerId::BITS - 1) | 134)), None);
    }
}
