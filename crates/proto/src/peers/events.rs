//! What the application is told, in the order in which it happened.

use crate::base::api::Event;
use crate::base::ring::Ring;

/// Events that the application has not taken yet.
#[derive(Debug)]
pub(crate) struct Events(Ring<Event>);

impl Events {
    pub(super) fn new() -> Self {
        Self(Ring::new())
    }

    /// This happened.
    #[inline(always)]
    pub(crate) fn tell(&mut self, event: Event) {
        self.0.push_back(event);
    }

    /// The application takes what happened first.
    #[inline(always)]
    pub(crate) fn poll(&mut self) -> Option<Event> {
        self.0.pop_front()
    }

    /// The application has taken all that happened.
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// So many events wait for the application.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}
