//! One-sided operations: as who asks for them, and as who is asked.

use crate::Limits;
use crate::base::pool::BytePool;
use crate::base::seeded::Seeded;
use crate::base::slab::Slab;
use crate::base::types::Instant;
use crate::onesided::portals::Portals;
use crate::onesided::records::{Answer, Operation, Regions, Request};
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
    pub(crate) operations: Slab<Operation>,
    pub(crate) requests: Slab<Request>,
    pub(crate) requests_by_number: HashMap<u64, u32, Seeded>,
    /// Portals 4: entries, queues, counters, triggers (`portals`), and when it last was that something happened there.
    pub(crate) portals: Portals,
    pub(crate) portals_now: Instant,
    /// An association or an interface is ending: what that sets off begins after it, or it would end with it and nobody would hear.
    pub(crate) is_parting: bool,
    /// Memory exposed to peers, answers to their requests, and the bytes of these (`region`, `serve`).
    pub(crate) regions: Regions,
    pub(crate) answers: Slab<Answer>,
    pub(crate) results: BytePool,
    /// Requests of peers that are held, under way, or whose answers are not acknowledged.
    pub(crate) served_count: u32,
    served_count_max: u32,
    /// The application does not take what it is told of peers' writes: no more of those that would be told.
    pub(crate) are_notices_held: bool,
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
}
