//! Two hosts on one machine: two network namespaces and a wire (veth) between them, leaving no trace.
//!
//! ```text
//!  process A, 10.77.0.1 ──── ph0 ═══ veth ═══ ph0 ──── process B, 10.77.0.2
//!  (made A's namespace)                               (made B's namespace)
//! ```
//!
//! A namespace without a name lives as long as a process in it, and a wire as long as both its ends. The two processes
//! die with their parent, so nothing remains even when everything is killed at once. Root just does it; others do it
//! in a user namespace of their own where the system allows that.

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::AsFd;
use std::process::{self, Command};
use std::str::FromStr;

use anyhow::{Context, Result, anyhow, bail};
use serde::{Deserialize, Serialize};

use crate::rival::sys;

/// The interface's name, the same in both namespaces.
pub const INTERFACE: &str = "ph0";

/// What segmentation and merging are called by the kernel (`ethtool -k` shows some under older names).
const OFFLOADS: &[&str] = &[
    "tx-generic-segmentation",
    "tx-tcp-segmentation",
    "tx-tcp6-segmentation",
    "tx-tcp-ecn-segmentation",
    "tx-tcp-mangleid-segmentation",
    "tx-udp-segmentation",
    "tx-gso-list",
    "rx-gro",
    "rx-gro-list",
    "rx-udp-gro-forwarding",
];

/// One of the two ends of the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// The active side's.
    Near,
    /// The passive side's.
    Far,
}

/// What one process is to do for its end.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Wiring {
    /// Whose end this is.
    pub end: End,
    /// Of the wire.
    pub mtu: usize,
    /// Whether to switch segmentation and merging off.
    pub no_offload: bool,
    /// The process that is to hold the other end, if this one is to make the wire.
    pub other: Option<u32>,
}

/// Where a process stands in the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stand {
    /// Where it was started.
    Here,
    /// In a network namespace of its own.
    Apart,
    /// In a network namespace and a user namespace of its own: for those without rights.
    ApartAsUser,
    /// In a network namespace of its own, in the user namespace of this process.
    ApartWith(u32),
}

impl fmt::Display for Stand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Here => f.write_str("here"),
            Self::Apart => f.write_str("apart"),
            Self::ApartAsUser => f.write_str("apart-as-user"),
            Self::ApartWith(pid) => write!(f, "{pid}"),
        }
    }
}

impl FromStr for Stand {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "here" => Ok(Self::Here),
            "apart" => Ok(Self::Apart),
            "apart-as-user" => Ok(Self::ApartAsUser),
            pid => pid.parse().map(Self::ApartWith).map_err(|_| format!("no stand {pid:?}")),
        }
    }
}

/// Whether this process may make namespaces without more ado.
pub fn is_root() -> bool {
    sys::user_and_group().0 == 0
}

/// Address of one end.
pub fn address(end: End) -> IpAddr {
    match end {
        End::Near => Ipv4Addr::new(10, 77, 0, 1).into(),
        End::Far => Ipv4Addr::new(10, 77, 0, 2).into(),
    }
}

/// Takes this process to its stand. Must come before any thread is started.
pub fn stand(stand: Stand) -> Result<()> {
    match stand {
        Stand::Here => Ok(()),
        Stand::Apart => sys::unshare_network(false).map_err(refused),
        Stand::ApartAsUser => {
            let (user, group) = sys::user_and_group();
            sys::unshare_network(true).map_err(refused)?;
            // Root inside is the user outside; groups must be given up before they can be mapped.
            let maps = [
                ("/proc/self/setgroups", "deny".to_owned()),
                ("/proc/self/uid_map", format!("0 {user} 1")),
                ("/proc/self/gid_map", format!("0 {group} 1")),
            ];
            for (path, text) in maps {
                fs::write(path, text).map_err(refused)?;
            }
            Ok(())
        }
        Stand::ApartWith(pid) => {
            let path = format!("/proc/{pid}/ns/user");
            let namespace = File::open(&path).with_context(|| format!("cannot open {path}"))?;
            sys::join_user_namespace(namespace.as_fd()).map_err(refused)?;
            sys::unshare_network(false).map_err(refused)
        }
    }
}

fn refused(error: io::Error) -> anyhow::Error {
    anyhow!(
        "--two-hosts needs network namespaces, and the system does not allow them here ({error}).\n\
         What to do: run it with sudo; or allow user namespaces without rights (sysctl \
         user.max_user_namespaces > 0, kernel.unprivileged_userns_clone=1, \
         kernel.apparmor_restrict_unprivileged_userns=0; in a container, --privileged); \
         or leave --two-hosts out and measure over loopback."
    )
}

/// Makes the wire if it is this end's turn, and gets this end ready.
pub fn wire(wiring: &Wiring) -> Result<()> {
    let mtu = wiring.mtu.to_string();
    if let Some(other) = wiring.other {
        let other = other.to_string();
        ip(&[
            "link", "add", INTERFACE, "mtu", &mtu, "type", "veth", "peer", "name", INTERFACE,
            "mtu", &mtu, "netns", &other,
        ])?;
    }
    let address = format!("{}/24", address(wiring.end));
    ip(&["address", "add", &address, "dev", INTERFACE])?;
    if wiring.no_offload {
        let interface = sys::Interface::named(INTERFACE)?;
        interface.switch_off(OFFLOADS).context("cannot switch the interface's offloads off")?;
    }
    ip(&["link", "set", "lo", "up"])?;
    ip(&["link", "set", INTERFACE, "up"])
}

fn ip(args: &[&str]) -> Result<()> {
    // `ip` is in sbin on some systems, where a user's PATH does not look.
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    let output =
        Command::new("ip").args(args).env("PATH", path).stdin(process::Stdio::null()).output();
    let output = match output {
        Ok(output) => output,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            bail!("--two-hosts needs the program `ip`; install it (apt-get install iproute2)")
        }
        Err(error) => return Err(error).context("cannot run `ip`"),
    };
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        bail!("`ip {}`: {}", args.join(" "), words.trim());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stands_are_read_as_they_are_written() {
        for stand in [Stand::Here, Stand::Apart, Stand::ApartAsUser, Stand::ApartWith(77)] {
            assert_eq!(stand.to_string().parse(), Ok(stand));
        }
        assert!("nowhere".parse::<Stand>().is_err());
    }

    #[test]
    fn refusal_says_what_to_do() {
        let text = refused(io::Error::from_raw_os_error(1)).to_string();
        assert!(text.contains("What to do") && text.contains("sudo"), "{text}");
    }
}
