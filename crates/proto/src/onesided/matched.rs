//! Operations of Portals, carried by one-sided ones: requests that are matched at the target, and what answers them.
//!
//! PROTOCOL §17. What matches, what is told and what is set off is in `portals`; here its operations become requests (`operate`), and
//! requests of peers become deliveries (`serve`), whose bytes move as those of any put or get do.
//!
//! ```text
//!   due ──▶ launch ──▶ Request (Matched) ──▶ carry_out_matched ──▶ arrive: a place, or a refusal
//!                                                  │ bytes beside it, or granted (`transfer`)
//!   completed ◀── Outcome, Replied ◀───────────────┴── delivered
//! ```

use alloc::vec::Vec;

use crate::base::api::Source;
use crate::base::limits::MATCHED_LEN_MAX;
use crate::base::slab::NONE;
use crate::base::types::{Instant, Memory, Place};
use crate::bulk::Bulk;
use crate::bulk::arrival::number_key;
use crate::bulk::outgoing::Bytes;
use crate::bulk::transfer::{DELIVERY_BIT, Ended, Supply, Transfer};
use crate::delivery::frame::Frame;
use crate::onesided::Onesided;
use crate::onesided::atomic::combine;
use crate::onesided::portals::arithmetic::{self, datatype_of, op_of};
use crate::onesided::portals::codes::fail;
use crate::onesided::portals::{Asked, Incoming, MoveKind, Outcome, Taken};
use crate::onesided::records::{Answer, Deed, Form, Remote};
use crate::wire::{
    Action, Lane, Matched, MatchedKind, OutcomeRepr, REPLY_OK, RequestHead, matched_head_len,
};

impl Onesided {
    /// Begins what is due.
    pub(crate) fn run_portals(&mut self, bulk: &mut Bulk, now: Instant) {
        self.portals_now = now;
        self.run_due(bulk);
    }

    /// Begins what is due, where the time is not at hand. Mostly nothing is: each put asks twice.
    #[inline]
    pub(crate) fn run_due(&mut self, bulk: &mut Bulk) {
        if self.portals.may_have_due() {
            self.run_all_due(bulk);
        }
    }

    #[inline(never)]
    fn run_all_due(&mut self, bulk: &mut Bulk) {
        while !self.is_parting
            && let Some(launch) = self.portals.next_due()
        {
            self.launch(bulk, launch);
        }
    }

    fn launch(&mut self, bulk: &mut Bulk, launch: u32) {
        self.portals.launch(launch);
        let this = self.portals.launched(launch);
        let spec = this.spec();
        let to = Remote { peer: spec.peer, key: spec.bits, offset: spec.offset };
        let about = (to, spec.len, spec.user);
        let deed = match this.fetched() {
            Some(place) => (Deed::Get { buf: place.buf }, place.offset),
            None => {
                let Place { buf, offset } = this.sent();
                (Deed::Put { bytes: Bytes::User(buf), immediate: None }, offset)
            }
        };
        if !self.portals.has_memory(launch) {
            return self.portals.completed(launch, Some(fail::SEGV));
        }
        if self.may_operate(bulk, to.peer).is_err() {
            return self.portals.completed(launch, Some(fail::UNDELIVERABLE));
        }
        let now = self.portals_now;
        self.operate_for(bulk, now, deed, about, launch);
    }

    /// An operation of Portals is over; with a failure, if it got no answer.
    pub(crate) fn end_launch(&mut self, bulk: &mut Bulk, launch: u32, has_failed: bool) {
        self.portals.completed(launch, has_failed.then_some(fail::UNDELIVERABLE));
        self.run_due(bulk);
    }

    /// In which form the request of an operation of Portals goes, if there is room for it.
    pub(crate) fn next_matched_cut(&self, launch: u32, frame: &Frame<'_>) -> Option<(Form, u32)> {
        let (spec, room) = (self.portals.launched(launch).spec(), frame.room());
        let has_operand = spec.kind == MoveKind::Swap && arithmetic::compares(spec.op);
        let head_len = matched_head_len(has_operand);
        let (form, len) = match spec.kind {
            MoveKind::Put if spec.len > MATCHED_LEN_MAX as u64 => (Form::Ask, 0),
            MoveKind::Put => (Form::Whole, spec.len as u32),
            MoveKind::Get => return (head_len <= room).then_some((Form::Other, 0)),
            _ => {
                let len = head_len + spec.len as usize;
                return (len <= room).then_some((Form::Other, 0));
            }
        };
        (head_len + len as usize <= room).then_some((form, len))
    }

