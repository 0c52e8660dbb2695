//! What passed on this very tree: `cargo xtask test` leaves it behind, `cargo xtask test --complete` does not repeat it.
//!
//! A tree is named by a hash over all files that git tracks or would track, as they are now, with the version of the
//! compiler. A file that changed, came or went, or another compiler, and nothing is taken as passed. Where there is no git
//! nothing is ever taken so.

use std::collections::BTreeSet;
use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::PathBuf;

use crate::install::target;
use crate::steps::{command, output, root};

/// The steps that passed.
#[derive(Debug, Default)]
pub(crate) struct Passed {
    /// Which tree it was; none if that cannot be said.
    tree: Option<String>,
    steps: BTreeSet<String>,
}

impl Passed {
    /// Nothing yet, of the tree as it is.
    pub(crate) fn nothing() -> Self {
        Self { tree: name_of_tree(), steps: BTreeSet::new() }
    }

    /// What an earlier run left, if it was of the tree as it is.
    pub(crate) fn earlier() -> Self {
        let nothing = Self::nothing();
        let text = fs::read_to_string(file()).unwrap_or_default(); // there may have been no earlier run
        Self::read(&text, nothing)
    }

    fn read(text: &str, nothing: Self) -> Self {
        let mut lines = text.lines();
        match (&nothing.tree, lines.next()) {
            (Some(tree), Some(first)) if first == tree => {
                Self { steps: lines.map(Into::into).collect(), ..nothing }
            }
            _ => nothing,
        }
    }

    fn written(&self) -> String {
        let lines = self.tree.iter().chain(&self.steps);
        lines.flat_map(|line| [line, "\n"]).collect()
    }

    pub(crate) fn has(&self, step: &str) -> bool {
        self.steps.contains(step)
    }

    /// Notes a step, for later runs too.
    pub(crate) fn add(&mut self, step: &str) {
        self.steps.insert(step.to_owned());
        if self.tree.is_some() {
            let kept =
                fs::create_dir_all(target()).and_then(|()| fs::write(file(), self.written()));
            if let Err(error) = kept {
                println!("      (not kept for later runs: {}: {error})", file().display());
            }
        }
    }
}

fn file() -> PathBuf {
    target().join("passed.txt")
}

fn name_of_tree() -> Option<String> {
    let list = command("git", ["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let list = output(list).ok()?;
    let mut hasher = DefaultHasher::new(); // without random keys: the same in every run
    output(command("rustc", ["--version"])).ok()?.hash(&mut hasher);
    for name in list.split('\0').collect::<BTreeSet<_>>() {
        name.hash(&mut hasher);
        fs::read(root().join(name)).ok().hash(&mut hasher); // a file that was removed is named, but not there
    }
    Some(format!("tree {:016x}", hasher.finish()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_tree_has_passed() {
        let fresh = |tree: &str| Passed { tree: Some(tree.into()), steps: BTreeSet::new() };
        let mut passed = fresh("tree 1");
        passed.steps.extend(["docs".to_owned(), "lints".to_owned()]);
        let text = passed.written();
        assert!(Passed::read(&text, fresh("tree 1")).has("lints"));
        assert!(!Passed::read(&text, fresh("tree 1")).has("lint"));
        assert!(!Passed::read(&text, fresh("tree 2")).has("lints"));
        assert!(!Passed::read(&text, Passed::default()).has("lints"), "a tree without a name");
        assert!(!Passed::read("", fresh("tree 1")).has("lints"));
    }

    #[test]
    fn a_tree_has_the_same_name_twice() {
        assert_eq!(name_of_tree(), name_of_tree());
    }
}
