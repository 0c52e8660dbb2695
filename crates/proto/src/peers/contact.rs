//! First contact: how a stranger with our address becomes a peer, and how a peer becomes a stranger.
//!
//! PROTOCOL §3. The receiver of a Hello keeps nothing: all it needs comes back with the Echo, and the cookie proves that
//! it was asked for just now, from there, by this life of that endpoint. The picture is a hotel desk that writes the room
//! number on the guest's own card: whoever shows the card later gets in, and a card from last year does not fit the door.

mod proving;

use crate::base::api::{Event, Failure, GoneReason};
use crate::base::limits::SECOND;
use crate::base::sabotage::Sabotage;
use crate::base::secret::Secret;
use crate::base::siphash::siphash13_words;
use crate::base::types::{Address, Instant, Locator};
use crate::delivery::path::Origin;
use crate::delivery::path::{Path, Standing};
use crate::peers::Peers;
use crate::peers::kept::{Reply, ReplyRecord};
use crate::peers::rows::{Phase, make_id};
use crate::peers::strangers::Tickets;
use crate::wire::{
    FLAG_HELPER, FLAG_PASS, FORM_STRANGER, FrameView, Header, HelloRepr, HelloView, Introduction,
    Record, WelcomeRepr, WelcomeView,
};

/// Answers waiting to be sent; more are dropped, the asker will ask again.
const REPLY_COUNT_MAX: usize = 256;
/// The cookie's clock: 2^34 ns, about 17 s.
const EPOCH_SHIFT: u32 = 34;
/// Longest pause between two Hellos.
const HELLO_NS_MAX: u64 = SECOND;

/// What came of a Hello.
pub(crate) enum Greeting<'a> {
    /// The Hello was answered, or is to be ignored.
    Answered,
    /// Of a peer that has joined and does not know it yet: what follows in the frame may be processed.
    Known(u32),
    /// With an Echo that is good. `reset`: the row that was echoing itself, for an association which the other has ended.
    Echoed { address: Address, hello: HelloView<'a>, reset: Option<u32> },
}

/// What came of a frame to an association that is not joined yet.
pub(crate) enum Answered {
    /// Nothing, or the asking goes on.
    Asked,
    /// The peer has joined by this frame.
    Joined,
    /// The association is over.
    Ended(GoneReason),
}

impl Peers {
    pub(crate) fn reply(&mut self, reply: Reply) {
        if self.replies.len() < REPLY_COUNT_MAX {
            self.replies.push_back(reply);
        }
    }

    /// Starts an association: Hello as soon as frames are polled.
    pub(crate) fn begin_contact(&mut self, now: Instant, row: u32) {
        if self.rows[row].identity == self.identity && self.rows[row].secret == self.secret {
            return self.join_self(row); // a Hello in our own name would be refused
        }
        let id = make_id(row, self.draw());
        let nonce = self.draw();
        self.association_count += 1;
        let this = &mut self.rows[row];
        this.begin(id);
        // How it came to us before tells nothing about what we know of it now.
        this.by_public_key = this.secret == Secret::PUBLIC;
        this.phase = Phase::Hello;
        this.on_heard(now);
        this.frame_len_max = self.settings.frame_len_max;
        let locator = this.first_locator;
        let active = self.activate(row);
        let active = &mut self.actives[active];
        active.contact.hello_at = now;
        active.contact.hello_count = 0;
        active.contact.nonce = nonce;
        active.contact.links = 1;
        let rtt_ns = self.settings.initial_rtt_ns;
        let mut path = Path::new(0, locator, Standing::Proven, self.links.of(0), rtt_ns);
        path.set_source(0, Origin { link: 0, from: locator });
        active.paths.push(path);
        self.show_path(0, locator);
        self.show_locators(row, true, alloc::vec![locator]);
        self.make_ready(row);
        self.arm(now, row);
    }

    /// The pause after the next Hello.
    pub(crate) fn hello_pause_ns(&self, count: u32) -> u64 {
        ((2 * self.settings.initial_rtt_ns) << count.min(16)).min(HELLO_NS_MAX)
    }

