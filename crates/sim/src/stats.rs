//! What runs exercised: a simulator that never loses a frame proves little.

use std::fmt::Write as _;

use packhorse_link::sim::{Counters as NetCounters, Reason};
use packhorse_proto::Counters;

use crate::scenario::{Action, Scenario};

/// Each of the things a batch of runs must meet often, by name.
pub const THINGS: [&str; 46] = [
    "retransmission",
    "duplicate",
    "credit refusal",
    "rendezvous",
    "wildcard",
    "cancel",
    "restart",
    "path loss",
    "back-pressure",
    "message before its turn",
    "query found a message",
    "grant repeated",
    "damaged frame",
    "truncated frame",
    "partition",
    "new address proven",
    "peer lost",
    "goodbye amid traffic",
    "self-send",
    "frame length fallen",
    "data landed in place",
    "data fetched from where it is",
    "data that could not be fetched",
    "message given to a link",
    "announcement or its end given to a link",
    "long message from the link to its place",
    "fragments taken together",
    "one-sided operation",
    "operation denied",
    "shared memory beside networks",
    "streams beside networks",
    "stream broken",
    "Portals: operation matched",
    "Portals: found unexpected",
    "Portals: dropped",
    "Portals: portal disabled",
    "Portals: entry used up",
    "Portals: set off by a counter",
    "Portals: events lost",
    "Portals: peer lost",
    "adversary: never grants",
    "adversary: ignores Refuse",
    "adversary: sends half",
    "adversary: batches",
    "adversary: renews for ever",
    "adversary: names others' locators",
];

/// What must occur in at least 5 % of runs: the first of `THINGS`.
pub const REQUIRED_COUNT: usize = 9;

/// What one run exercised.
#[derive(Clone, Debug)]
pub struct Stats {
    /// Messages received whole.
    pub moved_count: u64,
    /// Sends that ended with an error.
    pub failed_count: u64,
    /// Moments visited.
    pub turn_count: u64,
    /// Copied sends for which the pool had no room.
    pub pool_full_count: u64,
    /// Requests cancelled in time.
    pub cancel_count: u64,
    /// Restarts.
    pub restart_count: u64,
    /// One-sided operations posted.
    pub operation_count: u64,
    met: [bool; THINGS.len()],
}

impl Default for Stats {
    fn default() -> Self {
        Self {
            moved_count: 0,
            failed_count: 0,
            turn_count: 0,
            pool_full_count: 0,
            cancel_count: 0,
            restart_count: 0,
            operation_count: 0,
            met: [false; THINGS.len()],
        }
    }
}

impl Default for Totals {
    fn default() -> Self {
        let (moved, met) = (Vec::new(), [0; THINGS.len()]);
        Self { moved, turn_count_max: 0, met, failed_count: 0 }
    }
}

impl Stats {
    pub(crate) fn meet(&mut self, thing: &str, is_met: bool) {
        let index = THINGS.iter().position(|name| *name == thing).expect("a known thing");
        self.met[index] |= is_met;
    }

    /// Which of `THINGS` occurred.
    pub fn met(&self) -> impl Iterator<Item = (&'static str, bool)> {
        THINGS.into_iter().zip(self.met)
    }

