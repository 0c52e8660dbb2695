//! The event loop: two hosts, one wire, and a clock that goes from event to event.
//!
//! Jobs go from part to part ([`crate::plant`]); at the end of a stage its hook runs, which is where the protocol is called. Events of the
//! same moment happen in the order in which they were planned, so that a run is the same whenever it is repeated.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use anyhow::{Result, bail};
use packhorse_proto::Instant;

use crate::app::{Act, App, Inbox};
use crate::machine::Machine;
use crate::node::{Frame, Node};
use crate::placement::{Doer, Placement};
use crate::plant::{JobId, Part, Server};
use crate::trace::Span;
use crate::ways::{Cause, Hook, Stage, Stages, stage};

/// A run ends after so many events: something goes round in circles.
const EVENT_COUNT_MAX: u64 = 40_000_000;

#[derive(Debug)]
enum Event {
    /// A part is done with what it does, unless it was interrupted.
    Finish { node: usize, part: Part, epoch: u64 },
    /// The next stage of a job may begin though this one is not over.
    HandOver { node: usize, job: JobId },
    /// A frame is at the end of the wire.
    Arrive { node: usize, frame: Box<Frame> },
    /// The card interrupts for what it held back.
    Interrupt { node: usize },
    /// The protocol wanted to be called.
    Timer { node: usize },
}

#[derive(Debug)]
struct Planned {
    at: u64,
    order: u64,
    event: Event,
}

impl PartialEq for Planned {
    fn eq(&self, other: &Self) -> bool {
        self.order == other.order
    }
}
impl Eq for Planned {}
impl PartialOrd for Planned {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Planned {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

/// A job under way.
#[derive(Debug, Default)]
struct Job {
    stages: Stages,
    /// The stage being done, or interrupted.
    current: Option<Stage>,
    is_handed_over: bool,
    frame: u32,
}

/// What an application noted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Noted {
    /// Which host's.
    pub(crate) node: usize,
    /// When.
    pub(crate) at: u64,
    /// Nanoseconds that each part of each host was busy so far, the application's own time left out.
    pub(crate) busy: [[u64; 7]; 2],
}

/// Two hosts of a machine.
#[derive(Debug)]
pub(crate) struct World {
    now: u64,
    order: u64,
    events: BinaryHeap<Reverse<Planned>>,
    pub(crate) nodes: [Node; 2],
    parts: [[Server; 7]; 2],
    jobs: Vec<Job>,
    free: Vec<JobId>,
    pub(crate) notes: Vec<Noted>,
    /// When so many receives of the second host are complete, that is noted.
    pub(crate) noted_at: Vec<u64>,
    pub(crate) spans: Option<Vec<Span>>,
    left_count: usize,
}

impl World {
    pub(crate) fn new(machine: &Machine, placement: Placement) -> Result<Self> {
        Self::of([machine, machine], [placement; 2])
    }

    /// Two hosts that differ.
    pub(crate) fn of(machines: [&Machine; 2], placements: [Placement; 2]) -> Result<Self> {
        Ok(Self {
            now: 0,
            order: 0,
            events: BinaryHeap::new(),
            nodes: [
                Node::open(0, machines[0], placements[0])?,
                Node::open(1, machines[1], placements[1])?,
            ],
            parts: Default::default(),
            jobs: Vec::new(),
            free: Vec::new(),
            notes: Vec::new(),
            noted_at: Vec::new(),
            spans: None,
            left_count: 0,
        })
    }

    /// Runs a program on each host until both are over.
    pub(crate) fn run(&mut self, apps: [Box<dyn App>; 2]) -> Result<()> {
        for (node, app) in apps.into_iter().enumerate() {
            self.nodes[node].app = Some(app);
        }
        self.step(0)?;
        self.step(1)?;
        let mut count = 0;
        while self.left_count < 2 {
            let Some(Reverse(planned)) = self.events.pop() else {
                bail!("nothing happens any more at {} µs: {}", self.now / 1000, self.state());
            };
            assert!(planned.at >= self.now, "time goes on");
            self.now = planned.at;
            self.on_event(planned.event)?;
            count += 1;
            if count > EVENT_COUNT_MAX {
                bail!("no end after {count} events: {}", self.state());
            }
        }
        match self.nodes.iter().map(|node| node.memory.wrong_len).sum() {
            0 => Ok(()),
            wrong => bail!("{wrong} bytes arrived that were not sent"),
        }
    }

