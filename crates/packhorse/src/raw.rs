//! For who builds another interface on top: the engine's own words, without the comfort.
//!
//! Faces (libraries with somebody else's API) need more than [`Endpoint`] shows: memory that stays the caller's,
//! matching spaces, overflow lists, entries used many times, completion queues with a context of their own. They open an
//! endpoint as everybody does, keep it, and speak to its [`engine`], of which they see what they need ([`Engine`]):
//!
//! ```
//! use packhorse::{Endpoint, raw};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let endpoint = Endpoint::local()?;
//! let mut queue = raw::engine(&endpoint).completions(1024);
//! let peer = raw::peer_id(endpoint.peer(&endpoint.address())?);
//! let send = raw::Send { peer, space: raw::Space(0), tag: raw::Tag(1), immediate: None, until_matched: false };
//! let notify = raw::Notify { queue: queue.id(), context: 42, only_errors: false };
//! raw::engine(&endpoint).send_queued(notify, send, vec![1; 8].into()).map_err(|refused| format!("{refused:?}"))?;
//! queue.wait(None);
//! assert_eq!(queue.poll().map(|entry| (entry.context, entry.kind)), Some((42, raw::Kind::Sent)));
//! # Ok(())
//! # }
//! ```
//!
//! [`Memory`] is made from a `Vec`, an `Arc<[u8]>`, a list of `Vec`s, or, by the one `unsafe` function a face needs, from the
//! caller's pointers ([`Memory::borrowed`]): they must stay valid until the entry with `is_last` was read, or the engine ended.

pub use packhorse_engine::{
    Atomic, Completions, Entry, Exposure, Kind, Notify, Put, Recv, Send, Trouble, Watcher,
    set_long_numbers,
};
pub use packhorse_link::mem::{Memory, is_there};
pub use packhorse_link::{Interface, interfaces, ticks, with_signals_blocked};
pub use packhorse_proto::wire::TOTAL_MAX as MESSAGE_LEN_MAX;
pub use packhorse_proto::{
    Access, AtomicOp, BufId, Claim, Criteria, Datatype, Denial, Envelope, ExposeError, Failure,
    GoneReason, List, PeerId, Permitted, PostError, RegionId, Remote, Space, Tag, Unaccepted, Use,
    atomic_len_max,
};

pub use packhorse_proto::portals;
pub use shown::Engine;

use crate::endpoint::{Endpoint, Peer};

mod shown;

/// The engine of an endpoint, as far as another interface needs it.
pub fn engine(endpoint: &Endpoint) -> Engine<'_> {
    Engine(&endpoint.shared.engine)
}

/// Closes an endpoint whose handles go later, as [`Endpoint::close`] does: waits for as long as the endpoint lingers until what was sent
/// is accepted. On return no byte of the application's memory is read or written any more, whatever was posted or exposed, and
/// whoever waits for a queue or a request of it has been woken. What was not accepted; nothing, if all was.
pub fn close(endpoint: &Endpoint) -> &[Unaccepted] {
    endpoint.close_in_place()
}

/// The engine's name of a peer.
pub fn peer_id(peer: Peer) -> PeerId {
    peer.id
}

/// A peer by the engine's name.
pub fn peer(id: PeerId) -> Peer {
    Peer { id }
}
