//! Copies that a second thread helps with, on another core: Open-MX's copy engine, made of a thread.
//!
//! ```text
//!   the driver    frames of a burst ──▶ pieces ──▶ takes from the end ─┐
//!                                          │                           ├─▶ all copied ──▶ the frames go back to their link
//!   the helper                             └─────▶ takes from the front┘
//! ```
//!
//! [`Copier::run`] returns when all pieces are copied, never before: so a piece may borrow a frame, which is its link's again
//! after that, and memory of the application's, which nobody gives back meanwhile. Pieces lie one behind the other at their
//! destination, each past the end of the one before, so that no two threads write the same byte; where they do not, one
//! thread copies all, in order.
//!
//! What both threads share is behind one mutex, held to take a share of the pieces, not to copy them.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::signals::with_signals_blocked;

/// A piece to copy. Only made by `mem`, which checked both ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub(crate) from: *const u8,
    pub(crate) to: *mut u8,
    pub(crate) len: usize,
}

// SAFETY: a piece is used by another thread only while `Copier::run` waits for that, and its maker promised there that both
// ends are good until then.
unsafe impl Send for Piece {}

impl Piece {
    /// # Safety
    /// `from` is readable and `to` writable for `len` bytes; they do not overlap; nobody else writes or reads what is written.
    unsafe fn copy(self) {
        // SAFETY: the caller's promise.
        unsafe { std::ptr::copy_nonoverlapping(self.from, self.to, self.len) };
    }
}

/// Bytes that are taken at once, at least: what the mutex costs is little beside.
const SHARE_LEN: usize = 32 << 10;
/// The helper looks this often whether its owner is still there. Only a knock that was missed needs it.
const LOOK: Duration = Duration::from_secs(1);

/// Pieces that nobody has taken yet, and how many shares the helper has in hand.
#[derive(Debug, Default)]
struct Board {
    pieces: Vec<Piece>,
    /// The first piece that nobody has taken yet.
    first: usize,
    is_helper_busy: bool,
    is_helper_asleep: bool,
}

impl Board {
    /// A share from the front: its range, which is taken.
    fn take_front(&mut self) -> std::ops::Range<usize> {
        let (start, mut len) = (self.first, 0);
        while self.first < self.pieces.len() && len < SHARE_LEN {
            len += self.pieces[self.first].len;
            self.first += 1;
        }
        start..self.first
    }

    /// A share from the end, in the order it is to be copied.
    fn take_back(&mut self, share: &mut Vec<Piece>) {
        share.clear();
        let mut len = 0;
        while self.pieces.len() > self.first && len < SHARE_LEN {
            let Some(piece) = self.pieces.pop() else { break };
            len += piece.len;
            share.push(piece);
        }
    }
}

#[derive(Debug, Default)]
struct Shared {
    board: Mutex<Board>,
    /// There are pieces.
    work: Condvar,
    /// The helper has put its share down.
    done: Condvar,
    is_over: AtomicBool,
}

impl Shared {
    fn board(&self) -> MutexGuard<'_, Board> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A thread that helps to copy. It ends with this.
#[derive(Debug)]
pub struct Copier {
    shared: Arc<Shared>,
    /// Shorter batches are copied by one thread.
    len_min: usize,
    share: Vec<Piece>,
    /// Pieces of a batch, before they are shown to the helper.
    pub(crate) batch: Vec<Piece>,
    /// Bytes that the helper copied.
    pub(crate) helped_len: u64,
}

impl Copier {
    /// Starts the thread, which first calls `prepare`. Batches shorter than `len_min` bytes do without it.
    pub fn start(len_min: usize, prepare: impl FnOnce() + Send + 'static) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        let builder = std::thread::Builder::new().name("packhorse-copy".into());
        with_signals_blocked(|| {
            builder.spawn(move || {
                prepare();
                help(&theirs);
            })
        })?;
        let (share, batch) = (Vec::new(), Vec::new());
        Ok(Self { shared, len_min, share, batch, helped_len: 0 })
    }

    /// Bytes that the second thread copied so far.
    pub fn helped_len(&self) -> u64 {
        self.helped_len
    }

    /// Whether no two of the batch's pieces have a byte in common where they go.
    fn is_in_rows(&self) -> bool {
        self.batch.windows(2).all(|two| two[0].to.addr() + two[0].len <= two[1].to.addr())
    }

    /// Copies the batch, and empties it.
    ///
    /// # Safety
    /// Until this returns, each piece's `from` must be readable and its `to` writable for its length, from any thread; no
    /// `from` overlaps any `to`; nobody else writes to either or reads what is written.
    pub(crate) unsafe fn run(&mut self) {
        let len: usize = self.batch.iter().map(|piece| piece.len).sum();
        if len < self.len_min || !self.is_in_rows() {
            // SAFETY: the caller's promise; one after the other, so that a later one may write over an earlier.
            self.batch.drain(..).for_each(|piece| unsafe { piece.copy() });
            return;
        }
        let mut board = self.shared.board();
        std::mem::swap(&mut board.pieces, &mut self.batch);
        board.first = 0;
        if board.is_helper_asleep {
            self.shared.work.notify_one();
        }
        let mut copied_len = 0;
        loop {
            board.take_back(&mut self.share);
            if self.share.is_empty() {
                break;
            }
            drop(board);
            for piece in &self.share {
                copied_len += piece.len;
                // SAFETY: the caller's promise; and it was taken off the board, whose pieces have no byte in common where they
                // go (`is_in_rows`), so that the helper does not touch what this one writes.
                unsafe { piece.copy() };
            }
            board = self.shared.board();
        }
        while board.is_helper_busy {
            board = self.shared.done.wait(board).unwrap_or_else(PoisonError::into_inner);
        }
        board.pieces.clear(); // the helper's shares stayed there; nobody has any in hand
        board.first = 0;
        std::mem::swap(&mut board.pieces, &mut self.batch);
        drop(board);
        self.helped_len += (len - copied_len) as u64;
    }
}

impl Drop for Copier {
    /// Does not wait for the thread, nor for the mutex: in a forked child the one is not there and the other may be held for ever.
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        self.shared.work.notify_one();
    }
}

/// The second thread.
fn help(shared: &Shared) {
    let mut share = Vec::new();
    let mut board = shared.board();
    while !shared.is_over.load(Ordering::SeqCst) {
        let range = board.take_front();
        if range.is_empty() {
            board.is_helper_asleep = true;
            let woken = shared.work.wait_timeout(board, LOOK);
            board = woken.unwrap_or_else(PoisonError::into_inner).0;
            board.is_helper_asleep = false;
            continue;
        }
        share.clear();
        share.extend_from_slice(&board.pieces[range]);
        board.is_helper_busy = true;
        drop(board);
        for piece in &share {
            // SAFETY: pieces are on the board only while their owner is inside `run`, which waits while `is_helper_busy`; what
            // `run` was promised holds until then. This share was taken: the owner copies others, with no byte in common.
            unsafe { piece.copy() };
        }
        board = shared.board();
        board.is_helper_busy = false;
        shared.done.notify_one();
    }
}
