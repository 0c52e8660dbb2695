//! Double buffering, as in the paper on application offload (its Figure 7): a producer fills one buffer while the other is
//! sent, a consumer empties one while the other is filled.
//!
//! Each side handles a buffer by a pass over its bytes and as much work as its rate asks for. The slow side sets the pace
//! if all else is hidden behind it. *Limit*: the least of producer alone, consumer alone, bare link. What the two sides
//! reached while they handled buffers is reported too: communication may have slowed them (the paper's Figures 12, 13).

use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::{AGAIN, END, WORD_LEN, greet, hear, in_turn, put_word, word_of};
use crate::courier::Courier;
use crate::cpu::CpuTime;
use crate::figures::{Figure, Figures};
use crate::system::{Control, Job, Outcome, Role, warm_time};
use crate::variant::Bound;
use crate::work::{Work, median, timed};

/// Rate of the slow side where none is given, bytes a second.
pub(crate) const SLOW_RATE: u64 = 1_000_000_000;
/// The fast side is faster by this factor, as in the paper.
pub(crate) const FAST_FACTOR: u64 = 3;
/// How long a side handles buffers alone to find out its rate.
const ALONE_NS: f64 = 20e6;
/// Number of the last message.
const LAST: u64 = u64::MAX;

/// How a side handles a buffer.
struct Handling {
    role: Role,
    work: Work,
    units: u64,
    /// Bytes a second without communication.
    alone: f64,
}

impl Handling {
    /// Tries on two buffers, as later, how much work there must be beside the pass.
    fn calibrate(job: &Job) -> Self {
        let mut this = Self { role: job.role, work: Work::calibrate(), units: 0, alone: 0.0 };
        let mut buffers = [vec![1; job.bytes], vec![1; job.bytes]];
        let wanted_ns = job.bytes as f64 * 1e9 / rate(job) as f64;
        let mut passes: Vec<f64> =
            (0..11).map(|index| this.timed(&mut buffers[index % 2])).collect();
        this.units = this.work.units_in(wanted_ns - median(&mut passes));
        let (start, mut count) = (Instant::now(), 0);
        while start.elapsed().as_nanos() as f64 <= ALONE_NS || count < 4 {
            this.timed(&mut buffers[count % 2]);
            count += 1;
        }
        this.alone = (count * job.bytes) as f64 / start.elapsed().as_secs_f64();
        this
    }

    /// Handles a buffer; how long it took, in ns.
    fn timed(&mut self, buffer: &mut [u8]) -> f64 {
        timed(|| {
            match self.role {
                Role::Active => fill(buffer),
                Role::Passive => _ = black_box(sum(buffer)),
            }
            self.work.units(self.units);
        })
    }
}

/// Bytes a second at which this side is to handle buffers.
fn rate(job: &Job) -> u64 {
    let slow = job.manner.slow_rate.unwrap_or(SLOW_RATE).max(1);
    let is_slow = match job.variant.bound {
        Some(Bound::Consumer) => job.role == Role::Passive,
        _ => job.role == Role::Active,
    };
    if is_slow { slow } else { slow.saturating_mul(FAST_FACTOR) }
}

/// Writes all of a buffer.
#[inline(never)]
fn fill(buffer: &mut [u8]) {
    let mut value = black_box(1_u64);
    for chunk in buffer.chunks_exact_mut(WORD_LEN) {
        value = value.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        chunk.copy_from_slice(&value.to_le_bytes());
    }
}

/// Reads all of a buffer.
#[inline(never)]
fn sum(buffer: &[u8]) -> u64 {
    let words = buffer.chunks_exact(WORD_LEN).map(|chunk| word_of(chunk).unwrap_or(0));
    words.fold(0, u64::wrapping_add)
}

/// Both sides.
pub(super) fn play(
    job: &Job,
    courier: &mut dyn Courier,
    control: &mut dyn Control,
) -> Result<Outcome> {
    ensure!(job.bytes >= 2 * WORD_LEN, "doublebuf needs messages of 16 bytes at least");
    let handling = in_turn(job.role, control, || Handling::calibrate(job))?;
    greet(courier, job.role)?;
    match job.role {
        Role::Active => produce(job, courier, handling),
        Role::Passive => consume(job, courier, handling),
    }
}

