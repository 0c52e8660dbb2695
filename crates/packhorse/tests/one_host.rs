//! Processes of one host, over shared memory: where the system forbids to read another's memory, and many of them at once.
//!
//! Each is this test program again, told its role in the environment.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use packhorse::{Address, Builder, Endpoint, Placement, Wanted};
use packhorse_link::shm::forbid_reading;

const ROLE: &str = "PACKHORSE_ONE_HOST_ROLE";
/// Processes that all talk to each other.
const CROWD_COUNT: usize = 32;
/// Descriptors that each of them may have (issue: fewer than this).
const FD_COUNT_MAX: usize = 16;
/// Messages from each of them to each: within a frame, in a few, and read from the sender's memory.
const CROWD_LENS: [usize; 3] = [8, 20_000, 100_000];

/// Another process; killed when dropped.
struct Other {
    child: Child,
    orders: ChildStdin,
    lines: BufReader<ChildStdout>,
}

impl Other {
    fn start(role: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "role", "--ignored", "--nocapture"])
            .env(ROLE, role)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (orders, lines) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Self { child, orders, lines: BufReader::new(lines) }
    }

    /// What stands behind this word in the next line that has it.
    fn hear(&mut self, word: &str) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            assert!(self.lines.read_line(&mut line).unwrap() > 0, "it ended without {word:?}");
            if let Some((_, rest)) = line.split_once(word) {
                return rest.trim().to_owned();
            }
        }
    }
}

impl Drop for Other {
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
    if role == "echo filtered" {
        forbid_reading().unwrap();
    }
    // Without a helper there is one thread, so that a filter of this thread is one of the process.
    let is_crowd = role.starts_with("crowd");
    let placement = if is_crowd { Placement::Thread } else { Placement::Inline };
    let endpoint = Builder::plain().links("shm").placement(placement).open().unwrap();
    println!("address {}", endpoint.address());
    match role.split_once(' ').unwrap() {
        ("echo", how) => echo(&endpoint, how),
        ("crowd", number) => meet_all(&endpoint, number.parse().unwrap()),
        _ => panic!("no role {role:?}"),
    }
}

fn echo(endpoint: &Endpoint, how: &str) {
    for number in 0.. {
        if (how, number) == ("filtered later", 4) {
            forbid_reading().unwrap();
        }
        let message = endpoint.recv(Wanted::any(), vec![0; 2 << 20]).wait().unwrap();
        let (envelope, mut buffer) = (message.envelope, message.buffer);
        buffer.truncate(envelope.len as usize);
        endpoint.send(envelope.source, envelope.tag, buffer).wait().unwrap();
    }
}

fn pattern(len: usize, salt: usize) -> Vec<u8> {
    (0..len).map(|n| (n * 7 + n / 251 + salt) as u8).collect()
}

fn counter(endpoint: &Endpoint, name: &str) -> u64 {
    let counters = endpoint.counters();
    let all = counters.iter().filter(|(full, _)| full.ends_with(name)).map(|(_, value)| value);
    all.sum()
}

/// Large messages to a process and back, every byte looked at.
fn exchange(how: &str, builder: Builder) -> Endpoint {
    let mut other = Other::start(&format!("echo {how}"));
    let address: Address = other.hear("address ").parse().unwrap();
    let endpoint = builder.links("shm").open().unwrap();
    let peer = endpoint.peer(&address).unwrap();
    for (salt, len) in [40_000, 1 << 20, 100_000, 1 << 20, 700_001, 1 << 20].into_iter().enumerate()
    {
        let going = endpoint.send(peer, 1, pattern(len, salt));
        let back = endpoint.recv(Wanted::tag(1), vec![0; len]).wait().unwrap();
        assert!(back.buffer == pattern(len, salt), "{how}: {len} bytes came back damaged");
        going.wait().unwrap();
    }
    endpoint
}

#[test]
fn large_messages_are_read_from_the_senders_memory() {
    let endpoint = exchange("freely", Builder::plain());
    assert!(counter(&endpoint, "fetched_bytes") > 3 << 20);
    assert_eq!(counter(&endpoint, "fetches_failed"), 0);
}

#[test]
fn where_one_side_may_not_read_the_other_does() {
    let endpoint = exchange("filtered", Builder::plain());
    assert!(counter(&endpoint, "fetched_bytes") > 3 << 20);
    let told_count = counter(&endpoint, "messages_told") + counter(&endpoint, "trains_out");
    assert_eq!(told_count, 0, "it was told that nobody reads them");
}

#[test]
fn who_may_not_read_any_more_gets_the_rest_through_the_ring() {
    let endpoint = exchange("filtered later", Builder::plain());
    assert!(counter(&endpoint, "messages_told") > 0, "it could at first");
}

