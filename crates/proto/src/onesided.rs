//! One-sided operations: as who asks for them, and as who is asked.

use crate::base::pool::BytePool;
use crate::base::seeded::Seeded;
use crate::base::slab::Slab;
use crate::base::types::Instant;
use crate::onesided::portals::Portals;
use crate::onesided::records::{Answer, Operation, Regions, Request};
use crate::{Limits, PeerId};
use hashbrown::HashMap;

pub(crate) mod atomic;
pub(crate) mod matched;
pub(crate) mod operate;
pub mod portals;
pub(crate) mod records;
pub(crate) mod region;
pub(crate) mod serve;
pub(crate) mod transfer;

/// One-sided operations of ours, and the memory that peers may use.
#[derive(Debug)]
pub(crate) struct Onesided {
    /// One-sided operations of ours and the requests made of them (`operate`).
    operations: Slab<Operation>,
    requests: Slab<Request>,
    requests_by_number: HashMap<u64, u32, Seeded>,
    /// Portals 4: entries, queues, counters, triggers (`portals`), and when it last was that something happened there.
    pub(crate) portals: Portals,
    portals_now: Instant,
    /// An association or an interface is ending: what that sets off begins after it, or it would end with it and nobody would hear.
    is_parting: bool,
    /// Memory exposed to peers, answers to their requests, and the bytes of these (`region`, `serve`).
    regions: Regions,
    answers: Slab<Answer>,
    results: BytePool,
    /// Requests of peers that are held, under way, or whose answers are not acknowledged.
    served_count: u32,
    served_count_max: u32,
    /// The application does not take what it is told of peers' writes: no more of those that would be told.
    are_notices_held: bool,
}

impl Onesided {
    pub(crate) fn new(limits: &Limits, seed: u64) -> Self {
        Self {
            operations: Slab::default(),
            requests: Slab::default(),
            requests_by_number: HashMap::with_hasher(Seeded(seed)),
            portals: Portals::new(seed),
            portals_now: Instant::default(),
            is_parting: false,
            regions: Regions::new(seed),
            answers: Slab::default(),
            results: BytePool::new(limits.result_len_max),
            served_count: 0,
            served_count_max: limits.request_count_max,
            are_notices_held: false,
        }
    }

    /// How many operations of ours are not over.
    pub(crate) fn operation_count(&self) -> u32 {
        self.operations.len()
    }

    /// What is not over yet: to whom, and how long.
    pub(crate) fn unaccepted(&self) -> impl Iterator<Item = (PeerId, u64)> {
        self.operations.iter().map(|(_, operation)| (operation.to.peer, operation.total))
    }

    /// What peers' operations make us hold now: requests, bytes of answers.
    pub(crate) fn served(&self) -> (u32, u64) {
        (self.served_count, self.results.used_len())
    }

    /// The bytes of an answer, for the driver to gather.
    pub(crate) fn result_bytes(&self, slot: u32) -> &[u8] {
        self.results.bytes(slot)
    }
}
