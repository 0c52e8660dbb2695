//! A descriptor for event loops: readable when it is worth asking the engine.
//!
//! ```text
//!   while arm() says no: ask (test, turn, poll a queue)      ──▶   sleep on the descriptor   ──▶   ask
//! ```
//!
//! An epoll instance, which can itself be waited for, over three things: an event that the engine rings when a request ended;
//! and, where no helper drives, the links and a timer, so that whoever sleeps in a loop of its own is woken by what it would
//! have to drive. Links fire once each time they are armed: with a helper they are not, and no frame wakes two threads.
//!
//! The order of `arm` is that of all who sleep: say so, then look once more. Both under the engine's lock, as ringing is.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

/// The descriptor and what is behind it.
#[derive(Debug)]
pub(crate) struct Bell {
    epoll: OwnedFd,
    news: OwnedFd,
    timer: OwnedFd,
}

/// Neither event nor timer is asked which it was.
const ANY: epoll::EventData = epoll::EventData::new_u64(0);

impl Bell {
    pub(crate) fn new(links: &[OwnedFd]) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let news = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        epoll::add(&epoll, &news, ANY, epoll::EventFlags::IN)?;
        epoll::add(&epoll, &timer, ANY, epoll::EventFlags::IN)?;
        for link in links {
            epoll::add(&epoll, link, ANY, epoll::EventFlags::ONESHOT)?; // silent until armed
        }
        Ok(Self { epoll, news, timer })
    }

    /// What is waited for.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    /// Something ended.
    pub(crate) fn ring(&self) {
        // The only failure is a counter at its limit, and then it has been rung.
        let _ = rustix::io::write(&self.news, &1_u64.to_ne_bytes());
    }

    /// Forgets what was rung before, and a timer.
    pub(crate) fn clear(&self) {
        let _ = rustix::io::read(&self.news, &mut [0_u8; 8]);
        self.set_timer(0);
    }

    /// 0: never.
    pub(crate) fn set_timer(&self, ns: u64) {
        let never = Timespec { tv_sec: 0, tv_nsec: 0 };
        let it_value =
            Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as i64 };
        let timer = Itimerspec { it_interval: never, it_value };
        let _ = timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &timer);
    }

    pub(crate) fn arm_links(&self, links: &[OwnedFd]) -> io::Result<()> {
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ONESHOT;
        links.iter().try_for_each(|link| Ok(epoll::modify(&self.epoll, link, ANY, flags)?))
    }
}
