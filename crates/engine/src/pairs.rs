//! Which pairs of a local link and a peer's locator are tried, and in which order.
//!
//! Links say what may lead where; the order is chosen here so that every link and every locator is in one of the first pairs:
//! these are the rails. What is left follows, in case that those which look right lead nowhere.

use std::collections::VecDeque;

use packhorse_link::mem::UserMemory;
use packhorse_link::{Link, are_alike};
use packhorse_proto::{Endpoint, Instant, Locator, NewLocators, PathError, PathState, PeerId, Way};

use crate::known::{self, Known};

/// Questions without an answer that say something about a way.
const ASKED_COUNT_MIN: u32 = 10;
/// Pairs remembered for those who ask why they are not used.
const REJECTED_COUNT_MAX: usize = 1024;

/// Why a pair is not tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reject {
    /// The link knows no way there: another kind of network, another family of addresses, no route.
    NoWay,
    /// There are as many paths to this peer as there may be.
    TooMany,
    /// An endpoint of this process has asked its host lately, this way, in vain.
    Unheard,
}

/// A pair that is not tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// The peer.
    pub peer: PeerId,
    /// By which link.
    pub link: u8,
    /// To which of the peer's locators.
    pub locator: Locator,
    /// Why.
    pub why: Reject,
}

/// What became of first contact by one link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The link knows no way there.
    NoWay,
    /// It was asked, and nothing came back, or nothing yet.
    Unanswered,
    /// The network said that nobody is there.
    Unreachable,
}

/// First contact by one link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The peer.
    pub peer: PeerId,
    /// By which link.
    pub link: u8,
    /// The locator of its address.
    pub locator: Locator,
    /// What became of it.
    pub fate: Fate,
}

/// The pairs that were not tried, and those that first contact was tried by; newest last.
#[derive(Debug, Default)]
pub(crate) struct Pairs {
    /// What the clock of the process says when that of the endpoint is 0.
    pub(crate) origin_ns: u64,
    rejected: VecDeque<Rejected>,
    asked: VecDeque<Asked>,
}

impl Pairs {
    pub(crate) fn rejected_of(&self, peer: PeerId) -> impl Iterator<Item = &Rejected> {
        self.rejected.iter().filter(move |rejected| rejected.peer == peer)
    }

    /// Answers what an endpoint learned about where a peer is.
    #[cold]
    pub(crate) fn answer<L: Link<M>, M: UserMemory>(
        &mut self,
        now: Instant,
        new: &NewLocators,
        endpoint: &mut Endpoint,
        links: &mut [L],
    ) {
        let NewLocators { peer, is_contact, ref locators } = *new;
        let reach: Vec<Vec<bool>> =
            locators.iter().map(|locator| reaching(links, &locator.0)).collect();
        self.rejected.retain(|rejected| rejected.peer != peer);
        for (locator, reach) in locators.iter().zip(&reach) {
            for (link, _) in reach.iter().enumerate().filter(|(_, may_reach)| !**may_reach) {
                // That raw Ethernet does not lead to a port of UDP surprises nobody.
                if are_alike(&links[link].locator(), &locator.0) {
                    self.reject(peer, link as u8, locator, Reject::NoWay);
                }
            }
        }
        if is_contact {
            self.note_contact(peer, locators, &reach);
            let set = reach.first().into_iter().flatten().enumerate();
            let set = set.filter(|(_, may_reach)| **may_reach).fold(0, |set, it| set | 1 << it.0);
            endpoint.set_contact_links(now, peer, set);
            return;
        }
        let first = endpoint.paths(peer).first().map(|path| {
            let at = locators.iter().position(|locator| *locator == path.locator);
            (usize::from(path.link), at)
        });
        let host = endpoint.identity_of(peer).map_or(0, |identity| identity.host);
        for (link, at) in rank(&reach, first) {
            let locator = &locators[at];
            let mut way = way_by(&mut links[link], &locator.0);
            match known::about(host, way.card, &locator.0, self.origin_ns.saturating_add(now.0)) {
                Some(Known::Unheard) => {
                    self.reject(peer, link as u8, locator, Reject::Unheard);
                    continue;
                }
                Some(Known::Carried { rate }) => way.rate = rate,
                None => {}
            }
            let added = endpoint.add_path(now, peer, link as u8, locator, &way);
            if added == Err(PathError::TooMany) {
                self.reject(peer, link as u8, locator, Reject::TooMany);
            }
        }
    }

    /// What was learned of the paths to a peer is good for its host.
    #[cold]
    pub(crate) fn remember<L: Link<M>, M: UserMemory>(
        &mut self,
        now: Instant,
        peer: PeerId,
        endpoint: &Endpoint,
        links: &mut [L],
    ) {
        let at_ns = self.origin_ns.saturating_add(now.0);
        let Some(host) = endpoint.identity_of(peer).map(|identity| identity.host) else { return };
        for path in endpoint.paths(peer) {
            let Some(link) = links.get_mut(usize::from(path.link)) else { continue };
            let card = card_by(link, &path.locator.0);
            match path.state {
                PathState::Proven { .. } => {
                    let rate = path.rate.unwrap_or(0);
                    known::carried(host, card, &path.locator.0, rate, at_ns);
                }
                PathState::Unproven { asked_count } if asked_count >= ASKED_COUNT_MIN => {
                    known::unheard(host, card, &path.locator.0, at_ns);
                }
                PathState::Unproven { .. } | PathState::Dormant | PathState::Left => {}
            }
        }
    }

