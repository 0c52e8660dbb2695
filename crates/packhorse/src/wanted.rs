//! Which messages a receive takes, and what is known of a message.

use packhorse_proto::{Criteria, Space, Tag};

use crate::endpoint::Peer;

/// Which messages a receive, a probe or a claim is about.
///
/// ```
/// use packhorse::Wanted;
/// let exact = Wanted::tag(7);
/// let any_of_sixteen = Wanted::tag(0x40).ignoring(0xF);
/// let anything = Wanted::any();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    pub(crate) criteria: Criteria,
}

impl Wanted {
    /// This tag, from anybody.
    pub fn tag(tag: u64) -> Self {
        let criteria = Criteria { space: Space(0), tag: Tag(tag), ignore: 0, source: None };
        Self { criteria }
    }

    /// Any tag, from anybody.
    pub fn any() -> Self {
        Self::tag(0).ignoring(u64::MAX)
    }

    /// Bits that are not compared.
    #[must_use]
    pub fn ignoring(mut self, bits: u64) -> Self {
        self.criteria.ignore = bits;
        self
    }

    /// Only from this peer.
    #[must_use]
    pub fn from(mut self, peer: Peer) -> Self {
        self.criteria.source = Some(peer.id);
        self
    }

    /// In another matching space than 0; messages never match across spaces. 255 belongs to streams: [`Error::ReservedSpace`](crate::Error::ReservedSpace).
    #[must_use]
    pub fn space(mut self, space: u8) -> Self {
        self.criteria.space = Space(space);
        self
    }
}

/// What a message says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// From whom.
    pub source: Peer,
    /// Its tag.
    pub tag: u64,
    /// 64 bits sent beside the payload, if its sender gave any.
    pub immediate: Option<u64>,
    /// Its length, even if less was received.
    pub len: u64,
}

impl From<packhorse_proto::Envelope> for Envelope {
    fn from(envelope: packhorse_proto::Envelope) -> Self {
        let packhorse_proto::Envelope { source, tag, immediate, len, .. } = envelope;
        Self { source: Peer { id: source }, tag: tag.0, immediate, len }
    }
}
