//! Sends that most Acks end: in one piece, and over when they are accepted.
//!
//! PROTOCOL §5.3, §6.2. These do for a run of packets, or for the only one in flight, what `settled` does for each content.

use crate::Instant;
use crate::base::pool::BytePool;
use crate::base::slab::Slab;
use crate::bulk::Bulk;
use crate::bulk::outgoing::{Outgoing, send_req};
use crate::delivery::ack::expand;
use crate::delivery::content::Content;
use crate::delivery::credit::{Credit, eager_cost};
use crate::delivery::sent::{Acked, Run};
use crate::peers::events::Events;
use crate::peers::line::Line;
use crate::wire::{AckRepr, AckView};
use alloc::vec::Vec;

/// What an Ack told of a path.
pub(crate) struct Told {
    pub(crate) path_index: usize,
    pub(crate) acked: Acked,
    pub(crate) in_flight_before: u64,
}

impl Bulk {
    /// An Ack without holes that begins with the oldest packet in flight: what is simply over ends, all else waits for `take_accepted`. `None`, and nothing
    /// changed: it is another one.
    #[inline(always)]
    pub(crate) fn take_ack_of_front(&mut self, row: u32, ack: &AckView<'_>) -> Option<Told> {
        let active_slot = self.peers.rows[row].active();
        let active = self.peers.actives.get_mut(active_slot).expect("heard of");
        let path_index = usize::from(ack.path());
        let path = active.paths.get_mut(path_index)?;
        let in_flight_before = path.flight().bytes_in_flight();
        let last = expand(ack.largest(), path.flight().next_packet());
        let (acked, run) = match ack.repr().range(last) {
            Some((first, last)) if ack.has_no_holes() => path.on_ack_of_front(first, last)?,
            _ => return None,
        };
        self.peers.counters.acks_in += 1;
        active.credit.on_told(ack.credit_len());
        if acked.count > 0 {
            self.end_run(active_slot, path_index, run);
        }
        Some(Told { path_index, acked, in_flight_before })
    }

    /// Any other Ack, whose contents all wait for `take_accepted`. `None`: nobody has such a path, or such packets.
    pub(crate) fn take_any_ack(&mut self, row: u32, ack: &AckView<'_>) -> Option<Told> {
        self.peers.counters.acks_in += 1;
        let active = self.peers.actives.of_mut(&self.peers.rows[row]).expect("heard of");
        let path_index = usize::from(ack.path());
        let path = active.paths.get_mut(path_index)?;
        let in_flight_before = path.flight().bytes_in_flight();
        let largest = expand(ack.largest(), path.flight().next_packet());
        let accepted = &mut self.accepted;
        let result = path.on_ack(ack.ranges(largest), &mut |content| accepted.push(content));
        active.credit.on_told(ack.credit_len());
        match result {
            Ok(acked) => Some(Told { path_index, acked, in_flight_before }),
            Err(_) => {
                self.peers.counters.frames_malformed += 1;
                None
            }
        }
    }

    /// Whether there is more to what an Ack accepted.
    #[inline(always)]
    pub(crate) fn has_accepted(&self) -> bool {
        !self.accepted.is_empty()
    }

    /// What an Ack accepted and there is more to, in its order. Its memory is used again (`give_back`).
    pub(crate) fn take_accepted(&mut self) -> Vec<Content> {
        core::mem::take(&mut self.accepted)
    }

    pub(crate) fn give_back(&mut self, emptied: Vec<Content>) {
        self.accepted = emptied;
    }

    /// What a run of acknowledged packets carried was accepted.
    #[inline(never)]
    fn end_run(&mut self, active_slot: u32, path_index: usize, run: Run) {
        let active = self.peers.actives.get_mut(active_slot).expect("heard of");
        let flight = active.paths[path_index].flight();
        let mut accepted = Accepted {
            outgoing: &mut self.outgoing,
            events: &mut self.peers.events,
            copied: &mut self.copied,
            line: &mut active.line,
            credit: &mut active.credit,
            others: &mut self.accepted,
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
        let active = self.peers.actives.get_mut(active_slot).expect("heard of");
        let is_one_of_several = active.paths.len() > 1;
        let Some(path) = active.paths.get_mut(usize::from(ack.path)) else { return false };
        let in_flight = path.flight().bytes_in_flight();
        let last = expand(ack.largest, path.flight().next_packet());
        let Some((first, last)) = ack.range(last) else { return false };
        if !active.line.has_one_at_most() || !path.flight().has_only(first, last) {
            return false;
        }
        let Some(Content::Message { slot, serial, len, .. }) = path.flight().only_content() else {
            return false;
        };
        if slot != active.line.first() || active.line.has_unsent() {
            return false;
        }
        let ends = |send: &Outgoing| send.ends_when_accepted(len);
        let Some(send) = self.outgoing.remove_if(slot, serial, ends) else {
            return false;
        };
        let acked = path.take_only(last);
        self.peers.counters.acks_in += 1;
        active.line.on_only_ended();
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
        if is_asked || active.has_content() || active.line.has_granted() {
            self.peers.rows.make_ready(send.row); // what waited for window or credit
        }
        true
    }
}

/// The parts that are told what an Ack accepted.
struct Accepted<'a> {
    outgoing: &'a mut Slab<Outgoing>,
    events: &'a mut Events,
    copied: &'a mut BytePool,
    line: &'a mut Line,
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
