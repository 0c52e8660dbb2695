//! One process of a soak.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args;
use packhorse::{Builder, Endpoint, Faults, Peer, Placement, Receiving, Sending, Wanted};
use packhorse_bench::process::die_with_parent;
use packhorse_sim::{Rng, pattern};

use super::Word;

/// Messages under way to each peer, and receives posted for each.
const DEPTH: usize = 16;
/// Told how far it is this often.
const REPORT_EVERY: Duration = Duration::from_millis(200);

/// Be one process of a soak. Not for people.
#[derive(Debug, Args)]
pub(crate) struct MemberArgs {
    #[arg(long)]
    parent: u32,
    #[arg(long)]
    index: u32,
    #[arg(long)]
    processes: u32,
    #[arg(long)]
    messages: u64,
    #[arg(long)]
    longest: u32,
    #[arg(long)]
    seed: u64,
    #[arg(long)]
    placement: String,
    #[arg(long)]
    loss: u32,
    #[arg(long)]
    duplicate: u32,
    #[arg(long)]
    reorder: u32,
    #[arg(long)]
    corrupt: u32,
}

/// Messages from each to each.
pub(super) fn message_count(messages: u64, processes: u32) -> u64 {
    let pairs = u64::from(processes) * u64::from(processes - 1);
    messages.div_ceil(pairs)
}

/// What goes from one to another, known to both.
#[derive(Clone)]
struct Course {
    rng: Rng,
    longest: u32,
}

impl Course {
    fn new(seed: u64, from: u32, to: u32, longest: u32) -> Self {
        let rng = Rng::new(seed).fork_n(u64::from(from)).fork_n(u64::from(to));
        Self { rng, longest }
    }

    /// Length and tag of message `number`: mostly small, some medium, few large.
    fn message(&self, number: u64) -> (usize, u64) {
        let mut rng = self.rng.fork_n(number);
        let longest = u64::from(self.longest);
        let len = match rng.below(1000) {
            0 => rng.range(0..=longest),
            1..20 => rng.range(0..=longest.min(64 << 10)),
            20..200 => rng.range(0..=longest.min(4 << 10)),
            _ => rng.range(0..=longest.min(64)),
        };
        (len as usize, rng.next_u64())
    }
}

/// Number of a message among all of a soak, for its bytes.
fn identity(from: u32, to: u32, number: u64) -> u32 {
    (u64::from(from) << 27 ^ u64::from(to) << 22 ^ number) as u32
}

/// One peer: what goes to it and what comes from it.
struct Line {
    index: u32,
    peer: Peer,
    out: Course,
    back: Course,
    sent: u64,
    received: u64,
    posted: u64,
    going: VecDeque<Sending<Vec<u8>>>,
    coming: VecDeque<Receiving<Vec<u8>>>,
}

/// Lives until all is exchanged.
pub(crate) fn run(args: &MemberArgs) -> Result<()> {
    die_with_parent(args.parent).context("cannot tie this process to its parent")?;
    let outcome = soak(args);
    if let Err(error) = &outcome {
        say(&Word::Fault(format!("{error:#}")))?;
    }
    Ok(())
}

fn say(word: &Word) -> Result<()> {
    let mut out = io::stdout().lock();
    serde_json::to_writer(&mut out, word)?;
    out.write_all(b"\n")?;
    Ok(out.flush()?)
}

fn open(args: &MemberArgs) -> Result<Endpoint> {
    let placement = match args.placement.as_str() {
        "thread" => Placement::Thread,
        "inline" => Placement::Inline,
        other => bail!("no placement {other:?}; there are: inline, thread"),
    };
    let mut builder = Builder::new().bind([127, 0, 0, 1]).placement(placement);
    if args.loss + args.duplicate + args.reorder + args.corrupt > 0 {
        builder = builder.faults(Faults {
            seed: args.seed ^ u64::from(args.index) << 32,
            loss_ppm: args.loss,
            duplicate_ppm: args.duplicate,
            reorder_ppm: args.reorder,
            corrupt_ppm: args.corrupt,
            ..Faults::default()
        });
    }
    Ok(builder.open()?)
}

