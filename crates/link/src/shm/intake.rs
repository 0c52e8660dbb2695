//! Where frames go that were taken out of rings: into memory of ours, or their payload into the application's.
//!
//! ```text
//!   room   [frame][frame][heads of what landed][frame] …│ free │        begun anew by each call
//!                                                        └ what is lifted goes here
//! ```

use std::io;
use std::ops::Range;

use super::letters::{RANGE_COUNT_MAX, TRAIN_COUNT_MAX, TRAIN_LEN_MAX, TrainRecord};
use crate::mem::{MemoryId, Table};
use crate::ring::Record;
use crate::sys::region::Region;
use crate::sys::shm::{Mapping, Places, Source, land, read_from};
use crate::{Arrived, Landed, Landing, Locator};

/// When so many bytes were taken, a call takes no more.
const CALL_LEN_MAX: usize = 128 << 10;
/// What shows as an arrival counts as so many at least.
const WEIGHT_MIN: usize = 512;
/// The most that one record or train adds, with its heads.
const STEP_LEN_MAX: usize = TRAIN_LEN_MAX + (64 << 10);
/// All that a call takes, and all of it lifted.
pub(super) const ROOM_LEN: usize = 2 * (CALL_LEN_MAX + STEP_LEN_MAX) + (64 << 10);
/// Arrivals of a call: the last may show as two.
const ARRIVAL_COUNT_MAX: usize = CALL_LEN_MAX / WEIGHT_MIN + 1;
/// Shorter payload is not worth a landing that may be wrong.
const LAND_LEN_MIN: usize = 512;
/// Landings that were wrong and are remembered.
const MISFIT_COUNT_MAX: usize = 4;

/// Frames to show. Their bytes are in the room.
#[derive(Clone, Debug)]
struct Arrival {
    from: Locator,
    stride: usize,
    landed: Option<Landed>,
    start: usize,
    end: usize,
}

/// What a call has taken.
#[derive(Debug)]
pub(super) struct Intake {
    room: Region,
    used: usize,
    /// Bytes that were taken, roughly; not less than what is used and what landed.
    weight: usize,
    arrivals: Vec<Arrival>,
    landing: Option<Landing>,
    /// Bytes of the landing that are filled.
    landed_len: u64,
    /// Memory that data was expected in, and who sent something else: the next is not tried.
    misfits: [(MemoryId, Locator); MISFIT_COUNT_MAX],
    misfit_next: usize,
    pub(super) landed_bytes: u64,
    pub(super) lifted_bytes: u64,
}

impl Intake {
    pub(super) fn new(room: Region) -> Self {
        Self {
            room,
            used: 0,
            weight: 0,
            arrivals: Vec::with_capacity(ARRIVAL_COUNT_MAX),
            landing: None,
            landed_len: 0,
            misfits: [(MemoryId(0), [0; 24]); MISFIT_COUNT_MAX],
            misfit_next: 0,
            landed_bytes: 0,
            lifted_bytes: 0,
        }
    }

    /// Forgets the call before.
    #[inline]
    pub(super) fn begin(&mut self, landing: Option<&Landing>) {
        self.arrivals.clear();
        (self.used, self.weight, self.landed_len) = (0, 0, 0);
        self.landing = landing.filter(|landing| landing.head_len > 0).copied();
    }

