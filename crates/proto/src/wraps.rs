//! Every number the wire cuts short, across its wrap: packets, messages, the order of refusals.
//!
//! From outside it would take four thousand million messages; here the counters of two joined endpoints are set just
//! below the edge, and traffic of every class goes over it.

use std::vec;
use std::vec::Vec;

use crate::base::slab::NONE;
use crate::*;

/// Just below where 32 bits end.
const EDGE: u64 = (1 << 32) - 3;

#[derive(Default)]
struct Ram(Vec<Vec<u8>>);

impl Memory for Ram {
    fn place(&mut self, to: Place, bytes: &[u8]) {
        let at = to.offset as usize;
        self.0[to.buf.0 as usize][at..at + bytes.len()].copy_from_slice(bytes);
    }
    fn update(
        &mut self,
        at: Place,
        len: usize,
        _width: usize,
        change: &mut dyn FnMut(&mut [u8]) -> bool,
    ) {
        let start = at.offset as usize;
        change(&mut self.0[at.buf.0 as usize][start..start + len]);
    }
    fn crc32c(&self, crc: u32, bytes: &[u8]) -> u32 {
        bytes.iter().fold(crc, |sum, &byte| sum.rotate_left(3) ^ u32::from(byte))
    }
}

struct Side {
    ep: Endpoint,
    ram: Ram,
}

fn open(n: u64, limits: Limits) -> Side {
    let opening = Opening {
        secret: Secret([n, n]),
        identity: Identity { host: n, endpoint: n },
        entropy: [n; 4],
        locators: vec![Locator([n as u8; 24])],
    };
    let ep =
        Endpoint::open(opening, limits, Settings::default(), Instant(0)).expect("sound settings");
    Side { ep, ram: Ram::default() }
}

fn frame(side: &Side, tx: &mut TxFrame) -> Vec<u8> {
    let mut body = Vec::new();
    for piece in &tx.body {
        let len = piece.len as usize;
        match piece.source {
            Source::User { buf, offset } => {
                body.extend_from_slice(&side.ram.0[buf.0 as usize][offset as usize..][..len]);
            }
            Source::Pool { slot, offset } => {
                body.extend_from_slice(&side.ep.pooled(slot)[offset as usize..][..len]);
            }
            Source::Whereabouts { .. } | Source::Zero => body.resize(body.len() + len, 0),
        }
    }
    tx.seal(side.ram.crc32c(0, &body));
    let mut bytes = tx.head.clone();
    bytes.append(&mut body);
    bytes
}

/// Carries frames, losing every `lossy`-th, until both are quiet.
fn run(sides: &mut [Side; 2], now: &mut u64, lossy: usize) {
    run_until(sides, now, lossy, 3 * SECOND);
}

/// Carries frames, losing every `lossy`-th, until both were quiet for so long.
fn run_until(sides: &mut [Side; 2], now: &mut u64, lossy: usize, quiet_ns: u64) {
    let mut tx = TxFrame::default();
    let mut count = 0;
    let mut moved_at = *now;
    while *now < moved_at + quiet_ns {
        for from in 0..2 {
            while sides[from].ep.poll_transmit(Instant(*now), &mut tx) {
                moved_at = *now;
                count += 1;
                let bytes = frame(&sides[from], &mut tx);
                if count % lossy != 0 {
                    let Side { ep, ram } = &mut sides[1 - from];
                    ep.on_frame(Instant(*now), 0, Locator([from as u8 + 1; 24]), &bytes, ram);
                }
            }
        }
        let next = sides[0].ep.next_timeout().min(sides[1].ep.next_timeout()).0;
        let soon = *now + 10_000;
        *now = if moved_at == *now { soon } else { soon.max(next.min(moved_at + quiet_ns)) };
        for Side { ep, ram } in sides.iter_mut() {
            ep.on_timeout(Instant(*now), ram);
        }
    }
}

