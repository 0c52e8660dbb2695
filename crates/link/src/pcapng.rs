//! Captures that Wireshark opens: a pcapng file with one interface and nanosecond times.
//!
//! ```text
//! section header │ interface description │ enhanced packet │ enhanced packet │ …
//! block = type u32, total length u32, body padded to 4 bytes, total length u32
//! ```
//!
//! All numbers are little-endian, which the section header's magic says. After
//! draft-ietf-opsawg-pcapng, sections 3 and 4.

use std::io;

use crate::ether::{self, Station};

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
const INTERFACE_DESCRIPTION: u32 = 1;
const ENHANCED_PACKET: u32 = 6;

const OPTION_END: u16 = 0;
const OPTION_COMMENT: u16 = 1;
const SECTION_APPLICATION: u16 = 4;
const INTERFACE_TIME_RESOLUTION: u16 = 9;

/// The number of an endpoint that has none of its own.
pub(crate) fn number_of([.., a, b, c, d]: [u8; 6]) -> u32 {
    u32::from_be_bytes([a, b, c, d])
}

/// What a packet's bytes begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkType(pub u16);

impl LinkType {
    /// An Ethernet header; see [`Writer::ethernet`].
    pub const ETHERNET: Self = Self(1);
    /// Our own frames, bare; Wireshark lets its user say what is in there.
    pub const USER0: Self = Self(147);
}

/// Writes a capture. Each packet is one `write_all`: put a `BufWriter` below if that is dear.
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
    block: Vec<u8>,
}

impl<W: io::Write> Writer<W> {
    /// Begins a capture.
    ///
    /// # Errors
    /// What `out` has to say.
    pub fn new(out: W, link_type: LinkType) -> io::Result<Self> {
        let mut writer = Self { out, block: Vec::new() };
        writer.begin(SECTION_HEADER);
        writer.put(&BYTE_ORDER_MAGIC.to_le_bytes());
        writer.put(&[1, 0, 0, 0]); // version 1.0
        writer.put(&[0xff; 8]); // section length: not known yet
        writer.option(SECTION_APPLICATION, b"packhorse");
        writer.option(OPTION_END, &[]);
        writer.end()?;
        writer.begin(INTERFACE_DESCRIPTION);
        writer.put(&u32::from(link_type.0).to_le_bytes());
        writer.put(&[0; 4]); // no limit on captured length
        writer.option(INTERFACE_TIME_RESOLUTION, &[9]); // 10^-9 s
        writer.option(OPTION_END, &[]);
        writer.end()?;
        Ok(writer)
    }

    /// A packet, whose bytes may come in parts; an empty comment is none.
    ///
    /// # Errors
    /// What `out` has to say, or `InvalidInput` for more than 4 GiB.
    pub fn packet(&mut self, at_ns: u64, parts: &[&[u8]], comment: &str) -> io::Result<()> {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        let len = u32::try_from(len).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        self.begin(ENHANCED_PACKET);
        self.put(&[0; 4]); // interface
        self.put(&((at_ns >> 32) as u32).to_le_bytes());
        self.put(&(at_ns as u32).to_le_bytes());
        self.put(&len.to_le_bytes()); // captured
        self.put(&len.to_le_bytes()); // as sent
        parts.iter().for_each(|part| self.put(part));
        self.pad();
        if !comment.is_empty() {
            self.option(OPTION_COMMENT, fitting(comment).as_bytes());
            self.option(OPTION_END, &[]);
        }
        self.end()
    }

    /// A frame behind an Ethernet header made up for it, as raw links write it ([`ether`]); the endpoints' numbers are made
    /// of the addresses.
    ///
    /// # Errors
    /// As for [`Writer::packet`].
    pub fn ethernet(
        &mut self,
        at_ns: u64,
        from: [u8; 6],
        to: [u8; 6],
        frame: &[u8],
        comment: &str,
    ) -> io::Result<()> {
        let station = |mac: [u8; 6]| Station { mac, endpoint: number_of(mac) };
        let header = ether::header(&station(to), &station(from), frame.len());
        self.packet(at_ns, &[&header, frame], comment)
    }

    /// Passes on what is buffered below.
    ///
    /// # Errors
    /// What `out` has to say.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Flushes, and gives back what was written to.
    ///
    /// # Errors
    /// What `out` has to say.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }

    fn begin(&mut self, kind: u32) {
        self.block.clear();
        self.put(&kind.to_le_bytes());
        self.put(&[0; 4]); // the length, known at the end
    }

    fn put(&mut self, bytes: &[u8]) {
        self.block.extend_from_slice(bytes);
    }

    fn pad(&mut self) {
        self.block.resize(self.block.len().next_multiple_of(4), 0);
    }

    fn option(&mut self, code: u16, value: &[u8]) {
        debug_assert!(value.len() <= usize::from(u16::MAX));
        self.put(&code.to_le_bytes());
        self.put(&(value.len() as u16).to_le_bytes());
        self.put(value);
        self.pad();
    }

    fn end(&mut self) -> io::Result<()> {
        debug_assert!(self.block.len().is_multiple_of(4));
        let len = (self.block.len() + 4) as u32;
        self.put(&len.to_le_bytes());
        self.block[4..8].copy_from_slice(&len.to_le_bytes());
        self.out.write_all(&self.block)
    }
}

