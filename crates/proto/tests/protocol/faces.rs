//! PROTOCOL §9: what the faces of other interfaces need of matching: probe, claim, discard, overflow, many uses.

use packhorse_proto::*;

use crate::net::*;

fn from_any(tag: u64, ignore: u64) -> Criteria {
    Criteria { ignore, ..tagged(tag) }
}

#[test]
fn posted_receives_are_searched_in_the_order_of_their_posts() {
    let mut net = Net::new(2);
    let wild = net.recv(B, from_any(0, 0xFF), 8);
    let exact = net.recv(B, tagged(3), 8);
    let other = net.recv(B, tagged(4), 8);
    net.send(A, B, 4, 8);
    net.send(A, B, 3, 8);
    net.settle();
    net.assert_got(B, wild, 4, 8);
    net.assert_got(B, exact, 3, 8);
    assert_eq!(net.got(B, other), None);
}

#[test]
fn unexpected_messages_are_searched_in_the_order_of_arrival() {
    let mut net = Net::new(3);
    net.send(A, B, 1, 8);
    net.settle();
    net.send(C, B, 1, 16);
    net.settle();
    net.send(A, B, 1, 24);
    net.settle();
    let from_c = net.recv_from(B, C, 1, 24);
    let first = net.recv(B, tagged(1), 24);
    let second = net.recv(B, from_any(0, u64::MAX), 24);
    net.assert_got(B, from_c, 1, 16);
    net.assert_got(B, first, 1, 8);
    net.assert_got(B, second, 1, 24);
}

#[test]
fn probe_shows_and_leaves() {
    let mut net = Net::new(2);
    for (tag, len) in [(1, 8), (2, 5000), (3, 100_000)] {
        let spec = SendSpec { immediate: Some(tag), ..net.spec(A, B, tag, len) };
        net.post(A, spec);
    }
    net.settle();
    assert_eq!(net.ep(B).probe(&tagged(9)), None);
    for _ in 0..2 {
        for (tag, len) in [(1, 8), (2, 5000), (3, 100_000)] {
            let envelope = net.ep(B).probe(&tagged(tag)).unwrap();
            assert_eq!((envelope.tag, envelope.len), (Tag(tag), len));
            assert_eq!(envelope.immediate, Some(tag));
        }
        assert_eq!(net.ep(B).probe(&anything()).unwrap().tag, Tag(1), "the oldest");
    }
    assert_eq!(net.ep(B).held().1, 3);
}

#[test]
fn claimed_message_is_received_or_discarded_once() {
    for len in [0, 8, 5000, 100_000] {
        let mut net = Net::new(2);
        let kept = net.send_matched(A, B, 1, len);
        let dropped = net.send_matched(A, B, 2, len);
        net.settle();
        let (claim, envelope) = net.claim(B, &tagged(1)).unwrap();
        assert_eq!(envelope.len, len as u64);
        assert!(net.claim(B, &tagged(1)).is_none(), "out of the list");
        assert_eq!(net.ep(B).probe(&tagged(1)), None);
        let recv = net.recv_claimed(B, claim, len).unwrap();
        let (other, _) = net.claim(B, &tagged(2)).unwrap();
        let now = net.now;
        assert_eq!(net.ep(B).discard(now, other), Ok(()));
        assert_eq!(net.ep(B).discard(now, other), Err(PostError::UnknownHandle));
        assert_eq!(net.recv_claimed(B, claim, len).unwrap_err(), PostError::UnknownHandle);
        net.settle();
        net.assert_got(B, recv, 1, len);
        assert_eq!(net.sent(A, kept), Some(Ok(())));
        assert_eq!(net.sent(A, dropped), Some(Ok(())), "for its sender it was received: {len}");
        let told = (net.told_len(A, kept), net.told_len(A, dropped));
        assert_eq!(told, (Some(len as u64), Some(0)), "all of one, nothing of the other");
        assert_eq!(net.ep(B).held(), (0, 0));
    }
}

