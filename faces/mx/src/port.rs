//! An endpoint of MX: posts, cancels, and what it keeps beside the engine.
//!
//! ```text
//!   mx_isend, mx_irecv … ──▶ Request in `requests`, its handle as context ──▶ engine ──▶ Completions ──▶ on_entry ──▶ list of ended ones
//! ```
//!
//! Matching, order and repair are the engine's. How calls make progress and wait is in `waiting`, the handler of unexpected messages in
//! `unexpected`, connections in `connect`.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::ThreadId;

use packhorse::raw::{
    Completions, Criteria, Engine, Entry, Failure, Kind as EntryKind, List, Memory, Notify, PeerId,
    PostError, Recv, Send, Space, Tag, Trouble, Use,
};
use packhorse::{Endpoint, raw};

use crate::abi::{Addr, ErrorHandler};
use crate::address::{self, Mark};
use crate::calls::{self, Api, Unexpected};
use crate::codes::{self, Code};
use crate::connect::Target;
use crate::memory::Room;
use crate::requests::{Ended, Handle, Kind, Phase, Request, Requests};
use crate::unexpected::{Asked, Stored};

/// The context of an entry that only wakes.
const WAKE: u64 = 0;
/// The context of entries about messages that were complete when they were posted.
const LOST: u64 = u64::MAX;
/// Entries the engine's ring has room for; beyond it asking costs a little more.
const RING_LEN: usize = 1024;
/// The matching space of MX.
pub(crate) const SPACE: Space = Space(0);
/// What is beside a message whose sender wants to hear of its matching: the handler sees no bytes of such.
const ANNOUNCED: u64 = 1;

/// An open endpoint.
pub(crate) struct Port {
    /// By which its addresses are known from those of others.
    pub(crate) mark: Mark,
    pub(crate) board: u32,
    /// Bits of the match information that no receive may leave open.
    pub(crate) context_mask: u64,
    copy_len_max: u32,
    own: Addr,
    error_handler: Mutex<Option<ErrorHandler>>,
    pub(crate) state: Mutex<State>,
    pub(crate) completions: Mutex<Completions>,
    /// With `state`: something ended, or whoever drove has left.
    pub(crate) changed: Condvar,
    /// Threads that sleep on it.
    pub(crate) sleeper_count: AtomicU32,
    /// How often `mx_wakeup` was called.
    pub(crate) wakes: AtomicU64,
    /// Threads in blocking calls.
    pub(crate) waiter_count: AtomicU32,
    /// Nobody makes progress: the application said so.
    pub(crate) is_frozen: AtomicBool,
    pub(crate) is_closing: AtomicBool,
    pub(crate) has_handler: AtomicBool,
    /// A connection led to another life of a peer: addresses of the one before lead there, too.
    has_renewed: AtomicBool,
    notify: Notify,
    pub(crate) endpoint: Endpoint,
}

/// What changes.
pub(crate) struct State {
    pub(crate) requests: Requests,
    /// What peers are known as.
    words: HashMap<PeerId, u64>,
    /// The application's word on each peer, by its board and index: a peer that was restarted is the same peer.
    contexts: HashMap<u64, usize>,
    /// Whom the last connection to a board and index led to.
    lives: HashMap<u64, PeerId>,
    pub(crate) handler: Option<Unexpected>,
    /// The thread that is in the handler.
    pub(crate) in_handler: Option<ThreadId>,
    /// The message that the handler is asked about.
    pub(crate) asked: Option<Asked>,
    /// Messages that the handler let be, oldest first.
    pub(crate) stored: Vec<Stored>,
    /// Threads that ask for connections, and connections that wait for one of them.
    pub(crate) asker_count: u32,
    pub(crate) unasked: VecDeque<(Handle, Target)>,
    /// What failed of that which nobody waits for, until a call of the application's tells the error handler.
    pub(crate) failed: Vec<Code>,
}

/// What an endpoint is opened with.
pub(crate) struct Opening {
    pub(crate) board: u32,
    pub(crate) word: u64,
    pub(crate) context_mask: u64,
    pub(crate) copy_len_max: u32,
    pub(crate) error_handler: Option<ErrorHandler>,
}

pub(crate) use packhorse_common::lock;

