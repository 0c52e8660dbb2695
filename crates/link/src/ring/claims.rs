//! A copy that both sides of a ring make together: each claims pieces of it, one from the front, the other from the back.
//!
//! ```text
//!   claim line │ claim: closed 1, serial 23, front 20, back 20 │ to │ offset │ len │ word │     written by the reader of the ring
//!   done line  │ done: serial 32, failed 1, count 31 │                                            written by its writer
//!
//!   pieces      0   1   2   3   4   5   6   7
//!               reader ──▶            ◀── writer       until all are claimed; then the reader waits for what the writer claimed
//! ```
//!
//! The reader wants bytes that are in the writer's memory, and reads them. A writer that has nothing to do but to wait until they are read writes some of
//! them in the meantime. Who copies a piece has claimed it in the one word that both change; so no piece is copied twice, and none by nobody.
//!
//! **What the copy is about** is written while the claim is closed, and read before a piece is claimed: if the claim is then what it was before,
//! so is all else (a lock by sequence: the fence of who reads pairs with that of who writes).
//!
//! **Distrust.** Each side keeps its own count. A claim that tells the reader something else about its own pieces, or takes pieces of the writer's back, is
//! [`Broken`]; the writer looks up what it is asked to copy in its own memory, and claims nothing beyond the pieces there are.

use std::ops::Range;
use std::sync::atomic::Ordering;

use super::Broken;

/// A copy shorter than this is made by the one who wants it: it is over before the other notices.
pub const TOGETHER_LEN_MIN: u64 = 48 << 10;
/// A piece is as long as this at least, ...
const PIECE_LEN_MIN: u64 = 32 << 10;
/// ... at most, ...
const PIECE_LEN_MAX: u64 = 128 << 10;
/// ... and else such a part of the whole.
const PIECES_OF: u64 = 4;
/// Pieces there may be: what the claim has bits for.
const PIECE_COUNT_MAX: u64 = COUNT_MASK;

const CLOSED: u64 = 1 << 63;
const SERIAL_SHIFT: u32 = 40;
const SERIAL_MASK: u64 = (1 << 23) - 1;
const FRONT_SHIFT: u32 = 20;
const COUNT_MASK: u64 = (1 << 20) - 1;
const FAILED: u64 = 1 << 31;

/// The words that both sides share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    /// Who has which pieces.
    Claim,
    /// Where the bytes go, in the reader's memory.
    To,
    /// Which bytes of what the writer told of.
    Offset,
    /// How many.
    Len,
    /// The word by which the writer knows what it told of.
    Word,
    /// What the writer has copied.
    Done,
}

/// Where these words are.
pub trait Board {
    /// Reads one.
    fn load(&self, slot: Slot, order: Ordering) -> u64;
    /// Writes one.
    fn store(&self, slot: Slot, value: u64, order: Ordering);
    /// Changes the claim, if it is what it was. Acquire and release: who claims a piece has seen all that was written before the claim before it.
    fn change(&self, from: u64, to: u64) -> bool;
    /// A fence of this order.
    fn barrier(&self, order: Ordering);
}

/// What is to be copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// Where to, in the reader's memory.
    pub to: u64,
    /// From which byte on of what the writer told of.
    pub offset: u64,
    /// So many bytes.
    pub len: u64,
    /// The word of the writer's memory.
    pub word: u64,
}

impl Work {
    fn piece_len(&self) -> u64 {
        let part = (self.len / PIECES_OF).clamp(PIECE_LEN_MIN, PIECE_LEN_MAX);
        part & !(PIECE_LEN_MIN - 1)
    }

    fn piece_count(&self) -> u64 {
        self.len.div_ceil(self.piece_len())
    }

    /// Bytes of a piece, counted from `offset`.
    pub fn piece(&self, number: u64) -> Range<u64> {
        let start = number * self.piece_len();
        start..(start + self.piece_len()).min(self.len)
    }
}

fn claim_of(serial: u64, front: u64, back: u64) -> u64 {
    serial << SERIAL_SHIFT | front << FRONT_SHIFT | back
}

fn serial_of(claim: u64) -> u64 {
    claim >> SERIAL_SHIFT & SERIAL_MASK
}

fn counts_of(claim: u64) -> (u64, u64) {
    (claim >> FRONT_SHIFT & COUNT_MASK, claim & COUNT_MASK)
}

/// The number of the reader's last offer.
#[derive(Debug, Default)]
pub struct Serial(u64);

/// An offer, at the reader. It ends when it is dropped, and before that the other must have ended what it claimed.
#[derive(Debug)]
pub struct Offered<'a, B: Board> {
    board: &'a B,
    work: Work,
    serial: u64,
    front: u64,
    back: u64,
}

/// How far the other is with what it claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Other {
    /// It copies.
    Copying,
    /// All is there.
    Done,
    /// It could not: the pieces from this byte on are not there, or not all of them.
    FailedFrom(u64),
}

impl<'a, B: Board> Offered<'a, B> {
    /// Offers the other to copy together. `None`: it would be too many pieces.
    pub fn new(board: &'a B, last: &mut Serial, work: Work) -> Option<Self> {
        if work.len == 0 || work.piece_count() > PIECE_COUNT_MAX {
            return None;
        }
        last.0 = (last.0 + 1) & SERIAL_MASK;
        let serial = last.0;
        if serial == 0 {
            // Numbers begin anew: what is left of the last round must not be taken for this one's.
            board.store(Slot::Done, 0, Ordering::Relaxed);
        }
        // Closed before anything is changed: whoever sees a change, sees that behind its own fence (`Task::claim`).
        board.store(Slot::Claim, CLOSED, Ordering::Relaxed);
        board.barrier(Ordering::Release);
        let words = [
            (Slot::To, work.to),
            (Slot::Offset, work.offset),
            (Slot::Len, work.len),
            (Slot::Word, work.word),
        ];
        words.into_iter().for_each(|(slot, value)| board.store(slot, value, Ordering::Relaxed));
        board.store(Slot::Claim, claim_of(serial, 0, 0), Ordering::Release);
        Some(Self { board, work, serial, front: 0, back: 0 })
    }

