//! Requests by handle, and those that ended, oldest first.
//!
//! A handle names a place and how often that was used, so that one that is stale, or made up, is nobody's. Ended requests are in a list
//! in the order of their ends, which `mx_ipeek` and `mx_test_any` go by; each leaves it in one step, whoever completes it.

use packhorse_common::handles::{Key, Slots};

use crate::abi::Addr;
use crate::codes::{self, Code};

/// `mx_request_t`: 8 bits of the endpoint's place, 24 of use, 32 of place from 1 on. Never null.
pub(crate) type Handle = u64;

const NONE: u32 = u32::MAX;
const USE_BITS: u32 = 24;
const USE_MASK: u32 = (1 << USE_BITS) - 1;

/// What a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Send,
    Recv,
    Connect,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) code: Code,
    /// The other side.
    pub(crate) peer: Addr,
    pub(crate) match_info: u64,
    pub(crate) len: u32,
    pub(crate) placed_len: u32,
    /// As posted.
    pub(crate) context: usize,
}

/// A request that is open, or ended and not completed yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) kind: Kind,
    /// What a send says of itself when it ends; of a receive only the context counts.
    pub(crate) ended: Ended,
    pub(crate) phase: Phase,
    /// Its bytes are the application's again, though it may not have ended.
    pub(crate) is_buffered: bool,
    /// A connection that a blocking call waits for: nobody else is shown it.
    pub(crate) is_hidden: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Pending,
    /// Nobody will ask for it.
    Forgotten,
    /// Taken back; its end is on its way from the engine.
    Cancelled,
    Done,
}

/// A request with its neighbours in the list of ended ones.
#[derive(Debug)]
struct Listed {
    request: Request,
    before: u32,
    after: u32,
}

/// All requests of an endpoint.
#[derive(Debug)]
pub(crate) struct Requests {
    place: u8,
    slots: Slots<Listed>,
    first: u32,
    last: u32,
}

/// The place of the endpoint that a handle belongs to.
pub(crate) fn place_of(handle: Handle) -> u8 {
    (handle >> 56) as u8
}

impl Requests {
    /// Of the endpoint at this place, the `serial`th there ever was.
    pub(crate) fn new(place: u8, serial: u32) -> Self {
        // Handles of the endpoint that had the place before are not valid for long.
        let first_use = serial.wrapping_mul(0x1003);
        Self { place, slots: Slots::new(USE_BITS, first_use), first: NONE, last: NONE }
    }

    fn handle(&self, key: Key) -> Handle {
        u64::from(self.place) << 56 | u64::from(key.uses) << 32 | u64::from(key.index + 1)
    }

    fn key(&self, handle: Handle) -> Option<Key> {
        let (index, uses) = ((handle as u32).checked_sub(1)?, (handle >> 32) as u32 & USE_MASK);
        (place_of(handle) == self.place).then_some(Key { index, uses })
    }

    pub(crate) fn insert(&mut self, request: Request) -> Handle {
        let is_done = request.phase == Phase::Done && !request.is_hidden;
        let key = self.slots.insert(Listed { request, before: NONE, after: NONE });
        if is_done {
            self.append(key.index);
        }
        self.handle(key)
    }

    /// One that the application may name: not one that it gave up.
    pub(crate) fn get(&self, handle: Handle) -> Option<&Request> {
        let request = &self.slots.get(self.key(handle)?)?.request;
        matches!(request.phase, Phase::Pending | Phase::Done).then_some(request)
    }

    /// For the engine's word about it: one that the application gave up, too.
    pub(crate) fn get_mut(&mut self, handle: Handle) -> Option<&mut Request> {
        Some(&mut self.slots.get_mut(self.key(handle)?)?.request)
    }

    /// It ended: joins the list, unless nobody is to be shown it. One that has ended already, as a connection that is made after it was
    /// cancelled, stays as it is: twice in the list it would be its own neighbour.
    pub(crate) fn on_end(&mut self, handle: Handle, ended: Ended) {
        let Some(key) = self.key(handle) else { return };
        let Some(Listed { request, .. }) = self.slots.get_mut(key) else { return };
        if request.phase == Phase::Done {
            return;
        }
        request.ended = ended;
        request.phase = Phase::Done;
        request.is_buffered = true;
        if !request.is_hidden {
            self.append(key.index);
        }
    }

