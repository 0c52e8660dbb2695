//! Raw Ethernet between two hosts that are network namespaces joined by a veth pair, made and removed by each test.
//!
//! A namespace is entered by a process, so what must be done inside is done by this test program again, started with `ip
//! netns exec` and told its role in the environment. Mostly its role is to open a socket and hand it over: the links
//! themselves are then all in one process. Needs root and iproute2; `cargo xtask test` says where that is missing.

mod frames;
mod hosts;
mod neighbours;

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::UdpSocket;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use packhorse_link::mem::{MemoryId, Table};
use packhorse_link::packet::{self, OnDemand, Packet, PacketConfig, PacketError};
use packhorse_link::{Burst, Cause, Landing, Link, Locator, Notice, ether};

use frames::*;
use hosts::{Hosts, finished, give, ip, take};

const ROLE: &str = "PACKHORSE_PACKET_ROLE";
const HEAD_LEN: usize = 40;
const PATIENCE: Duration = Duration::from_secs(60);
/// Long enough for anything that is on its way to arrive.
const A_WHILE: Duration = Duration::from_millis(50);
const NOBODY: u32 = 65_534;

/// What a child does; alone it does nothing.
#[test]
#[ignore = "is a part of the others"]
fn role() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let words: Vec<&str> = role.split_whitespace().collect();
    match words[..] {
        ["open", interface, endpoint, broadcast] => hand_over_socket(&PacketConfig {
            endpoint: Some(endpoint.parse().unwrap()),
            broadcast: broadcast == "true",
            ..PacketConfig::on(interface)
        }),
        ["echo", interface] => echo(interface),
        ["demand", interface, peer] => open_on_demand(interface, from_hex(peer)),
        ["broker"] => broker(),
        ["user", peer] => user(peer),
        ["refused"] => refused(),
        ["serve"] => neighbours::serve(),
        ["neighbour"] => neighbours::neighbour(),
        _ => panic!("no role {role:?}"),
    }
}

fn stdin_socket() -> UnixDatagram {
    std::io::stdin().as_fd().try_clone_to_owned().unwrap().into()
}

fn hand_over_socket(config: &PacketConfig) {
    let fd = packet::open_fd(config).unwrap();
    give(&stdin_socket(), &fd);
}

/// Sends back whatever comes, until that is the word.
fn echo(interface: &str) {
    let mut link = Packet::open(&PacketConfig::on(interface)).unwrap();
    println!("\nlocator {}", hex(&link.locator()));
    loop {
        // More than one, where the other side did not wait long enough for the first (`echoed`).
        let found = frames_within(&mut link, 1, PATIENCE);
        assert!(!found.is_empty(), "nothing comes any more");
        for (from, frame) in found {
            send(&mut link, from, &frame);
            if frame == b"stop" {
                return;
            }
        }
    }
}

fn hex(locator: &Locator) -> String {
    locator.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(text: &str) -> Locator {
    let mut locator = [0; 24];
    for (n, byte) in locator.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * n..2 * n + 2], 16).unwrap();
    }
    locator
}

/// The locator a child says it has.
fn locator_of(child: &mut Child) -> Locator {
    let mut lines = BufReader::new(child.stdout.as_mut().unwrap()).lines().map(Result::unwrap);
    let line = lines.find(|line| line.starts_with("locator ")).expect("the child opens a link");
    from_hex(&line["locator ".len()..])
}

