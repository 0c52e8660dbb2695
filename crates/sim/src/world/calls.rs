//! What an application calls, passed on to its endpoint.

use packhorse_link::sim::NodeId;
use packhorse_proto::{
    BufId, Claim, Criteria, Envelope, List, OutStreamId, Payload, PeerId, PostError, RecvSpec,
    ReqId, SendSpec, Space, StreamError, StreamId, Tag, ToldFront, Use,
};

use super::World;

impl World {
    /// `Endpoint::post_send`, or every other time what an application's own post does (`Core::post_send`): both ways of a
    /// message are taken.
    pub fn post_send(&mut self, node: NodeId, spec: SendSpec<'_>) -> Result<ReqId, PostError> {
        let (now, node) = self.touch(node);
        match spec.user.is_multiple_of(2) {
            true => node.core.post_send(now, spec),
            false => node.core.endpoint().post_send(now, spec),
        }
    }

    /// `Endpoint::post_recv`.
    pub fn post_recv(&mut self, node: NodeId, spec: RecvSpec) -> Result<ReqId, PostError> {
        let (now, node) = self.touch(node);
        node.core.with(|endpoint, memory| endpoint.post_recv(now, spec, memory))
    }

    /// `Endpoint::cancel`.
    pub fn cancel(&mut self, node: NodeId, req: ReqId) -> bool {
        let (now, node) = self.touch(node);
        node.core.endpoint().cancel(now, req)
    }

    /// `Endpoint::probe`.
    pub fn probe(&mut self, node: NodeId, criteria: &Criteria) -> Option<Envelope> {
        self.touch(node).1.core.endpoint().probe(criteria)
    }

    /// `Endpoint::claim`.
    pub fn claim(&mut self, node: NodeId, criteria: &Criteria) -> Option<(Claim, Envelope)> {
        let (now, node) = self.touch(node);
        node.core.endpoint().claim(now, criteria)
    }

    /// `Endpoint::recv_claimed`.
    pub fn recv_claimed(
        &mut self,
        node: NodeId,
        claim: Claim,
        buf: BufId,
        len: u64,
        user: u64,
    ) -> Result<ReqId, PostError> {
        let (now, node) = self.touch(node);
        node.core.with(|endpoint, memory| endpoint.recv_claimed(now, claim, buf, len, user, memory))
    }

    /// `Endpoint::discard`.
    pub fn discard(&mut self, node: NodeId, claim: Claim) -> Result<(), PostError> {
        let (now, node) = self.touch(node);
        node.core.endpoint().discard(now, claim)
    }

    /// `Endpoint::close`.
    pub fn close(&mut self, node: NodeId) {
        let (now, node) = self.touch(node);
        node.core.endpoint().close(now);
    }

    /// `Endpoint::on_peer_died`.
    pub fn tell_died(&mut self, node: NodeId, peer: PeerId) {
        let (now, node) = self.touch(node);
        node.core.endpoint().on_peer_died(now, peer);
    }

    /// Sends `len` bytes of pattern, accepted; the message's number is the event's `user`.
    ///
    /// # Panics
    /// If the post is refused.
    pub fn send(&mut self, from: NodeId, to: NodeId, tag: Tag, len: u64) -> ReqId {
        let (peer, id) = (self.peer(from, to), self.next_message);
        self.next_message += 1;
        let payload = Payload::InPlace { buf: self.memory(from).add_pattern(id, len), len };
        let (space, user) = (Space(0), u64::from(id));
        let spec =
            SendSpec { peer, space, tag, immediate: None, payload, until_matched: false, user };
        self.post_send(from, spec).expect("send posted")
    }

    /// Receives `len` bytes in space 0; the buffer's number is the event's `user`.
    ///
    /// # Panics
    /// If the post is refused.
    pub fn recv(&mut self, at: NodeId, from: Option<NodeId>, tag: Tag, len: u64) -> ReqId {
        let source = from.map(|from| self.peer(at, from));
        let criteria = Criteria { space: Space(0), tag, ignore: 0, source };
        let buf = self.memory(at).add_room(len, 1);
        let (list, uses, user) = (List::Priority, Use::Once, buf.0);
        self.post_recv(at, RecvSpec { criteria, buf, len, list, uses, header_only: false, user })
            .expect("receive posted")
    }
}

/// Streams.
impl World {
    /// `Endpoint::write_stream`, or what an application's own call does (`Core::write_stream`).
    pub fn write_stream(
        &mut self,
        node: NodeId,
        id: OutStreamId,
        piece: &[u8],
        is_direct: bool,
    ) -> Result<usize, StreamError> {
        let (now, node) = self.touch(node);
        match is_direct {
            true => node.core.write_stream(now, id, piece),
            false => node.core.endpoint().write_stream(now, id, piece),
        }
    }

    /// `Endpoint::end_stream` or `give_up_stream`, or `Core::end_stream`.
    pub fn end_stream(
        &mut self,
        node: NodeId,
        id: OutStreamId,
        is_good: bool,
        is_direct: bool,
    ) -> Result<(), StreamError> {
        let (now, node) = self.touch(node);
        match (is_direct, is_good) {
            (true, _) => node.core.end_stream(now, id, is_good),
            (false, true) => node.core.endpoint().end_stream(now, id),
            (false, false) => node.core.endpoint().give_up_stream(now, id),
        }
    }

    /// `Core::tell_chunk`, of bytes in memory of their own. `None`: they must be sent.
    pub fn tell_chunk(
        &mut self,
        node: NodeId,
        (peer, id): (PeerId, OutStreamId),
        bytes: &[u8],
        user: u64,
    ) -> Option<(ReqId, BufId)> {
        let (now, node) = self.touch(node);
        let buf = node.core.memory().add_bytes(bytes);
        let req = node.core.tell_chunk(now, peer, id, (buf, bytes.len() as u64), user);
        if req.is_none() {
            node.core.memory().end(buf);
        }
        req.map(|req| (req, buf))
    }

    /// `Core::read_told_chunk`. `None`: they cannot be read.
    pub fn read_told(
        &mut self,
        node: NodeId,
        id: StreamId,
        front: &ToldFront,
        len: u64,
    ) -> Option<Vec<u8>> {
        let (now, node) = self.touch(node);
        let buf = node.core.memory().add_room(len, 1);
        let read_len = node.core.read_told_chunk(now, id, front, (buf, len));
        let bytes = node.core.memory().bytes_of(buf);
        node.core.memory().end(buf);
        bytes.filter(|_| read_len == len)
    }
}
