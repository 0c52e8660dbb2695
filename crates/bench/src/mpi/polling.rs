//! `packhorse compare --mpi --polling`: programs that look for messages between two pieces of work (`polling.c`).
//!
//! A transport that sleeps in a look takes the time from the program's work, and no ping-pong shows it. So each cell (which look, how
//! much work, how often a message) is measured with what Packhorse does by itself, with looks that spin for ever, and over the
//! MPI's own TCP, one after the other in each repetition. What is promised is the ratio of the first two.

use std::fmt::Write as _;

use anyhow::Result;

use super::Launcher;
use super::contender::{Contender, Way};
use super::measure::{Bench, MpiArgs, Part, core_count};
use super::row::MpiRow;
use crate::command::Setup;
use crate::ratio::Spread;
use crate::table::show_ratio;

const SOURCE: &str = concat!(include_str!("common.c"), include_str!("polling.c"));

const LOOKS: [&str; 2] = ["test", "probe"];
const WORK_NS: [u64; 5] = [20, 100, 1_000, 10_000, 1_000_000];
/// Steps from message to message; 0: none.
const EVERY: [u64; 3] = [10, 1_000, 0];
const BYTES: usize = 4 << 10;
const SECONDS: f64 = 0.15;
const REPS: u16 = 5;
/// A cell is kept if the median of its ratios is no more than this.
const RATIO_MAX: f64 = 1.1;

const ENDLESS: &str = "-endless";
/// Ten seconds: longer than any wait here.
const SPIN_US: &str = "10000000";

/// A cell of the table, as the program is told of it and as its rows are called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cell {
    look: &'static str,
    work_ns: u64,
    every: u64,
}

impl Cell {
    fn all() -> Vec<Self> {
        let mut all = Vec::new();
        for look in LOOKS {
            for work_ns in WORK_NS {
                all.extend(EVERY.map(|every| Self { look, work_ns, every }));
            }
        }
        all
    }

    fn name(self) -> String {
        format!("{}/{}/{}", self.look, self.work_ns, self.every)
    }

    fn show(self) -> String {
        let every = match self.every {
            0 => "never".to_owned(),
            every => format!("every {every}"),
        };
        format!("{:<5} {:>7} µs {every:>10}", self.look, self.work_ns as f64 / 1e3)
    }
}

/// Whether a row is one of these.
pub fn is_polling(row: &MpiRow) -> bool {
    Cell::all().iter().any(|cell| cell.name() == row.bench)
}

/// Measures all cells; says which contender is at work.
pub fn run(args: &MpiArgs, setup: &Setup) -> Result<Vec<MpiRow>> {
    let bench = Bench::new(args, setup, SOURCE, &["auto"], contenders)?;
    let rank_count = rank_count(core_count(), args.ranks_per_core.unwrap_or(1).into());
    let cases = Cell::all().iter().map(|cell| format!("{}:{BYTES}", cell.name())).collect();
    let reps = setup.reps.unwrap_or(REPS);
    bench.measure_all(&[Part { rank_count, cases }], reps, setup.seconds.unwrap_or(SECONDS))
}

/// They talk in pairs.
fn rank_count(cores: usize, ranks_per_core: usize) -> usize {
    (cores * ranks_per_core / 2 * 2).max(2)
}

/// Packhorse with both placements, as it is and with looks that spin for ever; and the MPI's own.
fn contenders(launcher: &Launcher, links: &[String], is_two_hosts: bool) -> Vec<Contender> {
    let mut all = Vec::new();
    for contender in Contender::all_of(launcher, links, is_two_hosts) {
        if !matches!(contender.way, Way::Packhorse(_)) {
            let is_base = Contender::base_of(&contender.name).as_ref() == Some(&contender.name);
            all.extend(is_base.then_some(contender));
            continue;
        }
        for own in contender.placed() {
            let mut endless = Contender { name: format!("{}{ENDLESS}", own.name), ..own.clone() };
            endless.settings.push(("PACKHORSE_SPIN_US", SPIN_US));
            all.extend([own, endless]);
        }
    }
    all
}

/// What one system took in one cell, beside its endless twin and the MPI's own.
struct Line {
    cell: Cell,
    ranks: usize,
    system: String,
    ns: f64,
    endless_ns: f64,
    ratio: Spread,
    base: Option<(String, f64)>,
}

fn median(rows: &[&MpiRow]) -> Option<f64> {
    Spread::of(rows.iter().map(|row| row.value)).map(|spread| spread.median)
}

/// One for each cell and each system that has an endless twin.
fn lines(rows: &[MpiRow]) -> Vec<Line> {
    let mut systems: Vec<(&str, usize)> = Vec::new();
    for row in rows.iter().filter(|row| !row.system.ends_with(ENDLESS) && is_polling(row)) {
        if !systems.contains(&(&row.system, row.ranks)) {
            systems.push((&row.system, row.ranks));
        }
    }
    let cells = Cell::all();
    let each = |cell: &Cell| {
        systems
            .iter()
            .filter_map(|&(system, ranks)| line(rows, *cell, system, ranks))
            .collect::<Vec<_>>()
    };
    cells.iter().flat_map(each).collect()
}

