//! Granted data as records of a frame, and what a receiver would hold.

use crate::bulk::Bulk;
use crate::bulk::outgoing::Parts;
use crate::delivery::content::Content;
use crate::delivery::credit::Share;
use crate::delivery::frame::Frame;
use crate::peers::choice::Next;
use crate::wire;

impl Bulk {
    /// What we would hold for one more active peer (PROTOCOL §5.5).
    #[inline]
    pub(crate) fn credit_for_peers(&self) -> Share {
        self.held.share_of(self.peers.actives.len())
    }
}

impl Bulk {
    /// The message whose turn it is, and what may leave of it if that is in several frames. Asked only where there are several paths.
    pub(crate) fn unsent_len(&self, row: u32) -> (u64, Next) {
        let active = self.peers.active_of(row);
        if active.paths.len() == 1 {
            return (0, Next::Short);
        }
        if let Some(send) = self.outgoing.get(active.unsent).filter(|_| active.resend.is_empty()) {
            let frame_len = active.paths[usize::from(active.main)].frame_len();
            return match send.total >= u64::from(frame_len) {
                true if send.is_large => (send.total, Next::Announcement),
                true => (send.total, Next::Fragments),
                false => (0, Next::Short),
            };
        }
        match active.granted.front() {
            Some(&(slot, serial)) if self.outgoing.holds(slot, serial) => {
                let parts = self.parts.get(self.outgoing[slot].parts);
                (parts.map_or(0, |parts| parts.unsent.missing_len()), Next::Short)
            }
            _ => (0, Next::Short),
        }
    }

    /// One piece of granted data; the granted messages take turns.
    pub(crate) fn write_data(&mut self, row: u32, index: usize, frame: &mut Frame<'_>) {
        let active = self.peers.active_of_mut(row);
        if !active.paths[index].has_window() {
            return;
        }
        while let Some((slot, serial)) = active.granted.pop_front() {
            if !self.outgoing.holds(slot, serial) {
                continue;
            }
            let room = frame.room() - wire::DATA_HEAD_LEN;
            let send = &mut self.outgoing[slot];
            let Some(Parts { lane, base, unsent, .. }) = self.parts.get_mut(send.parts) else {
                send.is_queued = false; // refused since
                continue;
            };
            let Some((start, end)) = unsent.take_front(room as u64) else {
                send.is_queued = false;
                continue;
            };
            let len = (end - start) as u32;
            frame.writer.data(*lane, send.message as u32, len as u16, start);
            frame.push_body(send.source(*base + start), len as usize);
            active.paths[index].add(Content::Data { slot, serial, offset: start, len });
            if unsent.is_empty() {
                send.is_queued = false;
            } else {
                active.granted.push_back((slot, serial));
            }
            return;
        }
    }
}
