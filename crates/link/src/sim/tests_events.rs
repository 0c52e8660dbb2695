//! The test gear, tested: what scenarios do to a running network.

use std::cell::RefCell;
use std::rc::Rc;

use super::*;

/// The next report, but for what it quotes.
fn told(net: &mut SimNet) -> Option<(Port, Locator)> {
    net.poll_unreachable().map(|(port, about, quote)| {
        assert!(!quote.is_empty(), "of the frame itself");
        (port, about)
    })
}

/// Three nodes with two ports each on a perfect network.
fn three() -> (SimNet, [NodeId; 3]) {
    let mut net = SimNet::new(1);
    let nodes = [(); 3].map(|()| net.add_node(2));
    (net, nodes)
}

fn drain(net: &mut SimNet) -> Vec<Delivery> {
    let mut delivered = Vec::new();
    let mut delivery = Delivery::default();
    while let Some(at_ns) = net.next_arrival() {
        while net.receive(at_ns, &mut delivery) {
            delivered.push(delivery.clone());
        }
    }
    assert_eq!(net.in_flight_count(), 0);
    delivered
}

/// Sends a byte to the port's present address; whether it arrives.
fn passes(net: &mut SimNet, from: Port, to: Port) -> bool {
    net.send(net.now_ns, from, &net.locator(to), &[1]);
    drain(net).len() == 1
}

#[test]
fn partition_cuts_one_way_or_both() {
    let (mut net, [a, b, c]) = three();
    let (a0, b0, c0) = (a.port(0), b.port(0), c.port(0));
    let one = net.partition(&[a.into()], &[b.into(), c.into()], Directions::One);
    assert!(!passes(&mut net, a0, b0) && !passes(&mut net, a0, c0));
    assert!(passes(&mut net, b0, a0) && passes(&mut net, b0, c0));
    let both = net.partition(&[a.into()], &[b.into()], Directions::Both);
    assert!(!passes(&mut net, b0, a0) && passes(&mut net, c0, a0));
    assert!(net.heal(one) && !net.heal(one));
    assert!(!passes(&mut net, a0, b0) && passes(&mut net, a0, c0), "the other cut remains");
    net.heal_all();
    assert!(!net.heal(both) && passes(&mut net, a0, b0) && passes(&mut net, b0, a0));
    assert_eq!(net.counters().lost(Reason::Partition), 4);
}

#[test]
fn partition_of_a_port_leaves_the_other_rail() {
    let (mut net, [a, b, _]) = three();
    net.partition(&[a.port(0).into()], &[Who::Any], Directions::Both);
    assert!(!passes(&mut net, a.port(0), b.port(0)) && !passes(&mut net, b.port(1), a.port(0)));
    assert!(passes(&mut net, a.port(1), b.port(0)) && passes(&mut net, b.port(0), a.port(1)));
}

#[test]
fn partition_loses_what_is_in_flight_and_heals_for_what_is_sent_later() {
    let (mut net, [a, b, _]) = three();
    let (a, b) = (a.port(0), b.port(0));
    net.send(0, a, &b.to_locator(), b"in flight");
    let cut = net.partition(&[Who::Any], &[Who::Any], Directions::Both);
    net.send(1_000, a, &b.to_locator(), b"sent meanwhile");
    assert!(!net.receive(5_000, &mut Delivery::default()));
    net.heal(cut);
    net.send(5_500, a, &b.to_locator(), b"sent after");
    let delivered = drain(&mut net);
    assert_eq!((delivered.len(), &delivered[0].bytes[..]), (1, &b"sent after"[..]));
}

#[test]
fn rebound_port_sends_from_and_listens_at_its_new_address_only() {
    let (mut net, [a, b, _]) = three();
    let (a, b) = (a.port(0), b.port(1));
    let old = net.locator(b);
    net.send(0, a, &old, b"in flight");
    net.send(0, b, &a.to_locator(), b"from the old address");
    let new = net.rebind(b);
    assert_eq!((generation(&old), generation(&new)), (Some(0), Some(1)));
    assert_eq!(Port::from_locator(&new), Some(b));
    net.send(1, a, &old, b"to the old address");
    net.send(1, a, &new, b"to the new address");
    net.send(1, b, &a.to_locator(), b"from the new address");
    let delivered = drain(&mut net);
    let got: Vec<_> = delivered.iter().map(|it| (it.to, it.from, &it.bytes[..])).collect();
    assert_eq!(
        got,
        [
            (a, old, &b"from the old address"[..]),
            (b, a.to_locator(), &b"to the new address"[..]),
            (a, new, &b"from the new address"[..]),
        ]
    );
    assert_eq!(net.counters().lost(Reason::Moved), 2);
}

#[test]
fn addresses_that_are_none_are_counted() {
    let (mut net, [a, ..]) = three();
    for locator in [[0xff; 24], NodeId(3).port(0).to_locator(), NodeId(0).port(2).to_locator()] {
        net.send(0, a.port(0), &locator, &[1]);
    }
    assert_eq!((drain(&mut net).len(), net.counters().lost(Reason::Nowhere)), (0, 3));
}

