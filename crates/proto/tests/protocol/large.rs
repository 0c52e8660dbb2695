//! PROTOCOL §8, §10: announcements, grants, data, their loss, and who is served next.

use packhorse_proto::wire::{DONE_OK, Lane, Record};
use packhorse_proto::*;

use crate::net::*;

/// Payload of a full Data frame: 1472 less header and the Data head.
const DATA_LEN: u64 = 1472 - 24 - 16;

/// Grants (offset, length) a node sent for a message, in order.
fn grants(net: &Net, from: usize) -> Vec<(u64, u64)> {
    let mut grants = vec![];
    for sight in net.sights(from, Kind::Grant) {
        for (record, _) in sight.view().records() {
            if let Record::Grant { offset, len, .. } = record {
                grants.push((offset, len));
            }
        }
    }
    grants
}

/// Bytes of Data that reached `to`, or of first bytes and Data that left `from`.
fn data_len(sight: &Sight) -> u64 {
    let bodies = sight.view();
    let data = bodies.records().filter(|(record, _)| matches!(record, Record::Data { .. }));
    data.map(|(_, body)| body.len() as u64).sum()
}

#[test]
fn announcement_has_the_envelope_and_first_bytes() {
    let mut net = Net::joined();
    net.log.clear();
    let spec = SendSpec { immediate: Some(9), ..net.spec(A, B, 1, 100_000) };
    net.post(A, spec);
    net.run_for(MS);
    let announced = net.ep(B).probe(&tagged(1)).unwrap();
    assert_eq!((announced.len, announced.immediate), (100_000, Some(9)));
    let rts = net.sights(A, Kind::Rts)[0];
    assert!(rts.bytes.len() > 1400, "first bytes up to a frame");
    assert_eq!(net.seen(A, Kind::Data), 0, "and nothing else until it is granted");
    assert_eq!(net.count(B, "rendezvous_in"), 1);
}

/// §8.3: what a peer was granted, and does not send though it is there, keeps nobody else from being granted.
#[test]
fn a_peer_that_never_sends_what_it_was_granted_takes_nothing_from_others() {
    let plan = Plan::with(|_, limits| limits.grant_len_max = 16 * DATA_LEN);
    let mut net = Net::of(&[plan.clone(), plan.clone(), plan]);
    net.join(A, C);
    net.join(B, C);
    net.drop_each(A, Kind::Data);
    let (never, whole) = (net.recv(C, tagged(1), 100_000), net.recv(C, tagged(2), 100_000));
    net.send(A, C, 1, 100_000);
    net.run_for(10 * MS);
    assert!(!grants(&net, C).is_empty(), "the whole budget is granted to A");
    net.send(B, C, 2, 100_000);
    net.run_for(SECOND);
    net.assert_got(C, whole, 2, 100_000);
    assert!(net.got(C, never).is_none());
    let granted_to = grants(&net, C).iter().map(|&(offset, len)| offset + len).max();
    assert!(granted_to >= Some(100_000), "B's message whole");
}

/// §8.1, §8.2: by a link that never loses a frame, a message is announced without payload and granted in few pieces.
#[test]
fn where_nothing_is_lost_one_grant_asks_for_all() {
    for (len, pieces) in [(1 << 20, 1), (1_400_000, 1), (3 << 20, 3)] {
        let mut net = Net::pair(|settings, limits| {
            settings.grant_free_len = 1 << 20;
            limits.grant_len_max = 64 << 10; // for those that come by other links
        });
        for node in [A, B] {
            let traits = LinkTraits {
                frame_len_max: 1472,
                payload_check: false,
                reliability: Reliability::Ordered { may_break: false },
                is_private: false,
                can_fetch: false,
                train_len_max: 0,
            };
            net.ep(node).set_link(0, traits);
        }
        net.join(A, B);
        net.log.clear();
        let recv = net.recv(B, tagged(1), len);
        net.send(A, B, 1, len);
        net.settle();
        net.assert_got(B, recv, 1, len);
        assert!(net.sights(A, Kind::Rts)[0].bytes.len() < 200, "no payload");
        assert_eq!(grants(&net, B).len(), pieces, "{len} bytes");
    }
}

