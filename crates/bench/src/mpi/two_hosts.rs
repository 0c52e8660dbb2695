//! Two hosts for an MPI launcher on one machine: each with network and host name of its own, reached by an agent.
//!
//! ```text
//!  mpirun, started in ph-near                 agent ph-far COMMAND, in place of ssh
//!      │                                          │
//!  ┌───▼──── 10.77.0.1 ──── ph0 ═══ veth ═══ ph0 ─▼── 10.77.0.2 ───┐
//! ```
//!
//! The host name counts: an MPI takes ranks on hosts of one name for neighbours that share memory. A process that only waits
//! holds each host; it ends when this one does, however that comes about, and the host with it.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use crate::hosts::{self, End, INTERFACE};

/// Joins a holder's namespaces of users: only where it has one of its own.
const AS_USER: [&str; 2] = ["--user", "--preserve-credentials"];

/// Gives what follows a /sys of the network it is in: UCX, which MPICH uses by itself, finds interfaces there. Where that is not
/// allowed, only UCX is worse off.
const WITH_OWN_SYS: &str = "mount -t sysfs sysfs /sys 2> /dev/null";
/// The kernel says that a wire is up with a delay of up to a second, and UCX does not take one that is not.
const CARRIER_PATIENCE: Duration = Duration::from_secs(3);

/// A process that is a host for as long as it lives.
struct Holder {
    child: Child,
    is_user: bool,
}

impl Holder {
    /// Makes a host of this name, in the user namespace of another one if there is any.
    fn start(name: &str, beside: Option<&Self>) -> Result<Self> {
        let is_user = !hosts::is_root();
        let mut words: Vec<String> = Vec::new();
        if let Some(other) = beside.filter(|other| other.is_user) {
            words.extend(["nsenter".into(), format!("--target={}", other.child.id())]);
            words.extend(AS_USER.map(str::to_owned));
        }
        words.extend(["unshare", "--net", "--uts"].map(str::to_owned));
        if is_user && beside.is_none() {
            words.push("--map-root-user".into());
        }
        // `cat` ends when the pipe does, that is, with this process.
        let script = format!(
            "echo {name} > /proc/sys/kernel/hostname && echo ready && exec cat > /dev/null"
        );
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).args(["sh", "-c", &script]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("cannot start {}", words[0]))?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("no pipe")?).read_line(&mut line)?;
        if line.trim() != "ready" {
            let _ = child.kill();
            let said = child.wait_with_output()?;
            bail!(
                "--two-hosts needs network namespaces, and the system does not allow them here ({}). \
                 Run it with sudo, or leave --two-hosts out",
                String::from_utf8_lossy(&said.stderr).trim()
            );
        }
        Ok(Self { child, is_user })
    }

    /// A command on this host.
    fn command(&self) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--target={}", self.child.id())).args(["--net", "--uts"]);
        if self.is_user {
            command.args(AS_USER);
        }
        command
    }

    fn ip(&self, words: &str) -> Result<String> {
        let mut command = self.command();
        let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
        command.arg("ip").args(words.split_whitespace()).env("PATH", path).stdin(Stdio::null());
        let output =
            command.output().context("cannot run nsenter; it is in the package util-linux")?;
        if !output.status.success() {
            bail!("`ip {words}`: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Waits until the wire is said to be up, not for long.
    fn await_carrier(&self) -> Result<()> {
        let began = Instant::now();
        while began.elapsed() < CARRIER_PATIENCE
            && !self.ip(&format!("link show {INTERFACE}"))?.contains("state UP")
        {
            thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Both, joined.
pub(super) struct TwoHosts {
    near: Holder,
    /// Held for as long as the other.
    _far: Holder,
    agent: PathBuf,
}

impl TwoHosts {
    /// Makes both and the wire between them; the agent goes into this folder.
    pub(super) fn new(folder: &Path, mtu: usize) -> Result<Self> {
        let near = Holder::start("ph-near", None)?;
        let far = Holder::start("ph-far", Some(&near))?;
        let far_id = far.child.id();
        near.ip(&format!(
            "link add {INTERFACE} mtu {mtu} type veth peer name {INTERFACE} mtu {mtu} netns {far_id}"
        ))?;
        for (host, end) in [(&near, End::Near), (&far, End::Far)] {
            host.ip(&format!("address add {}/24 dev {INTERFACE}", hosts::address(end)))?;
            host.ip("link set lo up")?;
            host.ip(&format!("link set {INTERFACE} up"))?;
        }
        near.await_carrier()?;
        far.await_carrier()?;
        let agent = folder.join("agent");
        let ids =
            [(hosts::address(End::Near), near.child.id()), (hosts::address(End::Far), far_id)];
        fs::write(&agent, agent_text(ids)).context("cannot write the launch agent")?;
        fs::set_permissions(&agent, fs::Permissions::from_mode(0o755))?;
        Ok(Self { near, _far: far, agent })
    }

    /// A command on the first of the two.
    pub(super) fn command(&self) -> Command {
        let mut command = self.near.command();
        let script = format!("{WITH_OWN_SYS}; exec \"$@\"");
        command.args(["unshare", "--mount", "sh", "-c", &script, "sh"]);
        command
    }

    /// What starts processes on either of them, called as ssh is.
    pub(super) fn agent(&self) -> &Path {
        &self.agent
    }
}

/// Options that launchers give to ssh do not matter here.
fn agent_text(ids: [(IpAddr, u32); 2]) -> String {
    let [(near, near_id), (far, far_id)] = ids;
    format!(
        "#!/bin/sh\nwhile [ \"${{1#-}}\" != \"$1\" ]; do shift; done\nhost=$1; shift\n\
         case $host in\n{near}) id={near_id};;\n{far}) id={far_id};;\n\
         *) echo \"there is no host $host\" >&2; exit 1;;\nesac\n\
         exec nsenter --target=$id --net --uts unshare --mount sh -c '{WITH_OWN_SYS}; exec sh -c \"$1\"' sh \"$*\"\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agent_is_called_as_ssh_is() {
        let folder = std::env::temp_dir().join(format!("packhorse-agent-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("agent");
        let text = agent_text([([10, 77, 0, 1].into(), 11), ([10, 77, 0, 2].into(), 22)]);
        // What it would become is shown instead.
        fs::write(&path, text.replace("exec nsenter", "echo")).unwrap();
        let run = |words: &[&str]| {
            let output = Command::new("sh").arg(&path).args(words).output().unwrap();
            String::from_utf8(output.stdout).unwrap() + &String::from_utf8_lossy(&output.stderr)
        };
        assert!(
            run(&["-x", "10.77.0.2", "orted", "-a b"])
                .contains("--target=22 --net --uts unshare --mount sh -c ")
        );
        assert!(run(&["10.77.0.2", "orted", "-a b"]).trim().ends_with("sh orted -a b"));
        assert!(run(&["10.77.0.1", "hydra"]).contains("--target=11"));
        assert!(run(&["elsewhere", "hydra"]).contains("there is no host elsewhere"));
        fs::remove_dir_all(folder).unwrap();
    }
}
