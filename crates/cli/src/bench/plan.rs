//! What is to be measured, in which order, and on which stage.

use super::pair::Stage;
use super::sizes::show_bytes;
use super::system::{Job, Pattern, Role};

/// A pattern and a length: one line of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Case {
    /// How bytes are moved.
    pub pattern: Pattern,
    /// Length of a message.
    pub bytes: usize,
}

impl Case {
    /// One case for each length.
    pub fn each(pattern: Pattern, sizes: &[usize]) -> Vec<Self> {
        sizes.iter().map(|&bytes| Self { pattern, bytes }).collect()
    }

    /// As in a progress bar.
    pub fn label(self) -> String {
        format!("{} {}", self.pattern.name(), show_bytes(self.bytes))
    }
}

/// A whole run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The lines of the tables.
    pub cases: Vec<Case>,
    /// Names of the systems, all of them in [`super::SYSTEMS`].
    pub systems: Vec<String>,
    /// How long each measurement takes.
    pub seconds: f64,
    /// How often each is repeated.
    pub reps: usize,
    /// Messages on their way at once, where that is bounded.
    pub window: usize,
    /// Link for Packhorse.
    pub link: String,
    /// Placement of Packhorse's engine.
    pub placement: String,
    /// Whether to live with the socket buffers of an untuned system.
    pub unprivileged_buffers: bool,
    /// Where it happens.
    pub stage: Stage,
}

impl Plan {
    /// All measurements in their order: every repetition goes through all systems in turn for each case, beginning
    /// with another one each time, so that whatever else the machine does meets all of them alike.
    pub fn steps(&self) -> Vec<(usize, Case, &str)> {
        let mut steps = Vec::new();
        for rep in 0..self.reps {
            for &case in &self.cases {
                for turn in 0..self.systems.len() {
                    let system = &self.systems[(rep + turn) % self.systems.len()];
                    steps.push((rep, case, system.as_str()));
                }
            }
        }
        steps
    }

    /// One measurement, as the two sides are told.
    pub fn job(&self, case: Case, system: &str) -> Job {
        Job {
            system: system.to_owned(),
            pattern: case.pattern,
            role: Role::Active,
            bind: std::net::Ipv4Addr::LOCALHOST.into(),
            bytes: case.bytes,
            seconds: self.seconds,
            window: self.window,
            mtu: 0,
            link: self.link.clone(),
            placement: self.placement.clone(),
            unprivileged_buffers: self.unprivileged_buffers,
            ports: None,
        }
    }
}

#[cfg(test)]
pub(crate) fn example_plan() -> Plan {
    Plan {
        cases: Case::each(Pattern::PingPong, &[8, 64]),
        systems: vec!["bare".into(), "tcp".into()],
        seconds: 0.1,
        reps: 2,
        window: 64,
        link: "udp".into(),
        placement: "thread".into(),
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
            .map(|(rep, case, system)| format!("{rep} {} {system}", case.bytes))
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
