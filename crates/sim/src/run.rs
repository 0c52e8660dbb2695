//! Runs: one seed, many seeds on all cores.

use std::any::Any;
use std::cell::RefCell;
use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::rc::Rc;
use std::str::FromStr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use packhorse_link::Link;
#[cfg(feature = "sabotage")]
pub use packhorse_proto::Sabotage;

use crate::adversary::draw_beset;
use crate::digest::Digest;
use crate::draw::draw;
use crate::player::{Outcome, Player};
use crate::portals;
use crate::scenario::Scenario;
use crate::stats::{Stats, Totals};
use crate::streams;
use crate::trace::Tracer;
use crate::world::World;

/// Streams are played for seeds that are multiples of this, Portals for those halfway between.
const PARTS_EVERY: u64 = 4;

/// Seeds that are not multiples of this have an adversary in their scenario.
const PLAIN_EVERY: u64 = 2;

/// What violations of streams, of Portals, and of a scenario with an adversary begin with.
const BESET: &str = "beset: ";
const OF_STREAMS: &str = "streams: ";
const OF_PORTALS: &str = "portals: ";

/// What is played of a seed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Parts {
    /// Its scenario, of every second seed with an adversary; of every fourth its streams, of every fourth its Portals.
    #[default]
    Usual,
    /// All four.
    All,
    /// Its scenario: messages and one-sided operations.
    Messages,
    /// Its scenario with an adversary.
    Adversaries,
    /// Its streams.
    Streams,
    /// Its Portals.
    Portals,
}

impl Parts {
    fn has_messages(self, seed: u64) -> bool {
        match self {
            Self::Usual => seed.is_multiple_of(PLAIN_EVERY),
            Self::All | Self::Messages => true,
            Self::Adversaries | Self::Streams | Self::Portals => false,
        }
    }

    fn has_adversary(self, seed: u64) -> bool {
        match self {
            Self::Usual => !seed.is_multiple_of(PLAIN_EVERY),
            Self::All | Self::Adversaries => true,
            Self::Messages | Self::Streams | Self::Portals => false,
        }
    }

    /// The scenario that is replayed for a seed: the one with an adversary where the seed has no other.
    pub fn scenario_of(self, seed: u64) -> Scenario {
        match self {
            Self::Usual if self.has_adversary(seed) => draw_beset(seed),
            Self::Adversaries => draw_beset(seed),
            _ => draw(seed),
        }
    }

    fn has_streams(self, seed: u64) -> bool {
        match self {
            Self::Usual => seed.is_multiple_of(PARTS_EVERY),
            Self::All | Self::Streams => true,
            Self::Messages | Self::Adversaries | Self::Portals => false,
        }
    }

    fn has_portals(self, seed: u64) -> bool {
        match self {
            Self::Usual => seed % PARTS_EVERY == PARTS_EVERY / 2,
            Self::All | Self::Portals => true,
            Self::Messages | Self::Adversaries | Self::Streams => false,
        }
    }
}

impl FromStr for Parts {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        match word {
            "messages" => Ok(Self::Messages),
            "adversaries" => Ok(Self::Adversaries),
            "streams" => Ok(Self::Streams),
            "portals" => Ok(Self::Portals),
            _ => Err("there are messages, adversaries, streams and portals".into()),
        }
    }
}

/// How runs are made.
#[derive(Clone, Copy, Debug, Default)]
pub struct Conduct {
    /// The mistake every endpoint makes.
    #[cfg(feature = "sabotage")]
    pub sabotage: Option<Sabotage>,
    /// Helpers do half of the work, and keep the other half for applications that look in now and then.
    pub has_halves: bool,
    /// What is played of each seed.
    pub parts: Parts,
}

impl Conduct {
    /// This conduct with helpers that do half of the work, or all of it.
    #[must_use]
    pub fn with_halves(mut self, has_halves: bool) -> Self {
        self.has_halves = has_halves;
        self
    }

    /// This conduct with these parts of each seed.
    #[must_use]
    pub fn with_parts(mut self, parts: Parts) -> Self {
        self.parts = parts;
        self
    }

    /// Every endpoint of a world behaves like this.
    pub(crate) fn impose(self, world: &mut World) {
        world.set_halves(self.has_halves);
        #[cfg(feature = "sabotage")]
        if let Some(fault) = self.sabotage {
            world.sabotage(fault);
        }
        let _ = world;
    }
}

