//! Named steps, one after the other, each with its duration; a closing count.
//!
//! A failed step does not stop the ones behind it: who waits ten minutes for a test run wants to hear everything it
//! found. A step that cannot run here is either *left out*, which is said at the end, or, where nothing may be left
//! out, *failed* with the same words. A step that passed before on the very same tree need not be taken again (`passed`).

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use crate::beside::{Beside, Ended, say, status};
use crate::passed::Passed;

/// Root of the workspace.
pub(crate) fn root() -> PathBuf {
    // Cargo says where this package lies when it runs it, too. What was compiled in may be another tree, from which `target` was copied.
    let said = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let here = said.filter(|folder| folder.ends_with("xtask"));
    let here = here.unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")));
    here.parent().expect("xtask lies in the workspace").to_owned()
}

/// A command that runs in the workspace's root.
pub(crate) fn command<'a>(program: &str, args: impl IntoIterator<Item = &'a str>) -> Command {
    let mut command = Command::new(program);
    command.args(args).current_dir(root());
    command
}

/// `cargo` with these words, separated by spaces.
pub(crate) fn cargo(words: &str) -> Command {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let mut cargo = command(&cargo, words.split_whitespace());
    spare_the_disk(&mut cargo);
    if words.contains("--release") || words.contains("--profile release") {
        spare_the_time(&mut cargo);
    }
    cargo
}

/// The settings of a build that is wanted soon, for every command that builds the same: other settings would build all anew.
fn spare_the_time(cargo: &mut Command) {
    if ARE_BUILDS_QUICK.load(Ordering::Relaxed) {
        cargo.env("CARGO_PROFILE_RELEASE_LTO", "off");
        cargo.env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16");
        cargo.env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1");
        cargo.env("CARGO_PROFILE_RELEASE_DEBUG", "0");
    }
}

static ARE_BUILDS_QUICK: AtomicBool = AtomicBool::new(false);

/// From now on optimised programs are built soon rather than well: tests wait for them, nobody measures them. (Benches are, and
/// are built as ever.)
pub(crate) fn build_quickly() {
    ARE_BUILDS_QUICK.store(true, Ordering::Relaxed);
}

/// Nothing is kept for a next build where everything is built once: it would be the larger half of the target folder.
pub(crate) fn spare_the_disk(cargo: &mut Command) {
    if IS_BUILT_ONCE.load(Ordering::Relaxed) {
        cargo.env("CARGO_INCREMENTAL", "0");
    }
}

static IS_BUILT_ONCE: AtomicBool = AtomicBool::new(false);

/// From now on builds leave behind only what they are for.
pub(crate) fn build_once() {
    IS_BUILT_ONCE.store(true, Ordering::Relaxed);
}

/// The command as a person would type it.
pub(crate) fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or_default();
    let mut line = program.to_string_lossy().into_owned();
    for arg in command.get_args() {
        let _ = write!(line, " {}", arg.to_string_lossy());
    }
    line
}

/// Runs a command to its end; its output goes where ours goes.
pub(crate) fn run(mut command: Command) -> Result<()> {
    let line = shown(&command);
    say(&format!("      $ {line}"));
    let status = status(&mut command).with_context(|| format!("`{line}` could not be started"))?;
    if !status.success() {
        bail!("`{line}` ended with {status}");
    }
    Ok(())
}

