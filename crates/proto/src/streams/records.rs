//! A stream that is sent, as it is remembered.

/// How an outbound stream is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Open,
    Good,
    GivenUp,
}

/// A stream that is sent.
#[derive(Debug)]
pub(crate) struct Outbound {
    pub(crate) row: u32,
    pub(crate) number: u32,
    pub(crate) handler: u16,
    pub(crate) ending: Ending,
    /// A chunk of it was posted, in this association.
    pub(crate) is_begun: bool,
    pub(crate) association: u64,
    /// The chunk that is filled: where in the resend pool, so far, at most.
    pub(crate) pool: u32,
    pub(crate) filled_len: u32,
    pub(crate) room_len: u32,
}
