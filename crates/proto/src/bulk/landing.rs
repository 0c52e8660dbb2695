//! Granted data lands where it belongs.
//!
//! PROTOCOL §8.8. A receiver knows what it granted, so a driver can have the system put payload straight into the
//! application's memory, before anybody has looked at the frames:
//!
//! ```text
//!   predict ──▶ Landing ──▶ scatter list: head 0 │ payload 0 ──▶ memory │ head 1 │ payload 1 ──▶ memory │ … │ spill
//!                                 └── heads ──▶ on_landed: how many frames were what was predicted
//! ```
//!
//! That harms nobody, because a prediction names only bytes that are granted and not yet received; they count as
//! received only here, when the keyed check of their frame was right and every word of its head is the predicted one.
//! Whatever else came goes through `on_frame`, after the driver moved it out of the way: then the bytes under the wrong
//! landing are missing still, and will be overwritten.
//!
//! What is here does for a train what `input` and `large` do for a frame, once instead of frame by frame.

use crate::base::limits::FRAME_LEN_FLOOR;
use crate::base::sabotage::Sabotage;
use crate::base::slab::NONE;
use crate::base::types::{BufId, Instant, Locator};
use crate::bulk::Bulk;
use crate::bulk::arrival::Stage;
use crate::bulk::arrival::{Cursor, GAP_COUNT_MAX};
use crate::peers::rows::row_of_id;
use crate::seal::Seal as _;
use crate::wire::{self, DATA_FRAME_HEAD_LEN, Lane, TrainRepr};

/// Granted messages that are looked at when the one data came for last expects no more.
const CANDIDATE_COUNT: usize = 4;

/// Payload of a full frame, at least.
const FULL_LEN_MIN: usize = FRAME_LEN_FLOOR as usize - DATA_FRAME_HEAD_LEN - wire::CHECK_HEAD_LEN;

/// Where the next data will probably go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Landing {
    /// Memory of the application.
    pub buf: BufId,
    /// Where in it the first frame's payload goes.
    pub offset: u64,
    /// Bytes from there on that are granted and missing. None beyond may be written.
    pub len: u64,
    /// Payload of each frame, but perhaps the last.
    pub payload_len: u32,
    /// Bytes of a frame before its payload.
    pub head_len: usize,
    pub(crate) slot: u32,
    serial: u32,
}

impl Landing {
    /// What is left of it behind `len` bytes.
    pub fn behind(self, len: u64) -> Self {
        let len = len.min(self.len);
        Self { offset: self.offset + len, len: self.len - len, ..self }
    }
}

/// A train as it is expected, and whose it is.
pub(crate) struct Expected {
    pub(crate) row: u32,
    /// Number of its first packet.
    pub(crate) packet: u64,
    pub(crate) train: TrainRepr,
}

impl Bulk {
    pub(crate) fn predict(&self, link: u8) -> Option<Landing> {
        let cursor = *self.cursors.get(usize::from(link))?;
        let may_land = self.peers.own_seal().may_land_first();
        if self.granting.is_empty() || self.peers.is_closing() || !may_land {
            return None;
        }
        let holds = self.arrivals.holds(cursor.slot, cursor.serial);
        let likely = if holds { self.landing_in(link, cursor.slot, cursor.offset) } else { None };
        likely.or_else(|| {
            let mut granting = self.granting.iter().take(CANDIDATE_COUNT);
            granting.find_map(|&slot| self.landing_in(link, slot, 0))
        })
    }

    /// A landing in a message: at `offset` if that is missing, else where the first byte is missing.
    fn landing_in(&self, link: u8, slot: u32, offset: u64) -> Option<Landing> {
        let arrival = &self.arrivals[slot];
        // What lands wrongly stays until it is overwritten: in a region others could read it meanwhile, or for good if the put
        // never ends.
        if !arrival.takes_data() || arrival.lane == Lane::Put {
            return None;
        }
        let progress = &self.progress[arrival.progress];
        let mut gap = progress.gaps.missing_from(offset)?;
        if gap.0 >= progress.granted_to {
            gap = progress.gaps.first_gap()?;
        }
        // What goes ahead of its grant ends in a shorter frame.
        let is_ahead = gap.0 < progress.ahead_to;
        let end = gap.1.min(if is_ahead { progress.ahead_to } else { progress.granted_to });
        let active = self.peers.awake(arrival.row)?;
        let mut paths = active.paths.iter().filter(|path| path.source_link() == link);
        let path = paths.next().filter(|_| gap.0 < end)?;
        let own_check = || self.peers.links.of(link).payload_check;
        if path.is_checked_in().unwrap_or_else(own_check) {
            return None;
        }
        let payload_len = match path.data_len_in() {
            0 => self.data_len(arrival.row) as u32,
            len => len.into(),
        };
        Some(Landing {
            buf: self.receives[progress.receive].buf,
            offset: progress.offset + gap.0,
            len: end - gap.0,
            payload_len,
            head_len: DATA_FRAME_HEAD_LEN,
            slot,
            serial: self.arrivals.serial(slot),
        })
    }

