//! Whole endpoints on a simulated network, in virtual time.
//!
//! ```text
//!   application ── post, cancel, claim ──> Endpoint ── frames ──> SimNet ── frames ──> Endpoint ── events ──> …
//!                                             └── places bytes ──> AppMemory
//! ```
//!
//! The world is the driver that PROTOCOL leaves open: it owns the clock, gathers frames from the application's memory,
//! hands arrivals over before it lets timers fire, and collects events. Nothing in it is random but what the seed says,
//! so tests and benches use it as well as `packhorse sim`.
//!
//! ```
//! use packhorse_sim::world::{Spec, World};
//! use packhorse_proto::{Event, SECOND, Tag};
//!
//! let mut world = World::new(7);
//! let (a, b) = (world.add_node(Spec::default()), world.add_node(Spec::default()));
//! world.recv(b, Some(a), Tag(1), 1000);
//! world.send(a, b, Tag(1), 1000);
//! assert!(world.run_until_event(SECOND, |node, event| node == b && matches!(event, Event::Received { .. })));
//! ```

use std::collections::{HashMap, VecDeque};

use packhorse_engine::{Core, Lender};
use packhorse_link::Link;
use packhorse_link::sim::{Death, Delivery, NodeId, Rng, SimNet, SimPort, Told};
use packhorse_proto::portals::Portals;
use packhorse_proto::{
    Address, Endpoint, Event, Identity, Instant, Limits, Locator, Opening, PeerId, Secret, Settings,
};

use crate::adversary::{Filter, Habit};
use crate::digest::Digest;
use crate::memory::AppMemory;
use crate::real::{Port, Real};

mod calls;
mod trains;
mod turn;

pub use trains::Trains;

/// So many in a million of the links in memory tell where large messages are.
const TELLS_PPM: u32 = 750_000;

/// One of a node's local links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortSpec {
    /// The network it is on; the first port is always on network 0.
    pub network: u8,
    /// The longest frame it sends and receives; no more than the settings say.
    pub frame_len_max: u16,
    /// It knows which locators are on other networks.
    pub knows_networks: bool,
    /// It says that it never loses a frame.
    pub is_reliable: bool,
    /// It says that its frames go by streams.
    pub is_stream: bool,
}

impl Default for PortSpec {
    fn default() -> Self {
        Self {
            network: 0,
            frame_len_max: u16::MAX,
            knows_networks: true,
            is_reliable: false,
            is_stream: false,
        }
    }
}

/// What a node is made of.
#[derive(Clone, Debug)]
pub struct Spec {
    /// Local links.
    pub ports: u8,
    /// What they are like, where that is not as usual.
    pub port_specs: Vec<PortSpec>,
    /// Chooses its identity, secret and entropy; the node's number if not given.
    pub name: Option<u64>,
    /// What it may hold.
    pub limits: Limits,
    /// Its knobs.
    pub settings: Settings,
    /// What its driver makes of trains.
    pub trains: Trains,
}

impl Default for Spec {
    fn default() -> Self {
        Self {
            ports: 1,
            port_specs: Vec::new(),
            name: None,
            limits: Limits::default(),
            settings: Settings::default(),
            trains: Trains::default(),
        }
    }
}

