//! Frames on their way: sent, flown, arrived.

use super::*;

/// What a report quotes of a frame at most, as hosts that speak IPv4 do.
const QUOTE_LEN: usize = 520;

/// Moving frames.
impl SimNet {
    /// Sends a frame. It is copied; what becomes of it is the network's business.
    ///
    /// # Panics
    /// If there is no port `from`, or time runs backwards.
    pub fn send(&mut self, now_ns: u64, from: Port, to: &Locator, bytes: &[u8]) {
        self.advance(now_ns);
        let from_index = self.index(from).unwrap_or_else(|| panic!("no {from:?}"));
        let number = self.trace.counters.sent_count;
        let to_port = Port::from_locator(to).unwrap_or(Port::NOWHERE);
        let info = FrameInfo { at_ns: now_ns, number, from, to: to_port, is_copy: false };
        self.trace.note(info, What::Sent, bytes);
        self.ports[from_index].sent_count += 1;
        let verdict = self.ask_intercepts(&info, bytes);
        let Some(to_index) = self.index(to_port) else {
            return self.trace.note(info, What::Dropped(Reason::Nowhere), bytes);
        };
        let pair = self.pair_index(from_index, to_index, from, to_port);
        let order = self.pairs[pair].on_send(); // also of frames that never leave: fates must not shift
        let reason = if verdict == Verdict::Drop {
            Some(Reason::Intercepted)
        } else if self.ports[from_index].network != self.ports[to_index].network {
            Some(Reason::Nowhere)
        } else if matches!(self.node(from.node_id()).state, NodeState::Dead(_)) {
            Some(Reason::Dead)
        } else {
            None
        };
        if let Some(reason) = reason {
            return self.trace.note(info, What::Dropped(reason), bytes);
        }
        let slot = self.frames.take(bytes);
        let frame = self.frames.get_mut(slot);
        (frame.number, frame.order, frame.pair) = (number, order, pair as u32);
        frame.from_generation = self.ports[from_index].generation;
        frame.to_generation = generation(to).expect("decoded above");
        (frame.is_copy, frame.wants_copy, frame.late_ns) = (false, false, 0);
        self.in_flight_count += 1;
        if self.ports[from_index].network == SURE_NETWORK {
            return self.pass_surely(now_ns, slot);
        }
        if self.ports[from_index].network == STREAM_NETWORK {
            return self.pass_in_stream(now_ns, slot);
        }
        self.apply(info, verdict, slot);
        self.leave(now_ns, slot, from_index);
    }

    /// When to call [`SimNet::receive`] again. Something happens inside the network then, though perhaps
    /// nothing is delivered: a frame may only get from one queue into another.
    pub fn next_arrival(&self) -> Option<u64> {
        self.frames.next_at()
    }

    /// Hands over the next frame that has arrived by now, in the order of time; false if there is none.
    /// Sends may have run ahead of it; they may not fall behind.
    ///
    /// # Panics
    /// If time runs backwards from one `receive` to the next.
    pub fn receive(&mut self, now_ns: u64, delivery: &mut Delivery) -> bool {
        assert!(
            now_ns >= self.received_ns,
            "time ran backwards, from {} to {now_ns} ns",
            self.received_ns
        );
        self.received_ns = now_ns;
        self.now_ns = self.now_ns.max(now_ns);
        while let Some((at_ns, slot, step)) = self.frames.pop(now_ns) {
            match step {
                Step::Trunk => self.cross_trunk(at_ns, slot),
                Step::Ingress => self.reach_ingress(at_ns, slot),
                Step::Arrive | Step::Resume => {
                    if self.arrive(at_ns, slot, step) {
                        self.hand_over(at_ns, slot, delivery);
                        return true;
                    }
                }
                Step::Report => self.report(at_ns, slot),
            }
        }
        false
    }

    /// The next report that nobody lives at a locator: to whom, about which, and the beginning of the frame that told. They come in during
    /// [`SimNet::receive`], whatever that returns.
    pub fn poll_unreachable(&mut self) -> Option<(Port, Locator, Vec<u8>)> {
        self.unreachable.pop_front()
    }
}

