//! Introductions: Hello and Welcome, whose addresses and locators are masked on the wire (PROTOCOL §3.3).

use super::layout::{
    FLAG_ADDRESS, First, LOCATOR_COUNT_MAX, LOCATOR_LEN, Word, locator_count, number,
};
use crate::base::secret::Secret;
use crate::base::siphash::mask;
use crate::base::types::{ADDRESS_LEN, Address, AddressError, Locator};

/// What a Hello or a Welcome masks is at most this long.
const MASKED_LEN_MAX: usize = ADDRESS_LEN + LOCATOR_COUNT_MAX * LOCATOR_LEN;

/// A sender's introduction (PROTOCOL §3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HelloRepr<'a> {
    /// `FLAG_HELPER`.
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
    /// Flags.
    pub fn flags(&self) -> u8 {
        self.first.a()
    }

    /// Versions spoken: min nibble << 4 | max nibble.
    pub fn versions(&self) -> u8 {
        self.first.b() as u8
    }

    /// Longest frame it takes.
    pub fn frame_len_max(&self) -> u16 {
        self.first.c() as u16
    }

    /// Its life.
    pub fn incarnation(&self) -> u64 {
        number(&self.words[0])
    }

    /// The id to answer to.
    pub fn id(&self) -> u64 {
        number(&self.words[1])
    }

    /// The nonce.
    pub fn nonce(&self) -> u64 {
        number(&self.words[2])
    }

    /// The sender's address; `secret` is the one the frame was keyed with.
    pub fn address(&self, secret: Secret) -> Result<Address, AddressError> {
        decode_address(&unmask(secret, self.nonce(), self.masked), 0)
    }

    /// Where the sender can be reached; `secret` is the one the frame was keyed with.
    pub fn locators(&self, secret: Secret) -> impl Iterator<Item = Locator> + use<> {
        let count = locator_count(self.first);
        decode_locators(unmask(secret, self.nonce(), self.masked), ADDRESS_LEN, count)
    }
}

/// The receiver's answer to Hello and Echo (PROTOCOL §3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WelcomeRepr<'a> {
    /// `FLAG_HELPER`; `FLAG_ADDRESS` follows from `address`.
    pub flags: u8,
    /// Versions spoken: min nibble << 4 | max nibble.
    pub versions: u8,
    /// Longest frame it takes.
    pub frame_len_max: u16,
    /// The id to answer to.
    pub id: u64,
    /// Never the same twice under one receiver's secret: it masks what follows.
    pub nonce: u64,
    /// Its life.
    pub incarnation: u64,
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
    /// Flags.
    pub fn flags(&self) -> u8 {
        self.first.a()
    }

    /// Versions spoken: min nibble << 4 | max nibble.
    pub fn versions(&self) -> u8 {
        self.first.b() as u8
    }

    /// Longest frame it takes.
    pub fn frame_len_max(&self) -> u16 {
        self.first.c() as u16
    }

    /// The id to answer to.
    pub fn id(&self) -> u64 {
        number(&self.words[0])
    }

    /// The nonce.
    pub fn nonce(&self) -> u64 {
        number(&self.words[1])
    }

    /// Its life.
    pub fn incarnation(&self) -> u64 {
        number(&self.words[2])
    }

    /// Where it can be reached; `secret` is our own, whatever the frame was keyed with.
    pub fn locators(&self, secret: Secret) -> impl Iterator<Item = Locator> + use<> {
        let count = locator_count(self.first);
        decode_locators(unmask(secret, self.nonce(), self.masked), 0, count)
    }

    /// Its address, if it was opened to strangers and tells; `secret` is our own.
    pub fn address(&self, secret: Secret) -> Result<Option<Address>, AddressError> {
        if self.flags() & FLAG_ADDRESS == 0 {
            return Ok(None);
        }
        let start = LOCATOR_LEN * locator_count(self.first);
        decode_address(&unmask(secret, self.nonce(), self.masked), start).map(Some)
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
