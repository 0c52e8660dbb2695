//! A library's launcher on one host or two, with the way its messages are to take.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use super::hosts::{Hosts, INTERFACE};
use super::library::Library;
use super::{Counters, folder, installed_program};
use crate::steps::command;

/// What carries the messages.
#[derive(Clone, Copy)]
pub(super) enum Way {
    /// `packhorse run`, as users have it, with these links; and the kind of link that the bytes must be found on.
    Packhorse { links: &'static str, kind: &'static str, faults: Option<&'static str> },
    /// libfabric's own provider for TCP: what fails there, too, is not ours.
    FabricTcp,
    /// Open MPI's `mtl/portals4`, over our `libportals`, and the kind of link that the bytes must be found on.
    Portals { kind: &'static str },
    /// Open MPI's own TCP.
    OwnTcp,
}

const OWN_TCP: [(&str, &str); 2] = [("OMPI_MCA_pml", "ob1"), ("OMPI_MCA_btl", "tcp,self")];

/// One start of a program.
#[derive(Clone, Copy)]
pub(super) struct Launch<'a> {
    pub(super) library: &'a Library,
    pub(super) rank_count: usize,
    /// Half of the ranks on each, if there are any.
    pub(super) hosts: Option<&'a Hosts>,
    pub(super) way: Way,
}

/// Ranks on one host, over all links there are: shared memory, as soon as they have met.
pub(super) fn over_memory(library: &Library, rank_count: usize) -> Launch<'_> {
    let way = Way::Packhorse { links: "auto", kind: "shm", faults: None };
    Launch { library, rank_count, hosts: None, way }
}

/// The end of a run: what it said, and, over Packhorse, how many bytes came by the link that was asked for, and by all.
pub(super) struct Ended {
    pub(super) said: String,
    pub(super) bytes: (u64, u64),
}

impl Launch<'_> {
    /// Runs a program to its end, with the proof of its way; `add` says which program, and where.
    pub(super) fn run(&self, patience_s: usize, add: impl FnOnce(&mut Command)) -> Result<Ended> {
        let counters = Counters::new()?;
        let mut run = command("timeout", ["-k", "5", &patience_s.to_string()]);
        if let Some(hosts) = self.hosts {
            hosts.enter(&mut run);
        }
        self.choose(&mut run)?;
        run.arg(self.library.launcher());
        self.place(&mut run);
        self.library.tell(&mut run);
        run.env("PACKHORSE_COUNTERS", counters.prefix());
        add(&mut run);
        let said = said_by(run).context(self.library.name)?;
        let bytes = match self.way {
            Way::Packhorse { kind, .. } | Way::Portals { kind } => {
                counters.proof(kind, self.rank_count)?
            }
            Way::FabricTcp | Way::OwnTcp => (0, 0),
        };
        Ok(Ended { said, bytes })
    }

    fn choose(&self, run: &mut Command) -> Result<()> {
        match self.way {
            Way::Packhorse { links, faults, .. } => {
                run.arg(installed_program()).arg("run");
                run.env("PACKHORSE_LINK", links);
                run.envs(faults.map(|faults| ("PACKHORSE_FAULTS", faults)));
            }
            Way::FabricTcp => {
                run.arg("env").env("FI_PROVIDER", "tcp");
                for (name, value) in [
                    ("OMPI_MCA_pml", "cm"),
                    ("OMPI_MCA_mtl", "ofi"),
                    ("OMPI_MCA_mtl_ofi_provider_include", "tcp"),
                    ("OMPI_MCA_opal_common_ofi_provider_include", "tcp"),
                    ("MPIR_CVAR_CH4_NETMOD", "ofi"),
                    ("MPIR_CVAR_NOLOCAL", "1"),
                    ("I_MPI_FABRICS", "ofi"),
                ] {
                    run.env(name, value);
                }
            }
            Way::Portals { .. } => {
                run.arg("env").env("OMPI_MCA_pml", "cm").env("OMPI_MCA_mtl", "portals4");
                let interface = if self.hosts.is_some() { INTERFACE } else { "lo" };
                run.env("PTL_IFACE_NAME", interface);
            }
            Way::OwnTcp => _ = run.arg("env").envs(OWN_TCP),
        }
        Ok(())
    }

    fn place(&self, run: &mut Command) {
        match (self.hosts.is_some(), self.library.is_open_mpi) {
            (true, true) => Hosts::tell_open_mpi(run, self.rank_count),
            (true, false) => Hosts::tell_hydra(run, self.rank_count),
            (false, true) => {
                run.arg("--oversubscribe");
            }
            (false, false) => {}
        }
        run.args(["-n", &self.rank_count.to_string()]);
    }
}

