//! Endpoints joined by queues and a made-up clock, with a hand on every frame.
//!
//! A `Net` moves time itself: to the next frame's arrival or the next timer, whichever is first. Every frame that
//! leaves is logged with its bytes and may be dropped, doubled, delayed, held or altered by a rule. Memory refuses what
//! was not posted: a place outside its buffer, or in a buffer that was given back, fails the test at once.

use std::collections::{BTreeMap, HashMap, VecDeque};

use packhorse_proto::*;

mod requests;
mod sight;
mod train;
mod way;

pub(crate) use requests::Recv;
pub(crate) use sight::{Kind, Sight};
pub(crate) use way::Fate;
use way::{Flying, Rule};

/// Nodes by name.
pub(crate) const A: usize = 0;
pub(crate) const B: usize = 1;
pub(crate) const C: usize = 2;

/// One way, on link 0.
pub(crate) const DELAY_NS: u64 = 50_000;
/// There and back.
pub(crate) const RTT_NS: u64 = 2 * DELAY_NS;
pub(crate) const US: u64 = 1_000;

/// Whether a node's link may lead to a locator, and how long frames may be there.
pub(crate) type Reach = Box<dyn Fn(usize, u8, &Locator) -> Option<usize>>;

/// How to open a node. Without payload check unless told otherwise: a lone small message is then the frame that has a
/// quick way of its own through the endpoint, and in company it takes the general one.
#[derive(Clone)]
pub(crate) struct Plan {
    pub(crate) settings: Settings,
    pub(crate) limits: Limits,
    /// Links beyond the first.
    pub(crate) more_links: usize,
    /// The nodes whose identity and whose secret it has; its own if not said.
    pub(crate) identity_of: Option<usize>,
    pub(crate) secret_of: Option<usize>,
}

impl Default for Plan {
    fn default() -> Self {
        let settings = Settings { payload_check: false, ..Settings::default() };
        let (identity_of, secret_of) = (None, None);
        Self { settings, limits: Limits::default(), more_links: 0, identity_of, secret_of }
    }
}

impl Plan {
    pub(crate) fn with(change: impl Fn(&mut Settings, &mut Limits)) -> Self {
        let mut plan = Self::default();
        change(&mut plan.settings, &mut plan.limits);
        plan
    }
}

/// The memory of a node.
#[derive(Default)]
pub(crate) struct Ram {
    buffers: Vec<Option<Vec<u8>>>,
    pub(crate) placed_len: u64,
    /// Who waits for bytes of a stream: how many he wants, and what he has.
    pub(crate) readers: HashMap<StreamId, (usize, Vec<u8>)>,
    /// The most he was shown at once.
    pub(crate) shown_len_max: usize,
    /// Somebody extracts, and takes streams that begin.
    pub(crate) takes_new: bool,
    /// What he was handed over.
    pub(crate) handed: VecDeque<Handed>,
}

/// A stream that was handed over, with the bytes of its first chunk.
pub(crate) struct Handed {
    pub(crate) id: StreamId,
    pub(crate) info: StreamInfo,
    pub(crate) bytes: Vec<u8>,
    pub(crate) is_whole: bool,
}

impl Ram {
    fn add(&mut self, bytes: Vec<u8>) -> BufId {
        self.buffers.push(Some(bytes));
        BufId(self.buffers.len() as u64 - 1)
    }

    fn slice(&self, buf: BufId, offset: u64, len: usize) -> &[u8] {
        let bytes = self.buffers[buf.0 as usize].as_ref().expect("read after it was given back");
        &bytes[offset as usize..offset as usize + len]
    }
}

impl Memory for Ram {
    fn place(&mut self, to: Place, bytes: &[u8]) {
        let buffer =
            self.buffers[to.buf.0 as usize].as_mut().expect("written after it was given back");
        let at = to.offset as usize;
        buffer[at..at + bytes.len()].copy_from_slice(bytes);
        self.placed_len += bytes.len() as u64;
    }

