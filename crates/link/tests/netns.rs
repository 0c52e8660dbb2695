//! UDP between two hosts that are network namespaces joined by a veth pair, made and removed by each test.
//!
//! A namespace is entered by a process, so each end is this test program again, started with `ip netns exec` and told its
//! role in the environment. Needs root and iproute2; `cargo xtask test` says where that is missing.

use std::io::{BufReader, Read as _};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use packhorse_link::mem::Table;
use packhorse_link::udp::{Udp, UdpConfig, to_locator};
use packhorse_link::{Burst, Cause, Landing, Link, Locator, Notice};

const ROLE: &str = "PACKHORSE_NETNS_ROLE";
const HEAD_LEN: usize = 40;
const PORT: u16 = 7000;
const PATIENCE: Duration = Duration::from_secs(60);
/// Less than what the socket holds of frames of any length: the receiver may sleep, nothing is lost.
const MESSAGE_LEN: usize = 1_500_123;

/// Two namespaces and what joins them; gone when dropped, also by a failing test.
struct Hosts {
    names: [String; 2],
}

impl Hosts {
    fn new(mtu: usize) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let serial = COUNT.fetch_add(1, Ordering::Relaxed);
        let stem = format!("ph{}x{serial}", std::process::id());
        let hosts = Self { names: [format!("{stem}a"), format!("{stem}b")] };
        let [a, b] = &hosts.names;
        ip(&format!("netns add {a}"));
        ip(&format!("netns add {b}"));
        ip(&format!("-n {a} link add eth0 type veth peer name eth0 netns {b}"));
        for (n, name) in hosts.names.iter().enumerate() {
            let n = n + 1;
            ip(&format!("-n {name} address add 10.99.0.{n}/24 dev eth0"));
            ip(&format!("-n {name} address add fd99::{n}/64 dev eth0 nodad"));
            ip(&format!("-n {name} link set eth0 mtu {mtu} up"));
            ip(&format!("-n {name} link set lo up"));
        }
        hosts
    }

    /// This program again, in a namespace.
    fn start(&self, host: usize, role: &str) -> Child {
        let program = std::env::current_exe().unwrap();
        let mut child = Command::new("ip");
        child.args(["netns", "exec", &self.names[host]]).arg(program);
        child.args(["--exact", "role", "--ignored", "--nocapture"]).env(ROLE, role);
        child.stdout(Stdio::piped()).spawn().unwrap()
    }

    fn ethtool(&self, words: &str) {
        for name in &self.names {
            let mut line = Command::new("ip");
            line.args(["netns", "exec", name, "ethtool"]).args(words.split_whitespace());
            let output = line.output().expect("ethtool is installed");
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
    }

    /// Sends a message from host 0 to host 1; what the receiver said at the end.
    fn transfer(&self, to: &str, payload_len: usize, trains: bool) -> String {
        let mut receiver = self.start(1, &format!("receive {to} {payload_len}"));
        let mut lines = BufReader::new(receiver.stdout.take().unwrap());
        wait_for(&mut lines, "ready");
        let mut sender = self.start(0, &format!("send {to} {payload_len} {trains}"));
        assert!(sender.wait().unwrap().success(), "the sender failed");
        let report = wait_for(&mut lines, "received");
        assert!(receiver.wait().unwrap().success(), "the receiver failed");
        println!("{to} payload {payload_len} trains {trains}: {report}");
        report
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for name in &self.names {
            let _ = Command::new("ip").args(["netns", "del", name]).status();
        }
    }
}

fn ip(words: &str) {
    let output = Command::new("ip").args(words.split_whitespace()).output().unwrap();
    assert!(output.status.success(), "ip {words}: {}", String::from_utf8_lossy(&output.stderr));
}

/// The first line with this word; the test harness of the child prints others.
fn wait_for(lines: &mut impl std::io::BufRead, word: &str) -> String {
    let mut line = String::new();
    loop {
        line.clear();
        assert!(lines.read_line(&mut line).unwrap() > 0, "the child ended without {word:?}");
        if line.contains(word) {
            return line.trim().to_string();
        }
    }
}

fn number(report: &str, name: &str) -> usize {
    let mut words = report.split_whitespace().skip_while(|word| *word != name);
    words.nth(1).unwrap_or_else(|| panic!("no {name} in {report}")).parse().unwrap()
}

