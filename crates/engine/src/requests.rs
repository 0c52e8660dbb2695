//! Requests of the application, from post to the moment somebody takes what came of them.
//!
//! ```text
//!   Pending ── event ──▶ Done ── taken ──▶ (vacant)
//!      │ detached ── event ──▶ (vacant)       a request nobody will ask for
//!      │ to a queue ── event ──▶ (vacant)     an entry tells of it; Done only if there is memory to be taken back
//!   Reserved ── posted ──▶ Pending            a name given to somebody who could not wait for the lock (`commands`)
//! ```
//!
//! All of it lives behind the engine's lock, but for [`Ended`]. Slots are used again; a serial in the id tells old names from new.

use std::array;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Waker;

use packhorse_link::mem::{Memory, MemoryId};
use packhorse_proto::{Envelope, Failure, Instant, OperationKind, PeerId, PostError, ReqId};

use crate::names::{Notify, RequestId};

/// What came of a request.
#[derive(Debug)]
pub struct Completion {
    /// How it ended.
    pub outcome: Outcome,
    /// The memory it was posted with, given back.
    pub memory: Option<Memory>,
    /// When it ended, on the engine's clock: in which turn.
    pub at: Instant,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A send.
    Sent {
        /// To whom.
        peer: PeerId,
        /// Bytes that a receive took (`packhorse_proto::Event::Sent`).
        placed_len: u64,
        /// With what success.
        result: Result<(), Failure>,
    },
    /// A receive that took a message.
    Received {
        /// Its envelope.
        envelope: Envelope,
        /// Bytes placed; less than `envelope.len` if the memory was too short.
        placed_len: u64,
        /// With what success.
        result: Result<(), Failure>,
    },
    /// A one-sided operation.
    Operated {
        /// With whose memory.
        peer: PeerId,
        /// What it was.
        kind: OperationKind,
        /// Bytes it was about.
        len: u64,
        /// With what success.
        result: Result<(), Failure>,
    },
    /// The request was never begun: another thread drove when it was posted, and found it wrong when it came to it.
    Refused {
        /// Why.
        error: PostError,
    },
    /// A receive that took none; or, for an entry used many times, the end of it: `None` if it was full.
    Unlinked {
        /// The peer that it was to receive from, if it was one peer only.
        source: Option<PeerId>,
        /// Why.
        failure: Option<Failure>,
    },
}

/// A message taken by an entry that is used many times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Its envelope.
    pub envelope: Envelope,
    /// Where in the posted memory it lies.
    pub offset: u64,
    /// How many bytes of it.
    pub placed_len: u64,
    /// With what success.
    pub result: Result<(), Failure>,
}

/// Where a slot's request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Vacant,
    /// Its name is out, or ready to be given: it is neither vacant nor pending.
    Reserved,
    Pending,
    Done,
}

/// One request. A flat record, filled in step by step: requests come and go with every message, and an enum would be moved
/// as a whole at each step.
#[derive(Debug)]
pub(crate) struct Slot {
    serial: u32,
    /// The next vacant slot, if this is one.
    next: u32,
    stage: Stage,
    /// Nobody will ask for it.
    is_detached: bool,
    pub(crate) req: ReqId,
    /// Name of its memory, if it has any and has not ended.
    pub(crate) memory_id: Option<MemoryId>,
    /// What it adds to `Requests::load`.
    weight: u64,
    /// How it ended, once it has.
    outcome: Outcome,
    /// When it ended.
    at: Instant,
    /// Its memory, once it has ended.
    memory: Option<Memory>,
    /// A completion queue is told of it.
    pub(crate) notify: Option<Notify>,
    pub(crate) is_receive: bool,
    /// An entry used many times: its queue is told of each message.
    pub(crate) is_many: bool,
    pub(crate) waker: Option<Waker>,
    /// For entries used many times: what came and was not taken yet. Boxed, for nearly no request has it.
    #[expect(clippy::box_collection)]
    pub(crate) arrivals: Option<Box<VecDeque<Arrival>>>,
}

const NONE: u32 = u32::MAX;
/// What a slot says until its request has ended.
const NO_OUTCOME: Outcome = Outcome::Unlinked { source: None, failure: None };

/// All requests of an engine.
#[derive(Debug)]
pub(crate) struct Requests {
    slots: Vec<Slot>,
    vacant: u32,
    pending_count: usize,
    /// Of those that have not ended, what the system's buffers cannot hold by themselves; see `weight_of`.
    load: u64,
    ended: Arc<Ended>,
}

