//! The test gear, tested: each fault happens, as often as it should, and reaches the receiver.

use std::cell::RefCell;
use std::rc::Rc;

use super::*;

const FRAME_COUNT: usize = 100_000;

/// Two nodes with one port each, under these conditions.
fn pair(seed: u64, conditions: Conditions) -> (SimNet, Port, Port) {
    let mut net = SimNet::new(seed);
    let (a, b) = (net.add_node(1).port(0), net.add_node(1).port(0));
    net.set_conditions(Who::Any, Who::Any, conditions);
    (net, a, b)
}

/// Runs until nothing is under way; checks the order of time and that no frame got unaccounted for.
fn drain(net: &mut SimNet) -> Vec<Delivery> {
    let mut delivered = Vec::new();
    let mut delivery = Delivery::default();
    while let Some(at_ns) = net.next_arrival() {
        while net.receive(at_ns, &mut delivery) {
            assert_eq!(delivery.at_ns, at_ns);
            delivered.push(delivery.clone());
        }
        let counters = net.counters();
        let (made, ended) = (
            counters.sent_count + counters.duplicated_count,
            counters.delivered_count + counters.lost_total(),
        );
        assert_eq!(made, ended + net.in_flight_count());
    }
    delivered
}

/// Sends numbered frames, `gap_ns` apart, and runs.
fn send_many(net: &mut SimNet, from: Port, to: Port, count: usize, gap_ns: u64) -> Vec<Delivery> {
    let locator = net.locator(to);
    let start_ns = net.now_ns;
    for n in 0..count {
        net.send(start_ns + n as u64 * gap_ns, from, &locator, &numbered(n));
    }
    drain(net)
}

/// 40 bytes that tell their number.
fn numbered(n: usize) -> [u8; 40] {
    let mut bytes = [0x5a; 40];
    bytes[..8].copy_from_slice(&n.to_le_bytes());
    bytes
}

fn numbers(delivered: &[Delivery]) -> Vec<u64> {
    delivered.iter().map(|delivery| delivery.number).collect()
}

#[track_caller]
fn assert_about(count: u64, expected: f64) {
    // Five standard deviations of a rare event: no seed should see it fail, a wrong rate does.
    let slack = 5.0 * expected.sqrt();
    assert!(
        (count as f64 - expected).abs() < slack,
        "{count} is not about {expected} ± {slack:.0}"
    );
}

const ROUGH: Conditions = Conditions {
    jitter_ns: 3_000,
    loss_ppm: 20_000,
    burst: Some(Burst { enter_ppm: 1_000, leave_ppm: 200_000, loss_ppm: 800_000 }),
    duplicate_ppm: 10_000,
    duplicate_ns: 50_000,
    reorder_ppm: 20_000,
    reorder_ns: 40_000,
    corrupt_ppm: 5_000,
    truncate_ppm: 5_000,
    ..Conditions::PERFECT
};

/// A run with some of everything: the hash the network keeps, and one of all that was delivered.
fn rough_run(seed: u64) -> (u64, Vec<(u64, Vec<u8>)>, Counters) {
    let (mut net, a, b) = pair(seed, ROUGH);
    net.set_all_lines(Line::gbps(1, 20_000));
    let c = net.add_node(2).port(1);
    let trunk = net.add_trunk(Line::gbps(1, 10_000));
    net.route(Who::Any, c.node_id(), Some(trunk));
    let mut delivered = Vec::new();
    for round in 0..50 {
        let start_ns = net.now_ns;
        for n in 0..40 {
            net.send(start_ns + n, a, &net.locator(b), &numbered(n as usize));
            net.send(start_ns + n, a, &net.locator(c), &numbered(n as usize));
            net.send(start_ns + n, b, &net.locator(c), &numbered(n as usize));
        }
        let cut = net.partition(&[a.into()], &[b.into(), c.into()], Directions::Both);
        if round % 3 > 0 {
            net.heal(cut);
        }
        delivered
            .extend(drain(&mut net).into_iter().map(|delivery| (delivery.at_ns, delivery.bytes)));
        net.heal(cut);
    }
    (net.trace_hash(), delivered, *net.counters())
}

