//! The sections of the offload patterns: plots, and the sheets that the terminal shows too.

use std::fmt::Write as _;

use anyhow::Result;

use super::plot::{Axis, Chart, LIMIT, Line, SMALL, Scale, scaled, unit};
use super::{escape, legend};
use crate::figures::Figure;
use crate::offload::promises;
use crate::offload::sheets::{Sheet, cases_of, contenders_of, sheets};
use crate::plan::Case;
use crate::ratio::{Metric, Spread, values};
use crate::row::Row;
use crate::sizes::show_bytes;
use crate::system::Pattern;
use crate::variant::{Bound, Computing};

/// A sheet with more lines than this is folded.
const LINES_OPEN_MAX: usize = 16;
/// An overlap outside of these is drawn at the edge: what is lost has no bound, and what is won beyond all is noise.
const OVERLAP_DRAWN: (f64, f64) = (-0.5, 1.2);

/// Titles of the sections, and what they show.
fn about(pattern: Pattern) -> (&'static str, &'static str) {
    match pattern {
        Pattern::Availability => (
            "Availability",
            "Several messages are under way each way; the application works in slices of so many units and polls after each \
             (RMPP's polling interval, its Figures 10 and 11). Bandwidth is what arrives at the working side; availability the \
             time of the work alone ÷ its time here; effective bandwidth the product.",
        ),
        Pattern::DoubleBuf => (
            "Double buffering",
            "A producer and a consumer with two buffers each. The limit is the least of producer alone, consumer alone and \
             bare link. Below, what the two sides reached while they handled buffers: communication may slow them.",
        ),
        Pattern::Overlap => (
            "Overlap",
            "Post, compute without any call, wait. Overlap is (T_comm + T_comp − T_total) ÷ T_comm with T_comp = 3 × T_comm: 1 \
             hides all of the transfer, 0 nothing, below 0 it was made longer (drawn from −0.5 to 1.2). When both sides compute \
             on all cores there is nowhere to hide; the total time should not be longer with a helper than without.",
        ),
        Pattern::Posts => (
            "What calls cost",
            "Five receives and five sends posted, some work, a wait for all (EMP's Table 2 and Figure 6): messages received a \
             second over the share of the time that the application worked.",
        ),
        Pattern::Waiting => (
            "Waiting",
            "Half a round trip when those who wait spin, and when they sleep at once; a core each, and both on one core.",
        ),
        _ => (
            "Idle",
            "Processor time of a process that has an endpoint and does nothing, or waits in a blocking receive.",
        ),
    }
}

/// All sections that have something to show.
pub(super) fn sections(rows: &[Row]) -> Result<String> {
    let mut text = String::new();
    for pattern in Pattern::OFFLOAD {
        let sheets = sheets(rows, pattern);
        if sheets.is_empty() {
            continue;
        }
        let (title, about) = about(pattern);
        writeln!(text, "<section>\n<h2>{title}</h2>\n<p>{}</p>", escape(about))?;
        let charts = charts(rows, pattern);
        if !charts.is_empty() {
            text += &legend(&contenders_of(rows, pattern))?;
            text += &figures(&charts)?;
        }
        for sheet in &sheets {
            text += &table(sheet)?;
        }
        text += "</section>\n";
    }
    Ok(text)
}

/// What was promised and what came of it, if any of it was measured.
pub(super) fn promises(rows: &[Row]) -> Result<String> {
    match promises::sheet(rows) {
        Some(sheet) => Ok(format!("<section>\n{}</section>\n", table(&sheet)?)),
        None => Ok(String::new()),
    }
}

fn figures(charts: &[(String, Chart)]) -> Result<String> {
    let mut text = String::from("<div class=\"plots\">\n");
    for (caption, chart) in charts {
        let caption = escape(caption);
        writeln!(
            text,
            "<figure role=\"img\" aria-label=\"{caption}\"><figcaption>{caption}</figcaption>{}</figure>",
            chart.svg()?
        )?;
    }
    Ok(text + "</div>\n")
}

