//! A figure as a picture: our curves as lines, the paper's points as stars, today's curves dashed, on a scale of their own.

use std::fmt::Write as _;

use super::axes::{Scale, Steps, plain};
use super::{COLOURS, escape};
use crate::figure::{Curve, Finding};
use crate::today::Today;

const W: f64 = 660.0;
const H: f64 = 340.0;
const LEFT: f64 = 56.0;
const TOP: f64 = 26.0;
const BOTTOM: f64 = 44.0;
/// The star's corners, about its middle.
const STAR: &str = "m0-8l2.1 5.2 5.5.3-4.3 3.5 1.4 5.4-4.7-3-4.7 3 1.4-5.4-4.3-3.5 5.5-.3z";

/// The axes of a plot.
struct Axes<'a> {
    found: &'a Finding,
    x: Scale,
    y: Scale,
    /// Today's machine is hundreds of times as fast as the paper's: on one scale the paper's curves would lie on the ground.
    today: Option<Scale>,
    right: f64,
}

/// `message, bytes` is a message, in bytes.
fn parted(axis: &str) -> (&str, &str) {
    axis.rsplit_once(", ").unwrap_or((axis, ""))
}

impl<'a> Axes<'a> {
    fn of(found: &'a Finding, today: &[&Curve]) -> Self {
        let steps = match (found.is_log, parted(found.x).1) {
            (false, _) => Steps::Even,
            (true, "bytes") => Steps::Twos,
            (true, _) => Steps::Tens,
        };
        let ours = || found.curves.iter().flat_map(|curve| curve.points.iter().copied());
        let paper = || ours().chain(found.marks.iter().map(|mark| (mark.x, mark.y)));
        let now = || today.iter().flat_map(|curve| curve.points.iter().copied());
        let most = |values: &mut dyn Iterator<Item = (f64, f64)>| {
            values.map(|point| point.1).fold(0.0, f64::max)
        };
        Self {
            found,
            x: Scale::over(paper().chain(now()).map(|point| point.0), steps),
            y: Scale::from_zero(most(&mut paper())),
            today: (!today.is_empty()).then(|| Scale::from_zero(most(&mut now()))),
            right: if today.is_empty() { W - 16.0 } else { W - 62.0 },
        }
    }

    fn px(&self, x: f64) -> f64 {
        LEFT + self.x.part(x) * (self.right - LEFT)
    }

    fn py(&self, scale: &Scale, y: f64) -> f64 {
        H - BOTTOM - scale.part(y) * (H - BOTTOM - TOP)
    }

    fn drawn(&self) -> String {
        let (mut svg, right, ground) = (String::new(), self.right, H - BOTTOM);
        for (y, text) in self.y.ticks() {
            let (py, left) = (self.py(&self.y, y), LEFT - 8.0);
            let _ = writeln!(
                svg,
                "<path class=\"grid\" d=\"M{LEFT} {py:.1}H{right}\"/><text x=\"{left}\" y=\"{:.1}\" text-anchor=\"end\">{text}</text>",
                py + 4.0
            );
        }
        for (x, text) in self.x.ticks() {
            let px = self.px(x);
            let _ = writeln!(
                svg,
                "<path class=\"grid\" d=\"M{px:.1} {TOP}V{:.1}\"/><text x=\"{px:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{text}</text>",
                ground + 4.0,
                ground + 18.0
            );
        }
        if let Some(scale) = &self.today {
            for (y, text) in scale.ticks() {
                let _ = writeln!(
                    svg,
                    "<text x=\"{:.1}\" y=\"{:.1}\">{text}</text>",
                    right + 8.0,
                    self.py(scale, y) + 4.0
                );
            }
            let _ = writeln!(
                svg,
                "<text x=\"{W}\" y=\"12\" text-anchor=\"end\" class=\"axis\">today, {}</text>",
                escape(self.found.y)
            );
        }
        let (x, y) = (escape(self.found.x), escape(self.found.y));
        let _ = writeln!(svg, "<path class=\"edge\" d=\"M{LEFT} {TOP}V{ground}H{right}\"/>");
        let _ = writeln!(
            svg,
            "<text x=\"{right}\" y=\"{:.1}\" text-anchor=\"end\" class=\"axis\">{x}</text>",
            H - 6.0
        );
        let _ = writeln!(svg, "<text x=\"4\" y=\"12\" class=\"axis\">{y}</text>");
        svg
    }

