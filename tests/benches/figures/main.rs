//! Figures of simulated networks: what was promised, measured in virtual time, kept as a table.
//!
//! ```sh
//! cargo bench -p packhorse-tests --bench figures             # measure, compare with the bounds and with tests/figures.txt
//! cargo bench -p packhorse-tests --bench figures -- --write  # and write tests/figures.txt anew
//! cargo bench -p packhorse-tests --bench figures -- Rails    # only chapters with this in their title
//! ```
//!
//! Virtual time depends on nothing but seed and code, so every machine gets the same table, to the last digit: a change of
//! the protocol's behaviour is a diff.
//!
//! - `speed.rs`: one sender; `rails.rs`: several ways; `crowd.rs`: many; `stubborn.rs`: receivers that do not receive
//! - `stage.rs`: the network they all stand on

mod crowd;
mod rails;
mod speed;
mod stage;
mod stubborn;

use std::fmt::Write as _;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context as _, Result, bail};

/// What a figure must be.
#[derive(Clone, Copy, Debug)]
enum Bound {
    /// Nothing.
    Free,
    /// At least.
    Least(f64),
    /// At most.
    Most(f64),
}

/// A line of the table.
#[derive(Clone, Debug)]
struct Figure {
    title: String,
    value: f64,
    unit: &'static str,
    bound: Bound,
}

impl Figure {
    fn new(title: impl Into<String>, value: f64, unit: &'static str, bound: Bound) -> Self {
        Self { title: title.into(), value, unit, bound }
    }

    fn is_met(&self) -> bool {
        match self.bound {
            Bound::Free => true,
            Bound::Least(least) => self.value >= least,
            Bound::Most(most) => self.value <= most,
        }
    }
}

/// A group of figures, and how they are got.
type Chapter = (&'static str, fn() -> Vec<Figure>);

const CHAPTERS: &[Chapter] = &[
    ("Goodput of 1 MB messages, two under way, in % of the line's payload rate", speed::goodput),
    ("One 20 MB message by how early the next grant goes out (RMPP, figure 8)", speed::bubbles),
    ("64 senders of 1 MB to one receiver", crowd::incast),
    ("64 senders of 1 KB to 10 MB to one receiver: mean completion", crowd::mixed),
    ("Two long flows", crowd::two_flows),
    ("Rails: 10 µs one way, one message after another", rails::rails),
    ("8 bytes beside a running 1 GB transfer", speed::beside),
    ("A message of 5 GiB", speed::five_gib),
    ("8-byte messages from 64 senders, nothing received for 30 s", stubborn::flood),
    ("A million of tag A, then one of tag B; B is received first", stubborn::b_first),
];

fn main() -> Result<()> {
    // `cargo bench` adds `--bench` to whatever is asked.
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let (write, only) = match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => (false, ""),
        ["--write"] => (true, ""),
        [only] if !only.starts_with('-') => (false, only),
        _ => bail!("usage: figures [--write | PART OF A CHAPTER'S TITLE]"),
    };
    if cfg!(debug_assertions) {
        println!("left out: figures are taken in an optimised build only (cargo bench)");
        return Ok(());
    }
    let (text, missed) = measure(only);
    print!("{text}");
    compare(&text, write)?;
    if !missed.is_empty() {
        bail!("missed: {}", missed.join("; "));
    }
    Ok(())
}

/// The table, and what it misses.
fn measure(only: &str) -> (String, Vec<String>) {
    let mut text = String::from(
        "Figures of simulated networks, by cargo bench -p packhorse-tests --bench figures\n",
    );
    text += "10 Gb/s, 10 µs one way, MTU 1500 unless it says otherwise; virtual time, the same on every machine\n";
    let mut missed = Vec::new();
    for (title, chapter) in CHAPTERS.iter().filter(|(title, _)| title.contains(only)) {
        let began = Instant::now();
        let figures = chapter();
        eprintln!("{title}: {:.1} s", began.elapsed().as_secs_f64());
        let _ = writeln!(text, "\n{title}\n{:-<100}", "");
        for figure in figures {
            let bound = match figure.bound {
                Bound::Free => String::new(),
                Bound::Least(least) => format!("≥ {least}"),
                Bound::Most(most) => format!("≤ {most}"),
            };
            let verdict = if figure.is_met() { "" } else { "  MISSED" };
            let Figure { title, value, unit, .. } = &figure;
            let _ = writeln!(text, "{title:<66} {value:>12.2} {unit:<6} {bound:>10}{verdict}");
            if !figure.is_met() {
                missed.push(format!("{title}: {value:.2} {unit}, {bound} asked"));
            }
        }
    }
    (text, missed)
}

/// Writes the table, or fails if it is not the one that is kept.
fn compare(text: &str, write: bool) -> Result<()> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("figures.txt");
    if write {
        return std::fs::write(&file, text)
            .with_context(|| format!("{} could not be written", file.display()));
    }
    let kept = std::fs::read_to_string(&file).unwrap_or_default();
    let changed: Vec<&str> =
        text.lines().filter(|line| !kept.lines().any(|old| old == *line)).collect();
    if !changed.is_empty() {
        let lines = changed.join("\n  ");
        bail!(
            "not as in tests/figures.txt:\n  {lines}\nif that is meant, write it anew with `cargo xtask figures`"
        );
    }
    Ok(())
}
