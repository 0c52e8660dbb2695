//! Frames between processes: this test program again, told its role in the environment.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};

use super::*;
use crate::shm::letters::Offer;
use crate::sys::shm::{Mapping, Post, forbid_reading, own_uid};
use crate::sys::trap::{Trap, become_user};

const ROLE: &str = "PACKHORSE_SHM_ROLE";
const PAYLOAD_LEN: usize = 14_000;
const MESSAGE_LEN: usize = 1_000_000;
const RING_LEN: usize = 64 << 10;

/// A process that echoes frames, or streams, and ends with its standard input.
struct Other {
    child: Child,
    stdin: Option<ChildStdin>,
    locator: Locator,
}

impl Other {
    fn start(role: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "shm::tests::processes::role", "--ignored", "--nocapture"]);
        child.env(ROLE, role).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = child.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let hex = loop {
            let line = lines.next().expect("a locator").unwrap();
            if let Some(at) = line.find("locator ") {
                break line[at + 8..].to_owned();
            }
        };
        let mut locator = [0; 24];
        for (n, byte) in locator.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&hex[2 * n..2 * n + 2], 16).unwrap();
        }
        let stdin = child.stdin.take();
        Self { child, stdin, locator }
    }

    /// As by `kill -9`.
    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The other process.
#[test]
#[ignore = "started by other tests"]
fn role() {
    let Ok(role) = std::env::var(ROLE) else { return };
    if role.contains("filtered") {
        forbid_reading().unwrap();
    }
    let mut link = open();
    let hex: String = link.locator().iter().map(|byte| format!("{byte:02x}")).collect();
    println!("locator {hex}");
    io::stdout().flush().unwrap();
    let mut memory = Table::default();
    let mut stream = None;
    let until = Instant::now() + 3 * PATIENCE;
    while Instant::now() < until {
        let mut burst = Burst::default();
        for index in 0..link.receive(None, &mut memory).unwrap() {
            let arrived = link.arrived(index);
            for frame in arrived.whole(0) {
                match frame {
                    b"die" => std::process::abort(),
                    b"filter" => forbid_reading().unwrap(),
                    b"stream" => stream = Some((arrived.from, 0)),
                    b"hi" => {}
                    [b'm', b'e', b'e', b't', other @ ..] => {
                        burst.begin(other.try_into().unwrap());
                        burst.head(b"hi");
                    }
                    frame => {
                        burst.begin(arrived.from);
                        burst.head(frame);
                    }
                }
            }
        }
        send_all(&mut link, &burst, &mut memory);
        if let Some((to, sent)) = stream {
            let (burst, mut sender) = message(to);
            let sent = sent + link.send(&burst, sent, &mut sender).unwrap();
            // What was told of must stay until it was read.
            memory = keep(memory, sender);
            stream = (sent < burst.len()).then_some((to, sent));
        }
        if role.contains("sleepy") && link.arm() {
            is_readable(link.wake_fd().unwrap(), 20);
            link.disarm();
        }
    }
}

/// Leaks the second table: in a test that is the simplest way to lend for ever.
fn keep(memory: Table, lent: Table) -> Table {
    std::mem::forget(lent);
    memory
}

/// A large message as one train after the other.
fn message(to: Locator) -> (Burst, Table) {
    let mut memory = Table::default();
    let id = memory.insert(pattern(MESSAGE_LEN, 8).into());
    let mut burst = Burst::default();
    let mut at = 0;
    while at < MESSAGE_LEN {
        let len = (MESSAGE_LEN - at).min(8 * PAYLOAD_LEN);
        let count = len.div_ceil(PAYLOAD_LEN);
        let train = Train {
            count: count as u32,
            head_len: HEAD_LEN as u32,
            payload_len: PAYLOAD_LEN as u32,
            last_len: (len - (count - 1) * PAYLOAD_LEN) as u32,
            id,
            offset: at as u64,
        };
        burst.train(to, &vec![7; HEAD_LEN * count], train);
        at += len;
    }
    (burst, memory)
}

/// Asks for a message and receives it where it belongs.
fn fetch(link: &mut Shm, other: &Other) {
    let mut memory = Table::default();
    send_all(link, &burst_of(other.locator, [&b"stream"[..]]), &mut memory);
    let id = memory.insert(vec![0; MESSAGE_LEN].into());
    let (mut landed_len, until) = (0, Instant::now() + PATIENCE);
    while landed_len < MESSAGE_LEN {
        assert!(Instant::now() < until, "{landed_len}");
        let landing = Landing {
            id,
            offset: landed_len as u64,
            len: (MESSAGE_LEN - landed_len) as u64,
            head_len: HEAD_LEN,
            payload_len: PAYLOAD_LEN,
        };
        for index in 0..link.receive(Some(&landing), &mut memory).unwrap() {
            let arrived = link.arrived(index);
            let frames = arrived.landed;
            for frame in arrived.whole(PAYLOAD_LEN) {
                // The short last one of a train in the middle has no place of its own length.
                assert!(memory.copy_in(id, landed_len as u64, &frame[HEAD_LEN..]));
                landed_len += frame.len() - HEAD_LEN;
            }
            if let Some(landed) = frames {
                landed_len += (landed.count - 1) * PAYLOAD_LEN + landed.last_len;
            }
        }
    }
    assert!(memory.remove(id).unwrap().into_vec() == pattern(MESSAGE_LEN, 8));
}

