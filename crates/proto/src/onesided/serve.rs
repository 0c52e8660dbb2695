//! One-sided operations, as who is asked: each request is carried out once, in its turn, and answered.
//!
//! PROTOCOL §11. Requests of a peer have numbers and are carried out in their order; one that comes before its turn is held
//! against the budget of held payload, or not acknowledged. What is answered is kept until the peer has acknowledged the answer:
//! a lost one is sent again, nothing is done again. How much of all this there may be is bounded (`Limits`).
//!
//! ```text
//!   Request n ──▶ n < next: a copy        ──▶ nothing
//!                 n = next: carried out   ──▶ Reply │ Replied │ a transfer begins
//!                 n > next: Early         ──▶ when its turn comes
//! ```

use alloc::vec::Vec;

use crate::base::api::{Denial, Event, OperationKind, RegionId, Verdict};
use crate::base::limits::{MATCHED_LEN_MAX, REQUEST_LEN_MAX};
use crate::base::sabotage::Sabotage;
use crate::base::slab::NONE;
use crate::base::types::{Instant, Memory, Place};
use crate::bulk::Bulk;
use crate::bulk::outgoing::{Bytes, RESULT_BIT};
use crate::bulk::transfer::{DELIVERY_BIT, Ended, Supply, Transfer};
use crate::delivery::content::Content;
use crate::delivery::frame::Frame;
use crate::onesided::Onesided;
use crate::onesided::atomic::{AtomicOp, Datatype, combine};
use crate::onesided::operate::{REQUEST_COUNT_MAX, atomic_len_max};
use crate::onesided::records::{Access, Answer};
use crate::onesided::region::Permit;
use crate::peers::side::Early;
use crate::wire::{Action, Lane, Matched, MatchedKind, REPLY_OK, RequestHead};
use crate::{Source, wire};

/// How far before its turn a request may be.
const AHEAD_MAX: u64 = 4096;
/// Requests of one peer that are held, under way, or whose answers are not acknowledged.
const SERVED_COUNT_MAX: u32 = 4096;

impl Onesided {
    pub(crate) fn hold_notices(&mut self, are_held: bool) {
        self.are_notices_held = are_held;
    }

    /// A request of a peer.
    pub(crate) fn on_request(
        &mut self,
        bulk: &mut Bulk,
        now: Instant,
        row: u32,
        head: &RequestHead,
        body: &[u8],
        memory: &mut impl Memory,
    ) -> Verdict {
        let requests = &bulk.peers.rows[row].requests;
        let (next, number) = (requests.next_in(), requests.whole(head.number));
        let active = bulk.peers.activate(row);
        let side = bulk.peers.actives[active].side_mut();
        if number < next && !bulk.peers.saboteur.makes(Sabotage::RequestCarriedOutAgain)
            || side.holds(number)
        {
            bulk.peers.counters.messages_duplicate += 1;
            return Verdict::Accepted;
        }
        let is_full = side.served_count() >= SERVED_COUNT_MAX
            || self.served_count >= self.served_count_max
            || (self.are_notices_held && has_notice(head));
        if is_full || number - next.min(number) > AHEAD_MAX {
            return Verdict::Refused;
        }
        // Before anything is done: where would the result be kept?
        let result = match result_len(head) {
            0 => NONE,
            len => match self.results.try_reserve(len) {
                Some(result) => result,
                None => return Verdict::Refused,
            },
        };
        if number > next {
            return self.hold_request(bulk, row, number, head, body, result);
        }
        self.count_served(bulk, row);
        bulk.peers.rows[row].requests.pass_turn(number);
        self.carry_out(bulk, now, row, head, body, result, memory);
        self.follow_requests(bulk, now, row, memory);
        Verdict::Accepted
    }

    fn hold_request(
        &mut self,
        bulk: &mut Bulk,
        row: u32,
        number: u64,
        head: &RequestHead,
        body: &[u8],
        result: u32,
    ) -> Verdict {
        let Some(hold) = bulk.held.keep(body, &mut bulk.peers.counters) else {
            if result != NONE {
                self.results.release(result);
            }
            return Verdict::Refused; // it will come again
        };
        self.count_served(bulk, row);
        let early = Early { head: Some(*head), hold, result };
        bulk.peers.active_of_mut(row).side_mut().hold(number, early);
        Verdict::Accepted
    }

