//! Several cables between two hosts that are network namespaces: all are used, unequal ones too, and one that is pulled is
//! left and taken back.
//!
//! Rates are printed; what is asserted is only what holds on a machine with other things to do. The bounds that are promised
//! stand in `tests/figures.txt` (in virtual time) and are measured with nothing beside.
//!
//! A namespace is entered by a process, so each end is this test program again, told its role in the environment. Needs root
//! and iproute2; `cargo xtask test` says where that is missing.

use std::io::{BufRead, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use packhorse::{Address, Builder, Endpoint, PathState, Wanted};

const ROLE: &str = "PACKHORSE_RAILS_ROLE";
const TAG: u64 = 7;
/// Messages before the clock runs.
const SKIP: usize = 8;

/// Two namespaces joined by cables `r0`, `r1`, …; gone when dropped, also by a failing test.
struct Hosts {
    names: [String; 2],
}

impl Hosts {
    /// One cable for each rate. `is_one_subnet`: all cards of a host are on the same network.
    fn new(rates_mbit: &[u32], is_one_subnet: bool) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let serial = COUNT.fetch_add(1, Ordering::Relaxed);
        let stem = format!("phr{}x{serial}", std::process::id());
        let hosts = Self { names: [format!("{stem}a"), format!("{stem}b")] };
        let [a, b] = &hosts.names;
        run(&format!("ip netns add {a}"));
        run(&format!("ip netns add {b}"));
        for (rail, rate) in rates_mbit.iter().enumerate() {
            run(&format!("ip -n {a} link add r{rail} type veth peer name r{rail} netns {b}"));
            for (n, name) in hosts.names.iter().enumerate() {
                let (net, host) = if is_one_subnet { (0, 2 * rail + n + 1) } else { (rail, n + 1) };
                run(&format!("ip -n {name} address add 10.98.{net}.{host}/24 dev r{rail}"));
                run(&format!("ip -n {name} link set r{rail} up"));
                run(&format!(
                    "tc -n {name} qdisc add dev r{rail} root tbf rate {rate}mbit burst 64kb latency 5ms"
                ));
            }
        }
        hosts
    }

    /// This program again, in a namespace.
    fn start(&self, host: usize, role: &str) -> End {
        let program = std::env::current_exe().unwrap();
        let mut child = Command::new("ip");
        child.args(["netns", "exec", &self.names[host]]).arg(program);
        child.args(["--exact", "role", "--ignored", "--nocapture"]).env(ROLE, role);
        child.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = child.spawn().unwrap();
        let (orders, lines) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        End { child, orders, lines: BufReader::new(lines) }
    }

    /// Frames that left a host by a rail.
    fn sent(&self, host: usize, rail: usize) -> u64 {
        let file = format!("/sys/class/net/r{rail}/statistics/tx_bytes");
        let words = ["netns", "exec", &self.names[host], "cat", &file];
        let output = Command::new("ip").args(words).output().unwrap();
        String::from_utf8_lossy(&output.stdout).trim().parse().unwrap()
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for name in &self.names {
            let _ = Command::new("ip").args(["netns", "del", name]).status();
        }
    }
}

/// A process in a namespace. Ends when told to, or with its orders.
struct End {
    child: Child,
    orders: ChildStdin,
    lines: BufReader<ChildStdout>,
}

impl End {
    fn order(&mut self, words: &str) {
        writeln!(self.orders, "{words}").unwrap();
    }

    /// What stands behind `word` in all lines before the one with `last`, and what stands behind that.
    fn hear_all(&mut self, word: &str, last: &str) -> (Vec<String>, String) {
        let (mut all, mut line) = (Vec::new(), String::new());
        loop {
            line.clear();
            assert!(self.lines.read_line(&mut line).unwrap() > 0, "ended without {last:?}");
            if let Some((_, rest)) = line.split_once(last) {
                return (all, rest.trim().to_owned());
            }
            all.extend(line.split_once(word).map(|(_, rest)| rest.trim().to_owned()));
        }
    }

