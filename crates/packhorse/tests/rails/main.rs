//! Several cables between two hosts that are network namespaces: all are used, unequal ones too, and one that is pulled is
//! left and taken back.
//!
//! Rates are printed; what is asserted is only what holds on a machine with other things to do. The bounds that are promised
//! stand in `tests/figures.txt` (in virtual time) and are measured with nothing beside.
//!
//! A namespace is entered by a process, so each end is this test program again, told its role in the environment. Needs root
//! and iproute2; `cargo xtask test` says where that is missing.

mod blocked;
mod computing;
mod crowded;
mod hosts;
mod named;
mod neighbours;
mod outage;

use std::time::{Duration, Instant};

use hosts::{End, Hosts, ROLE, run};
use packhorse::{Address, Builder, Endpoint, PathState, Wanted};

const TAG: u64 = 7;
/// Messages before the clock runs.
const SKIP: usize = 8;
/// What has not happened by then does not happen, on a machine with much to do either.
const PATIENCE: Duration = Duration::from_secs(60);

/// Two ends that have met.
fn meet(hosts: &Hosts, links: &str) -> [End; 2] {
    let mut receiver = hosts.start(1, &format!("receive {links}"));
    let address = receiver.hear("address ");
    let mut sender = hosts.start(0, &format!("send {links} {address}"));
    sender.hear("ready");
    [sender, receiver]
}

/// By raw Ethernet a host does not reach itself, and the address that one end has of the other names a card.
#[test]
#[ignore = "needs root and iproute2"]
fn ends_of_one_host_meet_through_memory_though_their_addresses_name_a_card() {
    let hosts = Hosts::new(&[1000], false);
    let mut receiver = hosts.start(0, "receive packet,shm");
    let address = receiver.hear("address ");
    let mut sender = hosts.start(0, &format!("send packet,shm {address}"));
    sender.hear("ready");
    pour(&mut [sender, receiver], 300_000, 5);
}

/// Bytes per second of so many messages.
fn pour(ends: &mut [End; 2], len: usize, count: usize) -> f64 {
    let words = format!("{len} {count}");
    ends[1].order(&words);
    ends[0].order(&words);
    let rate = ends[0].hear("rate ").parse().unwrap();
    ends[1].hear("whole");
    rate
}

fn rate_over(rates_mbit: &[u32], links: &str) -> f64 {
    let hosts = Hosts::new(rates_mbit, false);
    let mut ends = meet(&hosts, links);
    pour(&mut ends, 1_000_000, 100)
}

/// What a child does; alone it does nothing.
#[test]
#[ignore = "is a part of the others"]
fn role() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let words: Vec<&str> = role.split_whitespace().collect();
    let open = |links: &str| Builder::plain().links(links).open().unwrap();
    match words[..] {
        ["receive", links] => receive(&open(links)),
        ["send", links, address] => send(&open(links), &address.parse().unwrap()),
        ["echo", links] => crowded::echo(&open(links)),
        ["hide", links] => {
            crowded::echo(&Builder::plain().links(links).discoverable(false).open().unwrap());
        }
        ["compute-receive", links] => computing::receive(links),
        ["compute-send", links, address] => computing::send(links, &address.parse().unwrap()),
        ["mourn", links, address] => outage::mourn(links, &address.parse().unwrap()),
        ["peers", links] => crowded::peers(links),
        ["first", links, ref addresses @ ..] => crowded::first(links, addresses),
        ["tcp-receive", on] => neighbours::tcp_receive(on),
        ["tcp-send", to] => neighbours::tcp_send(to),
        ["tcp-echo", on] => neighbours::tcp_echo(on),
        ["tcp-talk", to] => neighbours::tcp_talk(to),
        ["pong", on] => neighbours::pong(on),
        ["ping", to] => neighbours::ping(to),
        ["pour", links, address, seconds] => {
            neighbours::pour_for(links, &address.parse().unwrap(), seconds.parse().unwrap());
        }
        ["named-serve", links, number] => named::serve(links, number.parse().unwrap()),
        ["named-find", links, host, number] => named::find(links, host, number.parse().unwrap()),
        _ => panic!("no role {role:?}"),
    }
}

/// Length and count of messages.
fn orders() -> impl Iterator<Item = (usize, usize)> {
    std::io::stdin().lines().map(|line| {
        let line = line.unwrap();
        let (len, count) = line.split_once(' ').unwrap();
        (len.parse().unwrap(), count.parse().unwrap())
    })
}

fn receive(endpoint: &Endpoint) {
    println!("address {}", endpoint.address());
    endpoint.recv(Wanted::tag(TAG), vec![0; 8]).wait().unwrap();
    for (len, count) in orders() {
        let mut buffers = vec![vec![0; len]; 2];
        for number in 0..count + SKIP {
            let buffer = buffers.pop().unwrap();
            let got = endpoint.recv(Wanted::tag(TAG), buffer).wait().unwrap();
            assert_eq!(got.envelope.len, len as u64);
            let wanted = number as u8;
            assert!(got.buffer.iter().all(|&byte| byte == wanted), "message {number} is damaged");
            buffers.push(got.buffer);
        }
        println!("whole");
    }
}

fn send(endpoint: &Endpoint, address: &Address) {
    let peer = endpoint.peer(address).unwrap();
    endpoint.send(peer, TAG, vec![0; 8]).wait().unwrap();
    let is_asked = |state| matches!(state, PathState::Unproven { asked_count } if asked_count < 5);
    let patience = Instant::now() + PATIENCE;
    while Instant::now() < patience && endpoint.paths(peer).iter().any(|path| is_asked(path.state))
    {
        std::thread::sleep(Duration::from_millis(5));
    }
    println!("ready");
    for (len, count) in orders() {
        let mut began = Instant::now();
        for number in 0..count + SKIP {
            if number == SKIP {
                began = Instant::now();
            }
            endpoint.send(peer, TAG, vec![number as u8; len]).wait().unwrap();
        }
        let rate = (len * count) as f64 / began.elapsed().as_secs_f64();
        for path in endpoint.paths(peer) {
            println!("path {path}");
        }
        println!("rate {rate}");
    }
}

