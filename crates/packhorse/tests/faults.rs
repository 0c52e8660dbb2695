//! The real link with injected faults: what arrives is whole, once, in order.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use packhorse::{Builder, Endpoint, Faults, Peer, Placement, Wanted};

fn pattern(number: u64, len: usize) -> Vec<u8> {
    (0..len as u64).map(|at| (number.wrapping_mul(31) + at * 7 + at / 256) as u8).collect()
}

fn len_of(number: u64) -> usize {
    match number % 10 {
        0 => 200_000 + number as usize,
        1 | 2 => 10_000 + number as usize * 3,
        _ => number as usize % 700,
    }
}

fn open(seed: u64, placement: Placement, paths: u8) -> Endpoint {
    let faults = Faults {
        seed,
        loss_ppm: 10_000,
        duplicate_ppm: 10_000,
        reorder_ppm: 20_000,
        corrupt_ppm: 5_000,
        ..Faults::default()
    };
    let builder = Builder::plain()
        .link("udp".parse().unwrap())
        .bind([127, 0, 0, 1])
        .faults(faults)
        .placement(placement);
    builder.paths(paths).linger(Duration::from_secs(2)).open().unwrap()
}

/// Sends `count` messages each way, sixteen under way, and verifies every byte.
fn exchange(a: &Endpoint, b: &Endpoint, count: u64) {
    let (to_b, to_a) = (a.peer(&b.address()).unwrap(), b.peer(&a.address()).unwrap());
    let one_way = |from: &Endpoint, to: &Endpoint, peer: Peer, source: Peer| {
        let mut coming = VecDeque::new();
        let mut going = VecDeque::new();
        let (mut posted, mut received) = (0, 0);
        let start = Instant::now();
        while received < count {
            while posted < count && coming.len() < 16 {
                // All of one tag: only their order tells them apart.
                coming.push_back(to.recv(Wanted::tag(9).from(source), vec![0; 300_000]));
                going.push_back(from.send(peer, 9, pattern(posted, len_of(posted))));
                posted += 1;
            }
            from.turn();
            while let Some(message) = coming.front_mut().and_then(|coming| coming.test()) {
                let buffer = message.unwrap().buffer;
                assert!(buffer == pattern(received, len_of(received)), "message {received}");
                coming.pop_front();
                received += 1;
            }
            while let Some(sent) = going.front_mut().and_then(|going| going.test()) {
                sent.unwrap();
                going.pop_front();
            }
            assert!(start.elapsed() < Duration::from_secs(60), "{received} of {count} in a minute");
        }
    };
    one_way(a, b, to_b, to_a);
    one_way(b, a, to_a, to_b);
}

#[test]
fn mixed_sizes_arrive_whole_through_loss_duplication_reordering_and_damage() {
    for (seed, placement) in [(1, Placement::Inline), (2, Placement::Thread)] {
        let (a, b) = (open(seed, placement, 1), open(seed + 100, placement, 1));
        exchange(&a, &b, 200);
        let lost = a.counters().iter().find(|(name, _)| name == "packets_lost").unwrap().1;
        assert!(lost > 0, "nothing was lost: the test tests nothing");
    }
}

#[test]
fn several_paths_share_the_work() {
    let (a, b) = (open(7, Placement::Inline, 3), open(8, Placement::Inline, 3));
    exchange(&a, &b, 100);
}
