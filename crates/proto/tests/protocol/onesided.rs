//! PROTOCOL §11: put, get, atomic; who may; what happens when something is lost, cancelled, withdrawn or gone.

mod several;

use packhorse_proto::wire::{Action, Record, RequestHead};
use packhorse_proto::*;

use crate::net::*;

const KEY: u64 = 77;
/// Every way a length can go: nothing, one record, one frame, several requests, by grants.
const LENS: [usize; 9] = [0, 1, 8, 1024, 1400, 1500, 10_000, 32 << 10, 300_000];

/// Where nothing was put everything is as it was.
#[track_caller]
fn assert_untouched(bytes: &[u8]) {
    assert!(bytes.iter().all(|&byte| byte == 0xEE), "touched");
}

#[test]
fn a_put_of_any_length_lands_in_its_place_and_nowhere_else() {
    for train_count_max in [0, 16] {
        let mut net = Net::joined();
        net.train_count_max = train_count_max;
        let (_, buf) = net.expose(B, KEY, 400_000);
        for (tag, len) in (1..).zip(LENS) {
            let put = net.put((A, B), KEY, 100, (tag, len), None);
            net.settle();
            assert_eq!(net.operated(A, put.req), Some(Ok(())), "{len}");
            let bytes = net.bytes(B, buf);
            assert!(bytes[100..100 + len] == pattern(tag, len), "{len}");
            assert_untouched(&bytes[..100]);
            assert_untouched(&bytes[300_100..]);
        }
        assert_eq!(net.written(B), [], "nobody asked to be told");
    }
}

#[test]
fn a_get_of_any_length_brings_what_is_there() {
    for train_count_max in [0, 16] {
        let mut net = Net::joined();
        net.train_count_max = train_count_max;
        net.expose(B, KEY, 400_000);
        let put = net.put((A, B), KEY, 0, (5, 400_000), None);
        net.settle();
        assert_eq!(net.operated(A, put.req), Some(Ok(())));
        for len in LENS {
            let get = net.get((A, B), KEY, 1000, len);
            net.settle();
            assert_eq!(net.operated(A, get.req), Some(Ok(())), "{len}");
            assert!(net.bytes(A, get.buf) == &pattern(5, 400_000)[1000..1000 + len], "{len}");
        }
    }
}

/// Where all is to be told, each operation is told once, when it is done, whatever its length; what was denied is not.
#[test]
fn what_peers_do_is_told_once_each() {
    for is_lossy in [false, true] {
        let mut net = Net::joined();
        net.expose(B, KEY, 400_000);
        for (tag, len) in (1..).zip(LENS) {
            if is_lossy {
                net.drop_next(A, Kind::Request);
                net.drop_next(B, Kind::Reply);
            }
            let put = net.put((A, B), KEY, 100, (tag, len), None);
            let get = net.get((A, B), KEY, 50, len);
            net.settle();
            let done = (net.operated(A, put.req), net.operated(A, get.req));
            assert_eq!(done, (Some(Ok(())), Some(Ok(()))), "{len}");
            let told = net.used(B);
            for told_of in [
                (KEY, OperationKind::Put, 100, len as u64),
                (KEY, OperationKind::Get, 50, len as u64),
            ] {
                assert_eq!(told.iter().filter(|&&it| it == told_of).count(), 1, "{told_of:?}");
            }
        }
        net.fetch_add((A, B), KEY, 8, 1);
        net.put((A, B), KEY + 1, 0, (1, 8), None);
        net.put((A, B), KEY, 400_000, (1, 8), None);
        net.settle();
        assert_eq!(net.used(B).len(), 2 * LENS.len() + 1);
        assert_eq!(net.used(B).last(), Some(&(KEY, OperationKind::Atomic, 8, 8)));
    }
}

