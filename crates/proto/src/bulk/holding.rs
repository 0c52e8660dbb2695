//! Messages without a receive: held, listed, claimed, forgotten.
//!
//! PROTOCOL §7.2, §7.4, §9. Within the budgets (`held`) a message that has no receive is kept until one takes it, or nobody will. Which receive
//! takes it `messages` decides, and says so (`bound`).

use crate::base::api::{Claim, GoneReason};
use crate::base::gaps::GapSet;
use crate::base::slab::NONE;
use crate::base::types::{Instant, Memory, Place};
use alloc::vec::Vec;

use crate::bulk::Bulk;
use crate::bulk::arrival::{Arrival, Progress, Stage, number_key};
use crate::matching::HeldId;
use crate::wire::{Class, MessageHead, Whereabouts};
use crate::{BufId, Criteria};

/// Numbers of cancelled messages that may be known before their turn, however small the budgets: few bytes each.
const NUMBER_COUNT_MIN: u64 = 1 << 16;

/// It comes.
impl Bulk {
    /// Makes an arrival for a message without a receive, within the budgets; `None` if there is no room. As long as bytes of it are missing, or its turn
    /// has not come, it is known by its number.
    #[inline(always)]
    pub(crate) fn hold(
        &mut self,
        now: Instant,
        row: u32,
        head: &MessageHead,
        body: &[u8],
        stage: Stage,
    ) -> Option<u32> {
        if !self.held.has_envelope() {
            return None;
        }
        let slot = match head.class {
            Class::Eager => self.hold_whole(row, head, core::iter::once(body), stage)?,
            _ => self.hold_part(now, row, head, body, stage)?,
        };
        if stage == Stage::Early || self.arrivals[slot].progress != NONE {
            self.map(slot);
        }
        Some(slot)
    }

    /// Makes an arrival for a part of a message or for an announcement, when there is an envelope for it.
    #[inline(never)]
    fn hold_part(
        &mut self,
        now: Instant,
        row: u32,
        head: &MessageHead,
        body: &[u8],
        stage: Stage,
    ) -> Option<u32> {
        let mut arrival = Arrival::new(self.peers.rows[row].peer(), head, stage);
        // A large message is announced even if its first bytes find no room (PROTOCOL §8.1).
        let hold_len =
            if arrival.is_large { body.len() } else { usize::try_from(head.total).ok()? };
        match self.held.try_reserve(hold_len) {
            Some(hold) => {
                let at = head.offset as usize;
                self.held.bytes_mut(hold)[at..at + body.len()].copy_from_slice(body);
                arrival.hold = hold;
            }
            None if arrival.is_large => {}
            None => return None,
        }
        let mut gaps = GapSet::whole(head.total);
        if arrival.hold != NONE {
            let start = u64::from(head.offset);
            gaps.fill(start, start + body.len() as u64, &mut |_, _| ());
        }
        if !gaps.is_empty() || arrival.is_large {
            let ahead_to = self.taken_ahead(row, head);
            let told = self.told.take();
            let progress = Progress { ahead_to, told, ..Progress::held(gaps, head.total, now) };
            arrival.progress = self.progress.insert(progress);
        }
        self.charge(&mut arrival);
        if arrival.is_large {
            self.peers.counters.rendezvous_in += 1;
        }
        Some(self.insert_arrival(arrival))
    }

