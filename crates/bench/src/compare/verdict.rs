//! What the figures mean, in few lines: what is better than TCP, what is worse, and what to do about that.

use crate::plan::Case;
use crate::ratio::{Metric, Spread, ratios, values};
use crate::rival::OpenMpi;
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
/// Figures of one system in one case that differ by more than this say nothing about that system.
const DOUBTFUL_ABOVE: f64 = 3.0;
/// The kernel's TCP takes 1.2 to 4 times as long as the bare socket; one so far away was kept from the processor.
const ABSURD_ABOVE: f64 = 15.0;
/// What a program uses on one host that has an MPI.
const OWN_MEMORY: &str = OpenMpi::SHM.name;

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
    /// Why ours and TCP cannot be compared by these figures.
    pub doubt: Option<String>,
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
            doubt: doubt(rows, case, metric),
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
        format!("{} {factor:.2}×", self.title())
    }

    fn title(&self) -> String {
        format!("{} of {} bytes", self.name, show_bytes(self.case.bytes))
    }
}

/// What is wrong with the figures of a case, if they allow no verdict: one system contradicts itself, or TCP was so slow beside the bare
/// socket that something else must have had the processor.
fn doubt(rows: &[Row], case: Case, metric: Metric) -> Option<String> {
    for (system, name) in [("tcp", "TCP"), (OURS, "Packhorse")] {
        let Some(spread) = values(rows, case, system, metric) else { continue };
        let times = spread.max / spread.min;
        if times > DOUBTFUL_ABOVE {
            return Some(format!("{name} itself varied {times:.1}×"));
        }
    }
    let to_bare = ratios(rows, case, metric, ("tcp", "bare"))?.median;
    let times = if metric == Metric::P50 { to_bare } else { 1.0 / to_bare };
    (times > ABSURD_ABOVE).then(|| format!("TCP took {times:.0}× the time of the bare socket"))
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
    let (doubtful, gains): (Vec<_>, Vec<_>) =
        gains.into_iter().partition(|(one, _)| one.doubt.is_some());
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
    let mut lines = without_verdict(&doubtful);
    if gains.is_empty() {
        return lines;
    }
    lines.push(format!("better than TCP: {}", listed(&better)));
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
    lines.extend(beside_own_memory(&findings.rows, summaries));
    lines
}

/// Which cases are left out, why, and how to get a verdict on them.
fn without_verdict(doubtful: &[(&Summary, f64)]) -> Vec<String> {
    if doubtful.is_empty() {
        return Vec::new();
    }
    let reason = |(one, _): &(&Summary, f64)| {
        format!("{} ({})", one.title(), one.doubt.as_deref().unwrap_or_default())
    };
    let all: Vec<_> = doubtful.iter().map(reason).collect();
    vec![
        format!("no verdict on: {}", all.join(", ")),
        "what to do: something else had the processors; end it, or give it time to end, then repeat with --reps 9".into(),
    ]
}

/// How long ours takes beside the memory of the MPI that is installed, where that was measured.
fn beside_own_memory(rows: &[Row], summaries: &[Summary]) -> Option<String> {
    let times = |one: &Summary| {
        let [ours, own] = [OURS, OWN_MEMORY]
            .map(|system| values(rows, one.case, system, one.metric).map(|it| it.median));
        let ratio = ours? / own?;
        let times = if one.metric == Metric::P50 { ratio } else { 1.0 / ratio };
        Some(one.phrase(times))
    };
    let all: Vec<_> = summaries.iter().filter_map(times).collect();
    (!all.is_empty())
        .then(|| format!("time beside Open MPI's own memory, measured once: {}", all.join(", ")))
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

    /// A busy machine once had TCP at 455 µs, and Packhorse praised as 51 times better.
    #[test]
    fn figures_that_cannot_be_are_no_verdict() {
        let slow = findings(&[(OURS, 4.0), ("tcp", 228.0), ("bare", 1.0)]);
        let said = headline(&slow, true).join("\n");
        let why = "no verdict on: latency of 8 bytes (TCP took 228× the time of the bare socket)";
        assert!(said.contains(why), "{said}");
        assert!(!said.contains("better than TCP: latency"), "{said}");
        assert!(said.contains("what to do: ") && said.contains("--reps"), "{said}");
        let mut uneven = findings(&[(OURS, 1.1), ("tcp", 1.5), ("bare", 1.0)]);
        let is_rate = |row: &&mut Row| row.bench == Pattern::Rate && row.system == OURS;
        let row = uneven.rows.iter_mut().find(is_rate).unwrap();
        row.messages_per_s = row.messages_per_s.map(|rate| rate / 6.0);
        let said = headline(&uneven, true).join("\n");
        assert!(said.contains("rate of 8 bytes (Packhorse itself varied 6.0×)"), "{said}");
        assert!(said.contains("better than TCP: latency of 8 bytes 1.36×"), "{said}");
    }

    #[test]
    fn beside_the_memory_of_an_mpi_ours_is_shown_too() {
        let said = |systems: &[(&str, f64)]| headline(&findings(systems), true).join("\n");
        let rivals = [(OURS, 1.0), ("tcp", 4.0), ("bare", 1.0)];
        assert!(!said(&rivals).contains("own memory"));
        let with_memory = said(&[&rivals[..], &[(OWN_MEMORY, 0.25)]].concat());
        let line = "own memory, measured once: latency of 8 bytes 4.00×";
        assert!(with_memory.contains(line), "{with_memory}");
    }

    #[test]
    fn rivals_alone_are_no_verdict_on_ours() {
        let lines = headline(&findings(&[("tcp", 1.5), ("bare", 1.0)]), true).join("\n");
        assert!(lines.contains("was not measured"), "{lines}");
    }
}