fn echo(link: &mut Shm, other: &Other, len: usize) {
    let frame = pattern(len, len);
    send_all(link, &burst_of(other.locator, [&frame[..]]), &mut Table::default());
    assert_eq!(frames(link, 1), [(other.locator, frame)]);
}

#[test]
fn processes_exchange_frames_and_messages() {
    for role in ["plain", "sleepy"] {
        let (mut link, other) = (open(), Other::start(role));
        assert!(link.may_reach(&other.locator));
        for len in [1, 8, 64, 1000, 16_000] {
            for _ in 0..20 {
                echo(&mut link, &other, len);
            }
        }
        fetch(&mut link, &other);
        assert!(counter(&link, "trains_in") >= 8, "{role}: read from its memory");
        fetch(&mut link, &other);
        assert_eq!(counter(&link, "knocks_out") > 0, role == "sleepy");
    }
}

/// Where a filter forbids the call, payload goes through the ring; by either side's filter only what that side would read.
#[test]
fn where_reading_is_forbidden_payload_goes_through_the_ring() {
    let (mut link, other) = (open(), Other::start("filtered"));
    echo(&mut link, &other, 8);
    let mut stream = Stream::new(other.locator, 40_000, false);
    send_all(&mut link, &stream.burst, &mut stream.sender);
    assert_eq!(counter(&link, "trains_out"), 0);
    let echoed = frames(&mut link, stream.count);
    assert!((0..stream.count).all(|n| echoed[n].1 == stream.frame(n)));
    // The other direction is ours to read, and we may.
    fetch(&mut link, &other);
    assert!(counter(&link, "trains_in") > 0);
}

/// What was told of before the filter came is lost; then both go through the ring.
#[test]
fn reading_that_is_forbidden_later_costs_one_train() {
    let (mut link, other) = (open(), Other::start("plain"));
    echo(&mut link, &other, 8);
    let mut stream = Stream::new(other.locator, 40_000, false);
    send_all(&mut link, &stream.burst, &mut stream.sender);
    assert_eq!(counter(&link, "trains_out"), 1);
    assert_eq!(frames(&mut link, stream.count).len(), stream.count);
    send_all(&mut link, &burst_of(other.locator, [&b"filter"[..]]), &mut Table::default());
    echo(&mut link, &other, 8);
    send_all(&mut link, &stream.burst, &mut stream.sender);
    echo(&mut link, &other, 9); // behind the lost train
    send_all(&mut link, &stream.burst, &mut stream.sender);
    assert_eq!(counter(&link, "trains_out"), 2);
    let echoed = frames(&mut link, stream.count);
    assert!((0..stream.count).all(|n| echoed[n].1 == stream.frame(n)));
}

/// The number of a process that has ended may be given to another, which does not have the proof.
#[test]
fn a_number_that_another_process_has_now_is_not_read_from() {
    let (mut link, other) = (open(), Other::start("plain"));
    fetch(&mut link, &other);
    link.inputs[0].source.as_mut().unwrap().pid = std::process::id() as libc::pid_t;
    send_all(&mut link, &burst_of(other.locator, [&b"stream"[..]]), &mut Table::default());
    let until = Instant::now() + PATIENCE;
    while counter(&link, "trains_lost") == 0 {
        assert!(Instant::now() < until);
        let arrived = link.receive(None, &mut Table::default()).unwrap();
        assert!(arrived == 0 || counter(&link, "trains_lost") > 0, "something was read");
    }
}

const VICTIM: &str = "PACKHORSE_SHM_VICTIM";
const TRAPPER: &str = "PACKHORSE_SHM_TRAPPER";
/// Belongs to nobody.
const OTHER_USER: u32 = 54_321;

/// Offers a ring whose proof is said to lie in a page that holds up whoever touches it, and tells whether anybody did.
#[test]
#[ignore = "started by other tests"]
fn trapper() {
    let (Ok(victim), Ok(user)) = (std::env::var(VICTIM), std::env::var(TRAPPER)) else { return };
    let trap = match Trap::new() {
        Ok(trap) => trap,
        Err(error) => return println!("\ntrap: none here ({error})"),
    };
    become_user(user.parse().unwrap()).unwrap();
    let post = Post::open(locate::socket_name(u64::from(std::process::id()))).unwrap();
    let (_mapping, fd) = Mapping::create(RING_LEN).unwrap();
    let offer = Offer { ring_len: RING_LEN, proof_at: trap.at() };
    let to = locate::socket_name(victim.parse().unwrap());
    post.send(&to, &offer.to_bytes(), Some(fd.as_fd())).unwrap();
    println!("\ntrap: offered");
    println!("trap: {}", if trap.is_touched() { "touched" } else { "untouched" });
    std::process::exit(0);
}

