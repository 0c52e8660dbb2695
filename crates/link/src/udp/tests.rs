//! Frames over real sockets: the loopback interface, where nobody else is.

mod landing;

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use super::*;
use crate::capture::Captured;
use crate::faults::{Faults, Faulty};
use crate::mem::{Memory, MemoryId};

const HEAD_LEN: usize = 40;
/// Long enough for a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn open_at(ip: impl Into<IpAddr>) -> Udp {
    Udp::open(&UdpConfig::at(SocketAddr::new(ip.into(), 0))).unwrap()
}

fn open() -> Udp {
    open_at(Ipv4Addr::LOCALHOST)
}

fn counter(link: &Udp, name: &str) -> u64 {
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

/// All frames that arrive until there are `count`, whole, with who sent them.
fn frames(link: &mut Udp, count: usize) -> Vec<(Locator, Vec<u8>)> {
    let mut memory = Table::default();
    let (mut found, until) = (Vec::new(), Instant::now() + PATIENCE);
    while found.len() < count {
        assert!(Instant::now() < until, "{} of {count} frames", found.len());
        for index in 0..link.receive(None, &mut memory).unwrap() {
            let arrived = link.arrived(index);
            assert_eq!(arrived.landed, None);
            found.extend(arrived.whole(0).map(|frame| (arrived.from, frame.to_vec())));
        }
    }
    found
}

fn burst_of<'a>(to: Locator, frames: impl IntoIterator<Item = &'a [u8]>) -> Burst {
    let mut burst = Burst::default();
    for frame in frames {
        burst.begin(to);
        burst.head(frame);
    }
    burst
}

fn send_all(link: &mut Udp, burst: &Burst, memory: &mut Table) {
    let (mut at, until) = (0, Instant::now() + PATIENCE);
    while at < burst.len() {
        assert!(Instant::now() < until, "{at} of {} frames sent", burst.len());
        at += link.send(burst, at, memory).unwrap();
    }
}

#[test]
fn frames_behind_each_other_leave_at_once_as_one_train_or_not_at_all() {
    let (mut a, mut b) = (open(), open());
    let (to, bytes) = (b.locator(), pattern(3 * 1000 + 77, 5));
    let can_train = a.about().train_count_max > 1;
    assert_eq!(a.send_now(&to, &bytes, 1000), can_train);
    if !can_train {
        return; // the system knows no trains
    }
    let sent = ["calls_out", "frames_out", "trains_out"].map(|name| counter(&a, name));
    assert_eq!(sent, [1, 4, 1]);
    let got: Vec<Vec<u8>> = frames(&mut b, 4).into_iter().map(|frame| frame.1).collect();
    assert_eq!(got, bytes.chunks(1000).map(<[u8]>::to_vec).collect::<Vec<_>>());
    let too_many = pattern((a.about().train_count_max + 1) * 10, 6);
    let too_long = pattern(a.about().train_len_max + 1, 7);
    let before = counter(&a, "calls_out");
    assert!(!a.send_now(&to, &too_many, 10) && !a.send_now(&to, &too_long, 1400));
    a.set_trains(false);
    assert!(!a.send_now(&to, &bytes, 1000), "trains are switched off");
    assert_eq!(counter(&a, "calls_out"), before, "none of them was tried");
}

#[test]
fn lone_frames_go_both_ways() {
    for ip in [IpAddr::from(Ipv4Addr::LOCALHOST), Ipv6Addr::LOCALHOST.into()] {
        let (mut a, mut b, mut memory) = (open_at(ip), open_at(ip), Table::default());
        let burst = burst_of(b.locator(), [&b"hello"[..]]);
        assert_eq!(a.send(&burst, 0, &mut memory).unwrap(), 1);
        assert_eq!(counter(&a, "calls_out"), 1);
        assert_eq!(frames(&mut b, 1), [(a.locator(), b"hello".to_vec())]);
        send_all(&mut b, &burst_of(a.locator(), [&b"back"[..]]), &mut memory);
        assert_eq!(frames(&mut a, 1), [(b.locator(), b"back".to_vec())]);
        let calls = counter(&a, "calls_in");
        assert_eq!(a.receive(None, &mut memory).unwrap(), 0);
        assert_eq!(counter(&a, "calls_in"), calls + 1, "an empty poll is one call");
    }
}

