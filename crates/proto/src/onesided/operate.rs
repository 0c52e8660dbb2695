//! One-sided operations, as who asks for them: put, get, atomic.
//!
//! PROTOCOL §11. An operation becomes one or several *requests*: numbered records that the peer carries out in the order of
//! their numbers, each once, and answers.
//!
//! ```text
//!   Operation ──cut──▶ Request 7 │ Request 8 │ …        a put of several frames is several requests
//!       ▲                  └── Content::Request ──▶ peer ──▶ Reply, Replied
//!       └── all answered: Operated                           (or, for much data, grants: see `transfer`)
//! ```
//!
//! Numbers are given when a request is first written, so what was never sent can be cancelled without a trace. A request is
//! sent again, the same, until it is answered: every one fits the shortest frame there may be.

use alloc::vec::Vec;

use crate::base::api::Denial;
use crate::base::api::{Event, Failure, OperationKind, Payload, PostError, Source};
use crate::base::limits::REQUEST_LEN_MAX;
use crate::base::slab::NONE;
use crate::base::types::{BufId, Instant, Memory, PeerId, Place, ReqId};
use crate::bulk::Bulk;
use crate::bulk::arrival::number_key;
use crate::bulk::outgoing::check_len;
use crate::bulk::outgoing::{Bytes, OPERATION_BIT};
use crate::bulk::transfer::{DELIVERY_BIT, Transfer};
use crate::delivery::content::Content;
use crate::delivery::frame::Frame;
use crate::onesided::Onesided;
use crate::onesided::atomic::{AtomicOp, Datatype};
use crate::onesided::records::{Deed, Form, Operation, Remote, Request};
use crate::wire::{self, Action, Lane, REPLY_OK, RequestHead};

/// A part shorter than this is not worth a request of its own, unless it is the last.
const PART_LEN_MIN: usize = 64;
/// Requests to one peer that are not answered yet.
pub(crate) const REQUEST_COUNT_MAX: u16 = 1024;

/// A put: bytes go into a peer's memory.
#[derive(Clone, Copy, Debug)]
pub struct PutSpec<'a> {
    /// Where to.
    pub to: Remote,
    /// The bytes.
    pub payload: Payload<'a>,
    /// 64 bits for whoever owns the region: told there when all bytes are in their place.
    pub immediate: Option<u64>,
    /// Returned in the event.
    pub user: u64,
}

/// A get: bytes come out of a peer's memory.
#[derive(Clone, Copy, Debug)]
pub struct GetSpec {
    /// Where from.
    pub from: Remote,
    /// Where to.
    pub buf: BufId,
    /// How many.
    pub len: u64,
    /// Returned in the event.
    pub user: u64,
}

/// An atomic operation on elements in a peer's memory.
#[derive(Clone, Copy, Debug)]
pub struct AtomicSpec<'a> {
    /// Where they are.
    pub at: Remote,
    /// What is done.
    pub op: AtomicOp,
    /// What they are.
    pub datatype: Datatype,
    /// Bytes of all elements: [`atomic_len_max`] at most.
    pub len: u32,
    /// So many bytes for the operation; none for [`AtomicOp::Read`]. Copied.
    pub operand: &'a [u8],
    /// So many bytes to compare with, if the operation compares; else none. Copied.
    pub compare: &'a [u8],
    /// Where to put what was there before, if that is wanted.
    pub result: Option<BufId>,
    /// Returned in the event.
    pub user: u64,
}

/// Bytes that the elements of one atomic operation may have.
pub const fn atomic_len_max(op: AtomicOp) -> usize {
    if op.compares() { REQUEST_LEN_MAX / 2 } else { REQUEST_LEN_MAX }
}

impl Onesided {
    pub(crate) fn put(
        &mut self,
        bulk: &mut Bulk,
        now: Instant,
        spec: PutSpec<'_>,
    ) -> Result<ReqId, PostError> {
        self.may_operate(bulk, spec.to.peer)?;
        let (bytes, total) = match spec.payload {
            Payload::InPlace { buf, len } => {
                check_len(len, wire::TOTAL_MAX)?;
                (Bytes::User(buf), len)
            }
            Payload::Copied(bytes) => {
                check_len(bytes.len() as u64, bulk.peers.settings.put_parts_len_max().into())?;
                (bulk.copy_payload(bytes)?, bytes.len() as u64)
            }
        };
        let deed = Deed::Put { bytes, immediate: spec.immediate };
        Ok(self.operate(bulk, now, deed, spec.to, total, spec.user))
    }

