//! The first bytes of a stream: who opened it.
//!
//! ```text
//!  0  "PackTCP"   7  version   8  locator of who opened the stream (24 bytes)
//! ```

use std::net::{IpAddr, SocketAddr};

use super::locate;
use crate::Locator;

/// What each stream begins with.
const MAGIC: [u8; 8] = *b"PackTCP\x01";
pub(super) const GREETING_LEN: usize = 32;

pub(super) fn write(own: SocketAddr) -> [u8; GREETING_LEN] {
    let mut greeting = [0; GREETING_LEN];
    greeting[..8].copy_from_slice(&MAGIC);
    greeting[8..].copy_from_slice(&locate::to_locator(own));
    greeting
}

/// The locator in a greeting on a stream from this address; `None` if it is no greeting, or names a place on another host. Who opens
/// streams cannot lie about his address, so frames of his never seem to come from elsewhere.
pub(super) fn read(greeting: &[u8; GREETING_LEN], ip: IpAddr) -> Option<Locator> {
    let locator = greeting.last_chunk::<24>().filter(|_| greeting.starts_with(&MAGIC))?;
    let claimed = locate::from_locator(locator)?;
    (claimed.ip().to_canonical() == ip.to_canonical()).then_some(*locator)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_greeting_counts_only_from_where_it_claims_to_be() {
        let own: SocketAddr = "10.0.0.1:7000".parse().unwrap();
        let greeting = write(own);
        assert_eq!(read(&greeting, own.ip()), Some(locate::to_locator(own)));
        let mapped: IpAddr = "::ffff:10.0.0.1".parse().unwrap();
        assert_eq!(read(&greeting, mapped), Some(locate::to_locator(own)));
        assert_eq!(read(&greeting, "10.0.0.2".parse().unwrap()), None);
        for at in 0..GREETING_LEN {
            let mut mangled = greeting;
            mangled[at] ^= 0x80;
            let is_port = at == 10 || at == 11;
            assert_eq!(read(&mangled, own.ip()).is_some(), is_port, "byte {at}");
        }
    }
}