#[test]
fn claim_of_a_message_that_is_still_arriving_holds() {
    for len in [10_000, 100_000] {
        let mut net = Net::joined();
        net.settle();
        net.delay_next(A, Kind::Fragment, 5 * MS);
        net.send(A, B, 1, len);
        net.run_until(|net| net.ep(B).probe(&tagged(1)).is_some());
        let (claim, _) = net.claim(B, &tagged(1)).unwrap();
        net.run_for(20 * MS);
        let recv = net.recv_claimed(B, claim, len).unwrap();
        net.settle();
        net.assert_got(B, recv, 1, len);
    }
}

#[test]
fn claimed_message_whose_sender_goes_is_told_so() {
    for discard in [false, true] {
        let mut net = Net::new(2);
        net.send(A, B, 1, 8);
        net.send(A, B, 2, 100_000);
        net.settle();
        let (whole, _) = net.claim(B, &tagged(1)).unwrap();
        let (part, _) = net.claim(B, &tagged(2)).unwrap();
        let (row, now) = (net.peer(B, A), net.now);
        net.ep(B).on_peer_died(now, row);
        if discard {
            assert_eq!(net.ep(B).discard(now, part), Ok(()));
            assert_eq!(net.ep(B).discard(now, whole), Ok(()));
            assert_eq!(net.ep(B).held(), (0, 0));
            continue;
        }
        let recv = net.recv_claimed(B, part, 100_000).unwrap();
        let gone = Failure::Gone(GoneReason::Died);
        assert_eq!(net.got(B, recv).unwrap().result, Err(gone));
        let recv = net.recv_claimed(B, whole, 8).unwrap();
        net.assert_got(B, recv, 1, 8);
    }
}

#[test]
fn claimed_message_whose_sender_cancels_is_told_so() {
    let mut net = Net::new(2);
    let req = net.send(A, B, 2, 100_000);
    net.settle();
    let (claim, _) = net.claim(B, &tagged(2)).unwrap();
    net.nodes[A].ep.cancel(net.now, req);
    net.settle();
    let recv = net.recv_claimed(B, claim, 100_000).unwrap();
    assert!(net.got(B, recv).unwrap().result.is_err());
    assert_eq!(net.ep(B).held(), (0, 0));
}

#[test]
fn header_only_receive_takes_the_envelope_and_no_byte() {
    for len in [0, 8, 5000, 100_000] {
        for posted in [true, false] {
            let mut net = Net::new(2);
            let spec = RecvSpec { header_only: true, ..net.recv_spec(B, tagged(1), 4) };
            let early = posted.then(|| net.post_recv(B, spec));
            let req = net.send_matched(A, B, 1, len);
            net.settle();
            let recv = early.unwrap_or_else(|| net.post_recv(B, spec));
            net.settle();
            let got = net.got(B, recv).unwrap();
            assert_eq!((got.result, got.placed_len, got.envelope.len), (Ok(()), 0, len as u64));
            assert_eq!(net.bytes(B, recv.buf), [0xEE; 4]);
            assert_eq!(net.sent(A, req), Some(Ok(())));
        }
    }
}

fn many(net: &mut Net, len: usize, free_len_min: u64) -> Recv {
    let uses = Use::Many { free_len_min };
    let spec = RecvSpec { uses, ..net.recv_spec(B, tagged(1), len) };
    net.post_recv(B, spec)
}

#[test]
fn unlinked_entry_takes_no_more() {
    let mut net = Net::joined();
    let (once, recv) = (net.recv(B, tagged(2), 8), many(&mut net, 1000, 1));
    let send = net.send(A, B, 1, 100);
    net.settle();
    assert!(!net.ep(B).unlink(once.req) && !net.ep(A).unlink(send), "no such entry");
    assert_eq!(net.unlinked(B, recv.req), None);
    assert!(net.ep(B).unlink(recv.req));
    assert_eq!(net.unlinked(B, recv.req), Some(None));
    assert!(!net.ep(B).unlink(recv.req), "it is over");
    net.send(A, B, 1, 200);
    net.settle();
    assert_eq!(net.all_got(B, recv.req).len(), 1);
    assert_eq!(net.ep(B).held().1, 1, "nobody takes the second");
}

