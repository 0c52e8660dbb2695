//! Which of several links over one card carries data.
//!
//! PROTOCOL §10.4. Two cards are two rails, and data is striped over both. Two links over *one* card (datagrams and raw
//! Ethernet, say) are alternatives: striping would only make them compete for the same wire. So one of them carries the
//! data and the others *yield*; small messages may still take any of them. A link that sends frame by frame yields
//! to one that sends trains (256 KB took twice as long by stints of both). Of the rest, which is wider cannot be known without
//! trying, for what it costs to send is part of it:
//!
//! ```text
//!   udp     ████████████        ████████████████████████████████        ████ …    stints of the wider one
//!   packet              ██████                                  ██████            the other is tried, ever more seldom
//! ```

use crate::base::limits::{MS, SECOND};
use crate::base::types::Instant;
use crate::delivery::path::Path;
use crate::peers::kept::Contest;
use crate::peers::rows::Active;

/// How long a stint takes, of the time in which data is on its way.
const STINT_NS: u64 = 10 * MS;

/// Data that ends a stint before its time.
const STINT_LEN_MAX: u64 = 256 << 20;
/// The one that carries data does so for this time before another is tried again, twice as long after each trial.
const PAUSE_NS: u64 = SECOND;
const PAUSE_NS_MAX: u64 = 64 * SECOND;

impl Default for Contest {
    fn default() -> Self {
        Self { pause_ns: PAUSE_NS, left_ns: PAUSE_NS, is_trial: false, has_news: false }
    }
}

impl Active {
    /// Of links over one card one carries data: the one that does, or if none does the one that was found widest.
    pub(crate) fn weigh_cards(&mut self) {
        for index in 0..self.paths.len() {
            if !in_use(&self.paths[index]) {
                self.paths[index].set_yielding(true); // whoever comes back waits for its stint
            }
        }
        for index in 0..self.paths.len() {
            if !in_use(&self.paths[index]) {
                continue;
            }
            let (card, link) = (self.paths[index].card(), self.paths[index].link());
            if !self.competes(&self.paths[index]) {
                self.paths[index].set_yielding(true);
                continue;
            }
            if !self.rivals(card, link).any(|_| true) {
                self.paths[index].set_yielding(false);
                continue;
            }
            let is_chosen = self.on_card(card).any(|path| !path.yields_data());
            if !is_chosen {
                let link = self.widest(card).unwrap_or(link);
                self.give_stint(card, link);
            }
        }
    }

    /// Bytes were acknowledged on this path. True if data changed over to another.
    pub(crate) fn on_stint_acked(&mut self, now: Instant, index: usize, len: u64) -> bool {
        let path = &mut self.paths[index];
        path.measure_stint(now, len);
        let (card, link, yields_data) = (path.card(), path.link(), path.yields_data());
        if yields_data || card == 0 || !self.rivals(card, link).any(|_| true) {
            return false;
        }
        let stints =
            || self.on_card(card).filter(|path| path.link() == link).map(|path| path.stint());
        let ns = stints().map(|stint| stint.ns).max().unwrap_or(0);
        let len: u64 = stints().map(|stint| stint.len).sum();
        if ns < STINT_NS && len < STINT_LEN_MAX {
            return false;
        }
        let next = self.end_stint(card, link, ns);
        if next != link {
            self.give_stint(card, next);
        }
        next != link
    }

    /// The stint of this link is over: whose is the next?
    fn end_stint(&mut self, card: u16, link: u8, ns: u64) -> u8 {
        let own = |path: &&mut Path| in_use(path) && (path.card(), path.link()) == (card, link);
        self.paths.iter_mut().filter(own).for_each(Path::end_stint);
        let untried = self.rivals(card, link).find(|path| path.stint().found == 0);
        if let Some(next) = untried.map(|path| path.link()) {
            self.contest.is_trial = true;
            return next;
        }
        let best = self.widest(card).unwrap_or(link);
        let contest = &mut self.contest;
        if contest.is_trial {
            // A new winner is asked sooner whether it really is one.
            contest.pause_ns = match best == link {
                true => PAUSE_NS,
                false => (2 * contest.pause_ns).min(PAUSE_NS_MAX),
            };
            (contest.is_trial, contest.left_ns) = (false, contest.pause_ns);
            contest.has_news = true;
            return best;
        }
        contest.left_ns = contest.left_ns.saturating_sub(ns);
        if contest.left_ns > 0 || best != link {
            return best;
        }
        contest.is_trial = true;
        self.rivals(card, link).next().map_or(link, |path| path.link())
    }

