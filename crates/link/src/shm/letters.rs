//! What is written on the socket and in the rings, beside frames.
//!
//! ```text
//!   letters   knock  0  'K'
//!             offer  0  'O'   1  version   2  zeros   8  ring length u64   16  address u64: where the ring's proof lies in the offerer's memory
//!                    with the descriptor of the ring's memory; the sender is who the system says it is (PROTOCOL §14.1)
//!   records   mark 1: a frame
//!             mark 2: a train whose payload is in its sender's memory
//!                     0  frames u32   4  head length u32   8  payload length u32   12  the last one's u32
//!                    16  ranges u32   20  zero u32   24  ranges: address u64, length u64   …  heads
//! ```

use crate::burst::Train;

/// Wakes who sleeps.
pub(super) const KNOCK: [u8; 1] = [b'K'];
const OFFER_MARK: u8 = b'O';
/// Which form of rings and records this is. Others are not understood.
const VERSION: u8 = 9;
pub(super) const OFFER_LEN: usize = 24;

/// The record is a frame.
pub(super) const MARK_FRAME: u8 = 1;
/// The record is a train.
pub(super) const MARK_TRAIN: u8 = 2;

/// Ranges of memory that a train's payload may lie in. Other trains go as frames.
pub(super) const RANGE_COUNT_MAX: usize = 16;
/// Frames of a train.
pub(super) const TRAIN_COUNT_MAX: usize = 64;
/// Bytes of a train: the most that is read from another process at once, which bounds a turn to some fifty microseconds. A
/// message of a megabyte goes in two.
pub(super) const TRAIN_LEN_MAX: usize = 576 << 10;
/// Bytes of a frame before its payload, at most. Ours are half of it.
const HEAD_LEN_MAX: usize = 128;
const TRAIN_HEAD_LEN: usize = 24;
/// The longest record of a train.
pub(super) const TRAIN_RECORD_LEN_MAX: usize =
    TRAIN_HEAD_LEN + 16 * RANGE_COUNT_MAX + TRAIN_COUNT_MAX * HEAD_LEN_MAX;

/// Memory that is offered to be shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Offer {
    pub(super) ring_len: usize,
    /// Where the ring's proof lies in the memory of who offers.
    pub(super) proof_at: u64,
}

impl Offer {
    pub(super) fn to_bytes(self) -> [u8; OFFER_LEN] {
        let mut bytes = [0; OFFER_LEN];
        bytes[..2].copy_from_slice(&[OFFER_MARK, VERSION]);
        bytes[8..16].copy_from_slice(&(self.ring_len as u64).to_le_bytes());
        bytes[16..].copy_from_slice(&self.proof_at.to_le_bytes());
        bytes
    }

    /// `None` if it is no offer, or of another version.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; OFFER_LEN] = bytes.try_into().ok()?;
        if bytes[..8] != [OFFER_MARK, VERSION, 0, 0, 0, 0, 0, 0] {
            return None;
        }
        let (len, rest) = bytes[8..].split_first_chunk()?;
        let proof_at = u64::from_le_bytes(rest.try_into().ok()?);
        Some(Self { ring_len: usize::try_from(u64::from_le_bytes(*len)).ok()?, proof_at })
    }
}

/// A train as its record tells of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct TrainRecord<'a> {
    pub(super) count: usize,
    pub(super) head_len: usize,
    pub(super) payload_len: usize,
    pub(super) last_len: usize,
    /// Bytes of payload in all.
    pub(super) len: usize,
    ranges: &'a [u8],
    pub(super) heads: &'a [u8],
}

