//! The endpoints that tell a queue or a counter of their ends. Whoever reads it gives them time.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use rustix::event::epoll;

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
    /// With a descriptor to be slept on.
    pub(crate) fn with_bell() -> io::Result<Self> {
        let bell = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(Self { list: RwLock::default(), bell: Some(bell) })
    }

    /// The descriptor, if there is one.
    pub(crate) fn bell(&self) -> Option<RawFd> {
        self.bell.as_ref().map(|bell| bell.as_raw_fd())
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
