//! One plot: a line for each system, with a bar from the least to the most of its repetitions.

use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};
use plotters::prelude::*;

use crate::bench::plan::Case;
use crate::bench::ratio::{Metric, Spread, values};
use crate::bench::row::{OURS, Row};
use crate::bench::sizes::show_bytes;
use crate::bench::system::Pattern;
use crate::bench::table::main_metric;

/// Small, so that the labels can still be read when it shrinks to a phone's width.
const SIZE: (u32, u32) = (520, 320);

/// The colour of a system, the same on every plot; legible on white and on black.
pub(super) fn colour(system: &str) -> &'static str {
    match system {
        OURS => "#d9480f",
        "bare" => "#2b7de9",
        "tcp" => "#2f9e44",
        "packet-bare" => "#0c8599",
        _ => "#9c36b5",
    }
}

/// The mark of a system by its place, so that print without colour can be read too.
pub(super) fn mark(index: usize) -> char {
    ['●', '▲', '✕', '○'][index % 4]
}

/// A system's name and its values: (log2 of the length, spread).
type Line<'a> = (&'a str, Vec<(f64, Spread)>);

/// What is drawn.
pub(super) struct Plot<'a> {
    lines: Vec<Line<'a>>,
    metric: Metric,
}

impl<'a> Plot<'a> {
    pub(super) fn new(rows: &[Row], pattern: Pattern, cases: &[Case], systems: &[&'a str]) -> Self {
        let metric = main_metric(pattern);
        let unit = unit(metric).0;
        let line = |system: &&'a str| {
            let points = cases.iter().filter_map(|&case| {
                let spread = values(rows, case, system, metric)?;
                let [median, min, max] = [spread.median, spread.min, spread.max].map(|v| v / unit);
                Some(((case.bytes as f64).log2(), Spread { median, min, max }))
            });
            let mut points: Vec<_> = points.collect();
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            (*system, points)
        };
        Self { lines: systems.iter().map(line).collect(), metric }
    }

    /// As text that goes straight into a page.
    pub(super) fn svg(&self) -> Result<String> {
        let mut text = String::new();
        {
            let area = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
            self.draw(&area)?;
            area.present().map_err(failed)?;
        }
        // A fixed size would not shrink to a phone's width; the viewBox does.
        let (width, height) = SIZE;
        let fixed = format!("width=\"{width}\" height=\"{height}\" ");
        Ok(text.replacen(&fixed, "", 1))
    }

    /// The axes: a little more than what is drawn.
    fn axes(&self) -> (Lengths, Heights) {
        let points = || self.lines.iter().flat_map(|(_, points)| points);
        let xs = Spread::of(points().map(|point| point.0));
        let ys = Spread::of(points().flat_map(|point| [point.1.min, point.1.max]));
        let (left, right) = xs.map_or((0.0, 1.0), |xs| (xs.min - 0.5, xs.max + 0.5));
        let (least, most) = ys.map_or((0.1, 1.0), |ys| (ys.min.max(1e-6), ys.max.max(1e-6)));
        let is_log = self.metric == Metric::P50;
        let bottom = if is_log { least / 1.3 } else { 0.0 };
        (Lengths(left, right), Heights { bottom, top: most * 1.1, is_log })
    }

    fn draw(&self, area: &DrawingArea<SVGBackend<'_>, Shift>) -> Result<()> {
        let (lengths, heights) = self.axes();
        let mut chart = ChartBuilder::on(area)
            .margin(8)
            .x_label_area_size(40)
            .y_label_area_size(58)
            .build_cartesian_2d(lengths, heights)
            .map_err(failed)?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(BLACK.mix(0.15))
            .label_style(("sans-serif", 14))
            .x_desc("bytes")
            .y_desc(unit(self.metric).1)
            .x_label_formatter(&|x| show_bytes(x.exp2().round() as usize))
            .y_label_formatter(&|y| short(*y))
            .draw()
            .map_err(failed)?;
        for (index, (system, points)) in self.lines.iter().enumerate() {
            let colour = parse_colour(colour(system));
            let stroke = colour.stroke_width(2);
            let path = points.iter().map(|&(x, spread)| (x, spread.median));
            chart.draw_series(LineSeries::new(path, stroke)).map_err(failed)?;
            let bars = points.iter().map(|&(x, spread)| {
                PathElement::new(vec![(x, spread.min), (x, spread.max)], colour.stroke_width(1))
            });
            chart.draw_series(bars).map_err(failed)?;
            let marks = points.iter().map(|&(x, spread)| marked((x, spread.median), index, colour));
            chart.draw_series(marks).map_err(failed)?;
        }
        Ok(())
    }
}

fn failed(error: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("cannot plot: {error}")
}