impl Spec {
    /// What a port is like.
    pub fn port(&self, port: u8) -> PortSpec {
        let own = self.port_specs.get(usize::from(port)).copied().unwrap_or_default();
        let frame_len_max = own.frame_len_max.min(self.settings.frame_len_max);
        // The first leads to everybody, if there is more than memory.
        let network = if port == 0 && !own.is_reliable { 0 } else { own.network };
        PortSpec { network, frame_len_max, ..own }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Alive,
    Paused,
    Dead,
}

/// An endpoint with its application's memory.
struct Node {
    spec: Spec,
    name: u64,
    id: NodeId,
    core: Core<Port, AppMemory>,
    life: u32,
    state: State,
    /// The endpoint was called since it was last asked for frames and events.
    is_dirty: bool,
    timeout: Instant,
    /// Whom each row was last seen to be.
    rows: HashMap<PeerId, NodeId>,
}

/// Endpoints, a network, a clock.
pub struct World {
    seed: Rng,
    now: Instant,
    net: SimNet,
    nodes: Vec<Node>,
    events: VecDeque<(NodeId, Event)>,
    faults: Vec<String>,
    digest: Digest,
    turns_in_moment: u32,
    turn_count: u64,
    next_message: u32,
    /// Helpers do half of the work.
    has_halves: bool,
    #[cfg(feature = "sabotage")]
    sabotage: Option<packhorse_proto::Sabotage>,
    /// Time is the system's, from then on, and ports are real.
    origin: Option<std::time::Instant>,
    // Reused from frame to frame.
    delivery: Delivery,
    /// What ports in memory tell of.
    told: Told,
    /// Stands between one of the nodes and the network.
    filter: Option<Filter>,
}

/// Building.
impl World {
    /// An empty world.
    pub fn new(seed: u64) -> Self {
        Self {
            seed: Rng::new(seed),
            now: Instant(0),
            net: SimNet::new(seed),
            nodes: Vec::new(),
            events: VecDeque::new(),
            faults: Vec::new(),
            digest: Digest::default(),
            turns_in_moment: 0,
            turn_count: 0,
            next_message: 0,
            has_halves: false,
            #[cfg(feature = "sabotage")]
            sabotage: None,
            origin: None,
            delivery: Delivery::default(),
            told: Told::default(),
            filter: None,
        }
    }

    /// An empty world in real time, for nodes on real links.
    pub fn in_real_time(seed: u64) -> Self {
        Self { origin: Some(std::time::Instant::now()), ..Self::new(seed) }
    }

    /// Adds an endpoint.
    ///
    /// # Panics
    /// If its settings make no sense.
    pub fn add_node(&mut self, spec: Spec) -> NodeId {
        let id = self.net.add_node(spec.ports);
        for port in 0..spec.ports {
            self.net.set_network(id.port(port), spec.port(port).network);
        }
        let name = spec.name.unwrap_or(u64::from(id.0));
        let ports = self.simulated_ports(id, name, 0, &spec);
        self.add(id, spec, ports)
    }

    /// Adds an endpoint on real links; the world must be one in real time.
    ///
    /// # Panics
    /// If its settings make no sense.
    pub fn add_real_node(&mut self, spec: Spec, links: Vec<Box<dyn Link>>) -> NodeId {
        let id = self.net.add_node(1);
        let ports = links.into_iter().map(|link| Port::Real(Real::new(link))).collect();
        self.add(id, spec, ports)
    }

    fn add(&mut self, id: NodeId, spec: Spec, ports: Vec<Port>) -> NodeId {
        let name = spec.name.unwrap_or(u64::from(id.0));
        let core = self.open(name, 0, &spec, ports);
        let timeout = core.next_timeout();
        self.nodes.push(Node {
            spec,
            name,
            id,
            core,
            life: 0,
            state: State::Alive,
            is_dirty: true,
            timeout,
            rows: HashMap::new(),
        });
        id
    }

    fn simulated_ports(&self, id: NodeId, name: u64, life: u32, spec: &Spec) -> Vec<Port> {
        let (.., seed) = self.draw_life(name, life);
        let ports = (0..spec.ports).map(|port| {
            let seed = seed.fork_n(u64::from(port));
            let at = self.net.locator(id.port(port));
            let own = spec.port(port);
            let len_max = usize::from(own.frame_len_max);
            let link = SimPort::new(at, len_max, spec.trains.lands, &seed);
            let link = if own.knows_networks { link } else { link.naive() };
            let link = match own.is_reliable {
                true if seed.fork("tells").chance(TELLS_PPM) => {
                    link.reliable().telling(&self.told, &seed)
                }
                true => link.reliable(),
                false => link,
            };
            let link = if own.is_stream { link.streaming() } else { link };
            Port::Sim(match spec.trains.count_max {
                0 | 1 => link,
                count_max => link.with_trains(count_max, spec.trains.len_max),
            })
        });
        ports.collect()
    }