    fn update(
        &mut self,
        at: Place,
        len: usize,
        _width: usize,
        change: &mut dyn FnMut(&mut [u8]) -> bool,
    ) {
        let buffer =
            self.buffers[at.buf.0 as usize].as_mut().expect("used after it was given back");
        let bytes = &mut buffer[at.offset as usize..at.offset as usize + len];
        let mut copy = bytes.to_vec();
        if change(&mut copy) {
            bytes.copy_from_slice(&copy);
        }
    }

    fn crc32c(&self, crc: u32, bytes: &[u8]) -> u32 {
        bytes.iter().fold(crc, |crc, &byte| crc.rotate_left(5) ^ u32::from(byte))
    }

    fn lend(&mut self, stream: StreamId, bytes: &[u8]) -> Lending {
        self.shown_len_max = self.shown_len_max.max(bytes.len());
        let Some((wanted_len, has)) = self.readers.get_mut(&stream) else {
            return Lending { taken_len: 0, is_waiting: false };
        };
        let taken_len = bytes.len().min(*wanted_len - has.len());
        has.extend_from_slice(&bytes[..taken_len]);
        Lending { taken_len, is_waiting: has.len() < *wanted_len }
    }

    fn hand_over(&mut self, id: StreamId, info: StreamInfo, bytes: &[u8], is_whole: bool) -> bool {
        if self.takes_new {
            self.handed.push_back(Handed { id, info, bytes: bytes.to_vec(), is_whole });
        }
        self.takes_new
    }
}

/// A node: an endpoint, its memory, and what it was told.
pub(crate) struct Node {
    pub(crate) ep: Endpoint,
    pub(crate) ram: Ram,
    pub(crate) events: Vec<Event>,
    pub(crate) locators: Vec<Locator>,
    plan: Plan,
    life: u64,
    is_frozen: bool,
    is_dead: bool,
    backlog: Vec<Flying>,
    /// Frames its driver puts aside, and those it has: link and bytes.
    puts_aside: Option<wire::Audience>,
    aside: Vec<(u8, Vec<u8>)>,
}

pub(crate) struct Net {
    pub(crate) now: Instant,
    pub(crate) nodes: Vec<Node>,
    pub(crate) log: Vec<Sight>,
    /// Frames that reached an endpoint: when, and which of the log.
    pub(crate) arrived: Vec<(Instant, usize)>,
    /// One way, by link.
    pub(crate) delay_ns: Vec<u64>,
    /// Frames of a train; 0: data leaves and arrives frame by frame.
    pub(crate) train_count_max: usize,
    /// Which link of which node may lead to a locator. By default link n to the n-th.
    pub(crate) reach: Option<Reach>,
    /// The card that all links of a node are over; 0: each has its own.
    pub(crate) card: u16,
    routes: HashMap<Locator, (usize, u8)>,
    rules: Vec<Rule>,
    flying: BTreeMap<(Instant, u64), Flying>,
    held: Vec<Flying>,
    /// By sender and receiver: the association id in use.
    used: HashMap<(usize, usize), u64>,
    flown: u64,
    standstill: u32,
}

fn locator(node: usize, link: usize, generation: u8) -> Locator {
    let mut bytes = [0; 24];
    bytes[0..8].copy_from_slice(&(node as u64).to_le_bytes());
    (bytes[8], bytes[9], bytes[10]) = (link as u8, generation, 1);
    Locator(bytes)
}

fn secret_of(node: usize) -> Secret {
    Secret([0x5EC2 + node as u64, 77])
}

/// A link as links are.
pub(crate) const PLAIN: LinkTraits = LinkTraits {
    frame_len_max: 1472,
    payload_check: false,
    reliability: Reliability::Lossy,
    is_private: false,
    can_fetch: false,
    train_len_max: 0,
};

pub(crate) fn identity_of(node: usize) -> Identity {
    Identity { host: 100 + node as u64, endpoint: 3 }
}

fn open(node: usize, life: u64, plan: &Plan, locators: &[Locator], now: Instant) -> Endpoint {
    let opening = Opening {
        secret: secret_of(plan.secret_of.unwrap_or(node)),
        identity: identity_of(plan.identity_of.unwrap_or(node)),
        entropy: [node as u64 + 1, life + 1, (life + 1) << 20 | (node as u64) << 1, 4],
        locators: locators.to_vec(),
    };
    Endpoint::open(opening, plan.limits.clone(), plan.settings.clone(), now).expect("sound plan")
}