#[test]
fn a_datagram_that_comes_alone_is_not_asked_for_company() {
    let ip = Ipv4Addr::LOCALHOST;
    let (mut a, mut b, mut memory) = (open_at(ip), open_at(ip), Table::default());
    let burst = burst_of(b.locator(), [&b"hello"[..]]);
    for _ in 0..3 {
        send_all(&mut a, &burst, &mut memory);
        frames(&mut b, 1);
        assert_eq!(b.plan(None).0, 1, "an answer comes alone: the next call finds nothing");
        assert_eq!(b.receive(None, &mut memory).unwrap(), 0);
        assert_eq!(b.plan(None).0, 1);
    }
    for _ in 0..2 {
        send_all(&mut a, &burst, &mut memory);
    }
    while b.receive(None, &mut memory).unwrap() == 0 {}
    while b.receive(None, &mut memory).unwrap() == 0 {}
    // Unless an empty call came between the two.
    assert!(b.recent.count_before == 0 || b.plan(None).0 > 1, "two in a row may be many");
}

#[test]
fn one_socket_speaks_both_families() {
    let mut both = open_at(Ipv6Addr::UNSPECIFIED);
    let port = from_locator(&both.locator()).unwrap().port();
    for ip in [IpAddr::from(Ipv4Addr::LOCALHOST), Ipv6Addr::LOCALHOST.into()] {
        let (mut peer, mut memory) = (open_at(ip), Table::default());
        let to = to_locator(SocketAddr::new(ip, port));
        send_all(&mut peer, &burst_of(to, [&b"in"[..]]), &mut memory);
        let found = frames(&mut both, 1);
        assert_eq!(found, [(peer.locator(), b"in".to_vec())], "the locator is the plain one");
        send_all(&mut both, &burst_of(found[0].0, [&b"out"[..]]), &mut memory);
        assert_eq!(frames(&mut peer, 1)[0].1, b"out");
    }
}

#[test]
fn neighbours_leave_as_trains_and_arrive_as_they_were() {
    let (mut a, mut b, mut c) = (open(), open(), open());
    let payload = pattern(100_000, 1);
    let mut memory = Table::default();
    let id = memory.insert(vec![payload[..30_000].to_vec(), payload[30_000..].to_vec()].into());
    let mut burst = Burst::default();
    let mut sent = Vec::new();
    let heads: Vec<Vec<u8>> = (0..91).map(|n| pattern(HEAD_LEN, n)).collect();
    for (n, head) in heads.iter().enumerate() {
        burst.begin(b.locator());
        burst.head(head);
        let (at, len) = (n * 1000, if n == 90 { 500 } else { 1000 });
        burst.user(id, at as u64, len as u32);
        sent.push([&head[..], &payload[at..at + len]].concat());
    }
    burst.begin(c.locator());
    burst.head(b"elsewhere");
    burst.begin(b.locator());
    burst.head(b"last");
    sent.push(b"last".to_vec());
    send_all(&mut a, &burst, &mut memory);
    let found = frames(&mut b, 92);
    assert!(found.iter().all(|(from, _)| *from == a.locator()));
    assert!(found.into_iter().map(|(_, bytes)| bytes).eq(sent));
    assert_eq!(frames(&mut c, 1)[0].1, b"elsewhere");
    if a.about().train_count_max > 0 {
        assert_eq!(counter(&a, "trains_out"), 2);
        assert_eq!(counter(&a, "calls_out"), 1);
    }
}

