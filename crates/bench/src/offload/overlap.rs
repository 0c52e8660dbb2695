//! Post, compute without any call, wait: how much of the transfer was hidden behind the computation.
//!
//! *Overlap* = (T_comm + T_comp − T_total) ÷ T_comm with T_comp = 3 × T_comm; one side computes, the other waits. The
//! computing side measures. A sender's time ends with the receiver's word that all of it is there: a full socket buffer is
//! not a delivered message. With [`Computing::All`] both sides send, receive and compute on all cores: there is no core
//! to hide anything on, and the question is only whether a helper makes it slower.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::{AGAIN, END, WORD_LEN, hear, tell};
use crate::courier::Courier;
use crate::cpu::CpuTime;
use crate::figures::{Figure, Figures};
use crate::system::{Job, Outcome};
use crate::variant::Computing;
use crate::work::{Work, is_over, median, timed};

/// The computation takes so many times as long as the transfer.
const COMP_FACTOR: f64 = 3.0;
/// Transfers before those that say how long one takes, and the number of these.
const WARM_COUNT: usize = 2;
const TRIAL_COUNT: usize = 5;
/// However long they take, so many rounds are measured.
const ROUND_COUNT_MIN: usize = 3;
/// With all cores busy the amount of work must not depend on the system: a transfer is taken to last this long.
const NOMINAL_NS: f64 = 20e3;
const NOMINAL_NS_PER_BYTE: f64 = 1.0 / 3.0;

/// The active side, and its three kinds of rounds.
struct Rounds<'a> {
    courier: &'a mut dyn Courier,
    work: Work,
    computing: Computing,
    thread_count: usize,
    units: u64,
    data: Vec<u8>,
    back: Vec<u8>,
}

impl Rounds<'_> {
    /// One transfer with so much work between posting and waiting; how long it took, in ns.
    fn transfer(&mut self, units: u64) -> Result<f64> {
        tell(self.courier, AGAIN + units)?;
        hear(self.courier)?;
        let (data, back) = (std::mem::take(&mut self.data), std::mem::take(&mut self.back));
        let start = Instant::now();
        self.courier.recv(back)?;
        self.courier.send(data)?;
        if units > 0 {
            self.compute(units);
        }
        self.data = self.courier.wait_sent()?;
        self.back = self.courier.wait_received()?;
        Ok(start.elapsed().as_nanos() as f64)
    }

    fn compute(&mut self, units: u64) {
        match self.thread_count {
            1 => self.work.units(units),
            count => self.work.units_on(count, units),
        }
    }
}

/// Lengths of what the active side sends and receives.
fn lengths(computing: Computing, bytes: usize) -> (usize, usize) {
    match computing {
        Computing::Sender => (bytes, WORD_LEN),
        Computing::Receiver => (WORD_LEN, bytes),
        Computing::All => (bytes, bytes),
    }
}

/// Threads that compute in each of the two processes.
pub(crate) fn thread_count(job: &Job, computing: Computing) -> usize {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let sharers = if job.manner.shares_machine { 2 } else { 1 };
    if computing == Computing::All { (cores / sharers).max(1) } else { 1 }
}

/// The active side.
pub(super) fn measure(job: &Job, courier: &mut dyn Courier, work: Work) -> Result<Outcome> {
    let computing = job.variant.computing.context("overlap needs to know who computes")?;
    let (out_len, back_len) = lengths(computing, job.bytes);
    let (data, back) = (vec![1; out_len], vec![0; back_len]);
    let thread_count = thread_count(job, computing);
    let mut rounds = Rounds { courier, work, computing, thread_count, units: 0, data, back };
    rounds.choose_units(job)?;
    let (mut comm, mut comp, mut total) = (Vec::new(), Vec::new(), Vec::new());
    let (start, cpu) = (Instant::now(), CpuTime::now());
    let time = Duration::from_secs_f64(job.seconds);
    while !is_over(start, time) || total.len() < ROUND_COUNT_MIN {
        let units = rounds.units;
        comm.push(rounds.transfer(0)?);
        comp.push(timed(|| rounds.compute(units)));
        total.push(rounds.transfer(units)?);
    }
    let cpu = CpuTime::now().since(cpu);
    let messages = (comm.len() + total.len()) as u64;
    tell(rounds.courier, END)?;
    let elapsed_ns = start.elapsed().as_nanos() as u64;
    let [comm, comp, total] = [comm, comp, total].map(|mut times| median(&mut times));
    let mut figures =
        Figures::of([(Figure::CommNs, comm), (Figure::CompNs, comp), (Figure::TotalNs, total)]);
    if computing != Computing::All {
        figures.add(&Figures::of([(Figure::Overlap, (comm + comp - total) / comm)]));
    }
    let bytes = messages * job.bytes as u64;
    Ok(Outcome { bytes, messages, elapsed_ns, cpu: Some(cpu), figures, ..Outcome::default() })
}

impl Rounds<'_> {
    fn choose_units(&mut self, job: &Job) -> Result<()> {
        for _ in 0..WARM_COUNT {
            self.transfer(0)?;
        }
        let mut trials = (0..TRIAL_COUNT).map(|_| self.transfer(0)).collect::<Result<Vec<_>>>()?;
        let transfer_ns = match self.computing {
            Computing::All => NOMINAL_NS + job.bytes as f64 * NOMINAL_NS_PER_BYTE,
            _ => median(&mut trials),
        };
        self.units = self.work.units_in(COMP_FACTOR * transfer_ns).max(1);
        Ok(())
    }
}

/// The passive side: waits, or computes too.
pub(super) fn attend(job: &Job, courier: &mut dyn Courier, mut work: Work) -> Result<Outcome> {
    let computing = job.variant.computing.context("overlap needs to know who computes")?;
    let (back_len, out_len) = lengths(computing, job.bytes);
    let (mut data, mut back) = (vec![1; out_len], vec![0; back_len]);
    let thread_count = thread_count(job, computing);
    loop {
        let word = hear(courier)?;
        if word == END {
            return Ok(Outcome::default());
        }
        courier.recv(back)?;
        tell(courier, AGAIN)?;
        if computing == Computing::All {
            courier.send(data)?;
            work.units_on(thread_count, word - AGAIN);
            data = courier.wait_sent()?;
            back = courier.wait_received()?;
        } else {
            // A word comes, and is answered with the data; or the data, answered with a word.
            back = courier.wait_received()?;
            courier.send(data)?;
            data = courier.wait_sent()?;
        }
    }
}
