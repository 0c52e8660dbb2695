//! A stranger who reaches the port but has no address: as fast as a socket takes it, random bytes, frames of a real
//! exchange replayed and altered, forged hellos. He is counted; nothing of his is delivered; nobody else suffers but in
//! time.

use std::collections::HashMap;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use packhorse::{Address, Builder, Endpoint, Placement, Wanted};

/// Long enough to be under way while the stranger shouts.
const LEN: usize = 24 << 20;
/// The stranger is heard for so long at most: then the transfer has the line for itself.
const FLOOD_MAX: Duration = Duration::from_secs(5);

fn pattern(seed: u64, len: usize) -> Vec<u8> {
    (0..len as u64).map(|at| (seed.wrapping_mul(31) + at * 7 + at / 253) as u8).collect()
}

/// Numbers that need not be good, only many.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }
}

fn builder(placement: Placement) -> Builder {
    let builder =
        Builder::plain().link("udp".parse().unwrap()).bind([127, 0, 0, 1]).placement(placement);
    builder.linger(Duration::from_secs(1))
}

fn port_of(address: &Address) -> u16 {
    packhorse_link::udp::from_locator(&address.locator.0).unwrap().port()
}

fn counters(endpoint: &Endpoint) -> HashMap<String, u64> {
    endpoint.counters().into_iter().collect()
}

/// A file that is gone when the test is over.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("packhorse-{}-{name}.pcapng", std::process::id())))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        std::fs::remove_file(&self.0).ok(); // it may never have been made
    }
}

/// The frames a capture has for a port: Ethernet, IPv4 and UDP headers taken off.
fn frames_to(port: u16, capture: &Path) -> Vec<Vec<u8>> {
    const HEADERS_LEN: usize = 14 + 20 + 8;
    const PACKET_BLOCK: u32 = 6;
    let file = std::fs::read(capture).unwrap();
    let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
    let (mut at, mut frames) = (0, Vec::new());
    while at + 12 <= file.len() {
        let (kind, block_len) = (word(at), word(at + 4) as usize);
        if kind == PACKET_BLOCK {
            let Some(packet) = file.get(at + 28..at + 28 + word(at + 20) as usize) else { break };
            if packet.len() > HEADERS_LEN && packet[36..38] == port.to_be_bytes() {
                frames.push(packet[HEADERS_LEN..].to_vec());
            }
        }
        at += block_len.max(12);
    }
    frames
}

/// What a stranger makes of frames he has seen.
fn forge(rng: &mut Rng, seen: &[Vec<u8>]) -> Vec<u8> {
    let mut frame = seen[rng.below(seen.len())].clone();
    match rng.below(5) {
        // As it was.
        0 => {}
        // Random bytes of any length.
        1 => frame = (0..rng.below(1473)).map(|_| rng.next() as u8).collect(),
        // One byte changed: a check, an association, an incarnation, a record, payload.
        2 => {
            let at = rng.below(frame.len());
            frame[at] ^= 1 << rng.below(8);
        }
        // The heads of one, the rest of another.
        3 => {
            let other = &seen[rng.below(seen.len())];
            let at = rng.below(frame.len().min(other.len()));
            frame.truncate(at);
            frame.extend_from_slice(&other[at..]);
        }
        // A hello (the first frame of a contact) of a life that never was.
        _ => {
            frame.clone_from(&seen[0]);
            let at = 16 + rng.below(frame.len() - 24);
            frame[at..at + 8].copy_from_slice(&rng.next().to_le_bytes());
        }
    }
    frame
}

