//! `bench layers`: what an upper layer leaves of the interface below it (Figures 4 and 6 of the Fast Messages paper).
//!
//! ```text
//!   packhorse           tagged messages, beside
//!   packhorse-streams   bare streams: a handler that receives into one buffer
//!   packhorse-shim1     message passing on calls that know only whole messages: two copies more
//!   packhorse-shim2     the same on streams: none
//! ```
//!
//! The shims are those of `examples/`. Each is a system like others, so that `bench stream --systems …` takes it too; copies
//! are counted while it is measured, and another number than it promises is an error.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Result, ensure};
use clap::Args;
use packhorse::Peer;
use packhorse::stream::Streams;
use packhorse_layers::{ContiguousShim, Shim, StreamShim};

use crate::command::Setup;
use crate::offload::sheets::Sheet;
use crate::ours::meet;
use crate::plan::{Case, Contender};
use crate::ratio::{Metric, ratios, values};
use crate::row::{OURS, Row};
use crate::sizes::show_bytes;
use crate::system::{Control, Job, Outcome, Pattern, Role, Rounds, System, Tally};
use crate::table::show;

const STREAMS: &str = "packhorse-streams";
const SHIM1: &str = "packhorse-shim1";
const SHIM2: &str = "packhorse-shim2";
/// In the order of the table.
const CONTENDERS: [&str; 4] = [STREAMS, SHIM2, SHIM1, OURS];
const SIZES: &[usize] = &[16, 64, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20];
/// Of the latency that is shown beside.
const PING_LEN: usize = 8;
const SECONDS: f64 = 0.3;
const REPS: usize = 5;

/// Handlers: bare data, and the words that end a measurement.
const DATA: u16 = 1;
const WORD: u16 = 2;
const TAG: u64 = 1;
/// What an extraction handles of shorter messages, and receives that wait: more of them than one extraction can use up, and no more memory than that,
/// which would be out of the caches each time a buffer has its turn.
const EXTRACT_LEN: usize = 128 << 10;
const POSTED_LEN: usize = 2 * EXTRACT_LEN;
const POSTED_COUNT_MAX: usize = 1 << 13;
/// A sender looks for the word that ends it so often.
const LOOK_EVERY: usize = 32;
/// Longest wait at a time.
const WAIT: Duration = Duration::from_secs(1);

/// `bench layers`.
#[derive(Clone, Debug, Args)]
pub struct LayersArgs {
    #[command(flatten)]
    setup: Setup,
}

/// A layer of ours that can be measured.
#[derive(Clone, Copy, Debug)]
pub struct Layer(&'static str);

impl Layer {
    /// Bare streams.
    pub const BARE: Self = Self(STREAMS);
    /// Message passing on whole messages.
    pub const CONTIGUOUS: Self = Self(SHIM1);
    /// Message passing on streams.
    pub const STREAMED: Self = Self(SHIM2);
}

impl System for Layer {
    fn name(&self) -> &'static str {
        self.0
    }

    fn is_usual(&self, _: bool) -> bool {
        false
    }

    fn run(&self, job: &Job, control: &mut dyn Control) -> Result<Outcome> {
        let (endpoint, peer) = meet(job, control)?;
        let streams = endpoint.streams();
        let flow: Box<dyn Flow> = match self.0 {
            SHIM1 => Box::new(Matched::new(ContiguousShim::new(&endpoint), job, [1, 1])),
            SHIM2 => Box::new(Matched::new(StreamShim::new(&endpoint), job, [0, 0])),
            _ => Box::new(Bare::new(&streams, job)),
        };
        let side = Side::new(streams, peer, flow, job.bytes);
        control.exchange("handlers are registered")?;
        match (job.pattern.is_ping_pong(), job.role) {
            (true, Role::Active) => side.ping(job),
            (true, Role::Passive) => side.pong(job),
            (false, Role::Active) => side.pour(job),
            (false, Role::Passive) => side.count(job),
        }
    }
}

