//! Bytes of messages under way go to their place.
//!
//! PROTOCOL §8.7. Every byte counts once, whatever record brings it.

use crate::base::api::Verdict;
use crate::base::slab::NONE;
use crate::bulk::Bulk;
use crate::bulk::arrival::{Arrival, GAP_COUNT_MAX, lane_key};
use crate::{Instant, Memory, Place, Sabotage};

/// What became of bytes of a message under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Absorbed {
    /// The bytes are not taken, and must come again.
    Refused,
    /// More are missing.
    Partly,
    /// None is missing any more: whose they are must hear of it.
    Wholly,
}

impl Absorbed {
    /// Whether the record may be acknowledged.
    pub(crate) fn verdict(self) -> Verdict {
        if self == Self::Refused { Verdict::Refused } else { Verdict::Accepted }
    }
}

impl Bulk {
    /// A message is known by its number.
    pub(super) fn map(&mut self, slot: u32) {
        let arrival = &self.arrivals[slot];
        self.peers.rows[arrival.row].ties.on_numbered();
        self.by_number.insert(lane_key(arrival.lane, arrival.row, arrival.message), slot);
    }

    /// A message is not known by its number any more: it is whole and had its turn, is over, or was of an association that is.
    pub(crate) fn unmap(&mut self, slot: u32) {
        let arrival = &self.arrivals[slot];
        let key = lane_key(arrival.lane, arrival.row, arrival.message);
        if self.by_number.get(&key) == Some(&slot) {
            self.by_number.remove(&key);
            self.peers.rows[arrival.row].ties.on_number_over();
        }
    }
}

impl Bulk {
    /// Takes bytes of a message under way. Bytes that are there already, or not wanted, are ignored. Whether none is missing any more.
    pub(crate) fn absorb(
        &mut self,
        now: Instant,
        slot: u32,
        offset: u64,
        body: &[u8],
        memory: &mut impl Memory,
    ) -> Absorbed {
        let arrival = &self.arrivals[slot];
        let (hold, index) = (arrival.hold, arrival.progress);
        let progress = &mut self.progress[index];
        if progress.gaps.gap_count() >= GAP_COUNT_MAX
            && progress.gaps.first_gap().is_none_or(|gap| gap.0 != offset)
        {
            return Absorbed::Refused; // no honest sender is here; an honest one would send it again
        }
        let limit = if progress.receive == NONE && hold != NONE {
            self.held.bytes(hold).len() as u64
        } else {
            progress.cap
        };
        let end = (offset + body.len() as u64).min(limit);
        let target = (progress.receive != NONE)
            .then(|| (self.receives[progress.receive].buf, progress.offset));
        if target.is_none() && hold == NONE {
            return Absorbed::Partly; // announced without room for first bytes: they will be granted
        }
        let held = &mut self.held;
        let (granted_to, mut granted_len) = (progress.granted_to, 0);
        let mut new = |from: u64, to: u64| {
            granted_len += to.min(granted_to).saturating_sub(from);
            let bytes = &body[(from - offset) as usize..(to - offset) as usize];
            match target {
                Some((buf, base)) => memory.place(Place { buf, offset: base + from }, bytes),
                None => held.bytes_mut(hold)[from as usize..to as usize].copy_from_slice(bytes),
            }
        };
        let new_len = if offset < end { progress.gaps.fill(offset, end, &mut new) } else { 0 };
        if new_len > 0 {
            progress.progressed_at = now;
            if target.is_some() {
                self.peers.counters.bytes_placed += new_len; // held bytes are placed later
            }
            self.grants.on_arrived(slot, granted_len);
        }
        match progress.gaps.is_empty() {
            true => Absorbed::Wholly,
            false => Absorbed::Partly,
        }
    }

    pub(super) fn uncharge(&mut self, slot: u32) {
        if self.arrivals[slot].charged && !self.peers.saboteur.makes(Sabotage::CreditNeverReturned)
        {
            self.arrivals[slot].charged = false;
            self.held.uncharge();
        }
    }

    /// Every arrival comes by this way and goes by the next: as long as there are any its row stays known.
    #[inline(always)]
    pub(super) fn insert_arrival(&mut self, mut arrival: Arrival) -> u32 {
        let ties = &mut self.peers.rows[arrival.row].ties;
        let older = ties.newest_kept();
        arrival.older = older;
        let slot = self.arrivals.insert(arrival);
        ties.set_newest_kept(slot);
        if let Some(older) = self.arrivals.get_mut(older) {
            older.newer = slot;
        }
        slot
    }

    #[inline(always)]
    pub(super) fn extract_arrival(&mut self, slot: u32) -> Arrival {
        let arrival = self.arrivals.remove(slot);
        match self.arrivals.get_mut(arrival.newer) {
            Some(newer) => newer.older = arrival.older,
            None => self.peers.rows[arrival.row].ties.set_newest_kept(arrival.older),
        }
        if let Some(older) = self.arrivals.get_mut(arrival.older) {
            older.newer = arrival.newer;
        }
        arrival
    }

    pub(crate) fn remove_arrival(&mut self, slot: u32) {
        self.unmap(slot);
        self.uncharge(slot);
        let arrival = self.extract_arrival(slot);
        if arrival.hold != NONE {
            self.held.release(arrival.hold);
        }
        if arrival.progress != NONE {
            self.progress.remove(arrival.progress);
        }
    }
}
