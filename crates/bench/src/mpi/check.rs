//! `packhorse check`: does it work here, and which way do the messages go?
//!
//! Two ranks exchange messages under the MPI's own launcher. What they say is not enough, since an MPI that cannot use
//! Packhorse might use something else: the counters that each rank's endpoint leaves behind must account for the bytes.
//! With `--hosts`, every pair of hosts has its turn, each host with itself included.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;

use super::{Family, Launcher, Locally, Settings, find_provider, run};
use crate::hosts;

const EXAMPLES: &str = "\
Examples:
  packhorse check                                  with the mpirun of PATH, two ranks here
  packhorse check --launcher ~/venv/bin/mpirun     with another one
  packhorse check --hosts node1,node2              between and on these hosts
  packhorse check -- mpirun -n 4 ./program         a program of yours, on this host";

/// The host that is tried if none is named.
const HERE: &str = "localhost";

const SOURCE: &str = include_str!("check.c");
/// Bytes of long messages that each rank of the self-test receives: `LONG` times `LONG_ROUNDS`.
const RECEIVED_LEN_MIN: u64 = 50 << 20;

const NOT_USED: &str = "no rank used Packhorse: the MPI chose something else, or the launcher is not the one of the \
                        program's MPI. FI_LOG_LEVEL=info FI_LOG_SUBSYS=^none makes libfabric say what it does";

/// Try out MPI over Packhorse: a two-rank self-test that says which link each pair used.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct CheckArgs {
    /// Folder of the provider, or the provider itself; without it, where it was installed or built.
    #[arg(long, value_name = "PATH")]
    provider: Option<PathBuf>,
    /// The launcher of the MPI to try.
    #[arg(long, value_name = "PROGRAM", default_value = "mpirun")]
    launcher: PathBuf,
    /// Hosts to try, with commas between; without them, this one. The home folder must be the same on all.
    #[arg(long, value_name = "HOST,…", value_delimiter = ',')]
    hosts: Vec<String>,
    /// A command of yours instead of the self-test; its ranks are to be on this host.
    #[arg(value_name = "COMMAND", last = true)]
    command: Vec<String>,
}

/// Tries every pair; the first that fails ends it.
pub fn run(args: &CheckArgs) -> Result<()> {
    let program = args.command.first().map_or(args.launcher.as_path(), Path::new);
    let launcher = Launcher::named(program)?;
    let provider = find_provider(args.provider.as_deref())?;
    let name = launcher.family.map_or("launcher", Family::name);
    println!("{name}: {}", launcher.program.display());
    println!("provider: {}", provider.object.display());
    let settings = Settings::new(launcher.family, provider.folder(), Locally::Packhorse);
    let stage = Stage { launcher, settings, folder: Folder::new()? };
    if !args.command.is_empty() {
        return stage.check_command(&args.command[1..]);
    }
    let test = stage.folder.0.join("check");
    compile(&stage.launcher, SOURCE, &test)?;
    for (a, b) in pairs(&args.hosts) {
        let seen = stage.try_pair(&test, (&a, &b));
        println!("{}", seen.with_context(|| format!("between {a} and {b}"))?);
    }
    Ok(())
}

/// Each with itself and with every other; this host with itself if there is none.
fn pairs(hosts: &[String]) -> Vec<(String, String)> {
    if hosts.is_empty() {
        return vec![(HERE.into(), HERE.into())];
    }
    let mut pairs = Vec::new();
    for (index, a) in hosts.iter().enumerate() {
        pairs.extend(hosts[index..].iter().map(|b| (a.clone(), b.clone())));
    }
    pairs
}

/// Words that place one rank on each of two hosts, or both on one. What a launcher of no known MPI wants to hear is not known either,
/// but for the number of ranks.
fn placing(family: Option<Family>, (a, b): (&str, &str)) -> Result<Vec<String>> {
    let Some(family) = family else {
        ensure!(
            (a, b) == (HERE, HERE),
            "which MPI the launcher belongs to is not known, and so not how it is told to use these hosts; without --hosts \
             it decides by itself"
        );
        return Ok(vec!["-n".into(), "2".into()]);
    };
    let is_open_mpi = family.is_open_mpi();
    let list = match (is_open_mpi, a == b) {
        (true, true) => format!("{a}:2"),
        (true, false) => format!("{a}:1,{b}:1"),
        (false, true) => a.to_owned(),
        (false, false) => format!("{a},{b}"),
    };
    let option = if is_open_mpi { "--host" } else { "-hosts" };
    let mut words = vec!["-n".into(), "2".into(), option.into(), list];
    if !is_open_mpi {
        words.extend(["-ppn".into(), if a == b { "2" } else { "1" }.into()]);
    }
    Ok(words)
}