    /// Who a node is, its entropy in this life, and where more comes from.
    fn draw_life(&self, name: u64, life: u32) -> (Secret, Identity, [u64; 4], Rng) {
        let mut rng = self.seed.fork("endpoint").fork_n(name);
        let secret = Secret([rng.next_u64(), rng.next_u64()]);
        let identity = Identity { host: 1 + name, endpoint: rng.next_u64() };
        let mut rng = rng.fork("entropy").fork_n(u64::from(life));
        let entropy = std::array::from_fn(|_| rng.next_u64());
        (secret, identity, entropy, rng)
    }

    fn open(&self, name: u64, life: u32, spec: &Spec, ports: Vec<Port>) -> Core<Port, AppMemory> {
        let (secret, identity, entropy, _) = self.draw_life(name, life);
        let locators = ports.iter().map(|port| Locator(port.locator())).collect();
        let opening = Opening { secret, identity, entropy, locators };
        let (limits, settings) = (spec.limits.clone(), spec.settings.clone());
        let memory = AppMemory::default();
        let mut core =
            Core::open(settings, limits, opening, ports, memory, self.now).expect("sound settings");
        core.set_trains(spec.trains.count_max, spec.trains.len_max);
        #[cfg(feature = "sabotage")]
        if let Some(fault) = self.sabotage {
            core.endpoint().sabotage(fault);
        }
        core
    }

    /// From now on every endpoint makes this mistake.
    #[cfg(feature = "sabotage")]
    pub fn sabotage(&mut self, fault: packhorse_proto::Sabotage) {
        self.sabotage = Some(fault);
        self.nodes.iter_mut().for_each(|node| node.core.endpoint().sabotage(fault));
    }

    /// From now on the last node has this habit.
    ///
    /// # Panics
    /// If there is no node.
    pub fn set_habit(&mut self, habit: Habit) {
        let last = self.nodes.last().expect("a node");
        let (id, secret) = (last.id, last.core.rules().address().secret);
        let others = self.nodes[..id.0 as usize].iter();
        let ports = others.flat_map(|node| (0..node.spec.ports).map(|port| node.id.port(port)));
        let locators = ports.map(|port| Locator(self.net.locator(port))).collect();
        self.filter = Some(Filter::new(id, habit, secret, locators));
    }

    /// How often the habit showed.
    pub fn habit_count(&self) -> u64 {
        self.filter.as_ref().map_or(0, |filter| filter.acted_count)
    }

    /// The network, to set conditions and read counters.
    pub fn net(&mut self) -> &mut SimNet {
        &mut self.net
    }

    /// The time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// A number for all frames sent and events told so far.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// How many nodes were added.
    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// All nodes.
    pub fn node_ids(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..self.nodes.len() as u32).map(NodeId)
    }

    fn node(&self, node: NodeId) -> &Node {
        &self.nodes[node.0 as usize]
    }

    fn touch(&mut self, node: NodeId) -> (Instant, &mut Node) {
        let entry = &mut self.nodes[node.0 as usize];
        entry.is_dirty = true;
        (self.now, entry)
    }

    /// An endpoint, to look at.
    pub fn endpoint(&self, node: NodeId) -> &Endpoint {
        self.node(node).core.rules()
    }

    /// An endpoint, to call; it is asked for frames and events before time moves on.
    pub fn endpoint_mut(&mut self, node: NodeId) -> &mut Endpoint {
        self.touch(node).1.core.endpoint()
    }

    /// What an endpoint has of Portals; whoever changed something there lets it run (`Endpoint::run_portals`).
    pub fn portals(&mut self, node: NodeId) -> &mut Portals {
        self.nodes[node.0 as usize].core.endpoint().portals()
    }

    /// Local links of a node.
    pub fn port_count(&self, node: NodeId) -> u8 {
        self.node(node).spec.ports
    }

    /// Bytes of streams that readers of a node wait for are lent to this one, straight from frames.
    pub fn set_lender(&mut self, node: NodeId, lender: Box<dyn Lender>) {
        self.nodes[node.0 as usize].core.set_lender(lender, u64::MAX);
    }

