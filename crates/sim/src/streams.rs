//! Streams in simulation: interleaved messages of several senders, slow readers, every kind of weather, restarts.
//!
//! A scenario of its own beside that of `draw`, from the same seed, so that the traffic of the others stays what it was. Every
//! stream names itself in its first bytes; its reader checks each byte, that streams of one sender's life start in the order they
//! were begun, and that each came to its end once, whole, unless somebody died or it was given up. What one sender makes a reader
//! hold is bounded by credit.
//! In half of the runs nodes share memory, alone or beside a network that loses frames: there chunks are given, and pieces are told of and read where they are,
//! by readers who come late, want less, or never come. Where frames are lent, streams are handed over with their first chunks, and their readers say late what they left.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use packhorse_engine::Lender;
use packhorse_link::sim::{Conditions, Death, NodeId, Rng, SURE_NETWORK, Who};
use packhorse_proto::{
    BufId, Event, Lending, Limits, MS, OutStreamId, PeerId, SECOND, Settings, StreamBreak,
    StreamError, StreamFront, StreamId, StreamInfo,
};

use crate::digest::Digest;
use crate::draw::{PERCENT, draw};
use crate::run::Conduct;
use crate::world::{PortSpec, Spec, World};

/// Bytes at the front of each stream: sender, life, number, length, whether it will be given up.
const HEAD_LEN: usize = 14;
/// Virtual time within which everything must be over once the network is healed.
const HEALED_NS: u64 = 120 * SECOND;
/// Streams a run has under way at most.
const SENDING_COUNT_MAX: usize = 40;

/// Who sent a stream: the node, and which life of it.
type Sender = (u8, u8);

/// The bytes of a stream.
fn bytes_of(sender: Sender, number: u32, len: usize, is_given_up: bool) -> Vec<u8> {
    let mut bytes = vec![sender.0, sender.1];
    bytes.extend(number.to_le_bytes());
    bytes.extend((len as u32).to_le_bytes());
    bytes.extend(u32::from(is_given_up).to_le_bytes());
    let salt = number.wrapping_mul(0x9E37_79B9) ^ u32::from(sender.0) << 8 ^ u32::from(sender.1);
    let byte = |at: u32| (salt.wrapping_add(at.wrapping_mul(0x85EB_CA6B)) >> 13) as u8;
    bytes.extend((0..len as u32).map(byte));
    bytes
}

fn head_of(got: &[u8]) -> (Sender, u32, usize, bool) {
    let word = |at: usize| u32::from_le_bytes([got[at], got[at + 1], got[at + 2], got[at + 3]]);
    ((got[0], got[1]), word(2), word(6) as usize, word(10) != 0)
}

/// A stream that is being sent.
struct Sending {
    from: usize,
    peer: PeerId,
    id: OutStreamId,
    bytes: Vec<u8>,
    at: usize,
    is_given_up: bool,
    /// A piece that its receiver was told of: what it is called, and where it is.
    telling: Option<(u64, BufId)>,
}

/// A stream at its reader.
struct Open {
    /// The how-manieth its reader saw.
    started: u64,
    got: Vec<u8>,
}

/// What a node reads; lent frames come here too.
#[derive(Default)]
struct Reader {
    open: HashMap<StreamId, Open>,
    started_count: u64,
    /// By sender and its number of the stream: when it started here.
    started: HashMap<Sender, BTreeMap<u32, u64>>,
    /// Streams that came to their good end.
    whole: HashSet<(Sender, u32)>,
    /// Streams that were handed over, what was not read of their first chunks, and whether these were all they have.
    handed: Vec<(StreamId, Vec<u8>, bool)>,
    faults: Vec<String>,
}

impl Reader {
    /// The stream is shown: for the first time, it starts.
    fn see(&mut self, id: StreamId) {
        let started = self.started_count;
        self.open.entry(id).or_insert_with(|| {
            self.started_count += 1;
            Open { started, got: Vec::new() }
        });
    }