fn table(sheet: &Sheet) -> Result<String> {
    let mut text = String::new();
    let is_long = sheet.lines.len() > LINES_OPEN_MAX;
    let title = escape(&sheet.title);
    if is_long {
        writeln!(text, "<details><summary>{title}</summary>")?;
    } else {
        writeln!(text, "<h3>{title}</h3>")?;
    }
    text += "<div class=\"scroll\"><table class=\"sheet\">\n<thead><tr>";
    let class = |column: usize| if column < sheet.text_columns { " class=\"name\"" } else { "" };
    for (column, name) in sheet.head.iter().enumerate() {
        write!(text, "<th{}>{}</th>", class(column), escape(name))?;
    }
    text += "</tr></thead>\n<tbody>\n";
    let mut last = None;
    for line in &sheet.lines {
        let is_first = last != line.first();
        last = line.first();
        text += if is_first { "<tr class=\"first\">" } else { "<tr>" };
        for (column, cell) in line.iter().enumerate() {
            write!(text, "<td{}>{}</td>", class(column), escape(cell))?;
        }
        text += "</tr>\n";
    }
    text += "</tbody>\n</table></div>\n";
    Ok(if is_long { text + "</details>\n" } else { text })
}

/// The plots of a pattern with their captions.
fn charts(rows: &[Row], pattern: Pattern) -> Vec<(String, Chart)> {
    match pattern {
        Pattern::Availability => availability_charts(rows),
        Pattern::DoubleBuf => double_buffer_charts(rows),
        Pattern::Overlap => overlap_charts(rows),
        Pattern::Posts => posts_charts(rows),
        _ => Vec::new(),
    }
}

/// A line for each contender over the cases that are chosen: where each stands, and how high it is.
fn lines(
    rows: &[Row],
    cases: &[Case],
    at: impl Fn(Case, &str) -> Option<f64>,
    metric: Metric,
) -> Vec<Line> {
    let Some(first) = cases.first() else { return Vec::new() };
    let unit = unit(metric).0;
    let labels = contenders_of(rows, first.pattern).into_iter().enumerate();
    let line = |(place, label): (usize, String)| {
        let point = |&case: &Case| {
            let spread = values(rows, case, &label, metric)?;
            Some((at(case, &label)?, scaled(spread, unit)))
        };
        let mut points: Vec<_> = cases.iter().filter_map(point).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        Line { label, place, points }
    };
    labels.map(line).filter(|line| !line.points.is_empty()).collect()
}

fn chosen(rows: &[Row], pattern: Pattern, is_chosen: impl Fn(&Case) -> bool) -> Vec<Case> {
    cases_of(rows, pattern).into_iter().filter(|case| is_chosen(case)).collect()
}

fn sizes_of(rows: &[Row], pattern: Pattern) -> Vec<usize> {
    let mut sizes: Vec<_> = cases_of(rows, pattern).iter().map(|case| case.bytes).collect();
    sizes.dedup();
    sizes
}

fn availability_charts(rows: &[Row]) -> Vec<(String, Chart)> {
    let metrics = [
        (Metric::Bandwidth, "bandwidth", "GB/s"),
        (Metric::Of(Figure::Availability), "availability", "share of the processor"),
        (Metric::Effective, "effective bandwidth", "GB/s × availability"),
    ];
    let mut charts = Vec::new();
    for bytes in sizes_of(rows, Pattern::Availability) {
        let cases = chosen(rows, Pattern::Availability, |case| case.bytes == bytes);
        for (metric, name, unit) in metrics {
            let at = |case: Case, _: &str| case.variant.slice.map(|slice| slice as f64);
            let x = Axis::new("units of work between polls", Scale::Decades);
            let chart = Chart {
                size: SMALL,
                x,
                y: Axis::new(unit, Scale::Linear),
                lines: lines(rows, &cases, at, metric),
            };
            charts.push((format!("{}: {name}", show_bytes(bytes)), chart));
        }
    }
    charts
}

fn by_bytes(case: Case, _: &str) -> Option<f64> {
    Some(case.bytes as f64)
}

fn double_buffer_charts(rows: &[Row]) -> Vec<(String, Chart)> {
    let mut charts = Vec::new();
    for bound in [Bound::Producer, Bound::Consumer] {
        let cases = chosen(rows, Pattern::DoubleBuf, |case| case.variant.bound == Some(bound));
        if cases.is_empty() {
            continue;
        }
        let limits = cases.iter().filter_map(|&case| {
            let of_case = rows.iter().filter(|row| row.case() == case);
            let limit = of_case.filter_map(|row| row.figures.get(Figure::LimitBytesPerS));
            Some((case.bytes as f64, scaled(Spread::of(limit)?, 1e9)))
        });
        let limit = Line { label: LIMIT.into(), place: 0, points: limits.collect() };
        let sides = [
            (Metric::Bandwidth, "achieved (limit dashed)"),
            (Metric::Of(Figure::ProducerBytesPerS), "the producer while it fills"),
            (Metric::Of(Figure::ConsumerBytesPerS), "the consumer while it empties"),
        ];
        let mut limit = Some(limit);
        for (metric, name) in sides {
            let mut lines = lines(rows, &cases, by_bytes, metric);
            lines.extend(limit.take());
            let (x, y) = (Axis::new("bytes", Scale::Bytes), Axis::new("GB/s", Scale::Linear));
            charts.push((format!("{}: {name}", bound.name()), Chart { size: SMALL, x, y, lines }));
        }
    }
    charts
}

