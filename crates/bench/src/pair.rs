//! The runner's view of the two sides that measure: found or started, given one job at a time, gone when dropped.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use packhorse::Address;

use crate::hosts::{self, End, Stand, Wiring};
use crate::machine::InterfaceFacts;
use crate::peer::{Order, Report};
use crate::process::{Heard, Process};
use crate::remote::{self, Remote};
use crate::system::{Job, Outcome, Role};

/// For everything but the measuring itself.
const ANSWER_WITHIN: Duration = Duration::from_secs(15);
/// For the patterns of offload, some of which have a number of rounds to do however long they take.
const PLAYED_WITHIN: Duration = Duration::from_secs(60);
/// A header of IPv6 is longer than one of IPv4 by so much, and all systems reckon with IPv4's.
const IPV6_EXTRA_LEN: usize = 20;

/// Where the two sides stand.
#[derive(Clone, Copy, Default)]
pub struct Stage {
    /// The passive side is a server on another machine.
    pub peer: Option<Address>,
    /// Two network namespaces and a wire between them; otherwise the loopback interface.
    pub two_hosts: bool,
    /// Of the wire.
    pub mtu: Option<usize>,
    /// Without segmentation and merging in the interfaces.
    pub no_offload: bool,
    /// Each process on a core of its own.
    pub pin: bool,
}

impl Stage {
    /// The core that a side is to stay on.
    fn core(&self, role: Role) -> Option<usize> {
        match role {
            Role::Active => self.pin.then_some(0),
            Role::Passive => self.pin.then_some(1),
        }
    }
}

/// Without the address, which is a secret.
impl fmt::Debug for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stage").field("two_hosts", &self.two_hosts).finish_non_exhaustive()
    }
}

/// The way to one side.
enum Way {
    Process(Process),
    Remote(Remote),
}

struct Side {
    way: Way,
    address: IpAddr,
}

impl Side {
    fn order(&mut self, order: &Order) -> Result<()> {
        match &mut self.way {
            Way::Process(process) => process.order(order),
            Way::Remote(remote) => remote.order(order),
        }
    }
}

/// What both sides say, in one place: the runner sleeps until either speaks.
struct Ears {
    sender: Sender<(Role, Heard)>,
    heard: Receiver<(Role, Heard)>,
}

impl Ears {
    fn new() -> Self {
        let (sender, heard) = mpsc::channel();
        Self { sender, heard }
    }

    /// What a side calls when it has something to say.
    fn of(&self, role: Role) -> impl Fn(Heard) + Send + 'static + use<> {
        let sender = self.sender.clone();
        move |heard| _ = sender.send((role, heard)) // nobody listens once all is over
    }

    fn answer(&self, deadline: Instant) -> Result<(Role, Report)> {
        let within = deadline.saturating_duration_since(Instant::now());
        match self.heard.recv_timeout(within) {
            Ok((_, Heard::Report(Report::Failed(reason)) | Heard::Ended(reason))) => {
                bail!("{reason}")
            }
            Ok((role, Heard::Report(answer))) => Ok((role, answer)),
            Err(RecvTimeoutError::Timeout) => bail!("the two sides did not come to an end in time"),
            Err(RecvTimeoutError::Disconnected) => unreachable!("a sender is kept"),
        }
    }

    /// One answer of each side, the active one's first.
    fn both(&self, deadline: Instant) -> Result<(Report, Report)> {
        let (mut near, mut far) = (None, None);
        loop {
            match self.answer(deadline)? {
                (Role::Active, answer) => near = Some(answer),
                (Role::Passive, answer) => far = Some(answer),
            }
            if let (Some(near), Some(far)) = (&near, &far) {
                return Ok((near.clone(), far.clone()));
            }
        }
    }

    fn expect_ready(&self, whose: Role) -> Result<()> {
        match self.answer_of(whose)? {
            Report::Ready => Ok(()),
            other => bail!("expected to hear that it is ready, heard {other:?}"),
        }
    }

    /// The next answer of this side; the other may still speak of what is over.
    fn answer_of(&self, whose: Role) -> Result<Report> {
        let deadline = Instant::now() + ANSWER_WITHIN;
        loop {
            let within = deadline.saturating_duration_since(Instant::now());
            match self.heard.recv_timeout(within) {
                Ok((role, Heard::Report(answer))) if role == whose => {
                    return match answer {
                        Report::Failed(reason) => bail!("{reason}"),
                        answer => Ok(answer),
                    };
                }
                Ok((_, Heard::Report(_))) => {}
                Ok((_, Heard::Ended(reason))) => bail!("{reason}"),
                Err(_) => bail!("no answer within {} s", ANSWER_WITHIN.as_secs()),
            }
        }
    }

    /// A server's answer to our hello; all it says before that is of what is over.
    fn welcome(&self) -> Result<InterfaceFacts> {
        let deadline = Instant::now() + ANSWER_WITHIN;
        loop {
            let within = deadline.saturating_duration_since(Instant::now());
            match self.heard.recv_timeout(within) {
                Ok((_, Heard::Report(Report::Facts(facts)))) => return Ok(facts),
                Ok((_, Heard::Report(Report::Refused(reason)) | Heard::Ended(reason))) => {
                    bail!("{reason}")
                }
                Ok((_, Heard::Report(_))) => {}
                Err(_) => bail!("no answer within {} s", ANSWER_WITHIN.as_secs()),
            }
        }
    }

    fn start(&self, role: Role, stand: Stand, stage: Stage) -> Result<Process> {
        let process = Process::start(stand, stage.core(role), self.of(role))?;
        self.expect_ready(role)?;
        Ok(process)
    }
}

