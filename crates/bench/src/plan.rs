//! What is to be measured, in which order, and on which stage.

use crate::pair::Stage;
use crate::sizes::show_bytes;
use crate::system::{Job, Pattern, Role};
use crate::variant::{Manner, Variant};

/// A pattern, a length and what the pattern is varied by: one line of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Case {
    /// How bytes are moved.
    pub pattern: Pattern,
    /// Length of a message.
    pub bytes: usize,
    /// What the pattern is varied by.
    pub variant: Variant,
}

impl Case {
    /// One that is not varied.
    pub fn plain(pattern: Pattern, bytes: usize) -> Self {
        Self { pattern, bytes, variant: Variant::default() }
    }

    /// One case for each length.
    pub fn each(pattern: Pattern, sizes: &[usize]) -> Vec<Self> {
        sizes.iter().map(|&bytes| Self::plain(pattern, bytes)).collect()
    }

    /// As in a progress bar.
    pub fn label(self) -> String {
        format!("{} {}{}", self.pattern.name(), show_bytes(self.bytes), self.variant.label())
    }
}

/// A system and how it is set: one line of a plot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contender {
    /// Its name in [`crate::SYSTEMS`].
    pub system: String,
    /// Placement of Packhorse's engine.
    pub placement: String,
    /// All else that is set.
    pub manner: Manner,
    /// The only patterns it takes part in; all if there are none.
    pub only: Vec<Pattern>,
}

impl Contender {
    /// As usual, with this placement.
    pub fn new(system: &str, placement: &str) -> Self {
        let (system, placement) = (system.to_owned(), placement.to_owned());
        Self { system, placement, manner: Manner::default(), only: Vec::new() }
    }

    /// Whether it takes part in this pattern.
    pub fn plays(&self, pattern: Pattern) -> bool {
        self.only.is_empty() || self.only.contains(&pattern)
    }
}

/// A whole run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The lines of the tables.
    pub cases: Vec<Case>,
    /// Who takes part.
    pub contenders: Vec<Contender>,
    /// How long each measurement takes.
    pub seconds: f64,
    /// How long idleness is watched.
    pub rest_seconds: f64,
    /// How often each is repeated.
    pub reps: usize,
    /// Messages on their way at once, where that is bounded.
    pub window: usize,
    /// Link for Packhorse.
    pub link: String,
    /// Whether to live with the socket buffers of an untuned system.
    pub unprivileged_buffers: bool,
    /// Where it happens.
    pub stage: Stage,
}

impl Plan {
    /// All measurements in their order: every repetition goes through all systems in turn for each case, beginning
    /// with another one each time, so that whatever else the machine does meets all of them alike.
    pub fn steps(&self) -> Vec<(usize, Case, &Contender)> {
        let mut steps = Vec::new();
        let is_mixed = self.cases.iter().any(|case| case.pattern != Pattern::Idle);
        for rep in 0..self.reps {
            for &case in &self.cases {
                // Doing nothing takes long and varies little: beside other patterns once is enough.
                if case.pattern == Pattern::Idle && is_mixed && rep > 0 {
                    continue;
                }
                let all: Vec<_> =
                    self.contenders.iter().filter(|one| one.plays(case.pattern)).collect();
                for turn in 0..all.len() {
                    steps.push((rep, case, all[(rep + turn) % all.len()]));
                }
            }
        }
        steps
    }

    /// How long a measurement of this pattern takes.
    pub fn seconds_of(&self, pattern: Pattern) -> f64 {
        if pattern == Pattern::Idle { self.rest_seconds } else { self.seconds }
    }

    /// One measurement, as the two sides are told.
    pub fn job(&self, case: Case, contender: &Contender) -> Job {
        let shares_machine = self.stage.peer.is_none();
        Job {
            system: contender.system.clone(),
            pattern: case.pattern,
            role: Role::Active,
            bind: std::net::Ipv4Addr::LOCALHOST.into(),
            bytes: case.bytes,
            seconds: self.seconds_of(case.pattern),
            window: self.window,
            mtu: 0,
            link: self.link.clone(),
            placement: contender.placement.clone(),
            unprivileged_buffers: self.unprivileged_buffers,
            ports: None,
            variant: case.variant,
            manner: Manner { shares_machine, ..contender.manner.clone() },
        }
    }
}

#[cfg(test)]
pub(crate) fn example_plan() -> Plan {
    Plan {
        cases: Case::each(Pattern::PingPong, &[8, 64]),
        contenders: ["bare", "tcp"].map(|system| Contender::new(system, "thread")).to_vec(),
        seconds: 0.1,
        rest_seconds: 1.0,
        reps: 2,
        window: 64,
        link: "udp".into(),
        unprivileged_buffers: false,
        stage: Stage::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn systems_take_turns_and_turns_at_being_first() {
        let plan = example_plan();
        let order: Vec<_> = plan
            .steps()
            .iter()
            .map(|(rep, case, contender)| format!("{rep} {} {}", case.bytes, contender.system))
            .collect();
        assert_eq!(
            order,
            [
                "0 8 bare",
                "0 8 tcp",
                "0 64 bare",
                "0 64 tcp",
                "1 8 tcp",
                "1 8 bare",
                "1 64 tcp",
                "1 64 bare"
            ]
        );
    }
}
