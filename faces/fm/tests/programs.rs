//! C programs over the library as it is installed: compiled with the system's compiler, started by hand and by `mpirun`.

use std::fs::Permissions;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A directory with the library under its own name; gone when the test is over.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("packhorse-fm-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        // The library lies beside the test programs.
        let built =
            std::env::current_exe().unwrap().ancestors().nth(1).unwrap().join("libpackhorse_fm.so");
        std::fs::copy(&built, path.join("libpackhorse-fm.so"))
            .unwrap_or_else(|error| panic!("{}: {error}", built.display()));
        Self(path)
    }

    /// Compiles an example.
    fn compile(&self, name: &str) -> PathBuf {
        self.compile_from("examples", name)
    }

    fn compile_from(&self, folder: &str, name: &str) -> PathBuf {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let program = self.0.join(name);
        let status = Command::new("cc")
            .args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-g", "-O1", "-o"])
            .arg(&program)
            .arg(root.join(folder).join(format!("{name}.c")))
            .arg("-I")
            .arg(root.join("include"))
            .arg("-L")
            .arg(&self.0)
            .arg("-lpackhorse-fm")
            .status()
            .expect("cc is needed");
        assert!(status.success());
        program
    }

    /// Starts two nodes by a file of hosts; what each printed.
    fn run_by_hand(&self, command: &[&str]) -> Vec<Output> {
        self.name_hosts();
        let nodes = [0, 1].map(|node| self.start(node, command).spawn().unwrap());
        nodes.into_iter().map(|node| node.wait_with_output().unwrap()).collect()
    }

    /// Writes the file of hosts and the secret; where node 0 listens.
    fn name_hosts(&self) -> String {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let place = format!("127.0.0.1:{port}");
        let hosts = format!("# two nodes of this host\n{place}\n127.0.0.1:{}\n", port ^ 1);
        std::fs::write(self.0.join("hosts"), hosts).unwrap();
        self.write_secret("secret", 0x5e);
        place
    }

    fn write_secret(&self, name: &str, byte: u8) {
        let path = self.0.join(name);
        std::fs::write(&path, format!("{byte:02x}").repeat(32)).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    }

    /// A node that is ready to be started.
    fn start(&self, node: usize, command: &[&str]) -> Command {
        let mut start = Command::new("timeout");
        start.arg("300").args(command).env("LD_LIBRARY_PATH", &self.0);
        start.env("FM_HOSTS", self.0.join("hosts")).env("FM_NODE", node.to_string());
        start.env("FM_SECRET", self.0.join("secret"));
        start.stdout(Stdio::piped()).stderr(Stdio::piped());
        start
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn has(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

/// A program that is not here is no failure, but in CI.
fn must_have(program: &str) -> bool {
    let is_here = has(program);
    assert!(is_here || std::env::var_os("CI").is_none(), "{program} is missing");
    is_here
}

#[test]
fn ping_pong_started_by_hand() {
    let scratch = Scratch::new("hand");
    let program = scratch.compile("pingpong");
    let outputs = scratch.run_by_hand(&[program.to_str().unwrap()]);
    assert!(outputs.iter().all(|output| output.status.success()), "{outputs:?}");
    assert!(text(&outputs[0].stdout).contains("1000 round trips"), "{outputs:?}");
}

#[test]
fn header_then_payload_started_by_hand() {
    let scratch = Scratch::new("header");
    let program = scratch.compile("header");
    let outputs = scratch.run_by_hand(&[program.to_str().unwrap()]);
    assert!(outputs.iter().all(|output| output.status.success()), "{outputs:?}");
    assert_eq!(text(&outputs[1].stdout), "100 messages, 0 wrong\n");
}

#[test]
fn whole_messages_of_version_1() {
    let scratch = Scratch::new("fm1");
    let program = scratch.compile("fm1");
    let outputs = scratch.run_by_hand(&[program.to_str().unwrap()]);
    assert!(outputs.iter().all(|output| output.status.success()), "{outputs:?}");
    assert_eq!(text(&outputs[1].stdout), "100 messages, sum 5550, 0 wrong\n");
}

#[test]
fn handler_that_overflows_its_stack_is_told_so() {
    let scratch = Scratch::new("overflow");
    let program = scratch.compile_from("tests/c", "overflow");
    let program = program.to_str().unwrap();
    // Such a process leaves no memory image behind, and `timeout` says by which signal it died.
    let command = |word| ["sh", "-c", "ulimit -c 0; \"$0\" $1; echo \"status $?\"", program, word];
    let outputs = scratch.run_by_hand(&command(""));
    let (said, status) = (text(&outputs[1].stderr), text(&outputs[1].stdout));
    assert!(said.contains("overflowed its stack") && said.contains("FM_STACK"), "{outputs:?}");
    assert!(status.contains("status 134"), "SIGABRT: {outputs:?}");
    let outputs = scratch.run_by_hand(&command("plain"));
    let (said, status) = (text(&outputs[1].stderr), text(&outputs[1].stdout));
    assert!(!said.contains("overflowed"), "{outputs:?}");
    assert!(status.contains("status 139"), "SIGSEGV, as it would be without us: {outputs:?}");
}

#[test]
fn a_message_without_an_end_is_not_handled() {
    let scratch = Scratch::new("broken");
    let program = scratch.compile_from("tests/c", "broken");
    let outputs = scratch.run_by_hand(&[program.to_str().unwrap()]);
    assert_eq!(text(&outputs[1].stdout), "called with 5 bytes\n1 dropped\n", "{outputs:?}");
    assert!(text(&outputs[1].stderr).contains("a message of node 0 is dropped after "));
}

#[test]
fn a_message_there_is_no_room_for_is_not_handled() {
    let scratch = Scratch::new("long");
    let program = scratch.compile_from("tests/c", "long");
    let outputs = scratch.run_by_hand(&["env", "FM_WHOLE_MAX=100000", program.to_str().unwrap()]);
    let said = "called with 100000 bytes\ncalled with 99999 bytes\n1 dropped\n";
    assert_eq!(text(&outputs[1].stdout), said, "{outputs:?}");
    assert!(text(&outputs[1].stderr).contains("Set FM_WHOLE_MAX to more"), "{outputs:?}");
}

#[test]
fn what_would_wait_for_its_own_handler_is_refused() {
    let scratch = Scratch::new("inside");
    let program = scratch.compile_from("tests/c", "inside");
    let program = program.to_str().unwrap();
    for kind in ["stream", "whole"] {
        let shell = "ulimit -c 0; \"$0\" $1; echo \"status $?\"";
        let outputs = scratch.run_by_hand(&["sh", "-c", shell, program, kind]);
        let said = "extract -3, initialize -3\nnode 1 of 2\nstatus 134\n";
        assert_eq!(text(&outputs[1].stdout), said, "{kind}: {outputs:?}");
        let why = text(&outputs[1].stderr);
        assert!(why.contains("FM_finalize was called inside a handler"), "{kind}: {outputs:?}");
    }
}

/// Whoever calls node 0 before the others, without the secret, learns no address and gives none.
#[test]
fn strangers_at_the_meeting_learn_nothing() {
    let scratch = Scratch::new("strangers");
    let program = scratch.compile("pingpong");
    let program = program.to_str().unwrap();
    let place = scratch.name_hosts();
    let host = scratch.start(0, &[program]).spawn().unwrap();
    let mut stranger = loop {
        match TcpStream::connect(&place) {
            Ok(stranger) => break stranger,
            Err(_) => std::thread::sleep(std::time::Duration::from_millis(10)),
        }
    };
    let silent = TcpStream::connect(&place).unwrap();
    stranger.write_all(b"1 an address of mine\n").unwrap();
    scratch.write_secret("other", 0x07);
    let other =
        scratch.start(1, &[program]).env("FM_SECRET", scratch.0.join("other")).output().unwrap();
    assert!(!other.status.success() && text(&other.stderr).contains("another secret"), "{other:?}");
    let open = scratch.start(1, &[program]).env_remove("FM_SECRET").output().unwrap();
    assert!(
        !open.status.success() && text(&open.stderr).contains("FM_SECRET is not set"),
        "{open:?}"
    );
    let node = scratch.start(1, &[program]).output().unwrap();
    let host = host.wait_with_output().unwrap();
    assert!(node.status.success() && host.status.success(), "{node:?} {host:?}");
    for mut stranger in [stranger, silent] {
        let mut heard = Vec::new();
        let _ = stranger.read_to_end(&mut heard); // a reset ends it as well
        assert!(heard.len() <= 32, "{}", text(&heard));
    }
}

#[test]
fn both_started_by_mpirun() {
    if !must_have("mpirun") {
        return;
    }
    let scratch = Scratch::new("mpirun");
    for (name, says) in [("pingpong", "1000 round trips"), ("header", "100 messages, 0 wrong")] {
        let program = scratch.compile(name);
        let output = Command::new("timeout")
            .args(["300", "mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "2"])
            .args(["-x", "LD_LIBRARY_PATH"])
            .arg(&program)
            .env("LD_LIBRARY_PATH", &scratch.0)
            .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
            .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
            .output()
            .unwrap();
        assert!(output.status.success() && text(&output.stdout).contains(says), "{output:?}");
    }
}

#[test]
fn valgrind_finds_nothing_wrong_with_handlers_on_stacks_of_their_own() {
    if !must_have("valgrind") {
        return;
    }
    let scratch = Scratch::new("valgrind");
    let program = scratch.compile("header");
    let program = program.to_str().unwrap();
    let outputs = scratch.run_by_hand(&["valgrind", "--error-exitcode=9", "--quiet", program]);
    for output in outputs {
        assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    }
}
