//! PROTOCOL §8.4, second half: of one peer's large messages the earlier is granted to its end before the next begins.
//!
//! What is looked at is the order of grants as they leave, and of ends. The budget is that of two grants, so that the
//! receiver has to choose.

use packhorse_proto::wire::Record;
use packhorse_proto::*;

use crate::net::*;

/// Length of the messages: some twenty grants.
const LEN: usize = 400_000;
/// Bytes that come with an announcement, and are not granted.
const FIRST_LEN: usize = 1472 - 24 - 24;
/// Granted at once at most: two grants of sixteen frames.
const BUDGET: usize = 2 * 16 * (1472 - 24 - 16);

fn tight(policy: GrantPolicy) -> Plan {
    Plan::with(|settings, limits| {
        settings.grant_policy = policy;
        limits.grant_len_max = BUDGET as u64;
    })
}

/// Two nodes that know each other, the log empty.
fn pair(policy: GrantPolicy) -> Net {
    let mut net = Net::of(&vec![tight(policy); 2]);
    net.join(A, B);
    net.settle();
    net.log.clear();
    net
}

/// The messages `B` granted, one number per run of grants for the same one.
fn runs(net: &Net) -> Vec<u32> {
    let mut runs = vec![];
    for sight in net.sights(B, Kind::Grant) {
        for (record, _) in sight.view().records() {
            if let Record::Grant { message, .. } = record {
                runs.push(message);
            }
        }
    }
    runs.dedup();
    runs
}

/// Receives and sends messages of these lengths from `A` to `B`, tagged by their place.
fn send_all(net: &mut Net, lens: &[usize]) -> (Vec<Recv>, Vec<(ReqId, BufId)>) {
    let recvs = (0..).zip(lens).map(|(tag, &len)| net.recv(B, tagged(tag), len)).collect();
    let sends = (0..).zip(lens).map(|(tag, &len)| {
        let spec = net.spec(A, B, tag, len);
        let Payload::InPlace { buf, .. } = spec.payload else { panic!("sent from a buffer") };
        (net.post(A, spec), buf)
    });
    let sends = sends.collect();
    (recvs, sends)
}

/// The order in which receives end, by their place.
fn order_of_ends(net: &mut Net, recvs: &[Recv]) -> Vec<usize> {
    let mut ended = vec![];
    while ended.len() < recvs.len() {
        net.run_until(|net| {
            (0..recvs.len()).any(|at| !ended.contains(&at) && net.got(B, recvs[at]).is_some())
        });
        for (at, &recv) in recvs.iter().enumerate() {
            if !ended.contains(&at) && net.got(B, recv).is_some() {
                ended.push(at);
            }
        }
    }
    ended
}

#[test]
fn equals_are_granted_one_after_the_other() {
    let mut net = pair(GrantPolicy::SmallestFirst);
    let (recvs, sends) = send_all(&mut net, &[LEN; 4]);
    assert_eq!(order_of_ends(&mut net, &recvs), [0, 1, 2, 3]);
    let runs = runs(&net);
    assert_eq!(runs.len(), 4, "each in one piece: {runs:?}");
    net.settle();
    for (tag, (&recv, &(send, _))) in recvs.iter().zip(&sends).enumerate() {
        net.assert_got(B, recv, tag as u64, LEN);
        assert_eq!(net.sent(A, send), Some(Ok(())));
    }
}

#[test]
fn plain_round_robin_takes_turns_among_one_peers_messages() {
    let mut net = pair(GrantPolicy::RoundRobin);
    let (recvs, _) = send_all(&mut net, &[LEN; 3]);
    net.run_until(|net| net.got(B, recvs[0]).is_some());
    let first = net.now;
    net.run_until(|net| recvs.iter().all(|&recv| net.got(B, recv).is_some()));
    assert!(net.now - first <= 4 * RTT_NS, "equals finish together");
    assert!(runs(&net).len() > 30, "{:?}", runs(&net));
}

#[test]
fn later_message_overtakes_if_it_is_less_than_half_of_what_remains() {
    let remaining = LEN - FIRST_LEN - BUDGET;
    for (wanted, overtakes) in [
        (remaining / 20, true),
        (remaining / 2 - 1, true),
        (remaining / 2, false),
        (remaining, false),
        (2 * remaining, false),
    ] {
        let mut net = pair(GrantPolicy::SmallestFirst);
        let lens = [LEN, wanted + FIRST_LEN];
        for (tag, len) in (0..).zip(lens) {
            net.send(A, B, tag, len);
        }
        net.settle(); // both are announced; what remains of the first at the second's match is then known
        let recvs = [0, 1].map(|tag| net.recv(B, tagged(tag), lens[tag as usize]));
        let ended = order_of_ends(&mut net, &recvs);
        assert_eq!(ended == [1, 0], overtakes, "{wanted} beside {remaining}: {ended:?}");
        for (tag, recv) in (0..).zip(recvs) {
            net.assert_got(B, recv, tag, lens[tag as usize]);
        }
    }
}

#[test]
fn overtaker_passes_the_turn_to_nobody() {
    let mut net = pair(GrantPolicy::SmallestFirst);
    let (recvs, _) = send_all(&mut net, &[LEN, LEN, 30_000, LEN]);
    assert_eq!(order_of_ends(&mut net, &recvs), [2, 0, 1, 3]);
    let numbers = runs(&net);
    let long: Vec<u32> = numbers.iter().copied().filter(|&number| number != 4).collect();
    let mut in_order = long.clone();
    in_order.sort_unstable();
    assert_eq!(
        long, in_order,
        "no long one begins before the one in front has all its grants: {numbers:?}"
    );
}

