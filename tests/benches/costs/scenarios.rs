//! What is counted: messages between two endpoints, frames alone, the matcher alone.

use std::hint::black_box;

use anyhow::{Result, bail};
use packhorse_proto::matching::Matcher;
use packhorse_proto::wire::{Class, Header, MessageHead};
use packhorse_proto::{
    BufId, Criteria, Event, Limits, List, Payload, PeerId, Place, Secret, SendSpec, Settings,
    Space, Tag,
};
use packhorse_tests::node::{Buffers, Node, Pair, Wire, recv_spec};

use crate::hop;
use crate::portals;
use crate::sides::{at_frame, at_matcher, at_receiver, at_sender};
use crate::trains;

/// A run of messages of one kind from node 0 to node 1.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stream {
    /// Its name on the command line.
    pub(crate) name: &'static str,
    /// What a reader calls it.
    pub(crate) title: &'static str,
    /// Payload.
    pub(crate) len: usize,
    /// Posted at once, before frames are made.
    pub(crate) burst: usize,
    /// Payload goes through the resend pool.
    pub(crate) copied: bool,
    /// Bodies are summed.
    pub(crate) payload_check: bool,
    /// The receive is posted after the message came.
    pub(crate) unexpected: bool,
    /// Each message is answered by one of the same kind; counted is a whole round at each side.
    pub(crate) answered: bool,
    /// Data leaves as trains and lands in place.
    pub(crate) trains: bool,
}

const PLAIN: Stream = Stream {
    name: "",
    title: "",
    len: 8,
    burst: 1,
    copied: false,
    payload_check: false,
    unexpected: false,
    answered: false,
    trains: false,
};

/// The message of which the issue speaks: 8 bytes, in a frame of its own, into a posted receive.
pub(crate) const LONE: Stream =
    Stream { name: "lone", title: "8 bytes, alone in its frame", ..PLAIN };

/// What a megabyte costs if its data goes as trains.
pub(crate) const TRAINS: Stream = Stream {
    name: "trains",
    title: "1 MB by rendezvous, as trains",
    len: 1 << 20,
    trains: true,
    ..PLAIN
};

/// All of them.
pub(crate) const STREAMS: &[Stream] = &[
    LONE,
    Stream { name: "copied", title: "8 bytes, copied at the post", copied: true, ..PLAIN },
    Stream { name: "checked", title: "8 bytes, with payload check", payload_check: true, ..PLAIN },
    Stream { name: "unexpected", title: "8 bytes, before its receive", unexpected: true, ..PLAIN },
    Stream { name: "burst", title: "8 bytes, 16 posted at once", burst: 16, ..PLAIN },
    Stream { name: "kilobyte", title: "1 KB, alone in its frame", len: 1_000, ..PLAIN },
    Stream { name: "fragments4", title: "4 KB in fragments", len: 4 << 10, trains: true, ..PLAIN },
    Stream {
        name: "fragments16",
        title: "16 KB in fragments",
        len: 16 << 10,
        trains: true,
        ..PLAIN
    },
    Stream { name: "pingpong", title: "8 bytes there and 8 back", answered: true, ..PLAIN },
    Stream { name: "megabyte", title: "1 MB by rendezvous", len: 1 << 20, ..PLAIN },
    TRAINS,
];

/// Masks of MPI libraries (their libfabric layers): what is ignored for a tag, and for any tag.
pub(crate) const MASKS: &[(&str, u64, u64)] =
    &[("Open MPI", 1 << 32, 1 << 32 | 0x7FFF_FFFF), ("MPICH", 3 << 54, 3 << 54 | 0x7FFF_FFFF)];

/// Runs the scenario with this name, for so many messages.
pub(crate) fn run(name: &str, count: usize) -> Result<()> {
    if let Some(stream) = STREAMS.iter().find(|stream| stream.name == name) {
        run_stream(stream, count);
        return Ok(());
    }
    let words: Vec<&str> = name.split('-').collect();
    match words[..] {
        ["frame"] => run_frames(count),
        ["hop"] => hop::run(count)?,
        ["fetched"] => hop::run_fetched(count)?,
        ["streamed"] => hop::run_streamed(count)?,
        ["portals", list, entries] => portals::run(list, entries.parse()?, count),
        ["match", list, mask, entries] => {
            let (tagged, any) = MASKS
                .iter()
                .map(|&(_, tagged, any)| (tagged, any))
                .nth(mask.parse()?)
                .expect("a mask");
            match list {
                "shuffled" => run_shuffled(tagged, any, entries.parse()?, count),
                _ => run_matcher(list == "unexpected", tagged, any, entries.parse()?, count),
            }
        }
        _ => bail!("no scenario is called {name}"),
    }
    Ok(())
}

