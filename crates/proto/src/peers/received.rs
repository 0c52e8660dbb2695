//! Packets that arrive or are lost: whose they are, what is noted of them.
//!
//! PROTOCOL §5. Nothing is counted as received before its records were accepted.

use crate::delivery::content::Content;
use crate::delivery::path::{FIRST_PACKETS, Path};
use crate::delivery::sent::Acked;
use crate::delivery::window::Shrink;
use crate::peers::Peers;
use crate::peers::acks::Urgency;
use crate::peers::actives::hear;
use crate::peers::rows::{Row, row_of_id};
use crate::wire::{Header, base_of, numbered_header};
use crate::{Instant, Locator, PATH_COUNT_MAX};
use alloc::vec::Vec;

/// What an acknowledgement taught of a path.
pub(crate) struct Learned {
    /// No packet of the path is in flight any more.
    pub(crate) is_done: bool,
    /// There is more to send than there was.
    pub(crate) has_more: bool,
}

impl Peers {
    /// The number of a frame's packet, if it is one, but for its low half, which is what the wire shows (PROTOCOL §5.1). Nothing
    /// is verified yet: with the wrong one the check fails.
    #[inline(always)]
    pub(crate) fn base_of(&self, bytes: &[u8]) -> u64 {
        if self.has_high { self.find_base(bytes) } else { 0 }
    }

    /// A frame was believed that may be of a number in the upper half of 2^32: the low half may begin anew after it.
    #[inline(always)]
    pub(crate) fn expect_high(&mut self, is_in_upper_half: bool) {
        self.has_high |= is_in_upper_half;
    }

    /// The first frame that comes with a number that has a high half: such are looked up from now on. False: it is none, or not the first.
    pub(crate) fn find_first_high(&mut self, bytes: &[u8]) -> bool {
        let is_first = !self.has_high && self.find_base(bytes) != 0;
        self.has_high |= is_first;
        is_first
    }

    #[cfg(test)]
    pub(crate) fn has_high(&self) -> bool {
        self.has_high
    }

    #[cfg(test)]
    pub(crate) fn set_high(&mut self, has_high: bool) {
        self.has_high = has_high;
    }

    #[inline(never)]
    fn find_base(&self, bytes: &[u8]) -> u64 {
        let Some(header) = numbered_header(bytes).filter(|header| header.to != 0) else { return 0 };
        let low = header.packet as u32;
        let this = self.rows.get(row_of_id(header.to)).filter(|row| row.local_id == header.to);
        let Some(this) = this else { return 0 };
        let path = usize::from(header.path);
        let packet = match self.actives.get(this.active) {
            Some(active) => active.paths.get(path).map(|path| path.received().expand(low)),
            None => this.resting_path(path).map(|rest| rest.expand(low)),
        };
        packet.map_or(0, base_of)
    }

    /// The row a frame is for and the path it came over, as the function of this name says.
    #[inline(always)]
    pub(crate) fn hear(
        &mut self,
        now: Instant,
        header: Header,
        link: u8,
        from: &Locator,
    ) -> Option<(&mut Row, &mut Path)> {
        hear(now, &mut self.rows, &mut self.actives, header, link, from)
    }

    /// Counts a packet as received; an acknowledgement is due now, or in a while (PROTOCOL §5.4).
    #[inline]
    pub(crate) fn note_received(
        &mut self,
        now: Instant,
        row: u32,
        path_index: usize,
        packet: u64,
        message_count: u64,
        answer: Urgency,
    ) {
        let active = self.activate(row);
        let path = &mut self.actives[active].paths[path_index];
        let in_order = path.record(packet, now);
        if answer == Urgency::None {
            return;
        }
        let at_once = answer == Urgency::AtOnce || !in_order || packet <= FIRST_PACKETS;
        let due = path.owe_ack(now, message_count, at_once, &self.settings);
        self.see_to_ack(row, due);
    }

    /// The peer has more paths than we; false if it has more than it may.
    #[cold]
    pub(crate) fn make_place(&mut self, row: u32, index: usize) -> bool {
        if index >= PATH_COUNT_MAX {
            return false;
        }
        let (traits, rtt_ns) = (*self.links.of(0), self.settings.initial_rtt_ns);
        let paths = &mut self.active_of_mut(row).paths;
        while paths.len() <= index {
            paths.push(Path::absent(&traits, rtt_ns));
        }
        true
    }