    /// What such a request says, and where its body is.
    pub(crate) fn matched_head(
        &self,
        launch: u32,
        number: u64,
        form: Form,
    ) -> (RequestHead, Option<(Source, usize)>) {
        let this = self.portals.launched(launch);
        let spec = this.spec();
        let (kind, len) = match spec.kind {
            MoveKind::Put if form == Form::Ask => (MatchedKind::Ask, 0),
            MoveKind::Put => (MatchedKind::Put, spec.len as u16),
            MoveKind::Get => (MatchedKind::Get, 0),
            MoveKind::Atomic => (MatchedKind::Atomic, spec.len as u16),
            MoveKind::FetchAtomic | MoveKind::Swap => (MatchedKind::Fetch, spec.len as u16),
        };
        let has_operand = spec.kind == MoveKind::Swap && arithmetic::compares(spec.op);
        let (initiator, uid) = self.portals.own(spec.ni);
        let matched = Matched {
            kind,
            ni: spec.ni,
            ack: spec.ack,
            op: spec.op,
            datatype: spec.datatype,
            len,
            portal: spec.portal,
            uid,
            total: spec.len,
            header: spec.header,
            initiator,
            operand: has_operand.then_some(spec.operand),
        };
        let body = (len > 0).then(|| {
            let Place { buf, offset } = this.sent();
            (Bytes::User(buf).source(offset), usize::from(len))
        });
        let (key, target, action) = (spec.bits, spec.offset, Action::Matched(matched));
        (RequestHead { number: number as u32, key, target, action }, body)
    }

    /// The peer says what became of a request that it matched.
    pub(crate) fn on_outcome(
        &mut self,
        bulk: &mut Bulk,
        now: Instant,
        (row, number): (u32, u32),
        answer: &OutcomeRepr,
        body: &[u8],
        memory: &mut impl Memory,
    ) {
        self.portals_now = now;
        let found = self.requests_by_number.get(&number_key(row, number)).copied();
        let Some(slot) = found else { return };
        let request = &self.requests[slot];
        let launch = self.operations[request.operation].launch;
        if launch == NONE {
            return;
        }
        let &OutcomeRepr { fail, list, moved_len, offset, follows } = answer;
        let this = self.portals.launched(launch);
        let (asked_len, fetched) = (this.spec().len, this.fetched());
        if moved_len > asked_len {
            return; // no answer to what was asked
        }
        self.portals.set_outcome(launch, Outcome { fail, len: moved_len, offset, list });
        if let Some(to) = fetched {
            if follows && request.transfer == NONE && moved_len > 0 {
                let (lane, immediate, owner) = (Lane::Get, None, slot.into());
                let total = moved_len;
                let transfer = Transfer { lane, row, number, total, immediate, to, owner };
                self.requests[slot].transfer = bulk.start_transfer(now, &transfer);
            }
            if follows {
                return;
            }
            if body.len() as u64 > moved_len {
                return;
            }
            if !body.is_empty() {
                bulk.peers.counters.bytes_placed += body.len() as u64;
                memory.place(to, body);
            }
        }
        self.end_request(bulk, slot, Ok(()));
        self.run_due(bulk);
    }