#[test]
fn a_small_put_and_a_small_get_take_a_frame_each_way() {
    let mut net = Net::joined();
    net.expose(B, KEY, 4096);
    net.log.clear();
    let put = net.put((A, B), KEY, 0, (1, 8), None);
    net.run_for(RTT_NS);
    assert_eq!(net.operated(A, put.req), Some(Ok(())), "a round trip");
    let frames: Vec<_> = net.log.iter().map(|sight| (sight.from, sight.says())).collect();
    assert_eq!(frames, [(A, vec![Kind::Request]), (B, vec![Kind::Ack, Kind::Reply])]);
    net.run_for(MS);
    net.log.clear();
    let get = net.get((A, B), KEY, 0, 8);
    net.run_for(RTT_NS);
    assert_eq!(net.operated(A, get.req), Some(Ok(())));
    let says = |from| net.log.iter().filter(move |sight| sight.from == from);
    assert_eq!((says(A).count(), says(B).count()), (1, 1));
}

#[test]
fn an_immediate_is_told_when_everything_is_in_its_place() {
    let mut net = Net::joined();
    net.expose(B, KEY, 400_000);
    let mut told = vec![];
    for (immediate, len) in (1..).zip(LENS) {
        net.put((A, B), KEY, 7, (1, len), Some(immediate));
        net.settle();
        told.push((KEY, 7, len as u64, immediate));
    }
    assert_eq!(net.written(B), told);
}

#[test]
fn atomics_fetch_what_was_there_and_leave_what_was_computed() {
    let mut net = Net::joined();
    let (_, buf) = net.expose(B, KEY, 64);
    let before = net.number_at(B, buf, 16);
    let adds: Vec<Recv> = (0..20).map(|_| net.fetch_add((A, B), KEY, 16, 3)).collect();
    net.settle();
    for (at, add) in (0..).zip(adds) {
        assert_eq!(net.operated(A, add.req), Some(Ok(())));
        assert_eq!(net.number_at(A, add.buf, 0), before.wrapping_add(3 * at), "in their order");
    }
    assert_eq!(net.number_at(B, buf, 16), before.wrapping_add(60));
    assert_untouched(&net.bytes(B, buf)[..16]);
    assert_untouched(&net.bytes(B, buf)[24..]);
}

#[test]
fn compare_and_swap_compares_and_a_read_changes_nothing() {
    let mut net = Net::joined();
    let (_, buf) = net.expose(B, KEY, 64);
    let at = net.remote(A, B, KEY, 8);
    let there = net.number_at(B, buf, 8).to_le_bytes();
    let spec = AtomicSpec {
        at,
        op: AtomicOp::Cswap,
        datatype: Datatype::U64,
        len: 8,
        operand: &5_u64.to_le_bytes(),
        compare: &4_u64.to_le_bytes(),
        result: None,
        user: 0,
    };
    let now = net.now;
    let missed = net.ep(A).atomic(now, spec).expect("posted");
    let taken = net.ep(A).atomic(now, AtomicSpec { compare: &there, ..spec }).expect("posted");
    let read = AtomicSpec { op: AtomicOp::Read, operand: &[], compare: &[], ..spec };
    let read = net.ep(A).atomic(now, read).expect("posted");
    net.settle();
    assert!([missed, taken, read].into_iter().all(|req| net.operated(A, req) == Some(Ok(()))));
    assert_eq!(net.number_at(B, buf, 8), 5);
    let bad = AtomicSpec { op: AtomicOp::Min, datatype: Datatype::C64, ..spec };
    assert_eq!(net.ep(A).atomic(now, bad), Err(PostError::BadAtomic));
    let bad = AtomicSpec { compare: &[], ..spec };
    assert_eq!(net.ep(A).atomic(now, bad), Err(PostError::BadAtomic));
}