fn run_stream(stream: &Stream, count: usize) {
    let mut settings = Settings { payload_check: stream.payload_check, ..Settings::default() };
    let mut limits = Limits::default();
    if stream.trains {
        // A grant fills a train, and there is room for several.
        (settings.grant_packets, settings.grant_ahead) = (64, 64);
        limits.grant_len_max = 256 << 10;
    }
    let mut pair = Pair::open(&limits, &settings);
    let bufs = [0, 1].map(|side: usize| {
        let memory = &mut pair.nodes[side].memory;
        [memory.add(stream.len, side as u8), memory.add(stream.len, 0)]
    });
    // First contact is not what is counted, but must be over.
    let mut talk = Talk { stream: *stream, bufs, serial: 0 };
    talk.warm_up(&mut pair);
    let mut done = 0;
    while done < count {
        talk.round(&mut pair);
        done += stream.burst;
    }
}

/// Messages between two nodes, as a driver would move them.
struct Talk {
    stream: Stream,
    /// For each side: what it sends from, what it receives into.
    bufs: [[BufId; 2]; 2],
    serial: u64,
}

impl Talk {
    fn warm_up(&mut self, pair: &mut Pair) {
        for _ in 0..256 {
            self.round(pair);
        }
        pair.settle(1_000_000);
        drain(&mut pair.nodes);
    }

    /// One burst, or one message and its answer.
    fn round(&mut self, pair: &mut Pair) {
        let first = self.serial;
        self.serial += self.stream.burst as u64;
        if !self.stream.unexpected {
            self.post_recvs(pair, 1, first);
        }
        if self.stream.answered {
            self.post_recvs(pair, 0, first);
        }
        self.post_sends(pair, 0, first);
        cross(pair, 0, self.stream.trains);
        if self.stream.unexpected {
            self.post_recvs(pair, 1, first);
        }
        assert!(events(pair, 1) > 0, "nothing arrived in round {first}");
        if self.stream.answered {
            self.post_sends(pair, 1, first);
            assert!(cross(pair, 1, false) > 0, "no answer in round {first}");
        }
    }

    fn post_recvs(&self, pair: &mut Pair, side: usize, first: u64) {
        let Pair { nodes, peers, now, .. } = pair;
        for tag in first..first + self.stream.burst as u64 {
            let spec =
                recv_spec(Some(peers[side]), tag, 0, self.bufs[side][1], self.stream.len as u64);
            match side {
                0 => at_sender::post_recv(&mut nodes[0], *now, spec),
                _ => at_receiver::post_recv(&mut nodes[1], *now, spec),
            }
        }
    }

    fn post_sends(&self, pair: &mut Pair, side: usize, first: u64) {
        let Pair { nodes, peers, now, .. } = pair;
        let (buf, len) = (self.bufs[side][0], self.stream.len as u64);
        let bytes = [7; 64];
        let payload = match self.stream.copied {
            true => Payload::Copied(&bytes[..self.stream.len]),
            false => Payload::InPlace { buf, len },
        };
        for tag in first..first + self.stream.burst as u64 {
            let spec = SendSpec {
                peer: peers[side],
                space: Space(0),
                tag: Tag(tag),
                immediate: None,
                payload,
                until_matched: false,
                user: tag,
            };
            match side {
                0 => at_sender::post_send(&mut nodes[0], *now, spec),
                _ => at_receiver::post_send(&mut nodes[1], *now, spec),
            }
        }
    }
}

/// Carries frames until nobody has one, each crossing in a microsecond, and takes the events of node 0: how many
/// messages it received. As a driver does, an endpoint is asked for frames after it was called, not otherwise.
pub(crate) fn cross(pair: &mut Pair, poster: usize, by_trains: bool) -> usize {
    let mut called = [poster == 0, poster == 1];
    let mut received = 0;
    while called != [false, false] {
        pair.now = pair.now + 1_000;
        transmit(pair, std::mem::take(&mut called), by_trains);
        let Pair { nodes: [a, b], wires: [to_a, to_b], now, .. } = pair;
        loop {
            let is_taken = by_trains
                && !to_b.is_empty()
                && (trains::land(b, *now, a.locator, to_b) > 0
                    || trains::join(b, *now, a.locator, to_b) > 0);
            if is_taken {
                called[1] = true;
                continue;
            }
            let Some(frame) = to_b.pop() else { break };
            at_receiver::on_frame(b, *now, a.locator, &frame);
            to_b.recycle(frame);
            called[1] = true;
        }
        while let Some(frame) = to_a.pop() {
            at_sender::on_frame(a, *now, b.locator, &frame);
            to_a.recycle(frame);
            called[0] = true;
        }
        if called[0] {
            received += events(pair, 0);
        }
    }
    received
}

fn transmit(pair: &mut Pair, called: [bool; 2], by_trains: bool) {
    let Pair { nodes: [a, b], wires: [to_a, to_b], now, .. } = pair;
    if called[0] {
        at_sender::check_timers(a, *now);
    }
    if called[1] {
        at_receiver::check_timers(b, *now);
    }
    let next = |a: &mut Node, to_b: &mut Wire| {
        while by_trains && trains::transmit(a, *now, to_b) {}
        at_sender::poll_transmit(a, *now)
    };
    while called[0] && next(a, to_b) {
        let (frame, crc) = gathered(a, to_b);
        at_sender::seal(a, crc);
        send(a, to_b, frame);
    }
    while called[1] && at_receiver::poll_transmit(b, *now) {
        let (frame, crc) = gathered(b, to_a);
        at_receiver::seal(b, crc);
        send(b, to_a, frame);
    }
}