impl Port {
    pub(crate) fn new(
        endpoint: Endpoint,
        opening: &Opening,
        (place, serial): (u8, u32),
    ) -> Result<Arc<Self>, Code> {
        let own = endpoint.peer(&endpoint.address()).map_err(|_| codes::NO_RESOURCES)?;
        let mark = Mark::new(place, serial);
        let own = address::new(opening.word, mark, raw::peer_id(own));
        let completions = raw::engine(&endpoint).completions(RING_LEN);
        let notify = Notify { queue: completions.id(), context: WAKE, only_errors: false };
        raw::engine(&endpoint).tell_lost(Notify { context: LOST, ..notify });
        let state = State {
            requests: Requests::new(place, serial),
            words: HashMap::from([(address::peer(&own), opening.word)]),
            contexts: HashMap::new(),
            lives: HashMap::new(),
            handler: None,
            in_handler: None,
            asked: None,
            stored: Vec::new(),
            asker_count: 0,
            unasked: VecDeque::new(),
            failed: Vec::new(),
        };
        Ok(Arc::new(Self {
            mark,
            board: opening.board,
            context_mask: opening.context_mask,
            copy_len_max: opening.copy_len_max,
            own,
            error_handler: Mutex::new(opening.error_handler),
            state: Mutex::new(state),
            completions: Mutex::new(completions),
            changed: Condvar::new(),
            sleeper_count: AtomicU32::new(0),
            wakes: AtomicU64::new(0),
            waiter_count: AtomicU32::new(0),
            is_frozen: AtomicBool::new(false),
            is_closing: AtomicBool::new(false),
            has_handler: AtomicBool::new(false),
            has_renewed: AtomicBool::new(false),
            notify,
            endpoint,
        }))
    }

