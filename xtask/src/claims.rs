//! Does every claim of SECURITY.md have its test?
//!
//! Each row of its tables says what somebody can or cannot do and ends with the tests that show it. A test that is renamed or
//! removed would leave a claim that nobody checks any more, so the names are looked up in the tree.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context as _, Result, bail};

use crate::purity::rust_files;
use crate::steps::root;

const FILE: &str = "SECURITY.md";

/// Checks that each claim names tests, and that these exist.
pub(crate) fn check() -> Result<()> {
    let text =
        fs::read_to_string(root().join(FILE)).with_context(|| format!("{FILE} is missing"))?;
    let mut tests = BTreeSet::new();
    for room in ["crates", "faces", "xtask", "tests"] {
        for file in rust_files(&root().join(room))? {
            tests.extend(tests_in(&fs::read_to_string(&file)?));
        }
    }
    let faults = faults_of(&text, &tests);
    if !faults.is_empty() {
        bail!("{FILE}:\n{}", faults.join("\n"));
    }
    Ok(())
}

/// What is wrong with the claims of a text, if these tests are there.
fn faults_of(text: &str, tests: &BTreeSet<String>) -> Vec<String> {
    let mut faults = Vec::new();
    for (number, shown_by) in claims_in(text) {
        let named: Vec<&str> = shown_by.split('`').skip(1).step_by(2).collect();
        if named.is_empty() {
            faults.push(format!("line {number}: no test is named"));
        }
        let missing = named.iter().filter(|name| !tests.contains(**name));
        faults.extend(missing.map(|name| format!("line {number}: there is no test `{name}`")));
    }
    faults
}

/// The last cell of each row of each table, but for heads and rules, with the number of its line.
fn claims_in(text: &str) -> Vec<(usize, &str)> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let is_row = |line: &str| line.starts_with('|');
    let is_rule = |line: &str| is_row(line) && !line.contains(|c: char| !"|-: ".contains(c));
    let is_head = |at: usize| lines.get(at + 1).is_some_and(|next| is_rule(next));
    let rows = lines.iter().enumerate();
    let rows = rows.filter(|&(at, line)| is_row(line) && !is_rule(line) && !is_head(at));
    rows.map(|(at, line)| (at + 1, line.trim_end_matches('|').rsplit('|').next().unwrap_or("")))
        .collect()
}

/// The names of the tests in a file.
fn tests_in(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut is_test = false;
    for line in text.lines().map(str::trim) {
        is_test |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
        let function = line.strip_prefix("fn ").or_else(|| line.strip_prefix("async fn "));
        if let Some(name) = function.filter(|_| is_test) {
            names.push(name.split(['(', '<']).next().unwrap_or(name).to_owned());
            is_test = false;
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_are_rows_and_their_tests_stand_last() {
        let text = "| who | `not_a_test` | shown by |\n| --- | --- | --- |\n| a | `setting` | `one`, `two` |\n\n| b | c | none |\n";
        let tests = BTreeSet::from(["one".to_owned()]);
        let faults = faults_of(text, &tests);
        assert_eq!(faults, ["line 3: there is no test `two`", "line 5: no test is named"]);
    }

    #[test]
    fn only_tests_count_as_tests() {
        let text = "fn helper() {}\n#[test]\n#[ignore = \"why\"]\nfn real() {}\nfn other() {}\n";
        assert_eq!(tests_in(text), ["real"]);
    }
}
