//! The endpoints that tell a queue or a counter of their ends. Whoever reads it gives them time.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use crate::port::Port;

/// With several endpoints no one may be slept on for longer than this.
const SHARED_WAIT: Duration = Duration::from_micros(100);

/// The open endpoints bound to something.
#[derive(Default)]
pub(crate) struct Ports(RwLock<Vec<Arc<Port>>>);

impl Ports {
    pub(crate) fn add(&self, port: &Arc<Port>) {
        let mut ports = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if !ports.iter().any(|it| Arc::ptr_eq(it, port)) {
            ports.push(Arc::clone(port));
        }
    }

    pub(crate) fn remove(&self, port: &Arc<Port>) {
        let mut ports = self.0.write().unwrap_or_else(PoisonError::into_inner);
        ports.retain(|it| !Arc::ptr_eq(it, port));
    }

    /// Turns all of them once and tells of what ended.
    pub(crate) fn progress(&self) {
        for port in self.0.read().unwrap_or_else(PoisonError::into_inner).iter() {
            port.progress();
        }
    }

    /// Waits until one of them may have news, so long at most.
    pub(crate) fn wait(&self, longest: Option<Duration>) {
        // Not under the lock: who closes an endpoint must not wait for who sleeps on it.
        let ports = self.0.read().unwrap_or_else(PoisonError::into_inner).clone();
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
