//! PROTOCOL §8.9: the first bytes of a large message ahead of their grant.

use packhorse_proto::*;

use crate::net::*;

const AHEAD_LEN: u32 = 64 << 10;

fn ready() -> Net {
    let mut net = Net::pair(|settings, _| settings.ahead_len = AHEAD_LEN);
    net.join(A, B);
    net.log.clear();
    net
}

fn first_grant(net: &Net) -> Option<u64> {
    let sights = net.sights(B, Kind::Grant);
    sights.first()?.view().records().find_map(|(record, _)| match record {
        wire::Record::Grant { offset, .. } => Some(offset),
        _ => None,
    })
}

#[test]
fn a_message_whose_receive_is_posted_needs_no_grant() {
    let mut net = ready();
    for tag in 1..=20 {
        let recv = net.recv(B, tagged(tag), 50_000);
        net.send(A, B, tag, 50_000);
        net.settle();
        net.assert_got(B, recv, tag, 50_000);
    }
    assert_eq!((net.count(B, "grants"), net.count(B, "granted_ahead")), (0, 20));
    assert_eq!(net.count(B, "data_unasked"), 0);
}

#[test]
fn of_a_longer_one_only_the_rest_is_granted() {
    let mut net = ready();
    let len = 2 * AHEAD_LEN as usize;
    let recv = net.recv(B, tagged(1), len);
    net.send(A, B, 1, len);
    net.settle();
    net.assert_got(B, recv, 1, len);
    assert_eq!(first_grant(&net), Some(AHEAD_LEN.into()));
}

#[test]
fn a_much_longer_one_asks_first() {
    let mut net = ready();
    let len = 2 * AHEAD_LEN as usize + 1;
    let recv = net.recv(B, tagged(1), len);
    net.send(A, B, 1, len);
    net.settle();
    net.assert_got(B, recv, 1, len);
    assert_eq!(net.count(B, "granted_ahead"), 0);
    assert!(first_grant(&net).is_some_and(|offset| offset < 1472), "behind the first bytes");
}

#[test]
fn what_comes_before_its_receive_is_dropped_and_granted_later_and_the_next_one_asks() {
    let mut net = ready();
    for tag in 1..=2 {
        net.send(A, B, tag, 50_000);
        net.settle();
        let recv = net.recv(B, tagged(tag), 50_000);
        net.settle();
        net.assert_got(B, recv, tag, 50_000);
    }
    let data_len =
        |net: &Net| net.sights(A, Kind::Data).iter().map(|it| it.bytes.len()).sum::<usize>();
    let len = data_len(&net);
    assert!((150_000..160_000).contains(&len), "the first one twice, the second once: {len}");
    // The pause is over, and the peer is quick now: from here on nothing asks.
    net.log.clear();
    for tag in 3..=10 {
        let recv = net.recv(B, tagged(tag), 50_000);
        net.send(A, B, tag, 50_000);
        net.settle();
        net.assert_got(B, recv, tag, 50_000);
    }
    assert_eq!(net.seen(B, Kind::Grant), 0);
}

#[test]
fn peers_that_are_never_quick_are_tried_ever_more_seldom() {
    let mut net = ready();
    for tag in 1..=200 {
        net.send(A, B, tag, 50_000);
        net.settle();
        let recv = net.recv(B, tagged(tag), 50_000);
        net.settle();
        net.assert_got(B, recv, tag, 50_000);
    }
    let len: usize = net.sights(A, Kind::Data).iter().map(|it| it.bytes.len()).sum();
    assert!(len < 210 * 52_000, "{len} bytes for {}", 200 * 50_000);
}

/// Its data comes before it does, and is gone: it is granted at once, not after long.
#[test]
fn a_lost_announcement_costs_a_grant() {
    let mut net = ready();
    let recv = net.recv(B, tagged(1), 50_000);
    net.drop_next(A, Kind::Rts);
    net.send(A, B, 1, 50_000);
    net.settle();
    net.assert_got(B, recv, 1, 50_000);
    assert_eq!(first_grant(&net), Some(0));
    assert_eq!(net.count(B, "grants_repeated"), 0);
}

