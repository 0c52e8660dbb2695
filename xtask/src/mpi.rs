//! MPI libraries as they come from the distribution, over Packhorse.
//!
//! The provider is built, a small program (`faces/ofi/tests/mpi/smoke.c`) compiled with the MPI's own compiler, and run under its own `mpirun`.
//! It verifies its bytes and says how many each rank received; the counters that each rank's endpoint leaves behind
//! must account for them, on the link that was asked for. So an MPI that fell back to something else fails here.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};

use crate::steps::{cargo, command, output, root, run};

/// Seconds after which a run hangs.
const PATIENCE_S: &str = "120";

/// A folder with the provider under the name libfabric looks for, and what the runs leave.
struct Stage {
    folder: PathBuf,
}

/// Two and four ranks on one host, over each link that needs no rights.
pub(crate) fn smoke() -> Result<()> {
    let stage = Stage::build()?;
    for (links, kind, ranks) in [("auto", "shm", 2), ("auto", "shm", 4), ("udp", "udp", 2)] {
        stage.run(links, kind, ranks).with_context(|| format!("{ranks} ranks over {links}"))?;
    }
    Ok(())
}

impl Stage {
    fn build() -> Result<Self> {
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

    fn program(&self) -> PathBuf {
        self.folder.join("smoke")
    }

    /// Runs the program and compares what it says with what was counted.
    fn run(&self, links: &str, kind: &str, rank_count: usize) -> Result<()> {
        let counters = self.folder.join("counters");
        fs::remove_dir_all(&counters).or_else(|error| match error.kind() {
            std::io::ErrorKind::NotFound => Ok(()),
            _ => Err(error),
        })?;
        fs::create_dir_all(&counters)?;
        let count = rank_count.to_string();
        let mut mpirun = command("timeout", [PATIENCE_S, "mpirun", "-n", &count]);
        mpirun.args(["--allow-run-as-root", "--oversubscribe", "--mca", "pml", "cm"]);
        mpirun.args(["--mca", "mtl", "ofi", "--mca", "mtl_ofi_provider_include", "packhorse"]);
        mpirun.arg(self.program());
        mpirun.env("FI_PROVIDER_PATH", self.folder.join("providers"));
        mpirun.env("PACKHORSE_LINK", links);
        mpirun.env("PACKHORSE_COUNTERS", counters.join("of"));
        let said = output(mpirun)?;
        let received = received_in(&said);
        ensure!(received.len() == rank_count, "not every rank came to its end:\n{said}");
        let counted = bytes_in(&counters, kind)?;
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

/// The bytes that came in over links of a kind, for each endpoint that left its counters.
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