#[test]
fn a_train_of_a_burst_arrives_as_its_frames() {
    let payload = pattern(100_000, 1);
    let heads = pattern(91 * HEAD_LEN, 2);
    let pieces = vec![payload[..30_000].to_vec(), payload[30_000..].to_vec()];
    for (memory_of, is_on) in [(0, true), (0, false), (1, true), (1, false)] {
        let (mut a, mut b, mut memory) = (open(), open(), Table::default());
        a.set_trains(is_on);
        let id = memory.insert(if memory_of == 0 {
            payload.clone().into()
        } else {
            pieces.clone().into()
        });
        let (head_len, payload_len, last_len) = (HEAD_LEN as u32, 1000, 500);
        let train =
            crate::burst::Train { count: 91, head_len, payload_len, last_len, id, offset: 5000 };
        let mut burst = burst_of(b.locator(), [&b"before"[..]]);
        burst.train(b.locator(), &heads, train);
        burst.begin(b.locator());
        burst.head(b"behind");
        send_all(&mut a, &burst, &mut memory);
        let found = frames(&mut b, 93);
        assert_eq!((&found[0].1[..], &found[92].1[..]), (&b"before"[..], &b"behind"[..]));
        for (n, (_, frame)) in found[1..92].iter().enumerate() {
            let (at, len) = (5000 + n * 1000, if n == 90 { 500 } else { 1000 });
            let head = &heads[n * HEAD_LEN..(n + 1) * HEAD_LEN];
            assert!(*frame == [head, &payload[at..at + len]].concat(), "frame {n}");
        }
        assert_eq!(counter(&a, "frames_out"), 93);
        if a.about().train_count_max > 0 {
            assert!(counter(&a, "calls_out") <= 2, "{} calls", counter(&a, "calls_out"));
        }
        memory.remove(id);
        send_all(&mut a, &burst, &mut memory);
        assert_eq!(counter(&a, "void_frames"), 91, "nothing of what was given back is sent");
        assert_eq!(frames(&mut b, 2).len(), 2);
    }
}

#[test]
fn memory_that_is_not_there_costs_its_own_frames_alone() {
    for is_train in [false, true] {
        let (mut a, mut b, mut memory) = (open(), open(), Table::default());
        let (good, bad) =
            (memory.insert(pattern(1000, 1).into()), memory.insert(Memory::unmapped(1000)));
        let mut burst = Burst::default();
        for id in [good, bad, good] {
            burst.begin(b.locator());
            burst.head(&[id.0 as u8; 40]);
            burst.user(id, 0, if is_train { 1000 } else { 900 - 100 * id.0 as u32 });
        }
        let trains = a.about().train_count_max;
        assert_eq!(a.send(&burst, 0, &mut memory).unwrap(), 3);
        assert_eq!(frames(&mut b, 2).len(), 2);
        assert_eq!((counter(&a, "send_failed"), a.about().train_count_max), (1, trains));
    }
}

#[test]
fn trains_can_be_switched_off() {
    let (mut a, mut b, mut memory) = (open(), open(), Table::default());
    a.set_trains(false);
    assert_eq!((a.about().train_count_max, a.about().train_len_max), (0, 0));
    let all = vec![pattern(1000, 3); 10];
    send_all(&mut a, &burst_of(b.locator(), all.iter().map(|f| &f[..])), &mut memory);
    assert!(frames(&mut b, 10).into_iter().map(|(_, bytes)| bytes).eq(all));
    assert_eq!((counter(&a, "trains_out"), counter(&a, "calls_out")), (0, 1));
    a.set_trains(true);
    assert_eq!(a.about().train_count_max, a.train_count_max);
}

#[test]
fn trains_that_the_system_refuses_are_given_up() {
    let (mut a, mut b, mut memory) = (open(), open(), Table::default());
    if a.about().train_count_max == 0 {
        return; // this system knows none
    }
    a.socket.leave_out_checksums().unwrap();
    let all = vec![pattern(1000, 3); 10];
    send_all(&mut a, &burst_of(b.locator(), all.iter().map(|f| &f[..])), &mut memory);
    assert!(frames(&mut b, 10).into_iter().map(|(_, bytes)| bytes).eq(all), "all went, apart");
    assert_eq!((a.about().train_count_max, counter(&a, "gso_off")), (0, 1));
    let remark = a.poll_remark().unwrap();
    assert!(remark.starts_with("trains are off: the way to 127.0.0.1:"), "{remark}");
    a.set_trains(true);
    assert_eq!(a.about().train_count_max, 0, "given up is given up");
}

