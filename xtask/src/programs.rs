//! The test programs: built once, found in what cargo says of the build, and started as cargo would start them.
//!
//! Four lists stand here and nowhere else: the tests behind `#[ignore]`, which need something of the machine
//! ([`GUARDED`]), the programs whose tests wait or measure ([`WAITING`]), which a loaded machine upsets first, those that take long ([`LONG`]), and
//! of these the ones that only compute ([`COMPUTING`]).

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, bail};

use crate::beside::{say, status};
use crate::steps::{cargo, shown};
use crate::tools::{NAMESPACES, OPEN_MPI, TSHARK, Tool};

/// Tests that are ignored unless something is here.
pub(crate) struct Guarded {
    /// For people.
    pub(crate) title: &'static str,
    package: &'static str,
    /// The test program of that package.
    target: &'static str,
    pub(crate) needs: &'static Tool,
    /// These tests measure: side by side they would measure each other.
    is_one_by_one: bool,
    /// They take a minute, or packages that take one to install: for `--complete`.
    pub(crate) is_long: bool,
}

/// All there are.
pub(crate) const GUARDED: [Guarded; 8] = [
    Guarded {
        title: "UDP between two network namespaces",
        package: "packhorse-link",
        target: "netns",
        needs: &NAMESPACES,
        is_one_by_one: false,
        is_long: false,
    },
    Guarded {
        title: "raw Ethernet between two namespaces",
        package: "packhorse-link",
        target: "packet",
        needs: &NAMESPACES,
        is_one_by_one: false,
        is_long: false,
    },
    Guarded {
        title: "XDP between two namespaces",
        package: "packhorse-link",
        target: "xdp",
        needs: &NAMESPACES,
        is_one_by_one: false,
        is_long: false,
    },
    Guarded {
        title: "rails between two network namespaces",
        package: "packhorse",
        target: "rails",
        needs: &NAMESPACES,
        is_one_by_one: true,
        is_long: true,
    },
    Guarded {
        title: "kill -9 over raw Ethernet",
        package: "packhorse",
        target: "deaths",
        needs: &NAMESPACES,
        is_one_by_one: false,
        is_long: false,
    },
    Guarded {
        title: "Open MPI in the patterns of offload",
        package: "packhorse-cli",
        target: "offload",
        needs: &OPEN_MPI,
        is_one_by_one: false,
        is_long: true,
    },
    Guarded {
        title: "inner loops of programs under Open MPI",
        package: "packhorse-cli",
        target: "applications",
        needs: &OPEN_MPI,
        is_one_by_one: true,
        is_long: false,
    },
    Guarded {
        title: "captures are read by tshark",
        package: "packhorse-link",
        target: "dissector",
        needs: &TSHARK,
        is_one_by_one: false,
        is_long: true,
    },
];

/// Programs with threads, sockets, processes or clocks in their tests. A test that waits for anything belongs into one of these.
const WAITING: [&str; 12] = [
    "packhorse/",
    "packhorse-engine/",
    "packhorse-link/",
    "packhorse-sim/",
    "packhorse-bench/",
    "packhorse-cli/",
    "packhorse-fi/",
    "packhorse-fm/",
    "packhorse-mx/",
    "packhorse-pmi/",
    "packhorse-portals4/",
    "packhorse-layers/",
];

/// Programs whose tests compute, or wait, for a quarter of a minute and more, and that no room but their own depends on: for `--complete`.
const LONG: [&str; 2] = ["packhorse-lab/", "packhorse-mx/random"];
/// Of these, those whose tests compute on one core, whatever else the machine does.
const COMPUTING: [&str; 1] = ["packhorse-lab/"];

/// A test program, with the tests of it that are meant.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    /// `package/target`, and what is meant of it.
    pub(crate) name: String,
    executable: PathBuf,
    /// The folder of its package, where cargo starts it.
    folder: PathBuf,
    /// For the test harness.
    words: Vec<String>,
}

impl Program {
    /// Whether its tests wait or measure.
    pub(crate) fn is_waiting(&self) -> bool {
        WAITING.iter().any(|prefix| self.name.starts_with(prefix))
    }

    /// Whether it is left to `--complete`.
    pub(crate) fn is_long(&self) -> bool {
        LONG.iter().any(|prefix| self.name.starts_with(prefix))
    }

    /// Whether it may run beside whatever else keeps the machine busy.
    pub(crate) fn is_computing(&self) -> bool {
        COMPUTING.iter().any(|prefix| self.name.starts_with(prefix))
    }

