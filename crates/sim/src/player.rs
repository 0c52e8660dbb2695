//! Plays a scenario on a world, under the eyes of the oracle.
//!
//! First the steps, each at its time. Then the network heals, every node drains what is left, and everything must come
//! to its end within bounded time; then what nobody sent for is cancelled, all close, and all must have closed.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;

use packhorse_link::Link;
use packhorse_link::sim::{Conditions, NodeId, Rng, Who};
use packhorse_proto::{Counters, Event, Instant, SECOND};

use crate::digest::Digest;
use crate::onesided;
use crate::oracle::Oracle;
use crate::scenario::{Action, Cut, Scenario};
use crate::stats::Stats;
use crate::trace::Tracer;
use crate::undo::{PAUSED_LEN_MAX, Undo, Undos, death_in};
use crate::world::{Spec, Trains, World};

mod ending;
mod operate;
mod posts;
mod renewal;

/// More moments than this in one run: it would never end.
const TURN_COUNT_MAX: u64 = 300_000;

/// What came of a run.
#[derive(Debug)]
pub struct Outcome {
    /// What was wrong; empty if nothing.
    pub violations: Vec<String>,
    /// What was exercised.
    pub stats: Stats,
    /// A number for the whole run: equal for equal runs.
    pub digest: Digest,
}

pub(crate) struct Player<'a> {
    scenario: &'a Scenario,
    world: World,
    oracle: Oracle,
    undos: Undos,
    /// What applications of paused nodes would have done; they do it when they wake.
    deferred: Vec<(u8, &'a Action)>,
    spaces: u8,
    next_label: u32,
    /// Labels from here on are of receives that drain.
    first_drain: u32,
    drain_count: usize,
    is_draining: bool,
    /// What is cancelled from now on is only put away.
    is_ending: bool,
    /// A node got a new address and was not told of it, and its peers can only find out when it speaks.
    has_moved_unawares: bool,
    last_event_at: Instant,
    /// When more receives were posted last, beside an adversary.
    drained_at: Instant,
    event_count: u64,
    payload: Vec<u8>,
    /// When the adversary is somebody else.
    renewal_at: Instant,
    stats: Stats,
    tracer: Option<Rc<RefCell<Tracer>>>,
}

impl<'a> Player<'a> {
    pub(crate) fn new(scenario: &'a Scenario, tracer: Option<Rc<RefCell<Tracer>>>) -> Self {
        Self::in_world(scenario, world_of(scenario, scenario.seed), tracer)
    }

    /// On real links, as many for each node as `open` gives, in real time.
    pub(crate) fn over(
        scenario: &'a Scenario,
        mut open: impl FnMut(usize) -> io::Result<Vec<Box<dyn Link>>>,
    ) -> io::Result<Self> {
        let mut world = World::in_real_time(scenario.seed);
        for (index, plan) in scenario.nodes.iter().enumerate() {
            let links = open(index)?;
            let mut settings = plan.settings.clone();
            let longest = links.iter().map(|link| link.about().frame_len_max).min().unwrap_or(0);
            settings.frame_len_max = settings.frame_len_max.min(longest.min(65_535) as u16);
            let spec = Spec {
                ports: links.len() as u8,
                name: Some(plan.name.into()),
                limits: plan.limits.clone(),
                settings,
                trains: draw_trains(scenario.seed, plan.name),
                ..Spec::default()
            };
            world.add_real_node(spec, links);
        }
        Ok(Self::in_world(scenario, world, None))
    }

    fn in_world(
        scenario: &'a Scenario,
        mut world: World,
        tracer: Option<Rc<RefCell<Tracer>>>,
    ) -> Self {
        if let Some(tracer) = &tracer {
            tracer.borrow_mut().meet(&world, scenario);
            let tracer = Rc::clone(tracer);
            world.net().observe(Some(Box::new(move |event, bytes| {
                tracer.borrow_mut().on_frame(event, bytes)
            })));
        }
        for node in world.node_ids() {
            onesided::expose(scenario, &mut world, node);
        }
        let (node_count, labels) = (scenario.nodes.len(), scenario.label_count());
        let mut oracle =
            Oracle::new(node_count, labels, scenario.is_named_by_tag, nobody_may_go(scenario));
        oracle.know(scenario.nodes.iter().map(|node| &node.settings));
        if let Some(adversary) = scenario.adversary {
            world.set_habit(adversary.habit);
            oracle.distrust(adversary.node);
        }
        Self {
            scenario,
            world,
            oracle,
            undos: Undos::default(),
            deferred: Vec::new(),
            spaces: scenario.space_count(),
            next_label: labels,
            first_drain: labels,
            drain_count: 0,
            is_draining: false,
            is_ending: false,
            has_moved_unawares: false,
            last_event_at: Instant(0),
            drained_at: Instant(0),
            event_count: 0,
            payload: Vec::new(),
            renewal_at: renewal::first_at(scenario),
            stats: Stats::default(),
            tracer,
        }
    }

