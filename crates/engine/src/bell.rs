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

use packhorse_proto::Instant;
use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use crate::engine::{Engine, Inner, Placement};

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

    /// Something ended.
    pub(crate) fn ring(&self) {
        // The only failure is a counter at its limit, and then it has been rung.
        let _ = rustix::io::write(&self.news, &1_u64.to_ne_bytes());
    }

    /// Forgets what was rung before, and a timer.
    fn clear(&self) {
        let _ = rustix::io::read(&self.news, &mut [0_u8; 8]);
        self.set_timer(0);
    }

    /// 0: never.
    fn set_timer(&self, ns: u64) {
        let never = Timespec { tv_sec: 0, tv_nsec: 0 };
        let it_value =
            Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as i64 };
        let timer = Itimerspec { it_interval: never, it_value };
        let _ = timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &timer);
    }

    fn arm_links(&self, links: &[OwnedFd]) -> io::Result<()> {
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ONESHOT;
        links.iter().try_for_each(|link| Ok(epoll::modify(&self.epoll, link, ANY, flags)?))
    }
}

impl Engine {
    /// Readable when it is worth asking, if it was armed before.
    pub fn wake_fd(&self) -> BorrowedFd<'_> {
        self.bell.epoll.as_fd()
    }

    /// Before sleeping on `wake_fd`: from now on it becomes readable when a request ends; without a helper also when the
    /// engine should be turned. False: there may be something already, so ask before sleeping. To be said before each sleep.
    pub fn arm(&self) -> bool {
        self.arm_if(|_| true)
    }

    /// The same, unless there is something to be asked for.
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
        let errand = self.hand_over(&mut inner, true);
        self.release(inner);
        self.run_errand(errand);
        is_armed
    }

    /// The lock is given up while somebody sleeps in a loop of its own, or is about to: it is rung for news. A turn made meanwhile
    /// has told the links that nobody sleeps; somebody does.
    #[cold]
    pub(crate) fn keep_bell(&self, inner: &mut Inner, has_news: bool) {
        let must_ring = has_news || (!self.helper.baton.is_present() && !inner.core.arm());
        if must_ring {
            inner.is_bell_armed = false;
            self.bell.ring();
        }
    }

    /// Nobody else drives: all that would make a turn worth while must wake the sleeper.
    fn arm_as_driver(&self, inner: &mut Inner, now: Instant) -> bool {
        // A turn now, so that what can be done is done, and what was ended by it is told.
        if inner.turn(now) > 0 || !inner.core.arm() {
            return false;
        }
        let sleep_ns = crate::waiting::sleep_ns(inner, now);
        self.bell.set_timer(sleep_ns.max(1));
        self.doze.with_links(|links| self.bell.arm_links(links)).is_ok()
    }
}
