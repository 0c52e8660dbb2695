//! The papers' programs.

use crate::app::{Act, App, Inbox};

/// Sends messages one behind the other, so many at a time.
#[derive(Debug)]
pub(crate) struct Sender {
    pub(crate) len: u64,
    pub(crate) count: u64,
    pub(crate) window: u64,
    posted: u64,
}

impl Sender {
    pub(crate) fn new(len: u64, count: u64, window: u64) -> Self {
        Self { len, count, window, posted: 0 }
    }
}

impl App for Sender {
    fn next(&mut self, _now: u64, inbox: Inbox) -> Act {
        if inbox.sent == self.count {
            return Act::End;
        }
        if self.posted < self.count && self.posted - inbox.sent < self.window {
            self.posted += 1;
            return Act::Send { len: self.len };
        }
        Act::Wait
    }
}

/// Receives them, with so many receives posted. The world notes when they arrive.
#[derive(Debug)]
pub(crate) struct Receiver {
    len: u64,
    count: u64,
    window: u64,
    posted: u64,
}

impl Receiver {
    pub(crate) fn new(len: u64, count: u64, window: u64) -> Self {
        Self { len, count, window, posted: 0 }
    }
}

impl App for Receiver {
    fn next(&mut self, _now: u64, inbox: Inbox) -> Act {
        if inbox.received == self.count {
            return Act::End;
        }
        if self.posted < self.count && self.posted.saturating_sub(inbox.received) < self.window {
            self.posted += 1;
            return Act::Recv { len: self.len };
        }
        Act::Wait
    }
}

/// One message there, one back. Marks after the warm-up and at the end.
#[derive(Debug)]
pub(crate) struct Ping {
    pub(crate) len: u64,
    pub(crate) warm: u64,
    pub(crate) count: u64,
    done: u64,
    step: u8,
    mark_count: u32,
}

impl Ping {
    pub(crate) fn new(len: u64, warm: u64, count: u64) -> Self {
        Self { len, warm, count, done: 0, step: 0, mark_count: 0 }
    }
}

impl App for Ping {
    fn next(&mut self, _now: u64, inbox: Inbox) -> Act {
        if self.step == 2 {
            if inbox.received <= self.done {
                return Act::Wait;
            }
            self.done += 1;
            self.step = 0;
        }
        let is_marked = self.done == self.warm || self.done == self.warm + self.count;
        if self.step == 0 && is_marked && self.mark_count == u32::from(self.done > self.warm) {
            self.mark_count += 1;
            return Act::Mark;
        }
        if self.done == self.warm + self.count {
            // What was sent last must be out before the program ends.
            return if inbox.sent < self.done { Act::Wait } else { Act::End };
        }
        self.step += 1;
        if self.step == 1 { Act::Recv { len: self.len } } else { Act::Send { len: self.len } }
    }
}

/// The other end of [`Ping`].
#[derive(Debug)]
pub(crate) struct Pong {
    len: u64,
    count: u64,
    posted: u64,
    sent: u64,
}

impl Pong {
    pub(crate) fn new(len: u64, count: u64) -> Self {
        Self { len, count, posted: 0, sent: 0 }
    }
}

impl App for Pong {
    fn next(&mut self, _now: u64, inbox: Inbox) -> Act {
        if self.sent < inbox.received {
            self.sent += 1;
            return Act::Send { len: self.len };
        }
        if self.posted < self.count && self.posted == self.sent {
            self.posted += 1;
            return Act::Recv { len: self.len };
        }
        if inbox.sent == self.count { Act::End } else { Act::Wait }
    }
}

/// RMPP's Figure 9: posts a send and a receive, and computes in pieces until the receive is done; all over again until all work is.
#[derive(Debug)]
pub(crate) struct Worker {
    len: u64,
    warm: u64,
    count: u64,
    piece_ns: u64,
    /// Pieces of work done since the warm-up.
    pub(crate) piece_count: std::rc::Rc<std::cell::Cell<u64>>,
    done: u64,
    step: u8,
    mark_count: u32,
}

impl Worker {
    pub(crate) fn new(len: u64, warm: u64, count: u64, piece_ns: u64) -> Self {
        let piece_count = std::rc::Rc::default();
        Self { len, warm, count, piece_ns, piece_count, done: 0, step: 0, mark_count: 0 }
    }
}

