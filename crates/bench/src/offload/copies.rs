//! The curve of copy offload: a stream with and without a second thread that copies what arrives.
//!
//! It is about links whose frames arrive whole, such as `packet`: elsewhere the system scatters payload to its place, or reads it
//! from the sender's memory, and there is nothing to hand over.

use anyhow::Result;
use clap::Args;

use super::sheets::Sheet;
use crate::command::Setup;
use crate::cpu::CpuTime;
use crate::plan::{Case, Contender, Plan};
use crate::ratio::Spread;
use crate::row::{OURS, Row};
use crate::sizes::show_bytes;
use crate::system::Pattern;
use crate::variant::Manner;

const SIZES: &[usize] = &[64 << 10, 256 << 10, 1 << 20, 4 << 20];
const SECONDS: f64 = 0.3;
const REPS: usize = 3;

/// `bench copies`.
#[derive(Clone, Debug, Args)]
pub struct CopiesArgs {
    #[command(flatten)]
    setup: Setup,
    /// Settings tried beside each other: off, auto, or bytes of a burst from which on a second thread copies, too.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values = ["off", "16384", "131072"])]
    copies: Vec<String>,
}

impl CopiesArgs {
    fn plan(&self) -> Plan {
        let sizes = self.setup.bytes.as_ref().map_or(SIZES, |sizes| &sizes.0);
        let plan = self.setup.plan(Case::each(Pattern::Stream, sizes), SECONDS, REPS);
        let placement = self.setup.placement.first().map_or("thread", String::as_str);
        let set = |copies: &String| Contender {
            manner: Manner { copies: Some(copies.clone()), ..Manner::default() },
            only: vec![Pattern::Stream],
            ..Contender::new(OURS, placement)
        };
        Plan { contenders: self.copies.iter().map(set).collect(), ..plan }
    }

    /// Measures and shows.
    pub(crate) fn run(&self) -> Result<()> {
        let findings = self.setup.measure(self.plan())?;
        print!("{}", sheet(&findings.rows, &self.copies).text());
        Ok(())
    }
}

/// A line for each length and each setting; ratios to the first setting, of the same repetition.
fn sheet(rows: &[Row], settings: &[String]) -> Sheet {
    let head = ["bytes", "copies", "bandwidth", "÷ first", "s/GB: user + system + softirq"];
    let title = "copies: one way, counted at the receiver; processor time of the whole machine";
    let mut sheet = Sheet::new(title, 2, &head);
    let mut sizes: Vec<_> = rows.iter().map(|row| row.bytes).collect();
    sizes.dedup();
    sizes.sort_unstable();
    sizes.dedup();
    for bytes in sizes {
        let of = |setting: &String| -> Vec<&Row> {
            let is_it =
                |row: &&Row| row.bytes == bytes && row.manner.copies.as_ref() == Some(setting);
            rows.iter().filter(is_it).collect()
        };
        let first = settings.first().map(of).unwrap_or_default();
        for setting in settings {
            let these = of(setting);
            let rates = these.iter().filter_map(|row| row.bytes_per_s);
            let rate =
                Spread::of(rates).map_or("-".into(), |s| format!("{:.2} GB/s", s.median / 1e9));
            let ratios = these.iter().filter_map(|row| {
                let base = first.iter().find(|base| base.rep == row.rep)?;
                Some(row.bytes_per_s? / base.bytes_per_s?)
            });
            let ratio = Spread::of(ratios)
                .map_or("-".into(), |s| format!("{:.2} ({:.2}..{:.2})", s.median, s.min, s.max));
            let line = [show_bytes(bytes), setting.clone(), rate, ratio, split(&these)];
            sheet.lines.push(line.into());
        }
    }
    sheet
}

/// Medians of each kind.
fn split(rows: &[&Row]) -> String {
    let median = |kind: fn(CpuTime) -> f64| {
        let times = rows.iter().filter_map(|row| row.cpu_s_per_gb_by_kind.map(kind));
        Spread::of(times).map_or("-".into(), |s| format!("{:.2}", s.median))
    };
    format!("{} + {} + {}", median(|t| t.user), median(|t| t.system), median(|t| t.softirq))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::tests::example_row;

    #[test]
    fn each_setting_stands_beside_the_first_of_its_repetition() {
        let row = |copies: &str, rep, rate| Row {
            manner: Manner { copies: Some(copies.into()), ..Manner::default() },
            bytes_per_s: Some(rate),
            ..example_row(Pattern::Stream, OURS, rep, 1.0)
        };
        let rows = [row("off", 0, 1e9), row("1", 0, 2e9), row("off", 1, 2e9), row("1", 1, 1e9)];
        let sheet = sheet(&rows, &["off".to_owned(), "1".to_owned()]);
        assert_eq!(sheet.lines.len(), 2);
        assert_eq!(sheet.lines[0][1..4], ["off", "1.50 GB/s", "1.00 (1.00..1.00)"]);
        assert_eq!(sheet.lines[1][1..4], ["1", "1.50 GB/s", "1.25 (0.50..2.00)"]);
    }
}
