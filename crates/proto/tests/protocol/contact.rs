//! PROTOCOL §3: addresses, first contact, renewal, resets, strangers, versions.

use packhorse_proto::wire::{self, FORM_STRANGER, Header, Record};
use packhorse_proto::*;

use crate::net::*;

#[test]
fn first_contact_delivers_after_one_round_trip() {
    let mut net = Net::new(2);
    let start = net.now;
    let recv = net.recv(B, tagged(7), 8);
    net.send(A, B, 7, 8);
    net.run_until(|net| net.got(B, recv).is_some());
    assert_eq!(net.now - start, RTT_NS + DELAY_NS, "a round trip, then the message itself");
    assert_eq!(net.log[0].says(), [Kind::Hello], "no message travels with the first Hello");
    assert_eq!(net.log[1].says(), [Kind::Challenge]);
    assert_eq!(net.log[2].says(), [Kind::Hello, Kind::Echo, Kind::Ping, Kind::Eager]);
    net.assert_got(B, recv, 7, 8);
}

#[test]
fn hello_leaves_nothing_at_its_receiver() {
    let mut net = Net::new(2);
    net.send(A, B, 7, 8);
    net.drop_each(A, Kind::Echo);
    net.run_until(|net| net.seen(B, Kind::Challenge) > 0);
    assert_eq!(net.ep(B).find_peer(&identity_of(A)), None);
    net.heal();
    net.settle();
    let row = net.ep(B).find_peer(&identity_of(A)).expect("a row, once the cookie came back");
    assert_eq!(net.ep(B).identity_of(row), Some(identity_of(A)));
    assert!(net.ep(B).is_joined(row));
}

#[test]
fn each_frame_of_first_contact_may_be_lost() {
    for (from, kind) in
        [(A, Kind::Hello), (B, Kind::Challenge), (A, Kind::Echo), (B, Kind::Welcome)]
    {
        for lost_count in [1, 3] {
            let mut net = Net::new(2);
            for _ in 0..lost_count {
                net.drop_next(from, kind);
            }
            let recv = net.recv(B, tagged(7), 8);
            let req = net.send(A, B, 7, 8);
            net.settle();
            net.assert_got(B, recv, 7, 8);
            assert_eq!(net.sent(A, req), Some(Ok(())), "{lost_count} × {kind:?} lost");
            assert_eq!((net.joins(A), net.joins(B)), (1, 1), "{lost_count} × {kind:?} lost");
            assert_eq!(net.count(B, "messages_in"), 1);
        }
    }
}

#[test]
fn each_frame_of_first_contact_may_come_twice() {
    for (from, kind) in
        [(A, Kind::Hello), (B, Kind::Challenge), (A, Kind::Echo), (B, Kind::Welcome)]
    {
        let mut net = Net::new(2);
        net.double_next(from, kind);
        let recv = net.recv(B, tagged(7), 8);
        net.send(A, B, 7, 8);
        net.settle();
        net.assert_got(B, recv, 7, 8);
        assert_eq!((net.joins(A), net.joins(B)), (1, 1), "{kind:?} came twice");
        assert_eq!((net.left(A).len(), net.left(B).len()), (0, 0), "{kind:?} came twice");
    }
}

#[test]
fn introductions_stand_in_front_until_the_peer_is_known() {
    let mut net = Net::new(2);
    net.send(A, B, 1, 8);
    net.drop_next(B, Kind::Welcome);
    net.settle();
    assert!(net.seen(A, Kind::Echo) > 1, "no Welcome: the echo is said again");
    assert!(net.seen(B, Kind::Welcome) > 1, "nobody used the id: the Welcome is said again");
    net.log.clear();
    net.send(A, B, 2, 8);
    net.send(B, A, 2, 8);
    net.settle();
    assert_eq!(net.seen(A, Kind::Hello) + net.seen(B, Kind::Welcome), 0, "both are known now");
}

