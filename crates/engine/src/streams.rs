//! Streams of an engine: who sends them, who extracts them, who is lent a frame.
//!
//! The protocol keeps what arrives (`proto::streams`); here it meets threads. One thread at a time extracts. The turn it makes
//! itself lends frames to its readers, under the lock; all other turns hold what arrives, up to each sender's credit.

use std::sync::MutexGuard;
use std::task::{Context, Poll};
use std::time::Duration;

use packhorse_link::loan;
use packhorse_link::mem::Memory;
use packhorse_proto::{
    OutStreamId, PACKET_LEN, PeerId, StreamBreak, StreamError, StreamFront, StreamId,
};

use crate::core::PIECE_LEN_MAX;
use crate::engine::Engine;
use crate::inner::Inner;
use crate::lending::{Budget, Extract, Extractable, Lender};
use crate::names::RequestId;
use crate::requests::Outcome;
use crate::translate::buf_of;

/// What reading a stream came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamRead {
    /// All that was wanted.
    Whole,
    /// The stream ended first.
    End,
    /// So many bytes are where their sender told that they are: to be read by `read_told`, or passed over by `skip_told`.
    Told,
    /// More will come.
    Wait,
    /// More is here, but not for this extraction.
    Enough,
    /// The stream ended too early.
    Broken(StreamBreak),
    /// There is no such stream.
    Void,
}

impl Engine {
    /// Begins a stream to a handler of a peer.
    pub fn begin_stream(&self, peer: PeerId, handler: u16) -> Result<OutStreamId, StreamError> {
        self.lock().core.endpoint().begin_stream(peer, handler)
    }

    /// Sends a whole stream of these pieces if that needs no wait and no more than a chunk. False: nothing was done.
    pub fn send_short_stream(&self, peer: PeerId, handler: u16, pieces: &[&[u8]]) -> bool {
        let mut inner = self.lock_in_order();
        let (now, may_wait) = self.send_time(&mut inner, peer);
        let is_sent = if may_wait {
            inner.core.endpoint().send_short_stream(now, peer, handler, pieces)
        } else {
            inner.core.send_short_stream(now, peer, handler, pieces)
        };
        if is_sent && may_wait {
            self.after_post(inner, now, may_wait);
        } else if is_sent {
            self.after_plain_post(inner, now); // mostly it has left, and nobody is told of that
        }
        is_sent
    }

    /// Sends a piece, as far as credit and pool go: how many bytes were taken.
    pub fn write_stream(
        &self,
        peer: PeerId,
        id: OutStreamId,
        piece: &[u8],
    ) -> Result<usize, StreamError> {
        let mut inner = self.lock_in_order();
        let (now, may_wait) = self.send_time(&mut inner, peer);
        let taken_len = if may_wait {
            inner.core.endpoint().write_stream(now, id, piece)?
        } else {
            inner.core.write_stream(now, id, piece)?
        };
        self.after_post(inner, now, may_wait);
        Ok(taken_len)
    }

    /// Sends a piece; drives until all of it is taken.
    pub fn write_stream_all(
        &self,
        peer: PeerId,
        id: OutStreamId,
        piece: &[u8],
    ) -> Result<(), StreamError> {
        let mut taken_len = self.write_stream(peer, id, piece)?;
        if taken_len == piece.len() {
            return Ok(());
        }
        let result = self.drive_until(None, |inner| {
            let now = self.now();
            match inner.core.write_stream(now, id, &piece[taken_len..]) {
                Ok(more_len) => {
                    taken_len += more_len;
                    (taken_len == piece.len()).then_some(Ok(()))
                }
                Err(error) => Some(Err(error)),
            }
        });
        let inner = self.lock();
        self.after_post(inner, self.now(), false);
        result.unwrap_or(Ok(()))
    }

