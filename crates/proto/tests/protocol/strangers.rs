//! PROTOCOL §3.15: peers that introduced themselves are forgotten when they are of no use any more; those the application
//! knows are not. What is forgotten comes back as new, and nothing of it is taken for another's.

use packhorse_proto::*;

use crate::net::*;

const KEY: u64 = 7;
const HOUR: u64 = 3600 * SECOND;

/// What B calls the peer that introduced itself.
fn stranger(net: &mut Net, node: usize) -> Option<PeerId> {
    net.ep(B).find_peer(&identity_of(node))
}

/// A sends to B, which takes it, and both are quiet again.
fn visit(net: &mut Net, from: usize) {
    let recv = net.recv(B, tagged(1), 8);
    let sent = net.send(from, B, 1, 8);
    net.settle();
    net.assert_got(B, recv, 1, 8);
    assert_eq!(net.sent(from, sent), Some(Ok(())));
}

fn close(net: &mut Net, node: usize) {
    let now = net.now;
    net.ep(node).close(now);
    net.run_until(|net| net.ep(node).is_closed());
}

/// A plan with room for so many rows.
fn tight(count: u32) -> Plan {
    Plan::with(move |_, limits| limits.peer_count_max = count)
}

#[test]
fn stranger_that_said_goodbye_is_forgotten_and_welcome_again() {
    let mut net = Net::new(2);
    visit(&mut net, A);
    let old = stranger(&mut net, A).expect("it introduced itself");
    let place = net.nodes[A].ep.address().locator;
    assert_eq!(net.ep(B).first_locator_of(old), Some(place), "where it said that it is");
    close(&mut net, A);
    assert_eq!(stranger(&mut net, A), Some(old), "not at once: its goodbye may come again");
    net.run_for(2 * 60 * SECOND);
    assert_eq!((stranger(&mut net, A), net.count(B, "strangers_forgotten")), (None, 1));
    assert_eq!((net.ep(B).identity_of(old), net.ep(B).first_locator_of(old)), (None, None));
    net.restart(A);
    visit(&mut net, A);
    let new = stranger(&mut net, A).expect("it came again");
    assert!(new != old && new.row() == old.row(), "the row is used again, its name is not");
    let (now, spec) = (net.now, SendSpec { peer: old, ..net.spec(B, A, 2, 8) });
    assert_eq!(net.ep(B).post_send(now, spec), Err(PostError::UnknownPeer));
}

#[test]
fn late_frames_of_a_forgotten_stranger_are_not_delivered_again() {
    let mut net = Net::new(2);
    visit(&mut net, A);
    let old: Vec<Sight> = net.log.iter().filter(|sight| sight.from == A).cloned().collect();
    assert!(old.iter().any(|sight| sight.has(Kind::Echo) && sight.has(Kind::Eager)));
    close(&mut net, A);
    net.kill(A);
    net.run_for(2 * 60 * SECOND);
    assert_eq!(stranger(&mut net, A), None);
    let again = net.recv(B, anything(), 8);
    for sight in &old {
        net.inject(B, sight.source, &sight.bytes);
    }
    net.run_for(SECOND);
    assert_eq!((net.got(B, again), stranger(&mut net, A)), (None, None));
}

#[test]
fn echo_of_a_stranger_that_made_room_is_refused_however_soon() {
    let mut net = Net::of(&[Plan::default(), tight(1), Plan::default()]);
    visit(&mut net, A);
    let echo = net.sights(A, Kind::Echo)[0].clone();
    visit(&mut net, C);
    assert_eq!(stranger(&mut net, A), None, "it made room");
    let again = net.recv(B, anything(), 8);
    net.inject(B, echo.source, &echo.bytes);
    assert_eq!((net.got(B, again), net.count(B, "cookies_refused")), (None, 1));
}

#[test]
fn what_the_application_holds_on_to_is_not_forgotten() {
    let holds: [fn(&mut Net); 7] = [
        |net| {
            net.peer(B, A); // its name
        },
        |net| {
            net.recv_from(B, A, 9, 8); // a receive for it alone
        },
        |net| {
            net.send(A, B, 8, 8); // a message that nobody took
        },
        |net| {
            let peer = stranger(net, A).unwrap();
            net.expose_as(B, KEY, 8, Access::ALL, Permitted::Only(vec![peer]));
        },
        |net| {
            net.send(A, B, 8, 8);
            net.run_for(SECOND);
            net.claim(B, &tagged(8)).unwrap();
        },
        |net| {
            let peer = net.peer(A, B); // a stream of its own that nobody closed
            let now = net.now;
            let id = net.ep(A).begin_stream(peer, 1).unwrap();
            net.ep(A).write_stream(now, id, b"words").unwrap();
            net.ep(A).end_stream(now, id).unwrap();
            net.settle();
            let (id, _) = net.ep(B).poll_ready_stream().unwrap();
            let now = net.now;
            net.ep(B).consume_stream(now, id, 5);
        },
        |net| {
            let peer = stranger(net, A).unwrap();
            net.ep(B).begin_stream(peer, 1).unwrap(); // a stream to it that nobody ended
        },
    ];
    for (at, hold) in holds.into_iter().enumerate() {
        let mut net = Net::new(2);
        visit(&mut net, A);
        let peer = stranger(&mut net, A).unwrap();
        hold(&mut net);
        net.settle();
        close(&mut net, A);
        net.run_for(24 * HOUR);
        assert_eq!(net.ep(B).identity_of(peer), Some(identity_of(A)), "hold {at}");
    }
}

