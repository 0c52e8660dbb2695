//! Which MPI a launcher belongs to, read from its answer to `--version`.
//!
//! | the answer holds | printed by |
//! | --- | --- |
//! | `(Open MPI) 4.1.4` | Open MPI's launcher under the names `mpirun` (all versions) and `mpiexec` (5) |
//! | `(OpenRTE) 4.1.4` | the launcher of Open MPI before 5 under any other name: `mpiexec`, `orterun`, `mpirun.openmpi`, `mpirun.real` |
//! | `(PRRTE) 3.0.14` | `prterun`, what starts the programs of Open MPI 5 and later; the version is its own |
//! | `HYDRA build details:` | MPICH, and what is made of it |
//! | `invalid mpiexec argument --version` | MPICH's `mpiexec.gforker`, which has no such option |
//! | `Intel(R) MPI Library` | Intel MPI |
//!
//! Everything else (`slurm 23.02`, `IBM Spectrum MPI`, …) is nobody's as far as we know.

use anyhow::{Result, bail};

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

    /// Reads the answer to `--version`: `None` if it is nobody's we know, an error if it is that of an MPI that cannot use libfabric.
    pub(super) fn of_answer(answer: &str) -> Result<Option<Self>> {
        if answer.contains("Intel(R) MPI") {
            return Ok(Some(Self::Intel));
        }
        if answer.contains("HYDRA build details") {
            return mpich_of(answer).map(Some);
        }
        if answer.contains("invalid mpiexec argument --version") {
            return Ok(Some(Self::Mpich));
        }
        let major = |name| answer.split(name).nth(1).and_then(leading_number);
        if let Some(major) = major("(Open MPI) ").or_else(|| major("(OpenRTE) ")) {
            return Ok(Some(if major < 5 { Self::OpenMpi4 } else { Self::OpenMpi }));
        }
        Ok(answer.contains("(PRRTE) ").then_some(Self::OpenMpi))
    }
}

/// `4` of `4.1.4`.
fn leading_number(text: &str) -> Option<u32> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text[..end].parse().ok()
}

/// Which network layers an MPICH has is settled when it is built. Hydra knows, being built with it.
fn mpich_of(answer: &str) -> Result<Family> {
    let device = answer.split("--with-device=").nth(1).map(|rest| {
        let end = rest.find(|c: char| c.is_whitespace() || c == '\'').unwrap_or(rest.len());
        &rest[..end]
    });
    match device.unwrap_or_else(|| usual_device(answer)) {
        device if device.starts_with("ch4") && !has_libfabric(device) => bail!(
            "this MPICH was built for UCX only ({device}), as Debian's and Ubuntu's are, and cannot load any libfabric \
             provider. Use another MPI: Open MPI (apt-get install openmpi-bin), or MPICH from PyPI (pip install mpich)"
        ),
        device if device.starts_with("ch3") => bail!(
            "this MPICH was built with {device}, which knows nothing of libfabric. Use one built with ch4:ofi \
             (pip install mpich)"
        ),
        _ => Ok(Family::Mpich),
    }
}

/// The device of an MPICH whose builder chose none: `ch3` until 3.3, and `ch4` since.
fn usual_device(answer: &str) -> &'static str {
    let version = answer.split("Version:").nth(1).unwrap_or_default().trim_start();
    let minor = version.split_once('.').and_then(|(_, rest)| leading_number(rest));
    match (leading_number(version), minor) {
        (Some(..3), _) | (Some(3), Some(..4)) => "ch3",
        _ => "ch4",
    }
}

/// `ch4` alone means libfabric, too.
fn has_libfabric(device: &str) -> bool {
    device.split_once(':').is_none_or(|(_, layers)| layers.split(',').any(|layer| layer == "ofi"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYDRA: &str =
        "HYDRA build details:\n    Version:                5.0.2\n    Configure options: ";

    #[test]
    fn launchers_are_told_apart_by_their_answers() {
        let report = "\n\nReport bugs to http://www.open-mpi.org/community/help/\n";
        let cases = [
            ("mpirun (Open MPI) 4.1.4", Some(Family::OpenMpi4)),
            ("mpirun (Open MPI) 5.0.11", Some(Family::OpenMpi)),
            ("mpiexec (Open MPI) 10.0.0rc1", Some(Family::OpenMpi)),
            ("mpiexec (OpenRTE) 4.1.4", Some(Family::OpenMpi4)),
            ("orterun (OpenRTE) 4.1.4", Some(Family::OpenMpi4)),
            ("mpirun.openmpi (OpenRTE) 4.1.4", Some(Family::OpenMpi4)),
            ("mpirun.real (OpenRTE) 4.0.3", Some(Family::OpenMpi4)),
            ("prterun (PRRTE) 3.0.14", Some(Family::OpenMpi)),
            ("Loading openmpi/5.0.3\nmpirun (Open MPI) 5.0.3", Some(Family::OpenMpi)),
            (
                "Intel(R) MPI Library for Linux* OS, Version 2021.18.1 Build 2026",
                Some(Family::Intel),
            ),
            ("invalid mpiexec argument --version\nUsage: mpiexec -usize <n>", Some(Family::Mpich)),
            ("slurm 23.02.7", None),
            ("mpirun (IBM Spectrum MPI) 10.4.0.6", None),
            ("mpiexec version 1.2.12 revision 8b6e1b8", None),
            ("mpirun (Open MPI) ", None),
            ("", None),
        ];
        for (answer, family) in cases {
            let found = Family::of_answer(&format!("{answer}{report}")).unwrap();
            assert_eq!(found, family, "{answer}");
        }
    }

    #[test]
    fn mpich_counts_where_it_has_libfabric() {
        for options in ["--with-device=ch4:ucx,ofi --with-pm=hydra", "'--with-device=ch4:ofi'", ""]
        {
            let found = Family::of_answer(&format!("{HYDRA}{options}")).unwrap();
            assert_eq!(found, Some(Family::Mpich), "{options}");
        }
        let refused = |answer: &str| Family::of_answer(answer).unwrap_err().to_string();
        let debian = refused(&format!("{HYDRA}'--with-hwloc' '--with-device=ch4:ucx' 'FFLAGS='"));
        assert!(
            debian.contains("UCX only (ch4:ucx)") && debian.contains("pip install mpich"),
            "{debian}"
        );
        let named = refused(&format!("{HYDRA}--with-device=ch3:nemesis"));
        assert!(named.contains("ch3:nemesis") && named.contains("ch4:ofi"), "{named}");
    }

    #[test]
    fn an_old_mpich_has_an_old_device() {
        let answer = |version: &str| format!("HYDRA build details:\n    Version:      {version}\n");
        for version in ["3.3.2", "3.0.4", "1.5"] {
            let text = Family::of_answer(&answer(version)).unwrap_err().to_string();
            assert!(text.contains("ch4:ofi"), "{version}: {text}");
        }
        for version in ["3.4.3", "4.0", "5.0.2"] {
            let found = Family::of_answer(&answer(version)).unwrap();
            assert_eq!(found, Some(Family::Mpich), "{version}");
        }
    }
}