#[test]
fn dead_node_neither_hears_nor_speaks_until_it_is_back() {
    let (mut net, [a, b, _]) = three();
    let (from, to) = (a.port(0), b.port(0));
    net.kill(b, Death::Silent);
    assert!(!net.is_alive(b) && net.is_alive(a));
    assert!(!passes(&mut net, from, to) && !passes(&mut net, to, from));
    assert_eq!((net.counters().lost(Reason::Dead), told(&mut net)), (2, None));
    net.send(net.now_ns, from, &to.to_locator(), b"for the former life");
    net.resume(net.now_ns, b);
    assert_eq!(drain(&mut net)[0].bytes, b"for the former life");
    assert!(passes(&mut net, to, from));
}

#[test]
fn dead_process_is_reported_to_each_sender_after_a_round_trip() {
    let (mut net, [a, b, c]) = three();
    net.kill(b, Death::Reported);
    let to = b.port(1).to_locator();
    net.send(0, a.port(0), &to, b"?");
    net.send(100, c.port(1), &to, b"?");
    assert!(!net.receive(9_999, &mut Delivery::default()));
    assert_eq!((told(&mut net), net.next_arrival()), (None, Some(10_000)));
    assert!(!net.receive(10_000, &mut Delivery::default()));
    assert_eq!(told(&mut net), Some((a.port(0), to)));
    assert_eq!((drain(&mut net).len(), told(&mut net)), (0, Some((c.port(1), to))));
    assert_eq!((told(&mut net), net.counters().unreachable_count), (None, 2));
    assert_eq!(net.counters().lost(Reason::Dead), 2);
    net.partition(&[b.into()], &[a.into()], Directions::One);
    assert!(!passes(&mut net, a.port(0), b.port(1)));
    assert_eq!(told(&mut net), None, "the report's way is cut");
}

#[test]
fn report_does_not_reach_a_sender_that_died_or_moved() {
    let (mut net, [a, b, c]) = three();
    net.kill(b, Death::Reported);
    for from in [a, c] {
        net.send(0, from.port(0), &b.port(0).to_locator(), b"?");
    }
    net.kill(a, Death::Silent);
    net.rebind(c.port(0));
    drain(&mut net);
    assert_eq!((told(&mut net), net.counters().unreachable_count), (None, 0));
}

#[test]
fn paused_node_finds_its_frames_when_it_goes_on() {
    let (mut net, [a, b, _]) = three();
    let (from, to) = (a.port(0), b.port(0).to_locator());
    net.pause(b, 25);
    for n in 0..4 {
        net.send(n, from, &to, &[n as u8; 10]);
    }
    assert!(!net.receive(50_000, &mut Delivery::default()));
    assert_eq!((net.in_flight_count(), net.next_arrival()), (2, None));
    assert_eq!(net.counters().lost(Reason::Queue), 2, "the third and the fourth found no room");
    net.partition(&[Who::Any], &[Who::Any], Directions::Both); // they are there already
    net.resume(60_000, b);
    let delivered = drain(&mut net);
    let got: Vec<_> = delivered.iter().map(|it| (it.at_ns, it.bytes[0])).collect();
    assert_eq!(got, [(60_000, 0), (60_000, 1)]);
}

#[test]
fn node_killed_in_its_pause_loses_what_was_kept() {
    let (mut net, [a, b, _]) = three();
    net.pause(b, 1_000);
    net.send(0, a.port(0), &b.port(0).to_locator(), &[1]);
    net.receive(10_000, &mut Delivery::default());
    net.pause(b, 1_000);
    net.receive(10_000, &mut Delivery::default());
    assert_eq!(net.in_flight_count(), 1, "pausing twice forgets nothing");
    net.kill(b, Death::Reported);
    assert_eq!((net.in_flight_count(), net.counters().lost(Reason::Dead)), (0, 1));
}

#[test]
fn intercepts_do_what_they_say_to_the_next_that_fits() {
    let (mut net, [a, b, _]) = three();
    let (from, to) = (a.port(0), b.port(0).to_locator());
    let verdicts = [
        (b'x', Verdict::Drop),
        (b'd', Verdict::Duplicate),
        (b'l', Verdict::Delay(1_000)),
        (b'c', Verdict::Corrupt(8 + 3)),
        (b'w', Verdict::Corrupt(16)),
    ];
    for (kind, verdict) in verdicts {
        net.intercept_next(move |_, bytes| bytes[0] == kind, verdict);
    }
    for kind in *b"ldcwxp" {
        net.send(0, from, &to, &[kind, 0]);
        net.send(0, from, &to, &[kind, 1]);
    }
    let mut got: Vec<(u64, Vec<u8>)> =
        drain(&mut net).into_iter().map(|it| (it.at_ns, it.bytes)).collect();
    let held = got.pop().unwrap();
    assert_eq!(held, (6_000, b"l\0".to_vec()), "overtaken by all");
    assert!(got.iter().all(|it| it.0 == 5_000));
    let bytes: Vec<_> = got.iter().map(|it| [it.1[0], it.1[1]]).collect();
    let expected = [
        *b"l\x01", *b"d\0", *b"d\0", *b"d\x01", *b"c\x08", *b"c\x01", *b"v\0", *b"w\x01",
        *b"x\x01", *b"p\0", *b"p\x01",
    ];
    assert_eq!(bytes, expected);
    let counters = net.counters();
    assert_eq!((counters.lost(Reason::Intercepted), counters.duplicated_count), (1, 1));
    assert_eq!((counters.corrupted_count, counters.reordered_count), (2, 1));
}

