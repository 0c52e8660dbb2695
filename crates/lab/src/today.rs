//! What was measured on real links, beside the paper's and the model's: a third column.
//!
//! ```json
//! { "rmpp-fig8": [ { "name": "udp, this machine", "points": [[0, 410.0], [15, 480.0]] } ],
//!   "emp-table2": [ { "name": "udp, this machine", "numbers": { "wait": 2.5 } } ] }
//! ```
//!
//! A curve is drawn in the experiment's figure; numbers stand beside the targets of the same names.

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::figure::Curve;

/// Measured curves and numbers, by experiment.
#[derive(Clone, Debug, Default)]
pub struct Today {
    curves: Vec<(String, Curve)>,
    /// Experiment, whose number it is, the target's name, and the value.
    numbers: Vec<(String, String, String, f64)>,
}

impl Today {
    /// Reads a file's text.
    pub fn parse(text: &str) -> Result<Self> {
        let value: Value = serde_json::from_str(text).context("not JSON")?;
        let all = value.as_object().context("an object, experiments by their names, is wanted")?;
        let mut today = Self::default();
        for (name, list) in all {
            if crate::experiments::find(name).is_none() {
                anyhow::bail!("no experiment {name:?}; `packhorse lab` lists them");
            }
            let list = list.as_array().with_context(|| format!("{name}: a list is wanted"))?;
            for one in list {
                today.read(name, one).with_context(|| format!("in {name}"))?;
            }
        }
        Ok(today)
    }

    fn read(&mut self, experiment: &str, value: &Value) -> Result<()> {
        let name = value["name"].as_str().context("a curve needs a \"name\"")?;
        let point = |value: &Value| Some((value.get(0)?.as_f64()?, value.get(1)?.as_f64()?));
        match (&value["points"], &value["numbers"]) {
            (Value::Array(points), Value::Null) => {
                let points: Option<Vec<_>> = points.iter().map(point).collect();
                self.curve(experiment, name, points.context("a point is [x, y], two numbers")?);
            }
            (Value::Null, Value::Object(numbers)) => {
                for (what, number) in numbers {
                    let number = number.as_f64().with_context(|| format!("{what} is no number"))?;
                    self.number(experiment, name, what, number);
                }
            }
            _ => anyhow::bail!("{name:?} needs \"points\": [[x, y], …] or \"numbers\": {{…}}"),
        }
        Ok(())
    }

    /// Adds a curve to an experiment's figure.
    pub fn curve(&mut self, experiment: &str, name: &str, points: Vec<(f64, f64)>) {
        self.curves.push((experiment.to_owned(), Curve { name: name.to_owned(), points }));
    }

    /// Adds a number beside the target of this name.
    pub fn number(&mut self, experiment: &str, name: &str, what: &str, value: f64) {
        self.numbers.push((experiment.to_owned(), name.to_owned(), what.to_owned(), value));
    }

    /// Takes what another file has, too.
    pub fn add(&mut self, other: Self) {
        self.curves.extend(other.curves);
        self.numbers.extend(other.numbers);
    }

    /// Whether nothing was measured.
    pub fn is_empty(&self) -> bool {
        self.curves.is_empty() && self.numbers.is_empty()
    }

    /// The curves of an experiment.
    pub fn of<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Curve> {
        self.curves.iter().filter(move |(of, _)| of == name).map(|(_, curve)| curve)
    }

    /// What was measured of a target: by whom, and how much.
    pub fn numbers<'a>(
        &'a self,
        experiment: &'a str,
        what: &'a str,
    ) -> impl Iterator<Item = (&'a str, f64)> {
        let is_it =
            move |one: &&(String, String, String, f64)| one.0 == experiment && one.2 == what;
        self.numbers.iter().filter(is_it).map(|(_, name, _, value)| (name.as_str(), *value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curves_are_read_and_mistakes_are_named() {
        let today =
            Today::parse(r#"{"rmpp-fig8": [{"name": "udp", "points": [[0, 1.5], [15, 2]]}]}"#)
                .unwrap();
        let curve = today.of("rmpp-fig8").next().unwrap();
        assert_eq!((curve.name.as_str(), curve.points.len()), ("udp", 2));
        let wrong = |text: &str| format!("{:#}", Today::parse(text).unwrap_err());
        assert!(wrong("[]").contains("object"));
        assert!(wrong(r#"{"x": []}"#).contains("no experiment"));
        assert!(
            wrong(r#"{"rmpp-fig8": [{"name": "a", "points": [[1]]}]}"#).contains("two numbers")
        );
        assert!(wrong(r#"{"rmpp-fig8": [{"name": "a"}]}"#).contains("needs \"points\""));
        assert!(
            wrong(r#"{"rmpp-fig8": [{"name": "a", "numbers": {"b": "c"}}]}"#).contains("b is no")
        );
        let today =
            Today::parse(r#"{"emp-table2": [{"name": "udp", "numbers": {"wait": 2.5}}]}"#).unwrap();
        let wait: Vec<_> = today.numbers("emp-table2", "wait").collect();
        assert_eq!(wait, [("udp", 2.5)]);
        assert_eq!(today.numbers("emp-table2", "total").count(), 0);
    }
}