#[test]
fn entry_used_many_times_places_one_behind_the_other_until_full() {
    for posted in [true, false] {
        let mut net = Net::new(2);
        let early = posted.then(|| many(&mut net, 10_000, 1000));
        for len in [100, 0, 2000, 5000, 1500] {
            net.send(A, B, 1, len);
        }
        net.settle();
        let recv = early.unwrap_or_else(|| many(&mut net, 10_000, 1000));
        net.settle();
        assert_eq!(net.unlinked(B, recv.req), None, "1400 bytes are free");
        net.send(A, B, 1, 500);
        net.settle();
        let got = net.all_got(B, recv.req);
        let places: Vec<(u64, u64)> = got.iter().map(|got| (got.offset, got.placed_len)).collect();
        let expected = [(0, 100), (100, 0), (100, 2000), (2100, 5000), (7100, 1500), (8600, 500)];
        assert_eq!(places, expected);
        for got in &got {
            let at = got.offset as usize;
            let len = got.placed_len as usize;
            assert!(net.bytes(B, recv.buf)[at..at + len] == pattern(1, len));
        }
        assert_eq!(net.unlinked(B, recv.req), Some(None), "900 are too few");
        net.send(A, B, 1, 8);
        net.settle();
        assert_eq!(net.all_got(B, recv.req).len(), 6);
    }
}

#[test]
fn entry_used_many_times_takes_large_messages_and_truncates_the_last() {
    let mut net = Net::new(2);
    let recv = many(&mut net, 150_000, 1);
    let reqs = [net.send(A, B, 1, 100_000), net.send(A, B, 1, 100_000)];
    net.settle();
    let got = net.all_got(B, recv.req);
    let mut places: Vec<(u64, u64)> = got.iter().map(|got| (got.offset, got.placed_len)).collect();
    places.sort_unstable();
    assert_eq!(places, [(0, 100_000), (100_000, 50_000)]);
    assert_eq!(net.unlinked(B, recv.req), Some(None));
    for req in reqs {
        assert_eq!(net.sent(A, req), Some(Ok(())));
    }
}

#[test]
fn unlinked_comes_after_the_last_message_of_an_entry() {
    let mut net = Net::new(2);
    let recv = many(&mut net, 100_008, 1000);
    net.send(A, B, 1, 100_000); // fills the entry, and takes long
    net.settle();
    assert_eq!(net.unlinked(B, recv.req), Some(None));
    let events = &net.nodes[B].events;
    let received = events.iter().position(|e| matches!(e, Event::Received { .. }));
    let unlinked = events.iter().position(|e| matches!(e, Event::Unlinked { .. }));
    assert!(received.is_some() && received < unlinked, "{events:?}");
}

#[test]
fn cancelled_entry_swallows_what_arrives_into_it() {
    let mut net = Net::joined();
    let recv = many(&mut net, 1 << 20, 1);
    let req = net.send(A, B, 1, 500_000);
    net.run_for(2 * RTT_NS);
    assert!(net.cancel(B, recv.req, recv.buf));
    net.settle();
    assert_eq!(net.unlinked(B, recv.req), Some(Some(Failure::Cancelled)));
    assert_eq!(net.sent(A, req), Some(Err(Failure::CancelledByPeer)));
}

