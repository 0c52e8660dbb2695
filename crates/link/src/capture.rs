//! A link that writes down what passes: any link, with each frame out and in copied to a pcapng file.
//!
//! ```text
//!   frame between UDP locators,  Ethernet │ IPv4 or IPv6 │ UDP │ frame      headers made up, addresses and ports true
//!   or between TCP locators      the same: what a stream is cut into is the kernel's business
//!   any other                    Ethernet, EtherType 0x88B5, 12 bytes (`ether`) │ frame      addresses made up, if need be, from the locators
//! ```
//!
//! Wireshark reads both with our dissector (tools/wireshark/packhorse.lua). Frames whose payload landed in the
//! application's memory are written whole. Writing is buffered; when it fails, that is said once, the capture ends and the
//! traffic goes on.

use std::io::{self, BufWriter, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::around::Holds;
use crate::ether::{self, Station};
use crate::kinds::{self, Look};
use crate::mem::UserMemory;
use crate::own_file::create_own;
use crate::pcapng::{LinkType, Writer, number_of};
use crate::{Around, Arrived, Burst, InMemory, Landing, Link, Locator};

/// Bytes that wait to be written.
const BUFFER_LEN: usize = 1 << 18;
/// What waits is written when nothing arrives and it has waited so long.
const FLUSH_AFTER: Duration = Duration::from_millis(100);
const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;
const PROTOCOL_UDP: u8 = 17;
const HOP_LIMIT: u8 = 64;

type Out = BufWriter<Box<dyn Write + Send>>;

/// The file being written.
struct Sink {
    writer: Writer<Out>,
    /// When the oldest that waits was written, if anything waits.
    waits_since: Option<SystemTime>,
    headers: Vec<u8>,
}

impl Sink {
    fn write(&mut self, from: &Locator, to: &Locator, frame: &[u8]) -> io::Result<()> {
        let now = SystemTime::now();
        let at_ns = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
        self.waits_since.get_or_insert(now);
        self.headers.clear();
        put_headers(&mut self.headers, from, to, frame.len());
        self.writer.packet(at_ns, &[&self.headers, frame], "")
    }

    fn flush_old(&mut self) -> io::Result<()> {
        let Some(since) = self.waits_since else { return Ok(()) };
        if since.elapsed().unwrap_or(FLUSH_AFTER) < FLUSH_AFTER {
            return Ok(());
        }
        self.waits_since = None;
        self.writer.flush()
    }
}

/// The headers a frame has, or might have, on the wire.
fn put_headers(out: &mut Vec<u8>, from: &Locator, to: &Locator, frame_len: usize) {
    let addr = |locator: &Locator| match kinds::look_of(locator) {
        Some(Look::Port(addr)) => Some(addr),
        _ => None,
    };
    let udp_len = u16::try_from(frame_len + 8).ok();
    let Some(((source, target), udp_len)) = addr(from).zip(addr(to)).zip(udp_len) else {
        out.extend_from_slice(&ether::header(&station_of(to), &station_of(from), frame_len));
        return;
    };
    out.extend_from_slice(&mac_of(to));
    out.extend_from_slice(&mac_of(from));
    put_ip(out, source, target, udp_len);
    put_udp(out, source, target, udp_len);
}

/// As raw Ethernet: places that are none get addresses and numbers that are made up.
fn station_of(locator: &Locator) -> Station {
    match kinds::look_of(locator) {
        Some(Look::Station(station)) => station,
        _ => {
            let mac = mac_of(locator);
            Station { mac, endpoint: number_of(mac) }
        }
    }
}

fn put_ip(out: &mut Vec<u8>, from: SocketAddr, to: SocketAddr, udp_len: u16) {
    match (from.ip(), to.ip()) {
        (IpAddr::V4(source), IpAddr::V4(target)) if udp_len <= u16::MAX - 20 => {
            out.extend_from_slice(&ETHERTYPE_IPV4.to_be_bytes());
            let start = out.len();
            out.extend_from_slice(&[0x45, 0]);
            out.extend_from_slice(&(udp_len + 20).to_be_bytes());
            // No identification, do not fragment, a checksum to be filled in.
            out.extend_from_slice(&[0, 0, 0x40, 0, HOP_LIMIT, PROTOCOL_UDP, 0, 0]);
            out.extend_from_slice(&source.octets());
            out.extend_from_slice(&target.octets());
            let sum = ones_complement(&out[start..]);
            out[start + 10..start + 12].copy_from_slice(&sum.to_be_bytes());
        }
        (source, target) => {
            let octets = |ip: IpAddr| match ip {
                IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
                IpAddr::V6(ip) => ip.octets(),
            };
            out.extend_from_slice(&ETHERTYPE_IPV6.to_be_bytes());
            out.extend_from_slice(&[0x60, 0, 0, 0]);
            out.extend_from_slice(&udp_len.to_be_bytes());
            out.extend_from_slice(&[PROTOCOL_UDP, HOP_LIMIT]);
            out.extend_from_slice(&octets(source));
            out.extend_from_slice(&octets(target));
        }
    }
}

/// Checksum 0: not computed.
fn put_udp(out: &mut Vec<u8>, from: SocketAddr, to: SocketAddr, len: u16) {
    for field in [from.port(), to.port(), len, 0] {
        out.extend_from_slice(&field.to_be_bytes());
    }
}

/// The checksum of an IPv4 header whose checksum is 0.
fn ones_complement(header: &[u8]) -> u16 {
    let words = header.chunks_exact(2).map(|two| u32::from(u16::from_be_bytes([two[0], two[1]])));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// A locally administered Ethernet address that stands for a locator.
fn mac_of(locator: &Locator) -> [u8; 6] {
    let mut mac = [0x02_u8, 0, 0, 0, 0, 0];
    for (at, &byte) in locator.iter().enumerate() {
        let place = &mut mac[1 + at % 5];
        *place = place.rotate_left(3) ^ byte;
    }
    mac
}

/// A link around a link.
pub struct Captured<L> {
    inner: L,
    sink: Option<Sink>,
    remark: Option<String>,
    frame_count: u64,
    is_stopped: bool,
    bytes: Vec<u8>,
}

impl<L: std::fmt::Debug> std::fmt::Debug for Captured<L> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Captured").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl<L> Captured<L> {
    /// Writes what passes `inner` to a file of this user's ([`create_own`]).
    ///
    /// # Errors
    /// What the system says about the file.
    pub fn create(inner: L, path: &Path) -> io::Result<Self> {
        Self::new(inner, Box::new(create_own(path)?))
    }

    /// Writes what passes `inner` to `out`.
    ///
    /// # Errors
    /// What `out` has to say.
    pub fn new(inner: L, out: Box<dyn Write + Send>) -> io::Result<Self> {
        let out = BufWriter::with_capacity(BUFFER_LEN, out);
        let writer = Writer::new(out, LinkType::ETHERNET)?;
        let sink = Sink { writer, waits_since: None, headers: Vec::new() };
        Ok(Self {
            inner,
            sink: Some(sink),
            remark: None,
            frame_count: 0,
            is_stopped: false,
            bytes: Vec::new(),
        })
    }

    /// Ends the capture; what was not written yet is.
    ///
    /// # Errors
    /// What the file has to say.
    pub fn finish(&mut self) -> io::Result<()> {
        self.sink.take().map_or(Ok(()), |mut sink| sink.writer.flush())
    }

    /// Writes the frame in `bytes`.
    fn write(&mut self, from: &Locator, to: &Locator) {
        let Some(sink) = &mut self.sink else { return };
        match sink.write(from, to, &self.bytes) {
            Ok(()) => self.frame_count += 1,
            Err(error) => self.stop(&error),
        }
    }

    fn stop(&mut self, error: &io::Error) {
        self.sink = None;
        self.is_stopped = true;
        let count = self.frame_count;
        self.remark = Some(format!(
            "the capture ended after {count} frames, for it cannot be written: {error}"
        ));
    }

    fn flush_old(&mut self) {
        if let Some(Err(error)) = self.sink.as_mut().map(Sink::flush_old) {
            self.stop(&error);
        }
    }

    /// Writes all frames of an arrival, with payload that landed.
    fn write_arrived<M: UserMemory>(
        &mut self,
        index: usize,
        landing: Option<&Landing>,
        memory: &mut M,
    ) where
        L: Link<M>,
    {
        let here = self.inner.locator();
        let count = frame_count_of(&self.inner.arrived(index));
        for n in 0..count {
            self.bytes.clear();
            let arrived = self.inner.arrived(index);
            let from = arrived.from;
            let start = n * arrived.stride;
            let end = (start + arrived.stride).min(arrived.bytes.len());
            self.bytes.extend_from_slice(&arrived.bytes[start..end]);
            if let (Some(landed), Some(landing)) = (arrived.landed, landing) {
                let offset = landed.offset + (n * landing.payload_len) as u64;
                let len = if n + 1 == count { landed.last_len } else { landing.payload_len };
                memory.gather(landing.id, offset, len, &mut self.bytes);
            }
            self.write(&from, &here);
        }
    }
}

fn frame_count_of(arrived: &Arrived<'_>) -> usize {
    arrived.landed.map_or(arrived.bytes.len().div_ceil(arrived.stride), |landed| landed.count)
}

impl<L: Send> Holds for Captured<L> {
    type Inside = L;

    fn inside(&self) -> &L {
        &self.inner
    }

    fn inside_mut(&mut self) -> &mut L {
        &mut self.inner
    }
}

impl<M: UserMemory, L: Link<M>> Around<M> for Captured<L> {
    fn send_around(&mut self, burst: &Burst, first: usize, memory: &mut M) -> io::Result<usize> {
        let count = self.inner.send(burst, first, memory)?;
        if self.sink.is_some() {
            let here = self.inner.locator();
            for frame in burst.frames(first).take(count) {
                self.bytes.clear();
                burst.gather(&frame, memory, &mut self.bytes);
                self.write(&here, &frame.to);
            }
        }
        Ok(count)
    }

    /// Every frame goes by `send`, where it is written down.
    fn send_now_around(&mut self, _: &Locator, _: &[u8], _: usize) -> bool {
        false
    }

    fn receive_around(&mut self, landing: Option<&Landing>, memory: &mut M) -> io::Result<usize> {
        let count = self.inner.receive(landing, memory)?;
        if self.sink.is_some() {
            for index in 0..count {
                self.write_arrived(index, landing, memory);
            }
            if count == 0 {
                self.flush_old();
            }
        }
        Ok(count)
    }

    /// Every frame must be seen.
    fn in_memory_around(&mut self) -> Option<&mut dyn InMemory<M>> {
        None
    }

    fn poll_own_remark(&mut self) -> Option<String> {
        self.remark.take()
    }

    fn each_own_counter(&self, show: &mut dyn FnMut(&'static str, u64)) {
        show("captured_frames", self.frame_count);
        show("capture_stopped", u64::from(self.is_stopped));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::Landed;
    use crate::mem::Table;
    use crate::script::Script;

    /// A file in memory with so much room.
    #[derive(Clone)]
    struct Disk(Arc<Mutex<Vec<u8>>>, usize);

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let mut file = self.0.lock().unwrap();
            if file.len() + bytes.len() > self.1 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            file.extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Packets of a capture; blocks as pcapng.rs describes them.
    fn packets(mut file: &[u8]) -> Vec<Vec<u8>> {
        let u32_at =
            |file: &[u8], at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
        let mut found = Vec::new();
        while !file.is_empty() {
            let (kind, len) = (u32_at(file, 0), u32_at(file, 4) as usize);
            if kind == 6 {
                let packet_len = u32_at(file, 20) as usize;
                found.push(file[28..28 + packet_len].to_vec());
            }
            file = &file[len..];
        }
        found
    }

    fn addr(text: &str) -> Locator {
        crate::udp::to_locator(text.parse().unwrap())
    }

    #[test]
    fn frames_out_and_in_are_written_whole() {
        let disk = Disk(Arc::default(), usize::MAX);
        let landed = Landed { offset: 10, count: 2, last_len: 3 };
        let inner = Script {
            locator: addr("10.0.0.1:7000"),
            arriving: vec![
                (addr("10.0.0.2:7001"), b"aabb".to_vec(), 2, Some(landed)),
                (addr("10.0.0.2:7001"), b"plainplain!".to_vec(), 5, None),
            ],
            ..Script::default()
        };
        let mut link = Captured::new(inner, Box::new(disk.clone())).unwrap();
        let mut memory = Table::default();
        let id = memory.insert((0..100).collect::<Vec<u8>>().into());
        let mut burst = Burst::default();
        burst.begin(addr("10.0.0.2:7001"));
        burst.head(b"head");
        burst.user(id, 5, 2);
        assert_eq!(link.send(&burst, 0, &mut memory).unwrap(), 1);
        let landing = Landing { id, offset: 10, len: 50, head_len: 2, payload_len: 4 };
        assert_eq!(link.receive(Some(&landing), &mut memory).unwrap(), 2);
        link.finish().unwrap();
        let packets = packets(&disk.0.lock().unwrap());
        let payloads: Vec<&[u8]> = packets.iter().map(|packet| &packet[42..]).collect();
        let landed_frames: [&[u8]; 2] = [&[b'a', b'a', 10, 11, 12, 13], &[b'b', b'b', 14, 15, 16]];
        assert_eq!(payloads[0], [b'h', b'e', b'a', b'd', 5, 6]);
        assert_eq!(payloads[1..3], landed_frames);
        assert_eq!(payloads[3..], [&b"plain"[..], b"plain", b"!"]);
        let header = &packets[0][14..42];
        assert_eq!(header[12..20], [10, 0, 0, 1, 10, 0, 0, 2]);
        assert_eq!(header[20..], [0x1b, 0x58, 0x1b, 0x59, 0, 14, 0, 0]);
        assert_eq!(ones_complement(&header[..20]), 0, "with its checksum in it");
        assert_eq!(packets[1][26..34], [10, 0, 0, 2, 10, 0, 0, 1]);
    }

    #[test]
    fn other_addresses_get_other_headers() {
        let mut out = Vec::new();
        put_headers(&mut out, &addr("[2001:db8::1]:1"), &addr("[2001:db8::2]:2"), 100);
        assert_eq!((out.len(), &out[12..14]), (62, &[0x86, 0xdd][..]));
        assert_eq!(out[18..20], [0, 108]);
        out.clear();
        put_headers(&mut out, &[1; 24], &addr("10.0.0.1:1"), 100);
        assert_eq!((out.len(), &out[12..14]), (26, &[0x88, 0xb5][..]));
        out.clear();
        put_headers(&mut out, &addr("10.0.0.1:1"), &addr("10.0.0.2:1"), 65_507);
        assert_eq!((out.len(), &out[16..18]), (42, &[0xff, 0xff][..]), "the longest there is");
        let port = crate::sim::NodeId(5).port(1);
        assert_eq!(station_of(&port.to_locator()).mac, port.to_mac());
        assert_ne!(mac_of(&addr("10.0.0.1:1")), mac_of(&addr("10.0.0.1:2")));
    }

    #[test]
    fn a_full_disk_ends_the_capture_not_the_traffic() {
        let disk = Disk(Arc::default(), BUFFER_LEN);
        let mut link = Captured::new(Script::default(), Box::new(disk)).unwrap();
        let (mut burst, mut memory) = (Burst::default(), Table::default());
        for _ in 0..100 {
            burst.begin([1; 24]);
            burst.head(&[0; 1400]);
        }
        for _ in 0..10 {
            assert_eq!(link.send(&burst, 0, &mut memory).unwrap(), 100);
        }
        assert_eq!(link.inside().sent.len(), 1000);
        let remark = Link::<Table>::poll_remark(&mut link).unwrap();
        assert!(remark.contains("capture ended after"), "{remark}");
        assert_eq!(Link::<Table>::poll_remark(&mut link), None);
        let mut stopped = 0;
        Link::<Table>::each_counter(&link, &mut |name, value| {
            stopped += if name == "capture_stopped" { value } else { 0 };
        });
        assert_eq!(stopped, 1);
    }

    #[test]
    fn a_path_that_cannot_be_written_is_an_error_at_once() {
        assert!(Captured::create(Script::default(), Path::new("/nowhere/at/all.pcapng")).is_err());
    }
}
