//! An endpoint on its way out, and what is remembered of peers that were forgotten.

use crate::{Identity, Instant, Secret, Unaccepted};
use alloc::vec::Vec;

/// An endpoint on its way out.
#[derive(Debug)]
pub(crate) struct Closing {
    /// Given up then.
    pub(crate) until: Instant,
    /// The next look at how far it is.
    pub(crate) look_at: Instant,
    /// What was given up when the time was over.
    pub(crate) given_up: Vec<Unaccepted>,
}

/// A forgotten peer, and the id it last had.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Forgotten {
    pub(crate) identity: Identity,
    pub(crate) secret: Secret,
    pub(crate) id: u64,
}

/// Forgotten peers whose last id is remembered, so that one who has not heard does not begin again under the same id.
pub(crate) const FORGOTTEN_COUNT_MAX: usize = 64;
