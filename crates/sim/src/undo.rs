//! How faults end: each at its time, and all of them when a run is about to come to rest.
//!
//! Whoever plays a scenario begins a fault, adds its end here, and is handed that end when it is due. What an end means to the
//! applications differs between plain messages (`player`) and Portals (`portals/faults`), so each of them does its own undoing.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use packhorse_link::sim::{Conditions, CutId, Death, Line, Who};

use crate::scenario::Scenario;
use crate::world::World;

/// What a paused node's system keeps for it.
pub(crate) const PAUSED_LEN_MAX: u64 = 256 << 10;

/// The end of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Undo {
    Heal(CutId),
    Resume(u8),
    Revive(u8),
    Calm(u8),
}

/// Ends that are still to come: by time, then by order of their making.
#[derive(Debug, Default)]
pub(crate) struct Undos {
    due: BinaryHeap<Reverse<(u64, usize)>>,
    /// Every end that was ever added, past ones too: its index is the order of its making.
    made: Vec<Undo>,
}

impl Undos {
    pub(crate) fn add(&mut self, at_ns: u64, undo: Undo) {
        self.due.push(Reverse((at_ns, self.made.len())));
        self.made.push(undo);
    }

    /// When the next one is due.
    pub(crate) fn next_at(&self) -> Option<u64> {
        self.due.peek().map(|Reverse((at_ns, _))| *at_ns)
    }

    /// The next one, whenever it is due.
    pub(crate) fn pop(&mut self) -> Option<Undo> {
        self.due.pop().map(|Reverse((_, index))| self.made[index])
    }
}

/// What others see of a process that dies.
pub(crate) fn death_in(scenario: &Scenario) -> Death {
    if scenario.tells_unreachable { Death::Reported } else { Death::Silent }
}

/// The network has no faults any more. What is no fault but its nature stays.
pub(crate) fn heal_network(world: &mut World, scenario: &Scenario) {
    let Conditions { delay_ns, frame_len_max, .. } = scenario.weather;
    let calm = Conditions { delay_ns, frame_len_max, ..Conditions::PERFECT };
    let net = world.net();
    net.heal_all();
    net.set_conditions(Who::Any, Who::Any, calm);
    net.set_all_lines(Line::INFINITE);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ends that are due at one time come in the order of their making, whatever was added or taken between.
    #[test]
    fn ends_come_by_time_and_then_by_making() {
        let mut undos = Undos::default();
        assert_eq!((undos.next_at(), undos.pop()), (None, None));
        for (at_ns, undo) in [(9, Undo::Calm(1)), (5, Undo::Revive(2)), (9, Undo::Resume(0))] {
            undos.add(at_ns, undo);
        }
        assert_eq!((undos.next_at(), undos.pop()), (Some(5), Some(Undo::Revive(2))));
        undos.add(9, Undo::Calm(0));
        undos.add(7, Undo::Resume(3));
        let mut rest = Vec::new();
        while let Some(at_ns) = undos.next_at() {
            rest.push((at_ns, undos.pop().unwrap()));
        }
        let nines = [Undo::Calm(1), Undo::Resume(0), Undo::Calm(0)].map(|undo| (9, undo));
        assert_eq!(rest, [&[(7, Undo::Resume(3))][..], &nines].concat());
    }
}
