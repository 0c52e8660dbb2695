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
use crate::bulk::arrival::{Arrival, Progress, Receive, Stage, lane_key, lane_of};
use crate::bulk::outgoing::Announced;
use crate::bulk::outgoing::{Bytes, Outgoing, Parts, SendStage};
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

impl Bulk {
    /// Bytes of a put or a get will arrive here: they are granted. Not for nothing at all.
    pub(crate) fn start_transfer(&mut self, now: Instant, transfer: &Transfer) -> u32 {
        let &Transfer { lane, row, number, total, immediate, to, owner } = transfer;
        let source = self.peers.rows[row].peer;
        let receive = self.receives.insert(Receive::for_transfer(source, to.buf, owner));
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
    pub(crate) fn end_transfer(&mut self, slot: u32) {
        self.stop_grants(slot);
        self.unmap(slot);
        let arrival = self.extract_arrival(slot);
        let progress = self.progress.remove(arrival.progress);
        self.receives.remove(progress.receive);
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
            peer: self.peers.rows[row].peer,
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

    /// No more data of a supply.
    pub(crate) fn end_supply(&mut self, slot: u32) {
        let supply = self.outgoing.remove(slot);
        let parts = self.parts.remove(supply.parts);
        self.sends_by_number.remove(&lane_key(parts.lane, supply.row, supply.message as u32));
    }

    /// An association ends: so do all transfers of its row. Their requests tell it to whoever waits.
    /// Returns whose those were: of those that came here, and of those that left.
    pub(crate) fn drop_transfers(&mut self, row: u32) -> (Vec<u64>, Vec<u64>) {
        let (mut came, mut left) = (Vec::new(), Vec::new());
        let arrivals = self.arrivals.iter();
        let arrivals: Vec<u32> = arrivals
            .filter(|(_, arrival)| arrival.row == row && arrival.lane != Lane::Message)
            .map(|(slot, _)| slot)
            .collect();
        for slot in arrivals {
            let progress = self.arrivals[slot].progress;
            came.push(self.receives[self.progress[progress].receive].user);
            self.end_transfer(slot);
        }
        let supplies = self.sends_by_number.iter();
        let supplies: Vec<u32> = supplies
            .filter(|&(&key, &slot)| lane_of(key) != 0 && self.outgoing[slot].row == row)
            .map(|(_, &slot)| slot)
            .collect();
        for slot in supplies {
            left.push(self.outgoing[slot].user);
            self.end_supply(slot);
        }
        (came, left)
    }
}
