//! PROTOCOL §4, §9.4: alive, silent, gone; goodbye, linger, close.

use packhorse_proto::*;

use crate::net::*;

fn died(net: &mut Net, node: usize, peer: usize) {
    let (row, now) = (net.peer(node, peer), net.now);
    net.ep(node).on_peer_died(now, row);
}

fn close(net: &mut Net, node: usize) {
    let now = net.now;
    net.ep(node).close(now);
}

#[test]
fn peer_is_silent_while_probes_go_unanswered() {
    let mut net = Net::joined();
    net.settle();
    let peer = net.peer(A, B);
    assert_eq!(net.ep(A).silent_since(peer), None, "nothing is owed, nobody is silent");
    let heard = net.now;
    net.mute(B);
    net.send(A, B, 1, 8);
    net.run_for(SECOND);
    let since = net.ep(A).silent_since(peer).expect("silent");
    assert!(since <= heard + SECOND);
    net.heal();
    net.run_for(2 * SECOND);
    assert_eq!(net.ep(A).silent_since(peer), None);
}

#[test]
fn silence_ends_an_association_after_a_minute_and_five_probes() {
    let mut net = Net::joined();
    net.settle();
    net.kill(B);
    let sends = [net.send(A, B, 1, 8), net.send(A, B, 2, 100_000)];
    let directed = net.recv_from(A, B, 3, 8);
    let start = net.now;
    net.run_until(|net| !net.left(A).is_empty());
    assert_eq!(net.left(A), [Some(GoneReason::Silent)]);
    let took = net.now - start;
    assert!((60 * SECOND..63 * SECOND).contains(&took), "{took}");
    assert!(net.count(A, "probes") >= 5);
    let silent = Failure::Gone(GoneReason::Silent);
    for req in sends {
        assert_eq!(net.sent(A, req), Some(Err(silent)));
    }
    assert_eq!(net.unlinked(A, directed.req), Some(Some(silent)));
}

#[test]
fn peer_without_a_helper_may_be_silent_for_hours() {
    let inline = Plan::with(|settings, _| settings.has_helper = false);
    let mut net = Net::of(&[Plan::default(), inline]);
    net.join(A, B);
    net.freeze(B); // it computes
    let req = net.send(A, B, 1, 8);
    net.run_for(3600 * SECOND);
    assert_eq!((net.sent(A, req), net.left(A).len()), (None, 0));
    net.thaw(B);
    net.settle();
    assert_eq!(net.sent(A, req), Some(Ok(())));
    net.kill(B);
    let req = net.send(A, B, 1, 8);
    net.run_for(4 * 3600 * SECOND + 10 * SECOND);
    assert_eq!(net.sent(A, req), Some(Err(Failure::Gone(GoneReason::Silent))));
}

#[test]
fn first_contact_waits_longer_for_one_without_a_helper() {
    let settings = Settings { has_helper: false, ..Settings::default() };
    let inline = Plan { settings, ..Plan::default() };
    let mut net = Net::of(&[Plan::default(), inline]);
    net.freeze(B); // it computes
    let req = net.send(A, B, 1, 8);
    net.run_for(50 * SECOND);
    assert_eq!((net.sent(A, req), net.left(A).len()), (None, 0));
    net.thaw(B);
    net.settle();
    assert_eq!(net.sent(A, req), Some(Ok(())));
}

#[test]
fn unanswered_first_contact_is_given_up() {
    let mut net = Net::new(2);
    net.kill(B);
    let req = net.send(A, B, 1, 8);
    net.run_for(7 * SECOND);
    assert_eq!(net.sent(A, req), None);
    net.run_for(3 * SECOND);
    assert_eq!(net.sent(A, req), Some(Err(Failure::Gone(GoneReason::Unanswered))));
    assert_eq!(net.left(A), [Some(GoneReason::Unanswered)]);
}

