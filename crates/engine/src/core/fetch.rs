//! What a turn fetches: bytes of large messages that lie where their senders say that they are.

use packhorse_link::mem::UserMemory;
use packhorse_link::{Fetch, Link};
use packhorse_proto::Instant;

use super::Core;
use crate::translate::memory_of;

/// Bytes that are read in one call: a turn takes no longer than that, a tenth of a millisecond or so.
const PIECE_LEN_MAX: u64 = 1 << 20;

impl<L: Link<M>, M: UserMemory> Core<L, M> {
    /// Reads bytes for the next message, or for several short ones: so many in all, or none of them would be heard of before long.
    #[inline(never)]
    pub(super) fn fetch(&mut self, now: Instant) -> usize {
        let (mut left, mut count) = (PIECE_LEN_MAX, 0);
        while left > 0
            && let Some(fetch) = self.endpoint.poll_fetch(now, left)
        {
            let to = fetch.to;
            let wanted = Fetch {
                from: &fetch.from.0,
                whereabouts: &fetch.whereabouts,
                offset: fetch.offset,
                id: memory_of(to.buf),
                range: to.offset..to.offset + fetch.len,
            };
            let link = self.links.get_mut(usize::from(fetch.link)).and_then(Link::telling);
            let is_read = link.is_some_and(|link| link.fetch(&wanted, &mut self.memory).is_ok());
            self.endpoint.on_fetched(now, &fetch, is_read);
            left -= fetch.len;
            count += 1;
        }
        count
    }
}