fn produce(job: &Job, courier: &mut dyn Courier, mut handling: Handling) -> Result<Outcome> {
    let mut free = vec![vec![0; job.bytes], vec![0; job.bytes]];
    let (mut number, mut busy_ns) = (0, 0.0);
    let start = Instant::now();
    // Longer than the consumer measures: its clock starts with the first buffer.
    let time = Duration::from_secs_f64(job.seconds) + warm_time(job);
    loop {
        let mut buffer = match free.pop() {
            Some(buffer) => buffer,
            None => courier.wait_sent()?,
        };
        busy_ns += handling.timed(&mut buffer);
        let is_last = start.elapsed() >= time;
        put_word(&mut buffer, if is_last { LAST } else { number });
        number += 1;
        if job.manner.clear_to_send {
            hear(courier)?;
        }
        courier.send(buffer)?;
        if is_last {
            break;
        }
    }
    for _ in 0..number.min(2) {
        courier.wait_sent()?;
    }
    // Who leaves before the other has everything may take it along. Words about free buffers come first.
    while hear(courier)? != END {}
    let figures = Figures::of([
        (Figure::ProducerAloneBytesPerS, handling.alone),
        (Figure::ProducerBytesPerS, number as f64 * job.bytes as f64 * 1e9 / busy_ns),
    ]);
    Ok(Outcome { figures, ..Outcome::default() })
}

/// Posts a receive and, where that is wanted, says so. Nothing waits for the word to be sent; those that are, are reaped.
fn post(job: &Job, courier: &mut dyn Courier, buffer: Vec<u8>, words: &mut usize) -> Result<()> {
    courier.recv(buffer)?;
    if !job.manner.clear_to_send {
        return Ok(());
    }
    while *words > 0 && courier.try_sent()?.is_some() {
        *words -= 1;
    }
    *words += 1;
    courier.send(AGAIN.to_le_bytes().to_vec())
}

/// What the consumer counts once it is warm.
struct Counted {
    start: Instant,
    cpu: CpuTime,
    messages: u64,
    busy_ns: f64,
}

fn consume(job: &Job, courier: &mut dyn Courier, mut handling: Handling) -> Result<Outcome> {
    let mut words = 0;
    for _ in 0..2 {
        post(job, courier, vec![0; job.bytes], &mut words)?;
    }
    let begin = Instant::now();
    let (mut expected, mut counted, mut outcome) = (0, None, None);
    let time = Duration::from_secs_f64(job.seconds);
    let ended = loop {
        let mut buffer = courier.wait_received()?;
        let number = word_of(&buffer)?;
        if number == LAST {
            break Instant::now();
        }
        ensure!(number == expected, "buffer {number} came where {expected} was due");
        expected += 1;
        let ns = handling.timed(&mut buffer);
        post(job, courier, buffer, &mut words)?;
        let now = Instant::now();
        match &mut counted {
            None if now - begin >= warm_time(job) => {
                counted =
                    Some(Counted { start: now, cpu: CpuTime::now(), messages: 0, busy_ns: 0.0 });
            }
            None => {}
            Some(counted) if outcome.is_none() => {
                counted.messages += 1;
                counted.busy_ns += ns;
                if now - begin >= time {
                    outcome = Some(counted.outcome(job, now, &handling));
                }
            }
            Some(_) => {}
        }
    };
    courier.send(END.to_le_bytes().to_vec())?;
    for _ in 0..=words {
        courier.wait_sent()?;
    }
    // On a busy machine the producer may have begun long before this side: what was counted until its end counts.
    let cut_short = || {
        let counted = counted.filter(|counted| counted.messages > 0)?;
        Some(counted.outcome(job, ended, &handling))
    };
    outcome.or_else(cut_short).context("the producer stopped before anything was counted")
}

impl Counted {
    fn outcome(&self, job: &Job, now: Instant, handling: &Handling) -> Outcome {
        let bytes = self.messages * job.bytes as u64;
        Outcome {
            bytes,
            messages: self.messages,
            elapsed_ns: (now - self.start).as_nanos() as u64,
            cpu: Some(CpuTime::now().since(self.cpu)),
            figures: Figures::of([
                (Figure::ConsumerAloneBytesPerS, handling.alone),
                (Figure::ConsumerBytesPerS, bytes as f64 * 1e9 / self.busy_ns),
            ]),
            ..Outcome::default()
        }
    }
}