/// Memory that two share is no network: the same weather, a cut and a pause lose nothing there.
#[test]
fn nothing_is_lost_through_shared_memory() {
    let (mut net, a, b) = pair(7, ROUGH);
    assert_ne!(send_many(&mut net, a, b, 1_000, 100).len(), 1_000, "the weather is rough");
    net.set_network(a, SURE_NETWORK);
    net.set_network(b, SURE_NETWORK);
    net.partition(&[Who::Any], &[Who::Any], Directions::Both);
    let locator = net.locator(b);
    let first = net.counters().sent_count;
    net.pause(b.node_id(), 100);
    let now_ns = net.now_ns;
    for n in 0..1_000 {
        net.send(now_ns + n as u64 * 100, a, &locator, &numbered(n));
    }
    assert!(drain(&mut net).is_empty());
    net.resume(net.now_ns, b.node_id());
    let got = drain(&mut net);
    assert_eq!(numbers(&got), (first..first + 1_000).collect::<Vec<_>>());
    assert!(got.iter().zip(0..).all(|(delivery, n)| delivery.bytes == numbered(n)));
}

/// What a stream brings is in order and undamaged in the same weather; what a break takes is all that was in it, and all until it is open.
#[test]
fn streams_keep_the_order_and_break_as_a_whole() {
    let (mut net, a, b) = pair(7, ROUGH);
    net.set_network(a, STREAM_NETWORK);
    net.set_network(b, STREAM_NETWORK);
    let locator = net.locator(b);
    let (mut got, mut delivery) = (vec![], Delivery::default());
    for n in 0..100_000 {
        let now_ns = n as u64 * 10_000;
        while net.receive(now_ns, &mut delivery) {
            got.push(std::mem::take(&mut delivery));
        }
        net.send(now_ns, a, &locator, &numbered(n));
    }
    got.extend(drain(&mut net));
    let order = numbers(&got);
    assert!(order.is_sorted() && got.iter().all(|it| it.bytes == numbered(it.number as usize)));
    let gaps: Vec<u64> =
        order.windows(2).map(|pair| pair[1] - pair[0] - 1).filter(|&gap| gap > 0).collect();
    let lost = net.counters().lost(Reason::Broken);
    assert!(gaps.len() > 10 && gaps.iter().sum::<u64>() <= lost, "{gaps:?} of {lost}");
    assert_eq!(got.len() as u64 + lost, 100_000, "for no other reason");
}

#[test]
fn one_seed_is_one_run() {
    let first = rough_run(42);
    assert_eq!(rough_run(42), first);
    let other = rough_run(43);
    assert_ne!(other.0, first.0);
    assert_ne!(other.1, first.1);
}

#[test]
fn seed_means_the_same_run_in_later_versions() {
    // If this fails, seeds in old reports no longer replay. Change it only on purpose.
    assert_eq!(rough_run(1).0, PINNED_HASH);
}

const PINNED_HASH: u64 = 0xf971_baee_563e_b275;

#[test]
fn fates_do_not_depend_on_other_traffic_or_other_faults() {
    let lost = |conditions: Conditions, with_others: bool| {
        let (mut net, a, b) = pair(5, conditions);
        let c = net.add_node(1).port(0);
        let lost = Rc::new(RefCell::new(Vec::new()));
        let list = Rc::clone(&lost);
        let mut order = 0;
        net.observe(Some(Box::new(move |event, bytes| {
            if event.frame.to == b && event.what == What::Sent {
                order = u64::from_le_bytes(*bytes.first_chunk().unwrap());
            }
            if event.frame.to == b && event.what == What::Dropped(Reason::Random) {
                list.borrow_mut().push(order);
            }
        })));
        for n in 0..2_000 {
            net.send(n, a, &b.to_locator(), &numbered(n as usize));
            if with_others {
                net.send(n, a, &c.to_locator(), &numbered(n as usize));
                net.send(n, b, &a.to_locator(), &numbered(n as usize));
            }
        }
        drain(&mut net);
        lost.take()
    };
    let only_loss = Conditions { loss_ppm: 20_000, ..Conditions::PERFECT };
    let alone = lost(only_loss, false);
    assert!(alone.len() > 10);
    assert_eq!(lost(only_loss, true), alone);
    assert_eq!(lost(Conditions { burst: None, ..ROUGH }, true), alone);
}

