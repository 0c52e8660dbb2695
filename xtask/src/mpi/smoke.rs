//! Our own program (`faces/ofi/tests/mpi/smoke.c`) on each MPI: it verifies its bytes and says how many each rank received, and the
//! counters must account for them.

use anyhow::{Context as _, Result, ensure};

use super::hosts::Hosts;
use super::launch::{Launch, Way, over_memory};
use super::library::{SYSTEM, WHEELS};

const PROGRAM: &str = "faces/ofi/tests/mpi/smoke.c";
/// Seconds after which a run hangs.
const PATIENCE_S: usize = 120;
/// One frame of a hundred is lost, two are overtaken.
pub(super) const FAULTS: &str = "loss=10000,reorder=20000";

/// Runs it; a line that says how it went.
pub(super) fn run(launch: &Launch) -> Result<String> {
    let program = launch.library.compile(PROGRAM)?;
    let ended = launch.run(PATIENCE_S, |run| {
        run.arg(&program);
    })?;
    let received = received_in(&ended.said);
    ensure!(received.len() == launch.rank_count, "not every rank came to its end:\n{}", ended.said);
    let received: u64 = received.iter().sum();
    let (by_kind, by_all) = ended.bytes;
    if let Way::Packhorse { kind, .. } = launch.way {
        ensure!(!ended.said.contains("libfabric:"), "not silent though it works:\n{}", ended.said);
        ensure!(
            by_all >= received && by_kind >= received / 10 * 9,
            "{received} bytes were received, but only {by_kind} came over {kind}"
        );
    }
    Ok(format!("{received} bytes received, {by_kind} by the link, {by_all} by all"))
}

/// What each rank that came to its end says it received from others.
fn received_in(said: &str) -> Vec<u64> {
    let number = |line: &str| line.strip_prefix("rank ")?.split("received ").nth(1)?.parse().ok();
    said.lines().filter_map(number).collect()
}

fn shown(name: &str, launch: &Launch) -> Result<()> {
    let line = run(launch).with_context(|| name.to_owned())?;
    println!("      {name}: {line}");
    Ok(())
}

/// The system's Open MPI on one host, over each link that needs no rights.
pub(crate) fn one_host() -> Result<()> {
    for rank_count in [2, 4] {
        shown(&format!("{rank_count} ranks"), &over_memory(&SYSTEM, rank_count))?;
    }
    for (name, faults) in [("udp", None), ("udp with faults", Some(FAULTS))] {
        let way = Way::Packhorse { links: "udp", kind: "udp", faults };
        shown(name, &Launch { way, ..over_memory(&SYSTEM, 2) })?;
    }
    Ok(())
}

/// One rank of it on each of two hosts, over UDP, TCP and raw Ethernet.
pub(crate) fn two_hosts() -> Result<()> {
    let hosts = Hosts::new()?;
    for kind in ["udp", "tcp", "packet"] {
        hosts.let_udp_pass(kind != "tcp")?;
        let way = Way::Packhorse { links: kind, kind, faults: None };
        let launch = Launch { way, hosts: Some(&hosts), ..over_memory(&SYSTEM, 2) };
        shown(&format!("two hosts over {kind}"), &launch)?;
    }
    Ok(())
}

/// Two ranks on each MPI of PyPI.
pub(crate) fn wheels() -> Result<()> {
    super::build()?;
    WHEELS.iter().try_for_each(|library| shown(library.name, &over_memory(library, 2)))?;
    super::passive::on_wheels()
}