#[test]
fn what_is_not_permitted_is_told_and_touches_nothing() {
    for len in LENS {
        let mut net = Net::joined();
        let (_, all) = net.expose(B, KEY, 400_000);
        let (_, read) = net.expose_as(B, 1, 400_000, Access::READ, Permitted::Any);
        let (_, write) = net.expose_as(B, 2, 400_000, Access::WRITE, Permitted::Any);
        let (_, closed) = net.expose_as(B, 3, 400_000, Access::ALL, Permitted::Only(vec![]));
        let beyond = 400_001 - len as u64;
        let table = [
            (net.put((A, B), 9, 0, (1, len), Some(4)), Denial::NoKey),
            (net.put((A, B), KEY, beyond, (1, len), Some(4)), Denial::Range),
            (net.put((A, B), KEY, u64::MAX, (1, len.max(1)), Some(4)), Denial::Range),
            (net.put((A, B), 1, 0, (1, len), Some(4)), Denial::Access),
            (net.put((A, B), 3, 0, (1, len), Some(4)), Denial::NoKey),
            (net.get((A, B), 9, 0, len), Denial::NoKey),
            (net.get((A, B), KEY, beyond, len), Denial::Range),
            (net.get((A, B), 2, 0, len), Denial::Access),
            (net.fetch_add((A, B), 2, 0, 1), Denial::Access),
            (net.fetch_add((A, B), 1, 0, 1), Denial::Access),
            (net.fetch_add((A, B), KEY, 400_000 - 7, 1), Denial::Range),
        ];
        net.settle();
        for (at, (asked, denial)) in table.into_iter().enumerate() {
            let denied = Some(Err(Failure::Denied(denial)));
            assert_eq!(net.operated(A, asked.req), denied, "{at} of {len} bytes");
        }
        [all, read, write, closed].iter().for_each(|&buf| assert_untouched(net.bytes(B, buf)));
        assert_eq!(net.written(B), []);
        let good = net.get((A, B), KEY, 0, 8);
        net.settle();
        assert_eq!(net.operated(A, good.req), Some(Ok(())), "and life goes on");
    }
}

#[test]
fn a_region_for_named_peers_is_for_those_the_application_named() {
    let mut net = Net::new(2);
    net.expose_as(B, KEY, 64, Access::ALL, Permitted::Named);
    let stranger = net.put((A, B), KEY, 0, (1, 8), None);
    net.settle();
    let denied = Some(Err(Failure::Denied(Denial::NoKey)));
    assert_eq!(net.operated(A, stranger.req), denied, "it introduced itself");
    net.peer(B, A);
    let named = net.put((A, B), KEY, 0, (1, 8), None);
    net.settle();
    assert_eq!(net.operated(A, named.req), Some(Ok(())));
}

#[test]
fn a_forgotten_peer_leaves_its_permission_to_nobody() {
    let mut net = Net::new(3);
    let a = net.peer(B, A);
    net.expose_as(B, KEY, 64, Access::ALL, Permitted::Only(vec![a]));
    let permitted = net.put((A, B), KEY, 0, (1, 8), None);
    net.settle();
    assert_eq!(net.operated(A, permitted.req), Some(Ok(())));
    let now = net.now;
    net.ep(B).forget_peer(now, a);
    net.settle();
    let c = net.peer(B, C);
    assert!(c.row() == a.row() && c != a, "the row is used again, its name is not");
    let heir = net.put((C, B), KEY, 0, (1, 8), None);
    net.settle();
    assert_eq!(net.operated(C, heir.req), Some(Err(Failure::Denied(Denial::NoKey))));
}

#[test]
fn a_region_never_shows_what_was_meant_for_another_place() {
    let mut net = Net::new(3);
    net.train_count_max = 16;
    let (_, buf) = net.expose(B, KEY, 300_000);
    net.drop_each(A, Kind::Data); // it asks for grants and sends nothing
    let put = net.put((A, B), KEY, 0, (1, 300_000), None);
    net.run_for(50 * RTT_NS);
    assert!(net.seen(B, Kind::Grant) > 0);
    let recv = net.recv(B, tagged(7), 300_000);
    net.send(C, B, 7, 300_000);
    net.run_for(SECOND);
    net.assert_got(B, recv, 7, 300_000);
    assert_untouched(net.bytes(B, buf));
    assert_eq!(net.operated(A, put.req), None);
}