/// For the self-test and its counters, gone afterwards. In the home folder: other hosts are to see it, too.
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn new() -> Result<Self> {
        let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
        let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
        let base = cache.or(home).unwrap_or_else(std::env::temp_dir).join("packhorse");
        let folder = base.join(format!("check-{}", std::process::id()));
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        Ok(Self(folder))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// All that a run of two ranks needs.
struct Stage {
    launcher: Launcher,
    settings: Settings,
    folder: Folder,
}

impl Stage {
    /// The launcher, with a place for the counters.
    fn counted(&self) -> Command {
        let counters = self.folder.0.join("counters");
        let mut command = run::command(&self.launcher, &self.settings);
        command.env("PACKHORSE_COUNTERS", &counters).stdin(Stdio::null());
        match self.launcher.family {
            Some(family) if family.is_open_mpi() => command.args(["-x", "PACKHORSE_COUNTERS"]),
            Some(_) => command.arg("-genv").arg("PACKHORSE_COUNTERS").arg(&counters),
            None => &mut command,
        };
        if hosts::is_root() {
            // Open MPI asks twice; who calls this as root has been asked enough.
            command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        }
        command
    }

    /// What two ranks said of themselves and counted.
    fn try_pair(&self, test: &Path, pair: (&str, &str)) -> Result<String> {
        let mut command = self.counted();
        command.args(placing(self.launcher.family, pair)?).arg(test);
        let output = command.output().context("cannot start the launcher")?;
        let said = String::from_utf8_lossy(&output.stdout);
        if !output.status.success() {
            let complaint = String::from_utf8_lossy(&output.stderr);
            bail!("the self-test failed ({}):\n{}{said}", output.status, complaint.trim_start());
        }
        report(&said)
    }

    /// A command of the user's: its output is its own, the links are told afterwards.
    fn check_command(&self, words: &[String]) -> Result<()> {
        let status = self.counted().args(words).status().context("cannot start the launcher")?;
        ensure!(status.success(), "the command failed: {status}");
        let texts = left_in(&self.folder.0)?;
        ensure!(!texts.is_empty(), "{NOT_USED}");
        for (index, text) in texts.iter().enumerate() {
            println!("rank {} of {}: {}", index + 1, texts.len(), shown(&links_of(text)));
        }
        Ok(())
    }
}

/// Makes a program of ours with the compiler that belongs to the launcher.
pub(super) fn compile(launcher: &Launcher, text: &str, program: &Path) -> Result<()> {
    let compiler = launcher.compiler().with_context(|| without_compiler(launcher))?;
    let source = program.with_extension("c");
    fs::write(&source, text).with_context(|| format!("cannot write {}", source.display()))?;
    let mut command = Command::new(&compiler);
    command.args(["-O2", "-o"]).args([program, &source]).arg("-lm").stdin(Stdio::null());
    let output = command.output().with_context(|| without_compiler(launcher))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        bail!("{} failed: {}\n{}", compiler.display(), said.trim(), without_compiler(launcher));
    }
    Ok(())
}

/// Takes the counters that endpoints on this host left in a folder.
pub(super) fn left_in(folder: &Path) -> Result<Vec<String>> {
    let mut texts = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.file_stem().is_some_and(|stem| stem == "counters") {
            texts.push(fs::read_to_string(&path)?);
            fs::remove_file(&path)?;
        }
    }
    Ok(texts)
}

/// What to do where nothing can be compiled. Intel's MPI comes without a compiler, but with programs to measure it.
fn without_compiler(launcher: &Launcher) -> String {
    const INTELS: &str = "IMB-MPI1";
    let program = launcher.program.display();
    let test = if launcher.has_beside(INTELS) { "IMB-MPI1 PingPong" } else { "./program" };
    format!(
        "the self-test needs the compiler of this MPI, mpicc beside {program} (with Debian's: apt-get install \
         libopenmpi-dev), and cc. Without them, let another program be the test: packhorse check -- {program} -n 2 {test}"
    )
}

/// A kind of link, and the bytes that came in over it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LinkUse {
    pub(super) kind: String,
    pub(super) in_len: u64,
}

/// The links that were used, most used first.
pub(super) fn links_of(counters: &str) -> Vec<LinkUse> {
    let values: serde_json::Map<String, serde_json::Value> =
        serde_json::from_str(counters).unwrap_or_default();
    let mut links: Vec<LinkUse> = Vec::new();
    for (name, value) in &values {
        let Some(link) = name.strip_suffix("_bytes_in") else { continue };
        let kind = link.trim_end_matches(|c: char| c.is_ascii_digit() || c == '_');
        let in_len = value.as_u64().unwrap_or(0);
        match links.iter_mut().find(|there| there.kind == kind) {
            Some(there) => there.in_len += in_len,
            None => links.push(LinkUse { kind: kind.to_owned(), in_len }),
        }
    }
    links.retain(|link| link.in_len > 0);
    links.sort_by_key(|link| std::cmp::Reverse(link.in_len));
    links
}

