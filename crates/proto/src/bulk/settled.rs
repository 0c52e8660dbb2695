//! How sends end: acknowledged, lost and to be sent again, or over.
//!
//! PROTOCOL §6.2, §7. What a packet carried comes back here when the peer has accepted it, or it was lost.

use crate::base::pool::BytePool;
use crate::base::ring::Ring;
use crate::base::slab::{NONE, Slab};
use crate::bulk::Bulk;
use crate::bulk::arrival::number_key;
use crate::bulk::outgoing::{Bytes, Line, Outgoing, Parts, SEND_BIT, SendStage, send_req};
use crate::delivery::ack::expand;
use crate::delivery::content::Content;
use crate::delivery::credit::{Credit, eager_cost};
use crate::delivery::sent::Run;
use crate::wire::{AckRepr, DONE_CANCELLED};
use crate::{Event, Failure, GapSet, Instant, PeerId, ReqId};
use alloc::vec::Vec;

impl Bulk {
    pub(crate) fn on_message_acked(&mut self, slot: u32, serial: u32, offset: u32, len: u32) {
        if !self.outgoing.holds(slot, serial) {
            return;
        }
        let send = &self.outgoing[slot];
        if send.is_large || send.stage == SendStage::Pulled {
            return; // ends with Done
        }
        self.keep_parts(slot, len);
        let send = &self.outgoing[slot];
        if send.parts != NONE {
            let unacked = &mut self.parts[send.parts].unacked;
            unacked.fill(u64::from(offset), u64::from(offset) + u64::from(len), &mut |_, _| ());
            if !unacked.is_empty() {
                return;
            }
        }
        if send.until_matched && send.bytes.pool().is_none() {
            return; // accepted; the match is still to come
        }
        let len = send.total;
        self.end_send(slot, Ok(len));
    }

    /// So many bytes of a message are settled by themselves. If it left in one train, which of them are is kept from now on.
    fn keep_parts(&mut self, slot: u32, len: u32) {
        let send = &mut self.outgoing[slot];
        if send.parts == NONE && !send.is_large && u64::from(len) < send.total {
            let unacked = GapSet::whole(send.total);
            send.parts = self.parts.insert(Parts { unacked, ..Parts::default() });
        }
    }

    pub(crate) fn on_message_lost(&mut self, slot: u32, serial: u32, offset: u32, len: u32) {
        if !self.outgoing.holds(slot, serial) || self.outgoing[slot].stage == SendStage::Pulled {
            return;
        }
        self.unframe(slot);
        self.keep_parts(slot, len);
        let send = &mut self.outgoing[slot];
        if !send.is_large && send.total > u64::from(self.peers.settings.eager_sure_len_max) {
            self.peers.rows[send.row].ahead.on_lost();
        }
        if send.parts != NONE && !send.is_large {
            let parts = &mut self.parts[send.parts];
            let (start, end) = (u64::from(offset), u64::from(offset) + u64::from(len));
            // Only what is still unacknowledged: a copy of it may have arrived in another packet.
            for (gap_start, gap_end) in parts.unacked.iter() {
                let (from, to) = (gap_start.max(start), gap_end.min(end));
                if from < to {
                    parts.unsent.add(from, to);
                }
            }
            if parts.unsent.is_empty() {
                return;
            }
        }
        if send.is_large && send.is_granted() {
            return; // granted already: the announcement arrived
        }
        let was_waiting = send.stage == SendStage::Waiting;
        send.stage = SendStage::Waiting;
        let row = send.row;
        let active = self.peers.active_of_mut(row);
        if !was_waiting || active.unsent != slot {
            active.resend.push_back((slot, serial));
        }
        self.peers.make_ready(row);
    }
}

impl Bulk {
    /// Takes a send out of its peer's list and tells the application, unless its payload was copied. A good end says how many bytes
    /// were taken.
    pub(crate) fn end_send(&mut self, slot: u32, result: Result<u64, Failure>) {
        let req = ReqId(self.outgoing.key(slot) | SEND_BIT);
        let send = self.take_send(slot);
        send.tell_end(req, result, &mut self.copied, &mut self.peers.events);
    }

