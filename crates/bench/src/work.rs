//! Real work to do beside communication: arithmetic and loads in a dependent chain, in units that are timed at the start.
//!
//! A sleep or a look at the clock would leave the core to others, and a loop the compiler sees through would not be there.
//! The table the loads go to fits the first cache, so that it also notices who pollutes that.

use std::hint::black_box;
use std::time::{Duration, Instant};

/// Words of the table: 8 KB.
const TABLE_LEN: usize = 1024;
/// Calibration: this many goes of this many units, about 1 ms each.
const GO_COUNT: usize = 20;
const GO_UNITS: u64 = 500_000;

/// A worker and what a unit of its work takes when nothing disturbs it.
#[derive(Clone, Debug)]
pub struct Work {
    state: u64,
    table: Vec<u64>,
    ns_per_unit: f64,
}

impl Work {
    /// Times itself, for some 20 ms; the machine should be quiet meanwhile.
    pub fn calibrate() -> Self {
        let table = (0..TABLE_LEN as u64).map(|index| index.wrapping_mul(0x9e37_79b9)).collect();
        let mut work = Self { state: 1, table, ns_per_unit: 1.0 };
        work.units(GO_UNITS); // the clock of the core goes up
        let mut times: Vec<f64> = (0..GO_COUNT)
            .map(|_| {
                let start = Instant::now();
                work.units(GO_UNITS);
                start.elapsed().as_nanos() as f64
            })
            .collect();
        times.sort_by(f64::total_cmp);
        // The lower quartile: whatever else the machine does can only add, and most goes are shorter than a slice of time.
        work.ns_per_unit = times[GO_COUNT / 4] / GO_UNITS as f64;
        work
    }

    /// Does so many units. Never inlined, so that it is the same code wherever it is called.
    #[inline(never)]
    pub fn units(&mut self, count: u64) {
        let mut state = self.state;
        for _ in 0..count {
            // The index comes from the state and the state from what was loaded: no two units can overlap.
            let loaded = self.table[(state >> 54) as usize % TABLE_LEN];
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(loaded | 1);
        }
        self.state = black_box(state);
    }

    /// What a number of units takes alone.
    pub fn ns_of(&self, units: u64) -> f64 {
        units as f64 * self.ns_per_unit
    }

    /// Units that fill so many nanoseconds.
    pub fn units_in(&self, ns: f64) -> u64 {
        (ns / self.ns_per_unit).max(0.0).round() as u64
    }

    /// Works on so many threads at once, this one among them, each as many units.
    pub fn units_on(&mut self, thread_count: usize, count: u64) {
        std::thread::scope(|scope| {
            for _ in 1..thread_count {
                let mut other = self.clone();
                scope.spawn(move || other.units(count));
            }
            self.units(count);
        });
    }
}

/// Time of something, in nanoseconds.
pub fn timed(action: impl FnOnce()) -> f64 {
    let start = Instant::now();
    action();
    start.elapsed().as_nanos() as f64
}

/// The one in the middle; 0 of none.
pub fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// Whether so much time has passed since.
pub fn is_over(start: Instant, time: Duration) -> bool {
    start.elapsed() >= time
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a unit takes depends on what else the machine does; that each is done, one after the other, does not.
    #[test]
    fn twice_the_units_are_twice_the_work() {
        let calibrated = Work::calibrate();
        let ns = calibrated.ns_per_unit;
        assert!(ns > 0.0 && ns.is_finite(), "{ns}");
        assert_eq!(calibrated.units_in(calibrated.ns_of(12_345)), 12_345);
        let state_after = |goes: &[u64]| {
            let mut work = calibrated.clone();
            goes.iter().for_each(|&units| work.units(units));
            work.state
        };
        assert_eq!(state_after(&[1000, 1000]), state_after(&[2000]));
        assert_ne!(state_after(&[1000]), state_after(&[2000]));
        assert_ne!(state_after(&[1999]), state_after(&[2000]), "every unit counts");
    }

    #[test]
    fn median_of_few() {
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&mut []), 0.0);
    }
}
