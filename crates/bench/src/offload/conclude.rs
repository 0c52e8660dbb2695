//! What follows from the polling-interval loop: peaks of effective bandwidth, and availability at equal bandwidth.

use super::sheets::{Sheet, cases_of, contenders_of, show_slice};
use crate::figures::Figure;
use crate::ratio::{Metric, Spread, values};
use crate::row::Row;
use crate::sizes::show_bytes;
use crate::system::Pattern;
use crate::table::{show, show_ratio};

/// Whom peaks are divided by.
const BASES: [&str; 4] = ["packhorse inline", "tcp", "openmpi-tcp", "bare"];

fn rows_of<'a>(rows: &'a [Row], bytes: usize, label: &'a str) -> impl Iterator<Item = &'a Row> {
    let is_it = move |row: &&Row| row.bench == Pattern::Availability && row.bytes == bytes;
    rows.iter().filter(is_it).filter(move |row| row.label() == label)
}

fn sizes_of(rows: &[Row]) -> Vec<usize> {
    let mut sizes: Vec<_> =
        cases_of(rows, Pattern::Availability).iter().map(|case| case.bytes).collect();
    sizes.dedup();
    sizes
}

/// The best of all slices in one repetition.
fn peak_of(rows: &[Row], bytes: usize, label: &str, rep: usize) -> Option<(f64, u64)> {
    let of_rep = rows_of(rows, bytes, label).filter(|row| row.rep == rep);
    let points = of_rep.filter_map(|row| Some((Metric::Effective.of(row)?, row.variant.slice?)));
    points.max_by(|a, b| a.0.total_cmp(&b.0))
}

/// One contender's peak divided by another's, repetition by repetition.
pub(super) fn peak_ratio(rows: &[Row], bytes: usize, pair: (&str, &str)) -> Option<Spread> {
    let reps = rows.iter().map(|row| row.rep + 1).max().unwrap_or(0);
    Spread::of((0..reps).filter_map(|rep| {
        let rival = peak_of(rows, bytes, pair.1, rep)?;
        Some(peak_of(rows, bytes, pair.0, rep)?.0 / rival.0)
    }))
}

/// Peak effective bandwidth of each contender, and what it is divided by the others'; ratios within repetitions.
pub(super) fn peaks(rows: &[Row]) -> Sheet {
    let labels = contenders_of(rows, Pattern::Availability);
    let bases: Vec<&str> =
        BASES.into_iter().filter(|base| labels.iter().any(|label| label == base)).collect();
    let heads: Vec<String> = bases.iter().map(|base| format!("÷ {base}")).collect();
    let mut head = vec!["bytes", "contender", "peak", "at slice"];
    head.extend(heads.iter().map(String::as_str));
    let mut sheet =
        Sheet::new("peak effective bandwidth (availability × bandwidth) over all slices", 2, &head);
    let reps = rows.iter().map(|row| row.rep + 1).max().unwrap_or(0);
    for bytes in sizes_of(rows) {
        for label in &labels {
            let peaks: Vec<_> =
                (0..reps).filter_map(|rep| peak_of(rows, bytes, label, rep)).collect();
            let Some(spread) = Spread::of(peaks.iter().map(|peak| peak.0)) else { continue };
            let mut slices: Vec<u64> = peaks.iter().map(|peak| peak.1).collect();
            slices.sort_unstable();
            let slice = slices.get(slices.len() / 2).copied().unwrap_or(0);
            let mut line = vec![show_bytes(bytes), label.clone()];
            line.extend([show(Metric::Effective, spread.median), show_slice(rows, slice)]);
            line.extend(bases.iter().map(|base| {
                let ratio = peak_ratio(rows, bytes, (label, base)).filter(|_| label != base);
                ratio.map_or(String::new(), show_ratio)
            }));
            sheet.lines.push(line);
        }
    }
    sheet
}

/// Medians of bandwidth and availability at each slice.
fn curve(rows: &[Row], bytes: usize, label: &str) -> Vec<(f64, f64)> {
    let cases = cases_of(rows, Pattern::Availability).into_iter();
    let points = cases.filter(|case| case.bytes == bytes).filter_map(|case| {
        let bandwidth = values(rows, case, label, Metric::Bandwidth)?.median;
        let availability = values(rows, case, label, Metric::Of(Figure::Availability))?.median;
        Some((bandwidth, availability))
    });
    points.collect()
}

/// The most availability at which a curve still has this bandwidth, between two of its points if need be.
fn availability_at(curve: &[(f64, f64)], bandwidth: f64) -> Option<f64> {
    let at_points = curve.iter().filter(|point| point.0 >= bandwidth).map(|point| point.1);
    let crossings = curve.windows(2).filter_map(|pair| {
        let ((b0, a0), (b1, a1)) = (pair[0], pair[1]);
        let crosses = (b0 - bandwidth) * (b1 - bandwidth) < 0.0;
        crosses.then(|| a0 + (a1 - a0) * (bandwidth - b0) / (b1 - b0))
    });
    at_points.chain(crossings).max_by(f64::total_cmp)
}

/// The bandwidth that is held equal: what Packhorse reaches without a helper at its best effective bandwidth, as the paper
/// took its original implementation's; without that, the least of all peaks.
fn equal_to(rows: &[Row], bytes: usize, labels: &[String]) -> Option<f64> {
    let best = |label: &str| {
        let curve = curve(rows, bytes, label);
        curve.into_iter().max_by(|a, b| (a.0 * a.1).total_cmp(&(b.0 * b.1))).map(|point| point.0)
    };
    best("packhorse inline").or_else(|| {
        let bests = labels.iter().filter_map(|label| best(label));
        bests.min_by(f64::total_cmp)
    })
}

/// Availability of each contender at the same bandwidth.
pub(super) fn equal_bandwidth(rows: &[Row]) -> Sheet {
    let labels = contenders_of(rows, Pattern::Availability);
    let head = ["bytes", "contender", "bandwidth held equal", "availability"];
    let mut sheet = Sheet::new("availability at equal bandwidth (of median curves)", 2, &head);
    for bytes in sizes_of(rows) {
        let Some(bandwidth) = equal_to(rows, bytes, &labels) else { continue };
        for label in &labels {
            let curve = curve(rows, bytes, label);
            if curve.is_empty() {
                continue;
            }
            let availability = availability_at(&curve, bandwidth);
            let cell = availability.map_or("not reached".into(), |value| format!("{value:.3}"));
            let held = show(Metric::Bandwidth, bandwidth);
            sheet.lines.push(vec![show_bytes(bytes), label.clone(), held, cell]);
        }
    }
    sheet
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn availability_is_found_between_points() {
        let curve = [(40.0, 0.2), (40.0, 0.6), (20.0, 0.8), (0.0, 1.0)];
        assert_eq!(availability_at(&curve, 40.0), Some(0.6));
        assert!((availability_at(&curve, 30.0).unwrap() - 0.7).abs() < 1e-9);
        assert_eq!(availability_at(&curve, 50.0), None);
        assert_eq!(availability_at(&[], 1.0), None);
    }
}
