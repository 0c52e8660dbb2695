//! The endpoint.

use std::collections::HashMap;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use packhorse_engine::door::Door;
use packhorse_engine::{Engine, Placement, Recv, Send};
use packhorse_link::About;
use packhorse_link::mem::Memory;
use packhorse_proto::lookup::DoorCounters;
use packhorse_proto::{Address, Claim, List, PeerId, PostError, Space, Tag, Unaccepted, Use};

use crate::buffer::Buffer;
use crate::builder::Builder;
use crate::error::{Blame, Error};
use crate::left;
use crate::many::Many;
use crate::paths::{Path, tried_text};
use crate::request::{Receiving, Sending};
use crate::secret::SharedSecret;
use crate::stream::{self, Streams};
use crate::wanted::{Envelope, Wanted};

/// Pieces a request may have: what one system call takes, halved.
pub(crate) const SEGMENT_COUNT_MAX: usize = 256;

/// A peer of one endpoint; a plain value, to be copied around. One that [`Endpoint::peer`] gave stays valid, also when the peer
/// restarts, until it is forgotten ([`Endpoint::forget`]). A sender that this endpoint was never told of is forgotten some time after
/// it left (60 s after it closed, hours after it vanished), unless something is held, posted or exposed for it: its name then names
/// nobody ([`Error::UnknownPeer`]), and never another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Peer {
    pub(crate) id: PeerId,
}

/// What all handles of an endpoint share.
pub(crate) struct Shared {
    pub(crate) engine: Arc<Engine>,
    /// Where peers were first found, for errors.
    names: Mutex<HashMap<PeerId, String>>,
    streams: OnceLock<Arc<stream::Common>>,
    /// Where it is found by its number.
    pub(crate) door: Option<Door>,
    /// What it looks for others with.
    pub(crate) secret: Option<SharedSecret>,
}

impl Shared {
    pub(crate) fn name_of(&self, peer: PeerId) -> String {
        let names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        match (names.get(&peer), self.engine.identity_of(peer)) {
            (Some(name), _) => name.clone(),
            (None, Some(identity)) => {
                let locator = self.engine.first_locator_of(peer).unwrap_or_default();
                format!("peer {:016x} at {}", identity.endpoint, packhorse_link::show(&locator.0))
            }
            (None, None) => format!("peer number {}", peer.0),
        }
    }

    /// Errors call this peer so, too.
    pub(crate) fn name_more(&self, peer: PeerId, more: &str) {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(name) = names.get_mut(&peer) {
            *name = format!("{more}, {name}");
        }
    }

    /// The peer, for an error about it.
    pub(crate) fn blame(&self, peer: PeerId) -> Blame {
        let links = self.engine.links();
        let tried =
            self.engine.asked(peer).iter().filter_map(|asked| tried_text(asked, &links)).collect();
        Blame { name: self.name_of(peer), tried }
    }

    /// In a process that was forked from the one that opened the endpoint, nothing can be done with it.
    #[inline]
    pub(crate) fn check_process(&self) -> Result<(), Error> {
        if self.engine.is_here() { Ok(()) } else { Err(Error::Inherited) }
    }

    fn counters(&self) -> Vec<(String, u64)> {
        let mut counters = Vec::new();
        self.engine.each_counter(|name, value| counters.push((name.to_owned(), value)));
        if let Some(door) = &self.door {
            let DoorCounters { questions, answers, refusals, wrong_keys, malformed, dropped } =
                door.counters();
            let named = [
                ("door_questions", questions),
                ("door_answers", answers),
                ("door_refusals", refusals),
                ("door_wrong_keys", wrong_keys),
                ("door_malformed", malformed),
                ("door_dropped", dropped),
            ];
            counters.extend(named.map(|(name, value)| (name.to_owned(), value)));
        }
        counters
    }
}

/// Closes the endpoint when the last of its handles goes, if nobody did before.
struct Owner {
    shared: Arc<Shared>,
    linger: Duration,
    /// What was not accepted, once it is closed.
    closed: OnceLock<Vec<Unaccepted>>,
    counters: Option<PathBuf>,
    log: bool,
}

