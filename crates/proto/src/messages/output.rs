//! Messages and granted data, as records of a frame that is being filled.
//!
//! PROTOCOL §7, §8, §10. `output` decides that a frame leaves and by which path; here is what of a message goes into it.

use crate::base::api::Source;
use crate::base::gaps::GapSet;
use crate::base::slab::NONE;
use crate::bulk::outgoing::{Bytes, Parts, SendStage};
use crate::delivery::content::Content;
use crate::delivery::credit::eager_cost;
use crate::delivery::frame::Frame;
use crate::endpoint::Endpoint;
use crate::peers::choice::Next;
use crate::wire::{self, Class, MessageHead};

/// A fragment or the first bytes of a large message shorter than this are not worth a record of their own.
const PIECE_LEN_MIN: usize = 64;

impl Endpoint {
    /// Messages in order, what was lost first, within window and credit.
    pub(crate) fn write_messages(&mut self, row: u32, index: usize, frame: &mut Frame<'_>) {
        let active = self.rows[row].active;
        if !self.actives[active].paths[index].has_window() {
            return;
        }
        while let Some(&(slot, serial)) = self.actives[active].resend.front() {
            let stale = !self.outgoing.holds(slot, serial)
                || self.outgoing[slot].stage != SendStage::Waiting
                || self.outgoing[slot].message >= self.rows[row].held_from;
            if !stale && !self.write_message(row, index, slot, frame) {
                return;
            }
            if stale || self.outgoing[slot].stage != SendStage::Waiting {
                self.actives[active].resend.pop_front();
            }
        }
        loop {
            let slot = self.actives[active].unsent;
            if slot == NONE || self.outgoing[slot].message >= self.rows[row].held_from {
                return;
            }
            let stage = self.outgoing[slot].stage;
            if stage == SendStage::Waiting && !self.write_message(row, index, slot, frame) {
                return;
            }
            if self.outgoing[slot].stage != SendStage::Waiting {
                self.actives[active].unsent = self.outgoing[slot].next;
            }
        }
    }

    /// The record of a message that this frame has room for, and how many bytes of it go there at most. `None`: there is none.
    #[inline]
    fn fit_record(
        &mut self,
        row: u32,
        index: usize,
        slot: u32,
        frame: &Frame<'_>,
    ) -> Option<(MessageHead, u64)> {
        let send = &self.outgoing[slot];
        let active = &self.actives[self.rows[row].active];
        let has_immediate = send.immediate.is_some();
        let mut head = MessageHead {
            class: Class::Eager,
            space: send.space,
            message: send.message as u32,
            tag: send.tag,
            offset: 0,
            total: send.total,
            immediate: send.immediate,
            wants_match: send.until_matched,
            len: 0,
            ahead: 0,
        };
        let room = frame.room();
        let whole = send.fits_whole(room);
        let len = if whole {
            send.total
        } else if send.is_large {
            head.class = Class::Rts;
            let room = room.checked_sub(wire::rts_head_len(has_immediate))?;
            if room < PIECE_LEN_MIN && !frame.is_fresh() {
                return None;
            }
            // Where nothing is lost a grant comes soon, and what it asks for is not copied on its way (PROTOCOL §8.1). Where it can be fetched it
            // is enough to say where it is (§8.10).
            let path = &active.paths[index];
            if path.can_fetch
                && room >= wire::WHEREABOUTS_LEN
                && matches!(send.bytes, Bytes::User(_))
            {
                head.class = Class::Told;
                return Some((head, wire::WHEREABOUTS_LEN as u64));
            }
            let len = if path.is_reliable { 0 } else { room as u64 };
            len.min(send.total)
        } else {
            head.class = Class::Fragment;
            let room = room.checked_sub(wire::fragment_head_len(has_immediate))?;
            // A message that would fit a frame of its own is not cut to fill this one.
            let fits_alone =
                send.total as usize + wire::eager_head_len(has_immediate) <= frame.fresh_room();
            if room < PIECE_LEN_MIN || (send.parts == NONE && fits_alone) {
                return None;
            }
            if send.parts == NONE {
                // What is begun goes whole, as a train; where nothing else is on its way, as much as the peer has room for.
                if !active.credit.allows(eager_cost(send.total as u32)) {
                    return None;
                }
                let unsent = GapSet::whole(send.total);
                let unacked = unsent.clone();
                let parts = self.parts.insert(Parts { unacked, unsent, ..Parts::default() });
                self.outgoing[slot].parts = parts;
            }
            room as u64
        };
        Some((head, len))
    }