/// Plays a scenario; a panic is a violation like others.
pub fn play(scenario: &Scenario, conduct: Conduct, tracer: Option<Rc<RefCell<Tracer>>>) -> Outcome {
    let run = panic::catch_unwind(AssertUnwindSafe(|| {
        let mut player = Player::new(scenario, tracer);
        conduct.impose(player.world_mut());
        player.play()
    }));
    run.unwrap_or_else(|cause| panicked(&*cause))
}

/// What came of a run that panicked.
fn panicked(cause: &(dyn Any + Send)) -> Outcome {
    Outcome {
        violations: vec![format!("panic: {}", panic_text(cause))],
        stats: Stats::default(),
        digest: Digest::default(),
    }
}

/// Plays the application's part of a scenario ([`Scenario::of_applications`]) on real links, `open(node)` of them for each
/// node, in real time. The faults are those of the links.
///
/// # Errors
/// If a link cannot be opened.
pub fn play_over(
    scenario: &Scenario,
    open: impl FnMut(usize) -> io::Result<Vec<Box<dyn Link>>>,
) -> io::Result<Outcome> {
    let player = Player::over(scenario, open)?;
    let run = panic::catch_unwind(AssertUnwindSafe(|| player.play()));
    Ok(run.unwrap_or_else(|cause| panicked(&*cause)))
}

/// Plays what there is to play of a seed.
pub fn run_seed(seed: u64, conduct: Conduct) -> Outcome {
    let mut outcome = match conduct.parts.has_messages(seed) {
        true => play(&draw(seed), conduct, None),
        false => {
            let (violations, stats) = (Vec::new(), Stats::default());
            Outcome { violations, stats, digest: Digest::default() }
        }
    };
    if conduct.parts.has_adversary(seed) {
        let Outcome { violations, stats, digest } = play(&draw_beset(seed), conduct, None);
        outcome.violations.extend(violations.iter().map(|what| format!("{BESET}{what}")));
        outcome.digest.note(digest);
        outcome.stats.merge(&stats);
    }
    if conduct.parts.has_streams(seed) {
        let (violations, digest) = play_streams(seed, conduct);
        outcome.violations.extend(violations);
        outcome.digest.note(digest);
    }
    if conduct.parts.has_portals(seed) {
        let (violations, digest, stats) = play_portals(seed, conduct);
        outcome.violations.extend(violations);
        outcome.digest.note(digest);
        outcome.stats.merge(&stats);
    }
    outcome
}

/// Plays the Portals of a seed: what went wrong, a number for the run, and what was exercised.
pub fn play_portals(seed: u64, conduct: Conduct) -> (Vec<String>, Digest, Stats) {
    let run = panic::catch_unwind(|| portals::play(seed, conduct));
    let played = run.unwrap_or_else(|cause| {
        let Outcome { violations, .. } = panicked(&*cause);
        portals::Played { violations, ..portals::Played::default() }
    });
    let violations = played.violations.iter().map(|violation| format!("{OF_PORTALS}{violation}"));
    (violations.collect(), played.digest, played.stats)
}

/// Plays the streams of a seed: what went wrong, and a number for the run.
pub fn play_streams(seed: u64, conduct: Conduct) -> (Vec<String>, Digest) {
    let run = panic::catch_unwind(|| streams::play(seed, conduct));
    let (violations, digest) = run.unwrap_or_else(|cause| {
        let Outcome { violations, digest, .. } = panicked(&*cause);
        (violations, digest)
    });
    let named = violations.into_iter().map(|violation| format!("{OF_STREAMS}{violation}"));
    (named.collect(), digest)
}

fn panic_text(cause: &(dyn Any + Send)) -> String {
    let text = cause
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| cause.downcast_ref::<&str>().copied());
    let place = LAST_PANIC.with_borrow_mut(Option::take).unwrap_or_default();
    format!("{} {place}", text.unwrap_or("of an unknown kind"))
}