    /// What Hello and Welcome say of this endpoint.
    fn introduction(&self, id: u64, nonce: u64) -> Introduction {
        let helper = if self.settings.has_helper { FLAG_HELPER } else { 0 };
        Introduction {
            flags: helper | if self.links.has_private() { FLAG_PASS } else { 0 },
            versions: self.versions_byte(),
            frame_len_max: self.settings.frame_len_max,
            incarnation: self.incarnation,
            id,
            nonce,
        }
    }

    pub(crate) fn hello_repr(&self, id: u64, nonce: u64) -> HelloRepr<'_> {
        let (who, address) = (self.introduction(id, nonce), self.address());
        HelloRepr { who, address, locators: &self.locators }
    }

    pub(crate) fn welcome_repr(&self, row: u32, nonce: u64) -> WelcomeRepr<'_> {
        let this = &self.rows[row];
        let who = self.introduction(this.local_id, nonce);
        let address = this.by_public_key.then(|| self.address());
        WelcomeRepr { who, address, locators: &self.locators }
    }

    pub(crate) fn versions_byte(&self) -> u8 {
        self.settings.versions.0 << 4 | self.settings.versions.1
    }

    /// Nobody else is we, though whoever holds our address knows our secret too; and who has no secret of his own could not
    /// tell our frames from anybody's.
    fn may_be_a_peer(&self, address: &Address) -> bool {
        let is_own = address.identity == self.identity && address.secret == self.secret;
        !is_own && address.secret != Secret::PUBLIC
    }

    /// The row of the peer a Hello claims to come from (PROTOCOL §3.2): identity *and* secret must be those of the row. A peer
    /// that the application named without a secret is whoever first says that he is it.
    fn row_of_claimant(&self, address: &Address) -> Option<u32> {
        let known = self.rows.find(address.identity, address.secret);
        known.or_else(|| self.rows.find(address.identity, Secret::PUBLIC))
    }

    /// A peer that still introduces itself, from where we do not expect it, cannot answer a path challenge: it does not know
    /// our id. A cookie for its new locator does the same service.
    fn follow_newcomer(
        &mut self,
        now: Instant,
        origin: Origin,
        row: u32,
        address: &Address,
        hello: &HelloView<'_>,
        echo: Option<Record<'_>>,
    ) {
        let active = self.activate(row);
        let path = &self.actives[active].paths[0];
        if (path.link(), *path.locator()) == (origin.link, origin.from) {
            return;
        }
        let fresh = matches!(echo, Some(Record::Echo { cookie }) if self.is_fresh(now, origin, address, hello, cookie));
        if fresh {
            let traits = self.traits_of(origin.link, self.rows[row].frame_len_max);
            let path = &mut self.actives[active].paths[0];
            path.move_to(origin.link, origin.from, &traits);
            path.set_source(0, origin);
            self.counters.locators_changed += 1;
            self.show_path(origin.link, origin.from);
            self.refit(row);
        } else {
            let version = self.rows[row].version;
            self.challenge(now, origin, address, hello, version);
        }
    }

    fn is_fresh(
        &self,
        now: Instant,
        origin: Origin,
        address: &Address,
        hello: &HelloView<'_>,
        cookie: u64,
    ) -> bool {
        let epoch = now.0 >> EPOCH_SHIFT;
        [epoch, epoch.wrapping_sub(1)]
            .iter()
            .any(|&epoch| cookie == self.cookie(origin, address, hello, epoch))
    }

    /// PROTOCOL §3.5.
    fn cookie(&self, origin: Origin, address: &Address, hello: &HelloView<'_>, epoch: u64) -> u64 {
        let row = self.row_of_claimant(address);
        let Secret(secret) = address.secret;
        let ids = row.map_or([0; 3], |row| {
            let this = &self.rows[row];
            [this.local_id, this.remote_id, this.ended_id]
        });
        let word = |at: usize| {
            u64::from_le_bytes(origin.from.0[at..at + 8].try_into().expect("eight bytes"))
        };
        siphash13_words(
            self.key,
            &[
                address.identity.host,
                address.identity.endpoint,
                secret[0],
                secret[1],
                hello.who().incarnation,
                hello.who().id,
                word(0),
                word(8),
                word(16),
                u64::from(origin.link),
                epoch,
                ids[0],
                ids[1],
                ids[2],
                self.forgotten_count(address.identity),
            ],
        )
    }

    fn challenge(
        &mut self,
        now: Instant,
        origin: Origin,
        address: &Address,
        hello: &HelloView<'_>,
        version: u8,
    ) {
        let cookie = self.cookie(origin, address, hello, now.0 >> EPOCH_SHIFT);
        self.counters.challenges += 1;
        self.reply_to(
            origin,
            address,
            hello,
            version,
            ReplyRecord::Challenge { nonce: hello.who().nonce, cookie },
        );
    }

    fn reply_to(
        &mut self,
        origin: Origin,
        address: &Address,
        hello: &HelloView<'_>,
        version: u8,
        record: ReplyRecord,
    ) {
        self.reply(Reply {
            link: origin.link,
            locator: origin.from,
            secret: address.secret,
            to: hello.who().id,
            version,
            path: 0,
            record,
        });
    }

    /// Both sides know each other.
    fn join(
        &mut self,
        now: Instant,
        row: u32,
        origin: Origin,
        who: Introduction,
        locators: impl Iterator<Item = Locator>,
    ) {
        let frame_len = self
            .settings
            .frame_len_max
            .min(who.frame_len_max.max(crate::base::limits::FRAME_LEN_FLOOR));
        let rtt_ns = self.settings.initial_rtt_ns;
        let traits = self.traits_of(origin.link, frame_len);
        let this = &mut self.rows[row];
        this.phase = Phase::Joined;
        this.incarnation = who.incarnation;
        this.remote_id = who.id;
        this.has_helper = who.flags & FLAG_HELPER != 0;
        this.takes_pass = who.flags & FLAG_PASS != 0;
        this.frame_len_max = frame_len;
        this.on_heard(now);
        let active = self.activate(row);
        let active = &mut self.actives[active];
        active.idle_since = now;
        // Challenges to repeated Hellos may still be on their way; from now on only a probe's nonce counts.
        active.contact.nonce = 0;
        match active.paths.first_mut() {
            Some(path) => {
                path.set_traits(&traits);
                path.set_way(0, origin);
            }
            None => {
                let mut path =
                    Path::new(origin.link, origin.from, Standing::Proven, &traits, rtt_ns);
                path.set_source(0, origin);
                active.paths.push(path);
            }
        }
        self.refit(row);
        self.show_path(origin.link, origin.from);
        let locators: alloc::vec::Vec<Locator> = locators.collect();
        if self.locators.len() > 1 || locators.iter().any(|locator| *locator != origin.from) {
            self.show_locators(row, false, locators);
        }
        self.counters.joined += 1;
        self.events.tell(Event::Joined { peer: self.rows[row].peer });
        self.make_ready(row);
        self.arm(now, row);
    }

    /// A frame to the id of an association that is not joined yet.
    pub(crate) fn on_contact_answer(
        &mut self,
        now: Instant,
        origin: Origin,
        row: u32,
        view: &FrameView<'_>,
    ) -> Answered {
        let mut records = view
            .records()
            .map(|(record, _)| record)
            .filter(|record| !matches!(record, Record::Check { .. }));
        let ended = match records.next() {
            Some(Record::Challenge { nonce, cookie, incarnation, .. }) => {
                self.on_challenge(now, origin.link, row, (nonce, cookie, incarnation))
            }
            Some(Record::Welcome(welcome)) => {
                return match self.on_welcome(now, origin, row, &welcome) {
                    Some(_) => Answered::Joined,
                    None => Answered::Asked,
                };
            }
            Some(Record::Versions { min, max, nonce }) => {
                self.on_versions(now, row, min, max, nonce)
            }
            Some(Record::Reset { id }) => self.on_reset(row, id),
            _ => None,
        };
        ended.map_or(Answered::Asked, Answered::Ended)
    }

    fn on_challenge(
        &mut self,
        now: Instant,
        link: u8,
        row: u32,
        (nonce, cookie, incarnation): (u64, u64, u64),
    ) -> Option<GoneReason> {
        let active = self.rows[row].active;
        if nonce != self.actives[active].contact.nonce {
            return None;
        }
        let this = &mut self.rows[row];
        this.on_heard(now);
        if this.phase == Phase::Echo && this.incarnation != incarnation {
            // The one we echoed to may have taken messages before it died.
            return Some(GoneReason::Restarted);
        }
        this.incarnation = incarnation;
        this.phase = Phase::Echo;
        let active = &mut self.actives[active];
        active.contact.cookie = cookie;
        // The cookie is good for what comes from there.
        if active.paths[0].link() != link {
            active.paths[0].set_link(link, self.links.of(link));
        }
        active.ask(); // say the echo even if there is no message left to carry it
        self.make_ready(row);
        self.arm(now, row);
        None
    }

    fn on_welcome(
        &mut self,
        now: Instant,
        origin: Origin,
        row: u32,
        welcome: &WelcomeView<'_>,
    ) -> Option<u32> {
        let this = &self.rows[row];
        let active = &self.actives[this.active];
        let who = welcome.who();
        let wrong_life = this.incarnation != 0 && this.incarnation != who.incarnation;
        if who.nonce != active.contact.nonce || wrong_life || who.id == this.ended_id {
            return None;
        }
        if let Ok(Some(address)) = welcome.address(self.secret) {
            // A stranger's endpoint told us its address: from now on we are no stranger to it.
            if address.identity != self.rows[row].identity
                || !self.rows.set_secret(row, address.secret)
            {
                return None; // somebody else than we asked for, or one whom we know by that secret
            }
            self.rows[row].by_public_key = false;
        }
        self.join(now, row, origin, who, welcome.locators(self.secret));
        self.active_of_mut(row).ask(); // so that the peer hears its id used
        Some(row)
    }

    /// The key a frame was opened with.
    fn key_of(&self, view: &FrameView<'_>) -> Secret {
        if view.header.form & FORM_STRANGER != 0 { Secret::PUBLIC } else { self.secret }
    }

    /// A frame to an id that no living association has (PROTOCOL §3.8).
    pub(crate) fn on_stale(
        &mut self,
        now: Instant,
        origin: Origin,
        row: u32,
        view: &FrameView<'_>,
    ) {
        let hello = view.records().find_map(|(record, _)| match record {
            Record::Hello(hello) => Some(hello),
            _ => None,
        });
        if let Some(hello) = hello {
            // A probe for an association of a former life, or one we ended: its Hello tells whom to answer.
            if let Ok(address) = hello.address(self.secret) {
                self.challenge(now, origin, &address, &hello, view.header.version());
            }
            return;
        }
        let Some(this) = self.rows.get(row) else { return };
        let answer = view.records().any(|(record, _)| {
            matches!(
                record,
                Record::Reset { .. } | Record::Challenge { .. } | Record::Versions { .. }
            )
        });
        let pause_ns = self.settings.initial_rtt_ns;
        // An answer to something long over is not answered: that would never end.
        if answer || this.ended_id == 0 || now.since_ns(this.reset_sent_at) < pause_ns {
            return;
        }
        let reply = Reply {
            link: origin.link,
            locator: origin.from,
            secret: this.secret,
            to: this.ended_id,
            version: this.version,
            path: 0,
            record: ReplyRecord::Reset { id: view.header.to },
        };
        self.rows[row].reset_sent_at = now;
        self.counters.resets_out += 1;
        self.reply(reply);
    }

    /// The peer says that it has ended what has this id. A reason: so it is over.
    pub(crate) fn on_reset(&mut self, row: u32, id: u64) -> Option<GoneReason> {
        let this = &self.rows[row];
        if matches!(this.phase, Phase::Idle | Phase::Hello) || this.remote_id != id {
            return None;
        }
        self.counters.resets_in += 1;
        Some(GoneReason::Reset)
    }
}

