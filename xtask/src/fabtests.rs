//! `cargo xtask fabtests`: libfabric's own tests over our provider, by their own script, from sources that the caller provides.
//!
//! `runfabtests.sh` is run as it is, without `-E`, in namespaces of its own: on the loopback of a network of its own, and among processes
//! of its own, since its cleaning up ends every process whose name begins with `fi_`. What comes of each test is what the script says, but that a
//! test is *not offered*, too, where the script counts a failure and the test's server says `FI_ENODATA`, or `FI_ENOSYS`: the client of some ends
//! with the code of a lost connection to that server.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context as _, Result, bail, ensure};

use crate::install::target;
use crate::steps::{cargo, run as run_command};

/// Where from, and which.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// A libfabric source tree, which is built apart; or where libfabric and its fabtests are installed (`bin/runfabtests.sh`)
    #[arg(long, value_name = "DIR")]
    sources: PathBuf,
    /// Test sets of the script, by commas
    #[arg(long, value_name = "SETS", default_value = "unit,functional,short")]
    sets: String,
    /// A test may take so long
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    seconds: u32,
}

/// What came of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Came {
    Passed,
    NotOffered,
    Failed,
}

/// A test, and what its processes said.
#[derive(Debug)]
struct Test {
    name: String,
    result: Came,
    said: String,
}

