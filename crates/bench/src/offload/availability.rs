//! The polling-interval loop of the RMPP paper (its Figure 9): how much work gets done while messages are moved.
//!
//! Several pairs of a send and a receive are under way. The active side works in slices of so many units and polls after
//! each; whatever has arrived is posted again. *Availability* is the time the work takes alone ÷ the time it took here;
//! *bandwidth* is what arrived at this side; *effective bandwidth* the product of both.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::{AGAIN, END, depth, put_word};
use crate::courier::Courier;
use crate::cpu::CpuTime;
use crate::figures::{Figure, Figures};
use crate::system::{Job, Outcome, warm_time};
use crate::work::Work;

/// Units of work between two looks at the clock, so that short slices are not mostly that. A poll counts as some, too.
const UNITS_PER_LOOK: u64 = 20_000;
const UNITS_PER_POLL: u64 = 50;

/// The pairs under way, and the buffers for more.
struct Pairs<'a> {
    courier: &'a mut dyn Courier,
    free: Vec<Vec<u8>>,
    depth: usize,
    receives: usize,
    sends: usize,
    received_count: u64,
}

impl<'a> Pairs<'a> {
    fn new(courier: &'a mut dyn Courier, job: &Job) -> Self {
        let (depth, bytes) = (depth(job), job.bytes);
        // Two spare ones: the end of a send may be heard of after the answer to it.
        let free = (0..2 * depth + 2).map(|_| vec![AGAIN as u8; bytes]).collect();
        Self { courier, free, depth, receives: 0, sends: 0, received_count: 0 }
    }

    /// One look; what has arrived is posted again.
    fn poll(&mut self) -> Result<()> {
        while self.receives > 0 {
            let Some(buffer) = self.courier.try_received()? else { break };
            self.receives -= 1;
            self.received_count += 1;
            self.free.push(buffer);
        }
        while self.receives < self.depth {
            while self.free.len() < 2 && self.sends > 0 {
                let Some(buffer) = self.courier.try_sent()? else { return Ok(()) };
                self.sends -= 1;
                self.free.push(buffer);
            }
            let (Some(back), Some(out)) = (self.free.pop(), self.free.pop()) else { break };
            self.courier.recv(back)?;
            self.courier.send(out)?;
            (self.receives, self.sends) = (self.receives + 1, self.sends + 1);
        }
        Ok(())
    }

    /// Waits for all that is under way, then tells the other side.
    fn end(mut self) -> Result<()> {
        for _ in 0..self.receives {
            self.free.push(self.courier.wait_received()?);
        }
        for _ in 0..self.sends {
            self.courier.wait_sent()?;
        }
        let mut last = self.free.pop().context("a buffer is free when nothing is under way")?;
        put_word(&mut last, END);
        self.courier.send(last)?;
        self.courier.wait_sent().map(drop)
    }
}

/// The active side.
pub(super) fn work(job: &Job, courier: &mut dyn Courier, mut work: Work) -> Result<Outcome> {
    let slice = job.variant.slice.context("availability needs the length of a slice")?;
    let mut pairs = Pairs::new(courier, job);
    work_for(warm_time(job), slice, &mut work, &mut pairs)?;
    let (before, cpu) = (pairs.received_count, CpuTime::now());
    let (units, elapsed) = work_for(
        Duration::from_secs_f64(job.seconds) - warm_time(job),
        slice,
        &mut work,
        &mut pairs,
    )?;
    let cpu = CpuTime::now().since(cpu);
    let messages = pairs.received_count - before;
    pairs.end()?;
    let elapsed_ns = elapsed.as_nanos() as f64;
    Ok(Outcome {
        bytes: messages * job.bytes as u64,
        messages,
        elapsed_ns: elapsed_ns as u64,
        cpu: Some(cpu),
        figures: Figures::of([
            (Figure::Availability, work.ns_of(units) / elapsed_ns),
            (Figure::SliceNs, work.ns_of(slice)),
        ]),
        ..Outcome::default()
    })
}

/// Slices and polls for so long: the units of work done, and how long it was.
fn work_for(
    time: Duration,
    slice: u64,
    work: &mut Work,
    pairs: &mut Pairs<'_>,
) -> Result<(u64, Duration)> {
    let (start, mut units, mut look_at) = (Instant::now(), 0, 0);
    loop {
        pairs.poll()?;
        work.units(slice);
        units += slice;
        look_at += slice + UNITS_PER_POLL;
        if look_at >= UNITS_PER_LOOK {
            look_at = 0;
            let passed = start.elapsed();
            if passed >= time {
                return Ok((units, passed));
            }
        }
    }
}

/// The passive side: sends back whatever comes.
pub(super) fn answer(job: &Job, courier: &mut dyn Courier) -> Result<Outcome> {
    // Twice the depth: as many may be on their way back while all that can come has a receive posted.
    for _ in 0..2 * depth(job) {
        courier.recv(vec![0; job.bytes])?;
    }
    let mut sends = 0;
    loop {
        let message = courier.wait_received()?;
        if message.first() == Some(&(END as u8)) {
            return Ok(Outcome::default());
        }
        courier.send(message)?;
        sends += 1;
        while sends > 0 {
            let Some(buffer) = courier.try_sent()? else { break };
            sends -= 1;
            courier.recv(buffer)?;
        }
    }
}
