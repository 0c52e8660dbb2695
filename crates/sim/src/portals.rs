//! Portals in simulation: entries on both lists, unexpected messages, searches, flow control, counters and triggers, before a model.
//!
//! ```text
//!   application ── append, begin, search, … ──> Endpoint ── what came and went ──> Model ── what must be told, counted, set off
//!                          │                        └── events, counters, memory ──────────────── compared ──┘
//!                          └── every operation ──> Ledger: came once, in its turn, ended as its target said
//! ```
//!
//! A scenario of its own beside that of `draw`, from the same seed, with the nodes, the network and the faults of that one: what was
//! drawn before stays as it was. The model is told in which order requests came in and when bytes were in their place, and nothing
//! else. Which entry takes what, every event in its order, every counter, every byte and every trigger it finds by itself.

use packhorse_link::sim::{NodeId, Rng};
use packhorse_proto::portals::codes::{event, fail};
use packhorse_proto::portals::{PortalsEvent, Witnessed};
use packhorse_proto::{BufId, Instant, MS, SECOND};

use crate::digest::Digest;
use crate::draw::draw;
use crate::player::{nobody_may_go, world_of};
use crate::run::Conduct;
use crate::scenario::Scenario;
use crate::stats::Stats;
use crate::world::World;

mod bytes;
mod faults;
mod ledger;
mod model;
mod moves;
mod steps;
mod told;

use faults::Faults;
use ledger::{Ledger, Stage};
use model::{At, Model};
use told::is_same;

/// Once the network is healed everything must be over within this.
const HEALED_NS: u64 = 200 * SECOND;
/// More moments than this in one run: it would never end.
const TURN_COUNT_MAX: u64 = 300_000;
/// So many violations are told, and so many lines of what was before the first.
const VIOLATION_COUNT_MAX: usize = 5;
const NOTE_COUNT_MAX: usize = 60;

/// What a seed's Portals came to.
#[derive(Debug, Default)]
pub struct Played {
    /// What was wrong; empty if nothing.
    pub violations: Vec<String>,
    /// A number for the run: equal for equal runs.
    pub digest: Digest,
    /// What was exercised; messages moved are operations that came to their target.
    pub stats: Stats,
    /// Events that were told.
    pub event_count: u64,
}

/// A process as the run sees it.
struct Process {
    life: u32,
    is_up: bool,
    model: Model,
    /// Memory that must be given back, and what for.
    lent: Vec<(BufId, Lent)>,
    /// Descriptors that were not released yet.
    held: Vec<u32>,
}

/// What memory is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lent {
    Entry(usize),
    Op(u64),
}

struct Run {
    world: World,
    rng: Rng,
    faults: Faults,
    processes: Vec<Process>,
    ledger: Ledger,
    /// The interfaces that every process opens: one without matching, one with.
    nis: [u8; 2],
    /// Messages made so far.
    message_count: u32,
    played: Played,
    /// What happened, for whoever wants to know.
    notes: Option<Vec<String>>,
}

/// Plays the Portals of a seed.
pub fn play(seed: u64, conduct: Conduct) -> Played {
    let scenario = faults::scenario_of(&draw(seed));
    let played = Run::new(&scenario).play(&scenario, conduct);
    if played.violations.is_empty() {
        return played;
    }
    // Once more, with notes: what was before the violation is told with it.
    let mut run = Run::new(&scenario);
    run.notes = Some(Vec::new());
    run.play(&scenario, conduct)
}

impl Run {
    fn new(scenario: &Scenario) -> Self {
        let mut rng = Rng::new(scenario.seed).fork("portals");
        let world = world_of(scenario, scenario.seed ^ 0x90_47A1);
        let is_logical = |rng: &mut Rng| 2 * u8::from(rng.chance(500_000));
        let nis = [is_logical(&mut rng), 1 | is_logical(&mut rng)];
        let mut ledger = Ledger::default();
        ledger.nobody_may_go = nobody_may_go(scenario);
        let processes = scenario.nodes.iter().map(|_| Process {
            life: 0,
            is_up: true,
            model: Model::default(),
            lent: Vec::new(),
            held: Vec::new(),
        });
        let mut run = Self {
            world,
            rng,
            faults: Faults::new(scenario),
            processes: processes.collect(),
            ledger,
            nis,
            message_count: 0,
            played: Played::default(),
            notes: None,
        };
        (0..run.processes.len()).for_each(|index| run.set_up(index));
        run
    }

