//! The engine: a core behind a lock, requests that can be waited for, and who drives.
//!
//! One lock, held by whoever drives for as long as nobody else wants it. A thread that wants it says so (`wanted`), and the
//! driver lets it in after the turn it is in: the lock itself is not fair, a spinning driver would win it every time.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, TryLockError};
use std::task::Waker;
use std::time::Duration;

use packhorse_link::fork::Mark;
use packhorse_link::mem::{Memory, Table};
use packhorse_link::{Copier, Link, loan};
use packhorse_proto::{
    Address, BufId, Claim, Criteria, Envelope, Event, Failure, Identity, Instant, Limits, List,
    Opening, PathInfo, Payload, PeerError, PeerId, PostError, Secret, SendSpec, Settings, Space,
    Tag, Unaccepted, Use,
};
use rustix::rand::{GetRandomFlags, getrandom};

use crate::baton::Errand;
use crate::bell::Bell;
use crate::commands::{Commands, Post};
use crate::copies::CopyOffload;
use crate::core::{Answer, Core, OpenError};
use crate::crowd::Crowd;
use crate::doze::Doze;
use crate::duties::Offload;
use crate::entry::Kind;
use crate::helper::{Helper, HelperCpus};
use crate::looks::Looks;
use crate::onesided::{Regions, Written};
use crate::pairs::{Asked, Rejected};
use crate::queue::{Lost, Notify, Queues};
use crate::requests::{Arrival, Ended, Outcome, RequestId, Requests, UNASKED_LEN};

/// Who turns the engine when no application thread waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// Nobody: progress is made inside the application's calls.
    Inline,
    /// A helper thread.
    #[default]
    Thread,
}

/// How an engine is opened.
#[derive(Clone, Debug)]
pub struct Config {
    /// The protocol's knobs. `has_helper` follows the placement, frame length and payload check the links.
    pub settings: Settings,
    /// What the network can make it hold.
    pub limits: Limits,
    /// Who turns it.
    pub placement: Placement,
    /// What the helper may do.
    pub offload: Offload,
    /// On which cores the helper may run.
    pub helper_cpus: HelperCpus,
    /// Whether a second thread copies payload of large messages.
    pub copy_offload: CopyOffload,
    /// A thread that waits spins so long before it sleeps.
    pub spin_ns: u64,
    /// Who this endpoint is; drawn if not given.
    pub identity: Option<Identity>,
    /// With `settings.payload_check`: sum bodies on every link, not only on those without a check of their own.
    pub check_all: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            settings: Settings::default(),
            limits: Limits::default(),
            placement: Placement::default(),
            offload: Offload::default(),
            helper_cpus: HelperCpus::default(),
            copy_offload: CopyOffload::default(),
            spin_ns: 50_000,
            identity: None,
            check_all: true,
        }
    }
}

/// A send to post.
#[derive(Clone, Copy, Debug)]
pub struct Send {
    /// To whom.
    pub peer: PeerId,
    /// Matching space.
    pub space: Space,
    /// Match bits.
    pub tag: Tag,
    /// 64 bits beside the payload.
    pub immediate: Option<u64>,
    /// Complete only when a receive took it.
    pub until_matched: bool,
}

/// A receive to post.
#[derive(Clone, Copy, Debug)]
pub struct Recv {
    /// What it takes.
    pub criteria: Criteria,
    /// Priority or overflow.
    pub list: List,
    /// Once or many times.
    pub uses: Use,
    /// Take the envelope only.
    pub header_only: bool,
}

/// A post that was refused, with the memory it came with.
#[derive(Debug)]
pub struct Refused {
    /// Why.
    pub error: PostError,
    /// Given back.
    pub memory: Option<Memory>,
}

pub(crate) type DynCore = Core<Box<dyn Link>, Table>;