    pub(crate) fn count_served(&mut self, bulk: &mut Bulk, row: u32) {
        self.served_count += 1;
        bulk.peers.active_of_mut(row).side_mut().on_served();
    }

    fn uncount_served(&mut self, bulk: &mut Bulk, row: u32, count: u32) {
        self.served_count -= count;
        bulk.peers.active_of_mut(row).side_mut().on_served_over(count);
    }

    /// Requests that waited for the turn to come to them.
    fn follow_requests(
        &mut self,
        bulk: &mut Bulk,
        now: Instant,
        row: u32,
        memory: &mut impl Memory,
    ) {
        let active = bulk.peers.rows[row].active();
        loop {
            let next = bulk.peers.rows[row].requests.next_in();
            let Some(early) = bulk.peers.actives[active].side_mut().take_held(next) else {
                return;
            };
            bulk.peers.rows[row].requests.pass_turn(next);
            let Early { head, hold, result } = early;
            if head.is_none() {
                bulk.peers.rows[row].requests.miss_part();
            }
            if let Some(head) = head {
                let body = Vec::from(bulk.held.bytes(hold));
                bulk.held.release(hold);
                self.carry_out(bulk, now, row, &head, &body, result, memory);
            }
        }
    }

    /// Does what a request asks for, if that is permitted, and answers.
    #[expect(clippy::too_many_arguments, reason = "a request, and whom it is carried out for")]
    fn carry_out(
        &mut self,
        bulk: &mut Bulk,
        now: Instant,
        row: u32,
        head: &RequestHead,
        body: &[u8],
        result: u32,
        memory: &mut impl Memory,
    ) {
        bulk.peers.counters.requests_in += 1;
        if let Action::Matched(matched) = head.action {
            bulk.peers.rows[row].requests.miss_part();
            return self.carry_out_matched(
                bulk,
                (now, row),
                (head, &matched),
                body,
                result,
                memory,
            );
        }
        let permit = match self.permit_of(bulk, row, head) {
            Ok(permit) => permit,
            Err(denial) => {
                if result != NONE {
                    self.results.release(result);
                }
                bulk.peers.rows[row].requests.miss_part();
                return self.reply_denied(bulk, row, head.number, denial);
            }
        };
        let place = Place { buf: permit.buf, offset: head.target };
        match head.action {
            Action::Put { immediate, len } => {
                self.place_put(bulk, memory, place, body);
                self.tell_put(bulk, row, &permit, (head.target, len.into()), immediate);
                self.reply_done(bulk, row, head.number);
            }
            Action::Part { offset, total, immediate, .. } => {
                let place = Place { offset: head.target + u64::from(offset), ..place };
                self.place_put(bulk, memory, place, body);
                let requests = &mut bulk.peers.rows[row].requests;
                let end = requests.note_part(offset.into(), body.len() as u64);
                if end == total.into() {
                    self.tell_put(bulk, row, &permit, (head.target, total.into()), immediate);
                }
                self.reply_done(bulk, row, head.number);
            }
            Action::Ask { total: 0, immediate } => {
                self.tell_put(bulk, row, &permit, (head.target, 0), immediate);
                self.reply_done(bulk, row, head.number);
            }
            Action::Ask { total, immediate } => {
                let (lane, number, owner) = (Lane::Put, head.number, permit.region.0);
                let to = place;
                let transfer = Transfer { lane, row, number, total, immediate, to, owner };
                bulk.start_transfer(now, &transfer);
            }
            Action::Get { total } if total <= REQUEST_LEN_MAX as u64 => {
                self.fetch(place, total as usize, result, memory);
                self.tell_used(bulk, row, &permit, OperationKind::Get, (head.target, total));
                self.answer(bulk, row, head.number, result, total as u16);
            }
            Action::Get { total } => {
                let number = bulk.peers.rows[row].requests.whole(head.number);
                let name = (Lane::Get, row, number);
                let from = (Bytes::User(permit.buf), head.target);
                bulk.start_supply(name, from, total, permit.region.0);
            }
            Action::Atomic { total, op, .. } => {
                let len = self.compute(place, head, body, result, memory);
                let writes = AtomicOp::read(op).is_some_and(AtomicOp::writes);
                let kind = if writes { OperationKind::Atomic } else { OperationKind::Get };
                self.tell_used(bulk, row, &permit, kind, (head.target, total.into()));
                self.answer(bulk, row, head.number, result, len);
            }
            Action::Matched(_) => {} // carried out above
        }
    }

