//! Peers: a small row for everybody, a larger record for those with something under way.
//!
//! PROTOCOL §3.2, docs/design.md §5 ("Peers are rows, not connections"). A row is what must survive idleness (who it is, its
//! ids, where its numbers stand); `Active` holds queues, paths and timers and is made when the peer has something to
//! do and given back when it is idle for a while. An idle peer costs at most 512 bytes in all.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use hashbrown::HashTable;

use crate::base::api::GoneReason;
use crate::base::secret::Secret;
use crate::base::seeded::Seeded;
use crate::base::slab::NONE;
use crate::base::types::{Identity, Instant, Locator, PeerId};
use crate::delivery::content::Content;
use crate::delivery::credit::{Credit, CreditRest};
use crate::delivery::path::PathRest;
use crate::peers::ahead::Ahead;
use crate::peers::allowance::Allowance;
use crate::peers::kept::Contest;
use crate::peers::kept::Refusals;
use crate::peers::kept::{Idlers, LargeLine, Refresh, Seat, Trials};
use crate::peers::line::Line;
use crate::peers::numbers::Numbers;
use crate::peers::paths::Paths;
use crate::peers::side::{Requests, Side};
use crate::peers::ties::Ties;

mod ready;

/// Bits of an association id that name the row (PROTOCOL §3.2).
pub(crate) const ROW_BITS: u32 = PeerId::ROW_BITS;
const ROW_MASK: u64 = (1 << ROW_BITS) - 1;

/// The row an association id names.
pub(crate) fn row_of_id(id: u64) -> u32 {
    (id & ROW_MASK) as u32
}

/// An association id for a row, from random bits.
pub(crate) fn make_id(row: u32, random: u64) -> u64 {
    // The lowest random bit is always set, so that no id is 0: that one means first contact.
    (random | 1) << ROW_BITS | u64::from(row)
}

/// Where an association stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// None; the next send opens one.
    Idle,
    /// Hello sent, no Challenge yet.
    Hello,
    /// Challenged: every frame starts with Hello and Echo until the peer welcomes us.
    Echo,
    /// Both sides know each other.
    Joined,
}

/// One peer. Rooms above read it by its methods; what they may name are parts with a state of their own, and rules on it.
#[derive(Debug)]
pub(crate) struct Row {
    /// What the application calls it; of a vacant row, what it will call the next one.
    pub(super) peer: PeerId,
    pub(super) identity: Identity,
    pub(super) secret: Secret,
    /// From the address: where first contact goes.
    pub(super) first_locator: Locator,
    /// The peer's incarnation, 0 if not known.
    pub(super) incarnation: u64,
    pub(super) local_id: u64,
    pub(super) remote_id: u64,
    /// The remote id of the association that ended last: the peer must not go on with it (PROTOCOL §3.8).
    pub(super) ended_id: u64,
    /// Messages, both ways: what must be known also while the row rests.
    pub(crate) numbers: Numbers,
    /// What of our large messages may go without a grant.
    pub(crate) ahead: Ahead,
    /// One-sided operations: what must be known also while the row rests.
    pub(crate) requests: Requests,
    pub(super) heard_at: Instant,
    /// When the first probe after `heard_at` was due; older than `heard_at`: none was.
    pub(super) silent_from: Instant,
    /// When the timer heap will look at this row.
    pub(super) timer_at: Instant,
    pub(super) reset_sent_at: Instant,
    /// What may go to places of this peer that never answered.
    pub(super) allowance: Allowance,
    /// Slot of the active record, or NONE.
    pub(super) active: u32,
    /// What the rooms above have of it.
    pub(crate) ties: Ties,
    /// Its large messages that are granted, or wait for that.
    pub(crate) large: LargeLine,
    /// Order of the newest refusal or recall sent, and of the newest heard. Not among `numbers`: there they would make the row longer.
    pub(super) turn_sent: u16,
    pub(super) turn_heard: u16,
    pub(super) frame_len_max: u16,
    pub(super) credit: CreditRest,
    pub(super) version: u8,
    pub(super) phase: Phase,
    pub(super) in_use: bool,
    /// The application named it; else it introduced itself.
    pub(super) is_named: bool,
    pub(super) has_helper: bool,
    /// The peer takes its pass instead of a check (PROTOCOL §14.6).
    pub(super) takes_pass: bool,
    pub(super) is_ready: bool,
    /// While it is ready: the row whose turn is next, or NONE.
    next_ready: u32,
    /// Its first contact is keyed with the public secret (PROTOCOL §3.9).
    pub(super) by_public_key: bool,
    /// Its place among idle strangers.
    pub(super) seat: Seat,
    /// Paths while idle.
    pub(super) rest: Option<PathRest>,
    pub(super) more_rest: Option<Box<[PathRest]>>,
}