    pub(crate) fn engine(&self) -> Engine<'_> {
        raw::engine(&self.endpoint)
    }

    pub(crate) fn notify(&self, handle: Handle) -> Notify {
        Notify { context: handle, ..self.notify }
    }

    pub(crate) fn own_address(&self) -> Addr {
        self.own
    }

    pub(crate) fn error_handler(&self) -> Option<ErrorHandler> {
        *lock(&self.error_handler)
    }

    pub(crate) fn set_error_handler(&self, handler: Option<ErrorHandler>) -> Option<ErrorHandler> {
        std::mem::replace(&mut *lock(&self.error_handler), handler)
    }

    /// The peer that an address of this endpoint names: the life of it that the program connected to last.
    fn peer(&self, to: &Addr) -> Result<PeerId, Code> {
        if Mark::of(to) != self.mark {
            return Err(codes::BAD_ENDPOINT_ID);
        }
        let renewed = match self.has_renewed.load(Ordering::Relaxed) {
            true => lock(&self.state).lives.get(&address::place(to)).copied(),
            false => None,
        };
        Ok(renewed.unwrap_or(address::peer(to)))
    }

    /// The program connected to this life of a peer. Not so one that introduced itself: whoever has the key can say that it is that peer.
    pub(crate) fn on_connected(&self, to: &Addr) {
        let peer = address::peer(to);
        let before = lock(&self.state).lives.insert(address::place(to), peer);
        if before.is_some_and(|before| before != peer) {
            self.has_renewed.store(true, Ordering::Relaxed);
        }
    }

    /// Sends a message. Without `is_told` the request is forgotten at once, and there is no handle.
    pub(crate) fn send(
        &self,
        room: &Room,
        (to, info): (Addr, u64),
        context: usize,
        is_synchronous: bool,
        is_told: bool,
    ) -> Result<Handle, Code> {
        let len = room.len();
        let until_matched = is_synchronous || len > self.copy_len_max;
        let immediate = until_matched.then_some(ANNOUNCED);
        let peer = self.peer(&to)?;
        let send = Send { peer, space: SPACE, tag: Tag(info), immediate, until_matched };
        let ended = Ended {
            code: codes::SUCCESS,
            peer: to,
            match_info: info,
            len,
            // Told by its receiver, if the end waits for that.
            placed_len: if until_matched { 0 } else { len },
            context,
        };
        if !until_matched && self.send_copy(send, room, is_told)? {
            return Ok(if is_told { self.insert_done(Kind::Send, ended) } else { 0 });
        }
        let phase = if is_told { Phase::Pending } else { Phase::Forgotten };
        let handle = self.insert(Kind::Send, ended, phase);
        self.post(handle, |engine, notify| {
            engine.send_queued(notify, send, room.memory(false)).map_err(|refused| refused.error)
        })
    }

    /// Sends a copy, with which the send is complete. False: peers have not accepted what was copied before, so that this one has to
    /// wait for them where it is. Not so one that nobody is told of (`may_wait`): nobody could learn when its memory is free again.
    fn send_copy(&self, send: Send, room: &Room, may_wait: bool) -> Result<bool, Code> {
        let bytes = room.bytes();
        match self.engine().send_copied(send, &bytes) {
            Ok(()) => Ok(true),
            Err(PostError::PoolFull) if may_wait => Ok(false),
            // Longer than what this path carries without announcement, too: announced, from memory of its own.
            Err(PostError::TooLong { .. } | PostError::PoolFull) => {
                let notify = Notify { context: LOST, only_errors: true, ..self.notify };
                let sent =
                    self.engine().send_queued(notify, send, Memory::from(bytes.into_owned()));
                sent.map(|()| true).map_err(|refused| codes::of_refusal(refused.error))
            }
            Err(error) => Err(codes::of_refusal(error)),
        }
    }

    /// Enters a request and posts it; takes it back if that is refused.
    fn post(
        &self,
        handle: Handle,
        post: impl FnOnce(Engine<'_>, Notify) -> Result<(), PostError>,
    ) -> Result<Handle, Code> {
        post(self.engine(), self.notify(handle)).map(|()| handle).map_err(|error| {
            lock(&self.state).requests.remove(handle);
            codes::of_refusal(error)
        })
    }

    pub(crate) fn insert(&self, kind: Kind, ended: Ended, phase: Phase) -> Handle {
        let (is_buffered, is_hidden) = (phase == Phase::Done, false);
        let request = Request { kind, ended, phase, is_buffered, is_hidden };
        lock(&self.state).requests.insert(request)
    }

    /// A request that has ended with its post. Who waits for any is told.
    fn insert_done(&self, kind: Kind, ended: Ended) -> Handle {
        let handle = self.insert(kind, ended, Phase::Done);
        if self.waiter_count.load(Ordering::Relaxed) > 0 {
            self.wake_all();
        }
        handle
    }

    /// Checks what a receive or a look for messages asks for.
    pub(crate) fn check_mask(&self, info: u64, mask: u64) -> Result<Criteria, Code> {
        if info & !mask != 0 {
            return Err(codes::BAD_MATCH_MASK);
        }
        Ok(Criteria { space: SPACE, tag: Tag(info), ignore: !mask, source: None })
    }

    /// Receives a message.
    pub(crate) fn recv(
        &self,
        room: Room,
        (info, mask): (u64, u64),
        context: usize,
        is_told: bool,
    ) -> Result<Handle, Code> {
        let criteria = self.check_mask(info, mask)?;
        if self.context_mask & !mask != 0 {
            return Err(codes::BAD_MATCHING_FOR_CONTEXT_ID_MASK);
        }
        let peer = Addr::default();
        let ended =
            Ended { code: codes::SUCCESS, peer, match_info: info, len: 0, placed_len: 0, context };
        let phase = if is_told { Phase::Pending } else { Phase::Forgotten };
        let mut state = lock(&self.state);
        let (is_buffered, is_hidden) = (false, false);
        let request = Request { kind: Kind::Recv, ended, phase, is_buffered, is_hidden };
        let handle = state.requests.insert(request);
        // Mostly there are none, and nobody is in the handler.
        if (state.asked.is_some() || !state.stored.is_empty())
            && self.match_stored(&mut state, &criteria, handle, &room)
        {
            return Ok(handle);
        }
        let Some(room) = state.defer((criteria, handle, room)) else { return Ok(handle) };
        self.post_recv(&mut state, criteria, handle, &room)
    }

    /// Posts a receive to the engine. With the state in hand: between the look at what is kept here and the post nobody may take a
    /// message from the engine to ask the handler about it, or a later message would come before that one.
    pub(crate) fn post_recv(
        &self,
        state: &mut State,
        criteria: Criteria,
        handle: Handle,
        room: &Room,
    ) -> Result<Handle, Code> {
        let recv = Recv { criteria, list: List::Priority, uses: Use::Once, header_only: false };
        let posted = self.engine().recv_queued(self.notify(handle), recv, room.memory(true));
        posted.map(|()| handle).map_err(|refused| {
            state.requests.remove(handle);
            codes::of_refusal(refused.error)
        })
    }

    /// Takes all that ended from the engine. Who has let go of the completions tells what failed (`tell_failed`).
    pub(crate) fn take_entries(&self, completions: &mut Completions) {
        let mut state = lock(&self.state);
        completions.drain(|entry| {
            let failed = self.on_entry(&mut state, entry);
            state.failed.extend(failed);
        });
    }

    /// Tells the error handler what failed of that which nobody waits for. With no lock in hand: the handler may call what it likes.
    pub(crate) fn tell_failed(&self) {
        let failed = std::mem::take(&mut lock(&self.state).failed);
        for code in failed {
            calls::report(self.error_handler(), Api::Mx, c"a request that nobody waits for", code);
        }
    }

    fn on_entry(&self, state: &mut State, entry: &Entry) -> Option<Code> {
        let trouble = entry.result.err();
        if entry.has_memory {
            drop(self.engine().take_memory(entry.request)); // a copy of ours, which nobody wants back
        }
        match entry.context {
            WAKE => return None,
            // What a peer left behind that went its way is no failure: programs end so.
            LOST => {
                let is_gone = matches!(trouble, Some(Trouble::Failed(Failure::Gone(_))));
                return trouble.filter(|_| is_gone).map(codes::of_trouble);
            }
            _ => {}
        }
        let handle = entry.context;
        let Request { kind, ended, phase, .. } = *state.requests.get_mut(handle)?;
        let ended = match (kind, entry.kind) {
            (Kind::Recv, EntryKind::Received) => self.received(state, ended, entry),
            (Kind::Send, EntryKind::Sent) => sent(ended, entry),
            _ => Ended { code: trouble.map_or(codes::SUCCESS, codes::of_trouble), ..ended },
        };
        self.end(state, handle, phase, ended)
    }

    fn received(&self, state: &mut State, posted: Ended, entry: &Entry) -> Ended {
        let is_cut = entry.placed_len < entry.len;
        let code = match entry.result.err() {
            Some(trouble) => codes::of_trouble(trouble),
            None if is_cut => codes::TRUNCATED,
            None => codes::SUCCESS,
        };
        Ended {
            code,
            peer: entry.peer.map_or(posted.peer, |peer| self.address_of(state, peer)),
            match_info: entry.tag.0,
            len: entry.len.min(u32::MAX.into()) as u32,
            placed_len: entry.placed_len.min(u32::MAX.into()) as u32,
            ..posted
        }
    }

    /// A request ended. What is to be told of it, if nobody asks for it any more.
    pub(crate) fn end(
        &self,
        state: &mut State,
        handle: Handle,
        phase: Phase,
        mut ended: Ended,
    ) -> Option<Code> {
        if !matches!(ended.code, codes::SUCCESS | codes::TRUNCATED) {
            ended.placed_len = 0;
        }
        match phase {
            Phase::Cancelled => {
                state.requests.remove(handle);
                None
            }
            Phase::Forgotten => {
                state.requests.remove(handle);
                (ended.code != codes::SUCCESS).then_some(ended.code)
            }
            Phase::Pending | Phase::Done => {
                state.requests.on_end(handle, ended);
                None
            }
        }
    }

    /// The address of a peer by the engine's name.
    pub(crate) fn address_of(&self, state: &mut State, peer: PeerId) -> Addr {
        let word = *state.words.entry(peer).or_insert_with(|| {
            self.engine().identity_of(peer).map_or(0, |identity| identity.endpoint)
        });
        address::new(word, self.mark, peer)
    }

    /// Takes back a receive that no message was bound to, or a connection that is not made. Whether it was taken back. With
    /// `is_reported` its end is told, as cancelled.
    pub(crate) fn cancel(&self, handle: Handle, is_reported: bool) -> Result<bool, Code> {
        let mut state = lock(&self.state);
        let request = *state.requests.get(handle).ok_or(codes::BAD_REQUEST)?;
        match (request.kind, request.phase) {
            (Kind::Send, _) => return Err(codes::BAD_REQUEST),
            (_, Phase::Done) => return Ok(false),
            (Kind::Connect, _) => {
                self.end_here(&mut state, handle, is_reported);
                return Ok(true);
            }
            (Kind::Recv, _) => {}
        }
        if state.take_deferred(handle) {
            self.end_here(&mut state, handle, is_reported);
            return Ok(true);
        }
        drop(state);
        if !self.engine().cancel_unbound_queued(self.notify.queue, handle) {
            return Ok(false);
        }
        // Its end is in the queue already, or about to be; nobody who reads that finds the request pending.
        let mut state = lock(&self.state);
        if let Some(request) = state.requests.get_mut(handle).filter(|_| !is_reported) {
            match request.phase {
                Phase::Done => drop(state.requests.remove(handle)),
                _ => request.phase = Phase::Cancelled,
            }
        }
        Ok(true)
    }

    /// Ends a request that the engine does not know as cancelled.
    fn end_here(&self, state: &mut State, handle: Handle, is_reported: bool) {
        let Some(request) = state.requests.get(handle) else { return };
        let ended = Ended { code: codes::CANCELLED, ..request.ended };
        match is_reported {
            true => state.requests.on_end(handle, ended),
            false => drop(state.requests.remove(handle)),
        }
    }

    /// Nobody will ask for this request; it goes on.
    pub(crate) fn forget(&self, handle: Handle) -> Result<(), Code> {
        let mut state = lock(&self.state);
        let phase = state.requests.get(handle).ok_or(codes::BAD_REQUEST)?.phase;
        match (phase, state.requests.get_mut(handle)) {
            (Phase::Done, _) => drop(state.requests.remove(handle)),
            (_, Some(request)) => request.phase = Phase::Forgotten,
            (_, None) => {}
        }
        Ok(())
    }

    /// Whether the bytes of a send are the application's again.
    pub(crate) fn is_buffered(&self, handle: Handle) -> Result<bool, Code> {
        let state = lock(&self.state);
        let request = state.requests.get(handle).ok_or(codes::BAD_REQUEST)?;
        if request.kind == Kind::Send { Ok(request.is_buffered) } else { Err(codes::BAD_REQUEST) }
    }

    pub(crate) fn context_of(&self, handle: Handle) -> Result<usize, Code> {
        let state = lock(&self.state);
        state.requests.get(handle).map(|request| request.ended.context).ok_or(codes::BAD_REQUEST)
    }

    /// Ends all there is with a peer, here only: the peer is not told.
    pub(crate) fn disconnect(&self, from: Addr) -> Result<(), Code> {
        let peer = self.peer(&from)?;
        if peer == address::peer(&self.own) {
            return Ok(());
        }
        let mut state = lock(&self.state);
        state.words.remove(&peer);
        state.contexts.remove(&address::place(&from));
        state.lives.remove(&address::place(&from));
        state.drop_stored_of(peer);
        drop(state);
        self.endpoint.forget(raw::peer(peer));
        Ok(())
    }

    pub(crate) fn set_peer_context(&self, of: &Addr, context: usize) -> Result<(), Code> {
        self.peer(of)?;
        lock(&self.state).contexts.insert(address::place(of), context);
        Ok(())
    }

    pub(crate) fn peer_context(&self, of: &Addr) -> Result<usize, Code> {
        self.peer(of)?;
        Ok(lock(&self.state).contexts.get(&address::place(of)).copied().unwrap_or(0))
    }
}

/// How a send ended: cut short if its receiver took less. Of an eager one nobody says that.
fn sent(posted: Ended, entry: &Entry) -> Ended {
    let placed_len = posted.placed_len.max(entry.placed_len.min(u32::MAX.into()) as u32);
    let code = match entry.result.err() {
        Some(trouble) => codes::of_trouble(trouble),
        None if placed_len < posted.len => codes::TRUNCATED,
        None => codes::SUCCESS,
    };
    Ended { code, placed_len, ..posted }
}
