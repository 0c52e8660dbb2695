//! Memory exposed to peers, as the engine knows it: who is told of what they do with it.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;

use packhorse_link::mem::MemoryId;
use packhorse_proto::{PeerId, RegionId};

use crate::entry::Kind;
use crate::names::Notify;

/// A peer wrote to a region, with an immediate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Who.
    pub peer: PeerId,
    /// Where in the region.
    pub offset: u64,
    /// How many bytes; they are there.
    pub len: u64,
    /// 64 bits beside them.
    pub immediate: u64,
}

/// Who is told of all that peers do with a region, once it is done: of puts (`Kind::Written`), of gets and atomic operations that only
/// read (`Kind::Got`), of other atomic operations (`Kind::Atomic`). It is called by whoever turns the engine, with the engine in hand: it may
/// count, and call nothing of the engine. Who waits for a queue looks up when it was.
#[derive(Clone)]
pub struct Watcher(pub Arc<dyn Fn(Kind) + Send + Sync>);

impl fmt::Debug for Watcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watcher")
    }
}

/// Writes kept for who asks; beyond it peers' writes that are told of are refused until somebody asked.
pub(crate) const WRITTEN_COUNT_MAX: usize = 1 << 16;

/// An exposed region, as the engine knows it.
#[derive(Debug)]
pub(crate) struct Region {
    pub(crate) memory_id: MemoryId,
    pub(crate) notify: Option<Notify>,
    pub(crate) watcher: Option<Watcher>,
    pub(crate) written: VecDeque<Written>,
}

/// All exposed regions of an engine.
#[derive(Debug, Default)]
pub(crate) struct Regions {
    pub(crate) regions: HashMap<RegionId, Region>,
    /// How often somebody was told who watches one.
    pub(crate) used_count: u64,
}

impl Regions {
    /// Whether more than this was told of one and not asked for.
    pub(crate) fn is_any_fuller_than(&self, count: usize) -> bool {
        self.regions.values().any(|region| region.written.len() > count)
    }
}
