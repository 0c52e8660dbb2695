//! Runs this program under callgrind and reads what it counted.
//!
//! The file is read line by line as callgrind(1) describes it, uncompressed: `fn=`, `ob=` and their `c` forms name where
//! one is, `calls=` announces that the next line is the cost of a call, and every other line that begins with an
//! address is the cost of one instruction by itself.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

/// What a line of cost belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cost {
    /// The instruction itself, in the object with this name.
    Own {
        /// Where.
        address: u64,
        /// Instructions.
        count: u64,
        /// Whether it is of this program, and not of a shared library.
        ours: bool,
    },
    /// Everything a call led to.
    Call {
        /// Where it is made.
        address: u64,
        /// Instructions.
        count: u64,
        /// Whether the caller is of this program.
        ours: bool,
        /// Where the function called begins.
        callee_address: u64,
        /// Whether it is of this program.
        callee_ours: bool,
    },
}

/// Which valgrind.
pub(crate) fn version() -> Result<String> {
    let output = Command::new("valgrind").arg("--version").output();
    let output =
        output.context("valgrind could not be started (get it with `apt-get install valgrind`)")?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// What callgrind wrote about one run: only inside functions whose name holds `inside`.
pub(crate) fn profile(scenario: &str, count: usize, inside: &str) -> Result<String> {
    let program = std::env::current_exe()?;
    let file = temporary(&format!("{scenario}-{count}-{inside}"));
    let run = Command::new("valgrind")
        .args([
            "--tool=callgrind",
            "--dump-instr=yes",
            "--compress-strings=no",
            "--compress-pos=no",
        ])
        .arg(format!("--toggle-collect=*{inside}*"))
        .arg(format!("--callgrind-out-file={}", file.display()))
        .arg(program)
        .args(["run", scenario, &count.to_string()])
        .stdin(Stdio::null())
        .output()
        .context("valgrind could not be started (get it with `apt-get install valgrind`)")?;
    if !run.status.success() {
        bail!(
            "{scenario} under callgrind ended with {}:\n{}",
            run.status,
            String::from_utf8_lossy(&run.stderr)
        );
    }
    let text = std::fs::read_to_string(&file)
        .with_context(|| format!("{} could not be read", file.display()))?;
    std::fs::remove_file(&file)?;
    Ok(text)
}

fn temporary(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("packhorse-costs-{}-{name}", std::process::id()))
}

/// The instructions of a whole run.
pub(crate) fn total(profile: &str) -> Result<u64> {
    let line = profile
        .lines()
        .find_map(|line| line.strip_prefix("summary:").or(line.strip_prefix("totals:")));
    line.and_then(|line| line.trim().parse().ok()).context("callgrind wrote no total")
}

/// Calls `each` with every cost in the file.
pub(crate) fn each_cost(profile: &str, mut each: impl FnMut(Cost)) -> Result<()> {
    let program = std::env::current_exe()?;
    let is_ours = |object: &str| program == Path::new(object);
    let (mut ours, mut callee_ours, mut call) = (false, None, None);
    for line in profile.lines() {
        if let Some((key, name)) = line.split_once('=') {
            match key {
                "ob" => ours = is_ours(name),
                "cob" => callee_ours = Some(is_ours(name)),
                "calls" => call = name.split(' ').nth(1).and_then(number),
                _ => {}
            }
            continue;
        }
        let mut words = line.split(' ');
        let (Some(address), Some(count)) =
            (words.next().and_then(number), words.nth(1).and_then(number))
        else {
            continue;
        };
        match call.take() {
            Some(callee_address) => {
                let callee_ours = callee_ours.take().unwrap_or(ours);
                each(Cost::Call { address, count, ours, callee_address, callee_ours });
            }
            None => each(Cost::Own { address, count, ours }),
        }
    }
    Ok(())
}

fn number(word: &str) -> Option<u64> {
    match word.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => word.parse().ok(),
    }
}
