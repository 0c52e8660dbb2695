//! Findings as one self-contained HTML page: plots, tables, machine. No script, no other file.

pub mod command;
mod mpi;
mod offload;
mod plot;

use std::collections::HashMap;
use std::fmt::Write as _;

use anyhow::Result;

use crate::compare::{SUMMARY_COLUMNS, Summary, remarks};
use crate::plan::Case;
use crate::ratio::{Metric, ratios, values};
use crate::row::{Findings, Row};
use crate::sizes::show_bytes;
use crate::system::Pattern;
use crate::table::{cases_of, main_metric, show, show_ratio, systems_of};
use plot::{Chart, colour};

const STYLE: &str = include_str!("style.css");

const PATTERNS: [(Pattern, &str, &str); 3] = [
    (
        Pattern::PingPong,
        "Latency",
        "Half of a round trip over the length of the message; median, and its least and most over \
         the repetitions. Both scales are logarithmic. Lower is better.",
    ),
    (
        Pattern::Stream,
        "Bandwidth",
        "Bytes that arrived in a second, one way, over the length of the message. Higher is better.",
    ),
    (
        Pattern::Rate,
        "Rate",
        "Messages that arrived in a second with a bounded number on their way. Higher is better.",
    ),
];

/// The whole page.
pub fn page(findings: &Findings) -> Result<String> {
    let mut body = String::new();
    body += "<h1>Packhorse measured</h1>\n";
    if findings.rows.iter().any(|row| Pattern::FLOWS.contains(&row.bench)) {
        body += &summary(findings)?;
    }
    body += &offload::promises(&findings.rows)?;
    for (pattern, title, about) in PATTERNS {
        body += &section(&findings.rows, pattern, title, about)?;
    }
    body += &offload::sections(&findings.rows)?;
    body += &mpi::section(&findings.mpi)?;
    body += &setting(findings)?;
    Ok(format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>Packhorse measured</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n\
         {body}</main>\n</body>\n</html>\n"
    ))
}

/// The closing lines of `compare`, their table as a table.
fn summary(findings: &Findings) -> Result<String> {
    let mut text =
        String::from("<div class=\"summary\">\n<table>\n<thead><tr><th></th><th>bytes</th>");
    for name in SUMMARY_COLUMNS {
        write!(text, "<th>{name}</th>")?;
    }
    text += "</tr></thead>\n<tbody>\n";
    for line in Summary::of(&findings.rows) {
        write!(text, "<tr><td>{}</td><td>{}</td>", line.name, show_bytes(line.case.bytes))?;
        for cell in line.cells {
            let cell = cell.map_or("–".into(), |value| show(line.metric, value));
            write!(text, "<td>{cell}</td>")?;
        }
        text += "</tr>\n";
    }
    text += "</tbody>\n</table>\n";
    for remark in remarks(findings) {
        writeln!(text, "<p>{}</p>", escape(&remark))?;
    }
    Ok(text + "</div>\n")
}

fn section(rows: &[Row], pattern: Pattern, title: &str, about: &str) -> Result<String> {
    let cases: Vec<_> = cases_of(rows).into_iter().filter(|case| case.pattern == pattern).collect();
    if cases.is_empty() {
        return Ok(String::new());
    }
    let systems = systems_of(rows);
    let mut text = format!("<section>\n<h2>{title}</h2>\n<p>{about}</p>\n");
    text += &legend(&systems)?;
    let svg = Chart::of_flow(rows, pattern, &cases, &systems).svg()?;
    writeln!(text, "<figure role=\"img\" aria-label=\"{title} over length\">{svg}</figure>")?;
    text += &table(rows, pattern, &cases, &systems)?;
    Ok(text + "</section>\n")
}

fn legend<S: AsRef<str>>(systems: &[S]) -> Result<String> {
    let mut text = String::from("<p class=\"legend\">");
    for (index, system) in systems.iter().map(AsRef::as_ref).enumerate() {
        let (mark, colour) = (plot::mark(index), colour(system));
        // A mark stays beside its name where the line ends.
        let name = escape(system);
        write!(text, "<span><b style=\"color:{colour}\">{mark}</b> {name}</span> ")?;
    }
    Ok(text + "</p>\n")
}

