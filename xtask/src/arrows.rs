//! Do the arrows between rooms point as ARCHITECTURE.md draws them?
//!
//! What a room may use is written down here once more; cargo says what it does use. An arrow that nobody drew is found when it is new,
//! and not when it has become a circle.

use anyhow::{Result, bail};

use crate::steps::{cargo, output};

/// A crate, the crates of ours that it may use, and those that its tests may use besides.
struct Room {
    package: &'static str,
    uses: &'static [&'static str],
    tests_use: &'static [&'static str],
}

const ENGINE_AND_BELOW: &[&str] = &["packhorse-engine", "packhorse-link", "packhorse-proto"];

const FACE: &[&str] = &["packhorse", "packhorse-common"];

const ROOMS: &[Room] = &[
    Room::new("packhorse-proto", &[], &[]),
    // Captures are tested with real frames in them.
    Room::new("packhorse-link", &[], &["packhorse-proto"]),
    Room::new("packhorse-engine", &["packhorse-link", "packhorse-proto"], &[]),
    Room::new("packhorse", ENGINE_AND_BELOW, &[]),
    Room::new("packhorse-sim", ENGINE_AND_BELOW, &[]),
    // The rules and nothing else: what turns them here is the model.
    Room::new("packhorse-lab", &["packhorse-proto"], &[]),
    // `link` only to read the port in an address, `mx` to measure it beside the native interface.
    Room::new(
        "packhorse-bench",
        &["packhorse", "packhorse-layers", "packhorse-link", "packhorse-mx"],
        &[],
    ),
    Room::new(
        "packhorse-cli",
        // `mx` to show boards and tables as its programs get them.
        &["packhorse", "packhorse-bench", "packhorse-lab", "packhorse-mx", "packhorse-sim"],
        &["packhorse-link"],
    ),
    Room::new("packhorse-layers", &["packhorse"], &[]),
    // What the C faces share; no face knows another.
    Room::new("packhorse-common", &["packhorse"], &[]),
    Room::new("packhorse-fi", FACE, &[]),
    Room::new("packhorse-fm", FACE, &[]),
    Room::new("packhorse-mx", FACE, &[]),
    // Nothing of the protocol: who is in the job.
    Room::new("packhorse-pmi", &["packhorse-common"], &[]),
    // Its tests start programs that find each other by PMI.
    Room::new("packhorse-portals4", FACE, &["packhorse-pmi"]),
    Room::new(
        "packhorse-tests",
        &["packhorse-proto"],
        &["packhorse", "packhorse-link", "packhorse-sim"],
    ),
    Room::new("xtask", &[], &[]),
];

impl Room {
    const fn new(
        package: &'static str,
        uses: &'static [&'static str],
        tests_use: &'static [&'static str],
    ) -> Self {
        Self { package, uses, tests_use }
    }

    /// Says which arrows of this room are drawn nowhere.
    fn check(&self) -> Result<()> {
        let of_all: Vec<_> = self.uses.iter().chain(self.tests_use).copied().collect();
        for (edges, drawn) in [("normal,build", self.uses), ("normal,build,dev", &of_all)] {
            let strays = strays_in(&self.tree(edges)?, drawn);
            if !strays.is_empty() {
                bail!(
                    "{} uses {}, which ARCHITECTURE.md does not draw; see ROOMS in xtask/src/arrows.rs",
                    self.package,
                    strays.join(", ")
                );
            }
        }
        Ok(())
    }

    /// What it depends on itself, a crate a line, the room first.
    fn tree(&self, edges: &str) -> Result<String> {
        let of = format!("tree --quiet --package {} --edges {edges}", self.package);
        output(cargo(&format!("{of} --depth 1 --prefix none --format {{p}}")))
    }
}

/// The crates of ours in a tree, but for the first, that are not drawn.
fn strays_in(tree: &str, drawn: &[&str]) -> Vec<String> {
    let names = tree.lines().skip(1).filter_map(|line| line.split_whitespace().next());
    let ours = names.filter(|name| name.starts_with("packhorse") || *name == "xtask");
    ours.filter(|name| !drawn.contains(name)).map(str::to_owned).collect()
}

/// Checks that every room uses only what it may, and that every member of the workspace is a room.
pub(crate) fn check() -> Result<()> {
    let members = output(cargo("tree --quiet --workspace --depth 0 --prefix none --format {p}"))?;
    let known: Vec<_> = ROOMS.iter().map(|room| room.package).collect();
    let unknown = strays_in(&format!("\n{members}"), &known);
    if !unknown.is_empty() {
        bail!("{} is no room; see ROOMS in xtask/src/arrows.rs", unknown.join(", "));
    }
    ROOMS.iter().try_for_each(Room::check)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrows_that_nobody_drew_are_named() {
        let tree = "packhorse-tests v0.1.0 (/here)\ncrc32c v0.6.9\npackhorse v0.1.0 (/here)\npackhorse-cli v0.1.0 (/here)\n";
        assert_eq!(strays_in(tree, &["packhorse"]), ["packhorse-cli"]);
        assert!(strays_in(tree, &["packhorse", "packhorse-cli"]).is_empty());
    }
}
