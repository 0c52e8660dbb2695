//! Is the protocol a pure machine, and does `unsafe` keep to its homes?
//!
//! `#![no_std]` takes clock, files, sockets and threads away: with no path to `std` there is nothing to ask the time
//! of. So purity is three facts: `proto` says `no_std` and `forbid(unsafe_code)`, brings `std` back nowhere but in
//! tests, and depends only on crates that are known to do no more than compute.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use crate::steps::{cargo, output, root};

/// What `proto` may be built from. Each of these is itself `no_std` as it is used here: text of addresses, hash tables. `foldhash` and
/// `equivalent` are what hashbrown brings with features that are off today.
const PROTO_MAY_USE: &[&str] =
    &["packhorse-proto", "base64", "hashbrown", "foldhash", "equivalent"];

/// Where `unsafe` may stand: files, or folders with all they hold.
const UNSAFE_MAY_LIVE_IN: &[&str] = &[
    "crates/link/src/sys",
    "crates/link/src/ring.rs",
    "crates/link/src/ring",
    "crates/link/src/umem.rs",
    "crates/link/src/mem.rs",
    "crates/link/src/mem",
    "crates/link/src/loan.rs",
    // Walks up the stack of the MPI that called, and looks again at what it found there.
    // Raw calls that test the XDP link without its own help.
    "crates/link/tests/xdp/raw.rs",
    // Forks, to see what a child finds.
    "crates/packhorse/tests/fork.rs",
    // Lends borrowed slices to the engine: the scope waits for their return, however it is left.
    "crates/packhorse/src/scope.rs",
    // The same for long pieces of streams, within one call.
    "crates/packhorse/src/stream/lent.rs",
    // The rivals' raw socket calls, and the namespaces they run in: they may share no code with `link`.
    "crates/bench/src/rival/sys.rs",
    "crates/bench/src/rival/xdp_sys.rs",
    // What the C faces share: pointers of the application, libraries opened at run time, libpmix among them.
    "faces/common/src/pointed.rs",
    "faces/common/src/library.rs",
    "faces/common/src/pmix.rs",
    // The C boundary of Fast Messages, and the stacks of its handlers.
    "faces/fm/src/lib.rs",
    "faces/fm/src/thread.rs",
    "faces/fm/src/overflow.rs",
    // The C boundary of MX: its two interfaces and what they have alike, the calls behind them, the application's memory and its handlers.
    "faces/mx/src/mx.rs",
    "faces/mx/src/omx.rs",
    "faces/mx/src/both.rs",
    "faces/mx/src/ops.rs",
    "faces/mx/src/internals.rs",
    "faces/mx/src/abi.rs",
    "faces/mx/src/memory.rs",
    "faces/mx/src/calls.rs",
    "faces/mx/src/caller.rs",
    "faces/mx/tests/random/calls.rs",
    "faces/mx/tests/random/aside.rs",
    // PMI-1: its calls, and the descriptor that a launcher gave.
    "faces/pmi/src/lib.rs",
    "faces/pmi/src/inherited.rs",
    // The C boundary of Portals 4: its calls, the application's memory, and numbers that Rust does not have (`long double`).
    "faces/portals4/src/calls.rs",
    "faces/portals4/src/calls",
    "faces/portals4/src/memory.rs",
    "faces/portals4/src/long.rs",
    // The C boundary of the libfabric provider: what the library and the application call, and the layouts they share with it. What is
    // behind it (`port`, `works`, `peers`, `form`, `place`, `remote`, `refusals`, and the tables of codes, flags and settings) has none, and is not listed.
    "faces/ofi/src/lib.rs",
    "faces/ofi/src/abi",
    "faces/ofi/src/object.rs",
    "faces/ofi/src/memory.rs",
    "faces/ofi/src/log.rs",
    "faces/ofi/src/info.rs",
    "faces/ofi/src/offer.rs",
    "faces/ofi/src/common.rs",
    "faces/ofi/src/fabric.rs",
    "faces/ofi/src/domain.rs",
    "faces/ofi/src/av.rs",
    "faces/ofi/src/cq.rs",
    "faces/ofi/src/cntr.rs",
    "faces/ofi/src/eq.rs",
    "faces/ofi/src/mr.rs",
    "faces/ofi/src/ports.rs",
    "faces/ofi/src/ep.rs",
    "faces/ofi/src/msg.rs",
    "faces/ofi/src/tagged.rs",
    "faces/ofi/src/rma.rs",
    "faces/ofi/src/stx.rs",
    "faces/ofi/src/trigger.rs",
    "faces/ofi/src/atomic.rs",
    // An application that calls through the provider's tables.
    "faces/ofi/tests/provider",
];

/// Checks that the protocol crate can do nothing but compute.
pub(crate) fn check_protocol() -> Result<()> {
    let lib = root().join("crates/proto/src/lib.rs");
    let text =
        fs::read_to_string(&lib).with_context(|| format!("{} could not be read", lib.display()))?;
    for wanted in ["#![no_std]", "#![forbid(unsafe_code)]"] {
        if !text.lines().any(|line| line.trim() == wanted) {
            bail!("crates/proto/src/lib.rs: the line `{wanted}` is missing");
        }
    }
    for file in rust_files(&root().join("crates/proto/src"))? {
        check_no_std_in(&file)?;
    }
    let tree = output(cargo(
        "tree --quiet --package packhorse-proto --edges normal --prefix none --format {p}",
    ))?;
    let strangers = strangers_in(&tree);
    if !strangers.is_empty() {
        bail!("packhorse-proto depends on {strangers:?}; see PROTO_MAY_USE in xtask/src/purity.rs");
    }
    Ok(())
}