#[test]
fn hellos_back_off_to_a_second() {
    let mut net = Net::new(2);
    net.mute(A);
    net.send(A, B, 7, 8);
    net.run_for(10 * SECOND);
    let at: Vec<Instant> = net.sights(A, Kind::Hello).iter().map(|sight| sight.at).collect();
    let pauses: Vec<u64> = at.windows(2).map(|two| two[1] - two[0]).collect();
    assert_eq!(&pauses[..3], &[2 * MS, 4 * MS, 8 * MS]);
    assert_eq!(pauses.last(), Some(&SECOND));
    assert_eq!(net.count(A, "hellos"), at.len() as u64);
}

#[test]
fn late_echo_of_a_former_life_is_refused() {
    let mut net = Net::new(2);
    net.send(A, B, 1, 8);
    net.settle();
    let echo = net.sights(A, Kind::Echo)[0].clone();
    for life in 1..3 {
        net.restart(A);
        net.send(A, B, 2, 8);
        net.settle();
        assert_eq!(net.left(B), vec![Some(GoneReason::Restarted); life]);
    }
    let joined = net.joins(B);
    net.inject(B, echo.source, &echo.bytes);
    net.settle();
    assert_eq!(net.count(B, "cookies_refused"), 1);
    assert_eq!(net.joins(B), joined, "the old life does not come back");
    let req = net.send_matched(A, B, 3, 8);
    let recv = net.recv(B, tagged(3), 8);
    net.settle();
    assert_eq!(net.sent(A, req), Some(Ok(())), "the new life goes on");
    net.assert_got(B, recv, 3, 8);
}

#[test]
fn echo_is_refused_once_its_row_was_forgotten() {
    let mut net = Net::new(2);
    net.send(A, B, 1, 8);
    net.settle();
    let echo = net.sights(A, Kind::Echo)[0].clone();
    let row = net.peer(B, A);
    let now = net.now;
    net.ep(B).forget_peer(now, row);
    net.kill(A);
    net.inject(B, echo.source, &echo.bytes);
    assert_eq!(net.count(B, "resets_out"), 1, "its id is remembered: it is told so");
    for host in 0..100 {
        let identity = Identity { host, endpoint: 9 };
        let address = Address { identity, ..net.nodes[A].ep.address() };
        let row = net.ep(B).add_peer(&address).unwrap();
        net.ep(B).forget_peer(now, row);
    }
    net.inject(B, echo.source, &echo.bytes);
    assert_eq!(net.count(B, "cookies_refused"), 1, "its id is forgotten: the cookie tells");
    assert_eq!(net.ep(B).find_peer(&identity_of(A)), None);
}

#[test]
fn cookie_binds_the_place_the_hello_came_from() {
    let mut net = Net::new(3);
    net.send(A, B, 1, 8);
    net.hold_next(A, Kind::Echo);
    net.run_until(|net| net.held_count() > 0);
    let echo = net.sights(A, Kind::Echo)[0].clone();
    let elsewhere = net.nodes[C].locators[0];
    net.inject(B, elsewhere, &echo.bytes);
    assert_eq!(net.count(B, "cookies_refused"), 1);
    net.inject(B, echo.source, &echo.bytes);
    assert_eq!(net.count(B, "joined"), 1);
}

#[test]
fn stale_cookie_costs_a_round_trip_and_no_more() {
    let mut net = Net::new(2);
    let recv = net.recv(B, tagged(7), 8);
    let req = net.send(A, B, 7, 8);
    net.rule(usize::MAX, |sight| sight.has(Kind::Echo), Fate::Hold);
    net.run_for(40 * SECOND);
    assert!(net.held_count() > 1);
    net.heal();
    net.release();
    net.settle();
    assert!(net.count(B, "cookies_refused") > 0, "older than two epochs of the cookie's clock");
    assert_eq!(net.sent(A, req), Some(Ok(())));
    net.assert_got(B, recv, 7, 8);
    assert_eq!(net.count(B, "messages_in"), 1);
}