    /// Sends chunks from memory that is lent: `next` gives it, of the length it is told at most, until it gives none. Drives while
    /// there is no credit. Each is a request (`posted`), to be ended by `end_lent`.
    pub fn write_stream_lent(
        &self,
        id: OutStreamId,
        mut next: impl FnMut(usize) -> Option<Memory>,
        posted: &mut Vec<RequestId>,
    ) -> Result<(), StreamError> {
        let mut waiting: Option<Memory> = None;
        let result = self.drive_until(None, |inner| {
            let now = self.now();
            loop {
                let chunk_len = match inner.core.endpoint().stream_chunk_len(id) {
                    Ok(len) => len,
                    Err(error) => return Some(Err(error)),
                };
                let Some(memory) = waiting.take().or_else(|| next(chunk_len)) else {
                    return Some(Ok(()));
                };
                match inner.put_chunk(now, id, memory) {
                    Ok(request) => posted.push(request),
                    Err((Some(error), _)) => return Some(Err(error)),
                    Err((None, memory)) => {
                        waiting = memory;
                        return None;
                    }
                }
            }
        });
        let inner = self.lock();
        self.after_post(inner, self.now(), false);
        result.unwrap_or(Ok(()))
    }

    /// Tells the peer where a piece is, if it can read it there (`posted`): to be ended by `end_told`. False: it must be sent, and the memory is back.
    pub fn tell_stream(
        &self,
        peer: PeerId,
        id: OutStreamId,
        memory: Memory,
        posted: &mut Vec<RequestId>,
    ) -> bool {
        let mut inner = self.lock_in_order();
        let now = self.now();
        let told = inner.tell_chunk(now, peer, id, memory);
        self.after_post(inner, now, false);
        told.map(|request| posted.push(request)).is_ok()
    }

    /// Drives until these pieces that were told of have ended, and their memory is back. How many bytes their reader took; the others are to be sent. `None`:
    /// he is gone.
    pub fn end_told(&self, requests: &mut Vec<RequestId>) -> Option<u64> {
        let mut read_len = Some(0);
        let ended = self.drive_until(None, |inner| {
            while let Some(&id) = requests.last() {
                if !inner.requests.is_done(id) {
                    return None;
                }
                let ended = inner.requests.take(id).map(|completion| completion.outcome);
                read_len = match (read_len, ended) {
                    (Some(len), Some(Outcome::Sent { placed_len, result: Ok(()), .. })) => {
                        Some(len + placed_len)
                    }
                    _ => None,
                };
                requests.pop();
            }
            Some(())
        });
        read_len.filter(|_| ended.is_some())
    }

    /// Drives until these sends of lent memory have ended and given it back. Whether all were accepted.
    pub fn end_lent(&self, requests: &mut Vec<RequestId>) -> bool {
        let mut are_accepted = true;
        let ended = self.drive_until(None, |inner| {
            // The last ends last, as a rule: one look tells.
            while let Some(&id) = requests.last() {
                if !inner.requests.is_done(id) {
                    return None;
                }
                let sent = inner.requests.take(id).map(|completion| completion.outcome);
                are_accepted &= matches!(sent, Some(Outcome::Sent { result: Ok(()), .. }));
                requests.pop();
            }
            Some(())
        });
        are_accepted && ended.is_some()
    }

    /// For futures: sends what is left of a piece behind `taken_len`.
    pub fn poll_write_stream(
        &self,
        peer: PeerId,
        id: OutStreamId,
        piece: &[u8],
        taken_len: &mut usize,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), StreamError>> {
        if loan::must_wait() {
            return Poll::Pending;
        }
        let mut inner = self.lock_in_order();
        let (now, may_wait) = self.send_time(&mut inner, peer);
        match inner.core.write_stream(now, id, &piece[*taken_len..]) {
            Ok(more_len) => *taken_len += more_len,
            Err(error) => return Poll::Ready(Err(error)),
        }
        let is_all = *taken_len == piece.len();
        if !is_all {
            inner.streams.senders.push(context.waker().clone());
        }
        self.after_post(inner, now, may_wait);
        if is_all { Poll::Ready(Ok(())) } else { Poll::Pending }
    }

    /// Lets what was given to a stream so far leave. False: there is no credit now.
    pub fn flush_stream(&self, id: OutStreamId) -> Result<bool, StreamError> {
        let mut inner = self.lock();
        let now = self.now();
        let is_flushed = inner.core.flush_stream(now, id)?;
        self.after_post(inner, now, false);
        Ok(is_flushed)
    }

    /// Ends a stream, well or not. Never waits.
    pub fn end_stream(
        &self,
        peer: PeerId,
        id: OutStreamId,
        is_good: bool,
    ) -> Result<(), StreamError> {
        let mut inner = self.lock_in_order();
        let (now, may_wait) = self.send_time(&mut inner, peer);
        let result = inner.core.end_stream(now, id, is_good);
        self.after_post(inner, now, may_wait);
        result
    }

