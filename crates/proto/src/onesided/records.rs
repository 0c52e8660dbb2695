//! What one-sided operations are made of, at both ends.

use crate::base::seeded::Seeded;
use crate::base::slab::Slab;
use crate::bulk::outgoing::Bytes;
use crate::wire::OutcomeRepr;
use crate::{AtomicOp, BufId, Datatype, Failure, PeerId};
use alloc::vec::Vec;
use hashbrown::HashMap;

/// Memory of a peer: where in which of its regions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remote {
    /// Whose.
    pub peer: PeerId,
    /// Which region.
    pub key: u64,
    /// Where in it.
    pub offset: u64,
}

/// What an operation does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Deed {
    Put { bytes: Bytes, immediate: Option<u64> },
    Get { buf: BufId },
    Atomic { op: AtomicOp, datatype: Datatype, pool: u32, pool_len: u16, result: Option<BufId> },
}

/// An operation that is not over.
#[derive(Debug)]
pub(crate) struct Operation {
    pub(crate) deed: Deed,
    pub(crate) to: Remote,
    pub(crate) total: u64,
    pub(crate) user: u64,
    /// Bytes of a put that requests have been made of.
    pub(crate) cut_len: u64,
    /// Requests are made of all of it, or no more will be.
    pub(crate) is_cut: bool,
    /// Requests that are not answered.
    pub(crate) open_count: u32,
    pub(crate) failure: Option<Failure>,
    /// Of Portals: what it is there, else NONE.
    pub(crate) launch: u32,
    /// Where in its memory it begins.
    pub(crate) base: u64,
}

impl Operation {
    /// The bytes of a put.
    pub(crate) fn bytes(&self) -> Option<Bytes> {
        match self.deed {
            Deed::Put { bytes, .. } => Some(bytes),
            _ => None,
        }
    }
}

/// In which form a request goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// All bytes of a put.
    Whole,
    /// Some of them.
    Part,
    /// Only the question whether they may come.
    Ask,
    /// A get or an atomic operation.
    Other,
}

/// A request that is not answered.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) operation: u32,
    pub(crate) row: u32,
    pub(crate) number: u64,
    pub(crate) offset: u64,
    pub(crate) len: u32,
    pub(crate) form: Form,
    /// Of much data: the supply that sends it (put) or the arrival that takes it (get), or NONE.
    pub(crate) transfer: u32,
}

/// An answer that is more than "done".
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) row: u32,
    pub(crate) number: u32,
    pub(crate) status: u8,
    /// Its bytes, in `Onesided::results`, or NONE.
    pub(crate) result: u32,
    pub(crate) len: u16,
    /// Of a request of Portals.
    pub(crate) outcome: Option<OutcomeRepr>,
}

/// The regions of an endpoint.
#[derive(Debug)]
pub(crate) struct Regions {
    pub(crate) regions: Slab<RegionSpec>,
    pub(crate) by_key: HashMap<u64, u32, Seeded>,
}

impl Regions {
    pub(crate) fn new(seed: u64) -> Self {
        Self { regions: Slab::default(), by_key: HashMap::with_hasher(Seeded(seed)) }
    }
}

/// What peers may do with a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Get, and atomic operations that fetch.
    pub read: bool,
    /// Put, and atomic operations that change something.
    pub write: bool,
}

impl Access {
    /// Everything.
    pub const ALL: Self = Self { read: true, write: true };
    /// Get only.
    pub const READ: Self = Self { read: true, write: false };
    /// Put only, and atomic operations that fetch nothing.
    pub const WRITE: Self = Self { read: false, write: true };

    pub(crate) fn admits(self, wanted: Self) -> bool {
        (self.read || !wanted.read) && (self.write || !wanted.write)
    }
}

/// The peers that may use a region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Permitted {
    /// Every peer: who has the endpoint's address. Where that is given to whoever asks (`Settings::is_found`,
    /// `Settings::open_to_strangers`) only those that the application has named (PROTOCOL §3.20).
    Any,
    /// Peers that the application has named (`Endpoint::add_peer`), now or later; known by their secret (PROTOCOL §3.2).
    Named,
    /// These.
    Only(Vec<PeerId>),
    /// Every peer, also where the endpoint's address is given to whoever asks.
    Everybody,
}

/// Memory to expose.
#[derive(Clone, Debug)]
pub struct RegionSpec {
    /// Its name among peers.
    pub key: u64,
    /// The memory.
    pub buf: BufId,
    /// Its length.
    pub len: u64,
    /// What peers may do with it.
    pub access: Access,
    /// Which peers.
    pub permitted: Permitted,
    /// Returned in events.
    pub user: u64,
    /// All that peers do with it is told (`Event::Used`), not only puts with an immediate. Nothing is held back for that: it is for who counts.
    pub tells_all: bool,
}