#[test]
fn both_at_once_make_one_association() {
    let kinds = [Kind::Hello, Kind::Challenge, Kind::Echo, Kind::Welcome];
    let losses = kinds.iter().map(|&kind| Some((A, kind))).chain([None]);
    for loss in losses {
        for lead_ns in [0, DELAY_NS / 2, DELAY_NS, RTT_NS, RTT_NS + DELAY_NS / 2] {
            let mut net = Net::new(2);
            if let Some((from, kind)) = loss {
                net.drop_next(from, kind);
            }
            let to_b = net.recv(B, tagged(1), 8);
            let to_a = net.recv(A, tagged(2), 8);
            let first = net.send(A, B, 1, 8);
            net.run_for(lead_ns);
            let second = net.send(B, A, 2, 8);
            net.settle();
            net.assert_got(B, to_b, 1, 8);
            net.assert_got(A, to_a, 2, 8);
            assert_eq!((net.sent(A, first), net.sent(B, second)), (Some(Ok(())), Some(Ok(()))));
            assert_eq!((net.joins(A), net.joins(B)), (1, 1), "{loss:?}, lead {lead_ns}");
            assert_eq!((net.count(A, "renewed"), net.count(B, "renewed")), (0, 0));
        }
    }
}

#[test]
fn new_incarnation_ends_requests_with_restarted() {
    let mut net = Net::joined();
    let unmatched = net.send_matched(A, B, 1, 8);
    let large = net.send(A, B, 2, 100_000);
    let directed = net.recv_from(A, B, 3, 8);
    let wild = net.recv(A, tagged(4), 8);
    net.run_for(MS);
    net.restart(B);
    net.send(B, A, 4, 8);
    net.settle();
    let restarted = Failure::Gone(GoneReason::Restarted);
    assert_eq!(net.sent(A, unmatched), Some(Err(restarted)));
    assert_eq!(net.sent(A, large), Some(Err(restarted)));
    assert_eq!(net.unlinked(A, directed.req), Some(Some(restarted)));
    assert_eq!(net.left(A), [Some(GoneReason::Restarted)]);
    assert_eq!(net.count(A, "renewed"), 1);
    net.assert_got(A, wild, 4, 8);
}

#[test]
fn same_life_with_another_id_renews_the_association() {
    let mut net = Net::joined();
    let unmatched = net.send_matched(A, B, 1, 8);
    net.run_for(MS);
    let (row, now) = (net.peer(B, A), net.now);
    net.ep(B).forget_peer(now, row);
    let recv = net.recv(A, tagged(4), 8);
    net.send(B, A, 4, 8);
    net.settle();
    assert_eq!(net.sent(A, unmatched), Some(Err(Failure::Gone(GoneReason::Reset))));
    net.assert_got(A, recv, 4, 8);
    assert_eq!(net.count(A, "renewed"), 1);
}

#[test]
fn probe_finds_a_restarted_peer() {
    let mut net = Net::joined();
    net.kill(B);
    let req = net.send(A, B, 1, 8);
    net.run_for(MS);
    net.restart(B);
    let start = net.now;
    net.run_until(|net| net.sent(A, req).is_some());
    assert_eq!(net.sent(A, req), Some(Err(Failure::Gone(GoneReason::Restarted))));
    assert!(net.now - start < SECOND, "found by a probe, not by silence");
    assert!(net.count(A, "probes") > 0);
    let recv = net.recv(B, tagged(2), 8);
    net.send(A, B, 2, 8);
    net.settle();
    net.assert_got(B, recv, 2, 8);
}

#[test]
fn challenge_to_an_older_hello_ends_nothing() {
    let mut net = Net::new(2);
    net.delay_ns[0] = 20 * MS; // several Hellos are on their way before the first Challenge
    net.send(A, B, 1, 8);
    net.settle();
    assert!(net.seen(B, Kind::Challenge) > 1);
    assert_eq!((net.left(A).len(), net.joins(A)), (0, 1));
}