fn table(rows: &[Row], pattern: Pattern, cases: &[Case], systems: &[&str]) -> Result<String> {
    let (metrics, names) = columns(pattern);
    let mut text =
        String::from("<div class=\"scroll\"><table>\n<thead><tr><th>bytes</th><th>system</th>");
    // The ratio beside what it is a ratio of: a narrow screen shows only the first columns.
    let [first, second, third] = names;
    write!(text, "<th>{first}</th><th>÷ bare (min..max)</th><th>{second}</th><th>{third}</th>")?;
    text += "</tr></thead>\n<tbody>\n";
    for &case in cases {
        for (index, system) in systems.iter().enumerate() {
            let class = if index == 0 { " class=\"first\"" } else { "" };
            let bytes = if index == 0 { show_bytes(case.bytes) } else { String::new() };
            write!(text, "<tr{class}><td>{bytes}</td><td>{}</td>", escape(system))?;
            let [first, second, third] = metrics.map(|metric| {
                let value = values(rows, case, system, metric).map(|spread| spread.median);
                value.map_or("–".into(), |value| show(metric, value))
            });
            let ratio = ratios(rows, case, main_metric(pattern), (system, "bare"));
            let ratio = ratio.filter(|_| *system != "bare").map_or(String::new(), show_ratio);
            write!(text, "<td>{first}</td><td>{ratio}</td><td>{second}</td><td>{third}</td>")?;
            text += "</tr>\n";
        }
    }
    Ok(text + "</tbody>\n</table></div>\n")
}

fn columns(pattern: Pattern) -> ([Metric; 3], [&'static str; 3]) {
    match pattern {
        Pattern::PingPong => ([Metric::P50, Metric::P99, Metric::Mean], ["p50", "p99", "mean"]),
        Pattern::Stream => {
            ([Metric::Bandwidth, Metric::Rate, Metric::Cpu], ["bandwidth", "messages", "cpu"])
        }
        _ => ([Metric::Rate, Metric::Bandwidth, Metric::Cpu], ["messages", "bandwidth", "cpu"]),
    }
}

/// How often the same was measured at most. Of pages made of several files no repetition has the number of another.
fn rep_count(rows: &[Row]) -> usize {
    let mut counts = HashMap::new();
    rows.iter().for_each(|row| *counts.entry((row.case(), row.label())).or_insert(0) += 1);
    counts.into_values().max().unwrap_or(0)
}

fn setting(findings: &Findings) -> Result<String> {
    let mut text = String::from("<section>\n<h2>Setting</h2>\n<ul>\n");
    for line in findings.machine.lines() {
        writeln!(text, "<li>{}</li>", escape(&line))?;
    }
    let reps = rep_count(&findings.rows);
    let word = if reps == 1 { "repetition" } else { "repetitions" };
    writeln!(
        text,
        "<li>{reps} {word}, the systems interleaved; figures are medians, ratios are taken \
         within each repetition; processor time is the whole machine's.</li>\n</ul>"
    )?;
    if let Some(command) = &findings.machine.command {
        writeln!(text, "<p>Made by <code>{}</code></p>", escape(command))?;
    }
    Ok(text + "</section>\n")
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;
    use crate::row::tests::example_row;

    fn findings() -> Findings {
        let mut rows = Vec::new();
        for (rep, scale) in [(0, 1.0), (1, 1.1)] {
            for (system, value) in [("bare", 1.0), ("tcp", 1.5)] {
                for bytes in [8, 1024, 65536] {
                    let row = example_row(Pattern::PingPong, system, rep, 2000.0 * value * scale);
                    rows.push(Row { bytes, ..row });
                }
                rows.push(example_row(Pattern::Rate, system, rep, 1e6 * value));
            }
        }
        let command = Some("packhorse bench <&>".into());
        Findings { machine: Machine { command, ..Machine::here() }, rows, ..Findings::default() }
    }

    #[test]
    fn page_needs_nothing_else_and_says_how_it_was_made() {
        let page = page(&findings()).unwrap();
        assert!(page.contains("viewport") && page.contains("@media print"));
        assert!(page.contains("packhorse bench &lt;&amp;&gt;"));
        let without_namespace = page.replace("http://www.w3.org/2000/svg", "");
        for outside in ["http:", "https:", "<script", "<link", "url("] {
            assert!(!without_namespace.contains(outside), "{outside}");
        }
    }

    #[test]
    fn repetitions_are_those_of_one_case() {
        let mut findings = findings();
        let late = |row: Row| Row { rep: row.rep + 2, ..row };
        findings.rows.extend([late(example_row(Pattern::Stream, "tcp", 0, 1.0))]);
        assert!(page(&findings).unwrap().contains("<li>2 repetitions"));
        findings.rows.truncate(1);
        assert!(page(&findings).unwrap().contains("<li>1 repetition,"));
    }

    #[test]
    fn patterns_without_rows_have_no_section() {
        let page = page(&findings()).unwrap();
        assert!(page.contains("<h2>Latency") && page.contains("<h2>Rate"));
        assert!(!page.contains("<h2>Bandwidth"));
        assert_eq!(page.matches("<svg").count(), 2);
        assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
    }

    #[test]
    fn empty_findings_make_a_page_too() {
        assert!(page(&Findings::default()).unwrap().contains("</html>"));
    }
}