    pub(crate) fn get(
        &mut self,
        bulk: &mut Bulk,
        now: Instant,
        spec: GetSpec,
    ) -> Result<ReqId, PostError> {
        self.may_operate(bulk, spec.from.peer)?;
        check_len(spec.len, wire::TOTAL_MAX)?;
        Ok(self.operate(bulk, now, Deed::Get { buf: spec.buf }, spec.from, spec.len, spec.user))
    }

    pub(crate) fn atomic(
        &mut self,
        bulk: &mut Bulk,
        now: Instant,
        spec: AtomicSpec<'_>,
    ) -> Result<ReqId, PostError> {
        self.may_operate(bulk, spec.at.peer)?;
        let AtomicSpec { op, datatype, len, operand, compare, result, .. } = spec;
        let wanted = |is_wanted: bool| if is_wanted { len as usize } else { 0 };
        let makes_sense = op.takes(datatype)
            && len > 0
            && (len as usize).is_multiple_of(datatype.width())
            && len as usize <= atomic_len_max(op)
            && operand.len() == wanted(op.writes())
            && compare.len() == wanted(op.compares());
        if !makes_sense {
            return Err(PostError::BadAtomic);
        }
        let pool_len = operand.len() + compare.len();
        let copied = bulk.copy_pieces(pool_len, &[operand, compare]);
        let pool = copied.ok_or(PostError::PoolFull)?;
        let deed = Deed::Atomic { op, datatype, pool, pool_len: pool_len as u16, result };
        Ok(self.operate(bulk, now, deed, spec.at, len.into(), spec.user))
    }

    pub(crate) fn may_operate(&self, bulk: &Bulk, peer: PeerId) -> Result<(), PostError> {
        match bulk.peers.rows.known(peer) {
            _ if bulk.peers.is_closing() => Err(PostError::Closing),
            None => Err(PostError::UnknownPeer),
            Some(_) => Ok(()),
        }
    }

    fn operate(
        &mut self,
        bulk: &mut Bulk,
        now: Instant,
        deed: Deed,
        to: Remote,
        total: u64,
        user: u64,
    ) -> ReqId {
        self.operate_for(bulk, now, (deed, 0), (to, total, user), NONE)
    }

    /// Begins an operation. One of Portals may begin anywhere in its memory.
    pub(crate) fn operate_for(
        &mut self,
        bulk: &mut Bulk,
        now: Instant,
        (deed, base): (Deed, u64),
        (to, total, user): (Remote, u64, u64),
        launch: u32,
    ) -> ReqId {
        let row = to.peer.row();
        if !bulk.peers.rows[row].is_awake() {
            bulk.peers.wake(now, row);
        }
        let (slot, key) = self.operations.insert_keyed(Operation {
            deed,
            to,
            total,
            user,
            cut_len: 0,
            is_cut: false,
            open_count: 0,
            failure: None,
            launch,
            base,
        });
        let serial = self.operations.serial(slot);
        let active = bulk.peers.rows[row].active();
        let side = bulk.peers.actives[active].side_mut();
        side.on_operation(slot, serial);
        bulk.peers.counters.operations_out += 1;
        bulk.peers.queue_requests(row);
        ReqId(key | OPERATION_BIT)
    }

    /// Writes requests, what was lost first, within window and number. True if none is left that could go.
    pub(crate) fn write_requests(
        &mut self,
        bulk: &mut Bulk,
        now: Instant,
        row: u32,
        index: usize,
        frame: &mut Frame<'_>,
    ) -> bool {
        let active = bulk.peers.rows[row].active();
        if !bulk.peers.actives[active].has_side() {
            return true;
        }
        if !bulk.peers.actives[active].paths[index].has_window() {
            return false;
        }
        while let Some((slot, serial)) = bulk.peers.actives[active].side_mut().first_lost() {
            if self.requests.holds(slot, serial)
                && !self.write_request(bulk, row, index, slot, frame)
            {
                return false;
            }
            bulk.peers.actives[active].side_mut().on_resent();
        }
        loop {
            let side = bulk.peers.actives[active].side_mut();
            let Some((slot, serial)) = side.first_waiting() else { return true };
            if !self.operations.holds(slot, serial) || self.operations[slot].is_cut {
                side.on_cut();
                continue;
            }
            if side.request_count() >= REQUEST_COUNT_MAX.into() {
                return true; // the next answer queues them again
            }
            let Some((form, len)) = self.next_cut(bulk, slot, frame) else { return false };
            let request = self.cut(bulk, row, slot, form, len);
            let is_written = self.write_request(bulk, row, index, request, frame);
            debug_assert!(is_written, "cut to fit");
            self.start_get(bulk, now, request);
        }
    }

