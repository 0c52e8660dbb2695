//! The peers of an endpoint: how rows come to be, wake and rest.

use crate::base::siphash::siphash13_words;
use crate::base::slab::NONE;
use crate::delivery::credit::Credit;
use crate::delivery::path::{Origin, Path, PathRest, Standing};
use crate::peers::Peers;
use crate::peers::kept::Forgotten;
use crate::peers::rows::{Active, Phase, make_id};
use crate::peers::strangers::Tickets;
use crate::{Address, Instant, Locator, PeerError, PeerId, Secret};
use alloc::vec::Vec;

impl Peers {
    /// What a row that is awake has under way.
    #[inline(always)]
    pub(crate) fn active_of(&self, row: u32) -> &Active {
        &self.actives[self.rows[row].active]
    }

    /// As [`Peers::active_of`].
    #[inline(always)]
    pub(crate) fn active_of_mut(&mut self, row: u32) -> &mut Active {
        &mut self.actives[self.rows[row].active]
    }

    /// The row of the peer at `address`, made if there is none. Nothing is sent until something is posted.
    pub(crate) fn add_peer(
        &mut self,
        address: &Address,
        tickets: &mut impl Tickets,
    ) -> Result<PeerId, PeerError> {
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
        self.make_room_to_name(tickets);
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
        let count_max = self.peer_count_max;
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
        let frame_len_max = self.links.home().frame_len_max;
        this.rest = Some(PathRest::new(0, locator, Standing::Proven, frame_len_max));
    }

    pub(crate) fn show_path(&mut self, link: u8, locator: Locator) {
        self.news.add_path(link, locator);
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
        let mut active = self.actives.begin(row);
        active.credit = Credit::from_rest(this.credit);
        let rtt_ns = self.settings.initial_rtt_ns;
        // A peer draws its own ids, and may draw ours.
        let is_self =
            this.is_self() && (this.identity, this.secret) == (self.identity, self.secret);
        let more = this.more_rest.take();
        for rest in this.rest.take().iter().chain(more.iter().flatten()) {
            let traits = if is_self { self.links.home() } else { self.links.of(rest.link) };
            active.paths.push(Path::from_rest(rest, traits, rtt_ns));
        }
        if let Some(path) = active.paths.first_mut() {
            // As a rule both ways of the first path are the same; if not, its next frame tells.
            let way = Origin { link: path.link(), from: *path.locator() };
            path.set_source(0, way);
        }
        this.active = self.actives.enter(active);
        self.refit(row);
        self.rows[row].active
    }

    /// Puts the active record of a quiet row away, keeping what its paths must remember.
    pub(crate) fn rest(&mut self, now: Instant, row: u32) {
        self.note_resting(now, row);
        let this = &mut self.rows[row];
        let mut active = self.actives.leave(this.active);
        this.active = NONE;
        this.credit = active.credit.rest();
        this.rest = active.paths.first().map(Path::rest);
        if active.paths.len() > 1 {
            let more: Vec<PathRest> = active.paths[1..].iter().map(Path::rest).collect();
            this.more_rest = Some(more.into_boxed_slice());
        }
        active.clear();
        self.actives.keep(active);
    }

    /// The row may have something to send.
    #[inline]
    pub(crate) fn make_ready(&mut self, row: u32) {
        self.rows.make_ready(row);
    }

    pub(crate) fn address(&self) -> Address {
        Address {
            secret: self.secret,
            identity: self.identity,
            locator: self.locators[0],
            has_helper: self.settings.has_helper,
        }
    }
}

impl Peers {
    /// A row without an association gets one; a row at rest its active record.
    #[cold]
    #[inline(never)]
    pub(crate) fn wake(&mut self, now: Instant, row: u32) {
        if self.rows[row].phase == Phase::Idle {
            self.begin_contact(now, row);
        }
        self.activate(row);
    }

    /// Something of a peer's is waited for: it is asked now and then whether it lives (PROTOCOL §4.2).
    #[inline(always)]
    pub(crate) fn look_after(&mut self, now: Instant, row: u32) {
        let at = self.look_by(now);
        if at < self.rows[row].timer_at {
            self.arm(at, row);
        }
    }

    /// A receive is posted that names this peer: the peer is looked after, for it may be gone. False: it is not known. One look-up of the row does for
    /// the check and the count.
    #[inline(always)]
    pub(crate) fn on_directed(&mut self, now: Instant, peer: PeerId) -> bool {
        let at = self.look_by(now);
        let Some(this) = self.rows.known_mut(peer) else { return false };
        this.ties.on_directed();
        if at < this.timer_at {
            self.arm(at, peer.row());
        }
        true
    }

    /// When a peer of whom something is waited for is asked at the latest.
    #[inline(always)]
    pub(crate) fn look_by(&self, now: Instant) -> Instant {
        now + self.settings.gone_after_ns / 4
    }
}
