//! The machines that come with the program.

use anyhow::{Context as _, Result};

use crate::machine::Machine;

const FILES: &[(&str, &str)] = &[
    ("rmpp", include_str!("../machines/rmpp.machine")),
    ("emp", include_str!("../machines/emp.machine")),
    ("open-mx", include_str!("../machines/open-mx.machine")),
    ("open-mx-1g", include_str!("../machines/open-mx-1g.machine")),
    ("portals", include_str!("../machines/portals.machine")),
    ("fm", include_str!("../machines/fm.machine")),
];

/// The names of the machines.
pub fn known() -> impl Iterator<Item = &'static str> {
    FILES.iter().map(|&(name, _)| name)
}

/// The machines, with what the command line changed.
#[derive(Clone, Debug, Default)]
pub struct Bench {
    sets: Vec<String>,
}

impl Bench {
    /// Machines on which each of these costs is changed.
    pub fn new(sets: &[String]) -> Result<Self> {
        let bench = Self { sets: sets.to_vec() };
        for name in known() {
            bench.machine(name)?;
        }
        Ok(bench)
    }

    /// A machine by its name.
    pub fn machine(&self, name: &str) -> Result<Machine> {
        let (_, text) = FILES.iter().find(|(known, _)| *known == name).with_context(|| {
            format!("no machine {name:?}; there are {}", known().collect::<Vec<_>>().join(", "))
        })?;
        let mut machine = Machine::parse(name, text)?;
        for set in &self.sets {
            machine.set(set)?;
        }
        Ok(machine)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::How;

    #[test]
    fn machines_are_sound_and_fit_four_costs_at_most() {
        for name in known() {
            let machine = Bench::default().machine(name).unwrap();
            let fitted = machine.said().filter(|(_, cost)| cost.how == How::Fitted).count();
            assert!(fitted <= 4, "{name} fits {fitted} costs");
            for (key, cost) in machine.said() {
                assert!(!cost.why.is_empty(), "{name}: {} has no reason", key.name);
            }
        }
    }
}
