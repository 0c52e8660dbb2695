//! What a turn fetches: bytes of large messages that lie where their senders say that they are.

use packhorse_link::mem::UserMemory;
use packhorse_link::{Fetch, Link};
use packhorse_proto::{Instant, Locator, Place, Whereabouts};

use super::Core;
use crate::home;
use crate::translate::memory_of;

/// Bytes that are read in one call: a turn takes no longer than that, a tenth of a millisecond or so.
pub(crate) const PIECE_LEN_MAX: u64 = 1 << 20;

impl<L: Link<M>, M: UserMemory> Core<L, M> {
    /// Reads bytes for the next message, or for several short ones: so many in all, or none of them would be heard of before long.
    #[inline(never)]
    pub(super) fn fetch(&mut self, now: Instant) -> usize {
        let (mut left, mut count) = (PIECE_LEN_MAX, 0);
        while left > 0
            && let Some(fetch) = self.endpoint.poll_fetch(now, left)
        {
            let (link, from) = (usize::from(fetch.link), &fetch.from);
            let is_read =
                self.read_told(link, from, &fetch.whereabouts, (fetch.offset, fetch.to, fetch.len));
            self.endpoint.on_fetched(now, &fetch, is_read);
            left -= fetch.len;
            count += 1;
        }
        count
    }

    /// Reads bytes of a message that lies where its sender told: from number `offset` on, so many, to that place.
    #[inline]
    pub(super) fn read_told(
        &mut self,
        link: usize,
        from: &Locator,
        whereabouts: &Whereabouts,
        (offset, to, len): (u64, Place, u64),
    ) -> bool {
        if self.home.takes(link as u8, &from.0) {
            let (Some(own), Ok(len)) = (home::told_by(whereabouts), usize::try_from(len)) else {
                return false;
            };
            return self.memory.copy_between((own, offset), (memory_of(to.buf), to.offset), len);
        }
        let range = to.offset..to.offset + len;
        let (from, id) = (&from.0, memory_of(to.buf));
        let wanted = Fetch { from, whereabouts, offset, id, range };
        let link = self.links.get_mut(link).and_then(Link::telling);
        link.is_some_and(|link| link.fetch(&wanted, &mut self.memory).is_ok())
    }
}
