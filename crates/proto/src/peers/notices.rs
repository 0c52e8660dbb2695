//! What is to be said to a peer beside messages, in its order; it leaves with the next frame.

use crate::delivery::content::Content;
use crate::peers::Peers;
use crate::peers::rows::{Active, Notice, Phase};

/// Notices waiting for one peer before its queries go unanswered.
const NOTICE_COUNT_MAX: usize = 1024;

impl Peers {
    /// Queues a notice to a peer that has an association.
    pub(crate) fn notify(&mut self, row: u32, content: Content) {
        if self.rows[row].phase == Phase::Idle {
            return; // nobody is there to hear it
        }
        self.say(row, Notice::Content(content));
    }

    /// A notice leaves with the next frame to a peer.
    pub(crate) fn say(&mut self, row: u32, notice: Notice) {
        let active = self.activate(row);
        self.actives[active].control.push_back(notice);
        self.make_ready(row);
    }

    /// Requests of ours wait to be written.
    pub(crate) fn queue_requests(&mut self, row: u32) {
        let active = self.active_of_mut(row);
        if active.side_mut().queue() {
            active.control.push_back(Notice::Requests);
        }
        self.make_ready(row);
    }

    /// Tells the peer that a request was carried out that asked for nothing. Those that follow each other are told as one, so many at most.
    pub(crate) fn notify_replied(&mut self, row: u32, number: u32, count_max: u16) {
        let active = self.activate(row);
        if let Some(Notice::Content(Content::Replied { first, count })) =
            self.actives[active].control.back_mut()
            && first.wrapping_add(u32::from(*count)) == number
            && *count < count_max
        {
            *count += 1;
            return;
        }
        self.notify(row, Content::Replied { first: number, count: 1 });
    }

    /// Tells the peer that a message of ours was cancelled. Until the peer acknowledges that, it may see the message instead.
    pub(crate) fn notify_cancelled(&mut self, row: u32, message: u32) {
        self.active_of_mut(row).cancel_count += 1;
        self.say(row, Notice::Content(Content::Cancel { message }));
    }

    /// The peer has heard that a message of ours was cancelled.
    pub(crate) fn on_cancel_acked(&mut self, row: u32) {
        self.active_of_mut(row).cancel_count -= 1;
    }

    /// Tells the sender of a message that it ended here, and how many of its bytes were taken (PROTOCOL §8.6).
    pub(crate) fn notify_done(&mut self, row: u32, message: u32, status: u8, placed_len: u64) {
        self.notify(row, Content::Done { message, status, placed_len });
    }
}

/// What waits to be said.
impl Active {
    /// What is said next.
    pub(crate) fn first_notice(&self) -> Option<Notice> {
        self.control.front().copied()
    }

    /// What is said next is said now.
    #[inline]
    pub(crate) fn take_notice(&mut self) {
        self.control.pop_front();
    }

    /// A notice that was taken cannot be said now, and goes behind the others.
    pub(crate) fn put_off(&mut self, notice: Notice) {
        self.control.push_back(notice);
    }

    /// The peer is asked to acknowledge, with the next frame.
    #[inline]
    pub(crate) fn ask(&mut self) {
        self.ping = true;
    }

    /// All requests that waited were written.
    pub(crate) fn on_requests_written(&mut self) {
        self.side_mut().leave_queue();
    }

    /// Whether the peer may be told which of our messages its receive would take. Not if it asks faster than we can answer; nor while a message
    /// of ours that was cancelled may yet arrive in its turn, for then no answer can be sure.
    pub(crate) fn may_answer_query(&self) -> bool {
        self.control.len() < NOTICE_COUNT_MAX && self.cancel_count == 0
    }
}