    /// What stands behind this word in the first line that has it.
    fn hear(&mut self, word: &str) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            assert!(self.lines.read_line(&mut line).unwrap() > 0, "ended without {word:?}");
            if let Some((_, rest)) = line.split_once(word) {
                return rest.trim().to_owned();
            }
        }
    }
}

impl Drop for End {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn run(line: &str) {
    let words: Vec<&str> = line.split_whitespace().collect();
    let output = Command::new(words[0]).args(&words[1..]).output().unwrap();
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Two ends that have met.
fn meet(hosts: &Hosts, links: &str) -> [End; 2] {
    let mut receiver = hosts.start(1, &format!("receive {links}"));
    let address = receiver.hear("address ");
    let mut sender = hosts.start(0, &format!("send {links} {address}"));
    sender.hear("ready");
    [sender, receiver]
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
    let endpoint = Builder::plain().links(words[1]).open().unwrap();
    match words[..] {
        ["receive", _] => receive(&endpoint),
        ["send", _, address] => send(&endpoint, &address.parse().unwrap()),
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
    let patience = Instant::now() + Duration::from_secs(5);
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

#[test]
#[ignore = "needs root and iproute2"]
fn two_rails_carry_nearly_twice_as_much() {
    let one = rate_over(&[1000], "udp:r0");
    let two = rate_over(&[1000, 1000], "udp:r*");
    println!("one {:.1} MB/s, two {:.1} MB/s, × {:.2}", one / 1e6, two / 1e6, two / one);
    assert!(two > 1.2 * one, "the second carries something");
}

#[test]
#[ignore = "needs root and iproute2"]
fn slow_rail_beside_a_fast_one_does_no_harm() {
    let fast = rate_over(&[1000], "udp:r0");
    let both = rate_over(&[1000, 100], "udp:r*");
    println!("fast {:.1} MB/s, both {:.1} MB/s, × {:.2}", fast / 1e6, both / 1e6, both / fast);
    assert!(both > 0.8 * fast);
}

#[test]
#[ignore = "needs root and iproute2"]
fn pulled_rail_is_left_and_taken_back() {
    let hosts = Hosts::new(&[1000, 1000], false);
    let mut ends = meet(&hosts, "udp:r*");
    let before = pour(&mut ends, 1_000_000, 50);
    ends[1].order("1000000 200");
    ends[0].order("1000000 200");
    std::thread::sleep(Duration::from_millis(300));
    run(&format!("ip -n {} link set r1 down", hosts.names[0]));
    let during: f64 = ends[0].hear("rate ").parse().unwrap();
    ends[1].hear("whole");
    run(&format!("ip -n {} link set r1 up", hosts.names[0]));
    std::thread::sleep(Duration::from_secs(3));
    let sent = hosts.sent(0, 1);
    let after = pour(&mut ends, 1_000_000, 50);
    println!("MB/s: {:.1}, pulled {:.1}, put back {:.1}", before / 1e6, during / 1e6, after / 1e6);
    assert!(hosts.sent(0, 1) > sent + 10_000_000, "it is used again");
}

#[test]
#[ignore = "needs root and iproute2"]
fn two_cards_on_one_subnet_are_told_apart() {
    let hosts = Hosts::new(&[1000, 1000], true);
    let mut ends = meet(&hosts, "udp:r*");
    let before = [hosts.sent(0, 0), hosts.sent(0, 1)];
    pour(&mut ends, 1_000_000, 50);
    for rail in [0, 1] {
        let sent = hosts.sent(0, rail) - before[rail];
        assert!(sent > 10_000_000, "{sent} bytes by rail {rail}");
    }
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
    let before = [hosts.sent(0, 0), hosts.sent(0, 1)];
    paths_after(&mut ends, 1_000_000, 50);
    for rail in [0, 1] {
        let sent = hosts.sent(0, rail) - before[rail];
        assert!(sent > 10_000_000, "{sent} bytes by rail {rail}");
    }
}
