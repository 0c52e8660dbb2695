//! One endpoint, its links, its memory: what a turn does.
//!
//! A turn receives what the links have, lets timers fire, and sends what there is to send, each within bounds, and says how
//! much it did. It relies on its caller for the time, and for calling again when it did something or a timer is due.
//! How it receives is in `receive`, how it fetches what others tell of in `fetch`, how it sends in `send`, and chunks of streams in `chunks`; how an endpoint talks to itself in `oneself`; how whoever looks again and again
//! finds out at little cost that a turn would do nothing, in `look`; how it gets one short message without a turn, in `quick`.

mod chunks;
mod fetch;
mod look;
mod oneself;
mod quick;
mod receive;
mod send;

use std::collections::VecDeque;
use std::fmt;
use std::io;

use packhorse_link::mem::UserMemory;
use packhorse_link::{Copier, Link, Whereabouts, wide};
use packhorse_proto::portals::Portals;
use packhorse_proto::{
    Criteria, Endpoint, Envelope, Instant, Limits, MS, Opening, PeerId, Settings, SettingsError,
    TxFrame, TxTrain, seal,
};

use crate::costly::{self, Costly};
use crate::counters::Counters;
use crate::duties::{Kept, Offload};
use crate::home::{self, Home};
use crate::lending::{Lender, Loans};
use crate::lent::Lent;
use crate::pairs::{Asked, Pairs, Rejected};
use crate::time::TurnTime;
use crate::translate::traits_of;
use crate::watch::{Advice, TrainWatch};
pub(crate) use fetch::PIECE_LEN_MAX;
pub(crate) use look::Looked;
use quick::Quick;
pub use quick::QuickLook;
use send::Outbox;

/// Frames and bytes of a train at most: what one system call takes.
const TRAIN_COUNT_MAX: usize = 64;
const TRAIN_LEN_MAX: usize = 65_000;
/// After a pause of this length links are drained before timers fire: what looks late may be waiting in a socket.
const LATE_NS: u64 = 2 * MS;
/// Remarks kept.
const REMARK_COUNT_MAX: usize = 64;

/// Why a core could not be made.
#[derive(Debug)]
pub enum OpenError {
    /// A setting or limit makes no sense.
    Settings(SettingsError),
    /// There is no link.
    NoLink,
    /// The system refused something the engine needs.
    System {
        /// What.
        what: &'static str,
        /// Its answer.
        error: io::Error,
    },
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Settings(error) => write!(f, "{error}"),
            Self::NoLink => f.write_str("an endpoint needs at least one link"),
            Self::System { what, error } => write!(f, "{what} failed: {error}"),
        }
    }
}

impl std::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Settings(error) => error.source(),
            Self::NoLink => None,
            Self::System { error, .. } => Some(error),
        }
    }
}

/// The checks of a train.
struct Checks<'a> {
    seed: &'a seal::TrainSeed,
    checks: &'a mut [u64],
}

impl wide::Work for Checks<'_> {
    type Out = ();

    #[inline(always)]
    fn run(self) {
        seal::train_checks(self.seed, self.checks);
    }
}

/// An endpoint joined to its links and its memory.
pub struct Core<L, M> {
    endpoint: Endpoint,
    links: Vec<L>,
    outboxes: Vec<Outbox>,
    memory: M,
    tx: TxFrame,
    train: TxTrain,
    scratch: Vec<u8>,
    /// Arrivals of which payload must be moved, and from which frame on.
    lifts: Vec<(usize, usize)>,
    /// Frames and bytes of a train at most.
    train_max: (usize, usize),
    train_watch: TrainWatch,
    pairs: Pairs,
    home: Home,
    /// Until then ways to a peer that was met are being asked for.
    settling_until: Instant,
    /// What a person should know, oldest first.
    remarks: VecDeque<String>,
    turned_at: Instant,
    /// Until then a turn has nothing to do but to ask the links, unless somebody touches the rules before (`look`).
    quiet_until: Instant,
    time: TurnTime,
    costly: Costly,
    quick: Quick,
    /// Links were asked to wake a sleeper.
    is_armed: bool,
    /// What whoever turns it now may do, and what waits for one who may more.
    duties: Offload,
    kept: Kept,
    /// A second thread for copies.
    copier: Option<Copier>,
    /// When the receiver of large data will be through with it.
    answer_by: Instant,
    /// Where the messages are that the frame at hand announces.
    whereabouts: Vec<Whereabouts>,
    /// While somebody extracts: the readers that are lent bytes of streams.
    pub(crate) loans: Option<Loans>,
    counters: Counters,
}

