//! Who is compared: an MPI over Packhorse, and the same MPI over what it has otherwise.

use std::ffi::OsString;
use std::path::Path;

use anyhow::Result;

use super::{Family, Launcher, Locally, Settings, find_provider};

/// What carries an MPI's messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Packhorse, by these links.
    Packhorse(String),
    /// Open MPI's own TCP.
    OwnTcp,
    /// Open MPI's own shared memory; on one host only.
    OwnShm,
    /// What MPICH and Intel MPI take by themselves; between two hosts without tricks that only work because they are one.
    Usual,
    /// libfabric's own provider for TCP.
    FabricTcp,
}

/// An MPI with its way.
#[derive(Clone, Debug)]
pub(super) struct Contender {
    /// As in the rows: `openmpi-packhorse`, `mpich-usual`, …
    pub(super) name: String,
    /// What starts it.
    pub(super) launcher: Launcher,
    /// What carries its messages.
    pub(super) way: Way,
    /// What else it is told.
    pub(super) settings: Vec<(&'static str, &'static str)>,
}

/// Who moves Packhorse's messages: a helper too, or only the threads that call.
pub(super) const PLACEMENTS: [&str; 2] = ["thread", "inline"];

impl Contender {
    /// All that one launcher's MPI can be measured with here.
    pub(super) fn all_of(launcher: &Launcher, links: &[String], is_two_hosts: bool) -> Vec<Self> {
        let Some(family) = launcher.family else { return Vec::new() };
        let mut ways: Vec<Way> = links.iter().cloned().map(Way::Packhorse).collect();
        match (family.is_open_mpi(), is_two_hosts) {
            (true, true) => ways.push(Way::OwnTcp),
            (true, false) => ways.extend([Way::OwnTcp, Way::OwnShm]),
            (false, _) => ways.push(Way::Usual),
        }
        if family != Family::Intel {
            ways.push(Way::FabricTcp); // Intel's libfabric has it as what it takes by itself
        }
        let named = |way| {
            let (name, launcher, settings) = (name_of(family, &way), launcher.clone(), Vec::new());
            Self { name, launcher, way, settings }
        };
        ways.into_iter().map(named).collect()
    }

    /// Over Packhorse: once with each placement, which its name says.
    pub(super) fn placed(&self) -> Vec<Self> {
        let with = |placement: &'static str| {
            let mut one = Self { name: format!("{}-{placement}", self.name), ..self.clone() };
            one.settings.push(("PACKHORSE_PLACEMENT", placement));
            one
        };
        PLACEMENTS.map(with).to_vec()
    }

    /// What it is divided by: the same MPI without anybody's help.
    pub(super) fn base_of(name: &str) -> Option<String> {
        let (mpi, _) = name.split_once('-')?;
        Some(format!("{mpi}-{}", if mpi.starts_with("openmpi") { "tcp" } else { "usual" }))
    }

    /// The variables it needs.
    pub(super) fn variables(
        &self,
        provider: Option<&Path>,
        is_two_hosts: bool,
    ) -> Result<Vec<(String, OsString)>> {
        let mut all = self.variables_of_way(provider, is_two_hosts)?;
        let more = self.settings.iter();
        all.extend(more.map(|&(name, value)| (name.to_owned(), value.into())));
        Ok(all)
    }

    fn variables_of_way(
        &self,
        provider: Option<&Path>,
        is_two_hosts: bool,
    ) -> Result<Vec<(String, OsString)>> {
        let family = self.launcher.family;
        let plain: &[(&str, &str)] = match (&self.way, family) {
            (Way::Packhorse(links), _) => {
                let provider = find_provider(provider)?;
                let settings = Settings::new(family, provider.folder(), Locally::Packhorse);
                let made = settings.variables().iter();
                let mut all: Vec<(String, OsString)> =
                    made.map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
                all.push(("PACKHORSE_LINK".into(), links.into()));
                return Ok(all);
            }
            (Way::OwnTcp, _) => &[("OMPI_MCA_pml", "ob1"), ("OMPI_MCA_btl", "tcp,self")],
            (Way::OwnShm, Some(Family::OpenMpi4)) => {
                &[("OMPI_MCA_pml", "ob1"), ("OMPI_MCA_btl", "vader,self")]
            }
            (Way::OwnShm, _) => &[("OMPI_MCA_pml", "ob1"), ("OMPI_MCA_btl", "sm,self")],
            // UCX sees that both hosts are one machine, and would go through its memory.
            (Way::Usual, Some(Family::Mpich)) if is_two_hosts => &[("UCX_TLS", "tcp,self")],
            (Way::Usual, _) => &[],
            (Way::FabricTcp, Some(Family::OpenMpi4)) => &[
                ("OMPI_MCA_pml", "cm"),
                ("OMPI_MCA_mtl", "ofi"),
                ("OMPI_MCA_mtl_ofi_provider_include", "tcp"),
            ],
            (Way::FabricTcp, Some(Family::OpenMpi)) => &[
                ("OMPI_MCA_pml", "cm"),
                ("OMPI_MCA_mtl", "ofi"),
                ("OMPI_MCA_opal_common_ofi_provider_include", "tcp"),
            ],
            (Way::FabricTcp, _) => &[
                ("FI_PROVIDER", "tcp"),
                ("MPIR_CVAR_CH4_NETMOD", "ofi"),
                ("MPIR_CVAR_NOLOCAL", "1"),
            ],
        };
        Ok(plain.iter().map(|&(name, value)| (name.to_owned(), value.into())).collect())
    }
}

