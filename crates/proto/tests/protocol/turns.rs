//! PROTOCOL §7.4-§7.6: budgets, refusal, recall, query.

use packhorse_proto::wire::Record;
use packhorse_proto::*;

use crate::net::*;

/// A receiver with room for few envelopes, and a sender that does not know: it rested since it was told.
fn tight(envelope_count_max: u32) -> Net {
    let plan = Plan::with(|_, limits| limits.envelope_count_max = envelope_count_max);
    let mut net = Net::of(&[Plan::default(), plan]);
    net.join(A, B);
    net.settle();
    net.log.clear();
    net
}

/// Sends one message after the other, each in a frame of its own.
fn one_by_one(net: &mut Net, tags: std::ops::Range<u64>, len: usize) -> Vec<ReqId> {
    tags.map(|tag| {
        let req = net.send(A, B, tag, len);
        net.run_for(US);
        req
    })
    .collect()
}

#[test]
fn receiver_without_room_refuses_and_recalls() {
    let mut net = tight(8);
    let reqs = one_by_one(&mut net, 0..20, 8);
    net.run_for(50 * MS);
    assert_eq!(net.ep(B).held().1, 8);
    assert_eq!(net.count(B, "refusals"), 1, "one refusal for all that follow");
    let done = reqs.iter().filter(|&&req| net.sent(A, req).is_some()).count();
    assert_eq!(done, 8, "acknowledged means accepted");
    for tag in 0..20 {
        let recv = net.recv(B, tagged(tag), 8);
        net.settle();
        net.assert_got(B, recv, tag, 8);
    }
    assert!(net.count(B, "recalls") > 0);
    for req in reqs {
        assert_eq!(net.sent(A, req), Some(Ok(())));
    }
    assert_eq!(net.count(A, "windows_shrunk") + net.count(A, "windows_halved"), 0, "no loss");
}

#[test]
fn budgets_are_never_exceeded() {
    for len in [0, 8, 900, 5000] {
        let plan = Plan::with(|_, limits| {
            (limits.envelope_count_max, limits.held_len_max) = (16, 32 << 10);
        });
        let mut net = Net::of(&[Plan::default(), plan.clone(), plan]);
        for tag in 0..100 {
            net.send(A, B, tag, len);
            net.send(C, B, tag, len);
        }
        let until = net.now + SECOND;
        while net.step(until) {
            let (held_len, envelope_count) = net.ep(B).held();
            assert!(held_len <= 32 << 10 && envelope_count <= 16, "{held_len}, {envelope_count}");
        }
        assert_eq!(
            net.count(B, "envelope_count_peak").min(16),
            net.count(B, "envelope_count_peak")
        );
        for (from, tag) in (0..100).flat_map(|tag| [(A, tag), (C, tag)]) {
            let recv = net.recv_from(B, from, tag, len);
            net.run_until(|net| net.got(B, recv).is_some());
            net.assert_got(B, recv, tag, len);
        }
    }
}

#[test]
fn message_in_turn_with_its_receive_posted_needs_no_budget() {
    let mut net = tight(4);
    one_by_one(&mut net, 0..4, 8); // the budget is used up
    net.run_for(MS);
    let recv = net.recv(B, tagged(9), 8);
    net.send(A, B, 9, 8);
    net.run_for(MS);
    net.assert_got(B, recv, 9, 8);
    assert_eq!(net.count(B, "refusals"), 0);
}

#[test]
fn frame_with_a_refused_message_is_not_acknowledged() {
    let mut net = tight(4);
    for tag in 0..6 {
        net.send(A, B, tag, 8); // one frame: four fit
    }
    net.run_for(10 * MS);
    let packet = net.sights(A, Kind::Eager)[0].packet();
    for sight in net.sights(B, Kind::Ack) {
        for (record, _) in sight.view().records() {
            if let Record::Ack(ack) = record {
                let mut ranges = ack.ranges(u64::from(ack.largest()));
                assert!(ranges.all(|(low, high)| packet < low || high < packet));
            }
        }
    }
    for tag in 0..6 {
        let recv = net.recv(B, tagged(tag), 8);
        net.settle();
        net.assert_got(B, recv, tag, 8);
    }
}

