//! `cargo xtask mx`: other people's programs over our library, from sources that the caller provides; and random operations by the thousand.
//!
//! Open MPI 1.8 is in `open_mpi`. Open-MX's own tests are compiled as they are, against our headers, and run in a network namespace of their own where loopback is board 0, as their scripts
//! want it. Two that speak to Open-MX's driver are left out.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use crate::install::{link_mx, target};
use crate::sanitize::{self, Sanitizer};
use crate::steps::{cargo, root, run as run_command};

mod open_mpi;

/// Where from.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// An Open-MX source tree, with its `tests`; or a folder with one called `open-mx`, or Open MPI 1.8's called `openmpi`, or both
    #[arg(long, value_name = "DIR", required_unless_present = "random")]
    sources: Option<PathBuf>,
    /// So many random operations from four processes, with a sanitizer, before an oracle (`faces/mx/tests/random`)
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1000..))]
    random: Option<u64>,
    /// Which sanitizer
    #[arg(long, value_enum, default_value = "address", requires = "random")]
    sanitizer: Sanitizer,
    /// Of Open MPI only the half round trips, once it is built
    #[arg(long, requires = "sources", conflicts_with_all = ["random", "only"])]
    measure: bool,
    /// Only those whose program has this in its name
    #[arg(long, value_name = "WORD")]
    only: Option<String>,
}

/// A test: its program, its words, and those of a receiver that it needs.
struct Case {
    program: &'static str,
    words: &'static str,
    receiver: Option<&'static str>,
    /// The receiver is stopped while the test runs.
    is_stopped: bool,
    env: &'static [(&'static str, &'static str)],
}

const fn alone(program: &'static str, words: &'static str) -> Case {
    Case { program, words, receiver: None, is_stopped: false, env: &[] }
}

const fn pair(program: &'static str, receiver: &'static str, words: &'static str) -> Case {
    Case { program, words, receiver: Some(receiver), is_stopped: false, env: &[] }
}

const CASES: &[Case] = &[
    alone("omx_unexp_test", ""),
    Case { env: &[("OMX_CTXIDS", "10,10")], ..alone("omx_unexp_test", "") },
    alone("omx_loopback_test", ""),
    alone("omx_loopback_test", "-s"),
    alone("omx_loopback_test", "-S"),
    alone("omx_vect_test", ""),
    alone("omx_vect_test", "-s"),
    alone("omx_vect_test", "-S"),
    alone("omx_truncated_test", ""),
    alone("omx_unexp_handler_test", ""),
    alone("omx_rcache_test", ""),
    alone("omx_multithread_ep_test", ""),
    alone("mx_msg_loop", "-E 3000 -I 37 -N 1"),
    alone("mx_msg_loop", "-m -E 3000 -I 37 -N 1"),
    alone("mx_msg_loop", "-u -s -E 100000 -I 9000 -P 8"),
    pair("omx_perf", "", "-d localhost -e 3 -E 100000"),
    Case {
        env: &[("OMX_DISABLE_SHARED", "1")],
        ..pair("omx_perf", "", "-d localhost -e 3 -E 100000")
    },
    pair("omx_many", "", "-d localhost -e 3"),
    pair("omx_endpoint_addr_context_test", "", "-d localhost -e 3"),
    pair("omx_rails", "-R 2", "-R 2 -d localhost:0,localhost:1"),
    pair("omx_multithread_wait_any", "-t 1", "-d localhost -p 1"),
    pair("omx_multithread_wait_any", "-t 4", "-d localhost -p 4"),
    Case { is_stopped: true, ..pair("omx_cancel_test", "", "-d localhost -e 3") },
    pair("mx_pingpong", "", "-d localhost -e 3 -V -M 2 -S 1 -E 2000000 -N 100"),
    pair("mx_stream", "", "-d localhost -e 3 -V"),
    pair("mx_wait_any_test", "", "-d localhost -e 3"),
    Case { is_stopped: true, ..pair("mx_wakeup_test", "", "-d localhost -e 3") },
];

