//! Time passes: arrivals, then timers, then what endpoints have to send and to say.

use packhorse_engine::{Offload, QuickLook};
use packhorse_link::Locator as LinkLocator;
use packhorse_link::sim::{NodeId, Port};
use packhorse_proto::{Event, Instant, Locator, Obstacle};

use super::{State, World};
use crate::adversary::Filter;

/// More turns of one engine than this in one moment: it would never stop.
const PUMP_COUNT_MAX: u32 = 20_000;
/// Bytes and messages that links in memory hold at most, about.
const BEYOND: (u64, u32) = (256 << 10, 256);
/// Between two looks at real links that had nothing.
const REST: std::time::Duration = std::time::Duration::from_micros(20);
/// Where helpers do half of the work: in every third of such slices of time the application does all of it.
const SLICE_NS: u64 = 1_000_000;
/// More turns than this in one moment: time stands still.
const MOMENT_TURN_COUNT_MAX: u32 = 20_000;

impl World {
    /// The next event of any application, in the order they came.
    pub fn next_event(&mut self) -> Option<(NodeId, Event)> {
        self.events.pop_front()
    }

    /// Asks every called endpoint for its frames and events, at this moment.
    pub fn flush(&mut self) {
        for index in 0..self.nodes.len() {
            if self.nodes[index].is_dirty && self.nodes[index].state == State::Alive {
                self.pump(index);
            }
        }
    }

    /// Goes to the next moment in which something happens, not beyond `until`; false if that comes first.
    pub fn turn(&mut self, until: Instant) -> bool {
        if let Some(origin) = self.origin {
            return self.turn_now(Instant(origin.elapsed().as_nanos() as u64), until);
        }
        self.flush();
        let next = self.next_moment();
        if next > until {
            self.now = self.now.max(until);
            return false;
        }
        if !self.move_to(next) {
            return false;
        }
        self.release();
        self.arrive();
        for index in 0..self.nodes.len() {
            let node = &mut self.nodes[index];
            if node.state != State::Alive {
                continue;
            }
            if node.is_dirty || node.timeout <= self.now {
                self.pump(index);
            }
        }
        true
    }

    /// Moves on in real time: everybody is turned now; false if it is later than `until`.
    fn turn_now(&mut self, now: Instant, until: Instant) -> bool {
        self.now = self.now.max(now);
        let mut work = 0;
        for index in 0..self.nodes.len() {
            if self.nodes[index].state == State::Alive {
                work += self.pump(index);
            }
        }
        if work == 0 {
            std::thread::sleep(REST);
        } else {
            self.turn_count += 1;
        }
        self.now < until
    }

    fn next_moment(&self) -> Instant {
        let arrival = self.net.next_arrival().map_or(Instant::NEVER, Instant);
        let release = self.filter.as_ref().map_or(Instant::NEVER, |filter| filter.release_at());
        let arrival = arrival.min(release);
        let alive = self.nodes.iter().filter(|node| node.state == State::Alive);
        alive.map(|node| node.timeout).fold(arrival, Ord::min)
    }

    /// False if time will not move any more.
    fn move_to(&mut self, next: Instant) -> bool {
        self.turn_count += 1;
        self.turns_in_moment = if next > self.now { 0 } else { self.turns_in_moment + 1 };
        if self.turns_in_moment > MOMENT_TURN_COUNT_MAX {
            let late =
                self.nodes.iter().filter(|node| node.timeout <= self.now).map(|node| node.id.0);
            self.faults.push(format!(
                "time stands still: nodes {:?} are always due",
                late.collect::<Vec<_>>()
            ));
            return false;
        }
        self.now = self.now.max(next);
        true
    }

    fn arrive(&mut self) {
        while self.net.receive(self.now.0, &mut self.delivery) {
            if !self.is_let_in() {
                continue;
            }
            let Port { node, port } = self.delivery.to;
            let node = &mut self.nodes[node as usize];
            node.is_dirty = true;
            if let Some(port) = node.core.links()[usize::from(port)].sim() {
                port.deliver(&mut self.delivery);
            }
        }
        while let Some((port, locator, quote)) = self.net.poll_unreachable() {
            let (now, node) = self.touch(port.node_id());
            let obstacle = Obstacle::Refused(&quote);
            node.core.endpoint().on_unreachable(now, port.port, &Locator(locator), obstacle);
        }
    }

