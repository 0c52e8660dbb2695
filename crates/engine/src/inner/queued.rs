//! Ends that a queue is told of, under the lock.

use packhorse_link::mem::{Memory, MemoryId};
use packhorse_proto::{Instant, OperationKind};

use super::Inner;
use crate::entry::{Entry, Kind, Trouble};
use crate::names::{Notify, RequestId};
use crate::queue::{Lost, SPILL_COUNT_MAX, blank};
use crate::regions::Written;
use crate::requests::{Arrival, Outcome};

impl Inner {
    /// Tells a queue. False: it holds more than it should.
    pub(crate) fn tell(&mut self, notify: &Notify, entry: &Entry) -> bool {
        if notify.only_errors && entry.result.is_ok() && entry.is_last {
            return true;
        }
        // Whoever turns sees it for himself. He may leave it, so whoever sleeps until something can be read is woken all the same.
        if self.queues.hand(notify.queue, entry) {
            self.has_news |= self.is_bell_armed;
            return true;
        }
        self.has_news = true;
        self.queues.tell(notify.queue, entry)
    }

    /// A peer wrote to a region, and a queue is told of that.
    pub(crate) fn tell_written(&mut self, notify: &Notify, written: &Written, at: Instant) {
        let &Written { peer, offset, len, immediate } = written;
        let entry = Entry {
            kind: Kind::Written,
            peer: Some(peer),
            immediate: Some(immediate),
            len,
            placed_len: len,
            offset,
            is_last: false,
            ..blank(notify, RequestId(u64::MAX), Ok(()), at)
        };
        if !self.tell(notify, &entry) {
            self.set_notices_held(true);
        }
    }

    /// A copied send failed, of which its poster knows only that it was taken.
    #[cold]
    pub(crate) fn on_lost(&mut self, lost: Lost, at: Instant) {
        let Lost { peer, space, tag, len, failure } = lost;
        self.core.counters_mut().copies_lost += 1;
        let Some(notify) = self.lost_notify else {
            return self.core.remark_once(format!(
                "a copied message to peer number {} was not accepted: {failure:?}",
                peer.0
            ));
        };
        let blank = blank(&notify, RequestId(u64::MAX), Err(Trouble::Failed(failure)), at);
        let (kind, peer) = (Kind::Sent, Some(peer));
        self.tell(&notify, &Entry { kind, peer, space, tag, len, ..blank });
    }

    /// Peers' writes that would be told are refused, or not.
    pub(crate) fn set_notices_held(&mut self, are_held: bool) {
        if self.are_notices_held != are_held {
            self.are_notices_held = are_held;
            self.core.endpoint().hold_notices(are_held);
            self.core.counters_mut().notices_held += u64::from(are_held);
        }
    }

    /// Somebody made room: if there is enough everywhere, peers' writes are told again.
    pub(crate) fn look_for_room(&mut self) {
        if self.are_notices_held
            && !self.is_reader_full
            && !self.queues.is_any_fuller_than(SPILL_COUNT_MAX / 2)
            && !self.regions.is_any_fuller_than(SPILL_COUNT_MAX / 2)
        {
            self.set_notices_held(false);
        }
    }

    /// A message for a request that a queue is told of.
    pub(crate) fn on_received_queued(
        &mut self,
        id: RequestId,
        notify: Notify,
        kind: Kind,
        arrival: Arrival,
        overflow: Option<RequestId>,
        at: Instant,
    ) {
        let Arrival { envelope, offset, placed_len, result } = arrival;
        let overflow_context = overflow.and_then(|id| self.requests.notify_of(id));
        let Some(slot) = self.requests.pending(id) else { return };
        let (req, is_many, memory_id) = (slot.req, slot.is_many, slot.memory_id);
        let mut entry = Entry {
            context: notify.context,
            request: id,
            kind,
            peer: Some(envelope.source),
            space: envelope.space,
            tag: envelope.tag,
            immediate: envelope.immediate,
            len: envelope.len,
            placed_len,
            offset,
            overflow_context: overflow_context.map_or(0, |notify| notify.context),
            result: result.map_err(Trouble::Failed),
            is_last: !is_many,
            has_memory: false,
            at,
        };
        if !is_many {
            entry.has_memory = self.give_back_queued(id, &notify, memory_id, result.is_ok()).0;
            self.tell(&notify, &entry);
        } else if !self.tell(&notify, &entry) {
            self.core.endpoint().unlink(req);
        }
    }

    /// The end of such a request without a message.
    pub(crate) fn end_queued(
        &mut self,
        id: RequestId,
        notify: Notify,
        outcome: Outcome,
        at: Instant,
    ) {
        let (kind, peer, len, result) = match outcome {
            Outcome::Sent { peer, placed_len, result } => {
                (Kind::Sent, Some(peer), placed_len, result)
            }
            Outcome::Received { envelope, result, .. } => {
                (Kind::Received, Some(envelope.source), 0, result)
            }
            Outcome::Operated { peer, kind, len, result } => {
                let kind = match kind {
                    OperationKind::Put => Kind::Put,
                    OperationKind::Get => Kind::Got,
                    OperationKind::Atomic => Kind::Atomic,
                };
                (kind, Some(peer), len, result)
            }
            Outcome::Unlinked { source, failure } => {
                (Kind::Unlinked, source, 0, failure.map_or(Ok(()), Err))
            }
            Outcome::Refused { error } => {
                unreachable!(
                    "a queue is told by an entry of its own that a post was refused: {error:?}"
                )
            }
        };
        let blank = blank(&notify, id, result.map_err(Trouble::Failed), at);
        self.finish_queued(id, &notify, Entry { kind, peer, len, placed_len: len, ..blank });
    }

    fn finish_queued(&mut self, id: RequestId, notify: &Notify, mut entry: Entry) {
        let Some(memory_id) = self.requests.pending(id).map(|slot| slot.memory_id) else { return };
        let (is_kept, len) = self.give_back_queued(id, notify, memory_id, entry.result.is_ok());
        if entry.kind == Kind::Sent {
            entry.len = len;
        }
        entry.has_memory = is_kept;
        self.tell(notify, &entry);
    }

    /// Gives the descriptor back: its memory is the caller's again before the entry can be seen. Whether it is kept for him, and
    /// its length.
    #[inline]
    fn give_back_queued(
        &mut self,
        id: RequestId,
        notify: &Notify,
        memory_id: Option<MemoryId>,
        is_success: bool,
    ) -> (bool, u64) {
        let memory = memory_id.and_then(|memory| self.core.memory().remove(memory));
        let len = memory.as_ref().map_or(0, Memory::len);
        let is_silent = notify.only_errors && is_success;
        // What merely borrows needs no taking back.
        let kept = memory.filter(|memory| memory.is_owned() && !is_silent);
        let is_kept = kept.is_some();
        self.requests.end_queued(id, kept);
        (is_kept, len)
    }
}
