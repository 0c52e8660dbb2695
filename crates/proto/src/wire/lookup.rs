//! Look-ups: a question and its answer, one frame of one length each (PROTOCOL §3.17, §3.18).
//!
//! ```text
//!            0         24             32          48              56        80                 120             152
//!   Find     │ header │ kind, number │ nonce[16] │ greeting[32]  ┄┄┄┄┄┄┄┄┄┄│ zeros                             │
//!   Named    │ header │ kind, code … │ nonce[16] │ salt          │ address[64]              ┄┄┄│ greeting[32]  │
//! ```
//!
//! They are frames as all others, header and check included, but read apart from them: they pass between an asker and a door
//! and never come to an endpoint, so the parser of its frames need not know them. A view is bytes of the right shape; whether it
//! is rightly keyed must be asked, for a door answers questions that are not.

use super::layout::{
    FORM_STRANGER, First, HEADER_LEN, Header, VERSION, WORD_LEN, Word, kind, number,
};
use super::read::FrameView;
use super::write::seal;
use crate::base::secret::Secret;
use crate::base::siphash::{mask, siphash13_words};
use crate::base::types::{ADDRESS_LEN, Address};

/// Bytes of a question and of an answer.
pub const LOOKUP_LEN: usize = 152;
/// Bytes of the application's in each of them.
pub const GREETING_LEN: usize = 32;

const NONCE_AT: usize = 32;
const FIND_GREETING_AT: usize = 48;
const SALT_AT: usize = 48;
const ADDRESS_AT: usize = 56;
const GREETING_AT: usize = ADDRESS_AT + ADDRESS_LEN;
const _: () = assert!(GREETING_AT + GREETING_LEN == LOOKUP_LEN);

/// What keystreams are for, so that none serves twice.
const QUESTION: u64 = 1;
const ANSWER: u64 = 2;

/// A question or an answer as bytes.
pub type LookupFrame = [u8; LOOKUP_LEN];

/// A question: who has this number?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FindRepr {
    /// Versions the asker speaks: min nibble << 4 | max nibble.
    pub versions: u8,
    /// The number.
    pub number: u16,
    /// Never the same twice: it binds the answer, and masks the greeting.
    pub nonce: [u64; 2],
    /// The application's.
    pub greeting: [u8; GREETING_LEN],
}

/// A question as received. Not verified.
#[derive(Clone, Copy, Debug)]
pub struct FindView<'a>(&'a LookupFrame);

/// An answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedRepr {
    /// Found, or why not (PROTOCOL §3.17).
    pub code: u8,
    /// The number that was asked for.
    pub number: u16,
    /// Versions that are spoken there.
    pub versions: u8,
    /// Of the question.
    pub nonce: [u64; 2],
    /// Never the same twice with the same nonce: it masks what follows.
    pub salt: u64,
    /// The address, if it was found.
    pub address: Option<Address>,
    /// The application's.
    pub greeting: [u8; GREETING_LEN],
}

/// An answer as received. Not verified.
#[derive(Clone, Copy, Debug)]
pub struct NamedView<'a>(&'a LookupFrame);

impl FindRepr {
    /// The frame, sealed and masked under this key.
    pub fn write(&self, key: Secret) -> LookupFrame {
        let first = First::word(kind::FIND, self.versions, self.number, 0);
        let mut frame = begin(first, self.nonce);
        let greeting = &mut frame[FIND_GREETING_AT..][..GREETING_LEN];
        greeting.copy_from_slice(&self.greeting);
        mask(stream_key(key, QUESTION, self.nonce, 0), 0, greeting);
        seal(&mut frame, 0, key, None);
        frame
    }
}

impl<'a> FindView<'a> {
    /// These bytes, if they have the shape of a question.
    pub fn read(bytes: &'a [u8]) -> Option<Self> {
        read(bytes, kind::FIND).map(Self)
    }

    /// Whether it was sealed under this key.
    pub fn is_keyed(&self, key: Secret) -> bool {
        FrameView::open(key, self.0).is_ok()
    }

    /// Versions the asker speaks: min nibble << 4 | max nibble.
    pub fn versions(&self) -> u8 {
        first(self.0).a()
    }

    /// The number.
    pub fn number(&self) -> u16 {
        first(self.0).b()
    }

    /// The nonce.
    pub fn nonce(&self) -> [u64; 2] {
        nonce(self.0)
    }