#[test]
fn withdrawn_list_lets_its_strangers_go() {
    let mut net = Net::new(2);
    visit(&mut net, A);
    let peer = stranger(&mut net, A).unwrap();
    let (region, buf) = net.expose_as(B, KEY, 8, Access::ALL, Permitted::Only(vec![peer]));
    close(&mut net, A);
    net.run_for(HOUR);
    assert_eq!(stranger(&mut net, A), Some(peer));
    net.withdraw(B, region, buf);
    net.run_for(HOUR);
    assert_eq!(stranger(&mut net, A), None);
}

#[test]
fn living_stranger_is_asked_and_stays_dead_one_goes() {
    let mut net = Net::new(3);
    visit(&mut net, A);
    visit(&mut net, C);
    let alive = stranger(&mut net, A).unwrap();
    net.kill(C);
    net.log.clear();
    net.run_for(30 * 60 * SECOND);
    assert_eq!(net.log.len(), 0, "nobody is disturbed before the time");
    net.run_for(2 * HOUR);
    assert!(net.seen(B, Kind::Ping) > 0);
    assert!(net.ep(B).is_joined(alive), "it answered");
    let dead = stranger(&mut net, C);
    assert!(dead.is_some_and(|dead| !net.ep(B).is_joined(dead)), "it did not");
    net.run_for(5 * HOUR);
    assert_eq!(stranger(&mut net, C), None);
    assert_eq!(stranger(&mut net, A), Some(alive));
    visit(&mut net, A); // and goes on where it was
    assert_eq!(net.joins(A), 1);
}

#[test]
fn when_the_table_is_full_the_stranger_unused_for_longest_makes_room() {
    let mut net = Net::of(&[Plan::default(), tight(3)]);
    let nodes: Vec<usize> = (0..4).map(|_| net.add(Plan::default())).collect();
    visit(&mut net, A);
    for &node in &nodes[..2] {
        visit(&mut net, node);
    }
    visit(&mut net, A); // the first to come is not the longest unused
    visit(&mut net, nodes[2]);
    assert_eq!(stranger(&mut net, nodes[0]), None);
    assert!(stranger(&mut net, A).is_some() && stranger(&mut net, nodes[1]).is_some());
    assert_eq!(net.left(nodes[0]), [Some(GoneReason::Reset)], "it was told");
    visit(&mut net, nodes[0]); // and comes again, in the place of another
    assert_eq!(net.joins(nodes[0]), 2);
    assert_eq!(stranger(&mut net, nodes[1]), None);
}

#[test]
fn strangers_never_keep_the_application_from_naming_a_peer() {
    let mut net = Net::of(&[Plan::default(), tight(2)]);
    let nodes: Vec<usize> = (0..4).map(|_| net.add(Plan::default())).collect();
    net.send(nodes[0], B, 5, 8); // held: these two cannot make room
    net.send(nodes[1], B, 5, 8);
    net.settle();
    let refused = net.send(nodes[2], B, 5, 8);
    net.run_for(SECOND);
    assert_eq!(net.sent(nodes[2], refused), None, "no room for another stranger");
    let named = [nodes[2], nodes[3]].map(|node| net.peer(B, node));
    let address = net.nodes[A].ep.address();
    assert_eq!(net.ep(B).add_peer(&address), Err(PeerError::TooMany { count_max: 2 }));
    net.settle();
    assert_eq!(net.sent(nodes[2], refused), Some(Ok(())), "it is named now");
    let now = net.now;
    net.ep(B).forget_peer(now, named[0]);
    assert!(net.ep(B).add_peer(&address).is_ok());
}

#[test]
fn cookies_outlive_the_forgetting_of_others() {
    let mut net = Net::new(2);
    net.send(A, B, 1, 8);
    net.hold_next(A, Kind::Echo);
    net.run_until(|net| net.held_count() > 0);
    let now = net.now;
    for host in 0..50 {
        let identity = Identity { host, endpoint: 9 };
        let address = Address { identity, ..net.nodes[A].ep.address() };
        let peer = net.ep(B).add_peer(&address).unwrap();
        net.ep(B).forget_peer(now, peer);
    }
    net.release();
    net.run_for(DELAY_NS);
    assert_eq!((net.count(B, "joined"), net.count(B, "cookies_refused")), (1, 0));
}
