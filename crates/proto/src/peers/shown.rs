//! What the rooms above may know of a peer.
//!
//! A row and its active record are written in this room alone: what happened is told by a method, which stands beside the rule that it serves. Here is
//! what may be asked.

use crate::base::secret::Secret;
use crate::base::types::{Identity, Instant, Locator, PeerId};
use crate::delivery::credit::Credit;
use crate::delivery::path::{Path, PathRest};
use crate::peers::Peers;
use crate::peers::rows::{Active, Phase, Row};
use crate::wire::{FORM_STRANGER, Header};

/// Who it is.
impl Row {
    /// What the application calls it.
    #[inline(always)]
    pub(crate) fn peer(&self) -> PeerId {
        self.peer
    }

    pub(crate) fn identity(&self) -> Identity {
        self.identity
    }

    /// Where its address says that it is.
    pub(crate) fn first_locator(&self) -> Locator {
        self.first_locator
    }

    /// The key of frames to it.
    #[inline(always)]
    pub(crate) fn secret(&self) -> Secret {
        self.secret
    }

    /// The application named it; else it introduced itself.
    pub(crate) fn is_named(&self) -> bool {
        self.is_named
    }

    /// The peer is this endpoint.
    pub(crate) fn is_self(&self) -> bool {
        self.remote_id == self.local_id
    }
}

/// Where its association stands.
impl Row {
    #[inline(always)]
    pub(crate) fn phase(&self) -> Phase {
        self.phase
    }

    /// Both sides know each other.
    #[inline(always)]
    pub(crate) fn is_joined(&self) -> bool {
        self.phase == Phase::Joined
    }

    /// There is an association, or is to be one.
    #[inline(always)]
    pub(crate) fn is_in_contact(&self) -> bool {
        self.phase != Phase::Idle
    }

    /// What we call the association; after its end, what we called it.
    pub(crate) fn association(&self) -> u64 {
        self.local_id
    }

    /// The association that we call so lives, or is to.
    #[inline(always)]
    pub(crate) fn lives_as(&self, association: u64) -> bool {
        self.local_id == association && self.is_in_contact()
    }

    /// The association that we call so lives, and both sides know each other.
    #[inline(always)]
    pub(crate) fn is_joined_as(&self, association: u64) -> bool {
        self.local_id == association && self.is_joined()
    }

    /// The version that both speak.
    pub(crate) fn version(&self) -> u8 {
        self.version
    }

    /// When a frame of the peer came last.
    pub(crate) fn heard_at(&self) -> Instant {
        self.heard_at
    }
}

/// What a frame to it starts with.
impl Row {
    /// The header of a frame to a peer that has joined.
    #[inline(always)]
    pub(crate) fn header(&self, packet: u64, path: u8) -> Header {
        Header { to: self.remote_id, packet, path, form: self.version }
    }

    /// The header of a frame to a peer that has not joined yet: it must know which key to try. A Hello goes to id 0, which is what we know of it then.
    pub(crate) fn contact_header(&self, packet: u64, path: u8) -> Header {
        let stranger = if self.by_public_key { FORM_STRANGER } else { 0 };
        Header { form: self.version | stranger, ..self.header(packet, path) }
    }
}

/// Whether it rests, or what it does.
impl Row {
    /// Slot of its active record, or NONE.
    #[inline(always)]
    pub(crate) fn active(&self) -> u32 {
        self.active
    }

    /// It may have a frame to send.
    #[inline(always)]
    pub(crate) fn is_ready(&self) -> bool {
        self.is_ready
    }

    /// When the timer heap will look at it.
    #[inline(always)]
    pub(crate) fn timer_at(&self) -> Instant {
        self.timer_at
    }

    /// Its paths, as they are kept while it rests.
    pub(crate) fn resting_paths(&self) -> impl Iterator<Item = &PathRest> {
        self.rest.iter().chain(self.more_rest.iter().flatten())
    }

    /// What may be on its way there when it wakes.
    pub(crate) fn resting_credit(&self) -> Credit {
        Credit::from_rest(self.credit)
    }
}

impl Active {
    /// The number of the path for small messages and control.
    #[inline(always)]
    pub(crate) fn main(&self) -> u8 {
        self.main
    }

    /// That path.
    #[inline(always)]
    pub(crate) fn main_path(&self) -> &Path {
        &self.paths[usize::from(self.main)]
    }
}

impl Peers {
    /// What a row has under way, if it is awake.
    #[inline(always)]
    pub(crate) fn awake(&self, row: u32) -> Option<&Active> {
        self.actives.get(self.rows[row].active)
    }

    /// The longest frame that may go to a peer, and come from it, by the paths that are used now.
    pub(crate) fn frame_len_of(&self, row: u32) -> u16 {
        match self.awake(row) {
            Some(active) if active.frame_len > 0 => active.frame_len,
            _ => self.rows[row].frame_len_max.min(self.settings.frame_len_max),
        }
    }

    /// Whether a peer's frames state sums of their bodies: as we know it, or as we do ourselves.
    pub(crate) fn is_checked(&self, row: u32) -> bool {
        let known = self.awake(row).and_then(|active| active.is_checked);
        known.unwrap_or(self.settings.payload_check)
    }
}
