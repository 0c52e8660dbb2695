//! Peers that keep to the rules' letter and help nobody.
//!
//! An adversary is one node more: a whole endpoint with a valid address, whose frames pass a filter between it and the network. The filter
//! has the endpoint's secrets, so what comes out of it is rightly sealed. It knows records and nothing of what is behind them.
//!
//! | habit | what it attacks |
//! | --- | --- |
//! | never grants | calls return: sends that nobody grants are cancelled, and closing does not wait for them |
//! | ignores Refuse | memory: what a node holds stays within its limits |
//! | sends half | memory, and the grants and envelopes that others need |
//! | batches | time: bursts of many frames, and nothing between |
//! | renews for ever | memory: what a former incarnation left behind is given back |
//! | names others' locators | strangers to the quarrel: who was named gets no more than three times what the adversary sent (PROTOCOL §3.12) |
//!
//! An adversary joins a scenario last and draws from a generator of its own: what the others do is as it would be without it. What is promised
//! between the others is held against the books as ever; between them and the adversary only that nothing wrong is delivered, that nothing is held
//! beyond the limits, and that calls return.

use packhorse_link::sim::Rng;
use packhorse_proto::MS;

use crate::draw::{PERCENT, draw};
use crate::onesided::{Deed, Operate};
use crate::scenario::{Action, How, NodePlan, Recv, Scenario, Send, Step, Wanted};

mod filter;

pub(crate) use filter::Filter;

/// What an adversary does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Habit {
    /// No range of a large message, put or get is ever granted.
    NeverGrants,
    /// It does not hear that its messages are refused.
    IgnoresRefuse,
    /// Of what it sends in pieces the second half never leaves; or every second message does not.
    SendsHalf {
        /// Whole messages, instead of the second half of each.
        of_messages: bool,
    },
    /// Its frames wait and leave together.
    Batches {
        /// How often.
        every_ns: u64,
    },
    /// It is somebody else again and again.
    Renews {
        /// How soon; each life lasts a little longer than the one before.
        after_ns: u64,
    },
    /// It says that it is where others are.
    NamesOthers,
}

impl Habit {
    /// How statistics call it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::NeverGrants => "adversary: never grants",
            Self::IgnoresRefuse => "adversary: ignores Refuse",
            Self::SendsHalf { .. } => "adversary: sends half",
            Self::Batches { .. } => "adversary: batches",
            Self::Renews { .. } => "adversary: renews for ever",
            Self::NamesOthers => "adversary: names others' locators",
        }
    }
}

/// The one among the nodes that is not as the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Adversary {
    /// Which node.
    pub node: u8,
    /// What it does.
    pub habit: Habit,
    /// In the end the others forget it, and nothing of it may be left; else they close while it goes on.
    pub is_forgotten: bool,
}

/// The scenario of a seed with an adversary in it.
pub fn draw_beset(seed: u64) -> Scenario {
    let mut scenario = draw(seed);
    beset(&mut scenario);
    scenario
}

/// Adds an adversary.
fn beset(scenario: &mut Scenario) {
    let mut rng = Rng::new(scenario.seed).fork("adversary");
    let habit = match rng.below(6) {
        0 => Habit::NeverGrants,
        1 => Habit::IgnoresRefuse,
        2 => Habit::SendsHalf { of_messages: rng.chance(30 * PERCENT) },
        3 => Habit::Batches { every_ns: MS << rng.below(9) },
        4 => Habit::Renews { after_ns: (MS / 5) << rng.below(7) },
        _ => Habit::NamesOthers,
    };
    let node = scenario.nodes.len() as u8;
    let is_forgotten = rng.chance(50 * PERCENT);
    let plan = rng.pick(&scenario.nodes).clone();
    let name = scenario.nodes.iter().map(|node| node.name + 1).max().unwrap_or(0);
    if habit == Habit::IgnoresRefuse {
        // Else there would seldom be anything to ignore.
        for plan in &mut scenario.nodes {
            let count_max = rng.range(4..=40) as u32;
            plan.limits.envelope_count_max = plan.limits.envelope_count_max.min(count_max);
        }
    }
    scenario.nodes.push(NodePlan { name, ..plan });
    scenario.adversary = Some(Adversary { node, habit, is_forgotten });
    let mut drawer = Drawer { rng, node, next_label: scenario.label_count(), scenario };
    drawer.draw_traffic(habit);
    scenario.steps.sort_by_key(|step| step.at_ns);
}

/// Makes the steps of an adversary's application, and of those who meet it.
struct Drawer<'a> {
    rng: Rng,
    node: u8,
    next_label: u32,
    scenario: &'a mut Scenario,
}