/// As much of a comment as an option holds.
fn fitting(comment: &str) -> &str {
    let mut end = comment.len().min(usize::from(u16::MAX));
    while !comment.is_char_boundary(end) {
        end -= 1;
    }
    &comment[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reader that shares nothing with the writer: blocks, then packets with their comments.
    struct Packet {
        at_ns: u64,
        bytes: Vec<u8>,
        comment: Option<String>,
    }

    fn u32_at(bytes: &[u8], at: usize) -> u32 {
        u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
    }

    fn u16_at(bytes: &[u8], at: usize) -> u16 {
        u16::from_le_bytes(bytes[at..at + 2].try_into().unwrap())
    }

    fn blocks(mut file: &[u8]) -> Vec<(u32, Vec<u8>)> {
        let mut found = Vec::new();
        while !file.is_empty() {
            let (kind, len) = (u32_at(file, 0), u32_at(file, 4) as usize);
            assert!(len.is_multiple_of(4) && len >= 12);
            assert_eq!(u32_at(file, len - 4) as usize, len, "both lengths agree");
            found.push((kind, file[8..len - 4].to_vec()));
            file = &file[len..];
        }
        found
    }

    fn options(mut bytes: &[u8]) -> Vec<(u16, Vec<u8>)> {
        let mut found = Vec::new();
        while !bytes.is_empty() {
            let (code, len) = (u16_at(bytes, 0), usize::from(u16_at(bytes, 2)));
            let padded = len.next_multiple_of(4);
            assert!(bytes[4 + len..4 + padded].iter().all(|byte| *byte == 0));
            if code == 0 {
                assert_eq!((len, bytes.len()), (0, 4), "the end is the end");
                break;
            }
            found.push((code, bytes[4..4 + len].to_vec()));
            bytes = &bytes[4 + padded..];
            assert!(!bytes.is_empty(), "options end with an end");
        }
        found
    }

    fn read(file: &[u8], link_type: u16) -> Vec<Packet> {
        let blocks = blocks(file);
        assert_eq!(file[..4], [0x0a, 0x0d, 0x0d, 0x0a]);
        let header = &blocks[0].1;
        assert_eq!((u32_at(header, 0), u16_at(header, 4), u16_at(header, 6)), (0x1a2b_3c4d, 1, 0));
        assert_eq!(header[8..16], [0xff; 8]);
        assert_eq!(options(&header[16..]), [(4, b"packhorse".to_vec())]);
        let (kind, interface) = &blocks[1];
        assert_eq!(
            (*kind, u16_at(interface, 0), u16_at(interface, 2), u32_at(interface, 4)),
            (1, link_type, 0, 0)
        );
        assert_eq!(options(&interface[8..]), [(9, vec![9])]);
        let packets = blocks[2..].iter().map(|(kind, body)| {
            assert_eq!((*kind, u32_at(body, 0)), (6, 0));
            let len = u32_at(body, 12) as usize;
            assert_eq!(u32_at(body, 16) as usize, len);
            let comment =
                options(&body[20 + len.next_multiple_of(4)..]).pop().map(|(code, text)| {
                    assert_eq!(code, 1);
                    String::from_utf8(text).unwrap()
                });
            let at_ns = u64::from(u32_at(body, 4)) << 32 | u64::from(u32_at(body, 8));
            Packet { at_ns, bytes: body[20..20 + len].to_vec(), comment }
        });
        packets.collect()
    }

    #[test]
    fn what_is_written_is_read_back_at_every_length() {
        let mut writer = Writer::new(Vec::new(), LinkType::ETHERNET).unwrap();
        let frame: Vec<u8> = (0..100).collect();
        let (from, to) = ([2, 0, 0, 0, 0, 1], [2, 1, 0, 0, 0, 9]);
        let comment = |len: usize| "dropped: random loss"[..len % 20].to_string();
        for len in 0..100 {
            let at_ns = (1 << 40) + len as u64;
            writer.ethernet(at_ns, from, to, &frame[..len], &comment(len)).unwrap();
        }
        let packets = read(&writer.finish().unwrap(), 1);
        assert_eq!(packets.len(), 100);
        for (len, packet) in packets.iter().enumerate() {
            assert_eq!(packet.at_ns, (1 << 40) + len as u64);
            let numbers_and_len = [9, 0, 0, 0, 1, 0, 0, 0, len as u8, 0, 0, 0];
            assert_eq!(packet.bytes[14..26], numbers_and_len);
            assert_eq!(packet.bytes[..14], [2, 1, 0, 0, 0, 9, 2, 0, 0, 0, 0, 1, 0x88, 0xb5]);
            assert_eq!(packet.bytes[26..], frame[..len]);
            assert_eq!(packet.comment.clone().unwrap_or_default(), comment(len));
        }
    }

    #[test]
    fn endless_comments_are_cut_between_characters() {
        let mut writer = Writer::new(Vec::new(), LinkType::USER0).unwrap();
        writer.packet(0, &[b"ab", b"c"], &"é".repeat(40_000)).unwrap();
        let packets = read(&writer.finish().unwrap(), 147);
        assert_eq!(packets[0].bytes, b"abc");
        assert_eq!(packets[0].comment.as_deref().unwrap().chars().count(), 32_767);
    }
}