#[test]
fn lost_refusal_and_lost_recall_are_repeated() {
    for kind in [Kind::Refuse, Kind::Recall] {
        for lost_count in [1, 3] {
            let mut net = tight(4);
            for _ in 0..lost_count {
                net.drop_next(B, kind);
            }
            let reqs = one_by_one(&mut net, 0..12, 8);
            net.run_for(20 * MS);
            let recvs: Vec<Recv> = (0..12).map(|tag| net.recv(B, tagged(tag), 8)).collect();
            net.settle();
            for (tag, &recv) in recvs.iter().enumerate() {
                net.assert_got(B, recv, tag as u64, 8);
            }
            for req in reqs {
                assert_eq!(net.sent(A, req), Some(Ok(())), "{lost_count} × {kind:?}");
            }
        }
    }
}

#[test]
fn late_refusal_does_not_undo_a_recall() {
    let mut net = tight(4);
    net.hold_next(B, Kind::Refuse);
    one_by_one(&mut net, 0..8, 8);
    net.run_until(|net| net.count(B, "recalls") == 0 && net.held_count() > 0);
    for tag in 0..8 {
        let recv = net.recv(B, tagged(tag), 8);
        net.settle();
        net.assert_got(B, recv, tag, 8);
    }
    net.release(); // older than the recall that A heard
    net.run_for(MS);
    let recv = net.recv(B, tagged(99), 8);
    net.send(A, B, 99, 8);
    net.settle();
    net.assert_got(B, recv, 99, 8);
}

#[test]
fn refused_peers_are_recalled_oldest_first() {
    let plan = Plan::with(|_, limits| limits.envelope_count_max = 4);
    let mut net = Net::of(&[Plan::default(), plan, Plan::default()]);
    for tag in 0..4 {
        net.send(A, B, tag, 8);
    }
    net.settle();
    let of_a = net.send(A, B, 10, 8);
    net.run_for(10 * MS);
    let of_c = net.send(C, B, 20, 8);
    net.run_for(10 * MS);
    assert_eq!((net.sent(A, of_a), net.sent(C, of_c)), (None, None));
    assert_eq!(net.count(B, "refusals"), 2);
    for tag in 0..2 {
        net.recv(B, tagged(tag), 8);
    }
    net.settle();
    assert_eq!((net.sent(A, of_a), net.sent(C, of_c)), (Some(Ok(())), Some(Ok(()))));
}

#[test]
fn fragments_and_announcements_are_refused_like_any_message() {
    for len in [5000, 100_000] {
        let mut net = tight(4);
        one_by_one(&mut net, 0..4, 8);
        let req = net.send(A, B, 9, len);
        net.run_for(10 * MS);
        assert_eq!(net.count(B, "refusals"), 1);
        for tag in 0..4 {
            net.recv(B, tagged(tag), 8);
        }
        net.settle();
        let recv = net.recv(B, tagged(9), len);
        net.settle();
        net.assert_got(B, recv, 9, len);
        assert_eq!(net.sent(A, req), Some(Ok(())), "{len} bytes");
    }
}

#[test]
fn message_too_long_for_what_is_free_is_refused_until_it_fits() {
    let plan = Plan::with(|_, limits| limits.held_len_max = 48 << 10);
    let mut net = Net::of(&[Plan::default(), plan]);
    net.join(A, B);
    net.send(A, B, 1, 30_000);
    let second = net.send(A, B, 2, 30_000);
    net.settle();
    assert_eq!((net.sent(A, second), net.count(B, "refusals") > 0), (None, true));
    let recv = net.recv(B, tagged(1), 30_000);
    net.settle();
    net.assert_got(B, recv, 1, 30_000);
    assert_eq!(net.sent(A, second), Some(Ok(())), "room again: recalled");
}

#[test]
fn early_message_is_refused_when_it_finds_no_room() {
    let mut net = tight(4);
    net.hold_next(A, Kind::Eager);
    let reqs = one_by_one(&mut net, 0..10, 8); // nine are early
    net.run_for(DELAY_NS + US);
    assert_eq!(net.count(B, "refusals"), 1);
    net.release();
    let recvs: Vec<Recv> = (0..10).map(|tag| net.recv(B, tagged(tag), 8)).collect();
    net.settle();
    for (tag, &recv) in recvs.iter().enumerate() {
        net.assert_got(B, recv, tag as u64, 8);
    }
    for req in reqs {
        assert_eq!(net.sent(A, req), Some(Ok(())));
    }
}

