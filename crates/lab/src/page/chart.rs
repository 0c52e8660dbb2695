//! One message through processors, bus and wire: a row for each part, time to the right.

use std::fmt::Write as _;

use super::axes::{Scale, plain};
use super::escape;
use crate::figure::Gantt;
use crate::plant::Part;
use crate::trace::Span;

const LEFT: f64 = 190.0;
const W: f64 = 1000.0;
const ROW: f64 = 22.0;
/// Between the rows of the two hosts.
const GAP: f64 = 10.0;

/// Kinds of steps, each with its colour: the same in all charts.
const KINDS: [(&str, &str); 6] = [
    ("the application", "#8d99a6"),
    ("interrupt", "#c0392b"),
    ("the host handles data, copies", "#d9822b"),
    ("the card handles data, relays", "#3b8a3e"),
    ("bytes move", "#2f6db3"),
    ("announce, grant, acknowledge, tell", "#8a4fa3"),
];

/// Which of [`KINDS`] a step is.
fn kind(what: &str) -> usize {
    match what {
        "compute" | "look" | "post send" | "post receive" => 0,
        "interrupt" => 1,
        "send, copy" | "receive, copy" | "receive, submit copy" | "copy" | "wait for copies" => 2,
        "send data" | "receive data" | "relay frame" => 3,
        "frame" | "fetch" | "data to its place" | "data to the card" | "frame to the host"
        | "frame to the card" => 4,
        _ => 5,
    }
}

/// The chart, with ticks and a legend.
pub(super) fn chart(gantt: &Gantt) -> String {
    let mut rows: Vec<(usize, Part)> =
        gantt.spans.iter().map(|span| (span.node, span.part)).collect();
    rows.sort_unstable();
    rows.dedup();
    let start = gantt.spans.iter().map(|span| span.start_ns).min().unwrap_or(0);
    let end = gantt.spans.iter().map(|span| span.end_ns).max().unwrap_or(1).max(start + 1);
    let y = |row: usize| row as f64 * ROW + 4.0 + if rows[row].0 > 0 { GAP } else { 0.0 };
    let ground = rows.len() as f64 * ROW + GAP + 4.0;
    let us = |ns: u64| (ns - start) as f64 / 1e3;
    let scale = Scale::up_to(us(end));
    let px = |us: f64| LEFT + scale.part(us) * (W - LEFT - 10.0);
    let title = escape(&gantt.title);
    let mut svg = format!(
        "<figure class=\"wide\"><figcaption>{title}</figcaption><div class=\"scroll\"><svg class=\"chart\" viewBox=\"0 0 {W} {}\" role=\"img\" aria-label=\"{title}\">\n",
        ground + 24.0
    );
    for (at, text) in scale.ticks() {
        let (px, unit) = (px(at), if at == 0.0 { " µs" } else { "" });
        let _ = writeln!(
            svg,
            "<path class=\"grid\" d=\"M{px:.1} 0V{ground}\"/><text x=\"{px:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{text}{unit}</text>",
            ground + 16.0
        );
    }
    let mut used = [false; KINDS.len()];
    for (row, &(node, part)) in rows.iter().enumerate() {
        let (y, whose) = (y(row), ["first host", "second host"][node]);
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{whose}, {}</text>",
            LEFT - 8.0,
            y + 13.0,
            part.name()
        );
        for span in gantt.spans.iter().filter(|span| (span.node, span.part) == (node, part)) {
            let kind = kind(span.what);
            used[kind] = true;
            let (x0, x1) = (px(us(span.start_ns)), px(us(span.end_ns)));
            let (width, tip) =
                ((x1 - x0).max(0.8), escape(&told(span, us(span.start_ns), us(span.end_ns))));
            let _ = writeln!(
                svg,
                "<rect x=\"{x0:.2}\" y=\"{y:.1}\" width=\"{width:.2}\" height=\"{:.1}\" fill=\"{}\" data-tip=\"{tip}\"/>",
                ROW - 6.0,
                KINDS[kind].1
            );
        }
    }
    svg.push_str("</svg></div><figcaption>");
    for ((name, colour), _) in KINDS.iter().zip(used).filter(|(_, used)| *used) {
        let _ = write!(svg, "<span class=\"key\"><b style=\"color:{colour}\">■</b> {name}</span> ");
    }
    svg.push_str("</figcaption></figure>\n");
    svg
}

fn told(span: &Span, from: f64, to: f64) -> String {
    let frame = if span.frame > 0 { format!(", frame {}", span.frame) } else { String::new() };
    format!("{}: {} to {} µs ({} µs){frame}", span.what, plain(from), plain(to), plain(to - from))
}
