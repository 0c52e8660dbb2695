//! What the figures mean, in few lines: what is better than TCP, what is worse, and what to do about that.

use crate::plan::Case;
use crate::ratio::{Metric, Spread, ratios, values};
use crate::row::{Findings, OURS, Row};
use crate::sizes::show_bytes;
use crate::system::Pattern;
use crate::table::{cases_of, main_metric, show};

use super::advice::advice;

/// Columns of the summary: ours, and the two it is measured by.
pub const COLUMNS: [&str; 3] = [OURS, "tcp", "bare"];
/// Two figures nearer than this are called equal.
const EQUAL_WITHIN: f64 = 0.05;
/// A spread of ratios beyond this says that the machine had other things to do.
const UNSTEADY_ABOVE: f64 = 1.5;

/// One line of the summary.
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
    /// Latency of the shortest message, rate of the shortest, bandwidth of the one nearest to 1 MB: each stands for its pattern.
    pub fn of(rows: &[Row]) -> Vec<Self> {
        let cases = cases_of(rows);
        let find = |pattern| cases.iter().filter(move |case| case.pattern == pattern).copied();
        let distance = |case: &Case| (case.bytes as f64 / f64::from(1 << 20)).ln().abs();
        let chosen = [
            find(Pattern::PingPong).min_by_key(|case| case.bytes),
            find(Pattern::Rate).min_by_key(|case| case.bytes),
            find(Pattern::Stream).min_by(|a, b| distance(a).total_cmp(&distance(b))),
        ];
        chosen.into_iter().flatten().map(|case| Self::new(rows, case)).collect()
    }

    /// One for each case that was measured.
    pub fn each(rows: &[Row]) -> Vec<Self> {
        cases_of(rows).into_iter().map(|case| Self::new(rows, case)).collect()
    }

    fn new(rows: &[Row], case: Case) -> Self {
        let metric = main_metric(case.pattern);
        let name = match case.pattern {
            Pattern::PingPong => "latency",
            Pattern::Rate => "rate",
            _ => "bandwidth",
        };
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

    /// The case and by how much it is better or worse.
    fn phrase(&self, factor: f64) -> String {
        format!("{} of {} bytes {factor:.2}×", self.name, show_bytes(self.case.bytes))
    }
}

/// The closing lines: the figures, each ours | TCP | bare; what is better, worse, and what to do. Quickly measured are few cases, and
/// all are shown; of many those that stand for the others.
pub fn headline(findings: &Findings, is_quick: bool) -> Vec<String> {
    let rows = &findings.rows;
    let summaries = if is_quick { Summary::each(rows) } else { Summary::of(rows) };
    let [ours, tcp, bare] = COLUMNS;
    let mut lines = vec![format!("{:<10}{ours:>12} |{tcp:>12} |{bare:>12}", "")];
    lines.extend(summaries.iter().map(Summary::line));
    lines.extend(remarks(findings));
    lines
}

/// What is said below the figures: the verdict on all cases, a doubt if there is one, what to do and what to try next.
pub fn remarks(findings: &Findings) -> Vec<String> {
    let summaries = Summary::each(&findings.rows);
    let mut lines = verdict(findings, &summaries);
    if is_unsteady(&summaries) {
        lines.push(
            "the ratios vary much: something else was running; repeat on a quiet machine".into(),
        );
    }
    lines.push(format!("next: {}", next(findings)));
    lines
}

/// Better, equal, worse, what to do; and the share of the first case that is ours, beside the bare link.
fn verdict(findings: &Findings, summaries: &[Summary]) -> Vec<String> {
    let gains: Vec<(&Summary, f64)> =
        summaries.iter().filter_map(|one| Some((one, one.gain()?))).collect();
    if gains.is_empty() {
        return vec!["verdict: Packhorse was not measured here, only its rivals".into()];
    }
    let (mut better, mut equal, mut worse) = (Vec::new(), Vec::new(), Vec::new());
    let mut slow: Vec<&Summary> = Vec::new();
    for &(one, gain) in &gains {
        if (gain - 1.0).abs() <= EQUAL_WITHIN {
            equal.push(one.phrase(gain));
        } else if gain > 1.0 {
            better.push(one.phrase(gain));
        } else {
            worse.push(one.phrase(1.0 / gain));
            slow.push(one);
        }
    }
    let listed = |all: &[String]| if all.is_empty() { "nothing".into() } else { all.join(", ") };
    let mut lines = vec![format!("better than TCP: {}", listed(&better))];
    if !equal.is_empty() {
        lines.push(format!(
            "equal to TCP within {:.0} %: {}",
            EQUAL_WITHIN * 100.0,
            listed(&equal)
        ));
    }
    lines.push(format!("worse than TCP: {}", listed(&worse)));
    lines.extend(advice(findings, &slow).into_iter().map(|text| format!("what to do: {text}")));
    if let Some((first, spread)) = summaries.first().and_then(|one| Some((one, one.to_bare?))) {
        lines.push(format!("beside the bare link: {}", first.phrase(spread.median)));
    }
    lines
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
        "packhorse compare --quick --two-hosts   (on one host messages go through memory; between two, over the wire)"
    } else if is_large {
        "the same with --no-offload, as over a card without segmentation"
    } else {
        "the same with --mtu 9000, if your network can carry large packets"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::tests::example_row;

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
    fn quick_closes_with_a_line_for_each_case_and_what_they_mean() {
        let mut findings = findings(&[(OURS, 1.1), ("tcp", 1.5), ("bare", 1.0)]);
        for (system, ns) in [(OURS, 3000.0), ("tcp", 1000.0)] {
            let row = example_row(Pattern::PingPong, system, 0, ns);
            findings.rows.push(Row { bytes: 4096, ..row });
        }
        let lines = headline(&findings, true);
        let text = lines.join("\n");
        assert!(lines.len() <= 16, "{text}");
        let starts = [
            "latency",
            "latency",
            "bandwidth",
            "rate",
            "better than TCP: latency of 8 bytes 1.36×",
        ];
        for (line, word) in lines.iter().skip(1).zip(starts) {
            assert!(line.starts_with(word), "{word}: {text}");
        }
        assert!(
            text.contains("\nworse than TCP: latency of 4K bytes 3.00×\nwhat to do: "),
            "{text}"
        );
        assert!(text.contains("beside the bare link: latency of 8 bytes 1.10×"), "{text}");
        assert!(lines.last().unwrap().starts_with("next:"));
        assert_eq!(Summary::of(&findings.rows).len(), 3, "of several latencies one stands for all");
    }

    #[test]
    fn worse_is_called_worse_and_equal_equal() {
        let said = |ours: f64| {
            headline(&findings(&[(OURS, ours), ("tcp", 1.5), ("bare", 1.0)]), true).join("\n")
        };
        let worse = said(3.0);
        assert!(worse.contains("worse than TCP: latency of 8 bytes 2.00×"), "{worse}");
        assert!(
            worse.contains("better than TCP: nothing") && worse.contains("what to do"),
            "{worse}"
        );
        let equal = said(1.5 * 1.04);
        assert!(equal.contains("equal to TCP within 5 %: latency of 8 bytes 0.96×"), "{equal}");
        assert!(
            equal.contains("worse than TCP: nothing") && !equal.contains("what to do"),
            "{equal}"
        );
    }

    #[test]
    fn rivals_alone_are_no_verdict_on_ours() {
        let lines = headline(&findings(&[("tcp", 1.5), ("bare", 1.0)]), true).join("\n");
        assert!(lines.contains("was not measured"), "{lines}");
    }
}