#[test]
fn intercept_sees_who_sends_to_whom_until_it_is_cleared() {
    let (mut net, [a, b, c]) = three();
    let node_b = b.0;
    net.intercept(Box::new(
        move |info, _| {
            if info.to.node == node_b { Verdict::Drop } else { Verdict::Pass }
        },
    ));
    assert!(!passes(&mut net, a.port(0), b.port(1)) && passes(&mut net, a.port(0), c.port(0)));
    net.clear_intercepts();
    assert!(passes(&mut net, a.port(0), b.port(1)));
}

#[test]
fn frame_held_forever_harms_nobody() {
    let (mut net, [a, b, _]) = three();
    net.intercept_next(|_, _| true, Verdict::Delay(u64::MAX));
    net.send(1, a.port(0), &b.port(0).to_locator(), &[1]);
    net.send(1, a.port(0), &b.port(0).to_locator(), &[2]);
    let mut delivery = Delivery::default();
    assert!(net.receive(1_000_000, &mut delivery) && delivery.bytes == [2]);
    assert!(!net.receive(1_000_000, &mut delivery));
}

#[test]
fn observer_is_told_the_story() {
    let (mut net, [a, b, _]) = three();
    let (from, to) = (a.port(0), b.port(0));
    net.set_conditions(from, to, Conditions { corrupt_ppm: 1_000_000, ..Conditions::PERFECT });
    net.intercept_next(|_, _| true, Verdict::Duplicate);
    let story = Rc::new(RefCell::new(Vec::new()));
    let lines = Rc::clone(&story);
    net.observe(Some(Box::new(move |event, bytes| {
        let FrameInfo { at_ns, number, is_copy, .. } = event.frame;
        assert_eq!((event.frame.from, event.frame.to), (from, to));
        let kind = event.what.to_string().split(':').next().unwrap().to_string();
        lines.borrow_mut().push(format!("{at_ns} #{number} {is_copy} {kind} {}", bytes == [7; 32]));
    })));
    net.send(100, from, &net.locator(to), &[7; 32]);
    drain(&mut net);
    net.kill(b, Death::Reported);
    net.observe(None);
    assert!(!passes(&mut net, from, to));
    assert_eq!(
        story.borrow()[..],
        [
            "100 #0 false sent true",
            "100 #0 false duplicated true",
            "100 #0 false corrupted false",
            "100 #0 true corrupted false",
            "5100 #0 false delivered false",
            "5100 #0 true delivered false",
        ]
    );
    assert_eq!(What::Dropped(Reason::Random).to_string(), "dropped: random loss");
}

#[test]
fn latest_conditions_that_fit_count() {
    let (mut net, [a, b, c]) = three();
    let with_delay = |delay_ns| Conditions { delay_ns, ..Conditions::PERFECT };
    let (a0, b0, c0) = (a.port(0), b.port(0), c.port(0));
    net.set_conditions(Who::Any, Who::Any, with_delay(1));
    net.set_conditions(a, Who::Any, with_delay(2));
    net.set_conditions(a0, b0, with_delay(3));
    net.set_conditions(a, Who::Any, with_delay(4));
    net.set_conditions(a0, b0, with_delay(5));
    let delays =
        |net: &SimNet| [(a0, b0), (a0, c0), (b0, a0)].map(|(x, y)| net.conditions(x, y).delay_ns);
    assert_eq!(delays(&net), [5, 4, 1]);
    net.set_conditions(Who::Any, Who::Any, with_delay(6));
    assert_eq!(delays(&net), [6, 6, 6]);
}

#[test]
fn steady_traffic_makes_no_new_slots() {
    let (mut net, [a, b, _]) = three();
    let rough = Conditions { duplicate_ppm: 1_000_000, loss_ppm: 100_000, ..Conditions::PERFECT };
    net.set_conditions(Who::Any, Who::Any, rough);
    net.set_all_lines(Line::gbps(10, 10_000));
    for round in 0..1_000 {
        for n in 0..20 {
            net.send(round * 100_000 + n, a.port(0), &b.port(0).to_locator(), &[0; 1_400]);
        }
        let mut delivery = Delivery::default();
        while net.receive(round * 100_000 + 99_000, &mut delivery) {}
        assert_eq!(net.in_flight_count(), 0);
    }
    assert!(net.frames.slot_count() <= 14, "7 fit the queue, twice: {}", net.frames.slot_count());
}

#[test]
#[should_panic(expected = "time ran backwards")]
fn time_does_not_run_backwards() {
    let (mut net, [a, b, _]) = three();
    net.send(10, a.port(0), &b.port(0).to_locator(), &[1]);
    net.send(9, a.port(0), &b.port(0).to_locator(), &[1]);
}