    #[inline]
    pub(super) fn count(&self) -> usize {
        self.arrivals.len()
    }

    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.weight >= CALL_LEN_MAX
    }

    #[inline]
    fn weigh(&mut self, len: usize) {
        self.weight += (len + 16).max(WEIGHT_MIN);
    }

    pub(super) fn room(&mut self) -> &mut Region {
        &mut self.room
    }

    #[inline]
    pub(super) fn arrived(&self, index: usize) -> Arrived<'_> {
        let arrival = &self.arrivals[index];
        let bytes = self.room.bytes(arrival.start..arrival.end);
        Arrived { from: arrival.from, bytes, stride: arrival.stride, landed: arrival.landed }
    }

    /// Whether a frame of that length may have a place in the application's memory.
    #[inline]
    pub(super) fn may_land(&self, len: usize) -> bool {
        self.landing.is_some() && len > LAND_LEN_MIN
    }

    /// Takes a frame as it is.
    #[inline]
    pub(super) fn take_whole(&mut self, record: &Record<'_, Mapping>, from: &Locator) {
        let stride = record.len();
        self.weigh(stride);
        let start = self.used.next_multiple_of(16);
        let end = start + stride;
        record.copy(0, self.room.bytes_mut(start..end));
        self.used = end;
        self.arrivals.push(Arrival { from: *from, stride, landed: None, start, end });
    }

    /// The landing, unless frames from there were something else before: its memory, where in it, how much is left.
    fn place_for(&self, from: &Locator) -> Option<(Landing, u64, u64)> {
        let landing = self.landing?;
        let is_misfit = self.misfits.iter().any(|(id, who)| *id == landing.id && who == from);
        let rest = landing.len.saturating_sub(self.landed_len);
        (!is_misfit).then_some((landing, landing.offset + self.landed_len, rest))
    }

    /// Puts the payload where it is expected, if it has the expected length. False: it is taken like others.
    #[inline(never)]
    pub(super) fn land_frame(
        &mut self,
        record: &Record<'_, Mapping>,
        from: &Locator,
        memory: &mut Table,
    ) -> bool {
        let Some((landing, offset, rest)) = self.place_for(from) else { return false };
        let Some(payload_len) = record.len().checked_sub(landing.head_len) else { return false };
        // Full, or all that is missing. Others are rarely what is expected.
        let is_likely = payload_len as u64 == rest.min(landing.payload_len as u64);
        let range = offset..offset + payload_len as u64;
        if !is_likely
            || payload_len == 0
            || !land(record, landing.head_len, memory, landing.id, range)
        {
            return false;
        }
        self.weigh(record.len());
        let start = self.used;
        self.used += landing.head_len;
        record.copy(0, self.room.bytes_mut(start..self.used));
        self.add_landed(from, &landing, start, Landed { offset, count: 1, last_len: payload_len });
        true
    }

    /// Shows frames whose heads end at `used`; together with those before them, where they go on.
    fn add_landed(&mut self, from: &Locator, landing: &Landing, start: usize, landed: Landed) {
        let len = (landed.count - 1) as u64 * landing.payload_len as u64 + landed.last_len as u64;
        self.landed_len += len;
        self.landed_bytes += len;
        let end = self.used;
        if let Some(last) = self.arrivals.last_mut()
            && let Some(before) = &mut last.landed
            && (last.from, last.end) == (*from, start)
            && before.last_len == landing.payload_len
            && before.offset + before.count as u64 * landing.payload_len as u64 == landed.offset
        {
            (before.count, before.last_len) = (before.count + landed.count, landed.last_len);
            last.end = end;
            return;
        }
        let (from, stride) = (*from, landing.head_len);
        self.arrivals.push(Arrival { from, stride, landed: Some(landed), start, end });
    }

    /// Reads a train's payload from its sender's memory: frames that are expected to their place, others to the room.
    pub(super) fn take_train(
        &mut self,
        source: &Source,
        from: &Locator,
        train: &TrainRecord<'_>,
        memory: &mut Table,
    ) -> io::Result<()> {
        let fit = self.fit(from, train);
        let read = self.read_train(source, from, train, fit, memory);
        match read {
            // The place is gone, or in more pieces than a call takes: all of it to the room.
            Err(error)
                if fit > 0
                    && matches!(
                        error.kind(),
                        io::ErrorKind::NotFound | io::ErrorKind::InvalidInput
                    )
                    && error.raw_os_error().is_none() =>
            {
                self.read_train(source, from, train, 0, memory)
            }
            read => read,
        }
    }

    /// How many frames from the first on are such as expected and have a place.
    fn fit(&self, from: &Locator, train: &TrainRecord<'_>) -> usize {
        let Some((landing, _, rest)) = self.place_for(from) else { return 0 };
        if (landing.head_len, landing.payload_len) != (train.head_len, train.payload_len) {
            return 0;
        }
        if train.len as u64 <= rest {
            return train.count;
        }
        ((rest / train.payload_len as u64) as usize).min(train.count - 1)
    }

    fn read_train(
        &mut self,
        source: &Source,
        from: &Locator,
        train: &TrainRecord<'_>,
        fit: usize,
        memory: &mut Table,
    ) -> io::Result<()> {
        let last_len = if fit == train.count { train.last_len } else { train.payload_len };
        let fit_len = if fit == 0 { 0 } else { (fit - 1) * train.payload_len + last_len };
        let heads_at = self.used;
        let heads_end = heads_at + fit * train.head_len;
        let whole_at = heads_end.next_multiple_of(16);
        let mut own: [Range<usize>; TRAIN_COUNT_MAX] = std::array::from_fn(|_| 0..0);
        let mut end = whole_at;
        for (number, place) in own.iter_mut().enumerate().take(train.count).skip(fit) {
            let is_last = number + 1 == train.count;
            let start = end + train.head_len;
            end = start + if is_last { train.last_len } else { train.payload_len };
            *place = start..end;
        }
        let place = self.landing.filter(|_| fit > 0).map(|landing| {
            let offset = landing.offset + self.landed_len;
            (landing.id, offset..offset + fit_len as u64)
        });
        let offset = place.as_ref().map_or(0, |(_, range)| range.start);
        let mut ranges = [(0, 0); RANGE_COUNT_MAX];
        let mut range_count = 0;
        for (place, range) in ranges.iter_mut().zip(train.ranges()) {
            *place = range;
            range_count += 1;
        }
        let places = Places { user: place, own: &own[fit..train.count], still: None };
        read_from(source, &ranges[..range_count], &places, memory, &mut self.room)?;
        self.weigh(train.len + train.heads.len());
        let (landed_heads, heads) = train.heads.split_at(fit * train.head_len);
        if let Some(landing) = self.landing.filter(|_| fit > 0) {
            self.room.bytes_mut(heads_at..heads_end).copy_from_slice(landed_heads);
            self.used = heads_end;
            self.add_landed(from, &landing, heads_at, Landed { offset, count: fit, last_len });
        }
        if fit < train.count {
            for (head, place) in heads.chunks_exact(train.head_len).zip(&own[fit..]) {
                let at = place.start - train.head_len;
                self.room.bytes_mut(at..place.start).copy_from_slice(head);
            }
            self.used = end;
            let stride = train.head_len + train.payload_len;
            let (from, stride) = (*from, stride.min(end - whole_at));
            self.arrivals.push(Arrival { from, stride, landed: None, start: whole_at, end });
        }
        Ok(())
    }

    /// Moves payload of landed frames from number `first` on out of the application's memory.
    pub(super) fn lift(&mut self, index: usize, first: usize, memory: &Table) {
        let Some(landing) = self.landing else { return };
        let Arrival { from, stride: head_len, landed, start, .. } = self.arrivals[index];
        let Some(landed) = landed.filter(|landed| first < landed.count) else { return };
        if first == 0 {
            self.misfits[self.misfit_next] = (landing.id, from);
            self.misfit_next = (self.misfit_next + 1) % MISFIT_COUNT_MAX;
        }
        let new_start = self.used.next_multiple_of(16);
        let heads_len = first * head_len;
        self.copy_own(start..start + heads_len, new_start);
        let mut at = new_start + heads_len;
        for number in first..landed.count {
            let is_last = number + 1 == landed.count;
            let len = if is_last { landed.last_len } else { landing.payload_len };
            let head_at = start + number * head_len;
            self.copy_own(head_at..head_at + head_len, at);
            let offset = landed.offset + number as u64 * landing.payload_len as u64;
            let place = self.room.bytes_mut(at + head_len..at + head_len + len);
            if !memory.copy_to(landing.id, offset, place) {
                place.fill(0); // given back meanwhile: the check of the frame, or nobody, will miss it
            }
            self.lifted_bytes += len as u64;
            at += head_len + len;
        }
        self.used = at;
        let arrival = &mut self.arrivals[index];
        (arrival.start, arrival.end) = (new_start, at);
        if first == 0 {
            arrival.landed = None;
            arrival.stride = (head_len + landing.payload_len).min(at - new_start);
        } else {
            let last_len = landing.payload_len;
            arrival.landed = Some(Landed { count: first, last_len, ..landed });
        }
    }

    /// Copies inside the room, forwards.
    fn copy_own(&mut self, from: Range<usize>, to: usize) {
        let base = from.start;
        let all = self.room.bytes_mut(base..to + from.len());
        all.copy_within(..from.len(), to - base);
    }
}
