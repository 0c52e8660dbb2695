//! The runner's view of the two measuring processes: started, wired, given one job at a time, gone when dropped.

use std::env;
use std::io::{BufRead, BufReader, Write};
use std::net::{IpAddr, Ipv4Addr};
use std::process::{self, Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};

use super::peer::{Answer, Order};
use super::system::{Job, Outcome, Role};
use crate::hosts::{self, End, Stand, Wiring};
use crate::machine::InterfaceFacts;

/// For everything but the measuring itself.
const ANSWER_WITHIN: Duration = Duration::from_secs(15);

/// Where the two sides stand.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stage {
    /// Two network namespaces and a wire between them; otherwise the loopback interface.
    pub two_hosts: bool,
    /// Of the wire.
    pub mtu: Option<usize>,
    /// Without segmentation and merging in the interfaces.
    pub no_offload: bool,
    /// Each process on a core of its own.
    pub pin: bool,
}

/// One process and the two ends of the talk with it.
struct Peer {
    child: Child,
    orders: ChildStdin,
    answers: Receiver<Answer>,
    address: IpAddr,
}

impl Peer {
    fn start(stand: Stand, core: Option<usize>, address: IpAddr) -> Result<Self> {
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
        let (sender, answers) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let Ok(answer) = serde_json::from_str(&line) else { break };
                if sender.send(answer).is_err() {
                    break;
                }
            }
        });
        let mut peer = Self { child, orders, answers, address };
        peer.expect_ready()?;
        Ok(peer)
    }

    fn order(&mut self, order: &Order) -> Result<()> {
        let mut line = serde_json::to_string(order)?;
        line.push('\n');
        self.orders.write_all(line.as_bytes()).map_err(|_| self.obituary())
    }

    fn answer(&mut self, within: Duration) -> Result<Answer> {
        match self.answers.recv_timeout(within) {
            Ok(Answer::Failed(reason)) => bail!("{reason}"),
            Ok(answer) => Ok(answer),
            Err(RecvTimeoutError::Timeout) => bail!("no answer within {} s", within.as_secs()),
            Err(RecvTimeoutError::Disconnected) => Err(self.obituary()),
        }
    }

    fn expect_ready(&mut self) -> Result<()> {
        match self.answer(ANSWER_WITHIN)? {
            Answer::Ready => Ok(()),
            other => bail!("expected to hear that it is ready, heard {other:?}"),
        }
    }

    /// The process ended by itself: its last words are the error.
    fn obituary(&mut self) -> anyhow::Error {
        self.child.kill().ok();
        let status = self.child.wait();
        let stderr = self.child.stderr.take();
        let words = stderr.and_then(|mut stderr| std::io::read_to_string(&mut stderr).ok());
        let words = words.unwrap_or_default();
        let words = words.trim().trim_start_matches("packhorse: ");
        if words.is_empty() {
            let status = status.map_or("gone".into(), |status| status.to_string());
            return anyhow!("a measuring process died ({status})");
        }
        anyhow!("{words}")
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.child.kill().ok(); // it may be long dead
        self.child.wait().ok();
    }
}

/// The active and the passive process, wired and ready.
pub struct Pair {
    active: Peer,
    passive: Peer,
    mtu: usize,
}

impl Pair {
    /// Starts both and wires them. The processes die with the *thread* that calls this, as Linux has it: call it from
    /// one that lasts.
    pub fn start(stage: Stage) -> Result<Self> {
        let core = |index: usize| stage.pin.then_some(index);
        if !stage.two_hosts {
            let here = IpAddr::V4(Ipv4Addr::LOCALHOST);
            let active = Peer::start(Stand::Here, core(0), here)?;
            let passive = Peer::start(Stand::Here, core(1), here)?;
            return Self { active, passive, mtu: 0 }.measured();
        }
        // In a container, root may be root in name only, and yet be allowed what any user is.
        let start = |stand| Peer::start(stand, core(0), hosts::address(End::Near));
        let as_root = hosts::is_root().then(|| start(Stand::Apart).ok()).flatten();
        let (active, second) = match as_root {
            Some(active) => (active, Stand::Apart),
            None => {
                let active = start(Stand::ApartAsUser)?;
                let stand = Stand::ApartWith(active.child.id());
                (active, stand)
            }
        };
        let passive = Peer::start(second, core(1), hosts::address(End::Far))?;
        let mut pair = Self { active, passive, mtu: 0 };
        pair.wire(stage)?;
        pair.measured()
    }

    fn wire(&mut self, stage: Stage) -> Result<()> {
        let (mtu, no_offload) = (stage.mtu.unwrap_or(1500), stage.no_offload);
        let other = Some(self.passive.child.id());
        for (peer, wiring) in [
            (&mut self.active, Wiring { end: End::Near, mtu, no_offload, other }),
            (&mut self.passive, Wiring { end: End::Far, mtu, no_offload, other: None }),
        ] {
            peer.order(&Order::Wire(wiring))?;
            peer.expect_ready().context("cannot make the second host")?;
        }
        Ok(())
    }

    fn measured(mut self) -> Result<Self> {
        self.mtu = self.facts()?.mtu;
        Ok(self)
    }

    /// What the interface between the two is like.
    pub fn facts(&mut self) -> Result<InterfaceFacts> {
        self.active.order(&Order::Describe(self.active.address))?;
        match self.active.answer(ANSWER_WITHIN)? {
            Answer::Facts(facts) => Ok(facts),
            other => bail!("expected facts, heard {other:?}"),
        }
    }

    /// Largest packet between the two.
    pub fn mtu(&self) -> usize {
        self.mtu
    }

    /// Has both sides do a job; `role`, `bind` and `mtu` in it are filled in here. What the active side saw, and the
    /// passive.
    pub fn run(&mut self, job: &Job) -> Result<(Outcome, Outcome)> {
        for (peer, role) in [(&mut self.active, Role::Active), (&mut self.passive, Role::Passive)] {
            let mut job = Job { role, bind: peer.address, mtu: self.mtu, ..job.clone() };
            job.seconds = job.seconds.max(0.01);
            peer.order(&Order::Job(Box::new(job)))?;
        }
        let within = ANSWER_WITHIN + Duration::from_secs_f64(job.seconds);
        loop {
            let (near, far) = (self.active.answer(within), self.passive.answer(within));
            match (near?, far?) {
                (Answer::Line(near), Answer::Line(far)) => {
                    self.active.order(&Order::Line(far))?;
                    self.passive.order(&Order::Line(near))?;
                }
                (Answer::Outcome(near), Answer::Outcome(far)) => return Ok((near, far)),
                (near, far) => bail!("the two sides are out of step: {near:?}, {far:?}"),
            }
        }
    }
}