#[test]
fn a_first_contact_may_be_one_sided() {
    let mut net = Net::new(2);
    let (_, buf) = net.expose(B, KEY, 400_000);
    let puts = [8, 5000, 300_000].map(|len| net.put((A, B), KEY, 0, (2, len), None));
    net.settle();
    assert!(puts.iter().all(|put| net.operated(A, put.req) == Some(Ok(()))));
    assert!(net.bytes(B, buf)[..300_000] == pattern(2, 300_000));
}

#[test]
fn an_endpoint_reaches_its_own_memory() {
    let mut net = Net::new(1);
    let (_, buf) = net.expose(A, KEY, 400_000);
    for len in LENS {
        let put = net.put((A, A), KEY, 0, (3, len), None);
        net.settle();
        let get = net.get((A, A), KEY, 0, len);
        net.settle();
        assert_eq!(net.operated(A, put.req), Some(Ok(())), "{len}");
        assert_eq!(net.operated(A, get.req), Some(Ok(())), "{len}");
        assert!(net.bytes(A, get.buf) == pattern(3, len));
    }
    let before = net.number_at(A, buf, 8);
    let add = net.fetch_add((A, A), KEY, 8, 1);
    net.settle();
    assert_eq!(net.number_at(A, add.buf, 0), before);
    assert_eq!(net.number_at(A, buf, 8), before.wrapping_add(1));
}

#[test]
fn requests_are_carried_out_once_and_in_order_whatever_is_lost_or_doubled() {
    let kinds = [Kind::Request, Kind::Reply, Kind::Ack];
    for fate in 0..5 {
        for (from, kind) in [A, B].into_iter().flat_map(|node| kinds.map(|kind| (node, kind))) {
            let mut net = Net::joined();
            let (_, buf) = net.expose(B, KEY, 64);
            let before = net.number_at(B, buf, 0);
            let mut asked = vec![];
            for round in 0..6 {
                if round == 1 {
                    match fate {
                        0 => net.drop_next(from, kind),
                        1 => net.double_next(from, kind),
                        2 => net.delay_next(from, kind, 3 * MS),
                        3 => net.delay_next(from, kind, 300 * MS),
                        _ => net.rule(3, move |s| s.from == from && s.has(kind), Fate::Drop),
                    }
                }
                asked.push(net.fetch_add((A, B), KEY, 0, 1));
                net.run_for(30 * US);
            }
            net.settle();
            for (at, add) in (0..).zip(asked) {
                assert_eq!(net.operated(A, add.req), Some(Ok(())), "fate {fate} of {kind:?}");
                assert_eq!(net.number_at(A, add.buf, 0), before.wrapping_add(at));
            }
            assert_eq!(net.number_at(B, buf, 0), before.wrapping_add(6), "each once");
        }
    }
}

#[test]
fn a_late_copy_of_a_put_does_not_undo_a_later_one() {
    let mut net = Net::joined();
    let (_, buf) = net.expose(B, KEY, 64);
    net.hold_next(A, Kind::Request); // taken for lost, and sent again
    let first = net.put((A, B), KEY, 0, (1, 16), None);
    net.settle();
    assert_eq!(net.operated(A, first.req), Some(Ok(())));
    let second = net.put((A, B), KEY, 0, (2, 16), None);
    net.settle();
    assert_eq!(net.operated(A, second.req), Some(Ok(())));
    net.release();
    net.settle();
    assert!(net.bytes(B, buf)[..16] == pattern(2, 16));
}

#[test]
fn a_lost_answer_is_given_again_and_nothing_is_done_again() {
    let mut net = Net::joined();
    let (_, buf) = net.expose(B, KEY, 64);
    let before = net.number_at(B, buf, 0);
    net.rule(4, |sight| sight.from == B, Fate::Drop);
    let add = net.fetch_add((A, B), KEY, 0, 1);
    net.settle();
    assert_eq!(net.operated(A, add.req), Some(Ok(())));
    assert_eq!((net.number_at(A, add.buf, 0), net.number_at(B, buf, 0)), (before, before + 1));
    assert_eq!(net.count(B, "requests_in"), 1);
}

