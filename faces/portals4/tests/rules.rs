//! The rules of Portals 4, one by one: C programs over the shared object as it is installed, each rule in a process of its own.
//!
//! A rule is a function in `tests/c`, named after the section it is from: A for what each call takes, B for what target and initiator do (see
//! docs/portals.md). Rules that do not hold yet stand in `tests/pending.txt`, with the reason; they are run and printed, and one that holds after all
//! must leave that list.

#[path = "../../pmi/tests/launcher/mod.rs"]
mod launcher;

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};

/// A directory with the library under its names; gone when the test is over.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("packhorse-portals4-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        let script = root().join("link.sh");
        let linked = Command::new("sh").arg(script).arg(archive()).arg(&path).status().unwrap();
        assert!(linked.success());
        Self(path)
    }

    fn compile(&self, name: &str) -> PathBuf {
        self.compile_with(name, &[])
    }

    fn compile_with(&self, name: &str, libraries: &[&str]) -> PathBuf {
        let program = self.0.join(name);
        let sources = root().join("tests/c");
        let mut cc = Command::new("cc");
        cc.args(["-std=gnu11", "-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror", "-g"]);
        cc.arg("-O1").arg("-o").arg(&program).arg(sources.join(format!("{name}.c")));
        cc.arg(sources.join("rules.c")).arg("-I").arg(root().join("include"));
        cc.arg("-L").arg(&self.0).args(["-lportals", "-lpthread", "-lm"]).args(libraries);
        assert!(cc.args(sanitized()).status().expect("cc is needed").success());
        program
    }

    fn run(&self, program: &Path, words: &[&str]) -> Output {
        let mut command = Command::new("timeout");
        command.args(["--signal=KILL", "120"]).arg(program).args(words);
        command.env("LD_LIBRARY_PATH", &self.0).env("PTL_IFACE_NAME", "lo");
        command.output().unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Where cargo puts what the tests use.
fn beside() -> PathBuf {
    std::env::current_exe().unwrap().parent().unwrap().to_path_buf()
}

/// The archive that cargo made of the library, the newest there is: its name has a hash in it, and it lies beside the tests.
fn archive() -> PathBuf {
    let mut found: Vec<_> = [beside(), beside().parent().unwrap().to_path_buf()]
        .iter()
        .flat_map(|folder| std::fs::read_dir(folder).unwrap().flatten())
        .filter(|entry| {
            let name = entry.file_name().into_string().unwrap_or_default();
            name.starts_with("libpackhorse_portals4") && name.ends_with(".a")
        })
        .map(|entry| (entry.metadata().unwrap().modified().unwrap(), entry.path()))
        .collect();
    found.sort();
    found.pop().expect("cargo builds the archive with the tests").1
}

/// A library that was built for a sanitizer finds it in the program; xtask/src/sanitize.rs says where it is.
fn sanitized() -> Vec<String> {
    let Ok(runtime) = std::env::var("SANITIZER_RUNTIME") else { return Vec::new() };
    let words = format!(
        "-Wl,--whole-archive {runtime} -Wl,--no-whole-archive -Wl,--export-dynamic -lpthread -ldl -lrt -lm -lgcc_s"
    );
    words.split(' ').map(str::to_owned).collect()
}

/// Rules that do not hold yet, each with the reason.
fn pending() -> BTreeMap<&'static str, &'static str> {
    let lines = include_str!("pending.txt").lines().map(str::trim);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    let pair = |line: &'static str| line.split_once(": ").expect("a line is RULE: REASON");
    lines.map(pair).collect()
}

/// Runs all rules of a program.
fn hold(name: &str) {
    let scratch = Scratch::new(name);
    let program = scratch.compile(name);
    let listed = scratch.run(&program, &[]);
    let listed = String::from_utf8(listed.stdout).unwrap();
    let pending = pending();
    let (mut broken, mut count) = (Vec::new(), 0);
    for rule in listed.lines() {
        let output = scratch.run(&program, &[rule]);
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        match (output.status.success(), pending.get(rule)) {
            (true, None) => count += 1,
            (false, None) => broken.push(format!("{rule}: {} {said}", output.status)),
            (false, Some(why)) => println!("pending: {rule}: {why} ({} {said})", output.status),
            (true, Some(_)) => {
                broken.push(format!("{rule} holds: it must leave tests/pending.txt"));
            }
        }
    }
    assert!(broken.is_empty(), "{} of {name}:\n{}", broken.len(), broken.join("\n"));
    println!("{count} rules of {name} hold");
    assert!(listed.lines().count() > 0, "{name} has no rules");
}

#[test]
fn numbers_and_layouts_are_those_of_the_reference() {
    hold("layouts");
}

#[test]
fn arguments_that_make_no_sense_are_refused() {
    hold("arguments");
}

#[test]
fn handles_that_are_none_and_things_in_use_do_no_harm() {
    hold("hostile");
}

#[test]
fn messages_find_their_entries() {
    hold("matching");
}

#[test]
fn messages_that_came_first_are_found() {
    hold("unexpected");
}

#[test]
fn events_counters_triggers_and_flow_control() {
    hold("events");
}

#[test]
fn atomic_operations() {
    hold("atomics");
}

#[test]
fn order_abort_memory_and_limits() {
    hold("rest");
}

#[test]
fn threads_at_once() {
    hold("threads");
}

#[test]
fn two_processes() {
    hold("pair");
}

#[test]
fn messages_and_calls_that_meet() {
    hold("races");
}

#[test]
fn memory_that_is_not_there() {
    hold("holes");
}

/// Where Open MPI's launchers put the secret of a job.
const LAUNCHER_SECRET: &str = "OMPI_MCA_orte_precondition_transports";

/// A directory with a program that finds its peers by PMI, and with both libraries.
fn job(name: &str) -> Scratch {
    let scratch = Scratch::new(name);
    let built = beside().join("libpackhorse_pmi.so");
    for name in ["libpmi.so", "libpmi.so.0"] {
        std::fs::copy(&built, scratch.0.join(name)).expect("cargo builds PMI with the tests");
    }
    scratch.compile_with("ranks", &["-lpmi"]);
    scratch
}

/// How that program is run, perhaps by a launcher.
fn ranks(scratch: &Scratch, launcher: &[&str]) -> Command {
    let mut command = Command::new("timeout");
    command.args(["--signal=KILL", "120"]).args(launcher);
    command.arg(scratch.0.join("ranks")).arg("ranks").env_remove(LAUNCHER_SECRET);
    command.env("LD_LIBRARY_PATH", &scratch.0).env("PTL_IFACE_NAME", "lo");
    command
}

#[test]
fn a_job_finds_itself_alone_and_by_a_launcher_that_speaks_pmi_1() {
    let scratch = job("launched");
    for count in [1, 3] {
        let server = launcher::Server::start(count).unwrap();
        let start = |rank: u32| {
            let mut command = ranks(&scratch, &[]);
            if count > 1 {
                command.env("PMI_PORT", server.at()).env("PMI_ID", rank.to_string());
            }
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        };
        let children: Vec<_> = (0..count).map(start).collect();
        for (rank, child) in children.into_iter().enumerate() {
            let output = child.wait_with_output().unwrap();
            assert!(output.status.success(), "{output:?}");
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            assert_eq!(said, format!("rank {rank} of {count}\n"));
        }
    }
}

#[test]
fn a_job_that_mpirun_starts_finds_itself_and_has_a_secret() {
    let has_mpirun = Command::new("mpirun").arg("--version").output().is_ok();
    assert!(has_mpirun || std::env::var_os("CI").is_none(), "mpirun is missing");
    if !has_mpirun {
        eprintln!("skipped: mpirun is missing");
        return;
    }
    let scratch = job("mpirun");
    let mpirun = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "4"];
    let output = ranks(&scratch, &mpirun).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    for rank in 0..4 {
        assert!(said.contains(&format!("rank {rank} of 4, with a secret\n")), "{said}");
    }
}