/// Sends forged frames as fast as the socket takes them, from port after port.
fn flood(port: u16, seen: &[Vec<u8>], seed: u64, stop: &AtomicBool, sent: &AtomicU64) {
    let mut rng = Rng(seed);
    let forged: Vec<Vec<u8>> = (0..4000).map(|_| forge(&mut rng, seen)).collect();
    let start = Instant::now();
    while !stop.load(Ordering::Relaxed) && start.elapsed() < FLOOD_MAX {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        for frame in &forged {
            if socket.send_to(frame, ("127.0.0.1", port)).is_ok() {
                sent.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// Moves a message and compares it. Both ends are looked after by one thread: inline endpoints need that.
fn exchange(from: &Endpoint, to: &Endpoint, wanted: Wanted, (tag, len): (u64, usize)) {
    let peer = from.peer(&to.address()).unwrap();
    let mut coming = to.recv(wanted, vec![0; len]);
    let mut going = from.send(peer, tag, pattern(tag, len));
    let (mut sent, mut received) = (None, None);
    let start = Instant::now();
    while sent.is_none() || received.is_none() {
        from.turn();
        to.turn(); // also when it has its message: the other waits to hear so
        sent = sent.or_else(|| going.test());
        received = received.or_else(|| coming.test());
        assert!(start.elapsed() < Duration::from_secs(60), "no end in a minute");
    }
    let message = received.unwrap().unwrap();
    assert_eq!((message.envelope.tag, message.envelope.len), (tag, len as u64));
    assert!(message.buffer == sent.unwrap().unwrap(), "not what was sent");
}

fn exchange_some(from: &Endpoint, to: &Endpoint) {
    for len in [8, 3000, 900_000] {
        exchange(from, to, Wanted::tag(len), (len, len as usize));
    }
}

/// Turns both, which inline endpoints need, until something is so.
fn turn_until(one: &Endpoint, other: &Endpoint, what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(60), "{what} not in a minute");
        for _ in 0..100 {
            one.turn();
            other.turn();
        }
    }
}

fn shout_at(placement: Placement) {
    let to = builder(placement).open().unwrap();
    // The stranger has overheard an association that ended and one that lives.
    let files = ["ended", "living"].map(|name| Scratch::new(&format!("{name}-{placement:?}")));
    exchange_some(&builder(placement).capture(&files[0].0).open().unwrap(), &to);
    let from = builder(placement).capture(&files[1].0).open().unwrap();
    exchange_some(&from, &to);
    let port = port_of(&to.address());
    // The capture is written when nothing happens.
    let overheard = || files.each_ref().map(|file| frames_to(port, &file.0));
    turn_until(&from, &to, "eight frames of each overheard", || {
        overheard().iter().all(|seen| seen.len() >= 8)
    });
    let seen = overheard().concat();
    let before = counters(&to);
    let (stop, sent) = (AtomicBool::new(false), AtomicU64::new(0));
    let took = std::thread::scope(|scope| {
        scope.spawn(|| flood(port, &seen, 7, &stop, &sent));
        while sent.load(Ordering::Relaxed) < 10_000 {
            to.turn(); // he began long before
        }
        let start = Instant::now();
        exchange(&from, &to, Wanted::any(), (1, LEN));
        stop.store(true, Ordering::Relaxed);
        start.elapsed()
    });
    // What still waits in the socket: all of it has come when one look after the other finds nothing more.
    let mut counted = (0, 0);
    turn_until(&from, &to, "the socket emptied", || {
        let now = counters(&to);
        let before =
            std::mem::replace(&mut counted, (now["frames_unkeyed"], now["packets_duplicate"]));
        before == counted
    });
    assert!(to.probe(Wanted::any()).is_none(), "something of the stranger's was delivered");
    let after = counters(&to);
    let more = |name: &str| after[name] - before[name];
    println!(
        "{placement:?}: {} frames of a stranger, {} of them unkeyed, {} old; {} MB came in {took:.1?}",
        sent.load(Ordering::Relaxed),
        more("frames_unkeyed"),
        more("packets_duplicate"),
        LEN >> 20,
    );
    assert_eq!(more("messages_in"), 1, "one message was sent");
    assert!(more("frames_unkeyed") > 1000, "{} frames were counted", more("frames_unkeyed"));
    assert!(more("packets_duplicate") > 100, "{} were old", more("packets_duplicate"));
    assert_eq!(
        (more("joined"), more("renewed"), more("left")),
        (0, 0, 0),
        "no hello of his was believed"
    );
    assert_eq!(more("locators_changed"), 0, "nor that anybody moved");
    exchange(&from, &to, Wanted::tag(2), (2, 100)); // the honest go on
}

#[test]
fn a_stranger_at_line_rate_is_counted_and_changes_nothing() {
    shout_at(Placement::Thread);
}

#[test]
fn nor_without_a_helper() {
    shout_at(Placement::Inline);
}