#[test]
fn a_get_shows_what_was_there_in_its_turn() {
    let mut net = Net::joined();
    net.expose(B, KEY, 64);
    net.put((A, B), KEY, 0, (1, 16), None);
    let get = net.get((A, B), KEY, 0, 16);
    net.drop_next(B, Kind::Reply);
    net.put((A, B), KEY, 0, (2, 16), None);
    net.settle();
    assert_eq!(net.operated(A, get.req), Some(Ok(())));
    assert!(net.bytes(A, get.buf) == pattern(1, 16), "not what was put behind it");
}

#[test]
fn large_transfers_survive_the_loss_of_anything_once() {
    let kinds = [Kind::Request, Kind::Reply, Kind::Grant, Kind::Data, Kind::Ack, Kind::End];
    for (from, kind) in [A, B].into_iter().flat_map(|node| kinds.map(|kind| (node, kind))) {
        let mut net = Net::joined();
        let (_, buf) = net.expose(B, KEY, 200_000);
        net.drop_next(from, kind);
        let put = net.put((A, B), KEY, 0, (4, 200_000), Some(1));
        net.settle();
        assert_eq!(net.operated(A, put.req), Some(Ok(())), "{from} {kind:?}");
        assert!(net.bytes(B, buf) == pattern(4, 200_000));
        net.heal();
        net.drop_next(from, kind);
        let get = net.get((A, B), KEY, 0, 200_000);
        net.settle();
        assert_eq!(net.operated(A, get.req), Some(Ok(())), "{from} {kind:?}");
        assert!(net.bytes(A, get.buf) == pattern(4, 200_000));
        assert_eq!(net.written(B).len(), 1);
    }
}

#[test]
fn a_grant_that_overtakes_its_get_is_not_lost() {
    let mut net = Net::joined();
    net.expose(B, KEY, 200_000);
    net.delay_next(A, Kind::Request, 200 * US);
    net.put((A, B), KEY, 0, (4, 64), None); // late: the get behind it must wait for its turn
    net.run_for(US);
    let get = net.get((A, B), KEY, 0, 200_000);
    net.run_for(20 * RTT_NS);
    assert_eq!(net.operated(A, get.req), Some(Ok(())));
}

#[test]
fn a_cancelled_operation_gives_its_memory_back_at_once() {
    for delay in [0, 1, 60, 150, 400] {
        let mut net = Net::joined();
        let (_, buf) = net.expose(B, KEY, 400_000);
        let get = net.get((A, B), KEY, 0, 300_000);
        let put = net.put((A, B), KEY, 0, (1, 300_000), None);
        let small = net.put((A, B), KEY, 350_000, (1, 10_000), None);
        let add = net.fetch_add((A, B), KEY, 399_000, 1);
        net.run_for(delay * US);
        for asked in [get, put, small, add] {
            if net.cancel(A, asked.req, asked.buf) {
                assert_eq!(net.operated(A, asked.req), Some(Err(Failure::Cancelled)));
            }
            assert!(!net.nodes[A].ep.cancel(Instant(0), asked.req), "it is over");
        }
        net.settle();
        let last = net.put((A, B), KEY, 0, (7, 100), None);
        net.settle();
        assert_eq!(net.operated(A, last.req), Some(Ok(())), "numbers go on, after {delay}");
        assert!(net.bytes(B, buf)[..100] == pattern(7, 100));
    }
}

#[test]
fn a_put_is_told_of_even_if_its_target_rested_between_two_parts() {
    let mut net = Net::joined();
    net.expose(B, KEY, 40_000);
    let is_last = |sight: &Sight| {
        let parts = sight.view().records().any(|(record, _)| match record {
            Record::Request(head) => {
                matches!(head.action, Action::Part { immediate: Some(_), .. })
            }
            _ => false,
        });
        sight.from == A && parts
    };
    net.drop_where(is_last);
    net.put((A, B), KEY, 0, (1, 9_000), Some(5));
    net.run_for(5 * SECOND);
    assert_eq!(net.written(B), []);
    net.heal();
    net.settle();
    assert_eq!(net.written(B), [(KEY, 0, 9_000, 5)]);
}