#[test]
fn the_longest_frame_passes_and_one_byte_more_is_noticed() {
    for ip in [IpAddr::from(Ipv4Addr::LOCALHOST), Ipv6Addr::LOCALHOST.into()] {
        let (mut a, mut b, mut memory) = (open_at(ip), open_at(ip), Table::default());
        let len = a.frame_len_to(&b.locator());
        assert_eq!(len, a.about().frame_len_max);
        let longest = pattern(len, 5);
        send_all(&mut a, &burst_of(b.locator(), [&longest[..]]), &mut memory);
        assert_eq!(frames(&mut b, 1)[0].1, longest);
        let too_long = pattern(len + 1, 5);
        let burst = burst_of(b.locator(), [&too_long[..], b"next"]);
        send_all(&mut a, &burst, &mut memory);
        assert_eq!(frames(&mut b, 1)[0].1, b"next");
        let notice = Notice::TooLong { to: b.locator(), frame_len_max: len };
        assert_eq!((a.poll_notice(), a.poll_notice()), (Some(notice), None));
        assert_eq!(counter(&a, "send_failed"), 1);
    }
}

/// The host there says so, and quotes what was sent.
fn refused(quote: &[u8]) -> Cause {
    Cause::Refused(quote.to_vec())
}

#[test]
fn a_port_without_a_socket_is_noticed_and_others_are_still_reached() {
    for ip in [IpAddr::from(Ipv4Addr::LOCALHOST), Ipv6Addr::LOCALHOST.into()] {
        let (mut a, mut b, mut memory) = (open_at(ip), open_at(ip), Table::default());
        let gone = open_at(ip).locator();
        for n in 0..4 {
            send_all(&mut a, &burst_of(gone, [&b"anybody?"[..]]), &mut memory);
            send_all(&mut a, &burst_of(b.locator(), [&b"you?"[..]]), &mut memory);
            assert_eq!(frames(&mut b, 1)[0].1, b"you?", "round {n}");
        }
        let until = Instant::now() + PATIENCE;
        let notice = loop {
            a.receive(None, &mut memory).unwrap();
            if let Some(notice) = a.poll_notice() {
                break notice;
            }
            assert!(Instant::now() < until);
        };
        assert_eq!(notice, Notice::Unreachable { to: gone, cause: refused(b"anybody?") });
    }
}

#[test]
fn an_error_that_a_send_is_told_of_is_noticed_too() {
    let (mut a, mut b, mut memory) = (open(), open(), Table::default());
    let gone = open().locator();
    send_all(&mut a, &burst_of(gone, [&b"anybody?"[..]]), &mut memory);
    // The answer comes soon, but not at once: some send is the first that is told.
    let until = Instant::now() + PATIENCE;
    let notice = loop {
        send_all(&mut a, &burst_of(b.locator(), [&b"you?"[..]]), &mut memory);
        assert_eq!(frames(&mut b, 1)[0].1, b"you?", "the frame that was told leaves all the same");
        if let Some(notice) = a.poll_notice() {
            break notice;
        }
        assert!(Instant::now() < until, "no send was told");
    };
    assert_eq!(notice, Notice::Unreachable { to: gone, cause: refused(b"anybody?") });
}

#[test]
fn places_that_are_none_are_lost_and_noticed() {
    let (mut a, mut b, mut memory) = (open(), open(), Table::default());
    let mut burst = burst_of([7; 24], [&b"x"[..]]);
    burst.begin(to_locator("[::1]:9".parse().unwrap()));
    burst.head(b"y");
    burst.begin(b.locator());
    burst.head(b"z");
    send_all(&mut a, &burst, &mut memory);
    assert_eq!(frames(&mut b, 1)[0].1, b"z");
    assert_eq!(counter(&a, "send_failed"), 2);
    assert_eq!(a.poll_notice(), Some(Notice::Unreachable { to: [7; 24], cause: Cause::Void }));
    assert!(a.poll_remark().unwrap().starts_with("locator 0707"));
    assert!(a.poll_remark().unwrap().starts_with("[::1]:9 is no place"));
    assert_eq!(a.poll_remark(), None);
}

#[test]
fn memory_given_back_before_the_send_makes_a_lost_frame() {
    let (mut a, mut b, mut memory) = (open(), open(), Table::default());
    let id = memory.insert(vec![1; 100].into());
    let mut burst = Burst::default();
    for n in 0..3 {
        burst.begin(b.locator());
        burst.head(&[n; 4]);
        burst.user(if n == 1 { MemoryId(id.0 + (1 << 32)) } else { id }, 0, 100);
    }
    send_all(&mut a, &burst, &mut memory);
    let found = frames(&mut b, 2);
    assert_eq!((found[0].1[0], found[1].1[0]), (0, 2));
    assert_eq!(counter(&a, "void_frames"), 1);
}