    fn take(&mut self, id: StreamId, bytes: &[u8]) {
        let Some(Open { started, got }) = self.open.get_mut(&id) else {
            self.faults.push("bytes of a stream that never started".into());
            return;
        };
        let was_known = got.len() >= HEAD_LEN;
        got.extend_from_slice(bytes);
        if was_known || got.len() < HEAD_LEN {
            return;
        }
        let (sender, number, ..) = head_of(got);
        let of_sender = self.started.entry(sender).or_default();
        let before = of_sender.range(..number).next_back();
        let behind = of_sender.range(number..).next();
        if before.is_some_and(|(_, at)| at > started) || behind.is_some_and(|(_, at)| at < started)
        {
            self.faults.push(format!("stream {number} of {sender:?} started out of order"));
        }
        of_sender.insert(number, *started);
    }

    /// The stream is over: what was read must be what was sent, to its end unless it broke.
    fn end(&mut self, id: StreamId, broke: Option<StreamBreak>, may_break: bool) {
        let got = self.open.remove(&id).map(|open| open.got).unwrap_or_default();
        if let Some(StreamBreak::Gone(_)) = broke
            && !may_break
        {
            self.faults.push("a stream broke, and nobody died".into());
        }
        if got.len() < HEAD_LEN {
            if broke.is_none() {
                self.faults.push(format!("a stream ended after {} bytes", got.len()));
            }
            return;
        }
        let (sender, number, len, is_given_up) = head_of(&got);
        let bytes = bytes_of(sender, number, len, is_given_up);
        if bytes.get(..got.len()) != Some(&got) {
            self.faults.push(format!("stream {number} of {sender:?}: wrong bytes"));
        }
        if broke.is_none() && (got.len() != bytes.len() || is_given_up) {
            self.faults.push(format!("stream {number} of {sender:?} ended too early"));
        }
        if broke == Some(StreamBreak::GivenUp) && !is_given_up {
            self.faults.push(format!("stream {number} of {sender:?} was not given up"));
        }
        if broke.is_none() && !self.whole.insert((sender, number)) {
            self.faults.push(format!("stream {number} of {sender:?} came twice"));
        }
    }
}

/// Takes what is lent, for a node.
struct Borrower {
    reader: Arc<Mutex<Reader>>,
    rng: Rng,
}

impl Lender for Borrower {
    fn lend(&mut self, stream: StreamId, bytes: &[u8]) -> Lending {
        // A reader may want less than a frame, or nothing just now.
        let taken_len = match self.rng.range(0..=3) {
            0 => self.rng.range(0..=bytes.len() as u64) as usize,
            _ => bytes.len(),
        };
        lock(&self.reader).take(stream, &bytes[..taken_len]);
        Lending { taken_len, is_waiting: taken_len == bytes.len() }
    }

    fn hand_over(&mut self, stream: StreamId, _: StreamInfo, bytes: &[u8], is_whole: bool) -> bool {
        // A reader may have no room for it just now, and may want less than there is.
        let taken_len = match self.rng.range(0..=5) {
            0 => return false,
            1 | 2 => self.rng.range(0..=bytes.len() as u64) as usize,
            _ => bytes.len(),
        };
        let mut reader = lock(&self.reader);
        reader.see(stream);
        reader.take(stream, &bytes[..taken_len]);
        reader.handed.push((stream, bytes[taken_len..].to_vec(), is_whole));
        true
    }
}

fn lock(reader: &Mutex<Reader>) -> MutexGuard<'_, Reader> {
    reader.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A run.
struct Run {
    world: World,
    rng: Rng,
    nodes: Vec<NodeId>,
    readers: Vec<Arc<Mutex<Reader>>>,
    lives: Vec<u8>,
    sending: Vec<Sending>,
    /// Streams begun, by sender.
    numbers: Vec<u32>,
    to_begin_count: usize,
    /// Streams that were ended well.
    ended_count: usize,
    limits: Limits,
    /// Nodes share memory; what else is drawn for that.
    memory: Option<Rng>,
    told_count: u64,
    faults: Vec<String>,
}