impl<L: Link<M>, M: UserMemory> Core<L, M> {
    /// Opens an endpoint over these links; their order is the order of its paths.
    pub fn open(
        settings: Settings,
        limits: Limits,
        opening: Opening,
        links: Vec<L>,
        memory: M,
        now: Instant,
    ) -> Result<Self, OpenError> {
        if links.is_empty() {
            return Err(OpenError::NoLink);
        }
        let payload_check = settings.payload_check;
        let mut endpoint =
            Endpoint::open(opening, limits, settings, now).map_err(OpenError::Settings)?;
        let mut links = links;
        for (number, link) in links.iter_mut().enumerate() {
            let can_fetch = link.telling().is_some();
            endpoint.set_link(number as u8, traits_of(link.about(), payload_check, can_fetch));
        }
        endpoint.set_home(home::traits(payload_check));
        let costly = Costly::new(&links, now);
        let quick = Quick::new(&links);
        endpoint.set_train_checks(|seed, checks| wide::run(Checks { seed, checks }));
        Ok(Self {
            endpoint,
            outboxes: links.iter().map(|_| Outbox::default()).collect(),
            home: Home::new(&links),
            settling_until: now,
            links,
            memory,
            tx: TxFrame::default(),
            train: TxTrain::default(),
            scratch: Vec::new(),
            lifts: Vec::new(),
            train_max: (TRAIN_COUNT_MAX, TRAIN_LEN_MAX),
            train_watch: TrainWatch::new(now),
            pairs: Pairs::default(),
            remarks: VecDeque::new(),
            turned_at: now,
            quiet_until: Instant(0),
            time: TurnTime::new(now),
            costly,
            quick,
            is_armed: false,
            duties: Offload::Both,
            kept: Kept::default(),
            copier: None,
            answer_by: now,
            whereabouts: Vec::new(),
            loans: None,
            counters: Counters::default(),
        })
    }

    /// Frames to this endpoint itself wait to be received.
    pub(crate) fn has_home(&self) -> bool {
        !self.home.is_empty()
    }

    /// The endpoint, to be looked at.
    pub(crate) fn endpoint_seen(&self) -> &Endpoint {
        &self.endpoint
    }

    /// The rules.
    #[inline]
    pub fn endpoint(&mut self) -> &mut Endpoint {
        self.end_quiet();
        &mut self.endpoint
    }

    /// A link has another address from now on.
    pub fn on_rebound(&mut self, now: Instant, link: u8, locator: packhorse_link::Locator) {
        self.home.on_rebound(link, locator);
        self.endpoint().on_rebound(now, link, packhorse_proto::Locator(locator));
    }

    /// A message that no receive took yet. It stays where it is, and a turn has no more to do than before: who probes between two pieces of
    /// work would make each look a whole turn otherwise (`look`).
    #[inline]
    pub(crate) fn probe(&mut self, criteria: &Criteria) -> Option<Envelope> {
        self.endpoint.probe(criteria)
    }

    /// Portals, to look at and to take events from: that leaves a turn no more to do than before, either. Who waits for a counter looks at it
    /// after every look.
    #[inline]
    pub(crate) fn portals(&mut self) -> &mut Portals {
        self.endpoint.portals()
    }

    /// The rules, to look at.
    pub fn rules(&self) -> &Endpoint {
        &self.endpoint
    }

    /// The memory that is lent.
    pub fn memory(&mut self) -> &mut M {
        &mut self.memory
    }

    /// The links.
    pub fn links(&mut self) -> &mut [L] {
        &mut self.links
    }

    /// Somebody is about to sleep on the links' descriptors; the next turn ends that. False: something has arrived meanwhile.
    pub fn arm(&mut self) -> bool {
        self.end_quiet();
        self.quick.end();
        self.is_armed = true;
        self.home.is_empty() && self.links.iter_mut().all(Link::arm)
    }