#[test]
fn nobody_is_told_of_a_put_of_which_a_part_was_cancelled() {
    let mut net = Net::joined();
    net.expose(B, KEY, 40_000);
    net.drop_next(A, Kind::Request); // the first parts
    let put = net.put((A, B), KEY, 0, (1, 9_000), Some(5));
    net.run_for(DELAY_NS + US); // the last one is there, before its turn
    assert!(net.cancel(A, put.req, put.buf));
    net.settle();
    assert_eq!(net.written(B), []);
    net.put((A, B), KEY, 0, (2, 9_000), Some(6));
    net.settle();
    assert_eq!(net.written(B), [(KEY, 0, 9_000, 6)], "the next is told of");
}

#[test]
fn a_withdrawn_region_is_not_touched_any_more() {
    for delay in [0, 60, 150, 250, 400] {
        let mut net = Net::joined();
        let (region, buf) = net.expose(B, KEY, 400_000);
        net.expose(B, KEY + 1, 400_000);
        let get = net.get((A, B), KEY, 0, 300_000);
        let put = net.put((A, B), KEY, 0, (1, 300_000), None);
        let other_get = net.get((A, B), KEY + 1, 0, 300_000);
        let other_put = net.put((A, B), KEY + 1, 0, (2, 300_000), None);
        net.run_for(delay * US);
        net.withdraw(B, region, buf); // the test's memory fails if it is touched from here on
        net.settle();
        for asked in [get, put] {
            let end = net.operated(A, asked.req).expect("ended");
            let is_denied = |denial| end == Err(Failure::Denied(denial));
            assert!(is_denied(Denial::Withdrawn) || is_denied(Denial::NoKey), "{end:?}");
        }
        for asked in [other_get, other_put] {
            assert_eq!(net.operated(A, asked.req), Some(Ok(())), "the other region is there");
        }
        assert_eq!(net.ep(B).served(), (0, 0), "nothing is kept for it");
        net.expose(B, KEY, 100); // the key is free again
    }
}

#[test]
fn a_peer_that_is_forgotten_takes_only_its_own_transfers_along() {
    let mut net = Net::new(3);
    net.expose(B, KEY, 400_000);
    let asked = [A, C].map(|node| net.get((node, B), KEY, 0, 300_000));
    net.run_until(|net| net.seen(A, Kind::Grant) > 0 && net.seen(C, Kind::Grant) > 0);
    let (now, peer) = (net.now, net.peer(B, A));
    net.ep(B).forget_peer(now, peer);
    net.run_for(10 * SECOND);
    assert_eq!(net.operated(C, asked[1].req), Some(Ok(())));
    assert!(net.operated(A, asked[0].req).is_some_and(|end| end.is_err()));
}

#[test]
fn operations_end_with_an_error_when_the_peer_is_gone() {
    let mut net = Net::joined();
    net.expose(B, KEY, 400_000);
    net.kill(B);
    let asked = [
        net.put((A, B), KEY, 0, (1, 8), None),
        net.put((A, B), KEY, 0, (1, 300_000), None),
        net.get((A, B), KEY, 0, 300_000),
        net.fetch_add((A, B), KEY, 0, 1),
    ];
    net.settle();
    net.run_for(200 * SECOND);
    let gone = Some(Err(Failure::Gone(GoneReason::Silent)));
    assert!(asked.iter().all(|asked| net.operated(A, asked.req) == gone));
}

#[test]
fn a_restarted_target_ends_what_was_asked_of_its_former_life() {
    let mut net = Net::joined();
    net.expose(B, KEY, 400_000);
    let asked = [net.put((A, B), KEY, 0, (1, 300_000), None), net.get((A, B), KEY, 0, 300_000)];
    net.run_for(3 * DELAY_NS);
    net.restart(B);
    net.settle();
    for asked in asked {
        assert!(matches!(net.operated(A, asked.req), Some(Err(Failure::Gone(_)))));
    }
    net.expose(B, KEY, 64);
    let again = net.put((A, B), KEY, 0, (1, 64), None);
    net.settle();
    assert_eq!(net.operated(A, again.req), Some(Ok(())));
}

