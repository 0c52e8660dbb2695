//! Findings of the offload patterns as sheets: tables for a terminal and for the page alike.
//!
//! The first sheet of a pattern has all it found, a line for each case and contender; others draw conclusions.

use std::fmt::Write as _;

use super::conclude;
use crate::SYSTEMS;
use crate::cpu::CpuTime;
use crate::figures::Figure;
use crate::plan::Case;
use crate::ratio::{Metric, Spread, ratios, values};
use crate::row::{OURS, Row};
use crate::sizes::show_bytes;
use crate::system::Pattern;
use crate::table::{notes, show, show_ns, show_ratio};
use crate::variant::Computing;

/// A table with a title.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sheet {
    /// What it shows.
    pub title: String,
    /// Names of the columns; the first ones of text are `text_columns`.
    pub head: Vec<String>,
    /// Columns at the left that are names, not numbers.
    pub text_columns: usize,
    /// The cells.
    pub lines: Vec<Vec<String>>,
}

impl Sheet {
    /// An empty one.
    pub fn new(title: &str, text_columns: usize, head: &[&str]) -> Self {
        let head = head.iter().map(|&name| name.to_owned()).collect();
        Self { title: title.to_owned(), head, text_columns, lines: Vec::new() }
    }

    /// For a terminal.
    pub fn text(&self) -> String {
        let mut text = format!("\n{}\n", self.title);
        let width = |column: usize| {
            let cells = self.lines.iter().chain([&self.head]).filter_map(|line| line.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.head.len()).map(width).collect();
        for line in [&self.head].into_iter().chain(&self.lines) {
            let mut shown = String::new();
            for (column, (cell, width)) in line.iter().zip(&widths).enumerate() {
                let cell = if column < self.text_columns {
                    format!("{cell:<width$}  ")
                } else {
                    format!("{cell:>width$}  ")
                };
                shown += &cell;
            }
            writeln!(text, "{}", shown.trim_end()).expect("text grows");
        }
        text
    }
}

/// All sheets as text, and what should be known of the rows.
pub fn text(rows: &[Row]) -> String {
    let mut text = String::new();
    for pattern in Pattern::OFFLOAD {
        for sheet in sheets(rows, pattern) {
            text += &sheet.text();
        }
    }
    let offload: Vec<_> = rows.iter().filter(|row| Pattern::OFFLOAD.contains(&row.bench)).collect();
    for note in notes(offload) {
        writeln!(text, "note: {note}").expect("text grows");
    }
    text
}

/// The sheets of a pattern; none if it was not measured.
pub fn sheets(rows: &[Row], pattern: Pattern) -> Vec<Sheet> {
    let cases = cases_of(rows, pattern);
    if cases.is_empty() {
        return Vec::new();
    }
    let mut sheets = vec![all_of(rows, pattern, &cases)];
    if pattern == Pattern::Availability {
        sheets.extend([conclude::peaks(rows), conclude::equal_bandwidth(rows)]);
    }
    sheets
}

/// The cases of a pattern, in the order of lengths and, for each, of their first occurrence.
pub fn cases_of(rows: &[Row], pattern: Pattern) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for row in rows.iter().filter(|row| row.bench == pattern) {
        if !cases.contains(&row.case()) {
            cases.push(row.case());
        }
    }
    cases.sort_by_key(|case| case.bytes);
    cases
}

/// The contenders of a pattern by their labels, in the order of the systems.
pub fn contenders_of(rows: &[Row], pattern: Pattern) -> Vec<String> {
    let mut found: Vec<(usize, String)> = Vec::new();
    for row in rows.iter().filter(|row| row.bench == pattern) {
        let label = row.label();
        if !found.iter().any(|(_, other)| *other == label) {
            let place = SYSTEMS.iter().position(|system| system.name() == row.system);
            found.push((place.unwrap_or(usize::MAX), label));
        }
    }
    found.sort_by_key(|(place, _)| *place);
    found.into_iter().map(|(_, label)| label).collect()
}