    fn state(&self) -> String {
        let of = |node: &Node| {
            format!(
                "{:?} waiting {} next {:?}",
                node.inbox,
                node.is_waiting,
                node.endpoint.next_timeout()
            )
        };
        format!("{}; {}", of(&self.nodes[0]), of(&self.nodes[1]))
    }

    fn plan(&mut self, at: u64, event: Event) {
        self.order += 1;
        self.events.push(Reverse(Planned { at, order: self.order, event }));
    }

    fn on_event(&mut self, event: Event) -> Result<()> {
        match event {
            Event::Finish { node, part, epoch } => self.on_finish(node, part, epoch),
            Event::HandOver { node, job } => {
                self.jobs[job].is_handed_over = true;
                self.go_on(node, job);
                Ok(())
            }
            Event::Arrive { node, frame } => {
                self.on_arrival(node, *frame);
                Ok(())
            }
            Event::Interrupt { node } => {
                self.nodes[node].interrupt_at = None;
                self.take_ring(node, true);
                Ok(())
            }
            Event::Timer { node } => self.on_timer(node),
        }
    }

    // --- jobs ---

    fn spawn(&mut self, node: usize, stages: Stages, frame: u32) {
        let job = self.free.pop().unwrap_or_else(|| {
            self.jobs.push(Job::default());
            self.jobs.len() - 1
        });
        self.jobs[job] = Job { stages, current: None, is_handed_over: false, frame };
        self.go_on(node, job);
    }

    /// A job's next stage gets in line.
    fn go_on(&mut self, node: usize, job: JobId) {
        let Some(next) = self.jobs[job].stages.front() else {
            if self.jobs[job].current.is_none() {
                self.free.push(job);
            }
            return;
        };
        let (part, ns, is_calm, is_own) = (next.part, next.ns, next.is_calm, next.is_own);
        if part == Part::Wire {
            return self.go_to_wire(node, job);
        }
        self.parts[node][part as usize].add(job, ns, is_calm, is_own);
        self.serve(node, part);
    }

    /// Frames leave in the order in which the protocol made them, by whatever ways they came here: packets are numbered, and what
    /// is overtaken looks lost.
    fn go_to_wire(&mut self, node: usize, job: JobId) {
        let number = self.jobs[job].frame;
        self.nodes[node].at_wire.insert(number, job);
        while let Some(job) = self.nodes[node].next_at_wire() {
            let ns = self.jobs[job].stages.front().map_or(0, |stage| stage.ns);
            self.parts[node][Part::Wire as usize].add(job, ns, false, false);
        }
        self.serve(node, Part::Wire);
    }

    /// A part takes up its next job, if it is free or may be interrupted.
    fn serve(&mut self, node: usize, part: Part) {
        let now = self.now;
        let server = &mut self.parts[node][part as usize];
        if let Some(done) = server.interrupt(now) {
            self.note(node, part, done.job, done.since);
        }
        let server = &mut self.parts[node][part as usize];
        let Some(running) = server.start(now) else { return };
        let epoch = server.epoch;
        let job = &mut self.jobs[running.job];
        // An interrupted stage is current already. One handed over early is still being done elsewhere: its hook does nothing.
        if job.current.is_none() || job.is_handed_over {
            job.is_handed_over = false;
            job.current = job.stages.pop_front();
            let early_ns = job.current.as_ref().and_then(|stage| stage.early_ns);
            if let Some(early_ns) = early_ns {
                self.plan(now + early_ns, Event::HandOver { node, job: running.job });
            }
        }
        self.plan(running.until, Event::Finish { node, part, epoch });
    }