#[test]
fn perfect_network_only_takes_its_time() {
    let (mut net, a, b) = pair(1, Conditions::PERFECT);
    let delivered = send_many(&mut net, a, b, 1_000, 10);
    for (n, delivery) in delivered.iter().enumerate() {
        assert_eq!((delivery.at_ns, delivery.to), (n as u64 * 10 + 5_000, b));
        assert_eq!((delivery.from, &delivery.bytes[..]), (a.to_locator(), &numbered(n)[..]));
    }
    let counters = net.counters();
    assert_eq!((delivered.len(), counters.lost_total()), (1_000, 0));
    assert_eq!((counters.sent_len, counters.delivered_len), (40_000, 40_000));
    assert_eq!((net.port_stats(a).sent_count, net.port_stats(b).delivered_count), (1_000, 1_000));
}

#[test]
fn random_loss_has_its_rate() {
    let (mut net, a, b) = pair(2, Conditions { loss_ppm: 10_000, ..Conditions::PERFECT });
    let delivered = send_many(&mut net, a, b, FRAME_COUNT, 10);
    assert_about(net.counters().lost(Reason::Random), 1_000.0);
    assert_eq!(delivered.len() as u64 + net.counters().lost_total(), FRAME_COUNT as u64);
}

#[test]
fn burst_loss_comes_in_bursts() {
    let burst = Burst { enter_ppm: 2_000, leave_ppm: 100_000, loss_ppm: 1_000_000 };
    let (mut net, a, b) = pair(3, Conditions { burst: Some(burst), ..Conditions::PERFECT });
    let got = numbers(&send_many(&mut net, a, b, FRAME_COUNT, 10));
    let gaps: Vec<u64> =
        got.windows(2).map(|two| two[1] - two[0] - 1).filter(|gap| *gap > 0).collect();
    let mean = gaps.iter().sum::<u64>() as f64 / gaps.len() as f64;
    assert!((8.0..12.0).contains(&mean), "bursts of {mean}, not about 10");
    // 510 frames from one burst's begin to the next's.
    assert_about(gaps.len() as u64, FRAME_COUNT as f64 / 510.0);
}

#[test]
fn bursts_switched_off_and_on_begin_good() {
    let endless = Burst { enter_ppm: 1_000_000, leave_ppm: 0, loss_ppm: 1_000_000 };
    let bursty = Conditions { burst: Some(endless), ..Conditions::PERFECT };
    let (mut net, a, b) = pair(3, bursty);
    assert_eq!(send_many(&mut net, a, b, 10, 10).len(), 0);
    net.set_conditions(a, b, Conditions::PERFECT);
    assert_eq!(send_many(&mut net, a, b, 10, 10).len(), 10);
    let never_entered = Burst { enter_ppm: 0, ..endless };
    net.set_conditions(a, b, Conditions { burst: Some(never_entered), ..bursty });
    assert_eq!(send_many(&mut net, a, b, 10, 10).len(), 10);
    assert_eq!(net.counters().lost(Reason::Burst), 10);
}

#[test]
fn duplicates_arrive_twice_and_late() {
    let conditions =
        Conditions { duplicate_ppm: 50_000, duplicate_ns: 9_000, ..Conditions::PERFECT };
    let (mut net, a, b) = pair(4, conditions);
    let mut delivered = send_many(&mut net, a, b, FRAME_COUNT, 10);
    assert_about(net.counters().duplicated_count, 5_000.0);
    assert_eq!(delivered.len() as u64, FRAME_COUNT as u64 + net.counters().duplicated_count);
    assert_eq!(net.counters().reordered_count, 0, "copies do not count");
    delivered.sort_by_key(|delivery| (delivery.number, delivery.at_ns));
    let late =
        |two: &[Delivery]| (two[0].number == two[1].number).then(|| two[1].at_ns - two[0].at_ns);
    let lates: Vec<u64> = delivered.windows(2).filter_map(late).collect();
    assert_eq!(lates.len() as u64, net.counters().duplicated_count);
    assert!(lates.iter().all(|late| *late <= 9_000) && lates.iter().any(|late| *late > 8_000));
    assert!(delivered.iter().all(|delivery| delivery.bytes == numbered(delivery.number as usize)));
}

