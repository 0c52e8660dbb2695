//! An endpoint's work on the memory of peers, and theirs on ours: what `rma`, `atomic` and `mr` have in common.

use std::ffi::c_int;
use std::sync::Arc;

use packhorse::raw::{
    Access, Atomic, AtomicOp, Datatype, Entry, Exposure, Kind, Memory, Notify, PeerId, Permitted,
    Put, Remote, Watcher, atomic_len_max,
};

use crate::abi::flag;
use crate::cntr::Cntr;
use crate::cq::{Done, Reader};
use crate::mr::Counters;
use crate::op::{How, Op, SILENT};
use crate::port::{Port, lock, status};
use crate::{errors, setting};

/// A place in a peer's registered memory, in libfabric's words.
#[derive(Clone, Copy, Debug)]
pub(crate) struct There {
    pub(crate) peer: u64,
    pub(crate) key: u64,
    pub(crate) offset: u64,
}

/// What an atomic operation computes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sum {
    pub(crate) op: AtomicOp,
    pub(crate) datatype: Datatype,
}

impl Sum {
    /// The operation in libfabric's numbers, which are ours, but that long doubles are not offered.
    pub(crate) fn of(datatype: c_int, op: c_int) -> Option<Self> {
        let datatype = usize::try_from(datatype).ok().filter(|&number| number <= LAST_DATATYPE)?;
        let datatype = *Datatype::ALL.get(datatype)?;
        let op = usize::try_from(op).ok().and_then(|op| AtomicOp::ALL.get(op).copied())?;
        op.takes(datatype).then_some(Self { op, datatype })
    }

    /// How many elements go at once.
    pub(crate) fn count_max(self) -> usize {
        atomic_len_max(self.op) / self.datatype.width()
    }

    /// Bytes of so many elements; `None` if they are none or too many.
    pub(crate) fn len(self, count: usize) -> Option<u32> {
        let is_possible = (1..=self.count_max()).contains(&count);
        if is_possible { u32::try_from(count * self.datatype.width()).ok() } else { None }
    }
}

/// Who may use registered memory: the peers of the address vector. `FI_PACKHORSE_RMA=any` lets everybody who has the endpoint's address,
/// which nobody finds out by himself: Open MPI 5 has its btl/ofi insert an address on the side that begins, and only there.
fn permitted() -> Permitted {
    // Another word than the two was refused when the endpoint was opened.
    if setting::RMA.is_other() == Ok(true) { Permitted::Any } else { Permitted::Named }
}

/// `FI_DOUBLE_COMPLEX`; the long doubles behind it are not offered, and our numbers mean something else there.
const LAST_DATATYPE: usize = 11;

impl There {
    fn at(&self, peer: PeerId) -> Remote {
        Remote { peer, key: self.key, offset: self.offset }
    }
}

impl Port {
    fn remote_operation(&self, how: How, kind: u64) -> Op {
        Self::operation(self.bindings.tx.as_ref(), how, kind, 0)
    }

    /// Writes to a peer's memory.
    pub(crate) fn put(
        self: &Arc<Self>,
        there: &There,
        data: Option<u64>,
        memory: Memory,
        how: How,
    ) -> isize {
        let (kind, there) = (flag::RMA | flag::WRITE, *there);
        if how.when.is_some() {
            return self.defer(how, kind, move |port, how| port.put(&there, data, memory, how));
        }
        let op = self.remote_operation(how, kind);
        self.to_peer(there.peer, op, move |port, peer, op| {
            let put = Put { to: there.at(peer), immediate: data };
            status(port.post(op, |engine, notify| {
                engine.put(put, memory, Some(notify)).map(drop).map_err(|refused| refused.error)
            }))
        })
    }

    /// Writes a copy to a peer's memory.
    pub(crate) fn put_copied(
        self: &Arc<Self>,
        there: &There,
        data: Option<u64>,
        bytes: &[u8],
    ) -> isize {
        if bytes.len() > crate::offer::INJECT_LEN_MAX {
            return -(libc::EMSGSIZE as isize);
        }
        let Ok(peer) = self.peer(there.peer) else {
            return self.put(there, data, Memory::from(bytes.to_vec()), SILENT); // once it is found
        };
        let op = self.remote_operation(SILENT, flag::RMA | flag::WRITE);
        let put = Put { to: there.at(peer), immediate: data };
        status(
            self.post(op, |engine, notify| engine.put_copied(put, bytes, Some(notify)).map(drop)),
        )
    }

    /// Reads a peer's memory.
    pub(crate) fn get(self: &Arc<Self>, there: &There, memory: Memory, how: How) -> isize {
        let (kind, there) = (flag::RMA | flag::READ, *there);
        if how.when.is_some() {
            return self.defer(how, kind, move |port, how| port.get(&there, memory, how));
        }
        let op = self.remote_operation(how, kind);
        self.to_peer(there.peer, op, move |port, peer, op| {
            status(port.post(op, |engine, notify| {
                let posted = engine.get(there.at(peer), memory, Some(notify));
                posted.map(drop).map_err(|refused| refused.error)
            }))
        })
    }