    /// Somebody sleeps still, and others turned meanwhile, which ended what the links were told. False: something has arrived.
    pub(crate) fn keep_armed(&mut self) -> bool {
        self.is_armed || self.arm()
    }

    #[cold]
    fn disarm(&mut self) {
        self.is_armed = false;
        self.links.iter_mut().for_each(Link::disarm);
    }

    /// Bodies of what leaves by this link are summed, or not. Until told, all are as the settings say.
    pub fn set_payload_check(&mut self, link: u8, payload_check: bool) {
        if let Some(it) = self.links.get_mut(usize::from(link)) {
            let can_fetch = it.telling().is_some();
            self.endpoint.set_link(link, traits_of(it.about(), payload_check, can_fetch));
        }
    }

    /// Pairs of links and locators of a peer that are not tried.
    pub fn rejected(&self, peer: PeerId) -> impl Iterator<Item = &Rejected> {
        self.pairs.rejected_of(peer)
    }

    /// How first contact with a peer was tried last.
    pub fn asked(&self, peer: PeerId) -> impl Iterator<Item = &Asked> {
        self.pairs.asked_of(peer)
    }

    /// Closes the links. Nothing is sent or received any more.
    pub fn drop_links(&mut self) {
        self.end_quiet();
        self.quick.end();
        self.links.clear();
    }

    /// From now on bytes of streams are lent to this one, so many at most.
    pub fn set_lender(&mut self, lender: Box<dyn Lender>, len_max: u64) {
        self.loans = Some(Loans::new(lender, len_max));
    }

    /// From now on payload of frames that arrive whole is copied with the help of this one.
    pub fn set_copier(&mut self, copier: Copier) {
        self.copier = Some(copier);
    }

    /// Granted data leaves in trains of so many frames and bytes at most; 0 for none.
    pub fn set_trains(&mut self, count_max: usize, len_max: usize) {
        self.train_max = (count_max, len_max);
    }