    /// The train of which these may be the heads. `None` if there can be none there: everything that `on_frame` would ask
    /// is asked here, once, and what is not as usual is left to it.
    pub(crate) fn expect_train(
        &self,
        link: u8,
        from: &Locator,
        landing: &Landing,
        heads: &[u8],
        count: usize,
        last_len: u32,
    ) -> Option<Expected> {
        let &Landing { slot, serial, .. } = landing;
        if !self.arrivals.holds(slot, serial)
            || !self.arrivals[slot].takes_data()
            || self.peers.saboteur.makes(Sabotage::DoneTooEarly)
        {
            return None;
        }
        let arrival = &self.arrivals[slot];
        let progress = &self.progress[arrival.progress];
        if self.receives[progress.receive].buf != landing.buf {
            return None;
        }
        let mut header = wire::first_header(heads)?;
        let row = row_of_id(header.to);
        let (_, path, packet) = self.peers.path_of(&header, link, from)?;
        header.packet = packet;
        if row != arrival.row || packet <= path.received().largest() {
            return None;
        }
        let offset = landing.offset.checked_sub(progress.offset)?;
        let gap = progress.gaps.missing_from(offset).filter(|gap| gap.0 == offset)?;
        let is_first_gap = progress.gaps.first_gap().is_some_and(|first| first.0 == offset);
        if progress.gaps.gap_count() >= GAP_COUNT_MAX && !is_first_gap {
            return None; // as in `absorb`
        }
        let room = gap.1.min(progress.granted_to).checked_sub(offset)?;
        let payload_len = u16::try_from(landing.payload_len).ok().filter(|&len| len > 0)?;
        let last_len = u16::try_from(last_len).ok().filter(|&len| len <= payload_len)?;
        let (lane, message) = (arrival.lane, arrival.message);
        let mut train = TrainRepr { header, lane, message, offset, payload_len, last_len, count };
        let room_count = match train.len_of(count) > room {
            true => room / u64::from(payload_len),
            false => count as u64,
        };
        let full_count = room_count.min(TrainRepr::count_to_wrap(packet)) as usize;
        if full_count < count {
            (train.count, train.last_len) = (full_count, payload_len);
        }
        (train.count > 0).then_some(Expected { row, packet, train })
    }

    /// Data came frame by frame: the next will probably follow it. Unless it is the last of what is granted it is as long
    /// as a frame allows, or was cut: to fill a hole, or because its sender knew of no further grant yet. So a shorter one tells how long frames are
    /// only if another of that length follows it; and no full frame is shorter than the floor.
    #[inline]
    pub(super) fn note_data(
        &mut self,
        row: u32,
        link: u8,
        cursor: Cursor,
        len: usize,
        is_inner: bool,
    ) {
        if let Some(at) = self.cursors.get_mut(usize::from(link)) {
            *at = cursor;
        }
        if is_inner
            && len >= FULL_LEN_MIN
            && let Some(active) = self.peers.actives.of_mut(&self.peers.rows[row])
        {
            let mut paths = active.paths.iter_mut();
            if let Some(path) = paths.find(|path| path.source_link() == link) {
                path.note_data_len(len as u16);
            }
        }
    }
}

impl crate::bulk::arrival::Arrival {
    /// The message is granted, and its bytes go to a receive.
    pub(super) fn takes_data(&self) -> bool {
        let placing =
            self.stage == Stage::Arriving || (self.stage == Stage::Unexpected && self.in_overflow);
        self.is_large && placing && self.progress != NONE
    }
}

impl Bulk {
    /// The first frames of a train are what was expected. True: none of its message is missing any more.
    pub(crate) fn take_train(
        &mut self,
        now: Instant,
        slot: u32,
        link: u8,
        expected: &Expected,
        count: usize,
    ) -> bool {
        let &Expected { row, ref train, .. } = expected;
        let len = train.len_of(count);
        let end = train.offset + len;
        let serial = self.arrivals.serial(slot);
        self.peers.counters.frames_in += count as u64;
        self.peers.counters.bytes_placed += len;
        self.peers.counters.bytes_landed += len;
        self.peers.note_heard(now, row);
        let active = self.peers.active_of_mut(row);
        active.paths[usize::from(train.header.path)].note_train_len(train.payload_len);
        self.cursors[usize::from(link)] = Cursor { slot, serial, offset: end };
        let progress = &mut self.progress[self.arrivals[slot].progress];
        progress.gaps.fill(train.offset, end, &mut |_, _| ());
        progress.progressed_at = now;
        let is_whole = progress.gaps.is_empty();
        self.grants.on_arrived(slot, len);
        is_whole
    }
}