    fn append(&mut self, index: u32) {
        let last = self.last;
        if let Some(listed) = self.slots.at_mut(index) {
            (listed.before, listed.after) = (last, NONE);
        }
        match self.slots.at_mut(last) {
            Some(before) => before.after = index,
            None => self.first = index,
        }
        self.last = index;
    }

    /// Takes a request out, whatever its state; its handle is void.
    pub(crate) fn remove(&mut self, handle: Handle) -> Option<Request> {
        let Listed { request, before, after } = self.slots.remove(self.key(handle)?)?;
        if request.phase == Phase::Done && !request.is_hidden {
            match self.slots.at_mut(before) {
                Some(listed) => listed.after = after,
                None => self.first = after,
            }
            match self.slots.at_mut(after) {
                Some(listed) => listed.before = before,
                None => self.last = before,
            }
        }
        Some(request)
    }

    /// Takes a request out if it has ended.
    pub(crate) fn take_done(&mut self, handle: Handle) -> Result<Option<Ended>, Code> {
        match self.get(handle) {
            None => Err(codes::BAD_REQUEST),
            Some(request) if request.phase != Phase::Done => Ok(None),
            Some(_) => Ok(self.remove(handle).map(|request| request.ended)),
        }
    }

    /// The oldest that ended.
    pub(crate) fn first_done(&self) -> Option<Handle> {
        self.slots.key_at(self.first).map(|key| self.handle(key))
    }

    /// Takes out the oldest that ended with such match bits.
    pub(crate) fn take_any(&mut self, info: u64, mask: u64) -> Option<Ended> {
        let mut index = self.first;
        while let Some(listed) = self.slots.at(index) {
            if listed.request.ended.match_info & mask == info {
                let handle = self.handle(self.slots.key_at(index)?);
                return self.remove(handle).map(|request| request.ended);
            }
            index = listed.after;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(match_info: u64) -> Ended {
        let peer = Addr::default();
        Ended { code: codes::SUCCESS, peer, match_info, len: 0, placed_len: 0, context: 0 }
    }

    fn request(phase: Phase) -> Request {
        let (is_buffered, is_hidden) = (false, false);
        Request { kind: Kind::Recv, ended: ended(0), phase, is_buffered, is_hidden }
    }

    #[test]
    fn requests_that_ended_are_shown_in_that_order_and_leave_it_from_anywhere() {
        let mut requests = Requests::new(3, 9);
        let handles: Vec<_> = (0..5).map(|_| requests.insert(request(Phase::Pending))).collect();
        assert!(handles.iter().all(|&handle| place_of(handle) == 3));
        for (index, info) in [(2, 20), (0, 7), (4, 40), (1, 7)] {
            requests.on_end(handles[index], ended(info));
        }
        assert_eq!(requests.first_done(), Some(handles[2]));
        assert_eq!(requests.take_done(handles[3]), Ok(None), "pending");
        assert_eq!(requests.take_any(7, u64::MAX).map(|it| it.match_info), Some(7));
        assert_eq!(requests.take_done(handles[0]), Err(codes::BAD_REQUEST), "the older of the two");
        assert_eq!(requests.take_done(handles[2]).unwrap(), Some(ended(20)));
        assert_eq!(requests.first_done(), Some(handles[4]));
        assert_eq!(requests.take_any(0, 0).map(|it| it.match_info), Some(40));
        assert_eq!(requests.take_any(0, 0).map(|it| it.match_info), Some(7));
        assert_eq!(requests.take_any(0, 0), None);
        assert_eq!(requests.first_done(), None);
    }

    #[test]
    fn a_request_ends_once() {
        let mut requests = Requests::new(0, 1);
        let handle = requests.insert(request(Phase::Pending));
        requests.on_end(handle, Ended { code: codes::CANCELLED, ..ended(1) });
        requests.on_end(handle, ended(1));
        assert_eq!(requests.take_any(0, 0).map(|it| it.code), Some(codes::CANCELLED));
        assert_eq!((requests.take_any(0, 0), requests.first_done()), (None, None));
    }

    #[test]
    fn a_stale_handle_is_nobodys() {
        let mut requests = Requests::new(0, 1);
        let old = requests.insert(request(Phase::Done));
        assert!(requests.take_done(old).unwrap().is_some());
        let new = requests.insert(request(Phase::Done));
        assert_ne!(old, new);
        for handle in [old, 0, u64::MAX, new ^ 1 << 40, new + 1] {
            assert_eq!(requests.take_done(handle), Err(codes::BAD_REQUEST), "{handle:x}");
        }
        assert!(requests.take_done(new).unwrap().is_some());
    }
}
