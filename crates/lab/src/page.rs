//! All experiments as one page that needs nothing else: plots with values under the pointer, the paper's points as marks, charts of one
//! message, and every cost with where it comes from.

use std::fmt::Write as _;

use anyhow::Result;

use crate::figure::{Curve, Finding, Gantt};
use crate::machine::shown;
use crate::machines::{Bench, known};
use crate::plant::Part;
use crate::text::{of_paper, short, verdict};
use crate::today::Today;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
const COLOURS: [&str; 8] =
    ["#2f6db3", "#c2571a", "#3b8a3e", "#8a4fa3", "#a8323e", "#7a6a16", "#2a8c8c", "#555"];
const W: f64 = 640.0;
const H: f64 = 320.0;
const LEFT: f64 = 58.0;
const BOTTOM: f64 = 40.0;

/// The page.
pub fn page(findings: &[Finding], bench: &Bench, today: &Today) -> Result<String> {
    let mut text = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Packhorse lab</title>\n<meta name=\"viewport\" content=\"width=device-width\">\n<style>{STYLE}</style></head><body>\n<h1>The papers' machines, with Packhorse in them</h1>\n"
    );
    text.push_str("<p>The same protocol as in every other build, run in virtual time and charged to models of the papers' hosts, buses, cards and wires. Lines are ours; stars are numbers from the papers' text. A number is <b>met</b> within 15 %, <b>given</b> if a fit or a stated cost put it in, <b>missed</b> otherwise.</p>\n");
    text.push_str(&summary(findings));
    for found in findings {
        text.push_str(&section(found, today));
    }
    text.push_str("<h2>The machines</h2>\n");
    for name in known() {
        text.push_str(&costs(bench, name)?);
    }
    let _ = writeln!(text, "<div id=\"tip\"></div><script>{SCRIPT}</script></body></html>");
    Ok(text)
}

fn summary(findings: &[Finding]) -> String {
    let all = || findings.iter().flat_map(|found| &found.targets);
    let proving = all().filter(|target| !target.is_given).count();
    let met = all().filter(|target| !target.is_given && target.is_met()).count();
    let orders: Vec<_> = findings.iter().flat_map(|found| &found.orders).collect();
    let held = orders.iter().filter(|order| order.1).count();
    let mut text = format!(
        "<p class=\"sum\">{met} of {proving} predicted numbers within 15 %; {held} of {} orders of curves hold.</p>\n<nav>",
        orders.len()
    );
    for found in findings {
        let _ = write!(text, "<a href=\"#{0}\">{0}</a> ", found.name);
    }
    text.push_str("</nav>\n");
    text
}

fn section(found: &Finding, today: &Today) -> String {
    let mut text = format!(
        "<section id=\"{}\"><h2>{}</h2>\n<p>{}</p>\n",
        found.name,
        escape(found.title),
        escape(found.about)
    );
    if !found.curves.is_empty() {
        text.push_str(&plot(found, today));
    }
    let has_today = today.of(found.name).next().is_some();
    if !found.targets.is_empty() {
        text.push_str("<table><tr><th></th><th>paper</th><th>ours</th><th>difference</th><th></th><th>where</th></tr>\n");
    }
    for target in &found.targets {
        let word = verdict(target);
        let reason = match target.is_met() {
            true => String::new(),
            false => format!("<br><small>{}</small>", escape(target.reason)),
        };
        let _ = writeln!(
            text,
            "<tr class=\"{word}\"><td>{}{reason}</td><td>{}</td><td>{}</td><td>{:+.1} %</td><td>{word}</td><td>{}</td></tr>",
            escape(&format!("{}, {}", target.what, target.unit)),
            escape(&of_paper(target)),
            short(target.ours),
            target.difference() * 100.0,
            target.line
        );
    }
    if !found.targets.is_empty() {
        text.push_str("</table>\n");
    }
    if has_today {
        text.push_str(&today_table(found, today));
    }
    if !found.orders.is_empty() {
        text.push_str("<ul>");
        for (what, holds) in &found.orders {
            let _ = write!(
                text,
                "<li>{}: {}</li>",
                escape(what),
                if *holds { "holds" } else { "<b>does not hold</b>" }
            );
        }
        text.push_str("</ul>\n");
    }
    found.gantts.iter().for_each(|gantt| text.push_str(&chart(gantt)));
    text.push_str("</section>\n");
    text
}