#[test]
fn stale_frames_get_one_reset() {
    let mut net = Net::joined();
    let (row, now) = (net.peer(B, A), net.now);
    net.ep(B).on_peer_died(now, row);
    let reqs: Vec<ReqId> = (0..5).map(|tag| net.send(A, B, tag, 1400)).collect();
    net.run_for(MS / 2);
    assert_eq!(net.count(B, "resets_out"), 1, "at most one per probe interval");
    net.settle();
    for req in reqs {
        assert_eq!(net.sent(A, req), Some(Err(Failure::Gone(GoneReason::Reset))));
    }
    assert_eq!(net.left(A), [Some(GoneReason::Reset)]);
    assert_eq!(net.count(A, "resets_in"), 1);
}

#[test]
fn reset_is_believed_only_if_it_names_the_id_in_use() {
    let mut net = Net::joined();
    let (to, good) = (net.id_used(B, A), net.id_used(A, B));
    let header = Header { to, packet: 0, path: 0, form: 1 };
    for wrong in [0, good ^ 1 << 60, to] {
        net.forge_as(B, A, header, |writer| writer.reset(wrong), &[]);
        assert_eq!(net.left(A).len(), 0, "{wrong:#x}");
    }
    net.forge_as(B, A, header, |writer| writer.reset(good), &[]);
    assert_eq!(net.left(A), [Some(GoneReason::Reset)]);
}

#[test]
fn ended_association_is_not_taken_up_again() {
    // B takes the message, ends the association before A hears a Welcome, and contacts A anew.
    let mut net = Net::new(2);
    let recv = net.recv(B, tagged(7), 8);
    let again = net.recv(B, tagged(7), 8);
    net.rule(usize::MAX, |sight| sight.has(Kind::Welcome), Fate::Drop);
    net.send(A, B, 7, 8);
    net.run_until(|net| net.got(B, recv).is_some());
    let (row, now) = (net.peer(B, A), net.now);
    net.ep(B).on_peer_died(now, row);
    net.heal();
    net.send(B, A, 1, 8);
    net.settle();
    assert_eq!(net.got(B, again), None, "the message came once");
}

#[test]
fn echo_for_an_ended_association_is_told_so() {
    let mut net = Net::new(2);
    net.drop_each(B, Kind::Welcome);
    let req = net.send(A, B, 7, 8);
    net.run_until(|net| net.count(B, "joined") > 0);
    let (row, now) = (net.peer(B, A), net.now);
    net.ep(B).on_peer_died(now, row);
    net.heal();
    net.run_until(|net| net.sent(A, req).is_some());
    assert_eq!(net.sent(A, req), Some(Err(Failure::Gone(GoneReason::Reset))));
    assert!(net.count(B, "resets_out") > 0);
}

fn stranger(net: &mut Net) -> PeerId {
    let address = Address { secret: Secret::PUBLIC, ..net.nodes[B].ep.address() };
    net.ep(A).add_peer(&address).unwrap()
}

#[test]
fn open_endpoint_talks_to_strangers_and_tells_its_address() {
    let open = Plan::with(|settings, _| settings.open_to_strangers = true);
    let mut net = Net::of(&[Plan::default(), open]);
    let peer = stranger(&mut net);
    let recv = net.recv(B, tagged(7), 8);
    let spec = SendSpec { peer, ..net.spec(A, A, 7, 8) };
    let req = net.post(A, spec);
    net.settle();
    assert_eq!(net.sent(A, req), Some(Ok(())));
    net.assert_got(B, recv, 7, 8);
    assert!(net.log[0].view().header.form & FORM_STRANGER != 0);
    net.log.clear();
    let recv = net.recv(B, tagged(8), 8);
    let spec = SendSpec { peer, ..net.spec(A, A, 8, 8) };
    net.post(A, spec);
    net.settle();
    net.assert_got(B, recv, 8, 8);
    let public = |sight: &Sight| sight.view().header.form & FORM_STRANGER != 0;
    assert!(!net.log.iter().any(public), "it knows the secret now");
}

