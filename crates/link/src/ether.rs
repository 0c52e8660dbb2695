//! Raw Ethernet as `packet` and `xdp` speak it: what stands before a frame, and who it is from and for.
//!
//! ```text
//!   0  to: MAC (6)   6  from: MAC (6)   12  EtherType 88 B5
//!   14  to: endpoint u32   18  from: endpoint u32   22  length of the frame u16   24  zero u16   26  the frame
//! ```
//!
//! Numbers of ours are little-endian. The length is there because Ethernet pads what is short. Many endpoints may share an
//! interface; the endpoint's number, drawn at random, tells them apart. `locate.rs` has the locators that lead there.

mod locate;

pub use locate::{BROADCAST, from_locator, to_locator};
pub(crate) use locate::{LOCATORS, one_at};

/// IEEE 802 local experimental EtherType 1.
pub const ETHERTYPE: u16 = 0x88b5;
/// Ethernet's own header.
pub(crate) const ETHERNET_LEN: usize = 14;
/// What stands behind it, and counts against the interface's MTU.
pub const OVERHEAD_LEN: usize = 12;
/// Everything before the frame.
pub const HEADER_LEN: usize = ETHERNET_LEN + OVERHEAD_LEN;
/// Where the EtherType stands.
pub(crate) const ETHERTYPE_AT: usize = 12;
/// Where the number of the endpoint that a frame is for stands.
pub(crate) const TO_AT: usize = ETHERNET_LEN;
/// The endpoint number that all who asked for it hear.
pub const EVERYBODY: u32 = u32::MAX;
/// Ethernet pads to 60 bytes, and a tag that was taken off may have counted before or not.
const PADDED_LEN_MAX: usize = 64;

/// The bytes before a frame.
pub(crate) type Header = [u8; HEADER_LEN];

/// Where a frame comes from or goes to: an interface and an endpoint on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Station {
    /// Address of the interface.
    pub mac: [u8; 6],
    /// Number of the endpoint.
    pub endpoint: u32,
}

/// The header of a frame of this length, at most 65535.
#[inline]
pub(crate) fn header(to: &Station, from: &Station, len: usize) -> Header {
    let mut header = [0; HEADER_LEN];
    header[..6].copy_from_slice(&to.mac);
    header[6..12].copy_from_slice(&from.mac);
    header[12..14].copy_from_slice(&ETHERTYPE.to_be_bytes());
    header[14..18].copy_from_slice(&to.endpoint.to_le_bytes());
    header[18..22].copy_from_slice(&from.endpoint.to_le_bytes());
    header[22..24].copy_from_slice(&(len as u16).to_le_bytes());
    header
}

/// What a header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parsed {
    pub(crate) from: Station,
    /// The endpoint it is for.
    pub(crate) to: u32,
    /// Of the frame, without padding.
    pub(crate) len: usize,
}

impl Parsed {
    /// Whether the frame is all of what came, `whole_len` long, but for Ethernet's padding.
    #[inline]
    pub(crate) fn is_all_of(&self, whole_len: usize) -> bool {
        whole_len == HEADER_LEN + self.len || whole_len <= PADDED_LEN_MAX
    }
}

/// Reads the header at the beginning of `bytes`, which may be less than all of what came: that was `whole_len` long. `None`
/// if it is none of ours, or speaks of more than came.
#[inline]
pub(crate) fn parse(bytes: &[u8], whole_len: usize) -> Option<Parsed> {
    let header: &Header = bytes.first_chunk()?;
    let number = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|n| header[at + n]));
    let len = usize::from(u16::from_le_bytes([header[22], header[23]]));
    let mac: [u8; 6] = [6, 7, 8, 9, 10, 11].map(|n| header[n]);
    let from = Station { mac, endpoint: number(18) };
    let is_sound = header[ETHERTYPE_AT..ETHERNET_LEN] == ETHERTYPE.to_be_bytes()
        && header[24..26] == [0, 0]
        && len > 0
        && HEADER_LEN + len <= whole_len
        && is_somebody(&from);
    is_sound.then_some(Parsed { from, to: number(TO_AT), len })
}

