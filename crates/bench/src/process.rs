//! A measuring process (`packhorse peer`): started, given orders, heard, gone when dropped.

use std::env;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{self, Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result, anyhow};

use crate::hosts::Stand;
use crate::peer::{Order, Report};
pub use crate::rival::sys::die_with_parent;

/// What comes from a side of a measurement.
#[derive(Debug)]
pub enum Heard {
    /// An answer.
    Report(Report),
    /// The process ended, and this is why.
    Ended(String),
}

/// One process and the way to it. What it says goes to the function it was started with.
#[derive(Debug)]
pub struct Process {
    child: Child,
    orders: ChildStdin,
    is_dismissed: Arc<AtomicBool>,
    listener: Option<JoinHandle<()>>,
}

impl Process {
    /// Starts one. It dies with the *thread* that calls this, as Linux has it: call it from one that lasts.
    pub fn start(
        stand: Stand,
        core: Option<usize>,
        hear: impl Fn(Heard) + Send + 'static,
    ) -> Result<Self> {
        let program = env::current_exe().context("cannot find this program to start it again")?;
        let mut command = Command::new(program);
        command.arg("peer").arg("--parent").arg(process::id().to_string());
        command.arg("--stand").arg(stand.to_string());
        if let Some(core) = core {
            command.arg("--core").arg(core.to_string());
        }
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("cannot start a second process")?;
        let orders = child.stdin.take().expect("asked for a pipe");
        let stdout = child.stdout.take().expect("asked for a pipe");
        let stderr = child.stderr.take().expect("asked for a pipe");
        let is_dismissed = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&is_dismissed);
        let listener = Some(thread::spawn(move || listen(stdout, stderr, &is_over, hear)));
        Ok(Self { child, orders, is_dismissed, listener })
    }

    /// Its number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Gives it an order.
    pub fn order(&mut self, order: &Order) -> Result<()> {
        let mut line = serde_json::to_string(order)?;
        line.push('\n');
        // Why it ended will be heard.
        self.orders.write_all(line.as_bytes()).map_err(|_| anyhow!("a measuring process died"))
    }

    /// Ends it. On return it is dead and all that was heard of it has been heard.
    pub fn dismiss(&mut self) {
        // Its end is no news then. Release and Acquire: whoever reads the end of its output knows that it was wanted.
        self.is_dismissed.store(true, Ordering::Release);
        self.child.kill().ok(); // it may be long dead
        self.child.wait().ok();
        self.listener.take().map(JoinHandle::join);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.dismiss();
    }
}

/// Until its output ends; then its last words are the reason.
fn listen(
    stdout: ChildStdout,
    mut stderr: ChildStderr,
    is_dismissed: &AtomicBool,
    hear: impl Fn(Heard),
) {
    for line in BufReader::new(stdout).lines().map_while(Result::ok) {
        let Ok(answer) = serde_json::from_str(&line) else { break };
        if is_dismissed.load(Ordering::Acquire) {
            return;
        }
        hear(Heard::Report(answer));
    }
    let words = io::read_to_string(&mut stderr).unwrap_or_default();
    if is_dismissed.load(Ordering::Acquire) {
        return;
    }
    let words = words.trim().trim_start_matches("packhorse: ");
    let words = if words.is_empty() { "a measuring process died without a word" } else { words };
    hear(Heard::Ended(words.to_owned()));
}
