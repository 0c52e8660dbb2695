//! MPI libraries as they come from the distribution, over Packhorse.
//!
//! The provider is built, a small program (`faces/ofi/tests/mpi/smoke.c`) compiled with the MPI's own compiler, and run under its own `mpirun`: on
//! one host, and on two that are network namespaces. It verifies its bytes and says how many each rank received; the counters that
//! each rank's endpoint leaves behind must account for them, on the link that was asked for. So an MPI that fell back to
//! something else fails here.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};

use crate::steps::{cargo, command, output, root, run};

/// Seconds after which a run hangs.
const PATIENCE_S: &str = "120";

/// A folder with the provider under the name libfabric looks for, and what the runs leave.
pub(crate) struct Stage {
    folder: PathBuf,
}

/// Two and four ranks on one host, over each link that needs no rights.
pub(crate) fn smoke() -> Result<()> {
    smoke_with(&Stage::build()?)
}

/// The same where everything is built already.
pub(crate) fn smoke_with(stage: &Stage) -> Result<()> {
    for (links, kind, ranks) in [("auto", "shm", 2), ("auto", "shm", 4), ("udp", "udp", 2)] {
        let mpirun = command("mpirun", ["-n", &ranks.to_string(), "--oversubscribe"]);
        let done = stage.run(mpirun, links, kind, ranks);
        done.with_context(|| format!("{ranks} ranks over {links}"))?;
    }
    Ok(())
}

/// One rank on each of two hosts, over UDP and raw Ethernet.
pub(crate) fn two_hosts() -> Result<()> {
    let stage = Stage::build()?;
    let hosts = Hosts::new()?;
    for (links, kind) in [("udp", "udp"), ("packet:v0", "packet")] {
        let done = stage.run(hosts.mpirun(), links, kind, 2);
        done.with_context(|| format!("two hosts over {links}"))?;
    }
    Ok(())
}

/// Two network namespaces joined by a wire; gone when dropped, also by a failing test.
struct Hosts {
    names: [String; 2],
}

const ADDRESSES: [&str; 2] = ["10.96.0.1", "10.96.0.2"];

impl Hosts {
    fn new() -> Result<Self> {
        let stem = format!("phm{}", std::process::id());
        let hosts = Self { names: [format!("{stem}a"), format!("{stem}b")] };
        let [a, b] = &hosts.names;
        let ip = |words: String| run(command("ip", words.split_whitespace()));
        ip(format!("netns add {a}"))?;
        ip(format!("netns add {b}"))?;
        ip(format!("-n {a} link add v0 type veth peer name v0 netns {b}"))?;
        for (name, address) in hosts.names.iter().zip(ADDRESSES) {
            ip(format!("-n {name} address add {address}/24 dev v0"))?;
            ip(format!("-n {name} link set v0 up"))?;
            ip(format!("-n {name} link set lo up"))?;
        }
        std::thread::sleep(std::time::Duration::from_millis(300)); // until both have carriers
        Ok(hosts)
    }