#[test]
fn nothing_owed_no_silence() {
    let mut net = Net::joined();
    net.kill(B);
    net.recv(A, anything(), 8); // of anybody: nobody owes it
    net.run_for(10 * 3600 * SECOND);
    assert_eq!(net.left(A), []);
}

#[test]
fn directed_receive_asks_whether_its_peer_lives() {
    let mut net = Net::joined();
    net.settle();
    let recv = net.recv_from(A, B, 1, 8);
    net.run_for(600 * SECOND);
    assert_eq!(net.left(A), [], "it answers: it lives");
    assert!(net.seen(A, Kind::Ping) > 10);
    net.kill(B);
    net.run_for(100 * SECOND);
    assert_eq!(net.left(A), [Some(GoneReason::Silent)]);
    assert_eq!(net.unlinked(A, recv.req), Some(Some(Failure::Gone(GoneReason::Silent))));
}

#[test]
fn late_turn_kills_nobody() {
    for answered in [true, false] {
        let mut net = Net::joined();
        net.settle();
        if !answered {
            net.drop_next(B, Kind::Ack);
        }
        let req = net.send(A, B, 1, 8);
        net.run_for(US);
        net.freeze(A); // stopped, suspended
        net.run_for(10 * 3600 * SECOND);
        net.thaw(A);
        net.settle();
        assert_eq!(net.sent(A, req), Some(Ok(())), "answered {answered}");
        assert_eq!((net.left(A).len(), net.left(B).len()), (0, 0));
    }
}

#[test]
fn gone_leaves_whole_messages_and_takes_the_others() {
    let mut net = Net::joined();
    net.settle();
    net.send(A, B, 1, 8);
    net.send(A, B, 2, 5000);
    net.send(A, B, 3, 100_000);
    net.settle();
    net.delay_next(A, Kind::Fragment, SECOND);
    net.send(A, B, 4, 5000);
    net.run_for(DELAY_NS + US);
    let bound = net.recv(B, tagged(4), 5000);
    died(&mut net, B, A);
    let gone = Failure::Gone(GoneReason::Died);
    assert_eq!(net.got(B, bound).unwrap().result, Err(gone));
    assert_eq!(net.ep(B).probe(&tagged(3)), None, "announced only: it vanishes");
    let (first, second) = (net.recv(B, tagged(1), 8), net.recv(B, tagged(2), 5000));
    net.assert_got(B, first, 1, 8);
    net.assert_got(B, second, 2, 5000);
    assert_eq!(net.left(B), [Some(GoneReason::Died)]);
    died(&mut net, B, A); // again: nothing
    assert_eq!(net.left(B).len(), 1);
}

#[test]
fn whole_messages_ahead_of_their_turn_have_it_when_the_association_ends() {
    for posted in [true, false] {
        let mut net = Net::joined();
        net.settle();
        net.drop_next(A, Kind::Eager);
        net.send(A, B, 1, 8);
        net.run_for(US);
        let accepted = net.send(A, B, 2, 16);
        net.send(A, B, 3, 24);
        let early = posted.then(|| net.recv(B, tagged(2), 16));
        net.run_for(DELAY_NS + US);
        net.mute(B);
        net.run_for(DELAY_NS);
        net.kill(A);
        died(&mut net, B, A);
        net.run_for(MS);
        let recv = early.unwrap_or_else(|| net.recv(B, tagged(2), 16));
        net.assert_got(B, recv, 2, 16);
        let next = net.recv(B, anything(), 24);
        net.assert_got(B, next, 3, 24);
        assert_eq!(net.ep(B).held(), (0, 0));
        let _ = accepted;
    }
}

#[test]
fn messages_of_the_former_life_come_before_those_of_the_new() {
    let mut net = Net::joined();
    net.settle();
    net.drop_next(A, Kind::Eager);
    net.send(A, B, 1, 8);
    net.run_for(US);
    net.send(A, B, 2, 8);
    net.run_for(DELAY_NS + US);
    net.restart(A);
    net.send(A, B, 3, 8);
    net.settle();
    let (old, new) = (net.recv(B, anything(), 8), net.recv(B, anything(), 8));
    net.assert_got(B, old, 2, 8);
    net.assert_got(B, new, 3, 8);
}

