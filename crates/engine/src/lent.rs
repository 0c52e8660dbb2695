//! The application's memory as the rules see it while a frame is read: they name places, and here the bytes go there, at once or at
//! the end of the burst (`copies`), or to who extracts a stream (`streams`).

use std::sync::OnceLock;

use packhorse_link::Copier;
use packhorse_link::mem::UserMemory;
use packhorse_proto::{Lending, LongNumbers, Memory, Place, StreamId, StreamInfo};

use crate::copies::Later;
use crate::lending::Loans;
use crate::translate::memory_of;

/// Who computes with long numbers, for all endpoints of the process.
static LONG_NUMBERS: OnceLock<LongNumbers> = OnceLock::new();

/// From now on these numbers are known: an interface on top brings what computes with them.
pub fn set_long_numbers(compute: LongNumbers) {
    let _ = LONG_NUMBERS.set(compute); // the first will do for all
}

/// The application's memory as the protocol wants it, counting what is copied.
pub struct Lent<'a, M> {
    pub(crate) memory: &'a mut M,
    pub(crate) copied: &'a mut u64,
    pub(crate) loans: Option<&'a mut Loans>,
    /// What is copied at the end of the burst, where a second thread copies, too.
    pub(crate) later: Option<Later<'a>>,
}

impl<M: UserMemory> Memory for Lent<'_, M> {
    #[inline]
    fn place(&mut self, to: Place, bytes: &[u8]) {
        *self.copied += bytes.len() as u64;
        if let Some(later) = &mut self.later {
            if later.note(to, bytes) {
                return;
            }
            later.settle(self.memory);
        }
        self.memory.place(memory_of(to.buf), to.offset, bytes);
    }

    fn update(
        &mut self,
        at: Place,
        len: usize,
        width: usize,
        change: &mut dyn FnMut(&mut [u8]) -> bool,
    ) {
        if let Some(later) = &mut self.later {
            later.settle(self.memory);
        }
        self.memory.update(memory_of(at.buf), at.offset, len, width, change);
    }

    fn reaches(&mut self, at: Place, len: u64, writes: bool) -> bool {
        self.memory.reaches(memory_of(at.buf), at.offset, len, writes)
    }

    fn long_numbers(&self) -> Option<LongNumbers> {
        LONG_NUMBERS.get().copied()
    }

    fn crc32c(&self, crc: u32, bytes: &[u8]) -> u32 {
        crc32c::crc32c_append(crc, bytes)
    }

    fn lend(&mut self, stream: StreamId, bytes: &[u8]) -> Lending {
        match &mut self.loans {
            Some(loans) => loans.lend(stream, bytes),
            None => Lending { taken_len: 0, is_waiting: false },
        }
    }

    fn hand_over(
        &mut self,
        stream: StreamId,
        info: StreamInfo,
        bytes: &[u8],
        is_whole: bool,
    ) -> bool {
        self.loans.as_mut().is_some_and(|loans| loans.hand_over(stream, info, bytes, is_whole))
    }
}

impl<M: UserMemory> Lent<'_, M> {
    /// The end of a burst: what was noted of it is copied, and the frames may go.
    #[cold]
    pub(crate) fn copy_noted(&mut self, copier: &mut Copier) {
        if let Some(later) = self.later.take_if(|later| !later.copies.is_empty()) {
            self.memory.place_all(&later.copies, copier);
        }
    }
}

/// For frames read one by one.
pub(crate) fn lent<'a, M>(
    memory: &'a mut M,
    copied: &'a mut u64,
    loans: Option<&'a mut Loans>,
) -> Lent<'a, M> {
    Lent { memory, copied, loans, later: None }
}
