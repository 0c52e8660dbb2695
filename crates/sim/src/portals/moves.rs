//! Operations on others: put, get, atomic operations, begun at once or by a counter.

use packhorse_link::sim::NodeId;
use packhorse_proto::BufId;
use packhorse_proto::portals::codes::{ack, md};
use packhorse_proto::portals::{DescriptorSpec, MoveKind, MoveSpec, PortalsError};

use super::bytes::{DATATYPES, width_of};
use super::ledger::{Op, Stage, Told};
use super::steps::{PORTAL_COUNT_MAX, draw_len};
use super::told::Due;
use super::{Lent, Run};
use crate::draw::PERCENT;

/// A descriptor and where in it, what is told, which bytes, and a copy of them.
#[derive(Clone, Copy)]
struct Brought {
    place: (u32, u64),
    told: Told,
    source: (u32, u64),
    copy: Option<BufId>,
}

/// What is expected of bytes that come back.
#[derive(Clone, Copy)]
struct Fetched {
    place: (u32, u64),
    told: Told,
    room: (BufId, u64, u64),
}

impl Run {
    fn draw_kind(&mut self) -> (MoveKind, u8, u8, u64) {
        let kind = match self.rng.below(100) {
            0..50 => MoveKind::Put,
            50..65 => MoveKind::Get,
            65..80 => MoveKind::Atomic,
            80..90 => MoveKind::FetchAtomic,
            _ => MoveKind::Swap,
        };
        if matches!(kind, MoveKind::Put | MoveKind::Get) {
            return (kind, 0, 0, draw_len(&mut self.rng));
        }
        let datatype = self.rng.pick(&DATATYPES).0;
        let op = match kind {
            MoveKind::Swap => self.rng.range(10..=17) as u8,
            _ => self.rng.range(0..=9) as u8,
        };
        let width = width_of(datatype);
        // Conditional and masked swaps are of one element.
        let count = if op > 10 { 1 } else { self.rng.range(0..=12) };
        (kind, op, datatype, width * count)
    }

    fn draw_told(&mut self, index: usize, ni: u8) -> Told {
        let mut options = 0;
        let mut perhaps = |rng: &mut crate::Rng, percent: u32, option: u32| {
            if rng.chance(percent * PERCENT) {
                options |= option;
            }
        };
        let rng = &mut self.rng;
        perhaps(rng, 40, md::EVENT_CT_SEND);
        perhaps(rng, 50, md::EVENT_CT_REPLY);
        perhaps(rng, 50, md::EVENT_CT_ACK);
        perhaps(rng, 15, md::EVENT_CT_BYTES);
        perhaps(rng, 10, md::EVENT_SUCCESS_DISABLE);
        perhaps(rng, 20, md::EVENT_SEND_DISABLE);
        let queue = self.any_queue(index, ni).filter(|_| self.rng.chance(80 * PERCENT));
        let counter = self.any_counter(index, ni).filter(|_| self.rng.chance(70 * PERCENT));
        Told { options, queue, counter }
    }

    /// Binds memory for an operation.
    fn bind(&mut self, index: usize, ni: u8, buf: BufId, len: u64, told: Told) -> u32 {
        let model = &self.processes[index].model;
        let spec = DescriptorSpec {
            buf,
            len,
            options: told.options,
            queue: told.queue.map(|queue| model.queues[queue].handle),
            counter: told.counter.map(|counter| model.counters[counter].handle),
            asks: None,
        };
        self.portals_of(index).add_descriptor(ni, spec).expect("room")
    }

    fn lend(&mut self, index: usize, buf: BufId, id: u64) {
        self.processes[index].lent.push((buf, Lent::Op(id)));
    }

    /// What an operation brings: its descriptor, its bytes, and perhaps a copy of them.
    fn bring(&mut self, index: usize, ni: u8, id: u64, len: u64) -> Brought {
        let (node, base) = (NodeId(index as u32), self.rng.range(0..=100));
        let mut source = (self.new_message(), base);
        let buf = self.world.memory(node).add_pattern(source.0, base + len);
        let told = self.draw_told(index, ni);
        self.lend(index, buf, id);
        let handle = self.bind(index, ni, buf, base + len, told);
        let mut copy = None;
        if self.rng.chance(10 * PERCENT) {
            source = (self.new_message(), 0);
            let buf = self.world.memory(node).add_pattern(source.0, len);
            self.lend(index, buf, id);
            copy = Some(buf);
        }
        Brought { place: (handle, base), told, source, copy }
    }

