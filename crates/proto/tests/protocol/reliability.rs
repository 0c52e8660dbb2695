//! PROTOCOL §5 and §6: packet numbers, acknowledgements, loss, probes, window, frame length.

mod window;

use packhorse_proto::wire::Record;
use packhorse_proto::*;

use crate::net::*;

/// Ranges of packets the acknowledgements of a node told, newest range first, one list per Ack.
fn acks(net: &Net, from: usize) -> Vec<Vec<(u64, u64)>> {
    let mut acks = vec![];
    for sight in net.sights(from, Kind::Ack) {
        for (record, _) in sight.view().records() {
            if let Record::Ack(ack) = record {
                acks.push(ack.ranges(u64::from(ack.largest())).collect());
            }
        }
    }
    acks
}

/// Sends small messages one after the other, this far apart; each makes a packet of its own.
fn trickle(net: &mut Net, count: u64, apart_ns: u64) -> Vec<ReqId> {
    (0..count)
        .map(|tag| {
            let req = net.send(A, B, tag, 8);
            net.run_for(apart_ns);
            req
        })
        .collect()
}

#[test]
fn packets_are_numbered_from_one_and_never_twice() {
    let mut net = Net::new(2);
    trickle(&mut net, 20, 100 * US);
    net.drop_next(A, Kind::Eager);
    trickle(&mut net, 20, 100 * US);
    net.settle();
    trickle(&mut net, 5, 100 * US); // and not after a rest either
    let of_a = net.log.iter().filter(|sight| sight.from == A);
    let numbers: Vec<u64> = of_a.map(Sight::packet).filter(|&packet| packet > 0).collect();
    let expected: Vec<u64> = (1..=numbers.len() as u64).collect();
    assert_eq!(numbers, expected);
}

#[test]
fn one_ack_collects_as_many_frames_as_it_is_told() {
    for (ack_every, ack_count) in [(1, 24), (4, 6), (8, 3)] {
        let mut net = Net::pair(|settings, _| settings.ack_delay_ns = 10 * MS);
        net.join(A, B);
        net.run_for(100 * MS);
        net.ep(B).set_ack_every(ack_every);
        let before = net.count(B, "acks_out");
        trickle(&mut net, 24, 10 * US);
        net.run_for(MS);
        assert_eq!(net.count(B, "acks_out") - before, ack_count, "ack_every {ack_every}");
    }
}

#[test]
fn ack_waits_no_longer_than_its_delay() {
    let mut net = Net::pair(|settings, _| settings.ack_delay_ns = 700 * US);
    net.join(A, B);
    net.run_for(100 * MS);
    net.log.clear();
    net.send(A, B, 1, 8);
    net.run_for(2 * MS);
    let [message, ack] = [net.sights(A, Kind::Eager)[0], net.sights(B, Kind::Ack)[0]];
    assert_eq!(ack.at - message.at, DELAY_NS + 700 * US);
    assert_eq!(ack.says(), [Kind::Ack]);
    let Some((Record::Ack(ack), _)) = ack.view().records().last() else { panic!("an Ack") };
    assert_eq!(ack.delay_ns(), 700_000, "and says how long it waited");
}

#[test]
fn ack_rides_on_what_leaves_first() {
    let mut net = Net::pair(|settings, _| settings.ack_delay_ns = 700 * US);
    net.join(A, B);
    net.run_for(100 * MS);
    net.log.clear();
    net.send(A, B, 1, 8);
    net.run_for(DELAY_NS + 10 * US);
    net.send(B, A, 2, 8);
    net.run_for(2 * MS);
    let [only] = net.sights(B, Kind::Ack)[..] else { panic!("one Ack") };
    assert_eq!(only.says(), [Kind::Ack, Kind::Eager]);
}

#[test]
fn message_that_fills_its_frame_goes_before_the_ack_once() {
    let mut net = Net::pair(|settings, _| {
        settings.ack_delay_ns = 700 * US;
        settings.payload_check = false;
    });
    net.join(A, B);
    net.run_for(100 * MS);
    net.log.clear();
    net.send(A, B, 1, 8);
    net.run_for(DELAY_NS + 10 * US);
    // The longest message that fits a frame by itself: no Ack fits beside it.
    let frame_len = usize::from(Settings::default().frame_len_max);
    let len = frame_len - wire::HEADER_LEN - wire::eager_head_len(false);
    net.send(B, A, 2, len);
    net.send(B, A, 2, len);
    net.run_for(2 * MS);
    let said: Vec<_> = net.log.iter().filter(|sight| sight.from == B).map(|s| s.says()).collect();
    assert_eq!(said, [vec![Kind::Eager], vec![Kind::Ack], vec![Kind::Eager]]);
    net.settle();
}