/// Whether one endpoint can be there: not none, not many.
pub(crate) fn is_somebody(station: &Station) -> bool {
    let is_group = station.mac[0] & 1 != 0;
    !is_group && station.mac != [0; 6] && station.endpoint != 0 && station.endpoint != EVERYBODY
}

#[cfg(test)]
mod tests {
    use super::*;

    const TO: Station = Station { mac: [2, 0, 0, 0, 0, 1], endpoint: 0x0403_0201 };
    const FROM: Station = Station { mac: [2, 0, 0, 0, 0, 2], endpoint: 0x0807_0605 };

    fn frame(len: usize, wire_len: usize) -> Vec<u8> {
        let mut bytes = header(&TO, &FROM, len).to_vec();
        bytes.resize(wire_len, 7);
        bytes
    }

    fn parsed(bytes: &[u8]) -> Option<Parsed> {
        parse(bytes, bytes.len()).filter(|parsed| parsed.is_all_of(bytes.len()))
    }

    #[test]
    fn headers_are_read_as_they_were_written() {
        for len in [1, 8, 33, 34, 35, 1488, 8988, 65_535] {
            let found = parsed(&frame(len, HEADER_LEN + len)).unwrap();
            assert_eq!(found, Parsed { from: FROM, to: TO.endpoint, len });
        }
        let bytes = frame(8, 34);
        assert_eq!(bytes[..14], [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5]);
        assert_eq!(bytes[14..26], [1, 2, 3, 4, 5, 6, 7, 8, 8, 0, 0, 0]);
    }

    #[test]
    fn padding_is_no_part_of_a_frame_and_other_lengths_are_wrong() {
        assert_eq!(parsed(&frame(8, 60)).unwrap().len, 8);
        assert_eq!(parsed(&frame(8, 64)).unwrap().len, 8, "a tag was taken off");
        assert_eq!(parsed(&frame(8, 65)), None, "nothing pads so far");
        assert_eq!(parsed(&frame(8, 33)), None, "cut off");
        assert_eq!(parsed(&frame(100, 127)), None, "a byte more");
        assert_eq!(parse(&frame(100, 127), 127).unwrap().len, 100, "for who does not mind");
        assert_eq!(parsed(&frame(0, 60)), None, "nothing in it");
        assert_eq!(parse(&frame(100, 40), 126).unwrap().len, 100, "the rest is elsewhere");
        for len in 0..HEADER_LEN {
            assert_eq!(parse(&frame(8, 34)[..len], 34), None);
        }
    }

    #[test]
    fn nobody_and_everybody_send_nothing() {
        let broken: [(usize, u8); 4] = [(6, 3), (12, 8), (13, 0xb6), (24, 1)];
        for (at, byte) in broken {
            let mut bytes = frame(100, 126);
            bytes[at] = byte;
            assert_eq!(parsed(&bytes), None, "byte {at}");
        }
        for byte in [0, 0xff] {
            let mut bytes = frame(100, 126);
            bytes[18..22].fill(byte);
            assert_eq!(parsed(&bytes), None, "from endpoint {byte}");
        }
        let mut bytes = frame(100, 126);
        bytes[6..12].fill(0);
        assert_eq!(parsed(&bytes), None, "from no interface");
    }

    /// Whatever comes: never a panic, and what is accepted is inside what came.
    #[test]
    fn any_bytes_are_parsed_or_refused() {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut random = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        let mut accepted = 0;
        for _ in 0..200_000 {
            let mut bytes = frame((random() % 70) as usize, (random() % 100) as usize);
            for _ in 0..random() % 3 {
                if let Some(len) = bytes.len().checked_sub(1) {
                    let at = random() as usize % (len + 1);
                    bytes[at] = random() as u8;
                }
            }
            if let Some(found) = parsed(&bytes) {
                accepted += 1;
                assert!(found.len > 0 && HEADER_LEN + found.len <= bytes.len());
                assert!(is_somebody(&found.from));
            }
        }
        assert!(accepted > 1000, "{accepted}");
    }
}
