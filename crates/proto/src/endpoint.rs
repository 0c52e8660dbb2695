//! An endpoint: what it is made of, how it opens, what it shows.
//!
//! The parts are tables of slots (`Slab`) that name each other by index; the rules that move them stand in the
//! modules beside this one, each an `impl Endpoint` of its own.

pub(crate) mod acked;
pub(crate) mod aside;
pub(crate) mod clock;
pub(crate) mod farewell;
pub(crate) mod given;
pub(crate) mod input;
pub(crate) mod lone;
pub(crate) mod output;
pub(crate) mod quick;
pub(crate) mod quick_out;
pub(crate) mod whole;

use alloc::boxed::Box;
use alloc::collections::{BinaryHeap, VecDeque};
use alloc::vec::Vec;
use core::cmp::Reverse;

use hashbrown::HashMap;

use crate::base::api::{Counters, Event, LinkTraits, NewLocators, Opening, PeerError, TxFrame};
use crate::base::limits::{Limits, Settings, SettingsError};
use crate::base::pool::BytePool;
use crate::base::ring::Ring;
use crate::base::sabotage::Saboteur;
use crate::base::secret::Secret;
use crate::base::seeded::Seeded;
use crate::base::siphash::siphash13_words;
use crate::base::slab::{NONE, Slab};
use crate::base::types::{Address, Identity, Instant, Locator, PeerId};
use crate::bulk::arrival::{Arrival, Progress, Receive};
use crate::bulk::grants::Budgets;
use crate::bulk::landing::Cursor;
use crate::bulk::outgoing::{Outgoing, Parts, RESULT_BIT};
use crate::delivery::content::Content;
use crate::delivery::credit::Credit;
use crate::delivery::path::Origin;
use crate::delivery::path::{Path, PathRest, Standing};
use crate::endpoint::aside::Aside;
use crate::matching::Matcher;
use crate::messages::turns::Queries;
use crate::onesided::operate::{Operation, Request};
use crate::onesided::region::Regions;
use crate::onesided::serve::Answer;
use crate::peers::contact::Reply;
use crate::peers::farewell::{Closing, Forgotten};
use crate::peers::rows::{Active, Phase, Row, Rows, make_id};
use crate::streams::Streams;
use crate::wire::Whereabouts;
use crate::wire::{self, pass_of};

/// Spare active records kept, with their queues' memory.
const SPARE_COUNT_MAX: usize = 64;

/// One endpoint of the network: peers, messages under way, receives, timers.
#[derive(Debug)]
pub struct Endpoint {
    pub(crate) secret: Secret,
    pub(crate) identity: Identity,
    pub(crate) incarnation: u64,
    pub(crate) locators: Vec<Locator>,
    /// What is known of each local link.
    pub(crate) links: Box<[LinkTraits]>,
    /// Those that only their two ends can write to, and what those ends may say there instead of a check (PROTOCOL §14.6).
    pub(crate) private_links: u64,
    pub(crate) pass: u64,
    pub(crate) settings: Settings,
    pub(crate) limits: Limits,
    /// Key of this life: cookies, nonces and ids are drawn from it.
    pub(crate) key: Secret,
    draw_count: u64,
    /// Move when a row is forgotten, so that no older cookie of its peer is good any more (PROTOCOL §3.5). Empty until then.
    pub(crate) forgotten_counts: Vec<u32>,
    /// Forgotten peers and the ids they last had: they may not have heard.
    pub(crate) forgotten: VecDeque<Forgotten>,

    pub(crate) rows: Rows,
    /// Rows that the application named.
    pub(crate) named_count: u32,
    /// When idle strangers must be looked at (`strangers`). May be earlier.
    pub(crate) tend_at: Instant,
    /// Rows that are not idle.
    pub(crate) association_count: u32,
    pub(crate) actives: Slab<Box<Active>>,
    #[expect(clippy::vec_box, reason = "boxes move between here and `actives` as they are")]
    spare: Vec<Box<Active>>,
    pub(crate) replies: VecDeque<Reply>,

    pub(crate) outgoing: Slab<Outgoing>,
    pub(crate) parts: Slab<Parts>,
    /// Sends that expect a Grant or a Done, by row and number.
    pub(crate) sends_by_number: HashMap<u64, u32, Seeded>,
    pub(crate) copied: BytePool,

