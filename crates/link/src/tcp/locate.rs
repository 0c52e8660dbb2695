//! Locators of TCP: those of UDP with a mark of their own.

use std::net::SocketAddr;

use crate::Locator;
use crate::kinds::{Locators, Look};
use crate::udp::locate::{marked, place_of, read_marked};

/// The first byte of each of our locators.
const MARK: u8 = b'T';

/// How they are read.
pub(super) static LOCATORS: Locators = Locators {
    mark: MARK,
    show: |locator| from_locator(locator).map(|addr| format!("tcp {addr}")),
    place_of,
    // What a stream is cut into is the kernel's business: captures show each frame as a datagram.
    look_of: |locator| from_locator(locator).map(Look::Port),
    is_silence_shared: false,
    leads_home: true,
};

/// The locator of an address.
pub fn to_locator(addr: SocketAddr) -> Locator {
    marked(MARK, addr)
}

/// The address a locator names; `None` if it is none of ours. Port 0 and the wildcard addresses are nowhere.
pub fn from_locator(locator: &Locator) -> Option<SocketAddr> {
    read_marked(MARK, locator)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_come_back_and_are_no_udp_ones() {
        let addr: SocketAddr = "10.1.2.3:4".parse().unwrap();
        let locator = to_locator(addr);
        assert_eq!(from_locator(&locator), Some(addr));
        assert_eq!(crate::show(&locator), "tcp 10.1.2.3:4");
        assert_eq!(crate::udp::from_locator(&locator), None);
        assert_eq!(from_locator(&crate::udp::to_locator(addr)), None);
        let other = to_locator("10.1.2.3:5".parse().unwrap());
        assert_eq!(crate::place_of(&locator), crate::place_of(&other));
        assert_ne!(crate::place_of(&locator), crate::place_of(&crate::udp::to_locator(addr)));
    }
}