#[test]
#[ignore = "needs root and iproute2"]
fn frames_of_all_sizes_go_both_ways() {
    for mtu in [1500, 9000] {
        let hosts = Hosts::new(mtu);
        let mut far = hosts.start(1, "echo eth0", Stdio::null());
        let to = locator_of(&mut far);
        let mut link = hosts.open(0, "eth0", 77);
        let len_max = link.about().frame_len_max;
        assert_eq!((len_max, link.frame_len_to(&to)), (mtu - 12, mtu - 12));
        assert_eq!(ether::from_locator(&link.locator()).unwrap().endpoint, 77);
        let around = |len: usize| len - 3..len + 4;
        let lens = (1..70).chain(around(400)).chain(around(1024)).chain(around(1460));
        for len in lens.chain((100..len_max).step_by(397)).chain(len_max - 3..=len_max) {
            if len > len_max {
                continue;
            }
            echoed(&mut link, to, &pattern(len, mtu));
        }
        echoed(&mut link, to, b"stop");
        assert_eq!((counter(&link, "bad_frames"), counter(&link, "overflow_drops")), (0, 0));
        assert_eq!(counter(&link, "long_in") > 0, mtu > 1500, "the others are in the ring");
        finished(far);
    }
}

/// Opens when somebody can be reached, and keeps its driver waiting for nothing.
fn open_on_demand(interface: &str, peer: Locator) {
    let mut link = OnDemand::prepare(&PacketConfig::on(interface)).unwrap();
    let own = link.locator();
    assert!(!link.may_reach(&own) && !link.may_reach(&[0; 24]));
    link.receive(None, &mut Table::default()).unwrap();
    assert!(!link.is_open(), "nobody needs it");
    assert!(link.may_reach(&peer) && link.may_reach(&peer));
    assert!(!link.is_open(), "that takes time, and is not waited for");
    send(&mut link, peer, b"lost");
    let until = Instant::now() + PATIENCE;
    while !link.is_open() {
        assert!(Instant::now() < until, "{:?}", link.poll_remark());
        link.receive(None, &mut Table::default()).unwrap();
    }
    assert_eq!(link.locator(), own);
    echoed(&mut link, peer, b"found");
    echoed(&mut link, peer, b"stop");
}

#[test]
#[ignore = "needs root and iproute2"]
fn a_link_on_demand_opens_beside_what_its_driver_does() {
    let hosts = Hosts::new(1500);
    let mut far = hosts.start(1, "echo eth0", Stdio::null());
    let to = locator_of(&mut far);
    finished(hosts.start(0, &format!("demand eth0 {}", hex(&to)), Stdio::null()));
    finished(far);
}

#[test]
#[ignore = "needs root and iproute2"]
fn what_is_too_long_is_noticed_and_a_new_mtu_is_learned() {
    let hosts = Hosts::new(1500);
    let (mut a, mut b) = hosts.two();
    let (to, too_long) = (b.locator(), vec![1; 1489]);
    let all = [&too_long[..], b"next"];
    send_all(&mut a, &burst_of(to, all), &mut Table::default());
    assert_eq!(frames(&mut b, 1)[0].1, b"next");
    assert_eq!(a.poll_notice(), Some(Notice::TooLong { to, frame_len_max: 1488 }));
    for host in [0, 1] {
        hosts.ip(host, "link set eth0 mtu 1400");
    }
    send(&mut a, to, &[1; 1488]);
    assert_eq!(a.poll_notice(), Some(Notice::TooLong { to, frame_len_max: 1388 }));
    assert_eq!((a.about().frame_len_max, counter(&a, "send_failed")), (1388, 2));
    // Longer than the slots of the ring: it comes another way.
    for host in [0, 1] {
        hosts.ip(host, "link set eth0 mtu 9000");
    }
    assert_eq!(a.frame_len_to(&to), 8988);
    let jumbo = pattern(8988, 3);
    send(&mut a, to, &jumbo);
    assert!(frames(&mut b, 1)[0].1 == jumbo);
    send(&mut a, to, &vec![1; 70_000]);
    assert_eq!(a.poll_notice(), Some(Notice::TooLong { to, frame_len_max: 8988 }));
    assert_eq!(a.poll_notice(), None);
}