    /// One-sided operations of ours and the requests made of them (`operate`).
    pub(crate) operations: Slab<Operation>,
    pub(crate) requests: Slab<Request>,
    pub(crate) requests_by_number: HashMap<u64, u32, Seeded>,
    /// Memory exposed to peers, answers to their requests, and the bytes of these (`region`, `serve`).
    pub(crate) regions: Regions,
    pub(crate) answers: Slab<Answer>,
    pub(crate) results: BytePool,
    /// Requests of peers that are held, under way, or whose answers are not acknowledged.
    pub(crate) served_count: u32,

    pub(crate) matcher: Matcher,
    pub(crate) receives: Slab<Receive>,
    pub(crate) arrivals: Slab<Arrival>,
    pub(crate) progress: Slab<Progress>,
    /// Messages under way by row and number: those ahead of their turn, incomplete, or large.
    pub(crate) by_number: HashMap<u64, u32, Seeded>,
    pub(crate) held: BytePool,
    pub(crate) envelope_count: u32,
    /// Whole messages whose association ended before their turn; keys of `arrivals`.
    pub(crate) orphans: VecDeque<u64>,

    pub(crate) grants: Budgets,
    /// Arrivals that are granted, for the repeat of lost grants.
    pub(crate) granting: Vec<u32>,
    /// What is at hand cannot be refused: it is taken beyond the budgets (`given`).
    pub(crate) takes_all: bool,
    /// Up to here a message goes unasked whatever happens: the least that a setting says.
    pub(crate) surely_unasked_len: u64,
    /// Matched messages that are to be fetched: slot and serial.
    pub(crate) fetches: VecDeque<(u32, u32)>,
    /// What the announcement at hand says of where its message is.
    pub(crate) told: Option<Whereabouts>,
    pub(crate) regrant_at: Instant,
    /// For each link: where data came last.
    pub(crate) cursors: Box<[Cursor]>,
    /// Perhaps a row that is ready has granted data to send; if not, `poll_train` need not look.
    pub(crate) may_train: bool,
    /// Bytes of messages of ours, to all peers, that go ahead of their grant (PROTOCOL §8.9).
    pub(crate) ahead_sum: u64,
    pub(crate) train_checks: wire::TrainChecks,
    /// A packet came whose number has a high half. Before that nobody looks for one (`Endpoint::base_of`).
    pub(crate) has_high: bool,

    /// Rows we refuse, oldest refusal first.
    pub(crate) refused: VecDeque<u32>,
    pub(crate) queries: Queries,

    pub(crate) events: Ring<Event>,
    pub(crate) timers: BinaryHeap<Reverse<(Instant, u32)>>,
    pub(crate) ack_timers: Ring<(Instant, u32)>,
    /// Not later than the first of both kinds of timers. May be earlier: it is looked up again when time is up.
    pub(crate) wake_at: Instant,
    /// Contents of an Ack that is being read which are not simply over; empty otherwise.
    pub(crate) accepted: Vec<Content>,
    /// Paths not yet shown by `poll_new_path`.
    pub(crate) new_paths: VecDeque<(u8, Locator)>,
    pub(crate) path_news: VecDeque<PeerId>,
    /// One of these two may not be empty.
    pub(crate) has_news: bool,
    /// Peers not yet shown by `poll_new_locators`.
    pub(crate) new_locators: VecDeque<NewLocators>,
    /// Messages that come and go piece by piece (PROTOCOL §12).
    pub(crate) streams: Streams,
    /// Where frames wait for somebody who may work on them.
    pub(crate) aside: Vec<Aside>,
    /// The application does not take what it is told of peers' writes: no more of those that would be told.
    pub(crate) are_notices_held: bool,
    pub(crate) closing: Option<Closing>,
    pub(crate) closed: bool,
    pub(crate) counters: Counters,
    pub(crate) saboteur: Saboteur,
    /// Takes no quick way, so that a test can hold the general ones against them.
    #[cfg(test)]
    pub(crate) is_thorough: bool,
}

/// Paths kept for `poll_new_path`.
const NEW_PATH_COUNT_MAX: usize = 256;

impl Endpoint {
    /// Opens an endpoint. Nothing is sent.
    pub fn open(
        opening: Opening,
        limits: Limits,
        settings: Settings,
        now: Instant,
    ) -> Result<Self, SettingsError> {
        settings.check()?;
        limits.check(&settings)?;
        let links = opening.locators.len();
        if !(1..=wire::LOCATOR_COUNT_MAX).contains(&links) {
            return Err(SettingsError { name: "locators", must: "one to eight" });
        }
        let _ = now;
        Ok(Self::new(opening, limits, settings))
    }

