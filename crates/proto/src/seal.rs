//! The check of a frame: what shows its receiver that it comes from somebody who may send to it.
//!
//! ```text
//!   frame          ─┐                              ┌─ a secret    SipHash keyed with it (PROTOCOL §1.2)
//!   landed train   ─┼─▶ wire ─▶ Seal ◀─ written by ┼─ `Keyed`     the same; trains with the registers of the machine at hand
//!   frame aside    ─┤                              └─ `Pass`      a word that only the two ends of a link can write (§14.6)
//!   lone message   ─┘
//! ```
//!
//! Every frame begins with a word, its *mark*, and a [`Seal`] says which mark belongs to the words behind it. A seal knows no record and no offset: `wire`
//! writes and reads frames, and asks the seal it is handed for marks. So this room stands below `wire`, which seals common frames and trains as it writes
//! them. Whoever opens or seals a frame is handed the seal by the room that knows the keys (`peers/seals`), and sees
//! nothing of it but the trait: another kind of seal is one more implementation, handed out there.

mod keyed;
mod pass;

pub(crate) use keyed::Keyed;
pub use keyed::{TrainChecks, TrainSeed, train_checks};
pub use pass::{Pass, pass_of};

use crate::base::secret::Secret;

/// A kind of seal with its key. The words are those of a frame behind its mark: the header's two, then all heads. `tail` has the frame's length and the high
/// half of its packet number, which the words do not show.
pub trait Seal {
    /// The mark of a frame with a number of words that is known when this is compiled.
    fn mark<const N: usize>(&self, words: &[[u8; 8]; N], tail: u64) -> u64;

    /// The mark of any frame: the words of its header, its heads.
    fn mark_of(&self, header: [u64; 2], heads: &[[u8; 8]], tail: u64) -> u64;

    /// The marks of frames that follow each other and are equally long. `first` are the words of the first one; from one to the next its packet number
    /// grows by one and the word at `place_in_train` by `step`.
    fn marks<const N: usize>(&self, first: &[u64; N], step: u64, tail: u64, marks: &mut [u64]);

    /// Whether payload may lie where it belongs before the mark of its frame was looked at. A seal that changes payload, or believes none of it unseen, says
    /// no: then trains are not scattered to where they are predicted to belong (PROTOCOL §8.8).
    fn may_land_first(&self) -> bool;
}

/// Which of a frame's words says where the payload of a train belongs: the last of a Data, the third of a Fragment.
pub(crate) const fn place_in_train(word_count: usize) -> usize {
    if word_count == 4 { 3 } else { 4 }
}