/// What a trapper of that user said in the end; `None` if the system has no traps.
fn meet_trapper(link: &mut Shm, friend: &mut Shm, user: u32) -> Option<String> {
    let (_, name) = locate::from_locator(&link.locator()).unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "shm::tests::processes::trapper", "--ignored", "--nocapture"]);
    child.env(VICTIM, name.to_string()).env(TRAPPER, user.to_string());
    let mut child = child.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut said = lines.filter_map(|line| Some(line.ok()?.strip_prefix("trap: ")?.to_owned()));
    if said.next().is_none_or(|said| said != "offered") {
        child.wait().unwrap();
        return None;
    }
    attend(link);
    introduce(friend, link);
    drop(child.stdin.take());
    let verdict = said.next();
    child.wait().unwrap();
    verdict
}

/// What a test needs is not here: said to a person, a failure where nobody reads.
fn lack(what: &str) {
    assert!(std::env::var_os("CI").is_none(), "this test needs {what}");
    eprintln!("left out: this test needs {what}");
}

/// The memory of another user is not touched, whatever that user says is there. (The same user's is: who may stop us anyway.)
#[test]
fn memory_of_another_user_is_not_touched() {
    // Only root can be another user, and only root may read another user's memory.
    if own_uid() != 0 {
        return lack("root");
    }
    let (mut link, mut friend) = (open(), open());
    let Some(verdict) = meet_trapper(&mut link, &mut friend, OTHER_USER) else {
        return lack("userfaultfd in the kernel");
    };
    assert_eq!(verdict, "untouched");
    assert_eq!((counter(&link, "offers_in"), counter(&link, "offers_refused")), (2, 0));
    assert!(
        link.inputs.iter().any(|input| input.source.is_none()),
        "its ring is taken all the same"
    );
    assert_eq!(
        meet_trapper(&mut link, &mut friend, 0).as_deref(),
        Some("touched"),
        "the trap works"
    );
    introduce(&mut friend, &mut link);
}

/// Rings of ours in this process's memory.
fn mapped_count(link: &Shm) -> usize {
    link.inputs.len() + link.outputs.len()
}

#[test]
fn a_killed_process_is_reported_once_and_nothing_is_left() {
    let mut link = open();
    for how in ["kill", "abort"] {
        let mut other = Other::start("plain");
        echo(&mut link, &other, 100);
        assert_eq!(mapped_count(&link), 2);
        match how {
            "kill" => other.kill(),
            _ => {
                let burst = burst_of(other.locator, [&b"die"[..]]);
                send_all(&mut link, &burst, &mut Table::default());
                other.child.wait().unwrap();
            }
        }
        let until = Instant::now() + PATIENCE;
        let mut seen = Vec::new();
        while seen.is_empty() {
            assert!(Instant::now() < until, "no notice after {how}");
            link.receive(None, &mut Table::default()).unwrap();
            seen.extend(notices(&mut link));
        }
        assert_eq!(seen, [Notice::Dead { to: other.locator }]);
        assert_eq!(mapped_count(&link), 0);
        std::thread::sleep(Duration::from_millis(5));
        attend(&mut link);
        assert_eq!(notices(&mut link), []);
        assert!(!link.may_reach(&other.locator));
    }
}

/// Rings in a process's memory.
fn rings_of(child: &Child) -> usize {
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", child.id())).unwrap();
    maps.lines().filter(|line| line.contains("memfd:packhorse")).count()
}

#[test]
fn processes_all_to_all_keep_few_descriptors_and_outlive_each_other() {
    const COUNT: usize = 8;
    let mut link = open();
    let mut others: Vec<Other> = (0..COUNT).map(|_| Other::start("sleepy")).collect();
    for other in &others {
        echo(&mut link, other, 8);
        for third in others.iter().filter(|third| third.locator != other.locator) {
            let meet = [b"meet", &third.locator[..]].concat();
            send_all(&mut link, &burst_of(other.locator, [&meet[..]]), &mut Table::default());
        }
    }
    // To and from each of the others, and us.
    wait_until(|| others.iter().all(|other| rings_of(&other.child) == 2 * COUNT));
    for other in &others {
        let fds = std::fs::read_dir(format!("/proc/{}/fd", other.child.id())).unwrap().count();
        assert!(fds < 16, "{fds} descriptors");
    }
    let mut killed = others.split_off(COUNT / 2);
    killed.iter_mut().for_each(Other::kill);
    let mut dead = Vec::new();
    wait_until(|| {
        link.receive(None, &mut Table::default()).unwrap();
        dead.extend(notices(&mut link));
        dead.len() == killed.len()
    });
    assert!(killed.iter().all(|other| dead.contains(&Notice::Dead { to: other.locator })));
    wait_until(|| others.iter().all(|other| rings_of(&other.child) == COUNT));
    others.iter().for_each(|other| echo(&mut link, other, 100));
    let names = std::fs::read_to_string("/proc/net/unix").unwrap();
    let is_left = |other: &Other| {
        let (_, name) = locate::from_locator(&other.locator).unwrap();
        names.contains(&format!("{name:016x}"))
    };
    assert!(others.iter().all(is_left) && !killed.iter().any(is_left));
}
