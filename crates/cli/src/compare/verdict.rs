//! What the figures mean, in at most a dozen lines.

use crate::bench::plan::Case;
use crate::bench::ratio::{Metric, Spread, ratios, values};
use crate::bench::row::{Findings, OURS, Row};
use crate::bench::sizes::show_bytes;
use crate::bench::system::Pattern;
use crate::bench::table::{cases_of, main_metric, show};

/// Columns of the summary: ours, and the two it is measured by.
pub const COLUMNS: [&str; 3] = [OURS, "tcp", "bare"];
/// Two figures nearer than this are called equal.
const EQUAL_WITHIN: f64 = 0.03;
/// A spread of ratios beyond this says that the machine had other things to do.
const UNSTEADY_ABOVE: f64 = 1.5;

/// One line of the summary: the case that stands for a pattern.
#[derive(Clone, Debug)]
pub struct Summary {
    /// `latency`, `rate` or `bandwidth`.
    pub name: &'static str,
    /// Which case.
    pub case: Case,
    /// What of it.
    pub metric: Metric,
    /// Medians: ours, TCP, bare.
    pub cells: [Option<f64>; 3],
    /// Ours divided by TCP.
    pub to_tcp: Option<Spread>,
    /// Ours divided by the bare link.
    pub to_bare: Option<Spread>,
}

impl Summary {
    /// Latency of the shortest message, rate of the shortest, bandwidth of the one nearest to 1 MB.
    pub fn of(rows: &[Row]) -> Vec<Self> {
        let cases = cases_of(rows);
        let find = |pattern| cases.iter().filter(move |case| case.pattern == pattern).copied();
        let distance = |case: &Case| (case.bytes as f64 / f64::from(1 << 20)).ln().abs();
        let chosen = [
            ("latency", find(Pattern::PingPong).min_by_key(|case| case.bytes)),
            ("rate", find(Pattern::Rate).min_by_key(|case| case.bytes)),
            ("bandwidth", find(Pattern::Stream).min_by(|a, b| distance(a).total_cmp(&distance(b)))),
        ];
        let made = chosen.into_iter().filter_map(|(name, case)| Some((name, case?)));
        made.map(|(name, case)| Self::new(rows, name, case)).collect()
    }

    fn new(rows: &[Row], name: &'static str, case: Case) -> Self {
        let metric = main_metric(case.pattern);
        Self {
            name,
            case,
            metric,
            cells: COLUMNS.map(|system| values(rows, case, system, metric).map(|s| s.median)),
            to_tcp: ratios(rows, case, metric, (OURS, "tcp")),
            to_bare: ratios(rows, case, metric, (OURS, "bare")),
        }
    }

    fn line(&self) -> String {
        let [ours, tcp, bare] =
            self.cells.map(|cell| cell.map_or("-".into(), |value| show(self.metric, value)));
        let what = match self.case.pattern {
            Pattern::PingPong => "half round trip, median",
            Pattern::Rate => "messages a second",
            _ => "bytes a second",
        };
        let bytes = show_bytes(self.case.bytes);
        format!("{:<10}{ours:>12} |{tcp:>12} |{bare:>12}   {bytes} bytes, {what}", self.name)
    }

    /// By how much ours is better than TCP: above 1 is better, whatever the metric.
    fn gain(&self) -> Option<f64> {
        let ratio = self.to_tcp?.median;
        Some(if self.case.pattern == Pattern::PingPong { 1.0 / ratio } else { ratio })
    }
}

/// The closing lines: latency, rate and bandwidth, each ours | TCP | bare, one verdict, what to try next.
pub fn headline(findings: &Findings) -> Vec<String> {
    let summaries = Summary::of(&findings.rows);
    let [ours, tcp, bare] = COLUMNS;
    let mut lines = vec![format!("{:<10}{ours:>12} |{tcp:>12} |{bare:>12}", "")];
    lines.extend(summaries.iter().map(Summary::line));
    lines.extend(remarks(findings));
    lines
}

