//! One-sided operations with one peer: what its record keeps of them (`onesided` has the rules).

use crate::wire::RequestHead;
use alloc::collections::{BTreeMap, VecDeque};

/// Numbers of one-sided operations, of which a row knows also while it rests.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Requests {
    /// Of the next request of ours, and of the next one of the peer that is carried out (PROTOCOL §11.1).
    pub(crate) next_out: u64,
    pub(crate) next_in: u64,
    /// Up to where the parts of the peer's put have come (PROTOCOL §11.4). Between two of them the row may rest.
    pub(crate) part_end: u64,
}

/// One-sided operations with one peer, both ways.
#[derive(Debug, Default)]
pub(crate) struct Side {
    /// Operations of ours that requests are still to be made of: slot and serial.
    pub(crate) waiting: VecDeque<(u32, u32)>,
    /// Requests of ours that were lost: slot and serial.
    pub(crate) lost: VecDeque<(u32, u32)>,
    /// Requests of ours that are not answered.
    pub(crate) request_count: u32,
    /// Operations of ours that are not over.
    pub(crate) operation_count: u32,
    /// `Notice::Requests` is among the notices.
    pub(crate) is_queued: bool,
    /// Requests of the peer before their turn, by number.
    pub(crate) early: BTreeMap<u64, Early>,
    /// Requests of the peer that are held, under way, or whose answers are not acknowledged.
    pub(crate) served_count: u32,
}

impl Side {
    /// Nothing is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.operation_count == 0 && self.served_count == 0 && self.early.is_empty()
    }

    /// Something is to be finished before we leave.
    pub(crate) fn is_busy(&self) -> bool {
        self.operation_count > 0 || self.served_count > 0
    }
}

/// A request before its turn.
#[derive(Debug)]
pub(crate) struct Early {
    /// `None`: it was cancelled, only its number counts.
    pub(crate) head: Option<RequestHead>,
    /// Its body, in `Endpoint::held`, or NONE.
    pub(crate) hold: u32,
    /// Where its result will be, in `Onesided::results`, or NONE.
    pub(crate) result: u32,
}