    /// Drives until all streams that were ended have left. False: not within this time.
    pub fn drain_streams(&self, longest: Duration) -> bool {
        let is_drained =
            |inner: &mut Inner| (inner.core.rules().waiting_stream_count() == 0).then_some(());
        self.drive_until(Some(longest), is_drained).is_some()
    }

    /// The next stream with news, if the extraction may handle more.
    pub fn next_ready_stream(&self, extract: &Extract<'_>) -> Extractable {
        let mut inner = self.lock();
        let is_last = extract.is_last;
        inner.on_extract(extract);
        let found = inner.next_ready_stream();
        if is_last && found.next.is_none() {
            inner.streams.budget = Budget::default();
        }
        self.after_extract(inner);
        found
    }

    /// The next stream with news; if there is none a turn is made first, in which frames that arrive are lent to readers that wait. The lender
    /// comes back, and whether there was a turn.
    pub fn next_ready_stream_or_turn(
        &self,
        extract: &Extract<'_>,
        lender: Box<dyn Lender>,
    ) -> (Box<dyn Lender>, bool, Extractable) {
        let mut inner = self.lock();
        let is_last = extract.is_last;
        inner.on_extract(extract);
        let found = inner.next_ready_stream();
        if found.next.is_some() {
            self.after_extract(inner);
            return (lender, false, found);
        }
        let now = self.now();
        inner.begin_lending(lender);
        inner.turn(now);
        let lender = inner.end_lending();
        // What was handed over was begun before all that is ready.
        let found = match lender.has_news() {
            true => inner.nothing_next(),
            false => inner.next_ready_stream(),
        };
        if is_last && found.next.is_none() && !lender.has_news() {
            inner.streams.budget = Budget::default();
        }
        let is_pending = self.wants_helper_near(&inner, now);
        self.release(inner);
        self.run_errand(self.helper.baton.on_turn(now, is_pending));
        (lender, true, found)
    }

    /// An extraction begins with a wait: drives until there is something to extract, or `or` says so, or the time is over. Frames that arrive meanwhile are lent to
    /// readers that wait, and handed to the lender if they begin streams, as far as this thread makes the turns. The lender comes back, and the first stream with
    /// news, unless what was lent is to be seen to before. Nobody wants the rest of those that are `closed`.
    pub fn wait_extractable(
        &self,
        lender: Box<dyn Lender>,
        (len_max, closed): (u64, &[StreamId]),
        longest: Option<Duration>,
        or: impl Fn() -> bool,
    ) -> (Box<dyn Lender>, Option<Extractable>) {
        let mut before = Some(lender);
        let waited = self.drive_until(longest, |inner| {
            if let Some(lender) = before.take() {
                inner.close_streams(closed);
                inner.streams.budget = Budget { len_max, handled_len: 0 };
                inner.begin_lending(lender);
            }
            let has_lent = inner.core.loans.as_ref().is_some_and(|loans| loans.lender.has_news());
            let is_ready = has_lent || inner.core.rules().has_ready_stream() || or();
            // The first to extract at once: the lock is here already.
            is_ready.then(|| {
                let lender = inner.end_lending();
                let first = match has_lent {
                    true => inner.nothing_next(),
                    false => inner.next_ready_stream(),
                };
                (lender, Some(first))
            })
        });
        waited.unwrap_or_else(|| (self.lock().end_lending(), None))
    }

    /// Credit that was given leaves at once: its sender may wait for it.
    fn after_extract(&self, inner: MutexGuard<'_, Inner>) {
        if inner.core.has_output() {
            self.after_post(inner, self.now(), false);
        }
    }

