//! One-sided operations, posted call by call, and the oracle books.

use packhorse_link::sim::NodeId;
use packhorse_proto::{
    AtomicOp, AtomicSpec, BufId, Datatype, GetSpec, Payload, PostError, PutSpec, Remote, ReqId,
};

use super::Player;
use crate::onesided::{Deed, Operate};
use crate::oracle::Operation;
use crate::pattern;

impl Player<'_> {
    pub(super) fn operate(&mut self, node: u8, operate: &Operate) {
        let Operate { label, to, deed } = *operate;
        let (from, target) = (NodeId(node.into()), NodeId(to.into()));
        let (key, offset) = deed.place(node);
        let remote = Remote { peer: self.world.peer(from, target), key, offset };
        self.note_of(node, || format!("operates #{label} on node {to}: {deed:?}"));
        let (req, buf) = match self.post_operation(from, operate, remote) {
            Ok(posted) => posted,
            Err(PostError::PoolFull) => {
                self.stats.pool_full_count += 1;
                return;
            }
            Err(error) => return self.oracle.violation(format!("operation #{label}: {error:?}")),
        };
        self.stats.operation_count += 1;
        self.oracle.on_operate(Operation {
            label,
            from: node,
            from_life: self.world.life(from),
            to,
            to_life: self.world.life(target),
            deed,
            buf,
            req,
            cancelled: false,
            result: None,
            fetched: None,
            told_in: None,
        });
    }

    fn post_operation(
        &mut self,
        from: NodeId,
        operate: &Operate,
        remote: Remote,
    ) -> Result<(ReqId, Option<BufId>), PostError> {
        let Operate { label, deed, .. } = *operate;
        let (now, user) = (self.world.now(), u64::from(label));
        let put = |payload, immediate| PutSpec { to: remote, payload, immediate, user };
        match deed {
            Deed::Put { len, has_immediate, is_copied: true, .. } => {
                let mut bytes = vec![0; len as usize];
                pattern::fill(label, 0, &mut bytes);
                let spec = put(Payload::Copied(&bytes), has_immediate.then_some(user));
                Ok((self.world.endpoint_mut(from).put(now, spec)?, None))
            }
            Deed::Put { len, .. }
            | Deed::Write { len }
            | Deed::Forbidden { len, is_get: false, .. } => {
                let is_told = matches!(deed, Deed::Put { has_immediate: true, .. });
                let buf = self.world.memory(from).add_pattern(label, len);
                let spec = put(Payload::InPlace { buf, len }, is_told.then_some(user));
                Ok((self.world.endpoint_mut(from).put(now, spec)?, Some(buf)))
            }
            Deed::Get { len, .. } | Deed::Read { len } | Deed::Forbidden { len, .. } => {
                let buf = self.world.memory(from).add_room(len, 1);
                let spec = GetSpec { from: remote, buf, len, user };
                Ok((self.world.endpoint_mut(from).get(now, spec)?, Some(buf)))
            }
            Deed::Add => {
                let buf = self.world.memory(from).add_room(8, 1);
                let spec = AtomicSpec {
                    at: remote,
                    op: AtomicOp::Sum,
                    datatype: Datatype::U64,
                    len: 8,
                    operand: &1_u64.to_le_bytes(),
                    compare: &[],
                    result: Some(buf),
                    user,
                };
                Ok((self.world.endpoint_mut(from).atomic(now, spec)?, Some(buf)))
            }
        }
    }
}
