//! Locators of raw Ethernet: an interface and an endpoint on it, in 24 bytes.
//!
//! ```text
//!  0  mark 'E'   1  zero   4  MAC (6)   10  zero   12  endpoint u32   16  zero
//! ```
//!
//! Any link that speaks Ethernet as `wire.rs` has it reaches what such a locator names.

use super::wire::{EVERYBODY, Place};
use crate::Locator;

/// The first byte of each of our locators.
const MARK: u8 = b'E';
const MAC_AT: usize = 4;
const ENDPOINT_AT: usize = 12;

/// The locator of everybody on the segment who asked to hear what is sent to all.
pub const BROADCAST: Locator = to_locator(&Place { mac: [0xff; 6], endpoint: EVERYBODY });

/// The locator of a place.
pub const fn to_locator(place: &Place) -> Locator {
    let mut locator = [0; 24];
    locator[0] = MARK;
    let endpoint = place.endpoint.to_le_bytes();
    let mut at = 0;
    while at < 6 {
        locator[MAC_AT + at] = place.mac[at];
        if at < 4 {
            locator[ENDPOINT_AT + at] = endpoint[at];
        }
        at += 1;
    }
    locator
}

/// The place a locator names; `None` if it is none of ours. Address and endpoint 0 are nowhere.
#[inline]
pub fn from_locator(locator: &Locator) -> Option<Place> {
    let mac: [u8; 6] = *locator[MAC_AT..].first_chunk()?;
    let endpoint = u32::from_le_bytes(*locator[ENDPOINT_AT..].first_chunk()?);
    let is_ours = locator[0] == MARK
        && locator[1..4] == [0; 3]
        && locator[10..12] == [0; 2]
        && locator[16..] == [0; 8];
    (is_ours && mac != [0; 6] && endpoint != 0).then_some(Place { mac, endpoint })
}

/// The interface alone, without the endpoint on it.
pub(crate) fn place_of(locator: &Locator) -> Option<Locator> {
    let place = from_locator(locator)?;
    Some(to_locator(&Place { endpoint: EVERYBODY, ..place }))
}

/// What a person is shown: `02:00:00:00:00:01#1a2b3c4d`, or the bytes of a locator that is none of ours.
pub fn show(locator: &Locator) -> String {
    match from_locator(locator) {
        Some(place) => format!("{}#{:08x}", show_mac(&place.mac), place.endpoint),
        None => {
            let hex: String = locator.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("locator {hex}")
        }
    }
}

fn show_mac(mac: &[u8; 6]) -> String {
    let pairs: Vec<String> = mac.iter().map(|byte| format!("{byte:02x}")).collect();
    pairs.join(":")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_come_back_and_are_shown() {
        let place = Place { mac: [2, 0, 0, 0, 0xab, 1], endpoint: 0x1a2b_3c4d };
        let locator = to_locator(&place);
        assert_eq!(from_locator(&locator), Some(place));
        assert_eq!(show(&locator), "02:00:00:00:ab:01#1a2b3c4d");
        let bytes = *b"E\0\0\0\x02\0\0\0\xab\x01\0\0\x4d\x3c\x2b\x1a\0\0\0\0\0\0\0\0";
        assert_eq!(locator, bytes, "as others write it");
        assert_eq!(show(&BROADCAST), "ff:ff:ff:ff:ff:ff#ffffffff");
    }

    #[test]
    fn other_bytes_are_nowhere() {
        let good = to_locator(&Place { mac: [2, 0, 0, 0, 0, 1], endpoint: 7 });
        for at in [0, 1, 3, 10, 11, 16, 23] {
            let mut mangled = good;
            mangled[at] ^= 0x40;
            assert_eq!(from_locator(&mangled), None, "byte {at}");
        }
        assert_eq!(from_locator(&to_locator(&Place { mac: [0; 6], endpoint: 7 })), None);
        assert_eq!(from_locator(&to_locator(&Place { mac: [2; 6], endpoint: 0 })), None);
        assert!(show(&[0xab; 24]).starts_with("locator abab"));
    }
}