#[test]
fn acks_are_not_acknowledged() {
    let mut net = Net::joined();
    net.run_for(100 * MS);
    net.log.clear();
    net.send(A, B, 1, 8);
    net.run_for(500 * MS);
    assert_eq!((net.seen(A, Kind::Eager), net.seen(B, Kind::Ack)), (1, 1));
    assert_eq!(net.log.len(), 2);
}

#[test]
fn packet_out_of_order_is_acknowledged_at_once_with_its_gap() {
    let mut net = Net::pair(|settings, _| settings.ack_delay_ns = 10 * MS);
    net.join(A, B);
    net.run_for(100 * MS);
    net.log.clear();
    net.hold_next(A, Kind::Eager);
    net.send(A, B, 1, 8);
    net.run_for(10 * US);
    net.send(A, B, 2, 8);
    net.run_for(DELAY_NS + US);
    let lost = net.log[0].packet();
    let told = acks(&net, B);
    assert_eq!(told.len(), 1);
    assert_eq!(told[0][0], (lost + 1, lost + 1));
    assert_eq!(told[0][1].1, lost - 1, "all before the gap");
    net.release();
    net.run_for(DELAY_NS + US);
    assert_eq!(acks(&net, B).last().unwrap()[0].1, lost + 1, "late is not lost");
    assert!(acks(&net, B).last().unwrap()[0].0 <= lost);
    net.settle();
    assert_eq!(net.count(B, "messages_in"), 4);
}

#[test]
fn loss_is_seen_by_order_without_a_probe() {
    let mut net = Net::joined();
    net.run_for(100 * MS);
    net.drop_next(A, Kind::Eager);
    let recvs: Vec<Recv> = (0..4).map(|tag| net.recv(B, tagged(tag), 8)).collect();
    let start = net.now;
    let reqs = trickle(&mut net, 4, US);
    net.run_until(|net| net.got(B, recvs[0]).is_some());
    assert!(net.now - start < 2 * RTT_NS, "the third packet behind it tells");
    net.settle();
    for req in reqs {
        assert_eq!(net.sent(A, req), Some(Ok(())));
    }
    assert_eq!((net.count(A, "packets_lost"), net.count(A, "probes")), (1, 0));
    assert_eq!(net.count(A, "contents_resent"), 1);
}

#[test]
fn loss_is_seen_by_time_without_a_probe() {
    let mut net = Net::joined();
    trickle(&mut net, 20, MS); // a steady round trip: variation is low
    net.drop_next(A, Kind::Eager);
    let recv = net.recv(B, tagged(0), 8);
    let before = net.count(A, "probes");
    trickle(&mut net, 2, US);
    net.settle();
    net.assert_got(B, recv, 0, 8);
    assert_eq!(net.count(A, "packets_lost"), 1);
    assert_eq!(net.count(A, "probes"), before, "9/8 of the round trip is enough");
}

#[test]
fn lost_tail_is_probed_for() {
    let mut net = Net::joined();
    net.settle();
    net.drop_next(A, Kind::Eager);
    net.log.clear();
    let recv = net.recv(B, tagged(1), 8);
    net.send(A, B, 1, 8);
    net.settle();
    net.assert_got(B, recv, 1, 8);
    assert_eq!(net.count(A, "probes"), 1);
    let probe = net.sights(A, Kind::Ping)[0];
    assert_eq!(probe.says(), [Kind::Hello, Kind::Ping], "small, and it asks who is there");
}

