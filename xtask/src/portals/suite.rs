//! Which tests there are, and what became of one.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::Output;

use anyhow::{Context as _, Result, ensure};

/// The code by which a test says that it cannot run.
const SKIPPED: i32 = 77;

/// A program of the basic tests.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Program {
    pub(super) name: String,
    pub(super) source: String,
    /// For the compiler.
    pub(super) words: Vec<String>,
}

/// What became of a test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Passed,
    Skipped,
    /// And why, as far as it said.
    Failed(String),
}

impl Outcome {
    /// Of one process.
    pub(super) fn of(output: &Output) -> Self {
        match output.status.code() {
            Some(0) => return Self::Passed,
            Some(SKIPPED) => return Self::Skipped,
            _ => {}
        }
        let how = match (output.status.code(), output.status.signal()) {
            (Some(124 | 137), _) | (_, Some(9)) => "did not end within a minute".to_owned(),
            (Some(code), _) => format!("code {code}"),
            (None, signal) => format!("signal {}", signal.unwrap_or_default()),
        };
        let said = [&output.stderr, &output.stdout].map(|said| String::from_utf8_lossy(said));
        let last =
            said.iter().filter_map(|said| said.lines().rfind(|line| !line.trim().is_empty()));
        let last: Vec<&str> = last.map(str::trim).collect();
        Self::Failed(format!("{how}; {}", last.join(" / ")))
    }

    /// Of two processes together: the worst.
    pub(super) fn and(self, other: Self) -> Self {
        match (self, other) {
            (failed @ Self::Failed(_), _) | (_, failed @ Self::Failed(_)) => failed,
            (Self::Skipped, _) | (_, Self::Skipped) => Self::Skipped,
            _ => Self::Passed,
        }
    }
}

/// The basic ones, as their makefile has them.
pub(super) fn basic(tests: &Path) -> Result<Vec<Program>> {
    let text = read(&tests.join("basic/Makefile.am"))?;
    let programs = programs_in(&text);
    ensure!(!programs.is_empty(), "test/basic/Makefile.am names no programs");
    Ok(programs)
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

/// The words behind `=` of a makefile's variable, over all its lines.
fn words_of<'a>(text: &'a str, variable: &str) -> Vec<&'a str> {
    let mut words = Vec::new();
    let mut is_inside = false;
    for line in text.lines() {
        let value = match line.split_once('=') {
            Some((name, value)) if !is_inside => {
                let name = name.trim_end_matches('+').trim();
                (name == variable).then_some(value)
            }
            _ => is_inside.then_some(line),
        };
        let Some(value) = value else { continue };
        is_inside = value.trim_end().ends_with('\\');
        words.extend(value.split_whitespace().filter(|&word| word != "\\"));
    }
    words
}

fn programs_in(text: &str) -> Vec<Program> {
    let program = |name: &str| {
        let source = *words_of(text, &format!("{name}_SOURCES")).first()?;
        let words = words_of(text, &format!("{name}_CPPFLAGS"));
        let words = words.into_iter().filter(|word| word.starts_with("-D")).map(str::to_owned);
        Some(Program { name: name.into(), source: source.into(), words: words.collect() })
    };
    words_of(text, "TESTS").into_iter().filter_map(program).collect()
}

/// The scripted ones, each with how many ranks it needs.
pub(super) fn scripts(tests: &Path) -> Result<Vec<(PathBuf, u32)>> {
    let mut scripts = BTreeMap::new();
    for (folder, ranks) in [("test_n1", 1), ("test_n2", 2)] {
        let folder = tests.join("sfw").join(folder);
        let text = read(&folder.join("Makefile.am"))?;
        let names = words_of(&text, "TESTS").into_iter().filter(|name| name.ends_with(".xml"));
        scripts.extend(names.map(|name| (folder.join(name), ranks)));
    }
    ensure!(!scripts.is_empty(), "test/sfw names no scripts");
    Ok(scripts.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_makefile_tells_programs_sources_and_words() {
        let text = "TESTS = \\\n\ttest_a \\\n\ttest_b\n\nif MORE\nTESTS += \\\n\ttest_c\nendif\n\
                    test_a_SOURCES = one.c\ntest_a_CPPFLAGS = $(AM_CPPFLAGS) -DX=1 -I.\n\
                    test_b_SOURCES = two.c\ntest_c_SOURCES = two.c\n";
        let programs = programs_in(text);
        let names: Vec<&str> = programs.iter().map(|program| program.name.as_str()).collect();
        assert_eq!(names, ["test_a", "test_b", "test_c"]);
        assert_eq!(
            (programs[0].source.as_str(), &programs[0].words[..]),
            ("one.c", &["-DX=1".to_owned()][..])
        );
        assert_eq!(programs[1].source, "two.c");
    }

    #[test]
    fn the_worst_of_all_ranks_counts() {
        let failed = Outcome::Failed("code 1".into());
        assert_eq!(Outcome::Passed.and(Outcome::Skipped), Outcome::Skipped);
        assert_eq!(Outcome::Skipped.and(failed.clone()), failed);
        assert_eq!(Outcome::Passed.and(Outcome::Passed), Outcome::Passed);
    }
}
