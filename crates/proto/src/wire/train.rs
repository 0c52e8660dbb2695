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
use crate::seal::{Seal, place_in_train};

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

    /// The words of the frames but for their checks. All are as long as the first here, the last is not special.
    fn heads(&self) -> Heads<4> {
        let [_, to, last] = self.header.words();
        let last = last | (DATA_HEAD_LEN as u64) << 32;
        let first = First::word(kind::DATA, self.lane as u8, self.payload_len, self.message);
        Heads {
            words: [to, last, first, self.offset],
            payload_len: self.payload_len,
            base: base_of(self.header.packet),
        }
    }

    /// The last frame as a train of its own, if it is shorter than the others.
    fn short_last(&self) -> Option<Self> {
        let at = self.count.checked_sub(1).filter(|_| self.last_len < self.payload_len)?;
        let [_, _, _, offset] = self.heads().behind(at);
        let header = Header { packet: self.header.packet + at as u64, ..self.header };
        let payload_len = self.last_len;
        Some(Self { header, offset, payload_len, count: 1, ..*self })
    }
}

/// The words of frames that follow each other, but for their checks: those of the first, `to` at the front. From one frame to the
/// next two of them grow: the packet number in the low half of the second, and the one that says where the bytes belong.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heads<const N: usize> {
    pub(super) words: [u64; N],
    /// Bytes in each frame: by so much that word grows.
    pub(super) payload_len: u16,
    /// The high half of the packet numbers.
    pub(super) base: u64,
}

impl<const N: usize> Heads<N> {
    /// Bytes of a frame before its payload.
    pub(super) const LEN: usize = WORD_LEN * (N + 1);
    /// Which word says where the bytes belong.
    const PLACE: usize = place_in_train(N);

    /// The words of the frame `at` behind the first.
    #[inline(always)]
    pub(super) fn behind(&self, at: usize) -> [u64; N] {
        let mut words = self.words;
        let packet = (words[1] as u32).wrapping_add(at as u32);
        words[1] = words[1] & !u64::from(u32::MAX) | u64::from(packet);
        words[Self::PLACE] =
            words[Self::PLACE].wrapping_add(at as u64 * u64::from(self.payload_len));
        words
    }

    /// The marks of frames from `at` on.
    #[inline(always)]
    fn marks(&self, at: usize, seal: &impl Seal, marks: &mut [u64]) {
        let frame_len = Self::LEN as u64 + u64::from(self.payload_len);
        let tail = check_tail(frame_len, self.base);
        seal.marks(&self.behind(at), self.payload_len.into(), tail, marks);
    }

    /// Writes and seals heads, one behind the other.
    pub(super) fn write(&self, out: &mut [u8], seal: &impl Seal) {
        let mut sums = [0; BLOCK];
        for (block, heads) in out.chunks_mut(BLOCK * Self::LEN).enumerate() {
            let start = block * BLOCK;
            let sums = &mut sums[..heads.len() / Self::LEN];
            self.marks(start, seal, sums);
            for (at, (head, check)) in heads.chunks_exact_mut(Self::LEN).zip(sums).enumerate() {
                let (slots, _) = head.as_chunks_mut::<WORD_LEN>();
                let [slot, rest @ ..] = slots else { return };
                *slot = check.to_le_bytes();
                // A number of words that is known when this is compiled: no loop.
                if let Some(rest) = rest.first_chunk_mut::<N>() {
                    *rest = self.behind(start + at).map(u64::to_le_bytes);
                }
            }
        }
    }

    /// How many of the frames that begin every `stride` bytes, `count` at most, have these heads, rightly keyed.
    pub(super) fn agreeing(
        &self,
        frames: &[u8],
        stride: usize,
        count: usize,
        seal: &impl Seal,
    ) -> usize {
        let mut sums = [0; BLOCK];
        for start in (0..count).step_by(BLOCK) {
            let sums = &mut sums[..BLOCK.min(count - start)];
            self.marks(start, seal, sums);
            for (at, check) in (start..).zip(sums) {
                let Some(head) = frames.get(at * stride..at * stride + Self::LEN) else {
                    return at;
                };
                let (words, _) = head.as_chunks::<WORD_LEN>();
                let [first, rest @ ..] = words else { return at };
                let Some(rest) = rest.first_chunk::<N>() else { return at };
                let expected = self.behind(at);
                let differs = (0..N)
                    .fold(number(first) ^ *check, |sum, n| sum | number(&rest[n]) ^ expected[n]);
                if differs != 0 {
                    return at;
                }
            }
        }
        count
    }
}

/// Frames whose checks are computed at once: what a train of UDP can hold.
const BLOCK: usize = 64;

/// Writes and seals the heads of a train, one behind the other; what was in `out` is forgotten.
pub fn write_train(out: &mut Vec<u8>, train: &TrainRepr, seal: &impl Seal) {
    out.resize(train.count * DATA_FRAME_HEAD_LEN, 0);
    train.heads().write(out, seal);
    if let Some(last) = train.short_last() {
        let at = out.len() - DATA_FRAME_HEAD_LEN;
        last.heads().write(&mut out[at..], seal);
    }
}

/// The header of the first of these heads, not verified, with the low half of its packet number. `None` if it is cut short, or has not the length of a Data's.
pub fn first_header(heads: &[u8]) -> Option<Header> {
    let (words, _) = heads.first_chunk::<HEADER_LEN>()?.as_chunks::<WORD_LEN>();
    let last = number(&words[2]);
    (last >> 32 & 0xFFFF == DATA_HEAD_LEN as u64).then(|| Header::read(number(&words[1]), last, 0))
}

/// How many of these heads, from the first on, are those of the train, rightly keyed.
pub fn agreeing_count(heads: &[u8], train: &TrainRepr, seal: &impl Seal) -> usize {
    let present = train.count.min(heads.len() / DATA_FRAME_HEAD_LEN);
    let last = train.short_last().filter(|_| present == train.count);
    let full_count = present - usize::from(last.is_some());
    let count = train.heads().agreeing(heads, DATA_FRAME_HEAD_LEN, full_count, seal);
    match last {
        Some(last) if count == full_count => {
            let heads = &heads[count * DATA_FRAME_HEAD_LEN..];
            count + last.heads().agreeing(heads, DATA_FRAME_HEAD_LEN, 1, seal)
        }
        _ => count,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::secret::Secret;
    use crate::wire::{FrameView, Record, Writer, seal_high};
    use alloc::vec;
    use proptest::prelude::*;

    const KEY: Secret = Secret([0x1234_5678_9ABC_DEF0, 77]);

    fn written(train: &TrainRepr) -> Vec<u8> {
        let mut heads = vec![9; 100];
        write_train(&mut heads, train, &KEY);
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
                seal_high(&mut single, len.into(), base_of(packet), &KEY, None);
                prop_assert_eq!(head, &single[..], "frame {}", at);
                at_offset += u64::from(len);
            }
            prop_assert_eq!(train.len_of(count), at_offset - offset);
            let count_of = |heads: &[u8], train: &TrainRepr| {
                agreeing_count(heads, train, &KEY)
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
