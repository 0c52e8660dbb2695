//! What came and went, in its order, for somebody who keeps a model beside an endpoint, as the simulator does.
//!
//! Only what such a model cannot know by itself is here: in which order requests came in, when bytes were in their place, and when
//! answers were there. What follows from that it must find out alone, and compare. Nobody asks: nothing is kept.

use alloc::vec::Vec;

use super::{Incoming, Portals};

/// Something that came or went.
#[derive(Clone, Copy, Debug)]
pub enum Witnessed {
    /// A request came in; where an entry took it, by what number its bytes are known until they are in their place.
    Arrived(Incoming, Option<u32>),
    /// Bytes of such a request are in their place, or this became of them.
    Delivered(u32, u8),
    /// The operation with this `user` goes to its target.
    Began(u64),
    /// The operation with this `user` is over, answered or for this reason not.
    Ended(u64, Option<u8>),
    /// Nothing more is due.
    Settled,
}

impl Portals {
    /// From now on what comes and goes is kept for [`Portals::take_witnessed`].
    pub fn keep_witness(&mut self) {
        self.witness = Some(Vec::new());
    }

    /// What came and went since this was last asked.
    pub fn take_witnessed(&mut self) -> Vec<Witnessed> {
        self.witness.as_mut().map(core::mem::take).unwrap_or_default()
    }

    #[inline]
    pub(super) fn bear(&mut self, witnessed: Witnessed) {
        if let Some(witness) = &mut self.witness {
            witness.push(witnessed);
        }
    }
}
