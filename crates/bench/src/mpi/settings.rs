//! What each MPI has to be told so that its messages go over Packhorse, and how that reaches the ranks on other hosts.
//!
//! | | is told | carried to other hosts |
//! | --- | --- | --- |
//! | all | where providers are, which one to use | |
//! | Open MPI | to use libfabric for all messages (`cm` with `ofi`); which provider; windows without UCX; short sends that complete with the post (4.1) | `-x`, but for `OMPI_MCA_…`, which goes by itself |
//! | MPICH | to use libfabric, and not UCX; short sends that complete with the post | `-genv` |
//! | Intel MPI | which provider; no shared memory of its own; short sends that complete with the post | `-genv` |
//!
//! One variable that another MPI reads does no harm, so where nobody knows which MPI it will be, all are set; but not those of our own
//! that make up for what one MPI does, and would change what the others get (`FOR_ONE_MPI`).

use std::ffi::OsString;
use std::path::Path;

use super::Family;

/// The provider's name.
const NAME: &str = "packhorse";

/// Beginnings of the variables that ranks on other hosts need as well: ours, and libfabric's.
const OURS: [&str; 2] = ["PACKHORSE_", "FI_"];

/// What only one MPI is to have, as lines of shell that do nothing: for users who know which one theirs is where we do not.
const FOR_ONE_MPI: &str = "\
# Which MPI it will be is not known. Open MPI 5 also needs:  export FI_PACKHORSE_RMA=any
# (windows between hosts), and all others are quicker with:  export FI_PACKHORSE_COMPLETE=post
";

/// How ranks on one host reach each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Locally {
    /// Through Packhorse, like all others.
    #[default]
    Packhorse,
    /// Through the shared memory of the MPI itself, where it has one beside libfabric.
    Own,
}

/// Variables, and the words of a command line that carry them.
#[derive(Clone, Debug)]
pub struct Settings {
    family: Option<Family>,
    variables: Vec<(&'static str, OsString)>,
}

impl Settings {
    /// For one MPI, or for all.
    pub fn new(family: Option<Family>, providers: &Path, locally: Locally) -> Self {
        let mut settings = Self { family, variables: Vec::new() };
        settings
            .set("FI_PROVIDER_PATH", search_path(providers, std::env::var_os("FI_PROVIDER_PATH")));
        settings.set("FI_PROVIDER", NAME);
        // What the provider has to complain of is said, and nothing else: the core's own remarks (that it does not know a
        // provider of this name before it has loaded any) are no complaint.
        settings.set_unless_there("FI_LOG_LEVEL", "warn");
        settings.set_unless_there("FI_LOG_PROV", NAME);
        settings.set_unless_there("FI_LOG_SUBSYS", "^core");
        let families = match family {
            Some(family) => vec![family],
            None => vec![Family::OpenMpi4, Family::OpenMpi, Family::Mpich, Family::Intel],
        };
        for family in families {
            settings.add_family(family, locally);
        }
        settings
    }

    fn add_family(&mut self, family: Family, locally: Locally) {
        let is_all = locally == Locally::Packhorse;
        match family {
            // Debian switches the layer off in its own file of settings; the environment is above that.
            Family::OpenMpi4 | Family::OpenMpi => {
                self.set("OMPI_MCA_pml", "cm");
                self.set("OMPI_MCA_mtl", "ofi");
                let list = match family {
                    Family::OpenMpi4 => "OMPI_MCA_mtl_ofi_provider_include",
                    _ => "OMPI_MCA_opal_common_ofi_provider_include",
                };
                self.set(list, NAME);
                if self.family == Some(Family::OpenMpi) {
                    // Windows between hosts go by btl/ofi, where the target does not know who comes.
                    self.set_unless_there("FI_PACKHORSE_RMA", "any");
                }
                if family == Family::OpenMpi4 {
                    // It sends without `fi_inject` what nobody waits for at once, and then waits for each to be accepted.
                    self.complete_with_post();
                }
                // Debian's 4.1 switches off the only windows that work between hosts over messages. (Those over one-sided operations,
                // btl/ofi, take a second to end.) And 5 complains of windows over UCX where it has no UCX to use.
                self.set_unless_there("OMPI_MCA_osc", "^ucx");
            }
            Family::Mpich => {
                self.set("MPIR_CVAR_CH4_NETMOD", "ofi");
                if is_all {
                    self.set("MPIR_CVAR_NOLOCAL", "1");
                }
                // Its windows need the level of delivery, so it made that the default of messages as well.
                self.complete_with_post();
            }
            Family::Intel => {
                self.set("I_MPI_OFI_PROVIDER", NAME);
                self.set("I_MPI_FABRICS", if is_all { "ofi" } else { "shm:ofi" });
                self.complete_with_post(); // as MPICH, of which it is made
            }
        }
    }

