//! What test programs say of their tests, and the table of what failed.

use std::collections::BTreeMap;
use std::path::PathBuf;

/// What one run of a program said.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) passed: u32,
    /// The names of tests that failed; or, where the program ended without a count, one name for the program itself.
    pub(super) failed: Vec<String>,
}

/// Stands for a test's name where a program crashed or hung.
const PROGRAM: &str = "(the program itself)";
/// How an `ExitStatus` shows itself where all is well.
const SUCCESS: &str = "exit status: 0";

impl Said {
    /// Reads the closing lines of the test harness: the list of failures, and the count.
    pub(super) fn of(text: &str, ended: &str) -> Self {
        let last = text.lines().rev().find_map(|line| line.trim().strip_prefix("test result: "));
        let count = |what: &str| -> Option<u32> {
            let part = last?.split([';', '.']).find_map(|part| part.trim().strip_suffix(what))?;
            part.trim().parse().ok()
        };
        let (Some(passed), Some(failed_count)) = (count(" passed"), count(" failed")) else {
            return Self { passed: 0, failed: vec![format!("{PROGRAM} {ended}")] };
        };
        let list = text.rsplit_once("\nfailures:\n").map_or("", |(_, list)| list);
        let names = list.lines().map_while(|line| line.strip_prefix("    "));
        let mut failed: Vec<String> = names.map(Into::into).collect();
        if failed.len() != failed_count as usize {
            failed = vec![format!("{PROGRAM} said that {failed_count} failed, but not which")];
        }
        if failed.is_empty() && ended != SUCCESS {
            failed = vec![format!("{PROGRAM} {ended}")]; // all tests passed, and then it crashed
        }
        Self { passed, failed }
    }
}

/// What became of all runs so far.
#[derive(Default)]
pub(super) struct Record {
    pub(super) passed: u32,
    /// By program and test.
    failures: BTreeMap<(String, String), Failures>,
    run_counts: BTreeMap<String, u32>,
}

#[derive(Default)]
struct Failures {
    count: u32,
    /// The output of the first.
    kept: Option<PathBuf>,
}

impl Record {
    /// Notes a run; returns the tests that failed for the first time, whose output is to be kept.
    pub(super) fn add(&mut self, program: &str, said: Said) -> Vec<String> {
        self.passed += said.passed;
        *self.run_counts.entry(program.to_owned()).or_default() += 1;
        let is_first = |test: &String| {
            let failures = self.failures.entry((program.to_owned(), test.clone())).or_default();
            failures.count += 1;
            failures.count == 1
        };
        said.failed.into_iter().filter(is_first).collect()
    }

    /// Notes where the output of a failure is.
    pub(super) fn keep(&mut self, program: &str, test: &str, path: PathBuf) {
        if let Some(failures) = self.failures.get_mut(&(program.to_owned(), test.to_owned())) {
            failures.kept = Some(path);
        }
    }

    pub(super) fn failed(&self) -> u32 {
        self.failures.values().map(|failures| failures.count).sum()
    }

    /// What failed, most often first.
    pub(super) fn print(&self) {
        let mut all: Vec<_> = self.failures.iter().collect();
        all.sort_by_key(|(_, failures)| std::cmp::Reverse(failures.count));
        for ((program, test), failures) in all {
            let runs = self.run_counts[program];
            println!("failed {:>3} of {runs:>3}  {program}  {test}", failures.count);
            if let Some(path) = &failures.kept {
                println!("                    the first one's output: {}", path.display());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAILED: &str = "running 3 tests\ntest a ... ok\ntest b::c ... FAILED\n\nfailures:\n\n---- b::c stdout ----\nseed 7\n
failures:\n    b::c\n\ntest result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.10s\n\n";

    #[test]
    fn failures_are_counted_by_name() {
        let said = || Said::of(FAILED, "exit status: 101");
        assert_eq!(said(), Said { passed: 2, failed: vec!["b::c".into()] });
        let ok = "test result: ok. 7 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out\n";
        let mut record = Record::default();
        assert_eq!(record.add("p/t", said()), ["b::c"], "to be kept");
        assert_eq!(record.add("p/t", said()), [""; 0], "one was kept");
        assert_eq!(record.add("p/t", Said::of(ok, "exit status: 0")), [""; 0]);
        assert_eq!((record.passed, record.failed()), (11, 2));
    }

    #[test]
    fn a_program_that_crashes_or_hangs_has_failed() {
        let said = Said::of("running 3 tests\ntest a ... ok\n", "signal: 11");
        assert_eq!(
            said,
            Said { passed: 0, failed: vec!["(the program itself) signal: 11".into()] }
        );
        // A count without names is no reason to be silent.
        let text = "test result: FAILED. 2 passed; 1 failed; 0 ignored";
        assert_eq!(Said::of(text, "exit status: 101").failed.len(), 1);
        let text = "test result: ok. 2 passed; 0 failed; 0 ignored";
        assert_eq!(Said::of(text, "signal: 11 (SIGSEGV)").failed.len(), 1);
        assert_eq!(std::process::ExitStatus::default().to_string(), SUCCESS);
    }
}
