//! One endpoint, its links, its memory: what a turn does.
//!
//! A turn receives what the links have, lets timers fire, and sends what there is to send, each within bounds, and says how
//! much it did. It relies on its caller for the time, and for calling again when it did something or a timer is due.

use std::collections::VecDeque;
use std::fmt;
use std::io;

use packhorse_link::mem::UserMemory;
use packhorse_link::{About, Burst, Cause, Copier, Landing, Link, Notice, wide};
use packhorse_proto::{
    BufId, Endpoint, Instant, Limits, LinkTraits, Locator, Lone, MS, Obstacle, Opening, Payload,
    PeerId, PostError, ReqId, SendSpec, Settings, SettingsError, Source, TxFrame, TxTrain, wire,
};

use crate::copies::Later;
use crate::costly::{self, Costly};
use crate::counters::Counters;
use crate::duties::{Kept, Offload};
use crate::home::Home;
use crate::lent::{Lent, lent};
use crate::pairs::{Asked, Pairs, Rejected, way_by};
use crate::streams::{Lender, Loans};
use crate::time::TurnTime;
use crate::watch::{Advice, TrainWatch};

/// Payload up to this is copied next to its head: a further piece for the system call costs more.
const COPY_LEN_MAX: u32 = 256;
/// A burst is sent when it has so many frames.
const BURST_COUNT_MAX: usize = 64;
/// Frames and bytes of a train at most: what one system call takes.
const TRAIN_COUNT_MAX: usize = 64;
const TRAIN_LEN_MAX: usize = 65_000;
/// A longer train is read by its receiver from our memory, this fast at least: it will not be heard of before.
const LARGE_BYTES_PER_NS: u64 = 4;
/// Lone frames received in one turn while granted data is expected.
const LONE_COUNT_MAX: usize = 8;
/// Bursts per turn: a turn is bounded work.
const BURSTS_PER_TURN: usize = 8;
/// Frames to oneself turn around so often in one turn: a large message to oneself takes more, and others have their turn.
const HOME_TRIPS_PER_TURN: usize = 4;
/// After a pause of this length links are drained before timers fire: what looks late may be waiting in a socket.
const LATE_NS: u64 = 2 * MS;
/// Links that have nothing to receive are asked for notices every so many turns: within microseconds, where it spins.
const TURNS_PER_NOTICE: u64 = 32;
/// Remarks kept.
const REMARK_COUNT_MAX: usize = 64;
/// How often they are asked then.
const DRAIN_COUNT_MAX: usize = 256;

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

impl std::error::Error for OpenError {}

/// The checks of a train.
struct Checks<'a> {
    seed: &'a wire::TrainSeed,
    checks: &'a mut [u64],
}

impl wide::Work for Checks<'_> {
    type Out = ();

    #[inline(always)]
    fn run(self) {
        wire::train_checks(self.seed, self.checks);
    }
}

