//! Requests of the application, from post to the moment somebody takes what came of them.
//!
//! ```text
//!   Pending ── event ──▶ Done ── taken ──▶ (vacant)
//!      │ detached ── event ──▶ (vacant)       a request nobody will ask for
//! ```
//!
//! All of it lives behind the engine's lock. Slots are used again; a serial in the id tells old names from new.

use std::collections::VecDeque;
use std::task::Waker;

use packhorse_link::mem::Memory;
use packhorse_proto::{Envelope, Failure, PeerId, ReqId};

/// A request. Void once its completion was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestId(pub(crate) u64);

/// What came of a request.
#[derive(Debug)]
pub struct Completion {
    /// How it ended.
    pub outcome: Outcome,
    /// The memory it was posted with, given back.
    pub memory: Option<Memory>,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A send.
    Sent {
        /// To whom.
        peer: PeerId,
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
    /// A receive that took none; or, for an entry used many times, the end of it: `None` if it was full.
    Unlinked {
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

/// A request that has not ended.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) req: ReqId,
    /// Name of its memory, if it has any.
    pub(crate) memory: Option<u64>,
    pub(crate) waker: Option<Waker>,
    /// Nobody will ask for it.
    pub(crate) is_detached: bool,
    /// For entries used many times: what came and was not taken yet. Boxed, for nearly no request has it and all are moved.
    #[expect(clippy::box_collection)]
    pub(crate) arrivals: Option<Box<VecDeque<Arrival>>>,
}

#[derive(Debug)]
enum State {
    Vacant {
        next: u32,
    },
    Pending(Pending),
    #[expect(clippy::box_collection)]
    Done {
        completion: Completion,
        arrivals: Option<Box<VecDeque<Arrival>>>,
    },
}

const NONE: u32 = u32::MAX;

/// All requests of an engine.
#[derive(Debug)]
pub(crate) struct Requests {
    slots: Vec<(State, u32)>,
    vacant: u32,
    pending_count: usize,
}

impl Default for Requests {
    fn default() -> Self {
        Self { slots: Vec::new(), vacant: NONE, pending_count: 0 }
    }
}

impl Requests {
    /// The name the next request will have; `put` gives it away.
    pub(crate) fn next_id(&self) -> RequestId {
        match self.slots.get(self.vacant as usize) {
            Some(&(_, serial)) => RequestId(u64::from(serial) << 32 | u64::from(self.vacant)),
            None => RequestId(self.slots.len() as u64),
        }
    }

    /// Enters a request under the name `next_id` gave.
    pub(crate) fn put(&mut self, pending: Pending) -> RequestId {
        let id = self.next_id();
        self.pending_count += 1;
        match self.slots.get_mut(self.vacant as usize) {
            Some((state, _)) => {
                if let State::Vacant { next } = *state {
                    self.vacant = next;
                }
                *state = State::Pending(pending);
            }
            None => self.slots.push((State::Pending(pending), 0)),
        }
        id
    }

    /// How many have not ended.
    pub(crate) fn pending_count(&self) -> usize {
        self.pending_count
    }

    fn state(&mut self, id: RequestId) -> Option<&mut State> {
        match self.slots.get_mut(id.0 as u32 as usize) {
            Some((state, serial)) if *serial == (id.0 >> 32) as u32 => Some(state),
            _ => None,
        }
    }

    /// The request, if it has not ended.
    pub(crate) fn pending(&mut self, id: RequestId) -> Option<&mut Pending> {
        match self.state(id)? {
            State::Pending(pending) => Some(pending),
            _ => None,
        }
    }

    /// Whether it ended and waits to be taken. (A void name has ended, too.)
    pub(crate) fn is_done(&self, id: RequestId) -> bool {
        match self.slots.get(id.0 as u32 as usize) {
            Some((State::Pending(_), serial)) => *serial != (id.0 >> 32) as u32,
            _ => true,
        }
    }

    /// The next message an entry used many times took.
    pub(crate) fn take_arrival(&mut self, id: RequestId) -> Option<Arrival> {
        match self.state(id)? {
            State::Pending(Pending { arrivals, .. }) | State::Done { arrivals, .. } => {
                arrivals.as_mut()?.pop_front()
            }
            State::Vacant { .. } => None,
        }
    }

    /// What came of it, if it ended. Its name is void then.
    pub(crate) fn take(&mut self, id: RequestId) -> Option<Completion> {
        if !matches!(self.state(id)?, State::Done { .. }) {
            return None;
        }
        match self.vacate(id) {
            State::Done { completion, .. } => Some(completion),
            _ => None,
        }
    }

    fn vacate(&mut self, id: RequestId) -> State {
        let index = id.0 as u32;
        let (state, serial) = &mut self.slots[index as usize];
        *serial = serial.wrapping_add(1);
        let last = std::mem::replace(state, State::Vacant { next: self.vacant });
        self.vacant = index;
        last
    }

    /// It ended. `release` gives its memory back. Returns whom to wake.
    pub(crate) fn end(
        &mut self,
        id: RequestId,
        outcome: Outcome,
        release: impl FnOnce(u64) -> Option<Memory>,
    ) -> Option<Waker> {
        let pending = self.pending(id)?;
        let memory = pending.memory.take().and_then(release);
        let (is_detached, waker) = (pending.is_detached, pending.waker.take());
        let arrivals = pending.arrivals.take();
        self.pending_count -= 1;
        if is_detached {
            self.vacate(id);
            return None;
        }
        if let Some(state) = self.state(id) {
            *state = State::Done { completion: Completion { outcome, memory }, arrivals };
        }
        waker
    }

    /// All that have not ended.
    pub(crate) fn all_pending(&self) -> Vec<RequestId> {
        let is_pending = |state: &State| matches!(state, State::Pending(_));
        let slots = self.slots.iter().zip(0_u64..);
        slots
            .filter(|((state, _), _)| is_pending(state))
            .map(|((_, serial), index)| RequestId(u64::from(*serial) << 32 | index))
            .collect()
    }

    /// Nobody will ask for it any more. If it ended already, it is forgotten now.
    pub(crate) fn detach(&mut self, id: RequestId) {
        match self.state(id) {
            Some(State::Pending(pending)) => {
                pending.is_detached = true;
                pending.waker = None;
            }
            Some(State::Done { .. }) => drop(self.vacate(id)),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pending() -> Pending {
        Pending { req: ReqId(0), memory: None, waker: None, is_detached: false, arrivals: None }
    }

    const SENT: Outcome = Outcome::Sent { peer: PeerId(0), result: Ok(()) };

    #[test]
    fn names_are_not_used_again() {
        let mut requests = Requests::default();
        let first = requests.put(pending());
        requests.end(first, SENT, |_| None);
        assert!(requests.take(first).is_some());
        let second = requests.put(pending());
        assert_ne!(first, second);
        assert!(requests.take(first).is_none() && requests.is_done(first));
        assert!(!requests.is_done(second));
        assert_eq!(requests.pending_count(), 1);
    }

    #[test]
    fn detached_requests_leave_nothing() {
        let mut requests = Requests::default();
        let early = requests.put(pending());
        requests.detach(early);
        requests.end(early, SENT, |_| None);
        let late = requests.put(pending());
        requests.end(late, SENT, |_| None);
        requests.detach(late);
        assert!(requests.slots.iter().all(|(state, _)| matches!(state, State::Vacant { .. })));
        assert_eq!(requests.pending_count(), 0);
    }
}
