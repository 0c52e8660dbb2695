//! One-sided operations, held against the books.
//!
//! Each ends once, for a reason; what ended well is in its place, what was not permitted left no trace, what was asked in
//! order happened in order, and what counts was counted once (`onesided` says how that can be told). What may have
//! happened in a former life of its target, or before an association broke, proves nothing and is not asked about.

use packhorse_link::sim::NodeId;
use packhorse_proto::{BufId, Failure, PeerId, ReqId};

use super::Oracle;
use crate::onesided::{CELL_LEN, COUNTER, Deed, LIBRARY, LIBRARY_ID, LIBRARY_LEN};
use crate::world::World;

/// An operation, as it was posted and as it ended.
#[derive(Clone, Debug)]
pub(crate) struct Operation {
    pub(crate) label: u32,
    pub(crate) from: u8,
    pub(crate) from_life: u32,
    pub(crate) to: u8,
    pub(crate) to_life: u32,
    pub(crate) deed: Deed,
    pub(crate) buf: Option<BufId>,
    pub(crate) req: ReqId,
    pub(crate) cancelled: bool,
    pub(crate) result: Option<Result<(), Failure>>,
    /// What an addition fetched.
    pub(crate) fetched: Option<u64>,
    /// In which life the target was told of its immediate.
    pub(crate) told_in: Option<u32>,
}

/// What a peer says that it put.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Told {
    pub(crate) user: u64,
    pub(crate) peer: PeerId,
    pub(crate) offset: u64,
    pub(crate) len: u64,
    pub(crate) immediate: u64,
}

impl Oracle {
    /// An operation was posted.
    pub(crate) fn on_operate(&mut self, operation: Operation) {
        self.tick();
        self.operation_order.push(operation.label);
        let index = operation.label as usize;
        if self.operations.len() <= index {
            self.operations.resize(index + 1, None);
        }
        self.operations[index] = Some(operation);
    }

    fn operation(&self, label: u32) -> &Operation {
        self.operations[label as usize].as_ref().expect("posted")
    }

    /// An operation ended.
    pub(super) fn on_operated(
        &mut self,
        world: &mut World,
        node: u8,
        (req, user, peer): (ReqId, u64, PeerId),
        result: Result<(), Failure>,
    ) {
        let to = world.node_of(NodeId(node.into()), peer);
        let Some(Some(operation)) = self.operations.get_mut(user as usize) else {
            return self.violation(format!("node {node}: Operated for #{user}, which is none"));
        };
        let is_ours = (operation.from, operation.req) == (node, req)
            && to == Some(NodeId(operation.to.into()));
        if !is_ours {
            return self.violation(format!("operation #{user} ended with another's name"));
        }
        if let Some(before) = operation.result.replace(result) {
            return self
                .violation(format!("operation #{user} ended twice: {before:?}, {result:?}"));
        }
        let operation = operation.clone();
        if !self.is_sound(&operation, result) {
            let what = format!("operation #{user} ended without reason: {result:?}, {operation:?}");
            self.violation(what);
        }
        self.standings[usize::from(node)].gave_up |= result == Err(Failure::Closing);
        if operation.cancelled {
            return; // its memory was taken back then
        }
        if let Some(buf) = operation.buf {
            if result.is_ok() {
                self.look_at(world, &operation, buf);
            }
            world.memory(NodeId(node.into())).end(buf);
        }
    }

    /// Whether an operation may end so.
    fn is_sound(&self, operation: &Operation, result: Result<(), Failure>) -> bool {
        let may_go = !self.needs_reason(operation.from, operation.to)
            || self.standings[usize::from(operation.to)].is_leaving;
        match (result, operation.deed) {
            (Err(Failure::Cancelled), _) => operation.cancelled,
            (_, _) if operation.cancelled => false,
            (Err(Failure::Denied(denial)), Deed::Forbidden { denial: expected, .. }) => {
                denial == expected
            }
            (Ok(()), Deed::Forbidden { .. }) => false,
            (Ok(()), _) => true,
            (Err(Failure::Denied(_)), _) => false,
            (Err(Failure::Closing), _) => self.standings[usize::from(operation.from)].is_leaving,
            (Err(Failure::Gone(_) | Failure::Closed | Failure::CancelledByPeer), _) => may_go,
        }
    }