#[test]
#[ignore = "needs root and iproute2"]
fn each_endpoint_of_an_interface_gets_its_own_frames() {
    let hosts = Hosts::new(1500);
    let (mut a, mut b) = hosts.two();
    let mut c = hosts.open(1, "eth0", 3);
    for n in 0..100 {
        send(&mut a, b.locator(), &pattern(8, n));
        send(&mut a, c.locator(), &pattern(9, n));
    }
    assert!(frames(&mut b, 100).iter().all(|(_, frame)| frame.len() == 8));
    assert!(frames(&mut c, 100).iter().all(|(_, frame)| frame.len() == 9));
    for link in [&mut a, &mut b, &mut c] {
        assert_eq!(frames_within(link, 1, A_WHILE), []);
        assert_eq!((counter(link, "bad_frames"), counter(link, "overflow_drops")), (0, 0));
    }
    assert!(a.may_reach(&b.locator()) && !b.may_reach(&c.locator()), "not over its own interface");
    assert!(!a.may_reach(&[b'U'; 24]));
}

#[test]
#[ignore = "needs root and iproute2"]
fn everybody_is_heard_by_who_asked_for_it() {
    let hosts = Hosts::new(1500);
    let (mut a, mut deaf) = hosts.two();
    let hears = PacketConfig { broadcast: true, ..PacketConfig::default() };
    let mut first = hosts.open_as(1, "eth0", 3, &hears);
    let mut second = hosts.open_as(1, "eth0", 4, &hears);
    send(&mut a, ether::BROADCAST, b"anybody?");
    for link in [&mut first, &mut second] {
        assert_eq!(frames(link, 1), [(a.locator(), b"anybody?".to_vec())]);
        send(link, a.locator(), b"me");
    }
    assert_eq!(frames(&mut a, 2).len(), 2);
    assert_eq!(frames_within(&mut deaf, 1, A_WHILE), []);
    exchange(&mut a, &mut first);
}

type Change<'a> = &'a dyn Fn(&mut Vec<u8>);

/// A frame as anybody may put it on the wire.
fn forged(to: &Locator, change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let place = ether::from_locator(to).unwrap();
    let mut bytes = [&place.mac[..], &[2, 0, 0, 0, 0, 9], &[0x88, 0xb5]].concat();
    bytes.extend_from_slice(&place.endpoint.to_le_bytes());
    bytes.extend_from_slice(&[5, 0, 0, 0, 100, 0, 0, 0]);
    bytes.resize(ether::HEADER_LEN + 100, 1);
    change(&mut bytes);
    bytes
}

#[test]
#[ignore = "needs root and iproute2"]
fn foreign_and_broken_frames_are_not_received() {
    let hosts = Hosts::new(1500);
    let (mut a, mut b) = hosts.two();
    let mut raw = File::from(hosts.socket(0, "eth0", 9, false));
    let mut put = |change: Change<'_>| {
        raw.write_all(&forged(&b.locator(), change)).unwrap();
    };
    put(&|_| {});
    let lies: [Change; 4] = [
        &|bytes| bytes[22] = 99,        // shorter than it is
        &|bytes| bytes[23] = 1,         // longer
        &|bytes| bytes[24] = 1,         // of a later version
        &|bytes| bytes[18..22].fill(0), // from nobody
    ];
    lies.iter().for_each(|lie| put(lie));
    let others: [Change; 4] = [
        &|bytes| bytes[12] = 0x08,   // another EtherType
        &|bytes| bytes[14] ^= 1,     // another endpoint
        &|bytes| bytes[5] ^= 1,      // another interface
        &|bytes| bytes.truncate(16), // too short to tell
    ];
    others.iter().for_each(|other| put(other));
    // With a tag of a VLAN that this host is not on; with one that only gives a priority it is ours.
    put(&|bytes| _ = bytes.splice(12..12, [0x81, 0, 0, 6]));
    put(&|bytes| {
        bytes[26] = 2;
        bytes.splice(12..12, [0x81, 0, 0xe0, 0]);
    });
    let found = frames(&mut b, 2);
    assert_eq!((found[0].1[0], found[1].1[0], found[0].1.len()), (1, 2, 100));
    assert_eq!(packhorse_link::show(&found[0].0), "02:00:00:00:00:09#00000005");
    assert_eq!(frames_within(&mut b, 1, A_WHILE), []);
    assert_eq!(counter(&b, "bad_frames"), 4, "the others stayed in the kernel");
    exchange(&mut a, &mut b);
}

