//! Looks in vain, of who asks in a loop of its own: what `asking` advises is done here.

use packhorse_proto::Instant;
use rustix::time::{ClockId, clock_gettime};

use crate::asking::{Advice, Asking, Clocks, DOZE_NS, Stir};
use crate::engine::Engine;
use crate::inner::Inner;

impl Clocks for Engine {
    #[inline]
    fn now(&self) -> Instant {
        Self::now(self) // its own, not this one
    }

    fn own_ns(&self) -> u64 {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
    }
}

/// For programs that ask in a loop of their own: what `asking` advises is done here.
impl Engine {
    /// A look found nothing: steps aside or dozes, if that is right. `is_ready`: there is something after all. Returns how much was done.
    #[inline]
    pub(crate) fn after_vain_look(
        &self,
        asking: &mut Asking,
        now: Instant,
        is_ready: impl Fn() -> bool,
    ) -> usize {
        match asking.on_nothing(now, self) {
            Advice::GoOn => 0,
            Advice::StepAside => {
                self.step_aside(asking);
                0
            }
            Advice::Doze => self.doze_unless(asking, is_ready),
        }
    }

    #[cold]
    fn step_aside(&self, asking: &mut Asking) {
        let from = self.now();
        std::thread::yield_now();
        let back_at = self.now();
        asking.on_back(from, back_at);
        self.looks.on_back();
        self.crowd.on_back(back_at - from); // for those that wait and could sleep
    }

    /// Looks, and sleeps on the links for a moment unless there is something to do or `is_ready`. If nothing came meanwhile it does not
    /// look again: it will be asked again. Returns how much was done.
    #[cold]
    fn doze_unless(&self, asking: &mut Asking, is_ready: impl Fn() -> bool) -> usize {
        let mut inner = self.lock();
        if !asking.may_doze(stir_of(&inner)) {
            self.release(inner);
            return 0;
        }
        self.helper.baton.be_patient(true);
        let now = self.now();
        self.run_errand(self.helper.baton.on_enter(now));
        let until = now + DOZE_NS;
        let mut work = 0;
        if inner.is_dozing {
            inner = self.sleep_behind(inner, now, until);
        } else {
            work = inner.turn(now);
            if work == 0 && !is_ready() {
                inner = self.sleep_on_links(inner, now, until);
                let now = self.now();
                work = if now < until { inner.turn(now) } else { 0 }; // it was woken, or was not
            }
        }
        self.stop_waiting(inner, now, false); // and comes back: nobody need wake the helper
        self.helper.baton.be_patient(false);
        asking.on_woken(self);
        work
    }
}

/// Differs when something was posted or has ended, here or at a peer that reaches into our memory. Signs of life change nothing.
fn stir_of(inner: &Inner) -> Stir {
    let counters = inner.core.rules().counters();
    let messages = counters.messages_out + counters.messages_in + counters.stream_chunks_out;
    let operations = counters.operations_out + counters.requests_in;
    [
        inner.requests.next_id().0,
        inner.requests.pending_count() as u64,
        messages + operations,
        counters.bytes_placed + counters.bytes_landed,
    ]
}
