//! Which ways lead to a peer.
//!
//! PROTOCOL §3.13. An endpoint knows its links by number and its peers' locators as bytes; whether one leads to the other
//! only links can tell. So it shows what it learned (`poll_new_locators`), and whoever drives it answers with pairs that
//! may work (`set_contact_links`, `add_path`). What may work is asked to prove it.

use alloc::vec::Vec;

use crate::base::api::{GoneReason, LinkTraits, NewLocators, PathError, PathInfo, PathState, Way};
use crate::base::limits::FRAME_LEN_FLOOR;
use crate::base::types::{Instant, Locator, PeerId};
use crate::delivery::path::Origin;
use crate::delivery::path::{Candidate, NO_PATH, Path, Standing};
use crate::peers::Peers;
use crate::peers::rows::{Active, Phase};
use crate::seal::pass_of;

/// Paths to one peer, and of one.
pub const PATH_COUNT_MAX: usize = 8;

impl Peers {
    pub(crate) fn set_link(&mut self, link: u8, traits: LinkTraits) {
        let frame_len_max =
            traits.frame_len_max.clamp(FRAME_LEN_FLOOR, self.settings.frame_len_max);
        self.links.set(link, LinkTraits { frame_len_max, ..traits });
    }

    pub(crate) fn set_home(&mut self, traits: LinkTraits) {
        let frame_len_max =
            traits.frame_len_max.clamp(FRAME_LEN_FLOOR, self.settings.frame_len_max);
        self.links.set_home(LinkTraits { frame_len_max, ..traits });
    }

    /// The traits of a link towards a peer that takes no longer frames than this.
    pub(crate) fn traits_of(&self, link: u8, frame_len_max: u16) -> LinkTraits {
        let own = self.links.of(link);
        LinkTraits { frame_len_max: own.frame_len_max.min(frame_len_max), ..*own }
    }

    pub(crate) fn show_locators(&mut self, row: u32, is_contact: bool, locators: Vec<Locator>) {
        let peer = self.rows[row].peer;
        self.news.add_locators(NewLocators { peer, is_contact, locators });
    }

    pub(crate) fn tell_path_news(&mut self, row: u32) {
        self.news.add_of_paths(self.rows[row].peer);
    }

    /// The links that may lead to a peer. A reason: there is none.
    pub(crate) fn choose_contact_links(&mut self, peer: PeerId, links: u8) -> Option<GoneReason> {
        let this = self.rows.known(peer).filter(|row| row.phase == Phase::Hello)?;
        let known = ((1_u16 << self.links.count()) - 1) as u8;
        let contact = &mut self.actives[this.active].contact;
        (contact.links, contact.is_refused) = (links & known, false);
        if contact.links == 0 {
            return Some(GoneReason::Unreachable);
        }
        self.turn_contact(peer.row());
        None
    }

    /// First contact goes by the link whose turn it is.
    pub(crate) fn turn_contact(&mut self, row: u32) {
        let active = &mut self.actives[self.rows[row].active];
        let (links, count) = (active.contact.links, active.contact.hello_count);
        let turn = count.saturating_sub(1) % active.contact.way_count();
        let mut set = (0..8).filter(|&link| links >> link & 1 == 1);
        let path = &mut active.paths[0];
        if let Some(link) = set.nth(turn as usize)
            && path.link() != link
        {
            path.set_link(link, self.links.of(link));
            let locator = *path.locator();
            self.show_path(link, locator);
        }
    }

    pub(crate) fn add_path(
        &mut self,
        now: Instant,
        peer: PeerId,
        link: u8,
        locator: &Locator,
        way: &Way,
    ) -> Result<u8, PathError> {
        let row = peer.row();
        if self.rows.known(peer).is_none_or(|this| this.phase != Phase::Joined) {
            return Err(PathError::NotJoined);
        }
        if usize::from(link) >= self.links.count() {
            return Err(PathError::NoLink);
        }
        let frame_len_max = short_len(way.frame_len_max);
        let traits = self.traits_of(link, frame_len_max.min(self.rows[row].frame_len_max));
        let rtt_ns = self.settings.initial_rtt_ns;
        let active = self.activate(row);
        let active = &mut self.actives[active];
        let number = active.add_path(link, locator, &traits, rtt_ns)?;
        active.paths[usize::from(number)].set_card(way);
        self.make_ready(row);
        self.arm(now, row);
        Ok(number)
    }