/// Not every kernel knows VLANs.
fn knows_vlans(hosts: &Hosts) -> bool {
    let mut line = Command::new("ip");
    line.args(["-n", &hosts.names[0]]);
    let words = "link add link eth0 name eth0.4 type vlan id 4";
    line.args(words.split_whitespace()).stderr(Stdio::null()).status().unwrap().success()
}

#[test]
#[ignore = "needs root and iproute2"]
fn interfaces_of_a_vlan_are_interfaces() {
    let hosts = Hosts::new(1500);
    if !knows_vlans(&hosts) {
        println!("left out: this kernel has no VLAN interfaces (8021q)");
        return;
    }
    for host in [0, 1] {
        hosts.ip(host, "link add link eth0 name eth0.5 type vlan id 5");
        hosts.ip(host, "link set eth0.5 up");
    }
    let mut plain = hosts.open(1, "eth0", 2);
    let (mut a, mut b) = (hosts.open(0, "eth0.5", 1), hosts.open(1, "eth0.5", 2));
    assert_eq!(a.interface(), "eth0.5");
    exchange(&mut a, &mut b);
    let len = a.about().frame_len_max;
    let longest = pattern(len, 5);
    send(&mut a, b.locator(), &longest);
    assert!(frames(&mut b, 1)[0].1 == longest, "{len} bytes and a tag");
    // Tagged for a VLAN that the other host is not on: not for the interface without a tag either.
    hosts.ip(0, "link add link eth0 name eth0.6 type vlan id 6");
    hosts.ip(0, "link set eth0.6 up");
    let mut stray = hosts.open(0, "eth0.6", 1);
    send(&mut stray, b.locator(), b"wrong VLAN");
    for link in [&mut plain, &mut b] {
        assert_eq!(frames_within(link, 1, A_WHILE), []);
    }
    let mut a = hosts.open(0, "eth0", 4);
    exchange(&mut a, &mut plain);
    assert_eq!(frames_within(&mut b, 1, A_WHILE), []);
}

#[test]
#[ignore = "needs root and iproute2"]
fn an_interface_that_was_down_is_used_again() {
    let hosts = Hosts::new(1500);
    let (mut a, mut b) = hosts.two();
    exchange(&mut a, &mut b);
    for round in 0..3 {
        hosts.ip(0, "link set eth0 down");
        if round > 0 {
            assert!(a.arm(), "nothing arrived");
            assert_eq!(a.poll_remark().as_deref(), Some(DOWN), "known before anything is sent");
        }
        let to = b.locator();
        send_all(&mut a, &burst_of(to, [&b"lost"[..]; 10]), &mut Table::default());
        assert_eq!(
            (a.poll_notice(), a.poll_notice()),
            (Some(Notice::Unreachable { to, cause: Cause::Here }), None)
        );
        assert_eq!(a.poll_remark().as_deref(), (round == 0).then_some(DOWN));
        assert_eq!(a.poll_remark(), None);
        hosts.ip(0, "link set eth0 up");
        exchange(&mut a, &mut b);
        assert_eq!(a.poll_remark().as_deref(), Some("eth0 is up again"));
    }
    assert_eq!((counter(&a, "downs"), counter(&a, "send_failed")), (3, 30));
    // Down and up while nobody looked: nothing is lost.
    hosts.ip(0, "link set eth0 down");
    hosts.ip(0, "link set eth0 up");
    exchange(&mut a, &mut b);
}

const DOWN: &str = "eth0 is down: what is sent over it is lost until it is up";