    /// To tell endpoints to make mistakes.
    pub(crate) fn world_mut(&mut self) -> &mut World {
        &mut self.world
    }

    /// The whole run.
    pub(crate) fn play(mut self) -> Outcome {
        self.play_steps();
        self.heal();
        self.drain();
        self.part();
        if !self.has_failed() {
            self.oracle.finish();
        }
        self.collect_faults();
        for node in self.world.node_ids() {
            self.count_life(node);
        }
        self.stats.note_scenario(self.scenario);
        if let Some(adversary) = self.scenario.adversary {
            self.stats.meet(adversary.habit.name(), self.world.habit_count() > 0);
        }
        self.stats.note_network(self.world.net().counters());
        self.stats.moved_count = self.oracle.whole_count;
        self.stats.failed_count = self.oracle.failed_count;
        self.stats.turn_count = self.world.turn_count();
        let digest = self.world.digest();
        Outcome { violations: self.oracle.into_violations(), stats: self.stats, digest }
    }

    fn has_failed(&self) -> bool {
        !self.oracle.violations().is_empty()
    }

    fn note(&self, text: impl FnOnce() -> String) {
        if let Some(tracer) = &self.tracer {
            tracer.borrow_mut().note(self.world.now(), text());
        }
    }

    /// A note about one node.
    fn note_of(&self, node: u8, text: impl FnOnce() -> String) {
        self.note(|| format!("{}  {}", self.scenario.nodes[usize::from(node)].letter(), text()));
    }

    fn collect_faults(&mut self) {
        for fault in self.world.take_faults() {
            self.oracle.violation(fault);
        }
    }

    /// Sums up a node's counters before its endpoint goes.
    fn count_life(&mut self, node: NodeId) {
        let counters: &Counters = self.world.endpoint(node).counters();
        self.stats.note_endpoint(counters);
    }
}

/// The steps.
impl<'a> Player<'a> {
    fn play_steps(&mut self) {
        let scenario = self.scenario;
        for step in &scenario.steps {
            self.run_to(step.at_ns);
            if self.has_failed() {
                return;
            }
            self.act(step.node, &step.action);
        }
        self.run_to(scenario.heal_at_ns);
    }

    /// Lets time pass, ending faults on the way.
    fn run_to(&mut self, at_ns: u64) {
        while let Some(undo_at) = self.undos.next_at().filter(|&undo_at| undo_at <= at_ns)
            && let Some(undo) = self.undos.pop()
        {
            self.turn_to(undo_at);
            self.undo(undo);
        }
        self.turn_to(at_ns);
    }

    fn turn_to(&mut self, at_ns: u64) {
        while !self.has_failed() && self.turn(Instant(at_ns)) {
            self.see_events();
        }
        self.see_events();
    }

    fn see_events(&mut self) {
        while let Some((node, event)) = self.world.next_event() {
            self.last_event_at = self.world.now();
            self.event_count += 1;
            let index = node.0 as u8;
            self.note_of(index, || format!("sees {event:?}"));
            self.oracle.on_event(&mut self.world, index, event);
            if matches!(event, Event::Closed { .. }) {
                // The process ends with its endpoint.
                self.world.kill(node, death_in(self.scenario));
            }
            if self.is_draining {
                self.refill(index, event);
            }
        }
        if self.world.has_faults() {
            self.collect_faults();
        }
        if self.world.turn_count() > TURN_COUNT_MAX {
            let now = self.world.now();
            let waits: Vec<_> =
                self.world.node_ids().map(|node| self.world.endpoint(node).timeouts()).collect();
            self.oracle.violation(format!(
                "no end in sight after {TURN_COUNT_MAX} moments; it is {now:?}, they wait for {waits:?}"
            ));
        }
    }

    fn later(&mut self, after_ns: u64, undo: Undo) {
        self.undos.add(self.world.now().0 + after_ns, undo);
    }

    fn act(&mut self, node: u8, action: &'a Action) {
        if !self.oracle.is_working(node) {
            return; // dead or closing: its application does nothing
        }
        let id = NodeId(node.into());
        if self.world.is_paused(id) && action.is_by_application() {
            return self.deferred.push((node, action));
        }
        match action {
            Action::Send(send) => self.send(node, send),
            Action::Recv(recv) => self.recv(node, recv),
            Action::Operate(operate) => self.operate(node, operate),
            Action::Cancel { label } => self.cancel(node, *label),
            Action::Claim { label, wanted, then } => self.claim(node, *label, wanted, *then),
            Action::AckEvery(count) => self.world.endpoint_mut(id).set_ack_every(*count),
            Action::Close => self.close(node),
            Action::Kill { back_after_ns, is_told } => self.kill(node, *back_after_ns, *is_told),
            Action::Pause { for_ns } => {
                self.note_of(node, || "pauses".into());
                self.world.pause(id, PAUSED_LEN_MAX);
                self.later(*for_ns, Undo::Resume(node));
            }
            Action::Rebind { port, is_told } => {
                let port = port % self.scenario.nodes[usize::from(node)].ports;
                self.note_of(node, || {
                    format!("gets a new address at port {port}, told: {is_told}")
                });
                self.has_moved_unawares |= !is_told;
                self.world.rebind(id, port, *is_told);
            }
            Action::Forget { peer } => {
                self.note_of(node, || format!("forgets node {peer}"));
                self.oracle.on_forget(node, *peer);
                self.world.forget(id, NodeId((*peer).into()));
            }
            Action::Cut(cut) => self.cut(node, cut),
            Action::Weather { conditions, for_ns } => {
                self.note(|| format!("other weather from node {node}: {conditions:?}"));
                self.world.net().set_conditions(id, Who::Any, *conditions);
                self.later(*for_ns, Undo::Calm(node));
            }
        }
        self.world.flush();
        self.see_events();
    }

