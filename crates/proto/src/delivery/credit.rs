//! How much of eager messages may be on its way to a peer: what the peer says it would hold (PROTOCOL §5.5).

/// What a peer would hold, and what is on its way there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Credit {
    /// Cost of eager messages in flight ([`eager_cost`]).
    in_flight: u64,
    len: u64,
}

/// What is kept of a peer's credit while nothing is on its way there, in kilobytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CreditRest(u8);

impl CreditRest {
    /// Before the first advice of a peer.
    pub(crate) const INITIAL: Self = Self(64);
    /// So much of short messages always goes: who had no room may have some by now, and refuses what it has none for.
    const LEAST: Self = Self(4);
}

impl Credit {
    pub(crate) const fn from_rest(rest: CreditRest) -> Self {
        Self { in_flight: 0, len: (rest.0 as u64) << 10 }
    }

    /// No more than of a peer that is not known: others may come to it meanwhile.
    pub(crate) fn rest(self) -> CreditRest {
        let (least, most) = (CreditRest::LEAST.0.into(), CreditRest::INITIAL.0.into());
        CreditRest((self.len >> 10).clamp(least, most) as u8)
    }

    /// Whether something of this cost may go. One at a time always may: the peer refuses what it has no room for.
    #[inline(always)]
    pub(crate) fn allows(self, cost: u64) -> bool {
        self.in_flight == 0 || self.in_flight + cost <= self.len
    }

    /// What the peer would hold if nothing were on its way.
    pub(crate) fn len(self) -> u64 {
        self.len
    }

    /// Whether the peer would hold so many bytes beside all that is on its way.
    pub(crate) fn has_room_for(self, len: u64) -> bool {
        self.in_flight + len <= self.len
    }

    /// What may go of something that can be divided. Some of it always may where nothing is on its way.
    pub(crate) fn room(self) -> u64 {
        let room = self.len.saturating_sub(self.in_flight);
        if self.in_flight == 0 { room.max(1) } else { room }
    }

    /// A message goes, at this cost.
    #[inline(always)]
    pub(crate) fn on_sent(&mut self, cost: u64) {
        self.in_flight += cost;
    }

    /// A message of this cost arrived, was lost, or is not wanted any more.
    #[inline(always)]
    pub(crate) fn on_settled(&mut self, cost: u64) {
        self.in_flight = self.in_flight.saturating_sub(cost);
    }

    /// The peer says what it would hold.
    #[inline(always)]
    pub(crate) fn on_told(&mut self, len: u32) {
        self.len = u64::from(len);
    }
}

/// What a receiver has room for, to be shared among the peers it has something under way with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    /// What it would hold itself.
    pub(crate) held_len: u64,
    /// What the links that lose frames hold until it has time for them.
    pub(crate) unasked_len: u64,
    pub(crate) peer_count: u32,
}

impl Share {
    /// A peer's part, for what comes by this kind of link.
    #[inline(always)]
    pub(super) fn by(self, is_reliable: bool) -> u32 {
        let len = if is_reliable { self.held_len } else { self.held_len.min(self.unasked_len) };
        // A division costs as much as all the rest, and most have one peer.
        let part = if self.peer_count <= 1 { len } else { len / u64::from(self.peer_count) };
        part.min(u64::from(u32::MAX)) as u32
    }
}

/// What an eager record counts against the peer's credit: its payload and a share of an envelope.
pub(crate) fn eager_cost(len: u32) -> u64 {
    u64::from(len) + 64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_bounded_by_what_its_link_holds() {
        let share = Share { held_len: 64 << 20, unasked_len: 100_000, peer_count: 1 };
        assert_eq!((share.by(true), share.by(false)), (64 << 20, 100_000));
        let of_four = Share { peer_count: 4, ..share };
        assert_eq!((of_four.by(true), of_four.by(false)), (16 << 20, 25_000));
        let full = Share { held_len: 500, ..of_four };
        assert_eq!(full.by(false), 125, "nor by more than would be held");
        let endless = Share { held_len: u64::MAX, ..share };
        assert_eq!(endless.by(true), u32::MAX);
    }

    #[test]
    fn what_the_peer_would_hold_may_go_and_one_at_a_time_always() {
        let mut credit = Credit::from_rest(CreditRest::INITIAL);
        credit.on_told(1000);
        assert!(credit.allows(5000), "nothing is on its way");
        assert!(!credit.has_room_for(5000), "though the peer would not hold it");
        credit.on_sent(600);
        assert!(credit.allows(400) && !credit.allows(401));
        assert!(credit.has_room_for(400) && !credit.has_room_for(401));
        credit.on_told(100);
        assert!(!credit.allows(1), "the peer took its word back");
        assert_eq!(credit.room(), 0);
        credit.on_settled(500);
        assert!(!credit.allows(1));
        credit.on_settled(5000);
        assert!(credit.allows(u64::MAX));
        assert_eq!(credit.room(), 100);
        credit.on_told(0);
        assert_eq!(credit.room(), 1, "something may go");
        for (told, kept) in [(0, 4 << 10), (9000, 8 << 10), (1 << 20, 64 << 10)] {
            credit.on_told(told);
            assert_eq!(Credit::from_rest(credit.rest()).room(), kept);
        }
    }
}