    pub(crate) fn set_way(&mut self, link: u8, locator: &Locator, way: &Way) {
        let frame_len_max = short_len(way.frame_len_max);
        self.change_paths(link, locator, |path| {
            path.limit_frame_len(frame_len_max);
            path.set_card(way);
        });
    }

    /// Changes all paths by this link to there, whose ever they are.
    pub(crate) fn change_paths(
        &mut self,
        link: u8,
        locator: &Locator,
        mut change: impl FnMut(&mut Path),
    ) {
        for row in self.active_rows_with(|path| path.leads_to(link, locator)) {
            let Some(active) = self.actives.get_mut(self.rows[row].active) else { continue };
            let mut paths = active.paths.iter_mut();
            if let Some(path) = paths.find(|path| path.leads_to(link, locator)) {
                change(path);
                self.refit(row);
            }
        }
    }

    /// Active rows that have such a path, in their order. Those that rest are not looked at: a server has many more of them, one for each
    /// client that left not long ago.
    pub(crate) fn active_rows_with(&self, is_it: impl Fn(&Path) -> bool) -> Vec<u32> {
        let found = self.actives.iter().filter(|active| active.paths.iter().any(&is_it));
        let mut rows: Vec<u32> = found.map(|active| active.row).collect();
        rows.sort_unstable();
        rows
    }

    /// Frames of the peer's path of this number come from somewhere else, or for the first time (PROTOCOL §3.11). If that is
    /// where one of our paths leads, it is known who is there; else it must be asked.
    pub(crate) fn on_new_source(&mut self, now: Instant, row: u32, index: usize, origin: Origin) {
        let nonce = self.draw();
        let traits = self.traits_of(origin.link, self.rows[row].frame_len_max);
        let rtt_ns = self.settings.initial_rtt_ns;
        let active = self.active_of_mut(row);
        if let Some(back) = active.path_to(origin.link, &origin.from) {
            active.paths[index].set_source(back as u8, origin);
            // It is heard from there: worth asking again, if it was given up.
            active.paths[back].challenge_by(now + rtt_ns);
            return;
        }
        let (link, source) = (active.paths[index].source_link(), *active.paths[index].source());
        if let Some(moved) = active.path_to(link, &source) {
            let path = &mut active.paths[moved];
            let is_asked = path.candidate().is_some_and(|candidate| {
                candidate.locator == origin.from
                    && candidate.link == origin.link
                    && now.since_ns(candidate.asked_at) < path.rtt().smoothed_ns()
            });
            if !is_asked {
                let Origin { link, from: locator } = origin;
                path.ask_candidate(Candidate { link, locator, nonce, asked_at: now });
                self.challenge_path(row, moved as u8, origin, nonce);
            }
            return;
        }
        // A pair that only the peer thought of, and the way there works.
        active.make_room_for_heard();
        let back = active.add_path(origin.link, &origin.from, &traits, rtt_ns).unwrap_or(NO_PATH);
        active.paths[index].set_source(back, origin);
        if back != NO_PATH {
            self.show_path(origin.link, origin.from);
            self.make_ready(row);
            self.arm(now, row);
        }
    }

    /// Standing, place or length of a path changed.
    pub(crate) fn refit(&mut self, row: u32) {
        let this = &self.rows[row];
        let Some(active) = self.actives.get_mut(this.active) else { return };
        for path in active.paths.iter_mut().filter(|path| path.is_private()) {
            path.set_pass(if this.takes_pass { pass_of(&this.secret).0 } else { 0 });
        }
        active.weigh_paths();
        let longest = active.paths.iter().filter(|path| path.is_usable() && !path.is_spare());
        active.frame_len = longest.map(|path| path.frame_len_max()).max().unwrap_or(0);
    }

    pub(crate) fn paths(&self, peer: PeerId) -> Vec<PathInfo> {
        let Some(this) = self.rows.known(peer) else { return Vec::new() };
        let resting = || this.rest.iter().chain(this.more_rest.iter().flatten());
        let rtt_ns = self.settings.initial_rtt_ns;
        let mut awake = Active::new(peer.row());
        let active = match self.actives.get(this.active) {
            Some(active) => active,
            None => {
                let paths = resting().map(|rest| {
                    Path::from_rest(rest, &self.traits_of(rest.link, u16::MAX), rtt_ns)
                });
                awake.paths.extend(paths);
                awake.weigh_paths();
                &awake
            }
        };
        active.infos().collect()
    }
}

