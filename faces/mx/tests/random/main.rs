//! Random operations of MX from four processes that lose, double, reorder and damage each other's frames, before an oracle of MX's rules.
//!
//! ```text
//!   test ── starts ──▶ 4 ranks: rounds of random operations (`rank`), each with a waker and a prober beside it
//!     ▲ └─ all lines ─▶   │      every message is known from its number alone (`script`): length, bytes, class
//!     └──── a line ───────┘      the books (`oracle`): once, in order, whole, told rightly at both ends
//! ```
//!
//! Between rounds everything comes to rest: each message has been taken once, each request has ended, nothing is left. In every third round
//! one process closes its endpoint in the middle of it all. `PACKHORSE_MX_OPERATIONS` and `PACKHORSE_MX_SEED` say how many operations
//! and which; a seed is a scenario, though the machine's threads and sockets have their say in it.

mod aside;
mod calls;
mod oracle;
mod rank;
mod script;

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};

use script::RANK_COUNT;

/// Operations of all processes together, where nobody says how many.
const OPERATION_COUNT: u64 = 4000;
const SEED: u64 = 21;
/// What happens to frames, in parts of a million.
const FAULTS: &str = "loss=10000,duplicate=10000,reorder=10000,corrupt=3000";
/// Lines that are meant for the test begin with it: the test harness of a rank writes, too.
const MARK: &str = "@";

fn from_env(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name}={text}")))
}

/// A rank that is killed if the test fails.
struct Rank(Child);

impl Drop for Rank {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(rank: usize, seed: u64, operation_count: u64, link: &str, faults: Option<&str>) -> Rank {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["a_rank_of_the_random_operations", "--exact", "--nocapture"]);
    command.env("PACKHORSE_MX_RANK", rank.to_string());
    command.env("PACKHORSE_MX_SEED", seed.to_string());
    command.env("PACKHORSE_MX_OPERATIONS", operation_count.to_string());
    command.env("PACKHORSE_MX_BOARDS", "lo").env("PACKHORSE_LINK", link);
    if let Some(faults) = faults {
        command.env("PACKHORSE_FAULTS", format!("{faults},seed={}", seed + rank as u64));
    }
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    Rank(child)
}

/// Hands each line of a rank to all of them, until they end.
fn relay(ranks: &mut [Rank]) {
    let mut outputs: Vec<_> =
        ranks.iter_mut().map(|rank| BufReader::new(rank.0.stdout.take().unwrap())).collect();
    loop {
        let mut lines = Vec::new();
        for output in &mut outputs {
            let mut line = String::new();
            while !line.starts_with(MARK) {
                line.clear();
                if output.read_line(&mut line).unwrap() == 0 {
                    break;
                }
            }
            lines.extend(line.strip_prefix(MARK).map(|line| line.trim().to_owned()));
        }
        if lines.is_empty() {
            return;
        }
        assert_eq!(
            lines.len(),
            ranks.len(),
            "a rank ended before the others; the last words: {lines:?}"
        );
        for rank in ranks.iter_mut() {
            let input = rank.0.stdin.as_mut().unwrap();
            writeln!(input, "{}", lines.join(";")).expect("a rank ended: see above");
        }
    }
}

fn play(seed: u64, operation_count: u64, link: &str, faults: Option<&str>) {
    println!("seed {seed}, {operation_count} operations over {link}, faults {faults:?}");
    let mut ranks: Vec<_> = (0..RANK_COUNT)
        .map(|rank| start(rank, seed, operation_count / RANK_COUNT as u64, link, faults))
        .collect();
    relay(&mut ranks);
    for (rank, it) in ranks.iter_mut().enumerate() {
        let status = it.0.wait().unwrap();
        assert!(status.success(), "seed {seed}: rank {rank} ended with {status}");
    }
}

#[test]
fn random_operations_keep_the_rules_of_mx() {
    let seed = from_env("PACKHORSE_MX_SEED").unwrap_or(SEED);
    let count = from_env("PACKHORSE_MX_OPERATIONS").unwrap_or(OPERATION_COUNT);
    // Most over a network with faults; some through shared memory, where messages are fetched and given.
    play(seed, count - count / 4, "udp", Some(FAULTS));
    play(seed + 1, count / 4, "auto", None);
}

/// One of the processes; nothing where nobody started it as such.
#[test]
fn a_rank_of_the_random_operations() {
    let Some(rank) = from_env("PACKHORSE_MX_RANK") else { return };
    let seed = from_env("PACKHORSE_MX_SEED").unwrap();
    rank::play(rank as u8, seed, from_env("PACKHORSE_MX_OPERATIONS").unwrap());
}