#[test]
fn reordering_reorders_and_jitter_does_not() {
    let jitter = Conditions { jitter_ns: 5_000, ..Conditions::PERFECT };
    let (mut net, a, b) = pair(5, jitter);
    let delivered = send_many(&mut net, a, b, FRAME_COUNT, 10);
    assert!(numbers(&delivered).is_sorted());
    let flights: Vec<u64> = delivered.iter().map(|it| it.at_ns - it.number * 10).collect();
    assert!(flights.iter().all(|flight| (5_000..=10_000).contains(flight)));
    assert!(flights.iter().min() < flights.iter().max());

    let reorder = Conditions { reorder_ppm: 30_000, reorder_ns: 1_000, ..Conditions::PERFECT };
    let (mut net, a, b) = pair(5, reorder);
    let got = numbers(&send_many(&mut net, a, b, FRAME_COUNT, 10));
    assert_eq!(got.len(), FRAME_COUNT);
    let mut highest = 0;
    let late = got.iter().filter(|number| {
        highest = highest.max(**number);
        **number < highest
    });
    let late_count = late.count() as u64;
    assert_eq!(net.counters().reordered_count, late_count, "counted as seen");
    assert_about(net.counters().held_back_count, 3_000.0);
    // Held for up to 10 ns, a frame is not overtaken: 1 in 100. Two held ones may keep their order.
    assert_about(late_count, 3_000.0 * 0.99);
}

#[test]
fn corruption_changes_the_bytes_delivered_and_only_those() {
    let (mut net, a, b) = pair(6, Conditions { corrupt_ppm: 50_000, ..Conditions::PERFECT });
    let delivered = send_many(&mut net, a, b, FRAME_COUNT, 10);
    let mut by_flips = [0_u64; 9];
    let mut by_byte = [0_u64; 40];
    for delivery in &delivered {
        let sent = numbered(delivery.number as usize);
        let flips = delivery.bytes.iter().zip(&sent).map(|(got, sent)| (got ^ sent).count_ones());
        by_flips[flips.clone().sum::<u32>() as usize] += 1;
        flips.enumerate().for_each(|(at, count)| by_byte[at] += u64::from(count));
    }
    let changed = by_flips[1..].iter().sum::<u64>();
    assert_eq!(net.counters().corrupted_count, changed, "each that was counted shows");
    assert_about(changed, 5_000.0);
    by_flips[1..].iter().for_each(|count| assert_about(*count, 5_000.0 / 8.0));
    by_byte.iter().for_each(|count| assert_about(*count, 5_000.0 * 4.5 / 40.0));
}

#[test]
fn one_byte_is_corrupted_without_flipping_back() {
    let (mut net, a, b) = pair(6, Conditions { corrupt_ppm: 1_000_000, ..Conditions::PERFECT });
    (0..1_000).for_each(|n| net.send(n, a, &b.to_locator(), &[0]));
    net.send(1_000, a, &b.to_locator(), &[]);
    let delivered = drain(&mut net);
    assert!(delivered[..1_000].iter().all(|delivery| delivery.bytes[0] != 0));
    assert_eq!((delivered.len(), net.counters().corrupted_count), (1_001, 1_000));
}

#[test]
fn truncation_shortens() {
    let (mut net, a, b) = pair(7, Conditions { truncate_ppm: 40_000, ..Conditions::PERFECT });
    let delivered = send_many(&mut net, a, b, FRAME_COUNT, 10);
    let mut by_len = [0_u64; 41];
    for delivery in &delivered {
        by_len[delivery.bytes.len()] += 1;
        assert_eq!(delivery.bytes, numbered(delivery.number as usize)[..delivery.bytes.len()]);
    }
    assert_eq!(net.counters().truncated_count, by_len[..40].iter().sum::<u64>());
    assert_about(net.counters().truncated_count, 4_000.0);
    by_len[..40].iter().for_each(|count| assert_about(*count, 100.0));
}

#[test]
fn too_long_frames_vanish_without_a_word() {
    let (mut net, a, b) = pair(8, Conditions { frame_len_max: 1_200, ..Conditions::PERFECT });
    net.send(0, a, &b.to_locator(), &[1; 1_200]);
    net.send(0, a, &b.to_locator(), &[2; 1_201]);
    assert_eq!(drain(&mut net).len(), 1);
    assert_eq!((net.counters().lost(Reason::Mtu), net.poll_unreachable()), (1, None));
    net.set_conditions(a, b, Conditions::PERFECT);
    net.send(net.now_ns, a, &b.to_locator(), &[3; 9_000]);
    assert_eq!(drain(&mut net)[0].bytes, [3; 9_000]);
}

