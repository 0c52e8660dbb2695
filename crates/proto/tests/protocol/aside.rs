//! Frames put aside for somebody who may work on them (PROTOCOL §5.6): the peer takes none of them for lost, what is taken
//! meanwhile goes on, and in the end it is as if they had just come.

use packhorse_proto::MS;
use packhorse_proto::wire::Audience;

use crate::net::*;

const LARGE_LEN: usize = 2 << 20;
/// Longer than any timer of a healthy path.
const LONG_NS: u64 = 40 * MS;

fn assert_nothing_lost(net: &Net) {
    for (node, name) in [A, B].into_iter().flat_map(|node| {
        ["packets_lost", "contents_resent", "packets_duplicate"].map(|name| (node, name))
    }) {
        assert_eq!(net.count(node, name), 0, "{name} at {node}");
    }
}

#[test]
fn messages_put_aside_are_not_taken_for_lost_while_grants_are_answered() {
    let mut net = Net::joined();
    net.put_aside(B, Audience::Receiver);
    let large = net.recv(A, tagged(1), LARGE_LEN);
    let answered = net.send(B, A, 1, LARGE_LEN);
    let small: Vec<_> = (10..100).map(|tag| (tag, net.recv(B, tagged(tag), 1000))).collect();
    let mut sends = vec![];
    for &(tag, _) in &small {
        sends.push(net.send(A, B, tag, 1000));
        net.run_for(20 * US); // each in a frame of its own, grants between them
    }
    net.run_for(LONG_NS);
    net.assert_got(A, large, 1, LARGE_LEN);
    assert_eq!(net.sent(B, answered), Some(Ok(())));
    assert!(sends.iter().all(|&send| net.sent(A, send).is_none()), "nobody has accepted them");
    assert_nothing_lost(&net);
    let count = net.take_aside(B);
    assert!(count > 40, "more than a path remembers holes: {count}");
    net.settle();
    for ((tag, recv), send) in small.into_iter().zip(sends) {
        net.assert_got(B, recv, tag, 1000);
        assert_eq!(net.sent(A, send), Some(Ok(())));
    }
    assert_nothing_lost(&net);
}

#[test]
fn frames_from_somewhere_new_are_not_put_aside() {
    let mut net = Net::joined();
    net.put_aside(B, Audience::Receiver);
    net.rebind(A, 0);
    let recv = net.recv(B, tagged(1), 1000);
    net.send(A, B, 1, 1000);
    net.run_for(MS);
    net.assert_got(B, recv, 1, 1000);
    assert_eq!(net.take_aside(B), 0);
}

#[test]
fn data_is_acknowledged_behind_grants_that_are_put_aside() {
    let mut net = Net::joined();
    net.put_aside(B, Audience::Sender);
    let back = net.recv(A, tagged(1), LARGE_LEN);
    let waiting = net.send(B, A, 1, LARGE_LEN);
    net.run_for(MS);
    let there = net.recv(B, tagged(2), LARGE_LEN);
    let send = net.send(A, B, 2, LARGE_LEN);
    net.run_for(LONG_NS);
    net.assert_got(B, there, 2, LARGE_LEN);
    assert_eq!(net.sent(A, send), Some(Ok(())));
    assert_eq!(net.sent(B, waiting), None, "nobody answers grants");
    assert!(net.take_aside(B) > 0);
    net.settle();
    net.assert_got(A, back, 1, LARGE_LEN);
    assert_nothing_lost(&net);
}

#[test]
fn what_is_refused_from_aside_comes_again_in_its_turn() {
    let tight = Plan::with(|_, limits| limits.envelope_count_max = 1024);
    let mut net = Net::of(&[Plan::default(), tight, Plan::default()]);
    net.join(C, B);
    net.join(A, B);
    (100..1120).for_each(|tag| _ = net.send(C, B, tag, 8)); // A does not know that four are left
    net.run_for(LONG_NS);
    assert_eq!(net.ep(B).held().1, 1020);
    net.put_aside(B, Audience::Receiver);
    let sends: Vec<_> = (0..12)
        .map(|tag| {
            let send = net.send(A, B, tag, 900);
            net.run_for(20 * US);
            send
        })
        .collect();
    net.run_for(LONG_NS);
    assert!(net.take_aside(B) > 4);
    net.run_for(LONG_NS);
    let accepted = sends.iter().filter(|&&send| net.sent(A, send).is_some()).count();
    assert_eq!(accepted, 4, "as many as there are envelopes");
    for tag in 0..12 {
        let recv = net.recv(B, tagged(tag), 900);
        net.run_until(|net| net.got(B, recv).is_some());
        net.assert_got(B, recv, tag, 900);
    }
}

#[test]
fn an_association_that_ends_takes_what_lies_aside_with_it() {
    let mut net = Net::joined();
    net.put_aside(B, Audience::Receiver);
    net.send(A, B, 1, 100);
    net.run_for(MS);
    net.restart(A);
    let recv = net.recv(B, tagged(2), 100);
    let send = net.send(A, B, 2, 100);
    net.run_for(LONG_NS);
    net.take_aside(B);
    net.settle();
    net.assert_got(B, recv, 2, 100);
    assert_eq!(net.sent(A, send), Some(Ok(())));
}
