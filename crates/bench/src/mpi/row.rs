//! What `compare --mpi` found: rows, and tables of them.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use super::applications::RMPP;
use super::contender::Contender;
use crate::ratio::Spread;
use crate::sizes::show_bytes;
use crate::table::show_ratio;

/// One measurement under MPI.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MpiRow {
    /// `pingpong`, `rate`, `stream`, `overlap`, a collective operation, a cell of `--polling` or a case of `--applications`.
    pub bench: String,
    /// Which MPI over what.
    pub system: String,
    /// Length of a message.
    pub bytes: usize,
    /// How many ranks took part.
    pub ranks: usize,
    /// Which repetition, from 0.
    pub rep: usize,
    /// Half round trips and collectives: ns. Rate: messages a second. Stream: bytes a second. Overlap: percent. A step or an
    /// iteration of a program: ns. RMPP's loop: bytes a second times the share of the processor that is left.
    pub value: f64,
    /// The link that Packhorse's counters name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
}

/// What is compared: a pattern, a length, a number of ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MpiCase {
    /// As in the rows.
    pub bench: String,
    /// As in the rows.
    pub bytes: usize,
    /// As in the rows.
    pub ranks: usize,
}

/// One system's line on a case.
#[derive(Clone, Debug)]
pub struct MpiLine {
    /// Which MPI over what.
    pub system: String,
    /// Median over the repetitions, with its unit.
    pub value: String,
    /// Divided by the same MPI's own transport, within each repetition; nothing for that one itself.
    pub ratio: Option<Spread>,
}

/// The cases that occur, in order.
pub fn cases_of(rows: &[MpiRow]) -> Vec<MpiCase> {
    let mut cases: Vec<MpiCase> = Vec::new();
    for row in rows {
        let case = MpiCase { bench: row.bench.clone(), bytes: row.bytes, ranks: row.ranks };
        if !cases.contains(&case) {
            cases.push(case);
        }
    }
    cases
}

/// All systems' lines on a case, in the order they were measured.
pub fn lines_of(rows: &[MpiRow], case: &MpiCase) -> Vec<MpiLine> {
    let here: Vec<&MpiRow> = rows
        .iter()
        .filter(|row| row.bench == case.bench && row.bytes == case.bytes && row.ranks == case.ranks)
        .collect();
    let mut systems: Vec<&str> = Vec::new();
    for row in &here {
        if !systems.contains(&row.system.as_str()) {
            systems.push(&row.system);
        }
    }
    systems.into_iter().filter_map(|system| line_of(&here, case, system)).collect()
}

fn line_of(rows: &[&MpiRow], case: &MpiCase, system: &str) -> Option<MpiLine> {
    let of = |name: &str| rows.iter().filter(|row| row.system == name).copied().collect::<Vec<_>>();
    let values = of(system);
    let median = Spread::of(values.iter().map(|row| row.value))?.median;
    let base = Contender::base_of(system).filter(|base| base != system).map(|base| of(&base));
    let ratio = base.and_then(|base| {
        Spread::of(values.iter().filter_map(|row| {
            let other = base.iter().find(|other| other.rep == row.rep)?;
            Some(row.value / other.value)
        }))
    });
    Some(MpiLine { system: system.to_owned(), value: show(&case.bench, median), ratio })
}

fn show(bench: &str, value: f64) -> String {
    match bench {
        "rate" => format!("{:.3} M/s", value / 1e6),
        "stream" => format!("{:.2} GB/s", value / 1e9),
        "overlap" => format!("{value:.0} %"),
        bench if bench.starts_with(RMPP) => format!("{:.0} MB/s", value / 1e6),
        _ => format!("{:.2} µs", value / 1e3),
    }
}

/// Everything, for a terminal.
pub fn tables(rows: &[MpiRow]) -> String {
    let mut text = format!(
        "\n{:<10} {:>6} {:>5}  {:<24} {:>12}   ÷ the MPI's own (min..max)\n",
        "pattern", "bytes", "ranks", "system", "median"
    );
    for case in cases_of(rows) {
        for line in lines_of(rows, &case) {
            let ratio = line.ratio.map_or(String::new(), show_ratio);
            let (bytes, ranks) = (show_bytes(case.bytes), case.ranks);
            let shown = format!(
                "{:<10} {bytes:>6} {ranks:>5}  {:<24} {:>12}   {ratio}",
                case.bench, line.system, line.value
            );
            writeln!(text, "{}", shown.trim_end()).expect("text grows");
        }
    }
    for link in links_of(rows) {
        writeln!(text, "{link}").expect("text grows");
    }
    text
}

/// Which links each system over Packhorse used.
pub fn links_of(rows: &[MpiRow]) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for row in rows {
        let Some(link) = &row.link else { continue };
        let line = format!("{} with {} ranks went over {link}", row.system, row.ranks);
        if !all.contains(&line) {
            all.push(line);
        }
    }
    all
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn example(bench: &str, system: &str, rep: usize, value: f64) -> MpiRow {
        let link = system.contains("packhorse").then(|| "udp (100 %)".to_owned());
        MpiRow { bench: bench.into(), system: system.into(), bytes: 8, ranks: 2, rep, value, link }
    }

    #[test]
    fn ratios_are_to_the_same_mpi_within_a_repetition() {
        let rows = [
            example("pingpong", "openmpi4-packhorse", 0, 2000.0),
            example("pingpong", "openmpi4-tcp", 0, 4000.0),
            example("pingpong", "mpich-usual", 0, 1000.0),
            example("pingpong", "openmpi4-packhorse", 1, 4000.0),
            example("pingpong", "openmpi4-tcp", 1, 8000.0),
        ];
        let lines = lines_of(&rows, &cases_of(&rows)[0]);
        assert_eq!(lines.len(), 3);
        assert_eq!(lines[0].ratio, Some(Spread { median: 0.5, min: 0.5, max: 0.5 }));
        assert_eq!((lines[1].ratio, lines[2].ratio), (None, None), "the MPIs' own");
        let text = tables(&rows);
        assert!(text.contains("3.00 µs   0.50 (0.50..0.50)"), "{text}");
        assert!(text.contains("openmpi4-packhorse with 2 ranks went over udp (100 %)"), "{text}");
    }
}
