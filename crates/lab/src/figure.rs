//! What an experiment found: numbers beside the paper's, curves, orders, charts.

use crate::trace::Span;

/// How a number of the paper is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meant {
    /// About this.
    About,
    /// No more than this.
    AtMost,
    /// No less than this.
    AtLeast,
}

/// A number that the paper prints, and ours.
#[derive(Clone, Debug)]
pub struct Target {
    /// What it is.
    pub what: String,
    /// Its unit.
    pub unit: &'static str,
    /// The paper's.
    pub paper: f64,
    /// How the paper means it.
    pub meant: Meant,
    /// Where it stands: paper and line of its text.
    pub line: &'static str,
    /// Ours.
    pub ours: f64,
    /// The number went into a fit or is a sum of stated costs: then it proves nothing.
    pub is_given: bool,
    /// Where it misses: why, as the trace shows.
    pub reason: &'static str,
}

/// More than this off is a miss.
pub const TOLERANCE: f64 = 0.15;

impl Target {
    /// A number the paper prints.
    pub fn new(
        what: impl Into<String>,
        unit: &'static str,
        paper: f64,
        line: &'static str,
        ours: f64,
    ) -> Self {
        let what = what.into();
        Self { what, unit, paper, meant: Meant::About, line, ours, is_given: false, reason: "" }
    }

    /// Says that the number is given by a fit or by stated costs.
    #[must_use]
    pub fn given(mut self) -> Self {
        self.is_given = true;
        self
    }

    /// The paper gives a bound.
    #[must_use]
    pub fn meant(mut self, meant: Meant) -> Self {
        self.meant = meant;
        self
    }

    /// Why it misses.
    #[must_use]
    pub fn because(mut self, reason: &'static str) -> Self {
        self.reason = reason;
        self
    }

    /// Ours against the paper's: 0.1 is ten percent more.
    pub fn difference(&self) -> f64 {
        self.ours / self.paper - 1.0
    }

    /// Whether ours is what the paper says.
    pub fn is_met(&self) -> bool {
        match self.meant {
            Meant::About => self.difference().abs() <= TOLERANCE,
            Meant::AtMost => self.difference() <= 0.0,
            Meant::AtLeast => self.difference() >= 0.0,
        }
    }
}

/// A line of a plot.
#[derive(Clone, Debug)]
pub struct Curve {
    /// What it shows.
    pub name: String,
    /// x and y.
    pub points: Vec<(f64, f64)>,
}

/// A point that the paper's text gives.
#[derive(Clone, Debug)]
pub struct Mark {
    /// What it shows.
    pub name: String,
    /// Where.
    pub x: f64,
    /// Its value.
    pub y: f64,
}

/// One message through processors, bus and wire.
#[derive(Clone, Debug)]
pub struct Gantt {
    /// What it shows.
    pub title: String,
    /// What was done when.
    pub spans: Vec<Span>,
}

/// All that one experiment found.
#[derive(Clone, Debug, Default)]
pub struct Finding {
    /// Its name on the command line.
    pub name: &'static str,
    /// The paper's name for it.
    pub title: &'static str,
    /// On which machine.
    pub machine: &'static str,
    /// What it is about, and how it was run.
    pub about: &'static str,
    /// Axes.
    pub x: &'static str,
    /// Axes.
    pub y: &'static str,
    /// Over powers of ten.
    pub is_log: bool,
    /// Ours.
    pub curves: Vec<Curve>,
    /// The paper's.
    pub marks: Vec<Mark>,
    /// Numbers.
    pub targets: Vec<Target>,
    /// Which is above which, and whether that holds.
    pub orders: Vec<(String, bool)>,
    /// Charts.
    pub gantts: Vec<Gantt>,
}

impl Finding {
    /// Notes that an order of the paper holds, or does not.
    pub fn order(&mut self, what: impl Into<String>, holds: bool) {
        self.orders.push((what.into(), holds));
    }

    /// Adds a curve.
    pub fn curve(&mut self, name: impl Into<String>, points: Vec<(f64, f64)>) {
        self.curves.push(Curve { name: name.into(), points });
    }

    /// Adds a point of the paper's.
    pub fn mark(&mut self, name: impl Into<String>, x: f64, y: f64) {
        self.marks.push(Mark { name: name.into(), x, y });
    }
}

/// y at x on a line through points that are in the order of x; beyond its ends, the ends.
pub(crate) fn interpolate(points: &[(f64, f64)], x: f64) -> f64 {
    let mut points: Vec<_> = points.to_vec();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let after = points.iter().position(|point| point.0 >= x);
    match after {
        None => points.last().map_or(f64::NAN, |point| point.1),
        Some(0) => points[0].1,
        Some(at) => {
            let ((x0, y0), (x1, y1)) = (points[at - 1], points[at]);
            if x1 > x0 { y0 + (y1 - y0) * (x - x0) / (x1 - x0) } else { y1 }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_and_tolerance() {
        let target = |paper, ours| Target::new("a", "µs", paper, "l", ours);
        assert!(target(100.0, 115.0).is_met() && !target(100.0, 116.0).is_met());
        assert!(target(100.0, 50.0).meant(Meant::AtMost).is_met());
        assert!(!target(100.0, 50.0).meant(Meant::AtLeast).is_met());
    }

    #[test]
    fn lines_are_followed_and_not_left() {
        let points = [(1.0, 10.0), (3.0, 30.0)];
        assert_eq!(interpolate(&points, 2.0), 20.0);
        assert_eq!(interpolate(&points, 0.0), 10.0);
        assert_eq!(interpolate(&points, 9.0), 30.0);
    }
}