#[test]
fn next_send_opens_a_new_association() {
    let mut net = Net::joined();
    died(&mut net, A, B);
    died(&mut net, B, A);
    let recv = net.recv(B, tagged(1), 8);
    let req = net.send(A, B, 1, 8);
    net.settle();
    assert_eq!(net.sent(A, req), Some(Ok(())));
    net.assert_got(B, recv, 1, 8);
    assert_eq!(net.joins(A), 1);
}

#[test]
fn close_is_clean_when_everybody_heard_it() {
    let mut net = Net::new(3);
    net.join(A, B);
    net.join(A, C);
    let idle = net.recv(A, tagged(1), 8);
    let last = net.send(A, B, 5, 50_000);
    let recv = net.recv(B, tagged(5), 50_000);
    close(&mut net, A);
    close(&mut net, A); // twice is once
    assert_eq!(net.unlinked(A, idle.req), Some(Some(Failure::Closing)), "receives end now");
    let (b, c) = (net.nodes[B].ep.address(), net.nodes[C].ep.address());
    let now = net.now;
    assert_eq!(net.ep(A).add_peer(&b), Err(PeerError::Closing));
    assert_eq!(net.ep(A).add_peer(&c), Err(PeerError::Closing));
    net.settle();
    assert_eq!(net.closed(A), Some(true));
    assert!(net.ep(A).is_closed());
    assert_eq!(net.sent(A, last), Some(Ok(())), "sends linger until accepted");
    net.assert_got(B, recv, 5, 50_000);
    assert_eq!((net.left(B), net.left(C)), (vec![None], vec![None]));
    let peer = PeerId(0);
    let spec = SendSpec {
        peer,
        space: Space(0),
        tag: Tag(0),
        immediate: None,
        payload: Payload::Copied(&[]),
        until_matched: false,
        user: 0,
    };
    assert_eq!(net.ep(A).post_send(now, spec), Err(PostError::Closing));
    let spec = net.recv_spec(A, anything(), 8);
    let Node { ep, ram, .. } = &mut net.nodes[A];
    assert_eq!(ep.post_recv(now, spec, ram), Err(PostError::Closing));
    assert_eq!(net.ep(A).next_timeout(), Instant::NEVER);
    let frames = net.count(A, "frames_in");
    net.send(B, A, 1, 8);
    net.run_for(SECOND);
    assert_eq!(net.count(A, "frames_in"), frames, "closed: it hears nothing");
}

#[test]
fn goodbye_is_answered_at_once() {
    let mut net = Net::joined();
    net.settle();
    close(&mut net, A);
    net.run_for(RTT_NS);
    assert_eq!(net.closed(A), Some(true));
}

#[test]
fn endpoint_without_peers_closes_at_once() {
    let mut net = Net::new(1);
    close(&mut net, A);
    net.run_for(US);
    assert_eq!(net.closed(A), Some(true));
}

#[test]
fn endpoint_that_sent_to_itself_closes_clean() {
    let mut net = Net::new(1);
    net.recv(A, tagged(1), 1000);
    net.send(A, A, 1, 1000);
    close(&mut net, A);
    net.settle();
    assert_eq!(net.closed(A), Some(true));
}

