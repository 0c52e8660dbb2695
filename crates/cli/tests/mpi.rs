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
        let script = format!(
            "#!/bin/sh\nif [ \"$1\" = --version ]; then cat <<'END'\n{version}\nEND\nexit 0; fi\n\
             env | grep -E '^(FI_|OMPI_MCA|MPIR_|I_MPI_)' | sort\necho \"args: $*\"\nexit 7\n"
        );
        let launcher = folder.join("mpirun");
        fs::write(&launcher, script).unwrap();
        fs::set_permissions(&launcher, fs::Permissions::from_mode(0o755)).unwrap();
        // Any object of this machine passes for a provider until it is loaded; this test is one.
        fs::copy(std::env::current_exe().unwrap(), folder.join("libpackhorse-fi.so")).unwrap();
        Self { folder }
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
    let stage = Stage::new("env", "");
    let exports = text(&stage.packhorse("env", &[]).stdout);
    let shell = Command::new("sh").arg("-c").arg(format!("{exports}\nenv")).output().unwrap();
    let there = text(&shell.stdout);
    let path = format!("FI_PROVIDER_PATH={}", shown(&stage.folder));
    for line in
        [path.as_str(), "FI_PROVIDER=packhorse", "MPIR_CVAR_CH4_NETMOD=ofi", "I_MPI_FABRICS=ofi"]
    {
        assert!(there.lines().any(|it| it == line), "{line}: {there}");
    }
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
    fs::write(&launcher, script).unwrap();
    let output = stage.packhorse("check", &["--", &stage.launcher(), "-n", "2", "./it"]);
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("no rank used Packhorse"), "{error}");
}

fn shown(folder: &Path) -> String {
    folder.canonicalize().unwrap().to_str().unwrap().to_owned()
}
