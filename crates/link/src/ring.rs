//! Records from one writer to one reader, through memory that they share and neither trusts the other with.
//!
//! ```text
//!   control   │ head ──────── reader's line: what it has released    │ sleeping, note ─── reader's line, seldom written
//!             │ wants room ── writer's line, seldom written          │ proof ──────────── written once, by the reader
//!   lines     │H payload…│……………│H payload…│0         │   old    │   old    │ …      64 bytes each
//!              ▲ reader               ▲ batch, not published until the header of its first record is written
//!                                                ▲ end: where the next header will be
//! ```
//!
//! There is no index for the reader to look at: a record starts on a cache line of its own with a header, and the reader
//! spins on the one line where the next header will be. A short record thus crosses from core to core in one line, header and
//! bytes together. The word where the next header will be is zero before anything in front of it is published, so what
//! an earlier lap left there is never taken for a header. A batch is published by its first header, which is written last.
//! A record lies in one piece; what is left at the end of the lines is filled by a pad.
//! A long one may be shown while it is written: its header says how much of it is there. Who knows already where its bytes go copies them as they
//! come, in the time in which the writer copies the next; to all others it is not there yet.
//!
//! The writer reads the reader's `head` only when the room it knows of is used up, the reader publishes it only when a
//! quarter of the lines came together: in between each keeps to its own lines.
//!
//! **Distrust.** Whatever the other side can write is a number until it was checked, in release builds too: headers by the
//! reader, `head` by the writer. What cannot be is [`Broken`], for good. Bytes are copied, never borrowed, for they
//! may change while one looks at them.
//!
//! **Sleep.** Who sleeps says so, then looks once more; who publishes looks afterwards whether somebody sleeps. Between the
//! two steps stands a fence on each side ([`Lines::fence`]): in whatever order they fall, one sees the other.
//!
//! The memory that a ring lives in is in `block`.

mod block;

use std::fmt;
use std::ops::Deref;
use std::sync::atomic::Ordering;

pub use block::{Block, Heap, Share, channel};

/// Bytes of a line: what moves between two cores at once.
pub const LINE_LEN: usize = 64;
/// Bytes before the first line.
pub const CONTROL_LEN: usize = 4 * LINE_LEN;
/// Bytes of a record before its own.
pub const HEADER_LEN: usize = 8;
/// Fewer make no ring.
pub const LINE_COUNT_MIN: usize = 16;

/// For headers and `head` as they are read: bytes written (or read) before that word was written are so afterwards.
const SEE: Ordering = Ordering::Acquire;
/// For the header that publishes, and for `head`: everything before it goes along.
const SHOW: Ordering = Ordering::Release;
/// For headers that another one publishes, and for words that are hints or ordered by a fence.
const HINT: Ordering = Ordering::Relaxed;

/// The other side wrote what cannot be: nothing it writes can be relied on any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken;

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the other side of a ring wrote to it what it must not")
    }
}

impl std::error::Error for Broken {}

/// Words of the control part beside `head`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// The reader sleeps and wants a knock.
    Sleeping,
    /// The writer sleeps and wants a knock when there is room.
    WantsRoom,
    /// A number the reader leaves for the writer.
    Note,
}

/// Where a ring's words and bytes live. An implementation must itself refuse lines and ranges that it has not.
pub trait Lines {
    /// How many lines.
    fn line_count(&self) -> usize;

    /// The first word of a line. Acquire: bytes written before that word was are seen after it.
    fn header(&self, line: usize) -> u64;

    /// Writes it, to be seen whenever. Relaxed: the header that publishes comes later and takes it along.
    fn set_header(&self, line: usize, word: u64);

    /// Writes it, with everything before it. Release: pairs with the Acquire of `header`.
    fn publish_header(&self, line: usize, word: u64);

    /// How many lines the reader has released. Acquire: it is done with reading them.
    fn head(&self) -> u64;

    /// Sets how far the reader is. Release: what the reader copied out before was copied.
    fn set_head(&self, head: u64);

    /// One of the other words. Relaxed: they are hints, or ordered by `fence`.
    fn word(&self, word: Word) -> u32;

    /// Writes one. Relaxed, as above.
    fn set_word(&self, word: Word, value: u32);

    /// Sequentially consistent: everything before it is seen by whoever comes to such a fence later.
    fn fence(&self);

    /// Writes bytes at a place counted from the first line.
    ///
    /// # Safety
    /// `from` must be valid for reads of `len` bytes, and nobody in this process may use these bytes of the ring meanwhile.
    unsafe fn write(&self, at: usize, from: *const u8, len: usize);

