//! MPI libraries as they are, over Packhorse: what is started, where, and the proof of how its bytes went.
//!
//! ```text
//! library      the MPIs: the system's, and those of PyPI below target/mpi
//! hosts        two network namespaces that MPIs take for hosts
//! launch       a library's launcher on one host or two, over Packhorse (by `packhorse run`, as users have it) or libfabric's TCP
//! smoke        our own program, every byte verified           suite   mpi4py's own tests
//! life         programs interrupted, killed, stopped          passive   targets that call nothing
//! conformance  all of it, with a result file                  portals   mpi4py over Open MPI's mtl/portals4, beside its TCP
//! ```
//!
//! No run counts that did not leave the counters of as many endpoints as it had ranks, with its bytes on the link that was asked for: an
//! MPI that fell back to something else fails.

pub(crate) mod conformance;
pub(crate) mod hosts;
mod launch;
pub(crate) mod library;
pub(crate) mod life;
pub(crate) mod passive;
pub(crate) mod portals;
mod smoke;
pub(crate) mod suite;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use crate::install::target;
use crate::steps::{cargo, run};
pub(crate) use smoke::{one_host, two_hosts, wheels};

/// Builds program and provider for use, and puts them where `launch` finds them.
pub(crate) fn build() -> Result<()> {
    run(cargo("build --release --quiet --package packhorse-cli --package packhorse-fi"))?;
    let built = target().join("release");
    lay_out(&built.join("packhorse"), &built.join("libpackhorse_fi.so"))
}

/// Puts a program and a provider where `launch` finds them, and the program the provider: as an installation has them.
pub(crate) fn lay_out(packhorse: &Path, provider: &Path) -> Result<()> {
    for (from, to) in [(packhorse, installed_program()), (provider, installed_provider())] {
        let folder = to.parent().context("no place at all")?;
        fs::create_dir_all(folder)?;
        fs::copy(from, &to)
            .with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))?;
    }
    Ok(())
}

fn installed_program() -> PathBuf {
    folder().join("installed/bin/packhorse")
}

fn installed_provider() -> PathBuf {
    folder().join("installed/lib/libfabric/libpackhorse-fi.so")
}

/// Where MPIs and what they leave lie.
fn folder() -> PathBuf {
    target().join("mpi")
}

/// What the endpoints of one run leave behind.
struct Counters(PathBuf);

impl Counters {
    /// An empty folder for them.
    fn new() -> Result<Self> {
        let folder = folder().join(format!("counters-{}", std::process::id()));
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir_all(&folder)?;
        Ok(Self(folder))
    }

    /// For `PACKHORSE_COUNTERS`.
    fn prefix(&self) -> PathBuf {
        self.0.join("of")
    }

    /// The bytes that came in over a kind of links, and over all, where each rank left counters.
    fn proof(&self, kind: &str, rank_count: usize) -> Result<(u64, u64)> {
        let (mut by_kind, mut by_all, mut count) = (0, 0, 0);
        for file in fs::read_dir(&self.0)? {
            let json = fs::read_to_string(file?.path())?;
            by_kind += bytes_in(&json, kind);
            by_all += bytes_in(&json, "");
            count += usize::from(bytes_in(&json, "") > 0);
        }
        ensure!(count >= rank_count, "{count} of {rank_count} ranks used Packhorse");
        // On one host the first messages go by UDP, until the ranks have found their memory. Those to oneself go by no link.
        ensure!(
            by_kind > by_all / 4,
            "only {by_kind} of {by_all} bytes came over {kind}, the link that was asked for"
        );
        Ok((by_kind, by_all))
    }
}

impl Drop for Counters {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0); // of no use to anybody else
    }
}

/// The bytes that came in over links of a kind, in what one process left.
fn bytes_in(json: &str, kind: &str) -> u64 {
    let pairs = json.trim_matches(['{', '}']).split(',').filter_map(|pair| pair.split_once(':'));
    let wanted = pairs.filter(|(name, _)| {
        let name = name.trim_matches('"');
        name.starts_with(kind) && name.ends_with("_bytes_in")
    });
    wanted.filter_map(|(_, value)| value.parse::<u64>().ok()).sum()
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().context("a path that is not text")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_found_by_the_kind_of_their_link() {
        let json = "{\"udp0_bytes_in\":7,\"shm1_bytes_in\":900,\"shm1_bytes_out\":5}";
        assert_eq!((bytes_in(json, "shm"), bytes_in(json, "")), (900, 907));
    }
}
