//! Links that cost a system call to ask, beside others: when they are asked, and in which order (docs/design.md §7).
//!
//! A call that finds nothing keeps waiting who waits for another link. So each of these links is asked as often as it brings something:
//! at once while it does, soon if it did of late, seldom if others are in use and it is not.

use packhorse_link::Link;
use packhorse_link::mem::UserMemory;
use packhorse_proto::Instant;

/// Links of an endpoint at most.
const LINK_COUNT_MAX: usize = 8;
/// Beside links in memory, one that costs a system call is asked once in this time...
const EVERY_NS: u64 = 700;
/// ... or in this, if others are in use and it is not: a look takes as long as a message through memory.
const EVERY_BESIDE_NS: u64 = 40_000;
/// Something came by it within this: it is asked in every turn.
pub(crate) const BUSY_NS: u64 = 20_000;
/// In use: it carried something within this. Small messages may come by memory and longer ones by it, an iteration of a program apart, and it is
/// asked as if others were not in use. Questions and answers between endpoints do not count, for they come by every link.
const RECENT_NS: u64 = 20_000_000;

/// The links that cost a system call to ask, and when they were asked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Costly {
    /// Bit n: link n.
    pub(crate) set: u8,
    /// There are no others, and no two of them: nothing to choose.
    pub(crate) are_all_asked: bool,
    has_others: bool,
    /// When each was asked last, ...
    asked_at: [Instant; LINK_COUNT_MAX],
    /// ... and when something last came by it.
    heard_at: [Instant; LINK_COUNT_MAX],
    /// Of that, what was sent on somebody's behalf.
    carried_at: [Instant; LINK_COUNT_MAX],
    /// When something last came by one of the others.
    heard_others_at: Instant,
}

impl Costly {
    pub(crate) fn new<L: Link<M>, M: UserMemory>(links: &[L], now: Instant) -> Self {
        let costly = links.iter().enumerate().filter(|(_, link)| link.is_costly_to_ask());
        let set = costly.fold(0_u8, |set, (number, _)| set | 1 << number);
        let has_others = (set.count_ones() as usize) < links.len();
        let are_all_asked = set == 0 || links.len() == 1;
        let times = [now; LINK_COUNT_MAX];
        Self {
            set,
            are_all_asked,
            has_others,
            asked_at: times,
            heard_at: times,
            carried_at: times,
            heard_others_at: Instant(0),
        }
    }

    /// The one to ask now, if any: that whose time passed longest ago. `has_come`: something came by links in memory in this turn, and its
    /// answer had better leave first.
    #[inline]
    pub(crate) fn pick(&mut self, now: Instant, has_come: bool) -> Option<usize> {
        if has_come {
            self.on_others(now);
        }
        let mut best: Option<(usize, u64)> = None;
        let mut left = self.set;
        while left != 0 {
            let link = left.trailing_zeros() as usize;
            left &= left - 1;
            let every_ns = self.every_ns(now, link) << u32::from(has_come);
            let Some(over_ns) = now.since_ns(self.asked_at[link]).checked_sub(every_ns) else {
                continue;
            };
            if best.is_none_or(|(_, most_ns)| over_ns > most_ns) {
                best = Some((link, over_ns));
            }
        }
        let (link, _) = best?;
        self.asked_at[link] = now;
        Some(link)
    }

    /// How often a link is asked.
    #[inline]
    fn every_ns(&self, now: Instant, link: usize) -> u64 {
        let quiet_ns = now.since_ns(self.heard_at[link]);
        if quiet_ns < BUSY_NS {
            return 0;
        }
        let is_other = |other: usize| self.set >> other & 1 == 1 && other != link;
        let is_beside = now.since_ns(self.heard_others_at) < RECENT_NS
            || (0..LINK_COUNT_MAX)
                .any(|other| is_other(other) && now.since_ns(self.carried_at[other]) < RECENT_NS);
        let is_recent = now.since_ns(self.carried_at[link]) < RECENT_NS;
        match (is_beside && !is_recent, self.has_others) {
            (true, _) => EVERY_BESIDE_NS,
            (false, true) => EVERY_NS,
            (false, false) => 0,
        }
    }

    /// Whether all that peers' programs sent of late came by the others.
    #[inline]
    pub(crate) fn is_memory_alone(&self, now: Instant) -> bool {
        self.set == 0
            || now.since_ns(self.heard_others_at) < RECENT_NS
                && (0..LINK_COUNT_MAX)
                    .filter(|link| self.set >> link & 1 == 1)
                    .all(|link| now.since_ns(self.carried_at[link]) >= RECENT_NS)
    }

    /// A message left by this link. What answers it will probably come by the same: it is the next to be asked.
    #[inline]
    pub(crate) fn on_sent(&mut self, link: u8) {
        if let Some(asked_at) = self.asked_at.get_mut(usize::from(link)) {
            *asked_at = Instant(0);
        }
    }