#[test]
fn lost_data_is_sent_again() {
    for nth in 0..40 {
        let mut net = ready();
        let recv = net.recv(B, tagged(1), 50_000);
        net.send(A, B, 1, 50_000);
        (0..nth % 4).for_each(|_| net.drop_next(A, Kind::Data));
        net.settle();
        net.assert_got(B, recv, 1, 50_000);
    }
}

/// Frames go beyond the end of the receive.
#[test]
fn a_receive_that_is_too_short_gets_what_fits() {
    for len in [1, 1000, 10_000, 49_999] {
        let mut net = ready();
        let recv = net.recv(B, tagged(1), len);
        let req = net.send(A, B, 1, 50_000);
        net.settle();
        assert_eq!(net.sent(A, req), Some(Ok(())));
        assert_eq!(net.count(B, "grants") + net.count(B, "grants_repeated"), 0, "{len} bytes");
        assert!(net.bytes(B, recv.buf)[..len] == pattern(1, 50_000)[..len], "{len} bytes");
    }
}

/// What a peer claims is taken up to what was agreed to.
#[test]
fn no_more_is_taken_than_is_set() {
    let mut net = Net::of(&[
        Plan::with(|settings, _| settings.ahead_len = 1 << 20),
        Plan::with(|settings, _| settings.ahead_len = 3000),
    ]);
    net.join(A, B);
    net.log.clear();
    let recv = net.recv(B, tagged(1), 50_000);
    net.send(A, B, 1, 50_000);
    net.settle();
    net.assert_got(B, recv, 1, 50_000);
    assert_eq!(first_grant(&net), Some(5 * 3000));
    assert_eq!(net.count(B, "granted_ahead"), 1);
}

/// A receive that is posted between an announcement and the bytes behind it is as good as one that was there before.
#[test]
fn what_is_matched_before_its_data_is_looked_at_is_taken() {
    let mut net = ready();
    (0..40).for_each(|_| net.hold_next(A, Kind::Data));
    net.send(A, B, 1, 50_000);
    net.run_until(|net| net.count(B, "messages_unexpected") == 1);
    let recv = net.recv(B, tagged(1), 50_000);
    net.release();
    net.settle();
    net.assert_got(B, recv, 1, 50_000);
    assert_eq!((net.count(B, "grants"), net.count(B, "granted_ahead")), (0, 1));
}

/// One frame that was looked at too early is gone, and nothing is taken ahead.
#[test]
fn what_is_matched_after_some_of_its_data_was_dropped_is_granted_from_its_beginning() {
    let mut net = ready();
    (0..40).for_each(|_| net.hold_next(A, Kind::Data));
    net.send(A, B, 1, 50_000);
    net.run_until(|net| net.count(B, "messages_unexpected") == 1);
    net.release();
    net.run_for(MS);
    let recv = net.recv(B, tagged(1), 50_000);
    net.settle();
    net.assert_got(B, recv, 1, 50_000);
    assert_eq!((first_grant(&net), net.count(B, "granted_ahead")), (Some(0), 0));
}

/// A train at first; then what the peer was seen to grant at a stroke, up to five times as much.
#[test]
fn to_a_peer_that_takes_much_at_a_stroke_much_goes_ahead() {
    let mut net = Net::pair(|settings, limits| {
        settings.ahead_len = AHEAD_LEN;
        settings.grant_len = 1 << 20;
        settings.grant_ahead_len = 1 << 20;
        limits.grant_len_max = 4 << 20;
    });
    net.join(A, B);
    let most = 5 * AHEAD_LEN as usize;
    for (tag, len, granted_from) in [
        (1, 200_000, Some(0)),
        (2, 200_000, None),
        (3, 2_000_000, Some(200_704)), // whole kilobytes
        (4, 2_000_000, Some(most as u64)),
    ] {
        net.log.clear();
        let recv = net.recv(B, tagged(tag), len);
        net.send(A, B, tag, len);
        net.settle();
        net.assert_got(B, recv, tag, len);
        let first = first_grant(&net).map(|offset| if offset < 1472 { 0 } else { offset });
        assert_eq!(first, granted_from, "message {tag}");
    }
}