fn soak(args: &MemberArgs) -> Result<()> {
    let endpoint = open(args)?;
    say(&Word::Address(endpoint.address().to_string()))?;
    let mut addresses = String::new();
    io::stdin().read_line(&mut addresses)?;
    let mut lines = Vec::new();
    for (index, address) in addresses.split_whitespace().enumerate() {
        let index = index as u32;
        if index != args.index {
            let peer = endpoint.peer(&address.parse()?)?;
            lines.push(Line::new(args, index, peer));
        }
    }
    let count = message_count(args.messages, args.processes);
    let mut report_at = Instant::now();
    while lines.iter().any(|line| !line.is_over(count)) {
        let mut moved = 0;
        for line in &mut lines {
            moved += line.step(args.index, &endpoint, count)?;
        }
        if moved == 0 {
            endpoint.turn();
        }
        if report_at.elapsed() > REPORT_EVERY {
            report_at = Instant::now();
            let received = lines.iter().map(|line| line.received).sum();
            say(&Word::Progress { received, resident_len: resident_len() })?;
        }
    }
    let received = lines.iter().map(|line| line.received).sum();
    let counters = endpoint.counters_json();
    say(&Word::Done { received, resident_len: resident_len(), counters })?;
    anyhow::ensure!(endpoint.close(Duration::from_secs(30)), "not all was accepted when closing");
    Ok(())
}

impl Line {
    fn new(args: &MemberArgs, index: u32, peer: Peer) -> Self {
        Self {
            index,
            peer,
            out: Course::new(args.seed, args.index, index, args.longest),
            back: Course::new(args.seed, index, args.index, args.longest),
            sent: 0,
            received: 0,
            posted: 0,
            going: VecDeque::new(),
            coming: VecDeque::new(),
        }
    }

    fn is_over(&self, count: u64) -> bool {
        self.received == count && self.sent == count && self.going.is_empty()
    }

    /// Posts what is to be posted and takes what has ended; how much that was.
    fn step(&mut self, me: u32, endpoint: &Endpoint, count: u64) -> Result<usize> {
        let mut moved = 0;
        while self.coming.len() < DEPTH && self.posted < count {
            let (len, tag) = self.back.message(self.posted);
            let wanted = Wanted::tag(tag).from(self.peer);
            self.coming.push_back(endpoint.recv(wanted, vec![0; len]));
            self.posted += 1;
            moved += 1;
        }
        while self.going.len() < DEPTH && self.sent < count {
            let (len, tag) = self.out.message(self.sent);
            let mut bytes = vec![0; len];
            pattern::fill(identity(me, self.index, self.sent), 0, &mut bytes);
            self.going.push_back(endpoint.send(self.peer, tag, bytes));
            self.sent += 1;
            moved += 1;
        }
        while let Some(message) = self.coming.front_mut().and_then(Receiving::test) {
            self.coming.pop_front();
            self.check(me, &message?.buffer)?;
            moved += 1;
        }
        while let Some(sent) = self.going.front_mut().and_then(Sending::test) {
            self.going.pop_front();
            sent?;
            moved += 1;
        }
        Ok(moved)
    }

    fn check(&mut self, me: u32, bytes: &[u8]) -> Result<()> {
        let (len, _) = self.back.message(self.received);
        let number = self.received;
        if bytes.len() != len {
            bail!("message {number} from {} has {} bytes, not {len}", self.index, bytes.len());
        }
        if let Err(wrong) = pattern::verify(identity(self.index, me, number), 0, bytes) {
            bail!("byte {wrong} of message {number} from {} is wrong", self.index);
        }
        self.received += 1;
        Ok(())
    }
}

/// Memory in use, as the system counts it.
fn resident_len() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or(0) * 4096
}