/// The program that deadlocks where buffers are bounded and nobody asks: many of tag A, then one of tag B, B first.
fn wanted_behind_unwanted(len: usize, level: bool) -> Net {
    let mut net = tight(4);
    one_by_one(&mut net, 0..20, 8);
    let spec = SendSpec { until_matched: level, ..net.spec(A, B, 1000, len) };
    let wanted = net.post(A, spec);
    net.run_for(10 * MS);
    let recv = net.recv(B, tagged(1000), len);
    net.settle();
    net.assert_got(B, recv, 1000, len);
    assert_eq!(net.sent(A, wanted), Some(Ok(())), "{len} bytes");
    assert_eq!(net.count(B, "queries_found"), 1);
    for tag in 0..20 {
        let recv = net.recv(B, tagged(tag), 8);
        net.settle();
        net.assert_got(B, recv, tag, 8);
    }
    let last = net.recv(B, tagged(7), 8);
    net.send(A, B, 7, 8);
    net.settle();
    net.assert_got(B, last, 7, 8); // its number was skipped when its turn came
    net
}

#[test]
fn query_pulls_a_held_back_message_out_of_turn() {
    for len in [1, 8, 1000, 5000, 32 << 10, 100_000] {
        for level in [false, true] {
            wanted_behind_unwanted(len, level);
        }
    }
}

#[test]
fn query_pulls_an_empty_message_too() {
    wanted_behind_unwanted(0, false);
    wanted_behind_unwanted(0, true);
}

#[test]
fn query_that_finds_nothing_is_repeated_with_back_off() {
    let mut net = tight(4);
    one_by_one(&mut net, 0..6, 8);
    net.run_for(10 * MS);
    let recv = net.recv(B, tagged(1000), 8);
    net.run_for(SECOND);
    let at: Vec<u64> = net.sights(B, Kind::Query).iter().map(|sight| sight.at.0).collect();
    assert!(at.len() > 3);
    let pauses: Vec<u64> = at.windows(2).map(|two| two[1] - two[0]).collect();
    assert!(pauses.windows(2).all(|two| two[1] >= two[0]), "{pauses:?}");
    assert_eq!(pauses.last(), Some(&(64 * MS)));
    net.send(A, B, 1000, 8);
    net.run_until(|net| net.got(B, recv).is_some());
    net.assert_got(B, recv, 1000, 8);
}

#[test]
fn lost_query_and_lost_answer_are_repaired() {
    for (from, kind) in [(B, Kind::Query), (A, Kind::Found), (B, Kind::Grant), (A, Kind::Data)] {
        let mut net = tight(4);
        one_by_one(&mut net, 0..10, 8);
        net.send(A, B, 1000, 3000);
        net.run_for(10 * MS);
        net.drop_next(from, kind);
        let recv = net.recv(B, tagged(1000), 3000);
        net.settle();
        net.assert_got(B, recv, 1000, 3000);
    }
}

#[test]
fn query_matches_an_early_message_held_here() {
    // Message 1 fills a gap in B's knowledge: it is lost until B refuses; 2 waits early and is the one wanted.
    let mut net = tight(4);
    one_by_one(&mut net, 0..3, 8);
    net.settle();
    net.rule(1, |sight| sight.from == A && sight.has(Kind::Eager), Fate::Drop);
    one_by_one(&mut net, 3..8, 8);
    net.run_for(DELAY_NS + 10 * US);
    assert_eq!(net.count(B, "messages_early"), 1);
    assert_eq!(net.count(B, "refusals"), 1);
    net.drop_each(A, Kind::Eager); // the gap stays
    let recv = net.recv(B, tagged(4), 8);
    net.run_for(20 * MS);
    net.assert_got(B, recv, 4, 8);
    net.heal();
    for tag in [0, 1, 2, 3, 5, 6, 7] {
        let recv = net.recv(B, tagged(tag), 8);
        net.settle();
        net.assert_got(B, recv, tag, 8);
    }
}