    /// What an operation brought.
    fn look_at(&mut self, world: &mut World, operation: &Operation, buf: BufId) {
        let memory = world.memory(NodeId(operation.from.into()));
        let label = operation.label;
        match operation.deed {
            Deed::Get { offset, len } => {
                if let Err(wrong) = memory.verify_from(buf, 0, len, (LIBRARY_ID, offset)) {
                    self.violation(format!("get #{label}: {wrong}"));
                }
            }
            Deed::Add => {
                let number = memory.number(buf);
                if let Some(Some(operation)) = self.operations.get_mut(label as usize) {
                    operation.fetched = number;
                }
            }
            Deed::Read { len } => {
                let expected = self.cell_before(operation);
                let memory = world.memory(NodeId(operation.from.into()));
                let found = match expected {
                    Cell::Unknown => Ok(()),
                    Cell::Blank => memory.verify_blank(buf, 0, len),
                    Cell::Holds(id) => memory.verify(buf, 0, len, id),
                };
                if let Err(wrong) = found {
                    self.violation(format!("read #{label}, {expected:?} expected: {wrong}"));
                }
            }
            Deed::Put { .. } | Deed::Write { .. } | Deed::Forbidden { .. } => {}
        }
    }

    /// What an initiator's cell must hold when this operation has its turn.
    fn cell_before(&self, read: &Operation) -> Cell {
        let same_pair = |it: &&Operation| (it.from, it.to) == (read.from, read.to);
        let before = self.operation_order.iter().take_while(|&&label| label != read.label);
        let before = before.map(|&label| self.operation(label)).filter(same_pair);
        let last = before.filter(|it| matches!(it.deed, Deed::Write { .. })).last();
        self.cell_after(read, last)
    }

    fn cell_after(&self, of: &Operation, last: Option<&Operation>) -> Cell {
        let is_certain = |it: &Operation| {
            let to = &self.standings[usize::from(it.to)];
            to.life == it.to_life
                && self.is_same_life(it.from, it.from_life)
                && !self.broken[self.pair(it.from, it.to)]
                && !self.is_beset(it.from, it.to)
                && !it.cancelled
                && matches!(it.result, None | Some(Ok(())))
        };
        match last {
            _ if !is_certain(of) => Cell::Unknown,
            // Another life of the initiator may have written.
            None if of.from_life > 0 => Cell::Unknown,
            None => Cell::Blank,
            Some(last) if is_certain(last) => Cell::Holds(last.label),
            Some(_) => Cell::Unknown,
        }
    }

    /// A target was told of a put.
    pub(super) fn on_written(&mut self, world: &mut World, node: u8, told: Told) {
        let from = world.node_of(NodeId(node.into()), told.peer);
        let life = self.standings[usize::from(node)].life;
        let label = told.immediate;
        let Some(Some(operation)) = self.operations.get_mut(label as usize) else {
            return self.violation(format!("node {node} was told {told:?}, which nobody put"));
        };
        let is_put = matches!(operation.deed, Deed::Put { offset, len, has_immediate: true, .. }
            if (offset, len) == (told.offset, told.len));
        if !is_put || operation.to != node || from != Some(NodeId(operation.from.into())) {
            return self.violation(format!("node {node} was told wrongly of #{label}: {told:?}"));
        }
        if operation.told_in.replace(life) == Some(life) {
            return self.violation(format!("node {node} was told twice of #{label}"));
        }
        let id = operation.label;
        let memory = world.memory(NodeId(node.into()));
        if let Err(wrong) = memory.verify(BufId(told.user), told.offset, told.len, id) {
            self.violation(format!("node {node} was told of #{label} too early: {wrong}"));
        }
    }