#[test]
fn closing_waits_for_operations_and_for_answers() {
    let mut net = Net::joined();
    net.expose(B, KEY, 400_000);
    let put = net.put((A, B), KEY, 0, (1, 300_000), None);
    let now = net.now;
    net.ep(A).close(now);
    net.settle();
    assert_eq!(net.operated(A, put.req), Some(Ok(())));
    assert_eq!(net.closed(A), Some(true));

    let mut net = Net::joined();
    let (_, buf) = net.expose(B, KEY, 64);
    net.drop_next(B, Kind::Reply);
    let add = net.fetch_add((A, B), KEY, 0, 1);
    net.run_for(3 * DELAY_NS / 2);
    let now = net.now;
    net.ep(B).close(now);
    net.settle();
    assert_eq!(net.operated(A, add.req), Some(Ok(())), "it was done, and it is told");
    assert_eq!(net.number_at(B, buf, 0), 0xEEEE_EEEE_EEEE_EEEF);
}

#[test]
fn operations_do_not_wait_behind_refused_messages() {
    let tight = Plan::with(|_, limits| limits.envelope_count_max = 4);
    let mut net = Net::of(&[Plan::default(), tight]);
    net.join(A, B);
    net.expose(B, KEY, 400_000);
    for tag in 0..20 {
        net.send(A, B, tag, 100);
    }
    net.settle();
    assert!(net.count(B, "refusals") > 0);
    let asked = [
        net.put((A, B), KEY, 0, (1, 300_000), None),
        net.put((A, B), KEY, 0, (1, 100), None),
        net.get((A, B), KEY, 0, 300_000),
        net.fetch_add((A, B), KEY, 0, 1),
    ];
    net.settle();
    assert!(asked.iter().all(|asked| net.operated(A, asked.req) == Some(Ok(()))));
}

#[test]
fn what_a_target_holds_is_bounded() {
    let tight = Plan::with(|_, limits| {
        limits.request_count_max = 3;
        limits.result_len_max = 1024;
    });
    let mut net = Net::of(&[Plan::default(), tight]);
    net.join(A, B);
    let (_, buf) = net.expose(B, KEY, 400_000);
    let before = net.number_at(B, buf, 0);
    let adds: Vec<Recv> = (0..50).map(|_| net.fetch_add((A, B), KEY, 0, 1)).collect();
    let gets: Vec<Recv> = (0..10).map(|at| net.get((A, B), KEY, 100 * at, 2000)).collect();
    net.settle();
    for (at, add) in (0..).zip(adds) {
        assert_eq!(net.operated(A, add.req), Some(Ok(())));
        assert_eq!(net.number_at(A, add.buf, 0), before.wrapping_add(at));
    }
    assert!(gets.iter().all(|get| net.operated(A, get.req) == Some(Ok(()))));
}

#[test]
fn many_operations_take_turns_within_their_bound() {
    let mut net = Net::joined();
    let (_, buf) = net.expose(B, KEY, 8 * 3000);
    let puts: Vec<Recv> = (0..3000).map(|at| net.put((A, B), KEY, 8 * at, (at, 8), None)).collect();
    net.settle();
    for (at, put) in (0..).zip(puts) {
        assert_eq!(net.operated(A, put.req), Some(Ok(())));
        assert!(net.bytes(B, buf)[8 * at as usize..][..8] == pattern(at, 8));
    }
}

#[test]
fn a_put_fits_the_shortest_frames() {
    let mut net = Net::joined();
    let (_, buf) = net.expose(B, KEY, 4096);
    net.drop_where(|sight| sight.bytes.len() > 1300); // long frames do not pass from now on
    let put = net.put((A, B), KEY, 0, (6, 1400), Some(9));
    net.settle();
    assert_eq!(net.operated(A, put.req), Some(Ok(())));
    assert!(net.bytes(B, buf)[..1400] == pattern(6, 1400));
    assert_eq!(net.written(B), [(KEY, 0, 1400, 9)], "told once");
}

