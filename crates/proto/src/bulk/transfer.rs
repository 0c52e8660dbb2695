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

use crate::base::api::{Denial, RegionId, Verdict};
use crate::base::gaps::GapSet;
use crate::base::slab::NONE;
use crate::base::types::{Instant, Place, Space, Tag};
use crate::bulk::arrival::{Arrival, Progress, Receive, Stage, lane_key, lane_of, number_key};
use crate::bulk::large::GRANT_PIECE_COUNT_MAX;
use crate::bulk::outgoing::Announced;
use crate::bulk::outgoing::{Bytes, Outgoing, Parts, SendStage};
use crate::delivery::ack::expand;
use crate::delivery::content::Content;
use crate::endpoint::Endpoint;
use crate::onesided::operate::Form;
use crate::wire::{Class, Lane, MessageHead};

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

impl Endpoint {
    /// Bytes of a put or a get will arrive here: they are granted. Not for nothing at all.
    pub(crate) fn start_transfer(&mut self, now: Instant, transfer: &Transfer) -> u32 {
        let &Transfer { lane, row, number, total, immediate, to, owner } = transfer;
        let source = self.rows[row].peer;
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
        self.counters.rendezvous_in += 1;
        self.start_grants(now, slot, 0);
        slot
    }

    /// All bytes of a transfer are in their place.
    pub(crate) fn finish_transfer(&mut self, slot: u32) {
        let arrival = &self.arrivals[slot];
        let (lane, row, number) = (arrival.lane, arrival.row, arrival.message);
        let envelope = arrival.envelope();
        let progress = &self.progress[arrival.progress];
        let (offset, owner) = (progress.offset, self.receives[progress.receive].user);
        self.end_transfer(slot);
        if lane == Lane::Get {
            let request = owner as u32;
            self.requests[request].transfer = NONE;
            self.end_request(request, Ok(()));
            self.notify(row, Content::End { number });
            return;
        }
        let region = RegionId(owner);
        if let Some(permit) = self.permit_for(region) {
            self.tell_put(row, &permit, (offset, envelope.len), envelope.immediate);
        }
        self.reply_done(row, number);
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
            peer: self.rows[row].peer,
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

    /// The peer is ready for a range of a put of ours, or of a get of its own.
    pub(crate) fn on_supply_grant(
        &mut self,
        row: u32,
        lane: Lane,
        number: u32,
        (offset, len): (u64, u64),
    ) -> Verdict {
        let found = match lane {
            Lane::Put => self.supply_of_put(row, number),
            _ => self.sends_by_number.get(&lane_key(lane, row, number)).copied(),
        };
        let Some(slot) = found else {
            // A grant may overtake its request, or that one waits for its turn: then it must come again.
            let is_ahead = lane == Lane::Get
                && expand(number, self.rows[row].request_in) >= self.rows[row].request_in;
            return if is_ahead { Verdict::Refused } else { Verdict::Accepted };
        };
        let supply = &self.outgoing[slot];
        let end = offset.saturating_add(len).min(supply.total);
        if offset >= end {
            return Verdict::Accepted;
        }
        let unsent = &mut self.parts[supply.parts].unsent;
        if unsent.gap_count() < GRANT_PIECE_COUNT_MAX {
            unsent.add(offset, end);
        }
        self.queue_granted(slot);
        Verdict::Accepted
    }

    /// The supply of a large put of ours, which begins with its first grant.
    fn supply_of_put(&mut self, row: u32, number: u32) -> Option<u32> {
        let slot = *self.requests_by_number.get(&number_key(row, number))?;
        let request = &self.requests[slot];
        if request.form != Form::Ask {
            return None;
        }
        if request.transfer == NONE {
            let operation = &self.operations[request.operation];
            let (number, total, bytes) = (request.number, operation.total, operation.bytes()?);
            let supply =
                self.start_supply((Lane::Put, row, number), (bytes, 0), total, slot.into());
            self.requests[slot].transfer = supply;
        }
        Some(self.requests[slot].transfer)
    }

    /// A region is withdrawn: what peers put there or get from there ends, and they hear of it.
    pub(crate) fn end_transfers_of(&mut self, region: RegionId) {
        let arrivals = self.arrivals.iter().filter(|(_, arrival)| {
            arrival.lane == Lane::Put
                && self.receives[self.progress[arrival.progress].receive].user == region.0
        });
        let arrivals: Vec<u32> = arrivals.map(|(slot, _)| slot).collect();
        for slot in arrivals {
            let (row, number) = (self.arrivals[slot].row, self.arrivals[slot].message);
            self.end_transfer(slot);
            self.reply_denied(row, number, Denial::Withdrawn);
        }
        let supplies = self.outgoing.iter().filter(|(_, send)| {
            send.user == region.0
                && self.parts.get(send.parts).is_some_and(|parts| parts.lane == Lane::Get)
        });
        let supplies: Vec<u32> = supplies.map(|(slot, _)| slot).collect();
        for slot in supplies {
            let (row, number) = (self.outgoing[slot].row, self.outgoing[slot].message as u32);
            self.end_supply(slot);
            self.reply_denied(row, number, Denial::Withdrawn);
        }
    }

    /// An association ends: so do all transfers of its row. Their requests tell it to whoever waits.
    pub(crate) fn drop_transfers(&mut self, row: u32) {
        let arrivals = self.arrivals.iter();
        let arrivals: Vec<u32> = arrivals
            .filter(|(_, arrival)| arrival.row == row && arrival.lane != Lane::Message)
            .map(|(slot, _)| slot)
            .collect();
        arrivals.into_iter().for_each(|slot| self.end_transfer(slot));
        let supplies = self.sends_by_number.iter();
        let supplies: Vec<u32> = supplies
            .filter(|&(&key, &slot)| lane_of(key) != 0 && self.outgoing[slot].row == row)
            .map(|(_, &slot)| slot)
            .collect();
        supplies.into_iter().for_each(|slot| self.end_supply(slot));
    }
}
