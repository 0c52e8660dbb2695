//! An endpoint: what it is made of, how it opens, what it shows.
//!
//! Its parts stand in the rooms below, and the rules that move them with them. The modules of this room hand each part what happened, and what
//! one part returns to the part that it concerns; the quick ways for common frames are here, too, and call the same rules.

pub(crate) mod acked;
pub(crate) mod aside;
pub(crate) mod calls;
pub(crate) mod chunks;
pub(crate) mod clock;
pub(crate) mod data;
pub(crate) mod farewell;
pub(crate) mod fragments;
pub(crate) mod given;
pub(crate) mod input;
pub(crate) mod output;
pub(crate) mod quick;
pub(crate) mod told;
pub(crate) mod whole;

use alloc::vec::Vec;

use crate::base::api::{Event, Opening, TxFrame};
use crate::base::counters::Counters;
use crate::base::limits::{Limits, Settings, SettingsError};
use crate::base::types::{Identity, Instant, Locator, PeerId};
use crate::bulk::Bulk;
use crate::bulk::outgoing::RESULT_BIT;
use crate::delivery::path::{Path, Standing};
use crate::messages::Messages;
use crate::onesided::Onesided;
use crate::peers::Peers;
use crate::seal::TrainChecks;
use crate::streams::Streams;
use crate::wire::{self};

/// One endpoint of the network: peers, messages under way, receives, timers.
#[derive(Debug)]
pub struct Endpoint {
    pub(crate) messages: Messages,
    pub(crate) onesided: Onesided,
    /// Messages that come and go piece by piece (PROTOCOL §12).
    pub(crate) streams: Streams,
    /// Where frames wait for somebody who may work on them.
    pub(crate) aside: Vec<Aside>,
}

impl Endpoint {
    /// Opens an endpoint. Nothing is sent.
    pub fn open(
        opening: Opening,
        limits: Limits,
        settings: Settings,
        now: Instant,
    ) -> Result<Self, SettingsError> {
        settings.check()?;
        limits.check(&settings)?;
        let links = opening.locators.len();
        if !(1..=wire::LOCATOR_COUNT_MAX).contains(&links) {
            return Err(SettingsError { name: "locators", must: "one to eight" });
        }
        let _ = now;
        Ok(Self::new(opening, limits, settings))
    }

    fn new(opening: Opening, limits: Limits, settings: Settings) -> Self {
        let [.., seed] = opening.entropy;
        let onesided = Onesided::new(&limits, seed);
        let bulk = Bulk::new(Peers::new(opening, &limits, settings), &limits, seed);
        let messages = Messages::new(bulk, seed);
        Self { messages, onesided, streams: Streams::new(&limits, seed), aside: Vec::new() }
    }

    /// A peer with this identity, whatever its secret. Looks at all peers.
    pub fn find_peer(&self, identity: &Identity) -> Option<PeerId> {
        self.peers().rows.find_any(*identity).map(|row| self.peers().rows[row].peer())
    }

    /// Who a peer is.
    pub fn identity_of(&self, peer: PeerId) -> Option<Identity> {
        self.peers().rows.known(peer).map(|row| row.identity())
    }

    /// Where the peer said it is, in its address: known also when no path leads there any more.
    pub fn first_locator_of(&self, peer: PeerId) -> Option<Locator> {
        self.peers().rows.known(peer).map(|row| row.first_locator())
    }

    /// Whether the peer has verified itself and its association lives.
    pub fn is_joined(&self, peer: PeerId) -> bool {
        self.peers().rows.known(peer).is_some_and(|row| row.is_joined())
    }

    /// A path that frames will take from now on: whoever knows that long frames do not pass there says so
    /// (`on_too_long`) before the first is sent.
    #[inline]
    pub fn poll_new_path(&mut self) -> Option<(u8, Locator)> {
        self.peers_mut().poll_new_path()
    }

    /// Whether frames to this peer are on their way, unacknowledged: what is posted now may wait for company. Not where each message is given to its link
    /// by itself (PROTOCOL §7.10): company saves nothing there, and who waits for it is sent with a number, and acknowledged.
    pub fn is_busy(&self, peer: PeerId) -> bool {
        let row = self.peers().rows.known(peer);
        row.and_then(|row| self.peers().actives.of(row)).is_some_and(|active| {
            let is_given = || active.main_path().may_be_given();
            active.paths.iter().any(|path| !path.flight().is_empty()) && !is_given()
        })
    }