/// What the driver asks for (`news`).
impl Peers {
    /// Whether it is worth asking for new paths and locators.
    #[inline(always)]
    pub(crate) fn has_news(&self) -> bool {
        self.news.is_any()
    }

    /// A path that frames take from now on; the driver asks for it last of all.
    #[inline]
    pub(crate) fn poll_new_path(&mut self) -> Option<(u8, Locator)> {
        self.news.poll_path()
    }

    /// A peer of whose paths something is new.
    #[inline]
    pub(crate) fn poll_path_news(&mut self) -> Option<PeerId> {
        self.news.poll_of_paths()
    }

    /// Locators of which it is not known which links lead there.
    #[inline]
    pub(crate) fn poll_new_locators(&mut self) -> Option<NewLocators> {
        self.news.poll_locators()
    }
}

impl Active {
    fn path_to(&self, link: u8, locator: &Locator) -> Option<usize> {
        self.paths.iter().position(|path| path.leads_to(link, locator))
    }

    fn add_path(
        &mut self,
        link: u8,
        locator: &Locator,
        traits: &LinkTraits,
        rtt_ns: u64,
    ) -> Result<u8, PathError> {
        if self.path_to(link, locator).is_some() {
            return Err(PathError::Known);
        }
        let absent = self.paths.iter().position(|path| path.standing() == Standing::Absent);
        let is_full = self.paths.len() >= PATH_COUNT_MAX;
        let hopeless = self.paths.iter().position(|path| is_full && path.is_hopeless());
        let index = absent.or(hopeless).unwrap_or(self.paths.len());
        if index >= PATH_COUNT_MAX {
            return Err(PathError::TooMany);
        }
        match self.paths.get_mut(index) {
            Some(path) => path.become_path(link, *locator, traits),
            None => self.paths.push(Path::new(link, *locator, Standing::Unproven, traits, rtt_ns)),
        }
        Ok(index as u8)
    }

    /// Where the peer is heard from is worth more than where it has never answered: of these, the one asked most often makes
    /// room if there is none. Else a peer with many locators could be left with pairs of which none leads anywhere.
    fn make_room_for_heard(&mut self) {
        if self.paths.len() < PATH_COUNT_MAX {
            return;
        }
        let heard = self
            .paths
            .iter()
            .map(|path| path.back())
            .fold(0_u32, |heard, back| heard | 1_u32.checked_shl(back.into()).unwrap_or(0));
        let is_free = |path: &Path| path.flight().is_empty();
        let silent = self.paths.iter_mut().enumerate().filter(|(number, path)| {
            path.standing() == Standing::Unproven && is_free(path) && heard >> number & 1 == 0
        });
        if let Some((_, path)) = silent.max_by_key(|(_, path)| path.challenge_count()) {
            path.give_up_number();
        }
    }

    fn infos(&self) -> impl Iterator<Item = PathInfo> {
        let state_of = |number: usize, path: &Path| match path.standing() {
            Standing::Absent => None,
            Standing::Unproven if path.is_dormant() => Some(PathState::Dormant),
            Standing::Unproven => Some(PathState::Unproven { asked_count: path.challenge_count() }),
            Standing::Left => Some(PathState::Left),
            Standing::Proven => {
                let is_main = number == usize::from(self.main);
                Some(PathState::Proven {
                    is_main,
                    is_spare: path.is_spare(),
                    yields_data: path.yields_data() && !path.is_spare(),
                })
            }
        };
        self.paths.iter().enumerate().filter_map(move |(number, path)| {
            Some(PathInfo {
                number: number as u8,
                link: path.link(),
                locator: *path.locator(),
                state: state_of(number, path)?,
                rtt_ns: path.known_rtt_ns(),
                rate: Some(path.best_rate()).filter(|&rate| rate > 0),
                card: path.card(),
                frame_len: path.frame_len(),
            })
        })
    }
}

/// A length as paths keep it.
pub(crate) fn short_len(frame_len: usize) -> u16 {
    frame_len.clamp(FRAME_LEN_FLOOR.into(), u16::MAX.into()) as u16
}

const _: () = assert!(PATH_COUNT_MAX < NO_PATH as usize);
