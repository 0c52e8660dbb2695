//! A network in virtual time that misbehaves on demand and replays from its seed.
//!
//! ```text
//!  node 0        egress line      conditions of the pair        ingress line      node 1
//!  port 0 ── send ─[queue]═══> (trunk) ─> lost? twice? damaged? late? ─[queue]═══> receive ── port 0
//! ```
//!
//! The caller owns the clock: he asks [`SimNet::next_arrival`] when to come back, and calls
//! [`SimNet::receive`] with that time until it says no. Faults are [`Conditions`] of pairs of ports;
//! partitions, dead and paused nodes, new addresses and changed conditions are calls, made when the
//! caller's scenario has come to them. Time, rates and lengths are integers; no run depends on
//! anything but the seed and the calls. What it all relies on: calls come in the order of time.
//!
//! ```
//! use packhorse_link::sim::{Delivery, SimNet};
//!
//! let mut net = SimNet::new(7);
//! let (a, b) = (net.add_node(1).port(0), net.add_node(1).port(0));
//! net.send(0, a, &net.locator(b), b"hello");
//! let at_ns = net.next_arrival().unwrap();
//! let mut delivery = Delivery::default();
//! assert!(net.receive(at_ns, &mut delivery));
//! assert_eq!((delivery.to, &delivery.bytes[..]), (b, &b"hello"[..]));
//! ```

mod address;
mod conditions;
mod flow;
mod frames;
mod pair;
mod port;
pub mod rng;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_events;
mod told;
mod trace;
mod wire;

use std::collections::VecDeque;

pub(crate) use address::LOCATORS;
pub use address::{NodeId, Port, generation, network};
pub use conditions::{Burst, Conditions, CutId, Directions, Who};
pub use port::SimPort;
pub use rng::Rng;
pub use told::Told;
pub use trace::{Counters, Event, FrameInfo, Observer, Reason, Verdict, What};
pub use wire::{Line, QueueStats, TrunkId, WIRE_OVERHEAD_LEN};

use crate::Locator;
use conditions::Rules;
use frames::{Frame, FrameSlot, Frames, Step};
use pair::{Pair, Throw};
use trace::Trace;
use wire::Queue;

/// Looks at a frame as it is sent and decides about it.
pub type Intercept = Box<dyn FnMut(&FrameInfo, &[u8]) -> Verdict>;

/// A frame handed over. Reused from call to call: its buffer is swapped with the network's.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// When it arrived.
    pub at_ns: u64,
    /// At which port.
    pub to: Port,
    /// From which address, as it was when the frame was sent.
    pub from: Locator,
    /// The frame's number, as in [`FrameInfo`].
    pub number: u64,
    /// The frame.
    pub bytes: Vec<u8>,
}

impl Default for Delivery {
    fn default() -> Self {
        Self { at_ns: 0, to: Port::NOWHERE, from: [0; 24], number: 0, bytes: Vec::new() }
    }
}

/// How a node died.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Death {
    /// The machine is off: frames to it vanish.
    Silent,
    /// Only the process is gone: each frame to it makes the host report that to its sender, see
    /// [`SimNet::poll_unreachable`].
    Reported,
}

/// What passed through a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortStats {
    /// Frames sent from it.
    pub sent_count: u64,
    /// Frames handed over at it.
    pub delivered_count: u64,
    /// The queue before its egress line.
    pub egress: QueueStats,
    /// The queue before its ingress line.
    pub ingress: QueueStats,
}

#[derive(Debug)]
enum NodeState {
    Alive,
    Paused { held: VecDeque<FrameSlot>, held_len: u64, held_len_max: u64 },
    Dead(Death),
}

#[derive(Debug)]
struct Node {
    /// Its ports are neighbours in `SimNet::ports`, from here on.
    ports_start: usize,
    port_count: u8,
    state: NodeState,
}

#[derive(Debug)]
struct PortState {
    egress: Queue,
    ingress: Queue,
    generation: u32,
    network: u8,
    sent_count: u64,
    delivered_count: u64,
    /// By index of the other port, the index of the pair; `NO_PAIR` before its first frame.
    pairs: Vec<u32>,
}

const NO_PAIR: u32 = u32::MAX;

/// The network of ports that share memory: nothing between them is lost, doubled, damaged, overtaken or told of wrongly, whatever the
/// rules say of other networks, unless its receiver dies.
pub const SURE_NETWORK: u8 = u8::MAX;