fn push(sides: &mut [Side; 2], len: usize) -> BufId {
    let n = sides[0].ram.0.len();
    sides[0].ram.0.push((0..len).map(|at| (at * 7 + n) as u8).collect());
    sides[1].ram.0.push(vec![0; len]);
    BufId(n as u64)
}

fn send(sides: &mut [Side; 2], now: u64, peer: PeerId, len: usize) {
    let buf = push(sides, len);
    let spec = SendSpec {
        peer,
        space: Space(0),
        tag: Tag(buf.0),
        immediate: None,
        payload: Payload::InPlace { buf, len: len as u64 },
        until_matched: false,
        user: buf.0,
    };
    sides[0].ep.post_send(Instant(now), spec).expect("posted");
}

fn recv(sides: &mut [Side; 2], now: u64, buf: u64) {
    let Side { ep, ram } = &mut sides[1];
    let spec = RecvSpec {
        criteria: Criteria { space: Space(0), tag: Tag(buf), ignore: 0, source: None },
        buf: BufId(buf),
        len: ram.0[buf as usize].len() as u64,
        list: List::Priority,
        uses: Use::Once,
        header_only: false,
        user: buf,
    };
    ep.post_recv(Instant(now), spec, ram).expect("posted");
}

/// Two endpoints that know each other, all their counters just below the edge.
fn at_the_edge(limits: Limits) -> ([Side; 2], PeerId, u64) {
    brought_to_the_edge([open(1, Limits::default()), open(2, limits)])
}

fn brought_to_the_edge(mut sides: [Side; 2]) -> ([Side; 2], PeerId, u64) {
    let address = sides[1].ep.address();
    let peer = sides[0].ep.add_peer(&address).expect("room");
    let mut now = 0;
    send(&mut sides, now, peer, 8);
    recv(&mut sides, now, 0);
    run(&mut sides, &mut now, usize::MAX);
    for side in &mut sides {
        let ep = &mut side.ep;
        if ep.messages.bulk.peers.rows[0].active() == NONE {
            ep.messages.bulk.peers.activate(0);
        }
        let row = &mut ep.messages.bulk.peers.rows[0];
        row.numbers.move_to(EDGE, EDGE);
        row.move_turns_to(u16::MAX);
        let path = &mut ep.messages.bulk.peers.actives[row.active()].paths[0];
        path.begin_at(EDGE);
    }
    (sides, peer, now)
}

#[test]
fn messages_of_every_class_cross_the_wrap_of_packets_and_messages() {
    let (mut sides, peer, mut now) = at_the_edge(Limits::default());
    let lens = [0, 8, 1000, 5000, 200_000, 8, 3000, 100_000, 1];
    for (n, len) in lens.into_iter().enumerate() {
        send(&mut sides, now, peer, len);
        if n % 2 == 0 {
            recv(&mut sides, now, n as u64 + 1);
        }
    }
    run(&mut sides, &mut now, 7);
    for n in (1..lens.len()).step_by(2) {
        recv(&mut sides, now, n as u64 + 1);
    }
    run(&mut sides, &mut now, 7);
    for n in 1..=lens.len() {
        assert_eq!(sides[0].ram.0[n], sides[1].ram.0[n], "message {n}");
    }
    assert_eq!(sides[1].ep.messages.bulk.peers.rows[0].numbers.next_in(), EDGE + lens.len() as u64);
    assert!(sides[0].ep.messages.bulk.peers.counters.packets_lost > 0, "the network was not kind");
    assert_eq!(sides[0].ep.messages.bulk.send_count(), 0);
}

/// One of two that share memory.
fn sharing(n: u64) -> Side {
    let mut side = open(n, Limits::default());
    let traits = LinkTraits {
        reliability: Reliability::Ordered { may_break: false },
        is_private: true,
        can_fetch: false,
        payload_check: false,
        ..*side.ep.messages.bulk.peers.links.of(0)
    };
    side.ep.set_link(0, traits);
    side
}

