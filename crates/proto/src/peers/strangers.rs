//! Peers that introduced themselves, and how they are forgotten.
//!
//! PROTOCOL §3.15. The picture is a cloakroom: what nobody fetched for long is cleared away, but never a coat whose ticket
//! somebody holds. The application holds a ticket when it named the peer, put it on a region's list, waits for something of it,
//! or has not yet taken what it sent. Everybody else's row is given back some time after the peer left, and when the table is
//! full at once, the one unused for longest first.
//!
//! A row that rests or has no association, and that the application did not name, stands in one of four queues, in the order in
//! which rows came to rest. That costs nothing while peers are busy: rows come and go here when they fall asleep and wake.

use alloc::vec::Vec;

use crate::base::api::Event;
use crate::base::limits::{MS, SECOND};
use crate::base::siphash::siphash13_words;
use crate::base::slab::NONE;
use crate::base::types::{Identity, Instant};
use crate::peers::Peers;
use crate::peers::kept::Forgotten;
use crate::peers::kept::{Idle, Reply, ReplyRecord, Seat};
use crate::peers::rows::{Phase, Rows};

/// Classes of identities for which forgotten rows are counted (PROTOCOL §3.5).
const CLASS_COUNT: usize = 4096;
/// Rows looked at when one must make room: of those that cannot go only so many are passed over at a time.
const TRY_COUNT_MAX: u32 = 64;
/// Rows tended in one go, and the pause before the next ones.
const TEND_COUNT_MAX: u32 = 64;
const TEND_PAUSE_NS: u64 = MS;
/// A wake-up serves what would be due so soon after it.
const TEND_SLACK_NS: u64 = SECOND;
/// Strangers at rest are asked whether they live after this many times the silence that would end their association.
const ASK_FACTOR: u64 = 60;
const ASK_FACTOR_INLINE: u64 = 6;

impl Rows {
    /// The row is idle from now on.
    fn sit_down(&mut self, at: u32, idle: Idle, now: Instant) {
        self.stand_up(at);
        let last = self.idlers.0[idle as usize].last;
        self[at].seat = Seat { queue: Some(idle), previous: last, next: NONE, since: now };
        self.idlers.0[idle as usize].last = at;
        match last {
            NONE => self.idlers.0[idle as usize].first = at,
            last => self[last].seat.next = at,
        }
    }

    /// The row is idle no more.
    pub(super) fn stand_up(&mut self, at: u32) {
        let Seat { queue: Some(idle), previous, next, .. } = self[at].seat else { return };
        match previous {
            NONE => self.idlers.0[idle as usize].first = next,
            previous => self[previous].seat.next = next,
        }
        match next {
            NONE => self.idlers.0[idle as usize].last = previous,
            next => self[next].seat.previous = previous,
        }
        self[at].seat = Seat::default();
    }

    fn first_idle(&self, idle: Idle) -> Option<u32> {
        Some(self.idlers.0[idle as usize].first).filter(|&at| at != NONE)
    }
}

/// A part above that may hold a ticket for a row.
pub(crate) trait Tickets {
    /// Something of its own hangs on this row.
    fn holds(&self, row: u32) -> bool;
    /// The row, on which nothing hangs, is given back.
    fn forget(&mut self, row: u32);
}

impl Peers {
    /// A row has nothing under way any more. If the application does not know it by name, its days are counted.
    pub(crate) fn note_idle(&mut self, now: Instant, row: u32, idle: Idle) {
        if self.rows[row].is_named {
            return;
        }
        self.rows.sit_down(row, idle, now);
        let at = now + self.idle_ns(idle);
        self.timers.arm_strangers(at);
    }

    /// A stranger's association came to rest.
    pub(crate) fn note_resting(&mut self, now: Instant, row: u32) {
        let idle = if self.rows[row].has_helper { Idle::Resting } else { Idle::RestingInline };
        self.note_idle(now, row, idle);
    }

    /// How long strangers stay as they are.
    fn idle_ns(&self, idle: Idle) -> u64 {
        let settings = &self.settings;
        match idle {
            Idle::Departed => settings.gone_after_ns,
            // So long it may try to go on with what it does not know to be over.
            Idle::Gone => settings.gone_after_inline_ns.max(settings.gone_after_ns),
            Idle::Resting => settings.gone_after_ns.saturating_mul(ASK_FACTOR),
            Idle::RestingInline => settings.gone_after_inline_ns.saturating_mul(ASK_FACTOR_INLINE),
        }
    }

    /// Looks after strangers whose time is up: one that left is forgotten, one that rests is asked whether it lives.
    pub(crate) fn tend_strangers(&mut self, now: Instant, tickets: &mut impl Tickets) {
        let mut left = TEND_COUNT_MAX;
        for idle in Idle::ALL {
            while let Some(row) = self.rows.first_idle(idle) {
                let at = self.rows[row].seat.since + self.idle_ns(idle);
                if at > now + TEND_SLACK_NS {
                    break;
                }
                if left == 0 {
                    self.timers.set_strangers(now + TEND_PAUSE_NS);
                    return;
                }
                left -= 1;
                self.tend_stranger(now, row, idle, tickets);
            }
        }
        let first_at = |idle| {
            let row = self.rows.first_idle(idle)?;
            Some(self.rows[row].seat.since + self.idle_ns(idle))
        };
        let first_at = Idle::ALL.into_iter().filter_map(first_at).min();
        self.timers.set_strangers(first_at.unwrap_or(Instant::NEVER));
    }