#[test]
fn queries_ask_only_sources_a_receive_admits() {
    let plan = Plan::with(|_, limits| limits.envelope_count_max = 4);
    let mut net = Net::of(&[Plan::default(), plan, Plan::default()]);
    for tag in 0..8 {
        net.send(A, B, tag, 8);
        net.send(C, B, tag, 8);
    }
    net.settle();
    net.log.clear();
    let recv = net.recv_from(B, C, 7, 8);
    net.run_until(|net| net.got(B, recv).is_some());
    let queries = net.sights(B, Kind::Query);
    assert!(queries.iter().all(|sight| sight.to == Some(C)), "A is not asked");
    net.assert_got(B, recv, 7, 8);
}

#[test]
fn found_message_goes_to_the_receive_that_would_take_it_in_turn() {
    let mut net = tight(4);
    one_by_one(&mut net, 0..5, 8);
    for len in [100, 200, 300] {
        net.send(A, B, 1000, len);
        net.run_for(US);
    }
    net.run_for(10 * MS);
    let recvs: Vec<Recv> = (0..3).map(|_| net.recv(B, tagged(1000), 300)).collect();
    net.settle();
    for (recv, len) in recvs.iter().zip([100, 200, 300]) {
        net.assert_got(B, *recv, 1000, len); // in the order of their numbers
    }
}

#[test]
fn pulled_message_is_cancelled_from_either_side() {
    for sender in [true, false] {
        let mut net = tight(4);
        one_by_one(&mut net, 0..10, 8);
        let req = net.send(A, B, 1000, 500_000);
        net.run_for(10 * MS);
        let recv = net.recv(B, tagged(1000), 500_000);
        net.run_until(|net| net.seen(A, Kind::Data) > 0);
        if sender {
            assert!(net.nodes[A].ep.cancel(net.now, req));
        } else {
            assert!(net.cancel(B, recv.req, recv.buf));
        }
        net.settle();
        let (ours, theirs) = (Failure::Cancelled, Failure::CancelledByPeer);
        let (at_a, at_b) = if sender { (ours, theirs) } else { (theirs, ours) };
        assert_eq!(net.sent(A, req), Some(Err(at_a)));
        assert_eq!(net.got(B, recv).unwrap().result, Err(at_b));
        for tag in 0..10 {
            let recv = net.recv(B, tagged(tag), 8);
            net.settle();
            net.assert_got(B, recv, tag, 8);
        }
        let last = net.recv(B, tagged(7), 8);
        net.send(A, B, 7, 8);
        net.settle();
        net.assert_got(B, last, 7, 8);
    }
}

#[test]
fn held_back_message_is_cancelled() {
    let mut net = tight(4);
    let reqs = one_by_one(&mut net, 0..8, 8);
    net.run_for(10 * MS);
    assert!(net.nodes[A].ep.cancel(net.now, reqs[6]));
    net.run_for(10 * MS);
    for tag in [0, 1, 2, 3, 4, 5, 7] {
        let recv = net.recv(B, tagged(tag), 8);
        net.settle();
        net.assert_got(B, recv, tag, 8);
    }
    assert_eq!(net.ep(B).probe(&anything()), None);
    assert_eq!(net.sent(A, reqs[6]), Some(Err(Failure::Cancelled)));
}

#[test]
fn many_refusals_and_recalls_keep_their_order() {
    let mut net = tight(4);
    for round in 0..300 {
        let reqs = one_by_one(&mut net, 0..6, 8);
        net.run_for(MS);
        for tag in 0..6 {
            let recv = net.recv(B, tagged(tag), 8);
            net.run_until(|net| net.got(B, recv).is_some());
            net.assert_got(B, recv, tag, 8);
        }
        net.run_for(MS);
        for req in reqs {
            assert_eq!(net.sent(A, req), Some(Ok(())), "round {round}");
        }
        net.nodes[A].events.clear();
        net.nodes[B].events.clear();
    }
    assert_eq!(net.count(B, "refusals"), 300);
    assert_eq!(net.count(B, "recalls"), 300);
}

