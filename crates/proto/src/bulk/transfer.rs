//! Large one-sided transfers: granted data whose place is exposed memory, or that comes from there.
//!
//! PROTOCOL §11.5. Bytes of a large put or get move as those of a large message do: the side that receives them grants, the
//! other sends (`large`, `grants`, `train`, `landing`). Here is what such a transfer is made of at both ends:
//!
//! ```text
//!            put:  initiator          target            get:  initiator          target
//!                  Outgoing ──data──▶ Arrival                 Arrival ◀──data── Outgoing
//!                  (a supply)         into the region         into its buffer    out of the region
//! ```
//!
//! A supply is an `Outgoing` that is in no list of messages and has no event: its request tells how it ended.

use alloc::vec::Vec;

use crate::base::gaps::GapSet;
use crate::base::slab::NONE;
use crate::base::types::{Instant, Place, Space, Tag};
use crate::bulk::Bulk;
use crate::bulk::arrival::{Arrival, Progress, Stage, lane_key, lane_of};
use crate::bulk::large::GRANT_PIECE_COUNT_MAX;
use crate::bulk::outgoing::{Bytes, Outgoing, Parts, SendStage};
use crate::peers::ahead::Announced;
use crate::wire::{Class, Lane, MessageHead};

/// In the owner of a transfer: it is a delivery of Portals, not a region.
pub(crate) const DELIVERY_BIT: u64 = 1 << 63;

/// A transfer that is about to begin.
pub(crate) struct Transfer {
    pub(crate) lane: Lane,
    pub(crate) row: u32,
    /// Low half of its request's number.
    pub(crate) number: u32,
    pub(crate) total: u64,
    pub(crate) immediate: Option<u64>,
    /// Where its bytes go.
    pub(crate) to: Place,
    /// Whose it is: a region's key (put), or the slot of a request (get).
    pub(crate) owner: u64,
}

/// A transfer that is over.
pub(crate) struct Ended {
    pub(crate) lane: Lane,
    pub(crate) row: u32,
    pub(crate) number: u32,
    pub(crate) len: u64,
    pub(crate) immediate: Option<u64>,
    /// Where in the owner's memory it began.
    pub(crate) offset: u64,
    pub(crate) owner: u64,
}

/// What was to leave of a request, which is over.
pub(crate) struct Supply {
    pub(crate) row: u32,
    pub(crate) number: u32,
    pub(crate) owner: u64,
    /// Where in the owner's memory it began.
    pub(crate) base: u64,
    pub(crate) total: u64,
}

impl Bulk {
    /// Bytes of a put or a get will arrive here: they are granted. Not for nothing at all.
    pub(crate) fn start_transfer(&mut self, now: Instant, transfer: &Transfer) -> u32 {
        let &Transfer { lane, row, number, total, immediate, to, owner } = transfer;
        let source = self.peers.rows[row].peer();
        let receive = self.receives.open_for_transfer(source, to.buf, owner);
        let head = MessageHead {
            class: Class::Rts,
            space: Space(0),
            message: number,
            tag: Tag(0),
            offset: 0,
            total,
            immediate,
            wants_match: false,
            len: 0,
            ahead: 0,
        };
        let progress = Progress {
            receive,
            offset: to.offset,
            ..Progress::held(GapSet::whole(total), total, now)
        };
        let mut arrival = Arrival::new(source, &head, Stage::Arriving);
        arrival.lane = lane;
        arrival.progress = self.progress.insert(progress);
        let slot = self.insert_arrival(arrival);
        self.map(slot);
        self.peers.counters.rendezvous_in += 1;
        self.start_grants(now, slot, 0);
        slot
    }

    /// A transfer that arrives is over, in whatever way: its place is not ours any more.
    pub(crate) fn end_transfer(&mut self, slot: u32) -> Ended {
        self.stop_grants(slot);
        self.unmap(slot);
        let arrival = self.extract_arrival(slot);
        let progress = self.progress.remove(arrival.progress);
        let owner = self.receives.take(progress.receive).1.user;
        let Arrival { lane, row, message: number, total: len, .. } = arrival;
        let immediate = arrival.has_immediate.then_some(arrival.immediate);
        Ended { lane, row, number, len, immediate, offset: progress.offset, owner }
    }

    /// The put with this number, if it arrives, is over.
    pub(crate) fn end_put(&mut self, row: u32, number: u32) -> Option<Ended> {
        let slot = *self.by_number.get(&lane_key(Lane::Put, row, number))?;
        Some(self.end_transfer(slot))
    }

