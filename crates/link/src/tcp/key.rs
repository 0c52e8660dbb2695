//! What the system tells us of a stream comes with a number that says which.

/// Which descriptor something is told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    /// The one that others connect to.
    Listener,
    /// A stream that we opened: where it is kept, and its serial.
    Outgoing(usize, u32),
    /// A stream that somebody else opened.
    Incoming(usize, u32),
}

impl Key {
    /// A place is used again, a serial is not: what was told of a stream that is closed meanwhile is not taken for another's.
    pub(super) fn number(self) -> u64 {
        let (kind, slot, serial) = match self {
            Self::Listener => (0, 0, 0),
            Self::Outgoing(slot, serial) => (1, slot, serial),
            Self::Incoming(slot, serial) => (2, slot, serial),
        };
        kind << 62 | (slot as u64) << 32 | u64::from(serial)
    }

    pub(super) fn of(number: u64) -> Self {
        let (slot, serial) = ((number << 2 >> 34) as usize, number as u32);
        match number >> 62 {
            0 => Self::Listener,
            1 => Self::Outgoing(slot, serial),
            _ => Self::Incoming(slot, serial),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        for key in [Key::Listener, Key::Outgoing(63, u32::MAX), Key::Incoming(1 << 20, 7)] {
            assert_eq!(Key::of(key.number()), key);
        }
    }
}