#[test]
fn goodbye_completes_what_was_accepted_though_the_ack_was_lost() {
    let mut net = Net::joined();
    net.settle();
    net.rule(usize::MAX, |s| s.from == B && s.says() == [Kind::Ack], Fate::Drop);
    let accepted = [net.send(A, B, 1, 8), net.send(A, B, 2, 5000)];
    net.run_for(DELAY_NS + 50 * US); // B's Ack has left, and is lost
    assert_eq!((net.sent(A, accepted[0]), net.count(A, "probes")), (None, 0));
    net.hold_next(A, Kind::Eager); // this one B never sees
    let never = net.send(A, B, 4, 8);
    let large = net.send(A, B, 3, 100_000);
    let matched = net.send_matched(A, B, 5, 8);
    net.run_for(US);
    close(&mut net, B);
    net.run_for(US);
    net.mute(A);
    net.run_for(DELAY_NS);
    for req in accepted {
        assert_eq!(net.sent(A, req), Some(Ok(())));
    }
    for req in [never, large, matched] {
        assert_eq!(net.sent(A, req), Some(Err(Failure::Closed)));
    }
    assert_eq!(net.left(A), [None]);
}

#[test]
fn lost_goodbye_is_repeated() {
    let mut net = Net::joined();
    net.settle();
    net.drop_next(A, Kind::Goodbye);
    close(&mut net, A);
    net.settle();
    assert_eq!((net.closed(A), net.left(B)), (Some(true), vec![None]));
    assert_eq!(net.seen(A, Kind::Goodbye), 2);
}

#[test]
fn lost_answer_to_a_goodbye_is_given_again() {
    let mut net = Net::joined();
    net.settle();
    net.drop_next(B, Kind::Reset);
    close(&mut net, A);
    let start = net.now;
    net.run_until(|net| net.closed(A).is_some());
    assert_eq!(net.closed(A), Some(true));
    assert!(net.now - start < 5 * SECOND, "{} ns", net.now - start);
    assert_eq!(net.left(B), [None]);
}

#[test]
fn both_close_at_once() {
    for lead_ns in [0, DELAY_NS / 2, DELAY_NS, RTT_NS] {
        let mut net = Net::joined();
        net.settle();
        let sends = [net.send(A, B, 1, 8), net.send(B, A, 1, 8)];
        close(&mut net, A);
        net.run_for(lead_ns);
        close(&mut net, B);
        net.settle();
        assert_eq!((net.closed(A), net.closed(B)), (Some(true), Some(true)), "{lead_ns}");
        assert_eq!((net.sent(A, sends[0]), net.sent(B, sends[1])), (Some(Ok(())), Some(Ok(()))));
    }
}

#[test]
fn large_messages_to_one_who_closes_are_sent_back() {
    for announced in [true, false] {
        let mut net = Net::joined();
        net.settle();
        let mut req = None;
        if announced {
            req = Some(net.send(A, B, 1, 100_000));
            net.settle();
            let claimed = net.send(A, B, 2, 100_000);
            net.settle();
            net.claim(B, &tagged(2)).unwrap();
            let _ = claimed;
        }
        let linger = net.send_matched(B, A, 9, 8); // keeps B lingering
        close(&mut net, B);
        net.run_for(MS);
        let req = req.unwrap_or_else(|| net.send(A, B, 1, 100_000));
        net.run_for(MS);
        let sent = net.sent(A, req);
        assert_eq!(sent, Some(Err(Failure::CancelledByPeer)), "announced {announced}");
        let eager = net.send(A, B, 3, 8);
        net.run_for(MS);
        assert_eq!(net.sent(A, eager), Some(Ok(())), "accepted and dropped");
        net.recv(A, tagged(9), 8);
        net.settle();
        assert_eq!((net.sent(B, linger), net.closed(B)), (Some(Ok(())), Some(true)));
    }
}

#[test]
fn linger_is_given_up() {
    let mut net = Net::pair(|settings, _| settings.linger_ns = 5 * SECOND);
    net.join(A, B);
    net.kill(B);
    let req = net.send(A, B, 1, 8);
    close(&mut net, A);
    net.run_for(4 * SECOND);
    assert_eq!(net.closed(A), None);
    net.run_for(2 * SECOND);
    assert_eq!(net.closed(A), Some(false));
    assert_eq!(net.sent(A, req), Some(Err(Failure::Closing)));
}

