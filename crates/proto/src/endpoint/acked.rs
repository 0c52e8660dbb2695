//! What a peer acknowledges: what the packets carried was accepted, and simple sends are over.
//!
//! PROTOCOL §5.3, §6.2. An Ack without holes that begins with the oldest packet in flight is the rule; all others go to `on_other_ack`.

use crate::base::api::Event;
use crate::base::pool::BytePool;
use crate::base::ring::Ring;
use crate::base::slab::Slab;
use crate::base::types::Instant;
use crate::bulk::outgoing::{Line, Outgoing, send_req};
use crate::delivery::ack::expand;
use crate::delivery::content::Content;
use crate::delivery::credit::Credit;
use crate::delivery::credit::eager_cost;
use crate::delivery::sent::Run;
use crate::endpoint::Endpoint;
use crate::wire::AckView;
use alloc::vec::Vec;

impl Endpoint {
    /// The peer says what it received.
    #[inline]
    pub(crate) fn on_ack(&mut self, now: Instant, row: u32, ack: &AckView<'_>) {
        if !self.may_be_quick() {
            return self.on_other_ack(now, row, ack);
        }
        let active_slot = self.rows[row].active;
        let active = &mut **self.actives.get_mut(active_slot).expect("heard of");
        let path_index = usize::from(ack.path());
        let Some(path) = active.paths.get_mut(path_index) else {
            return self.on_other_ack(now, row, ack);
        };
        let in_flight_before = path.flight.bytes_in_flight();
        let last = expand(ack.largest(), path.flight.next_packet());
        let settled = match ack.repr().range(last) {
            Some((first, last)) if ack.has_no_holes() => path.flight.on_ack_of_front(first, last),
            _ => None,
        };
        let Some((acked, run)) = settled else {
            return self.on_other_ack(now, row, ack);
        };
        self.counters.acks_in += 1;
        active.credit.on_told(ack.credit_len());
        if acked.count == 0 {
            return; // told before
        }
        self.end_run(active_slot, path_index, run);
        if !self.accepted.is_empty() {
            self.on_contents_acked(now, row, path_index);
        }
        self.after_ack(now, row, path_index, &acked, ack.delay_ns(), in_flight_before);
    }

    /// What a run of acknowledged packets carried was accepted.
    #[inline(never)]
    fn end_run(&mut self, active_slot: u32, path_index: usize, run: Run) {
        let active = &mut **self.actives.get_mut(active_slot).expect("heard of");
        let flight = &active.paths[path_index].flight;
        let mut accepted = Accepted {
            outgoing: &mut self.outgoing,
            events: &mut self.events,
            copied: &mut self.copied,
            line: Line {
                first: &mut active.first,
                last: &mut active.last,
                unsent: &mut active.unsent,
            },
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

    /// An Ack with holes, or one that tells nothing new.
    #[inline(never)]
    fn on_other_ack(&mut self, now: Instant, row: u32, ack: &AckView<'_>) {
        self.counters.acks_in += 1;
        let active = &mut **self.actives.get_mut(self.rows[row].active).expect("heard of");
        let path_index = usize::from(ack.path());
        let Some(path) = active.paths.get_mut(path_index) else { return };
        let in_flight_before = path.flight.bytes_in_flight();
        let largest = expand(ack.largest(), path.flight.next_packet());
        let accepted = &mut self.accepted;
        let result = path.flight.on_ack(ack.ranges(largest), &mut |content| accepted.push(content));
        active.credit.on_told(ack.credit_len());
        self.on_contents_acked(now, row, path_index);
        match result {
            Ok(acked) if acked.count > 0 => {
                self.after_ack(now, row, path_index, &acked, ack.delay_ns(), in_flight_before);
            }
            Ok(_) => {}
            Err(_) => self.counters.frames_malformed += 1,
        }
    }
}

/// Who hears what an Ack accepted.
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

    /// A message that went in one piece and is over when it is accepted was accepted (`Endpoint::end_send`).
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
