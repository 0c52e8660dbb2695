//! Long messages that both ends copy at once.
//!
//! ```text
//!   receiver   offers ─▶ reads piece 0, 1, 2 …           waits for what the other has claimed, then all is there
//!   sender     told of it, waits for its end, looks ─▶ … 6, 7 are written      (`ring/claims`)
//! ```
//!
//! PROTOCOL §14.9. Whoever fetches a message copies all of it, while the one that told of it mostly does nothing but to look whether it is over. So who
//! fetches offers the other to copy, and the other, if it looks, writes from the end on what is not copied yet. A sender that does something else copies
//! nothing, and costs its receiver the offer: some twenty stores.
//!
//! **The only writing of another process's memory there is.** It is done by whom the owner of that memory asked, into the range that it named, while it waits
//! for that: it gives the memory back to nobody before all that was claimed has ended, or the process that claimed it. The sender writes only what it has told that
//! peer of and has lent still, and just before looks whether it is the right process.

use std::hint::spin_loop;
use std::io;
use std::time::{Duration, Instant};

use super::Shm;
use super::trust::is_stopped;
use crate::mem::{MemoryId, Table};
use crate::ring::claims::{Offered, Other, Serial, TOGETHER_LEN_MIN, Task, Work};
use crate::ring::{Broken, Consumer};
use crate::sys::shm::{Mapping, Places, Source, address_of, is_over, read_from, write_to};
use crate::{Fetch, ticks};

/// Whom a peer was told of: what it may be helped with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Told {
    /// The peer.
    pub(super) name: u64,
    /// The memory, how much of it, and its word.
    pub(super) id: MemoryId,
    pub(super) len: u64,
    pub(super) word: u64,
}

/// What peers were told of, as far as they may be helped with it. A few are enough: each is fetched in its turn.
#[derive(Debug, Default)]
pub(super) struct TellingOf {
    all: Vec<Told>,
    /// Which is looked at next.
    next: usize,
}

const TOLD_COUNT_MAX: usize = 64;

impl TellingOf {
    /// Another. The one that comes into its place, where there are too many, is copied by its receiver alone.
    pub(super) fn add(&mut self, told: Told) {
        if told.len < TOGETHER_LEN_MIN {
            return;
        }
        if self.all.len() < TOLD_COUNT_MAX {
            self.all.push(told);
        } else {
            self.next = (self.next + 1) % TOLD_COUNT_MAX;
            self.all[self.next] = told;
        }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The next in turn of those whose memory is lent still; the others are forgotten.
    fn pick(&mut self, memory: &Table) -> Option<Told> {
        self.next = if self.next + 1 < self.all.len() { self.next + 1 } else { 0 };
        while let Some(&told) = self.all.get(self.next) {
            if memory.get(told.id).is_some() {
                return Some(told);
            }
            self.all.swap_remove(self.next);
        }
        None
    }

    /// Whether this peer was told of something that it has not fetched yet, as far as is known here.
    pub(super) fn is_awaited_from(&self, name: u64, memory: &Table) -> bool {
        self.all.iter().any(|told| told.name == name && memory.get(told.id).is_some())
    }

    fn find(&self, name: u64, word: u64) -> Option<Told> {
        self.all.iter().find(|told| (told.name, told.word) == (name, word)).copied()
    }
}

/// After so many ticks, some 10 to 25 microseconds, others may want the core: the one who copies is perhaps among them.
const STEP_TICKS: u64 = 50_000;
/// And after so long one looks whether it is there still.
const ALIVE_EVERY: Duration = Duration::from_millis(1);
/// After so many such looks, five seconds in which it could have had the core, it does not mean to end what it claimed, unless it was stopped in the midst of it.
const LOOK_COUNT_MAX: u32 = 5000;

/// Why a copy did not come about.
#[derive(Debug)]
pub(super) enum Failed {
    /// The other wrote what cannot be.
    Broken,
    System(io::Error),
}

impl From<Broken> for Failed {
    fn from(_: Broken) -> Self {
        Self::Broken
    }
}

impl From<io::Error> for Failed {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

/// Waits until the other has ended what it claimed; how that was. It holds us up no longer than it takes to copy a piece, but if it is stopped in the midst of it
/// (PROTOCOL §14.9).
fn wait(offered: &mut Offered<'_, crate::ring::Block>, source: &Source) -> Result<Other, Failed> {
    let (mut since, mut asked_at, mut look_count) = (ticks(), None, 0);
    loop {
        match offered.other()? {
            Other::Copying => spin_loop(),
            ended => return Ok(ended),
        }
        if ticks().wrapping_sub(since) < STEP_TICKS {
            continue;
        }
        std::thread::yield_now();
        since = ticks();
        let now = Instant::now();
        if now.duration_since(*asked_at.get_or_insert(now)) >= ALIVE_EVERY {
            (asked_at, look_count) = (Some(now), look_count + 1);
            if is_over(source.pid) && offered.other()? == Other::Copying {
                return Err(io::Error::from(io::ErrorKind::NotFound).into());
            }
            if look_count >= LOOK_COUNT_MAX && !is_stopped(source.pid) {
                return Err(Failed::Broken);
            }
        }
    }
}

/// What is fetched together, and from whom.
pub(super) struct Together<'a> {
    pub(super) ring: &'a Consumer<Mapping>,
    pub(super) source: Source,
    /// Address and length there.
    pub(super) range: (u64, u64),
    /// Address of the word, and the word.
    pub(super) still: (u64, u64),
    pub(super) serial: &'a mut Serial,
}

impl Together<'_> {
    /// Reads pieces until all are claimed, and waits for those of the other.
    fn copy(
        &mut self,
        offered: &mut Offered<'_, crate::ring::Block>,
        fetch: &Fetch<'_>,
        memory: &mut Table,
        room: &mut crate::sys::region::Region,
    ) -> Result<bool, Failed> {
        let (source, still, at) = (self.source, self.still, self.range.0);
        let mut read = |range: std::ops::Range<u64>| {
            let user = fetch.range.start + range.start..fetch.range.start + range.end;
            let from = [(at + range.start, range.end - range.start)];
            let places = Places { user: Some((fetch.id, user)), own: &[], still: Some(still) };
            read_from(&source, &from, &places, memory, room)
        };
        let mut result = Ok(());
        while let Some(range) = offered.next_piece()? {
            result = read(range);
            if result.is_err() {
                offered.stop()?;
                break;
            }
        }
        let other = wait(offered, &source)?;
        result?;
        if let Other::FailedFrom(start) = other {
            read(start..self.range.1)?;
        }
        Ok(offered.is_shared())
    }