#[test]
fn closed_endpoint_does_not_answer_strangers() {
    let mut net = Net::new(2);
    let peer = stranger(&mut net);
    let spec = SendSpec { peer, ..net.spec(A, A, 7, 8) };
    net.post(A, spec);
    net.run_for(SECOND);
    assert!(net.count(B, "frames_unkeyed") > 0);
    assert_eq!(net.count(B, "frames_out"), 0);
}

#[test]
fn public_key_opens_first_contact_and_nothing_else() {
    let open = Plan::with(|settings, _| settings.open_to_strangers = true);
    let mut net = Net::of(&[open.clone(), open]);
    net.join(A, B);
    let to = net.id_used(A, B);
    let before = net.count(B, "frames_unkeyed");
    let mut bytes = vec![];
    let header = Header { to, packet: 9, path: 0, form: 1 | FORM_STRANGER };
    wire::Writer::begin(&mut bytes, header).ping();
    wire::seal(&mut bytes, 0, Secret::PUBLIC, None);
    let source = net.nodes[A].locators[0];
    net.inject(B, source, &bytes);
    assert_eq!(net.count(B, "frames_unkeyed"), before + 1);
}

#[test]
fn versions_are_negotiated_or_the_contact_ends() {
    for (ours, theirs, joins) in [
        ((1, 1), (1, 1), true),
        ((1, 2), (1, 1), true),
        ((1, 1), (1, 2), true),
        ((1, 3), (2, 2), true),
        ((2, 3), (1, 1), false),
        ((1, 1), (2, 3), false),
    ] {
        let plan = |versions| Plan::with(move |settings, _| settings.versions = versions);
        let mut net = Net::of(&[plan(ours), plan(theirs)]);
        let recv = net.recv(B, tagged(7), 8);
        let req = net.send(A, B, 7, 8);
        net.settle();
        if joins {
            assert_eq!(net.sent(A, req), Some(Ok(())), "{ours:?} to {theirs:?}");
            net.assert_got(B, recv, 7, 8);
            let newest = ours.1.min(theirs.1);
            let last = net.log.iter().rfind(|sight| sight.from == A).unwrap();
            assert_eq!(last.view().header.version(), newest, "{ours:?} to {theirs:?}");
        } else {
            let refused = Failure::Gone(GoneReason::Version);
            assert_eq!(net.sent(A, req), Some(Err(refused)), "{ours:?} to {theirs:?}");
            assert_eq!(net.left(A), [Some(GoneReason::Version)]);
        }
    }
}

#[test]
fn versions_answer_counts_only_with_the_nonce_of_the_hello() {
    let mut net = Net::new(2);
    net.mute(A);
    let req = net.send(A, B, 7, 8);
    net.run_for(MS);
    let Some((Record::Hello(hello), _)) = net.log[0].view().records().next() else { panic!() };
    let (id, nonce) = (hello.who().id, hello.who().nonce);
    for (form, wrong) in [(1, nonce ^ 1), (3, nonce ^ 1)] {
        let header = Header { to: id, packet: 0, path: 0, form };
        net.forge_as(B, A, header, |writer| writer.versions(3, 4, wrong), &[]);
        assert_eq!(net.sent(A, req), None);
    }
    let header = Header { to: id, packet: 0, path: 0, form: 3 };
    net.forge_as(B, A, header, |writer| writer.versions(3, 4, nonce), &[]);
    assert_eq!(net.sent(A, req), Some(Err(Failure::Gone(GoneReason::Version))));
}