#[test]
fn ten_gigabit_line_delivers_on_time() {
    let (mut net, a, b) = pair(9, Conditions::PERFECT);
    net.set_all_lines(Line::gbps(10, 1 << 30));
    for _ in 0..10_000 {
        net.send(0, a, &b.to_locator(), &[0; 1_434]); // 1500 on the wire: 1200 ns
    }
    let delivered = drain(&mut net);
    for (n, delivery) in delivered.iter().enumerate() {
        // Stored and forwarded: the frame crosses both lines, but the second is never waited for.
        assert_eq!(delivery.at_ns, (n as u64 + 1) * 1_200 + 5_000 + 1_200);
    }
    assert_eq!(delivered.len(), 10_000);
    assert_eq!(net.port_stats(a).egress.len_max, 10_000 * 1_500);
    assert_eq!(net.port_stats(b).ingress.len_max, 1_500);
}

#[test]
fn incast_loses_frames_at_the_receivers_queue() {
    let mut net = SimNet::new(10);
    let to = net.add_node(1).port(0);
    let senders: Vec<Port> = (0..8).map(|_| net.add_node(1).port(0)).collect();
    net.set_all_lines(Line::gbps(10, 1 << 30));
    net.set_ingress(to, Line::gbps(10, 30_000));
    for round in 0..100 {
        for from in &senders {
            net.send(round * 1_200, *from, &to.to_locator(), &[0; 1_434]);
        }
    }
    let delivered = drain(&mut net);
    // 800 frames come within 100 frame times: 100 leave meanwhile, 20 find room.
    let lost = net.counters().lost(Reason::Queue);
    assert_eq!(delivered.len() as u64 + lost, 800);
    assert!((118..=121).contains(&delivered.len()), "{}", delivered.len());
    assert!(delivered.windows(2).all(|two| two[1].at_ns - two[0].at_ns == 1_200), "never idle");
    let ingress = net.port_stats(to).ingress;
    assert_eq!((ingress.len_max, ingress.dropped_count), (30_000, lost));
    assert_eq!(net.port_stats(senders[0]).egress.dropped_count, 0);
}

#[test]
fn egress_queue_drops_exactly_what_does_not_fit() {
    let (mut net, a, b) = pair(11, Conditions::PERFECT);
    net.set_egress(a, Line::gbps(1, 10 * 106));
    let delivered = send_many(&mut net, a, b, 15, 0);
    assert_eq!(numbers(&delivered), (0..10).collect::<Vec<_>>());
    assert_eq!(net.counters().lost(Reason::Queue), 5);
    net.set_wire_overhead(0);
    assert_eq!(send_many(&mut net, a, b, 30, 0).len(), 10 * 106 / 40);
}

#[test]
fn pairs_share_a_trunk() {
    let mut net = SimNet::new(12);
    let ports: Vec<Port> = (0..4).map(|_| net.add_node(1).port(0)).collect();
    let trunk = net.add_trunk(Line::gbps(10, 1 << 20));
    net.route(ports[0], Who::Any, Some(trunk));
    net.route(ports[1], Who::Any, Some(trunk));
    for _ in 0..10 {
        net.send(0, ports[0], &ports[2].to_locator(), &[0; 1_434]);
        net.send(0, ports[1], &ports[3].to_locator(), &[1; 1_434]);
    }
    net.send(0, ports[2], &ports[3].to_locator(), &[2; 1_434]);
    let delivered = drain(&mut net);
    assert_eq!((delivered[0].at_ns, delivered[0].bytes[0]), (5_000, 2), "not over the trunk");
    for (n, delivery) in delivered[1..].iter().enumerate() {
        let expected = (5_000 + (n as u64 + 1) * 1_200, (n % 2) as u8);
        assert_eq!((delivery.at_ns, delivery.bytes[0]), expected, "fairly in turn");
    }
    assert_eq!(net.trunk_stats(trunk).len_max, 20 * 1_500);
    net.set_trunk(trunk, Line::gbps(10, 150)); // one of these frames, not two
    let delivered = send_many(&mut net, ports[0], ports[2], 3, 0);
    assert_eq!((delivered.len(), net.trunk_stats(trunk).dropped_count), (1, 2));
}
