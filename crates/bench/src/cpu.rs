//! What the processors of the whole machine did, from the system's own accounting.
//!
//! A process's own times would hide the work that the kernel does for it in interrupts, and that is most of what a
//! network costs. So this counts everything, other people's work included: measure on a quiet machine.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// Ticks a second in /proc/stat; `USER_HZ` is 100 on every Linux that Rust runs on.
const TICKS_PER_SECOND: f64 = 100.0;

/// Seconds of processor time by kind, over all cores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CpuTime {
    /// In programs.
    pub user: f64,
    /// In the kernel on behalf of programs, and in hard interrupts.
    pub system: f64,
    /// In the kernel's deferred work: most of the network stack's receiving half.
    pub softirq: f64,
}

impl CpuTime {
    /// Since the machine started. All zero where /proc is not to be had.
    pub fn now() -> Self {
        fs::read_to_string("/proc/stat").ok().and_then(|text| parse(&text)).unwrap_or_default()
    }

    /// The time from `earlier` to this.
    pub fn since(self, earlier: Self) -> Self {
        let passed = |now: f64, then: f64| (now - then).max(0.0);
        Self {
            user: passed(self.user, earlier.user),
            system: passed(self.system, earlier.system),
            softirq: passed(self.softirq, earlier.softirq),
        }
    }

    /// All kinds together.
    pub fn total(self) -> f64 {
        self.user + self.system + self.softirq
    }

    /// Each kind divided by the same number.
    pub fn per(self, count: f64) -> Self {
        Self { user: self.user / count, system: self.system / count, softirq: self.softirq / count }
    }
}

/// Share of the machine's cores that is busy with something now, watched for a moment.
pub fn busy_share() -> f64 {
    let before = CpuTime::now();
    let start = Instant::now();
    thread::sleep(Duration::from_millis(200));
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let busy = CpuTime::now().since(before).total();
    (busy / (start.elapsed().as_secs_f64() * cores as f64)).min(1.0)
}

/// Processor time of all threads of this process, as finely as the scheduler counts it.
pub fn process_time() -> Duration {
    let Ok(threads) = fs::read_dir("/proc/self/task") else { return Duration::ZERO };
    let texts = threads.flatten().filter_map(|thread| {
        // The first word of three: nanoseconds on a core.
        fs::read_to_string(thread.path().join("schedstat")).ok()
    });
    let ns = texts.filter_map(|text| text.split_whitespace().next()?.parse::<u64>().ok()).sum();
    Duration::from_nanos(ns)
}

/// The first line: `cpu  user nice system idle iowait irq softirq steal …`.
fn parse(stat: &str) -> Option<CpuTime> {
    let mut words = stat.lines().next()?.split_whitespace();
    if words.next()? != "cpu" {
        return None;
    }
    let ticks: Vec<u64> = words.map_while(|word| word.parse().ok()).collect();
    let seconds = |index: usize| ticks.get(index).map(|&ticks| ticks as f64 / TICKS_PER_SECOND);
    Some(CpuTime {
        user: seconds(0)? + seconds(1)?,
        system: seconds(2)? + seconds(5)?,
        softirq: seconds(6)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_kept_apart() {
        let time = parse("cpu  100 20 300 4000 50 6 70 8 0 0\ncpu0 1 2 3\n").unwrap();
        assert_eq!(time, CpuTime { user: 1.2, system: 3.06, softirq: 0.7 });
        assert!((time.total() - 4.96).abs() < 1e-9);
    }

    #[test]
    fn process_has_used_some_time() {
        crate::work::Work::calibrate();
        assert!(process_time() > Duration::from_millis(1), "{:?}", process_time());
    }

    #[test]
    fn nonsense_is_not_a_time() {
        assert_eq!(parse(""), None);
        assert_eq!(parse("cpu one two"), None);
        assert_eq!(parse("cpu 1 2 3"), None);
    }
}