#[test]
fn answers_are_never_more_than_three_times_the_question() {
    let old = Plan::with(|settings, _| settings.versions = (2, 2));
    let mut net = Net::of(&[Plan::default(), Plan::default(), old]);
    net.send(A, B, 1, 8);
    net.send(A, C, 1, 8);
    net.run_until(|net| net.seen(B, Kind::Challenge) > 0 && net.seen(C, Kind::Versions) > 0);
    let len = |net: &Net, from, kind| net.sights(from, kind)[0].bytes.len();
    let hello_len = len(&net, A, Kind::Hello);
    assert!(len(&net, B, Kind::Challenge) <= hello_len);
    assert!(len(&net, C, Kind::Versions) <= 3 * hello_len);
    net.settle();
    let (row, now) = (net.peer(B, A), net.now);
    net.ep(B).on_peer_died(now, row);
    net.log.clear();
    net.send(A, B, 1, 0);
    net.run_until(|net| net.seen(B, Kind::Reset) > 0);
    assert!(len(&net, B, Kind::Reset) <= 3 * net.log[0].bytes.len());
}

#[test]
fn frame_for_what_is_over_is_answered_unless_it_is_an_answer_itself() {
    for (is_answer, answers) in [(true, 0), (false, 1)] {
        let mut net = Net::joined();
        net.settle();
        let (id, row, now) = (net.id_used(A, B), net.peer(B, A), net.now);
        net.ep(B).on_peer_died(now, row);
        let header = Header { to: id, packet: 9, path: 0, form: 1 };
        let write = |writer: &mut wire::Writer<'_>| match is_answer {
            true => writer.reset(id),
            false => writer.ping(),
        };
        net.forge_as(A, B, header, write, &[]);
        net.pump();
        assert_eq!(net.seen(B, Kind::Reset), answers);
    }
}

#[test]
fn new_source_address_is_used_only_after_its_echo() {
    let mut net = Net::joined();
    let old = net.nodes[A].locators[0];
    let fresh = net.rebind(A, 0);
    net.log.clear();
    net.drop_each(A, Kind::PathResponse);
    let recv = net.recv(B, tagged(1), 8);
    net.send(A, B, 1, 8);
    net.run_for(DELAY_NS);
    net.assert_got(B, recv, 1, 8); // it was keyed: processed
    assert_eq!(net.seen(B, Kind::PathChallenge), 1, "asked at once, though it was the next packet");
    net.run_for(10 * MS);
    assert!(net.count(B, "locators_changed") == 0);
    let to_fresh = net.log.iter().filter(|sight| sight.from == B && sight.target == fresh);
    for sight in to_fresh {
        assert_eq!(sight.says(), [Kind::PathChallenge], "not answered there");
    }
    net.heal();
    let back = net.recv(A, tagged(2), 8);
    let req = net.send(B, A, 2, 8);
    net.settle();
    net.assert_got(A, back, 2, 8);
    assert_eq!(net.sent(B, req), Some(Ok(())));
    assert_eq!(net.count(B, "locators_changed"), 1);
    assert_ne!(old, fresh);
}

#[test]
fn newcomer_that_moves_before_it_is_welcome_is_followed() {
    let mut net = Net::new(2);
    net.drop_each(B, Kind::Welcome);
    let recv = net.recv(B, tagged(1), 8);
    let req = net.send(A, B, 1, 8);
    net.run_until(|net| net.joins(B) > 0);
    let fresh = net.rebind(A, 0); // and its cookie is for the old one
    net.heal();
    net.settle();
    net.assert_got(B, recv, 1, 8);
    assert_eq!(net.sent(A, req), Some(Ok(())));
    assert_eq!((net.count(B, "locators_changed"), net.count(B, "joined")), (1, 1));
    assert!(net.sights(B, Kind::Welcome).iter().any(|sight| sight.target == fresh));
}

#[test]
fn rebound_link_makes_itself_known() {
    let mut net = Net::joined();
    net.settle(); // at rest: nobody is sending
    let fresh = net.rebind(A, 0);
    let now = net.now;
    net.ep(A).on_rebound(now, 0, fresh);
    net.ep(A).on_rebound(now, 9, fresh); // no such link
    net.settle();
    assert_eq!(net.count(B, "locators_changed"), 1);
    let recv = net.recv(A, tagged(2), 8);
    net.send(B, A, 2, 8);
    net.settle();
    net.assert_got(A, recv, 2, 8);
    assert_eq!(net.ep(A).address().locator, fresh);
}