    /// Reads bytes from a place counted from the first line.
    ///
    /// # Safety
    /// `to` must be valid for writes of `len` bytes, and nobody in this process may write these bytes of the ring meanwhile.
    unsafe fn read(&self, at: usize, to: *mut u8, len: usize);
}

/// What a header says: bits 0-31 length, 32-39 the writer's mark, 40-47 kind, the rest zero. Of a record that is still written: bits 48-62 how many
/// units of it are there, 63 is set.
const KIND_RECORD: u64 = 1;
const KIND_PAD: u64 = 2;
const GROWS: u64 = 1 << 63;
/// Bytes of a unit: by so much at least a record must grow to be seen growing.
pub const UNIT_LEN: usize = 256;

#[inline]
fn header_of(kind: u64, mark: u8, len: usize) -> u64 {
    kind << 40 | u64::from(mark) << 32 | len as u64
}

/// How many bytes of a record are there, by its header; `None`: it is the header of none.
#[inline]
fn grown_len(header: u64) -> Option<usize> {
    let (len, grown_len) = (header as u32 as usize, (header << 1 >> 49) as usize * UNIT_LEN);
    let is_whole = header & GROWS == 0;
    let is_record = header >> 40 & 0xFF == KIND_RECORD
        && (is_whole && grown_len == 0 || !is_whole && (1..=len).contains(&grown_len));
    is_record.then_some(if is_whole { len } else { grown_len })
}

/// Lines of a record of that many bytes.
#[inline]
fn lines_of(len: usize) -> usize {
    (HEADER_LEN + len).div_ceil(LINE_LEN)
}

/// The longest record of a ring: so long that it fits together with a pad beside what the reader holds back.
pub const fn record_len_max(line_count: usize) -> usize {
    line_count / 4 * LINE_LEN - HEADER_LEN
}

/// Lines behind the end that are made ready for headers before they are needed.
const AHEAD: usize = 3;

/// The writing end.
#[derive(Debug)]
pub struct Producer<S> {
    store: S,
    line_count: usize,
    record_len_max: usize,
    /// Line of the next record: the end.
    index: usize,
    /// Lines that a record can have here, in one piece and with one behind it, as far as is known; there may be more.
    here: usize,
    /// Lines written since the beginning.
    tail: u64,
    /// Lines that were published, of those written.
    published: u64,
    /// Lines released by the reader, as last read.
    head: u64,
    /// The header that publishes the batch, and its line. Zero: the batch is empty.
    first: (u64, usize),
    /// Lines from the end on whose first word is zero. At least one: there the reader looks next.
    blank_lines: usize,
}

impl<S: Deref<Target: Lines>> Producer<S> {
    /// The writing end of a ring whose words are all zero.
    ///
    /// # Safety
    /// This end must be the only one of this ring in this process, and whoever else writes to it in this process must be its one
    /// [`Consumer`].
    pub unsafe fn new(store: S) -> Self {
        let line_count = store.line_count();
        Self {
            store,
            line_count,
            record_len_max: record_len_max(line_count),
            index: 0,
            here: line_count - 1,
            tail: 0,
            published: 0,
            head: 0,
            first: (0, 0),
            blank_lines: 1,
        }
    }

    /// The longest record.
    #[inline]
    pub fn record_len_max(&self) -> usize {
        self.record_len_max
    }

    /// Where the ring lives.
    #[inline]
    pub fn store(&self) -> &S {
        &self.store
    }