/// What a column of a pattern's first sheet shows.
enum Column {
    Value(Metric),
    /// This metric divided by that of the contender of this name.
    Over(Metric, &'static str),
    /// One metric of a row divided by another of it.
    Share(Metric, Metric),
    /// Seconds of the machine's processors a second: user, system, softirq.
    Cores,
}

/// Title and columns of a pattern's first sheet.
fn layout(pattern: Pattern) -> (&'static str, Vec<(&'static str, Column)>) {
    use Column::{Cores, Over, Share, Value};
    let of = |figure| Value(Metric::Of(figure));
    let cores = ("cores: user + system + softirq", Cores);
    match pattern {
        Pattern::Availability => (
            "availability: work in slices, a poll after each, several messages under way each way",
            vec![
                ("slice takes", of(Figure::SliceNs)),
                ("bandwidth", Value(Metric::Bandwidth)),
                ("availability", of(Figure::Availability)),
                ("effective", Value(Metric::Effective)),
                cores,
            ],
        ),
        Pattern::DoubleBuf => (
            "doublebuf: two buffers each; limit = least of producer alone, consumer alone, bare link",
            vec![
                ("achieved", Value(Metric::Bandwidth)),
                ("limit", of(Figure::LimitBytesPerS)),
                ("÷ limit", Share(Metric::Bandwidth, Metric::Of(Figure::LimitBytesPerS))),
                ("producer in run", of(Figure::ProducerBytesPerS)),
                ("alone", of(Figure::ProducerAloneBytesPerS)),
                ("consumer in run", of(Figure::ConsumerBytesPerS)),
                ("alone", of(Figure::ConsumerAloneBytesPerS)),
                ("bare link", of(Figure::LinkBytesPerS)),
                cores,
            ],
        ),
        Pattern::Overlap => (
            "overlap: post, compute without any call, wait; (T_comm + T_comp − T_total) ÷ T_comm",
            vec![
                ("T_comm", of(Figure::CommNs)),
                ("T_comp", of(Figure::CompNs)),
                ("T_total", of(Figure::TotalNs)),
                ("overlap", of(Figure::Overlap)),
                ("T_total ÷ inline", Over(Metric::Of(Figure::TotalNs), "packhorse inline")),
                cores,
            ],
        ),
        Pattern::Posts => (
            "posts: batches of five; time of one call, waits per message sent and received",
            vec![
                ("post receive", of(Figure::PostRecvNs)),
                ("post send", of(Figure::PostSendNs)),
                ("wait", of(Figure::WaitNs)),
                ("share of work", of(Figure::WorkShare)),
                ("bandwidth", Value(Metric::Bandwidth)),
                ("messages", Value(Metric::Rate)),
                cores,
            ],
        ),
        Pattern::Waiting => (
            "waiting: half round trip, spinning and asleep",
            vec![
                ("p50", Value(Metric::P50)),
                ("p99", Value(Metric::P99)),
                ("mean", Value(Metric::Mean)),
                ("÷ inline", Over(Metric::P50, "packhorse inline")),
                ("÷ tcp", Over(Metric::P50, "tcp")),
                ("÷ tcp asleep", Over(Metric::P50, "tcp asleep")),
            ],
        ),
        _ => (
            "idle: processor time of the process ÷ time passed",
            vec![("of a core", of(Figure::ProcessShare)), cores],
        ),
    }
}

fn all_of(rows: &[Row], pattern: Pattern, cases: &[Case]) -> Sheet {
    let (title, columns) = layout(pattern);
    let variant = variant_head(pattern);
    let mut head: Vec<&str> = vec!["bytes"];
    head.extend(variant);
    head.push("contender");
    let text_columns = head.len();
    head.extend(columns.iter().map(|(name, _)| *name));
    let mut sheet = Sheet::new(title, text_columns, &head);
    for &case in cases {
        for contender in contenders_of(rows, pattern) {
            let of_it = |row: &&Row| row.case() == case && row.label() == contender;
            let Some(row) = rows.iter().find(of_it) else { continue };
            let mut line = vec![show_bytes(case.bytes)];
            line.extend(variant.map(|_| variant_cell(case)));
            line.push(contender.clone());
            line.extend(columns.iter().map(|(_, column)| cell(rows, row, column)));
            sheet.lines.push(line);
        }
    }
    sheet
}

fn variant_head(pattern: Pattern) -> Option<&'static str> {
    match pattern {
        Pattern::Availability => Some("slice"),
        Pattern::DoubleBuf | Pattern::Overlap | Pattern::Idle | Pattern::Waiting => Some("setting"),
        Pattern::Posts => Some("wants"),
        Pattern::PingPong | Pattern::Stream | Pattern::Rate => None,
    }
}