/// Messages of one length, sent and received by a layer.
trait Flow {
    fn send(&mut self, streams: &Streams, peer: Peer, payload: &[u8]) -> Result<()>;

    /// How many messages arrived since this was asked last.
    fn arrived(&mut self) -> u64;

    /// Whether it made the copies it is known for, and no other.
    fn check(&self) -> Result<()>;
}

/// Streams without any layer.
struct Bare {
    arrived: Arc<AtomicU64>,
    seen: u64,
}

impl Bare {
    fn new(streams: &Streams, job: &Job) -> Self {
        let (arrived, len) = (Arc::<AtomicU64>::default(), job.bytes);
        let buffers: Arc<Mutex<Vec<Vec<u8>>>> = Arc::default();
        let counted = Arc::clone(&arrived);
        streams.register(DATA, move |_, mut stream| {
            let (counted, buffers) = (Arc::clone(&counted), Arc::clone(&buffers));
            async move {
                let lock = || buffers.lock().unwrap_or_else(PoisonError::into_inner);
                let mut buffer = lock().pop().unwrap_or_else(|| vec![0; len]);
                if stream.receive(&mut buffer).await.is_ok_and(|got| got == len) {
                    counted.fetch_add(1, Ordering::Relaxed);
                }
                lock().push(buffer);
            }
        });
        Self { arrived, seen: 0 }
    }
}

impl Flow for Bare {
    fn send(&mut self, streams: &Streams, peer: Peer, payload: &[u8]) -> Result<()> {
        Ok(streams.send(peer, DATA, &[payload])?)
    }

    fn arrived(&mut self) -> u64 {
        let now = self.arrived.load(Ordering::Relaxed);
        now - std::mem::replace(&mut self.seen, now)
    }

    fn check(&self) -> Result<()> {
        Ok(())
    }
}

/// A shim, with receives that wait.
struct Matched<S> {
    shim: S,
    /// Copies for each message: assembling at its sender, staging at its receiver.
    copies_each: [u64; 2],
    sent_count: u64,
    received_count: u64,
}

impl<S: Shim> Matched<S> {
    fn new(shim: S, job: &Job, copies_each: [u64; 2]) -> Self {
        let count = (POSTED_LEN / job.bytes).clamp(4, POSTED_COUNT_MAX);
        (0..count).for_each(|_| shim.post(TAG, vec![0; job.bytes]));
        Self { shim, copies_each, sent_count: 0, received_count: 0 }
    }
}

impl<S: Shim> Flow for Matched<S> {
    fn send(&mut self, _: &Streams, peer: Peer, payload: &[u8]) -> Result<()> {
        self.sent_count += 1;
        Ok(self.shim.send(peer, TAG, payload)?)
    }

    fn arrived(&mut self) -> u64 {
        let mut count = 0;
        while let Some(received) = self.shim.try_take() {
            self.shim.post(TAG, received.buffer);
            count += 1;
        }
        self.received_count += count;
        count
    }

    fn check(&self) -> Result<()> {
        let copies = self.shim.copies();
        let [assembling, staging] = self.copies_each;
        ensure!(
            copies.assembling() == assembling * self.sent_count
                && copies.staging() == staging * self.received_count,
            "{} messages sent and {} received took {} assembling and {} staging copies",
            self.sent_count,
            self.received_count,
            copies.assembling(),
            copies.staging()
        );
        Ok(())
    }
}

/// One side of a measurement.
struct Side {
    streams: Streams,
    peer: Peer,
    flow: Box<dyn Flow>,
    /// What an extraction handles: a message at least.
    extract_len: usize,
    /// The other side has said the word.
    is_told: Arc<AtomicBool>,
}

impl Side {
    fn new(streams: Streams, peer: Peer, flow: Box<dyn Flow>, bytes: usize) -> Self {
        let is_told = Arc::<AtomicBool>::default();
        let told = Arc::clone(&is_told);
        streams.register(WORD, move |_, _| {
            told.store(true, Ordering::Relaxed);
            std::future::ready(())
        });
        Self { streams, peer, flow, extract_len: EXTRACT_LEN.max(bytes), is_told }
    }

