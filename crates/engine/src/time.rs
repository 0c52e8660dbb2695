//! The time of a turn. Who looks again and again finds nothing most of the time, and reading the clock takes as long as a look at a
//! link in memory. So such a turn is given the time of an earlier look, and reads the clock when something has arrived: what
//! round trips and delays are measured by is never old.

use packhorse_proto::Instant;

/// What time it is in the turn there is.
pub(crate) struct TurnTime {
    now: Instant,
    /// The time is that of an earlier look.
    is_old: bool,
    clock: Option<Box<dyn Fn() -> Instant + Send>>,
}

impl TurnTime {
    pub(crate) fn new(now: Instant) -> Self {
        Self { now, is_old: false, clock: None }
    }

    /// What is read; without one no time counts as old.
    pub(crate) fn set_clock(&mut self, clock: Box<dyn Fn() -> Instant + Send>) {
        self.clock = Some(clock);
    }

    /// The next turn's time is that of an earlier look.
    pub(crate) fn be_old(&mut self) {
        self.is_old = self.clock.is_some();
    }

    /// A turn begins.
    #[inline]
    pub(crate) fn begin(&mut self, now: Instant) {
        self.now = now;
    }

    #[inline]
    pub(crate) fn now(&self) -> Instant {
        self.now
    }

    /// Something arrived in a turn that began then: what time it is.
    #[inline]
    pub(crate) fn on_arrival(&mut self, now: Instant) -> Instant {
        if self.is_old
            && let Some(clock) = &self.clock
        {
            (self.now, self.is_old) = (clock(), false);
        }
        self.now.max(now)
    }

    /// The turn is over.
    #[inline]
    pub(crate) fn end(&mut self) {
        self.is_old = false;
    }
}

/// The system's monotonic clock. Read at every turn: plainer than `std::time::Instant`, which checks each subtraction.
#[inline]
pub(crate) fn monotonic_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_time_is_made_new_by_the_first_arrival_only() {
        let mut time = TurnTime::new(Instant(1));
        time.be_old();
        time.begin(Instant(2));
        assert_eq!(time.on_arrival(Instant(2)), Instant(2), "there is no clock");
        time.set_clock(Box::new(|| Instant(50)));
        time.begin(Instant(3));
        assert_eq!(time.on_arrival(Instant(3)), Instant(3), "it was not old");
        time.be_old();
        time.begin(Instant(4));
        assert_eq!((time.now(), time.on_arrival(Instant(4))), (Instant(4), Instant(50)));
        time.set_clock(Box::new(|| unreachable!("read once a turn")));
        assert_eq!((time.now(), time.on_arrival(Instant(4))), (Instant(50), Instant(50)));
        time.be_old();
        time.end();
        time.begin(Instant(60));
        assert_eq!(time.on_arrival(Instant(60)), Instant(60));
    }
}