/// Bytes that name their tag and their place.
pub(crate) fn pattern(tag: u64, len: usize) -> Vec<u8> {
    let start = (tag as u8).wrapping_mul(31);
    (0..len).map(|at| start.wrapping_add((at * 7 + at / 251 + 1) as u8)).collect()
}

pub(crate) fn tagged(tag: u64) -> Criteria {
    Criteria { space: Space(0), tag: Tag(tag), ignore: 0, source: None }
}

pub(crate) fn anything() -> Criteria {
    Criteria { space: Space(0), tag: Tag(0), ignore: u64::MAX, source: None }
}

impl Net {
    pub(crate) fn new(count: usize) -> Self {
        Self::of(&vec![Plan::default(); count])
    }

    /// Two nodes that know each other (`Net::join`).
    #[track_caller]
    pub(crate) fn joined() -> Self {
        let mut net = Self::new(2);
        net.join(A, B);
        net
    }

    /// Two nodes with the same plan.
    pub(crate) fn pair(change: impl Fn(&mut Settings, &mut Limits)) -> Self {
        let plan = Plan::with(change);
        Self::of(&[plan.clone(), plan])
    }

    pub(crate) fn of(plans: &[Plan]) -> Self {
        let mut net = Self {
            now: Instant(SECOND),
            nodes: vec![],
            log: vec![],
            arrived: vec![],
            delay_ns: vec![DELAY_NS; 8],
            train_count_max: 0,
            reach: None,
            card: 0,
            routes: HashMap::new(),
            rules: vec![],
            flying: BTreeMap::new(),
            held: vec![],
            used: HashMap::new(),
            flown: 0,
            standstill: 0,
        };
        for plan in plans {
            net.add(plan.clone());
        }
        net
    }

    pub(crate) fn add(&mut self, plan: Plan) -> usize {
        let node = self.nodes.len();
        let locators: Vec<Locator> =
            (0..=plan.more_links).map(|link| locator(node, link, 0)).collect();
        for (link, &at) in locators.iter().enumerate() {
            self.routes.insert(at, (node, link as u8));
        }
        let ep = open(node, 0, &plan, &locators, self.now);
        self.nodes.push(Node {
            ep,
            ram: Ram::default(),
            events: vec![],
            locators,
            plan,
            life: 0,
            is_frozen: false,
            is_dead: false,
            backlog: vec![],
            puts_aside: None,
            aside: vec![],
        });
        node
    }

    // Nodes.

    /// The process is gone: nothing in, nothing out.
    pub(crate) fn kill(&mut self, node: usize) {
        self.nodes[node].is_dead = true;
    }

    /// The endpoint lives again, as a new incarnation that remembers nothing.
    pub(crate) fn restart(&mut self, node: usize) {
        let this = &mut self.nodes[node];
        this.life += 1;
        this.ep = open(node, this.life, &this.plan, &this.locators, self.now);
        (this.is_dead, this.is_frozen) = (false, false);
        this.events.clear();
    }

    /// Stopped: frames wait in its link.
    pub(crate) fn freeze(&mut self, node: usize) {
        self.nodes[node].is_frozen = true;
    }

    pub(crate) fn thaw(&mut self, node: usize) {
        self.nodes[node].is_frozen = false;
        for flying in std::mem::take(&mut self.nodes[node].backlog) {
            self.deliver(flying);
        }
    }

    /// Frames for this audience wait until `take_aside`, as with a helper that does the other half of the work.
    pub(crate) fn put_aside(&mut self, node: usize, audience: wire::Audience) {
        self.nodes[node].puts_aside = Some(audience);
    }

    /// What was put aside is worked on, and what comes from now on as it comes. How many frames it was.
    pub(crate) fn take_aside(&mut self, node: usize) -> usize {
        let this = &mut self.nodes[node];
        this.puts_aside = None;
        let aside = std::mem::take(&mut this.aside);
        for (link, bytes) in &aside {
            this.ep.on_aside(self.now, *link, bytes, &mut this.ram);
        }
        this.ep.end_aside();
        aside.len()
    }

