//! Curves measured on real links, beside the model's: a third column.
//!
//! ```json
//! { "rmpp-fig8": [ { "name": "udp, this machine", "points": [[0, 410.0], [15, 480.0]] } ] }
//! ```

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::figure::Curve;

/// Measured curves, by experiment.
#[derive(Clone, Debug, Default)]
pub struct Today {
    curves: Vec<(String, Curve)>,
}

impl Today {
    /// Reads a file's text.
    pub fn parse(text: &str) -> Result<Self> {
        let value: Value = serde_json::from_str(text).context("not JSON")?;
        let all = value.as_object().context("an object, experiments by their names, is wanted")?;
        let mut curves = Vec::new();
        for (name, list) in all {
            if crate::experiments::find(name).is_none() {
                anyhow::bail!("no experiment {name:?}; `packhorse lab` lists them");
            }
            for curve in
                list.as_array().with_context(|| format!("{name}: a list of curves is wanted"))?
            {
                curves
                    .push((name.clone(), read_curve(curve).with_context(|| format!("in {name}"))?));
            }
        }
        Ok(Self { curves })
    }

    /// The curves of an experiment.
    pub fn of<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Curve> {
        self.curves.iter().filter(move |(of, _)| of == name).map(|(_, curve)| curve)
    }
}

fn read_curve(value: &Value) -> Result<Curve> {
    let name = value["name"].as_str().context("a curve needs a \"name\"")?.to_owned();
    let points = value["points"].as_array().context("a curve needs \"points\": [[x, y], …]")?;
    let point = |value: &Value| Some((value.get(0)?.as_f64()?, value.get(1)?.as_f64()?));
    let points: Option<Vec<_>> = points.iter().map(point).collect();
    Ok(Curve { name, points: points.context("a point is [x, y], two numbers")? })
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
    }
}