    /// Peers put nothing more to these owners. Which transfers end with that.
    pub(crate) fn end_puts(&mut self, is_over: impl Fn(u64) -> bool) -> Vec<Ended> {
        let puts = self.arrivals.iter().filter(|(_, arrival)| {
            arrival.lane == Lane::Put
                && is_over(self.receives[self.progress[arrival.progress].receive].user)
        });
        let puts: Vec<u32> = puts.map(|(slot, _)| slot).collect();
        puts.into_iter().map(|slot| self.end_transfer(slot)).collect()
    }

    /// Data will leave from here as it is granted: `total` bytes from `from` on.
    pub(crate) fn start_supply(
        &mut self,
        (lane, row, number): (Lane, u32, u64),
        (bytes, base): (Bytes, u64),
        total: u64,
        owner: u64,
    ) -> u32 {
        let parts = self.parts.insert(Parts { lane, base, ..Parts::default() });
        let slot = self.outgoing.insert(Outgoing {
            tag: Tag(0),
            immediate: None,
            total,
            message: number,
            user: owner,
            bytes,
            peer: self.peers.rows[row].peer(),
            row,
            previous: NONE,
            next: NONE,
            parts,
            space: Space(0),
            stage: SendStage::Pulled,
            is_large: true,
            until_matched: false,
            is_queued: false,
            announced: Announced::No,
            is_simple: false,
        });
        self.sends_by_number.insert(lane_key(lane, row, number as u32), slot);
        slot
    }

    /// The supply of a request of the peer's, if it has begun.
    pub(crate) fn supply_of(&self, lane: Lane, row: u32, number: u32) -> Option<u32> {
        self.sends_by_number.get(&lane_key(lane, row, number)).copied()
    }

    /// The peer is ready for a range of a supply.
    pub(crate) fn grant_supply(&mut self, slot: u32, offset: u64, len: u64) {
        let supply = &self.outgoing[slot];
        let end = offset.saturating_add(len).min(supply.total);
        if offset >= end {
            return;
        }
        let unsent = &mut self.parts[supply.parts].unsent;
        if unsent.gap_count() < GRANT_PIECE_COUNT_MAX {
            unsent.add(offset, end);
        }
        self.queue_granted(slot);
    }

    /// No more data of a supply.
    pub(crate) fn end_supply(&mut self, slot: u32) -> Supply {
        let Outgoing { row, message, user: owner, total, parts, .. } = self.outgoing.remove(slot);
        let Parts { lane, base, .. } = self.parts.remove(parts);
        self.sends_by_number.remove(&lane_key(lane, row, message as u32));
        Supply { row, number: message as u32, owner, base, total }
    }

    /// Peers get nothing more from these owners. Which requests end with that.
    pub(crate) fn end_supplies(&mut self, is_over: impl Fn(u64) -> bool) -> Vec<Supply> {
        let is_get = |send: &Outgoing| {
            self.parts.get(send.parts).is_some_and(|parts| parts.lane == Lane::Get)
        };
        let supplies = self.outgoing.iter().filter(|(_, send)| is_over(send.user) && is_get(send));
        let supplies: Vec<u32> = supplies.map(|(slot, _)| slot).collect();
        supplies.into_iter().map(|slot| self.end_supply(slot)).collect()
    }

    /// An association ends: so do all transfers of its row. Their requests tell it to whoever waits.
    /// Returns whose those were: of those that came here, and of those that left.
    pub(crate) fn drop_transfers(&mut self, row: u32) -> (Vec<u64>, Vec<u64>) {
        let (mut came, mut left) = (Vec::new(), Vec::new());
        let arrivals = self.arrivals_of(row).filter(|(_, arrival)| arrival.lane != Lane::Message);
        let arrivals: Vec<u32> = arrivals.map(|(slot, _)| slot).collect();
        for slot in arrivals {
            came.push(self.end_transfer(slot).owner);
        }
        let supplies = self.sends_by_number.iter();
        let supplies: Vec<u32> = supplies
            .filter(|&(&key, &slot)| lane_of(key) != 0 && self.outgoing[slot].row == row)
            .map(|(_, &slot)| slot)
            .collect();
        for slot in supplies {
            left.push(self.end_supply(slot).owner);
        }
        (came, left)
    }
}