/// Up to this a message goes unasked: its bytes wait in the receiver's socket until somebody has time for them. A longer one stands still
/// until its receiver grants it, and its sender answers the grant.
pub(crate) const UNASKED_LEN: u64 = 64 << 10;
/// From this on the copying of a message on one host outweighs what it costs to wake a helper that need not have been: it takes some hundred microseconds.
pub(crate) const HUGE_LEN: u64 = 2 << 20;
/// So much of shorter ones, half of it to be sent and half to be received, is about what sockets hold as systems come.
const HELD_LEN_MAX: u64 = 256 << 10;

/// What a request of this length adds to the load: its bytes, or more than a socket holds if it is one that stands still.
fn weight_of(len: u64) -> u64 {
    if len > UNASKED_LEN { HELD_LEN_MAX + 1 } else { len }
}

impl Default for Requests {
    fn default() -> Self {
        let ended = Arc::new(Ended { counts: array::from_fn(|_| AtomicU32::new(0)) });
        Self { slots: Vec::new(), vacant: NONE, pending_count: 0, load: 0, ended }
    }
}

/// How many requests ended and were not taken, by the last bits of their slots. Written by who has the engine's lock, read by
/// who asks without it: a count of 0 says that a request has not ended, any other that it may have.
#[derive(Debug)]
pub(crate) struct Ended {
    counts: [AtomicU32; Self::COUNT],
}

impl Ended {
    const COUNT: usize = 256;

    fn of(&self, id: RequestId) -> &AtomicU32 {
        &self.counts[id.0 as usize % Self::COUNT]
    }

    /// Whether it may have ended. Relaxed: whoever learns so takes the lock to see what came of it.
    #[inline]
    pub(crate) fn may_have(&self, id: RequestId) -> bool {
        self.of(id).load(Ordering::Relaxed) > 0
    }

