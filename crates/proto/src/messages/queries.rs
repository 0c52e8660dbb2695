//! Queries about posted receives, while peers are refused.

use crate::matching::EntryId;
use crate::{Criteria, Instant, MS};
use alloc::collections::VecDeque;

/// A query under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Query {
    pub(crate) number: u32,
    pub(crate) criteria: Criteria,
    pub(crate) entry: EntryId,
}

/// Pause between two rounds of queries, at first and at most.
pub(crate) const QUERY_NS: u64 = MS;

/// Queries about posted receives, while peers are refused.
#[derive(Debug)]
pub(crate) struct Queries {
    pub(crate) open: VecDeque<Query>,
    pub(crate) next_number: u32,
    pub(crate) at: Instant,
    pub(crate) pause_ns: u64,
}

impl Default for Queries {
    fn default() -> Self {
        Self { open: VecDeque::new(), next_number: 0, at: Instant::NEVER, pause_ns: QUERY_NS }
    }
}

impl Queries {
    pub(crate) fn find(&self, number: u32) -> Option<Query> {
        self.open.iter().find(|query| query.number == number).copied()
    }
}
