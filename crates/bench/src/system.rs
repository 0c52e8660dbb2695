//! The seam: what the runner asks of a system under test, be it Packhorse or one of its rivals.
//!
//! ```text
//!              runner
//!         orders │ ▲ outcomes          two processes, one role each;
//!        ┌───────┴─┴───────┐           the runner sleeps while they work
//!     active            passive
//!     System::run       System::run
//! ```
//!
//! Both sides call [`System::run`] with the same [`Job`] but for the role. They exchange one line of text (their
//! addresses), which is also the moment both are ready. In [`Pattern::PingPong`] the active side measures; in
//! [`Pattern::Stream`] and [`Pattern::Rate`] the active side sends and the passive side measures, because only what
//! arrived counts. The clocks for both, [`Rounds`] and [`Tally`], are here, so that every system is timed alike.
//!
//! The patterns of offload ([`crate::offload`]) are written once, against a [`Courier`] that a system hands out; a system
//! that has none ([`System::courier`]) plays them itself.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::courier::Courier;
use crate::cpu::CpuTime;
use crate::figures::Figures;
use crate::variant::{Manner, Variant};

/// After so long without any sign of the other side, a role gives up.
const SILENCE_MAX: Duration = Duration::from_secs(10);
/// Slowest half round trip that is told from slower ones: a minute.
const HALF_RTT_NS_MAX: u64 = 60_000_000_000;
/// Spins without success before the core is offered to others: longer than any undisturbed wait.
const SPINS_PER_YIELD: u32 = 512;
/// Share of the time asked for that is spent warm, before anything counts.
const WARM_SHARE: f64 = 0.1;
/// Clock readings are kept apart by at least so many messages or bytes, so that they cost small messages nothing.
const MESSAGES_PER_LOOK: u64 = 64;
const BYTES_PER_LOOK: u64 = 256 << 10;

/// How bytes are moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Pattern {
    /// One message there, one back; half of the round trip counts.
    #[value(name = "pingpong")]
    PingPong,
    /// Messages one way as fast as they go; bytes a second at the receiver.
    Stream,
    /// Small messages one way, a bounded number on their way; messages a second at the receiver.
    Rate,
    /// One message there, one back, in several ways of waiting.
    Waiting,
    /// Messages there and back while one side works and polls between slices of its work.
    Availability,
    /// A producer and a consumer with two buffers each.
    #[value(name = "doublebuf")]
    DoubleBuf,
    /// Post, compute without any call, wait.
    Overlap,
    /// What a call costs: batches of posts, some work, waits.
    Posts,
    /// Nothing at all, or waiting for what does not come: the processor time it takes.
    Idle,
}

impl Pattern {
    /// Those of plain moving: what `compare` measures.
    pub const FLOWS: [Self; 3] = [Self::PingPong, Self::Stream, Self::Rate];
    /// Those that ask what is left of the processor: what `compare --offload` measures.
    pub const OFFLOAD: [Self; 6] = [
        Self::Availability,
        Self::DoubleBuf,
        Self::Overlap,
        Self::Posts,
        Self::Waiting,
        Self::Idle,
    ];

    /// As it is called on the command line and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::PingPong => "pingpong",
            Self::Stream => "stream",
            Self::Rate => "rate",
            Self::Waiting => "waiting",
            Self::Availability => "availability",
            Self::DoubleBuf => "doublebuf",
            Self::Overlap => "overlap",
            Self::Posts => "posts",
            Self::Idle => "idle",
        }
    }

    /// Whether it is one message there and one back.
    pub fn is_ping_pong(self) -> bool {
        matches!(self, Self::PingPong | Self::Waiting)
    }

    /// Whether the passive side measures: where only what arrived counts.
    pub fn is_measured_by_passive(self) -> bool {
        matches!(self, Self::Stream | Self::Rate | Self::DoubleBuf)
    }

    /// Whether it is played by couriers ([`crate::offload`]).
    pub fn is_by_courier(self) -> bool {
        !matches!(self, Self::PingPong | Self::Stream | Self::Rate | Self::Waiting)
    }
}