    /// The node's link has a new locator; frames to the old one are lost.
    pub(crate) fn rebind(&mut self, node: usize, link: usize) -> Locator {
        let this = &mut self.nodes[node];
        let fresh = locator(node, link, this.locators[link].0[9] + 1);
        let old = std::mem::replace(&mut this.locators[link], fresh);
        self.routes.remove(&old);
        self.routes.insert(fresh, (node, link as u8));
        fresh
    }

    pub(crate) fn ep(&mut self, node: usize) -> &mut Endpoint {
        &mut self.nodes[node].ep
    }

    pub(crate) fn count(&self, node: usize, name: &str) -> u64 {
        let mut counters = self.nodes[node].ep.counters().each();
        counters.find(|&(each, _)| each == name).expect("a counter").1
    }

    /// `of`'s row for `peer`, made if need be.
    pub(crate) fn peer(&mut self, of: usize, peer: usize) -> PeerId {
        let address = self.nodes[peer].ep.address();
        self.nodes[of].ep.add_peer(&address).expect("room for a row")
    }

    // Time.

    /// Answers what a node learned of its peers' locators.
    fn answer_locators(&mut self, node: usize) {
        let Node { ep, locators, plan, .. } = &mut self.nodes[node];
        while let Some(new) = ep.poll_new_locators() {
            let links = 0..locators.len() as u8;
            let len_max = usize::from(plan.settings.frame_len_max);
            if new.is_contact {
                if let Some(reach) = &self.reach {
                    let set = links.filter(|&link| reach(node, link, &new.locators[0]).is_some());
                    let set = set.fold(0, |set, link| set | 1 << link);
                    ep.set_contact_links(self.now, new.peer, set);
                }
                continue;
            }
            // Like to like first: these are the rails.
            for is_like in [true, false] {
                for (at, locator) in new.locators.iter().enumerate() {
                    for link in links.clone().filter(|&l| (usize::from(l) == at) == is_like) {
                        let len_max = match &self.reach {
                            None => is_like.then_some(len_max),
                            Some(reach) => reach(node, link, locator),
                        };
                        if let Some(len_max) = len_max {
                            let card = self.card;
                            let way = Way { frame_len_max: len_max, card, ..Way::default() };
                            let _ = ep.add_path(self.now, new.peer, link, locator, &way);
                        }
                    }
                }
            }
        }
        while let Some((link, to)) = ep.poll_new_path() {
            let len_max = self.reach.as_ref().and_then(|reach| reach(node, link, &to));
            let frame_len_max = len_max.unwrap_or(usize::from(u16::MAX));
            ep.set_way(link, &to, &Way { frame_len_max, card: self.card, ..Way::default() });
        }
    }

    /// Everything that wants to leave leaves.
    pub(crate) fn pump(&mut self) {
        let mut tx = TxFrame::default();
        for from in 0..self.nodes.len() {
            loop {
                self.answer_locators(from);
                let this = &mut self.nodes[from];
                let awake = !this.is_frozen && !this.is_dead;
                let has_output = this.ep.has_output();
                if awake && self.pump_train(from) {
                    continue;
                }
                let this = &mut self.nodes[from];
                if !awake || !this.ep.poll_transmit(self.now, &mut tx) {
                    break;
                }
                assert!(has_output, "a driver that asked would have sent nothing");
                let bytes = this.gather(&mut tx);
                self.transmit(from, &tx, bytes);
            }
        }
    }

    fn deliver(&mut self, flying: Flying) {
        let this = &mut self.nodes[flying.to];
        if this.is_dead {
            return;
        }
        if this.is_frozen {
            this.backlog.push(flying);
            return;
        }
        self.arrived.push((self.now, flying.sight));
        if this.puts_aside == Some(wire::audience(&flying.bytes))
            && this.ep.put_aside(self.now, flying.link, &flying.source, &flying.bytes)
        {
            this.aside.push((flying.link, flying.bytes));
            return;
        }
        this.ep.on_frame(self.now, flying.link, flying.source, &flying.bytes, &mut this.ram);
    }

