//! How sends end: acknowledged, lost and to be sent again, or over.
//!
//! PROTOCOL §6.2, §7. What a packet carried comes back here when the peer has accepted it, or it was lost.

use crate::base::slab::NONE;
use crate::bulk::Bulk;
use crate::bulk::arrival::number_key;
use crate::bulk::outgoing::{Bytes, Outgoing, Parts, SEND_BIT, SendStage};
use crate::delivery::ack::expand;
use crate::delivery::credit::eager_cost;
use crate::wire::DONE_CANCELLED;
use crate::{Failure, GapSet, PeerId, ReqId};

/// A send that is over, well.
pub(crate) struct Ended {
    pub(crate) req: ReqId,
    pub(crate) user: u64,
    pub(crate) peer: PeerId,
    pub(crate) total: u64,
}

impl Bulk {
    /// Bytes of a message of ours were accepted: its credit is free again.
    pub(crate) fn on_message_acked(
        &mut self,
        row: u32,
        (slot, serial): (u32, u32),
        offset: u32,
        len: u32,
    ) {
        self.peers.active_of_mut(row).credit.on_settled(eager_cost(len));
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

    /// Bytes of a message of ours were lost: what of it was not accepted by another way is sent again, and its credit is free until then.
    pub(crate) fn on_message_lost(
        &mut self,
        row: u32,
        (slot, serial): (u32, u32),
        offset: u32,
        len: u32,
    ) {
        self.peers.active_of_mut(row).credit.on_settled(eager_cost(len));
        let is_gone =
            !self.outgoing.holds(slot, serial) || self.outgoing[slot].stage == SendStage::Pulled;
        if is_gone {
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
        self.peers.active_of_mut(row).line.on_lost(slot, serial, was_waiting);
        self.peers.make_ready(row);
    }
}

impl Bulk {
    /// Takes a send out of its peer's list and tells the application, unless its payload was copied. A good end says how many bytes
    /// were taken.
    pub(super) fn end_send(&mut self, slot: u32, result: Result<u64, Failure>) {
        let req = ReqId(self.outgoing.key(slot) | SEND_BIT);
        let send = self.take_send(slot);
        send.tell_end(req, result, &mut self.copied, &mut self.peers.events);
    }

    /// All that was to be sent to a peer has failed.
    pub(crate) fn end_sends(&mut self, row: u32, failure: Failure) {
        let active = self.peers.rows[row].active();
        while active != NONE && !self.peers.actives[active].line.is_empty() {
            let first = self.peers.actives[active].line.first();
            self.end_send(first, Err(failure));
        }
    }

    /// The peer leaves, and has accepted our messages below this one.
    pub(crate) fn end_accepted(&mut self, row: u32, message: u32) {
        let active = self.peers.rows[row].active();
        let mut slot = self.peers.actives[active].line.first();
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
    pub(crate) fn take_ended(&mut self, row: u32, message: u32) -> Option<Ended> {
        let slot = self.find_outgoing(row, message)?;
        if !matches!(self.outgoing[slot].bytes, Bytes::User(_)) {
            return None;
        }
        let req = ReqId(self.outgoing.key(slot) | SEND_BIT);
        let Outgoing { user, peer, total, .. } = self.take_send(slot);
        Some(Ended { req, user, peer, total })
    }

    /// Whether messages to this peer, which is awake, are not over yet.
    pub(crate) fn is_sending_to(&self, row: u32) -> bool {
        !self.peers.active_of(row).line.is_empty()
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
    pub(super) fn take_send(&mut self, slot: u32) -> Outgoing {
        let send = self.outgoing.remove(slot);
        let active = self.peers.active_of_mut(send.row);
        active.line.unlink(slot, &send, &mut self.outgoing);
        if send.parts != NONE {
            self.parts.remove(send.parts);
        }
        let was_sure = send.total <= u64::from(self.peers.settings.eager_sure_len_max);
        self.peers.rows[send.row].ahead.on_ended(
            (send.announced, send.total),
            was_sure,
            &mut self.ahead_sum,
        );
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