fn name_of(family: Family, way: &Way) -> String {
    let mpi = match family {
        Family::OpenMpi4 => "openmpi4",
        Family::OpenMpi => "openmpi",
        Family::Mpich => "mpich",
        Family::Intel => "intel",
    };
    let way = match way {
        Way::Packhorse(links) if links == "auto" => "packhorse".to_owned(),
        Way::Packhorse(links) => format!("packhorse-{}", links.replace([',', ':'], "-")),
        Way::OwnTcp => "tcp".to_owned(),
        Way::OwnShm => "shm".to_owned(),
        Way::Usual => "usual".to_owned(),
        Way::FabricTcp => "ofi-tcp".to_owned(),
    };
    format!("{mpi}-{way}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(family: Family, is_two_hosts: bool) -> Vec<String> {
        let launcher = Launcher { program: "mpirun".into(), family: Some(family) };
        let links = ["auto", "udp:lo"].map(str::to_owned);
        let all = Contender::all_of(&launcher, &links, is_two_hosts);
        all.into_iter().map(|contender| contender.name).collect()
    }

    #[test]
    fn every_mpi_meets_its_own_transports() {
        assert_eq!(
            names(Family::OpenMpi4, false),
            [
                "openmpi4-packhorse",
                "openmpi4-packhorse-udp-lo",
                "openmpi4-tcp",
                "openmpi4-shm",
                "openmpi4-ofi-tcp"
            ]
        );
        assert!(!names(Family::OpenMpi, true).contains(&"openmpi-shm".to_owned()));
        assert_eq!(
            names(Family::Intel, true),
            ["intel-packhorse", "intel-packhorse-udp-lo", "intel-usual"]
        );
        assert!(names(Family::Mpich, true).contains(&"mpich-ofi-tcp".to_owned()));
    }

    #[test]
    fn each_is_divided_by_its_own_mpi() {
        assert_eq!(Contender::base_of("openmpi4-packhorse-udp").as_deref(), Some("openmpi4-tcp"));
        assert_eq!(Contender::base_of("mpich-ofi-tcp").as_deref(), Some("mpich-usual"));
    }

    #[test]
    fn open_mpis_shared_memory_was_called_otherwise() {
        for (family, btl) in [(Family::OpenMpi4, "vader,self"), (Family::OpenMpi, "sm,self")] {
            let launcher = Launcher { program: "mpirun".into(), family: Some(family) };
            let (name, settings) = (String::new(), Vec::new());
            let contender = Contender { name, launcher, way: Way::OwnShm, settings };
            let variables = contender.variables(None, false).unwrap();
            assert!(variables.contains(&("OMPI_MCA_btl".into(), btl.into())), "{variables:?}");
        }
    }
}
