//! Many descriptors behind one: which of them have something.

use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};

use super::answer;

/// Something can be read, or accepted.
pub(crate) const READABLE: u32 = libc::EPOLLIN as u32;
/// Something can be written.
pub(crate) const WRITABLE: u32 = libc::EPOLLOUT as u32;
/// The other side sends no more. That a descriptor is broken is always told.
pub(crate) const ENDED: u32 = libc::EPOLLRDHUP as u32;
/// The descriptor is broken.
pub(crate) const BROKEN: u32 = (libc::EPOLLERR | libc::EPOLLHUP) as u32;

/// What is told of one descriptor.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Event {
    /// The number it was added with.
    pub(crate) key: u64,
    /// What there is: see the constants.
    pub(crate) what: u32,
}

/// An epoll descriptor: it is readable while any that was added has what was asked for. Closed descriptors leave it by
/// themselves.
#[derive(Debug)]
pub(crate) struct Poll {
    fd: OwnedFd,
}

impl Poll {
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: creates a descriptor, touches no memory.
        let fd = answer(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        // SAFETY: the descriptor is new and nobody else's.
        Ok(Self { fd: unsafe { OwnedFd::from_raw_fd(fd as RawFd) } })
    }

    pub(crate) fn add(&self, fd: impl AsFd, key: u64, what: u32) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd.as_fd(), key, what)
    }

    /// Asks for something else from now on.
    pub(crate) fn change(&self, fd: impl AsFd, key: u64, what: u32) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd.as_fd(), key, what)
    }

    fn control(&self, how: libc::c_int, fd: BorrowedFd<'_>, key: u64, what: u32) -> io::Result<()> {
        let mut event = libc::epoll_event { events: what, u64: key };
        let poll = self.fd.as_raw_fd();
        // SAFETY: the kernel reads `event`, which outlives the call.
        answer(unsafe { libc::epoll_ctl(poll, how, fd.as_raw_fd(), &raw mut event) }).map(drop)
    }

    /// What there is now, of at most `N` descriptors; those that were left out come first next time. Never waits.
    pub(crate) fn ask<const N: usize>(&self, events: &mut [Event; N]) -> io::Result<usize> {
        let mut told = [libc::epoll_event { events: 0, u64: 0 }; N];
        let (poll, at) = (self.fd.as_raw_fd(), told.as_mut_ptr());
        // SAFETY: the kernel writes at most `N` events to `told`, which outlives the call.
        let count = answer(unsafe { libc::epoll_wait(poll, at, N as libc::c_int, 0) })?;
        for (event, told) in events.iter_mut().zip(&told[..count.min(N)]) {
            *event = Event { key: told.u64, what: told.events };
        }
        Ok(count.min(N))
    }
}

impl AsFd for Poll {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
