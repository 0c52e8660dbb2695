//! The endpoints that tell a queue or a counter of their ends. Whoever reads it gives them time.

use std::ffi::{c_int, c_void};
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use rustix::event::epoll;

use crate::abi::{command, kind};
use crate::cq::Reader;
use crate::port::Port;

/// With several endpoints no one may be slept on for longer than this.
const SHARED_WAIT: Duration = Duration::from_micros(100);

/// The open endpoints bound to something.
#[derive(Default)]
pub(crate) struct Ports {
    list: RwLock<Vec<Arc<Port>>>,
    /// For who sleeps in a loop of its own: readable when one of the endpoints' descriptors is.
    bell: Option<OwnedFd>,
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
        let bell = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(Self { list: RwLock::default(), bell: Some(bell) })
    }

    /// The descriptor, if there is one.
    fn bell(&self) -> Option<RawFd> {
        self.bell.as_ref().map(|bell| bell.as_raw_fd())
    }

    /// `fi_control` of what they are bound to: its descriptor, and whether it has one.
    ///
    /// # Safety
    /// `argument` must be as the command wants it.
    pub(crate) unsafe fn control(&self, what: c_int, argument: *mut c_void) -> c_int {
        match (what, self.bell()) {
            (command::GETWAIT, Some(bell)) => {
                // SAFETY: the command's argument is a descriptor's place.
                unsafe { argument.cast::<c_int>().write(bell) };
                0
            }
            (command::GETWAITOBJ, bell) => {
                let wait = if bell.is_some() { kind::WAIT_FD } else { kind::WAIT_NONE };
                // SAFETY: the command's argument is an enumeration's place.
                unsafe { argument.cast::<u32>().write(wait) };
                0
            }
            _ => -libc::ENOSYS,
        }
    }

    pub(crate) fn add(&self, port: &Arc<Port>) {
        let mut ports = self.list.write().unwrap_or_else(PoisonError::into_inner);
        if ports.iter().any(|it| Arc::ptr_eq(it, port)) {
            return;
        }
        if let Some(bell) = &self.bell {
            let data = epoll::EventData::new_u64(0);
            // It can only fail for lack of memory; who sleeps on the descriptor then wakes by the time he gave.
            let _ = epoll::add(bell, port.wake_fd(), data, epoll::EventFlags::IN);
        }
        ports.push(Arc::clone(port));
    }

    pub(crate) fn remove(&self, port: &Arc<Port>) {
        let mut ports = self.list.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(bell) =
            self.bell.as_ref().filter(|_| ports.iter().any(|it| Arc::ptr_eq(it, port)))
        {
            let _ = epoll::delete(bell, port.wake_fd());
        }
        ports.retain(|it| !Arc::ptr_eq(it, port));
    }

    /// Before somebody sleeps on the descriptor. False: one of them may have news already.
    pub(crate) fn arm(&self) -> bool {
        let ports = self.list.read().unwrap_or_else(PoisonError::into_inner);
        ports.iter().all(|port| port.arm())
    }

    /// Turns all of them once and tells of what ended, its reader first.
    pub(crate) fn progress(&self, reader: &mut Reader<'_>) {
        for port in self.list.read().unwrap_or_else(PoisonError::into_inner).iter() {
            port.progress(reader);
        }
    }

    /// Waits until one of them may have news, so long at most.
    pub(crate) fn wait(&self, longest: Option<Duration>) {
        // Not under the lock: who closes an endpoint must not wait for who sleeps on it.
        let ports = self.list.read().unwrap_or_else(PoisonError::into_inner).clone();
        match &ports[..] {
            [] => std::thread::sleep(longest.map_or(SHARED_WAIT, |it| it.min(SHARED_WAIT))),
            [port] => port.wait(longest),
            ports => {
                for port in ports {
                    port.wait(Some(longest.map_or(SHARED_WAIT, |it| it.min(SHARED_WAIT))));
                }
            }
        }
    }
}
