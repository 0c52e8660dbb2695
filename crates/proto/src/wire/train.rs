//! Data frames that follow each other: a train.
//!
//! PROTOCOL §10.1. Each frame is a header and one Data record; from one to the next only the packet number grows by one
//! and the offset by the payload's length, and only the last may be shorter. So the heads of a whole train are known from
//! the first, and who reads them compares rather than parses:
//!
//! ```text
//!   word    0 check    1 to       2 packet, 16, path, form    3 Data, len, message    4 offset
//!             differs    the same   packet + n                  the same                offset + n × len
//! ```

use alloc::vec::Vec;

use super::layout::{
    DATA_HEAD_LEN, First, HEADER_LEN, Header, Lane, WORD_LEN, base_of, check_tail, kind, number,
};
use crate::siphash::State;
use crate::types::Secret;

/// Bytes of header and head of a frame with one Data record and no Check.
pub const DATA_FRAME_HEAD_LEN: usize = HEADER_LEN + DATA_HEAD_LEN;

/// A train, but for its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrainRepr {
    /// Header of the first frame.
    pub header: Header,
    /// Whose number it names.
    pub lane: Lane,
    /// Whose bytes it carries.
    pub message: u32,
    /// Where the first frame's bytes start in the message.
    pub offset: u64,
    /// Bytes in each frame but the last.
    pub payload_len: u16,
    /// Bytes in the last.
    pub last_len: u16,
    /// Frames. Their numbers have the same high half ([`TrainRepr::count_to_wrap`]): it is part of what the checks share.
    pub count: usize,
}

impl TrainRepr {
    /// How many packets from this one on have numbers with the same high half.
    pub fn count_to_wrap(packet: u64) -> u64 {
        (1 << 32) - (packet - base_of(packet))
    }

    /// Payload of the first `count` frames.
    pub fn len_of(&self, count: usize) -> u64 {
        match count {
            0 => 0,
            _ if count == self.count => {
                (count as u64 - 1) * u64::from(self.payload_len) + u64::from(self.last_len)
            }
            _ => count as u64 * u64::from(self.payload_len),
        }
    }

    /// The words of a frame but for its check. All frames are as long as the first here, the last is not special.
    fn words(&self, at: usize) -> [u64; 4] {
        let packet = self.header.packet + at as u64;
        let [_, to, last] = Header { packet, ..self.header }.words();
        let last = last | (DATA_HEAD_LEN as u64) << 32;
        let first = First::word(kind::DATA, self.lane as u8, self.payload_len, self.message);
        let offset = self.offset.wrapping_add(at as u64 * u64::from(self.payload_len));
        [to, last, first, offset]
    }

    /// The words of the frame `at` behind the one that has these.
    #[inline(always)]
    fn step(&self, [to, last, first, offset]: [u64; 4], at: usize) -> [u64; 4] {
        let packet = (last as u32).wrapping_add(at as u32);
        let last = last & !u64::from(u32::MAX) | u64::from(packet);
        [to, last, first, offset.wrapping_add(at as u64 * u64::from(self.payload_len))]
    }

    /// What `count` frames from `at` on have in common, all of them full.
    fn seed(&self, at: usize, secret: Secret) -> TrainSeed {
        let [to, last, first, offset] = self.words(at);
        let mut state = State::new(secret);
        state.absorb(to);
        let frame_len = DATA_FRAME_HEAD_LEN as u64 + u64::from(self.payload_len);
        let tail = check_tail(frame_len, base_of(self.header.packet));
        TrainSeed { state, last, first, offset, step: self.payload_len.into(), tail }
    }

    /// The last frame as a train of its own, if it is shorter than the others.
    fn short_last(&self) -> Option<Self> {
        let at = self.count.checked_sub(1).filter(|_| self.last_len < self.payload_len)?;
        let [_, _, _, offset] = self.words(at);
        let header = Header { packet: self.header.packet + at as u64, ..self.header };
        let payload_len = self.last_len;
        Some(Self { header, offset, payload_len, count: 1, ..*self })
    }
}

/// Where the checks of a train's frames come from: what these have in common, and how they differ.
#[derive(Clone, Copy, Debug)]
pub struct TrainSeed {
    /// With `to` absorbed.
    state: State,
    last: u64,
    first: u64,
    offset: u64,
    step: u64,
    tail: u64,
}