/// The bytes of a train's record before its ranges.
pub(super) fn train_head(train: &Train, range_count: usize) -> [u8; TRAIN_HEAD_LEN] {
    let mut bytes = [0; TRAIN_HEAD_LEN];
    let words =
        [train.count, train.head_len, train.payload_len, train.last_len, range_count as u32, 0];
    for (to, word) in bytes.chunks_exact_mut(4).zip(words) {
        to.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

/// Length of the whole record.
pub(super) fn train_record_len(train: &Train, range_count: usize) -> usize {
    TRAIN_HEAD_LEN + 16 * range_count + train.count as usize * train.head_len as usize
}

impl<'a> TrainRecord<'a> {
    /// Everything is checked: lengths agree with each other and with what was received. `None` if they do not.
    pub(super) fn from_bytes(bytes: &'a [u8]) -> Option<Self> {
        let (head, rest) = bytes.split_first_chunk::<TRAIN_HEAD_LEN>()?;
        let word = |index: usize| {
            let bytes = head[4 * index..].first_chunk().expect("inside the head");
            u32::from_le_bytes(*bytes) as usize
        };
        let [count, head_len, payload_len, last_len, range_count, zero] = std::array::from_fn(word);
        let is_sensible = (1..=TRAIN_COUNT_MAX).contains(&count)
            && (1..=HEAD_LEN_MAX).contains(&head_len)
            && (1..=TRAIN_LEN_MAX).contains(&payload_len)
            && (1..=payload_len).contains(&last_len)
            && (1..=RANGE_COUNT_MAX).contains(&range_count)
            && zero == 0;
        if !is_sensible {
            return None;
        }
        let len = (count - 1) * payload_len + last_len;
        let (ranges, heads) = rest.split_at_checked(16 * range_count)?;
        let train = Self { count, head_len, payload_len, last_len, len, ranges, heads };
        let mut left = len as u64;
        for (_, range_len) in train.ranges() {
            left = left.checked_sub(range_len)?;
        }
        let is_whole = left == 0 && len <= TRAIN_LEN_MAX && heads.len() == count * head_len;
        is_whole.then_some(train)
    }

    /// Address and length of each range.
    pub(super) fn ranges(&self) -> impl Iterator<Item = (u64, u64)> + use<'a> {
        self.ranges.chunks_exact(16).map(|range| {
            let word = |at: usize| {
                u64::from_le_bytes(*range[at..].first_chunk().expect("eight of sixteen bytes"))
            };
            (word(0), word(8))
        })
    }
}

/// Whether a train can be sent by telling where it is.
pub(super) fn is_tellable(train: &Train) -> bool {
    (train.count as usize) <= TRAIN_COUNT_MAX
        && (train.head_len as usize) <= HEAD_LEN_MAX
        && train.payload_of(train.count as usize) <= TRAIN_LEN_MAX as u64
        && train.last_len > 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mem::MemoryId;

    #[test]
    fn offers_come_back_and_others_are_refused() {
        let offer = Offer { ring_len: 65_536, proof_at: 0x7fff_0000_1234 };
        let bytes = offer.to_bytes();
        assert_eq!(Offer::from_bytes(&bytes), Some(offer));
        assert_eq!(Offer::from_bytes(&bytes[..OFFER_LEN - 1]), None);
        assert_eq!(Offer::from_bytes(&KNOCK), None);
        for at in 0..8 {
            let mut other = bytes;
            other[at] ^= 4;
            assert_eq!(Offer::from_bytes(&other), None, "byte {at}");
        }
    }

    fn record(train: &Train, ranges: &[(u64, u64)], heads_len: usize) -> Vec<u8> {
        let mut bytes = train_head(train, ranges.len()).to_vec();
        for (at, len) in ranges {
            bytes.extend_from_slice(&at.to_le_bytes());
            bytes.extend_from_slice(&len.to_le_bytes());
        }
        bytes.resize(bytes.len() + heads_len, 5);
        bytes
    }

    #[test]
    fn a_train_must_add_up() {
        let train = Train {
            count: 3,
            head_len: 40,
            payload_len: 1000,
            last_len: 10,
            id: MemoryId(0),
            offset: 0,
        };
        let good = record(&train, &[(1 << 40, 2000), (1 << 41, 10)], 120);
        assert_eq!(good.len(), train_record_len(&train, 2));
        let seen = TrainRecord::from_bytes(&good).expect("a good one");
        assert_eq!((seen.count, seen.len, seen.heads.len()), (3, 2010, 120));
        assert!(seen.ranges().eq([(1 << 40, 2000), (1 << 41, 10)]));
        let is_bad = |bytes: &[u8]| TrainRecord::from_bytes(bytes).is_none();
        assert!(is_bad(&good[..good.len() - 1]) && is_bad(&good[..30]) && is_bad(&[]));
        assert!(is_bad(&record(&train, &[(0, 2009)], 120)), "less than the payload");
        assert!(
            is_bad(&record(&train, &[(0, u64::MAX), (0, 2011)], 120)),
            "around the end of numbers"
        );
        assert!(is_bad(&record(&train, &[], 120)));
        for word in 0..6 {
            for value in [0_u32, 65, 70_000, u32::MAX] {
                let mut bytes = good.clone();
                bytes[4 * word..4 * word + 4].copy_from_slice(&value.to_le_bytes());
                assert!(is_bad(&bytes) || (word, value) == (5, 0), "word {word} {value}");
            }
        }
    }
}