    /// What another part of the same seed exercised.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.moved_count += other.moved_count;
        self.failed_count += other.failed_count;
        self.turn_count = self.turn_count.max(other.turn_count);
        self.met.iter_mut().zip(other.met).for_each(|(met, more)| *met |= more);
    }

    /// One endpoint's counters.
    pub(crate) fn note_endpoint(&mut self, counters: &Counters) {
        self.meet("retransmission", counters.contents_resent > 0);
        self.meet("duplicate", counters.packets_duplicate + counters.messages_duplicate > 0);
        self.meet("credit refusal", counters.refusals > 0);
        self.meet("rendezvous", counters.rendezvous_in > 0);
        self.meet("path loss", counters.paths_lost > 0);
        self.meet("message before its turn", counters.messages_early > 0);
        self.meet("query found a message", counters.queries_found > 0);
        self.meet("grant repeated", counters.grants_repeated > 0);
        self.meet("new address proven", counters.locators_changed > 0);
        self.meet("peer lost", counters.left > 0 && counters.resets_in + counters.renewed > 0);
        self.meet("frame length fallen", counters.frame_len_drops > 0);
        self.meet("data landed in place", counters.bytes_landed > 0);
        self.meet("data fetched from where it is", counters.bytes_fetched > 0);
        self.meet("data that could not be fetched", counters.fetches_failed > 0);
        self.meet("message given to a link", counters.messages_given > 0);
        self.meet("announcement or its end given to a link", counters.notes_given > 0);
        self.meet("long message from the link to its place", counters.messages_begun > 0);
        self.meet("fragments taken together", counters.frames_together > 0);
        self.meet("operation denied", counters.requests_denied > 0);
    }

    /// The network's counters.
    pub(crate) fn note_network(&mut self, counters: &NetCounters) {
        self.meet("back-pressure", counters.lost(Reason::Queue) > 0 || self.pool_full_count > 0);
        self.meet("damaged frame", counters.corrupted_count > 0);
        self.meet("truncated frame", counters.truncated_count > 0);
        self.meet("partition", counters.lost(Reason::Partition) > 0);
        self.meet("shared memory beside networks", counters.sure_count > 0);
        self.meet("streams beside networks", counters.streamed_count > 0);
        self.meet("stream broken", counters.lost(Reason::Broken) > 0);
    }

    /// What the scenario asked for and the player counted.
    pub(crate) fn note_scenario(&mut self, scenario: &Scenario) {
        self.meet("cancel", self.cancel_count > 0);
        self.meet("restart", self.restart_count > 0);
        self.meet("one-sided operation", self.operation_count > 0);
        for step in &scenario.steps {
            match &step.action {
                Action::Send(send) => self.meet("self-send", send.to == step.node),
                Action::Recv(recv) => self.meet("wildcard", recv.wanted.source.is_none()),
                Action::Close => self.meet("goodbye amid traffic", true),
                _ => {}
            }
        }
    }
}

/// What many runs exercised.
#[derive(Clone, Debug)]
pub struct Totals {
    moved: Vec<u32>,
    turn_count_max: u64,
    met: [u64; THINGS.len()],
    failed_count: u64,
}

impl Totals {
    /// Another run.
    pub fn add(&mut self, stats: &Stats) {
        self.moved.push(u32::try_from(stats.moved_count).unwrap_or(u32::MAX));
        self.failed_count += stats.failed_count;
        self.turn_count_max = self.turn_count_max.max(stats.turn_count);
        for (sum, is_met) in self.met.iter_mut().zip(stats.met) {
            *sum += u64::from(is_met);
        }
    }

    /// Those of another batch.
    pub fn merge(&mut self, other: &Self) {
        self.moved.extend_from_slice(&other.moved);
        self.failed_count += other.failed_count;
        self.turn_count_max = self.turn_count_max.max(other.turn_count_max);
        for (sum, more) in self.met.iter_mut().zip(other.met) {
            *sum += more;
        }
    }

    /// Runs.
    pub fn run_count(&self) -> usize {
        self.moved.len()
    }

    /// Messages the median run moved.
    pub fn moved_median(&self) -> u32 {
        let mut moved = self.moved.clone();
        moved.sort_unstable();
        moved.get(moved.len() / 2).copied().unwrap_or(0)
    }

    /// Percent of runs in which each of `THINGS` occurred.
    pub fn shares(&self) -> impl Iterator<Item = (&'static str, f64)> {
        let runs = self.run_count().max(1) as f64;
        THINGS
            .into_iter()
            .zip(self.met)
            .map(move |(name, count)| (name, 100.0 * count as f64 / runs))
    }

    /// The table people read.
    pub fn table(&self) -> String {
        let mut text = String::from("occurred in % of runs\n");
        for (name, share) in self.shares() {
            writeln!(text, "  {name:<30} {share:>6.1}").expect("strings take all");
        }
        let moved: u64 = self.moved.iter().copied().map(u64::from).sum();
        writeln!(text, "messages moved: median {} a run, {moved} in all", self.moved_median())
            .expect("as above");
        writeln!(text, "sends ended with an error: {}", self.failed_count).expect("as above");
        writeln!(text, "longest run: {} moments", self.turn_count_max).expect("as above");
        text
    }
}