#[test]
fn memory_in_crumbs_is_sent_and_received() {
    let (mut a, mut b, mut memory) = (open(), open(), Table::default());
    let payload = pattern(3000, 9);
    let crumbs: Vec<Vec<u8>> = payload.chunks(1).map(<[u8]>::to_vec).collect();
    let id = memory.insert(crumbs.into());
    let mut burst = Burst::default();
    for n in 0..2_u64 {
        burst.begin(b.locator());
        burst.head(b"head");
        burst.user(id, n * 1500, 1500); // more parts than one call takes
    }
    for n in 0..6_u64 {
        burst.begin(b.locator());
        burst.head(b"head");
        burst.user(id, n * 500, 500); // two frames a train
    }
    send_all(&mut a, &burst, &mut memory);
    let found = frames(&mut b, 8);
    for (n, (_, frame)) in found.iter().enumerate() {
        let (at, len) = if n < 2 { (n * 1500, 1500) } else { ((n - 2) * 500, 500) };
        assert_eq!(frame[..4], *b"head");
        assert_eq!(frame[4..], payload[at..at + len], "frame {n}");
    }
}

#[test]
fn many_small_frames_arrive_in_few_calls() {
    let (mut a, mut b, mut memory) = (open(), open(), Table::default());
    a.set_trains(false);
    let all: Vec<Vec<u8>> = (0..512_usize).map(|n| pattern(8 + n % 5, n)).collect();
    send_all(&mut a, &burst_of(b.locator(), all.iter().map(|f| &f[..])), &mut memory);
    assert!(frames(&mut b, 512).into_iter().map(|(_, bytes)| bytes).eq(all));
    assert!(counter(&a, "calls_out") <= 8 && counter(&b, "calls_in") <= 16);
}

#[test]
fn more_than_the_receiver_holds_is_counted() {
    let config =
        UdpConfig { receive_buffer_len: 4096, ..UdpConfig::at("127.0.0.1:0".parse().unwrap()) };
    let (mut a, mut b, mut memory) = (open(), Udp::open(&config).unwrap(), Table::default());
    a.set_trains(false);
    let frame = pattern(1400, 1);
    send_all(&mut a, &burst_of(b.locator(), vec![&frame[..]; 100]), &mut memory);
    let mut kept = 0;
    while b.receive(None, &mut memory).unwrap() > 0 {
        kept += b.arrivals.len();
    }
    send_all(&mut a, &burst_of(b.locator(), [&frame[..]]), &mut memory);
    frames(&mut b, 1);
    assert!(kept > 0 && kept < 100);
    assert_eq!(counter(&b, "overflow_drops"), 100 - kept as u64);
}

#[test]
fn ports_and_addresses_that_cannot_be_had_are_named() {
    let taken = open();
    let port = from_locator(&taken.locator()).unwrap().port();
    let at = |text: &str| UdpConfig::at(text.parse().unwrap());
    let error = |config: &UdpConfig| Udp::open(config).map(drop).unwrap_err().to_string();
    let text = error(&at(&format!("127.0.0.1:{port}")));
    assert!(text.contains(&port.to_string()) && text.contains("in use"), "{text}");
    let range = UdpConfig { ports: Some(port..=port), ..at("127.0.0.1:0") };
    let text = error(&range);
    assert!(text.contains("all UDP ports") && text.contains(&port.to_string()), "{text}");
    assert!(error(&at("192.0.2.77:0")).contains("192.0.2.77 is not an address of this host"));
    let backwards =
        UdpConfig { ports: Some(std::ops::RangeInclusive::new(9, 5)), ..at("127.0.0.1:0") };
    assert!(error(&backwards).contains("9-5"));
    let wide = UdpConfig { ports: Some(port..=port.saturating_add(50)), ..at("127.0.0.1:0") };
    let next = Udp::open(&wide).unwrap();
    assert_ne!(next.locator(), taken.locator());
}

#[test]
fn a_socket_handed_in_is_used_and_another_thing_is_refused() {
    let config = UdpConfig::default();
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let addr = socket.local_addr().unwrap();
    let (mut a, mut b) = (Udp::from_fd(socket.into(), &config).unwrap(), open());
    assert_eq!(from_locator(&a.locator()), Some(addr));
    send_all(&mut b, &burst_of(a.locator(), [&b"in"[..]]), &mut Table::default());
    assert_eq!(frames(&mut a, 1)[0].1, b"in");
    let file = std::fs::File::open("/dev/null").unwrap();
    assert!(matches!(Udp::from_fd(file.into(), &config), Err(UdpError::NotUdp)));
    let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    assert!(matches!(Udp::from_fd(tcp.into(), &config), Err(UdpError::NotUdp)));
}

