//! Do the modules of `engine` name only those that stand before them in its reading order?
//!
//! The list in `crates/engine/src/lib.rs` is for readers and for this check alike, so that it cannot grow old, and no circle can come to be.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result, bail};

use crate::purity::{code_of, rust_files};
use crate::rooms::{is_of_tests, targets, without_tests};
use crate::steps::root;

/// Where the list begins.
const HEAD: &str = "//! # Reading order";
/// A line of it: names, two spaces at least, what they are.
const LINE: &str = "//!   ";

/// Checks the modules of `engine`.
pub(crate) fn check() -> Result<()> {
    let folder = root().join("crates/engine/src");
    let mut files: Vec<(String, String)> = Vec::new();
    for file in rust_files(&folder)? {
        let short = file.strip_prefix(&folder)?.with_extension("");
        let module = short.iter().next().map(|name| name.to_string_lossy().into_owned());
        if !is_of_tests(&short) {
            let code = without_tests(&code_of(&fs::read_to_string(&file)?));
            files.push((module.unwrap_or_default(), code));
        }
    }
    let lib = fs::read_to_string(folder.join("lib.rs"))?;
    let wrong = wrong(&order(&lib)?, &files);
    if !wrong.is_empty() {
        bail!(
            "crates/engine/src names against its reading order (lib.rs):\n  {}",
            wrong.join("\n  ")
        );
    }
    Ok(())
}

/// The modules in the order of the list.
fn order(lib: &str) -> Result<BTreeMap<String, usize>> {
    let (_, list) =
        lib.split_once(HEAD).context("crates/engine/src/lib.rs has no reading order")?;
    let lines = list.lines().filter_map(|line| line.strip_prefix(LINE));
    let names = lines.filter_map(|line| Some(line.split_once("  ")?.0));
    let names = names.flat_map(|names| names.split(", ")).map(str::to_owned);
    Ok(names.enumerate().map(|(place, name)| (name, place)).collect())
}

/// What is named too early, and who is missing in the list.
fn wrong(order: &BTreeMap<String, usize>, files: &[(String, String)]) -> Vec<String> {
    let mut wrong = Vec::new();
    for (module, code) in files.iter().filter(|(module, _)| module != "lib") {
        let Some(place) = order.get(module) else {
            wrong.push(format!("{module} is not in the list"));
            continue;
        };
        for target in targets(code) {
            let named = target.split("::").next().unwrap_or_default();
            if order.get(named).is_some_and(|at| at > place) {
                wrong.push(format!("{module} -> {named}"));
            }
        }
    }
    wrong.sort();
    wrong.dedup();
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_engine_is_in_order() {
        check().unwrap();
    }

    #[test]
    fn a_module_names_only_those_before_it() {
        let lib = "//! # Reading order\n//!\n//!   low, middle      two of them\n//!   high             one\nmod high;";
        let order = order(lib).unwrap();
        let files = [
            ("low", "use crate::high::A;"),
            ("middle", "use crate::low::B;\nuse crate::middle::C;\nuse crate::D;"),
            ("high", "fn f() -> crate::low::B {}"),
            ("other", ""),
            ("low", "use crate::{high::A, middle::C};"),
        ];
        let files = files.map(|(module, code)| (module.to_owned(), code.to_owned()));
        let wanted = ["low -> high", "low -> middle", "other is not in the list"];
        assert_eq!(wrong(&order, &files), wanted);
    }
}