/// What the lock protects.
pub(crate) struct Inner {
    pub(crate) core: DynCore,
    pub(crate) requests: Requests,
    pub(crate) queues: Queues,
    pub(crate) commands: Arc<Commands>,
    /// Memory exposed to peers.
    pub(crate) regions: Regions,
    /// To be woken when the lock is free.
    pub(crate) wakers: Vec<Waker>,
    /// An application thread drives, and dozes at the moment.
    pub(crate) is_dozing: bool,
    /// Somebody sleeps, or is about to, in a loop of its own.
    pub(crate) is_bell_armed: bool,
    /// Threads that wait for another's driving.
    pub(crate) sleeper_count: u32,
    /// When a send was posted that did not wait for company.
    pub(crate) sent_at: Instant,
    /// Among what was posted since the helper was told is a message that needs to be granted.
    pub(crate) has_posted_long: bool,
    /// Sends in a row that were posted at once behind each other, to a peer to which something is on its way.
    pub(crate) burst_count: u32,
    /// Requests ended since the sleepers were told.
    pub(crate) has_news: bool,
    /// What `Closed` said.
    pub(crate) closed: Option<bool>,
    /// Nothing will happen any more: whoever waits goes.
    pub(crate) is_stopped: bool,
    /// Which queue is told of copied sends that fail.
    pub(crate) lost_notify: Option<Notify>,
    /// Notices of peers' writes that a reader took out of its queue are not taken from there (`Engine::hold_notices`).
    pub(crate) is_reader_full: bool,
    /// Peers' writes that would be told are refused.
    pub(crate) are_notices_held: bool,
    /// Events that belong to no request, for `poll_peer_event`.
    pub(crate) peer_events: std::collections::VecDeque<Event>,
    /// Who extracts streams, and who waits to send them.
    pub(crate) streams: crate::streams::Waiters,
}

/// Sends that follow each other so closely are a burst.
const BURST_NS: u64 = 10_000;
/// With so many it is a long one.
const LONG_BURST: u32 = 8;

/// A handler of streams is polled with a frame in hand and the engine locked: it would wait for itself.
const CALLED_UNDER_LOAN: &str = "an endpoint was called inside the `poll` of a future that shares a stream handler with a \
     waiting `receive`; call it between awaits, or await it";

/// A thread panicked in the middle of the endpoint's rules: what it left may be anything. Nobody may go on with it, nor wait for what
/// nobody will do.
#[cold]
pub(crate) fn broken() -> ! {
    panic!(
        "another thread panicked inside this endpoint (its message comes before): the endpoint cannot go on"
    );
}

/// Events about peers kept for who asks; older ones are dropped.
const PEER_EVENT_COUNT_MAX: usize = 1024;

impl Inner {
    /// Turns the core and hands out what came of it.
    pub(crate) fn turn(&mut self, now: Instant) -> usize {
        self.turn_with(now, Offload::Both)
    }

    /// The same for a helper that may not do everything.
    pub(crate) fn turn_with(&mut self, now: Instant, duties: Offload) -> usize {
        self.turn_by(now, |core| match duties {
            Offload::Both => core.turn(now),
            some => core.turn_with(now, some),
        })
    }

    /// The same for who looks again and again, and mostly in vain.
    pub(crate) fn look(&mut self, now: Instant) -> usize {
        match self.core.ask(now) {
            Answer::Nothing => 0,
            answer => self.turn_after(&answer, now, false),
        }
    }

    /// The turn behind a question to the links. `is_late`: the clock was read a few looks ago.
    pub(crate) fn turn_after(&mut self, answer: &Answer, now: Instant, is_late: bool) -> usize {
        self.turn_by(now, |core| core.turn_after(answer, now, is_late))
    }

    #[inline(always)]
    fn turn_by(&mut self, now: Instant, turn: impl FnOnce(&mut DynCore) -> usize) -> usize {
        let may_be_left = self.commands.are_wanted();
        if may_be_left {
            self.commands.on_turn();
        }
        let work = turn(&mut self.core);
        let now = now.max(self.core.turned_at());
        let is_left = may_be_left && self.commands.on_turned();
        if is_left {
            self.run_commands(now);
        }
        self.settle(now);
        if work == 0 && !is_left {
            self.core.rest();
        }
        work
    }

