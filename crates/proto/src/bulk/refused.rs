//! Messages that their receiver has refused: they are kept until it calls for them, or asks for one out of turn.
//!
//! PROTOCOL §7.5, §7.6, at the sender. What the receiver does stands in `messages/turns`.

use crate::base::slab::NONE;
use crate::base::types::Criteria;
use crate::bulk::Bulk;
use crate::bulk::outgoing::{Parts, SendStage};
use crate::delivery::ack::expand;
use crate::delivery::content::Content;
use crate::delivery::credit::eager_cost;
use crate::peers::ahead::Announced;
use crate::peers::rows::Notice;
use crate::wire::FoundRepr;

impl Bulk {
    /// The peer refuses our messages from `message` on, or recalls them.
    pub(crate) fn on_turn_notice(&mut self, row: u32, message: u32, order: u16, refused: bool) {
        let said = self.peers.rows[row].hear_turn(order);
        if said == 0 {
            return;
        }
        if said > 1 {
            self.announce_anew(row);
        }
        if !refused {
            self.peers.rows[row].numbers.hold_none_back();
            self.peers.make_ready(row);
            return;
        }
        let active = self.peers.activate(row);
        let first = self.peers.actives[active].line.first();
        let base = if first == NONE {
            self.peers.rows[row].numbers.next_out()
        } else {
            self.outgoing[first].message
        };
        let from = expand(message, base);
        self.peers.rows[row].numbers.hold_back(from);
        self.hold_back(row, from);
    }

    /// A refusal was not heard, since the peer has said something newer of the matter. What was refused of packets was lost to us; but what was announced by
    /// a frame that was given to its link has no packet, so the peer may not know it any more. It passes over what it knows.
    #[cold]
    fn announce_anew(&mut self, row: u32) {
        let active = self.peers.activate(row);
        let mut slot = self.peers.actives[active].line.first();
        while slot != NONE {
            let serial = self.outgoing.serial(slot);
            let send = &mut self.outgoing[slot];
            if send.announced == Announced::Given && send.stage == SendStage::Sent {
                let name = (&mut send.announced, send.total);
                self.peers.rows[row].ahead.on_refused(name, &mut self.ahead_sum);
                send.stage = SendStage::Waiting;
                self.peers.actives[active].line.on_lost(slot, serial, false);
            }
            slot = send.next;
        }
        self.peers.make_ready(row);
    }

    /// Forgets what was sent of messages from `from` on, and keeps them.
    fn hold_back(&mut self, row: u32, from: u64) {
        let active_slot = self.peers.rows[row].active();
        let outgoing = &self.outgoing;
        let active = &mut self.peers.actives[active_slot];
        let mut freed = 0;
        for path in active.paths.iter_mut() {
            path.void(&mut |content| match *content {
                Content::Message { slot, serial, len, .. } if outgoing.holds(slot, serial) => {
                    let held = outgoing[slot].message >= from && !outgoing[slot].is_granted();
                    freed += if held { eager_cost(len) } else { 0 };
                    held
                }
                _ => false,
            });
        }
        active.credit.on_settled(freed);
        // Where sending goes on, unless it has not even come that far.
        let unsent = active.line.unsent();
        let reached = unsent == NONE || self.outgoing[unsent].message >= from;
        let mut slot = active.line.last();
        while slot != NONE && self.outgoing[slot].message >= from {
            self.unframe(slot);
            let send = &mut self.outgoing[slot];
            if !send.is_granted() {
                send.stage = SendStage::Waiting;
                self.peers.rows[row]
                    .ahead
                    .on_refused((&mut send.announced, send.total), &mut self.ahead_sum);
                if reached {
                    self.peers.actives[active_slot].line.go_back_to(slot);
                }
                if send.parts != NONE {
                    let parts = self.parts.remove(core::mem::replace(&mut send.parts, NONE));
                    drop::<Parts>(parts);
                }
            }
            if slot == self.peers.actives[active_slot].line.first() {
                break;
            }
            slot = self.outgoing[slot].previous;
        }
    }

    /// The peer asks which of our messages, in order, a receive of its would take.
    pub(crate) fn on_query(&mut self, row: u32, query: u32, criteria: &Criteria) {
        let active = self.peers.activate(row);
        if !self.peers.actives[active].may_answer_query() {
            return; // the query will come again
        }
        let mut slot = self.peers.actives[active].line.first();
        while slot != NONE {
            let send = &self.outgoing[slot];
            if send.stage != SendStage::Pulled && criteria.admits(send.space, send.tag, send.peer) {
                break;
            }
            slot = send.next;
        }
        let mut found = FoundRepr {
            query,
            space: criteria.space,
            tag: criteria.tag,
            message: 0,
            total: 0,
            immediate: None,
            none: true,
        };
        if slot != NONE {
            let send = &self.outgoing[slot];
            found = FoundRepr {
                query,
                space: send.space,
                tag: send.tag,
                message: send.message as u32,
                total: send.total,
                immediate: send.immediate,
                none: false,
            };
        }
        self.peers.say(row, Notice::Found(found));
    }
}
