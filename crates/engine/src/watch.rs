//! Do trains get through?
//!
//! Some paths drop what a sender hands over as a train (a tunnel, a broken driver, a middlebox) and pass single frames. The
//! protocol sees only loss, and would shrink its window for ever. So losses are held against the frames that left in
//! trains: if for several looks in a row most of them are lost, trains are switched off, and tried again much later.

use packhorse_proto::{Instant, MS, SECOND};

/// A look is taken this often at most.
const LOOK_NS: u64 = 50 * MS;
/// Bad looks in a row before trains are switched off.
const BAD_LOOK_COUNT: u32 = 3;
/// Fewer frames than this say nothing.
const FRAME_COUNT_MIN: u64 = 16;
/// Trains that were switched off are tried again after this.
const AGAIN_NS: u64 = 60 * SECOND;

/// What to do about trains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Advice {
    /// Switch them off.
    Off,
    /// Try them again.
    On,
}

/// Losses held against trains.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TrainWatch {
    looked_at: Instant,
    lost: u64,
    sent: u64,
    bad_look_count: u32,
    off_since: Option<Instant>,
}

impl TrainWatch {
    pub(crate) fn new(now: Instant) -> Self {
        Self { looked_at: now, lost: 0, sent: 0, bad_look_count: 0, off_since: None }
    }

    /// `lost`: packets lost since the start; `sent`: frames that left in trains since then.
    pub(crate) fn look(&mut self, now: Instant, lost: u64, sent: u64) -> Option<Advice> {
        if now - self.looked_at < LOOK_NS {
            return None;
        }
        if let Some(since) = self.off_since {
            if now - since < AGAIN_NS {
                return None;
            }
            *self = Self { lost, sent, ..Self::new(now) };
            return Some(Advice::On);
        }
        let (more_lost, more_sent) = (lost - self.lost, sent - self.sent);
        (self.looked_at, self.lost, self.sent) = (now, lost, sent);
        if more_sent < FRAME_COUNT_MIN {
            return None; // says nothing, for good or ill
        }
        self.bad_look_count = if more_lost * 2 > more_sent { self.bad_look_count + 1 } else { 0 };
        if self.bad_look_count < BAD_LOOK_COUNT {
            return None;
        }
        self.off_since = Some(now);
        Some(Advice::Off)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trains_that_are_lost_are_given_up_and_tried_again() {
        let mut watch = TrainWatch::new(Instant(0));
        let at = |look: u64| Instant(look * LOOK_NS);
        assert_eq!(watch.look(at(1), 90, 100), None);
        assert_eq!(watch.look(at(2), 180, 200), None);
        assert_eq!(watch.look(at(3), 270, 300), Some(Advice::Off));
        assert_eq!(watch.look(at(4), 270, 300), None, "said once");
        let later = at(3) + AGAIN_NS;
        assert_eq!(watch.look(later, 270, 300), Some(Advice::On));
        assert_eq!(watch.look(later + LOOK_NS, 270, 1000), None, "they pass now");
    }

    #[test]
    fn ordinary_loss_is_no_reason() {
        let mut watch = TrainWatch::new(Instant(0));
        for look in 1..100 {
            assert_eq!(watch.look(Instant(look * LOOK_NS), look * 10, look * 100), None);
        }
        // Nor is total loss on a path that carries no trains.
        let mut watch = TrainWatch::new(Instant(0));
        for look in 1..100 {
            assert_eq!(watch.look(Instant(look * LOOK_NS), look * 100, 0), None);
        }
    }
}