#[test]
fn somebody_elses_copy_does_not_move_the_path() {
    let mut net = Net::new(3);
    net.join(A, B);
    net.hold_next(A, Kind::Eager);
    let recv = net.recv(B, tagged(1), 8);
    net.send(A, B, 1, 8);
    net.run_until(|net| net.held_count() > 0);
    let frame = net.log.last().unwrap().clone();
    let thief = net.nodes[C].locators[0];
    net.inject(B, thief, &frame.bytes);
    net.assert_got(B, recv, 1, 8);
    net.settle();
    assert_eq!(net.count(B, "locators_changed"), 0);
    let to_thief = net.log.iter().filter(|sight| sight.from == B && sight.target == thief);
    assert_eq!(to_thief.count(), 0, "keyed for A: C cannot even read the challenge");
}

#[test]
fn frames_are_no_longer_than_the_shorter_side_takes() {
    let short = Plan::with(|settings, _| settings.frame_len_max = 1300);
    let mut net = Net::of(&[Plan::default(), short]);
    let recv = net.recv(B, tagged(1), 20_000);
    net.send(A, B, 1, 20_000);
    net.settle();
    net.assert_got(B, recv, 1, 20_000);
    let longest = net.log.iter().filter(|s| s.at > Instant(SECOND) + RTT_NS * 2);
    assert!(longest.map(|sight| sight.bytes.len()).max().unwrap() <= 1300);
}

#[test]
fn frames_to_a_peer_that_has_not_joined_are_short() {
    // Many small messages at once, before a word was heard: in one long frame they would never arrive where only short
    // ones pass, and be repeated for ever.
    let long = Plan::with(|settings, _| settings.frame_len_max = 8972);
    let mut net = Net::of(&[long.clone(), long]);
    let recvs: Vec<_> = (0..100).map(|tag| net.recv(B, tagged(tag), 40)).collect();
    for tag in 0..100 {
        net.send(A, B, tag, 40);
    }
    net.run_until(|net| net.count(A, "joined") == 1);
    let before = net.log.iter().filter(|sight| sight.from == A).map(|sight| sight.bytes.len());
    assert!(before.max().unwrap() <= 1200);
    net.settle();
    assert!(recvs.iter().all(|&recv| net.got(B, recv).is_some()));
}

#[test]
fn rows_are_limited_and_freed() {
    let tight = Plan::with(|_, limits| limits.peer_count_max = 2);
    let mut net = Net::of(&[tight, Plan::default(), Plan::default(), Plan::default()]);
    let first = net.peer(A, B);
    assert_eq!(net.peer(A, B), first, "one row per identity");
    net.peer(A, C);
    let third = net.nodes[3].ep.address();
    assert_eq!(net.ep(A).add_peer(&third), Err(PeerError::TooMany { count_max: 2 }));
    let refused = net.send(3, A, 1, 8);
    net.run_for(SECOND);
    assert_eq!((net.sent(3, refused), net.count(A, "joined")), (None, 0), "no row for a fourth");
    let now = net.now;
    net.ep(A).forget_peer(now, first);
    net.ep(A).forget_peer(now, first);
    assert_eq!(net.ep(A).identity_of(first), None);
    net.settle();
    assert_eq!(net.sent(3, refused), Some(Ok(())));
}

#[test]
fn address_may_change_while_no_association_lives() {
    let mut net = Net::new(3);
    let wrong = Address { locator: net.nodes[C].locators[0], ..net.nodes[B].ep.address() };
    let peer = net.ep(A).add_peer(&wrong).unwrap();
    assert_eq!(net.peer(A, B), peer, "the same peer, with the right address");
    let recv = net.recv(B, tagged(7), 8);
    net.send(A, B, 7, 8);
    net.settle();
    net.assert_got(B, recv, 7, 8);
}

