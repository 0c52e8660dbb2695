//! The common frames, in: whole small messages between peers who know each other, and their acknowledgements, with nothing
//! else waiting. How they leave is in `bulk/quick_out`.
//!
//! These functions do what `output` and `input` would do, without asking for all that could be but is not: what must not
//! be so is asked first, in one place, and whoever says no has changed nothing. A row, its active record and its path
//! are looked up once, and everything is done on the borrowed parts. That is why they are apart: one can hold them
//! against the general rules, which stand in the module named at each step.

use crate::base::api::Verdict;
use crate::base::types::{Instant, Locator, Memory};
use crate::delivery::path::Origin;
use crate::endpoint::Endpoint;
use crate::messages::take::Miss;
use crate::peers::rows::row_of_id;
use crate::wire::{AckView, EagerWords, LoneMessage, LoneView, PlainView};

impl Endpoint {
    /// A frame that is one whole small message and the next in order (`Endpoint::on_row_frame`). False if it is not that.
    #[inline(always)]
    pub(crate) fn on_quick(
        &mut self,
        now: Instant,
        link: u8,
        from: &Locator,
        lone: LoneMessage<'_>,
        memory: &mut impl Memory,
    ) -> bool {
        let LoneMessage { header, head, body } = lone;
        let row = row_of_id(header.to);
        match self.messages.hear_lone(now, (link, from), lone, memory) {
            None => false,
            Some(Ok(())) => true,
            Some(Err(miss)) => {
                if self.on_missed(now, row, miss, head, body, memory) == Verdict::Accepted {
                    self.peers_mut().note_next(now, row, header.path, 1);
                }
                true
            }
        }
    }

    /// A whole message that was not simply taken (`Endpoint::on_message`).
    #[inline(never)]
    pub(crate) fn on_missed(
        &mut self,
        now: Instant,
        row: u32,
        miss: Miss,
        head: EagerWords,
        body: &[u8],
        memory: &mut impl Memory,
    ) -> Verdict {
        match miss {
            Miss::Unexpected => {
                let (number, head) = (self.peers().rows[row].numbers.next_in(), head.head());
                let taken = self.messages.on_unexpected(now, row, number, &head, body);
                self.after_message(now, row, taken, (&head, body), memory)
            }
            Miss::Other => self.on_message(now, row, &head.head(), body, memory),
        }
    }

    /// A frame that is an Ack and one whole small message and the next in order (`Endpoint::on_row_frame`). False if it is
    /// not that.
    #[inline(always)]
    pub(crate) fn on_quick_answer<const N: usize>(
        &mut self,
        now: Instant,
        origin: &Origin,
        (acked, base): (&LoneView<'_, N>, u64),
        memory: &mut impl Memory,
    ) -> bool {
        let LoneMessage { header, head, body } = acked.message(base);
        let row = row_of_id(header.to);
        let (link, from) = (origin.link, &origin.from);
        let heard = self.peers_mut().hear(now, header, link, from);
        let Some((this, _)) = heard else { return false };
        let active_slot = this.active();
        self.peers_mut().counters.frames_in += 1;
        if let Some(ack) = acked.ack()
            && !self.bulk_mut().on_ack_of_only(now, active_slot, &ack)
        {
            self.on_ack(now, row, &AckView::from(ack));
        }
        let verdict = match self.messages.take_next(row, head, body, memory) {
            Ok(()) => Verdict::Accepted,
            Err(miss) => self.on_missed(now, row, miss, head, body, memory),
        };
        if verdict == Verdict::Accepted {
            self.peers_mut().note_next(now, row, header.path, 1);
        }
        true
    }

    /// A plain frame that is the next in order (`Endpoint::on_row_frame`). False if it is not that, or damaged.
    #[inline(always)]
    pub(crate) fn on_plain(
        &mut self,
        now: Instant,
        origin: &Origin,
        plain: &PlainView<'_>,
        memory: &mut impl Memory,
    ) -> bool {
        let PlainView { header, crc, ack, .. } = *plain;
        let row = row_of_id(header.to);
        if crc.is_some_and(|crc| memory.crc32c(0, plain.body) != crc) {
            return false;
        }
        let (link, from) = (origin.link, &origin.from);
        if self.peers_mut().hear(now, header, link, from).is_none() {
            return false;
        }
        self.peers_mut().counters.frames_in += 1;
        if let Some(ack) = &ack {
            self.on_ack(now, row, ack);
        }
        if plain.is_ack_only() {
            let active = self.peers_mut().active_of_mut(row);
            let path = &mut active.paths[usize::from(header.path)];
            path.record_unasked(now); // nobody waits for its acknowledgement
            return true;
        }
        let mut all = Verdict::Accepted;
        let mut message_count = 0;
        for (head, body) in plain.messages() {
            message_count += 1;
            if let Err(miss) = self.messages.take_next(row, head, body, memory)
                && self.on_missed(now, row, miss, head, body, memory) == Verdict::Refused
            {
                all = Verdict::Refused;
            }
        }
        if all == Verdict::Accepted {
            self.peers_mut().note_next(now, row, header.path, message_count);
        }
        true
    }
}

#[cfg(test)]
mod tests;
