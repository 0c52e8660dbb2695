//! The readers that are lent bytes of streams straight from a frame, how much an extraction may handle, and who waits for streams.

use std::any::Any;
use std::task::Waker;

use packhorse_link::loan;
use packhorse_proto::{Lending, PACKET_LEN, StreamId, StreamInfo};

/// A reader that is lent bytes of streams straight from a frame. It is called under the engine's lock: it must not call the engine.
pub trait Lender: Any + Send {
    /// Bytes of a stream whose reader waits for them.
    fn lend(&mut self, stream: StreamId, bytes: &[u8]) -> Lending;

    /// A new stream, and the bytes of its first chunk; `is_whole`: it has no others. True: it keeps them, and sees to the stream when the engine is not locked.
    fn hand_over(
        &mut self,
        stream: StreamId,
        info: StreamInfo,
        bytes: &[u8],
        is_whole: bool,
    ) -> bool;

    /// Whether it has something to do because of what was lent.
    fn has_news(&self) -> bool {
        false
    }
}

/// A lender, for the time of a turn or of a wait.
pub(crate) struct Loans {
    pub(crate) lender: Box<dyn Lender>,
    pub(crate) budget: Budget,
    /// Turns of this thread lend, if it is known: readers are polled by the thread that extracts and by no other.
    pub(crate) thread: Option<usize>,
}

/// What an extraction may handle, and has.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Budget {
    pub(crate) len_max: u64,
    pub(crate) handled_len: u64,
}

impl Budget {
    pub(crate) fn is_spent(&self) -> bool {
        self.handled_len >= self.len_max
    }

    /// How many bytes may be read of `wanted_len`, in packets: `offset` bytes are before them, and `left_len` are there from them on, no less than is wanted.
    pub(crate) fn take(&mut self, offset: u64, wanted_len: u64, left_len: u64) -> u64 {
        let packet_len = PACKET_LEN as u64;
        // The rest of a packet was counted with its first byte.
        let mut len = (offset.next_multiple_of(packet_len) - offset).min(wanted_len);
        while len < wanted_len && !self.is_spent() {
            let packet = packet_len.min(left_len - len);
            self.handled_len += packet;
            len += packet.min(wanted_len - len);
        }
        len
    }
}

impl Loans {
    /// A lender to whoever makes turns.
    pub(crate) fn new(lender: Box<dyn Lender>, len_max: u64) -> Self {
        Self { lender, budget: Budget { len_max, handled_len: 0 }, thread: None }
    }

    pub(crate) fn lend(&mut self, stream: StreamId, bytes: &[u8]) -> Lending {
        if !self.may_lend() {
            return Lending { taken_len: 0, is_waiting: false };
        }
        let lending = self.lender.lend(stream, bytes);
        self.budget.handled_len += lending.taken_len as u64;
        lending
    }

    pub(crate) fn hand_over(
        &mut self,
        stream: StreamId,
        info: StreamInfo,
        bytes: &[u8],
        is_whole: bool,
    ) -> bool {
        let is_taken = self.may_lend() && self.lender.hand_over(stream, info, bytes, is_whole);
        self.budget.handled_len += if is_taken { bytes.len() as u64 } else { 0 };
        is_taken
    }

    fn may_lend(&self) -> bool {
        self.thread.is_none_or(|thread| thread == loan::this_thread()) && !self.budget.is_spent()
    }
}

/// Who waits for streams.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    /// Of the extraction that is under way.
    pub(crate) budget: Budget,
    /// Woken when credit comes.
    pub(crate) senders: Vec<Waker>,
    /// Woken when there is something to extract.
    pub(crate) extractors: Vec<Waker>,
}

impl Waiters {
    /// Whether a future waits.
    pub(crate) fn are_there(&self) -> bool {
        !self.senders.is_empty() || !self.extractors.is_empty()
    }
}

/// What somebody who extracts asks for next.
#[derive(Debug, Default)]
pub struct Extract<'a> {
    /// The extraction begins here and may handle so many bytes.
    pub begin: Option<u64>,
    /// Nobody wants the rest of these streams.
    pub closed: &'a [StreamId],
    /// The extraction shall handle no more.
    pub is_enough: bool,
    /// If there is none, and the lender has no news, the extraction is over.
    pub is_last: bool,
}

/// What somebody who extracts is told.
#[derive(Clone, Copy, Debug)]
pub struct Extractable {
    /// A stream with news.
    pub next: Option<(StreamId, StreamInfo)>,
    /// Bytes handled by now.
    pub handled_len: u64,
    /// No other has news.
    pub is_all: bool,
}
