//! What an endpoint allocates: nothing per message once it is warm, and little per idle peer.
//!
//! The counter is per thread, so tests may run side by side; bytes are those asked of the allocator.

#![forbid(unsafe_code)]

use allocation_counter::measure;
use packhorse_proto::{
    BufId, Criteria, Event, Instant, Limits, Payload, SECOND, SendSpec, Settings, Space, Tag,
};
use packhorse_tests::node::{Node, Pair, Wire};

/// Moves `count` messages of `len` bytes, each into a receive posted before; nothing else.
fn converse(pair: &mut Pair, bufs: [BufId; 2], len: u64, count: u64) {
    let (mut sent, mut received) = (0, 0);
    for tag in 0..count {
        pair.recv(1, tag, bufs[1], len);
        pair.send(0, tag, bufs[0], len);
        pair.exchange();
        take_events(pair, &mut sent, &mut received);
    }
    pair.settle(SECOND / 10);
    take_events(pair, &mut sent, &mut received);
    assert_eq!((sent, received), (count, count));
}

fn take_events(pair: &mut Pair, sent: &mut u64, received: &mut u64) {
    while let Some(event) = pair.event(1) {
        assert!(matches!(event, Event::Received { result: Ok(()), .. }), "{event:?}");
        *received += 1;
    }
    while let Some(event) = pair.event(0) {
        assert!(matches!(event, Event::Sent { result: Ok(()), .. }), "{event:?}");
        *sent += 1;
    }
}

/// Allocations of `count` messages, after as many to warm up.
fn allocations(len: u64, count: u64, settings: &Settings) -> u64 {
    let mut pair = Pair::open(&Limits::default(), settings);
    let bufs = [0, 1].map(|side: usize| pair.nodes[side].memory.add(len as usize, side as u8 ^ 1));
    converse(&mut pair, bufs, len, count);
    let counted = measure(|| converse(&mut pair, bufs, len, count));
    counted.count_total
}

#[test]
fn small_messages_allocate_nothing_in_the_steady_state() {
    for payload_check in [false, true] {
        let settings = Settings { payload_check, ..Settings::default() };
        assert_eq!(allocations(8, 5_000, &settings), 0, "8 bytes, payload check {payload_check}");
        assert_eq!(allocations(1_000, 5_000, &settings), 0, "1 KB, payload check {payload_check}");
    }
}

#[test]
fn messages_in_fragments_allocate_nothing_in_the_steady_state() {
    assert_eq!(allocations(20_000, 500, &Settings::default()), 0);
}

#[test]
fn large_messages_allocate_nothing_in_the_steady_state() {
    assert_eq!(allocations(1 << 20, 40, &Settings::default()), 0);
}

/// Moves bursts of copied and unexpected messages: they go through the pools.
fn burst_unexpected(pair: &mut Pair, buf: BufId, rounds: u64) {
    for round in 0..rounds {
        for tag in 0..32 {
            let spec = SendSpec {
                peer: pair.peers[0],
                space: Space(0),
                tag: Tag(tag),
                immediate: Some(round),
                payload: Payload::Copied(&[9; 100]),
                until_matched: false,
                user: 0,
            };
            pair.nodes[0].endpoint.post_send(pair.now, spec).expect("the pool has room");
        }
        pair.exchange();
        for tag in 0..32 {
            pair.recv(1, tag, buf, 100);
            assert!(matches!(pair.event(1), Some(Event::Received { result: Ok(()), .. })));
        }
    }
    pair.settle(SECOND / 10);
}

#[test]
fn unexpected_and_copied_messages_allocate_nothing_in_the_steady_state() {
    let mut pair = Pair::open(&Limits::default(), &Settings::default());
    let buf = pair.nodes[1].memory.add(100, 0);
    burst_unexpected(&mut pair, buf, 200);
    let counted = measure(|| burst_unexpected(&mut pair, buf, 200));
    assert_eq!(counted.count_total, 0);
}

/// Peers in the test of idle peers.
const PEER_COUNT: u64 = 100_000;
/// What each may cost.
const PEER_LEN_MAX: f64 = 512.0;

/// One message from `caller` to `called`, until both are quiet.
fn meet(
    hub: &mut Node,
    peer: &mut Node,
    hub_calls: bool,
    now: &mut Instant,
    wires: &mut [Wire; 2],
) {
    let (caller, called) = if hub_calls { (&mut *hub, &*peer) } else { (&mut *peer, &*hub) };
    let address = called.endpoint.address();
    let to = caller.endpoint.add_peer(&address).expect("room for a peer");
    let spec = SendSpec {
        peer: to,
        space: Space(0),
        tag: Tag(1),
        immediate: None,
        payload: Payload::Copied(&[1; 8]),
        until_matched: false,
        user: 0,
    };
    caller.endpoint.post_send(*now, spec).expect("the pool has room");
    settle(hub, peer, now, wires);
}

