//! Locators of UDP, and of TCP: an address and a port in 24 bytes.
//!
//! ```text
//!  0  mark 'U', or 'T'   1  family 4 or 6   2  port, big-endian   4  address (IPv4: 4 bytes, then zeros)   20  zeros
//! ```
//!
//! The scope of a link-local IPv6 address is a number of one host's own: it is never told. Whoever sends to such an address
//! puts in the number of the interface it is on itself.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use crate::Locator;
use crate::kinds::{Locators, Look};

/// The first byte of each of our locators.
const MARK: u8 = b'U';

/// How they are read.
pub(super) static LOCATORS: Locators = Locators {
    mark: MARK,
    show: |locator| from_locator(locator).map(|addr| addr.to_string()),
    place_of,
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

/// The locator of an address at which links of this mark are.
pub(crate) fn marked(mark: u8, addr: SocketAddr) -> Locator {
    let mut locator = [0; 24];
    locator[0] = mark;
    locator[2..4].copy_from_slice(&addr.port().to_be_bytes());
    match addr {
        SocketAddr::V4(addr) => {
            locator[1] = 4;
            locator[4..8].copy_from_slice(&addr.ip().octets());
        }
        SocketAddr::V6(addr) => {
            locator[1] = 6;
            locator[4..20].copy_from_slice(&addr.ip().octets());
        }
    }
    locator
}

/// The address in a locator of this mark.
pub(crate) fn read_marked(mark: u8, locator: &Locator) -> Option<SocketAddr> {
    let port = u16::from_be_bytes([locator[2], locator[3]]);
    if locator[0] != mark || port == 0 {
        return None;
    }
    let addr = match locator[1] {
        4 if locator[8..].iter().all(|&byte| byte == 0) => {
            let octets: [u8; 4] = locator[4..8].try_into().ok()?;
            SocketAddr::from((Ipv4Addr::from(octets), port))
        }
        6 if locator[20..].iter().all(|&byte| byte == 0) => {
            let octets: [u8; 16] = locator[4..20].try_into().ok()?;
            SocketAddr::from((Ipv6Addr::from(octets), port))
        }
        _ => return None,
    };
    (!addr.ip().is_unspecified()).then_some(addr)
}

/// The host alone, without the port.
pub(crate) fn place_of(locator: &Locator) -> Option<Locator> {
    let mark = locator[0];
    let mut addr = read_marked(mark, locator)?;
    addr.set_port(u16::MAX);
    Some(marked(mark, addr))
}

/// The address with the scope it has here, where it needs one; `None` if that is not known.
pub(super) fn with_scope(addr: SocketAddr, scope: u32) -> Option<SocketAddr> {
    match addr {
        SocketAddr::V6(v6) if v6.ip().is_unicast_link_local() => {
            (scope != 0).then(|| SocketAddr::V6(SocketAddrV6::new(*v6.ip(), v6.port(), 0, scope)))
        }
        _ => Some(addr),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show;

    #[test]
    fn addresses_come_back_and_are_shown() {
        for text in ["10.1.2.3:4", "[2001:db8::1]:65535", "127.0.0.1:7000"] {
            let addr: SocketAddr = text.parse().unwrap();
            assert_eq!(from_locator(&to_locator(addr)), Some(addr));
            assert_eq!(show(&to_locator(addr)), text);
        }
        let scoped = SocketAddr::V6(SocketAddrV6::new("fe80::1".parse().unwrap(), 9, 0, 3));
        let told = from_locator(&to_locator(scoped)).unwrap();
        assert_eq!(told, "[fe80::1]:9".parse().unwrap(), "the scope is not told");
        assert_eq!(with_scope(told, 3), Some(scoped), "but put in where it is needed");
        assert_eq!(with_scope(told, 0), None);
        let global: SocketAddr = "[2001:db8::1]:9".parse().unwrap();
        assert_eq!(with_scope(global, 3), Some(global));
    }

    #[test]
    fn other_bytes_are_nowhere() {
        assert_eq!(from_locator(&[0; 24]), None);
        assert!(show(&[0xab; 24]).starts_with("locator abab"));
        for nowhere in ["10.0.0.1:0", "0.0.0.0:5", "[::]:5"] {
            assert_eq!(from_locator(&to_locator(nowhere.parse().unwrap())), None, "{nowhere}");
        }
        let mut mangled = to_locator("10.0.0.1:5".parse().unwrap());
        mangled[23] = 1;
        assert_eq!(from_locator(&mangled), None);
        mangled[1] = 5;
        assert_eq!(from_locator(&mangled), None);
    }
}
