//! Deliberate faults, to prove that the simulator can fail.
//!
//! A proof machine that has never failed proves nothing. Behind the feature `sabotage` an endpoint can be told to
//! make one of these mistakes; a test shows that the simulator finds each. Without the feature `makes` is constant
//! and the branches vanish.

/// A mistake an endpoint can be told to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sabotage {
    /// Acknowledges one packet more than arrived.
    AckOneTooHigh,
    /// Takes the newest matching receive instead of the oldest: hands messages up as they arrive, out of turn.
    MatcherIgnoresOrder,
    /// Does not give back the budget of a message that left the unexpected list.
    CreditNeverReturned,
    /// Forgets to arm the probe timer after the first probe.
    TimerNotRearmed,
    /// Hands a message up again when its record arrives twice.
    DuplicateAccepted,
    /// Takes every cookie for valid: a late echo from a former life starts a new association.
    StaleIncarnationAccepted,
    /// Does not repeat a lost grant.
    GrantLostForGood,
    /// Places one byte less than arrived.
    TruncatedCopy,
    /// Forgets the message it refused: its turn passes.
    RefusedMessageForgotten,
    /// Says goodbye before its own messages are accepted.
    GoodbyeBeforeAcceptance,
    /// Does not notice a lost packet by order or time.
    LossNeverDetected,
    /// Completes a large receive one frame early.
    DoneTooEarly,
    /// Tells the sender of a message that was cut short that all of it was taken.
    CutNotTold,
    /// Carries out a request again when its record arrives twice.
    RequestCarriedOutAgain,
    /// Does not ask who may do what with a region.
    PermissionNotAsked,
    /// Holds bytes of a stream that its reader took from the frame.
    LentBytesHeldToo,
    /// Hands a stream over though others are ready that were begun before it.
    HandedBeforeOthers,
    /// Says of a piece of a stream that was told of, and not read, that all of it was.
    RestNotAskedFor,
    /// The stream that was begun last shows itself first.
    StreamsOutOfOrder,
    /// Never tells a sender of streams that it may go on.
    StreamCreditNeverGiven,
    /// What was in a link's stream when that broke is not sent again.
    RangeLostAtBreak,
    /// Hands a message up again that came by a link's stream before it broke, and once more after.
    AcceptedAgainAfterBreak,
    /// Takes a message out of the link that keeps it before it is accepted, and forgets it.
    TakenBeforeAcceptance,
    /// Tells of the end of a message when it is whole, though an earlier one is not.
    EndsOutOfOrder,
    /// What a peer was granted and does not send keeps others from being granted for ever.
    OverdueGrantsCount,
    /// Asks places that a peer named, and that never answered, whatever that peer itself has sent.
    NamedPlacesAskedFreely,
    /// Lingers without end for a peer that does not take what is sent to it.
    LingersForEver,
    /// Keeps the beginnings of messages whose association has ended.
    BeginningsKept,
    /// Portals: looks through the overflow list first.
    OverflowListFirst,
    /// Portals: keeps no header of what lies in an overflow entry.
    HeaderForgotten,
    /// Portals: lays each message upon the one before.
    LocalOffsetStays,
    /// Portals: leaves an entry linked that has less free than it must have.
    MinFreeIgnored,
    /// Portals: does not disable a portal that cannot take a message.
    PortalNotStopped,
    /// Portals: a disabled portal takes what matches.
    DisabledPortalTakes,
    /// Portals: leaves an entry for one use in its list.
    EntryUsedTwice,
    /// Portals: does not say that memory is free.
    FreeNotTold,
    /// Portals: cuts what must not be cut.
    CutAllTheSame,
    /// Portals: what waited for a counter moves another one twice.
    TriggerFiresAgain,
}

impl Sabotage {
    /// Every one.
    pub const ALL: &[Self] = &[
        Self::AckOneTooHigh,
        Self::MatcherIgnoresOrder,
        Self::CreditNeverReturned,
        Self::TimerNotRearmed,
        Self::DuplicateAccepted,
        Self::StaleIncarnationAccepted,
        Self::GrantLostForGood,
        Self::TruncatedCopy,
        Self::RefusedMessageForgotten,
        Self::GoodbyeBeforeAcceptance,
        Self::LossNeverDetected,
        Self::DoneTooEarly,
        Self::CutNotTold,
        Self::RequestCarriedOutAgain,
        Self::PermissionNotAsked,
        Self::LentBytesHeldToo,
        Self::HandedBeforeOthers,
        Self::RestNotAskedFor,
        Self::StreamsOutOfOrder,
        Self::StreamCreditNeverGiven,
        Self::RangeLostAtBreak,
        Self::AcceptedAgainAfterBreak,
        Self::TakenBeforeAcceptance,
        Self::EndsOutOfOrder,
        Self::OverdueGrantsCount,
        Self::NamedPlacesAskedFreely,
        Self::LingersForEver,
        Self::BeginningsKept,
        Self::OverflowListFirst,
        Self::HeaderForgotten,
        Self::LocalOffsetStays,
        Self::MinFreeIgnored,
        Self::PortalNotStopped,
        Self::DisabledPortalTakes,
        Self::EntryUsedTwice,
        Self::FreeNotTold,
        Self::CutAllTheSame,
        Self::TriggerFiresAgain,
    ];
}

/// The mistake in force.
#[derive(Debug, Default)]
pub(crate) struct Saboteur {
    #[cfg(any(test, feature = "sabotage"))]
    makes: Option<Sabotage>,
}

impl Saboteur {
    #[cfg(any(test, feature = "sabotage"))]
    pub(crate) fn set(&mut self, fault: Sabotage) {
        self.makes = Some(fault);
    }

    #[cfg(any(test, feature = "sabotage"))]
    pub(crate) fn makes(&self, fault: Sabotage) -> bool {
        self.makes == Some(fault)
    }

    #[cfg(not(any(test, feature = "sabotage")))]
    #[inline(always)]
    pub(crate) fn makes(&self, _: Sabotage) -> bool {
        false
    }
}
