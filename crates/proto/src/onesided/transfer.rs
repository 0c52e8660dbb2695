//! Large one-sided transfers, as who asked for them and as who was asked.
//!
//! PROTOCOL §11.5. `bulk` moves the bytes; here is what their beginning and their end mean.

use crate::base::api::Verdict;
use crate::base::slab::NONE;
use crate::bulk::Bulk;
use crate::bulk::arrival::number_key;
use crate::bulk::transfer::{DELIVERY_BIT, Ended, Supply};
use crate::delivery::content::Content;
use crate::onesided::Onesided;
use crate::onesided::records::Form;
use crate::wire::Lane;
use crate::{Denial, RegionId};

impl Onesided {
    /// All bytes of a transfer are in their place.
    pub(crate) fn finish_transfer(&mut self, bulk: &mut Bulk, slot: u32) {
        let Ended { lane, row, number, len, immediate, offset, owner } = bulk.end_transfer(slot);
        if lane == Lane::Get {
            let request = owner as u32;
            self.requests[request].transfer = NONE;
            self.end_request(bulk, request, Ok(()));
            bulk.peers.notify(row, Content::End { number });
            return;
        }
        if owner & DELIVERY_BIT != 0 {
            return self.finish_delivery(bulk, row, number, owner);
        }
        let region = RegionId(owner);
        if let Some(permit) = self.permit_for(region) {
            self.tell_put(bulk, row, &permit, (offset, len), immediate);
        }
        self.reply_done(bulk, row, number);
    }

    /// The peer is ready for a range of a put of ours, or of a get of its own.
    pub(crate) fn on_supply_grant(
        &mut self,
        bulk: &mut Bulk,
        row: u32,
        lane: Lane,
        number: u32,
        (offset, len): (u64, u64),
    ) -> Verdict {
        let found = match lane {
            Lane::Put => self.supply_of_put(bulk, row, number),
            _ => bulk.supply_of(lane, row, number),
        };
        let Some(slot) = found else {
            // A grant may overtake its request, or that one waits for its turn: then it must come again.
            let is_ahead = lane == Lane::Get && {
                let requests = &bulk.peers.rows[row].requests;
                requests.whole(number) >= requests.next_in()
            };
            return if is_ahead { Verdict::Refused } else { Verdict::Accepted };
        };
        bulk.grant_supply(slot, offset, len);
        Verdict::Accepted
    }

    /// The supply of a large put of ours, which begins with its first grant.
    fn supply_of_put(&mut self, bulk: &mut Bulk, row: u32, number: u32) -> Option<u32> {
        let slot = *self.requests_by_number.get(&number_key(row, number))?;
        let request = &self.requests[slot];
        if request.form != Form::Ask {
            return None;
        }
        if request.transfer == NONE {
            let operation = &self.operations[request.operation];
            let (number, total, bytes) = (request.number, operation.total, operation.bytes()?);
            let base = operation.base;
            let supply =
                bulk.start_supply((Lane::Put, row, number), (bytes, base), total, slot.into());
            self.requests[slot].transfer = supply;
        }
        Some(self.requests[slot].transfer)
    }

    /// A region is withdrawn: what peers put there or get from there ends, and they hear of it.
    pub(crate) fn end_transfers_of(&mut self, bulk: &mut Bulk, region: RegionId) {
        for Ended { row, number, .. } in bulk.end_puts(|owner| owner == region.0) {
            self.reply_denied(bulk, row, number, Denial::Withdrawn);
        }
        for Supply { row, number, .. } in bulk.end_supplies(|owner| owner == region.0) {
            self.reply_denied(bulk, row, number, Denial::Withdrawn);
        }
    }
}