/// Gives a copied message to the link, which hands it over at once; one that may not be given now is sent as any other.
fn give(sides: &mut [Side; 2], now: u64, peer: PeerId) {
    let buf = push(sides, 8);
    let bytes = sides[0].ram.0[buf.0 as usize].clone();
    let spec = SendSpec {
        peer,
        space: Space(0),
        tag: Tag(buf.0),
        immediate: None,
        payload: Payload::Copied(&bytes),
        until_matched: false,
        user: buf.0,
    };
    let mut head = [0; wire::LONE_HEAD_LEN_MAX];
    let Some(given) = sides[0].ep.prepare_given(Instant(now), &spec, &mut head) else {
        sides[0].ep.post_send(Instant(now), spec).expect("posted");
        return;
    };
    sides[0].ep.on_given(&given);
    let frame = [&head[..given.head_len], &bytes].concat();
    let Side { ep, ram } = &mut sides[1];
    ep.on_frame(Instant(now), 0, Locator([1; 24]), &frame, ram);
}

/// A message that was given has no number; one whose number ends in 32 zeros looks the same but for its check.
#[test]
fn messages_that_are_given_have_no_number_on_either_side_of_the_wrap() {
    let (mut sides, peer, mut now) = brought_to_the_edge([sharing(1), sharing(2)]);
    for n in 1..24 {
        match n % 2 {
            0 => give(&mut sides, now, peer),
            _ => send(&mut sides, now, peer, 8),
        }
        recv(&mut sides, now, n); // its memory is there since the post
        run_until(&mut sides, &mut now, usize::MAX, 10 * MS); // to one that rests nothing is given
        assert_eq!(sides[0].ram.0[n as usize], sides[1].ram.0[n as usize], "message {n}");
    }
    let counters = sides.each_ref().map(|side| &side.ep.messages.bulk.peers.counters);
    assert!(counters[0].messages_given > 5);
    assert!(sides[1].ep.messages.bulk.peers.has_high());
    for counters in counters {
        assert_eq!((counters.packets_lost, counters.packets_duplicate), (0, 0));
        assert_eq!((counters.frames_unkeyed, counters.messages_duplicate), (0, 0));
    }
}

/// PROTOCOL §14.6: a pass fits any number, so nothing but the number itself says that its low half began anew.
#[test]
fn messages_with_a_pass_cross_the_wrap() {
    let (mut sides, peer, mut now) = brought_to_the_edge([sharing(1), sharing(2)]);
    assert!(!sides[1].ep.messages.bulk.peers.has_high());
    for n in 1..12 {
        send(&mut sides, now, peer, 8);
        recv(&mut sides, now, n);
        run(&mut sides, &mut now, usize::MAX);
        assert_eq!(sides[0].ram.0[n as usize], sides[1].ram.0[n as usize], "message {n}");
    }
    assert_eq!(sides[1].ep.messages.bulk.peers.rows[0].numbers.next_in(), EDGE + 11);
    for Side { ep, .. } in &sides {
        let counters = &ep.messages.bulk.peers.counters;
        assert_eq!((counters.packets_lost, counters.packets_duplicate), (0, 0));
        assert_eq!(counters.frames_unkeyed, 0);
    }
}

/// Carries frames as `run` does, but data as trains that land where they were predicted. How many packets landed in a
/// train in which the low half of the number came to zero.
fn run_trains(sides: &mut [Side; 2], now: &mut u64) -> usize {
    let (mut tx, mut train, mut wrapped) = (TxFrame::default(), TxTrain::default(), 0);
    for _ in 0..4_000 {
        *now += 10_000;
        for from in 0..2 {
            let source = Locator([from as u8 + 1; 24]);
            loop {
                let at = Instant(*now);
                if sides[from].ep.poll_train(at, 64, 64_000, &mut train) {
                    wrapped += land(sides, from, at, &source, &train);
                } else if sides[from].ep.poll_transmit(at, &mut tx) {
                    let bytes = frame(&sides[from], &mut tx);
                    let Side { ep, ram } = &mut sides[1 - from];
                    ep.on_frame(at, 0, source, &bytes, ram);
                } else {
                    break;
                }
            }
        }
        for Side { ep, ram } in sides.iter_mut() {
            ep.on_timeout(Instant(*now), ram);
        }
    }
    wrapped
}

