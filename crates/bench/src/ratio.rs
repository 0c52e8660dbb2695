//! Ratios and their spread: the median, and the least and most, of what each repetition gave.
//!
//! A number by itself depends on the minute it was measured in; the ratio of two that were measured side by side
//! much less so. So ratios are taken within each repetition first.

use crate::figures::Figure;
use crate::plan::Case;
use crate::row::Row;

/// What of a row is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// Median half round trip, ns.
    P50,
    /// 99th percentile of half round trips, ns.
    P99,
    /// Mean half round trip, ns.
    Mean,
    /// Bytes a second.
    Bandwidth,
    /// Messages a second.
    Rate,
    /// Processor seconds for 10⁹ bytes.
    Cpu,
    /// Bandwidth × availability.
    Effective,
    /// One that a pattern of offload found.
    Of(Figure),
}

impl Metric {
    /// Its value in a row, if it has one.
    pub fn of(self, row: &Row) -> Option<f64> {
        match self {
            Self::P50 => row.half_rtt_ns.map(|latency| latency.p50 as f64),
            Self::P99 => row.half_rtt_ns.map(|latency| latency.p99 as f64),
            Self::Mean => row.half_rtt_ns.map(|latency| latency.mean as f64),
            Self::Bandwidth => row.bytes_per_s,
            Self::Rate => row.messages_per_s,
            Self::Cpu => row.cpu_s_per_gb,
            Self::Effective => Some(row.bytes_per_s? * row.figures.get(Figure::Availability)?),
            Self::Of(figure) => row.figures.get(figure),
        }
    }
}

/// Middle and ends of a handful of numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The one in the middle, or the mean of the two there.
    pub median: f64,
    /// The least.
    pub min: f64,
    /// The most.
    pub max: f64,
}

impl Spread {
    /// Of nothing there is none.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
        values.sort_by(f64::total_cmp);
        let (&min, &max) = (values.first()?, values.last()?);
        let middle = values.len() / 2;
        let median = if values.len() % 2 == 1 {
            values[middle]
        } else {
            f64::midpoint(values[middle - 1], values[middle])
        };
        Some(Self { median, min, max })
    }
}

fn rows_of<'a>(rows: &'a [Row], case: Case, system: &'a str) -> impl Iterator<Item = &'a Row> {
    rows.iter().filter(move |row| row.case() == case && row.label() == system)
}

/// A contender's values over the repetitions of a case; it is named as by [`Row::label`].
pub fn values(rows: &[Row], case: Case, system: &str, metric: Metric) -> Option<Spread> {
    Spread::of(rows_of(rows, case, system).filter_map(|row| metric.of(row)))
}

/// One system's value divided by another's, repetition by repetition.
pub fn ratios(rows: &[Row], case: Case, metric: Metric, pair: (&str, &str)) -> Option<Spread> {
    Spread::of(rows_of(rows, case, pair.0).filter_map(|row| {
        let rival = rows_of(rows, case, pair.1).find(|rival| rival.rep == row.rep)?;
        Some(metric.of(row)? / metric.of(rival)?)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::tests::example_row;
    use crate::system::Pattern;

    #[test]
    fn spread_of_odd_even_and_none() {
        let spread = |values: &[f64]| Spread::of(values.iter().copied());
        assert_eq!(spread(&[3.0, 1.0, 2.0]), Some(Spread { median: 2.0, min: 1.0, max: 3.0 }));
        assert_eq!(spread(&[4.0, 1.0]), Some(Spread { median: 2.5, min: 1.0, max: 4.0 }));
        assert_eq!(spread(&[]), None);
        assert_eq!(spread(&[f64::NAN, f64::INFINITY]), None);
    }

    #[test]
    fn ratios_are_taken_within_a_repetition() {
        // The machine was twice as slow in the second repetition; the ratio does not care.
        let rows: Vec<_> =
            [("bare", 0, 2000.0), ("tcp", 0, 3000.0), ("bare", 1, 4000.0), ("tcp", 1, 6000.0)]
                .into_iter()
                .map(|(system, rep, ns)| example_row(Pattern::PingPong, system, rep, ns))
                .collect();
        let case = Case::plain(Pattern::PingPong, 8);
        let spread = ratios(&rows, case, Metric::P50, ("tcp", "bare")).unwrap();
        assert_eq!(spread, Spread { median: 1.5, min: 1.5, max: 1.5 });
        assert_eq!(values(&rows, case, "tcp", Metric::P50).unwrap().median, 4500.0);
        assert_eq!(ratios(&rows, case, Metric::P50, ("tcp", "none")), None);
        assert_eq!(ratios(&rows, case, Metric::Bandwidth, ("tcp", "bare")), None);
    }
}