    /// Makes an arrival for a message that came whole, in one piece or some, when there is an envelope for it.
    #[inline(always)]
    pub(crate) fn hold_whole<'a>(
        &mut self,
        row: u32,
        head: &MessageHead,
        bodies: impl Iterator<Item = &'a [u8]>,
        stage: Stage,
    ) -> Option<u32> {
        let len = head.total as usize;
        let hold = self.held.reserve(len)?;
        let mut rest = self.held.bytes_mut(hold);
        for body in bodies {
            let (to, behind) = rest.split_at_mut(body.len());
            to.copy_from_slice(body);
            rest = behind;
        }
        let mut arrival =
            Arrival { hold, ..Arrival::new(self.peers.rows[row].peer(), head, stage) };
        self.charge(&mut arrival);
        Some(self.insert_arrival(arrival))
    }

    /// Holds what is left of a message behind so many bytes, which its reader has taken. It may lie in several pieces. `None`: there is no room.
    pub(crate) fn hold_rest<'a>(
        &mut self,
        len: usize,
        skip_len: usize,
        pieces: impl Iterator<Item = &'a [u8]>,
    ) -> Option<u32> {
        let hold = self.held.reserve(len)?;
        copy_behind(skip_len, pieces, self.held.bytes_mut(hold));
        self.peers.counters.stream_bytes_held += len as u64;
        self.held.charge(&mut self.peers.counters);
        Some(hold)
    }

    #[inline(always)]
    fn charge(&mut self, arrival: &mut Arrival) {
        arrival.charged = true;
        self.held.charge(&mut self.peers.counters);
    }

    /// An envelope without bytes is held, if there is room for one more: `forget` gives it back.
    pub(crate) fn try_hold_envelope(&mut self) -> bool {
        let has_room = self.held.has_envelope();
        if has_room {
            self.held.charge(&mut self.peers.counters);
        }
        has_room
    }

    /// Where a message lies in its sender's memory, if that was told.
    pub(crate) fn whereabouts_of(&self, slot: u32) -> Option<Whereabouts> {
        let progress = self.progress.get(self.arrivals[slot].progress);
        progress.and_then(|progress| progress.told)
    }

    /// The announcement that is looked at now says where its message is. Whoever makes an arrival of it keeps that; of a copy of a known one nobody does.
    pub(crate) fn hear_whereabouts(&mut self, whereabouts: &[u8]) {
        self.told = whereabouts.try_into().ok();
    }

    /// The announcement was looked at.
    pub(crate) fn forget_whereabouts(&mut self) {
        self.told = None;
    }

    /// Whether one more message may be known by its mere number: of all that are whole, arriving or numbers only, so many may be known at once.
    pub(crate) fn has_room_for_number(&self) -> bool {
        let held_count_max = u64::from(self.held.envelope_count_max());
        let count_max = NUMBER_COUNT_MIN.max(2 * held_count_max) + u64::from(self.receives.count());
        u64::from(self.arrivals.len()) < count_max
    }

    /// A message whose turn has not come is over: only its number is kept, to be counted then.
    pub(crate) fn keep_number(&mut self, row: u32, head: &MessageHead) {
        let source = self.peers.rows[row].peer();
        let slot = self.insert_arrival(Arrival::new(source, head, Stage::Lapsed));
        self.map(slot);
    }
}

/// It waits.
impl Bulk {
    /// A message that came early has its turn, and no receive: it waits in the unexpected list.
    pub(crate) fn await_receive(&mut self, slot: u32) {
        self.arrivals[slot].stage = Stage::Unexpected;
        self.unmap_if_whole(slot);
    }

    /// A chunk of a stream that came early has its turn.
    pub(crate) fn await_reader(&mut self, slot: u32) {
        self.arrivals[slot].stage = Stage::Streamed;
        self.unmap_if_whole(slot);
    }

    fn unmap_if_whole(&mut self, slot: u32) {
        if self.arrivals[slot].progress == NONE {
            self.unmap(slot);
        }
    }

    /// The last bytes of a message came that has no receive. True: it is a chunk of a stream that had its turn.
    pub(crate) fn on_held_whole(&mut self, slot: u32) -> bool {
        let arrival = &mut self.arrivals[slot];
        if arrival.is_large {
            return false; // its bytes are granted when it has a receive
        }
        self.progress.remove(core::mem::replace(&mut arrival.progress, NONE));
        let stage = arrival.stage;
        if stage != Stage::Early {
            self.unmap(slot);
        }
        stage == Stage::Streamed
    }

    /// A message stands in the unexpected list.
    #[inline(always)]
    pub(crate) fn on_listed(&mut self, slot: u32, held_id: HeldId) {
        self.arrivals[slot].held_id = Some(held_id);
    }

