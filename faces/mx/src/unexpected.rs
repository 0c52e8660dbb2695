//! Messages that no receive waits for, and the application's handler of such.
//!
//! Without a handler they are the engine's, which keeps and matches them. With one, each call that makes progress takes them from the engine, oldest
//! first, and asks the handler: *finished* ends the message, *continue* leaves it to the receives. Those that were posted meanwhile come
//! first; then the message is stored here, and receives and probes look here before they go to the engine, whose messages are later. A
//! message that a receive takes before any call asked the handler is one that arrived when the receive was posted. So is one behind as many as are
//! stored here at most: it stays with the engine, whose budgets bound it, until some of those are taken.
//!
//! The handler runs in the application's calls and nowhere else: what has to be asked waits for one. Other messages do not.

use std::sync::atomic::Ordering;

use packhorse::raw::{Claim, Completions, Criteria, Envelope, PeerId, Tag};

use crate::abi::Addr;
use crate::calls::Unexpected;
use crate::codes;
use crate::memory::Room;
use crate::port::{Port, SPACE, State, lock};
use crate::requests::{Ended, Handle};

/// Up to here a message is shown. It leaves its sender in one frame, so that all of it is there when its first byte is.
const SHOWN_LEN_MAX: u64 = 1024;
/// Messages that one call asks about at most: the call is for something else.
const ASK_COUNT_MAX: usize = 64;
/// Messages that are stored here at most, for each receive looks through them.
const STORED_COUNT_MAX: usize = 1024;

/// All that MX sends.
pub(crate) const ANY: Criteria =
    Criteria { space: SPACE, tag: Tag(0), ignore: u64::MAX, source: None };

/// A message that was taken from the engine.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) envelope: Envelope,
    content: Content,
}

#[derive(Debug)]
enum Content {
    Bytes(Vec<u8>),
    /// Its bytes are with the engine, or with the sender.
    Claimed(Claim),
}

/// A message that the handler is asked about now, and receives that were posted meanwhile, from the first that fits on.
#[derive(Debug)]
pub(crate) struct Asked {
    envelope: Envelope,
    deferred: Vec<(Criteria, Handle, Room)>,
}

fn fits(criteria: &Criteria, envelope: &Envelope) -> bool {
    (criteria.tag.0 ^ envelope.tag.0) & !criteria.ignore == 0
}

impl State {
    /// Keeps a receive until the handler has said what becomes of the message it is asked about, if it might take that; gives it back if
    /// not.
    pub(crate) fn defer(&mut self, receive: (Criteria, Handle, Room)) -> Option<Room> {
        let asked = self.asked.as_mut();
        let waits =
            |asked: &&mut Asked| !asked.deferred.is_empty() || fits(&receive.0, &asked.envelope);
        match asked.filter(waits) {
            Some(asked) => {
                asked.deferred.push(receive);
                None
            }
            None => Some(receive.2),
        }
    }

    /// Takes a receive out of those that wait for the handler's word.
    pub(crate) fn take_deferred(&mut self, handle: Handle) -> bool {
        let Some(asked) = &mut self.asked else { return false };
        let count = asked.deferred.len();
        asked.deferred.retain(|(_, other, _)| *other != handle);
        asked.deferred.len() < count
    }

    /// No more messages are taken from the engine to ask the handler about them.
    pub(crate) fn is_full(&self) -> bool {
        self.stored.len() >= STORED_COUNT_MAX
    }

    pub(crate) fn drop_stored_of(&mut self, peer: PeerId) {
        self.stored.retain(|stored| stored.envelope.source != peer);
    }
}

impl Port {
    /// Gives a receive the oldest stored message that fits. False: there is none.
    pub(crate) fn match_stored(
        &self,
        state: &mut State,
        criteria: &Criteria,
        handle: Handle,
        room: &Room,
    ) -> bool {
        while let Some(at) = state.stored.iter().position(|it| fits(criteria, &it.envelope)) {
            let stored = state.stored.remove(at);
            if self.deliver(state, stored, handle, room) {
                return true;
            }
        }
        false
    }

    /// Gives a message to a receive. False: the program disconnected from its sender meanwhile, and the message went with that; the receive is
    /// for another.
    fn deliver(&self, state: &mut State, stored: Stored, handle: Handle, room: &Room) -> bool {
        let envelope = stored.envelope;
        match stored.content {
            Content::Bytes(bytes) => {
                let Some(request) = state.requests.get_mut(handle).copied() else { return true };
                let placed_len = room.fill(&bytes);
                let len = bytes.len() as u32;
                let ended = Ended {
                    code: if placed_len < len { codes::TRUNCATED } else { codes::SUCCESS },
                    peer: self.address_of(state, envelope.source),
                    match_info: envelope.tag.0,
                    len,
                    placed_len,
                    ..request.ended
                };
                let failed = self.end(state, handle, request.phase, ended);
                state.failed.extend(failed);
                true
            }
            Content::Claimed(claim) => {
                let memory = room.memory(true);
                self.engine().recv_claimed_queued(self.notify(handle), claim, memory).is_ok()
            }
        }
    }

