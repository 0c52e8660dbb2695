//! Fragments that arrived together.

use crate::bulk::fragments::Expected;
use crate::{Endpoint, Instant, Locator, Memory, wire};

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
        if self.peers().is_closed() || self.peers().is_closing() || self.messages.has_orphans() {
            return 0;
        }
        let whole_count = self.on_whole_message(now, link, from, frames, stride, memory);
        if whole_count > 0 {
            return whole_count;
        }
        let Some(expected) = self.bulk().expect_fragments(link, from, frames, stride) else {
            return 0;
        };
        let peers = &self.peers();
        let count = wire::agreeing_fragments(frames, &expected.train, &peers.own_seal());
        if count > 0 {
            let Expected { row, slot, ref train } = expected;
            let frames = (frames, stride);
            if self.bulk_mut().take_fragments(now, &expected, count, frames, memory) {
                self.on_whole(now, slot);
            }
            self.peers_mut().note_fragments(now, row, &train.header, count as u64);
        }
        count
    }
}