    /// What the asking application says; `key` is the one it was sealed under.
    pub fn greeting(&self, key: Secret) -> [u8; GREETING_LEN] {
        let mut greeting = [0; GREETING_LEN];
        greeting.copy_from_slice(&self.0[FIND_GREETING_AT..][..GREETING_LEN]);
        mask(stream_key(key, QUESTION, self.nonce(), 0), 0, &mut greeting);
        greeting
    }
}

impl NamedRepr {
    /// The frame, sealed and masked under this key.
    pub fn write(&self, key: Secret) -> LookupFrame {
        let first = First::word(kind::NAMED, self.code, self.number, self.versions.into());
        let mut frame = begin(first, self.nonce);
        frame[SALT_AT..][..WORD_LEN].copy_from_slice(&self.salt.to_le_bytes());
        if let Some(address) = &self.address {
            frame[ADDRESS_AT..][..ADDRESS_LEN].copy_from_slice(&address.encode());
        }
        frame[GREETING_AT..].copy_from_slice(&self.greeting);
        mask(stream_key(key, ANSWER, self.nonce, self.salt), 0, &mut frame[ADDRESS_AT..]);
        seal(&mut frame, 0, key, None);
        frame
    }
}

impl<'a> NamedView<'a> {
    /// These bytes, if they have the shape of an answer.
    pub fn read(bytes: &'a [u8]) -> Option<Self> {
        read(bytes, kind::NAMED).map(Self)
    }

    /// Whether it was sealed under this key.
    pub fn is_keyed(&self, key: Secret) -> bool {
        FrameView::open(key, self.0).is_ok()
    }

    /// Found, or why not.
    pub fn code(&self) -> u8 {
        first(self.0).a()
    }

    /// The number that was asked for.
    pub fn number(&self) -> u16 {
        first(self.0).b()
    }

    /// Versions that are spoken there: min nibble << 4 | max nibble.
    pub fn versions(&self) -> u8 {
        first(self.0).c() as u8
    }

    /// That of its question.
    pub fn nonce(&self) -> [u64; 2] {
        nonce(self.0)
    }

    /// Drawn for this answer.
    pub fn salt(&self) -> u64 {
        word(self.0, SALT_AT)
    }

    /// The address, if there is one, and what the answering application says; `key` is the one it was sealed under.
    pub fn content(&self, key: Secret) -> (Option<Address>, [u8; GREETING_LEN]) {
        let mut clear = [0; LOOKUP_LEN - ADDRESS_AT];
        clear.copy_from_slice(&self.0[ADDRESS_AT..]);
        mask(stream_key(key, ANSWER, self.nonce(), self.salt()), 0, &mut clear);
        let mut greeting = [0; GREETING_LEN];
        greeting.copy_from_slice(&clear[ADDRESS_LEN..]);
        let address = clear.first_chunk().and_then(|bytes| Address::decode(bytes).ok());
        (address, greeting)
    }
}

/// Header, first word and nonce; zeros behind.
fn begin(first: u64, nonce: [u64; 2]) -> LookupFrame {
    let header = Header { to: 0, packet: 0, path: 0, form: FORM_STRANGER | VERSION };
    let [check, to, last] = header.words();
    let mut frame = [0; LOOKUP_LEN];
    let words = [check, to, last, first, nonce[0], nonce[1]];
    for (place, word) in frame.chunks_exact_mut(WORD_LEN).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    frame
}

/// Bytes of the right length, header and kind.
fn read(bytes: &[u8], kind: u8) -> Option<&LookupFrame> {
    let frame: &LookupFrame = bytes.try_into().ok()?;
    let header = Header::read(word(frame, 8), word(frame, 16), 0);
    let heads_len = usize::from((word(frame, 16) >> 32) as u16);
    let is_alone = header.to == 0 && header.packet == 0 && heads_len == LOOKUP_LEN - HEADER_LEN;
    let is_strangers = header.form & !0x0F == FORM_STRANGER;
    (is_alone && is_strangers && first(frame).kind() == kind).then_some(frame)
}

fn word(frame: &LookupFrame, at: usize) -> u64 {
    let mut word: Word = [0; WORD_LEN];
    word.copy_from_slice(&frame[at..at + WORD_LEN]);
    number(&word)
}

fn first(frame: &LookupFrame) -> First {
    First::read(word(frame, HEADER_LEN).to_le_bytes())
}