    fn new(opening: Opening, limits: Limits, settings: Settings) -> Self {
        let links = opening.locators.len();
        let [first, second, third, fourth] = opening.entropy;
        let key = Secret([first, second]);
        let traits = LinkTraits::unknown(&settings);
        Self {
            secret: opening.secret,
            identity: opening.identity,
            incarnation: third | 1,
            locators: opening.locators,
            links: alloc::vec![traits; links].into_boxed_slice(),
            private_links: 0,
            pass: pass_of(&opening.secret),
            key,
            draw_count: 0,
            forgotten_counts: Vec::new(),
            forgotten: VecDeque::new(),
            rows: Rows::new(fourth),
            named_count: 0,
            tend_at: Instant::NEVER,
            association_count: 0,
            actives: Slab::default(),
            spare: Vec::new(),
            replies: VecDeque::new(),
            outgoing: Slab::default(),
            parts: Slab::default(),
            sends_by_number: HashMap::with_hasher(Seeded(fourth)),
            copied: BytePool::new(limits.copied_len_max),
            operations: Slab::default(),
            requests: Slab::default(),
            requests_by_number: HashMap::with_hasher(Seeded(fourth)),
            regions: Regions::new(fourth),
            answers: Slab::default(),
            results: BytePool::new(limits.result_len_max),
            served_count: 0,
            matcher: Matcher::new(fourth),
            receives: Slab::default(),
            arrivals: Slab::default(),
            progress: Slab::default(),
            by_number: HashMap::with_hasher(Seeded(fourth)),
            held: BytePool::new(limits.held_len_max),
            envelope_count: 0,
            orphans: VecDeque::new(),
            grants: Budgets::new(settings.grant_policy, limits.grant_len_max),
            granting: Vec::new(),
            takes_all: false,
            surely_unasked_len: u64::from(
                settings.eager_sure_len_max.min(settings.fetch_len_min.saturating_sub(1)),
            ),
            fetches: VecDeque::new(),
            told: None,
            regrant_at: Instant::NEVER,
            cursors: alloc::vec![Cursor::NOWHERE; links].into_boxed_slice(),
            may_train: false,
            ahead_sum: 0,
            train_checks: wire::train_checks_anywhere,
            has_high: false,
            refused: VecDeque::new(),
            queries: Queries::default(),
            events: Ring::new(),
            timers: BinaryHeap::new(),
            ack_timers: Ring::new(),
            wake_at: Instant::NEVER,
            accepted: Vec::new(),
            new_paths: VecDeque::new(),
            path_news: VecDeque::new(),
            has_news: false,
            new_locators: VecDeque::new(),
            streams: Streams::new(fourth),
            aside: Vec::new(),
            are_notices_held: false,
            closing: None,
            closed: false,
            counters: Counters::default(),
            saboteur: Saboteur::default(),
            #[cfg(test)]
            is_thorough: false,
            settings,
            limits,
        }
    }

    /// The address peers need to reach this endpoint.
    pub fn address(&self) -> Address {
        Address {
            secret: self.secret,
            identity: self.identity,
            locator: self.locators[0],
            has_helper: self.settings.has_helper,
        }
    }

    /// The row of the peer at `address`, made if there is none. Nothing is sent until something is posted.
    pub fn add_peer(&mut self, address: &Address) -> Result<PeerId, PeerError> {
        if self.closing.is_some() {
            return Err(PeerError::Closing);
        }
        let is_self = address.identity == self.identity;
        // Our own secret we know, whatever the address says.
        let secret = if is_self { self.secret } else { address.secret };
        let address = &Address { secret, ..*address };
        if let Some(row) = self.row_to_name(address) {
            // A peer that introduced itself before its address was known here, or one that moved.
            if !self.rows[row].is_named {
                self.name_row(row)?;
            }
            let known = &mut self.rows[row];
            if known.phase == Phase::Idle {
                known.first_locator = address.locator;
                known.has_helper = address.has_helper;
            }
            return Ok(self.rows[row].peer);
        }
        self.check_named_count()?;
        self.make_room_to_name();
        let row = self.insert_row(address);
        self.rows[row].by_public_key = address.secret == Secret::PUBLIC;
        self.name_row(row)?;
        if is_self {
            self.join_self(row);
        }
        Ok(self.rows[row].peer)
    }

    /// The application knows this peer from now on.
    fn name_row(&mut self, row: u32) -> Result<(), PeerError> {
        self.check_named_count()?;
        self.rows.stand_up(row);
        self.rows[row].is_named = true;
        self.named_count += 1;
        Ok(())
    }

    /// Only peers that the application named count for it: strangers cannot make it fail.
    fn check_named_count(&self) -> Result<(), PeerError> {
        let count_max = self.limits.peer_count_max;
        if self.named_count < count_max { Ok(()) } else { Err(PeerError::TooMany { count_max }) }
    }