#[test]
#[ignore = "needs root and iproute2"]
fn an_interface_that_is_made_anew_is_found_again() {
    let hosts = Hosts::new(1500);
    let (mut a, mut b) = hosts.two();
    exchange(&mut a, &mut b);
    let before = (a.locator(), b.locator());
    hosts.ip(0, "link del eth0");
    send(&mut a, b.locator(), b"lost");
    hosts.join(1500);
    for link in [&mut a, &mut b] {
        send(link, ether::BROADCAST, b"lost, but the interface is found"); // by who sends
    }
    assert!(a.locator() != before.0 && b.locator() != before.1, "another address");
    exchange(&mut a, &mut b);
}

#[test]
#[ignore = "needs root and iproute2"]
fn what_was_opened_while_down_works_once_it_is_up() {
    let hosts = Hosts::new(1500);
    hosts.ip(0, "link set eth0 down");
    let (mut a, mut b) = hosts.two();
    assert_eq!(a.poll_remark().as_deref(), Some(DOWN));
    hosts.ip(0, "link set eth0 up");
    exchange(&mut a, &mut b);
}

/// Frames of a message, from `at` on, each behind a head that names its place.
fn stream_burst(to: Locator, id: MemoryId, at: usize, len: usize, payload_len: usize) -> Burst {
    let mut burst = Burst::default();
    for at in (at..at + len).step_by(payload_len) {
        burst.begin(to);
        burst.head(&(at as u64).to_le_bytes());
        burst.head(&[0xee; HEAD_LEN - 8]);
        burst.user(id, at as u64, payload_len.min(len) as u32);
    }
    burst
}

/// A message in frames of the longest kind, received as the engine does: checks heads, lifts what is wrong, then reads. With
/// `is_repeated` each burst is followed by a frame that was sent before. How much landed.
fn stream(a: &mut Packet, b: &mut Packet, len: usize, is_repeated: bool, crumb: usize) -> usize {
    let payload_len = a.about().frame_len_max - HEAD_LEN;
    let (data, mut memory) = (pattern(len, 1), Table::default());
    let id = memory.insert(data.clone().into());
    let to = b.locator();
    let mut table = Table::default();
    let crumbs: Vec<Vec<u8>> = data.chunks(crumb).map(|chunk| vec![0; chunk.len()]).collect();
    let place = table.insert(crumbs.into());
    let (mut at, mut next, mut received, mut landed_len) = (0, 0, 0, 0);
    let until = Instant::now() + PATIENCE;
    while next < len {
        assert!(Instant::now() < until, "{next} of {len} bytes");
        if at < len && at < next + b.about().backlog_len_max as usize / 4 {
            let more = (16 * payload_len).min(len - at);
            let whole = more / payload_len * payload_len;
            send_all(a, &stream_burst(to, id, at, whole, payload_len), &mut memory);
            if is_repeated {
                send_all(a, &stream_burst(to, id, 0, payload_len, payload_len), &mut memory);
            }
            if whole < more {
                let last = stream_burst(to, id, at + whole, more - whole, payload_len);
                send_all(a, &last, &mut memory);
            }
            at += more;
        }
        let (offset, rest) = (next as u64, (len - next) as u64);
        let landing = Landing { id: place, offset, len: rest, head_len: HEAD_LEN, payload_len };
        let count = b.receive(Some(&landing), &mut table).unwrap();
        for index in 0..count {
            let arrived = b.arrived(index);
            let Some(landed) = arrived.landed else { continue };
            if arrived.bytes[..8] != landed.offset.to_le_bytes() {
                b.lift(index, 0, &mut table);
                assert_eq!(b.arrived(index).landed, None);
            }
        }
        for index in 0..count {
            let arrived = b.arrived(index);
            if let Some(landed) = arrived.landed {
                assert_eq!((landed.count, arrived.bytes.len()), (1, HEAD_LEN));
                next = next.max(landed.offset as usize + landed.last_len);
                landed_len += landed.last_len;
                received += landed.last_len;
            }
            for frame in arrived.whole(payload_len) {
                let offset = u64::from_le_bytes(frame[..8].try_into().unwrap());
                assert!(table.copy_in(place, offset, &frame[HEAD_LEN..]));
                next = next.max(offset as usize + frame.len() - HEAD_LEN);
                received += frame.len() - HEAD_LEN;
            }
        }
    }
    assert!(received >= len);
    assert!(table.remove(place).unwrap().into_vecs().concat() == data, "every byte in its place");
    landed_len
}