    /// The command that runs what is meant of it.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.executable);
        command.args(&self.words).current_dir(&self.folder).stdin(Stdio::null());
        command.env("CARGO_MANIFEST_DIR", &self.folder);
        command
    }

    /// Runs what is meant of it to its end; what it prints goes where ours goes.
    pub(crate) fn run(&self) -> Result<()> {
        let mut command = self.command();
        // Many tests wait for others: with a test a core both cores would often have nothing to do.
        let is_told = self.words.iter().any(|word| word.starts_with("--test-threads"));
        if !is_told {
            let count = std::thread::available_parallelism().map_or(2, |cores| 2 * cores.get());
            command.arg(format!("--test-threads={count}"));
        }
        command.arg("--quiet");
        say(&format!("      {}", self.name));
        let began = Instant::now();
        let status = status(&mut bounded(&command, &format!("{MINUTES_MAX}m")))
            .with_context(|| format!("{} does not start", self.name))?;
        say(&format!("      {} took {:.1} s", self.name, began.elapsed().as_secs_f64()));
        if status.code() == Some(OVER_TIME) {
            bail!("{} was ended after {MINUTES_MAX} minutes: one of its tests hangs", self.name);
        }
        if !status.success() {
            bail!("{} ended with {status}", self.name);
        }
        Ok(())
    }

    /// The names of the tests that are meant.
    fn tests(&self) -> Result<Vec<String>> {
        let mut list = self.command();
        let output = list.args(["--list", "--format", "terse"]).output()?;
        if !output.status.success() {
            bail!("`{}` ended with {}", shown(&list), output.status);
        }
        let text = String::from_utf8_lossy(&output.stdout);
        Ok(text.lines().filter_map(|line| line.strip_suffix(": test")).map(Into::into).collect())
    }

    /// The same program with those of its tests that have this word in their names, or all if its own name has it; none if no
    /// name has.
    pub(crate) fn only(mut self, word: &str) -> Result<Option<Self>> {
        if self.name.contains(word) {
            return Ok(Some(self));
        }
        let names: Vec<String> =
            self.tests()?.into_iter().filter(|name| name.contains(word)).collect();
        if names.is_empty() {
            return Ok(None);
        }
        let is_option = |it: &&String| it.starts_with("--");
        self.words = self.words.iter().filter(is_option).cloned().collect();
        self.words.push("--exact".into());
        self.words.extend(names);
        Ok(Some(self))
    }
}

/// A test program that runs for so many minutes hangs: the slowest takes one and a half. Without an end to it CI would be cut off, and nobody told why.
const MINUTES_MAX: u32 = 6;
/// How `timeout` ends when it has ended its program.
const OVER_TIME: i32 = 124;

/// The same program, ended after so long (a number of seconds, or one with `m` behind it of minutes).
fn bounded(command: &Command, longest: &str) -> Command {
    let mut bounded = Command::new("timeout");
    bounded.args(["--foreground", "--kill-after=5", longest]);
    bounded.arg(command.get_program()).args(command.get_args()).stdin(Stdio::null());
    bounded.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    if let Some(folder) = command.get_current_dir() {
        bounded.current_dir(folder);
    }
    bounded
}

/// What one build made: the test programs, and what users have, in the same form, since some tests start it.
#[derive(Debug)]
pub(crate) struct Built {
    pub(crate) programs: Vec<Program>,
    /// The program `packhorse`.
    pub(crate) packhorse: PathBuf,
    /// The libfabric provider.
    pub(crate) provider: PathBuf,
}

impl Built {
    /// Builds everything that has tests, and finds it.
    pub(crate) fn by_cargo() -> Result<Self> {
        let mut build = cargo(
            "test --no-run --workspace --lib --bins --tests --message-format json-render-diagnostics",
        );
        println!("      $ {}", shown(&build));
        let output = build.stderr(Stdio::inherit()).output().context("cargo does not start")?;
        if !output.status.success() {
            bail!("the test programs could not be built");
        }
        let text = String::from_utf8(output.stdout).context("cargo printed what is not text")?;
        let programs = text.lines().filter_map(program_of).collect();
        let product = |name: &str| {
            text.lines().find_map(|message| product_of(message, name)).context(format!("no {name}"))
        };
        Ok(Self {
            programs,
            packhorse: product("packhorse")?,
            provider: product("libpackhorse_fi.so")?,
        })
    }

    /// The program of tests that are ignored unless something is here, with just those.
    pub(crate) fn guarded(&self, guarded: &Guarded) -> Result<Program> {
        let name = format!("{}/{}", guarded.package, guarded.target);
        let found = self.programs.iter().find(|program| program.name == name);
        let program = found.with_context(|| format!("no test program {name}"))?;
        let name = format!("{name} ({})", guarded.title);
        Ok(Program { name, words: guarded.words(), ..program.clone() })
    }
}

