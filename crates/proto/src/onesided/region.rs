//! Memory exposed to peers: by whom, where and how it may be used.
//!
//! PROTOCOL §11.3. A region is named by a key of the application's choice. A request that does not fit (its key, its
//! range, what it wants to do, who it comes from) is answered and touches nothing.

use crate::base::api::{Denial, RegionId};
use crate::base::sabotage::Sabotage;
use crate::base::types::{BufId, PeerId};
use crate::bulk::Bulk;
use crate::onesided::Onesided;
use crate::onesided::records::{Access, Permitted, RegionSpec};
use crate::peers::ties::Ties;
use crate::wire;

/// Why a region was not exposed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExposeError {
    /// Another region has this key.
    KeyInUse,
    /// The endpoint is closing.
    Closing,
}

impl Denial {
    pub(crate) fn status(self) -> u8 {
        match self {
            Self::NoKey => wire::REPLY_NO_KEY,
            Self::Range => wire::REPLY_RANGE,
            Self::Access => wire::REPLY_ACCESS,
            Self::Operation => wire::REPLY_OPERATION,
            Self::Withdrawn => wire::REPLY_WITHDRAWN,
        }
    }

    /// What a status other than `REPLY_OK` says; one of a newer peer's means that it could not.
    pub(crate) fn of_status(status: u8) -> Self {
        match status {
            wire::REPLY_NO_KEY => Self::NoKey,
            wire::REPLY_RANGE => Self::Range,
            wire::REPLY_ACCESS => Self::Access,
            wire::REPLY_WITHDRAWN => Self::Withdrawn,
            _ => Self::Operation,
        }
    }
}

/// A range of a region that a request may use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Permit {
    pub(crate) region: RegionId,
    pub(crate) buf: BufId,
    pub(crate) user: u64,
    pub(crate) tells_all: bool,
}

impl Onesided {
    pub(crate) fn expose(
        &mut self,
        bulk: &mut Bulk,
        spec: RegionSpec,
    ) -> Result<RegionId, ExposeError> {
        if bulk.peers.is_closing() {
            return Err(ExposeError::Closing);
        }
        if self.regions.by_key.contains_key(&spec.key) {
            return Err(ExposeError::KeyInUse);
        }
        count_permitted(bulk, &spec, Ties::on_permitted);
        let key = spec.key;
        let slot = self.regions.regions.insert(spec);
        self.regions.by_key.insert(key, slot);
        Ok(RegionId(self.regions.regions.key(slot)))
    }

    pub(crate) fn withdraw(&mut self, bulk: &mut Bulk, region: RegionId) -> bool {
        let Some(slot) = self.regions.regions.lookup(region.0) else { return false };
        let spec = self.regions.regions.remove(slot);
        self.regions.by_key.remove(&spec.key);
        count_permitted(bulk, &spec, Ties::on_permitted_over);
        self.end_transfers_of(bulk, region);
        true
    }

    /// A peer is forgotten: lists need not remember it.
    pub(crate) fn permit_no_more(&mut self, peer: PeerId) {
        for region in self.regions.regions.iter_mut() {
            if let Permitted::Only(peers) = &mut region.permitted {
                peers.retain(|&permitted| permitted != peer);
            }
        }
    }

    /// A region, for who works on it.
    pub(crate) fn permit_for(&self, region: RegionId) -> Option<Permit> {
        let spec = &self.regions.regions[self.regions.regions.lookup(region.0)?];
        Some(Permit { region, buf: spec.buf, user: spec.user, tells_all: spec.tells_all })
    }

    /// Whether a peer may do this with that range.
    pub(crate) fn permit(
        &self,
        bulk: &Bulk,
        row: u32,
        key: u64,
        (target, len): (u64, u64),
        wanted: Access,
    ) -> Result<Permit, Denial> {
        let slot = *self.regions.by_key.get(&key).ok_or(Denial::NoKey)?;
        let spec = &self.regions.regions[slot];
        let is_permitted = match &spec.permitted {
            Permitted::Any => {
                bulk.peers.rows[row].is_named() || !bulk.peers.settings.is_address_given()
            }
            Permitted::Named => bulk.peers.rows[row].is_named(),
            Permitted::Everybody => true,
            Permitted::Only(peers) => peers.contains(&bulk.peers.rows[row].peer()),
        };
        if bulk.peers.saboteur.makes(Sabotage::PermissionNotAsked) {
            // Only what would be out of bounds here is still refused.
        } else if !is_permitted {
            return Err(Denial::NoKey); // who may not use it need not know that it is there
        } else if !spec.access.admits(wanted) {
            return Err(Denial::Access);
        }
        if target.checked_add(len).is_none_or(|end| end > spec.len) {
            return Err(Denial::Range);
        }
        let region = RegionId(self.regions.regions.key(slot));
        Ok(Permit { region, buf: spec.buf, user: spec.user, tells_all: spec.tells_all })
    }
}

/// Peers on a list stay known as long as the list does (`strangers`).
fn count_permitted(bulk: &mut Bulk, spec: &RegionSpec, count: fn(&mut Ties)) {
    let Permitted::Only(peers) = &spec.permitted else { return };
    for &peer in peers {
        if let Some(this) = bulk.peers.rows.known_mut(peer) {
            count(&mut this.ties);
        }
    }
}
