//! Scales with round numbers at their ticks.

use crate::text::short;

/// How a scale goes from end to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Steps {
    /// Equal differences.
    Even,
    /// Equal ratios; ticks at powers of ten.
    Tens,
    /// Equal ratios; ticks at powers of two, for lengths in bytes.
    Twos,
}

/// A scale in the data's own unit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    low: f64,
    high: f64,
    steps: Steps,
}

/// About so many ticks.
const TICK_COUNT: f64 = 5.0;

/// The least of 1, 2, 2.5 and 5 times a power of ten that is no less than `least`.
fn round_step(least: f64) -> f64 {
    let power = 10f64.powf(least.max(f64::MIN_POSITIVE).log10().floor());
    [1.0, 2.0, 2.5, 5.0, 10.0]
        .map(|of| of * power)
        .into_iter()
        .find(|&step| step >= least * 0.999)
        .unwrap_or(least)
}

impl Scale {
    /// From zero to the tick above `high`.
    pub(super) fn from_zero(high: f64) -> Self {
        let high = if high > 0.0 { high } else { 1.0 };
        let step = round_step(high / TICK_COUNT);
        Self { low: 0.0, high: (high / step - 1e-9).ceil() * step, steps: Steps::Even }
    }

    /// From zero to `high` and no further.
    pub(super) fn up_to(high: f64) -> Self {
        Self { low: 0.0, high: if high > 0.0 { high } else { 1.0 }, steps: Steps::Even }
    }

    /// Over these values and no further; ratios where there is nothing at zero or below.
    pub(super) fn over(values: impl Iterator<Item = f64>, steps: Steps) -> Self {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values {
            (low, high) = (low.min(value), high.max(value));
        }
        let steps = if low > 0.0 { steps } else { Steps::Even };
        if steps == Steps::Even {
            return Self::from_zero(high);
        }
        Self { low, high: if high > low { high } else { low * 2.0 }, steps }
    }

    /// 0 to 1.
    pub(super) fn part(&self, value: f64) -> f64 {
        match self.steps {
            Steps::Even => (value - self.low) / (self.high - self.low),
            _ => (value / self.low).ln() / (self.high / self.low).ln(),
        }
    }

    /// Where a tick stands, and what it says.
    pub(super) fn ticks(&self) -> Vec<(f64, String)> {
        let base = match self.steps {
            Steps::Even => {
                let step = round_step((self.high - self.low) / TICK_COUNT);
                let count = ((self.high - self.low) / step + 1e-9).floor() as u32;
                return (0..=count)
                    .map(|at| self.low + f64::from(at) * step)
                    .map(|at| (at, plain(at)))
                    .collect();
            }
            Steps::Tens => 10.0_f64,
            Steps::Twos => 2.0,
        };
        let logs = (self.low.ln() / base.ln() - 1e-9, self.high.ln() / base.ln() + 1e-9);
        let every = (((logs.1 - logs.0) / (TICK_COUNT + 1.0)).ceil() as i32).max(1);
        let (first, last) = (logs.0.ceil() as i32, logs.1.floor() as i32);
        let powers =
            (first..=last).step_by(every.unsigned_abs() as usize).map(|power| base.powi(power));
        powers
            .map(|at| (at, if self.steps == Steps::Twos { of_bytes(at) } else { plain(at) }))
            .collect()
    }
}

/// A number without zeros that say nothing.
pub(super) fn plain(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let text = short(value);
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// 64K for 65536: as people say lengths.
fn of_bytes(value: f64) -> String {
    match value {
        _ if value >= 1_048_576.0 => format!("{}M", plain(value / 1_048_576.0)),
        _ if value >= 1024.0 => format!("{}K", plain(value / 1024.0)),
        _ => plain(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(scale: &Scale) -> Vec<String> {
        scale.ticks().into_iter().map(|(_, text)| text).collect()
    }

    #[test]
    fn ticks_are_round_numbers_and_hold_the_data() {
        assert_eq!(said(&Scale::from_zero(71.1)), ["0", "20", "40", "60", "80"]);
        assert_eq!(said(&Scale::from_zero(15.0)), ["0", "5", "10", "15"]);
        assert_eq!(said(&Scale::from_zero(0.0)), ["0", "0.2", "0.4", "0.6", "0.8", "1"]);
        let lengths = Scale::over([2048.0, 1_048_576.0].into_iter(), Steps::Twos);
        assert_eq!(said(&lengths), ["2K", "8K", "32K", "128K", "512K"]);
        let times = Scale::over([1.0, 5000.0].into_iter(), Steps::Tens);
        assert_eq!(said(&times), ["1", "10", "100", "1000"]);
    }

    #[test]
    fn ends_of_a_scale_are_its_ends() {
        let scale = Scale::over([16.0, 32_768.0].into_iter(), Steps::Twos);
        assert!(scale.part(16.0).abs() < 1e-12 && (scale.part(32_768.0) - 1.0).abs() < 1e-12);
        let with_zero = Scale::over([0.0, 15.0].into_iter(), Steps::Twos);
        assert_eq!(with_zero.part(15.0), 1.0);
    }
}
