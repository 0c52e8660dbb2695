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
use crate::base::types::{BufId, Instant, Locator, Memory};
use crate::bulk::arrival::GAP_COUNT_MAX;
use crate::bulk::arrival::Stage;
use crate::delivery::path::FIRST_PACKETS;
use crate::endpoint::Endpoint;
use crate::peers::rows::{Phase, row_of_id};
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
    slot: u32,
    serial: u32,
}

impl Landing {
    /// What is left of it behind `len` bytes.
    pub fn behind(self, len: u64) -> Self {
        let len = len.min(self.len);
        Self { offset: self.offset + len, len: self.len - len, ..self }
    }
}

/// Where data came last on a link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor {
    pub(crate) slot: u32,
    pub(crate) serial: u32,
    /// Where in the message the data ended.
    pub(crate) offset: u64,
}

impl Cursor {
    pub(crate) const NOWHERE: Self = Self { slot: NONE, serial: 0, offset: 0 };
}

/// A train as it is expected, and whose it is.
struct Expected {
    row: u32,
    /// Number of its first packet.
    packet: u64,
    train: TrainRepr,
}

impl Endpoint {
    /// Where data that arrives next on a link will probably go: what is granted and missing of the message that data came
    /// for last, or of another. `None` if nothing is granted, or frames carry sums that must be verified first.
    pub fn predict(&self, link: u8) -> Option<Landing> {
        let cursor = *self.cursors.get(usize::from(link))?;
        if self.granting.is_empty() || self.closing.is_some() {
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
        let end = gap.1.min(progress.granted_to);
        let active = self.actives.get(self.rows[arrival.row].active)?;
        let mut paths = active.paths.iter().filter(|path| path.source_link == link);
        let path = paths.next().filter(|_| gap.0 < end)?;
        let own_check = || self.links[usize::from(link)].payload_check;
        if path.is_checked_in.unwrap_or_else(own_check) {
            return None;
        }
        let payload_len = match path.data_len_in {
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

    /// Frames arrived on `link` from `from` and were scattered as `landing` says: their heads are in `heads`, `head_len`
    /// bytes each; their payload lies in memory from `landing.offset` on, `payload_len` bytes each and `last_len` of the
    /// last. Returns how many of them, from the first on, were what was predicted; these are done with. The others were
    /// not looked at: the driver moves their payload out and hands each to `on_frame`, in order.
    ///
    /// A driver may land several trains, each `behind` the one before.
    #[expect(clippy::too_many_arguments, reason = "as `on_frame`, and what was landed where")]
    pub fn on_landed(
        &mut self,
        now: Instant,
        link: u8,
        from: &Locator,
        landing: &Landing,
        heads: &[u8],
        count: usize,
        last_len: u32,
        memory: &mut impl Memory,
    ) -> usize {
        if self.closed || self.closing.is_some() {
            return 0;
        }
        if !self.orphans.is_empty() {
            self.deliver_orphans(now, memory);
        }
        let count = count.min(heads.len() / DATA_FRAME_HEAD_LEN);
        let Some(expected) = self.expect_train(link, from, landing, heads, count, last_len) else {
            return 0;
        };
        let count = wire::agreeing_count(heads, &expected.train, self.secret, self.train_checks);
        if count > 0 {
            self.take_train(now, landing.slot, link, &expected, count);
        }
        count
    }

    /// The train of which these may be the heads. `None` if there can be none there: everything that `on_frame` would ask
    /// is asked here, once, and what is not as usual is left to it.
    fn expect_train(
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
            || self.saboteur.makes(Sabotage::DoneTooEarly)
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
        let this = self.rows.get(row).filter(|_| row == arrival.row)?;
        if this.local_id != header.to || this.phase != Phase::Joined || this.version != header.form
        {
            return None;
        }
        let path = self.actives.get(this.active)?.paths.get(usize::from(header.path))?;
        let packet = path.received.expand(header.packet as u32);
        header.packet = packet;
        if packet <= path.received.largest() || path.source_link != link || path.source != *from {
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

    /// The first frames of a train are what was expected.
    fn take_train(&mut self, now: Instant, slot: u32, link: u8, expected: &Expected, count: usize) {
        let &Expected { row, packet, ref train } = expected;
        let len = train.len_of(count);
        let end = train.offset + len;
        let serial = self.arrivals.serial(slot);
        self.counters.frames_in += count as u64;
        self.counters.bytes_placed += len;
        self.counters.bytes_landed += len;
        self.rows[row].heard_at = now;
        let active = &mut **self.actives.get_mut(self.rows[row].active).expect("expected");
        active.welcome = false; // the peer has joined
        active.paths[usize::from(train.header.path)].data_len_in = train.payload_len;
        self.cursors[usize::from(link)] = Cursor { slot, serial, offset: end };
        let progress = &mut self.progress[self.arrivals[slot].progress];
        progress.gaps.fill(train.offset, end, &mut |_, _| ());
        progress.progressed_at = now;
        let is_whole = progress.gaps.is_empty();
        self.grants.on_arrived(slot, len);
        if is_whole {
            self.on_whole(now, slot);
        }
        if self.grants.is_waiting(slot) {
            self.judge_readiness(slot); // as in `on_data`
        }
        self.pump_grants(now);
        self.note_train(now, row, usize::from(train.header.path), packet, count as u64);
    }

    /// Counts the packets of a train as received (`Endpoint::note_received`).
    fn note_train(&mut self, now: Instant, row: u32, path: usize, packet: u64, count: u64) {
        let active = self.activate(row);
        let path = &mut self.actives[active].paths[path];
        let in_order = path.received.record_run(packet, count, now);
        let at_once = !in_order || packet <= FIRST_PACKETS;
        let due = path.owe_train_ack(now, count as u32, at_once, &self.settings);
        self.see_to_ack(row, due);
    }

    /// Data came frame by frame: the next will probably follow it. Unless it is the last of what is granted it is as long
    /// as a frame allows, or was cut to fill a hole; but no full frame is shorter than the floor.
    #[inline]
    pub(crate) fn note_data(
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
            && let Some(active) = self.actives.get_mut(self.rows[row].active)
        {
            let mut paths = active.paths.iter_mut();
            if let Some(path) = paths.find(|path| path.source_link == link) {
                path.data_len_in = len as u16;
            }
        }
    }
}

impl crate::bulk::arrival::Arrival {
    /// It is granted, and its bytes go to a receive.
    pub(crate) fn takes_data(&self) -> bool {
        let placing =
            self.stage == Stage::Arriving || (self.stage == Stage::Unexpected && self.in_overflow);
        self.is_large && placing && self.progress != NONE
    }
}
