//! What is in an `mx_endpoint_addr_t`.
//!
//! ```text
//!   stuff[0]   NIC id (48) │ endpoint index (8) │ salt (8)     what the endpoint is known as to all (`Builder::known_as`)
//!   stuff[1]   how many endpoints were opened before the local one (12) │ its place (8) │ the engine's name of the peer (44)
//! ```
//!
//! The salt is all of the session number that is drawn anew: what is left of the 64 bits by which an endpoint is known. MX programs see it
//! (`mx_decompose_endpoint_addr2`) and nothing depends on it here: frames of an earlier life of an endpoint are refused for its secret of 128 bits
//! (PROTOCOL §3.1), which Open-MX had not.
//!
//! The first word says who the peer is, without asking anybody; the second by which endpoint of this process it is reached. Its upper part, the mark,
//! differs between endpoints that had one place after the other: an address that outlived its endpoint leads nowhere, not to another's peer.

use packhorse::raw::PeerId;

use crate::abi::Addr;

/// Endpoint indices are below this: 255 was the name of the raw endpoint.
pub(crate) const ENDPOINT_COUNT_MAX: u32 = 255;
const PEER_BITS: u32 = PeerId::BITS;
const PEER_MASK: u64 = (1 << PEER_BITS) - 1;
const SERIAL_MASK: u32 = 0xfff;
const _: () = assert!(PEER_BITS + 8 + SERIAL_MASK.count_ones() <= 64);

/// Serial number and place of a local endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark(u32);

impl Mark {
    pub(crate) fn new(place: u8, serial: u32) -> Self {
        Self((serial & SERIAL_MASK) << 8 | u32::from(place))
    }

    pub(crate) fn of(address: &Addr) -> Self {
        Self((address.stuff[1] >> PEER_BITS) as u32)
    }

    pub(crate) fn place(self) -> u8 {
        self.0 as u8
    }
}

/// What an endpoint is known as.
pub(crate) fn word(nic_id: u64, index: u32, salt: u8) -> u64 {
    nic_id << 16 | u64::from(index & 0xff) << 8 | u64::from(salt)
}

/// Whether this is what an endpoint of this board and index is known as, in whichever of its lives.
pub(crate) fn is_word_of(word: u64, nic_id: u64, index: u32) -> bool {
    (word >> 16, word >> 8 & 0xff) == (nic_id, index.into())
}

/// Board and index, in whichever life: what MX means by a peer.
pub(crate) fn place(address: &Addr) -> u64 {
    address.stuff[0] >> 8
}

pub(crate) fn nic_id(address: &Addr) -> u64 {
    address.stuff[0] >> 16
}

pub(crate) fn index(address: &Addr) -> u32 {
    (address.stuff[0] >> 8) as u32 & 0xff
}

/// A number that differs from one life of an endpoint to the next, mostly; the same for all that know the endpoint.
pub(crate) fn session(address: &Addr) -> u32 {
    (address.stuff[0].wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as u32
}

/// The address of a peer as the endpoint with this mark has it.
pub(crate) fn new(word: u64, mark: Mark, peer: PeerId) -> Addr {
    Addr { stuff: [word, u64::from(mark.0) << PEER_BITS | peer.0 & PEER_MASK] }
}

pub(crate) fn peer(address: &Addr) -> PeerId {
    PeerId(address.stuff[1] & PEER_MASK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_says_who_and_by_what() {
        let mark = Mark::new(255, u32::MAX);
        let address = new(word(0xfeff_0000_0001, 254, 3), mark, PeerId(PEER_MASK));
        assert_eq!((nic_id(&address), index(&address)), (0xfeff_0000_0001, 254));
        assert_eq!((Mark::of(&address), peer(&address)), (mark, PeerId(PEER_MASK)));
        assert_eq!(mark.place(), 255);
        let again = new(word(0xfeff_0000_0001, 254, 4), mark, PeerId(1));
        assert_ne!(session(&address), session(&again));
        assert_eq!(place(&address), place(&again));
        assert_ne!(Mark::new(255, 1), Mark::new(255, 2), "one place, two endpoints");
    }

    #[test]
    fn who_answers_is_known_by_board_and_index_in_any_life() {
        let known_as = word(0x0200_0000_0001, 7, 99);
        assert!(is_word_of(known_as, 0x0200_0000_0001, 7));
        for (nic_id, index) in [(0x0200_0000_0002, 7), (0x0200_0000_0001, 8), (1 << 48, 7)] {
            assert!(!is_word_of(known_as, nic_id, index), "{nic_id:x} {index}");
        }
    }
}