#[test]
fn contact_that_said_nothing_yet_ends_with_its_close() {
    let mut net = Net::new(2);
    net.kill(B);
    let req = net.send(A, B, 1, 8);
    net.run_for(MS);
    assert!(net.nodes[A].ep.cancel(net.now, req));
    close(&mut net, A);
    net.run_for(MS);
    assert_eq!(net.closed(A), Some(true));
}

#[test]
fn closing_endpoint_makes_no_new_friends() {
    let mut net = Net::new(3);
    net.join(A, B);
    net.send_matched(A, B, 1, 8); // unmatched: keeps it lingering
    close(&mut net, A);
    net.run_for(MS);
    let req = net.send(C, A, 1, 8);
    net.run_for(SECOND);
    assert_eq!((net.sent(C, req), net.count(A, "joined")), (None, 1));
}

#[test]
fn directed_receive_stays_after_goodbye_and_fails_when_the_peer_is_gone() {
    let mut net = Net::joined();
    let recv = net.recv_from(A, B, 1, 8);
    let other = net.recv_from(A, B, 2, 8);
    close(&mut net, B);
    net.settle();
    assert_eq!(net.left(A), [None]);
    assert_eq!(net.unlinked(A, recv.req), None);
    net.restart(B);
    net.send(B, A, 1, 8); // it comes back
    net.settle();
    net.assert_got(A, recv, 1, 8);
    died(&mut net, A, B);
    assert_eq!(net.unlinked(A, other.req), Some(Some(Failure::Gone(GoneReason::Died))));
}

#[test]
fn forgotten_peer_takes_everything_with_it() {
    let mut net = Net::joined();
    net.settle();
    net.send(A, B, 1, 8);
    net.send(A, B, 2, 100_000);
    let unsent = net.send(B, A, 3, 100_000);
    net.settle();
    let directed = net.recv_from(B, A, 9, 8);
    let (row, now) = (net.peer(B, A), net.now);
    net.ep(B).forget_peer(now, row);
    let gone = Failure::Gone(GoneReason::Forgotten);
    assert_eq!(net.sent(B, unsent), Some(Err(gone)));
    assert_eq!(net.unlinked(B, directed.req), Some(Some(gone)));
    assert_eq!(net.ep(B).probe(&anything()), None);
    assert_eq!(net.ep(B).held(), (0, 0));
    assert!(!net.ep(B).is_joined(row));
    let recv = net.recv(B, tagged(4), 8);
    net.settle();
    net.send(A, B, 4, 8);
    net.settle();
    net.send(A, B, 4, 8); // the first may have met the reset
    net.settle();
    net.assert_got(B, recv, 4, 8);
}

#[test]
fn goodbye_and_close_drop_what_is_held() {
    let mut net = Net::new(3);
    net.join(A, B);
    net.send(A, B, 1, 8);
    net.settle();
    net.drop_where(|sight| sight.has(Kind::Eager) && sight.bytes.len() == 48);
    net.send(A, B, 2, 8);
    net.run_for(US);
    net.send(A, B, 3, 16); // whole, before its turn
    net.run_for(DELAY_NS);
    assert_eq!(net.ep(B).held().1, 2);
    net.send_matched(B, C, 9, 8); // keeps it lingering
    close(&mut net, B);
    net.run_for(SECOND);
    assert_eq!((net.left(B), net.closed(B)), (vec![None], None), "A has left, C has not");
    assert_eq!(net.ep(B).held(), (0, 0));
    assert_eq!(net.seen(B, Kind::Done), 0, "they were accepted: there is nothing to tell");
    net.recv(C, tagged(9), 8);
    net.settle();
    assert_eq!(net.closed(B), Some(true));
}

