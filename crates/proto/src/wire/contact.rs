//! Introductions: Hello and Welcome, whose addresses and locators are masked on the wire (PROTOCOL §3.3).

use super::layout::{
    FLAG_ADDRESS, First, LOCATOR_COUNT_MAX, LOCATOR_LEN, Word, locator_count, number,
};
use crate::base::secret::Secret;
use crate::base::siphash::mask;
use crate::base::types::{ADDRESS_LEN, Address, AddressError, Locator};

/// What a Hello or a Welcome masks is at most this long.
const MASKED_LEN_MAX: usize = ADDRESS_LEN + LOCATOR_COUNT_MAX * LOCATOR_LEN;

/// What Hello and Welcome both say of their sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Introduction {
    /// `FLAG_HELPER`, `FLAG_PASS`; of a Welcome that was read, `FLAG_ADDRESS`.
    pub flags: u8,
    /// Versions spoken: min nibble << 4 | max nibble.
    pub versions: u8,
    /// Longest frame it takes.
    pub frame_len_max: u16,
    /// Its life.
    pub incarnation: u64,
    /// The id to answer to.
    pub id: u64,
    /// Never the same twice under one receiver's secret: it masks what follows.
    pub nonce: u64,
}

impl Introduction {
    /// As read from the first word and the numbers behind it, which stand in another order in each of the two records.
    fn read(first: First, incarnation: &Word, id: &Word, nonce: &Word) -> Self {
        let (flags, versions, frame_len_max) = (first.a(), first.b() as u8, first.c() as u16);
        let (incarnation, id, nonce) = (number(incarnation), number(id), number(nonce));
        Self { flags, versions, frame_len_max, incarnation, id, nonce }
    }
}

/// A sender's introduction (PROTOCOL §3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HelloRepr<'a> {
    /// What it says of itself.
    pub who: Introduction,
    /// Its address.
    pub address: Address,
    /// Where it can be reached; at most `LOCATOR_COUNT_MAX`.
    pub locators: &'a [Locator],
}

/// A Hello as received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HelloView<'a> {
    pub(super) first: First,
    pub(super) words: &'a [Word; 3],
    /// The address, then the locators.
    pub(super) masked: &'a [Word],
}

impl HelloView<'_> {
    /// What the sender says of itself.
    pub fn who(&self) -> Introduction {
        let [incarnation, id, nonce] = self.words;
        Introduction::read(self.first, incarnation, id, nonce)
    }

    /// The sender's address; `secret` is the one the frame was keyed with.
    pub fn address(&self, secret: Secret) -> Result<Address, AddressError> {
        decode_address(&unmask(secret, self.who().nonce, self.masked), 0)
    }

    /// Where the sender can be reached; `secret` is the one the frame was keyed with.
    pub fn locators(&self, secret: Secret) -> impl Iterator<Item = Locator> + use<> {
        let count = locator_count(self.first);
        decode_locators(unmask(secret, self.who().nonce, self.masked), ADDRESS_LEN, count)
    }
}

/// The receiver's answer to Hello and Echo (PROTOCOL §3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WelcomeRepr<'a> {
    /// What it says of itself. `FLAG_ADDRESS` follows from `address`.
    pub who: Introduction,
    /// Where it can be reached; at most `LOCATOR_COUNT_MAX`.
    pub locators: &'a [Locator],
    /// Its address, for a stranger.
    pub address: Option<Address>,
}

/// A Welcome as received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WelcomeView<'a> {
    pub(super) first: First,
    pub(super) words: &'a [Word; 3],
    /// The locators, then the address if there is one.
    pub(super) masked: &'a [Word],
}

impl WelcomeView<'_> {
    /// What the sender says of itself.
    pub fn who(&self) -> Introduction {
        let [id, nonce, incarnation] = self.words;
        Introduction::read(self.first, incarnation, id, nonce)
    }

    /// Where it can be reached; `secret` is our own, whatever the frame was keyed with.
    pub fn locators(&self, secret: Secret) -> impl Iterator<Item = Locator> + use<> {
        let count = locator_count(self.first);
        decode_locators(unmask(secret, self.who().nonce, self.masked), 0, count)
    }

    /// Its address, if it was opened to strangers and tells; `secret` is our own.
    pub fn address(&self, secret: Secret) -> Result<Option<Address>, AddressError> {
        if self.first.a() & FLAG_ADDRESS == 0 {
            return Ok(None);
        }
        let start = LOCATOR_LEN * locator_count(self.first);
        decode_address(&unmask(secret, self.who().nonce, self.masked), start).map(Some)
    }
}

/// A clear copy of what a Hello or Welcome masks; zeros behind it. Never longer than `MASKED_LEN_MAX` as `locator_count`
/// is checked when the record is read.
fn unmask(secret: Secret, nonce: u64, masked: &[Word]) -> [u8; MASKED_LEN_MAX] {
    let mut clear = [0; MASKED_LEN_MAX];
    let masked = masked.as_flattened();
    clear[..masked.len()].copy_from_slice(masked);
    mask(secret, nonce, &mut clear[..masked.len()]);
    clear
}

fn decode_address(clear: &[u8; MASKED_LEN_MAX], start: usize) -> Result<Address, AddressError> {
    let bytes = clear[start..].first_chunk().ok_or(AddressError::Encoding)?;
    Address::decode(bytes)
}

fn decode_locators(
    clear: [u8; MASKED_LEN_MAX],
    start: usize,
    count: usize,
) -> impl Iterator<Item = Locator> {
    (0..count).map(move |index| {
        let mut locator = Locator::default();
        let from = start + LOCATOR_LEN * index;
        locator.0.copy_from_slice(&clear[from..from + LOCATOR_LEN]);
        locator
    })
}
