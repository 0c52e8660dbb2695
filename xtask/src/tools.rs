//! What a step needs from the machine: is it here, and how does one get it?

use std::process::{Command, Stdio};

use anyhow::{Result, bail};

use crate::steps::{command, run};

/// Something that may be missing.
pub(crate) struct Tool {
    /// What it is called.
    pub(crate) name: &'static str,
    /// A command that succeeds where it is installed.
    probe: &'static [&'static str],
    /// How a person gets it.
    pub(crate) remedy: &'static str,
}

/// Counts instructions.
pub(crate) const VALGRIND: Tool = Tool {
    name: "valgrind",
    probe: &["valgrind", "--version"],
    remedy: "apt-get install valgrind",
};
/// Reads captures, with our dissector.
pub(crate) const TSHARK: Tool =
    Tool { name: "tshark", probe: &["tshark", "--version"], remedy: "apt-get install tshark" };
/// Open MPI with its compiler, and the libfabric its plug-ins are linked to.
pub(crate) const OPEN_MPI: Tool = Tool {
    name: "Open MPI",
    probe: &["sh", "-c", "mpicc --version && mpirun --version"],
    remedy: "apt-get install openmpi-bin libopenmpi-dev",
};
/// The same, with the right to make hosts of namespaces.
pub(crate) const TWO_HOSTS_MPI: Tool = Tool {
    name: "Open MPI, or the right to make network namespaces,",
    probe: &["sh", "-c", "mpicc --version && mpirun --version && unshare --net --uts ip link"],
    remedy: "sudo, and apt-get install openmpi-bin libopenmpi-dev iproute2",
};
/// The same, with Python for mpi4py.
pub(crate) const PYTHON_MPI: Tool = Tool {
    name: "Open MPI, or Python with venv,",
    probe: &[
        "sh",
        "-c",
        "mpicc --version && mpirun --version && python3 -c 'import ensurepip, venv'",
    ],
    remedy: "apt-get install openmpi-bin libopenmpi-dev python3-venv",
};
/// Network namespaces can be made, and looked into, for tests between two hosts.
pub(crate) const NAMESPACES: Tool = Tool {
    name: "ip, ethtool, or the right to make network namespaces,",
    probe: &["sh", "-c", "ethtool --version && unshare --net ip link"],
    remedy: "sudo, and apt-get install iproute2 ethtool",
};
/// A quicker test runner, which mutation testing uses where it is installed.
pub(crate) const NEXTEST: Tool = Tool {
    name: "cargo-nextest",
    probe: &["cargo", "nextest", "--version"],
    remedy: "cargo install --locked cargo-nextest",
};
/// What tests make and ask interfaces with.
pub(crate) const INTERFACE_TOOLS: Tool = Tool {
    name: "ip or ethtool",
    probe: &["sh", "-c", "ip -Version && ethtool --version"],
    remedy: "apt-get install iproute2 ethtool",
};
/// Builds and runs fuzz targets.
pub(crate) const CARGO_FUZZ: Tool = Tool {
    name: "cargo-fuzz",
    probe: &["cargo", "fuzz", "--version"],
    remedy: "cargo install --locked cargo-fuzz",
};
/// The compiler that can instrument fuzz targets, and sanitize.
pub(crate) const NIGHTLY: Tool = Tool {
    name: "the nightly toolchain",
    probe: &["rustc", "+nightly", "--version"],
    remedy: "rustup toolchain install nightly --profile minimal",
};
/// What the thread sanitizer needs to build the standard library for itself.
pub(crate) const NIGHTLY_SOURCES: Tool = Tool {
    name: "the standard library's source for nightly, which the thread sanitizer needs,",
    probe: &["sh", "-c", "test -e $(rustc +nightly --print sysroot)/lib/rustlib/src/rust/library"],
    remedy: "rustup component add rust-src --toolchain nightly",
};
/// Line coverage.
pub(crate) const TARPAULIN: Tool = Tool {
    name: "cargo-tarpaulin",
    probe: &["cargo", "tarpaulin", "--version"],
    remedy: "cargo install --locked cargo-tarpaulin",
};
/// Mutation testing.
pub(crate) const MUTANTS: Tool = Tool {
    name: "cargo-mutants",
    probe: &["cargo", "mutants", "--version"],
    remedy: "cargo install --locked cargo-mutants",
};

impl Tool {
    /// Whether it is installed.
    pub(crate) fn is_here(&self) -> bool {
        let mut probe = Command::new(self.probe[0]);
        // Cargo tells its children which toolchain they run under; a probe of another one must not inherit that.
        probe.args(&self.probe[1..]).env_remove("RUSTUP_TOOLCHAIN");
        probe.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        probe.status().is_ok_and(|status| status.success())
    }

    /// What a report says of its absence.
    pub(crate) fn absence(&self) -> String {
        format!("{} is not here (get it with `{}`)", self.name, self.remedy)
    }
}

/// Fails with everything that is missing, not only the first.
pub(crate) fn require(tools: &[&Tool]) -> Result<()> {
    let missing: Vec<String> =
        tools.iter().filter(|tool| !tool.is_here()).map(|tool| tool.absence()).collect();
    if missing.is_empty() { Ok(()) } else { bail!("{}", missing.join("; ")) }
}

/// Installs what `rustup` can: its remedy is the command.
pub(crate) fn install_by_rustup(tool: &Tool) -> Result<()> {
    println!("      installing: {}", tool.remedy);
    let mut words = tool.remedy.split_whitespace();
    let program = words.next().unwrap_or_default();
    run(command(program, words))
}

/// Installs packages of the system by name, saying so first.
pub(crate) fn install_packages(names: &[&str]) -> Result<()> {
    let packages = names.join(" ");
    println!("      installing packages of the system: {packages}");
    if Command::new("apt-get").arg("--version").output().is_err() {
        bail!(
            "{packages}: missing, and this system has no apt-get; install them by hand and run this again"
        );
    }
    let prefix: &[&str] = if is_root() { &[] } else { &["sudo", "-n"] };
    let install = format!("apt-get -q install -y --no-install-recommends {packages}");
    for words in ["apt-get -q update", &install] {
        let mut line: Vec<&str> = prefix.to_vec();
        line.extend(words.split_whitespace());
        let mut step = command(line[0], line[1..].iter().copied());
        step.env("DEBIAN_FRONTEND", "noninteractive");
        if let Err(error) = run(step) {
            bail!(
                "{packages}: missing, and installing needs root (or sudo without a password) and a network: {error}"
            );
        }
    }
    Ok(())
}

fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}
