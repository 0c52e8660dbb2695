//! A target that computes and calls nothing (`faces/ofi/tests/mpi/life.c`, `passive`): what its peer sends it, or gets from it, must not wait
//! for it. It did not if it ended while the target computed, which computes until a file says so; that it went by us is seen by our
//! counters.

use std::fs;

use anyhow::{Context as _, Result, ensure};

use super::folder;
use super::launch::{Launch, Way, over_memory};
use super::library::{SYSTEM, WHEELS};

const PROGRAM: &str = "faces/ofi/tests/mpi/life.c";
/// Bytes that each form moves.
const BULK_LEN: u64 = 16 << 20;
/// Seconds after which a run hangs; the target gives up after 60.
const PATIENCE_S: usize = 150;

/// One form of it, `send` or `get`; how long it took.
fn run_form(launch: &Launch, form: &str) -> Result<String> {
    let program = launch.library.compile(PROGRAM)?;
    let told = folder().join(format!("passive-{}", std::process::id()));
    let _ = fs::remove_file(&told); // one that was ended may have left it
    let ended = launch.run(PATIENCE_S, |run| {
        run.arg(&program).args(["passive", form]).arg(&told);
    });
    let _ = fs::remove_file(&told); // a run that failed has not made it
    let ended = ended?;
    let took = ended.said.lines().find_map(|line| line.strip_prefix("passive "));
    let took = took.with_context(|| format!("no time in: {}", ended.said))?;
    let took_ms: u64 = took.trim().parse().with_context(|| format!("odd words: {took}"))?;
    if let Way::Packhorse { kind, .. } = launch.way {
        let by_kind = ended.bytes.0;
        ensure!(by_kind >= BULK_LEN, "{form} of 16 MB: only {by_kind} bytes came over {kind}");
    }
    Ok(format!("{form} of 16 MB {took_ms} ms"))
}

/// All forms that go by us; a line that says how it went. Open MPI moves bytes of windows on one host by itself.
pub(super) fn run(launch: &Launch) -> Result<String> {
    let forms: &[&str] = if launch.library.is_open_mpi { &["send"] } else { &["send", "get"] };
    let lines: Result<Vec<_>> = forms.iter().map(|form| run_form(launch, form)).collect();
    Ok(format!("beside a target that calls nothing: {}", lines?.join(", ")))
}

/// Under the system's Open MPI.
pub(crate) fn on_the_system() -> Result<()> {
    println!("      {}", run(&over_memory(&SYSTEM, 2))?);
    Ok(())
}

/// Under those of PyPI whose windows go by us.
pub(crate) fn on_wheels() -> Result<()> {
    for library in WHEELS.iter().filter(|library| !library.is_open_mpi) {
        let line = run_form(&over_memory(library, 2), "get").context(library.name)?;
        println!("      {}: beside a target that calls nothing: {line}", library.name);
    }
    Ok(())
}
