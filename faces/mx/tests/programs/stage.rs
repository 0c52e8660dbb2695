//! What the tests are made from: a folder with the library and programs, children that end with the test, two hosts.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The indices of a board are shared by all processes of a host: one test at a time has them.
static BOARD: Mutex<()> = Mutex::new(());

/// A directory with the library under its names; gone when the test is over.
pub(crate) struct Scratch {
    pub(crate) path: PathBuf,
    _board: MutexGuard<'static, ()>,
}

impl Scratch {
    pub(crate) fn new(name: &str) -> Self {
        let board = BOARD.lock().unwrap_or_else(PoisonError::into_inner);
        let path = std::env::temp_dir().join(format!("packhorse-mx-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("link.sh");
        let linked = Command::new("sh").arg(script).arg(archive()).arg(&path).status().unwrap();
        assert!(linked.success());
        Self { path, _board: board }
    }

    /// Compiles a program that is linked with the library, or (`by_name`) finds it when it runs.
    pub(crate) fn compile(&self, name: &str, by_name: bool) -> PathBuf {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let program = self.path.join(format!("{name}-{by_name}"));
        let mut cc = Command::new("cc");
        cc.args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-g", "-O1", "-o"]).arg(&program);
        cc.arg(root.join(format!("tests/c/{name}.c"))).arg("-I").arg(root.join("include"));
        if by_name {
            cc.args(["-DBY_NAME", "-ldl"]);
        } else {
            cc.arg("-L").arg(&self.path).arg("-lmyriexpress");
        }
        assert!(cc.arg("-lpthread").status().expect("cc is needed").success());
        program
    }

    /// A program that is ready to be started, in a namespace if one is named.
    pub(crate) fn command(&self, program: &Path, host: Option<&str>) -> Command {
        let mut command = Command::new("timeout");
        command.arg("120");
        if let Some(host) = host {
            // A host has a name of its own, too.
            let named = "echo \"$0\" > /proc/sys/kernel/hostname; exec \"$@\"";
            command
                .args(["ip", "netns", "exec", host, "unshare", "--uts", "sh", "-c", named, host]);
        }
        command.arg(program).env("LD_LIBRARY_PATH", &self.path);
        if host.is_none() {
            command.env("PACKHORSE_MX_BOARDS", "lo");
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path.join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    pub(crate) fn secret(&self, name: &str, digit: &str) -> PathBuf {
        let path = self.write(name, &digit.repeat(32));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// The archive that cargo made of the library, the newest there is: its name has a hash in it, and it lies beside the tests.
fn archive() -> PathBuf {
    let beside = std::env::current_exe().unwrap().parent().unwrap().to_path_buf();
    let mut found: Vec<_> = [beside.clone(), beside.parent().unwrap().to_path_buf()]
        .iter()
        .flat_map(|folder| std::fs::read_dir(folder).unwrap().flatten())
        .filter(|entry| {
            let name = entry.file_name().into_string().unwrap_or_default();
            name.starts_with("libpackhorse_mx") && name.ends_with(".a")
        })
        .map(|entry| (entry.metadata().unwrap().modified().unwrap(), entry.path()))
        .collect();
    found.sort();
    found.pop().expect("cargo builds the archive with the tests").1
}

/// A child that is killed if the test fails.
pub(crate) struct Running(pub(crate) Child);

impl Running {
    pub(crate) fn start(mut command: Command) -> Self {
        Self(command.spawn().unwrap())
    }

    pub(crate) fn read_line(&mut self) -> String {
        let mut line = String::new();
        let out = self.0.stdout.as_mut().unwrap();
        BufReader::with_capacity(1, out).read_line(&mut line).unwrap();
        line
    }

    pub(crate) fn expect_success(mut self) {
        let status = self.0.wait().unwrap();
        assert!(status.success(), "{status}");
    }

    /// Kills the program itself, below `timeout`.
    pub(crate) fn kill(&mut self) {
        let children = format!("/proc/{0}/task/{0}/children", self.0.id());
        for child in std::fs::read_to_string(children).unwrap_or_default().split_whitespace() {
            assert!(Command::new("kill").args(["-9", child]).status().unwrap().success());
        }
        self.0.wait().unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Ok(None) = self.0.try_wait() {
            self.kill();
        }
    }
}

/// Two namespaces and a cable; gone when dropped.
pub(crate) struct Hosts(pub(crate) [String; 2]);

impl Hosts {
    /// `None` without the rights to make them, which is a failure in CI.
    pub(crate) fn new() -> Option<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let stem = format!("phmx{}x{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let hosts = Self([format!("{stem}a"), format!("{stem}b")]);
        let [a, b] = &hosts.0;
        let is_made = ip(&format!("netns add {a}")) && ip(&format!("netns add {b}"));
        if !is_made {
            assert!(std::env::var_os("CI").is_none(), "network namespaces need root and iproute2");
            eprintln!("skipped: network namespaces need root and iproute2");
            return None;
        }
        assert!(ip(&format!("-n {a} link add m0 type veth peer name m0 netns {b}")));
        for (name, number) in hosts.0.iter().zip(1..) {
            assert!(ip(&format!("-n {name} link set lo up")));
            let mac = format!("02:00:00:00:99:{number:02x}");
            assert!(ip(&format!("-n {name} link set m0 address {mac}")));
            let network = format!("10.97.0.{number}/24 broadcast + dev m0");
            assert!(ip(&format!("-n {name} address add {network}")));
            assert!(ip(&format!("-n {name} link set m0 up")));
        }
        Some(hosts)
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for name in &self.0 {
            let _ = ip(&format!("netns del {name}"));
        }
    }
}

pub(crate) fn ip(words: &str) -> bool {
    let status = Command::new("ip").args(words.split(' ')).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}
