//! Our frames on plain Ethernet, and the locators that lead there. `packet` speaks the same.
//!
//! ```text
//!   0 destination MAC   6 source MAC   12 EtherType 0x88B5   14 to u32   18 from u32   22 length u16   24 zero   26 our frame
//!   locator: 0 mark 'E'   1 zeros   4 MAC   10 zeros   12 endpoint number u32   16 zeros
//! ```
//!
//! Numbers are little-endian but for the EtherType. An endpoint's number is random and tells it from others on its
//! interface. The length is there because Ethernet makes short frames longer.

use crate::Locator;

/// IEEE 802's local experimental EtherType 1.
pub(super) const ETHER_TYPE: u16 = 0x88B5;
/// Ethernet's header.
pub(super) const ETHERNET_LEN: usize = 14;
/// Ours behind it.
pub(super) const HEAD_LEN: usize = 12;
/// Both.
pub(super) const HEADS_LEN: usize = ETHERNET_LEN + HEAD_LEN;
/// What Ethernet sends at least, without its checksum. Not every driver adds what is missing.
pub(super) const PACKET_LEN_MIN: usize = 60;

/// Where the number of the endpoint that a frame is for stands.
pub(super) const TO_AT: usize = ETHERNET_LEN;

const MARK: u8 = b'E';

/// An endpoint on an Ethernet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Station {
    pub(super) mac: [u8; 6],
    pub(super) number: u32,
}

impl Station {
    pub(super) fn locator(&self) -> Locator {
        let mut locator = [0; 24];
        locator[0] = MARK;
        locator[4..10].copy_from_slice(&self.mac);
        locator[12..16].copy_from_slice(&self.number.to_le_bytes());
        locator
    }

    /// `None` if it is the locator of something else, or of nobody: without a number, or of a group.
    #[inline]
    pub(super) fn from_locator(locator: &Locator) -> Option<Self> {
        // Word by word: this is done for every frame that is sent.
        let word = |at: usize| u32::from_le_bytes(*locator[at..].first_chunk().expect("inside"));
        let (mark, mac_start, mac_end, number) = (word(0), word(4), word(8), word(12));
        // Not from the words: of an address put together from their bytes the compiler (1.95, optimising) finds that it
        // differs from an equal one.
        let mac: [u8; 6] = *locator[4..].first_chunk().expect("inside");
        let is_ours = mark == u32::from(MARK) && mac_end >> 16 == 0 && word(16) | word(20) == 0;
        let is_station = mac[0] & 1 == 0 && mac_start | mac_end != 0 && number != 0;
        (is_ours && is_station).then_some(Self { mac, number })
    }
}

/// All that stands before a frame of `len` bytes.
#[inline]
pub(super) fn heads(to: &Station, from: &Station, len: usize) -> [u8; HEADS_LEN] {
    let mut heads = [0; HEADS_LEN];
    heads[..6].copy_from_slice(&to.mac);
    heads[6..12].copy_from_slice(&from.mac);
    heads[12..14].copy_from_slice(&ETHER_TYPE.to_be_bytes());
    heads[14..18].copy_from_slice(&to.number.to_le_bytes());
    heads[18..22].copy_from_slice(&from.number.to_le_bytes());
    heads[22..24].copy_from_slice(&(len as u16).to_le_bytes());
    heads
}

/// Who sent a packet and how long the frame behind the heads is; `None` if it is not for `to` or makes no sense.
/// `packet_len` is the length of the whole, of which `start` is the start.
#[inline]
pub(super) fn read(start: &[u8], packet_len: usize, to: u32) -> Option<(Station, usize)> {
    let heads: &[u8; HEADS_LEN] = start.first_chunk()?;
    let number_at =
        |at: usize| u32::from_le_bytes([heads[at], heads[at + 1], heads[at + 2], heads[at + 3]]);
    let len = usize::from(u16::from_le_bytes([heads[22], heads[23]]));
    let is_ours = heads[12..14] == ETHER_TYPE.to_be_bytes()
        && number_at(TO_AT) == to
        && heads[24..26] == [0, 0]
        && len > 0
        && len <= packet_len - HEADS_LEN;
    let mac = [heads[6], heads[7], heads[8], heads[9], heads[10], heads[11]];
    is_ours.then_some((Station { mac, number: number_at(18) }, len))
}

/// What a person is shown: `02:00:00:00:00:01#7` or the bytes of a locator that is none of ours.
pub fn show(locator: &Locator) -> String {
    let hex = |bytes: &[u8], between: &str| {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(between)
    };
    match Station::from_locator(locator) {
        Some(station) => format!("{}#{:x}", hex(&station.mac, ":"), station.number),
        None => format!("locator {}", hex(locator, "")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Station = Station { mac: [2, 0, 0, 0, 0, 1], number: 0x0102_0304 };
    const B: Station = Station { mac: [2, 0, 0, 0, 0, 2], number: 7 };

    #[test]
    fn an_address_that_comes_back_is_equal() {
        let own = Station { mac: [214, 154, 83, 246, 24, 100], number: 7 };
        let other = Station { mac: [214, 154, 83, 246, 24, 102], ..own };
        // Unknown to the compiler, as in life.
        let is_other = |of: &Station, to: &Locator| {
            Station::from_locator(std::hint::black_box(to)).is_some_and(|to| to.mac != of.mac)
        };
        assert!(!is_other(std::hint::black_box(&own), &own.locator()));
        assert!(is_other(std::hint::black_box(&own), &other.locator()));
    }

    #[test]
    fn locators_come_back_and_others_are_nobody() {
        let locator = A.locator();
        assert_eq!(locator[..16], *b"E\0\0\0\x02\0\0\0\0\x01\0\0\x04\x03\x02\x01");
        assert_eq!(Station::from_locator(&locator), Some(A));
        assert_eq!(show(&locator), "02:00:00:00:00:01#1020304");
        assert!(show(&[0xab; 24]).starts_with("locator abab"));
        for at in [0, 1, 2, 3, 10, 11, 16, 23] {
            let mut mangled = locator;
            mangled[at] ^= 1;
            assert_eq!(Station::from_locator(&mangled), None, "byte {at}");
        }
        for nobody in
            [Station { number: 0, ..A }, Station { mac: [0; 6], ..A }, Station { mac: [1; 6], ..A }]
        {
            assert_eq!(Station::from_locator(&nobody.locator()), None);
        }
    }

    #[test]
    fn packets_are_read_as_written_and_nonsense_is_not() {
        let mut packet = heads(&B, &A, 5).to_vec();
        packet.extend_from_slice(b"hello");
        packet.resize(PACKET_LEN_MIN, 0);
        let read_all = |packet: &[u8]| read(packet, packet.len(), B.number);
        assert_eq!(read_all(&packet), Some((A, 5)));
        assert_eq!(read(&packet, packet.len(), A.number), None);
        for len in 0..HEADS_LEN + 5 {
            assert_eq!(read_all(&packet[..len]), None, "{len} bytes");
        }
        for at in [12, 13, 14, 24, 25] {
            let mut mangled = packet.clone();
            mangled[at] ^= 0x10;
            assert_eq!(read_all(&mangled), None, "byte {at}");
        }
        packet[22] = 0;
        assert_eq!(read_all(&packet), None, "an empty frame");
    }
}
