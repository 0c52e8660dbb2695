//! A C program over the library as it is installed: alone, started by `mpirun`, which speaks PMIx, and by a launcher that speaks PMI-1 itself, both
//! ways in which such launchers are found (`PMI_PORT`, as Hydra has it over hosts, and `PMI_FD`, as on one host and under Slurm's `pmi1`).

mod launcher;

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The program, in a directory with the library; gone when the test is over.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("packhorse-pmi-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        let beside = std::env::current_exe().unwrap();
        let built = beside.ancestors().nth(1).unwrap().join("libpackhorse_pmi.so");
        for name in ["libpmi.so", "libpmi.so.0"] {
            std::fs::copy(&built, path.join(name)).unwrap();
        }
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut cc = Command::new("cc");
        cc.args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-o"]).arg(path.join("all"));
        cc.arg(root.join("tests/all.c")).arg("-I").arg(root.join("include"));
        cc.arg("-L").arg(&path).arg("-lpmi");
        // A library that was built for a sanitizer finds it in the program; xtask/src/sanitize.rs says where it is.
        if let Ok(runtime) = std::env::var("SANITIZER_RUNTIME") {
            cc.args(["-Wl,--whole-archive", &runtime, "-Wl,--no-whole-archive"]);
            cc.args(["-Wl,--export-dynamic", "-lpthread", "-ldl", "-lrt", "-lm", "-lgcc_s"]);
        }
        assert!(cc.status().expect("cc is needed").success());
        Self(path)
    }

    fn command(&self, launcher: &[&str]) -> Command {
        let mut command = Command::new("timeout");
        command.arg("120").args(launcher).arg(self.0.join("all"));
        command.env("LD_LIBRARY_PATH", &self.0);
        command
    }

    fn run(&self, launcher: &[&str], env: &[(&str, &str)]) -> Output {
        self.command(launcher).envs(env.iter().copied()).output().unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn alone_is_a_job_of_one() {
    let output = Scratch::new("alone").run(&[], &[]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(output.stdout, b"rank 0 of 1\n");
}

#[test]
fn nonsense_in_the_environment_is_told() {
    let scratch = Scratch::new("nonsense");
    for (name, value, said) in [
        ("PMI_FD", "many", "PMI_FD=many: must be a number"),
        ("PMI_FD", "-1", "must be a descriptor"),
        ("PMI_FD", "9999", "PMI_FD=9999"),
        ("PMI_PORT", "127.0.0.1:1", "the launcher is not there"),
        ("PMI_PORT", "nowhere", "PMI_PORT=nowhere"),
    ] {
        let output = scratch.run(&[], &[(name, value)]);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && error.contains(said), "{name}={value}: {error}");
    }
}

#[test]
fn launchers_that_speak_pmi_1_are_found_by_port_and_by_descriptor() {
    let scratch = Scratch::new("wire");
    for by_descriptor in [false, true] {
        let server = launcher::Server::start(3).unwrap();
        let start = |rank: u32| {
            let mut command = scratch.command(&[]);
            if by_descriptor {
                let place = [("PMI_FD", 0), ("PMI_RANK", rank), ("PMI_SIZE", 3)];
                command.envs(place.map(|(name, value)| (name, value.to_string())));
                command.stdin(OwnedFd::from(server.connection().unwrap()));
            } else {
                command.env("PMI_PORT", server.at()).env("PMI_ID", rank.to_string());
            }
            command.stdout(Stdio::piped()).spawn().unwrap()
        };
        let children: Vec<_> = (0..3).map(start).collect();
        for (rank, child) in children.into_iter().enumerate() {
            let output = child.wait_with_output().unwrap();
            assert!(output.status.success(), "{by_descriptor} {rank}: {}", output.status);
            assert_eq!(String::from_utf8_lossy(&output.stdout), format!("rank {rank} of 3\n"));
        }
    }
}

#[test]
fn four_started_by_mpirun_read_what_the_others_put() {
    let has_mpirun = Command::new("mpirun").arg("--version").output().is_ok();
    assert!(has_mpirun || std::env::var_os("CI").is_none(), "mpirun is missing");
    if !has_mpirun {
        eprintln!("skipped: mpirun is missing");
        return;
    }
    let scratch = Scratch::new("mpirun");
    let output =
        scratch.run(&["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "4"], &[]);
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    for rank in 0..4 {
        assert!(said.contains(&format!("rank {rank} of 4")), "{said}");
    }
}