/// The crates of a dependency tree, one per line, that are not on the list.
fn strangers_in(tree: &str) -> BTreeSet<&str> {
    let names = tree.lines().filter_map(|line| line.split_whitespace().next());
    names.filter(|name| !PROTO_MAY_USE.contains(name)).collect()
}

/// `extern crate std` is for tests only, and says so in the line before.
fn check_no_std_in(file: &Path) -> Result<()> {
    let text = code_of(&fs::read_to_string(file)?);
    let mut before = "";
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if line.contains("extern crate std") && !before.contains("cfg(test)") {
            bail!("{}: `extern crate std` outside tests", file.display());
        }
        before = line;
    }
    Ok(())
}

/// Checks that no file outside the listed homes says `unsafe`.
pub(crate) fn check_unsafe_homes() -> Result<()> {
    let mut found = Vec::new();
    for room in ["crates", "faces", "xtask", "tests", "fuzz"] {
        for file in rust_files(&root().join(room))? {
            let short = file.strip_prefix(root()).expect("found under the root");
            let allowed = UNSAFE_MAY_LIVE_IN.iter().any(|home| short.starts_with(home));
            if !allowed && says_unsafe(&fs::read_to_string(&file)?) {
                found.push(short.display().to_string());
            }
        }
    }
    if !found.is_empty() {
        bail!(
            "`unsafe` outside its homes (UNSAFE_MAY_LIVE_IN in xtask/src/purity.rs): {}",
            found.join(", ")
        );
    }
    Ok(())
}

/// Whether the keyword stands in the code, not merely in prose or as part of a longer word.
fn says_unsafe(text: &str) -> bool {
    let code = code_of(text);
    code.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == "unsafe")
}

/// All `.rs` files below a folder, but nothing that was built.
pub(crate) fn rust_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        if !folder.is_dir() || folder.ends_with("target") {
            continue;
        }
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ext| ext == "rs") {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}

/// The text without comments and without what stands in string literals. Lines stay lines.
pub(crate) fn code_of(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let skipped = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            block_comment_len(rest)
        } else if let Some(len) = raw_string_len(rest).filter(|_| !ends_in_word(&code)) {
            len
        } else if first == '"' {
            string_len(rest)
        } else if rest.starts_with("'\"'") || rest.starts_with("'\\\"'") {
            rest[1..].find('\'').map_or(1, |at| at + 2).max(3)
        } else {
            code.push(first);
            rest = &rest[first.len_utf8()..];
            continue;
        };
        code.extend(rest[..skipped].chars().filter(|&c| c == '\n'));
        rest = &rest[skipped..];
    }
    code
}

/// Length of the block comment the text starts with. They nest.
fn block_comment_len(text: &str) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while at < text.len() {
        let rest = &text.as_bytes()[at..];
        if rest.starts_with(b"/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if rest.starts_with(b"*/") {
            (depth, at) = (depth - 1, at + 2);
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    text.len()
}

/// Whether the next character would continue a word.
fn ends_in_word(code: &str) -> bool {
    code.chars().next_back().is_some_and(|c| c.is_alphanumeric() || c == '_')
}

/// Length of the raw string literal the text starts with, if it starts with one.
fn raw_string_len(text: &str) -> Option<usize> {
    let after = text.strip_prefix("br").or_else(|| text.strip_prefix('r'))?;
    let hashes = after.len() - after.trim_start_matches('#').len();
    let body = after[hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    let body_len = body.find(&end)? + end.len();
    Some(text.len() - body.len() + body_len)
}

/// Length of the string literal the text starts with, quotes included.
fn string_len(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            '"' if !escaped => return at + 1,
            '\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keyword_is_found_in_code_only() {
        assert!(says_unsafe("fn f() { unsafe { g() } }"));
        assert!(says_unsafe("unsafe impl Send for X {}"));
        assert!(!says_unsafe("#![forbid(unsafe_code)]"));
        assert!(!says_unsafe("// unsafe in a comment\n/* and /* nested */ unsafe */ fn f() {}"));
        assert!(!says_unsafe("let s = \"unsafe \\\" unsafe\";"));
    }

    #[test]
    fn raw_strings_end_where_they_end() {
        assert!(says_unsafe("let s = r#\"one \" quote\"#; unsafe { f(\"\") }"));
        assert!(!says_unsafe("let s = r#\"one \" unsafe\"#;"));
        assert!(!says_unsafe("let s = br\"unsafe\\\"; f()"));
    }

    #[test]
    fn quotes_as_characters_do_not_open_strings() {
        assert!(says_unsafe("let q = '\"'; unsafe { f() }"));
        assert!(says_unsafe("let q = '\\\"'; unsafe { f() }"));
    }

    #[test]
    fn unknown_dependencies_are_named() {
        let tree = "packhorse-proto v0.1.0 (/somewhere)\nbase64 v0.22.1\ntokio v1.0.0\n";
        assert_eq!(strangers_in(tree), BTreeSet::from(["tokio"]));
    }
}
