//! Sleeping until a link has something, a timer is due, or somebody knocks.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use packhorse_proto::Instant;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

/// Descriptors to sleep on. They are copies of the links' own, so that nobody needs the engine's lock to sleep. The
/// application's threads have one, the helper another: a knock for the one must not be heard by the other.
#[derive(Debug)]
pub(crate) struct Doze {
    /// Locked by who sleeps, for reading; for writing only when the links are closed.
    fds: Arc<RwLock<Vec<OwnedFd>>>,
    knock: OwnedFd,
    /// Until when somebody sleeps at most, on the engine's clock; 0 if nobody does.
    until_ns: AtomicU64,
}

impl Doze {
    /// Over copies of the links' descriptors.
    pub(crate) fn new(fds: Vec<OwnedFd>) -> io::Result<Self> {
        let knock = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Self { fds: Arc::new(RwLock::new(fds)), knock, until_ns: AtomicU64::new(0) })
    }

    /// Over the same descriptors, with a knock of its own.
    pub(crate) fn twin(&self) -> io::Result<Self> {
        let twin = Self::new(Vec::new())?;
        Ok(Self { fds: Arc::clone(&self.fds), ..twin })
    }

    /// Calls `f` with the copies.
    pub(crate) fn with_links<R>(&self, f: impl FnOnce(&[OwnedFd]) -> R) -> R {
        f(&self.fds.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Closes the copies. Nobody may be asleep.
    pub(crate) fn forget_links(&self) {
        self.fds.write().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Somebody is about to sleep from now for at most `longest_ns`. Said under the engine's lock: whoever has it next and
    /// sets an earlier timer must know of the sleep, even if that has not begun.
    pub(crate) fn announce(&self, now: Instant, longest_ns: u64) {
        self.until_ns.store((now + longest_ns).0, Ordering::SeqCst);
    }

    /// The sleep. Early ends are fine: who sleeps looks again.
    pub(crate) fn sleep(&self, longest_ns: u64) {
        self.sleep_for(Duration::from_nanos(longest_ns));
        self.until_ns.store(0, Ordering::SeqCst);
    }

    /// Whether somebody sleeps, or is about to.
    pub(crate) fn is_asleep(&self) -> bool {
        self.until_ns.load(Ordering::SeqCst) > 0
    }

    /// A timer is due then: if somebody would sleep past it by more than a little, the sleep ends. A knock costs as
    /// much as the little, and timers are late by as much anyway.
    pub(crate) fn wake_before(&self, timeout: Instant) {
        if self.until_ns.load(Ordering::SeqCst) > (timeout + LATE_NS).0 {
            self.knock();
        }
    }

    fn sleep_for(&self, longest: Duration) {
        let links = self.fds.read().unwrap_or_else(PoisonError::into_inner);
        let mut fds: [_; FD_COUNT_MAX] =
            std::array::from_fn(|index| match index.checked_sub(1).and_then(|i| links.get(i)) {
                Some(fd) => PollFd::new(fd, PollFlags::IN | PollFlags::ERR),
                None => PollFd::new(&self.knock, PollFlags::IN),
            });
        let count = (links.len() + 1).min(FD_COUNT_MAX);
        let timeout = Timespec {
            tv_sec: longest.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: longest.subsec_nanos().into(),
        };
        // An interrupted sleep is an early end; any other error would repeat at once, so it costs a short pause.
        match poll(&mut fds[..count], Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => std::thread::sleep(longest.min(Duration::from_millis(1))),
        }
        if !fds[0].revents().is_empty() {
            let _ = rustix::io::read(&self.knock, &mut [0_u8; 8]);
        }
    }

    /// Ends the sleep of whoever sleeps, or of the next who would.
    pub(crate) fn knock(&self) {
        // The only failure is a counter at its limit, and then there is a knock to be heard.
        let _ = rustix::io::write(&self.knock, &1_u64.to_ne_bytes());
    }
}

/// So late a timer may be.
const LATE_NS: u64 = 100_000;

/// The knock and as many links; links beyond are looked at in turns only.
const FD_COUNT_MAX: usize = 9;

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    #[test]
    fn a_knock_is_heard_even_before_the_sleep() {
        let doze = Doze::new(Vec::new()).unwrap();
        doze.knock();
        doze.knock();
        let start = std::time::Instant::now();
        doze.sleep(120 * SECOND_NS);
        assert!(start.elapsed() < Duration::from_secs(60));
        doze.sleep(1000); // and both were one
    }

    #[test]
    fn an_earlier_timer_ends_the_sleep() {
        let doze = Doze::new(Vec::new()).unwrap();
        doze.wake_before(Instant(0)); // nobody sleeps: no knock
        let start = std::time::Instant::now();
        doze.announce(Instant(0), 120 * SECOND_NS);
        std::thread::scope(|threads| {
            threads.spawn(|| doze.sleep(120 * SECOND_NS));
            doze.wake_before(Instant(19 * SECOND_NS));
        });
        assert!(start.elapsed() < Duration::from_secs(60));
    }
}