/// Plays the streams of a seed: what went wrong, and a number for the run.
pub fn play(seed: u64, conduct: Conduct) -> (Vec<String>, Digest) {
    let mut run = Run::new(seed);
    conduct.impose(&mut run.world);
    run.play();
    (run.faults, run.world.digest())
}

impl Run {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed).fork("streams");
        let mut world = World::new(seed ^ 0x57_12EA);
        let weather = draw(seed).weather;
        let limits = Limits {
            stream_len_max: rng.range(2_000..=200_000),
            held_len_max: if rng.chance(30 * PERCENT) { 64 << 10 } else { 64 << 20 },
            ..Limits::default()
        };
        let settings = Settings {
            frame_len_max: rng.range(1200..=9000) as u16,
            payload_check: weather.corrupt_ppm > 0,
            gone_after_ns: 5 * SECOND,
            gone_after_inline_ns: 15 * SECOND,
            ..Settings::default()
        };
        let node_count = rng.range(2..=9) as usize;
        // From numbers of its own, so that runs without memory stay what they were.
        let mut own = rng.fork("memory");
        let kind = own.range(0..=3);
        let (settings, port_specs) = with_memory(&mut own, kind, settings);
        let spec = || Spec {
            limits: limits.clone(),
            settings: settings.clone(),
            ports: port_specs.len() as u8,
            port_specs: port_specs.clone(),
            ..Spec::default()
        };
        let nodes: Vec<NodeId> = (0..node_count).map(|_| world.add_node(spec())).collect();
        world.net().set_conditions(Who::Any, Who::Any, weather);
        let to_begin_count = rng.range(1..=120) as usize;
        let mut run = Self {
            world,
            rng,
            readers: nodes.iter().map(|_| Arc::default()).collect(),
            lives: vec![0; node_count],
            numbers: vec![0; node_count],
            nodes,
            sending: Vec::new(),
            to_begin_count,
            ended_count: 0,
            limits,
            memory: (kind >= 2).then_some(own),
            told_count: 0,
            faults: Vec::new(),
        };
        (0..node_count).for_each(|index| run.lend_to(index));
        run
    }

    /// Half of the nodes take frames that are lent.
    fn lend_to(&mut self, index: usize) {
        if index.is_multiple_of(2) {
            let rng = self.rng.fork_n(index as u64);
            let reader = Arc::clone(&self.readers[index]);
            self.world.set_lender(self.nodes[index], Box::new(Borrower { reader, rng }));
        }
    }

    fn play(&mut self) {
        let will_kill = self.rng.chance(25 * PERCENT);
        let end = self.world.now() + self.rng.range(5 * MS..=200 * MS);
        while self.world.now() < end && self.faults.is_empty() {
            self.step();
            if will_kill && self.rng.chance(2 * PERCENT) {
                self.restart();
            }
        }
        self.world.net().set_conditions(Who::Any, Who::Any, Conditions::PERFECT);
        let until = self.world.now() + HEALED_NS;
        while self.world.now() < until && self.faults.is_empty() {
            if self.is_over() {
                return;
            }
            self.step();
        }
        if self.faults.is_empty() {
            let left = self.what_is_left();
            self.faults.push(left);
        }
    }

    fn is_over(&self) -> bool {
        let is_done = |&node: &NodeId| {
            let endpoint = self.world.endpoint(node);
            endpoint.waiting_stream_count() == 0 && endpoint.stream_counts() == (0, 0)
        };
        let (whole_count, wanted_count) = self.whole_counts();
        self.to_begin_count == 0
            && whole_count >= wanted_count
            && self.sending.is_empty()
            && self.nodes.iter().all(is_done)
            && self.readers.iter().all(|reader| lock(reader).open.is_empty())
    }

    /// Streams that came whole, and those that must: all that were ended, while everybody lives.
    fn whole_counts(&self) -> (usize, usize) {
        let whole_count = self.readers.iter().map(|reader| lock(reader).whole.len()).sum();
        let is_peaceful = self.lives.iter().all(|&life| life == 0);
        (whole_count, if is_peaceful { self.ended_count } else { 0 })
    }

    fn what_is_left(&self) -> String {
        let left = self.nodes.iter().map(|&node| {
            let endpoint = self.world.endpoint(node);
            let ((open, chunks), waiting) =
                (endpoint.stream_counts(), endpoint.waiting_stream_count());
            format!("node {}: {open} open, {chunks} chunks held, {waiting} wait for credit", node.0)
        });
        let left: Vec<String> = left.collect();
        let (whole_count, wanted_count) = self.whole_counts();
        format!(
            "did not end: {} being sent, {whole_count} of {wanted_count} whole; {}",
            self.sending.len(),
            left.join("; ")
        )
    }

    fn step(&mut self) {
        let until = self.world.now() + self.rng.range(10_000..=3 * MS);
        while self.world.turn(until) {}
        let faults = self.world.take_faults();
        self.faults.extend(faults);
        while let Some((node, event)) = self.world.next_event() {
            if let Event::Sent { user, placed_len, result, .. } = event {
                self.on_told_end(node, user, result.map_or(0, |()| placed_len as usize));
            }
        }
        self.begin();
        self.send();
        for index in 0..self.nodes.len() {
            if self.rng.chance(60 * PERCENT) {
                self.read(index);
            }
            self.check_memory(index);
        }
    }

    fn any_node(&mut self) -> usize {
        self.rng.range(0..=self.nodes.len() as u64 - 1) as usize
    }

    fn begin(&mut self) {
        while self.to_begin_count > 0
            && self.sending.len() < SENDING_COUNT_MAX
            && self.rng.chance(50 * PERCENT)
        {
            let (from, to) = (self.any_node(), self.any_node());
            let peer = self.world.peer(self.nodes[from], self.nodes[to]);
            let endpoint = self.world.endpoint_mut(self.nodes[from]);
            let id = endpoint.begin_stream(peer, to as u16).expect("the peer is known");
            self.to_begin_count -= 1;
            let number = self.numbers[from];
            self.numbers[from] += 1;
            let len = match self.rng.range(0..=3) {
                0 => self.rng.range(0..=20),
                1 if self.memory.is_some() => self.rng.range(0..=300_000),
                1 => self.rng.range(0..=60_000),
                _ => self.rng.range(0..=5_000),
            };
            let is_given_up = self.rng.chance(10 * PERCENT);
            let sender = (from as u8, self.lives[from]);
            let bytes = bytes_of(sender, number, len as usize, is_given_up);
            let telling = None;
            self.sending.push(Sending { from, peer, id, bytes, at: 0, is_given_up, telling });
        }
    }

    fn send(&mut self) {
        for mut sending in std::mem::take(&mut self.sending) {
            let is_over = self.rng.chance(60 * PERCENT) && self.send_some(&mut sending);
            if !is_over {
                self.sending.push(sending);
            }
        }
    }

    /// A piece of a stream, and its end if that was all. True: it is over.
    fn send_some(&mut self, sending: &mut Sending) -> bool {
        if sending.telling.is_some() || self.tell_some(sending) {
            return false;
        }
        let node = self.nodes[sending.from];
        let mut piece_len = self.rng.range(0..=4000) as usize;
        let mut is_direct = false;
        if let Some(own) = &mut self.memory {
            is_direct = own.chance(70 * PERCENT);
            if own.chance(30 * PERCENT) {
                piece_len = own.range(0..=80_000) as usize;
            }
        }
        let piece_end = sending.bytes.len().min(sending.at + piece_len);
        let piece = &sending.bytes[sending.at..piece_end];
        match self.world.write_stream(node, sending.id, piece, is_direct) {
            Ok(len) => sending.at += len,
            Err(StreamError::Gone) => {
                // It says the same again, and forgets.
                let _ = self.world.end_stream(node, sending.id, true, is_direct);
                return true;
            }
            Err(error) => {
                self.faults.push(format!("a stream could not go on: {error:?}"));
                return true;
            }
        }
        if sending.at < sending.bytes.len() {
            return false;
        }
        let ended = self.world.end_stream(node, sending.id, !sending.is_given_up, is_direct);
        match ended {
            Ok(()) => self.ended_count += usize::from(!sending.is_given_up),
            Err(error) => self.faults.push(format!("a stream could not be ended: {error:?}")),
        }
        true
    }

    /// Tells of a long piece instead of sending it, where that can be read. False: it must be sent.
    fn tell_some(&mut self, sending: &mut Sending) -> bool {
        let Some(own) = &mut self.memory else { return false };
        let left = &sending.bytes[sending.at..];
        if left.is_empty() || own.chance(50 * PERCENT) {
            return false;
        }
        let piece = &left[..own.range(1..=left.len() as u64) as usize];
        let (node, user) = (self.nodes[sending.from], self.told_count);
        let Some((_, buf)) = self.world.tell_chunk(node, (sending.peer, sending.id), piece, user)
        else {
            return false;
        };
        self.told_count += 1;
        sending.telling = Some((user, buf));
        true
    }

    /// So much of a piece that was told of was read; nothing, if its reader is gone.
    fn on_told_end(&mut self, node: NodeId, user: u64, read_len: usize) {
        let is_it = |sending: &&mut Sending| {
            self.nodes[sending.from] == node
                && sending.telling.is_some_and(|(number, _)| number == user)
        };
        let Some(sending) = self.sending.iter_mut().find(is_it) else { return };
        sending.at += read_len;
        if let Some((_, buf)) = sending.telling.take() {
            self.world.memory(node).end(buf);
        }
    }

    /// Reads what is here, if its reader is in the mood.
    fn read(&mut self, index: usize) {
        let node = self.nodes[index];
        let reader = Arc::clone(&self.readers[index]);
        let mut reader = lock(&reader);
        let may_break = self.lives.iter().any(|&life| life > 0);
        let mut deferred = Vec::new();
        for (id, rest, is_whole) in std::mem::take(&mut reader.handed) {
            self.see_to_handed(node, id, (&rest, is_whole), &mut reader, may_break);
        }
        while let Some((id, info)) = self.world.endpoint_mut(node).poll_ready_stream() {
            if usize::from(info.handler) != index {
                self.faults.push(format!("node {index} got a stream for {}", info.handler));
            }
            reader.see(id);
            if self.rng.chance(20 * PERCENT) {
                deferred.push(id); // a slow one
            } else if let Some(broke) = self.read_stream(node, id, &mut reader) {
                reader.end(id, broke, may_break);
                let now = self.world.now();
                self.world.endpoint_mut(node).close_stream(now, id);
            }
        }
        for id in deferred {
            self.world.endpoint_mut(node).defer_stream(id);
        }
        self.faults.append(&mut reader.faults);
    }

    /// Says what was not read of a first chunk that was handed over, and reads on. Who has read the whole of a stream may close it instead.
    fn see_to_handed(
        &mut self,
        node: NodeId,
        id: StreamId,
        (rest, is_whole): (&[u8], bool),
        reader: &mut Reader,
        may_break: bool,
    ) {
        let now = self.world.now();
        if is_whole && rest.is_empty() && self.rng.chance(50 * PERCENT) {
            reader.end(id, None, may_break);
            return self.world.endpoint_mut(node).close_stream(now, id);
        }
        self.world.endpoint_mut(node).keep_handed(id, rest);
        if let Some(broke) = self.read_stream(node, id, reader) {
            reader.end(id, broke, may_break);
            self.world.endpoint_mut(node).close_stream(now, id);
        }
    }

    /// Reads a stream as far as it is here. `Some`: it is over, well or not.
    fn read_stream(
        &mut self,
        node: NodeId,
        id: StreamId,
        reader: &mut Reader,
    ) -> Option<Option<StreamBreak>> {
        let now = self.world.now();
        loop {
            let endpoint = self.world.endpoint_mut(node);
            match endpoint.stream_front(now, id) {
                StreamFront::Bytes { bytes, .. } => {
                    let len = bytes.len().min(self.rng.range(1..=2000) as usize);
                    reader.take(id, &bytes[..len]);
                    endpoint.consume_stream(now, id, len);
                }
                StreamFront::Told(front) => {
                    let len = front.len.min(self.rng.range(1..=40_000));
                    let Some(bytes) = self.world.read_told(node, id, &front, len) else {
                        continue; // it cannot be read, and comes in another way
                    };
                    reader.take(id, &bytes);
                }
                StreamFront::Empty => {
                    endpoint.await_stream(id);
                    return None;
                }
                StreamFront::End => return Some(None),
                StreamFront::Broken(why) => return Some(Some(why)),
                StreamFront::Void => {
                    reader.faults.push("a stream that was ready is void".into());
                    return None;
                }
            }
        }
    }

    /// What is held is bounded by the credit of its senders: the first, or what they were told, and a chunk each. The pool
    /// rounds up to powers of two.
    fn check_memory(&mut self, index: usize) {
        let (held_len, _) = self.world.endpoint(self.nodes[index]).held();
        let each = self.limits.stream_len_max.max(64 << 10) + (16 << 10);
        let of_all = self.nodes.len() as u64 * 2 * each;
        // What was given is taken beyond the budget; credit bounds it all the same.
        let limit =
            if self.memory.is_some() { of_all } else { of_all.min(self.limits.held_len_max) };
        if held_len > limit {
            self.faults.push(format!("node {index} holds {held_len}, {limit} at most"));
        }
    }

    /// A node dies and lives again; what it sent and read is forgotten.
    fn restart(&mut self) {
        let index = self.any_node();
        let death = if self.rng.chance(50 * PERCENT) { Death::Silent } else { Death::Reported };
        self.world.kill(self.nodes[index], death);
        self.world.revive(self.nodes[index]);
        self.lives[index] += 1;
        self.sending.retain(|sending| sending.from != index);
        self.readers[index] = Arc::default();
        self.lend_to(index);
    }
}

