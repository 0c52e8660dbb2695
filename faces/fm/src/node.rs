//! This node: its endpoint, the others, and what C is told when something goes wrong.

use std::collections::HashMap;
use std::ffi::{c_int, c_uint};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use packhorse::stream::Streams;
use packhorse::{Endpoint, Error, Peer};

use crate::launch;

pub(crate) const ERROR_NOT_READY: c_int = -1;
pub(crate) const ERROR_ARGUMENT: c_int = -2;
pub(crate) const ERROR_IN_HANDLER: c_int = -3;
pub(crate) const ERROR_GONE: c_int = -4;
pub(crate) const ERROR_LAUNCH: c_int = -5;

/// So long `FM_finalize` waits for what was sent.
const CLOSE_LONGEST: Duration = Duration::from_secs(30);

/// Numbers of peers.
#[derive(Clone)]
pub(crate) struct Senders(Arc<HashMap<Peer, c_uint>>);

impl Senders {
    pub(crate) fn number_of(&self, peer: Peer) -> c_uint {
        self.0.get(&peer).copied().unwrap_or(c_uint::MAX)
    }
}

/// This node.
pub(crate) struct Node {
    pub(crate) id: usize,
    pub(crate) peers: Vec<Peer>,
    pub(crate) streams: Streams,
    endpoint: Endpoint,
    senders: Senders,
    launched: Mutex<Option<launch::Launched>>,
}

impl Node {
    pub(crate) fn senders(&self) -> Senders {
        self.senders.clone()
    }

    fn open() -> Result<Self, String> {
        let endpoint = Endpoint::open().map_err(|error| error.to_string())?;
        let launched = launch::find_others(&endpoint.address())?;
        let peers: Result<Vec<Peer>, Error> =
            launched.addresses.iter().map(|address| endpoint.peer(address)).collect();
        let peers = peers.map_err(|error| error.to_string())?;
        let numbers = peers.iter().copied().zip(0..).collect();
        let (id, streams) = (launched.id, endpoint.streams());
        let senders = Senders(Arc::new(numbers));
        Ok(Self { id, peers, streams, endpoint, senders, launched: Mutex::new(Some(launched)) })
    }
}

static NODE: RwLock<Option<Node>> = RwLock::new(None);

/// Calls `f` with the node, if there is one.
pub(crate) fn with_node<R>(f: impl FnOnce(&Node) -> R) -> Option<R> {
    NODE.read().unwrap_or_else(PoisonError::into_inner).as_ref().map(f)
}

pub(crate) fn initialize() -> c_int {
    let mut node = NODE.write().unwrap_or_else(PoisonError::into_inner);
    if node.is_some() {
        return 0;
    }
    match Node::open() {
        Ok(opened) => {
            *node = Some(opened);
            0
        }
        Err(why) => {
            eprintln!("packhorse-fm: {why}");
            ERROR_LAUNCH
        }
    }
}

pub(crate) fn finalize() {
    let node = NODE.write().unwrap_or_else(PoisonError::into_inner).take();
    let Some(node) = node else { return };
    let Node { streams, endpoint, launched, .. } = node;
    streams.drain(CLOSE_LONGEST);
    drop(streams);
    endpoint.close(CLOSE_LONGEST);
    drop(launched);
}

pub(crate) fn code_of(result: Result<(), Error>) -> c_int {
    match result {
        Ok(()) => 0,
        Err(Error::InHandler) => ERROR_IN_HANDLER,
        Err(Error::Closed) => ERROR_NOT_READY,
        Err(Error::UnknownPeer) => ERROR_ARGUMENT,
        Err(_) => ERROR_GONE,
    }
}