    /// Packets of a path were acknowledged that were not known to have arrived: what that says of the path.
    #[inline(always)]
    pub(crate) fn learn(
        &mut self,
        now: Instant,
        row: u32,
        path_index: usize,
        acked: &Acked,
        delay_ns: u32,
        in_flight_before: u64,
    ) -> Learned {
        let active = self.actives.get_mut(self.rows[row].active).expect("heard of");
        let path = &mut active.paths[path_index];
        path.on_acked(now, acked, delay_ns, in_flight_before);
        let is_done = path.flight().is_empty();
        let is_one_of_several = active.paths.len() > 1;
        let has_more = is_one_of_several && active.learn_rate(now, path_index, acked.bytes);
        if is_one_of_several && core::mem::take(&mut active.contest.has_news) {
            self.tell_path_news(row);
        }
        Learned { is_done, has_more }
    }

    /// Whether contents of lost packets are to be sent again.
    #[inline(always)]
    pub(crate) fn has_lost(&self) -> bool {
        !self.lost.is_empty()
    }

    /// The contents of lost packets, for their owners. Their memory is used again (`give_back`).
    pub(crate) fn take_lost(&mut self) -> Vec<Content> {
        core::mem::take(&mut self.lost)
    }

    pub(crate) fn give_back(&mut self, emptied: Vec<Content>) {
        self.lost = emptied;
    }

    /// Looks for packets that must be lost by now, and leaves their contents in `lost`. True if there were any.
    #[inline]
    pub(crate) fn detect_lost(&mut self, now: Instant, row: u32, path_index: usize) -> bool {
        let active_slot = self.rows[row].active;
        let path = &mut self.actives[active_slot].paths[path_index];
        if path.flight().is_empty() {
            return false;
        }
        let is_forgotten = path.forgets_lost(&self.saboteur);
        let contents = &mut self.lost;
        let lost = path.detect_lost(now, &mut |content| {
            if !is_forgotten {
                contents.push(content);
            }
        });
        if lost.count == 0 {
            return false;
        }
        self.counters.packets_lost += u64::from(lost.count);
        let (shrink, is_shorter) = path.on_lost(now, &lost);
        match shrink {
            Shrink::None => {}
            Shrink::Gentle => self.counters.windows_shrunk += 1,
            Shrink::Halved => self.counters.windows_halved += 1,
        }
        if is_shorter {
            self.counters.frame_len_drops += 1;
        }
        self.make_ready(row);
        true
    }
}

impl Peers {
    /// Counts the packet that was expected as received (`Peers::note_received`).
    #[inline]
    pub(crate) fn note_next(&mut self, now: Instant, row: u32, path: u8, message_count: u64) {
        let path = &mut self.actives[self.rows[row].active].paths[usize::from(path)];
        let due = path.on_next(now, message_count, &self.settings);
        self.see_to_ack(row, due);
    }

    /// Takes no quick way from now on, or may again.
    #[cfg(test)]
    pub(crate) fn set_thorough(&mut self, is_thorough: bool) {
        self.is_thorough = is_thorough;
    }

    /// Whether frames may take the quick ways. While it closes an endpoint looks at more than they do.
    #[inline(always)]
    pub(crate) fn may_be_quick(&self) -> bool {
        #[cfg(test)]
        if self.is_thorough {
            return false;
        }
        self.closing.is_none()
    }
}

impl Peers {
    /// Counts the packets of fragments as received. They are one thing for who acknowledges, too.
    pub(crate) fn note_fragments(&mut self, now: Instant, row: u32, first: &Header, count: u64) {
        let (path, last) = (usize::from(first.path), first.packet + count - 1);
        if count > 1 {
            let active = self.activate(row);
            let in_order =
                self.actives[active].paths[path].record_run(first.packet, count - 1, now);
            if !in_order {
                return self.note_received(now, row, path, last, 0, Urgency::AtOnce);
            }
        }
        self.note_received(now, row, path, last, 0, Urgency::Soon);
    }
}

impl Peers {
    /// Counts the packets of a train as received (`Peers::note_received`).
    pub(crate) fn note_train(
        &mut self,
        now: Instant,
        row: u32,
        path: usize,
        packet: u64,
        count: u64,
    ) {
        let active = self.activate(row);
        let path = &mut self.actives[active].paths[path];
        let in_order = path.record_run(packet, count, now);
        let at_once = !in_order || packet <= FIRST_PACKETS;
        let due = path.owe_train_ack(now, count as u32, at_once, &self.settings);
        self.see_to_ack(row, due);
    }
}
