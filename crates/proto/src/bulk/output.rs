//! Messages and granted data, as records of a frame that is being filled, and what a receiver would hold.
//!
//! PROTOCOL §7, §8, §10. `endpoint/output` decides that a frame leaves and by which path; here is what of a message goes into it.

use crate::base::api::Source;
use crate::base::gaps::GapSet;
use crate::base::slab::NONE;
use crate::bulk::Bulk;
use crate::bulk::outgoing::{Bytes, Parts, SendStage};
use crate::delivery::content::Content;
use crate::delivery::credit::{Share, eager_cost};
use crate::delivery::frame::Frame;
use crate::peers::choice::Next;
use crate::wire::{self, Class, MessageHead};

/// A fragment or the first bytes of a large message shorter than this are not worth a record of their own.
const PIECE_LEN_MIN: usize = 64;

impl Bulk {
    /// What we would hold for one more active peer (PROTOCOL §5.5).
    #[inline]
    pub(crate) fn credit_for_peers(&self) -> Share {
        self.held.share_of(self.peers.actives.count())
    }
}

impl Bulk {
    /// The message whose turn it is, and what may leave of it if that is in several frames. Asked only where there are several paths.
    pub(crate) fn unsent_len(&self, row: u32) -> (u64, Next) {
        let active = self.peers.active_of(row);
        if active.paths.len() == 1 {
            return (0, Next::Short);
        }
        if let Some(send) =
            self.outgoing.get(active.line.unsent()).filter(|_| !active.line.has_lost())
        {
            let frame_len = active.main_path().frame_len();
            return match send.total >= u64::from(frame_len) {
                true if send.is_large => (send.total, Next::Announcement),
                true => (send.total, Next::Fragments),
                false => (0, Next::Short),
            };
        }
        match active.line.first_granted() {
            Some((slot, serial)) if self.outgoing.holds(slot, serial) => {
                let parts = self.parts.get(self.outgoing[slot].parts);
                (parts.map_or(0, |parts| parts.unsent.missing_len()), Next::Short)
            }
            _ => (0, Next::Short),
        }
    }

    /// One piece of granted data; the granted messages take turns.
    pub(crate) fn write_data(&mut self, row: u32, index: usize, frame: &mut Frame<'_>) {
        let active = self.peers.active_of_mut(row);
        if !active.paths[index].has_window() {
            return;
        }
        while let Some((slot, serial)) = active.line.take_granted() {
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
            active.paths[index].add(Content::Data { slot, serial, offset: start, len });
            if unsent.is_empty() {
                send.is_queued = false;
            } else {
                active.line.queue_granted(slot, serial);
            }
            return;
        }
    }
}

impl Bulk {
    /// Messages in order, what was lost first, within window and credit.
    pub(crate) fn write_messages(&mut self, row: u32, index: usize, frame: &mut Frame<'_>) {
        let active = self.peers.rows[row].active();
        if !self.peers.actives[active].paths[index].has_window() {
            return;
        }
        while let Some((slot, serial)) = self.peers.actives[active].line.first_lost() {
            let stale = !self.outgoing.holds(slot, serial)
                || self.outgoing[slot].stage != SendStage::Waiting
                || self.peers.rows[row].numbers.holds_back(self.outgoing[slot].message);
            if !stale && !self.write_message(row, index, slot, frame) {
                return;
            }
            if stale || self.outgoing[slot].stage != SendStage::Waiting {
                self.peers.actives[active].line.on_resent();
            }
        }
        loop {
            let slot = self.peers.actives[active].line.unsent();
            if slot == NONE || self.peers.rows[row].numbers.holds_back(self.outgoing[slot].message)
            {
                return;
            }
            let (stage, is_large) = (self.outgoing[slot].stage, self.outgoing[slot].is_large);
            if is_large && self.peers.actives[active].awaits_better_path() {
                return;
            }
            if stage == SendStage::Waiting && !self.write_message(row, index, slot, frame) {
                return;
            }
            if self.outgoing[slot].stage != SendStage::Waiting {
                self.peers.actives[active].line.on_sent_up_to(self.outgoing[slot].next);
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
        let active = self.peers.active_of(row);
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
            if path.can_fetch()
                && room >= wire::WHEREABOUTS_LEN
                && matches!(send.bytes, Bytes::User(_))
            {
                head.class = Class::Told;
                return Some((head, wire::WHEREABOUTS_LEN as u64));
            }
            let len = if path.grants_soon() { 0 } else { room as u64 };
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
    pub(super) fn write_message(
        &mut self,
        row: u32,
        index: usize,
        slot: u32,
        frame: &mut Frame<'_>,
    ) -> bool {
        let Some((mut head, len)) = self.fit_record(row, index, slot, frame) else { return false };
        let serial = self.outgoing.serial(slot);
        let active = &mut self.peers.actives[self.peers.rows[row].active()];
        let send = &mut self.outgoing[slot];
        let cost = eager_cost(len as u32);
        if !active.credit.allows(cost) {
            return false;
        }
        let mut is_new = false;
        if matches!(head.class, Class::Rts | Class::Told) {
            let most = match self.peers.settings.ahead_len {
                len if active.paths[index].grants_soon()
                    || !active.credit.has_room_for(len.into()) =>
                {
                    0
                }
                len => len,
            };
            is_new = self.peers.rows[row].ahead.announce(
                (&mut send.announced, send.total),
                most,
                &mut self.ahead_sum,
            );
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
        active.paths[index].add(Content::Message {
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
}

impl Bulk {
    /// A message that fills a frame leaves no room for the acknowledgement that waits to ride on it, of which there is one. The message is what the
    /// peer waits for: it goes first, and the acknowledgement right behind it (PROTOCOL §10.1).
    pub(crate) fn lets_message_go_first(
        &mut self,
        row: u32,
        index: usize,
        frame: &Frame<'_>,
    ) -> bool {
        let this = &self.peers.rows[row];
        let active = &mut self.peers.actives[this.active()];
        let slot = active.line.unsent();
        let has_waited =
            active.paths.iter().any(|path| path.has_ack_waited() || path.is_probe_due());
        let has_other = active.has_content_beside_unsent();
        if has_waited || has_other || slot == NONE {
            return false;
        }
        let (send, room) = (&self.outgoing[slot], frame.room());
        let is_between =
            send.fits_whole(room) && !send.fits_whole(room.saturating_sub(wire::ack_head_len(0)));
        let may_go = send.stage == SendStage::Waiting
            && active.paths[index].has_window()
            && this.cost_of(send.message, send.total as u32, active.credit).is_some();
        if !is_between || !may_go {
            return false;
        }
        for path in active.paths.iter_mut().filter(|path| path.owes_ack()) {
            path.let_ack_wait();
        }
        true
    }
}
