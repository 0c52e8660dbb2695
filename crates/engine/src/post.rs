//! What can be posted, and a post that was refused.

use packhorse_link::mem::Memory;
use packhorse_proto::{Criteria, List, Payload, PeerId, PostError, SendSpec, Space, Tag, Use};

use crate::names::RequestId;

/// A send to post.
#[derive(Clone, Copy, Debug)]
pub struct Send {
    /// To whom.
    pub peer: PeerId,
    /// Matching space.
    pub space: Space,
    /// Match bits.
    pub tag: Tag,
    /// 64 bits beside the payload.
    pub immediate: Option<u64>,
    /// Complete only when a receive took it.
    pub until_matched: bool,
}

/// A receive to post.
#[derive(Clone, Copy, Debug)]
pub struct Recv {
    /// What it takes.
    pub criteria: Criteria,
    /// Priority or overflow.
    pub list: List,
    /// Once or many times.
    pub uses: Use,
    /// Take the envelope only.
    pub header_only: bool,
}

/// A post that was refused, with the memory it came with.
#[derive(Debug)]
pub struct Refused {
    /// Why.
    pub error: PostError,
    /// Given back.
    pub memory: Option<Memory>,
}

/// A post.
#[derive(Debug)]
pub(crate) enum Post {
    Send(Send, Memory),
    Recv(Recv, Memory),
}

impl Send {
    pub(crate) fn spec(self, payload: Payload<'_>, request: RequestId) -> SendSpec<'_> {
        let Self { peer, space, tag, immediate, until_matched } = self;
        SendSpec { peer, space, tag, immediate, payload, until_matched, user: request.0 }
    }
}
