//! Steps that are taken beside others: those that mostly wait, while others keep the cores busy.
//!
//! ```text
//!   first     lints ──▶ docs ──▶ deliberate faults ──▶ …          prints as it goes
//!   beside    scenarios over sockets ──▶ over raw Ethernet ──▶ …  what it prints is kept, and shown when both are done
//! ```
//!
//! Lines of two steps that stand between each other tell nothing to anybody. So what is said and run by the thread of the second kind goes
//! into a text of that thread.

use std::cell::RefCell;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::Result;

thread_local! {
    /// What this thread would have printed, if it takes steps beside others.
    static KEPT: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Says a line where the steps of this thread are shown.
pub(crate) fn say(line: &str) {
    KEPT.with_borrow_mut(|kept| match kept {
        Some(kept) => kept.extend([line, "\n"]),
        None => println!("{line}"),
    });
}

/// Runs a command to its end; what it prints goes where the steps of this thread are shown.
pub(crate) fn status(command: &mut Command) -> std::io::Result<ExitStatus> {
    if KEPT.with_borrow(Option::is_none) {
        return command.status();
    }
    let output = command.output()?;
    for text in [&output.stdout, &output.stderr] {
        say(&String::from_utf8_lossy(text));
    }
    Ok(output.status)
}

/// A step to be taken beside others.
pub(crate) struct Beside<'a> {
    pub(crate) name: &'a str,
    work: Box<dyn FnOnce() -> Result<()> + Send + 'a>,
}

/// What became of it.
pub(crate) struct Ended<'a> {
    pub(crate) name: &'a str,
    pub(crate) result: Result<()>,
    pub(crate) took: Duration,
    /// What it printed.
    pub(crate) text: String,
}

impl<'a> Beside<'a> {
    pub(crate) fn new(name: &'a str, work: impl FnOnce() -> Result<()> + Send + 'a) -> Self {
        Self { name, work: Box::new(work) }
    }

    /// Takes it on this thread.
    pub(crate) fn take(self) -> Ended<'a> {
        let Self { name, work } = self;
        KEPT.set(Some(String::new()));
        let began = Instant::now();
        let result = work();
        let text = KEPT.take().unwrap_or_default();
        Ended { name, result, took: began.elapsed(), text }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::bail;

    #[test]
    fn what_a_step_beside_others_says_and_runs_is_kept() {
        let ended = Beside::new("a step", || {
            say("first");
            assert!(
                status(Command::new("sh").args(["-c", "echo second; echo third >&2"]))?.success()
            );
            bail!("and it fails")
        })
        .take();
        assert_eq!(ended.text.split_whitespace().collect::<Vec<_>>(), ["first", "second", "third"]);
        assert_eq!((ended.name, ended.result.is_err()), ("a step", true));
        assert!(KEPT.with_borrow(Option::is_none), "later steps of the thread print");
    }
}