/// The seal of one numbered frame to a peer: which kind, its path decides. A number whose low half is 0 looks on the wire as if there were none, and
/// with the pass such a frame is one that was given; so it bears the check in its place (PROTOCOL §14.6).
#[derive(Clone, Copy, Debug)]
pub(crate) enum Proof<'a> {
    Keyed(&'a Secret),
    Passed(Pass, &'a Secret),
}

/// The mark of a frame that has a pass, and may not use it: once in 2^32 packets.
#[cold]
#[inline(never)]
fn mark_in_place_of_pass<const N: usize>(secret: &Secret, words: &[[u8; 8]; N], tail: u64) -> u64 {
    secret.mark(words, tail)
}

impl Seal for Proof<'_> {
    #[inline(always)]
    fn mark<const N: usize>(&self, words: &[[u8; 8]; N], tail: u64) -> u64 {
        match self {
            Self::Keyed(secret) => secret.mark(words, tail),
            Self::Passed(_, secret) if u64::from_le_bytes(words[1]) as u32 == 0 => {
                mark_in_place_of_pass(secret, words, tail)
            }
            Self::Passed(pass, _) => pass.mark(words, tail),
        }
    }

    #[inline(always)]
    fn mark_of(&self, header: [u64; 2], heads: &[[u8; 8]], tail: u64) -> u64 {
        match self {
            Self::Keyed(secret) => secret.mark_of(header, heads, tail),
            Self::Passed(_, secret) if header[1] as u32 == 0 => secret.mark_of(header, heads, tail),
            Self::Passed(pass, _) => pass.mark_of(header, heads, tail),
        }
    }

    fn marks<const N: usize>(&self, first: &[u64; N], step: u64, tail: u64, marks: &mut [u64]) {
        match self {
            Self::Keyed(secret) => secret.marks(first, step, tail, marks),
            // No train has a pass; the check is right for all of its numbers.
            Self::Passed(_, secret) => secret.marks(first, step, tail, marks),
        }
    }

    fn may_land_first(&self) -> bool {
        match self {
            Self::Keyed(secret) => secret.may_land_first(),
            Self::Passed(pass, _) => pass.may_land_first(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::types::{Space, Tag};
    use crate::wire::{
        DATA_FRAME_HEAD_LEN, EagerRepr, FrameError, FrameView, Header, LONE, LONE_HEAD_LEN_MAX,
        Lane, LoneView, QuoteView, TrainRepr, Writer, agreeing_count, seal_high, write_lone_at,
        write_train,
    };
    use alloc::vec::Vec;

    /// No check at all, but enough to tell seals apart: all words are added up.
    struct Sum(u64);

    impl Seal for Sum {
        fn mark<const N: usize>(&self, words: &[[u8; 8]; N], tail: u64) -> u64 {
            words
                .iter()
                .fold(self.0 ^ tail, |sum, word| sum.wrapping_add(u64::from_le_bytes(*word)))
        }

        fn mark_of(&self, header: [u64; 2], heads: &[[u8; 8]], tail: u64) -> u64 {
            let sum = (self.0 ^ tail).wrapping_add(header[0]).wrapping_add(header[1]);
            heads.iter().fold(sum, |sum, word| sum.wrapping_add(u64::from_le_bytes(*word)))
        }

        fn marks<const N: usize>(&self, first: &[u64; N], step: u64, tail: u64, marks: &mut [u64]) {
            for (at, mark) in (0..).zip(marks) {
                let mut words = *first;
                words[1] += at;
                words[place_in_train(N)] += at * step;
                *mark = self.mark(&words.map(u64::to_le_bytes), tail);
            }
        }

        fn may_land_first(&self) -> bool {
            false
        }
    }

    const HEADER: Header = Header { to: 7, packet: 9, path: 1, form: 1 };

    #[test]
    fn a_seal_of_another_kind_goes_all_ways_of_a_frame() {
        let (own, other) = (Sum(5), Sum(6));
        // A frame by the general rules, and its quote.
        let mut frame = Vec::new();
        Writer::begin(&mut frame, HEADER).data(Lane::Message, 3, 8, 100);
        seal_high(&mut frame, 8, 0, &own, None);
        let quote = QuoteView::read(&frame).expect("whole heads");
        assert!(quote.is_sealed(&own, 0) && !quote.is_sealed(&other, 0));
        frame.extend([1; 8]);
        assert!(FrameView::open_high(&own, 0, &frame).is_ok());
        assert_eq!(FrameView::open_high(&other, 0, &frame), Err(FrameError::Check));
        // A message alone in its frame.
        let eager =
            EagerRepr { space: Space(1), message: 4, tag: Tag(2), wants_match: false, len: 8 };
        let mut head = [0; LONE_HEAD_LEN_MAX];
        let len = write_lone_at(&mut head, HEADER, None, (eager, None), &own);
        let mut frame = head[..len].to_vec();
        frame.extend([1; 8]);
        let lone = LoneView::<LONE>::read(&frame).expect("its shape");
        assert!(lone.is_proven(&own, 0) && !lone.is_proven(&other, 0));
        // A train.
        let train = TrainRepr {
            header: HEADER,
            lane: Lane::Message,
            message: 3,
            offset: 0,
            payload_len: 100,
            last_len: 40,
            count: 70,
        };
        let mut heads = Vec::new();
        write_train(&mut heads, &train, &own);
        assert_eq!(agreeing_count(&heads, &train, &own), 70);
        assert_eq!(agreeing_count(&heads, &train, &other), 0);
        heads[3 * DATA_FRAME_HEAD_LEN] ^= 1;
        assert_eq!(agreeing_count(&heads, &train, &own), 3);
        assert!(Secret::PUBLIC.may_land_first() && !own.may_land_first());
    }

    #[test]
    fn a_proof_is_what_it_is_made_of() {
        let secret = Secret([3, 4]);
        let (keyed, passed) = (Proof::Keyed(&secret), Proof::Passed(Pass(77), &secret));
        let words = [[1; 8], [2; 8], [3; 8], [4; 8]];
        let mut low_zero = words;
        low_zero[1] = (5_u64 << 32).to_le_bytes();
        for (words, proof, mark) in [
            (words, keyed, secret.mark(&words, 9)),
            (words, passed, 77),
            (low_zero, keyed, secret.mark(&low_zero, 9)),
            (low_zero, passed, secret.mark(&low_zero, 9)),
        ] {
            assert_eq!(proof.mark(&words, 9), mark);
            let header = [u64::from_le_bytes(words[0]), u64::from_le_bytes(words[1])];
            assert_eq!(proof.mark_of(header, &words[2..], 9), mark);
        }
        for proof in [keyed, passed] {
            let mut marks = [0; 2];
            proof.marks(&[1, 2, 3, 4], 8, 9, &mut marks);
            let one = |at: u64| secret.mark(&[1, 2 + at, 3, 4 + 8 * at].map(u64::to_le_bytes), 9);
            assert_eq!(marks, [one(0), one(1)]);
            assert!(proof.may_land_first());
        }
    }
}
