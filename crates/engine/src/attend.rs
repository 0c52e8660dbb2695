//! Somebody who is called when something ended, though nobody looks: for interfaces whose operations set off others.
//!
//! ```text
//!   a turn, a post: something ended ──▶ is_called ──▶ the helper, after a turn of its own ──▶ the attendant reads, counts, posts
//! ```
//!
//! An interface with counters that set off operations (libfabric's deferred work) has to count what ended while the application computes, and to
//! post what that sets off. Its attendant does so. Only the helper calls the attendant, with nothing in hand: an application's thread
//! may hold any lock of the interface above when something ends under it. Such a thread reads its queues by itself, or leaves them,
//! and then the helper comes (`Engine::needs_driver`).
//!
//! Without a helper nobody calls: what is set off waits for the application's next look, as all else does there.

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// The function of the interface above that is called when something ended, and whether that is due.
#[derive(Default)]
pub(crate) struct Attendance {
    attendant: OnceLock<Box<dyn Fn() + Send + Sync>>,
    is_called: AtomicBool,
}

impl fmt::Debug for Attendance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attendance").field("is_called", &self.is_called).finish_non_exhaustive()
    }
}

impl Attendance {
    /// From now on this function is called. Only the first of several counts.
    pub(crate) fn set(&self, attendant: impl Fn() + Send + Sync + 'static) {
        let _ = self.attendant.set(Box::new(attendant));
    }

    /// Something ended. One load where nobody attends.
    #[inline]
    pub(crate) fn on_news(&self) {
        if self.attendant.get().is_some() {
            self.is_called.store(true, Ordering::Release);
        }
    }

    /// Whether the attendant is to be called.
    #[inline]
    pub(crate) fn is_called(&self) -> bool {
        self.is_called.load(Ordering::Relaxed)
    }

    /// Calls the attendant, if that is due. False: it is not. What ends from now on calls again.
    pub(crate) fn attend(&self) -> bool {
        let is_due = self.is_called.swap(false, Ordering::Acquire);
        if let Some(attendant) = self.attendant.get().filter(|_| is_due) {
            attendant();
        }
        is_due
    }
}