    /// Under the lock: nobody else writes, so a load and a store will do.
    #[inline]
    fn add(&self, id: RequestId) {
        let count = self.of(id);
        count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    #[inline]
    fn remove(&self, id: RequestId) {
        let count = self.of(id);
        count.store(count.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
    }
}

impl Requests {
    /// The name the next request will have; `put` gives it away.
    #[inline]
    pub(crate) fn next_id(&self) -> RequestId {
        match self.slots.get(self.vacant as usize) {
            Some(slot) => RequestId(u64::from(slot.serial) << 32 | u64::from(self.vacant)),
            None => RequestId(self.slots.len() as u64),
        }
    }

    /// Enters a request of so many bytes under the name `next_id` gave.
    #[inline]
    pub(crate) fn put(&mut self, req: ReqId, memory_id: Option<MemoryId>, len: u64) -> &mut Slot {
        self.pending_count += 1;
        let weight = weight_of(len);
        self.load += weight;
        let index = match self.slots.get(self.vacant as usize) {
            Some(slot) => std::mem::replace(&mut self.vacant, slot.next) as usize,
            None => self.add_slot(),
        };
        let slot = &mut self.slots[index];
        slot.stage = Stage::Pending;
        slot.is_detached = false;
        (slot.req, slot.memory_id, slot.weight) = (req, memory_id, weight);
        slot
    }

    #[cold]
    fn add_slot(&mut self) -> usize {
        self.slots.push(Slot {
            serial: 0,
            next: NONE,
            stage: Stage::Vacant,
            is_detached: false,
            req: ReqId(0),
            memory_id: None,
            weight: 0,
            outcome: NO_OUTCOME,
            at: Instant(0),
            memory: None,
            notify: None,
            is_receive: false,
            is_many: false,
            waker: None,
            arrivals: None,
        });
        self.slots.len() - 1
    }

    /// A name for somebody who will post without the lock. It counts as one that has not ended.
    pub(crate) fn reserve(&mut self) -> RequestId {
        let id = self.next_id();
        self.put(ReqId(u64::MAX), None, 0).stage = Stage::Reserved;
        self.pending_count -= 1;
        id
    }

    /// His post is made now: the name is the next one given.
    pub(crate) fn bring_forward(&mut self, id: RequestId) {
        let next = self.vacant;
        let slot = self.slot(id, Stage::Reserved);
        let slot = slot.expect("only what was reserved is brought forward");
        (slot.stage, slot.next) = (Stage::Vacant, next);
        self.vacant = id.0 as u32;
        debug_assert_eq!(self.next_id(), id);
    }

    /// For who asks without the lock.
    pub(crate) fn ended(&self) -> Arc<Ended> {
        Arc::clone(&self.ended)
    }

    /// How many have not ended.
    pub(crate) fn pending_count(&self) -> usize {
        self.pending_count
    }

    /// Whether some of them come to nothing, or to loss, while nobody drives: one waits for a grant, or they are more than a socket holds.
    #[inline]
    pub(crate) fn are_heavy(&self) -> bool {
        self.load > HELD_LEN_MAX
    }

    #[inline]
    fn slot(&mut self, id: RequestId, stage: Stage) -> Option<&mut Slot> {
        let slot = self.slots.get_mut(id.0 as u32 as usize)?;
        (slot.serial == (id.0 >> 32) as u32 && slot.stage == stage).then_some(slot)
    }

    /// The request, if it has not ended.
    #[inline]
    pub(crate) fn pending(&mut self, id: RequestId) -> Option<&mut Slot> {
        self.slot(id, Stage::Pending)
    }

    /// Whether it ended and waits to be taken. (A void name has ended, too.)
    pub(crate) fn is_done(&self, id: RequestId) -> bool {
        let slot = self.slots.get(id.0 as u32 as usize);
        let is_open = |slot: &Slot| matches!(slot.stage, Stage::Pending | Stage::Reserved);
        slot.is_none_or(|slot| !is_open(slot) || slot.serial != (id.0 >> 32) as u32)
    }

    /// The next message an entry used many times took.
    pub(crate) fn take_arrival(&mut self, id: RequestId) -> Option<Arrival> {
        let slot = self.slots.get_mut(id.0 as u32 as usize)?;
        if slot.serial != (id.0 >> 32) as u32 {
            return None;
        }
        slot.arrivals.as_mut()?.pop_front()
    }

    /// What came of it, if it ended. Its name is void then.
    #[inline]
    pub(crate) fn take(&mut self, id: RequestId) -> Option<Completion> {
        let slot = self.slot(id, Stage::Done)?;
        let completion =
            Completion { outcome: slot.outcome, memory: slot.memory.take(), at: slot.at };
        self.ended.remove(id);
        self.vacate(id);
        Some(completion)
    }

    #[inline]
    fn vacate(&mut self, id: RequestId) {
        let index = id.0 as u32;
        let slot = &mut self.slots[index as usize];
        slot.serial = slot.serial.wrapping_add(1);
        slot.stage = Stage::Vacant;
        (slot.memory, slot.waker, slot.arrivals) = (None, None, None);
        slot.notify = None;
        (slot.is_receive, slot.is_many) = (false, false);
        slot.next = std::mem::replace(&mut self.vacant, index);
    }

    /// A request ended. `release` gives its memory back. Returns the waker of whoever waits for it.
    #[inline]
    pub(crate) fn end(
        &mut self,
        id: RequestId,
        outcome: Outcome,
        at: Instant,
        release: impl FnOnce(MemoryId) -> Option<Memory>,
    ) -> Option<Waker> {
        let slot = self.slot(id, Stage::Pending)?;
        slot.memory = slot.memory_id.take().and_then(release);
        (slot.outcome, slot.at) = (outcome, at);
        slot.stage = Stage::Done;
        let (waker, weight) = (slot.waker.take(), slot.weight);
        if slot.is_detached {
            self.vacate(id);
        } else {
            self.ended.add(id);
        }
        self.pending_count -= 1;
        self.load -= weight;
        waker
    }

    /// One that a queue is told of ended. Its name stays good only if it keeps something for the caller.
    #[inline]
    pub(crate) fn end_queued(&mut self, id: RequestId, kept: Option<Memory>) {
        let Some(slot) = self.slot(id, Stage::Pending) else { return };
        (slot.stage, slot.memory_id) = (Stage::Done, None);
        let weight = slot.weight;
        if kept.is_some() {
            slot.memory = kept;
            self.ended.add(id);
        } else {
            self.vacate(id);
        }
        self.pending_count -= 1;
        self.load -= weight;
    }

    /// What a queue is to say of a request.
    pub(crate) fn notify_of(&self, id: RequestId) -> Option<Notify> {
        let slot = self.slots.get(id.0 as u32 as usize)?;
        slot.notify.filter(|_| slot.serial == (id.0 >> 32) as u32)
    }

    /// The requests posted to this queue that have not ended, by name and by what the queue is to say of them.
    pub(crate) fn of_queue(&self, queue: u32) -> impl Iterator<Item = (RequestId, Notify)> {
        let slots = self.slots.iter().zip(0_u64..);
        slots.filter(|(slot, _)| slot.stage == Stage::Pending).filter_map(move |(slot, index)| {
            let notify = slot.notify.filter(|notify| notify.queue.0 == queue)?;
            Some((RequestId(u64::from(slot.serial) << 32 | index), notify))
        })
    }

    /// All that have not ended.
    pub(crate) fn all_pending(&self) -> Vec<RequestId> {
        let slots = self.slots.iter().zip(0_u64..);
        slots
            .filter(|(slot, _)| slot.stage == Stage::Pending)
            .map(|(slot, index)| RequestId(u64::from(slot.serial) << 32 | index))
            .collect()
    }

    /// Nobody will ask for it any more. If it ended already, it is forgotten now.
    pub(crate) fn detach(&mut self, id: RequestId) {
        if let Some(slot) = self.slot(id, Stage::Pending) {
            slot.is_detached = true;
            slot.waker = None;
        } else if self.slot(id, Stage::Done).is_some() {
            self.ended.remove(id);
            self.vacate(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(requests: &mut Requests) -> RequestId {
        let id = requests.next_id();
        requests.put(ReqId(0), None, 0);
        id
    }

    const SENT: Outcome = Outcome::Sent { peer: PeerId(0), placed_len: 0, result: Ok(()) };

    #[test]
    fn names_are_not_used_again() {
        let mut requests = Requests::default();
        let first = put(&mut requests);
        requests.end(first, SENT, Instant(0), |_| None);
        assert!(requests.take(first).is_some());
        let second = put(&mut requests);
        assert_ne!(first, second);
        assert!(requests.take(first).is_none() && requests.is_done(first));
        assert!(!requests.is_done(second));
        assert_eq!(requests.pending_count(), 1);
    }

    #[test]
    fn only_what_a_socket_cannot_hold_is_heavy() {
        let mut requests = Requests::default();
        let put = |requests: &mut Requests, len: u64| {
            let id = requests.next_id();
            requests.put(ReqId(0), None, len);
            id
        };
        let both_ways = [UNASKED_LEN; 4].map(|len| put(&mut requests, len));
        assert!(!requests.are_heavy(), "exchanges with two neighbours, which go unasked");
        let one_more = put(&mut requests, 1);
        assert!(requests.are_heavy());
        for id in both_ways {
            requests.end(id, SENT, Instant(0), |_| None);
        }
        assert!(!requests.are_heavy());
        let long = put(&mut requests, UNASKED_LEN + 1);
        assert!(requests.are_heavy(), "it must be granted");
        requests.end_queued(long, None);
        requests.end_queued(one_more, None);
        assert_eq!((requests.load, requests.are_heavy()), (0, false));
    }

    #[test]
    fn a_reserved_name_is_open_and_comes_next_when_it_is_brought_forward() {
        let mut requests = Requests::default();
        let (before, reserved, also) = (put(&mut requests), requests.reserve(), requests.reserve());
        assert!(!requests.is_done(reserved) && requests.pending(reserved).is_none());
        let after = put(&mut requests);
        assert_eq!(requests.pending_count(), 2, "what is only reserved is not waited for");
        requests.bring_forward(reserved);
        assert_eq!(put(&mut requests), reserved);
        assert!(requests.pending(reserved).is_some() && requests.pending_count() == 3);
        for id in [before, after, reserved] {
            requests.end(id, SENT, Instant(0), |_| None);
            assert!(requests.take(id).is_some() && requests.is_done(id));
        }
        assert!(!requests.is_done(also) && requests.all_pending().is_empty());
    }

    #[test]
    fn detached_requests_leave_nothing() {
        let mut requests = Requests::default();
        let early = put(&mut requests);
        requests.detach(early);
        requests.end(early, SENT, Instant(0), |_| None);
        let late = put(&mut requests);
        requests.end(late, SENT, Instant(0), |_| None);
        requests.detach(late);
        assert!(requests.slots.iter().all(|slot| slot.stage == Stage::Vacant));
        assert_eq!(requests.pending_count(), 0);
        assert!(!requests.ended.may_have(early) && !requests.ended.may_have(late));
    }

    #[test]
    fn who_asks_without_the_lock_learns_of_an_end_until_it_is_taken() {
        let mut requests = Requests::default();
        let ended = requests.ended();
        let all: Vec<_> = (0..300).map(|_| put(&mut requests)).collect(); // more than there are counts
        let (first, twin, other) = (all[0], all[256], all[1]);
        assert!(!ended.may_have(first));
        requests.end(first, SENT, Instant(0), |_| None);
        assert!(ended.may_have(first) && ended.may_have(twin), "they share a count");
        assert!(!ended.may_have(other));
        requests.end(twin, SENT, Instant(0), |_| None);
        assert!(requests.take(first).is_some() && ended.may_have(twin));
        requests.detach(twin);
        assert!(!ended.may_have(twin));
        requests.end_queued(other, Some(vec![1].into()));
        assert!(ended.may_have(other), "its memory is to be taken");
        assert!(requests.take(other).is_some() && !ended.may_have(other));
    }
}