/// What a peer with something under way needs beyond its row; as with rows, rooms above may name its parts.
#[derive(Debug)]
pub(crate) struct Active {
    pub(super) row: u32,
    pub(crate) paths: Paths,
    /// The path for small messages and control.
    pub(super) main: u8,
    /// The longest frame that paths in use may have; 0: none is.
    pub(super) frame_len: u16,
    /// Our messages to the peer.
    pub(crate) line: Line,
    /// Whether the peer's frames state sums of their bodies, if it sent any.
    pub(super) is_checked: Option<bool>,
    /// Notices to send.
    pub(super) control: VecDeque<Notice>,
    pub(crate) credit: Credit,
    /// Cancels the peer has not acknowledged: it may still see the message instead.
    pub(super) cancel_count: u32,
    pub(super) contact: Contact,
    /// Put Welcome in front until the peer has used our id.
    pub(super) welcome: bool,
    /// A Ping is due.
    pub(super) ping: bool,
    /// The nonce Welcome answers.
    pub(super) peer_nonce: u64,
    pub(super) goodbye: Farewell,
    /// The peer's host says that nobody is there (PROTOCOL §4.5).
    pub(super) refusals: Refusals,
    /// Refused: this much room is needed before a recall makes sense.
    pub(super) refused_need: u64,
    pub(super) idle_since: Instant,
    /// When an acknowledgement that goes another way than its packet came may ask again whether its own way lives.
    pub(super) blind_ping_at: Instant,
    /// Links over one card: who carries data.
    pub(super) contest: Contest,
    /// Paths with little traffic: when they are asked for their round trips.
    pub(super) refresh: Refresh,
    /// Small messages: whether another path is as quick.
    pub(super) trials: Trials,
    /// One-sided operations, if there were any.
    pub(super) side: Option<Box<Side>>,
}

/// First contact under way.
#[derive(Debug, Default)]
pub(crate) struct Contact {
    pub(super) hello_at: Instant,
    pub(super) hello_count: u32,
    pub(super) nonce: u64,
    pub(super) cookie: u64,
    /// The links that may lead to the peer: bit n for link n.
    pub(super) links: u8,
    /// The peer's host said that nobody is there.
    pub(super) is_refused: bool,
}

impl Contact {
    /// Links that take turns; at least one.
    pub(crate) fn way_count(&self) -> u32 {
        self.links.count_ones().max(1)
    }

    /// Why it came to nothing: as its host says, or else this.
    pub(crate) fn reason_or(&self, other: GoneReason) -> GoneReason {
        if self.is_refused { GoneReason::Refused } else { other }
    }
}

/// Our goodbye to a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Farewell {
    /// Not said.
    Unsaid,
    /// Said, not acknowledged.
    Said,
}

/// A notice waiting to be sent: content, and what is needed to write it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Notice {
    /// Anything that must arrive.
    Content(Content),
    /// An answer to a query.
    Found(crate::wire::FoundRepr),
    /// A query: its number; what it asks stands in the endpoint's list.
    Query(u32),
    /// Requests of one-sided operations wait to be written. Unlike notices they need window.
    Requests,
}

impl Active {
    pub(super) fn new(row: u32) -> Self {
        Self {
            row,
            paths: Paths::default(),
            main: 0,
            frame_len: 0,
            line: Line::default(),
            is_checked: None,
            control: VecDeque::new(),
            credit: Credit::from_rest(CreditRest::INITIAL),
            cancel_count: 0,
            contact: Contact::default(),
            welcome: false,
            ping: false,
            peer_nonce: 0,
            goodbye: Farewell::Unsaid,
            refusals: Refusals::default(),
            refused_need: 0,
            idle_since: Instant(0),
            blind_ping_at: Instant(0),
            contest: Contest::default(),
            refresh: Refresh::default(),
            trials: Trials::default(),
            side: None,
        }
    }