    /// Events become ends of requests.
    pub(crate) fn settle(&mut self, now: Instant) {
        self.settle_streams();
        while let Some(event) = self.core.endpoint().poll_event() {
            match event {
                Event::Sent { user, peer, result, .. } => {
                    self.end(user, Outcome::Sent { peer, result }, now);
                }
                Event::Received { user, envelope, offset, placed_len, result, .. } => {
                    self.on_received(
                        user,
                        Arrival { envelope, offset, placed_len, result },
                        None,
                        now,
                    );
                }
                Event::Overflowed { user, envelope, overflow_user, offset, placed_len, .. } => {
                    let arrival = Arrival { envelope, offset, placed_len, result: Ok(()) };
                    self.on_received(user, arrival, Some(RequestId(overflow_user)), now);
                }
                Event::Unlinked { user, source, failure, .. } => {
                    self.end(user, Outcome::Unlinked { source, failure }, now);
                }
                Event::Operated { user, peer, kind, len, result, .. } => {
                    self.end(user, Outcome::Operated { peer, kind, len, result }, now);
                }
                Event::Written { region, peer, offset, len, immediate, .. } => {
                    let written = Written { peer, offset, len, immediate };
                    self.on_written(region, written, now);
                }
                Event::Lost { peer, space, tag, len, failure } => {
                    self.on_lost(Lost { peer, space, tag, len, failure }, now);
                }
                Event::Closed { clean } => {
                    self.closed = Some(clean);
                    self.has_news = true;
                }
                Event::Joined { .. } | Event::Left { .. } => {
                    if self.peer_events.len() == PEER_EVENT_COUNT_MAX {
                        self.peer_events.pop_front();
                    }
                    self.peer_events.push_back(event);
                }
            }
        }
        self.queues.publish();
    }

    /// A message came. `overflow`: it lies in that request's memory.
    fn on_received(
        &mut self,
        user: u64,
        arrival: Arrival,
        overflow: Option<RequestId>,
        now: Instant,
    ) {
        let id = RequestId(user);
        let Some(pending) = self.requests.pending(id) else { return };
        if let Some(notify) = pending.notify {
            let kind = if overflow.is_some() { Kind::Overflowed } else { Kind::Received };
            return self.on_received_queued(id, notify, kind, arrival, overflow, now);
        }
        if let Some(arrivals) = &mut pending.arrivals {
            arrivals.push_back(arrival);
            self.wakers.extend(pending.waker.take());
            self.has_news = true;
            return;
        }
        let Arrival { envelope, placed_len, result, .. } = arrival;
        self.end(user, Outcome::Received { envelope, placed_len, result }, now);
    }

    pub(crate) fn end(&mut self, user: u64, outcome: Outcome, now: Instant) {
        let id = RequestId(user);
        if let Some(notify) = self.requests.pending(id).and_then(|pending| pending.notify) {
            return self.end_queued(id, notify, outcome, now);
        }
        let core = &mut self.core;
        let waker = self.requests.end(id, outcome, now, |id| core.memory().remove(id));
        self.wakers.extend(waker);
        self.has_news = true;
    }
}

/// An endpoint that many threads may use. Always behind an `Arc`.
pub struct Engine {
    /// Of the process that opened it.
    mark: Mark,
    pub(crate) inner: Mutex<Inner>,
    pub(crate) wanted: AtomicU32,
    pub(crate) commands: Arc<Commands>,
    pub(crate) ended: Arc<Ended>,
    pub(crate) changed: Condvar,
    /// Where application threads sleep, and where the helper does.
    pub(crate) doze: Doze,
    pub(crate) helper_doze: Doze,
    pub(crate) bell: Bell,
    pub(crate) helper: Helper,
    pub(crate) helper_cpus: HelperCpus,
    pub(crate) offload: Offload,
    pub(crate) crowd: Crowd,
    pub(crate) looks: Looks,
    /// Somebody waits without driving, by futures or by looks at the ring of a queue, and counts on the helper.
    pub(crate) is_watched: AtomicBool,
    pub(crate) spin_ns: u64,
    /// When an application thread last asked without waiting.
    pub(crate) asked_at_ns: AtomicU64,
    /// What the system's clock said when the engine's was 0.
    pub(crate) origin_ns: u64,
    address: Address,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("placement", &self.placement()).finish_non_exhaustive()
    }
}