fn nonce(frame: &LookupFrame) -> [u64; 2] {
    [word(frame, NONCE_AT), word(frame, NONCE_AT + WORD_LEN)]
}

/// The key of one keystream (PROTOCOL §3.18).
fn stream_key(key: Secret, label: u64, nonce: [u64; 2], salt: u64) -> Secret {
    let half = |half| siphash13_words(key, &[label, nonce[0], nonce[1], salt, half]);
    Secret([half(0), half(1)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::types::{Identity, Locator};

    const KEY: Secret = Secret([7, 9]);

    fn question() -> FindRepr {
        FindRepr {
            versions: 0x11,
            number: 5000,
            nonce: [3, 4],
            greeting: *b"0123456789abcdef0123456789abcdef",
        }
    }

    fn answer(salt: u64) -> NamedRepr {
        let address = Address {
            secret: Secret([11, 12]),
            identity: Identity { host: 13, endpoint: 14 },
            locator: Locator([15; 24]),
            has_helper: true,
        };
        let (nonce, greeting) = (question().nonce, [16; GREETING_LEN]);
        NamedRepr {
            code: 0,
            number: 5000,
            versions: 0x12,
            nonce,
            salt,
            address: Some(address),
            greeting,
        }
    }

    #[test]
    fn what_was_written_is_read() {
        let frame = question().write(KEY);
        let view = FindView::read(&frame).unwrap();
        assert!(view.is_keyed(KEY) && !view.is_keyed(Secret::PUBLIC));
        assert_eq!((view.versions(), view.number(), view.nonce()), (0x11, 5000, [3, 4]));
        assert_eq!(view.greeting(KEY), question().greeting);
        let frame = answer(17).write(KEY);
        let view = NamedView::read(&frame).unwrap();
        assert!(view.is_keyed(KEY) && !view.is_keyed(Secret::PUBLIC));
        assert_eq!((view.code(), view.number(), view.versions()), (0, 5000, 0x12));
        assert_eq!((view.nonce(), view.salt()), ([3, 4], 17));
        assert_eq!(view.content(KEY), (answer(17).address, [16; GREETING_LEN]));
        let refusal = NamedRepr { code: 3, address: None, ..answer(17) }.write(KEY);
        assert_eq!(NamedView::read(&refusal).unwrap().content(KEY).0, None);
    }

    #[test]
    fn neither_is_read_as_the_other_nor_at_another_length() {
        let (question, answer) = (question().write(KEY), answer(1).write(KEY));
        assert!(FindView::read(&answer).is_none() && NamedView::read(&question).is_none());
        for len in 0..LOOKUP_LEN {
            assert!(FindView::read(&question[..len]).is_none(), "{len} bytes");
        }
        let longer = [&question[..], &[0]].concat();
        assert!(FindView::read(&longer).is_none());
    }

    #[test]
    fn every_bit_is_checked() {
        for frame in [question().write(KEY), answer(1).write(KEY)] {
            for bit in 0..8 * LOOKUP_LEN {
                let mut altered = frame;
                altered[bit / 8] ^= 1 << (bit % 8);
                let is_taken = FindView::read(&altered).is_some_and(|it| it.is_keyed(KEY))
                    || NamedView::read(&altered).is_some_and(|it| it.is_keyed(KEY));
                assert!(!is_taken, "bit {bit}");
            }
        }
    }

    /// Two frames under one keystream would show their difference.
    #[test]
    fn no_two_frames_share_a_keystream() {
        let streams = [
            stream_key(KEY, QUESTION, [3, 4], 0),
            stream_key(KEY, ANSWER, [3, 4], 0),
            stream_key(KEY, ANSWER, [3, 4], 1),
            stream_key(KEY, ANSWER, [4, 4], 1),
            stream_key(KEY, ANSWER, [3, 5], 1),
            stream_key(Secret([8, 9]), ANSWER, [3, 4], 1),
        ];
        for (at, one) in streams.iter().enumerate() {
            assert!(streams[..at].iter().all(|other| other != one && other.0[0] != one.0[0]));
            assert_ne!(one.0[0], one.0[1]);
        }
        let (one, two) = (answer(1).write(KEY), answer(2).write(KEY));
        assert_ne!(one[ADDRESS_AT..], two[ADDRESS_AT..]);
        let clear = answer(1).address.unwrap().encode();
        assert!(
            clear.chunks(8).zip(one[ADDRESS_AT..].chunks(8)).all(|(clear, masked)| clear != masked)
        );
    }
}