/// Frames on their way to one link.
#[derive(Debug, Default)]
struct Outbox {
    burst: Burst,
    /// Those before it were taken.
    first: usize,
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
    /// What a person should know, oldest first.
    remarks: VecDeque<String>,
    turned_at: Instant,
    time: TurnTime,
    costly: Costly,
    /// Links were asked to wake a sleeper.
    is_armed: bool,
    /// What whoever turns it now may do, and what waits for one who may more.
    duties: Offload,
    kept: Kept,
    /// A second thread for copies.
    copier: Option<Copier>,
    /// When the receiver of large data will be through with it.
    answer_by: Instant,
    /// Who is lent bytes of streams, while somebody extracts.
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
        for (number, link) in links.iter().enumerate() {
            endpoint.set_link(number as u8, traits_of(link.about(), payload_check));
        }
        let costly = Costly::new(&links, now);
        endpoint.set_train_checks(|seed, checks| wide::run(Checks { seed, checks }));
        Ok(Self {
            endpoint,
            outboxes: links.iter().map(|_| Outbox::default()).collect(),
            home: Home::new(&links),
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
            time: TurnTime::new(now),
            costly,
            is_armed: false,
            duties: Offload::Both,
            kept: Kept::default(),
            copier: None,
            answer_by: now,
            loans: None,
            counters: Counters::default(),
        })
    }

    /// The rules.
    pub fn endpoint(&mut self) -> &mut Endpoint {
        &mut self.endpoint
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
        if let Some(about) = self.links.get(usize::from(link)).map(Link::about) {
            self.endpoint.set_link(link, traits_of(about, payload_check));
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
        let copied = &mut self.counters.bytes_copied_in;
        f(
            &mut self.endpoint,
            &mut Lent { memory: &mut self.memory, copied, loans: None, later: None },
        )
    }

    /// What `turn_late` reads.
    pub fn set_clock(&mut self, clock: Box<dyn Fn() -> Instant + Send>) {
        self.time.set_clock(clock);
    }

    /// A turn of who looks again and again, with the time of an earlier look (`time`).
    pub fn turn_late(&mut self, now: Instant) -> usize {
        self.time.be_old();
        let work = self.turn(now);
        self.time.end();
        work
    }

    /// Receives, lets timers fire, sends. Returns how much it did: frames and timers.
    pub fn turn(&mut self, now: Instant) -> usize {
        self.counters.turns += 1;
        self.time.begin(now);
        let kept_count = match self.duties {
            Offload::Both if !self.kept.is_empty() => self.take_kept(now),
            _ => 0,
        };
        let mut work = kept_count;
        if !self.home.is_empty() {
            work += self.receive_home(now);
        }
        work += if self.is_armed {
            self.disarm();
            self.receive(now)
        } else if self.costly.are_all_asked || now - self.turned_at > costly::BUSY_NS {
            self.receive(now) // nothing to choose; or it does not spin, and this is the look there is
        } else {
            self.receive_some(now)
        };
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
        if self.has_output() {
            work += self.transmit(now);
        }
        if !self.home.is_empty() {
            work += self.talk_to_oneself(now);
        }
        self.counters.turns_idle += u64::from(work == 0);
        work
    }

    /// A turn of somebody who may not do everything (`duties`): what is not his waits for the next who may.
    pub fn turn_with(&mut self, now: Instant, duties: Offload) -> usize {
        self.duties = duties;
        let work = self.turn(now);
        self.duties = Offload::Both;
        work
    }

    /// Frames wait for somebody who may do everything.
    pub fn keeps_frames(&self) -> bool {
        !self.kept.is_empty()
    }

    /// No more frames are kept: who may not do everything makes no turn.
    pub fn is_kept_full(&self) -> bool {
        self.kept.is_full()
    }

    /// What others had to leave.
    #[cold]
    fn take_kept(&mut self, now: Instant) -> usize {
        let mut count = 0;
        while let Some((link, bytes)) = self.kept.pop() {
            let copied = &mut self.counters.bytes_copied_in;
            let mut lent = lent(&mut self.memory, copied, self.loans.as_mut());
            self.endpoint.on_aside(now, link, &bytes, &mut lent);
            self.kept.reuse(bytes);
            count += 1;
        }
        self.endpoint.end_aside();
        count
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

    /// Everything the links hold, after a late turn.
    fn drain(&mut self, now: Instant) -> usize {
        let mut work = 0;
        for _ in 0..DRAIN_COUNT_MAX {
            match self.receive(now) {
                0 => break,
                some => work += some,
            }
        }
        work
    }

    /// Asks each link once.
    pub fn receive(&mut self, now: Instant) -> usize {
        (0..self.links.len()).map(|link| self.receive_from(now, link)).sum()
    }

    /// What one says to oneself is answered in the same turn: an application that asks a few times whether a message to itself has
    /// arrived does not give the wire any time, and there is none.
    #[cold]
    fn talk_to_oneself(&mut self, now: Instant) -> usize {
        let mut work = 0;
        for _ in 0..HOME_TRIPS_PER_TURN {
            work += self.receive_home(now);
            if self.has_output() {
                work += self.transmit(now);
            }
            if self.home.is_empty() {
                break;
            }
        }
        work
    }

    /// What was sent to the endpoint itself.
    #[cold]
    fn receive_home(&mut self, now: Instant) -> usize {
        let now = self.time.on_arrival(now);
        let mut count = 0;
        while let Some((link, from, bytes)) = self.home.next() {
            let from = Locator(from);
            self.counters.frames_to_self += 1;
            count += 1;
            if self.duties != Offload::Both
                && !self.duties.takes(wire::audience(&bytes))
                && self.endpoint.put_aside(now, link, &from, &bytes)
            {
                self.kept.push(link, &bytes);
            } else {
                let copied = &mut self.counters.bytes_copied_in;
                let mut lent = lent(&mut self.memory, copied, self.loans.as_mut());
                self.endpoint.on_frame(now, link, from, &bytes, &mut lent);
            }
            self.home.reuse(bytes);
        }
        count
    }

    /// Asks the links in memory, and of the others one after the other until one has nothing: a turn that finds nothing
    /// costs one system call at most, and none if one was made a moment ago (DESIGN §7).
    fn receive_some(&mut self, now: Instant) -> usize {
        let mut work = 0;
        for link in 0..self.links.len() {
            if self.costly.set >> link & 1 == 0 {
                work += self.receive_from(now, link);
            }
        }
        if !self.costly.is_due(now, work > 0) {
            return work;
        }
        let mut asked = self.costly.first(now);
        for _ in 0..self.costly.set.count_ones() {
            let Some(link) = asked else { break };
            let got = self.receive_from(now, link);
            if got == 0 {
                break;
            }
            self.costly.on_heard(now, link);
            work += got;
            asked = self.costly.next();
        }
        work
    }

    /// Asks a link once; while granted data is expected, again behind each lone frame: announcements and ends of messages
    /// come between trains, and are answered together.
    fn receive_from(&mut self, now: Instant, index: usize) -> usize {
        let mut work = 0;
        for _ in 0..LONE_COUNT_MAX {
            let (more, is_expecting) = self.receive_once(now, index);
            work += more;
            if more != 1 || !is_expecting {
                break;
            }
        }
        work
    }

    /// How much it did, and whether granted data was expected.
    fn receive_once(&mut self, now: Instant, index: usize) -> (usize, bool) {
        let link = &mut self.links[index];
        let may_land = link.about().can_land && self.duties.takes_data();
        let expected = if may_land { self.endpoint.predict(index as u8) } else { None };
        let landing = expected.as_ref().map(|expected| Landing {
            id: expected.buf.0,
            offset: expected.offset,
            len: expected.len,
            head_len: expected.head_len,
            payload_len: expected.payload_len as usize,
        });
        let count = match link.receive(landing.as_ref(), &mut self.memory) {
            Ok(count) => count,
            Err(_) => {
                self.counters.link_errors += 1;
                0
            }
        };
        let mut work = 0;
        // A spinning driver finds nothing most of the time, and need not ask for notices every time.
        if count > 0 {
            let payload_len = landing.map_or(0, |landing| landing.payload_len);
            work = self.take_arrived(now, index, expected.as_ref(), count, payload_len);
        } else if self.counters.turns.is_multiple_of(TURNS_PER_NOTICE) {
            work = self.take_notices(now, index);
        }
        (work, expected.is_some())
    }

    /// What a link has just received.
    fn take_arrived(
        &mut self,
        now: Instant,
        index: usize,
        expected: Option<&packhorse_proto::Landing>,
        count: usize,
        payload_len: usize,
    ) -> usize {
        let now = self.time.on_arrival(now);
        let landed = expected.map_or(0, |it| self.take_landed(now, index, it, count));
        landed + self.take_frames(now, index, count, payload_len) + self.take_notices(now, index)
    }

    /// What a link has to tell.
    #[inline]
    fn take_notices(&mut self, now: Instant, index: usize) -> usize {
        let mut count = 0;
        while let Some(notice) = self.links[index].poll_notice() {
            if let Notice::Unreachable { to, .. } = &notice {
                self.pairs.on_unreachable(index as u8, to);
            }
            on_notice(&mut self.endpoint, now, index as u8, notice);
            count += 1;
        }
        count
    }

    /// Payload that lies where it was expected is taken; all that lies wrong is moved before any frame is read.
    fn take_landed(
        &mut self,
        now: Instant,
        index: usize,
        expected: &packhorse_proto::Landing,
        count: usize,
    ) -> usize {
        let link = &mut self.links[index];
        let mut lent = Lent {
            memory: &mut self.memory,
            copied: &mut self.counters.bytes_copied_in,
            loans: self.loans.as_mut(),
            later: None,
        };
        let mut work = 0;
        self.lifts.clear();
        for number in 0..count {
            let arrived = link.arrived(number);
            let Some(landed) = arrived.landed else { continue };
            let here = expected.behind(landed.offset.saturating_sub(expected.offset));
            let taken = self.endpoint.on_landed(
                now,
                index as u8,
                &Locator(arrived.from),
                &here,
                arrived.bytes,
                landed.count,
                landed.last_len as u32,
                &mut lent,
            );
            work += taken;
            if taken < landed.count {
                self.lifts.push((number, taken));
            }
        }
        for &(number, first) in &self.lifts {
            link.lift(number, first, &mut self.memory);
        }
        self.counters.landings_wrong += self.lifts.len() as u64;
        work
    }

    /// Frames that are whole: those that did not land, and those that were moved.
    fn take_frames(
        &mut self,
        now: Instant,
        index: usize,
        count: usize,
        payload_len: usize,
    ) -> usize {
        let link = &self.links[index];
        let mut lent = Lent {
            memory: &mut self.memory,
            copied: &mut self.counters.bytes_copied_in,
            loans: self.loans.as_mut(),
            later: self.copier.as_ref().map(|_| Later::default()),
        };
        let mut work = 0;
        for number in 0..count {
            let arrived = link.arrived(number);
            for frame in arrived.whole(payload_len) {
                let from = Locator(arrived.from);
                if self.duties != Offload::Both
                    && !self.duties.takes(wire::audience(frame))
                    && self.endpoint.put_aside(now, index as u8, &from, frame)
                {
                    self.kept.push(index as u8, frame);
                    continue;
                }
                if let Some(later) = &mut lent.later {
                    later.frame = frame;
                }
                self.endpoint.on_frame(now, index as u8, from, frame, &mut lent);
                work += 1;
            }
        }
        if let Some(copier) = &mut self.copier {
            lent.copy_noted(copier);
            self.counters.bytes_copied_beside = copier.helped_len();
        }
        work
    }

    /// Posts a send; a small one leaves at once where nothing waits before it. Others leave with `transmit`.
    #[inline]
    pub fn post_send(&mut self, now: Instant, spec: SendSpec<'_>) -> Result<ReqId, PostError> {
        match self.send_lone(now, &spec) {
            Some(req) => Ok(req),
            None => self.endpoint.post_send(now, spec),
        }
    }

    fn send_lone(&mut self, now: Instant, spec: &SendSpec<'_>) -> Option<ReqId> {
        let len = match spec.payload {
            Payload::InPlace { len, .. } => len,
            Payload::Copied(bytes) => bytes.len() as u64,
        };
        if len > u64::from(COPY_LEN_MAX) || self.is_blocked() {
            return None;
        }
        let mut head = [0; wire::LONE_HEAD_LEN_MAX];
        let lone = self.endpoint.post_lone(now, spec, &mut head)?;
        self.begin_lone(&head[..lone.head_len]);
        match spec.payload {
            Payload::InPlace { buf, len } => {
                self.memory.gather(buf.0, 0, len as usize, &mut self.scratch);
            }
            Payload::Copied(bytes) => self.scratch.extend_from_slice(bytes),
        }
        self.counters.bytes_copied_out += len;
        self.finish_lone(&lone);
        Some(lone.req)
    }

    /// Sends a short stream at once. False: nothing was done.
    pub fn send_short_stream(
        &mut self,
        now: Instant,
        peer: PeerId,
        handler: u16,
        pieces: &[&[u8]],
    ) -> bool {
        let len = pieces.iter().map(|piece| piece.len()).sum::<usize>();
        let mut head = [0; wire::LONE_HEAD_LEN_MAX];
        if len <= COPY_LEN_MAX as usize
            && !self.is_blocked()
            && let Some(lone) =
                self.endpoint.send_lone_stream(now, peer, handler, pieces, &mut head)
        {
            self.begin_lone(&head[..lone.head_len]);
            pieces.iter().for_each(|piece| self.scratch.extend_from_slice(piece));
            self.counters.bytes_copied_out += len as u64;
            self.finish_lone(&lone);
            return true;
        }
        self.endpoint.send_short_stream(now, peer, handler, pieces)
    }

    fn begin_lone(&mut self, head: &[u8]) {
        self.scratch.clear();
        self.scratch.extend_from_slice(head);
    }

    /// A lone frame is whole: it leaves.
    fn finish_lone(&mut self, lone: &Lone) {
        let (to, link, frame) = (&lone.to.0, usize::from(lone.link), &self.scratch);
        if self.home.takes(lone.link, to) {
            self.home.burst.begin(*to);
            self.home.burst.head(frame);
            self.flush();
        } else if !self.links[link].send_lone(to, frame) {
            self.outboxes[link].burst.begin(*to);
            self.outboxes[link].burst.head(frame);
            self.flush();
        }
    }

    /// Sends what there is to send, as far as the links take it.
    pub fn transmit(&mut self, now: Instant) -> usize {
        while let Some(new) = self.endpoint.poll_new_locators() {
            self.pairs.answer(now, &new, &mut self.endpoint, &mut self.links);
        }
        while let Some(peer) = self.endpoint.poll_path_news() {
            self.pairs.remember(peer, &self.endpoint, &mut self.links);
        }
        while let Some((link, to)) = self.endpoint.poll_new_path() {
            if let Some(path) = self.links.get_mut(usize::from(link)) {
                self.endpoint.set_way(link, &to, &way_by(path, &to.0));
            }
        }
        let mut sent = 0;
        for _ in 0..BURSTS_PER_TURN {
            let is_full = self.fill(now);
            sent += self.flush();
            if !is_full {
                break;
            }
        }
        sent
    }

    /// Whether `transmit` may have something to do.
    #[inline]
    pub fn has_output(&self) -> bool {
        self.endpoint.has_output() || !self.home.is_empty() || self.is_blocked()
    }

    /// Whether frames wait because a link took no more.
    pub fn is_blocked(&self) -> bool {
        self.outboxes.iter().any(|outbox| !outbox.burst.is_empty())
    }

    /// Asks the endpoint for frames. True: it may have more.
    fn fill(&mut self, now: Instant) -> bool {
        if self.is_blocked() {
            return false;
        }
        let mut count = 0;
        while count < BURST_COUNT_MAX {
            let (count_max, len_max) = self.train_max;
            if count_max > 0 && self.endpoint.poll_train(now, count_max, len_max, &mut self.train) {
                self.put_train();
                count += self.train.count;
                if self.train.count > 1 {
                    self.counters.frames_in_trains += self.train.count as u64;
                }
                let train_len = self.train.count * self.train.payload_len as usize;
                if train_len > len_max {
                    let copy_ns = train_len as u64 / LARGE_BYTES_PER_NS;
                    self.answer_by = Instant(self.answer_by.0.max(now.0)) + copy_ns;
                    return true; // its receiver has enough to begin with
                }
            } else if self.endpoint.poll_transmit(now, &mut self.tx) {
                self.put_frame();
                count += 1;
            } else {
                return false;
            }
        }
        true
    }

    /// Adds `train` to its link's burst.
    fn put_train(&mut self) {
        let train = &self.train;
        let same = packhorse_link::burst::Train {
            count: train.count as u32,
            head_len: train.head_len as u32,
            payload_len: train.payload_len,
            last_len: train.last_len,
            id: train.buf.0,
            offset: train.offset,
        };
        let burst = match self.home.takes(train.link, &train.to.0) {
            true => &mut self.home.burst,
            false => &mut self.outboxes[usize::from(train.link)].burst,
        };
        burst.train(train.to.0, &train.heads, same);
    }

    /// Adds the frame in `tx` to its link's burst.
    fn put_frame(&mut self) {
        let tx = &mut self.tx;
        let burst = match self.home.takes(tx.link, &tx.to.0) {
            true => &mut self.home.burst,
            false => &mut self.outboxes[usize::from(tx.link)].burst,
        };
        burst.begin(tx.to.0);
        if tx.wants_crc() {
            // The sum goes into the head, so the body is read first; and what was read is what is sent.
            self.scratch.clear();
            for piece in &tx.body {
                let len = piece.len as usize;
                match piece.source {
                    Source::User { buf: BufId(id), offset } => {
                        self.counters.bytes_copied_out += len as u64;
                        self.memory.gather(id, offset, len, &mut self.scratch);
                    }
                    Source::Pool { slot, offset } => {
                        let start = offset as usize;
                        let bytes = &self.endpoint.pooled(slot)[start..start + len];
                        self.scratch.extend_from_slice(bytes);
                    }
                    Source::Zero => self.scratch.resize(self.scratch.len() + len, 0),
                }
            }
            tx.seal(crc32c::crc32c(&self.scratch));
            burst.head(&tx.head);
            burst.head(&self.scratch);
            return;
        }
        tx.seal(0);
        burst.head(&tx.head);
        for piece in &tx.body {
            match piece.source {
                Source::User { buf: BufId(id), offset } if piece.len <= COPY_LEN_MAX => {
                    self.counters.bytes_copied_out += u64::from(piece.len);
                    burst.copied(&mut self.memory, id, offset, piece.len as usize);
                }
                Source::User { buf: BufId(id), offset } => burst.user(id, offset, piece.len),
                Source::Pool { slot, offset } => {
                    let start = offset as usize;
                    let bytes = &self.endpoint.pooled(slot)[start..start + piece.len as usize];
                    burst.head(bytes);
                }
                Source::Zero => burst.zeros(piece.len as usize),
            }
        }
    }

    /// Hands the bursts to their links.
    fn flush(&mut self) -> usize {
        let mut sent = 0;
        if !self.home.burst.is_empty() {
            sent += self.home.turn_around(&mut self.memory);
        }
        for (link, outbox) in self.links.iter_mut().zip(&mut self.outboxes) {
            if outbox.burst.is_empty() {
                continue;
            }
            match link.send(&outbox.burst, outbox.first, &mut self.memory) {
                Ok(count) => {
                    outbox.first += count;
                    sent += count;
                }
                Err(_) => {
                    // What a link cannot send is lost, and the protocol repairs it or finds the peer gone.
                    self.counters.link_errors += 1;
                    outbox.first = outbox.burst.len();
                }
            }
            if outbox.first >= outbox.burst.len() {
                outbox.burst.clear();
                outbox.first = 0;
            } else {
                self.counters.sends_blocked += 1;
            }
        }
        sent
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

    /// The same for one who sleeps until then.
    pub fn next_timeout_for_sleep(&mut self, now: Instant) -> Instant {
        self.endpoint.next_timeout_for_sleep(now)
    }

    /// Whether there is something to do though nothing arrived.
    pub fn is_due(&self, now: Instant) -> bool {
        self.has_output() || self.next_timeout() <= now
    }
}

fn traits_of(about: &About, payload_check: bool) -> LinkTraits {
    LinkTraits {
        frame_len_max: about.frame_len_max.min(usize::from(u16::MAX)) as u16,
        payload_check,
        is_reliable: about.is_reliable,
        train_len_max: u32::try_from(about.train_len_max).unwrap_or(u32::MAX),
    }
}

fn on_notice(endpoint: &mut Endpoint, now: Instant, link: u8, notice: Notice) {
    match notice {
        Notice::Unreachable { to, cause } => {
            endpoint.on_unreachable(now, link, &Locator(to), obstacle_of(&cause));
        }
        Notice::Dead { to } => endpoint.on_dead(now, link, &Locator(to)),
        Notice::TooLong { to, frame_len_max } => {
            endpoint.on_too_long(link, &Locator(to), frame_len_max);
        }
    }
}

fn obstacle_of(cause: &Cause) -> Obstacle<'_> {
    match cause {
        Cause::Void => Obstacle::Void,
        Cause::Here => Obstacle::Here,
        Cause::Way(quote) => Obstacle::Way(quote),
        Cause::Refused(quote) => Obstacle::Refused(quote),
    }
}