    /// The row that an address names (PROTOCOL §3.2): that of its identity and secret. Without a secret it names whoever said
    /// that he is it; and a row that was named so learns the secret from an address that has one.
    fn row_to_name(&mut self, address: &Address) -> Option<u32> {
        if address.secret == Secret::PUBLIC {
            return self.rows.find_any(address.identity);
        }
        let known = self.rows.find(address.identity, address.secret);
        known.or_else(|| {
            let row = self.rows.find(address.identity, Secret::PUBLIC)?;
            self.rows.set_secret(row, address.secret);
            self.rows[row].by_public_key = false;
            Some(row)
        })
    }

    pub(crate) fn insert_row(&mut self, address: &Address) -> u32 {
        let row = self.rows.insert(address.identity, address.secret, address.locator);
        self.rows[row].version = self.settings.versions.1;
        self.rows[row].has_helper = address.has_helper;
        let is_it =
            |it: &&Forgotten| (it.identity, it.secret) == (address.identity, address.secret);
        self.rows[row].ended_id = self.forgotten.iter().rev().find(is_it).map_or(0, |it| it.id);
        row
    }

    /// The peer that is this endpoint needs no introduction: both ids are the same, frames come back by themselves.
    pub(crate) fn join_self(&mut self, row: u32) {
        let id = make_id(row, self.draw());
        let (incarnation, frame_len_max) = (self.incarnation, self.settings.frame_len_max);
        let locator = self.locators[0];
        self.association_count += 1;
        let this = &mut self.rows[row];
        this.begin(id);
        this.remote_id = id;
        this.incarnation = incarnation;
        this.frame_len_max = frame_len_max;
        this.phase = Phase::Joined;
        let frame_len_max = self.links[0].frame_len_max;
        this.rest = Some(PathRest::new(0, locator, Standing::Proven, frame_len_max));
    }

    /// A peer with this identity, whatever its secret. Looks at all peers.
    pub fn find_peer(&self, identity: &Identity) -> Option<PeerId> {
        self.rows.find_any(*identity).map(|row| self.rows[row].peer)
    }

    /// Who a peer is.
    pub fn identity_of(&self, peer: PeerId) -> Option<Identity> {
        self.rows.known(peer).map(|row| row.identity)
    }

    /// Where the peer said it is, in its address: known also when no path leads there any more.
    pub fn first_locator_of(&self, peer: PeerId) -> Option<Locator> {
        self.rows.known(peer).map(|row| row.first_locator)
    }

    /// Whether the peer has verified itself and its association lives.
    pub fn is_joined(&self, peer: PeerId) -> bool {
        self.rows.known(peer).is_some_and(|row| row.phase == Phase::Joined)
    }

    /// A path that frames will take from now on: whoever knows that long frames do not pass there says so
    /// (`on_too_long`) before the first is sent.
    #[inline]
    pub fn poll_new_path(&mut self) -> Option<(u8, Locator)> {
        let new = self.new_paths.pop_front();
        self.has_news = !self.new_paths.is_empty() || !self.new_locators.is_empty();
        new
    }

    pub(crate) fn show_path(&mut self, link: u8, locator: Locator) {
        // A driver who never asks has nothing to say either.
        if self.new_paths.len() < NEW_PATH_COUNT_MAX {
            self.new_paths.push_back((link, locator));
            self.has_news = true;
        }
    }

    /// Whether frames to this peer are on their way, unacknowledged: what is posted now may wait for company.
    pub fn is_busy(&self, peer: PeerId) -> bool {
        let is_busy =
            |row: &Row| self.actives[row.active].paths.iter().any(|path| !path.flight.is_empty());
        self.rows.known(peer).is_some_and(|row| row.active != NONE && is_busy(row))
    }

    /// Since when nothing was heard of a peer that owes us an answer; `None` if it is not silent.
    pub fn silent_since(&self, peer: PeerId) -> Option<Instant> {
        let row = self.rows.known(peer).filter(|row| row.active != NONE)?;
        let probing = self.actives[row.active].paths.iter().any(|path| path.probe_count > 1);
        probing.then_some(row.heard_at)
    }

    /// Something the application waits for.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Counts since the endpoint opened.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// A number that grows with everything that peers sent on somebody's behalf, but not with questions and acknowledgements.
    #[inline]
    #[must_use]
    pub fn content_in(&self) -> u64 {
        let it = &self.counters;
        let streamed = it.stream_bytes_lent + it.stream_bytes_held;
        it.messages_in + it.requests_in + it.bytes_placed + streamed
    }

