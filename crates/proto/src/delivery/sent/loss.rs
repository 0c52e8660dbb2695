//! Packets that are taken for lost, given up, or of whose content nobody wants to hear any more.

use super::*;

impl Flight {
    /// Takes out what is lost by now (PROTOCOL §6.2); its contents go to `lost`. To be called after each Ack and at
    /// `loss_deadline`.
    pub(crate) fn detect_lost(
        &mut self,
        now: Instant,
        loss_delay_ns: u64,
        lost: &mut impl Hear,
    ) -> Lost {
        let mut sum = Lost::default();
        let count_before = self.packet_count;
        // Numbers and times ascend: behind a packet that is not lost yet, none is.
        while let Some(front) = self.packets.front() {
            let (number, count) = (front.number, self.lost_count(front, now, loss_delay_ns));
            if count == 0 {
                break;
            }
            if count < u64::from(front.count) {
                self.split(self.packets.start, number + count);
            }
            let packet = self.lose_front(lost);
            if sum.count == 0 {
                sum.round_count = packet.settled_count;
            }
            sum.bytes += packet.len();
            sum.count += u32::from(packet.count);
            sum.frame_len_max = sum.frame_len_max.max(packet.frame_len);
            sum.newest_sent_at = packet.sent_at;
        }
        if sum.count > 0 {
            sum.round_count = self.settled_count.wrapping_sub(sum.round_count).max(count_before);
        }
        sum
    }

    /// How many packets of the front are lost: those sent so many numbers before one that arrived, or so long before.
    fn lost_count(&self, packet: &Packet, now: Instant, loss_delay_ns: u64) -> u64 {
        let is_old = packet.sent_at + loss_delay_ns <= now;
        let forgiven = if is_old { 0 } else { REORDER_COUNT - 1 };
        let end = self.largest_acked.saturating_sub(forgiven);
        end.saturating_sub(packet.number).min(u64::from(packet.count))
    }

    /// When the oldest packet outstanding is lost for its age; `NEVER` if none sent later is acknowledged.
    pub(crate) fn loss_deadline(&self, loss_delay_ns: u64) -> Instant {
        match self.packets.front() {
            Some(packet) if packet.number < self.largest_acked => packet.sent_at + loss_delay_ns,
            _ => Instant::NEVER,
        }
    }

    /// Turns matching contents to `Void`: given up, not to be heard of again. A packet with nothing else leaves the
    /// flight, neither acked nor lost (PROTOCOL §7.5: no loss is counted). Looks at everything: for rare events.
    pub(crate) fn void(&mut self, matches: &mut impl FnMut(&Content) -> bool) {
        let mut at = self.packets.start;
        while at != self.packets.end {
            let packet = self.packets.get_mut(at);
            if packet.is_outstanding() {
                let len = packet.len(); // of a run the content tells, which may be void then
                let is_live = !void_content(&mut packet.content, matches);
                let (start, count) = (packet.more_start, packet.more_count);
                if !self.void_more(start, count, matches) && !is_live {
                    self.leave(at, len);
                }
            }
            at = at.wrapping_add(1);
        }
        if self.building_count > 0 {
            void_content(&mut self.packets.get_mut(self.packets.end).content, matches);
            self.void_more(self.building_more_start(), self.building_more_count(), matches);
        }
        self.drop_settled();
    }

    /// Returns whether any of these contents is not void.
    fn void_more(
        &mut self,
        start: u32,
        count: u16,
        matches: &mut impl FnMut(&Content) -> bool,
    ) -> bool {
        let mut is_live = false;
        for n in 0..u32::from(count) {
            is_live |= !void_content(self.more.get_mut(start.wrapping_add(n)), matches);
        }
        is_live
    }

    /// The path is dead (PROTOCOL §6.5): everything outstanding leaves the flight, its contents go to `lost`. Returns
    /// how many packets that were.
    pub(crate) fn abandon(&mut self, lost: &mut impl Hear) -> u32 {
        let count = self.packet_count;
        while !self.is_empty() {
            self.lose_front(lost);
        }
        count
    }
}

/// Turns a content that matches to `Void`. Returns whether it is void now.
fn void_content(content: &mut Content, matches: &mut impl FnMut(&Content) -> bool) -> bool {
    if !matches!(content, Content::Void) && matches(content) {
        *content = Content::Void;
    }
    matches!(content, Content::Void)
}
