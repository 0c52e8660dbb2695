//! How a request, a queue, and whoever is to be told of an end are called.

/// A request. Void once its completion was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestId(pub(crate) u64);

/// A queue of an engine, to post to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct QueueId(pub(crate) u32);

/// Where the end of a request is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notify {
    /// In which queue.
    pub queue: QueueId,
    /// The caller's word, returned in the entry.
    pub context: u64,
    /// Say nothing of success (selective completion).
    pub only_errors: bool,
}
