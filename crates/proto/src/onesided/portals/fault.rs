//! Deliberate faults of these rules, to prove that the model beside them can fail. Without tests `makes` is constant.

use super::Portals;

/// A mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// Looks through the overflow list first.
    OverflowFirst,
    /// Keeps no header of what lies in an overflow entry.
    HeaderForgotten,
    /// Lays each message upon the one before.
    LocalOffsetStays,
    /// Does not disable a portal that cannot take a message.
    NotStopped,
    /// Leaves an entry for one use in its list.
    UsedTwice,
    /// Does not say that memory is free.
    FreeNotTold,
    /// Cuts what must not be cut.
    CutAllTheSame,
}

impl Portals {
    #[cfg(test)]
    pub(super) fn makes(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    #[cfg(not(test))]
    #[inline(always)]
    pub(super) fn makes(&self, _: Fault) -> bool {
        false
    }
}
