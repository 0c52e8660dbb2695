//! A turn of an endpoint that talks to itself: its own frames, which turned around in `home`.

use packhorse_link::Link;
use packhorse_link::mem::UserMemory;
use packhorse_proto::{Instant, Locator, wire};

use super::Core;
use crate::duties::Offload;
use crate::lent::lent;

/// Frames to oneself turn around so often in one turn: a large message to oneself takes more, and others have their turn.
const HOME_TRIPS_PER_TURN: usize = 4;

impl<L: Link<M>, M: UserMemory> Core<L, M> {
    /// What one says to oneself is answered in the same turn: an application that asks a few times whether a message to itself has
    /// arrived does not give the wire any time, and there is none.
    #[cold]
    pub(super) fn talk_to_oneself(&mut self, now: Instant) -> usize {
        let mut work = 0;
        for _ in 0..HOME_TRIPS_PER_TURN {
            work += self.receive_home(now);
            if self.has_output() {
                work += self.transmit(now);
            }
            if self.home.is_empty() {
                break;
            }
        }
        work
    }

    /// What was sent to the endpoint itself.
    #[cold]
    pub(super) fn receive_home(&mut self, now: Instant) -> usize {
        let now = self.time.on_arrival(now);
        let mut count = 0;
        while let Some((link, from, bytes)) = self.home.next() {
            let from = Locator(from);
            self.counters.frames_to_self += 1;
            count += 1;
            if self.duties != Offload::Both
                && !self.duties.takes(wire::audience(&bytes))
                && self.endpoint.put_aside(now, link, &from, &bytes)
            {
                self.kept.push(link, &bytes);
            } else {
                let copied = &mut self.counters.bytes_copied_in;
                let mut lent = lent(&mut self.memory, copied, self.loans.as_mut());
                self.endpoint.on_frame(now, link, from, &bytes, &mut lent);
            }
            self.home.reuse(bytes);
        }
        count
    }
}