#[test]
fn five_thousand_peers_talk_to_one() {
    let mut net = Net::new(2);
    let recvs: Vec<Recv> = (0..5000).map(|tag| net.recv(B, tagged(tag), 8)).collect();
    let address = net.nodes[B].ep.address();
    for tag in 0..5000 {
        let node = net.add(Plan::default());
        let peer = net.ep(node).add_peer(&address).unwrap();
        let spec = SendSpec { peer, ..net.spec(node, node, tag, 8) };
        net.post(node, spec);
        if tag % 100 == 0 {
            net.run_for(RTT_NS); // answers wait in a queue of 256; whoever finds it full asks again
        }
    }
    net.run_for(SECOND);
    for (tag, &recv) in recvs.iter().enumerate() {
        net.assert_got(B, recv, tag as u64, 8);
    }
    assert_eq!(net.count(B, "joined"), 5000);
}

/// A echoes to B, B has joined and taken the message, its Welcome is lost.
fn echoing() -> (Net, ReqId) {
    let mut net = Net::new(2);
    net.drop_each(B, Kind::Welcome);
    let req = net.send(A, B, 7, 8);
    net.run_until(|net| net.count(B, "joined") > 0);
    (net, req)
}

#[test]
fn challenge_of_another_life_ends_what_was_echoed() {
    let (mut net, req) = echoing();
    net.restart(B); // it may have taken the message before it died
    net.run_until(|net| net.sent(A, req).is_some());
    assert_eq!(net.sent(A, req), Some(Err(Failure::Gone(GoneReason::Restarted))));
    assert_eq!(net.left(A), [Some(GoneReason::Restarted)]);
}

#[test]
fn echo_of_another_life_ends_what_was_echoed() {
    let (mut net, req) = echoing();
    net.restart(B);
    net.mute(A);
    net.send(B, A, 1, 8);
    net.pump();
    net.heal();
    // B's own contact comes first: A's next echo is held back.
    net.rule(usize::MAX, |s| s.from == A && s.has(Kind::Echo), Fate::Hold);
    let recv = net.recv(A, tagged(1), 8);
    net.run_until(|net| net.sent(A, req).is_some());
    assert_eq!(net.sent(A, req), Some(Err(Failure::Gone(GoneReason::Restarted))));
    net.heal();
    net.settle();
    net.assert_got(A, recv, 1, 8);
}

#[test]
fn answers_to_a_hello_count_only_with_its_nonce() {
    let mut net = Net::new(2);
    net.mute(A);
    net.send(A, B, 7, 8);
    net.run_for(MS);
    let Some((Record::Hello(hello), _)) = net.log[0].view().records().next() else { panic!() };
    let (id, nonce) = (hello.who().id, hello.who().nonce);
    let header = Header { to: id, packet: 0, path: 0, form: 1 };
    net.log.clear();
    net.forge_as(B, A, header, |writer| writer.challenge(0, 0x11, nonce ^ 1, 5, 6), &[]);
    net.pump();
    assert_eq!(net.seen(A, Kind::Echo), 0);
    net.forge_as(B, A, header, |writer| writer.challenge(0, 0x11, nonce, 5, 6), &[]);
    net.pump();
    assert_eq!(net.seen(A, Kind::Echo), 1);
    let secret = net.nodes[A].ep.address().secret;
    for (nonce, incarnation) in [(nonce ^ 1, 6), (nonce, 7)] {
        let welcome = wire::WelcomeRepr {
            who: wire::Introduction {
                flags: 0,
                versions: 0x11,
                frame_len_max: 1472,
                id: 99,
                nonce,
                incarnation,
            },
            locators: &[],
            address: None,
        };
        let header = Header { packet: 1, ..header };
        net.forge_as(B, A, header, |writer| writer.welcome(&welcome, secret), &[]);
        assert_eq!(net.joins(A), 0, "another nonce, or another life");
    }
}