    /// One record of a message: all of it if it fits, a fragment, or an announcement. False if there is no room.
    #[inline]
    pub(crate) fn write_message(
        &mut self,
        row: u32,
        index: usize,
        slot: u32,
        frame: &mut Frame<'_>,
    ) -> bool {
        let Some((mut head, len)) = self.fit_record(row, index, slot, frame) else { return false };
        let serial = self.outgoing.serial(slot);
        let active = &mut self.actives[self.rows[row].active];
        let send = &mut self.outgoing[slot];
        let cost = eager_cost(len as u32);
        if !active.credit.allows(cost) {
            return false;
        }
        let mut is_new = false;
        if matches!(head.class, Class::Rts | Class::Told) {
            let most = match self.settings.ahead_len {
                len if active.paths[index].is_reliable
                    || !active.credit.has_room_for(len.into()) =>
                {
                    0
                }
                len => len,
            };
            is_new = self.rows[row].ahead.announce(send, most, &mut self.ahead_sum);
            // Announced before by another path, some of it may have gone ahead there; what is fetched is fetched whole.
            if head.class == Class::Rts {
                head.ahead = send.announced.ahead_to().div_ceil(wire::AHEAD_UNIT) as u16;
            }
        }
        let (offset, len) = if head.ahead > 0 {
            (0, 0) // what follows lands in its place, if this is short and known before
        } else if head.class == Class::Fragment {
            let (start, end) = self.parts[send.parts]
                .unsent
                .take_front(len)
                .expect("a waiting message has unsent bytes");
            (start, end - start)
        } else {
            (0, len)
        };
        if head.class != Class::Fragment || self.parts[send.parts].unsent.is_empty() {
            send.stage = SendStage::Sent;
        } else {
            self.may_train = true; // the others follow together
        }
        head.offset = offset as u32;
        head.len = len as u16;
        let source = match (head.class, send.bytes) {
            (Class::Told, Bytes::User(buf)) => Source::Whereabouts { buf, len: send.total },
            _ => send.source(offset),
        };
        frame.writer.message(&head);
        frame.push_body(source, len as usize);
        active.credit.on_sent(eager_cost(len as u32));
        active.paths[index].flight.add(Content::Message {
            slot,
            serial,
            offset: offset as u32,
            len: len as u32,
        });
        if is_new {
            self.send_ahead(slot);
        }
        true
    }

    /// The message whose turn it is, and what may leave of it if that is in several frames. Asked only where there are several paths.
    pub(crate) fn unsent_len(&self, row: u32) -> (u64, Next) {
        let active = &self.actives[self.rows[row].active];
        if active.paths.len() == 1 {
            return (0, Next::Short);
        }
        if let Some(send) = self.outgoing.get(active.unsent).filter(|_| active.resend.is_empty()) {
            let frame_len = active.paths[usize::from(active.main)].frame_len;
            return match send.total >= u64::from(frame_len) {
                true if send.is_large => (send.total, Next::Announcement),
                true => (send.total, Next::Fragments),
                false => (0, Next::Short),
            };
        }
        match active.granted.front() {
            Some(&(slot, serial)) if self.outgoing.holds(slot, serial) => {
                let parts = self.parts.get(self.outgoing[slot].parts);
                (parts.map_or(0, |parts| parts.unsent.missing_len()), Next::Short)
            }
            _ => (0, Next::Short),
        }
    }

    /// One piece of granted data; the granted messages take turns.
    pub(crate) fn write_data(&mut self, row: u32, index: usize, frame: &mut Frame<'_>) {
        let active = &mut self.actives[self.rows[row].active];
        if !active.paths[index].has_window() {
            return;
        }
        while let Some((slot, serial)) = active.granted.pop_front() {
            if !self.outgoing.holds(slot, serial) {
                continue;
            }
            let room = frame.room() - wire::DATA_HEAD_LEN;
            let send = &mut self.outgoing[slot];
            let Some(Parts { lane, base, unsent, .. }) = self.parts.get_mut(send.parts) else {
                send.is_queued = false; // refused since
                continue;
            };
            let Some((start, end)) = unsent.take_front(room as u64) else {
                send.is_queued = false;
                continue;
            };
            let len = (end - start) as u32;
            frame.writer.data(*lane, send.message as u32, len as u16, start);
            frame.push_body(send.source(*base + start), len as usize);
            active.paths[index].flight.add(Content::Data { slot, serial, offset: start, len });
            if unsent.is_empty() {
                send.is_queued = false;
            } else {
                active.granted.push_back((slot, serial));
            }
            return;
        }
    }
}