    fn say(&self) -> Result<()> {
        Ok(self.streams.send(self.peer, WORD, &[])?)
    }

    fn is_told(&self) -> bool {
        self.is_told.load(Ordering::Relaxed)
    }

    fn extract(&self) -> Result<()> {
        self.streams.extract_wait(self.extract_len, WAIT)?;
        Ok(())
    }

    fn send(&mut self, payload: &[u8]) -> Result<()> {
        self.flow.send(&self.streams, self.peer, payload)
    }

    fn ping(mut self, job: &Job) -> Result<Outcome> {
        let payload = vec![1; job.bytes];
        // The first round trip makes the two known to each other; it is not measured.
        self.round(&payload)?;
        let mut rounds = Rounds::begin(job);
        loop {
            self.round(&payload)?;
            if !rounds.lap() {
                break;
            }
        }
        self.say()?;
        self.streams.drain(WAIT);
        self.flow.check()?;
        Ok(rounds.finish())
    }

    fn round(&mut self, payload: &[u8]) -> Result<()> {
        self.send(payload)?;
        while self.flow.arrived() == 0 {
            self.extract()?;
        }
        Ok(())
    }

    fn pong(mut self, job: &Job) -> Result<Outcome> {
        let payload = vec![1; job.bytes];
        while !self.is_told() {
            self.extract()?;
            for _ in 0..self.flow.arrived() {
                self.send(&payload)?;
            }
        }
        self.flow.check()?;
        Ok(Outcome::default())
    }

    /// Sends until told to stop, and says so.
    fn pour(mut self, job: &Job) -> Result<Outcome> {
        let payload = vec![1; job.bytes];
        let look_every = ((1 << 20) / job.bytes).clamp(1, LOOK_EVERY);
        while !self.is_told() {
            for _ in 0..look_every {
                self.send(&payload)?;
            }
            self.streams.extract(usize::MAX)?;
        }
        self.say()?;
        self.streams.drain(WAIT);
        self.flow.check()?;
        Ok(Outcome::default())
    }

    /// Receives until it has measured long enough; then what is still under way.
    fn count(mut self, job: &Job) -> Result<Outcome> {
        let mut tally = Tally::new(job);
        loop {
            self.extract()?;
            let messages = self.flow.arrived();
            if messages == 0 {
                tally.idle()?;
            } else if !tally.add(messages * job.bytes as u64, messages) {
                break;
            }
        }
        self.say()?;
        while !self.is_told() {
            self.extract()?;
            self.flow.arrived();
        }
        self.flow.check()?;
        tally.finish()
    }
}

impl LayersArgs {
    /// Measures, and prints.
    pub fn run(&self) -> Result<()> {
        let setup = &self.setup;
        ensure!(setup.placement.len() <= 1, "layers are measured with one --placement at a time");
        let sizes = setup.bytes.as_ref().map_or(SIZES, |sizes| &sizes.0);
        let mut cases = Case::each(Pattern::PingPong, &[PING_LEN]);
        cases.extend(Case::each(Pattern::Stream, sizes));
        let mut plan = setup.plan(cases, SECONDS, REPS);
        if setup.systems.is_empty() {
            let placement = setup.placement.first().map_or("thread", String::as_str);
            plan.contenders = CONTENDERS.map(|name| Contender::new(name, placement)).to_vec();
        }
        let findings = setup.measure(plan)?;
        print!("{}", bandwidths(&findings.rows, sizes).text());
        print!("{}", latencies(&findings.rows).text());
        Ok(())
    }
}