/// Lets two endpoints talk until both are quiet.
fn settle(hub: &mut Node, peer: &mut Node, now: &mut Instant, wires: &mut [Wire; 2]) {
    let [to_hub, to_peer] = wires;
    loop {
        *now = *now + 1_000;
        let moved = hub.transmit(*now, to_peer) + peer.transmit(*now, to_hub);
        peer.receive(*now, hub.locator, to_peer);
        hub.receive(*now, peer.locator, to_hub);
        let due = hub.endpoint.next_timeout().min(peer.endpoint.next_timeout());
        if moved == 0 && due > *now + SECOND {
            return;
        }
        if moved == 0 {
            *now = due.max(*now);
        }
        for node in [&mut *hub, &mut *peer] {
            if node.endpoint.next_timeout() <= *now {
                node.endpoint.on_timeout(*now, &mut node.memory);
            }
        }
    }
}

/// Takes the message that just came out of the way, whoever sent it.
fn take_message(node: &mut Node, now: Instant) {
    let anything = Criteria { space: Space(0), tag: Tag(0), ignore: !0, source: None };
    while let Some((claim, _)) = node.endpoint.claim(now, &anything) {
        node.endpoint.discard(now, claim).expect("just claimed");
    }
    while node.endpoint.poll_event().is_some() {}
}

#[test]
fn an_idle_peer_costs_at_most_512_bytes() {
    let mut now = Instant(SECOND);
    let mut hub = Node::open(0, Limits::default(), Settings::default(), now);
    let mut wires = [Wire::default(), Wire::default()];
    let counted = measure(|| {
        for number in 1..=PEER_COUNT {
            let mut peer = Node::open(number, Limits::default(), Settings::default(), now);
            // Both kinds of acquaintance: those the hub called, and those that called the hub.
            meet(&mut hub, &mut peer, number % 2 == 0, &mut now, &mut wires);
            take_message(&mut hub, now);
        }
    });
    assert_eq!(hub.endpoint.counters().joined, PEER_COUNT, "every peer verified itself");
    // Those that called are strangers to the hub: the first of them are forgotten by the time that the last come.
    let known = PEER_COUNT - hub.endpoint.counters().strangers_forgotten;
    assert!(known >= PEER_COUNT / 2, "those that the hub called are not");
    let each = counted.bytes_current as f64 / known as f64;
    println!("{known} verified idle peers: {each:.1} bytes each");
    assert!(each <= PEER_LEN_MAX, "an idle peer costs {each:.1} bytes");
}

/// Clients that come and go, and how many of them to reach the steady state.
const CLIENT_COUNT: u64 = 100_000;
const CLIENT_COUNT_WARM: u64 = 50_000;
/// The longer form.
const CLIENT_COUNT_LONG: u64 = 1_000_000;
/// Of so many clients one dies without a word.
const DEATH_SHARE: u64 = 16;
/// What may be left of them beyond what was there before: the same number of rows takes a little more or less.
const GROWTH_LEN_MAX: i64 = 64 << 10;

/// Clients number `numbers` come to a server, say something and leave.
fn come_and_go(
    server: &mut Node,
    numbers: std::ops::Range<u64>,
    now: &mut Instant,
    wires: &mut [Wire; 2],
) {
    for number in numbers {
        let mut client = Node::open(number, Limits::default(), Settings::default(), *now);
        meet(server, &mut client, false, now, wires);
        take_message(server, *now);
        if number % DEATH_SHARE != 0 {
            client.endpoint.close(*now);
            settle(server, &mut client, now, wires);
            assert!(client.endpoint.is_closed(), "client {number}");
        }
    }
}

/// Bytes that a server has more after clients came and went.
fn growth(count: u64) -> i64 {
    let mut now = Instant(SECOND);
    let mut server = Node::open(0, Limits::default(), Settings::default(), now);
    let mut wires = [Wire::default(), Wire::default()];
    come_and_go(&mut server, 1..CLIENT_COUNT_WARM, &mut now, &mut wires);
    let counted = measure(|| {
        come_and_go(&mut server, CLIENT_COUNT_WARM..count, &mut now, &mut wires);
    });
    let counters = server.endpoint.counters();
    assert_eq!(counters.joined, count - 1, "every client was served");
    let known = counters.joined - counters.strangers_forgotten;
    println!("{count} clients in {} h: {known} still known", now.0 / SECOND / 3600);
    counted.bytes_current
}

#[test]
fn clients_that_come_and_go_leave_nothing_behind() {
    let growth = growth(CLIENT_COUNT);
    assert!(growth <= GROWTH_LEN_MAX, "{growth} bytes more");
}

#[test]
#[ignore = "takes longer: `cargo xtask test --complete`"]
fn a_million_clients_that_come_and_go_leave_nothing_behind() {
    let growth = growth(CLIENT_COUNT_LONG);
    assert!(growth <= GROWTH_LEN_MAX, "{growth} bytes more");
}
