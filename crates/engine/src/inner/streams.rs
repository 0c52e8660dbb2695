//! Streams under the lock: who is woken, what an extraction handles, what is lent.

use packhorse_link::loan;
use packhorse_link::mem::Memory;
use packhorse_proto::{Instant, OutStreamId, PeerId, StreamError, StreamId};

use super::Inner;
use crate::lending::{Budget, Extract, Extractable, Lender, Loans};
use crate::names::RequestId;
use crate::translate::buf_of;

impl Inner {
    /// Wakes who waits for streams or for credit.
    #[inline]
    pub(crate) fn settle_streams(&mut self) {
        if self.core.endpoint().take_credit_news() {
            self.has_news = true;
            self.wakers.append(&mut self.streams.senders);
        }
        if self.core.rules().has_ready_stream() {
            self.has_news |= self.sleeper_count > 0;
            self.wakers.append(&mut self.streams.extractors);
        }
    }

    pub(crate) fn on_extract(&mut self, extract: &Extract<'_>) {
        if let Some(len_max) = extract.begin {
            self.streams.budget = Budget { len_max, handled_len: 0 };
        }
        if extract.is_enough {
            self.streams.budget.len_max = 0;
        }
        self.close_streams(extract.closed);
    }

    /// Nobody wants the rest of these.
    pub(crate) fn close_streams(&mut self, closed: &[StreamId]) {
        let now = self.core.turned_at();
        for &stream in closed {
            self.core.endpoint().close_stream(now, stream);
        }
    }

    /// A chunk of a stream from lent memory. Without credit, or with an error, the memory comes back.
    pub(crate) fn put_chunk(
        &mut self,
        now: Instant,
        stream: OutStreamId,
        memory: Memory,
    ) -> Result<RequestId, (Option<StreamError>, Option<Memory>)> {
        let len = memory.len() as u32;
        let id = self.core.memory().insert(memory);
        let request = self.requests.next_id();
        let chunk = (buf_of(id), len);
        let posted = self.core.endpoint().write_stream_in_place(now, stream, chunk, request.0);
        match posted {
            Ok(Some(req)) => {
                self.requests.put(req, Some(id), len.into());
                Ok(request)
            }
            Ok(None) => Err((None, self.core.memory().remove(id))),
            Err(error) => Err((Some(error), self.core.memory().remove(id))),
        }
    }

    /// Tells the peer where the next piece of a stream is. If it cannot read it there, or not now, the memory comes back.
    pub(crate) fn tell_chunk(
        &mut self,
        now: Instant,
        peer: PeerId,
        stream: OutStreamId,
        memory: Memory,
    ) -> Result<RequestId, Option<Memory>> {
        let len = memory.len();
        let id = self.core.memory().insert(memory);
        let request = self.requests.next_id();
        match self.core.tell_chunk(now, peer, stream, (buf_of(id), len), request.0) {
            Some(req) => {
                self.requests.put(req, Some(id), len);
                Ok(request)
            }
            None => Err(self.core.memory().remove(id)),
        }
    }

    pub(crate) fn next_ready_stream(&mut self) -> Extractable {
        let budget = self.streams.budget;
        let next = if budget.is_spent() { None } else { self.core.endpoint().poll_ready_stream() };
        let is_all = !self.core.rules().has_ready_stream();
        Extractable { next, handled_len: budget.handled_len, is_all }
    }

    /// What was lent is to be seen to first.
    pub(crate) fn nothing_next(&self) -> Extractable {
        let is_all = !self.core.rules().has_ready_stream();
        Extractable { next: None, handled_len: self.streams.budget.handled_len, is_all }
    }

    pub(crate) fn begin_lending(&mut self, lender: Box<dyn Lender>) {
        let (budget, thread) = (self.streams.budget, Some(loan::this_thread()));
        self.core.loans = Some(Loans { lender, budget, thread });
    }

    pub(crate) fn end_lending(&mut self) -> Box<dyn Lender> {
        let Loans { lender, budget, .. } = self.core.loans.take().expect("lending has begun");
        self.streams.budget = budget;
        lender
    }
}