    /// Short sends are over when they are copied, if it is known that the MPI is one that does not rely on more.
    fn complete_with_post(&mut self) {
        if self.family.is_some() {
            self.set_unless_there("FI_PACKHORSE_COMPLETE", "post");
        }
    }

    fn set(&mut self, name: &'static str, value: impl Into<OsString>) {
        if !self.variables.iter().any(|(there, _)| *there == name) {
            self.variables.push((name, value.into()));
        }
    }

    fn set_unless_there(&mut self, name: &'static str, value: &str) {
        if std::env::var_os(name).is_none() {
            self.set(name, value);
        }
    }

    /// The variables, in an order a reader follows.
    pub fn variables(&self) -> &[(&'static str, OsString)] {
        &self.variables
    }

    /// What is left to the user, as comments of a shell.
    pub fn left_to_user(&self) -> &'static str {
        if self.family.is_none() { FOR_ONE_MPI } else { "" }
    }

    /// Words for the launcher, before all others, that carry the variables to other hosts; with them, those of ours and of
    /// libfabric that the user has set.
    pub fn carrying(&self) -> Vec<OsString> {
        let users = std::env::vars_os().filter(|(name, _)| is_ours(name)).collect::<Vec<_>>();
        self.carrying_with(&users)
    }

    fn carrying_with(&self, users: &[(OsString, OsString)]) -> Vec<OsString> {
        let Some(family) = self.family else { return Vec::new() };
        let made = self.variables.iter().map(|(name, value)| (OsString::from(name), value.clone()));
        let mut all: Vec<(OsString, OsString)> = made.collect();
        for (name, value) in users {
            if !all.iter().any(|(there, _)| there == name) {
                all.push((name.clone(), value.clone()));
            }
        }
        let mut words = Vec::new();
        for (name, value) in all {
            if !family.is_open_mpi() {
                words.extend(["-genv".into(), name, value]);
            } else if is_ours(&name) {
                words.extend(["-x".into(), name]);
            }
        }
        words
    }
}

fn is_ours(name: &std::ffi::OsStr) -> bool {
    name.to_str().is_some_and(|name| OURS.iter().any(|beginning| name.starts_with(beginning)))
}

/// Ours first, and what the user has after it: a list replaces the folder that libfabric knows by itself.
fn search_path(ours: &Path, users: Option<OsString>) -> OsString {
    let mut path = ours.as_os_str().to_owned();
    let users = users.filter(|users| !users.is_empty());
    for folder in users.iter().flat_map(std::env::split_paths).filter(|folder| folder != ours) {
        path.push(":");
        path.push(folder);
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value<'a>(settings: &'a Settings, name: &str) -> Option<&'a str> {
        let variable = settings.variables().iter().find(|(there, _)| *there == name)?;
        variable.1.to_str()
    }

    fn words(settings: &Settings, users: &[(&str, &str)]) -> String {
        let users: Vec<_> =
            users.iter().map(|&(name, value)| (name.into(), value.into())).collect();
        let words = settings.carrying_with(&users);
        words.iter().map(|word| word.to_str().unwrap()).collect::<Vec<_>>().join(" ")
    }

    fn settings(family: impl Into<Option<Family>>, locally: Locally) -> Settings {
        Settings::new(family.into(), Path::new("/opt/lib"), locally)
    }