    /// Does what a request asks for, where an entry matches it, and answers.
    pub(crate) fn carry_out_matched(
        &mut self,
        bulk: &mut Bulk,
        (now, row): (Instant, u32),
        (head, matched): (&RequestHead, &Matched),
        body: &[u8],
        result: u32,
        memory: &mut impl Memory,
    ) {
        self.portals_now = now;
        let arrived = self.portals.arrive(&self.incoming(bulk, row, head, matched));
        let taken = match arrived {
            Ok(taken) => taken,
            Err(fail) => {
                self.release_result(result);
                let answer = OutcomeRepr { fail, ..outcome_of(None) };
                return self.answer_matched(bulk, row, head.number, matched, &answer, (NONE, 0));
            }
        };
        let writes = !matches!(matched.kind, MatchedKind::Get);
        if taken.is_whole && taken.len > 0 && !memory.reaches(taken.place, taken.len, writes) {
            self.release_result(result);
            let answer = OutcomeRepr { fail: fail::SEGV, ..outcome_of(None) };
            self.portals.delivered(taken.delivery, fail::SEGV);
            return self.answer_matched(bulk, row, head.number, matched, &answer, (NONE, 0));
        }
        self.portals.set_ack(taken.delivery, matched.ack);
        let number = head.number;
        match matched.kind {
            MatchedKind::Put => {
                self.place_put(
                    bulk,
                    memory,
                    taken.place,
                    &body[..body.len().min(taken.len as usize)],
                );
                self.deliver(bulk, row, number, matched, &taken, (NONE, 0));
            }
            MatchedKind::Ask if taken.len > 0 => {
                let (lane, immediate, owner) =
                    (Lane::Put, None, DELIVERY_BIT | u64::from(taken.delivery));
                let (total, to) = (taken.len, taken.place);
                let transfer = Transfer { lane, row, number, total, immediate, to, owner };
                bulk.start_transfer(now, &transfer);
            }
            MatchedKind::Ask => self.deliver(bulk, row, number, matched, &taken, (NONE, 0)),
            MatchedKind::Get if matched.total <= MATCHED_LEN_MAX as u64 => {
                self.fetch_some(taken.place, taken.len as usize, result, memory);
                self.deliver(bulk, row, number, matched, &taken, (result, taken.len as u16));
            }
            MatchedKind::Get if taken.len > 0 => {
                let whole = bulk.peers.rows[row].requests.whole(number);
                let (name, owner) =
                    ((Lane::Get, row, whole), DELIVERY_BIT | u64::from(taken.delivery));
                let Place { buf, offset } = taken.place;
                bulk.start_supply(name, (Bytes::User(buf), offset), taken.len, owner);
                let answer = OutcomeRepr { follows: true, ..outcome_of(Some(&taken)) };
                // Served until the peer says that it has all: the word on it is not counted.
                self.count_served(bulk, row);
                self.notify_answer(bulk, Answer::matched(row, number, &answer, (NONE, 0)));
            }
            MatchedKind::Get => self.deliver(bulk, row, number, matched, &taken, (result, 0)),
            MatchedKind::Atomic | MatchedKind::Fetch => {
                let len = self.compute_matched(matched, &taken, body, result, memory);
                match len {
                    Some(len) => self.deliver(bulk, row, number, matched, &taken, (result, len)),
                    None => {
                        self.release_result(result);
                        self.portals.delivered(taken.delivery, fail::OP_VIOLATION);
                        let answer = OutcomeRepr { fail: fail::OP_VIOLATION, ..outcome_of(None) };
                        self.answer_matched(bulk, row, number, matched, &answer, (NONE, 0));
                    }
                }
            }
        }
        self.run_due(bulk);
    }

    fn incoming(&self, bulk: &Bulk, row: u32, head: &RequestHead, matched: &Matched) -> Incoming {
        let asked = match matched.kind {
            MatchedKind::Put | MatchedKind::Ask => Asked::Put,
            MatchedKind::Get => Asked::Get,
            MatchedKind::Atomic => Asked::Atomic,
            MatchedKind::Fetch => Asked::FetchAtomic,
        };
        Incoming {
            ni: matched.ni,
            portal: matched.portal,
            asked,
            bits: head.key,
            initiator: matched.initiator,
            uid: matched.uid,
            len: matched.total,
            offset: head.target,
            header: matched.header,
            op: matched.op,
            datatype: matched.datatype,
            is_trusted: bulk.peers.rows[row].is_named() || !bulk.peers.settings.is_address_given(),
        }
    }

    /// The bytes of a request are in their place: that is told, and answered.
    fn deliver(
        &mut self,
        bulk: &mut Bulk,
        row: u32,
        number: u32,
        matched: &Matched,
        taken: &Taken,
        result: (u32, u16),
    ) {
        self.portals.delivered(taken.delivery, fail::OK);
        if taken.is_as_asked && !matched.kind.fetches() {
            return self.reply_done(bulk, row, number);
        }
        self.answer_matched(bulk, row, number, matched, &outcome_of(Some(taken)), result);
    }

    fn answer_matched(
        &mut self,
        bulk: &mut Bulk,
        row: u32,
        number: u32,
        matched: &Matched,
        answer: &OutcomeRepr,
        result: (u32, u16),
    ) {
        if !matched.kind.fetches() && matched.ack == 0 {
            return self.reply_done(bulk, row, number);
        }
        self.notify_answer(bulk, Answer::matched(row, number, answer, result));
    }

    fn fetch_some(&mut self, from: Place, len: usize, result: u32, memory: &mut impl Memory) {
        if len > 0 && result != NONE {
            let out = self.results.bytes_mut(result);
            memory.update(from, len, 1, &mut |there| {
                out[..len].copy_from_slice(there);
                false
            });
        }
    }

