//! One plot: a line for each contender, with a bar from the least to the most of its repetitions.

use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};
use plotters::prelude::*;

use crate::plan::Case;
use crate::ratio::{Metric, Spread, values};
use crate::row::{OURS, Row};
use crate::sizes::show_bytes;
use crate::system::Pattern;
use crate::table::main_metric;

/// Small, so that the labels can still be read when it shrinks to a phone's width.
pub(super) const SIZE: (u32, u32) = (520, 320);
/// For several side by side: smaller still, for the same reason.
pub(super) const SMALL: (u32, u32) = (380, 270);
/// What is only a bound is drawn as one.
pub(super) const LIMIT: &str = "limit";

/// The colour of a contender, the same on every plot; legible on white and on black.
pub(super) fn colour(label: &str) -> &'static str {
    match label {
        OURS | "packhorse thread" => "#d9480f",
        "packhorse inline" => "#e0a000",
        "bare" => "#2b7de9",
        "tcp" => "#2f9e44",
        "packet-bare" => "#0c8599",
        "openmpi-tcp" => "#9c36b5",
        "openmpi-shm" => "#d6336c",
        LIMIT => "#868e96",
        _ if label.starts_with(OURS) => ours_set(label),
        _ => "#9c36b5",
    }
}

/// Packhorse with switches: each its own.
fn ours_set(label: &str) -> &'static str {
    const COLOURS: [&str; 6] = ["#a61e4d", "#5f3dc4", "#087f5b", "#846358", "#f783ac", "#66a80f"];
    let switches = ["none", "receive", "send", "both"];
    let place = switches.iter().position(|switch| label.contains(switch));
    let by_letters = || label.bytes().map(usize::from).sum::<usize>();
    COLOURS[place.unwrap_or_else(by_letters) % COLOURS.len()]
}

/// The mark of a contender by its place, so that print without colour can be read too.
pub(super) fn mark(index: usize) -> char {
    ['●', '▲', '✕', '○', '◯', '•'][index % 6]
}

/// How values are spread over an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scale {
    /// Lengths: logarithmic, marked at powers of two.
    Bytes,
    /// Logarithmic, marked at powers of ten.
    Decades,
    /// Logarithmic, marked at 1, 2 and 5.
    Log,
    /// From nothing, or from below where there is something.
    Linear,
}

/// An axis: what it measures and how.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    pub(super) name: String,
    pub(super) scale: Scale,
}

impl Axis {
    pub(super) fn new(name: &str, scale: Scale) -> Self {
        Self { name: name.to_owned(), scale }
    }
}

/// A line: whose it is, its place among all (which gives its mark), and its points.
pub(super) struct Line {
    pub(super) label: String,
    pub(super) place: usize,
    pub(super) points: Vec<(f64, Spread)>,
}

/// What is drawn.
pub(super) struct Chart {
    pub(super) size: (u32, u32),
    pub(super) x: Axis,
    pub(super) y: Axis,
    pub(super) lines: Vec<Line>,
}

/// A spread in other units.
pub(super) fn scaled(spread: Spread, unit: f64) -> Spread {
    let Spread { median, min, max } = spread;
    Spread { median: median / unit, min: min / unit, max: max / unit }
}

impl Chart {
    /// A plain pattern over the length of messages.
    pub(super) fn of_flow(
        rows: &[Row],
        pattern: Pattern,
        cases: &[Case],
        systems: &[&str],
    ) -> Self {
        let metric = main_metric(pattern);
        let (unit, name) = unit(metric);
        let line = |(place, system): (usize, &&str)| {
            let points = cases.iter().filter_map(|&case| {
                let spread = values(rows, case, system, metric)?;
                Some((case.bytes as f64, scaled(spread, unit)))
            });
            let mut points: Vec<_> = points.collect();
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            Line { label: (*system).to_owned(), place, points }
        };
        let scale = if metric == Metric::P50 { Scale::Log } else { Scale::Linear };
        let lines = systems.iter().enumerate().map(line).collect();
        let (x, y) = (Axis::new("bytes", Scale::Bytes), Axis::new(name, scale));
        Self { size: SIZE, x, y, lines }
    }

