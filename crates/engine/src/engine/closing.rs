//! Closing an endpoint: what was accepted is finished, then the helper, the links and all lent memory go.

use packhorse_proto::{Failure, Unaccepted};

use super::Engine;
use crate::requests::Outcome;

impl Engine {
    /// Starts to close: nothing new is taken, what was accepted is finished. `wait_closed` sees the end.
    pub fn close(&self) {
        let mut inner = self.lock_in_order();
        let now = self.now();
        inner.core.endpoint().close(now);
        self.after_post(inner, now, false);
    }

    /// Ends the helper, closes the links and takes all memory back, whoever still holds requests or waits for some: on return no
    /// byte of the application's is read or written any more. For the last owner, after closing.
    pub fn stop(&self) {
        self.helper.end(&self.helper_doze);
        let mut inner = self.lock_in_order();
        inner.core.drop_links();
        // Whoever waits, in whatever way, learns of it: `forget_links` below waits for whoever sleeps on them.
        (inner.is_stopped, inner.has_news) = (true, true);
        // What closing did not end in its time ends now: nobody may wait for a request that nothing can end.
        let now = self.now();
        inner.drop_regions();
        for id in inner.requests.all_pending() {
            inner.end(
                id.0,
                Outcome::Unlinked { source: None, failure: Some(Failure::Closing) },
                now,
            );
        }
        inner.queues.publish();
        self.release(inner);
        self.doze.forget_links();
    }

    /// What peers have not accepted yet; after closing what they had not when it gave them up.
    pub fn unaccepted(&self) -> Vec<Unaccepted> {
        self.lock().core.rules().unaccepted()
    }
}
