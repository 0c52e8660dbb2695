//! Frames over real streams: the loopback interface, where nobody else is.

mod crowd;
mod landing;

use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use super::*;
use crate::burst::Train;
use crate::capture::Captured;
use crate::faults::{Faults, Faulty};
use crate::sys::poll;

/// Long enough for a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn open_at(ip: impl Into<IpAddr>) -> Tcp {
    Tcp::open(&TcpConfig::at(SocketAddr::new(ip.into(), 0))).unwrap()
}

fn open() -> Tcp {
    open_at(Ipv4Addr::LOCALHOST)
}

fn counter(link: &Tcp, name: &str) -> u64 {
    let mut found = None;
    link.each_counter(&mut |known, value| {
        if known == name {
            found = Some(value);
        }
    });
    found.unwrap_or_else(|| panic!("no counter {name}"))
}

fn pattern(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|at| ((at * 31 + seed * 7 + (at >> 8)) & 0xff) as u8).collect()
}

fn burst_of<'a>(to: Locator, frames: impl IntoIterator<Item = &'a [u8]>) -> Burst {
    let mut burst = Burst::default();
    for frame in frames {
        burst.begin(to);
        burst.head(frame);
    }
    burst
}

/// Frames that are there, whole, with who sent them.
fn frames_now(link: &mut Tcp) -> Vec<(Locator, Vec<u8>)> {
    let mut found = Vec::new();
    for index in 0..link.receive(None, &mut Table::default()).unwrap() {
        let arrived = link.arrived(index);
        assert_eq!(arrived.landed, None);
        found.extend(arrived.whole(0).map(|frame| (arrived.from, frame.to_vec())));
    }
    found
}

/// All frames that arrive until there are `count`, while `others` are kept going.
fn frames(link: &mut Tcp, others: &mut [&mut Tcp], count: usize) -> Vec<(Locator, Vec<u8>)> {
    let (mut found, until) = (Vec::new(), Instant::now() + PATIENCE);
    while found.len() < count {
        assert!(Instant::now() < until, "{} of {count} frames", found.len());
        found.extend(frames_now(link));
        others.iter_mut().for_each(|other| assert_eq!(frames_now(other), []));
    }
    found
}

#[test]
fn frames_of_all_lengths_go_both_ways_in_order() {
    for ip in [IpAddr::from(Ipv4Addr::LOCALHOST), Ipv6Addr::LOCALHOST.into()] {
        let (mut a, mut b, mut memory) = (open_at(ip), open_at(ip), Table::default());
        let lens = (1..200).chain([1000, 9000, 61_999, FRAME_LEN_MAX, 1, 2, FRAME_LEN_MAX, 3]);
        let all: Vec<_> = lens.map(|len| pattern(len, len)).collect();
        for _ in 0..3 {
            let burst = burst_of(b.locator(), all.iter().map(|frame| &frame[..]));
            assert_eq!(a.send(&burst, 0, &mut memory).unwrap(), all.len());
            let found = frames(&mut b, &mut [&mut a], all.len());
            assert!(found.iter().all(|(from, _)| *from == a.locator()));
            assert!(found.into_iter().map(|(_, frame)| frame).eq(all.iter().cloned()));
            std::mem::swap(&mut a, &mut b);
        }
        assert_eq!(counter(&a, "lost_frames") + counter(&b, "lost_frames"), 0);
    }
}

/// Asks again and again until something holds.
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < until, "{what} never came true");
    }
}

fn addr_of(link: &Tcp) -> SocketAddr {
    from_locator(&link.locator()).unwrap()
}

/// The place that a test claims to be.
fn own_addr() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, 9))
}

