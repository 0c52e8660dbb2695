//! `kill -9` at any moment, over every link: whoever talked to the dead one gets an error that names it, and nothing of it is left.
//!
//! A survivor, which is this test program again, talks both ways with one victim after the other, which is this program too.
//! Each victim is killed some random time after it was started. How many there are says `PACKHORSE_KILLS` (100: as the issue has
//! it); the seed is printed, and taken from `PACKHORSE_SEED`. Over raw Ethernet both live in network namespaces; that needs root
//! and iproute2, and `cargo xtask test` says where it is missing.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use packhorse::{Address, Builder, Endpoint, Error, Peer, Wanted};

const ROLE: &str = "PACKHORSE_DEATHS_ROLE";
const KILL_COUNT: u32 = 4;
/// From the start of a process to its death, at most: it may not have met anybody by then, or have sent megabytes.
const LIFE: Duration = Duration::from_millis(120);
/// Raw Ethernet says nothing of a death: silence for so long does. Elsewhere it is found out sooner.
const SILENCE_NS: u64 = 1_500_000_000;
const PATIENCE: Duration = Duration::from_secs(60);
const HELLO: u64 = 1;
const THERE: u64 = 2;
const BACK: u64 = 3;
const NEVER: u64 = 4;
const NOTE: u64 = 5;
const COPIED_LEN_MAX: usize = 8 << 10;
const LEN_MAX: usize = 2 << 20;

/// Numbers nobody can guess, unless told the seed.
struct Dice(u64);

impl Dice {
    fn new() -> Self {
        let given = std::env::var("PACKHORSE_SEED").ok().and_then(|text| text.parse().ok());
        let clock = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
        let seed = given.unwrap_or_else(clock) | 1;
        println!("PACKHORSE_SEED={seed}");
        Self(seed)
    }