#[test]
fn refusal_ends_with_the_association() {
    let mut net = tight(4);
    one_by_one(&mut net, 0..8, 8);
    net.run_for(10 * MS);
    net.restart(A);
    for tag in 0..4 {
        let recv = net.recv(B, tagged(tag), 8);
        net.settle();
        net.assert_got(B, recv, tag, 8); // whole: they stay
    }
    let recv = net.recv(B, tagged(50), 8);
    net.send(A, B, 50, 8);
    net.settle();
    net.assert_got(B, recv, 50, 8);
}

#[test]
fn closing_receiver_calls_the_refused_again() {
    let mut net = tight(4);
    let reqs = one_by_one(&mut net, 0..8, 8);
    net.run_for(10 * MS);
    let now = net.now;
    net.ep(B).close(now);
    net.settle();
    assert_eq!(net.closed(B), Some(true));
    for req in reqs {
        let end = net.sent(A, req).expect("ended");
        assert!(matches!(end, Ok(()) | Err(Failure::Closed)), "{end:?}");
    }
}

#[test]
fn more_receives_than_may_be_asked_about_are_all_satisfied() {
    let mut net = tight(4);
    one_by_one(&mut net, 0..4, 8);
    for tag in 100..140 {
        net.send(A, B, tag, 8);
        net.run_for(US);
    }
    net.run_for(10 * MS);
    let mut recvs: Vec<(u64, Recv)> = vec![];
    for tag in (100..140).rev() {
        recvs.push((tag, net.recv(B, tagged(tag), 8)));
    }
    net.settle();
    for (tag, recv) in recvs {
        net.assert_got(B, recv, tag, 8);
    }
}

#[test]
fn sender_that_cancels_is_not_sure_and_does_not_answer() {
    let mut net = tight(4);
    let reqs = one_by_one(&mut net, 0..8, 8);
    net.send(A, B, 1000, 8);
    net.run_for(10 * MS);
    net.drop_each(A, Kind::Cancel);
    assert!(net.nodes[A].ep.cancel(net.now, reqs[5]));
    net.run_for(MS);
    net.log.clear();
    let recv = net.recv(B, tagged(1000), 8);
    net.run_for(20 * MS);
    assert!(net.seen(B, Kind::Query) > 0);
    assert_eq!(net.seen(A, Kind::Found), 0);
    net.heal();
    net.settle();
    net.assert_got(B, recv, 1000, 8);
}

#[test]
fn answer_that_comes_after_the_recall_binds_nothing() {
    let mut net = tight(4);
    one_by_one(&mut net, 0..8, 8);
    net.send(A, B, 1000, 8);
    net.run_for(10 * MS);
    net.hold_next(A, Kind::Found);
    let wanted = net.recv(B, tagged(1000), 8);
    net.run_until(|net| net.held_count() > 0);
    net.rule(usize::MAX, |s| s.from == A && s.has(Kind::Found), Fate::Drop);
    for tag in 0..8 {
        let recv = net.recv(B, tagged(tag), 8);
        net.run_until(|net| net.got(B, recv).is_some());
    }
    net.run_until(|net| net.got(B, wanted).is_some());
    net.release();
    net.heal();
    net.settle();
    net.assert_got(B, wanted, 1000, 8);
    let last = net.recv(B, tagged(7), 8);
    net.send(A, B, 7, 8);
    net.settle();
    net.assert_got(B, last, 7, 8);
}

#[test]
fn fragmented_message_is_pulled_from_its_start() {
    // Part of it was under way when it was refused.
    let plan = Plan::with(|_, limits| limits.held_len_max = 40_000);
    let mut net = Net::of(&[Plan::default(), plan]);
    net.join(A, B);
    net.settle();
    net.send(A, B, 1, 30_000);
    net.send(A, B, 2, 30_000);
    net.run_for(10 * MS);
    assert!(net.count(B, "refusals") > 0);
    let recv = net.recv(B, tagged(2), 30_000);
    net.settle();
    net.assert_got(B, recv, 2, 30_000);
    assert_eq!(net.count(B, "queries_found"), 1);
    let first = net.recv(B, tagged(1), 30_000);
    net.assert_got(B, first, 1, 30_000);
}
