//! The nouns: instants, names of things, places in memory, addresses.
//!
//! Newtypes rather than bare integers, so that a row is not mistaken for a request. Nothing here has behaviour
//! beyond encoding itself.

use alloc::string::String;
use core::fmt;
use core::ops::{Add, Sub};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

pub(crate) use crate::base::secret::Secret;
use crate::base::siphash::siphash13;

/// A moment on the driver's monotonic clock, in nanoseconds from an origin of the driver's choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant(pub u64);

impl Instant {
    /// Later than anything that happens.
    pub const NEVER: Self = Self(u64::MAX);

    /// Nanoseconds since `earlier`, 0 if that is in the future.
    pub fn since_ns(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<u64> for Instant {
    type Output = Self;
    fn add(self, ns: u64) -> Self {
        Self(self.0.saturating_add(ns))
    }
}

impl Sub for Instant {
    type Output = u64;
    fn sub(self, earlier: Self) -> u64 {
        self.since_ns(earlier)
    }
}

/// A peer: a row of the endpoint, and which of those who had that row. Stays valid over restarts of the peer, until it is
/// forgotten; from then on it names nobody, whoever has the row next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerId(pub u64);

impl PeerId {
    /// Bits that are ever set.
    pub const BITS: u32 = 44;
    /// Bits that name the row, below those that count who had it.
    pub(crate) const ROW_BITS: u32 = 24;

    /// A small number that no two peers have which are known at the same time.
    #[inline(always)]
    pub const fn row(self) -> u32 {
        self.0 as u32 & ((1 << Self::ROW_BITS) - 1)
    }

    /// Who has the row next; `None` if no name is left for it.
    pub(crate) fn next(self) -> Option<Self> {
        let next = self.0 + (1 << Self::ROW_BITS);
        (next >> Self::BITS == 0).then_some(Self(next))
    }
}

/// A request of the application: a send or a receive. Never reused while anybody can hold it (index and generation).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReqId(pub u64);

/// Memory of the application, named by the driver. What is behind the name (one piece, or a list of segments that
/// are gathered or scattered) is the driver's affair: the protocol speaks of offsets into the whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BufId(pub u64);

/// A position in the application's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Which memory.
    pub buf: BufId,
    /// Bytes from its start.
    pub offset: u64,
}

/// A matching space: tagged, untagged, streams, a Portals index. Messages never match across spaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Space(pub u8);

impl Space {
    /// Chunks of streams (PROTOCOL §12): no receive is posted here.
    pub const STREAMS: Self = Self(255);
}

/// 64 match bits, as a message carries them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Tag(pub u64);

/// What an entry or a probe asks for (PROTOCOL §9.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Criteria {
    /// The space searched.
    pub space: Space,
    /// The bits wanted.
    pub tag: Tag,
    /// Bits set here are not compared.
    pub ignore: u64,
    /// Only messages of this peer, or of anybody.
    pub source: Option<PeerId>,
}

impl Criteria {
    /// Whether a message with this envelope satisfies the criteria.
    pub fn admits(&self, space: Space, tag: Tag, source: PeerId) -> bool {
        self.space == space
            && (self.tag.0 ^ tag.0) & !self.ignore == 0
            && self.source.is_none_or(|wanted| wanted == source)
    }
}

/// Where frames to an endpoint can be sent. Only links know what the bytes mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Locator(pub [u8; 24]);

/// Who an endpoint says it is. A name, not a proof: a peer is this and its secret (PROTOCOL §3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity {
    /// The host.
    pub host: u64,
    /// The endpoint on that host.
    pub endpoint: u64,
}

/// An address: the capability to send to an endpoint (PROTOCOL §3.1). Its text form is `ph1:` and URL-safe base64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// The key for frames to it.
    pub secret: Secret,
    /// Who it is.
    pub identity: Identity,
    /// Where the first frame goes.
    pub locator: Locator,
    /// A helper drives it whatever its application does: who asks and hears nothing need not wait for long (PROTOCOL §4.2).
    pub has_helper: bool,
}

/// Bytes of an encoded address.
pub const ADDRESS_LEN: usize = 64;
/// Keys of the check, and so what else an address says: whether a helper drives its owner.
const ADDRESS_FORM: u64 = 1;
const ADDRESS_FORM_HELPER: u64 = 2;
const ADDRESS_PREFIX: &str = "ph1:";