/// The links of nodes: none of them told of (0, 1), memory (2), memory beside a network (3).
fn with_memory(own: &mut Rng, kind: u64, settings: Settings) -> (Settings, Vec<PortSpec>) {
    if kind < 2 {
        return (settings, vec![PortSpec::default()]);
    }
    let frame_len_max = 16 << 10;
    let memory = PortSpec {
        network: SURE_NETWORK,
        frame_len_max,
        knows_networks: true,
        is_reliable: true,
        is_stream: false,
    };
    let network = PortSpec { frame_len_max: settings.frame_len_max, ..PortSpec::default() };
    let settings = Settings {
        frame_len_max,
        payload_check: settings.payload_check && kind == 3,
        fetch_len_min: own.range(500..=20_000) as u32,
        ..settings
    };
    (settings, if kind == 2 { vec![memory] } else { vec![network, memory] })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An announcement that was given to memory was refused, and only the recall was heard: nobody announced it again (PROTOCOL §8.10).
    #[test]
    fn a_refusal_that_was_not_heard_leaves_no_stream_behind() {
        let faults = play(265_822_287_459_428, Conduct::default()).0;
        assert!(faults.is_empty(), "{faults:?}");
    }

    #[test]
    fn streams_of_a_few_hundred_seeds_hold() {
        for seed in 0..200 {
            assert_eq!(play(seed, Conduct::default()).0, Vec::<String>::new(), "seed {seed}");
        }
    }
}
