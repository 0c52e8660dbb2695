//! Two processes on two hosts compute and call nothing, while sixteen megabytes go from one to the other.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::time::{Duration, Instant};

use packhorse::queue::Queue;
use packhorse::{Address, Builder, Endpoint, Placement, Wanted};

use super::hosts::{End, Hosts};

const LEN: usize = 16 << 20;
const TAG: u64 = 9;

fn open(links: &str) -> Endpoint {
    Builder::plain().links(links).placement(Placement::Thread).open().unwrap()
}

/// How often this thread gave up its core by itself. Asking takes no memory from the heap: the allocator has a lock, for which the
/// thread would sleep while the helper has it, and that would be counted.
struct Sleeps(File);

impl Sleeps {
    fn of_this_thread() -> Self {
        Self(File::open("/proc/thread-self/status").unwrap())
    }

    fn count(&self) -> u64 {
        let mut room = [0; 8192];
        let len = self.0.read_at(&mut room, 0).unwrap();
        let status = std::str::from_utf8(&room[..len]).unwrap();
        let mut lines = status.lines();
        let line = lines.find(|line| line.starts_with("voluntary_ctxt_switches:")).unwrap();
        line.split_whitespace().last().unwrap().parse().unwrap()
    }
}

fn turns_of_application(endpoint: &Endpoint) -> u64 {
    let counters = endpoint.counters();
    let count = |name| counters.iter().find(|(known, _)| known == name).unwrap().1;
    count("turns") - count("turns_of_helper")
}

/// Computes for a second or more, and looks once after each, which is a load. Says when it ended by the engine's clock, until when
/// the computation went on, how often the thread slept in it and turned the engine.
fn compute_through(endpoint: &Endpoint, queue: &mut Queue) -> packhorse::queue::Ended {
    let sleeps = Sleeps::of_this_thread();
    let (turns, slept) = (turns_of_application(endpoint), sleeps.count());
    let mut number = 1_u64;
    for _ in 0..60 {
        let start = Instant::now(); // read from memory: no system call
        while start.elapsed() < Duration::from_secs(1) {
            for step in 0..10_000 {
                number =
                    std::hint::black_box(number.wrapping_mul(6_364_136_223_846_793_005) + step);
            }
        }
        let until = endpoint.clock();
        if let Some(ended) = queue.poll() {
            ended.result.as_ref().unwrap();
            let (slept, turns) = (sleeps.count() - slept, turns_of_application(endpoint) - turns);
            println!("ended {} {} {slept} {turns}", ended.at.as_nanos(), until.as_nanos());
            return ended;
        }
    }
    panic!("not complete after a minute of computing");
}

pub(crate) fn receive(links: &str) {
    let endpoint = open(links);
    let mut queue = endpoint.queue(8);
    println!("address {}", endpoint.address());
    endpoint.recv(Wanted::tag(0), vec![0; 8]).wait().unwrap();
    println!("ready");
    queue.recv(Wanted::tag(TAG), vec![0; LEN], 1).unwrap();
    let ended = compute_through(&endpoint, &mut queue);
    let buffer: Vec<u8> = queue.buffer(&ended).unwrap();
    assert!(buffer == pattern(), "the bytes differ");
    println!("whole");
}

pub(crate) fn send(links: &str, address: &Address) {
    let endpoint = open(links);
    let mut queue = endpoint.queue(8);
    let peer = endpoint.peer(address).unwrap();
    endpoint.send(peer, 0, vec![0; 8]).wait().unwrap();
    queue.send(peer, TAG, pattern(), 1).unwrap();
    compute_through(&endpoint, &mut queue);
}

fn pattern() -> Vec<u8> {
    (0..LEN).map(|at| (at * 7 + at / 4096) as u8).collect()
}

#[test]
#[ignore = "needs root and iproute2"]
fn sixteen_megabytes_move_between_hosts_that_compute() {
    let hosts = Hosts::new(&[1000], false);
    let mut receiver = hosts.start(1, "compute-receive udp:r0");
    let address = receiver.hear("address ");
    let mut sender = hosts.start(0, &format!("compute-send udp:r0 {address}"));
    let check = |end: &mut End| {
        let line = end.hear("ended ");
        let numbers: Vec<u64> = line.split(' ').map(|number| number.parse().unwrap()).collect();
        let [at, until, slept, turns] = numbers[..] else { panic!("{line:?}") };
        println!("ended {} ms before the computation did", (until - at) / 1_000_000);
        assert!(at < until, "it ended when the application called");
        assert_eq!((slept, turns), (0, 0), "the computing thread slept, or turned the engine");
    };
    check(&mut sender);
    check(&mut receiver);
    receiver.hear("whole");
}