    /// Reads what is here of a stream, up to `wanted_len` bytes, within the extraction. What is read goes to `take`, piece by
    /// piece; how many bytes, and how it goes on.
    pub fn read_stream(
        &self,
        id: StreamId,
        wanted_len: usize,
        mut take: impl FnMut(&[u8]),
    ) -> (usize, StreamRead) {
        let mut inner = self.lock();
        let now = inner.core.turned_at();
        let mut read_len = 0;
        let state = loop {
            let Inner { core, streams, .. } = &mut *inner;
            if read_len == wanted_len {
                break StreamRead::Whole;
            }
            match core.endpoint().stream_front(now, id) {
                StreamFront::Bytes { bytes, is_fresh } => {
                    if is_fresh && streams.budget.is_spent() {
                        core.endpoint().defer_stream(id);
                        break StreamRead::Enough;
                    }
                    if is_fresh {
                        streams.budget.handled_len += bytes.len() as u64;
                    }
                    let len = bytes.len().min(wanted_len - read_len);
                    take(&bytes[..len]);
                    core.endpoint().consume_stream(now, id, len);
                    read_len += len;
                }
                StreamFront::Told(front) => {
                    let is_fresh = front.offset.is_multiple_of(PACKET_LEN as u64);
                    if is_fresh && streams.budget.is_spent() {
                        core.endpoint().defer_stream(id);
                        break StreamRead::Enough;
                    }
                    break StreamRead::Told;
                }
                StreamFront::Empty => {
                    core.endpoint().await_stream(id);
                    break StreamRead::Wait;
                }
                StreamFront::End => break StreamRead::End,
                StreamFront::Broken(why) => break StreamRead::Broken(why),
                StreamFront::Void => break StreamRead::Void,
            }
        };
        self.after_extract(inner);
        (read_len, state)
    }

    /// Reads what is next of a stream from where its sender told that it is, straight into this memory, within the extraction: how many bytes. None: it cannot be
    /// read so, or no more now, and `read_stream` says how it goes on. The memory is back on return.
    pub fn read_told(&self, id: StreamId, memory: Memory) -> usize {
        let mut inner = self.lock();
        let now = inner.core.turned_at();
        let Inner { core, streams, .. } = &mut *inner;
        let StreamFront::Told(front) = core.endpoint().stream_front(now, id) else { return 0 };
        let wanted_len = memory.len().min(front.len).min(PIECE_LEN_MAX);
        let len = streams.budget.take(front.offset, wanted_len, front.len);
        let place = core.memory().insert(memory);
        let read_len = core.read_told_chunk(now, id, &front, (buf_of(place), len));
        drop(core.memory().remove(place));
        self.after_extract(inner);
        read_len as usize
    }

    /// Passes over bytes that were told of, within the extraction: how many.
    pub fn skip_told(&self, id: StreamId, wanted_len: usize) -> usize {
        let mut inner = self.lock();
        let now = inner.core.turned_at();
        let Inner { core, streams, .. } = &mut *inner;
        let StreamFront::Told(front) = core.endpoint().stream_front(now, id) else { return 0 };
        let wanted_len = front.len.min(wanted_len as u64);
        let len = streams.budget.take(front.offset, wanted_len, front.len) as usize;
        core.endpoint().consume_stream(now, id, len);
        self.after_extract(inner);
        len
    }

    /// Whoever was handed this stream has read all of its first chunk but `rest`.
    pub fn keep_handed(&self, id: StreamId, rest: &[u8]) {
        let mut inner = self.lock();
        let budget = &mut inner.streams.budget;
        budget.handled_len = budget.handled_len.saturating_sub(rest.len() as u64);
        inner.core.endpoint().keep_handed(id, rest);
        self.after_extract(inner);
    }

    /// Nobody wants the rest of a stream.
    pub fn close_stream(&self, id: StreamId) {
        let mut inner = self.lock();
        let now = inner.core.turned_at();
        inner.core.endpoint().close_stream(now, id);
        self.after_extract(inner);
    }

    /// Shows a stream again at the next extraction.
    pub fn defer_stream(&self, id: StreamId) {
        self.lock().core.endpoint().defer_stream(id);
    }

    /// For futures: whether there is something to extract; if not, a waker is left behind.
    pub fn poll_extractable(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut inner = self.lock();
        if !inner.core.rules().has_ready_stream() {
            inner.turn(self.now());
        }
        let is_ready = inner.core.rules().has_ready_stream();
        if !is_ready {
            inner.streams.extractors.push(context.waker().clone());
        }
        self.release(inner);
        self.run_errand(self.helper.baton.on_pending(true));
        if is_ready { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Ends the sleep of a thread in `wait_extractable`.
    pub fn knock(&self) {
        self.doze.knock();
    }

    /// Streams that arrive and are not closed, chunks that are held.
    pub fn stream_counts(&self) -> (u32, u32) {
        self.lock().core.rules().stream_counts()
    }
}
