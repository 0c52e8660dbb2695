//! Peers that are slow, gone, too many, or none at all.

use std::collections::VecDeque;
use std::io::Read as _;

use super::*;

fn full_frame(number: usize) -> Vec<u8> {
    let mut frame = pattern(60_000, number);
    frame[..8].copy_from_slice(&(number as u64).to_le_bytes());
    frame
}

#[test]
fn a_slow_reader_holds_up_nobody_and_its_backlog_is_bounded() {
    let (mut a, mut slow, mut quick) = (open(), open(), open());
    let mut memory = Table::default();
    let hello = |to: &Tcp| burst_of(to.locator(), [&b"hello"[..]]);
    for peer in [&mut slow, &mut quick] {
        a.send(&hello(peer), 0, &mut memory).unwrap();
        frames(peer, &mut [&mut a], 1);
    }
    let mut number = 0;
    until("a loss", || {
        for _ in 0..20 {
            let frame = full_frame(number);
            let burst = burst_of(slow.locator(), [&frame[..]]);
            assert_eq!(a.send(&burst, 0, &mut memory).unwrap(), 1);
            number += 1;
        }
        a.send(&hello(&quick), 0, &mut memory).unwrap();
        assert_eq!(frames(&mut quick, &mut [&mut a], 1)[0].1, b"hello");
        counter(&a, "lost_frames") > 50
    });
    let room = a.outgoing.waiting_room_len();
    assert!(room <= 4 * WAITING_LEN_MAX, "{room} bytes hold what waits");
    let lost = counter(&a, "lost_frames") as usize;
    let found = frames(&mut slow, &mut [&mut a], number - lost);
    let mut last = None;
    for (_, frame) in found {
        let number = u64::from_le_bytes(*frame.first_chunk().unwrap());
        assert!(last < Some(number), "in order");
        assert!(frame == full_frame(number as usize), "whole");
        last = Some(number);
    }
    assert!(!a.outgoing.is_waiting(), "all of it went");
    a.send(&hello(&slow), 0, &mut memory).unwrap();
    assert_eq!(frames(&mut slow, &mut [&mut a], 1)[0].1, b"hello", "the stream is as good as new");
}

#[test]
fn a_broken_stream_is_opened_again_and_a_missing_peer_is_noticed() {
    // An address that no other test has: while nobody listens there, nobody else is given the port.
    let ip = Ipv4Addr::new(127, 0, 0, 77);
    let (mut a, mut b, mut memory) = (open(), open_at(ip), Table::default());
    let (to, addr) = (b.locator(), addr_of(&b));
    let burst = burst_of(to, [&b"hello"[..]]);
    a.send(&burst, 0, &mut memory).unwrap();
    frames(&mut b, &mut [&mut a], 1);
    drop(b);
    let mut notices = Vec::new();
    until("the notice", || {
        assert_eq!(a.send(&burst, 0, &mut memory).unwrap(), 1);
        assert_eq!(frames_now(&mut a), []);
        notices.extend(a.poll_notice());
        !notices.is_empty()
    });
    assert_eq!(notices, [Notice::Unreachable { to, cause: Cause::Closed }]);
    assert!(counter(&a, "streams_broken") >= 1);
    let opened = counter(&a, "streams_opened") + counter(&a, "streams_broken");
    let lost = counter(&a, "lost_frames");
    for _ in 0..100 {
        a.send(&burst, 0, &mut memory).unwrap();
    }
    assert!(counter(&a, "lost_frames") >= lost + 90, "not tried again at once");
    assert!(counter(&a, "streams_opened") + counter(&a, "streams_broken") <= opened + 4);
    let mut b = Tcp::open(&TcpConfig::at(addr)).unwrap();
    until("frames again", || {
        a.send(&burst, 0, &mut memory).unwrap();
        assert_eq!(frames_now(&mut a), []);
        !frames_now(&mut b).is_empty()
    });
}

/// Whether the link has closed the stream.
fn is_closed(mut stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    match stream.read(&mut [0; 8]) {
        Ok(len) => len == 0,
        Err(error) => error.kind() != io::ErrorKind::WouldBlock,
    }
}

