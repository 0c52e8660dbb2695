//! Findings as tables for a terminal.

use std::fmt::Write as _;

use super::plan::Case;
use super::ratio::{Metric, Spread, ratios, values};
use super::row::Row;
use super::sizes::show_bytes;
use super::system::Pattern;

/// The system the others are divided by.
const BASE: &str = "bare";

/// The cases that occur in rows, in the order of their first occurrence, pattern by pattern.
pub fn cases_of(rows: &[Row]) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for pattern in [Pattern::PingPong, Pattern::Stream, Pattern::Rate] {
        for row in rows.iter().filter(|row| row.bench == pattern) {
            let case = Case { pattern, bytes: row.bytes };
            if !cases.contains(&case) {
                cases.push(case);
            }
        }
    }
    cases
}

/// The systems that occur in rows, in the order of [`super::SYSTEMS`], strangers last.
pub fn systems_of(rows: &[Row]) -> Vec<&str> {
    let mut systems: Vec<&str> = Vec::new();
    for row in rows {
        if !systems.contains(&row.system.as_str()) {
            systems.push(&row.system);
        }
    }
    let place = |name: &str| super::SYSTEMS.iter().position(|system| system.name() == name);
    systems.sort_by_key(|name| place(name).unwrap_or(usize::MAX));
    systems
}

/// The metric a pattern is about.
pub fn main_metric(pattern: Pattern) -> Metric {
    match pattern {
        Pattern::PingPong => Metric::P50,
        Pattern::Stream => Metric::Bandwidth,
        Pattern::Rate => Metric::Rate,
    }
}

/// A value with its unit.
pub fn show(metric: Metric, value: f64) -> String {
    match metric {
        Metric::P50 | Metric::P99 | Metric::Mean => format!("{:.2} µs", value / 1e3),
        Metric::Bandwidth => format!("{:.2} GB/s", value / 1e9),
        Metric::Rate => format!("{:.3} M/s", value / 1e6),
        Metric::Cpu => format!("{value:.2} s/GB"),
    }
}

/// A ratio and its spread.
pub fn show_ratio(spread: Spread) -> String {
    format!("{:.2} ({:.2}..{:.2})", spread.median, spread.min, spread.max)
}

/// All tables.
pub fn tables(rows: &[Row]) -> String {
    let mut text = String::new();
    for pattern in [Pattern::PingPong, Pattern::Stream, Pattern::Rate] {
        let cases: Vec<_> =
            cases_of(rows).into_iter().filter(|case| case.pattern == pattern).collect();
        if !cases.is_empty() {
            table(&mut text, rows, pattern, &cases);
        }
    }
    for note in notes(rows) {
        writeln!(text, "note: {note}").expect("text grows");
    }
    text
}

fn heading(pattern: Pattern) -> (&'static str, [Metric; 3], [&'static str; 3]) {
    match pattern {
        Pattern::PingPong => (
            "pingpong: half round trip, spinning",
            [Metric::P50, Metric::P99, Metric::Mean],
            ["p50", "p99", "mean"],
        ),
        Pattern::Stream => (
            "stream: one way, counted at the receiver; processor time of the whole machine",
            [Metric::Bandwidth, Metric::Rate, Metric::Cpu],
            ["bandwidth", "messages", "cpu"],
        ),
        Pattern::Rate => (
            "rate: small messages one way, a bounded number on their way",
            [Metric::Rate, Metric::Bandwidth, Metric::Cpu],
            ["messages", "bandwidth", "cpu"],
        ),
    }
}

fn table(text: &mut String, rows: &[Row], pattern: Pattern, cases: &[Case]) {
    let (title, metrics, names) = heading(pattern);
    writeln!(text, "\n{title}").expect("text grows");
    let base = format!("÷ {BASE} (min..max)");
    writeln!(
        text,
        "{:>8}  {:<11} {:>12} {:>12} {:>12}   {base}",
        "bytes", "system", names[0], names[1], names[2]
    )
    .expect("text grows");
    for &case in cases {
        for system in systems_of(rows) {
            let cell = |metric| {
                values(rows, case, system, metric).map_or("-".into(), |s| show(metric, s.median))
            };
            let ratio = ratios(rows, case, metrics[0], (system, BASE))
                .filter(|_| system != BASE)
                .map_or(String::new(), show_ratio);
            let bytes = show_bytes(case.bytes);
            let [a, b, c] = metrics.map(cell);
            let line = format!("{bytes:>8}  {system:<11} {a:>12} {b:>12} {c:>12}   {ratio}");
            writeln!(text, "{}", line.trim_end()).expect("text grows");
        }
    }
}

fn notes(rows: &[Row]) -> Vec<String> {
    rows.iter()
        .filter_map(|row| {
            let (bench, bytes) = (row.bench.name(), show_bytes(row.bytes));
            let note = row.note.as_ref()?;
            Some(format!("{bench} {bytes} {}, repetition {}: {note}", row.system, row.rep + 1))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::row::tests::example_row;

    #[test]
    fn table_has_a_line_for_each_system_and_its_ratio() {
        let rows = [
            example_row(Pattern::PingPong, "tcp", 0, 3300.0),
            example_row(Pattern::PingPong, "bare", 0, 2200.0),
            example_row(Pattern::Rate, "bare", 0, 1.5e6),
        ];
        let text = tables(&rows);
        assert!(text.contains("bare             2.20 µs"), "{text}");
        assert!(text.contains("1.50 (1.50..1.50)"), "{text}");
        assert!(text.contains("1.500 M/s"), "{text}");
        assert!(!text.contains("stream"), "{text}");
    }
}
