//! The beginning of a frame, as the network quotes it when it could not deliver one.
//!
//! How much of it comes back is up to whoever quotes: the first 8 bytes behind the IP header (nothing of ours), or up to some
//! five hundred. Header and heads are enough to tell whether the frame was ours: bodies are not checked, and how long they were
//! stands in the heads.

use super::contact::HelloView;
use super::layout::{First, HEADER_LEN, Header, WORD_LEN, Word, check_tail, kind, number};
use super::read::{Records, lens_of};
use super::record::Record;
use crate::seal::Seal;

/// Header and heads of a frame that was sent. Its check is yet to be verified.
#[derive(Clone, Copy, Debug)]
pub struct QuoteView<'a> {
    /// What the header says, with the low half of the packet number.
    pub header: Header,
    check: u64,
    words: [u64; 2],
    heads: &'a [Word],
    frame_len: u64,
}

impl<'a> QuoteView<'a> {
    /// The frame, if header and heads are quoted whole.
    pub fn read(bytes: &'a [u8]) -> Option<Self> {
        let (header, rest) = bytes.split_first_chunk::<HEADER_LEN>()?;
        let (header, _) = header.as_chunks::<WORD_LEN>();
        let [check, to, last] = [0, 1, 2].map(|at| number(&header[at]));
        let heads_len = usize::from((last >> 32) as u16);
        let (heads, []) = rest.split_at_checked(heads_len)?.0.as_chunks() else { return None };
        let frame_len = (HEADER_LEN + heads_len + bodies_len(heads)?) as u64;
        let header = Header::read(to, last, 0);
        Some(Self { header, check, words: [to, last], heads, frame_len })
    }

    /// Verifies the keyed check (PROTOCOL §1.2) of a packet whose number is `base` but for its low half.
    pub fn is_sealed(&self, seal: &impl Seal, base: u64) -> bool {
        let tail = check_tail(self.frame_len, base);
        seal.mark_of(self.words, self.heads, tail) == self.check
    }

    /// The Hello it begins with.
    pub fn hello(&self) -> Option<HelloView<'a>> {
        let is_check = |word: &Word| First::read(*word).kind() == kind::CHECK;
        let heads = &self.heads[usize::from(self.heads.first().is_some_and(is_check))..];
        match Records::of_heads(heads).next() {
            Some((Record::Hello(hello), _)) => Some(hello),
            _ => None,
        }
    }
}

/// Bytes of all bodies, as the heads state them.
fn bodies_len(mut heads: &[Word]) -> Option<usize> {
    let mut len = 0;
    while let Some(first) = heads.first() {
        let (word_count, body_len) = lens_of(First::read(*first))?;
        heads = heads.split_at_checked(word_count).filter(|_| word_count > 0)?.1;
        len += body_len;
    }
    Some(len)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::secret::Secret;
    use crate::base::types::{Space, Tag};
    use crate::wire::{EagerRepr, Writer, base_of, seal_high};
    use alloc::vec::Vec;

    const KEY: Secret = Secret([3, 4]);

    #[test]
    fn frame_is_known_by_header_and_heads_alone() {
        for packet in [7, (5 << 32) + 7] {
            let mut frame = Vec::new();
            let header = Header { to: 9, packet, path: 2, form: 1 };
            let mut writer = Writer::begin(&mut frame, header);
            for len in [8, 0, 300] {
                let (space, tag) = (Space(1), Tag(5));
                writer.eager(EagerRepr { space, message: 1, tag, wants_match: false, len }, None);
            }
            let head_len = frame.len();
            seal_high(&mut frame, 308, base_of(packet), &KEY, None);
            frame.resize(head_len + 308, 0xAA);
            for len in 0..frame.len() {
                let quote = QuoteView::read(&frame[..len]);
                assert_eq!(quote.is_some(), len >= head_len, "{len} bytes are quoted");
                let Some(quote) = quote else { continue };
                assert_eq!((quote.header.to, quote.header.packet, quote.header.path), (9, 7, 2));
                assert!(quote.is_sealed(&KEY, base_of(packet)) && quote.hello().is_none());
                assert!(!quote.is_sealed(&Secret::PUBLIC, base_of(packet)));
                assert!(!quote.is_sealed(&KEY, base_of(packet) + (1 << 32)));
            }
            for bit in 0..8 * head_len {
                let mut bad = frame[..head_len].to_vec();
                bad[bit / 8] ^= 1 << (bit % 8);
                let is_sealed =
                    QuoteView::read(&bad).is_some_and(|it| it.is_sealed(&KEY, base_of(packet)));
                assert!(!is_sealed, "bit {bit}");
            }
        }
    }

    #[test]
    fn nonsense_is_no_quote_and_ends() {
        for kind in 0..=255_u8 {
            let mut bytes = [0_u8; HEADER_LEN + 16];
            bytes[20] = 16;
            bytes[HEADER_LEN] = kind;
            let _ = QuoteView::read(&bytes)
                .map(|quote| (quote.is_sealed(&KEY, 0), quote.hello().is_some()));
        }
        assert!(QuoteView::read(&[0xFF; 600]).is_none());
    }
}
