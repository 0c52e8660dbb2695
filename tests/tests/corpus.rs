//! The fuzz corpus, replayed without a fuzzer: every input that once taught something must still pass.

#![forbid(unsafe_code)]

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// Runs `body` on every file of a target's corpus, and says which file failed.
fn replay(target: &str, body: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus").join(target);
    let mut files: Vec<_> = fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.expect("a folder that can be read").path())
        .collect();
    files.sort();
    assert!(!files.is_empty(), "no corpus in {}", folder.display());
    for file in &files {
        let bytes = fs::read(file).expect("a file that can be read");
        if catch_unwind(AssertUnwindSafe(|| body(&bytes))).is_err() {
            panic!("{} fails", file.display());
        }
    }
    println!("{} inputs of `{target}`", files.len());
}

#[test]
fn frames_of_the_corpus_pass() {
    replay("frame", packhorse_tests::frames::frame);
}

#[test]
fn scripts_of_the_corpus_pass() {
    replay("endpoint", packhorse_tests::hostile::endpoints);
}

#[test]
fn look_ups_of_the_corpus_pass() {
    replay("lookup", packhorse_tests::doors::look_ups);
}

/// For the person who looks into a finding: `PACKHORSE_SCRIPT=FILE cargo test -p packhorse-tests --test corpus told --
/// --nocapture` tells what an input of `endpoint` does.
#[test]
fn a_script_that_was_named_is_told() {
    if let Ok(file) = std::env::var("PACKHORSE_SCRIPT") {
        packhorse_tests::hostile::endpoints_told(&fs::read(file).expect("a file that can be read"));
    }
}
