//! Processes of the same user that write random bytes over the rings they share with an endpoint: it goes on, and what it and an honest
//! peer exchange is untouched.
//!
//! A scribbler is this program again: an endpoint that talks with the victim, small messages that are given to the ring and long ones
//! that are fetched, while a thread of it writes over all its shared memory. Nothing is expected of a scribbler, which may well crash; it is
//! killed after a while. How many there are says `PACKHORSE_SCRIBBLERS`; the seed is printed, and taken from `PACKHORSE_SEED`. Under the
//! address sanitizer the same test shows that no foreign memory is touched.

use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::FileExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use packhorse::{Builder, Endpoint, Peer, Wanted};

const ROLE: &str = "PACKHORSE_SCRIBBLER_VICTIM";
const SCRIBBLER_COUNT: u64 = 6;
/// What one writes over, in all: some hundred records of each ring.
const LIFE: Duration = Duration::from_millis(300);
const THERE: u64 = 1;
const BACK: u64 = 2;
const NEVER: u64 = 3;
const COPIED_LEN_MAX: usize = 9000;
/// In one frame, given or lent; fetched in one piece.
const LENS: [usize; 6] = [0, 8, 1000, 9000, 20_000, 1 << 20];

struct Dice(u64);

impl Dice {
    /// Less than `end`.
    fn roll(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

fn open() -> Endpoint {
    Builder::plain().links("shm").linger(Duration::from_millis(200)).open().unwrap()
}

fn pattern(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 31 + seed * 7 + at / 251) as u8).collect()
}

/// One message there and one back, of each length, lent and copied by turns.
fn exchange(here: &Endpoint, there: &Endpoint, to: Peer, back: Peer, round: usize) {
    for (number, len) in LENS.into_iter().enumerate() {
        let bytes = pattern(len, round + number);
        for (a, b, peer, from) in [(here, there, to, back), (there, here, back, to)] {
            let coming = b.recv(Wanted::tag(BACK).from(from), vec![0; len]);
            if len > COPIED_LEN_MAX || (round + number).is_multiple_of(2) {
                a.send(peer, BACK, bytes.clone()).wait().unwrap();
            } else {
                a.send_copy(peer, BACK, &bytes).unwrap();
            }
            assert!(coming.wait().unwrap().buffer == bytes, "{len} bytes differ");
        }
    }
}

/// What a scribbler does; alone it does nothing.
#[test]
#[ignore = "is a part of the other"]
fn role() {
    let Ok(victim) = std::env::var(ROLE) else { return };
    let seed = number("PACKHORSE_SEED").unwrap();
    let endpoint = open();
    let peer = endpoint.peer(&victim.parse().unwrap()).unwrap();
    endpoint.send(peer, THERE, vec![0; 8]).wait().unwrap();
    println!("met the victim");
    std::thread::spawn(move || scribble(Dice(seed)));
    // As much of everything as there can be, whatever comes of it.
    let mut requests = Vec::new();
    for round in 0.. {
        for len in LENS {
            let _ = endpoint.send_copy(peer, THERE, &pattern(len.min(COPIED_LEN_MAX), round));
            requests.push(endpoint.send(peer, THERE, pattern(len, round)));
        }
        requests.retain_mut(|request| request.test().is_none());
        if requests.len() > 100 {
            requests.clear();
        }
    }
}

/// Writes over what is mapped as shared memory, a few bytes at a time: headers, lengths, indices and payload alike.
fn scribble(mut dice: Dice) {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let is_shared = |line: &&str| line.contains("memfd:") && line.contains("rw-s");
    let ranges: Vec<(u64, u64)> = maps
        .lines()
        .filter(is_shared)
        .map(|line| {
            let (from, to) = line.split_whitespace().next().unwrap().split_once('-').unwrap();
            (u64::from_str_radix(from, 16).unwrap(), u64::from_str_radix(to, 16).unwrap())
        })
        .collect();
    assert!(!ranges.is_empty(), "nothing is shared:\n{maps}");
    let memory: File = OpenOptions::new().write(true).open("/proc/self/mem").unwrap();
    println!("scribbling over {} mappings", ranges.len());
    loop {
        let (from, to) = ranges[dice.roll(ranges.len() as u64) as usize];
        // Half of it where indices and flags are.
        let len = if dice.roll(2) == 0 { 1024.min(to - from) } else { to - from };
        let bytes: Vec<u8> = (0..1 + dice.roll(16)).map(|_| dice.roll(256) as u8).collect();
        let at = from + dice.roll(len - 16);
        memory.write_all_at(&bytes, at).unwrap();
    }
}

