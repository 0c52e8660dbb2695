//! Locators of raw Ethernet: an interface and an endpoint on it, in 24 bytes.
//!
//! ```text
//!  0  mark 'E'   1  zero   4  MAC (6)   10  zero   12  endpoint u32   16  zero
//! ```
//!
//! Any link that speaks Ethernet as `ether.rs` has it reaches what such a locator names.

use super::{EVERYBODY, Station, is_somebody};
use crate::Locator;
use crate::kinds::{Locators, Look};

/// The first byte of each of our locators.
const MARK: u8 = b'E';
const MAC_AT: usize = 4;
const ENDPOINT_AT: usize = 12;

/// How they are read. A card hears no frame of its own host, whose endpoints find each other in memory instead.
pub(crate) static LOCATORS: Locators = Locators {
    mark: MARK,
    show: |locator| from_locator(locator).map(|station| show(&station)),
    place_of,
    look_of: |locator| from_locator(locator).map(Look::Station),
    is_silence_shared: true,
    leads_home: false,
};

/// The locator of everybody on the segment who asked to hear what is sent to all.
pub const BROADCAST: Locator = to_locator(&Station { mac: [0xff; 6], endpoint: EVERYBODY });

/// The locator of a station.
pub const fn to_locator(station: &Station) -> Locator {
    let mut locator = [0; 24];
    locator[0] = MARK;
    let endpoint = station.endpoint.to_le_bytes();
    let mut at = 0;
    while at < 6 {
        locator[MAC_AT + at] = station.mac[at];
        if at < 4 {
            locator[ENDPOINT_AT + at] = endpoint[at];
        }
        at += 1;
    }
    locator
}

/// The station a locator names; `None` if it is none of ours. Address and endpoint 0 are nowhere.
#[inline]
pub fn from_locator(locator: &Locator) -> Option<Station> {
    // Word by word: this is done for every frame that is sent.
    let word = |at: usize| u32::from_le_bytes(*locator[at..].first_chunk().expect("inside"));
    let (mark, mac_start, mac_end) = (word(0), word(MAC_AT), word(MAC_AT + 4));
    // Not from the words: of an address put together from their bytes the compiler (1.95, optimising) finds that it
    // differs from an equal one.
    let mac: [u8; 6] = *locator[MAC_AT..].first_chunk()?;
    let endpoint = word(ENDPOINT_AT);
    let is_ours = mark == u32::from(MARK) && mac_end >> 16 == 0 && word(16) | word(20) == 0;
    let is_somewhere = mac_start | mac_end != 0 && endpoint != 0;
    (is_ours && is_somewhere).then_some(Station { mac, endpoint })
}

/// The one endpoint that a locator names; `None` if it names many, or is none of ours.
#[inline]
pub(crate) fn one_at(locator: &Locator) -> Option<Station> {
    from_locator(locator).filter(is_somebody)
}

/// The interface alone, without the endpoint on it.
fn place_of(locator: &Locator) -> Option<Locator> {
    let station = from_locator(locator)?;
    Some(to_locator(&Station { endpoint: EVERYBODY, ..station }))
}

/// What a person is shown: `02:00:00:00:00:01#1a2b3c4d`.
fn show(station: &Station) -> String {
    let mac: Vec<String> = station.mac.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{}#{:08x}", mac.join(":"), station.endpoint)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show;

    #[test]
    fn stations_come_back_and_are_shown() {
        let station = Station { mac: [2, 0, 0, 0, 0xab, 1], endpoint: 0x1a2b_3c4d };
        let locator = to_locator(&station);
        assert_eq!(from_locator(&locator), Some(station));
        assert_eq!(show(&locator), "02:00:00:00:ab:01#1a2b3c4d");
        let bytes = *b"E\0\0\0\x02\0\0\0\xab\x01\0\0\x4d\x3c\x2b\x1a\0\0\0\0\0\0\0\0";
        assert_eq!(locator, bytes, "as others write it");
        assert_eq!(show(&BROADCAST), "ff:ff:ff:ff:ff:ff#ffffffff");
    }

    #[test]
    fn other_bytes_are_nowhere() {
        let good = to_locator(&Station { mac: [2, 0, 0, 0, 0, 1], endpoint: 7 });
        for at in [0, 1, 2, 3, 10, 11, 16, 23] {
            let mut mangled = good;
            mangled[at] ^= 0x40;
            assert_eq!(from_locator(&mangled), None, "byte {at}");
        }
        assert_eq!(from_locator(&to_locator(&Station { mac: [0; 6], endpoint: 7 })), None);
        assert_eq!(from_locator(&to_locator(&Station { mac: [2; 6], endpoint: 0 })), None);
        assert!(show(&[0xab; 24]).starts_with("locator abab"));
    }

    #[test]
    fn many_are_not_one() {
        let one = Station { mac: [2, 0, 0, 0, 0, 1], endpoint: 7 };
        assert_eq!(one_at(&to_locator(&one)), Some(one));
        assert_eq!(one_at(&to_locator(&Station { mac: [3; 6], ..one })), None, "a group");
        assert_eq!(one_at(&to_locator(&Station { endpoint: EVERYBODY, ..one })), None);
        assert_eq!(one_at(&BROADCAST), None);
    }

    #[test]
    fn an_address_that_comes_back_is_equal() {
        let own = Station { mac: [214, 154, 83, 246, 24, 100], endpoint: 7 };
        let other = Station { mac: [214, 154, 83, 246, 24, 102], ..own };
        // Unknown to the compiler, as in life.
        let is_other = |of: &Station, to: &Locator| {
            one_at(std::hint::black_box(to)).is_some_and(|to| to.mac != of.mac)
        };
        assert!(!is_other(std::hint::black_box(&own), &to_locator(&own)));
        assert!(is_other(std::hint::black_box(&own), &to_locator(&other)));
    }
}