/// Runs a command and returns what it printed.
pub(crate) fn output(mut command: Command) -> Result<String> {
    let line = shown(&command);
    let output = command.output().with_context(|| format!("`{line}` could not be started"))?;
    if !output.status.success() {
        bail!(
            "`{line}` ended with {}:\n{}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
    }
    String::from_utf8(output.stdout).with_context(|| format!("`{line}` printed what is not text"))
}

/// What became of a step.
enum Outcome {
    Passed,
    /// In an earlier run on this very tree.
    PassedBefore,
    Failed(String),
    LeftOut(String),
}

/// A task on its way: the steps it has taken.
pub(crate) struct Steps {
    taken: Vec<(String, Outcome, Duration)>,
    passed: Passed,
    began: Instant,
}

impl Steps {
    /// No step taken yet.
    pub(crate) fn begin() -> Self {
        Self::begin_after(Passed::default())
    }

    /// The same; what passed before is not repeated, and what passes is noted there.
    pub(crate) fn begin_after(passed: Passed) -> Self {
        Self { taken: Vec::new(), passed, began: Instant::now() }
    }

    /// Takes a step, unless it passed before.
    pub(crate) fn take(&mut self, name: &str, step: impl FnOnce() -> Result<()>) {
        if self.passed.has(name) {
            println!("\n[{}] {name}\n      passed already on this very tree", self.taken.len() + 1);
            self.taken.push((name.to_owned(), Outcome::PassedBefore, Duration::ZERO));
            return;
        }
        self.take_always(name, step);
    }

    /// Takes a step whose effect others need, whether it passed before or not.
    pub(crate) fn take_always(&mut self, name: &str, step: impl FnOnce() -> Result<()>) {
        println!("\n[{}] {name}", self.taken.len() + 1);
        let used = processor_time();
        let began = Instant::now();
        let outcome = match step() {
            Ok(()) => Outcome::Passed,
            Err(error) => Outcome::Failed(format!("{error:#}")),
        };
        let took = began.elapsed();
        let used = processor_time().saturating_sub(used);
        let cost = format!("{} ({} of processors)", seconds(took), seconds(used));
        self.note(name, outcome, took, &cost);
    }

    /// Takes the steps of `first`, and beside them, one after the other, those that mostly wait; unless they passed before.
    pub(crate) fn take_beside(&mut self, beside: Vec<Beside<'_>>, first: impl FnOnce(&mut Self)) {
        let (before, beside): (Vec<_>, Vec<_>) =
            beside.into_iter().partition(|step| self.passed.has(step.name));
        for step in before {
            self.take(step.name, || Ok(())); // which only says so
        }
        let ended: Vec<Ended<'_>> = std::thread::scope(|threads| {
            let others = threads.spawn(|| beside.into_iter().map(Beside::take).collect());
            first(self);
            others.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        for Ended { name, result, took, text } in ended {
            println!("\n[{}] {name}, beside the steps above\n{text}", self.taken.len() + 1);
            let outcome =
                result.map_or_else(|why| Outcome::Failed(format!("{why:#}")), |()| Outcome::Passed);
            self.note(name, outcome, took, &seconds(took));
        }
    }

    /// Says and notes what became of a step.
    fn note(&mut self, name: &str, outcome: Outcome, took: Duration, cost: &str) {
        match &outcome {
            Outcome::Failed(why) => println!("      FAILED after {cost}: {why}"),
            _ => {
                println!("      ok in {cost}");
                self.passed.add(name);
            }
        }
        self.taken.push((name.to_owned(), outcome, took));
    }

    /// Notes a step that could not run here.
    pub(crate) fn leave_out(&mut self, name: &str, why: &str) {
        println!("\n[-] {name}\n      left out: {why}");
        self.taken.push((name.to_owned(), Outcome::LeftOut(why.to_owned()), Duration::ZERO));
    }

    /// The list of all steps, then one closing line.
    pub(crate) fn end(self) -> ExitCode {
        let (mut passed, mut before, mut failed) = (0, 0, 0);
        println!("\n{:-<100}", "");
        for (name, outcome, took) in &self.taken {
            match outcome {
                Outcome::Passed => {
                    passed += 1;
                    println!("passed    {:>8}  {name}", seconds(*took));
                }
                Outcome::Failed(why) => {
                    failed += 1;
                    println!("FAILED    {:>8}  {name}: {why}", seconds(*took));
                }
                Outcome::PassedBefore => {
                    before += 1;
                    println!("before    {:>8}  {name}", "");
                }
                Outcome::LeftOut(why) => println!("left out  {:>8}  {name}: {why}", ""),
            }
        }
        println!("{:-<100}", "");
        println!("in {}", seconds(self.began.elapsed()));
        if before > 0 {
            println!("{before} more had passed before, on this very tree, and were not repeated");
        }
        println!("{passed} passed, {failed} failed");
        if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

/// What all processes that this one started and waited for have used of the processors, by the system's count.
fn processor_time() -> Duration {
    // Fields 16 and 17 (`man proc_pid_stat`), in ticks, of which a second has 100 on every Linux there is. The name before them, in
    // brackets, may have spaces.
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let behind_name = stat.rsplit(") ").next().unwrap_or_default();
    let ticks = behind_name.split(' ').skip(13).take(2).filter_map(|it| it.parse::<u64>().ok());
    Duration::from_millis(10 * ticks.sum::<u64>())
}

fn seconds(took: Duration) -> String {
    format!("{:.1} s", took.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn steps_beside_others_are_taken_at_the_same_time_and_noted_behind_them() {
        let both = Barrier::new(2);
        let meet = || {
            both.wait();
            Ok(())
        };
        let beside = vec![Beside::new("waits", meet), Beside::new("fails", || bail!("of itself"))];
        let mut steps = Steps::begin();
        steps.take_beside(beside, |steps| steps.take("compiles", meet));
        let noted = |(name, outcome, _): &(String, Outcome, Duration)| {
            (name.clone(), matches!(outcome, Outcome::Passed))
        };
        let noted: Vec<_> = steps.taken.iter().map(noted).collect();
        let wanted = [("compiles", true), ("waits", true), ("fails", false)];
        assert_eq!(noted, wanted.map(|(name, has_passed)| (name.to_owned(), has_passed)));
    }
}
