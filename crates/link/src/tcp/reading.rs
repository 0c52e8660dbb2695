//! What is read from streams, as arrivals.
//!
//! ```text
//!   stream     L H P P P L H P P P L H P P P L H P           L: length of the record
//!   landing    L H place L H place L H place [spill …        three were expected, of the lengths they have
//!   shown as   ├─ landed: 3 heads, without L ─┤ └ kept until the rest comes
//! ```
//!
//! A read ends where the bytes end that were there, mostly in the midst of a record. What there is of a record is kept in the stream,
//! also of one whose payload lands: its place is named to us for one call only, and before the next one anybody may be given the
//! same place, or the bytes under it: links know nothing of each other, and no check covers payload. With the copy no record is ever put
//! together from bytes that are not its own. It is made of bytes that have just passed through the cache, and a read that brings much
//! ends in the midst of a record as seldom as any.
//!
//! What landed where it does not belong is put together in front of the spill, so that it and the spill are one range. Everything is found
//! by name in the table, not by pointer: between a receive and a lift the memory may have been given back.

use std::io;
use std::ops::Range;

use super::incoming::{Placed, Stream};
use super::{Counters, FRAME_LEN_MAX};
use crate::mem::Table;
use crate::sys::stream_in::{Places, READ_COUNT_MAX, StreamIn};
use crate::sys::stream_out::WORD_LEN;
use crate::{Arrived, Landed, Landing, Locator};

/// Behind payload that landed so many reads without a landing bring so many bytes at most: what follows an announcement lands only if the
/// announcement was read before, and not much behind it.
const SHORT_COUNT: u32 = 64;
const SHORT_LEN: usize = 2048;

/// What became of a stream that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// There was nothing.
    Nothing,
    /// There were so many bytes.
    Some(usize),
    /// The stream ended, or broke, or what came by it is no record.
    Over,
}

/// Where frames to show are.
#[derive(Clone, Debug)]
enum At {
    Room(Range<usize>),
    Heads(usize),
    /// A record of its own, without its length.
    Record(usize),
}

/// Frames to show.
#[derive(Clone, Debug)]
struct Arrival {
    from: Locator,
    stride: usize,
    landed: Option<Landed>,
    at: At,
}

/// What one call of `receive` brought.
#[derive(Debug)]
pub(super) struct Intake {
    inbox: StreamIn,
    arrivals: Vec<Arrival>,
    /// Records that came in several reads; the first `record_count` are shown.
    records: Vec<Vec<u8>>,
    record_count: usize,
    read_count: usize,
    landing: Option<Landing>,
    /// Whether the landing was used: for one stream only.
    is_used: bool,
    /// Where in the room that is free which a lift may fill, from behind.
    gather_end: usize,
}