/// Fills in the checks of frames that follow each other.
pub type TrainChecks = fn(&TrainSeed, &mut [u64]);

/// Fills in the checks of frames that follow each other.
///
/// A loop without branches, so that a compiler that may use wide registers computes several frames at once: inlined into
/// a function with the features of the machine at hand (`Endpoint::set_train_checks`) it is three times as quick.
#[inline(always)]
pub fn train_checks(seed: &TrainSeed, checks: &mut [u64]) {
    let TrainSeed { state, last, first, offset, step, tail } = *seed;
    let (packet, rest) = (last as u32, last & !u64::from(u32::MAX));
    for (at, check) in checks.iter_mut().enumerate() {
        let mut state = state;
        state.absorb(rest | u64::from(packet.wrapping_add(at as u32)));
        state.absorb(first);
        state.absorb(offset.wrapping_add(step.wrapping_mul(at as u64)));
        *check = state.finish(tail, 8 * 4 + 7);
    }
}

/// The same for any machine.
pub(crate) fn train_checks_anywhere(seed: &TrainSeed, checks: &mut [u64]) {
    train_checks(seed, checks);
}

/// Frames whose checks are computed at once: what a train of UDP can hold.
const BLOCK: usize = 64;

/// Writes and seals the heads of a train, one behind the other; what was in `out` is forgotten.
pub fn write_train(out: &mut Vec<u8>, train: &TrainRepr, secret: Secret, checks: TrainChecks) {
    out.resize(train.count * DATA_FRAME_HEAD_LEN, 0);
    let (heads, _) = out.as_chunks_mut::<DATA_FRAME_HEAD_LEN>();
    write_full(heads, train, secret, checks);
    if let (Some(last), [.., head]) = (train.short_last(), heads) {
        write_full(core::slice::from_mut(head), &last, secret, checks);
    }
}

fn write_full(
    heads: &mut [[u8; DATA_FRAME_HEAD_LEN]],
    train: &TrainRepr,
    secret: Secret,
    checks: TrainChecks,
) {
    let mut sums = [0; BLOCK];
    for (block, heads) in heads.chunks_mut(BLOCK).enumerate() {
        let start = block * BLOCK;
        let sums = &mut sums[..heads.len()];
        checks(&train.seed(start, secret), sums);
        let words = train.words(start);
        for (at, (head, check)) in heads.iter_mut().zip(sums).enumerate() {
            let [to, last, first, offset] = train.step(words, at);
            let (slots, _) = head.as_chunks_mut::<WORD_LEN>();
            for (slot, word) in slots.iter_mut().zip([*check, to, last, first, offset]) {
                *slot = word.to_le_bytes();
            }
        }
    }
}

/// The header of the first of these heads, not verified, with the low half of its packet number. `None` if it is cut short, or has not the length of a Data's.
pub fn first_header(heads: &[u8]) -> Option<Header> {
    let (words, _) = heads.first_chunk::<HEADER_LEN>()?.as_chunks::<WORD_LEN>();
    let last = number(&words[2]);
    (last >> 32 & 0xFFFF == DATA_HEAD_LEN as u64).then(|| Header::read(number(&words[1]), last, 0))
}

/// How many of these heads, from the first on, are those of the train, rightly keyed.
pub fn agreeing_count(
    heads: &[u8],
    train: &TrainRepr,
    secret: Secret,
    checks: TrainChecks,
) -> usize {
    let (heads, _) = heads.as_chunks::<DATA_FRAME_HEAD_LEN>();
    let heads = &heads[..train.count.min(heads.len())];
    let Some(last) = train.short_last().filter(|_| heads.len() == train.count) else {
        return agreeing_full(heads, train, secret, checks);
    };
    let Some((last_head, heads)) = heads.split_last() else { return 0 };
    let count = agreeing_full(heads, train, secret, checks);
    if count < heads.len() {
        return count;
    }
    count + agreeing_full(core::slice::from_ref(last_head), &last, secret, checks)
}