/// Failures of requests bound to an association that ended.
pub(crate) fn failure_of(reason: Option<GoneReason>) -> Failure {
    reason.map_or(Failure::Closed, Failure::Gone)
}

impl Peers {
    /// The echo is good: the peer lives, now, there. Its row, and why the association that it had is over.
    pub(crate) fn seat(
        &mut self,
        address: &Address,
        hello: &HelloView<'_>,
        tickets: &mut impl Tickets,
    ) -> Option<(u32, Option<GoneReason>)> {
        if self.closing.is_some() {
            return None; // too late to make friends
        }
        let row = match self.row_of_claimant(address) {
            Some(row) => row,
            None if self.has_room_for_stranger(tickets) => self.insert_row(address),
            None => return None,
        };
        let is_known = self.rows.set_secret(row, address.secret);
        debug_assert!(is_known, "a row with this secret would have been found");
        let this = &self.rows[row];
        let other_life = this.incarnation != 0 && this.incarnation != hello.who().incarnation;
        let ended = match this.phase {
            Phase::Joined => {
                self.counters.renewed += 1;
                Some(if other_life { GoneReason::Restarted } else { GoneReason::Reset })
            }
            // It may have taken messages in the life that challenged us.
            Phase::Echo if other_life => Some(GoneReason::Restarted),
            Phase::Idle | Phase::Hello | Phase::Echo => None,
        };
        Some((row, ended))
    }