    /// Room for a record of `len` bytes; `None`: not now.
    ///
    /// # Panics
    /// If it is longer than the longest record.
    #[inline]
    pub fn reserve(&mut self, mark: u8, len: usize) -> Result<Option<Reserved<'_, S>>, Broken> {
        assert!(len <= self.record_len_max, "a longer record than fits");
        let line_count = lines_of(len);
        let pad = if line_count <= self.here { Some(0) } else { self.find_room(line_count)? };
        let Some(pad) = pad else { return Ok(None) };
        let start = if pad > 0 { 0 } else { self.index };
        let at = start * LINE_LEN + HEADER_LEN;
        let header = header_of(KIND_RECORD, mark, len);
        Ok(Some(Reserved { ring: self, header, start, pad, line_count, at, end: at + len }))
    }

    /// Lines to fill before a record that does not fit here and now; `None` if there is no room for it.
    #[cold]
    fn find_room(&mut self, line_count: usize) -> Result<Option<usize>, Broken> {
        let rest = self.line_count - self.index;
        let pad = if line_count > rest { rest } else { 0 };
        // One line more, for the zero behind it.
        Ok(self.has_room(pad + line_count + 1)?.then_some(pad))
    }

    fn has_room(&mut self, line_count: usize) -> Result<bool, Broken> {
        if self.room() < line_count {
            let head = self.store.head();
            // It goes forward only, and not beyond what was written.
            if head < self.head || head > self.tail {
                return Err(Broken);
            }
            self.head = head;
            self.measure();
        }
        Ok(self.room() >= line_count)
    }

    /// Lines from the end on that are free.
    fn room(&self) -> usize {
        self.line_count - (self.tail - self.head) as usize
    }

    /// Finds out how much there is here.
    fn measure(&mut self) {
        self.here = self.room().saturating_sub(1).min(self.line_count - self.index);
    }

    /// Bytes written and not yet published, roughly.
    #[inline]
    pub fn batch_len(&self) -> usize {
        (self.tail - self.published) as usize * LINE_LEN
    }

    /// Makes everything that was written visible to the reader.
    #[inline]
    pub fn publish(&mut self) {
        let (header, line) = self.first;
        if header != 0 {
            (self.first.0, self.published) = (0, self.tail);
            self.store.publish_header(line, header);
        }
    }

    /// Makes lines ready for the next records, when nobody waits: `commit` then finds them ready, and in this core's cache.
    #[inline]
    pub fn prepare(&mut self) {
        // Not around the end, where `commit` does it.
        while self.blank_lines < AHEAD && AHEAD < self.here {
            self.store.set_header(self.index + self.blank_lines, 0);
            self.blank_lines += 1;
        }
    }

    /// After `publish`: whether the reader sleeps and must be woken. Said once for each of its sleeps.
    #[inline]
    pub fn must_wake(&mut self) -> bool {
        // Our header before this load; its flag before its last look. Without the fence the load could be done before
        // the header is seen, the reader's look before its flag is: neither would notice the other.
        self.store.fence();
        let is_asleep = self.store.word(Word::Sleeping) != 0;
        if is_asleep {
            self.store.set_word(Word::Sleeping, 0);
        }
        is_asleep
    }

    /// Asks for a knock when there is room again for a record of any length. False: there is already.
    pub fn want_room(&mut self) -> Result<bool, Broken> {
        self.store.set_word(Word::WantsRoom, 1);
        self.store.fence(); // pairs with the one in `Consumer::release`
        let has_room = self.has_room(self.line_count / 4 * 2)?;
        if has_room {
            self.store.set_word(Word::WantsRoom, 0);
        }
        Ok(!has_room)
    }
}

/// Room for a record. Dropped without `commit`, it was never there.
#[derive(Debug)]
pub struct Reserved<'a, S> {
    ring: &'a mut Producer<S>,
    header: u64,
    start: usize,
    /// Lines to fill before it.
    pad: usize,
    line_count: usize,
    at: usize,
    end: usize,
}

impl<S: Deref<Target: Lines>> Reserved<'_, S> {
    /// Appends bytes.
    ///
    /// # Panics
    /// If they are more than what is left.
    #[inline]
    pub fn put(&mut self, bytes: &[u8]) {
        // SAFETY: a slice is valid for reads.
        unsafe { self.put_raw(bytes.as_ptr(), bytes.len()) };
    }

    /// Appends bytes.
    ///
    /// # Safety
    /// `from` must be valid for reads of `len` bytes.
    ///
    /// # Panics
    /// If they are more than what is left.
    #[inline]
    pub unsafe fn put_raw(&mut self, from: *const u8, len: usize) {
        assert!(len <= self.end - self.at, "more bytes than reserved");
        // SAFETY: promised by the caller for `from`. The bytes are behind the published end and before the reader's head:
        // our consumer does not look at them, and there is no other producer.
        unsafe { self.ring.store.write(self.at, from, len) };
        self.at += len;
    }

    /// Shows what was put so far, if nothing waits to be published before it. The rest, and `commit`, must follow at once: its reader waits for it.
    #[inline]
    pub fn show(&mut self) {
        let Self { ring, header, start, pad, .. } = self;
        if *pad == 0 && ring.first.0 == 0 {
            let units = (self.at - *start * LINE_LEN - HEADER_LEN) / UNIT_LEN;
            ring.store.publish_header(*start, *header | GROWS | (units as u64) << 48);
        }
    }

    /// The record is complete; the next `publish` shows it.
    ///
    /// # Panics
    /// If bytes are missing.
    #[inline]
    pub fn commit(self) {
        assert!(self.at == self.end, "{} bytes are missing", self.end - self.at);
        let Self { ring, header, start, pad, line_count, .. } = self;
        if pad > 0 {
            ring.note(ring.index, header_of(KIND_PAD, 0, 0));
        }
        ring.note(start, header);
        let all_lines = pad + line_count;
        ring.index = start + line_count;
        ring.tail += all_lines as u64;
        if pad > 0 || ring.index == ring.line_count {
            ring.turn_around();
        } else {
            ring.here -= line_count;
        }
        if all_lines < ring.blank_lines {
            ring.blank_lines -= all_lines;
        } else {
            // The zero is written before the header that leads to it is published. It is in a line of ours: `reserve`
            // took one more than the record needs.
            ring.store.set_header(ring.index, 0);
            ring.blank_lines = 1;
        }
    }
}

