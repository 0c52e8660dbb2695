//! Frames without payload that are given to a link in memory (PROTOCOL §7.10): where a large message lies, and that one is over.
//!
//! ```text
//!   Told   header │ (Ack without holes) │ first, tag, total (, immediate) │ whereabouts
//!   Done   header │ (Ack without holes) │ first, placed
//! ```
//!
//! As messages that are given they have packet number 0 and bear the pass. Read and written in a straight line, for each is waited for.

use super::Whereabouts;
use super::layout::{
    DONE_HEAD_LEN, DONE_OK, First, HEADER_LEN, Header, WHEREABOUTS_LEN, WORD_LEN, Word,
    ack_head_len, kind, number, rts_head_len, unpair,
};
use super::read::FrameView;
use super::record::{AckRepr, TOTAL_MAX};
use super::usual::is_known_with;
use crate::base::types::{Space, Tag};
use crate::seal::Pass;

/// Words of header and heads at most.
const WORD_COUNT_MAX: usize = (HEADER_LEN + ack_head_len(0) + rts_head_len(true)) / WORD_LEN;
/// Bytes of header and heads at most.
pub const NOTE_HEAD_LEN_MAX: usize = WORD_COUNT_MAX * WORD_LEN;
const _: () = assert!(DONE_HEAD_LEN <= rts_head_len(true));

/// What such a frame says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoteRepr {
    /// A large message is announced: its whereabouts follow.
    Told {
        /// Matching space.
        space: Space,
        /// Low half of the message number.
        message: u32,
        /// Match bits.
        tag: Tag,
        /// How long it is.
        total: u64,
        /// The immediate, if there is one.
        immediate: Option<u64>,
    },
    /// A message is over, and so many of its bytes were taken.
    Done {
        /// Low half of the message number.
        message: u32,
        /// Bytes that were taken.
        placed_len: u64,
    },
}

impl NoteRepr {
    /// Writes header and heads, sealed; how long they are. The body follows them.
    pub fn write(
        &self,
        out: &mut [u8; NOTE_HEAD_LEN_MAX],
        header: Header,
        ack: Option<&AckRepr>,
        pass: Pass,
    ) -> usize {
        let mut words = Words { out, count: 3 };
        if let Some(ack) = ack {
            ack.words().into_iter().for_each(|word| words.push(word));
        }
        match *self {
            Self::Told { space, message, tag, total, immediate } => {
                let with = u8::from(immediate.is_some()) * kind::WITH_IMMEDIATE;
                let len = WHEREABOUTS_LEN as u16;
                words.push(First::word(kind::TOLD | with, space.0, len, message));
                words.push(tag.0);
                words.push(total);
                immediate.into_iter().for_each(|word| words.push(word));
            }
            Self::Done { message, placed_len } => {
                words.push(First::word(kind::DONE, DONE_OK, 0, message));
                words.push(placed_len);
            }
        }
        let len = words.count * WORD_LEN;
        let [_, to, last] = header.words();
        words.count = 0;
        words.push(pass.0); // the mark of any frame
        words.push(to);
        words.push(last | ((len - HEADER_LEN) as u64) << 32);
        len
    }
}

/// Words one behind the other.
struct Words<'a> {
    out: &'a mut [u8; NOTE_HEAD_LEN_MAX],
    count: usize,
}

impl Words<'_> {
    #[inline(always)]
    fn push(&mut self, word: u64) {
        let (places, _) = self.out.as_chunks_mut::<WORD_LEN>();
        if let Some(place) = places.get_mut(self.count) {
            *place = word.to_le_bytes();
        }
        self.count += 1;
    }
}

/// A frame that has the shape of one of these, for those who know us. Its mark is yet to be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoteView<'a> {
    words: &'a [Word],
    body: &'a [u8],
    /// Where its record begins.
    at: usize,
}

impl<'a> NoteView<'a> {
    /// The frame, if it has that shape and no number. If not it may be valid all the same.
    #[inline]
    pub fn read(bytes: &'a [u8]) -> Option<Self> {
        let (words, _) = bytes.as_chunks::<WORD_LEN>();
        let last = number(words.get(2)?);
        let heads_len = (last >> 32) as u16;
        let head_len = HEADER_LEN + usize::from(heads_len);
        if !is_known_with(last, heads_len.into()) || last as u32 != 0 {
            return None;
        }
        let (words, body) = (words.get(..head_len / WORD_LEN)?, bytes.get(head_len..)?);
        let at = match First::read(*words.get(3)?) {
            ack if ack.kind() != kind::ACK => 3,
            ack if ack.b() as u8 == 0 && unpair(number(words.get(4)?)).0 > 0 => 6,
            _ => return None,
        };
        let first = First::read(*words.get(at)?);
        let (record_len, body_len) = match first.kind() {
            kind::TOLD => (rts_head_len(false), WHEREABOUTS_LEN),
            TOLD_WITH_IMMEDIATE => (rts_head_len(true), WHEREABOUTS_LEN),
            kind::DONE if first.a() == DONE_OK => (DONE_HEAD_LEN, 0),
            _ => return None,
        };
        let is_whole = head_len == at * WORD_LEN + record_len
            && head_len.is_multiple_of(WORD_LEN)
            && body.len() == body_len
            && usize::from(first.b()) == body_len;
        is_whole.then_some(Self { words, body, at })
    }

