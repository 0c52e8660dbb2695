//! The network the figures are taken on: a switch, a line of 10 Gb/s to each node, 10 µs one way.

use packhorse_link::sim::{Conditions, Line, NodeId, WIRE_OVERHEAD_LEN, Who};
use packhorse_proto::{
    Criteria, Event, Instant, Limits, List, RecvSpec, Settings, Space, Tag, Use,
};
use packhorse_sim::world::{Spec, World};

/// Bits per second of every line.
pub(crate) const RATE_GBPS: u64 = 10;
/// A datagram in an Ethernet frame of MTU 1500.
const DATAGRAM_LEN: u64 = 1_472;
/// Time of flight.
const DELAY_NS: u64 = 10_000;
/// Room before each line, as a modest switch has per port.
const QUEUE_LEN_MAX: u64 = 512 << 10;

/// Bytes per second of payload the line carries if a datagram were nothing but payload: our own headers count
/// against us.
pub(crate) fn payload_rate() -> f64 {
    let wire_len = DATAGRAM_LEN + u64::from(WIRE_OVERHEAD_LEN);
    RATE_GBPS as f64 * 1e9 / 8.0 * DATAGRAM_LEN as f64 / wire_len as f64
}

/// Nodes on that network, all alike.
pub(crate) struct Stage {
    /// Endpoints and network.
    pub(crate) world: World,
    /// The nodes.
    pub(crate) nodes: Vec<NodeId>,
}

impl Stage {
    /// So many nodes; frames are lost at this rate.
    pub(crate) fn new(count: usize, loss_ppm: u32, limits: &Limits, settings: &Settings) -> Self {
        let mut world = World::new(17);
        let spec = Spec { limits: limits.clone(), settings: settings.clone(), ..Spec::default() };
        let nodes: Vec<NodeId> = (0..count).map(|_| world.add_node(spec.clone())).collect();
        let conditions = Conditions { delay_ns: DELAY_NS, loss_ppm, ..Conditions::PERFECT };
        world.net().set_conditions(Who::Any, Who::Any, conditions);
        world.net().set_all_lines(Line::gbps(RATE_GBPS, QUEUE_LEN_MAX));
        Self { world, nodes }
    }

    /// Posts a receive that counts bytes and keeps none; its number comes back in the event.
    pub(crate) fn sink(&mut self, at: NodeId, from: Option<NodeId>, tag: u64, len: u64) -> u64 {
        let source = from.map(|from| self.world.peer(at, from));
        let criteria = Criteria { space: Space(0), tag: Tag(tag), ignore: 0, source };
        let buf = self.world.memory(at).add_sink(len);
        let spec = RecvSpec {
            criteria,
            buf,
            len,
            list: List::Priority,
            uses: Use::Once,
            header_only: false,
            user: buf.0,
        };
        self.world.post_recv(at, spec).expect("receive posted");
        buf.0
    }

    /// Lets time pass until `wanted` receives have ended well, and says when each of them did: node, user, time.
    ///
    /// # Panics
    /// If that takes longer than `within_ns`, or one ends badly.
    pub(crate) fn receive(&mut self, wanted: usize, within_ns: u64) -> Vec<(NodeId, u64, Instant)> {
        let mut done = Vec::new();
        let end = self.world.now() + within_ns;
        loop {
            while let Some((node, event)) = self.world.next_event() {
                if let Event::Received { user, envelope, placed_len, result, .. } = event {
                    assert_eq!((result, placed_len), (Ok(()), envelope.len), "{event:?}");
                    done.push((node, user, self.world.now()));
                }
            }
            if done.len() >= wanted {
                break;
            }
            assert!(self.world.turn(end), "{} of {wanted} messages arrived in time", done.len());
        }
        let faults = self.world.take_faults();
        assert!(faults.is_empty(), "{faults:?}");
        done
    }

    /// Makes nodes known to each other and their round trips measured: a few small messages each way.
    pub(crate) fn acquaint(&mut self, a: NodeId, b: NodeId) {
        for round in 0..4 {
            for (from, to) in [(a, b), (b, a)] {
                self.sink(to, Some(from), u64::MAX - round, 8);
                self.world.send(from, to, Tag(u64::MAX - round), 8);
                self.receive(1, 1_000_000_000);
            }
        }
    }
}
