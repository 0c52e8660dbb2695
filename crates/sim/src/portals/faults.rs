//! What happens to processes and network in a run: the faults that were drawn for the seed, each at its time and to its end.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use packhorse_link::sim::{Conditions, CutId, Death, Line, NodeId, Who};

use super::Run;
use super::model::Model;
use crate::scenario::{Action, Cut, Scenario, Step};

/// What a paused node's system keeps for it.
const PAUSED_LEN_MAX: u64 = 256 << 10;

/// The end of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Undo {
    Heal(CutId),
    Resume(u8),
    Revive(u8),
    Calm(u8),
}

/// What is still to happen.
pub(super) struct Faults {
    steps: std::vec::IntoIter<Step>,
    undos: BinaryHeap<Reverse<(u64, usize)>>,
    undo_list: Vec<Undo>,
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
            undos: BinaryHeap::new(),
            undo_list: Vec::new(),
            death: if scenario.tells_unreachable { Death::Reported } else { Death::Silent },
            weather: scenario.weather,
        }
    }

    fn later(&mut self, at_ns: u64, undo: Undo) {
        self.undo_list.push(undo);
        self.undos.push(Reverse((at_ns, self.undo_list.len() - 1)));
    }

    /// When the next thing happens, if before this.
    fn next_at(&self, until_ns: u64) -> Option<u64> {
        let step = self.steps.as_slice().first().map(|step| step.at_ns);
        let undo = self.undos.peek().map(|Reverse((at_ns, _))| *at_ns);
        [step, undo].into_iter().flatten().min().filter(|at_ns| *at_ns <= until_ns)
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
            let undo = self.faults.undos.peek().filter(|Reverse((due, _))| *due <= at_ns);
            if let Some(&Reverse((_, index))) = undo {
                self.faults.undos.pop();
                self.undo(self.faults.undo_list[index]);
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
                    self.faults.later(now + after_ns, Undo::Revive(node));
                }
            }
            Action::Pause { for_ns } => {
                self.world.pause(id, PAUSED_LEN_MAX);
                self.faults.later(now + for_ns, Undo::Resume(node));
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
                self.faults.later(now + for_ns, Undo::Calm(node));
            }
            _ => {}
        }
        self.world.flush();
        self.look();
    }

    fn cut(&mut self, id: NodeId, cut: &Cut) {
        let made = cut.begin(&mut self.world, id);
        let at_ns = self.world.now().0 + cut.for_ns;
        self.faults.later(at_ns, Undo::Heal(made));
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
        while let Some(Reverse((_, index))) = self.faults.undos.pop() {
            if !self.has_failed() {
                self.undo(self.faults.undo_list[index]);
            }
        }
        // What is no fault but the nature of the network stays.
        let Conditions { delay_ns, frame_len_max, .. } = scenario.weather;
        let calm = Conditions { delay_ns, frame_len_max, ..Conditions::PERFECT };
        let net = self.world.net();
        net.heal_all();
        net.set_conditions(Who::Any, Who::Any, calm);
        net.set_all_lines(Line::INFINITE);
    }
}