    /// An `mpirun` that lives on the first host and reaches the second by our agent.
    fn mpirun(&self) -> Command {
        let [a, b] = &self.names;
        let mut mpirun = command("ip", ["netns", "exec", a, "unshare", "--uts", "sh", "-c"]);
        mpirun.args(["hostname \"$1\" && shift && exec mpirun \"$@\"", "sh", a]);
        let agent = root().join("tools/mpi-agent.sh");
        mpirun.args(["-n", "2", "--mca", "plm_rsh_agent"]).arg(agent);
        mpirun.args(["--mca", "oob_tcp_if_include", "v0", "--host"]);
        mpirun.arg(format!("{}:1,{}:1", ADDRESSES[0], ADDRESSES[1]));
        mpirun.args(["-x", "FI_PROVIDER_PATH", "-x", "PACKHORSE_LINK", "-x", "PACKHORSE_COUNTERS"]);
        let hosts = format!("{}={a} {}={b}", ADDRESSES[0], ADDRESSES[1]);
        mpirun.env("MPI_AGENT_HOSTS", hosts);
        mpirun
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

impl Stage {
    pub(crate) fn build() -> Result<Self> {
        run(cargo("build --release --quiet --package packhorse-fi"))?;
        let target =
            std::env::var_os("CARGO_TARGET_DIR").map_or(root().join("target"), PathBuf::from);
        let folder = target.join("mpi");
        fs::create_dir_all(folder.join("providers"))?;
        let object = folder.join("providers/libpackhorse-fi.so");
        fs::copy(target.join("release/libpackhorse_fi.so"), object)?;
        let stage = Self { folder };
        let program = stage.program();
        run(command(
            "mpicc",
            ["-O2", "-Wall", "-o", text(&program)?, "faces/ofi/tests/mpi/smoke.c"],
        ))?;
        Ok(stage)
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn providers(&self) -> PathBuf {
        self.folder.join("providers")
    }

    fn program(&self) -> PathBuf {
        self.folder.join("smoke")
    }

    /// Runs the program and compares what it says with what was counted.
    fn run(&self, launcher: Command, links: &str, kind: &str, rank_count: usize) -> Result<()> {
        let counters = Counters::new(self)?;
        let mut mpirun = command("timeout", [PATIENCE_S]);
        mpirun.arg(launcher.get_program()).args(launcher.get_args()).arg(self.program());
        mpirun.envs(launcher.get_envs().filter_map(|(name, value)| Some((name, value?))));
        for (name, value) in
            [("pml", "cm"), ("mtl", "ofi"), ("mtl_ofi_provider_include", "packhorse")]
        {
            mpirun.env(format!("OMPI_MCA_{name}"), value);
        }
        mpirun.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        mpirun.env("FI_PROVIDER_PATH", self.providers());
        mpirun.env("PACKHORSE_LINK", links);
        mpirun.env("PACKHORSE_COUNTERS", counters.prefix());
        let said = output(mpirun)?;
        let received = received_in(&said);
        ensure!(received.len() == rank_count, "not every rank came to its end:\n{said}");
        let counted = counters.bytes_in(kind)?;
        ensure!(
            counted.len() == rank_count,
            "{} of {rank_count} ranks used Packhorse",
            counted.len()
        );
        let (received, counted) = (received.iter().sum::<u64>(), counted.iter().sum::<u64>());
        ensure!(
            counted >= received,
            "{received} bytes were received, but only {counted} came over {kind}"
        );
        println!(
            "      {rank_count} ranks, {links}: {received} bytes received, {counted} over {kind}"
        );
        Ok(())
    }
}

/// What each rank that came to its end says it received from others.
pub(crate) fn received_in(said: &str) -> Vec<u64> {
    let number = |line: &str| line.strip_prefix("rank ")?.split("received ").nth(1)?.parse().ok();
    said.lines().filter_map(number).collect()
}

/// What the endpoints of one run leave behind.
pub(crate) struct Counters(PathBuf);

impl Counters {
    /// An empty folder for them.
    pub(crate) fn new(stage: &Stage) -> Result<Self> {
        let folder = stage.folder.join("counters");
        fs::remove_dir_all(&folder).or_else(|error| match error.kind() {
            std::io::ErrorKind::NotFound => Ok(()),
            _ => Err(error),
        })?;
        fs::create_dir_all(&folder)?;
        Ok(Self(folder))
    }

    /// For `PACKHORSE_COUNTERS`.
    pub(crate) fn prefix(&self) -> PathBuf {
        self.0.join("of")
    }

    /// The bytes that came in over links of a kind, for each endpoint that left its counters.
    pub(crate) fn bytes_in(&self, kind: &str) -> Result<Vec<u64>> {
        bytes_in(&self.0, kind)
    }
}

/// The bytes that came in over links of a kind, for each endpoint that left its counters in a folder.
pub(crate) fn bytes_in(folder: &Path, kind: &str) -> Result<Vec<u64>> {
    let mut all: Vec<u64> = Vec::new();
    for file in fs::read_dir(folder)? {
        let json = fs::read_to_string(file?.path())?;
        let pairs = json.trim_matches(['{', '}']).split(',');
        let bytes = pairs.filter_map(|pair| {
            let (name, value) = pair.split_once(':')?;
            let name = name.trim_matches('"');
            let is_it = name.starts_with(kind) && name.ends_with("_bytes_in");
            if is_it { value.parse::<u64>().ok() } else { None }
        });
        all.push(bytes.sum());
    }
    if all.is_empty() {
        bail!("no endpoint left its counters: the MPI did not use Packhorse");
    }
    Ok(all)
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().context("a path that is not text")
}