/// One half of a program that two processes are.
struct Half {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Half {
    fn start(scratch: &Scratch, program: &Path, words: &[String]) -> Self {
        Self::start_in(scratch, program, words, None)
    }

    /// In a job whose launcher gave it this secret, if one did.
    fn start_in(scratch: &Scratch, program: &Path, words: &[String], secret: Option<&str>) -> Self {
        let mut command = Command::new("timeout");
        command.args(["--signal=KILL", "120"]).arg(program).args(words);
        command.env("LD_LIBRARY_PATH", &scratch.0).env("PTL_IFACE_NAME", "lo");
        command.env_remove(LAUNCHER_SECRET);
        command.envs(secret.map(|secret| (LAUNCHER_SECRET, secret)));
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    fn line(&mut self) -> String {
        self.lines.next().expect("the program ended early").unwrap()
    }

    /// Joins the two; what each says at its end.
    fn play(halves: &mut [Self; 2]) -> [String; 2] {
        let ids = halves.each_mut().map(Self::line);
        for (half, other) in halves.iter_mut().zip(ids.iter().rev()) {
            writeln!(half.child.stdin.as_mut().unwrap(), "{other}").unwrap();
        }
        let figures = halves.each_mut().map(Self::line);
        assert!(halves.iter_mut().all(|half| half.child.wait().unwrap().success()), "{figures:?}");
        figures
    }
}

/// Compiles an example as users would.
fn example(scratch: &Scratch, name: &str) -> PathBuf {
    let program = scratch.0.join(name);
    let mut cc = Command::new("cc");
    cc.args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O2", "-o"]).arg(&program);
    cc.arg(root().join(format!("examples/{name}.c"))).arg("-I").arg(root().join("include"));
    cc.arg("-L").arg(&scratch.0).arg("-lportals").args(sanitized());
    assert!(cc.status().expect("cc is needed").success());
    program
}

/// Each process looks at its own memory alone, and calls nothing from the first put to the last.
#[test]
fn a_chain_of_triggered_puts_goes_round_four_processes_that_call_nothing() {
    let scratch = Scratch::new("chain");
    let program = example(&scratch, "chain");
    for meanwhile in ["compute", "sleep"] {
        let ended = scratch.run(&program, &["4", "64", meanwhile]);
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.success(), "{meanwhile}: {} {said}", ended.status);
        assert!(ended.stdout.starts_with(b"{\"hops\":64,"), "{meanwhile}");
    }
    assert_eq!(scratch.run(&program, &["4", "63", "compute"]).status.code(), Some(2));
}

#[test]
fn puts_go_there_and_back_and_one_way() {
    let scratch = Scratch::new("puts");
    let program = example(&scratch, "puts");
    for (roles, bytes) in [(["ping", "pong"], "8"), (["pour", "count"], "300000")] {
        let words = |role| [role, bytes, "0.1", "2"].map(str::to_owned).to_vec();
        let mut halves = roles.map(|role| Half::start(&scratch, &program, &words(role)));
        let figures = Half::play(&mut halves);
        let moved = figures.iter().filter(|line| !line.contains("\"messages\":0,")).count();
        assert_eq!(moved, 1, "one of the two measures: {figures:?}");
    }
}

#[test]
fn a_process_with_its_jobs_secret_is_closed_to_those_without() {
    let scratch = Scratch::new("secret");
    let program = example(&scratch, "puts");
    let words = |role| [role, "8", "0.05", "1"].map(str::to_owned).to_vec();
    let start = |role, secret| Half::start_in(&scratch, &program, &words(role), secret);
    let (ours, theirs) = ("0123456789abcdef-00112233445566ff", "0123456789abcdef-00112233445566fe");
    Half::play(&mut [start("ping", Some(ours)), start("pong", Some(ours))]);
    for stranger in [Some(theirs), None] {
        let mut pong = start("pong", Some(ours));
        let mut ping = start("ping", stranger);
        let place = pong.line();
        ping.line();
        writeln!(ping.child.stdin.as_mut().unwrap(), "{place}").unwrap();
        assert!(!ping.child.wait().unwrap().success(), "{stranger:?} was let in");
        drop(pong.child.stdin.take()); // it waits to hear of the other, and ends
        pong.child.wait().unwrap();
    }
}

#[test]
fn the_papers_double_buffering_moves_all_buffers_in_order() {
    let scratch = Scratch::new("doublebuf");
    let program = example(&scratch, "doublebuf");
    let words = |role| [role, "65536", "0.2", "1e9", "3e9"].map(str::to_owned).to_vec();
    let mut halves =
        ["produce", "consume"].map(|role| Half::start(&scratch, &program, &words(role)));
    let figures = Half::play(&mut halves);
    assert!(figures[0].contains("producer_bytes_per_s") && !figures[1].contains("\"messages\":0,"));
}

#[test]
fn the_header_is_c_of_1999_and_cpp_and_needs_no_other() {
    let header = root().join("include/portals4.h");
    let text = std::fs::read_to_string(&header).unwrap();
    let included: Vec<&str> = text.lines().filter(|line| line.starts_with("#include")).collect();
    assert_eq!(included, ["#include <stdint.h>"]);
    for (compiler, language, standard) in [("cc", "c", "c99"), ("c++", "c++", "c++98")] {
        let mut command = Command::new(compiler);
        command.args(["-x", language, "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]);
        // C++ of 1998 has neither `long long` nor a comma behind the last name of an enum, which all its compilers take.
        let pedantic = if language == "c" { "-pedantic" } else { "-Wno-pedantic" };
        command.arg(format!("-std={standard}")).arg(pedantic).arg(&header);
        match command.output() {
            Ok(output) => assert!(output.status.success(), "{compiler}: {output:?}"),
            Err(_) => assert!(compiler == "c++" && std::env::var_os("CI").is_none(), "{compiler}"),
        }
    }
}

#[test]
fn only_the_interface_is_shown() {
    let scratch = Scratch::new("shown");
    let library = scratch.0.join("libportals.so.4");
    let shown = Command::new("nm").args(["-D", "--defined-only"]).arg(library).output().unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap();
    let mut shown: Vec<&str> = shown.lines().filter_map(|line| line.split(' ').nth(2)).collect();
    shown.sort_unstable();
    let header = std::fs::read_to_string(root().join("include/portals4.h")).unwrap();
    let declared = header.lines().filter_map(|line| {
        let name = line.strip_prefix("int ").or_else(|| line.strip_prefix("void "))?;
        name.split('(').next().filter(|name| name.starts_with("Ptl"))
    });
    let mut declared: Vec<&str> = declared.collect();
    declared.sort_unstable();
    assert_eq!(declared.len(), 55);
    assert_eq!(shown, declared);
}