/// Before the flight.
impl SimNet {
    fn ask_intercepts(&mut self, info: &FrameInfo, bytes: &[u8]) -> Verdict {
        let verdicts = self.intercepts.iter_mut().map(|intercept| intercept(info, bytes));
        verdicts.into_iter().find(|verdict| *verdict != Verdict::Pass).unwrap_or(Verdict::Pass)
    }

    fn apply(&mut self, info: FrameInfo, verdict: Verdict, slot: FrameSlot) {
        let frame = self.frames.get_mut(slot);
        match verdict {
            Verdict::Pass | Verdict::Drop => {}
            Verdict::Duplicate => frame.wants_copy = true,
            Verdict::Delay(late_ns) => frame.late_ns = late_ns,
            Verdict::Corrupt(_) if frame.bytes.is_empty() => {}
            Verdict::Corrupt(bit) => {
                let bit = bit as usize % (frame.bytes.len() * 8);
                frame.bytes[bit / 8] ^= 1 << (bit % 8);
                self.trace.note(info, What::Corrupted(1), &frame.bytes);
            }
        }
    }

    /// Through memory that both ends share.
    fn pass_surely(&mut self, now_ns: u64, slot: FrameSlot) {
        self.trace.counters.sure_count += 1;
        let lands_ns = self.pair_of(slot).lands_surely_at(now_ns);
        self.frames.schedule(lands_ns, slot, Step::Arrive);
    }

    /// By a stream from the one end to the other.
    fn pass_in_stream(&mut self, now_ns: u64, slot: FrameSlot) {
        self.trace.counters.streamed_count += 1;
        let order = self.frames.get(slot).order;
        let pair = self.pair_of(slot);
        match pair.lands_in_stream_at(order, now_ns).filter(|_| !pair.ruling.is_cut) {
            Some(lands_ns) => self.frames.schedule(lands_ns, slot, Step::Arrive),
            None => self.lose(now_ns, slot, Reason::Broken),
        }
    }

    /// Through the sender's own line, then over a trunk or straight into the air.
    fn leave(&mut self, now_ns: u64, slot: FrameSlot, from_index: usize) {
        let wire_len = self.wire_len(slot);
        let Some(left_ns) = self.ports[from_index].egress.offer(now_ns, wire_len) else {
            return self.lose(now_ns, slot, Reason::Queue);
        };
        match self.pair_of(slot).ruling.trunk {
            Some(_) => self.frames.schedule(left_ns, slot, Step::Trunk),
            None => self.fly(now_ns, left_ns, slot),
        }
    }

    fn cross_trunk(&mut self, at_ns: u64, slot: FrameSlot) {
        let wire_len = self.wire_len(slot);
        let left_ns = match self.pair_of(slot).ruling.trunk {
            Some(trunk) => self.trunks[trunk.0 as usize].offer(at_ns, wire_len),
            None => Some(at_ns), // rerouted meanwhile
        };
        match left_ns {
            Some(left_ns) => self.fly(at_ns, left_ns, slot),
            None => self.lose(at_ns, slot, Reason::Queue),
        }
    }
}

/// The flight itself, decided as it begins.
impl SimNet {
    fn fly(&mut self, now_ns: u64, left_ns: u64, slot: FrameSlot) {
        let (order, len) = (self.frames.get(slot).order, self.frames.get(slot).bytes.len());
        let pair = self.pair_of(slot);
        if let Some(reason) = pair.loses(order, len) {
            return self.lose(now_ns, slot, reason);
        }
        let wants_copy =
            pair.duplicates(Throw::new(order, false)) || self.frames.get(slot).wants_copy;
        let copy = wants_copy.then(|| self.copy(now_ns, slot));
        self.land(now_ns, left_ns, slot);
        if let Some(copy) = copy {
            self.land(now_ns, left_ns, copy);
        }
    }

    fn copy(&mut self, now_ns: u64, slot: FrameSlot) -> FrameSlot {
        let info = self.info(now_ns, slot);
        self.trace.note(info, What::Duplicated, &self.frames.get(slot).bytes);
        let copy = self.frames.take_copy(slot);
        self.frames.get_mut(copy).is_copy = true;
        self.in_flight_count += 1;
        copy
    }