    #[test]
    fn each_mpi_hears_in_its_own_words() {
        let debian = settings(Family::OpenMpi4, Locally::Packhorse);
        assert_eq!(value(&debian, "OMPI_MCA_pml"), Some("cm"));
        assert_eq!(value(&debian, "OMPI_MCA_mtl_ofi_provider_include"), Some(NAME));
        assert_eq!(value(&debian, "OMPI_MCA_osc"), Some("^ucx"));
        let newer = settings(Family::OpenMpi, Locally::Packhorse);
        assert_eq!(value(&newer, "OMPI_MCA_opal_common_ofi_provider_include"), Some(NAME));
        assert_eq!(value(&newer, "FI_PACKHORSE_RMA"), Some("any"));
        assert_eq!(value(&newer, "OMPI_MCA_osc"), Some("^ucx"));
        assert_eq!(value(&debian, "FI_PACKHORSE_RMA"), None);
        assert_eq!(value(&debian, "FI_PACKHORSE_COMPLETE"), Some("post"));
        assert_eq!(value(&newer, "FI_PACKHORSE_COMPLETE"), None);
        assert_eq!(debian.left_to_user(), "");
        assert_eq!(value(&newer, "MPIR_CVAR_CH4_NETMOD"), None);
        let mpich = settings(Family::Mpich, Locally::Packhorse);
        assert_eq!(value(&mpich, "MPIR_CVAR_CH4_NETMOD"), Some("ofi"));
        assert_eq!(value(&mpich, "MPIR_CVAR_NOLOCAL"), Some("1"));
        assert_eq!(value(&mpich, "FI_PACKHORSE_COMPLETE"), Some("post"));
        let intel = settings(Family::Intel, Locally::Packhorse);
        assert_eq!(value(&intel, "I_MPI_FABRICS"), Some("ofi"));
        assert_eq!(value(&intel, "FI_PACKHORSE_COMPLETE"), Some("post"));
    }

    #[test]
    fn own_shared_memory_stays_where_it_is_wished() {
        assert_eq!(value(&settings(Family::Mpich, Locally::Own), "MPIR_CVAR_NOLOCAL"), None);
        assert_eq!(value(&settings(Family::Intel, Locally::Own), "I_MPI_FABRICS"), Some("shm:ofi"));
    }

    #[test]
    fn where_nobody_knows_the_mpi_all_are_told_and_nothing_is_carried() {
        let all = settings(None, Locally::Packhorse);
        for name in ["OMPI_MCA_mtl", "MPIR_CVAR_CH4_NETMOD", "I_MPI_OFI_PROVIDER", "FI_PROVIDER"] {
            assert!(value(&all, name).is_some(), "{name}");
        }
        for name in ["FI_PACKHORSE_RMA", "FI_PACKHORSE_COMPLETE"] {
            assert_eq!(value(&all, name), None);
            assert!(all.left_to_user().contains(name), "{name}");
        }
        assert_eq!(words(&all, &[("PACKHORSE_LINK", "udp")]), "");
    }

    #[test]
    fn variables_reach_other_hosts() {
        let open_mpi =
            words(&settings(Family::OpenMpi4, Locally::Packhorse), &[("PACKHORSE_LINK", "udp")]);
        assert!(open_mpi.contains("-x FI_PROVIDER_PATH -x FI_PROVIDER"), "{open_mpi}");
        assert!(
            open_mpi.ends_with("-x PACKHORSE_LINK") && !open_mpi.contains("OMPI_"),
            "{open_mpi}"
        );
        let mpich =
            words(&settings(Family::Mpich, Locally::Packhorse), &[("PACKHORSE_LINK", "udp")]);
        assert!(mpich.starts_with("-genv FI_PROVIDER_PATH /opt/lib"), "{mpich}");
        assert!(mpich.contains("-genv MPIR_CVAR_CH4_NETMOD ofi"), "{mpich}");
        assert!(mpich.ends_with("-genv PACKHORSE_LINK udp"), "{mpich}");
    }

    #[test]
    fn folders_of_the_user_stay_behind_ours() {
        let path = |users: &str| search_path(Path::new("/a"), Some(users.into()));
        assert_eq!(path("/b:/a:/c"), "/a:/b:/c");
        assert_eq!(path(""), "/a");
    }
}