    /// From now on data over this card goes by this link.
    fn give_stint(&mut self, card: u16, link: u8) {
        for path in self.paths.iter_mut().filter(|path| in_use(path) && path.card() == card) {
            path.begin_stint(path.link() == link);
        }
    }

    /// The link that carried most; of about equals the first.
    fn widest(&self, card: u16) -> Option<u8> {
        let found = |link: u8| -> u64 {
            let own = self.on_card(card).filter(|path| path.link() == link);
            own.map(|path| path.stint().found).fold(0, u64::saturating_add)
        };
        let mut best: Option<(u8, u64)> = None;
        for link in self.on_card(card).map(|path| path.link()) {
            let found = found(link);
            if best.is_none_or(|(_, most)| found / 21 > most / 20) {
                best = Some((link, found));
            }
        }
        best.map(|(link, _)| link)
    }

    /// Paths in use over this card that data may take.
    fn on_card(&self, card: u16) -> impl Iterator<Item = &Path> {
        let over = move |path: &&Path| in_use(path) && path.card() == card;
        self.paths.iter().filter(over).filter(|path| self.competes(path))
    }

    /// Whether data may take this path: not if its link sends frame by frame and another over the same card sends trains, or if another
    /// carries a stream.
    fn competes(&self, path: &Path) -> bool {
        let is_better =
            |other: &Path| in_use(other) && other.card() == path.card() && other.carries_for(path);
        path.card() == 0 || !self.paths.iter().any(is_better)
    }

    /// Paths in use over the same card by other links. Of unknown cards each is another.
    fn rivals(&self, card: u16, link: u8) -> impl Iterator<Item = &Path> {
        self.on_card(card).filter(move |path| card != 0 && path.link() != link)
    }
}