impl<S: Deref<Target: Lines>> Producer<S> {
    /// Writes a header; the batch's first is kept back, for it publishes.
    #[inline]
    fn note(&mut self, line: usize, header: u64) {
        if self.first.0 == 0 {
            self.first = (header, line);
        } else {
            self.store.set_header(line, header);
        }
    }

    /// Behind the last line comes the first.
    #[cold]
    fn turn_around(&mut self) {
        if self.index == self.line_count {
            self.index = 0;
        }
        self.measure();
    }
}

/// A record that is there to be read. Dropped without `take`, it is still the next.
#[derive(Debug)]
pub struct Record<'a, S> {
    /// The mark its writer gave it.
    pub mark: u8,
    /// Its length, as its header said when it was looked at: it may say something else by now.
    len: usize,
    line_count: usize,
    ring: &'a mut Consumer<S>,
}

impl<S: Deref<Target: Lines>> Record<'_, S> {
    /// Its length.
    #[inline]
    #[expect(clippy::len_without_is_empty, reason = "it is a record even with no bytes in it")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Copies bytes of it, from `offset` on.
    ///
    /// # Panics
    /// If they are not all in it.
    #[inline]
    pub fn copy(&self, offset: usize, out: &mut [u8]) {
        // SAFETY: a slice is valid for writes.
        unsafe { self.copy_raw(offset, out.as_mut_ptr(), out.len()) };
    }

    /// Copies `len` bytes of it, from `offset` on.
    ///
    /// # Safety
    /// `out` must be valid for writes of `len` bytes.
    ///
    /// # Panics
    /// If they are not all in it.
    #[inline]
    pub unsafe fn copy_raw(&self, offset: usize, out: *mut u8, len: usize) {
        assert!(offset <= self.len && len <= self.len - offset, "more bytes than the record has");
        let at = self.ring.index * LINE_LEN + HEADER_LEN + offset;
        // SAFETY: `out` is valid, as the caller promised. The bytes are of a published record that was not released: our
        // producer does not write them.
        unsafe { self.ring.store.read(at, out, len) };
    }

    /// Goes on behind it; gives lines back to the writer when they are many. True: the writer waits for room and must be
    /// woken.
    #[inline]
    #[must_use]
    pub fn take(self) -> bool {
        let Self { ring, line_count, .. } = self;
        ring.taken += line_count as u64;
        ring.index += line_count;
        if ring.index == ring.line_count {
            ring.index = 0;
        }
        (ring.taken - ring.released) as usize * 4 >= ring.line_count && ring.release()
    }
}

/// The reading end.
#[derive(Debug)]
pub struct Consumer<S> {
    store: S,
    line_count: usize,
    /// Line of the next record.
    index: usize,
    /// Lines read since the beginning.
    taken: u64,
    /// Lines the writer knows of.
    released: u64,
    record_len_max: usize,
}

impl<S: Deref<Target: Lines>> Consumer<S> {
    /// The reading end of a ring that nobody has read from yet.
    ///
    /// # Safety
    /// It must be the only one of this ring in this process, and whoever else writes to it in this process must be its one
    /// [`Producer`].
    pub unsafe fn new(store: S) -> Self {
        let line_count = store.line_count();
        let record_len_max = record_len_max(line_count);
        Self { store, line_count, index: 0, taken: 0, released: 0, record_len_max }
    }

    /// Where the ring lives.
    #[inline]
    pub fn store(&self) -> &S {
        &self.store
    }