/// Runs the sets one after the other, and prints a table; fails if a test does.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    run_command(cargo("build --release --quiet --package packhorse-fi"))?;
    let provider = target().join("fabtests-provider");
    std::fs::create_dir_all(&provider)?;
    std::fs::copy(
        target().join("release/libpackhorse_fi.so"),
        provider.join("libpackhorse-fi.so"),
    )?;
    let prefix = installed(&args.sources)?;
    let (mut table, mut failed_count) = (String::new(), 0);
    for set in args.sets.split(',') {
        let tests = run_set(&prefix, &provider, set, args.seconds)?;
        ensure!(!tests.is_empty(), "the script has no tests in the set `{set}`");
        let of = |result| tests.iter().filter(move |test| test.result == result);
        let [passed, not_offered, failed] =
            [Came::Passed, Came::NotOffered, Came::Failed].map(|it| of(it).count());
        writeln!(table, "| {set} | {passed} | {not_offered} | {failed} |")?;
        of(Came::NotOffered).for_each(|test| println!("not offered  {}", test.name));
        of(Came::Failed).for_each(|test| println!("FAILED       {}\n{}", test.name, test.said));
        failed_count += failed;
    }
    println!("| set | passed | not offered | failed |\n| --- | --- | --- | --- |\n{table}");
    Ok(if failed_count == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Where libfabric and its tests are installed; built and installed before, from a copy of a source tree.
fn installed(sources: &Path) -> Result<PathBuf> {
    let sources = sources.canonicalize().with_context(|| format!("{}", sources.display()))?;
    if sources.join("bin/runfabtests.sh").exists() {
        return Ok(sources);
    }
    ensure!(
        sources.join("fabtests/scripts/runfabtests.sh").exists(),
        "{} is neither a libfabric source tree nor has it a bin/runfabtests.sh",
        sources.display()
    );
    let name = sources.file_name().unwrap_or_default();
    let folder = target().join("fabtests").join(name);
    let prefix = folder.join("installed");
    if prefix.join("bin/runfabtests.sh").exists() {
        return Ok(prefix);
    }
    std::fs::create_dir_all(&folder)?;
    // In a copy: its scripts write where they stand.
    let script = "set -e\n\
        rm -rf \"$FOLDER/copy\"; cp -a \"$SOURCES\" \"$FOLDER/copy\"; cd \"$FOLDER/copy\"\n\
        ./autogen.sh; ./configure --prefix=\"$PREFIX\"; make -j \"$(nproc)\" install\n\
        cd fabtests; ./autogen.sh; ./configure --prefix=\"$PREFIX\" --with-libfabric=\"$PREFIX\"; make -j \"$(nproc)\" install";
    let log = std::fs::File::create(folder.join("build.log"))?;
    let mut build = Command::new("sh");
    build.args(["-c", script]).env("FOLDER", &folder).env("SOURCES", &sources);
    build.env("PREFIX", &prefix).stdout(log.try_clone()?).stderr(log).stdin(Stdio::null());
    let status = build.status()?;
    ensure!(
        status.success(),
        "libfabric or its tests cannot be built: {}",
        folder.join("build.log").display()
    );
    Ok(prefix)
}

fn run_set(prefix: &Path, provider: &Path, set: &str, seconds: u32) -> Result<Vec<Test>> {
    let folder = with_configuration(prefix)?;
    let script = "ip link set lo up; exec \"$PREFIX/bin/runfabtests.sh\" -vv -T \"$SECONDS_EACH\" -t \"$SET\" -p \"$PREFIX/bin\" packhorse";
    let mut tests = Command::new("unshare");
    tests.args(["--user", "--map-root-user", "--net", "--pid", "--fork", "--mount-proc"]);
    tests.args(["--kill-child", "bash", "-c", script]).current_dir(folder);
    tests.env("PREFIX", prefix).env("SET", set).env("SECONDS_EACH", seconds.to_string());
    tests.env("LD_LIBRARY_PATH", prefix.join("lib")).env("FI_PROVIDER_PATH", provider);
    let output = tests.stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let output = output.context("unshare is part of util-linux")?;
    let said = String::from_utf8_lossy(&output.stdout);
    let tests = read(&said)?;
    // The script counts them, too: none was lost on the way here.
    let counted = said.lines().filter(|line| line.starts_with("# Total ")).filter_map(last_number);
    ensure!(counted.sum::<usize>() == tests.len(), "the script counted others:\n{said}");
    Ok(tests)
}

/// A folder from which the script finds what the set `complex` is to try: the list that libfabric has for its own provider of
/// unconnected endpoints over TCP, with our name.
fn with_configuration(prefix: &Path) -> Result<PathBuf> {
    let folder = target().join("fabtests-configuration");
    let ours = folder.join("test_configs/packhorse");
    std::fs::create_dir_all(&ours)?;
    let theirs = prefix.join("share/fabtests/test_configs/ofi_rxm/tcp.test");
    let list = std::fs::read_to_string(&theirs).with_context(|| format!("{}", theirs.display()))?;
    let list = list.replace("tcp;ofi_rxm", "packhorse");
    ["all.test", "quick.test"]
        .iter()
        .try_for_each(|name| std::fs::write(ours.join(name), &list))?;
    Ok(folder)
}

fn last_number(line: &str) -> Option<usize> {
    line.split_whitespace().last()?.parse().ok()
}

/// What the script says of each test, with `-vv`.
fn read(said: &str) -> Result<Vec<Test>> {
    let mut tests: Vec<Test> = Vec::new();
    for line in said.lines() {
        if let Some(name) = line.strip_prefix("- name:") {
            let (name, result, said) = (name.trim().into(), Came::Failed, String::new());
            tests.push(Test { name, result, said });
            continue;
        }
        let Some(test) = tests.last_mut() else { continue };
        match line.strip_prefix("  result:").map(str::trim) {
            Some(word) if word.starts_with("Pass") => test.result = Came::Passed,
            Some("Notrun") => test.result = Came::NotOffered,
            Some(word) if word.starts_with("Fail") => test.result = Came::Failed,
            Some(word) => bail!("`{word}` is no result of a test that was run: {}", test.name),
            None if line.starts_with("    ") => writeln!(test.said, "{line}")?,
            None => {}
        }
        let is_denied = ["No data available", "Function not implemented"];
        if test.result == Came::Failed && is_denied.iter().any(|it| line.contains(it)) {
            test.result = Came::NotOffered;
        }
    }
    Ok(tests)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "- name:   fi_rdm -p \"packhorse\"
  timestamp: 20261117-190000+0000
  result: Pass
  time:   1
- name:   fi_dgram -p \"packhorse\"
  result: Notrun
  time:   1
- name:   fi_flood -e msg -p \"packhorse\"
  result: Fail
  time:   3
  server_stdout: |
    fi_getinfo(): common/shared.c:1172, ret=-61 (No data available)
  client_stdout: |
    ft_sock_recv(): ret=-107 (Transport endpoint is not connected)
- name:   fi_bw -p \"packhorse\"
  result: Fail
  time:   3
  server_stdout: |
    data check failed
# ------------------------------------------------------------------------------
# Total Pass                                                 1
";

    #[test]
    fn what_is_not_offered_is_told_from_what_fails() {
        let tests = read(SAID).unwrap();
        let results: Vec<Came> = tests.iter().map(|test| test.result).collect();
        use Came::{Failed, NotOffered, Passed};
        assert_eq!(results, [Passed, NotOffered, NotOffered, Failed]);
        assert!(tests[3].said.contains("data check failed") && tests[0].name.contains("fi_rdm"));
        assert_eq!(last_number("# Total Pass      12"), Some(12));
        assert!(read("- name: x\n  result: Excluded\n").is_err());
    }
}