/// A point as its line's mark; see [`mark`].
fn marked<'a>(
    at: (f64, f64),
    index: usize,
    colour: RGBColor,
) -> DynElement<'static, SVGBackend<'a>, (f64, f64)> {
    match index % 4 {
        0 => Circle::new(at, 4, colour.filled()).into_dyn(),
        1 => TriangleMarker::new(at, 6, colour.filled()).into_dyn(),
        2 => Cross::new(at, 4, colour.stroke_width(2)).into_dyn(),
        _ => Circle::new(at, 4, colour.stroke_width(2)).into_dyn(),
    }
}

/// Lengths on a logarithmic scale, marked at powers of two and no more of them than fit.
struct Lengths(f64, f64);

impl Ranged for Lengths {
    type ValueType = f64;
    type FormatOption = DefaultFormatting;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let share = (value - self.0) / (self.1 - self.0);
        limit.0 + (share * f64::from(limit.1 - limit.0)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _hint: Hint) -> Vec<f64> {
        let (first, last) = (self.0.ceil() as i32, self.1.floor() as i32);
        let step = if last - first > 8 { 2 } else { 1 };
        // From the shortest length on, so that the lengths people ask for are among them.
        (first..=last).step_by(step).map(f64::from).collect()
    }

    fn range(&self) -> std::ops::Range<f64> {
        self.0..self.1
    }
}

/// Values: from nothing up, or on a logarithmic scale.
struct Heights {
    bottom: f64,
    top: f64,
    is_log: bool,
}

impl Ranged for Heights {
    type ValueType = f64;
    type FormatOption = DefaultFormatting;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let share = if self.is_log {
            (value / self.bottom).ln() / (self.top / self.bottom).ln()
        } else {
            (value - self.bottom) / (self.top - self.bottom)
        };
        limit.0 + (share * f64::from(limit.1 - limit.0)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _hint: Hint) -> Vec<f64> {
        let decades =
            (self.bottom.max(1e-6).log10().floor() as i32)..=(self.top.log10().ceil() as i32);
        let round = |decade: i32| [1.0, 2.0, 5.0].map(|digit| digit * 10_f64.powi(decade));
        if self.is_log {
            let is_inside = |value: &f64| (self.bottom..=self.top).contains(value);
            return decades.flat_map(round).filter(is_inside).collect();
        }
        let decades = -7..=(self.top.log10().ceil() as i32);
        let steps = decades.flat_map(round);
        let step = steps.into_iter().find(|step| self.top / step <= 8.0).unwrap_or(self.top);
        (0..=(self.top / step) as u32).map(|count| f64::from(count) * step).collect()
    }

    fn range(&self) -> std::ops::Range<f64> {
        self.bottom..self.top
    }
}

/// What a metric is divided by, and the name of the result.
fn unit(metric: Metric) -> (f64, &'static str) {
    match metric {
        Metric::P50 | Metric::P99 | Metric::Mean => (1e3, "µs"),
        Metric::Bandwidth => (1e9, "GB/s"),
        Metric::Rate => (1e6, "million/s"),
        Metric::Cpu => (1.0, "s/GB"),
    }
}

/// A number on an axis, with as many digits as it needs.
fn short(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn parse_colour(text: &str) -> RGBColor {
    let part = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).expect("a colour of ours");
    RGBColor(part(1), part(3), part(5))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::row::tests::example_row;

    fn plot(pattern: Pattern, value: f64) -> String {
        let rows = [
            example_row(pattern, "bare", 0, value),
            Row { bytes: 1024, ..example_row(pattern, "bare", 0, value * 3.0) },
        ];
        let cases = [8, 1024].map(|bytes| Case { pattern, bytes });
        Plot::new(&rows, pattern, &cases, &["bare"]).svg().unwrap()
    }

    #[test]
    fn plots_have_marks_labels_and_no_fixed_size() {
        for (pattern, unit) in [(Pattern::PingPong, "µs"), (Pattern::Stream, "GB/s")] {
            let svg = plot(pattern, 2000.0);
            assert_eq!(svg.matches("<circle").count(), 2, "{svg}");
            assert!(svg.contains(unit) && svg.contains("\n1K\n"), "{svg}");
            let head = &svg[..svg.find('>').unwrap()];
            assert!(head.contains("viewBox") && !head.contains("width="), "{head}");
        }
    }

    #[test]
    fn nothing_to_draw_is_no_error() {
        assert!(Plot::new(&[], Pattern::Rate, &[], &[]).svg().is_ok());
    }

    #[test]
    fn numbers_on_axes_are_short() {
        assert_eq!([0.25, 10.0, 2.5].map(short), ["0.25", "10", "2.5"]);
    }
}