    pub(crate) fn place_put(
        &mut self,
        bulk: &mut Bulk,
        memory: &mut impl Memory,
        place: Place,
        body: &[u8],
    ) {
        bulk.peers.counters.bytes_placed += body.len() as u64;
        if !body.is_empty() {
            memory.place(place, body);
        }
    }

    /// Whether a request is permitted, and makes sense.
    fn permit_of(&self, bulk: &Bulk, row: u32, head: &RequestHead) -> Result<Permit, Denial> {
        let (len, wanted) = match head.action {
            Action::Put { len, .. } => (len.into(), Access::WRITE),
            Action::Part { total, .. } => (total.into(), Access::WRITE),
            Action::Ask { total, .. } => (total, Access::WRITE),
            Action::Get { total } => (total, Access::READ),
            Action::Atomic { op, datatype, fetch, total, len } => {
                let op = check_atomic(op, datatype, total, len).ok_or(Denial::Operation)?;
                (total.into(), Access { read: fetch || !op.writes(), write: op.writes() })
            }
            Action::Matched(_) => return Err(Denial::Operation), // entries permit, not regions
        };
        self.permit(bulk, row, head.key, (head.target, len), wanted)
    }

    /// Bytes were put: whoever owns the region hears of it, if they came with an immediate or he wants to hear of all.
    pub(crate) fn tell_put(
        &mut self,
        bulk: &mut Bulk,
        row: u32,
        permit: &Permit,
        (offset, len): (u64, u64),
        immediate: Option<u64>,
    ) {
        let Some(immediate) = immediate else {
            return self.tell_used(bulk, row, permit, OperationKind::Put, (offset, len));
        };
        let (region, user, peer) = (permit.region, permit.user, bulk.peers.rows[row].peer());
        bulk.peers.events.tell(Event::Written { region, user, peer, offset, len, immediate });
    }

    /// A peer did something with a region whose owner wants to hear of all.
    pub(crate) fn tell_used(
        &mut self,
        bulk: &mut Bulk,
        row: u32,
        permit: &Permit,
        kind: OperationKind,
        (offset, len): (u64, u64),
    ) {
        if permit.tells_all {
            let (region, user, peer) = (permit.region, permit.user, bulk.peers.rows[row].peer());
            bulk.peers.events.tell(Event::Used { region, user, peer, kind, offset, len });
        }
    }

    /// Copies what is there now: later requests may change it before the answer leaves.
    fn fetch(&mut self, from: Place, len: usize, result: u32, memory: &mut impl Memory) {
        if len > 0 {
            let out = self.results.bytes_mut(result);
            memory.update(from, len, 1, &mut |there| {
                out.copy_from_slice(there);
                false
            });
        }
    }

    /// An atomic operation that was found to make sense. Bytes of its result.
    fn compute(
        &mut self,
        at: Place,
        head: &RequestHead,
        body: &[u8],
        result: u32,
        memory: &mut impl Memory,
    ) -> u16 {
        let Action::Atomic { op, datatype, total, len, .. } = head.action else { return 0 };
        let Some(op) = check_atomic(op, datatype, total, len) else { return 0 };
        let Some(datatype) = Datatype::read(datatype) else { return 0 };
        let len = total as usize;
        let (given, compare) = body.split_at(len.min(body.len()));
        let mut out = (result != NONE).then(|| self.results.bytes_mut(result));
        memory.update(at, len, datatype.width(), &mut |there| {
            if let Some(out) = &mut out {
                out.copy_from_slice(there);
            }
            combine(op, datatype, there, given, compare);
            op.writes()
        });
        if result == NONE { 0 } else { total as u16 }
    }

    /// A request was carried out, and asked for nothing.
    pub(crate) fn reply_done(&mut self, bulk: &mut Bulk, row: u32, number: u32) {
        bulk.peers.notify_replied(row, number, REQUEST_COUNT_MAX);
    }

    /// A request was carried out; its result is this.
    fn answer(&mut self, bulk: &mut Bulk, row: u32, number: u32, result: u32, len: u16) {
        if result == NONE {
            return self.reply_done(bulk, row, number);
        }
        let answer = Answer { row, number, status: REPLY_OK, result, len, outcome: None };
        self.notify_answer(bulk, answer);
    }

