//! An adversary that is somebody else again and again: same address, new incarnation, something new begun each time.

use packhorse_link::sim::NodeId;
use packhorse_proto::Instant;

use super::Player;
use crate::adversary::Habit;
use crate::onesided;
use crate::scenario::{How, Scenario, Send};
use crate::undo::death_in;

/// A life of an adversary lasts longer than the one before by one part in so many, so that a run ends.
const LONGER_BY: u64 = 12;

/// When the adversary of a scenario is somebody else for the first time.
pub(super) fn first_at(scenario: &Scenario) -> Instant {
    match scenario.adversary.map(|adversary| adversary.habit) {
        Some(Habit::Renews { after_ns }) => Instant(after_ns),
        _ => Instant::NEVER,
    }
}

impl Player<'_> {
    /// Goes to the next moment, as `World::turn` does, not beyond `until`; false if that comes first.
    pub(super) fn turn(&mut self, until: Instant) -> bool {
        if self.renewal_at > until {
            return self.world.turn(until);
        }
        if !self.world.turn(self.renewal_at) && self.world.now() >= self.renewal_at {
            self.renew();
        }
        true
    }

    fn renew(&mut self) {
        let Some(adversary) = self.scenario.adversary else { return };
        let (node, id) = (adversary.node, NodeId(adversary.node.into()));
        let now = self.world.now();
        self.renewal_at = now + (now.0 / LONGER_BY).max(1);
        self.note_of(node, || "is somebody else".into());
        self.count_life(id);
        self.world.kill(id, death_in(self.scenario));
        self.oracle.on_kill(node);
        self.world.revive(id);
        onesided::expose(self.scenario, &mut self.world, id);
        self.oracle.on_revive(node);
        // To one of the others after the other: something small, and something that one life is too short for.
        let to = (self.world.life(id) % u32::from(node)) as u8;
        for (len, how) in [(40, How::Accepted), (100_000, How::Accepted)] {
            if self.oracle.is_working(to) {
                let label = self.take_label();
                let (space, tag) = (label as u8 % self.spaces, label.into());
                let (has_immediate, segments) = (true, 0);
                self.send(node, &Send { label, to, space, tag, len, has_immediate, how, segments });
            }
        }
        self.world.flush();
    }
}