#[test]
fn copied_payload_is_free_on_return() {
    let mut net = Net::joined();
    let (_, buf) = net.expose(B, KEY, 4096);
    let to = net.remote(A, B, KEY, 0);
    for len in [0, 9, 3000] {
        let bytes = pattern(3, len);
        let spec = PutSpec { to, payload: Payload::Copied(&bytes), immediate: None, user: 0 };
        let now = net.now;
        let req = net.ep(A).put(now, spec).expect("posted");
        drop(bytes);
        net.settle();
        assert_eq!(net.operated(A, req), Some(Ok(())));
        assert!(net.bytes(B, buf)[..len] == pattern(3, len));
    }
}

#[test]
fn forged_requests_and_answers_do_no_harm() {
    let mut net = Net::joined();
    let (_, buf) = net.expose(B, KEY, 4096);
    let put = net.put((A, B), KEY, 0, (1, 8), None);
    net.settle();
    assert_eq!(net.operated(A, put.req), Some(Ok(())));
    let atomic = |op, datatype, total| Action::Atomic { op, datatype, fetch: true, total, len: 8 };
    let actions = [
        atomic(200, 7, 8),
        atomic(2, 99, 8),
        atomic(2, 7, 4),
        atomic(2, 7, u32::MAX),
        atomic(12, 7, 8), // compares, and has nothing to compare with
        Action::Put { immediate: None, len: 8 },
        Action::Part { offset: u32::MAX - 8, total: u32::MAX, immediate: None, len: 8 },
    ];
    for (number, action) in (1..).zip(actions) {
        let head = RequestHead { number, key: KEY, target: u64::MAX - 3, action };
        net.forge(A, B, |writer| writer.request(&head), &[9; 8]);
        net.settle();
    }
    for far in [5000, 1 << 31, u32::MAX] {
        let action = Action::Get { total: u64::MAX };
        let head = RequestHead { number: far, key: KEY, target: 0, action };
        net.forge(A, B, |writer| writer.request(&head), &[]);
        net.forge(A, B, |writer| writer.end(far), &[]);
        net.forge(B, A, |writer| writer.replied(far, u16::MAX), &[]);
        net.forge(B, A, |writer| writer.reply(far, 0, 4), &[1; 4]);
        net.settle();
    }
    assert!(net.bytes(B, buf)[..8] == pattern(1, 8));
    assert_untouched(&net.bytes(B, buf)[8..]);
    let is_reply =
        |record: &Record<'_>| matches!(record, Record::Reply { status, .. } if *status > 0);
    let denied = net.sights(B, Kind::Reply).into_iter();
    let denied =
        denied.flat_map(|sight| sight.view().records().map(|(r, _)| r).collect::<Vec<_>>());
    assert_eq!(denied.filter(is_reply).count(), 7, "each is answered");
}

/// PROTOCOL §3.20: at an endpoint whose address is given to whoever asks, having it opens no memory.
#[test]
fn who_found_an_endpoint_may_not_use_its_memory_unless_everybody_may() {
    for given in [0, 1, 2] {
        let plan = Plan::with(move |settings, _| {
            settings.is_found = given == 1;
            settings.open_to_strangers = given == 2;
        });
        let mut net = Net::of(&[Plan::default(), plan]);
        net.expose_as(B, 1, 8, Access::ALL, Permitted::Any);
        net.expose_as(B, 2, 8, Access::ALL, Permitted::Everybody);
        let put = |net: &mut Net, key| {
            let put = net.put((A, B), key, 0, (5, 8), None);
            net.settle();
            net.operated(A, put.req)
        };
        let denied = Some(Err(Failure::Denied(Denial::NoKey)));
        let expected = if given == 0 { Some(Ok(())) } else { denied };
        assert_eq!(put(&mut net, 1), expected, "given {given}");
        assert_eq!(put(&mut net, 2), Some(Ok(())), "everybody, {given}");
        net.peer(B, A);
        assert_eq!(put(&mut net, 1), Some(Ok(())), "B named it, {given}");
    }
}
