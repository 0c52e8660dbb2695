//! Granted data arrives: frame by frame, landed, or fetched.
//!
//! PROTOCOL §8. `bulk` takes the bytes; whose they were hears of the last.

use crate::base::api::Verdict;
use crate::bulk::filling::Absorbed;
use crate::wire::{DATA_FRAME_HEAD_LEN, Header, Lane};
use crate::{Endpoint, Fetch, Instant, Landing, Locator, Memory, wire};

impl Endpoint {
    /// The driver has read what `poll_fetch` named, or could not.
    pub fn on_fetched(&mut self, now: Instant, fetch: &Fetch, is_read: bool) {
        if let Some(slot) = self.bulk_mut().take_fetched(now, fetch, is_read) {
            self.on_whole(now, slot);
        }
    }
}

impl Endpoint {
    /// Frames arrived on `link` from `from` and were scattered as `landing` says: their heads are in `heads`, `head_len`
    /// bytes each; their payload lies in memory from `landing.offset` on, `payload_len` bytes each and `last_len` of the
    /// last. Returns how many of them, from the first on, were what was predicted; these are done with. The others were
    /// not looked at: the driver moves their payload out and hands each to `on_frame`, in order.
    ///
    /// A driver may land several trains, each `behind` the one before.
    #[expect(clippy::too_many_arguments, reason = "as `on_frame`, and what was landed where")]
    pub fn on_landed(
        &mut self,
        now: Instant,
        link: u8,
        from: &Locator,
        landing: &Landing,
        heads: &[u8],
        count: usize,
        last_len: u32,
        memory: &mut impl Memory,
    ) -> usize {
        if self.peers().is_closed() || self.peers().is_closing() {
            return 0;
        }
        if self.messages.has_orphans() {
            self.messages.deliver_orphans(now, memory);
        }
        let count = count.min(heads.len() / DATA_FRAME_HEAD_LEN);
        let Some(expected) = self.bulk().expect_train(link, from, landing, heads, count, last_len)
        else {
            return 0;
        };
        let peers = &self.peers();
        let count = wire::agreeing_count(heads, &expected.train, &peers.own_seal());
        if count > 0 {
            let slot = landing.slot;
            if self.bulk_mut().take_train(now, slot, link, &expected, count) {
                self.on_whole(now, slot);
            }
            self.bulk_mut().go_on_granting(now, slot);
            let Header { path, .. } = expected.train.header;
            self.peers_mut().note_train(
                now,
                expected.row,
                path.into(),
                expected.packet,
                count as u64,
            );
        }
        count
    }
}

impl Endpoint {
    /// Granted bytes.
    pub(crate) fn on_data(
        &mut self,
        now: Instant,
        (row, link): (u32, u8),
        (lane, message): (Lane, u32),
        offset: u64,
        body: &[u8],
        memory: &mut impl Memory,
    ) -> Verdict {
        let Some(slot) = self.bulk().large_arrival(row, lane, message) else {
            return self.bulk_mut().on_data_of_none(row, lane, message);
        };
        let Some(taken) = self.bulk_mut().take_data(now, (row, link), slot, offset, body, memory)
        else {
            return Verdict::Accepted;
        };
        if taken == Absorbed::Wholly {
            self.on_whole(now, slot);
        }
        self.bulk_mut().go_on_granting(now, slot);
        taken.verdict()
    }

    /// No byte of an arrival is missing any more: whoever it belongs to hears of it.
    #[inline]
    pub(crate) fn on_whole(&mut self, now: Instant, slot: u32) {
        if self.bulk().arrival(slot).lane != Lane::Message {
            self.onesided.finish_transfer(&mut self.messages.bulk, slot);
        } else if self.messages.on_whole_arrival(now, slot) {
            self.streams.on_chunk_whole(&mut self.messages, slot);
        }
    }
}