    /// As text that goes straight into a page.
    pub(super) fn svg(&self) -> Result<String> {
        let mut text = String::new();
        {
            let area = SVGBackend::with_string(&mut text, self.size).into_drawing_area();
            self.draw(&area)?;
            area.present().map_err(failed)?;
        }
        // A fixed size would not shrink to a phone's width; the viewBox does.
        let (width, height) = self.size;
        let fixed = format!("width=\"{width}\" height=\"{height}\" ");
        Ok(text.replacen(&fixed, "", 1))
    }

    /// The axes: a little more than what is drawn.
    fn spans(&self) -> (Span, Span) {
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let xs = Spread::of(points().map(|point| point.0));
        let ys = Spread::of(points().flat_map(|point| [point.1.min, point.1.max]));
        let (left, right) = xs.map_or((1.0, 2.0), |xs| (xs.min, xs.max));
        let x = match self.x.scale {
            Scale::Linear => {
                Span { low: left.min(0.0), high: right.max(left + 1e-6), ..self.x.span() }
            }
            _ => Span { low: left / 1.4, high: right * 1.4, ..self.x.span() },
        };
        let (least, most) = ys.map_or((0.1, 1.0), |ys| (ys.min, ys.max.max(1e-6)));
        let low = match self.y.scale {
            Scale::Linear => least.min(0.0),
            _ => least.max(1e-6) / 1.3,
        };
        (x, Span { low, high: most * 1.1, ..self.y.span() })
    }

    fn draw(&self, area: &DrawingArea<SVGBackend<'_>, Shift>) -> Result<()> {
        let (across, up) = self.spans();
        let mut chart = ChartBuilder::on(area)
            .margin(8)
            .x_label_area_size(40)
            .y_label_area_size(58)
            .build_cartesian_2d(across, up)
            .map_err(failed)?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(BLACK.mix(0.15))
            .label_style(("sans-serif", 14))
            .x_desc(&self.x.name)
            .y_desc(&self.y.name)
            .x_label_formatter(&|x| self.x.label(*x))
            .y_label_formatter(&|y| self.y.label(*y))
            .draw()
            .map_err(failed)?;
        for line in &self.lines {
            let colour = parse_colour(colour(&line.label));
            let path = line.points.iter().map(|&(x, spread)| (x, spread.median));
            if line.label == LIMIT {
                let path = DashedLineSeries::new(path, 5, 4, colour.stroke_width(2));
                chart.draw_series(path).map_err(failed)?;
                continue;
            }
            chart.draw_series(LineSeries::new(path, colour.stroke_width(2))).map_err(failed)?;
            let bars = line.points.iter().map(|&(x, spread)| {
                PathElement::new(vec![(x, spread.min), (x, spread.max)], colour.stroke_width(1))
            });
            chart.draw_series(bars).map_err(failed)?;
            let marks = line
                .points
                .iter()
                .map(|&(x, spread)| marked((x, spread.median), line.place, colour));
            chart.draw_series(marks).map_err(failed)?;
        }
        Ok(())
    }
}

impl Axis {
    fn span(&self) -> Span {
        Span { low: 0.0, high: 1.0, scale: self.scale }
    }

    fn label(&self, value: f64) -> String {
        match self.scale {
            Scale::Bytes => show_bytes(value.round() as usize),
            Scale::Decades => power_of_ten(value),
            Scale::Log | Scale::Linear => short(value),
        }
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
    match index % 6 {
        0 => Circle::new(at, 4, colour.filled()).into_dyn(),
        1 => TriangleMarker::new(at, 6, colour.filled()).into_dyn(),
        2 => Cross::new(at, 4, colour.stroke_width(2)).into_dyn(),
        3 => Circle::new(at, 4, colour.stroke_width(2)).into_dyn(),
        // Not a hollow triangle: that marker is filled whatever its style.
        4 => Circle::new(at, 7, colour.stroke_width(1)).into_dyn(),
        _ => Circle::new(at, 2, colour.filled()).into_dyn(),
    }
}

/// The stretch of an axis that is drawn.
struct Span {
    low: f64,
    high: f64,
    scale: Scale,
}

impl Span {
    /// Powers of two, no more of them than fit, from the shortest on, so that lengths people ask for are among them.
    fn powers_of_two(&self) -> Vec<f64> {
        let (first, last) = (self.low.log2().ceil() as i32, self.high.log2().floor() as i32);
        let step = if last - first > 8 { 2 } else { 1 };
        (first..=last).step_by(step).map(|power| f64::from(power).exp2()).collect()
    }