/// Which of the two sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Begins: sends first.
    Active,
    /// Answers, or counts.
    Passive,
}

/// One measurement, as told to both sides.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job {
    /// Name of the system that is to do it.
    pub system: String,
    /// What to measure.
    pub pattern: Pattern,
    /// Which side this is.
    pub role: Role,
    /// Address of this side's interface, to bind to.
    pub bind: IpAddr,
    /// Length of a message; at least one.
    pub bytes: usize,
    /// How long to measure, the time to get warm included.
    pub seconds: f64,
    /// Messages that may be on their way at once in [`Pattern::Rate`].
    pub window: usize,
    /// Largest packet of the interface.
    pub mtu: usize,
    /// Link for Packhorse, by name; rivals do not look at it.
    pub link: String,
    /// Placement of Packhorse's engine, by name; rivals do not look at it.
    pub placement: String,
    /// Whether to live with the socket buffers that a user without rights gets on an untuned system (212992).
    pub unprivileged_buffers: bool,
    /// Ports to bind to, where only some are open to the other side.
    #[serde(default)]
    pub ports: Option<RangeInclusive<u16>>,
    /// What the pattern is varied by.
    #[serde(default)]
    pub variant: Variant,
    /// How the system is set, beyond link and placement.
    #[serde(default)]
    pub manner: Manner,
}

impl Job {
    /// Binds a socket of this side, to any port or to the first that is free of those it may have.
    pub fn bind_with<T>(&self, bind: impl Fn(SocketAddr) -> io::Result<T>) -> Result<T> {
        let mut error = None;
        for port in self.ports.clone().unwrap_or(0..=0) {
            match bind(SocketAddr::new(self.bind, port)) {
                Ok(socket) => return Ok(socket),
                Err(next) => error = Some(next),
            }
        }
        let why = || match &self.ports {
            None => format!("cannot bind to {}", self.bind),
            Some(ports) => format!(
                "cannot bind to any port of {} from {} to {}; give the server more --ports",
                self.bind,
                ports.start(),
                ports.end()
            ),
        };
        Err(error.unwrap_or_else(|| io::ErrorKind::InvalidInput.into())).with_context(why)
    }
}

/// How the two sides come to know each other.
pub trait Control {
    /// Gives this side's line (an address) and waits for the other's. Returns when both sides have called it, so it is
    /// a meeting point too; both must call it equally often.
    fn exchange(&mut self, mine: &str) -> Result<String>;
}

/// Something that can be measured.
pub trait System: Sync {
    /// As in the rows: `bare`, `tcp`, `packhorse`, …
    fn name(&self) -> &'static str;

    /// Whether it is measured where nobody said what is to be: on one host, or between two namespaces.
    fn is_usual(&self, is_two_hosts: bool) -> bool {
        let _ = is_two_hosts;
        true
    }

    /// Whether it is measured in this pattern where nobody said what is to be.
    fn is_usual_in(&self, pattern: Pattern, is_two_hosts: bool) -> bool {
        self.can_play(pattern, is_two_hosts) && self.is_usual(is_two_hosts)
    }

    /// Whether who waits can be made to sleep at once ([`Pattern::Waiting`]).
    fn can_sleep(&self) -> bool {
        false
    }

    /// Whether its two sides need not be on one host.
    fn can_be_apart(&self) -> bool {
        true
    }

    /// Whether its two sides can be in two namespaces of one machine.
    fn can_be_in_namespaces(&self) -> bool {
        self.can_be_apart()
    }

    /// Whether it can play this pattern, here or between two namespaces.
    fn can_play(&self, pattern: Pattern, is_two_hosts: bool) -> bool {
        let _ = is_two_hosts;
        Pattern::FLOWS.contains(&pattern)
    }

    /// Plays one role of one measurement to its end. The side that measures returns what it saw, the other
    /// [`Outcome::default`].
    fn run(&self, job: &Job, control: &mut dyn Control) -> Result<Outcome>;

    /// Several messages under way at once, for the patterns of offload; none where it plays those itself.
    fn courier(&self, job: &Job, control: &mut dyn Control) -> Result<Option<Box<dyn Courier>>> {
        let _ = (job, control);
        Ok(None)
    }
}