/// The network of ports that are joined by streams, one for each pair and direction: frames arrive in order and undamaged, or not at all. A
/// stream stalls now and then, and now and then it breaks: what is in it is lost, and what is sent until it is open again.
pub const STREAM_NETWORK: u8 = u8::MAX - 1;

/// The simulated network.
pub struct SimNet {
    seed: Rng,
    /// The latest time a caller named.
    now_ns: u64,
    /// The latest time given to `receive`.
    received_ns: u64,
    nodes: Vec<Node>,
    ports: Vec<PortState>,
    pairs: Vec<Pair>,
    trunks: Vec<Queue>,
    rules: Rules,
    frames: Frames,
    in_flight_count: u64,
    intercepts: Vec<Intercept>,
    unreachable: VecDeque<(Port, Locator, Vec<u8>)>,
    trace: Trace,
    wire_overhead_len: u32,
}

/// Building the network and changing it. Every change holds from the call on.
impl SimNet {
    /// An empty network.
    pub fn new(seed: u64) -> Self {
        Self {
            seed: Rng::new(seed).fork("network"),
            now_ns: 0,
            received_ns: 0,
            nodes: Vec::new(),
            ports: Vec::new(),
            pairs: Vec::new(),
            trunks: Vec::new(),
            rules: Rules::default(),
            frames: Frames::default(),
            in_flight_count: 0,
            intercepts: Vec::new(),
            unreachable: VecDeque::new(),
            trace: Trace::new(),
            wire_overhead_len: WIRE_OVERHEAD_LEN,
        }
    }

    /// Another node, alive, with so many ports on infinite lines.
    pub fn add_node(&mut self, port_count: u8) -> NodeId {
        let id = NodeId(self.nodes.len() as u32);
        self.nodes.push(Node {
            ports_start: self.ports.len(),
            port_count,
            state: NodeState::Alive,
        });
        self.ports.extend((0..port_count).map(|_| PortState {
            egress: Queue::new(Line::INFINITE),
            ingress: Queue::new(Line::INFINITE),
            generation: 0,
            network: 0,
            sent_count: 0,
            delivered_count: 0,
            pairs: Vec::new(),
        }));
        id
    }

    /// How many nodes there are.
    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// How frames fare from here to there. The latest rule that fits a pair counts; one from
    /// [`Who::Any`] to [`Who::Any`] replaces all.
    pub fn set_conditions(
        &mut self,
        from: impl Into<Who>,
        to: impl Into<Who>,
        conditions: Conditions,
    ) {
        self.rules.set_conditions(from.into(), to.into(), conditions);
    }

    /// What holds from this port to that.
    pub fn conditions(&self, from: Port, to: Port) -> Conditions {
        self.rules.conditions(from, to)
    }

    /// The line a port sends over.
    pub fn set_egress(&mut self, port: Port, line: Line) {
        self.port_mut(port).egress.set_line(line);
    }

    /// The line towards a port, from the switch.
    pub fn set_ingress(&mut self, port: Port, line: Line) {
        self.port_mut(port).ingress.set_line(line);
    }

    /// Both lines of all ports there are.
    pub fn set_all_lines(&mut self, line: Line) {
        for port in &mut self.ports {
            port.egress.set_line(line);
            port.ingress.set_line(line);
        }
    }

    /// A line for several pairs to share; see [`SimNet::route`].
    pub fn add_trunk(&mut self, line: Line) -> TrunkId {
        self.trunks.push(Queue::new(line));
        TrunkId(self.trunks.len() as u32 - 1)
    }

    /// Other speed or room for a trunk.
    pub fn set_trunk(&mut self, trunk: TrunkId, line: Line) {
        self.trunks[trunk.0 as usize].set_line(line);
    }

    /// Lets frames from here to there cross a trunk, or none.
    pub fn route(&mut self, from: impl Into<Who>, to: impl Into<Who>, trunk: Option<TrunkId>) {
        self.rules.set_trunk(from.into(), to.into(), trunk);
    }

    /// Bytes added to each frame where lines count bits.
    pub fn set_wire_overhead(&mut self, len: u32) {
        self.wire_overhead_len = len;
    }

    /// Cuts the network: frames from one side to the other are lost if they leave or arrive meanwhile.
    /// Cuts add up; each is healed for itself.
    pub fn partition(&mut self, from: &[Who], to: &[Who], way: Directions) -> CutId {
        self.rules.cut(from, to, way)
    }