    /// What the next request of an operation is, if there is room for it in the frame: form and bytes.
    fn next_cut(&self, bulk: &Bulk, slot: u32, frame: &Frame<'_>) -> Option<(Form, u32)> {
        let operation = &self.operations[slot];
        if operation.launch != NONE {
            return self.next_matched_cut(operation.launch, frame);
        }
        let left = operation.total - operation.cut_len;
        let room = frame.room();
        let immediate = match operation.deed {
            Deed::Get { .. } => {
                return (wire::get_head_len() <= room).then_some((Form::Other, 0));
            }
            Deed::Atomic { pool_len, .. } => {
                let len = wire::atomic_head_len() + usize::from(pool_len);
                return (len <= room).then_some((Form::Other, 0));
            }
            Deed::Put { immediate, .. } => immediate.is_some(),
        };
        if operation.total <= REQUEST_LEN_MAX as u64 {
            let len = wire::put_head_len(immediate) + left as usize;
            return (len <= room).then_some((Form::Whole, left as u32));
        }
        if operation.total > u64::from(bulk.peers.settings.put_parts_len_max()) {
            let len = wire::put_ask_head_len(immediate);
            return (len <= room).then_some((Form::Ask, 0));
        }
        let room = room.checked_sub(wire::put_part_head_len(immediate))?.min(REQUEST_LEN_MAX);
        let len = left.min(room as u64);
        (len == left || len >= PART_LEN_MIN as u64).then_some((Form::Part, len as u32))
    }

    /// Makes the next request of an operation and gives it a number.
    fn cut(&mut self, bulk: &mut Bulk, row: u32, slot: u32, form: Form, len: u32) -> u32 {
        let operation = &mut self.operations[slot];
        let offset = operation.cut_len;
        operation.cut_len += u64::from(len);
        operation.is_cut = form != Form::Part || operation.cut_len == operation.total;
        operation.open_count += 1;
        let number = bulk.peers.rows[row].requests.post();
        bulk.peers.active_of_mut(row).side_mut().on_request();
        let request = Request { operation: slot, row, number, offset, len, form, transfer: NONE };
        let request = self.requests.insert(request);
        self.requests_by_number.insert(number_key(row, number as u32), request);
        request
    }

    /// Writes a request; false if there is no room.
    fn write_request(
        &mut self,
        bulk: &mut Bulk,
        row: u32,
        index: usize,
        slot: u32,
        frame: &mut Frame<'_>,
    ) -> bool {
        let (head, body) = self.request_head(slot);
        let len = body.map_or(0, |(_, len)| len);
        if head.head_len() + len > frame.room() {
            return false;
        }
        frame.writer.request(&head);
        if let Some((source, len)) = body {
            frame.push_body(source, len);
        }
        let serial = self.requests.serial(slot);
        let active = bulk.peers.active_of_mut(row);
        active.paths[index].add(Content::Request { slot, serial });
        true
    }

    /// What a request says, and where its body is.
    fn request_head(&self, slot: u32) -> (RequestHead, Option<(Source, usize)>) {
        let request = &self.requests[slot];
        let operation = &self.operations[request.operation];
        if operation.launch != NONE {
            return self.matched_head(operation.launch, request.number, request.form);
        }
        let (total, offset, len) = (operation.total, request.offset, request.len);
        let (action, body) = match (operation.deed, request.form) {
            (Deed::Put { immediate, .. }, Form::Ask) => (Action::Ask { total, immediate }, None),
            (Deed::Put { bytes, immediate }, form) => {
                let body = Some((bytes.source(offset), len as usize));
                let is_last = offset + u64::from(len) == total;
                let immediate = immediate.filter(|_| is_last);
                let (total, len) = (total as u32, len as u16);
                match form {
                    Form::Part => {
                        (Action::Part { offset: offset as u32, total, immediate, len }, body)
                    }
                    _ => (Action::Put { immediate, len }, body),
                }
            }
            (Deed::Get { .. }, _) => (Action::Get { total }, None),
            (Deed::Atomic { op, datatype, pool, pool_len, result }, _) => {
                let (op, datatype, fetch) = (op as u8, datatype as u8, result.is_some());
                let body = Some((Bytes::Pool(pool).source(0), usize::from(pool_len)));
                let total = total as u32;
                (Action::Atomic { op, datatype, fetch, total, len: pool_len }, body)
            }
        };
        let Remote { key, offset: target, .. } = operation.to;
        (RequestHead { number: request.number as u32, key, target, action }, body)
    }

