//! Locators of TCP: those of UDP with a mark of their own.

use std::net::SocketAddr;

use crate::Locator;
use crate::udp::locate::{marked, read_marked};

/// The first byte of each of our locators.
const MARK: u8 = b'T';

/// The locator of an address.
pub fn to_locator(addr: SocketAddr) -> Locator {
    marked(MARK, addr)
}

/// The address a locator names; `None` if it is none of ours. Port 0 and the wildcard addresses are nowhere.
pub fn from_locator(locator: &Locator) -> Option<SocketAddr> {
    read_marked(MARK, locator)
}

/// What a person is shown: `tcp 10.0.0.1:7000`, or the bytes of a locator that is none of ours.
pub fn show(locator: &Locator) -> String {
    match from_locator(locator) {
        Some(addr) => format!("tcp {addr}"),
        None => crate::udp::show(locator),
    }
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