    /// Damages one copy, perhaps, and lets it reach the other end. The cut comes before the flips, which
    /// might otherwise be cut off again.
    fn land(&mut self, now_ns: u64, left_ns: u64, slot: FrameSlot) {
        let info = self.info(now_ns, slot);
        let frame = self.frames.get_mut(slot);
        let pair = &mut self.pairs[frame.pair as usize];
        let throw = Throw::new(frame.order, frame.is_copy);
        if let Some(len) = pair.truncate(throw, &mut frame.bytes) {
            self.trace.note(info, What::Truncated(len), &frame.bytes);
        }
        if let Some(count) = pair.corrupt(throw, &mut frame.bytes) {
            self.trace.note(info, What::Corrupted(count), &frame.bytes);
        }
        let mut late_ns = frame.late_ns.saturating_add(pair.held_back_ns(throw));
        if late_ns > 0 {
            self.trace.note(info, What::HeldBack(late_ns), &frame.bytes);
        }
        if frame.is_copy {
            late_ns = late_ns.saturating_add(pair.copy_late_ns(throw));
        }
        let lands_ns = pair.lands_at(throw, left_ns, late_ns);
        let to_port = pair.to;
        let is_open = self.port_ref(to_port).ingress.is_open(lands_ns);
        self.frames.schedule(lands_ns, slot, if is_open { Step::Arrive } else { Step::Ingress });
    }

    fn reach_ingress(&mut self, at_ns: u64, slot: FrameSlot) {
        let wire_len = self.wire_len(slot);
        let to_port = self.pair_of(slot).to;
        match self.port_mut(to_port).ingress.offer(at_ns, wire_len) {
            Some(left_ns) => self.frames.schedule(left_ns, slot, Step::Arrive),
            None => self.lose(at_ns, slot, Reason::Queue),
        }
    }
}

/// After the flight.
impl SimNet {
    /// Whether the frame may be handed over; otherwise it was lost, or put aside.
    fn arrive(&mut self, at_ns: u64, slot: FrameSlot, step: Step) -> bool {
        let (to_generation, order) =
            (self.frames.get(slot).to_generation, self.frames.get(slot).order);
        let pair = self.pair_of(slot);
        let (to_port, is_cut) = (pair.to, pair.ruling.is_cut);
        if pair.is_broken_behind(order) {
            self.lose(at_ns, slot, Reason::Broken);
            return false;
        }
        let is_sure = self.port_ref(to_port).network == SURE_NETWORK;
        if step == Step::Arrive && is_cut && !is_sure {
            self.lose(at_ns, slot, Reason::Partition);
            return false;
        }
        let has_moved = self.port_ref(to_port).generation != to_generation;
        if step == Step::Arrive && has_moved && !is_sure {
            self.lose(at_ns, slot, Reason::Moved);
            return false;
        }
        let len = self.frames.get(slot).bytes.len() as u64;
        match &mut self.nodes[to_port.node as usize].state {
            NodeState::Alive => return true,
            NodeState::Paused { held, held_len, held_len_max } => {
                if is_sure || *held_len + len <= *held_len_max {
                    *held_len += if is_sure { 0 } else { len };
                    held.push_back(slot);
                } else {
                    self.lose(at_ns, slot, Reason::Queue);
                }
            }
            NodeState::Dead(Death::Silent) => self.lose(at_ns, slot, Reason::Dead),
            NodeState::Dead(Death::Reported) => self.send_report(at_ns, slot),
        }
        false
    }

    fn hand_over(&mut self, at_ns: u64, slot: FrameSlot, delivery: &mut Delivery) {
        let info = self.info(at_ns, slot);
        let from_generation = self.frames.get(slot).from_generation;
        delivery.from = self.locator_at(info.from, from_generation);
        let frame = self.frames.get_mut(slot);
        std::mem::swap(&mut frame.bytes, &mut delivery.bytes);
        (delivery.at_ns, delivery.to, delivery.number) = (at_ns, info.to, info.number);
        let (order, pair) = (frame.order, frame.pair);
        if !info.is_copy && self.pairs[pair as usize].on_delivered(order) {
            self.trace.counters.reordered_count += 1;
        }
        self.trace.note(info, What::Delivered, &delivery.bytes);
        self.port_mut(info.to).delivered_count += 1;
        self.in_flight_count -= 1;
        self.frames.give_back(slot);
    }

