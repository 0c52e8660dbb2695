//! Fragments that arrived together.

use crate::endpoint::NONE;
use crate::messages::fragments::Expected;
use crate::{Endpoint, Instant, Locator, Memory, Place, wire};

impl Endpoint {
    /// Frames arrived together on `link` from `from`: they stand behind each other in `frames`, each `stride` bytes long, but the last may be
    /// shorter. Returns how many of them, from the first on, were fragments of one message whose bytes are awaited; these are done with. The
    /// next one was not looked at: it goes to `on_frame`, and those behind it may come here again.
    pub fn on_fragments(
        &mut self,
        now: Instant,
        link: u8,
        from: &Locator,
        frames: &[u8],
        stride: usize,
        memory: &mut impl Memory,
    ) -> usize {
        if self.peers().is_closed()
            || self.peers().is_closing()
            || !self.messages.orphans.is_empty()
        {
            return 0;
        }
        let whole_count = self.on_whole_message(now, link, from, frames, stride, memory);
        if whole_count > 0 {
            return whole_count;
        }
        let Some(expected) = self.messages.expect_fragments(link, from, frames, stride) else {
            return 0;
        };
        let peers = &self.peers();
        let count = wire::agreeing_fragments(frames, &expected.train, &peers.own_seal());
        if count > 0 {
            self.take_fragments(now, &expected, count, frames, stride, memory);
        }
        count
    }

    /// The first fragments of a train are what was expected.
    fn take_fragments(
        &mut self,
        now: Instant,
        expected: &Expected,
        count: usize,
        frames: &[u8],
        stride: usize,
        memory: &mut impl Memory,
    ) {
        let &Expected { row, slot, ref train } = expected;
        let (hold, index) = (self.bulk().arrivals[slot].hold, self.bulk().arrivals[slot].progress);
        let progress = &mut self.messages.bulk.progress[index];
        let (start, head_len) = (u64::from(train.head.offset), train.frame_head_len());
        let len = train.len_of(count);
        let bodies = frames.chunks(stride).take(count).map(|frame| &frame[head_len..]);
        if progress.receive != NONE {
            let (buf, mut offset) =
                (self.messages.bulk.receives[progress.receive].buf, progress.offset + start);
            for body in bodies {
                memory.place(Place { buf, offset }, body);
                offset += body.len() as u64;
            }
            self.messages.bulk.peers.counters.bytes_placed += len; // held bytes are placed later
        } else {
            let mut rest = &mut self.messages.bulk.held.bytes_mut(hold)[start as usize..];
            for body in bodies {
                let (to, behind) = rest.split_at_mut(body.len());
                to.copy_from_slice(body);
                rest = behind;
            }
        }
        progress.gaps.fill(start, start + len, &mut |_, _| ());
        progress.progressed_at = now;
        let is_whole = progress.gaps.is_empty();
        self.peers_mut().counters.frames_in += count as u64;
        self.peers_mut().counters.frames_together += count as u64;
        self.peers_mut().rows[row].heard_at = now;
        if let Some(active) =
            self.messages.bulk.peers.actives.get_mut(self.messages.bulk.peers.rows[row].active)
        {
            active.welcome = false; // the peer has joined
        }
        if is_whole {
            self.on_whole(now, slot);
        }
        self.peers_mut().note_fragments(now, row, &train.header, count as u64);
    }
}
