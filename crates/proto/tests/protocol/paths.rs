//! PROTOCOL §5.1, §6.5, §10.2: several ways to one peer.

mod kinds;

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

/// Lets time pass; messages from A to B keep both from resting.
fn stay_awake(net: &mut Net, ns: u64) {
    let until = net.now + ns;
    while net.now < until {
        net.recv(B, tagged(0), 8);
        net.send(A, B, 0, 8);
        net.run_for(100 * MS);
    }
}

#[test]
fn a_path_that_answers_and_one_that_never_does_are_news() {
    for answers in [true, false] {
        let plan = Plan { more_links: 1, ..Plan::default() };
        let mut net = Net::of(&[plan.clone(), plan]);
        net.drop_where(move |sight| sight.link == 1 && !answers);
        net.join(A, B);
        stay_awake(&mut net, 30 * SECOND);
        let peer = net.peer(A, B);
        let mut news = vec![];
        while let Some(of) = net.ep(A).poll_path_news() {
            news.push(of);
        }
        news.dedup();
        assert_eq!(news, [peer], "answers: {answers}");
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
        let numbers: Vec<u64> = frames.map(Sight::packet).filter(|&packet| packet > 0).collect();
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
fn a_path_about_as_quick_is_tried_with_messages_ever_more_seldom() {
    let mut net = rails(2);
    let mut by_time = Vec::new();
    for _ in 0..4 {
        net.log.clear();
        for _ in 0..2_000 {
            net.recv(B, tagged(1), 8);
            net.send(A, B, 1, 8);
            net.run_for(200 * US);
        }
        let counts = [0, 1].map(|link| on_link(&net, link, Kind::Eager));
        assert_eq!(counts[0] + counts[1], 2_000);
        by_time.push(counts[0].min(counts[1]));
    }
    assert!(by_time[0] >= 16, "tried again and again at first: {by_time:?}");
    assert!(by_time[3] <= 8, "and then seldom: {by_time:?}");
}

#[test]
fn a_path_that_dies_while_it_is_tried_loses_nothing() {
    let mut net = rails(2);
    let mut has_cut = false;
    for number in 0..400 {
        let recv = net.recv(B, tagged(number), 8);
        net.send(A, B, number, 8);
        let seen = [0, 1].map(|link| on_link(&net, link, Kind::Eager));
        if seen[0].min(seen[1]) > 0 && !has_cut {
            cut(&mut net, if seen[0] < seen[1] { 0 } else { 1 });
            has_cut = true;
        }
        net.run_until(|net| net.got(B, recv).is_some());
        net.run_for(200 * US);
    }
    assert!(has_cut, "none was tried");
    assert_eq!((net.left(A).len(), net.left(B).len()), (0, 0));
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

/// Nobody drives a peer that computes: it is silent on all paths, and what is on its way will be there when it looks.
#[test]
fn peer_that_computes_for_a_while_is_left_by_no_path() {
    for ms in [1, 3, 10, 40] {
        let mut net = rails(2);
        let recv = net.recv(B, tagged(1), 8);
        net.freeze(B);
        let send = net.send(A, B, 1, 8);
        net.run_for(ms * MS);
        net.thaw(B);
        net.settle();
        net.assert_got(B, recv, 1, 8);
        assert_eq!(net.sent(A, send), Some(Ok(())));
        assert_eq!(net.count(A, "paths_lost"), 0, "{ms} ms");
        assert_eq!(net.count(A, "contents_resent"), 0, "{ms} ms");
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
    net.ep(A).on_unreachable(now, 1, &at, Obstacle::Way(b"anybody can say that"));
    net.ep(A).on_unreachable(now, 1, &at, Obstacle::Closed);
    assert_eq!(net.count(A, "paths_lost"), 0);
    net.ep(A).on_unreachable(now, 1, &at, Obstacle::Here);
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
    let shares: Vec<_> = (0..3).map(|link| on_link(&net, link, Kind::Data)).collect();
    let peer = net.peer(A, B);
    let infos = net.ep(A).paths(peer);
    assert!(shares.iter().all(|&share| share > 0), "all still proven: {shares:?} {infos:#?}");
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

/// Two nodes with so many links, all paths of which are added as this says.
fn pairs(links: [usize; 2], reach: impl Fn(usize, u8, u8) -> Option<usize> + 'static) -> Net {
    let plan = |count: usize| {
        let mut plan = Plan { more_links: count - 1, ..Plan::default() };
        plan.settings.frame_len_max = 16 << 10;
        plan
    };
    let mut net = Net::of(&links.map(plan));
    net.reach = Some(Box::new(move |node, link, to| reach(node, link, to.0[8])));
    net
}

fn infos(net: &mut Net, of: usize, peer: usize) -> Vec<PathInfo> {
    let peer = net.peer(of, peer);
    net.ep(of).paths(peer)
}

fn ends(net: &mut Net, of: usize, peer: usize) -> Vec<(u8, u8)> {
    infos(net, of, peer).iter().map(|path| (path.link, path.locator.0[8])).collect()
}

#[test]
fn sides_may_number_their_paths_differently() {
    // A knows 0-0, 1-2 and 1-1; B knows 0-0, 1-1 and then 2-1.
    let mut net = pairs([2, 3], |node, link, to| match node {
        A => matches!((link, to), (0, 0) | (1, 1) | (1, 2)).then_some(1472),
        _ => matches!((link, to), (0, 0) | (1, 1) | (2, 1)).then_some(1472),
    });
    net.join(A, B);
    net.run_for(100 * MS);
    assert_eq!(ends(&mut net, A, B), [(0, 0), (1, 1), (1, 2)]);
    assert_eq!(ends(&mut net, B, A), [(0, 0), (1, 1), (2, 1)]);
    let there = net.recv(B, tagged(1), 2 << 20);
    net.send(A, B, 1, 2 << 20);
    let back = net.recv(A, tagged(2), 2 << 20);
    net.send(B, A, 2, 2 << 20);
    net.settle();
    net.assert_got(B, there, 1, 2 << 20);
    net.assert_got(A, back, 2, 2 << 20);
    assert_eq!(net.count(A, "packets_lost") + net.count(B, "packets_lost"), 0);
    assert!(on_link(&net, 1, Kind::Data) > 0);
}

#[test]
fn pair_that_only_one_side_thought_of_serves_both() {
    let mut net = pairs([2, 2], |node, link, to| (node == A || link + to == 0).then_some(1472));
    net.join(A, B);
    net.run_for(100 * MS);
    net.recv(B, tagged(1), 2 << 20);
    net.send(A, B, 1, 2 << 20);
    net.settle();
    assert!(on_link(&net, 1, Kind::Data) > 0);
    assert!(ends(&mut net, B, A).contains(&(1, 1)), "{:?}", ends(&mut net, B, A));
    assert_eq!(net.count(A, "packets_lost"), 0);
}

#[test]
fn eight_paths_at_most_and_none_twice() {
    let mut net = pairs([4, 4], |_, _, _| Some(1472));
    net.join(A, B);
    net.run_for(100 * MS);
    assert_eq!(infos(&mut net, A, B).len(), PATH_COUNT_MAX);
    let (peer, now) = (net.peer(A, B), net.now);
    let (first, last) = (net.nodes[B].locators[0], net.nodes[B].locators[3]);
    let add = |net: &mut Net, peer, link, to| {
        let way = Way { frame_len_max: 1472, ..Way::default() };
        net.ep(A).add_path(now, peer, link, to, &way)
    };
    assert_eq!(add(&mut net, peer, 0, &first), Err(PathError::Known));
    assert_eq!(add(&mut net, peer, 2, &last), Err(PathError::TooMany));
    assert_eq!(add(&mut net, peer, 9, &last), Err(PathError::NoLink));
    assert_eq!(add(&mut net, PeerId(77), 0, &last), Err(PathError::NotJoined));
}

#[test]
fn pairs_that_never_answered_make_room_however_long_ago_they_were_asked() {
    for is_busy in [true, false] {
        let mut net = pairs([4, 2], |_, _, _| Some(1472));
        net.drop_where(|sight| (sight.link, sight.target.0[8]) != (0, 0));
        net.join(A, B);
        let (mut news_count, peer) = (0, net.peer(A, B));
        for _ in 0..300 {
            net.run_for(SECOND);
            while net.ep(A).poll_path_news().is_some() {
                news_count += 1;
            }
            if is_busy {
                net.recv(B, tagged(1), 8);
                net.send(A, B, 1, 8);
            }
        }
        assert_eq!(infos(&mut net, A, B).len(), PATH_COUNT_MAX);
        assert!(news_count <= PATH_COUNT_MAX, "{news_count}: each is given up once");
        let way = Way { frame_len_max: 1472, ..Way::default() };
        let (now, to) = (net.now, Locator([9; 24]));
        assert!(net.ep(A).add_path(now, peer, 1, &to, &way).is_ok(), "{is_busy}");
    }
}

#[test]
fn where_the_peer_is_heard_from_has_a_place_among_eight_that_never_answered() {
    // B thinks of eight pairs and of none that works but that of the contact; A knows one more that does.
    let mut net = pairs([4, 4], |node, link, to| {
        (node == B || matches!((link, to), (0, 0) | (3, 2))).then_some(1472)
    });
    let is_way = |sight: &Sight, contact_works: bool| match (sight.link, sight.target.0[8]) {
        (0, 0) => contact_works,
        (link, to) => (link, to) == if sight.from == A { (3, 2) } else { (2, 3) },
    };
    net.drop_where(move |sight| !is_way(sight, true));
    net.recv(B, tagged(0), 8);
    net.send(A, B, 0, 8);
    net.run_for(10 * MS);
    assert_eq!(infos(&mut net, B, A).len(), PATH_COUNT_MAX);
    net.drop_where(move |sight| !is_way(sight, false));
    let (there, back) = (net.recv(B, tagged(1), 20_000), net.recv(A, tagged(2), 20_000));
    net.send(A, B, 1, 20_000);
    net.send(B, A, 2, 20_000);
    // Long before any of the eight was asked so often that it is given up.
    net.run_for(SECOND);
    net.assert_got(B, there, 1, 20_000);
    net.assert_got(A, back, 2, 20_000);
}

#[test]
fn pair_whose_ends_are_both_served_is_spare_until_they_fail() {
    let mut net = pairs([2, 2], |_, _, _| Some(1472));
    net.join(A, B);
    net.run_for(100 * MS);
    net.log.clear();
    let recv = net.recv(B, tagged(1), 2 << 20);
    net.send(A, B, 1, 2 << 20);
    net.settle();
    net.assert_got(B, recv, 1, 2 << 20);
    let spare = infos(&mut net, A, B)
        .into_iter()
        .filter(|path| matches!(path.state, PathState::Proven { is_spare: true, .. }));
    assert_eq!(spare.count(), 2);
    let used = net.sights(A, Kind::Data).iter().map(|s| (s.link, s.target)).collect::<Vec<_>>();
    for link in [0, 1] {
        let mut targets: Vec<_> =
            used.iter().filter(|it| it.0 == link).map(|it| it.1.0[8]).collect();
        targets.sort_unstable();
        targets.dedup();
        assert_eq!(targets.len(), 1, "link {link} leads to one place");
    }
    // One cable on each side: what is left is a pair that was spare.
    let (target, at) = (net.nodes[B].locators[1], net.nodes[B].locators[0]);
    net.drop_where(move |sight| {
        let is_dead = |link: u8, to: Locator| link == 0 || to == target || to.0[8] == 0 && to != at;
        if sight.from == A { is_dead(sight.link, sight.target) } else { sight.link == 1 }
    });
    let recv = net.recv(B, tagged(2), 1 << 20);
    net.send(A, B, 2, 1 << 20);
    net.run_for(20 * SECOND);
    net.assert_got(B, recv, 2, 1 << 20);
}

#[test]
fn what_was_cut_for_a_long_frame_is_cut_anew_for_a_short_one() {
    for len in [9_000, 30_000, 200_000] {
        let mut net = pairs([2, 2], |_, link, to| {
            (link == to).then_some(if link == 0 { 1472 } else { 9_000 })
        });
        net.delay_ns[1] = 10 * US;
        net.join(A, B);
        net.run_for(100 * MS);
        net.recv(B, tagged(0), 100_000);
        net.send(A, B, 0, 100_000);
        net.settle();
        net.log.clear();
        net.drop_where(|sight| sight.link == 1);
        let recv = net.recv(B, tagged(1), len);
        net.send(A, B, 1, len);
        net.run_for(10 * SECOND);
        net.assert_got(B, recv, 1, len);
        let longest = |link| {
            let frames = net.log.iter().filter(|sight| sight.from == A && sight.link == link);
            frames.map(|sight| sight.bytes.len()).max().unwrap_or(0)
        };
        assert!(longest(0) <= 1472 && longest(1) > 1472, "{} and {}", longest(0), longest(1));
    }
}

#[test]
fn first_contact_takes_a_link_that_may_lead_there() {
    let mut net = pairs([3, 1], |node, link, _| (node == B || link == 2).then_some(1472));
    let recv = net.recv(B, tagged(1), 8);
    net.send(A, B, 1, 8);
    net.settle();
    net.assert_got(B, recv, 1, 8);
    let hellos = net.sights(A, Kind::Hello);
    assert!(!hellos.is_empty() && hellos.iter().all(|sight| sight.link == 2));
}

#[test]
fn first_contact_tries_one_link_after_the_other() {
    let mut net = pairs([3, 1], |_, _, _| Some(1472));
    net.drop_where(|sight| sight.from == A && sight.link != 2);
    let recv = net.recv(B, tagged(1), 8);
    net.send(A, B, 1, 8);
    net.run_for(SECOND);
    net.assert_got(B, recv, 1, 8);
}

#[test]
fn peer_that_no_link_leads_to_is_unreachable_at_once() {
    let mut net = pairs([2, 1], |_, _, _| None);
    let req = net.send(A, B, 1, 8);
    net.run_for(MS);
    assert_eq!(net.sent(A, req), Some(Err(Failure::Gone(GoneReason::Unreachable))));
}

#[test]
fn dead_process_is_dead_on_all_paths() {
    for is_resting in [false, true] {
        let mut net = rails(2);
        if is_resting {
            net.run_for(30 * SECOND);
        }
        let recv = net.recv_from(A, B, 1, 8);
        let (now, at) = (net.now, net.nodes[B].locators[1]);
        net.ep(A).on_dead(now, 0, &at); // not where that leads
        assert_eq!(net.left(A), []);
        net.ep(A).on_dead(now, 1, &at);
        assert_eq!(net.left(A), [Some(GoneReason::Died)]);
        let failed = net.unlinked(A, recv.req);
        assert_eq!(failed, Some(Some(Failure::Gone(GoneReason::Died))));
    }
}

#[test]
fn path_that_was_never_proven_tells_nothing_of_its_peer() {
    let plan = Plan { more_links: 1, ..Plan::default() };
    let mut net = Net::of(&[plan.clone(), plan]);
    net.drop_where(|sight| sight.link == 1);
    net.join(A, B);
    net.run_for(100 * MS);
    let (now, at) = (net.now, net.nodes[B].locators[1]);
    net.ep(A).on_dead(now, 1, &at);
    assert_eq!(net.left(A), []);
}

#[test]
fn pairs_that_lead_nowhere_do_not_keep_anybody_awake() {
    let plan = Plan { more_links: 1, ..Plan::default() };
    let mut net = Net::of(&[plan.clone(), plan]);
    net.drop_where(|sight| sight.link == 1);
    net.join(A, B);
    net.run_for(60 * SECOND);
    assert_eq!(net.ep(A).next_timeout(), Instant::NEVER);
    let asked = net.seen(A, Kind::PathChallenge);
    assert!(asked < 15, "{asked}");
}

#[test]
fn black_hole_on_a_further_path_is_found_before_it_carries_anything() {
    let mut net = pairs([2, 2], |_, link, to| (link == to).then_some(9_000));
    net.drop_where(|sight| sight.link == 1 && sight.bytes.len() > 1_500);
    net.join(A, B);
    net.run_for(SECOND);
    let path = infos(&mut net, A, B)[1];
    assert!(matches!(path.state, PathState::Proven { .. }), "{path:?}");
    assert!(path.frame_len <= 1_500, "{path:?}");
    net.recv(B, tagged(1), 1 << 20);
    net.send(A, B, 1, 1 << 20);
    net.settle();
    assert_eq!(net.count(A, "frame_len_drops"), 0);
}
