//! `packhorse soak`: processes that exchange messages of mixed sizes over the real link, every byte verified.
//!
//! ```text
//!   soak ── starts ──▶ member 0 ◀══ messages ══▶ member 1 ◀══▶ …
//!     │  addresses ──▶    each sends to each, in an order both know from the seed
//!     └── reports ◀──     counts, faults found, memory in use over time
//! ```
//!
//! What message number n from a to b is (its length, its bytes) follows from the seed, so a receiver needs to be told
//! nothing: it knows what must come next from each sender, and that nothing else may.

mod member;

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use packhorse::quantity;
use serde::{Deserialize, Serialize};

pub(crate) use member::{MemberArgs, run as run_member};

/// Exchange messages of mixed sizes between processes and verify every byte.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  packhorse soak                                     a million messages between 4 processes
  packhorse soak --messages 10000000                 ten million
  packhorse soak --loss 10000 --duplicate 5000 --reorder 20000 --corrupt 2000 --messages 200000")]
pub(crate) struct SoakArgs {
    /// Messages in all.
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    messages: u64,
    /// Processes.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(2..=64))]
    processes: u32,
    /// Longest message: 1 to 64M bytes.
    #[arg(long, value_name = "BYTES", default_value = "1M", value_parser = parse_longest)]
    longest: u32,
    /// Where all randomness comes from.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Who moves messages: only the threads that wait for them (inline), or a helper too (thread).
    #[arg(long, value_name = "WHO", default_value = "thread", value_parser = ["inline", "thread"])]
    placement: String,
    /// Frames lost, in a million.
    #[arg(long, value_name = "PPM", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=1_000_000))]
    loss: u32,
    /// Frames sent twice, in a million.
    #[arg(long, value_name = "PPM", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=1_000_000))]
    duplicate: u32,
    /// Frames held back, in a million.
    #[arg(long, value_name = "PPM", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=1_000_000))]
    reorder: u32,
    /// Frames damaged, in a million.
    #[arg(long, value_name = "PPM", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=1_000_000))]
    corrupt: u32,
}

/// The most that a message may have.
const LONGEST_MAX: u32 = 64 << 20;

fn parse_longest(text: &str) -> Result<u32, String> {
    match quantity::len(text, LONGEST_MAX.into())? {
        0 => Err("must be a length of at least 1".into()),
        bytes => Ok(bytes as u32),
    }
}

/// What a member tells, one line of JSON each.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Word {
    /// Its address.
    Address(String),
    /// Messages received and memory in use, now and then.
    Progress { received: u64, resident_len: u64 },
    /// All came and all was accepted.
    Done { received: u64, resident_len: u64, counters: String },
    /// Something was wrong.
    Fault(String),
}

struct Member {
    child: Child,
    orders: ChildStdin,
}

impl Drop for Member {
    fn drop(&mut self) {
        self.child.kill().ok(); // it may be long gone
        self.child.wait().ok();
    }
}

/// True: all came, whole, once, in order.
pub(crate) fn run(args: &SoakArgs) -> Result<bool> {
    let (sender, words) = mpsc::channel();
    let mut members = Vec::new();
    for index in 0..args.processes {
        members.push(start(args, index, sender.clone())?);
    }
    drop(sender);
    introduce(&mut members, &words)?;
    let start = Instant::now();
    let report = watch(args, &words)?;
    let seconds = start.elapsed().as_secs_f64();
    let received: u64 = report.received.iter().sum();
    println!(
        "{received} messages between {} processes in {seconds:.1} s, {:.0} a second; every byte verified",
        args.processes,
        received as f64 / seconds
    );
    for (index, memory) in report.memory.iter().enumerate() {
        let (early, late) = memory.trend();
        println!("  process {index}: {early:.1} MB in use early, {late:.1} MB at the end");
    }
    for fault in &report.faults {
        println!("  FAULT: {fault}");
    }
    Ok(report.faults.is_empty())
}

/// Resident memory over time.
#[derive(Clone, Debug, Default)]
struct MemoryTrack(Vec<u64>);