    /// The peer joins, by the row it has.
    pub(crate) fn admit(
        &mut self,
        now: Instant,
        origin: Origin,
        row: u32,
        hello: &HelloView<'_>,
        header: Header,
    ) {
        let public = header.form & FORM_STRANGER != 0;
        if self.rows[row].phase == Phase::Idle {
            let id = make_id(row, self.draw());
            self.association_count += 1;
            self.rows[row].begin(id);
        }
        let this = &mut self.rows[row];
        this.by_public_key = public;
        this.version = header.version();
        let locators = hello.locators(if public { Secret::PUBLIC } else { self.secret });
        let who = hello.who();
        self.join(now, row, origin, who, locators);
        let active = self.active_of_mut(row);
        active.welcome = true;
        active.peer_nonce = who.nonce;
        self.make_ready(row);
    }

    /// A frame to id 0: a Hello, with an Echo if the sender was challenged.
    pub(crate) fn on_hello<'a>(
        &mut self,
        now: Instant,
        origin: Origin,
        view: &FrameView<'a>,
    ) -> Greeting<'a> {
        let mut records = view
            .records()
            .map(|(record, _)| record)
            .filter(|record| !matches!(record, Record::Check { .. }));
        let Some(Record::Hello(hello)) = records.next() else {
            self.counters.frames_malformed += 1;
            return Greeting::Answered;
        };
        let Ok(address) = hello.address(self.key_of(view)) else {
            self.counters.frames_malformed += 1;
            return Greeting::Answered;
        };
        if !self.may_be_a_peer(&address) {
            self.counters.identities_refused += 1;
            return Greeting::Answered;
        }
        let (row, who) = (self.row_of_claimant(&address), hello.who());
        if let Some(row) = row {
            let this = &self.rows[row];
            let same = this.incarnation == who.incarnation && this.remote_id == who.id;
            if same && this.phase == Phase::Joined {
                // It has not heard our Welcome yet; perhaps because it has moved since.
                let echo = records.next();
                self.follow_newcomer(now, origin, row, &address, &hello, echo);
                return Greeting::Known(row);
            }
        }
        let ended = row.is_some_and(|row| self.rows[row].ended_id == who.id);
        if ended || self.forgotten.iter().any(|it| it.id == who.id) {
            // We have ended this association: say so, or it would start again with what we took already.
            let reset = ReplyRecord::Reset { id: 0 };
            self.reply_to(origin, &address, &hello, view.header.version(), reset);
            self.counters.resets_out += 1;
            return Greeting::Answered;
        }
        let Some(Record::Echo { cookie }) = records.next() else {
            self.challenge(now, origin, &address, &hello, view.header.version());
            return Greeting::Answered;
        };
        let fresh = self.is_fresh(now, origin, &address, &hello, cookie);
        if !fresh && !self.saboteur.makes(Sabotage::StaleIncarnationAccepted) {
            self.counters.cookies_refused += 1;
            self.challenge(now, origin, &address, &hello, view.header.version());
            return Greeting::Answered;
        }
        // It has ended the association we are still echoing for, and what it took of it.
        let is_echoing =
            |row: u32, id| self.rows[row].phase == Phase::Echo && self.rows[row].local_id == id;
        let reset = match (row, records.next()) {
            (Some(row), Some(Record::Reset { id })) if is_echoing(row, id) => Some(row),
            _ => None,
        };
        Greeting::Echoed { address, hello, reset }
    }
}