    /// Ends a partition; false if it had ended.
    pub fn heal(&mut self, cut: CutId) -> bool {
        self.rules.heal(cut)
    }

    /// Ends all partitions.
    pub fn heal_all(&mut self) {
        self.rules.heal_all();
    }

    /// The node dies: frames to it are lost as they arrive, those it held while paused at once.
    pub fn kill(&mut self, node: NodeId, death: Death) {
        if let NodeState::Paused { held, .. } = self.set_state(node, NodeState::Dead(death)) {
            for slot in held {
                self.lose(self.now_ns, slot, Reason::Dead);
            }
        }
    }

    /// The node does not look at its frames any more; the system keeps up to `held_len_max` bytes for it.
    pub fn pause(&mut self, node: NodeId, held_len_max: u64) {
        self.resume(self.now_ns, node); // were it paused already, its frames would be forgotten
        self.set_state(
            node,
            NodeState::Paused { held: VecDeque::new(), held_len: 0, held_len_max },
        );
    }

    /// The node lives, again or on. What was kept for a paused one arrives now. To a dead one come the
    /// frames still on their way: sent, perhaps, in its former life.
    pub fn resume(&mut self, now_ns: u64, node: NodeId) {
        self.advance(now_ns);
        if let NodeState::Paused { held, .. } = self.set_state(node, NodeState::Alive) {
            for slot in held {
                self.frames.schedule(now_ns, slot, Step::Resume);
            }
        }
    }

    /// Whether the node is neither dead nor paused.
    pub fn is_alive(&self, node: NodeId) -> bool {
        matches!(self.node(node).state, NodeState::Alive)
    }

    /// The port gets a new address, as after DHCP or a move: what it sends from now on comes from
    /// there, and the old one leads nowhere.
    pub fn rebind(&mut self, port: Port) -> Locator {
        self.port_mut(port).generation += 1;
        self.locator(port)
    }

    /// The address the port has now.
    pub fn locator(&self, port: Port) -> Locator {
        self.locator_at(port, self.port_ref(port).generation)
    }

    fn locator_at(&self, port: Port, generation: u32) -> Locator {
        let mut locator = port.to_locator_at(generation);
        locator[2] = self.port_ref(port).network;
        locator
    }

    /// Puts the port on another network than number 0, on which all begin: only ports of one network reach each other.
    pub fn set_network(&mut self, port: Port, network: u8) {
        self.port_mut(port).network = network;
    }

    /// Asks this about every frame sent from now on, before the network sees it. Of several intercepts the
    /// first that does not pass decides.
    pub fn intercept(&mut self, intercept: Intercept) {
        self.intercepts.push(intercept);
    }

    /// The verdict for the next frame that fits, once.
    pub fn intercept_next(
        &mut self,
        mut fits: impl FnMut(&FrameInfo, &[u8]) -> bool + 'static,
        verdict: Verdict,
    ) {
        let mut is_done = false;
        self.intercept(Box::new(move |info, bytes| {
            if is_done || !fits(info, bytes) {
                return Verdict::Pass;
            }
            is_done = true;
            verdict
        }));
    }

    /// Forgets all intercepts.
    pub fn clear_intercepts(&mut self) {
        self.intercepts.clear();
    }

    /// Shows every event to this observer, or to none.
    pub fn observe(&mut self, observer: Option<Observer>) {
        self.trace.observer = observer;
    }

    /// What happened so far.
    pub fn counters(&self) -> &Counters {
        &self.trace.counters
    }

    /// Frames sent, or made by duplication, that are neither delivered nor lost.
    pub fn in_flight_count(&self) -> u64 {
        self.in_flight_count
    }

    /// A number for all events so far: runs that differ have different ones.
    pub fn trace_hash(&self) -> u64 {
        self.trace.hash
    }

    /// What passed through a port.
    pub fn port_stats(&self, port: Port) -> PortStats {
        let state = self.port_ref(port);
        PortStats {
            sent_count: state.sent_count,
            delivered_count: state.delivered_count,
            egress: state.egress.stats,
            ingress: state.ingress.stats,
        }
    }

    /// What a trunk's queue saw.
    pub fn trunk_stats(&self, trunk: TrunkId) -> QueueStats {
        self.trunks[trunk.0 as usize].stats
    }
}
