//! The endpoints that tell a queue or a counter of their ends. Whoever reads it gives them time.

use std::ffi::{c_int, c_void};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use packhorse::raw::Completions;
use rustix::event::{EventfdFlags, epoll, eventfd};

use crate::abi::kind;
use crate::common;
use crate::cq::Reader;
use crate::port::{Port, lock};

/// With several endpoints no one may be slept on for longer than this.
const SHARED_WAIT: Duration = Duration::from_micros(100);
/// Who waits looks this often at what does not go through an engine.
const LOOK: Duration = Duration::from_millis(10);

/// The open endpoints bound to something.
#[derive(Default)]
pub(crate) struct Ports {
    list: RwLock<Vec<Arc<Port>>>,
    bell: Option<Bell>,
}

/// For who sleeps in a loop of its own.
struct Bell {
    /// Readable when one of the endpoints' descriptors is, or `told`.
    epoll: OwnedFd,
    /// The queue or counter was told of something. The endpoints' descriptors do not tell of all that: an end may be told with its
    /// post, and one that another thread took from the engine is no news there any more.
    told: OwnedFd,
    /// Somebody sleeps, or is about to.
    is_awaited: AtomicBool,
}

impl Bell {
    fn new() -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let told = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        epoll::add(&epoll, &told, epoll::EventData::new_u64(0), epoll::EventFlags::IN)?;
        Ok(Self { epoll, told, is_awaited: AtomicBool::new(false) })
    }

    /// Forgets what was told before. Whoever is told something from now on rings; who is to sleep looks once more after this.
    fn arm(&self) {
        let _ = rustix::io::read(&self.told, &mut [0_u8; 8]); // fails if there is nothing to forget
        self.is_awaited.store(true, Ordering::SeqCst);
    }

    #[cold]
    fn ring(&self) {
        if self.is_awaited.swap(false, Ordering::SeqCst) {
            // The only failure is a counter at its limit, and then it has been rung.
            let _ = rustix::io::write(&self.told, &1_u64.to_ne_bytes());
        }
    }
}

impl Ports {
    /// With what a queue or a counter is to be waited for by; a negative code if that is not to be had.
    pub(crate) fn to_wait_by(object: u32) -> Result<Self, c_int> {
        match object {
            kind::WAIT_NONE | kind::WAIT_YIELD => Ok(Self::default()),
            kind::WAIT_UNSPEC | kind::WAIT_FD => {
                Self::with_bell().map_err(|error| -error.raw_os_error().unwrap_or(libc::EIO))
            }
            _ => Err(-libc::ENOSYS),
        }
    }

    /// With a descriptor to be slept on.
    fn with_bell() -> io::Result<Self> {
        Ok(Self { list: RwLock::default(), bell: Some(Bell::new()?) })
    }

    /// `fi_control` of what they are bound to.
    ///
    /// # Safety
    /// `argument` must be null, or as the command wants it.
    pub(crate) unsafe fn control(&self, what: c_int, argument: *mut c_void) -> c_int {
        // SAFETY: says the caller.
        unsafe { common::control_wait(self.bell.as_ref().map(|bell| &bell.epoll), what, argument) }
    }

    pub(crate) fn add(&self, port: &Arc<Port>) {
        let mut ports = self.list.write().unwrap_or_else(PoisonError::into_inner);
        if ports.iter().any(|it| Arc::ptr_eq(it, port)) {
            return;
        }
        if let Some(bell) = &self.bell {
            let data = epoll::EventData::new_u64(0);
            // It can only fail for lack of memory; who sleeps on the descriptor then wakes by the time he gave.
            let _ = epoll::add(&bell.epoll, port.wake_fd(), data, epoll::EventFlags::IN);
        }
        ports.push(Arc::clone(port));
    }

    pub(crate) fn remove(&self, port: &Arc<Port>) {
        let mut ports = self.list.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(bell) =
            self.bell.as_ref().filter(|_| ports.iter().any(|it| Arc::ptr_eq(it, port)))
        {
            let _ = epoll::delete(&bell.epoll, port.wake_fd());
        }
        ports.retain(|it| !Arc::ptr_eq(it, port));
    }

    /// Before somebody sleeps on the descriptor; after it he looks once more whether there is something. False: one of them may have
    /// news already.
    pub(crate) fn arm(&self) -> bool {
        if let Some(bell) = &self.bell {
            bell.arm();
        }
        let ports = self.list.read().unwrap_or_else(PoisonError::into_inner);
        ports.iter().all(|port| port.arm())
    }

    /// What they are bound to was told of something, which can be seen: who sleeps on the descriptor wakes. One load if nobody does.
    #[inline]
    pub(crate) fn ring(&self) {
        if let Some(bell) = &self.bell
            && bell.is_awaited.load(Ordering::SeqCst)
        {
            bell.ring();
        }
    }

    pub(crate) fn are_there(&self) -> bool {
        !self.list.read().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Turns all of them once and tells of what ended, its reader first.
    pub(crate) fn progress(&self, reader: &mut Reader<'_>) {
        for port in self.list.read().unwrap_or_else(PoisonError::into_inner).iter() {
            port.progress(reader);
        }
    }

    /// Waits until one of them may have news, so long at most, or until it is time to ask `is_ready` again: other threads tell what
    /// is waited for of ends, signal it, set it, close endpoints. `progress` tells of what came.
    pub(crate) fn wait(&self, longest: Option<Duration>, is_ready: impl Fn() -> bool) {
        Self::wait_for(&self.completions(), longest, is_ready);
    }

    /// Where their news come from. Neither under the lock nor with the endpoints in hand is waited for these: who closes an endpoint must not
    /// wait for who sleeps on it, and what it was bound to is free when it is closed.
    pub(crate) fn completions(&self) -> Vec<Arc<Mutex<Completions>>> {
        let ports = self.list.read().unwrap_or_else(PoisonError::into_inner);
        ports.iter().map(|port| port.completions()).collect()
    }

    /// Waits as `wait` does, until one of these endpoints may have news, which `completions` listed.
    pub(crate) fn wait_for(
        all: &[Arc<Mutex<Completions>>],
        longest: Option<Duration>,
        is_ready: impl Fn() -> bool,
    ) {
        let longest = longest.map_or(LOOK, |longest| longest.min(LOOK));
        let longest = if all.len() > 1 { longest.min(SHARED_WAIT) } else { longest };
        if all.is_empty() {
            std::thread::sleep(longest);
        }
        for completions in all {
            let mut completions = lock(completions);
            // Whoever had them before may have told of what is waited for.
            if is_ready() {
                return;
            }
            completions.wait(Some(longest));
        }
    }
}