    /// A get of more than fits a reply was written: its bytes are granted right behind it.
    fn start_get(&mut self, bulk: &mut Bulk, now: Instant, slot: u32) {
        let request = &self.requests[slot];
        let operation = &self.operations[request.operation];
        let Deed::Get { buf } = operation.deed else { return };
        // One of Portals hears first how many there are.
        if operation.total > REQUEST_LEN_MAX as u64 && operation.launch == NONE {
            let transfer = Transfer {
                lane: Lane::Get,
                row: request.row,
                number: request.number as u32,
                total: operation.total,
                immediate: None,
                to: Place { buf, offset: 0 },
                owner: slot.into(),
            };
            self.requests[slot].transfer = bulk.start_transfer(now, &transfer);
        }
    }

    /// A request was lost on its way.
    pub(crate) fn on_request_lost(&mut self, bulk: &mut Bulk, row: u32, slot: u32, serial: u32) {
        if self.requests.holds(slot, serial) {
            let active = bulk.peers.active_of_mut(row);
            active.side_mut().on_lost(slot, serial);
            bulk.peers.queue_requests(row);
        }
    }

    /// The peer carried out so many requests, from `first` on, that asked for nothing.
    pub(crate) fn on_replied(&mut self, bulk: &mut Bulk, row: u32, first: u32, count: u16) {
        // Nobody has more to tell.
        let count = u32::from(count.min(REQUEST_COUNT_MAX));
        for number in (0..count).map(|at| first.wrapping_add(at)) {
            let found = self.requests_by_number.get(&number_key(row, number)).copied();
            let Some(slot) = found else { continue };
            let operation = &self.operations[self.requests[slot].operation];
            let asks_nothing = match operation.deed {
                Deed::Put { .. } => true,
                Deed::Get { .. } => operation.total == 0,
                Deed::Atomic { result, .. } => result.is_none(),
            };
            if asks_nothing {
                self.end_request(bulk, slot, Ok(()));
            }
        }
    }

    /// The peer answers a request.
    pub(crate) fn on_reply(
        &mut self,
        bulk: &mut Bulk,
        row: u32,
        number: u32,
        status: u8,
        body: &[u8],
        memory: &mut impl Memory,
    ) {
        let found = self.requests_by_number.get(&number_key(row, number)).copied();
        let Some(slot) = found else { return };
        if status != REPLY_OK {
            let denial = Denial::of_status(status);
            return self.end_request(bulk, slot, Err(Failure::Denied(denial)));
        }
        let operation = &self.operations[self.requests[slot].operation];
        if operation.launch != NONE {
            return; // that has answers of its own
        }
        let place = match operation.deed {
            Deed::Get { buf } => Some(buf),
            Deed::Atomic { result, .. } => result,
            Deed::Put { .. } => None,
        };
        let Some(buf) = place.filter(|_| body.len() as u64 == operation.total) else {
            return; // no answer to what was asked
        };
        bulk.peers.counters.bytes_placed += body.len() as u64;
        memory.place(Place { buf, offset: 0 }, body);
        self.end_request(bulk, slot, Ok(()));
    }

    /// A request is over.
    pub(crate) fn end_request(&mut self, bulk: &mut Bulk, slot: u32, result: Result<(), Failure>) {
        let request = self.drop_request(bulk, slot);
        let operation = &mut self.operations[request.operation];
        if let Err(failure) = result {
            operation.failure.get_or_insert(failure);
            operation.is_cut = true; // what was not sent need not be
        }
        if operation.is_cut && operation.open_count == 0 {
            self.end_operation(bulk, request.operation);
        }
        let side = bulk.peers.active_of_mut(request.row).side_mut();
        if side.has_waiting() {
            bulk.peers.queue_requests(request.row);
        }
    }

