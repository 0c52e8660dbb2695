//! What the rooms above have of a peer, counted.
//!
//! As long as there is any, the peer's row stays known (PROTOCOL §3.15); and of whom something is waited for is asked now and then whether it lives (§4.2).

use crate::base::slab::NONE;

/// What hangs on one row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ties {
    /// Posted receives that name the peer as their source.
    directed_count: u32,
    /// Of the arrivals of the peer, whatever their stage, the one that came last: each knows the one before. NONE: there are none.
    newest_kept: u32,
    /// How many of them are known by their numbers: they wait for their turn, or for more of their bytes.
    arrival_count: u32,
    /// The peer's places in lists of those who may use a region.
    permitted_count: u32,
}

impl Default for Ties {
    fn default() -> Self {
        Self { directed_count: 0, newest_kept: NONE, arrival_count: 0, permitted_count: 0 }
    }
}

impl Ties {
    /// The application waits for the peer, or has not yet taken what it sent, or lets it use a region.
    pub(super) fn hold_row(&self) -> bool {
        self.directed_count > 0 || self.newest_kept != NONE || self.permitted_count > 0
    }

    /// Something of the peer's is waited for.
    pub(super) fn are_waiting(&self) -> bool {
        self.directed_count > 0 || self.arrival_count > 0
    }
}

/// Receives.
impl Ties {
    /// A receive is posted that names the peer.
    #[inline(always)]
    pub(super) fn on_directed(&mut self) {
        self.directed_count += 1;
    }

    /// Such a receive is posted no more.
    #[inline(always)]
    pub(crate) fn on_directed_over(&mut self) {
        self.directed_count -= 1;
    }

    /// Whether there are such receives.
    pub(crate) fn has_directed(&self) -> bool {
        self.directed_count > 0
    }
}

/// Arrivals.
impl Ties {
    /// The message of the peer that came last of those that are here, or NONE.
    #[inline(always)]
    pub(crate) fn newest_kept(&self) -> u32 {
        self.newest_kept
    }

    /// Another is the newest, or NONE is here any more.
    #[inline(always)]
    pub(crate) fn set_newest_kept(&mut self, slot: u32) {
        self.newest_kept = slot;
    }

    /// A message is known by its number from now on.
    #[inline(always)]
    pub(crate) fn on_numbered(&mut self) {
        self.arrival_count += 1;
    }

    /// A message is not known by its number any more.
    #[inline(always)]
    pub(crate) fn on_number_over(&mut self) {
        self.arrival_count -= 1;
    }

    /// Whether messages are known by their numbers: one of them may be the next.
    #[inline(always)]
    pub(crate) fn has_numbered(&self) -> bool {
        self.arrival_count > 0
    }
}

/// Regions.
impl Ties {
    /// A list of those who may use a region names the peer.
    pub(crate) fn on_permitted(&mut self) {
        self.permitted_count = self.permitted_count.saturating_add(1);
    }

    /// Such a list is gone.
    pub(crate) fn on_permitted_over(&mut self) {
        self.permitted_count = self.permitted_count.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_tie_holds_the_row_and_those_that_are_waited_for_wait() {
        let mut ties = Ties::default();
        assert!(!ties.hold_row() && !ties.are_waiting());
        ties.on_directed();
        assert!(ties.hold_row() && ties.are_waiting() && ties.has_directed());
        ties.on_directed_over();
        ties.set_newest_kept(5);
        assert!(ties.hold_row() && !ties.are_waiting(), "it is here");
        ties.on_numbered();
        assert!(ties.has_numbered() && ties.are_waiting(), "more of it is to come");
        ties.on_number_over();
        ties.set_newest_kept(NONE);
        ties.on_permitted();
        assert!(ties.hold_row() && !ties.are_waiting());
        ties.on_permitted_over();
        ties.on_permitted_over();
        assert!(!ties.hold_row());
    }
}