#[test]
fn probes_double_their_pause_to_a_second() {
    let mut net = Net::joined();
    net.settle();
    net.mute(A);
    net.log.clear();
    net.send(A, B, 1, 8);
    net.run_for(20 * SECOND);
    let at: Vec<u64> = net.sights(A, Kind::Ping).iter().map(|sight| sight.at.0).collect();
    let pauses: Vec<u64> = at.windows(2).map(|two| two[1] - two[0]).collect();
    for two in pauses.windows(2) {
        assert!(two[1] == 2 * two[0] || two[1] == SECOND, "{pauses:?}");
    }
    assert_eq!(pauses.last(), Some(&SECOND));
    assert_eq!(net.count(A, "probes"), at.len() as u64);
}

#[test]
fn ping_is_acknowledged_at_once() {
    let slow = Plan::with(|settings, _| settings.ack_delay_ns = 900 * MS);
    let mut net = Net::of(&[Plan::default(), slow]);
    net.join(A, B);
    net.settle();
    net.drop_next(A, Kind::Eager);
    net.log.clear();
    net.send(A, B, 1, 8);
    net.run_until(|net| net.seen(A, Kind::Ping) > 0);
    let start = net.now;
    net.log.clear();
    net.run_until(|net| net.seen(B, Kind::Ack) > 0);
    assert_eq!(net.now - start, DELAY_NS);
}

#[test]
fn duplicate_packet_is_dropped_and_acknowledged_again() {
    let mut net = Net::joined();
    net.settle();
    net.double_next(A, Kind::Eager);
    let recv = net.recv(B, tagged(1), 8);
    let acked = net.count(B, "acks_out");
    net.send(A, B, 1, 8);
    net.settle();
    net.assert_got(B, recv, 1, 8);
    assert_eq!(net.count(B, "packets_duplicate"), 1);
    assert!(net.count(B, "acks_out") > acked, "perhaps the first Ack was lost");
}

#[test]
fn lost_ack_costs_a_duplicate_and_nothing_else() {
    let mut net = Net::joined();
    net.settle();
    net.drop_next(B, Kind::Ack);
    let recv = net.recv(B, tagged(1), 8);
    let req = net.send(A, B, 1, 8);
    net.settle();
    net.assert_got(B, recv, 1, 8);
    assert_eq!(net.sent(A, req), Some(Ok(())));
    assert_eq!(net.count(B, "messages_in"), 3, "two of the join, and this one once");
}

#[test]
fn packet_below_what_is_remembered_counts_as_a_duplicate() {
    let mut net = Net::joined();
    net.settle();
    net.hold_next(A, Kind::Eager);
    let recv = net.recv(B, tagged(1 << 40), 8);
    net.send(A, B, 1 << 40, 8);
    // Traffic both ways: an Ack of an Ack lets the receiver forget the old gap.
    for tag in 0..200 {
        net.send(A, B, tag, 8);
        net.send(B, A, tag, 8);
        net.run_for(200 * US);
    }
    net.settle();
    net.assert_got(B, recv, 1 << 40, 8);
    let before = net.count(B, "packets_duplicate");
    net.release();
    net.settle();
    assert_eq!(net.count(B, "packets_duplicate"), before + 1);
    assert_eq!(net.count(B, "messages_duplicate"), 0, "its records were not even looked at");
}

#[test]
fn black_hole_shortens_frames_and_they_grow_again() {
    let mut net = Net::joined();
    net.settle();
    net.drop_where(|sight| sight.from == A && sight.bytes.len() > 1300);
    let recv = net.recv(B, tagged(1), 1 << 20);
    let req = net.send(A, B, 1, 1 << 20);
    net.settle();
    net.assert_got(B, recv, 1, 1 << 20);
    assert_eq!(net.sent(A, req), Some(Ok(())));
    assert_eq!(net.count(A, "frame_len_drops"), 1);
    let padded = net.sights(A, Kind::Pad);
    assert!(padded.iter().all(|sight| sight.has(Kind::Ping)), "probes for more");
    net.heal();
    net.run_for(300 * SECOND);
    net.log.clear();
    let recv = net.recv(B, tagged(2), 1 << 20);
    net.send(A, B, 2, 1 << 20);
    net.run_for(200 * SECOND);
    net.assert_got(B, recv, 2, 1 << 20);
    let recv = net.recv(B, tagged(3), 1 << 20);
    net.log.clear();
    net.send(A, B, 3, 1 << 20);
    net.settle();
    net.assert_got(B, recv, 3, 1 << 20);
    let longest = net.sights(A, Kind::Data).iter().map(|sight| sight.bytes.len()).max();
    assert!(longest.unwrap() > 1460, "back at full length: {longest:?}");
}

