//! What a peer's record and the list of peers keep for the rules beside it: plain data, so that no rule must know another.

use crate::base::slab::NONE;
use crate::{Identity, Instant, Locator, SECOND, Secret, Unaccepted};
use alloc::vec::Vec;

/// A peer's large messages in the order of their grants (PROTOCOL §8.4; `bulk/large` has the rules): slots, or NONE. Those that wait know their
/// neighbours; the ends of their list are here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LargeLine {
    /// Granted now.
    granting: u32,
    /// Waiting behind it.
    waiting_first: u32,
    waiting_last: u32,
}

impl LargeLine {
    pub(crate) const EMPTY: Self = Self { granting: NONE, waiting_first: NONE, waiting_last: NONE };

    /// The message that is granted now.
    pub(crate) fn granting(&self) -> u32 {
        self.granting
    }

    /// Whether it is this one.
    pub(crate) fn is_granting(&self, slot: u32) -> bool {
        self.granting == slot
    }

    /// This message is granted now, whoever was before.
    pub(crate) fn begin(&mut self, slot: u32) {
        self.granting = slot;
    }

    /// The first of those that wait is granted now; it is still in their list. NONE: nobody waits, and nobody is granted.
    pub(crate) fn begin_next(&mut self) -> u32 {
        self.granting = self.waiting_first;
        self.granting
    }

    /// A message waits behind the others. Returns the one before it.
    pub(crate) fn wait(&mut self, slot: u32) -> u32 {
        let before = core::mem::replace(&mut self.waiting_last, slot);
        if before == NONE {
            self.waiting_first = slot;
        }
        before
    }

    /// A message between these two waits no more.
    pub(crate) fn wait_no_more(&mut self, before: u32, behind: u32) {
        if before == NONE {
            self.waiting_first = behind;
        }
        if behind == NONE {
            self.waiting_last = before;
        }
    }
}

/// When paths with little traffic are asked for their round trips (`choice` has the rules).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Refresh {
    /// Not before then, nor before so many acknowledgements.
    pub(super) at: Instant,
    pub(super) countdown: u32,
    /// How often the time until then doubled, because the main path stayed the same.
    pub(super) doublings: u8,
}

/// Another path than the quickest carries small messages for a moment. Only so can the two be compared: the round trip of a
/// question on a path that carries nothing is another thing than that of a message.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Trials {
    /// Acknowledgements of the trial that are still to come; 0: there is none.
    pub(super) left_count: u8,
    /// The main path before it.
    pub(super) home: u8,
    /// The path tried last.
    pub(super) last: u8,
    /// Trials in a row of which nothing came.
    pub(super) lost_count: u8,
    /// Not before then.
    pub(super) next_at: Instant,
}

/// When somebody else is tried.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Contest {
    pub(super) pause_ns: u64,
    pub(super) left_ns: u64,
    pub(super) is_trial: bool,
    /// A trial is over.
    pub(super) has_news: bool,
}

/// Different frames of ours that the peer's host must refuse before that ends an association.
pub(crate) const REFUSAL_COUNT: u32 = 3;

/// And from the first of them to the last it must be so long at least: a port may be closed for a moment by a firewall that is
/// being reloaded.
pub(crate) const REFUSAL_NS: u64 = SECOND;

/// Refusals of frames in flight since the peer was heard last.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Refusals {
    count: u32,
    since: Instant,
    /// The newest packet that was refused.
    packet: u64,
}

impl Refusals {
    /// A packet was refused by a peer that was heard last at `heard_at`. True: that is enough.
    pub(crate) fn on_refused(&mut self, now: Instant, heard_at: Instant, packet: u64) -> bool {
        if self.count == 0 || heard_at >= self.since {
            *self = Self { count: 1, since: now, packet };
            return false;
        }
        if packet > self.packet {
            self.count += 1;
            self.packet = packet;
        }
        self.count >= REFUSAL_COUNT && now.since_ns(self.since) >= REFUSAL_NS
    }
}

/// What an idle stranger waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Idle {
    /// The peer said goodbye.
    Departed,
    /// Its association ended in another way; it may not know.
    Gone,
    /// Its association lives, and nothing is under way; a helper drives it.
    Resting,
    /// Its association lives, and nothing is under way; only its application's calls drive it.
    RestingInline,
}

impl Idle {
    /// In the order in which they make room.
    pub(crate) const ALL: [Self; 4] =
        [Self::Departed, Self::Gone, Self::Resting, Self::RestingInline];
}

/// A queue of rows, linked through themselves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Queue {
    pub(super) first: u32,
    pub(super) last: u32,
}

/// The queues of idle strangers.
#[derive(Debug)]
pub(crate) struct Idlers(pub(super) [Queue; 4]);

impl Default for Idlers {
    fn default() -> Self {
        Self([Queue { first: NONE, last: NONE }; 4])
    }
}

/// A row's place among idle strangers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seat {
    pub(super) queue: Option<Idle>,
    pub(super) previous: u32,
    pub(super) next: u32,
    pub(super) since: Instant,
}

impl Default for Seat {
    fn default() -> Self {
        Self { queue: None, previous: NONE, next: NONE, since: Instant(0) }
    }
}

/// A lone answer: one record, no packet number, to wherever the question came from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reply {
    pub(super) link: u8,
    pub(super) locator: Locator,
    pub(super) secret: Secret,
    pub(super) to: u64,
    pub(super) version: u8,
    pub(super) path: u8,
    pub(super) record: ReplyRecord,
}

/// What a lone answer says.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ReplyRecord {
    Challenge { nonce: u64, cookie: u64 },
    Versions { nonce: u64 },
    Reset { id: u64 },
    PathChallenge { nonce: u64 },
    PathResponse { nonce: u64 },
}

/// An endpoint on its way out.
#[derive(Debug)]
pub(crate) struct Closing {
    /// Given up then.
    pub(super) until: Instant,
    /// The next look at how far it is.
    pub(super) look_at: Instant,
    /// What was given up when the time was over.
    pub(super) given_up: Vec<Unaccepted>,
}

/// A forgotten peer, and the id it last had.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Forgotten {
    pub(super) identity: Identity,
    pub(super) secret: Secret,
    pub(super) id: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Messages 2, 3 and 4 wait behind 1; as `bulk/large` does, each is told of its neighbours.
    #[test]
    fn large_messages_wait_behind_each_other() {
        let mut line = LargeLine::EMPTY;
        line.begin(1);
        assert_eq!([2, 3, 4].map(|slot| line.wait(slot)), [NONE, 2, 3]);
        line.wait_no_more(2, 4); // 3 is over
        assert_eq!(line.begin_next(), 2);
        line.wait_no_more(NONE, 4);
        assert!(line.is_granting(2) && line.granting() == 2);
        line.wait_no_more(NONE, NONE); // 4 is over
        assert_eq!(line.wait(5), NONE);
        assert_eq!(line.begin_next(), 5);
        line.wait_no_more(NONE, NONE);
        assert_eq!(line.begin_next(), NONE);
    }
}