fn line(rows: &[MpiRow], cell: Cell, system: &str, ranks: usize) -> Option<Line> {
    let name = cell.name();
    let of = |system: &str| -> Vec<&MpiRow> {
        let is_it = |row: &&MpiRow| row.bench == name && row.ranks == ranks && row.system == system;
        rows.iter().filter(is_it).collect()
    };
    let (own, endless) = (of(system), of(&format!("{system}{ENDLESS}")));
    let ratio = Spread::of(own.iter().filter_map(|row| {
        let twin = endless.iter().find(|twin| twin.rep == row.rep)?;
        Some(row.value / twin.value)
    }))?;
    let base =
        Contender::base_of(system).and_then(|base| Some((base.clone(), median(&of(&base))?)));
    let (system, ns, endless_ns) = (system.to_owned(), median(&own)?, median(&endless)?);
    Some(Line { cell, ranks, system, ns, endless_ns, ratio, base })
}

/// The table and what it means, for a terminal.
pub fn tables(rows: &[MpiRow]) -> String {
    let lines = lines(rows);
    let mut text = String::from(
        "\nlook       work    message  ranks  system                           µs a step    endless   ÷ endless (min..max)   the MPI's own\n",
    );
    for line in &lines {
        let base = line.base.as_ref().map_or(String::new(), |(name, ns)| {
            format!("{:>9.3} µs, {:.2} × {name}", ns / 1e3, line.ns / ns)
        });
        let shown = format!(
            "{} {:>6}  {:<32} {:>9.3}  {:>9.3}   {:<22} {base}",
            line.cell.show(),
            line.ranks,
            line.system,
            line.ns / 1e3,
            line.endless_ns / 1e3,
            show_ratio(line.ratio),
        );
        writeln!(text, "{}", shown.trim_end()).expect("text grows");
    }
    for verdict in verdicts(&lines) {
        writeln!(text, "{verdict}").expect("text grows");
    }
    text
}

/// For each system, how many cells are above what is promised, and the worst.
fn verdicts(lines: &[Line]) -> Vec<String> {
    let mut systems: Vec<(&str, usize)> =
        lines.iter().map(|line| (line.system.as_str(), line.ranks)).collect();
    systems.sort_unstable();
    systems.dedup();
    let of = |(system, ranks): (&str, usize)| -> Option<String> {
        let own = lines.iter().filter(|line| line.system == system && line.ranks == ranks);
        let above = own.clone().filter(|line| line.ratio.median > RATIO_MAX).count();
        let worst = own.clone().max_by(|a, b| a.ratio.median.total_cmp(&b.ratio.median))?;
        let place = worst.cell.show().split_whitespace().collect::<Vec<_>>().join(" ");
        Some(format!(
            "{system}, {ranks} ranks: {above} of {} cells above {RATIO_MAX} × of endless spinning; most {:.2} × ({place})",
            own.count(),
            worst.ratio.median
        ))
    };
    systems.into_iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::super::Family;
    use super::*;

    fn row(bench: &str, system: &str, rep: usize, value: f64) -> MpiRow {
        let (bench, system) = (bench.to_owned(), system.to_owned());
        MpiRow { bench, system, bytes: BYTES, ranks: 2, rep, value, link: None }
    }

    #[test]
    fn each_placement_meets_its_endless_twin_and_the_mpi_s_own() {
        let launcher = Launcher { program: "mpirun".into(), family: Some(Family::OpenMpi4) };
        let all = contenders(&launcher, &["auto".to_owned()], false);
        let names: Vec<&str> = all.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "openmpi4-packhorse-thread",
                "openmpi4-packhorse-thread-endless",
                "openmpi4-packhorse-inline",
                "openmpi4-packhorse-inline-endless",
                "openmpi4-tcp"
            ]
        );
        assert_eq!(all[3].settings.len(), 2);
        assert_eq!(all[2].settings, [("PACKHORSE_PLACEMENT", "inline")]);
    }

    #[test]
    fn a_cell_that_takes_longer_than_its_twin_is_counted() {
        let mut rows = Vec::new();
        for (rep, bad) in [(0, 2.0), (1, 3.0), (2, 1.0)] {
            for (bench, ns) in [("test/20/0", 500.0 * bad), ("probe/1000/10", 1_050.0)] {
                rows.push(row(bench, "openmpi4-packhorse-inline", rep, ns));
                let endless = if bench == "test/20/0" { 500.0 } else { 1_000.0 };
                rows.push(row(bench, "openmpi4-packhorse-inline-endless", rep, endless));
                rows.push(row(bench, "openmpi4-tcp", rep, 2_000.0));
            }
        }
        rows.push(row("pingpong", "openmpi4-tcp", 0, 1.0));
        let text = tables(&rows);
        assert!(text.contains("2.00 (1.00..3.00)"), "{text}");
        assert!(
            text.contains("2 ranks: 1 of 2 cells above 1.1 × of endless spinning; most 2.00 × (test 0.02 µs never)"),
            "{text}"
        );
        assert!(text.contains("0.50 × openmpi4-tcp"), "{text}");
        assert_eq!(rows.iter().filter(|row| is_polling(row)).count(), rows.len() - 1);
    }

    #[test]
    fn ranks_come_in_pairs() {
        assert_eq!([(1, 1), (2, 1), (2, 2), (3, 1)].map(|(c, n)| rank_count(c, n)), [2, 2, 4, 2]);
    }
}