    /// These digits of every decade in the stretch.
    fn decades(&self, digits: &[f64]) -> Vec<f64> {
        let (first, last) =
            (self.low.max(1e-9).log10().floor() as i32, self.high.log10().ceil() as i32);
        let of_decade = |power: i32| digits.iter().map(move |digit| digit * 10_f64.powi(power));
        let all = (first..=last).flat_map(of_decade);
        all.filter(|value| (self.low..=self.high).contains(value)).collect()
    }

    fn round_steps(&self) -> Vec<f64> {
        let height = self.high - self.low;
        let decades = -7..=(height.max(1e-6).log10().ceil() as i32);
        let mut steps =
            decades.flat_map(|power| [1.0, 2.0, 5.0].map(|digit| digit * 10_f64.powi(power)));
        let step = steps.find(|step| height / step <= 8.0).unwrap_or(height);
        let (first, last) = ((self.low / step).ceil() as i32, (self.high / step).floor() as i32);
        (first..=last).map(|count| f64::from(count) * step).collect()
    }
}

impl Ranged for Span {
    type ValueType = f64;
    type FormatOption = DefaultFormatting;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let share = if self.scale == Scale::Linear {
            (value - self.low) / (self.high - self.low)
        } else {
            (value / self.low).ln() / (self.high / self.low).ln()
        };
        limit.0 + (share * f64::from(limit.1 - limit.0)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _hint: Hint) -> Vec<f64> {
        match self.scale {
            Scale::Bytes => self.powers_of_two(),
            Scale::Decades => self.decades(&[1.0]),
            Scale::Log => self.decades(&[1.0, 2.0, 5.0]),
            Scale::Linear => self.round_steps(),
        }
    }

    fn range(&self) -> std::ops::Range<f64> {
        self.low..self.high
    }
}

/// 10³ and the like, small ones as they are.
fn power_of_ten(value: f64) -> String {
    let power = value.log10().round() as i32;
    if (0..3).contains(&power) {
        return format!("{value:.0}");
    }
    let digit = |digit: char| match digit {
        '-' => '⁻',
        digit => ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹']
            [digit.to_digit(10).unwrap_or(0) as usize],
    };
    format!("10{}", power.to_string().chars().map(digit).collect::<String>())
}

/// What a metric is divided by, and the name of the result.
pub(super) fn unit(metric: Metric) -> (f64, &'static str) {
    match metric {
        Metric::P50 | Metric::P99 | Metric::Mean => (1e3, "µs"),
        Metric::Bandwidth | Metric::Effective => (1e9, "GB/s"),
        Metric::Rate => (1e6, "million/s"),
        Metric::Cpu => (1.0, "s/GB"),
        Metric::Of(figure) => (figure.unit(), ""),
    }
}

/// A number on an axis, with as many digits as it needs.
fn short(value: f64) -> String {
    let text = format!("{value:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn parse_colour(text: &str) -> RGBColor {
    let part = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).expect("a colour of ours");
    RGBColor(part(1), part(3), part(5))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::tests::example_row;

    fn plot(pattern: Pattern, value: f64) -> String {
        let rows = [
            example_row(pattern, "bare", 0, value),
            Row { bytes: 1024, ..example_row(pattern, "bare", 0, value * 3.0) },
        ];
        let cases = [8, 1024].map(|bytes| Case::plain(pattern, bytes));
        Chart::of_flow(&rows, pattern, &cases, &["bare"]).svg().unwrap()
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
        assert!(Chart::of_flow(&[], Pattern::Rate, &[], &[]).svg().is_ok());
    }

    #[test]
    fn numbers_on_axes_are_short() {
        assert_eq!([0.25, 10.0, 2.5, 0.015].map(short), ["0.25", "10", "2.5", "0.015"]);
        assert_eq!([1.0, 10.0, 1e4, 1e7].map(power_of_ten), ["1", "10", "10⁴", "10⁷"]);
    }
}
