//! Makes a failing scenario smaller.
//!
//! Leaves out what it can (nodes, steps in ever smaller blocks, vices of the weather), halves what remains (lengths),
//! and keeps each change after which the scenario still fails in the same way. Runs are deterministic, so one try each
//! is enough.

use packhorse_link::sim::{Conditions, Line};

use crate::pattern::NAME_LEN;
use crate::player::Outcome;
use crate::run::{Conduct, play};
use crate::scenario::{Action, NodePlan, Scenario};

/// Tries at most; a shrunk scenario is a help, not a proof.
const TRY_COUNT_MAX: u32 = 3000;

/// The smallest failing scenario found, and what is wrong with it.
pub fn shrink(scenario: &Scenario, conduct: Conduct) -> (Scenario, Vec<String>) {
    let violations = play(scenario, conduct, None).violations;
    let Some(first) = violations.first() else { return (scenario.clone(), violations) };
    let kind = kind_of(first);
    let mut shrinker = Shrinker { best: scenario.clone(), violations, kind, conduct, tries: 0 };
    while shrinker.round() {}
    (shrinker.best, shrinker.violations)
}

/// What stays of a violation's text when numbers and names change.
fn kind_of(violation: &str) -> String {
    violation.chars().filter(|c| !c.is_ascii_digit()).take(24).collect()
}

struct Shrinker {
    best: Scenario,
    violations: Vec<String>,
    kind: String,
    conduct: Conduct,
    tries: u32,
}

impl Shrinker {
    /// Tries everything once; whether anything helped and there is time for more.
    fn round(&mut self) -> bool {
        let before = self.tries;
        let mut helped = self.drop_nodes();
        helped |= self.drop_steps();
        helped |= self.calm();
        helped |= self.halve();
        helped && self.tries < TRY_COUNT_MAX && self.tries > before
    }

    fn accept(&mut self, candidate: Scenario) -> bool {
        self.tries += 1;
        if self.tries > TRY_COUNT_MAX {
            return false;
        }
        let Outcome { violations, .. } = play(&candidate, self.conduct, None);
        let fails = violations.first().is_some_and(|first| kind_of(first) == self.kind);
        if fails {
            (self.best, self.violations) = (candidate, violations);
        }
        fails
    }

    fn drop_nodes(&mut self) -> bool {
        let mut helped = false;
        for node in (0..self.best.nodes.len() as u8).rev() {
            if self.best.nodes.len() > 2 {
                helped |= self.accept(without_node(&self.best, node));
            }
        }
        helped
    }

    /// Drops blocks of steps, halving the block until single steps were tried.
    fn drop_steps(&mut self) -> bool {
        let mut helped = false;
        let mut block = self.best.steps.len().div_ceil(2);
        while block > 0 {
            let mut start = 0;
            while start < self.best.steps.len() {
                let mut candidate = self.best.clone();
                let end = (start + block).min(candidate.steps.len());
                candidate.steps.drain(start..end);
                if self.accept(candidate) {
                    helped = true;
                } else {
                    start += block;
                }
            }
            block /= 2;
        }
        helped
    }

    /// Takes away the weather's vices one by one.
    fn calm(&mut self) -> bool {
        let vices: [fn(&mut Conditions); 9] = [
            |weather| *weather = Conditions { delay_ns: weather.delay_ns, ..Conditions::PERFECT },
            |weather| weather.frame_len_max = u32::MAX,
            |weather| weather.loss_ppm = 0,
            |weather| weather.burst = None,
            |weather| weather.jitter_ns = 0,
            |weather| weather.duplicate_ppm = 0,
            |weather| weather.reorder_ppm = 0,
            |weather| weather.corrupt_ppm = 0,
            |weather| weather.truncate_ppm = 0,
        ];
        let mut helped = false;
        for cure in vices {
            let mut candidate = self.best.clone();
            cure(&mut candidate.weather);
            if candidate.weather != self.best.weather {
                helped |= self.accept(candidate);
            }
        }
        if self.best.line != Line::INFINITE {
            helped |= self.accept(Scenario { line: Line::INFINITE, ..self.best.clone() });
        }
        let one_port =
            |scenario: &mut Scenario| scenario.nodes.iter_mut().for_each(|node| node.ports = 1);
        if self.best.nodes.iter().any(|node| node.ports > 1) {
            let mut candidate = self.best.clone();
            one_port(&mut candidate);
            helped |= self.accept(candidate);
        }
        let is_odd = |node: &NodePlan| node.port_specs.len() + node.port_lines.len() > 0;
        if self.best.nodes.iter().any(is_odd) {
            let mut candidate = self.best.clone();
            for node in &mut candidate.nodes {
                node.port_specs.clear();
                node.settings.payload_check = true; // memory alone needs none, networks may
                node.port_lines.clear();
            }
            helped |= self.accept(candidate);
        }
        helped
    }

    fn halve(&mut self) -> bool {
        let mut helped = false;
        for index in 0..self.best.steps.len() {
            let mut candidate = self.best.clone();
            let halved = match &mut candidate.steps[index].action {
                // Not below what names the message.
                Action::Send(send) if send.len > NAME_LEN => {
                    send.len = (send.len / 2).max(NAME_LEN);
                    true
                }
                Action::Send(send) if send.segments > 0 => {
                    send.segments = 0;
                    true
                }
                _ => false,
            };
            if halved {
                helped |= self.accept(candidate);
            }
        }
        helped
    }
}

/// The scenario as it would be had the node never been.
fn without_node(scenario: &Scenario, gone: u8) -> Scenario {
    let mut rest = scenario.clone();
    rest.nodes.remove(usize::from(gone));
    let moved = |node: &mut u8| *node -= u8::from(*node > gone);
    rest.adversary = rest.adversary.filter(|adversary| adversary.node != gone);
    rest.adversary.iter_mut().for_each(|adversary| moved(&mut adversary.node));
    rest.steps.retain_mut(|step| {
        if let Action::Cut(cut) = &mut step.action {
            cut.others.retain(|&other| other != gone);
        }
        step.node != gone && !step.action.mentions(gone)
    });
    for step in &mut rest.steps {
        moved(&mut step.node);
        match &mut step.action {
            Action::Send(send) => moved(&mut send.to),
            Action::Recv(recv) => recv.wanted.source.iter_mut().for_each(moved),
            Action::Claim { wanted, .. } => wanted.source.iter_mut().for_each(moved),
            Action::Cut(cut) => cut.others.iter_mut().for_each(moved),
            Action::Forget { peer } => moved(peer),
            Action::Operate(operate) => moved(&mut operate.to),
            _ => {}
        }
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::draw;

    #[test]
    fn a_node_left_out_is_mentioned_nowhere() {
        for seed in 0..50 {
            let scenario = draw(seed);
            let smaller = without_node(&scenario, 0);
            let count = smaller.nodes.len() as u8;
            for step in &smaller.steps {
                assert!(step.node < count && (count..=255).all(|node| !step.action.mentions(node)));
            }
        }
    }

    #[cfg(feature = "sabotage")]
    #[test]
    fn a_failing_scenario_shrinks_to_its_core() {
        use packhorse_proto::Sabotage;
        let conduct = Conduct { sabotage: Some(Sabotage::TruncatedCopy), ..Conduct::default() };
        let seed = (0..50).find(|&seed| !play(&draw(seed), conduct, None).violations.is_empty());
        let scenario = draw(seed.expect("found soon"));
        let (smaller, violations) = shrink(&scenario, conduct);
        assert!(!violations.is_empty());
        assert!(smaller.send_count() <= 3, "{} messages are left", smaller.send_count());
    }
}
