//! What others may read of a path. What it does not show here is nobody else's concern, and what it shows only `delivery` changes.

use super::*;

impl Path {
    /// Our link that its frames leave by.
    #[inline(always)]
    pub(crate) fn link(&self) -> u8 {
        self.link
    }

    /// Where its frames go.
    #[inline(always)]
    pub(crate) fn locator(&self) -> &Locator {
        &self.locator
    }

    #[inline(always)]
    pub(crate) fn standing(&self) -> Standing {
        self.standing
    }

    /// Our packets that are on their way.
    #[inline(always)]
    pub(crate) fn flight(&self) -> &Flight {
        &self.flight
    }

    /// The peer's packets that have come.
    #[inline(always)]
    pub(crate) fn received(&self) -> &Received {
        &self.received
    }

    #[inline(always)]
    pub(crate) fn rtt(&self) -> &Rtt {
        &self.rtt
    }

    /// The longest frame that may leave now.
    #[inline(always)]
    pub(crate) fn frame_len(&self) -> u16 {
        self.frame_len
    }

    /// The longest frame that both ends and the link take; the way between may take less.
    #[inline(always)]
    pub(crate) fn frame_len_max(&self) -> u16 {
        self.frame_len_max
    }

    /// Something that came is not acknowledged yet.
    #[inline(always)]
    pub(crate) fn owes_ack(&self) -> bool {
        self.ack_pending_count > 0
    }

    /// The acknowledgement that is owed must leave now.
    #[inline(always)]
    pub(crate) fn is_ack_urgent(&self) -> bool {
        self.ack_at_once
    }

    /// A message went before the acknowledgement that is owed: the next may not.
    #[inline(always)]
    pub(crate) fn has_ack_waited(&self) -> bool {
        self.ack_waited
    }

    /// When the acknowledgement that is owed must leave; `NEVER`: none is owed, or it is urgent already.
    #[inline(always)]
    pub(crate) fn ack_due(&self) -> Instant {
        self.ack_due
    }

    /// The peer is to be asked for a sign of life, or for a round trip.
    #[inline(always)]
    pub(crate) fn is_probe_due(&self) -> bool {
        self.probe_now
    }

    /// Probes since the last sign of life on this path.
    #[inline(always)]
    pub(crate) fn probe_count(&self) -> u32 {
        self.probe_count
    }

    /// Since other paths were asked for a sign of life, none came, if this is when the peer was last heard.
    pub(crate) fn others_were_asked_since(&self, heard_at: Instant) -> bool {
        heard_at <= self.others_asked_at
    }

    /// How often it was asked to prove itself.
    pub(crate) fn challenge_count(&self) -> u32 {
        self.challenge_count
    }

    /// This is the nonce of its latest challenge, which is not answered yet.
    pub(crate) fn is_answer(&self, nonce: u64) -> bool {
        self.challenge_deadline() != Instant::NEVER && self.challenge_nonce == nonce && nonce != 0
    }

    /// Where frames of this path came from that was asked whether it is the peer.
    pub(crate) fn candidate(&self) -> Option<Candidate> {
        self.candidate
    }

    /// Our link by which frames of the peer's path of this number come.
    #[inline(always)]
    pub(crate) fn source_link(&self) -> u8 {
        self.source_link
    }

    /// Where those frames come from.
    pub(crate) fn source(&self) -> &Locator {
        &self.source
    }

    /// The number of our path that leads to where those frames come from, or [`NO_PATH`].
    #[inline(always)]
    pub(crate) fn back(&self) -> u8 {
        self.back
    }

    /// Whether those frames state sums of their bodies, if any came.
    #[inline(always)]
    pub(crate) fn is_checked_in(&self) -> Option<bool> {
        self.is_checked_in
    }

    /// Payload of their full Data frames; 0: not known.
    #[inline(always)]
    pub(crate) fn data_len_in(&self) -> u16 {
        self.data_len_in
    }

    /// Bodies of what is sent here are summed.
    #[inline(always)]
    pub(crate) fn payload_check(&self) -> bool {
        self.payload_check
    }

    /// Only its two ends can write to its link.
    #[inline(always)]
    pub(crate) fn is_private(&self) -> bool {
        self.is_private
    }

    /// What is announced there says where it is (PROTOCOL §8.10).
    #[inline(always)]
    pub(crate) fn can_fetch(&self) -> bool {
        self.can_fetch
    }

    /// What the peer takes there instead of a check (PROTOCOL §14.6); 0: nothing.
    #[inline(always)]
    pub(crate) fn pass(&self) -> u64 {
        self.pass
    }

    /// Its link sends many frames in one go.
    #[inline(always)]
    pub(crate) fn sends_trains(&self) -> bool {
        self.sends_trains
    }

    /// Only announced messages take it (PROTOCOL §16.6).
    #[inline(always)]
    pub(crate) fn is_for_bulk(&self) -> bool {
        self.is_for_bulk
    }

    /// Both its ends have another path (PROTOCOL §10.2).
    #[inline(always)]
    pub(crate) fn is_spare(&self) -> bool {
        self.is_spare
    }

    /// The card it leaves by, as the driver counts them; 0: not known.
    #[inline(always)]
    pub(crate) fn card(&self) -> u16 {
        self.card
    }

    /// Another link over the same card carries data (PROTOCOL §10.4).
    #[inline(always)]
    pub(crate) fn yields_data(&self) -> bool {
        self.yields_data
    }

    /// What it has carried while data went by its link.
    pub(crate) fn stint(&self) -> Stint {
        self.stint
    }
}