    fn play(mut self, scenario: &Scenario, conduct: Conduct) -> Played {
        conduct.impose(&mut self.world);
        self.play_steps(scenario);
        self.note_stats();
        self.played.digest.note(self.world.digest());
        if let Some(notes) = self.notes {
            let first = notes.len().saturating_sub(NOTE_COUNT_MAX);
            self.played.violations.extend_from_slice(&notes[first..]);
        }
        self.played
    }

    fn note(&mut self, index: usize, text: impl FnOnce() -> String) {
        let has_failed = self.has_failed();
        if let Some(notes) = self.notes.as_mut().filter(|_| !has_failed) {
            notes.push(format!("  {:?} node {index}: {}", self.world.now(), text()));
        }
    }

    fn play_steps(&mut self, scenario: &Scenario) {
        let step_count = self.rng.range(10..=150);
        let until = scenario.heal_at_ns.min(SECOND);
        let mut times: Vec<u64> = (0..step_count).map(|_| self.rng.below(until)).collect();
        times.sort_unstable();
        for at_ns in times {
            self.run_to(at_ns);
            if self.has_failed() {
                return;
            }
            self.step();
        }
        self.run_to(scenario.heal_at_ns);
        self.heal(scenario);
        self.come_to_rest();
        if !self.has_failed() {
            self.finish();
        }
    }

    fn has_failed(&self) -> bool {
        !self.played.violations.is_empty()
    }

    fn violation(&mut self, index: usize, what: impl Into<String>) {
        if self.played.violations.len() < VIOLATION_COUNT_MAX {
            let (at, what) = (self.world.now(), what.into());
            self.played.violations.push(format!("node {index} at {at:?}: {what}"));
        }
    }

    fn turn_to(&mut self, at_ns: u64) {
        while !self.has_failed() && self.world.turn(Instant(at_ns)) {
            self.look();
            if self.world.turn_count() > TURN_COUNT_MAX {
                self.violation(0, format!("no end in sight after {TURN_COUNT_MAX} moments"));
            }
        }
        self.look();
    }

    /// Everybody alive has come to the end of what was begun.
    fn come_to_rest(&mut self) {
        let deadline = self.world.now() + HEALED_NS;
        while !self.has_failed() && !self.is_at_rest() {
            let moment = self.world.now() + 100 * MS;
            self.world.turn(moment.min(deadline));
            self.look();
            if self.world.now() >= deadline {
                let left = self.what_is_left();
                self.violation(0, left);
            }
        }
    }

    fn is_current(&self, (node, life): ledger::Who) -> bool {
        let process = &self.processes[usize::from(node)];
        process.is_up && process.life == life
    }

    fn is_under_way(&self, op: &ledger::Op) -> bool {
        op.stage == Stage::Began && self.is_current(op.from)
    }

    fn is_at_rest(&self) -> bool {
        let is_idle = |process: &Process| !process.is_up || process.model.flights.is_empty();
        self.processes.iter().all(is_idle)
            && !self.ledger.ops.iter().any(|op| self.is_under_way(op))
    }

    fn what_is_left(&self) -> String {
        let begun = self.ledger.ops.iter().enumerate();
        let begun = begun.filter(|(_, op)| self.is_under_way(op));
        let begun: Vec<String> = begun
            .map(|(id, op)| {
                let came = op.outcome.is_some();
                format!(
                    "{id} ({:?} of {} from {:?} to {}, came: {came})",
                    op.kind, op.len, op.from, op.to
                )
            })
            .take(5)
            .collect();
        let flights = self.processes.iter().filter(|process| process.is_up);
        let flights: Vec<Vec<usize>> = flights
            .map(|process| process.model.flights.values().map(|flight| flight.op).collect())
            .collect();
        format!("did not end: operations {begun:?}; bytes still move for {flights:?}")
    }

    /// Hands what came and went to the models, and compares.
    fn look(&mut self) {
        while self.world.next_event().is_some() {}
        if self.world.has_faults() {
            for fault in self.world.take_faults() {
                self.violation(0, fault);
            }
        }
        for index in 0..self.processes.len() {
            if self.processes[index].is_up {
                self.look_at(index);
            }
        }
    }

    fn look_at(&mut self, index: usize) {
        let node = NodeId(index as u32);
        let witnessed = self.world.portals(node).take_witnessed();
        if witnessed.is_empty() {
            return;
        }
        for it in witnessed {
            if let Err(what) = self.hear(index, it) {
                return self.violation(index, what);
            }
        }
        self.compare(index);
    }

