//! What must be true of what a process received, whatever the network does.

use std::collections::HashMap;

use crate::script::Message;

/// A receive, as it was posted and as it ended.
#[derive(Debug)]
struct Receive {
    info: u64,
    mask: u64,
    /// On the oracle's clock.
    ended_at: Option<u64>,
    is_cancelled: bool,
}

impl Receive {
    fn fits(&self, info: u64) -> bool {
        info & self.mask == self.info
    }
}

/// A message that was taken in this round.
#[derive(Debug)]
struct Taken {
    message: Message,
    info: u64,
    /// Which receive took it, in the order of their posts; none of those that can be seen, for what the handler or a forgotten receive took.
    by: Option<usize>,
}

/// The books of a process.
#[derive(Debug, Default)]
pub(crate) struct Book {
    clock: u64,
    receives: Vec<Receive>,
    /// Those before were settled in an earlier round.
    first: usize,
    round: Vec<Taken>,
    seen: HashMap<Message, u32>,
}

impl Book {
    pub(crate) fn on_posted(&mut self, (info, mask): (u64, u64)) -> usize {
        self.receives.push(Receive { info, mask, ended_at: None, is_cancelled: false });
        self.receives.len() - 1
    }

    pub(crate) fn on_cancelled(&mut self, receive: usize) {
        self.clock += 1;
        let this = &mut self.receives[receive];
        (this.ended_at, this.is_cancelled) = (Some(self.clock), true);
    }

    /// It ended without a message, for its sender went.
    pub(crate) fn on_failed(&mut self, receive: usize) {
        self.clock += 1;
        self.receives[receive].ended_at = Some(self.clock);
    }

    /// A message was taken: for the first time?
    pub(crate) fn on_taken(&mut self, message: Message, info: u64, by: Option<usize>) {
        self.clock += 1;
        let count = self.seen.entry(message).or_default();
        *count += 1;
        assert_eq!(*count, 1, "{message:?} was received more than once");
        if let Some(receive) = by {
            let this = &mut self.receives[receive];
            assert!(this.fits(info), "{message:?} ({info:#x}) was taken by {this:?}");
            assert!(this.ended_at.is_none(), "{message:?} was taken by {this:?}, which has ended");
            this.ended_at = Some(self.clock);
        }
        self.round.push(Taken { message, info, by });
    }

    pub(crate) fn is_taken(&self, message: Message) -> bool {
        self.seen.contains_key(&message)
    }

    /// A receive that was posted before this one and could have had its message, and was taken back later.
    fn passed_over(&self, taken: &Taken, by: usize) -> Option<&Receive> {
        let ended_at = self.receives[by].ended_at;
        let mut before = self.receives[self.first..].iter().take(by.saturating_sub(self.first));
        before.find(|earlier| {
            earlier.is_cancelled && earlier.fits(taken.info) && earlier.ended_at > ended_at
        })
    }

    /// All receives of the round have ended. Was the order that of MX?
    ///
    /// Messages of one sender are matched in the order of their sends, and receives are searched in the order of their posts. So
    /// whatever an earlier message of the same sender fits was posted after the receive that took that earlier message; and a receive
    /// that was taken back in the end was not passed over before.
    pub(crate) fn check_order(&mut self) {
        for later in &self.round {
            let Some(by) = later.by else { continue };
            if let Some(earlier) = self.passed_over(later, by) {
                panic!("{:?} went to a receive behind {earlier:?}", later.message);
            }
            for earlier in &self.round {
                let is_before = (earlier.message.source, earlier.message.life)
                    == (later.message.source, later.message.life)
                    && earlier.message.number < later.message.number;
                if is_before
                    && self.receives[by].fits(earlier.info)
                    && earlier.by.is_some_and(|earlier_by| earlier_by > by)
                {
                    panic!(
                        "{:?} went to receive {by}, {:?} to the later receive {:?}",
                        later.message, earlier.message, earlier.by
                    );
                }
            }
        }
        let open = self.receives[self.first..].iter().find(|it| it.ended_at.is_none());
        assert!(open.is_none(), "a receive without an end: {open:?}");
        self.first = self.receives.len();
        self.round.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(number: u32) -> Message {
        Message { source: 1, life: 0, number, to: 0 }
    }

    fn book(posts: &[(u64, u64)]) -> Book {
        let mut book = Book::default();
        posts.iter().for_each(|&criteria| _ = book.on_posted(criteria));
        book
    }

    #[test]
    fn messages_in_order_pass() {
        let mut book = book(&[(0, 0), (7, u64::MAX), (0, 0)]);
        book.on_taken(message(0), 5, Some(0));
        book.on_taken(message(2), 6, Some(2));
        book.on_taken(message(1), 7, Some(1));
        book.check_order();
    }

    #[test]
    #[should_panic(expected = "to the later receive")]
    fn a_message_that_overtook_another_is_found() {
        let mut book = book(&[(0, 0), (0, 0)]);
        book.on_taken(message(1), 5, Some(0));
        book.on_taken(message(0), 5, Some(1));
        book.check_order();
    }

    #[test]
    #[should_panic(expected = "behind")]
    fn a_receive_that_was_passed_over_is_found() {
        let mut book = book(&[(0, 0), (0, 0)]);
        book.on_taken(message(0), 5, Some(1));
        book.on_cancelled(0);
        book.check_order();
    }

    #[test]
    #[should_panic(expected = "more than once")]
    fn a_message_that_comes_twice_is_found() {
        let mut book = book(&[(0, 0), (0, 0)]);
        book.on_taken(message(0), 5, Some(0));
        book.on_taken(message(0), 5, Some(1));
    }
}