#[test]
#[ignore = "needs root and iproute2"]
fn long_frames_land_in_their_place() {
    let hosts = Hosts::new(9000);
    let (mut a, mut b) = hosts.two();
    assert!(b.about().can_land);
    let len = 10_000_123;
    let landed = stream(&mut a, &mut b, len, false, len);
    assert!(landed > len * 9 / 10, "{landed} of {len} landed");
    let landed = stream(&mut a, &mut b, len, true, 1000);
    assert!(landed > len / 4, "{landed} of {len} landed");
    assert!(counter(&b, "lifted_bytes") > 0);
    assert_eq!(stream(&mut a, &mut b, 100_000, false, 1), 0, "more crumbs than are taken");
    assert_eq!((counter(&b, "bad_frames"), counter(&b, "overflow_drops")), (0, 0));
}

/// Ring and queue tell of the same frames, unless somebody takes some off the queue.
#[test]
#[ignore = "needs root and iproute2"]
fn who_else_reads_the_socket_costs_frames_and_nothing_else() {
    let hosts = Hosts::new(9000);
    let mut a = hosts.open(0, "eth0", 1);
    let fd = hosts.socket(1, "eth0", 2, false);
    let mut thief = File::from(fd.try_clone().unwrap());
    let mut b = Packet::from_fd(fd, &PacketConfig::default()).unwrap();
    let lens = [[3000, 3000, 3000, 3000], [3000, 4000, 5000, 50], [50, 50, 50, 3000]];
    for (round, lens) in lens.iter().enumerate() {
        let all: Vec<Vec<u8>> =
            lens.iter().enumerate().map(|(n, &len)| pattern(len, 10 * round + n)).collect();
        let burst = burst_of(b.locator(), all.iter().map(|frame| &frame[..]));
        send_all(&mut a, &burst, &mut Table::default());
        assert!(thief.read(&mut [0; 9000]).unwrap() > 3000);
        let found = frames_within(&mut b, 4, A_WHILE);
        assert!(found.len() < 4, "one was taken");
        assert!(found.iter().all(|(from, frame)| *from == a.locator() && all.contains(frame)));
        exchange(&mut a, &mut b);
        let long = pattern(8000, 1);
        send(&mut a, b.locator(), &long);
        assert!(frames(&mut b, 1)[0].1 == long, "round {round}");
    }
}

#[test]
#[ignore = "needs root and iproute2"]
fn usual_frames_arrive_in_the_ring() {
    let hosts = Hosts::new(1500);
    let (mut a, mut b) = hosts.two();
    assert!(!b.about().can_land);
    assert_eq!(stream(&mut a, &mut b, 10_000_123, true, 1000), 0);
    assert_eq!((counter(&b, "calls_in"), counter(&b, "overflow_drops")), (0, 0));
    assert!(counter(&a, "calls_out") < counter(&a, "frames_out") / 4, "many in a call");
}