impl Drawer<'_> {
    fn label(&mut self) -> u32 {
        self.next_label += 1;
        self.next_label - 1
    }

    fn other(&mut self) -> u8 {
        self.rng.below(self.node.into()) as u8
    }

    fn push(&mut self, at_ns: u64, node: u8, action: Action) {
        self.scenario.steps.push(Step { at_ns, node, action });
    }

    fn draw_traffic(&mut self, habit: Habit) {
        let until = self.scenario.heal_at_ns;
        let space_count = self.scenario.space_count();
        for space in 0..space_count {
            for _ in 0..self.rng.range(1..=8) {
                let (label, cap) = (self.label(), self.rng.range(0..=120_000));
                let recv = Recv {
                    label,
                    wanted: Wanted::anything(space),
                    cap,
                    segments: 1,
                    is_overflow: false,
                    many_free_min: None,
                    is_header_only: false,
                };
                let at_ns = self.rng.below(until / 2);
                self.push(at_ns, self.node, Action::Recv(recv));
            }
        }
        for _ in 0..self.rng.range(6..=40) {
            let (at_ns, other) = (self.rng.below(until), self.other());
            let (from, to) =
                if self.rng.chance(50 * PERCENT) { (self.node, other) } else { (other, self.node) };
            let len = match self.rng.below(4) {
                0 => self.rng.below(65),
                1 => self.rng.below(8_000),
                _ => self.rng.below(120_000),
            };
            let how = *self.rng.pick(&[How::Copied, How::Accepted, How::Accepted, How::Matched]);
            let send = self.draw_send((from, to), space_count, len, how);
            if self.rng.chance(15 * PERCENT) {
                let later = self.rng.below(until - at_ns);
                self.push(at_ns + later, from, Action::Cancel { label: send.label });
            }
            self.push(at_ns, from, Action::Send(send));
        }
        if self.rng.chance(50 * PERCENT) {
            self.draw_operations(until);
        }
        if habit == Habit::IgnoresRefuse {
            self.draw_flood(until, space_count);
        }
    }

    /// More than anybody holds, to one of the others: at once, or one after the other in most of the time there is.
    fn draw_flood(&mut self, until: u64, space_count: u8) {
        let (start, to, count) =
            (self.rng.below(until / 4), self.other(), self.rng.range(100..=700));
        let len_max = *self.rng.pick(&[9, 200, 1100]);
        let pause_ns = *self.rng.pick(&[1_000, until / (2 * count)]);
        for number in 0..count {
            // An even label is posted as applications post, who give to links what these take (PROTOCOL §7.10).
            self.next_label += self.next_label % 2;
            let len = self.rng.below(len_max);
            let send = self.draw_send((self.node, to), space_count, len, How::Copied);
            self.push(start + number * pause_ns, self.node, Action::Send(send));
        }
    }

    fn draw_send(&mut self, (from, to): (u8, u8), space_count: u8, len: u64, how: How) -> Send {
        let eager_len_max = self.scenario.nodes[usize::from(from)].settings.eager_len_max;
        Send {
            label: self.label(),
            to,
            space: self.rng.below(space_count.into()) as u8,
            tag: self.rng.below(6),
            len,
            // Its number, for half of it has none.
            has_immediate: true,
            how: if how == How::Copied && len > eager_len_max.into() { How::Accepted } else { how },
            segments: 0,
        }
    }

    /// Puts and gets, mostly so long that they are granted, both ways.
    fn draw_operations(&mut self, until: u64) {
        for _ in 0..self.rng.range(1..=12) {
            let (at_ns, other) = (self.rng.below(until), self.other());
            let (from, to) =
                if self.rng.chance(50 * PERCENT) { (self.node, other) } else { (other, self.node) };
            let len = self.rng.range(1..=60_000);
            let deed = match self.rng.below(5) {
                0 | 1 => Deed::Put {
                    offset: self.scenario.puts_len(to),
                    len,
                    has_immediate: self.rng.chance(30 * PERCENT),
                    is_copied: false,
                },
                2 | 3 => Deed::Get { offset: self.rng.below(10_000), len },
                _ => Deed::Add,
            };
            let operate = Operate { label: self.label(), to, deed };
            self.push(at_ns, from, Action::Operate(operate));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the others do does not depend on whether there is an adversary.
    #[test]
    fn an_adversary_changes_nothing_of_the_others() {
        for seed in 0..100 {
            let (plain, beset) = (draw(seed), draw_beset(seed));
            let adversary = beset.adversary.expect("there is one");
            let concerns_it =
                |step: &&Step| step.node == adversary.node || step.action.mentions(adversary.node);
            let rest: Vec<_> = beset.steps.iter().filter(|step| !concerns_it(step)).collect();
            let others: Vec<_> = plain.steps.iter().collect();
            let cancels = |steps: &[&Step]| {
                steps.iter().filter(|step| !matches!(step.action, Action::Cancel { .. })).count()
            };
            assert_eq!(cancels(&rest), cancels(&others), "seed {seed}");
            assert_eq!(beset.nodes.len(), plain.nodes.len() + 1);
            assert_eq!(beset.heal_at_ns, plain.heal_at_ns);
        }
    }

    #[test]
    fn every_habit_is_drawn_as_often_as_another() {
        let mut counts = std::collections::BTreeMap::new();
        for seed in 0..600 {
            let adversary = draw_beset(seed).adversary.expect("there is one");
            *counts.entry(adversary.habit.name()).or_insert(0) += 1;
        }
        assert_eq!(counts.len(), 6);
        assert!(counts.values().all(|&count| count > 60), "{counts:?}");
    }
}