    /// An application's memory.
    pub fn memory(&mut self, node: NodeId) -> &mut AppMemory {
        self.nodes[node.0 as usize].core.memory()
    }

    /// The capability to send to a node.
    pub fn address(&self, node: NodeId) -> Address {
        self.node(node).core.rules().address()
    }

    /// How often a node was restarted.
    pub fn life(&self, node: NodeId) -> u32 {
        self.node(node).life
    }

    /// Whether the node has an endpoint that runs, if not just now.
    pub fn is_up(&self, node: NodeId) -> bool {
        self.node(node).state != State::Dead
    }

    /// Whether the node is not turned just now.
    pub fn is_paused(&self, node: NodeId) -> bool {
        self.node(node).state == State::Paused
    }

    /// What `at` calls `of`; made known if it was not.
    ///
    /// # Panics
    /// If `at` is closing or full.
    pub fn peer(&mut self, at: NodeId, of: NodeId) -> PeerId {
        let mut address = self.address(of);
        if self.node(of).spec.settings.open_to_strangers {
            address.secret = Secret::PUBLIC; // who opened to strangers need not hand out the key
        }
        let endpoint = self.nodes[at.0 as usize].core.endpoint();
        match endpoint.find_peer(&address.identity) {
            Some(peer) => peer,
            None => endpoint.add_peer(&address).expect("room for a peer"),
        }
    }

    /// Which node `at` calls `peer`, or called when it last knew it.
    pub fn node_of(&mut self, at: NodeId, peer: PeerId) -> Option<NodeId> {
        let identity = self.node(at).core.rules().identity_of(peer);
        let Some(identity) = identity else {
            return self.node(at).rows.get(&peer).copied();
        };
        let named = |node: &&Node| node.name + 1 == identity.host;
        let found = self.nodes.iter().find(named).map(|node| node.id)?;
        self.nodes[at.0 as usize].rows.insert(peer, found);
        Some(found)
    }
}

/// Fates of nodes.
impl World {
    /// The endpoint dies without a word; what it sends or holds is lost.
    pub fn kill(&mut self, node: NodeId, death: Death) {
        self.nodes[node.0 as usize].state = State::Dead;
        if self.origin.is_some() {
            self.nodes[node.0 as usize].core.drop_links();
        }
        self.net.kill(node, death);
    }

    /// A killed node comes back: same address, new incarnation, empty memory.
    pub fn revive(&mut self, node: NodeId) {
        self.mourn(node);
        let life = self.node(node).life + 1;
        let (name, spec) = (self.node(node).name, &self.node(node).spec);
        let core = self.open(name, life, spec, self.simulated_ports(node, name, life, spec));
        if let Some(filter) = self.filter.as_mut().filter(|filter| filter.node == node) {
            filter.renew();
        }
        let entry = &mut self.nodes[node.0 as usize];
        entry.core = core;
        entry.rows.clear();
        (entry.life, entry.state, entry.is_dirty) = (life, State::Alive, true);
        self.net.resume(self.now.0, node);
    }

    /// Memory that was shared with a process ends with it: whoever has the other end hears of it before somebody else is there, as links
    /// in memory watch their peers. A network only has what the next life answers to.
    fn mourn(&mut self, node: NodeId) {
        let dead = self.node(node);
        let ports: Vec<u8> =
            (0..dead.spec.ports).filter(|&port| dead.spec.port(port).is_reliable).collect();
        for port in ports {
            let locator = Locator(self.net.locator(node.port(port)));
            for (number, other) in self.nodes.iter_mut().enumerate() {
                let has_end = port < other.spec.ports && other.spec.port(port).is_reliable;
                if number != node.0 as usize && other.state != State::Dead && has_end {
                    other.core.endpoint().on_dead(self.now, port, &locator);
                    other.is_dirty = true;
                }
            }
        }
    }

    /// The node is not turned until `resume`; the system keeps up to `held_len_max` bytes of frames for it.
    pub fn pause(&mut self, node: NodeId, held_len_max: u64) {
        if self.node(node).state == State::Alive {
            self.nodes[node.0 as usize].state = State::Paused;
            self.net.pause(node, held_len_max);
        }
    }