    /// What the claim says of the other's pieces, if it says the truth of ours.
    fn look(&mut self) -> Result<u64, Broken> {
        let claim = self.board.load(Slot::Claim, Ordering::Acquire);
        let (front, back) = counts_of(claim);
        let is_sound = claim & CLOSED == 0
            && serial_of(claim) == self.serial
            && front == self.front
            && back >= self.back
            && front + back <= self.work.piece_count();
        if !is_sound {
            return Err(Broken);
        }
        self.back = back;
        Ok(claim)
    }

    /// Claims so many pieces of those that are left, from the front: those that were had.
    fn claim(&mut self, count: u64) -> Result<Range<u64>, Broken> {
        loop {
            let claim = self.look()?;
            let left = self.work.piece_count() - self.front - self.back;
            let count = count.min(left);
            let to = claim_of(self.serial, self.front + count, self.back);
            // The other can be in the way as often as there are pieces: each time it has one more.
            if count == 0 || self.board.change(claim, to) {
                self.front += count;
                return Ok(self.front - count..self.front);
            }
        }
    }

    /// The bytes of the next piece. `None`: all are claimed.
    pub fn next_piece(&mut self) -> Result<Option<Range<u64>>, Broken> {
        let numbers = self.claim(1)?;
        Ok((!numbers.is_empty()).then(|| self.work.piece(numbers.start)))
    }

    /// Whether the other claimed anything.
    pub fn is_shared(&self) -> bool {
        self.back > 0
    }

    /// Nothing more is claimed by anybody.
    pub fn stop(&mut self) -> Result<(), Broken> {
        self.claim(u64::MAX).map(drop)
    }

    /// When all is claimed: how far the other is.
    pub fn other(&mut self) -> Result<Other, Broken> {
        self.look()?;
        if self.back == 0 {
            return Ok(Other::Done);
        }
        let done = self.board.load(Slot::Done, Ordering::Acquire);
        let count = done & (FAILED - 1);
        if done >> 32 != self.serial {
            return Ok(Other::Copying); // it speaks of an earlier one still
        }
        if done & FAILED != 0 {
            return Ok(Other::FailedFrom(self.work.piece(self.front).start));
        }
        match count.cmp(&self.back) {
            std::cmp::Ordering::Less => Ok(Other::Copying),
            std::cmp::Ordering::Equal => Ok(Other::Done),
            std::cmp::Ordering::Greater => Err(Broken),
        }
    }
}

impl<B: Board> Drop for Offered<'_, B> {
    fn drop(&mut self) {
        self.board.store(Slot::Claim, CLOSED, Ordering::Release);
    }
}

/// An offer, at the writer.
#[derive(Debug)]
pub struct Task<'a, B: Board> {
    board: &'a B,
    claim: u64,
    work: Work,
}

impl<'a, B: Board> Task<'a, B> {
    /// The offer there is, if pieces of it are left.
    #[inline]
    pub fn find(board: &'a B) -> Option<Self> {
        let claim = board.load(Slot::Claim, Ordering::Acquire);
        // Memory that nobody has written to yet is all zeros, and offers have numbers from 1 on; number 0 is passed over now and then.
        if claim & CLOSED != 0 || serial_of(claim) == 0 {
            return None;
        }
        let word = |slot| board.load(slot, Ordering::Relaxed);
        let work = Work {
            to: word(Slot::To),
            offset: word(Slot::Offset),
            len: word(Slot::Len),
            word: word(Slot::Word),
        };
        let task = Self { board, claim, work };
        (task.back_left() > 0).then_some(task)
    }

    /// What is to be copied. It is what the claim was about if a piece is had ([`Task::claim`]), not before.
    pub fn work(&self) -> Work {
        self.work
    }

    fn back_left(&self) -> u64 {
        let (front, back) = counts_of(self.claim);
        let count = if self.work.len == 0 { 0 } else { self.work.piece_count() };
        if count > PIECE_COUNT_MAX { 0 } else { count.saturating_sub(front + back) }
    }

    /// Claims the last piece that nobody has: its bytes. `None`: there is none, or the offer is over.
    pub fn claim(&mut self) -> Option<Range<u64>> {
        // What was read of the work was read before the claim is found unchanged.
        self.board.barrier(Ordering::Acquire);
        loop {
            if self.back_left() == 0 {
                return None;
            }
            let (_, back) = counts_of(self.claim);
            if self.board.change(self.claim, self.claim + 1) {
                self.claim += 1;
                return Some(self.work.piece(self.work.piece_count() - 1 - back));
            }
            let now = self.board.load(Slot::Claim, Ordering::Acquire);
            let is_same = now & CLOSED == 0 && serial_of(now) == serial_of(self.claim);
            if !is_same || counts_of(now).0 <= counts_of(self.claim).0 || counts_of(now).1 != back {
                return None; // over; or only its reader has a hand in it, and lets the front grow
            }
            self.claim = now;
        }
    }

    /// The piece claimed last is there, as are all before it; or it could not be copied, and no other will be.
    pub fn end(&self, is_copied: bool) {
        let (_, back) = counts_of(self.claim);
        let failed = if is_copied { 0 } else { FAILED };
        self.board.store(
            Slot::Done,
            serial_of(self.claim) << 32 | failed | back,
            Ordering::Release,
        );
    }
}

#[cfg(test)]
mod tests;
