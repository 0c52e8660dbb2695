//! The time of a hop in a chain of triggered puts around four processes that call nothing (`faces/portals4/examples/chain.c`).

use std::path::Path;

use anyhow::{Context as _, Result};

use super::compiler;
use crate::steps::{command, output, root, run};

const PROCESS_COUNT: &str = "4";
/// The chain that was promised, and one that is long enough for clocks and naps not to matter.
const HOP_COUNTS: [&str; 2] = ["64", "4096"];
const TURN_COUNT: usize = 9;

/// Runs them and says what came of each; `folder` has the library.
pub(super) fn measure(folder: &Path) -> Result<()> {
    let program = folder.join("chain");
    let mut cc = compiler(folder);
    cc.args(["-O2", "-o"]).arg(&program).arg(root().join("faces/portals4/examples/chain.c"));
    cc.arg("-L").arg(folder).arg("-lportals");
    run(cc)?;
    for meanwhile in ["sleep", "compute"] {
        for hop_count in HOP_COUNTS {
            let mut times = Vec::new();
            for _ in 0..TURN_COUNT {
                let mut chain = command("timeout", ["--signal=KILL", "120"]);
                chain.arg(&program).args([PROCESS_COUNT, hop_count, meanwhile]);
                chain.env("LD_LIBRARY_PATH", folder).env("PTL_IFACE_NAME", "lo");
                times.push(ns_per_hop(&output(chain)?)?);
            }
            times.sort_unstable();
            println!(
                "{hop_count} hops around {PROCESS_COUNT} processes that {meanwhile}: {} ns a hop ({}..{}), {TURN_COUNT} times",
                times[TURN_COUNT / 2],
                times[0],
                times[TURN_COUNT - 1]
            );
        }
    }
    Ok(())
}

fn ns_per_hop(said: &str) -> Result<u64> {
    let figure = said.split_once("\"ns_per_hop\":").map(|(_, rest)| rest.trim_end());
    let figure = figure.and_then(|rest| rest.strip_suffix('}')?.parse().ok());
    figure.with_context(|| format!("no figure in {said:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figure_is_found() {
        let said = "{\"hops\":64,\"elapsed_ns\":640000,\"ns_per_hop\":10000}\n";
        assert_eq!(ns_per_hop(said).unwrap(), 10_000);
        assert!(ns_per_hop("killed").is_err());
    }
}
