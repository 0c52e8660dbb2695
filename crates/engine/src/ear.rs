//! Where the helper sleeps: until somebody knocks, a time is over, or a link has something, if it is to hear that.
//!
//! An epoll instance, so that a thread that leaves can have the helper listen to the links without waking it. Links fire once
//! each time they are armed and are silent otherwise: beside a thread that drives, at most one frame wakes the helper in vain.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use packhorse_proto::Instant;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, epoll, eventfd, poll};

use crate::doze::LATE_NS;

const KNOCK: u64 = 0;
const LINK: u64 = 1;
/// A knock and eight links.
const EVENT_COUNT_MAX: usize = 9;
const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// The helper's place to sleep.
#[derive(Debug)]
pub(crate) struct Ear {
    epoll: OwnedFd,
    knock: OwnedFd,
    /// Until when the helper sleeps at most, on the engine's clock; 0 if it does not.
    until_ns: AtomicU64,
}

impl Ear {
    /// Over copies of the links' descriptors, which do not wake it yet.
    pub(crate) fn new(links: &[OwnedFd]) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let knock = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        epoll::add(&epoll, &knock, epoll::EventData::new_u64(KNOCK), epoll::EventFlags::IN)?;
        for link in links {
            let silent = epoll::EventFlags::ONESHOT;
            epoll::add(&epoll, link, epoll::EventData::new_u64(LINK), silent)?;
        }
        Ok(Self { epoll, knock, until_ns: AtomicU64::new(0) })
    }

    /// The next thing that each link has, or what it has already, ends the sleep.
    pub(crate) fn arm(&self, links: &[OwnedFd]) {
        let once = epoll::EventFlags::IN | epoll::EventFlags::ONESHOT;
        for link in links {
            // A link that cannot be waited for is looked at when the helper looks around.
            let _ = epoll::modify(&self.epoll, link, epoll::EventData::new_u64(LINK), once);
        }
    }

    /// The helper is about to sleep from now for at most `longest`. Said before its last look, as all who sleep do: whoever sets
    /// an earlier timer behind that knows of the sleep.
    pub(crate) fn announce(&self, now: Instant, longest: Duration) {
        let longest_ns = longest.as_nanos().min(u64::MAX.into()) as u64;
        self.until_ns.store((now + longest_ns).0, Ordering::SeqCst);
    }

    /// It does not sleep after all.
    pub(crate) fn wake(&self) {
        self.until_ns.store(0, Ordering::SeqCst);
    }

    /// The sleep. True: a link has something. Early ends are fine: who sleeps looks again.
    pub(crate) fn sleep(&self, longest: Duration) -> bool {
        let timeout = Timespec {
            tv_sec: longest.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: longest.subsec_nanos().into(),
        };
        // Waited for in two steps: old systems wait for whole milliseconds on an epoll instance itself.
        let mut fds = [PollFd::new(&self.epoll, PollFlags::IN)];
        let is_woken = match poll(&mut fds, Some(&timeout)) {
            Ok(count) => count > 0,
            Err(rustix::io::Errno::INTR) => false,
            // Any other error would repeat at once.
            Err(_) => {
                std::thread::sleep(longest.min(Duration::from_millis(1)));
                false
            }
        };
        self.until_ns.store(0, Ordering::SeqCst);
        is_woken && self.take_events()
    }

    /// Forgets what woke it. True: there was a link among it.
    fn take_events(&self) -> bool {
        let mut events = [const { MaybeUninit::uninit() }; EVENT_COUNT_MAX];
        let Ok((events, _)) = epoll::wait(&self.epoll, &mut events, Some(&NOW)) else {
            return false;
        };
        let mut is_called = false;
        for event in events.iter() {
            match event.data.u64() {
                KNOCK => drop(rustix::io::read(&self.knock, &mut [0_u8; 8])),
                _ => is_called = true,
            }
        }
        is_called
    }

    /// A timer is due then: if the helper would sleep past it by more than a little, its sleep ends.
    pub(crate) fn wake_before(&self, timeout: Instant) {
        if self.until_ns.load(Ordering::SeqCst) > (timeout + LATE_NS).0 {
            self.knock();
        }
    }

    /// Ends the helper's sleep, or its next one.
    pub(crate) fn knock(&self) {
        // The only failure is a counter at its limit, and then there is a knock to be heard.
        let _ = rustix::io::write(&self.knock, &1_u64.to_ne_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(20);

    fn link() -> OwnedFd {
        eventfd(0, EventfdFlags::NONBLOCK).unwrap()
    }

    #[test]
    fn links_are_heard_once_each_time_they_are_armed() {
        let links = [link()];
        let ear = Ear::new(&links).unwrap();
        rustix::io::write(&links[0], &1_u64.to_ne_bytes()).unwrap();
        assert!(!ear.sleep(Duration::from_millis(1)), "not armed");
        ear.arm(&links);
        assert!(ear.sleep(LONG), "what is there already counts");
        assert!(!ear.sleep(Duration::from_millis(1)), "once");
    }

    #[test]
    fn a_knock_is_heard_even_before_the_sleep_and_is_no_call() {
        let ear = Ear::new(&[]).unwrap();
        ear.knock();
        ear.knock();
        assert!(!ear.sleep(LONG));
        assert!(!ear.sleep(Duration::from_micros(1)), "and both were one");
    }

    #[test]
    fn an_earlier_timer_ends_the_sleep() {
        let ear = Ear::new(&[]).unwrap();
        ear.wake_before(Instant(0)); // nobody sleeps: no knock
        ear.announce(Instant(0), LONG);
        ear.wake_before(Instant(19_000_000_000));
        assert!(!ear.sleep(LONG));
    }
}
