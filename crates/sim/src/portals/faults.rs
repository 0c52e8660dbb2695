//! What happens to processes and network in a run: the faults that were drawn for the seed, each at its time and to its end.

use packhorse_link::sim::{Conditions, Death, NodeId, Who};

use super::Run;
use super::model::Model;
use crate::scenario::{Action, Cut, Scenario, Step};
use crate::undo::{PAUSED_LEN_MAX, Undo, Undos, death_in, heal_network};

/// What is still to happen.
pub(super) struct Faults {
    steps: std::vec::IntoIter<Step>,
    undos: Undos,
    death: Death,
    weather: Conditions,
}

/// A scenario with its faults only. Closing is left out: it is the application that does that, and a run of Portals has its own end.
pub(super) fn scenario_of(whole: &Scenario) -> Scenario {
    let mut scenario = whole.clone();
    scenario.steps.retain(|step| {
        !step.action.is_by_application() || matches!(step.action, Action::Forget { .. })
    });
    scenario
}

impl Faults {
    pub(super) fn new(scenario: &Scenario) -> Self {
        Self {
            steps: scenario.steps.clone().into_iter(),
            undos: Undos::default(),
            death: death_in(scenario),
            weather: scenario.weather,
        }
    }

    /// When the next thing happens, if before this.
    fn next_at(&self, until_ns: u64) -> Option<u64> {
        let step = self.steps.as_slice().first().map(|step| step.at_ns);
        [step, self.undos.next_at()].into_iter().flatten().min().filter(|at_ns| *at_ns <= until_ns)
    }
}

impl Run {
    /// Lets time pass, with the faults on the way.
    pub(super) fn run_to(&mut self, until_ns: u64) {
        while let Some(at_ns) = self.faults.next_at(until_ns) {
            self.turn_to(at_ns);
            if self.has_failed() {
                return;
            }
            if self.faults.undos.next_at().is_some_and(|due| due <= at_ns)
                && let Some(undo) = self.faults.undos.pop()
            {
                self.undo(undo);
            } else if let Some(step) = self.faults.steps.next() {
                self.befall(&step);
            }
        }
        self.turn_to(until_ns);
    }

    fn befall(&mut self, step: &Step) {
        let (node, index) = (step.node, usize::from(step.node));
        let (id, now) = (NodeId(node.into()), self.world.now().0);
        if !self.processes[index].is_up {
            return;
        }
        self.note(index, || format!("{:?}", step.action));
        match &step.action {
            Action::Kill { back_after_ns, is_told } => {
                self.kill(node, *is_told);
                if let Some(after_ns) = back_after_ns {
                    self.faults.undos.add(now + after_ns, Undo::Revive(node));
                }
            }
            Action::Pause { for_ns } => {
                self.world.pause(id, PAUSED_LEN_MAX);
                self.faults.undos.add(now + for_ns, Undo::Resume(node));
            }
            Action::Rebind { port, is_told } => {
                let port = port % self.world.port_count(id);
                self.world.rebind(id, port, *is_told);
            }
            Action::Forget { peer } if !self.world.is_paused(id) => {
                self.world.forget(id, NodeId((*peer).into()));
            }
            Action::Cut(cut) => self.cut(id, cut),
            Action::Weather { conditions, for_ns } => {
                self.world.net().set_conditions(id, Who::Any, *conditions);
                self.faults.undos.add(now + for_ns, Undo::Calm(node));
            }
            _ => {}
        }
        self.world.flush();
        self.look();
    }

    fn cut(&mut self, id: NodeId, cut: &Cut) {
        let made = cut.begin(&mut self.world, id);
        let at_ns = self.world.now().0 + cut.for_ns;
        self.faults.undos.add(at_ns, Undo::Heal(made));
    }

    /// A process dies with all that it has.
    fn kill(&mut self, node: u8, is_told: bool) {
        let id = NodeId(node.into());
        self.world.kill(id, self.faults.death);
        let process = &mut self.processes[usize::from(node)];
        (process.is_up, process.model) = (false, Model::default());
        process.lent.clear();
        process.held.clear();
        if !is_told {
            return;
        }
        for other in self.world.node_ids().filter(|&other| other != id) {
            if self.processes[other.0 as usize].is_up {
                let peer = self.world.peer(other, id);
                self.world.tell_died(other, peer);
            }
        }
    }

    fn undo(&mut self, undo: Undo) {
        self.note(0, || format!("{undo:?}"));
        match undo {
            Undo::Heal(cut) => {
                self.world.net().heal(cut);
            }
            Undo::Resume(node) => self.world.resume(NodeId(node.into())),
            Undo::Calm(node) => {
                let weather = self.faults.weather;
                self.world.net().set_conditions(NodeId(node.into()), Who::Any, weather);
            }
            Undo::Revive(node) => {
                self.world.revive(NodeId(node.into()));
                let process = &mut self.processes[usize::from(node)];
                (process.is_up, process.life) = (true, process.life + 1);
                self.set_up(usize::from(node));
            }
        }
        self.world.flush();
        self.look();
    }

    /// All faults end.
    pub(super) fn heal(&mut self, scenario: &Scenario) {
        while let Some(undo) = self.faults.undos.pop() {
            if !self.has_failed() {
                self.undo(undo);
            }
        }
        heal_network(&mut self.world, scenario);
    }
}