fn pattern(at: usize) -> u8 {
    (at * 31 + (at >> 8) * 7) as u8
}

/// What a child does; alone it does nothing.
#[test]
#[ignore = "is a part of the others"]
fn role() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let words: Vec<&str> = role.split_whitespace().collect();
    match words[..] {
        ["receive", at, payload_len] => receive(at, payload_len.parse().unwrap()),
        ["send", to, payload_len, trains] => {
            send(to, payload_len.parse().unwrap(), trains == "true");
        }
        ["nobody", who, to] => nobody(who, to),
        ["long", to] => too_long(to),
        _ => panic!("no role {role:?}"),
    }
}

fn open_any(like: &str) -> Udp {
    let any = if like.starts_with('[') { "[::]:0" } else { "0.0.0.0:0" };
    Udp::open(&UdpConfig::at(any.parse().unwrap())).unwrap()
}

/// Until each has found the other's Ethernet address, the kernel keeps only a few frames for it.
fn greet(link: &mut Udp, to: Locator) {
    let mut burst = Burst::default();
    burst.begin(to);
    burst.head(b"hello");
    assert_eq!(link.send(&burst, 0, &mut Table::default()).unwrap(), 1);
}

fn first_from(link: &mut Udp) -> Locator {
    let until = Instant::now() + PATIENCE;
    while link.receive(None, &mut Table::default()).unwrap() == 0 {
        assert!(Instant::now() < until, "no greeting");
    }
    link.arrived(0).from
}

fn receive(at: &str, payload_len: usize) {
    let mut link = Udp::open(&UdpConfig::at(at.parse().unwrap())).unwrap();
    let mut memory = Table::default();
    let id = memory.insert(vec![0; MESSAGE_LEN].into());
    println!("\nready");
    let from = first_from(&mut link);
    greet(&mut link, from);
    let (mut received, mut landed_len, until) = (0, 0, Instant::now() + PATIENCE);
    while received < MESSAGE_LEN {
        assert!(Instant::now() < until, "{received} of {MESSAGE_LEN}");
        let landing = Landing {
            id,
            offset: received as u64,
            len: (MESSAGE_LEN - received) as u64,
            head_len: HEAD_LEN,
            payload_len,
        };
        for index in 0..link.receive(Some(&landing), &mut memory).unwrap() {
            let arrived = link.arrived(index);
            if let Some(landed) = arrived.landed {
                assert_eq!(landed.offset as usize, received, "the wire keeps order");
                let len = (landed.count - 1) * payload_len + landed.last_len;
                received += len;
                landed_len += len;
                continue;
            }
            for frame in arrived.whole(payload_len) {
                let offset = u64::from_le_bytes(frame[..8].try_into().unwrap());
                assert!(memory.copy_in(id, offset, &frame[HEAD_LEN..]));
                received += frame.len() - HEAD_LEN;
            }
        }
    }
    let bytes = memory.remove(id).unwrap().into_vec();
    assert!(bytes.iter().enumerate().all(|(at, &byte)| byte == pattern(at)), "damaged");
    let mut report = format!("\nreceived {received} landed {landed_len}");
    link.each_counter(&mut |name, value| report += &format!(" {name} {value}"));
    println!("{report} frame_len_max {}", link.about().frame_len_max);
}

fn send(to: &str, payload_len: usize, trains: bool) {
    let mut link = open_any(to);
    link.set_trains(trains);
    greet(&mut link, to_locator(to.parse().unwrap()));
    first_from(&mut link);
    let mut memory = Table::default();
    let id = memory.insert((0..MESSAGE_LEN).map(pattern).collect::<Vec<u8>>().into());
    let mut burst = Burst::default();
    for at in (0..MESSAGE_LEN).step_by(payload_len) {
        burst.begin(to_locator(to.parse().unwrap()));
        burst.head(&(at as u64).to_le_bytes());
        burst.head(&[0; HEAD_LEN - 8]);
        burst.user(id, at as u64, payload_len.min(MESSAGE_LEN - at) as u32);
    }
    let (mut at, until) = (0, Instant::now() + PATIENCE);
    while at < burst.len() {
        assert!(Instant::now() < until);
        at += link.send(&burst, at, &mut memory).unwrap();
    }
    assert_eq!(link.poll_remark(), None);
}

