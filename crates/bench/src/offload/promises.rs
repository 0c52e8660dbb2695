//! What offload is to be worth, and what came of it: one line for each promise that the rows can tell something about.

use super::conclude::peak_ratio;
use super::sheets::{Sheet, cases_of};
use crate::figures::Figure;
use crate::plan::Case;
use crate::ratio::{Metric, Spread, ratios, values};
use crate::row::Row;
use crate::sizes::show_bytes;
use crate::system::Pattern;
use crate::table::show_ratio;
use crate::variant::{Bound, Computing, Cores, Rest};

const THREAD: &str = "packhorse thread";
const INLINE: &str = "packhorse inline";
const MPI: &str = "openmpi-tcp";
/// The slice that takes about 4 ms.
const LONG_SLICE: u64 = 3_000_000;

/// A promise: at least, or at most.
#[derive(Clone, Copy)]
enum Bar {
    AtLeast(f64),
    AtMost(f64),
}

impl Bar {
    fn is_met(self, value: f64) -> bool {
        match self {
            Self::AtLeast(bar) => value >= bar,
            Self::AtMost(bar) => value <= bar,
        }
    }

    fn show(self) -> String {
        match self {
            Self::AtLeast(bar) => format!("≥ {bar}"),
            Self::AtMost(bar) => format!("≤ {bar}"),
        }
    }
}

struct Promises<'a> {
    rows: &'a [Row],
    sheet: Sheet,
}

/// All promises that something is known about; none if that is none.
pub fn sheet(rows: &[Row]) -> Option<Sheet> {
    let head = ["promise", "", "verdict", "median (least..most)", "where it was worst"];
    let sheet = Sheet::new("What was promised (Packhorse, placement thread)", 3, &head);
    let mut promises = Promises { rows, sheet };
    promises.overlap();
    promises.availability();
    promises.double_buffers();
    promises.waiting();
    promises.idle();
    (!promises.sheet.lines.is_empty()).then_some(promises.sheet)
}

