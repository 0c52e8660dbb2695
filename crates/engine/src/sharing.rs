//! Two ways to wait in a loop of looks where others want the core, and which of them is the quicker here.
//!
//! A thread that waits can keep its core, and step aside now and then, or share it, and step aside after every few looks. If the rank whose message is
//! awaited stands behind this one on the same core, sharing is quicker by whole time slices. If it runs elsewhere, and a stranger wants this
//! core, sharing is slower by as much: the stranger uses up its slice, and meanwhile the message lies there. Nobody can tell the two cases
//! apart but by trying: how long waits take is measured for each way.
//!
//! **Sharing helps only if all ranks do it**: one rank that shares among others that keep their cores only loses. So all processes of a machine try
//! at the same time, told by the system's clock and nothing else: in one of 64 spells of 17 ms waits are done the way that is not the
//! quicker so far, and in the first second of a process in one of eight.

use packhorse_proto::Instant;

/// How to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Steps aside seldom.
    Keep,
    /// Steps aside often.
    Share,
}

impl Way {
    fn other(self) -> Self {
        match self {
            Self::Keep => Self::Share,
            Self::Share => Self::Keep,
        }
    }
}

/// A spell is 2^24 ns.
const SPELL_BITS: u32 = 24;
/// One of so many is a trial; in the first spells of a process one of fewer.
const TRIAL_EVERY: u64 = 64;
const FIRST_TRIALS_EVERY: u64 = 8;
const YOUNG_FOR: u64 = 64;
/// What is longer counts as this: something else was waited for.
const WAIT_NS_MAX: u64 = 20_000_000;
/// Fewer waits say nothing.
const COUNT_MIN: u64 = 4;

/// Waits of one kind.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    sum_ns: u64,
    count: u64,
}

impl Tally {
    fn mean_ns(self) -> Option<u64> {
        (self.count >= COUNT_MIN).then(|| self.sum_ns / self.count)
    }
}

/// How long waits took, each way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sharing {
    /// What the engine's clock said on the system's when it was 0.
    origin_ns: u64,
    tallies: [Tally; 2],
    /// The last spell that was seen, how many were, and how waits are done in it.
    spell: u64,
    spell_count: u64,
    way: Way,
}

impl Sharing {
    /// `origin_ns`: what the system's clock said when the engine's was 0.
    pub(crate) fn new(origin_ns: u64) -> Self {
        Self {
            origin_ns,
            tallies: <[Tally; 2]>::default(),
            spell: 0,
            spell_count: 0,
            way: Way::Keep,
        }
    }

    fn best(&self) -> Way {
        match self.tallies.map(Tally::mean_ns) {
            [Some(keep_ns), Some(share_ns)] if share_ns < keep_ns => Way::Share,
            _ => Way::Keep,
        }
    }

    /// A wait begins.
    #[inline]
    pub(crate) fn choose(&mut self, now: Instant) -> Way {
        let spell = (self.origin_ns + now.0) >> SPELL_BITS;
        if spell != self.spell {
            self.begin_spell(spell);
        }
        self.way
    }

    fn begin_spell(&mut self, spell: u64) {
        (self.spell, self.spell_count) = (spell, self.spell_count + 1);
        let every = if self.spell_count < YOUNG_FOR { FIRST_TRIALS_EVERY } else { TRIAL_EVERY };
        let (best, is_trial) = (self.best(), spell.is_multiple_of(every));
        self.way = if is_trial { best.other() } else { best };
        if is_trial {
            // What was long ago counts less.
            for tally in &mut self.tallies {
                (tally.sum_ns, tally.count) = (tally.sum_ns / 2, tally.count / 2);
            }
        }
    }

    /// A wait of this length is over, done this way.
    #[inline]
    pub(crate) fn on_waited(&mut self, way: Way, ns: u64) {
        let tally = &mut self.tallies[way as usize];
        (tally.sum_ns, tally.count) = (tally.sum_ns + ns.min(WAIT_NS_MAX), tally.count + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Of so much time in waits that take so long each, the part, in percent, that is spent in those that share.
    fn shared(sharing: &mut Sharing, now: &mut Instant, keep_ns: u64, share_ns: u64) -> u64 {
        let (began_at, mut shared_ns) = (*now, 0);
        while *now - began_at < 10_000 * MS {
            let way = sharing.choose(*now);
            let ns = if way == Way::Share { share_ns } else { keep_ns };
            shared_ns += if way == Way::Share { ns } else { 0 };
            sharing.on_waited(way, ns);
            *now = *now + ns;
        }
        shared_ns * 100 / (*now - began_at)
    }

    #[test]
    fn waits_go_the_quicker_way_and_the_other_is_tried_seldom() {
        let (mut sharing, mut now) = (Sharing::new(77), Instant(5));
        let percent = shared(&mut sharing, &mut now, 3 * MS, MS / 10);
        assert!(percent > 90, "a rank stands behind it: {percent} %");
        let percent = shared(&mut sharing, &mut now, 20_000, 3 * MS);
        assert!(percent < 20, "now it is a stranger: {percent} %");
        let percent = shared(&mut sharing, &mut now, 3 * MS, MS / 10);
        assert!(percent > 70, "and now a rank again: {percent} %");
    }

    #[test]
    fn all_processes_of_a_machine_try_at_the_same_time() {
        // Two that were opened at different times, and have learned the same.
        let mut both = [Sharing::new(3 * MS), Sharing::new(500 * MS)];
        let at = |ns: u64, origin_ns: u64| Instant(ns - origin_ns);
        let mut trial_count = 0;
        for ns in (600 * MS..30_000 * MS).step_by(MS as usize) {
            let [a, b] = &mut both;
            let ways = [a.choose(at(ns, 3 * MS)), b.choose(at(ns, 500 * MS))];
            assert_eq!(ways[0], ways[1]);
            trial_count += u32::from(ways[0] == Way::Share);
            both.iter_mut().zip(ways).for_each(|(it, way)| it.on_waited(way, 1 + way as u64));
        }
        assert!(trial_count > 500, "{trial_count} ms of 29400");
    }
}