impl Engine {
    /// Opens an endpoint over these links; the first one's locator goes into its address.
    pub fn open(config: Config, links: Vec<Box<dyn Link>>) -> Result<Arc<Self>, OpenError> {
        let system = |what| move |error: io::Error| OpenError::System { what, error };
        let mut settings = config.settings;
        let has_helper = config.placement == Placement::Thread && config.offload != Offload::None;
        settings.has_helper = has_helper;
        let fds = links.iter().filter_map(|link| link.wake_fd()).map(|fd| fd.try_clone_to_owned());
        let fds = fds.collect::<io::Result<Vec<OwnedFd>>>();
        let doze = fds.and_then(Doze::new).map_err(system("making a wake descriptor"))?;
        let helper_doze = doze.twin().map_err(system("making a wake descriptor"))?;
        let bell = doze.with_links(Bell::new).map_err(system("making a wake descriptor"))?;
        let opening = draw_opening(config.identity, &links).map_err(system("getrandom"))?;
        let origin_ns = monotonic_ns();
        let payload_check = settings.payload_check;
        let mut core =
            Core::open(settings, config.limits, opening, links, Table::default(), Instant(0))?;
        for number in 0..core.links().len() {
            let is_checked = core.links()[number].about().is_checked;
            core.set_payload_check(
                number as u8,
                payload_check && (config.check_all || !is_checked),
            );
        }
        if let Some(len_min) = config.copy_offload.len_min() {
            let cpus = config.helper_cpus.clone();
            let copier = Copier::start(len_min, move || cpus.apply(None));
            core.set_copier(copier.map_err(system("starting the thread that copies"))?);
        }
        core.set_clock(Box::new(move || Instant(monotonic_ns() - origin_ns)));
        let address = core.rules().address();
        let commands = Arc::new(Commands::default());
        let requests = Requests::default();
        let ended = requests.ended();
        let inner = Inner {
            core,
            requests,
            queues: Queues::default(),
            commands: Arc::clone(&commands),
            regions: Regions::default(),
            wakers: Vec::new(),
            is_dozing: false,
            is_bell_armed: false,
            sleeper_count: 0,
            sent_at: Instant(0),
            has_posted_long: false,
            burst_count: 0,
            has_news: false,
            closed: None,
            is_stopped: false,
            lost_notify: None,
            is_reader_full: false,
            are_notices_held: false,
            peer_events: std::collections::VecDeque::new(),
            streams: crate::streams::Waiters::default(),
        };
        let engine = Arc::new(Self {
            mark: Mark::new().map_err(system("getting memory that a fork wipes"))?,
            inner: Mutex::new(inner),
            wanted: AtomicU32::new(0),
            commands,
            ended,
            changed: Condvar::new(),
            doze,
            helper_doze,
            bell,
            helper: Helper::default(),
            helper_cpus: config.helper_cpus,
            offload: config.offload,
            crowd: Crowd::default(),
            looks: Looks::default(),
            is_watched: AtomicBool::new(false),
            spin_ns: config.spin_ns,
            asked_at_ns: AtomicU64::new(0),
            origin_ns,
            address,
        });
        if has_helper {
            Helper::start(&engine).map_err(system("starting the helper thread"))?;
        }
        Ok(engine)
    }

    /// The engine's clock.
    #[inline]
    pub fn now(&self) -> Instant {
        Instant(monotonic_ns() - self.origin_ns)
    }

    /// The capability to send to this endpoint.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Who turns it.
    pub fn placement(&self) -> Placement {
        if self.helper.baton.is_present() { Placement::Thread } else { Placement::Inline }
    }

    /// Changes who turns it: starts or resumes the helper, or lets it pause. What peers were told at first contact stays: they
    /// give one that was opened with a helper less time to answer, so a long pause is better opened without.
    pub fn set_placement(self: &Arc<Self>, placement: Placement) -> io::Result<()> {
        match placement {
            Placement::Thread if self.offload == Offload::None => Ok(()),
            Placement::Thread => Helper::start(self),
            Placement::Inline => {
                self.run_errand(self.helper.baton.pause());
                Ok(())
            }
        }
    }

    /// Whether this is the process that opened it. In one that was forked from that, nothing of it may be used: its threads are
    /// not there, its lock may be held by one of them, and its links are the parent's.
    #[inline]
    pub fn is_here(&self) -> bool {
        self.mark.is_here()
    }