    /// As new, but for the memory of its queues.
    pub(super) fn clear(&mut self) {
        self.paths.clear();
        self.line.clear();
        self.control.clear();
        let fresh = Self::new(NONE);
        let old = core::mem::replace(self, fresh);
        self.paths = old.paths;
        self.line = old.line;
        self.control = old.control;
    }

    /// Nothing of ours is under way: no message, no notice, nothing in flight.
    pub(crate) fn is_quiet(&self) -> bool {
        self.line.is_empty()
            && self.control.is_empty()
            && !self.welcome
            && !self.ping
            && self.side.as_ref().is_none_or(|side| side.is_idle())
            && self.paths.iter().all(|path| path.flight().is_empty() && !path.owes_ack())
    }
}

/// Rows grow by an eighth: doubling would make the idle ones cost twice their size.
const GROWTH_SHARE: usize = 8;

/// The rows of an endpoint.
#[derive(Debug)]
pub(crate) struct Rows {
    rows: Vec<Row>,
    free: Vec<u32>,
    /// Rows by who a peer is *and* its secret: another secret under the same identity is another peer (PROTOCOL §3.2). The
    /// table holds numbers of rows; what they are found by stands in the rows.
    by_name: HashTable<u32>,
    hasher: Seeded,
    pub(super) idlers: Idlers,
    /// Rows that may have a frame to send take turns, in a list through themselves: a row alone in it comes and goes
    /// with a few stores. First and last, or NONE.
    first_ready: u32,
    last_ready: u32,
    /// Frames since a turn was passed on. Not since the row's turn began: then a turn is shorter, and nobody need count on the quick ways.
    turn_frame_count: u32,
}

impl Rows {
    pub(super) fn new(seed: u64) -> Self {
        let (by_name, hasher) = (HashTable::new(), Seeded(seed));
        let (rows, free) = (Vec::new(), Vec::new());
        let idlers = Idlers::default();
        let (first_ready, last_ready, turn_frame_count) = (NONE, NONE, 0);
        Self { rows, free, by_name, hasher, idlers, first_ready, last_ready, turn_frame_count }
    }

    pub(crate) fn len(&self) -> usize {
        self.by_name.len()
    }

    /// The row of this identity with this secret.
    pub(crate) fn find(&self, identity: Identity, secret: Secret) -> Option<u32> {
        let is_it = |&at: &u32| (self[at].identity, self[at].secret) == (identity, secret);
        self.by_name.find(self.hasher.name(identity, secret), is_it).copied()
    }

    /// A row of this identity, whatever its secret; one that has an association first. Looks at all rows.
    pub(crate) fn find_any(&self, identity: Identity) -> Option<u32> {
        let of_identity = || self.ids().filter(|&at| self[at].identity == identity);
        of_identity().find(|&at| self[at].phase == Phase::Joined).or_else(|| of_identity().next())
    }

    /// The peer's secret is known from now on, or another. False, and nothing is changed, if that peer has a row already.
    pub(super) fn set_secret(&mut self, at: u32, secret: Secret) -> bool {
        let (identity, old) = (self[at].identity, self[at].secret);
        if old == secret {
            return true;
        }
        if self.find(identity, secret).is_some() {
            return false;
        }
        self.unlist(at);
        self[at].secret = secret;
        self.list(at);
        true
    }

    /// Makes a row known by its identity and secret.
    fn list(&mut self, at: u32) {
        let (rows, hasher) = (&self.rows, self.hasher);
        let hash = |&at: &u32| {
            let Row { identity, secret, .. } = rows[at as usize];
            hasher.name(identity, secret)
        };
        self.by_name.insert_unique(hash(&at), at, hash);
    }

    fn unlist(&mut self, at: u32) {
        let hash = self.hasher.name(self[at].identity, self[at].secret);
        if let Ok(entry) = self.by_name.find_entry(hash, |&other| other == at) {
            entry.remove();
        }
    }