#[test]
fn content_is_cut_anew_when_frames_shorten() {
    let mut net = Net::joined();
    net.settle();
    net.drop_where(|sight| sight.from == A && sight.bytes.len() > 1200);
    let recv = net.recv(B, tagged(1), 30_000);
    let req = net.send(A, B, 1, 30_000); // fragments
    net.settle();
    net.assert_got(B, recv, 1, 30_000);
    assert_eq!(net.sent(A, req), Some(Ok(())));
}

#[test]
fn single_eager_of_a_full_frame_becomes_fragments_in_a_black_hole() {
    let mut net = Net::joined();
    net.settle();
    net.drop_where(|sight| sight.from == A && sight.bytes.len() > 1200);
    let recvs: Vec<Recv> = (0..6).map(|tag| net.recv(B, tagged(tag), 1400)).collect();
    for tag in 0..6 {
        net.send(A, B, tag, 1400);
    }
    net.settle();
    for (tag, &recv) in recvs.iter().enumerate() {
        net.assert_got(B, recv, tag as u64, 1400);
    }
    assert!(net.seen(A, Kind::Fragment) > 0);
}

#[test]
fn damaged_payload_is_dropped_unacknowledged_and_comes_again() {
    let mut net = Net::pair(|settings, _| settings.payload_check = true);
    net.join(A, B);
    net.settle();
    let damage = Fate::Alter(Box::new(|bytes| *bytes.last_mut().unwrap() ^= 0x10));
    net.rule(1, |sight| sight.from == A && sight.has(Kind::Eager), damage);
    let recv = net.recv(B, tagged(1), 1000);
    let req = net.send(A, B, 1, 1000);
    net.settle();
    net.assert_got(B, recv, 1, 1000);
    assert_eq!(net.sent(A, req), Some(Ok(())));
    assert_eq!(net.count(B, "frames_damaged"), 1);
}

#[test]
fn check_is_the_first_record_where_bodies_are_summed() {
    for payload_check in [true, false] {
        let mut net = Net::pair(|settings, _| settings.payload_check = payload_check);
        let recv = net.recv(B, tagged(1), 100_000);
        net.send(A, B, 1, 100_000);
        net.settle();
        net.assert_got(B, recv, 1, 100_000);
        for sight in net.log.iter().filter(|sight| sight.packet() > 0) {
            assert_eq!(sight.kinds()[0] == Kind::Check, payload_check);
            assert_eq!(sight.has(Kind::Check), payload_check);
        }
    }
}

#[test]
fn lone_small_message_costs_forty_bytes() {
    let mut net = Net::joined();
    net.run_for(100 * MS);
    net.log.clear();
    net.send(A, B, 1, 8);
    net.run_for(MS);
    assert_eq!(net.log[0].bytes.len(), 40 + 8);
    net.log.clear();
    for tag in 0..3 {
        net.send(A, B, tag, 8);
    }
    net.run_for(MS);
    assert_eq!(net.log[0].bytes.len(), 40 + 8 + 2 * (16 + 8), "and each further one sixteen");
}

#[test]
fn idle_row_rests_and_wakes_where_it_was() {
    let mut net = Net::joined();
    net.run_for(30 * SECOND);
    assert_eq!(net.ep(A).next_timeout(), Instant::NEVER, "an idle endpoint has no timers");
    let soon = net.now + 3000 * SECOND;
    assert!(
        net.ep(B).next_timeout() > soon,
        "B has not named A: it will ask whether A lives, but not soon"
    );
    let recv = net.recv(B, tagged(1), 8);
    net.log.clear();
    let start = net.now;
    net.send(A, B, 1, 8);
    net.run_until(|net| net.got(B, recv).is_some());
    assert_eq!(net.now - start, DELAY_NS, "no contact is needed");
    assert_eq!(net.log[0].says(), [Kind::Eager]);
}

#[test]
fn first_two_packets_are_acknowledged_at_once() {
    let mut net = Net::pair(|settings, _| settings.ack_delay_ns = 900 * MS);
    net.send(A, B, 1, 8);
    net.run_for(2 * RTT_NS);
    net.send(A, B, 2, 8);
    net.run_for(3 * RTT_NS);
    let acked = acks(&net, B).iter().map(|ack| ack[0].1).max();
    assert!(acked >= Some(2), "the peer wants a round trip measured: {acked:?}");
}