thread_local! {
    /// Where the last panic of this thread happened; filled by `quiet_panics`.
    static LAST_PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Panics inside runs are reported as violations; the usual message would only disturb. For programs, not libraries:
/// it replaces the process's panic hook.
pub fn quiet_panics() {
    panic::set_hook(Box::new(|info| {
        let place = info.location().map(|place| format!("at {}:{}", place.file(), place.line()));
        LAST_PANIC.with_borrow_mut(|last| *last = place);
    }));
}

/// A seed that failed.
#[derive(Clone, Debug)]
pub struct Failed {
    /// The seed.
    pub seed: u64,
    /// What was wrong.
    pub violations: Vec<String>,
}

impl Failed {
    /// Whether its scenario failed, which can be made smaller, and not only its streams or its Portals, which cannot.
    pub fn is_of_scenario(&self) -> bool {
        let is_other = |text: &String| text.starts_with(OF_STREAMS) || text.starts_with(OF_PORTALS);
        self.violations.iter().any(|violation| !is_other(violation))
    }

    /// Whether its scenario failed with an adversary in it only.
    pub fn is_beset(&self) -> bool {
        self.violations.first().is_some_and(|violation| violation.starts_with(BESET))
    }
}

/// What came of many runs.
#[derive(Debug, Default)]
pub struct Batch {
    /// What was exercised.
    pub totals: Totals,
    /// The failures, by seed.
    pub failed: Vec<Failed>,
    /// A number for all runs: equal if the seeds were, and each made the same of them.
    pub digest: Digest,
}

/// How many runs, from where, and when to stop.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The first seed; the others follow it.
    pub first_seed: u64,
    /// How many.
    pub count: u64,
    /// Threads; at least one.
    pub threads: usize,
    /// Stop after so many failures.
    pub failed_count_max: usize,
}

/// Runs a batch on all threads. `on_done` is called after each run, from any of them.
pub fn run_batch(plan: Plan, conduct: Conduct, on_done: impl Fn() + Sync) -> Batch {
    let (next, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let batch = Mutex::new(Batch::default());
    let work = || {
        let (mut totals, mut digest) = (Totals::default(), Digest::default());
        while !stop.load(Ordering::Relaxed) {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= plan.count {
                break;
            }
            let seed = plan.first_seed.wrapping_add(index);
            let outcome = run_seed(seed, conduct);
            totals.add(&outcome.stats);
            digest.add_run(seed, outcome.digest);
            on_done();
            if !outcome.violations.is_empty() {
                let failed = &mut batch.lock().expect("no panic inside").failed;
                failed.push(Failed { seed, violations: outcome.violations });
                if failed.len() >= plan.failed_count_max {
                    stop.store(true, Ordering::Relaxed);
                }
            }
        }
        let mut batch = batch.lock().expect("no panic inside");
        batch.totals.merge(&totals);
        batch.digest.add(digest);
    };
    thread::scope(|scope| {
        for _ in 1..plan.threads.max(1) {
            scope.spawn(work);
        }
        work();
    });
    let mut batch = batch.into_inner().expect("no panic inside");
    batch.failed.sort_by_key(|failed| failed.seed);
    batch
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::over::Over;

    #[test]
    fn a_seed_replays_exactly() {
        for seed in 0..20 {
            let (a, b) = (run_seed(seed, Conduct::default()), run_seed(seed, Conduct::default()));
            assert_eq!((a.digest, a.violations), (b.digest, b.violations), "seed {seed}");
        }
    }

    #[test]
    fn a_batch_has_one_hash_whatever_the_threads() {
        let of = |first_seed, threads| {
            let plan = Plan { first_seed, count: 12, threads, failed_count_max: 1 };
            run_batch(plan, Conduct::default(), || ()).digest
        };
        assert_eq!(of(1, 1), of(1, 3));
        assert_ne!(of(1, 1), of(2, 1), "other seeds");
        let plan = Plan { first_seed: 1, count: 12, threads: 1, failed_count_max: 1 };
        let with_halves = run_batch(plan, Conduct::default().with_halves(true), || ()).digest;
        assert_ne!(of(1, 1), with_halves, "others do the work, and frames leave at other times");
    }

    #[test]
    fn traffic_of_the_scenarios_holds_over_real_links() {
        for (seed, over) in
            (1..=40).zip(["udp", "shm"].map(|name| name.parse::<Over>().unwrap()).iter().cycle())
        {
            let scenario = draw(seed).of_applications();
            let outcome = play_over(&scenario, |node| over.open(seed, node)).unwrap();
            let violations = outcome.violations;
            assert!(violations.is_empty(), "seed {seed} over {over}: {violations:?}");
            assert!(outcome.stats.moved_count > 0 || scenario.send_count() == 0, "seed {seed}");
        }
    }

    #[test]
    fn seeds_hold_where_helpers_do_half_of_the_work() {
        let plan = Plan { first_seed: 1, count: 200, threads: 2, failed_count_max: 1 };
        let batch = run_batch(plan, Conduct::default().with_halves(true), || ());
        assert!(batch.failed.is_empty(), "{:?}", batch.failed);
    }

    #[test]
    fn a_few_hundred_seeds_hold() {
        let plan = Plan { first_seed: 1, count: 300, threads: 2, failed_count_max: 1 };
        let batch = run_batch(plan, Conduct::default(), || ());
        assert!(batch.failed.is_empty(), "{:?}", batch.failed);
    }
}