    /// Since when nothing was heard of a peer that owes us an answer; `None` if it is not silent.
    pub fn silent_since(&self, peer: PeerId) -> Option<Instant> {
        let row = self.peers().rows.known(peer)?;
        let active = self.peers().actives.of(row)?;
        let probing = active.paths.iter().any(|path| path.probe_count() > 1);
        probing.then_some(row.heard_at())
    }

    /// Something the application waits for.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.peers_mut().events.poll()
    }

    /// So many events wait for [`poll_event`](Self::poll_event).
    pub fn event_count(&self) -> usize {
        self.peers().events.len()
    }

    /// Counts since the endpoint opened.
    pub fn counters(&self) -> &Counters {
        &self.peers().counters
    }

    /// A number that grows with everything that peers sent on somebody's behalf, but not with questions and acknowledgements.
    #[inline]
    #[must_use]
    pub fn content_in(&self) -> u64 {
        let it = &self.peers().counters;
        let streamed = it.stream_bytes_lent + it.stream_bytes_held + it.stream_bytes_read;
        it.messages_in + it.requests_in + it.bytes_placed + streamed
    }

    /// What the network makes us hold now: bytes of payload, envelopes.
    pub fn held(&self) -> (u64, u32) {
        self.bulk().held.counts()
    }

    /// What peers' one-sided operations make us hold now: requests, bytes of answers.
    pub fn served(&self) -> (u32, u64) {
        self.onesided.served()
    }

    /// The bytes of a pooled piece of a frame's body.
    pub fn pooled(&self, slot: u32) -> &[u8] {
        match slot & RESULT_BIT {
            0 => self.bulk().copied_bytes(slot),
            _ => self.onesided.result_bytes(slot & !RESULT_BIT),
        }
    }

    /// Changes how many frames one acknowledgement collects, from 1 to 256.
    pub fn set_ack_every(&mut self, count: u32) {
        self.peers_mut().set_ack_every(count);
    }

    /// Has the marks of trains computed by this function: `seal::train_checks`, but made for the machine at hand.
    pub fn set_train_checks(&mut self, checks: TrainChecks) {
        self.peers_mut().set_train_checks(checks);
    }

    /// Tells the endpoint to make a mistake, to see whether anybody notices.
    #[cfg(feature = "sabotage")]
    pub fn sabotage(&mut self, fault: crate::base::sabotage::Sabotage) {
        self.peers_mut().saboteur.set(fault);
        self.onesided.portals.saboteur.set(fault);
    }
}

/// The parts below, by name.
impl Endpoint {
    #[inline(always)]
    pub(crate) fn peers(&self) -> &Peers {
        &self.messages.bulk.peers
    }

    #[inline(always)]
    pub(crate) fn peers_mut(&mut self) -> &mut Peers {
        &mut self.messages.bulk.peers
    }

    #[inline(always)]
    pub(crate) fn bulk(&self) -> &Bulk {
        &self.messages.bulk
    }

    #[inline(always)]
    pub(crate) fn bulk_mut(&mut self) -> &mut Bulk {
        &mut self.messages.bulk
    }
}

impl TxFrame {
    /// Whether `seal` wants the CRC32C of the body.
    pub fn wants_crc(&self) -> bool {
        wire::wants_crc(&self.head)
    }

    /// Finishes the frame: `crc` is the CRC32C of the gathered body if `wants_crc`, else not looked at.
    #[inline] // the usual frame was sealed when it was written
    pub fn seal(&mut self, crc: u32) {
        if !self.is_sealed {
            self.seal_written(crc);
        }
    }

    fn seal_written(&mut self, crc: u32) {
        let secret = self.secret.expect("made by poll_transmit");
        let crc = self.wants_crc().then_some(crc);
        let base = wire::base_of(self.packet);
        wire::seal_high(&mut self.head, self.body_len, base, &secret, crc);
    }
}

/// Where frames are held back from acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Aside {
    /// The association they came with; tells its row, too.
    local_id: u64,
    path_index: u8,
}