#[test]
fn reading_can_be_switched_off() {
    let endpoint = exchange("freely", Builder::plain().shm_cma(false));
    let names = ["trains_in", "trains_out", "messages_told", "fetched_bytes"];
    assert_eq!(names.map(|name| counter(&endpoint, name)), [0; 4]);
}

/// Two that answer each other, in one process: their messages are given to the ring (PROTOCOL §7.10), and go from there to their place.
#[test]
fn copied_messages_and_their_answers_are_given_to_the_ring() {
    let open = || Builder::plain().links("shm").placement(Placement::Inline).open().unwrap();
    let (a, b) = (open(), open());
    let (to_b, to_a) = (a.peer(&b.address()).unwrap(), b.peer(&a.address()).unwrap());
    let mut first = b.recv(Wanted::tag(0), vec![0; 8]);
    a.send_copy(to_b, 0, &[1; 8]).unwrap();
    while first.test().is_none() {
        a.turn();
        b.turn();
    }
    const COUNT: usize = 200;
    for round in 0..COUNT {
        let len = [8, 1000, 5000, 20_000][round % 4];
        for (from, peer, to) in [(&a, to_b, &b), (&b, to_a, &a)] {
            let coming = to.recv(Wanted::tag(1), vec![0; len]);
            from.send_copy(peer, 1, &pattern(len, round)).unwrap();
            let got = coming.wait().unwrap();
            assert!(got.buffer == pattern(len, round), "{len} bytes of round {round}");
        }
    }
    for endpoint in [&a, &b] {
        // But for those behind a question or an answer of the endpoints' own.
        let given = counter(endpoint, "messages_given");
        assert!(given > COUNT as u64 / 2, "{given} of {COUNT} were given");
        let begun = counter(endpoint, "messages_begun");
        assert!(begun > COUNT as u64 / 4, "{begun} of {COUNT} went from the ring to their place");
    }
}

/// One of many: sends to each, receives from each, says what that took.
fn meet_all(endpoint: &Endpoint, own: usize) {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    let peers: Vec<_> = line
        .split_whitespace()
        .map(|address| endpoint.peer(&address.parse().unwrap()).unwrap())
        .collect();
    let receives: Vec<_> = (0..peers.len())
        .filter(|&from| from != own)
        .flat_map(|from| CROWD_LENS.map(|len| (from, len)))
        .map(|(from, len)| {
            let wanted = Wanted::tag((from * CROWD_LENS.len()) as u64 + len as u64 * 1000);
            (from, len, endpoint.recv(wanted, vec![0; len]))
        })
        .collect();
    let mut sends = Vec::new();
    for (to, &peer) in peers.iter().enumerate().filter(|&(to, _)| to != own) {
        for len in CROWD_LENS {
            let tag = (own * CROWD_LENS.len()) as u64 + len as u64 * 1000;
            sends.push(endpoint.send(peer, tag, pattern(len, own + to)));
        }
    }
    for (from, len, coming) in receives {
        let got = coming.wait().unwrap();
        assert!(got.buffer == pattern(len, from + own), "{len} bytes of {from}");
    }
    sends.into_iter().for_each(|going| drop(going.wait().unwrap()));
    let fd_count = std::fs::read_dir("/proc/self/fd").unwrap().count() - 1; // the folder itself
    let rollup = std::fs::read_to_string("/proc/self/smaps_rollup").unwrap();
    let kib = |name: &str| {
        let line = rollup.lines().find(|line| line.starts_with(name)).unwrap_or_default();
        line.split_whitespace().nth(1).unwrap_or("?").to_owned()
    };
    println!(
        "uses {fd_count} descriptors, {} KiB, {} KiB of them its own",
        kib("Rss:"),
        kib("Pss:")
    );
    // All are there until all are through.
    line.clear();
    std::io::stdin().read_line(&mut line).unwrap();
}

#[test]
fn a_crowd_talks_all_to_all_with_few_descriptors_each() {
    let mut crowd: Vec<_> =
        (0..CROWD_COUNT).map(|number| Other::start(&format!("crowd {number}"))).collect();
    let addresses: Vec<_> = crowd.iter_mut().map(|other| other.hear("address ")).collect();
    let line = addresses.join(" ");
    crowd.iter_mut().for_each(|other| writeln!(other.orders, "{line}").unwrap());
    let uses: Vec<_> = crowd.iter_mut().map(|other| other.hear("uses ")).collect();
    for text in &uses {
        let fd_count: usize = text.split_whitespace().next().unwrap().parse().unwrap();
        assert!(fd_count < FD_COUNT_MAX, "{text}");
    }
    println!("of {CROWD_COUNT} processes the first {}", uses[0]);
}
