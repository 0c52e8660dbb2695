//! Carries out a plan: step by step, with a second try for a step that failed.

use std::collections::HashMap;
use std::io::{self, IsTerminal};
use std::iter::once;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::machine::Machine;
use crate::pair::Pair;
use crate::plan::{Case, Contender, Plan};
use crate::row::{Findings, Row};
use crate::sizes::show_bytes;
use crate::system::Pattern;

/// Setting a step up and taking it down, about.
pub(crate) const STEP_OVERHEAD_S: f64 = 0.05;
/// A step that failed sooner than this after its time is tried again.
const AGAIN_WITHIN: Duration = Duration::from_secs(8);
/// Headers of a datagram.
const HEADERS_LEN: usize = 28;

/// Something that is set up and ready to measure.
pub struct Runner {
    plan: Plan,
    pair: Pair,
    machine: Machine,
    /// By repetition and length.
    bare_links: HashMap<(usize, usize), f64>,
}

impl Runner {
    /// Sets the stage. All that can be wrong with the request shows here, before any time is spent.
    pub fn new(plan: Plan) -> Result<Self> {
        let mut machine = Machine::here();
        let pair = Pair::start(plan.stage)?;
        machine.interface = Some(pair.facts().clone());
        machine.peer = pair.server().map(|server| server.to_string());
        machine.command = Some(command_line(std::env::args().skip(1)));
        let datagram_max = pair.mtu() - HEADERS_LEN;
        let is_long = |case: &&Case| case.pattern == Pattern::Rate && case.bytes > datagram_max;
        if let Some(case) = plan.cases.iter().find(is_long) {
            bail!(
                "rate measures messages that fit one datagram, here up to {datagram_max} bytes; {} does not",
                show_bytes(case.bytes)
            );
        }
        Ok(Self { plan, pair, machine, bare_links: HashMap::new() })
    }

    /// What it runs on.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// What is to be done.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Does it all; what fails ends it.
    pub fn run(mut self) -> Result<Findings> {
        let plan = self.plan.clone();
        let steps = plan.steps();
        let bar = progress_bar(&steps, plan.seconds);
        let mut rows = Vec::with_capacity(steps.len());
        for (rep, case, contender) in steps {
            bar.set_message(format!("{} {}", case.label(), contender.system));
            rows.push(self.try_twice(rep, case, contender)?);
            bar.inc(1);
        }
        bar.finish_and_clear();
        Ok(Findings { machine: self.machine, rows, ..Findings::default() })
    }

    /// Does what can be done until then: whoever fails is left out from there on, and the others go on. `on_step` hears of each
    /// step before it is made. The failures, each told once.
    pub fn run_on(
        mut self,
        until: Instant,
        mut on_step: impl FnMut(Case, &Contender),
    ) -> (Findings, Vec<anyhow::Error>) {
        let plan = self.plan.clone();
        let (mut rows, mut failures): (Vec<Row>, Vec<_>) = (Vec::new(), Vec::new());
        let mut failed: Vec<&Contender> = Vec::new();
        let steps = plan.steps();
        let count = steps.len();
        for (number, (rep, case, contender)) in steps.into_iter().enumerate() {
            if Instant::now() >= until {
                let left = count - number;
                failures.push(anyhow!("it took too long: {left} of {count} measurements left out"));
                break;
            }
            on_step(case, contender);
            if failed.contains(&contender) {
                continue;
            }
            match self.try_twice(rep, case, contender) {
                Ok(row) => rows.push(row),
                Err(error) => {
                    failed.push(contender);
                    failures.push(error);
                    // What it left behind must not meet the next one.
                    if let Err(error) = self.pair.restart() {
                        failures.push(error);
                        break;
                    }
                }
            }
        }
        (Findings { machine: self.machine, rows, ..Findings::default() }, failures)
    }

    fn try_twice(&mut self, rep: usize, case: Case, contender: &Contender) -> Result<Row> {
        let began = Instant::now();
        let time = Duration::from_secs_f64(self.plan.seconds_of(case.pattern));
        let row = self.step(rep, case, contender).or_else(|first_error| {
            // What failed by waiting in vain would do so again: a blocked port is no accident.
            if began.elapsed() > AGAIN_WITHIN + time {
                return Err(first_error);
            }
            let again = self.pair.restart().and_then(|()| self.step(rep, case, contender));
            again.map_err(|error| telling(first_error, error, self.pair.has_lost_server()))
        });
        row.with_context(|| format!("{} of {}", case.label(), contender.system))
    }

    fn step(&mut self, rep: usize, case: Case, contender: &Contender) -> Result<Row> {
        let job = self.plan.job(case, contender);
        let (active, passive) = self.pair.run(&job)?;
        let mut row = Row::new(&job, self.pair.mtu(), rep, active, passive);
        if case.pattern == Pattern::DoubleBuf {
            let link = self.bare_link(rep, case.bytes)?;
            row.set_limit(link);
        }
        Ok(row)
    }

    /// Bytes a second over the bare link in this repetition: what limits a double buffer, whoever moves it.
    fn bare_link(&mut self, rep: usize, bytes: usize) -> Result<f64> {
        if let Some(&known) = self.bare_links.get(&(rep, bytes)) {
            return Ok(known);
        }
        let bare = Contender::new("bare", "");
        let job = self.plan.job(Case::plain(Pattern::Stream, bytes), &bare);
        let (_, seen) = self.pair.run(&job).context("the bare link, for the limit")?;
        let rate = seen.bytes as f64 * 1e9 / seen.elapsed_ns.max(1) as f64;
        self.bare_links.insert((rep, bytes), rate);
        Ok(rate)
    }
}

/// Which of two errors is told. The first says more than that it could not be tried again; unless the server died, of which
/// whoever measures here may have heard first, as of a peer that is gone.
fn telling(first: anyhow::Error, again: anyhow::Error, is_server_lost: bool) -> anyhow::Error {
    if is_server_lost { again } else { first }
}

/// As it was typed, but for addresses: they are secrets, and reports are shown around.
fn command_line(words: impl Iterator<Item = String>) -> String {
    let hide = |word: String| match word.find("ph1:") {
        Some(at) => format!("{}ph1:…", &word[..at]),
        None => word,
    };
    once("packhorse".into()).chain(words.map(hide)).collect::<Vec<_>>().join(" ")
}

fn progress_bar(steps: &[(usize, Case, &Contender)], seconds: f64) -> ProgressBar {
    let style = "{bar:30} {pos}/{len} {msg}, {eta} left";
    let bar = ProgressBar::new(steps.len() as u64)
        .with_style(ProgressStyle::with_template(style).expect("a sound template"));
    let is_long = steps.len() as f64 * (seconds + STEP_OVERHEAD_S) > 2.0;
    if is_long && io::stderr().is_terminal() {
        bar.enable_steady_tick(Duration::from_millis(500));
    } else {
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_server_is_told_whoever_noticed_first() {
        let told = |is_server_lost| {
            let (first, again) = (anyhow!("the peer is gone"), anyhow!("lost the server"));
            telling(first, again, is_server_lost).to_string()
        };
        assert_eq!([told(true), told(false)], ["lost the server", "the peer is gone"]);
    }

    #[test]
    fn addresses_do_not_get_into_reports() {
        let words = ["bench", "rate", "--peer", "ph1:secret", "--peer=ph1:secret"];
        let line = command_line(words.iter().map(|&word| word.to_owned()));
        assert_eq!(line, "packhorse bench rate --peer ph1:… --peer=ph1:…");
    }
}