#[test]
fn refused_messages_are_announced_anew() {
    let tight = Plan::with(|settings, limits| {
        settings.ahead_len = AHEAD_LEN;
        limits.envelope_count_max = 4;
    });
    let mut net = Net::of(&[Plan::with(|settings, _| settings.ahead_len = AHEAD_LEN), tight]);
    net.join(A, B);
    for tag in 1..=12 {
        net.send(A, B, tag, 50_000);
    }
    net.settle();
    assert!(net.count(B, "refusals") > 0);
    for tag in 1..=12 {
        let recv = net.recv(B, tagged(tag), 50_000);
        net.settle();
        net.assert_got(B, recv, tag, 50_000);
    }
}

#[test]
fn to_all_peers_together_little_goes_ahead() {
    let plan = || Plan::with(|settings, _| settings.ahead_len = AHEAD_LEN);
    let mut net = Net::of(&[plan(), plan(), plan(), plan(), plan(), plan(), plan(), plan()]);
    for peer in 1..8 {
        net.join(A, peer);
    }
    net.log.clear();
    let recvs: Vec<_> = (1..8).map(|peer| net.recv(peer, tagged(1), 60_000)).collect();
    for peer in 1..8 {
        net.send(A, peer, 1, 60_000);
    }
    net.settle();
    for (peer, recv) in (1..8).zip(recvs) {
        net.assert_got(peer, recv, 1, 60_000);
    }
    let ahead: u64 = (1..8).map(|peer| net.count(peer, "granted_ahead")).sum();
    assert_eq!(ahead, 5);
}

/// §8.8: what goes ahead ends in a frame that was cut, so a landing ends there, too; and that frame is no measure of those behind it.
#[test]
fn a_landing_ends_with_what_goes_ahead_and_the_next_begins_there() {
    const LEN: usize = 2 * AHEAD_LEN as usize;
    let mut net = ready();
    net.train_count_max = 44;
    let recv = net.recv(B, tagged(1), LEN);
    net.send(A, B, 1, LEN);
    let (until, mut ends) = (net.now + SECOND, Vec::new());
    while net.step(until) {
        if let Some(landing) = net.ep(B).predict(0) {
            assert_eq!(landing.payload_len, 1432, "{landing:?}");
            ends.push(landing.offset + landing.len);
        }
    }
    ends.dedup();
    net.assert_got(B, recv, 1, LEN);
    assert_eq!(ends, [u64::from(AHEAD_LEN), LEN as u64]);
    assert!(net.count(B, "bytes_landed") >= LEN as u64 - 1432);
}

/// §7.9: what is not surely taken asks for a while where such a message was lost; a shorter one never does.
#[test]
fn what_leaves_with_its_post_is_surely_taken_or_none_was_lost() {
    let mut net = Net::pair(|settings, _| settings.eager_sure_len_max = 500);
    net.join(A, B);
    let mut leaves = |tag, len, is_lost| {
        let recv = net.recv(B, tagged(tag), len);
        let (bytes, peer) = (pattern(tag, len), net.peer(A, B));
        let spec = SendSpec { peer, payload: Payload::Copied(&bytes), ..net.spec(A, B, tag, len) };
        if is_lost {
            net.drop_next(A, Kind::Eager);
        }
        let leaves = net.post_lone(A, &spec).is_some();
        if leaves {
            net.run_until(|net| net.got(B, recv).is_some());
            net.run_for(MS);
        }
        leaves
    };
    assert!(leaves(1, 1000, false) && leaves(2, 1000, true));
    assert!(!leaves(3, 1000, false), "one was lost");
    assert!(leaves(4, 500, false));
}