    fn tend_stranger(&mut self, now: Instant, row: u32, idle: Idle, tickets: &mut impl Tickets) {
        match idle {
            Idle::Departed | Idle::Gone if self.is_forgettable(row, tickets) => {
                self.drop_row(row, tickets);
            }
            Idle::Departed | Idle::Gone => self.rows.sit_down(row, idle, now),
            Idle::Resting | Idle::RestingInline => {
                let active = self.activate(row);
                self.actives[active].ask();
                self.make_ready(row);
                self.arm(now, row);
            }
        }
    }

    /// Nothing hangs on this row: the application did not name it, waits for nothing of it and has all that it sent.
    fn is_forgettable(&self, row: u32, tickets: &impl Tickets) -> bool {
        let this = &self.rows[row];
        let is_idle = this.active == NONE && matches!(this.phase, Phase::Idle | Phase::Joined);
        is_idle && !this.is_named && !this.ties.hold_row() && !tickets.holds(row)
    }

    /// Whether a peer may get a row that introduced itself: if need be in the place of another.
    pub(crate) fn has_room_for_stranger(&mut self, tickets: &mut impl Tickets) -> bool {
        self.rows.len() < self.peer_count_max as usize || self.make_room(tickets)
    }

    /// One more peer will be named. A stranger makes room; if none can go now the table grows beyond its limit instead, at most
    /// to twice as many rows, for strangers come in only below it.
    pub(crate) fn make_room_to_name(&mut self, tickets: &mut impl Tickets) {
        if self.rows.len() >= self.peer_count_max as usize {
            self.make_room(tickets);
        }
    }

    /// Forgets the idle stranger that was unused for longest, of those who left first.
    fn make_room(&mut self, tickets: &mut impl Tickets) -> bool {
        for idle in Idle::ALL {
            for _ in 0..TRY_COUNT_MAX {
                let Some(row) = self.rows.first_idle(idle) else { break };
                if self.is_forgettable(row, tickets) {
                    self.evict(row, idle, tickets);
                    return true;
                }
                let since = self.rows[row].seat.since;
                self.rows.sit_down(row, idle, since); // those behind it may be luckier
            }
        }
        false
    }

    fn evict(&mut self, row: u32, idle: Idle, tickets: &mut impl Tickets) {
        let this = &self.rows[row];
        match idle {
            Idle::Departed => {}
            Idle::Gone => {
                let (identity, secret, id) = (this.identity, this.secret, this.ended_id);
                self.remember_forgotten(Forgotten { identity, secret, id });
            }
            Idle::Resting | Idle::RestingInline => {
                // It need not find out by a message that fails.
                if let Some(rest) = &this.rest {
                    let reply = Reply {
                        link: rest.link,
                        locator: rest.locator,
                        secret: this.secret,
                        to: this.remote_id,
                        version: this.version,
                        path: 0,
                        record: ReplyRecord::Reset { id: this.local_id },
                    };
                    self.counters.resets_out += 1;
                    self.reply(reply);
                }
            }
        }
        self.drop_row(row, tickets);
    }

    /// Gives back a row that nothing hangs on.
    fn drop_row(&mut self, row: u32, tickets: &mut impl Tickets) {
        debug_assert!(self.is_forgettable(row, tickets));
        let (peer, identity) = (self.rows[row].peer, self.rows[row].identity);
        if self.rows[row].phase == Phase::Joined {
            self.association_count -= 1;
            self.counters.left += 1;
            self.events.tell(Event::Left { peer, reason: None });
        }
        self.counters.strangers_forgotten += 1;
        tickets.forget(row);
        self.count_forgotten(identity);
        self.rows.remove(row);
    }

    /// A row of this identity is forgotten: cookies from before are good no more (PROTOCOL §3.5).
    pub(super) fn count_forgotten(&mut self, identity: Identity) {
        let class = self.class_of(identity);
        if self.forgotten_counts.is_empty() {
            self.forgotten_counts = Vec::from([0; CLASS_COUNT]);
        }
        self.forgotten_counts[class] = self.forgotten_counts[class].wrapping_add(1);
    }

    /// So many rows were forgotten whose identity is of the same class. In classes, so that cookies of others stay good however
    /// many come and go; by a key of this life, so that nobody can choose whose cookies he spoils.
    pub(super) fn forgotten_count(&self, identity: Identity) -> u64 {
        self.forgotten_counts.get(self.class_of(identity)).map_or(0, |&count| count.into())
    }

    fn class_of(&self, Identity { host, endpoint }: Identity) -> usize {
        siphash13_words(self.key, &[host, endpoint, 0]) as usize % CLASS_COUNT
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::types::{Locator, Secret};

    #[test]
    fn idle_rows_stand_in_order_and_leave_from_anywhere() {
        let mut rows = Rows::new(7);
        for host in 0..5 {
            let identity = Identity { host, endpoint: 1 };
            rows.insert(identity, Secret([1, 1]), Locator::default());
        }
        for at in [3, 1, 4, 0, 2, 1] {
            rows.sit_down(at, Idle::Resting, Instant(at.into()));
        }
        rows.stand_up(4);
        rows.stand_up(4);
        rows.sit_down(0, Idle::Gone, Instant(9));
        assert_eq!(rows.first_idle(Idle::Gone), Some(0));
        for at in [3, 2, 1] {
            assert_eq!(rows.first_idle(Idle::Resting), Some(at));
            rows.remove(at);
        }
        assert_eq!(rows.first_idle(Idle::Resting), None);
    }
}