/// Why a text or bytes are no address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressError {
    /// It does not start with `ph1:`.
    Prefix,
    /// Not base64, or not 64 bytes.
    Encoding,
    /// The check does not fit: mistyped or cut short.
    Check,
}

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Prefix => "not a Packhorse address: it must start with `ph1:`; copy the whole line the endpoint printed",
            Self::Encoding => "not a Packhorse address: what follows `ph1:` must be 86 characters of URL-safe base64",
            Self::Check => "damaged Packhorse address: its check does not fit; copy it again, whole",
        })
    }
}

impl core::error::Error for AddressError {}

impl Address {
    /// The 64 bytes of the address.
    pub fn encode(&self) -> [u8; ADDRESS_LEN] {
        let mut out = [0; ADDRESS_LEN];
        out[0..8].copy_from_slice(&self.secret.0[0].to_le_bytes());
        out[8..16].copy_from_slice(&self.secret.0[1].to_le_bytes());
        out[16..24].copy_from_slice(&self.identity.host.to_le_bytes());
        out[24..32].copy_from_slice(&self.identity.endpoint.to_le_bytes());
        out[32..56].copy_from_slice(&self.locator.0);
        let form = if self.has_helper { ADDRESS_FORM_HELPER } else { ADDRESS_FORM };
        let check = siphash13(Secret([form, 0]), &out[..56], 0);
        out[56..].copy_from_slice(&check.to_le_bytes());
        out
    }

    /// The address in these bytes.
    pub fn decode(bytes: &[u8; ADDRESS_LEN]) -> Result<Self, AddressError> {
        let word =
            |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let is_of = |form: u64| siphash13(Secret([form, 0]), &bytes[..56], 0) == word(56);
        let has_helper = is_of(ADDRESS_FORM_HELPER);
        if !has_helper && !is_of(ADDRESS_FORM) {
            return Err(AddressError::Check);
        }
        let mut locator = Locator::default();
        locator.0.copy_from_slice(&bytes[32..56]);
        Ok(Self {
            secret: Secret([word(0), word(8)]),
            identity: Identity { host: word(16), endpoint: word(24) },
            locator,
            has_helper,
        })
    }

    /// The text people copy from one terminal to another.
    pub fn to_text(&self) -> String {
        let mut text = String::from(ADDRESS_PREFIX);
        URL_SAFE_NO_PAD.encode_string(self.encode(), &mut text);
        text
    }

    /// Parses what `to_text` made; space around it is forgiven.
    pub fn from_text(text: &str) -> Result<Self, AddressError> {
        let code = text.trim().strip_prefix(ADDRESS_PREFIX).ok_or(AddressError::Prefix)?;
        let mut bytes = [0; ADDRESS_LEN];
        match URL_SAFE_NO_PAD.decode_slice(code, &mut bytes) {
            Ok(ADDRESS_LEN) => Self::decode(&bytes),
            _ => Err(AddressError::Encoding),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_text())
    }
}

impl core::str::FromStr for Address {
    type Err = AddressError;
    fn from_str(text: &str) -> Result<Self, AddressError> {
        Self::from_text(text)
    }
}

/// The driver's memory, as far as the protocol uses it. The protocol names places and says what goes where; how bytes
/// get there (one piece, scattered, by another core) is the driver's.
pub trait Memory {
    /// Puts `bytes` at `to`. The range was posted by the application for this.
    fn place(&mut self, to: Place, bytes: &[u8]);

    /// Shows `change` the `len` bytes at `at`, which are elements of `width` bytes, and puts back what it makes of them if it
    /// says so. The range was exposed by the application for this. Where the machine can, each element is read in one piece
    /// and written in one piece.
    fn update(
        &mut self,
        at: Place,
        len: usize,
        width: usize,
        change: &mut dyn FnMut(&mut [u8]) -> bool,
    );

    /// CRC32C of `bytes`, continuing from `crc` (0 at the start).
    fn crc32c(&self, crc: u32, bytes: &[u8]) -> u32;