fn variant_cell(case: Case) -> String {
    let variant = case.variant;
    match (variant.slice, variant.load) {
        (Some(slice), _) => slice.to_string(),
        (_, Some(load)) => format!("{load} %"),
        _ => variant.label().trim_start_matches(", ").to_owned(),
    }
}

/// One cell of the first sheet; `row` is any of its repetitions.
fn cell(rows: &[Row], row: &Row, column: &Column) -> String {
    let (case, label) = (row.case(), row.label());
    let none = || "–".to_owned();
    match column {
        Column::Value(metric) => {
            values(rows, case, &label, *metric).map_or_else(none, |s| show(*metric, s.median))
        }
        Column::Over(_, base) if *base == label => String::new(),
        // Work is the same for all only where both sides compute; otherwise it follows the transfer's own time.
        Column::Over(..)
            if case.pattern == Pattern::Overlap
                && (case.variant.computing != Some(Computing::All) || row.system != OURS) =>
        {
            String::new()
        }
        Column::Over(metric, base) => {
            ratios(rows, case, *metric, (&label, base)).map_or_else(none, show_ratio)
        }
        Column::Share(part, whole) => {
            let of_it = rows.iter().filter(|row| row.case() == case && row.label() == label);
            let shares = of_it.filter_map(|row| Some(part.of(row)? / whole.of(row)?));
            Spread::of(shares).map_or_else(none, show_ratio)
        }
        Column::Cores => {
            let of_it = rows.iter().filter(|row| row.case() == case && row.label() == label);
            cores(of_it.filter_map(|row| row.cpu_cores_by_kind)).unwrap_or_else(none)
        }
    }
}

/// Medians of each kind.
fn cores(times: impl Iterator<Item = CpuTime>) -> Option<String> {
    let times: Vec<_> = times.collect();
    let median = |kind: fn(&CpuTime) -> f64| Spread::of(times.iter().map(kind)).map(|s| s.median);
    let (user, system, softirq) =
        (median(|t| t.user)?, median(|t| t.system)?, median(|t| t.softirq)?);
    Some(format!("{user:.2} + {system:.2} + {softirq:.2}"))
}

/// A slice as a person would call it: its units and what they take.
pub(super) fn show_slice(rows: &[Row], slice: u64) -> String {
    let of_it = rows.iter().filter(|row| row.variant.slice == Some(slice));
    let times = of_it.filter_map(|row| row.figures.get(Figure::SliceNs));
    let time = Spread::of(times).map_or(String::new(), |s| format!(" ({})", show_ns(s.median)));
    format!("{slice}{time}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::Figures;
    use crate::row::tests::example_row;
    use crate::variant::{Bound, Variant};

    #[test]
    fn sheets_line_up_and_divide_by_the_limit() {
        let variant = Variant { bound: Some(Bound::Consumer), ..Variant::default() };
        let figures = Figures::of([(Figure::LimitBytesPerS, 2e9)]);
        let row = Row { variant, figures, ..example_row(Pattern::DoubleBuf, "tcp", 0, 1.0) };
        let rows = [Row { bytes_per_s: Some(1.5e9), ..row }];
        let sheets = sheets(&rows, Pattern::DoubleBuf);
        let line = &sheets[0].lines[0];
        assert_eq!(
            line[..6],
            ["8", "consumer-bound", "tcp", "1.50 GB/s", "2.00 GB/s", "0.75 (0.75..0.75)"]
        );
        let text = sheets[0].text();
        let ends: Vec<_> =
            text.lines().filter_map(|line| line.find(" tcp").or(line.find(" contender"))).collect();
        assert_eq!(ends.len(), 2, "{text}");
        assert_eq!(ends[0], ends[1], "{text}");
    }

    #[test]
    fn contenders_come_in_the_order_of_systems() {
        let of = |system, placement: Option<&str>| Row {
            placement: placement.map(str::to_owned),
            ..example_row(Pattern::Posts, system, 0, 1.0)
        };
        let rows =
            [of("tcp", None), of(OURS, Some("thread")), of("bare", None), of(OURS, Some("inline"))];
        let labels = contenders_of(&rows, Pattern::Posts);
        assert_eq!(labels, ["bare", "packhorse thread", "packhorse inline", "tcp"]);
    }
}
