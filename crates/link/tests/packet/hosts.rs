//! Two hosts that are network namespaces, joined by a veth pair.

use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use packhorse_link::handover;
use packhorse_link::packet::{Packet, PacketConfig};

use crate::ROLE;

/// Two namespaces and what joins them; gone when dropped, also by a failing test.
pub(crate) struct Hosts {
    pub(crate) names: [String; 2],
    _alone: MutexGuard<'static, ()>,
}

/// One test at a time: all wires of a machine share a queue (net.core.netdev_max_backlog), and what one test pours into it
/// another would lose.
static ALONE: Mutex<()> = Mutex::new(());

impl Hosts {
    pub(crate) fn new(mtu: usize) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let serial = COUNT.fetch_add(1, Ordering::Relaxed);
        let stem = format!("pk{}x{serial}", std::process::id());
        let hosts = Self { names: [format!("{stem}a"), format!("{stem}b")], _alone: alone };
        for name in &hosts.names {
            ip(&format!("netns add {name}"));
        }
        hosts.join(mtu);
        hosts
    }

    pub(crate) fn join(&self, mtu: usize) {
        let [a, b] = &self.names;
        ip(&format!("-n {a} link add eth0 type veth peer name eth0 netns {b}"));
        for (n, name) in self.names.iter().enumerate() {
            ip(&format!("-n {name} address add 10.98.0.{}/24 dev eth0", n + 1));
            ip(&format!("-n {name} link set eth0 mtu {mtu} up"));
            ip(&format!("-n {name} link set lo up"));
        }
    }

    pub(crate) fn ip(&self, host: usize, words: &str) {
        ip(&format!("-n {} {words}", self.names[host]));
    }

    /// Packets that an interface dropped.
    pub(crate) fn dropped(&self, host: usize, direction: &str) -> u64 {
        let path = format!("/sys/class/net/eth0/statistics/{direction}_dropped");
        let mut line = Command::new("ip");
        let output = line.args(["netns", "exec", &self.names[host], "cat", &path]).output();
        String::from_utf8(output.unwrap().stdout).unwrap().trim().parse().unwrap()
    }

    /// This program again, in a namespace.
    pub(crate) fn start(&self, host: usize, role: &str, stdin: Stdio) -> Child {
        let mut child = Command::new("ip");
        child.args(["netns", "exec", &self.names[host]]);
        child.arg(std::env::current_exe().unwrap());
        child.args(["--exact", "role", "--ignored", "--nocapture"]).env(ROLE, role);
        child.stdin(stdin).stdout(Stdio::piped()).spawn().unwrap()
    }

    /// A socket that was opened in a namespace and handed over.
    pub(crate) fn socket(
        &self,
        host: usize,
        interface: &str,
        endpoint: u32,
        broadcast: bool,
    ) -> OwnedFd {
        let (near, far) = UnixDatagram::pair().unwrap();
        let role = format!("open {interface} {endpoint} {broadcast}");
        let child = self.start(host, &role, OwnedFd::from(far).into());
        let fd = take(&near);
        finished(child);
        fd
    }

    pub(crate) fn open(&self, host: usize, interface: &str, endpoint: u32) -> Packet {
        self.open_as(host, interface, endpoint, &PacketConfig::default())
    }

    pub(crate) fn open_as(
        &self,
        host: usize,
        on: &str,
        endpoint: u32,
        config: &PacketConfig,
    ) -> Packet {
        let fd = self.socket(host, on, endpoint, config.broadcast);
        Packet::from_fd(fd, config).unwrap()
    }

    /// One endpoint on each host.
    pub(crate) fn two(&self) -> (Packet, Packet) {
        (self.open(0, "eth0", 1), self.open(1, "eth0", 2))
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

pub(crate) fn finished(mut child: Child) -> String {
    let mut text = String::new();
    child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    assert!(child.wait().unwrap().success(), "{text}");
    text
}

pub(super) fn give(to: &UnixDatagram, fd: &OwnedFd) {
    handover::give(to, "a packet socket", &[fd.try_clone().unwrap()]).unwrap();
}

pub(super) fn take(from: &UnixDatagram) -> OwnedFd {
    let (_, mut fds) = handover::take(from).expect("the other process hands a socket over");
    fds.pop().expect("one descriptor")
}