    /// The frame is lost at a dead node, whose host tells the sender; unless the way back is cut.
    fn send_report(&mut self, at_ns: u64, slot: FrameSlot) {
        let info = self.info(at_ns, slot);
        self.trace.note(info, What::Dropped(Reason::Dead), &self.frames.get(slot).bytes);
        self.in_flight_count -= 1;
        let back = self.rules.rule(info.to, info.from);
        if back.is_cut {
            self.frames.give_back(slot);
        } else {
            let back_ns = at_ns.saturating_add(back.conditions.delay_ns);
            self.frames.schedule(back_ns, slot, Step::Report);
        }
    }

    fn report(&mut self, at_ns: u64, slot: FrameSlot) {
        let info = self.info(at_ns, slot);
        let frame = self.frames.get(slot);
        let dead_locator = self.locator_at(info.to, frame.to_generation);
        let is_sender_there = self.port_ref(info.from).generation == frame.from_generation
            && !matches!(self.node(info.from.node_id()).state, NodeState::Dead(_));
        if is_sender_there {
            self.trace.note(info, What::Unreachable, &self.frames.get(slot).bytes);
            let bytes = &self.frames.get(slot).bytes;
            let quote = bytes[..bytes.len().min(QUOTE_LEN)].to_vec();
            self.unreachable.push_back((info.from, dead_locator, quote));
        }
        self.frames.give_back(slot);
    }

    pub(super) fn lose(&mut self, at_ns: u64, slot: FrameSlot, reason: Reason) {
        let info = self.info(at_ns, slot);
        self.trace.note(info, What::Dropped(reason), &self.frames.get(slot).bytes);
        self.in_flight_count -= 1;
        self.frames.give_back(slot);
    }
}

/// Finding things.
impl SimNet {
    pub(super) fn advance(&mut self, now_ns: u64) {
        assert!(now_ns >= self.now_ns, "time ran backwards, from {} to {now_ns} ns", self.now_ns);
        self.now_ns = now_ns;
    }

    pub(super) fn node(&self, node: NodeId) -> &Node {
        self.nodes.get(node.0 as usize).unwrap_or_else(|| panic!("no {node:?}"))
    }

    pub(super) fn set_state(&mut self, node: NodeId, state: NodeState) -> NodeState {
        let node = self.nodes.get_mut(node.0 as usize).unwrap_or_else(|| panic!("no {node:?}"));
        std::mem::replace(&mut node.state, state)
    }

    fn index(&self, port: Port) -> Option<usize> {
        let node = self.nodes.get(port.node as usize)?;
        (port.port < node.port_count).then(|| node.ports_start + usize::from(port.port))
    }

    pub(super) fn port_ref(&self, port: Port) -> &PortState {
        &self.ports[self.index(port).unwrap_or_else(|| panic!("no {port:?}"))]
    }

    pub(super) fn port_mut(&mut self, port: Port) -> &mut PortState {
        let index = self.index(port).unwrap_or_else(|| panic!("no {port:?}"));
        &mut self.ports[index]
    }

    fn pair_index(&mut self, from_index: usize, to_index: usize, from: Port, to: Port) -> usize {
        let port_count = self.ports.len();
        let known = &mut self.ports[from_index].pairs;
        if known.len() <= to_index {
            known.resize(port_count, NO_PAIR);
        }
        if known[to_index] == NO_PAIR {
            known[to_index] = u32::try_from(self.pairs.len()).expect("fewer than 2^32 pairs");
            self.pairs.push(Pair::new(&self.seed, from, to, self.rules.rule(from, to)));
        }
        known[to_index] as usize
    }

    /// The frame's pair, knowing the present rules.
    fn pair_of(&mut self, slot: FrameSlot) -> &mut Pair {
        let pair = &mut self.pairs[self.frames.get(slot).pair as usize];
        if pair.ruling.epoch != self.rules.epoch {
            pair.ruling = self.rules.rule(pair.from, pair.to);
        }
        pair
    }

    fn wire_len(&self, slot: FrameSlot) -> u64 {
        self.frames.get(slot).bytes.len() as u64 + u64::from(self.wire_overhead_len)
    }

    fn info(&self, at_ns: u64, slot: FrameSlot) -> FrameInfo {
        let Frame { number, pair, is_copy, .. } = *self.frames.get(slot);
        let Pair { from, to, .. } = self.pairs[pair as usize];
        FrameInfo { at_ns, number, from, to, is_copy }
    }
}
