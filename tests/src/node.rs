//! Two endpoints joined by queues: no network, no faults, nothing allocated once warm.
//!
//! ```text
//!   Node 0 ── poll_transmit, gather, seal ──▶ Wire ── on_frame ──▶ Node 1
//! ```
//!
//! This is the least a driver can be. Allocation tests and instruction counts use it, because whatever they find is
//! the protocol's and not the driver's.

use std::collections::VecDeque;

use packhorse_proto::{
    BufId, Criteria, Endpoint, Event, Identity, Instant, Limits, List, Locator, Memory, Opening,
    Payload, PeerId, Place, RecvSpec, Secret, SendSpec, Settings, Source, Space, Tag, TxFrame,
    TxTrain, Use,
};

/// The application's memory, in plain vectors: a `BufId` is an index.
#[derive(Debug, Default)]
pub struct Buffers {
    all: Vec<Vec<u8>>,
}

impl Buffers {
    /// Makes a buffer of `len` bytes, each `fill`.
    pub fn add(&mut self, len: usize, fill: u8) -> BufId {
        self.all.push(vec![fill; len]);
        BufId(self.all.len() as u64 - 1)
    }

    /// What a buffer holds.
    pub fn bytes(&self, buf: BufId) -> &[u8] {
        &self.all[buf.0 as usize]
    }
}

impl Memory for Buffers {
    fn place(&mut self, to: Place, bytes: &[u8]) {
        let start = to.offset as usize;
        self.all[to.buf.0 as usize][start..start + bytes.len()].copy_from_slice(bytes);
    }

    fn update(
        &mut self,
        at: Place,
        len: usize,
        _width: usize,
        change: &mut dyn FnMut(&mut [u8]) -> bool,
    ) {
        let start = at.offset as usize;
        change(&mut self.all[at.buf.0 as usize][start..start + len]);
    }

    fn crc32c(&self, crc: u32, bytes: &[u8]) -> u32 {
        crc32c::crc32c_append(crc, bytes)
    }
}

/// Frames on their way, oldest first. Their memory is used again.
#[derive(Debug, Default)]
pub struct Wire {
    frames: VecDeque<Vec<u8>>,
    spare: Vec<Vec<u8>>,
}

impl Wire {
    /// An empty frame to be filled and sent.
    pub fn blank(&mut self) -> Vec<u8> {
        let mut frame = self.spare.pop().unwrap_or_default();
        frame.clear();
        frame
    }

    /// Sends a frame.
    pub fn push(&mut self, frame: Vec<u8>) {
        self.frames.push_back(frame);
    }

    /// Puts a frame back that was not taken.
    pub fn push_front(&mut self, frame: Vec<u8>) {
        self.frames.push_front(frame);
    }

    /// The oldest frame; to be given back with `recycle`.
    pub fn pop(&mut self) -> Option<Vec<u8>> {
        self.frames.pop_front()
    }

    /// Takes the memory of a frame that was read.
    pub fn recycle(&mut self, frame: Vec<u8>) {
        self.spare.push(frame);
    }

    /// Frames on their way.
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// Whether nothing is on its way.
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }
}

/// An endpoint, its memory, and the frame it is making.
#[derive(Debug)]
pub struct Node {
    /// The protocol.
    pub endpoint: Endpoint,
    /// The application's memory.
    pub memory: Buffers,
    /// The frame last made.
    pub tx: TxFrame,
    /// The train last made.
    pub train: TxTrain,
    /// Where it is.
    pub locator: Locator,
}

impl Node {
    /// Opens the endpoint with this number: secret, identity and locator follow from it.
    pub fn open(number: u64, limits: Limits, settings: Settings, now: Instant) -> Self {
        let opening = opening(number, 0);
        let locator = opening.locators[0];
        let endpoint = Endpoint::open(opening, limits, settings, now).expect("sound settings");
        let (memory, tx, train) = (Buffers::default(), TxFrame::default(), TxTrain::default());
        Self { endpoint, memory, tx, train, locator }
    }

    /// Puts all frames the endpoint wants to send on the wire; how many.
    pub fn transmit(&mut self, now: Instant, wire: &mut Wire) -> usize {
        let mut count = 0;
        while self.endpoint.poll_transmit(now, &mut self.tx) {
            let mut frame = wire.blank();
            self.finish(&mut frame);
            wire.push(frame);
            count += 1;
        }
        count
    }

    /// Gathers and seals the frame last made.
    pub fn finish(&mut self, frame: &mut Vec<u8>) {
        let crc = self.gather(frame);
        self.tx.seal(crc);
        frame[..self.tx.head.len()].copy_from_slice(&self.tx.head);
    }

    /// Gathers the body of the frame last made, behind room for its head; the body's sum, if one is wanted.
    pub fn gather(&mut self, frame: &mut Vec<u8>) -> u32 {
        let head_len = self.tx.head.len();
        frame.resize(head_len, 0);
        gather(&self.endpoint, &self.memory, &self.tx, frame);
        if self.tx.wants_crc() { crc32c::crc32c(&frame[head_len..]) } else { 0 }
    }

    /// Hands over every frame on the wire; how many.
    pub fn receive(&mut self, now: Instant, from: Locator, wire: &mut Wire) -> usize {
        let mut count = 0;
        while let Some(frame) = wire.pop() {
            self.endpoint.on_frame(now, 0, from, &frame, &mut self.memory);
            wire.recycle(frame);
            count += 1;
        }
        count
    }
}