/// The active and the passive side, wired and ready.
pub struct Pair {
    active: Side,
    passive: Side,
    ears: Ears,
    stage: Stage,
    facts: InterfaceFacts,
    mtu: usize,
}

impl Pair {
    /// Starts or finds both and wires them. Processes die with the *thread* that calls this, as Linux has it: call it from
    /// one that lasts.
    pub fn start(stage: Stage) -> Result<Self> {
        let ears = Ears::new();
        let (active, passive) = match stage.peer {
            Some(address) => remote_sides(&ears, &address, stage)?,
            None if stage.two_hosts => apart_sides(&ears, stage)?,
            None => local_sides(&ears, stage)?,
        };
        Self { active, passive, ears, stage, facts: InterfaceFacts::default(), mtu: 0 }.measured()
    }

    /// Again, after something failed: what is left of that would spoil what comes.
    pub fn restart(&mut self) -> Result<()> {
        match (&mut self.active.way, &self.passive.way) {
            (Way::Process(active), Way::Remote(_)) => {
                active.dismiss();
                while self.ears.heard.try_recv().is_ok() {} // of what is over
                *active = self.ears.start(Role::Active, Stand::Here, self.stage)?;
                self.greet()
            }
            _ => {
                *self = Self::start(self.stage)?;
                Ok(())
            }
        }
    }

    /// Asks for both interfaces; the smaller packet counts.
    fn measured(mut self) -> Result<Self> {
        self.active.order(&Order::Describe(self.active.address))?;
        self.facts = match self.ears.answer_of(Role::Active)? {
            Report::Facts(facts) => facts,
            other => bail!("expected facts, heard {other:?}"),
        };
        self.mtu = self.facts.mtu;
        if self.stage.peer.is_some() {
            self.greet()?;
        }
        Ok(self)
    }

    /// The server begins with us, and says what its interface is like.
    fn greet(&mut self) -> Result<()> {
        let Way::Remote(remote) = &self.passive.way else { return Ok(()) };
        remote.hello()?;
        let theirs = self.ears.welcome()?;
        self.mtu = self.facts.mtu.min(theirs.mtu);
        Ok(())
    }

    /// What the interface between the two is like, at the active side.
    pub fn facts(&self) -> &InterfaceFacts {
        &self.facts
    }

    /// Largest packet between the two.
    pub fn mtu(&self) -> usize {
        self.mtu
    }

    /// Where the passive side is, if on another machine.
    pub fn server(&self) -> Option<IpAddr> {
        matches!(self.passive.way, Way::Remote(_)).then_some(self.passive.address)
    }

    /// Whether the passive side was a server that was found to be dead.
    pub fn has_lost_server(&self) -> bool {
        matches!(&self.passive.way, Way::Remote(remote) if remote.is_lost())
    }

