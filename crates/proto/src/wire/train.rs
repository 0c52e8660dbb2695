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

use super::{DATA_HEAD_LEN, First, HEADER_LEN, Header, WORD_LEN, kind, number};
use crate::siphash::siphash13_four_then;
use crate::types::Secret;

/// Bytes of header and head of a frame with one Data record and no Check.
pub const DATA_FRAME_HEAD_LEN: usize = HEADER_LEN + DATA_HEAD_LEN;

/// A train, but for its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrainRepr {
    /// Header of the first frame.
    pub header: Header,
    /// Whose bytes it carries.
    pub message: u32,
    /// Where the first frame's bytes start in the message.
    pub offset: u64,
    /// Bytes in each frame but the last.
    pub payload_len: u16,
    /// Bytes in the last.
    pub last_len: u16,
    /// Frames.
    pub count: usize,
}

impl TrainRepr {
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

    fn len_at(&self, at: usize) -> u16 {
        if at + 1 == self.count { self.last_len } else { self.payload_len }
    }

    /// The words of a frame, its check among them.
    fn words(&self, at: usize, secret: Secret) -> [u64; 5] {
        let packet = self.header.packet.wrapping_add(at as u32);
        let [_, to, last] = Header { packet, ..self.header }.words();
        let last = last | (DATA_HEAD_LEN as u64) << 32;
        let len = self.len_at(at);
        let first = First::word(kind::DATA, 0, len, self.message);
        let offset = self.offset.wrapping_add(at as u64 * u64::from(self.payload_len));
        let frame_len = DATA_FRAME_HEAD_LEN as u64 + u64::from(len);
        let check = siphash13_four_then(secret, [to, last, first, offset], frame_len);
        [check, to, last, first, offset]
    }
}

/// Writes and seals the heads of a train, one behind the other; what was in `out` is forgotten.
pub fn write_train(out: &mut Vec<u8>, train: &TrainRepr, secret: Secret) {
    out.clear();
    out.reserve(train.count * DATA_FRAME_HEAD_LEN);
    for at in 0..train.count {
        out.extend_from_slice(train.words(at, secret).map(u64::to_le_bytes).as_flattened());
    }
}

/// The header of the first of these heads, not verified. `None` if it is cut short, or has not the length of a Data's.
pub fn first_header(heads: &[u8]) -> Option<Header> {
    let (words, _) = heads.first_chunk::<HEADER_LEN>()?.as_chunks::<WORD_LEN>();
    let last = number(&words[2]);
    (last >> 32 & 0xFFFF == DATA_HEAD_LEN as u64).then(|| Header::read(number(&words[1]), last))
}

/// How many of these heads, from the first on, are those of the train, rightly keyed.
pub fn agreeing_count(heads: &[u8], train: &TrainRepr, secret: Secret) -> usize {
    let (heads, _) = heads.as_chunks::<DATA_FRAME_HEAD_LEN>();
    let is_right = |(at, head): &(usize, &[u8; DATA_FRAME_HEAD_LEN])| {
        train.words(*at, secret).map(u64::to_le_bytes).as_flattened() == *head
    };
    heads.iter().enumerate().take(train.count).take_while(is_right).count()
}