#[test]
fn a_receive_that_a_message_is_arriving_into_cannot_be_taken_back_without_cost_and_is_not() {
    let mut net = Net::joined();
    let (waiting, arriving) = (net.recv(B, tagged(2), 8), net.recv(B, tagged(1), 500_000));
    let req = net.send(A, B, 1, 500_000);
    net.run_for(2 * RTT_NS);
    let now = net.now;
    assert!(!net.nodes[B].ep.cancel_unbound(now, arriving.req));
    assert!(net.nodes[B].ep.cancel_unbound(now, waiting.req));
    assert!(!net.nodes[A].ep.cancel_unbound(now, req), "a send");
    net.settle();
    assert!(net.got(B, arriving).is_some());
    assert_eq!(net.sent(A, req), Some(Ok(())));
    assert_eq!(net.unlinked(B, waiting.req), Some(Some(Failure::Cancelled)));
}

fn overflow(net: &mut Net, len: usize, uses: Use) -> Recv {
    let spec = net.recv_spec(B, anything(), len);
    net.post_recv(B, RecvSpec { list: List::Overflow, uses, ..spec })
}

#[test]
fn overflow_entry_does_not_take_what_came_before_it() {
    let mut net = Net::joined();
    net.settle();
    net.send(A, B, 1, 8);
    net.run_until(|net| net.ep(B).probe(&tagged(1)).is_some());
    let over = overflow(&mut net, 100, Use::Once);
    net.settle();
    assert!(net.got(B, over).is_none(), "it is for what comes");
    assert!(net.ep(B).probe(&tagged(1)).is_some(), "and what came is still there");
    let recv = net.recv(B, tagged(1), 8);
    net.settle();
    net.assert_got(B, recv, 1, 8);
}

fn overflowed(net: &mut Net, req: ReqId) -> Option<(Envelope, u64, u64, u64)> {
    net.sent(B, req); // drains the events
    net.nodes[B].events.iter().find_map(|event| match *event {
        Event::Overflowed { req: ended, envelope, overflow_user, offset, placed_len, .. }
            if ended == req =>
        {
            Some((envelope, overflow_user, offset, placed_len))
        }
        _ => None,
    })
}

#[test]
fn priority_list_is_searched_before_overflow() {
    let mut net = Net::new(2);
    let over = overflow(&mut net, 1000, Use::Many { free_len_min: 1 });
    let recv = net.recv(B, tagged(1), 8);
    net.send(A, B, 1, 8);
    net.settle();
    net.assert_got(B, recv, 1, 8);
    assert_eq!(net.all_got(B, over.req), []);
}

#[test]
fn overflow_memory_holds_messages_until_a_receive_matches() {
    for lengths in [[8, 16, 24], [5000, 8, 6000], [100_000, 8, 40_000]] {
        let mut net = Net::new(2);
        let over = overflow(&mut net, 200_000, Use::Many { free_len_min: 1 });
        let reqs: Vec<ReqId> =
            (0..3).map(|tag| net.send_matched(A, B, tag, lengths[tag as usize])).collect();
        net.settle();
        assert_eq!(net.ep(B).held().0, 0, "no memory of ours");
        assert_eq!(net.ep(B).held().1, 3, "but envelopes");
        assert!(net.claim(B, &tagged(0)).is_none(), "found by posting only");
        for tag in [1, 0, 2] {
            let len = lengths[tag as usize];
            let recv = net.recv(B, tagged(tag), 0);
            let (envelope, user, offset, placed_len) = overflowed(&mut net, recv.req).unwrap();
            assert_eq!((envelope.tag, envelope.len), (Tag(tag), len as u64));
            assert_eq!((user, placed_len), (over.buf.0, len as u64));
            let at = offset as usize;
            assert!(net.bytes(B, over.buf)[at..at + len] == pattern(tag, len));
        }
        net.settle();
        for req in reqs {
            assert_eq!(net.sent(A, req), Some(Ok(())), "{lengths:?}");
        }
        assert_eq!(net.ep(B).held(), (0, 0));
    }
}

