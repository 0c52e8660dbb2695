//! Several requests or several peers: answers told as one, requests that wait, a peer that is forgotten beside others.

use super::*;

#[test]
fn requests_carried_out_one_after_the_other_are_answered_as_one() {
    let mut net = Net::joined();
    net.expose(B, KEY, 1000);
    let puts: Vec<_> = (0..10).map(|n| net.put((A, B), KEY, 8 * n, (n, 8), None)).collect();
    net.settle();
    for put in puts {
        assert_eq!(net.operated(A, put.req), Some(Ok(())));
    }
    let mut answered = vec![];
    for sight in net.sights(B, Kind::Reply) {
        let view = sight.view();
        answered.extend(view.records().filter_map(|(record, _)| match record {
            Record::Replied { count, .. } => Some(count),
            _ => None,
        }));
    }
    assert_eq!(answered.iter().sum::<u16>(), 10);
    assert!(answered.len() < 10, "{answered:?}");
}

/// Whoever has no room for what he would be told holds back what tells him something, and nothing else.
#[test]
fn what_tells_the_target_waits_while_notices_are_held() {
    let mut net = Net::joined();
    net.expose(B, KEY, 1000);
    net.ep(B).hold_notices(true);
    let silent = net.put((A, B), KEY, 0, (1, 8), None);
    net.run_for(SECOND);
    assert_eq!(net.operated(A, silent.req), Some(Ok(())));
    let telling = net.put((A, B), KEY, 8, (2, 8), Some(6));
    net.run_for(SECOND);
    assert_eq!((net.operated(A, telling.req), net.written(B)), (None, vec![]));
    net.ep(B).hold_notices(false);
    net.settle();
    assert_eq!(net.operated(A, telling.req), Some(Ok(())));
    assert_eq!(net.written(B), [(KEY, 8, 8, 6)]);
}

#[test]
fn a_peer_that_is_forgotten_takes_only_its_own_puts_along() {
    let mut net = Net::new(3);
    let (_, buf) = net.expose(B, KEY, 600_000);
    let asked =
        [(A, 0), (C, 300_000)].map(|(node, at)| net.put((node, B), KEY, at, (9, 300_000), None));
    net.run_until(|net| net.sights(B, Kind::Grant).iter().any(|grant| grant.to == Some(A)));
    net.run_until(|net| net.sights(B, Kind::Grant).iter().any(|grant| grant.to == Some(C)));
    let (now, peer) = (net.now, net.peer(B, A));
    net.ep(B).forget_peer(now, peer);
    net.run_for(10 * SECOND);
    assert_eq!(net.operated(C, asked[1].req), Some(Ok(())));
    assert!(net.bytes(B, buf)[300_000..] == pattern(9, 300_000));
    assert!(net.operated(A, asked[0].req).is_some_and(|end| end.is_err()));
    assert_eq!(net.ep(B).served(), (0, 0), "nothing is kept for it");
}