impl Promises<'_> {
    /// The worst of what was found decides.
    fn promise(&mut self, what: &str, bar: Bar, found: Vec<(Spread, String)>) {
        let worst = found.into_iter().reduce(|a, b| {
            let is_worse = match bar {
                Bar::AtLeast(_) => b.0.median < a.0.median,
                Bar::AtMost(_) => b.0.median > a.0.median,
            };
            if is_worse { b } else { a }
        });
        let Some((spread, place)) = worst else { return };
        let verdict = if bar.is_met(spread.median) { "met" } else { "missed" };
        let cells = [what.to_owned(), bar.show(), verdict.to_owned(), show_ratio(spread), place];
        self.sheet.lines.push(cells.to_vec());
    }

    fn cases(&self, pattern: Pattern, is_wanted: impl Fn(&Case) -> bool) -> Vec<Case> {
        cases_of(self.rows, pattern).into_iter().filter(|case| is_wanted(case)).collect()
    }

    fn values(&self, cases: &[Case], label: &str, figure: Figure) -> Vec<(Spread, String)> {
        let value = |&case: &Case| {
            let spread = values(self.rows, case, label, Metric::Of(figure))?;
            Some((spread, place(case)))
        };
        cases.iter().filter_map(value).collect()
    }

    fn ratios(&self, cases: &[Case], metric: Metric, pair: (&str, &str)) -> Vec<(Spread, String)> {
        let ratio = |&case: &Case| Some((ratios(self.rows, case, metric, pair)?, place(case)));
        cases.iter().filter_map(ratio).collect()
    }

    fn overlap(&mut self) {
        let is_role = |case: &Case| case.variant.computing != Some(Computing::All);
        let at = self.cases(Pattern::Overlap, |case| is_role(case) && case.bytes == 256 << 10);
        let found = self.values(&at, THREAD, Figure::Overlap);
        self.promise("overlap at 256 KB, both roles", Bar::AtLeast(0.9), found);
        let from = self.cases(Pattern::Overlap, |case| is_role(case) && case.bytes >= 1 << 20);
        let found = self.values(&from, THREAD, Figure::Overlap);
        self.promise("overlap from 1 MB on, both roles", Bar::AtLeast(0.95), found);
        let all = self.cases(Pattern::Overlap, |case| !is_role(case));
        let found = self.ratios(&all, Metric::Of(Figure::TotalNs), (THREAD, INLINE));
        self.promise("all cores compute: total time ÷ inline", Bar::AtMost(1.03), found);
    }

    fn availability(&mut self) {
        let at = self.cases(Pattern::Availability, |case| {
            case.bytes == 1 << 20 && case.variant.slice == Some(LONG_SLICE)
        });
        let found = self.ratios(&at, Metric::Bandwidth, (THREAD, MPI));
        self.promise("1 MB, slices of 4 ms: bandwidth ÷ Open MPI's", Bar::AtLeast(10.0), found);
        let found = self.values(&at, THREAD, Figure::Availability);
        self.promise("1 MB, slices of 4 ms: availability", Bar::AtLeast(0.85), found);
        for (bytes, base, bar) in
            [(32 << 10, MPI, 3.0), (1 << 20, MPI, 3.0), (1 << 20, "bare", 0.8)]
        {
            let found = peak_ratio(self.rows, bytes, (THREAD, base));
            let found = found.map(|spread| (spread, show_bytes(bytes))).into_iter().collect();
            let what = format!("peak effective bandwidth ÷ {base}'s");
            self.promise(&what, Bar::AtLeast(bar), found);
        }
        // The paper's gains: receive offload 1.77, send and receive 2.77.
        for (switch, bar) in [("receive", 1.77), ("both", 2.77)] {
            let label = format!("{THREAD} {switch}");
            let is_measured = self.rows.iter().any(|row| row.label() == label);
            // Without a switch the helper does both.
            let label = if is_measured || switch != "both" { &label } else { THREAD };
            let found = peak_ratio(self.rows, 32 << 10, (label, INLINE));
            let found = found.map(|spread| (spread, show_bytes(32 << 10))).into_iter().collect();
            let what = format!("gain of offload {switch} over inline (the paper's)");
            self.promise(&what, Bar::AtLeast(bar), found);
        }
    }

    fn double_buffers(&mut self) {
        for bound in [Bound::Producer, Bound::Consumer] {
            let is_wanted =
                |case: &Case| case.variant.bound == Some(bound) && case.bytes >= 8 << 10;
            let cases = self.cases(Pattern::DoubleBuf, is_wanted);
            let share = |&case: &Case| {
                let of_it = |row: &&Row| row.case() == case && row.label() == THREAD;
                let shares = self.rows.iter().filter(of_it).filter_map(|row| {
                    Some(row.bytes_per_s? / row.figures.get(Figure::LimitBytesPerS)?)
                });
                Some((Spread::of(shares)?, place(case)))
            };
            let found = cases.iter().filter_map(share).collect();
            let what = format!("double buffer from 8 KB, {}: ÷ limit", bound.name());
            self.promise(&what, Bar::AtLeast(0.97), found);
        }
    }

    fn waiting(&mut self) {
        let cases = |cores| move |case: &Case| case.variant.cores == Some(cores);
        let apart = self.cases(Pattern::Waiting, cases(Cores::Apart));
        let found = self.ratios(&apart, Metric::P50, (THREAD, INLINE));
        self.promise("half round trip, both wait: ÷ inline", Bar::AtMost(1.05), found);
        let asleep = format!("{THREAD} asleep");
        let found = self.ratios(&apart, Metric::P50, (&asleep, INLINE));
        self.promise("half round trip, both sleep: ÷ inline", Bar::AtMost(2.5), found);
        let one = self.cases(Pattern::Waiting, cases(Cores::One));
        // TCP that spins is at its worst there, TCP that sleeps at its best.
        for (base, how) in [("tcp", "TCP's, spinning"), ("tcp asleep", "TCP's, asleep")] {
            let found = self.ratios(&one, Metric::P50, (THREAD, base));
            let what = format!("two ranks on one core: half round trip ÷ {how}");
            self.promise(&what, Bar::AtMost(2.0), found);
        }
    }

    fn idle(&mut self) {
        for (rest, bar) in [(Rest::Idle, 1.0), (Rest::Receive, 2.0)] {
            let cases = self.cases(Pattern::Idle, |case| case.variant.rest == Some(rest));
            let found = self.values(&cases, THREAD, Figure::ProcessShare);
            let percent = |(spread, place): (Spread, String)| {
                let Spread { median, min, max } = spread;
                let [median, min, max] = [median, min, max].map(|share| share * 100.0);
                (Spread { median, min, max }, place)
            };
            let found = found.into_iter().map(percent).collect();
            self.promise(&format!("{}: percent of a core", rest.name()), Bar::AtMost(bar), found);
        }
    }
}

/// Where a figure was found, as a person would say it.
fn place(case: Case) -> String {
    let variant = case.variant.label();
    match case.pattern {
        Pattern::Idle | Pattern::Waiting => variant.trim_start_matches(", ").to_owned(),
        _ => format!("{}{variant}", show_bytes(case.bytes)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::Figures;
    use crate::row::tests::example_row;
    use crate::variant::Variant;

    fn overlap(bytes: usize, computing: Computing, value: f64) -> Row {
        let variant = Variant { computing: Some(computing), ..Variant::default() };
        let figures = Figures::of([(Figure::Overlap, value), (Figure::TotalNs, value * 1e6)]);
        let row = example_row(Pattern::Overlap, "packhorse", 0, 1.0);
        Row { bytes, variant, figures, placement: Some("thread".into()), ..row }
    }

    #[test]
    fn the_worst_case_decides() {
        let rows = [
            overlap(1 << 20, Computing::Sender, 0.99),
            overlap(16 << 20, Computing::Receiver, 0.93),
            overlap(256 << 10, Computing::Sender, 0.91),
        ];
        let sheet = sheet(&rows).expect("overlap was measured");
        let verdicts: Vec<_> = sheet.lines.iter().map(|line| (&*line[4], &*line[2])).collect();
        assert_eq!(
            verdicts,
            [("256K, sender computes", "met"), ("16M, receiver computes", "missed")]
        );
    }

    #[test]
    fn nothing_measured_is_nothing_promised() {
        assert_eq!(sheet(&[]), None);
        assert_eq!(sheet(&[example_row(Pattern::Stream, "tcp", 0, 1.0)]), None);
    }
}