#[test]
fn strangers_harm_nobody() {
    let (mut a, mut b, mut memory) = (open(), open(), Table::default());
    let all: Vec<_> = (0..10).map(full_frame).collect();
    let burst = burst_of(b.locator(), all.iter().map(|frame| &frame[..]));
    let mut transfer = |b: &mut Tcp| {
        a.send(&burst, 0, &mut memory).unwrap();
        let found = frames(b, &mut [&mut a], 10);
        assert!(found.into_iter().map(|(_, frame)| frame).eq(all.iter().cloned()));
    };
    transfer(&mut b);
    let addr = addr_of(&b);
    let foreign = greeting::write("127.0.0.2:9".parse().unwrap());
    let greeted = |more: &[u8]| [&greeting::write(own_addr())[..], more].concat();
    let giant = (FRAME_LEN_MAX as u32 + 1).to_le_bytes();
    let cases = [
        pattern(5000, 1),
        foreign.to_vec(),
        greeting::write("0.0.0.0:9".parse().unwrap()).to_vec(),
        greeted(&[0; 4]),
        greeted(&giant),
        greeted(&u32::MAX.to_le_bytes()),
    ];
    for (number, bytes) in cases.iter().enumerate() {
        let mut stream = TcpStream::connect(addr).unwrap();
        stream.write_all(bytes).unwrap();
        transfer(&mut b);
        until("closing", || {
            assert_eq!(frames_now(&mut b), [], "case {number}");
            is_closed(&stream)
        });
    }
    let whole = greeted(&[&record(b"one")[..], &record(b"two"), &giant].concat());
    TcpStream::connect(addr).unwrap().write_all(&whole).unwrap();
    let found = frames(&mut b, &mut [], 2);
    assert_eq!(found[1], (to_locator(own_addr()), b"two".to_vec()), "what was before it counts");
    // Silent ones, half greetings, garbage; the oldest go away by themselves.
    let words = [&b""[..], &foreign[..16], b"GET / HTTP/1.0\r\n\r\n"];
    let mut strangers = VecDeque::new();
    for number in 0..10_000 {
        let mut stranger = TcpStream::connect(addr).unwrap();
        stranger.write_all(words[number % words.len()]).unwrap();
        strangers.push_back(stranger);
        if strangers.len() > 300 {
            strangers.pop_front();
        }
        assert_eq!(frames_now(&mut b), []);
        assert!(b.incoming.count() <= 1 + 1 + 16, "{} streams", b.incoming.count());
        if number % 1000 == 0 {
            transfer(&mut b);
        }
    }
    transfer(&mut b);
    until("all but a few closed", || {
        frames_now(&mut b);
        strangers.iter().filter(|stream| !is_closed(stream)).count() <= 16
    });
    until("all closed: they had their time", || {
        frames_now(&mut b);
        strangers.iter().all(is_closed)
    });
    transfer(&mut b);
    assert_eq!(b.incoming.count(), 1);
}

#[test]
fn a_record_that_is_never_finished_is_dropped_with_its_stream() {
    let mut link = open();
    let mut stream = raw_stream(&mut link);
    stream.write_all(&record(&[1; 500])[..300]).unwrap();
    drop(stream);
    until("the end", || {
        assert_eq!(frames_now(&mut link), []);
        link.incoming.count() == 0
    });
    let mut stream = raw_stream(&mut link);
    stream.write_all(&record(b"new")).unwrap();
    assert_eq!(frames(&mut link, &mut [], 1)[0].1, b"new");
}

#[test]
fn the_stream_not_used_for_longest_makes_room() {
    let bind = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let few = TcpConfig { outgoing_count_max: 2, incoming_count_max: 2, ..TcpConfig::at(bind) };
    let mut a = Tcp::open(&few).unwrap();
    let (mut peers, mut memory) = ([open(), open(), open()], Table::default());
    for number in [0, 1, 0, 2, 0, 1] {
        let peer = &mut peers[number];
        a.send(&burst_of(peer.locator(), [&b"to"[..]]), 0, &mut memory).unwrap();
        assert_eq!(frames(peer, &mut [&mut a], 1)[0].1, b"to");
    }
    assert_eq!(counter(&a, "streams_opened"), 4, "the first was always used lately");
    assert_eq!(counter(&a, "streams_closed"), 2);
    // And the other way: each of three sends to one that reads from two.
    for number in [0, 1, 2] {
        let peer = &mut peers[number];
        peer.send(&burst_of(a.locator(), [&b"from"[..]]), 0, &mut memory).unwrap();
        assert_eq!(frames(&mut a, &mut [peer], 1)[0], (peer.locator(), b"from".to_vec()));
        assert!(a.incoming.count() <= 2);
    }
    assert_eq!(counter(&a, "streams_closed"), 3);
    let peer = &mut peers[0];
    until("the first again", || {
        peer.send(&burst_of(a.locator(), [&b"again"[..]]), 0, &mut memory).unwrap();
        assert_eq!(frames_now(peer), []);
        frames_now(&mut a).iter().any(|(_, frame)| frame == b"again")
    });
}