/// Says that all is over when it goes out of scope, by a panic too.
struct Sets<'a>(&'a AtomicBool);

impl Drop for Sets<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// An exchange takes no longer, even where two cores serve many tests.
const STALL: Duration = Duration::from_secs(5);

/// Says what the endpoints know, once, when no exchange comes to its end: a minute later the one takes the other for silent.
fn watch(rounds: &AtomicUsize, is_over: &AtomicBool, endpoints: &[(&str, &Endpoint)]) {
    let (mut before, mut since) = (0, Instant::now());
    while !is_over.load(Ordering::Relaxed) {
        let round = rounds.load(Ordering::Relaxed);
        if round != before {
            (before, since) = (round, Instant::now());
        } else if since.elapsed() > STALL {
            // Twice: what still counts on shows who is at work.
            for pause in [Duration::from_secs(1), Duration::ZERO] {
                for (name, endpoint) in endpoints {
                    println!("{name} in round {round}: {}", endpoint.counters_json());
                    println!("{name} was told: {:#?}", endpoint.notices());
                }
                std::thread::sleep(pause);
            }
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

struct Scribbler(Child);

impl Scribbler {
    fn start(victim: &Endpoint, seed: u64) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "role", "--ignored", "--nocapture"]);
        command.env(ROLE, victim.address().to_string()).env("PACKHORSE_SEED", seed.to_string());
        Self(command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap())
    }

    /// Waits until it scribbles; false if it ended before.
    fn is_at_it(&mut self) -> bool {
        let lines = BufReader::new(self.0.stdout.take().unwrap()).lines();
        lines.map_while(Result::ok).any(|line| line.contains("scribbling over"))
    }
}

impl Drop for Scribbler {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

#[test]
fn who_scribbles_over_shared_rings_harms_nobody_else() {
    let clock = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    let mut dice = Dice(number("PACKHORSE_SEED").unwrap_or_else(clock) | 1);
    println!("PACKHORSE_SEED={}", dice.0);
    let count = number("PACKHORSE_SCRIBBLERS").unwrap_or(SCRIBBLER_COUNT);
    let (victim, honest) = (open(), open());
    let (to, back) =
        (honest.peer(&victim.address()).unwrap(), victim.peer(&honest.address()).unwrap());
    exchange(&honest, &victim, to, back, 0);
    // Memory that the honest peer may write to and does not: nobody else may.
    let untouched: Vec<_> = (0..4)
        .map(|seed| victim.recv(Wanted::tag(NEVER).from(back), pattern(300_000, seed)))
        .collect();
    let is_over = AtomicBool::new(false);
    let (mut round, mut taken) = (0, 0_u64);
    let rounds = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        // However this ends, the taker must, or nobody would hear what went wrong.
        let _ends_taker = Sets(&is_over);
        // Takes whatever scribblers send, however long they say it is.
        let taker = scope.spawn(|| {
            let mut count = 0_u64;
            while !is_over.load(Ordering::Relaxed) {
                let mut any = victim.recv(Wanted::tag(THERE), vec![0; 1 << 20]);
                let until = Instant::now() + Duration::from_millis(50);
                while Instant::now() < until {
                    match any.test() {
                        Some(result) => {
                            count += u64::from(result.is_ok());
                            any = victim.recv(Wanted::tag(THERE), vec![0; 1 << 20]);
                        }
                        None => std::thread::yield_now(),
                    }
                }
                any.cancel();
            }
            count
        });
        scope.spawn(|| watch(&rounds, &is_over, &[("victim", &victim), ("honest", &honest)]));
        for _ in 0..count {
            let mut scribbler = Scribbler::start(&victim, dice.roll(u64::MAX) | 1);
            assert!(scribbler.is_at_it(), "it did not meet the victim");
            let until = Instant::now() + LIFE;
            while Instant::now() < until {
                round += 1;
                rounds.store(round, Ordering::Relaxed);
                exchange(&honest, &victim, to, back, round);
            }
        }
        is_over.store(true, Ordering::Relaxed);
        taken = taker.join().unwrap();
    });
    exchange(&honest, &victim, to, back, round);
    for (seed, request) in untouched.into_iter().enumerate() {
        assert!(request.cancel());
        let buffer = request.wait().unwrap_err().buffer;
        assert!(buffer == Some(pattern(300_000, seed)), "memory that nobody sent to has changed");
    }
    println!("{count} scribblers; {taken} of their messages taken, {round} rounds beside them");
}