    /// Has both sides do a job; `role`, `bind` and `mtu` in it are filled in here. What the active side saw, and the
    /// passive.
    pub fn run(&mut self, job: &Job) -> Result<(Outcome, Outcome)> {
        let extra = if self.active.address.is_ipv6() { IPV6_EXTRA_LEN } else { 0 };
        let mut job = Job { mtu: self.mtu - extra, seconds: job.seconds.max(0.01), ..job.clone() };
        if let (Way::Process(passive), true) = (&self.passive.way, self.stage.two_hosts) {
            job.manner.other = Some(passive.id());
        }
        if self.server().is_some() {
            remote::check_job(&job)?;
        }
        for (side, role) in [(&mut self.active, Role::Active), (&mut self.passive, Role::Passive)] {
            let job = Job { role, bind: side.address, ..job.clone() };
            side.order(&Order::Job(Box::new(job)))?;
        }
        let mut lines = None;
        let done = self.exchange_and_wait(&job, &mut lines);
        done.map_err(|error| match (&self.passive.way, lines) {
            (Way::Remote(remote), Some((near, far))) if !remote.is_lost() => {
                anyhow!("{error:#}\n{}", remote::about_ports(&job.system, &near, &far))
            }
            _ => error,
        })
    }

    fn exchange_and_wait(
        &mut self,
        job: &Job,
        lines: &mut Option<(String, String)>,
    ) -> Result<(Outcome, Outcome)> {
        let within = if job.pattern.is_by_courier() { PLAYED_WITHIN } else { ANSWER_WITHIN };
        let deadline = Instant::now() + within + Duration::from_secs_f64(job.seconds);
        loop {
            match self.ears.both(deadline)? {
                (Report::Line(near), Report::Line(far)) => {
                    self.active.order(&Order::Line(far.clone()))?;
                    self.passive.order(&Order::Line(near.clone()))?;
                    lines.get_or_insert((near, far));
                }
                (Report::Outcome(near), Report::Outcome(far)) => return Ok((near, far)),
                (near, far) => bail!("the two sides are out of step: {near:?}, {far:?}"),
            }
        }
    }
}

fn local_sides(ears: &Ears, stage: Stage) -> Result<(Side, Side)> {
    let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let start = |role| ears.start(role, Stand::Here, stage);
    let (active, passive) = (start(Role::Active)?, start(Role::Passive)?);
    let side = |process| Side { way: Way::Process(process), address };
    Ok((side(active), side(passive)))
}

fn apart_sides(ears: &Ears, stage: Stage) -> Result<(Side, Side)> {
    // In a container, root may be root in name only, and yet be allowed what any user is.
    let start = |stand| ears.start(Role::Active, stand, stage);
    let as_root = hosts::is_root().then(|| start(Stand::Apart).ok()).flatten();
    let (active, second) = match as_root {
        Some(active) => (active, Stand::Apart),
        None => {
            let active = start(Stand::ApartAsUser)?;
            let stand = Stand::ApartWith(active.id());
            (active, stand)
        }
    };
    let passive = ears.start(Role::Passive, second, stage)?;
    let (mtu, no_offload) = (stage.mtu.unwrap_or(1500), stage.no_offload);
    let other = Some(passive.id());
    let mut sides =
        [(End::Near, active, other), (End::Far, passive, None)].map(|(end, process, other)| {
            let side = Side { way: Way::Process(process), address: hosts::address(end) };
            (side, Wiring { end, mtu, no_offload, other })
        });
    for (side, wiring) in &mut sides {
        side.order(&Order::Wire(*wiring))?;
        let role = if wiring.end == End::Near { Role::Active } else { Role::Passive };
        ears.expect_ready(role).context("cannot make the second host")?;
    }
    let [(near, _), (far, _)] = sides;
    Ok((near, far))
}

fn remote_sides(ears: &Ears, address: &Address, stage: Stage) -> Result<(Side, Side)> {
    let remote = Remote::connect(address, ears.of(Role::Passive))?;
    let (near, far) = (remote.local_ip(), remote.server().ip());
    let active = ears.start(Role::Active, Stand::Here, stage)?;
    Ok((
        Side { way: Way::Process(active), address: near },
        Side { way: Way::Remote(remote), address: far },
    ))
}
