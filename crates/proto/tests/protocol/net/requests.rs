//! What the user of a node asks for, and what came of it.

use packhorse_proto::*;

use super::{Net, Node, pattern, tagged};

/// A receive and its memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recv {
    pub(crate) req: ReqId,
    pub(crate) buf: BufId,
}

/// How a receive ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Got {
    pub(crate) envelope: Envelope,
    pub(crate) offset: u64,
    pub(crate) placed_len: u64,
    pub(crate) result: Result<(), Failure>,
}

/// What is asked.
impl Net {
    pub(crate) fn spec(
        &mut self,
        from: usize,
        to: usize,
        tag: u64,
        len: usize,
    ) -> SendSpec<'static> {
        let peer = self.peer(from, to);
        let buf = self.nodes[from].ram.add(pattern(tag, len));
        SendSpec {
            peer,
            space: Space(0),
            tag: Tag(tag),
            immediate: None,
            payload: Payload::InPlace { buf, len: len as u64 },
            until_matched: false,
            user: tag,
        }
    }

    pub(crate) fn post(&mut self, from: usize, spec: SendSpec<'_>) -> ReqId {
        self.nodes[from].ep.post_send(self.now, spec).expect("posted")
    }

    pub(crate) fn send(&mut self, from: usize, to: usize, tag: u64, len: usize) -> ReqId {
        let spec = self.spec(from, to, tag, len);
        self.post(from, spec)
    }

    /// A send that is complete when matched.
    pub(crate) fn send_matched(&mut self, from: usize, to: usize, tag: u64, len: usize) -> ReqId {
        let spec = SendSpec { until_matched: true, ..self.spec(from, to, tag, len) };
        self.post(from, spec)
    }

    pub(crate) fn recv_spec(&mut self, node: usize, criteria: Criteria, len: usize) -> RecvSpec {
        let buf = self.nodes[node].ram.add(vec![0xEE; len]);
        RecvSpec {
            criteria,
            buf,
            len: len as u64,
            list: List::Priority,
            uses: Use::Once,
            header_only: false,
            user: buf.0,
        }
    }

    pub(crate) fn post_recv(&mut self, node: usize, spec: RecvSpec) -> Recv {
        let Node { ep, ram, .. } = &mut self.nodes[node];
        let req = ep.post_recv(self.now, spec, ram).expect("posted");
        Recv { req, buf: spec.buf }
    }

    pub(crate) fn recv(&mut self, node: usize, criteria: Criteria, len: usize) -> Recv {
        let spec = self.recv_spec(node, criteria, len);
        self.post_recv(node, spec)
    }

    /// A receive that names its source.
    pub(crate) fn recv_from(&mut self, node: usize, source: usize, tag: u64, len: usize) -> Recv {
        let source = Some(self.peer(node, source));
        self.recv(node, Criteria { source, ..tagged(tag) }, len)
    }

    /// Cancels a request and takes its memory away.
    pub(crate) fn cancel(&mut self, node: usize, req: ReqId, buf: BufId) -> bool {
        let done = self.nodes[node].ep.cancel(self.now, req);
        self.nodes[node].ram.buffers[buf.0 as usize] = None;
        done
    }

    pub(crate) fn claim(&mut self, node: usize, criteria: &Criteria) -> Option<(Claim, Envelope)> {
        self.nodes[node].ep.claim(self.now, criteria)
    }

    pub(crate) fn recv_claimed(
        &mut self,
        node: usize,
        claim: Claim,
        len: usize,
    ) -> Result<Recv, PostError> {
        let Node { ep, ram, .. } = &mut self.nodes[node];
        let buf = ram.add(vec![0xEE; len]);
        let req = ep.recv_claimed(self.now, claim, buf, len as u64, buf.0, ram)?;
        Ok(Recv { req, buf })
    }
}

/// One-sided.
impl Net {
    /// Exposes `len` bytes of 0xEE to every peer.
    pub(crate) fn expose(&mut self, node: usize, key: u64, len: usize) -> (RegionId, BufId) {
        self.expose_as(node, key, len, Access::ALL, Permitted::Any)
    }

