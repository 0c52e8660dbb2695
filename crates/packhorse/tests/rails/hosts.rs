//! Hosts that are network namespaces, and processes in them.

use std::io::{BufRead, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// Tells a process which part it plays.
pub(crate) const ROLE: &str = "PACKHORSE_RAILS_ROLE";

/// Two namespaces joined by cables `r0`, `r1`, …; gone when dropped, also by a failing test.
pub(crate) struct Hosts {
    pub(crate) names: [String; 2],
}

impl Hosts {
    /// One cable for each rate. `is_one_subnet`: all cards of a host are on the same network.
    pub(crate) fn new(rates_mbit: &[u32], is_one_subnet: bool) -> Self {
        let hosts = Self::apart();
        for (rail, &rate) in rates_mbit.iter().enumerate() {
            hosts.join(rail, if is_one_subnet { 0 } else { rail }, rate);
        }
        hosts
    }

    /// Without a cable.
    pub(crate) fn apart() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let serial = COUNT.fetch_add(1, Ordering::Relaxed);
        let stem = format!("phr{}x{serial}", std::process::id());
        let hosts = Self { names: [format!("{stem}a"), format!("{stem}b")] };
        for name in &hosts.names {
            run(&format!("ip netns add {name}"));
            run(&format!("ip -n {name} link set lo up"));
        }
        hosts
    }

    /// A cable with addresses on this network; a rate of 0 means as fast as it goes.
    pub(crate) fn join(&self, rail: usize, net: usize, rate_mbit: u32) {
        let [a, b] = &self.names;
        run(&format!("ip -n {a} link add r{rail} type veth peer name r{rail} netns {b}"));
        for (n, name) in self.names.iter().enumerate() {
            let host = if net == rail { n + 1 } else { 2 * rail + n + 1 };
            run(&format!("ip -n {name} address add 10.98.{net}.{host}/24 dev r{rail}"));
            run(&format!("ip -n {name} link set r{rail} up"));
            if rate_mbit > 0 {
                run(&format!(
                    "tc -n {name} qdisc add dev r{rail} root tbf rate {rate_mbit}mbit burst 64kb latency 5ms"
                ));
            }
        }
    }

    /// This program again, in a namespace.
    pub(crate) fn start(&self, host: usize, role: &str) -> End {
        let program = std::env::current_exe().unwrap();
        let mut child = Command::new("ip");
        child.args(["netns", "exec", &self.names[host]]).arg(program);
        child.args(["--exact", "role", "--ignored", "--nocapture"]).env(ROLE, role);
        child.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = child.spawn().unwrap();
        let (orders, lines) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        End { child, orders, lines: BufReader::new(lines) }
    }

    /// Frames that left a host by a rail.
    pub(crate) fn sent(&self, host: usize, rail: usize) -> u64 {
        let file = format!("/sys/class/net/r{rail}/statistics/tx_bytes");
        let words = ["netns", "exec", &self.names[host], "cat", &file];
        let output = Command::new("ip").args(words).output().unwrap();
        String::from_utf8_lossy(&output.stdout).trim().parse().unwrap()
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for name in &self.names {
            let _ = Command::new("ip").args(["netns", "del", name]).status();
        }
    }
}

/// A process in a namespace. Ends when told to, or with its orders.
pub(crate) struct End {
    pub(crate) child: Child,
    orders: ChildStdin,
    lines: BufReader<ChildStdout>,
}

impl End {
    pub(crate) fn order(&mut self, words: &str) {
        writeln!(self.orders, "{words}").unwrap();
    }

    /// What stands behind `word` in all lines before the one with `last`, and what stands behind that.
    pub(crate) fn hear_all(&mut self, word: &str, last: &str) -> (Vec<String>, String) {
        let (mut all, mut line) = (Vec::new(), String::new());
        loop {
            line.clear();
            assert!(self.lines.read_line(&mut line).unwrap() > 0, "ended without {last:?}");
            if let Some((_, rest)) = line.split_once(last) {
                return (all, rest.trim().to_owned());
            }
            all.extend(line.split_once(word).map(|(_, rest)| rest.trim().to_owned()));
        }
    }

    /// What stands behind this word in the first line that has it.
    pub(crate) fn hear(&mut self, word: &str) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            assert!(self.lines.read_line(&mut line).unwrap() > 0, "ended without {word:?}");
            if let Some((_, rest)) = line.split_once(word) {
                return rest.trim().to_owned();
            }
        }
    }
}

impl Drop for End {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn run(line: &str) {
    let words: Vec<&str> = line.split_whitespace().collect();
    let output = Command::new(words[0]).args(&words[1..]).output().unwrap();
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
}
