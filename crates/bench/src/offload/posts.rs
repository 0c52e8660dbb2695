//! What a call costs: EMP's Table 2 and Figure 6.
//!
//! Each round of both sides posts five receives, then five sends, does some work, and waits for all ten. Timed apart: a post
//! of a receive, a post of a send, the wait for a message sent and one received. With more work in each round less of the
//! processor is left to communication; throughput over that share is the figure.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::{AGAIN, END, hear, tell};
use crate::courier::Courier;
use crate::cpu::CpuTime;
use crate::figures::{Figure, Figures};
use crate::system::{Job, Outcome, warm_time};
use crate::work::{Work, is_over};

/// Messages of a batch, as in the paper.
const BATCH: usize = 5;
/// Rounds between two words about whether there are more: as many as fit this time, so that a machine with much else to do
/// comes to an end too.
const ROUND_COUNT_MAX: u64 = 32;
const NS_PER_WORD: f64 = 1e6;
/// A word tells the number of rounds in its low bits and the units of work above; no rounds is the end.
const ROUND_BITS: u32 = 8;

/// Where the time went, in ns.
#[derive(Default)]
struct Spent {
    recv_ns: f64,
    send_ns: f64,
    work_ns: f64,
    wait_ns: f64,
    rounds: usize,
}

/// One side's batch.
struct Batch<'a> {
    courier: &'a mut dyn Courier,
    work: Work,
    out: Vec<Vec<u8>>,
    back: Vec<Vec<u8>>,
}

impl<'a> Batch<'a> {
    fn new(courier: &'a mut dyn Courier, work: Work, bytes: usize) -> Self {
        let buffers = || (0..BATCH).map(|_| vec![1; bytes]).collect();
        Self { courier, work, out: buffers(), back: buffers() }
    }

    /// As many rounds as the word says.
    fn rounds(&mut self, word: u64, spent: &mut Spent) -> Result<()> {
        for _ in 0..word % (1 << ROUND_BITS) {
            self.round(word >> ROUND_BITS, spent)?;
        }
        Ok(())
    }

    fn round(&mut self, units: u64, spent: &mut Spent) -> Result<()> {
        let start = Instant::now();
        for buffer in self.back.drain(..) {
            self.courier.recv(buffer)?;
        }
        let received = Instant::now();
        for buffer in self.out.drain(..) {
            self.courier.send(buffer)?;
        }
        let sent = Instant::now();
        self.work.units(units);
        let worked = Instant::now();
        for _ in 0..BATCH {
            self.out.push(self.courier.wait_sent()?);
            self.back.push(self.courier.wait_received()?);
        }
        let ended = Instant::now();
        let ns = |from: Instant, to: Instant| (to - from).as_nanos() as f64;
        spent.recv_ns += ns(start, received);
        spent.send_ns += ns(received, sent);
        spent.work_ns += ns(sent, worked);
        spent.wait_ns += ns(worked, ended);
        spent.rounds += 1;
        Ok(())
    }
}

impl Spent {
    fn total_ns(&self) -> f64 {
        self.recv_ns + self.send_ns + self.work_ns + self.wait_ns
    }

    fn figures(&self) -> Figures {
        let per_message = |ns: f64| ns / (self.rounds * BATCH) as f64;
        Figures::of([
            (Figure::PostRecvNs, per_message(self.recv_ns)),
            (Figure::PostSendNs, per_message(self.send_ns)),
            (Figure::WaitNs, per_message(self.wait_ns)),
            (Figure::WorkShare, self.work_ns / self.total_ns()),
        ])
    }
}

/// The active side.
pub(super) fn measure(job: &Job, courier: &mut dyn Courier, work: Work) -> Result<Outcome> {
    let mut batch = Batch::new(courier, work, job.bytes);
    let mut warm = Spent::default();
    run_for(&mut batch, warm_time(job), 0, &mut Spent::default())?; // cold, and for nothing
    run_for(&mut batch, warm_time(job), 0, &mut warm)?;
    let share = f64::from(job.variant.load.unwrap_or(0).min(99)) / 100.0;
    let round_ns = warm.total_ns() / warm.rounds as f64;
    let units = batch.work.units_in(round_ns * share / (1.0 - share));
    let (mut spent, cpu) = (Spent::default(), CpuTime::now());
    run_for(&mut batch, Duration::from_secs_f64(job.seconds), units, &mut spent)?;
    let cpu = CpuTime::now().since(cpu);
    tell(batch.courier, END)?;
    let messages = (spent.rounds * BATCH) as u64;
    Ok(Outcome {
        bytes: messages * job.bytes as u64,
        messages,
        elapsed_ns: spent.total_ns() as u64,
        cpu: Some(cpu),
        figures: spent.figures(),
        ..Outcome::default()
    })
}

fn run_for(batch: &mut Batch<'_>, time: Duration, units: u64, spent: &mut Spent) -> Result<()> {
    let start = Instant::now();
    while !is_over(start, time) || spent.rounds == 0 {
        let round_ns = spent.total_ns() / spent.rounds.max(1) as f64;
        let rounds = if spent.rounds == 0 { 1 } else { (NS_PER_WORD / round_ns) as u64 };
        let word = units << ROUND_BITS | rounds.clamp(1, ROUND_COUNT_MAX);
        tell(batch.courier, word)?;
        hear(batch.courier)?;
        batch.rounds(word, spent)?;
    }
    Ok(())
}

/// The passive side: the same rounds, for as long as it is told to.
pub(super) fn attend(job: &Job, courier: &mut dyn Courier, work: Work) -> Result<Outcome> {
    let mut batch = Batch::new(courier, work, job.bytes);
    loop {
        let word = hear(batch.courier)?;
        if word == END {
            return Ok(Outcome::default());
        }
        tell(batch.courier, AGAIN)?;
        batch.rounds(word, &mut Spent::default())?;
    }
}
