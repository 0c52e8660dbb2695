//! How much of eager messages may be on its way to a peer: what the peer says it would hold (PROTOCOL §5.5).

/// What a peer would hold, and what is on its way there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Credit {
    /// Cost of eager messages in flight ([`eager_cost`](crate::turns::eager_cost)).
    in_flight: u64,
    len: u64,
}

impl Credit {
    /// Before the first advice of a peer.
    pub(crate) const INITIAL: Self = Self { in_flight: 0, len: 64 << 10 };

    /// Whether something of this cost may go. One at a time always may: the peer refuses what it has no room for.
    #[inline(always)]
    pub(crate) fn allows(self, cost: u64) -> bool {
        self.in_flight == 0 || self.in_flight + cost <= self.len
    }

    /// What may go of something that can be divided. Some of it always may where nothing is on its way.
    pub(crate) fn room(self) -> u64 {
        let room = self.len.saturating_sub(self.in_flight);
        if self.in_flight == 0 { room.max(1) } else { room }
    }

    /// It goes.
    #[inline(always)]
    pub(crate) fn on_sent(&mut self, cost: u64) {
        self.in_flight += cost;
    }

    /// It arrived, was lost, or is not wanted any more.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_peer_would_hold_may_go_and_one_at_a_time_always() {
        let mut credit = Credit::INITIAL;
        credit.on_told(1000);
        assert!(credit.allows(5000), "nothing is on its way");
        credit.on_sent(600);
        assert!(credit.allows(400) && !credit.allows(401));
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
    }
}
