//! PROTOCOL §9.5: with the setting for it, ends of one peer's messages are told in the order of their numbers.

use packhorse_proto::wire::{Class, Record};
use packhorse_proto::*;

use crate::net::*;

/// A message of several frames, and one that fits into the last of them.
const LONG: usize = 6000;
const SHORT: usize = 32;

fn in_order() -> Net {
    let mut net = Net::pair(|settings, _| {
        settings.payload_check = false;
        settings.ends_in_order = true;
    });
    net.join(A, B);
    net
}

fn is_first_fragment(sight: &Sight) -> bool {
    let is_first = |head: wire::MessageHead| head.class == Class::Fragment && head.offset == 0;
    sight.view().records().any(|(it, _)| matches!(it, Record::Message(head) if is_first(head)))
}

/// A short message, by itself, of this tag reached B.
fn has_come(net: &Net, tag: u64) -> bool {
    net.arrived.iter().any(|&(_, at)| {
        let sight = &net.log[at];
        sight.from == A
            && sight.view().records().any(|(it, _)| {
                matches!(it, Record::Message(head) if head.class == Class::Eager && head.tag == Tag(tag))
            })
    })
}

/// The tags of the messages that B was told of, in that order; without those by which it met A.
fn told(net: &mut Net) -> Vec<(u64, Result<(), Failure>)> {
    net.drain(B);
    let ends = net.nodes[B].events.iter().filter_map(|event| match *event {
        Event::Received { envelope, result, .. } => Some((envelope.tag.0, result)),
        _ => None,
    });
    ends.filter(|&(tag, _)| tag != u64::MAX).collect()
}

/// Receives for a long message and short ones behind it are posted, all were sent, and a part of the long one is on its way.
fn with_a_part_missing(net: &mut Net, shorts: &[u64]) -> Vec<Recv> {
    net.rule(1, is_first_fragment, Fate::Hold);
    let mut recvs = vec![net.recv(B, tagged(1), LONG)];
    recvs.extend(shorts.iter().map(|&tag| net.recv(B, tagged(tag), SHORT)));
    net.send(A, B, 1, LONG);
    for &tag in shorts {
        net.send(A, B, tag, SHORT);
    }
    net.run_until(|net| shorts.iter().all(|&tag| has_come(net, tag)));
    recvs
}

#[test]
fn a_short_message_ends_behind_the_long_one_before_it() {
    let mut net = in_order();
    let recvs = with_a_part_missing(&mut net, &[2, 3]);
    assert_eq!(told(&mut net), [], "the first is not whole");
    net.release();
    net.settle();
    assert_eq!(told(&mut net), [(1, Ok(())), (2, Ok(())), (3, Ok(()))]);
    net.assert_got(B, recvs[0], 1, LONG);
    net.assert_got(B, recvs[1], 2, SHORT);
}

#[test]
fn so_does_one_that_was_there_before_its_receive() {
    let mut net = in_order();
    net.rule(1, is_first_fragment, Fate::Hold);
    net.recv(B, tagged(1), LONG);
    net.send(A, B, 1, LONG);
    net.send(A, B, 2, SHORT);
    net.run_until(|net| has_come(net, 2));
    net.recv(B, tagged(2), SHORT);
    assert_eq!(told(&mut net), []);
    net.release();
    net.settle();
    assert_eq!(told(&mut net), [(1, Ok(())), (2, Ok(()))]);
}

#[test]
fn what_no_receive_took_keeps_nothing_back() {
    let mut net = in_order();
    net.rule(1, is_first_fragment, Fate::Hold);
    net.recv(B, tagged(2), SHORT);
    net.send(A, B, 1, LONG);
    net.send(A, B, 2, SHORT);
    net.run_until(|net| has_come(net, 2));
    assert_eq!(told(&mut net), [(2, Ok(()))]);
}

#[test]
fn an_announced_message_keeps_nothing_back() {
    let mut net = in_order();
    net.rule(usize::MAX, |sight| sight.has(Kind::Data), Fate::Hold);
    net.recv(B, tagged(1), 1 << 20);
    net.recv(B, tagged(2), SHORT);
    net.send(A, B, 1, 1 << 20);
    net.send(A, B, 2, SHORT);
    net.run_until(|net| has_come(net, 2));
    assert_eq!(told(&mut net), [(2, Ok(()))]);
}

#[test]
fn a_receive_that_is_taken_back_lets_the_others_end() {
    let mut net = in_order();
    let recvs = with_a_part_missing(&mut net, &[2]);
    assert!(net.cancel(B, recvs[0].req, recvs[0].buf));
    let mut told = told(&mut net);
    told.sort_unstable_by_key(|&(tag, _)| tag); // who takes back knows
    assert_eq!(told, [(1, Err(Failure::Cancelled)), (2, Ok(()))]);
}

#[test]
fn a_receive_whose_end_is_kept_can_be_cancelled_still() {
    let mut net = in_order();
    let recvs = with_a_part_missing(&mut net, &[2, 3]);
    assert!(net.cancel(B, recvs[1].req, recvs[1].buf));
    assert!(!net.cancel(B, recvs[1].req, recvs[1].buf), "once");
    assert_eq!(told(&mut net), [(2, Err(Failure::Cancelled))]);
    net.settle();
    assert_eq!(told(&mut net)[1..], [(1, Ok(())), (3, Ok(()))]);
}

#[test]
fn a_peer_that_goes_ends_them_all_in_order() {
    let mut net = in_order();
    with_a_part_missing(&mut net, &[2, 3]);
    let peer = net.peer(B, A);
    let now = net.now;
    net.ep(B).on_peer_died(now, peer);
    let told = told(&mut net);
    assert!(matches!(told[..], [(1, Err(Failure::Gone(_))), (2, Ok(())), (3, Ok(()))]), "{told:?}");
}

#[test]
fn messages_of_others_end_when_they_end() {
    let plan = Plan::with(|settings, _| {
        settings.payload_check = false;
        settings.ends_in_order = true;
    });
    let mut net = Net::of(&[plan.clone(), plan.clone(), plan]);
    net.join(A, B);
    net.join(C, B);
    with_a_part_missing(&mut net, &[]);
    let recv = net.recv(B, tagged(9), SHORT);
    net.send(C, B, 9, SHORT);
    net.run_until(|net| net.got(B, recv).is_some());
    assert_eq!(told(&mut net), [(9, Ok(()))]);
}

#[test]
fn without_the_setting_each_ends_when_it_is_whole() {
    let mut net = Net::joined();
    with_a_part_missing(&mut net, &[2]);
    assert_eq!(told(&mut net), [(2, Ok(()))]);
}

/// A message that is left of a former life of its sender has a number there, and that number is another message's by now.
#[test]
fn what_is_left_of_a_former_life_takes_no_end_away() {
    let mut net = in_order();
    net.send(A, B, 7, SHORT);
    net.settle();
    net.kill(A);
    net.restart(A);
    // Two messages had been sent before that one.
    let recvs = with_a_part_missing(&mut net, &[2, 3]);
    let left = net.recv(B, tagged(7), SHORT);
    net.settle();
    let told = told(&mut net);
    assert!([1, 2, 3, 7].iter().all(|&tag| told.contains(&(tag, Ok(())))), "{told:?}");
    assert!(recvs.into_iter().chain([left]).all(|recv| net.got(B, recv).is_some()));
}