#[test]
fn first_bytes_that_find_no_room_are_granted_later() {
    let tight = Plan::with(|_, limits| limits.held_len_max = 32 << 10);
    let mut net = Net::of(&[Plan::default(), tight]);
    net.join(A, B);
    net.send(A, B, 9, 32 << 10); // fills the budget
    net.settle();
    let req = net.send(A, B, 1, 100_000);
    net.settle();
    assert_eq!(net.count(B, "refusals"), 0, "announced all the same");
    let recv = net.recv(B, tagged(1), 100_000);
    net.settle();
    net.assert_got(B, recv, 1, 100_000);
    assert_eq!(net.sent(A, req), Some(Ok(())));
    assert_eq!(grants(&net, B)[0].0, 0, "from the start");
}

#[test]
fn grants_have_the_length_they_are_set_to() {
    for grant_packets in [1, 8, 16, 32] {
        let mut net = Net::pair(|settings, _| settings.grant_packets = grant_packets);
        let recv = net.recv(B, tagged(1), 1 << 20);
        net.send(A, B, 1, 1 << 20);
        net.settle();
        net.assert_got(B, recv, 1, 1 << 20);
        let grants = grants(&net, B);
        let full = u64::from(grant_packets) * DATA_LEN;
        assert_eq!(grants.iter().map(|grant| grant.1).max(), Some(full));
        let (last_offset, last_len) = *grants.last().unwrap();
        assert_eq!(last_offset + last_len, 1 << 20, "to the end and no further");
        for two in grants.windows(2) {
            assert_eq!(two[0].0 + two[0].1, two[1].0, "one behind the other");
        }
        assert_eq!(net.count(B, "grants"), grants.len() as u64);
    }
}

/// Runs one transfer and shows after each step how many bytes are granted and not arrived.
fn watch_open(plan: &Plan, senders: usize, len: usize, mut look: impl FnMut(u64)) -> Net {
    let mut net = Net::of(&vec![plan.clone(); senders + 1]);
    for from in 1..=senders {
        net.recv(A, tagged(from as u64), len);
        net.send(from, A, from as u64, len);
    }
    let until = net.now + 10 * SECOND;
    let (mut granted_to, mut seen, mut arrived, mut counted) = (0, 0, 0, 0);
    while net.step(until) && net.count(A, "grants") < u64::MAX {
        for sight in &net.log[seen..] {
            for (record, _) in sight.view().records() {
                if let Record::Grant { len, .. } = record {
                    granted_to += len;
                }
            }
        }
        seen = net.log.len();
        for &(_, sight) in &net.arrived[counted..] {
            if net.log[sight].to == Some(A) {
                arrived += data_len(&net.log[sight]);
            }
        }
        counted = net.arrived.len();
        look(granted_to - arrived);
    }
    let done = net.nodes[A].ep.counters().bytes_placed;
    assert_eq!(done, (senders * len) as u64);
    assert_eq!(net.count(A, "grants_repeated"), 0);
    net
}

#[test]
fn next_grant_waits_until_few_enough_granted_frames_are_missing() {
    for (grant_packets, grant_ahead) in [(16, 0), (16, 4), (16, 15), (8, 0), (4, 40)] {
        let plan = Plan::with(|settings, _| {
            (settings.grant_packets, settings.grant_ahead) = (grant_packets, grant_ahead);
            settings.grants_in_flight = 64;
        });
        let mut most = 0;
        watch_open(&plan, 1, 1 << 20, |open| most = most.max(open));
        let bound = u64::from(grant_packets + grant_ahead) * DATA_LEN;
        assert!(most <= bound, "{grant_packets} ahead {grant_ahead}: {most} open");
        assert!(most > bound / 2, "{grant_packets} ahead {grant_ahead}: only {most} open");
    }
}

#[test]
fn few_grants_are_in_flight_per_message() {
    for grants_in_flight in [1, 2, 4] {
        let plan = Plan::with(|settings, _| {
            (settings.grant_packets, settings.grant_ahead) = (8, 4096);
            settings.grants_in_flight = grants_in_flight;
        });
        let mut most = 0;
        watch_open(&plan, 1, 1 << 20, |open| most = most.max(open));
        let bound = u64::from(grants_in_flight) * 8 * DATA_LEN;
        // A further one may go out while the last but one has a frame left.
        assert!(most <= bound, "{grants_in_flight} in flight: {most} open, {bound} allowed");
    }
}

#[test]
fn budget_of_granted_bytes_is_never_exceeded() {
    for grant_len_max in [1472, 20_000, 160 << 10] {
        let plan = Plan::with(|_, limits| limits.grant_len_max = grant_len_max);
        let mut most = 0;
        watch_open(&plan, 6, 200_000, |open| most = most.max(open));
        assert!(most <= grant_len_max, "{most} open of {grant_len_max}");
    }
}