    /// A request is not carried out, or not to its end.
    pub(crate) fn reply_denied(&mut self, bulk: &mut Bulk, row: u32, number: u32, denial: Denial) {
        bulk.peers.counters.requests_denied += 1;
        let (status, result, len, outcome) = (denial.status(), NONE, 0, None);
        let answer = Answer { row, number, status, result, len, outcome };
        self.notify_answer(bulk, answer);
    }

    pub(crate) fn notify_answer(&mut self, bulk: &mut Bulk, answer: Answer) {
        let row = answer.row;
        let slot = self.answers.insert(answer);
        let serial = self.answers.serial(slot);
        bulk.peers.notify(row, Content::Reply { slot, serial });
    }

    /// The peer knows what came of a request.
    pub(crate) fn on_reply_acked(&mut self, bulk: &mut Bulk, slot: u32, serial: u32) {
        if self.answers.holds(slot, serial) {
            let answer = self.answers.remove(slot);
            if answer.result != NONE {
                self.results.release(answer.result);
            }
            self.uncount_served(bulk, answer.row, 1);
        }
    }

    /// The peer knows that so many requests were carried out.
    pub(crate) fn on_replied_acked(&mut self, bulk: &mut Bulk, row: u32, count: u16) {
        self.uncount_served(bulk, row, count.into());
    }

    /// The peer wants nothing more of a request: it got all, or gave it up.
    pub(crate) fn on_end(
        &mut self,
        bulk: &mut Bulk,
        now: Instant,
        row: u32,
        number: u32,
        memory: &mut impl Memory,
    ) -> Verdict {
        let requests = &bulk.peers.rows[row].requests;
        let whole = requests.whole(number);
        if whole >= requests.next_in() {
            return self.skip_request(bulk, now, row, whole, memory);
        }
        if let Some(supply) = bulk.supply_of(Lane::Get, row, number) {
            let Supply { owner, base, total, .. } = bulk.end_supply(supply);
            let region = RegionId(owner);
            self.uncount_served(bulk, row, 1);
            if owner & DELIVERY_BIT != 0 {
                self.portals_now = now;
                self.end_delivery(bulk, owner);
                return Verdict::Accepted;
            }
            // Or gave it up: it may have read all the same.
            if let Some(permit) = self.permit_for(region) {
                self.tell_used(bulk, row, &permit, OperationKind::Get, (base, total));
            }
        }
        if let Some(Ended { owner, .. }) = bulk.end_put(row, number) {
            self.uncount_served(bulk, row, 1);
            self.fail_delivery(bulk, owner);
        }
        Verdict::Accepted
    }

    /// A request that was cancelled before its turn: its number must be counted when that comes.
    fn skip_request(
        &mut self,
        bulk: &mut Bulk,
        now: Instant,
        row: u32,
        number: u64,
        memory: &mut impl Memory,
    ) -> Verdict {
        if number - bulk.peers.rows[row].requests.next_in() > AHEAD_MAX {
            return Verdict::Refused;
        }
        let active = bulk.peers.activate(row);
        let skipped = Early { head: None, hold: NONE, result: NONE };
        if let Some(early) = bulk.peers.actives[active].side_mut().hold(number, skipped)
            && early.head.is_some()
        {
            self.release_early(bulk, &early);
            self.uncount_served(bulk, row, 1);
        }
        self.follow_requests(bulk, now, row, memory);
        Verdict::Accepted
    }

    fn release_early(&mut self, bulk: &mut Bulk, early: &Early) {
        if early.hold != NONE {
            bulk.held.release(early.hold);
        }
        if early.result != NONE {
            self.results.release(early.result);
        }
    }

    /// An association ends: what was held and kept for the peer is dropped.
    pub(crate) fn drop_served(&mut self, bulk: &mut Bulk, row: u32) {
        let (early, served_count) = bulk.peers.active_of_mut(row).side_mut().take_served();
        self.served_count -= served_count;
        early.values().for_each(|early| self.release_early(bulk, early));
        let answers = self.answers.iter().filter(|(_, answer)| answer.row == row);
        let answers: Vec<u32> = answers.map(|(slot, _)| slot).collect();
        for slot in answers {
            let answer = self.answers.remove(slot);
            if answer.result != NONE {
                self.results.release(answer.result);
            }
        }
    }
}

