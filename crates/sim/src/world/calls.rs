//! What an application calls, passed on to its endpoint.

use packhorse_link::sim::NodeId;
use packhorse_proto::{
    BufId, Claim, Criteria, Envelope, List, Payload, PeerId, PostError, RecvSpec, ReqId, SendSpec,
    Space, Tag, Use,
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