/// Stands before the test at which a suite ended that did not come to its end, in what is said of a failure.
pub(super) const ENDED_IN: &str = "it did not come further than test";

/// A run that says nothing for so long hangs. Suites tell of each test, and the longest of those take a minute where ranks are more than
/// cores; machines that do something else for a while take part of it.
const SILENCE_MAX: Duration = Duration::from_secs(180);
/// So often it is said how far a run is.
const TELL_EVERY: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// What a run says, on both streams; if it fails, the end of it, and of what is above that the names of tests.
fn said_by(mut run: Command) -> Result<String> {
    let path = folder().join(format!("said-{}", std::process::id()));
    let file = File::create(&path).with_context(|| format!("{} is made", path.display()))?;
    run.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
    let mut child = run.spawn().context("it could not be started")?;
    let ended = watch(&mut child, &path);
    let said = String::from_utf8_lossy(&fs::read(&path)?).into_owned();
    fs::remove_file(&path)?;
    let (status, is_silent) = ended?;
    if status.success() {
        return Ok(said);
    }
    let hint = match (is_silent, status.code()) {
        (true, _) => format!(" (it said nothing for {} s)", SILENCE_MAX.as_secs()),
        (false, Some(124)) => " (time was up)".to_owned(),
        (false, _) => String::new(),
    };
    bail!("it ended with {status}{hint}:\n{}", what_matters(&said))
}

/// Waits for the end of a run, or makes an end of one that hangs; how it ended, and whether so.
fn watch(child: &mut Child, said: &Path) -> Result<(ExitStatus, bool)> {
    let (mut said_len, mut heard_at, mut told_at) = (0, Instant::now(), Instant::now());
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok((status, false));
        }
        thread::sleep(LOOK_EVERY);
        let now = Instant::now();
        let len = fs::metadata(said)?.len();
        if len != said_len {
            (said_len, heard_at) = (len, now);
        }
        if now - told_at > TELL_EVERY {
            let said = String::from_utf8_lossy(&fs::read(said)?).into_owned();
            let place = last_test(&said).unwrap_or_else(|| "still at work".to_owned());
            println!("      {place}, {} tests ended", said.matches("... ok").count());
            told_at = now;
        }
        if now - heard_at > SILENCE_MAX {
            // `timeout`, which passes it on to all it started.
            command("kill", ["-TERM", &child.id().to_string()]).status()?;
            return Ok((child.wait()?, true));
        }
    }
}

/// The test that was named last.
fn last_test(said: &str) -> Option<String> {
    let (_, last) = said.lines().rev().find_map(|line| line.rsplit_once("(test_"))?;
    Some(format!("test_{}", last.split(')').next().unwrap_or(last)))
}

fn what_matters(said: &str) -> String {
    const SHOWN_COUNT: usize = 60;
    let lines: Vec<&str> = said.lines().collect();
    let (above, end) = lines.split_at(lines.len().saturating_sub(SHOWN_COUNT));
    let is_name = |line: &&&str| {
        ["FAIL: test", "ERROR: test", "... FAIL", "... ERROR"]
            .iter()
            .any(|mark| line.contains(mark))
    };
    let mut shown: Vec<&str> = above.iter().filter(is_name).copied().collect();
    shown.extend(end);
    let mut shown = shown.join("\n");
    let is_at_its_end = lines.iter().any(|line| line.contains("Ran "));
    if let (false, Some(name)) = (is_at_its_end, last_test(said)) {
        shown = format!("{shown}\n{ENDED_IN} ({name})");
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_what_a_failed_run_said_names_and_the_end_stay() {
        let noise = "line\n".repeat(100);
        let ended = format!("ERROR: testA (test_a.A.testA)\n{noise}Ran 3 tests in 1s\n");
        let shown = what_matters(&ended);
        assert!(shown.starts_with("ERROR: testA (test_a.A.testA)\nline"), "{shown}");
        assert_eq!(shown.lines().count(), 61);
    }

    #[test]
    fn a_suite_without_an_end_is_said_where_it_stopped() {
        let cut = "testA (test_a.A.testA) ... ok\ntestB (test_b.B.testB) ... ";
        assert!(what_matters(cut).ends_with(&format!("{ENDED_IN} (test_b.B.testB)")));
        assert_eq!(what_matters("no suite at all"), "no suite at all");
    }
}