/// Whether the application is told when a request is carried out.
fn has_notice(head: &RequestHead) -> bool {
    match head.action {
        Action::Put { immediate, .. }
        | Action::Part { immediate, .. }
        | Action::Ask { immediate, .. } => immediate.is_some(),
        Action::Get { .. } | Action::Atomic { .. } | Action::Matched(_) => false,
    }
}

/// Bytes that must be kept until the answer is acknowledged.
fn result_len(head: &RequestHead) -> usize {
    match head.action {
        Action::Get { total } if total <= REQUEST_LEN_MAX as u64 => total as usize,
        Action::Atomic { fetch: true, total, .. } => (total as usize).min(REQUEST_LEN_MAX),
        Action::Matched(Matched { kind: MatchedKind::Get, total, .. })
            if total <= MATCHED_LEN_MAX as u64 =>
        {
            total as usize
        }
        Action::Matched(Matched { kind: MatchedKind::Fetch, len, .. }) => len.into(),
        _ => 0,
    }
}

/// An atomic operation as a peer asks for it, if there is such a one and its operands are as long as they must be.
fn check_atomic(op: u8, datatype: u8, total: u32, body_len: u16) -> Option<AtomicOp> {
    let (op, datatype) = (AtomicOp::read(op)?, Datatype::read(datatype)?);
    let total = total as usize;
    let operand_count = usize::from(op.writes()) + usize::from(op.compares());
    let makes_sense = op.takes(datatype)
        && (1..=atomic_len_max(op)).contains(&total)
        && total.is_multiple_of(datatype.width())
        && usize::from(body_len) == operand_count * total;
    makes_sense.then_some(op)
}

impl Onesided {
    /// Room an answer needs; `None`: there is none any more.
    pub(crate) fn answer_len(&self, slot: u32, serial: u32) -> Option<usize> {
        let answer = self.answers.get(slot).filter(|_| self.answers.holds(slot, serial))?;
        Some(wire::OUTCOME_HEAD_LEN + usize::from(answer.len))
    }

    /// Writes an answer; `None`: there is none any more.
    pub(crate) fn write_answer(&self, slot: u32, serial: u32, frame: &mut Frame<'_>) -> Option<()> {
        let answer = self.answers.get(slot).filter(|_| self.answers.holds(slot, serial))?;
        match &answer.outcome {
            Some(outcome) => frame.writer.outcome(answer.number, outcome, answer.len),
            None => frame.writer.reply(answer.number, answer.status, answer.len),
        }
        if answer.len > 0 {
            let slot = answer.result | RESULT_BIT;
            frame.push_body(Source::Pool { slot, offset: 0 }, answer.len.into());
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each thing that a peer can get wrong is enough by itself.
    #[test]
    fn an_atomic_operation_must_be_right_in_every_respect() {
        let (sum, swap, or) = (AtomicOp::Sum, AtomicOp::Cswap, AtomicOp::Bor);
        let check = |op: AtomicOp, datatype: Datatype, total: u32, body_len: u16| {
            check_atomic(op as u8, datatype as u8, total, body_len)
        };
        assert_eq!(check(sum, Datatype::U64, 16, 16), Some(sum));
        assert_eq!(check(swap, Datatype::U64, 16, 32), Some(swap), "and what to compare with");
        assert_eq!(check(AtomicOp::Read, Datatype::U64, 16, 0), Some(AtomicOp::Read));
        assert_eq!(check(or, Datatype::F64, 16, 16), None, "not of reals");
        assert_eq!(check(sum, Datatype::U64, 0, 0), None, "of nothing");
        let too_long = REQUEST_LEN_MAX as u16 + 8;
        assert_eq!(check(sum, Datatype::U64, too_long.into(), too_long), None);
        assert_eq!(check(sum, Datatype::U64, 12, 12), None, "one and a half");
        assert_eq!(check(sum, Datatype::U64, 16, 8), None, "an operand too few");
        assert_eq!(check(swap, Datatype::U64, 16, 16), None, "nothing to compare with");
        assert_eq!(check_atomic(u8::MAX, Datatype::U64 as u8, 16, 16), None);
        assert_eq!(check_atomic(sum as u8, u8::MAX, 16, 16), None);
    }
}