    /// Whether helpers do half of the work only.
    pub fn set_halves(&mut self, has_halves: bool) {
        self.has_halves = has_halves;
    }

    /// What whoever turns this node now may do, and when somebody comes who may do all.
    fn duties(&self, index: usize) -> (Offload, Instant) {
        let slice = self.now.0 / SLICE_NS + index as u64;
        if !self.has_halves || slice.is_multiple_of(3) || self.nodes[index].core.is_kept_full() {
            return (Offload::Both, Instant::NEVER);
        }
        let half = if index.is_multiple_of(2) { Offload::Receive } else { Offload::Send };
        let all_at = (self.now.0 / SLICE_NS + 3 - slice % 3) * SLICE_NS;
        (half, Instant(all_at))
    }

    /// Takes short messages of a node one by one, as whoever waits for them does, before its engine turns.
    fn look_quickly(&mut self, index: usize) {
        loop {
            let node = &mut self.nodes[index];
            match node.core.look_quickly(self.now) {
                QuickLook::Nothing => return,
                QuickLook::Received(received) => {
                    let event = received.into();
                    self.digest.note_event(self.now, node.id.0, &event);
                    self.events.push_back((node.id, event));
                }
                QuickLook::Ended(ended) => {
                    let event = ended.into();
                    self.digest.note_event(self.now, node.id.0, &event);
                    self.events.push_back((node.id, event));
                }
                QuickLook::Chunk => {} // whoever reads streams finds it
                QuickLook::Turned(_) => {
                    self.carry(index);
                    return;
                }
            }
        }
    }

    /// Turns a node's engine until it has nothing more to do at this moment; how often that was.
    fn pump(&mut self, index: usize) -> u32 {
        let mut count = 0;
        let (duties, all_at) = self.duties(index);
        if duties == Offload::Both && (self.turn_count + index as u64).is_multiple_of(2) {
            self.look_quickly(index);
        }
        while self.nodes[index].core.turn_with(self.now, duties) > 0 {
            self.carry(index);
            count += 1;
            if count > PUMP_COUNT_MAX {
                self.faults.push(format!("node {index} works without end"));
                break;
            }
        }
        let node = &mut self.nodes[index];
        while let Some(event) = node.core.endpoint().poll_event() {
            self.digest.note_event(self.now, node.id.0, &event);
            self.events.push_back((node.id, event));
        }
        let (held_len, envelope_count) = node.core.rules().held();
        let limits = &node.spec.limits;
        // What a link in memory holds is taken beyond the budgets (PROTOCOL §7.10).
        let has_memory = (0..node.spec.ports).any(|port| node.spec.port(port).is_reliable);
        // Of a peer that ignores Refuse nothing bounds that yet.
        let ignores = self.filter.as_ref().is_some_and(Filter::ignores_refusals);
        let (more_len, more_count) = match has_memory {
            true if ignores => (u64::MAX, u32::MAX),
            true => BEYOND,
            false => (0, 0),
        };
        if held_len > limits.held_len_max.saturating_add(more_len)
            || envelope_count > limits.envelope_count_max.saturating_add(more_count)
        {
            self.faults
                .push(format!("node {index} holds {held_len} bytes, {envelope_count} envelopes"));
        }
        let (served_count, result_len) = node.core.rules().served();
        if served_count > limits.request_count_max || result_len > limits.result_len_max {
            self.faults
                .push(format!("node {index} serves {served_count} requests, {result_len} bytes"));
        }
        let faults = node.core.memory().take_faults();
        self.faults.extend(faults.into_iter().map(|fault| format!("node {index}: {fault}")));
        node.timeout = node.core.next_timeout();
        if node.core.keeps_frames() {
            node.timeout = node.timeout.min(all_at);
        }
        node.is_dirty = false;
        count
    }