impl Owner {
    /// Closes, once: waits until what was sent is accepted, so long at most, then takes all memory back, whoever still holds
    /// requests or waits. What was not accepted. In a forked process it does nothing: the endpoint is the parent's.
    fn close(&self, longest: Duration) -> &[Unaccepted] {
        if !self.shared.engine.is_here() {
            return &[];
        }
        self.closed.get_or_init(|| {
            let (engine, longest) = (&self.shared.engine, longest.min(self.linger));
            let door = self.shared.door.iter();
            door.clone().for_each(Door::close);
            if let Some(streams) = self.shared.streams.get() {
                engine.drain_streams(longest);
                streams.clear();
            }
            engine.close();
            engine.wait_closed(longest);
            let unaccepted = engine.unaccepted();
            self.report(); // before the links go: they count, too
            engine.stop();
            door.for_each(Door::end);
            unaccepted
        })
    }

    fn report(&self) {
        if self.log {
            for notice in self.shared.engine.remarks() {
                eprintln!("packhorse: {notice}");
            }
        }
        if let Some(prefix) = &self.counters
            && let Err((path, error)) = left::leave(prefix, &self.shared.counters())
        {
            eprintln!("packhorse: counters to {}: {error}", path.display());
        }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        if self.shared.engine.is_here() {
            self.close(self.linger);
        } else {
            // A copy in a forked process is left as it is: another thread of the parent may have been about to change it.
            std::mem::forget(Arc::clone(&self.shared));
        }
    }
}

/// Sends and receives messages. Cheap to clone; all clones are the same endpoint.
#[derive(Clone)]
pub struct Endpoint {
    pub(crate) shared: Arc<Shared>,
    owner: Arc<Owner>,
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Endpoint").field("engine", &self.shared.engine).finish()
    }
}

/// How a message is sent, where it is not the plain way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendOptions {
    /// 64 bits beside the payload.
    pub immediate: Option<u64>,
    /// Ends only when a receive took the message (a synchronous send).
    pub until_matched: bool,
    /// Matching space, 0 to 254.
    pub space: u8,
}

impl Endpoint {
    /// An endpoint as the environment (`PACKHORSE_*`) says, or by default: UDP on a free port, a helper thread.
    pub fn open() -> Result<Self, Error> {
        Builder::new().open()
    }

    /// An endpoint that is reached from this host only.
    pub fn local() -> Result<Self, Error> {
        Builder::new().bind(std::net::Ipv4Addr::LOCALHOST).open()
    }

    /// To choose link, limits, placement and settings.
    pub fn builder() -> Builder {
        Builder::new()
    }

    pub(crate) fn new(
        engine: Arc<Engine>,
        (door, secret): (Option<Door>, Option<SharedSecret>),
        linger: Duration,
        counters: Option<PathBuf>,
        log: bool,
    ) -> Self {
        let (names, streams) = (Mutex::default(), OnceLock::new());
        let shared = Arc::new(Shared { engine, names, streams, door, secret });
        let closed = OnceLock::new();
        let owner = Arc::new(Owner { shared: Arc::clone(&shared), linger, closed, counters, log });
        Self { shared, owner }
    }

    /// The capability to send to this endpoint. Who has it may send; treat it as you treat a password.
    pub fn address(&self) -> Address {
        *self.shared.engine.address()
    }

    /// A peer by its address. Asking twice gives the same peer.
    pub fn peer(&self, address: &Address) -> Result<Peer, Error> {
        self.shared.check_process()?;
        let id = self.shared.engine.add_peer(address)?;
        let (there, here) = (address.locator.0, self.address().locator.0);
        let (there, here) = (packhorse_link::show(&there), packhorse_link::show(&here));
        let name = format!("the peer at {there} (from {here})");
        self.shared.names.lock().unwrap_or_else(PoisonError::into_inner).insert(id, name);
        Ok(Peer { id })
    }

    /// Ends what there is with a peer and forgets it. Its requests end with an error.
    pub fn forget(&self, peer: Peer) {
        self.shared.engine.forget_peer(peer.id);
        self.shared.names.lock().unwrap_or_else(PoisonError::into_inner).remove(&peer.id);
    }

    /// What errors call this peer.
    pub fn name_of(&self, peer: Peer) -> String {
        self.shared.name_of(peer.id)
    }

    /// Sends a message.
    pub fn send<B: Buffer>(&self, peer: Peer, tag: u64, buffer: B) -> Sending<B> {
        self.send_with(peer, tag, buffer, SendOptions::default())
    }

    /// Sends a message, with immediate data, until it is matched, or in another space.
    pub fn send_with<B: Buffer>(
        &self,
        peer: Peer,
        tag: u64,
        buffer: B,
        options: SendOptions,
    ) -> Sending<B> {
        let memory = buffer.into_memory();
        if let Err(error) = self.shared.check_process().and_then(|()| check_segments(&memory)) {
            return Sending::refused(error, Some(memory));
        }
        match self.shared.engine.send(spec(peer, tag, options), memory) {
            Ok(id) => Sending::open(&self.shared, id),
            Err(refused) => Sending::refused(refused.error.into(), refused.memory),
        }
    }