fn today_table(found: &Finding, today: &Today) -> String {
    let mut text = String::from("<table><tr><th>today, measured on real links</th><th></th></tr>");
    for curve in today.of(found.name) {
        let points: Vec<_> =
            curve.points.iter().map(|(x, y)| format!("{} → {}", short(*x), short(*y))).collect();
        let _ =
            write!(text, "<tr><td>{}</td><td>{}</td></tr>", escape(&curve.name), points.join(", "));
    }
    text.push_str("</table>\n");
    text
}

/// The axes of a plot.
struct Axes {
    x0: f64,
    x1: f64,
    y1: f64,
    is_log: bool,
}

impl Axes {
    fn of(found: &Finding, curves: &[&Curve]) -> Self {
        let points = curves.iter().flat_map(|curve| curve.points.iter().copied());
        let points = points.chain(found.marks.iter().map(|mark| (mark.x, mark.y)));
        let (mut x0, mut x1, mut y1) = (f64::INFINITY, 0.0_f64, 0.0_f64);
        for (x, y) in points {
            (x0, x1, y1) = (x0.min(x), x1.max(x), y1.max(y));
        }
        let is_log = found.is_log && x0 > 0.0;
        Self { x0: if is_log { x0 } else { x0.min(0.0) }, x1, y1: y1 * 1.06, is_log }
    }

    fn px(&self, x: f64) -> f64 {
        let part = match self.is_log {
            true => (x / self.x0).ln() / (self.x1 / self.x0).ln(),
            false => (x - self.x0) / (self.x1 - self.x0),
        };
        LEFT + part * (W - LEFT - 14.0)
    }

    fn py(&self, y: f64) -> f64 {
        H - BOTTOM - y / self.y1 * (H - BOTTOM - 12.0)
    }

    /// x at a part of the axis.
    fn x_at(&self, part: f64) -> f64 {
        match self.is_log {
            true => self.x0 * (self.x1 / self.x0).powf(part),
            false => self.x0 + (self.x1 - self.x0) * part,
        }
    }

    fn drawn(&self, found: &Finding) -> String {
        let mut svg = String::new();
        for step in 0..=5 {
            let part = f64::from(step) / 5.0;
            let (x, y) = (self.x_at(part), self.y1 * part);
            let (px, py, right, left) = (self.px(x), self.py(y), W - 14.0, LEFT - 6.0);
            let _ = writeln!(svg, "<path class=\"grid\" d=\"M{LEFT} {py:.1}H{right}\"/>");
            let _ = writeln!(
                svg,
                "<text x=\"{left}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                py + 4.0,
                short(y)
            );
            let below = H - BOTTOM + 16.0;
            let _ = writeln!(
                svg,
                "<text x=\"{px:.1}\" y=\"{below}\" text-anchor=\"middle\">{}</text>",
                short(x)
            );
        }
        let (x, y, low) = (escape(found.x), escape(found.y), H - 6.0);
        let _ = writeln!(
            svg,
            "<text x=\"{W}\" y=\"{low}\" text-anchor=\"end\" class=\"axis\">{x}</text>"
        );
        let _ = writeln!(svg, "<text x=\"{LEFT}\" y=\"10\" class=\"axis\">{y}</text>");
        svg
    }

    /// A line, with a value under each of its points.
    fn line(&self, found: &Finding, curve: &Curve, colour: &str, is_today: bool) -> String {
        let at = |&(x, y): &(f64, f64)| format!("{:.1} {:.1}", self.px(x), self.py(y));
        let path: Vec<_> = curve.points.iter().map(at).collect();
        let dash = if is_today { " stroke-dasharray=\"5 4\"" } else { "" };
        let mut svg =
            format!("<path class=\"line\" stroke=\"{colour}\"{dash} d=\"M{}\"/>\n", path.join("L"));
        for &(x, y) in &curve.points {
            let tip = self.tip(found, &curve.name, x, y);
            let (px, py) = (self.px(x), self.py(y));
            let _ = writeln!(
                svg,
                "<circle cx=\"{px:.1}\" cy=\"{py:.1}\" r=\"3.5\" fill=\"{colour}\" data-tip=\"{tip}\"/>"
            );
        }
        svg
    }

    fn tip(&self, found: &Finding, name: &str, x: f64, y: f64) -> String {
        escape(&format!("{name}: {} {} at {} {}", short(y), found.y, short(x), found.x))
    }
}

