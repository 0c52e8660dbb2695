//! Numbers of messages with one peer: whose turn it is, what is refused, what is held back.
//!
//! PROTOCOL §7.1, §7.5. The wire shows the low halves of numbers. As a receiver an endpoint matches messages in the order of their numbers, and refuses
//! those from one on when it has no room; as a sender it holds back what the peer refuses.

use crate::delivery::ack::expand;

/// No message has this number.
const NO_MESSAGE: u64 = u64::MAX;

/// Numbers of messages with one peer, which begin again with each association.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Numbers {
    /// Of the next message we send.
    next_out: u64,
    /// Of the next message whose turn it is to be matched.
    next_in: u64,
    /// As a receiver: messages from here on are refused.
    refused_from: u64,
    /// As a receiver: data of messages below this one came before its announcement did, and is gone (PROTOCOL §8.9).
    missed_to: u64,
    /// As a sender: messages from here on are held back.
    held_from: u64,
}

impl Default for Numbers {
    fn default() -> Self {
        let (refused_from, held_from) = (NO_MESSAGE, NO_MESSAGE);
        Self { next_out: 0, next_in: 0, refused_from, missed_to: 0, held_from }
    }
}

/// As a sender.
impl Numbers {
    /// Of the next message to be posted.
    #[inline(always)]
    pub(crate) fn next_out(&self) -> u64 {
        self.next_out
    }

    /// A message is posted: its number.
    #[inline(always)]
    pub(crate) fn post(&mut self) -> u64 {
        let message = self.next_out;
        self.next_out += 1;
        message
    }

    /// The peer refused this message or one before it: it stays here until it is recalled or asked for.
    #[inline(always)]
    pub(crate) fn holds_back(&self, message: u64) -> bool {
        message >= self.held_from
    }

    /// Whether the peer refuses any message.
    pub(crate) fn holds_any_back(&self) -> bool {
        self.held_from != NO_MESSAGE
    }

    /// The peer refuses messages from this one on.
    pub(crate) fn hold_back(&mut self, from: u64) {
        self.held_from = from;
    }

    /// The peer recalls what it refused.
    pub(crate) fn hold_none_back(&mut self) {
        self.held_from = NO_MESSAGE;
    }
}

/// As a receiver.
impl Numbers {
    /// Of the message whose turn it is.
    #[inline(always)]
    pub(crate) fn next_in(&self) -> u64 {
        self.next_in
    }

    /// The number of which the wire shows this half.
    #[inline(always)]
    pub(crate) fn whole(&self, message: u32) -> u64 {
        expand(message, self.next_in)
    }

    /// It is this message's turn, and it is not refused.
    #[inline(always)]
    pub(crate) fn is_next(&self, message: u32) -> bool {
        self.next_in as u32 == message && self.next_in < self.refused_from
    }

    /// This message had its turn.
    #[inline(always)]
    pub(crate) fn is_past(&self, number: u64) -> bool {
        number < self.next_in
    }

    /// The message whose turn it is has it now: the next is expected.
    #[inline(always)]
    pub(crate) fn pass_turn(&mut self) {
        self.next_in += 1;
    }

    /// This message is refused.
    #[inline(always)]
    pub(crate) fn refuses(&self, number: u64) -> bool {
        number >= self.refused_from
    }

    /// From where on messages are refused, if any are.
    pub(crate) fn refused_from(&self) -> Option<u64> {
        (self.refused_from != NO_MESSAGE).then_some(self.refused_from)
    }

    /// Messages from this one on are refused. True: others were before.
    pub(crate) fn refuse(&mut self, from: u64) -> bool {
        core::mem::replace(&mut self.refused_from, from) != NO_MESSAGE
    }

    /// This message is taken, even if it was the first that is refused.
    pub(crate) fn take_surely(&mut self, number: u64) {
        if number == self.refused_from {
            self.refused_from = number + 1;
        }
    }

    /// Nothing is refused any more.
    pub(crate) fn recall(&mut self) {
        self.refused_from = NO_MESSAGE;
    }

    /// What was refused came out of turn, and had its turn.
    pub(crate) fn is_past_refusal(&self) -> bool {
        self.next_in > self.refused_from
    }

    /// Data came of a message that is not known, and was dropped: its announcement is late, unless it is over or refused.
    pub(crate) fn on_data_dropped(&mut self, number: u64) {
        if !self.is_past(number) && self.refused_from().is_none() {
            self.missed_to = self.missed_to.max(number + 1);
        }
    }

    /// Data of this message, or of a later one, was dropped before its announcement came.
    pub(crate) fn has_missed_data(&self, number: u64) -> bool {
        number < self.missed_to
    }

    /// So far in both directions, for tests of what happens there.
    #[cfg(test)]
    pub(crate) fn move_to(&mut self, next_out: u64, next_in: u64) {
        (self.next_out, self.next_in) = (next_out, next_in);
    }
}