#[test]
fn cancel_of_the_one_being_granted_lets_the_next_begin() {
    for at_receiver in [true, false] {
        let mut net = pair(GrantPolicy::SmallestFirst);
        let (recvs, sends) = send_all(&mut net, &[LEN; 3]);
        net.run_until(|net| net.count(B, "bytes_placed") > LEN as u64 / 3);
        assert_eq!(runs(&net).len(), 1, "the first is on its way");
        let (ended, of_peer) = (Failure::Cancelled, Failure::CancelledByPeer);
        if at_receiver {
            assert!(net.cancel(B, recvs[0].req, recvs[0].buf));
        } else {
            assert!(net.cancel(A, sends[0].0, sends[0].1));
        }
        let since = net.now;
        net.run_until(|net| net.got(B, recvs[1]).is_some());
        assert!(net.now - since < 30 * RTT_NS, "{} ns: it began at once", net.now - since);
        net.settle();
        for tag in [1, 2] {
            net.assert_got(B, recvs[tag], tag as u64, LEN);
            assert_eq!(net.sent(A, sends[tag].0), Some(Ok(())));
        }
        let got = net.got(B, recvs[0]).unwrap().result;
        assert_eq!(got, Err(if at_receiver { ended } else { of_peer }));
        let sent = net.sent(A, sends[0].0).unwrap();
        assert_eq!(sent, Err(if at_receiver { of_peer } else { ended }));
    }
}

#[test]
fn cancel_of_one_that_waits_leaves_the_queue_whole() {
    for gone in [1, 2, 3] {
        for at_receiver in [true, false] {
            let mut net = pair(GrantPolicy::SmallestFirst);
            let (recvs, sends) = send_all(&mut net, &[LEN; 4]);
            net.run_until(|net| net.count(B, "bytes_placed") > LEN as u64 / 3);
            if at_receiver {
                assert!(net.cancel(B, recvs[gone].req, recvs[gone].buf));
            } else {
                assert!(net.cancel(A, sends[gone].0, sends[gone].1));
            }
            // One more joins the queue, wherever its end is now.
            let last = net.recv(B, tagged(9), LEN);
            net.send(A, B, 9, LEN);
            let mut left = recvs.clone();
            left[gone] = last;
            let mut order = vec![0, 1, 2, 3];
            order.retain(|&at| at != gone);
            order.push(gone);
            net.run_until(|net| net.got(B, recvs[gone]).is_some());
            assert_eq!(order_of_ends(&mut net, &left), order, "without {gone}");
            net.assert_got(B, last, 9, LEN);
            for at in (0..4).filter(|&at| at != gone) {
                net.assert_got(B, recvs[at], at as u64, LEN);
            }
            let granted = runs(&net);
            assert!(!granted.contains(&(gone as u32 + 2)), "{gone} was never granted: {granted:?}");
        }
    }
}

#[test]
fn peer_that_dies_takes_those_that_wait_with_it() {
    let mut net = pair(GrantPolicy::SmallestFirst);
    let (recvs, _) = send_all(&mut net, &[LEN, LEN, LEN, 100_000]);
    net.run_until(|net| net.count(B, "bytes_placed") > LEN as u64 / 3);
    net.kill(A);
    net.run_for(100 * SECOND);
    for &recv in &recvs {
        assert_eq!(net.got(B, recv).unwrap().result, Err(Failure::Gone(GoneReason::Silent)));
    }
    assert_eq!(net.ep(B).held(), (0, 0));
    // It comes back, and nothing of its former life stands in the queue.
    net.restart(A);
    let (recvs, _) = send_all(&mut net, &[LEN; 3]);
    assert_eq!(order_of_ends(&mut net, &recvs), [0, 1, 2]);
    for (tag, &recv) in recvs.iter().enumerate() {
        net.assert_got(B, recv, tag as u64, LEN);
    }
}

#[test]
fn peers_take_turns_though_each_ones_messages_do_not() {
    let mut net = Net::of(&vec![tight(GrantPolicy::SmallestFirst); 3]);
    let mut recvs = vec![];
    for (tag, from) in [(0, B), (1, B), (2, C), (3, C)] {
        recvs.push(net.recv(A, tagged(tag), LEN));
        net.send(from, A, tag, LEN);
    }
    net.run_until(|net| net.got(A, recvs[0]).is_some());
    let first = net.now;
    net.run_until(|net| net.got(A, recvs[2]).is_some());
    assert!(net.now - first <= 4 * RTT_NS, "the first of each finish together");
    assert_eq!((net.got(A, recvs[1]), net.got(A, recvs[3])), (None, None));
    net.settle();
    for (tag, &recv) in recvs.iter().enumerate() {
        net.assert_got(A, recv, tag as u64, LEN);
    }
}

#[test]
fn loss_does_not_change_the_order() {
    for kind in [Kind::Rts, Kind::Grant, Kind::Data, Kind::Done] {
        let mut net = pair(GrantPolicy::SmallestFirst);
        let from = if matches!(kind, Kind::Rts | Kind::Data) { A } else { B };
        net.drop_next(from, kind);
        let (recvs, sends) = send_all(&mut net, &[LEN; 3]);
        net.settle();
        assert_eq!(runs(&net).first(), Some(&2), "the first number");
        for (tag, &recv) in recvs.iter().enumerate() {
            net.assert_got(B, recv, tag as u64, LEN);
            assert_eq!(net.sent(A, sends[tag].0), Some(Ok(())), "{kind:?}");
        }
    }
}
