//! Whoever is called when something ended is made known, and called (`attend`).

use super::Engine;

impl Engine {
    /// From now on the helper calls `attendant` when something ended that a queue is told of, or a peer used memory that is watched. It is
    /// called with nothing in hand, and may do what an application may, but wait. The helper drives for all that is pending then, not only
    /// for what the sockets cannot do. Only the first of several counts.
    pub fn attend(&self, attendant: impl Fn() + Send + Sync + 'static) {
        self.attendance.set(attendant);
        self.on_watched();
    }

    /// The attendant has something to do that did not come by the engine.
    pub fn call_attendant(&self) {
        self.attendance.on_news();
        self.run_errand(self.helper.baton.on_pending(true));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex, mpsc};
    use std::time::Duration;

    use packhorse_link::mem::Memory;
    use packhorse_proto::{Criteria, List, Space, Tag, Use};

    use super::*;
    use crate::completions::Completions;
    use crate::engine::{Config, Placement};
    use crate::entry::Kind;
    use crate::names::Notify;
    use crate::post::{Recv, Send as Sending};
    use crate::slow::{Gate, Slow};

    /// Nobody looks at the queue; the attendant does, posts the next, and reads of that, too.
    #[test]
    fn what_ended_is_read_and_followed_by_the_attendant_though_nobody_looks() {
        let config = Config { placement: Placement::Thread, ..Config::default() };
        let engine = Engine::open(config, vec![Slow::new(&Arc::new(Gate::default()))]).unwrap();
        let queue = Completions::new(&engine, 64);
        let notify = Notify { queue: queue.id(), context: 0, only_errors: false };
        let (told, tells) = mpsc::channel();
        let queue = Arc::new(Mutex::new(queue));
        // Weakly: the queue keeps its engine, which keeps this.
        let reader = Arc::downgrade(&queue);
        engine.attend(move || {
            let Some(queue) = reader.upgrade() else { return };
            let mut queue = queue.lock().unwrap();
            while let Some(entry) = queue.poll() {
                told.send(entry.context).unwrap();
                if entry.kind == Kind::Received && entry.context < 4 {
                    post(queue.engine(), Notify { context: entry.context + 2, ..notify });
                }
            }
        });
        post(&engine, notify);
        // Messages of the endpoint to itself: 0 was received and 1 sent; what was received sets off 2 and 3, and then 4 and 5.
        let mut all: Vec<u64> = (0..6)
            .map(|_| tells.recv_timeout(Duration::from_secs(20)).expect("nobody attends"))
            .collect();
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2, 3, 4, 5]);
    }

    /// A receive, and behind it the send that it is for.
    fn post(engine: &Engine, notify: Notify) {
        let me = engine.add_peer(engine.address()).unwrap();
        let criteria =
            Criteria { space: Space(0), tag: Tag(notify.context), ignore: 0, source: None };
        let (list, uses) = (List::Priority, Use::Once);
        let recv = Recv { criteria, list, uses, header_only: false };
        engine.recv_queued(notify, recv, Memory::from(vec![0; 8])).unwrap();
        let send = Sending {
            peer: me,
            space: Space(0),
            tag: Tag(notify.context),
            immediate: None,
            until_matched: false,
        };
        let sent = Notify { context: notify.context + 1, ..notify };
        engine.send_queued(sent, send, Memory::from(vec![7; 8])).unwrap();
    }
}
