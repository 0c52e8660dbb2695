//! What applications post, call by call, and the oracle books.

use packhorse_link::sim::NodeId;
use packhorse_proto::{
    BufId, Claim, Criteria, Envelope, List, Payload, PostError, RecvSpec, ReqId, SendSpec, Space,
    Tag, Use,
};

use super::Player;
use crate::oracle::{Message, Oracle, Receive};
use crate::pattern;
use crate::scenario::{How, Recv, Send, Then, Wanted};

impl Player<'_> {
    pub(super) fn send(&mut self, node: u8, send: &Send) {
        let (from, to) = (NodeId(node.into()), NodeId(send.to.into()));
        let peer = self.world.peer(from, to);
        let tag = Oracle::tag(self.scenario.is_named_by_tag, send.label, send.tag);
        let immediate = send.has_immediate.then_some(u64::from(send.label));
        let envelope = Envelope {
            source: peer,
            space: Space(send.space),
            tag: Tag(tag),
            immediate,
            len: send.len,
        };
        let Some((how, req, buf)) = self.post(from, send, &envelope) else { return };
        self.note_of(node, || {
            let Send { label, to, space, len, .. } = send;
            format!(
                "sends #{label} to node {to}: space {space}, tag {tag:#x}, {len} bytes, {how:?}"
            )
        });
        self.oracle.on_send(Message {
            label: send.label,
            from: node,
            from_life: self.world.life(from),
            to: send.to,
            to_life: self.world.life(to),
            space: send.space,
            tag,
            immediate,
            len: send.len,
            how,
            buf,
            req,
            posted: 0,
            cancelled: false,
            result: None,
            told_len: 0,
            taken: None,
        });
    }

    /// Posts a send as it was meant; a copied one for which the pool has no room, in place.
    fn post(
        &mut self,
        from: NodeId,
        send: &Send,
        envelope: &Envelope,
    ) -> Option<(How, ReqId, Option<BufId>)> {
        let mut how = send.how;
        if how == How::Copied {
            match self.post_copied(from, send, envelope) {
                Err(PostError::PoolFull) => {
                    self.stats.pool_full_count += 1;
                    how = How::Accepted;
                }
                Err(error) => {
                    self.oracle.violation(format!("send #{}: {error:?}", send.label));
                    return None;
                }
                Ok(req) => return Some((how, req, None)),
            }
        }
        let memory = self.world.memory(from);
        let buf = match send.segments {
            0 => memory.add_pattern(send.label, send.len),
            count => memory.add_payload(send.label, send.len, count.into()),
        };
        let payload = Payload::InPlace { buf, len: send.len };
        match self.world.post_send(from, spec_of(send, envelope, payload, how == How::Matched)) {
            Ok(req) => Some((how, req, Some(buf))),
            Err(error) => {
                self.oracle.violation(format!("send #{}: {error:?}", send.label));
                None
            }
        }
    }

    fn post_copied(
        &mut self,
        from: NodeId,
        send: &Send,
        envelope: &Envelope,
    ) -> Result<ReqId, PostError> {
        let mut bytes = std::mem::take(&mut self.payload);
        bytes.resize(send.len as usize, 0);
        pattern::fill(send.label, 0, &mut bytes);
        let result =
            self.world.post_send(from, spec_of(send, envelope, Payload::Copied(&bytes), false));
        self.payload = bytes;
        result
    }

    pub(super) fn criteria(&mut self, node: u8, wanted: &Wanted) -> Criteria {
        let source =
            wanted.source.map(|source| self.world.peer(NodeId(node.into()), NodeId(source.into())));
        Criteria { space: Space(wanted.space), tag: Tag(wanted.tag), ignore: wanted.ignore, source }
    }

    pub(super) fn recv(&mut self, node: u8, recv: &Recv) {
        let id = NodeId(node.into());
        let criteria = self.criteria(node, &recv.wanted);
        let buf = self.world.memory(id).add_room(recv.cap, recv.segments.into());
        let spec = RecvSpec {
            criteria,
            buf,
            len: recv.cap,
            list: if recv.is_overflow { List::Overflow } else { List::Priority },
            uses: recv.many_free_min.map_or(Use::Once, |free_len_min| Use::Many { free_len_min }),
            header_only: recv.is_header_only,
            user: recv.label.into(),
        };
        self.note_of(node, || {
            format!("posts receive #{}: {}, {} bytes", recv.label, recv.wanted, recv.cap)
        });
        match self.world.post_recv(id, spec) {
            Ok(req) => self.oracle.on_post(Receive {
                label: recv.label,
                node,
                life: self.world.life(id),
                wanted: recv.wanted,
                cap: recv.cap,
                is_overflow: recv.is_overflow,
                is_many: recv.many_free_min.is_some(),
                is_header_only: recv.is_header_only,
                is_claim: false,
                buf,
                req,
                posted: 0,
                cancelled: None,
                ended: None,
                took_count: 0,
            }),
            Err(error) => self.oracle.violation(format!("receive #{}: {error:?}", recv.label)),
        }
    }

    pub(super) fn cancel(&mut self, node: u8, label: u32) {
        // A request of a former life has no name any more.
        let Some((owner, req)) = self.oracle.is_open(label) else { return };
        debug_assert_eq!(owner, node, "cancels are the owner's");
        let was_there = self.world.cancel(NodeId(owner.into()), req);
        self.note_of(owner, || {
            format!("cancels #{label}: {}", if was_there { "done" } else { "too late" })
        });
        self.stats.cancel_count += u64::from(was_there && !self.is_ending);
        self.oracle.on_cancel(&mut self.world, label, was_there);
        self.world.flush();
        self.see_events();
        if was_there && !self.oracle.has_ended(label) && !self.has_failed() {
            self.oracle.violation(format!("#{label} was cancelled and did not end"));
        }
    }

    pub(super) fn claim(&mut self, node: u8, label: u32, wanted: &Wanted, then: Then) {
        let id = NodeId(node.into());
        let criteria = self.criteria(node, wanted);
        let seen = self.world.probe(id, &criteria);
        self.note_of(node, || format!("probes for {wanted}: {seen:?}"));
        if then == Then::Leave || seen.is_none() {
            return;
        }
        let Some((claim, envelope)) = self.world.claim(id, &criteria) else {
            return; // in an overflow entry: cannot be claimed
        };
        if Some(envelope) != seen {
            self.oracle.violation(format!("{node} probed {seen:?} and claimed {envelope:?}"));
        }
        let cap = match then {
            Then::Receive(cap) => cap,
            _ if self.oracle.named(&envelope).is_some() => {
                return self.discard(node, label, wanted, claim, envelope);
            }
            _ => envelope.len, // a message one cannot tell by its envelope is received, to know which it was
        };
        self.recv_claimed(node, label, wanted, claim, cap);
    }

    fn discard(&mut self, node: u8, label: u32, wanted: &Wanted, claim: Claim, envelope: Envelope) {
        let buf = self.world.memory(NodeId(node.into())).add_sink(0);
        self.book_claim(node, label, wanted, buf, 0, ReqId(u64::MAX));
        let id = self.oracle.named(&envelope).expect("asked before");
        let taken = self.oracle.taken(node, label, 0, 0, true);
        self.oracle.take(&mut self.world, node, id, &envelope, taken);
        self.oracle.end_claim(label);
        self.note_of(node, || format!("discards #{id}"));
        if let Err(error) = self.world.discard(NodeId(node.into()), claim) {
            self.oracle.violation(format!("discard #{label}: {error:?}"));
        }
    }

    pub(super) fn recv_claimed(
        &mut self,
        node: u8,
        label: u32,
        wanted: &Wanted,
        claim: Claim,
        cap: u64,
    ) {
        let id = NodeId(node.into());
        let buf = self.world.memory(id).add_room(cap, 1);
        match self.world.recv_claimed(id, claim, buf, cap, label.into()) {
            Ok(req) => self.book_claim(node, label, wanted, buf, cap, req),
            Err(error) => self.oracle.violation(format!("receive of claim #{label}: {error:?}")),
        }
    }

    fn book_claim(
        &mut self,
        node: u8,
        label: u32,
        wanted: &Wanted,
        buf: BufId,
        cap: u64,
        req: ReqId,
    ) {
        self.oracle.on_post(Receive {
            label,
            node,
            life: self.world.life(NodeId(node.into())),
            wanted: *wanted,
            cap,
            is_overflow: false,
            is_many: false,
            is_header_only: false,
            is_claim: true,
            buf,
            req,
            posted: 0,
            cancelled: None,
            ended: None,
            took_count: 0,
        });
    }
}

/// A send with this envelope (whose source is the peer it goes to).
fn spec_of<'a>(
    send: &Send,
    envelope: &Envelope,
    payload: Payload<'a>,
    until_matched: bool,
) -> SendSpec<'a> {
    let Envelope { source: peer, space, tag, immediate, .. } = *envelope;
    SendSpec { peer, space, tag, immediate, payload, until_matched, user: send.label.into() }
}
