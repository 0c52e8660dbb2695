//! Links that cost a system call to ask, beside others: when they are asked, and in which order (DESIGN §7).

use packhorse_link::Link;
use packhorse_link::mem::UserMemory;
use packhorse_proto::Instant;

/// Beside links in memory, those that cost a system call are asked once in this time...
const EVERY_NS: u64 = 700;
/// ... or in this, if links in memory are in use, for who waits there is kept waiting by the call; and then not in the turn in
/// which something came by memory, so that its answer can leave first...
const EVERY_BESIDE_NS: u64 = 10_000;
/// ... unless something came by them within this. Links in memory count as being in use for as long.
pub(crate) const BUSY_NS: u64 = 20_000;
/// Something came by them within this: small messages come by memory and longer ones by them, so they are asked as if memory were not
/// in use.
const RECENT_NS: u64 = 1_000_000;
/// While one of them is in use the rest of them wait so long: each call that finds nothing there keeps waiting who waits here.
const REST_EVERY_NS: u64 = 10_000;

/// The links that cost a system call to ask, and when they were asked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Costly {
    /// Bit n: link n.
    pub(crate) set: u8,
    /// There are no others, and no two of them: nothing to choose.
    pub(crate) are_all_asked: bool,
    has_others: bool,
    last: u8,
    asked_at: Instant,
    /// When something last came by one of them, and by which.
    heard_at: Instant,
    heard_by: u8,
    /// When one was asked in its turn.
    rest_asked_at: Instant,
    /// When something last came by one of the others.
    heard_others_at: Instant,
}

impl Costly {
    pub(crate) fn new<L: Link<M>, M: UserMemory>(links: &[L], now: Instant) -> Self {
        let costly = links.iter().enumerate().filter(|(_, link)| link.is_costly_to_ask());
        let set = costly.fold(0_u8, |set, (number, _)| set | 1 << number);
        let has_others = (set.count_ones() as usize) < links.len();
        let are_all_asked = set == 0 || links.len() == 1;
        let (asked_at, heard_at, heard_others_at) = (now, now, Instant(0));
        Self {
            set,
            are_all_asked,
            has_others,
            last: 0,
            asked_at,
            heard_at,
            heard_by: 0,
            rest_asked_at: now,
            heard_others_at,
        }
    }

    /// Whether they are asked now. `has_come`: something came by the others in this turn.
    pub(crate) fn is_due(&mut self, now: Instant, has_come: bool) -> bool {
        if has_come {
            self.on_others(now);
        }
        let is_busy = now.since_ns(self.heard_others_at) < BUSY_NS;
        let is_recent = now.since_ns(self.heard_at) < RECENT_NS;
        let every_ns = if is_busy && !is_recent { EVERY_BESIDE_NS } else { EVERY_NS };
        let unasked_ns = now.since_ns(self.asked_at);
        let is_due = !self.has_others
            || unasked_ns >= every_ns + u64::from(has_come) * every_ns
            || now.since_ns(self.heard_at) < BUSY_NS;
        if is_due {
            self.asked_at = now;
        }
        is_due
    }

    /// The one to ask first: where something came a moment ago, unless the rest have waited long enough.
    pub(crate) fn first(&mut self, now: Instant) -> Option<usize> {
        let is_busy = now.since_ns(self.heard_at) < BUSY_NS;
        if is_busy && now.since_ns(self.rest_asked_at) < REST_EVERY_NS {
            return Some(usize::from(self.heard_by));
        }
        self.rest_asked_at = now;
        self.next()
    }

    /// Something came by one of the others.
    pub(crate) fn on_others(&mut self, now: Instant) {
        self.heard_others_at = now;
    }

    /// Something came by this one.
    pub(crate) fn on_heard(&mut self, now: Instant, link: usize) {
        (self.heard_at, self.heard_by) = (now, link as u8);
    }

    /// The one whose turn it is.
    pub(crate) fn next(&mut self) -> Option<usize> {
        let mut behind = (1..=8).map(|step| (self.last + step) % 8);
        let next = behind.find(|&link| self.set >> link & 1 == 1)?;
        self.last = next;
        Some(usize::from(next))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costly_links_take_turns_and_wait_beside_others() {
        let all = Costly {
            set: 0b1010_0010,
            are_all_asked: false,
            has_others: true,
            last: 0,
            asked_at: Instant(0),
            heard_at: Instant(0),
            heard_by: 0,
            rest_asked_at: Instant(0),
            heard_others_at: Instant(0),
        };
        let mut turns = all;
        assert_eq!([(); 4].map(|()| turns.next()), [Some(1), Some(5), Some(7), Some(1)]);
        let mut quiet = all;
        let start = BUSY_NS;
        assert!(quiet.is_due(Instant(start), false));
        assert!(!quiet.is_due(Instant(start + EVERY_NS - 1), false));
        assert!(quiet.is_due(Instant(start + EVERY_NS), false));
        quiet.heard_at = Instant(start + EVERY_NS);
        assert!(quiet.is_due(Instant(start + EVERY_NS + 1), false), "something came just now");
        let mut busy = all;
        busy.on_heard(Instant(start), 5);
        assert_eq!(busy.first(Instant(start)), Some(1), "the rest have waited long enough");
        assert_eq!(busy.first(Instant(start + 1)), Some(5), "where something came");
        assert_eq!(busy.first(Instant(start + REST_EVERY_NS)), Some(5), "its turn");
        assert_eq!(busy.first(Instant(start + BUSY_NS)), Some(7), "nothing came for long");
        let mut recent = Costly { heard_at: Instant(start), asked_at: Instant(start), ..all };
        let later = start + BUSY_NS;
        assert!(recent.is_due(Instant(later), true), "something came by both a moment ago");
        assert!(!recent.is_due(Instant(later + EVERY_NS - 1), false));
        assert!(recent.is_due(Instant(later + EVERY_NS), false));
        let start = RECENT_NS;
        let mut beside = Costly { asked_at: Instant(start), ..all };
        let due_at = start + 2 * EVERY_BESIDE_NS;
        assert!(!beside.is_due(Instant(due_at - 1), true), "the others are in use");
        assert!(!Costly { ..beside }.is_due(Instant(start + EVERY_BESIDE_NS - 1), false));
        assert!(Costly { ..beside }.is_due(Instant(start + EVERY_BESIDE_NS), false));
        assert!(beside.is_due(Instant(due_at), true), "they are not forgotten");
        let mut alone = Costly { has_others: false, ..all };
        assert!(alone.is_due(Instant(start), true) && alone.is_due(Instant(start), false));
    }
}