/// Latencies of one measurement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Median.
    pub p50: u64,
    /// 99 of 100 were no slower.
    pub p99: u64,
    /// Mean of all.
    pub mean: u64,
}

/// What one side saw of one measurement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Half round trips in ns, of every round after the warm ones.
    pub half_rtt_ns: Option<Latency>,
    /// Payload received while it counted.
    pub bytes: u64,
    /// Messages received while it counted.
    pub messages: u64,
    /// How long it counted.
    pub elapsed_ns: u64,
    /// What the whole machine's processors did meanwhile.
    pub cpu: Option<CpuTime>,
    /// What the patterns of offload found.
    #[serde(default)]
    pub figures: Figures,
    /// Anything a reader of the figures should know, such as losses.
    pub note: Option<String>,
}

/// Rounds of a ping-pong, timed one by one.
pub struct Rounds {
    histogram: Histogram<u64>,
    warm_until: Instant,
    end: Instant,
    last: Instant,
    bytes: u64,
}

impl Rounds {
    /// The first round begins now.
    pub fn begin(job: &Job) -> Self {
        let now = Instant::now();
        // Fixed bounds, so that recording never allocates; three digits, a thousandth.
        let histogram = Histogram::new_with_bounds(1, HALF_RTT_NS_MAX, 3).expect("sound bounds");
        Self {
            histogram,
            warm_until: now + warm_time(job),
            end: now + Duration::from_secs_f64(job.seconds),
            last: now,
            bytes: job.bytes as u64,
        }
    }

    /// A round has ended and the next begins. Whether there is to be a next.
    #[inline]
    pub fn lap(&mut self) -> bool {
        let now = Instant::now();
        let half_ns = (now - self.last).as_nanos() as u64 / 2;
        self.last = now;
        if now >= self.warm_until {
            self.histogram.saturating_record(half_ns);
        }
        // However long a round takes, one is measured.
        now < self.end || self.histogram.is_empty()
    }

    /// The measurement as the active side reports it.
    pub fn finish(self) -> Outcome {
        let histogram = &self.histogram;
        let latency = Latency {
            p50: histogram.value_at_quantile(0.5),
            p99: histogram.value_at_quantile(0.99),
            mean: histogram.mean().round() as u64,
        };
        let messages = histogram.len();
        Outcome {
            half_rtt_ns: Some(latency),
            messages,
            bytes: messages * self.bytes,
            elapsed_ns: (self.last - self.warm_until).as_nanos() as u64,
            ..Outcome::default()
        }
    }
}

/// What arrives at the passive side of a stream, counted from the end of the warm time on.
pub struct Tally {
    job_time: Duration,
    warm_time: Duration,
    first: Option<Instant>,
    start: Option<(Instant, CpuTime)>,
    patience: Patience,
    bytes: u64,
    messages: u64,
    look_at: (u64, u64),
    ended: Option<(Duration, CpuTime)>,
}

impl Tally {
    /// Time begins with the first arrival.
    pub fn new(job: &Job) -> Self {
        Self {
            job_time: Duration::from_secs_f64(job.seconds),
            warm_time: warm_time(job),
            first: None,
            start: None,
            patience: Patience::default(),
            bytes: 0,
            messages: 0,
            look_at: (0, 0),
            ended: None,
        }
    }

    /// So much arrived. Whether to go on; once it says no, the measurement is over and later arrivals do not count.
    #[inline]
    pub fn add(&mut self, bytes: u64, messages: u64) -> bool {
        self.patience.refresh();
        self.bytes += bytes;
        self.messages += messages;
        if self.bytes < self.look_at.0 && self.messages < self.look_at.1 {
            return true;
        }
        self.look_at = (self.bytes + BYTES_PER_LOOK, self.messages + MESSAGES_PER_LOOK);
        self.look()
    }

    #[cold]
    fn begin_counting(&mut self, now: Instant) {
        self.start = Some((now, CpuTime::now()));
        (self.bytes, self.messages) = (0, 0);
        self.look_at = (BYTES_PER_LOOK, MESSAGES_PER_LOOK);
    }

