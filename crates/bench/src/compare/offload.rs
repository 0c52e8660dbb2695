//! `packhorse compare --offload`: part by part, one for each pattern.
//!
//! A whole run takes a quarter of an hour, and something may go wrong in it. So each part is shown, and kept in the files that were
//! asked for, when it ends; who fails in a part is left out of the rest of it, and the others go on; and each part has a time by
//! which it ends. What is missing in the end is said, and the program ends with an error.

use std::io::{IsTerminal, stderr};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::command::{Output, Setup};
use crate::offload::command::{Part, REPS, SECONDS, everything};
use crate::offload::{promises, sheets};
use crate::plan::{Case, Contender, Plan};
use crate::report;
use crate::row::Findings;
use crate::runner::{Runner, STEP_OVERHEAD_S};

/// A part may take so many times what it should: messages of 64 MB, and a busy machine, take longer than their time.
const LONGEST_FACTOR: u32 = 4;
/// And so long beside: to set it up, and for one that waits in vain.
const LONGEST_BESIDE: Duration = Duration::from_secs(60);

/// `packhorse compare --offload`; all parts if there is none in `only`.
pub(super) fn run(setup: &Setup, is_quick: bool, only: &[String]) -> Result<()> {
    let reps = if is_quick { 1 } else { REPS };
    let plans: Vec<Plan> = everything(setup, is_quick)
        .into_iter()
        .map(|Part { cases, contenders }| Plan { contenders, ..setup.plan(cases, SECONDS, reps) })
        .filter(|plan| only.is_empty() || only.iter().any(|name| name == name_of(plan)))
        .collect();
    plans.iter().try_for_each(|plan| setup.check(plan))?;
    let mut whole = Whole::open(setup, &plans)?;
    whole.progress.say(&format!(
        "{} parts, {} in all, {} at the longest",
        plans.len(),
        show_time(whole.progress.planned),
        show_time(plans.iter().map(longest).sum())
    ));
    for (number, plan) in plans.into_iter().enumerate() {
        whole.measure(setup, number, plan)?;
    }
    whole.finish()
}

/// What was found so far, and where it is kept.
struct Whole {
    findings: Findings,
    failures: Vec<String>,
    progress: Progress,
    json: Option<Output>,
    html: Option<Output>,
}

impl Whole {
    fn open(setup: &Setup, plans: &[Plan]) -> Result<Self> {
        Ok(Self {
            findings: Findings::default(),
            failures: Vec::new(),
            progress: Progress::new(plans),
            json: setup.json.as_deref().map(Output::open).transpose()?,
            html: setup.html.as_deref().map(Output::open).transpose()?,
        })
    }

    /// One part. Whatever becomes of it, what was measured is kept.
    fn measure(&mut self, setup: &Setup, number: usize, plan: Plan) -> Result<()> {
        let (name, until) = (name_of(&plan), Instant::now() + longest(&plan));
        self.progress.begin(number, &plan);
        let runner = match Runner::new(plan.clone()) {
            Ok(runner) => runner,
            Err(error) => {
                self.fail(name, &error);
                return Ok(());
            }
        };
        if self.findings.rows.is_empty() {
            self.progress.beside(|| setup.introduce(&runner));
        }
        let progress = &mut self.progress;
        let (found, failures) =
            runner.run_on(until, |case, contender| progress.on_step(&plan, case, contender));
        failures.iter().for_each(|error| self.fail(name, error));
        self.progress.beside(|| print!("{}", sheets::text(&found.rows)));
        self.findings.machine = found.machine;
        self.findings.rows.extend(found.rows);
        if let Some(json) = &mut self.json {
            json.keep(serde_json::to_string_pretty(&self.findings)?.as_bytes())?;
        }
        if let Some(html) = &mut self.html {
            html.keep(report::page(&self.findings)?.as_bytes())?;
        }
        Ok(())
    }

    fn fail(&mut self, part: &str, error: &anyhow::Error) {
        let failure = format!("{part}: {error:#}");
        // What one placement lacks the others lack, as a rule: said once.
        if !self.failures.contains(&failure) {
            self.progress.say(&failure);
            self.failures.push(failure);
        }
    }