/// Sends to a port, or a host, that is not there. `who` says so: that host, one on the way, or this one.
fn nobody(who: &str, to: &str) {
    let cause = match who {
        "there" => Cause::Refused(b"anybody?".to_vec()),
        "way" => Cause::Way(b"anybody?".to_vec()),
        _ => Cause::Here,
    };
    let (mut link, mut memory, mut burst) = (open_any(to), Table::default(), Burst::default());
    let to = to_locator(to.parse().unwrap());
    burst.begin(to);
    burst.head(b"anybody?");
    assert_eq!(link.send(&burst, 0, &mut memory).unwrap(), 1);
    let until = Instant::now() + PATIENCE;
    let notice = loop {
        assert!(Instant::now() < until, "no notice");
        assert_eq!(link.receive(None, &mut memory).unwrap(), 0);
        if let Some(notice) = link.poll_notice() {
            break notice;
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    assert_eq!(notice, Notice::Unreachable { to, cause });
    println!("\nreceived notice");
}

/// Sends what does not fit, alone and as a train.
fn too_long(to: &str) {
    let (mut link, mut memory) = (open_any(to), Table::default());
    let to = to_locator(to.parse().unwrap());
    let fits = link.frame_len_to(&to);
    for count in [1, 3] {
        let mut burst = Burst::default();
        for _ in 0..count {
            burst.begin(to);
            burst.head(&vec![0; fits + 1]);
        }
        assert_eq!(link.send(&burst, 0, &mut memory).unwrap(), count);
        let notice = Notice::TooLong { to, frame_len_max: fits };
        assert_eq!((link.poll_notice(), link.poll_notice()), (Some(notice), None));
    }
    assert!(link.about().train_count_max > 0, "trains are not to blame");
    assert_eq!(link.poll_remark(), None);
    println!("\nreceived notice frame_len_max {fits}");
}

fn all_output(mut child: Child) -> String {
    let mut text = String::new();
    child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    assert!(child.wait().unwrap().success(), "{text}");
    text
}

fn addresses() -> [String; 2] {
    [format!("10.99.0.2:{PORT}"), format!("[fd99::2]:{PORT}")]
}

#[test]
#[ignore = "needs root and iproute2"]
fn messages_land_between_hosts() {
    for mtu in [1500, 9000] {
        let hosts = Hosts::new(mtu);
        for (to, overhead) in addresses().iter().zip([28, 48]) {
            let payload_len = mtu - overhead - HEAD_LEN;
            let report = hosts.transfer(to, payload_len, true);
            assert_eq!(number(&report, "overflow_drops"), 0);
            assert_eq!(number(&report, "frame_len_max"), mtu - overhead);
            assert!(number(&report, "trains_in") > 0, "{report}");
            assert!(number(&report, "landed") > MESSAGE_LEN * 9 / 10, "{report}");
            let report = hosts.transfer(to, payload_len, false);
            assert_eq!(number(&report, "overflow_drops"), 0);
            assert!(number(&report, "landed") > MESSAGE_LEN * 8 / 10, "{report}");
        }
    }
}

#[test]
#[ignore = "needs root and iproute2"]
fn messages_land_where_the_interface_knows_no_trains() {
    let hosts = Hosts::new(1500);
    hosts.ethtool("-K eth0 tso off gso off gro off tx-udp-segmentation off sg off tx off");
    for (to, overhead) in addresses().iter().zip([28, 48]) {
        let report = hosts.transfer(to, 1500 - overhead - HEAD_LEN, true);
        assert_eq!(number(&report, "overflow_drops"), 0);
        assert!(number(&report, "landed") > MESSAGE_LEN * 8 / 10, "{report}");
    }
}

#[test]
#[ignore = "needs root and iproute2"]
fn who_is_not_there_is_noticed() {
    let hosts = Hosts::new(1500);
    for to in addresses() {
        all_output(hosts.start(0, &format!("nobody there {to}")));
    }
    // No such host on the wire, and no way at all.
    all_output(hosts.start(0, "nobody way 10.99.0.77:7000"));
    all_output(hosts.start(0, "nobody here 198.51.100.1:7000"));
}

#[test]
#[ignore = "needs root and iproute2"]
fn what_does_not_fit_is_noticed() {
    let hosts = Hosts::new(1500);
    for (to, fits) in addresses().iter().zip([1472, 1452]) {
        let text = all_output(hosts.start(0, &format!("long {to}")));
        assert!(text.contains(&format!("frame_len_max {fits}")), "{text}");
    }
}