    fn note(&mut self, node: usize, part: Part, job: JobId, start_ns: u64) {
        let Some(spans) = &mut self.spans else { return };
        let job = &self.jobs[job];
        let Some(current) = &job.current else { return };
        if start_ns < self.now {
            let (end_ns, frame, what) = (self.now, job.frame, current.what);
            spans.push(Span { node, part, start_ns, end_ns, what, frame });
        }
    }

    fn on_finish(&mut self, node: usize, part: Part, epoch: u64) -> Result<()> {
        let server = &mut self.parts[node][part as usize];
        if server.epoch != epoch {
            return Ok(());
        }
        let Some(done) = server.finish() else { return Ok(()) };
        self.finish_job(node, part, done.job, done.since)?;
        self.serve(node, part);
        Ok(())
    }

    fn finish_job(&mut self, node: usize, part: Part, id: JobId, since: u64) -> Result<()> {
        let job = &mut self.jobs[id];
        // A stage that was handed over early ends here; what came behind it is under way already.
        let is_behind = job.current.as_ref().is_some_and(|stage| stage.part != part);
        if is_behind || job.current.is_none() {
            if let Some(spans) = &mut self.spans {
                let (end_ns, frame) = (self.now, job.frame);
                spans.push(Span { node, part, start_ns: since, end_ns, what: "fetch", frame });
            }
            return Ok(());
        }
        self.note(node, part, id, since);
        let job = &mut self.jobs[id];
        let was_handed_over = job.is_handed_over;
        let hook = job.current.take().map_or(Hook::Nothing, |stage| stage.hook);
        if !was_handed_over {
            self.go_on(node, id);
        }
        self.on_hook(node, hook)
    }

    fn on_hook(&mut self, node: usize, hook: Hook) -> Result<()> {
        match hook {
            Hook::Nothing => Ok(()),
            Hook::Arrived(frame) => {
                self.on_arrived(node, *frame);
                Ok(())
            }
            Hook::Take(frame, place) => {
                self.nodes[node].taken.insert(frame.number, (*frame, place));
                while let Some((frame, place)) = self.nodes[node].next_taken() {
                    self.take(node, &frame, place);
                }
                Ok(())
            }
            Hook::Left(frame) => {
                let at = self.now + self.nodes[node].costs.wire_delay;
                self.plan(at, Event::Arrive { node: 1 - node, frame });
                self.nodes[node].slots_used -= 1;
                let cause = match std::mem::take(&mut self.nodes[node].owes_upcall) {
                    true => Cause::Taken(Doer::Card),
                    false => Cause::Taken(Doer::Host),
                };
                self.pump(node, cause, Inbox::default());
                Ok(())
            }
            Hook::Tell(inbox) => {
                self.tell(node, inbox);
                Ok(())
            }
            Hook::Post { is_send, len } => self.post(node, is_send, len),
            Hook::PostNow { is_send, len } => self.post_now(node, is_send, len),
            Hook::Step => self.step(node),
        }
    }

    // --- frames ---

    /// A frame comes off the wire.
    fn on_arrival(&mut self, node: usize, frame: Frame) {
        let number = frame.number;
        let this = &self.nodes[node];
        let stages = match this.taker(&frame.load) {
            Doer::Card => this.taken_by_card(frame),
            Doer::Host => this.relayed_in(frame),
        };
        self.spawn(node, stages, number);
    }

    /// A frame lies in the host's memory: somebody must look.
    fn on_arrived(&mut self, node: usize, frame: Frame) {
        let this = &mut self.nodes[node];
        this.ring.push_back(frame);
        if this.placement.in_library {
            if !this.is_away {
                self.take_ring(node, false);
            }
            return;
        }
        let core = this.system_core();
        let is_busy = !self.parts[node][core as usize].is_quiet();
        let this = &mut self.nodes[node];
        if this.costs.interrupt_merged && is_busy {
            self.take_ring(node, false);
        } else if this.costs.interrupt_delay == 0 {
            self.take_ring(node, true);
        } else if this.interrupt_at.is_none() {
            let at = self.now + this.costs.interrupt_delay;
            this.interrupt_at = Some(at);
            self.plan(at, Event::Interrupt { node });
        }
    }

