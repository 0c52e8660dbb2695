//! What it means to others what becomes of frames on a path: each may be lost, none is, or all are together when a stream breaks.
//!
//! Nobody outside `delivery` asks which of these a path is. Each question here is what somebody needs to know, so that another kind of delivery answers
//! it in its own way.

use super::*;
use crate::base::sabotage::{Sabotage, Saboteur};
use crate::delivery::credit::Share;

/// Whether a message of several frames goes as a train by a link. Frames of links that lose nothing are long: few are needed.
pub(crate) fn cuts_into_trains(traits: &LinkTraits) -> bool {
    traits.train_len_max > 0 && !traits.reliability.never_loses()
}

impl Path {
    /// A question costs less than a copy: a grant comes soon, and what it asks for does not wait in a socket. So long messages are announced, nothing
    /// of them goes ahead of its grant (PROTOCOL §7.9, §8.1), and grants need not fit what sockets hold.
    #[inline(always)]
    pub(crate) fn grants_soon(&self) -> bool {
        self.reliability.never_loses()
    }

    /// Frames are so long that fragments need not follow each other as trains: there are few, and each says what it is.
    #[inline(always)]
    pub(crate) fn has_long_frames(&self) -> bool {
        self.reliability.never_loses()
    }

    /// Whether a message of several frames goes as a train, as [`cuts_into_trains`] says of its link.
    #[inline(always)]
    pub(crate) fn cuts_into_trains(&self) -> bool {
        self.sends_trains && !self.has_long_frames()
    }

    /// Where it is usable, paths of another kind are spare (PROTOCOL §10.2): there is nothing to compare it with.
    #[inline(always)]
    pub(crate) fn makes_others_spare(&self) -> bool {
        self.reliability.never_loses()
    }

    /// What its link has taken *is* kept for the peer until the peer takes it (PROTOCOL §7.10). By a numbered packet the peer has learned where frames of
    /// this path come from.
    #[inline(always)]
    pub(crate) fn may_be_given(&self) -> bool {
        self.reliability.never_loses()
            && self.pass != 0
            && !self.payload_check
            && self.flight.next_packet() > 1
    }

    /// The peer's part of what we would hold, for what comes by this path: by links that lose frames, no more than those hold until there is time.
    #[inline(always)]
    pub(crate) fn credit_of(&self, share: Share) -> u32 {
        share.by(self.reliability.never_loses())
    }

    /// Any frame may go there at once, and many frames in one call: where such a path is in use, none need be opened for small messages.
    pub(crate) fn is_open_to_all(&self) -> bool {
        self.sends_trains && !self.reliability.is_stream()
    }

    /// Beside a path that is open to all it carries only what is long: it must be opened first (PROTOCOL §16.6).
    pub(crate) fn suits_only_bulk(&self) -> bool {
        self.reliability.is_stream()
    }

    /// Over the same card data goes by this path rather than by the other: many frames leave in one call, or the system cuts a stream itself
    /// (PROTOCOL §10.4).
    pub(crate) fn carries_for(&self, other: &Self) -> bool {
        let is_wider =
            self.reliability.is_stream() && !other.reliability.is_stream() || !other.sends_trains;
        self.sends_trains && is_wider
    }

    /// A deliberate fault is in force by which content that is lost here is not sent again.
    #[inline(always)]
    pub(crate) fn forgets_lost(&self, saboteur: &Saboteur) -> bool {
        self.reliability.is_stream() && saboteur.makes(Sabotage::RangeLostAtBreak)
    }

    /// A deliberate fault is in force by which a message that came before is taken for new after a break.
    pub(crate) fn forgets_received(&self, saboteur: &Saboteur) -> bool {
        saboteur.makes(Sabotage::AcceptedAgainAfterBreak) && self.reliability.is_stream()
    }
}
