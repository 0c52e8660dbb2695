//! Findings as tables for a terminal.

use std::fmt::Write as _;

use crate::figures::Figure;
use crate::plan::Case;
use crate::ratio::{Metric, Spread, ratios, values};
use crate::row::Row;
use crate::sizes::show_bytes;
use crate::system::Pattern;

/// The system the others are divided by.
const BASE: &str = "bare";

/// The cases that occur in rows, in the order of their first occurrence, pattern by pattern.
pub fn cases_of(rows: &[Row]) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for pattern in Pattern::FLOWS {
        for row in rows.iter().filter(|row| row.bench == pattern) {
            let case = row.case();
            if !cases.contains(&case) {
                cases.push(case);
            }
        }
    }
    cases
}

/// The systems that occur in rows, in the order of [`crate::SYSTEMS`], strangers last.
pub fn systems_of(rows: &[Row]) -> Vec<&str> {
    let mut systems: Vec<&str> = Vec::new();
    for row in rows.iter().filter(|row| Pattern::FLOWS.contains(&row.bench)) {
        if !systems.contains(&row.system.as_str()) {
            systems.push(&row.system);
        }
    }
    let place = |name: &str| crate::SYSTEMS.iter().position(|system| system.name() == name);
    systems.sort_by_key(|name| place(name).unwrap_or(usize::MAX));
    systems
}

/// The metric a pattern is about.
pub fn main_metric(pattern: Pattern) -> Metric {
    match pattern {
        Pattern::PingPong => Metric::P50,
        Pattern::Rate => Metric::Rate,
        _ => Metric::Bandwidth,
    }
}

/// A value with its unit.
pub fn show(metric: Metric, value: f64) -> String {
    match metric {
        Metric::P50 | Metric::P99 | Metric::Mean => format!("{:.2} µs", value / 1e3),
        Metric::Bandwidth | Metric::Effective => show_rate(value),
        Metric::Rate => format!("{:.3} M/s", value / 1e6),
        Metric::Cpu => format!("{value:.2} s/GB"),
        Metric::Of(figure) => show_figure(figure, value),
    }
}

fn show_rate(value: f64) -> String {
    if value < 1e8 {
        format!("{:.1} MB/s", value / 1e6)
    } else {
        format!("{:.2} GB/s", value / 1e9)
    }
}

fn show_figure(figure: Figure, value: f64) -> String {
    use Figure::*;
    match figure {
        Availability | Overlap | WorkShare => format!("{value:.3}"),
        ProcessShare => format!("{:.2} %", value * 100.0),
        SliceNs | CommNs | CompNs | TotalNs | PostSendNs | PostRecvNs | WaitNs => show_ns(value),
        LinkBytesPerS
        | LimitBytesPerS
        | ProducerAloneBytesPerS
        | ConsumerAloneBytesPerS
        | ProducerBytesPerS
        | ConsumerBytesPerS => show_rate(value),
    }
}

/// A time with the unit that suits it.
pub fn show_ns(ns: f64) -> String {
    match ns {
        ns if ns < 1e3 => format!("{ns:.0} ns"),
        ns if ns < 1e6 => format!("{:.2} µs", ns / 1e3),
        ns => format!("{:.2} ms", ns / 1e6),
    }
}

/// A ratio and its spread.
pub fn show_ratio(spread: Spread) -> String {
    format!("{:.2} ({:.2}..{:.2})", spread.median, spread.min, spread.max)
}

/// All tables.
pub fn tables(rows: &[Row]) -> String {
    let mut text = String::new();
    for pattern in Pattern::FLOWS {
        let cases: Vec<_> =
            cases_of(rows).into_iter().filter(|case| case.pattern == pattern).collect();
        if !cases.is_empty() {
            table(&mut text, rows, pattern, &cases);
        }
    }
    for note in notes(rows.iter().filter(|row| Pattern::FLOWS.contains(&row.bench))) {
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
        _ => (
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

/// What should be known of these rows.
pub fn notes<'a>(rows: impl IntoIterator<Item = &'a Row>) -> Vec<String> {
    rows.into_iter()
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
    use crate::row::tests::example_row;

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
