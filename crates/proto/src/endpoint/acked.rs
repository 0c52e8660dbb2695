//! What a peer acknowledges: what the packets carried was accepted, and simple sends are over.
//!
//! PROTOCOL §5.3, §6.2. An Ack without holes that begins with the oldest packet in flight is the rule; all others go to `on_other_ack`.

use crate::Sabotage;
use crate::base::types::Instant;
use crate::bulk::acked::Told;
use crate::delivery::content::Content;
use crate::endpoint::Endpoint;
use crate::peers::received::Learned;
use crate::wire::AckView;

impl Endpoint {
    /// The peer says what it received.
    #[inline]
    pub(crate) fn on_ack(&mut self, now: Instant, row: u32, ack: &AckView<'_>) {
        if !self.peers().may_be_quick() {
            return self.on_other_ack(now, row, ack);
        }
        let Some(told) = self.bulk_mut().take_ack_of_front(row, ack) else {
            return self.on_other_ack(now, row, ack);
        };
        if told.acked.count == 0 {
            return; // told before
        }
        if self.bulk().has_accepted() {
            self.on_contents_acked(now, row, told.path_index);
        }
        self.after_ack(now, row, &told, ack.delay_ns());
    }

    /// An Ack with holes, or one that tells nothing new.
    #[inline(never)]
    fn on_other_ack(&mut self, now: Instant, row: u32, ack: &AckView<'_>) {
        let told = self.bulk_mut().take_any_ack(row, ack);
        self.on_contents_acked(now, row, usize::from(ack.path()));
        if let Some(told) = told.filter(|told| told.acked.count > 0) {
            self.after_ack(now, row, &told, ack.delay_ns());
        }
    }
}

impl Endpoint {
    /// An Ack told of packets not known to have arrived before: what that teaches, and what may follow.
    #[inline]
    pub(crate) fn after_ack(
        &mut self,
        now: Instant,
        row: u32,
        &Told { path_index, ref acked, in_flight_before }: &Told,
        delay_ns: u32,
    ) {
        let Learned { is_done, has_more } =
            self.peers_mut().learn(now, row, path_index, acked, delay_ns, in_flight_before);
        if !is_done {
            if self.peers().rows[row].is_joined()
                && !self.peers().saboteur.makes(Sabotage::LossNeverDetected)
            {
                self.bulk_mut().detect_lost(now, row, path_index);
                self.settle_lost(row);
            }
            if !self.peers().active_of(row).paths[path_index].flight().is_empty() {
                self.peers_mut().arm_flight(row, path_index);
            }
        }
        self.bulk_mut().go_on_sending(row, has_more);
    }

    /// What an Ack accepted and there is more to.
    #[inline(never)]
    pub(crate) fn on_contents_acked(&mut self, now: Instant, row: u32, path_index: usize) {
        let mut accepted = self.bulk_mut().take_accepted();
        for content in accepted.drain(..) {
            self.on_content_acked(now, row, path_index, content);
        }
        self.bulk_mut().give_back(accepted);
    }

    /// Something we sent arrived and was accepted.
    fn on_content_acked(&mut self, now: Instant, row: u32, path_index: usize, content: Content) {
        match content {
            Content::Message { slot, serial, offset, len } => {
                self.bulk_mut().on_message_acked(row, (slot, serial), offset, len);
            }
            Content::Probe { frame_len } => {
                let path = &mut self.peers_mut().active_of_mut(row).paths[path_index];
                path.on_frame_probe_acked(now, frame_len);
                self.peers_mut().refit(row); // what carries long frames may be the one for data
            }
            Content::Grant { slot, serial, .. } => self.bulk_mut().on_grant_settled(slot, serial),
            Content::Cancel { .. } => self.peers_mut().on_cancel_acked(row),
            Content::Reply { slot, serial } => {
                self.onesided.on_reply_acked(&mut self.messages.bulk, slot, serial)
            }
            Content::Replied { count, .. } => {
                self.onesided.on_replied_acked(&mut self.messages.bulk, row, count)
            }
            Content::AckUpTo { path, largest } => {
                let path = &mut self.peers_mut().active_of_mut(row).paths[usize::from(path)];
                path.forget_received_below(largest.saturating_sub(REORDER_SLACK));
            }
            _ => {}
        }
    }

    /// What was lost goes back to its owners.
    #[inline]
    pub(crate) fn settle_lost(&mut self, row: u32) {
        if self.peers().has_lost() {
            self.on_contents_lost(row);
        }
    }

    #[inline(never)]
    fn on_contents_lost(&mut self, row: u32) {
        let mut lost = self.peers_mut().take_lost();
        for content in lost.drain(..) {
            self.on_content_lost(row, content);
        }
        self.peers_mut().give_back(lost);
    }

    /// Something we sent was lost: back to its owner.
    fn on_content_lost(&mut self, row: u32, content: Content) {
        self.peers_mut().counters.contents_resent += 1;
        match content {
            Content::Message { slot, serial, offset, len } => {
                self.bulk_mut().on_message_lost(row, (slot, serial), offset, len);
            }
            Content::Data { slot, serial, offset, len } => {
                self.bulk_mut().on_data_lost(slot, serial, offset, len);
            }
            Content::Grant { slot, serial, offset, len } => {
                self.bulk_mut().on_grant_lost(slot, serial, offset, len)
            }
            Content::Turn { order } => {
                if self.peers().rows[row].turn_order() == order {
                    self.peers_mut().notify(row, content);
                }
            }
            Content::Request { slot, serial } => {
                self.onesided.on_request_lost(&mut self.messages.bulk, row, slot, serial)
            }
            Content::Done { .. }
            | Content::Cancel { .. }
            | Content::Reply { .. }
            | Content::Replied { .. }
            | Content::End { .. }
            | Content::StreamCredit
            | Content::Goodbye => self.peers_mut().notify(row, content),
            Content::Void
            | Content::Query { .. }
            | Content::Found
            | Content::AckUpTo { .. }
            | Content::Ping
            | Content::Probe { .. } => {}
        }
    }
}

/// Packets below an acknowledged acknowledgement that may still arrive out of order.
pub(crate) const REORDER_SLACK: u64 = 64;