    /// Whether it bears this pass.
    #[inline(always)]
    pub fn is_passed(&self, pass: Pass) -> bool {
        number(&self.words[0]) == pass.0
    }

    /// Its header.
    #[inline(always)]
    pub fn header(&self) -> Header {
        Header::read(number(&self.words[1]), number(&self.words[2]), 0)
    }

    /// Whether an Ack is on board.
    #[inline(always)]
    pub fn has_ack(&self) -> bool {
        self.at > 3
    }

    /// What it says. To be believed after `is_passed` only.
    #[inline]
    pub fn note(&self) -> NoteRepr {
        let word = |index: usize| number(&self.words[self.at + index]);
        let first = First::read(self.words[self.at]);
        let message = first.c();
        match first.kind() {
            kind::DONE => NoteRepr::Done { message, placed_len: word(1) },
            told => NoteRepr::Told {
                space: Space(first.a()),
                message,
                tag: Tag(word(1)),
                total: word(2) & TOTAL_MAX,
                immediate: (told & kind::WITH_IMMEDIATE != 0).then(|| word(3)),
            },
        }
    }

    /// Where an announced message is.
    #[inline(always)]
    pub fn whereabouts(&self) -> Option<Whereabouts> {
        self.body.try_into().ok()
    }

    /// The frame among others.
    pub fn view(&self) -> FrameView<'a> {
        FrameView { header: self.header(), heads: &self.words[3..], body: self.body }
    }
}

const TOLD_WITH_IMMEDIATE: u8 = kind::TOLD | kind::WITH_IMMEDIATE;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Record;

    const PASS: Pass = Pass(0x1234_5678_9ABC_DEF0);

    fn notes() -> [NoteRepr; 3] {
        let (space, message, tag) = (Space(3), 0xFFFF_FFF0, Tag(0xABCD));
        let told = |immediate| NoteRepr::Told { space, message, tag, total: 1 << 40, immediate };
        [told(None), told(Some(77)), NoteRepr::Done { message: 9, placed_len: 123_456_789_012 }]
    }

    fn body_len(note: &NoteRepr) -> usize {
        if matches!(note, NoteRepr::Told { .. }) { WHEREABOUTS_LEN } else { 0 }
    }

    fn frame(note: &NoteRepr, ack: Option<&AckRepr>) -> alloc::vec::Vec<u8> {
        let header = Header { to: 0x0100_0002, packet: 0, path: 1, form: 1 };
        let mut head = [0xEE; NOTE_HEAD_LEN_MAX];
        let len = note.write(&mut head, header, ack, PASS);
        [&head[..len], &[7; WHEREABOUTS_LEN][..body_len(note)]].concat()
    }

    fn acks() -> [Option<AckRepr>; 2] {
        let ack = AckRepr { path: 1, largest: 40, first_len: 5, delay_ns: 3000, credit_len: 4096 };
        [None, Some(ack)]
    }

    #[test]
    fn what_is_written_is_read_and_the_general_rules_read_the_same() {
        for (note, ack) in notes().iter().flat_map(|note| acks().map(|ack| (note, ack))) {
            let bytes = frame(note, ack.as_ref());
            let view = NoteView::read(&bytes).unwrap();
            assert!(view.is_passed(PASS) && !view.is_passed(Pass(1)));
            assert_eq!((view.note(), view.has_ack()), (*note, ack.is_some()));
            assert_eq!(view.whereabouts().is_some(), body_len(note) > 0);
            let general = view.view();
            general.validate().unwrap();
            let mut records = general.records();
            if let Some(ack) = &ack {
                let Some((Record::Ack(read), _)) = records.next() else { panic!("an Ack") };
                assert_eq!(read.repr, *ack);
            }
            let (record, body) = records.next().unwrap();
            assert_eq!(body.len(), body_len(note));
            match (*note, record) {
                (
                    NoteRepr::Told { space, message, tag, total, immediate },
                    Record::Message(head),
                ) => {
                    let read = (head.space, head.message, head.tag, head.total, head.immediate);
                    assert_eq!(read, (space, message, tag, total, immediate));
                }
                (NoteRepr::Done { message, placed_len }, record) => {
                    assert_eq!(record, Record::Done { message, status: DONE_OK, placed_len });
                }
                other => panic!("{other:?}"),
            }
            assert!(records.next().is_none());
        }
    }

    #[test]
    fn what_is_cut_longer_or_numbered_is_no_note() {
        for (note, ack) in notes().iter().flat_map(|note| acks().map(|ack| (note, ack))) {
            let bytes = frame(note, ack.as_ref());
            for len in 0..bytes.len() {
                assert_eq!(NoteView::read(&bytes[..len]), None, "{len} bytes of {note:?}");
            }
            assert_eq!(NoteView::read(&[&bytes[..], &[0]].concat()), None, "longer");
            let mut numbered = bytes.clone();
            numbered[16] = 1;
            assert_eq!(NoteView::read(&numbered), None);
        }
    }
}
