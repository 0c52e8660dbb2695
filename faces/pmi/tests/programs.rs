//! A C program over the library as it is installed: alone, and started by `mpirun`, which speaks PMIx. A launcher that speaks PMI-1 itself is in
//! `cargo xtask portals`.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

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

    fn run(&self, launcher: &[&str], env: &[(&str, &str)]) -> Output {
        let mut command = Command::new("timeout");
        command.arg("120").args(launcher).arg(self.0.join("all"));
        command.env("LD_LIBRARY_PATH", &self.0).envs(env.iter().copied());
        command.output().unwrap()
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