    /// Whether the `len` bytes at `at` are there, to be read or to be written. Asked of memory that is all of the address space (PROTOCOL
    /// §17.9), before any of it is touched.
    fn reaches(&mut self, at: Place, len: u64, writes: bool) -> bool {
        let _ = (at, len, writes);
        true
    }

    /// Who computes with numbers of the host's C that are longer than those of this language; `None`: nobody.
    fn long_numbers(&self) -> Option<LongNumbers> {
        None
    }

    /// Lends bytes of a stream, straight from the frame, to whoever waits for them (PROTOCOL §12.5). Asked only for a stream
    /// that said it is waiting, and has nothing held before them. Who does not take any says so: they are held then.
    fn lend(&mut self, stream: StreamId, bytes: &[u8]) -> Lending {
        let _ = (stream, bytes);
        Lending { taken_len: 0, is_waiting: false }
    }

    /// Hands a stream that begins over to whoever extracts, with the bytes of its first chunk (PROTOCOL §12.5); `is_whole`: it has no others. True: he has
    /// taken them, and nothing is held. What he does not read he gives back by `keep_handed`.
    fn hand_over(
        &mut self,
        stream: StreamId,
        info: StreamInfo,
        bytes: &[u8],
        is_whole: bool,
    ) -> bool {
        let _ = (stream, info, bytes, is_whole);
        false
    }
}

/// Who sent a stream, and to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamInfo {
    /// From whom.
    pub source: PeerId,
    /// The handler it is for.
    pub handler: u16,
}

/// Combines long numbers, real or complex, as the operation of Portals with this number says: those that are there with those given, and
/// with what is compared.
pub type LongNumbers = fn(op: u8, is_complex: bool, there: &mut [u8], given: &[u8], compare: &[u8]);

/// What became of bytes that were lent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lending {
    /// So many were taken, from the front.
    pub taken_len: usize,
    /// Whoever took them waits for more.
    pub is_waiting: bool,
}

/// A message that arrives as a stream. Void once it was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u64);

/// A message that is sent as a stream. Void once it was ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OutStreamId(pub u64);

#[cfg(test)]
mod tests {
    use super::*;

    fn address() -> Address {
        Address {
            secret: Secret([3, u64::MAX]),
            identity: Identity { host: 7, endpoint: 9 },
            locator: Locator([5; 24]),
            has_helper: true,
        }
    }

    #[test]
    fn address_tells_whether_a_helper_drives_its_owner() {
        let inline = Address { has_helper: false, ..address() };
        for address in [address(), inline] {
            assert_eq!(Address::decode(&address.encode()), Ok(address));
        }
        assert_ne!(inline.encode()[56..], address().encode()[56..]);
    }

    #[test]
    fn address_survives_its_text_form() {
        let text = address().to_text();
        assert_eq!(Address::from_text(&text), Ok(address()));
        assert_eq!(Address::from_text(&alloc::format!("  {text}\n")), Ok(address()));
    }

    #[test]
    fn damaged_addresses_are_told_apart() {
        let text = address().to_text();
        assert_eq!(Address::from_text("10.0.0.1:7000"), Err(AddressError::Prefix));
        assert_eq!(Address::from_text(&text[..50]), Err(AddressError::Encoding));
        let mut bytes = address().encode();
        bytes[20] ^= 1;
        assert_eq!(Address::decode(&bytes), Err(AddressError::Check));
        for error in [AddressError::Prefix, AddressError::Encoding, AddressError::Check] {
            assert!(alloc::format!("{error}").contains("Packhorse address"));
        }
    }

    #[test]
    fn secrets_are_not_shown() {
        assert!(!alloc::format!("{:?}", address()).contains("18446744073709551615"));
    }

    #[test]
    fn criteria_compare_only_what_is_not_ignored() {
        let any = Criteria { space: Space(1), tag: Tag(0xF0), ignore: 0x0F, source: None };
        assert!(any.admits(Space(1), Tag(0xF7), PeerId(3)));
        assert!(!any.admits(Space(2), Tag(0xF7), PeerId(3)));
        assert!(!any.admits(Space(1), Tag(0xE0), PeerId(3)));
        let from_four = Criteria { source: Some(PeerId(4)), ..any };
        assert!(!from_four.admits(Space(1), Tag(0xF0), PeerId(3)));
        assert!(from_four.admits(Space(1), Tag(0xF0), PeerId(4)));
    }
}