fn overlap_charts(rows: &[Row]) -> Vec<(String, Chart)> {
    let mut charts = Vec::new();
    for computing in [Computing::Sender, Computing::Receiver, Computing::All] {
        let cases =
            chosen(rows, Pattern::Overlap, |case| case.variant.computing == Some(computing));
        if cases.is_empty() {
            continue;
        }
        let is_all = computing == Computing::All;
        let metric = Metric::Of(if is_all { Figure::TotalNs } else { Figure::Overlap });
        let mut lines = lines(rows, &cases, by_bytes, metric);
        let points = lines.iter_mut().flat_map(|line| &mut line.points);
        for (_, spread) in points.filter(|_| !is_all) {
            let Spread { median, min, max } = *spread;
            let [median, min, max] =
                [median, min, max].map(|value| value.clamp(OVERLAP_DRAWN.0, OVERLAP_DRAWN.1));
            *spread = Spread { median, min, max };
        }
        let y = if is_all {
            Axis::new("ms, all of it", Scale::Log)
        } else {
            Axis::new("overlap", Scale::Linear)
        };
        let x = Axis::new("bytes", Scale::Bytes);
        charts.push((computing.name().to_owned(), Chart { size: SMALL, x, y, lines }));
    }
    charts
}

fn posts_charts(rows: &[Row]) -> Vec<(String, Chart)> {
    let mut charts = Vec::new();
    for bytes in sizes_of(rows, Pattern::Posts) {
        let cases = chosen(rows, Pattern::Posts, |case| case.bytes == bytes);
        let at = |case: Case, label: &str| {
            Some(values(rows, case, label, Metric::Of(Figure::WorkShare))?.median)
        };
        let x = Axis::new("share of the time in the application's work", Scale::Linear);
        let y = Axis::new("million messages/s", Scale::Linear);
        let chart = Chart { size: SMALL, x, y, lines: lines(rows, &cases, at, Metric::Rate) };
        charts.push((format!("{} bytes: throughput", show_bytes(bytes)), chart));
    }
    charts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::Figures;
    use crate::row::tests::example_row;
    use crate::variant::Variant;

    fn rows() -> Vec<Row> {
        let mut rows = Vec::new();
        for (index, slice) in [10, 1_000, 100_000].into_iter().enumerate() {
            for (system, placement) in
                [("packhorse", Some("thread")), ("packhorse", Some("inline")), ("tcp", None)]
            {
                let variant = Variant { slice: Some(slice), ..Variant::default() };
                let share = 0.2 + 0.3 * index as f64;
                let figures = Figures::of([
                    (Figure::Availability, share),
                    (Figure::SliceNs, slice as f64 * 1.5),
                ]);
                let row = example_row(Pattern::Availability, system, 0, 1e6);
                let bytes_per_s = Some(1e9 * (1.0 - share / 2.0));
                let placement = placement.map(str::to_owned);
                rows.push(Row { variant, figures, placement, bytes_per_s, bytes: 32 << 10, ..row });
            }
        }
        let variant = Variant { computing: Some(Computing::Sender), ..Variant::default() };
        let figures = Figures::of([(Figure::Overlap, -7.0), (Figure::CommNs, 1e6)]);
        rows.push(Row { variant, figures, ..example_row(Pattern::Overlap, "tcp", 0, 1.0) });
        rows
    }

    #[test]
    fn sections_have_plots_legends_and_sheets() {
        let text = sections(&rows()).unwrap();
        // Bandwidth, availability and effective bandwidth; overlap of the sender.
        assert_eq!(text.matches("<svg").count(), 4, "{text}");
        for words in [
            "packhorse inline",
            "32K: effective bandwidth",
            "units of work between polls",
            "peak effective bandwidth",
            "availability at equal bandwidth",
            "sender computes",
        ] {
            assert!(text.contains(words), "{words} in {text}");
        }
        assert!(!text.contains("<h2>Idle"), "{text}");
    }

    #[test]
    fn what_has_no_bound_is_drawn_within_one() {
        let charts = overlap_charts(&rows());
        let points =
            charts.iter().flat_map(|(_, chart)| &chart.lines).flat_map(|line| &line.points);
        assert!(
            points.clone().count() == 1
                && points.clone().all(|point| point.1.min >= OVERLAP_DRAWN.0)
        );
    }
}