    /// Lines read since the beginning.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// Whether there is nothing to read: one load. A record that is still written is not there yet.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.store.header(self.index) as i64 <= 0
    }

    /// Whether there is something to read, or something that is still written.
    #[inline]
    pub fn has_begun(&self) -> bool {
        self.store.header(self.index) != 0
    }

    /// The next record while it is still written, and how many of its bytes are there.
    pub fn growing(&mut self) -> Option<(Record<'_, S>, usize)> {
        let header = self.store.header(self.index);
        let there_len = grown_len(header).filter(|_| header & GROWS != 0)?;
        self.check(header).ok().map(|record| (record, there_len))
    }

    /// How many bytes of the next record, which was found to be that long, are there by now. `None`: it is not that record any more.
    #[inline]
    pub fn grown(&self, len: usize) -> Option<usize> {
        let header = self.store.header(self.index);
        grown_len(header).filter(|_| header as u32 as usize == len)
    }

    /// The next record.
    #[inline]
    pub fn peek(&mut self) -> Result<Option<Record<'_, S>>, Broken> {
        match self.store.header(self.index) {
            0 => Ok(None),
            header if header >> 40 == KIND_RECORD => self.check(header).map(Some),
            header => self.skip_pad(header),
        }
    }

    /// The next record once more, by the length that it was found to have; whatever its header says by now.
    #[inline]
    pub fn again(&mut self, len: usize) -> Option<Record<'_, S>> {
        self.check(header_of(KIND_RECORD, 0, len)).ok()
    }

    /// A pad leads to the first line, where there is none.
    #[cold]
    fn skip_pad(&mut self, header: u64) -> Result<Option<Record<'_, S>>, Broken> {
        if header & GROWS != 0 {
            return self.check_growing(header);
        }
        // As long as a record may be, at most: it is there because such a one had no place.
        let rest = self.line_count - self.index;
        if header >> 40 != KIND_PAD || self.index == 0 || rest > self.line_count / 4 {
            return Err(Broken);
        }
        (self.index, self.taken) = (0, self.taken + rest as u64);
        match self.store.header(0) {
            0 => Ok(None),
            header if header & GROWS != 0 => self.check_growing(header),
            header if header >> 40 == KIND_RECORD => self.check(header).map(Some),
            _ => Err(Broken),
        }
    }

    /// A record that is still written is not there yet.
    fn check_growing(&mut self, header: u64) -> Result<Option<Record<'_, S>>, Broken> {
        grown_len(header).ok_or(Broken)?;
        self.check(header).map(|_| None)
    }

    /// Whether a record is inside the lines. That it does not reach into lines which the writer was not given back follows: a
    /// quarter of all is held back at most, a pad and a record are a quarter each.
    #[inline]
    fn check(&mut self, header: u64) -> Result<Record<'_, S>, Broken> {
        let (mark, len) = ((header >> 32) as u8, header as u32 as usize);
        let line_count = lines_of(len);
        if len > self.record_len_max || line_count > self.line_count - self.index {
            return Err(Broken);
        }
        Ok(Record { mark, len, line_count, ring: self })
    }

    /// Gives all lines that were read back to the writer. True: it waits for room and must be woken.
    #[must_use]
    pub fn release(&mut self) -> bool {
        self.released = self.taken;
        self.store.set_head(self.released);
        // Our head before this load; its word before its last look at the head (`Producer::want_room`).
        self.store.fence();
        let is_wanted = self.store.word(Word::WantsRoom) != 0;
        if is_wanted {
            self.store.set_word(Word::WantsRoom, 0);
        }
        is_wanted
    }

    /// Says that the reader is about to sleep, or does no more. After saying so it must come to a fence
    /// ([`Lines::fence`], one for any number of rings) and then look once more (`is_empty`).
    #[inline]
    pub fn set_sleeping(&self, is_asleep: bool) {
        self.store.set_word(Word::Sleeping, is_asleep.into());
    }
}

/// What only a hostile writer does.
#[cfg(test)]
impl<S: Deref<Target: Lines>> Producer<S> {
    /// Writes over the lines, wherever.
    pub(crate) fn scribble(&mut self, at: usize, bytes: &[u8]) {
        // SAFETY: a slice is valid for reads. The reader is in the same thread, or in another process.
        unsafe { self.store.write(at, bytes.as_ptr(), bytes.len()) };
    }

    /// Where the next header will be.
    pub(crate) fn next_at(&self) -> usize {
        self.index * LINE_LEN
    }
}

#[cfg(test)]
mod tests;