    /// What the network makes us hold now: bytes of payload, envelopes.
    pub fn held(&self) -> (u64, u32) {
        (self.held.used_len(), self.envelope_count)
    }

    /// What peers' one-sided operations make us hold now: requests, bytes of answers.
    pub fn served(&self) -> (u32, u64) {
        (self.served_count, self.results.used_len())
    }

    /// The bytes of a pooled piece of a frame's body.
    pub fn pooled(&self, slot: u32) -> &[u8] {
        match slot & RESULT_BIT {
            0 => self.copied.bytes(slot),
            _ => self.results.bytes(slot & !RESULT_BIT),
        }
    }

    /// Changes how many frames one acknowledgement collects (EMP's knob), from 1 to 256.
    pub fn set_ack_every(&mut self, count: u32) {
        self.settings.ack_every = count.clamp(1, 256);
    }

    /// Has the checks of trains computed by this function: `wire::train_checks`, but made for the machine at hand.
    pub fn set_train_checks(&mut self, checks: wire::TrainChecks) {
        self.train_checks = checks;
    }

    /// Tells the endpoint to make a mistake, to see whether anybody notices.
    #[cfg(feature = "sabotage")]
    pub fn sabotage(&mut self, fault: crate::base::sabotage::Sabotage) {
        self.saboteur.set(fault);
    }

    /// A random number of this life.
    pub(crate) fn draw(&mut self) -> u64 {
        self.draw_count += 1;
        siphash13_words(self.key, &[self.draw_count])
    }

    /// The active record of a row that has an association, made if it rests.
    #[inline]
    pub(crate) fn activate(&mut self, row: u32) -> u32 {
        match self.rows[row].active {
            NONE => self.activate_resting(row),
            active => active,
        }
    }

    #[cold]
    #[inline(never)]
    fn activate_resting(&mut self, row: u32) -> u32 {
        self.rows.stand_up(row);
        let this = &mut self.rows[row];
        let mut active = self.spare.pop().unwrap_or_else(|| Box::new(Active::new(row)));
        active.row = row;
        active.credit = Credit::from_rest(this.credit);
        let rtt_ns = self.settings.initial_rtt_ns;
        let more = this.more_rest.take();
        for rest in this.rest.take().iter().chain(more.iter().flatten()) {
            let traits = self.links.get(usize::from(rest.link)).unwrap_or(&self.links[0]);
            active.paths.push(Path::from_rest(rest, traits, rtt_ns));
        }
        if let Some(path) = active.paths.first_mut() {
            // As a rule both ways of the first path are the same; if not, its next frame tells.
            let way = Origin { link: path.link, from: path.locator };
            path.set_source(0, way);
        }
        this.active = self.actives.insert(active);
        self.refit(row);
        self.rows[row].active
    }

    /// Puts the active record of a quiet row away, keeping what its paths must remember.
    pub(crate) fn rest(&mut self, now: Instant, row: u32) {
        self.note_resting(now, row);
        let this = &mut self.rows[row];
        let mut active = self.actives.remove(this.active);
        this.active = NONE;
        this.credit = active.credit.rest();
        this.rest = active.paths.first().map(Path::rest);
        if active.paths.len() > 1 {
            let more: Vec<PathRest> = active.paths[1..].iter().map(Path::rest).collect();
            this.more_rest = Some(more.into_boxed_slice());
        }
        active.clear();
        self.keep_spare(active);
    }

    pub(crate) fn keep_spare(&mut self, active: Box<Active>) {
        if self.spare.len() < SPARE_COUNT_MAX {
            self.spare.push(active);
        }
    }

    /// The row may have something to send.
    #[inline]
    pub(crate) fn make_ready(&mut self, row: u32) {
        self.rows.make_ready(row);
    }
}

impl TxFrame {
    /// Whether `seal` wants the CRC32C of the body.
    pub fn wants_crc(&self) -> bool {
        wire::wants_crc(&self.head)
    }

    /// Finishes the frame: `crc` is the CRC32C of the gathered body if `wants_crc`, else not looked at.
    #[inline] // the usual frame was sealed when it was written
    pub fn seal(&mut self, crc: u32) {
        if !self.is_sealed {
            self.seal_written(crc);
        }
    }

    fn seal_written(&mut self, crc: u32) {
        let secret = self.secret.expect("made by poll_transmit");
        let crc = self.wants_crc().then_some(crc);
        let base = wire::base_of(self.packet);
        wire::seal_high(&mut self.head, self.body_len, base, secret, crc);
    }
}