/// The link that carried the bytes; others only where they carried more than introductions.
pub(super) fn shown(links: &[LinkUse]) -> String {
    const WORTH_NAMING: f64 = 0.01;
    let sum: u64 = links.iter().map(|link| link.in_len).sum();
    let share = |link: &LinkUse| link.in_len as f64 / sum.max(1) as f64;
    let named = links.iter().filter(|link| share(link) >= WORTH_NAMING);
    let words: Vec<String> =
        named.map(|link| format!("{} ({:.0} %)", link.kind, 100.0 * share(link))).collect();
    if words.is_empty() { "nothing received".into() } else { words.join(", ") }
}

/// What one rank of the self-test said.
#[derive(Default)]
struct Said {
    host: String,
    /// Half round trips of short and of long messages.
    half_us: [f64; 2],
    links: Option<Vec<LinkUse>>,
}

/// Reads the lines of both ranks, among whatever else was printed.
fn read(said: &str) -> Option<[Said; 2]> {
    let mut ranks = [Said::default(), Said::default()];
    for line in said.lines() {
        let words: Vec<&str> = line.splitn(3, ' ').collect();
        let [kind, rank @ ("0" | "1"), rest] = words[..] else { continue };
        let rank = &mut ranks[usize::from(rank == "1")];
        match kind {
            "rank" => {
                let mut words = rest.split_whitespace();
                rank.host = words.next()?.to_owned();
                rank.half_us = [words.next()?.parse().ok()?, words.next()?.parse().ok()?];
            }
            "counters" => rank.links = Some(links_of(rest)),
            _ => {}
        }
    }
    ranks.iter().all(|rank| !rank.host.is_empty()).then_some(ranks)
}

/// One line on a pair, or why it is no good.
fn report(said: &str) -> Result<String> {
    let ranks = read(said).with_context(|| format!("not both ranks came to their end:\n{said}"))?;
    for (number, rank) in ranks.iter().enumerate() {
        let Some(links) = &rank.links else { bail!("{NOT_USED}") };
        let in_len: u64 = links.iter().map(|link| link.in_len).sum();
        ensure!(
            in_len >= RECEIVED_LEN_MIN,
            "rank {number} received {RECEIVED_LEN_MIN} bytes and more, but only {in_len} of them over Packhorse"
        );
    }
    let [first, second] = ranks;
    let [short_us, long_us] = first.half_us;
    let gigabytes = f64::from(1 << 20) / long_us / 1e3;
    Ok(format!(
        "rank 0 on {}, rank 1 on {}: {}; 8 bytes take {short_us:.2} µs, 1 MB goes at {gigabytes:.2} GB/s",
        first.host,
        second.host,
        shown(&first.links.unwrap_or_default()),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pair_of_hosts_has_its_turn() {
        assert_eq!(pairs(&[]), [("localhost".into(), "localhost".into())]);
        let hosts = ["a", "b", "c"].map(str::to_owned);
        let all: Vec<String> = pairs(&hosts).iter().map(|(a, b)| format!("{a}{b}")).collect();
        assert_eq!(all, ["aa", "ab", "ac", "bb", "bc", "cc"]);
    }

    #[test]
    fn ranks_are_placed_in_the_launchers_words() {
        let words = |family, pair| placing(Some(family), pair).unwrap().join(" ");
        assert_eq!(words(Family::OpenMpi4, ("a", "b")), "-n 2 --host a:1,b:1");
        assert_eq!(words(Family::OpenMpi, ("a", "a")), "-n 2 --host a:2");
        assert_eq!(words(Family::Mpich, ("a", "b")), "-n 2 -hosts a,b -ppn 1");
        assert_eq!(words(Family::Intel, ("a", "a")), "-n 2 -hosts a -ppn 2");
        assert_eq!(placing(None, (HERE, HERE)).unwrap(), ["-n", "2"]);
        assert!(placing(None, ("a", "b")).unwrap_err().to_string().contains("--hosts"));
    }

    #[test]
    fn the_link_that_carried_the_bytes_is_named() {
        let said = |len: u64| {
            format!(
                "rank 0 one 1.5 100.0\nrank 1 two 1.5 100.0\n\
                 counters 0 {{\"udp0_bytes_in\":5000,\"shm1_bytes_in\":{len},\"x\":1}}\n\
                 counters 1 {{\"udp0_bytes_in\":5000,\"shm1_bytes_in\":{len}}}\n"
            )
        };
        let line = report(&said(RECEIVED_LEN_MIN)).unwrap();
        let expected = "rank 0 on one, rank 1 on two: shm (100 %); 8 bytes take 1.50 µs, 1 MB goes at 10.49 GB/s";
        assert_eq!(line, expected);
        let short = report(&said(1000)).unwrap_err().to_string();
        assert!(short.contains("only 6000 of them over Packhorse"), "{short}");
    }

    #[test]
    fn an_mpi_that_went_elsewhere_is_found_out() {
        let text = report("rank 0 one 1 1\nrank 1 two 1 1\n").unwrap_err().to_string();
        assert!(text.contains("no rank used Packhorse"), "{text}");
        assert!(report("nothing at all").unwrap_err().to_string().contains("not both ranks"));
    }
}