    /// A message is to leave the unexpected list, if it stands there.
    #[inline(always)]
    pub(crate) fn unlist(&mut self, slot: u32) -> Option<HeldId> {
        self.arrivals[slot].held_id.take()
    }

    /// The application takes a message out of the unexpected list, to receive or discard it later.
    pub(crate) fn claim(&mut self, slot: u32) -> Claim {
        self.arrivals[slot].stage = Stage::Claimed;
        Claim(self.arrivals.key(slot))
    }

    /// The message of a claim, unless that was used before.
    pub(crate) fn claimed(&self, claim: Claim) -> Option<u32> {
        let is_claimed = |stage| matches!(stage, Stage::Claimed | Stage::Orphaned(_));
        self.arrivals.lookup(claim.0).filter(|&slot| is_claimed(self.arrivals[slot].stage))
    }

    /// A chunk is named by its stream from now on. It has no immediate: that is where the name is kept.
    pub(crate) fn name_stream(&mut self, slot: u32, stream: u64) {
        self.arrivals[slot].immediate = stream;
    }
}

/// It goes.
impl Bulk {
    /// A plain message that has left the unexpected list goes to the memory of its receive, and is over: what it was, and how much of it was placed.
    #[inline(always)]
    pub(crate) fn place_plain(
        &mut self,
        slot: u32,
        (buf, len): (BufId, u64),
        memory: &mut impl Memory,
    ) -> (Arrival, u64) {
        self.uncharge(slot);
        let arrival = self.extract_arrival(slot);
        let placed_len = arrival.total.min(len);
        if arrival.hold != NONE {
            if placed_len > 0 {
                let bytes = &self.held.bytes(arrival.hold)[..placed_len as usize];
                memory.place(Place { buf, offset: 0 }, bytes);
                self.peers.counters.bytes_placed += placed_len;
            }
            self.held.release(arrival.hold);
        }
        (arrival, placed_len)
    }

    /// A whole chunk is its reader's: the bytes that are held of it, or NONE. They stay charged for.
    pub(crate) fn adopt_chunk(&mut self, slot: u32) -> u32 {
        let hold = core::mem::replace(&mut self.arrivals[slot].hold, NONE);
        self.remove_arrival(slot);
        self.held.charge(&mut self.peers.counters);
        hold
    }

    /// An arrival is over: removed, or remembered by its number while its turn has not come. Returns its place in the unexpected list, which it is to leave.
    pub(crate) fn end_arrival(&mut self, slot: u32) -> Option<HeldId> {
        self.stop_grants(slot);
        let arrival = &mut self.arrivals[slot];
        let held_id = arrival.held_id.take();
        let hold = core::mem::replace(&mut arrival.hold, NONE);
        let progress = core::mem::replace(&mut arrival.progress, NONE);
        let (row, message) = (arrival.row, arrival.message);
        if hold != NONE {
            self.held.release(hold);
        }
        if progress != NONE {
            self.progress.remove(progress);
        }
        self.uncharge(slot);
        let numbers = &self.peers.rows[row].numbers;
        if !numbers.is_past(numbers.whole(message))
            && self.by_number.get(&number_key(row, message)) == Some(&slot)
        {
            // Ahead of its turn: its number must not be taken for new when the turn comes.
            self.arrivals[slot].stage = Stage::Lapsed;
        } else {
            self.remove_arrival(slot);
        }
        held_id
    }

    /// What its sender cannot complete any more stays claimed, until the application asks for it.
    pub(crate) fn orphan(&mut self, slot: u32, reason: GoneReason) {
        self.arrivals[slot].stage = Stage::Orphaned(reason);
    }

    /// The association that a message came in is over, and the message stays, if it is not over too: nobody is left to hear of it, and the next association
    /// counts anew.
    pub(crate) fn part_from_sender(&mut self, slot: u32) {
        if let Some(arrival) = self.arrivals.get_mut(slot) {
            (arrival.is_large, arrival.wants_match, arrival.is_parted) = (false, false, true);
        }
    }
}