    /// Bytes of its result; `None` if there is no such operation here.
    fn compute_matched(
        &mut self,
        matched: &Matched,
        taken: &Taken,
        body: &[u8],
        result: u32,
        memory: &mut impl Memory,
    ) -> Option<u16> {
        let &Matched { op, datatype, total, operand, .. } = matched;
        let kind = match matched.kind {
            MatchedKind::Atomic => MoveKind::Atomic,
            _ if arithmetic::swaps(op) => MoveKind::Swap,
            _ => MoveKind::FetchAtomic,
        };
        if !arithmetic::makes_sense(kind, op, datatype, total) {
            return None;
        }
        let width = arithmetic::width(datatype)? as usize;
        let len = taken.len as usize;
        let known = op_of(op)?;
        let mut compare = Vec::new();
        if arithmetic::compares(op) {
            let words = operand?;
            compare.extend(words.iter().flat_map(|word| word.to_le_bytes()).take(width));
        }
        let given = &body[..len.min(body.len())];
        let mut out = (result != NONE).then(|| self.results.bytes_mut(result));
        let mut is_done = true;
        let long_number = memory.long_numbers();
        if len > 0 {
            memory.update(taken.place, len, width, &mut |there| {
                if let Some(out) = &mut out {
                    out[..len].copy_from_slice(there);
                }
                match (datatype_of(datatype), long_number) {
                    (Some(datatype), _) => combine(known, datatype, there, given, &compare),
                    (None, Some(long)) => long(op, width > 16, there, given, &compare),
                    (None, None) => is_done = false,
                }
                is_done
            });
        }
        is_done.then_some(if result == NONE { 0 } else { len as u16 })
    }

    fn release_result(&mut self, result: u32) {
        if result != NONE {
            self.results.release(result);
        }
    }

    /// All bytes of a large put are in their place.
    pub(crate) fn finish_delivery(&mut self, bulk: &mut Bulk, row: u32, number: u32, owner: u64) {
        let delivery = owner as u32;
        let (ack, answer) = self.portals.answer_of(delivery);
        self.portals.delivered(delivery, fail::OK);
        if ack == 0 {
            self.reply_done(bulk, row, number);
        } else {
            self.notify_answer(bulk, Answer::matched(row, number, &answer, (NONE, 0)));
        }
        self.run_due(bulk);
    }

    /// The peer has all of a large get, or gave it up.
    pub(crate) fn end_delivery(&mut self, bulk: &mut Bulk, owner: u64) {
        self.portals.delivered(owner as u32, fail::OK);
        self.run_due(bulk);
    }

    /// A transfer ends before its bytes are there.
    pub(crate) fn fail_delivery(&mut self, bulk: &mut Bulk, owner: u64) {
        if owner & DELIVERY_BIT != 0 {
            self.portals.delivered(owner as u32, fail::UNDELIVERABLE);
            self.run_due(bulk);
        }
    }

    /// Closes one of the four interfaces: what peers do there ends, and what was begun from there.
    pub(crate) fn close_portals(&mut self, bulk: &mut Bulk, now: Instant, ni: u8) {
        self.portals_now = now;
        self.is_parting = true;
        self.end_deliveries(bulk, ni);
        let operations = self.operations.iter().filter(|(_, operation)| {
            operation.launch != NONE && self.portals.launched(operation.launch).spec().ni == ni
        });
        let operations: Vec<u64> = operations.map(|(slot, _)| self.operations.key(slot)).collect();
        for key in operations {
            self.cancel_keyed(bulk, key);
        }
        // What that has set off from there is dropped with the interface: its descriptors are no more.
        self.portals.close(ni);
        self.is_parting = false;
        self.run_due(bulk);
    }

    fn end_deliveries(&mut self, bulk: &mut Bulk, ni: u8) {
        let ours = self.portals.deliveries_of(ni);
        let is_ours = |owner: u64| owner & DELIVERY_BIT != 0 && ours.contains(&(owner as u32));
        let answer = OutcomeRepr { fail: fail::DROPPED, ..outcome_of(None) };
        for Ended { row, number, .. } in bulk.end_puts(is_ours) {
            self.notify_answer(bulk, Answer::matched(row, number, &answer, (NONE, 0)));
        }
        for Supply { row, number, .. } in bulk.end_supplies(is_ours) {
            self.notify_answer(bulk, Answer::matched(row, number, &answer, (NONE, 0)));
        }
        for delivery in ours {
            if self.portals.is_moving(delivery) {
                self.portals.delivered(delivery, fail::DROPPED);
            }
        }
    }
}

impl Answer {
    pub(crate) fn matched(
        row: u32,
        number: u32,
        answer: &OutcomeRepr,
        (result, len): (u32, u16),
    ) -> Self {
        Self { row, number, status: REPLY_OK, result, len, outcome: Some(*answer) }
    }
}

fn outcome_of(taken: Option<&Taken>) -> OutcomeRepr {
    let (list, moved_len, offset) =
        taken.map_or((0, 0, 0), |taken| (taken.list, taken.len, taken.offset));
    OutcomeRepr { fail: fail::OK, list, moved_len, offset, follows: false }
}