    /// # Panics
    /// In a process that was forked from the one that opened it.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Inner> {
        assert!(
            self.is_here(),
            "this endpoint belongs to the process that this one was forked from; open another here"
        );
        if let Some(inner) = self.try_lock() {
            return inner;
        }
        assert!(!loan::is_lent(), "{CALLED_UNDER_LOAN}");
        if !self.commands.are_wanted() {
            self.commands.want();
        }
        self.wanted.fetch_add(1, Ordering::Relaxed);
        let inner = self.inner.lock();
        self.wanted.fetch_sub(1, Ordering::Relaxed);
        inner.unwrap_or_else(|_| broken())
    }

    /// The lock, if nobody has it.
    ///
    /// # Panics
    /// If a thread panicked with it.
    #[inline]
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, Inner>> {
        match self.inner.try_lock() {
            Ok(inner) => Some(inner),
            Err(TryLockError::WouldBlock) => None,
            Err(TryLockError::Poisoned(_)) => broken(),
        }
    }

    /// For posts and what must not overtake one: those that were left come first. Whoever calls this calls `release`.
    pub(crate) fn lock_in_order(&self) -> MutexGuard<'_, Inner> {
        let mut inner = self.lock();
        if self.commands.may_have() {
            inner.run_commands(self.now());
        }
        inner
    }

    /// Unlocks and wakes whom the work woke. Wakers are foreign code: never called under the lock.
    pub(crate) fn release(&self, mut inner: MutexGuard<'_, Inner>) {
        let has_news = std::mem::take(&mut inner.has_news);
        let sleeper_count = inner.sleeper_count;
        // A turn told the links that nobody sleeps; if somebody does, a link in memory would not wake him.
        let must_knock = inner.is_dozing && (has_news || !inner.core.keep_armed());
        if inner.is_bell_armed {
            self.keep_bell(&mut inner, has_news);
        }
        if inner.wakers.is_empty() {
            drop(inner);
        } else {
            let wakers = std::mem::take(&mut inner.wakers);
            drop(inner);
            wakers.into_iter().for_each(Waker::wake);
        }
        if has_news && sleeper_count > 0 {
            self.changed.notify_all();
        }
        if must_knock {
            self.doze.knock();
        }
    }

    /// After a post: what can leave leaves now, unless it may wait.
    pub(crate) fn after_post(
        &self,
        mut inner: MutexGuard<'_, Inner>,
        now: Instant,
        may_wait: bool,
    ) {
        if !may_wait && inner.core.has_output() {
            inner.core.transmit(now);
        }
        inner.settle(now);
        // What could not leave now is due now, for whoever sleeps.
        let is_left = !may_wait && inner.core.has_output();
        let is_asleep = self.doze.is_asleep() || self.helper_doze.is_asleep();
        let due = match is_asleep {
            true if is_left => Instant(0),
            true => inner.core.next_timeout_for_sleep(now),
            false => Instant::NEVER,
        };
        // Whoever sleeps in a loop of its own and has nobody to drive for it does not know of new timers.
        inner.has_news |= inner.is_bell_armed && !self.helper.baton.is_present();
        let errand = self.errand_of_post(&mut inner, now);
        self.release(inner);
        self.looks.on_post();
        self.doze.wake_before(due);
        self.helper_doze.wake_before(due);
        self.run_errand(errand);
    }

    /// After a post of which nothing came, or a frame that has left: no event, nothing to send. Mostly there is nobody to be told of it.
    pub(crate) fn after_plain_post(&self, inner: MutexGuard<'_, Inner>, now: Instant) {
        let is_somebody_there = inner.has_posted_long
            || inner.is_bell_armed
            || inner.core.has_output()
            || self.doze.is_asleep()
            || self.helper_doze.is_asleep()
            || self.helper.baton.is_driving()
            || self.is_watched.load(Ordering::Relaxed);
        if is_somebody_there {
            return self.after_post(inner, now, false);
        }
        drop(inner);
        self.looks.on_post();
    }

    /// What a post means for the helper. What has left, and needs no grant, waits in the peer's socket until its application comes for it, and
    /// the answer here: nobody need be woken for that, and a helper that drives had better not be woken by it.
    fn errand_of_post(&self, inner: &mut Inner, now: Instant) -> Errand {
        let is_long = std::mem::take(&mut inner.has_posted_long);
        let baton = &self.helper.baton;
        if is_long || inner.core.has_output() || self.is_watched.load(Ordering::Relaxed) {
            baton.on_post(is_long)
        } else if baton.is_driving() && !self.needs_driver(inner) {
            baton.on_turn(now.max(self.now()), false)
        } else {
            Errand::None
        }
    }

    /// The time for a send, and whether it may wait for company: something is on its way to the same peer, and whoever drives
    /// comes by soon. Then the time of the last turn will do: reading the clock costs as much as the post.
    pub(crate) fn send_time(&self, inner: &mut Inner, peer: PeerId) -> (Instant, bool) {
        let is_busy = inner.core.rules().is_busy(peer);
        if is_busy && self.is_driven_soon(inner) {
            return (inner.core.turned_at(), true);
        }
        let now = self.now();
        let sent_at = std::mem::replace(&mut inner.sent_at, now);
        if !is_busy || now - sent_at >= BURST_NS {
            inner.burst_count = 0;
            return (now, false);
        }
        inner.burst_count += 1;
        (now, self.is_call_heard(now, inner.burst_count))
    }

    /// A burst goes on while the helper sleeps on the links, or is away. Called near it looks around every fraction of a millisecond, and what
    /// is posted meanwhile leaves together. Costs as much as a send or two, once for a burst: one that sleeps on the links would be woken by the
    /// first answer anyway; one that is away is left there for a few messages.
    #[cold]
    fn is_call_heard(&self, now: Instant, burst_count: u32) -> bool {
        let is_driving = self.helper.baton.is_driving();
        if is_driving || burst_count == LONG_BURST {
            self.run_errand(self.helper.baton.on_call(now));
        }
        is_driving
    }

    /// Posts a send of lent memory. It does not wait for whoever is in a turn; if it is he who finds it to be wrong, it ends so
    /// ([`Outcome::Refused`]).
    pub fn send(&self, send: Send, memory: Memory) -> Result<RequestId, Refused> {
        if self.commands.is_turning() {
            return self.post_beside(Post::Send(send, memory));
        }
        self.post_send(send, memory, None)
    }

    pub(crate) fn post_send(
        &self,
        send: Send,
        memory: Memory,
        notify: Option<Notify>,
    ) -> Result<RequestId, Refused> {
        let mut inner = self.lock_in_order();
        let (now, may_wait) = self.send_time(&mut inner, send.peer);
        let request = inner.put_send(now, may_wait, send, memory, notify)?;
        self.after_post(inner, now, may_wait);
        Ok(request)
    }

    /// Sends a copy of these bytes; nothing to wait for. Refused if the resend pool is full or they are too long for it.
    pub fn send_copied(&self, send: Send, bytes: &[u8]) -> Result<(), PostError> {
        let mut inner = self.lock_in_order();
        let (now, may_wait) = self.send_time(&mut inner, send.peer);
        let spec = send.spec(Payload::Copied(bytes), RequestId(u64::MAX));
        if may_wait {
            inner.core.endpoint().post_send(now, spec)?;
            self.after_post(inner, now, may_wait);
        } else {
            inner.core.post_send(now, spec)?;
            self.after_plain_post(inner, now); // mostly it has left, and nobody is told of that
        }
        Ok(())
    }

    /// Posts a receive into lent memory, as `send` does.
    pub fn recv(&self, recv: Recv, memory: Memory) -> Result<RequestId, Refused> {
        if self.commands.is_turning() {
            return self.post_beside(Post::Recv(recv, memory));
        }
        self.post_recv(recv, memory, None)
    }

    pub(crate) fn post_recv(
        &self,
        recv: Recv,
        memory: Memory,
        notify: Option<Notify>,
    ) -> Result<RequestId, Refused> {
        debug_assert!(memory.is_writable());
        let mut inner = self.lock_in_order();
        // Reading the clock costs as much as a plain receive, and one that finds nothing starts nothing.
        let is_plain = !inner.core.rules().may_have_for_receive();
        let now = if is_plain { inner.core.turned_at() } else { self.now() };
        let request = inner.put_recv(now, recv, memory, notify)?;
        if is_plain && !inner.core.has_output() {
            self.after_plain_post(inner, now); // no event, no timer, no frame
        } else {
            self.after_post(inner, now, false);
        }
        Ok(request)
    }

    /// Receives a claimed message.
    pub fn recv_claimed(&self, claim: Claim, memory: Memory) -> Result<RequestId, Refused> {
        self.post_claimed(claim, memory, None)
    }

    pub(crate) fn post_claimed(
        &self,
        claim: Claim,
        memory: Memory,
        notify: Option<Notify>,
    ) -> Result<RequestId, Refused> {
        let mut inner = self.lock_in_order();
        let now = self.now();
        let len = memory.len();
        inner.has_posted_long |= len > UNASKED_LEN;
        let id = inner.core.memory().insert(memory);
        let request = inner.requests.next_id();
        let posted = inner.core.with(|endpoint, memory| {
            endpoint.recv_claimed(now, claim, BufId(id), len, request.0, memory)
        });
        match posted {
            Ok(req) => {
                let slot = inner.requests.put(req, Some(id), len);
                (slot.notify, slot.is_receive) = (notify, true);
                self.after_post(inner, now, false);
                Ok(request)
            }
            Err(error) => Err(Refused { error, memory: inner.core.memory().remove(id) }),
        }
    }

    /// Asks for a message no receive took yet; the links are asked before it says that there is none (`looks`).
    pub fn probe(&self, criteria: &Criteria) -> Option<Envelope> {
        self.poll_once(|inner| inner.core.probe(criteria))
    }

    /// Takes such a message out of matching: only who holds the claim gets it.
    pub fn claim(&self, criteria: &Criteria) -> Option<(Claim, Envelope)> {
        self.poll_once(|inner| {
            inner.core.probe(criteria)?;
            inner.core.endpoint().claim(self.now(), criteria)
        })
    }

    /// Throws a claimed message away.
    pub fn discard(&self, claim: Claim) -> Result<(), PostError> {
        if !self.is_here() {
            return Err(PostError::Closing);
        }
        let mut inner = self.lock();
        let now = self.now();
        inner.core.endpoint().discard(now, claim)?;
        self.after_post(inner, now, false);
        Ok(())
    }

    /// Cancels a request; it ends at once, whatever the peer does. False: it had ended before.
    pub fn cancel(&self, id: RequestId) -> bool {
        let mut inner = self.lock_in_order();
        let now = self.now();
        let Some(req) = inner.requests.pending(id).map(|pending| pending.req) else { return false };
        let is_cancelled = inner.core.endpoint().cancel(now, req);
        self.after_post(inner, now, false);
        is_cancelled
    }

    /// Nobody will ask for this request any more; a receive is cancelled, a send goes on.
    pub fn abandon(&self, id: RequestId, is_receive: bool) {
        if !self.is_here() {
            return; // the parent goes on with it
        }
        let mut inner = self.lock_in_order();
        let req = inner.requests.pending(id).map(|pending| pending.req);
        inner.requests.detach(id);
        if let Some(req) = req.filter(|_| is_receive) {
            let now = self.now();
            inner.core.endpoint().cancel(now, req);
            self.after_post(inner, now, false);
        }
    }

    /// Calls `read` with each piece of `len` bytes at `offset` of an open request's memory.
    pub fn read(&self, id: RequestId, offset: u64, len: usize, out: &mut Vec<u8>) -> bool {
        let mut inner = self.lock();
        let Some(memory) = inner.requests.pending(id).and_then(|slot| slot.memory_id) else {
            return false;
        };
        inner.core.memory().copy_out(memory, offset, len, out)
    }

    /// Makes a peer known.
    pub fn add_peer(&self, address: &Address) -> Result<PeerId, PeerError> {
        self.lock().core.endpoint().add_peer(address)
    }

    /// Who a peer is.
    pub fn identity_of(&self, peer: PeerId) -> Option<Identity> {
        self.lock().core.rules().identity_of(peer)
    }

    /// Where a peer said it is, in its address.
    pub fn first_locator_of(&self, peer: PeerId) -> Option<packhorse_proto::Locator> {
        self.lock().core.rules().first_locator_of(peer)
    }

    /// Ends what there is with a peer and forgets it.
    pub fn forget_peer(&self, peer: PeerId) {
        let mut inner = self.lock_in_order();
        let now = self.now();
        inner.core.endpoint().forget_peer(now, peer);
        self.after_post(inner, now, false);
    }

    /// A peer came or went.
    pub fn poll_peer_event(&self) -> Option<Event> {
        self.lock().peer_events.pop_front()
    }

    /// Shows all counters: the protocol's, the engine's, the links' (by the number of the link).
    pub fn each_counter(&self, mut show: impl FnMut(&str, u64)) {
        let mut inner = self.lock();
        inner.core.rules().counters().each().for_each(|(name, value)| show(name, value));
        inner.core.counters().each().for_each(|(name, value)| show(name, value));
        show("looks_of_helper", self.helper.look_count());
        let (held_len, envelope_count) = inner.core.rules().held();
        show("held_len", held_len);
        show("envelope_count", u64::from(envelope_count));
        show("requests_pending", inner.requests.pending_count() as u64);
        show("memory_lent", inner.core.memory().len() as u64);
        for (index, link) in inner.core.links().iter().enumerate() {
            let kind = link.about().kind;
            link.each_counter(&mut |name, value| show(&format!("{kind}{index}_{name}"), value));
        }
    }

    /// What a person should know, oldest first.
    pub fn remarks(&self) -> Vec<String> {
        self.lock().core.remarks().map(str::to_owned).collect()
    }

    /// The paths to a peer, and the pairs that are not tried.
    pub fn paths(&self, peer: PeerId) -> (Vec<PathInfo>, Vec<Rejected>) {
        let inner = self.lock();
        (inner.core.rules().paths(peer), inner.core.rejected(peer).copied().collect())
    }

    /// How first contact with a peer was tried last.
    pub fn asked(&self, peer: PeerId) -> Vec<Asked> {
        self.lock().core.asked(peer).copied().collect()
    }

    /// The links: what they say of themselves, and where they are.
    pub fn links(&self) -> Vec<(packhorse_link::About, packhorse_link::Locator)> {
        let mut inner = self.lock();
        inner.core.links().iter().map(|link| (link.about().clone(), link.locator())).collect()
    }

    /// What the links say of themselves.
    pub fn about_links(&self) -> Vec<packhorse_link::About> {
        self.lock().core.links().iter().map(|link| link.about().clone()).collect()
    }

    /// Starts to close: nothing new is taken, what was accepted is finished. `wait_closed` sees the end.
    pub fn close(&self) {
        let mut inner = self.lock_in_order();
        let now = self.now();
        inner.core.endpoint().close(now);
        self.after_post(inner, now, false);
    }

    /// Ends the helper, closes the links and takes all memory back, whoever still holds requests or waits for some: on return no
    /// byte of the application's is read or written any more. For the last owner, after closing.
    pub fn stop(&self) {
        self.helper.end(self);
        let mut inner = self.lock_in_order();
        inner.core.drop_links();
        // Whoever waits, in whatever way, learns of it: `forget_links` below waits for whoever sleeps on them.
        (inner.is_stopped, inner.has_news) = (true, true);
        // What closing did not end in its time ends now: nobody may wait for a request that nothing can end.
        let now = self.now();
        inner.drop_regions();
        for id in inner.requests.all_pending() {
            inner.end(
                id.0,
                Outcome::Unlinked { source: None, failure: Some(Failure::Closing) },
                now,
            );
        }
        inner.queues.publish();
        self.release(inner);
        self.doze.forget_links();
    }

    /// Whether the request has ended, or its name is void.
    pub fn is_over(&self, id: RequestId) -> bool {
        self.lock().requests.is_done(id)
    }

    /// Drives until closing is complete, or until the time is over. True: all messages were accepted.
    pub fn wait_closed(&self, longest: Duration) -> Option<bool> {
        self.drive_until(Some(longest), |inner| inner.closed)
    }

    /// What peers have not accepted yet; after closing what they had not when it gave them up.
    pub fn unaccepted(&self) -> Vec<Unaccepted> {
        self.lock().core.rules().unaccepted()
    }
}

