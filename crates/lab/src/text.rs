//! An experiment in the terminal: paper, ours, difference; and a plot.

use std::fmt::Write as _;

use crate::figure::{Finding, Meant, Target};
use crate::today::Today;

const WIDTH: usize = 72;
const HEIGHT: usize = 16;

/// A number with as many digits as say something.
pub(crate) fn short(value: f64) -> String {
    match value.abs() {
        _ if !value.is_finite() => "-".to_owned(),
        size if size >= 1000.0 => format!("{value:.0}"),
        size if size >= 100.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// What the paper says, with how it means it.
pub(crate) fn of_paper(target: &Target) -> String {
    let sign = match target.meant {
        Meant::About => "",
        Meant::AtMost => "≤ ",
        Meant::AtLeast => "≥ ",
    };
    format!("{sign}{}", short(target.paper))
}

/// How a target came out, in a word.
pub(crate) fn verdict(target: &Target) -> &'static str {
    match (target.is_met(), target.is_given) {
        (true, false) => "met",
        (true, true) => "given",
        (false, _) => "missed",
    }
}

/// How many numbers came out as the paper has them, and how many did not. Those that a fit or a stated cost put in count only if they
/// came out otherwise all the same.
pub(crate) fn counted(findings: &[Finding]) -> (usize, usize) {
    let words = || findings.iter().flat_map(|found| &found.targets).map(verdict);
    (
        words().filter(|word| *word == "met").count(),
        words().filter(|word| *word == "missed").count(),
    )
}

/// The table of an experiment, as it is committed and compared.
pub fn committed(found: &Finding) -> String {
    let mut text = format!("{}  {}\n", found.name, found.title);
    for target in &found.targets {
        let what = format!("{}, {}", target.what, target.unit);
        let _ = writeln!(
            text,
            "  {what:<58} {:>10} {:>10} {:>+7.1} %  {:<6} {}",
            of_paper(target),
            short(target.ours),
            target.difference() * 100.0,
            verdict(target),
            target.line
        );
    }
    for (what, holds) in &found.orders {
        let _ =
            writeln!(text, "  order: {what}: {}", if *holds { "holds" } else { "DOES NOT HOLD" });
    }
    text
}

/// An experiment as `packhorse lab NAME` prints it.
pub fn print(found: &Finding, today: &Today) -> String {
    let mut text = format!("{}\n{}\n\n", found.title, found.about);
    let _ = writeln!(text, "  {:<58} {:>10} {:>10} {:>9}", "", "paper", "ours", "diff.");
    for line in committed(found).lines().skip(1) {
        let _ = writeln!(text, "{line}");
    }
    for target in
        found.targets.iter().filter(|target| !target.is_met() && !target.reason.is_empty())
    {
        let _ = writeln!(text, "  {}: {}", target.what, target.reason);
    }
    for target in &found.targets {
        for (name, value) in today.numbers(found.name, &target.what) {
            let _ = writeln!(
                text,
                "  today, {name}: {}, {} {}",
                target.what,
                short(value),
                target.unit
            );
        }
    }
    if !found.curves.is_empty() {
        text.push('\n');
        text.push_str(&plot(found, today));
    }
    for curve in today.of(found.name) {
        let points: Vec<_> =
            curve.points.iter().map(|(x, y)| format!("{} → {}", short(*x), short(*y))).collect();
        let _ = writeln!(text, "  today, {}: {}", curve.name, points.join(", "));
    }
    text
}

struct Scale {
    low: f64,
    high: f64,
    is_log: bool,
}

impl Scale {
    fn of(values: impl Iterator<Item = f64>, is_log: bool, from_zero: bool) -> Self {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values {
            low = low.min(value);
            high = high.max(value);
        }
        if from_zero {
            low = low.min(0.0);
        }
        if high <= low {
            high = low + 1.0;
        }
        Self { low, high, is_log: is_log && low > 0.0 }
    }

    /// 0 to 1.
    fn at(&self, value: f64) -> f64 {
        match self.is_log {
            true => (value / self.low).ln() / (self.high / self.low).ln(),
            false => (value - self.low) / (self.high - self.low),
        }
    }
}

/// Curves as letters, the paper's points as stars.
fn plot(found: &Finding, today: &Today) -> String {
    let today: Vec<_> = today.of(found.name).collect();
    let points = || {
        let curves = found.curves.iter().chain(today.iter().copied());
        let curves = curves.flat_map(|curve| curve.points.iter().copied());
        curves.chain(found.marks.iter().map(|mark| (mark.x, mark.y)))
    };
    let x = Scale::of(points().map(|point| point.0), found.is_log, false);
    // Today's machine is hundreds of times as fast as the paper's: in the terminal its curves are drawn in their own measure.
    let now = || today.iter().flat_map(|curve| curve.points.iter().map(|point| point.1));
    let most = |values: &mut dyn Iterator<Item = f64>| values.fold(0.0, f64::max);
    let ours = found.curves.iter().flat_map(|curve| curve.points.iter().map(|point| point.1));
    let ours = most(&mut ours.chain(found.marks.iter().map(|mark| mark.y)));
    let by = if today.is_empty() { 1.0 } else { ours / most(&mut now()).max(f64::MIN_POSITIVE) };
    let y = Scale::of([ours].into_iter(), false, true);
    let mut rows = vec![vec![' '; WIDTH + 1]; HEIGHT + 1];
    let mut put = |(px, py): (f64, f64), letter: char| {
        let column = (x.at(px) * WIDTH as f64).round() as usize;
        let row = HEIGHT - (y.at(py) * HEIGHT as f64).round() as usize;
        rows[row.min(HEIGHT)][column.min(WIDTH)] = letter;
    };
    let mut text = String::new();
    for (number, curve) in found.curves.iter().enumerate() {
        let letter = (b'a' + number as u8 % 26) as char;
        for pair in curve.points.windows(2) {
            let steps = 24;
            for step in 0..=steps {
                let part = f64::from(step) / f64::from(steps);
                let at = match x.is_log {
                    true => pair[0].0 * (pair[1].0 / pair[0].0).powf(part),
                    false => pair[0].0 + (pair[1].0 - pair[0].0) * part,
                };
                put((at, pair[0].1 + (pair[1].1 - pair[0].1) * part), '·');
            }
        }
        curve.points.iter().for_each(|&point| put(point, letter));
        let _ = writeln!(text, "  {letter}  {}", curve.name);
    }
    for curve in &today {
        curve.points.iter().for_each(|&point| put((point.0, point.1 * by), '+'));
    }
    found.marks.iter().for_each(|mark| put((mark.x, mark.y), '*'));
    let _ = writeln!(
        text,
        "  *  the paper's text{}",
        match today.is_empty() {
            true => String::new(),
            false => format!("      +  today, up to {}", short(most(&mut now()))),
        }
    );
    let _ = writeln!(text, "  {}", found.y);
    for (number, row) in rows.iter().enumerate() {
        let label = match number {
            0 => short(y.high),
            HEIGHT => short(y.low),
            _ => String::new(),
        };
        let row: String = row.iter().collect();
        let _ = writeln!(text, "  {label:>8} │{}", row.trim_end());
    }
    let _ = writeln!(text, "  {:>8} └{}", "", "─".repeat(WIDTH));
    let _ = writeln!(
        text,
        "  {:>8}  {:<30}{:>42}",
        "",
        short(x.low),
        format!("{}   {}", found.x, short(x.high))
    );
    text
}