impl Intake {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            inbox: StreamIn::new(FRAME_LEN_MAX)?,
            arrivals: Vec::with_capacity(64),
            records: Vec::new(),
            record_count: 0,
            read_count: 0,
            landing: None,
            is_used: false,
            gather_end: 0,
        })
    }

    /// Forgets what the call before brought.
    pub(super) fn begin(&mut self, landing: Option<&Landing>) {
        self.arrivals.clear();
        (self.record_count, self.read_count, self.is_used) = (0, 0, false);
        self.landing = landing.copied().filter(|landing| {
            landing.head_len > 0
                && landing.payload_len > 0
                && landing.head_len.saturating_add(landing.payload_len) <= FRAME_LEN_MAX
        });
    }

    pub(super) fn len(&self) -> usize {
        self.arrivals.len()
    }

    /// Whether another stream can be read.
    pub(super) fn has_room(&self) -> bool {
        self.read_count < READ_COUNT_MAX
    }

    /// Reads what is there of a stream. The landing may be used for it or not.
    pub(super) fn read(
        &mut self,
        stream: &mut Stream,
        may_land: bool,
        memory: &mut Table,
        counters: &mut Counters,
    ) -> Outcome {
        let Some(from) = stream.from else { return Outcome::Nothing };
        let before = self.arrivals.len();
        counters.calls_in += 1;
        let landing = self.landing.filter(|_| may_land && !self.is_used);
        let landed = landing.and_then(|landing| self.read_landing(stream, &landing, memory));
        let result = match (landed, landing) {
            (Some((places, Ok(len))), Some(landing)) if len > 0 => {
                let total = stream.record.len() + len;
                self.is_used = true;
                counters.bytes_in += len as u64;
                let sorted =
                    self.sort_out(stream, total, &places, &landing, from, memory, counters);
                sorted.map(|()| len)
            }
            (Some((_, result)), _) => ended(result),
            (None, _) => self.read_plain(stream, from, counters),
        };
        let outcome = match result {
            Ok(len) => Outcome::Some(len),
            Err(libc::EAGAIN | libc::EINTR) => Outcome::Nothing,
            Err(_) => Outcome::Over,
        };
        // Also behind what cannot be: frames before it are shown from the same room.
        self.read_count += usize::from(outcome != Outcome::Nothing);
        let frames = self.arrivals[before..].iter();
        counters.frames_in +=
            frames.map(|it| it.landed.map_or(1, |landed| landed.count as u64)).sum::<u64>();
        outcome
    }

    /// Reads whole records into the room, and the rest of a record begun behind its beginning.
    fn read_plain(
        &mut self,
        stream: &mut Stream,
        from: Locator,
        counters: &mut Counters,
    ) -> Result<usize, i32> {
        let spill_at = self.inbox.spill_at(self.read_count);
        let before_len = stream.record.len();
        let spill_len = if stream.short_left > 0 { SHORT_LEN } else { usize::MAX };
        stream.short_left = stream.short_left.saturating_sub(1);
        stream.placed = None;
        let Some(word) = stream.record.first_chunk::<WORD_LEN>() else {
            // The length itself is not complete: it is completed in the room.
            let len = ended(self.inbox.read(
                &stream.socket,
                &mut stream.record,
                (0, spill_len),
                self.read_count,
            ))?;
            counters.bytes_in += len as u64;
            let start = spill_at - before_len;
            self.inbox.room_and_heads(start..spill_at, 0..0).0.copy_from_slice(&stream.record);
            self.take_records(stream, start..spill_at + len, from)?;
            return Ok(len);
        };
        let rest_len = WORD_LEN + u32::from_le_bytes(*word) as usize - before_len;
        let lens = (rest_len, spill_len);
        let read = self.inbox.read(&stream.socket, &mut stream.record, lens, self.read_count);
        let len = ended(read)?;
        counters.bytes_in += len as u64;
        if len >= rest_len {
            self.take_record(stream, from);
            self.take_records(stream, spill_at..spill_at + len - rest_len, from)?;
        }
        Ok(len)
    }

    /// Shows the record that a stream kept, which is whole.
    fn take_record(&mut self, stream: &mut Stream, from: Locator) {
        if self.record_count == self.records.len() {
            self.records.push(Vec::new());
        }
        let record = &mut self.records[self.record_count];
        record.clear();
        std::mem::swap(record, &mut stream.record);
        let stride = record.len() - WORD_LEN;
        let at = At::Record(self.record_count);
        self.arrivals.push(Arrival { from, stride, landed: None, at });
        self.record_count += 1;
    }

    /// Shows the whole records in a range of the room, and keeps what is left. An error if there is one that cannot be.
    fn take_records(
        &mut self,
        stream: &mut Stream,
        range: Range<usize>,
        from: Locator,
    ) -> Result<(), i32> {
        let mut at = range.start;
        stream.record.clear();
        while let Some(word) = self.inbox.room(at..range.end).first_chunk::<WORD_LEN>() {
            let len = u32::from_le_bytes(*word) as usize;
            if !(1..=FRAME_LEN_MAX).contains(&len) {
                return Err(libc::EBADMSG);
            }
            let start = at + WORD_LEN;
            if range.end - start < len {
                stream.record.reserve_exact(WORD_LEN + len); // it grows no more
                break;
            }
            let place = At::Room(start..start + len);
            self.arrivals.push(Arrival { from, stride: len, landed: None, at: place });
            at = start + len;
        }
        stream.record.extend_from_slice(self.inbox.room(at..range.end));
        Ok(())
    }

    pub(super) fn arrived(&self, index: usize) -> Arrived<'_> {
        let Arrival { from, stride, landed, ref at } = self.arrivals[index];
        let bytes = match (at, landed) {
            (At::Room(range), _) => self.inbox.room(range.clone()),
            (At::Heads(len), _) => self.inbox.heads(0..*len),
            (At::Record(number), _) => &self.records[*number][WORD_LEN..],
        };
        Arrived { from, bytes, stride, landed }
    }
}

