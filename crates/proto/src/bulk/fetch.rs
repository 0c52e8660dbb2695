//! Large messages that their receiver fetches.
//!
//! PROTOCOL §8.10. Where both ends share a host, the announcement says where the bytes are, and once the message is matched the driver reads them
//! from there to their place, in pieces: nothing is granted and no data is sent. What the driver cannot read is granted and sent as any other.
//!
//! ```text
//!   sender     Told: envelope, whereabouts ───▶ matched ──▶ poll_fetch ──▶ the driver's link reads ──▶ on_fetched
//!              complete ◀──────────────────────────────────────────────────── Done ◀──── all bytes there
//! ```
//!
//! Whose turn it is: each message is read up to so many bytes, then goes behind the others.

use crate::base::slab::NONE;
use crate::base::types::{Instant, Locator, Place};
use crate::bulk::Bulk;
use crate::delivery::path::Path;
use crate::wire::Whereabouts;

/// Bytes that the driver is to read from where their sender told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fetch {
    /// By which local link,
    pub link: u8,
    /// and from whom.
    pub from: Locator,
    /// What the sender said.
    pub whereabouts: Whereabouts,
    /// The first byte of the message that is wanted.
    pub offset: u64,
    /// How many.
    pub len: u64,
    /// Where it goes.
    pub to: Place,
    slot: u32,
    serial: u32,
}

impl Bulk {
    /// Whether a peer can fetch what is announced to it. Above a length that costs less than two copies.
    #[inline(never)]
    pub(crate) fn is_fetched_by(&self, row: u32) -> bool {
        let active = self.peers.awake(row);
        let may_fetch = |path: &Path| path.is_usable() && path.can_fetch();
        active.is_some_and(|active| active.paths.iter().any(may_fetch))
    }

    /// A matched message is fetched; false: nobody said where it is.
    pub(super) fn start_fetch(&mut self, slot: u32) -> bool {
        let is_told = self.progress[self.arrivals[slot].progress].told.is_some();
        if is_told {
            self.fetches.push_back((slot, self.arrivals.serial(slot)));
        }
        is_told
    }

    #[inline]
    pub(crate) fn has_fetches(&self) -> bool {
        !self.fetches.is_empty()
    }

    pub(crate) fn poll_fetch(&mut self, now: Instant, len_max: u64) -> Option<Fetch> {
        while let Some((slot, serial)) = self.fetches.pop_front() {
            if !self.arrivals.holds(slot, serial) || !self.arrivals[slot].takes_data() {
                continue; // cancelled, or its sender is gone
            }
            let arrival = &self.arrivals[slot];
            let progress = &self.progress[arrival.progress];
            let active = self.peers.awake(arrival.row);
            let way = active.and_then(|active| active.paths.iter().find(|path| path.can_fetch()));
            let gap = progress.gaps.first_gap();
            if let (Some(whereabouts), Some(path), Some((start, end))) = (progress.told, way, gap) {
                let buf = self.receives[progress.receive].buf;
                return Some(Fetch {
                    link: path.link(),
                    from: *path.locator(),
                    whereabouts,
                    offset: start,
                    len: (end - start).min(len_max),
                    to: Place { buf, offset: progress.offset + start },
                    slot,
                    serial,
                });
            }
            self.send_instead(now, slot);
        }
        None
    }

    /// The driver has read bytes, or could not. A slot: its message is whole.
    pub(crate) fn take_fetched(
        &mut self,
        now: Instant,
        fetch: &Fetch,
        is_read: bool,
    ) -> Option<u32> {
        let &Fetch { slot, serial, offset, len, .. } = fetch;
        if !self.arrivals.holds(slot, serial) || self.arrivals[slot].progress == NONE {
            return None;
        }
        if !is_read {
            self.peers.counters.fetches_failed += 1;
            self.send_instead(now, slot);
            return None;
        }
        let progress = &mut self.progress[self.arrivals[slot].progress];
        progress.gaps.fill(offset, offset + len, &mut |_, _| ());
        progress.progressed_at = now;
        self.peers.counters.bytes_placed += len;
        self.peers.counters.bytes_fetched += len;
        if progress.gaps.is_empty() {
            return Some(slot);
        }
        self.fetches.push_back((slot, serial));
        None
    }

    /// A message that cannot be fetched is granted.
    #[cold]
    fn send_instead(&mut self, now: Instant, slot: u32) {
        self.progress[self.arrivals[slot].progress].told = None;
        self.start_grants(now, slot, 0);
    }
}
