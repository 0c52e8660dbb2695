//! Where a ring lives: a block of memory with its control words and lines, given by somebody else or on the heap.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ops::Deref;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use super::{
    CONTROL_LEN, Consumer, HINT, LINE_COUNT_MIN, LINE_LEN, Lines, Producer, SEE, SHOW, Word,
};

const HEAD_AT: usize = 0;
const SLEEPING_AT: usize = LINE_LEN;
const NOTE_AT: usize = LINE_LEN + 4;
const WANTS_ROOM_AT: usize = 2 * LINE_LEN;
const PROOF_AT: usize = 3 * LINE_LEN;

/// Control words and lines, one behind the other, in memory that somebody else keeps.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    base: NonNull<u8>,
    line_count: usize,
}

// SAFETY: a `Block` is used through atomics, and through `read` and `write`, whose callers answer for races.
unsafe impl Send for Block {}

// SAFETY: as for `Send`.
unsafe impl Sync for Block {}

impl Block {
    /// Over `len` bytes from `base`.
    ///
    /// # Safety
    /// They must be valid for reads and writes, aligned to a line and initialised as long as the block is used, and used
    /// through blocks only; another process may write them at any time.
    ///
    /// # Panics
    /// If that is too little for a ring, or `base` is not aligned.
    pub unsafe fn new(base: NonNull<u8>, len: usize) -> Self {
        let line_count = len.saturating_sub(CONTROL_LEN) / LINE_LEN;
        assert!(line_count >= LINE_COUNT_MIN && line_count <= u32::MAX as usize, "{len} bytes");
        assert!(base.as_ptr().addr().is_multiple_of(LINE_LEN), "not aligned to a line");
        Self { base, line_count }
    }

    #[inline]
    fn control(&self, at: usize) -> *mut u8 {
        debug_assert!(at < CONTROL_LEN);
        // SAFETY: inside the control part, which every block has.
        unsafe { self.base.as_ptr().add(at) }
    }

    #[inline]
    fn head_word(&self) -> &AtomicU64 {
        // SAFETY: inside the block, aligned, used as this atomic only.
        unsafe { AtomicU64::from_ptr(self.control(HEAD_AT).cast()) }
    }

    #[inline]
    fn small_word(&self, word: Word) -> &AtomicU32 {
        let at = match word {
            Word::Sleeping => SLEEPING_AT,
            Word::Note => NOTE_AT,
            Word::WantsRoom => WANTS_ROOM_AT,
        };
        // SAFETY: inside the block, aligned, used as this atomic only.
        unsafe { AtomicU32::from_ptr(self.control(at).cast()) }
    }

    /// Where the proof lies in this process's memory.
    pub fn proof_at(&self) -> u64 {
        self.control(PROOF_AT).expose_provenance() as u64
    }

    /// Leaves 16 bytes that the writer's own mapping shows at [`Block::proof_at`], and no other process's memory has: who finds them
    /// there reads the memory of a process that has this ring.
    pub fn set_proof(&self, proof: [u8; 16]) {
        for (index, bytes) in proof.chunks_exact(8).enumerate() {
            let word = u64::from_ne_bytes(bytes.try_into().expect("eight bytes"));
            // SAFETY: inside the block, aligned, used as this atomic only.
            let place = unsafe { AtomicU64::from_ptr(self.control(PROOF_AT + 8 * index).cast()) };
            place.store(word, HINT);
        }
    }

    #[inline]
    fn header_word(&self, line: usize) -> &AtomicU64 {
        assert!(line < self.line_count);
        // SAFETY: the line is inside (asserted) and aligned. Payload is written over this word without an atomic only while
        // it is between the published end and the reader's head, where the reader does not look (`Producer`).
        unsafe { AtomicU64::from_ptr(self.base.as_ptr().add(CONTROL_LEN + line * LINE_LEN).cast()) }
    }

    #[inline]
    fn bytes_at(&self, at: usize, len: usize) -> *mut u8 {
        let all_len = self.line_count * LINE_LEN;
        assert!(at <= all_len && len <= all_len - at);
        // SAFETY: inside the lines (asserted).
        unsafe { self.base.as_ptr().add(CONTROL_LEN + at) }
    }
}

impl Lines for Block {
    #[inline]
    fn line_count(&self) -> usize {
        self.line_count
    }

    #[inline]
    fn header(&self, line: usize) -> u64 {
        self.header_word(line).load(SEE)
    }

    #[inline]
    fn set_header(&self, line: usize, word: u64) {
        self.header_word(line).store(word, HINT);
    }

    #[inline]
    fn publish_header(&self, line: usize, word: u64) {
        self.header_word(line).store(word, SHOW);
    }

    #[inline]
    fn head(&self) -> u64 {
        self.head_word().load(SEE)
    }

    #[inline]
    fn set_head(&self, head: u64) {
        self.head_word().store(head, SHOW);
    }

    #[inline]
    fn word(&self, word: Word) -> u32 {
        self.small_word(word).load(HINT)
    }

    #[inline]
    fn set_word(&self, word: Word, value: u32) {
        self.small_word(word).store(value, HINT);
    }

    #[inline]
    fn fence(&self) {
        fence(Ordering::SeqCst);
    }

    #[inline]
    unsafe fn write(&self, at: usize, from: *const u8, len: usize) {
        // SAFETY: the range is inside the block (checked by `bytes_at`), `from` is valid, and nobody in this process uses
        // the range (both promised by the caller), so the two do not overlap.
        unsafe { ptr::copy_nonoverlapping(from, self.bytes_at(at, len), len) };
    }

    #[inline]
    unsafe fn read(&self, at: usize, to: *mut u8, len: usize) {
        // SAFETY: as for `write`. Another process may write meanwhile: then these are some bytes, and bytes may be any.
        unsafe { ptr::copy_nonoverlapping(self.bytes_at(at, len), to, len) };
    }
}

/// A block on the heap, for two threads.
#[derive(Debug)]
pub struct Heap {
    block: Block,
    layout: Layout,
}

impl Heap {
    /// With at least so many lines, all zero.
    pub fn new(line_count: usize) -> Self {
        let len = CONTROL_LEN + line_count.max(LINE_COUNT_MIN) * LINE_LEN;
        let layout = Layout::from_size_align(len, LINE_LEN).expect("a ring of sensible length");
        // SAFETY: the layout is not empty.
        let base = unsafe { alloc_zeroed(layout) };
        let Some(base) = NonNull::new(base) else { handle_alloc_error(layout) };
        // SAFETY: just allocated with that length and alignment, zeroed, kept until `drop`, and nobody else has it.
        let block = unsafe { Block::new(base, len) };
        Self { block, layout }
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout; who has a copy of the block borrows `self`.
        unsafe { dealloc(self.block.base.as_ptr(), self.layout) };
    }
}

/// One end's share of a block on the heap.
#[derive(Debug)]
pub struct Share(Arc<Heap>);

impl Deref for Share {
    type Target = Block;

    #[inline]
    fn deref(&self) -> &Block {
        &self.0.block
    }
}

/// A ring on the heap: its two ends.
pub fn channel(line_count: usize) -> (Producer<Share>, Consumer<Share>) {
    let heap = Arc::new(Heap::new(line_count));
    // SAFETY: one producer and one consumer, each of a block that is zero and that nobody else has.
    unsafe { (Producer::new(Share(Arc::clone(&heap))), Consumer::new(Share(heap))) }
}