#[test]
fn message_whole_in_overflow_memory_stays_though_its_sender_cancels() {
    for len in [8, 5000] {
        let mut net = Net::joined();
        let over = overflow(&mut net, 200_000, Use::Many { free_len_min: 1 });
        let spec = SendSpec { until_matched: true, ..net.spec(A, B, 1, len) };
        let Payload::InPlace { buf, .. } = spec.payload else { panic!("in place") };
        let req = net.post(A, spec);
        net.settle();
        assert!(net.cancel(A, req, buf));
        net.settle();
        let recv = net.recv(B, tagged(1), 0);
        let (_, _, offset, placed_len) = overflowed(&mut net, recv.req).expect("still there");
        let at = offset as usize;
        assert_eq!(placed_len, len as u64);
        assert!(net.bytes(B, over.buf)[at..at + len] == pattern(1, len));
    }
}

#[test]
fn receive_posted_while_the_message_arrives_in_overflow_waits_for_it() {
    for len in [10_000, 100_000] {
        let mut net = Net::joined();
        net.settle();
        let over = overflow(&mut net, 100_000, Use::Once);
        let kind = if len > 32 << 10 { Kind::Data } else { Kind::Fragment };
        net.delay_next(A, kind, 10 * MS);
        net.send(A, B, 1, len);
        net.run_until(|net| net.ep(B).probe(&tagged(1)).is_some());
        let recv = net.recv(B, tagged(1), 0);
        assert_eq!(overflowed(&mut net, recv.req), None);
        net.settle();
        let (.., placed_len) = overflowed(&mut net, recv.req).expect("whole now");
        assert_eq!(placed_len, len as u64);
        assert_eq!(net.unlinked(B, over.req), Some(None), "used once");
        assert!(net.bytes(B, over.buf)[..len] == pattern(1, len));
    }
}

#[test]
fn full_overflow_entry_is_unlinked_when_its_last_message_has_left() {
    let mut net = Net::new(2);
    let over = overflow(&mut net, 100, Use::Many { free_len_min: 50 });
    net.send(A, B, 1, 40);
    net.send(A, B, 2, 40);
    net.send(A, B, 3, 40);
    net.settle();
    assert_eq!(net.unlinked(B, over.req), None);
    for tag in [2, 1] {
        let recv = net.recv(B, tagged(tag), 0);
        assert!(overflowed(&mut net, recv.req).is_some());
    }
    assert_eq!(net.unlinked(B, over.req), Some(None));
    let third = net.recv(B, tagged(3), 40);
    net.assert_got(B, third, 3, 40); // it found the entry full and was held
}

#[test]
fn overflow_needs_an_envelope_of_the_budget() {
    let tight = Plan::with(|_, limits| limits.envelope_count_max = 4);
    let mut net = Net::of(&[Plan::default(), tight]);
    overflow(&mut net, 1000, Use::Many { free_len_min: 1 });
    for tag in 0..8 {
        net.send(A, B, tag, 8);
    }
    net.settle();
    assert!(net.count(B, "refusals") > 0);
    assert!(net.ep(B).held().1 <= 4);
    for tag in 0..8 {
        let recv = net.recv(B, tagged(tag), 8);
        net.settle();
        let done = overflowed(&mut net, recv.req).is_some() || net.got(B, recv).is_some();
        assert!(done, "message {tag}");
    }
}

#[test]
fn cancelled_claimant_of_an_overflow_message_spends_it() {
    let mut net = Net::joined();
    net.settle();
    let over = overflow(&mut net, 1 << 20, Use::Once);
    let req = net.send(A, B, 1, 1 << 20);
    net.run_until(|net| net.ep(B).probe(&tagged(1)).is_some());
    let recv = net.recv(B, tagged(1), 0);
    assert!(net.nodes[B].ep.cancel(net.now, recv.req));
    net.settle();
    assert_eq!(net.got(B, recv).unwrap().result, Err(Failure::Cancelled));
    assert_eq!(net.unlinked(B, over.req), Some(None));
    assert_eq!(net.sent(A, req), Some(Err(Failure::CancelledByPeer)));
}