fn agreeing_full(
    heads: &[[u8; DATA_FRAME_HEAD_LEN]],
    train: &TrainRepr,
    secret: Secret,
    checks: TrainChecks,
) -> usize {
    let mut sums = [0; BLOCK];
    for (block, heads) in heads.chunks(BLOCK).enumerate() {
        let start = block * BLOCK;
        let sums = &mut sums[..heads.len()];
        checks(&train.seed(start, secret), sums);
        let firsts = train.words(start);
        for (at, (head, check)) in heads.iter().zip(sums).enumerate() {
            let (words, _) = head.as_chunks::<WORD_LEN>();
            let [to, last, first, offset] = train.step(firsts, at);
            let expected = [*check, to, last, first, offset];
            let differs = (0..5).fold(0, |sum, n| sum | (number(&words[n]) ^ expected[n]));
            if differs != 0 {
                return start + at;
            }
        }
    }
    heads.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{FrameView, Record, Writer, seal_high};
    use alloc::vec;
    use proptest::prelude::*;

    const KEY: Secret = Secret([0x1234_5678_9ABC_DEF0, 77]);

    fn written(train: &TrainRepr) -> Vec<u8> {
        let mut heads = vec![9; 100];
        write_train(&mut heads, train, KEY, train_checks_anywhere);
        heads
    }

    proptest! {
        #[test]
        fn heads_are_those_of_the_frames_one_by_one(
            to: u64, packet in 0..u64::MAX / 2, path: u8, message: u32, offset in 0..u64::MAX / 2,
            payload_len in 1..9000u16, short_by in 0..9000u16, count in 1..200usize,
            cut in 0..200usize, bit in 0..320usize,
        ) {
            let last_len = payload_len.saturating_sub(short_by).max(1);
            let count = count.min(TrainRepr::count_to_wrap(packet) as usize);
            let header = Header { to, packet, path, form: 1 };
            let train = TrainRepr { header, lane: Lane::Put, message, offset, payload_len, last_len, count };
            let heads = written(&train);
            let mut at_offset = offset;
            for (at, head) in heads.chunks(DATA_FRAME_HEAD_LEN).enumerate() {
                let len = if at + 1 == count { last_len } else { payload_len };
                let mut single = Vec::new();
                let header = Header { packet: packet + at as u64, ..header };
                Writer::begin(&mut single, header).data(Lane::Put, message, len, at_offset);
                seal_high(&mut single, len.into(), base_of(packet), KEY, None);
                prop_assert_eq!(head, &single[..], "frame {}", at);
                at_offset += u64::from(len);
            }
            prop_assert_eq!(train.len_of(count), at_offset - offset);
            let count_of = |heads: &[u8], train: &TrainRepr| {
                agreeing_count(heads, train, KEY, train_checks_anywhere)
            };
            prop_assert_eq!(count_of(&heads, &train), count);
            let cut = cut.min(count);
            prop_assert_eq!(count_of(&heads[..cut * DATA_FRAME_HEAD_LEN], &train), cut);
            // Any bit of any frame ends what agrees there.
            let mut bad = heads.clone();
            let at = cut.min(count - 1);
            bad[at * DATA_FRAME_HEAD_LEN + bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(count_of(&bad, &train), at);
        }
    }

    #[test]
    fn first_header_is_read_only_off_a_lone_data_record() {
        let header = Header { to: 7, packet: 9, path: 1, form: 1 };
        let train = TrainRepr {
            header,
            lane: Lane::Message,
            message: 3,
            offset: 5,
            payload_len: 100,
            last_len: 40,
            count: 2,
        };
        let mut heads = written(&train);
        assert_eq!(first_header(&heads), Some(header));
        assert_eq!(first_header(&heads[..23]), None);
        let mut frame = heads[DATA_FRAME_HEAD_LEN..].to_vec();
        frame.resize(DATA_FRAME_HEAD_LEN + 40, 0);
        let view = FrameView::open(KEY, &frame).expect("sealed");
        let record = view.records().next().map(|(record, body)| (record, body.len()));
        assert_eq!(
            record,
            Some((Record::Data { lane: Lane::Message, message: 3, offset: 105 }, 40))
        );
        heads[20] = 24;
        assert_eq!(first_header(&heads), None);
    }
}