    pub(crate) fn expose_as(
        &mut self,
        node: usize,
        key: u64,
        len: usize,
        access: Access,
        permitted: Permitted,
    ) -> (RegionId, BufId) {
        let Node { ep, ram, .. } = &mut self.nodes[node];
        let buf = ram.add(vec![0xEE; len]);
        let spec = RegionSpec {
            key,
            buf,
            len: len as u64,
            access,
            permitted,
            user: key + 1000,
            tells_all: true,
        };
        (ep.expose(spec).expect("exposed"), buf)
    }

    /// Withdraws a region and takes its memory away.
    pub(crate) fn withdraw(&mut self, node: usize, region: RegionId, buf: BufId) {
        assert!(self.nodes[node].ep.withdraw(region));
        self.nodes[node].ram.buffers[buf.0 as usize] = None;
    }

    pub(crate) fn remote(&mut self, from: usize, to: usize, key: u64, offset: u64) -> Remote {
        Remote { peer: self.peer(from, to), key, offset }
    }

    /// Puts a pattern of `tag` into a peer's memory.
    /// Memory for something that is not posted here.
    pub(crate) fn lend(&mut self, node: usize, bytes: Vec<u8>) -> BufId {
        self.nodes[node].ram.add(bytes)
    }

    /// What is due in Portals begins.
    pub(crate) fn run_portals(&mut self, node: usize) {
        let now = self.now;
        self.nodes[node].ep.run_portals(now);
    }

    pub(crate) fn close_portals(&mut self, node: usize, ni: u8) {
        let now = self.now;
        self.nodes[node].ep.close_portals(now, ni);
    }

    pub(crate) fn put(
        &mut self,
        (from, to): (usize, usize),
        key: u64,
        offset: u64,
        (tag, len): (u64, usize),
        immediate: Option<u64>,
    ) -> Recv {
        let to = self.remote(from, to, key, offset);
        let Node { ep, ram, .. } = &mut self.nodes[from];
        let buf = ram.add(pattern(tag, len));
        let payload = Payload::InPlace { buf, len: len as u64 };
        let spec = PutSpec { to, payload, immediate, user: tag };
        Recv { req: ep.put(self.now, spec).expect("posted"), buf }
    }

    pub(crate) fn get(
        &mut self,
        (from, to): (usize, usize),
        key: u64,
        offset: u64,
        len: usize,
    ) -> Recv {
        let remote = self.remote(from, to, key, offset);
        let Node { ep, ram, .. } = &mut self.nodes[from];
        let buf = ram.add(vec![0xDD; len]);
        let spec = GetSpec { from: remote, buf, len: len as u64, user: 0 };
        Recv { req: ep.get(self.now, spec).expect("posted"), buf }
    }

    /// Adds to a number in a peer's memory and fetches what it was.
    pub(crate) fn fetch_add(
        &mut self,
        (from, to): (usize, usize),
        key: u64,
        offset: u64,
        by: u64,
    ) -> Recv {
        let at = self.remote(from, to, key, offset);
        let Node { ep, ram, .. } = &mut self.nodes[from];
        let buf = ram.add(vec![0xDD; 8]);
        let spec = AtomicSpec {
            at,
            op: AtomicOp::Sum,
            datatype: Datatype::U64,
            len: 8,
            operand: &by.to_le_bytes(),
            compare: &[],
            result: Some(buf),
            user: 0,
        };
        Recv { req: ep.atomic(self.now, spec).expect("posted"), buf }
    }

    /// How a one-sided operation ended, if it did. It must not end twice.
    pub(crate) fn operated(&mut self, node: usize, req: ReqId) -> Option<Result<(), Failure>> {
        self.drain(node);
        let mut ends = self.nodes[node].events.iter().filter_map(|event| match *event {
            Event::Operated { req: ended, result, .. } if ended == req => Some(result),
            _ => None,
        });
        let end = ends.next();
        assert_eq!(ends.next(), None, "ended twice");
        end
    }

    /// What was put with an immediate, in order: key, where, how much, the immediate.
    pub(crate) fn written(&mut self, node: usize) -> Vec<(u64, u64, u64, u64)> {
        self.drain(node);
        let written = self.nodes[node].events.iter().filter_map(|event| match *event {
            Event::Written { user, offset, len, immediate, .. } => {
                Some((user - 1000, offset, len, immediate))
            }
            _ => None,
        });
        written.collect()
    }