    fn finish(self) -> Result<()> {
        self.progress.bar.finish_and_clear();
        if let Some(sheet) = promises::sheet(&self.findings.rows) {
            print!("{}", sheet.text());
        }
        if let Some(json) = self.json {
            json.finish(serde_json::to_string_pretty(&self.findings)?.as_bytes())?;
        }
        if let Some(html) = self.html {
            html.finish(report::page(&self.findings)?.as_bytes())?;
        }
        if !self.failures.is_empty() {
            bail!("not all was measured:\n  {}", self.failures.join("\n  "));
        }
        Ok(())
    }
}

/// How far it is: a bar on a terminal, else a line for each part. Both on the error stream: what was found goes to the other.
struct Progress {
    bar: ProgressBar,
    part_count: usize,
    /// All of it, and what is over of it, as planned; and when it began.
    planned: Duration,
    over: Duration,
    began: Instant,
}

impl Progress {
    fn new(plans: &[Plan]) -> Self {
        let planned: Duration = plans.iter().map(planned).sum();
        let style = "{bar:30} {prefix} {msg}, {eta} left";
        let bar = ProgressBar::new(planned.as_millis() as u64)
            .with_style(ProgressStyle::with_template(style).expect("a sound template"));
        if stderr().is_terminal() {
            bar.enable_steady_tick(Duration::from_millis(500));
        } else {
            bar.set_draw_target(ProgressDrawTarget::hidden());
        }
        let (over, began) = (Duration::ZERO, Instant::now());
        Self { bar, part_count: plans.len(), planned, over, began }
    }

    fn begin(&mut self, number: usize, plan: &Plan) {
        let place = format!("part {} of {}", number + 1, self.part_count);
        let (name, count) = (name_of(plan), plan.steps().len());
        if self.bar.is_hidden() {
            let left = show_time(self.left());
            eprintln!("{place}: {name}, {count} measurements; {left} left in all");
        }
        self.bar.set_prefix(place);
    }

    /// A step is about to be made.
    fn on_step(&mut self, plan: &Plan, case: Case, contender: &Contender) {
        self.bar.set_message(format!("{} {}", case.label(), contender.system));
        self.bar.set_position(self.over.as_millis() as u64);
        self.over += step_time(plan, case);
    }

    /// As planned, but as fast as it was so far.
    fn left(&self) -> Duration {
        let planned_left = self.planned.saturating_sub(self.over);
        if self.over.is_zero() {
            return planned_left;
        }
        planned_left.mul_f64(self.began.elapsed().div_duration_f64(self.over))
    }

    fn say(&self, line: &str) {
        self.beside(|| eprintln!("{line}"));
    }

    /// Something is written beside the bar.
    fn beside(&self, write: impl FnOnce()) {
        self.bar.suspend(write);
    }
}

fn name_of(plan: &Plan) -> &'static str {
    plan.cases.first().map_or("nothing", |case| case.pattern.name())
}

fn step_time(plan: &Plan, case: Case) -> Duration {
    Duration::from_secs_f64(plan.seconds_of(case.pattern) + STEP_OVERHEAD_S)
}

/// How long a part takes if nothing goes wrong, about.
fn planned(plan: &Plan) -> Duration {
    plan.steps().iter().map(|&(_, case, _)| step_time(plan, case)).sum()
}

/// How long it may take.
fn longest(plan: &Plan) -> Duration {
    planned(plan) * LONGEST_FACTOR + LONGEST_BESIDE
}

fn show_time(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..100 => format!("about {seconds} s"),
        seconds => format!("about {} min", (seconds + 30) / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::example_plan;

    #[test]
    fn what_is_left_follows_how_fast_it_was() {
        let plan = example_plan();
        let mut progress = Progress::new(&[plan.clone(), plan.clone()]);
        assert_eq!(progress.left(), 2 * planned(&plan), "nothing is known yet");
        plan.steps().iter().for_each(|&(_, case, one)| progress.on_step(&plan, case, one));
        progress.began = Instant::now() - 3 * planned(&plan); // three times as slow as planned
        let left = progress.left().div_duration_f64(planned(&plan));
        assert!((2.9..3.5).contains(&left), "{left}");
    }

    #[test]
    fn times_are_told_as_people_do() {
        assert_eq!(show_time(Duration::from_secs(42)), "about 42 s");
        assert_eq!(show_time(Duration::from_secs(700)), "about 12 min");
    }
}
