//! Payload that says who it is.
//!
//! Every simulated message is filled from its number: the first eight bytes hold the number and a check of it, the
//! rest is a hash of (number, position). A receiver thus knows which message it got, and a byte that came from
//! another message, or another place of the same one, is seen.

/// Bytes at the start that name the message.
pub const NAME_LEN: u64 = 8;

const SCATTER: u64 = 0x9E37_79B9_7F4A_7C15;
const MIX: u64 = 0xD6E8_FEB8_6659_FD93;

/// Word `index` of message `id`.
fn word(id: u32, index: u64) -> u64 {
    let start = u64::from(id).wrapping_mul(SCATTER);
    if index == 0 {
        return u64::from(id) | (start >> 32) << 32;
    }
    let mixed = (start ^ index).wrapping_mul(MIX);
    mixed ^ mixed >> 29
}

/// Writes the bytes of message `id` from `offset` into `out`.
pub fn fill(id: u32, offset: u64, out: &mut [u8]) {
    let skip = (offset % 8) as usize;
    let mut index = offset / 8;
    let mut rest = out;
    if skip != 0 {
        let take = rest.len().min(8 - skip);
        let (first, more) = rest.split_at_mut(take);
        first.copy_from_slice(&word(id, index).to_le_bytes()[skip..skip + take]);
        (rest, index) = (more, index + 1);
    }
    let mut words = rest.chunks_exact_mut(8);
    for chunk in &mut words {
        chunk.copy_from_slice(&word(id, index).to_le_bytes());
        index += 1;
    }
    let tail = words.into_remainder();
    let len = tail.len();
    tail.copy_from_slice(&word(id, index).to_le_bytes()[..len]);
}

/// Whether `bytes` are those of message `id` from `offset`; else the offset of the first wrong one.
pub fn verify(id: u32, offset: u64, bytes: &[u8]) -> Result<(), u64> {
    let mut expected = [0; 512];
    let mut at = offset;
    for chunk in bytes.chunks(expected.len()) {
        let expected = &mut expected[..chunk.len()];
        fill(id, at, expected);
        if let Some(wrong) =
            (chunk != expected).then(|| chunk.iter().zip(&*expected).position(|(a, b)| a != b))
        {
            return Err(at + wrong.expect("slices differ") as u64);
        }
        at += chunk.len() as u64;
    }
    Ok(())
}

/// The number of the message that starts with these bytes, if they name one.
pub fn named(bytes: &[u8]) -> Option<u32> {
    let first = u64::from_le_bytes(bytes.get(..8)?.try_into().expect("eight bytes"));
    let id = first as u32;
    (word(id, 0) == first).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_agree_with_the_whole() {
        let mut whole = [0; 100];
        fill(7, 0, &mut whole);
        for start in 0..40 {
            for len in 0..40 {
                let mut piece = vec![0; len];
                fill(7, start as u64, &mut piece);
                assert_eq!(piece, whole[start..start + len]);
                assert_eq!(verify(7, start as u64, &piece), Ok(()));
            }
        }
        assert_eq!(named(&whole), Some(7));
        assert_eq!(named(&whole[1..]), None);
    }

    #[test]
    fn a_wrong_byte_is_found_where_it_is() {
        let mut bytes = vec![0; 2000];
        fill(3, 16, &mut bytes);
        bytes[1234] ^= 1;
        assert_eq!(verify(3, 16, &bytes), Err(1250));
        assert_eq!(verify(4, 16, &bytes), Err(16));
    }
}