    /// Sends a copy of a short message: nothing to wait for, the bytes are free on return. If the peers have not accepted
    /// what was copied before, this waits for them.
    pub fn send_copy(&self, peer: Peer, tag: u64, bytes: &[u8]) -> Result<(), Error> {
        self.send_copy_with(peer, tag, bytes, SendOptions::default())
    }

    /// Sends a copy of a short message, with options; `until_matched` has no effect.
    pub fn send_copy_with(
        &self,
        peer: Peer,
        tag: u64,
        bytes: &[u8],
        options: SendOptions,
    ) -> Result<(), Error> {
        self.shared.check_process()?;
        loop {
            match self.shared.engine.send_copied(spec(peer, tag, options), bytes) {
                Ok(()) => return Ok(()),
                // Accepted messages make room; turning the engine is how they come to be known.
                Err(PostError::PoolFull) => {
                    if self.shared.engine.turn() == 0 {
                        std::thread::yield_now();
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Receives a message into this buffer. One that is longer ends with [`Error::Truncated`].
    pub fn recv<B: Buffer>(&self, wanted: Wanted, buffer: B) -> Receiving<B> {
        let memory = buffer.into_memory();
        let checked = self.shared.check_process().and_then(|()| check_segments(&memory));
        if let Err(error) = checked.and_then(|()| check_writable(&memory)) {
            return Receiving::refused(error, Some(memory));
        }
        match self.shared.engine.recv(once(wanted), memory) {
            Ok(id) => Receiving::open(&self.shared, id),
            Err(refused) => Receiving::refused(refused.error.into(), refused.memory),
        }
    }

    /// Receives many messages into one buffer, one behind the other, until less than `free_len_min` bytes are free.
    pub fn recv_many(
        &self,
        wanted: Wanted,
        buffer: Vec<u8>,
        free_len_min: u64,
    ) -> Result<Many, Error> {
        self.shared.check_process()?;
        let recv = Recv { uses: Use::Many { free_len_min }, ..once(wanted) };
        match self.shared.engine.recv(recv, buffer.into()) {
            Ok(id) => Ok(Many::new(&self.shared, id)),
            Err(refused) => Err(refused.error.into()),
        }
    }

    /// The next message that no receive has taken, without taking it.
    pub fn probe(&self, wanted: Wanted) -> Option<Envelope> {
        self.shared.engine.probe(&wanted.criteria).map(Into::into)
    }

    /// Takes such a message aside: from now on only this claim can receive it.
    pub fn claim(&self, wanted: Wanted) -> Option<Claimed> {
        let (claim, envelope) = self.shared.engine.claim(&wanted.criteria)?;
        let shared = Arc::clone(&self.shared);
        Some(Claimed { shared, claim: Some(claim), envelope: envelope.into() })
    }

    /// Messages piece by piece, taken apart by handlers ([`stream`]).
    pub fn streams(&self) -> Streams {
        let engine = &self.shared.engine;
        let common =
            self.shared.streams.get_or_init(|| Arc::new(stream::Common::new(Arc::clone(engine))));
        Streams::new(self.clone(), Arc::clone(common))
    }

    /// Gives the endpoint some time: for [`Placement::Inline`] while computing. Returns how much it did.
    pub fn turn(&self) -> usize {
        self.shared.engine.turn()
    }

    /// Who turns it when nobody waits.
    pub fn placement(&self) -> Placement {
        self.shared.engine.placement()
    }

    /// Changes that: starts or resumes the helper thread, or lets it pause. Peers were told at first contact whether there was
    /// one, and give an endpoint that had less time to answer ([`Builder::gone_after`]): do not pause it for long.
    pub fn set_placement(&self, placement: Placement) -> Result<(), Error> {
        let what = "starting the helper thread";
        self.shared.engine.set_placement(placement).map_err(|error| Error::System { what, error })
    }

    /// For event loops (`poll`, `epoll`): readable when a request has ended; without a helper also when the endpoint should be
    /// turned. Only after [`arm`](Self::arm), once for each time.
    pub fn wake_fd(&self) -> BorrowedFd<'_> {
        self.shared.engine.wake_fd()
    }

    /// Before each sleep on [`wake_fd`](Self::wake_fd). False: something may have happened already, so test first. Requests must
    /// be tested *after* it said true, too, for one may have ended just before:
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use packhorse::{Endpoint, Wanted};
    /// # let (a, b) = (Endpoint::local()?, Endpoint::local()?);
    /// # let to_b = a.peer(&b.address())?;
    /// # a.send_copy(to_b, 1, b"hello")?;
    /// let mut coming = b.recv(Wanted::tag(1), vec![0; 10]);
    /// let message = loop {
    ///     let is_armed = b.arm();
    ///     match coming.test() {
    ///         Some(message) => break message?,
    ///         None if is_armed => { /* sleep until b.wake_fd() is readable */ }
    ///         None => {}
    ///     }
    /// };
    /// # assert_eq!(message.buffer, b"hello");
    /// # Ok(())
    /// # }
    /// ```
    pub fn arm(&self) -> bool {
        self.shared.engine.arm()
    }

    /// Counters by name: the protocol's, the engine's, the links'.
    pub fn counters(&self) -> Vec<(String, u64)> {
        self.shared.counters()
    }

    /// Counters by name, as a JSON object.
    pub fn counters_json(&self) -> String {
        left::json(&self.shared.counters())
    }

    /// What a person should know of its links: an offload that was switched off, a capture that ended. A bounded log.
    pub fn notices(&self) -> Vec<String> {
        self.shared.engine.remarks()
    }

    /// The pairs of links and places that lead to a peer, and those that do not, with reasons. Before contact was made there
    /// are none.
    pub fn paths(&self, peer: Peer) -> Vec<Path> {
        let (tried, rejected) = self.shared.engine.paths(peer.id);
        let links = self.shared.engine.links();
        let tried = tried.iter().map(|info| Path::tried(info, &links));
        tried.chain(rejected.iter().map(|it| Path::rejected(it, &links))).collect()
    }

    /// What its links say of themselves.
    pub fn about_links(&self) -> Vec<About> {
        self.shared.engine.about_links()
    }

    /// Closes, for all its clones: waits until what was sent is accepted, so long at most. True if all was. Pending receives
    /// end with [`Error::Closed`] at once, sends when the time is over.
    pub fn close(self, longest: Duration) -> bool {
        self.owner.close(longest).is_empty()
    }

    /// Closes, for a caller that cannot give up the handle (`raw`): waits for as long as the endpoint lingers. What was not accepted.
    pub(crate) fn close_in_place(&self) -> &[Unaccepted] {
        self.owner.close(self.owner.linger)
    }
}

pub(crate) fn spec(peer: Peer, tag: u64, options: SendOptions) -> Send {
    let SendOptions { immediate, until_matched, space } = options;
    Send { peer: peer.id, space: Space(space), tag: Tag(tag), immediate, until_matched }
}

pub(crate) fn once(wanted: Wanted) -> Recv {
    Recv { criteria: wanted.criteria, list: List::Priority, uses: Use::Once, header_only: false }
}

pub(crate) fn check_segments(memory: &Memory) -> Result<(), Error> {
    let count = memory.segment_count();
    if count <= SEGMENT_COUNT_MAX {
        Ok(())
    } else {
        Err(Error::TooManySegments { count, count_max: SEGMENT_COUNT_MAX })
    }
}

pub(crate) fn check_writable(memory: &Memory) -> Result<(), Error> {
    if memory.is_writable() { Ok(()) } else { Err(Error::ReadOnly) }
}

/// A message set aside by [`Endpoint::claim`]. Dropped, it is thrown away.
pub struct Claimed {
    shared: Arc<Shared>,
    claim: Option<Claim>,
    /// What it says of itself: its length tells how long a buffer must be.
    pub envelope: Envelope,
}

impl std::fmt::Debug for Claimed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Claimed").field(&self.envelope).finish()
    }
}

impl Claimed {
    /// Receives it.
    pub fn recv<B: Buffer>(mut self, buffer: B) -> Receiving<B> {
        let memory = buffer.into_memory();
        if let Err(error) = check_segments(&memory).and_then(|()| check_writable(&memory)) {
            return Receiving::refused(error, Some(memory));
        }
        let Some(claim) = self.claim.take() else {
            return Receiving::refused(Error::Closed, Some(memory));
        };
        match self.shared.engine.recv_claimed(claim, memory) {
            Ok(id) => Receiving::open(&self.shared, id),
            Err(refused) => Receiving::refused(refused.error.into(), refused.memory),
        }
    }
}

impl Drop for Claimed {
    fn drop(&mut self) {
        if let Some(claim) = self.claim.take() {
            // Its association may have ended meanwhile, and the message with it.
            let _ = self.shared.engine.discard(claim);
        }
    }
}