    #[inline]
    pub(crate) fn get(&self, at: u32) -> Option<&Row> {
        self.rows.get(at as usize).filter(|row| row.in_use)
    }

    /// The row of a peer that the application names, if it is not forgotten.
    #[inline]
    pub(crate) fn known(&self, peer: PeerId) -> Option<&Row> {
        self.get(peer.row()).filter(|row| row.peer == peer)
    }

    /// As [`Rows::known`].
    #[inline]
    pub(crate) fn known_mut(&mut self, peer: PeerId) -> Option<&mut Row> {
        self.rows.get_mut(peer.row() as usize).filter(|row| row.in_use && row.peer == peer)
    }

    /// A row that may be vacant; then its phase is `Idle`.
    #[inline]
    pub(crate) fn get_any(&self, at: u32) -> Option<&Row> {
        self.rows.get(at as usize)
    }

    pub(crate) fn get_any_mut(&mut self, at: u32) -> Option<&mut Row> {
        self.rows.get_mut(at as usize)
    }

    pub(super) fn insert(
        &mut self,
        identity: Identity,
        secret: Secret,
        first_locator: Locator,
    ) -> u32 {
        let at = self.free.pop().unwrap_or_else(|| self.grow());
        let peer = self[at].peer;
        self[at] = Row { identity, secret, first_locator, in_use: true, ..Row::vacant(peer) };
        self.list(at);
        at
    }

    pub(super) fn remove(&mut self, at: u32) {
        if self[at].is_ready {
            self.forget_ready(at);
        }
        self.stand_up(at);
        self.unlist(at);
        // A row that has no name left for another stays empty: one in a million that were forgotten.
        match self[at].peer.next() {
            Some(next) => {
                self[at] = Row::vacant(next);
                self.free.push(at);
            }
            None => self[at] = Row::vacant(self[at].peer),
        }
    }

    fn grow(&mut self) -> u32 {
        if self.rows.len() == self.rows.capacity() {
            self.rows.reserve_exact((self.rows.len() / GROWTH_SHARE).max(8));
        }
        let at = self.rows.len() as u32;
        self.rows.push(Row::vacant(PeerId(at.into())));
        at
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = u32> {
        (0..self.rows.len() as u32).filter(|&at| self.get(at).is_some())
    }
}

impl core::ops::Index<u32> for Rows {
    type Output = Row;
    #[inline]
    fn index(&self, at: u32) -> &Row {
        &self.rows[at as usize]
    }
}

impl core::ops::IndexMut<u32> for Rows {
    #[inline]
    fn index_mut(&mut self, at: u32) -> &mut Row {
        &mut self.rows[at as usize]
    }
}

impl Row {
    /// What is kept of a path while the row rests.
    pub(crate) fn resting_path(&self, index: usize) -> Option<&PathRest> {
        self.rest.iter().chain(self.more_rest.iter().flatten()).nth(index)
    }

    fn vacant(peer: PeerId) -> Self {
        Self {
            peer,
            identity: Identity { host: 0, endpoint: 0 },
            secret: Secret::PUBLIC,
            first_locator: Locator::default(),
            incarnation: 0,
            local_id: 0,
            remote_id: 0,
            ended_id: 0,
            numbers: Numbers::default(),
            ahead: Ahead::default(),
            requests: Requests::default(),
            heard_at: Instant(0),
            silent_from: Instant(0),
            timer_at: Instant::NEVER,
            reset_sent_at: Instant(0),
            allowance: Allowance::default(),
            active: NONE,
            ties: Ties::default(),
            large: LargeLine::EMPTY,
            turn_sent: 0,
            turn_heard: 0,
            frame_len_max: 0,
            credit: CreditRest::INITIAL,
            version: 0,
            phase: Phase::Idle,
            in_use: false,
            is_named: false,
            has_helper: true,
            takes_pass: false,
            is_ready: false,
            next_ready: NONE,
            by_public_key: false,
            seat: Seat::default(),
            rest: None,
            more_rest: None,
        }
    }

    /// The peer was heard.
    #[inline(always)]
    pub(crate) fn on_heard(&mut self, now: Instant) {
        self.heard_at = now;
    }