    /// A line, with a value under each of its points. Lines that lie on each other are seen: those below are wider.
    fn line(&self, curve: &Curve, colour: &str, is_today: bool, above: usize) -> String {
        let scale = self.today.as_ref().filter(|_| is_today).unwrap_or(&self.y);
        let at = |&(x, y): &(f64, f64)| format!("{:.1} {:.1}", self.px(x), self.py(scale, y));
        let path: Vec<_> = curve.points.iter().map(at).collect();
        let dash = if is_today { " stroke-dasharray=\"5 4\"" } else { "" };
        let more = above.min(4) as f64;
        let mut svg = format!(
            "<path class=\"line\" stroke=\"{colour}\" stroke-width=\"{:.1}\"{dash} d=\"M{}\"/>\n",
            2.0 + more,
            path.join("L")
        );
        for &(x, y) in &curve.points {
            let when = if is_today { "today, " } else { "" };
            let tip = self.tip(&format!("{when}{}", curve.name), x, y);
            let _ = writeln!(
                svg,
                "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"{:.1}\" fill=\"{colour}\" data-tip=\"{tip}\"/>",
                self.px(x),
                self.py(scale, y),
                3.5 + more * 0.7
            );
        }
        svg
    }

    fn tip(&self, name: &str, x: f64, y: f64) -> String {
        let ((of, unit), (what, of_what)) = (parted(self.found.x), parted(self.found.y));
        let y = if of_what.is_empty() {
            format!("{} {what}", plain(y))
        } else {
            format!("{what} {} {of_what}", plain(y))
        };
        escape(&format!("{name}: {y} at {of} {} {unit}", plain(x)))
    }
}

/// The figure, with its legend.
pub(super) fn plot(found: &Finding, today: &Today) -> String {
    let now: Vec<&Curve> = today.of(found.name).filter(|curve| !curve.points.is_empty()).collect();
    let axes = Axes::of(found, &now);
    let mut svg = format!(
        "<figure><div class=\"scroll\"><svg class=\"plot\" viewBox=\"0 0 {W} {H}\" role=\"img\" aria-label=\"{}\">\n",
        escape(found.title)
    );
    svg.push_str(&axes.drawn());
    let mut legend = String::new();
    let curves = found
        .curves
        .iter()
        .map(|curve| (curve, false))
        .chain(now.iter().map(|curve| (*curve, true)));
    for (number, (curve, is_today)) in curves.enumerate() {
        let colour = COLOURS[number % COLOURS.len()];
        let above = if is_today { 0 } else { found.curves.len() - 1 - number };
        svg.push_str(&axes.line(curve, colour, is_today, above));
        let (sign, when) = if is_today { ("┅", "today: ") } else { ("●", "") };
        let _ = write!(
            legend,
            "<span class=\"key\"><b style=\"color:{colour}\">{sign}</b> {when}{}</span> ",
            escape(&curve.name)
        );
    }
    for mark in &found.marks {
        let tip = axes.tip(&format!("paper, {}", mark.name), mark.x, mark.y);
        let at = found.curves.iter().position(|curve| curve.name == mark.name);
        let colour = at.map_or("#888", |at| COLOURS[at % COLOURS.len()]);
        let (px, py) = (axes.px(mark.x), axes.py(&axes.y, mark.y));
        let _ = writeln!(
            svg,
            "<path class=\"star\" transform=\"translate({px:.1} {py:.1})\" d=\"{STAR}\" fill=\"{colour}\" data-tip=\"{tip}\"/>"
        );
    }
    let stars =
        if found.marks.is_empty() { "" } else { "<span class=\"key\">★ the paper's text</span>" };
    let _ = writeln!(svg, "</svg></div><figcaption>{legend}{stars}</figcaption></figure>");
    svg
}