#[test]
#[ignore = "needs root and iproute2"]
fn the_backlog_is_held_and_what_is_more_is_counted() {
    for mtu in [1500, 9000] {
        let hosts = Hosts::new(mtu);
        let (mut a, mut b) = hosts.two();
        let frame = pattern(b.about().frame_len_max, 1);
        let held = b.about().backlog_len_max as usize / frame.len();
        assert!(held > 100, "{held}");
        let pour = |a: &mut Packet, b: &mut Packet, count: usize| -> (usize, usize) {
            let before = counter(b, "overflow_drops");
            let burst = burst_of(b.locator(), vec![&frame[..]; count]);
            send_all(a, &burst, &mut Table::default());
            let kept = frames_within(b, count, 4 * A_WHILE).len();
            exchange(a, b); // what was lost is told by the next frame
            (kept, (counter(b, "overflow_drops") - before) as usize)
        };
        // Again, where a crowded machine lost some on the way.
        assert!((0..5).any(|_| pour(&mut a, &mut b, held) == (held, 0)), "{held} are held");
        let many = 3 * held;
        let is_counted = (0..5).any(|_| {
            let (kept, lost) = pour(&mut a, &mut b, many);
            assert!(kept < many && lost > 0, "{kept} of {many}");
            kept + lost == many
        });
        assert!(is_counted, "MTU {mtu}");
        assert_eq!(counter(&b, "bad_frames"), 0);
    }
}

#[test]
#[ignore = "needs root and iproute2"]
fn memory_given_back_before_the_send_makes_a_lost_frame() {
    let hosts = Hosts::new(1500);
    let (mut a, mut b) = hosts.two();
    let mut memory = Table::default();
    let id = memory.insert(vec![vec![1]; 1400].into());
    let mut burst = Burst::default();
    for n in 0..3 {
        burst.begin(b.locator());
        burst.head(&[n; 4]);
        burst.user(if n == 1 { MemoryId(id.0 + (1 << 32)) } else { id }, 0, 1400); // more pieces than a call takes
    }
    burst.begin([7; 24]);
    burst.head(b"nowhere");
    send_all(&mut a, &burst, &mut memory);
    let found = frames(&mut b, 2);
    assert_eq!((found[0].1[0], found[1].1[0], found[1].1.len()), (0, 2, 1404));
    assert!(found[0].1[4..].iter().all(|byte| *byte == 1));
    assert_eq!((counter(&a, "void_frames"), counter(&a, "send_failed")), (1, 1));
    assert_eq!(a.poll_notice(), Some(Notice::Unreachable { to: [7; 24], cause: Cause::Void }));
    assert!(a.poll_remark().unwrap().starts_with("locator 0707"));
}

#[test]
#[ignore = "needs root and iproute2"]
fn the_socket_wakes_who_waits() {
    let hosts = Hosts::new(1500);
    let (mut a, mut b) = hosts.two();
    exchange(&mut a, &mut b);
    let asleep = |link: &mut Packet| {
        assert!(link.arm(), "nothing is there");
        let fd = link.wake_fd().unwrap().try_clone_to_owned().unwrap();
        std::thread::spawn(move || is_readable(&fd, PATIENCE))
    };
    assert!(b.arm() && !is_readable(&b.wake_fd().unwrap().try_clone_to_owned().unwrap(), A_WHILE));
    let waiting = asleep(&mut b);
    send(&mut a, b.locator(), b"wake");
    assert!(waiting.join().unwrap());
    assert!(!b.arm(), "something is there");
    b.disarm();
    assert_eq!(frames(&mut b, 1)[0].1, b"wake");
    // Down wakes, too, but only once.
    let waiting = asleep(&mut b);
    hosts.ip(1, "link set eth0 down");
    assert!(waiting.join().unwrap());
    assert!(b.arm() && !is_readable(&b.wake_fd().unwrap().try_clone_to_owned().unwrap(), A_WHILE));
}

/// Asked of bash, for to ask poll(2) oneself is for those who may say `unsafe`.
fn is_readable(fd: &OwnedFd, within: Duration) -> bool {
    let until = Instant::now() + within;
    loop {
        let mut child = Command::new("bash");
        child.args(["-c", "read -t 0"]).stdin(fd.try_clone().unwrap());
        if child.status().expect("bash is installed").success() {
            return true;
        }
        if Instant::now() >= until {
            return false;
        }
    }
}