    /// Where bytes go that come back.
    fn fetch(&mut self, index: usize, ni: u8, id: u64, len: u64) -> Fetched {
        let (node, base) = (NodeId(index as u32), self.rng.range(0..=100));
        let buf = self.world.memory(node).add_room(base + len, 1);
        let told = self.draw_told(index, ni);
        self.lend(index, buf, id);
        let handle = self.bind(index, ni, buf, base + len, told);
        Fetched { place: (handle, base), told, room: (buf, base, base + len) }
    }

    fn new_message(&mut self) -> u32 {
        self.message_count += 1;
        self.message_count
    }

    pub(super) fn begin(&mut self, index: usize, ni: u8) {
        let node = NodeId(index as u32);
        let id = self.ledger.ops.len() as u64;
        let (kind, op, datatype, len) = self.draw_kind();
        let to = self.rng.below(self.processes.len() as u64) as u8;
        let fetches = matches!(kind, MoveKind::Get | MoveKind::FetchAtomic | MoveKind::Swap);
        let put = (kind != MoveKind::Get).then(|| self.bring(index, ni, id, len));
        let get = fetches.then(|| self.fetch(index, ni, id, len));
        let rng = &mut self.rng;
        let op = Op {
            from: (index as u8, self.processes[index].life),
            to,
            ni,
            kind,
            portal: rng.below(PORTAL_COUNT_MAX) as u32,
            bits: rng.below(4),
            offset: if rng.chance(50 * PERCENT) { 0 } else { rng.range(0..=1000) },
            len,
            ack: if fetches { ack::NONE } else { rng.below(4) as u8 },
            op,
            datatype,
            operand: [*rng.pick(&[0, 0xA5A5_A5A5_A5A5_A5A5, 0xff00_ff00_1234_00ff]), 0, 0, 0],
            source: put.map_or((0, 0), |put| put.source),
            put: put.map(|put| put.told),
            get: get.map(|get| get.told),
            fetched: get.map(|get| get.room),
            stage: Stage::Waits,
            turn: 0,
            outcome: None,
            result: Vec::new(),
            is_stained: false,
            is_delivered: false,
            waited: false,
            was_lost: false,
        };
        let spec = MoveSpec {
            ni,
            kind,
            peer: self.world.peer(node, NodeId(to.into())),
            portal: op.portal,
            bits: op.bits,
            offset: op.offset,
            len,
            header: id,
            user: id,
            ack: op.ack,
            put: put.map(|put| put.place),
            get: get.map(|get| get.place),
            op: op.op,
            datatype,
            operand: op.operand,
            copy: put.and_then(|put| put.copy),
        };
        self.post(index, op, spec);
    }

    /// Posts an operation, and compares what is said of that.
    fn post(&mut self, index: usize, mut op: Op, spec: MoveSpec) {
        let trigger = self.draw_trigger(index, spec.ni, 25);
        op.waited = trigger.is_some();
        self.note(index, || format!("begins at {trigger:?} to {}: {spec:?}", op.to));
        let is_acknowledged = match (op.ack, op.put) {
            (ack::FULL, Some(put)) => put.queue.is_some(),
            (ack::COUNTED, Some(put)) => put.counter.is_some(),
            _ => true,
        };
        self.ledger.ops.push(op);
        let model = &mut self.processes[index].model;
        let handle = trigger.map(|(counter, at)| (model.counters[counter].handle, at));
        let expected = match trigger {
            _ if !is_acknowledged => Err(PortalsError::Invalid),
            None => {
                model.due.push_back(Due::Move(spec.user));
                Ok(())
            }
            Some((counter, at)) if model.wait_for(counter, at, Due::Move(spec.user)) => Ok(()),
            Some(_) => Err(PortalsError::NoSpace),
        };
        let begun = self.portals_of(index).begin(spec, handle);
        if begun != expected {
            self.violation(index, format!("beginning was {begun:?}, not {expected:?}: {spec:?}"));
        }
        if begun.is_err() {
            self.ledger.ops[spec.user as usize].stage = Stage::Over;
        }
        // What is under way goes on without its descriptors.
        for (handle, _) in [spec.put, spec.get].into_iter().flatten() {
            match self.rng.chance(75 * PERCENT) {
                true => self.release_one(index, handle),
                false => self.processes[index].held.push(handle),
            }
        }
    }

    fn release_one(&mut self, index: usize, handle: u32) {
        if self.portals_of(index).release_descriptor(handle).is_err() {
            self.violation(index, "a descriptor could not be released");
        } else if self.portals_of(index).release_descriptor(handle).is_ok() {
            self.violation(index, "a descriptor was released twice");
        }
    }

    /// Descriptors that were kept are released.
    pub(super) fn release(&mut self, index: usize) {
        for handle in std::mem::take(&mut self.processes[index].held) {
            self.release_one(index, handle);
        }
    }
}
