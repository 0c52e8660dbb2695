//! Time passes: arrivals, then timers, then what endpoints have to send and to say.

use packhorse_link::sim::{Delivery, NodeId, Port};
use packhorse_proto::{Endpoint, Event, Instant, Locator, Source, TxFrame};

use super::super::memory::AppMemory;
use super::{State, World};

/// More frames than this from one node in one moment: it would never stop.
const BURST_COUNT_MAX: u32 = 200_000;
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
        self.flush();
        let next = self.next_moment();
        if next > until {
            self.now = self.now.max(until);
            return false;
        }
        if !self.move_to(next) {
            return false;
        }
        self.arrive();
        for index in 0..self.nodes.len() {
            let node = &mut self.nodes[index];
            if node.state != State::Alive {
                continue;
            }
            // A node just resumed, or called since, may be late: what arrived goes first, then its timers.
            if node.is_dirty {
                node.timeout = node.endpoint.next_timeout();
            }
            if node.timeout <= self.now {
                node.endpoint.on_timeout(self.now, &mut node.memory);
                node.is_dirty = true;
            }
            if node.is_dirty {
                self.pump(index);
            }
        }
        true
    }

    fn next_moment(&self) -> Instant {
        let arrival = self.net.next_arrival().map_or(Instant::NEVER, Instant);
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
            let Port { node, port } = self.delivery.to;
            let node = &mut self.nodes[node as usize];
            let from = Locator(self.delivery.from);
            node.is_dirty = true;
            if node.spec.trains.lands {
                self.gather_train();
                continue;
            }
            node.endpoint.on_frame(self.now, port, from, &self.delivery.bytes, &mut node.memory);
        }
        self.land_train();
        while let Some((port, locator)) = self.net.poll_unreachable() {
            let (now, node) = self.touch(port.node_id());
            node.endpoint.on_unreachable(now, port.port, &Locator(locator));
        }
    }

    /// The frame just received waits for those that come with it.
    fn gather_train(&mut self) {
        let is_with =
            |first: &Delivery| first.to == self.delivery.to && first.from == self.delivery.from;
        if !self.batch.first().is_none_or(is_with) {
            self.land_train();
        }
        self.batch.push(std::mem::take(&mut self.delivery));
    }

    fn land_train(&mut self) {
        if !self.batch.is_empty() {
            let mut batch = std::mem::take(&mut self.batch);
            self.land(&batch);
            batch.clear();
            self.batch = batch;
        }
    }

    fn pump(&mut self, index: usize) {
        let mut burst = 0;
        loop {
            if self.pump_train(index) {
                continue;
            }
            let node = &mut self.nodes[index];
            if !node.endpoint.poll_transmit(self.now, &mut self.tx) {
                break;
            }
            self.frame.clear();
            gather(&mut self.tx, &node.endpoint, &mut node.memory, &mut self.frame);
            self.net.send(self.now.0, node.id.port(self.tx.link), &self.tx.to.0, &self.frame);
            if self.frame.len() > usize::from(node.spec.settings.frame_len_max) {
                self.faults.push(format!(
                    "node {} sent a frame of {} bytes",
                    node.id.0,
                    self.frame.len()
                ));
            }
            burst += 1;
            if burst > BURST_COUNT_MAX {
                self.faults.push(format!("node {} sends without end", node.id.0));
                break;
            }
        }
        let node = &mut self.nodes[index];
        while let Some(event) = node.endpoint.poll_event() {
            self.events.push_back((node.id, event));
        }
        let (held_len, envelope_count) = node.endpoint.held();
        let limits = &node.spec.limits;
        if held_len > limits.held_len_max || envelope_count > limits.envelope_count_max {
            self.faults.push(format!(
                "node {} holds {held_len} bytes, {envelope_count} envelopes",
                node.id.0
            ));
        }
        if node.memory.has_faults() {
            let faults = node.memory.take_faults();
            self.faults
                .extend(faults.into_iter().map(|fault| format!("node {}: {fault}", node.id.0)));
        }
        node.timeout = node.endpoint.next_timeout();
        node.is_dirty = false;
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

/// Puts a frame together: head, then the pieces of its body, then the seal.
fn gather(tx: &mut TxFrame, endpoint: &Endpoint, memory: &mut AppMemory, frame: &mut Vec<u8>) {
    // The head is sealed last, as the sum over the body goes into it.
    let head_len = tx.head.len();
    frame.extend_from_slice(&tx.head);
    for piece in &tx.body {
        let len = piece.len as usize;
        match piece.source {
            Source::User { buf, offset } => memory.gather(buf, offset, len, frame),
            Source::Pool { slot, offset } => {
                let start = offset as usize;
                frame.extend_from_slice(&endpoint.pooled(slot)[start..start + len]);
            }
            Source::Zero => frame.resize(frame.len() + len, 0),
        }
    }
    let crc = if tx.wants_crc() { crc32c::crc32c(&frame[head_len..]) } else { 0 };
    tx.seal(crc);
    frame[..head_len].copy_from_slice(&tx.head);
}