    /// Computes with a peer's memory; what was there before goes to `result`.
    pub(crate) fn atomic(
        &self,
        there: &There,
        sum: Sum,
        (operand, compare): (&[u8], &[u8]),
        result: Option<(Memory, u32)>,
        how: How,
    ) -> isize {
        let (kind, there) = (atomic_kind(result.is_some()), *there);
        let op = self.remote_operation(how, kind);
        match self.peer(there.peer) {
            Ok(peer) => self.atomic_at(there.at(peer), sum, (operand, compare), result, op),
            Err(code) => {
                let (operand, compare) = (operand.to_vec(), compare.to_vec());
                self.put_off(there.peer, op, code, move |port, peer, op| {
                    port.atomic_at(there.at(peer), sum, (&operand, &compare), result, op)
                })
            }
        }
    }

    /// Computes with a peer's memory as soon as a counter says so: the operands are read then.
    pub(crate) fn atomic_later(
        self: &Arc<Self>,
        there: &There,
        sum: Sum,
        (operand, compare): (Memory, Memory),
        result: Option<(Memory, u32)>,
        how: How,
    ) -> isize {
        let (kind, there) = (atomic_kind(result.is_some()), *there);
        self.defer(how, kind, move |port, how| {
            port.atomic(&there, sum, (&operand.copied(), &compare.copied()), result, how)
        })
    }

    fn atomic_at(
        &self,
        at: Remote,
        sum: Sum,
        (operand, compare): (&[u8], &[u8]),
        result: Option<(Memory, u32)>,
        op: Op,
    ) -> isize {
        let len = result.as_ref().map_or(operand.len() as u32, |&(_, len)| len);
        let operand = if sum.op.writes() { operand } else { &[] };
        let atomic = Atomic { at, op: sum.op, datatype: sum.datatype, len, operand, compare };
        status(self.post(op, |engine, notify| {
            let posted = engine.atomic(atomic, result.map(|(memory, _)| memory), Some(notify));
            posted.map(drop).map_err(|refused| refused.error)
        }))
    }

    /// Exposes registered memory to the peers of the address vector, and to nobody else but by the user's wish.
    pub(crate) fn expose(
        &self,
        key: u64,
        access: Access,
        memory: Memory,
        counters: &Counters,
    ) -> Result<(), c_int> {
        let notify = Some(Notify { context: WRITTEN, ..self.notify });
        let watcher = self.counts_peers().then(|| self.watcher(counters));
        let exposure = Exposure { key, access, permitted: permitted(), notify, watcher };
        match self.engine().expose(exposure, memory) {
            Ok(region) => {
                lock(&self.regions).insert(key, region);
                Ok(())
            }
            Err(refused) => Err(errors::exposure_code(refused.error)),
        }
    }

    /// Counts what peers do with registered memory: with the counters of the endpoint, and with those of the registration.
    fn watcher(&self, of_memory: &Counters) -> Watcher {
        let (own, of_memory) = (self.bindings.counters.clone(), Arc::clone(of_memory));
        Watcher(Arc::new(move |kind| {
            let what = if kind == Kind::Got { flag::REMOTE_READ } else { flag::REMOTE_WRITE };
            let counts = |counters: &[(u64, Arc<Cntr>)]| {
                let counting = counters.iter().filter(|(flags, _)| flags & what != 0);
                counting.for_each(|(_, counter)| counter.count(true));
            };
            counts(&own);
            counts(&lock(&of_memory));
        }))
    }

    /// The memory is the application's alone again.
    pub(crate) fn withdraw(&self, key: u64) {
        if let Some(region) = lock(&self.regions).remove(&key) {
            drop(self.engine().withdraw(region));
        }
    }

    /// A peer wrote to memory of ours and said so.
    pub(crate) fn on_written(&self, entry: &Entry, reader: &mut Reader<'_>) {
        let done = Done {
            flags: flag::RMA | flag::REMOTE_WRITE | flag::REMOTE_CQ_DATA,
            len: entry.len as usize,
            data: entry.immediate.unwrap_or(0),
            source: self.number_of(entry.peer),
            is_unasked: true,
            ..Done::default()
        };
        self.tell_first(done, reader);
    }
}

/// The context of entries about peers' writes: no operation has this number.
pub(crate) const WRITTEN: u64 = u64::MAX;

/// What an atomic operation is called where it comes from.
fn atomic_kind(fetches: bool) -> u64 {
    flag::ATOMIC | if fetches { flag::READ } else { flag::WRITE }
}