/// Where a record stands in a frame (§10.1).
fn rank(kind: Kind) -> u32 {
    match kind {
        Kind::Check => 0,
        Kind::Hello | Kind::Echo | Kind::Welcome => 1,
        Kind::Ack => 2,
        Kind::Ping => 4,
        Kind::Pad => 5,
        Kind::Eager | Kind::Fragment | Kind::Rts => 6,
        Kind::Data => 7,
        _ => 3,
    }
}

/// Both ways, every class, every seventh packet lost, little room at B.
fn busy_exchange(payload_check: bool) -> Net {
    let tight = Plan::with(|settings, limits| {
        settings.payload_check = payload_check;
        limits.envelope_count_max = 6;
    });
    let mut net = Net::of(&[tight.clone(), tight]);
    net.rule(usize::MAX, |sight| sight.packet() % 7 == 3, Fate::Drop);
    let mut recvs = vec![];
    for tag in 0..60 {
        let len = [8, 3000, 60_000][tag as usize % 3];
        recvs.push((tag, len, net.recv(B, tagged(tag), len), net.recv(A, tagged(tag), len)));
        net.send(A, B, tag, len);
        net.send_matched(B, A, tag, len);
        net.run_for(RTT_NS / 3);
    }
    for tag in 100..112 {
        net.send(A, B, tag, 8);
        net.run_for(RTT_NS / 3);
    }
    net.run_for(20 * MS);
    for tag in (100..112).rev() {
        let (at_a, at_b) = (net.recv(A, tagged(tag), 8), net.recv(B, tagged(tag), 8));
        recvs.push((tag, 8, at_b, at_a));
    }
    for tag in 100..112 {
        net.send(B, A, tag, 8);
    }
    net.settle();
    for (tag, len, at_b, at_a) in recvs {
        net.assert_got(B, at_b, tag, len);
        net.assert_got(A, at_a, tag, len);
    }
    net
}

#[test]
fn frame_holds_its_records_in_order_and_data_alone() {
    let net = busy_exchange(true);
    for sight in &net.log {
        let kinds = sight.kinds();
        // A probe's Hello stands beside its Ping.
        let is_probe = kinds.windows(2).any(|two| two == [Kind::Hello, Kind::Ping]);
        let rank = |&kind: &Kind| if is_probe && kind == Kind::Hello { 4 } else { rank(kind) };
        assert!(kinds.is_sorted_by_key(rank), "{kinds:?}");
        if kinds.contains(&Kind::Data) {
            assert_eq!(kinds, [Kind::Check, Kind::Data], "alike, to leave as a train");
        }
        assert!(sight.bytes.len() <= 1472);
    }
}

#[test]
fn counters_agree_with_what_the_wire_saw() {
    for payload_check in [true, false] {
        let net = busy_exchange(payload_check);
        for (node, other) in [(A, B), (B, A)] {
            let records = |from: usize, kind: Kind| {
                let all = net.log.iter().filter(|sight| sight.from == from);
                all.flat_map(Sight::kinds).filter(|&each| each == kind).count() as u64
            };
            let sent = net.log.iter().filter(|sight| sight.from == node).count() as u64;
            let got = net.arrived.iter().filter(|&&(_, at)| net.log[at].from == other).count();
            assert_eq!(net.count(node, "frames_out"), sent);
            assert_eq!(net.count(node, "frames_in"), got as u64);
            assert_eq!(net.count(node, "acks_out"), records(node, Kind::Ack));
            assert_eq!(net.count(node, "challenges"), records(node, Kind::Challenge));
            assert_eq!(net.count(node, "messages_out"), 72);
            assert_eq!(net.count(node, "messages_in"), 72);
            assert_eq!(net.count(node, "rendezvous_in"), 20);
            assert_eq!(net.count(node, "bytes_placed"), net.nodes[node].ram.placed_len);
            let grants = net.count(node, "grants") + net.count(node, "grants_repeated");
            assert!(grants >= records(node, Kind::Grant), "some are overtaken by their data");
            assert_eq!(net.count(node, "frames_unkeyed") + net.count(node, "frames_malformed"), 0);
            assert!(net.count(node, "packets_lost") > 10);
            assert!(net.count(node, "envelope_count_peak") <= 6);
        }
        assert!(net.count(B, "refusals") > 0 && net.count(B, "recalls") > 0);
        assert!(net.count(B, "queries") >= net.count(B, "queries_found"));
    }
}