/// What is known of those that are here.
impl Bulk {
    /// An arrival, to look at.
    #[inline(always)]
    pub(crate) fn arrival(&self, slot: u32) -> &Arrival {
        &self.arrivals[slot]
    }

    /// The message of a peer with this number, if it is known by it.
    #[inline(always)]
    pub(crate) fn arrival_of(&self, row: u32, message: u32) -> Option<u32> {
        if !self.peers.rows[row].ties.has_numbered() {
            return None;
        }
        self.by_number.get(&number_key(row, message)).copied()
    }

    #[cfg(test)]
    pub(crate) fn searched_count(&self) -> usize {
        self.arrivals.searched_count()
    }

    /// All of one peer, newest first. What others have here costs nothing.
    pub(crate) fn arrivals_of(&self, row: u32) -> impl Iterator<Item = (u32, &Arrival)> {
        let mut slot = self.peers.rows[row].ties.newest_kept();
        core::iter::from_fn(move || {
            let (at, arrival) = (slot, self.arrivals.get(slot)?);
            slot = arrival.older;
            Some((at, arrival))
        })
    }

    /// All that are like this, by their slots.
    pub(crate) fn arrivals_like(&self, is_like: impl Fn(&Arrival) -> bool) -> Vec<u32> {
        let alike = self.arrivals.iter().filter(|(_, arrival)| is_like(arrival));
        alike.map(|(slot, _)| slot).collect()
    }

    /// Tells an arrival from the next one in its slot (`still_holds`).
    pub(crate) fn arrival_serial(&self, slot: u32) -> u32 {
        self.arrivals.serial(slot)
    }

    /// Whether the arrival is there still.
    pub(crate) fn still_holds(&self, slot: u32, serial: u32) -> bool {
        self.arrivals.holds(slot, serial)
    }

    /// A name for an arrival that outlives it.
    pub(crate) fn arrival_key(&self, slot: u32) -> u64 {
        self.arrivals.key(slot)
    }

    /// What such a name means, if that is still there.
    pub(crate) fn find_arrival(&self, key: u64) -> Option<u32> {
        self.arrivals.lookup(key)
    }

    /// What Goodbye tells: messages of the peer below this number were accepted (PROTOCOL §4.4).
    pub(crate) fn accepted_below(&self, row: u32) -> u64 {
        let numbers = &self.peers.rows[row].numbers;
        let incomplete = self.arrivals_of(row).filter(|(_, arrival)| {
            !arrival.is_large && arrival.progress != NONE && !arrival.in_overflow
        });
        incomplete
            .map(|(_, arrival)| numbers.whole(arrival.message))
            .fold(numbers.next_in(), u64::min)
    }

    /// The first message of a peer that waits for its turn and fits: its number, and itself.
    pub(crate) fn first_early(&self, row: u32, criteria: &Criteria) -> Option<(u64, u32)> {
        if !self.peers.rows[row].ties.has_numbered() {
            return None;
        }
        let numbers = &self.peers.rows[row].numbers;
        let fits = self.arrivals_of(row).filter(|(_, arrival)| {
            arrival.stage == Stage::Early
                && self.by_number.contains_key(&number_key(row, arrival.message))
                && criteria.admits(arrival.space, arrival.tag, arrival.source)
        });
        fits.map(|(slot, arrival)| (numbers.whole(arrival.message), slot)).min()
    }
}

/// Copies pieces that lie apart to one place, without so many bytes of the first.
fn copy_behind<'a>(mut skip_len: usize, pieces: impl Iterator<Item = &'a [u8]>, mut to: &mut [u8]) {
    for piece in pieces {
        let (skipped, piece) = piece.split_at(skip_len.min(piece.len()));
        skip_len -= skipped.len();
        let (here, behind) = to.split_at_mut(piece.len());
        here.copy_from_slice(piece);
        to = behind;
    }
}
