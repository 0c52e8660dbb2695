//! Which pairs of a local link and a peer's locator are tried, and in which order.
//!
//! Links say what may lead where; the order is chosen here so that every link and every locator is in one of the first pairs:
//! these are the rails. What is left follows, in case that those which look right lead nowhere.

use std::collections::VecDeque;

use packhorse_link::Link;
use packhorse_link::mem::UserMemory;
use packhorse_proto::{Endpoint, Instant, Locator, NewLocators, PathError, PeerId};

/// Pairs remembered for those who ask why they are not used.
const REJECTED_COUNT_MAX: usize = 1024;

/// Why a pair is not tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reject {
    /// The link knows no way there: another kind of network, another family of addresses, no route.
    NoWay,
    /// There are as many paths to this peer as there may be.
    TooMany,
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

/// The pairs that were not tried, newest last.
#[derive(Debug, Default)]
pub(crate) struct Pairs {
    rejected: VecDeque<Rejected>,
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
        let reach: Vec<Vec<bool>> = locators
            .iter()
            .map(|locator| links.iter_mut().map(|link| link.may_reach(&locator.0)).collect())
            .collect();
        self.rejected.retain(|rejected| rejected.peer != peer);
        for (locator, reach) in locators.iter().zip(&reach) {
            for (link, _) in reach.iter().enumerate().filter(|(_, may_reach)| !**may_reach) {
                self.reject(peer, link as u8, locator, Reject::NoWay);
            }
        }
        if is_contact {
            let set = reach.first().into_iter().flatten().enumerate();
            let set = set.filter(|(_, may_reach)| **may_reach).fold(0, |set, it| set | 1 << it.0);
            endpoint.set_contact_links(now, peer, set);
            return;
        }
        let first = endpoint.paths(peer).first().map(|path| {
            let at = locators.iter().position(|locator| *locator == path.locator);
            (usize::from(path.link), at)
        });
        for (link, at) in rank(&reach, first) {
            let locator = &locators[at];
            let frame_len_max = links[link].frame_len_to(&locator.0);
            let added = endpoint.add_path(now, peer, link as u8, locator, frame_len_max);
            if added == Err(PathError::TooMany) {
                self.reject(peer, link as u8, locator, Reject::TooMany);
            }
        }
    }

    fn reject(&mut self, peer: PeerId, link: u8, locator: &Locator, why: Reject) {
        if self.rejected.len() == REJECTED_COUNT_MAX {
            self.rejected.pop_front();
        }
        self.rejected.push_back(Rejected { peer, link, locator: *locator, why });
    }
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