fn land(
    sides: &mut [Side; 2],
    from: usize,
    at: Instant,
    source: &Locator,
    train: &TxTrain,
) -> usize {
    let len = (train.count as u64 - 1) * u64::from(train.payload_len) + u64::from(train.last_len);
    let Source::User { buf, offset } = train.source else { panic!("granted data is the user's") };
    let payload = sides[from].ram.0[buf.0 as usize][offset as usize..][..len as usize].to_vec();
    let Side { ep, ram } = &mut sides[1 - from];
    let landing = ep.predict(0).expect("granted");
    assert!((landing.buf, landing.offset) == (buf, offset) && len <= landing.len);
    ram.place(Place { buf: landing.buf, offset: landing.offset }, &payload);
    let (heads, count) = (&train.heads, train.count);
    let taken = ep.on_landed(at, 0, source, &landing, heads, count, train.last_len, ram);
    assert_eq!(taken, count);
    let wraps = heads.chunks(train.head_len).any(|head| head[16..20] == [0; 4]);
    if wraps { taken } else { 0 }
}

#[test]
fn train_crosses_the_wrap_of_packet_numbers() {
    let plan = |n| {
        let mut side = open(n, Limits::default());
        let traits = *side.ep.messages.bulk.peers.links.of(0);
        side.ep.set_link(0, LinkTraits { payload_check: false, ..traits });
        side
    };
    let mut sides = [plan(1), plan(2)];
    let address = sides[1].ep.address();
    let peer = sides[0].ep.add_peer(&address).expect("room");
    let mut now = 0;
    send(&mut sides, now, peer, 8);
    recv(&mut sides, now, 0);
    run(&mut sides, &mut now, usize::MAX);
    for side in &mut sides {
        side.ep.messages.bulk.peers.activate(0);
        let path = &mut side.ep.messages.bulk.peers.actives
            [side.ep.messages.bulk.peers.rows[0].active()]
        .paths[0];
        path.begin_at((1 << 32) - 20);
    }
    send(&mut sides, now, peer, 300_000);
    recv(&mut sides, now, 1);
    assert!(run_trains(&mut sides, &mut now) > 1, "a train went over the edge");
    assert_eq!(sides[0].ram.0[1], sides[1].ram.0[1]);
    assert_eq!(sides[0].ep.messages.bulk.send_count(), 0);
    assert_eq!(
        sides[1].ep.messages.bulk.peers.counters.packets_duplicate
            + sides[0].ep.messages.bulk.peers.counters.packets_lost,
        0
    );
}

#[test]
fn refusal_and_recall_cross_the_wrap_of_their_order_and_of_message_numbers() {
    let limits = Limits { envelope_count_max: 4, ..Limits::default() };
    let (mut sides, peer, mut now) = at_the_edge(limits);
    for _ in 0..20 {
        send(&mut sides, now, peer, 100);
    }
    run(&mut sides, &mut now, usize::MAX);
    assert!(sides[1].ep.messages.bulk.peers.counters.refusals > 0);
    for n in 1..=20 {
        recv(&mut sides, now, n);
        run(&mut sides, &mut now, usize::MAX);
    }
    for n in 1..=20 {
        assert_eq!(sides[0].ram.0[n], sides[1].ram.0[n], "message {n}");
    }
    assert!(sides[1].ep.messages.bulk.peers.rows[0].turn_order() < 100, "the order wrapped");
    assert_eq!(sides[0].ep.messages.bulk.send_count(), 0);
}

/// One frame of side 0, with whatever it wants to send.
fn next_frame(sides: &mut [Side; 2], now: u64) -> Vec<u8> {
    let mut tx = TxFrame::default();
    assert!(sides[0].ep.poll_transmit(Instant(now), &mut tx), "something to send");
    frame(&sides[0], &mut tx)
}

