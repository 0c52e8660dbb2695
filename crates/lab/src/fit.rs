//! Finds the costs that a paper does not state.
//!
//! A few costs are turned until numbers of the paper come out: Gauss and Newton's way, with slopes from runs of the model. The machine's
//! file keeps what was found for one experiment; the test of the fit leaves out one experiment after the other, fits on what is left, and
//! compares its prediction with what was left out.

use anyhow::Result;

use crate::experiments::rmpp::{STEPS, availability_at, bandwidth, per_packet, working};
use crate::machine::Machine;
use crate::placement::Placement;

/// The costs of `rmpp` that are fitted.
pub const RMPP_FITTED: [&str; 3] = ["host.frame_in", "host.frame_out", "host.event"];
/// The experiments of `rmpp` that a fit may use.
pub const RMPP_EXPERIMENTS: [&str; 3] = ["rmpp-fig7", "rmpp-fig8", "rmpp-fig10"];
/// Rounds of the search; after four nothing moves any more.
const ROUND_COUNT: usize = 6;
/// Long enough for the time per packet, short enough for a search.
const LEN: u64 = 256 << 10;

/// What a fit found.
#[derive(Clone, Debug)]
pub struct Fit {
    /// The costs, in nanoseconds.
    pub costs: Vec<(&'static str, f64)>,
    /// Of each experiment: a number's name, the paper's value and the model's; and whether it was left out.
    pub numbers: Vec<(&'static str, String, f64, f64, bool)>,
}

impl Fit {
    /// The greatest difference among what was left out: 0.1 is ten percent.
    pub fn worst_prediction(&self) -> f64 {
        let off = |(.., paper, ours, is_left_out): &(_, _, f64, f64, bool)| match is_left_out {
            true => (ours / paper - 1.0).abs(),
            false => 0.0,
        };
        self.numbers.iter().map(off).fold(0.0, f64::max)
    }
}

type Number = (&'static str, String, f64, f64);

fn numbers_of(machine: &Machine, experiment: &str) -> Result<Vec<Number>> {
    let mut numbers: Vec<Number> = Vec::new();
    match experiment {
        "rmpp-fig7" => {
            for ((name, placement), paper) in STEPS.into_iter().zip([40.0, 27.5, 20.0]) {
                let ours = per_packet(machine, bandwidth(machine, placement, LEN)?);
                numbers.push(("rmpp-fig7", format!("{name}, µs per packet"), paper, ours));
            }
        }
        "rmpp-fig8" => {
            let machine = machine.with("proto.ahead", 15.0);
            let ours = per_packet(&machine, bandwidth(&machine, Placement::DATA, LEN)?);
            numbers.push(("rmpp-fig8", "15 early, µs per packet".to_owned(), 15.5, ours));
        }
        _ => {
            for ((name, placement), paper) in STEPS.into_iter().zip([60.0, 80.0, 95.0]) {
                let ours = availability_at(&working(machine, placement)?, 21.0) * 100.0;
                numbers.push(("rmpp-fig10", format!("{name}, % at 21 MB/s"), paper, ours));
            }
        }
    }
    Ok(numbers)
}

/// What is wrong with these costs, number by number. Availability counts by what is *not* available: 95 of 100 are 5.
fn residuals(machine: &Machine, experiments: &[&str]) -> Result<Vec<f64>> {
    let mut all = Vec::new();
    for experiment in experiments {
        for (name, _, paper, ours) in numbers_of(machine, experiment)? {
            all.push(match name {
                "rmpp-fig10" => (100.0 - ours) / (100.0 - paper) - 1.0,
                _ => ours / paper - 1.0,
            });
        }
    }
    Ok(all)
}

fn with_costs(machine: &Machine, costs: &[f64]) -> Machine {
    RMPP_FITTED
        .iter()
        .zip(costs)
        .fold(machine.clone(), |machine, (name, &value)| machine.with(name, value))
}

/// Fits the costs of `rmpp` from a poor guess, without the experiment that is left out.
pub fn fit_rmpp(machine: &Machine, left_out: Option<&str>) -> Result<Fit> {
    let used: Vec<_> =
        RMPP_EXPERIMENTS.into_iter().filter(|name| Some(*name) != left_out).collect();
    let mut costs = vec![5_000.0; RMPP_FITTED.len()];
    for _ in 0..ROUND_COUNT {
        let here = residuals(&with_costs(machine, &costs), &used)?;
        let mut slopes = Vec::new();
        for at in 0..costs.len() {
            let step = 500.0 + costs[at] * 0.05;
            let mut moved = costs.clone();
            moved[at] += step;
            let there = residuals(&with_costs(machine, &moved), &used)?;
            slopes.push(there.iter().zip(&here).map(|(a, b)| (a - b) / step).collect::<Vec<_>>());
        }
        let step = solve(&slopes, &here);
        for (cost, step) in costs.iter_mut().zip(step) {
            *cost = (*cost - step).clamp(0.0, 100_000.0);
        }
    }
    let fitted = with_costs(machine, &costs);
    let mut numbers = Vec::new();
    for experiment in RMPP_EXPERIMENTS {
        for (name, what, paper, ours) in numbers_of(&fitted, experiment)? {
            numbers.push((name, what, paper, ours, Some(name) == left_out));
        }
    }
    Ok(Fit { costs: RMPP_FITTED.into_iter().zip(costs).collect(), numbers })
}

/// The step that makes the residuals least, if the slopes were lines: the normal equations, with a little weight on standing still, so
/// that a cost that moves nothing is left where it is.
fn solve(slopes: &[Vec<f64>], residuals: &[f64]) -> Vec<f64> {
    let count = slopes.len();
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let mut rows: Vec<Vec<f64>> = (0..count)
        .map(|row| {
            let mut all: Vec<f64> =
                (0..count).map(|column| dot(&slopes[row], &slopes[column])).collect();
            all[row] += 1e-13 + all[row] * 1e-3;
            all.push(dot(&slopes[row], residuals));
            all
        })
        .collect();
    for pivot in 0..count {
        let scale = rows[pivot][pivot];
        rows[pivot].iter_mut().for_each(|value| *value /= scale);
        let chosen = rows[pivot].clone();
        for (number, row) in rows.iter_mut().enumerate() {
            if number != pivot {
                let factor = row[pivot];
                row.iter_mut().zip(&chosen).for_each(|(value, of)| *value -= factor * of);
            }
        }
    }
    rows.iter().map(|row| row[count]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machines::Bench;

    #[test]
    fn lines_are_solved() {
        // Residuals 2a + b - 5 and a - b - 1 at a = b = 0: the step goes to a = 2, b = 1.
        let step = solve(&[vec![2.0, 1.0], vec![1.0, -1.0]], &[-5.0, -1.0]);
        assert!((step[0] + 2.0).abs() < 0.02 && (step[1] + 1.0).abs() < 0.02, "{step:?}");
    }

    #[test]
    fn what_is_left_out_is_predicted() {
        let machine = Bench::default().machine("rmpp").unwrap();
        for left_out in RMPP_EXPERIMENTS {
            let fit = fit_rmpp(&machine, Some(left_out)).unwrap();
            eprintln!("without {left_out}: {:?}", fit.costs);
            fit.numbers.iter().for_each(|number| eprintln!("   {number:?}"));
            assert!(fit.worst_prediction() <= 0.15, "without {left_out}: {fit:#?}");
        }
    }
}
