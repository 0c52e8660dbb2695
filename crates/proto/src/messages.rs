//! Messages that arrive: which receive takes which, in whose turn; how they are refused, recalled and given up.

use crate::bulk::Bulk;
use crate::matching::Matcher;
use crate::messages::ends::Ends;
use crate::messages::queries::Queries;
use alloc::collections::VecDeque;

pub(crate) mod abandon;
pub(crate) mod arrive;
pub(crate) mod ends;
pub(crate) mod farewell;
pub(crate) mod fill;
pub(crate) mod overflow;
pub(crate) mod post;
pub(crate) mod queries;
pub(crate) mod take;
pub(crate) mod turns;

/// Messages in both directions, and the receives that wait for them.
#[derive(Debug)]
pub(crate) struct Messages {
    pub(crate) bulk: Bulk,
    matcher: Matcher,
    /// Whole messages whose association ended before their turn; keys of `arrivals`.
    orphans: VecDeque<u64>,
    /// Rows we refuse, oldest refusal first.
    refused: VecDeque<u32>,
    queries: Queries,
    ends: Ends,
}

impl Messages {
    pub(crate) fn new(bulk: Bulk, seed: u64) -> Self {
        Self {
            matcher: Matcher::new(seed),
            orphans: VecDeque::new(),
            refused: VecDeque::new(),
            queries: Queries::default(),
            ends: Ends::new(bulk.peers.settings.ends_in_order, seed),
            bulk,
        }
    }
}