/// The end of a stream is an error like any other.
fn ended(result: Result<usize, i32>) -> Result<usize, i32> {
    if result == Ok(0) { Err(libc::ECONNRESET) } else { result }
}

/// Landing.
impl Intake {
    /// Reads to where the landing expects the record begun and those behind it; `None` if it does not.
    fn read_landing(
        &mut self,
        stream: &mut Stream,
        landing: &Landing,
        memory: &mut Table,
    ) -> Option<(Places, Result<usize, i32>)> {
        let here = Placed { id: landing.id, offset: landing.offset, written: memory.written() };
        let prefix = (&stream.record[..], stream.placed == Some(here));
        let read =
            self.inbox.read_landing(&stream.socket, landing, prefix, memory, self.read_count)?;
        if stream.record.len() > WORD_LEN + landing.head_len && read.1.is_err() {
            // Nothing came, so what was put there lies there for the next call.
            stream.placed = Some(Placed { written: memory.written(), ..here });
        }
        Some(read)
    }

    /// Shows what was read with a landing: `total` bytes from the beginning of a record, with those that were kept.
    #[expect(clippy::too_many_arguments, reason = "what was read, where it should be, whose it is")]
    fn sort_out(
        &mut self,
        stream: &mut Stream,
        total: usize,
        places: &Places,
        landing: &Landing,
        from: Locator,
        memory: &Table,
        counters: &mut Counters,
    ) -> Result<(), i32> {
        let head_len = WORD_LEN + landing.head_len;
        let count = self.count_landed(total, places, landing);
        let scattered_len = places.stream_len(landing).min(total);
        let start = match count == places.count {
            true => scattered_len,
            false => count * (head_len + landing.payload_len),
        };
        let spill_at = self.inbox.spill_at(self.read_count);
        let left = scattered_len - start;
        self.gather_end = spill_at;
        stream.placed = None;
        let is_begun = count < places.count
            && (left < WORD_LEN
                || self.len_of(count, head_len)
                    == landing.head_len + places.payload_len(count, landing));
        if is_begun {
            self.keep(stream, count, left, landing, memory);
        } else {
            let wrong = start..scattered_len;
            self.gather_end -= left;
            let lifted = self.gather(wrong, head_len, landing, memory, self.gather_end);
            counters.lifted_bytes += lifted as u64;
        }
        if count > 0 {
            stream.short_left = SHORT_COUNT;
            self.show_landed(count, places, landing, from, counters);
        }
        if is_begun {
            return Ok(());
        }
        self.take_records(stream, spill_at - left..spill_at + total - scattered_len, from)
    }

    /// The length that the record of this number says it has.
    fn len_of(&self, number: usize, head_len: usize) -> usize {
        let at = number * head_len;
        let word = self.inbox.heads(at..at + WORD_LEN).first_chunk();
        word.map_or(0, |word| u32::from_le_bytes(*word) as usize)
    }

    /// How many records, from the first on, are whole and as long as was expected.
    fn count_landed(&self, total: usize, places: &Places, landing: &Landing) -> usize {
        let head_len = WORD_LEN + landing.head_len;
        let lands = |&number: &usize| {
            let payload_len = places.payload_len(number, landing);
            let end = number * (head_len + landing.payload_len) + head_len + payload_len;
            end <= total && self.len_of(number, head_len) == landing.head_len + payload_len
        };
        (0..places.count).take_while(lands).count()
    }