    fn undo(&mut self, undo: Undo) {
        self.note(|| format!("{undo:?}"));
        match undo {
            Undo::Heal(cut) => {
                self.world.net().heal(cut);
            }
            Undo::Resume(node) => {
                self.world.resume(NodeId(node.into()));
                self.world.flush();
                self.see_events();
                for (node, action) in
                    self.deferred.extract_if(.., |step| step.0 == node).collect::<Vec<_>>()
                {
                    self.act(node, action);
                }
            }
            Undo::Calm(node) => {
                let weather = self.scenario.weather;
                self.world.net().set_conditions(NodeId(node.into()), Who::Any, weather);
            }
            Undo::Revive(node) => {
                self.world.revive(NodeId(node.into()));
                onesided::expose(self.scenario, &mut self.world, NodeId(node.into()));
                self.oracle.on_revive(node);
            }
        }
    }

    fn cut(&mut self, node: u8, cut: &Cut) {
        let made = cut.begin(&mut self.world, NodeId(node.into()));
        self.note(|| format!("cut at node {node}: {cut:?}"));
        self.later(cut.for_ns, Undo::Heal(made));
    }

    fn kill(&mut self, node: u8, back_after_ns: Option<u64>, is_told: bool) {
        let id = NodeId(node.into());
        self.note_of(node, || "dies".into());
        self.count_life(id);
        self.world.kill(id, death_in(self.scenario));
        self.oracle.on_kill(node);
        self.stats.restart_count += u64::from(back_after_ns.is_some());
        if is_told {
            for other in self.world.node_ids().filter(|&other| other != id) {
                if self.world.is_up(other) && self.oracle.is_working(other.0 as u8) {
                    let peer = self.world.peer(other, id);
                    self.world.tell_died(other, peer);
                }
            }
        }
        if let Some(after_ns) = back_after_ns {
            self.later(after_ns, Undo::Revive(node));
        }
    }

    fn close(&mut self, node: u8) {
        self.note_of(node, || "closes".into());
        self.oracle.on_close(node);
        self.world.close(NodeId(node.into()));
    }
}

/// The nodes and the network of a scenario; chance there comes from this seed.
pub(crate) fn world_of(scenario: &Scenario, seed: u64) -> World {
    let mut world = World::new(seed);
    for plan in &scenario.nodes {
        world.add_node(Spec {
            ports: plan.ports,
            port_specs: plan.port_specs.clone(),
            name: Some(plan.name.into()),
            limits: plan.limits.clone(),
            settings: plan.settings.clone(),
            trains: draw_trains(scenario.seed, plan.name),
        });
    }
    world.net().set_conditions(Who::Any, Who::Any, scenario.weather);
    world.net().set_all_lines(scenario.line);
    for (id, plan) in world.node_ids().zip(&scenario.nodes) {
        for (port, &line) in (0..plan.ports).zip(&plan.port_lines) {
            world.net().set_egress(id.port(port), line);
            world.net().set_ingress(id.port(port), line);
        }
    }
    world
}

/// What a node's driver makes of trains: nothing, in one node of four. Drawn apart, so that it changes no other draw.
fn draw_trains(seed: u64, name: u8) -> Trains {
    let mut rng = Rng::new(seed).fork("trains").fork_n(name.into());
    let count_max = if rng.chance(500_000) { rng.range(1..=64) as usize } else { 0 };
    let len_max = if rng.chance(750_000) { 64_000 } else { rng.range(1_000..=10_000) as usize };
    Trains { count_max, len_max, lands: rng.chance(500_000) }
}

/// Whether nothing in the scenario can make anybody lose a peer.
pub(crate) fn nobody_may_go(scenario: &Scenario) -> bool {
    let is_mild = |weather: &Conditions| weather.loss_ppm <= 50_000 && weather.burst.is_none();
    let is_harmless = |action: &Action| match action {
        Action::Kill { .. } | Action::Close | Action::Rebind { .. } | Action::Forget { .. } => {
            false
        }
        Action::Cut(cut) => cut.for_ns < SECOND / 4,
        Action::Pause { for_ns } => *for_ns < SECOND / 4,
        Action::Weather { conditions, .. } => is_mild(conditions),
        _ => true,
    };
    is_mild(&scenario.weather) && scenario.steps.iter().all(|step| is_harmless(&step.action))
}