    /// Operations of living nodes that have not ended.
    pub(super) fn open_operations(&self) -> impl Iterator<Item = &Operation> {
        let operations = self.operations.iter().flatten();
        operations.filter(|it| it.result.is_none() && self.is_same_life(it.from, it.from_life))
    }

    /// All is quiet: what do the regions hold? `regions` are a node's, by key.
    pub(crate) fn check_regions(&mut self, world: &mut World, node: u8, regions: &[BufId]) {
        let life = self.standings[usize::from(node)].life;
        let all: Vec<Operation> = self.operations.iter().flatten().cloned().collect();
        let mine: Vec<&Operation> = all.iter().filter(|it| it.to == node).collect();
        let region = |key: u64| regions[key as usize - 1];
        let mut wrong = Vec::new();
        let memory = world.memory(NodeId(node.into()));
        for operation in mine.iter().filter(|it| it.to_life == life) {
            let (label, is_well) = (operation.label, operation.result == Some(Ok(())));
            let Deed::Put { offset, len, has_immediate, .. } = operation.deed else { continue };
            let found = match is_well {
                true => memory.verify(region(1), offset, len, label),
                false => memory.verify_perhaps(region(1), offset, len, label),
            };
            wrong.extend(found.err().map(|what| format!("put #{label} to node {node}: {what}")));
            if is_well && has_immediate && operation.told_in != Some(life) {
                wrong.push(format!("node {node} was not told of put #{label}"));
            }
        }
        let start = memory.blank_number();
        let value = memory.number(region(COUNTER)).unwrap_or(start);
        wrong.extend(check_counter(&mine, life, value.wrapping_sub(start), start));
        let library = memory.verify(region(LIBRARY), 0, LIBRARY_LEN, LIBRARY_ID);
        let closed = memory.verify_blank(region(5), 0, 200_000);
        wrong.extend([library, closed].into_iter().filter_map(Result::err));
        for from in 0..self.standings.len() as u8 {
            let writes = self.operation_order.iter().map(|&label| self.operation(label));
            let mut writes = writes.filter(|it| {
                (it.from, it.to) == (from, node) && matches!(it.deed, Deed::Write { .. })
            });
            let Some(last) = writes.next_back() else { continue };
            let Deed::Write { len } = last.deed else { continue };
            let at = u64::from(from) * CELL_LEN;
            let memory = world.memory(NodeId(node.into()));
            if let Cell::Holds(id) = self.cell_after(last, Some(last))
                && let Err(what) = memory.verify(region(2), at, len, id)
            {
                wrong.push(format!("cell of node {from} at node {node}, last #{id}: {what}"));
            }
        }
        wrong.into_iter().for_each(|what| self.violation(what));
    }
}

/// What is known of a cell.
#[derive(Clone, Copy, Debug)]
enum Cell {
    Unknown,
    Blank,
    Holds(u32),
}

/// Additions to one counter, which was raised by `sum`: each that ended well counted once, the others at most once, and
/// nobody fetched what another did.
fn check_counter(all: &[&Operation], life: u32, sum: u64, start: u64) -> Vec<String> {
    let adds: Vec<_> = all.iter().filter(|it| it.deed == Deed::Add).collect();
    let sure = adds.iter().filter(|it| it.to_life == life && it.result == Some(Ok(())));
    let mut fetched: Vec<u64> =
        sure.clone().filter_map(|it| it.fetched).map(|it| it.wrapping_sub(start)).collect();
    fetched.sort_unstable();
    let (least, most) = (sure.count() as u64, adds.len() as u64);
    let mut wrong = Vec::new();
    if sum < least || sum > most {
        wrong.push(format!("a counter was raised by {sum}: {least} to {most} were expected"));
    }
    if fetched.windows(2).any(|two| two[0] == two[1]) || fetched.iter().any(|&it| it >= sum) {
        wrong.push(format!("additions fetched {fetched:?} of a counter raised by {sum}"));
    }
    wrong
}