#[test]
fn cancelled_overflow_entry_takes_its_messages_and_claimants_with_it() {
    let mut net = Net::joined();
    net.settle();
    let over = overflow(&mut net, 1 << 21, Use::Many { free_len_min: 1 });
    net.send(A, B, 2, 8);
    let req = net.send(A, B, 1, 1 << 20);
    net.run_until(|net| net.ep(B).probe(&tagged(1)).is_some());
    let claimant = net.recv(B, tagged(1), 0);
    assert!(net.cancel(B, over.req, over.buf));
    net.settle();
    assert_eq!(net.unlinked(B, over.req), Some(Some(Failure::Cancelled)));
    assert_eq!(net.got(B, claimant).unwrap().result, Err(Failure::Cancelled));
    assert_eq!(net.sent(A, req), Some(Err(Failure::CancelledByPeer)));
    assert_eq!(net.ep(B).probe(&anything()), None);
    assert_eq!(net.ep(B).held(), (0, 0));
}

#[test]
fn overflow_messages_end_with_their_sender_unless_whole() {
    let mut net = Net::joined();
    net.settle();
    overflow(&mut net, 1 << 21, Use::Many { free_len_min: 1 });
    net.send(A, B, 1, 8);
    net.send(A, B, 2, 1 << 20);
    net.run_until(|net| net.ep(B).probe(&tagged(2)).is_some());
    let claimant = net.recv(B, tagged(2), 0);
    let (row, now) = (net.peer(B, A), net.now);
    net.ep(B).on_peer_died(now, row);
    let gone = Failure::Gone(GoneReason::Died);
    assert_eq!(net.got(B, claimant).unwrap().result, Err(gone));
    let whole = net.recv(B, tagged(1), 0);
    assert!(overflowed(&mut net, whole.req).is_some());
}

#[test]
fn sender_cancels_a_message_that_arrives_in_overflow() {
    let mut net = Net::joined();
    net.settle();
    let over = overflow(&mut net, 1 << 20, Use::Once);
    let req = net.send(A, B, 1, 1 << 20);
    net.run_until(|net| net.ep(B).probe(&tagged(1)).is_some());
    let claimant = net.recv(B, tagged(1), 0);
    net.nodes[A].ep.cancel(net.now, req);
    net.settle();
    assert_eq!(net.got(B, claimant).unwrap().result, Err(Failure::CancelledByPeer));
    assert_eq!(net.unlinked(B, over.req), Some(None));
    assert_eq!(net.ep(B).held(), (0, 0));
}

#[test]
fn entry_that_is_full_of_what_was_here_is_never_posted() {
    let mut net = Net::new(2);
    for _ in 0..3 {
        net.send(A, B, 1, 100);
    }
    net.settle();
    let recv = many(&mut net, 200, 1);
    assert_eq!(net.all_got(B, recv.req).len(), 2);
    assert_eq!(net.unlinked(B, recv.req), Some(None));
    let rest = net.recv(B, tagged(1), 100);
    net.assert_got(B, rest, 1, 100);
    // The same while its last message is still arriving.
    net.send(A, B, 1, 100_000);
    net.settle();
    let recv = many(&mut net, 100_000, 1);
    assert_eq!(net.unlinked(B, recv.req), None);
    net.settle();
    assert_eq!(net.all_got(B, recv.req).len(), 1);
    assert_eq!(net.unlinked(B, recv.req), Some(None));
}

#[test]
fn entry_used_many_times_claims_from_overflow() {
    let mut net = Net::new(2);
    overflow(&mut net, 1000, Use::Many { free_len_min: 1 });
    for _ in 0..3 {
        net.send(A, B, 1, 100);
    }
    net.settle();
    let recv = many(&mut net, 200, 1);
    net.settle();
    assert_eq!(net.unlinked(B, recv.req), None);
    let events = net.nodes[B].events.iter();
    let claimed = events.filter(|e| matches!(e, Event::Overflowed { req, .. } if *req == recv.req));
    assert_eq!(claimed.count(), 3, "they need none of its memory");
}
