//! PROTOCOL §5.1, §6.5, §10.2: several ways to one peer.

use packhorse_proto::*;

use crate::net::*;

/// Two nodes with this many links each, all paths proven.
fn rails(count: usize) -> Net {
    let plan = Plan { more_links: count - 1, ..Plan::default() };
    let mut net = Net::of(&[plan.clone(), plan]);
    net.join(A, B);
    net.run_for(100 * MS);
    net.log.clear();
    net
}

fn on_link(net: &Net, link: u8, kind: Kind) -> usize {
    net.sights(A, kind).iter().filter(|sight| sight.link == link).count()
}

fn cut(net: &mut Net, link: u8) {
    net.drop_where(move |sight| sight.link == link);
}

#[test]
fn further_paths_are_proven_before_they_carry_content() {
    let plan = Plan { more_links: 1, ..Plan::default() };
    let mut net = Net::of(&[plan.clone(), plan]);
    net.drop_where(|sight| sight.link == 1 && sight.has(Kind::PathResponse));
    let recv = net.recv(B, tagged(1), 500_000);
    net.send(A, B, 1, 500_000);
    net.run_for(5 * SECOND);
    net.assert_got(B, recv, 1, 500_000);
    let second = net.log.iter().filter(|sight| sight.link == 1);
    for sight in second {
        let says = sight.says();
        assert!(says == [Kind::PathChallenge] || says == [Kind::PathResponse], "{says:?}");
    }
}

#[test]
fn data_uses_all_paths() {
    let mut net = rails(3);
    let recv = net.recv(B, tagged(1), 2 << 20);
    net.send(A, B, 1, 2 << 20);
    net.settle();
    net.assert_got(B, recv, 1, 2 << 20);
    let all = net.seen(A, Kind::Data);
    for link in 0..3 {
        let share = on_link(&net, link, Kind::Data);
        assert!(share > all / 20, "link {link}: {share} of {all}");
    }
}

#[test]
fn each_path_numbers_its_packets() {
    let mut net = rails(2);
    net.recv(B, tagged(1), 1 << 20);
    net.send(A, B, 1, 1 << 20);
    net.settle();
    for link in 0..2 {
        let frames = net.log.iter().filter(|sight| sight.from == A && sight.link == link);
        let numbers: Vec<u32> = frames.map(Sight::packet).filter(|&packet| packet > 0).collect();
        assert!(numbers.windows(2).all(|two| two[1] == two[0] + 1), "link {link}: {numbers:?}");
    }
}

/// The second link becomes quicker, and A has measured it; B has not, it sent next to nothing.
fn second_is_quicker() -> Net {
    let mut net = rails(2);
    net.delay_ns[1] = 10 * US;
    for _ in 0..50 {
        net.recv(B, tagged(1), 100_000);
        net.send(A, B, 1, 100_000);
        net.run_for(2 * MS);
    }
    net.log.clear();
    for tag in 0..20 {
        net.send(A, B, tag, 8);
        net.run_for(MS);
    }
    net
}

#[test]
fn small_messages_take_the_quickest_path() {
    let net = second_is_quicker();
    assert_eq!((on_link(&net, 0, Kind::Eager), on_link(&net, 1, Kind::Eager)), (0, 20));
}

#[test]
fn ack_goes_back_the_way_its_packet_came() {
    let net = second_is_quicker();
    let acks = net.sights(B, Kind::Ack);
    assert!(acks.len() >= 20 && acks.iter().all(|sight| sight.link == 1));
}

#[test]
fn silent_path_is_left_and_its_content_moves() {
    for link in [0, 1] {
        let mut net = rails(2);
        let recv = net.recv(B, tagged(1), 2 << 20);
        let req = net.send(A, B, 1, 2 << 20);
        net.run_for(3 * RTT_NS);
        cut(&mut net, link);
        net.run_until(|net| net.got(B, recv).is_some());
        net.assert_got(B, recv, 1, 2 << 20);
        net.run_for(SECOND);
        assert_eq!(net.sent(A, req), Some(Ok(())), "link {link}");
        assert!(net.count(A, "paths_lost") >= 1);
        assert_eq!((net.left(A).len(), net.left(B).len()), (0, 0));
    }
}

