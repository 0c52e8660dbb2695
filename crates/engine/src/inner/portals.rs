//! What a turn left to do for Portals.

use super::Inner;
use crate::translate::memory_of;

impl Inner {
    /// Memory that nobody uses is given back; whoever waits hears that something was told.
    pub(crate) fn settle_portals(&mut self) {
        if self.core.portals().take_stirred() {
            self.has_news = true;
        }
        while let Some(buf) = self.core.portals().take_freed() {
            drop(self.core.memory().remove(memory_of(buf)));
        }
    }
}