#[test]
fn a_wildcard_has_an_address_others_can_use() {
    for ip in [IpAddr::from(Ipv4Addr::UNSPECIFIED), Ipv6Addr::UNSPECIFIED.into()] {
        let addr = from_locator(&open_at(ip).locator()).unwrap();
        assert!(!addr.ip().is_unspecified() && addr.port() != 0);
    }
}

#[test]
fn the_backlog_is_really_held() {
    // As much as the system gives, and what a user without rights gets on most.
    let small = UdpConfig {
        receive_buffer_len: 212_992,
        buffers_unprivileged: true,
        ..UdpConfig::at("127.0.0.1:0".parse().unwrap())
    };
    for (is_train, count, is_small) in
        [(true, 40, false), (false, 1, false), (true, 40, true), (false, 1, true)]
    {
        let (mut a, mut memory) = (open(), Table::default());
        let mut b = if is_small { Udp::open(&small).unwrap() } else { open() };
        a.set_trains(is_train);
        let (single, train) = b.backlog_lens();
        assert!(0 < single && single <= train);
        let (held, len) = (if is_train { train } else { single } as usize, 1472);
        let frame = pattern(len, 1);
        let burst = burst_of(b.locator(), vec![&frame[..]; held / len / count * count]);
        send_all(&mut a, &burst, &mut memory);
        assert_eq!(frames(&mut b, burst.len()).len(), burst.len());
        send_all(&mut a, &burst_of(b.locator(), [&frame[..]]), &mut memory);
        frames(&mut b, 1);
        assert_eq!(counter(&b, "overflow_drops"), 0);
    }
}

#[test]
fn the_socket_wakes_who_waits() {
    let (mut a, b) = (open(), open());
    let fd = b.wake_fd().unwrap().as_fd().try_clone_to_owned().unwrap();
    let socket = std::net::UdpSocket::from(fd);
    let waiting = std::thread::spawn(move || -> io::Result<usize> {
        socket.set_nonblocking(false)?;
        socket.peek(&mut [0; 8])
    });
    send_all(&mut a, &burst_of(b.locator(), [&b"wake"[..]]), &mut Table::default());
    assert_eq!(waiting.join().unwrap().unwrap(), 4);
}

#[test]
fn links_around_the_link_are_links() {
    let faults = Faults { seed: 1, loss_ppm: 300_000, duplicate_ppm: 300_000, ..Faults::default() };
    let path = std::env::temp_dir().join(format!("packhorse-{}-around", std::process::id()));
    let faulty = Faulty::new::<Table>(open(), faults);
    let mut a: Box<dyn Link<Table>> = Box::new(Captured::create(faulty, &path).unwrap());
    let (mut b, mut memory) = (open(), Table::default());
    let all: Vec<Vec<u8>> = (0..1000).map(|n| pattern(200, n)).collect();
    let burst = burst_of(b.locator(), all.iter().map(|frame| &frame[..]));
    assert_eq!(a.send(&burst, 0, &mut memory).unwrap(), 1000);
    let mut counts = [0; 3];
    a.each_counter(&mut |name, value| match name {
        "faults_lost" => counts[0] = value as usize,
        "faults_duplicated" => counts[1] = value as usize,
        "captured_frames" => counts[2] = value as usize,
        _ => {}
    });
    let [lost, duplicated, captured] = counts;
    assert!(lost > 200 && duplicated > 100 && captured == 1000);
    let found = frames(&mut b, 1000 - lost + duplicated);
    assert!(found.iter().all(|(from, bytes)| *from == a.locator() && all.contains(bytes)));
    assert_eq!(a.receive(None, &mut memory).unwrap(), 0);
    assert!(a.wake_fd().is_some() && !a.about().is_checked);
    drop(a);
    assert!(std::fs::metadata(&path).unwrap().len() > 200_000, "written when dropped");
    std::fs::remove_file(path).unwrap();
}