/// Appends the body of a frame.
fn gather(endpoint: &Endpoint, memory: &Buffers, tx: &TxFrame, frame: &mut Vec<u8>) {
    for piece in &tx.body {
        let len = piece.len as usize;
        match piece.source {
            Source::User { buf, offset } => {
                frame.extend_from_slice(&memory.bytes(buf)[offset as usize..offset as usize + len]);
            }
            Source::Pool { slot, offset } => {
                let start = offset as usize;
                frame.extend_from_slice(&endpoint.pooled(slot)[start..start + len]);
            }
            Source::Whereabouts { .. } | Source::Zero => frame.resize(frame.len() + len, 0),
        }
    }
}

/// What endpoint `number` draws at its `life`-th opening.
pub fn opening(number: u64, life: u64) -> Opening {
    let mut locator = Locator::default();
    locator.0[..8].copy_from_slice(&number.to_le_bytes());
    let draw = |what: u64| {
        (number << 8 ^ life << 40 ^ what).wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15)
    };
    Opening {
        secret: Secret([number.wrapping_mul(0xD6E8_FEB8_6659_FD93) | 1, !number]),
        identity: Identity { host: 1, endpoint: number },
        entropy: [draw(1), draw(2), draw(3), draw(4)],
        locators: vec![locator],
    }
}

/// Two nodes that know each other.
#[derive(Debug)]
pub struct Pair {
    /// Both.
    pub nodes: [Node; 2],
    /// What each calls the other.
    pub peers: [PeerId; 2],
    /// Frames on their way to each.
    pub wires: [Wire; 2],
    /// The clock. It stands still unless moved.
    pub now: Instant,
}

impl Pair {
    /// Opens two endpoints and introduces them to each other.
    pub fn open(limits: &Limits, settings: &Settings) -> Self {
        let now = Instant(1_000_000_000);
        let mut nodes =
            [0, 1].map(|number| Node::open(number, limits.clone(), settings.clone(), now));
        let addresses = [0, 1].map(|side: usize| nodes[side].endpoint.address());
        let peers = [0, 1].map(|side: usize| {
            nodes[side].endpoint.add_peer(&addresses[1 - side]).expect("room for one peer")
        });
        Self { nodes, peers, wires: [Wire::default(), Wire::default()], now }
    }

    /// Carries frames in both directions until neither side has one; a microsecond for each crossing.
    pub fn exchange(&mut self) {
        loop {
            self.now = self.now + 1_000;
            let Self { nodes: [a, b], wires: [to_a, to_b], now, .. } = self;
            let sent = a.transmit(*now, to_b) + b.transmit(*now, to_a);
            if sent == 0 {
                return;
            }
            b.receive(*now, a.locator, to_b);
            a.receive(*now, b.locator, to_a);
        }
    }

    /// Exchanges, and lets timers fire (delayed acknowledgements) until nothing is due within `ns`.
    pub fn settle(&mut self, ns: u64) {
        let end = self.now + ns;
        loop {
            self.exchange();
            let due = self
                .nodes
                .iter()
                .map(|node| node.endpoint.next_timeout())
                .min()
                .expect("two nodes");
            if due > end {
                return;
            }
            self.now = self.now.max(due);
            for Node { endpoint, memory, .. } in &mut self.nodes {
                endpoint.on_timeout(self.now, memory);
            }
        }
    }

    /// Posts a send from memory of `side` to the other.
    pub fn send(&mut self, side: usize, tag: u64, buf: BufId, len: u64) {
        let spec = SendSpec {
            peer: self.peers[side],
            space: Space(0),
            tag: Tag(tag),
            immediate: None,
            payload: Payload::InPlace { buf, len },
            until_matched: false,
            user: tag,
        };
        self.nodes[side].endpoint.post_send(self.now, spec).expect("posted");
    }

    /// Posts a receive at `side` for a message of the other.
    pub fn recv(&mut self, side: usize, tag: u64, buf: BufId, len: u64) {
        let spec = recv_spec(Some(self.peers[side]), tag, 0, buf, len);
        let Node { endpoint, memory, .. } = &mut self.nodes[side];
        endpoint.post_recv(self.now, spec, memory).expect("posted");
    }

    /// The next event of `side`, news of the association left out.
    pub fn event(&mut self, side: usize) -> Option<Event> {
        loop {
            match self.nodes[side].endpoint.poll_event()? {
                Event::Joined { .. } => {}
                event => return Some(event),
            }
        }
    }
}

/// A receive used once, from the priority list.
pub fn recv_spec(source: Option<PeerId>, tag: u64, ignore: u64, buf: BufId, len: u64) -> RecvSpec {
    RecvSpec {
        criteria: Criteria { space: Space(0), tag: Tag(tag), ignore, source },
        buf,
        len,
        list: List::Priority,
        uses: Use::Once,
        header_only: false,
        user: tag,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_exchanges_messages_of_all_sizes() {
        let mut pair = Pair::open(&Limits::default(), &Settings::default());
        for (tag, len) in [0, 8, 1_000, 5_000, 100_000, 1 << 20].into_iter().enumerate() {
            let from = pair.nodes[0].memory.add(len, 7);
            let to = pair.nodes[1].memory.add(len, 0);
            pair.recv(1, tag as u64, to, len as u64);
            pair.send(0, tag as u64, from, len as u64);
            pair.settle(1_000_000);
            assert!(
                matches!(pair.event(1), Some(Event::Received { result: Ok(()), .. })),
                "{len} bytes"
            );
            assert!(
                matches!(pair.event(0), Some(Event::Sent { result: Ok(()), .. })),
                "{len} bytes"
            );
            assert!(pair.nodes[1].memory.bytes(to).iter().all(|&byte| byte == 7), "{len} bytes");
        }
    }
}