#[test]
fn notices_are_repeated_however_long_it_takes() {
    // Done: the receiver has nothing else to do with it and could rest.
    let mut net = Net::joined();
    net.drop_each(B, Kind::Done);
    net.recv(B, tagged(1), 8);
    let done = net.send_matched(A, B, 1, 8);
    net.run_for(3 * SECOND);
    assert_eq!(net.sent(A, done), None);
    net.heal();
    net.settle();
    assert_eq!(net.sent(A, done), Some(Ok(())));
    // Cancel: so has the sender.
    net.drop_each(A, Kind::Cancel);
    net.drop_each(A, Kind::Eager);
    let cancelled = net.send(A, B, 2, 8);
    net.run_for(US);
    assert!(net.nodes[A].ep.cancel(net.now, cancelled));
    net.run_for(3 * SECOND);
    net.heal();
    let next = net.recv(B, tagged(3), 8);
    net.send(A, B, 3, 8);
    net.settle();
    net.assert_got(B, next, 3, 8);
}

#[test]
fn answer_ends_the_send_it_answers() {
    for payload_check in [false, true] {
        let mut net = Net::pair(|settings, _| {
            settings.payload_check = payload_check;
            settings.ack_delay_ns = 10 * MS;
        });
        net.join(A, B);
        net.run_for(100 * MS);
        net.log.clear();
        for round in 0..40 {
            if round % 10 == 3 {
                net.double_next(B, Kind::Eager);
            }
            let there = net.recv_from(B, A, round, 8);
            let back = net.recv_from(A, B, round, 8);
            let asked = net.send(A, B, round, 8);
            net.run_until(|net| net.got(B, there).is_some());
            assert_eq!(net.sent(A, asked), None);
            net.send(B, A, round, 8);
            net.run_until(|net| net.got(A, back).is_some());
            net.assert_got(B, there, round, 8);
            net.assert_got(A, back, round, 8);
            assert_eq!(net.sent(A, asked), Some(Ok(())), "told by the frame of the answer");
        }
        for sight in net.sights(B, Kind::Eager) {
            assert_eq!(sight.says(), [Kind::Ack, Kind::Eager]);
        }
        assert_eq!((net.count(A, "packets_lost"), net.count(B, "packets_lost")), (0, 0));
    }
}

#[test]
fn one_who_sleeps_is_not_woken_for_what_needs_no_haste() {
    let mut net = Net::joined();
    net.run_for(100 * MS);
    for round in 0..2000 {
        for (from, to) in [(A, B), (B, A)] {
            let recv = net.recv(to, tagged(round), 8);
            net.send(from, to, round, 8);
            net.pump();
            // An acknowledgement left with it; a first probe will be due, and may be late.
            let now = net.now;
            assert_eq!(net.ep(from).next_timeout_for_sleep(now), now + 4 * MS);
            net.run_until(|net| net.got(to, recv).is_some());
        }
    }
    // Of one that came and was not answered the acknowledgement must leave in time.
    let recv = net.recv(B, tagged(1), 8);
    net.send(A, B, 1, 8);
    net.run_until(|net| net.got(B, recv).is_some());
    let now = net.now;
    assert!(net.ep(B).next_timeout_for_sleep(now) <= now + Settings::default().ack_delay_ns);
}

#[test]
fn a_second_probe_is_not_late() {
    let mut net = Net::joined();
    net.run_for(100 * MS);
    net.kill(B);
    net.send(A, B, 1, 8);
    net.pump();
    let now = net.now;
    assert_eq!(net.ep(A).next_timeout_for_sleep(now), now + 4 * MS);
    net.run_until(|net| net.count(A, "probes") > 0);
    let (now, exact) = (net.now, net.ep(A).next_timeout());
    assert_eq!(net.ep(A).next_timeout_for_sleep(now), exact);
}