    fn hear(&mut self, index: usize, it: Witnessed) -> Result<(), String> {
        self.note(index, || format!("{it:?}"));
        let process = &mut self.processes[index];
        let at = (index as u8, process.life);
        match it {
            Witnessed::Arrived(incoming, delivery) => {
                let from = self.ledger.ops.get(incoming.header as usize).map(|op| op.from.0);
                let own = steps::own(incoming.ni, usize::from(from.unwrap_or(0)));
                let uid = steps::uid(usize::from(from.unwrap_or(0)));
                let id = self.ledger.arrived(at, &incoming, (own, uid))?;
                process.model.arrive(&incoming, (id, &mut self.ledger), delivery)
            }
            Witnessed::Delivered(delivery, failed) => {
                process.model.delivered(delivery, failed, &mut self.ledger)
            }
            Witnessed::Began(id) => {
                let due = process.model.next_due();
                if due != Some(id) {
                    return Err(format!("operation {id} began, and {due:?} was due"));
                }
                self.ledger.began(id);
                Ok(())
            }
            Witnessed::Ended(id, failed) => {
                self.ledger.may_end(id, failed)?;
                let op = self.ledger.ops[id as usize].clone();
                process.model.ended(&op, id, failed);
                let over = &mut self.ledger.ops[id as usize];
                (over.stage, over.was_lost) = (Stage::Over, failed.is_some());
                if failed.is_none() { self.check_fetched(index, id) } else { Ok(()) }
            }
            Witnessed::Settled => match process.model.next_due() {
                None => Ok(()),
                Some(id) => Err(format!("operation {id} was due and did not begin")),
            },
        }
    }

    /// What came back is what was there.
    fn check_fetched(&mut self, index: usize, id: u64) -> Result<(), String> {
        let op = &self.ledger.ops[id as usize];
        let (Some((buf, base, len)), Some(outcome)) = (op.fetched, op.outcome) else {
            return Ok(());
        };
        let found = self.world.memory(NodeId(index as u32)).bytes_of(buf);
        let Some(found) = found else {
            return Err(format!("operation {id} ended after its memory was given back"));
        };
        let placed_len = if outcome.fail == fail::OK { outcome.len } else { 0 };
        let mut expected = bytes::Image::blank(len);
        let span = bytes::Span { at: base, len: placed_len };
        match op.is_stained || placed_len == 0 {
            true => expected.forget(span),
            false => expected.write(span, &op.result),
        }
        match expected.differs(&found) {
            None => Ok(()),
            Some(at) => Err(format!("operation {id} fetched a wrong byte at {at} of {len}")),
        }
    }

    /// Counters, registers, memory, and memory that was given back.
    fn compare(&mut self, index: usize) {
        let node = NodeId(index as u32);
        let mut wrong = Vec::new();
        let process = &mut self.processes[index];
        let portals = self.world.portals(node);
        for counter in process.model.counters.iter().filter(|counter| !counter.is_freed) {
            let found = portals.count(counter.handle);
            if found != Ok(counter.count) {
                wrong.push(format!("a counter is {found:?}, not {:?}", counter.count));
            }
        }
        for this in &process.model.nis {
            if portals.registers(this.ni) != Some(this.registers) {
                let found = portals.registers(this.ni);
                wrong.push(format!("registers are {found:?}, not {:?}", this.registers));
            }
            for portal in 0..this.portals.len() as u32 {
                let is_busy = process.model.is_portal_busy(this.ni, portal);
                if portals.is_portal_busy(this.ni, portal) != is_busy {
                    wrong.push(format!("portal {portal} is busy: not {is_busy}"));
                }
            }
        }
        let mut freed = Vec::new();
        while let Some(buf) = portals.take_freed() {
            freed.push(buf);
        }
        let memory = self.world.memory(node);
        for entry in 0..process.model.entries.len() {
            if let Some(what) = check_memory(&mut process.model, entry, memory) {
                wrong.push(what);
            }
        }
        for buf in freed {
            memory.end(buf);
            let Some(place) = process.lent.iter().position(|(lent, _)| *lent == buf) else {
                wrong.push(format!("memory {} was given back twice", buf.0));
                continue;
            };
            let is_over = match process.lent.swap_remove(place).1 {
                Lent::Entry(entry) => process.model.entries[entry].at == At::Gone,
                Lent::Op(id) => self.ledger.ops[id as usize].stage == Stage::Over,
            };
            if !is_over {
                wrong.push(format!("memory {} was given back while it is in use", buf.0));
            }
        }
        wrong.into_iter().for_each(|what| self.violation(index, what));
    }

