//! Found by name: how somebody who knows a host and a number gets an endpoint's address.
//!
//! ```text
//!   Asking ── Find(number, nonce, greeting) ──▶ Door
//!          ◀── Named(nonce, address, greeting) ──      or a code that says why not
//! ```
//!
//! PROTOCOL §3.16 to §3.19. The picture is a porter's lodge: whoever rings and says a name is told the room, or that he is at the
//! wrong house, and the porter forgets him at once. The lodge is a house of its own, with a socket of its own: a crowd in front
//! of it does not hold up those who live behind. So neither part knows an [`Endpoint`](crate::Endpoint): a [`Door`] is given the
//! address to tell, and what [`Asking`] found is handed to `Endpoint::add_peer` by whoever drives both.

mod asking;
mod door;

pub use asking::{Asking, AskingSpec, Finding, REFUSAL_COUNT_MIN};
pub use door::{Door, DoorCounters, DoorSpec, Reception};

use core::fmt;

use crate::base::secret::Secret;
use crate::base::siphash::siphash13;
pub use crate::wire::{GREETING_LEN, LOOKUP_LEN, LookupFrame};

/// 32 bytes of the application's, each way.
pub type Greeting = [u8; GREETING_LEN];

/// A keyed check of bytes that are no frame, for questions that an interface on top asks with the same secret. They are told from frames, whose
/// checks have another form (§1.2), by what they begin with.
pub fn check(secret: Secret, bytes: &[u8]) -> u64 {
    siphash13(secret, bytes, 0)
}

/// The port of number 0; those below 1024 follow.
const LOW_PORT: u16 = 61440;
/// The first number that is a port itself.
const PORT_MIN: u16 = 1024;

/// What an endpoint is found by, beside its host (PROTOCOL §3.16).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Number(u16);

impl Number {
    /// This number; 61440 to 62463 are other ways to write 0 to 1023.
    pub const fn new(number: u16) -> Self {
        match number.wrapping_sub(LOW_PORT) {
            low if low < PORT_MIN => Self(low),
            _ => Self(number),
        }
    }

    /// As it is written.
    pub const fn get(self) -> u16 {
        self.0
    }

    /// The UDP port whose owner has this number.
    pub const fn port(self) -> u16 {
        if self.0 < PORT_MIN { LOW_PORT + self.0 } else { self.0 }
    }
}

impl From<u16> for Number {
    fn from(number: u16) -> Self {
        Self::new(number)
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Why a door does not tell an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The port is another number's here: it was forwarded, say.
    NoSuchNumber,
    /// The question is not keyed with the secret that the door knows, or with none where it knows none.
    WrongKey,
    /// The application there does not want the asker, or nobody any more.
    Closed,
    /// No version of the protocol is spoken on both sides.
    Version,
}

/// The code of an answer that has an address.
const FOUND: u8 = 0;

impl Refusal {
    const fn code(self) -> u8 {
        match self {
            Self::NoSuchNumber => 1,
            Self::WrongKey => 2,
            Self::Closed => 3,
            Self::Version => 4,
        }
    }

    const fn of_code(code: u8) -> Option<Self> {
        match code {
            1 => Some(Self::NoSuchNumber),
            2 => Some(Self::WrongKey),
            3 => Some(Self::Closed),
            4 => Some(Self::Version),
            _ => None,
        }
    }
}

/// Versions as a question and its answer have them.
const fn versions_byte((min, max): (u8, u8)) -> u8 {
    min << 4 | max & 0x0F
}

/// The key of look-ups without a secret.
const NO_SECRET: Secret = Secret::PUBLIC;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_port_from_1024_on_is_one_number() {
        let mut owners = std::collections::HashMap::new();
        for number in 0..=u16::MAX {
            let number = Number::new(number);
            assert!(number.port() >= PORT_MIN, "{number}: opening it takes no rights");
            let owner = owners.entry(number.port()).or_insert(number);
            assert_eq!(*owner, number, "port {}", number.port());
            assert_eq!(Number::new(number.port()), number);
        }
        assert_eq!(owners.len(), usize::from(u16::MAX - PORT_MIN) + 1);
        assert_eq!((Number::new(0).port(), Number::new(1023).port()), (61440, 62463));
        assert_eq!((Number::new(1024).port(), Number::new(7000).port()), (1024, 7000));
    }

    #[test]
    fn codes_come_back() {
        for code in 1..=4 {
            assert_eq!(Refusal::of_code(code).map(Refusal::code), Some(code));
        }
        assert!([FOUND, 5, 255].into_iter().all(|code| Refusal::of_code(code).is_none()));
    }
}