impl Send {
    pub(crate) fn spec(self, payload: Payload<'_>, request: RequestId) -> SendSpec<'_> {
        let Self { peer, space, tag, immediate, until_matched } = self;
        SendSpec { peer, space, tag, immediate, payload, until_matched, user: request.0 }
    }
}

/// Everything that is drawn once per life of an endpoint.
fn draw_opening(identity: Option<Identity>, links: &[Box<dyn Link>]) -> io::Result<Opening> {
    let mut bytes = [0_u8; 7 * 8];
    let mut filled = 0;
    while filled < bytes.len() {
        filled += getrandom(&mut bytes[filled..], GetRandomFlags::empty())?;
    }
    let word = |index: usize| {
        let mut word = [0; 8];
        word.copy_from_slice(&bytes[index * 8..index * 8 + 8]);
        u64::from_ne_bytes(word)
    };
    Ok(Opening {
        secret: Secret([word(0), word(1)]),
        identity: identity.unwrap_or(Identity { host: host_identity(), endpoint: word(2) }),
        entropy: [word(3), word(4), word(5), word(6)],
        locators: links.iter().map(|link| packhorse_proto::Locator(link.locator())).collect(),
    })
}

/// The system's monotonic clock. Read at every turn: plainer than `std::time::Instant`, which checks each subtraction.
#[inline]
fn monotonic_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The same for all endpoints of one boot of one host.
fn host_identity() -> u64 {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let digits = boot.chars().filter_map(|c| c.to_digit(16)).take(16);
    digits.fold(0, |number, digit| number << 4 | u64::from(digit))
}