    /// The host handles what lies there.
    fn take_ring(&mut self, node: usize, with_interrupt: bool) {
        let mut is_first = with_interrupt;
        while let Some(frame) = self.nodes[node].ring.pop_front() {
            let (this, number) = (&self.nodes[node], frame.number);
            let (handle, engine_ns) = this.taken_by_host(frame);
            let mut stages = Stages::new();
            if std::mem::take(&mut is_first) {
                stages.push_back(stage(this.system_core(), this.costs.interrupt, "interrupt"));
            }
            stages.push_back(handle);
            if engine_ns > 0 {
                stages.push_back(stage(Part::Engine, engine_ns, "copy"));
            }
            self.spawn(node, stages, number);
        }
    }

    /// The protocol takes a frame. Frames are taken in the order in which they came: the card and the host would agree on it.
    fn take(&mut self, node: usize, frame: &Frame, place: Doer) {
        let now = self.now;
        self.nodes[node].on_frame(now, 1 - node as u64, frame);
        let told = self.nodes[node].poll_events(self.now);
        self.pump(node, Cause::Taken(place), told);
        self.set_timer(node);
    }

    /// Sends what the protocol has to send, as far as there is room, and tells the application.
    fn pump(&mut self, node: usize, cause: Cause, told: Inbox) {
        let mut told = (told != Inbox::default()).then_some(told);
        loop {
            let to = self.nodes[1 - node].secret;
            let this = &mut self.nodes[node];
            if this.slots_used >= this.costs.slots {
                this.owes_upcall |= cause == Cause::Taken(Doer::Card);
                break;
            }
            let Some(frame) = this.poll_frame(self.now, to) else { break };
            this.slots_used += 1;
            let number = frame.number;
            let rides = cause == Cause::Taken(Doer::Card) && this.maker(&frame.load) == Doer::Host;
            let riding = if rides && !self.waits_for_engine(node) { told.take() } else { None };
            let stages = self.nodes[node].sent(frame, cause, riding);
            self.spawn(node, stages, number);
        }
        if let Some(told) = told {
            self.tell_by(node, cause, told);
        }
        self.set_timer(node);
    }

    fn waits_for_engine(&self, node: usize) -> bool {
        !self.parts[node][Part::Engine as usize].is_quiet()
    }

    /// The way by which the application is told that something is complete.
    fn tell_by(&mut self, node: usize, cause: Cause, told: Inbox) {
        let this = &self.nodes[node];
        let (core, event) = (this.system_core(), this.costs.event);
        let mut stages = match cause {
            Cause::Taken(Doer::Card) if this.placement.matching == Doer::Card => {
                Stages::from([stage(Part::Bus, this.costs.bus_words(), "completion to the host")])
            }
            Cause::Taken(Doer::Card) => {
                let mut stages = this.upcall();
                stages.push_back(stage(core, this.costs.control + event, "complete"));
                stages
            }
            _ => Stages::from([stage(core, event, "complete")]),
        };
        // The handler of the last frame waits for the copies.
        let backlog_ns = self.parts[node][Part::Engine as usize].backlog_ns(self.now);
        if backlog_ns > 0 && told.received > 0 {
            stages.push_back(stage(core, backlog_ns, "wait for copies"));
        }
        stages.back_mut().expect("there is one").hook = Hook::Tell(told);
        self.spawn(node, stages, 0);
    }

    fn tell(&mut self, node: usize, told: Inbox) {
        let this = &mut self.nodes[node];
        this.inbox.sent += told.sent;
        let before = this.inbox.received;
        this.inbox.received += told.received;
        let now_at = this.inbox.received;
        let crossed = |at: &&u64| node == 1 && before < **at && **at <= now_at;
        if self.noted_at.iter().any(|at| crossed(&at)) {
            self.mark(node);
        }
        let this = &mut self.nodes[node];
        if this.is_waiting {
            this.is_waiting = false;
            self.look(node);
        }
    }

    // --- time ---

    fn set_timer(&mut self, node: usize) {
        let at = self.nodes[node].endpoint.next_timeout().0;
        if at < self.nodes[node].timer_at {
            self.nodes[node].timer_at = at;
            self.plan(at.max(self.now), Event::Timer { node });
        }
    }

