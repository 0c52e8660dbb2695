//! Sleeping in a loop of one's own, on the engine's descriptor (`bell`).

use std::os::fd::BorrowedFd;

use packhorse_proto::Instant;

use crate::engine::{Engine, Placement};
use crate::inner::Inner;

impl Engine {
    /// Readable when it is worth asking, if it was armed before.
    pub fn wake_fd(&self) -> BorrowedFd<'_> {
        self.bell.fd()
    }

    /// Before sleeping on `wake_fd`: from now on it becomes readable when a request ends; without a helper also when the
    /// engine should be turned. False: there may be something already, so ask before sleeping. To be said before each sleep.
    pub fn arm(&self) -> bool {
        self.arm_if(|_| true)
    }

    /// Arms `wake_fd`, unless there is something to be asked for.
    pub(crate) fn arm_if(&self, is_nothing_there: impl FnOnce(&mut Inner) -> bool) -> bool {
        let mut inner = self.lock();
        self.bell.clear();
        let now = self.now();
        let is_armed = match self.placement() {
            Placement::Thread => true,
            Placement::Inline => self.arm_as_driver(&mut inner, now),
        };
        inner.is_bell_armed = is_armed && is_nothing_there(&mut inner);
        let is_armed = inner.is_bell_armed;
        self.release(inner);
        self.run_errand(self.helper.baton.on_pending(true));
        is_armed
    }

    /// Nobody else drives: all that would make a turn worth while must wake the sleeper.
    fn arm_as_driver(&self, inner: &mut Inner, now: Instant) -> bool {
        // A turn now, so that what can be done is done, and what was ended by it is told.
        if inner.turn(now) > 0 || !inner.core.arm() {
            return false;
        }
        let sleep_ns = inner.sleep_ns(now);
        self.bell.set_timer(sleep_ns.max(1));
        self.doze.with_links(|links| self.bell.arm_links(links)).is_ok()
    }
}