    fn drop_request(&mut self, bulk: &mut Bulk, slot: u32) -> Request {
        let request = self.requests.remove(slot);
        self.requests_by_number.remove(&number_key(request.row, request.number as u32));
        self.operations[request.operation].open_count -= 1;
        bulk.peers.active_of_mut(request.row).side_mut().on_request_over();
        match (request.transfer, request.form) {
            (NONE, _) => {}
            (supply, Form::Ask) => {
                bulk.end_supply(supply);
            }
            (arrival, _) => {
                bulk.end_transfer(arrival);
            }
        }
        request
    }

    fn end_operation(&mut self, bulk: &mut Bulk, slot: u32) {
        let req = ReqId(self.operations.key(slot) | OPERATION_BIT);
        let Operation { deed, to, total, user, failure, launch, .. } = self.operations.remove(slot);
        if let Deed::Atomic { pool, .. } | Deed::Put { bytes: Bytes::Pool(pool), .. } = deed {
            bulk.drop_copy(pool);
        }
        let active = bulk.peers.rows[to.peer.row()].active();
        bulk.peers.actives[active].side_mut().on_operation_over();
        if launch != NONE {
            return self.end_launch(bulk, launch, failure.is_some());
        }
        let kind = match deed {
            Deed::Put { .. } => OperationKind::Put,
            Deed::Get { .. } => OperationKind::Get,
            Deed::Atomic { .. } => OperationKind::Atomic,
        };
        let (peer, len, result) = (to.peer, total, failure.map_or(Ok(()), Err));
        bulk.peers.events.tell(Event::Operated { req, user, peer, kind, len, result });
    }

    /// Cancels an operation. What the peer has heard of it may be done or not.
    pub(crate) fn cancel_operation(&mut self, bulk: &mut Bulk, req: ReqId) -> bool {
        self.cancel_keyed(bulk, req.0 & !OPERATION_BIT)
    }

    pub(crate) fn cancel_keyed(&mut self, bulk: &mut Bulk, key: u64) -> bool {
        let Some(slot) = self.operations.lookup(key) else { return false };
        let row = self.operations[slot].to.peer.row();
        for request in self.requests_of(slot) {
            let number = self.drop_request(bulk, request).number as u32;
            bulk.peers.notify(row, Content::End { number });
        }
        self.operations[slot].failure = Some(Failure::Cancelled);
        self.end_operation(bulk, slot);
        true
    }

    fn requests_of(&self, operation: u32) -> Vec<u32> {
        let requests = self.requests.iter();
        requests
            .filter(|(_, request)| request.operation == operation)
            .map(|(slot, _)| slot)
            .collect()
    }

    /// An association ends: so do its operations, as they were posted.
    pub(crate) fn end_operations(&mut self, bulk: &mut Bulk, row: u32, failure: Failure) {
        let active = bulk.peers.rows[row].active();
        if active == NONE || !bulk.peers.actives[active].has_side() {
            return;
        }
        self.is_parting = true;
        self.drop_served(bulk, row);
        let requests = self.requests.iter().filter(|(_, request)| request.row == row);
        let mut requests: Vec<(u64, u32)> =
            requests.map(|(slot, request)| (request.number, slot)).collect();
        requests.sort_unstable();
        let mut operations = Vec::new();
        for (_, slot) in requests {
            let operation = self.drop_request(bulk, slot).operation;
            if self.operations[operation].open_count == 0 {
                operations.push((operation, self.operations.serial(operation)));
            }
        }
        operations.extend(bulk.peers.actives[active].side_mut().take_waiting());
        for (slot, serial) in operations {
            if self.operations.holds(slot, serial) {
                self.operations[slot].failure = Some(failure);
                self.end_operation(bulk, slot);
            }
        }
        let (came, left) = bulk.drop_transfers(row);
        for owner in came {
            self.fail_delivery(bulk, owner);
        }
        for owner in left {
            // Who said goodbye has all that it wanted of a get of Portals, though its word on that may be lost.
            if failure == Failure::Closed && owner & DELIVERY_BIT != 0 {
                self.end_delivery(bulk, owner);
            } else {
                self.fail_delivery(bulk, owner);
            }
        }
        self.is_parting = false;
    }
}