/// What is said below the figures: the verdict, a doubt if there is one, and what to try next.
pub fn remarks(findings: &Findings) -> Vec<String> {
    let summaries = Summary::of(&findings.rows);
    let mut lines = vec![format!("verdict: {}", verdict(&summaries))];
    if is_unsteady(&summaries) {
        lines.push(
            "the ratios vary much: something else was running; repeat on a quiet machine".into(),
        );
    }
    lines.push(format!("next: {}", next(findings)));
    lines
}

fn verdict(summaries: &[Summary]) -> String {
    let gains: Vec<(&str, f64)> =
        summaries.iter().filter_map(|summary| Some((summary.name, summary.gain()?))).collect();
    if gains.is_empty() {
        return "Packhorse was not measured here, only its rivals".into();
    }
    let phrase = |&(name, gain): &(&str, f64)| {
        if (gain - 1.0).abs() <= EQUAL_WITHIN {
            format!("{name} equal to TCP")
        } else if gain > 1.0 {
            format!("{name} {gain:.2}× better than TCP")
        } else {
            format!("{name} {:.2}× worse than TCP", 1.0 / gain)
        }
    };
    let mut text = gains.iter().map(phrase).collect::<Vec<_>>().join(", ");
    if let Some(spread) = summaries.first().and_then(|summary| summary.to_bare) {
        let name = summaries[0].name;
        text += &format!("; {name} {:.2}× the bare link's", spread.median);
    }
    text
}

fn is_unsteady(summaries: &[Summary]) -> bool {
    let spreads = summaries.iter().flat_map(|summary| [summary.to_tcp, summary.to_bare]).flatten();
    spreads.into_iter().any(|spread| spread.max > UNSTEADY_ABOVE * spread.min)
}

fn next(findings: &Findings) -> &'static str {
    let is_loopback =
        findings.machine.interface.as_ref().is_some_and(|interface| interface.name == "lo");
    let is_large = findings.rows.iter().any(|row| row.mtu >= 9000);
    if findings.machine.peer.is_some() {
        "the same without --quick and with --html report.html   (all sizes, plots); or --placement thread"
    } else if is_loopback {
        "packhorse compare --two-hosts --html report.html   (a real wire's packets, all sizes, plots)"
    } else if is_large {
        "the same with --no-offload, as over a card without segmentation"
    } else {
        "the same with --mtu 9000, if your network can carry large packets"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::row::tests::example_row;

    fn findings(systems: &[(&str, f64)]) -> Findings {
        let mut rows = Vec::new();
        for rep in 0..3 {
            for &(system, scale) in systems {
                rows.push(example_row(Pattern::PingPong, system, rep, 2000.0 * scale));
                rows.push(example_row(Pattern::Rate, system, rep, 1e6 / scale));
                rows.push(example_row(Pattern::Stream, system, rep, 1e8 / scale));
            }
        }
        Findings { rows, ..Findings::default() }
    }

    #[test]
    fn quick_closes_with_a_dozen_lines_at_most() {
        let lines = headline(&findings(&[(OURS, 1.1), ("tcp", 1.5), ("bare", 1.0)]));
        assert!(lines.len() <= 12, "{lines:#?}");
        for (line, word) in lines.iter().skip(1).zip(["latency", "rate", "bandwidth", "verdict"]) {
            assert!(line.starts_with(word), "{line}");
        }
        let verdict = &lines[4];
        assert!(verdict.contains("latency 1.36× better than TCP"), "{verdict}");
        assert!(verdict.contains("1.10× the bare"), "{verdict}");
        assert!(lines.last().unwrap().starts_with("next:"));
    }

    #[test]
    fn worse_is_called_worse_and_equal_equal() {
        let worse = headline(&findings(&[(OURS, 3.0), ("tcp", 1.5), ("bare", 1.0)])).join("\n");
        assert!(
            worse.contains("latency 2.00× worse") && worse.contains("rate 2.00× worse"),
            "{worse}"
        );
        let equal = headline(&findings(&[(OURS, 1.0), ("tcp", 1.0)])).join("\n");
        assert!(equal.contains("latency equal to TCP"), "{equal}");
    }

    #[test]
    fn rivals_alone_are_no_verdict_on_ours() {
        let lines = headline(&findings(&[("tcp", 1.5), ("bare", 1.0)])).join("\n");
        assert!(lines.contains("was not measured"), "{lines}");
    }
}