fn bandwidths(rows: &[Row], sizes: &[usize]) -> Sheet {
    let title =
        "layers: bandwidth, and efficiency beside bare streams (median of each repetition's ratio)";
    let head = [
        "bytes",
        "bare streams",
        "shim on streams",
        "efficiency",
        "shim on whole messages",
        "efficiency",
        "tagged messages",
        "streams ÷ tagged",
    ];
    let mut sheet = Sheet::new(title, 1, &head);
    let none = || "–".to_owned();
    for &bytes in sizes {
        let case = Case::plain(Pattern::Stream, bytes);
        let bandwidth = |system| {
            let value = values(rows, case, system, Metric::Bandwidth);
            value.map_or_else(none, |spread| show(Metric::Bandwidth, spread.median))
        };
        let percent = |system, base| {
            let ratio = ratios(rows, case, Metric::Bandwidth, (system, base));
            ratio.map_or_else(none, |spread| format!("{:.0} %", 100.0 * spread.median))
        };
        sheet.lines.push(vec![
            show_bytes(bytes),
            bandwidth(STREAMS),
            bandwidth(SHIM2),
            percent(SHIM2, STREAMS),
            bandwidth(SHIM1),
            percent(SHIM1, STREAMS),
            bandwidth(OURS),
            percent(STREAMS, OURS),
        ]);
    }
    let half =
        |system| half_length(rows, sizes, system).map_or_else(none, |len| format!("{len:.0}"));
    sheet.lines.push(vec![
        "N½".to_owned(),
        half(STREAMS),
        half(SHIM2),
        String::new(),
        half(SHIM1),
        String::new(),
        half(OURS),
        String::new(),
    ]);
    sheet
}

/// The length at which half of the greatest bandwidth is reached, between the lengths that were measured; the first of these
/// if it has more than half already.
fn half_length(rows: &[Row], sizes: &[usize], system: &str) -> Option<f64> {
    let at = |&bytes: &usize| {
        let case = Case::plain(Pattern::Stream, bytes);
        values(rows, case, system, Metric::Bandwidth).map(|spread| (bytes as f64, spread.median))
    };
    let mut points: Vec<(f64, f64)> = sizes.iter().filter_map(at).collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let half = points.iter().map(|point| point.1).fold(0.0, f64::max) / 2.0;
    let above = points.iter().position(|point| point.1 >= half)?;
    let Some(below) = above.checked_sub(1) else { return Some(points[above].0) };
    let ((from, low), (to, high)) = (points[below], points[above]);
    Some(from + (to - from) * (half - low) / (high - low))
}

fn latencies(rows: &[Row]) -> Sheet {
    let title = format!("half round trip of {PING_LEN} bytes");
    let mut sheet = Sheet::new(&title, 1, &["layer", "p50", "÷ tagged"]);
    let case = Case::plain(Pattern::PingPong, PING_LEN);
    for system in CONTENDERS {
        let Some(p50) = values(rows, case, system, Metric::P50) else { continue };
        let ratio = ratios(rows, case, Metric::P50, (system, OURS));
        let ratio = ratio.map_or_else(String::new, |spread| format!("{:.2}", spread.median));
        sheet.lines.push(vec![system.to_owned(), show(Metric::P50, p50.median), ratio]);
    }
    sheet
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::tests::example_row;

    fn row(system: &str, bytes: usize, bytes_per_s: f64) -> Row {
        let row = example_row(Pattern::Stream, system, 0, 1.0);
        Row { bytes, bytes_per_s: Some(bytes_per_s), ..row }
    }

    #[test]
    fn half_of_the_bandwidth_is_found_between_two_lengths() {
        let sizes = [16, 64, 1024];
        let rows = [row(STREAMS, 16, 1e8), row(STREAMS, 64, 3e8), row(STREAMS, 1024, 4e8)];
        assert_eq!(half_length(&rows, &sizes, STREAMS), Some(40.0));
        assert_eq!(half_length(&rows, &sizes[1..], STREAMS), Some(64.0));
        assert_eq!(half_length(&rows, &sizes, OURS), None);
    }

    #[test]
    fn efficiency_is_beside_bare_streams() {
        let rows = [row(STREAMS, 16, 1e8), row(SHIM2, 16, 9e7), row(SHIM1, 16, 5e7)];
        let sheet = bandwidths(&rows, &[16]);
        let line = &sheet.lines[0];
        assert_eq!([&*line[3], &*line[5], &*line[7]], ["90 %", "50 %", "–"]);
    }
}