fn in_use(path: &Path) -> bool {
    path.is_usable() && !path.is_spare()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::api::{LinkTraits, Reliability, Way};
    use crate::base::limits::Settings;
    use crate::base::types::Locator;
    use crate::delivery::content::Content;
    use crate::delivery::path::Standing;
    use crate::delivery::rate::Stint;
    use alloc::vec;
    use alloc::vec::Vec;

    fn unknown() -> LinkTraits {
        LinkTraits::unknown(&Settings::default())
    }

    /// A link that sends many frames in one call.
    fn with_trains() -> LinkTraits {
        LinkTraits { train_len_max: 1 << 16, ..unknown() }
    }

    /// Paths by links 0, 1, … over these cards.
    fn over(cards: &[u16]) -> Active {
        let traits = unknown();
        let mut active = Active::new(0);
        for (link, &card) in cards.iter().enumerate() {
            let mut to = Locator::default();
            to.0[0] = link as u8 + 1;
            let mut path = Path::new(link as u8, to, Standing::Proven, &traits, MS);
            path.set_card(&Way { card, ..Way::default() });
            for _ in 0..2 {
                path.add(Content::Ping);
                path.on_sent(Instant(0), path.frame_len(), &Settings::default()); // busy, as while data flows
            }
            active.paths.push(path);
        }
        active.weigh_paths();
        active
    }

    fn carriers(active: &Active) -> Vec<usize> {
        (0..active.paths.len()).filter(|&index| !active.paths[index].yields_data()).collect()
    }

    #[test]
    fn frames_of_the_card_yield_to_a_stream_over_it() {
        let mut active = over(&[3, 3, 4]);
        active.paths.iter_mut().for_each(|path| path.set_traits(&with_trains()));
        active.weigh_paths();
        assert_eq!(carriers(&active), [0, 2], "as long as frames are alike, the first");
        let reliability = Reliability::Ordered { may_break: true };
        let traits = LinkTraits { reliability, ..with_trains() };
        active.paths[1].set_traits(&traits);
        active.weigh_paths();
        assert_eq!(carriers(&active), [1, 2], "another card is another rail");
        active.paths[1].set_standing(Standing::Left);
        active.weigh_paths();
        assert_eq!(carriers(&active), [0, 2], "the stream is broken");
    }

    /// Data flows for so long, by whoever carries it; each path at its rate. How much each carried.
    fn flow(active: &mut Active, rates: &[u64], ns: u64) -> Vec<u64> {
        let (mut carried, step_ns) = (vec![0; rates.len()], MS);
        let start_ns = active.paths.iter().map(|path| path.progress_at().0).max().unwrap_or(0);
        for now in (1..=ns / step_ns).map(|step| Instant(start_ns + step * step_ns)) {
            let index = carriers(active)[0];
            let len = rates[index] * step_ns / SECOND;
            carried[index] += len;
            active.paths[index].set_progress_at(now);
            let has_changed = active.on_stint_acked(now, index, len);
            assert_eq!(has_changed, carriers(active)[0] != index, "who moves data is told");
        }
        carried
    }

    #[test]
    fn cards_are_rails_and_links_over_one_card_are_not() {
        assert_eq!(carriers(&over(&[1, 2])), [0, 1]);
        assert_eq!(carriers(&over(&[1, 1])), [0]);
        assert_eq!(carriers(&over(&[1, 1, 2])), [0, 2]);
        assert_eq!(carriers(&over(&[0, 0])), [0, 1], "nothing is known of their cards");
    }

    #[test]
    fn who_sends_frame_by_frame_yields_to_trains() {
        for train in [0, 1] {
            let mut active = over(&[1, 1, 2]);
            active.paths[train].set_traits(&with_trains());
            active.weigh_paths();
            assert_eq!(carriers(&active), [train, 2]);
            flow(&mut active, &[1_000_000_000; 3], 5 * SECOND);
            assert_eq!(carriers(&active), [train, 2], "the other is not even tried");
            active.paths[train].set_standing(Standing::Left);
            active.weigh_paths();
            assert_eq!(carriers(&active), [1 - train, 2], "better than nothing");
        }
    }

    #[test]
    fn the_wider_carries_nearly_everything_wherever_it_stands() {
        for rates in [[1_000_000_000, 6_000_000_000], [6_000_000_000, 1_000_000_000]] {
            let carried = flow(&mut over(&[1, 1]), &rates, 20 * SECOND);
            let all: u64 = carried.iter().sum();
            assert!(all > 195 * rates.iter().max().unwrap() / 10, "{carried:?}");
        }
    }

    #[test]
    fn who_becomes_wider_is_found_out() {
        let mut active = over(&[1, 1]);
        flow(&mut active, &[2_000_000_000, 1_000_000_000], 5 * SECOND);
        assert_eq!(carriers(&active), [0]);
        let carried = flow(&mut active, &[500_000_000, 1_000_000_000], 30 * SECOND);
        assert!(carried[1] > 9 * carried[0], "{carried:?}");
    }

    #[test]
    fn who_is_gone_is_replaced_and_waits_for_its_turn_afterwards() {
        let mut active = over(&[1, 1]);
        active.paths[0].set_standing(Standing::Left);
        active.weigh_paths();
        assert_eq!(carriers(&active), [1]);
        active.paths[0].set_standing(Standing::Proven);
        active.weigh_paths();
        assert_eq!(carriers(&active), [1]);
    }

    #[test]
    fn idle_time_is_nobodys_fault() {
        let mut stint = Stint::new(0);
        stint.warm_up_ns = 0;
        for burst in 0..20_u64 {
            let start = burst * SECOND;
            stint.on_acked(Instant(start), 1_000, true);
            stint.on_acked(Instant(start + MS), 1_000_000, false);
        }
        stint.close();
        assert_eq!(stint.found(), 1_000_000_000);
    }
}