impl MemoryTrack {
    /// After the first tenth, when pools have grown to their size, and at the end; in megabytes.
    fn trend(&self) -> (f64, f64) {
        let early = self.0.get(self.0.len() / 10).or(self.0.last()).copied().unwrap_or(0);
        let late = self.0.last().copied().unwrap_or(0);
        (early as f64 / 1e6, late as f64 / 1e6)
    }
}

struct Report {
    received: Vec<u64>,
    memory: Vec<MemoryTrack>,
    faults: Vec<String>,
}

type Words = Receiver<(u32, Option<Word>)>;

fn start(args: &SoakArgs, index: u32, sender: mpsc::Sender<(u32, Option<Word>)>) -> Result<Member> {
    let program = std::env::current_exe().context("cannot find this program to start it again")?;
    let mut command = Command::new(program);
    command.arg("soak-member").arg("--parent").arg(std::process::id().to_string());
    let numbers = [
        ("--index", u64::from(index)),
        ("--processes", args.processes.into()),
        ("--messages", args.messages),
        ("--longest", args.longest.into()),
        ("--seed", args.seed),
        ("--loss", args.loss.into()),
        ("--duplicate", args.duplicate.into()),
        ("--reorder", args.reorder.into()),
        ("--corrupt", args.corrupt.into()),
    ];
    for (name, value) in numbers {
        command.arg(name).arg(value.to_string());
    }
    command.arg("--placement").arg(&args.placement);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start another process")?;
    let orders = child.stdin.take().context("asked for a pipe")?;
    let stdout = child.stdout.take().context("asked for a pipe")?;
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            let Ok(word) = serde_json::from_str(&line) else { break };
            if sender.send((index, Some(word))).is_err() {
                return;
            }
        }
        sender.send((index, None)).ok(); // nobody listens any more: fine
    });
    Ok(Member { child, orders })
}

/// Tells each member the addresses of all.
fn introduce(members: &mut [Member], words: &Words) -> Result<()> {
    let mut addresses = vec![String::new(); members.len()];
    for _ in 0..members.len() {
        match words.recv_timeout(Duration::from_secs(20)) {
            Ok((index, Some(Word::Address(address)))) => addresses[index as usize] = address,
            Ok((index, Some(Word::Fault(fault)))) => bail!("process {index}: {fault}"),
            other => bail!("a process did not start: {other:?}"),
        }
    }
    for member in members {
        writeln!(member.orders, "{}", addresses.join(" "))
            .context("a process died at its start")?;
    }
    Ok(())
}

fn watch(args: &SoakArgs, words: &Words) -> Result<Report> {
    let bar = ProgressBar::new(args.messages);
    let style = "{bar:40} {pos}/{len} messages, {per_sec}, {eta} left";
    bar.set_style(
        ProgressStyle::with_template(style).unwrap_or_else(|_| ProgressStyle::default_bar()),
    );
    let count = args.processes as usize;
    let mut report = Report {
        received: vec![0; count],
        memory: vec![MemoryTrack::default(); count],
        faults: Vec::new(),
    };
    let mut open_count = count;
    while open_count > 0 {
        let (index, word) = words
            .recv_timeout(Duration::from_secs(60))
            .context("no progress for a minute: something hangs")?;
        let at = index as usize;
        match word {
            Some(
                Word::Progress { received, resident_len }
                | Word::Done { received, resident_len, .. },
            ) => {
                report.received[at] = received;
                report.memory[at].0.push(resident_len);
                bar.set_position(report.received.iter().sum());
            }
            Some(Word::Fault(fault)) => report.faults.push(format!("process {index}: {fault}")),
            Some(Word::Address(_)) => {}
            None => open_count -= 1,
        }
    }
    bar.finish_and_clear();
    let expected = member::message_count(args.messages, args.processes)
        * u64::from(args.processes)
        * u64::from(args.processes - 1);
    let received: u64 = report.received.iter().sum();
    if received != expected {
        report.faults.push(format!("{received} messages came of {expected}"));
    }
    Ok(report)
}