/// Where a build left a file of this name, if one of cargo's messages tells of it.
fn product_of(message: &str, name: &str) -> Option<PathBuf> {
    if !message.contains(ARTIFACT) || message.contains(OF_TESTS) {
        return None;
    }
    let (before, _) = message.split_once(&format!("/{name}\""))?;
    Some(PathBuf::from(before.rsplit('"').next()?).join(name))
}

impl Guarded {
    /// For the test harness.
    fn words(&self) -> Vec<String> {
        let mut words = vec!["--ignored".to_owned()];
        if self.is_one_by_one {
            words.push("--test-threads=1".into());
        }
        words
    }
}

/// In the messages of cargo, each a line of JSON without spaces, about what was made, and made for tests. They are searched rather than
/// parsed: paths with quotes or backslashes are not found, which is said, and no parser need be built before the first test.
const ARTIFACT: &str = r#""reason":"compiler-artifact""#;
const OF_TESTS: &str = r#""test":true},"features""#;

/// The text of a field.
fn field<'a>(message: &'a str, name: &str) -> Option<&'a str> {
    let (_, behind) = message.split_once(&format!("\"{name}\":"))?;
    behind.trim_start_matches('[').strip_prefix('"')?.split('"').next()
}

/// The test program that one of cargo's messages tells of.
fn program_of(message: &str) -> Option<Program> {
    if !message.contains(ARTIFACT) || !message.contains(OF_TESTS) {
        return None;
    }
    let executable = PathBuf::from(field(message, "executable")?);
    let folder = PathBuf::from(field(message, "manifest_path")?).parent()?.to_owned();
    // `path+file:///…/crates/link#packhorse-link@0.1.0`, or without the name where the folder has it.
    let (place, version) = field(message, "package_id")?.split_once('#')?;
    let package = match version.split_once('@') {
        Some((name, _)) => name,
        None => place.rsplit('/').next()?,
    };
    let (_, target) = message.split_once("\"target\":{")?;
    let name = match (field(target, "kind")?, field(target, "name")?) {
        ("test", name) => format!("{package}/{name}"),
        (kind, name) => format!("{package}/{kind} {name}"),
    };
    Some(Program { name, executable, folder, words: Vec::new() })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As cargo prints it.
    fn message(id: &str, kind: &str, is_test: bool) -> String {
        let target = format!(
            r#""target":{{"kind":["{kind}"],"crate_types":["bin"],"name":"packet","src_path":"/w/m.rs","edition":"2024","doc":false,"doctest":false,"test":true}}"#
        );
        let profile = format!(
            r#""profile":{{"opt_level":"1","debuginfo":1,"debug_assertions":true,"overflow_checks":true,"test":{is_test}}},"features":[]"#
        );
        let files = r#""filenames":["/t/packet-1","/t/libpacket.so"],"executable":"/t/packet-1","fresh":true"#;
        let place = r#""manifest_path":"/w/crates/link/Cargo.toml""#;
        format!(
            r#"{{"reason":"compiler-artifact","package_id":"{id}",{place},{target},{profile},{files}}}"#
        )
    }

    #[test]
    fn a_program_that_hangs_is_ended() {
        let run = |script: &str, longest: &str| {
            let mut shell = Command::new("sh");
            shell.args(["-c", script]).current_dir("/").env("SAID", "so");
            bounded(&shell, longest).status().unwrap().code()
        };
        assert_eq!(run("exec sleep 600", "0.1"), Some(OVER_TIME));
        assert_eq!(
            run(r#"test "$SAID$PWD" = so/ && exit 7"#, "1m"),
            Some(7),
            "as it would by itself"
        );
    }

    #[test]
    fn test_programs_are_found_in_what_cargo_says() {
        let id = "path+file:///w/crates/link#packhorse-link@0.1.0";
        let found = program_of(&message(id, "test", true)).unwrap();
        assert_eq!((&*found.name, found.is_waiting()), ("packhorse-link/packet", true));
        assert_eq!(found.folder, PathBuf::from("/w/crates/link"));
        assert_eq!(found.executable, PathBuf::from("/t/packet-1"));
        let found = program_of(&message("path+file:///w/xtask#0.1.0", "bin", true)).unwrap();
        assert_eq!((&*found.name, found.is_waiting()), ("xtask/bin packet", false));
        assert!(program_of(&message(id, "test", false)).is_none(), "a program, but not of tests");
        assert!(program_of("{}").is_none());
    }

    #[test]
    fn what_users_have_is_found_beside_them() {
        let id = "path+file:///w/crates/link#packhorse-link@0.1.0";
        let library = product_of(&message(id, "lib", false), "libpacket.so");
        assert_eq!(library, Some("/t/libpacket.so".into()));
        assert_eq!(product_of(&message(id, "lib", true), "libpacket.so"), None);
        assert_eq!(product_of(&message(id, "lib", false), "packet.so"), None);
    }
}