#[test]
fn budget_of_granted_bytes_is_used_to_the_last_frame() {
    let plan = Plan::with(|settings, limits| {
        (settings.grant_packets, settings.grant_ahead) = (1, 64);
        settings.grants_in_flight = 64;
        limits.grant_len_max = 4 * DATA_LEN;
    });
    let mut most = 0;
    watch_open(&plan, 1, 300_000, |open| most = most.max(open));
    assert_eq!(most, 4 * DATA_LEN);
}

/// §8.2: by bytes, a grant is whole trains, or whole frames if it is shorter than a train.
#[test]
fn grants_by_bytes_are_whole_trains() {
    for (grant_len, train_len, full) in [(10, 4, 8), (10, 5, 10), (3, 4, 3), (3, 0, 3)] {
        let [grant_len, train_len] = [grant_len, train_len].map(|count| count * DATA_LEN as u32);
        let mut net = Net::pair(|settings, _| {
            (settings.grant_len, settings.grant_train_len) = (grant_len + 100, train_len);
        });
        let recv = net.recv(B, tagged(1), 300_000);
        net.send(A, B, 1, 300_000);
        net.settle();
        net.assert_got(B, recv, 1, 300_000);
        let longest = grants(&net, B).into_iter().map(|grant| grant.1).max();
        assert_eq!(longest, Some(full * DATA_LEN), "{grant_len} by {train_len}");
    }
}

#[test]
fn earlier_request_fills_the_bubble() {
    // RMPP's Figure 8: without ahead a round trip is lost per grant.
    let time = |grant_ahead| {
        let plan = Plan::with(|settings, _| settings.grant_ahead = grant_ahead);
        let mut net = Net::of(&[plan.clone(), plan]);
        net.join(A, B);
        let start = net.now;
        let recv = net.recv(B, tagged(1), 1 << 20);
        net.send(A, B, 1, 1 << 20);
        net.run_until(|net| net.got(B, recv).is_some());
        net.now - start
    };
    let (late, early) = (time(0), time(32));
    assert!(late > 2 * early, "{late} ns without ahead, {early} ns with");
}

#[test]
fn lost_grant_is_repeated() {
    let mut net = Net::joined();
    net.drop_next(B, Kind::Grant);
    let recv = net.recv(B, tagged(1), 300_000);
    let req = net.send(A, B, 1, 300_000);
    net.settle();
    net.assert_got(B, recv, 1, 300_000);
    assert_eq!(net.sent(A, req), Some(Ok(())));
    assert!(net.count(B, "grants_repeated") > 0);
}

#[test]
fn each_kind_of_frame_of_a_transfer_may_be_lost() {
    for (from, kind) in [
        (A, Kind::Rts),
        (B, Kind::Grant),
        (A, Kind::Data),
        (B, Kind::Done),
        (B, Kind::Ack),
        (A, Kind::Ack),
    ] {
        for lost_count in [1, 4] {
            let mut net = Net::joined();
            net.settle();
            for _ in 0..lost_count {
                net.drop_next(from, kind);
            }
            let recv = net.recv(B, tagged(1), 200_000);
            let req = net.send(A, B, 1, 200_000);
            net.settle();
            net.assert_got(B, recv, 1, 200_000);
            assert_eq!(net.sent(A, req), Some(Ok(())), "{lost_count} × {kind:?}");
            assert_eq!(net.count(B, "bytes_placed"), 200_000 + 16, "each byte once");
        }
    }
}

#[test]
fn each_kind_of_frame_of_a_transfer_may_come_twice_or_late() {
    for (from, kind) in
        [(A, Kind::Rts), (B, Kind::Grant), (A, Kind::Data), (B, Kind::Done), (B, Kind::Ack)]
    {
        for fate in [Fate::Double(10 * MS), Fate::Delay(20 * MS)] {
            let mut net = Net::joined();
            net.settle();
            net.rule(1, move |sight| sight.from == from && sight.has(kind), fate);
            let recv = net.recv(B, tagged(1), 200_000);
            let req = net.send(A, B, 1, 200_000);
            net.settle();
            net.assert_got(B, recv, 1, 200_000);
            assert_eq!(net.sent(A, req), Some(Ok(())), "{kind:?}");
            assert_eq!(net.nodes[B].ram.placed_len, 200_000 + 16, "each byte once");
        }
    }
}