    /// What peers did without an immediate, in order: key, what, where, how much.
    pub(crate) fn used(&mut self, node: usize) -> Vec<(u64, OperationKind, u64, u64)> {
        self.drain(node);
        let used = self.nodes[node].events.iter().filter_map(|event| match *event {
            Event::Used { user, kind, offset, len, .. } => Some((user - 1000, kind, offset, len)),
            _ => None,
        });
        used.collect()
    }

    pub(crate) fn number_at(&self, node: usize, buf: BufId, offset: usize) -> u64 {
        let bytes = &self.bytes(node, buf)[offset..offset + 8];
        u64::from_le_bytes(bytes.try_into().expect("eight bytes"))
    }
}

/// What came of it.
impl Net {
    pub(crate) fn bytes(&self, node: usize, buf: BufId) -> &[u8] {
        self.nodes[node].ram.buffers[buf.0 as usize].as_ref().expect("still ours")
    }

    /// How a send ended, if it did. It must not end twice.
    pub(crate) fn sent(&mut self, node: usize, req: ReqId) -> Option<Result<(), Failure>> {
        self.drain(node);
        let mut ends = self.nodes[node].events.iter().filter_map(|event| match *event {
            Event::Sent { req: ended, result, .. } if ended == req => Some(result),
            _ => None,
        });
        let end = ends.next();
        assert_eq!(ends.next(), None, "ended twice");
        end
    }

    /// Bytes that the receiver of an ended send took, as its sender is told.
    pub(crate) fn told_len(&mut self, node: usize, req: ReqId) -> Option<u64> {
        self.drain(node);
        self.nodes[node].events.iter().find_map(|event| match *event {
            Event::Sent { req: ended, placed_len, .. } if ended == req => Some(placed_len),
            _ => None,
        })
    }

    /// Everything a receive took, in order.
    pub(crate) fn all_got(&mut self, node: usize, req: ReqId) -> Vec<Got> {
        self.drain(node);
        let got = self.nodes[node].events.iter().filter_map(|event| match *event {
            Event::Received { req: ended, envelope, offset, placed_len, result, .. }
                if ended == req =>
            {
                Some(Got { envelope, offset, placed_len, result })
            }
            _ => None,
        });
        got.collect()
    }

    /// What a receive that is used once took, if it did.
    pub(crate) fn got(&mut self, node: usize, recv: Recv) -> Option<Got> {
        let all = self.all_got(node, recv.req);
        assert!(all.len() <= 1, "ended twice");
        all.first().copied()
    }

    /// The receive took message `tag` whole and unharmed.
    #[track_caller]
    pub(crate) fn assert_got(&mut self, node: usize, recv: Recv, tag: u64, len: usize) {
        let got = self.got(node, recv).expect("the receive ended");
        assert_eq!((got.result, got.envelope.tag, got.placed_len), (Ok(()), Tag(tag), len as u64));
        assert!(self.bytes(node, recv.buf)[..len] == pattern(tag, len), "payload of {tag}");
    }

    pub(crate) fn unlinked(&mut self, node: usize, req: ReqId) -> Option<Option<Failure>> {
        self.drain(node);
        self.nodes[node].events.iter().find_map(|event| match *event {
            Event::Unlinked { req: ended, failure, .. } if ended == req => Some(failure),
            _ => None,
        })
    }

    pub(crate) fn joins(&mut self, node: usize) -> usize {
        self.drain(node);
        self.nodes[node].events.iter().filter(|e| matches!(e, Event::Joined { .. })).count()
    }

    /// Why associations ended, in order.
    pub(crate) fn left(&mut self, node: usize) -> Vec<Option<GoneReason>> {
        self.drain(node);
        let left = self.nodes[node].events.iter().filter_map(|event| match *event {
            Event::Left { reason, .. } => Some(reason),
            _ => None,
        });
        left.collect()
    }

    /// Whether closing was clean, if it is over.
    pub(crate) fn closed(&mut self, node: usize) -> Option<bool> {
        self.drain(node);
        self.nodes[node].events.iter().find_map(|event| match *event {
            Event::Closed { clean } => Some(clean),
            _ => None,
        })
    }

    pub(crate) fn drain(&mut self, node: usize) {
        let this = &mut self.nodes[node];
        while let Some(event) = this.ep.poll_event() {
            this.events.push(event);
        }
    }
}
