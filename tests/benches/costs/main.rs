//! What a message costs, in instructions: a count, not a time, so that it repeats and may be asserted.
//!
//! ```sh
//! cargo bench -p packhorse-tests --bench costs             # count, compare with the bounds and with tests/costs.txt
//! cargo bench -p packhorse-tests --bench costs -- --write  # and write tests/costs.txt anew
//! ```
//!
//! The program runs itself under `valgrind --tool=callgrind`, each scenario once with n messages and once with 2 n.
//! The difference over n is the cost of one message in the steady state: opening, first contact and growth cancel out.
//! Counted is only what happens inside the functions of `sides.rs`, so neither the queue that stands for the network nor
//! the gathering of payload is, and each side is counted by itself.
//!
//! - `scenarios.rs`: what is counted, `trains.rs`: data as trains; `sides.rs`: the calls that count
//! - `portals.rs`: puts that are matched at their target, among few entries and many
//! - `hop.rs`: whole endpoints on one host, from the post to the entry in a queue
//! - `callgrind.rs`: runs and reads the counter; `owners.rs`: which guarantee an instruction belongs to
//! - `table.rs`: the report, and what must hold

mod callgrind;
mod hop;
mod owners;
mod portals;
mod scenarios;
mod sides;
mod table;
mod trains;

use std::path::Path;

use anyhow::{Context as _, Result, bail};

fn main() -> Result<()> {
    // `cargo bench` adds `--bench` to whatever is asked.
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words[..] {
        [] => report(false),
        ["--write"] => report(true),
        ["run", scenario, count] => scenarios::run(scenario, count.parse().context("a count")?),
        _ => bail!("usage: costs [--write]"),
    }
}

/// Counts everything, prints the table, checks the bounds.
fn report(write: bool) -> Result<()> {
    if cfg!(debug_assertions) {
        println!(
            "left out: instruction counts mean something in an optimised build only (cargo bench)"
        );
        return Ok(());
    }
    let (compiler, counter) = (table::compiler()?, callgrind::version()?);
    let figures = table::measure()?;
    let text = table::shown(&figures, &format!("{compiler}, {counter}"));
    print!("{text}");
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("costs.txt");
    let kept = std::fs::read_to_string(&file).unwrap_or_default();
    if write {
        std::fs::write(&file, &text)
            .with_context(|| format!("{} could not be written", file.display()))?;
        println!("\nwritten to tests/costs.txt");
    } else if kept != text {
        println!(
            "\ndiffers from tests/costs.txt; if that is meant, write it anew with `cargo xtask figures`"
        );
    }
    table::judge(&figures, kept.contains(&compiler))
}