#[test]
fn granted_range_that_does_not_come_is_granted_again() {
    let mut net = Net::joined();
    let recv = net.recv(B, tagged(1), 300_000);
    net.send(A, B, 1, 300_000);
    net.drop_each(A, Kind::Data); // the grant arrives and is acknowledged, the data does not come
    net.run_for(3 * SECOND);
    assert!(net.count(B, "grants_repeated") > 0);
    net.heal();
    net.settle();
    net.assert_got(B, recv, 1, 300_000);
    assert_eq!(net.nodes[B].ram.placed_len, 300_000 + 16, "a range counts once");
}

/// §8.5: whoever acknowledges grants and sends nothing is granted again ever less often.
#[test]
fn grants_in_vain_are_repeated_less_and_less_often() {
    let mut net = Net::joined();
    net.recv(B, tagged(1), 300_000);
    net.send(A, B, 1, 300_000);
    net.drop_each(A, Kind::Data);
    let mut count_for = |ns| {
        let before = net.count(B, "grants_repeated");
        net.run_for(ns);
        net.count(B, "grants_repeated") - before
    };
    let soon = count_for(20 * MS);
    count_for(4 * SECOND);
    let later = count_for(4 * SECOND);
    assert!(soon > 1, "it is asked for at once");
    assert!((1..=8).contains(&later), "and for ever, once a second: {later} grants in 4 s");
}

#[test]
fn repeated_grants_do_not_multiply() {
    let mut net = Net::joined();
    net.drop_each(B, Kind::Grant); // and nothing else: the losses are seen at once
    let recv = net.recv(B, tagged(1), 100_000);
    net.send(A, B, 1, 100_000);
    let mut count_for = |ns| {
        let before = grants(&net, B).len();
        net.run_for(ns);
        grants(&net, B).len() - before
    };
    let first = count_for(100 * MS);
    count_for(300 * MS);
    let later = count_for(100 * MS);
    assert!(later <= 2 * first, "{first} grants in the first tenth of a second, {later} later");
    net.heal();
    net.settle();
    net.assert_got(B, recv, 1, 100_000);
}

#[test]
fn data_of_a_finished_or_unknown_message_is_acknowledged_and_dropped() {
    let mut net = Net::joined();
    let recv = net.recv(B, tagged(1), 100_000);
    net.send(A, B, 1, 100_000);
    net.settle();
    net.assert_got(B, recv, 1, 100_000);
    let before = net.nodes[B].ram.placed_len;
    for message in [2, 3, 77] {
        net.forge(A, B, |writer| writer.data(Lane::Message, message, 8, 0), &[1; 8]);
    }
    assert_eq!(net.nodes[B].ram.placed_len, before);
}

#[test]
fn data_that_was_not_granted_is_not_placed() {
    let mut net = Net::pair(|settings, _| (settings.grant_packets, settings.grant_ahead) = (1, 0));
    net.join(A, B);
    net.recv(B, tagged(1), 1 << 20);
    net.send(A, B, 1, 1 << 20);
    net.drop_each(A, Kind::Data);
    net.run_until(|net| net.seen(B, Kind::Grant) > 0);
    let before = net.nodes[B].ram.placed_len;
    for offset in [500_000, (1 << 20) - 8, 1 << 20, u64::MAX - 8] {
        net.forge(A, B, |writer| writer.data(Lane::Message, 2, 8, offset), &[1; 8]);
    }
    assert_eq!(net.nodes[B].ram.placed_len, before);
    assert_eq!(net.count(B, "data_unasked"), 4);
}

#[test]
fn grant_beyond_the_message_is_cut() {
    let mut net = Net::joined();
    net.drop_each(B, Kind::Grant);
    let req = net.send(A, B, 1, 100_000);
    net.run_for(MS);
    net.log.clear();
    for (offset, len) in [(99_000, u64::MAX - 99_000), (100_000, 5), (1 << 40, 5), (0, 0)] {
        net.forge(B, A, |writer| writer.grant(Lane::Message, 2, offset, len), &[]);
    }
    net.forge(B, A, |writer| writer.grant(Lane::Message, 55, 0, 1000), &[]); // no such message
    net.run_for(MS);
    let sent: u64 = net.sights(A, Kind::Data).iter().map(|sight| data_len(sight)).sum();
    assert_eq!(sent, 1000, "the last thousand bytes");
    net.forge(B, A, |writer| writer.done(2, DONE_OK, 100_001), &[]);
    net.forge(B, A, |writer| writer.done(2, DONE_OK, 7), &[]);
    assert_eq!(net.sent(A, req), Some(Ok(())), "once");
    assert_eq!(net.told_len(A, req), Some(100_000), "no more than it has");
}

