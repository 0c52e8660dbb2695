//! Whose program is on an interface, and which rights we have.

use std::fmt;
use std::fs;

use crate::sys::bpf;

/// The name of our program.
pub(super) const PROGRAM_NAME: &str = "packhorse";
/// Holders that are named; the others say nothing new.
const HOLDER_COUNT_MAX: usize = 4;

/// The program that is on an interface, and the processes that hold it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The number of the program; 0 if the system does not say.
    pub id: u32,
    /// Its name, if we may know it. Ours is `packhorse`.
    pub name: Option<String>,
    /// Number and name of processes that hold it, as far as we may look.
    pub holders: Vec<(u32, String)>,
}

impl Owner {
    /// All that can be found out about a program.
    pub(super) fn find(id: u32) -> Self {
        let name = bpf::program_name(id).ok().filter(|name| !name.is_empty());
        Self { id, name, holders: holders_of(id) }
    }

    /// Whether it is another link of ours.
    pub fn is_packhorse(&self) -> bool {
        self.name.as_deref() == Some(PROGRAM_NAME)
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) if self.is_packhorse() => write!(f, "{name:?}, another Packhorse endpoint")?,
            Some(name) => write!(f, "{name:?}, not of Packhorse")?,
            None => write!(f, "whose name we may not know")?,
        }
        write!(f, " (program {}", self.id)?;
        for (pid, command) in self.holders.iter().take(HOLDER_COUNT_MAX) {
            write!(f, ", held by process {pid} {command}")?;
        }
        write!(f, ")")
    }
}

/// Processes with a descriptor of the program or of its attachment. One that was attached without leaves none.
fn holders_of(id: u32) -> Vec<(u32, String)> {
    let line = format!("prog_id:\t{id}");
    let is_held = |pid: u32| {
        let Ok(infos) = fs::read_dir(format!("/proc/{pid}/fdinfo")) else { return false };
        let mut texts = infos.flatten().filter_map(|info| fs::read_to_string(info.path()).ok());
        texts.any(|text| text.lines().any(|found| found == line))
    };
    let Ok(processes) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = processes.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let command_of = |pid: u32| {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        (pid, name.trim().to_string())
    };
    pids.filter(|&pid| is_held(pid)).map(command_of).collect()
}

/// What a link needs: the socket; program, map and attachment.
const NEEDED: [(u32, &str); 3] = [(13, "CAP_NET_RAW"), (12, "CAP_NET_ADMIN"), (39, "CAP_BPF")];
/// Includes CAP_BPF.
const SYS_ADMIN_BIT: u32 = 21;

/// What this process lacks of the capabilities a link needs.
pub fn missing_capabilities() -> Vec<&'static str> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    missing_of(effective_of(&status).unwrap_or(0))
}

fn effective_of(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

fn missing_of(effective: u64) -> Vec<&'static str> {
    let has = |bit: u32| effective >> bit & 1 == 1;
    let is_included = |name: &str| name == "CAP_BPF" && has(SYS_ADMIN_BIT);
    let lacks = |&&(bit, name): &&(u32, &str)| !has(bit) && !is_included(name);
    NEEDED.iter().filter(lacks).map(|&(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_capabilities_are_those_that_are_not_there() {
        assert_eq!(missing_of(0), ["CAP_NET_RAW", "CAP_NET_ADMIN", "CAP_BPF"]);
        assert_eq!(missing_of(1 << 13 | 1 << 21), ["CAP_NET_ADMIN"]);
        assert_eq!(missing_of(u64::MAX), [""; 0]);
        assert_eq!(effective_of("Name:\tx\nCapEff:\t0000000000003000\n"), Some(0x3000));
        assert_eq!(effective_of("nothing"), None);
    }

    #[test]
    fn owners_are_named() {
        let mut owner =
            Owner { id: 3, name: Some("packhorse".into()), holders: vec![(12, "serve".into())] };
        assert_eq!(
            owner.to_string(),
            "\"packhorse\", another Packhorse endpoint (program 3, held by process 12 serve)"
        );
        owner.name = None;
        assert!(!owner.is_packhorse() && owner.to_string().starts_with("whose name"));
    }
}
