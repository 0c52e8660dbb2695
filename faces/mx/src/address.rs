//! What is in an `mx_endpoint_addr_t`.
//!
//! ```text
//!   stuff[0]   NIC id (48) │ endpoint index (8) │ salt (8)     what the endpoint is known as to all (`Builder::known_as`)
//!   stuff[1]   0 (12) │ place of the local endpoint (8) │ the engine's name of the peer (44)
//! ```
//!
//! The salt is all of the session number that is drawn anew: what is left of the 64 bits by which an endpoint is known. MX programs see it
//! (`mx_decompose_endpoint_addr2`) and nothing depends on it here: frames of an earlier life of an endpoint are refused for its secret of 128 bits
//! (PROTOCOL §3.1), which Open-MX had not.
//!
//! The first word says who the peer is, without asking anybody; the second by which endpoint of this process it is reached.

use packhorse::raw::PeerId;

use crate::abi::Addr;

/// Endpoint indices are below this: 255 was the name of the raw endpoint.
pub(crate) const ENDPOINT_COUNT_MAX: u32 = 255;
const PEER_BITS: u32 = PeerId::BITS;
const PEER_MASK: u64 = (1 << PEER_BITS) - 1;
const _: () = assert!(PEER_BITS + 8 <= 64);

/// What an endpoint is known as.
pub(crate) fn word(nic_id: u64, index: u32, salt: u8) -> u64 {
    nic_id << 16 | u64::from(index & 0xff) << 8 | u64::from(salt)
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

/// The address of a peer as the endpoint at this place has it.
pub(crate) fn new(word: u64, place: u8, peer: PeerId) -> Addr {
    Addr { stuff: [word, u64::from(place) << PEER_BITS | peer.0 & PEER_MASK] }
}

/// The place of the local endpoint.
pub(crate) fn place(address: &Addr) -> u8 {
    (address.stuff[1] >> PEER_BITS) as u8
}

pub(crate) fn peer(address: &Addr) -> PeerId {
    PeerId(address.stuff[1] & PEER_MASK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_says_who_and_by_what() {
        let address = new(word(0xfeff_0000_0001, 254, 3), 255, PeerId(PEER_MASK));
        assert_eq!((nic_id(&address), index(&address)), (0xfeff_0000_0001, 254));
        assert_eq!((place(&address), peer(&address)), (255, PeerId(PEER_MASK)));
        let again = new(word(0xfeff_0000_0001, 254, 4), 255, PeerId(1));
        assert_ne!(session(&address), session(&again));
    }
}