    fn note_contact(&mut self, peer: PeerId, locators: &[Locator], reach: &[Vec<bool>]) {
        self.asked.retain(|asked| asked.peer != peer);
        let Some((&locator, reach)) = locators.first().zip(reach.first()) else { return };
        for (link, may_reach) in reach.iter().enumerate() {
            let fate = if *may_reach { Fate::Unanswered } else { Fate::NoWay };
            if self.asked.len() == REJECTED_COUNT_MAX {
                self.asked.pop_front();
            }
            self.asked.push_back(Asked { peer, link: link as u8, locator, fate });
        }
    }

    /// The network says that nobody is there.
    #[cold]
    pub(crate) fn on_unreachable(&mut self, link: u8, locator: &packhorse_link::Locator) {
        let is_it = |asked: &&mut Asked| asked.link == link && asked.locator.0 == *locator;
        self.asked.iter_mut().filter(is_it).for_each(|asked| asked.fate = Fate::Unreachable);
    }

    /// How first contact with a peer was tried last: by which links, and what became of it.
    pub(crate) fn asked_of(&self, peer: PeerId) -> impl Iterator<Item = &Asked> {
        self.asked.iter().filter(move |asked| asked.peer == peer)
    }

    fn reject(&mut self, peer: PeerId, link: u8, locator: &Locator, why: Reject) {
        if self.rejected.len() == REJECTED_COUNT_MAX {
            self.rejected.pop_front();
        }
        self.rejected.push_back(Rejected { peer, link, locator: *locator, why });
    }
}

/// Which links may lead there. To the endpoint's own locators only the one that has it does: its frames turn around (`home`).
fn reaching<L: Link<M>, M: UserMemory>(links: &mut [L], to: &packhorse_link::Locator) -> Vec<bool> {
    if links.iter().any(|link| link.locator() == *to) {
        return links.iter().map(|link| link.locator() == *to).collect();
    }
    links.iter_mut().map(|link| link.may_reach(to)).collect()
}

/// What is known of the way by this link to there before anything went it.
pub(crate) fn way_by<L: Link<M>, M: UserMemory>(link: &mut L, to: &packhorse_link::Locator) -> Way {
    Way { frame_len_max: link.frame_len_to(to), card: card_by(link, to), rate: 0 }
}

fn card_by<L: Link<M>, M: UserMemory>(link: &mut L, to: &packhorse_link::Locator) -> u16 {
    // Numbers of interfaces are small; of one that is not, nothing is known.
    u16::try_from(link.card_to(to)).unwrap_or(0)
}

/// The pairs (link, locator) that may work, best first. `reach[locator][link]` says which may; `first` is the path there is.
fn rank(reach: &[Vec<bool>], first: Option<(usize, Option<usize>)>) -> Vec<(usize, usize)> {
    let link_count = reach.first().map_or(0, Vec::len);
    let mut ranked = Vec::new();
    let mut link_used = vec![false; link_count];
    let mut locator_used = vec![false; reach.len()];
    if let Some((link, at)) = first {
        link_used.iter_mut().skip(link).take(1).for_each(|used| *used = true);
        if let Some(at) = at {
            locator_used[at] = true;
            ranked.push((link, at));
        }
    }
    // Fresh at both ends, like to like if possible; then at one; then the rest.
    for fresh_ends in [2, 1, 0] {
        for at in 0..reach.len() {
            for link in like_first(at, link_count) {
                let fresh = usize::from(!link_used[link]) + usize::from(!locator_used[at]);
                if reach[at][link] && fresh >= fresh_ends && !ranked.contains(&(link, at)) {
                    (link_used[link], locator_used[at]) = (true, true);
                    ranked.push((link, at));
                }
            }
        }
    }
    ranked.retain(|&(link, at)| reach[at].get(link) == Some(&true));
    ranked
}

/// All links, the one with the locator's number first.
fn like_first(at: usize, link_count: usize) -> impl Iterator<Item = usize> {
    let like = (at < link_count).then_some(at);
    like.into_iter().chain((0..link_count).filter(move |&link| link != at))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(locator_count: usize, link_count: usize) -> Vec<Vec<bool>> {
        vec![vec![true; link_count]; locator_count]
    }

    #[test]
    fn rails_come_first_and_the_rest_follows() {
        let ranked = rank(&all(2, 2), Some((0, Some(0))));
        assert_eq!(ranked, [(0, 0), (1, 1), (1, 0), (0, 1)]);
        let crossed = rank(&all(2, 2), Some((0, Some(1))));
        assert_eq!(crossed[..2], [(0, 1), (1, 0)], "the path there is stays a rail");
    }

    #[test]
    fn what_cannot_work_is_not_named() {
        let reach = [vec![true, false, false], vec![false, false, true], vec![false; 3]];
        assert_eq!(rank(&reach, Some((0, Some(0)))), [(0, 0), (2, 1)]);
        assert_eq!(rank(&[vec![false], vec![false]], None), []);
    }

    #[test]
    fn one_link_leads_to_all_locators() {
        assert_eq!(rank(&all(3, 1), Some((0, None))), [(0, 0), (0, 1), (0, 2)]);
    }

    #[test]
    fn every_pair_is_named_once() {
        for locators in 1..=8 {
            for links in 1..=8 {
                let mut ranked = rank(&all(locators, links), None);
                let count = ranked.len();
                ranked.sort_unstable();
                ranked.dedup();
                assert_eq!((ranked.len(), count), (locators * links, locators * links));
            }
        }
    }
}