    /// Keeps a copy of the record of this number, of which there are `len` bytes.
    fn keep(
        &mut self,
        stream: &mut Stream,
        number: usize,
        len: usize,
        landing: &Landing,
        memory: &Table,
    ) {
        let head_len = WORD_LEN + landing.head_len;
        if number > 0 {
            stream.record.clear();
        }
        if len == 0 {
            return;
        }
        let known = stream.record.len(); // of the first record, a beginning may be kept already
        stream.record.reserve_exact(head_len + landing.payload_len - known);
        let head_at = number * head_len;
        let head = self.inbox.heads(head_at..head_at + len.min(head_len));
        stream.record.extend_from_slice(head.get(known..).unwrap_or(&[]));
        let offset = landing.offset + (number * landing.payload_len) as u64;
        let from = stream.record.len();
        if len <= head_len || from < head_len {
            return;
        }
        let at = offset + (from - head_len) as u64;
        let is_there = memory.copy_out(landing.id, at, len - from, &mut stream.record);
        debug_assert!(is_there, "it was read a moment ago");
        let written = memory.written();
        stream.placed = Some(Placed { id: landing.id, offset, written });
    }

    /// Shows the first `count` records, with their heads behind each other.
    fn show_landed(
        &mut self,
        count: usize,
        places: &Places,
        landing: &Landing,
        from: Locator,
        counters: &mut Counters,
    ) {
        let (stride, head_len) = (landing.head_len, WORD_LEN + landing.head_len);
        let heads = self.inbox.heads_mut(0..count * head_len);
        for number in 0..count {
            let at = number * head_len + WORD_LEN;
            heads.copy_within(at..at + stride, number * stride);
        }
        let last_len = places.payload_len(count - 1, landing);
        let landed = Some(Landed { offset: landing.offset, count, last_len });
        self.arrivals.push(Arrival { from, stride, landed, at: At::Heads(count * stride) });
        counters.landed_bytes += ((count - 1) * landing.payload_len + last_len) as u64;
    }

    /// Copies a range of the scattered bytes to `to` in the room; how many of them were payload. `head_len` bytes of each frame are
    /// with the heads.
    fn gather(
        &mut self,
        range: Range<usize>,
        head_len: usize,
        landing: &Landing,
        memory: &Table,
        to: usize,
    ) -> usize {
        let unit = head_len + landing.payload_len;
        let (mut at, mut lifted_len) = (range.start, 0);
        while at < range.end {
            let (number, inner) = (at / unit, at % unit);
            let until = number * unit + if inner < head_len { head_len } else { unit };
            let len = until.min(range.end) - at;
            let here = to + (at - range.start);
            if inner < head_len {
                let head_at = number * head_len + inner;
                let (room, head) =
                    self.inbox.room_and_heads(here..here + len, head_at..head_at + len);
                room.copy_from_slice(head);
            } else {
                let offset = (number * landing.payload_len + inner - head_len) as u64;
                let (room, _) = self.inbox.room_and_heads(here..here + len, 0..0);
                if !memory.copy_to(landing.id, landing.offset + offset, room) {
                    room.fill(0); // given back meanwhile: the check of the frame, or nobody, will miss it
                }
                lifted_len += len;
            }
            at += len;
        }
        lifted_len
    }

    /// As [`crate::Link::lift`]; how many bytes were moved.
    pub(super) fn lift(&mut self, index: usize, first: usize, memory: &Table) -> usize {
        let Some(landing) = self.landing else { return 0 };
        let Arrival { landed, stride: head_len, .. } = self.arrivals[index];
        let Some(landed) = landed.filter(|landed| first < landed.count) else { return 0 };
        let frame_len = head_len + landing.payload_len;
        let end = (landed.count - 1) * frame_len + head_len + landed.last_len;
        let range = first * frame_len..end;
        let whole_end = match &self.arrivals[index].at {
            At::Room(range) => range.end, // lifted in part before
            _ => self.gather_end,
        };
        let to = self.gather_end - range.len();
        let lifted_len = self.gather(range, head_len, &landing, memory, to);
        let at = to - first * head_len;
        let (room, heads) = self.inbox.room_and_heads(at..to, 0..first * head_len);
        room.copy_from_slice(heads);
        self.gather_end = to;
        let arrival = &mut self.arrivals[index];
        arrival.at = At::Room(at..whole_end);
        if first == 0 {
            (arrival.landed, arrival.stride) = (None, frame_len.min(whole_end - at));
        } else {
            let last_len = landing.payload_len;
            arrival.landed = Some(Landed { count: first, last_len, ..landed });
        }
        lifted_len
    }
}