#[test]
fn left_path_is_challenged_with_back_off_and_taken_back() {
    let mut net = rails(2);
    net.recv(B, tagged(1), 2 << 20);
    net.send(A, B, 1, 2 << 20);
    net.run_for(3 * RTT_NS);
    cut(&mut net, 1);
    net.run_for(20 * SECOND);
    let at: Vec<u64> = net.sights(A, Kind::PathChallenge).iter().map(|s| s.at.0).collect();
    assert!(at.len() > 3 && at.len() < 60, "{} challenges in 20 s", at.len());
    let before = net.count(A, "paths_regained");
    net.heal();
    net.run_for(5 * SECOND);
    assert_eq!(net.count(A, "paths_regained"), before + 1);
    net.log.clear();
    let recv = net.recv(B, tagged(2), 2 << 20);
    net.send(A, B, 2, 2 << 20);
    net.settle();
    net.assert_got(B, recv, 2, 2 << 20);
    assert!(on_link(&net, 1, Kind::Data) > 0, "in use again");
}

#[test]
fn forged_answer_does_not_prove_a_path() {
    let plan = Plan { more_links: 1, ..Plan::default() };
    let mut net = Net::of(&[plan.clone(), plan]);
    net.drop_where(|sight| sight.link == 1);
    net.send(A, B, 0, 8);
    net.run_for(SECOND);
    let to = net.id_used(B, A);
    let header = wire::Header { to, packet: 0, path: 1, form: 1 };
    for (path, nonce) in [(1, 0), (1, 12345), (0, 0), (200, 5)] {
        net.forge_as(B, A, header, |writer| writer.path_response(path, nonce), &[]);
    }
    net.log.clear();
    net.recv(B, tagged(1), 1 << 20);
    net.send(A, B, 1, 1 << 20);
    net.run_for(5 * SECOND);
    assert_eq!(on_link(&net, 1, Kind::Data), 0);
    assert_eq!(net.count(A, "locators_changed") + net.count(A, "paths_regained"), 0);
}

#[test]
fn unreachable_path_is_left_while_another_works() {
    let mut net = rails(2);
    let at = net.nodes[B].locators[1];
    let recv = net.recv(B, tagged(1), 2 << 20);
    net.send(A, B, 1, 2 << 20);
    net.run_for(3 * RTT_NS);
    cut(&mut net, 1);
    net.run_for(DELAY_NS);
    let now = net.now;
    net.ep(A).on_unreachable(now, 1, &at);
    assert_eq!(net.count(A, "paths_lost"), 1);
    net.run_for(5 * SECOND);
    net.assert_got(B, recv, 1, 2 << 20);
    assert_eq!(net.left(A), []);
}

#[test]
fn all_paths_silent_is_the_peer_silent() {
    let mut net = rails(2);
    net.kill(B);
    let req = net.send(A, B, 1, 8);
    net.run_for(70 * SECOND);
    assert_eq!(net.sent(A, req), Some(Err(Failure::Gone(GoneReason::Silent))));
}

#[test]
fn rows_with_several_paths_rest_and_wake() {
    let mut net = rails(3);
    net.run_for(30 * SECOND);
    assert_eq!(net.ep(A).next_timeout(), Instant::NEVER);
    net.log.clear();
    let recv = net.recv(B, tagged(1), 2 << 20);
    net.send(A, B, 1, 2 << 20);
    net.settle();
    net.assert_got(B, recv, 1, 2 << 20);
    assert!((0..3).all(|link| on_link(&net, link, Kind::Data) > 0), "all still proven");
    assert_eq!(net.seen(A, Kind::PathChallenge), 0);
}

#[test]
fn rebound_second_link_is_found_again() {
    let mut net = rails(2);
    let fresh = net.rebind(A, 1);
    let now = net.now;
    net.ep(A).on_rebound(now, 1, fresh);
    net.recv(B, tagged(1), 2 << 20);
    net.send(A, B, 1, 2 << 20);
    net.settle();
    let recv = net.recv(A, tagged(2), 2 << 20);
    net.send(B, A, 2, 2 << 20);
    net.settle();
    net.assert_got(A, recv, 2, 2 << 20);
    assert_eq!(net.left(A).len() + net.left(B).len(), 0);
}

#[test]
fn more_links_on_one_side_are_simply_not_used() {
    let many = Plan { more_links: 2, ..Plan::default() };
    let mut net = Net::of(&[many, Plan::default()]);
    let recv = net.recv(B, tagged(1), 1 << 20);
    net.send(A, B, 1, 1 << 20);
    net.settle();
    net.assert_got(B, recv, 1, 1 << 20);
    assert!(net.log.iter().all(|sight| sight.link == 0));
}

#[test]
fn endpoint_has_one_to_eight_links() {
    for (count, opens) in [(0, false), (1, true), (8, true), (9, false)] {
        let opening = Opening {
            secret: Secret([1, 2]),
            identity: identity_of(A),
            entropy: [1, 2, 3, 4],
            locators: vec![Locator::default(); count],
        };
        let opened = Endpoint::open(opening, Limits::default(), Settings::default(), Instant(0));
        assert_eq!(opened.is_ok(), opens, "{count} links");
    }
}