/// Pours so many messages of 1 MB, and again while what each rail sent of them is not as it should be and patience lasts: on a machine with
/// much else to do the rate of a rail is taken for less than it is, for a while. How quick the last ones went.
fn pour_until(
    ends: &mut [End; 2],
    hosts: &Hosts,
    count: usize,
    is_right: impl Fn([u64; 2]) -> bool,
) -> f64 {
    let sent = || [0, 1].map(|rail| hosts.sent(0, rail));
    let until = Instant::now() + PATIENCE;
    loop {
        let before = sent();
        let rate = pour(ends, 1_000_000, count);
        let now = sent();
        let bytes = [0, 1].map(|rail: usize| now[rail] - before[rail]);
        if is_right(bytes) {
            return rate;
        }
        assert!(Instant::now() < until, "{bytes:?} bytes by the two rails");
    }
}

#[test]
#[ignore = "needs root and iproute2"]
fn two_rails_carry_nearly_twice_as_much() {
    let one = rate_over(&[1000], "udp:r0");
    let hosts = Hosts::new(&[1000, 1000], false);
    let mut ends = meet(&hosts, "udp:r*");
    let two = pour_until(&mut ends, &hosts, 100, |sent| sent.iter().all(|&it| it > 20_000_000));
    println!("one {:.1} MB/s, two {:.1} MB/s, × {:.2}", one / 1e6, two / 1e6, two / one);
}

#[test]
#[ignore = "needs root and iproute2"]
fn slow_rail_beside_a_fast_one_does_no_harm() {
    let fast = rate_over(&[1000], "udp:r0");
    let hosts = Hosts::new(&[1000, 100], false);
    let mut ends = meet(&hosts, "udp:r*");
    // A tenth of the way gets about a tenth of the bytes: as many as the fast one would be what makes it wait.
    let both = pour_until(&mut ends, &hosts, 100, |[by_fast, by_slow]| by_slow < by_fast / 3);
    println!("fast {:.1} MB/s, both {:.1} MB/s, × {:.2}", fast / 1e6, both / 1e6, both / fast);
}

#[test]
#[ignore = "needs root and iproute2"]
fn pulled_rail_is_left_and_taken_back() {
    let hosts = Hosts::new(&[1000, 1000], false);
    let mut ends = meet(&hosts, "udp:r*");
    let before = pour(&mut ends, 1_000_000, 50);
    ends[1].order("1000000 200");
    ends[0].order("1000000 200");
    let is_used_beyond = |sent: u64| hosts.sent(0, 1) > sent + 10_000_000;
    let (sent, until) = (hosts.sent(0, 1), Instant::now() + PATIENCE);
    while !is_used_beyond(sent) {
        assert!(Instant::now() < until, "it is not used");
    }
    run(&format!("ip -n {} link set r1 down", hosts.names[0]));
    let during: f64 = ends[0].hear("rate ").parse().unwrap();
    ends[1].hear("whole");
    run(&format!("ip -n {} link set r1 up", hosts.names[0]));
    let (sent, until) = (hosts.sent(0, 1), Instant::now() + PATIENCE);
    let after = loop {
        let after = pour(&mut ends, 1_000_000, 50);
        if is_used_beyond(sent) {
            break after;
        }
        assert!(Instant::now() < until, "it is not used again");
    };
    println!("MB/s: {:.1}, pulled {:.1}, put back {:.1}", before / 1e6, during / 1e6, after / 1e6);
}

#[test]
#[ignore = "needs root and iproute2"]
fn two_cards_on_one_subnet_are_told_apart() {
    let hosts = Hosts::new(&[1000, 1000], true);
    let mut ends = meet(&hosts, "udp:r*");
    pour_until(&mut ends, &hosts, 50, |sent| sent.iter().all(|&it| it > 10_000_000));
}

/// The paths to the other end after so many messages.
fn paths_after(ends: &mut [End; 2], len: usize, count: usize) -> Vec<String> {
    let words = format!("{len} {count}");
    ends[1].order(&words);
    ends[0].order(&words);
    let (paths, _) = ends[0].hear_all("path ", "rate ");
    ends[1].hear("whole");
    println!("{}", paths.join("\n"));
    paths
}

#[test]
#[ignore = "needs root and iproute2"]
fn auto_takes_raw_ethernet_and_does_not_stripe_one_card() {
    let hosts = Hosts::new(&[1000], false);
    let mut ends = meet(&hosts, "auto");
    let paths = paths_after(&mut ends, 1_000_000, 50);
    let has = |kind: &str, what: &str| {
        paths.iter().filter(|path| path.starts_with(kind) && path.contains(what)).count()
    };
    assert_eq!(has("packet ", "in use") + has("packet ", "ready"), 1, "raw Ethernet works");
    let carrying = ["in use: data", "in use: small messages, and data"];
    let carrying: usize = carrying.iter().map(|what| has("", what)).sum();
    assert_eq!(carrying, 1, "one card, one way for data");
}

#[test]
#[ignore = "needs root and iproute2"]
fn auto_uses_both_cards() {
    let hosts = Hosts::new(&[1000, 1000], false);
    let mut ends = meet(&hosts, "auto");
    pour_until(&mut ends, &hosts, 50, |sent| sent.iter().all(|&it| it > 10_000_000));
}