    fn on_timer(&mut self, node: usize) -> Result<()> {
        let now = self.now;
        let this = &mut self.nodes[node];
        this.timer_at = u64::MAX;
        if this.endpoint.next_timeout().0 <= now {
            this.endpoint.on_timeout(Instant(now), &mut this.memory);
            let told = this.poll_events(now);
            self.pump(node, Cause::Taken(Doer::Host), told);
        }
        self.set_timer(node);
        Ok(())
    }

    // --- applications ---

    /// The application looks: something may be complete.
    fn look(&mut self, node: usize) {
        let ns = self.nodes[node].costs.poll;
        self.spawn(
            node,
            Stages::from([stage(Part::Host, ns, "look").then(Hook::Step).by_app()]),
            0,
        );
    }

    /// The application's next acts, up to one that takes time.
    fn step(&mut self, node: usize) -> Result<()> {
        loop {
            let (now, inbox) = (self.now, self.nodes[node].inbox);
            let Some(app) = &mut self.nodes[node].app else { return Ok(()) };
            let act = app.next(now, inbox);
            self.set_away(node, matches!(act, Act::Compute { .. }));
            match act {
                Act::Send { len } => self.post_by_app(node, true, len),
                Act::Recv { len } => self.post_by_app(node, false, len),
                Act::Compute { ns } => {
                    let work = stage(Part::Host, ns, "compute").then(Hook::Step).by_app();
                    self.spawn(node, Stages::from([work]), 0);
                }
                Act::Poll => self.look(node),
                Act::Wait => self.nodes[node].is_waiting = true,
                Act::Mark => {
                    self.mark(node);
                    continue;
                }
                Act::End => {
                    self.nodes[node].app = None;
                    self.left_count += 1;
                }
            }
            return Ok(());
        }
    }

    /// A library that needs to be called does something only while it is.
    fn set_away(&mut self, node: usize, is_away: bool) {
        self.nodes[node].is_away = is_away;
        if !is_away && self.nodes[node].placement.in_library {
            self.take_ring(node, false);
        }
    }

    fn post_by_app(&mut self, node: usize, is_send: bool, len: u64) {
        let costs = &self.nodes[node].costs;
        let (base, what) = match is_send {
            true => (costs.post_send, "post send"),
            false => (costs.post_recv, "post receive"),
        };
        let ns = costs.post(base, len);
        let post = stage(Part::Host, ns, what).then(Hook::Post { is_send, len }).by_app();
        self.spawn(node, Stages::from([post]), 0);
    }

    /// The application's call is over: the protocol has the post, or the card gets it.
    fn post(&mut self, node: usize, is_send: bool, len: u64) -> Result<()> {
        let this = &self.nodes[node];
        let is_posted_by_card = this.placement.matching == Doer::Card && this.costs.card_post > 0;
        if is_posted_by_card {
            let part =
                if is_send && this.costs.has_two_processors { Part::CardOut } else { Part::CardIn };
            let ns = this.costs.card_post;
            let read = stage(part, ns, "read descriptor").then(Hook::PostNow { is_send, len });
            self.spawn(node, Stages::from([read]), 0);
        } else {
            self.post_now(node, is_send, len)?;
        }
        self.step(node)
    }

    fn post_now(&mut self, node: usize, is_send: bool, len: u64) -> Result<()> {
        let (now, this) = (self.now, &mut self.nodes[node]);
        let posted = match is_send {
            true => this.post_send(now, len),
            false => this.post_recv(now, len),
        };
        if let Err(error) = posted {
            bail!("a post of {len} bytes was refused: {error:#}");
        }
        let told = self.nodes[node].poll_events(self.now);
        self.pump(node, Cause::Post, told);
        Ok(())
    }

    fn mark(&mut self, node: usize) {
        let busy =
            [0, 1].map(|host: usize| Part::ALL.map(|part| self.parts[host][part as usize].busy_ns));
        self.notes.push(Noted { node, at: self.now, busy });
    }
}