#[test]
fn close_ends_overflow_entries_and_who_waits_for_them() {
    let mut net = Net::joined();
    net.settle();
    let spec = net.recv_spec(B, anything(), 1 << 20);
    let over = net.post_recv(B, RecvSpec { list: List::Overflow, ..spec });
    net.send(A, B, 1, 1 << 20);
    net.run_until(|net| net.ep(B).probe(&tagged(1)).is_some());
    let claimant = net.recv(B, tagged(1), 0);
    close(&mut net, B);
    net.settle();
    assert_eq!(net.closed(B), Some(true));
    assert!(net.got(B, claimant).unwrap().result.is_err());
    assert!(net.unlinked(B, over.req).is_some() || net.got(B, over).is_some());
}

#[test]
fn goodbye_tells_of_a_message_that_is_not_whole() {
    let mut net = Net::joined();
    net.settle();
    let first = net.send(A, B, 1, 8);
    net.run_for(MS);
    net.drop_where(|s| s.from == A && s.has(Kind::Fragment) && s.bytes.len() < 1000);
    net.drop_where(|s| s.from == B && s.says() == [Kind::Ack]);
    let partial = net.send(A, B, 2, 5000); // its last fragment does not come
    net.run_for(DELAY_NS + 50 * US);
    close(&mut net, B);
    net.mute(A);
    net.run_for(DELAY_NS + US);
    assert_eq!(net.sent(A, first), Some(Ok(())));
    assert_eq!(net.sent(A, partial), Some(Err(Failure::Closed)));
}

#[test]
fn end_of_an_association_takes_its_refusal_and_its_cancels_along() {
    let tight = Plan::with(|_, limits| limits.envelope_count_max = 4);
    let mut net = Net::of(&[Plan::default(), tight]);
    net.join(A, B);
    net.settle();
    for tag in 0..8 {
        net.send(A, B, tag, 8);
        net.run_for(US);
    }
    net.run_for(DELAY_NS);
    assert_eq!(net.count(B, "refusals"), 1);
    net.forge(A, B, |writer| writer.cancel(500), &[]); // a number far ahead
    died(&mut net, B, A);
    died(&mut net, A, B);
    for tag in 0..4 {
        let recv = net.recv(B, tagged(tag), 8);
        net.assert_got(B, recv, tag, 8);
    }
    let recv = net.recv(B, tagged(50), 8);
    net.send(A, B, 50, 8);
    net.settle();
    net.assert_got(B, recv, 50, 8);
    assert_eq!(net.ep(B).held(), (0, 0));
}

#[test]
fn claimed_remains_survive_a_second_end() {
    let mut net = Net::new(2);
    net.send(A, B, 2, 100_000);
    net.settle();
    let (claim, _) = net.claim(B, &tagged(2)).unwrap();
    died(&mut net, B, A);
    died(&mut net, A, B);
    net.send(A, B, 3, 8);
    net.settle();
    died(&mut net, B, A);
    let recv = net.recv_claimed(B, claim, 100_000).unwrap();
    let gone = Failure::Gone(GoneReason::Died);
    assert_eq!(net.got(B, recv).unwrap().result, Err(gone));
}

#[test]
fn closed_endpoint_does_nothing_whatever_the_clock_says() {
    let mut net = Net::new(1);
    close(&mut net, A);
    net.run_for(US);
    let Node { ep, ram, .. } = &mut net.nodes[A];
    ep.on_timeout(Instant::NEVER, ram);
    assert!(!ep.poll_transmit(Instant::NEVER, &mut TxFrame::default()));
    assert_eq!(net.closed(A), Some(true));
}

#[test]
fn forgotten_peer_leaves_no_timer_and_no_turn_behind() {
    let mut net = Net::new(3);
    net.join(A, B);
    net.join(C, B);
    net.settle();
    net.recv(B, tagged(1), 8);
    net.send(A, B, 1, 8);
    net.run_for(DELAY_NS); // an Ack is due in a while
    net.send(B, C, 2, 8);
    net.send(B, A, 3, 8); // both rows want to send
    let recv = net.recv(C, tagged(2), 8);
    let (row, now) = (net.peer(B, A), net.now);
    net.ep(B).forget_peer(now, row);
    net.run_for(10 * MS);
    net.assert_got(C, recv, 2, 8);
}