    /// All that was to be sent to a peer has failed.
    pub(crate) fn end_sends(&mut self, row: u32, failure: Failure) {
        let active = self.peers.rows[row].active;
        while active != NONE && self.peers.actives[active].first != NONE {
            let first = self.peers.actives[active].first;
            self.end_send(first, Err(failure));
        }
    }

    /// The peer leaves, and has accepted our messages below this one.
    pub(crate) fn end_accepted(&mut self, row: u32, message: u32) {
        let active = self.peers.rows[row].active;
        let mut slot = self.peers.actives[active].first;
        while slot != NONE {
            let send = &self.outgoing[slot];
            let (next, number, total) = (send.next, send.message, send.total);
            let accepted = number < expand(message, number);
            if accepted && !send.is_large && !send.until_matched && send.stage != SendStage::Pulled
            {
                self.end_send(slot, Ok(total));
            }
            slot = next;
        }
    }

    /// A link in memory brought the end of a message, on whose end nothing waits. `None`, and nothing changed: it was copied, or is not there.
    #[inline]
    pub(crate) fn take_ended(&mut self, row: u32, message: u32) -> Option<(ReqId, Outgoing)> {
        let slot = self.find_outgoing(row, message)?;
        if !matches!(self.outgoing[slot].bytes, Bytes::User(_)) {
            return None;
        }
        let req = ReqId(self.outgoing.key(slot) | SEND_BIT);
        Some((req, self.take_send(slot)))
    }

    /// What is not over yet: to whom, and how long.
    pub(crate) fn unaccepted(&self) -> impl Iterator<Item = (PeerId, u64)> {
        self.outgoing.iter().map(|(_, send)| (send.peer, send.total))
    }

    /// How many sends are not over yet, supplies among them.
    pub(crate) fn send_count(&self) -> u32 {
        self.outgoing.len()
    }

    /// Takes a send out of its peer's list and of all tables. Nobody is told.
    pub(crate) fn take_send(&mut self, slot: u32) -> Outgoing {
        let send = self.outgoing.remove(slot);
        let active = self.peers.active_of_mut(send.row);
        active.line().unlink(slot, &send, &mut self.outgoing);
        if send.parts != NONE {
            self.parts.remove(send.parts);
        }
        let was_sure = send.total <= u64::from(self.peers.settings.eager_sure_len_max);
        self.peers.rows[send.row].ahead.on_ended(&send, was_sure, &mut self.ahead_sum);
        if send.is_large || send.until_matched || send.stage == SendStage::Pulled {
            self.sends_by_number.remove(&number_key(send.row, send.message as u32));
        }
        send
    }

    /// Granted bytes were lost: they are sent again.
    pub(crate) fn on_data_lost(&mut self, slot: u32, serial: u32, offset: u64, len: u32) {
        if self.outgoing.holds(slot, serial) && self.outgoing[slot].parts != NONE {
            self.parts[self.outgoing[slot].parts].unsent.add(offset, offset + u64::from(len));
            self.queue_granted(slot);
        }
    }
}

impl Bulk {
    /// The peer is through with our message, and took so many bytes of it (PROTOCOL §8.6).
    pub(crate) fn on_done(&mut self, row: u32, message: u32, status: u8, placed_len: u64) {
        let Some(slot) = self.find_outgoing(row, message) else { return };
        let result = if status == DONE_CANCELLED {
            Err(Failure::CancelledByPeer)
        } else {
            Ok(placed_len.min(self.outgoing[slot].total))
        };
        self.end_send(slot, result);
        self.peers.make_ready(row);
    }
}