    /// Takes all events of a queue, and compares.
    fn read_queue(&mut self, index: usize, queue: usize) {
        let node = NodeId(index as u32);
        loop {
            let this = &mut self.processes[index].model.queues[queue];
            let found = self.world.portals(node).take_event(this.handle);
            let expected = this.events.pop_front();
            let has_lost = expected.is_some() && std::mem::take(&mut this.has_lost);
            let Ok(found) = found else { return self.violation(index, "a queue is gone") };
            let told: Option<PortalsEvent> = found.map(|taken| taken.event);
            let is_right = match (&expected, &found) {
                (None, None) => return,
                (Some(model), Some(found)) => {
                    is_same(model, &found.event) && found.has_lost == has_lost
                }
                _ => false,
            };
            self.note_event(&told, has_lost);
            if !is_right {
                let what = format!("queue {queue} told {found:?}, and {expected:?} was to be");
                return self.violation(index, what);
            }
        }
    }

    fn note_event(&mut self, told: &Option<PortalsEvent>, has_lost: bool) {
        self.played.digest.note_portals(told);
        self.played.event_count += 1;
        let kind = told.map(|event| event.kind);
        let stats = &mut self.played.stats;
        let found = [event::PUT, event::GET, event::ATOMIC, event::FETCH_ATOMIC];
        let is_found = found.iter().any(|from| kind == Some(from + event::OVERFLOW));
        stats.meet("Portals: found unexpected", is_found);
        stats.meet("Portals: entry used up", kind == Some(event::AUTO_UNLINK));
        stats.meet("Portals: events lost", has_lost);
    }

    fn note_stats(&mut self) {
        let stats = &mut self.played.stats;
        for op in &self.ledger.ops {
            let failed = op.outcome.map(|outcome| outcome.fail);
            stats.moved_count += u64::from(failed.is_some());
            stats.meet("Portals: operation matched", failed == Some(fail::OK));
            stats.meet("Portals: dropped", failed == Some(fail::DROPPED));
            stats.meet("Portals: portal disabled", failed == Some(fail::PT_DISABLED));
            stats.meet("Portals: set off by a counter", op.waited && op.outcome.is_some());
            stats.meet("Portals: peer lost", op.was_lost);
            stats.failed_count += u64::from(op.was_lost);
        }
        stats.turn_count = self.world.turn_count();
    }

    /// At rest: all events were told, all counters are right, and closing gives all memory back.
    fn finish(&mut self) {
        for index in 0..self.processes.len() {
            let process = &self.processes[index];
            if !process.is_up {
                continue;
            }
            (0..process.model.queues.len()).for_each(|queue| self.read_queue(index, queue));
            self.compare(index);
            if !self.has_failed() {
                self.close(index);
            }
        }
    }

    fn close(&mut self, index: usize) {
        let (node, now) = (NodeId(index as u32), self.world.now());
        for ni in self.nis {
            self.world.endpoint_mut(node).close_portals(now, ni);
        }
        let mut freed = Vec::new();
        while let Some(buf) = self.world.portals(node).take_freed() {
            freed.push(buf);
        }
        for buf in freed {
            self.world.memory(node).end(buf);
            self.processes[index].lent.retain(|(lent, _)| *lent != buf);
        }
        if let Some((buf, lent)) = self.processes[index].lent.first() {
            let what = format!("memory {} ({lent:?}) was never given back", buf.0);
            self.violation(index, what);
        }
        for fault in self.world.take_faults() {
            self.violation(index, fault);
        }
    }
}

/// What is in an entry's memory, where that is known and nothing is coming.
fn check_memory(
    model: &mut Model,
    index: usize,
    memory: &mut crate::memory::AppMemory,
) -> Option<String> {
    if model.entries[index].is_seen {
        return None;
    }
    let coming = model.coming(index);
    let this = &mut model.entries[index];
    let found = memory.bytes_of(this.spec.buf)?;
    let mut expected = this.image.clone();
    coming.iter().for_each(|span| expected.forget(*span));
    this.is_seen = true;
    let at = expected.differs(&found)?;
    Some(format!("entry {} has a wrong byte at {at} of {}", this.spec.user, this.spec.len))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn portals_of_a_few_hundred_seeds_hold() {
        let (mut arrived, mut told) = (0, 0);
        for seed in 0..300 {
            let played = play(seed, Conduct::default());
            assert_eq!(played.violations, Vec::<String>::new(), "seed {seed}");
            arrived += played.stats.moved_count;
            told += played.event_count;
        }
        assert!(arrived > 3_000, "only {arrived} operations came to their target");
        assert!(told > 6_000, "only {told} events were told");
    }

    #[test]
    fn a_seed_replays_exactly() {
        for seed in 0..10 {
            let of = || play(seed, Conduct::default());
            assert_eq!(of().digest, of().digest, "seed {seed}");
        }
    }
}