    /// Asks the handler about what no receive took. With the completions in hand: nobody else makes progress meanwhile.
    pub(crate) fn ask_handler(&self, completions: &mut Completions) {
        for _ in 0..ASK_COUNT_MAX {
            let mut state = lock(&self.state);
            let Some(handler) = state.handler.filter(|_| !state.is_full()) else { return };
            let Some((claim, envelope)) = self.engine().claim(&ANY) else { return };
            // From here on a receive that might take it waits for the handler's word, whichever thread posts it.
            state.asked = Some(Asked { envelope, deferred: Vec::new() });
            drop(state);
            match self.fetch(claim, envelope) {
                Some(stored) => self.ask(&handler, stored),
                None => {
                    let mut state = lock(&self.state);
                    let deferred = state.asked.take().map(|asked| asked.deferred);
                    self.post_deferred(&mut state, deferred.unwrap_or_default());
                }
            }
            self.take_entries(completions);
        }
    }

    /// The bytes of a short message that nobody synchronises with; others stay where they are, and so does one that a peer has sent a part of: the
    /// rest may never come. `None`: its sender went, and it with it.
    fn fetch(&self, claim: Claim, envelope: Envelope) -> Option<Stored> {
        let is_shown = envelope.immediate.is_none() && envelope.len <= SHOWN_LEN_MAX;
        if !is_shown || !self.engine().is_whole(claim) {
            return Some(Stored { envelope, content: Content::Claimed(claim) });
        }
        let room = vec![0; envelope.len as usize];
        let request = self.engine().recv_claimed(claim, room.into()).ok()?;
        let ended = self.engine().wait(request, None)?;
        let bytes = ended.memory?.into_vec();
        Some(Stored { envelope, content: Content::Bytes(bytes) })
    }

    fn ask(&self, handler: &Unexpected, stored: Stored) {
        let envelope = stored.envelope;
        let mut state = lock(&self.state);
        let from: Addr = self.address_of(&mut state, envelope.source);
        state.in_handler = Some(std::thread::current().id());
        drop(state);
        let bytes = match &stored.content {
            Content::Bytes(bytes) => Some(&bytes[..]),
            Content::Claimed(_) => None,
        };
        let len = envelope.len.min(u32::MAX.into()) as u32;
        let is_finished = handler.is_finished(from, envelope.tag.0, len, bytes);
        let mut state = lock(&self.state);
        state.in_handler = None;
        let deferred = state.asked.take().map(|asked| asked.deferred).unwrap_or_default();
        let mut deferred = deferred.into_iter().peekable();
        if is_finished {
            if let Content::Claimed(claim) = stored.content {
                // Refused if its sender went meanwhile, and the message with it: gone either way.
                let _ = self.engine().discard(claim);
            }
        } else {
            match deferred.peek() {
                Some((_, handle, room)) => {
                    if self.deliver(&mut state, stored, *handle, room) {
                        deferred.next();
                    }
                }
                None => state.stored.push(stored),
            }
        }
        self.post_deferred(&mut state, deferred);
        drop(state);
        self.tell_sleepers();
    }

    /// Posts receives that waited for the handler's word, before any later one.
    fn post_deferred(
        &self,
        state: &mut State,
        deferred: impl IntoIterator<Item = (Criteria, Handle, Room)>,
    ) {
        for (criteria, handle, room) in deferred {
            // Refused only if the endpoint is closing: the handle is void then.
            let _ = self.post_recv(state, criteria, handle, &room);
        }
    }

    /// A message that nobody took yet, if there is one: those that the handler let be come first.
    pub(crate) fn probe(&self, criteria: &Criteria) -> Option<Ended> {
        let mut state = lock(&self.state);
        let stored = state.stored.iter().map(|stored| stored.envelope);
        let mut found = stored.into_iter().find(|envelope| fits(criteria, envelope));
        if found.is_none() && (!self.has_handler.load(Ordering::Relaxed) || state.is_full()) {
            drop(state);
            found = self.engine().probe(criteria);
            state = lock(&self.state);
        }
        let envelope = found?;
        let peer = self.address_of(&mut state, envelope.source);
        let len = envelope.len.min(u32::MAX.into()) as u32;
        let match_info = envelope.tag.0;
        Some(Ended { code: codes::SUCCESS, peer, match_info, len, placed_len: len, context: 0 })
    }

    /// Registers a handler, or none.
    pub(crate) fn set_handler(&self, handler: Option<Unexpected>) {
        let mut state = lock(&self.state);
        state.handler = handler;
        self.has_handler.store(handler.is_some(), Ordering::Relaxed);
        drop(state);
        // Whoever waits does so for other things from now on.
        self.wake_all();
    }
}
