//! Two network namespaces joined by a wire, which MPIs take for hosts.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::steps::{command, output, root, run};

/// What the wire's ends are called.
pub(super) const INTERFACE: &str = "v0";
const ADDRESSES: [&str; 2] = ["10.96.0.1", "10.96.0.2"];

/// A rule of routing by which no datagram leaves.
const NO_UDP: &str = "ipproto udp prohibit";
/// The kernel says once a second whether a wire is up.
const CARRIER_PATIENCE: Duration = Duration::from_secs(10);

/// Waits until the wire's end there is said to be up: some MPIs use no other.
fn await_carrier(name: &str) -> Result<()> {
    let began = Instant::now();
    while began.elapsed() < CARRIER_PATIENCE {
        let words = ["-n", name, "link", "show", INTERFACE];
        if output(command("ip", words))?.contains("state UP") {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    bail!("{INTERFACE} in the namespace {name} is not up after {} s", CARRIER_PATIENCE.as_secs())
}

/// Both; gone when dropped, also by a failing test.
pub(crate) struct Hosts {
    names: [String; 2],
}

impl Hosts {
    pub(crate) fn new() -> Result<Self> {
        let stem = format!("phm{}", std::process::id());
        let hosts = Self { names: [format!("{stem}a"), format!("{stem}b")] };
        let [a, b] = &hosts.names;
        let ip = |words: String| run(command("ip", words.split_whitespace()));
        ip(format!("netns add {a}"))?;
        ip(format!("netns add {b}"))?;
        ip(format!("-n {a} link add {INTERFACE} type veth peer name {INTERFACE} netns {b}"))?;
        for (name, address) in hosts.names.iter().zip(ADDRESSES) {
            ip(format!("-n {name} address add {address}/24 dev {INTERFACE}"))?;
            ip(format!("-n {name} link set {INTERFACE} up"))?;
            ip(format!("-n {name} link set lo up"))?;
        }
        hosts.names.iter().try_for_each(|name| await_carrier(name))?;
        Ok(hosts)
    }

    /// Lets UDP pass between the two, or refuses it: what is said to go by TCP alone must.
    pub(super) fn let_udp_pass(&self, may_pass: bool) -> Result<()> {
        for name in &self.names {
            let ip = |words: &str| command("ip", words.split_whitespace());
            let is_blocked = output(ip(&format!("-n {name} rule show")))?.contains(NO_UDP);
            let change = match (may_pass, is_blocked) {
                (true, true) => "del",
                (false, false) => "add",
                _ => continue,
            };
            run(ip(&format!("-n {name} rule {change} pref 100 {NO_UDP}")))?;
        }
        Ok(())
    }

    /// Lets what follows run on the first host, under a name of its own.
    pub(crate) fn enter(&self, command: &mut Command) {
        let [a, b] = &self.names;
        command.args(["ip", "netns", "exec", a, "unshare", "--uts", "sh", "-c"]);
        command.args(["hostname \"$1\" && shift && exec \"$@\"", "sh", a]);
        command.env("MPI_AGENT_HOSTS", format!("{}={a} {}={b}", ADDRESSES[0], ADDRESSES[1]));
    }

    /// Tells Open MPI how so many ranks are shared by the two, and who takes it there. Ranks of both hosts would be bound to the same
    /// first core, since it takes them for two machines: nothing is bound.
    pub(super) fn tell_open_mpi(command: &mut Command, rank_count: usize) {
        let agent = root().join("tools/mpi-agent.sh");
        // One name for its own runtime before version 5, another since.
        command.env("OMPI_MCA_plm_rsh_agent", &agent).env("PRTE_MCA_plm_ssh_agent", agent);
        let (near, far) = (rank_count.div_ceil(2), rank_count / 2);
        let list = format!("{}:{near},{}:{far}", ADDRESSES[0], ADDRESSES[1]);
        command.args(["--bind-to", "none", "--host", &list]);
    }

    /// The same for Open MPI 1.8, in which a host has as many places as times it is named.
    pub(crate) fn tell_old_open_mpi(command: &mut Command, rank_count: usize) {
        command.env("OMPI_MCA_plm_rsh_agent", root().join("tools/mpi-agent.sh"));
        let near = std::iter::repeat_n(ADDRESSES[0], rank_count.div_ceil(2));
        let all: Vec<_> = near.chain(std::iter::repeat_n(ADDRESSES[1], rank_count / 2)).collect();
        command.args(["--host", &all.join(",")]);
    }

    /// The same for Hydra, which MPICH and Intel MPI share.
    pub(super) fn tell_hydra(command: &mut Command, rank_count: usize) {
        command.args(["-launcher", "ssh", "-launcher-exec"]);
        command.arg(root().join("tools/mpi-agent.sh"));
        command.args(["-iface", INTERFACE, "-hosts", &ADDRESSES.join(",")]);
        command.args(["-ppn", &rank_count.div_ceil(2).to_string()]);
        command.env("I_MPI_PIN", "0");
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for name in &self.names {
            // One that was never made cannot be removed; there is nothing to do about it.
            let _ = command("ip", ["netns", "del", name]).output();
        }
    }
}