/// Has the receiver expect the packet of which this is a recording, 2^32 packets later, and that message number again: all that
/// the wire shows of a new packet would be the same. What becomes of the recording: frames taken, frames unkeyed.
fn replay(sides: &mut [Side; 2], now: u64, recorded: &[u8], rounds: u64) -> (u64, u64) {
    let low = u32::from_le_bytes(recorded[16..20].try_into().expect("four bytes"));
    let Side { ep, ram } = &mut sides[1];
    ep.messages.bulk.peers.activate(0);
    let row = &mut ep.messages.bulk.peers.rows[0];
    row.numbers.move_to(row.numbers.next_out(), (rounds << 32) + 1);
    let path = &mut ep.messages.bulk.peers.actives[row.active()].paths[0];
    path.begin_receiving_at((rounds << 32) + u64::from(low));
    let before = (
        ep.messages.bulk.peers.counters.packets_duplicate,
        ep.messages.bulk.peers.counters.frames_unkeyed,
    );
    ep.on_frame(Instant(now), 0, Locator([1; 24]), recorded, ram);
    let path = &ep.messages.bulk.peers.actives[ep.messages.bulk.peers.rows[0].active()].paths[0];
    let taken = path.received().largest() - ((rounds << 32) + u64::from(low) - 1);
    assert_eq!(ep.messages.bulk.peers.counters.packets_duplicate, before.0);
    (taken, ep.messages.bulk.peers.counters.frames_unkeyed - before.1)
}

#[test]
fn frame_recorded_2_32_packets_ago_is_dropped() {
    // A lone small message, one that is cut into fragments, an announcement.
    for len in [8, 3000, 200_000] {
        for has_high in [false, true] {
            let mut sides = [open(1, Limits::default()), open(2, Limits::default())];
            let address = sides[1].ep.address();
            let peer = sides[0].ep.add_peer(&address).expect("room");
            let mut now = 0;
            send(&mut sides, now, peer, 8);
            recv(&mut sides, now, 0);
            run(&mut sides, &mut now, usize::MAX);
            send(&mut sides, now, peer, len);
            let recorded = next_frame(&mut sides, now);
            sides[1].ep.messages.bulk.peers.set_high(has_high);
            assert_eq!(replay(&mut sides, now, &recorded, 1), (0, 1), "{len} bytes, {has_high}");
            assert_eq!(replay(&mut sides, now, &recorded, 3), (0, 1), "{len} bytes, {has_high}");
            // It is the high half that tells: in its own time the frame is taken.
            assert_eq!(replay(&mut sides, now, &recorded, 0), (1, 0), "{len} bytes, {has_high}");
        }
    }
}

#[test]
fn answers_and_resting_rows_cross_the_wrap_too() {
    let (mut sides, peer, mut now) = at_the_edge(Limits::default());
    for n in 1..=40 {
        if n % 4 == 0 {
            // Both rest, and what is kept of their numbers must do.
            now += 20 * SECOND;
            for peers in sides.each_mut().map(|side| &mut side.ep.messages.bulk.peers) {
                if peers.rows[0].active() != NONE {
                    peers.rest(Instant(now), 0);
                }
            }
        }
        send(&mut sides, now, peer, 8);
        recv(&mut sides, now, n);
        now += 10_000;
        run(&mut sides, &mut now, usize::MAX);
        assert_eq!(sides[0].ram.0[n as usize], sides[1].ram.0[n as usize], "message {n}");
    }
    let lost = sides[0].ep.messages.bulk.peers.counters.packets_lost
        + sides[1].ep.messages.bulk.peers.counters.packets_lost;
    let unkeyed = sides[0].ep.messages.bulk.peers.counters.frames_unkeyed
        + sides[1].ep.messages.bulk.peers.counters.frames_unkeyed;
    assert_eq!((lost, unkeyed), (0, 0));
    assert!(
        sides[0].ep.messages.bulk.peers.has_high() && sides[1].ep.messages.bulk.peers.has_high()
    );
}