    /// Less than `end`.
    fn roll(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

fn kill_count() -> u32 {
    std::env::var("PACKHORSE_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(KILL_COUNT)
}

/// A process and what it says, line by line; killed when dropped.
struct Process {
    child: Child,
    lines: Receiver<String>,
}

impl Process {
    /// In a network namespace, if one is named.
    fn start(namespace: Option<&str>, role: &str) -> Self {
        let program = std::env::current_exe().unwrap();
        let mut command = match namespace {
            Some(name) => {
                let mut command = Command::new("ip");
                command.args(["netns", "exec", name]).arg(program);
                command
            }
            None => Command::new(program),
        };
        command.args(["--exact", "role", "--ignored", "--nocapture"]).env(ROLE, role);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (heard, lines) = mpsc::channel();
        std::thread::spawn(move || {
            stdout.lines().map_while(Result::ok).try_for_each(|line| heard.send(line)).ok()
        });
        Self { child, lines }
    }

    /// What stands behind this word in the next line that has it.
    fn hear(&self, word: &str) -> String {
        let until = Instant::now() + PATIENCE;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let line = self.lines.recv_timeout(left).unwrap_or_else(|_| panic!("no {word:?}"));
            if let Some((_, rest)) = line.split_once(word) {
                return rest.trim().to_owned();
            }
        }
    }

    /// As by `kill -9`; what it said before.
    fn kill(mut self) -> Vec<String> {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        std::mem::replace(&mut self.lines, mpsc::channel().1).into_iter().collect()
    }

    /// Lines of a file about it that have this text.
    fn count_in(&self, file: &str, text: &str) -> usize {
        let path = format!("/proc/{}/{file}", self.child.id());
        let all = std::fs::read_to_string(path).unwrap();
        all.lines().filter(|line| line.contains(text)).count()
    }

    fn fd_count(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap().count()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// What a child does; alone it does nothing.
#[test]
#[ignore = "is a part of the others"]
fn role() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let words: Vec<&str> = role.split_whitespace().collect();
    let mut builder = Builder::plain().settings(|settings| settings.gone_after_ns = SILENCE_NS);
    builder = builder.links(words[1]);
    if ["udp", "tcp"].contains(&words[1]) {
        builder = builder.bind([127, 0, 0, 1]);
    }
    let endpoint = builder.open().unwrap();
    match words[..] {
        ["survivor", _] => survive(&endpoint),
        ["victim", _, address] => suffer(&endpoint, &address.parse().unwrap()),
        _ => panic!("no role {role:?}"),
    }
}

/// Meets whoever says hello, and says when it is gone.
fn survive(endpoint: &Endpoint) {
    println!("address {}", endpoint.address());
    loop {
        let hello = endpoint.recv(Wanted::tag(HELLO), vec![0; 8]).wait().unwrap();
        let (endpoint, peer) = (endpoint.clone(), hello.envelope.source);
        println!("met {}", endpoint.name_of(peer));
        std::thread::spawn(move || talk(&endpoint, peer));
    }
}

/// Until the peer is dead, of which every request must tell.
fn talk(endpoint: &Endpoint, peer: Peer) {
    let never = endpoint.recv(Wanted::tag(NEVER).from(peer), vec![0; 8]);
    let error = loop {
        let back = endpoint.recv(Wanted::tag(BACK).from(peer), vec![0; LEN_MAX]);
        // Copied at its post, it is given to a ring and kept by nobody else; the long one stays here until it is fetched.
        let given = endpoint.send_copy(peer, NOTE, &[7; 100]);
        let going = endpoint.send(peer, THERE, vec![7; LEN_MAX]);
        if let Err(failed) = back.wait() {
            going.wait().ok(); // it may have arrived
            break failed.error;
        }
        if let Err(error) = given {
            break error;
        }
        if let Err(failed) = going.wait() {
            break failed.error;
        }
    };
    // Either of what was under way, or of an attempt to begin anew; this one is as old as the acquaintance.
    assert!(matches!(error, Error::Gone { .. }), "{error}");
    let error = never.wait().unwrap_err().error;
    assert!(matches!(error, Error::Gone { .. }), "{error}");
    println!("lost {error}");
}

fn suffer(endpoint: &Endpoint, address: &Address) {
    let own = packhorse_link::show(&endpoint.address().locator.0);
    println!("name {own}");
    let peer = endpoint.peer(address).unwrap();
    endpoint.send(peer, HELLO, vec![0; 8]).wait().unwrap();
    let mut dice = Dice(u64::from(std::process::id()) << 7 | 1);
    loop {
        endpoint.recv(Wanted::tag(NOTE), vec![0; 100]).wait().unwrap();
        let message = endpoint.recv(Wanted::tag(THERE), vec![0; LEN_MAX]).wait().unwrap();
        let mut buffer = message.buffer;
        // Small, medium and large alike; small ones copied or lent.
        buffer.truncate(1 << dice.roll(22));
        if buffer.len() <= COPIED_LEN_MAX && dice.roll(2) == 0 {
            endpoint.send_copy(peer, BACK, &buffer).unwrap();
        } else {
            endpoint.send(peer, BACK, buffer).wait().unwrap();
        }
    }
}

/// Kills victims one after the other. `namespaces`: of the survivor and the victims. `look` looks for what is left of one, by
/// the name it gave itself.
fn kill_many(links: &str, namespaces: [Option<&str>; 2], look: impl Fn(Option<&str>)) {
    let mut dice = Dice::new();
    let survivor = Process::start(namespaces[0], &format!("survivor {links}"));
    let address = survivor.hear("address ");
    let kept = |survivor: &Process| (survivor.count_in("maps", "memfd:"), survivor.fd_count());
    let before = kept(&survivor);
    let mut names = Vec::new();
    for _ in 0..kill_count() {
        let victim = Process::start(namespaces[1], &format!("victim {links} {address}"));
        std::thread::sleep(Duration::from_micros(dice.roll(LIFE.as_micros() as u64)));
        let said = victim.kill();
        let name = said.iter().find_map(|line| Some(line.split_once("name ")?.1));
        look(name);
        names.extend(name.map(str::to_owned));
    }
    // Whoever was met, perhaps in its last moment, is lost, and what was kept for it is gone as well.
    let (mut met, mut lost, until) = (Vec::new(), Vec::new(), Instant::now() + PATIENCE);
    loop {
        for line in survivor.lines.try_iter() {
            let behind = |word: &str| Some(line.split_once(word)?.1.trim().to_owned());
            met.extend(behind("met "));
            lost.extend(behind("lost "));
        }
        let now = kept(&survivor);
        if met.len() == lost.len() && now == before {
            break;
        }
        assert!(
            Instant::now() < until,
            "met {met:?}, lost {lost:?}; mappings and descriptors: {now:?}, before {before:?}"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    for error in &lost {
        assert!(met.iter().any(|met| error.starts_with(met)), "{error:?} names none of {met:?}");
        assert!(names.iter().any(|name| error.contains(name)), "{error:?} names none of {names:?}");
        // Memory knows of each death, and silence tells of none. Whoever was met when that had been told already is asked anew, and nobody is there.
        let is_known = ["process died", "no way leads there"].iter().any(|why| error.contains(why));
        assert!(links != "shm" || is_known, "{error:?}");
    }
    println!("{links}: {} killed, {} of them had met the survivor", kill_count(), met.len());
}

#[test]
fn kill_9_over_shm_leaves_nothing() {
    kill_many("shm", [None, None], |name| {
        let Some(name) = name.and_then(|name| name.split_whitespace().nth(1)) else { return };
        let sockets = std::fs::read_to_string("/proc/net/unix").unwrap();
        assert!(!sockets.contains(name), "the socket of {name} is there still");
    });
}

#[test]
fn kill_9_over_udp_leaves_nothing() {
    kill_many("udp", [None, None], |_| {});
}

#[test]
fn kill_9_over_tcp_leaves_nothing() {
    kill_many("tcp", [None, None], |_| {});
}

/// Two network namespaces joined by a cable; gone when dropped.
struct Hosts([String; 2]);

impl Hosts {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let serial = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = |end| format!("phd{}x{serial}{end}", std::process::id());
        let hosts = Self([name("a"), name("b")]);
        let [a, b] = &hosts.0;
        ip(&format!("netns add {a}"));
        ip(&format!("netns add {b}"));
        ip(&format!("-n {a} link add eth0 type veth peer name eth0 netns {b}"));
        for name in &hosts.0 {
            ip(&format!("-n {name} link set eth0 up"));
        }
        hosts
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for name in &self.0 {
            let _ = Command::new("ip").args(["netns", "del", name]).status();
        }
    }
}

/// What it printed.
fn ip(words: &str) -> String {
    let output = Command::new("ip").args(words.split_whitespace()).output().unwrap();
    assert!(output.status.success(), "ip {words}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn kill_many_on_ethernet(kind: &str) {
    let hosts = Hosts::new();
    let [a, b] = &hosts.0;
    kill_many(&format!("{kind}:eth0"), [Some(a), Some(b)], |_| {
        // The program goes with the last descriptor, a moment after the process.
        let until = Instant::now() + PATIENCE;
        loop {
            let shown = ip(&format!("-n {b} link show dev eth0"));
            if !shown.contains("xdp") {
                break;
            }
            assert!(Instant::now() < until, "{shown}");
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(ip(&format!("netns pids {b}")), "", "no process is left there");
    });
    let names = hosts.0.clone();
    drop(hosts);
    let left = ip("netns list");
    assert!(names.iter().all(|name| !left.contains(name)), "{left}");
}

#[test]
#[ignore = "needs root and iproute2"]
fn kill_9_over_packet_leaves_nothing() {
    kill_many_on_ethernet("packet");
}

#[test]
#[ignore = "needs root and iproute2"]
fn kill_9_over_xdp_leaves_nothing() {
    kill_many_on_ethernet("xdp");
}