    /// A frame of this length came from the peer: it was heard, and so much more may go to its places.
    pub(crate) fn on_frame(&mut self, now: Instant, frame_len: usize) {
        self.on_heard(now);
        self.allowance.on_frame(now, frame_len);
    }

    /// Has an association, and its active record.
    #[inline]
    pub(crate) fn is_awake(&self) -> bool {
        self.phase != Phase::Idle && self.active != NONE
    }

    /// The row starts an association: all numbers begin again.
    pub(super) fn begin(&mut self, local_id: u64) {
        self.local_id = local_id;
        self.remote_id = 0;
        self.incarnation = 0;
        self.numbers = Numbers::default();
        (self.turn_sent, self.turn_heard) = (0, 0);
        self.requests = Requests::default();
        self.allowance = Allowance::default();
        self.rest = None;
        self.more_rest = None;
    }
}

impl Active {
    /// Its one-sided operations; made when there are the first.
    pub(crate) fn side_mut(&mut self) -> &mut Side {
        self.side.get_or_insert_default()
    }

    /// Whether there were any.
    pub(crate) fn has_side(&self) -> bool {
        self.side.is_some()
    }

    /// One-sided operations are to be finished before we leave.
    pub(crate) fn is_operating(&self) -> bool {
        self.side.as_ref().is_some_and(|side| side.is_busy())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::api::LinkTraits;
    use crate::base::limits::Settings;
    use crate::delivery::path::{Path, Standing};

    /// A packet that is in flight, or an acknowledgement that is owed, is something under way.
    #[test]
    fn a_path_with_something_to_do_is_not_quiet() {
        let traits = LinkTraits::unknown(&Settings::default());
        let quiet = || {
            let mut active = Active::new(0);
            let path = Path::new(0, Locator::default(), Standing::Proven, &traits, 1_000_000);
            active.paths.push(path);
            active
        };
        assert!(quiet().is_quiet());
        let mut waits = quiet();
        waits.paths[0].add(Content::Ping);
        waits.paths[0].on_sent(Instant(1), 100, &Settings::default());
        assert!(!waits.is_quiet());
        let mut owes = quiet();
        owes.paths[0].owe_urgent_ack();
        assert!(!owes.is_quiet());
    }

    /// Neither twice as many rows as are needed, nor all of them copied for every few that come.
    #[test]
    fn rows_grow_by_an_eighth() {
        let mut rows = Rows::new(7);
        for at in 0..2000_usize {
            let was_full = rows.rows.len() == rows.rows.capacity();
            rows.grow();
            let room = rows.rows.capacity() - at;
            assert!(!was_full || room == (at / 8).max(8), "{room} for {at}");
        }
    }

    #[test]
    fn rows_are_found_by_identity_and_used_again() {
        let mut rows = Rows::new(7);
        let ids: Vec<u32> = (0..200u64)
            .map(|n| {
                rows.insert(Identity { host: n, endpoint: 1 }, Secret([n, n]), Locator::default())
            })
            .collect();
        let of = |n: u64| (Identity { host: n, endpoint: 1 }, Secret([n, n]));
        let find = |rows: &Rows, (identity, secret)| rows.find(identity, secret);
        assert_eq!(find(&rows, of(150)), Some(ids[150]));
        assert_eq!(find(&rows, (of(150).0, of(151).1)), None, "another secret is another peer");
        assert_eq!(rows.len(), 200);
        rows.remove(ids[150]);
        assert_eq!(find(&rows, of(150)), None);
        assert!(rows.get(ids[150]).is_none());
        let again =
            rows.insert(Identity { host: 999, endpoint: 1 }, Secret([1, 1]), Locator::default());
        assert_eq!(again, ids[150]);
        assert_eq!(rows.ids().count(), 200);
        assert!(rows.get(5000).is_none());
    }

    #[test]
    fn an_id_names_its_row() {
        assert_eq!(row_of_id(make_id(77, u64::MAX)), 77);
        assert_ne!(make_id(0, 1), make_id(0, 2));
    }

    #[test]
    fn a_row_is_small() {
        assert!(size_of::<Row>() <= 360, "{}", size_of::<Row>());
    }
}