    /// Something came by one of the others.
    pub(crate) fn on_others(&mut self, now: Instant) {
        self.heard_others_at = now;
    }

    /// Something came by this one.
    pub(crate) fn on_heard(&mut self, now: Instant, link: usize) {
        self.heard_at[link] = now;
    }

    /// Something came by this link that a peer's program had sent.
    #[inline]
    pub(crate) fn on_carried(&mut self, now: Instant, link: usize) {
        self.carried_at[link] = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Links 1, 5 and 7, which were neither asked nor heard for long, beside others.
    fn three() -> Costly {
        let never = [Instant(0); LINK_COUNT_MAX];
        Costly {
            set: 0b1010_0010,
            are_all_asked: false,
            has_others: true,
            asked_at: never,
            heard_at: never,
            carried_at: never,
            heard_others_at: Instant(0),
        }
    }

    const START: Instant = Instant(2 * RECENT_NS);

    #[test]
    fn costly_links_take_turns() {
        let mut all = three();
        let picked = [0_u64, 1, 2].map(|ns| all.pick(START + ns, false));
        assert_eq!(picked, [Some(1), Some(5), Some(7)]);
        assert_eq!(all.pick(START + (EVERY_NS - 1), false), None, "all were asked a moment ago");
        assert_eq!(all.pick(START + EVERY_NS, false), Some(1));
        assert_eq!(all.pick(START + EVERY_NS, false), None, "it is not the next one's time");
        assert_eq!(all.pick(START + EVERY_NS + 1, false), Some(5));
        let mut alone = Costly { has_others: false, ..three() };
        let picked = [(); 4].map(|()| alone.pick(START, false));
        assert_eq!(picked, [Some(1), Some(5), Some(7), Some(1)], "there is nobody to wait for");
    }

    #[test]
    fn the_one_that_a_message_left_by_is_asked_next() {
        let mut all = three();
        while all.pick(START, false).is_some() {}
        all.on_sent(7);
        let picked = [(); 2].map(|()| all.pick(START + 1, false));
        assert_eq!(picked, [Some(7), None]);
    }

    #[test]
    fn one_that_brings_something_is_asked_at_once_and_the_rest_are_not_forgotten() {
        let mut all = three();
        while all.pick(START, false).is_some() {}
        all.on_heard(START, 5);
        all.on_carried(START, 5);
        for ns in (1..BUSY_NS).step_by(500) {
            assert_eq!(all.pick(START + ns, false), Some(5), "after {ns} ns");
        }
        let asked = [0_u64, 1, 2, 3, 4].map(|ns| all.pick(START + EVERY_BESIDE_NS + ns, false));
        assert!(asked.contains(&Some(1)) && asked.contains(&Some(7)), "{asked:?}");
    }

    #[test]
    fn memory_is_alone_while_the_others_carry_nothing() {
        let mut all = three();
        assert!(!all.is_memory_alone(START), "nothing came by it");
        all.on_others(START);
        assert!(all.is_memory_alone(START + RECENT_NS / 2));
        assert!(!all.is_memory_alone(START + RECENT_NS));
        all.on_carried(START, 0);
        assert!(all.is_memory_alone(START), "that is the memory itself");
        all.on_carried(START, 5);
        assert!(!all.is_memory_alone(START + RECENT_NS / 2));
    }

    #[test]
    fn one_that_only_answered_of_late_is_asked_seldom_beside_others() {
        let mut all = three();
        while all.pick(START, false).is_some() {}
        all.on_heard(START, 7);
        let later = START + RECENT_NS / 2;
        while all.pick(later, false).is_some() {}
        all.on_others(later);
        assert_eq!(all.pick(later + (EVERY_BESIDE_NS - 1), false), None);
        assert!(all.pick(later + EVERY_BESIDE_NS, false).is_some());
    }

    #[test]
    fn one_that_carried_something_of_late_is_asked_as_if_the_others_were_not_in_use() {
        let mut all = three();
        while all.pick(START, false).is_some() {}
        all.on_heard(START, 7);
        all.on_carried(START, 7);
        let later = START + RECENT_NS / 2;
        while all.pick(later, false).is_some() {}
        all.on_others(later);
        assert_eq!(all.pick(later + (EVERY_NS - 1), false), None);
        assert_eq!(all.pick(later + EVERY_NS, true), None, "the answer goes before");
        assert_eq!(all.pick(later + EVERY_NS, false), Some(7));
        assert_eq!(all.pick(later + EVERY_NS, false), None, "the others brought nothing");
        assert_eq!(all.pick(later + 3 * EVERY_NS, true), Some(7));
        assert_eq!(all.pick(later + EVERY_BESIDE_NS, false), Some(7));
        assert_eq!(all.pick(later + EVERY_BESIDE_NS, false), Some(1));
    }
}