#[test]
fn small_message_does_not_wait_for_a_large_one() {
    let mut net = Net::joined();
    net.recv(B, tagged(1), 64 << 20);
    net.send(A, B, 1, 64 << 20);
    net.run_for(20 * RTT_NS);
    let recv = net.recv(B, tagged(2), 8);
    let start = net.now;
    net.send(A, B, 2, 8);
    net.run_until(|net| net.got(B, recv).is_some());
    assert!(net.now - start <= 3 * RTT_NS, "{} ns", net.now - start);
    assert!(net.count(B, "bytes_placed") < 64 << 20, "the transfer is still running");
}

#[test]
fn equal_messages_of_one_peer_come_one_after_the_other() {
    let mut net = Net::joined();
    net.settle();
    let recvs: Vec<Recv> = (0..3).map(|tag| net.recv(B, tagged(tag), 400_000)).collect();
    for tag in 0..3 {
        net.send(A, B, tag, 400_000);
    }
    for (at, &recv) in recvs.iter().enumerate() {
        net.run_until(|net| net.got(B, recv).is_some());
        let placed = net.count(B, "bytes_placed");
        let others = placed - (at as u64 + 1) * 400_000;
        assert!(others < 200_000, "{others} bytes of those behind number {at}");
    }
}

#[test]
fn short_message_is_granted_before_a_long_one() {
    for (policy, overtakes) in
        [(GrantPolicy::SmallestFirst, true), (GrantPolicy::RoundRobin, false)]
    {
        let tight = Plan::with(|settings, limits| {
            settings.grant_policy = policy;
            limits.grant_len_max = 30_000;
        });
        let mut net = Net::of(&vec![tight; 12]);
        for from in 1..11 {
            net.recv(A, tagged(from as u64), 4 << 20);
            net.send(from, A, from as u64, 4 << 20);
        }
        net.run_for(50 * RTT_NS);
        let recv = net.recv(A, tagged(99), 150_000);
        let start = net.now;
        net.send(11, A, 99, 150_000);
        net.run_until(|net| net.got(A, recv).is_some());
        let alone = 150_000 / 30_000 * RTT_NS;
        assert_eq!(net.now - start < 6 * alone, overtakes, "{policy:?}: {}", net.now - start);
    }
}

#[test]
fn lengths_have_64_bits() {
    // 5 GiB need not be moved to see it: the announcement and the first grants suffice.
    let mut net = Net::joined();
    net.log.clear();
    let len = 5 << 30;
    let head = wire_rts(2, 1, len);
    net.forge(A, B, |writer| writer.message(&head), &[]);
    assert_eq!(net.ep(B).probe(&tagged(1)).unwrap().len, len);
    let recv = RecvSpec { len, ..net.recv_spec(B, tagged(1), 0) };
    net.post_recv(B, recv);
    net.run_for(MS);
    let (offset, granted) = grants(&net, B)[0];
    assert_eq!((offset, granted), (0, 16 * DATA_LEN));
}

fn wire_rts(message: u32, tag: u64, total: u64) -> wire::MessageHead {
    wire::MessageHead {
        class: wire::Class::Rts,
        space: Space(0),
        message,
        tag: Tag(tag),
        offset: 0,
        total,
        immediate: None,
        wants_match: false,
        len: 0,
        ahead: 0,
    }
}

#[test]
fn who_waits_for_the_end_is_told_what_was_taken() {
    for (len, room) in [(8, 8), (8, 3), (8, 0), (5000, 1200), (100_000, 70_000), (100_000, 0)] {
        for comes_first in [true, false] {
            let mut net = Net::new(2);
            if comes_first {
                net.recv(B, tagged(1), room);
            }
            let req = net.send_matched(A, B, 1, len);
            net.settle();
            if !comes_first {
                net.recv(B, tagged(1), room);
                net.settle();
            }
            assert_eq!(net.sent(A, req), Some(Ok(())));
            assert_eq!(net.told_len(A, req), Some(room as u64), "{len} bytes into {room}");
        }
    }
}

#[test]
fn who_waits_for_acceptance_only_is_told_nothing_of_a_cut() {
    for len in [8, 5000] {
        let mut net = Net::new(2);
        net.recv(B, tagged(1), 3);
        let req = net.send(A, B, 1, len);
        net.settle();
        assert_eq!(net.told_len(A, req), Some(len as u64));
    }
    let mut net = Net::new(2);
    net.recv(B, tagged(1), 3);
    let req = net.send(A, B, 1, 100_000);
    net.settle();
    assert_eq!(net.told_len(A, req), Some(3), "a large one waits for its end anyway");
}
