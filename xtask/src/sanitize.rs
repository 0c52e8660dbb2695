//! The tests of everything with `unsafe` in it, and of what hands memory across threads, under a sanitizer.
//!
//! The address sanitizer works with the standard library as it is installed. The thread sanitizer does not: it sees
//! nothing of a mutex's or a channel's inside that was not built for it, and reports what they guard as races by the
//! thousand, those of the test harness first. A library built for it takes the library's sources (`rust-src`) beside the
//! compiler. Where they are missing, the step is left out and says so.

use std::process::Command;

use crate::steps::{Steps, command, root, run as run_command, spare_the_disk};
use crate::tools::{NIGHTLY, NIGHTLY_SOURCES, Tool, install_by_rustup};

/// Ask for a target, and build scripts and macros, which run in the compiler, are spared the instruments.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Takes the steps that can be taken. What cannot be installed is left out, even where nothing else may be: there are
/// machines without a way to another compiler.
pub(crate) fn add_to(steps: &mut Steps, may_install: bool) {
    let name = "memory, by the address sanitizer";
    if has(&[&NIGHTLY], steps, name, may_install) {
        steps.take(name, || {
            let words = "--package packhorse-link --package packhorse-engine --package packhorse";
            let mut tests = nightly(&format!("test --quiet --lib --tests {words}"), "address");
            // One test leaks on purpose.
            tests.env("ASAN_OPTIONS", "detect_leaks=0:detect_stack_use_after_return=1");
            run_command(tests)
        });
    }
    let name = "threads, by the thread sanitizer";
    if has(&[&NIGHTLY, &NIGHTLY_SOURCES], steps, name, may_install) {
        steps.take(name, || {
            let words = "--package packhorse-engine --package packhorse";
            // Not those in which a forked child goes on: this sanitizer cannot follow a fork of several threads. And not the one
            // that looks how much memory its process has, which here is mostly the sanitizer's.
            let left_out = "--skip child --skip ten_thousand_live_handlers";
            let words = format!("test -Zbuild-std --quiet --lib --tests {words} -- {left_out}");
            run_command(nightly(&words, "thread"))
        });
    }
}

/// Whether all of this is here, if need be after it was installed; if not, the step is noted as left out.
fn has(tools: &[&Tool], steps: &mut Steps, name: &str, may_install: bool) -> bool {
    for tool in tools {
        if tool.is_here() {
            continue;
        }
        let got = if may_install { install_by_rustup(tool) } else { Ok(()) };
        if got.is_err() || !tool.is_here() {
            steps.leave_out(name, &tool.absence());
            return false;
        }
    }
    true
}

/// Cargo of the nightly toolchain, with a target folder of its own: other flags would build everything anew.
fn nightly(words: &str, sanitizer: &str) -> Command {
    let mut words = words.split_whitespace();
    let before = ["+nightly"].into_iter().chain(words.next()).chain(["--target", TARGET]);
    let mut cargo = command("cargo", before.chain(words));
    // Cargo tells its children which toolchain they run under; this one is another.
    cargo.env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO");
    cargo.env("RUSTFLAGS", format!("-Zsanitizer={sanitizer}"));
    cargo.env("CARGO_TARGET_DIR", root().join("target").join(sanitizer));
    spare_the_disk(&mut cargo);
    cargo
}