    /// Fetches: whether the other had a part in it. `None`: it is not to be had so, and nothing was done.
    pub(super) fn fetch(
        &mut self,
        fetch: &Fetch<'_>,
        memory: &mut Table,
        room: &mut crate::sys::region::Region,
    ) -> Option<Result<bool, Failed>> {
        let to = address_of(memory, fetch.id, &fetch.range)?;
        let work = Work { to, offset: fetch.offset, len: self.range.1, word: self.still.1 };
        let ring = self.ring;
        memory.note_written();
        let mut offered = Offered::new(&**ring.store(), self.serial, work)?;
        Some(self.copy(&mut offered, fetch, memory, room))
    }
}

impl Shm {
    /// Copies for a peer what it was told of, if it offers that. For who looks and has found nothing.
    #[inline]
    pub(super) fn help(&mut self, memory: &mut Table) {
        if let Some(told) = self.told.pick(memory)
            && let Some(output) = self.outputs.iter().find(|output| output.name == told.name)
            && let Some(task) = Task::find(&**output.ring.store())
        {
            let work = task.work();
            if let Some(told) = self.told.find(told.name, work.word) {
                self.help_with(told, memory);
            }
        }
    }

    #[inline(never)]
    fn help_with(&mut self, told: Told, memory: &mut Table) {
        let Self { outputs, inputs, intake, counters, .. } = self;
        let output = outputs.iter_mut().find(|output| output.name == told.name);
        let source = inputs.iter().find(|input| input.name == told.name).and_then(|it| it.source);
        let (Some(output), Some(source)) = (output, source) else { return };
        if output.cannot_be_written {
            return;
        }
        // The right process: its proof is where it says. It waits for us as long as it has an offer, and does not become another one.
        if read_from(&source, &[], &Places::default(), memory, intake.room()).is_err() {
            return;
        }
        let Some(mut task) = Task::find(&**output.ring.store()) else { return };
        let work = task.work();
        let end = work.offset.checked_add(work.len);
        let is_told = work.word == told.word && end.is_some_and(|end| end <= told.len);
        // Of another memory that was told, too: the next look finds that.
        if !is_told || work.to.checked_add(work.len).is_none() {
            return;
        }
        while let Some(piece) = task.claim() {
            let (start, len) = (work.offset + piece.start, piece.end - piece.start);
            let from = start..start + len;
            let written = write_to(&source, work.to + piece.start, (memory, told.id), from);
            task.end(written.is_ok());
            match written {
                Ok(()) => {
                    counters.pieces_helped += 1;
                    counters.helped_bytes += len;
                }
                Err(_) => {
                    output.cannot_be_written = true;
                    return;
                }
            }
        }
    }
}