    fn look(&mut self) -> bool {
        let now = Instant::now();
        let first = *self.first.get_or_insert(now);
        match self.start {
            None if now - first >= self.warm_time => self.begin_counting(now),
            None => {}
            // Counted from here, not from the first: where others had the core meanwhile, little would be left.
            Some((start, cpu)) if now - start + self.warm_time >= self.job_time => {
                self.ended = Some((now - start, CpuTime::now().since(cpu)));
                return false;
            }
            Some(_) => {}
        }
        true
    }

    /// Nothing arrived this time. An error when that has gone on for too long.
    #[inline]
    pub fn idle(&mut self) -> Result<()> {
        self.patience.spend()
    }

    /// The measurement as the passive side reports it. An error if the sender stopped before its time.
    pub fn finish(self) -> Result<Outcome> {
        let Some((elapsed, cpu)) = self.ended else {
            bail!("the sender stopped before the time was over");
        };
        Ok(Outcome {
            bytes: self.bytes,
            messages: self.messages,
            elapsed_ns: elapsed.as_nanos() as u64,
            cpu: Some(cpu),
            ..Outcome::default()
        })
    }
}

/// For those who spin: an error after ten seconds in which nothing happened. Reads the clock rarely.
#[derive(Debug, Default)]
pub struct Patience {
    spin_count: u32,
    since: Option<Instant>,
}

impl Patience {
    /// Something happened.
    #[inline]
    pub fn refresh(&mut self) {
        self.spin_count = 0;
        self.since = None;
    }

    /// Nothing happened, once more.
    #[inline]
    pub fn spend(&mut self) -> Result<()> {
        self.spin_count = self.spin_count.wrapping_add(1);
        if !self.spin_count.is_multiple_of(SPINS_PER_YIELD) {
            return Ok(());
        }
        // Where the other side waits for this very core, it would wait for a whole slice of time.
        std::thread::yield_now();
        let now = Instant::now();
        if now - *self.since.get_or_insert(now) > SILENCE_MAX {
            bail!("nothing came from the other side for {} s", SILENCE_MAX.as_secs());
        }
        Ok(())
    }
}

/// The part of a measurement's time in which nothing counts yet.
pub(crate) fn warm_time(job: &Job) -> Duration {
    Duration::from_secs_f64((job.seconds * WARM_SHARE).min(0.3))
}

#[cfg(test)]
pub(crate) fn example_job(pattern: Pattern, seconds: f64) -> Job {
    Job {
        system: "bare".into(),
        pattern,
        role: Role::Passive,
        bind: IpAddr::from([127, 0, 0, 1]),
        bytes: 8,
        seconds,
        window: 64,
        mtu: 65536,
        link: "udp".into(),
        placement: "inline".into(),
        unprivileged_buffers: false,
        ports: None,
        variant: Variant::default(),
        manner: Manner::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_measure_at_least_one() {
        let mut rounds = Rounds::begin(&example_job(Pattern::PingPong, 0.0));
        assert!(!rounds.lap());
        let outcome = rounds.finish();
        assert_eq!((outcome.messages, outcome.bytes), (1, 8));
        assert!(outcome.half_rtt_ns.is_some());
    }

    #[test]
    fn warm_arrivals_do_not_count() {
        let mut tally = Tally::new(&example_job(Pattern::Rate, 0.05));
        let mut all = 1;
        while tally.add(8, 1) {
            all += 1;
        }
        let outcome = tally.finish().unwrap();
        assert!(outcome.messages < all, "{} of {all}", outcome.messages);
        assert_eq!(outcome.bytes, 8 * outcome.messages);
        assert!(outcome.elapsed_ns >= 40_000_000, "{}", outcome.elapsed_ns);
    }

    #[test]
    fn sender_that_stops_early_is_an_error() {
        let mut tally = Tally::new(&example_job(Pattern::Stream, 5.0));
        assert!(tally.add(100, 1));
        assert!(tally.finish().unwrap_err().to_string().contains("before the time"));
    }
}