/// Opens a socket with root's rights and hands it to a child without any.
fn broker() {
    let fd = packet::open_fd(&PacketConfig::on("eth0")).unwrap();
    let (near, far) = UnixDatagram::pair().unwrap();
    let mut peer = String::new();
    std::io::stdin().read_line(&mut peer).unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "role", "--ignored", "--nocapture"]);
    child.env(ROLE, format!("user {}", peer.trim())).stdin(OwnedFd::from(far));
    let mut child = child.uid(NOBODY).gid(NOBODY).spawn().unwrap();
    give(&near, &fd);
    give(&near, &fd);
    assert!(child.wait().unwrap().success(), "the user without rights failed");
}

/// Without rights: cannot open a link, but use one that is handed in.
fn user(peer: &str) {
    let error = Packet::open(&PacketConfig::on("eth0")).map(drop).unwrap_err();
    assert!(matches!(error, PacketError::NoRight { .. }), "{error}");
    let text = error.to_string();
    assert!(
        text.contains("CAP_NET_RAW") && text.contains("sudo setcap cap_net_raw+ep /"),
        "{text}"
    );
    let socket = stdin_socket();
    let other = PacketConfig { endpoint: Some(5), ..PacketConfig::default() };
    let refused = Packet::from_fd(take(&socket), &other);
    assert!(matches!(refused, Err(PacketError::Filtered)), "the filter is locked");
    let mut link = Packet::from_fd(take(&socket), &PacketConfig::default()).unwrap();
    let to = from_hex(peer);
    for n in 0..100 {
        echoed(&mut link, to, &pattern(1 + n * 14, n));
    }
    echoed(&mut link, to, b"stop");
    println!("\nuser done");
}

#[test]
#[ignore = "needs root and iproute2"]
fn a_user_without_rights_uses_a_socket_that_is_handed_in() {
    let hosts = Hosts::new(1500);
    let mut far = hosts.start(1, "echo eth0", Stdio::null());
    let to = locator_of(&mut far);
    let mut broker = hosts.start(0, "broker", Stdio::piped());
    writeln!(broker.stdin.as_mut().unwrap(), "{}", hex(&to)).unwrap();
    assert!(finished(broker).contains("user done"));
    finished(far);
}

/// Interfaces that cannot be used.
fn refused() {
    let error = |name: &str| Packet::open(&PacketConfig::on(name)).map(drop).unwrap_err();
    let text = error("eth7").to_string();
    assert!(text.contains("\"eth7\"") && text.contains("lo") && text.contains("eth0"), "{text}");
    for name in ["", "a name much longer than any", "eth0\0"] {
        assert!(matches!(error(name), PacketError::NoInterface { .. }), "{name:?}");
    }
    assert!(matches!(error("lo"), PacketError::Loopback { .. }));
    ip("tuntap add dev tun0 mode tun");
    assert!(matches!(error("tun0"), PacketError::NotEthernet { .. }), "{}", error("tun0"));
    for endpoint in [0, u32::MAX] {
        let config = PacketConfig { endpoint: Some(endpoint), ..PacketConfig::on("eth0") };
        let error = Packet::open(&config).map(drop).unwrap_err();
        assert!(matches!(error, PacketError::BadEndpoint { .. }));
    }
    let from_fd = |fd: OwnedFd| Packet::from_fd(fd, &PacketConfig::default()).map(drop);
    let file = File::open("/dev/null").unwrap();
    assert!(matches!(from_fd(file.into()), Err(PacketError::NotPacket)));
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    assert!(matches!(from_fd(udp.into()), Err(PacketError::NotPacket)));
    let fd = packet::open_fd(&PacketConfig::on("eth0")).unwrap();
    ip("link del eth0");
    assert!(matches!(from_fd(fd), Err(PacketError::NotBound)));
}

#[test]
#[ignore = "needs root and iproute2"]
fn interfaces_that_cannot_be_used_are_refused_with_a_reason() {
    let hosts = Hosts::new(1500);
    finished(hosts.start(0, "refused", Stdio::null()));
}