/// Sends that most Acks end: in one piece, and over when they are accepted.
impl Bulk {
    /// What a run of acknowledged packets carried was accepted.
    #[inline(never)]
    pub(crate) fn end_run(&mut self, active_slot: u32, path_index: usize, run: Run) {
        let active = &mut **self.peers.actives.get_mut(active_slot).expect("heard of");
        let flight = active.paths[path_index].flight();
        let mut accepted = Accepted {
            outgoing: &mut self.outgoing,
            events: &mut self.peers.events,
            copied: &mut self.copied,
            line: Line {
                first: &mut active.first,
                last: &mut active.last,
                unsent: &mut active.unsent,
            },
            credit: &mut active.credit,
            others: &mut self.peers.accepted,
        };
        let mut at = run.start;
        while at != run.end {
            let (mut content, mut more_at, mut more_count) = flight.content(at);
            loop {
                if !accepted.end_simple(content) {
                    accepted.keep(content);
                }
                if more_count == 0 {
                    break;
                }
                content = flight.more(more_at);
                more_at = more_at.wrapping_add(1);
                more_count -= 1;
            }
            at = at.wrapping_add(1);
        }
    }

    /// An Ack of the only packet in flight, with a message that is over when it is accepted, and nothing else waiting
    /// (`Endpoint::on_ack`). False, and nothing changed, if it is not that.
    #[inline(never)]
    pub(crate) fn on_ack_of_only(&mut self, now: Instant, active_slot: u32, ack: &AckRepr) -> bool {
        let active = &mut **self.peers.actives.get_mut(active_slot).expect("heard of");
        let is_one_of_several = active.paths.len() > 1;
        let Some(path) = active.paths.get_mut(usize::from(ack.path)) else { return false };
        let in_flight = path.flight().bytes_in_flight();
        let last = expand(ack.largest, path.flight().next_packet());
        let Some((first, last)) = ack.range(last) else { return false };
        if active.first != active.last || !path.flight().has_only(first, last) {
            return false;
        }
        let Some(Content::Message { slot, serial, len, .. }) = path.flight().only_content() else {
            return false;
        };
        if slot != active.first || active.unsent != NONE {
            return false;
        }
        let ends = |send: &Outgoing| send.ends_when_accepted(len);
        let Some(send) = self.outgoing.remove_if(slot, serial, ends) else {
            return false;
        };
        let acked = path.take_only(last);
        self.peers.counters.acks_in += 1;
        (active.first, active.last) = (NONE, NONE);
        active.credit.on_settled(eager_cost(len));
        active.credit.on_told(ack.credit_len);
        send.tell_end(
            send_req(slot, serial),
            Ok(send.total),
            &mut self.copied,
            &mut self.peers.events,
        );
        path.on_acked(now, &acked, ack.delay_ns, in_flight);
        let is_asked = is_one_of_several
            && !path.makes_others_spare()
            && active.on_measured(now, usize::from(ack.path));
        if is_asked || active.has_content() || !active.granted.is_empty() {
            self.peers.rows.make_ready(send.row); // what waited for window or credit
        }
        true
    }
}

/// The parts that are told what an Ack accepted.
struct Accepted<'a> {
    outgoing: &'a mut Slab<Outgoing>,
    events: &'a mut Ring<Event>,
    copied: &'a mut BytePool,
    line: Line<'a>,
    credit: &'a mut Credit,
    /// What there is more to, and all behind it, so that the order stays.
    others: &'a mut Vec<Content>,
}

impl Accepted<'_> {
    /// For later, unless it is nothing.
    #[cold]
    #[inline(never)]
    fn keep(&mut self, content: &Content) {
        if !matches!(content, Content::Void) {
            self.others.push(*content);
        }
    }

    /// A message that went in one piece and is over when it is accepted was accepted (`Bulk::end_send`).
    #[inline(always)]
    fn end_simple(&mut self, content: &Content) -> bool {
        let Content::Message { slot, serial, len, .. } = *content else { return false };
        if !self.others.is_empty() {
            return false;
        }
        let ends = |send: &Outgoing| send.ends_when_accepted(len);
        let Some(send) = self.outgoing.remove_if(slot, serial, ends) else { return false };
        self.credit.on_settled(eager_cost(len));
        self.line.unlink(slot, &send, self.outgoing);
        send.tell_end(send_req(slot, serial), Ok(send.total), self.copied, self.events);
        true
    }
}