#[test]
fn all_who_send_have_their_turn() {
    let mut link = open();
    let mut streams: Vec<_> = (0..12).map(|_| raw_stream(&mut link)).collect();
    let (last, busy) = streams.split_last_mut().unwrap();
    let many = record(&pattern(1000, 1)).repeat(4000);
    for stream in busy {
        stream.set_nonblocking(true).unwrap();
        let taken = stream.write(&many).unwrap();
        assert!(taken > 8 * 1004, "{taken} bytes wait");
    }
    last.write_all(&record(b"me too")).unwrap();
    let mut calls = 0;
    let mut others = 0;
    until("the small frame", || {
        calls += 1;
        let found = frames_now(&mut link);
        others += found.len();
        found.iter().any(|(_, frame)| frame == b"me too")
    });
    assert!(calls <= 8, "{calls} calls, {others} frames of others before it");
}

#[test]
fn one_host_with_many_streams_takes_no_place_from_another() {
    let bind = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let mut link = Tcp::open(&TcpConfig { incoming_count_max: 4, ..TcpConfig::at(bind) }).unwrap();
    let (mut peer, mut memory) = (open_at(Ipv4Addr::new(127, 0, 0, 2)), Table::default());
    let burst = burst_of(link.locator(), [&b"still here"[..]]);
    peer.send(&burst, 0, &mut memory).unwrap();
    frames(&mut link, &mut [&mut peer], 1);
    let many: Vec<_> = (0..10).map(|_| raw_stream(&mut link)).collect();
    assert_eq!(link.incoming.count(), 4);
    peer.send(&burst, 0, &mut memory).unwrap();
    assert_eq!(frames(&mut link, &mut [&mut peer], 1)[0].0, peer.locator());
    assert_eq!((counter(&peer, "streams_opened"), counter(&peer, "streams_broken")), (1, 0));
    assert_eq!(many.iter().filter(|stream| !is_closed(stream)).count(), 3);
}

#[test]
fn a_crowd_of_addresses_takes_no_stream_from_who_is_answered() {
    let bind = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let mut link = Tcp::open(&TcpConfig { incoming_count_max: 4, ..TcpConfig::at(bind) }).unwrap();
    let (mut peer, mut memory) = (open_at(Ipv4Addr::new(127, 0, 0, 2)), Table::default());
    let burst = burst_of(link.locator(), [&b"still here"[..]]);
    peer.send(&burst, 0, &mut memory).unwrap();
    frames(&mut link, &mut [&mut peer], 1);
    link.send(&burst_of(peer.locator(), [&b"you are known"[..]]), 0, &mut memory).unwrap();
    frames(&mut peer, &mut [&mut link], 1);
    let crowd: Vec<_> = (3..13)
        .map(|last| {
            let mut one = open_at(Ipv4Addr::new(127, 0, 0, last));
            one.send(&burst_of(link.locator(), [&b"me too"[..]]), 0, &mut memory).unwrap();
            assert_eq!(frames(&mut link, &mut [&mut one], 1)[0].0, one.locator());
            assert!(link.incoming.count() <= 4);
            one
        })
        .collect();
    peer.send(&burst, 0, &mut memory).unwrap();
    assert_eq!(frames(&mut link, &mut [&mut peer], 1)[0].0, peer.locator());
    assert_eq!((counter(&peer, "streams_opened"), counter(&peer, "streams_broken")), (1, 0));
    drop(crowd);
}