impl App for Worker {
    fn next(&mut self, _now: u64, inbox: Inbox) -> Act {
        if self.step == 4 {
            self.step = if inbox.received > self.done { 0 } else { 2 };
            self.done += u64::from(self.step == 0);
        }
        if self.step == 0 {
            let marks_now =
                u32::from(self.done >= self.warm) + u32::from(self.done == self.warm + self.count);
            if self.mark_count < marks_now {
                self.mark_count += 1;
                return Act::Mark;
            }
            if self.done == self.warm + self.count {
                return if inbox.sent < self.done { Act::Wait } else { Act::End };
            }
        }
        self.step += 1;
        match self.step {
            1 => Act::Send { len: self.len },
            2 => Act::Recv { len: self.len },
            3 => {
                if self.done >= self.warm {
                    self.piece_count.set(self.piece_count.get() + 1);
                }
                Act::Compute { ns: self.piece_ns }
            }
            _ => Act::Poll,
        }
    }
}

/// EMP's loop: receives and sends of a batch are posted, then work is done, then all is waited for. Marks after each of the four.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) len: u64,
    pub(crate) batch: u64,
    pub(crate) rounds: u64,
    pub(crate) work_ns: u64,
    round: u64,
    step: u64,
}

impl Batch {
    pub(crate) fn new(len: u64, batch: u64, rounds: u64, work_ns: u64) -> Self {
        Self { len, batch, rounds, work_ns, round: 0, step: 0 }
    }
}

impl App for Batch {
    fn next(&mut self, _now: u64, inbox: Inbox) -> Act {
        if self.round == self.rounds {
            return Act::End;
        }
        let (step, batch) = (self.step, self.batch);
        self.step += 1;
        match step {
            _ if step == 0 => Act::Mark,
            _ if step <= batch => Act::Recv { len: self.len },
            _ if step == batch + 1 => Act::Mark,
            _ if step <= 2 * batch + 1 => Act::Send { len: self.len },
            _ if step == 2 * batch + 2 => Act::Mark,
            _ if step == 2 * batch + 3 => Act::Compute { ns: self.work_ns.max(1) },
            _ if step == 2 * batch + 4 => Act::Mark,
            // The library looks at each request, complete or not.
            _ if step <= 4 * batch + 4 => Act::Poll,
            _ => {
                let all = (self.round + 1) * batch;
                if inbox.received < all || inbox.sent < all {
                    self.step -= 1;
                    return Act::Wait;
                }
                self.round += 1;
                self.step = 0;
                Act::Mark
            }
        }
    }
}

/// The producer of the double buffer: fills one of two buffers while the other is sent. The consumer's word that a buffer is free is a
/// message of its own.
#[derive(Debug)]
pub(crate) struct Producer {
    len: u64,
    count: u64,
    fill_ns: u64,
    filled: u64,
    sent: u64,
    words: u64,
}

/// Bytes of the word that a buffer is free.
const WORD_LEN: u64 = 8;

impl Producer {
    pub(crate) fn new(len: u64, count: u64, fill_ns: u64) -> Self {
        Self { len, count, fill_ns, filled: 0, sent: 0, words: 0 }
    }
}

impl App for Producer {
    fn next(&mut self, _now: u64, inbox: Inbox) -> Act {
        if self.words < self.count && self.words < inbox.received + 2 {
            self.words += 1;
            return Act::Recv { len: WORD_LEN };
        }
        if self.sent < self.filled {
            if inbox.received <= self.sent {
                return Act::Wait; // wait CTS
            }
            self.sent += 1;
            return Act::Send { len: self.len };
        }
        if self.filled < self.count {
            if self.filled >= 2 && inbox.sent < self.filled - 1 {
                return Act::Wait; // this buffer is not sent yet
            }
            self.filled += 1;
            return Act::Compute { ns: self.fill_ns };
        }
        if inbox.sent == self.count { Act::End } else { Act::Wait }
    }
}

/// Its consumer. Marks around each sum, so that its own rate is known.
#[derive(Debug)]
pub(crate) struct Consumer {
    len: u64,
    count: u64,
    sum_ns: u64,
    posted: u64,
    words: u64,
    summed: u64,
    step: u8,
}

impl Consumer {
    pub(crate) fn new(len: u64, count: u64, sum_ns: u64) -> Self {
        Self { len, count, sum_ns, posted: 0, words: 0, summed: 0, step: 0 }
    }
}

impl App for Consumer {
    fn next(&mut self, _now: u64, inbox: Inbox) -> Act {
        match self.step {
            1 => {
                self.step = 2;
                return Act::Compute { ns: self.sum_ns };
            }
            2 => {
                self.step = 0;
                self.summed += 1;
                return Act::Mark;
            }
            _ => {}
        }
        if self.words < self.posted {
            self.words += 1;
            return Act::Send { len: WORD_LEN };
        }
        if self.posted < self.count && self.posted < self.summed + 2 {
            self.posted += 1;
            return Act::Recv { len: self.len };
        }
        if self.summed == self.count {
            return if inbox.sent == self.count { Act::End } else { Act::Wait };
        }
        if inbox.received <= self.summed {
            return Act::Wait;
        }
        self.step = 1;
        Act::Mark
    }
}
