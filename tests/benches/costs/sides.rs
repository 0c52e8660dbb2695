//! The calls that count: everything a driver asks of an endpoint on the way of a message.
//!
//! Each is a function of its own, never inlined, because the counter is switched on at its entry and off at its end
//! by name. There are two sets so that the two sides of a message can be told apart; the `mark` keeps the compiler
//! from folding them into one.

use std::hint::black_box;

macro_rules! side {
    ($(#[$doc:meta])* $name:ident, $mark:literal) => {
        $(#[$doc])*
        pub(crate) mod $name {
            use super::black_box;
            use packhorse_proto::portals::{EntrySpec, MoveSpec, SearchKind, TakenEvent};
            use packhorse_proto::{Event, Instant, Locator, RecvSpec, SendSpec};
            use packhorse_tests::node::Node;

            #[inline(never)]
            pub(crate) fn post_send(node: &mut Node, now: Instant, spec: SendSpec<'_>) {
                black_box($mark);
                node.endpoint.post_send(now, spec).expect("posted");
            }

            #[inline(never)]
            pub(crate) fn post_recv(node: &mut Node, now: Instant, spec: RecvSpec) {
                black_box($mark);
                node.endpoint.post_recv(now, spec, &mut node.memory).expect("posted");
            }

            /// Once a turn, before frames are asked for.
            #[inline(never)]
            pub(crate) fn check_timers(node: &mut Node, now: Instant) {
                black_box($mark);
                if node.endpoint.next_timeout() <= now {
                    node.endpoint.on_timeout(now, &mut node.memory);
                }
            }

            #[inline(never)]
            pub(crate) fn poll_transmit(node: &mut Node, now: Instant) -> bool {
                black_box($mark);
                node.endpoint.poll_transmit(now, &mut node.tx)
            }

            #[inline(never)]
            pub(crate) fn seal(node: &mut Node, crc: u32) {
                black_box($mark);
                node.tx.seal(crc);
            }

            #[inline(never)]
            pub(crate) fn on_frame(node: &mut Node, now: Instant, from: Locator, bytes: &[u8]) {
                black_box($mark);
                node.endpoint.on_frame(now, 0, from, bytes, &mut node.memory);
            }

            #[inline(never)]
            pub(crate) fn poll_event(node: &mut Node) -> Option<Event> {
                black_box($mark);
                node.endpoint.poll_event()
            }

            /// An operation of Portals.
            #[allow(dead_code)] // of one side
            #[inline(never)]
            pub(crate) fn begin_move(node: &mut Node, now: Instant, spec: MoveSpec) {
                black_box($mark);
                node.endpoint.portals().begin(spec, None).expect("begun");
                node.endpoint.run_portals(now);
            }

            /// An event of a queue of Portals.
            #[inline(never)]
            pub(crate) fn take_told(node: &mut Node, queue: u32) -> Option<TakenEvent> {
                black_box($mark);
                node.endpoint.portals().take_event(queue).expect("a queue")
            }

            /// A search among unexpected headers.
            #[allow(dead_code)] // of one side
            #[inline(never)]
            pub(crate) fn find_header(node: &mut Node, ni: u8, kind: SearchKind, spec: EntrySpec) {
                black_box($mark);
                node.endpoint.portals().search(ni, 0, kind, spec).expect("a portal");
            }
        }
    };
}

side!(
    /// The side that sends.
    at_sender,
    1_u8
);
side!(
    /// The side that receives.
    at_receiver,
    2_u8
);

/// The calls for data as trains: at its sender.
pub(crate) mod train_at_sender {
    use packhorse_proto::Instant;
    use packhorse_tests::node::Node;

    #[inline(never)]
    pub(crate) fn poll_train(
        node: &mut Node,
        now: Instant,
        count_max: usize,
        len_max: usize,
    ) -> bool {
        node.endpoint.poll_train(now, count_max, len_max, &mut node.train)
    }
}

/// The calls for data as trains: at its receiver.
pub(crate) mod train_at_receiver {
    use packhorse_proto::{Instant, Landing, Locator};
    use packhorse_tests::node::Node;

    #[inline(never)]
    pub(crate) fn predict(node: &Node) -> Option<Landing> {
        node.endpoint.predict(0)
    }

    #[inline(never)]
    pub(crate) fn on_fragments(
        node: &mut Node,
        now: Instant,
        from: Locator,
        frames: &[u8],
        stride: usize,
    ) -> usize {
        let Node { endpoint, memory, .. } = node;
        endpoint.on_fragments(now, 0, &from, frames, stride, memory)
    }

    #[inline(never)]
    pub(crate) fn on_landed(
        node: &mut Node,
        now: Instant,
        from: Locator,
        landing: &Landing,
        heads: &[u8],
        count: usize,
        last_len: u32,
    ) -> usize {
        let Node { endpoint, memory, .. } = node;
        endpoint.on_landed(now, 0, &from, landing, heads, count, last_len, memory)
    }
}

/// Frames alone: written, sealed, opened and read, with nothing promised.
pub(crate) mod at_frame {
    use packhorse_proto::wire::{FrameView, Header, MessageHead, Record, Writer, seal};
    use packhorse_proto::{Place, Secret};
    use packhorse_tests::node::Buffers;

    /// At the sender.
    #[inline(never)]
    pub(crate) fn at_frame_sender(
        head: &mut Vec<u8>,
        header: Header,
        message: &MessageHead,
        key: Secret,
    ) {
        Writer::begin(head, header).message(message);
        seal(head, usize::from(message.len), key, None);
    }

    /// At the receiver, with the copy into the application's memory.
    #[inline(never)]
    pub(crate) fn at_frame_receiver(
        frame: &[u8],
        key: Secret,
        memory: &mut Buffers,
        to: Place,
    ) -> bool {
        use packhorse_proto::Memory as _;
        let Ok(view) = FrameView::open(key, frame) else { return false };
        if view.validate().is_err() {
            return false;
        }
        for (record, body) in view.records() {
            if let Record::Message(_) = record {
                memory.place(to, body);
            }
        }
        true
    }
}

/// The matcher alone.
pub(crate) mod at_matcher {
    use packhorse_proto::matching::Matcher;
    use packhorse_proto::{Criteria, List, PeerId, Space, Tag};

    /// A receive is posted; its message comes and takes it.
    #[inline(never)]
    pub(crate) fn expected(
        matcher: &mut Matcher,
        criteria: &Criteria,
        tag: Tag,
        source: PeerId,
    ) -> Option<u32> {
        matcher.post(List::Priority, criteria, 7);
        let (entry, _) = matcher.find(Space(0), tag, source)?;
        matcher.unlink(entry)
    }

    /// A message comes and takes its receive, which is posted again.
    #[inline(never)]
    pub(crate) fn shuffled(
        matcher: &mut Matcher,
        receives: &[Criteria],
        tag: Tag,
        source: PeerId,
    ) -> Option<u32> {
        let (entry, token) = matcher.find(Space(0), tag, source)?;
        matcher.unlink(entry)?;
        matcher.post(List::Priority, &receives[token as usize], token);
        Some(token)
    }

    /// A message comes and finds nothing; its receive is posted and takes it.
    #[inline(never)]
    pub(crate) fn unexpected(
        matcher: &mut Matcher,
        criteria: &Criteria,
        tag: Tag,
        source: PeerId,
    ) -> Option<u32> {
        assert!(matcher.find(Space(0), tag, source).is_none());
        matcher.hold(Space(0), tag, source, 7);
        let (held, _) = matcher.search(criteria)?;
        matcher.release(held)
    }
}
