//! How much may be sent to places that never answered, for one peer.
//!
//! PROTOCOL §3.12. A peer names its locators, and each of them is asked whether the peer is there. Nothing proves that they are
//! the peer's own: it may name eight places of somebody who never heard of us. What such a place gets is therefore measured by
//! what the peer itself has sent us, as it is for strangers: three times as much at most.
//!
//! The quick ways do not count bytes. That the peer was heard since the last question is known anyway, and then one frame at
//! least has come, of the shortest length there is.

use crate::base::types::Instant;
use crate::wire::{HEADER_LEN, PING_HEAD_LEN};

/// Bytes that may go out for each that came in.
const SHARE: u32 = 3;
/// A frame is a header and one head at least.
const FRAME_LEN_MIN: u32 = (HEADER_LEN + PING_HEAD_LEN) as u32;
/// No peer is owed more, whatever it sent: about a hundred questions.
const LEN_MAX: u32 = 4096;

/// What may still go to places of one peer that never answered.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Allowance {
    len: u32,
    /// What came until then is counted: the time in units of 2^20 ns, about a millisecond, for every peer keeps it.
    counted_at: u32,
}

fn coarse(at: Instant) -> u32 {
    (at.0 >> 20) as u32
}

impl Allowance {
    /// A frame of this length came from the peer.
    pub(crate) fn on_frame(&mut self, now: Instant, frame_len: usize) {
        let frame_len = u32::try_from(frame_len).unwrap_or(LEN_MAX).min(LEN_MAX);
        self.len = (self.len + SHARE * frame_len).min(LEN_MAX);
        self.counted_at = coarse(now);
    }

    /// Takes what a question of this length costs. False: it must not be asked now.
    pub(crate) fn take(&mut self, heard_at: Instant, frame_len: usize) -> bool {
        if coarse(heard_at) != self.counted_at {
            self.on_frame(heard_at, FRAME_LEN_MIN as usize);
        }
        let left = u32::try_from(frame_len).ok().and_then(|len| self.len.checked_sub(len));
        self.len = left.unwrap_or(self.len);
        left.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::limits::MS;

    #[test]
    fn three_times_what_came_may_go() {
        let mut allowance = Allowance::default();
        assert!(!allowance.take(Instant(0), 40), "nothing came");
        allowance.on_frame(Instant(5 * MS), 40);
        let taken = (0..10).filter(|_| allowance.take(Instant(5 * MS), 40)).count();
        assert_eq!(taken, 3);
    }

    #[test]
    fn being_heard_counts_as_the_shortest_frame_and_only_once() {
        let mut allowance = Allowance::default();
        let taken =
            |allowance: &mut Allowance, at| (0..10).filter(|_| allowance.take(at, 32)).count();
        assert_eq!(taken(&mut allowance, Instant(7 * MS)), 3);
        assert_eq!(taken(&mut allowance, Instant(7 * MS)), 0, "that was counted");
        allowance.on_frame(Instant(9 * MS), 32);
        assert_eq!(taken(&mut allowance, Instant(9 * MS)), 3, "counted by its length, not twice");
    }

    #[test]
    fn no_peer_is_owed_without_end() {
        let mut allowance = Allowance::default();
        (0..1000).for_each(|at| allowance.on_frame(Instant(at), usize::MAX));
        let taken = (0..1000).filter(|_| allowance.take(Instant(999), 40)).count();
        assert_eq!(taken, (LEN_MAX / 40) as usize);
    }
}