    /// The end of a pause.
    pub fn resume(&mut self, node: NodeId) {
        if self.node(node).state == State::Paused {
            self.nodes[node.0 as usize].state = State::Alive;
            self.net.resume(self.now.0, node);
        }
    }

    /// A port gets a new address; the driver may notice.
    pub fn rebind(&mut self, node: NodeId, port: u8, is_told: bool) {
        let locator = self.net.rebind(node.port(port));
        if is_told {
            let (now, node) = self.touch(node);
            node.core.on_rebound(now, port, locator);
        }
    }

    /// `Endpoint::forget_peer`.
    pub fn forget(&mut self, at: NodeId, of: NodeId) {
        let peer = self.peer(at, of);
        self.node_of(at, peer);
        let (now, node) = self.touch(at);
        node.core.endpoint().forget_peer(now, peer);
    }

    /// Whether an endpoint did wrong, or used memory it should not.
    pub fn has_faults(&self) -> bool {
        !self.faults.is_empty()
    }

    /// Faults of endpoints or their use of memory since the last call.
    pub fn take_faults(&mut self) -> Vec<String> {
        for node in &mut self.nodes {
            let faults = node.core.memory().take_faults().into_iter();
            self.faults.extend(faults.map(|fault| format!("node {}: {fault}", node.id.0)));
        }
        std::mem::take(&mut self.faults)
    }
}

#[cfg(test)]
mod tests {
    use packhorse_link::sim::{Conditions, Who};
    use packhorse_proto::{MS, SECOND, Tag};

    use super::*;

    fn pair() -> (World, NodeId, NodeId) {
        let mut world = World::new(1);
        let (a, b) = (world.add_node(Spec::default()), world.add_node(Spec::default()));
        (world, a, b)
    }

    fn is_received(node: NodeId, at: NodeId, event: &Event) -> bool {
        node == at && matches!(event, Event::Received { result: Ok(()), .. })
    }

    #[test]
    fn a_large_message_crosses_a_lossy_wire_whole() {
        let (mut world, a, b) = pair();
        let conditions = Conditions { loss_ppm: 100_000, ..Conditions::PERFECT };
        world.net().set_conditions(Who::Any, Who::Any, conditions);
        world.recv(b, Some(a), Tag(7), 200_000);
        world.send(a, b, Tag(7), 200_000);
        assert!(world.run_until_event(SECOND, |node, event| is_received(node, b, event)));
        assert_eq!(world.memory(b).verify(packhorse_proto::BufId(0), 0, 200_000, 0), Ok(()));
        assert_eq!(world.take_faults(), Vec::<String>::new());
    }

    #[test]
    fn a_paused_node_hears_what_was_kept_for_it() {
        let (mut world, a, b) = pair();
        world.recv(b, None, Tag(1), 8);
        world.pause(b, 1 << 20);
        world.send(a, b, Tag(1), 8);
        assert!(!world.run_until_event(10 * MS, |node, event| is_received(node, b, event)));
        world.resume(b);
        assert!(world.run_until_event(100 * MS, |node, event| is_received(node, b, event)));
    }

    #[test]
    fn a_restarted_node_is_the_same_peer_in_another_life() {
        let (mut world, a, b) = pair();
        world.recv(b, None, Tag(1), 8);
        world.send(a, b, Tag(1), 8);
        assert!(world.run_until_event(SECOND, |node, event| is_received(node, b, event)));
        world.run_for(MS);
        while world.next_event().is_some() {}
        let (peer, address) = (world.peer(a, b), world.address(b));
        world.kill(b, Death::Silent);
        world.revive(b);
        assert_eq!((world.peer(a, b), world.address(b), world.life(b)), (peer, address, 1));
        world.recv(b, None, Tag(1), 8);
        world.send(b, a, Tag(2), 8);
        let joined =
            |node: NodeId, event: &Event| node == a && matches!(event, Event::Joined { .. });
        assert!(world.run_until_event(SECOND, joined), "the new life introduced itself");
        world.send(a, b, Tag(1), 8);
        assert!(world.run_until_event(SECOND, |node, event| is_received(node, b, event)));
    }
}