    /// Carries what a node's ports sent to the network.
    fn carry(&mut self, index: usize) {
        let port_count = self.nodes[index].core.links().len();
        for number in 0..port_count {
            let node = &mut self.nodes[index];
            let Some(port) = node.core.links()[number].sim() else { continue };
            let outbox = std::mem::take(&mut port.outbox);
            let (from, len_max) =
                (node.id.port(number as u8), node.spec.port(number as u8).frame_len_max);
            for (to, mut frame) in outbox {
                self.digest.note_frame(self.now, from, &to, &frame);
                if frame.len() > usize::from(len_max) {
                    self.faults.push(format!("node {index} sent a frame of {} bytes", frame.len()));
                }
                if self.is_let_out(from, &to, &mut frame) {
                    self.transmit(from, &to, &frame);
                }
                if let Some(port) = self.nodes[index].core.links()[number].sim() {
                    port.reuse(frame);
                }
            }
        }
    }

    fn transmit(&mut self, from: Port, to: &LinkLocator, frame: &[u8]) {
        // What is too long for the other's card vanishes there without a word.
        if frame.len() <= self.len_max_at(to) {
            self.net.send(self.now.0, from, to, frame);
        }
    }

    /// What an adversary's filter makes of a frame that leaves: whether it goes on now.
    fn is_let_out(&mut self, from: Port, to: &LinkLocator, frame: &mut Vec<u8>) -> bool {
        let Some(filter) = &mut self.filter else { return true };
        let Some(node) = Port::from_locator(to).map(|port| port.node) else { return true };
        if from.node_id() != filter.node {
            let is_astray = node != filter.node.0;
            let wrong = is_astray.then(|| filter.on_astray(from.node_id(), frame)).flatten();
            self.faults.extend(wrong);
            return true;
        }
        let Some(other) = self.nodes.get(node as usize) else { return true };
        let secret = other.core.rules().address().secret;
        filter.on_outgoing(self.now, from.port, (to, node, secret), frame)
    }

    /// What the filter makes of the frame that arrived: whether anybody sees it.
    fn is_let_in(&mut self) -> bool {
        let Some(filter) = &mut self.filter else { return true };
        let to = self.delivery.to.node_id();
        if to == filter.node {
            return filter.on_incoming(&mut self.delivery.bytes);
        }
        if Port::from_locator(&self.delivery.from).is_some_and(|from| from.node == filter.node.0) {
            filter.on_heard(to, self.delivery.bytes.len());
        }
        true
    }

    /// What waited in the filter leaves.
    fn release(&mut self) {
        let Some(filter) = &mut self.filter else { return };
        let node = filter.node;
        for waiting in filter.release(self.now) {
            self.transmit(node.port(waiting.port), &waiting.to, &waiting.frame);
        }
    }

    fn len_max_at(&self, to: &packhorse_link::Locator) -> usize {
        let port = Port::from_locator(to);
        let of = |port: Port| Some(self.nodes.get(port.node as usize)?.spec.port(port.port));
        // A ring in memory is as long as its writer made it, and its reader takes all that is in it: it never loses a frame.
        let card = port.and_then(of).filter(|port| !port.is_reliable);
        card.map_or(usize::MAX, |port| usize::from(port.frame_len_max))
    }

    /// Lets so many nanoseconds pass.
    pub fn run_for(&mut self, ns: u64) {
        let until = self.now + ns;
        while self.turn(until) {}
    }

    /// Lets time pass until an event that fits, `within_ns` at most; others are dropped. False: it did not come.
    pub fn run_until_event(
        &mut self,
        within_ns: u64,
        mut fits: impl FnMut(NodeId, &Event) -> bool,
    ) -> bool {
        let until = self.now + within_ns;
        loop {
            self.flush();
            while let Some((node, event)) = self.next_event() {
                if fits(node, &event) {
                    return true;
                }
            }
            if !self.turn(until) && self.events.is_empty() {
                return false;
            }
        }
    }

    /// How many moments were visited.
    pub fn turn_count(&self) -> u64 {
        self.turn_count
    }
}