/// Builds and runs what was asked for; fails if one of them does.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    if let Some(count) = args.random {
        run_command(sanitize::random_of_mx(count, args.sanitizer))?;
    }
    let Some(sources) = &args.sources else { return Ok(ExitCode::SUCCESS) };
    let has_tests = |folder: &PathBuf| folder.join("tests/omx_perf.c").exists();
    let open_mx = [sources.clone(), sources.join("open-mx")].into_iter().find(has_tests);
    let open_mpi = Some(sources.join("openmpi")).filter(|folder| folder.exists());
    ensure!(
        open_mx.is_some() || open_mpi.is_some(),
        "{} has neither tests/omx_perf.c, as an Open-MX source tree, nor folders open-mx or openmpi",
        sources.display()
    );
    run_command(cargo("build --release --quiet --package packhorse-mx"))?;
    let mut failed = 0;
    if let Some(folder) = open_mx.filter(|_| !args.measure) {
        failed += try_open_mx(&folder.join("tests"), args)?;
    }
    if let Some(folder) = open_mpi.filter(|_| args.only.is_none()) {
        failed += open_mpi::try_all(&folder, args.measure)?;
    }
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Open-MX's tests; how many failed.
fn try_open_mx(tests: &Path, args: &Args) -> Result<usize> {
    let folder = target().join("mx");
    std::fs::create_dir_all(&folder)?;
    link_mx(&target().join("release"), &folder)?;
    let is_wanted =
        |case: &&Case| args.only.as_ref().is_none_or(|word| case.program.contains(word));
    let cases: Vec<&Case> = CASES.iter().filter(is_wanted).collect();
    ensure!(!cases.is_empty(), "no test has `{}` in its name", args.only.as_deref().unwrap_or(""));
    let programs: BTreeSet<&str> = cases.iter().map(|case| case.program).collect();
    programs.iter().try_for_each(|program| build(tests, program, &folder))?;
    let mut failed = 0;
    for case in &cases {
        let is_passed = try_case(case, &folder)?;
        failed += usize::from(!is_passed);
        let env: String = case.env.iter().map(|(name, value)| format!("{name}={value} ")).collect();
        let word = if is_passed { "passed" } else { "FAILED" };
        println!("{word}  {env}{} {}", case.program, case.words);
    }
    println!("{} of {} passed", cases.len() - failed, cases.len());
    Ok(failed)
}

fn build(tests: &Path, program: &str, folder: &Path) -> Result<()> {
    let is_of_mx = program.starts_with("mx_");
    let from = if is_of_mx { tests.join("mx") } else { tests.to_path_buf() };
    let mut cc = Command::new("cc");
    cc.args(["-w", "-D_GNU_SOURCE", "-DOMX_LIB_THREAD_SAFETY=1", "-I"]);
    cc.arg(root().join("faces/mx/include")).arg("-I").arg(&from);
    cc.arg(from.join(format!("{program}.c"))).arg("-o").arg(folder.join(program));
    cc.arg("-L").arg(folder).arg(if is_of_mx { "-lmyriexpress" } else { "-lopen-mx" });
    cc.arg("-lpthread");
    run_command(cc)
}

/// Runs one, in a namespace that ends with it: whoever is on this host's boards is not disturbed.
fn try_case(case: &Case, folder: &Path) -> Result<bool> {
    let script = "ip link set lo up\n\
        if [ -n \"$RECEIVER\" ]; then\n\
          \"$0\" $RECEIVER_WORDS > /dev/null 2>&1 & receiver=$!\n\
          until [ $(ss -uln | grep -c ':619[56]') -ge $ENDPOINTS ]; do sleep 0.02; done\n\
          [ -z \"$STOPPED\" ] || kill -STOP $receiver\n\
        fi\n\
        timeout 60 \"$0\" $WORDS > /dev/null; code=$?\n\
        [ -z \"$receiver\" ] || { kill -CONT $receiver; kill -KILL $receiver; } 2> /dev/null\n\
        exit $code";
    let mut test = Command::new("unshare");
    test.args(["--net", "--map-root-user", "--user", "sh", "-c", script]);
    test.arg(folder.join(case.program)).env("LD_LIBRARY_PATH", folder);
    test.env("PACKHORSE_MX_BOARDS", "lo").env("WORDS", case.words).envs(case.env.iter().copied());
    if let Some(words) = case.receiver {
        // From then on its doors answer, and what comes before a receive is posted waits for that.
        let endpoint_count = if words.contains("-R 2") { "2" } else { "1" };
        test.env("RECEIVER", "1").env("RECEIVER_WORDS", words).env("ENDPOINTS", endpoint_count);
    }
    if case.is_stopped {
        test.env("STOPPED", "1");
    }
    let test = test.stdin(Stdio::null()).spawn().context("unshare is part of util-linux")?;
    finish(test)
}

/// Waits two minutes at most.
fn finish(mut test: Child) -> Result<bool> {
    let end = Instant::now() + Duration::from_secs(120);
    while Instant::now() < end {
        if let Some(status) = test.try_wait()? {
            return Ok(status.success());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    test.kill()?;
    test.wait()?;
    Ok(false)
}