fn plot(found: &Finding, today: &Today) -> String {
    let curves: Vec<&Curve> = found.curves.iter().chain(today.of(found.name)).collect();
    let axes = Axes::of(found, &curves);
    let title = escape(found.title);
    let mut svg =
        format!("<figure><svg viewBox=\"0 0 {W} {H}\" role=\"img\" aria-label=\"{title}\">\n");
    svg.push_str(&axes.drawn(found));
    let mut legend = String::new();
    for (number, curve) in curves.iter().enumerate() {
        let colour = COLOURS[number % COLOURS.len()];
        let is_today = number >= found.curves.len();
        svg.push_str(&axes.line(found, curve, colour, is_today));
        let when = if is_today { " (today)" } else { "" };
        let _ = write!(
            legend,
            "<span style=\"color:{colour}\">●</span> {}{when} ",
            escape(&curve.name)
        );
    }
    for mark in &found.marks {
        let tip = axes.tip(found, &format!("paper, {}", mark.name), mark.x, mark.y);
        let at = found.curves.iter().position(|curve| curve.name == mark.name);
        let colour = at.map_or("#888", |at| COLOURS[at % COLOURS.len()]);
        let (px, py) = (axes.px(mark.x), axes.py(mark.y) + 6.0);
        let _ = writeln!(
            svg,
            "<text class=\"star\" x=\"{px:.1}\" y=\"{py:.1}\" text-anchor=\"middle\" style=\"fill:{colour}\" data-tip=\"{tip}\">★</text>"
        );
    }
    let _ = writeln!(svg, "</svg><figcaption>{legend} ★ the paper's text</figcaption></figure>");
    svg
}

/// Rows of parts, time to the right.
fn chart(gantt: &Gantt) -> String {
    let mut rows: Vec<(usize, Part)> =
        gantt.spans.iter().map(|span| (span.node, span.part)).collect();
    rows.sort_unstable();
    rows.dedup();
    let start = gantt.spans.iter().map(|span| span.start_ns).min().unwrap_or(0);
    let end = gantt.spans.iter().map(|span| span.end_ns).max().unwrap_or(1).max(start + 1);
    let (left, width, row_height) = (150.0, 1000.0, 22.0);
    let height = rows.len() as f64 * row_height + 26.0;
    let px = |at: u64| left + (at - start) as f64 / (end - start) as f64 * (width - left - 10.0);
    let mut svg = format!(
        "<figure class=\"wide\"><figcaption>{}</figcaption><svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{}\">\n",
        escape(&gantt.title),
        escape(&gantt.title)
    );
    let mut whats: Vec<&str> = gantt.spans.iter().map(|span| span.what).collect();
    whats.sort_unstable();
    whats.dedup();
    for (number, (node, part)) in rows.iter().enumerate() {
        let y = number as f64 * row_height + 4.0;
        let whose = ["first host", "second host"][*node];
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{whose}, {}</text><path class=\"grid\" d=\"M{left} {:.1}H{width}\"/>",
            left - 6.0,
            y + 13.0,
            part.name(),
            y + row_height - 3.0
        );
        for span in gantt.spans.iter().filter(|span| (span.node, span.part) == (*node, *part)) {
            let colour = COLOURS
                [whats.iter().position(|what| *what == span.what).unwrap_or(0) % COLOURS.len()];
            let (x0, x1) = (px(span.start_ns), px(span.end_ns));
            let us = |ns: u64| short((ns - start) as f64 / 1e3);
            let frame =
                if span.frame > 0 { format!(", frame {}", span.frame) } else { String::new() };
            let tip = escape(&format!(
                "{}: {} to {} µs{frame}",
                span.what,
                us(span.start_ns),
                us(span.end_ns)
            ));
            let _ = writeln!(
                svg,
                "<rect x=\"{x0:.2}\" y=\"{y:.1}\" width=\"{:.2}\" height=\"{:.1}\" fill=\"{colour}\" data-tip=\"{tip}\"/>",
                (x1 - x0).max(0.6),
                row_height - 7.0
            );
        }
    }
    let _ = writeln!(
        svg,
        "<text x=\"{left}\" y=\"{0}\">0</text><text x=\"{1}\" y=\"{0}\" text-anchor=\"end\">{2} µs</text></svg></figure>",
        height - 6.0,
        width - 4.0,
        short((end - start) as f64 / 1e3)
    );
    svg
}

fn costs(bench: &Bench, name: &str) -> Result<String> {
    let machine = bench.machine(name)?;
    let mut text = format!("<details><summary>{name}: {}</summary><table>", escape(&machine.title));
    for (key, cost) in machine.said() {
        let _ = write!(
            text,
            "<tr class=\"{how}\"><td>{}</td><td>{}</td><td>{how}</td><td>{}</td><td>{}</td></tr>",
            key.name,
            escape(&shown(key.unit, cost.value)),
            escape(&cost.why),
            escape(key.about),
            how = cost.how.word()
        );
    }
    text.push_str("</table></details>\n");
    Ok(text)
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
