//! What the measurements ran on: facts without which a number means nothing.

use std::fs;
use std::net::IpAddr;
use std::thread;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::rival::sys::{self, Interface};

/// Features of an interface that decide how fast it is, by the kernel's name and by the usual one.
const OFFLOADS: &[(&str, &str)] = &[
    ("tx-generic-segmentation", "gso"),
    ("tx-tcp-segmentation", "tso"),
    ("tx-udp-segmentation", "udp-gso"),
    ("rx-gro", "gro"),
];

/// The machine as a whole.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Release of the kernel.
    pub kernel: String,
    /// Model of the processor.
    pub cpu: String,
    /// Cores this process may use.
    pub cores: usize,
    /// Largest receive buffer a socket may ask for (`net.core.rmem_max`).
    pub rmem_max: Option<u64>,
    /// Largest send buffer a socket may ask for (`net.core.wmem_max`).
    pub wmem_max: Option<u64>,
    /// The interface that was measured, if one was.
    pub interface: Option<InterfaceFacts>,
    /// Where the other side was, if on another machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<String>,
    /// The command that did it.
    pub command: Option<String>,
}

/// One network interface.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct InterfaceFacts {
    /// Name.
    pub name: String,
    /// Driver, where it says so.
    pub driver: Option<String>,
    /// Largest packet.
    pub mtu: usize,
    /// Whether each offload is on, where that can be read.
    pub offloads: Vec<(String, bool)>,
}

impl Machine {
    /// The machine this runs on.
    pub fn here() -> Self {
        Self {
            kernel: read("/proc/sys/kernel/osrelease").unwrap_or_else(|| "unknown".into()),
            cpu: fs::read_to_string("/proc/cpuinfo")
                .ok()
                .and_then(|text| cpu_model(&text))
                .unwrap_or_else(|| std::env::consts::ARCH.into()),
            cores: thread::available_parallelism().map_or(1, usize::from),
            // Not visible inside a network namespace, so this asks before going there.
            rmem_max: read("/proc/sys/net/core/rmem_max").and_then(|text| text.parse().ok()),
            wmem_max: read("/proc/sys/net/core/wmem_max").and_then(|text| text.parse().ok()),
            interface: None,
            peer: None,
            command: None,
        }
    }

    /// Whether figures of the two can stand on one page: all the same but for the command.
    pub fn is_like(&self, other: &Self) -> bool {
        *self == Self { command: self.command.clone(), ..other.clone() }
    }

    /// A few lines for people.
    pub fn lines(&self) -> Vec<String> {
        let bytes = |value: Option<u64>| value.map_or("unknown".into(), |value| value.to_string());
        let mut lines = vec![
            format!("kernel {}, {} cores, {}", self.kernel, self.cores, self.cpu),
            format!("rmem_max {}, wmem_max {}", bytes(self.rmem_max), bytes(self.wmem_max)),
        ];
        lines.extend(self.interface.as_ref().map(InterfaceFacts::line));
        lines.extend(self.peer.as_ref().map(|peer| format!("against packhorse serve on {peer}")));
        lines
    }
}

impl InterfaceFacts {
    /// The interface that has this address, in the namespace the process is in.
    pub fn of_address(address: IpAddr) -> Result<Self> {
        // All of 127.0.0.0/8 is loopback's, though it has one address of it.
        let loopback = address.is_loopback().then(|| "lo".to_owned());
        let name = loopback
            .or_else(|| {
                sys::addresses().into_iter().find(|(_, ip)| *ip == address).map(|(name, _)| name)
            })
            .with_context(|| format!("no interface of this machine has the address {address}"))?;
        Self::of(&name)
    }

    /// The interface of this name, in the namespace the process is in.
    pub fn of(name: &str) -> Result<Self> {
        let about = || format!("cannot ask about the interface {name}");
        let interface = Interface::named(name).with_context(about)?;
        let features = interface.features().unwrap_or_default();
        let is_on = |kernel_name: &str| {
            features.iter().find(|(name, _)| name == kernel_name).map(|&(_, is_on)| is_on)
        };
        Ok(Self {
            name: name.to_owned(),
            driver: interface.driver().ok().filter(|driver| !driver.is_empty()),
            mtu: interface.mtu().with_context(about)?,
            offloads: OFFLOADS
                .iter()
                .filter_map(|&(kernel_name, name)| Some((name.to_owned(), is_on(kernel_name)?)))
                .collect(),
        })
    }

    /// All interfaces of this machine, in the namespace the process is in.
    pub fn all() -> Vec<Self> {
        let table = fs::read_to_string("/proc/net/dev").unwrap_or_default();
        interface_names(&table).filter_map(|name| Self::of(name).ok()).collect()
    }

    /// One line for people.
    pub fn line(&self) -> String {
        let driver = self.driver.as_deref().unwrap_or("none");
        let offloads: Vec<_> = self
            .offloads
            .iter()
            .map(|(name, is_on)| format!("{name} {}", if *is_on { "on" } else { "off" }))
            .collect();
        let offloads = if offloads.is_empty() { "unknown".into() } else { offloads.join(", ") };
        format!("interface {}, driver {driver}, MTU {}, offloads: {offloads}", self.name, self.mtu)
    }
}

/// An address of this machine by which others can reach it, where no default route says which.
pub fn address_for_others() -> Option<IpAddr> {
    let addresses = sys::addresses();
    let mut v4 = addresses.iter().map(|&(_, ip)| ip).filter(|ip| ip.is_ipv4());
    v4.find(|ip| !ip.is_loopback())
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

fn cpu_model(cpuinfo: &str) -> Option<String> {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// /proc/net/dev: two lines of headings, then `name: counters`.
fn interface_names(table: &str) -> impl Iterator<Item = &str> {
    table.lines().skip(2).filter_map(|line| Some(line.split_once(':')?.0.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_facts() {
        let machine = Machine::here();
        assert!(machine.cores > 0 && !machine.kernel.is_empty());
        assert!(machine.lines()[0].contains(&machine.kernel));
    }

    #[test]
    fn loopback_can_be_asked() {
        let facts = InterfaceFacts::of("lo").unwrap();
        assert!(facts.mtu >= 1500, "{facts:?}");
        assert!(InterfaceFacts::of("nosuch0").is_err());
        assert!(InterfaceFacts::of("a name that is far too long").is_err());
    }

    #[test]
    fn names_and_models_are_found() {
        let table = "Inter-| Receive\n face |bytes\n    lo: 1 2\n  eth0: 3 4\n";
        assert_eq!(interface_names(table).collect::<Vec<_>>(), ["lo", "eth0"]);
        let model = cpu_model("processor : 0\nmodel name\t: Some CPU @ 3 GHz\n");
        assert_eq!(model.as_deref(), Some("Some CPU @ 3 GHz"));
    }
}