/// The body of the frame last made, behind room for its head; and its sum, if one is wanted.
fn gathered(node: &mut Node, wire: &mut Wire) -> (Vec<u8>, u32) {
    let mut frame = wire.blank();
    let crc = node.gather(&mut frame);
    (frame, crc)
}

fn send(node: &Node, wire: &mut Wire, mut frame: Vec<u8>) {
    frame[..node.tx.head.len()].copy_from_slice(&node.tx.head);
    wire.push(frame);
}

/// Takes all events of a side; how many messages arrived.
fn events(pair: &mut Pair, side: usize) -> usize {
    let mut count = 0;
    loop {
        let event = match side {
            0 => at_sender::poll_event(&mut pair.nodes[0]),
            _ => at_receiver::poll_event(&mut pair.nodes[1]),
        };
        match event {
            None => return count,
            Some(Event::Received { result: Ok(()), .. }) => count += 1,
            Some(_) => {}
        }
    }
}

fn drain(nodes: &mut [Node; 2]) {
    for node in nodes {
        while node.endpoint.poll_event().is_some() {}
    }
}

/// Frames alone: what the wire format costs with no promise attached.
fn run_frames(count: usize) {
    let key = Secret([3, 5]);
    let mut memory = Buffers::default();
    let buf = memory.add(8, 0);
    let mut head = Vec::with_capacity(64);
    let mut frame = Vec::with_capacity(64);
    for packet in 0..count as u32 {
        let header = Header { to: 77, packet: packet.into(), path: 0, form: 1 };
        let message = MessageHead {
            class: Class::Eager,
            space: Space(0),
            message: packet,
            tag: Tag(u64::from(packet)),
            offset: 0,
            total: 8,
            immediate: None,
            wants_match: false,
            len: 8,
            ahead: 0,
        };
        at_frame::at_frame_sender(&mut head, header, &message, key);
        frame.clear();
        frame.extend_from_slice(&head);
        frame.extend_from_slice(&[1; 8]);
        assert!(at_frame::at_frame_receiver(&frame, key, &mut memory, Place { buf, offset: 0 }));
    }
}

/// The matcher among `entries` others, of the shapes an MPI program mixes: tag and source given, any tag, any source,
/// any of both. What is counted matches none of the others and comes behind all of them.
fn run_matcher(unexpected: bool, tagged: u64, any_tag: u64, entries: usize, count: usize) {
    let mut matcher = Matcher::new(0x5EED);
    for at in 0..entries as u64 {
        let (source, tag) = (PeerId(at % 64), Tag(1 << 34 | at));
        if unexpected {
            matcher.hold(Space(0), tag, source, at as u32);
        } else {
            matcher.post(List::Priority, &mixed_receive(at, tagged, any_tag), at as u32);
        }
    }
    for at in 0..count as u64 {
        let (tag, source) = (Tag(1 << 34 | 1 << 20 | (at % 1_000)), PeerId(at % 64));
        let any_source = at % 4 == 0;
        let criteria = Criteria {
            space: Space(0),
            tag,
            ignore: tagged,
            source: (!any_source).then_some(source),
        };
        let taken = match unexpected {
            true => at_matcher::unexpected(&mut matcher, &criteria, tag, source),
            false => at_matcher::expected(&mut matcher, &criteria, tag, source),
        };
        assert_eq!(black_box(taken), Some(7));
    }
}

/// The receive number `at` of an MPI program.
fn mixed_receive(at: u64, tagged: u64, any_tag: u64) -> Criteria {
    let (source, tag) = (PeerId(at % 64), Tag(1 << 34 | at));
    // Any-tag receives belong to communicators of their own, or they would take everything.
    let other = Tag((2 + at % 7) << 34);
    let (tag, ignore, source) = match at % 8 {
        0 => (other, any_tag, Some(source)),
        1 => (other, any_tag, None),
        2 => (tag, tagged, None),
        _ => (tag, tagged, Some(source)),
    };
    Criteria { space: Space(0), tag, ignore, source }
}

/// The matcher when messages come in any order: each takes one of `entries` receives, which is then posted again.
fn run_shuffled(tagged: u64, any_tag: u64, entries: usize, count: usize) {
    let mut matcher = Matcher::new(0x5EED);
    let receives: Vec<Criteria> =
        (0..entries as u64).map(|at| mixed_receive(at, tagged, any_tag)).collect();
    for (receive, token) in receives.iter().zip(0..) {
        matcher.post(List::Priority, receive, token);
    }
    // For nobody, so that what is posted stands in its groups.
    assert!(matcher.find(Space(1), Tag(0), PeerId(0)).is_none());
    let mut random = 1_u64;
    for _ in 0..count {
        random = random.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
        let receive = receives[(random >> 33) as usize % entries];
        let (tag, source) = (receive.tag, receive.source.unwrap_or(PeerId(3)));
        let taken = at_matcher::shuffled(&mut matcher, &receives, tag, source);
        assert!(black_box(taken).is_some());
    }
}