    /// To the next thing that happens, no later than `until`. False if nothing does.
    pub(crate) fn step(&mut self, until: Instant) -> bool {
        self.pump();
        let awake = self.nodes.iter().filter(|node| !node.is_frozen && !node.is_dead);
        let timer_at = awake.map(|node| node.ep.next_timeout()).min().unwrap_or(Instant::NEVER);
        let frame_at = self.flying.first_key_value().map_or(Instant::NEVER, |(&(at, _), _)| at);
        let at = timer_at.min(frame_at);
        if at > until {
            return false;
        }
        self.standstill = if at > self.now { 0 } else { self.standstill + 1 };
        assert!(self.standstill < 10_000, "time stands still at {:?}", self.now);
        self.now = self.now.max(at);
        let mut batch = VecDeque::<Flying>::new();
        while let Some(entry) = self.flying.first_entry()
            && entry.key().0 <= self.now
        {
            let flying = entry.remove();
            if self.train_count_max == 0 {
                self.deliver(flying);
                continue;
            }
            if batch.front().is_some_and(|first| !first.is_from_where(&flying)) {
                self.deliver_together(std::mem::take(&mut batch));
            }
            batch.push_back(flying);
        }
        self.deliver_together(batch);
        for node in &mut self.nodes {
            if !node.is_frozen && !node.is_dead && node.ep.next_timeout() <= self.now {
                node.ep.on_timeout(self.now, &mut node.ram);
            }
        }
        true
    }

    pub(crate) fn run_for(&mut self, ns: u64) {
        let until = self.now + ns;
        while self.step(until) {}
        self.now = until;
    }

    /// Runs until something holds; it must, within two virtual hours.
    #[track_caller]
    pub(crate) fn run_until(&mut self, mut holds: impl FnMut(&mut Self) -> bool) {
        let until = self.now + 7200 * SECOND;
        while !holds(self) {
            assert!(self.step(until), "never happened");
        }
    }

    /// Runs until no frame has left for three seconds.
    #[track_caller]
    pub(crate) fn settle(&mut self) {
        for _ in 0..1000 {
            let count = self.log.len();
            self.run_for(3 * SECOND);
            if self.log.len() == count && self.flying.is_empty() {
                return;
            }
        }
        panic!("does not come to rest");
    }

    /// Two nodes that know each other, at rest, with an empty log.
    #[track_caller]
    pub(crate) fn join(&mut self, from: usize, to: usize) {
        let recv = self.recv(to, tagged(u64::MAX), 8);
        let req = self.send(from, to, u64::MAX, 8);
        self.settle();
        assert_eq!(self.sent(from, req), Some(Ok(())));
        self.assert_got(to, recv, u64::MAX, 8);
        self.log.clear();
        self.arrived.clear();
        for node in 0..self.nodes.len() {
            self.drain(node);
            self.nodes[node].events.clear();
        }
        // Awake, with a round trip measured.
        let recv = self.recv(to, tagged(u64::MAX), 8);
        self.send(from, to, u64::MAX, 8);
        self.run_for(MS);
        self.assert_got(to, recv, u64::MAX, 8);
    }
}

impl Node {
    fn gather(&self, tx: &mut TxFrame) -> Vec<u8> {
        let mut body = vec![];
        for piece in &tx.body {
            let len = piece.len as usize;
            assert!(len > 0, "a piece of nothing");
            match piece.source {
                Source::User { buf, offset } => body.extend(self.ram.slice(buf, offset, len)),
                Source::Pool { slot, offset } => {
                    let at = offset as usize;
                    body.extend(&self.ep.pooled(slot)[at..at + len]);
                }
                Source::Whereabouts { .. } | Source::Zero => body.resize(body.len() + len, 0),
            }
        }
        assert_eq!(body.len(), tx.body_len);
        let crc = if tx.wants_crc() { self.ram.crc32c(0, &body) } else { 0 };
        tx.seal(crc);
        let mut bytes = tx.head.clone();
        bytes.append(&mut body);
        bytes
    }
}