/// A stream to a link, opened by hand. The link has read the greeting.
fn raw_stream(to: &mut Tcp) -> TcpStream {
    let before = to.incoming.greeted_count() + counter(to, "streams_closed") as usize;
    let mut stream = TcpStream::connect(addr_of(to)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.write_all(&greeting::write(own_addr())).unwrap();
    until("the greeting", || {
        assert_eq!(frames_now(to), []);
        to.incoming.greeted_count() + counter(to, "streams_closed") as usize > before
    });
    stream
}

fn record(frame: &[u8]) -> Vec<u8> {
    [&(frame.len() as u32).to_le_bytes()[..], frame].concat()
}

#[test]
fn a_lone_frame_goes_without_ado_once_the_stream_is_open() {
    let (mut a, mut b) = (open(), open());
    assert!(!a.send_now(&b.locator(), b"first", 5), "there is no stream yet");
    let burst = burst_of(b.locator(), [&b"first"[..]]);
    a.send(&burst, 0, &mut Table::default()).unwrap();
    assert_eq!(frames(&mut b, &mut [&mut a], 1), [(a.locator(), b"first".to_vec())]);
    let calls = counter(&a, "calls_out");
    assert!(a.send_now(&b.locator(), b"second", 6));
    assert_eq!(counter(&a, "calls_out"), calls + 1);
    assert_eq!(frames(&mut b, &mut [&mut a], 1)[0].1, b"second");
    for wrong in [&[][..], &[0; FRAME_LEN_MAX + 1]] {
        assert!(!a.send_now(&b.locator(), wrong, wrong.len()));
        a.send(&burst_of(b.locator(), [wrong]), 0, &mut Table::default()).unwrap();
    }
    assert_eq!(counter(&a, "lost_frames"), 2, "they would have broken the stream");
    assert!(a.send_now(&b.locator(), b"third", 5));
    assert_eq!(frames(&mut b, &mut [&mut a], 1)[0].1, b"third");
}

#[test]
fn two_frames_go_in_one_call_and_what_the_system_does_not_take_follows() {
    const STRIDE: usize = FRAME_LEN_MAX;
    let (mut a, mut b) = (open(), open());
    let to = b.locator();
    a.send(&burst_of(to, [&b"first"[..]]), 0, &mut Table::default()).unwrap();
    frames(&mut b, &mut [&mut a], 1);
    assert!(!a.send_now(&to, &pattern(30, 1), 10), "three are too many");
    let calls = counter(&a, "calls_out");
    let (mut sent, mut got) = (Vec::new(), Vec::new());
    // Nobody reads until the system takes no more, in the midst of one. Where it stopped between two, there is room for others again.
    while !a.outgoing.is_waiting() {
        let both = pattern(STRIDE + 2_500 + sent.len(), sent.len());
        if a.send_now(&to, &both, STRIDE) {
            sent.extend(both.chunks(STRIDE).map(<[u8]>::to_vec));
            assert!(sent.len() > 2 || counter(&a, "calls_out") == calls + 1);
        } else {
            got.extend(frames_now(&mut b));
        }
    }
    assert!(!a.send_now(&to, b"behind", 6), "it would go before what waits");
    got.extend(frames(&mut b, &mut [&mut a], sent.len() - got.len()));
    assert!(got.into_iter().map(|(_, frame)| frame).eq(sent));
    assert!(!a.outgoing.is_waiting());
}

#[test]
fn an_empty_call_is_mostly_one_system_call() {
    let (mut a, mut b, mut memory) = (open(), open(), Table::default());
    a.send(&burst_of(b.locator(), [&b"hot"[..]]), 0, &mut memory).unwrap();
    frames(&mut b, &mut [&mut a], 1);
    let before = counter(&b, "calls_in");
    for _ in 0..1000 {
        assert_eq!(b.receive(None, &mut memory).unwrap(), 0);
    }
    let calls = counter(&b, "calls_in") - before;
    assert!((1000..=1000 + 17).contains(&calls), "{calls} calls");
}

#[test]
fn the_descriptor_wakes_who_waits() {
    let (mut a, mut b, mut memory) = (open(), open(), Table::default());
    let waiter = Poll::new().unwrap();
    waiter.add(b.wake_fd().unwrap(), 1, poll::READABLE).unwrap();
    let is_awake = || waiter.ask(&mut [Event::default()]).unwrap() == 1;
    for round in 0..3 {
        assert!(!is_awake(), "round {round}: nothing is there");
        a.send(&burst_of(b.locator(), [&b"wake"[..]]), 0, &mut memory).unwrap();
        until("waking", is_awake);
        frames(&mut b, &mut [&mut a], 1);
    }
}

#[test]
fn links_around_the_link_are_links() {
    let faults = Faults { seed: 1, duplicate_ppm: 300_000, ..Faults::default() };
    let mut a: Box<dyn Link<Table>> = Box::new(
        Captured::new(Faulty::new::<Table>(open(), faults), Box::new(Vec::new())).unwrap(),
    );
    let (mut b, mut memory) = (open(), Table::default());
    let all: Vec<Vec<u8>> = (0..300).map(|n| pattern(200, n)).collect();
    let burst = burst_of(b.locator(), all.iter().map(|frame| &frame[..]));
    assert_eq!(a.send(&burst, 0, &mut memory).unwrap(), 300);
    let mut doubled = 0;
    a.each_counter(&mut |name, value| {
        doubled += if name == "faults_duplicated" { value as usize } else { 0 };
    });
    assert!(doubled > 0);
    let mut found = Vec::new();
    until("all frames", || {
        assert_eq!(a.receive(None, &mut memory).unwrap(), 0);
        found.extend(frames_now(&mut b));
        found.len() == 300 + doubled
    });
}

#[test]
fn one_listener_speaks_both_families() {
    let mut both = open_at(Ipv6Addr::UNSPECIFIED);
    let port = addr_of(&both).port();
    for ip in [IpAddr::from(Ipv4Addr::LOCALHOST), Ipv6Addr::LOCALHOST.into()] {
        let (mut peer, mut memory) = (open_at(ip), Table::default());
        let to = to_locator(SocketAddr::new(ip, port));
        peer.send(&burst_of(to, [&b"in"[..]]), 0, &mut memory).unwrap();
        let found = frames(&mut both, &mut [&mut peer], 1);
        assert_eq!(found, [(peer.locator(), b"in".to_vec())], "the locator is the plain one");
        both.send(&burst_of(found[0].0, [&b"out"[..]]), 0, &mut memory).unwrap();
        let found = frames(&mut peer, &mut [&mut both], 1);
        assert_eq!(found, [(to, b"out".to_vec())], "named by the address that it comes from");
    }
}

#[test]
fn ports_and_addresses_that_cannot_be_had_are_named() {
    let taken = open();
    let port = addr_of(&taken).port();
    let at = |text: &str| TcpConfig::at(text.parse().unwrap());
    let error = |config: &TcpConfig| Tcp::open(config).map(drop).unwrap_err().to_string();
    let text = error(&at(&format!("127.0.0.1:{port}")));
    assert!(text.contains(&format!("TCP port {port}")) && text.contains("ss -tlpn"), "{text}");
    let range = TcpConfig { ports: Some(port..=port), ..at("127.0.0.1:0") };
    assert!(error(&range).contains("all TCP ports"), "{}", error(&range));
    assert!(error(&at("192.0.2.77:0")).contains("192.0.2.77 is not an address of this host"));
    let wide = TcpConfig { ports: Some(port..=port.saturating_add(50)), ..at("127.0.0.1:0") };
    assert_ne!(Tcp::open(&wide).unwrap().locator(), taken.locator());
}

#[test]
fn what_udp_reaches_tcp_reaches_and_nothing_else() {
    let (mut a, b) = (open(), open());
    assert!(a.may_reach(&b.locator()));
    assert_eq!(a.frame_len_to(&b.locator()), FRAME_LEN_MAX);
    assert_ne!(a.card_to(&b.locator()), 0);
    let beside = TcpConfig { is_beside: true, ..TcpConfig::at("127.0.0.1:0".parse().unwrap()) };
    assert_eq!(Tcp::open(&beside).unwrap().card_to(&b.locator()), 0);
    let elsewhere = ["192.0.2.1:5", "[::1]:5"].map(|text| to_locator(text.parse().unwrap()));
    for to in elsewhere.into_iter().chain([crate::udp::to_locator(addr_of(&b)), [0; 24]]) {
        assert!(!a.may_reach(&to), "{}", show(&to));
        a.send(&burst_of(to, [&b"x"[..]]), 0, &mut Table::default()).unwrap();
    }
    assert_eq!(counter(&a, "lost_frames"), 4);
}

#[test]
fn memory_in_crumbs_is_sent_and_memory_given_back_is_not() {
    let (mut a, mut b, mut memory) = (open(), open(), Table::default());
    let payload = pattern(60_000, 4);
    let crumbs: Vec<_> = payload.chunks(20).map(<[u8]>::to_vec).collect();
    let (id, gone) = (memory.insert(crumbs.into()), memory.insert(vec![0; 100].into()));
    memory.remove(gone);
    let mut burst = burst_of(b.locator(), [&b"before"[..]]);
    for (id, len) in [(id, 60_000), (gone, 100), (id, 10_000), (gone, 100)] {
        burst.begin(b.locator());
        burst.head(b"head");
        burst.user(id, 0, len);
    }
    burst.begin(b.locator());
    burst.head(b"behind");
    for round in 1..=2 {
        assert_eq!(a.send(&burst, 0, &mut memory).unwrap(), 6);
        let found = frames(&mut b, &mut [&mut a], 4);
        assert_eq!(found[0].1, b"before");
        assert!(found[1].1 == [b"head", &payload[..]].concat());
        assert!(found[2].1 == [b"head", &payload[..10_000]].concat());
        assert_eq!(found[3].1, b"behind");
        assert_eq!(counter(&a, "lost_frames"), 2 * round);
        assert_eq!(counter(&a, "frames_out"), 4 * round);
    }
}
