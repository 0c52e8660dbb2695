//! Sleeping until a link has something, a timer is due, or somebody knocks.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

/// Descriptors to sleep on. They are copies of the links' own, so that nobody needs the engine's lock to sleep.
#[derive(Debug)]
pub(crate) struct Doze {
    /// Locked by who sleeps, for reading; for writing only when the links are closed.
    fds: RwLock<Vec<OwnedFd>>,
    knock: OwnedFd,
}

impl Doze {
    /// Over copies of the links' descriptors.
    pub(crate) fn new(fds: Vec<OwnedFd>) -> io::Result<Self> {
        let knock = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Self { fds: RwLock::new(fds), knock })
    }

    /// Closes the copies. Nobody may be asleep.
    pub(crate) fn forget_links(&self) {
        self.fds.write().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Sleeps at most this long. Early ends are fine: who sleeps looks again.
    pub(crate) fn sleep(&self, longest: Duration) {
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

/// The knock and as many links; links beyond are looked at in turns only.
const FD_COUNT_MAX: usize = 9;

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn a_knock_is_heard_even_before_the_sleep() {
        let doze = Doze::new(Vec::new()).unwrap();
        doze.knock();
        doze.knock();
        let start = Instant::now();
        doze.sleep(Duration::from_secs(20));
        assert!(start.elapsed() < Duration::from_secs(10));
        doze.sleep(Duration::from_millis(1)); // and both were one
    }
}
