//! A turn behind the lock, and what comes of it: the events of the rules end requests, fill queues and wake whoever waits.

use packhorse_proto::{Ended, Event, Instant, OperationKind, Received};

use super::{DynCore, Inner};
use crate::core::{Looked, QuickLook};
use crate::duties::Offload;
use crate::entry::Kind;
use crate::names::RequestId;
use crate::queue::Lost;
use crate::regions::Written;
use crate::requests::{Arrival, Outcome};

impl Inner {
    /// Turns the core and hands out what came of it.
    pub(crate) fn turn(&mut self, now: Instant) -> usize {
        self.turn_with(now, Offload::Both)
    }

    /// Turns the core for a helper that may not do everything.
    pub(crate) fn turn_with(&mut self, now: Instant, duties: Offload) -> usize {
        self.turn_by(now, |core| match duties {
            Offload::Both => core.turn(now),
            some => core.turn_with(now, some),
        })
    }

    /// Turns the core for a caller that looks again and again, and mostly in vain.
    pub(crate) fn look(&mut self, now: Instant) -> usize {
        match self.core.look_quickly(now) {
            QuickLook::Nothing => {}
            quick => return self.take_quick(&quick, now),
        }
        match self.core.ask_behind_quick(now) {
            Looked::Nothing => 0,
            answer => self.turn_after(&answer, now, false),
        }
    }

    /// Hands out what came of a look without a turn (`core::quick`). Returns how much was done.
    #[inline]
    pub(crate) fn take_quick(&mut self, quick: &QuickLook, now: Instant) -> usize {
        let now = now.max(self.core.turned_at());
        match *quick {
            QuickLook::Nothing => 0,
            QuickLook::Received(Received { user, envelope, placed_len, .. }) => {
                let arrival = Arrival { envelope, offset: 0, placed_len, result: Ok(()) };
                self.on_received(user, arrival, None, now);
                self.queues.publish();
                1
            }
            QuickLook::Ended(Ended { user, peer, placed_len, .. }) => {
                self.end(user, Outcome::Sent { peer, placed_len, result: Ok(()) }, now);
                self.queues.publish();
                1
            }
            QuickLook::Chunk => {
                self.settle_streams();
                1
            }
            QuickLook::Turned(work) => {
                self.settle(now);
                work
            }
        }
    }

    /// The turn behind a question to the links. `is_late`: the clock was read a few looks ago.
    pub(crate) fn turn_after(&mut self, answer: &Looked, now: Instant, is_late: bool) -> usize {
        self.turn_by(now, |core| core.turn_after(answer, now, is_late))
    }

    #[inline(always)]
    fn turn_by(&mut self, now: Instant, turn: impl FnOnce(&mut DynCore) -> usize) -> usize {
        let may_be_left = self.commands.are_wanted();
        if may_be_left {
            self.commands.on_turn();
        }
        let mut work = turn(&mut self.core);
        let now = now.max(self.core.turned_at());
        let is_left = may_be_left && self.commands.on_turned();
        if is_left {
            self.run_commands(now);
            work += usize::from(self.core.has_work()); // a receive found what is to be fetched
        }
        self.settle(now);
        if work == 0 && !is_left {
            self.core.rest();
        }
        work
    }

    /// Events become ends of requests.
    pub(crate) fn settle(&mut self, now: Instant) {
        self.settle_streams();
        while let Some(event) = self.core.endpoint().poll_event() {
            match event {
                Event::Sent { user, peer, placed_len, result, .. } => {
                    self.end(user, Outcome::Sent { peer, placed_len, result }, now);
                }
                Event::Received { user, envelope, offset, placed_len, result, .. } => {
                    self.on_received(
                        user,
                        Arrival { envelope, offset, placed_len, result },
                        None,
                        now,
                    );
                }
                Event::Overflowed { user, envelope, overflow_user, offset, placed_len, .. } => {
                    let arrival = Arrival { envelope, offset, placed_len, result: Ok(()) };
                    self.on_received(user, arrival, Some(RequestId(overflow_user)), now);
                }
                Event::Unlinked { user, source, failure, .. } => {
                    self.end(user, Outcome::Unlinked { source, failure }, now);
                }
                Event::Operated { user, peer, kind, len, result, .. } => {
                    self.end(user, Outcome::Operated { peer, kind, len, result }, now);
                }
                Event::Written { region, peer, offset, len, immediate, .. } => {
                    let written = Written { peer, offset, len, immediate };
                    self.on_written(region, written, now);
                }
                Event::Used { region, kind, .. } => {
                    let kind = match kind {
                        OperationKind::Put => Kind::Written,
                        OperationKind::Get => Kind::Got,
                        OperationKind::Atomic => Kind::Atomic,
                    };
                    self.on_used(region, kind);
                }
                Event::Lost { peer, space, tag, len, failure } => {
                    self.on_lost(Lost { peer, space, tag, len, failure }, now);
                }
                Event::Closed { clean } => {
                    self.closed = Some(clean);
                    self.has_news = true;
                }
                Event::Joined { .. } | Event::Left { .. } => {} // of no request: nobody asks
            }
        }
        self.settle_portals();
        self.queues.publish();
    }

    /// A message came. `overflow`: it lies in that request's memory.
    fn on_received(
        &mut self,
        user: u64,
        arrival: Arrival,
        overflow: Option<RequestId>,
        now: Instant,
    ) {
        let id = RequestId(user);
        let Some(pending) = self.requests.pending(id) else { return };
        if let Some(notify) = pending.notify {
            let kind = if overflow.is_some() { Kind::Overflowed } else { Kind::Received };
            return self.on_received_queued(id, notify, kind, arrival, overflow, now);
        }
        if let Some(arrivals) = &mut pending.arrivals {
            arrivals.push_back(arrival);
            self.wakers.extend(pending.waker.take());
            self.has_news = true;
            return;
        }
        let Arrival { envelope, placed_len, result, .. } = arrival;
        self.end(user, Outcome::Received { envelope, placed_len, result }, now);
    }

    pub(crate) fn end(&mut self, user: u64, outcome: Outcome, now: Instant) {
        let id = RequestId(user);
        if let Some(notify) = self.requests.pending(id).and_then(|pending| pending.notify) {
            return self.end_queued(id, notify, outcome, now);
        }
        let core = &mut self.core;
        let waker = self.requests.end(id, outcome, now, |id| core.memory().remove(id));
        self.wakers.extend(waker);
        self.has_news = true;
    }
}