    /// What was counted here.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    pub(crate) fn counters_mut(&mut self) -> &mut Counters {
        &mut self.counters
    }

    /// Calls `f` with the endpoint and the memory as the protocol wants it: for calls that place bytes.
    pub fn with<R>(&mut self, f: impl FnOnce(&mut Endpoint, &mut Lent<'_, M>) -> R) -> R {
        self.end_quiet();
        let copied = &mut self.counters.bytes_copied_in;
        f(
            &mut self.endpoint,
            &mut Lent { memory: &mut self.memory, copied, loans: None, later: None },
        )
    }

    /// What the clock that all endpoints of the process share says when this one's is 0: what one learns of ways between hosts holds for all,
    /// and for a while.
    pub fn set_origin(&mut self, origin_ns: u64) {
        self.pairs.origin_ns = origin_ns;
    }

    /// What a turn reads whose time is that of an earlier look.
    pub fn set_clock(&mut self, clock: Box<dyn Fn() -> Instant + Send>) {
        self.time.set_clock(clock);
    }

    /// Receives, lets timers fire, sends. Returns how much it did: frames and timers.
    pub fn turn(&mut self, now: Instant) -> usize {
        if self.links.is_empty() {
            return 0; // it was stopped, and its caller still holds it
        }
        self.begin_turn(now);
        let kept_count = match self.duties {
            Offload::Both if !self.kept.is_empty() => self.take_kept(now),
            _ => 0,
        };
        let mut work = kept_count;
        if !self.home.is_empty() {
            work += self.receive_home(now);
        }
        // Its driver does not spin, and this is the look there is, perhaps for long.
        let is_lone = self.is_armed || now - self.turned_at > costly::BUSY_NS;
        if self.is_armed {
            self.disarm();
        }
        work += match is_lone || self.costly.are_all_asked {
            true => self.receive(now),
            false => self.receive_some(now),
        };
        if is_lone {
            work += self.take_all_notices(now);
        }
        self.finish_turn(work)
    }

    fn begin_turn(&mut self, now: Instant) {
        self.end_quiet();
        self.counters.turns += 1;
        self.time.begin(now);
    }

    /// What a turn does when it has received. `work`: how much it did so far. Returns how much in all.
    fn finish_turn(&mut self, mut work: usize) -> usize {
        let now = self.time.now();
        let timeout = self.endpoint.next_timeout();
        if timeout <= now {
            if now - self.turned_at > LATE_NS {
                work += self.drain(now);
            }
            let mut lent = Lent {
                memory: &mut self.memory,
                copied: &mut self.counters.bytes_copied_in,
                loans: self.loans.as_mut(),
                later: None,
            };
            self.endpoint.on_timeout(now, &mut lent);
            self.watch_trains(now);
            work += 1;
        }
        self.turned_at = now;
        if self.endpoint.has_fetches() && self.duties.takes_data() {
            work += self.fetch(now);
        }
        if self.loans.is_none() && self.endpoint.has_told_chunks() {
            self.endpoint.decline_told_chunks(); // nobody here would read them soon
        }
        if self.has_output() {
            work += self.transmit(now);
        }
        if !self.home.is_empty() {
            work += self.talk_to_oneself(now);
        }
        self.counters.turns_idle += u64::from(work == 0);
        if self.duties == Offload::Both && self.kept.is_empty() {
            self.quick.begin();
        } else {
            self.quick.end();
        }
        work
    }

    /// A turn of somebody who may not do everything (`duties`): what is not his waits for the next who may.
    pub fn turn_with(&mut self, now: Instant, duties: Offload) -> usize {
        self.duties = duties;
        let work = self.turn(now);
        self.duties = Offload::Both;
        work
    }

    /// Frames wait for somebody who may do everything, or bytes to be fetched.
    pub fn keeps_frames(&self) -> bool {
        !self.kept.is_empty() || self.endpoint.has_fetches()
    }

    /// No more frames are kept: who may not do everything makes no turn.
    pub fn is_kept_full(&self) -> bool {
        self.kept.is_full()
    }

    /// Trains that do not get through are given up, for a while. Losses come with timers, so this is where to look.
    fn watch_trains(&mut self, now: Instant) {
        let lost = self.endpoint.counters().packets_lost;
        let Some(advice) = self.train_watch.look(now, lost, self.counters.frames_in_trains) else {
            return;
        };
        self.links.iter_mut().for_each(|link| link.set_trains(advice == Advice::On));
        let what = match advice {
            Advice::Off => {
                "frames sent as trains do not arrive on this path: trains are off for a minute"
            }
            Advice::On => "trains are tried again",
        };
        self.remark(what.into());
    }

    fn remark(&mut self, text: String) {
        if self.remarks.len() == REMARK_COUNT_MAX {
            self.remarks.pop_front();
        }
        self.remarks.push_back(text);
    }

    /// A remark, unless it was made last: what fails in a row fails for one reason.
    pub(crate) fn remark_once(&mut self, text: String) {
        if self.remarks.back() != Some(&text) {
            self.remark(text);
        }
    }

    /// What a person should know, oldest first: a bounded log.
    pub fn remarks(&mut self) -> impl Iterator<Item = &str> {
        for index in 0..self.links.len() {
            while let Some(text) = self.links[index].poll_remark() {
                self.remark(text);
            }
        }
        self.remarks.iter().map(String::as_str)
    }

    /// Large data went to a receiver that will take until then to read it: who waits for its answer had better not sleep.
    #[inline]
    pub fn answer_by(&self) -> Instant {
        self.answer_by
    }

    /// The time of the last turn.
    pub fn turned_at(&self) -> Instant {
        self.turned_at
    }

    /// When to turn again even if nothing arrives.
    pub fn next_timeout(&self) -> Instant {
        self.endpoint.next_timeout()
    }

    /// When to turn again even if nothing arrives, for a driver that sleeps until then.
    pub fn next_timeout_for_sleep(&mut self, now: Instant) -> Instant {
        self.endpoint.next_timeout_for_sleep(now)
    }

    /// Whether there is something to do though nothing arrived.
    pub fn is_due(&self, now: Instant) -> bool {
        self.has_work() || self.next_timeout() <= now
    }

    /// Whether a turn has something to send or to fetch.
    #[inline]
    pub(crate) fn has_work(&self) -> bool {
        self.has_output() || self.endpoint.has_fetches()
    }
}
