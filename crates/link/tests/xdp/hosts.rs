//! Two hosts that are network namespaces joined by a veth pair; gone when dropped, also by a failing test.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Says to this program what it is to do in a namespace.
pub(crate) const ROLE: &str = "PACKHORSE_XDP_ROLE";

pub(crate) struct Hosts {
    pub(crate) names: [String; 2],
}

impl Hosts {
    pub(crate) fn new(mtu: usize, queue_count: usize) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let serial = COUNT.fetch_add(1, Ordering::Relaxed);
        let stem = format!("phx{}x{serial}", std::process::id());
        let hosts = Self { names: [format!("{stem}a"), format!("{stem}b")] };
        let [a, b] = &hosts.names;
        let queues = format!("numrxqueues {queue_count} numtxqueues {queue_count}");
        ip(&format!("netns add {a}"));
        ip(&format!("netns add {b}"));
        ip(&format!("-n {a} link add eth0 {queues} type veth peer name eth0 {queues} netns {b}"));
        for (n, name) in hosts.names.iter().enumerate() {
            let n = n + 1;
            ip(&format!("-n {name} address add 10.98.0.{n}/24 dev eth0"));
            ip(&format!("-n {name} address add fd98::{n}/64 dev eth0 nodad"));
            ip(&format!("-n {name} link set eth0 mtu {mtu} up"));
            ip(&format!("-n {name} link set lo up"));
        }
        hosts
    }

    /// This program again, in a namespace.
    pub(crate) fn start(&self, host: usize, role: &str) -> Role {
        self.start_as(host, role, &[])
    }

    /// This program again, in a namespace, as a user without any rights.
    pub(crate) fn start_unprivileged(&self, host: usize, role: &str) -> Role {
        let words = "setpriv --reuid 65534 --regid 65534 --clear-groups --bounding-set -all";
        self.start_as(host, role, &words.split(' ').collect::<Vec<_>>())
    }

    /// This program again, in a namespace, as a user with these rights, who may pin so much memory.
    pub(crate) fn start_with(
        &self,
        host: usize,
        role: &str,
        rights: &str,
        pinned_len: Option<u64>,
    ) -> Role {
        let limit = pinned_len.map_or(String::new(), |len| format!("prlimit --memlock={len} "));
        let words = format!(
            "{limit}setpriv --reuid 65534 --regid 65534 --clear-groups \
             --inh-caps {rights} --ambient-caps {rights}"
        );
        self.start_as(host, role, &words.split(' ').collect::<Vec<_>>())
    }

    fn start_as(&self, host: usize, role: &str, before: &[&str]) -> Role {
        let program = std::env::current_exe().unwrap();
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.names[host]]).args(before).arg(program);
        command.args(["--exact", "role", "--ignored", "--nocapture"]).env(ROLE, role);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        let stdin = child.stdin.take();
        Role { child, lines, stdin, what: role.to_string() }
    }

    pub(crate) fn run(&self, host: usize, words: &str) -> Output {
        let mut line = Command::new("ip");
        line.args(["netns", "exec", &self.names[host]]).args(words.split_whitespace());
        line.output().unwrap()
    }

    /// What `ip link` says of the interface.
    pub(crate) fn interface(&self, host: usize) -> String {
        String::from_utf8(self.run(host, "ip -details link show eth0").stdout).unwrap()
    }
}

impl Hosts {
    /// No program is on the interface. Whoever looks into `/proc` at that moment, as other tests do, may hold the
    /// descriptors of a process a little longer than it lives.
    pub(crate) fn assert_free(&self, host: usize) {
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            let link = self.interface(host);
            if !link.contains("xdp") {
                return;
            }
            assert!(Instant::now() < until, "{link}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for name in &self.names {
            let _ = Command::new("ip").args(["netns", "del", name]).status();
        }
    }
}

pub(crate) fn ip(words: &str) {
    let output = Command::new("ip").args(words.split_whitespace()).output().unwrap();
    assert!(output.status.success(), "ip {words}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A process of its own, killed when dropped.
pub(crate) struct Role {
    pub(crate) child: Child,
    lines: BufReader<ChildStdout>,
    /// A role that serves ends when this is closed.
    stdin: Option<ChildStdin>,
    what: String,
}

impl Role {
    /// What stands behind this word in the first line that begins with it.
    pub(crate) fn wait_for(&mut self, word: &str) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            let len = self.lines.read_line(&mut line).unwrap();
            assert!(len > 0, "{:?} ended without {word:?}", self.what);
            if let Some(rest) = line.strip_prefix(word) {
                return rest.trim().to_string();
            }
        }
    }

    /// Tells one that waits for it to go on.
    pub(crate) fn wake(&mut self) {
        writeln!(self.stdin.as_mut().unwrap()).unwrap();
    }

    /// Waits for its end, which must be a good one.
    pub(crate) fn end(mut self) {
        drop(self.stdin.take());
        assert!(self.child.wait().unwrap().success(), "{:?} failed", self.what);
    }
}

impl Drop for Role {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
